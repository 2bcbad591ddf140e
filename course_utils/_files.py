"""The course's folders, and the files under `data/`: found, checked against their SHA-256, written
in one step.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# a wheel carries data/ and notebooks/ inside the package, a checkout beside it
INSTALLED = (PACKAGE / "data").is_dir()
ROOT = PACKAGE if INSTALLED else PACKAGE.parent
# the replication puts other models there
DATA = Path(os.environ.get("COURSE_DATA") or ROOT / "data")
NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = NOTEBOOKS / "solutions"
CHECKSUMS = (
    "SHA256SUMS"  # stands in every folder of data/, in the format of the command `sha256sum -c`
)


def solution_file(lesson: str) -> str:
    """The name of a lesson's solution: "03_solution_zero_layers.ipynb" for "03_zero_layers".

    The word comes early because JupyterLab's tabs show some twenty letters, and fewer when many are
    open.
    """
    number, *words = lesson.split("_", 1)
    return "_".join([number, "solution", *words]) + ".ipynb"


def lesson_of(notebook: Path) -> str:
    """The lesson of a solution or a learner's copy: "03_zero_layers" for
    "03_solution_zero_layers.ipynb" too.
    """
    return notebook.stem.replace("_solution", "", 1)


def get_back(name: str) -> str:
    """How to get a file or folder of the course back, as a sentence; `name` as git has it
    ("data/two-layer").
    """
    if INSTALLED:
        return "Install the course again, with pip's option --force-reinstall."
    return f"Get it back, in the course's folder, with: git checkout -- {name}"


def sha256(path: Path) -> str:
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def verified(path: Path) -> Path:
    """`path` itself, once the file is there and has the SHA-256 that the `SHA256SUMS` beside it
    records.

    Raises FileNotFoundError for a missing file and OSError for a damaged one; both say how to get
    it back.
    """
    path = Path(path)
    sums = path.parent / CHECKSUMS
    file = next((f for f in (path, sums) if not f.is_file()), path)
    inside = file.is_relative_to(DATA)
    name = f"data/{file.relative_to(DATA).as_posix()}" if inside else str(file)
    remedy = get_back(name) if inside else "Run the training command for it again."
    if not file.is_file():
        raise FileNotFoundError(f"{name} is missing. {remedy}")
    sums_by_name = dict(
        line.split(maxsplit=1)[::-1] for line in sums.read_text(encoding="utf-8").splitlines()
    )
    if sums_by_name.get(path.name) != sha256(path):
        raise OSError(
            f"{name} is damaged: its SHA-256 is not the one in {CHECKSUMS} beside it. {remedy}"
        )
    return path


def recorded(folder: Path) -> list[str]:
    """The names of the files that the `SHA256SUMS` of a folder records; FileNotFoundError when it
    is missing.
    """
    sums = folder / CHECKSUMS
    if not sums.is_file():
        name = f"data/{sums.relative_to(DATA).as_posix()}"
        raise FileNotFoundError(f"{name} is missing. {get_back(name)}")
    return [line.split(maxsplit=1)[1] for line in sums.read_text(encoding="utf-8").splitlines()]


def write_checksums(folder: Path) -> None:
    """Record the SHA-256 of every file in `folder`, for `verified` to compare with; not of texts
    about it (.md).
    """
    files = [
        f
        for f in folder.iterdir()
        if f.is_file() and f.suffix != ".md" and not f.name.startswith(".")
    ]
    lines = "".join(
        f"{sha256(file)}  {file.name}\n" for file in sorted(files) if file.name != CHECKSUMS
    )
    write_text(folder / CHECKSUMS, lines)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8 with LF, on every system, as `write_atomically` does."""
    write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it there: readers see all of it or
    nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(temporary))
        os.chmod(temporary, 0o644)  # a temporary file starts out private
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
