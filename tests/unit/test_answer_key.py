"""Lesson 12's keys: a question has one only where one option alone holds."""

import json
import re

import pytest
import torch

from course_lessons.l12_questions import answer_key
from course_tools import authoring, bet_source
from course_utils._files import DOCS
from course_utils.course import bets, claims

ASKED = ("1. Which?", ["one", "another", "a third"])
LESSON = "12_questions"


@pytest.mark.parametrize(
    ("holds", "key"),
    [
        ((True, False, False), "one"),
        ((False, False, True), "a third"),
        ((False, torch.tensor(True), torch.tensor(False)), "another"),
        ((False, False, False), "0 of these"),
        ((True, True, False), "2 of these"),
        ((True, True, True), "3 of these"),
    ],
)
def test_a_key_is_the_one_option_that_holds(holds, key):
    assert answer_key.true_one(ASKED, *holds) == key


@pytest.mark.parametrize("holds", [(True,), (True, False), (True, False, False, False)])
def test_every_option_is_tested(holds):
    with pytest.raises(ValueError, match="argument"):
        answer_key.true_one(ASKED, *holds)


def _questions():
    """Each question of part B: its number, its options, and the key, as its lesson's table has it.

    The options are those that the notebook stores; the key is the claim that answers the bet.
    """
    cells = authoring.read_notebook(authoring.solution_path(LESSON)).cells
    asked, keys = {}, {}
    for cell in cells:
        source = bet_source.read(cell.source) if cell.cell_type == "code" else None
        for name in source.asked if source else []:
            [said] = [output.data["text/plain"] for output in cell.outputs if "data" in output]
            question, _, options = said.removeprefix("Predict: ").partition("\n")
            asked[name] = (int(question.partition(".")[0]), options.split(" · "))
        for statement in source.statements if source else []:
            if statement.bet:
                keys[statement.bet] = claims.table(LESSON)[statement.text]["value"]
    return {number: (name, options, keys.get(name)) for name, (number, options) in asked.items()}


def test_the_teachers_table_has_the_keys_of_the_lesson():
    text = (DOCS / "TEACHING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\w+) \| .* \| ([a-d]) \| (.*) \|$", text, re.MULTILINE)
    questions = _questions()
    assert [int(number) for number, *_ in rows] == sorted(questions) == [*range(1, 25)]
    for number, lesson, letter, others in rows:
        name, options, key = questions[int(number)]
        assert name.split("_")[1] == lesson, number
        assert "abcd".index(letter) == options.index(key), number
        # each other option has its reason, in order
        letters = "abcd"[: len(options)].replace(letter, "")
        assert re.findall(r"(?:^|; )([a-d]): ", others) == list(letters), number


def test_bets_before_and_after_are_counted_by_lesson(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(claims.MODE)
    kept = {
        "12_before_01_a": {"guess": "x"},
        "12_01_a": {"question": "1. Which?", "guess": "y", "truth": "y"},
        "12_before_01_b": {"guess": "y"},
        "12_01_b": {"question": "2. And?", "guess": "x", "truth": "y"},
        # seen first, the key is no longer a bet
        "12_before_02_c": {"guess": "x"},
        "12_02_c": {"question": "3. So?", "guess": "y", "truth": "y", "first": {"guess": "x"}},
        "12_02_d": {"question": "4. No?", "guess": "y", "truth": "y"},  # not asked before
    }
    (tmp_path / bets.PREDICTIONS).write_text(json.dumps(kept), encoding="utf-8")
    answer_key.before_and_after()
    assert capsys.readouterr().out.splitlines() == [
        "all of  3: before 1, after 1",
        "01  of  2: before 1, after 1",
        "02  of  1: before 0, after 0",
        "question 2, new: “x”; the key: “y”",
        "question 3, as before: “x”; the key: “y”",
    ]
