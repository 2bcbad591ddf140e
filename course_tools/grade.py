"""A class at a glance, once nbgrader has graded: `python -m course_tools.grade FOLDER`.

FOLDER holds `NAME/03_zero_layers/03_zero_layers.ipynb` for each student, run by `nbgrader
autograde`, whose gradebook has the points. The page says which exercises most students missed, what
most of them heard, and who is where.
"""

import argparse
import html
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from course_utils import _words
from course_utils._files import NOTEBOOKS, number_of, write_text
from course_utils.course import saved_notebook, utf8_output
from course_utils.course.saved_notebook import BEST_FIRST

LINE = 300  # characters of a sentence on the page
RIGHT, WRONG, BLANK = tuple(BEST_FIRST)
Said = dict[str, tuple[str, str]]  # exercise → the last word of its check, mark and sentence


def points() -> dict[str, dict[str, int]]:
    """The points of each exercise, lesson by lesson ("03"): the ● of its heading in our own."""
    found = {}
    for notebook in saved_notebook.read_all(NOTEBOOKS):
        if notebook.exercises:
            dots = {name: exercise.points for name, exercise in notebook.exercises.items()}
            found[notebook.lesson] = dots
    return found


def heard(folder: Path) -> dict[str, Said]:
    """What the checks said to each student, in the last notebook of each lesson.

    Raises FileNotFoundError if there is no notebook.
    """
    found: dict[str, Said] = {}
    exercises = points()
    for path in sorted(folder.rglob("*.ipynb")):
        lesson = number_of(path.name)
        inside = path.relative_to(folder)
        if lesson not in exercises or len(inside.parts) < 2:
            wanted = "it should be a lesson's notebook, in a folder with a student's name"
            print(f"{inside} is passed over: {wanted}.")
            continue
        try:
            notebook = saved_notebook.read(path)
            said = notebook.locked
            if said is None:
                said = notebook.said
                print(f"{inside} has none of nbgrader's locked cells: its own cells were read.")
        except ValueError:
            unread = (WRONG, "the file is no notebook that can be read.")
            said = dict.fromkeys(exercises[lesson], unread)
        student = found.setdefault(inside.parts[0], {})
        for name in exercises[lesson]:
            student[name] = said.get(name, (BLANK, ""))
    if not found:
        raise FileNotFoundError(f"There is no autograded notebook in {folder}.")
    return found


def page(found: dict[str, Said]) -> Iterator[str]:
    """The exercises, those that most miss first, and the students, as lines of Markdown."""
    worth = {name: dots for exercises in points().values() for name, dots in exercises.items()}
    names = [name for name in worth if any(name in said for said in found.values())]
    students = {}  # student → exercise → mark and sentence
    for student, said in found.items():
        students[student] = {name: said.get(name, (BLANK, "")) for name in names}
    yield f"# {len(students)} students, {len(names)} exercises\n"

    # A row for each exercise.
    told = {name: [said[name] for said in students.values()] for name in names}
    marks = {name: [mark for mark, _ in told[name]] for name in names}
    heads = ["exercise", "points", *BEST_FIRST, "what most of them heard"]
    rows = []
    for name in sorted(names, key=lambda name: marks[name].count(RIGHT)):
        counts = [marks[name].count(mark) for mark in BEST_FIRST]
        rows.append([f"`{name}`", worth[name], *counts, _most_heard(told[name])])
    yield _words.table(heads, rows)

    # A row for each student.
    total = sum(worth[name] for name in names)
    heads = ["student", f"points of {total}", *(f"`{name}`" for name in names)]
    rows = []
    for student, said in students.items():
        earned = sum(worth[name] for name, (mark, _) in said.items() if mark == RIGHT)
        rows.append([_plain(student), earned, *(mark for mark, _ in said.values())])
    yield "\n" + _words.table(heads, rows)


def _most_heard(told: list[tuple[str, str]]) -> str:
    """The sentence that a check said most often, and how often."""
    heard_by = Counter(sentence for mark, sentence in told if mark == WRONG)
    if not heard_by:
        return ""
    [(sentence, times)] = heard_by.most_common(1)
    return _plain(sentence) + (f" ({times} times)" if times > 1 else "")


def _plain(words: str) -> str:
    """A learner's words for a table in Markdown: one line, with nothing that acts, and no HTML."""
    printable = "".join(sign if sign.isprintable() else " " for sign in words)
    line = " ".join(printable.split())
    escaped = html.escape(line[:LINE], quote=False)
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escaped)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_tools.grade", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="nbgrader's folder autograded/")
    where = "a file (default: class.md)"
    parser.add_argument("--out", type=Path, default=Path("class.md"), help=where)
    options = parser.parse_args(arguments)
    utf8_output()
    try:
        write_text(options.out, "\n".join(page(heard(options.folder))) + "\n")
    except FileNotFoundError as error:
        parser.error(str(error))
    print(options.out)


if __name__ == "__main__":
    main()
