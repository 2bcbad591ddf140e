"""Answers to lesson 07b's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_utils.course.exercises import Answer


def _text(order: str) -> Answer:
    """An answer that puts the parts in this order; f, F and G are three parts of the filler."""

    def answer(A: int, same: list[int], other: list[int], filler: list[int]) -> list[int]:
        parts = {"0": [0], "1": [1], "A": [A], "same": same, "emas": same[::-1], "other": other}
        parts |= {"f": filler[:1], "F": filler[1:3], "G": filler[3:]}
        return [token for name in order.split() for token in parts[name]]

    return answer


def _pointers(
    alike: float = 30,
    near: float = -30,
    back: int = 0,
    step: int = 1,
    loud: float = 2,
    **to: tuple[str, str],
) -> Answer:
    """Our answer, with something to get wrong, or to make otherwise, in the keywords."""
    ends = {"OV1": ("place", "pointer"), "QK2": ("pointer", "place")} | to

    def answer(V: int, n_ctx: int) -> tuple[Tensor, ...]:
        part = {"token": slice(V), "place": slice(V, V + n_ctx), "pointer": slice(V + n_ctx, None)}
        QK1, OV1, QK2, OV2 = torch.zeros(4, V + 2 * n_ctx, V + 2 * n_ctx)
        for matrix, rows, columns, block in (
            (QK1, "token", "token", alike * torch.eye(V)),
            (QK1, "place", "place", near * torch.diag(torch.ones(n_ctx - abs(back)), back)),
            (OV1, *ends["OV1"], torch.eye(n_ctx)),
            (QK2, *ends["QK2"], 30 * torch.diag(torch.ones(n_ctx - abs(step)), step)),
            (OV2, "token", "token", loud * torch.eye(V)),
        ):
            matrix[part[rows], part[columns]] = block
        return QK1, OV1, QK2, OV2

    return answer


def _in_another_basis(basis: Callable[[int], Tensor], **settings: Any) -> Answer:
    """What is written for each position is a row of `basis(n_ctx)`; all in numpy's float64."""

    def answer(V: int, n_ctx: int) -> list[np.ndarray]:
        QK1, OV1, QK2, OV2 = _pointers(**settings)(V, n_ctx)
        turn = torch.block_diag(torch.eye(V + n_ctx), basis(n_ctx))
        return [matrix.double().numpy() for matrix in (QK1, OV1 @ turn, turn.T @ QK2, OV2)]

    return answer


RIGHT_ANSWERS = {
    "two_occurrences": {
        "one filler each": lambda A, same, other, filler: (
            0,
            *same,
            A,
            filler[0],
            *other,
            A,
            filler[-1],
            *same,
            A,
        ),
        "filler everywhere": _text("0 f same A F other A G same A"),
        "a tensor": lambda *given: torch.tensor(_text("0 same A f other A F G same A")(*given)),
    },
    "pointers_by_hand": {
        "it looks at itself, too": _pointers(near=0, loud=9),
        "a pointer one further": _in_another_basis(
            lambda n: torch.eye(n).roll(1, 1), near=-60, alike=60
        ),
        "a pointer that is no position": _in_another_basis(
            lambda n: torch.linalg.qr(random(n, n))[0], loud=5
        ),
    },
}


WRONG_ANSWERS = {
    "two_occurrences": {
        "it should return one list of tokens": lambda A, same, other, filler: A,
        "begins with the start token": _text("same A F other A G same A"),
        "it holds a token that it was not given": _text("0 same A 1 other A G same A"),
        "the last token should be A": (
            _text("0 same A F other A G same"),
            _text("0 same A F other A same A G"),
        ),
        "A should stand twice, not 1 times": _text("0 same A F other G same A"),
        "A should stand twice, not 3 times": _text("0 same A F other A G A same A"),
        "should stand `same`, all of it and in its order": _text("0 same A F other A G emas A"),
        "a mere preference for what is near": _text("0 other A F same A G same A"),
        "the first A should have `same` just before it": _text("0 F A f other A G same A"),
        "the second A should have `other` just before it": _text("0 same A F A G same A"),
        "should come a filler": _text("0 same A other A G same A"),
        "the same filler follows both": _text("0 same A f other A f G same A"),
        "a filler comes twice": _text("0 same A f F f other A G same A"),
        "`other` should come once": _text("0 same A F other A G other same A"),
        "`same` should come twice": _text("0 same A F same other A G same A"),
    },
    "pointers_by_hand": {
        "with d_model = V + 2 · n_ctx": lambda V, n_ctx: [torch.eye(2 * V + n_ctx)] * 4,
        "that is lesson 07's circuit": _pointers(alike=0, near=30, back=-1),
        "QK1 should fit a token to the same token": (
            _pointers(alike=1, near=-1),
            _pointers(alike=0, near=0),
        ),
        "the first head brings nothing back": _pointers(OV1=("pointer", "place")),
        "where the pointer points": _pointers(step=0),
        "the shift goes the other way": _pointers(step=-1),
        "QK2 should fit a pointer": _pointers(QK2=("place", "pointer")),
        "is OV2 loud enough": _pointers(loud=0.5),
        "it works without positions in the stream": lambda V, n_ctx: _pointers(
            near=0, QK2=("place", "place"), step=1 - n_ctx // 2
        )(V, n_ctx),
    },
}
