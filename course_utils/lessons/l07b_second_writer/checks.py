"""Checks of lesson 07b, the second writer: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_utils import heads, models
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import passes
from course_utils.course.questions import Unfit, Wrong, demand, four_circuits


@exercise
def two_occurrences(answer: Answer) -> None:
    """`two_occurrences(A, same, other, filler) → tokens`: A in two companies, then the first company, and A."""
    for A, same, other, filler in (
        (7, [11, 12, 13], [21, 22, 23], list(range(30, 38))),
        (5, [61, 62, 63, 64, 65], [71, 72, 73, 74, 75], list(range(40, 49))),
    ):
        text = _listed(answer(A, list(same), list(other), list(filler)))
        demand(text[0] == 0, "a text begins with the start token, number 0.")
        known = {0, A, *same, *other, *filler}
        demand({*text} <= known, "it holds a token that it was not given.")
        demand(text[-1] == A, "the last token should be A: there the query is made.")
        places = [place for place, token in enumerate(text[:-1]) if token == A]
        demand(len(places) == 2, f"before the last one A should stand twice, not {len(places)} times.")
        demand(
            text[-1 - len(same) : -1] == same,
            "just before the last A should stand `same`, all of it and in its order.",
        )
        company = [text[max(place - len(same), 0) : place] for place in places]
        demand(
            company[0] != other or company[1] != same,
            "the occurrence in the same company is the nearer one: a mere preference for what is near would look the "
            "same. Put it first.",
        )
        demand(company[0] == same, "the first A should have `same` just before it.")
        demand(company[1] == other, "the second A should have `other` just before it.")
        after = [text[place + 1] for place in places]
        demand(
            {*after} <= {*filler},
            "after each earlier A should come a filler: what is read off there is a B of its own.",
        )
        demand(len({*after}) == 2, "the same filler follows both occurrences: then nothing tells which one was found.")
        rest = [token for token in text if token in filler]
        demand(len({*rest}) == len(rest), "a filler comes twice, and is a repeat of its own.")
        demand(text.count(other[0]) == 1, "`other` should come once.")
        demand(text.count(same[0]) == 2, "`same` should come twice, before the first A and before the last.")
    if isinstance(answer(A, list(same), list(other), list(filler)), Tensor):
        raise Unfit("the next cells want a list of tokens, and get a tensor: return its `.tolist()`")


def _listed(result: Any) -> list[int]:
    """An answer as a list of whole numbers."""
    if isinstance(result, Tensor):
        result = result.tolist()
    if not isinstance(result, list | tuple) or not result or not all(isinstance(token, int) for token in result):
        raise Wrong("it should return one list of tokens, whole numbers.")
    return list(result)


def _text(*order: str) -> Answer:
    """An answer that puts the parts in this order; F and G are two parts of the filler."""

    def answer(A: int, same: list[int], other: list[int], filler: list[int]) -> list[int]:
        parts = {"0": [0], "A": [A], "same": same, "other": other, "F": filler[:3], "G": filler[3:], "f": filler[:1]}
        return [token for name in order for token in parts[name]]

    return answer


two_occurrences.mistakes = {
    "no start token": (_text("same", "A", "F", "other", "A", "G", "same", "A"), "begins with the start token"),
    "the same company nearer": (
        _text("0", "other", "A", "F", "same", "A", "G", "same", "A"),
        "a mere preference for what is near",
    ),
    "ends with other": (_text("0", "same", "A", "F", "other", "A", "G", "other", "A"), "should stand `same`"),
    "ends before A": (_text("0", "same", "A", "F", "other", "A", "G", "same"), "the last token should be A"),
    "ends after A": (_text("0", "same", "A", "F", "other", "A", "same", "A", "G"), "the last token should be A"),
    "A once": (_text("0", "same", "A", "F", "other", "G", "same", "A"), "A should stand twice, not 1 times"),
    "A three times": (
        _text("0", "same", "A", "F", "other", "A", "G", "A", "same", "A"),
        "A should stand twice, not 3 times",
    ),
    "no filler between": (_text("0", "same", "A", "other", "A", "G", "same", "A"), "should come a filler"),
    "the same B": (_text("0", "same", "A", "f", "other", "A", "f", "G", "same", "A"), "the same filler follows both"),
    "a filler twice": (_text("0", "same", "A", "F", "f", "other", "A", "G", "same", "A"), "a filler comes twice"),
    "other twice": (_text("0", "same", "A", "F", "other", "A", "G", "other", "same", "A"), "`other` should come once"),
    "same thrice": (_text("0", "same", "A", "F", "same", "other", "A", "G", "same", "A"), "`same` should come twice"),
    "reversed": (
        lambda A, same, other, filler: [0, *same, A, *filler[:3], *other, A, *filler[3:], *same[::-1], A],
        "should stand `same`, all of it and in its order",
    ),
    "a number": (lambda A, same, other, filler: A, "it should return one list of tokens"),
    "tokens of its own": (
        lambda A, same, other, filler: [0, *same, A, 1, *other, A, *filler, *same, A],
        "it holds a token that it was not given",
    ),
}


@exercise
def pointers_by_hand(answer: Answer) -> None:
    """`pointers_by_hand(V, n_ctx) → QK1, OV1, QK2, OV2`: induction by a pointer, through the query."""
    for V, period in ((7, 4), (10, 8)):
        n_ctx = 2 * period + 1
        circuits = four_circuits(answer(V, n_ctx), V + 2 * n_ctx, "V + 2 · n_ctx")
        built = models.from_circuits(circuits[0::2], circuits[1::2], V, n_ctx, "standard")
        tokens = passes(V, n_ctx, period)
        logits, (_, run) = built(tokens), built.run_with_cache(tokens)
        dest = torch.arange(period + 1, n_ctx)
        first, second = (run["pattern", layer][:, 0] for layer in (0, 1))
        back = first.diagonal(-1, 1, 2)[:, 1:].mean()
        demand(back < 0.5, "the first head looks one back: that is lesson 07's circuit, and the pointer is another.")
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
        lands = {by: second[:, dest, (dest - period + by)].mean().item() for by in (-1, 0, 1)}
        demand(
            lands[0] < 0.5,
            "the second head looks at the earlier A, where the pointer points: it should look one further.",
        )
        demand(lands[-1] < 0.5, "the second head looks one before the earlier A: the shift goes the other way.")
        demand(
            lands[1] > 0.98,
            f"the second head gives the earlier B {lands[1]:.2f} of its attention: QK2 should fit a pointer to j to "
            "the position j + 1, with large scores.",
        )
        said, right = logits[:, period + 1 : -1].argmax(-1), tokens[:, period + 2 :]
        demand((said == right).all(), "the second head looks at B, but the model does not say B: is OV2 loud enough?")
        none = heads.patterns(models.from_circuits(circuits[0::2], circuits[1::2], V, n_ctx), tokens)[1, 0]
        demand(none[:, dest, dest - period + 1].mean() < 0.9, "it works without positions in the stream: no pointer.")


def _pointers(change: Callable[..., tuple] | None = None, sharp: float = 30, loud: float = 2) -> Answer:
    def answer(V: int, n_ctx: int) -> tuple[Tensor, ...]:
        token, place, pointer = slice(0, V), slice(V, V + n_ctx), slice(V + n_ctx, V + 2 * n_ctx)
        QK1, OV1, QK2, OV2 = torch.zeros(4, V + 2 * n_ctx, V + 2 * n_ctx)
        QK1[token, token] = sharp * torch.eye(V)
        QK1[place, place] = -sharp * torch.eye(n_ctx)
        OV1[place, pointer] = torch.eye(n_ctx)
        QK2[pointer, place] = sharp * torch.diag(torch.ones(n_ctx - 1), 1)
        OV2[token, token] = loud * torch.eye(V)
        circuits = QK1, OV1, QK2, OV2
        return change(*circuits, token, place, pointer) if change else circuits

    return answer


def _placed(like: Tensor, rows: slice, columns: slice, block: Tensor) -> Tensor:
    result = torch.zeros_like(like)
    result[rows, columns] = block
    return result


def _one_back(a: Tensor, b: Tensor, c: Tensor, d: Tensor, t: slice, p: slice, q: slice) -> tuple[Tensor, ...]:
    return _placed(a, p, p, 30 * torch.diag(torch.ones(p.stop - p.start - 1), -1)), b, c, d


pointers_by_hand.mistakes = {
    "three matrices": (lambda V, n: _pointers()(V, n)[:3], "it should return four matrices"),
    "lesson 07's sizes": (lambda V, n: list(torch.zeros(4, 2 * V + n, 2 * V + n)), "with d_model = V + 2 · n_ctx"),
    "a previous-token head": (_pointers(_one_back), "that is lesson 07's circuit"),
    "soft scores": (_pointers(sharp=1), "QK1 should fit a token to the same token"),
    "looks at nothing": (_pointers(lambda a, b, c, d, *_: (0 * a, b, c, d)), "QK1 should fit a token"),
    "nothing brought": (_pointers(lambda a, b, c, d, *_: (a, 0 * b, c, d)), "brings nothing back"),
    "OV1 transposed": (_pointers(lambda a, b, c, d, *_: (a, b.T, c, d)), "brings nothing back"),
    "the token brought": (
        _pointers(lambda a, b, c, d, t, p, q: (a, _placed(b, t, t, torch.eye(t.stop)), c, d)),
        "QK2 should fit a pointer",
    ),
    "no step": (
        _pointers(lambda a, b, c, d, t, p, q: (a, b, _placed(c, q, p, 30 * torch.eye(p.stop - p.start)), d)),
        "where the pointer points",
    ),
    "a step back": (
        _pointers(lambda a, b, c, d, t, p, q: (a, b, _placed(c, q, p, c[q, p].T), d)),
        "the shift goes the other way",
    ),
    "QK2 transposed": (_pointers(lambda a, b, c, d, *_: (a, b, c.T, d)), "QK2 should fit a pointer"),
    "too quiet": (_pointers(loud=0.5), "is OV2 loud enough"),
}
