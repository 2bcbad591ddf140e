"""Which exercises are done: `python -m course_utils.course.progress [FOLDER]`, and in
`00_start.ipynb`.

It reads the saved notebooks and the last word of every check in them. Nothing else is kept, so
nothing can be lost.
"""

import argparse
import html
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from course_utils._files import NOTEBOOKS
from course_utils.course import copies, saved_notebook, utf8_output
from course_utils.course.saved_notebook import BEST_FIRST, Notebook

IN_WORDS = {"✓": "done", "✗": "not right yet", "○": "not tried yet"}


def marks(folder: Path = NOTEBOOKS) -> dict[str, dict[str, str]]:
    """For each lesson ("03", "02b") the mark of each exercise: ✓ done, ✗ not yet right, ○ blank or
    never run.

    Every notebook of a lesson counts (`03_zero_layers.ipynb`, `03_mine.ipynb`): the best mark of an
    exercise stands. Raises FileNotFoundError if there is no lesson in the folder, ValueError if a
    file is no notebook.
    """
    return _best(saved_notebook.read_all(folder))


def _best(notebooks: list[Notebook]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for notebook in notebooks:
        lesson = found.setdefault(notebook.lesson, {})
        for name, mark in notebook.marks.items():
            lesson[name] = min(mark, lesson.get(name, "○"), key=BEST_FIRST.index)
    return {lesson: exercises for lesson, exercises in found.items() if exercises}


class Overview:
    """The progress in a folder as a page with links, and as text where there is no page."""

    def __init__(self, folder: Path = Path()):
        from course_utils.course import (  # it brings torch, for which the command need not wait
            bets,
            case_score,
        )

        saved = saved_notebook.read_all(folder)
        self.marks = _best(saved)
        self.notebooks: dict[str, Notebook] = {}  # each lesson's, the last saved
        for notebook in sorted(saved, key=lambda notebook: notebook.path.stat().st_mtime):
            if notebook.exercises:
                self.notebooks[notebook.lesson] = notebook
        made = bets.guesses()
        self.predictions = bets.summary(made)
        self.boxes = case_score.summary()
        self.mistakes = {
            name: bets.markup(question) for name, question in bets.mistakes(made).items()
        }

    def next(self) -> tuple[Notebook, str]:
        """Where to go on: the first exercise that is not done in the lesson saved last, or else the
        next lesson.
        """
        # the last saved stands last
        begun = [notebook for notebook in self.notebooks.values() if notebook.is_begun]
        lessons = sorted(self.notebooks)
        place = lessons.index(begun[-1].lesson) if begun else 0
        for lesson in lessons[place:] + lessons[:place]:
            left = [name for name, mark in self.marks[lesson].items() if mark != "✓"]
            if left:
                return self.notebooks[lesson], left[0] if self.notebooks[lesson].is_begun else ""
        return self.notebooks[lessons[0]], ""

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, bool]]:
        # never stored
        return {"text/html": "\n".join(self._html()), "text/plain": repr(self)}, {"personal": True}

    def _html(self) -> Iterator[str]:
        notebook, exercise = self.next()
        where = f" · {exercise}" if exercise else ""
        begun = any(notebook.is_begun for notebook in self.notebooks.values())
        opening = "Go on where you stopped" if begun else "Begin here"
        yield (
            f"<p><b>{opening}: "
            f"{_link(notebook, html.escape(notebook.title + where), exercise)}</b></p>"
        )
        head = "".join(
            f'<th style="text-align: left">{name}</th>' for name in ("lesson", "exercises", "done")
        )
        yield f"<table><thead><tr>{head}</tr></thead><tbody>"
        for lesson, exercises in self.marks.items():
            notebook = self.notebooks[lesson]
            signs = " ".join(
                _link(notebook, mark, name, f"{name}: {IN_WORDS[mark]}")
                for name, mark in exercises.items()
            )
            cells = _link(notebook, html.escape(notebook.title)), signs, _share(exercises)
            yield (
                "<tr>"
                + "".join(f'<td style="text-align: left">{cell}</td>' for cell in cells)
                + "</tr>"
            )
        signs = ", ".join(f"{mark} {words}" for mark, words in IN_WORDS.items())
        yield f"</tbody></table><p>{signs}. {self.predictions} {html.escape(self.boxes)}</p>"
        if self.mistakes:
            again = "".join(
                f"<li>{self._lesson_of(name)}{asked}</li>" for name, asked in self.mistakes.items()
            )
            yield (
                f"<p>You were sure, and it came out otherwise. Run these again, and bet "
                f"again:</p><ul>{again}</ul>"
            )

    def _lesson_of(self, prediction: str) -> str:
        notebook = self.notebooks.get(prediction.partition("_")[0])
        return f"{_link(notebook, html.escape(notebook.title))}: " if notebook else ""

    def __repr__(self) -> str:
        notebook, exercise = self.next()
        lines = [
            *_lines(self.marks),
            f"Go on: {notebook.path.name} {exercise}".strip(),
            self.predictions,
            self.boxes,
        ]
        return "\n".join(filter(None, lines))


def _link(notebook: Notebook, text: str, exercise: str = "", label: str = "") -> str:
    hint = f' title="{label}" aria-label="{label}"' if label else ""
    place = (
        f"#cell-id={notebook.exercises[exercise].cell}"
        if exercise and notebook.exercises[exercise].cell
        else ""
    )
    return (
        f'<a href="{quote(notebook.path.name)}{place}"{hint}>{text}</a>'  # as JupyterLab goes to it
    )


def _share(exercises: dict[str, str]) -> str:
    return f"{list(exercises.values()).count('✓')} of {len(exercises)}"


def _lines(lessons: dict[str, dict[str, str]]) -> Iterator[str]:
    for lesson, exercises in lessons.items():
        left = [f"{mark} {name}" for name, mark in exercises.items() if mark != "✓"]
        yield (
            f"{lesson:3} {''.join(exercises.values()):18}  {_share(exercises):>8}  "
            f"{', '.join(left[:3])}"
        )


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    folders = [place / copies.FOLDER for place in copies.places()]
    yours = next((folder for folder in folders if folder.is_dir()), NOTEBOOKS)
    parser = argparse.ArgumentParser(
        prog="python -m course_utils.course.progress", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=yours, help=f"where your notebooks are ({yours})"
    )
    try:
        lessons = marks(parser.parse_args(arguments).folder)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    utf8_output()
    print(*_lines(lessons), sep="\n")


if __name__ == "__main__":
    main()
