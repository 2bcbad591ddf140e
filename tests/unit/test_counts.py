"""How much a lesson shows, and how dense it is."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_tools import authoring, counts
from course_utils._files import ROOT, lesson_of, number_of
from course_utils.course import outline

# Lessons that are above what their part may have, until their topics are cut.
NOT_YET = {
    "13",
}
PROSE = """# A title that is no prose

It is one. Because the stream is a sum, we can take it apart, and so we do (see 1.6).

| a | table |
|---|---|

Then 12 heads add 3.5 nats, as Elhage et al. 2021 say.

<details><summary>Hint</summary>

Because nobody counts this.
</details>

$$x = 1$$
"""


def test_the_density_of_open_prose():
    found = counts.density(PROSE)
    assert found["words"] == 32 - 4
    assert found["words a sentence"] == pytest.approx((3 + 18 + 11) / 3)
    assert found["short, %"] == pytest.approx(100 / 3)
    assert found["connectives"] == pytest.approx(100 * 2 / found["words"])
    assert found["numbers"] == pytest.approx(100 * 3 / found["words"])  # 1.6 is a head
    assert set(counts.density("").values()) == {0}


def test_what_a_lesson_shows():
    picture = new_output("display_data", data={"text/html": '<img src="data:," alt="A curve.">'})
    rows = new_output("display_data", data={"text/plain": "▪ one: 1\n▪ two: 2\n≡ three"})
    bet = new_code_cell('predict("a", "b?")', metadata={"tags": ["bet"]})
    cells = [
        new_markdown_cell("# Title"),
        new_markdown_cell("## 1 · First\n\nText.\n\n### Exercise 1 · `f`\n\nDo."),
        new_markdown_cell("## The end"),
        new_code_cell("x = 1\n\ny = 2", outputs=[picture, rows]),
        bet,
    ]
    learner = new_notebook(cells=authoring.tidy(new_notebook(cells=cells)).cells)
    found = counts.counts(new_notebook(cells=cells), learner)
    expected = {"sections": 1, "exercises": 1, "figures": 1, "rows": 2, "bets": 1, "lines": 2}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("path", authoring.lessons(), ids=lesson_of)
def test_a_lesson_keeps_to_the_limits_of_its_part(path):
    """A lesson on the list breaks some: it goes from there when it no longer does."""
    above = counts.too_much(path)
    assert bool(above) == (number_of(path.name) in NOT_YET), above


def test_the_table_is_the_one_in_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert counts.counted(text) == text, "run python -m course_tools.authoring --links"
    assert counts.counted(text.replace("| 07 |", "| 7 |")) == text
    for part in counts.LIMITS:
        assert f"| at most, {part} |" in text
    assert {row.part for row in outline.rows().values()} < {*counts.LIMITS}
