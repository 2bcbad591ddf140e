"""What a lesson states: `claim` (true of the trained model), `identity` (true of any weights), `predict` (your guess).

The expected values stand in one table per lesson, `claims.json` in the lesson's folder, and not in the cells: a
reader meets no answer before the question. An entry is named by its statement and says what must come out:

    "order rate without positions": {"value": 0.968, "tolerance": 0.005, "control": "untrained: 0.50"}

`value` with `tolerance` for numbers (also lists and dictionaries of them), `value` alone for what must be equal, and
`least` and `most` for bounds. `source` is what a source says of it, `control` what could have refuted it: untrained
weights, unless it says something else. `always` gives the reason why a statement holds on untrained weights too.

The environment variable COURSE_CLAIMS decides what becomes of a statement that does not hold: nothing set, the line
says what we measured; "strict", as CI and authors have it, ClaimFailed; "record:FILE", one line of JSON for every
statement is added to FILE and nothing is raised, which is how untrained weights and other seeds are asked.
"""

import functools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_utils import _markdown
from course_utils._arguments import checked
from course_utils._files import DATA, LESSONS, verified, write_text

CLAIM, IDENTITY, FALSE = "▪", "≡", "✗"  # how the lines begin; tests/nbval_sanitize.cfg knows the first
MODE = "COURSE_CLAIMS"
VERDICTS = "holds", "differs in size", "ours alone"  # what siblings say of a claim: see tools.replicate
PREDICTIONS = "my_predictions.json"  # beside the notebook that asks


class ClaimFailed(AssertionError):
    """A statement of a lesson does not hold; the message says what was expected and what came out."""


@functools.cache
def expectations() -> dict[str, dict]:
    """What all lessons' statements expect, by statement; empty where the tables were not installed."""
    lessons = sorted(path.parent.name[1:] for path in LESSONS.glob("*/claims.json"))
    return {statement: entry for lesson in lessons for statement, entry in table(lesson).items()}


@checked
def table(lesson: str) -> dict[str, dict]:
    """What one lesson's statements expect ("05_max_of_list"). Raises FileNotFoundError for a lesson without a table."""
    return json.loads((LESSONS / f"l{lesson}" / "claims.json").read_text(encoding="utf-8"))


def claim(statement: str, value: Any, unit: str = "", predicted: str = "") -> None:
    """Print one line with a measured value, and hold it to what the lesson's table expects.

    `value` is a number, a truth value, a string, or a tensor, list or dictionary of them; `unit` "%" shows a share as
    per cent. `predicted` names the `predict` that asked for it: the line shows your guess beside the truth. Raises
    ClaimFailed where claims are strict (see above).
    """
    value, entry = _plain(value), expectations().get(statement)
    holds = entry is not None and _holds(value, entry)
    print(f"{CLAIM} {statement}: {shown(value, unit, entry or {})}")
    if predicted and not os.environ.get(MODE):
        _compare(predicted, value, unit)
    _judge("claim", statement, value, holds, None if entry is None else _expected(entry, unit))


@checked
def identity(
    statement: str, left: Any, right: Any = True, *, within: float = 1e-4, control: Tensor | float | None = None
) -> None:
    """Print that two sides are equal for any weights, and hold them to it: no entry differs by more than `within`.

    With one side only, it must be true. `control` is a version of the left side that leaves something out: it must
    differ from the right side. Raises ClaimFailed where claims are strict (see above).
    """
    apart = _distance(left, right)
    holds = apart <= within
    text = f"{IDENTITY} {statement}"
    if not isinstance(right, bool):
        text += f" (to {within:g})"
    if control is not None:
        differs = _distance(control, right)
        holds = holds and differs > within
        text += f"; the control: {'differs' if differs > within else 'does not differ'}"
    print(text if holds else f"{FALSE} {statement}")
    _judge("identity", statement, apart, holds, f"at most {within:g} apart, and the control further")


def _judge(kind: str, statement: str, value: Any, holds: bool, expected: str | None) -> None:
    """What becomes of a statement, as COURSE_CLAIMS says."""
    mode = os.environ.get(MODE, "")
    if mode.startswith("record:"):
        with open(mode.removeprefix("record:"), "a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "statement": statement, "value": value, "holds": holds}) + "\n")
    elif mode == "strict" and not holds:
        if expected is None:
            raise ClaimFailed(f"No lesson's claims.json has {statement!r}; measured: {value!r}.")
        raise ClaimFailed(f"{statement}: expected {expected}; measured: {value!r}.")
    elif not holds and expected is not None:
        print(f"  (the course's own notebook: {expected})")  # another model, or another answer to an exercise


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
    return entry.get("least", -math.inf) <= value <= entry.get("most", math.inf)  # not a number is neither


def _near(value: Any, expected: Any, tolerance: float | list | dict | None) -> bool:
    if isinstance(expected, dict | list):
        if type(value) is not type(expected) or len(value) != len(expected):
            return False
        keys: Any = expected.keys() if isinstance(expected, dict) else range(len(expected))
        if isinstance(expected, dict) and {*value} != {*expected}:
            return False
        each: Any = tolerance if isinstance(tolerance, dict | list) else dict.fromkeys(keys, tolerance)
        return all(_near(value[k], expected[k], each[k]) for k in keys)
    numbers = all(isinstance(n, int | float) and not isinstance(n, bool) for n in (value, expected))
    if tolerance is None or not numbers:
        return type(value) is type(expected) and value == expected
    return abs(value - expected) <= tolerance


def _distance(left: Any, right: Any) -> float:
    """How far two sides are apart: the largest difference of two numbers; 0 or infinity for anything else."""
    if isinstance(left, Tensor | float) and isinstance(right, Tensor | float):
        difference = (torch.as_tensor(left).double() - torch.as_tensor(right).double()).abs()
        return difference.max().nan_to_num(math.inf).item()
    return 0.0 if _plain(left) == _plain(right) else math.inf


def shown(value: Any, unit: str = "", entry: Mapping = {}) -> str:
    """A value as lessons print it: as many digits as its tolerance in the table is worth, three without one."""
    if isinstance(value, dict):
        between = "; " if any(isinstance(item, list) for item in value.values()) else ", "
        return between.join(f"{key}: {shown(item, unit, entry)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(shown(item, unit, entry) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    tolerance, percent = entry.get("tolerance"), unit == "%"
    value = 100 * value if percent else value
    if isinstance(value, int):
        number = f"{value:,}"
    elif isinstance(tolerance, int | float) and tolerance > 0:
        digits = math.ceil(-math.log10(tolerance * (100 if percent else 1)))
        number = f"{value:,.{max(0, digits)}f}"
    else:
        number = f"{value:.3g}" if abs(value) < 1_000 else f"{value:,.0f}"
    number = number.lstrip("-") if not number.strip("-0.,") else number.replace("-", "−")  # no −0.0
    return f"{number} {unit}" if unit else number


def _expected(entry: Mapping, unit: str = "") -> str:
    """An entry of a table in words."""
    if "value" in entry:
        return shown(entry["value"], unit, entry)
    bounds = [f"at {bound} {shown(entry[bound], unit)}" for bound in ("least", "most") if bound in entry]
    return " and ".join(bounds)


@checked
def sources_and_ours(lesson: str) -> Any:
    """What a lesson's sources say ("05_max_of_list") beside what we measured: its table's entries with a source."""
    from IPython.display import Markdown

    sourced = {statement: entry for statement, entry in table(lesson).items() if "source" in entry}
    rows = [
        (statement, entry["source"], _expected(entry, entry.get("unit", ""))) for statement, entry in sourced.items()
    ]
    return Markdown(_markdown.table(["", "the source", "our model"], rows))


@checked
def siblings(lesson: str, statements: Sequence[str]) -> Any:
    """What models trained with other seeds say of some of a lesson's claims, and how all of its claims fared.

    From `data/replication.json`, made by `python -m course_utils.author.replicate`; `data/REPLICATION.md` has all of
    it, and the rule of the verdicts. Raises KeyError for a statement that was not replicated.
    """
    from IPython.display import Markdown

    rows = json.loads(verified(DATA / "replication.json").read_text(encoding="utf-8"))[lesson]
    holds, size, alone = ([row["verdict"] for row in rows.values()].count(one) for one in VERDICTS)
    count = f"Of the lesson's {len(rows)} claims about the trained model {holds} hold, {size} differ in size and "
    made = compared(lesson, {statement: rows[statement] for statement in statements})
    return Markdown(f"{made}\n\n{count}{alone} are ours alone.")


def compared(lesson: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Replicated claims in a table: ours, the range of the seeds, a sibling of another kind by itself, the verdict."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row["siblings"]))
    seeds, others = ([name for name in names if name.startswith("seed") is seed] for seed in (True, False))
    heads = ["claim", "ours", f"{len(seeds)} siblings", *(f"with {name}" for name in others), "verdict"]
    cells = []
    for statement, row in rows.items():
        entry = table(lesson)[statement]
        unit, theirs = entry.get("unit", ""), row["siblings"]
        shown_theirs = [spread(map(theirs.get, group), unit) for group in (seeds, *([name] for name in others))]
        cells.append((statement, shown(row["ours"], unit, entry), *shown_theirs, row["verdict"]))
    return _markdown.table(heads, cells)


def spread(values: Iterable[Any], unit: str = "") -> str:
    """The smallest and the largest of numbers; of anything else, each different value once."""
    measured = [value for value in values if value is not None]
    if measured and all(isinstance(value, int | float) and not isinstance(value, bool) for value in measured):
        return " to ".join(dict.fromkeys(shown(end, unit) for end in (min(measured), max(measured))))
    return "; ".join(dict.fromkeys(shown(value, unit) for value in measured)) or "not measured"


# Predictions


@checked
def predict(name: str, question: str, options: Sequence[str] = (), unit: str = "") -> None:
    """Ask for a guess before the number comes: one of the `options`, or a number in the `unit`.

    The guess is kept in `my_predictions.json` beside the notebook, and the claim that says `predicted=name` shows it
    beside the truth. Leaving it blank stops nothing.
    """
    from IPython.display import display

    text = f"Predict: {question}\n" + (" · ".join(options) if options else f"a number{unit and f' in {unit}'}")
    data = {"text/plain": text}
    if widget := _widget(name, question, options, unit):
        data |= widget._repr_mimebundle_()
        data["text/plain"] = text  # what a stored notebook, GitHub and a printer show
    display(data, raw=True)


def _widget(name: str, question: str, options: Sequence[str], unit: str) -> Any:
    """What to click or type in, showing an earlier guess."""
    import ipywidgets

    guess = guesses().get(name, {}).get("guess")
    typed = "" if guess is None or options else f"{100 * guess if unit == '%' else guess:g}"
    title = ipywidgets.HTML(f"<b>Predict:</b> {question}")
    if options:
        chosen = guess if guess in options else None
        answer = ipywidgets.RadioButtons(options=list(options), value=chosen, layout={"width": "max-content"})
    else:
        answer = ipywidgets.Text(value=typed, placeholder="a number, then Enter")
        answer.continuous_update = False
    note = ipywidgets.Label(unit)

    def keep(change: dict) -> None:
        new = change["new"]
        if not options:
            try:
                new = _number(str(new))
            except ValueError:
                note.value = f"{unit}  Type a number, such as {50 if unit == '%' else 0.5}."
                return
            new, note.value = new / 100 if unit == "%" else new, unit
        _keep(name, guess=new)

    answer.observe(keep, names="value")
    return ipywidgets.VBox([title, ipywidgets.HBox([answer, note])])


def _number(typed: str) -> float:
    """A number as people type it: 4,000 and 4000 are the same, 0,5 and 0.5 too."""
    grouped = re.fullmatch(r"[1-9]\d{0,2}(,\d{3})+(\.\d+)?", typed.strip())
    return float(typed.replace(",", "" if grouped else ".").replace("−", "-"))


def guesses() -> dict[str, dict]:
    """Your predictions so far, by name: "guess", and, once the claim came, "truth" and "right"."""
    path = Path(PREDICTIONS)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _keep(name: str, **facts: Any) -> None:
    kept = guesses()
    kept[name] = kept.get(name, {}) | facts
    content = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    write_text(Path(PREDICTIONS), content)


def _compare(name: str, truth: Any, unit: str) -> None:
    """Print a guess beside the truth, and keep whether it was right: the option, or a number within a quarter."""
    guess = guesses().get(name, {}).get("guess")
    if guess is None:
        return
    right = abs(guess - truth) <= abs(truth) / 4 if isinstance(guess, float) else guess == truth
    print(f"  your prediction: {shown(guess, unit)} {'✓' if right else FALSE}")
    _keep(name, truth=truth, right=right)


def calibration() -> None:
    """Print how many of your predictions came true so far."""
    judged = [kept["right"] for kept in guesses().values() if "right" in kept]
    came_true = f"{sum(judged)} of {len(judged)} came true (a number: to within a quarter)"
    print(f"Your predictions: {came_true}." if judged else "No predictions yet.")
