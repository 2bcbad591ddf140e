"""The table of the course, and what follows from it."""

import pytest

from course_utils._files import NOTEBOOKS, number_of
from course_utils.course import outline


def test_the_table_has_each_lesson_once():
    there = [number_of(path.name) for path in sorted(NOTEBOOKS.glob("[0-9]*_*.ipynb"))]
    assert sorted(outline.rows()) == there
    for row in outline.rows().values():
        assert row.part in ("spine", "beside", "elective") and row.question.endswith("?")
        others = [*outline.part("spine"), *outline.part("elective")]
        assert (row.part == "beside") == (row.beside in others)
        assert bool(row.chapter) == (row.part != "beside" and row.lesson != "00")


@pytest.mark.parametrize(
    ("lesson", "before", "after"),
    [
        ("00", "", "01"),
        ("02", "01", "03"),
        ("02b", "02", "03"),
        ("07", "06", "13"),
        ("07c", "07", "13"),
        ("13", "07", "08"),
        ("09b", "09", "09c"),
        ("12", "11", ""),
    ],
)
def test_neighbours(lesson, before, after):
    assert outline.neighbours(lesson) == (before, after)


def test_one_goes_on_along_the_spine():
    assert outline.from_here("02")[:3] == ["02", "03", "04"]
    assert outline.from_here("07b")[:3] == ["07b", "13", "00"]
    assert outline.from_here("13")[:3] == ["13", "00", "01"]
    assert outline.from_here("09")[:2] == ["09", "00"]
    for lesson in (*outline.rows(), "99"):
        assert {*outline.from_here(lesson)} == {*outline.rows(), lesson}
