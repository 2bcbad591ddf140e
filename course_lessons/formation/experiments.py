"""The experiments of lesson 08: which runs there are, what they say, and how arms are compared."""

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lessons.formation import events
from course_lessons.formation.events import chosen_head
from course_lessons.formation.forward import PARTS
from course_lessons.formation.runs import Run
from course_utils._arguments import NotNegative, validated
from course_utils._files import DATA, set_aside, verified, write_checksums, write_text

Kept = dict[str, Any]  # what is stored of one run: see `runs.result` and `compact`
Results = dict[str, list[Kept]]  # by arm, one for each seed
ARMS: dict[str, tuple[Run, int]] = {  # name → the run, and how many seeds from 1 on it gets
    "spread": (Run(), 30),
    "at once": (Run(spread=False), 10),
    "at once, batches of 32": (Run(spread=False, batch=32, steps=500), 10),
    "one layer": (Run(n_layers=1), 5),
    "one layer, at once": (Run(n_layers=1, spread=False), 5),
    "at once, longer documents": (Run(n_ctx=96, spread=False), 4),
    "longer documents": (Run(n_ctx=96), 4),
    **{f"planted {back} back": (Run(planted=back), 6) for back in (1, 2, 3, 8)},
    "at once, names of 5": (Run(spread=False, name_length=5), 8),
    **{f"{part} held at its end": (Run(held=(part,)), 6) for part in PARTS},
    **{
        f"{a} and {b} held at its end": (Run(held=(a, b)), 4)
        for a, b in itertools.combinations(PARTS, 2)
    },
    "all held at its end": (Run(held=PARTS), 4),
    **{f"{part} held at its start": (Run(held=(part,), held_as="start"), 4) for part in PARTS},
    "without the best head": (Run(silent="best"), 6),
    # after the phase change
    "without the best head, late": (Run(silent="best", silent_from=300), 6),
    "without the least head": (Run(silent="least"), 4),
    **{
        f"smeared, {what}": (Run(n_layers=1, smear=what, steps=300, every=10), 5)
        for what in ("previous", "shuffled")
    },
    **{
        f"{part} held at its start, long": (
            Run(held=(part,), held_as="start", steps=1600, every=40),
            seeds,
        )
        for part, seeds in zip(PARTS, (3, 2, 2), strict=True)
    },
    "spread, AdamW": (Run(muon_lr=None, steps=1000), 6),
    **{
        f"documents of {n}": (Run(n_ctx=n, steps=steps), seeds)
        for n, steps, seeds in ((128, 300, 3), (192, 300, 2))
    },
    **{
        f"batches of {n}": (Run(batch=n, steps=steps), seeds)
        for n, steps, seeds in ((16, 800, 4), (32, 600, 4), (128, 300, 3))
    },
}
# Two published laws of when induction heads form, as exponents of the number of steps; that of
# Aoyama et al. is known to us from a summary only. They were fixed before any run that varies
# batches, or has documents of 128 or 192 tokens. So was a rule, by which each run was a point of
# `events.exponent`. Since then a size is a point: runs of one size share what is particular to it.
# Left out since the runs: those that never save a nat, as all in batches of 16.
LAWS = {
    "context": {"Musat et al. 2025": 2.0, "Aoyama et al. 2025": -0.5},
    "batch": {"Aoyama et al. 2025": -0.5},
}
SIZES = {
    "context": {
        64: "spread",
        96: "longer documents",
        128: "documents of 128",
        192: "documents of 192",
    },
    "batch": {16: "batches of 16", 32: "batches of 32", 64: "spread", 128: "batches of 128"},
}
# arms (and those that begin like them) whose heads' scores are kept, too
FULL = ("spread", "at once", "one layer")
FILE = "experiments.json"
LEAN_ROW = ("step", "saves", "lead", "chance")
FULL_ROW = (
    *LEAN_ROW,
    "held_out_loss",
    "in_context_learning",
    "previous_token",
    "prefix_matching",
    "match",
    "back",
)


@validated
def planned(arms: Iterable[str] = tuple(ARMS)) -> dict[str, Run]:
    """Every arm with all of its seeds, named like "planted 1 back 3".

    The unaltered runs come first, then seed by seed. So runs that hold on to the end of the same
    unaltered run follow each other, and find it made: `runs.finished`.
    """
    chosen = {name: ARMS[name] for name in arms}
    runs = [
        (f"{name} {n}", replace(run, seed=n))
        for name, (run, seeds) in chosen.items()
        for n in range(1, seeds + 1)
    ]
    return dict(
        sorted(runs, key=lambda named: 0 if named[1] == named[1].unaltered() else named[1].seed)
    )


def compact(name: str, kept: Kept) -> Kept:
    """What is stored of a result: of its history the columns that a table or a figure needs."""
    columns = FULL_ROW if name.startswith(FULL) else LEAN_ROW
    rows = [{key: row[key] for key in columns if key in row} for row in kept["history"]]
    for row in rows:
        if "back" in row:  # the best head at each offset
            row["back"] = [max(at) for at in zip(*row["back"], strict=True)]
    # what the model alone would do, without the part that another one did, tells nothing
    if kept["run"]["held"]:
        return {"run": kept["run"], "history": rows}
    return {**kept, "history": rows}


def write(results: dict[str, Kept], folder: Path) -> Path:
    """Write what `stored` reads, a line for each run, numbers to four digits, and say where.

    Arms that the folder's file already has, and that are not among the results, stay as they are. A
    damaged file is set aside and named.
    """
    new = {name.rsplit(" ", 1)[0] for name in results}
    arms = {
        arm: [json.dumps(k) for k in kept]
        for arm, kept in _before(folder).items()
        if arm not in new
    }
    for name, kept in results.items():
        made = json.dumps(compact(name, kept))
        rounded = json.loads(made, parse_float=lambda digits: float(f"{float(digits):.4g}"))
        arms.setdefault(name.rsplit(" ", 1)[0], []).append(json.dumps(rounded))
    order = [arm for arm in ARMS if arm in arms]
    order += [arm for arm in arms if arm not in ARMS]
    ordered = [f"{json.dumps(arm)}: [\n" + ",\n".join(arms[arm]) + "\n]" for arm in order]
    write_text(folder / FILE, "{\n" + ",\n".join(ordered) + "\n}\n")
    write_checksums(folder)
    return folder / FILE


def _before(folder: Path) -> Results:
    """What the folder's file has; nothing where there is none, or a damaged one."""
    file = folder / FILE
    if not file.exists():
        return {}
    with contextlib.suppress(OSError, RecursionError, ValueError):
        before = json.loads(verified(file).read_text(encoding="utf-8"))
        is_ours = isinstance(before, dict)
        if is_ours and all(isinstance(kept, list) for kept in before.values()):
            return before
    aside = set_aside(file)
    print(f"{file} is damaged. It is kept beside it, as {aside.name}, and a new one is written.")
    return {}


@validated
def stored(folder: Path = DATA / "formation") -> Results:
    """The stored results of every arm, one per seed.

    See `runs.result` and `compact`, and ARMS for the names.
    """
    return json.loads(verified(folder / FILE).read_text(encoding="utf-8"))


# What the runs say


@validated
def curve(kept: Kept, name: str) -> list[float]:
    """One curve of a run: "saves", or one of the pair's or its heads'.

    "previous token", "prefix matching", "lead", "positivity" follow the `pair` back; "chance" is
    the standard deviation of the pair's lead under shuffled columns (see `measures.matches`).
    """
    rows = kept["history"]
    if name == "saves":
        return [row["saves"] for row in rows]
    first, second = pair(kept)
    key, a, b = {
        "previous token": ("previous_token", 0, first),
        "prefix matching": ("prefix_matching", 1, second),
        "positivity": ("match", first, second),
    }.get(name, (name, first, second))
    return [row[key][a][b] for row in rows]


@validated
def points(kept: Kept, name: str, since: NotNegative = 0) -> tuple[list[int], list[float]]:
    """Steps and values of one `curve`, from a step on."""
    steps = [row["step"] for row in kept["history"]]
    first = next(i for i, step in enumerate(steps) if step >= since)
    return steps[first:], curve(kept, name)[first:]


@validated
def savings(made: Sequence[Kept]) -> tuple[list[int], list[list[float]]]:
    """The steps of some runs of one arm, and what repeating saves in each."""
    return points(made[0], "saves")[0], [curve(kept, "saves") for kept in made]


@validated
def text_curves(history: list[Kept]) -> dict[str, list[float]]:
    """Two curves of a model that learnt from text, from its history (see `models.history`).

    "previous token", as in `curve`, and "the gain" from repeating.
    """
    gain = [row["first_pass_loss"] - row["second_pass_loss"] for row in history]
    return {"previous token": curve({"history": history}, "previous token"), "the gain": gain}


def pair(kept: Kept) -> tuple[int, int]:
    """The heads a run is followed by, best at its end.

    Best is by previous token in layer 0, by prefix matching in layer 1.
    """
    return chosen_head(kept["history"], "previous_token", 0), chosen_head(
        kept["history"], "prefix_matching", 1
    )


def level_time(kept: Kept, baseline: Kept) -> float:
    """When a run saves half of what its seed's unaltered run saves in the end.

    It is the last step (or later) if the run never does.
    """
    steps = [row["step"] for row in kept["history"]]
    time = events.reached(steps, curve(kept, "saves"), final(baseline) / 2)
    return float(steps[-1]) if math.isnan(time) else time


@validated
def sized(results: Results, what: str) -> tuple[list[tuple[int, float]], dict[int, int]]:
    """Size and step to half of its own saving, for each run; and who never got there.

    The runs are those of SIZES["context"] or SIZES["batch"]. A run that ends below a nat has made
    no change (one layer saves as much); how many did not, by size.
    """
    made = [(size, kept) for size, arm in SIZES[what].items() for kept in results[arm]]
    reached = [
        (size, events.event_time(*points(kept, "saves"))) for size, kept in made if final(kept) > 1
    ]
    never = {size: sum(n == size and final(kept) <= 1 for n, kept in made) for size in SIZES[what]}
    return reached, {size: runs for size, runs in never.items() if runs}


@validated
def way(kept: Kept) -> str:
    """Which way a finished run goes: "textbook", "detour" or "none".

    Its own mechanism's measures decide. None: repeating saves less than half a nat. Textbook:
    without layer 0 in the values, four fifths of that are left; what is copied stands one past the
    earlier copy. Detour: less is left, for layer 0 has brought along what is copied.
    """
    saves = kept["savings"]
    if saves["whole"] < 0.5:
        return "none"
    return "textbook" if saves["values"] > 0.8 * saves["whole"] else "detour"


@validated
def comparison(results: Results, arm: str) -> dict[str, Any]:
    """An arm beside the same seeds of "spread": mean times to the level, and the differences.

    "mean" and "against" in steps; "differences" seed by seed, negative where the arm is earlier;
    "never" how many runs of the arm do not get there; "saves" what they save in the end, as shares
    of `spread`'s. See `level_time`.
    """
    spread = {kept["run"]["seed"]: kept for kept in results["spread"]}
    pairs = [
        (kept, spread[kept["run"]["seed"]])
        for kept in results[arm]
        if kept["run"]["seed"] in spread
    ]
    a = [level_time(kept, baseline) for kept, baseline in pairs]
    b = [level_time(baseline, baseline) for _, baseline in pairs]
    return {
        "seeds": len(pairs),
        "mean": sum(a) / len(a),
        "against": sum(b) / len(b),
        "differences": [x - y for x, y in zip(a, b, strict=True)],
        "never": sum(
            time >= kept["history"][-1]["step"] for time, (kept, _) in zip(a, pairs, strict=True)
        ),
        "saves": [final(kept) / final(baseline) for kept, baseline in pairs],
    }


@validated
def final(kept: Kept) -> float:
    """What a run saves in the end: the mean of the last four measurements."""
    return sum(row["saves"] for row in kept["history"][-4:]) / 4


@validated
def left_without_best(kept: Kept) -> float:
    """The share of repeating's saving that is left without the best prefix-matching head."""
    best = chosen_head(kept["history"], "prefix_matching", 1)
    return kept["silenced"][best] / kept["history"][-1]["saves"]


@validated
def dates(
    made: Sequence[Kept],
    shares: Sequence[float],
    rule: Callable[..., float] = events.event_time,
    axes: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
) -> dict[str, list[list[float]]]:
    """When three curves have made shares of their rise: {curve: [run][share]}, in steps.

    The first half nat does not count: curves begin at step 100. `rule` is called as
    `events.event_time`. `axes` say, by the name of a curve, what becomes of its values before.
    """
    found = {}
    curves = {"the gain": "saves", "prefix matching": "prefix matching"}
    for name, key in {**curves, "previous token": "previous token"}.items():
        change = (axes or {}).get(name, torch.Tensor.double)
        both = [points(kept, key, since=100) for kept in made]
        both = [(steps, change(torch.tensor(values)).tolist()) for steps, values in both]
        found[name] = [[rule(steps, values, share) for share in shares] for steps, values in both]
    return found
