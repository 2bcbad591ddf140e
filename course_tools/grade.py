"""A class at a glance: `python -m course_tools.grade FOLDER [--out FILE]`, over what nbgrader has
autograded.

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
from course_utils._files import NOTEBOOKS, write_text
from course_utils.course import saved_notebook, utf8_output
from course_utils.course.saved_notebook import BEST_FIRST

LINE = 300  # characters of a sentence on the page
RIGHT, WRONG, BLANK = tuple(BEST_FIRST)
Said = dict[str, tuple[str, str]]  # exercise → the last word of its check, mark and sentence


def points() -> dict[str, dict[str, int]]:
    """The points of each exercise, lesson by lesson ("03"): the ● of its heading in our own
    notebooks.
    """
    found = {lesson.lesson: lesson.exercises for lesson in saved_notebook.read_all(NOTEBOOKS)}
    return {
        number: {name: one.points for name, one in own.items()}
        for number, own in found.items()
        if own
    }


def heard(folder: Path) -> dict[str, Said]:
    """What the checks said to each student, in the last notebook of each lesson; FileNotFoundError
    if there is none.
    """
    found: dict[str, Said] = {}
    for path in sorted(folder.rglob("*.ipynb")):
        lesson, inside = path.name.split("_")[0], path.relative_to(folder)
        if lesson not in points() or len(inside.parts) < 2:
            print(
                f"{inside} is passed over: it should be a lesson's notebook, in a folder with a "
                f"student's name."
            )
            continue
        try:
            said = saved_notebook.read(path).said
        except ValueError:
            said = dict.fromkeys(
                points()[lesson], (WRONG, "the file is no notebook that can be read.")
            )
        blank = dict.fromkeys(points()[lesson], (BLANK, ""))
        found.setdefault(inside.parts[0], {}).update(
            {name: said.get(name, word) for name, word in blank.items()}
        )
    if not found:
        raise FileNotFoundError(f"There is no autograded notebook in {folder}.")
    return found


def page(found: dict[str, Said]) -> Iterator[str]:
    """The exercises, those that most miss first, and the students, as lines of Markdown."""
    worth = {name: dots for exercises in points().values() for name, dots in exercises.items()}
    names = [name for name in worth if any(name in said for said in found.values())]
    marks = {
        student: {name: said.get(name, (BLANK, "")) for name in names}
        for student, said in found.items()
    }
    yield f"# {len(marks)} students, {len(names)} exercises\n"
    rows: list[tuple[object, ...]] = []
    for name in sorted(
        names, key=lambda name: [said[name][0] for said in marks.values()].count(RIGHT)
    ):
        got = [said[name] for said in marks.values()]
        told = Counter(sentence for mark, sentence in got if mark == WRONG).most_common(1)
        sentence = "".join(
            f"{_plain(words)}{f' ({times} times)' * (times > 1)}" for words, times in told
        )
        counts = ([mark for mark, _ in got].count(mark) for mark in BEST_FIRST)
        rows.append((f"`{name}`", worth[name], *counts, sentence))
    yield _words.table(["exercise", "points", *BEST_FIRST, "what most of them heard"], rows)
    heads = [
        "student",
        f"points of {sum(worth[name] for name in names)}",
        *(f"`{name}`" for name in names),
    ]
    students = []
    for student, said in marks.items():
        earned = sum(worth[name] for name, (mark, _) in said.items() if mark == RIGHT)
        students.append((_plain(student), earned, *(mark for mark, _ in said.values())))
    yield "\n" + _words.table(heads, students)


def _plain(words: str) -> str:
    """A learner's words for a table in Markdown: one line, nothing in it that acts on a screen or
    is HTML.
    """
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in words).split())
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(line[:LINE], quote=False))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m course_tools.grade", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="nbgrader's folder autograded/")
    parser.add_argument(
        "--out", type=Path, default=Path("class.md"), help="a file (default: class.md)"
    )
    options = parser.parse_args(arguments)
    utf8_output()
    try:
        write_text(options.out, "\n".join(page(heard(options.folder))) + "\n")
    except FileNotFoundError as error:
        parser.error(str(error))
    print(options.out)


if __name__ == "__main__":
    main()
