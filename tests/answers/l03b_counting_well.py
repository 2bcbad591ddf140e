"""Answers to lesson 03b's exercises: others that are right, and wrong ones with what they hear."""

import math

import numpy as np
import torch
from torch import Tensor

from course_lessons.l03b_counting_well.checks import _leading
from course_utils.course.exercises import Answer


def _by_hand(N: Tensor, c: float, base: Tensor) -> Tensor:
    rows = []
    for counts, share in zip(N.tolist(), base.expand_as(N).tolist(), strict=True):
        more = c * sum(n > 0 for n in counts)
        whole = sum(counts) + more
        pairs = zip(counts, share, strict=True)
        rows.append([math.log((n + more * s) / whole if whole else s) for n, s in pairs])
    return torch.tensor(rows)


def _in_numpy(N: Tensor, c: float, base: Tensor) -> np.ndarray:
    n, kept = N.double().numpy(), c * np.count_nonzero(N.numpy(), axis=1)[:, None]
    kept[n.sum(1) == 0] = 1  # any number but 0: the row is `base` then
    return np.log((n + kept * base.numpy()) / (n.sum(1, keepdims=True) + kept))


def _interpolated(N: Tensor, c: float, base: Tensor) -> Tensor:
    total, more = N.sum(1, keepdim=True), c * (N > 0).sum(1, keepdim=True)
    freed = torch.where(total > 0, more / (total + more), 1)
    return ((1 - freed) * N / total.clamp(min=1) + freed * base).log()


def _in_numpy_too(train: Answer, counts: Tensor, hidden: Tensor) -> np.floating:
    table = train(torch.where(hidden, 0, counts)).double().numpy()
    medians = np.nanmedian(np.where(counts.numpy() == 0, table, np.nan), axis=1, keepdims=True)
    return (np.sign(table - medians)[hidden.numpy()].mean() + 1) / 2


def _inverted(table: Tensor, absent: Tensor, hidden: Tensor) -> Tensor:
    return table.masked_fill(absent, torch.nan).nanmedian(1, keepdim=True).values


RIGHT_ANSWERS = {
    "witten_bell": {"by hand": _by_hand, "numpy": _in_numpy, "interpolated": _interpolated},
    "borrowed": {
        "a loop": lambda P, like: torch.stack(
            [
                sum(like[a, b] * P[b] for b in range(len(P)) if b != a)
                / (like[a].sum() - like[a, a])
                for a in range(len(P))
            ]
        ),
        "einsum, float64": lambda P, like: torch.einsum(
            "ab,bc->ac",
            (w := like.double() * (1 - torch.eye(len(P)))) / w.sum(1, keepdim=True),
            P.double(),
        ),
        "numpy, its own row taken away afterwards": lambda P, like: (
            (like @ P - like.diagonal()[:, None] * P) / (like.sum(1) - like.diagonal())[:, None]
        ).numpy(),
    },
    "hidden_lead": {
        "row by row": lambda train, c, h: (
            sum(
                ((t[hide] > (m := t[n == 0].median())).float() + 0.5 * (t[hide] == m)).sum()
                for t, n, hide in zip(train(c * ~h), c, h, strict=True)
            )
            / h.sum()
        ),
        "numpy, float64": _in_numpy_too,
        "quantiles": _leading(
            level=lambda t, a, h: t.masked_fill(~a, torch.nan).nanquantile(0.5, 1, keepdim=True)
        ),
    },
}


WRONG_ANSWERS = {
    "witten_bell": {
        "there it should be `base`": lambda N, c, base: (
            ((more := c * (N > 0).sum(1, keepdim=True)) * base + N)
            / (N.sum(1, keepdim=True) + more)
        ).log(),
        "log-probabilities are never above 0.": lambda N, c, base: _by_hand(N, c, base).exp(),
        "logarithms to the base 2": lambda N, c, base: _by_hand(N, c, base) / math.log(2),
        "each column sums to 1": lambda N, c, base: _by_hand(N, c, base).T,
        "miss a sum of 1 by": lambda N, c, base: (_by_hand(N, c, base).exp() + 0.1).log(),
        "the table differs": lambda N, c, base: _by_hand(N, 2 * c, base),
    },
    "borrowed": {
        "that is not the weighted mean": lambda P, like: P,
        "a sum without keepdim is a row": lambda P, like: (
            (w := like.clone().fill_diagonal_(0)) / w.sum(1) @ P
        ),
    },
    "hidden_lead": {
        "it never calls `train`.": lambda train, c, h: (c > c.median())[h].float().mean(),
        "keep the absent pairs and put `torch.nan` in place of all others": lambda train, c, h: (
            _leading(level=_inverted)(train, c, h)
        ),
        "`train` was given shape [60], not that of `counts`.": lambda train, c, h: train(c.sum(1)),
        "`train` still saw hidden pairs: their counts should be 0 before it.": lambda train, c, h: (
            train(c).mean()
        ),
        "pairs that are not hidden should keep their counts.": lambda train, c, h: train(
            c * h
        ).mean(),
    },
}
