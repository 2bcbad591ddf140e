"""The deck for a seminar: what of a lesson a room needs, in the order and the minutes of the
teacher's guide.

The first picture; for each row of the guide's plan the questions to bet on, each with its answer
and its picture, the pictures that show most, and the blanks of the exercises done in class; at the
end what to discuss, and the board.
"""

import ast
import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode

from course_tools import to_html
from course_utils._files import NOTEBOOKS
from course_utils.course import saved_notebook
from course_utils.course.microscope import scripts

MOST = 25  # slides, where none needs a second for what does not fit on it
LINES = 8  # of code beside a picture
MACHINERY = {"check", "claim", "draw", "identity", "microscope", "plots", "predict", "print"}


@dataclass
class Row:
    """A row of the plan: its minutes, the sections that it covers, what happens."""

    minutes: int
    sections: list[str]
    what: str


@dataclass
class Guide:
    """What notebooks/TEACHING.md says of one lesson."""

    goal: str
    plan: list[Row]
    mistakes: str
    discussion: str
    board: str


@dataclass
class Slide:
    """One slide: the heading above it, what it shows, what the presenter's view says."""

    heading: str
    blocks: list[str] = field(default_factory=list)
    notes: str = ""
    spare: int = 0  # 0: stays; else the larger, the sooner it goes where there are too many


def guide(title: str) -> Guide:
    """The guide's section on a lesson, by the lesson's title; ValueError where there is none."""
    text = (NOTEBOOKS / "TEACHING.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL
    )
    if not found:
        raise ValueError(
            f'notebooks/TEACHING.md has no section "{title}", and the slides follow it.'
        )
    part = dict(
        re.findall(
            r"^\*\*([A-Z][\w ]+?)\.?\*\*\s+(.*?)(?=^\*\*[A-Z]|\Z)",
            found[1],
            re.MULTILINE | re.DOTALL,
        )
    )
    rows = re.findall(r"^\| (\d+) \| (.*) \| (.*) \|$", found[1], flags=re.MULTILINE)
    plan: list[Row] = []
    for minutes, where, what in rows:
        row = Row(int(minutes), re.findall(r"\*(.+?)\*", where), what)
        if plan and plan[-1].sections == row.sections:  # a section told in two goes
            row = Row(plan[-1].minutes + row.minutes, row.sections, f"{plan.pop().what} {what}")
        plan.append(row)
    goal = part["Goal"].split("\n\n")[0]
    return Guide(
        goal, plan, part["What people get wrong"], part["For discussion"], part["On the board"]
    )


def slides(solution: NotebookNode, learner: NotebookNode) -> str:
    """A lesson as one HTML page, at most 25 slides; ValueError where the guide does not know it."""
    title = to_html.title(solution)
    told = guide(title)
    picture = next(shown for cell in solution.cells for shown in to_html.pictures(cell))
    minutes = sum(row.minutes for row in told.plan)
    notes = f"{minutes} minutes in all. The picture is live in the lesson's first cell."
    opening = _blocks(f"{to_html.COURSE} · {minutes} minutes\n\n{told.goal}")
    deck = [Slide(title, opening, notes), Slide(title, [picture], notes)]
    sections, blanks = _sections(solution), {cell.id: cell.source for cell in learner.cells}
    for row in told.plan:
        for name in row.sections:
            deck += _section(name, sections.get(name, []), row, blanks)
    # without the answers
    points = re.findall(r"^- \*(.+?)\*", told.discussion, flags=re.MULTILINE | re.DOTALL)
    deck.append(Slide("For discussion", [_list(map(to_html.inline, points))], told.discussion))
    deck.append(
        Slide("On the board", _blocks(told.board), f"What people get wrong:\n\n{told.mistakes}")
    )
    body = "\n".join(map(_section_tag, _at_most(deck, MOST)))
    reveal = to_html.style(to_html.REVEAL / "reveal.css").replace(
        "@media print{html:not", "@media not all{html:not"
    )
    style = reveal + scripts.style() + to_html.style("slides.css")
    sources = [
        scripts.page_script(),
        *(to_html.style(to_html.REVEAL / name) for name in ("reveal.js", "notes.js")),
    ]
    page = f'<div class="reveal"><div class="slides">{body}</div></div>'
    page += "".join(
        f"<script>{script.split('//# sourceMappingURL')[0]}</script>" for script in sources
    )
    return to_html.document(title, page, style, to_html.style("slides.js"))


def _blocks(source: str) -> list[str]:
    return [*map(str, to_html.markdown(source))]


def _list(items: Iterable[str]) -> str:
    return "<ul>{}</ul>".format("".join(f"<li>{item}</li>" for item in items))


def _sections(solution: NotebookNode) -> dict[str, list[NotebookNode]]:
    """The cells of each section, by its heading; a cell that holds a heading opens its last one."""
    found: dict[str, list[NotebookNode]] = {}
    name = ""
    for cell in solution.cells:
        if cell.cell_type == "markdown":
            name = [name, *saved_notebook.SECTION.findall(cell.source)][-1]
        found.setdefault(name, []).append(cell)
    return found


def _section(
    name: str, cells: list[NotebookNode], row: Row, blanks: dict[str, str]
) -> Iterator[Slide]:
    """The slides of a section: bets with their answers, the blanks that the row names, pictures."""
    bets: dict[str, Slide] = {}
    exercise, others, notes = "", 0, f"**{row.minutes} minutes.** {row.what}"
    for cell in cells:
        if cell.cell_type == "markdown":
            found = saved_notebook.EXERCISE.search(cell.source)
            exercise = found[0] if found and f"`{found[1]}`" in row.what else ""
            continue
        if exercise and "raise NotImplementedError" in blanks.get(cell.id, ""):
            asked = exercise.split("<details>")[0]  # before the hints
            yield Slide(
                name, [*_blocks(asked), to_html.code(to_html.stub(blanks[cell.id]).strip())], notes
            )
            exercise = ""
        for prediction, block in _questions(cell):
            bets[prediction] = Slide(name, [block], notes, spare=1)
            yield bets[prediction]
        answered = [
            bets.pop(key) for key in re.findall(r'predicted="(\w+)"', cell.source) if key in bets
        ]
        for slide in answered:
            slide.blocks.append(_answer(cell))
        for picture in to_html.pictures(cell):
            waiting = answered or [*bets.values()]
            if waiting and not any("picture" in block for block in waiting[-1].blocks):
                waiting[-1].blocks.insert(1, f'<div class="fragment">{picture}</div>')
                waiting[-1].spare = 0
                continue
            others += 1
            code = _idea(cell.source)
            block = f'<div class="beside">{to_html.code(code)}{picture}</div>' if code else picture
            yield Slide(name, [block], notes, spare=1 + others)


def _questions(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """The names of a cell's predictions, and what is asked."""
    names = iter(re.findall(r'predict\(\s*"(\w+)"', cell.source))
    for output in cell.outputs:
        said = output.get("data", {}).get("text/plain", "")
        if said.startswith("Predict: "):
            question, _, options = said.removeprefix("Predict: ").partition("\n")
            words = _list(map(html.escape, options.split(" · ")))
            yield (
                next(names, question),
                f'<div class="bet"><p>{to_html.inline(question)}</p>{words}</div>',
            )


def _answer(cell: NotebookNode) -> str:
    """What the first claims of a cell say, as one block that comes last."""
    told = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    lines = [line for text in told for line in text.splitlines() if line.startswith("▪ ")]
    return (
        f'<div class="answer fragment">{_list(html.escape(line[2:]) for line in lines[:3])}</div>'
    )


def _idea(source: str) -> str:
    """The lines of a cell that are its idea; nothing where they are none, or too many to read from
    the last row.
    """
    tree = ast.parse(source)
    kept = [node for node in tree.body if not _is_machinery(node)]
    lines = source.splitlines()
    text = "\n".join("\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in kept)
    longest = max(map(len, text.splitlines()), default=0)
    is_function = any(isinstance(node, ast.FunctionDef) for node in kept)
    return text if is_function and text.count("\n") < LINES and longest <= 80 else ""


def _is_machinery(node: ast.stmt) -> bool:
    """Whether a statement imports, asserts, claims, asks or draws."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert):
        return True
    calls = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    called = {
        f.id if isinstance(f, ast.Name) else getattr(getattr(f, "value", None), "id", "")
        for f in calls
    }
    return not isinstance(node, ast.FunctionDef) and bool(called & MACHINERY)


def _at_most(deck: list[Slide], most: int) -> list[Slide]:
    """The deck with as many of its spare slides as fit: bets first, then the first picture of each
    section.
    """
    spare = sorted((slide.spare, place) for place, slide in enumerate(deck) if slide.spare)
    room = most - (len(deck) - len(spare))
    if room < 0:
        raise ValueError(
            f"This lesson has {-room} slides too many that must stay: leave an exercise at home."
        )
    gone = {place for _, place in spare[room:]}
    return [slide for place, slide in enumerate(deck) if place not in gone]


def _section_tag(slide: Slide) -> str:
    notes = "".join(_blocks(slide.notes))
    heading = f"<h2>{to_html.inline(slide.heading)}</h2>"
    return (
        f'<section>{heading}{"".join(slide.blocks)}<aside class="notes">{notes}</aside></section>'
    )
