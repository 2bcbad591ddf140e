"""A learner's own copies of the lessons: what is written in one stays, the others are renewed."""

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from course_utils._files import INSTALLED, NOTEBOOKS, ROOT, entries, write_atomically, write_text
from course_utils.course import saved_notebook

FOLDER = "my_notebooks"
RECORD = ".copies.json"  # in the folder: what each copy was when it was made
# AGENTS and CLAUDE tell an assistant that works in the folder to be a tutor.
PATTERNS = ("GLOSSARY.md", "AGENTS.md", "CLAUDE.md", "[0-9]*.ipynb", "solutions/[0-9]*.ipynb")
COPY = re.compile(r"(GLOSSARY|AGENTS|CLAUDE)\.md|(solutions/)?[0-9][^/\\:\0]*\.ipynb")  # as names


class Made(NamedTuple):
    """A notebook as two SHA-256."""

    file: str
    written: str  # of what people write in it: not of outputs, numbers and settings


def places() -> list[Path]:
    """Where `my_notebooks` may be: in the checkout, where we are, at home."""
    found = [] if INSTALLED else [ROOT]
    for place in (Path.cwd, Path.home):
        with contextlib.suppress(OSError, RuntimeError):  # it is gone, or nobody's home
            found.append(place())
    return found


def existing() -> Path | None:
    """The folder of copies that there is: the one we are in, or the first of `places`.

    One that can be written to comes first. Raises FileNotFoundError where there is only a link, and
    what it leads to is away.
    """
    folders = [place / FOLDER for place in places()]
    if os.path.isfile(RECORD):
        folders.insert(0, Path.cwd())
    found = [folder for folder in folders if os.path.isdir(folder)]
    found.sort(key=lambda folder: not os.access(folder, os.W_OK))
    away = [folder for folder in folders if os.path.islink(folder)]
    if away and not found:
        raise FileNotFoundError(
            f"{away[0]} is a link to {os.readlink(away[0])}, which is away: bring it back, or name "
            "another folder."
        )
    return found[0] if found else None


def workplace() -> Path:
    """The folder for the copies: the one that there is, or else a new one.

    It is made in the checkout or at home, where it is found again from everywhere, and only if
    neither can be written to where we are. Raises PermissionError when it can't be made there.
    """
    there = existing()
    if there and os.access(there, os.W_OK):
        return there
    checkout = [place for place in places() if place == ROOT]
    others = [place for place in places() if place != ROOT]
    for place in [*checkout, *reversed(others)]:
        folder = place / FOLDER
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    named = ", ".join(dict.fromkeys(map(str, places())))
    raise PermissionError(
        f"No folder for your notebooks can be made in {named}: name one with --folder."
    )


def renew(folder: Path, lessons: Path = NOTEBOOKS) -> list[str]:
    """Copy lessons, solutions and glossary into a folder; a later call brings what is new.

    A copy in which somebody has written something is left as it is, whatever becomes of its lesson;
    one that was only run counts as unwritten. Returns the names of what was left although its
    lesson has changed, or because it is no file of ours, or can't be read or written: `why` says
    which. Raises OSError where nothing can be kept in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    left = []
    before = _record(folder)
    made = dict(before)
    paths = [path for pattern in PATTERNS for path in sorted(lessons.glob(pattern))]
    sources = {path.relative_to(lessons).as_posix(): path for path in paths}
    refused = []
    for name, source in sources.items():
        now = None
        try:
            if not _is_odd(folder, name):
                now = _renewed(folder / name, source, before.get(name))
        except OSError as error:
            refused.append(error)
        if now is None:
            left.append(name)
        else:
            made[name] = now
    if refused and len(refused) == len(sources):
        raise refused[0]

    # Copies whose lesson has another name now, or is gone.
    for name in sorted(before.keys() - sources.keys()):
        is_odd = _is_odd(folder, name)
        try:
            if is_odd or _is_removed(folder / name, before[name]):
                del made[name]
        except OSError:
            is_odd = True
        if is_odd:
            left.append(name)

    # The record.
    try:
        if _is_odd(folder, RECORD):
            left.append(RECORD)
        elif made != before:
            write_text(folder / RECORD, json.dumps(made, indent=1) + "\n")
    except OSError:
        left.append(RECORD)
    return left


def _is_odd(folder: Path, name: str) -> bool:
    """Whether a name is none of ours, or leads to what is no plain file within the folder."""
    copy = folder / name
    if name != RECORD and not COPY.fullmatch(name):
        return True
    if os.path.islink(copy) or (copy.parent != folder and os.path.islink(copy.parent)):
        return True
    return os.path.lexists(copy) and not os.path.isfile(copy)


def _renewed(copy: Path, source: Path, was: Made | None) -> Made | None:
    """Bring one copy up to date. Returns what the record says of it; None where it is left."""
    now = _made(source)
    mine = _made(copy) if os.path.lexists(copy) else None
    is_untouched = mine and was and mine.file == was.file
    if mine and not is_untouched and mine.written == now.written:
        return now  # only run, and its outputs stay as long as the lesson does
    if mine is None or _is_unwritten(mine, was):
        if mine is None or mine.file != now.file:
            write_atomically(copy, functools.partial(shutil.copyfile, source))
        return now
    is_newer = was is None or was.written != now.written
    return None if is_newer or not readable(copy) else was


def _is_removed(copy: Path, was: Made) -> bool:
    """Remove a copy in which nobody has written; whether it is gone."""
    if os.path.lexists(copy):
        if not _is_unwritten(_made(copy), was):
            return False
        copy.unlink()
    return True


def why(folder: Path, name: str) -> str:
    """What `renew` has left, and what to do, as a sentence."""
    again = "and stays as it is: for a fresh one, rename it and start again."
    if name != RECORD and not COPY.fullmatch(name):
        return f"{name!r} in {RECORD} is no lesson of ours: what is there is left alone."
    if _is_odd(folder, name):
        return f"{name} is a link, or a folder, or no file at all, {again}"
    try:
        mine = _made(folder / name)
        if not readable(folder / name):
            return f"{name} can't be read as a notebook, {again}"
        if name != RECORD and not _is_unwritten(mine, _record(folder).get(name)):
            newer = "is newer in the course; yours stays, and what it calls may be gone"
            both = f"{name} {newer}: to have both, rename yours and start again."
            moved = [
                f"`{exercise}` is in {there} now." for exercise, there in _moved(folder / name)
            ]
            return " ".join([both, *moved])
    except (FileNotFoundError, NotADirectoryError):  # said below
        pass
    except OSError as error:
        return f"{name} can't be read ({error.strerror}), {again}"
    return f"{name} could not be written: is {folder} full, or can it only be read?"


def _moved(copy: Path) -> Iterator[tuple[str, str]]:
    """The exercises of a copy that another lesson has now, with that lesson's number."""
    with contextlib.suppress(ValueError):  # it is no lesson
        mine = saved_notebook.read(copy)
        for exercise in mine.exercises:
            there = _lesson_of_each().get(exercise, mine.lesson)
            if there != mine.lesson:
                yield exercise, there


@functools.cache
def _lesson_of_each() -> dict[str, str]:
    """The number of the lesson that has each exercise, by the exercise's name."""
    lessons = saved_notebook.read_all(NOTEBOOKS)
    return {exercise: lesson.lesson for lesson in lessons for exercise in lesson.exercises}


def _is_unwritten(mine: Made, was: Made | None) -> bool:
    """Whether a copy holds what it held when it was made, so that nothing is lost with it."""
    return was is not None and (mine.file == was.file or mine.written == was.written)


def readable(copy: Path) -> bool:
    """Whether JupyterLab can open a copy: a full disk, or a merge by git, may have broken it."""
    mine = _made(copy)
    return copy.suffix != ".ipynb" or mine.file != mine.written


def _made(notebook: Path) -> Made:
    content = notebook.read_bytes()
    file = hashlib.sha256(content).hexdigest()
    try:
        cells = json.loads(content)["cells"]
        written = [
            [cell["cell_type"], "".join(cell["source"]), cell.get("attachments")] for cell in cells
        ]
    except (LookupError, RecursionError, TypeError, ValueError):  # no notebook: all may be meant
        return Made(file, file)
    return Made(file, hashlib.sha256(json.dumps(written).encode()).hexdigest())


def _record(folder: Path) -> dict[str, Made]:
    """What is known of the copies in a folder; nothing where the record is no good."""
    known = {}
    with contextlib.suppress(OSError):
        for name, made in entries(folder / RECORD).items():
            with contextlib.suppress(TypeError, ValueError):
                file, written = made
                known[name] = Made(file, written)
    return known
