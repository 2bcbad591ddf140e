r"""A notebook of the course as a file: title, exercises, hints, and what checks last said.

An exercise is a heading, `### Exercise 3 · \`name\` &nbsp; ●●○ 12 minutes`, what it asks and its
hints in Markdown, and below it the code cell in which a function of that name is to be written.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from course_utils._files import NOTEBOOKS

BLANK = "your code here"
STUB = f'raise NotImplementedError("{BLANK}")'  # what a learner finds in the place of an answer
ANSWER = re.compile(r"(?ms)^( *)### BEGIN SOLUTION\n.*?### END SOLUTION")
HIDDEN = re.compile(r"(?ms)^### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS\n?")
TITLE = re.compile(r"^# (.+)", re.MULTILINE)
SECTION = re.compile(r"^## (.+)", re.MULTILINE)
EXERCISE = re.compile(r"(?ms)^### Exercise \d+ · `(\w+)`\D*?(●+)\D*(\d+) minutes.*?(?=^##|\Z)")
HINT = re.compile(r"<details><summary>Hint \d+</summary>\s*(.*?)\s*</details>", re.DOTALL)
VERDICT = re.compile(r"^([✓✗○]) (\w+)(?:: )?(.*)", re.MULTILINE)
BEST_FIRST = "✓✗○"  # right, wrong, blank or never run


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
    said: dict[str, tuple[str, str]]  # by exercise, the last word of its check: mark and sentence
    is_begun: bool  # some cell of it was run

    @property
    def lesson(self) -> str:
        """The lesson's number, "03" or "02b"."""
        return self.path.name.split("_")[0]

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
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        printed = "\n".join("".join(output.get("text", "")) for output in outputs)
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
    # the last word counts
    said = {name: (mark, sentence) for mark, name, sentence in VERDICT.findall(printed)}
    return Notebook(path, [*titles, path.stem][0], code, exercises, said, is_begun)


def read_all(folder: Path = NOTEBOOKS) -> list[Notebook]:
    """Every lesson in a folder by name, learners' own copies too, as `03_mine.ipynb`.

    Raises FileNotFoundError if there is none, ValueError if a file is no notebook.
    """
    paths = sorted(folder.glob("[0-9][0-9]*_*.ipynb"))
    if not paths:
        raise FileNotFoundError(
            f"There is no lesson in {folder}: name the folder that your notebooks are in."
        )
    return [read(path) for path in paths]


def blank(source: str) -> str:
    """A solution's code as the learner first sees it.

    Answers are blanks, and an author's own investigation is gone.
    """
    return ANSWER.sub(rf"\1{STUB}", HIDDEN.sub("", source)).rstrip("\n")
