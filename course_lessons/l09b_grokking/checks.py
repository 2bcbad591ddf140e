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


def _means(table: Tensor, unseen: Tensor) -> Tensor:
    """The mean of each sum: what is left of a table with an odd size if all waves stay."""
    return _waves(table, list(range(1, len(table) // 2 + 1)), unseen)


def _unseen(n: int) -> Tensor:
    """Some two thirds of all pairs, with every sum among them."""
    return (random(n, n, seed=n) > -0.4) | (torch.arange(n) == 0)[:, None]


def _unlike_sums(
    got: Tensor, right: Tensor, table: Tensor, frequencies: Sequence[int], unseen: Tensor
) -> str | None:
    a = torch.arange(len(table))
    alike = got[a, 1 - a]
    says = (
        f"pairs with the same sum modulo {len(table)}, "
        "the size of the table, should get the same logits."
    )
    return None if close(alike.amax(0), alike.amin(0)) else says


only_waves = compared(
    "`only_waves(table, frequencies, unseen) → table`: "
    "waves of a + b at these frequencies, and a constant.",
    returns="[a, b, answer]",
    cases=lambda: {
        f"with {n} numbers and the frequencies {f} the waves are not those.": (
            random(n, n, n, seed=n),
            f,
            _unseen(n),
        )
        for n, f in ((7, [2]), (11, [1, 4, 5]), (5, [1, 2]))
    },
    mistakes={
        "the table came back as it was.": lambda table, f, unseen: table,
        "this is what is left without the waves: return the waves.": lambda t, f, unseen: (
            t - _waves(t, f, unseen)
        ),
        "these are the means by sum; of them only the waves at `frequencies` should stay.": (
            lambda table, f, unseen: _means(table, unseen)
        ),
        "the means are over all pairs: take those of the unseen ones, or pairs "
        "known by heart give them away.": (lambda table, f, unseen: _waves(table, f, _all(table))),
        "the means are over the training pairs: take the others, `unseen`.": (
            lambda table, f, unseen: _waves(
                table, f, ~unseen | (torch.arange(len(table)) == 0)[:, None]
            )
        ),
        "the constant of each answer is missing: keep it.": lambda table, f, unseen: (
            _waves(table, f, unseen) - _waves(table, [], unseen)
        ),
        "these are waves along the answers; "
        "they should be waves along the sums: one column for each answer.": (
            lambda table, f, unseen: fourier.projected(
                _means(table, unseen).flatten(0, 1).T, f
            ).T.view_as(table)
        ),
    },
    explain=_unlike_sums,
)
