"""Checks of lesson 07b, the second writer: each exercise, and what each mistake is told."""

from torch import Tensor

from course_utils.course.exercises import Answer, judged
from course_utils.course.expectations import Unfit, Wrong, demand


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
