"""The experiments of lesson 08: which runs there are, when their events came, and the tables that compare them."""

import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from course_utils import _markdown
from course_utils._arguments import NotNegative, checked
from course_utils._files import DATA, verified, write_checksums, write_text
from course_utils.lessons.l08_how_induction_forms.events import (
    best_head_curve,
    chosen_head,
    event_time,
    paired_test,
    reached,
    sign_test,
)
from course_utils.lessons.l08_how_induction_forms.runs import Run

LATE = 300  # after the phase change of all seeds that the recipe was chosen on
HELD = {  # name of the arm → the parts that another model does
    "look": ("look",),
    "match": ("match",),
    "copy": ("copy",),
    "look and match": ("look", "match"),
    "look and copy": ("look", "copy"),
    "match and copy": ("match", "copy"),
    "all": ("look", "match", "copy"),
}
ARMS: dict[str, tuple[Run, int]] = {  # name → the run, and how many seeds from 1 on it gets
    "spread": (Run(), 30),
    "at once": (replace(Run(), spread=False), 10),
    "at once, batches of 32": (replace(Run(), spread=False, batch=32, steps=500), 10),  # as in the first edition
    "one layer": (replace(Run(), n_layers=1), 5),
    "one layer, at once": (replace(Run(), spread=False, n_layers=1), 5),
    "at once, longer documents": (replace(Run(), spread=False, n_ctx=96), 4),
    "longer documents": (replace(Run(), n_ctx=96), 4),
    **{f"planted {back} back": (replace(Run(), planted=back), 6) for back in (1, 2, 3, 8)},
    "at once, names of 5": (replace(Run(), spread=False, name_length=5), 8),
    **{
        f"{name} held at its end": (replace(Run(), held=held), 4 if len(held) > 1 else 6) for name, held in HELD.items()
    },
    **{
        f"{name} held at its start": (replace(Run(), held=(name,), held_as="start"), 4)
        for name in ("look", "match", "copy")
    },
    "without the best head": (replace(Run(), silent="best"), 6),
    "without the best head, late": (replace(Run(), silent="best", silent_from=LATE), 6),
    "without the least head": (replace(Run(), silent="least"), 4),
}
FULL = ("spread", "at once", "one layer")  # arms (and those that begin like them) whose heads' scores are kept, too
FILE = "experiments.json"
LEAN_ROW = ("step", "saves", "lead", "chance")
FULL_ROW = (*LEAN_ROW, "held_out_loss", "in_context_learning", "previous_token", "prefix_matching", "match", "back")


@checked
def planned(arms: Iterable[str] = tuple(ARMS)) -> dict[str, Run]:
    """Every arm with every one of its seeds, named like "planted 1 back 3".

    The unaltered runs come first. Then seed by seed, so that runs which hold on to the end of the same unaltered run
    follow each other, and find it made (see `runs.finished`).
    """
    chosen = {name: ARMS[name] for name in arms}
    all_of_them = [
        (run != run.unaltered(), seed, f"{name} {seed}", replace(run, seed=seed))
        for name, (run, seeds) in chosen.items()
        for seed in range(1, seeds + 1)
    ]
    return {
        name: run for altered, seed, name, run in sorted(all_of_them, key=lambda item: (item[0], item[1] * item[0]))
    }


@checked
def compact(name: str, kept: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a result: of its history the columns that a table or a figure needs."""
    full = name.startswith(FULL)
    rows = [{key: row[key] for key in (FULL_ROW if full else LEAN_ROW) if key in row} for row in kept["history"]]
    if full:
        for row in rows:  # the best head at each offset
            row["back"] = [max(at) for at in zip(*row["back"], strict=True)]
    if kept["run"]["held"]:  # what the model alone would do, without the part that another one did, tells nothing
        return {"run": kept["run"], "history": rows}
    return {**kept, "history": rows}


@checked
def write(results: dict[str, dict[str, Any]], folder: Path) -> Path:
    """Write what `stored` reads, the results of runs that `planned` names, and say where.

    One line for each run, numbers to four digits.
    """
    arms: dict[str, list[str]] = {}
    for name, kept in results.items():
        arms.setdefault(name.rsplit(" ", 1)[0], []).append(json.dumps(_rounded(compact(name, kept))))
    ordered = [f"{json.dumps(arm)}: [\n" + ",\n".join(arms[arm]) + "\n]" for arm in ARMS if arm in arms]
    content = "{\n" + ",\n".join(ordered) + "\n}\n"
    write_text(folder / FILE, content)
    write_checksums(folder)
    return folder / FILE


def _rounded(value: Any) -> Any:
    """Four digits are enough, and keep the file small."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


@checked
def stored(folder: Path = DATA / "formation") -> dict[str, list[dict[str, Any]]]:
    """The stored results of every arm, one per seed: see `runs.result` and `compact`, and ARMS for the names."""
    return json.loads(verified(folder / FILE).read_text(encoding="utf-8"))


# What the runs say


@checked
def curve(kept: dict[str, Any], name: str) -> list[float]:
    """One curve of a run: "saves", "in-context learning", or one of the pair's or its heads'.

    The pair is chosen once, at the end: the head of layer 0 with the best previous-token score and the head of layer 1
    with the best prefix matching. "previous token", "prefix matching", "lead", "positivity" follow it back. "controls"
    is the largest lead that the same head of layer 1 has with another head of layer 0; "chance" the standard deviation
    of the pair's lead under shuffled columns (see `measures.match_lead`).
    """
    rows = kept["history"]
    if name == "saves":
        return [row["saves"] for row in rows]
    if name == "in-context learning":
        return [-row["in_context_learning"] for row in rows]
    first, second = pair(kept)
    if name == "controls":
        return [max(lead[second] for head, lead in enumerate(row["lead"]) if head != first) for row in rows]
    single = {"previous token": ("previous_token", 0, first), "prefix matching": ("prefix_matching", 1, second)}
    if name in single:
        key, layer, head = single[name]
        return [row[key][layer][head] for row in rows]
    return [row[{"positivity": "match"}.get(name, name)][first][second] for row in rows]


@checked
def text_curves(history: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The curves of a model that learnt from text, from its history (see `models.history`).

    A loss that falls becomes a curve that rises.
    """
    return {
        "previous token": best_head_curve(history, "previous_token", 0),
        "prefix matching": best_head_curve(history, "prefix_matching", 1),
        "in-context learning": [-row["in_context_learning"] for row in history],
        "the saving": [row["first_pass_loss"] - row["second_pass_loss"] for row in history],
    }


@checked
def pair(kept: dict[str, Any]) -> tuple[int, int]:
    """The head of layer 0 and the head of layer 1 that a run is followed by: see `curve`."""
    last = kept["history"][-1]
    previous, prefix = last["previous_token"][0], last["prefix_matching"][-1]
    return previous.index(max(previous)), prefix.index(max(prefix))


EVENTS = {  # curve → the rise below which nothing happened
    "positivity": 0.3,
    "lead": 0.5,
    "previous token": 0.1,
    "prefix matching": 0.05,
    "saves": 0.5,
    "in-context learning": 0.1,
}


@checked
def times(kept: dict[str, Any], share: float = 0.5) -> dict[str, float]:
    """When each of EVENTS came in a run, in steps; not a number where it did not."""
    steps = [row["step"] for row in kept["history"]]
    return {name: event_time(steps, curve(kept, name), share, least) for name, least in EVENTS.items()}


@checked
def level_time(kept: dict[str, Any], baseline: dict[str, Any], share: float = 0.5) -> float:
    """When a run saves `share` of what the same seed's unaltered run saves in the end; the last step if it never does.

    A run that never gets there is at least as late as the last step, so differences of such times are too small, and
    their signs are right.
    """
    steps = [row["step"] for row in kept["history"]]
    time = reached(steps, curve(kept, "saves"), share * kept_saves(baseline))
    return float(steps[-1]) if math.isnan(time) else time


@checked
def way(kept: dict[str, Any]) -> str:
    """Which way a finished run goes: "textbook", "detour" or "none", by its own mechanism's measures.

    None: repeating saves less than half a nat. Textbook: without layer 0 in the values, four fifths of that are left;
    what is copied stands one past the earlier copy. Detour: less is left, for layer 0 has brought along what is copied.
    """
    savings = kept["savings"]
    if savings["whole"] < 0.5:
        return "none"
    return "textbook" if savings["values"] > 0.8 * savings["whole"] else "detour"


@checked
def looks_at(kept: dict[str, Any], offset: NotNegative) -> float:
    """The attention to one place back, of the head of a finished run's layer 0 that looks there most."""
    return max(head[offset] for head in kept["looks"]["back"])


@checked
def far_offset(kept: dict[str, Any], more_than: float = 0.3) -> int:
    """How far back layer 0 looks, if one head spends so much on one place, from two back on; else 0."""
    best = [max(at) for at in zip(*kept["looks"]["back"], strict=True)]
    far = max(range(2, len(best)), key=lambda offset: best[offset])
    return far if best[far] > more_than else 0


@checked
def diagonal_end(kept: dict[str, Any]) -> float:
    """The destination from which on the best previous-token head looks back half as much as on places 10 to 40.

    For good; not a number if it never looked there much (less than 0.2), or never stops.
    """
    looks = [0.0, *kept["diagonal"]]  # by destination; position 0 has nothing before it
    middle = sum(looks[10:41]) / 31
    below = [dest for dest in range(41, len(looks)) if looks[dest] < middle / 2]
    last = max((dest for dest in range(len(looks)) if looks[dest] >= middle / 2), default=0)
    return float(last + 1) if below and last + 1 < len(looks) and middle >= 0.2 else math.nan


@checked
def comparison(results: dict[str, list[dict[str, Any]]], arm: str, against: str = "spread") -> dict[str, Any]:
    """An arm beside the same seeds of another: mean times to the level, and the differences.

    "mean" and "against" in steps; "differences" seed by seed, negative where the arm is earlier; "never" how many runs
    of the arm do not get there; "saves" what they save in the end, as shares of `spread`'s. See `level_time`.
    """
    mine, baseline, other = (by_seed(results[name]) for name in (arm, "spread", against))
    seeds = [seed for seed in mine if seed in baseline.keys() & other.keys()]
    a = [level_time(mine[seed], baseline[seed]) for seed in seeds]
    b = [level_time(other[seed], baseline[seed]) for seed in seeds]
    last = [mine[seed]["history"][-1]["step"] for seed in seeds]
    return {
        "seeds": len(seeds),
        "mean": sum(a) / len(a),
        "against": sum(b) / len(b),
        "differences": [x - y for x, y in zip(a, b, strict=True)],
        "never": sum(x >= end for x, end in zip(a, last, strict=True)),
        "saves": [kept_saves(mine[seed]) / kept_saves(baseline[seed]) for seed in seeds],
    }


@checked
def by_seed(runs_of_arm: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The results of an arm by their seeds."""
    return {kept["run"]["seed"]: kept for kept in runs_of_arm}


@checked
def kept_saves(kept: dict[str, Any]) -> float:
    """What repeating saves at the end of a run, as the mean of its last four measurements, in nats."""
    return sum(row["saves"] for row in kept["history"][-4:]) / 4


@checked
def left_without_best(kept: dict[str, Any]) -> float:
    """The share of what repeating saves that a finished model keeps without the head that matches prefixes best."""
    best = chosen_head(kept["history"], "prefix_matching", 1)
    return kept["silenced"][best] / kept["history"][-1]["saves"]


@checked
def taken_over(kept: dict[str, Any], baseline: dict[str, Any]) -> float:
    """How much of what a missing head was worth the others have taken over: 0 nothing, 1 all of it.

    What it was worth: what repeating saves with the unaltered run's finished model, less what it saves when the head is
    switched off there and nothing is trained after.
    """
    off = chosen_head(baseline["history"], "prefix_matching", 1, best=kept["run"]["silent"] == "best")
    without = baseline["silenced"][off]
    return (kept["history"][-1]["saves"] - without) / (baseline["history"][-1]["saves"] - without)


@checked
def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """The tables of lesson 08, as Markdown. They need the arm "spread"; of the others, those that are there."""
    spread = results["spread"]
    parts = {
        "When each event came, spread": events_table(spread),
        "Which came first, spread": orders_table(spread),
        "The match of the pair: size-free and in units of score, spread": _match_table(spread),
        "Every arm beside the same seeds of spread: step at which half of what spread saves is saved": arms_table(
            results
        ),
        "Which way, and how far back layer 0 looks": _ways_table(results),
        "How much of the missing head's worth the others took over": _taken_over_table(results),
    }
    return "\n\n".join(f"## {title}\n\n{part}" for title, part in parts.items()) + "\n"


@checked
def events_table(runs_of_arm: list[dict[str, Any]]) -> str:
    """When each event came, as Markdown."""
    rows = []
    found = [times(kept) for kept in runs_of_arm]
    for name in EVENTS:
        came = sorted(time[name] for time in found if not math.isnan(time[name]))
        if came:
            middle = (came[(len(came) - 1) // 2] + came[len(came) // 2]) / 2
            numbers = (f"{number:.0f}" for number in (middle, came[0], came[-1]))
            rows.append((name, f"{len(came)} of {len(found)}", *numbers))
    return _markdown.table(["event", "runs", "median step", "least", "most"], rows)


@checked
def orders_table(runs_of_arm: list[dict[str, Any]]) -> str:
    """Which of two events came first, pair by pair, as Markdown."""
    heads = ["first, second", "first comes first", "mean difference", "sign test", "paired test"]
    rows = []
    found = [times(kept) for kept in runs_of_arm]
    for first, second in itertools.combinations(EVENTS, 2):
        a, b = ([time[name] for time in found] for name in (first, second))
        differences = [y - x for x, y in zip(a, b, strict=True) if not math.isnan(y - x)]
        if differences:
            earlier, mean = sum(d > 0 for d in differences), sum(differences) / len(differences)
            tests = (f"{test(a, b):.2g}" for test in (sign_test, paired_test))
            rows.append((f"{first}, {second}", f"{earlier} of {len(differences)}", f"{mean:+.0f}", *tests))
    return _markdown.table(heads, rows)


@checked
def arms_table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Every arm beside the same seeds of "spread", as Markdown: see `comparison`.

    It has no p: no test on n pairs gets below 2/2ⁿ, which is 0.12 for four seeds and 0.03 for six.
    """
    heads = ["arm", "seeds", "mean step", "the same seeds, unaltered", "differences", "earlier"]
    rows = []
    for arm, made in results.items():
        if arm != "spread" and made:
            c = comparison(results, arm)
            differences = ", ".join(f"{d:+.0f}" for d in c["differences"])
            came = ("never", "–") if c["never"] == c["seeds"] else (f"{c['mean']:.0f}", differences)
            earlier = f"{sum(d < 0 for d in c['differences'])} of {c['seeds']}"
            share = f"{min(c['saves']):.2f} to {max(c['saves']):.2f}"
            rows.append((arm, c["seeds"], came[0], f"{c['against']:.0f}", came[1], earlier, share))
    return _markdown.table([*heads, "saves in the end, share"], rows)


def _match_table(runs_of_arm: list[dict[str, Any]]) -> str:
    """Lead and chance when half of positivity's rise was made, and at the end."""
    heads = ["seed", "half of positivity", "lead then", "share of the last", "lead in the end", "best control"]
    rows = []
    for kept in runs_of_arm:
        step = times(kept)["positivity"]
        if not math.isnan(step):
            lead, controls, chance = (curve(kept, name) for name in ("lead", "controls", "chance"))
            row = next(i for i, row in enumerate(kept["history"]) if row["step"] >= step)
            numbers = (lead[row], lead[row] / lead[-1], lead[-1], controls[-1], 3 * chance[-1])
            rows.append((kept["run"]["seed"], f"{step:.0f}", *(f"{number:.2f}" for number in numbers)))
    return _markdown.table([*heads, "3 × chance"], rows)


def _ways_table(results: dict[str, list[dict[str, Any]]]) -> str:
    rows = []
    for arm, made in results.items():
        if made and "savings" in made[0]:
            ways = [way(kept) for kept in made]
            counts = map(ways.count, ("textbook", "detour", "none"))
            far = ", ".join(str(far_offset(kept) or "–") for kept in made)
            ends = ", ".join("–" if math.isnan(end) else f"{end:.0f}" for end in map(diagonal_end, made))
            rows.append((arm, len(made), *counts, far, ends))
    heads = ["arm", "runs", "textbook", "detour", "none", "far offsets", "the diagonal's end"]
    return _markdown.table(heads, rows)


def _taken_over_table(results: dict[str, list[dict[str, Any]]]) -> str:
    rows = []
    baseline = by_seed(results["spread"])
    for arm, made in results.items():
        shares = [taken_over(kept, baseline[kept["run"]["seed"]]) for kept in made if kept["run"]["silent"]]
        if shares:
            rows.append((arm, ", ".join(f"{share:.2f}" for share in shares)))
    return _markdown.table(["arm", "seed by seed"], rows)
