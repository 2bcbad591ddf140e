"""Answers to lesson 09c's exercises: others that are right, and wrong ones with what they hear."""

import math
import re

import numpy as np
import torch

from course_lessons.l09c_superposition.checks import _without


def _star(
    n: int, gain: float | None = None, bias: float | None = None, turn: float = 1, start: float = 0
) -> tuple:
    angle = 2 * math.pi * turn * torch.arange(n) / n + start
    gain = gain or 1 / (1 - math.cos(2 * math.pi / n))
    W = gain**0.5 * torch.stack([angle.cos(), angle.sin()], 1)
    return W, torch.full((n,), 1 - gain if bias is None else bias)


def _by_text(tokens: list[str]) -> list[bool]:
    """What stands before each token, as one text."""
    before = ["".join(tokens[max(0, i - 8) : i]) for i in range(len(tokens))]
    return [
        token == "self" and bool(re.search(r"def \w+\($", said))
        for token, said in zip(tokens, before, strict=True)
    ]


RIGHT_ANSWERS = {
    "polygon": {
        "turned": lambda n: _star(n, start=1.0),
        "the other way round": lambda n: tuple(part.flip(0) for part in _star(n)),
        "longer arrows": lambda n: _star(n, 2 / (1 - math.cos(2 * math.pi / n))),
        "roots of one, in numpy": lambda n: (
            np.exp(2j * np.pi * np.arange(n)[:, None] / n).view(float)
            / (1 - np.cos(2 * np.pi / n)) ** 0.5,
            np.full(n, 1 - 1 / (1 - np.cos(2 * np.pi / n))),
        ),
    },
    "without_direction": {
        "a matrix": lambda h, d: h @ (torch.eye(len(d)) - torch.outer(d, d) / d.dot(d)),
        "row by row, in numpy": lambda h, d: np.stack(
            [row - row @ d.numpy() / (d.numpy() @ d.numpy()) * d.numpy() for row in h.numpy()]
        ),
        "least squares": lambda h, d: (
            h - (d[:, None] @ torch.linalg.lstsq(d[:, None], h.T).solution).T
        ),
    },
    "about": {
        "the text before it": _by_text,
        "any self after a def, numpy": lambda tokens: np.array(
            [
                token == "self" and "def" in "".join(tokens[max(0, i - 8) : i])
                for i, token in enumerate(tokens)
            ]
        ),
        "0 and 1, as a tensor": lambda tokens: torch.tensor(
            [
                int(token == "self" and " def" in tokens[max(0, i - 6) : i])
                for i, token in enumerate(tokens)
            ]
        ),
    },
}


WRONG_ANSWERS = {
    "polygon": {
        "with directions of length 1 and no bias": lambda n: _star(n, 1.0, 0.0),
        "one that is active should come back as 1": lambda n: _star(
            n, 1.0, -math.cos(2 * math.pi / n)
        ),
        "comes as 1.65": lambda n: (
            _star(n)[0] / (1 - math.cos(2 * math.pi / n)) ** 0.5,
            _star(n)[1],
        ),
        "as far apart as they can": (
            lambda n: _star(n, turn=0.5),
            lambda n: (torch.eye(2)[torch.arange(n) % 2], torch.zeros(n)),
        ),
        "with 8 features, one that is active also brings others with it": lambda n: _star(
            n, 1 / (1 - math.cos(2 * math.pi / 5))
        ),
        "all directions are 0": lambda n: (torch.zeros(n, 2), torch.zeros(n)),
    },
    "without_direction": {
        "something is left along the direction": lambda h, d: 2 * _without(h, d) - h,
        "what is across the direction": lambda h, d: 0 * h,
    },
    "about": {
        "your rule names no place": lambda tokens: [False] * len(tokens),
        "the neuron always fires": lambda tokens: [True] * len(tokens),
        "a rule that says less should reach 80 %": (
            lambda tokens: [token == "self" for token in tokens],
            lambda tokens: [
                token == "self" and before.endswith("(")
                for before, token in zip(["", *tokens], tokens, strict=False)
            ],
        ),
        "a wider one should reach": lambda tokens: [
            token == "self" and tokens[i - 2 : i - 1] == ["init"] for i, token in enumerate(tokens)
        ],
        "tokens need as many verdicts": lambda tokens: [
            i for i, token in enumerate(tokens) if token == "self"
        ],
        "each verdict should be True or False": lambda tokens: tokens,
    },
}
