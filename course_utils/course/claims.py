"""What a lesson states: `claim` (true of the trained model) and `identity` (true of any weights).

The expected values stand in one table per lesson, `claims.json` in the lesson's folder, and not in
the cells: a reader meets no answer before the question. An entry is named by its statement and says
what must come out:

    "order rate without positions": {"value": 0.97, "tolerance": 0.01, "control": "untrained: 0.5"}

`value` with `tolerance` for numbers (also lists and dictionaries of them), `value` alone for what
must be equal, and `least` and `most` for bounds. `source` is what a source says of it, `control`
what could have refuted it: untrained weights, unless it says something else. `always` gives the
reason why a statement holds on untrained weights too, `because` two sentences for whoever bet on
it, and `kind` how siblings' numbers are compared (see `course_tools.replicate`).

The environment variable COURSE_CLAIMS decides what becomes of a statement that does not hold:
nothing set, the line says what we measured; "strict", as CI and authors have it, ClaimFailed;
"record:FILE", one line of JSON for every statement is added to FILE and nothing is raised, which is
how untrained weights and other seeds are asked.
"""

import functools
import json
import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import torch
from IPython import get_ipython
from IPython.display import Markdown, display
from torch import Tensor

from course_utils import _words
from course_utils._arguments import validated
from course_utils.course import bets, registry
from course_utils.course.bets import calibration as calibration  # lessons import it from here
from course_utils.course.values import MODE, shown

# How the lines begin; tests/nbval_sanitize.cfg knows the first.
CLAIM, IDENTITY, FALSE = "▪", "≡", "✗"
Number = Tensor | float | None  # None where none is given
# What the table of a cell is made of.
LEFT = ' style="text-align: left"'
WIDE = '<td colspan="3"{0}>{1}</td>'
CELLS = "<td{0}>{1}</td><td{0}><b>{2}</b></td><td{0}>{3}</td>"


class ClaimFailed(AssertionError):
    """A statement does not hold; the message says what was expected and what came out."""


def expectations() -> dict[str, dict]:
    """What the statements of all registered lessons expect, by statement."""
    found: dict[str, dict] = {}
    for lesson in sorted(registry.folders):
        found |= table(lesson)
    return found


@functools.cache
@validated
def table(lesson: str) -> dict[str, dict]:
    """What one lesson's statements expect ("05_max_of_list"); see `registry`.

    Raises LookupError for a lesson that is not registered.
    """
    if lesson not in registry.folders:
        raise LookupError(f"There is no lesson {lesson!r}: was its package imported?")
    file = registry.folders[lesson] / "claims.json"
    return json.loads(file.read_text(encoding="utf-8"))


@validated
def claim(
    statement: str,
    value: Any,
    unit: str = "",
    predicted: str = "",
    *,
    se: Number = None,
    bet_on: Any = None,
) -> None:
    """Tell a measured value in the cell's table, and hold it to what the lesson's table expects.

    `value` is a number, a truth value, a string, or a tensor, list or dictionary of them; `unit`
    "%" shows a share as per cent, `se` is its standard error (see `measure.difference`).
    `predicted` names the `predict` that asked for it: your bet stands beside the truth. Where the
    value is several, `bet_on` is the one that was asked for. Raises ClaimFailed where claims are
    strict (see above).
    """
    value = _plain(value)
    entry = expectations().get(statement, {})
    expected = _expected(entry, unit) if entry else None
    holds = bool(entry) and _holds(value, entry)

    # What the row says: the value, how a bet on it fared, and ours if it came out otherwise, as it
    # may with another model or a learner's answer.
    told = shown(value, unit, entry) if se is None else _with_error(value, float(se), unit)
    bet = ""
    if predicted:
        truth = value if bet_on is None else _plain(bet_on)
        bet = bets.answered(predicted, truth, unit, entry.get("because", ""))
    note = ""
    if entry and not holds and not os.environ.get(MODE):
        note = f"(the course's own notebook: {expected})"
    _tell(Row(CLAIM, statement, told, bet, note))
    _judge("claim", statement, value, holds, expected)


def _with_error(value: Any, se: float, unit: str) -> str:
    """A value ± its standard error: two digits of the error, and as many of the value."""
    second = math.floor(math.log10(max(se, 1e-9))) - 1  # where the second digit stands
    digits = {"tolerance": 10**second}
    number = shown(value, unit, digits).removesuffix(f" {unit}")
    return f"{number} ± {shown(se, unit, digits)}"


@validated
def identity(
    statement: str, left: Any, right: Any = True, *, within: float = 1e-4, control: Number = None
) -> None:
    """Print that two sides are equal for any weights, and hold them to it.

    No entry may differ by more than `within`; with one side only, it must be true. `control` is a
    version of the left side that leaves something out: it must differ from the right side. Raises
    ClaimFailed where claims are strict (see above).
    """
    apart = _distance(left, right)
    holds = apart <= within
    text = statement if isinstance(right, bool) else f"{statement} (to {within:g})"
    if control is not None:
        differs = _distance(control, right) > within
        holds = holds and differs
        text += f"; the control: {'differs' if differs else 'does not differ'}"
    _tell(Row(IDENTITY, text) if holds else Row(FALSE, statement))
    expected = f"at most {within:g} apart, and the control further"
    _judge("identity", statement, apart, holds, expected)


def _judge(kind: str, statement: str, value: Any, holds: bool, expected: str | None) -> None:
    """What becomes of a statement, as COURSE_CLAIMS says."""
    mode = os.environ.get(MODE, "")
    if mode.startswith("record:"):
        record = {"kind": kind, "statement": statement, "value": value, "holds": holds}
        with open(mode.removeprefix("record:"), "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    elif mode == "strict" and not holds:
        if expected is None:
            raise ClaimFailed(f"No lesson's claims.json has {statement!r}; measured: {value!r}.")
        raise ClaimFailed(f"{statement}: expected {expected}; measured: {value!r}.")


class Row(NamedTuple):
    """What one statement says in the table of its cell."""

    sign: str
    what: str
    value: str = ""
    bet: str = ""
    note: str = ""

    def __str__(self) -> str:
        told = f"{self.sign} {self.what}"
        if self.value:
            told += f": {self.value}"
        return "\n  ".join(filter(None, [told, self.bet, self.note]))


_rows: list[Row] = []  # of the cell that runs now


def _tell(row: Row) -> None:
    """Keep a row for the table below the cell; where no notebook runs, print it."""
    shell = get_ipython()
    if shell is None:
        print(row)
        return
    _rows.append(row)
    shell.events.register("post_run_cell", _show_rows)  # the same function is registered once


def _show_rows(_: Any) -> None:
    """One quiet table of what the cell said: identities in a line, then a row for each claim."""
    rows = _rows.copy()
    _rows.clear()
    if not rows:
        return
    lines = []
    same = "; ".join(row.what for row in rows if row.sign == IDENTITY)
    if same:
        lines.append(WIDE.format(LEFT, f"{IDENTITY} {escape(same)}"))
    for row in rows:
        if row.sign == IDENTITY:
            continue
        what = escape(f"{row.sign} {row.what}")
        beside = escape(" ".join(filter(None, [row.bet, row.note])))
        lines.append(CELLS.format(LEFT, what, escape(row.value), beside))
    html = "".join(f"<tr>{line}</tr>" for line in lines)
    text = "\n".join(map(str, rows))
    display({"text/plain": text, "text/html": f"<table>{html}</table>"}, raw=True)


def _plain(value: Any) -> Any:
    """Tensors, arrays and numpy's numbers as Python's own, and keys as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _holds(value: Any, entry: Mapping) -> bool:
    """Whether a plain value is what an entry of a table expects."""
    if "value" in entry:
        return _near(value, entry["value"], entry.get("tolerance"))
    if isinstance(value, dict | list):
        items = _by_key(value).values()
        return bool(items) and all(_holds(item, entry) for item in items)
    least = entry.get("least", -math.inf)
    most = entry.get("most", math.inf)
    return least <= value <= most  # what is not a number is neither


def _near(value: Any, expected: Any, tolerance: Any) -> bool:
    """Whether a plain value is what is expected, number by number."""
    if isinstance(expected, dict | list):
        if type(value) is not type(expected):
            return False
        values = _by_key(value)
        wanted = _by_key(expected)
        each = dict.fromkeys(wanted, tolerance)
        if isinstance(tolerance, dict | list):
            each = _by_key(tolerance)
        same_keys = values.keys() == wanted.keys()
        return same_keys and all(_near(values[k], wanted[k], each[k]) for k in wanted)
    are_numbers = {type(value), type(expected)} <= {int, float}
    if tolerance is None or not are_numbers:
        return type(value) is type(expected) and value == expected
    return abs(value - expected) <= tolerance


def _by_key(items: dict | list) -> dict:
    """The items of a dictionary or a list, by key or by place."""
    return items if isinstance(items, dict) else dict(enumerate(items))


def _distance(left: Any, right: Any) -> float:
    """The largest difference of two numbers; 0 or infinity for anything else.

    Raises ValueError where there is nothing to compare.
    """
    shapes = [[*side.shape] for side in (left, right) if isinstance(side, Tensor)]
    for shape in shapes:
        if 0 in shape:
            raise ValueError(f"There is nothing to compare in a tensor of shape {shape}.")
    if isinstance(left, Tensor | float) and isinstance(right, Tensor | float):
        try:
            torch.broadcast_shapes(*shapes)
        except RuntimeError:
            sides = " and ".join(map(str, shapes))
            raise ValueError(f"Tensors of shapes {sides} can't be equal.") from None
        difference = torch.as_tensor(left).double() - torch.as_tensor(right).double()
        return difference.abs().max().nan_to_num(math.inf).item()
    return 0.0 if _plain(left) == _plain(right) else math.inf


def _expected(entry: Mapping, unit: str = "") -> str:
    """An entry of a table in words."""
    if "value" in entry:
        return shown(entry["value"], unit, entry)
    bounds = [bound for bound in ("least", "most") if bound in entry]
    return " and ".join(f"at {bound} {shown(entry[bound], unit)}" for bound in bounds)


@validated
def sources_and_ours(lesson: str) -> Any:
    """What a lesson's sources say ("05_max_of_list") beside what we measured, as a table."""
    rows = []
    for statement, entry in table(lesson).items():
        if "source" in entry:
            ours = _expected(entry, entry.get("unit", ""))
            rows.append((statement, entry["source"], ours))
    return Markdown(_words.table(["", "the source", "our model"], rows))
