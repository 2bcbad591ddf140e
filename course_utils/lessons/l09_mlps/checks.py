"""Checks of lesson 09, MLPs: each exercise, then its typical mistakes with the sentence each must get."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import tiny_model
from course_utils.course.questions import close, demand, number, pair, tensor

ONE_MLP = {"n_layers": 1, "n_heads": 1, "attn_only": False, "act_fn": "relu", "positional_embedding_type": "standard"}


def _model(**sizes: int) -> HookedTransformer:
    return tiny_model(0.7, **(ONE_MLP | {"d_model": 6, "d_head": 4, "d_mlp": 8, "d_vocab": 7, "n_ctx": 5} | sizes))


def _stream(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.W_E[tokens] + model.W_pos[: tokens.shape[1]]


def _attention(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.run_with_cache(tokens)[1]["pattern", 0][:, 0, -1]


@exercise
def wave_neurons(answer: Answer) -> None:
    """`wave_neurons(n, period, m) → curves [n, m], votes [m, n]`: m neurons of one ruler, phases evenly spread."""
    n, period, m = 24, 8, 5
    curves, votes = pair(answer(n, period, m), "the curves and the votes")
    curves, votes = tensor(curves, (n, m), "[value, neuron]"), tensor(votes, (m, n), "[neuron, output]")
    right_curves, right_votes = _waves(n, period, m)
    demand(
        not close(curves, torch.roll(right_curves.flip(1), 1, 1)),
        "neuron j's curve should have its crest at the phase 2πj/m, not at −2πj/m: cos(angle − phase).",
    )
    demand(
        close(curves[:period], curves[period : 2 * period]),
        "a curve should come back after `period` values: its angle is 2π value / period.",
    )
    demand(close(curves.amax(0)[0], torch.tensor(1.0)), "neuron 0's curve should have a crest of height 1 at value 0.")
    demand(close(curves[:, 0], right_curves[:, 0]), "neuron 0's curve should be cos(2π value / period).")
    demand(close(curves, right_curves), "neuron j's curve should have its crest at the phase 2πj/m, j = 0, 1, … m − 1.")
    demand(
        not close(votes, right_curves.T) or m == 1,
        "each neuron votes for what its operands are, with the phase of its curve. But it fires when both are there, "
        "and then the sum is somewhere else.",
    )
    demand(not close(votes, -right_votes), "the votes are upside down: where the sum should be is now a trough.")
    demand(
        close(votes[:, :period], votes[:, period : 2 * period]),
        "the votes should have the same period as the curves.",
    )
    demand(close(votes, right_votes), "the votes should be waves of height 1, with their crests at twice the phase.")
    for n, length, m in ((30, 7, 3), (17, 19.7, 4), (9, 3, 1)):
        found = pair(answer(n, length, m), "the curves and the votes")
        shaped = [tensor(part, shape, "as before") for part, shape in zip(found, ((n, m), (m, n)), strict=True)]
        demand(
            all(map(close, shaped, _waves(n, length, m))),
            f"it is right for n = 24, period = 8, m = 5, and wrong for n = {n}, period = {length}, m = {m}.",
        )


def _waves(
    n: int, period: float, m: int, times: float = 2, by: float | None = None, sign: int = 1
) -> tuple[Tensor, Tensor]:
    angle = 2 * math.pi * torch.arange(n) / period
    phase = sign * 2 * math.pi * torch.arange(m) / (by or m)
    curves, votes = angle[:, None] - phase, angle - times * phase[:, None]
    return curves.cos(), votes.cos()


wave_neurons.mistakes = {
    "votes at the phase itself": (lambda n, p, m: _waves(n, p, m, 1), "each neuron votes for what its operands are"),
    "votes at half of it": (lambda n, p, m: _waves(n, p, m, 0.5), "with their crests at twice the phase"),
    "votes at three times": (lambda n, p, m: _waves(n, p, m, 3), "with their crests at twice the phase"),
    "votes without a phase": (lambda n, p, m: _waves(n, p, m, 0), "with their crests at twice the phase"),
    "the period for the frequency": (lambda n, p, m: _waves(n, n / p, m), "a curve should come back after `period`"),
    "turns without 2π": (
        lambda n, p, m: _waves(n, p * 2 * math.pi, m),
        "a curve should come back after `period`",
    ),
    "half a turn of phases": (lambda n, p, m: _waves(n, p, m, by=2 * m), "its crest at the phase 2πj/m"),
    "phases that end at a whole turn": (
        lambda n, p, m: _waves(n, p, m, by=max(1, m - 1)),
        "its crest at the phase 2πj/m",
    ),
    "phases the other way": (lambda n, p, m: _waves(n, p, m, sign=-1), "not at −2πj/m"),
    "votes upside down": (
        lambda n, p, m: (_waves(n, p, m)[0], -_waves(n, p, m)[1]),
        "the votes are upside down",
    ),
    "sines": (
        lambda n, p, m: (
            (2 * math.pi * (torch.arange(n)[:, None] / p - torch.arange(m) / m)).sin(),
            _waves(n, p, m)[1],
        ),
        "neuron 0's curve should",
    ),
    "always five neurons": (lambda n, p, m: _waves(n, p, 5), "it should be [30, 3]"),
    "in the wrong order": (lambda n, p, m: _waves(n, p, m)[::-1], "the result has shape [5"),
    "curves transposed": (lambda n, p, m: (_waves(n, p, m)[0].T, _waves(n, p, m)[1]), "the result has shape [5"),
    "curves alone": (lambda n, p, m: _waves(n, p, m)[0], "it should return two things"),
    "a period of 8": (lambda n, p, m: _waves(n, 8, m), "and wrong for n = 30"),
    "whole periods only": (lambda n, p, m: _waves(n, round(p), m), "and wrong for n = 17"),
}


@exercise
def foretell(answer: Answer) -> None:
    """`foretell(a, b, periods) → int`: what an adder made of such rulers will say, its mistakes included."""

    def said(a: int, b: int, periods: list[int]) -> float:
        return number(answer(a, b, periods))

    demand(said(3, 2, [20, 7, 3]) == 5, "3 + 2 with rulers of 20, 7 and 3: none is blind, and the answer is 5.")
    demand(
        said(50, 30, [7, 3]) != 80,
        "50 + 30 with rulers of 7 and 3: they know the sum only up to 21, and a tie goes to the smallest number.",
    )
    demand(said(50, 30, [7, 3]) == 17, "50 + 30 with rulers of 7 and 3: 80 leaves 3 and 2; the smallest such is 17.")
    demand(said(50, 30, [20, 7, 3]) == 80, "at a difference of a whole period a ruler sees everything.")
    demand(
        said(40, 37, [7, 20]) == 77,
        "40 + 37 with rulers of 7 and 20: a ruler of odd period is never blind, because no whole number is half of it.",
    )
    demand(
        said(45, 35, [20, 7, 3]) != 80,
        "45 + 35 with rulers of 20, 7 and 3: the difference is half of 20, so that ruler is blind.",
    )
    demand(
        said(45, 35, [20, 7, 3]) == 17,
        "45 + 35 with rulers of 20, 7 and 3: without the blind one the smallest number that fits is 17.",
    )
    demand(said(35, 45, [20, 7, 3]) == 17, "35 + 45 should be foretold as 45 + 35 is.")
    demand(said(55, 25, [20, 7, 3]) == 17, "at a difference of one and a half periods a ruler is blind as well.")
    demand(said(5, 0, [10]) == 0, "when all rulers are blind every number fits, and the smallest is 0.")
    cases = [
        (a, b, periods) for periods in ([12, 5], [4, 9, 6], [2, 3]) for a in range(0, 40, 3) for b in range(0, 40, 7)
    ]
    for a, b, periods in cases:
        demand(
            said(a, b, periods) == _foretold(a, b, periods),
            f"{a} + {b} with rulers of {', '.join(map(str, periods))} is foretold wrong: which of them see, and what "
            "is the smallest number that has the sum's remainder for each of those?",
        )


def _foretold(a: int, b: int, periods: Sequence[int], blind: Answer = lambda d, p: d % p * 2 == p) -> int:
    seeing = [p for p in periods if not blind(abs(a - b), p)]
    return next(c for c in range(a + b + 1) if all((a + b - c) % p == 0 for p in seeing))


def _product(a: int, b: int, periods: Sequence[int]) -> int:
    return (a + b) % math.prod(p for p in periods if abs(a - b) % p * 2 != p)


foretell.mistakes = {
    "never wrong": (lambda a, b, p: a + b, "they know the sum only up to 21"),
    "never blind": (lambda a, b, p: _foretold(a, b, p, lambda d, q: False), "so that ruler is blind"),
    "blind once": (lambda a, b, p: _foretold(a, b, p, lambda d, q: 2 * d == q), "one and a half periods"),
    "blind at whole periods too": (
        lambda a, b, p: _foretold(a, b, p, lambda d, q: d > 0 and 2 * d % q == 0),
        "at a difference of a whole period",
    ),
    "half a period rounded": (
        lambda a, b, p: _foretold(a, b, p, lambda d, q: d % q == q // 2),
        "a ruler of odd period is never blind",
    ),
    "only if a is larger": (
        lambda a, b, p: _foretold(a, b, p, lambda d, q: a > b and d % q * 2 == q),
        "should be foretold as 45 + 35 is",
    ),
    "the product of the periods": (_product, "is foretold wrong"),
    "from 1": (
        lambda a, b, p: next(
            c for c in range(1, 999) if all((a + b - c) % q == 0 for q in p if abs(a - b) % q * 2 != q)
        ),
        "the smallest is 0",
    ),
    "the blind ones' remainders": (
        lambda a, b, p: _foretold(a, b, p, lambda d, q: d % q * 2 != q),
        "none is blind, and the answer is 5",
    ),
}


@exercise
def preactivations(answer: Answer) -> None:
    """`preactivations(model, tokens) → residual, head`: the two parts of the MLP's input at the last position."""
    model, tokens = _model(), torch.tensor([[5, 4, 1], [0, 3, 5]])
    residual, head = pair(answer(model, tokens), "the residual path's part and the head's part")
    shape, means = (2, 8), "[batch, neuron], at the last position alone"
    residual, head = tensor(residual, shape, means), tensor(head, shape, means)
    wanted, whole = _two_parts(model, tokens)[0], model.run_with_cache(tokens)[1]["pre", 0][:, -1]
    W_in = model.W_in[0]
    demand(not close(residual, 0 * residual), "the residual path is missing: the last token itself reaches the MLP.")
    demand(
        not (close(head, wanted) and close(residual, whole - wanted)),
        "the two parts are there, in the wrong order: the residual path comes first.",
    )
    demand(
        not close(residual, model.W_E[tokens[:, -1]] @ W_in),
        "the residual path carries the last token's position too: W_pos is part of the stream.",
    )
    demand(
        not close(residual, wanted.relu()) and not (close(residual, wanted) and close(head, (whole - wanted).relu())),
        "these parts come before the ReLU, not after.",
    )
    demand(
        close(residual, wanted),
        "the first part is not what the MLP reads of the last token: its embedding and position, through W_in.",
    )
    demand(not close(head, whole), "the head's part holds the residual path as well; each path should count once.")
    demand(
        not any(close(head, _head_part(model, tokens, torch.full((2, 3), weight))) for weight in (1 / 3, 1 / 2)),
        "the head's part does not use the attention that this model pays: mix with `attention`, not in equal parts.",
    )
    mixed = (_attention(model, tokens)[:, :, None] * _stream(model, tokens)).sum(1)
    demand(
        not close(head, mixed @ W_in),
        "the head's part leaves out the head's own matrices: W_V and W_O stand between the mixture and W_in.",
    )
    demand(
        close(residual + head, whole),
        "the two parts should add up to what the model's own neurons receive (hook_pre). The residual path is right; "
        "look at the head's.",
    )
    wide = _model(d_model=9, d_head=3, d_mlp=5, d_vocab=11, n_ctx=7)
    for batch, length in ((4, 2), (3, 6), (1, 1)):
        tokens = torch.arange(2, 2 + batch * length).view(batch, length) % 11
        parts = pair(answer(wide, tokens), "the residual path's part and the head's part")
        shapes = [tensor(part, (batch, 5), means) for part in parts]
        demand(
            all(map(close, shapes, _two_parts(wide, tokens))),
            f"it fails for another model, with {batch} texts of length {length}.",
        )


def _head_part(model: HookedTransformer, tokens: Tensor, attention: Tensor) -> Tensor:
    mixed = (attention[:, :, None] * _stream(model, tokens)).sum(1)
    return mixed @ model.W_V[0, 0] @ model.W_O[0, 0] @ model.W_in[0]


def _two_parts(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    residual = _stream(model, tokens)[:, -1] @ model.W_in[0]
    return residual, _head_part(model, tokens, _attention(model, tokens))


def _without_positions(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    mixed = (_attention(model, tokens)[:, :, None] * model.W_E[tokens]).sum(1)
    head = mixed @ model.W_V[0, 0] @ model.W_O[0, 0] @ model.W_in[0]
    return model.W_E[tokens[:, -1]] @ model.W_in[0], head


def _all_positions(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    cache = model.run_with_cache(tokens)[1]
    return cache["resid_pre", 0] @ model.W_in[0], cache["attn_out", 0] @ model.W_in[0]


def _halving_W_in(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    parts = _two_parts(model, tokens)
    model.blocks[0].mlp.W_in.data *= 0.5
    return parts


def _leaving_a_hook(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    model.add_hook("blocks.0.attn.hook_pattern", lambda pattern, hook: pattern)
    return _two_parts(model, tokens)


def _another_head(change: Answer) -> Answer:
    """The right residual path, with a head whose attention is changed."""
    return lambda m, t: (_two_parts(m, t)[0], _head_part(m, t, change(_attention(m, t))))


preactivations.mistakes = {
    "residual omitted": (lambda m, t: (0 * _two_parts(m, t)[0], _two_parts(m, t)[1]), "the residual path is missing"),
    "positions omitted": (_without_positions, "the residual path carries the last token's position too"),
    "the residual without its position": (
        lambda m, t: (_without_positions(m, t)[0], _two_parts(m, t)[1]),
        "the residual path carries the last token's position too",
    ),
    "the head without positions": (
        lambda m, t: (_two_parts(m, t)[0], _without_positions(m, t)[1]),
        "the two parts should add up to what the",
    ),
    "the first position": (
        lambda m, t: (_stream(m, t)[:, 0] @ m.W_in[0], _two_parts(m, t)[1]),
        "the first part is not what the MLP reads",
    ),
    "the residual of all positions": (
        lambda m, t: (_stream(m, t).sum(1) @ m.W_in[0], _two_parts(m, t)[1]),
        "the first part is not what the MLP reads",
    ),
    "parts swapped": (lambda m, t: _two_parts(m, t)[::-1], "the two parts are there"),
    "the residual counted twice": (
        lambda m, t: (_two_parts(m, t)[0], sum(_two_parts(m, t))),
        "the head's part holds the residual path as well",
    ),
    "after the ReLU": (
        lambda m, t: tuple(part.relu() for part in _two_parts(m, t)),
        "these parts come before the ReLU",
    ),
    "the head after the ReLU": (
        lambda m, t: (_two_parts(m, t)[0], _two_parts(m, t)[1].relu()),
        "these parts come before the ReLU",
    ),
    "uniform attention": (
        _another_head(lambda A: torch.full_like(A, 1 / A.shape[1])),
        "the head's part does not use the attention that",
    ),
    "half and half": (
        _another_head(lambda A: torch.full_like(A, 0.5)),
        "the head's part does not use the attention that",
    ),
    "W_V and W_O left out": (
        lambda m, t: (_two_parts(m, t)[0], (_attention(m, t)[:, :, None] * _stream(m, t)).sum(1) @ m.W_in[0]),
        "the head's part leaves out the head's own matrices",
    ),
    "without the last token's own place": (
        _another_head(lambda A: A * (torch.arange(A.shape[1]) < A.shape[1] - 1)),
        "the two parts should add up to what the",
    ),
    "only the last two sources": (
        _another_head(lambda A: A * (torch.arange(A.shape[1]) >= A.shape[1] - 2)),
        "the two parts should add up to what the",
    ),
    "only the first three sources": (
        _another_head(lambda A: A * (torch.arange(A.shape[1]) < 3)),
        "it fails for another model",
    ),
    "the source it attends to most": (
        _another_head(lambda A: (A.amax(1, keepdim=True) == A).float()),
        "the two parts should add up to what the",
    ),
    "OV transposed": (
        lambda m, t: (
            _two_parts(m, t)[0],
            (_attention(m, t)[:, :, None] * _stream(m, t)).sum(1) @ (m.W_V[0, 0] @ m.W_O[0, 0]).T @ m.W_in[0],
        ),
        "the two parts should add up to what the",
    ),
    "only the sum": (lambda m, t: sum(_two_parts(m, t)), "it should return two things"),
    "all positions": (_all_positions, "the result has shape [2"),
    "the model changed": (_halving_W_in, "it changes `model.blocks.0.mlp.W_in`, which it was given"),
    "a hook left": (_leaving_a_hook, "it leaves a hook on `model`"),
}


@exercise
def with_attention(answer: Answer) -> None:
    """`with_attention(model, tokens, weights) → [batch, d_vocab]`: last logits under a given last row of attention."""
    model, means = _model(), "[batch, logit], at the last position alone"
    tokens, weights = torch.tensor([[2, 6, 0], [5, 1, 3]]), torch.tensor([0.7, 0.2, 0.3])
    before = model(tokens)[:, -1]
    result = tensor(answer(model, tokens, weights), (2, 7), means)
    demand(
        not close(result, before), "the last position still pays its own attention: these are the model's own logits."
    )
    wanted = _logits(model, tokens, weights)
    demand(
        not close(result, _logits(model, tokens, weights.softmax(0))),
        "the weights went through a softmax: replace the pattern, not the scores.",
    )
    demand(
        not close(result, _logits(model, tokens, weights / weights.sum())),
        "use the weights as they are given, not normalised.",
    )
    demand(
        not close(result, wanted.softmax(-1)) and not close(result, wanted.log_softmax(-1)),
        "these are probabilities, or their logarithms; return the logits.",
    )
    demand(close(result, wanted), "in the last row, each source should get the weight that is given for it.")
    wide = _model(d_model=9, d_head=3, d_mlp=5, d_vocab=11, n_ctx=7)
    for batch, given in ((4, [0.0, 1.0]), (3, [0.1, -0.5, 0.4, 0.9, 0.2, 0.3]), (1, [0.6])):
        tokens = torch.arange(2, 2 + batch * len(given)).view(batch, -1) % 11
        found = tensor(answer(wide, tokens, torch.tensor(given)), (batch, 11), means)
        demand(
            close(found, _logits(wide, tokens, torch.tensor(given))),
            f"it fails for another model, with {batch} texts of length {len(given)}.",
        )


def _logits(model: HookedTransformer, tokens: Tensor, row: Tensor) -> Tensor:
    x = _stream(model, tokens)
    mid = x[:, -1] + (row[:, None] * x).sum(1) @ model.W_V[0, 0] @ model.W_O[0, 0]
    return (mid + (mid @ model.W_in[0]).relu() @ model.W_out[0]) @ model.W_U


def _hooked(change: Answer, name: str = "pattern", out: Answer = lambda logits: logits[:, -1]) -> Answer:
    """The model run with a changed pattern: `change(pattern, weights)`."""

    def answer(model: HookedTransformer, tokens: Tensor, weights: Tensor) -> Any:
        hooks: list[Any] = [(f"blocks.0.attn.hook_{name}", lambda pattern, hook: change(pattern.clone(), weights))]
        return out(model.run_with_hooks(tokens, fwd_hooks=hooks))

    return answer


def _put(pattern: Tensor, weights: Tensor, place: Any = (..., -1, slice(None))) -> Tensor:
    pattern[place] = weights
    return pattern


def _left_behind(model: HookedTransformer, tokens: Tensor, weights: Tensor) -> Tensor:
    model.add_hook("blocks.0.attn.hook_pattern", lambda pattern, hook: _put(pattern, weights))
    return model(tokens)[:, -1]


def _normalising(model: HookedTransformer, tokens: Tensor, weights: Tensor) -> Tensor:
    weights /= weights.sum()
    return _hooked(_put)(model, tokens, weights)


def _without_mlp(model: HookedTransformer, tokens: Tensor, weights: Tensor) -> Tensor:
    x = _stream(model, tokens)
    return (x[:, -1] + (weights[:, None] * x).sum(1) @ model.W_V[0, 0] @ model.W_O[0, 0]) @ model.W_U


with_attention.mistakes = {
    "scores instead of the pattern": (_hooked(_put, "attn_scores"), "the weights went through a softmax"),
    "normalised": (_hooked(lambda A, w: _put(A, w / w.sum())), "use the weights as they are given"),
    "the column instead of the row": (_hooked(lambda A, w: _put(A, w, (..., -1))), "in the last row"),
    "the first row": (
        _hooked(lambda A, w: _put(A, w, (..., 0, slice(None)))),
        "the last position still pays its own attention",
    ),
    "multiplied": (_hooked(lambda A, w: A * w), "in the last row"),
    "added": (_hooked(lambda A, w: _put(A, A[..., -1, :] + w)), "in the last row"),
    "not replaced": (lambda m, t, w: m(t)[:, -1], "the last position still pays its own attention"),
    "the first text only": (_hooked(lambda A, w: _put(A, w, (0, slice(None), -1))), "in the last row"),
    "two sources only": (_hooked(lambda A, w: _put(A, w[:2], (..., -1, slice(0, 2)))), "in the last row"),
    "three sources only": (_hooked(lambda A, w: _put(A, w[:3], (..., -1, slice(0, 3)))), "it fails for another model"),
    "all positions": (_hooked(_put, out=lambda logits: logits), "the result has shape [2"),
    "the first position": (_hooked(_put, out=lambda logits: logits[:, 0]), "in the last row"),
    "probabilities": (
        _hooked(_put, out=lambda logits: logits[:, -1].softmax(-1)),
        "these are probabilities, or their logarithms",
    ),
    "log-probabilities": (
        _hooked(_put, out=lambda logits: logits[:, -1].log_softmax(-1)),
        "these are probabilities, or their logarithms",
    ),
    "weights reversed": (_hooked(lambda A, w: _put(A, w.flip(0))), "in the last row"),
    "answers instead of logits": (
        _hooked(_put, out=lambda logits: logits[:, -1].argmax(-1)),
        "the result has shape [2]",
    ),
    "without the MLP": (_without_mlp, "in the last row"),
    "the hook left in the model": (_left_behind, "it leaves a hook on `model`"),
    "the weights changed": (_normalising, "it changes `weights`, which it was given"),
}


@exercise
def without_neurons(answer: Answer) -> None:
    """`without_neurons(model, tokens, neurons) → [batch, d_vocab]`: last logits when these neurons are silent."""
    model, means = _model(), "[batch, logit], at the last position alone"
    tokens, neurons = torch.tensor([[2, 6, 0], [5, 1, 3]]), [3, 2, 0]
    before = model(tokens)[:, -1]
    result = tensor(answer(model, tokens, neurons), (2, 7), means)
    demand(not close(result, before), "these are the model's own logits: the neurons still speak.")
    demand(
        not close(result, _silenced(model, tokens, [1, 4, 5, 6, 7])),
        "these neurons alone speak, and they should be the silent ones.",
    )
    wanted = _silenced(model, tokens, neurons)
    demand(
        not close(result, wanted.softmax(-1)) and not close(result, wanted.log_softmax(-1)),
        "these are probabilities, or their logarithms; return the logits.",
    )
    demand(close(result, wanted), "each of the given neurons, and no other, should give 0 after the ReLU.")
    wide = _model(d_model=9, d_head=3, d_mlp=5, d_vocab=11, n_ctx=7)
    for batch, length, chosen in ((4, 2, [3]), (3, 6, [0, 1, 2, 3, 4]), (1, 3, [])):
        tokens = torch.arange(2, 2 + batch * length).view(batch, length) % 11
        found = tensor(answer(wide, tokens, chosen), (batch, 11), means)
        demand(
            close(found, _silenced(wide, tokens, chosen)),
            f"it fails for another model, with {batch} texts of length {length} and {len(chosen)} neurons.",
        )


def _silenced(model: HookedTransformer, tokens: Tensor, neurons: list[int]) -> Tensor:
    cache = model.run_with_cache(tokens)[1]
    mid, post = cache["resid_mid", 0][:, -1], cache["post", 0][:, -1].clone()
    post[:, neurons] = 0.0
    return (mid + post @ model.W_out[0]) @ model.W_U


def _with_hook(change: Answer, name: str = "mlp.hook_post", out: Answer = lambda logits: logits[:, -1]) -> Answer:
    """The model run with the neurons changed: `change(post, neurons)`."""

    def answer(model: HookedTransformer, tokens: Tensor, neurons: list[int]) -> Any:
        hooks: list[Any] = [(f"blocks.0.{name}", lambda post, hook: change(post.clone(), neurons))]
        return out(model.run_with_hooks(tokens, fwd_hooks=hooks))

    return answer


def _zero(post: Tensor, neurons: list[int]) -> Tensor:
    post[..., neurons] = 0
    return post


def _others_zero(post: Tensor, neurons: list[int]) -> Tensor:
    kept = torch.zeros_like(post)
    kept[..., neurons] = post[..., neurons]
    return kept


def _zero_rows(post: Tensor, neurons: list[int]) -> Tensor:
    post[:, [n % post.shape[1] for n in neurons]] = 0
    return post


def _cutting_weights(model: HookedTransformer, tokens: Tensor, neurons: list[int]) -> Tensor:
    model.blocks[0].mlp.W_out.data[neurons] = 0
    return model(tokens)[:, -1]


def _hook_left(model: HookedTransformer, tokens: Tensor, neurons: list[int]) -> Tensor:
    model.add_hook("blocks.0.mlp.hook_post", lambda post, hook: _zero(post.clone(), neurons))
    return model(tokens)[:, -1]


without_neurons.mistakes = {
    "nothing silenced": (lambda m, t, n: m(t)[:, -1], "the neurons still speak"),
    "the others silenced": (_with_hook(_others_zero), "they should be the silent ones"),
    "positions silenced": (_with_hook(_zero_rows), "each of the given neurons, and no other"),
    "the first neuron only": (_with_hook(lambda post, n: _zero(post, n[:1])), "each of the given neurons"),
    "one too far": (_with_hook(lambda post, n: _zero(post, [k + 1 for k in n])), "each of the given neurons"),
    "all of them": (_with_hook(lambda post, n: 0 * post), "each of the given neurons"),
    "the MLP's output instead": (_with_hook(_zero, "hook_mlp_out"), "each of the given neurons"),
    "negated": (_with_hook(lambda post, n: post - 2 * _others_zero(post, n)), "each of the given neurons"),
    "all positions": (_with_hook(_zero, out=lambda logits: logits), "the result has shape [2"),
    "the first position": (_with_hook(_zero, out=lambda logits: logits[:, 0]), "each of the given neurons"),
    "answers instead of logits": (
        _with_hook(_zero, out=lambda logits: logits[:, -1].argmax(-1)),
        "the result has shape [2]",
    ),
    "probabilities": (_with_hook(_zero, out=lambda logits: logits[:, -1].softmax(-1)), "these are probabilities"),
    "weights cut in the model": (_cutting_weights, "it changes `model.blocks.0.mlp.W_out`, which it was given"),
    "a hook left": (_hook_left, "it leaves a hook on `model`"),
}
