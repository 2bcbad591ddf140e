"""Checks of lesson 07b, the second writer: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils import heads, models
from course_utils.course.exercises import Answer, judged
from course_utils.course.fixtures import passes, random
from course_utils.course.questions import Unfit, Wrong, demand, four_circuits


@judged
def two_occurrences(answer: Answer) -> None:
    """`two_occurrences(A, same, other, filler) → tokens`: A in two companies, then the first company, and A.

    The filler can be spread in many ways.
    """
    for A, same, other, filler in (
        (7, [11, 12, 13], [21, 22, 23], list(range(30, 38))),
        (5, [61, 62, 63, 64, 65], [71, 72, 73, 74, 75], list(range(40, 49))),
    ):
        given = answer(A, list(same), list(other), list(filler))
        text = given.tolist() if isinstance(given, Tensor) else given
        if not isinstance(text, list | tuple) or not text or not all(isinstance(token, int) for token in text):
            raise Wrong("it should return one list of tokens, whole numbers.")
        text = list(text)
        demand(text[0] == 0, "a text begins with the start token, number 0.")
        demand({*text} <= {0, A, *same, *other, *filler}, "it holds a token that it was not given.")
        demand(text[-1] == A, "the last token should be A: there the query is made.")
        places = [place for place, token in enumerate(text[:-1]) if token == A]
        demand(len(places) == 2, f"before the last one A should stand twice, not {len(places)} times.")
        first, second, last = (text[max(place - len(same), 0) : place] for place in (*places, len(text) - 1))
        demand(last == same, "just before the last A should stand `same`, all of it and in its order.")
        demand(
            (first, second) != (other, same),
            "the occurrence in the same company is the nearer one: a mere preference for what is near would look the "
            "same. Put it first.",
        )
        demand(first == same, "the first A should have `same` just before it.")
        demand(second == other, "the second A should have `other` just before it.")
        after = {text[place + 1] for place in places}
        demand(
            after <= {*filler},
            "after each earlier A should come a filler: what is read off there is a B of its own.",
        )
        demand(len(after) == 2, "the same filler follows both occurrences: then nothing tells which one was found.")
        rest = [token for token in text if token in filler]
        demand(len({*rest}) == len(rest), "a filler comes twice, and is a repeat of its own.")
        demand(text.count(other[0]) == 1, "`other` should come once.")
        demand(text.count(same[0]) == 2, "`same` should come twice, before the first A and before the last.")
    if isinstance(given, Tensor):
        raise Unfit("the next cells want a list of tokens, and get a tensor: return its `.tolist()`")


def _text(order: str) -> Answer:
    """An answer that puts the parts in this order; f, F and G are three parts of the filler."""

    def answer(A: int, same: list[int], other: list[int], filler: list[int]) -> list[int]:
        parts = {"0": [0], "1": [1], "A": [A], "same": same, "emas": same[::-1], "other": other}
        parts |= {"f": filler[:1], "F": filler[1:3], "G": filler[3:]}
        return [token for name in order.split() for token in parts[name]]

    return answer


two_occurrences.mistakes = {
    "it should return one list of tokens": lambda A, same, other, filler: A,
    "begins with the start token": _text("same A F other A G same A"),
    "it holds a token that it was not given": _text("0 same A 1 other A G same A"),
    "the last token should be A": (_text("0 same A F other A G same"), _text("0 same A F other A same A G")),
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
}
two_occurrences.also_right = {
    "one filler each": lambda A, same, other, filler: (0, *same, A, filler[0], *other, A, filler[-1], *same, A),
    "filler everywhere": _text("0 f same A F other A G same A"),
    "a tensor": lambda *given: torch.tensor(_text("0 same A f other A F G same A")(*given)),
}


@judged
def pointers_by_hand(answer: Answer) -> None:
    """`pointers_by_hand(V, n_ctx) → QK1, OV1, QK2, OV2`: induction by a pointer, through the query.

    Any that do it: scores and sizes are free, and so is what a pointer looks like.
    """
    for V, period in ((7, 4), (10, 8)):
        n_ctx = 2 * period + 1
        circuits = four_circuits(answer(V, n_ctx), V + 2 * n_ctx, "V + 2 · n_ctx")
        tokens, dest = passes(V, n_ctx, period), torch.arange(period + 1, n_ctx)
        built, blind = (
            models.from_circuits(circuits[0::2], circuits[1::2], V, n_ctx, positions)
            for positions in ("standard", "shortformer")
        )
        logits, (_, run) = built(tokens), built.run_with_cache(tokens)
        first, second = (run["pattern", layer][:, 0] for layer in (0, 1))
        demand(
            first.diagonal(-1, 1, 2)[:, 1:].mean() < 0.5,
            "the first head looks one back: that is lesson 07's circuit, and the pointer is another.",
        )
        copies = first[:, dest, dest - period].mean().item()
        demand(
            copies > 0.4,
            f"from the second A, the first head gives the earlier A {copies:.2f} of its attention: QK1 should fit a "
            "token to the same token, with large scores.",
        )
        moved = run["resid_post", 0] - run["resid_pre", 0]
        demand(
            moved[:, dest].abs().max() > 0.1,
            "the first head brings nothing back: OV1 is [from, to], from the position part to the empty part.",
        )
        before, at, after = (second[:, dest, dest - period + by].mean().item() for by in (-1, 0, 1))
        demand(
            at < 0.5, "the second head looks at the earlier A, where the pointer points: it should look one further."
        )
        demand(before < 0.5, "the second head looks one before the earlier A: the shift goes the other way.")
        demand(
            after > 0.98,
            f"the second head gives the earlier B {after:.2f} of its attention: QK2 should fit a pointer to j to "
            "the position j + 1, with large scores.",
        )
        said, right = logits[:, period + 1 : -1].argmax(-1), tokens[:, period + 2 :]
        demand((said == right).all(), "the second head looks at B, but the model does not say B: is OV2 loud enough?")
        none = heads.patterns(blind, tokens)[1, 0]
        demand(none[:, dest, dest - period + 1].mean() < 0.9, "it works without positions in the stream: no pointer.")


def _pointers(
    alike: float = 30, near: float = -30, back: int = 0, step: int = 1, loud: float = 2, **to: tuple[str, str]
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
    """What is written for each position is a row of `basis(n_ctx)`, and all is in numpy's float64."""

    def answer(V: int, n_ctx: int) -> list[np.ndarray]:
        QK1, OV1, QK2, OV2 = _pointers(**settings)(V, n_ctx)
        turn = torch.block_diag(torch.eye(V + n_ctx), basis(n_ctx))
        return [matrix.double().numpy() for matrix in (QK1, OV1 @ turn, turn.T @ QK2, OV2)]

    return answer


pointers_by_hand.mistakes = {
    "with d_model = V + 2 · n_ctx": lambda V, n_ctx: [torch.eye(2 * V + n_ctx)] * 4,
    "that is lesson 07's circuit": _pointers(alike=0, near=30, back=-1),
    "QK1 should fit a token to the same token": (_pointers(alike=1, near=-1), _pointers(alike=0, near=0)),
    "the first head brings nothing back": _pointers(OV1=("pointer", "place")),
    "where the pointer points": _pointers(step=0),
    "the shift goes the other way": _pointers(step=-1),
    "QK2 should fit a pointer": _pointers(QK2=("place", "pointer")),
    "is OV2 loud enough": _pointers(loud=0.5),
    "it works without positions in the stream": lambda V, n_ctx: _pointers(
        near=0, QK2=("place", "place"), step=1 - n_ctx // 2
    )(V, n_ctx),
}
pointers_by_hand.also_right = {
    "it looks at itself, too": _pointers(near=0, loud=9),
    "a pointer one further": _in_another_basis(lambda n: torch.eye(n).roll(1, 1), near=-60, alike=60),
    "a pointer that is no position": _in_another_basis(lambda n: torch.linalg.qr(random(n, n))[0], loud=5),
}
