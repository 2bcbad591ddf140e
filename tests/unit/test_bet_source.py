"""What a cell's code says of bets."""

import pytest

from course_tools import authoring, bet_source

CELL = """%matplotlib inline
listing = !ls
predict(
    "03_one", "How many?", ["claim(2)", "3"]
)
if listing:
    claims.claim("one", float("1"), predicted="03_one", se=0.1)
for name in ("a", "b"):
    claim(f"of {name}", name, predicted="03_two")
identity("two", 2, 2)  # claim("three", 3)
print?"""


def test_a_cell_says_what_it_asks_states_and_answers():
    found = bet_source.read(CELL)
    assert found.asked == ["03_one"] and found.answered == ["03_one", "03_two"]
    assert [(said.text, said.bet) for said in found.statements] == [
        ("one", "03_one"),
        ("", "03_two"),  # its text is known when it runs
        ("two", ""),
    ]


@pytest.mark.parametrize(
    ("source", "keeps_books"),
    [
        ('siblings("03_zero_layers", [])', True),
        ("claims.calibration()", True),
        ("predict(question)", True),
        ("from course_utils import claim, predict", False),
        ('"claim(1)"', False),
        ("def f(:", False),
        ("A text that mentions claim(1).", False),
        ("%%time\nx = 1", False),
        ("", False),
    ],
)
def test_what_keeps_books(source, keeps_books):
    found = bet_source.read(source)
    assert found.keeps_books == keeps_books
    assert found.asked == found.statements == found.answered == []


def test_each_bet_of_the_course_is_answered_once_it_is_asked():
    asked, answered = [], []
    for path in authoring.lessons():
        for cell in authoring.read_notebook(path).cells:
            if cell.cell_type == "code":
                found = bet_source.read(cell.source)
                asked += found.asked
                answered += found.answered
    assert len(asked) == len(set(asked)) > 50
    assert set(answered) <= set(asked)
