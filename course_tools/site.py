"""The course as a site to read: `python -m course_tools.site`. Nothing runs, and nothing asks a
network.

Sphinx with myst-nb makes a page of each solution notebook as it is stored. An exercise shows its
blank, and the answer unfolds below; formulas are MathML. The microscope is alive: what was stored
it shows at once, and the rest it computes in the page, from a model in a script beside it.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course_tools import authoring, links, to_html
from course_utils._files import NOTEBOOKS, ROOT, lesson_of, write_text
from course_utils.course import bets, claims, microscope, utf8_output
from course_utils.course.microscope import scripts
from course_utils.models import load

TEXT = "lantern_keeper = 3\nprint(lantern_kee"  # what the first page opens with, as lesson 00
TEXTS = {  # what stands after the lessons: the name of the page → its file
    "INSTALL": ROOT / "README.md",
    "GLOSSARY": NOTEBOOKS / links.GLOSSARY,
    "TEACHING": NOTEBOOKS / "TEACHING.md",
    "data": ROOT / "data" / "README.md",
    "CONTRIBUTING": ROOT / "CONTRIBUTING.md",
    "CHANGELOG": ROOT / "CHANGELOG.md",
}
BET = re.compile(r'data-bet="(\w+)"')  # a card's still
# a statement, its bet
ANSWERED = re.compile(r'\bclaim\(\s*"([^"]+)"(?:(?!\bclaim\()[\s\S])*?predicted="(\w+)"')
# what a reader needs not see
MARKED = re.compile(r"^ *### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\n", re.MULTILINE)
SETTINGS = {
    "project": to_html.COURSE,
    "extensions": ["myst_nb", "course_tools.site"],
    "nb_execution_mode": "off",
    "nb_render_markdown_format": "myst",  # the default, commonmark, has no tables
    "nb_code_prompt_show": "Show the code",
    "nb_code_prompt_hide": "Hide the code",
    "myst_enable_extensions": ["amsmath", "dollarmath"],
    "myst_heading_anchors": 3,
    "suppress_warnings": ["myst.header"],  # an exercise is a heading of level 3, wherever it stands
    "html_theme": "sphinx_book_theme",
    "html_title": to_html.COURSE,
    "html_math_renderer": "mathml",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    "html_show_search_summary": False,  # opened from disk, a page may not fetch the others
    "html_css_files": ["micro.css", "site.css"],
    "html_js_files": ["microscope.js", "site.js"],
    "author": "",  # the theme would write that it is not set
    "html_context": {"default_mode": "auto"},
    "html_theme_options": {
        "navbar_persistent": [],  # the search stands above the contents
        "show_toc_level": 2,
        "use_download_button": False,
        "use_fullscreen_button": False,
    },
}


def build(out: Path) -> Path:
    """Make the site in the folder `out`, and return the page to begin with.

    Raises ModuleNotFoundError without the extra `teach`, and RuntimeError on Python 3.10 and, with
    what it said, when Sphinx complains.
    """
    if sys.version_info < (
        3,
        11,
    ):  # the last theme for it has other buttons, and faults when opened from disk
        raise RuntimeError(
            "The site needs Python 3.11 or newer, for its theme does: build it with a newer one."
        )
    try:
        from sphinx.application import Sphinx
        from sphinx.util.docutils import docutils_namespace, patch_docutils
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'The site needs Sphinx: pip install -e ".[teach]" brings it.'
        ) from error

    with (
        tempfile.TemporaryDirectory() as folder,
        open(Path(folder, "warnings"), "w+", encoding="utf-8") as warnings,
    ):
        sources = Path(folder, "sources")
        _write_sources(sources)
        paths = {
            "html_static_path": [str(sources / "_static")],
            "html_extra_path": [str(sources / "_extra")],
        }
        with patch_docutils(), docutils_namespace():
            trees, settings = Path(folder, "trees"), {**SETTINGS, **paths}
            Sphinx(
                sources, None, out, trees, "html", settings, status=None, warning=warnings
            ).build()
        warnings.seek(0)
        if said := warnings.read():
            raise RuntimeError(f"The site is not as it should be. Sphinx says:\n{said}")
    return out / "index.html"


def _write_sources(folder: Path) -> None:
    """Everything that Sphinx reads, as it reads it."""
    # the README is in its place
    lessons = [name for name in map(lesson_of, authoring.lessons()) if name != links.START]
    for lesson in lessons:
        solution, learner = to_html.both(lesson)
        solution.cells = list(_cells(solution, learner))
        write_text(folder / f"{lesson}.ipynb", nbformat.writes(solution))
    for name, file in TEXTS.items():
        text = _linked(file)
        if (
            name == "INSTALL"
        ):  # the README, without its picture and its lessons, which the first page has
            text = re.sub(
                r"\A.*?(?=^With Python)|^## The lessons.*?(?=^## )",
                "",
                text,
                flags=re.DOTALL | re.MULTILINE,
            )
            text = f"# Install and use the course\n\n{text}"
        write_text(folder / f"{name}.md", text)
    index = [_home()]
    for caption, pages in {"Lessons": lessons, "More": TEXTS}.items():
        index += ["```{toctree}", ":hidden:", f":caption: {caption}", *pages, "```"]
    write_text(folder / "index.md", "\n".join(index))
    (folder / "_extra").mkdir(parents=True)
    for name in ("site.css", "site.js"):
        write_text(folder / "_static" / name, to_html.style(name))
    write_text(folder / "_static" / "micro.css", scripts.style())
    write_text(folder / "_static" / "microscope.js", scripts.page_script())
    for name in scripts.MODELS:
        write_text(folder / "_static" / "models" / f"{name}.js", scripts.model_script(name))
    texts = {
        f"{name}.html": _words(folder / f"{name}{kind}")
        for kind, names in ((".ipynb", lessons), (".md", TEXTS))
        for name in names
    }
    write_text(
        folder / "_static" / "texts.js", f"const TEXTS = {json.dumps(texts, ensure_ascii=False)};\n"
    )


def _home() -> str:
    """The page to begin with: the microscope and its question, the lessons, and how to install the
    course.
    """
    readme = _linked(ROOT / "README.md")
    opening = re.search(r"\*\*Take a small.*?(?=\n\n)", readme, re.DOTALL)
    table = re.search(r"^\| \| lesson.*?(?=\n\n)", readme, re.DOTALL | re.MULTILINE)
    command = re.search(r"<!-- start command -->\n(```.*?```)", readme, re.DOTALL)
    if not (opening and table and command):
        raise ValueError(
            "README.md has lost its opening, its table of lessons or its start command."
        )
    still = microscope.figure(load("two-layer"), TEXT, heads=[(1, 6)])._repr_mimebundle_()[
        "text/html"
    ]
    still = still.replace("<div ", f'<div data-text="{escape(TEXT)}" ', 1).replace("\n", "&#10;")
    parts = {"microscope": still, "opening": opening[0], "lessons": table[0], "command": command[1]}
    return to_html.style("home.md").format(**parts)


def _words(file: Path) -> str:
    """What a page says, as one line, for the search to quote."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        text = "\n".join(
            cell.source for cell in nbformat.reads(text, 4).cells if cell.cell_type == "markdown"
        )
    return " ".join(re.sub(r"<[^>]*>|\]\([^)]*\)|[`*#\[|]|\$[^$]*\$", " ", text).split())


def _linked(file: Path) -> str:
    """A text of the repository whose links to lessons and to other texts lead to their pages."""
    pages = {path.resolve(): name for name, path in TEXTS.items()}

    def page(link: re.Match) -> str:
        target = (file.parent / link[1]).resolve()
        if target.suffix == ".ipynb":
            return f"]({lesson_of(target)}.ipynb)"
        return f"]({pages[target]}.md)" if target in pages else link[0]

    return re.sub(r"\]\(((?!http)[^)#]+)\)", page, file.read_text(encoding="utf-8"))


def _cells(solution: NotebookNode, learner: NotebookNode) -> Iterator[NotebookNode]:
    """The cells of a page: before each answer its blank, and nothing that only Jupyter can show."""
    blanks = {cell.id: cell.source for cell in learner.cells if cell.cell_type == "code"}
    answers = _answers(solution.cells)
    prose = {cell.id: cell.source for cell in learner.cells if cell.cell_type == "markdown"}
    for cell in solution.cells:
        if cell.id in links.IDS or (
            "interactive" in cell.metadata.get("tags", []) and not cell.outputs
        ):
            continue
        if cell.cell_type == "markdown":  # as learners have it: what tells a bet's answer is folded
            cell.source = prose[cell.id]
        if authoring.FOLDED & set(cell.metadata.get("tags", [])):
            cell.metadata["tags"] = [*cell.metadata["tags"], "hide-input"]
        if cell.cell_type == "code" and authoring.MARKERS[0] in cell.source:
            yield new_code_cell(blanks[cell.id])
            cell.source = MARKED.sub("", cell.source)
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            if to_html.STILL in shown.get("text/html", ""):
                shown["text/html"] = to_html.drawing(shown["text/html"])
            for name in BET.findall(shown.get("text/html", "")):
                if name in answers:
                    shown["text/html"] += (
                        f"<details><summary>What came out</summary><p>{answers[name]}</p></details>"
                    )
        yield cell


def _answers(cells: list[NotebookNode]) -> dict[str, str]:
    """What came out for each bet, by name, with the reason if the lesson's table has it."""
    found = {}
    for cell in cells:
        outputs = cell.get("outputs", [])
        told = "\n".join(
            output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs
        )
        for statement, name in ANSWERED.findall(cell.source):
            because = claims.expectations().get(statement, {}).get("because", "")
            for value in re.findall(
                f"^{claims.CLAIM} {re.escape(statement)}: (.*)$", told, re.MULTILINE
            ):
                found[name] = bets.markup(f"{value}. {because}".strip())
    return found


def setup(
    app: Any,
) -> dict[str, bool]:  # Sphinx calls it, since this module stands among the extensions
    """Formulas as MathML, which a browser draws without a script."""
    from docutils import nodes

    def formula(writer: Any, node: Any) -> None:
        writer.body.append(
            to_html.mathml(node.astext(), "inline" if isinstance(node, nodes.math) else "block")
        )
        raise nodes.SkipNode

    app.add_html_math_renderer(
        "mathml", inline_renderers=(formula, None), block_renderers=(formula, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m course_tools.site", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/site"), help="a folder (default: runs/site)"
    )
    options = parser.parse_args(arguments)
    utf8_output()
    try:
        print(build(options.out))
    except (ModuleNotFoundError, RuntimeError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
