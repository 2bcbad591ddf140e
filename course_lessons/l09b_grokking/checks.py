"""Checks of lesson 09b, grokking: each exercise, and what each typical mistake is told."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lessons import fourier
from course_lessons.fixtures import random
from course_utils.course import solutions
from course_utils.course.exercises import compared
from course_utils.course.expectations import close

_waves = solutions.answer("only_waves")


def _all(table: Tensor) -> Tensor:
    return torch.ones(table.shape[:2], dtype=torch.bool)


def _means(table: Tensor, new: Tensor) -> Tensor:
    """The mean of each sum: what is left of a table with an odd size if all waves stay."""
    return _waves(table, list(range(1, len(table) // 2 + 1)), new)


def _some(n: int) -> Tensor:
    """Some two thirds of all pairs, with every sum among them."""
    return (random(n, n, seed=n) > -0.4) | (torch.arange(n) == 0)[:, None]


def _unlike_sums(
    got: Tensor, right: Tensor, table: Tensor, frequencies: Sequence[int], new: Tensor
) -> str | None:
    a = torch.arange(len(table))
    alike = got[a, 1 - a]
    says = (
        f"pairs with the same sum modulo {len(table)}, "
        "the size of the table, should get the same logits."
    )
    return None if close(alike.amax(0), alike.amin(0)) else says


only_waves = compared(
    "`only_waves(table, frequencies, new) → table`: "
    "waves of a + b at these frequencies, and a constant.",
    returns="[a, b, answer]",
    cases=lambda: {
        f"with {n} numbers and the frequencies {f} the waves are not those.": (
            random(n, n, n, seed=n),
            f,
            _some(n),
        )
        for n, f in ((7, [2]), (11, [1, 4, 5]), (5, [1, 2]))
    },
    mistakes={
        "the table came back as it was.": lambda table, f, new: table,
        "this is what is left without the waves: return the waves.": lambda t, f, new: (
            t - _waves(t, f, new)
        ),
        "these are the means by sum; of them only the waves at `frequencies` should stay.": (
            lambda table, f, new: _means(table, new)
        ),
        "the means are over all pairs: take those of the new ones, or pairs "
        "that are memorised give the answers away.": (
            lambda table, f, new: _waves(table, f, _all(table))
        ),
        "divide the sum of the new pairs by their number, not by that of all pairs.": (
            lambda table, f, new: _waves(table * new[..., None], f, _all(table))
        ),
        "the means are over the pairs that are not new: take the others, `new`.": (
            lambda table, f, new: _waves(table, f, ~new | (torch.arange(len(table)) == 0)[:, None])
        ),
        "the constant of each answer is missing: keep it.": lambda table, f, new: (
            _waves(table, f, new) - _waves(table, [], new)
        ),
        "these are waves along the answers; "
        "they should be waves along the sums: one column for each answer.": (
            lambda table, f, new: fourier.projected(
                _means(table, new).flatten(0, 1).T, f
            ).T.view_as(table)
        ),
    },
    explain=_unlike_sums,
)
