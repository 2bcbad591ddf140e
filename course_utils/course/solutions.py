"""Ours: solution, hints and blank of each exercise, read from the solutions notebooks."""

import ast
import functools
import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_utils._files import SOLUTIONS
from course_utils.course import saved_notebook


@dataclass(frozen=True)
class Ours:
    """What the solutions notebook holds about one exercise."""

    name: str
    cell: str  # the exercise's code cell
    imports: str  # of its notebook
    hints: tuple[str, ...]

    @property
    def solution(self) -> str:
        """The source of our function, without the markers around the answer."""
        source = ast.get_source_segment(self.cell, _functions(self.cell)[self.name]) or ""
        return re.sub(r"(?m)^.*### (BEGIN|END).*\n", "", source)

    @property
    def stub(self) -> str:
        """The exercise's code cell as the learner first saw it."""
        return saved_notebook.blank(self.cell)

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """Our function, made in a namespace of its own that holds the notebook's imports."""
        file = f"<our {self.name}>"
        source = f"{self.imports}\n\n\n{self.solution}\n"
        lines = source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)  # for tracebacks
        space: dict[str, Any] = {"__name__": file}
        exec(compile(source, file, "exec"), space)
        return space[self.name]


def find(name: str) -> Ours:
    """What the solutions notebooks hold about an exercise.

    Raises LookupError if none of them holds it.
    """
    try:
        return _all()[name]
    except KeyError:
        message = f"The solutions in {SOLUTIONS} do not hold the exercise {name}."
        raise LookupError(message) from None


def answer(name: str) -> Callable[..., Any]:
    """Our function, looked up when it is called."""
    return lambda *given: find(name).function(*given)


@functools.cache
def _all() -> dict[str, Ours]:
    found = {}
    for path in sorted(SOLUTIONS.glob("*.ipynb")):
        notebook = saved_notebook.read(path)
        nodes = [node for source in notebook.code for node in _parsed(source).body]
        imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        header = "\n".join(map(ast.unparse, imports))
        for cell in filter(saved_notebook.ANSWER.search, notebook.code):
            for name in _functions(cell).keys() & notebook.exercises.keys():
                hints = tuple(notebook.exercises[name].hints)
                found[name] = Ours(name, cell, header, hints)
    return found


def _functions(source: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in _parsed(source).body if isinstance(node, ast.FunctionDef)}


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:  # a cell with a line for IPython
        return ast.Module(body=[], type_ignores=[])
