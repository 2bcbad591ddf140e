"""Checks of lesson 04, one layer: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

from course_utils import circuits, paths
from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random, tiny_model
from course_utils.check.questions import Wrong, close, demand, largest_table, number, pair, tensor


@exercise
def path_terms(answer: Answer) -> None:
    """`path_terms(model, tokens) → direct [n, V], heads [h, n, V]`: what each path adds to the logits."""
    model, tokens = tiny_model(0.6, n_layers=1), torch.tensor([0, 7, 3, 7, 11, 3])
    direct, heads = _asked_terms(answer, model, tokens)
    logits, x = model(tokens[None])[0], model.W_E[tokens]
    placed = x + model.W_pos[: len(tokens)]
    demand(
        not close(direct, logits), "these are the model's logits, all paths together: the direct path is one of them."
    )
    demand(
        not close(direct, placed @ model.W_U),
        "positions are in your direct path: this model adds them to queries and keys only, never to the stream.",
    )
    demand(
        close(direct[1], direct[3]) and close(direct[2], direct[5]),
        "the direct path sees the current token alone, but the same token gets two different rows: what else is in it?",
    )
    demand(close(direct, x @ model.W_U), "the direct path is not the embedding times the unembedding.")
    right = paths.path_terms(model, tokens)[1]
    found = close(heads, right)
    for sentence, wrong in _wrong_terms(model, tokens, direct, right).items():
        demand(found or not close(heads, wrong), sentence)
    ratio = (heads.norm() / right.norm()).item()
    demand(
        found or not close(heads, ratio * right),
        f"the heads' terms are {ratio:.3g} times as large as what the heads add.",
    )
    demand(
        close(heads[:, 0], right[:, 0]),
        "the first position can attend to itself alone, so each head's term there is one row of its OV table.",
    )
    demand(
        close(direct + heads.sum(0), logits),
        "the terms do not add up to the logits: is each pattern the model's own, as [dest, src], one for each head?",
    )
    demand(found, "the sum is right, but not what each head adds to it.")
    other, tokens = tiny_model(0.6, n_layers=1, n_heads=2, d_head=7, d_vocab=13, d_model=8), torch.tensor([0, 12, 5])
    direct, heads = _asked_terms(answer, other, tokens)
    demand(
        close(direct, other.W_E[tokens] @ other.W_U) and close(heads, paths.path_terms(other, tokens)[1]),
        "it is right for one small model, and wrong for another with other sizes and three tokens.",
    )


def _wrong_terms(model: HookedTransformer, tokens: Tensor, direct: Tensor, right: Tensor) -> dict[str, Tensor]:
    """The heads' terms that typical mistakes lead to, by the sentence for each."""
    x, pattern = model.W_E[tokens], _pattern(model, tokens)
    placed = x + model.W_pos[: len(tokens)]
    return {
        "each head's term holds the direct path too: it would be counted four times.": right + direct,
        "positions are in your values: this model adds them to queries and keys only.": _terms(model, placed, pattern),
        "your pattern is transposed: it is [dest, src], and a head sums over sources.": _terms(model, x, pattern.mT),
        "these are the right terms in another order of heads.": right.roll(-1, 0),
        "these are the right terms, with the heads in another order.": right.roll(1, 0),
        "the heads stand in reverse.": right.flip(0),
        "W_V W_O is transposed: a row x goes through W_V first, then W_O.": _terms(model, x, pattern, transposed=True),
        "each position gets its own row of OV: no head has moved anything.": _terms(
            model, x, torch.eye(6).expand(3, 6, 6)
        ),
        "this leaves positions out of the pattern; the scores hold them.": _terms(model, x, _by_tokens(model, x)),
    }


def _asked_terms(answer: Answer, model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    direct, heads = pair(answer(model, tokens), "the direct path and the heads")
    pos, d_vocab = len(tokens), model.cfg.d_vocab
    return (
        tensor(direct, (pos, d_vocab), "[pos, d_vocab] for the direct path"),
        tensor(heads, (model.cfg.n_heads, pos, d_vocab), "[head, pos, d_vocab] for the heads"),
    )


def _pattern(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.run_with_cache(tokens)[1]["pattern", 0][0]


def _by_tokens(model: HookedTransformer, x: Tensor, mask: bool = True) -> Tensor:
    """The patterns of scores from the tokens alone, without positions."""
    scores = (x @ model.W_Q[0]) @ (x @ model.W_K[0]).mT / model.cfg.d_head**0.5
    return scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool() & mask, -torch.inf).softmax(-1)


def _terms(model: HookedTransformer, x: Tensor, pattern: Tensor, transposed: bool = False) -> Tensor:
    OV = model.W_V[0] @ model.W_O[0]
    return pattern @ (x @ (OV.mT if transposed else OV)) @ model.W_U


def _variant(
    change: Callable[[Tensor], Tensor] = lambda pattern: pattern,
    placed: bool = False,
    end: Callable[[Tensor, Tensor], Any] = lambda direct, heads: (direct, heads),
    transposed: bool = False,
) -> Callable[[HookedTransformer, Tensor], Any]:
    def answer(model: HookedTransformer, tokens: Tensor) -> Any:
        x = model.W_E[tokens]
        values = x + model.W_pos[: len(tokens)] if placed else x
        heads = _terms(model, values, change(_pattern(model, tokens)), transposed)
        return end(x @ model.W_U, heads)

    return answer


def _scaling_W_U(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    result = _variant()(model, tokens)
    model.unembed.W_U.data *= 2
    return result


def _even(pattern: Tensor) -> Tensor:
    ones = torch.ones_like(pattern).tril()
    return ones / ones.sum(-1, keepdim=True)


_ADD_UP = "the terms do not add up to the logits"
path_terms.mistakes = {
    "positions left out of the pattern": (
        lambda m, t: (m.W_E[t] @ m.W_U, _terms(m, m.W_E[t], _by_tokens(m, m.W_E[t]))),
        "this leaves positions out of the pattern",
    ),
    "no causal mask": (
        lambda m, t: (m.W_E[t] @ m.W_U, _terms(m, m.W_E[t], _by_tokens(m, m.W_E[t], mask=False))),
        "the first position can attend to itself alone",
    ),
    "pattern transposed": (_variant(lambda A: A.mT), "your pattern is transposed"),
    "no pattern": (_variant(lambda A: torch.eye(A.shape[-1]).expand_as(A)), "no head has moved anything"),
    "the pattern's logarithm": (_variant(lambda A: A.clamp(min=1e-6).log()), "the first position can attend to itself"),
    "even pattern": (_variant(_even), _ADD_UP),
    "one pattern for all heads": (_variant(lambda A: A[:1].expand_as(A)), _ADD_UP),
    "the mean pattern": (_variant(lambda A: A.mean(0, keepdim=True)), _ADD_UP),
    "OV transposed": (_variant(transposed=True), "a row x goes through W_V first"),
    "the logits as the direct path": (_variant(end=lambda d, h: (d + h.sum(0), h)), "these are the model's logits"),
    "positions in the direct path": (
        lambda m, t: ((m.W_E[t] + m.W_pos[: len(t)]) @ m.W_U, _variant()(m, t)[1]),
        "positions are in your direct path",
    ),
    "positions in the values": (_variant(placed=True), "positions are in your values"),
    "the direct path in every head": (_variant(end=lambda d, h: (d, h + d)), "each head's term holds the direct path"),
    "heads summed": (_variant(end=lambda d, h: (d, h.sum(0))), "it should be [3, 6, 20]"),
    "heads in the wrong order": (_variant(end=lambda d, h: (d, h.flip(0))), "the heads stand in reverse"),
    "heads shifted by one": (_variant(end=lambda d, h: (d, h.roll(1, 0))), "the heads in another order"),
    "shared out evenly": (_variant(end=lambda d, h: (d, h.mean(0).expand_as(h))), "the first position can attend"),
    "one head too much": (
        _variant(end=lambda d, h: (d, h + 0.1 * (h[0] - h[1]) * torch.tensor([1.0, -1, 0])[: len(h), None, None])),
        "the first position can attend",
    ),
    "divided by the heads": (_variant(end=lambda d, h: (d, h / len(h))), "0.333 times as large as what the heads add"),
    "probabilities": (_variant(end=lambda d, h: (d.softmax(-1), h)), "is not the embedding times the unembedding"),
    "the sum alone": (lambda m, t: m(t[None])[0], "it should return two things"),
    "for three heads of four dimensions": (
        lambda m, t: (d := _variant()(m, t)) and (d[0], d[1] * (12 / m.cfg.n_heads / m.cfg.d_head)),
        "wrong for another with other sizes",
    ),
    "the model changed": (_scaling_W_U, "it changes `model.unembed.W_U`, which it was given"),
}


@exercise
def weighted_pattern(answer: Answer) -> None:
    """`weighted_pattern(pattern, x, W_V, W_O) → [dest, src]`: attention times the length of what is moved."""
    pattern = random(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf).softmax(-1)
    x, W_V, W_O = random(5, 6, seed=1), random(6, 3, seed=2), random(3, 6, seed=3)
    means = "[dest, src]"
    result = tensor(answer(pattern, x, W_V, W_O), (5, 5), means)
    expected = pattern * (x @ W_V @ W_O).norm(dim=-1)
    found = close(result, expected)
    demand(found or not close(result, expected.T), "rows and columns are swapped: the destinations are on the rows.")
    demand(found or not result.triu(1).any(), "where there is no attention nothing is moved: the entry should be 0.")
    demand(
        found or not close(result.sum(1), torch.ones(5)),
        "each row sums to 1: leave the lengths in, a long output counts more than a short one.",
    )
    for sentence, wrong in _wrong_weights(pattern, x, W_V, W_O).items():
        demand(found or not close(result, wrong), sentence)
    demand(found or (result >= 0).all(), "a length is never negative.")
    louder = x.clone()
    louder[2] *= 2
    change = tensor(answer(pattern, louder, W_V, W_O), (5, 5), means) - result
    demand(change[:, 2].any(), "doubling what stands at source 2 changes nothing in its column.")
    demand(
        close(change.abs().sum(), change[:, 2].abs().sum()),
        "doubling what stands at source 2 should change column 2 and no other: the sources are on the columns.",
    )
    demand(close(change[:, 2], result[:, 2]), "doubling what stands at source 2 should double column 2.")
    mix = random(3, 3, seed=4) + 2 * torch.eye(3)
    same = tensor(answer(pattern, x, W_V @ mix, torch.linalg.inv(mix) @ W_O), (5, 5), means)
    demand(
        torch.allclose(same, result, rtol=1e-3, atol=1e-4),
        "W_V R and R⁻¹ W_O make the same head as W_V and W_O, but another result: take the length after W_O.",
    )
    demand(
        close(tensor(answer(0.5 * pattern, x, W_V, W_O), (5, 5), means), 0.5 * result),
        "half the attention should move half as much.",
    )
    demand(found, "attention should be multiplied by the Euclidean length ‖x_src W_V W_O‖.")
    pattern = random(3, 3, seed=5).softmax(-1)  # no mask: a pattern is what it is given
    x, W_V, W_O = random(3, 8, seed=6), random(8, 4, seed=7), random(4, 8, seed=8)
    demand(
        close(tensor(answer(pattern, x, W_V, W_O), (3, 3), means), pattern * (x @ W_V @ W_O).norm(dim=-1)),
        "it is right for one head, and wrong for another of other sizes, whose pattern has no zeros.",
    )


def _wrong_weights(pattern: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor) -> dict[str, Tensor]:
    """The weighted patterns that typical mistakes lead to, by the sentence for each."""
    written = x @ W_V @ W_O
    expected = pattern * written.norm(dim=-1)
    return {
        "the length stands on the destination; it is the source that is moved, and sources are on the columns.": (
            pattern * written.norm(dim=-1)[:, None]
        ),
        "this is the length of the stream x; the head writes x_src W_V W_O.": pattern * x.norm(dim=-1),
        "this is the length of the value, before W_O; it changes when W_V R and R⁻¹ W_O make the same head.": (
            pattern * (x @ W_V).norm(dim=-1)
        ),
        "the length is squared: take the root of the sum of squares.": pattern * written.square().sum(-1),
        "this adds up sizes; a length is the root of the sum of squares.": pattern * written.abs().sum(-1),
        "this takes the mean of the squares; a length has their sum.": pattern * written.square().mean(-1).sqrt(),
        "all sources get one length; each source has its own, ‖x_src W_V W_O‖.": pattern * written.norm(),
        "the attention is squared: multiply by each entry once.": pattern * expected,
        "it is divided by the largest entry: leave the lengths as they are.": expected / expected.max(),
    }


def _lengths(x: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    return (x @ W_V @ W_O).norm(dim=-1)


def _normalised(A: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    weighted = A * _lengths(x, W_V, W_O)
    return weighted / weighted.sum(1, keepdim=True)


def _weighing_in_place(A: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    A *= _lengths(x, W_V, W_O)
    return A


weighted_pattern.mistakes = {
    "length of the value": (lambda A, x, V, W: A * (x @ V).norm(dim=-1), "the length of the value, before W_O"),
    "length of the stream": (lambda A, x, V, W: A * x.norm(dim=-1), "the length of the stream x"),
    "on the destination": (lambda A, x, V, W: A * _lengths(x, V, W)[:, None], "stands on the destination"),
    "transposed": (lambda A, x, V, W: (A * _lengths(x, V, W)).T, "rows and columns are swapped"),
    "squared": (lambda A, x, V, W: A * _lengths(x, V, W) ** 2, "the length is squared"),
    "rows sum to 1 again": (_normalised, "each row sums to 1"),
    "attention squared": (lambda A, x, V, W: A**2 * _lengths(x, V, W), "the attention is squared"),
    "sum of sizes": (lambda A, x, V, W: A * (x @ V @ W).abs().sum(-1), "this adds up sizes"),
    "mean of squares": (lambda A, x, V, W: A * (x @ V @ W).square().mean(-1).sqrt(), "the mean of the squares"),
    "sum with signs": (lambda A, x, V, W: A * (x @ V @ W).sum(-1), "a length is never negative"),
    "largest entry": (lambda A, x, V, W: A * (x @ V @ W).abs().amax(-1), "by the Euclidean length"),
    "one length for all": (lambda A, x, V, W: A * (x @ V @ W).norm(), "all sources get one length"),
    "divided by the largest": (
        lambda A, x, V, W: (w := A * _lengths(x, V, W)) / w.max(),
        "divided by the largest entry",
    ),
    "lengths multiplied": (
        lambda A, x, V, W: A * (x @ V).norm(dim=-1) * W.norm(),
        "take the length after W_O",
    ),
    "added": (lambda A, x, V, W: A + _lengths(x, V, W), "where there is no attention nothing is moved"),
    "the pattern": (lambda A, x, V, W: A, "each row sums to 1"),
    "what arrives": (lambda A, x, V, W: (A @ x @ V @ W).norm(dim=-1), "it should be [5, 5]"),
    "masked": (lambda A, x, V, W: (A * _lengths(x, V, W)).tril(), "whose pattern has no zeros"),
    "the pattern changed": (_weighing_in_place, "it changes `A`, which it was given"),
}


@exercise
def step_back(answer: Answer) -> None:
    """`step_back(d_model) → [d_model, d_model]`: the matrix that turns each sinusoidal position into the one before."""
    means = "[d_model, d_model]"
    p = _sinusoids(8)
    R = tensor(answer(8), (8, 8), means).double()
    moved = p @ R
    demand(R.any(), "a matrix of zeros sends every position to zero.")
    demand(not _same(moved, p), "it leaves every position where it is.")
    demand(
        not _same(moved[:-1], p[1:]), "it steps forward: position 5 becomes position 6. Turn every pair the other way."
    )
    demand(not _same(moved[2:], p[:-2]), "it takes two steps back.")
    blocks = torch.cat([torch.arange(0, 8, 2), torch.arange(1, 8, 2)])
    halves = torch.zeros(8, 8).double()
    halves[blocks[:, None], blocks] = R  # as if the sines stood first, and then the cosines
    demand(
        not _same((p @ halves)[1:], p[:-1]),
        "your matrix has all sines first, then all cosines; here each cosine stands beside its sine.",
    )
    scale = (moved[5] @ p[4] / p[4].square().sum()).item()
    demand(
        _same(moved[1:], p[:-1]) or not _same(moved[1:], scale * p[:-1]),
        f"the direction is right, but what comes out is {scale:.3g} times as long.",
    )
    right = ((moved[1:] - p[:-1]).abs().amax(0) < _NEAR).sum()
    demand(right > 0, "position 5 times the matrix is not position 4, in no coordinate.")
    demand(
        right == 8,
        f"one step back is right in only {right} of 8 coordinates: each pair turns by the angle of its own wave.",
    )
    for d_model in (2, 6, 64):
        p = _sinusoids(d_model)
        R = tensor(answer(d_model), (d_model, d_model), means).double()
        demand(_same(p[1:] @ R, p[:-1]), f"it is right for d_model = 8, but not for d_model = {d_model}.")


_NEAR = 3e-4  # least squares from positions in single precision is right to 1e-4; the slowest wave of 8 turns by 1e-3


def _sinusoids(d_model: int) -> Tensor:
    """300 positions in double precision: in single precision, sin 299 is itself 2e-5 off."""
    angle = torch.arange(300)[:, None] / 10_000 ** (torch.arange(0, d_model, 2).double() / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def _same(a: Tensor, b: Tensor) -> bool:
    return (a - b).abs().max().item() < _NEAR


def _turned(d_model: int, steps: float = 1.0, waves: int | None = None, base: float = 10_000) -> Tensor:
    even = torch.arange(0, d_model, 2)[:waves]
    angle = steps / base ** (even / d_model)
    R = torch.zeros(d_model, d_model)
    R[even, even] = R[even + 1, even + 1] = angle.cos()
    R[even, even + 1] = angle.sin()
    R[even + 1, even] = -angle.sin()
    return R


def _one_angle(d_model: int) -> Tensor:
    """Every pair turned by the angle of the fastest wave."""
    return torch.block_diag(*[_turned(2)] * (d_model // 2))


def _sines_first(d_model: int) -> Tensor:
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    return _turned(d_model)[order][:, order]


def _setting_the_dtype(d_model: int) -> Tensor:
    torch.set_default_dtype(torch.float64)
    return _turned(d_model)


_OWN_WAVE = "each pair turns by the angle of its own wave"
step_back.mistakes = {
    "forward": (lambda d: _turned(d).T, "it steps forward: position 5 becomes position 6"),
    "identity": (torch.eye, "it leaves every position where it is"),
    "two steps": (lambda d: _turned(d, 2.0), "it takes two steps back"),
    "half a step": (lambda d: _turned(d, 0.5), "right in only 1 of 8 coordinates"),
    "one wave only": (lambda d: _turned(d, waves=1), "right in only 2 of 8 coordinates"),
    "all waves but the slowest": (lambda d: _turned(d, waves=d // 2 - 1), "right in only 6 of 8 coordinates"),
    "one angle for all": (_one_angle, _OWN_WAVE),
    "another base": (lambda d: _turned(d, base=1_000), _OWN_WAVE),
    "no signs": (lambda d: _turned(d).abs(), _OWN_WAVE),
    "sines and cosines in blocks": (_sines_first, "your matrix has all sines first"),
    "doubled": (lambda d: 2 * _turned(d), "what comes out is 2 times as long"),
    "divided by the root": (lambda d: _turned(d) / d**0.5, "what comes out is 0.354 times as long"),
    "zeros": (lambda d: torch.zeros(d, d), "a matrix of zeros sends every position"),
    "a shift of the coordinates": (lambda d: torch.eye(d).roll(1, 0), "in no coordinate"),
    "for 8 dimensions only": (lambda d: _turned(8)[:d, :d] if d < 8 else _turned(d), "not for d_model = 6"),
    "right where 4 divides d_model": (lambda d: _turned(d) if d % 4 == 0 else _turned(d).T, "not for d_model = 2"),
    "another default dtype": (_setting_the_dtype, "it leaves torch with another default dtype"),
}


def _tables(model: HookedTransformer, head: int) -> tuple[Tensor, Tensor]:
    """A head's full QK circuit, [dest, src], and its full OV circuit, [src, out]."""
    qk, ov = circuits.full_qk(model, 0, head), circuits.full_ov(model, 0, head)
    return qk.A @ qk.B, ov.A @ ov.B


@exercise
def skip_trigrams(answer: Answer) -> None:
    """`skip_trigrams(model, head, source, k) → dest ids [k], out ids [k]`: what one source token is for one head."""
    model, head, source = tiny_model(0.6, n_layers=1), 1, 4
    model.W_E[:, 0] = 1  # so that a row of W_K can give all keys something in common
    dests, outs = _asked_ids(answer, model, head, source, 4)
    QK, OV = _tables(model, head)
    relative, direct = (QK - QK.mean(1, keepdim=True))[:, source], (model.W_E @ model.W_U)[source]
    right_dests, right_outs = _best(relative), _best(OV[source])
    demand((dests, outs) != (right_outs, right_dests), "these are the outs, then the destinations: turn them round.")
    theirs = {other: _tables(model, other)[1][source] for other in (0, 2)}
    named = {
        **{f"these outs belong to head {other}; head {head} was asked for.": row for other, row in theirs.items()},
        "these tokens promote the source; the source is on the rows of OV.": OV[:, source],
        "these are the outs that the head lowers most.": -OV[source],
        "these outs are the largest by size; asked for are those that gain most.": OV[source].abs(),
        "your outs are the direct path's: follow the source through W_V and W_O.": direct,
        "the direct path is in your outs: asked for is what this head adds.": direct + OV[source],
    }
    for sentence, row in named.items():
        demand(outs == right_outs or outs != _best(row), sentence)
    demand(sorted(outs) == sorted(right_outs), "the outs are not the largest entries of the source's row of OV.")
    demand(outs == right_outs, "the outs are the right ones, but the largest should come first.")
    row, as_query = QK[source], "these are the sources that this token looks for as a destination"
    named = {
        f"{as_query}: QK is [dest, src], take a column.": row,
        f"{as_query}, centred: QK is [dest, src], take a column.": row - QK.mean(0),
        f"{as_query}, less other rows' means: QK is [dest, src].": row - QK.mean(1),
        "these are the destinations that look for the source least.": -relative,
        "these scores are the largest by size; a negative one means less attention.": relative.abs(),
        "these are ranked by probability; asked for is the score, less its row's mean.": QK.softmax(1)[:, source],
    }
    for sentence, row in named.items():
        demand(dests == right_dests or dests != _best(row), sentence)
    model.blocks[0].attn.W_K[head, 0] += 9 * random(4, seed=60)
    demand(
        _asked_ids(answer, model, head, source, 4)[0] == dests,
        "what is the same for every source changes no pattern, but it changed your destinations: compare each score "
        "with the mean of its own row.",
    )
    demand(sorted(dests) == sorted(right_dests), "the destinations are not those with the largest relative score.")
    demand(dests == right_dests, "the destinations are the right ones, but the largest should come first.")
    other = tiny_model(0.6, n_layers=1, n_heads=4, d_head=7, d_model=8, d_vocab=13)
    for model, head, source, k in ((other, 3, 12, 1), (other, 0, 0, 13), (other, 2, 5, 6)):
        QK, OV = _tables(model, head)
        relative = (QK - QK.mean(1, keepdim=True))[:, source]
        demand(
            _asked_ids(answer, model, head, source, k) == (_best(relative, k), _best(OV[source], k)),
            f"it is right for one model and k = 4, but not for another with 13 tokens, head {head} and k = {k}.",
        )


def _asked_ids(answer: Answer, model: HookedTransformer, head: int, source: int, k: int) -> tuple[list, list]:
    found = []
    for ids, name in zip(pair(answer(model, head, source, k), "destinations and outs"), _ENDS, strict=True):
        if isinstance(ids, list | tuple) and all(
            isinstance(token, int) or getattr(token, "ndim", 1) == 0 for token in ids
        ):
            ids = torch.tensor([int(token) for token in ids])
        values = tensor(ids, (k,), f"the ids of k {name}")
        fits = (values >= 0) & (values < model.cfg.d_vocab) & (values == values.round())
        demand(fits.all() and not ids.is_floating_point(), f"the {name} should be token ids, which are integers.")
        found.append([int(token) for token in values])
    return found[0], found[1]


_ENDS = ("destinations", "outs")


def _best(values: Tensor, k: int = 4) -> list[int]:
    return values.topk(k).indices.tolist()


def _trigrams(
    rank_dests: Callable[[Tensor, int], Tensor] = lambda QK, s: (QK - QK.mean(1, keepdim=True))[:, s],
    rank_outs: Callable[[Tensor, int], Tensor] = lambda OV, s: OV[s],
    end: Callable[[Tensor, Tensor], Any] = lambda dests, outs: (dests, outs),
    change: Callable[[int, int, int], tuple] = lambda head, source, k: (head, source, k),
) -> Callable[[HookedTransformer, int, int, int], Any]:
    def answer(model: HookedTransformer, head: int, source: int, k: int) -> Any:
        head, source, k = change(head, source, k)
        QK, OV = _tables(model, head)
        dests, outs = (values.topk(k).indices for values in (rank_dests(QK, source), rank_outs(OV, source)))
        return end(dests, outs)

    return answer


def _trigrams_with_values(model: HookedTransformer, head: int, source: int, k: int) -> tuple[Tensor, Tensor]:
    QK, OV = _tables(model, head)
    return (QK - QK.mean(1, keepdim=True))[:, source].topk(k).values, OV[source].topk(k).values


def _outs_of(table: Callable[[HookedTransformer, Tensor], Tensor]) -> Callable[[HookedTransformer, int, int, int], Any]:
    def answer(model: HookedTransformer, head: int, source: int, k: int) -> Any:
        ov = circuits.ov(model, 0, head)
        outs = model.W_E[source] @ table(model, ov.A @ ov.B)
        return _trigrams()(model, head, source, k)[0], outs.topk(k).indices

    return answer


def _centring_W_E(model: HookedTransformer, head: int, source: int, k: int) -> Any:
    model.embed.W_E.data -= model.W_E.mean(0)
    return _trigrams()(model, head, source, k)


skip_trigrams.mistakes = {
    "QK as [src, dest]": (_trigrams(lambda QK, s: QK[s]), "these are the sources that this token looks for"),
    "QK as [src, dest], centred": (
        _trigrams(lambda QK, s: (QK - QK.mean(1, keepdim=True))[s]),
        "these are the sources that this token looks for",
    ),
    "scores as they are": (_trigrams(lambda QK, s: QK[:, s]), "compare each score with the mean of its own row"),
    "centred over destinations": (
        _trigrams(lambda QK, s: (QK - QK.mean(0))[:, s]),
        "compare each score with the mean of its own row",
    ),
    "attention as a probability": (_trigrams(lambda QK, s: QK.softmax(1)[:, s]), "these are ranked by probability"),
    "OV as [out, src]": (_trigrams(rank_outs=lambda OV, s: OV[:, s]), "these tokens promote the source"),
    "least instead of most": (_trigrams(rank_outs=lambda OV, s: -OV[s]), "the outs that the head lowers most"),
    "least attention": (
        _trigrams(lambda QK, s: -(QK - QK.mean(1, keepdim=True))[:, s]),
        "the destinations that look for the source least",
    ),
    "attention by size": (
        _trigrams(lambda QK, s: (QK - QK.mean(1, keepdim=True))[:, s].abs()),
        "a negative one means less attention",
    ),
    "largest last": (_trigrams(end=lambda d, o: (d.flip(0), o.flip(0))), "the largest should come first"),
    "largest destination last": (
        _trigrams(end=lambda d, o: (d.flip(0), o)),
        "the destinations are the right ones, but the largest",
    ),
    "another head": (_trigrams(change=lambda h, s, k: (h - 1, s, k)), "these outs belong to head 0"),
    "the first head always": (_trigrams(change=lambda h, s, k: (0, s, k)), "these outs belong to head 0"),
    "another source": (_trigrams(change=lambda h, s, k: (h, s - 1, k)), "the outs are not the largest entries"),
    "by size, whatever the sign": (_trigrams(rank_outs=lambda OV, s: OV[s].abs()), "the largest by size"),
    "the direct path added": (
        _outs_of(lambda m, OV: (OV + torch.eye(len(OV))) @ m.W_U),
        "asked for is what this head adds",
    ),
    "the direct path alone": (_outs_of(lambda m, OV: m.W_U), "your outs are the direct path's"),
    "W_V and W_O transposed": (_outs_of(lambda m, OV: OV.T @ m.W_U), "the outs are not the largest entries"),
    "W_E for W_U": (_outs_of(lambda m, OV: OV @ m.W_E.T), "the outs are not the largest entries"),
    "values instead of ids": (_trigrams_with_values, "should be token ids, which are integers"),
    "dests only": (_trigrams(end=lambda d, o: d), "it should return two things"),
    "outs and dests swapped": (_trigrams(end=lambda d, o: (o, d)), "these are the outs, then the destinations"),
    "one less": (_trigrams(change=lambda h, s, k: (h, s, k - 1)), "the result has shape [3]"),
    "four always": (
        lambda m, h, s, k: tuple(ids[:k] for ids in _trigrams()(m, h, s, 4)),
        "the result has shape [4]; it should be [13]",
    ),
    "the model changed": (_centring_W_E, "it changes `model.embed.W_E`, which it was given"),
}


@exercise
def copying_score(answer: Answer) -> None:
    """`copying_score(OV_A, OV_B) → float`: Σλ / Σ|λ| of the product, without multiplying it out."""
    for d_vocab, d_head in ((60, 3), (31, 5)):
        A = random(d_vocab, d_head)
        back = torch.linalg.inv(A.T @ A) @ A.T
        for inner, what, score in _planted(d_head):
            value = number(answer(A, inner @ back))
            demand(
                not close(value, torch.linalg.svdvals(inner @ back @ A).sum().reciprocal() * inner.trace())
                or close(value, score),
                "you divide by the singular values; asked for are the sizes of the eigenvalues.",
            )
            demand(close(value, score), f"with {what} the score should be {score:.4g}, not {value:.6g}.")
    A, B = random(40, 7), random(7, 40, seed=1)
    value, right = number(answer(A, B)), circuits.copying_score(FactoredMatrix(A, B))
    inner = B @ A
    demand(
        close(value, right) or not close(value, inner.trace() / torch.linalg.svdvals(inner).sum()),
        "you divide by the singular values; asked for are the sizes of the eigenvalues.",
    )
    demand(close(value, right), f"for a random circuit the score should be {right:.4f}, not {value:.6g}.")
    A, B = random(1_000, 3), random(3, 1_000, seed=1)
    demand(
        largest_table(lambda: answer(A, B)) < 1_000 * 1_000,
        "the number is right, but on the way [d_vocab, d_vocab] entries were made: 10 GB for GPT-2.",
    )


def _planted(d_head: int) -> list[tuple[Tensor, str, float]]:
    """Small matrices, the eigenvalues that they have, and the score that follows."""
    rest = d_head - 3
    turn = torch.block_diag(torch.tensor([[0.6, -0.8], [0.8, 0.6]]), torch.ones(1, 1), torch.zeros(rest, rest))
    steep = torch.block_diag(torch.tensor([[-1.0, 3.0], [-2.0, 4.0]]), -torch.ones(1, 1), torch.zeros(rest, rest))
    zeros = [0.0] * rest
    return [
        (torch.diag(torch.tensor([1.0, 2, 3, *zeros])), "the eigenvalues 1, 2, 3", 1.0),
        (torch.diag(torch.tensor([-1.0, -1, -1, *zeros])), "the eigenvalues −1, −1, −1", -1.0),
        (torch.diag(torch.tensor([3.0, 1, -1, *zeros])), "the eigenvalues 3, 1, −1", 0.6),
        (turn, "the eigenvalues 1 and 0.6 ± 0.8i, all of size 1,", 2.2 / 3),
        (steep, "the eigenvalues 1, 2, −1 of a matrix that is not symmetric", 0.5),
    ]


def _score(combine: Callable[[Tensor], Any]) -> Callable[[Tensor, Tensor], float]:
    return lambda A, B: float(combine(torch.linalg.eigvals(B @ A)))


def _materialised(A: Tensor, B: Tensor) -> float:
    values = torch.linalg.eigvals(A @ B)
    return (values.sum().real / values.abs().sum()).item()


def _centring_B(A: Tensor, B: Tensor) -> float:
    B -= B.mean(1, keepdim=True)
    return circuits.copying_score(FactoredMatrix(A, B))


copying_score.mistakes = {
    "d_vocab squared": (_materialised, "[d_vocab, d_vocab] entries were made"),
    "sum of eigenvalues": (_score(lambda v: v.sum().real), "the score should be 1, not 6"),
    "divided by their real parts": (_score(lambda v: v.sum().real / v.real.abs().sum()), "should be 0.7333, not 1"),
    "upside down": (_score(lambda v: v.abs().sum() / v.sum().real), "the score should be 0.6, not 1.66667"),
    "share of positive ones": (_score(lambda v: (v.real > 1e-4).float().mean()), "the score should be -1, not 0"),
    "sizes only": (_score(lambda v: v.abs().sum() / v.abs().sum()), "the score should be -1, not 1"),
    "size of the sum": (_score(lambda v: v.sum().abs() / v.abs().sum()), "the score should be -1, not 1"),
    "mean": (_score(lambda v: v.real.mean()), "the score should be 1, not 2"),
    "mean sign": (_score(lambda v: v.real.sign().mean()), "the score should be 0.6, not 0.333333"),
    "mean cosine": (_score(lambda v: (v.real / v.abs()).mean()), "the score should be 0.6, not 0.333333"),
    "singular values": (
        lambda A, B: ((B @ A).trace() / torch.linalg.svdvals(B @ A).sum()).item(),
        "you divide by the singular values",
    ),
    "trace over norm": (lambda A, B: ((B @ A).trace() / (B @ A).norm()).item(), "the score should be 1, not 1.6"),
    "symmetric part": (
        lambda A, B: ((v := torch.linalg.eigvalsh((M := B @ A) + M.T)).sum() / v.abs().sum()).item(),
        "the score should be 0.7333, not 1",
    ),
    "the diagonal": (
        lambda A, B: ((d := (A * B.T).sum(1)).sum() / d.abs().sum()).item(),
        "with the eigenvalues",
    ),
    "sign": (_score(lambda v: -v.sum().real / v.abs().sum()), "the score should be 1, not -1"),
    "one per eigenvalue": (lambda A, B: torch.linalg.eigvals(B @ A).real, "it should return one number"),
    "complex": (lambda A, B: (v := torch.linalg.eigvals(B @ A)).sum() / v.abs().sum(), "it should return one number"),
    "a factor changed": (_centring_B, "it changes `B`, which it was given"),
}


@exercise
def positive_yet_lowering(answer: Answer) -> None:
    """`positive_yet_lowering() → [2, 2]`: eigenvalues all positive, an entry of the diagonal negative."""
    matrix = tensor(answer(), (2, 2), "[source token, logit]").double()
    size = matrix.abs().max().item() or 1.0
    (a, b), (c, d) = (matrix / size).tolist()
    half, determinant = (a + d) / 2, a * d - b * c
    gap = half**2 - determinant  # a quarter of the squared difference of the eigenvalues; a rounded double root is ± 0
    demand(gap > -1e-6, "its eigenvalues are complex; both should be real and positive, like 1 and 2.")
    least = (half - max(gap, 0.0) ** 0.5) * size
    demand(
        half > 0 and determinant > 1e-7,
        f"one of its eigenvalues is {0.0 if abs(least) < 1e-6 * size else least:.3g}; both should be positive.",
    )
    demand(
        min(a, d) < -1e-6,
        f"its diagonal is {a * size:.3g} and {d * size:.3g}: no token lowers its own logit.",
    )


def _two_by_two(*rows: list) -> Callable[[], Tensor]:
    return lambda: torch.tensor(rows, dtype=torch.float)


positive_yet_lowering.mistakes = {
    "a negative eigenvalue": (_two_by_two([-1, 0], [0, 2]), "one of its eigenvalues is -1;"),
    "symmetric": (_two_by_two([-1, 3], [3, 2]), "one of its eigenvalues is -2.85;"),
    "identity": (_two_by_two([1, 0], [0, 1]), "no token lowers its own logit"),
    "negative off the diagonal": (_two_by_two([2, -1], [-1, 2]), "no token lowers its own logit"),
    "complex eigenvalues": (_two_by_two([-1, 5], [-5, 3]), "its eigenvalues are complex"),
    "a zero eigenvalue": (_two_by_two([-1, 2], [-1, 2]), "one of its eigenvalues is 0;"),
    "both negative": (_two_by_two([-1, 0], [0, -2]), "one of its eigenvalues is -2;"),
    "positive diagonal, negative eigenvalue": (_two_by_two([1, 2], [2, 1]), "one of its eigenvalues is -1;"),
    "zero on the diagonal": (_two_by_two([0, 1], [-2, 3]), "its diagonal is 0 and 3"),
    "zeros": (_two_by_two([0, 0], [0, 0]), "one of its eigenvalues is 0;"),
    "3 × 3": (_two_by_two([-1, 3, 0], [-2, 4, 0], [0, 0, 1]), "it should be [2, 2]"),
    "its eigenvalues": (lambda: torch.tensor([1.0, 2.0]), "it should be [2, 2]"),
}


@exercise
def interaction(answer: Answer) -> None:
    """`interaction(f, a, b) → float`: how far f({a, b}) is from adding what a and b do alone."""
    demand(close(_asked_of(answer, 0, 1, 2, 3), 0), "if a adds 1, b adds 2 and both add 3, there is no interaction.")
    demand(
        close(_asked_of(answer, 5, 6, 7, 8), 0),
        "f starts at 5; a alone makes it 6, b alone 7, both 8. That is no interaction: count from f(set()).",
    )
    demand(_asked_of(answer, 0, 0, 0, 1) > 0, "if nothing happens until both are there, the interaction is positive.")
    demand(_asked_of(answer, 0, 1, 1, 1) < 0, "if the second adds nothing more, the interaction is negative.")
    value = _asked_of(answer, 4, 5, 7, 11)
    demand(close(value, 3), f"with 4 for neither, 5 for a, 7 for b, both should give 8, and give 11: not {value:.6g}.")
    value = _asked_of(answer, 0.5, -1, 2, 0.25, names=(3, 6))
    demand(
        close(value, -0.25),
        f"with ½ for neither, −1 for head 3, 2 for head 6, both should give ½, and give ¼: not {value:.6g}.",
    )


def _asked_of(answer: Answer, neither: float, one: float, other: float, both: float, names: Any = ("a", "b")) -> float:
    a, b = names
    known: dict[frozenset[Hashable], float] = {
        frozenset(): neither,
        frozenset({a}): one,
        frozenset({b}): other,
        frozenset({a, b}): both,
    }

    def f(things: Any) -> float:
        if not isinstance(things, set | frozenset):
            raise Wrong(f"f takes a set of things, such as {{a, b}} or set(), not {type(things).__name__}.")
        if frozenset(things) not in known:
            raise Wrong("f was asked about something other than a, b, both and neither.")
        return known[frozenset(things)]

    return number(answer(f, a, b))


_NO_INTERACTION = "if a adds 1, b adds 2 and both add 3, there is no interaction"
_FROM_NOTHING = "f starts at 5; a alone makes it 6"
interaction.mistakes = {
    "f(set()) forgotten": (lambda f, a, b: f({a, b}) - f({a}) - f({b}), _FROM_NOTHING),
    "f(set()) subtracted": (lambda f, a, b: f({a, b}) - f({a}) - f({b}) - f(set()), _FROM_NOTHING),
    "f(set()) twice": (lambda f, a, b: f({a, b}) - f({a}) - f({b}) + 2 * f(set()), _FROM_NOTHING),
    "both against neither": (lambda f, a, b: f({a, b}) - f(set()), _NO_INTERACTION),
    "sign": (
        lambda f, a, b: f({a}) + f({b}) - f({a, b}) - f(set()),
        "until both are there, the interaction is positive",
    ),
    "size only": (lambda f, a, b: abs(f({a, b}) - f({a}) - f({b}) + f(set())), "adds nothing more, the interaction"),
    "half": (lambda f, a, b: (f({a, b}) - f({a}) - f({b}) + f(set())) / 2, "both should give 8, and give 11: not 1.5"),
    "rounded": (lambda f, a, b: round(f({a, b}) - f({a}) - f({b}) + f(set())), "both should give ½, and give ¼: not 0"),
    "both against one": (lambda f, a, b: f({a, b}) - f({a}), _NO_INTERACTION),
    "a twice": (lambda f, a, b: f({a, b}) - 2 * f({a}) + f(set()), _NO_INTERACTION),
    "ratio": (lambda f, a, b: (f({a, b}) + 1e-6) / (f({a}) + f({b}) + 1e-6), _NO_INTERACTION),
    "no sets": (lambda f, a, b: f(a + b) - f(a) - f(b) + f(""), "f takes a set of things"),
    "always 0": (lambda f, a, b: 0.0, "until both are there, the interaction is positive"),
    "other things": (
        lambda f, a, b: f({"a", "b"}) - f({"a"}) - f({"b"}) + f(set()),
        "other than a, b, both and neither",
    ),
}
