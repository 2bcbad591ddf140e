"""A learner's own copies: nothing written is lost, and the rest is renewed."""

import errno
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from course_utils._files import NOTEBOOKS
from course_utils.course import check, copies, progress, saved_notebook

NAME, SOLUTION, GLOSSARY = (
    "03_zero_layers.ipynb",
    "solutions/03_solution_zero_layers.ipynb",
    "GLOSSARY.md",
)
BROKEN = ("no notebook any more", "", '{"cells": [', '{"cells": [{"cell_type": "code"}]}', "[]")


def _notebook(*sources, outputs=(), **cell):
    cells = [
        {"cell_type": "code", "source": source, "outputs": list(outputs), "metadata": {}} | cell
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": {}})


@pytest.fixture
def lessons(tmp_path):
    """A course of one lesson."""
    (tmp_path / "lessons" / "solutions").mkdir(parents=True)
    (tmp_path / "lessons" / NAME).write_text(_notebook("blank"))
    (tmp_path / "lessons" / SOLUTION).write_text(_notebook("answer"))
    (tmp_path / "lessons" / "TEACHING.md").write_text("not for learners")
    (tmp_path / "lessons" / GLOSSARY).write_text("for learners")
    return tmp_path / "lessons"


@pytest.fixture
def folder(tmp_path, lessons):
    """A learner's folder."""
    assert copies.renew(tmp_path / "mine", lessons) == []
    return tmp_path / "mine"


def _files(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_lessons_and_solutions_are_copied_and_a_second_start_changes_nothing(folder, lessons):
    before = _files(folder)
    assert set(before) == {NAME, SOLUTION, GLOSSARY, copies.RECORD}
    assert before[NAME] == (lessons / NAME).read_bytes()
    times = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    assert copies.renew(folder, lessons) == [] and _files(folder) == before
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == times


@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
def test_who_helps_a_learner_is_told_how(folder, lessons, name):
    """They are copies like the lessons: renewed, and kept once somebody has written in them."""
    for text in ("Ask.", "Ask first."):
        (lessons / name).write_text(text)
        assert copies.renew(folder, lessons) == [] and (folder / name).read_text() == text
    (folder / name).write_text("Mine.")
    (lessons / name).write_text("Ask twice.")
    assert copies.renew(folder, lessons) == [name] and (folder / name).read_text() == "Mine."


def test_what_an_assistant_is_told_names_what_there_is():
    told = (NOTEBOOKS / "AGENTS.md").read_text(encoding="utf-8")
    assert saved_notebook.STUB in told
    for name in re.findall(r"`check\.(\w+)", told):
        assert hasattr(check, name)
    assert (NOTEBOOKS / "CLAUDE.md").read_text(encoding="utf-8") == "@AGENTS.md\n"


def test_the_start_says_where_an_exercise_has_gone(folder):
    """Of a copy that is kept because somebody wrote in it, though its lesson has changed."""
    heading = "### Exercise 1 · `{}` &nbsp; ●○○ 5 minutes"
    cells = [{"cell_type": "markdown", "source": heading.format(name)} for name in ("rope", "mine")]
    (folder / NAME).write_text(json.dumps({"cells": cells, "metadata": {}}))
    said = copies.why(folder, NAME)
    assert said.endswith(" `rope` is in 02b now.") and "`mine`" not in said


def test_what_nobody_wrote_in_is_renewed(folder, lessons):
    for name in (NAME, SOLUTION):
        (lessons / name).write_text(_notebook("blank", "new"))
    assert copies.renew(folder, lessons) == []
    assert (
        (folder / NAME).read_bytes()
        == (folder / SOLUTION).read_bytes()
        == (lessons / NAME).read_bytes()
    )


@pytest.mark.parametrize(
    "mine",
    [
        _notebook("my answer"),
        _notebook("blank", "a cell of mine"),
        _notebook("blank", cell_type="markdown"),
        _notebook("blank", attachments={"photo.png": {"image/png": "iVBO"}}),
        *BROKEN,
    ],
)
def test_what_is_written_stays_through_every_update(folder, lessons, mine):
    (folder / NAME).write_text(mine)
    is_broken = mine in BROKEN
    # else the lesson is what it was: nothing to say
    assert copies.renew(folder, lessons) == [NAME] * is_broken
    assert copies.readable(folder / NAME) == (not is_broken) and copies.readable(folder / GLOSSARY)
    for version in ("new", "newer"):
        (lessons / NAME).write_text(_notebook(version))
        assert copies.renew(folder, lessons) == copies.renew(folder, lessons) == [NAME]
        assert (folder / NAME).read_text() == mine
    (lessons / NAME).unlink()
    assert copies.renew(folder, lessons) == [] and (folder / NAME).read_text() == mine


def test_outputs_of_a_run_stay_until_the_lesson_changes(folder, lessons):
    run = _notebook("blank", outputs=[{"output_type": "stream", "text": "7"}], execution_count=3)
    (folder / NAME).write_text(run)
    assert copies.renew(folder, lessons) == [] and (folder / NAME).read_text() == run
    (lessons / NAME).write_text(_notebook("new"))
    assert copies.renew(folder, lessons) == [] and (folder / NAME).read_text() == _notebook("new")


def test_a_solution_with_new_pictures_is_renewed(folder, lessons):
    (lessons / SOLUTION).write_text(
        _notebook("answer", outputs=[{"output_type": "stream", "text": "a picture"}])
    )
    assert copies.renew(folder, lessons) == []
    assert (folder / SOLUTION).read_bytes() == (lessons / SOLUTION).read_bytes()


def test_a_renamed_or_deleted_copy_is_made_again_beside_it(folder, lessons):
    (folder / NAME).write_text(_notebook("my answer"))
    (lessons / NAME).write_text(_notebook("new"))
    assert copies.renew(folder, lessons) == [NAME]
    (folder / NAME).rename(folder / "03_mine.ipynb")  # what the sentence says to do
    assert copies.renew(folder, lessons) == []
    assert (folder / NAME).read_text() == _notebook("new")
    assert (folder / "03_mine.ipynb").read_text() == _notebook("my answer")


def test_a_lesson_of_another_name_leaves_no_blank_copy_behind(folder, lessons):
    (lessons / NAME).rename(lessons / "03_none.ipynb")
    (lessons / SOLUTION).unlink()
    (folder / SOLUTION).write_text(_notebook("answer", "and a note of mine"))
    assert copies.renew(folder, lessons) == []
    assert {*_files(folder)} == {"03_none.ipynb", SOLUTION, GLOSSARY, copies.RECORD}


@pytest.mark.parametrize("record", [None, "", "{", "[]", "3", '{"03_zero_layers.ipynb": 3}'])
def test_without_its_record_every_copy_counts_as_written(folder, lessons, record):
    (folder / copies.RECORD).unlink() if record is None else (folder / copies.RECORD).write_text(
        record
    )
    (lessons / NAME).write_text(_notebook("new"))
    assert copies.renew(folder, lessons) == [NAME]
    assert (folder / NAME).read_text() == _notebook("blank")
    (folder / NAME).write_text(_notebook("new"))  # as the lesson is
    assert copies.renew(folder, lessons) == []


def test_the_folder_is_the_first_that_can_be_written_to(tmp_path, monkeypatch):
    refused = tmp_path / "a file, in which there is no folder"
    refused.write_text("")
    monkeypatch.setattr(copies, "places", lambda: [refused, tmp_path])
    assert copies.workplace() == copies.workplace() == tmp_path / copies.FOLDER
    monkeypatch.setattr(copies, "places", lambda: [refused])
    with pytest.raises(
        PermissionError, match=r"can be made in .*a file.*: name one with --folder\.$"
    ):
        copies.workplace()
    monkeypatch.undo()
    assert copies.places() == [NOTEBOOKS.parent, Path.cwd(), Path.home()]


def _folder(path):
    path.mkdir()
    (path / "mine.txt").write_text("of my own")


def _pipe(path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    os.mkfifo(path)


ODD = {
    "a folder": _folder,
    "no file": _pipe,
    "a link": lambda path: path.symlink_to(path.parent / "away" / "mine.ipynb"),
}


@pytest.mark.parametrize("name", [NAME, SOLUTION, GLOSSARY, copies.RECORD])
def test_what_is_no_file_of_ours_is_left_alone_and_named(folder, lessons, subtests, name):
    (lessons / NAME).write_text(_notebook("new"))
    before = None
    for what, make in ODD.items():
        with subtests.test(what):
            copy = folder / name
            copy.unlink()
            make(copy)
            before = copy.lstat()
            assert copies.renew(folder, lessons).count(name) == 1
            assert copy.lstat() == before and not (copy.parent / "away").exists()
            assert copies.why(folder, name).startswith(f"{name} is a link, or a folder, or no file")
            shutil.rmtree(copy) if copy.is_dir() else copy.unlink()
            copies.renew(folder, lessons)
            assert copy.is_file()


def test_a_link_to_a_copy_stays_and_so_does_the_copy(folder, lessons, tmp_path):
    elsewhere = tmp_path / "drive" / "03_mine.ipynb"
    elsewhere.parent.mkdir()
    (folder / NAME).rename(elsewhere)
    (folder / NAME).symlink_to(elsewhere)
    (lessons / NAME).write_text(_notebook("new"))
    assert copies.renew(folder, lessons) == [NAME]
    (lessons / NAME).rename(lessons / "03_none.ipynb")  # it has another name from now on
    assert NAME in copies.renew(folder, lessons) and (folder / NAME).is_symlink()
    assert elsewhere.read_text() == _notebook("blank")


def test_a_folder_of_solutions_that_is_a_link_or_a_file_stays(folder, lessons, tmp_path):
    (folder / "solutions").rename(tmp_path / "drive")
    (folder / "solutions").symlink_to(tmp_path / "drive")
    (lessons / SOLUTION).write_text(_notebook("new"))
    assert copies.renew(folder, lessons) == [SOLUTION]
    assert f"{SOLUTION} is a link" in copies.why(folder, SOLUTION)
    assert [file.read_text() for file in (tmp_path / "drive").iterdir()] == [_notebook("answer")]
    (folder / "solutions").unlink()
    (folder / "solutions").write_text("of my own")
    assert copies.renew(folder, lessons) == [SOLUTION]
    assert "could not be written" in copies.why(folder, SOLUTION)
    assert (folder / "solutions").read_text() == "of my own"


LEADING_OUT = (
    "../03_mine.ipynb",
    "solutions/../../03_mine.ipynb",
    "..\\03_mine.ipynb",
    "C:03_mine.ipynb",
    "0:/03_mine.ipynb",
    "03\0.ipynb",
    "",
    ".",
    "..",
    "my_ideas.ipynb",
    "my_predictions.json",
)


def test_a_name_in_the_record_leads_to_nothing_but_copies(folder, lessons, tmp_path):
    absolute = str(tmp_path / "03_mine.ipynb")
    names = [*LEADING_OUT, absolute]
    for place in (tmp_path, folder):
        for name in ("03_mine.ipynb", "my_ideas.ipynb", "my_predictions.json"):
            (place / name).write_text("of my own")
    files = _files(tmp_path)
    record = json.loads((folder / copies.RECORD).read_text())
    content = copies._made(tmp_path / "03_mine.ipynb")
    (folder / copies.RECORD).write_text(json.dumps(record | dict.fromkeys(names, content)))
    assert copies.renew(folder, lessons) == sorted(names)
    assert _files(tmp_path) == files  # the record, too, is what it was
    for name in names:
        assert copies.why(folder, name).startswith(f"{name!r} in {copies.RECORD}")


def test_one_file_that_can_not_be_written_ends_nothing(folder, lessons, monkeypatch):
    for name in (NAME, SOLUTION):
        (lessons / name).write_text(_notebook("new"))
    write = copies.write_atomically

    def refuse(path, how):
        if path == folder / NAME:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        write(path, how)

    monkeypatch.setattr(copies, "write_atomically", refuse)
    assert copies.renew(folder, lessons) == [NAME]
    assert "could not be written: is " in copies.why(folder, NAME)
    assert (folder / NAME).read_text() == _notebook("blank")
    assert (folder / SOLUTION).read_text() == _notebook("new")
    monkeypatch.undo()
    assert copies.renew(folder, lessons) == []
    assert (folder / NAME).read_text() == _notebook("new")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_takes_nothing(folder, lessons, tmp_path, monkeypatch, number):
    (folder / NAME).write_text(_notebook("my answer"))
    (lessons / SOLUTION).write_text(_notebook("new"))
    files = _files(folder)

    def refuse(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert copies.renew(folder, lessons) == [SOLUTION] and _files(folder) == files
    # where there is nothing yet, there is nothing to go on with
    with pytest.raises(OSError, match=os.strerror(number)):
        copies.renew(tmp_path / "new", lessons)


def test_a_damaged_record_is_set_aside_and_named(folder, lessons, capsys):
    (folder / copies.RECORD).write_bytes(b"\xff{")
    copies.renew(folder, lessons)
    assert f"{folder / copies.RECORD} is damaged." in capsys.readouterr().out
    assert (folder / ".copies.damaged.json").read_bytes() == b"\xff{"
    assert json.loads((folder / copies.RECORD).read_text()).keys() == {NAME, SOLUTION, GLOSSARY}


def test_installed_the_place_is_the_same_wherever_the_command_is_typed(tmp_path, monkeypatch):
    home, one, other = (tmp_path / name for name in ("home", "one", "other"))
    for place in (home, one, other):
        place.mkdir()
    monkeypatch.setattr(copies, "INSTALLED", True)
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.chdir(one)
    assert copies.existing() is None and copies.workplace() == home / copies.FOLDER
    monkeypatch.chdir(other)
    assert copies.existing() == copies.workplace() == home / copies.FOLDER
    # one that an earlier version made where the command was typed, and the folder itself
    (other / copies.FOLDER).mkdir()
    assert copies.existing() == copies.workplace() == other / copies.FOLDER
    (home / copies.FOLDER / copies.RECORD).write_text("{}")
    monkeypatch.chdir(home / copies.FOLDER)
    assert copies.existing() == copies.workplace() == home / copies.FOLDER
    # a drive that is away
    monkeypatch.chdir(one)
    shutil.rmtree(home / copies.FOLDER)
    (home / copies.FOLDER).symlink_to(tmp_path / "away")
    with pytest.raises(FileNotFoundError, match=r"is a link to .*away, which is away"):
        copies.workplace()
    with pytest.raises(SystemExit):
        progress.main([])
    assert not (one / copies.FOLDER).exists()


def test_two_starts_at_once_end_like_one(lessons, tmp_path):
    for number in range(40):
        (lessons / f"04_{number}.ipynb").write_text(_notebook("blank"))
    mine = tmp_path / "mine"
    command = (
        "from pathlib import Path; from course_utils.course import copies; "
        f"copies.renew(Path({str(mine)!r}), Path({str(lessons)!r}))"
    )
    starts = [subprocess.Popen([sys.executable, "-c", command]) for _ in range(2)]
    assert [start.wait() for start in starts] == [0, 0]
    copies.renew(tmp_path / "alone", lessons)
    assert _files(mine) == _files(tmp_path / "alone")


def kill_at_every_moment(folders, lessons):
    """Renew the folders 0, 1, 2 … and die at the change of a file with that number.

    Run by a process of its own, which forks one for each.
    """
    for moment in itertools.count():
        folder = folders / str(moment)
        changes = itertools.count()

        def kill(event, arguments, changes=changes, moment=moment):
            is_change = event in ("os.rename", "os.remove") and Path(arguments[0]).exists()
            if is_change and next(changes) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        if not (pid := os.fork()):
            sys.addaudithook(kill)
            copies.renew(folder, lessons)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            return


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork a process")
def test_a_start_that_is_killed_loses_nothing(folder, lessons, tmp_path):
    written = _notebook("my answer")
    (folder / NAME).write_text(written)
    (lessons / "04_one_layer.ipynb").write_text(_notebook("blank"))
    (lessons / GLOSSARY).write_text("newer")
    (lessons / SOLUTION).unlink()
    killed = tmp_path / "killed"
    for moment in range(10):
        shutil.copytree(folder, killed / str(moment))
    script = (
        "import pathlib, test_copies; "
        f"test_copies.kill_at_every_moment(pathlib.Path({str(killed)!r}), "
        f"pathlib.Path({str(lessons)!r}))"
    )
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, check=True)
    # two copies are renewed, one is removed, the record; one folder's start was not killed
    untouched = {one.name for one in killed.iterdir() if _files(one) == _files(folder)}
    assert untouched == {*map(str, range(5, 10))}
    copies.renew(folder, lessons)
    for one in killed.iterdir():
        assert (one / NAME).read_text() == written
        left = [file for file in one.rglob(".*") if file.name != copies.RECORD]
        assert len(left) <= 1  # what was being written
        for file in left:
            os.utime(file, (0, 0))  # long ago
        copies.renew(one, lessons)
        assert _files(one) == _files(folder)
