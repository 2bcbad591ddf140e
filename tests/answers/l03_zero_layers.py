"""Answers to lesson 03's exercises: others that are right, and wrong ones with what they hear."""

import math

import numpy as np
import torch
from torch import Tensor


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


def _cosines(table: Tensor, token: int) -> Tensor:
    rows = table - table.mean(1, keepdim=True)
    return rows @ rows[token] / rows.norm(dim=1)


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
    "nearest_rows": {
        "by sorting": lambda T, token, k: torch.tensor(
            [other for other in _cosines(T, token).argsort(descending=True) if other != token][:k]
        ),
        "numpy, float64": lambda T, token, k: np.argsort(-_cosines(T.double(), token).numpy())[
            1 : k + 1
        ],
        "one more, without the first": lambda T, token, k: (
            _cosines(T, token).topk(k + 1).indices[1:]
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
        "points a little beside its successor": lambda n, s: _ring(
            s, _steps(n), _steps(n) - 0.6 * 2 * math.pi / n
        ),
        "it should be [5, 2], W_E as": lambda n, s: (s * torch.eye(n), torch.eye(n).roll(1, 1)),
        "it should be [2, 5], W_U as [d_model, d_vocab]": lambda n, s: (
            (_ring(s, _steps(n))[0],) * 2
        ),
        "with a scale of 3 an embedding has length 1": lambda n, s: _ring(1, _steps(n)),
        "each column of W_U should have length 1: a point on a circle": lambda n, s: _ring(
            s, _steps(n), outer=s
        ),
    },
    "nearest_rows": {
        "itself is among them": lambda T, token, k: _cosines(T, token).topk(k).indices,
        "it should be [4]": lambda T, token, k: _cosines(T, token).topk(k + 1).indices,
        "these are not the tokens": lambda T, token, k: torch.arange(k),
    },
}
