"""What is kept for a learner: small JSON files beside the notebook, entry by entry.

A file that can't be read or written stops no lesson: its entries stay in this kernel, and a
sentence says so.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython import get_ipython

from course_utils._files import entries, write_atomically

HERE = Path.cwd()  # a kernel begins in its notebook's folder
_unwritten: dict[Path, dict[str, Any]] = {}  # by file, what could not be written yet
_told: set[str] = set()


def folder() -> Path:
    """Where the notebook is, whatever `os.chdir` has been called in it."""
    in_notebook = hasattr(get_ipython(), "kernel")
    return HERE if in_notebook else Path.cwd()


def read(name: str, is_entry: Callable[[Any], bool]) -> dict[str, Any]:
    """The entries of a file that have the right form, by name; nothing where there is none."""
    path = folder() / name
    try:
        found = _stored(path)
    except OSError as error:
        _tell(path, "read", error)
        found = {}
    found |= _unwritten.get(path, {})
    return {key: entry for key, entry in found.items() if is_entry(entry)}


def enter(name: str, key: str, entry: Any) -> str:
    """Keep one entry in a file. Returns "", or a sentence that says why it could not be written."""
    path = folder() / name
    new = _unwritten.setdefault(path, {})
    new[key] = entry
    try:
        text = json.dumps(_stored(path) | new, indent=1, ensure_ascii=False, default=str)
        target = path.resolve()  # of a link, what it leads to
        write_atomically(target, lambda temporary: temporary.write_bytes(f"{text}\n".encode()))
    except OSError as error:
        return _tell(path, "written", error)
    del _unwritten[path]
    return ""


def _stored(path: Path) -> dict[str, Any]:
    """What is on the disk; half a sign, which UTF-8 can't write, becomes "?"."""
    text = json.dumps(entries(path), ensure_ascii=False)
    return json.loads(text.encode(errors="replace"))


def _tell(path: Path, done: str, error: OSError) -> str:
    """Say once that a file could not be read or written, and return the sentence."""
    said = (
        f"{path} can't be {done} ({error.strerror or error}): see to that before you restart the "
        "kernel, which alone keeps what belongs there."
    )
    if said not in _told:
        _told.add(said)
        print(said)
    return said
