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
from course_utils._files import lesson_of, number_of, write_text
from course_utils.course import saved_notebook, utf8_output

BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
CHECK = re.compile(r"\n+((\w+) = check\.\w+\(.*\b\2\))\s*\Z")  # how an exercise's cell ends
CONFIG = f"""c = get_config()  # noqa: F821
c.ClearSolutions.code_stub = {{"python": {saved_notebook.STUB!r}}}  # the checks know this blank
c.Execute.timeout = {runner.CELL_TIMEOUT}  # seconds for a cell
"""


def assignment(lesson: str) -> NotebookNode:
    """The lesson as nbgrader's source: the learner's copy, with our solutions.

    Raises FileNotFoundError if there is no such lesson.
    """
    path = authoring.solution_path(lesson)
    solution = authoring.read_notebook(path)
    notebook = authoring.read_notebook(authoring.learner_path(path))
    answers = {cell.id: cell for cell in solution.cells if authoring.MARKERS[0] in cell.source}
    number = number_of(path.name)
    worth = grade.points().get(number, {})
    cells = []
    for cell in notebook.cells:
        cells += _cells(answers.get(cell.id), cell, worth)
    notebook.cells = cells
    nbformat.validate(notebook)
    return notebook


def _cells(
    answer: NotebookNode | None, learner: NotebookNode, worth: dict[str, int]
) -> list[NotebookNode]:
    """What stands for a learner's cell: two for an exercise, answer and check, else the same."""
    found = CHECK.search(answer.source) if answer else None
    if not answer or not found:
        return [learner]
    line, name = found.groups()
    code = nbformat.v4.new_code_cell(answer.source[: found.start()], id=answer.id)
    code.metadata["nbgrader"] = _marks(name, solution=True)
    hidden = f'{line}\n{BEGIN}\nassert check.{name}.mark == "✓", "see the line above"\n{END}'
    check = nbformat.v4.new_code_cell(hidden, id=f"{answer.id}-check")
    marks = _marks(f"{name}-check", grade=True, locked=True)
    check.metadata["nbgrader"] = marks | {"points": worth[name]}
    return [code, check]


def _marks(name: str, **kinds: bool) -> dict[str, Any]:
    none = {"grade": False, "solution": False, "locked": False, "task": False}
    return none | kinds | {"grade_id": name, "schema_version": 3}


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    about = __doc__.splitlines()[0]
    parser = ArgumentParser(prog="python -m course_tools.assignment", description=about)
    which = "a path or a name like 03_zero_layers"
    parser.add_argument("lessons", nargs="+", metavar="LESSON", help=which)
    where = "nbgrader's folder (default: runs/class)"
    parser.add_argument("--out", type=Path, default=Path("runs/class"), help=where)
    options = parser.parse_args(arguments)
    utf8_output()
    for name in options.lessons:
        lesson = lesson_of(Path(name))
        try:
            notebook = assignment(lesson)
        except FileNotFoundError:
            parser.error(f'There is no lesson "{lesson}" in notebooks/ and notebooks/solutions/.')
        target = options.out / "source" / lesson / f"{lesson}.ipynb"
        made = nbformat.v4.writes(notebook) + "\n"
        if target.is_file() and target.read_text(encoding="utf-8") != made:
            changed = f"{target} is there and is not what this would write"
            parser.error(f"{changed}: move it away, and run this again.")
        write_text(target, made)
        print(target)
    config = options.out / "nbgrader_config.py"
    if not config.exists():
        write_text(config, CONFIG)


if __name__ == "__main__":
    main()
