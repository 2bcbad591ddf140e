"""Answers to lesson 08b's exercises: others that are right, and wrong ones with what they hear."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from course_lessons.formation import events
from course_lessons.l08b_how_sure.checks import OBJECTIONS, RIGHT, WORDS, Numbers
from course_utils.course.exercises import Answer


def _event(
    first: Callable[[Numbers], float] = lambda v: v[0],
    final: Callable[[Numbers], float] = lambda v: sum(v[-4:]) / 4,
    share: Callable[[float], float] = lambda s: s,
    last: int = -1,
    line: bool = True,
    at_level: bool = False,
) -> Answer:
    def answer(steps: Numbers, values: Numbers, part: float) -> float:
        level = first(values) + share(part) * (final(values) - first(values))
        short = [v <= level if at_level else v < level for v in values]
        pairs = enumerate(itertools.pairwise(short))
        i = [i for i, (here, there) in pairs if here and not there][last]
        rise = (level - values[i]) / (values[i + 1] - values[i]) if line else 1.0
        return steps[i] + rise * (steps[i + 1] - steps[i])

    return answer


def _with_numpy(steps: Numbers, values: Numbers, share: float) -> float:
    level = (1 - share) * values[0] + share * np.mean(values[-4:])
    i = np.flatnonzero(np.array(values) < level)[-1]
    return np.interp(level, values[i : i + 2], steps[i : i + 2])


def _from_the_end(steps: Numbers, values: Numbers, share: float) -> Tensor:
    s, v = torch.tensor([steps, values], dtype=torch.double).flip(1)
    level = v[-1] + share * (v[:4].mean() - v[-1])
    i = int((v < level).nonzero()[0])
    return torch.lerp(s[i], s[i - 1], (level - v[i]) / (v[i - 1] - v[i]))


def _swapped(
    first: Numbers,
    second: Numbers,
    far: Callable[[float, float], bool] = lambda d, o: abs(d) >= abs(o) - 1e-9,
) -> float:
    differences = [b - a for a, b in zip(first, second, strict=True)]
    ways = [sum(way) for way in itertools.product(*((d, -d) for d in differences))]
    return sum(far(total, sum(differences)) for total in ways) / len(ways)


def _in_bits(first: Numbers, second: Numbers) -> Tensor:
    gaps = torch.tensor(second) - torch.tensor(first)
    kept = torch.arange(2 ** len(gaps))[:, None] >> torch.arange(len(gaps)) & 1  # [way, pair]
    sums = torch.where(kept.bool(), gaps, -gaps).sum(1)
    return (sums.abs() > gaps.sum().abs() - 1e-5).double().mean()


def _values_swapped(first: Numbers, second: Numbers) -> float:
    """Every way to swap, made of the values themselves."""
    # [way, pair]: the first group then
    ways = np.array(list(itertools.product(*zip(first, second, strict=True))))
    apart = np.abs(np.mean([*first, *second]) - ways.mean(1))
    return np.isclose(apart, apart[0]).mean() + (apart > apart[0] + 1e-6).mean()


def _signs(first: list[float], second: list[float]) -> float:
    """A sign test: how often a fair coin gives an order at least as one-sided."""
    later = [b > a for a, b in zip(first, second, strict=True) if a != b]
    rarer = min(sum(later), len(later) - sum(later))
    return min(1.0, 2 * sum(math.comb(len(later), k) for k in range(rarer + 1)) / 2 ** len(later))


RIGHT_ANSWERS = {
    "event_time": {
        "numpy": _with_numpy,
        "from the end": _from_the_end,
        "the package's": events.event_time,
    },
    "paired_test": {
        "a list of sums": _swapped,
        "bits": _in_bits,
        "values swapped": _values_swapped,
    },
    "objections": {
        "two loops": lambda: (
            {letter: "fine" for letter in "AH"} | {k: WORDS["ABCDEFG".index(k)] for k in "BCDEFG"}
        ),
        "in another order": lambda: dict(reversed(RIGHT.items())),
        "with a note": lambda: RIGHT | {"note": "two are fine"},
    },
}


WRONG_ANSWERS = {
    "event_time": {
        "is half-way at step 25, not 30": _event(line=False),
        "is there for good from step 10, not 30": _event(at_level=True),
        "has risen by half at 1": _event(first=lambda v: 0.0),
        "not at the curve's highest point": (_event(final=max), _event(first=min, final=max)),
        "gets there for good the second time only": _event(last=0),
        "not at the curve's lowest point": _event(first=min),
        "of all the same": (
            _event(final=lambda v: sum(v[-3:]) / 3),
            _event(final=lambda v: sorted(v[-4:])[2]),
        ),
        "with share 0.25 the time should be": (
            _event(share=lambda s: 0.5),
            _event(share=lambda s: 1 - s),
        ),
        "need not come at equal distances": lambda s, v, share: (
            (s[-1] - s[-2]) * _event()(range(len(s)), v, share)
        ),
    },
    "paired_test": {
        "so the share is never 0": lambda a, b: _swapped(
            a, b, far=lambda d, o: abs(d) > abs(o) + 1e-9
        ),
        "a share lies between 0 and 1": lambda a, b: abs(sum(a) - sum(b)) / len(a),
        "you count all of the 16 ways": lambda a, b: _swapped(a, b, far=lambda d, o: d <= o),
        "2 part the means of [1, 7, 3, 9] and [2, 10, 5, 14]": lambda a, b: 1 - _swapped(a, b),
        "exchanging the groups": lambda a, b: _swapped(a, b, far=lambda d, o: abs(d) >= o - 1e-9),
        "sizes count, not only orders. Your share": _signs,
        "compare with a small tolerance": (
            events.paired_test,
            lambda a, b: _swapped(a, b, far=lambda d, o: abs(d) >= abs(o)),
        ),
    },
    "objections": {
        f"case {letter}: think again: {asked}": (
            lambda letter=letter: RIGHT | {letter: WORDS[RIGHT[letter] == "fine"]}
        )
        for letter, asked in OBJECTIONS.items()
    },
}
