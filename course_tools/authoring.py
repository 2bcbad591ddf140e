"""Solutions → learner notebooks: `python -m course_tools.authoring [NOTEBOOK ...] [--check]`.

Only `notebooks/solutions/` is edited by hand. This module executes those notebooks, stores their
outputs, and derives the learner's copies in `notebooks/`: answers blanked, outputs cleared. The
same input gives the same bytes.
"""

import copy
import itertools
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_tools import bet_source, contents, counts, links, runner
from course_utils._files import SOLUTIONS, get_back, lesson_of, solution_file, write_text
from course_utils.course import claims, saved_notebook, utf8_output, widgets

MAX_LINES = 20  # of a code cell
MAX_WIDTH = 100  # of a line of code; JupyterLab scrolls longer ones out of sight
MAX_BYTES = 1_000_000  # of a stored notebook
MARKERS = [
    "### BEGIN SOLUTION",
    "### END SOLUTION",
    "### BEGIN HIDDEN TESTS",
    "### END HIDDEN TESTS",
]
# what was meant as a marker
MARKER = re.compile(r"#\s*(begin|end)\s+(solution|hidden test)", re.IGNORECASE)
# how a widget looks as text
RAW = re.compile(r"<IPython\.|\w*(Text|Button|Buttons|Dropdown|Slider|Output|HTML|Box)\(")
IMAGE = re.compile(r"<img\b(?![^>]*\balt=\"[^\"]+\")")  # one without words
ADDRESS = re.compile(r"\b0x[0-9a-f]{8,}")
ROW = re.compile(r"C[1-9]\d*[bc]?")  # a row of the curriculum
IN_WORDS = re.compile(r'\bplots\.show\(\s*f?"')
# true of any weights, of the trained model, of one trained on the spot
KINDS = {"identity", "claim", "live-training"}
FIRST_PICTURE = "first-picture"  # a cell whose output stands in the learner's copy from the start
FOLDED = {"identity", "claim", "bet", "folded"}  # the source is hidden until somebody opens it
# how a folded cell begins, since its first line is what stands there for it: see `_named`
NAMES = {
    "predict": "# Your bet: run me",
    "claim": "# What came out",
    "identity": "# What must hold",
    "siblings": "# The same models from other seeds",
    "sources_and_ours": "# What the paper found, and what we found",
    "calibration": "# Your bets so far",
}
TAGS = KINDS | FOLDED | {"interactive", "nbval-ignore-output", FIRST_PICTURE}
# without a kernelspec JupyterLab asks for a kernel; anything more changes from machine to machine
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def read_notebook(path: Path) -> NotebookNode:
    """The notebook in a file, as it stands there."""
    # nbformat.read would invent random cell ids
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def tidy(notebook: NotebookNode) -> NotebookNode:
    """A copy without what changes from run to run and from machine to machine."""
    notebook = copy.deepcopy(notebook)
    notebook.update(metadata=nbformat.from_dict(METADATA), nbformat=4, nbformat_minor=5)
    taken = {cell.get("id") for cell in notebook.cells}
    seen = set()
    for number, cell in enumerate(notebook.cells):
        # an id of its own
        if not cell.get("id") or cell.id in seen:
            names = (f"cell-{n}" for n in itertools.count(number))
            cell.id = next(name for name in names if name not in taken)
            taken.add(cell.id)
        seen.add(cell.id)
        # its tags, and what follows from them
        tags = list(cell.metadata.get("tags", []))
        if "interactive" in tags and "nbval-ignore-output" not in tags:
            tags.append("nbval-ignore-output")  # what is not stored can't be compared
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if FOLDED & set(tags):
            cell.metadata["jupyter"] = {"source_hidden": True}
        # its outputs
        if cell.cell_type == "code":
            is_interactive = "interactive" in tags
            cell.outputs = [output for output in cell.outputs if _stored(output, is_interactive)]
    return notebook


def _stored(output: NotebookNode, is_interactive: bool) -> bool:
    """Whether anything of an output is stored; takes out of it what can't be.

    A widget is dead without its kernel, its id is random, and what it has for text is
    "VBox(children=(…". JavaScript that a cell is tagged interactive for takes megabytes. What is
    marked as personal is the author's progress.
    """
    if output.get("metadata", {}).get("personal"):
        return False
    data = output.get("data", {})
    dropped = data.pop(widgets.WIDGET, None)
    if is_interactive and "<script" in _html(output):
        dropped = data.pop("text/html")
    if dropped and RAW.match(data.get("text/plain", "")):
        del data["text/plain"]
    return data != {} or "data" not in output


def dumps(notebook: NotebookNode) -> str:
    """The text of a notebook's file, tidy.

    Raises nbformat.ValidationError when it is not a valid notebook.
    """
    notebook = tidy(notebook)
    nbformat.validate(notebook)
    return nbformat.v4.writes(notebook) + "\n"


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """A tidy copy of the notebook, run in a fresh kernel that works in `folder`.

    Raises runner.CellFailed if a cell fails.
    """
    return tidy(runner.run(tidy(notebook), folder, environment={claims.MODE: "strict"}))


def derive(solution: NotebookNode) -> NotebookNode:
    """The learner's notebook: answers blanked and outputs removed, but for a first picture."""
    notebook = tidy(solution)
    is_answered = False  # whether a bet has got its answer, and no text has said what it means
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = saved_notebook.blank(cell.source)
            if FIRST_PICTURE not in cell.metadata.get("tags", []):
                cell.update(outputs=[], execution_count=None)
            is_answered = is_answered or bool(bet_source.read(cell.source).answered)
        elif is_answered and cell.id not in links.IDS:
            cell.source = _after_bet(cell.source)
            is_answered = False
        if cell.id in links.IDS:
            cell.source = links.for_learner(cell.source)
        cell.source = cell.source.replace(f"](../{links.GLOSSARY}", f"]({links.GLOSSARY}")
    return notebook


def _after_bet(source: str) -> str:
    """A text with what it says up to its first heading folded.

    On a page that is read before it is run, it would tell.
    """
    told, *rest = re.split(r"(?m)^(?=#)", source, maxsplit=1)
    summary = "<summary><b>When it has run, read on here:</b> what came, and why</summary>"
    folded = f"<details>{summary}\n\n{told.strip()}\n</details>" if told.strip() else ""
    return "\n\n".join(filter(None, [folded, *rest]))


def problems(notebook: NotebookNode) -> list[str]:
    """What is wrong with a solution notebook, one sentence each."""
    return source_problems(notebook) + output_problems(notebook)


def source_problems(notebook: NotebookNode) -> list[str]:
    """What is wrong with what the author wrote; known without running anything."""
    found = []
    for number, cell in enumerate(notebook.cells):
        complaints = [*_marker_problems(cell), *_tag_problems(cell), *_code_problems(cell)]
        found += [f"{runner.where(number, cell)} {complaint}" for complaint in complaints]
    return [*found, *_spoilers(notebook.cells), *_hidden_needs(notebook.cells)]


def _spoilers(cells: list[NotebookNode]) -> Iterator[str]:
    """Pictures in words from a prediction to the text after its result.

    Learners read a cell before they run it.
    """
    asked: set[str] = set()
    told: set[str] = set()
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            asked -= told
            continue
        here = set(bet_source.read(cell.source).asked)
        asked |= here
        told |= {name for name in asked if cell.source.count(f'"{name}"') > (name in here)}
        if asked and IN_WORDS.search(cell.source):
            spoils = f"{runner.where(number, cell)} says under a prediction what its figure shows"
            yield f"{spoils}: show draw.ALT[...], of figures.py."


def _hidden_needs(cells: list[NotebookNode]) -> Iterator[str]:
    """What an open cell reads of the notebook, and only a folded one has made.

    Who passes over a folded cell, as one may, would meet a NameError.
    """
    in_the_open: set[str] = set()
    hidden: dict[str, str] = {}  # name → the folded cell that made it
    for number, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        made, read = bet_source.names(cell.source)
        place = runner.where(number, cell)
        if FOLDED & set(cell.metadata.get("tags", [])):
            hidden |= dict.fromkeys(made, place)
            continue
        needed = (read - made - in_the_open) & hidden.keys()
        for name in sorted(needed):
            yield f"{place} needs `{name}`, which only a folded cell makes: {hidden[name]}"
        in_the_open |= made | needed  # each is said once


def _marker_problems(cell: NotebookNode) -> Iterator[str]:
    marked = [line.rstrip() for line in cell.source.splitlines() if MARKER.search(line)]
    markers = [line.strip() for line in marked]
    strange = [marker for marker in markers if marker not in MARKERS]
    begins = markers[::2]
    ends = [begin.replace("BEGIN", "END") for begin in begins]
    are_pairs = markers[1::2] == ends and not set(begins) & set(ends)
    if strange:  # it would be overlooked, and the learner would read the answer
        yield f'has "{strange[0]}", which is none of the markers {", ".join(MARKERS)}.'
    elif not are_pairs:
        yield "has a BEGIN without its END, or an END without its BEGIN."
    elif marked and cell.cell_type != "code":
        yield "has an answer in its text: only code is blanked."
    elif MARKERS[0] in marked:
        yield "has an answer outside a function: left blank, it would stop the lesson."


def _tag_problems(cell: NotebookNode) -> Iterator[str]:
    tags = set(cell.metadata.get("tags", []))
    is_code = cell.cell_type == "code"
    said = bet_source.read(cell.source)
    states = bool(said.statements)
    rows = sorted(filter(ROW.fullmatch, tags))
    tagged = ", ".join(rows)
    for tag in sorted(tags - TAGS - set(rows)):
        yield f'has the unknown tag "{tag}".'
    if rows and len(tags & KINDS) != 1:
        kinds = ", ".join(sorted(KINDS))
        yield f"is tagged {tagged}, so it also needs one of the tags {kinds}."
    if rows and not (is_code and states):
        yield f"is tagged {tagged} and states nothing: call claim or identity."
    if FIRST_PICTURE in tags and (states or MARKERS[0] in cell.source):
        yield "is tagged first-picture and holds an answer, which the learner's copy would show."
    if is_code and bool(tags & FOLDED) != said.keeps_books:
        its_own = "a claim, an identity or a bet has a cell of its own, tagged so"
        yield f"mixes what is folded with what is read: {its_own}."
    if "nbval-ignore-output" in tags and "interactive" not in tags:
        why = "only what is not stored may go uncompared"
        yield f"is tagged nbval-ignore-output without interactive: {why}."


def _code_problems(cell: NotebookNode) -> Iterator[str]:
    elsewhere = cell.source.replace(f"](../{links.GLOSSARY}", "")
    if "../" in elsewhere and cell.get("id") not in links.IDS:
        yield 'has "../", which is one place from notebooks/ and another from notebooks/solutions/.'
    if cell.cell_type != "code":
        return
    lines = cell.source.splitlines()
    if not cell.source.strip():
        yield "is empty."
    if len(lines) - lines[0].startswith("#") > MAX_LINES:  # what names the cell does not count
        yield f"has {len(lines)} lines: split it, {MAX_LINES} is the limit."
    for line in lines:
        if len(line) > MAX_WIDTH:
            wide = f"has a line of {len(line)} characters, {MAX_WIDTH} is the limit"
            yield f"{wide}: {line.strip()[:40]!r}…"
    if re.search(r"^\s*assert\b", cell.source, re.MULTILINE):
        why = "whose expected value a reader sees before the question"
        yield f"has a bare assert, {why}: call claim or identity."
    if re.search(r"#\s*(NBVAL|PYTEST_VALIDATE)_", cell.source):
        yield "has a comment that switches nbval off."


def output_problems(notebook: NotebookNode) -> list[str]:
    """What is wrong with the stored outputs."""
    found = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            place = runner.where(number, cell)
            found += [f"{place} {complaint}" for complaint in _output_problems(cell)]
    size = len(dumps(notebook).encode())
    if size > MAX_BYTES:
        large = f"The notebook takes {size:,} bytes, {MAX_BYTES:,} is the limit"
        found.append(f"{large}: store smaller pictures.")
    return found


def _output_problems(cell: NotebookNode) -> Iterator[str]:
    is_interactive = "interactive" in cell.metadata.get("tags", [])
    if cell.get("execution_count") is None:
        yield "has not been executed, so nbval would compare nothing."
    for output in cell.outputs:
        text = saved_notebook.as_text(output)
        if output.output_type == "error":
            yield f"stores an error: {output.ename}: {output.evalue}."
        elif output.get("name") == "stderr":
            yield f"stores stderr, which differs between machines: {output.text.strip()[:80]!r}."
        elif re.search("^✗ ", text, re.MULTILINE):
            why = "If it is ✓ on another run, rounding decides in that check"
            yield f"stores ✗: a check rejects our own answer. {why}."
        elif "<script" in _html(output) and not is_interactive:
            yield "stores JavaScript: tag it interactive, and store a static picture beside it."
        address = ADDRESS.search(text)
        if address:
            stored = f"stores the memory address {address[0]}, another on every run"
            yield f"{stored}: end the last line with a semicolon."
    if is_interactive and not cell.outputs:
        wanted = "it needs a picture or a line of text beside what is interactive"
        yield f"shows nothing where it is stored: {wanted}."
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/png" in data:
            yield "stores a picture without words: end the cell with plots.show and a sentence."
        if IMAGE.search(_html(output)):
            yield "stores an image without alt text: say what it shows."
        if list(data) == ["text/plain"] and RAW.match(data["text/plain"]):
            yield "stores the bare name of a widget: end the last line with a semicolon."


def _html(output: NotebookNode) -> str:
    return output.get("data", {}).get("text/html", "")


def learner_path(solution: Path) -> Path:
    """Where a solution notebook's learner copy stands."""
    return solution.parent.parent / f"{lesson_of(solution)}.ipynb"


def solution_path(lesson: str) -> Path:
    """Where a lesson's solution stands, by "03_zero_layers" or a path to either notebook."""
    return SOLUTIONS / solution_file(lesson_of(Path(lesson)))


def learner_notebooks() -> list[Path]:
    """The lessons in `notebooks/`, but for learners' own copies of them."""
    paths = sorted(SOLUTIONS.parent.glob("*.ipynb"))
    return [path for path in paths if not path.stem.endswith("_mine")]


def lessons() -> list[Path]:
    """The solution notebooks, in order."""
    return sorted(SOLUTIONS.glob("*.ipynb"))


def taught() -> list[str]:
    """The names of the lessons with exercises: those have a plan, slides and a handout."""
    texts = {lesson_of(path): path.read_text(encoding="utf-8") for path in lessons()}
    return [lesson for lesson, text in texts.items() if "### Exercise" in text]


def update(path: Path) -> list[str]:
    """Execute a solution notebook and store it and its learner copy, or say what is wrong."""
    before = path.read_bytes()
    notebook = _named(links.linked(read_notebook(path), path, titles()))
    found = worked_in(path) or source_problems(notebook)
    if found:
        return found
    try:
        notebook = execute(notebook, path.parent)
    except runner.CellFailed as error:
        return [str(error)]
    if path.read_bytes() != before:
        return [f"{path.name} was saved while it ran: run this again, nothing is written over."]
    found = worked_in(path) or problems(notebook)
    if not found:
        _store(notebook, path)
    return found


def _named(notebook: NotebookNode) -> NotebookNode:
    """The notebook, with a comment at the top of each folded cell that has none."""
    for cell in notebook.cells:
        is_folded = FOLDED & set(cell.metadata.get("tags", []))
        if cell.cell_type == "code" and is_folded and not cell.source.lstrip().startswith("#"):
            called = bet_source.read(cell.source).called
            name = next((comment for call, comment in NAMES.items() if call in called), "")
            cell.source = f"{name}\n{cell.source}".lstrip()
    return notebook


def worked_in(path: Path) -> list[str]:
    """A sentence if somebody has worked in the learner's copy, which must not be written over."""
    learner = learner_path(path)
    cells = read_notebook(learner).cells if learner.is_file() else []
    run = [cell for cell in cells if cell.get("execution_count")]
    if all(FIRST_PICTURE in cell.metadata.get("tags", []) for cell in run):
        return []
    return [f"Somebody has worked in notebooks/{learner.name}: move it away, and run this again."]


def titles() -> dict[str, str]:
    """The titles of the lessons by their names, in order."""
    return {
        lesson_of(path): read_notebook(path).cells[0].source.splitlines()[0].lstrip("# ")
        for path in lessons()
    }


def relink(path: Path, headings: dict[str, str]) -> list[str]:
    """Write a lesson's links anew in both copies, executing nothing, or say why not.

    `headings` is `titles()`.
    """
    before = read_notebook(path)
    notebook = _named(links.linked(copy.deepcopy(before), path, headings))
    if dumps(notebook) == dumps(before):
        return []
    found = worked_in(path)
    if not found:
        _store(notebook, path)
    return found


def _store(notebook: NotebookNode, path: Path) -> None:
    learners = dumps(derive(notebook))
    write_text(path, dumps(notebook))
    write_text(learner_path(path), learners)


def out_of_step(path: Path) -> list[str]:
    """What is wrong with a solution notebook and its learner copy as they stand, not executed."""
    notebook = read_notebook(path)
    learner = learner_path(path)
    found = problems(notebook)
    if found:
        return found
    remedy = f"run python -m course_tools.authoring {lesson_of(path)}"
    if path.read_bytes() != dumps(notebook).encode():
        found.append(f"It was saved by something else since it was last executed: {remedy}")
    if not learner.is_file():
        found.append(f"It has no learner copy: {remedy}")
    elif learner.read_bytes() != dumps(derive(notebook)).encode():
        found.append(f"Its learner copy is out of step: {remedy}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 when a notebook has a problem, else 0."""
    about = __doc__.splitlines()[0]
    parser = ArgumentParser(prog="python -m course_tools.authoring", description=about)
    which = "a path or a name like 03_zero_layers; all"
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help=which)
    for option, what in {
        "--links": "execute nothing, write the links between lessons anew",
        "--check": "execute and write nothing, say what is out of step",
    }.items():
        parser.add_argument(option, action="store_true", help=what)
    options = parser.parse_args(arguments)
    utf8_output()
    if options.notebooks:
        paths = [solution_path(name) for name in options.notebooks]
    else:
        # a learner notebook without a solution is reported as the solution that is missing
        wanted = {solution_path(learner.name) for learner in learner_notebooks()}
        paths = sorted({*lessons(), *wanted})
    if not paths:
        parser.error(f"There is no lesson in {SOLUTIONS}. {get_back('notebooks')}")
    status = 0
    for path in paths:
        print(f"{path.name} ...", end=" ", flush=True)
        start = time.monotonic()
        if not path.is_file():
            found = ["There is no such notebook in notebooks/solutions/."]
        elif options.check:
            found = out_of_step(path)
        elif options.links:
            found = relink(path, titles())
        else:
            found = update(path)
        print("\n  ".join(found) if found else f"ok, {time.monotonic() - start:.0f} s", flush=True)
        status |= bool(found)
    if not options.check and not status:
        found = _tell_neighbours()
        for complaint in found:
            print(complaint)
        status |= bool(found)
    return status


def _tell_neighbours() -> list[str]:
    """Write anew what says a lesson's title, minutes or counts: its neighbours, and three pages."""
    headings = titles()
    found = [complaint for path in lessons() for complaint in relink(path, headings)]
    glossary = SOLUTIONS.parent / links.GLOSSARY
    if glossary.is_file():
        text = glossary.read_text(encoding="utf-8")
        write_text(glossary, links.linked_glossary(text, headings))
    for name, anew in {"CONTRIBUTING.md": counts.counted, "README.md": contents.tabled}.items():
        page = SOLUTIONS.parents[1] / name
        if page.is_file():
            write_text(page, anew(page.read_text(encoding="utf-8")))
    return found


if __name__ == "__main__":
    sys.exit(main())
