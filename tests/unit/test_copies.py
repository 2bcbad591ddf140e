"""A learner's own copies: nothing written is lost, and the rest is renewed."""

import json
from pathlib import Path

import pytest

from course_utils._files import NOTEBOOKS
from course_utils.course import copies

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
