"""Points for a class: `python -m course_utils.author.grade FOLDER [--out FOLDER]`, over the notebooks handed in.

FOLDER holds a folder for each student (`ada/03_zero_layers.ipynb`; folders in it are searched too), or one file for
each student and lesson (`ada_03_zero_layers.ipynb`). A file's name keeps the lesson's number; of several notebooks of
one lesson the best mark counts. Nothing that is stored or printed in a notebook counts: the learner's functions are
taken out and run in a process of their own (see `sandbox`), and our checks ask them from here.

In the other folder stand then `points.csv`, `class.md`, and a page for each student in `feedback/`.
"""

import argparse
import csv
import html
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_utils import _markdown
from course_utils._files import NOTEBOOKS, write_text
from course_utils.author.sandbox import Sandbox
from course_utils.course import utf8_output

HEADING = re.compile(r"^### Exercise \d+ · `(\w+)`[^●\n]*(●+)", re.MULTILINE)
LESSON = re.compile(r"(?:(?P<student>.+?)[ _-])??(?P<lesson>\d\d[a-z]?)_")  # how a file's name begins
MOST_BYTES = 50_000_000  # of a notebook
LINE = 300  # characters of a sentence on a page
BEST_FIRST = RIGHT, WRONG, BLANK = "✓", "✗", "○"
NOT_THERE = "no notebook of this lesson was handed in."


@dataclass(frozen=True)
class Submission:
    """One notebook that was handed in: whose, of which lesson ("03", "02b"), and where it lies."""

    student: str
    lesson: str
    path: Path


@dataclass(frozen=True)
class Verdict:
    """What an exercise got: ✓, ✗ or ○, and for the last two a sentence."""

    mark: str
    sentence: str = ""

    @classmethod
    def of(cls, mark: str, sentence: str) -> "Verdict":
        """With a sentence that may hold a learner's words: one line of it, without anything that acts on a screen."""
        line = " ".join("".join(sign if sign.isprintable() else " " for sign in sentence).split())
        return cls(mark, line if len(line) <= LINE else line[: LINE - 1] + "…")


Marks = dict[str, dict[str, Verdict]]  # student → exercise → what it got


def points() -> dict[str, dict[str, int]]:
    """The points of each exercise, lesson by lesson: the ● of its heading in our own notebooks."""
    found = {}
    for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        found[path.stem.split("_")[0]] = {name: len(dots) for name, dots in HEADING.findall(text)}
    return {lesson: exercises for lesson, exercises in found.items() if exercises}


def submissions(folder: Path) -> Iterator[Submission]:
    """The notebooks in a folder of submissions; says which files are passed over."""
    known = points()
    for path in sorted(folder.rglob("*.ipynb")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts):
            continue
        named = LESSON.match(path.name)
        student = inside.parts[0] if len(inside.parts) > 1 else (named and named["student"])
        if named and student and named["lesson"] in known:
            yield Submission(student, named["lesson"], path)
        else:
            print(f"{inside} is passed over: its name should be a lesson's, and say whose it is (see --help).")


def sources(path: Path) -> list[str]:
    """The code cells of a notebook. Raises ValueError for a file that is none."""
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            raise ValueError("too large, or a link")
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise ValueError("the file is no notebook that can be read.") from error
    return code


def verdict(cells: list[str], name: str, seconds: float, memory: float) -> Verdict:
    """What our check says of the function `name` in these cells, which runs in a sandbox."""
    import course_utils.check  # noqa: F401 – it brings every lesson's checks
    from course_utils.course.exercises import EXERCISES
    from course_utils.course.guard import Blank
    from course_utils.course.questions import Wrong

    try:
        with Sandbox(cells, name, seconds, memory) as answer:
            if answer is None:
                return Verdict(BLANK, "the notebook does not define it.")
            said = EXERCISES[name].verdict(answer)
    except Blank:
        return Verdict(BLANK, "not attempted yet.")
    except Wrong as problem:
        return Verdict.of(WRONG, str(problem))
    except Exception as error:  # of whatever type the other process says; ours would show in the class's table
        return Verdict.of(WRONG, f"its cells can't be read: {type(error).__name__}: {error}.")
    mark, _, rest = said.partition(f" {name}")
    return Verdict.of(mark, rest.removeprefix(": "))


def graded(folder: Path, seconds: float, memory: float) -> Marks:
    """The best verdict for each student and exercise of the lessons that somebody handed in.

    Raises FileNotFoundError if there is no notebook in the folder.
    """
    found = [*submissions(folder)]
    if not found:
        raise FileNotFoundError(f"There is no notebook to grade in {folder}.")
    lessons = {lesson: names for lesson, names in points().items() if lesson in {each.lesson for each in found}}
    marks: Marks = {
        student: {name: Verdict(BLANK, NOT_THERE) for names in lessons.values() for name in names}
        for student in sorted({each.student for each in found})
    }
    for each in found:
        got = _of_notebook(each, [*lessons[each.lesson]], seconds, memory)
        own = marks[each.student]
        for name, new in got.items():
            if BEST_FIRST.index(new.mark) <= BEST_FIRST.index(own[name].mark):
                own[name] = new
        print(f"{each.student}, {each.lesson}: {''.join(one.mark for one in got.values())}", flush=True)
    return marks


def _of_notebook(submitted: Submission, names: list[str], seconds: float, memory: float) -> dict[str, Verdict]:
    try:
        cells = sources(submitted.path)
    except ValueError as error:
        return {name: Verdict(WRONG, str(error)) for name in names}
    return {name: verdict(cells, name, seconds, memory) for name in names}


# --- reports ---


def write(marks: Marks, out: Path) -> None:
    """Points, the class, and a page for each student."""
    worth = {name: dots for exercises in points().values() for name, dots in exercises.items()}
    write_text(out / "class.md", "\n".join(_class(marks, worth)) + "\n")
    for student, verdicts in marks.items():
        write_text(out / "feedback" / f"{student}.md", "\n".join(_feedback(student, verdicts, worth)) + "\n")
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(_rows(marks, worth))
    write_text(out / "points.csv", table.getvalue())  # last: a spreadsheet that has it open may keep it shut


def _earned(verdicts: dict[str, Verdict], worth: dict[str, int]) -> int:
    return sum(worth[name] for name, got in verdicts.items() if got.mark == RIGHT)


def _rows(marks: Marks, worth: dict[str, int]) -> Iterator[list[str | int]]:
    names = [*next(iter(marks.values()))]
    yield ["student", *names, "points", "of"]
    for student, verdicts in marks.items():
        each = [worth[name] if verdicts[name].mark == RIGHT else 0 for name in names]
        safe = f"'{student}" if student[0] in "=+-@" else student  # or a spreadsheet would take it for a formula
        yield [safe, *each, sum(each), sum(worth[name] for name in names)]


def _class(marks: Marks, worth: dict[str, int]) -> Iterator[str]:
    """The exercises, those that most miss first, and the students."""
    names = [*next(iter(marks.values()))]
    yield f"# {len(marks)} students, {len(names)} exercises\n"
    rows: list[tuple[object, ...]] = []
    got = {name: Counter(verdicts[name].mark for verdicts in marks.values()) for name in names}
    for name in sorted(names, key=lambda name: got[name][RIGHT]):
        told = Counter(each[name].sentence for each in marks.values() if each[name].mark == WRONG)
        sentence, heard = told.most_common(1)[0] if told else ("", 0)
        times = f" ({heard} times)" if heard > 1 else ""
        counts = (got[name][mark] for mark in (RIGHT, WRONG, BLANK))
        rows.append((f"`{name}`", worth[name], *counts, f"{_plain(sentence)}{times}"))
    yield _markdown.table(["exercise", "points", RIGHT, WRONG, BLANK, "what most of them heard"], rows)
    most = sum(worth[name] for name in names)
    heads = ["student", f"points of {most}", *(f"`{name}`" for name in names)]
    students = [
        (_plain(student), _earned(verdicts, worth), *(verdicts[name].mark for name in names))
        for student, verdicts in marks.items()
    ]
    yield "\n" + _markdown.table(heads, students)


def _feedback(student: str, verdicts: dict[str, Verdict], worth: dict[str, int]) -> Iterator[str]:
    yield f"# {_plain(student)}\n\n{_earned(verdicts, worth)} of {sum(worth[name] for name in verdicts)} points.\n"
    for lesson, exercises in points().items():
        if not exercises.keys() <= verdicts.keys():
            continue
        rows = []
        for name, dots in exercises.items():
            got = verdicts[name]
            earned = dots if got.mark == RIGHT else 0
            rows.append((f"`{name}`", f"{earned} of {dots}", f"{got.mark} {_plain(got.sentence)}"))
        table = _markdown.table(["exercise", "points", ""], rows)
        yield f"## Lesson {lesson}\n\n{table}\n"
    yield "A sentence names what is missing, not the line that is wrong. `check.hint` and `check.solution` help."


def _plain(words: str) -> str:
    """Words for a table in Markdown: nothing in them is HTML, a link or another column."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(words, quote=False))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m course_utils.author.grade",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="the notebooks handed in")
    parser.add_argument("--out", type=Path, default=Path("runs/grades"), help="a folder (default: runs/grades)")
    parser.add_argument("--seconds", type=float, default=60, help="that the answer to one exercise may take (60)")
    parser.add_argument("--memory", type=float, default=4, help="GiB that it may take (4)")
    options = parser.parse_args(arguments)
    utf8_output()
    try:
        write(graded(options.folder, options.seconds, options.memory), options.out)
    except FileNotFoundError as error:
        parser.error(str(error))
    except PermissionError as error:
        parser.error(f"{error.filename} can't be written: close the program that has it open, and run this again.")
    print(f"{options.out / 'class.md'}, {options.out / 'points.csv'} and {options.out / 'feedback'} are written.")


if __name__ == "__main__":
    main()
