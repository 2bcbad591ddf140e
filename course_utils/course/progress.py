"""Which exercises are done: `python -m course_utils.course.progress [FOLDER]`, and in lesson 00.

It reads the saved notebooks and the last word of every check in them. Nothing else is kept, so
nothing can be lost.
"""

import argparse
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote

from course_utils._files import NOTEBOOKS
from course_utils.course import copies, outline, saved_notebook, utf8_output
from course_utils.course.saved_notebook import BEST_FIRST, Notebook

IN_WORDS = {"✓": "done", "✗": "not right yet", "○": "not tried yet"}
Exercises = dict[str, str]  # by name: ✓, ✗ or ○
Marks = dict[str, Exercises]  # by lesson: "03", "02b"


def marks(folder: Path = NOTEBOOKS) -> Marks:
    """The mark of each exercise of each lesson: ✓ done, ✗ not yet right, ○ blank or never run.

    Every notebook counts (`03_zero_layers.ipynb`, `03_mine.ipynb`), that of another lesson too, in
    which an exercise stood before: its best mark stands. Raises FileNotFoundError if there is no
    lesson in the folder, ValueError if none can be read.
    """
    return _best(saved_notebook.read_all(folder))


def _best(notebooks: list[Notebook]) -> Marks:
    best: Exercises = {}  # of all notebooks: an exercise may have been solved where it once stood
    for notebook in notebooks:
        for name, mark in notebook.marks.items():
            best[name] = min(mark, best.get(name, "○"), key=BEST_FIRST.index)
    found: Marks = {}
    for notebook in notebooks:
        if notebook.exercises:
            found.setdefault(notebook.lesson, {}).update({n: best[n] for n in notebook.exercises})
    return found


class Overview:
    """The progress in a folder as a page with links, and as text where there is no page."""

    def __init__(self, folder: Path | None = None):
        # They bring torch, for which the command need not wait.
        from course_utils.course import bets, case_score, keeping

        saved = saved_notebook.read_all(folder or keeping.folder())
        self.marks = _best(saved)
        self.notebooks: dict[str, Notebook] = {}  # each lesson's, the last saved; in that order
        for notebook in sorted(saved, key=lambda notebook: notebook.path.stat().st_mtime):
            if notebook.exercises:
                self.notebooks[notebook.lesson] = notebook
        self.begun = [name for name, notebook in self.notebooks.items() if notebook.is_begun]
        made = bets.guesses()
        lost = bets.mistakes(made)
        self.predictions = bets.summary(made)
        self.mistakes = {name: bets.markup(question) for name, question in lost.items()}
        self.boxes = case_score.summary()

    def next(self) -> tuple[Notebook, str] | None:
        """Where to go on: what is not done in the lesson saved last, or else along the spine.

        None where no lesson with exercises can be read.
        """
        here = self.begun[-1] if self.begun else outline.part("spine")[0]
        others = [name for name in self.notebooks if name not in outline.rows()]
        lessons = [name for name in [*outline.from_here(here), *others] if name in self.notebooks]
        for lesson in lessons:
            notebook = self.notebooks[lesson]
            left = _left(self.marks[lesson])
            if left:
                return notebook, left[0] if notebook.is_begun else ""
        return (self.notebooks[lessons[0]], "") if lessons else None

    def _repr_mimebundle_(self, **_: object) -> tuple[dict, dict]:
        page = {"text/html": "\n".join(self._html()), "text/plain": repr(self)}
        return page, {"personal": True}  # so it is never stored

    def _html(self) -> Iterator[str]:
        # Where to go on.
        if place := self.next():
            notebook, exercise = place
            title = notebook.title
            if exercise:
                title += f" · {exercise}"
            opening = "Go on where you stopped" if self.begun else "Begin here"
            yield f"<p><b>{opening}: {_link(notebook, title, exercise)}</b></p>"

        # A row for each lesson.
        heads = _row("th", ["lesson", "exercises", "done"])
        yield f"<table><thead>{heads}</thead><tbody>"
        for lesson, exercises in self.marks.items():
            notebook = self.notebooks[lesson]
            title = _link(notebook, notebook.title)
            signs = [_link(notebook, mark, name) for name, mark in exercises.items()]
            yield _row("td", [title, " ".join(signs), _share(exercises)])

        # What the signs mean, and what has become of bets and boxes.
        legend = ", ".join(map(" ".join, IN_WORDS.items()))
        said = escape(f"{legend}. {self.predictions} {self.boxes}")
        yield f"</tbody></table><p>{said}</p>"
        if self.mistakes:
            opening = "You were sure, and it came out otherwise. Run these again, and bet again:"
            again = ""
            for name, question in self.mistakes.items():
                asked_in = self.notebooks.get(name.partition("_")[0])
                where = f"{_link(asked_in, asked_in.title)}: " if asked_in else ""
                again += f"<li>{where}{question}</li>"
            yield f"<p>{opening}</p><ul>{again}</ul>"

    def __repr__(self) -> str:
        place = ""
        if found := self.next():
            notebook, exercise = found
            place = f"Go on: {notebook.path.name} {exercise}".strip()
        lines = [*_lines(self.marks), place, self.predictions, self.boxes]
        return "\n".join(filter(None, lines))


def _row(tag: str, texts: list[str]) -> str:
    cells = [f'<{tag} style="text-align: left">{text}</{tag}>' for text in texts]
    return f"<tr>{''.join(cells)}</tr>"


def _link(notebook: Notebook, text: str, exercise: str = "") -> str:
    """A link to a notebook, or to an exercise in it, as JupyterLab goes to it."""
    target = quote(notebook.path.name)
    cell = notebook.exercises[exercise].cell if exercise else ""
    if cell:
        target += f"#cell-id={quote(cell, safe='')}"
    hint = ""
    if text in IN_WORDS:  # a sign alone, which says what it means
        label = escape(f"{exercise}: {IN_WORDS[text]}")
        hint = f' title="{label}" aria-label="{label}"'
    return f'<a href="{target}"{hint}>{escape(text)}</a>'


def _left(exercises: Exercises) -> list[str]:
    """The exercises that are not done."""
    return [name for name, mark in exercises.items() if mark != "✓"]


def _share(exercises: Exercises) -> str:
    done = len(exercises) - len(_left(exercises))
    return f"{done} of {len(exercises)}"


def _lines(lessons: Marks) -> Iterator[str]:
    for lesson, exercises in lessons.items():
        signs = "".join(exercises.values())
        share = _share(exercises)
        left = [f"{exercises[name]} {name}" for name in _left(exercises)]
        first = ", ".join(left[:3])
        yield f"{lesson:3} {signs:18}  {share:>8}  {first}"


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    summary = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(
        prog="python -m course_utils.course.progress", description=summary
    )
    where = f"where your notebooks are (default: {copies.FOLDER})"
    parser.add_argument("folder", nargs="?", type=Path, help=where)
    options = parser.parse_args(arguments)
    utf8_output()
    try:
        lessons = marks(options.folder or copies.existing() or NOTEBOOKS)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    print(*_lines(lessons), sep="\n")


if __name__ == "__main__":
    main()
