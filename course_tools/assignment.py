"""A lesson for nbgrader: `python -m course_tools.assignment LESSON --out FOLDER`.

It writes `FOLDER/source/LESSON/LESSON.ipynb`, from which `nbgrader generate_assignment LESSON` in
that folder makes the learner's copy. Each exercise has a cell for the answer and one with its
check, which is worth the ● of its heading; a hidden line raises where the check does not say ✓. Our
own notebooks carry none of nbgrader's marks.
"""

import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from course_tools import authoring, grade, runner
from course_utils._files import lesson_of, write_text
from course_utils.course import saved_notebook, utf8_output

BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
CHECK = re.compile(r"\n+((\w+) = check\.\w+\(.*\b\2\))\s*\Z")  # how an exercise's cell ends
CONFIG = f"""c = get_config()  # noqa: F821
c.ClearSolutions.code_stub = {{"python": {saved_notebook.STUB!r}}}  # the checks know this blank
c.Execute.timeout = {runner.CELL_TIMEOUT}  # seconds for a cell
"""


def assignment(lesson: str) -> NotebookNode:
    """The lesson as nbgrader's source, its learner's copy with our solutions; FileNotFoundError if
    there is none.
    """
    path = authoring.solution_path(lesson)
    answers = {
        cell.id: cell
        for cell in authoring.read_notebook(path).cells
        if authoring.MARKERS[0] in cell.source
    }
    worth = grade.points().get(path.stem.split("_")[0], {})
    notebook = authoring.read_notebook(authoring.learner_path(path))
    notebook.cells = [
        made for cell in notebook.cells for made in _cells(answers.get(cell.id), cell, worth)
    ]
    nbformat.validate(notebook)
    return notebook


def _cells(
    answer: NotebookNode | None, learner: NotebookNode, worth: dict[str, int]
) -> list[NotebookNode]:
    """The cells that stand for one of the learner's: for an exercise's answer and check two, else
    the same.
    """
    found = CHECK.search(answer.source) if answer else None
    if not answer or not found:
        return [learner]
    line, name = found.groups()
    hidden = f'{line}\n{BEGIN}\nassert check.{name}.mark == "✓", "see the line above"\n{END}'
    code = nbformat.v4.new_code_cell(answer.source[: found.start()], id=answer.id)
    code.metadata["nbgrader"] = _marks(name, solution=True)
    check = nbformat.v4.new_code_cell(hidden, id=f"{answer.id}-check")
    check.metadata["nbgrader"] = _marks(f"{name}-check", grade=True, locked=True) | {
        "points": worth[name]
    }
    return [code, check]


def _marks(name: str, **kinds: bool) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False}
    return plain | kinds | {"grade_id": name, "schema_version": 3}


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = ArgumentParser(
        prog="python -m course_tools.assignment", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "lessons", nargs="+", metavar="LESSON", help="a path or a name like 03_zero_layers"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/class"),
        help="nbgrader's folder (default: runs/class)",
    )
    options = parser.parse_args(arguments)
    utf8_output()
    for name in options.lessons:
        lesson = lesson_of(Path(name))
        try:
            notebook = assignment(lesson)
        except FileNotFoundError:
            parser.error(f'There is no lesson "{lesson}" in notebooks/ and notebooks/solutions/.')
        target, made = (
            options.out / "source" / lesson / f"{lesson}.ipynb",
            nbformat.v4.writes(notebook) + "\n",
        )
        if target.is_file() and target.read_text(encoding="utf-8") != made:
            parser.error(
                f"{target} is there and is not what this would write: move it away, and run "
                f"this again."
            )
        write_text(target, made)
        print(target)
    config = options.out / "nbgrader_config.py"
    if not config.exists():
        write_text(config, CONFIG)


if __name__ == "__main__":
    main()
