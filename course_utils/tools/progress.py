"""Which exercises are done: `python -m course_utils.tools.progress [FOLDER]`.

It reads the saved notebooks and the last word of every check in them. Nothing else is kept, so nothing can be lost.
"""

import argparse
import json
import re
from pathlib import Path

from course_utils._files import NOTEBOOKS
from course_utils.tools import utf8_output

EXERCISE = re.compile(r"^### Exercise \d+ · `(\w+)`", re.MULTILINE)
VERDICT = re.compile(r"^([✓✗○]) (\w+)", re.MULTILINE)
BEST_FIRST = "✓✗○"


def marks(folder: Path = NOTEBOOKS) -> dict[str, dict[str, str]]:
    """For each lesson ("03", "02b") the mark of each exercise: ✓ done, ✗ not yet right, ○ blank or never run.

    Every notebook of a lesson counts (`03_zero_layers.ipynb`, `03_mine.ipynb`): the best mark of an exercise stands.
    Raises FileNotFoundError if there is no lesson in the folder, ValueError if a file is no notebook.
    """
    paths = sorted(folder.glob("[0-9][0-9]*_*.ipynb"))
    if not paths:
        raise FileNotFoundError(f"There is no lesson in {folder}: name the folder that your notebooks are in.")
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        lesson = found.setdefault(path.name.split("_")[0], {})
        for name, mark in _marks_of(path):
            lesson[name] = min(mark, lesson.get(name, "○"), key=BEST_FIRST.index)
    return found


def _marks_of(path: Path) -> list[tuple[str, str]]:
    """The exercises that a notebook's headings name, each with what its check printed."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        names = [name for cell in cells for name in EXERCISE.findall("".join(cell["source"]))]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no notebook that can be read: open it in JupyterLab and save it again.") from error
    printed = "\n".join("".join(output.get("text", "")) for output in outputs)
    verdicts = {name: mark for mark, name in VERDICT.findall(printed)}
    return [(name, verdicts.get(name, "○")) for name in names]


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.tools.progress", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=NOTEBOOKS, help="where your notebooks are (notebooks/)")
    try:
        lessons = marks(parser.parse_args(arguments).folder)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    utf8_output()
    for lesson, exercises in lessons.items():
        done = [mark for mark in exercises.values() if mark == "✓"]
        left = [f"{mark} {name}" for name, mark in exercises.items() if mark != "✓"]
        print(f"{lesson}  {''.join(exercises.values()):18}  {len(done):2} of {len(exercises):2}  {', '.join(left[:3])}")


if __name__ == "__main__":
    main()
