"""Ours: solution, hints and stub of each exercise, read from the solutions notebooks, where alone they stand."""

import ast
import functools
import json
import linecache
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from course_utils._files import SOLUTIONS

BLANK = "your code here"  # what the stub's NotImplementedError says
EXERCISE = re.compile(r"^### Exercise \d+ · `(\w+)`", re.MULTILINE)
HINT = re.compile(r"<details><summary>Hint \d+</summary>\s*(.*?)\s*</details>", re.DOTALL)
ANSWER = re.compile(r"^( *)### BEGIN SOLUTION\n.*?### END SOLUTION", re.MULTILINE | re.DOTALL)


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
        lines = ast.get_source_segment(self.cell, _functions(self.cell)[self.name]) or ""
        return "\n".join(line for line in lines.splitlines() if "### BEGIN" not in line and "### END" not in line)

    @property
    def stub(self) -> str:
        """The exercise's code cell as the learner first saw it."""
        return ANSWER.sub(rf'\1raise NotImplementedError("{BLANK}")', self.cell)

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """Our function, made in a namespace of its own that holds the notebook's imports."""
        file, source = f"<our {self.name}>", f"{self.imports}\n\n\n{self.solution}\n"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
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
        raise LookupError(f"The solutions in {SOLUTIONS} do not hold the exercise {name}.") from None


@functools.cache
def _all() -> dict[str, Ours]:
    found = {}
    for path in sorted(SOLUTIONS.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        imports = "\n".join(line for source in code for line in _imports(source))
        _, *parts = EXERCISE.split(text)  # name, text, name, text, …
        hints = {name: tuple(HINT.findall(part)) for name, part in zip(parts[::2], parts[1::2], strict=True)}
        for source in code:
            for name in _functions(source) if ANSWER.search(source) else ():
                found[name] = Ours(name, source, imports, hints.get(name, ()))
    return found


def _imports(source: str) -> Iterator[str]:
    for node in _parsed(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.unparse(node)


def _functions(source: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in _parsed(source).body if isinstance(node, ast.FunctionDef)}


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:  # a cell with a line for IPython
        return ast.Module(body=[], type_ignores=[])
