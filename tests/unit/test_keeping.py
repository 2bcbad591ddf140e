"""What is kept for a learner stops no lesson, whatever has become of its file."""

import errno
import json
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_utils.course import bets, case_score, claims, keeping, progress

QUESTION = ("How many?", ["1", "2"])
BET = {"question": "Q?", "guess": "1", "confidence": 3}
# Not UTF-8, cut off, merged, no names, too deep for Python.
DAMAGED = (
    b"",
    b"\xff\xfe\x00",
    b'{"00_cut": {"que',
    b"<<<<<<< mine\n{}\n",
    b"[]",
    b"3",
    b"null",
    b'{"x": ' + b"[" * 100_000,
)


@pytest.fixture(autouse=True)
def learner(monkeypatch, tmp_path):
    """A folder of its own, where no author and no CI looks on."""
    monkeypatch.delenv(claims.MODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bets, "_cards", {})
    monkeypatch.setattr(keeping, "_unwritten", {})
    monkeypatch.setattr(claims, "expectations", dict)
    monkeypatch.setattr(bets, "display", lambda *_, **__: None)
    return tmp_path


def use_all():
    """All that reads and writes a learner's files."""
    bets.predict("x", *QUESTION)
    bets._cards["x"].lock("0", "2")
    claims.claim("s", "2", predicted="x")
    bets.calibration()
    case_score.add("box 1", "digest", "true")
    return case_score.summary()


def test_a_damaged_file_is_set_aside_and_named(learner, capsys, subtests):
    names = (bets.PREDICTIONS, case_score.FILE)
    for number, content in enumerate(DAMAGED, 1):
        more = f"-{number}" if number > 1 else ""
        with subtests.test(content=content[:20]):
            for name in names:
                (learner / name).write_bytes(content)
            assert "box 1: 1 try" in use_all()
            said = capsys.readouterr().out
            for name in names:
                aside = name.replace(".json", f".damaged{more}.json")
                # named once
                assert said.count(f"{learner / name} is damaged.") == 1 and f", as {aside}," in said
                assert (learner / aside).read_bytes() == content
            assert bets.guesses()["x"]["right"] is False
            bets._cards.clear()


ODD = (
    3,
    None,
    [],
    "a bet",
    {"guess": ["1"]},
    {"guess": None},
    {"guess": 10**400},
    {"guess": "1", "confidence": 0},
    {"guess": "1", "confidence": 4},
    {"guess": "1", "confidence": "sure"},
    {"guess": "1", "confidence": 1.5},
    {"guess": "1", "question": 3, "confidence": 3, "right": False},
    {"guess": "1", "between": [1]},
    {"guess": "1", "between": ["a", "b"]},
    {"guess": 1.0, "within": "much"},
    {"guess": 1.0, "truth": 10**400},
    {"guess": "1", "truth": "2", "because": 3},
    {"guess": "1", "first": [1]},
)


def test_an_odd_entry_is_passed_over_and_stays(learner, subtests):
    for entry in ODD:
        with subtests.test(entry=str(entry)[:60]):
            made = {"x": entry, "odd": entry, "00_y": BET | {"right": False}}
            (learner / bets.PREDICTIONS).write_text(json.dumps(made))
            assert bets.guesses().keys() == {"00_y"}
            use_all()
            bets.predict("odd", "How many?", unit="%")
            claims.claim("t", 0.5, "%", predicted="odd")
            assert json.loads((learner / bets.PREDICTIONS).read_text())["odd"] == entry
            bets._cards.clear()
    (learner / case_score.FILE).write_text('{"box 1": 3, "box 2": {"digest": []}}')
    assert case_score.summary() == "Sealed boxes. box 2: 1 try, 0 false, 10 points to win."
    assert case_score.add("box 1", "digest", "true") == "1 try, 0 false, 10 points to win"


def test_what_utf8_or_json_can_not_write_is_kept_all_the_same(learner):
    (learner / bets.PREDICTIONS).write_text('{"00_y": {"question": "\\ud800", "guess": "1"}}')
    assert bets.guesses()["00_y"]["question"] == "?"
    bets.predict("x", *QUESTION)
    bets._cards["x"].lock("0", "2")
    claims.claim("s", object, predicted="x")
    assert "class" in json.loads((learner / bets.PREDICTIONS).read_text())["x"]["truth"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_what_can_not_be_written_stays_in_the_kernel_and_is_said_once(
    learner, monkeypatch, capsys, number
):
    def refuse(**_):
        raise OSError(number, os.strerror(number))

    keeping.enter(bets.PREDICTIONS, "00_y", BET)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkstemp", refuse)
        for _ in range(2):
            assert "box 1: 1 try" in use_all()
        assert bets.guesses().keys() == {"00_y", "x"}
        can_not = f"can't be written ({os.strerror(number)})"
        said = bets._cards["x"].state["said"]
        assert "You bet 1, sure." in said and can_not in said
    told = capsys.readouterr().out
    for name in (bets.PREDICTIONS, case_score.FILE):
        assert told.count(f"{learner / name} {can_not}") == 1

    # Once there is room, all of it is written.
    keeping.enter(bets.PREDICTIONS, "z", BET)
    on_disk = json.loads((learner / bets.PREDICTIONS).read_text())
    assert on_disk.keys() == {"00_y", "x", "z"}


def test_what_is_no_file_stays_as_it_is(learner, capsys):
    (learner / bets.PREDICTIONS).mkdir()
    (learner / case_score.FILE).symlink_to(learner / "away" / "mine.json")
    assert "box 1: 1 try" in use_all() and bets.guesses().keys() == {"x"}
    said = capsys.readouterr().out
    assert f"{bets.PREDICTIONS} can't be read" in said and f"{case_score.FILE} can't be" in said
    assert (learner / bets.PREDICTIONS).is_dir() and (learner / case_score.FILE).is_symlink()
    assert not (learner / "away").exists()


def test_a_link_is_written_through(learner):
    (learner / "drive").mkdir()
    (learner / "drive" / "mine.json").write_text("{}")
    (learner / bets.PREDICTIONS).symlink_to(learner / "drive" / "mine.json")
    use_all()
    assert (learner / bets.PREDICTIONS).is_symlink()
    assert "x" in json.loads((learner / "drive" / "mine.json").read_text())


def test_a_kernel_stays_with_its_notebook_wherever_it_goes(learner, monkeypatch, tmp_path_factory):
    monkeypatch.setattr(keeping, "HERE", learner)
    monkeypatch.setattr(keeping, "get_ipython", lambda: SimpleNamespace(kernel=None))
    bets.predict("x", *QUESTION)
    bets._cards["x"].lock("0", "2")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    claims.claim("s", "2", predicted="x")
    assert not list(Path.cwd().iterdir())
    assert bets.guesses()["x"]["truth"] == "2"
    lesson = {"cells": [{"cell_type": "markdown", "source": "# 00 · Start"}]}
    (learner / "00_start.ipynb").write_text(json.dumps(lesson))
    assert "1 made" in repr(progress.Overview())
