"""Checks of lesson 01, the transformer: each exercise, and what each typical mistake is told."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course_lessons.fixtures import random, require_gradients
from course_utils.course.exercises import Answer, Said, compared
from course_utils.course.expectations import Unfit, Wrong, close


def _of_shapes(advice: str) -> Callable[..., Said]:
    def say(outcome: object, *given: Tensor) -> Said:
        shapes = " and ".join(str([*value.shape]) for value in given)
        return {
            f"an index does not fit the shape {shapes}: {advice}": isinstance(outcome, IndexError),
            # not what Python derives from it, as RecursionError
            f"PyTorch can't combine the arguments' shapes, here {shapes}: {advice}": (
                type(outcome) is RuntimeError
            ),
        }

    return say


def _fit_for_training(given: Callable[[int], Iterable[Any]], answer: Answer) -> None:
    """Raise Unfit if training could not call a right answer.

    It could not without a gradient in double precision, or if the answer loops over places.
    """
    counts = []
    for n in (1, 16):
        doubles = [
            value.double() if torch.is_tensor(value) and value.is_floating_point() else value
            for value in given(n)
        ]
        with Operations() as made:
            require_gradients(answer, *doubles)
        counts.append(made.count)
    more = counts[1] - counts[0]
    if more > 50:
        raise Unfit(
            "training would be slow: "
            f"for 16 tokens it makes {more:,} operations more than for 1, by loops"
        )


def _unmasked(scores: Any) -> Any:
    if isinstance(scores, Tensor) and (scores == -torch.inf).any():
        raise Wrong("some scores are −∞ already: the mask is the next step.")
    return scores


def _scores_of_shapes(outcome: object, q: Tensor, k: Tensor) -> Said:
    shapes = f"{[*q.shape]} and {[*k.shape]}"
    # of matrices, a product by `@` fails with other words
    entry_by_entry = (
        type(outcome) is RuntimeError and q.ndim == 2 and "must match the size" in str(outcome)
    )
    if entry_by_entry:
        return (
            f"shapes {shapes} don't fit entry by entry, as `*` would have it: "
            "a table of dot products is a matrix product, `@`."
        )
    return _of_shapes(MT)(outcome, q, k)


def _fixed(got: Tensor, right: Tensor, q: Tensor, k: Tensor) -> Said:
    factors = q @ k.mT / got  # the same everywhere, if the scores are divided by something
    factor, n = factors.flatten()[0].item(), q.shape[-1]
    return {
        "these rows sum to 1: the softmax comes two steps on.": close(got.sum(-1), 1.0),
        f"for q and k of shape {[*q.shape]} it divides by {factor:.3g}: d_head is {n} here, "
        "so take it from the shape, `q.shape[-1]`.": close(factors, torch.full_like(got, factor)),
    }


MT = "`k.mT` exchanges the last two axes of `k`, whatever stands in front."
attention_scores = compared(
    "`attention_scores(q, k) → scores`: every query with every key, divided by √d_head.",
    advice=_scores_of_shapes,
    fits=partial(_fit_for_training, lambda n: [random(2, 3, n, 4), random(2, 3, n, 4, seed=1)]),
    returns="[..., dest, src]",
    as_read=_unmasked,
    cases=lambda: {
        f"it fails for q and k of shape {shape}: dest on rows, src on columns, "
        "q · k / √d_head in each.": tuple(random(*shape, seed=seed) for seed in range(2))
        for shape in ([5, 4], [2, 6, 3], [2, 3, 4, 9], [1, 2])
    },
    mistakes={
        "the scores are not divided at all: divide them by √d_head.": lambda q, k: q @ k.mT,
        "the scores are divided by d_head: divide them by √d_head.": lambda q, k: (
            q @ k.mT / q.shape[-1]
        ),
        "the scores are multiplied: divide them by √d_head.": lambda q, k: (
            q @ k.mT * q.shape[-1] ** 0.5
        ),
        "that divides by the root of the number of positions: "
        "d_head is the length of a query.": lambda q, k: q @ k.mT / q.shape[-2] ** 0.5,
        "rows and columns are exchanged: "
        "a row belongs to a destination, whose query asks.": lambda q, k: (
            k @ q.mT / q.shape[-1] ** 0.5
        ),
    },
    explain=_fixed,
)

SHAPES = (4, 4), (1, 1), (7, 7), (2, 5, 5), (2, 3, 3, 3)
HIDDEN = -1e30  # stands for −∞, with which nobody can calculate


def _with_hidden(scores: Any) -> Any:
    if isinstance(scores, Tensor) and scores.isnan().any():
        raise Wrong("it makes values that are no numbers: 0 · ∞, perhaps? Fill them in instead.")
    if not isinstance(scores, Tensor):
        return scores
    return torch.where(scores == -torch.inf, HIDDEN, scores)


def _wrongly_masked(got: Tensor, right: Tensor, scores: Tensor) -> Said:
    hidden, later = got == HIDDEN, right == HIDDEN
    before = (hidden & ~later).tril(-1).any()
    stay = got[later & ~hidden].tolist()  # later scores that it keeps
    first = stay[0] if stay else torch.nan
    return {
        f"it fails for scores of shape {[*scores.shape]}: any axes may stand in front, "
        "so count from the last, as in `scores[..., dest, src]`.": scores.ndim > 2,
        "it hides a source that comes *before* its destination: "
        "rows are destinations, columns are sources.": before,
        "the scores come back as they were: `masked_fill` makes a new tensor, so return that.": (
            torch.equal(got, scores)
        ),
        "a position may look at itself: its own score should stay.": (hidden & ~later).any(),
        f"a later source has the score {first:.3g}: "
        "large, but not −∞. `-torch.inf` is a number here.": first <= -1e4,
        "these rows sum to 1: the softmax is the next step.": close(
            got.masked_fill(hidden, 0).sum(-1), 1.0
        ),
        "a later source has the score 0: "
        "to a softmax that is a score like any other; use −∞.": first == 0,
        "a source that comes after its destination keeps a score: hide all of them.": bool(stay),
    }


masked = compared(
    "`masked(scores) → scores`: −∞ where the source comes after the destination.",
    advice=_of_shapes(
        "any axes may stand in front; count from the last, as in `scores[..., dest, src]`."
    ),
    fits=partial(_fit_for_training, lambda n: [random(2, 3, n, n)]),
    returns="as the scores",
    as_read=_with_hidden,
    cases=lambda: {
        "a score that is not hidden should stay as it was.": [
            (3 * random(*shape),) for shape in SHAPES
        ]
    },
    explain=_wrongly_masked,
)


def _bent(seed: int, x: Tensor) -> Tensor:
    return torch.tanh(x @ random(x.shape[-1], x.shape[-1], seed=seed))


def _machine(
    layers: int, ln: bool, batch: int = 2, n: int = 4, V: int = 6, d_model: int = 3, n_ctx: int = 8
) -> tuple:
    """Tokens, W_E, W_pos, blocks, ln_final, W_U."""
    tokens = torch.randint(V, (batch, n), generator=torch.Generator().manual_seed(0))
    blocks = [
        tuple(partial(_bent, 10 * layer + part) for part in range(4))
        for layer in range(3, layers + 3)
    ]
    W_E, W_pos, W_U = random(V, d_model), random(n_ctx, d_model, seed=1), random(d_model, V, seed=2)
    return tokens, W_E, W_pos, blocks, partial(_bent, 5) if ln else torch.clone, W_U


def _block(
    x: Tensor, *parts: Callable, middle: Callable = torch.add, out: Callable = lambda x, m, f: m + f
) -> Tensor:
    ln1, attn, ln2, ff = parts
    m = middle(x, attn(ln1(x)))
    return out(x, m, ff(ln2(m)))


def _model(
    block: Callable[..., Tensor] = _block,
    start: Callable[..., Tensor] = lambda t, E, P: E[t] + P[: t.shape[1]],
    end: Callable[..., Tensor] = lambda x, ln, E, P, U: ln(x) @ U,
    order: slice = slice(None),
    **sums: Callable[..., Tensor],
) -> Answer:
    """A right answer, with something to get wrong in the keywords; `sums` are a block's."""

    def answer(t: Tensor, E: Tensor, P: Tensor, blocks: list, ln: Callable, U: Tensor) -> Tensor:
        x = start(t, E, P)
        for parts in blocks[order]:
            x = block(x, *parts, **sums)
        return end(x, ln, E, P, U)

    return answer


transformer = compared(
    "`transformer(tokens, W_E, W_pos, blocks, ln_final, W_U) → logits`: the whole model.",
    advice=lambda outcome, t, E, P, *others: {
        "it returns nothing for a model without blocks: "
        "is `return` missing, or inside the loop?": outcome is None and not others[0],
        f"W_pos has n_ctx rows, here {len(P)}, and the text only {t.shape[1]} tokens: "
        "add the rows of the places that it has.": isinstance(outcome, RuntimeError)
        and f"tensor b ({len(P)})" in str(outcome),
        f"tokens is [batch, pos], and its length counts the texts, here {len(t)}: "
        "the places are `tokens.shape[1]`.": isinstance(outcome, RuntimeError)
        and f"tensor b ({len(t)})" in str(outcome),
    },
    returns="[batch, pos, d_vocab]",
    fits=partial(_fit_for_training, lambda n: _machine(0, False, n=n, n_ctx=16)),
    cases=lambda: {
        "without blocks, the logits should be (W_E[tokens] + positions) W_U.": _machine(0, False),
        "what leaves a block should be the stream after attention, "
        "plus the MLP's output.": _machine(1, False),
        "each block should read what the last one returned.": _machine(2, False),
        "ln_final belongs between the last block and W_U, once.": _machine(2, True),
        "it fails for 1 texts of 5 tokens, n_ctx 5, and 3 blocks.": _machine(
            3, True, 1, 5, 7, 4, 5
        ),
        "it fails for 3 texts of 1 tokens, n_ctx 9, and 0 blocks.": _machine(
            0, True, 3, 1, 4, 6, 9
        ),
    },
    explain=lambda got, *_: {
        "no logit is below 0: these look like probabilities, and the softmax comes later.": (
            got >= 0
        ).all(),
        "these are log-probabilities; the logits come before them.": close(got.logsumexp(-1), 0.0),
    },
    mistakes={
        "it uses W_E a second time: W_U is a matrix of its own here.": _model(
            end=lambda x, ln, E, P, U: ln(x) @ E.T
        ),
        "W_pos makes no difference.": _model(start=lambda t, E, P: E[t]),
        "two texts get different positions: "
        "row 0 of W_pos belongs to the first place, whatever token stands there.": (
            _model(start=lambda t, E, P: E[t] + P[t]),
            _model(start=lambda t, E, P: E[t] + P[: len(t), None]),
        ),
        "the token at position i should get row i of W_pos, counted from 0.": (
            _model(start=lambda t, E, P: E[t] + P[-t.shape[1] :]),
            _model(start=lambda t, E, P: E[t] + P[1 : t.shape[1] + 1]),
            _model(start=lambda t, E, P: E[t] + P[: t.shape[1]].flip(0)),
        ),
        "without blocks and positions, a token's logits are its row of W_E times W_U, and "
        "nothing more.": _model(start=lambda t, E, P: E.shape[1] ** 0.5 * E[t] + P[: t.shape[1]]),
        "it does not apply ln1 and attn and ln2 and mlp.": _model(order=slice(0)),
        "it does not apply ln1 and attn.": _model(middle=lambda x, a: x),
        "it does not apply ln2 and mlp.": _model(out=lambda x, m, f: m),
        "ln1 should read the stream as it comes in: embedding plus positions.": (
            _model(
                start=lambda t, E, P: E[t], end=lambda x, ln, E, P, U: ln(x + P[: x.shape[1]]) @ U
            ),
            _model(lambda x, ln1, attn, ln2, ff: ln2((m := ln1(x + attn(x))) + ff(m))),
            _model(lambda x, ln1, attn, ln2, ff: (m := x + ff(ln2(x))) + attn(ln1(m))),
        ),
        "neither ln1 nor ln2 is called: each part should read the stream through its own.": _model(
            lambda x, ln1, attn, ln2, ff: (m := x + attn(x)) + ff(m)
        ),
        "ln2 is not called: the MLP should read the stream through ln2, not ln1.": _model(
            lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ff(ln1(m))
        ),
        "ln1 and ln2 stand before a part: they normalise what it reads, not what it returns.": (
            _model(lambda x, ln1, attn, ln2, ff: (m := x + ln1(attn(x))) + ln2(ff(m))),
            _model(lambda x, ln1, attn, ln2, ff: (m := x + ln1(attn(x))) + ff(ln2(m))),
            _model(lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ln2(ff(m))),
        ),
        "attention should read what ln1 returns.": _model(
            lambda x, ln1, *others: _block(x, torch.clone, *others)
        ),
        "ln2 reads the stream as it came in; "
        "by then the attention's output should have been added.": _model(
            lambda x, ln1, attn, ln2, ff: x + attn(ln1(x)) + ff(ln2(x))
        ),
        "ln2 reads the attention's output alone: it should be added to the stream first.": (
            _model(middle=lambda x, a: a),
            _model(middle=lambda x, a: a, out=lambda x, m, f: f),
            _model(middle=lambda x, a: a, out=lambda x, m, f: x + f),
        ),
        "the stream itself was normalised: only the copy that a part reads should be.": (
            _model(lambda x, ln1, attn, ln2, ff: (n := ln2((m := ln1(x)) + attn(m))) + ff(n)),
            _model(lambda x, ln1, attn, ln2, ff: (n := (m := ln1(x)) + attn(m)) + ff(ln2(n))),
            _model(lambda x, ln1, attn, ln2, ff: (m := ln2(x + attn(ln1(x)))) + ff(m)),
        ),
        "ln2 should read the stream plus the attention's output.": _model(
            lambda x, ln1, attn, ln2, ff: x + attn(m := ln1(x)) + ff(ln2(m))
        ),
        "the MLP should read what ln2 returns.": _model(
            lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ff(m)
        ),
        "the MLP's output should be added to the stream, not replace it.": _model(
            out=lambda x, m, f: f
        ),
        "the attention's output is missing in the stream that leaves the block.": _model(
            out=lambda x, m, f: x + f
        ),
        "the last block is applied first.": _model(order=slice(None, None, -1)),
    },
)


class Operations(TorchDispatchMode):
    """How many operations of torch a block makes, `with Operations() as made`.

    They stand for its time, and are the same on every machine.
    """

    count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))
