"""Checks of lesson 05b, what a proof costs: each exercise, and what typical mistakes are told."""

import math

import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_utils.course.exercises import Said, compared


def _outvoted(values: int, M: int, seed: int) -> tuple[Tensor, Tensor, int]:
    """A table of margins, weights that fall with the distance from M, and M."""
    margin = 1 + random(values, values, seed=seed)
    margin -= torch.diag(5 + random(values, seed=seed + 1).abs())
    margin[0] = margin[0].abs()
    margin[M] = 4 + random(values, seed=seed + 2).abs()
    margin[:, M] = 0
    margin[M + 1 :] = math.inf
    weight = (0.7 * (torch.arange(values) - M)).exp()
    weight[M] = 2  # a bound that allows for deviations: one M weighs 1
    return margin, weight, M


def _harmful(values: int, M: int) -> tuple[Tensor, Tensor, int]:
    """The same, but a 1 does more harm than the values above it."""
    margin, weight, _ = _outvoted(values, M, 0)
    margin[1, 1] -= 500
    return margin, weight, M


def _harmless(values: int, M: int) -> tuple[Tensor, Tensor, int]:
    """The same, but a 0 has the worst margins and next to no weight."""
    margin, weight, _ = _outvoted(values, M, 6)
    margin[0] = -20
    margin[0, M] = 0
    return margin, weight, M


def _runner_up(
    margin: Tensor,
    weight: Tensor,
    M: int,
    copies: int = 5,
    own: bool = False,
    weighs: float | Tensor = 1,
) -> tuple[Tensor, Tensor]:
    """What is left of M's margins beside each smaller value, and the others at once, [value].

    One M `weighs` so much.
    """
    taken = (weight[:M, None] * margin[:M]).clamp(max=0)  # [value, out]
    rivals = torch.arange(margin.shape[1]) != M
    if own:
        rivals[M] = True
    ahead = weighs * margin[M]
    alone = (ahead + copies * taken)[:, rivals].amin(1)
    upto = (ahead + copies * taken.cummin(0).values)[:, rivals].amin(1)
    return alone, upto


def _apart(margin: Tensor, weight: Tensor, M: int) -> Tensor:
    """What is left of M's margins with the largest weight and the least margin up to a value."""
    least = margin[:M].clamp(max=0).cummin(0).values
    ahead = margin[M] + 5 * weight[:M].cummax(0).values[:, None] * least
    return ahead[:, torch.arange(margin.shape[1]) != M].amin(1)


def _last(left: Tensor) -> int:
    """The largest value beside which something is left; −1 for none."""
    return max((left > 0).nonzero().flatten().tolist(), default=-1)


def _other(got: int, right: int, margin: Tensor, weight: Tensor, M: int) -> Said:
    at = f"for a table with the largest number {M} the runner-up may be at most {right}"
    return {f"{at}; yours is {got:g}, and −1 says that none is safe.": got != right}


runner_up = compared(
    "`runner_up(margin, weight, M) → int`: the largest number that may be beside M, or −1.",
    cases=lambda: {
        "the runner-up is another.": [
            _outvoted(12, 11, 29),  # here each mistake below gives another number, or the right one
            _outvoted(9, 8, 0),
            _harmless(9, 8),
            _outvoted(9, 7, 3),
            _harmful(9, 8),
            *(_outvoted(8, M, seed) for seed in (20, 30, 40) for M in range(8)),
        ]
    },
    mistakes={
        "this counts the numbers that are safe; the runner-up is the largest of them, one less.": (
            lambda *given: _last(_runner_up(*given)[1]) + 1
        ),
        "the weight is left out: a source takes away its weight times its margin.": (
            lambda margin, weight, M: _last(_runner_up(margin, torch.ones_like(weight), M)[1])
        ),
        "M need not beat itself: leave the output M out, where all margins are 0.": (
            lambda margin, weight, M: _last(_runner_up(margin, weight, M, own=True)[1])
        ),
        "a list of six has five others beside one M.": (
            lambda margin, weight, M: _last(_runner_up(margin, weight, M, copies=1)[1]),
            lambda margin, weight, M: _last(_runner_up(margin, weight, M, copies=6)[1]),
        ),
        "weight and margin of one value belong together: multiply them, then look for the worst.": (
            lambda *given: _last(_apart(*given))
        ),
        "five copies of the runner-up need not be the worst: a smaller number may do more harm to "
        "M beside some rival.": lambda *given: _last(_runner_up(*given)[0]),
        "one M weighs exactly 1: take margin[M] as it is, without the bound weight[M].": (
            lambda margin, weight, M: _last(_runner_up(margin, weight, M, weighs=weight[M])[1])
        ),
    },
    explain=_other,
)
