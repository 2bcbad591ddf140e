"""Checks of lesson 04b, what reading misses: each exercise, and what each mistake is told."""

import torch
from torch import Tensor

from course_utils import paths
from course_utils.course.exercises import Answer, judged
from course_utils.course.expectations import Unfit, close, demand, pair, tensor

_KEEP, _IN, _AT, _MIND, _BAY = 1, 2, 3, 4, 5  # 0 is the start token
_NAMES = {_KEEP: "keep", _IN: "in", _AT: "at", _MIND: "mind", _BAY: "bay"}


@judged
def keep_in_mind(answer: Answer) -> None:
    """`keep_in_mind() → QK [head, dest, src], OV [head, src, output]`: in mind, at bay, no bugs.

    Any that do so are right.
    """
    given = pair(answer(), "QK and OV")
    means = ("[head, dest, src] for QK", "[head, src, output token] for OV")
    sizes = [(len(table) if getattr(table, "ndim", 0) == 3 else 1, 6, 6) for table in given]
    QK, OV = map(tensor, given, sizes, means)
    demand(
        len(QK) == len(OV),
        f"QK has {len(QK)} heads and OV {len(OV)}: give both tables for every head.",
    )
    demand(
        max(QK.abs().max().item(), OV.abs().max().item()) <= 100,
        "keep all entries between −100 and 100.",
    )

    wrong = _what_is_wrong(QK, OV)
    if wrong and not _what_is_wrong(QK.mT, OV):
        wrong = "QK has destinations on its rows and sources on its columns; yours is transposed."
    demand(not wrong, wrong)
    if not all(table.is_floating_point() for table in given):
        raise Unfit(
            "the next cells want tables of floats, and get whole numbers: torch.zeros makes floats"
        )


def _what_is_wrong(QK: Tensor, OV: Tensor) -> str:
    """What these tables get wrong, or nothing."""

    def after(*text: int) -> Tensor:
        return paths.of_tables(QK, OV, torch.tensor([0, *text]))[-1].softmax(-1)

    heads = "your one head does" if len(QK) == 1 else f"your {len(QK)} heads do"
    for dest in (_IN, _AT):
        if not abs((after(dest)[_MIND] / after(dest)[_BAY]).log()) < 0.05:
            likely = f"without keep, mind and bay should be equally likely after {_NAMES[dest]!r}"
            return f"{likely}, but {heads} tell them apart."
    why = "What one head adds for keep it adds for every destination that looks for keep."
    for dest, out, bug in ((_IN, _MIND, _BAY), (_AT, _BAY, _MIND)):
        for between in ([], [dest], [_MIND]):
            p = after(_KEEP, *between, dest)
            text = " … ".join(_NAMES[token] for token in (_KEEP, *between, dest))
            if p[bug] > 0.3:
                return f"a bug: after {text}, {_NAMES[bug]} gets {p[bug]:.2f}. {why}"
            if not p[out] > 0.9:
                return (
                    f"after {text}, {_NAMES[out]} gets {p[out]:.2f}; it should get more than 0.9."
                )
    return ""


@judged
def attention_program(answer: Answer) -> None:
    """`attention_program(strings) → [dest, src]`: a guess, without weights, where a head looks.

    Any guess is right.
    """
    words = ["<|start|>", "def", " f", "(", "x", ",", " y", "):", "\n   ", " return", " x"]
    for n in (1, 4, 11):
        first = answer(words[:n])
        is_table = isinstance(first, Tensor) and first.shape == (n, n) and not first.is_complex()
        demand(
            not is_table or 0 < abs(first[0].sum()) < torch.inf,
            "row 0 is empty: a token may look at itself.",
        )
        pattern, again = (tensor(p, (n, n), "[dest, src]") for p in (first, answer(words[:n])))
        rows, columns = (close(pattern.sum(axis), torch.ones(n)) for axis in (1, 0))
        crossed = columns and not rows
        even = close(pattern, _normalised(torch.ones(n, n))) and n == 11
        for sentence, fails in {
            "attention is never negative.": (pattern < 0).any(),
            "the columns sum to 1; the rows should: "
            "each destination has one unit of attention to give.": crossed,
            "a destination looks at a later token; "
            "only itself and earlier ones count.": pattern.triu(1).any(),
            "each row should sum to 1: divide it by its sum.": not rows,
            "twice the same text, and two patterns.": not close(pattern, again),
            "that is an even pattern: let the distance, or the tokens, make a difference.": even,
        }.items():
            demand(not fails, sentence)


def _normalised(weights: Tensor) -> Tensor:
    return weights.tril() / weights.tril().sum(1, keepdim=True)
