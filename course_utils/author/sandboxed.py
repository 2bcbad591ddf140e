"""The process in which `grade` lets learners' code run: no file of value can be read, none written, no network.

It takes one function out of the submitted cells and answers calls of it. The checks do not run here, and the lessons'
solutions and checks, which know the right answers, can't be loaded here.
"""

import ast
import ctypes
import importlib
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import course_utils
from course_utils._files import DATA, NOTEBOOKS, PACKAGE

checks = types.ModuleType("course_utils.check")  # the package without its lessons: __init__.py would bring them all
checks.__path__ = [str(PACKAGE / "check")]
sys.modules["course_utils.check"] = course_utils.check = checks

import torch  # noqa: E402

from course_utils.author.wire import Connection, Peer  # noqa: E402
from course_utils.course.guard import Guarded, global_names  # noqa: E402
from course_utils.course.questions import Wrong  # noqa: E402

for _module in course_utils._MODULES:  # what lessons import: loaded once, before anything is locked
    importlib.import_module(f"course_utils.{_module}")

READ = (sys.prefix, sys.base_prefix, sys.exec_prefix, *filter(os.path.isabs, sys.path), "/dev/urandom")
PRIVATE = (NOTEBOOKS, PACKAGE / "check", PACKAGE.parent / "notebooks", PACKAGE.parent / "tests")
HARMLESS = {
    "array.__new__",
    "builtins.id",
    "code.__new__",
    "compile",
    "exec",
    "function.__new__",
    "import",
    "marshal.load",
    "marshal.loads",
    "object.__delattr__",
    "object.__getattr__",
    "object.__setattr__",
    "os.listdir",
    "os.scandir",
    "sys._getframe",
    "sys._getframemodulename",
    "sys.excepthook",
    "sys.unraisablehook",
    "_thread.start_new_thread",
    "_thread.start_joinable_thread",
    "time.sleep",
}


def serve(connection: Connection, empty: str, memory: float) -> None:
    """Lock this process in an empty folder, with so many GiB, and answer calls until the other end closes."""
    torch.set_num_threads(1)
    os.chdir(empty)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    peer = Peer(connection, trusts=True)
    peer.offered.append(_taken_out)
    _limit(memory)
    _lock()
    connection.send_bytes(b"ready")
    try:
        peer.serve()
    except (EOFError, OSError):
        os._exit(0)


def _limit(gibibytes: float) -> None:
    """What the system itself holds a process to, where it can: memory, and no file made longer than nothing."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows; there the other end alone watches the memory
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        most = pages * resource.getpagesize() + int(gibibytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _lock() -> None:
    """From now on, and for good: Python reads libraries and our models, and refuses every other way out."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc  # noqa: B018 – loaded now: the guard's clock needs it
    read = tuple(os.path.realpath(place) for place in (*READ, str(PACKAGE), str(DATA)))
    private = tuple(os.path.realpath(place) for place in PRIVATE)
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    realpath, fspath, within = os.path.realpath, os.fspath, _within

    def allows(event: str, args: tuple) -> bool:
        if event != "open":
            return event in HARMLESS
        path, mode, flags = args
        if isinstance(path, int):
            return True  # it is open already
        if (mode and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & writing):
            return False
        place = realpath(os.fsdecode(fspath(path)))
        return within(place, read) and not within(place, private)

    def refuse(event: str, args: tuple) -> None:
        if not allows(event, args):
            what = f"open {args[0]}" if event == "open" else f"use {event}"
            raise PermissionError(f"no answer may {what} while it is graded")

    sys.addaudithook(refuse)


def _within(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place + os.sep) for place in places)


# --- taking out ---


def _taken_out(cells: list[str], name: str) -> Callable[..., Any] | None:
    """The guarded function of that name; None if the cells do not define it.

    Raises Wrong if the statement that defines it fails.
    """
    statements = [found for number, source in enumerate(cells) for found in _statements(number, source, name)]
    space: dict[str, Any] = {"__name__": "__main__"}
    for file, statement in _needed(statements, name):
        try:
            exec(_compiled((file, statement)), space)
        except Exception as error:
            if name in _bound(statement):
                raise Wrong(f"its cell stops with {type(error).__name__}: {error}") from error
    if name not in space:
        return None
    if not callable(space[name]):
        raise Wrong(f"`{name}` is no function, but {type(space[name]).__name__}.")
    return Guarded(space[name])


Statement = tuple[str, ast.stmt]  # with the name of its file, from which tracebacks quote


def _statements(number: int, source: str, name: str) -> Iterator[Statement]:
    """The statements of a cell, but for lines to IPython, and for calls of a check."""
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines(keepends=True)]
    file = f"<cell {number}>"
    try:
        parsed = ast.parse("".join(lines))
    except SyntaxError as error:
        if f"def {name}(" in source:
            raise Wrong(f"its cell is no Python: {error.msg}, in line {error.lineno}.") from None
        return
    linecache.cache[file] = (len(source), None, lines, file)
    yield from ((file, statement) for statement in parsed.body if not _calls_a_check(statement))


def _compiled(statement: Statement) -> types.CodeType:
    return compile(ast.Module([statement[1]], []), statement[0], "exec")


def _calls_a_check(statement: ast.stmt) -> bool:
    called = getattr(getattr(statement, "value", None), "func", None)
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "check"


def _needed(statements: list[Statement], name: str) -> Iterator[Statement]:
    """The statements that define a name, and what these need, and so on, in the notebook's order."""
    bound = [_bound(statement) for _, statement in statements]
    needed, kept, waiting = {name}, set(), [name]
    while waiting:
        wanted = waiting.pop()
        for place, names in enumerate(bound):
            if place not in kept and names & {wanted, "*"}:
                kept.add(place)
                used = {*global_names(_compiled(statements[place]))} - needed
                needed |= used
                waiting += used
    return (statements[place] for place in sorted(kept))


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, or changes an entry of; "*" for all of a module's."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(getattr(node, "ctx", None), ast.Store):
            while isinstance(node, ast.Subscript | ast.Attribute):
                node = node.value
            names |= {node.id} if isinstance(node, ast.Name) else set()
    return names
