"""Answers to lesson 01b: right ones that are not ours, and wrong ones with what they are told."""

import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_utils.course.exercises import Answer


def _head(turn: int = -1, size: float = 99.0) -> Answer:
    return lambda W_pos: (size * W_pos.roll(turn, 0).T, W_pos.T)


def _by_number(W_pos: Tensor) -> tuple[Tensor, Tensor]:
    """Right only if position i is the i-th axis."""
    eye = torch.eye(*W_pos.shape).T
    return 99 * eye.roll(-1, 1), eye


def _turned(W_pos: Tensor) -> tuple[Tensor, Tensor]:
    turn = torch.linalg.qr(random(len(W_pos), len(W_pos), seed=1))[0]
    return 99 * W_pos.roll(-1, 0).T @ turn, W_pos.T @ turn


RIGHT_ANSWERS = {
    "previous_token_head": {
        "the keys shifted": lambda W_pos: [99 * W_pos.T, W_pos.roll(1, 0).T],
        "both turned": _turned,
        "the large factor in the keys, float64": lambda W_pos: (
            W_pos.double().roll(-1, 0).T,
            200 * W_pos.double().T,
        ),
    },
}


WRONG_ANSWERS = {
    "previous_token_head": {
        "the key of the *next* position": (_head(turn=1), lambda W_pos: _head()(W_pos)[::-1]),
        "each position looks at itself": _head(turn=0),
        "looks mostly at position": (_head(turn=-2), _by_number),
        "make scores larger": _head(size=1.0),
        "with 13 positions, position": _head(size=17.0),
        "all scores are the same": _head(size=0.0),
    },
}
