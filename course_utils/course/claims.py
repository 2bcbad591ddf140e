"""What a lesson states: `claim` (true of the trained model) and `identity` (true of any weights).

The expected values stand in one table per lesson, `claims.json` in the lesson's folder, and not in
the cells: a reader meets no answer before the question. An entry is named by its statement and says
what must come out:

    "order rate without positions": {"value": 0.968, "tolerance": 0.005, "control": "untrained: 0.50"}

`value` with `tolerance` for numbers (also lists and dictionaries of them), `value` alone for what
must be equal, and `least` and `most` for bounds. `source` is what a source says of it, `control`
what could have refuted it: untrained weights, unless it says something else. `always` gives the
reason why a statement holds on untrained weights too, `because` two sentences for whoever bet on
it, and `kind` how siblings' numbers are compared (see `author.replicate`).

The environment variable COURSE_CLAIMS decides what becomes of a statement that does not hold:
nothing set, the line says what we measured; "strict", as CI and authors have it, ClaimFailed;
"record:FILE", one line of JSON for every statement is added to FILE and nothing is raised, which is
how untrained weights and other seeds are asked.
"""

import functools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from IPython import get_ipython
from IPython.display import display
from torch import Tensor

from course_utils import _words
from course_utils._arguments import validated
from course_utils._files import DATA, verified
from course_utils.course import bets, registry
from course_utils.course.bets import calibration as calibration  # lessons import it from here
from course_utils.course.values import MODE, shown

# how the lines begin; tests/nbval_sanitize.cfg knows the first
CLAIM, IDENTITY, FALSE = ("▪", "≡", "✗")
VERDICTS = "holds", "k of n", "ours alone"  # what siblings say of a claim: see author.replicate


class ClaimFailed(AssertionError):
    """A statement of a lesson does not hold; the message says what was expected and what came out."""


def expectations() -> dict[str, dict]:
    """What the statements of all registered lessons expect, by statement."""
    tables = [table(lesson) for lesson in sorted(registry.folders)]
    return {statement: entry for one in tables for statement, entry in one.items()}


@functools.cache
@validated
def table(lesson: str) -> dict[str, dict]:
    """What one lesson's statements expect ("05_max_of_list"); see `registry`.

    Raises LookupError for a lesson that is not registered.
    """
    if lesson not in registry.folders:
        raise LookupError(f"There is no lesson {lesson!r}: was its package imported?")
    return json.loads((registry.folders[lesson] / "claims.json").read_text(encoding="utf-8"))


def claim(
    statement: str,
    value: Any,
    unit: str = "",
    predicted: str = "",
    *,
    se: float | Tensor | None = None,
) -> None:
    """Tell a measured value in the cell's table, and hold it to what the lesson's table expects.

    `value` is a number, a truth value, a string, or a tensor, list or dictionary of them; `unit`
    "%" shows a share as per cent, `se` is its standard error (see `measure.difference`).
    `predicted` names the `predict` that asked for it: your bet stands beside the truth. Raises
    ClaimFailed where claims are strict (see above).
    """
    value, entry = _plain(value), expectations().get(statement)
    holds = entry is not None and _holds(value, entry)
    bet = (
        bets.answered(predicted, value, unit, (entry or {}).get("because", "")) if predicted else ""
    )
    expected = None if entry is None else _expected(entry, unit)
    # another model, or a learner's answer
    apart = not holds and expected is not None and not os.environ.get(MODE)
    note = f"(the course's own notebook: {expected})" if apart else ""
    told = shown(value, unit, entry or {})
    if se is not None:  # two digits of the error, and as many of the value
        digits = {"tolerance": 10 ** (math.floor(math.log10(max(float(se), 1e-9))) - 1)}
        told = (
            f"{shown(value, unit, digits).removesuffix(f' {unit}')} ± "
            f"{shown(float(se), unit, digits)}"
        )
    _tell(Row(CLAIM, statement, told, bet or "", note))
    _judge("claim", statement, value, holds, expected)


@validated
def identity(
    statement: str,
    left: Any,
    right: Any = True,
    *,
    within: float = 1e-4,
    control: Tensor | float | None = None,
) -> None:
    """Print that two sides are equal for any weights, and hold them to it: no entry differs by more
    than `within`.

    With one side only, it must be true. `control` is a version of the left side that leaves
    something out: it must differ from the right side. Raises ClaimFailed where claims are strict
    (see above).
    """
    apart = _distance(left, right)
    holds = apart <= within
    text = statement if isinstance(right, bool) else f"{statement} (to {within:g})"
    if control is not None:
        differs = _distance(control, right)
        holds = holds and differs > within
        text += f"; the control: {'differs' if differs > within else 'does not differ'}"
    _tell(Row(IDENTITY, text) if holds else Row(FALSE, statement))
    _judge(
        "identity", statement, apart, holds, f"at most {within:g} apart, and the control further"
    )


def _judge(kind: str, statement: str, value: Any, holds: bool, expected: str | None) -> None:
    """What becomes of a statement, as COURSE_CLAIMS says."""
    mode = os.environ.get(MODE, "")
    if mode.startswith("record:"):
        with open(mode.removeprefix("record:"), "a", encoding="utf-8") as file:
            file.write(
                json.dumps({"kind": kind, "statement": statement, "value": value, "holds": holds})
                + "\n"
            )
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
        told = f"{self.sign} {self.what}" + f": {self.value}" * bool(self.value)
        return "\n  ".join(filter(None, [told, self.bet, self.note]))


_rows: list[Row] = []  # of the cell that runs now


def _tell(row: Row) -> None:
    """Keep a row for the table that stands below the cell when it has run; where no notebook runs,
    print it.
    """
    if (shell := get_ipython()) is None:
        print(row)
        return
    _rows.append(row)
    shell.events.register("post_run_cell", _show_rows)  # the same function is registered once


def _show_rows(_: Any) -> None:
    """One quiet table of what the cell said: identities in a line, a row for each claim; as text, a
    line for each.
    """
    rows = _rows.copy()
    _rows.clear()
    if not rows:
        return
    cell, left = "<td{}>{}</td>", ' style="text-align: left"'
    same = "; ".join(escape(row.what) for row in rows if row.sign == IDENTITY)
    lines = [f'<td colspan="3"{left}>{IDENTITY} {same}</td>'] if same else []
    for row in (row for row in rows if row.sign != IDENTITY):
        what, *more = (
            escape(part) for part in (f"{row.sign} {row.what}", row.value, row.bet, row.note)
        )
        beside = " ".join(filter(None, more[1:]))
        lines.append(
            cell.format(left, what)
            + cell.format(left, f"<b>{more[0]}</b>")
            + cell.format(left, beside)
        )
    html = "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
    display({"text/plain": "\n".join(map(str, rows)), "text/html": html}, raw=True)


def _plain(value: Any) -> Any:
    """Tensors, arrays and numpy's numbers as Python's own; keys of dictionaries as JSON has them."""
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
        items = list(value.values() if isinstance(value, dict) else value)
        return bool(items) and all(_holds(item, entry) for item in items)
    # not a number is neither
    return entry.get("least", -math.inf) <= value <= entry.get("most", math.inf)


def _near(value: Any, expected: Any, tolerance: float | list | dict | None) -> bool:
    if isinstance(expected, dict | list):
        if type(value) is not type(expected) or len(value) != len(expected):
            return False
        keys: Any = expected.keys() if isinstance(expected, dict) else range(len(expected))
        if isinstance(expected, dict) and {*value} != {*expected}:
            return False
        each: Any = (
            tolerance if isinstance(tolerance, dict | list) else dict.fromkeys(keys, tolerance)
        )
        return all(_near(value[k], expected[k], each[k]) for k in keys)
    numbers = all(isinstance(n, int | float) and not isinstance(n, bool) for n in (value, expected))
    if tolerance is None or not numbers:
        return type(value) is type(expected) and value == expected
    return abs(value - expected) <= tolerance


def _distance(left: Any, right: Any) -> float:
    """How far two sides are apart: the largest difference of two numbers; 0 or infinity for
    anything else.
    """
    if isinstance(left, Tensor | float) and isinstance(right, Tensor | float):
        difference = (torch.as_tensor(left).double() - torch.as_tensor(right).double()).abs()
        return difference.max().nan_to_num(math.inf).item()
    return 0.0 if _plain(left) == _plain(right) else math.inf


def _expected(entry: Mapping, unit: str = "") -> str:
    """An entry of a table in words."""
    if "value" in entry:
        return shown(entry["value"], unit, entry)
    bounds = [
        f"at {bound} {shown(entry[bound], unit)}" for bound in ("least", "most") if bound in entry
    ]
    return " and ".join(bounds)


@validated
def sources_and_ours(lesson: str) -> Any:
    """What a lesson's sources say ("05_max_of_list") beside what we measured: its table's entries
    with a source.
    """
    from IPython.display import Markdown

    sourced = {statement: entry for statement, entry in table(lesson).items() if "source" in entry}
    rows = [
        (statement, entry["source"], _expected(entry, entry.get("unit", "")))
        for statement, entry in sourced.items()
    ]
    return Markdown(_words.table(["", "the source", "our model"], rows))


@validated
def siblings(lesson: str, statements: Sequence[str]) -> Any:
    """What models trained with other seeds say of some of a lesson's claims, and how all of its
    claims fared.

    From `data/replication.json`, made by `python -m course_tools.replicate`; `data/REPLICATION.md`
    has all of it, and the rule of the verdicts. Raises KeyError for a statement that was not
    replicated.
    """
    from IPython.display import Markdown

    rows = json.loads(verified(DATA / "replication.json").read_text(encoding="utf-8"))[lesson]
    holds, some, alone = ([row["verdict"] for row in rows.values()].count(one) for one in VERDICTS)
    count = (
        f"Of the lesson's {len(rows)} claims about the trained model {holds} hold on every "
        f"sibling, {some} on some "
    )
    made = sibling_table(lesson, {statement: rows[statement] for statement in statements})
    return Markdown(f"{made}\n\n{count}or for some of their numbers, and {alone} are ours alone.")


def sibling_table(lesson: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Replicated claims in a table: ours, the range of the seeds, a sibling of another kind, how
    many seeds agree.
    """
    names = list(dict.fromkeys(name for row in rows.values() for name in row["siblings"]))
    seeds, others = (
        [name for name in names if name.startswith("seed") is seed] for seed in (True, False)
    )
    heads = [
        "claim",
        "ours",
        f"{len(seeds)} siblings",
        *(f"with {name}" for name in others),
        "siblings that agree",
    ]
    cells = []
    for statement, row in rows.items():
        entry = table(lesson)[statement]
        theirs = [
            spread(map(row["siblings"].get, group), entry)
            for group in (seeds, *([name] for name in others))
        ]
        agree = ", ".join(map(str, row["agree"] if len({*row["agree"]}) > 1 else row["agree"][:1]))
        ours = shown(row["ours"], entry.get("unit", ""), entry)
        cells.append((statement, ours, *theirs, f"{agree} of {len(seeds)}"))
    return _words.table(heads, cells)


def spread(values: Iterable[Any], entry: Mapping = {}) -> str:
    """The smallest and the largest, number by number; of words and heads' numbers, each different
    value once.
    """
    measured, unit = [value for value in values if value is not None], entry.get("unit", "")
    first = measured[0] if measured and entry.get("kind") not in ("equal", "list") else ""
    if isinstance(first, dict):
        keys = dict.fromkeys(key for value in measured for key in value)
        return "; ".join(
            f"{key}: {spread([value.get(key) for value in measured], entry)}" for key in keys
        )
    if isinstance(first, list):
        return ", ".join(spread(each, entry) for each in zip_longest(*measured))
    if isinstance(first, bool | str):
        return (
            "; ".join(dict.fromkeys(shown(value, unit, entry) or "none" for value in measured))
            or "not measured"
        )
    ends = dict.fromkeys(shown(end, unit, entry) for end in (min(measured), max(measured)))
    return " to ".join(ends).replace(f" {unit} to ", " to ")
