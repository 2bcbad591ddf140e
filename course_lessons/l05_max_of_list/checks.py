"""Checks of lesson 05, max of a list: each exercise, and what each typical mistake is told."""

import itertools

import torch
from torch import Tensor

from course_lessons import max_of_list
from course_lessons.fixtures import random
from course_utils.course.exercises import Answer, Said, compared, judged
from course_utils.course.expectations import Wrong, close, demand


@judged
def by_hand(answer: Answer) -> None:
    """`by_hand(line) → six weights`: attention is the line's softmax, each value votes for itself.

    Any such weights are right.
    """
    for values in (5, 7):
        line = (1 + random(values, seed=values).abs()).cumsum(0)
        made = answer(line.clone())
        demand(
            isinstance(made, dict),
            f"it should return a dictionary of six matrices, not {type(made).__name__}.",
        )
        for name, weight in made.items():
            demand(
                isinstance(weight, Tensor),
                f"{name} should be a tensor, not {type(weight).__name__}.",
            )
        try:
            model = max_of_list.built(
                {name: weight.detach().float() for name, weight in made.items()}
            )
        except (TypeError, ValueError) as error:
            raise Wrong(str(error)) from None
        demand(
            model.cfg.d_vocab == values,
            f"for a line of {values} values W_E should have {values} rows.",
        )
        few = torch.tensor([[0, 4, 0, 0], [1, 1, 4, 1], [2, 2, 2, 2], [3, 1, 4, 0], [2, 4, 1, 3]])
        lists = values - 5 + few
        logits, (_, cache) = model(lists), model.run_with_cache(lists)
        # at the last position: attention, scores, and votes, as they are and as they should be
        seen, wanted = cache["pattern", 0][:, 0, -1], line[lists].softmax(1)
        score, places = _centred(cache["attn_scores", 0][:, 0, -1]), _centred(line[lists])
        given = _centred(logits[:, -1])
        votes = _centred(torch.zeros(len(lists), values).scatter_add(1, lists, wanted))
        ratio = _times(score, places)
        scale = _times(given, votes)
        off_line = not close(seen, wanted)
        off_votes = not close(given, scale * votes)
        shared = (model.W_Q[0, 0] != 0).any(0) & (model.W_K[0, 0] != 0).any(0)
        columns = int(shared.sum())
        even = close(seen, torch.tensor(0.25))
        speaks = not close(_centred(model.W_E @ model.W_U), 0.0)
        for sentence, is_so in {
            "every source gets the same attention: the line is not used.": even,
            f"scores are {ratio:.2f} times the line: a score sums the products of all columns of "
            f"W_Q and W_K, and {columns} are in use here. One is enough.": off_line
            and columns > 1
            and close(score, ratio * places),
            f"scores are {ratio:.2f} times the line: TransformerLens divides them by √d_head, "
            f"here {model.cfg.d_head**0.5:.2f}.": off_line and close(score, ratio * places),
            "the score of a source should be its place on the line, whatever the last token is: "
            "one of W_Q's columns should read the constant 1, "
            "and the same one of W_K's the line.": off_line,
            "no value votes for itself.": scale <= 0 or close(given, 0.0),
            "the last token gets votes beyond its attention: the direct path, W_E W_U, speaks too. "
            "Let the head write where the embedding writes nothing, "
            "and W_U read only there.": off_votes and speaks,
            "each value's logit should be the attention that its copies get: W_V, W_O and W_U "
            "together should turn a value into a vote for itself and for nothing else.": off_votes,
            f"each value's logit is {scale:.2f} times the attention that its copies get: W_V, W_O "
            "and W_U together should leave the size of a vote as it is.": not close(given, votes),
        }.items():
            demand(not is_so, sentence)


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(1, keepdim=True)


def _times(a: Tensor, b: Tensor) -> float:
    return ((a * b).sum() / (b * b).sum()).item()


def _votes(scores: Tensor, said: Tensor) -> Tensor:
    return scores.exp()[..., None] * said


def _one_entry(got: Tensor, right: Tensor, scores: Tensor, say: Tensor, direct: Tensor) -> Said:
    q, i, v, o = 1, 0, 2, 0
    parts = f"e to {scores[q, i, v]:.2f}, times {say[i, v, o]:.2f} + {direct[q, o]:.2f}"
    said = (
        f"the vote of value {v} at position {i} for output {o}, if {q} is last, "
        f"is {parts} = {right[q, i, v, o]:.2f}; yours is {got[q, i, v, o]:.2f}."
    )
    return {said: not close(got[q, i, v, o], right[q, i, v, o])}


def _elections() -> list[tuple[Tensor, Tensor, Tensor]]:
    """Scores, say and direct of as many outputs as values, for lists of two lengths."""
    return [
        (random(V, n, V, seed=n), random(n, V, V, seed=n + 10), random(V, V, seed=n + 20))
        for n, V in ((2, 4), (5, 3), (3, 3))
    ]


votes = compared(
    "`votes(scores, say, direct) → [query, pos, value, out]`: e to the score, times what the "
    "position and the direct path say together.",
    returns="[query, pos, value, out]",
    cases=lambda: {"the votes differ.": _elections()},
    mistakes={
        "the direct path is left out: each position says `say` and `direct`.": lambda s, say, d: (
            _votes(s, say)
        ),
        "`direct` needs the weight, too: e to the score multiplies the sum.": (
            lambda s, say, d: _votes(s, say) + d[:, None, None]
        ),
        "these are scores times what is said; the weight is e to the score.": (
            lambda s, say, d: s[..., None] * (say + d[:, None, None])
        ),
        "this divides by the sum over a list's positions, but a vote does not know "
        "the other positions: use `exp` alone.": (
            lambda s, say, d: s.softmax(1)[..., None] * (say + d[:, None, None]),
            lambda s, say, d: s.softmax(2)[..., None] * (say + d[:, None, None]),
            lambda s, say, d: (
                s.flatten(1).softmax(1).view_as(s)[..., None] * (say + d[:, None, None])
            ),
        ),
        "the first axis of `direct` is the query, not the value at the position.": (
            lambda s, say, d: _votes(s, say + d)
        ),
        "`direct` has the query first and the output second; yours are exchanged.": (
            lambda s, say, d: _votes(s, say + d.T[:, None, None])
        ),
        "the first axis of `direct` is the query, not the position.": lambda s, say, d: (
            _votes(s, say + d[: len(say), None]) if len(d) >= len(say) else s
        ),
    },
    explain=_one_entry,
)


def _sums(parts: Tensor, largest: int, most: int | None = None) -> Tensor:
    """The least sum with the largest at each place, [pos], and values up to `most` elsewhere."""
    least = parts[:, : (largest if most is None else most) + 1].amin(1)
    return least.sum() - least + parts[:, largest]


def _worst_list(got: float, right: float, parts: Tensor, largest: int) -> str:
    if largest == 0:
        return "if the largest number is 0, all are 0."
    ways = (
        one for one in itertools.product(range(largest + 1), repeat=len(parts)) if largest in one
    )
    worst = min(ways, key=lambda one: parts[range(len(parts)), one].sum().item())
    on = (
        f"for parts of shape {len(parts)} × {parts.shape[1]}, "
        f"the worst way with the largest number {largest} is {[*worst]}"
    )
    return f"{on}, with a sum of {right:.2f}; yours is {got:.2f}."


worst_margin = compared(
    "`worst_margin(parts, largest) → float`: "
    "the least sum over all ways whose largest number is `largest`.",
    cases=lambda: {
        "it is not the least sum over ways whose largest number is `largest`.": [
            (torch.tensor([[2.0, -1, 8, -50], [1, -3, 4, -50]]), 2),
            (torch.tensor([[1.0, -3, -9], [2, -1, -5]]), 2),
            (torch.tensor([[-4.0, 1, 1], [0, 2, 2]]), 2),
            *(
                (random(n, values, seed=n), M)
                for n, values in ((4, 6), (1, 5), (3, 7))
                for M in range(values)
            ),
        ]
    },
    mistakes={
        "numbers above `largest` are not allowed.": lambda parts, M: _sums(
            parts, M, parts.shape[1]
        ).min(),
        "in your worst way none is `largest`, but at least one number must be.": lambda parts, M: (
            parts[:, : M + 1].amin(1).sum()
        ),
        "only one number must be `largest`; the others may be smaller, and do more harm.": (
            lambda parts, M: parts[:, M].sum()
        ),
        "the part of `largest` is added, but what its position would add otherwise is still in.": (
            lambda parts, M: parts[:, : M + 1].amin(1).sum() + parts[:, M].min()
        ),
        "where the part of `largest` is smallest, the swap need not be cheapest: for parts "
        "[[−4, 1, 1], [0, 2, 2]] and `largest` 2, position 0 gives 1, and position 1 gives −2.": (
            lambda parts, M: _sums(parts, M)[parts[:, M].argmin()]
        ),
        "`largest` may be at any position: make the whole sum for each, and take the least.": (
            lambda parts, M: _sums(parts, M)[0],
            lambda parts, M: _sums(parts, M)[-1],
            lambda parts, M: _sums(parts, M).max(),
        ),
        "`largest` may occur more than once: 2, 2 is worst for parts [[1, −3, −9], [2, −1, −5]].": (
            lambda parts, M: _sums(parts, M, max(M - 1, 0)).min()
        ),
    },
    explain=_worst_list,
)
