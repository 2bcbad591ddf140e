"""The course's folders, and the files under `data/`, which are checked whenever they are read."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent
# a wheel carries data/, docs/ and notebooks/ inside the package, a checkout beside it
INSTALLED = (PACKAGE / "data").is_dir()
ROOT = PACKAGE if INSTALLED else PACKAGE.parent
# the replication puts other models there
DATA = Path(os.environ.get("COURSE_DATA") or ROOT / "data")
NOTEBOOKS = ROOT / "notebooks"
DOCS = ROOT / "docs"
SOLUTIONS = NOTEBOOKS / "solutions"
# stands in every folder of data/, in the format of the command `sha256sum -c`
CHECKSUMS = "SHA256SUMS"


def solution_file(lesson: str) -> str:
    """The name of a lesson's solution: "03_solution_zero_layers.ipynb" for "03_zero_layers".

    The word comes early because JupyterLab's tabs show some twenty letters, and fewer when many are
    open.
    """
    number, *words = lesson.split("_", 1)
    return "_".join([number, "solution", *words]) + ".ipynb"


def lesson_of(notebook: Path) -> str:
    """The lesson of a notebook: "03_zero_layers", of its solution and of a learner's copy."""
    return notebook.stem.replace("_solution", "", 1)


def number_of(lesson: str) -> str:
    """The number of a lesson, "02b" of "02b_algebra" or of its notebook's name."""
    return lesson.split("_")[0]


def get_back(name: str) -> str:
    """How to get a file or folder back, as a sentence; git's name for it is "data/two-layer"."""
    if INSTALLED:
        return "Install the course again, with pip's option --force-reinstall."
    return f"Get it back, in the course's folder, with: git checkout -- {name}"


def sha256(path: Path) -> str:
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def verified(path: Path) -> Path:
    """`path` itself, once the file is there and is what the `SHA256SUMS` beside it records.

    Raises FileNotFoundError for a missing file and OSError for a damaged one; both say how to get
    it back.
    """
    path = Path(path)
    sums = path.parent / CHECKSUMS
    for file in (path, sums):
        if not file.is_file():
            raise FileNotFoundError(_with_remedy(file, "is missing."))
    if _recorded(sums).get(path.name) != sha256(path):
        fault = f"is damaged: its SHA-256 is not the one in {CHECKSUMS} beside it."
        raise OSError(_with_remedy(path, fault))
    return path


def _with_remedy(file: Path, fault: str) -> str:
    if not file.is_relative_to(DATA):
        return f"{file} {fault} Run the training command for it again."
    name = f"data/{file.relative_to(DATA).as_posix()}"
    return f"{name} {fault} {get_back(name)}"


def recorded(folder: Path) -> list[str]:
    """The names of the files that the `SHA256SUMS` of a folder records.

    Raises FileNotFoundError when it is missing.
    """
    sums = folder / CHECKSUMS
    if not sums.is_file():
        raise FileNotFoundError(_with_remedy(sums, "is missing."))
    return list(_recorded(sums))


def _recorded(sums: Path) -> dict[str, str]:
    """What such a file says: {name: SHA-256}."""
    digests = {}
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, name = line.split(maxsplit=1)
        digests[name] = digest
    return digests


def write_checksums(folder: Path) -> None:
    """Record the SHA-256 of every file in `folder`, for `verified` to compare with.

    Texts about the folder (.md) are left out.
    """
    lines = []
    for file in sorted(folder.iterdir()):
        is_ours = file.is_file() and not file.name.startswith(".")
        if is_ours and file.suffix != ".md" and file.name != CHECKSUMS:
            lines.append(f"{sha256(file)}  {file.name}\n")
    write_text(folder / CHECKSUMS, "".join(lines))


def entries(path: Path) -> dict[str, Any]:
    """What a JSON file of named entries holds; nothing where there is no file.

    A damaged file is set aside, and a sentence names it. Raises OSError for what can't be read.
    """
    if not os.path.lexists(path):
        return {}
    if not path.is_file():
        fault = "it is no file, or a link to one that is away"
        raise FileNotFoundError(errno.ENOENT, fault, str(path))
    try:
        found = json.loads(path.read_bytes())
    except (MemoryError, RecursionError, ValueError):
        found = None
    if isinstance(found, dict):
        return found
    aside = set_aside(path)
    print(f"{path} is damaged. It is kept beside it, as {aside.name}, and a new one begins.")
    return {}


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Rename a file to `name.damaged.json` or, if that is taken, `name.damaged-2.json` …"""
    number = 1
    aside = path.with_name(f"{path.stem}.{why}{path.suffix}")
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.stem}.{why}-{number}{path.suffix}")
    return path.rename(aside)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8 with LF, on every system, as `write_atomically` does."""
    write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, move it to `path`: readers see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A killed process may have left one; a younger one may be somebody's who writes now.
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > 3600:
                left.unlink()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(temporary))
        os.chmod(temporary, 0o644)  # a temporary file starts out private
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
