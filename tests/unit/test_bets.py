"""Bets: what is asked, kept and locked, what card and claim say of it, what is counted."""

import json
import math
import re

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course_tools import authoring, site
from course_utils._files import NOTEBOOKS
from course_utils.course import bets, claims, progress

OPTIONS = ["the embedding of ·la", "a head of `0`"]


@pytest.fixture(autouse=True)
def learner(monkeypatch, tmp_path):
    """A folder of its own, where no author and no CI looks on."""
    monkeypatch.delenv(claims.MODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bets, "_cards", {})
    monkeypatch.setattr(claims, "expectations", dict)


@pytest.fixture
def ask(monkeypatch):
    """`predict`, as in a notebook: the new card."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown[-1] = data

    monkeypatch.setattr(
        "course_utils.course.bets.display",
        lambda data, raw, display_id=False: shown.append(data) if "text/html" in data else None,
    )

    def ask(name, question="How many?", *args, **more):
        bets.predict(name, question, *args, **more)
        card = bets._cards[name]
        card.still, card.shown = Handle(), shown
        return card

    return ask


def kept():
    return json.loads((bets.Path(bets.PREDICTIONS)).read_text(encoding="utf-8"))


def test_a_bet_is_locked_answered_and_made_again(ask):
    card = ask("02_part", "Which part?", OPTIONS)
    assert card.state["open"] and bets.guesses() == {}
    card.lock("", "2")
    assert (
        card.state["said"] == "<p>Choose an answer, and say how sure you are.</p>"
        and bets.guesses() == {}
    )
    card.lock("0", "2")
    assert (
        card.state["said"]
        == "<p>Locked: the embedding of <code>·la</code>, sure. Now run the next cells.</p>"
    )
    assert not card.state["open"] and card.state["marks"] == ["your bet", ""]
    card.lock("1", "0")  # it is locked
    card.lock(again=True)
    assert kept() == {"02_part": {"question": "Which part?", "confidence": 3, "guess": OPTIONS[0]}}
    # the cell has run again
    assert ask("02_part", "Which part?", OPTIONS).state["said"].startswith("<p>Locked: ")

    assert (
        bets.answered("02_part", OPTIONS[1], because="It *writes*.")
        == "your bet: the embedding of ·la ✗"
    )
    card = bets._cards["02_part"]
    assert card.state["marks"] == ["your bet", "✓ the answer"] and not card.state["again"]
    assert "✗ Not this time." in card.state["said"] and card.state["said"].endswith(
        "<p>It <i>writes</i>.</p>"
    )
    assert "✗ Not this time." in card.shown[-1]["text/html"]  # what is saved

    card = ask("02_part", "Which part?", OPTIONS)
    assert card.state["again"] and "✗ Not this time." in card.state["said"]
    card.lock(again=True)
    assert card.state["open"] and card.state["said"] == "" and card.state["marks"] == []
    card.lock("1", "0")
    assert bets.answered("02_part", OPTIONS[1]) == "your bet: a head of 0 ✓"
    assert card.state["marks"] == ["", "✓ your bet came true"]
    assert (kept()["02_part"]["right"], kept()["02_part"]["first"]["right"]) == (True, False)


@pytest.mark.parametrize(
    ("typed", "within", "unit", "truth", "said"),
    [
        ("30", 0.1, "%", 0.4, "your bet 30 % ✓"),
        ("30 %", 0.1, "%", 0.41, "your bet 30 % ✗"),
        ("3", 1, "heads", 4, "your bet 3 heads ✓"),
        ("3", 1, "heads", 5, "your bet 3 heads ✗"),
        ("−0,5", None, "nats", -0.6, "your bet −0.5 nats ✓"),
        ("0.4", None, "", 0.968, "your bet 0.4 ✗"),
        ("0.4", None, "", 0.45, "your bet 0.4 ✓"),
        ("0.4", 0.1, "", math.nan, "your bet 0.4 ✗"),
        ("4,000", None, "lists", [1, 2], "your bet 4,000 lists ✗"),
    ],
)
def test_a_number_is_right_within_its_band(ask, typed, within, unit, truth, said):
    card = ask("x", unit=unit, within=within)
    card.lock(typed, "1")
    assert bets.answered("x", truth, unit) == said
    assert ("<svg" in card.state["said"]) == (
        isinstance(truth, int | float) and math.isfinite(truth)
    )


def test_what_is_no_number_is_asked_again(ask):
    card = ask("x", unit="%")
    for typed in ("a lot", "nan", "1e999"):
        card.lock(typed, "0")
        assert card.state["said"] == "<p>Type a number, such as 50.</p>" and card.state["open"]
    assert bets.guesses() == {}


@pytest.mark.parametrize(
    ("truth", "right"),
    [(0.1, [0]), (0.2, [1]), (0.3, [1]), (0.5, [1, 2]), (0.8, [2]), (0.9, [3]), ("none", [])],
)
def test_a_band_is_right_as_it_reads(ask, truth, right):
    names = ["under 20 %", "20 to 50 %", "50 to 80 %", "over 80 %"]
    for place, name in enumerate(names):
        card = ask(name, bands=(0.2, 0.5, 0.8), unit="%")
        assert card.asked["choices"] == names
        card.lock(str(place), "0")
        assert (
            bets.answered(name, truth, "%") == f"your bet: {name} {'✓' if place in right else '✗'}"
        )
        assert [i for i, mark in enumerate(card.state["marks"]) if "✓" in mark] == right


def test_bands_of_other_units_and_below_zero(ask):
    assert ask("x", bands=(-0.5, 1_000), unit="nats").asked["choices"] == [
        "under −0.5 nats",
        "−0.5 to 1,000 nats",
        "over 1,000 nats",
    ]
    assert ask("y", bands=(3,)).asked["choices"] == ["under 3", "over 3"]


@pytest.mark.parametrize(
    "more",
    [
        {"options": OPTIONS, "bands": (1, 2)},
        {"options": OPTIONS, "within": 1},
        {"bands": (1, 2), "within": 1},
        {"options": ["one"]},
        {"options": ["one", "one"]},
        {"bands": (2, 1)},
        {"within": 0},
    ],
)
def test_what_cant_be_bet_on_is_said_in_one_sentence(more):
    with pytest.raises(ValueError, match=r"^[^.]+(\.\d[^.]*)*\.$"):
        bets.predict("x", "How many?", **more)


def test_a_blank_bet_stops_nothing(ask, capsys):
    card = ask("x", "Which?", OPTIONS)
    assert bets.answered("x", OPTIONS[1]) == "" and bets.answered("never asked", 1) == ""
    assert (
        "You made no bet. The answer: a head of <code>0</code>." in card.state["said"]
        and not card.state["open"]
    )
    assert not bets.Path(bets.PREDICTIONS).exists()
    bets.calibration()
    assert capsys.readouterr().out == "No predictions yet.\n"
    card.lock("1", "0")  # pressed while the kernel was busy, before it showed anything
    assert kept()["x"]["right"] is True and "✓ Right." in card.state["said"]


def test_authors_and_ci_store_no_bet(ask, monkeypatch):
    ask("x", "Which?", OPTIONS).lock("1", "0")
    monkeypatch.setenv(claims.MODE, "strict")
    card = ask("x", "Which?", OPTIONS)
    before = card.drawn()
    assert (
        bets.answered("x", OPTIONS[1]) == ""
        and card.drawn() == before
        and "bet" not in card.state["said"]
    )


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"options": ["query", "key"]}, "query · key"),
        ({"unit": "nats"}, "a number in nats"),
        ({}, "a number"),
        ({"bands": (0.2,), "unit": "%"}, "under 20 % · over 20 %"),
    ],
)
def test_what_a_stored_notebook_holds(ask, asked, text):
    card = ask("x", "Which *door* of `1.6`?", **asked)
    (still,) = card.shown
    assert still["text/plain"] == f"Predict: Which *door* of `1.6`?\n{text}"
    assert (
        "Which <i>door</i> of <code>1.6</code>?" in still["text/html"]
        and 'data-bet="x"' in still["text/html"]
    )


def test_a_bet_of_another_question_or_of_an_earlier_version(ask):
    old = {"door": {"guess": "query"}, "gain": {"guess": 0.4, "truth": 0.5, "right": True}}
    bets.Path(bets.PREDICTIONS).write_text(json.dumps(old), encoding="utf-8")
    assert ask("door", "Which door?", ["keys", "values"]).state["open"]  # it was another question
    assert bets.answered("door", "keys") == ""
    assert (
        ask("door", "Which door?", ["query", "key"]).state["said"].startswith("<p>Locked: query. ")
    )
    assert "✓ Right. You bet 0.4." in ask("gain").state["said"].replace("<b>", "").replace(
        "</b>", ""
    )


def test_what_is_counted_and_offered_again(capsys):
    made = {
        "old": {"guess": 0.4, "truth": 0.4, "right": True},
        "01_a": {"guess": "a", "confidence": 3, "right": False, "question": "A?"},
        "01_b": {"guess": "b", "confidence": 3, "right": True, "question": "B?"},
        "01_c": {"guess": "c", "confidence": 1, "right": False, "question": "C?"},
        "01_d": {"guess": "d", "confidence": 2, "question": "D?"},  # its claim has not run
    }
    made["02_e"] = made["01_b"] | {"first": made["01_a"]}  # made again, and won
    made["02_f"] = made["01_d"] | {"first": made["01_a"]}  # made again
    bets.Path(bets.PREDICTIONS).write_text(json.dumps(made), encoding="utf-8")
    bets.calibration()
    assert capsys.readouterr().out.splitlines() == [
        "Predictions: 7 made, 2 of 6 came true so far – sure: 1 of 4, a guess: 0 of 1.",
        "  Sure, and not so (lesson 01): A?",
        "  Sure, and not so (lesson 02): A?",
    ]
    assert list(bets.mistakes(made)) == ["01_a", "02_f"]
    page = progress.Overview(NOTEBOOKS)._repr_mimebundle_()[0]["text/html"]
    assert "2 of 6 came true so far" in page and re.search(
        r'<li><a href="01_transformer.ipynb">[^<]+</a>: A\?</li>', page
    )


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("4,000", 4000),
        ("16,777,216", 16_777_216),
        ("0,5", 0.5),
        ("−1.5", -1.5),
        (" 12 ", 12),
        ("1,234.5", 1234.5),
    ],
)
def test_a_number_is_read_as_people_type_it(typed, number):
    assert bets._number(typed) == number


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "`W_U` of ·la's *one* **two** a < b",
            "<code>W_U</code> of <code>·la</code>'s <i>one</i> <b>two</b> a &lt; b",
        ),
        ("$W_{QK}^h$: q · k, 2*3", "<i>W<sub>QK</sub><sup>h</sup></i>: q · k, 2*3"),
        ("`*a*` and ·( too", "<code>*a*</code> and <code>·(</code> too"),
    ],
)
def test_markdown_of_a_line(text, html):
    assert bets.markup(text) == html


def test_the_site_folds_the_answer_below_the_card(ask):
    def cell(source, *outputs):
        return new_code_cell(source, outputs=[new_output("display_data", data) for data in outputs])

    still = ask("x", "Which?", OPTIONS).drawn()
    told = {"text/plain": "▪ other: 3\n▪ part: a head of `0`"}
    page = new_notebook(
        cells=[
            cell('predict("x", ...)', still),
            cell('claim("other", 3)\nclaim(\n    "part", part(), predicted="x")', told),
        ]
    )
    asked, _ = site._cells(page, new_notebook())
    folded = "<details><summary>What came out</summary><p>a head of <code>0</code>.</p></details>"
    assert asked.outputs[0].data["text/html"].endswith(folded)


@pytest.mark.slow
def test_a_stored_notebook_holds_the_question_and_nobodys_bet(tmp_path):
    made = {"x": {"question": "Which?", "guess": "key", "confidence": 3}}
    bets.Path(bets.PREDICTIONS).write_text(json.dumps(made), encoding="utf-8")
    asks = 'from course_utils import claim, predict\npredict("x", "Which?", ["query", "key"])'
    tells = (
        "from course_utils.course import claims\nclaims.expectations = lambda: {'a': {'value': "
        "'key'}}\n"
        "claim('a', 'key', predicted='x')"
    )
    cells = [new_code_cell(asks, id="asks"), new_code_cell(tells, id="tells")]
    stored = authoring.execute(new_notebook(cells=cells), tmp_path)
    (still,) = stored.cells[0].outputs
    assert still.data["text/plain"] == "Predict: Which?\nquery · key" and set(still.data) == {
        "text/plain",
        "text/html",
    }
    assert "bet</b>" not in still.data["text/html"] and "Locked" not in still.data["text/html"]
    assert authoring.output_problems(stored) == [] and authoring.dumps(stored) == authoring.dumps(
        authoring.execute(stored, tmp_path)
    )
