"""Answers to lesson 05's exercises: others that are right, and wrong ones with what they hear."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_lessons.l05_max_of_list.checks import _sums
from course_utils.course import solutions
from course_utils.course.exercises import Answer


def _but(**changes: Callable[[dict[str, Tensor]], Any]) -> Answer:
    """Our weights, but for some that are made from all of them."""

    def answer(line: Tensor) -> dict[str, Tensor]:
        weights = solutions.find("by_hand").function(line)
        return weights | {name: change(weights) for name, change in changes.items()}

    return answer


def _turned(line: Tensor) -> dict[str, Tensor]:
    """Ours in another basis of the stream."""
    R = torch.linalg.qr(random(2 * len(line) + 2, 2 * len(line) + 2)).Q
    return {name: W @ R if name in ("W_E", "W_O") else R.T @ W for name, W in _but()(line).items()}


def _one_hot(line: Tensor) -> dict[str, Tensor]:
    """Neither a place nor a constant in the stream.

    W_Q reads every value alike, and W_K knows the line.
    """
    one, none = torch.eye(len(line)), torch.zeros(len(line), len(line))
    reads, writes = torch.cat([one, none]), torch.cat([none, one])
    W_Q, W_K = reads.sum(1, keepdim=True) * len(line) ** 0.5, reads @ line[:, None]
    W_Q, W_K = (torch.cat([W, torch.zeros(len(W), len(line) - 1)], 1) for W in (W_Q, W_K))
    return {"W_E": reads.T, "W_Q": W_Q, "W_K": W_K, "W_V": reads, "W_O": writes.T, "W_U": writes}


def _tried(parts: Tensor, largest: int) -> float:
    lists = [
        one for one in itertools.product(range(largest + 1), repeat=len(parts)) if largest in one
    ]
    return parts[range(len(parts)), lists].sum(1).min().item()


def _place_by_place(parts: Tensor, largest: int) -> Tensor:
    least, places = parts[:, : largest + 1].amin(1), range(len(parts))
    return min(
        sum(parts[i, largest] if i == place else least[i] for i in places) for place in places
    )


RIGHT_ANSWERS = {
    "by_hand": {
        "another basis": _turned,
        "one-hot embeddings": _one_hot,
        "other sizes, float64": _but(
            W_V=lambda w: 5 * w["W_V"], W_O=lambda w: w["W_O"].double() / 5
        ),
    },
    "votes": {
        "position by position": lambda s, say, d: torch.stack(
            [s[:, i].exp()[..., None] * (say[i] + d[:, None]) for i in range(len(say))], 1
        ),
        "einsum, float64": lambda s, say, d: (
            torch.einsum("qiv,ivo->qivo", s.double().exp(), say.double())
            + torch.einsum("qiv,qo->qivo", s.double().exp(), d.double())
        ),
        "numpy": lambda s, say, d: (
            np.exp(s.numpy())[..., None] * (say.numpy() + d.numpy()[:, None, None])
        ),
    },
    "worst_margin": {
        "all ways": _tried,
        "place by place": _place_by_place,
        "the least harm of a swap, float64": lambda parts, M: (
            (least := parts.double()[:, : M + 1].amin(1)).sum() + (parts[:, M] - least).amin()
        ),
    },
}


WRONG_ANSWERS = {
    "by_hand": {
        "TransformerLens divides them by √d_head": _but(
            W_Q=lambda w: w["W_Q"] / w["W_Q"].shape[1] ** 0.5
        ),
        "and 5 are in use here. One is enough": _but(
            W_Q=lambda w: w["W_Q"][:, :1].expand_as(w["W_Q"]),
            W_K=lambda w: w["W_K"][:, :1].expand_as(w["W_K"]),
        ),
        "scores are -1.00 times the line": _but(W_Q=lambda w: -w["W_Q"]),
        "every source gets the same attention": _but(W_Q=lambda w: w["W_Q"].roll(1, 1)),
        "whatever the last token is": _but(W_Q=lambda w: w["W_Q"].roll(-1, 0)),
        "no value votes for itself": (
            _but(W_U=lambda w: w["W_U"].roll(1, 1)),
            _but(W_U=lambda w: -w["W_U"]),
        ),
        "the direct path, W_E W_U, speaks too": _but(
            W_O=lambda w: w["W_V"].T, W_U=lambda w: w["W_V"]
        ),
        "a vote for itself and for nothing else": _but(
            W_U=lambda w: w["W_U"] + w["W_U"].roll(1, 1) / 2
        ),
        "is 2.00 times the attention": _but(W_O=lambda w: 2 * w["W_O"]),
        "W_O must have shape": _but(W_O=lambda w: w["W_O"].T),
        "W_V should be a tensor, not list": _but(W_V=lambda w: w["W_V"].tolist()),
        "six matrices called": lambda line: {
            name: W for name, W in _but()(line).items() if name != "W_V"
        },
        "for a line of 7 values W_E should have 7 rows": lambda line: _but()(line[:5]),
        "it should return a dictionary": lambda line: [*_but()(line).values()],
    },
    "votes": {
        "the direct path is left out": lambda s, say, d: s.exp()[..., None] * say,
        "the vote of value 2 at position 0 for output 0, if 1 is last": lambda s, say, d: (
            2 * s.exp()[..., None] * (say + d[:, None, None])
        ),
        "[query, pos, value, out]": lambda s, say, d: s.exp() * say.sum(-1),
        "the votes differ": lambda s, say, d: (
            (right := s.exp()[..., None] * (say + d[:, None, None]))
            * torch.arange(right.numel()).view_as(right).lt(right.numel() - 1)
        ),
    },
    "worst_margin": {
        "for parts of shape 2 × 4, the worst way with the largest number 2 is [1, 2], with a sum "
        "of 3.00; yours is 4.00.": (lambda parts, M: parts[:, M].min()),
        "if the largest number is 0, all are 0": lambda parts, M: _sums(parts, max(M, 1)).min(),
    },
}
