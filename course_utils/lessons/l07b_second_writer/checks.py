"""Checks of lesson 07b, the second writer: each exercise, then its typical mistakes with the sentence each must get."""

import torch
from torch import Tensor

from course_utils import heads, models
from course_utils.course.exercises import Answer, judged
from course_utils.course.fixtures import passes
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
