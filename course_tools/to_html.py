"""What slides, handouts and the site share: notebooks' parts as HTML that needs nothing else."""

import html
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from course_tools import authoring, bet_source, links

COURSE = "Transformer circuits, hands-on"
STYLE = Path(__file__).resolve().parent / "style"  # our CSS and JavaScript
# reveal.js 5.2.1 and its notes (MIT), as its npm package has them
REVEAL = Path(__file__).resolve().parent / "reveal"
STILL = "microscope-still"  # the class of the microscope's still drawing


def mathml(formula: str, display: str = "block") -> str:
    """A formula of LaTeX as MathML, "inline" or "block".

    Raises ModuleNotFoundError without the extra `teach`.
    """
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Formulas need latex2mathml: pip install -e ".[teach]" brings it.'
        ) from error

    # it leaves \_ inside \text as it is
    return convert(formula.strip(), display=display).replace(r"\_", "_")


class _Markdown(IPythonRenderer):
    """Jupyter's Markdown, with MathML where a browser would need MathJax."""

    def block_math(self, body: str) -> str:
        return mathml(body)

    def inline_math(self, body: str) -> str:
        return mathml(body, "inline")

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(rf"\begin{{{name}}}{body}\end{{{name}}}")


@cache
def _rendered(source: str, escape: bool = False) -> str:
    renderer = _Markdown(escape=escape, exclude_anchor_links=True)
    return MarkdownWithMath(renderer).render(links.without_terms(source))


def markdown(source: str) -> list[Tag]:
    """The HTML elements of a Markdown cell, in order; formulas raise what `mathml` does."""
    page = BeautifulSoup(_rendered(source), "html.parser")
    return [block for block in page.contents if isinstance(block, Tag)]


def inline(source: str) -> str:
    """Markdown of one paragraph as HTML without the paragraph; HTML in it is shown as it stands."""
    page = BeautifulSoup(_rendered(source, escape=True), "html.parser")
    blocks = [block for block in page.contents if isinstance(block, Tag)]
    return "".join(block.decode_contents() for block in blocks)


def code(source: str) -> str:
    """Python as HTML, coloured."""
    return f'<div class="code">{highlight(source, PythonLexer(), HtmlFormatter())}</div>'


def drawing(stored: str) -> str:
    """The microscope's still picture, without what only JupyterLab needs."""
    return stored.partition("<style>.jp-")[0]


def pictures(cell: NotebookNode) -> Iterator[str]:
    """The pictures among a cell's outputs, each in a `div`; the microscope's are drawings."""
    for output in cell.get("outputs", []):
        shown = output.get("data", {}).get("text/html", "")
        if STILL in shown:
            shown = drawing(shown)
        elif "<img" not in shown:
            continue
        yield f'<div class="picture">{shown}</div>'


def bullets(items: Iterable[str]) -> str:
    """HTML items as a list."""
    return "<ul>{}</ul>".format("".join(f"<li>{item}</li>" for item in items))


def questions(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """The names of a cell's predictions, and what is asked."""
    names = iter(bet_source.read(cell.source).asked)
    for output in cell.get("outputs", []):
        said = output.get("data", {}).get("text/plain", "")
        if said.startswith("Predict: "):
            question, _, options = said.removeprefix("Predict: ").partition("\n")
            words = bullets(map(html.escape, options.split(" · ")))
            yield (
                next(names, question),
                f'<div class="bet"><p>{inline(question)}</p>{words}</div>',
            )


def stub(source: str) -> str:
    """A blank as it is printed: signature and docstring, without the imports above."""
    above = source.split("raise NotImplementedError")[0].rstrip()
    return re.sub(r"^(import|from) .*\n+", "", above, flags=re.MULTILINE)


def both(lesson: str) -> tuple[NotebookNode, NotebookNode]:
    """A lesson's solution and its learner's copy; FileNotFoundError where there is none."""
    path = authoring.solution_path(lesson)
    return authoring.read_notebook(path), authoring.read_notebook(authoring.learner_path(path))


def title(notebook: NotebookNode) -> str:
    """A lesson's title."""
    return notebook.cells[0].source.splitlines()[0].lstrip("# ")


def style(file: str | Path) -> str:
    """One of our files of CSS or JavaScript, by name, or one of reveal.js, by its path."""
    return (STYLE / file).read_text(encoding="utf-8")


def document(heading: str, body: str, css: str, then: str) -> str:
    """A whole page, in which everything is made to fit; `then` is the JavaScript that does."""
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    styles = "\n".join([colours, style("all.css"), css])
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{html.escape(heading)}</title><style>{styles}</style>"
    body += f"<script>{style('fit.js')}{then}</script>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
