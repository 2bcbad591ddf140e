"""Checks of lesson 10, reading critically: each exercise, then its typical mistakes with the sentence each must get."""

import copy
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads
from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random, tiny_model
from course_utils.check.questions import Wrong, close, demand, largest_table, number, pair, tensor


def _pattern(n: int, seed: int) -> Tensor:
    return random(n, n, seed=seed).masked_fill(torch.ones(n, n).triu(1) > 0, -math.inf).softmax(1)


@exercise
def fold_shortformer(answer: Answer) -> None:
    """`fold_shortformer(w, b, W_pos, W_Q) → (W_pos, W_Q, b_Q)`: queries from (x w + b + p) W_Q, without w and b."""
    w, b, W_pos = random(6).abs() + 0.5, random(6, seed=1), random(5, 6, seed=2)
    W_Q, x = random(6, 6, seed=3), random(5, 6, seed=4)
    one, zero = torch.ones(6), torch.zeros(6)

    def queries(w: Tensor, b: Tensor, W_pos: Tensor, W_Q: Tensor = W_Q, x: Tensor = x) -> Tensor:
        result = answer(w, b, W_pos, W_Q)
        if not isinstance(result, tuple | list) or len(result) != 3:
            raise Wrong("it should return three tensors: new W_pos, W_Q and b_Q.")
        positions = tensor(result[0], tuple(W_pos.shape), "as W_pos has it")
        matrix = tensor(result[1], tuple(W_Q.shape), "as W_Q has it")
        return (x + positions) @ matrix + tensor(result[2], tuple(W_Q.shape[1:]), "[d_head]")

    unchanged = close(queries(one, zero, W_pos), (x + W_pos) @ W_Q)
    demand(unchanged, "with w = 1 and b = 0 there is nothing to fold, and yet the queries are different ones.")
    found = queries(w, zero, 0 * W_pos)
    demand(
        not close(found, (x @ W_Q) * w),
        "w scales the outputs: it belongs to the components of the stream, which are W_Q's rows.",
    )
    demand(close(found, (x * w) @ W_Q), "with neither positions nor b, x @ (new W_Q) should be (x * w) @ W_Q.")
    found = queries(w, zero, W_pos)
    demand(
        not close(found, ((x + W_pos) * w) @ W_Q),
        "the positions come out scaled by w as well; but they are added behind LayerNorm, where w has acted already.",
    )
    demand(
        close(found, (x * w + W_pos) @ W_Q), "what the positions add to a query should be p @ W_Q, as it was before."
    )
    found = queries(one, b, W_pos)
    demand(not close(found, (x + W_pos) @ W_Q), "b is lost: what LayerNorm adds should arrive in the queries.")
    demand(close(found, (x + b + W_pos) @ W_Q), "b reaches a query through W_Q, once, as anything in the stream does.")
    demand(
        close(queries(w, b, W_pos), (x * w + b + W_pos) @ W_Q),
        "w multiplies x alone: what b adds should not depend on w.",
    )
    w[2] *= -1
    narrow = random(6, 4, seed=5)
    demand(
        close(queries(w, b, W_pos, narrow), (x * w + b + W_pos) @ narrow),
        "it fails for a W_Q that is not square, or for a w with a negative entry.",
    )
    w, b, W_pos, W_Q, x = random(7).abs() + 0.1, random(7), random(3, 7), random(7, 9), random(3, 7, seed=1)
    demand(close(queries(w, b, W_pos, W_Q, x), (x * w + b + W_pos) @ W_Q), "it fails for matrices of other sizes.")


def _dividing_W_pos(w: Tensor, b: Tensor, W_pos: Tensor, W_Q: Tensor) -> tuple[Tensor, ...]:
    W_pos /= w
    return W_pos, w[:, None] * W_Q, b @ W_Q


fold_shortformer.mistakes = {
    "positions left as they were": (
        lambda w, b, P, W: (P, w[:, None] * W, b @ W),
        "the positions come out scaled by w as well",
    ),
    "positions multiplied": (
        lambda w, b, P, W: (P * w, w[:, None] * W, b @ W),
        "what the positions add to a query should be",
    ),
    "positions divided twice": (
        lambda w, b, P, W: (P / w**2, w[:, None] * W, b @ W),
        "what the positions add to a query should be",
    ),
    "positions divided by the mean of w": (
        lambda w, b, P, W: (P / w.mean(), w[:, None] * W, b @ W),
        "what the positions add to a query should be",
    ),
    "positions lost": (lambda w, b, P, W: (0 * P, w[:, None] * W, b @ W), "with w = 1 and b = 0 there"),
    "w on the outputs": (lambda w, b, P, W: (P / w, W * w[: W.shape[1]], b @ W), "w scales the outputs"),
    "the size of w": (
        lambda w, b, P, W: (P / w.abs(), w.abs()[:, None] * W, b @ W),
        "it fails for a W_Q that is not square",
    ),
    "w forgotten": (lambda w, b, P, W: (P, W, b @ W), "with neither positions nor b"),
    "W_Q divided": (lambda w, b, P, W: (P * w, W / w[:, None], b @ W), "with neither positions nor b"),
    "b not through W_Q": (lambda w, b, P, W: (P / w, w[:, None] * W, b[: W.shape[1]]), "b reaches a query through W_Q"),
    "b through the folded W_Q": (
        lambda w, b, P, W: (P / w, w[:, None] * W, b @ (w[:, None] * W)),
        "w multiplies x alone",
    ),
    "b forgotten": (
        lambda w, b, P, W: (P / w, w[:, None] * W, torch.zeros(W.shape[1])),
        "b is lost: what LayerNorm adds should arrive in",
    ),
    "b twice": (lambda w, b, P, W: ((P + b) / w, w[:, None] * W, b @ W), "b reaches a query through W_Q"),
    "b subtracted": (lambda w, b, P, W: (P / w, w[:, None] * W, -b @ W), "b reaches a query through W_Q"),
    "b divided by w": (lambda w, b, P, W: (P / w, w[:, None] * W, (b / w) @ W), "w multiplies x alone"),
    "no bias": (lambda w, b, P, W: (P / w, w[:, None] * W), "it should return three tensors"),
    "in another order": (lambda w, b, P, W: (w[:, None] * W, P / w, b @ W), "the result has shape [6"),
    "W_pos changed": (_dividing_W_pos, "it changes `W_pos`, which it was given"),
}


@exercise
def scale_spread(answer: Answer) -> None:
    """`scale_spread(stream) → float`: how much LayerNorm's divisor varies over positions, relative to its mean."""
    stream = random(400, 8) * torch.linspace(1, 3, 400)[:, None]
    value, scale = number(answer(stream)), _scale(stream)
    right = (scale.std() / scale.mean()).item()
    demand(value >= 0, "a spread is never below 0.")
    demand(
        abs(value - _relative(stream.std(0))) > 1e-3,
        "every position has a divisor of its own, over the components of its row: take means along axis 1.",
    )
    demand(
        close(number(answer(5 * stream)), value),
        "the spread is relative: 5 times the stream has the same spread.",
    )
    demand(
        abs(number(answer(stream + 7)) - value) < 1e-3 * right,
        "adding 7 to every component should change nothing: LayerNorm takes each position's mean away first.",
    )
    rows = random(8).expand(400, 8)
    demand(abs(number(answer(rows))) < 1e-3, "if all positions hold the same vector, the divisor does not vary.")
    demand(abs(value - 100 * right) > 0.1, "this is the spread in per cent; return the share itself.")
    demand(abs(value - 1 / right) > 1e-2, "this is the mean over the standard deviation; it should be the other way.")
    demand(
        abs(value - right) < 0.003 * right,  # a divisor with n − 1 positions is the same but for 0.1 %
        f"on a stream that grows from 1 to 3 the spread is not {value:.3f}: std over mean of the divisors "
        "themselves, one square root per position.",
    )
    stream = random(300, 5, seed=1).exp() * torch.linspace(0.1, 9, 300)[:, None]
    scale, value = _scale(stream), number(answer(stream))
    demand(
        abs(value - (scale.std() / scale.mean()).item()) < 0.004 * value,
        f"on a stream of 300 positions, 5 wide, the spread is not {value:.3f}.",
    )
    for place, words in ((0, "first"), (-1, "last")):
        rows = random(8).repeat(400, 1)
        rows[place] *= 50
        demand(number(answer(rows)) > 1, f"the divisor of the {words} position counts too.")


def _scale(stream: Tensor) -> Tensor:
    return (stream - stream.mean(1, keepdim=True)).pow(2).mean(1).sqrt()


def _relative(divisors: Tensor) -> float:
    return (divisors.std() / divisors.mean()).item()


def _centring_stream(stream: Tensor) -> float:
    stream -= stream.mean(1, keepdim=True)
    return _relative(_scale(stream))


scale_spread.mistakes = {
    "not centred": (lambda s: _relative(s.pow(2).mean(1).sqrt()), "adding 7 to every component should change nothing"),
    "over positions": (lambda s: _relative(s.std(0)), "every position has a divisor of its own"),
    "centred over positions": (lambda s: _relative((s - s.mean(0)).norm(dim=1)), "on a stream that grows from 1 to 3"),
    "not relative": (lambda s: _scale(s).std().item(), "the spread is relative"),
    "variances": (lambda s: _relative(_scale(s) ** 2), "on a stream that grows from 1 to 3"),
    "what it multiplies by": (
        lambda s: _relative(1 / _scale(s)) if _scale(s).std() > 1e-4 else 0.0,
        "on a stream that grows from 1 to 3",
    ),
    "logarithms": (lambda s: _scale(s).log().std().item(), "on a stream that grows from 1 to 3"),
    "mean absolute values": (
        lambda s: _relative((s - s.mean(1, keepdim=True)).abs().mean(1)),
        "on a stream that grows from 1 to 3",
    ),
    "of the stream": (
        lambda s: ((s - s.mean(1, keepdim=True)).std() / s.norm(dim=1).mean()).item(),
        "adding 7 to every component should change nothing",
    ),
    "squared": (lambda s: _relative(_scale(s)) ** 2, "on a stream that grows from 1 to 3"),
    "in per cent": (lambda s: 100 * _relative(_scale(s)), "this is the spread in per cent"),
    "mean over std": (
        lambda s: 1 / max(_relative(_scale(s)), 1e-9) if _scale(s).std() > 1e-4 else 0.0,
        "this is the mean over the standard deviation",
    ),
    "one per position": (_scale, "it should return one number"),
    "range": (
        lambda s: ((_scale(s).max() - _scale(s).min()) / _scale(s).mean()).item(),
        "on a stream that grows from 1 to 3",
    ),
    "the stream changed": (_centring_stream, "it changes `stream`, which it was given"),
}


@exercise
def qk_term(answer: Answer) -> None:
    """`qk_term(x, y, A_q, A_k, W) → [dest, src]`: one term of the second layer's scores."""
    n = 5
    x, y, W = random(n, 3), random(n, 3, seed=1), random(3, 3, seed=2)
    A_q, A_k = _pattern(n, 3), _pattern(n, 4)
    eye = torch.eye(n)

    def term(*arguments: Tensor) -> Tensor:
        return tensor(answer(*arguments), (n, n), "[dest, src]")

    plain = term(x, y, eye, eye, W)
    demand(not close(plain, (x @ W @ y.T).T), "queries stand on the columns; the destination should be the row.")
    demand(
        not close(plain, (x @ W @ y.T).softmax(1)) and not close(plain, x @ W @ y.T / 3**0.5),
        "the term alone is asked for: no softmax, and no division.",
    )
    demand(close(plain, x @ W @ y.T), "where nothing is moved (A = 1), entry [d, s] should be x[d] @ W @ y[s].")
    moved = term(x, y, A_q, eye, W)
    demand(
        not close(moved, A_q.T @ x @ W @ y.T),
        "the query of destination d should mix what row d of A_q attends to: that is A_q, not its transpose.",
    )
    demand(close(moved, (A_q @ x) @ W @ y.T), "the query of destination d should be row d of A_q, times x.")
    moved = term(x, y, eye, A_k, W)
    demand(
        not close(moved, x @ W @ y.T @ A_k),
        "the key of source s should mix the tokens that row s of A_k attends to; here column s decides.",
    )
    demand(close(moved, x @ W @ (A_k @ y).T), "the key of source s should be row s of A_k, times y.")
    demand(close(term(x, y, A_q, A_k, W), _term(x, y, A_q, A_k, W)), "it fails when both sides are moved at once.")
    n = 4
    arguments = random(4, 7), random(4, 7, seed=1), random(4, 4, seed=2), random(4, 4, seed=3), random(7, 7, seed=4)
    demand(
        close(term(*arguments), _term(*arguments)), "it fails for matrices of other sizes, or with negative entries."
    )


def _term(x: Tensor, y: Tensor, A_q: Tensor, A_k: Tensor, W: Tensor) -> Tensor:
    return A_q @ x @ W @ y.T @ A_k.T


def _moving_x(x: Tensor, y: Tensor, A_q: Tensor, A_k: Tensor, W: Tensor) -> Tensor:
    x.copy_(A_q @ x)
    return x @ W @ (A_k @ y).T


qk_term.mistakes = {
    "as the paper prints it": (
        lambda x, y, A_q, A_k, W: A_q.T @ x @ W @ y.T @ A_k,
        "the query of destination d should mix what row",
    ),
    "A_k not transposed": (
        lambda x, y, A_q, A_k, W: A_q @ x @ W @ y.T @ A_k,
        "the key of source s should mix the tokens",
    ),
    "A_q transposed": (
        lambda x, y, A_q, A_k, W: A_q.T @ x @ W @ y.T @ A_k.T,
        "the query of destination d should mix what row",
    ),
    "queries on the columns": (lambda x, y, A_q, A_k, W: _term(x, y, A_q, A_k, W).T, "queries stand on the columns"),
    "W transposed": (lambda x, y, A_q, A_k, W: A_q @ x @ W.T @ y.T @ A_k.T, "where nothing is moved (A = 1)"),
    "W forgotten": (lambda x, y, A_q, A_k, W: A_q @ x @ y.T @ A_k.T, "where nothing is moved (A = 1)"),
    "x for y": (lambda x, y, A_q, A_k, W: A_q @ x @ W @ x.T @ A_k.T, "where nothing is moved (A = 1)"),
    "only keys moved": (lambda x, y, A_q, A_k, W: x @ W @ y.T @ A_k.T, "the query of destination d should be row d"),
    "only queries moved": (lambda x, y, A_q, A_k, W: A_q @ x @ W @ y.T, "the key of source s should be row s"),
    "A_q and A_k exchanged": (
        lambda x, y, A_q, A_k, W: A_k @ x @ W @ y.T @ A_q.T,
        "the query of destination d should be row d",
    ),
    "product of patterns": (lambda x, y, A_q, A_k, W: (A_q @ A_k.T) * (x @ W @ y.T), "where nothing is moved (A = 1)"),
    "masked": (lambda x, y, A_q, A_k, W: _term(x, y, A_q, A_k, W).tril(), "where nothing is moved (A = 1)"),
    "divided": (lambda x, y, A_q, A_k, W: _term(x, y, A_q, A_k, W) / x.shape[1] ** 0.5, "the term alone is asked for"),
    "a softmax": (lambda x, y, A_q, A_k, W: _term(x, y, A_q, A_k, W).softmax(1), "the term alone is asked for"),
    "x changed": (_moving_x, "it changes `x`, which it was given"),
}


@exercise
def through_layer(answer: Answer) -> None:
    """`through_layer(S, patterns, OVs) → [pos, d_model]`: the stream behind a layer of heads, patterns given."""
    S, OVs = random(5, 4), random(3, 4, 4, seed=1)
    patterns = torch.stack([_pattern(5, seed) for seed in (2, 3, 4)])

    def behind(S: Tensor, patterns: Tensor, OVs: Tensor) -> Tensor:
        return tensor(answer(S, patterns, OVs), tuple(S.shape), "[pos, d_model]")

    demand(close(behind(S, patterns, 0 * OVs), S), "heads that write nothing should leave the stream as it was.")
    result = behind(S, patterns, OVs)
    later = S.clone()
    later[2] += 1
    change = (behind(later, patterns, OVs) - result).abs().sum(1)
    demand(change[3] > 1e-4, "position 3 attends to position 2, but changing position 2 changes nothing there.")
    demand(change[:2].max() < 1e-4, "position 2 reaches the positions before it: are destination and source swapped?")
    one_by_one = S
    for A, OV in zip(patterns, OVs, strict=True):
        one_by_one = one_by_one + A @ one_by_one @ OV
    demand(not close(result, one_by_one), "heads of one layer read the same stream, not what another head has written.")
    eye = torch.eye(5).expand(3, 5, 5)
    demand(close(behind(S, eye, OVs), S + S @ OVs.sum(0)), "if every position attends to itself, it should add Σ S OV.")
    demand(
        close(result, _behind(S, patterns, OVs)), "each head should move with its own pattern and write with its OV."
    )
    other = random(6, 3), random(2, 6, 6, seed=1), random(2, 3, 3, seed=2)
    demand(close(behind(*other), _behind(*other)), "it fails for a layer of 2 heads, with 6 positions 3 wide.")


def _behind(S: Tensor, patterns: Tensor, OVs: Tensor) -> Tensor:
    return S + (patterns @ S @ OVs).sum(0)


def _one_after_the_other(S: Tensor, patterns: Tensor, OVs: Tensor) -> Tensor:
    for A, OV in zip(patterns, OVs, strict=True):
        S = S + A @ S @ OV
    return S


def _adding_to_S(S: Tensor, patterns: Tensor, OVs: Tensor) -> Tensor:
    S += (patterns @ S @ OVs).sum(0)
    return S


through_layer.mistakes = {
    "as part 4 has it": (lambda S, A, OV: S @ (torch.eye(S.shape[1]) + OV.sum(0)), "position 3 attends to position 2"),
    "stream forgotten": (lambda S, A, OV: (A @ S @ OV).sum(0), "heads that write nothing should leave the stream as"),
    "destination and source swapped": (lambda S, A, OV: S + (A.mT @ S @ OV).sum(0), "position 3 attends to position 2"),
    "OV transposed": (lambda S, A, OV: S + (A @ S @ OV.mT).sum(0), "if every position attends to itself"),
    "OV forgotten": (lambda S, A, OV: S + (A @ S).sum(0), "heads that write nothing should leave the stream as"),
    "mean over heads": (lambda S, A, OV: S + (A @ S @ OV).mean(0), "if every position attends to itself"),
    "the first head only": (lambda S, A, OV: S + A[0] @ S @ OV[0], "if every position attends to itself"),
    "three heads": (lambda S, A, OV: S + 3 * (A @ S @ OV).mean(0), "it fails for a layer of 2 heads"),
    "all heads share a pattern": (
        lambda S, A, OV: S + A.mean(0) @ S @ OV.sum(0),
        "each head should move with its own pattern and",
    ),
    "heads mixed": (lambda S, A, OV: S + (A @ S @ OV.flip(0)).sum(0), "each head should move with its own pattern and"),
    "one head after the other": (_one_after_the_other, "heads of one layer read the same stream"),
    "stream counted per head": (
        lambda S, A, OV: (S + A @ S @ OV).sum(0),
        "heads that write nothing should leave the stream as",
    ),
    "per head": (lambda S, A, OV: S + A @ S @ OV, "the result has shape [3"),
    "subtracted": (lambda S, A, OV: S - (A @ S @ OV).sum(0), "if every position attends to itself"),
    "S changed": (_adding_to_S, "it changes `S`, which it was given"),
}


@exercise
def identity_error(answer: Answer) -> None:
    """`identity_error(rank, d_model) → float`: how near a matrix of this rank comes to the identity."""
    demand(close(number(answer(8, 8)), 0.0), "a matrix of full rank can be the identity: its error is 0.")
    value = number(answer(3, 12))
    demand(0 < value < 1, f"rank 3 of 12 is better than nothing (1) and worse than the identity (0), not {value:.3f}.")
    demand(
        value > number(answer(6, 12)),
        "a higher rank should come closer to the identity.",
    )
    basis = torch.linalg.qr(random(12, 3)).Q
    best = ((basis @ basis.T - torch.eye(12)).norm() / torch.eye(12).norm()).item()
    demand(
        close(value, best),
        f"the closest matrix of rank 3 in 12 dimensions is a projection, at {best:.3f}: not {value:.3f}. "
        "Both norms are Frobenius norms.",
    )
    for rank, d_model in ((0, 5), (6, 7), (64, 768), (32, 256)):
        value = number(answer(rank, d_model))
        demand(
            close(value, math.sqrt(1 - rank / d_model)),
            f"it is right for rank 3 of 12, and {value:.3f} is not right for rank {rank} of {d_model}.",
        )


identity_error.mistakes = {
    "no root": (lambda rank, d: 1 - rank / d, "the closest matrix of rank 3 in 12 dimensions"),
    "what is kept": (lambda rank, d: math.sqrt(rank / d), "a matrix of full rank can be the identity"),
    "share of the rank": (lambda rank, d: rank / d, "a matrix of full rank can be the identity"),
    "not relative": (lambda rank, d: math.sqrt(d - rank), "rank 3 of 12 is better than nothing (1)"),
    "over d": (lambda rank, d: math.sqrt(d - rank) / d, "the closest matrix of rank 3 in 12 dimensions"),
    "linear in roots": (lambda rank, d: 1 - math.sqrt(rank / d), "the closest matrix of rank 3 in 12 dimensions"),
    "squares": (lambda rank, d: math.sqrt(1 - (rank / d) ** 2), "the closest matrix of rank 3 in 12 dimensions"),
    "one rank more": (
        lambda rank, d: math.sqrt(max(0, 1 - (rank + 1) / d)),
        "the closest matrix of rank 3 in 12 dimensions",
    ),
    "the spectral norm": (lambda rank, d: float(rank < d), "rank 3 of 12 is better than nothing (1)"),
    "12 dimensions": (
        lambda rank, d: math.sqrt(max(0, 1 - rank / 12)) if rank < 8 else 0.0,
        "it is right for rank 3 of 12",
    ),
}


@exercise
def destination_axis(answer: Answer) -> None:
    """`destination_axis(picture) → 0 or 1`: which axis of an attention pattern holds the destinations."""
    ends = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5], [0.25, 0.45, 0.05, 0.25], [0.25, 0.4, 0.1, 0.25]]
    for n, seed in ((6, 0), (6, 1), (9, 2), (2, 3)):
        causal = _pattern(n, seed)
        first = (2 * random(n, n, seed=seed) + 3 * (torch.arange(n) == 0)).softmax(1)
        last = (2 * random(n, n, seed=seed + 9) + 3 * (torch.arange(n) == n - 1)).softmax(1)
        patterns = {"a causal pattern": causal, "a pattern without a mask": first, "a pattern that looks ahead": last}
        patterns["a pattern whose first and last sources get 1 in all"] = torch.tensor(ends)
        for name, pattern in patterns.items():
            for axis, picture in ((0, pattern), (1, pattern.T)):
                value = answer(picture.contiguous())
                value = float(value) if isinstance(value, bool) else number(value)
                demand(value in (0, 1), f"an axis is 0 or 1, not {value:g}.")
                demand(
                    value == axis,
                    f"{name} has its destinations on axis {axis}, not {value:.0f}: over what does softmax sum to 1?",
                )


def _rows_sum_to_1(picture: Tensor) -> bool:
    return torch.allclose(picture.sum(1), torch.ones(len(picture)), atol=1e-4)


def _turning(picture: Tensor) -> int:
    axis = 0 if _rows_sum_to_1(picture) else 1
    if axis:
        picture.copy_(picture.T.clone())
    return axis


destination_axis.mistakes = {
    "always the rows": (lambda picture: 0, "a causal pattern has its destinations on axis 1"),
    "always the columns": (lambda picture: 1, "a causal pattern has its destinations on axis 0"),
    "the other way round": (
        lambda picture: int(_rows_sum_to_1(picture)),
        "a causal pattern has its destinations on axis 0",
    ),
    "from 1": (lambda picture: 1 if _rows_sum_to_1(picture) else 2, "a causal pattern has its destinations on axis 0"),
    "from the end": (lambda picture: -2 if _rows_sum_to_1(picture) else -1, "an axis is 0 or 1"),
    "in words": (lambda picture: "rows" if _rows_sum_to_1(picture) else "columns", "it should return one number"),
    "by the mask": (lambda p: 0 if p.triu(1).sum() < 1e-6 else 1, "a pattern without a mask has its destinations on"),
    "by the larger entries": (
        lambda p: 0 if p.tril().sum() > p.triu().sum() else 1,
        "a pattern that looks ahead has its destinations on",
    ),
    "by the largest entries": (
        lambda p: int(p.amax(0).mean() > p.amax(1).mean()),
        "a pattern whose first and last sources get 1",
    ),
    "by the first column": (
        lambda p: 0 if p[:, 0].sum() > p[0].sum() else 1,
        "a pattern whose first and last sources get 1",
    ),
    "by the first row": (
        lambda p: 0 if abs(p[0].sum() - 1) < 1e-4 else 1,
        "a pattern whose first and last sources get 1",
    ),
    "by the last column": (
        lambda p: 1 if abs(p[:, -1].sum() - 1) < 1e-4 else 0,
        "a pattern whose first and last sources get 1",
    ),
    "by exact sums": (
        lambda p: 0 if all(total == 1 for total in p.sum(1).tolist()) else 1,
        "a pattern without a mask has its destinations on",
    ),
    "by the sum of all": (
        lambda p: 0 if abs(p.sum() - len(p)) < 1e-3 else 1,
        "a causal pattern has its destinations on axis 1",
    ),
    "the picture turned": (_turning, "it changes `picture`, which it was given"),
}


@exercise
def copier(answer: Answer) -> None:
    """`copier(n) → [n, n]`: every token raises itself most, and yet an eigenvalue is negative."""
    for n in (4, 6, 10):
        matrix = tensor(answer(n), (n, n), "[source, out]")
        diagonal = matrix.diagonal()
        demand((diagonal > 0).all(), "a token lowers its own logit: every entry on the diagonal should be above 0.")
        others = matrix.masked_fill(torch.eye(n) > 0, -math.inf).amax(1)
        demand(
            (diagonal > others + 1e-6).all(),
            "some token raises another one as much as itself: each row should be largest on the diagonal.",
        )
        least = _least_eigenvalue(matrix)
        demand(least < -1e-6, f"all eigenvalues have a real part of {least:.2f} or more; one should be negative.")
        least = _least_eigenvalue(matrix - matrix.mean(1, keepdim=True))
        demand(
            least < -1e-4 * matrix.abs().max().item(),  # centring leaves one of 0, but for rounding
            "take each row's mean away, which no softmax sees, and no eigenvalue is negative: yours belongs to the "
            "direction in which all logits rise together.",
        )


def _least_eigenvalue(matrix: Tensor) -> float:
    return torch.linalg.eigvals(matrix.double()).real.min().item()


def _signs(n: int, off: float) -> Tensor:
    v = torch.ones(n)
    v[: n // 2] = -1
    return off * torch.outer(v, v)


copier.mistakes = {
    "the identity": (lambda n: torch.eye(n), "all eigenvalues have a real part of 1.00 or"),
    "minus the identity": (lambda n: -torch.eye(n), "a token lowers its own logit"),
    "zeros": (lambda n: torch.zeros(n, n), "a token lowers its own logit"),
    "positive diagonal only": (
        lambda n: 2 * torch.ones(n, n) - torch.eye(n),
        "some token raises another one as much as itself",
    ),
    "all alike": (lambda n: torch.full((n, n), 0.9).fill_diagonal_(1.0), "all eigenvalues have a real part of 0.10 or"),
    "the constant direction": (lambda n: -0.9 * torch.ones(n, n) + 1.9 * torch.eye(n), "take each row's mean away"),
    "off the diagonal too weak": (
        lambda n: _signs(n, -0.1).fill_diagonal_(1.0),
        "all eigenvalues have a real part of 0.70 or",
    ),
    "the other sign": (lambda n: _signs(n, 0.9).fill_diagonal_(1.0), "all eigenvalues have a real part of 0.10 or"),
    "as large as itself": (
        lambda n: _signs(n, -1.0).fill_diagonal_(1.0),
        "some token raises another one as much as itself",
    ),
    "neighbours in a ring": (
        lambda n: torch.eye(n) + 0.9 * torch.eye(n).roll(1, 0),
        "all eigenvalues have a real part of 0.10 or",
    ),
    "four tokens always": (lambda n: _signs(4, -0.9).fill_diagonal_(1.0), "the result has shape [4"),
    "weaker for more tokens": (
        lambda n: _signs(n, -0.9 if n < 8 else -0.05).fill_diagonal_(1.0),
        "all eigenvalues have a real part of 0.55 or",
    ),
    "not a number": (lambda n: torch.full((n, n), math.nan), "the result holds values that are infinite or not"),
    "random": (lambda n: torch.randn(n, n, generator=torch.Generator().manual_seed(1)), "a token lowers its own logit"),
}


@exercise
def self_logit_share(answer: Answer) -> None:
    """`self_logit_share(table) → float`: the share of tokens that raise their own logit above the average one."""
    demand(number(answer(torch.eye(6))) == 1, "in the identity matrix every token raises itself: the share is 1.")
    demand(number(answer(-torch.eye(6))) == 0, "in minus the identity no token raises itself: the share is 0.")
    demand(
        number(answer(torch.tensor([[1.0, 2], [2, 1]]))) == 0,
        "in [[1, 2], [2, 1]] each token raises the other more than itself: the share is 0, eigenvalues or not.",
    )
    table = torch.tensor([[4.0, 9, 0, 7], [0, 3, 9, 3], [1, 1, 4, 1], [5, 0, 0, 4]])
    value = number(answer(table))
    demand(
        close(number(answer(table + torch.tensor([[50.0], [-50], [50], [-50]]))), value),
        "adding a constant to a row changes no probability, so nothing should change: compare with the row's mean.",
    )
    demand(
        close(value, 0.5),
        f"of the rows of [[4, 9, 0, 7], [0, 3, 9, 3], [1, 1, 4, 1], [5, 0, 0, 4]] two are above their mean on the "
        f"diagonal, a share of 0.5 and not {value:.2f}.",
    )
    for n in (7, 30, 101):
        table = random(n, n, seed=n).exp() - 2 * (torch.arange(n) % 3 == 0)[:, None]
        table[torch.arange(n), torch.arange(n)] += 0.4 * random(n, seed=1)
        value, right = number(answer(table)), (table.diagonal() > table.mean(1)).float().mean().item()
        demand(
            close(value, right),
            f"in a random table of {n} tokens, {right:.3f} of them stand above their row's mean on the diagonal, and "
            f"not {value:.3f}.",
        )
    demand(number(answer(torch.ones(3, 3))) == 0, "where all logits are equal no token stands above the average: 0.")


def _above(table: Tensor, mean: Tensor | float) -> float:
    return (table.diagonal() > mean).float().mean().item()


def _centring_rows(table: Tensor) -> float:
    table -= table.mean(1, keepdim=True)
    return _above(table, 0)


self_logit_share.mistakes = {
    "not centred": (lambda t: _above(t, 0), "in [[1, 2], [2"),
    "columns centred": (lambda t: _above(t, t.mean(0)), "adding a constant to a row changes no probability"),
    "all centred": (lambda t: _above(t, t.mean()), "adding a constant to a row changes no probability"),
    "the median": (lambda t: _above(t, t.median(1).values), "in a random table of 30 tokens"),
    "half a deviation above": (lambda t: _above(t, t.mean(1) + t.std(1) / 2), "in a random table of 7 tokens"),
    "the largest of its row": (
        lambda t: (t.argmax(1) == torch.arange(len(t))).float().mean().item(),
        "of the rows of [[4",
    ),
    "positive and above": (
        lambda t: ((t.diagonal() > t.mean(1)) & (t.diagonal() > 0)).float().mean().item(),
        "adding a constant to a row changes no probability",
    ),
    "all entries": (
        lambda t: (t > t.mean(1, keepdim=True)).float().mean().item(),
        "in the identity matrix every token raises itself",
    ),
    "positive eigenvalues": (lambda t: (torch.linalg.eigvals(t).real > 0).float().mean().item(), "in [[1, 2], [2"),
    "the other diagonal": (
        lambda t: (t.flip(1).diagonal() > t.mean(1)).float().mean().item(),
        "in the identity matrix every token raises itself",
    ),
    "a count": (lambda t: (t.diagonal() > t.mean(1)).sum().item(), "in the identity matrix every token raises itself"),
    "in per cent": (lambda t: 100 * _above(t, t.mean(1)), "in the identity matrix every token raises itself"),
    "one per token": (lambda t: t.diagonal() > t.mean(1), "it should return one number"),
    "the trace": (
        lambda t: (t.diagonal() - t.mean(1)).mean().item(),
        "in the identity matrix every token raises itself",
    ),
    "below": (
        lambda t: (t.diagonal() < t.mean(1)).float().mean().item(),
        "in the identity matrix every token raises itself",
    ),
    "the table changed": (_centring_rows, "it changes `table`, which it was given"),
}


@exercise
def copying_heads(answer: Answer) -> None:
    """`copying_heads(scores, thresholds) → [threshold]`: how many heads are above each threshold."""
    scores = torch.tensor([0.9, -0.2, 0.5, 0.9, 0.1])
    thresholds = torch.tensor([-1.0, 0.0, 0.3, 0.6, 0.95, 0.2, 0.7])
    result = tensor(answer(scores, thresholds), (7,), "[threshold]")
    demand(result[0] == 5, f"all five scores are above −1, not {result[0]:.3g}.")
    demand(result[4] == 0, f"no score is above 0.95, so that count should be 0 and not {result[4]:.3g}.")
    demand(
        torch.equal(result, torch.tensor([5.0, 4, 3, 2, 0, 3, 2])),
        "count the scores above each threshold, in the order in which the thresholds come.",
    )
    scores, thresholds = torch.tensor([0.5, -0.75, 0.25, 0.5, 1.0, -0.5, 0.0, 0.125]), torch.tensor([0.5, -0.6, 0.0])
    found = tensor(answer(scores, thresholds), (3,), "[threshold]")
    demand(found[0] != 3 and found[2] != 6, "a score that is equal to the threshold is not above it.")
    demand(
        torch.equal(found, torch.tensor([1.0, 7, 5])),
        "it fails for eight scores and three thresholds: negative scores can be above a negative threshold.",
    )


def _sorting_thresholds(scores: Tensor, thresholds: Tensor) -> Tensor:
    counts = (scores > thresholds[:, None]).sum(1)
    thresholds.copy_(thresholds.sort().values)
    return counts


copying_heads.mistakes = {
    "those below": (lambda s, t: (s <= t[:, None]).sum(1), "all five scores are above −1"),
    "at or above": (lambda s, t: (s >= t[:, None]).sum(1), "a score that is equal to the threshold is"),
    "shares": (lambda s, t: (s > t[:, None]).float().mean(1), "all five scores are above −1"),
    "absolute values": (lambda s, t: (s.abs() > t[:, None]).sum(1), "count the scores above each threshold"),
    "thresholds sorted": (lambda s, t: (s > t.sort().values[:, None]).sum(1), "no score is above 0.95"),
    "in reverse": (lambda s, t: (s > t[:, None]).sum(1).flip(0), "all five scores are above −1"),
    "positive scores": (
        lambda s, t: ((s > t[:, None]) & ((s > 0) | (t[:, None] < -0.9))).sum(1),
        "it fails for eight scores and three thresholds",
    ),
    "one less": (lambda s, t: (s > t[:, None]).sum(1) - 1, "all five scores are above −1"),
    "the scores added": (lambda s, t: (s * (s > t[:, None])).sum(1), "all five scores are above −1"),
    "a truth value": (lambda s, t: (s > t[:, None]).any(1), "all five scores are above −1"),
    "one per score": (lambda s, t: (s > t[:, None]).sum(0), "the result has shape [5]"),
    "one number": (lambda s, t: (s > t[:, None]).sum(), "the result has shape []"),
    "the thresholds changed": (_sorting_thresholds, "it changes `thresholds`, which it was given"),
}


@exercise
def match_positivity(answer: Answer) -> None:
    """`match_positivity(W_E, QK, OV) → float`: Σλ / Σ|λ| of W_E QK OVᵀ W_Eᵀ."""
    W_E = random(30, 6)
    A, B, OV = random(6, 6, seed=1), random(6, 6, seed=2), random(6, 6, seed=3)
    inverse = torch.linalg.inv(OV).T
    value = number(answer(W_E, inverse, OV))  # QK OVᵀ = 1: every token matches itself
    demand(abs(value) <= 1 + 1e-4, f"Σλ / Σ|λ| lies between −1 and 1, not at {value:.2f}.")
    demand(
        _near(value, 1.0),
        "a later head that undoes just what the earlier one wrote should score 1: is OV transposed, and in its place?",
    )
    demand(_near(number(answer(W_E, -inverse, OV)), -1.0), "with the sign of QK turned round, the score should be −1.")
    demand(
        _near(number(answer(W_E, A, B)), _match(W_E, A @ B.T)),
        "it fails for random matrices: the eigenvalues are those of the [V, V] product, complex ones included.",
    )
    for V, d in ((11, 4), (40, 9)):
        W_E, A, B = random(V, d) + 0.5, random(d, d, seed=4), random(d, d, seed=5)
        demand(_near(number(answer(W_E, A, B)), _match(W_E, A @ B.T)), f"it fails for {V} tokens, {d} wide.")
    n = 1500
    wide = random(n, 3), random(3, 3, seed=1), random(3, 3, seed=2)
    demand(
        largest_table(answer, *wide) < n * n,
        "it builds the [d_vocab, d_vocab] matrix: BA has the same eigenvalues as AB, and is small.",
    )


def _near(value: float, right: float) -> bool:
    return abs(value - right) < 1e-3


def _match(W_E: Tensor, middle: Tensor) -> float:
    values = torch.linalg.eigvals((middle @ W_E.T @ W_E).double())
    return (values.sum().real / values.abs().sum()).item()


def _values(W_E: Tensor, QK: Tensor, OV: Tensor) -> Tensor:
    return torch.linalg.eigvals(QK @ OV.T @ W_E.T @ W_E)


def _whole_table(W_E: Tensor, QK: Tensor, OV: Tensor) -> float:
    values = torch.linalg.eigvals(W_E @ QK @ OV.T @ W_E.T)
    return (values.sum().real / values.abs().sum()).item()


def _trace_of_the_table(W_E: Tensor, QK: Tensor, OV: Tensor) -> float:
    return ((W_E @ QK @ OV.T @ W_E.T).trace() / _values(W_E, QK, OV).abs().sum()).item()


def _centring_W_E(W_E: Tensor, QK: Tensor, OV: Tensor) -> float:
    score = _match(W_E, QK @ OV.T)
    W_E -= W_E.mean(0)
    return score


match_positivity.mistakes = {
    "OV not transposed": (lambda W_E, QK, OV: _match(W_E, QK @ OV), "a later head that undoes just what the earlier"),
    "QK transposed": (lambda W_E, QK, OV: _match(W_E, QK.T @ OV.T), "a later head that undoes just what the earlier"),
    "W_QK alone, as the summary has it": (
        lambda W_E, QK, OV: _match(W_E, QK),
        "a later head that undoes just what the earlier",
    ),
    "W_OV alone": (lambda W_E, QK, OV: _match(W_E, OV), "a later head that undoes just what the earlier"),
    "the wrong order": (lambda W_E, QK, OV: _match(W_E, OV.T @ QK), "it fails for random matrices"),
    "the embedding forgotten": (
        lambda W_E, QK, OV: _match(torch.eye(len(QK)), QK @ OV.T),
        "it fails for random matrices",
    ),
    "real parts only": (
        lambda W_E, QK, OV: ((v := _values(W_E, QK, OV).real).sum() / v.abs().sum()).item(),
        "it fails for random matrices",
    ),
    "not divided": (lambda W_E, QK, OV: _values(W_E, QK, OV).real.sum().item(), "Σλ / Σ|λ| lies between −1 and 1"),
    "its size": (lambda W_E, QK, OV: abs(_match(W_E, QK @ OV.T)), "with the sign of QK turned round"),
    "share of positive ones": (
        lambda W_E, QK, OV: (_values(W_E, QK, OV).real > 0).float().mean().item(),
        "with the sign of QK turned round",
    ),
    "singular values": (
        lambda W_E, QK, OV: ((M := QK @ OV.T @ W_E.T @ W_E).trace() / torch.linalg.svdvals(M).sum()).item(),
        "it fails for random matrices",
    ),
    "always 1": (lambda W_E, QK, OV: 1.0, "with the sign of QK turned round"),
    "the diagonal": (
        lambda W_E, QK, OV: ((d := (W_E @ QK @ OV.T * W_E).sum(1)).sum() / d.abs().sum()).item(),
        "it fails for random matrices",
    ),
    "the whole table": (_whole_table, "it builds the [d_vocab"),
    "the whole table for its trace": (_trace_of_the_table, "it builds the [d_vocab"),
    "W_E changed": (_centring_W_E, "it changes `W_E`, which it was given"),
}


@exercise
def attention_by_gap(answer: Answer) -> None:
    """`attention_by_gap(model, head, source, dest, fillers) → [gap]`: attention to a source that moves away."""
    model, fillers = tiny_model(0.7), torch.tensor([[3, 4, 5, 6], [7, 8, 6, 3]])

    def measured(head: int, source: int = 1, dest: int = 2, fillers: Tensor = fillers) -> Tensor:
        shape, means = (fillers.shape[1] + 1,), "[gap], from 0 to the number of fillers"
        return tensor(answer(model, head, source, dest, fillers), shape, means)

    results = [measured(head) for head in (0, 1)]
    expected = _by_gap(model, 0, 1, 2, fillers)
    demand(
        not close(results[0], 0 * expected),
        "this attention is 0: the destination, the last token, looks at the source; nothing looks ahead.",
    )
    demand(not close(results[0], results[1]), "two heads give the same numbers: use the head that was asked for.")
    demand(all(((r >= 0) & (r <= 1)).all() for r in results), "attention lies between 0 and 1.")
    demand(
        close(results[0][0], expected[0]),
        "with no filler the context is start token, source, destination; read the attention from the last position to "
        "position 1.",
    )
    same = measured(0, fillers=fillers[:1].expand(2, 4))
    swapped = measured(0, fillers=fillers.flip(0))
    demand(close(swapped, results[0]), "the order of the rows of fillers should not matter: average over all of them.")
    demand(not close(same, results[0]), "the second row of fillers makes no difference: average over all rows.")
    demand(close(results[0], expected), "at gap g, the first g fillers of each row stand between the two.")
    for head, source, dest, given in ((2, 9, 11, [[12], [5], [7]]), (1, 4, 4, [[1, 2, 3, 4, 5, 6]])):
        fillers = torch.tensor(given)
        demand(
            close(measured(head, source, dest, fillers), _by_gap(model, head, source, dest, fillers)),
            f"it fails for {len(given)} rows of {len(given[0])} fillers, source {source} and destination {dest}.",
        )


def _by_gap(
    model: HookedTransformer,
    head: int,
    source: int,
    dest: int,
    fillers: Tensor,
    *,
    build: Callable[..., list[int]] | None = None,
    read: tuple[int, int] = (-1, 1),
    of: Callable[[Tensor], Tensor] = torch.mean,
    start: int = 0,
) -> Tensor:
    found = []
    for gap in range(start, fillers.shape[1] + 1):
        plain = [[0, source, *row[:gap], dest] for row in fillers.tolist()]
        rows = [build(row, gap, source, dest) for row in fillers.tolist()] if build else plain
        found.append(of(heads.patterns(model, torch.tensor(rows))[0, head, :, read[0], read[1]]))
    return torch.stack(found)


def _changing_fillers(model: HookedTransformer, head: int, source: int, dest: int, fillers: Tensor) -> Tensor:
    found = _by_gap(model, head, source, dest, fillers)
    fillers[:, -1] = dest
    return found


def _with_a_hook(model: HookedTransformer, head: int, source: int, dest: int, fillers: Tensor) -> Tensor:
    model.add_hook("blocks.0.attn.hook_pattern", lambda pattern, hook: pattern)
    return _by_gap(model, head, source, dest, fillers)


attention_by_gap.mistakes = {
    "read at the start token": (lambda *a: _by_gap(*a, read=(-1, 0)), "with no filler the context is start token"),
    "read from the source": (lambda *a: _by_gap(*a, read=(1, -1)), "this attention is 0"),
    "read at the token before": (lambda *a: _by_gap(*a, read=(-1, -2)), "at gap g, the first g fillers of each"),
    "no start token": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [s, *r[:g], d], read=(-1, 0)),
        "with no filler the context is start token",
    ),
    "one row": (lambda *a: _by_gap(*a, of=lambda entries: entries[0]), "the order of the rows of fillers should not"),
    "the largest": (lambda *a: _by_gap(*a, of=torch.max), "at gap g, the first g fillers of each"),
    "summed": (lambda *a: _by_gap(*a, of=torch.sum), "attention lies between 0 and 1"),
    "gap 0 left out": (lambda *a: _by_gap(*a, start=1), "the result has shape [4]"),
    "backwards": (lambda *a: _by_gap(*a).flip(0), "with no filler the context is start token"),
    "the last fillers": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [0, s, *r[len(r) - g :], d]),
        "at gap g, the first g fillers of each",
    ),
    "fillers in front": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [0, *r[:g], s, d]),
        "at gap g, the first g fillers of each",
    ),
    "the first filler again and again": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [0, s, *([r[0]] * g), d]),
        "at gap g, the first g fillers of each",
    ),
    "source and destination exchanged": (
        lambda m, h, s, d, f: _by_gap(m, h, d, s, f),
        "with no filler the context is start token",
    ),
    "always the first head": (lambda m, h, s, d, f: _by_gap(m, 0, s, d, f), "two heads give the same numbers"),
    "the fillers changed": (_changing_fillers, "it changes `fillers`, which it was given"),
    "a hook left": (_with_a_hook, "it leaves a hook on `model`"),
}


@exercise
def landing(answer: Answer) -> None:
    """`landing(pattern, period) → (to the same token, to the one behind it)`, second pass, means."""
    means = "attention to the same token and to the one behind it"

    def measured(pattern: Tensor, period: int) -> Tensor:
        first, second = pair(answer(pattern, period), means)
        return torch.tensor([number(first), number(second)])

    def planted(offset: int) -> Tensor:
        pattern = torch.zeros(13, 13)
        for dest in range(7, 13):
            pattern[dest, dest - offset] = 1
        return pattern

    demand(
        not (close(measured(planted(6), 6), torch.tensor([0.0, 1.0])) and measured(planted(5), 6)[0] == 1),
        "the two are exchanged: the earlier occurrence comes first, then the token behind it.",
    )
    demand(
        close(measured(planted(6), 6), torch.tensor([1.0, 0.0])),
        "a head that attends exactly one period back, to the same token, should give (1, 0).",
    )
    demand(
        close(measured(planted(5), 6), torch.tensor([0.0, 1.0])),
        "a head that attends to the token behind the earlier occurrence should give (0, 1).",
    )
    first = torch.zeros(13, 13)
    first[:, 0] = 1
    first[5, 0], first[5, 1], first[6, 0], first[6, 1] = 0, 1, 0, 1
    demand(
        close(measured(first, 6), torch.tensor([0.0, 0.0])),
        "only destinations in the second pass count: those have an earlier occurrence of their token.",
    )
    for period, shape in ((4, ()), (7, (3,)), (5, (2, 3))):
        pattern = random(*shape, 2 * period + 1, 2 * period + 1, seed=period).exp()
        same = pattern.diagonal(-period, -2, -1)[..., 1:].mean()
        behind = pattern.diagonal(1 - period, -2, -1)[..., 2:].mean()
        demand(
            close(measured(pattern, period), torch.stack([same, behind])),
            f"on random numbers of shape {list(pattern.shape)}, period {period}, the means are wrong: over all "
            "destinations in the second pass, and over all axes in front.",
        )


def _offsets(pattern: Tensor, same: int, behind: int, skip: int = 1, of: Answer = torch.mean) -> tuple[Tensor, Tensor]:
    after = of(pattern.diagonal(-behind, -2, -1)[..., skip + 1 :])
    return of(pattern.diagonal(-same, -2, -1)[..., skip:]), after


def _landed(pattern: Tensor, period: int) -> tuple[Tensor, Tensor]:
    return _offsets(pattern, period, period - 1)


def _without_start(pattern: Tensor, period: int) -> tuple[Tensor, Tensor]:
    pattern[..., 0] = 0
    return _landed(pattern, period)


landing.mistakes = {
    "exchanged": (lambda p, period: _landed(p, period)[::-1], "the two are exchanged"),
    "one too far": (lambda p, period: _offsets(p, period + 1, period), "a head that attends exactly one period back"),
    "the token in front": (
        lambda p, period: _offsets(p, period, period + 1, skip=0),
        "a head that attends exactly one period back",
    ),
    "one period and one": (lambda p, period: _offsets(p, period - 1, 1), "a head that attends exactly one period back"),
    "the first pass counts": (
        lambda p, period: (
            p.diagonal(-period, -2, -1).mean(),
            p.diagonal(1 - period, -2, -1).mean(),
        ),
        "a head that attends exactly one period back",
    ),
    "one entry of the first pass": (
        lambda p, period: (
            _landed(p, period)[0],
            p.diagonal(1 - period, -2, -1)[..., 1:].mean(),
        ),
        "a head that attends to the token behind the",
    ),
    "summed": (
        lambda p, period: _offsets(p, period, period - 1, of=torch.sum),
        "a head that attends exactly one period back",
    ),
    "the median": (lambda p, period: _offsets(p, period, period - 1, of=torch.median), "on random numbers of shape [9"),
    "the largest": (lambda p, period: _offsets(p, period, period - 1, of=torch.max), "on random numbers of shape [9"),
    "one per head": (
        lambda p, period: _offsets(p, period, period - 1, of=lambda t: t.mean(-1)),
        "it should return one number",
    ),
    "the first head": (
        lambda p, period: _landed(p.reshape(-1, *p.shape[-2:])[0], period),
        "on random numbers of shape [3",
    ),
    "shares": (
        lambda p, period: tuple(x / (sum(_landed(p, period)) or 1) for x in _landed(p, period)),
        "on random numbers of shape [9",
    ),
    "destinations on the columns": (
        lambda p, period: _landed(p.mT, period),
        "a head that attends exactly one period back",
    ),
    "only the second": (lambda p, period: _landed(p, period)[1], "it should return two things"),
    "the pattern changed": (_without_start, "it changes `pattern`, which it was given"),
}


@exercise
def split_words(answer: Answer) -> None:
    """`split_words(vocabulary, encode) → [(whole, first, second)]`: one token with a space, two without."""
    vocabulary = ["", "R", "alph", " Ralph", " R", "to", "day", "today", " today", "a", "b", "c", " abc", " ab", "xy"]
    found = _triples(answer, vocabulary)
    demand((3, 1, 2) in found, "“ Ralph” is one token, and “Ralph” two, so (3, 1, 2) should be among the triples.")
    demand(not any(entry[0] == 8 for entry in found), "“today” is one token without its space, too: it does not split.")
    demand(not any(entry[0] == 12 for entry in found), "“abc” splits into three; only words of two are asked for.")
    demand(
        all(0 <= entry[0] < 15 and vocabulary[entry[0]].startswith(" ") for entry in found),
        "only tokens that begin with a space are asked for.",
    )
    demand(sorted(found) == [(3, 1, 2), (13, 9, 10)], "a word is missing, or too many are there.")
    strange = ["12", "3", " 123", "x", " ", "x y", "  x3", "\nx3", " X3", "X", "é", " éx", "3x", "-", " --", " x  "]
    demand(
        sorted(_triples(answer, strange)) == sorted(_split(strange, _encoder(strange))),
        "with signs, digits and several spaces it fails: a token begins with a space, and one character is taken off.",
    )


def _encoder(vocabulary: list[str]) -> Callable[[str], list[int]]:
    def encode(string: str) -> list[int]:
        pieces = []
        while string:
            longest = max((t for t in vocabulary if t and string.startswith(t)), key=len, default="")
            pieces.append(vocabulary.index(longest) if longest else -1)
            string = string[len(longest) or 1 :]
        return pieces

    return encode


def _triples(answer: Answer, vocabulary: list[str]) -> list[tuple[int, ...]]:
    result = answer(list(vocabulary), _encoder(vocabulary))
    if not isinstance(result, list) or not all(isinstance(entry, tuple | list) and len(entry) == 3 for entry in result):
        raise Wrong("it should return a list of triples of token numbers: (whole, first, second).")
    whole = all(isinstance(token, int) for entry in result for token in entry)
    demand(whole, "the triples should hold token numbers.")
    return [tuple(entry) for entry in result]


def _split(
    vocabulary: Sequence[str],
    encode: Callable[[str], list[int]],
    begins: Callable[[str], bool] = lambda name: name.startswith(" "),
    bare: Callable[[str], str] = lambda name: name[1:],
    pieces: tuple[int, ...] = (2,),
) -> list[tuple[int, ...]]:
    parts = [(whole, encode(bare(name))) for whole, name in enumerate(vocabulary) if begins(name)]
    return [(whole, found[0], found[-1]) for whole, found in parts if len(found) in pieces]


def _stripping_the_vocabulary(vocabulary: list[str], encode: Callable[[str], list[int]]) -> list[tuple[int, ...]]:
    found = _split(vocabulary, encode)
    vocabulary[:] = [name.strip() for name in vocabulary]
    return found


split_words.mistakes = {
    "words without a space too": (
        lambda v, e: _split(v, e, begins=bool),
        "only tokens that begin with a space are asked",
    ),
    "three pieces too": (lambda v, e: _split(v, e, pieces=(2, 3)), "“abc” splits into three"),
    "one piece too": (lambda v, e: _split(v, e, pieces=(1, 2)), "“today” is one token without its space"),
    "the space kept": (lambda v, e: _split(v, e, bare=str), "“ Ralph” is one token"),
    "all spaces taken off": (
        lambda v, e: _split(v, e, bare=str.strip),
        "with signs, digits and several spaces it fails",
    ),
    "spaces in front taken off": (
        lambda v, e: _split(v, e, bare=str.lstrip),
        "with signs, digits and several spaces it fails",
    ),
    "any white space": (
        lambda v, e: _split(v, e, begins=lambda name: name[:1].isspace()),
        "with signs, digits and several spaces it fails",
    ),
    "letters alone": (
        lambda v, e: _split(v, e, begins=lambda name: name[:1] == " " and name[1:].isalpha()),
        "with signs, digits and several spaces it fails",
    ),
    "strings": (lambda v, e: [(v[a], v[b], v[c]) for a, b, c in _split(v, e)], "the triples should hold token numbers"),
    "the whole alone": (lambda v, e: [a for a, _, _ in _split(v, e)], "it should return a list of triples of token"),
    "numbers from 1": (lambda v, e: [(a + 1, b, c) for a, b, c in _split(v, e)], "“ Ralph” is one token"),
    "the whole at the end": (lambda v, e: [(b, c, a) for a, b, c in _split(v, e)], "“ Ralph” is one token"),
    "pieces exchanged": (lambda v, e: [(a, c, b) for a, b, c in _split(v, e)], "“ Ralph” is one token"),
    "the first word only": (lambda v, e: _split(v, e)[:1], "a word is missing"),
    "every word twice": (lambda v, e: 2 * _split(v, e), "a word is missing"),
    "the vocabulary changed": (_stripping_the_vocabulary, "it changes `vocabulary[3]`, which it was given"),
}


@exercise
def next_merge(answer: Answer) -> None:
    """`next_merge(tokens) → (left, right)`: the adjacent pair of tokens that BPE merges next."""

    def merged(tokens: Sequence[str]) -> tuple[str, str]:
        result = answer(list(tokens))
        if not isinstance(result, tuple | list) or len(result) != 2 or not all(isinstance(t, str) for t in result):
            raise Wrong("it should return two tokens, left and right.")
        return result[0], result[1]

    result = merged(["th", "e", " ", "th", "e", "n", " ", "th", "e"])
    demand(
        result != ("t", "h"),
        "“t” and “h” are no tokens here any more: count pairs of adjacent tokens, not of characters.",
    )
    demand(result == ("th", "e"), "“th” and “e” stand together three times, more often than any other pair.")
    result = merged("abcbadba")
    demand(
        result == ("b", "a"),
        "in a b c b a d b a, “b” before “a” stands there twice, every other pair once: (a, b) is another pair.",
    )
    demand(merged("papbpcqdqeqabab") == ("a", "b"), "count pairs that stand next to each other, not single tokens.")
    demand(merged("xaaabaac") == ("a", "a"), "two equal tokens make a pair as well.")
    demand(
        merged("ababcdcdcd") == ("c", "d"), "in a b a b c d c d c d, “c” “d” stands there three times, “a” “b” twice."
    )
    demand(
        merged(["q", "longest", "token", "a", "b", "c", "a", "b", "zz", "a"]) == ("a", "b"),
        "what counts is how often a pair stands there, not how long or how rare its tokens are.",
    )


def _commonest(items: Any) -> Any:
    return Counter(items).most_common(1)[0][0]


def _sorting(tokens: list[str]) -> Any:
    found = _commonest(itertools.pairwise(tokens))
    tokens.sort()
    return found


next_merge.mistakes = {
    "characters": (
        lambda tokens: _commonest(itertools.pairwise("".join(tokens))),
        "“t” and “h” are no tokens here any more",
    ),
    "order ignored": (
        lambda tokens: _commonest(tuple(sorted(two)) for two in itertools.pairwise(tokens)),
        "“th” and “e” stand together three times",
    ),
    "different tokens alone": (
        lambda tokens: _commonest(p for p in itertools.pairwise(tokens) if p[0] != p[1]),
        "two equal tokens make a pair as well",
    ),
    "the two most frequent tokens": (
        lambda tokens: tuple(token for token, _ in Counter[str](tokens).most_common(2)),
        "in a b c b a d b a",
    ),
    "the first pair": (lambda tokens: tuple(tokens[:2]), "in a b c b a d b a"),
    "the longest pair": (
        lambda tokens: max(itertools.pairwise(tokens), key=lambda two: len("".join(two))),
        "in a b c b a d b a",
    ),
    "by length and count": (
        lambda tokens: max(
            (counts := Counter(itertools.pairwise(tokens))), key=lambda two: counts[two] * len("".join(two))
        ),
        "what counts is how often a pair stands there",
    ),
    "two apart": (
        lambda tokens: _commonest(zip(tokens, tokens[2:], strict=False)),
        "“th” and “e” stand together three times",
    ),
    "merged already": (lambda tokens: "".join(_commonest(itertools.pairwise(tokens))), "it should return two tokens"),
    "with its count": (
        lambda tokens: Counter(itertools.pairwise(tokens)).most_common(1)[0],
        "it should return two tokens",
    ),
    "every second pair": (
        lambda tokens: _commonest(zip(tokens[::2], tokens[1::2], strict=False)),
        "“th” and “e” stand together three times",
    ),
    "left and right exchanged": (
        lambda tokens: _commonest(itertools.pairwise(tokens))[::-1],
        "“th” and “e” stand together three times",
    ),
    "the rarest": (
        lambda tokens: Counter(itertools.pairwise(tokens)).most_common()[-1][0],
        "“th” and “e” stand together three times",
    ),
    "the tokens changed": (_sorting, "it changes `tokens[0]`, which it was given"),
}


@exercise
def attention_across(answer: Answer) -> None:
    """`attention_across(pattern, boundary) → float`: what destinations behind a position give to sources before it."""
    n, boundary = 9, 4
    uniform = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
    demand(
        number(answer(torch.eye(n), boundary)) == 0,
        "if every position attends to itself, nothing crosses the boundary.",
    )
    far = torch.zeros(n, n)
    far[:, 0] = 1
    demand(
        close(number(answer(far, boundary)), 1.0),
        "if everything attends to position 0, all attention of the later positions crosses the boundary: that is 1.",
    )
    at = torch.zeros(n, n)
    at[:, boundary] = 1
    demand(number(answer(at, boundary)) == 0, "attention to the boundary itself does not cross it.")
    only = torch.eye(n)
    only[: boundary + 1] = 0
    only[: boundary + 1, 0] = 1
    demand(number(answer(only, boundary)) == 0, "only destinations behind the boundary count, not the boundary itself.")
    value = number(answer(uniform, boundary))
    demand(
        close(value, _across(uniform, boundary)),
        f"on a uniform pattern it is not {value:.3f}: sum over sources, then mean over destinations.",
    )
    for length, middle, shape in ((8, 1, ()), (7, 5, (3,)), (10, 6, (2, 4))):
        pattern = random(*shape, length, length, seed=length).exp()
        value = number(answer(pattern, middle))
        demand(
            close(value, _across(pattern, middle)),
            f"on random numbers of shape {list(pattern.shape)}, boundary {middle}, it is not {value:.3f}: average over "
            "every axis but the sources'.",
        )


def _across(pattern: Tensor, boundary: int) -> Tensor:
    return pattern[..., boundary + 1 :, :boundary].sum(-1).mean()


def _clearing(pattern: Tensor, boundary: int) -> Tensor:
    pattern[..., boundary:] = 0
    return _across(pattern, boundary)


attention_across.mistakes = {
    "the boundary counts as a source": (
        lambda p, b: p[..., b + 1 :, : b + 1].sum(-1).mean(),
        "attention to the boundary itself does not cross it",
    ),
    "the boundary counts as a destination": (
        lambda p, b: p[..., b:, :b].sum(-1).mean(),
        "only destinations behind the boundary count",
    ),
    "one source too few": (
        lambda p, b: p[..., b + 1 :, : b - 1].sum(-1).mean(),
        "on a uniform pattern it is not 0.409",
    ),
    "one destination too few": (
        lambda p, b: p[..., b + 2 :, :b].sum(-1).mean() if p.shape[-1] > b + 2 else 0.0,
        "on a uniform pattern it is not 0.505",
    ),
    "the start token left out": (
        lambda p, b: p[..., b + 1 :, 1:b].sum(-1).mean(),
        "if everything attends to position 0",
    ),
    "mean over sources": (lambda p, b: p[..., b + 1 :, :b].mean(), "if everything attends to position 0"),
    "summed": (lambda p, b: p[..., b + 1 :, :b].sum(), "if everything attends to position 0"),
    "destinations on the columns": (
        lambda p, b: p[..., :b, b + 1 :].sum(-1).mean(),
        "if everything attends to position 0",
    ),
    "over destinations": (lambda p, b: p[..., b + 1 :, :b].sum(-2).mean(), "on random numbers of shape [8"),
    "over all destinations": (lambda p, b: p[..., :b].sum(-1).mean(), "if every position attends to itself"),
    "the last destination": (lambda p, b: p[..., -1, :b].sum(-1).mean(), "on a uniform pattern it is not 0.444"),
    "the first head": (lambda p, b: _across(p.reshape(-1, *p.shape[-2:])[0], b), "on random numbers of shape [3"),
    "one per head": (lambda p, b: p[..., b + 1 :, :b].sum(-1).mean(-1), "it should return one number"),
    "what stays": (lambda p, b: 1 - _across(p, b), "if every position attends to itself"),
    "the largest": (lambda p, b: p[..., b + 1 :, :b].amax(-1).mean(), "on a uniform pattern it is not 0.136"),
    "the pattern changed": (_clearing, "it changes `pattern`, which it was given"),
}


@exercise
def undo_scaling(answer: Answer) -> None:
    """`undo_scaling(model) → model`: a copy whose scores are not divided by √d_head."""
    for sizes in ({"d_head": 4}, {"d_head": 5, "n_heads": 2, "n_layers": 3, "d_model": 12}):
        model, tokens = tiny_model(0.5, **sizes), torch.tensor([[0, 1, 2, 3, 4, 5], [7, 3, 9, 9, 1, 2]])
        d_head, first = sizes["d_head"], f"with d_head = {sizes['d_head']}, "
        result = answer(model)
        if not isinstance(result, HookedTransformer):
            raise Wrong(f"it should return a model, not {type(result).__name__}.")
        demand(result is not model, "it returns the very model that it was given: return a copy.")
        lower = torch.ones(6, 6).tril() > 0
        with torch.no_grad():
            cache = result.run_with_cache(tokens)[1]
            given = model.run_with_cache(tokens)[1]
        factor = (cache["attn_scores", 0][..., lower] / given["attn_scores", 0][..., lower]).median().item()
        demand(
            abs(factor - 1) > 1e-3,
            "the scores are still divided: model.W_Q is a stack made on the spot; the weights are in model.blocks.",
        )
        demand(
            abs(factor - d_head**0.5) < 1e-3,
            f"{first}the scores should be {d_head**0.5:.2f} times as large, not {factor:.2f} times.",
        )
        right = copy.deepcopy(model)
        for block in right.blocks:
            block.attn.W_Q.data *= d_head**0.5
        with torch.no_grad():
            whole = right.run_with_cache(tokens)[1]
        layers = range(model.cfg.n_layers)
        demand(
            _alike(cache["v", 0], whole["v", 0]) and _alike(cache["attn_out", 0], whole["attn_out", 0]),
            f"{first}the scores of layer 0 are right, and something else has changed: values or outputs.",
        )
        demand(
            all(
                _alike(cache["attn_scores", layer][..., lower], whole["attn_scores", layer][..., lower])
                for layer in layers
            )
            and _alike(result(tokens), right(tokens)),
            "layer 0 is right, and another layer is not: undo the division in every layer.",
        )


def _alike(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding, which every layer makes larger."""
    return ((a - b).norm() < 1e-3 * b.norm()).item()


def _rescaled(
    model: HookedTransformer,
    factor: Callable[[Any], float] = lambda cfg: cfg.d_head**0.5,
    names: tuple[str, ...] = ("W_Q",),
    layers: slice = slice(None),
) -> HookedTransformer:
    model = copy.deepcopy(model)
    for block in model.blocks[layers]:
        for name in names:
            getattr(block.attn, name).data *= factor(model.cfg)
    return model


def _on_the_stack(model: HookedTransformer) -> HookedTransformer:
    model = copy.deepcopy(model)
    model.W_Q.data *= math.sqrt(model.cfg.d_head)
    return model


def _on_the_configuration(model: HookedTransformer) -> HookedTransformer:
    model = copy.deepcopy(model)
    model.cfg.attn_scale = 1.0
    return model


def _on_the_model_itself(model: HookedTransformer) -> HookedTransformer:
    for block in model.blocks:
        block.attn.W_Q.data *= math.sqrt(model.cfg.d_head)
    return model


undo_scaling.mistakes = {
    "on the stack": (_on_the_stack, "the scores are still divided"),
    "in the configuration": (_on_the_configuration, "the scores are still divided"),
    "no copy": (_on_the_model_itself, "it changes `model.blocks.0.attn.W_Q`, which it was given"),
    "a shallow copy": (
        lambda m: _on_the_model_itself(copy.copy(m)),
        "it changes `m.blocks.0.attn.W_Q`, which it was given",
    ),
    "the model itself": (lambda m: m, "it returns the very model that it was given"),
    "nothing": (copy.deepcopy, "the scores are still divided"),
    "queries and keys": (lambda m: _rescaled(m, names=("W_Q", "W_K")), "with d_head = 4"),
    "values too": (lambda m: _rescaled(m, names=("W_Q", "W_V")), "with d_head = 4"),
    "outputs too": (lambda m: _rescaled(m, names=("W_Q", "W_O")), "with d_head = 4"),
    "values": (lambda m: _rescaled(m, names=("W_V",)), "the scores are still divided"),
    "the first layer only": (lambda m: _rescaled(m, layers=slice(0, 1)), "layer 0 is right"),
    "the last layer only": (lambda m: _rescaled(m, layers=slice(-1, None)), "the scores are still divided"),
    "divided again": (lambda m: _rescaled(m, lambda cfg: cfg.d_head**-0.5), "with d_head = 4"),
    "d_head": (lambda m: _rescaled(m, lambda cfg: cfg.d_head), "with d_head = 4"),
    "d_model": (lambda m: _rescaled(m, lambda cfg: cfg.d_model**0.5), "with d_head = 4"),
    "twice, whatever the width": (lambda m: _rescaled(m, lambda cfg: 2.0), "with d_head = 5"),
    "a state dict": (lambda m: _rescaled(m).state_dict(), "it should return a model"),
}


@exercise
def eraser(answer: Answer) -> None:
    """`eraser(direction) → (W_V, W_O)`: a head of width 1 that deletes one direction of what it attends to."""
    for d, length in ((6, 3.0), (9, 0.2)):
        direction, x = length * random(d), random(5, d, seed=1)
        W_V, W_O = pair(answer(direction), "W_V and W_O")
        W_V, W_O = tensor(W_V, (d, 1), "[d_model, d_head]"), tensor(W_O, (1, d), "[d_head, d_model]")
        unit = direction / direction.norm()
        moved = x + x @ W_V @ W_O
        before, after = x @ unit, moved @ unit
        demand(not close(after, before), "the component along the direction is still all there.")
        demand(
            close(after, torch.zeros(5)),
            f"of a component of {before[0]:.2f} along the direction, {after[0]:.2f} is left; it should be 0.",
        )
        demand(
            close(moved, x - before[:, None] * unit),
            "something else than the component along the direction has changed.",
        )


def _head_of(direction: Tensor, factor: float | Tensor) -> tuple[Tensor, Tensor]:
    return direction[:, None], factor * direction[None]


def _normalising(direction: Tensor) -> tuple[Tensor, Tensor]:
    direction /= direction.norm()
    return _head_of(direction, -1.0)


eraser.mistakes = {
    "not normalised": (lambda v: _head_of(v, -1.0), "of a component of -0.20 along the direction"),
    "doubled": (lambda v: _head_of(v, 1 / v.dot(v)), "of a component of -0.20 along the direction"),
    "half": (lambda v: _head_of(v, -0.5 / v.dot(v)), "of a component of -0.20 along the direction"),
    "reflected": (lambda v: _head_of(v, -2 / v.dot(v)), "of a component of -0.20 along the direction"),
    "normalised once": (lambda v: _head_of(v, -1 / v.norm()), "of a component of -0.20 along the direction"),
    "normalised three times": (
        lambda v: _head_of(v, -1 / v.norm() ** 3),
        "of a component of -0.20 along the direction",
    ),
    "nothing": (lambda v: _head_of(v, 0.0), "the component along the direction is still all there"),
    "shapes exchanged": (lambda v: (v[None] / v.norm(), -v[:, None] / v.norm()), "the result has shape [1"),
    "vectors": (lambda v: (v / v.norm(), -v / v.norm()), "the result has shape [6]"),
    "one matrix": (lambda v: -torch.outer(v, v) / v.dot(v), "it should return two things"),
    "another direction": (
        lambda v: (v[:, None] / v.dot(v), -v.flip(0)[None] * v.dot(v) / v.dot(v.flip(0))),
        "something else than the component along the direction has",
    ),
    "the direction's mean taken off": (
        lambda v: _head_of(v - v.mean(), -1 / (v - v.mean()).pow(2).sum()),
        "of a component of -0.20 along the direction",
    ),
    "direction changed": (_normalising, "it changes `direction`, which it was given"),
}
