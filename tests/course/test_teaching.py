"""The teacher's guide against the notebooks, and its commands as they are printed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils._files import ROOT, lesson_of
from course_utils.tools import authoring, export, links

DOCUMENT = "notebooks/TEACHING.md"
GUIDE = (ROOT / DOCUMENT).read_text(encoding="utf-8")
LESSONS = [lesson_of(path) for path in authoring.lessons() if f"{lesson_of(path)}.ipynb" != links.CONTENTS]
HOME = r"\*\*(?:At home|Quotations to share out)\.\*\*"
PARTS = (r"\*\*Goal\.\*\*", r"\| minutes \| where \| what happens \|", HOME)
PARTS += (r"\*\*What people get wrong\*\*", r"\*\*For discussion\*\*", r"\*\*On the board\*\*")
lessons = pytest.mark.parametrize("lesson", LESSONS)


def _sections(text: str) -> dict[str, str]:
    """Heading → what stands below it, for the headings of the second level."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _markdown(lesson: str) -> str:
    cells = authoring.read(authoring.solution_path(lesson)).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def _guide(lesson: str) -> str:
    title = re.search(r"^# (.*)$", _markdown(lesson), flags=re.MULTILINE)[1]
    return _sections(GUIDE)[title]


def _exercises(lesson: str) -> list[str]:
    return re.findall(r"^### Exercise \d+ · `(\w+)`", _markdown(lesson), flags=re.MULTILINE)


def _plan(text: str) -> list[list[str]]:
    """The rows of a lesson's plan: minutes, where, what happens."""
    rows = re.findall(r"^\| (\d+) \| (.*) \| (.*) \|$", text, flags=re.MULTILINE)
    return [[int(minutes), where, what] for minutes, where, what in rows]


@lessons
def test_a_lesson_has_its_section_with_all_parts_in_order(lesson):
    text = _guide(lesson)
    places = [re.search(part, text) for part in PARTS]
    assert all(places), [part for part, place in zip(PARTS, places, strict=True) if not place]
    assert [place.start() for place in places] == sorted(place.start() for place in places)
    mistakes, rest = text.split("**What people get wrong**")[1].split("**For discussion**")
    discussion, board = rest.split("**On the board**")
    assert mistakes.count("\n- ") >= 4 and discussion.count("\n- *") >= 3 and board.count("```") == 2
    assert len(text.splitlines()) <= 60


@lessons
def test_the_minutes_of_a_plan_add_up_to_90(lesson):
    assert sum(minutes for minutes, *_ in _plan(_guide(lesson))) == 90


@lessons
def test_a_part_of_a_plan_has_time_for_its_exercises_and_five_minutes_to_talk(lesson):
    heading = r"^### Exercise \d+ · `(\w+)`.* (\d+) minutes"
    takes = {name: int(minutes) for name, minutes in re.findall(heading, _markdown(lesson), flags=re.MULTILINE)}
    for minutes, _, what in _plan(_guide(lesson)):
        names = re.findall(r"`(\w+)`", what)
        assert not names or sum(takes[name] for name in names) + 5 <= minutes


@lessons
def test_every_exercise_is_named_and_none_that_does_not_exist(lesson):
    text, exercises = _guide(lesson), _exercises(lesson)
    plan = [name for _, _, what in _plan(text) for name in re.findall(r"`(\w+)`", what)]
    home = re.search(HOME + r"(.*?)\n\n", text, flags=re.DOTALL)[1]
    assert sorted([*plan, *re.findall(r"`(\w+)`", home)]) == sorted(exercises)  # in class or at home


@lessons
def test_every_section_is_named_and_none_that_does_not_exist(lesson):
    headings = re.findall(r"^## (\d+ · .*)$", _markdown(lesson), flags=re.MULTILINE)
    named = re.findall(r"\*(\d+ · [^*]+)\*", _guide(lesson).replace("\n", " "))
    assert set(named) == set(headings)
    where = [name for _, where, _ in _plan(_guide(lesson)) for name in re.findall(r"\*(\d+ · [^*]+)\*", where)]
    assert [headings.index(name) for name in where] == sorted(headings.index(name) for name in where)


def test_the_syllabi_hold_every_lesson():
    ten, two = GUIDE.split("### Two days")
    sessions = re.findall(r"^\| (\d+) \| (\d\d) \|", ten, flags=re.MULTILINE)
    assert sessions == [(str(number), f"{number:02}") for number in range(1, 12)]
    rows = re.findall(r"^\| ([12]) \| (\d\d:\d\d)–(\d\d:\d\d) \| (\d\d) \|", two, flags=re.MULTILINE)
    assert [lesson for *_, lesson in rows] == [f"{number:02}" for number in range(1, 12)]
    times = [f"{day} {time}" for day, *hours, _ in rows for time in hours]
    assert times == sorted(times)
    assert {lesson[:2] for lesson in LESSONS} <= {lesson for *_, lesson in rows}
    for heading in _sections(GUIDE):  # a lesson that is still to come has its section already, at most
        assert not re.match(r"\d\d · ", heading) or heading[:2] in {lesson for *_, lesson in rows}


@pytest.fixture
def checkout(tmp_path):
    """A folder in which the guide's commands find what they name."""
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks", target_is_directory=True)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for command, module in (("nbgrader", "nbgrader"), ("python", None), ("jupyter", "jupyter")):
        line = f'exec "{sys.executable}" {f"-m {module} " if module else ""}"$@"\n'
        file = tmp_path / ".venv" / "bin" / command
        file.write_text(f"#!/bin/sh\n{line}")
        file.chmod(0o755)
    return tmp_path


def _compare_with_the_learners_copy(release: Path, lesson: str) -> None:
    released, learner = authoring.read(release), authoring.read(ROOT / "notebooks" / f"{lesson}.ipynb")
    assert len(released.cells) == len(learner.cells) and len(_exercises(lesson)) > 0
    stubs = 0
    for ours, theirs in zip(learner.cells, released.cells, strict=True):
        if ours.id in links.IDS:  # nbgrader knows nothing of our line of links, which here are the solution's
            continue
        stub = "# YOUR CODE HERE\n    raise NotImplementedError()"
        stubs += stub in theirs.source
        assert theirs.source.replace(stub, authoring.STUB) == ours.source
        assert not theirs.get("outputs") and not theirs.get("execution_count")
    assert stubs == len(_exercises(lesson))
    assert not any(marker in cell.source for cell in released.cells for marker in authoring.MARKERS)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the commands are for a Unix shell")
def test_nbgraders_command_works_as_printed(checkout, commands):
    done = subprocess.run(["sh", "-ec", commands(DOCUMENT, "nbgrader")], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lesson = "03_zero_layers"
    _compare_with_the_learners_copy(checkout / "runs/class/release" / lesson / f"{lesson}.ipynb", lesson)


@pytest.mark.slow
def test_nbgraders_command_works_for_every_lesson(tmp_path, monkeypatch, commands):
    from nbgrader.apps import GenerateAssignmentApp

    (line,) = (line for line in commands(DOCUMENT, "nbgrader").splitlines() if "generate_assignment" in line)
    monkeypatch.chdir(tmp_path)
    for lesson in LESSONS:
        source = tmp_path / "source" / lesson
        source.mkdir(parents=True)
        (source / f"{lesson}.ipynb").write_bytes(authoring.solution_path(lesson).read_bytes())
        arguments = shlex.split(line.replace("03_zero_layers", lesson))[2:]
        GenerateAssignmentApp.clear_instance()
        app = GenerateAssignmentApp.instance()
        app.initialize(arguments)
        app.start()
        _compare_with_the_learners_copy(tmp_path / "release" / lesson / f"{lesson}.ipynb", lesson)
    GenerateAssignmentApp.clear_instance()


def test_the_export_commands_work_as_printed(tmp_path, monkeypatch, commands):
    monkeypatch.chdir(tmp_path)
    install, *lines = commands(DOCUMENT, "export").splitlines()
    assert install.endswith('pip install -e ".[teach]"') and len(lines) == 3
    for line in lines:
        _, _, module, *arguments = shlex.split(line)
        assert module == "course_utils.tools.export" and export.main(arguments) == 0
    made = sorted(file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.html"))
    names = [
        f"{folder}/03_zero_layers.{kind}.html" for folder, kind in (("runs/export", "page"), ("runs/export", "slides"))
    ]
    assert made == [*names, "runs/handouts/03_zero_layers.handout.html"]
    assert all(Path(name).name in GUIDE for name in made)


def test_readme_points_to_the_guide():
    assert "notebooks/TEACHING.md" in (ROOT / "README.md").read_text(encoding="utf-8")
