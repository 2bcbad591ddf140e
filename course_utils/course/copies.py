"""A learner's own copies of the lessons: what is written in one stays, the others are renewed."""

import hashlib
import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

from course_utils._files import INSTALLED, NOTEBOOKS, ROOT, write_atomically, write_text

FOLDER = "my_notebooks"
RECORD = ".copies.json"  # in the folder: what each copy was when it was made
PATTERNS = ("GLOSSARY.md", "[0-9]*.ipynb", "solutions/[0-9]*.ipynb")


class Made(NamedTuple):
    """A notebook as two SHA-256."""

    file: str
    written: str  # of what people write in it: not of outputs, numbers and settings


def places() -> list[Path]:
    """Where `my_notebooks` may be, best first: in the checkout, where we are, at home."""
    return [*([] if INSTALLED else [ROOT]), Path.cwd(), Path.home()]


def workplace() -> Path:
    """The folder for the copies, made in the first place that can be written to.

    Raises PermissionError when there is none.
    """
    for place in places():
        folder = place / FOLDER
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    named = ", ".join(dict.fromkeys(map(str, places())))
    raise PermissionError(
        f"No folder for your notebooks can be made in {named}: name one with --folder."
    )


def renew(folder: Path, lessons: Path = NOTEBOOKS) -> list[str]:
    """Copy lessons, solutions and glossary into a folder; a later call brings what is new.

    A copy in which somebody has written something is left as it is, whatever becomes of its lesson;
    one that was only run counts as unwritten. Returns the names of the copies left although their
    lesson has changed, or although they can't be opened. Raises OSError where the folder can't be
    written to.
    """
    before = _record(folder)
    made = dict(before)
    left = []
    paths = [path for pattern in PATTERNS for path in sorted(lessons.glob(pattern))]
    sources = {path.relative_to(lessons).as_posix(): path for path in paths}
    for name, source in sources.items():
        copy = folder / name
        was = before.get(name)
        mine = _made(copy) if copy.is_file() else None
        now = _made(source)
        is_untouched = mine and was and mine.file == was.file
        if mine and not is_untouched and mine.written == now.written:
            made[name] = now  # only run, and its outputs stay as long as the lesson does
        elif mine is None or _is_unwritten(mine, was):
            if mine is None or mine.file != now.file:
                write_atomically(copy, partial(shutil.copyfile, source))
            made[name] = now
        elif was is None or was.written != now.written or not readable(copy):
            left.append(name)
    for name in before.keys() - sources.keys():  # its lesson has another name now, or is gone
        copy = folder / name
        if not copy.is_file() or _is_unwritten(_made(copy), before[name]):
            copy.unlink(missing_ok=True)
            del made[name]
    if made != before:
        write_text(folder / RECORD, json.dumps(made, indent=1) + "\n")
    return left


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
    except (ValueError, LookupError, TypeError):  # no notebook: everything in it may be meant
        return Made(file, file)
    return Made(file, hashlib.sha256(json.dumps(written).encode()).hexdigest())


def _record(folder: Path) -> dict[str, Made]:
    """What is known of the copies in a folder; nothing where the record is no good."""
    try:
        known = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {name: Made(file, written) for name, (file, written) in known.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
