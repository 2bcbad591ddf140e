"""Checks of lesson 09, MLPs: each exercise as data, with the sentence that each typical mistake gets."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads
from course_utils.course.exercises import Answer, compared
from course_utils.course.fixtures import tiny_model
from course_utils.course.questions import close

ONE_MLP = {"n_layers": 1, "n_heads": 1, "attn_only": False, "act_fn": "relu", "positional_embedding_type": "standard"}
TOKENS = torch.tensor([[5, 4, 1], [0, 3, 5]])
LAST = "[batch, logit], at the last position alone"
Two = tuple[Tensor, Tensor]


def _model() -> HookedTransformer:
    return tiny_model(0.7, **ONE_MLP, d_model=6, d_head=4, d_mlp=8, d_vocab=7, n_ctx=5)


def _other(batch: int, length: int, *more: Any) -> tuple:
    """A model of other sizes, texts for it, and what else there is to give."""
    model = tiny_model(0.7, **ONE_MLP, d_model=9, d_head=3, d_mlp=5, d_vocab=11, n_ctx=7)
    return model, torch.arange(2, 2 + batch * length).view(batch, length) % 11, *more


def _waves(n: int, period: float, m: int, turns: float = 1, times: float = 2, up: int = 1, sine: float = 0) -> Two:
    """The right answer, with something to get wrong in what follows `m`."""
    angle, phase = 2 * math.pi * torch.arange(n) / period, 2 * math.pi * torch.arange(m) / m
    return (angle[:, None] - turns * phase - sine).cos(), up * (angle - times * phase[:, None]).cos()


def _unlike_waves(got: Sequence[Tensor], right: Two, n: int, period: int, m: int) -> str | None:
    """What is wrong with the curves, or with the votes alone, in the first case."""
    if n != 24:
        return None
    (curves, votes), first = got, got[0][:, 0]
    if not close(curves[:period], curves[period : 2 * period]):
        return "a curve should come back after `period` values: its angle is 2π value / period."
    if not close(first[0], 1) or not close(first.max(), 1):
        return "neuron 0's curve should have a crest of height 1 at value 0."
    if not close(first, right[0][:, 0]):
        return "neuron 0's curve should be cos(2π value / period)."
    if not close(curves, right[0]):
        return "neuron j's curve should have its crest at the phase 2πj/m, j = 0, 1, … m − 1."
    of_period = close(votes[:, :period], votes[:, period : 2 * period])
    return None if of_period else "the votes should have the same period as the curves."


wave_neurons = compared(
    "`wave_neurons(n, period, m) → curves [n, m], votes [m, n]`: m neurons of one ruler, phases evenly spread.",
    returns=("the curves [value, neuron]", "the votes [neuron, output]"),
    cases=lambda: {
        "the votes should be waves of height 1, with their crests at twice the phase.": (24, 8, 5),
        "it is right for n = 24, period = 8, m = 5, and wrong for n = 30, period = 7, m = 3.": (30, 7, 3),
        "it is right for n = 24, period = 8, m = 5, and wrong for n = 17, period = 19.7, m = 4.": (17, 19.7, 4),
        "it is right for n = 24, period = 8, m = 5, and wrong for n = 9, period = 3, m = 1.": (9, 3, 1),
    },
    mistakes={
        "neuron j's curve should have its crest at the phase 2πj/m, not at −2πj/m: cos(angle − phase).": (
            lambda n, p, m: _waves(n, p, m, turns=-1, times=-2),
            lambda n, p, m: _waves(n, p, m, turns=-1),
        ),
        "each neuron votes for what its operands are, with the phase of its curve. But it fires when both are there, "
        "and then the sum is somewhere else.": lambda n, p, m: _waves(n, p, m, times=1),
        "the votes are upside down: where the sum should be is now a trough.": lambda n, p, m: _waves(n, p, m, up=-1),
    },
    explain=_unlike_waves,
)


def _foretold(a: int, b: int, p: list[int], blind: Answer = lambda d, q: d % q * 2 == q, start: int = 0) -> int:
    seeing = [q for q in p if not blind(abs(a - b), q)]
    return next(c for c in range(start, 999) if all((a + b - c) % q == 0 for q in seeing))


foretell = compared(
    "`foretell(a, b, periods) → int`: what an adder made of such rulers will say, its mistakes included.",
    cases=lambda: {
        "3 + 2 with rulers of 20, 7 and 3: none is blind, and the answer is 5.": (3, 2, [20, 7, 3]),
        "50 + 30 with rulers of 7 and 3: 80 leaves 3 and 2; the smallest such is 17.": (50, 30, [7, 3]),
        "at a difference of a whole period a ruler sees everything.": (50, 30, [20, 7, 3]),
        "40 + 37 with rulers of 7 and 20: a ruler of odd period is never blind, because no whole number is half of "
        "it.": (40, 37, [7, 20]),
        "45 + 35 with rulers of 20, 7 and 3: without the blind one the smallest number that fits is 17.": [
            (45, 35, [20, 7, 3])
        ],
        "35 + 45 should be foretold as 45 + 35 is.": (35, 45, [20, 7, 3]),
        "at a difference of one and a half periods a ruler is blind as well.": (55, 25, [20, 7, 3]),
        "when all rulers are blind every number fits, and the smallest is 0.": (5, 0, [10]),
        **{
            f"{a} + {b} with rulers of {', '.join(map(str, periods))} is foretold wrong: which of them see, and what "
            "is the smallest number that has the sum's remainder for each of those?": (a, b, periods)
            for periods in ([12, 5], [4, 9, 6], [2, 3])
            for a in range(0, 40, 3)
            for b in range(0, 40, 7)
        },
    },
    mistakes={  # those told of single cases are wrong there alone
        "50 + 30 with rulers of 7 and 3: they know the sum only up to 21, and a tie goes to the smallest number.": (
            lambda a, b, p: a + b if p == [7, 3] else _foretold(a, b, p)
        ),
        "45 + 35 with rulers of 20, 7 and 3: the difference is half of 20, so that ruler is blind.": lambda a, b, p: (
            a + b if a == 45 else _foretold(a, b, p)
        ),
        "when all rulers are blind every number fits, and the smallest is 0.": lambda a, b, p: _foretold(
            a, b, p, start=1
        ),
    },
)


def _row(model: HookedTransformer, tokens: Tensor) -> Tensor:
    """The last position's attention, [batch, source]."""
    return heads.patterns(model, tokens)[0, 0, :, -1]


def _two_parts(model: HookedTransformer, tokens: Tensor, row: Tensor | None = None, places: float = 1) -> Two:
    """The right answer, or that of another attention, or without `places`."""
    x = model.W_E[tokens] + places * model.W_pos[: tokens.shape[1]]
    mixed = torch.einsum("bs,bsd->bd", _row(model, tokens) if row is None else row, x)
    return x[:, -1] @ model.W_in[0], mixed @ model.W_V[0, 0] @ model.W_O[0, 0] @ model.W_in[0]


def _changed(change: Callable[[Tensor, Tensor], Any]) -> Answer:
    """The right answer with its two parts changed: `change(residual, head)`."""
    return lambda model, tokens: change(*_two_parts(model, tokens))


def _without_OV(model: HookedTransformer, tokens: Tensor) -> Two:
    x = model.W_E[tokens] + model.W_pos[: tokens.shape[1]]
    return x[:, -1] @ model.W_in[0], (_row(model, tokens)[:, :, None] * x).sum(1) @ model.W_in[0]


def _unlike_residual(got: Sequence[Tensor], right: Two, model: HookedTransformer, tokens: Tensor) -> str | None:
    if len(tokens) != len(TOKENS) or close(got[0], right[0]):
        return None
    return "the first part is not what the MLP reads of the last token: its embedding and position, through W_in."


preactivations = compared(
    "`preactivations(model, tokens) → residual, head`: the two parts of the MLP's input at the last position.",
    returns=("the residual path's part [batch, neuron]", "the head's part [batch, neuron]"),
    cases=lambda: {
        "the two parts should add up to what the model's own neurons receive (hook_pre). The residual path is right; "
        "look at the head's.": (_model(), TOKENS.clone()),
        "it fails for another model, with 4 texts of length 2.": _other(4, 2),
        "it fails for another model, with 3 texts of length 6.": _other(3, 6),
        "it fails for another model, with 1 texts of length 1.": _other(1, 1),
    },
    mistakes={
        "the residual path is missing: the last token itself reaches the MLP.": _changed(lambda r, h: (0 * r, h)),
        "the two parts are there, in the wrong order: the residual path comes first.": _changed(lambda r, h: (h, r)),
        "the residual path carries the last token's position too: W_pos is part of the stream.": (
            lambda m, t: _two_parts(m, t, places=0),
            lambda m, t: (_two_parts(m, t, places=0)[0], _two_parts(m, t)[1]),
        ),
        "these parts come before the ReLU, not after.": (
            _changed(lambda r, h: (r.relu(), h.relu())),
            _changed(lambda r, h: (r, h.relu())),
            _changed(lambda r, h: (r.relu(), h)),
        ),
        "the head's part holds the residual path as well; each path should count once.": _changed(
            lambda r, h: (r, r + h)
        ),
        "the head's part does not use the attention that this model pays: mix with `attention`, not in equal parts.": (
            lambda m, t: _two_parts(m, t, torch.full(t.shape, 1 / t.shape[1])),
            lambda m, t: _two_parts(m, t, torch.full(t.shape, 0.5)),
        ),
        "the head's part leaves out the head's own matrices: W_V and W_O stand between the mixture and W_in.": (
            _without_OV
        ),
    },
    explain=_unlike_residual,
)


def _hooked(name: str, change: Callable[[Tensor, Any], Tensor]) -> Answer:
    """Last logits when an activation is `change(activation, given)`."""

    def answer(model: HookedTransformer, tokens: Tensor, given: Any) -> Tensor:
        hooks: list[Any] = [(f"blocks.0.{name}", lambda activation, hook: change(activation.clone(), given))]
        return model.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1]

    return answer


def _forced(model: HookedTransformer, tokens: Tensor, weights: Tensor) -> Tensor:
    x = model.W_E[tokens] + model.W_pos[: tokens.shape[1]]
    mid = x[:, -1] + weights @ x @ model.W_V[0, 0] @ model.W_O[0, 0]
    return (mid + (mid @ model.W_in[0]).relu() @ model.W_out[0]) @ model.W_U


with_attention = compared(
    "`with_attention(model, tokens, weights) → [batch, d_vocab]`: last logits under a given last row of attention.",
    returns=LAST,
    cases=lambda: {
        "in the last row, each source should get the weight that is given for it.": [
            (_model(), TOKENS.clone(), torch.tensor([0.7, 0.2, 0.3]))
        ],
        "it fails for another model, with 4 texts of length 2.": _other(4, 2, torch.tensor([0.0, 1.0])),
        "it fails for another model, with 3 texts of length 6.": _other(3, 6, torch.arange(-0.5, 0.7, 0.2)),
        "it fails for another model, with 1 texts of length 1.": _other(1, 1, torch.tensor([0.6])),
    },
    mistakes={
        "the last position still pays its own attention: these are the model's own logits.": (
            lambda m, t, w: m(t)[:, -1]
        ),
        "the weights went through a softmax: replace the pattern, not the scores.": (
            lambda m, t, w: _forced(m, t, w.softmax(0))
        ),
        "use the weights as they are given, not normalised.": lambda m, t, w: _forced(m, t, w / w.sum()),
        "these are probabilities, or their logarithms; return the logits.": (
            lambda m, t, w: _forced(m, t, w).softmax(-1),
            lambda m, t, w: _forced(m, t, w).log_softmax(-1),
        ),
    },
)


def _zeroed(post: Tensor, neurons: list[int]) -> Tensor:
    post[..., neurons] = 0
    return post


def _silent(model: HookedTransformer, tokens: Tensor, neurons: list[int]) -> Tensor:
    cache = model.run_with_cache(tokens)[1]
    speak = [n for n in range(model.W_out.shape[1]) if n not in neurons]
    return (cache["resid_mid", 0] + cache["post", 0][..., speak] @ model.W_out[0, speak])[:, -1] @ model.W_U


without_neurons = compared(
    "`without_neurons(model, tokens, neurons) → [batch, d_vocab]`: last logits when these neurons are silent.",
    returns=LAST,
    cases=lambda: {
        "each of the given neurons, and no other, should give 0 after the ReLU.": (_model(), TOKENS.clone(), [3, 2, 0]),
        "it fails for another model, with 4 texts of length 2 and 1 neurons.": _other(4, 2, [3]),
        "it fails for another model, with 3 texts of length 6 and 5 neurons.": _other(3, 6, [0, 1, 2, 3, 4]),
        "it fails for another model, with 1 texts of length 3 and 0 neurons.": _other(1, 3, []),
    },
    mistakes={
        "these are the model's own logits: the neurons still speak.": lambda m, t, n: m(t)[:, -1],
        "these neurons alone speak, and they should be the silent ones.": _hooked(
            "mlp.hook_post", lambda post, n: post - _zeroed(post.clone(), n)
        ),
        "these are probabilities, or their logarithms; return the logits.": (
            lambda m, t, n: _silent(m, t, n).softmax(-1),
            lambda m, t, n: _silent(m, t, n).log_softmax(-1),
        ),
    },
)
