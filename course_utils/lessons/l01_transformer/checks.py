"""Checks of lesson 01, the transformer: each exercise as data, with the sentence that each typical mistake gets."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.course.exercises import Answer, Exercise, compared, judged
from course_utils.course.fixtures import random
from course_utils.course.guard import Guarded
from course_utils.course.questions import Operations, Unfit, Wrong, close, demand, pair, tensor


def _also(
    made: Exercise, advice: Callable[..., str | None], training: Callable[[int], list[Tensor]] | None = None
) -> None:
    """Let an exercise say something of what an answer stops with, or returns, and whether it is fit for training.

    `advice(outcome, *arguments)` is asked at each call, the outcome a result or an exception. `training` makes the
    arguments for so many positions.
    """
    compares = made.check

    def check(answer: Answer) -> None:
        def advised(*arguments: Any) -> Any:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of .T with more than two axes: a wall of text
                    result = answer(*arguments)
            except Wrong as told:
                raise Wrong(advice(told.__cause__, *arguments) or str(told)) from told.__cause__
            if said := advice(result, *arguments):
                raise Wrong(said)
            return result

        compares(advised)
        if training:
            _fit_for_training(answer, training)

    made.check = check


def _of_shapes(advice: str) -> Callable[..., str | None]:
    """Where an answer does not fit the arguments' shapes, these, and the advice."""

    def say(outcome: object, *given: Tensor) -> str | None:
        shapes = " and ".join(str(list(value.shape)) for value in given)
        if isinstance(outcome, IndexError):
            return f"an index does not fit the shape {shapes}: {advice}"
        refused = isinstance(outcome, RuntimeError)
        return f"PyTorch can't combine the arguments' shapes, here {shapes}: {advice}" if refused else None

    return say


def _fit_for_training(answer: Answer, given: Callable[[int], list[Tensor]]) -> None:
    """Raise Unfit if training could not call a right answer: no gradient in double precision, or loops over places."""
    operations_at = {}
    answer = Guarded(getattr(answer, "function", answer))  # the check's own would note that it returned float64
    for n in (1, 16):
        inputs = [value.double().requires_grad_() for value in given(n)]
        try:
            with Operations() as made:
                result = answer(*inputs)
            gradients = torch.autograd.grad(result.sum(), inputs, allow_unused=True)
        except (Wrong, RuntimeError):  # such as .numpy() on a tensor that wants a gradient
            gradients = ()
        if not gradients or any(gradient is None for gradient in gradients):
            raise Unfit("training needs gradients through it, in double precision, and does not get them")
        operations_at[n] = made.count
    if (more := operations_at[16] - operations_at[1]) > 50:
        raise Unfit(f"training would be slow: for 16 tokens it makes {more:,} operations more than for 1, by loops")


def _causal(scores: Tensor, value: float = -torch.inf, diagonal: int = 1) -> Tensor:
    return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal), value)


def _shares(e: Tensor) -> Tensor:
    return e / e.sum(-1, keepdim=True)


def _unmasked(scores: Any) -> Any:
    if isinstance(scores, Tensor) and (scores == -torch.inf).any():
        raise Wrong("some scores are −∞ already: the mask is the next step.")
    return scores


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


attention_scores = compared(
    "`attention_scores(q, k) → scores`: every query with every key, divided by √d_head.",
    returns="[..., dest, src]",
    as_read=_unmasked,
    cases=lambda: {
        f"it fails for q and k of shape {shape}: dest on rows, src on columns, q · k / √d_head in each.": (
            random(*shape),
            random(*shape, seed=1),
        )
        for shape in ([5, 4], [2, 6, 3], [2, 3, 4, 9], [1, 2])
    },
    mistakes={
        "the scores are not divided at all: divide them by √d_head.": lambda q, k: q @ k.mT,
        "the scores are divided by d_head: divide them by √d_head.": lambda q, k: q @ k.mT / q.shape[-1],
        "the scores are multiplied: divide them by √d_head.": lambda q, k: q @ k.mT * q.shape[-1] ** 0.5,
        "that divides by the root of the number of positions: d_head is the length of a query.": lambda q, k: (
            q @ k.mT / q.shape[-2] ** 0.5
        ),
        "rows and columns are exchanged: a row belongs to a destination, whose query asks.": lambda q, k: _scores(k, q),
        "these rows sum to 1: the softmax comes two steps on.": (
            lambda q, k: _scores(q, k).softmax(-1),
            lambda q, k: (q @ k.mT).softmax(-1),
            lambda q, k: _causal(_scores(q, k)).softmax(-1),
        ),
    },
)
_also(
    attention_scores,
    advice=_of_shapes("`k.mT` exchanges the last two axes of `k`, whatever stands in front."),
    training=lambda n: [random(2, 3, n, 4), random(2, 3, n, 4, seed=1)],
)


HIDDEN = -1e30  # stands for −∞, with which nobody can calculate


def _with_hidden(scores: Any) -> Any:
    if not isinstance(scores, Tensor):
        return scores
    if scores.isnan().any():
        raise Wrong("it makes values that are no numbers: 0 · ∞, perhaps? Fill them in instead.")
    return torch.where(scores == -torch.inf, HIDDEN, scores)


def _wrongly_masked(got: Tensor, right: Tensor, scores: Tensor) -> str | None:
    if scores.ndim > 2:
        return (
            f"it fails for scores of shape {list(scores.shape)}: any axes may stand in front, so count from the last, "
            "as in `scores[..., dest, src]`."
        )
    hidden, later = got == HIDDEN, right == HIDDEN
    if (hidden & ~later).tril(-1).any():
        return "it hides a source that comes *before* its destination: rows are destinations, columns are sources."
    if (hidden & ~later).any():
        return "a position may look at itself: its own score should stay."
    if (shown := later & ~hidden).any():
        first = got[shown][0].item()
        if first <= -1e4:
            return f"a later source has the score {first:.3g}: large, but not −∞. `-torch.inf` is a number here."
        if first == 0:
            return "a later source has the score 0: to a softmax that is a score like any other; use −∞."
        return "a source that comes after its destination keeps a score: hide all of them."
    return None


masked = compared(
    "`masked(scores) → scores`: −∞ where the source comes after the destination.",
    returns="as the scores",
    as_read=_with_hidden,
    cases=lambda: {
        "a score that is not hidden should stay as it was.": [
            (3 * random(*shape),) for shape in ((4, 4), (1, 1), (7, 7), (2, 5, 5), (2, 3, 3, 3))
        ]
    },
    explain=_wrongly_masked,
    mistakes={"a score that is not hidden should stay as it was.": lambda scores: _causal(0 * scores)},
)
_also(
    masked,
    advice=_of_shapes("any axes may stand in front; count from the last, as in `scores[..., dest, src]`."),
    training=lambda n: [random(2, 3, n, n)],
)


def _too_large(outcome: object, scores: Tensor) -> str | None:
    if scores.max() > 50 and isinstance(outcome, Tensor) and outcome.isnan().any():
        return "e to a score of a hundred is too large for a number: use softmax, or subtract the largest score first."
    return None


def _no_shares(got: Tensor, right: Tensor, scores: Tensor) -> str | None:
    if (got < 0).any():
        return "a share of attention is never below 0."
    worst = max(got.sum(-1).flatten().tolist(), key=lambda total: abs(total - 1))
    if close(worst, 1.0):
        return None
    return f"the shares that one destination gives sum to {worst:.3f}: each row should sum to 1."


attention_pattern = compared(
    "`attention_pattern(scores) → pattern`: the softmax over the sources.",
    returns="[..., dest, src], as the scores",
    cases=lambda: {
        "rows sum to 1, but the shares are not e to the score, divided by the sum over the row.": [
            (_causal(size * random(*shape)),)
            for size, shape in ((1, (5, 5)), (2, (2, 4, 4)), (1, (2, 3, 3, 3)), (90, (6, 6)))
        ]
    },
    explain=_no_shares,
    mistakes={
        "each column sums to 1: sources are on the columns, so each *row* should.": (
            lambda s: s.softmax(-2),
            lambda s: s.softmax(-1).mT,
            lambda s: s.softmax(0),
            lambda s: s.softmax(1),
            lambda s: s.exp() / s.exp().sum(-2, keepdim=True),
        ),
        "rows sum to 1, but the shares are not e to the score, divided by the sum over the row.": lambda s: F.one_hot(
            s.argmax(-1), s.shape[-1]
        ).float(),
    },
)
_also(attention_pattern, advice=_too_large, training=lambda n: [random(2, 3, n, n)])


weighted_values = compared(
    "`weighted_values(pattern, v) → z`: each destination's mean of the values, weighted by its row.",
    returns="[..., dest, d_head]",
    cases=lambda: {
        f"it fails for a pattern of shape {[*lead, n, n]}: sum over the sources, share times value.": (
            _causal(2 * random(*lead, n, n)).softmax(-1),
            random(*lead, n, d_head, seed=1),
        )
        for *lead, n, d_head in ((5, 3), (2, 4, 6), (2, 3, 3, 2), (4, 4))
    },
    mistakes={
        "each position gets its own value: what does the pattern do?": lambda A, v: v.clone(),
        "the weights are columns of the pattern: each destination's weights are its *row*.": lambda A, v: A.mT @ v,
        "the first destination sees itself alone, so it should get its own value, whole.": (
            lambda A, v: A @ v / v.shape[-2],
            lambda A, v: A.tril(-1) @ v,
        ),
    },
)
_also(
    weighted_values,
    advice=_of_shapes("a product sums over the last axis of what stands on the left."),
    training=lambda n: [random(2, 3, n, n), random(2, 3, n, 4, seed=1)],
)


@judged
def previous_token_head(answer: Answer) -> None:
    """`previous_token_head(W_pos) → W_Q, W_K`: each position's attention goes to the one before it.

    Many matrices do that: judged is the attention that they make.
    """
    for n, d_model in ((6, 9), (13, 20), (4, 4), (40, 47)):
        W_pos = torch.linalg.qr(random(d_model, d_model, seed=n))[0][:n]
        W_Q, W_K = (tensor(W, (d_model, n), "[d_model, n]") for W in pair(answer(W_pos), "W_Q and W_K"))
        scores = _scores(W_pos @ W_Q, W_pos @ W_K)
        demand(scores.std() > 1e-6, "all scores are the same: is one of the two matrices zero?")
        favourite = scores[1:-1].argmax(-1) - torch.arange(1, n - 1)  # over every source, later ones too
        demand(
            not (favourite == 1).all(),
            "each query fits the key of the *next* position, which the mask hides: turn it the other way.",
        )
        demand(not (favourite == 0).all(), "each position looks at itself: shift the queries against the keys.")
        pattern = _causal(scores).softmax(-1)
        share, source = (one.item() for one in pattern.diagonal(-1).min(0))
        seen = int(pattern[int(source) + 1].argmax())
        demand(
            seen == source,
            f"with {n} positions in {d_model} dimensions, position {source + 1} looks mostly at position {seen}.",
        )
        demand(
            share >= 0.99,
            f"with {n} positions, position {source + 1} gives its predecessor {share:.2f}: make scores larger.",
        )


def _bending(seed: int, d_model: int) -> Callable[[Tensor], Tensor]:
    """A function of the stream in which the order of two counts."""
    matrix = random(d_model, d_model, seed=seed)
    return lambda x: torch.tanh(x @ matrix)


def _machine(
    layers: int, ln: bool, batch: int = 2, n: int = 4, d_vocab: int = 6, d_model: int = 3, n_ctx: int = 8
) -> tuple:
    """Tokens, W_E, W_pos, blocks, ln_final, W_U."""
    tokens = torch.randint(d_vocab, (batch, n), generator=torch.Generator().manual_seed(0))
    blocks = [tuple(_bending(10 * layer + part, d_model) for part in range(4)) for layer in range(3, layers + 3)]
    ln_final = _bending(5, d_model) if ln else lambda x: x
    W_E, W_pos, W_U = random(d_vocab, d_model), random(n_ctx, d_model, seed=1), random(d_model, d_vocab, seed=2)
    return tokens, W_E, W_pos, blocks, ln_final, W_U


def _machines() -> dict[str, tuple]:
    cases = {
        "without blocks, the logits should be (W_E[tokens] + positions) W_U.": _machine(0, False),
        "what leaves a block should be the stream after attention, plus the MLP's output.": _machine(1, False),
        "each block should read what the last one returned.": _machine(2, False),
        "ln_final belongs between the last block and W_U, once.": _machine(2, True),
    }
    for layers, *sizes in ((3, 1, 5, 7, 4, 5), (0, 3, 1, 4, 6, 9), (1, 5, 2, 3, 3, 6)):
        told = f"it fails for {sizes[0]} texts of {sizes[1]} tokens, n_ctx {sizes[-1]}, and {layers} blocks."
        cases[told] = _machine(layers, True, *sizes)
    return cases


def _added(x: Tensor, ln1: Callable, attn: Callable, ln2: Callable, ff: Callable) -> Tensor:
    x = x + attn(ln1(x))
    return x + ff(ln2(x))


def _model(
    block: Callable[..., Tensor] = _added,
    start: Callable[..., Tensor] = lambda t, E, P: E[t] + P[: t.shape[1]],
    end: Callable[..., Tensor] = lambda x, ln, E, P, U: ln(x) @ U,
    order: slice = slice(None),
) -> Answer:
    """A right answer, with something to get wrong in the keywords."""

    def answer(t: Tensor, E: Tensor, P: Tensor, blocks: list, ln: Callable, U: Tensor) -> Tensor:
        x = start(t, E, P)
        for parts in blocks[order]:
            x = block(x, *parts)
        return end(x, ln, E, P, U)

    return answer


transformer = compared(
    "`transformer(tokens, W_E, W_pos, blocks, ln_final, W_U) → logits`: the whole model.",
    returns="[batch, pos, d_vocab]",
    cases=_machines,
    mistakes={
        "these are log-probabilities; the logits come before them.": _model(
            end=lambda x, ln, E, P, U: (ln(x) @ U).log_softmax(-1)
        ),
        "no logit is below 0: these look like probabilities, and the softmax comes later.": _model(
            end=lambda x, ln, E, P, U: (ln(x) @ U).softmax(-1)
        ),
        "it uses W_E a second time: W_U is a matrix of its own here.": _model(end=lambda x, ln, E, P, U: ln(x) @ E.T),
        "W_pos makes no difference.": _model(start=lambda t, E, P: E[t]),
        "two texts get different positions: row 0 of W_pos belongs to the first place, whatever token stands there.": (
            _model(start=lambda t, E, P: E[t] + P[t]),
            _model(start=lambda t, E, P: E[t] + P[: len(t), None]),
        ),
        "the token at position i should get row i of W_pos, counted from 0.": (
            _model(start=lambda t, E, P: E[t] + P[-t.shape[1] :]),
            _model(start=lambda t, E, P: E[t] + P[1 : t.shape[1] + 1]),
            _model(start=lambda t, E, P: E[t] + P[: t.shape[1]].flip(0)),
        ),
        "without blocks and positions, a token's logits are its row of W_E times W_U, and nothing more.": _model(
            start=lambda t, E, P: E.shape[1] ** 0.5 * E[t] + P[: t.shape[1]]
        ),
        "without blocks, the logits should be (W_E[tokens] + positions) W_U.": _model(
            start=lambda t, E, P: E[t] * P[: t.shape[1]]
        ),
        "it does not apply ln1 and attn and ln2 and mlp.": _model(order=slice(0)),
        "it does not apply ln1 and attn.": _model(lambda x, ln1, attn, ln2, ff: x + ff(ln2(x))),
        "it does not apply ln2 and mlp.": _model(lambda x, ln1, attn, ln2, ff: x + attn(ln1(x))),
        "ln1 should read the stream as it comes in: embedding plus positions.": (
            _model(start=lambda t, E, P: E[t], end=lambda x, ln, E, P, U: ln(x + P[: x.shape[1]]) @ U),
            _model(lambda x, ln1, attn, ln2, ff: ln2((m := ln1(x + attn(x))) + ff(m))),
            _model(lambda x, ln1, attn, ln2, ff: (m := x + ff(ln2(x))) + attn(ln1(m))),
        ),
        "attention should read what ln1 returns.": _model(
            lambda x, ln1, attn, ln2, ff: (m := x + attn(x)) + ff(ln2(m))
        ),
        "ln2 reads the stream as it came in; by then the attention's output should have been added.": _model(
            lambda x, ln1, attn, ln2, ff: x + attn(ln1(x)) + ff(ln2(x))
        ),
        "ln2 reads the attention's output alone: it should be added to the stream first.": (
            _model(lambda x, ln1, attn, ln2, ff: ff(ln2(attn(ln1(x))))),
            _model(lambda x, ln1, attn, ln2, ff: (m := attn(ln1(x))) + ff(ln2(m))),
            _model(lambda x, ln1, attn, ln2, ff: x + ff(ln2(attn(ln1(x))))),
        ),
        "the stream itself was normalised: only the copy that a part reads should be.": (
            _model(lambda x, ln1, attn, ln2, ff: (n := ln2((m := ln1(x)) + attn(m))) + ff(n)),
            _model(lambda x, ln1, attn, ln2, ff: (n := (m := ln1(x)) + attn(m)) + ff(ln2(n))),
            _model(lambda x, ln1, attn, ln2, ff: (m := ln2(x + attn(ln1(x)))) + ff(m)),
        ),
        "ln2 should read the stream plus the attention's output.": _model(
            lambda x, ln1, attn, ln2, ff: x + attn(m := ln1(x)) + ff(ln2(m))
        ),
        "the MLP should read what ln2 returns.": _model(lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ff(m)),
        "the MLP's output should be added to the stream, not replace it.": _model(
            lambda x, ln1, attn, ln2, ff: ff(ln2(x + attn(ln1(x))))
        ),
        "the attention's output is missing in the stream that leaves the block.": _model(
            lambda x, ln1, attn, ln2, ff: x + ff(ln2(x + attn(ln1(x))))
        ),
        "what leaves a block should be the stream after attention, plus the MLP's output.": _model(
            lambda x, ln1, attn, ln2, ff: 2 * x + (m := attn(ln1(x))) + ff(ln2(x + m))
        ),
        "the last block is applied first.": _model(order=slice(None, None, -1)),
        "each block should read what the last one returned.": _model(order=slice(1)),
        "ln_final belongs between the last block and W_U, once.": (
            _model(end=lambda x, ln, E, P, U: x @ U),
            _model(end=lambda x, ln, E, P, U: ln(ln(x)) @ U),
        ),
        "it fails for 1 texts of 5 tokens, n_ctx 5, and 3 blocks.": _model(order=slice(2)),
    },
)
_also(
    transformer,
    advice=lambda outcome, t, E, P, *others: (
        f"W_pos has n_ctx rows, here {len(P)}, and the text only {t.shape[1]} tokens: add the rows of the places that "
        "it has."
        if isinstance(outcome, RuntimeError) and f"tensor b ({len(P)})" in str(outcome)
        else None
    ),
)


def _truth_values(value: Any) -> Any:
    if not isinstance(value, Tensor):
        raise Wrong(f"it should return a tensor of truth values, not {type(value).__name__}.")
    if value.dtype != torch.bool:
        raise Wrong(f"it returns numbers ({value.dtype}): compare them with 1e-6.")
    return value


def _parts(old: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    """Parts of a model by what is said of them; `old` is the stream before the edit."""
    W, signs = random(old.shape[1], 2, seed=2), torch.tensor([1.0, -1.0])
    return {
        "the part returns each vector as it is: that position alone should notice.": lambda x: x.clone(),
        "the part sums from left to right: it and all later ones should notice.": lambda x: x.cumsum(0),
        "the part sums from right to left: all up to it should notice.": lambda x: x.flip(0).cumsum(0).flip(0),
        "the part moves all by one: the next position alone should notice.": lambda x: x.roll(1, 0),
        "the part ignores x: nobody should notice.": lambda x: torch.ones(len(x), 5),
        "vectors come out shorter: compare what the part returns, however wide it is.": lambda x: x @ W,
        "its entries change by opposite amounts: changes must not cancel: take them absolute.": lambda x: (
            x.sum(-1, keepdim=True) * signs
        ),
        "all outputs fall: a fall is a change too.": lambda x: -(x - old).abs(),
        "only one entry changes: one entry is enough.": lambda x: F.pad(x.sum(-1, keepdim=True), (1, 1)),
        "rounding stirs all: changes below 1e-6 do not count.": lambda x: x.double() + 1e-9 * x.double().sum(),
        "changes are small: all changes above 1e-6 count.": lambda x: 1e-4 * x.double(),
    }


def _edits() -> dict[str, tuple]:
    """A part, the stream, a place and a vector, by what is said of an answer that fails there."""
    cases = {}
    for n, d_model, position in ((6, 4, 2), (5, 3, 0), (7, 9, 6)):
        x, value = random(n, d_model), random(d_model, seed=1)
        for said, part in _parts(x.clone()).items():
            cases[f"position {position} of {n} is edited, and {said}"] = part, x.clone(), position, value
    told = "if `value` is what stood there already, nothing changes: put it in the place of `x[position]`."
    return cases | {told: (torch.clone, x, position, x[position].clone())}


def _noticed(compare: Callable[[Tensor, Tensor], Tensor], put: Callable[..., Any] = lambda x, value: value) -> Answer:
    """`compare(after, before)`, where `put(x[position], value)` stands in the edited place."""

    def answer(part: Callable, x: Tensor, position: int, value: Tensor) -> Tensor:
        edited = x.clone()
        edited[position] = put(x[position], value)
        return compare(part(edited), part(x))

    return answer


def _changed(after: Tensor, before: Tensor) -> Tensor:
    return (after - before).abs().amax(-1) > 1e-6


notices = compared(
    "`notices(part, x, position, value) → bool`: at which positions a part's output changes with one edit.",
    returns="one truth value for each position",
    as_read=_truth_values,
    cases=_edits,
    mistakes={
        "if `value` is what stood there already, nothing changes: put it in the place of `x[position]`.": (
            _noticed(_changed, lambda old, value: old + value)
        )
    },
)


@judged
def top_p(answer: Answer) -> None:
    """`top_p(p, share) → p`: as few of the most probable tokens as reach the share, divided by their sum.

    Many results are right where tokens are equally probable: any of them may be kept.
    """
    even = torch.tensor([0.125, 0.5, 0.25, 0.0625, 0.0625])  # sums that no rounding touches
    for share, count in ((0.5, 1), (0.51, 2), (0.75, 2), (0.8, 3), (0.05, 1), (0.9375, 4)):
        _kept(answer, even, share, count)
    _kept(answer, torch.full((4,), 0.25), 0.5, 2)
    for shape, share in (((7,), 0.6), ((3, 9), 0.9), ((2, 3, 6), 0.3), ((4, 5), 1.0), ((5, 30), 0.95)):
        p = (2 * random(*shape, seed=3)).softmax(-1)
        demand(
            close(tensor(answer(p, share), shape, "as the probabilities"), _nucleus()(p, share)),
            f"it fails for probabilities of shape {list(shape)} and a share of {share}: each last axis by itself.",
        )


def _kept(answer: Answer, p: Tensor, share: float, count: int) -> None:
    """Demand the right result for one distribution, of which so many tokens are to be kept."""
    raw = answer(p, share)
    result = tensor(
        raw.nan_to_num(0, torch.inf) if isinstance(raw, Tensor) else raw, tuple(p.shape), "as the probabilities"
    )
    kept = result > 1e-7
    found, total = int(kept.sum()), result.sum().item()
    for holds, said in (
        (found > 0, "it keeps no token at all, and divides by 0: the most probable one is always kept."),
        (
            found == count or kept[p.argmax()],
            f"it keeps {found}, and drops the most probable: sort with `descending=True`.",
        ),
        (found == count, f"it keeps {found}; the fewest tokens that reach the share: {count}."),
        (
            p.where(kept, torch.ones(())).min() >= p.where(~kept, torch.zeros(())).max(),
            "it drops a token that is more probable than one it keeps: put them back in their places.",
        ),
        (close(total, 1.0), f"what it keeps sums to {total:.4f}: divide by the sum, so that it is 1."),
        (close(result, _shares(p * kept)), "the kept tokens change their proportions: divide, no softmax."),
    ):
        demand(holds, f"of {[round(one, 4) for one in p.tolist()]} and a share of {share} {said}")


def _nucleus(
    needed: Callable[..., Tensor] = lambda values, before, share: before < share,
    divided: Callable[[Tensor], Tensor] = _shares,
    descending: bool = True,
) -> Answer:
    """A right answer, with something to get wrong; `needed` gets sorted values, and the sum of those before each."""

    def answer(p: Tensor, share: float) -> Tensor:
        values, order = p.sort(-1, descending=descending)
        kept = values * needed(values, values.cumsum(-1) - values, share)
        return divided(torch.zeros_like(p).scatter(-1, order, kept))

    return answer
