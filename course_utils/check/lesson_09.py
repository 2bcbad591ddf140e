"""Checks of lesson 09, MLPs."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch

from course_utils import fourier, models
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor

TINY = {"n_layers": 1, "d_model": 6, "n_heads": 1, "d_head": 6, "n_ctx": 4, "d_vocab": 7, "d_mlp": 6, "act_fn": "relu"}
TINY |= {"normalization_type": None, "positional_embedding_type": "standard", "seed": 0}


def _model():
    """A small model with weights large enough that attention is far from uniform."""
    model = models.initial(TINY).requires_grad_(False)
    for seed, (name, weight) in enumerate(sorted(model.named_parameters())):
        if ".b_" not in name:
            weight.data = random(*weight.shape, seed=seed)
    return model


@exercise
def preactivations(answer: Callable) -> None:
    """`preactivations(model, tokens) → residual, head`: the two parts of the MLP's input at the last position."""
    model = _model()
    tokens = torch.tensor([[5, 4, 1], [0, 3, 5]])  # here every source gets at least 15 % of the attention
    result = answer(model, tokens)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Wrong("it should return two tensors: the residual path's part and the head's part.")
    residual, head = (tensor(part, (2, 6), "[batch, neuron], at the last position alone") for part in result)
    W_in, x = model.W_in[0], model.W_E[tokens] + model.W_pos[:3]
    wanted = x[:, -1] @ W_in
    _, cache = model.run_with_cache(tokens)
    whole = cache["pre", 0][:, -1]
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
        close(residual, wanted),
        "the first part is not what the MLP reads of the last token: its embedding and position, through W_in.",
    )
    demand(not close(head, whole), "the head's part holds the residual path as well; each path should count once.")
    demand(
        not (head.ge(0).all() or close(head, (whole - wanted).relu())), "these parts come before the ReLU, not after."
    )
    demand(
        not close(head, x.mean(1) @ model.W_V[0, 0] @ model.W_O[0, 0] @ W_in),
        "the head's part does not use the attention that this model pays: its pattern is not uniform.",
    )
    demand(
        close(residual + head, whole),
        "the two parts should add up to what the model's own neurons receive (hook_pre). The residual path is right; "
        "look at the head's.",
    )


@exercise
def with_attention(answer: Callable) -> None:
    """`with_attention(model, tokens, weights) → [batch, d_vocab]`: last logits under a given last row of attention."""
    model = _model()
    tokens, weights = torch.tensor([[2, 6, 0], [5, 1, 3]]), torch.tensor([0.7, 0.2, 0.3])
    before = model(tokens)
    result = tensor(answer(model, tokens, weights), (2, 7), "[batch, logit], at the last position alone")
    demand(
        close(model(tokens), before),
        "after your function the model itself gives other answers: the hook must go (run_with_hooks removes it).",
    )
    demand(not close(result, before[:, -1]), "the attention was not replaced: these are the model's own logits.")
    x = model.W_E[tokens] + model.W_pos[:3]

    def logits(row):
        mid = x[:, -1] + (row[:, None] * x).sum(1) @ model.W_V[0, 0] @ model.W_O[0, 0]
        return (mid + (mid @ model.W_in[0]).relu() @ model.W_out[0]) @ model.W_U

    demand(
        not close(result, logits(weights.softmax(0))),
        "the weights went through a softmax: replace the pattern, not the scores.",
    )
    demand(not close(result, logits(weights / weights.sum())), "use the weights as they are given, not normalised.")
    demand(close(result, logits(weights)), "in the last row, each source should get the weight that is given for it.")


@exercise
def fourier_power(answer: Callable) -> None:
    """`fourier_power(W) → [freq, neuron]`: the variance of each column at the frequencies 0 … n/2."""
    rows = torch.arange(16.0)
    W = torch.stack([3 * torch.cos(2 * math.pi * 2 * rows / 16 - 1), torch.cos(math.pi * rows)], dim=1)
    shape, means = (9, 2), "[frequency 0 … n/2, neuron]"
    raw = answer(W)
    demand(
        not (isinstance(raw, torch.Tensor) and raw.is_complex()), "power is the square of an absolute value, and real."
    )
    result = tensor(raw, shape, means)
    lifted = tensor(answer(W + torch.tensor([10.0, -4])), shape, means)
    demand(
        close(lifted[0], torch.zeros(2)),
        "the constant (DC) is left in: adding 10 to a column gives it power at frequency 0, and no variation.",
    )
    demand(
        result.argmax(0).tolist() == [2, 8],
        "column 0 is a wave of 2 periods, column 1 one of n/2; the most power should stand in rows 2 and n/2.",
    )
    doubled = tensor(answer(2 * W), shape, means)
    demand(close(doubled, 4 * result), "a column twice as high should have four times the power: square it.")
    demand(
        close(lifted, result), "adding a constant to a column should change no power: take each column's own mean off."
    )
    demand(
        close(tensor(answer(W.repeat(2, 1)), (17, 2), means).sum(0), result.sum(0)),
        "the same wave over twice as many rows should have the same power: look at the division by n.",
    )
    noisy = random(16, 2)
    demand(
        not close(tensor(answer(noisy), shape, means)[8] / 2, fourier.power(noisy)[8]),
        "frequency n/2 has no partner n − k, so it is not counted twice.",
    )
    demand(
        close(result.sum(0), W.var(0, correction=0)),
        "the powers of a column should add up to its variance: each frequency stands for k and for n − k, except n/2.",
    )
    W = random(17, 3, seed=1) + torch.tensor([0.0, 5, -3])
    found = tensor(answer(W), (9, 3), means)
    demand(close(found, fourier.power(W)), "with an odd number of rows the last frequency has a partner too.")


@exercise
def wave_phase(answer: Callable) -> None:
    """`wave_phase(W, frequency) → [neuron]`: the angle of the best-fitting wave in each column."""
    rows, planted = torch.arange(24.0), torch.tensor([-2.5, -0.4, 0.9, 2.8])

    def columns(frequency, mean):
        return 3 * torch.cos(2 * math.pi * frequency * rows[:, None] / 24 - planted) + mean

    def off(frequency, mean, expected):
        found = tensor(answer(columns(frequency, mean), frequency), (4,), "one angle for each column")
        return (1 - torch.cos(found - expected)).max()

    demand(
        off(3, 0.0, -planted) > 1e-3,
        "the sign is turned round: the crest of A cos(2πft/n − φ) stands at 2πft/n = φ, so φ grows as it moves on.",
    )
    demand(
        off(3, 0.0, math.pi / 2 - planted) > 1e-3 and off(3, 0.0, planted - math.pi / 2) > 1e-3,
        "sine and cosine are mixed up: a wave whose crest stands in row 0 has the phase 0.",
    )
    found = answer(columns(3, 0.0), 3)
    demand(
        not (isinstance(found, torch.Tensor) and (found.abs() > 7).any()),
        "give angles in radians, not degrees or rows.",
    )
    demand(off(3, 0.0, planted) < 1e-3, "waves of 3 periods with known phases do not get them back.")
    demand(off(5, 0.0, planted) < 1e-3, "waves of 3 periods get their phases back, waves of 5 periods do not.")
    demand(off(3.4, 0.0, planted) < 1e-4, "the frequency 3.4 is no whole number: fit the wave, by least squares.")
    demand(
        off(3.4, 9.0, planted) < 1e-4,
        "a constant under a wave of 3.4 periods shifts your phases: fit the constant along with it.",
    )


@exercise
def projected(answer: Callable) -> None:
    """`projected(W, frequencies) → W'`: what a constant and some waves, fitted by least squares, leave of a column."""
    rows = torch.arange(20.0)
    angle = 2 * math.pi * rows / 20
    W, means = random(20, 3) + 4, "that of W"
    whole = tensor(answer(W, [2, 5]), (20, 3), means)
    demand(not close(whole.mean(0), torch.zeros(3)), "the constant is gone: it belongs to what is kept.")
    demand(close(whole.mean(0), W.mean(0)), "each column should keep its own mean.")
    kept = torch.stack([3 + torch.cos(2 * angle - 1), torch.sin(5 * angle), torch.ones(20)], dim=1)
    result = tensor(answer(kept, [2, 5]), (20, 3), means)
    demand(
        close(result, kept) or not close(result.mean(0), kept.mean(0)),
        "waves of 2 and 5 periods should come through [2, 5] unchanged, whatever their phase: cosine and sine.",
    )
    gone = tensor(answer(torch.cos(3 * angle - 1)[:, None], [2, 5]), (20, 1), means)
    demand(close(gone, 0 * gone), "a wave of 3 periods should not come through [2, 5]: keep what fits, not the rest.")
    slow = torch.stack([torch.cos(2.3 * angle - 1) + 2, torch.cos(2.9 * angle)], dim=1)
    result = tensor(answer(slow, [2.3, 2.9]), (20, 2), means)
    demand(
        close(result, slow),
        "waves of 2.3 and 2.9 periods should come through [2.3, 2.9] unchanged. Such waves are not orthogonal, to each "
        "other or to the constant: fit all of them at once, by least squares.",
    )
    demand(
        close(tensor(answer(W, [1.3, 6]), (20, 3), means), fourier.projected(W, [1.3, 6])),
        "on noise, this is not the least-squares fit of the constant and the waves.",
    )


@exercise
def corrupt_early(answer: Callable) -> None:
    """`corrupt_early(tokens, noise) → tokens`: all but the last two tokens taken from `noise`."""
    tokens, noise = torch.arange(10).view(2, 5), torch.arange(50, 60).view(2, 5)
    given = tokens.clone()
    result = answer(given, noise)
    demand(torch.equal(given, tokens), "your function changes the tokens that it was given: work on a copy.")
    demand(
        isinstance(result, torch.Tensor) and not result.is_floating_point(), "it should return tokens: whole numbers."
    )
    result = tensor(result, (2, 5), "that of the tokens").long()
    demand(torch.equal(result[:, -2:], tokens[:, -2:]), "the last two tokens should stay as they are.")
    demand(torch.equal(result[:, :-2], noise[:, :-2]), "all tokens before the last two should come from the noise.")
    short = tensor(answer(tokens[:, :2], noise[:, :2]), (2, 2), "that of the tokens").long()
    demand(torch.equal(short, tokens[:, :2]), "with only two tokens there is nothing to replace.")


@exercise
def layer_parameters(answer: Callable) -> None:
    """`layer_parameters(cfg) → attention, mlp`: how many weights the matrices of all layers hold."""
    shape = {"d_model": 5, "n_heads": 3, "d_head": 2, "d_mlp": 7, "n_layers": 4, "d_vocab": 11, "n_ctx": 13}
    result = answer(SimpleNamespace(**shape))
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Wrong("it should return two numbers: attention's and the MLPs'.")
    attention, mlp = map(number, result)
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
