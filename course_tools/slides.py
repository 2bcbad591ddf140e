"""The deck for a seminar: what of a lesson a room needs, as the teacher's guide plans it.

The first picture; for each row of the guide's plan what the section defines or asserts, the
questions to bet on, each with its answer and its picture, the pictures that show most, and the
blanks of the exercises done in class; at the end what to discuss, and the board.
"""

import ast
import html
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode

from course_microscope import scripts
from course_tools import bet_source, to_html
from course_utils._files import DOCS
from course_utils.course import saved_notebook

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
    """What docs/TEACHING.md says of one lesson."""

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
    text = (DOCS / "TEACHING.md").read_text(encoding="utf-8")
    found = re.search(rf"(?ms)^## {re.escape(title)}$(.*?)(?=^## |\Z)", text)
    if not found:
        raise ValueError(f'docs/TEACHING.md has no section "{title}", and the slides follow it.')
    section = found[1]

    # The plan, a table.
    plan: list[Row] = []
    for minutes, where, what in re.findall(r"(?m)^\| (\d+) \| (.*) \| (.*) \|$", section):
        row = Row(int(minutes), re.findall(r"\*(.+?)\*", where), what)
        if plan and plan[-1].sections == row.sections:  # a section told in two goes
            first = plan.pop()
            row.minutes += first.minutes
            row.what = f"{first.what} {what}"
        plan.append(row)

    # The other parts, each opened by bold words.
    parts = dict(re.findall(r"(?ms)^\*\*([A-Z][\w ]+?)\.?\*\*\s+(.*?)(?=^\*\*[A-Z]|\Z)", section))
    return Guide(
        goal=parts["Goal"].split("\n\n")[0],
        plan=plan,
        mistakes=parts["What people get wrong"],
        discussion=parts["For discussion"],
        board=parts["On the board"],
    )


def slides(solution: NotebookNode, learner: NotebookNode) -> str:
    """A lesson as one HTML page, at most 25 slides; ValueError where the guide does not know it."""
    title = to_html.title(solution)
    told = guide(title)

    # The opening.
    picture = next(shown for cell in solution.cells for shown in to_html.pictures(cell))
    minutes = sum(row.minutes for row in told.plan)
    notes = f"{minutes} minutes in all. The picture is live in the lesson's first cell."
    opening = _blocks(f"{to_html.COURSE} · {minutes} minutes\n\n{told.goal}")
    deck = [Slide(title, opening, notes), Slide(title, [picture], notes)]

    # What the plan goes through.
    sections = _sections(solution)
    blanks = {cell.id: cell.source for cell in learner.cells}
    for row in told.plan:
        for name in row.sections:
            deck += _section(name, sections.get(name, []), row, blanks)

    # The end; the points to discuss stand there without their answers.
    points = re.findall(r"(?ms)^- \*(.+?)\*", told.discussion)
    deck.append(
        Slide("For discussion", [to_html.bullets(map(to_html.inline, points))], told.discussion)
    )
    mistakes = f"What people get wrong:\n\n{told.mistakes}"
    deck.append(Slide("On the board", _blocks(told.board), mistakes))
    return _page(title, _at_most(deck, MOST))


def _page(title: str, deck: Iterable[Slide]) -> str:
    """A deck as one HTML page."""
    sections = "\n".join(map(_section_tag, deck))
    body = f'<div class="reveal"><div class="slides">{sections}</div></div>'
    reveal_js = to_html.style(to_html.REVEAL / "reveal.js")
    notes_js = to_html.style(to_html.REVEAL / "notes.js")
    for script in (scripts.page_script(), reveal_js, notes_js):
        source = script.split("//# sourceMappingURL")[0]
        body += f"<script>{source}</script>"
    reveal_css = to_html.style(to_html.REVEAL / "reveal.css")
    reveal_css = reveal_css.replace("@media print{html:not", "@media not all{html:not")
    css = reveal_css + scripts.style() + to_html.style("slides.css")
    return to_html.document(title, body, css, to_html.style("slides.js"))


def _blocks(source: str) -> list[str]:
    return [*map(str, to_html.markdown(source))]


def _sections(solution: NotebookNode) -> dict[str, list[NotebookNode]]:
    """The cells of each section, by its heading; a cell that holds a heading opens its last one."""
    found: dict[str, list[NotebookNode]] = {}
    name = ""
    for cell in solution.cells:
        if cell.cell_type == "markdown":
            *_, name = [name, *saved_notebook.SECTION.findall(cell.source)]
        found.setdefault(name, []).append(cell)
    return found


def _section(
    name: str, cells: list[NotebookNode], row: Row, blanks: dict[str, str]
) -> Iterator[Slide]:
    """The slides of a section: bets with their answers, the blanks that the row names, pictures."""
    bets: dict[str, Slide] = {}  # that have no answer yet
    exercise = ""  # what is asked, until its blank comes
    others = 0  # pictures that answer no bet
    notes = f"**{row.minutes} minutes.** {row.what}"
    said = _said(cells)
    if said:
        ideas = [f'<div class="idea">{block}</div>' for block in _blocks("\n\n".join(said))]
        yield Slide(name, ideas, notes, spare=1)
    for cell in cells:
        if cell.cell_type == "markdown":
            found = saved_notebook.EXERCISE.search(cell.source)
            exercise = found[0] if found and f"`{found[1]}`" in row.what else ""
            continue

        # A blank, below what is asked.
        blank = blanks.get(cell.id, "")
        if exercise and "raise NotImplementedError" in blank:
            asked = exercise.split("<details>")[0]  # before the hints
            code = to_html.code(to_html.stub(blank).strip())
            yield Slide(name, [*_blocks(asked), code], notes)
            exercise = ""

        # Bets, and the answers of earlier ones.
        for prediction, block in to_html.questions(cell):
            bets[prediction] = Slide(name, [block], notes, spare=1)
            yield bets[prediction]
        answers = bet_source.read(cell.source).answered
        answered = [bets.pop(key) for key in answers if key in bets]
        for slide in answered:
            slide.blocks.append(_answer(cell))

        # Pictures: the first goes to a bet that waits for one.
        for picture in to_html.pictures(cell):
            waiting = answered or [*bets.values()]
            if waiting and not any("picture" in block for block in waiting[-1].blocks):
                waiting[-1].blocks.insert(1, f'<div class="fragment">{picture}</div>')
                waiting[-1].spare = 0
                continue
            others += 1
            idea = _idea(cell.source)
            if idea:
                picture = f'<div class="beside">{to_html.code(idea)}{picture}</div>'
            spare = 1 if to_html.STILL in picture else 1 + others  # a model at work shows most
            yield Slide(name, [picture], notes, spare)


def _said(cells: list[NotebookNode]) -> list[str]:
    """What a section defines or asserts before its first bet, and a formula."""
    told = itertools.takewhile(lambda cell: not [*to_html.questions(cell)], cells)
    text = "\n\n".join(cell.source for cell in told if cell.cell_type == "markdown")
    text = saved_notebook.EXERCISE.sub("", text)
    text = re.sub(r"(?s)<details>.*?</details>|^```.*?^```$", "", text, flags=re.MULTILINE)
    formula = re.search(r"(?s)\$\$.*?\$\$", text)
    quoted = re.findall(r"(?m)^> .*\*\*.*$", text)
    prose = re.sub(r"(?s)\$\$.*?\$\$", "", text)
    prose = re.sub(r"(?m)^[#|>*-].*$", "", prose)  # headings, tables, quotations, lists
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z*\[(])|\n\n", prose)
    bold = []
    for before, one in itertools.pairwise(["", *sentences]):
        if one.count("**") in (2, 4):  # "This is called" needs what it points to
            points = re.match(r"(This|It)\b", one) or re.search(r"\bthese\b", one, re.IGNORECASE)
            bold.append(f"{before} {one}".strip() if points else one.strip())
    return [*quoted, *bold][:3] + ([formula[0]] if formula else [])


def _answer(cell: NotebookNode) -> str:
    """What the first claims of a cell say, as one block that comes last."""
    told = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    lines = [line for text in told for line in text.splitlines() if line.startswith("▪ ")]
    words = to_html.bullets(html.escape(line[2:]) for line in lines[:3])
    return f'<div class="answer fragment">{words}</div>'


def _idea(source: str) -> str:
    """The lines of a cell that are its idea, if the last row can read them, else nothing."""
    kept = [node for node in ast.parse(source).body if not _is_machinery(node)]
    lines = []
    for node in kept:
        lines += source.splitlines()[node.lineno - 1 : node.end_lineno]
    has_function = any(isinstance(node, ast.FunctionDef) for node in kept)
    is_small = len(lines) <= LINES and all(len(line) <= 80 for line in lines)
    return "\n".join(lines) if has_function and is_small else ""


def _is_machinery(node: ast.stmt) -> bool:
    """Whether a statement imports, asserts, claims, asks or draws."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(node, ast.FunctionDef):
        return False
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            function = call.func
            owner = function if isinstance(function, ast.Name) else getattr(function, "value", None)
            if getattr(owner, "id", "") in MACHINERY:
                return True
    return False


def _at_most(deck: list[Slide], most: int) -> list[Slide]:
    """The deck with as many of its spare slides as fit: bets, then each section's first picture."""
    spare = sorted((slide.spare, place) for place, slide in enumerate(deck) if slide.spare)
    room = most - (len(deck) - len(spare))
    if room < 0:
        raise ValueError(
            f"This lesson has {-room} slides too many that must stay: leave an exercise at home."
        )
    gone = {place for _, place in spare[room:]}
    return [slide for place, slide in enumerate(deck) if place not in gone]


def _section_tag(slide: Slide) -> str:
    heading = f"<h2>{to_html.inline(slide.heading)}</h2>"
    blocks = "".join(slide.blocks)
    notes = "".join(_blocks(slide.notes))
    return f'<section>{heading}{blocks}<aside class="notes">{notes}</aside></section>'
