"""The teacher's guide against the notebooks, and its commands as they are printed."""

import csv
import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import lab
import nbformat
import pytest

from course_lessons.l12_questions import answer_key
from course_tools import assignment, authoring, export, grade, site
from course_utils._files import ROOT, lesson_of, number_of
from course_utils.course import outline, saved_notebook

DOCUMENT = "docs/TEACHING.md"
GUIDE = (ROOT / DOCUMENT).read_text(encoding="utf-8")
LESSONS = authoring.taught()
HOME = r"\*\*(?:At home|Quotations to share out)\.\*\*"
PARTS = (r"\*\*Goal\.\*\*", r"\| minutes \| where \| what happens \|", HOME)
PARTS += (r"\*\*What people get wrong\*\*", r"\*\*For discussion\*\*", r"\*\*On the board\*\*")
lessons = pytest.mark.parametrize("lesson", LESSONS)


def _sections(text: str) -> dict[str, str]:
    """Heading → what stands below it, for the headings of the second level."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _words(lesson: str) -> str:
    cells = authoring.read_notebook(authoring.solution_path(lesson)).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def _guide(lesson: str) -> str:
    title = re.search(r"^# (.*)$", _words(lesson), flags=re.MULTILINE)[1]
    return _sections(GUIDE)[title]


def _exercises(lesson: str) -> list[str]:
    return re.findall(r"^### Exercise \d+ · `(\w+)`", _words(lesson), flags=re.MULTILINE)


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
    assert (
        mistakes.count("\n- ") >= 4 and discussion.count("\n- *") >= 3 and board.count("```") == 2
    )
    assert len(text.splitlines()) <= 60


@lessons
def test_the_minutes_of_a_plan_add_up_to_90(lesson):
    assert sum(minutes for minutes, *_ in _plan(_guide(lesson))) == 90


@lessons
def test_a_part_of_a_plan_has_time_for_its_exercises_and_five_minutes_to_talk(lesson):
    heading = r"^### Exercise \d+ · `(\w+)`.* (\d+) minutes"
    takes = {
        name: int(minutes)
        for name, minutes in re.findall(heading, _words(lesson), flags=re.MULTILINE)
    }
    for minutes, _, what in _plan(_guide(lesson)):
        names = re.findall(r"`(\w+)`", what)
        assert not names or sum(takes[name] for name in names) + 5 <= minutes


@lessons
def test_a_guide_names_an_exercise_once_and_none_that_does_not_exist(lesson):
    text = _guide(lesson)
    plan = [name for _, _, what in _plan(text) for name in re.findall(r"`(\w+)`", what)]
    home = re.search(HOME + r"(.*?)\n\n", text, flags=re.DOTALL)[1]
    named = [*plan, *re.findall(r"`(\w+)`", home)]
    assert len({*named}) == len(named) and {*named} <= {*_exercises(lesson)}


@lessons
def test_every_section_is_named_and_none_that_does_not_exist(lesson):
    headings = re.findall(r"^## (\d+ · .*)$", _words(lesson), flags=re.MULTILINE)
    named = re.findall(r"\*(\d+ · [^*]+)\*", _guide(lesson).replace("\n", " "))
    assert set(named) == set(headings)
    where = [
        name
        for _, where, _ in _plan(_guide(lesson))
        for name in re.findall(r"\*(\d+ · [^*]+)\*", where)
    ]
    assert [headings.index(name) for name in where] == sorted(
        headings.index(name) for name in where
    )


def test_the_syllabi_hold_every_lesson():
    eight, rest = GUIDE.split("### Two days")
    two, afternoon = rest.split("### One afternoon")
    sessions = re.findall(r"^\| (\d+) \| (\d\d) \|", eight, flags=re.MULTILINE)
    spine = [lesson for lesson in outline.part("spine") if lesson != "00"]
    assert sessions == [(str(n), lesson) for n, lesson in enumerate(spine, 1)]
    electives = re.findall(r"\*\*(\d\d)\*\* \(", eight)
    at_home = ("09b", "09c", "12")  # no sessions
    assert electives == [one for one in outline.part("elective") if one not in at_home]
    rows = re.findall(
        r"^\| ([12]) \| (\d\d:\d\d)–(\d\d:\d\d) \| (\d\d) \|", two, flags=re.MULTILINE
    )
    assert [lesson for *_, lesson in rows] == sorted([*spine, *electives])
    times = [f"{day} {time}" for day, *hours, _ in rows for time in hours]
    assert times == sorted(times)
    assert {lesson[:2] for lesson in LESSONS} <= {lesson for *_, lesson in rows}
    for heading in _sections(
        GUIDE
    ):  # a lesson that is still to come has its section already, at most
        assert not re.match(r"\d\d · ", heading) or heading[:2] in {lesson for *_, lesson in rows}
    hours = re.findall(r"^\| (\d\d:\d\d)–(\d\d:\d\d) \| (\d\d) \|", afternoon, flags=re.MULTILINE)
    assert [lesson for *_, lesson in hours] == ["00", "03", "04", "07", "13"]
    assert (hours[0][0], hours[-1][1]) == ("13:00", "17:00")
    times = [time for *both, _ in hours for time in both]
    assert times == sorted(times)


def test_a_section_that_a_syllabus_names_is_there():
    tables = GUIDE.split("## Running the class")[0]
    for row in tables.splitlines():
        lesson = re.search(r"\| (\d\d) \|", row)
        for first, last in re.findall(r"sections? (\d)(?: (?:and|to) (\d))?", row):
            numbers = {int(one) for one in (first, last) if one}
            name = next(
                name for name in map(lesson_of, authoring.lessons()) if number_of(name) == lesson[1]
            )
            assert max(numbers) <= len(
                re.findall(r"^## \d+ · ", _words(name), flags=re.MULTILINE)
            ), row


@pytest.fixture
def checkout(tmp_path):
    """A folder in which the guide's commands find what they name."""
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks", target_is_directory=True)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for command, module in (
        ("nbgrader", "nbgrader"),
        ("alembic", "alembic"),
        ("python", None),
        ("jupyter", "jupyter"),
    ):
        line = f'exec "{sys.executable}" {f"-m {module} " if module else ""}"$@"\n'
        file = tmp_path / ".venv" / "bin" / command
        file.write_text(f"#!/bin/sh\n{line}")
        file.chmod(0o755)
    return tmp_path


def _compare_with_the_learners_copy(release: Path, lesson: str) -> None:
    """The class gets the learner's copy, with each check in a locked cell of its own."""
    released, learner = (
        authoring.read_notebook(release),
        authoring.read_notebook(ROOT / "notebooks" / f"{lesson}.ipynb"),
    )
    checks = {
        cell.metadata.nbgrader.grade_id: cell for cell in released.cells if _marked(cell, "grade")
    }
    rest = [cell for cell in released.cells if not _marked(cell, "grade")]
    blanks = [cell for cell in rest if _marked(cell, "solution")]
    assert [f"{cell.metadata.nbgrader.grade_id}-check" for cell in blanks] == list(checks)
    assert [cell.metadata.nbgrader.grade_id for cell in blanks] == _exercises(lesson)
    assert [cell.metadata.nbgrader.points for cell in checks.values()] == [*_dots(lesson).values()]
    for ours, theirs in zip(learner.cells, rest, strict=True):
        line = (
            checks[f"{theirs.metadata.nbgrader.grade_id}-check"].source
            if _marked(theirs, "solution")
            else ""
        )
        assert (line in ours.source) and theirs.source.split() == ours.source.replace(
            line, ""
        ).split()
    assert not any(marker in cell.source for cell in released.cells for marker in authoring.MARKERS)


def _marked(cell: authoring.NotebookNode, kind: str) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get(kind))


def _dots(lesson: str) -> dict[str, int]:
    return grade.points()[lesson.split("_")[0]]


def test_an_assignment_that_a_teacher_has_changed_is_not_written_over(tmp_path, capsys):
    lesson = "03_zero_layers"
    command = [lesson, "--out", str(tmp_path)]
    assignment.main(command)
    path = tmp_path / "source" / lesson / f"{lesson}.ipynb"
    assignment.main(command)  # the same again
    path.write_text(changed := path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(SystemExit):
        assignment.main(command)
    assert (
        f"{path} is there" in capsys.readouterr().err
        and path.read_text(encoding="utf-8") == changed
    )


@pytest.mark.built
@pytest.mark.skipif(os.name == "nt", reason="the commands are for a Unix shell")
def test_the_pooling_command_works_as_printed(checkout, commands):
    name, (_, options) = next(iter(answer_key.QUESTIONS.items()))
    answers = checkout / "runs/answers/ada.json"
    answers.parent.mkdir(parents=True)
    answers.write_text(json.dumps({f"12_before_{name}": {"guess": options[0]}}), encoding="utf-8")
    _run(commands(DOCUMENT, "pooling"), checkout)
    assert "# 1 person" in (checkout / "questions.md").read_text(encoding="utf-8")


@pytest.mark.built
@pytest.mark.skipif(os.name == "nt", reason="the commands are for a Unix shell")
def test_nbgraders_commands_work_as_printed(checkout, commands, monkeypatch):
    """One student is right, two are wrong, one leaves blanks: nbgrader and our page say so."""
    lesson, exercise = "03_zero_layers", "exact_weights"
    prepare, path, _, release = commands(DOCUMENT, "nbgrader").splitlines()
    _run(prepare, checkout)
    monkeypatch.setenv("PATH", f"{checkout / '.venv/bin'}{os.pathsep}{os.environ['PATH']}")
    assert path == 'PATH="$PWD/.venv/bin:$PATH"'
    home = checkout / "runs/class"
    source = home / f"source/{lesson}/{lesson}.ipynb"
    # of the lesson one exercise, so that it runs in seconds
    notebook = authoring.read_notebook(source)
    wanted = [
        cell
        for cell in notebook.cells
        if exercise in cell.metadata.get("nbgrader", {}).get("grade_id", "")
    ]
    imports = "import torch\nfrom torch import Tensor\n\n"
    imports += f"from course_lessons import l{lesson}\nfrom course_utils import check"
    notebook.cells = [nbformat.v4.new_code_cell(imports, id="imports"), *wanted]
    source.write_text(nbformat.v4.writes(notebook), encoding="utf-8")
    _run(release, home)
    blank = (home / f"release/{lesson}/{lesson}.ipynb").read_text(encoding="utf-8")
    lines = {
        "right": r"return torch.eye(len(table)), table",
        "wrong": "return table, table",
        "blank": json.dumps(saved_notebook.STUB)[1:-1],
    }
    for number, (kind, line) in enumerate([*lines.items(), ("wrong", lines["wrong"])]):
        file = home / f"submitted/{kind}-{number}/{lesson}/{lesson}.ipynb"
        file.parent.mkdir(parents=True)
        file.write_text(
            blank.replace(json.dumps(saved_notebook.STUB)[1:-1], line), encoding="utf-8"
        )
    _run(commands(DOCUMENT, "autograding"), home)
    with (home / "grades.csv").open(encoding="utf-8") as table:
        theirs = {row["student_id"]: float(row["score"]) for row in csv.DictReader(table)}
    dots = _dots(lesson)[exercise]
    assert (
        theirs == {name: dots if name.startswith("right") else 0 for name in theirs}
        and len(theirs) == 4
    )
    _run(commands(DOCUMENT, "grading"), home)
    table = (home / "class.md").read_text(encoding="utf-8")
    assert re.search(rf"`{exercise}` \| {dots} \| 1 \| 2 \| 1 \| .*\(2 times\)", table)
    assert re.search(rf"right-0 \| {dots} \|.*✓", table) and re.search(r"blank-2 \| 0 \|", table)
    pages = [*(home / "feedback").rglob("*.html")]
    assert len(pages) == 4 and all(
        "exact_weights" in page.read_text(encoding="utf-8") for page in pages
    )


def _run(lines: str, folder: Path) -> None:
    done = subprocess.run(["sh", "-ec", lines], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory):
    """One folder for all lessons: to make its database takes longer than a lesson."""
    return tmp_path_factory.mktemp("class")


@pytest.mark.built
@lessons
def test_nbgrader_makes_the_learners_copy_of_every_lesson(lesson, gradebook, monkeypatch):
    from nbgrader.apps import GenerateAssignmentApp

    monkeypatch.chdir(gradebook)
    # alembic is there
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assignment.main([lesson, "--out", str(gradebook)])
    GenerateAssignmentApp.clear_instance()
    app = GenerateAssignmentApp.instance()
    app.initialize([lesson])
    app.start()
    GenerateAssignmentApp.clear_instance()
    _compare_with_the_learners_copy(gradebook / "release" / lesson / f"{lesson}.ipynb", lesson)


@pytest.mark.built
@lab.in_browser
@lessons
def test_a_handout_has_at_most_two_pages_an_hour(browser, lesson):
    page = browser.new_page()
    page.set_content(export.export("handout", lesson))
    assert 0 < len(lab.printed(page)) <= math.ceil(_minutes(lesson) / 30)


def _minutes(lesson: str) -> int:
    """How long a lesson takes, as it says itself, or as its exercises say together."""
    opening = _words(lesson).split("\n## ")[0]
    said = int(re.findall(r"(\d+) minutes", opening)[0])
    return max(
        said,
        sum(map(int, re.findall(r"^### Exercise .*?(\d+) minutes", _words(lesson), re.MULTILINE))),
    )


def test_the_export_commands_work_as_printed(tmp_path, monkeypatch, commands):
    monkeypatch.chdir(tmp_path)
    install, *lines, last = commands(DOCUMENT, "export").splitlines()
    assert install.endswith('pip install -e ".[teach]"') and len(lines) == 2
    # test_site.py builds it
    assert last.endswith(f"-m {site.__name__}") and "runs/site/index.html" in GUIDE
    for line in lines:
        _, _, module, *arguments = shlex.split(line)
        assert module == "course_tools.export" and export.main(arguments) == 0
    made = sorted(file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.html"))
    assert made == [
        "runs/export/03_zero_layers.slides.html",
        "runs/handouts/03_zero_layers.handout.html",
    ]
    assert all(Path(name).name in GUIDE for name in made)


def test_readme_points_to_the_guide():
    assert "docs/TEACHING.md" in (ROOT / "README.md").read_text(encoding="utf-8")
