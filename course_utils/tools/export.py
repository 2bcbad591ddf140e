"""Lessons to show and to print: `python -m course_utils.tools.export slides|page|handout [LESSON ...] --out FOLDER`.

`slides` and `page` show a solution notebook as it is stored; `handout` takes the learner's copy, and of that the
questions, formulas and exercises. Each makes one HTML file that needs nothing else: formulas become MathML, and
pictures, styles and reveal.js are inside.
"""

import argparse
import html
import re
import struct
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

from course_utils._files import NOTEBOOKS, get_back
from course_utils.tools import utf8_output

REVEAL = Path(__file__).resolve().parent / "reveal"  # reveal.js 5.2.1 (MIT), as its npm package has it
WITHOUT_NUMBER = re.compile(r"\D")  # how the headings of tables, summaries and the like begin: the others are numbered

STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; color: #111; background: #fff; }
pre, code { font-family: "DejaVu Sans Mono", Consolas, Menlo, monospace; }
code { font-size: 0.9em; }
pre { font-size: 0.82em; line-height: 1.35; padding: 0.6em 0.8em; margin: 0.6em 0; overflow-x: auto; }
.code pre, pre.text { background: #f5f5f5; border-radius: 4px; }
.output pre { border-left: 3px solid #999; }
pre code { font-size: 1em; }
table { border-collapse: collapse; margin: 0.8em 0; font-size: 0.9em; }
th, td { border: 1px solid #bbb; padding: 0.25em 0.6em; text-align: left; vertical-align: top; }
img { max-width: 100%; height: auto; }
math { font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math", math, serif; font-size: 1.05em; }
math[display="block"] { margin: 0.6em 0; overflow-x: auto; max-width: 100%; }
blockquote { border-left: 3px solid #999; margin-left: 0; padding-left: 1em; }
h1, h2, h3 { line-height: 1.2; }
a { color: #0072b2; }
"""

PAGE_STYLE = """
body { max-width: 62em; margin: 2em auto; padding: 0 1em; }
@media print { body { font-size: 10pt; margin: 0; max-width: none; } pre, img, tr { break-inside: avoid; } }
"""

HANDOUT_STYLE = """
body { max-width: 48em; margin: 2em auto; padding: 0 1em; }
.exercise { break-inside: avoid; border: 1px solid #bbb; border-radius: 4px; padding: 0 1em; margin: 1em 0; }
.exercise pre { border: 0; padding: 0; background: none; white-space: pre-wrap; }
.room i { display: block; height: 1.8em; border-bottom: 1px solid #bbb; }
.room { margin-bottom: 1em; }
h2 { break-after: avoid; margin-top: 1.4em; }
p, li, math { break-inside: avoid; }
@page { margin: 18mm 16mm; }
@media print {
  body { font-size: 10pt; line-height: 1.4; margin: 0; padding: 0; max-width: none; }
  math[display="block"] { overflow: visible; }
}
"""

# reveal.js scales a slide of 1280 × 720 to the screen; the script below fills slides up to that height.
SLIDES_STYLE = """
.deck { font-size: 26px; line-height: 1.35; width: 1280px; }
.deck section section { text-align: left; padding: 16px 40px !important; box-sizing: border-box; }
.deck section.present:not(.stack) { max-height: 700px; overflow-y: auto; }
.deck h1 { font-size: 1.7em; margin: 0.2em 0 0.5em; }
.deck h2 { font-size: 1.4em; margin: 0.1em 0 0.4em; }
.deck h3 { font-size: 1.15em; margin: 0.1em 0 0.4em; }
.deck p, .deck ul, .deck ol { margin: 0.4em 0; }
.deck pre { font-size: 0.74em; white-space: pre-wrap; }
.deck table { font-size: 0.75em; }
.deck img { display: block; margin: 0 auto; max-height: 520px; width: auto; max-width: 100%; zoom: 1.25; }
"""

FIT_SCRIPT = """
function fit(element) {  // a formula that is too wide becomes smaller
  for (const formula of element.querySelectorAll('math[display="block"]')) {
    const ratio = formula.clientWidth / formula.scrollWidth;
    if (ratio < 1) formula.style.fontSize = 0.95 * ratio * 1.05 + "em";
  }
}
"""

SLIDES_SCRIPT = """
const deck = document.querySelector(".deck"), HEIGHT = 680;
function divide(block, slide, least) {  // a table or list that is too high: what is left over when this slide is full
  const rows = (list) => [...list.querySelectorAll(":scope > tbody > tr, :scope > li")];
  const all = rows(block), rest = block.cloneNode(true);
  let kept = all.length;
  while (kept > least && slide.scrollHeight > HEIGHT) all[--kept].remove();
  if (slide.scrollHeight > HEIGHT) all.slice(kept).forEach((row) => all[0].parentNode.append(row));
  if (slide.scrollHeight > HEIGHT || kept === all.length) return null;
  rows(rest).slice(0, kept).forEach((row) => row.remove());
  if (rest.tagName === "OL") rest.start = block.start + kept;
  return rest;
}
for (const topic of [...deck.children]) {
  const blocks = [...topic.children];
  let slide;
  const start = () => topic.append((slide = document.createElement("section")));
  const full = () => (fit(slide), slide.scrollHeight > HEIGHT);
  function place(block) {
    slide.append(block);
    if (!full()) return;
    let rest = slide.children.length > 1 ? divide(block, slide, 3) : null;
    if (!rest && slide.children.length > 1) { start(); slide.append(block); }
    if (full()) rest = divide(block, slide, 1);
    for (let zoom = 0.95; full() && zoom > 0.5; zoom -= 0.05) block.style.zoom = zoom;
    if (rest) { start(); place(rest); }
  }
  topic.replaceChildren();
  start();
  for (const block of blocks) {
    if (block.matches(".new") && slide.children.length) start();
    place(block);
  }
  for (const part of [...topic.children]) part.firstElementChild?.classList.remove("fragment");
}
const reveal = document.createElement("div");
reveal.className = "reveal";
document.body.append(reveal);
deck.classList.add("slides");
reveal.append(deck);
Reveal.initialize({
  width: 1280, height: 720, margin: 0.03, center: false, hash: true, slideNumber: "h.v",
  transition: "none", backgroundTransition: "none", pdfSeparateFragments: false,
});
"""


class _Markdown(IPythonRenderer):
    """Jupyter's Markdown, with MathML where a browser would need MathJax."""

    def block_math(self, body: str) -> str:
        return _mathml(body, "block")

    def inline_math(self, body: str) -> str:
        return _mathml(body, "inline")

    def latex_environment(self, name: str, body: str) -> str:
        return _mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", "block")


def _mathml(formula: str, display: str) -> str:
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
        if "image/png" in data:
            width, height = struct.unpack(">II", b64decode(data["image/png"])[16:24])
            picture = "".join(data["image/png"].split())
            shown = f'<img src="data:image/png;base64,{picture}" width="{width}" height="{height}" alt="figure">'
        elif "text" in output:
            shown = f"<pre>{html.escape(output.text)}</pre>"
        else:
            continue  # what Jupyter writes in the place of a widget
        yield f'<div class="output fragment">{shown}</div>'


def _cell(cell: NotebookNode) -> Iterator[str]:
    """The blocks of a cell; an interactive picture is not stored, and so it has no place here."""
    if cell.cell_type == "markdown":
        yield from map(str, markdown(cell.source))
        return
    outputs = list(_outputs(cell))
    if outputs or "interactive" not in cell.metadata.get("tags", []):
        yield _code(re.sub(r"^ *### (BEGIN|END) SOLUTION\n", "", cell.source, flags=re.MULTILINE))
        yield from outputs


def page(solution: NotebookNode) -> str:
    """A solution notebook, outputs included, as one HTML page."""
    body = "\n".join(block for cell in solution.cells for block in _cell(cell))
    return _document(solution, f"{body}<script>{FIT_SCRIPT}fit(document)</script>", PAGE_STYLE)


def slides(solution: NotebookNode, learner: NotebookNode) -> str:
    """A solution notebook as reveal.js slides, a new one at each heading.

    What is too long for one slide goes on below it. An exercise shows the learner's blank first; the answer is below.
    """
    blanks = {cell.id: cell.source for cell in learner.cells if cell.cell_type == "code"}
    topics: list[list[str]] = []
    for cell in solution.cells:
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
    style = (REVEAL / "reveal.css").read_text(encoding="utf-8") + SLIDES_STYLE
    script = (REVEAL / "reveal.js").read_text(encoding="utf-8").split("//# sourceMappingURL")[0]
    body = f'<div class="deck">{sections}</div><script>{script}</script><script>{FIT_SCRIPT}{SLIDES_SCRIPT}</script>'
    return _document(solution, body, style)


def handout(learner: NotebookNode) -> str:
    """A learner's notebook on paper: its question and aims, each section's opening and formulas, and the exercises."""
    shown: list[str] = []
    exercise: list[str] | None = None  # the blocks of the exercise that is open
    section: str | None = None  # its heading
    opens = False  # is the next block the first one below a heading?
    last: Tag | None = None
    for cell in learner.cells:
        if cell.cell_type == "code":
            if exercise:  # the signature and the docstring; below them, room to write
                signature = cell.source.split("raise NotImplementedError")[0].rstrip()
                inside = [*exercise, _code(signature), f'<div class="room">{"<i></i>" * 4}</div>']
                shown.append('<div class="exercise">{}</div>'.format("\n".join(inside)))
            exercise = None
            continue
        for block in markdown(cell.source):
            text = block.get_text().strip()
            if block.name in ("h1", "h2", "h3"):
                exercise = [str(block)] if text.startswith("Exercise") else None
                section = text if block.name == "h2" else section
                opens = block.name != "h3"
                wanted = [block] if opens else []
            elif exercise is not None:
                exercise += [] if block.name == "details" else [str(block)]
                continue
            elif section is None:  # before the first section: what the lesson asks, and what it is for
                wanted = [block] if text.startswith(("The question", "After this lesson")) or block.name == "ul" else []
            else:
                announced = last is not None and str(last) == shown[-1] and last.get_text().strip().endswith(":")
                formula = block.find("math", display="block")
                listed = announced and block.name in ("ul", "ol", "table")
                wanted = [block] if formula or opens or listed or block.name == "blockquote" else []
                if formula and last and text.startswith(formula.get_text().strip()) and last.name == "p":
                    wanted = [last, block] if str(last) != shown[-1] else wanted
                opens = False
            if section and WITHOUT_NUMBER.match(section):  # what was found: not for the handout
                wanted = [block] if text.startswith("To think about") else []
            shown += map(str, wanted)
            last = block
    body = "\n".join(shown)
    return _document(learner, f"{body}<script>{FIT_SCRIPT}fit(document)</script>", HANDOUT_STYLE)


def _document(notebook: NotebookNode, body: str, style: str) -> str:
    title = html.escape(notebook.cells[0].source.splitlines()[0].lstrip("# "))
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{colours}{STYLE}{style}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def export(kind: str, lesson: str) -> str:
    """One lesson, by the name of its notebook, as the HTML text of "slides", "page" or "handout".

    Raises ValueError when there is no such lesson or kind.
    """
    makers = {
        "slides": slides,
        "page": lambda solution, learner: page(solution),
        "handout": lambda solution, learner: handout(learner),
    }
    paths = [folder / f"{lesson}.ipynb" for folder in (NOTEBOOKS / "solutions", NOTEBOOKS)]
    if kind not in makers:
        raise ValueError(f'There is no "{kind}": choose {", ".join(makers)}.')
    if not all(path.is_file() for path in paths):
        raise ValueError(f'There is no lesson "{lesson}" in notebooks/ and notebooks/solutions/.')
    return makers[kind](*(nbformat.read(path, as_version=4) for path in paths))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.tools.export", description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("slides", "page", "handout"))
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="a path or a name like 03_zero_layers; all")
    parser.add_argument("--out", type=Path, default=Path("runs/export"), help="a folder (default: runs/export)")
    options = parser.parse_args(arguments)
    utf8_output()
    names = options.lessons or sorted(path.stem for path in (NOTEBOOKS / "solutions").glob("*.ipynb"))
    if not names:
        parser.error(f"There is no lesson in {NOTEBOOKS}. {get_back('notebooks')}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        stem = Path(name).name.removesuffix(".ipynb")
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
