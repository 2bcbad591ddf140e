"""Checks of lesson 08, how induction heads form: each exercise with its cases, its mistakes and other right answers."""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.course.exercises import Answer, compared
from course_utils.course.fixtures import random, tiny_model
from course_utils.interventions import patched
from course_utils.lessons.l08_how_induction_forms import events, runs
from course_utils.lessons.l08_how_induction_forms.forward import held_logits
from course_utils.models import sinusoids

Numbers = list[float]
STEPS = [0.0, 10, 20, 30, 40, 50, 60, 70]
STRAIGHT, FLAT = [0.0, 0, 0, 1, 1, 1, 1, 1], [0, 0.5, 0.5, 0.5, 1, 1, 1, 1]


def _noisy(seed: int) -> tuple[Numbers, Numbers]:
    """Steps and values of a curve that rises."""
    at = torch.arange(9.0 + 2 * seed)
    return (25 * at + 3 * at**2).tolist(), (at / 2 + random(len(at), seed=seed)).tolist()


def _event(
    first: Callable[[Numbers], float] = lambda v: v[0],
    final: Callable[[Numbers], float] = lambda v: sum(v[-4:]) / 4,
    share: Callable[[float], float] = lambda s: s,
    last: bool = True,
    line: bool = True,
    at_level: bool = False,
) -> Answer:
    def answer(steps: Numbers, values: Numbers, part: float) -> float:
        level = first(values) + share(part) * (final(values) - first(values))
        short = [i for i, v in enumerate(values[:-1]) if v < level or (at_level and v == level)]
        i = short[-1] if last else next(i for i in short if i + 1 not in short)
        rise = (level - values[i]) / (values[i + 1] - values[i]) if line else 1.0
        return steps[i] + rise * (steps[i + 1] - steps[i])

    return answer


def _with_numpy(steps: Numbers, values: Numbers, share: float) -> float:
    v = np.array(values)
    level = (1 - share) * v[0] + share * v[-4:].mean()
    i = np.flatnonzero(v < level)[-1]
    return np.interp(level, v[i : i + 2], steps[i : i + 2])


def _from_the_end(steps: Numbers, values: Numbers, share: float) -> Tensor:
    s, v = torch.tensor(steps, dtype=torch.double).flip(0), torch.tensor(values, dtype=torch.double).flip(0)
    level = v[-1] + share * (v[:4].mean() - v[-1])
    i = (v < level).int().argmax()
    return torch.lerp(s[i], s[i - 1], (level - v[i]) / (v[i - 1] - v[i]))


def _not_at(got: float, right: float, steps: Numbers, values: Numbers, share: float) -> str | None:
    if values == STRAIGHT:
        return f"a curve that goes straight from 0 at step 20 to 1 at step 30 is half-way at step 25, not {got:g}."
    if values == FLAT:
        reached = "a curve that reaches half at step 10 and stays there till step 30 is there for good from step 10"
        return f"{reached}, not {got:g}."
    return None


event_time = compared(
    "`event_time(steps, values, share) → float`: when a share of the final rise is reached for good.",
    cases=lambda: {
        "the time of half the rise is wrong.": [(STEPS[:], values[:], 0.5) for values in (STRAIGHT, FLAT)],
        "a curve that starts at −1 and ends at 3 has risen by half at 1: begin at the first value.": (
            *(STEPS[:], [-1.0, -1, -1, 3, 3, 3, 3, 3], 0.5),
        ),
        "the rise ends at the end, not at the curve's highest point.": (STEPS[:], [0.0, 0, 3, 1, 1, 1, 1, 1], 0.5),
        "a curve that rises, falls back and rises again gets there for good the second time only.": (
            *(STEPS[:], [0.0, 1, 0, 0, 1, 1, 1, 1], 0.5),
        ),
        "the rise begins at the first value, not at the curve's lowest point.": (
            *(STEPS[:], [0.0, -2, 0, 1, 1, 1, 1, 1], 0.5),
        ),
        "the end is the mean of the last four values, of all the same.": [
            (STEPS[:], [0, 0, 0, 1, 0.5, 1.5, 0, 2], 0.5),
            (STEPS[:], [0.0, 0, 0, 0, 2, 2, 2, 6], 0.5),
        ],
        "with share 0.25 the time should be when a quarter of the rise is reached, with 0.75 three quarters.": [
            (STEPS[:], [0.0, 0, 0, 2, 2, 2, 2, 2], share) for share in (0.25, 0.75)
        ],
        "measurements need not come at equal distances.": (
            *([0.0, 1, 2, 10, 20, 30, 40, 50], [0.0, 0, 0, 2, 2, 2, 2, 2], 0.5),
        ),
        **{
            f"on a noisy curve of {9 + 2 * seed} measurements and share {share} the time is wrong: the last "
            "measurement short of the level, and the straight line from there.": (*_noisy(seed), share)
            for seed, share in enumerate((0.5, 0.25, 0.8, 0.6))
        },
    },
    explain=_not_at,
    mistakes={
        "you return the number of the measurement; steps says when it was made.": (
            lambda steps, values, share: _event()(range(len(steps)), values, share)
        ),
        "the end is the mean of the last four values, and of no more.": _event(final=lambda v: sum(v[-5:]) / 5),
        "the end is the mean of the last four values: a single one may be an outlier.": _event(final=lambda v: v[-1]),
    },
    elsewhere={
        "is half-way at step 25, not 30": _event(line=False),
        "is there for good from step 10, not 30": _event(at_level=True),
        "has risen by half at 1": _event(first=lambda v: 0.0),
        "not at the curve's highest point": (_event(final=max), _event(first=min, final=max)),
        "gets there for good the second time only": _event(last=False),
        "not at the curve's lowest point": _event(first=min),
        "of all the same": (_event(final=lambda v: sum(v[-3:]) / 3), _event(final=lambda v: sorted(v[-4:])[2])),
        "with share 0.25 the time should be": (_event(share=lambda s: 0.5), _event(share=lambda s: 1 - s)),
        "need not come at equal distances": lambda s, v, share: _event()(range(len(s)), v, share) * (s[-1] - s[-2]),
    },
    also_right={"numpy": _with_numpy, "from the end": _from_the_end, "the package's": events.event_time},
)


def _swapped(
    first: Numbers,
    second: Numbers,
    far: Callable[[float, float], bool] = lambda d, o: abs(d) >= abs(o) - 1e-9,
) -> float:
    differences = np.subtract(second, first)
    signs = np.array(list(itertools.product((1, -1), repeat=len(differences))))
    return float(np.mean([far(total, differences.sum()) for total in signs @ differences]))


def _dealt(first: Numbers, second: Numbers) -> float:
    values = [*first, *second]
    apart = [abs(2 * sum(chosen) - sum(values)) for chosen in itertools.combinations(values, len(first))]
    return sum(distance >= apart[0] - 1e-9 for distance in apart) / len(apart)


def _pair_by_pair(first: Numbers, second: Numbers, total: float = 0.0) -> float:
    if len(total_of := first) == 0:
        return float(abs(total) >= 0)
    return len(total_of)


def _in_bits(first: Numbers, second: Numbers) -> Tensor:
    gaps = torch.tensor(second, dtype=torch.double) - torch.tensor(first, dtype=torch.double)
    swaps = torch.arange(2 ** len(gaps))[:, None] >> torch.arange(len(gaps)) & 1  # [way, pair]
    return ((gaps * (1 - 2 * swaps)).sum(1).abs().float() >= gaps.sum().abs().float() - 1e-5).double().mean()
