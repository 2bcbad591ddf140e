"""Checks of lesson 09, MLPs: each exercise, then its typical mistakes with the sentence each must get."""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import fourier
from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random, tiny_model
from course_utils.check.questions import close, demand, number, pair, tensor

ONE_MLP = {"n_layers": 1, "n_heads": 1, "attn_only": False, "act_fn": "relu", "positional_embedding_type": "standard"}


def _model(**sizes: int) -> HookedTransformer:
    return tiny_model(0.7, **(ONE_MLP | {"d_model": 6, "d_head": 4, "d_mlp": 8, "d_vocab": 7, "n_ctx": 5} | sizes))


def _stream(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.W_E[tokens] + model.W_pos[: tokens.shape[1]]


def _attention(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model.run_with_cache(tokens)[1]["pattern", 0][:, 0, -1]


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
        not close(head, _head_part(model, tokens, torch.full((2, 3), 1 / 3))),
        "the head's part does not use the attention that this model pays: its pattern is not uniform.",
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
    "half and half": (_another_head(lambda A: torch.full_like(A, 0.5)), "the two parts should add up to what the"),
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
def fourier_power(answer: Answer) -> None:
    """`fourier_power(W) → [freq, neuron]`: the variance of each column at the frequencies 0 … n/2."""
    means = "[frequency 0 … n/2, neuron]"

    def power(W: Tensor) -> Tensor:
        raw = answer(W)
        real = not (isinstance(raw, Tensor) and raw.is_complex()) or close(raw.imag, 0 * raw.imag)
        demand(real, "power is the square of an absolute value, and real.")
        return tensor(raw.real if isinstance(raw, Tensor) else raw, (len(W) // 2 + 1, W.shape[1]), means)

    rows = torch.arange(16.0)
    W = torch.stack([3 * torch.cos(2 * math.pi * 2 * rows / 16 - 1), torch.cos(math.pi * rows)], dim=1)
    result = power(W)
    lifted = power(W + torch.tensor([10.0, -4]))
    demand(
        close(lifted[0], torch.zeros(2)),
        "the constant (DC) is left in: adding 10 to a column gives it power at frequency 0, and no variation.",
    )
    demand(
        result.argmax(0).tolist() == [2, 8],
        "column 0 is a wave of 2 periods, column 1 one of n/2; the most power should stand in rows 2 and n/2.",
    )
    demand(close(power(2 * W), 4 * result), "a column twice as high should have four times the power: square it.")
    demand(
        close(lifted, result), "adding a constant to a column should change no power: take each column's own mean off."
    )
    demand(
        close(power(W.repeat(2, 1)).sum(0), result.sum(0)),
        "the same wave over twice as many rows should have the same power: look at the division by n.",
    )
    noisy = random(16, 2)
    demand(
        not close(power(noisy)[8] / 2, fourier.power(noisy)[8]),
        "frequency n/2 has no partner n − k, so it is not counted twice.",
    )
    demand(
        close(result.sum(0), W.var(0, correction=0)),
        "the powers of a column should add up to its variance: each frequency stands for k and for n − k, except n/2.",
    )
    _right_on_noise(power)


def _right_on_noise(power: Callable[[Tensor], Tensor]) -> None:
    """Demand the power of noise with an even and an odd number of rows."""
    for n, columns in ((17, 3), (10, 4), (7, 1)):
        W = random(n, columns, seed=n) + torch.linspace(-3, 5, columns)
        found, right = power(W), fourier.power(W)
        demand(
            n % 2 == 0 or not close(2 * found[-1], right[-1]),
            "with an odd number of rows the last frequency has a partner too.",
        )
        demand(
            close(found, right),
            f"on {n} rows of noise, {columns} of them beside each other, some powers are wrong: their sums should be "
            "the variances, and sines count as cosines do.",
        )


def _spectrum(W: Tensor) -> Tensor:
    return torch.fft.rfft(W, dim=0).abs()


def _unpaired(W: Tensor) -> Tensor:
    return _spectrum(W - W.mean(0)) ** 2 / len(W) ** 2


def _with_constant(W: Tensor) -> Tensor:
    twice = torch.full((len(W) // 2 + 1, 1), 2.0)
    twice[0] = 1
    if len(W) % 2 == 0:
        twice[-1] = 1
    return twice * _spectrum(W) ** 2 / len(W) ** 2


def _centring(W: Tensor) -> Tensor:
    W -= W.mean(0)
    return _with_constant(W)


fourier_power.mistakes = {
    "DC left in": (_with_constant, "the constant (DC) is left in"),
    "amplitude, not power": (
        lambda W: _spectrum(W - W.mean(0)) / len(W),
        "a column twice as high should have four times",
    ),
    "squared twice": (lambda W: fourier.power(W) ** 2, "a column twice as high should have four times"),
    "the wrong axis": (lambda W: torch.fft.rfft(W - W.mean(0), dim=1).abs() ** 2, "the result has shape [16"),
    "the whole spectrum": (
        lambda W: torch.fft.fft(W - W.mean(0), dim=0).abs() ** 2 / len(W) ** 2,
        "the result has shape [16",
    ),
    "complex": (lambda W: torch.fft.rfft(W - W.mean(0), dim=0), "power is the square of an absolute value"),
    "not divided": (lambda W: _spectrum(W - W.mean(0)) ** 2, "the same wave over twice as many rows should"),
    "divided by n": (lambda W: _spectrum(W - W.mean(0)) ** 2 / len(W), "the same wave over twice as many rows should"),
    "divided by n (n − 1)": (
        lambda W: fourier.power(W) * len(W) / (len(W) - 1),
        "the same wave over twice as many rows should",
    ),
    "partners forgotten": (_unpaired, "the powers of a column should add up to"),
    "n/2 doubled": (lambda W: 2 * _unpaired(W), "frequency n/2 has no partner n − k"),
    "n/2 never doubled": (
        lambda W: torch.cat([fourier.power(W)[:-1], _unpaired(W)[-1:]]),
        "with an odd number of rows the last frequency",
    ),
    "the mean of everything": (lambda W: _with_constant(W - W.mean()), "the constant (DC) is left in"),
    "row means off": (lambda W: _with_constant(W - W.mean(1, keepdim=True)), "the constant (DC) is left in"),
    "frequency 0 dropped": (lambda W: fourier.power(W)[1:], "the result has shape [8"),
    "as shares": (
        lambda W: fourier.power(W) / fourier.power(W).sum(0),
        "a column twice as high should have four times",
    ),
    "cosines alone": (
        lambda W: 2 * torch.fft.rfft(W - W.mean(0), dim=0).real ** 2 / len(W) ** 2,
        "frequency n/2 has no partner n − k",
    ),
    "sixteen rows": (
        lambda W: fourier.power(W) * (len(W) / 16) ** 2 if len(W) < 16 else fourier.power(W),
        "on 10 rows of noise",
    ),
    "W changed": (_centring, "it changes `W`, which it was given"),
}


@exercise
def wave_phase(answer: Answer) -> None:
    """`wave_phase(W, frequency) → [neuron]`: the angle of the best-fitting wave in each column."""
    planted = torch.tensor([-2.5, -0.4, 0.9, 2.8])

    def off(frequency: float, mean: float, expected: Tensor, n: int = 24) -> Tensor:
        W = _waves(n, frequency, planted) + mean
        return (1 - torch.cos(tensor(answer(W, frequency), (4,), "one angle for each column") - expected)).max()

    demand(
        off(3, 0.0, -planted) > 1e-3,
        "the sign is turned round: the crest of A cos(2πft/n − φ) stands at 2πft/n = φ, so φ grows as it moves on.",
    )
    demand(
        off(3, 0.0, math.pi / 2 - planted) > 1e-3 and off(3, 0.0, planted - math.pi / 2) > 1e-3,
        "sine and cosine are mixed up: a wave whose crest stands in row 0 has the phase 0.",
    )
    demand(off(3, 0.0, planted + math.pi) > 1e-3, "these are the phases of the troughs: A should be above 0.")
    found = tensor(answer(_waves(24, 3, planted), 3), (4,), "one angle for each column")
    demand(found.abs().max() < 7, "give angles in radians, not degrees or rows.")
    demand(
        off(3, 0.0, planted) < 1e-2,
        "waves of 3 periods with known phases do not get them back: the angle of (cosine's weight, sine's weight), in "
        "the right quadrant.",
    )
    demand(found.abs().max() < math.pi + 1e-3, "give angles from −π to π, as torch.atan2 does.")
    demand(off(3, 0.0, planted) < 1e-5, "the phases of 3 periods are nearly right, but not exact.")
    demand(off(5, 0.0, planted) < 1e-5, "waves of 3 periods get their phases back, waves of 5 periods do not.")
    demand(
        off(3.4, 0.0, planted) < 1e-5,
        "the frequency 3.4 is no whole number: fit constant, cosine and sine together, by least squares.",
    )
    demand(
        off(3.4, 9.0, planted) < 1e-5,
        "a constant under a wave of 3.4 periods shifts your phases: fit the constant along with it.",
    )
    demand(
        off(0.6, -2.0, planted, 31) < 1e-4 and off(11.25, 4.0, planted, 50) < 1e-4,
        "over another number of rows the phases are wrong: t/n runs from 0 to 1 − 1/n.",
    )


def _waves(n: int, frequency: float, phases: Tensor) -> Tensor:
    """Columns of heights 1, 2, …"""
    heights = torch.arange(1.0, len(phases) + 1)
    return heights * torch.cos(2 * math.pi * frequency * torch.arange(n)[:, None] / n - phases)


def _angles(W: Tensor, frequency: float) -> Tensor:
    return 2 * math.pi * frequency * torch.arange(len(W), dtype=torch.float) / len(W)


def _plain_phase(W: Tensor, f: float) -> Tensor:
    return torch.atan2(_angles(W, f).sin() @ W, _angles(W, f).cos() @ W)


def _centring_phase(W: Tensor, frequency: float) -> Tensor:
    W -= W.mean(0)
    return fourier.phase(W, frequency)


wave_phase.mistakes = {
    "sign turned round": (lambda W, f: -fourier.phase(W, f), "the sign is turned round"),
    "sine and cosine swapped": (lambda W, f: math.pi / 2 - fourier.phase(W, f), "sine and cosine are mixed up"),
    "degrees": (lambda W, f: torch.rad2deg(fourier.phase(W, f)), "give angles in radians"),
    "rows": (
        lambda W, f: fourier.phase(W, f) * len(W) / (2 * math.pi * f),
        "waves of 3 periods with known phases do not",
    ),
    "turns": (lambda W, f: fourier.phase(W, f) / (2 * math.pi), "waves of 3 periods with known phases do not"),
    "from 0 to 2π": (lambda W, f: fourier.phase(W, f) % (2 * math.pi), "give angles from −π to π"),
    "arctan without quadrant": (
        lambda W, f: torch.atan(torch.tan(fourier.phase(W, f))),
        "waves of 3 periods with known phases do not",
    ),
    "as if orthogonal": (_plain_phase, "the frequency 3.4 is no whole number"),
    "centred, as if orthogonal": (lambda W, f: _plain_phase(W - W.mean(0), f), "the frequency 3.4 is no whole number"),
    "whole frequencies only": (lambda W, f: _plain_phase(W, round(f)), "the frequency 3.4 is no whole number"),
    "always the same frequency": (lambda W, f: fourier.phase(W, 3), "waves of 3 periods get their phases back"),
    "24 rows": (lambda W, f: fourier.phase(W, f * len(W) / 24), "over another number of rows the phases are wrong"),
    "the top row of the spectrum": (
        lambda W, f: -torch.fft.rfft(W, dim=0)[round(f)].angle(),
        "the frequency 3.4 is no whole number",
    ),
    "trough for crest": (lambda W, f: fourier.phase(-W, f), "these are the phases of the troughs"),
    "rows from 1": (
        lambda W, f: fourier.phase(W, f) + 2 * math.pi * f / len(W),
        "waves of 3 periods with known phases do not",
    ),
    "n − 1": (lambda W, f: fourier.phase(W, f * len(W) / (len(W) - 1)), "waves of 3 periods with known phases do not"),
    "rounded": (lambda W, f: fourier.phase(W, f).mul(16).round() / 16, "the phases of 3 periods are nearly right"),
    "W changed": (_centring_phase, "it changes `W`, which it was given"),
}


@exercise
def projected(answer: Answer) -> None:
    """`projected(W, frequencies) → W'`: what a constant and some waves, fitted by least squares, leave of a column."""
    rows, means = torch.arange(20.0), "that of W"
    angle = 2 * math.pi * rows / 20

    def fit(W: Tensor, frequencies: list[float]) -> Tensor:
        return tensor(answer(W, frequencies), tuple(W.shape), means)

    W = random(20, 3) + 4
    whole = fit(W, [2, 5])
    demand(not _near(whole.mean(0), torch.zeros(3)), "the constant is gone: it belongs to what is kept.")
    demand(_near(whole.mean(0), W.mean(0)), "each column should keep its own mean.")
    kept = torch.stack([3 + torch.cos(2 * angle - 1), torch.sin(5 * angle), torch.ones(20)], dim=1)
    demand(
        _near(fit(kept, [2, 5]), kept),
        "waves of 2 and 5 periods should come through [2, 5] unchanged, whatever their phase: cosine and sine.",
    )
    gone = fit(torch.cos(3 * angle - 1)[:, None], [2, 5])
    demand(_near(gone, 0 * gone), "a wave of 3 periods should not come through [2, 5]: keep what fits, not the rest.")
    slow = torch.stack([torch.cos(2.3 * angle - 1) + 2, torch.cos(2.9 * angle)], dim=1)
    demand(
        _near(fit(slow, [2.3, 2.9]), slow),
        "waves of 2.3 and 2.9 periods should come through [2.3, 2.9] unchanged. Such waves are not orthogonal, to each "
        "other or to the constant: fit all of them at once, by least squares.",
    )
    for n, columns, frequencies in ((20, 3, [1.3, 6]), (31, 4, [0.7, 3.5, 9.125]), (12, 1, [2.25])):
        W = random(n, columns, seed=n) - 2
        demand(
            _near(fit(W, frequencies), fourier.projected(W, frequencies)),
            f"on {n} rows of noise, with the frequencies {frequencies}, this is not the least-squares fit of the "
            "constant and the waves.",
        )


def _near(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-3)


def _fitted(
    W: Tensor, frequencies: Sequence[float], constant: bool = True, sine: bool = True, cosine: bool = True
) -> Tensor:
    columns = [torch.ones(len(W))] * constant
    for f in frequencies:
        columns += [_angles(W, f).cos()] * cosine + [_angles(W, f).sin()] * sine
    A = torch.stack(columns, dim=1).double()
    return (A @ torch.linalg.lstsq(A, W.double()).solution).float()


def _as_if_orthogonal(W: Tensor, frequencies: Sequence[float]) -> Tensor:
    out = W.mean(0).expand_as(W).clone()
    for f in frequencies:
        for curve in (_angles(W, f).cos(), _angles(W, f).sin()):
            out += 2 / len(W) * torch.outer(curve, curve @ W)
    return out


def _one_after_the_other(W: Tensor, frequencies: Sequence[float]) -> Tensor:
    out = W.mean(0).expand_as(W)
    for f in frequencies:
        out = out + _fitted(W - out, [f])
    return out


def _filling_W(W: Tensor, frequencies: Sequence[float]) -> Tensor:
    return W.copy_(fourier.projected(W, frequencies))


def _longer_list(W: Tensor, frequencies: list[float]) -> Tensor:
    fit = fourier.projected(W, frequencies)
    frequencies.append(0)
    return fit


projected.mistakes = {
    "the constant lost": (lambda W, f: _fitted(W - W.mean(0), f), "the constant is gone"),
    "the constant not fitted": (lambda W, f: _fitted(W, f, constant=False), "the constant is gone"),
    "the mean for the constant": (
        lambda W, f: W.mean(0) + _fitted(W - W.mean(0), f, constant=False),
        "waves of 2.3 and 2.9 periods should come through",
    ),
    "cosines only": (lambda W, f: _fitted(W, f, sine=False), "waves of 2 and 5 periods should come through"),
    "sines only": (lambda W, f: _fitted(W, f, cosine=False), "waves of 2 and 5 periods should come through"),
    "as if orthogonal": (_as_if_orthogonal, "waves of 2.3 and 2.9 periods should come through"),
    "one after the other": (_one_after_the_other, "waves of 2.3 and 2.9 periods should come through"),
    "rounded frequencies": (
        lambda W, f: fourier.projected(W, [max(1, round(x)) for x in f]),
        "waves of 2.3 and 2.9 periods should come through",
    ),
    "the first two frequencies": (lambda W, f: fourier.projected(W, f[:2]), "on 31 rows of noise"),
    "the rest instead": (lambda W, f: W - fourier.projected(W, f), "the constant is gone"),
    "the rest, with the mean": (
        lambda W, f: W - fourier.projected(W, f) + W.mean(0),
        "waves of 2 and 5 periods should come through",
    ),
    "across neurons": (lambda W, f: _fitted(W.T, f).T, "a wave of 3 periods should not come through"),
    "everything kept": (lambda W, f: W.clone(), "a wave of 3 periods should not come through"),
    "only the mean kept": (lambda W, f: W.mean(0).expand_as(W), "waves of 2 and 5 periods should come through"),
    "20 rows": (lambda W, f: fourier.projected(W, [x * len(W) / 20 for x in f]), "on 31 rows of noise"),
    "W changed": (_filling_W, "it changes `W`, which it was given"),
    "the list changed": (_longer_list, "it changes `frequencies`, which it was given"),
}


@exercise
def corrupt_early(answer: Answer) -> None:
    """`corrupt_early(tokens, noise) → tokens`: all but the last two tokens taken from `noise`."""
    for batch, length in ((3, 5), (4, 7), (2, 3)):
        tokens = torch.randperm(batch * length, generator=torch.Generator().manual_seed(length)).view(batch, length)
        noise = tokens.flip(0) + 50
        result = answer(tokens, noise)
        demand(
            isinstance(result, Tensor) and not result.is_floating_point() and result.dtype != torch.bool,
            "it should return tokens: whole numbers.",
        )
        result = tensor(result, (batch, length), "that of the tokens").long()
        demand(torch.equal(result[:, -2:], tokens[:, -2:]), "the last two tokens should stay as they are.")
        demand(torch.equal(result[:, :-2], noise[:, :-2]), "all tokens before the last two should come from the noise.")
    short = tensor(answer(tokens[:, :2], noise[:, :2]), (2, 2), "that of the tokens").long()
    demand(torch.equal(short, tokens[:, :2]), "with only two tokens there is nothing to replace.")


def _in_place(tokens: Tensor, noise: Tensor) -> Tensor:
    tokens[:, :-2] = noise[:, :-2]
    return tokens


def _in_the_noise(tokens: Tensor, noise: Tensor) -> Tensor:
    noise[:, -2:] = tokens[:, -2:]
    return noise


corrupt_early.mistakes = {
    "in place": (_in_place, "it changes `tokens`, which it was given"),
    "in the noise": (_in_the_noise, "it changes `noise`, which it was given"),
    "the last two replaced": (
        lambda t, n: torch.cat([t[:, :-2], n[:, -2:]], dim=1),
        "the last two tokens should stay as they are",
    ),
    "only the last kept": (
        lambda t, n: torch.cat([n[:, :-1], t[:, -1:]], dim=1),
        "the last two tokens should stay as they are",
    ),
    "three kept": (
        lambda t, n: torch.cat([n[:, :-3], t[:, -3:]], dim=1),
        "all tokens before the last two should come from",
    ),
    "nothing replaced": (lambda t, n: t.clone(), "all tokens before the last two should come from"),
    "everything replaced": (lambda t, n: n.clone(), "the last two tokens should stay as they are"),
    "only the first replaced": (
        lambda t, n: torch.cat([n[:, :1], t[:, 1:]], dim=1),
        "all tokens before the last two should come from",
    ),
    "the first three replaced": (
        lambda t, n: torch.cat([n[:, :3], t[:, 3:]], dim=1),
        "all tokens before the last two should come from",
    ),
    "the first text's noise": (
        lambda t, n: torch.cat([n[:1, :-2].expand(len(t), -1), t[:, -2:]], dim=1),
        "all tokens before the last two should come from",
    ),
    "set to zero": (
        lambda t, n: torch.cat([0 * t[:, :-2], t[:, -2:]], dim=1),
        "all tokens before the last two should come from",
    ),
    "cut off": (lambda t, n: t[:, -2:], "the result has shape [3"),
    "added": (
        lambda t, n: torch.cat([t[:, :-2] + n[:, :-2], t[:, -2:]], dim=1),
        "all tokens before the last two should come from",
    ),
    "as numbers with a point": (
        lambda t, n: torch.cat([n[:, :-2], t[:, -2:]], dim=1).float(),
        "it should return tokens",
    ),
    "two tokens replaced": (
        lambda t, n: n.clone() if t.shape[1] == 2 else torch.cat([n[:, :-2], t[:, -2:]], dim=1),
        "with only two tokens there is nothing to replace",
    ),
}


@exercise
def layer_parameters(answer: Answer) -> None:
    """`layer_parameters(cfg) → attention, mlp`: how many weights the matrices of all layers hold."""
    shape = {"d_model": 5, "n_heads": 3, "d_head": 2, "d_mlp": 7, "n_layers": 4, "d_vocab": 11, "n_ctx": 13}
    attention, mlp = _two_numbers(answer(SimpleNamespace(**shape)))
    demand((attention, mlp) != (280, 480), "attention comes first, then the MLPs.")
    demand((attention, mlp) != (120, 70), "these are the weights of one layer; count all n_layers of them.")
    demand(attention != 360, "W_O is missing: each head also writes to the stream.")
    demand(attention != 400, "an attention matrix has d_model × n_heads × d_head entries, not d_model².")
    demand(attention != 160, "these are the weights of a single head; a layer has n_heads of them.")
    demand(mlp != 140, "an MLP has two matrices: W_in and W_out.")
    demand(mlp != 800, "the width of the MLP is d_mlp; only GPT-2 and its kin have 4 d_model.")
    demand(attention != 572 and mlp != 328, "count the matrices alone, without the biases.")
    demand(attention == 480, "the number for attention is wrong: W_Q, W_K, W_V and W_O of every head and layer.")
    demand(mlp == 280, "the number for the MLPs is wrong: W_in and W_out of every layer.")
    other = {"d_model": 6, "n_heads": 2, "d_head": 11, "d_mlp": 3, "n_layers": 1, "d_vocab": 17, "n_ctx": 9}
    demand(
        _two_numbers(answer(SimpleNamespace(**other))) == (528, 36),
        "the numbers are right for one configuration, and not for one with n_heads × d_head above d_model.",
    )


def _two_numbers(value: object) -> tuple[float, float]:
    if isinstance(value, Tensor) and value.shape == (2,):
        value = value.tolist()
    first, second = pair(value, "attention's number and the MLPs'")
    return number(first), number(second)


def _counts(c: Any, attention: int = 4, mlp: int = 2, layers: int | None = None) -> tuple[int, int]:
    layers = layers or c.n_layers
    return layers * attention * c.d_model * c.n_heads * c.d_head, layers * mlp * c.d_model * c.d_mlp


def _all_heads_at_once(c: Any) -> tuple[int, int]:
    counts = _counts(c)
    c.n_heads *= c.n_layers
    return counts


layer_parameters.mistakes = {
    "swapped": (lambda c: _counts(c)[::-1], "attention comes first, then the MLPs"),
    "one layer": (lambda c: _counts(c, layers=1), "these are the weights of one layer"),
    "W_O forgotten": (lambda c: _counts(c, attention=3), "W_O is missing: each head also writes to the"),
    "d_model²": (
        lambda c: (c.n_layers * 4 * c.d_model**2, _counts(c)[1]),
        "an attention matrix has d_model × n_heads × d_head",
    ),
    "one head": (
        lambda c: (c.n_layers * 4 * c.d_model * c.d_head, _counts(c)[1]),
        "these are the weights of a single head",
    ),
    "W_O once for all heads": (
        lambda c: (
            _counts(c, attention=3)[0] + c.n_layers * c.d_model * c.d_head,
            _counts(c)[1],
        ),
        "an attention matrix has d_model × n_heads × d_head",
    ),
    "W_out forgotten": (lambda c: _counts(c, mlp=1), "an MLP has two matrices"),
    "4 d_model assumed": (lambda c: (_counts(c)[0], c.n_layers * 8 * c.d_model**2), "the width of the MLP is d_mlp"),
    "biases counted": (
        lambda c: (
            _counts(c)[0] + c.n_layers * (3 * c.n_heads * c.d_head + c.d_model),
            _counts(c)[1] + c.n_layers * (c.d_mlp + c.d_model),
        ),
        "count the matrices alone",
    ),
    "embeddings counted": (
        lambda c: (_counts(c)[0] + c.d_vocab * c.d_model, _counts(c)[1]),
        "the number for attention is wrong",
    ),
    "a share": (
        lambda c: (_counts(c)[0] / sum(_counts(c)), _counts(c)[1] / sum(_counts(c))),
        "the number for attention is wrong",
    ),
    "the sum": (lambda c: sum(_counts(c)), "it should return two things"),
    "d_head from the others": (
        lambda c: (_counts(c)[0] if c.d_model == 5 else 4 * c.d_model**2, _counts(c)[1]),
        "the numbers are right for one configuration",
    ),
    "the configuration changed": (_all_heads_at_once, "it changes `c.n_heads`, which it was given"),
}
