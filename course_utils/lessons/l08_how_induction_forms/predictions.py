"""What became of the predictions in `data/formation/predictions.md`: each judged by the stored runs, without mercy.

A prediction has parts; it held if all of its parts held. Nothing here was adjusted after the runs were seen, except
where the words left a choice: then the choice stands beside the part.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from course_utils import _markdown
from course_utils._arguments import checked
from course_utils.lessons.l08_how_induction_forms import events
from course_utils.lessons.l08_how_induction_forms import experiments as ex
from course_utils.lessons.l08_how_induction_forms.experiments import Results

Parts = Iterator[tuple[str, bool | None]]  # what came; whether that was expected, None where no run could tell
PREDICTIONS: dict[str, tuple[str, Callable[[Results], Parts]]] = {}  # number → in short; what judges it


def _predicted(number: str, in_short: str) -> Callable:
    def noted(judge: Callable[[Results], Parts]) -> Callable[[Results], Parts]:
        PREDICTIONS[number] = in_short, judge
        return judge

    return noted


def _count(words: str, held: list[bool], least: float = 0, most: float = 1) -> tuple[str, bool]:
    """In how many runs something holds, and whether in at least and at most these shares of them."""
    return f"{words}{sum(held)} of {len(held)}", least * len(held) <= sum(held) <= most * len(held)


def _range(words: str, numbers: list[float], spec: str) -> str:
    return words.format(f"{min(numbers):{spec}} to {max(numbers):{spec}}")


@_predicted("1", "One layer looks 7 back more than 5 back `at once`; `spread`, nowhere more than 0.1")
def _1(results: Results) -> Parts:
    pairs = [(ex.looks_at(kept, 7), ex.looks_at(kept, 5)) for kept in results["one layer, at once"]]
    words = ", ".join(f"{seven:.2f} and {five:.2f}" for seven, five in pairs)
    yield f"at once, 7 and 5 back: {words}", all(seven > five for seven, five in pairs)
    most = max(ex.looks_at(kept, offset) for kept in results["one layer"] for offset in range(1, 20))
    yield f"spread, most at any offset: {most:.2f}", most <= 0.1


@_predicted("2", "`at once`, three in ten have a head that looks 7 or 8 back; `spread`, at most one run")
def _2(results: Results) -> Parts:
    yield _count("at once, 7 or 8 back: ", [ex.far_offset(kept) in (7, 8) for kept in results["at once"]], least=0.3)
    yield _count("spread, far: ", [ex.far_offset(kept) > 0 for kept in results["spread"]], most=1 / 30)


@_predicted("2, batches of 32", "The same `at once` with batches of 32")
def _2_again(results: Results) -> Parts:
    yield _count("7 or 8 back: ", [ex.far_offset(k) in (7, 8) for k in results["at once, batches of 32"]], least=0.3)


@_predicted("3", "With names of 5, far heads look 4 or 5 back")
def _3(results: Results) -> Parts:
    made = results["at once, names of 5"]
    far = [offset for kept in made if (offset := ex.far_offset(kept))]
    yield f"offsets: {ex.shown(far) or 'none'} (of {len(made)} runs)", set(far) <= {4, 5} if far else None


@_predicted("4", "Attention 7 back rises before saves, 8 back does not")
def _4(results: Results) -> Parts:
    """Both kinds of runs at once: prediction 2 was made for the batches of 32, too."""
    far = [kept for kept in results["at once"] + results["at once, batches of 32"] if ex.far_offset(kept) in (7, 8)]
    for offset, expected in ((7, True), (8, False)):
        lags = []
        for kept in far:
            steps, looks = [row["step"] for row in kept["history"]], [row["back"][offset] for row in kept["history"]]
            lag = ex.times(kept)["saves"] - events.event_time(steps, looks, least=0.1)
            lags += [] if math.isnan(lag) else [lag]
        held = all((lag > 0) == expected for lag in lags) if lags else None
        yield f"{offset} back is ahead of saves by {ex.shown(lags) or 'nothing: no such run'} steps", held


def _ends(results: Results, **arms: tuple[float, float]) -> Parts:
    for arm, (least, most) in arms.items():
        ends = [ex.diagonal_end(kept) for kept in results[arm]]
        yield f"{arm}: {ex.shown(ends)}", all(least <= end <= most for end in ends)


@_predicted("5", "`at once`, the diagonal ends at 56; in longer documents at 88")
def _5(results: Results) -> Parts:
    return _ends(results, **{"at once": (56, 56), "at once, longer documents": (88, 88)})


@_predicted("6", "`spread`, it ends between 50 and 58; in longer documents between 82 and 90")
def _6(results: Results) -> Parts:
    return _ends(results, **{"spread": (50, 58), "longer documents": (82, 90)})


@_predicted("7", "At half of positivity, less than a quarter of the lead; the lead comes with saves")
def _7(results: Results) -> Parts:
    shares, near = [], []
    for kept in results["spread"]:
        found, lead = ex.times(kept), ex.curve(kept, "lead")
        late = (at for at, row in zip(lead, kept["history"], strict=True) if row["step"] >= found["positivity"])
        shares.append(next(late, lead[-1]) / lead[-1])  # where it never comes, all of the lead is there before
        near.append(abs(found["lead"] - found["saves"]) <= 40)
    yield f"share of the lead then: at most {max(shares):.2f}", max(shares) < 0.25
    yield _count("lead within 40 steps of saves: ", near, least=1)


@_predicted("8", "The lead leaves chance before a tenth of saves; controls stay below half of it")
def _8(results: Results) -> Parts:
    ahead, controls = [], []
    for kept in results["spread"]:
        lead, chance, tenth = ex.curve(kept, "lead"), ex.curve(kept, "chance"), ex.times(kept, 0.1)["saves"]
        ahead.append(any(lead[i] > 3 * chance[i] for i, row in enumerate(kept["history"]) if row["step"] < tenth))
        controls.append(ex.curve(kept, "controls")[-1] < lead[-1] / 2)
    yield _count("above 3 × chance before a tenth of saves: ", ahead, least=1)
    yield _count("controls below half of the lead: ", controls, least=1)


@_predicted("9", "28 of 30 go the textbook's way")
def _9(results: Results) -> Parts:
    """ "Most at 1": of the offsets from 0 to 19, 1 gets more than any other, all heads together."""
    after = [[sum(at) for at in zip(*kept["looks"]["after"], strict=True)] for kept in results["spread"]]
    ways = [ex.way(kept) == "textbook" for kept in results["spread"]]
    yield _count("", [a.index(max(a)) == 1 and way for a, way in zip(after, ways, strict=True)], least=28 / 30)


@_predicted("10", "Lead before prefix matching in 24 of 30; no fixed order among the other three")
def _10(results: Results) -> Parts:
    found = [ex.times(kept) for kept in results["spread"]]
    yield _count("lead before prefix matching: ", [t["lead"] < t["prefix matching"] for t in found], least=0.8)
    for one, other in itertools.combinations(("prefix matching", "saves", "in-context learning"), 2):
        yield _count(f"{one} before {other}: ", [t[one] < t[other] for t in found], least=0.1, most=0.9)


@_predicted("11", "A head that looks 1 back brings it 50 steps forward in all seeds; 2, 3, 8 back do nothing")
def _11(results: Results) -> Parts:
    for back in (1, 2, 3, 8):
        compared = ex.comparison(results, f"planted {back} back")
        mean, differences = compared["mean"] - compared["against"], compared["differences"]
        held = max(differences) <= -50 if back == 1 else abs(mean) <= 25
        yield _range(f"{back} back: {mean:+.0f} on average, from {{}}", differences, "+.0f"), held


@_predicted("12", "Held at its end: look and match a fifth each, copy under a tenth, both more, all by step 60")
def _12(results: Results) -> Parts:
    arms = ("look", "match", "copy", "look and match", "all")
    *compared, whole = (ex.comparison(results, f"{name} held at its end") for name in arms)
    look, match, copy, both = (1 - arm["mean"] / arm["against"] for arm in compared)
    yield f"look forward by {look:.0%}, match by {match:.0%}", min(look, match) >= 0.2
    yield f"copy by {copy:.0%}", copy < 0.1
    yield f"look and match by {both:.0%}", both > max(look, match)
    yield f"all at step {whole['mean']:.0f}", whole["mean"] <= 60


@_predicted("13", "Held at its start: nothing ever comes; with look held, the lead still leaves chance")
def _13(results: Results) -> Parts:
    """The lead of the pair that ends with the largest multiple of chance: the rule's scores mean nothing here."""
    for name in ("match", "copy", "look"):
        compared = ex.comparison(results, f"{name} held at its start")
        yield f"{name}: never in {compared['never']} of {compared['seeds']}", compared["never"] == compared["seeds"]
    largest = []
    for kept in results["look held at its start"]:
        leads, chances = (itertools.chain(*kept["history"][-1][name]) for name in ("lead", "chance"))
        largest.append(max(lead / chance for lead, chance in zip(leads, chances, strict=True)))
    yield _range("look: largest lead {} times chance", largest, ".1f"), min(largest) > 3


@_predicted("14", "The best head is worth a third; others take over; the least head does not matter")
def _14(results: Results) -> Parts:
    spread, late = (ex.by_seed(results[arm]) for arm in ("spread", "without the best head, late"))
    costs = [1 - ex.left_without_best(kept) for kept in spread.values()]
    yield _range("taking it away costs {}", costs, ".0%"), min(costs) >= 1 / 3
    saves = ex.comparison(results, "without the best head")["saves"]
    yield _range("trained without it: {} saved", saves, ".0%"), min(saves) >= 0.9
    taken = [ex.taken_over(kept, spread[seed]) for seed, kept in late.items()]
    yield _range("without it from 300: {} came back", taken, ".0%"), min(taken) >= 0.5
    differences = ex.comparison(results, "without the least head")["differences"]
    yield _range("without the least: {} steps", differences, "+.0f"), max(map(abs, differences)) < 25


@checked
def verdicts(results: Results) -> dict[str, dict[str, Any]]:
    """Of every prediction "expected", "parts" (what came, and whether it was expected) and the "verdict".

    It "held" if all parts did and "failed" if one did not; "open" if no run could tell, or its runs are missing.
    """
    found = {}
    for number, (expected, judge) in PREDICTIONS.items():
        try:
            parts = list(judge(results))
        except KeyError as missing:
            parts = [(f"no runs of {missing}", None)]
        said = [held for _, held in parts]
        verdict = "failed" if False in said else "open" if None in said else "held"
        found[number] = {"expected": expected, "parts": parts, "verdict": verdict}
    return found


@checked
def report(results: Results) -> str:
    """All tables of the experiments and the verdicts, the unexpected in bold: `data/formation/results.md`."""
    rows = []
    for number, found in verdicts(results).items():
        came = "; ".join(f"**{words}**" if held is False else words for words, held in found["parts"])
        rows.append((number, found["expected"], came, found["verdict"]))
    table = _markdown.table(["", "expected", "came", ""], rows)
    return f"# What came of the experiments\n\n{ex.table(results)}\n## The predictions\n\n{table}\n"
