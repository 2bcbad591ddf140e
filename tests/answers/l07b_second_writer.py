"""Answers to lesson 07b's exercises: others that are right, and wrong ones with what they hear."""

import torch

from course_utils.course.exercises import Answer


def _text(order: str) -> Answer:
    """An answer that puts the parts in this order; f, F and G are three parts of the filler."""

    def answer(A: int, same: list[int], other: list[int], filler: list[int]) -> list[int]:
        parts = {"0": [0], "1": [1], "A": [A], "same": same, "emas": same[::-1], "other": other}
        parts |= {"f": filler[:1], "F": filler[1:3], "G": filler[3:]}
        return [token for name in order.split() for token in parts[name]]

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
}
