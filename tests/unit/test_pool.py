"""A class's answers: what the page counts, and what becomes of files that are odd."""

import json
import os
import re

import pytest

from course_lessons.l12_questions import answer_key
from course_tools import pool
from course_utils.course import bets

KEYS = answer_key.keys()
NAMES = list(KEYS)


def _kept(sitting, right, last=24):
    """A whole sitting of which the first `right` are right; of `last` questions."""
    begins = answer_key.SITTINGS[sitting]
    found = {}
    for number, name in enumerate(NAMES[:last]):
        wrong = next(option for option in answer_key.QUESTIONS[name][1] if option != KEYS[name])
        found[begins + name] = {"guess": KEYS[name] if number < right else wrong, "confidence": 2}
    return found


def _write(folder, files):
    for name, kept in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kept if isinstance(kept, str) else json.dumps(kept), encoding="utf-8")


def _rows(folder):
    """The page's tables: the cells of each row, by its first two."""
    lines = "\n".join(pool.page(pool.people(folder))).splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    return {tuple(cell.strip() for cell in row[:2]): [cell.strip() for cell in row] for row in rows}


def test_means_changes_and_questions(tmp_path, capsys):
    before, after = [4, 6, 8, 10, 12], [14, 14, 20, 20, 22]
    people = {
        f"{n}.json": _kept("before", a) | _kept("after", b)
        for n, (a, b) in enumerate(zip(before, after, strict=True))
    }
    people["late.json"] = _kept("before", 24, last=20)  # of no whole sitting, but of its questions
    _write(tmp_path, people)
    rows = _rows(tmp_path)
    assert capsys.readouterr().out == ""
    # 8 ± t(4) · √10 / √5, and t(4) = 2.776
    assert rows["before", "5"][2:] == ["8.0", "4.1 to 11.9", "4", "12"]
    assert rows["after", "5"][2:] == ["18.0", "13.4 to 22.6", "14", "22"]
    assert rows["before", "after"][2:] == ["5", "+10.0", "+8.2 to +11.8", "62 %"]
    # 24 questions: the fifth is right from the second person on
    assert rows["5", "01"][2:6] == ["83 % of 6", "100 % of 5", "", "1 of 1"]
    assert rows["21", "07"][2:6] == ["0 % of 5", "20 % of 5", "", "1 of 5"]
    assert re.fullmatch(r"[a-d] \(4\)", rows["21", "07"][6])
    assert rows["24", "08"][2:4] == ["0 % of 5", "0 % of 5"]


def test_few_people_have_no_interval(tmp_path):
    _write(tmp_path, {"a.json": _kept("before", 9), "b.json": _kept("before", 12)})
    assert _rows(tmp_path)["before", "2"][2:] == ["10.5", "fewer than 5 people", "9", "12"]


def test_what_is_lost_in_thirty_days_has_a_minus(tmp_path):
    _write(tmp_path, {"a.json": _kept("after", 20) | _kept("30 days later", 17)})
    row = _rows(tmp_path)["after", "30 days later"]
    assert row[2:] == ["1", "−3.0", "fewer than 5 people", ""]


def test_t_is_students():
    for freedom, exact in {4: 2.776, 9: 2.262, 30: 2.042, 1000: 1.962}.items():
        assert pool._t(freedom) == pytest.approx(exact, rel=0.003)


def test_the_two_files_of_a_folder_are_one_persons(tmp_path, capsys):
    both = {bets.PREDICTIONS: _kept("before", 9) | {"03_x": {"guess": 0.5}}}
    both[answer_key.FROM_SITE] = _kept("before", 20) | _kept("after", 20)
    _write(tmp_path, {f"ada/{name}": kept for name, kept in both.items()})
    _write(tmp_path, {"bob/my_questions.json": _kept("before", 12)})
    rows = _rows(tmp_path)
    assert rows["before", "2"][4:] == ["9", "12"]  # what the notebook has of a question stands
    assert rows["before", "after"][2:4] == ["1", "+11.0"]
    assert capsys.readouterr().out == ""


def test_somebody_who_hands_in_twice_counts_once(tmp_path, capsys):
    first = _kept("before", 9)
    _write(tmp_path, {"old/a.json": first, "new/a.json": first | _kept("after", 20)})
    assert "after" in {name for name, _ in _rows(tmp_path)}
    [said] = capsys.readouterr().out.splitlines()
    old, new = os.path.join("old", "a.json"), os.path.join("new", "a.json")
    assert said == f"{old} is passed over: it has the same answers as {new}."
    # but all of a good class may be right
    _write(tmp_path, {"best.json": _kept("after", 24), "also best.json": _kept("after", 24)})
    assert _rows(tmp_path)["after", "3"][4:] == ["20", "24"]


ODD = {
    "empty.json": ("", "it is damaged, or no JSON: ask for it again"),
    "cut off.json": ('{"12_01_value": {"guess"', "it is damaged, or no JSON: ask for it again"),
    "deep.json": ("[" * 100_000, "it is damaged, or no JSON: ask for it again"),
    "digits.json": ('{"x": ' + "9" * 10_000 + "}", "it is damaged, or no JSON: ask for it again"),
    "large.json": (" " * 5_000_001, "it is too large to hold answers"),
    "list.json": ("[1, 2]", "it has no answer to one of these questions"),
    "null.json": ("null", "it has no answer to one of these questions"),
    "others.json": ('{"03_x": {"guess": 1}}', "it has no answer to one of these questions"),
    "strange.json": (
        '{"12_01_value": [1], "12_before_01_value": {"guess": ["a"]}, "12_01_root": {"first": 3}}',
        "it has no answer to one of these questions",
    ),
    "essay.txt": ("What I think", "a file of answers ends in .json"),
    ".ipynb_checkpoints/my_predictions-checkpoint.json": (
        json.dumps(_kept("before", 9)),
        "it is hidden, as copies are that a program makes for itself",
    ),
}


@pytest.mark.parametrize(("name", "said"), ODD.items(), ids=ODD)
def test_an_odd_file_is_named_and_passed_over(tmp_path, capsys, name, said):
    text, why = said
    _write(tmp_path, {name: text, "good.json": _kept("before", 9)})
    assert _rows(tmp_path)["before", "1"][2] == "9.0"
    assert capsys.readouterr().out == f"{name.replace('/', os.sep)} is passed over: {why}.\n"


def test_bytes_that_are_no_text_are_named_too(tmp_path, capsys):
    _write(tmp_path, {"good.json": _kept("before", 9)})
    (tmp_path / "photo.json").write_bytes(b"\x89PNG\xff\x00")
    (tmp_path / "a\x1b[31m.json").write_bytes(b"")
    (tmp_path / "with a mark.json").write_bytes(
        b"\xef\xbb\xbf" + json.dumps(_kept("before", 12)).encode()
    )
    assert _rows(tmp_path)["before", "2"][4:] == ["9", "12"]
    assert capsys.readouterr().out.splitlines() == [
        f"{name} is passed over: it is damaged, or no JSON: ask for it again."
        for name in ("a?[31m.json", "photo.json")
    ]


def test_an_answer_that_no_question_has_any_more_is_left_out_and_counted(tmp_path, capsys):
    kept = _kept("before", 9)
    kept["12_before_01_value"]["guess"] = "an option of an older lesson"
    _write(tmp_path, {"a.json": kept})
    rows = _rows(tmp_path)
    assert ("before", "1") not in rows  # no whole sitting
    assert rows["1", "01"][2] == "" and rows["2", "01"][2] == "100 % of 1"
    said = capsys.readouterr().out
    assert said == "a.json: 1 answer is left out, for no question has it now.\n"


def test_the_command_writes_a_page_that_names_nobody(tmp_path, capsys):
    _write(tmp_path / "class", {"Ada Lovelace/my_questions.json": _kept("before", 9)})
    out = tmp_path / "page.md"
    pool.main([str(tmp_path / "class"), "--out", str(out)])
    assert "Ada" not in out.read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() == str(out)


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_without_answers_the_command_says_so(tmp_path, capsys, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        pool.main([str(tmp_path / name), "--out", str(tmp_path / "page.md")])
    assert "There is no file of answers in" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
