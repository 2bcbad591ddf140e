"""When something happens on a training curve, and whether several runs agree on the order."""

import math
from collections import Counter
from collections.abc import Sequence

from course_utils._arguments import NotNegative, validated


@validated
def chosen_head(history: list[dict], score: str, layer: NotNegative, best: bool = True) -> int:
    """The head of a layer that ends with the highest score, or with the lowest.

    It is chosen once, at the end.
    """
    last = history[-1][score][layer]
    return last.index(max(last) if best else min(last))


@validated
def event_time(steps: Sequence[float], values: Sequence[float], share: float = 0.5) -> float:
    """When a share of a curve's rise (or fall) is reached for good, in steps.

    Between measurements the curve is a straight line. The rise goes from the first value to the
    mean of the last four. Not a number if there is none, or if the curve ends on the wrong side:
    then nothing happened.
    """
    first, final = values[0], sum(values[-4:]) / 4
    if final == first:
        return math.nan
    return reached(steps, values, first + share * (final - first), rising=final > first)


@validated
def reached(
    steps: Sequence[float], values: Sequence[float], level: float, rising: bool = True
) -> float:
    """When a curve is at a level for good, in steps, by straight lines.

    The result is not a number if the curve ends on the wrong side.
    """
    short = [i for i, value in enumerate(values) if (value < level if rising else value > level)]
    if not short:
        return float(steps[0])
    i = short[-1]  # the last time short of it
    if i == len(values) - 1:
        return math.nan
    return steps[i] + (level - values[i]) / (values[i + 1] - values[i]) * (steps[i + 1] - steps[i])


@validated
def exponent(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """The k of times ∝ sizesᵏ, by least squares on logarithms, and its standard error."""
    x, y = ([math.log(value) for value in values] for values in (sizes, times))
    mean, level = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean) ** 2 for a in x)
    slope = sum((a - mean) * (b - level) for a, b in zip(x, y, strict=True)) / spread
    left = sum((b - level - slope * (a - mean)) ** 2 for a, b in zip(x, y, strict=True))
    return slope, math.sqrt(left / (len(x) - 2) / spread)


@validated
def paired_test(first: Sequence[float], second: Sequence[float]) -> float:
    """The share of all 2ⁿ swaps within pairs that part the means at least as far.

    It is exact. Pairs belong together (the same seed, say), so only swaps within them are as likely
    as what was seen. Differences are rounded to whole numbers: then few different sums can occur,
    and they are counted one pair after the other. Pairs in which something is not a number are left
    out.
    """
    gaps = [b - a for a, b in zip(first, second, strict=True)]
    differences = [round(gap) for gap in gaps if not math.isnan(gap)]
    ways = Counter({0: 1})  # sum of the differences so far → in how many ways it comes about
    for d in differences:
        kept = Counter({total + d: n for total, n in ways.items()})
        swapped = Counter({total - d: n for total, n in ways.items()})
        ways = kept + swapped
    observed = abs(sum(differences))
    return sum(n for total, n in ways.items() if abs(total) >= observed) / 2 ** len(differences)
