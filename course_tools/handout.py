"""A lesson on paper: the learner's question, formulas and exercises, with room to write."""

import re

from bs4 import Tag
from nbformat import NotebookNode

from course_tools import authoring, bet_source, links, to_html

ROOM = '<div class="room"><i></i><i></i></div>'  # for a bet and its reason
# how the headings of tables, summaries and the like begin: the others are numbered
WITHOUT_NUMBER = re.compile(r"\D")


def handout(solution: NotebookNode, learner: NotebookNode) -> str:
    """A learner's notebook on paper: question, aims, openings, formulas, bets, exercises with room.

    A figure is there where the text announces one and it shows nothing of an exercise's answer;
    else the announcing sentence is not there either.
    """
    figures = _open_figures(solution)
    asked = {
        cell.id: to_html.questions(cell) for cell in solution.cells if cell.cell_type == "code"
    }
    paper = _Handout()
    cells = [cell for cell in learner.cells if cell.get("id") not in links.IDS]
    for cell, following in zip(cells, [*cells[1:], cells[-1]], strict=True):
        if cell.cell_type == "code":
            paper.add_code(cell.source)
            paper.shown += [f"{block}{ROOM}" for _, block in asked.get(cell.id, [])]
            continue
        prose = cell.source
        figure = ""
        if prose.endswith(":") and "raise NotImplementedError" not in following.source:
            figure = figures.get(following.id, "")
            if not figure:
                prose = _without_last_sentence(prose)
        blocks = to_html.markdown(prose)
        for block in blocks:
            paper.add(block)
        if figure and paper.shown[-1] == str(blocks[-1]):
            paper.shown.append(figure)
    title = to_html.title(learner)
    body = "\n".join(paper.finished())
    return to_html.document(title, body, to_html.style("handout.css"), "fit(document)")


def _without_last_sentence(source: str) -> str:
    whole, _, announcement = source.rpartition("\n\n")
    *kept, _ = re.split(r"(?<=[.?!)*]) +(?=[A-Z*$`])", announcement)
    return "\n\n".join(filter(None, [whole, " ".join(kept)]))


def _open_figures(solution: NotebookNode) -> dict[str, str]:
    """The figure of each cell, by its id, unless an exercise's function had a part in it."""
    figures: dict[str, str] = {}
    closed: set[str] = set()  # names of what comes of an exercise's function
    for cell in solution.cells:
        if cell.cell_type != "code":
            continue
        made, read = bet_source.names(cell.source)
        if authoring.MARKERS[0] in cell.source or (read - made) & closed:
            closed |= made
            continue
        for image in to_html.pictures(cell):
            if to_html.STILL not in image:
                figures.setdefault(cell.id, image.replace("picture", "figure", 1))
    return figures


class _Handout:
    """What of a notebook goes on paper, chosen block by block."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.exercise: list[str] | None = None  # of one whose code is still to come, what was said
        self.section: str | None = None  # the last heading of level 2
        self.opens = False  # nothing but a heading came before in this section
        self.last: Tag | None = None  # the block before, shown or not

    def add_code(self, source: str) -> None:
        """Of an exercise the signature, the docstring, and a line for each minute.

        Of other code nothing.
        """
        if self.exercise and "raise NotImplementedError" in source:
            minutes = int(re.findall(r"(\d+) minutes", self.exercise[0])[0])
            room = f'<div class="room">{"<i></i>" * minutes}</div>'
            inside = [*self.exercise, to_html.code(to_html.stub(source)), room]
            self.shown.append('<div class="exercise">{}</div>'.format("\n".join(inside)))
            self.exercise = None

    def finished(self) -> list[str]:
        """All that is shown, below a line for a name.

        A section without an exercise has three lines for notes.
        """
        parts: list[list[str]] = [[]]
        for block in self.shown:
            if block.startswith("<h2"):
                parts.append([])
            parts[-1].append(block)
        title, *opening = parts[0]
        name = '<p class="name">Name<i></i>Date<i></i></p>'
        blocks = [title, name, *opening]
        for part in parts[1:]:
            blocks += part
            if not any("<i></i>" in block or "To think about" in block for block in part):
                blocks.append('<div class="room"><i></i><i></i><i></i></div>')
        return blocks

    def add(self, block: Tag) -> None:
        """A block of prose, if it is wanted."""
        said = block.get_text().strip()
        if block.name == "details":  # hints, what answers a bet, and what is told for the curious
            return
        if block.name in ("h1", "h2", "h3"):
            self.exercise = [str(block)] if said.startswith("Exercise") else None
            self.section = said if block.name == "h2" else self.section
            self.opens = block.name != "h3"
            wanted = [block] if self.opens else []
        elif self.exercise is not None:
            self.exercise.append(str(block))
            return
        elif self.section is None:
            # before the first section: what the lesson asks, and what it is for
            is_first = self.last is not None and self.last.name == "h1"
            is_aim = said.startswith("After this lesson") or block.name == "ul"
            wanted = [block] if is_first or is_aim else []
        else:
            wanted = self._of_section(block, said)
            self.opens = False
        if self.section and WITHOUT_NUMBER.match(self.section):
            # what was found: not for the handout
            wanted = [block] if said.startswith("To think about") else []
        self.shown += map(str, wanted)
        self.last = block

    def _of_section(self, block: Tag, said: str) -> list[Tag]:
        """A section's opening, quotations, formulas with what announces them, announced lists."""
        last = self.last
        formula = block.find("math", display="block")
        is_shown = last is not None and str(last) == self.shown[-1]
        above = last if last is not None and last.name == "p" else None
        if formula and above and said.startswith(formula.get_text().strip()):
            return [block] if is_shown else [above, block]
        is_announced = last is not None and is_shown and last.get_text().strip().endswith(":")
        is_listed = is_announced and block.name in ("ul", "ol", "table")
        is_quoted = block.name == "blockquote"
        return [block] if formula or self.opens or is_listed or is_quoted else []
