"""Checks of lesson 03, zero layers: each exercise, and what each typical mistake is told."""

import math

import torch
from torch import Tensor

from course_lessons.fixtures import random, require_gradients
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.expectations import close, demand, pair, tensor

direct_path = compared(
    "`direct_path(W_E, W_U) → [V, V]`: "
    "the logits of a model without layers, one row per current token.",
    returns="[current token, next token]",
    fits=lambda answer: require_gradients(answer, random(4, 2), random(2, 4, seed=1)),
    cases=lambda: {
        "the shape is right and the numbers are not: "
        "which product gives logits, and nothing more?": [
            (random(V, d_model), random(d_model, V, seed=1)) for V, d_model in ((7, 3), (5, 8))
        ]
    },
    mistakes={
        "doubling token 2's embedding leaves its row as it was.": lambda E, U: (
            torch.nn.functional.normalize(E) @ U
        ),
        "doubling token 2's embedding should change row 2 and no other: "
        "is the current token on the rows?": lambda E, U: (E @ U).T,
        "doubling W_U leaves the result as it was: the table needs both.": lambda E, U: E @ E.T,
        "doubling W_U should double every logit: stay with logits, without a softmax.": (
            lambda E, U: (E @ U).softmax(1),
            lambda E, U: (E @ U).log_softmax(1),
        ),
    },
)


def _weights(value: object, d_vocab: int, d_model: int | None = None) -> tuple[Tensor, Tensor]:
    weights = pair(value, "W_E and W_U")
    for name, weight in zip(("W_E", "W_U"), weights, strict=True):
        demand(
            isinstance(weight, Tensor) and weight.ndim == 2,
            f"{name} should be a tensor with two axes.",
        )
    d_model = d_model or weights[0].shape[1]
    W_E = tensor(weights[0], (d_vocab, d_model), "W_E as [d_vocab, d_model]")
    return W_E, tensor(weights[1], (d_model, d_vocab), "W_U as [d_model, d_vocab]")


@judged
def exact_weights(answer: Answer) -> None:
    """`exact_weights(table) → W_E, W_U`: weights whose direct path is a given table.

    Every factorisation is right.
    """
    for d_vocab in (5, 3, 8):
        table = random(d_vocab, d_vocab, seed=d_vocab).log_softmax(1)
        W_E, W_U = _weights(answer(table), d_vocab)
        product, d_model = W_E @ W_U, W_E.shape[1]
        right, turned, exp = (close(product, other) for other in (table, table.T, table.exp()))
        away = (product - table).abs().max()
        rank = f"a d_model of {d_model} gives a table of rank {d_model} at most"
        for sentence, fails in {
            "W_E @ W_U is the table transposed: the current token is on its rows.": turned,
            "W_E @ W_U holds probabilities; "
            "it should hold what the table holds, their logarithms.": exp,
            f"{rank}; this one needs as many as it has tokens.": d_model < d_vocab,
            f"for {d_vocab} tokens an entry of W_E @ "
            f"W_U is {away:.2g} away from the table's.": not right,
        }.items():
            demand(right or not fails, sentence)


@judged
def alphabet_weights(answer: Answer) -> None:
    """`alphabet_weights(n, scale) → W_E [n, 2], W_U [2, n]`: n letters follow each other.

    Any circle is right.
    """
    for n, scale in ((5, 3.0), (26, 50.0), (4, 1.0), (9, 20.0)):
        W_E, W_U = _weights(answer(n, scale), n, 2)
        demand(
            close(W_U.norm(dim=0), torch.ones(n)),
            "each column of W_U should have length 1: a point on a circle.",
        )
        length = max(W_E.norm(dim=1), key=lambda length: abs(length - scale))
        demand(
            close(length, scale), f"with a scale of {scale:g} an embedding has length {length:.3g}."
        )
        best, successors = (W_E @ W_U).topk(2, dim=1)
        first, letter, lead = successors[:, 0], torch.arange(n), best[:, 0] - best[:, 1]
        wrong, tied = first != (letter + 1) % n, lead.min() <= 1e-4 * scale / n
        uneven = lead.max() - lead.min() >= 1e-2 * lead.max()
        narrow = lead.min() < 0.98 * scale * (1 - math.cos(2 * math.pi / n))
        whole = W_U.mean(1).norm() < 0.01  # evenly round the circle they cancel
        last = wrong.sum() == 1 and wrong[-1]
        itself = first == letter
        before = first == (letter - 1) % n
        for sentence, fails in {
            f"for n = {n} some letter has two best successors: "
            "are two of the directions the same?": tied,
            "every letter predicts itself; it should predict the next one.": itself.all(),
            "every letter predicts the one before it, not the next one.": before.all(),
            f"for n = {n} all are right but the last letter: "
            "do the angles go once round, in radians?": last,
            f"for n = {n} the first guess is wrong "
            f"for {int(wrong.sum())} of the letters.": wrong.any(),
            "some letters are surer of their successor than others: "
            "spread the directions evenly.": uneven,
            "the letters fill a part of the circle only; spread them round the whole of it.": narrow
            and not whole,
            "each embedding points a little beside its successor: "
            "let it point exactly at the next letter's unembedding.": narrow,
        }.items():
            demand(not fails, sentence)


def _table(n: int, seed: int) -> Tensor:
    """Rows of different lengths and means, so that both matter to which are near."""
    rows = random(n, n, seed=seed) + 2 * random(n, 1, seed=seed + 1)
    return rows * (1 + 2 * random(n, 1, seed=seed + 2).abs())


def _nearest(
    by: Answer = lambda rows, token: rows @ rows[token],
    rows: Answer = lambda table: torch.nn.functional.normalize(table - table.mean(1, keepdim=True)),
    itself: float = -math.inf,
) -> Answer:
    def answer(table: Tensor, token: int, k: int) -> Tensor:
        likeness = by(rows(table), token)
        likeness = likeness.index_fill(0, torch.tensor(token), itself)
        return likeness.topk(k).indices

    return answer


nearest_rows = compared(
    "`nearest_rows(table, token, k) → [k]`: "
    "the ids of the tokens whose centred rows have the largest cosine with that of `token`.",
    returns="[k]",
    cases=lambda: {
        "these are not the tokens with the most similar rows, the most similar first.": [
            (_table(n, seed), token, k)
            for n, seed, token, k in ((12, 0, 11, 4), (12, 2, 0, 4), (5, 4, 2, 4))
        ]
    },
    mistakes={
        "the token itself is among them: its row is always most similar to itself.": _nearest(
            itself=math.inf
        ),
        "a token set to 0 still comes before those whose cosine is negative: use −∞.": _nearest(
            itself=0.0
        ),
        "the lengths are those of columns; each row has its own.": _nearest(
            rows=lambda table: torch.nn.functional.normalize(
                table - table.mean(1, keepdim=True), dim=0
            )
        ),
        "those are the largest dot products; a cosine needs rows of length 1.": _nearest(
            rows=lambda table: table - table.mean(1, keepdim=True)
        ),
        "neither centred nor of length 1: subtract each row's mean, and divide by its length.": (
            _nearest(rows=lambda table: table)
        ),
        "subtract from each row its mean before you compare.": _nearest(
            rows=lambda table: torch.nn.functional.normalize(table)
        ),
        "the means are those of columns; each row has its own.": _nearest(
            rows=lambda table: torch.nn.functional.normalize(table - table.mean(0))
        ),
        "those are similar columns; the current token is on the rows.": _nearest(
            rows=lambda table: torch.nn.functional.normalize(
                table.T - table.T.mean(1, keepdim=True)
            )
        ),
        "the most similar should come first.": lambda table, token, k: _nearest()(
            table, token, k
        ).flip(0),
        "those are the least similar rows.": lambda table, token, k: _nearest(
            by=lambda rows, token: -(rows @ rows[token])
        )(table, token, k),
    },
)
