"""The package as a whole: its names, its layers, its source, and the files that come with it."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import course_utils
from course_utils import _files

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "course_utils"
DATA_FILES = sorted(
    file
    for file in _files.DATA.rglob("*")
    if file.is_file() and not {"__pycache__", ".DS_Store"} & set(file.parts)
)


def _python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'torch', 'transformer_lens', 'transformers', 'matplotlib', 'numpy', 'nbformat'}"
    assert (
        _python(f"import sys, course_utils; print(sorted({heavy} & set(sys.modules)))").strip()
        == "[]"
    )


def test_every_public_name_resolves():
    """What lessons ask for by name: the ground floor, and some of the rooms above it."""
    ground = {file.stem for file in PACKAGE.glob("*.py") if not file.stem.startswith("_")}
    assert ground <= set(course_utils.__all__) <= set(dir(course_utils))
    for name in course_utils.__all__:
        assert getattr(course_utils, name) is not None
    assert (
        course_utils.load is course_utils.models.load
        and course_utils.claim is course_utils.claims.claim
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"course_utils.*no attribute 'modles'"):
        course_utils.modles  # noqa: B018
    with pytest.raises(ImportError):
        from course_utils import modles  # noqa: F401


def test_imports_go_one_way():
    """The layers stand in pyproject.toml."""
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_data_fits_its_budget():
    assert sum(file.stat().st_size for file in DATA_FILES) <= 60e6


def test_data_files_are_intact_and_no_pickles():
    for file in DATA_FILES:
        if file.name != _files.CHECKSUMS and file.suffix != ".md":
            assert _files.verified(file) == file
        with open(file, "rb") as stream:
            opening = stream.read(9)
        if (
            file.suffix == ".safetensors"
        ):  # the length of the header, whose first byte can be any, then the header
            assert opening[8:] == b"{", file
        else:
            assert opening[:1] != b"\x80", file  # how a pickle opens
        if zipfile.is_zipfile(file):  # numpy's archives, and torch's, in which a pickle sits
            assert file.suffix == ".npz"
            with np.load(file, allow_pickle=False) as arrays:
                assert all(isinstance(array, np.ndarray) for array in arrays.values()), file


def test_checksums_name_files_that_exist():
    for sums in (file for file in DATA_FILES if file.name == _files.CHECKSUMS):
        listed = [line.split()[1] for line in sums.read_text(encoding="utf-8").splitlines()]
        assert listed and all((sums.parent / name).is_file() for name in listed), sums


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]])
def test_ruff_is_clean(command):
    ruff = [sys.executable, "-m", "ruff", *command, "--no-cache"]  # the checkout may be read-only
    done = subprocess.run([*ruff, str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types_are_right():
    cache = [] if os.access(ROOT, os.W_OK) else ["--cache-dir", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *cache], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


SOURCES = {
    file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(PACKAGE.rglob("*.py"))
}


def _functions(node: ast.AST) -> list[ast.FunctionDef]:
    return [inside for inside in ast.walk(node) if isinstance(inside, ast.FunctionDef)]


def test_no_function_is_longer_than_50_lines():
    """A function inside another one counts for itself."""
    for file, tree in SOURCES.items():
        for function in _functions(tree):
            inside = {
                n for f in _functions(function)[1:] for n in range(f.lineno, f.end_lineno + 1)
            }
            assert function.end_lineno - function.lineno + 1 - len(inside) <= 50, (
                f"{file}: {function.name}"
            )


def test_no_local_hides_a_public_function():
    """In a module that has, or imports from the package, a function `scores`, nothing else is
    called `scores`.
    """
    for file, tree in SOURCES.items():
        ours = {
            n.name
            for n in tree.body
            if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")
        }
        imports = [
            n
            for n in tree.body
            if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("course_utils")
        ]
        ours |= {alias.asname or alias.name for node in imports for alias in node.names}
        functions = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)
        ]
        inside = [node for function in functions for node in ast.walk(function)]
        names = {
            node.id
            for node in inside
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        if file.name not in (
            "gpt.py",
            "checks.py",
        ):  # where arguments have the names that lessons give them
            names |= {node.arg for node in inside if isinstance(node, ast.arg)}
        assert not names & ours, file
