"""Which exercises are done: `python -m course_utils.course.progress [FOLDER]`, and in `00_start.ipynb`.

It reads the saved notebooks and the last word of every check in them. Nothing else is kept, so nothing can be lost.
"""

import argparse
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from course_utils._files import NOTEBOOKS
from course_utils.course import copies, utf8_output

EXERCISE = re.compile(r"^### Exercise \d+ · `(\w+)`", re.MULTILINE)
VERDICT = re.compile(r"^([✓✗○]) (\w+)", re.MULTILINE)
TITLE = re.compile(r"^# (.+)", re.MULTILINE)
BEST_FIRST = "✓✗○"
IN_WORDS = {"✓": "done", "✗": "not right yet", "○": "not tried yet"}


@dataclass(frozen=True)
class Notebook:
    """What a saved notebook says of itself: its title, and each exercise's cell and mark, by name."""

    path: Path
    title: str
    cells: dict[str, str]  # the id of the cell with the exercise's heading
    marks: dict[str, str]
    is_begun: bool  # some cell of it was run

    @property
    def lesson(self) -> str:
        return self.path.name.split("_")[0]

    def link(self, exercise: str = "") -> str:
        """The address of the notebook, or of an exercise in it, as JupyterLab goes to it."""
        return quote(self.path.name) + (f"#cell-id={self.cells[exercise]}" if self.cells.get(exercise) else "")


def marks(folder: Path = NOTEBOOKS) -> dict[str, dict[str, str]]:
    """For each lesson ("03", "02b") the mark of each exercise: ✓ done, ✗ not yet right, ○ blank or never run.

    Every notebook of a lesson counts (`03_zero_layers.ipynb`, `03_mine.ipynb`): the best mark of an exercise stands.
    Raises FileNotFoundError if there is no lesson in the folder, ValueError if a file is no notebook.
    """
    return _best(_notebooks(folder))


def _best(notebooks: list[Notebook]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for notebook in notebooks:
        lesson = found.setdefault(notebook.lesson, {})
        for name, mark in notebook.marks.items():
            lesson[name] = min(mark, lesson.get(name, "○"), key=BEST_FIRST.index)
    return {lesson: exercises for lesson, exercises in found.items() if exercises}


def _notebooks(folder: Path) -> list[Notebook]:
    paths = sorted(folder.glob("[0-9][0-9]*_*.ipynb"))
    if not paths:
        raise FileNotFoundError(f"There is no lesson in {folder}: name the folder that your notebooks are in.")
    return [_read(path) for path in paths]


def _read(path: Path) -> Notebook:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = [(cell.get("id", ""), "".join(cell["source"])) for cell in cells if cell["cell_type"] == "markdown"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        printed = "\n".join("".join(output.get("text", "")) for output in outputs)
        run = [cell for cell in cells if cell.get("execution_count")]
        tags = [cell.get("metadata", {}).get("tags", []) for cell in run]
        is_begun = any("first-picture" not in each for each in tags)  # that one comes run
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no notebook that can be read: open it in JupyterLab and save it again.") from error
    verdicts = {name: mark for mark, name in VERDICT.findall(printed)}
    places = {name: cell for cell, text in texts for name in EXERCISE.findall(text)}
    title = next((found[1] for _, text in texts if (found := TITLE.search(text))), path.stem)
    return Notebook(path, title, places, {name: verdicts.get(name, "○") for name in places}, is_begun)


class Overview:
    """The progress in a folder as a page with links, and as text where there is no page."""

    def __init__(self, folder: Path = Path()):
        from course_utils.course import claims  # it brings torch, for which the command need not wait

        saved = _notebooks(folder)
        self.marks = _best(saved)
        self.notebooks: dict[str, Notebook] = {}  # each lesson's, the last saved
        for notebook in sorted(saved, key=lambda notebook: notebook.path.stat().st_mtime):
            if notebook.cells:
                self.notebooks[notebook.lesson] = notebook
        self.guesses = claims.guesses()

    def next(self) -> tuple[Notebook, str]:
        """Where to go on: the first exercise that is not done in the lesson saved last, or else the next lesson."""
        begun = [notebook for notebook in self.notebooks.values() if notebook.is_begun]  # the last saved stands last
        lessons = sorted(self.notebooks)
        place = lessons.index(begun[-1].lesson) if begun else 0
        for lesson in lessons[place:] + lessons[:place]:
            left = [name for name, mark in self.marks[lesson].items() if mark != "✓"]
            if left:
                return self.notebooks[lesson], left[0] if self.notebooks[lesson].is_begun else ""
        return self.notebooks[lessons[0]], ""

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, bool]]:
        return {"text/html": "\n".join(self._html()), "text/plain": repr(self)}, {"personal": True}  # never stored

    def _html(self) -> Iterator[str]:
        notebook, exercise = self.next()
        where = f" · {exercise}" if exercise else ""
        begun = any(notebook.is_begun for notebook in self.notebooks.values())
        opening = "Go on where you stopped" if begun else "Begin here"
        yield f"<p><b>{opening}: {_link(notebook, html.escape(notebook.title + where), exercise)}</b></p>"
        head = "".join(f'<th style="text-align: left">{name}</th>' for name in ("lesson", "exercises", "done"))
        yield f"<table><thead><tr>{head}</tr></thead><tbody>"
        for lesson, exercises in self.marks.items():
            notebook = self.notebooks[lesson]
            signs = " ".join(
                _link(notebook, mark, name, f"{name}: {IN_WORDS[mark]}") for name, mark in exercises.items()
            )
            cells = _link(notebook, html.escape(notebook.title)), signs, _share(exercises)
            yield "<tr>" + "".join(f'<td style="text-align: left">{cell}</td>' for cell in cells) + "</tr>"
        yield f"</tbody></table><p>{_signs()} {self._predictions()}</p>"

    def _predictions(self) -> str:
        judged = [guess["right"] for guess in self.guesses.values() if "right" in guess]
        came_true = f", {sum(judged)} of {len(judged)} came true so far" if judged else ""
        return f"Predictions: {len(self.guesses) or 'none'} made{came_true}."

    def __repr__(self) -> str:
        notebook, exercise = self.next()
        return "\n".join([*_lines(self.marks), f"Go on: {notebook.path.name} {exercise}".strip(), self._predictions()])


def _link(notebook: Notebook, text: str, exercise: str = "", label: str = "") -> str:
    hint = f' title="{label}" aria-label="{label}"' if label else ""
    return f'<a href="{notebook.link(exercise)}"{hint}>{text}</a>'


def _share(exercises: dict[str, str]) -> str:
    return f"{list(exercises.values()).count('✓')} of {len(exercises)}"


def _signs() -> str:
    return ", ".join(f"{mark} {words}" for mark, words in IN_WORDS.items()) + "."


def _lines(lessons: dict[str, dict[str, str]]) -> Iterator[str]:
    for lesson, exercises in lessons.items():
        left = [f"{mark} {name}" for name, mark in exercises.items() if mark != "✓"]
        yield f"{lesson:3} {''.join(exercises.values()):18}  {_share(exercises):>8}  {', '.join(left[:3])}"


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    folders = [place / copies.FOLDER for place in copies.places()]
    yours = next((folder for folder in folders if folder.is_dir()), NOTEBOOKS)
    parser = argparse.ArgumentParser(prog="python -m course_utils.course.progress", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=yours, help=f"where your notebooks are ({yours})")
    try:
        lessons = marks(parser.parse_args(arguments).folder)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    utf8_output()
    print(*_lines(lessons), sep="\n")


if __name__ == "__main__":
    main()
