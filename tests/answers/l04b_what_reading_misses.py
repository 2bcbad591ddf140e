"""Answers to lesson 04b's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from course_lessons.l04b_what_reading_misses.checks import (
    _AT,
    _BAY,
    _IN,
    _KEEP,
    _MIND,
    _normalised,
)

_BOTH = {_IN: 10.0, _AT: 10.0}
_AS_IN = {_IN: 10.0, _AT: -10.0}
_AS_AT = {_IN: -10.0, _AT: 10.0}


def _heads(
    *looks_and_says: tuple[dict[int, float], dict[int, float]],
) -> Callable[[], tuple[Tensor, Tensor]]:
    """A head for each pair.

    How strongly each destination looks for keep, and what keep adds to each out.
    """

    def answer() -> tuple[Tensor, Tensor]:
        QK, OV = torch.zeros(2, len(looks_and_says), 6, 6)
        for head, (looks, says) in enumerate(looks_and_says):
            QK[head, list(looks), _KEEP] = torch.tensor(list(looks.values()))
            OV[head, _KEEP, list(says)] = torch.tensor(list(says.values()))
        return QK, OV

    return answer


def _without_keep() -> tuple[Tensor, Tensor]:
    """The destinations say it themselves."""
    QK, OV = torch.zeros(2, 1, 6, 6)
    OV[0, _IN, _MIND] = OV[0, _AT, _BAY] = 20
    return QK, OV


_RIGHT = _heads((_AS_IN, {_MIND: 10.0}), (_AS_AT, {_BAY: 10.0}))


def _fading(strings: list[str], rate: float = 0.5) -> Tensor:
    n = torch.arange(len(strings))
    return _normalised(rate ** (n[:, None] - n))


RIGHT_ANSWERS = {
    "keep_in_mind": {
        "scores of 0 for the other": _heads(
            ({_IN: 30.0}, {_MIND: 30.0}), ({_AT: 30.0}, {_BAY: 30.0})
        ),
        "three heads": _heads(
            (_AS_IN, {_MIND: 9.0}), (_AS_AT, {_BAY: 5.0}), (_AS_AT, {_BAY: 4.0, _MIND: -9.0})
        ),
        "in numpy, the wrong outs lowered": lambda: [
            table.numpy()
            for table in _heads(
                (_AS_IN, dict.fromkeys((0, 1, 2, 3, 5), -9.0)), (_AS_AT, {_BAY: 9.0})
            )()
        ],
    },
    "attention_program": {
        "fading": _fading,
        "the start token, numpy": lambda s: np.eye(len(s))[[0] * len(s)],
        "tokens as long": lambda s: _normalised(
            torch.tensor([[1.0 + 5 * (len(a) == len(b)) for b in s] for a in s])
        ),
    },
}


WRONG_ANSWERS = {
    "keep_in_mind": {
        "a bug: after keep … at, mind gets": _heads((_BOTH, {_MIND: 10.0, _BAY: -10.0})),
        "a bug: after keep … in, bay gets": _heads((_AS_IN, {_BAY: 10.0}), (_AS_AT, {_MIND: 10.0})),
        "a bug: after keep … in, bay gets 0.50": (
            _heads((_BOTH, {_MIND: 10.0, _BAY: 10.0})),
            _heads((_BOTH, {_MIND: 10.0}), (_BOTH, {_BAY: 10.0})),
        ),
        "should get more than 0.9": _heads((_AS_IN, {_MIND: 3.0}), (_AS_AT, {_BAY: 3.0})),
        "yours is transposed": lambda: (_RIGHT()[0].mT, _RIGHT()[1]),
        "after keep … at, bay gets": _heads((_AS_IN, {_MIND: 10.0})),
        "without keep, mind and bay should be equally likely": _without_keep,
        "QK has 2 heads and OV 1": lambda: (torch.zeros(2, 6, 6), torch.zeros(1, 6, 6)),
        "keep all entries between": _heads(({_IN: 1e4}, {_MIND: 1e4})),
        "it should be [1, 6, 6], [head, dest, src] for QK": lambda: tuple(torch.zeros(2, 1, 5, 5)),
    },
    "attention_program": {
        "that is an even pattern": lambda s: _fading(s, 1.0),
        "each row should sum to 1": lambda s: torch.ones(len(s), len(s)).tril(),
        "a destination looks at a later token": lambda s: torch.ones(len(s), len(s)) / len(s),
        "the columns sum to 1": lambda s: _fading(s).T,
        "attention is never negative": lambda s: -_fading(s),
        "it should be [1, 1]": lambda s: _fading([""] * 11),
        "row 0 is empty": (
            lambda s: torch.ones(len(s), len(s)).tril(-1) / torch.arange(len(s))[:, None],
            lambda s: torch.ones(len(s), len(s)).tril(-1),
        ),
        "twice the same text": lambda s: _normalised(torch.rand(len(s), len(s))),
    },
}
