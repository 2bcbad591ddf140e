"""What became of the predictions in `data/formation/predictions.md`: each judged by the stored runs, without mercy.

A prediction has parts; it held if all of its parts held. Nothing here was adjusted after the runs were seen, except
where the words left a choice: then the choice stands beside the part.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from course_utils import _markdown
from course_utils._arguments import checked
from course_utils.lessons.l08_how_induction_forms import experiments
from course_utils.lessons.l08_how_induction_forms.events import event_time

Results = dict[str, list[dict[str, Any]]]
Part = tuple[str, bool | None]  # what came; whether that is what was expected, None where no run could tell


def _list(numbers: list[float]) -> str:
    return ", ".join("–" if math.isnan(n) else f"{n:.0f}" for n in numbers)


def _far(made: list[dict[str, Any]], offsets: tuple[int, ...]) -> int:
    """In how many runs layer 0 looks that far back."""
    return sum(experiments.far_offset(kept) in offsets for kept in made)


def _one_layer(results: Results) -> Iterator[Part]:
    made = results["one layer, at once"]
    pairs = [(experiments.looks_at(kept, 7), experiments.looks_at(kept, 5)) for kept in made]
    shown = ", ".join(f"{seven:.2f} and {five:.2f}" for seven, five in pairs)
    yield f"at once, 7 and 5 back: {shown}", all(seven > five for seven, five in pairs)
    most = max(experiments.looks_at(kept, offset) for kept in results["one layer"] for offset in range(1, 20))
    yield f"spread, most at any offset: {most:.2f}", most <= 0.1


def _far_offsets(results: Results) -> Iterator[Part]:
    found = _far(results["at once"], (7, 8))
    yield f"at once, 7 or 8 back: {found} of {len(results['at once'])}", found >= 0.3 * len(results["at once"])
    found = sum(experiments.far_offset(kept) > 0 for kept in results["spread"])
    yield f"spread, far: {found} of {len(results['spread'])}", found <= 1


def _small_batches(results: Results) -> Iterator[Part]:
    made = results["at once, batches of 32"]
    found = _far(made, (7, 8))
    yield f"7 or 8 back: {found} of {len(made)}", found >= 0.3 * len(made)


def _names_of_5(results: Results) -> Iterator[Part]:
    far = [offset for kept in results["at once, names of 5"] if (offset := experiments.far_offset(kept))]
    shown = ", ".join(map(str, far)) or "none"
    yield f"offsets: {shown} (of {len(results['at once, names of 5'])} runs)", set(far) <= {4, 5} if far else None


def _before_saves(results: Results) -> Iterator[Part]:
    """Both kinds of runs at once: prediction 2 was made for the batches of 32, too."""
    both = results["at once"] + results.get("at once, batches of 32", [])
    far = [kept for kept in both if experiments.far_offset(kept) in (7, 8)]
    for offset, expected in ((7, True), (8, False)):
        lags = []
        for kept in far:
            steps = [row["step"] for row in kept["history"]]
            rise = event_time(steps, [row["back"][offset] for row in kept["history"]], least=0.1)
            if not math.isnan(rise):
                lags.append(experiments.times(kept)["saves"] - rise)
        held = all((lag > 0) == expected for lag in lags) if lags else None
        yield f"{offset} back is ahead of saves by {_list(lags) or 'nothing: no such run'} steps", held


def _ends(results: Results, arms: dict[str, tuple[float, float]]) -> Iterator[Part]:
    for arm, (least, most) in arms.items():
        if not results.get(arm):
            yield f"{arm}: not run", None
            continue
        ends = [experiments.diagonal_end(kept) for kept in results[arm]]
        yield f"{arm}: {_list(ends)}", all(least <= end <= most for end in ends)


def _one_end(results: Results) -> Iterator[Part]:
    return _ends(results, {"at once": (56, 56), "at once, longer documents": (88, 88)})


def _slower_end(results: Results) -> Iterator[Part]:
    return _ends(results, {"spread": (50, 58), "longer documents": (82, 90)})


def _lead_with_saves(results: Results) -> Iterator[Part]:
    shares, lags = [], []
    for kept in results["spread"]:
        found, lead = experiments.times(kept), experiments.curve(kept, "lead")
        late = (i for i, row in enumerate(kept["history"]) if row["step"] >= found["positivity"])
        row = next(late, -1)  # where it never comes, all of the lead is there before
        shares.append(lead[row] / lead[-1])
        lags.append(found["lead"] - found["saves"])
    yield f"share of the lead then: at most {max(shares):.2f}", max(shares) < 0.25
    near = sum(abs(lag) <= 40 for lag in lags)
    yield f"lead within 40 steps of saves: {near} of {len(lags)}", near == len(lags)


def _weights_begin(results: Results) -> Iterator[Part]:
    made, ahead, controls = results["spread"], 0, 0
    for kept in made:
        lead, chance = experiments.curve(kept, "lead"), experiments.curve(kept, "chance")
        tenth = experiments.times(kept, 0.1)["saves"]
        early = [i for i, row in enumerate(kept["history"]) if row["step"] < tenth]
        ahead += any(lead[i] > 3 * chance[i] for i in early)
        controls += experiments.curve(kept, "controls")[-1] < lead[-1] / 2
    yield f"above 3 × chance before a tenth of saves: {ahead} of {len(made)}", ahead == len(made)
    yield f"controls below half of the lead: {controls} of {len(made)}", controls == len(made)


def _textbook(results: Results) -> Iterator[Part]:
    """ "Most at 1": of the offsets from 0 to 19, 1 gets more than any other, all heads together."""
    made = results["spread"]
    both = 0
    for kept in made:
        after = [sum(at) for at in zip(*kept["looks"]["after"], strict=True)]
        both += after.index(max(after)) == 1 and experiments.way(kept) == "textbook"
    yield f"{both} of {len(made)}", both >= 28 / 30 * len(made)


def _orders(results: Results) -> Iterator[Part]:
    found = [experiments.times(kept) for kept in results["spread"]]
    first = sum(time["lead"] < time["prefix matching"] for time in found)
    yield f"lead before prefix matching: {first} of {len(found)}", first >= 0.8 * len(found)
    names = ("prefix matching", "saves", "in-context learning")
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            earlier = sum(time[one] < time[other] for time in found)
            most = max(earlier, len(found) - earlier)
            yield f"{one} before {other}: {earlier} of {len(found)}", most <= 0.9 * len(found)


def _plants(results: Results) -> Iterator[Part]:
    for back in (1, 2, 3, 8):
        if not results.get(f"planted {back} back"):
            yield f"{back} back: not run", None
            continue
        compared = experiments.comparison(results, f"planted {back} back")
        mean = compared["mean"] - compared["against"]
        held = max(compared["differences"]) <= -50 if back == 1 else abs(mean) <= 25
        yield f"{back} back: {mean:+.0f} on average, from {_range(compared['differences'])}", held


def _range(differences: list[float]) -> str:
    return f"{min(differences):+.0f} to {max(differences):+.0f}"


def _held_at_end(results: Results) -> Iterator[Part]:
    forward = {}
    for name in ("look", "match", "copy", "look and match"):
        if results.get(f"{name} held at its end"):
            compared = experiments.comparison(results, f"{name} held at its end")
            forward[name] = 1 - compared["mean"] / compared["against"]
    yield (
        f"look forward by {forward['look']:.0%}, match by {forward['match']:.0%}",
        (min(forward["look"], forward["match"]) >= 0.2),
    )
    yield f"copy by {forward['copy']:.0%}", forward["copy"] < 0.1
    both = forward.get("look and match")
    if both is None:
        yield "look and match: not run", None
    else:
        yield f"look and match by {both:.0%}", both > max(forward["look"], forward["match"])
    latest = experiments.comparison(results, "all held at its end")["mean"]
    yield f"all at step {latest:.0f}", latest <= 60


def _held_at_start(results: Results) -> Iterator[Part]:
    """The lead of the pair that ends with the largest multiple of chance: the rule's scores mean nothing here."""
    for name in ("match", "copy", "look"):
        if not results.get(f"{name} held at its start"):
            yield f"{name}: not run", None
            continue
        compared = experiments.comparison(results, f"{name} held at its start")
        never = f"{name}: never in {compared['never']} of {compared['seeds']}"
        yield never, compared["never"] == compared["seeds"]
    largest = []
    for kept in results["look held at its start"]:
        last = kept["history"][-1]
        rows = zip(last["lead"], last["chance"], strict=True)
        largest.append(max(a / b for lead, chance in rows for a, b in zip(lead, chance, strict=True)))
    yield f"look: largest lead {min(largest):.1f} to {max(largest):.1f} times chance", min(largest) > 3


def _heads_add_up(results: Results) -> Iterator[Part]:
    baseline = experiments.by_seed(results["spread"])
    costs = [1 - experiments.left_without_best(kept) for kept in baseline.values()]
    yield f"taking it away costs {min(costs):.0%} to {max(costs):.0%}", min(costs) >= 1 / 3
    saves = experiments.comparison(results, "without the best head")["saves"]
    yield f"trained without it: {min(saves):.0%} to {max(saves):.0%} saved", min(saves) >= 0.9
    if late := results.get("without the best head, late"):
        taken = [experiments.taken_over(kept, baseline[kept["run"]["seed"]]) for kept in late]
        yield f"without it from 300: {min(taken):.0%} to {max(taken):.0%} came back", min(taken) >= 0.5
    else:
        yield "without it from 300: not run", None
    if results.get("without the least head"):
        differences = experiments.comparison(results, "without the least head")["differences"]
        yield f"without the least: {_range(differences)} steps", max(map(abs, differences)) < 25
    else:
        yield "without the least: not run", None


PREDICTIONS: dict[str, tuple[str, Callable[[Results], Iterator[Part]]]] = {  # number → in short; what judges it
    "1": ("One layer looks 7 back more than 5 back `at once`; `spread`, nowhere more than 0.1", _one_layer),
    "2": ("`at once`, three in ten have a head that looks 7 or 8 back; `spread`, at most one run", _far_offsets),
    "2, batches of 32": ("The same `at once` with batches of 32", _small_batches),
    "3": ("With names of 5, far heads look 4 or 5 back", _names_of_5),
    "4": ("Attention 7 back rises before saves, 8 back does not", _before_saves),
    "5": ("`at once`, the diagonal ends at 56; in longer documents at 88", _one_end),
    "6": ("`spread`, it ends between 50 and 58; in longer documents between 82 and 90", _slower_end),
    "7": ("At half of positivity, less than a quarter of the lead; the lead comes with saves", _lead_with_saves),
    "8": ("The lead leaves chance before a tenth of saves; controls stay below half of it", _weights_begin),
    "9": ("28 of 30 go the textbook's way", _textbook),
    "10": ("Lead before prefix matching in 24 of 30; no fixed order among the other three", _orders),
    "11": ("A head that looks 1 back brings it 50 steps forward in all seeds; 2, 3, 8 back do nothing", _plants),
    "12": ("Held at its end: look and match a fifth each, copy under a tenth, both more, all by step 60", _held_at_end),
    "13": ("Held at its start: nothing ever comes; with look held, the lead still leaves chance", _held_at_start),
    "14": ("The best head is worth a third; others take over; the least head does not matter", _heads_add_up),
}


@checked
def verdicts(results: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Of every prediction: "expected", "parts" (what came, and whether it was expected), and the "verdict".

    The verdict is "held" if all parts held, "failed" if one did not, "open" if no run could tell, or its arms are not
    among the results.
    """
    found = {}
    for number, (expected, judged) in PREDICTIONS.items():
        try:
            parts = list(judged(results))
        except KeyError as missing:
            parts = [(f"no runs of {missing}", None)]
        said = [held for _, held in parts]
        verdict = "failed" if False in said else "open" if None in said else "held"
        found[number] = {"expected": expected, "parts": parts, "verdict": verdict}
    return found


@checked
def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """The `verdicts` as Markdown; what was not expected is in bold."""
    rows = []
    for number, found in verdicts(results).items():
        came = "; ".join(f"**{words}**" if held is False else words for words, held in found["parts"])
        rows.append((number, found["expected"], came, found["verdict"]))
    return _markdown.table(["", "expected", "came", ""], rows)


@checked
def report(results: dict[str, list[dict[str, Any]]]) -> str:
    """All tables of the experiments and what became of the predictions, as Markdown: `data/formation/results.md`."""
    tables = experiments.table(results)
    return f"# What came of the experiments\n\n{tables}\n## The predictions\n\n{table(results)}\n"
