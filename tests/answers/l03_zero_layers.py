"""Answers to lesson 03's exercises: others that are right, and wrong ones with what they hear."""

import math

import numpy as np
import torch
from torch import Tensor

from course_lessons.l03_zero_layers.checks import _leading
from course_utils.course.exercises import Answer


def _ring(
    scale: float, angle: Tensor, before: Tensor | None = None, outer: float = 1
) -> tuple[Tensor, Tensor]:
    """Embeddings at `angle`, unembeddings at those of the letters before.

    They may also stand where `before` says.
    """
    before = angle.roll(1) if before is None else before
    W_E = scale * torch.stack([angle.cos(), angle.sin()], dim=1)
    return W_E, outer * torch.stack([before.cos(), before.sin()])


def _steps(n: int, around: float = 2 * math.pi) -> Tensor:
    return around * torch.arange(n) / n


def _waves(n: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    letter = np.exp(2j * np.pi * np.arange(n) / n)
    before = np.roll(letter, 1)
    return scale * np.stack([letter.real, letter.imag], 1), np.stack([before.real, before.imag])


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


RIGHT_ANSWERS = {
    "direct_path": {
        "a loop": lambda E, U: torch.stack([row @ U for row in E]),
        "numpy, float64": lambda E, U: E.double().numpy() @ U.double().numpy(),
        "a sum of products": lambda E, U: (E[:, :, None] * U).sum(1),
    },
    "exact_weights": {
        "the table first, in numpy": lambda table: [table.numpy() / 2, 2 * np.eye(len(table))],
        "by the SVD": lambda table: ((svd := torch.linalg.svd(table)).U * svd.S, svd.Vh),
        "QR, float64": lambda table: tuple(torch.linalg.qr(table.double())),
        "more dimensions than tokens": lambda table: (
            torch.eye(len(table), 9),
            torch.cat([table, table, table])[:9],
        ),
    },
    "alphabet_weights": {
        "turned, the other way round": lambda n, s: _ring(s, 1 - _steps(n)),
        "in steps of two or three": lambda n, s: _ring(s, (2 if n % 2 else 3) * _steps(n)),
        "complex numbers, numpy": _waves,
    },
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
    "interference": {
        "a sum of outer products": lambda D, R: (
            (D @ sum(torch.outer(d, r) for d, r in zip(D, R, strict=True)) - R).norm(dim=1)
            / R.norm(dim=1)
        ),
        "the others' rows, by their cosines": lambda D, R: (
            ((D @ D.T).fill_diagonal_(0) @ R).norm(dim=1) / R.norm(dim=1)
        ),
        "einsum, float64": lambda D, R: (
            (torch.einsum("ad,bd,bv->av", D.double(), D.double(), R.double()) - R).square().sum(1)
            / R.double().square().sum(1)
        ).sqrt(),
        "numpy": lambda D, R: (
            np.linalg.norm((D @ (D.T @ R) - R).numpy(), axis=1) / np.linalg.norm(R.numpy(), axis=1)
        ),
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
    "exact_weights": {
        "is the table transposed": lambda table: (torch.eye(len(table)), table.T),
        "it should hold what the table holds": lambda table: (torch.eye(len(table)), table.exp()),
        "for 5 tokens an entry of W_E @ W_U is": lambda table: (table, table),
        "a d_model of 2 gives a table of rank 2 at most": lambda table: (
            torch.eye(len(table))[:, :2],
            table[:2],
        ),
        "W_E as [d_vocab, d_model]": lambda table: (torch.eye(5), table),
        "W_U should be a tensor with two axes": lambda table: (table, torch.tensor(1.0)),
    },
    "alphabet_weights": {
        "every letter predicts itself": lambda n, s: _ring(s, _steps(n), _steps(n)),
        "every letter predicts the one before it": lambda n, s: _ring(
            s, _steps(n), _steps(n).roll(-1)
        ),
        "all are right but the last letter: do the angles go once round, in radians?": (
            lambda n, s: _ring(s, _steps(n, math.pi), _steps(n, math.pi) - math.pi / n),
            lambda n, s: _ring(s, _steps(n, 360), _steps(n, 360) - 360 / n),
        ),
        "for n = 5 the first guess is wrong for 5 of the letters": lambda n, s: _ring(
            s, _steps(n), _steps(n).roll(2)
        ),
        "for n = 5 some letter has two best successors": lambda n, s: _ring(
            s, torch.linspace(0, 2 * math.pi, n)
        ),
        "spread the directions evenly": lambda n, s: _ring(s, _steps(n) + 0.3 * _steps(n).sin()),
        "the letters fill a part of the circle only": lambda n, s: _ring(s, _steps(n, math.pi)),
        "it should be [5, 2], W_E as": lambda n, s: (s * torch.eye(n), torch.eye(n).roll(1, 1)),
        "it should be [2, 5], W_U as [d_model, d_vocab]": lambda n, s: (
            (_ring(s, _steps(n))[0],) * 2
        ),
        "with a scale of 3 an embedding has length 1": lambda n, s: _ring(1, _steps(n)),
        "each column of W_U should have length 1: a point on a circle": lambda n, s: _ring(
            s, _steps(n), outer=s
        ),
    },
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
    "interference": {
        "the result has shape [9]; it should be [7], [token].": lambda D, R: (D @ D.T @ R - R).norm(
            dim=0
        ),
        "that is not the length of what is foreign": lambda D, R: (
            2 * (D @ D.T @ R - R).norm(dim=1) / R.norm(dim=1)
        ),
    },
    "borrowed": {"that is not the weighted mean": lambda P, like: P},
    "hidden_lead": {
        "it never calls `train`.": lambda train, c, h: (c > c.median())[h].float().mean(),
        "`train` was given shape [60], not that of `counts`.": lambda train, c, h: train(c.sum(1)),
        "`train` still saw hidden pairs: their counts should be 0 before it.": lambda train, c, h: (
            train(c).mean()
        ),
        "pairs that are not hidden should keep their counts.": lambda train, c, h: train(
            c * h
        ).mean(),
    },
}
