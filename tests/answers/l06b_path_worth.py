"""Answers to lesson 06b's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_lessons.l06b_path_worth.checks import DOORS
from course_utils.course.exercises import Answer


def _hard(A: Tensor) -> Tensor:
    return torch.eye(len(A))[A.argmax(1)]


def _without(written: Tensor, W: Tensor) -> Tensor:
    """The columns less what lies along what is written."""
    return W - torch.linalg.pinv(written) @ written @ W


def _blind(written: Tensor) -> Tensor:
    return _without(written, random(*written.T.shape, seed=11))


def _door(
    right: Callable[[Tensor], Tensor] = lambda w: w.T, wrong: Callable[[Tensor], Tensor] = _blind
) -> Answer:
    return lambda W_O, door: tuple(right(W_O) if name == door else wrong(W_O) for name in DOORS)


RIGHT_ANSWERS = {
    "virtual_head": {
        "one head, then the other": lambda x, A, V, B, W: B @ ((A @ (x @ V)) @ W),
        "einsum, float64": lambda x, A, V, B, W: torch.einsum(
            "rs,st,td,de,ef->rf", *(M.double() for M in (B, A, x, V, W))
        ),
        "source by source": lambda x, A, V, B, W: sum(
            (B @ A)[:, [src]].numpy() * (x[src] @ V @ W).numpy() for src in range(len(x))
        ),
    },
    "one_door": {
        "an orthonormal basis, a list": lambda W_O, door: [
            torch.linalg.qr(W_O.T, mode="complete").Q[
                :, slice(len(W_O)) if name == door else slice(-len(W_O), None)
            ]
            for name in DOORS
        ],
        "the null space, float64": _door(
            wrong=lambda w: torch.linalg.svd(w.double()).Vh[-len(w) :].T
        ),
        "other sizes, mixed": _door(
            right=lambda w: 50 * w.T @ random(len(w), len(w)),
            wrong=lambda w: _blind(w) @ random(len(w), len(w)) / 50,
        ),
    },
}


WRONG_ANSWERS = {
    "virtual_head": {
        "when the earlier head writes nothing": (
            lambda x, A, V, B, W: B @ x @ W,
            lambda x, A, V, B, W: B @ (x + A @ x @ V) @ W,
        ),
        "when the later head writes nothing": (
            lambda x, A, V, B, W: A @ x @ V,
            lambda x, A, V, B, W: A @ x @ V + B @ A @ x @ V @ W,
        ),
        "what stood at 2 should arrive at 5.": lambda x, A, V, B, W: (B * A) @ x @ V @ W,
        "one position gets what it should": lambda x, A, V, B, W: (B[-1] @ A @ x @ V @ W).expand_as(
            x
        ),
        "x OV_w should be left: rows times matrix": lambda x, A, V, B, W: B @ A @ x @ V.T @ W.T,
        "x OV_r should be left: rows times matrix": lambda x, A, V, B, W: B @ A @ x @ V @ W.T,
        "the two circuits should act one after": lambda x, A, V, B, W: (
            B @ A @ x @ (V + W - torch.eye(len(V)))
        ),
        "every source counts, by its weight": lambda x, A, V, B, W: _hard(B) @ _hard(A) @ x @ V @ W,
    },
    "one_door": {
        "W_Q reads nothing of what the earlier head writes": (
            lambda W_O, door: _door()(W_O, {"Q": "K", "K": "Q", "V": "V"}[door]),
            lambda W_O, door: _door()(W_O, "K"),
        ),
        "W_K should read nothing of what the earlier head writes": (
            _door(wrong=lambda w: w.T),
            _door(wrong=lambda w: random(*w.T.shape, seed=4)),
        ),
        "take what lies along the rows of W_O out of its columns, all of it": _door(
            wrong=lambda w: _without(w[:1], random(*w.T.shape, seed=3))
        ),
        "no part of the head is idle": _door(wrong=lambda w: 0 * w.T),
        "W_Q has less than rank 3": _door(right=lambda w: w[:1].T.expand(-1, len(w)).clone()),
        "also reads directions that the earlier head does not write": (
            _door(right=lambda w: w.T + _blind(w)),
            _door(right=lambda w: random(*w.T.shape, seed=4)),
        ),
        "it should be [10, 3], W_Q is [d_model, d_head]": _door(right=lambda w: w),
        "it should return three matrices": lambda W_O, door: W_O.T,
    },
}
