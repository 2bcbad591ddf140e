r"""A notebook of the course as a file: title, exercises, hints, and what checks last said.

An exercise is a heading, `### Exercise 3 · \`name\` &nbsp; ●●○ 12 minutes`, what it asks and its
hints in Markdown, and below it the code cell in which a function of that name is to be written.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from course_utils._files import NOTEBOOKS, number_of

BLANK = "your code here"
STUB = f'raise NotImplementedError("{BLANK}")'  # what a learner finds in the place of an answer
ANSWER = re.compile(r"(?ms)^( *)### BEGIN SOLUTION\n.*?### END SOLUTION")
HIDDEN = re.compile(r"(?ms)^### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS\n?")
TITLE = re.compile(r"^# (.+)", re.MULTILINE)
SECTION = re.compile(r"^## (.+)", re.MULTILINE)
EXERCISE = re.compile(r"(?ms)^### Exercise \d+ · `(\w+)`\D*?(●+)\D*(\d+) minutes.*?(?=^##|\Z)")
HINT = re.compile(r"<details><summary>Hint \d+</summary>\s*(.*?)\s*</details>", re.DOTALL)
VERDICT = re.compile(r"^([✓✗○]) (\w+)(?:: )?(.*)", re.MULTILINE)
CALL = re.compile(r"\bcheck\.(\w+)\(\s*(\d*)")  # check.rope(rope), check.case(1, case_1)
BEST_FIRST = "✓✗○"  # right, wrong, blank or never run
Said = dict[str, tuple[str, str]]  # by exercise, what its check said: mark and sentence


@dataclass(frozen=True)
class Exercise:
    """One exercise: its name, the Markdown that asks for it, and what it is worth."""

    name: str
    asked: str  # from its heading to the next one, hints included
    points: int  # the ● of its heading
    minutes: int
    cell: str  # the id of the cell with its heading

    @property
    def hints(self) -> list[str]:
        """Its hints, in order."""
        return HINT.findall(self.asked)


@dataclass(frozen=True)
class Notebook:
    """What a saved notebook says of itself."""

    path: Path
    title: str
    code: list[str]  # of each code cell
    exercises: dict[str, Exercise]  # by name
    said: Said  # what the checks said
    locked: Said | None  # what they said in nbgrader's locked cells; None where there are none
    is_begun: bool  # some cell of it was run

    @property
    def lesson(self) -> str:
        """The lesson's number, "03" or "02b"."""
        return number_of(self.path.name)

    @property
    def marks(self) -> dict[str, str]:
        """The mark of each exercise: ✓ right, ✗ wrong, ○ blank or never run."""
        return {name: self.said.get(name, ("○", ""))[0] for name in self.exercises}


def read(path: Path) -> Notebook:
    """A notebook as it was saved. Raises ValueError for a file that is none."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        # what its author wrote
        prose = [cell for cell in cells if cell["cell_type"] == "markdown"]
        texts = [(cell.get("id", ""), "".join(cell["source"])) for cell in prose]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        # what came of running it
        said = _said(cells)
        marked = [(cell, cell.get("metadata", {}).get("nbgrader", {})) for cell in cells]
        checks = [cell for cell, marks in marked if marks.get("locked") and marks.get("grade")]
        locked = _said(checks, locked=True) if checks else None
        run = [cell.get("metadata", {}) for cell in cells if cell.get("execution_count")]
        # the first picture comes run
        is_begun = any("first-picture" not in cell.get("tags", []) for cell in run)
    except (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is no notebook that can be read: open it in JupyterLab and save it again."
        ) from error
    titles = [title for _, text in texts for title in TITLE.findall(text)]
    exercises = {}
    for cell, text in texts:
        for found in EXERCISE.finditer(text):
            name, dots, minutes = found.groups()
            exercises[name] = Exercise(name, found[0], len(dots), int(minutes), cell)
    return Notebook(path, [*titles, path.stem][0], code, exercises, said, locked, is_begun)


def _said(cells: list[dict], locked: bool = False) -> Said:
    """What checks said: of each cell that calls one its last word, and of these words the best.

    A `locked` cell that ended with an error has no ✓: its last line fails without that mark.
    """
    found: Said = {}
    for cell in cells:
        # whose checks it calls, and what it printed
        called = CALL.findall("".join(cell["source"]))
        names = {f"{name}_{number}".rstrip("_") for name, number in called}
        outputs = cell.get("outputs", [])
        printed = "\n".join(map(as_text, outputs))
        words = VERDICT.findall(printed)
        if locked and any("ename" in output for output in outputs):
            words = [word for word in words if word[0] != BEST_FIRST[0]]

        # the last word here, unless there was a better one
        here = {name: (mark, sentence) for mark, name, sentence in words if name in names}
        for name, (mark, sentence) in here.items():
            before, _ = found.get(name, (mark, ""))
            if BEST_FIRST.index(mark) <= BEST_FIRST.index(before):
                found[name] = (mark, sentence)
    return found


def as_text(output: dict) -> str:
    """What an output says as text, printed or shown."""
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", ""))


def read_all(folder: Path = NOTEBOOKS) -> list[Notebook]:
    """Every lesson in a folder by name, learners' own copies too, as `03_mine.ipynb`.

    A file that is no notebook is named, and passed over. Raises FileNotFoundError if there is none
    at all, ValueError if none can be read.
    """
    paths = sorted(folder.glob("[0-9][0-9]*_*.ipynb"))
    if not paths:
        raise FileNotFoundError(
            f"There is no lesson in {folder}: name the folder that your notebooks are in."
        )
    found = []
    unread = []
    for path in paths:
        try:
            found.append(read(path))
        except ValueError as error:
            unread.append(error)
    if not found:
        raise unread[0]
    for fault in unread:
        print(fault)
    return found


def blank(source: str) -> str:
    """A solution's code as the learner first sees it.

    Answers are blanks, and an author's own investigation is gone.
    """
    return ANSWER.sub(rf"\1{STUB}", HIDDEN.sub("", source)).rstrip("\n")
