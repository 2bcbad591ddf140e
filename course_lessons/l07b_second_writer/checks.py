"""Checks of lesson 07b, the second writer: each exercise, and what each mistake is told."""

import torch
from torch import Tensor

from course_lessons import by_hand
from course_lessons.fixtures import passes
from course_utils import heads
from course_utils.course.exercises import Answer, judged
from course_utils.course.expectations import Unfit, Wrong, demand, four_circuits


@judged
def two_occurrences(answer: Answer) -> None:
    """`two_occurrences(A, same, other, filler) → tokens`: A in two companies, and again in one."""
    for A, n in ((7, 3), (5, 5)):
        same, other, filler = (
            [*range(start, end)] for start, end in ((11, 11 + n), (21, 21 + n), (30, 40))
        )
        given = answer(A, list(same), list(other), list(filler))
        text = given.tolist() if isinstance(given, Tensor) else given
        if (
            not isinstance(text, list | tuple)
            or not text
            or not all(isinstance(token, int) for token in text)
        ):
            raise Wrong("it should return one list of tokens, whole numbers.")
        text = list(text)
        places = [place for place, token in enumerate(text[:-1]) if token == A]
        first, second, *_ = [text[max(place - n, 0) : place] for place in places] + [[], []]
        last, after = text[-1 - n : -1], {text[place + 1] for place in places}
        rest = [token for token in text if token in filler]
        for sentence, holds in {
            "a text begins with the start token, number 0.": text[0] == 0,
            "it holds a token that it was not given.": {*text} <= {0, A, *same, *other, *filler},
            "the last token should be A: there the query is made.": text[-1] == A,
            f"before the last one A should stand twice, not {len(places)} times.": len(places) == 2,
            "just before the last A should stand `same`, all of it and in its order.": last == same,
            "the occurrence in the same company is the nearer one: a mere preference "
            "for what is near would look the same. Put it first.": (first, second) != (other, same),
            "the first A should have `same` just before it.": first == same,
            "the second A should have `other` just before it.": second == other,
            "after each earlier A should come a filler: "
            "what is read off there is a B of its own.": after <= {*filler},
            "the same filler follows both occurrences: "
            "then nothing tells which one was found.": len(after) == 2,
            "a filler comes twice, and is a repeat of its own.": len({*rest}) == len(rest),
            "`other` should come once.": text.count(other[0]) == 1,
            "`same` should come twice, before the first A and before the last.": text.count(same[0])
            == 2,
        }.items():
            demand(holds, sentence)
    if isinstance(given, Tensor):
        raise Unfit(
            "the next cells want a list of tokens, and get a tensor: return its `.tolist()`"
        )


@judged
def pointers_by_hand(answer: Answer) -> None:
    """`pointers_by_hand(V, n_ctx) → QK1, OV1, QK2, OV2`: induction by a pointer.

    Any circuits that do it are right.
    """
    for V, period in ((7, 4), (10, 8)):
        n_ctx = 2 * period + 1
        circuits = four_circuits(answer(V, n_ctx), V + 2 * n_ctx, "V + 2 · n_ctx")
        QK = circuits[0::2]
        OV = circuits[1::2]
        tokens = passes(V, n_ctx, period)
        dest = torch.arange(period + 1, n_ctx)
        built, blind = (
            by_hand.from_circuits(QK, OV, V, n_ctx, seen) for seen in ("standard", "shortformer")
        )
        logits, (_, run) = built(tokens), built.run_with_cache(tokens)
        first, second = (run["pattern", layer][:, 0] for layer in (0, 1))
        none = heads.patterns(blind, tokens)[1, 0][:, dest, dest - period + 1].mean().item()
        copies = first[:, dest, dest - period].mean().item()
        brought = (run["resid_post", 0] - run["resid_pre", 0])[:, dest].abs().max().item() > 0.1
        before, at, after = (second[:, dest, dest - period + by].mean().item() for by in (-1, 0, 1))
        right = torch.equal(logits[:, period + 1 : -1].argmax(-1), tokens[:, period + 2 :])
        one = first.diagonal(-1, 1, 2)[:, 1:].mean().item()
        for sentence, holds in {
            "the first head looks one back: "
            "that is lesson 07's circuit, and the pointer is another.": one < 0.5,
            f"from the second A, the first head gives the earlier A {copies:.2f} of its attention: "
            "QK1 should fit a token to the same token, with large scores.": copies > 0.4,
            "the first head brings nothing back: "
            "OV1 is [from, to], from the position part to the empty part.": brought,
            "the second head looks at the earlier A, where the pointer points: "
            "it should look one further.": at < 0.5,
            "the second head looks one before the earlier A: the shift goes the other way.": before
            < 0.5,
            f"the second head gives the earlier B {after:.2f} of its attention: QK2 "
            "should fit a pointer to j to the position j + 1, with large scores.": after > 0.98,
            "the second head looks at B, but the model does not say B: is OV2 loud enough?": right,
            "it works without positions in the stream: no pointer.": none < 0.9,
        }.items():
            demand(holds, sentence)
