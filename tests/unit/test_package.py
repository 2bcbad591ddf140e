"""The packages as a whole: their names, their source, and the files that come with them."""

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import course_utils
from course_utils import _files

ROOT = Path(__file__).parents[2]
PACKAGES = ("course_utils", "course_microscope", "course_lessons", "course_tools")
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
    files = (ROOT / "course_utils").glob("*.py")
    ground = {file.stem for file in files if not file.stem.startswith("_")}
    ground -= {"lessons"}  # for copies of version 0.3
    assert ground <= set(course_utils.__all__) <= set(dir(course_utils))
    for name in course_utils.__all__:
        assert getattr(course_utils, name) is not None
    assert course_utils.load is course_utils.models.load
    assert course_utils.claim is course_utils.claims.claim


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"course_utils.*no attribute 'modles'"):
        course_utils.modles  # noqa: B018
    with pytest.raises(ImportError):
        from course_utils import modles  # noqa: F401


@pytest.mark.parametrize("tool", ["replicate", "site"])
def test_a_tool_that_reads_all_tables_registers_all_lessons(tool):
    """Asked in a process of its own: in ours, tests/conftest.py has registered them."""
    code = "from course_utils.course import registry; print(*sorted(registry.folders))"
    registered = _python(f"import course_tools.{tool}; {code}").split()
    assert registered == sorted(path.name[1:] for path in (ROOT / "course_lessons").glob("l*_*"))


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


SOURCES = {
    file: ast.parse(file.read_text(encoding="utf-8"))
    for package in PACKAGES
    for file in sorted((ROOT / package).rglob("*.py"))
}


def _module(file: Path) -> str:
    path = file.relative_to(ROOT).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


def _lines(node: ast.AST) -> set[int]:
    return set(range(node.lineno, node.end_lineno + 1))


def _functions(node: ast.AST) -> list[ast.FunctionDef]:
    return [inside for inside in ast.walk(node) if isinstance(inside, ast.FunctionDef)]


# These have been longer since lines have 100 columns; their lessons' next editions mend them.
LONG = {
    "course_lessons.l01_transformer.figures.machine",
    "course_lessons.l03_zero_layers.figures.writing",
    "course_lessons.l05_max_of_list.checks.by_hand",
    "course_lessons.programs.compiled",
}


def test_no_function_has_more_than_50_lines_of_code():
    """A function inside another one counts for itself; words and air do not count."""
    for file, tree in SOURCES.items():
        text = file.read_text(encoding="utf-8").splitlines()
        air = {n for n, line in enumerate(text, 1) if not line.strip() or line.strip()[0] == "#"}
        for function in _functions(tree):
            lines = _lines(function) - air
            if ast.get_docstring(function):
                lines -= _lines(function.body[0])
            for inside in _functions(function)[1:]:
                lines -= _lines(inside)
            name = f"{_module(file)}.{function.name}"
            assert len(lines) <= 50 or name in LONG, name


def test_no_local_hides_a_public_function():
    """Where a module has or imports a function `scores`, nothing else is called `scores`."""
    for file, tree in SOURCES.items():
        ours = set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                ours.add(node.name)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGES):
                ours |= {alias.asname or alias.name for alias in node.names}

        # arguments of `checks` and `gpt` have the names that lessons give them
        may_hide = file.name in ("gpt.py", "checks.py")
        names = set()
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.Lambda):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    names.add(node.id)
                if isinstance(node, ast.arg) and not may_hide:
                    names.add(node.arg)
        assert not names & ours, file


# Who calls what

# Learners do, by hand: `check.hint("direct_path")`.
BY_HAND = {f"course_utils.course.exercises.{name}" for name in ("hint", "solution", "reset")}


def _code(notebook: Path) -> ast.Module:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = "\n".join(code).splitlines()
    return ast.parse("\n".join(line for line in lines if not line.startswith("%")))


def _imports(tree: ast.Module) -> dict[str, str]:
    """What a module's names stand for, {"draw": "course_lessons.l04_one_layer.figures"}."""
    stands_for = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                stands_for[name] = alias.name if alias.asname else name
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                stands_for[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return stands_for


def _dotted(node: ast.AST) -> list[str]:
    """["heads", "patterns"] for `heads.patterns`; nothing for what hangs on no name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return [*before, node.attr]
    return []


def _through(name: str, doors: dict[str, str]) -> list[str]:
    """A name, and what it leads to: the module that another one imports, and so on."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        head = ".".join(parts[:n])
        if doors.get(head, head) != head:
            return [name, *_through(".".join([doors[head], *parts[n:]]), doors)]
    return [name]


def _used(trees: dict[str, ast.Module]) -> set[str]:
    """All that these modules use, as "course_utils.heads.patterns"; what uses itself does not."""
    short = {name: f"{module}.{name}" for name, module in course_utils._SHORT.items()}
    names = course_utils._MODULES | short
    doors = {f"course_utils.{name}": f"course_utils.{where}" for name, where in names.items()}
    doors |= {f"course_utils.{name}": room for name, room in course_utils._ROOMS.items()}
    for module, tree in trees.items():
        doors |= {f"{module}.{name}": where for name, where in _imports(tree).items()}

    used = set()
    for module, tree in trees.items():
        for statement in tree.body:
            for node in ast.walk(statement):
                parts = _dotted(node)
                if parts and parts[0] != getattr(statement, "name", None):
                    used.add(".".join([module, *parts]))
    return {end for name in used for end in _through(name, doors)}


def test_everything_public_is_called():
    """By another function, a lesson, a tool or CI: what only tests call, nobody needs."""
    trees = {_module(file): tree for file, tree in SOURCES.items()}
    for file in (ROOT / "conftest.py", ROOT / "tests" / "benchmark.py"):
        trees[_module(file)] = ast.parse(file.read_text(encoding="utf-8"))
    for notebook in _files.SOLUTIONS.glob("*.ipynb"):
        trees[notebook.stem] = _code(notebook)
    trees["course_utils.control"] = ast.parse("def nobody():\n    return nobody() or len")
    used = _used(trees)

    uncalled = set()
    for module, tree in trees.items():
        for node in tree.body:
            is_thing = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if module.startswith("course_utils") and is_thing and not node.name.startswith("_"):
                uncalled.add(f"{module}.{node.name}")
    assert uncalled - used - BY_HAND == {"course_utils.control.nobody"}
