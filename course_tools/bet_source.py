"""What the code of a cell says of bets, and of names.

Which bets it asks, what it states, which bets that answers; which names it makes and reads.
"""

import ast
import symtable
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager

STATES = {"claim", "identity"}
# What keeps a lesson's books, and is no part of what it computes.
BOOKKEEPING = STATES | {"predict", "siblings", "sources_and_ours", "calibration"}


@dataclass(frozen=True)
class Statement:
    """A claim or an identity."""

    text: str  # "" where it is put together while it runs
    bet: str  # the name of the bet that it answers, or ""


@dataclass(frozen=True)
class BetSource:
    """What one cell says, in its order."""

    asked: list[str]  # the names of its bets
    statements: list[Statement]
    called: set[str]  # what it calls of BOOKKEEPING

    @property
    def keeps_books(self) -> bool:
        """Whether it calls anything of BOOKKEEPING."""
        return bool(self.called)

    @property
    def answered(self) -> list[str]:
        """The names of the bets that its statements answer."""
        return [statement.bet for statement in self.statements if statement.bet]


def read(source: str) -> BetSource:
    """What a cell's source says; nothing where it is no code."""
    asked: list[str] = []
    statements: list[Statement] = []
    calls = [call for call in _calls(source) if _name(call.func) in BOOKKEEPING]
    for call in calls:
        first = _text(call.args[0]) if call.args else ""
        if _name(call.func) == "predict" and first:
            asked.append(first)
        elif _name(call.func) in STATES:
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            statements.append(Statement(first, _text(keywords.get("predicted"))))
    return BetSource(asked, statements, {_name(call.func) for call in calls})


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell's code gives to the notebook, and those that it reads of it."""
    try:
        table = symtable.symtable(_as_python(source), "cell", "exec")
    except SyntaxError:
        return set(), set()
    made = {found.get_name() for found in table.get_symbols() if found.is_assigned()}
    made |= {found.get_name() for found in table.get_symbols() if found.is_imported()}
    used = {found.get_name() for found in table.get_symbols() if found.is_referenced()}
    inner = table.get_children()
    while inner:  # functions and comprehensions, and what stands in them
        scope = inner.pop()
        inner += scope.get_children()
        used |= {found.get_name() for found in scope.get_symbols() if found.is_global()}
    return made, used


def _calls(source: str) -> list[ast.Call]:
    """All calls, as they stand one below the other."""
    tree = _parsed(_as_python(source))
    if tree is None:
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _as_python(source: str) -> str:
    """A cell's source, with IPython's own lines made Python."""
    return source if _parsed(source) else TransformerManager().transform_cell(source)


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except SyntaxError:
        return None


def _name(function: ast.expr) -> str:
    """The last part of a function's name: "claim" of `claim` and of `claims.claim`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(node: ast.expr | None) -> str:
    """A string as it stands in the code, or ""; an f-string has none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""
