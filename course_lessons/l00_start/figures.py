"""What only `00_start` draws: the map of the course."""

import base64
import json
import textwrap
from collections.abc import Iterator
from html import escape

from IPython.display import HTML

from course_utils._files import NOTEBOOKS, number_of
from course_utils.course import outline

ANSWER = "07"  # the lesson that says why head 0.5 matters
ROOM = (228, 62)
SIDE = (190, 34)
GAP = 22
LEFT = 176
TOP = 16  # the drawing's measures, in pixels
INK, PALE, BLUE, ORANGE = "#1b1f24", "#57606a", "#0072B2", "#B04A00"


def course_map() -> HTML:
    """The spine as rooms on one way, its companions as side rooms, and below it the electives."""
    titles = _titles()
    drawn: list[str] = []
    words, y, door = [], TOP, None  # door: where the way out of the last room begins
    for chapter, numbers in _chapters().items():
        drawn += _text(chapter, TOP, y + ROOM[1] / 2, 18, f'font-style="italic" fill="{PALE}"')
        sides = {number: outline.beside(number) for number in numbers}
        is_spine = outline.rows()[numbers[0]].part == "spine"
        for column, number in enumerate(numbers):
            x = LEFT + column * (ROOM[0] + GAP)
            if door and is_spine:
                drawn.append(_way(*door, x, y))
            drawn += _room(number, titles[number], x, y, is_spine)
            for n, side in enumerate(sides[number]):
                drawn += _side_room(side, titles[side], x, y + ROOM[1] + n * (SIDE[1] + 8))
            door = (x, y)
        rooms = [room for number in numbers for room in (number, *sides[number])]
        words.append(f"{chapter} {', '.join(f'{room} {titles[room]}' for room in rooms)}.")
        y += ROOM[1] + 2 * GAP + SIDE[1] * max(map(len, sides.values()))
    width, height = LEFT + 3 * (ROOM[0] + GAP), y - GAP - 6
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13.5" fill="{INK}">'
        f'<rect width="{width}" height="{height}" rx="8" fill="white"/>{"".join(drawn)}</svg>'
    )
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    alt = escape(" ".join(["A map of the course: its spine, then the electives.", *words]))
    return HTML(f'<img src="{source}" width="{width}" style="max-width: 100%" alt="{alt}">')


def _chapters() -> dict[str, list[str]]:
    """The question of each chapter, and the lessons that answer it, in order."""
    found: dict[str, list[str]] = {}
    for row in outline.rows().values():
        if row.chapter:
            found.setdefault(row.chapter, []).append(row.lesson)
    return found


def _titles() -> dict[str, str]:
    """ "03" → "Zero layers: bigrams", for each lesson but 00."""
    found = {}
    for path in sorted(NOTEBOOKS.glob("[0-9]*_*.ipynb")):
        number = number_of(path.name)
        if number != "00" and not path.stem.endswith("_mine"):
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            found[number] = "".join(cells[0]["source"]).splitlines()[0].partition("·")[2].strip()
    return found


def _room(number: str, title: str, x: float, y: float, is_spine: bool) -> Iterator[str]:
    answers = number == ANSWER
    edge, stroke = (ORANGE, 2.6) if answers else (BLUE, 1.6)
    style = f'fill="#f3f8fc" stroke="{edge}"'
    if not is_spine:
        edge, style = PALE, f'fill="white" stroke="{PALE}" stroke-dasharray="4 3"'
    yield (
        f'<rect x="{x}" y="{y}" width="{ROOM[0]}" height="{ROOM[1]}" rx="7" {style} '
        f'stroke-width="{stroke}"/>'
        f'<text x="{x + 12}" y="{y + 37}" font-size="19" font-weight="bold" '
        f'fill="{edge}">{number}</text>'
    )
    wide = len(number) > 2  # as "09b" is
    yield from _text(title, x + 46 + 12 * wide, y + ROOM[1] / 2 - 7 * answers, 22 - 2 * wide)
    if answers:
        yield (
            f'<text x="{x + 46}" y="{y + 53}" font-size="12" fill="{ORANGE}">answers the '
            f"question above</text>"
        )


def _side_room(number: str, title: str, x: float, y: float) -> Iterator[str]:
    x += ROOM[0] - SIDE[0]
    yield f'<path d="M{x + 20} {y} v8" stroke="{PALE}" fill="none"/>'
    yield (
        f'<rect x="{x}" y="{y + 8}" width="{SIDE[0]}" height="{SIDE[1]}" rx="6" fill="white" '
        f'stroke="{PALE}" '
        f'stroke-dasharray="4 3"/><text x="{x + 9}" y="{y + 29}" font-weight="bold" '
        f'fill="{PALE}">{number}</text>'
    )
    yield from _text(title, x + 42, y + 8 + SIDE[1] / 2, 24, 'font-size="12"')


def _way(x: float, y: float, to_x: float, to_y: float) -> str:
    """From a room to the next one: on the same floor, or down and to the left."""
    middle = y + ROOM[1] / 2
    path, tip = f"M{x + ROOM[0]} {middle} H{to_x - 4}", f"M{to_x} {middle} l-8 -5 v10 z"
    if to_y != y:
        path = f"M{x + 24} {y + ROOM[1]} V{to_y - GAP + 4} H{to_x + 24} V{to_y - 4}"
        tip = f"M{to_x + 24} {to_y} l-5 -8 h10 z"
    return (
        f'<path d="{path}" fill="none" stroke="{BLUE}" stroke-width="1.6"/><path d="{tip}" '
        f'fill="{BLUE}"/>'
    )


def _text(text: str, x: float, middle: float, letters: int, style: str = "") -> Iterator[str]:
    """A text in lines of so many letters, around the height `middle`."""
    lines = textwrap.wrap(text, letters)
    for n, line in enumerate(lines):
        yield (
            f'<text x="{x}" y="{middle + 5 + 17 * (n - (len(lines) - 1) / 2):g}" '
            f"{style}>{escape(line)}</text>"
        )
