"""Lesson 12's keys: a question has one only where one option alone holds."""

import json
import re

import pytest
import torch

from course_lessons.l12_questions import answer_key
from course_tools import authoring, bet_source
from course_utils._files import DOCS, number_of
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


def test_the_questions_of_the_notebook_are_those_of_the_table():
    asked = {name: (options, key) for name, options, key in _questions().values()}
    before = asked_before()
    assert len(answer_key.QUESTIONS) == 24
    for name, (question, options) in answer_key.QUESTIONS.items():
        assert asked[f"12_{name}"] == (options, answer_key.keys()[name])
        assert before[f"12_before_{name}"] == (question, options)


def asked_before():
    """Each question of part A, by name: the question and its options, as the notebook stores it."""
    found = {}
    for cell in authoring.read_notebook(authoring.solution_path(LESSON)).cells:
        if cell.cell_type == "code":
            for name in bet_source.read(cell.source).asked:
                [said] = [output.data["text/plain"] for output in cell.outputs if "data" in output]
                question, _, options = said.removeprefix("Predict: ").partition("\n")
                found[name] = (question, options.split(" · "))
    return found


def test_the_third_sitting_asks_all_again():
    cells = authoring.read_notebook(authoring.solution_path(LESSON)).cells
    [cell] = [cell for cell in cells if cell.cell_type == "code" and "12_later_" in cell.source]
    said = [output.data["text/plain"] for output in cell.outputs if "data" in output]
    questions = [text.removeprefix("Predict: ").partition("\n")[0] for text in said]
    assert questions == [question for question, _ in answer_key.QUESTIONS.values()]


def test_each_key_is_shown_in_sections_that_there_are():
    paths = {number_of(path.name): path for path in authoring.lessons()}
    cells = {cell.id: cell for cell in authoring.read_notebook(paths["12"]).cells}
    for name, shown in answer_key.SHOWN.items():
        why = cells[f"why-{name.replace('_', '-')}"].source
        lessons = re.fullmatch(r"(?s).* \*\(Lessons? (.*)\.\)\*", why)[1]
        assert lessons == " and ".join(shown), name
        for lesson, sections in shown.items():
            text = "\n".join(cell.source for cell in authoring.read_notebook(paths[lesson]).cells)
            for section in sections:
                assert f"\n## {section} · " in text, f"{lesson} has no section {section}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A learner's folder, and a learner's kernel in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(claims.MODE)
    return tmp_path


def _bet(name, right=True):
    options, key = answer_key.QUESTIONS[name][1], answer_key.keys()[name]
    return {"guess": key if right else next(option for option in options if option != key)}


def test_bets_are_counted_by_sitting_and_lesson(folder, capsys):
    kept = {
        "12_before_01_value": _bet("01_value", right=False),
        "12_01_value": _bet("01_value"),
        "12_later_01_value": _bet("01_value", right=False),
        "12_before_01_changed": _bet("01_changed"),
        "12_01_changed": _bet("01_changed", right=False),
        # made again once the key was known, the first one counts
        "12_before_02_mean": _bet("02_mean", right=False),
        "12_02_mean": _bet("02_mean") | {"first": _bet("02_mean", right=False)},
        "12_before_03_circle": _bet("03_circle", right=False),  # its key is not told yet
        "12_05_seed": {"guess": "an option that is gone"},
        "12_06_values": "no bet",
    }
    (folder / bets.PREDICTIONS).write_text(json.dumps(kept), encoding="utf-8")
    answer_key.before_and_after()
    said = capsys.readouterr().out.splitlines()
    assert said[:4] == [
        "all: before 1 of 4, after 1 of 3, 30 days later 0 of 1",
        "01 : before 1 of 2, after 1 of 2, 30 days later 0 of 1",
        "02 : before 0 of 1, after 0 of 1",
        "03 : before 0 of 1",
    ]
    starts = ["question 1, new: “no", "question 2, new: “", "question 9, as before: “"]
    for line, start in zip(said[4:], starts, strict=True):
        assert line.startswith(start) and "the key: “" in line
    assert said[6].endswith("(lesson 02, section 4; lesson 04b, section 3)")


def test_before_the_course_no_score_is_told(folder, capsys):
    kept = {f"12_before_{name}": _bet(name) for name in answer_key.QUESTIONS}
    (folder / bets.PREDICTIONS).write_text(json.dumps(kept), encoding="utf-8")
    answer_key.before_and_after()
    assert capsys.readouterr().out == "No question is answered after the course yet.\n"


def test_answers_of_the_site_are_added_and_nothing_is_written_over(folder, capsys):
    mine = {"12_before_01_value": _bet("01_value"), "03_one": {"guess": 0.3}}
    saved = {
        "12_before_01_value": _bet("01_value", right=False),
        "12_before_01_hidden": _bet("01_hidden") | {"day": "2026-11-28", "confidence": 2},
        "12_later_01_hidden": _bet("01_hidden", right=False),
        "12_01_root": {"guess": "an option that is gone"},
        "03_one": {"guess": 0.5},
    }
    (folder / bets.PREDICTIONS).write_text(json.dumps(mine), encoding="utf-8")
    (folder / answer_key.FROM_SITE).write_text(json.dumps(saved), encoding="utf-8")
    answer_key.from_the_site()
    answer_key.from_the_site()
    said = capsys.readouterr().out
    assert said == "2 answers of my_questions.json are now among your bets.\n"
    new = {name: saved[name] for name in ("12_before_01_hidden", "12_later_01_hidden")}
    kept = json.loads((folder / bets.PREDICTIONS).read_text(encoding="utf-8"))
    assert kept == mine | new


@pytest.mark.parametrize("text", ["", "[1]", '{"12_01_value": 3', "\ud800"])
def test_a_damaged_file_of_the_site_stops_nothing(folder, capsys, text):
    (folder / bets.PREDICTIONS).write_text("{}", encoding="utf-8")
    data = text.encode("utf-8", errors="surrogatepass")
    (folder / answer_key.FROM_SITE).write_bytes(data)
    answer_key.from_the_site()
    assert "is damaged" in capsys.readouterr().out
    assert (folder / "my_questions.damaged.json").read_bytes() == data
