"""A learner's own copies of the lessons: what is written in one stays, and the others are renewed."""

import hashlib
import json
import os
import shutil
from functools import partial
from pathlib import Path

from course_utils._files import INSTALLED, NOTEBOOKS, ROOT, sha256, write_atomically, write_text

FOLDER = "my_notebooks"
# in the folder: for each copy, the SHA-256 of its file and of what is written in it, when made
RECORD = ".copies.json"
Made = tuple[str, str]


def places() -> list[Path]:
    """Where `my_notebooks` may be, best first: in the checkout, in the current directory, at home."""
    return [*([] if INSTALLED else [ROOT]), Path.cwd(), Path.home()]


def workplace() -> Path:
    """The folder for the copies, made where it is missing: `my_notebooks` in the first place that
    can be written to.

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
    """Copy the lessons, their solutions and the glossary into a folder; a later call brings what is
    new.

    A copy in which somebody has written something is left as it is, whatever becomes of its lesson;
    one that was only run counts as unwritten. Returns the names of the copies left although their
    lesson has changed, or although they can't be opened. Raises OSError where the folder can't be
    written to.
    """
    before = _record(folder)
    made, left = dict(before), []
    patterns = ("GLOSSARY.md", "[0-9]*.ipynb", "solutions/[0-9]*.ipynb")
    sources = [source for pattern in patterns for source in sorted(lessons.glob(pattern))]
    names = [source.relative_to(lessons).as_posix() for source in sources]
    for name, source in zip(names, sources, strict=True):
        copy, was, now = folder / name, before.get(name), _made(source)
        is_only_run = (
            was is not None
            and copy.is_file()
            and sha256(copy) != was[0]
            and _made(copy)[1] == now[1]
        )
        if _unwritten(copy, was) and not is_only_run:
            if not copy.is_file() or sha256(copy) != now[0]:
                write_atomically(copy, partial(shutil.copyfile, source))
            made[name] = now
        elif (mine := _made(copy))[1] == now[1]:
            made[name] = now
        elif was is None or was[1] != now[1] or not readable(copy, mine):
            left.append(name)
    for name in before.keys() - {*names}:  # its lesson has another name now, or is gone
        if _unwritten(folder / name, before[name]):
            (folder / name).unlink(missing_ok=True)
            del made[name]
    if made != before:
        write_text(folder / RECORD, json.dumps(made, indent=1) + "\n")
    return left


def _unwritten(copy: Path, was: Made | None) -> bool:
    """Whether nothing is lost with a copy: it is not there, or holds what it held when it was made."""
    return not copy.is_file() or (
        was is not None and (sha256(copy) == was[0] or _made(copy)[1] == was[1])
    )


def readable(copy: Path, known: Made | None = None) -> bool:
    """Whether JupyterLab can open a copy: a full disk, or a merge by git, leaves a notebook that is
    none.
    """
    whole, written = known or _made(copy)
    return copy.suffix != ".ipynb" or whole != written


def _made(notebook: Path) -> Made:
    """The SHA-256 of a notebook's file, and of what people write in it: not of outputs, numbers and
    settings.
    """
    content = notebook.read_bytes()
    whole = hashlib.sha256(content).hexdigest()
    try:
        cells = json.loads(content)["cells"]
        written = [
            [cell["cell_type"], "".join(cell["source"]), cell.get("attachments")] for cell in cells
        ]
    except (ValueError, LookupError, TypeError):  # no notebook: everything in it may be meant
        return whole, whole
    return whole, hashlib.sha256(json.dumps(written).encode()).hexdigest()


def _record(folder: Path) -> dict[str, Made]:
    """What is known of the copies in a folder; nothing where the record is missing or can't be
    read.
    """
    try:
        known = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {name: (whole, written) for name, (whole, written) in known.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
