"""What the course consists of: each lesson's part, minutes and question, from one table.

The **spine** is read in order. A lesson **beside** another one goes deeper there, and an
**elective** stands alone after lesson 07; no lesson of the spine needs either. README's tables, the
links between lessons, the map and the order in which progress goes on all follow
`notebooks/outline.json`.
"""

import functools
import json
from dataclasses import dataclass

from course_utils._files import NOTEBOOKS

FILE = NOTEBOOKS / "outline.json"


@dataclass(frozen=True)
class Row:
    """One lesson of the table."""

    lesson: str  # its number, "02b"
    part: str  # "spine", "beside" or "elective"
    minutes: int
    question: str  # that it answers
    beside: str = ""  # the lesson that a companion belongs to
    chapter: str = ""  # the question of its place on the map; 00 and companions have none


@functools.cache
def rows() -> dict[str, Row]:
    """The lessons by number, in the table's order: the spine, what is beside it, electives."""
    table = json.loads(FILE.read_text(encoding="utf-8"))
    return {entry["lesson"]: Row(**entry) for entry in table}


def part(name: str) -> list[str]:
    """The numbers of the lessons of a part, in order."""
    return [row.lesson for row in rows().values() if row.part == name]


def beside(lesson: str) -> list[str]:
    """The numbers of a lesson's companions."""
    return [row.lesson for row in rows().values() if row.beside == lesson]


def neighbours(lesson: str) -> tuple[str, str]:
    """What comes before a lesson and after it; "" where nothing does.

    After the spine come the electives. A companion stands between its lesson and the one after it.
    """
    row = rows()[lesson]
    if row.beside:
        return row.beside, neighbours(row.beside)[1]
    others = ["", *part("spine"), *part("elective"), ""]
    place = others.index(lesson)
    return others[place - 1], others[place + 1]


def from_here(lesson: str) -> list[str]:
    """All lessons in the order in which one goes on from this one, which comes first.

    The spine from here to its end, then everything else.
    """
    spine = part("spine")
    row = rows().get(lesson)
    place = row.beside if row and row.beside else lesson
    ahead = spine[spine.index(place) + 1 :] if place in spine else []
    return list(dict.fromkeys([lesson, *ahead, *rows()]))
