"""What a check says on the page."""

import itertools
import re

import pytest
from bs4 import BeautifulSoup

from course_utils.course import check, solutions, verdicts


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, where there is a page."""
    found = []
    monkeypatch.setattr(verdicts, "get_ipython", lambda: object())
    monkeypatch.setattr(verdicts, "display", lambda data, raw: found.append(data))
    return found


def _card(data):
    return BeautifulSoup(data["text/html"], "html.parser")


def test_without_a_page_it_is_text(capsys):
    verdicts.show(["✗ f: no.", "  The lesson goes on with ours."], ["A hint."], "def f(): ...")
    assert capsys.readouterr().out == "✗ f: no.\n  The lesson goes on with ours.\n"


def test_wrong_shows_the_next_hint_and_last_our_solution(shown):
    check.direct_path(lambda W_E, W_U: W_E.T @ W_U.T)
    (data,) = shown
    assert re.match(r"✗ direct_path: .+\n  The lesson goes on with ours\.$", data["text/plain"])
    ours = solutions.find("direct_path")
    card = _card(data)
    folds = card.find_all("details")
    summaries = [fold.summary.text for fold in folds]
    hints = [f"Hint {number}" for number in range(1, len(ours.hints) + 1)]
    assert summaries == [*hints, "Show ours"]
    for outer, inner in itertools.pairwise(folds):  # each is found in the one before
        assert inner in outer.find_all("details", recursive=False)
    assert folds[-1].pre.text == ours.solution and not any("open" in fold.attrs for fold in folds)


def test_right_and_blank_show_no_help(shown):
    check.direct_path(lambda W_E, W_U: W_E @ W_U)

    def blank(W_E, W_U):
        raise NotImplementedError("your code here")

    check.direct_path(blank)
    right, left = shown
    assert right["text/plain"] == "✓ direct_path" and left["text/plain"].startswith("○ direct_path")
    assert not _card(right).details and not _card(left).details


def test_a_value_in_place_of_a_function_gets_no_solution(shown):
    """Nothing was tried."""
    exercise = check.direct_path
    exercise.attempted = False
    exercise(3)
    assert not _card(shown[0]).details and shown[0]["text/plain"].startswith("✗ direct_path: give")


def test_what_a_learner_wrote_is_no_html(shown):
    verdicts.show(["✗ f: your function stopped in the line `a<b>c</b>` with <script>."])
    card = _card(shown[0])
    assert not card.script and not card.code.find_all() and "a<b>c</b>" in card.text
    assert card.div["role"] == "status"
