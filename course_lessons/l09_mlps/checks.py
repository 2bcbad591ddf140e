"""Checks of lesson 09, MLPs: each exercise, and what each typical mistake is told."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_utils.course import solutions
from course_utils.course.exercises import Answer, Said, compared
from course_utils.course.expectations import close

Two = tuple[Tensor, Tensor]


def _ruler(change: Callable[[Tensor, Tensor], Any]) -> Answer:
    """Our curves and votes, changed."""
    return lambda *given: change(*solutions.answer("wave_neurons")(*given))


def _unlike_waves(got: Sequence[Tensor], right: Two, n: int, period: int, m: int) -> Said:
    """What is wrong with the curves, or with the votes alone, in the first case."""
    if n != 24:
        return None
    (curves, votes), first = got, got[0][:, 0]
    again = close(curves[:period], curves[period : 2 * period])
    peak = close(first[0], 1) and close(first.max(), 1)
    votes_again = close(votes[:, :period], votes[:, period : 2 * period])
    return {
        "a curve should come back after `period` values: "
        "its angle is 2π value / period.": not again,
        "neuron 0's curve should have a peak of height 1 at value 0.": not peak,
        "neuron 0's curve should be cos(2π value / period).": not close(first, right[0][:, 0]),
        "neuron j's curve should peak at the phase 2πj/m, j = 0, 1, … m − 1.": not close(
            curves, right[0]
        ),
        "the votes should have the same period as the curves.": not votes_again,
    }


wave_neurons = compared(
    "`wave_neurons(n, period, m) → curves [n, m], votes [m, n]`: "
    "m neurons of one ruler, phases evenly spread.",
    returns=("the curves [value, neuron]", "the votes [neuron, output]"),
    cases=lambda: {
        "the votes should be waves of height 1, that peak at twice the phase.": (24, 8, 5),
        "it is right for n = 24, period = 8, m = 5, and wrong for n = 17, period = 19.7, m = 4.": (
            17,
            19.7,
            4,
        ),
        "it is right for n = 24, period = 8, m = 5, and wrong for n = 9, period = 3, m = 1.": (
            9,
            3,
            1,
        ),
    },
    mistakes={
        "neuron j's curve should peak at the phase 2πj/m, not at −2πj/m: cos(angle − phase).": (
            _ruler(lambda L, V: (L[:, -torch.arange(len(V))], V[-torch.arange(len(V))])),
            _ruler(lambda L, V: (L[:, -torch.arange(len(V))], V)),
        ),
        "each neuron votes for the numbers themselves, with the phase of its curve. But it fires "
        "when both are there, and then the sum is somewhere else.": _ruler(lambda L, V: (L, L.T)),
        "the votes are upside down: where the sum should be is now a trough.": _ruler(
            lambda L, V: (L, -V)
        ),
    },
    explain=_unlike_waves,
)


expected_answer = compared(
    "`expected_answer(a, b, periods) → int`: "
    "what an adder made of such rulers will answer, its mistakes included.",
    cases=lambda: {
        "3 + 2 with rulers of 20, 7 and 3: none is blind, and the answer is 5.": (3, 2, [20, 7, 3]),
        "50 + 30 with rulers of 7 and 3: 80 leaves 3 and 2; the smallest such is 17.": (
            50,
            30,
            [7, 3],
        ),
        "at a difference of a whole period a ruler sees everything.": (50, 30, [20, 7, 3]),
        "40 + 37 with rulers of 7 and 20: a ruler of odd period is never blind, "
        "because no whole number is half of it.": (40, 37, [7, 20]),
        "45 + 35 with rulers of 20, 7 and 3: "
        "without the blind one the smallest number that fits is 17.": [(45, 35, [20, 7, 3])],
        "35 + 45 should get the same answer as 45 + 35.": (35, 45, [20, 7, 3]),
        "at a difference of one and a half periods a ruler is blind as well.": (55, 25, [20, 7, 3]),
        "when all rulers are blind every number fits, and the smallest is 0.": (5, 0, [10]),
        **{
            f"{a} + {b} with rulers of {', '.join(map(str, periods))} has another answer: "
            "which of them see, "
            "and what is the smallest number that has the sum's remainder for each of those?": (
                a,
                b,
                periods,
            )
            for periods in ([12, 5], [4, 9, 6], [2, 3])
            for a in range(0, 40, 3)
            for b in range(0, 40, 7)
        },
    },
    explain=lambda got, right, a, b, p: {
        50: "50 + 30 with rulers of 7 and 3: "
        "they know the sum only up to 21, and a tie goes to the smallest number.",
        45: "45 + 35 with rulers of 20, 7 and 3: "
        "the difference is half of 20, so that ruler is blind.",
    }.get(a if got == a + b else -1),
)
