"""The course as a site to read: `python -m course_tools.site`.

Nothing runs, and nothing asks a network.
Sphinx with myst-nb makes a page of each solution notebook as it is stored. An exercise shows its
blank, and the answer unfolds below; formulas are MathML. The microscope is alive: what was stored
it shows at once, and the rest it computes in the page, from a model in a script beside it.
"""

import argparse
import io
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

import course_lessons
from course_microscope import scripts
from course_tools import authoring, bet_source, cards, contents, home, links, to_html
from course_utils._files import DOCS, NOTEBOOKS, ROOT, lesson_of, number_of, write_text
from course_utils.course import bets, claims, outline, saved_notebook, utf8_output

course_lessons.import_all()  # the tables of all lessons are read here

TEXTS = {  # what stands after the lessons: the name of the page → its file
    "INSTALL": ROOT / "README.md",
    "GLOSSARY": NOTEBOOKS / links.GLOSSARY,
    "TEACHING": DOCS / "TEACHING.md",
    "data": ROOT / "data" / "README.md",
    "BENCHMARK": ROOT / "data" / "BENCHMARK.md",
    "CONTRIBUTING": ROOT / "CONTRIBUTING.md",
    "CHANGELOG": ROOT / "CHANGELOG.md",
}
BET = re.compile(r'data-bet="(\w+)"')  # a card's still
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
    "html_favicon": str(to_html.STYLE / "favicon.svg"),
    "html_css_files": ["micro.css", "site.css"],
    "html_js_files": ["microscope.js", "site.js"],
    "author": "",  # the theme would write that it is not set
    "html_context": {"default_mode": "auto"},
}
THEME = {
    "back_to_top_button": False,  # on a phone it lies on the switches
    "navbar_persistent": [],  # the search stands above the contents
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
}


def build(out: Path, repository: str = "") -> Path:
    """Make the site in the folder `out`, and return the page to begin with.

    `repository` is the address of the course's repository, as https://github.com/OWNER/NAME: every
    page links to it. Raises ModuleNotFoundError without the extra `teach`, and RuntimeError on
    Python 3.10 and, with what it said, when Sphinx complains.
    """
    # the last theme for 3.10 has other buttons, and faults when opened from disk
    if sys.version_info < (3, 11):
        raise RuntimeError(
            "The site needs Python 3.11 or newer, for its theme does: build it with a newer one."
        )
    try:
        from sphinx.application import Sphinx
        from sphinx.util.docutils import docutils_namespace, patch_docutils
    except ModuleNotFoundError as error:
        message = 'The site needs Sphinx: pip install -e ".[teach]" brings it.'
        raise ModuleNotFoundError(message) from error

    warnings = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder, "sources")
        trees = Path(folder, "trees")
        _write_sources(sources)
        settings = {
            **SETTINGS,
            "html_theme_options": {
                **THEME,
                "repository_url": repository,
                "use_repository_button": bool(repository),
            },
            "html_baseurl": _address(repository),
            "html_static_path": [str(sources / "_static")],
            "html_extra_path": [str(sources / "_extra")],
        }
        with patch_docutils(), docutils_namespace():
            site = Sphinx(
                sources, None, out, trees, "html", settings, status=None, warning=warnings
            )
            site.build()
    if warnings.getvalue():
        raise RuntimeError(f"The site is not as it should be. Sphinx says:\n{warnings.getvalue()}")
    return out / "index.html"


def _write_sources(folder: Path) -> None:
    """Everything that Sphinx reads, as it reads it."""
    # The lessons; in the place of the first stands the README.
    lessons = [name for name in map(lesson_of, authoring.lessons()) if name != links.START]
    for lesson in lessons:
        solution, learner = to_html.both(lesson)
        is_asked = lesson == cards.LESSON
        solution.cells = list(cards.cells(solution) if is_asked else _cells(solution, learner))
        write_text(folder / f"{lesson}.ipynb", nbformat.writes(solution))

    # The texts. Of the README, the first page has the picture and the lessons.
    for name, file in TEXTS.items():
        text = _linked(file)
        if name == "INSTALL":
            text = re.sub(r"(?ms)\A.*?(?=^With Python)|^## The lessons.*?(?=^## )", "", text)
            text = f"# Install and use the course\n\n{text}"
        write_text(folder / f"{name}.md", text)

    # The first page, with the contents.
    index = [_home()]
    named = {number_of(name): name for name in lessons}
    in_order = [named[number] for number in outline.rows() if number in named]
    spine = [named[number] for number in outline.part("spine") if number in named]
    deeper = in_order[len(spine) :]
    for caption, pages in {"The spine": spine, "Beside it": deeper, "More": TEXTS}.items():
        index += ["```{toctree}", ":hidden:", f":caption: {caption}", *pages, "```"]
    write_text(folder / "index.md", "\n".join(index))

    # Styles and scripts; the search quotes what the pages say.
    (folder / "_extra").mkdir(parents=True)
    static = folder / "_static"
    for name in ("site.css", "site.js", "home.js", "questions.js"):
        write_text(static / name, to_html.style(name))
    write_text(static / "questions.css", cards.style())
    (static / "card.png").write_bytes(home.card())
    write_text(static / "micro.css", scripts.style())
    write_text(static / "microscope.js", scripts.page_script())
    for name in scripts.MODELS:
        write_text(static / "models" / f"{name}.js", scripts.model_script(name))
    words = {f"{name}.html": _words(folder / f"{name}.ipynb") for name in lessons}
    words |= {f"{name}.html": _words(folder / f"{name}.md") for name in TEXTS}
    texts = json.dumps(words, ensure_ascii=False)
    write_text(static / "texts.js", f"const TEXTS = {texts};\n")


def _home() -> str:
    """The page to begin with, with the README's opening, its lessons and its command."""
    readme = _linked(ROOT / "README.md")
    opening = re.search(r"\*\*Take a small.*?(?=\n\n)", readme, re.DOTALL)
    spine = re.search(r"<!-- spine -->\n\n(.*?)\n\n<!-- depth -->", readme, re.DOTALL)
    command = re.search(r"<!-- start command -->\n(```.*?```)", readme, re.DOTALL)
    if not (opening and spine and command):
        lost = "its opening, its table of lessons or its start command"
        raise ValueError(f"README.md has lost {lost}.")
    deeper = _leading(contents.table("beside", "elective"), ROOT)  # README has them in two lines
    return home.page(opening[0], f"{spine[1]}\n\n{deeper}", command[1])


def _address(repository: str) -> str:
    """Where the Pages of a repository on GitHub stand; nothing of any other."""
    found = re.fullmatch(r"https://github\.com/([\w-]+)/([\w.-]+?)/?", repository)
    return f"https://{found[1].lower()}.github.io/{found[2]}/" if found else ""


def _head(app: Any, name: str, _: str, context: dict[str, Any], __: Any) -> None:
    """What a page says of itself where somebody sends its address; the first has one title."""
    if name == "index":
        context["docstitle"] = ""
    rows = outline.rows()
    number = number_of(name) if name in app.env.found_docs else ""
    about = rows[number].question if number in rows else home.ABOUT
    said = {"og:type": "website", "og:title": context.get("title", ""), "og:description": about}
    if app.config.html_baseurl:
        said["og:url"] = f"{app.config.html_baseurl}{name}.html"
        said["og:image"] = f"{app.config.html_baseurl}_static/card.png"
    tags = [f'<meta name="description" content="{escape(about)}">']
    tags += [f'<meta property="{key}" content="{escape(words)}">' for key, words in said.items()]
    tags.append('<meta name="twitter:card" content="summary_large_image">')
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def _words(file: Path) -> str:
    """What a page says, as one line, for the search to quote."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = nbformat.reads(text, 4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    words = re.sub(r"<[^>]*>|\]\([^)]*\)|[`*#\[|]|\$[^$]*\$", " ", text)
    return " ".join(words.split())


def _linked(file: Path) -> str:
    """A text of the repository whose links to lessons and to other texts lead to their pages."""
    return _leading(file.read_text(encoding="utf-8"), file.parent)


def _leading(text: str, folder: Path) -> str:
    """The same of a text with links that start in `folder`."""
    pages = {path.resolve(): name for name, path in TEXTS.items()}

    def page(link: re.Match) -> str:
        target = (folder / link[1]).resolve()
        if target.name == links.CONTENTS:
            return "](index.md)"  # which stands in its place
        if target.suffix == ".ipynb":
            return f"]({lesson_of(target)}.ipynb)"
        return f"]({pages[target]}.md)" if target in pages else link[0]

    return re.sub(r"\]\(((?!http)[^)#]+)\)", page, text)


def _cells(solution: NotebookNode, learner: NotebookNode) -> Iterator[NotebookNode]:
    """The cells of a page: before each answer its blank, and nothing that only Jupyter can show."""
    blanks = {cell.id: cell.source for cell in learner.cells if cell.cell_type == "code"}
    answers = _answers(solution.cells)
    prose = {cell.id: cell.source for cell in learner.cells if cell.cell_type == "markdown"}
    for cell in solution.cells:
        tags = cell.metadata.get("tags", [])
        if cell.id in links.IDS or ("interactive" in tags and not cell.outputs):
            continue
        if cell.cell_type == "markdown":  # as learners have it: what tells a bet's answer is folded
            cell.source = prose[cell.id]
        if authoring.FOLDED & set(tags):
            tags = [*tags, "hide-input"]
        if cell.cell_type == "code" and authoring.MARKERS[0] in cell.source:
            yield new_code_cell(blanks[cell.id])
            cell.source = MARKED.sub("", cell.source)
            tags = [*tags, "hide-input"]
        if tags:
            cell.metadata["tags"] = tags
        if cell.cell_type == "code":  # nobody bets on a page
            cell.outputs = [one for one in cell.outputs if one.get("text") != bets.NONE + "\n"]
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            if to_html.STILL in shown.get("text/html", ""):
                shown["text/html"] = to_html.drawing(shown["text/html"])
            for name in BET.findall(shown.get("text/html", "")):
                if name in answers:
                    told = f"<summary>What came out</summary><p>{answers[name]}</p>"
                    shown["text/html"] += f"<details>{told}</details>"
        yield cell


def _answers(cells: list[NotebookNode]) -> dict[str, str]:
    """What came out for each bet, by name, with the reason if the lesson's table has it."""
    found = {}
    for cell in cells:
        told = "\n".join(map(saved_notebook.as_text, cell.get("outputs", [])))
        for statement in bet_source.read(cell.source).statements:
            if not (statement.text and statement.bet):
                continue
            because = claims.expectations().get(statement.text, {}).get("because", "")
            row = f"^{claims.CLAIM} {re.escape(statement.text)}: (.*)$"
            for value in re.findall(row, told, re.MULTILINE):
                found[statement.bet] = bets.markup(f"{value}. {because}".strip())
    return found


def setup(app: Any) -> dict[str, bool]:
    """Formulas as MathML, which a browser draws without a script.

    Sphinx calls it, since this module stands among the extensions.
    """
    from docutils import nodes

    def formula(writer: Any, node: Any) -> None:
        display = "inline" if isinstance(node, nodes.math) else "block"
        writer.body.append(to_html.mathml(node.astext(), display))
        raise nodes.SkipNode

    both = {"inline_renderers": (formula, None), "block_renderers": (formula, None)}
    app.add_html_math_renderer("mathml", **both)
    app.connect("html-page-context", _head)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    about = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m course_tools.site", description=about)
    where = "a folder (default: runs/site)"
    parser.add_argument("--out", type=Path, default=Path("runs/site"), help=where)
    links_to = "the repository that all pages link to, as https://github.com/OWNER/NAME"
    parser.add_argument("--repository", default="", help=links_to)
    options = parser.parse_args(arguments)
    utf8_output()
    try:
        print(build(options.out, options.repository))
    except (ModuleNotFoundError, RuntimeError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
