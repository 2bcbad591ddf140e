"""What a proof about max-of-list costs, and what the line and the voices say of each value."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from transformer_lens import HookedTransformer

from course_lessons.max_of_list import census, one_line, tables, vote_table
from course_utils._arguments import Count, validated


class _Counted(TorchDispatchMode):
    """Counts numbers while tensors are worked with.

    Of each operation it counts those of its largest argument or result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [one for one in pytree.tree_leaves(args) if isinstance(one, Tensor)]
        made = [one for one in pytree.tree_leaves(result) if isinstance(one, Tensor)]
        places = {one.untyped_storage().data_ptr() for one in given}
        is_new = any(one.untyped_storage().data_ptr() not in places for one in made)
        if not made or func._schema.is_mutable or is_new:  # a view reads nothing
            self.count += max((one.numel() for one in [*given, *made]), default=0)
        return result


@validated
def operations(proof: Callable[[], object]) -> int:
    """How many numbers a proof reads from tables or works out, counted while it runs."""
    with _Counted() as counted:
        proof()
    return counted.count


@validated
def line_weight(
    model: HookedTransformer, n: Count, exact: bool = False
) -> Float[Tensor, "largest value"]:
    """The most weight, by the line, that a source of value v can have beside one M.

    The list has length n. The line must rise from v to M. The pull is the least of the values up to
    M, all that can be last; the largest deviation from the line does its worst on both sides,
    unless `exact` asks what the line would give without.
    """
    f, g, deviation = one_line(model, n)
    weakest = f.cummin(0).values[:, None]  # row M: of the queries up to M
    return ((0 if exact else 2 * deviation) - weakest * (g[:, None] - g)).exp()


@validated
def least_margins(model: HookedTransformer, n: Count) -> Float[Tensor, "largest value out"]:
    """By how much a source's vote raises M above each output, at the worst position and last value.

    The list has length n, its largest value is M, and the source has the weight 1. Values above M
    have infinity: they can't be in the list.
    """
    _, say, direct = tables(model, n)
    values = len(direct)
    found = torch.full((values, values, values), math.inf, dtype=torch.double)
    for M in range(values):
        last = (direct[: M + 1, M, None] - direct[: M + 1]).amin(0)  # [out]
        found[M, : M + 1] = (say[:, : M + 1, M, None] - say[:, : M + 1]).amin(0) + last
    return found


@validated
def values_allowed(
    model: HookedTransformer, n: Count, weight: Float[Tensor, "largest value"]
) -> list[int]:
    """For each largest M, how many of the values 0, 1, … may be beside it if M is to win for sure.

    The list has length n. weight[M, v] is the most weight that a source of value v < M can have if
    one M has 1. A list of nothing but M is taken to be right.
    """
    allowed = []
    for M, margin in enumerate(least_margins(model, n)):
        # what one source of a smaller value can take away, the worst of all values up to this one
        worst = (weight[M, :M, None] * margin[:M]).clamp(max=0).cummin(0).values
        least = margin[M] + (n - 1) * worst  # with 0 beside M, with 0 and 1, …
        least[:, M] = math.inf  # M need not beat itself
        allowed.append(int((least > 0).all(1).sum()))
    return allowed


@validated
def share_proved(allowed: Sequence[int], n: Count) -> float:
    """The share of lists of length n with only so many of the smallest beside each largest."""
    return sum((many + 1) ** n - many**n for many in allowed) / len(allowed) ** n


@validated
def voices(model: HookedTransformer, n: Count) -> Float[Tensor, " value"]:
    """For M = 1, 2, … at length n, how many times as loud M votes for itself as M − 1 does.

    By how much a vote of M raises M above M − 1, least over its positions before the last, divided
    by the mean, over all positions, of how much a vote of M − 1 does the reverse. M − 1 is last. A
    vote that lowers M has 0.01.
    """
    _, say, direct = tables(model, n)
    M = torch.arange(1, len(direct))
    q = M - 1
    own = (say[:-1, M, M] - say[:-1, M, q]).amin(0) + direct[q, M] - direct[q, q]  # [value]
    below = (say[:, q, q] - say[:, q, M]).mean(0) + direct[q, q] - direct[q, M]
    return (own / below).clamp(min=0.01)


@validated
def wrong_with_steps(model: HookedTransformer, n: Count, steps: Float[Tensor, " step"]) -> int:
    """How many lists of length n are wrong if the steps of the line are in this proportion.

    Both ends of the line stay where they are. Only keys are moved.
    """
    f, g, _ = one_line(model, n)
    steps = (g[-1] - g[0]) * steps / steps.sum()
    places = torch.cat([torch.zeros(1), steps.cumsum(0)]) + g[0]  # [value]
    extra = torch.outer(f, places - g)[:, None]  # what this adds to the scores, [query, 1, value]
    return len(census(vote_table(model, n, extra.expand(-1, n, -1))))
