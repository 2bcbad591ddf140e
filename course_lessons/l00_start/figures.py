"""What only `00_start` draws: the map of the course."""

import base64
import json
import textwrap
from collections.abc import Iterator
from html import escape

from IPython.display import HTML

from course_utils._files import NOTEBOOKS

# what each asks, and the lessons that answer; companions ("02b") stand below their lesson
PARTS = {
    "What is a transformer?": ("01", "02"),
    "What can be read off its weights?": ("03", "04", "05"),
    "What do heads do together?": ("06", "07", "08"),
    "How far does it carry?": ("09", "10", "11"),
    "And what do you believe?": ("12",),
    "Does it hold in the wild?": ("13",),
}
ANSWER = "07"  # the lesson that says why head 0.5 matters
ROOM = (228, 62)
SIDE = (190, 34)
GAP = 22
LEFT = 176
TOP = 16  # the drawing's measures, in pixels
INK, PALE, BLUE, ORANGE = "#1b1f24", "#57606a", "#0072B2", "#B04A00"


def course_map() -> HTML:
    """The lessons as rooms on the way through the course, with the companions as side rooms."""
    titles = _titles()
    drawn: list[str] = []
    words, y, door = [], TOP, None  # door: where the way out of the last room begins
    for part, numbers in PARTS.items():
        drawn += _text(part, TOP, y + ROOM[1] / 2, 20, f'font-style="italic" fill="{PALE}"')
        for column, number in enumerate(numbers):
            x = LEFT + column * (ROOM[0] + GAP)
            if door:
                drawn.append(_way(*door, x, y))
            drawn += _room(number, titles[number], x, y)
            for n, side in enumerate(_sides(number, titles)):
                drawn += _side_room(side, titles[side], x, y + ROOM[1] + n * (SIDE[1] + 8))
            door = (x, y)
        rooms = [room for number in numbers for room in (number, *_sides(number, titles))]
        words.append(f"{part} {', '.join(f'{room} {titles[room]}' for room in rooms)}.")
        y += ROOM[1] + 2 * GAP + SIDE[1] * max(len(_sides(number, titles)) for number in numbers)
    width, height = LEFT + 3 * (ROOM[0] + GAP), y - GAP - 6
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13.5" fill="{INK}">'
        f'<rect width="{width}" height="{height}" rx="8" fill="white"/>{"".join(drawn)}</svg>'
    )
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    alt = escape(" ".join(["A map of the course, the lessons in their order.", *words]))
    return HTML(f'<img src="{source}" width="{width}" style="max-width: 100%" alt="{alt}">')


def _titles() -> dict[str, str]:
    """ "03" → "Zero layers: bigrams", for each lesson but 00."""
    found = {}
    for path in sorted(NOTEBOOKS.glob("[0-9]*_*.ipynb")):
        number = path.name.split("_")[0]
        if number != "00" and not path.stem.endswith("_mine"):
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            found[number] = "".join(cells[0]["source"]).splitlines()[0].partition("·")[2].strip()
    return found


def _sides(number: str, titles: dict[str, str]) -> list[str]:
    """The companions of a lesson: "07b" and "07c" of "07"."""
    return [side for side in titles if side[:-1] == number]


def _room(number: str, title: str, x: float, y: float) -> Iterator[str]:
    answers = number == ANSWER
    edge, stroke = (ORANGE, 2.6) if answers else (BLUE, 1.6)
    yield (
        f'<rect x="{x}" y="{y}" width="{ROOM[0]}" height="{ROOM[1]}" rx="7" fill="#f3f8fc" '
        f'stroke="{edge}" stroke-width="{stroke}"/>'
        f'<text x="{x + 12}" y="{y + 37}" font-size="19" font-weight="bold" '
        f'fill="{edge}">{number}</text>'
    )
    yield from _text(title, x + 46, y + ROOM[1] / 2 - 7 * answers, 22)
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
