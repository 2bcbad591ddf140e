"""Lessons to show and to print: `python -m course_utils.tools.export slides|handout [LESSON ...] --out FOLDER`.

`slides` shows a solution notebook as it is stored; `handout` takes the learner's copy, and of that the
questions, formulas and exercises. Each makes one HTML file that needs nothing else: formulas become MathML, and
pictures, styles and reveal.js are inside.
"""

import argparse
import ast
import html
import re
import sys
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup, Tag
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from course_utils._files import NOTEBOOKS, SOLUTIONS, get_back, lesson_of, solution_file
from course_utils.tools import authoring, links, utf8_output

STYLE = Path(__file__).resolve().parent / "style"  # our CSS and JavaScript
REVEAL = Path(__file__).resolve().parent / "reveal"  # reveal.js 5.2.1 (MIT), as its npm package has it
WITHOUT_NUMBER = re.compile(r"\D")  # how the headings of tables, summaries and the like begin: the others are numbered


class _Markdown(IPythonRenderer):
    """Jupyter's Markdown, with MathML where a browser would need MathJax."""

    def block_math(self, body: str) -> str:
        return mathml(body, "block")

    def inline_math(self, body: str) -> str:
        return mathml(body, "inline")

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", "block")


def mathml(formula: str, display: str) -> str:
    """A formula of LaTeX as MathML; `display` is "inline" or "block".

    Raises ModuleNotFoundError without latex2mathml, which the extra `teach` brings.
    """
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('Formulas need latex2mathml: pip install -e ".[teach]" brings it.') from error

    return convert(formula.strip(), display=display).replace(r"\_", "_")  # it leaves \_ inside \text as it is


@cache
def _rendered(source: str) -> str:
    return MarkdownWithMath(_Markdown(escape=False, exclude_anchor_links=True)).render(source)


def markdown(source: str) -> list[Tag]:
    """The HTML elements that a Markdown cell is made of, in order.

    Raises ModuleNotFoundError for a cell with formulas where latex2mathml is missing (the extra `teach` brings it).
    """
    return [block for block in BeautifulSoup(_rendered(source), "html.parser").contents if isinstance(block, Tag)]


def _code(source: str) -> str:
    return f'<div class="code">{highlight(source, PythonLexer(), HtmlFormatter())}</div>'


def _outputs(cell: NotebookNode) -> Iterator[str]:
    for output in cell.outputs:
        data = output.get("data", {})
        if "microscope-still" in data.get("text/html", ""):
            shown = drawing(data["text/html"])
        elif "<img" in data.get("text/html", ""):  # a figure of plots.show, words included
            shown = data["text/html"]
        elif "text/markdown" in data:
            shown = "".join(map(str, markdown(data["text/markdown"])))
        elif "text" in output:
            shown = f"<pre>{html.escape(output.text)}</pre>"
        else:
            continue  # what Jupyter writes in the place of a widget
        yield f'<div class="output fragment">{shown}</div>'


def drawing(stored: str) -> str:
    """The microscope's still drawing, its pictures as part of the page: there the columns answer the mouse."""
    pictures = re.compile(r'<img src="data:image/svg\+xml;base64,([^"]*)"[^>]*>')
    drawn = pictures.sub(lambda picture: b64decode(picture[1]).decode(), stored.partition("<style>.jp-")[0])
    return f'<div data-jp-theme-light="true">{drawn}</div>'  # a page is white


def without_markers(source: str) -> str:
    """A solution's code without the lines that mark what the learner's copy leaves out."""
    return re.sub(r"^ *### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\n", "", source, flags=re.MULTILINE)


def _cell(cell: NotebookNode) -> Iterator[str]:
    """The blocks of a cell; an interactive picture is not stored, and so it has no place here."""
    if cell.cell_type == "markdown":
        yield from map(str, markdown(cell.source))
        return
    outputs = list(_outputs(cell))
    if outputs or "interactive" not in cell.metadata.get("tags", []):
        yield _code(without_markers(cell.source))
        yield from outputs


def _without_links(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells but for those that lead to other lessons: a slide or a sheet of paper does not."""
    return [cell for cell in notebook.cells if cell.get("id") not in links.IDS]


def slides(solution: NotebookNode, learner: NotebookNode) -> str:
    """A solution notebook as reveal.js slides, a new one at each heading.

    What is too long for one slide goes on below it. An exercise shows the learner's blank first; the answer is below.
    """
    blanks = {cell.id: cell.source for cell in learner.cells if cell.cell_type == "code"}
    topics: list[list[str]] = []
    for cell in _without_links(solution):
        blocks = list(_cell(cell))
        if cell.cell_type == "code" and blanks.get(cell.id, cell.source) != cell.source:
            topics[-1].append(_code(blanks[cell.id]))
            blocks[0] = blocks[0].replace('class="code"', 'class="code new"', 1)
        for block in blocks:
            if not topics or (
                re.match("<h[1-3]", block) and len(topics[-1]) > 1
            ):  # a lone heading goes with the next one
                topics.append([])
            topics[-1].append(block)
    sections = "\n".join("<section>\n{}\n</section>".format("\n".join(topic)) for topic in topics)
    style = (REVEAL / "reveal.css").read_text(encoding="utf-8") + _style("slides.css")
    reveal = (REVEAL / "reveal.js").read_text(encoding="utf-8").split("//# sourceMappingURL")[0]
    ours = _script("fit.js", _style("slides.js"))
    return _document(solution, f'<div class="deck">{sections}</div><script>{reveal}</script>{ours}', style)


def handout(solution: NotebookNode, learner: NotebookNode) -> str:
    """A learner's notebook on paper: its question and aims, openings and formulas, and the exercises with room.

    A figure is there where the text announces one and it shows nothing of an exercise's answer; else the announcing
    sentence is not there either.
    """
    figures = _open_figures(solution)
    cells, paper = _without_links(learner), _Handout()
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if cell.cell_type == "code":
            paper.add_code(cell.source)
            continue
        announces = cell.source.endswith(":") and "raise NotImplementedError" not in getattr(following, "source", "")
        figure = figures.get(getattr(following, "id", ""), "") if announces else ""
        blocks = markdown(_without_last_sentence(cell.source) if announces and not figure else cell.source)
        for block in blocks:
            paper.add(block)
        if figure and paper.shown[-1] == str(blocks[-1]):
            paper.shown.append(figure)
    body = "\n".join(paper.finished())
    return _document(learner, f"{body}{_script('fit.js', 'fit(document)')}", _style("handout.css"))


def _without_last_sentence(source: str) -> str:
    whole, announcement = source.rpartition("\n\n")[::2]
    *kept, _ = re.split(r"(?<=[.?!)*]) +(?=[A-Z*$`])", announcement)
    return "\n\n".join(filter(None, [whole, " ".join(kept)]))


def _open_figures(solution: NotebookNode) -> dict[str, str]:
    """The figure of each cell, by the cell's id; but for those that an exercise's function had a part in."""
    figures: dict[str, str] = {}
    closed: set[str] = set()
    for cell in solution.cells:
        if cell.cell_type != "code":
            continue
        used, bound = _names(cell.source)
        if authoring.MARKERS[0] in cell.source or used & closed:
            closed |= bound
            continue
        shown = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
        for image in (text for text in shown if "<img" in text and "microscope-still" not in text):
            figures.setdefault(cell.id, f'<div class="figure">{image}</div>')
    return figures


def _names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell uses, and those that it binds."""
    nodes = [*ast.walk(ast.parse(source))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - bound, bound | {n.name for n in nodes if isinstance(n, ast.FunctionDef)}


class _Handout:
    """What of a notebook goes on paper, chosen block by block."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.exercise: list[str] | None = None  # what was said of an exercise whose code is still to come
        self.section: str | None = None  # the last heading of level 2
        self.opens = False  # nothing but a heading came before in this section
        self.last: Tag | None = None  # the block before, shown or not

    def add_code(self, source: str) -> None:
        """Of an exercise the signature, the docstring, and a line for each minute. Of other code nothing."""
        if self.exercise and "raise NotImplementedError" in source:
            signature = source.split("raise NotImplementedError")[0].rstrip()
            signature = re.sub(r"^(import|from) .*\n+", "", signature, flags=re.MULTILINE)
            minutes = int(re.findall(r"(\d+) minutes", self.exercise[0])[0])
            inside = [*self.exercise, _code(signature), f'<div class="room">{"<i></i>" * minutes}</div>']
            self.shown.append('<div class="exercise">{}</div>'.format("\n".join(inside)))
            self.exercise = None

    def finished(self) -> list[str]:
        """All that is shown, a line for a name on top; no section of which only its opening would be left."""
        parts: list[list[str]] = [[]]
        for block in self.shown:
            if block.startswith("<h2"):
                parts.append([])
            parts[-1].append(block)
        kept = [part for part in parts[1:] if any(map(self._holds_on, part))]
        title, *opening = parts[0]
        name = '<p class="name">Name<i></i>Date<i></i></p>'
        return [title, name, *opening, *(block for part in kept for block in part)]

    @staticmethod
    def _holds_on(block: str) -> bool:
        """Whether a section is worth its place for the sake of this block."""
        tags = ("<div", "<blockquote", "<ul", "<ol", "<table")
        return block.startswith(tags) or 'display="block"' in block or "To think about" in block[:40]

    def add(self, block: Tag) -> None:
        """A block of prose, if it is wanted."""
        said = block.get_text().strip()
        if block.name in ("h1", "h2", "h3"):
            self.exercise = [str(block)] if said.startswith("Exercise") else None
            self.section = said if block.name == "h2" else self.section
            self.opens = block.name != "h3"
            wanted = [block] if self.opens else []
        elif self.exercise is not None:
            self.exercise += [] if block.name == "details" else [str(block)]
            return
        elif self.section is None:  # before the first section: what the lesson asks, and what it is for
            first = self.last is not None and self.last.name == "h1"
            wanted = [block] if first or said.startswith("After this lesson") or block.name == "ul" else []
        else:
            wanted = self._of_section(block, said)
            self.opens = False
        if self.section and WITHOUT_NUMBER.match(self.section):  # what was found: not for the handout
            wanted = [block] if said.startswith("To think about") else []
        self.shown += map(str, wanted)
        self.last = block

    def _of_section(self, block: Tag, said: str) -> list[Tag]:
        """The opening of a section, its quotations, its formulas, each with what announces it, and announced lists."""
        last, formula = self.last, block.find("math", display="block")
        is_shown = last is not None and str(last) == self.shown[-1]
        announced = last is not None and is_shown and last.get_text().strip().endswith(":")
        if formula and last is not None and last.name == "p" and said.startswith(formula.get_text().strip()):
            return [block] if is_shown else [last, block]
        listed = announced and block.name in ("ul", "ol", "table")
        return [block] if formula or self.opens or listed or block.name == "blockquote" else []


def _style(file: str) -> str:
    return (STYLE / file).read_text(encoding="utf-8")


def _script(file: str, then: str) -> str:
    return f"<script>{_style(file)}{then}</script>"


def _document(notebook: NotebookNode, body: str, style: str) -> str:
    title = html.escape(notebook.cells[0].source.splitlines()[0].lstrip("# "))
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    styles = "\n".join([colours, _style("all.css"), style])
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{styles}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def export(kind: str, lesson: str) -> str:
    """One lesson, by the name of its notebook, as the HTML text of "slides" or "handout".

    Raises ValueError when there is no such lesson or kind.
    """
    makers = {"slides": slides, "handout": handout}
    paths = [SOLUTIONS / solution_file(lesson), NOTEBOOKS / f"{lesson}.ipynb"]
    if kind not in makers:
        raise ValueError(f'There is no "{kind}": choose {", ".join(makers)}.')
    if not all(path.is_file() for path in paths):
        raise ValueError(f'There is no lesson "{lesson}" in notebooks/ and notebooks/solutions/.')
    return makers[kind](*(nbformat.read(path, as_version=4) for path in paths))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.tools.export", description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("slides", "handout"))
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="a path or a name like 03_zero_layers; all")
    parser.add_argument("--out", type=Path, default=Path("runs/export"), help="a folder (default: runs/export)")
    options = parser.parse_args(arguments)
    utf8_output()
    names = options.lessons or sorted(lesson_of(path) for path in SOLUTIONS.glob("*.ipynb"))
    if not names:
        parser.error(f"There is no lesson in {NOTEBOOKS}. {get_back('notebooks')}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        stem = lesson_of(Path(name))
        try:
            text = export(options.kind, stem)
        except (ValueError, ModuleNotFoundError) as error:
            parser.error(str(error))
        target = options.out / f"{stem}.{options.kind}.html"
        target.write_text(text, encoding="utf-8")
        print(f"{target} ({len(text.encode()) / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
