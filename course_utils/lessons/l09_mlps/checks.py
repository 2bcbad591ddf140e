"""Checks of lesson 09, MLPs: each exercise as data, with the sentence that each typical mistake gets."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads, interventions
from course_utils.course.exercises import Answer, compared
from course_utils.course.fixtures import tiny_model
from course_utils.course.questions import close

ONE_MLP = {"n_layers": 1, "n_heads": 1, "attn_only": False, "act_fn": "relu", "positional_embedding_type": "standard"}
Two = tuple[Tensor, Tensor]


def _model() -> HookedTransformer:
    return tiny_model(0.7, **ONE_MLP, d_model=6, d_head=4, d_mlp=8, d_vocab=7, n_ctx=5)


def _other(batch: int, length: int) -> tuple[HookedTransformer, Tensor]:
    """A model of other sizes, and texts for it."""
    model = tiny_model(0.7, **ONE_MLP, d_model=9, d_head=3, d_mlp=5, d_vocab=11, n_ctx=7)
    return model, torch.arange(2, 2 + batch * length).view(batch, length) % 11


def _waves(n: int, period: float, m: int, times: float = 2, turns: float = 1, wave: Callable = torch.cos) -> Two:
    angle = 2 * math.pi * torch.arange(n) / period
    phase = turns * 2 * math.pi * torch.arange(m) / m
    return wave(angle[:, None] - phase), (angle - times * phase[:, None]).cos()


def _unlike_waves(got: Sequence[Tensor], right: Two, n: int, period: int, m: int) -> str | None:
    """What is wrong with the curves, in the first case, or with the votes alone."""
    (curves, votes), first = got, got[0][:, 0]
    holds = {
        "a curve should come back after `period` values: its angle is 2π value / period.": close(
            curves[:period], curves[period : 2 * period]
        ),
        "neuron 0's curve should have a crest of height 1 at value 0.": close(first[0], 1) and close(first.max(), 1),
        "neuron 0's curve should be cos(2π value / period).": close(first, right[0][:, 0]),
        "neuron j's curve should have its crest at the phase 2πj/m, j = 0, 1, … m − 1.": close(curves, right[0]),
        "the votes should have the same period as the curves.": close(votes[:, :period], votes[:, period : 2 * period]),
    }
    return next((sentence for sentence, yes in holds.items() if not yes), None) if n == 24 else None


wave_neurons = compared(
    "`wave_neurons(n, period, m) → curves [n, m], votes [m, n]`: m neurons of one ruler, phases evenly spread.",
    returns=("the curves [value, neuron]", "the votes [neuron, output]"),
    cases=lambda: {
        "the votes should be waves of height 1, with their crests at twice the phase.": (24, 8, 5),
        **{
            f"it is right for n = 24, period = 8, m = 5, and wrong for n = {n}, period = {p}, m = {m}.": (n, p, m)
            for n, p, m in ((30, 7, 3), (17, 19.7, 4), (9, 3, 1))
        },
    },
    mistakes={
        "neuron j's curve should have its crest at the phase 2πj/m, not at −2πj/m: cos(angle − phase).": (
            lambda n, p, m: _waves(n, p, m, turns=-1),
            lambda n, p, m: (_waves(n, p, m, turns=-1)[0], _waves(n, p, m)[1]),
        ),
        "each neuron votes for what its operands are, with the phase of its curve. But it fires when both are there, "
        "and then the sum is somewhere else.": lambda n, p, m: _waves(n, p, m, times=1),
        "the votes are upside down: where the sum should be is now a trough.": lambda n, p, m: (
            _waves(n, p, m)[0],
            -_waves(n, p, m)[1],
        ),
    },
    explain=_unlike_waves,
    elsewhere={
        "a curve should come back": (
            lambda n, p, m: _waves(n, n / p, m),
            lambda n, p, m: _waves(n, p * math.tau, m),
        ),
        "a crest of height 1 at value 0": lambda n, p, m: _waves(n, p, m, wave=torch.sin),
        "should be cos(2π value / period)": lambda n, p, m: _waves(n, p / 2, m),
        "at the phase 2πj/m, j = 0, 1": (
            lambda n, p, m: _waves(n, p, m, turns=0.5),
            lambda n, p, m: _waves(n, p, m, turns=m / max(1, m - 1)),
        ),
        "the same period as the curves": lambda n, p, m: (_waves(n, p, m)[0], _waves(n, n / p, m)[1]),
        "with their crests at twice the phase": lambda n, p, m: _waves(n, p, m, times=3),
        "and wrong for n = 17, period = 19.7, m = 4.": lambda n, p, m: _waves(n, round(p), m),
    },
    also_right={
        "a loop over neurons": lambda n, p, m: (
            torch.stack([torch.cos(math.tau * (torch.arange(n) / p - j / m)) for j in range(m)], 1),
            torch.stack([torch.cos(math.tau * (torch.arange(n) / p - 2 * j / m)) for j in range(m)]),
        ),
        "numpy": lambda n, p, m: (
            np.cos(2 * np.pi * np.subtract.outer(np.arange(n) / p, np.arange(m) / m)),
            np.cos(2 * np.pi * np.subtract.outer(2 * np.arange(m) / m, np.arange(n) / p)),
        ),
        "points on a circle": lambda n, p, m: (
            torch.tensor([[np.exp(2j * np.pi * (v / p - j / m)).real for j in range(m)] for v in range(n)]),
            torch.tensor([[np.exp(2j * np.pi * (v / p - j / m * 2)).real for v in range(n)] for j in range(m)]),
        ),
    },
)


def _foretold(a: int, b: int, periods: Sequence[int], blind: Answer = lambda d, p: d % p * 2 == p) -> int:
    seeing = [p for p in periods if not blind(abs(a - b), p)]
    return next(c for c in range(a + b + 1) if all((a + b - c) % p == 0 for p in seeing))


def _too_good(got: float, right: int, a: int, b: int, periods: Sequence[int]) -> str | None:
    says = {
        50: "50 + 30 with rulers of 7 and 3: they know the sum only up to 21, and a tie goes to the smallest number.",
        45: "45 + 35 with rulers of 20, 7 and 3: the difference is half of 20, so that ruler is blind.",
    }
    return says.get(a) if got == a + b == 80 else None


foretell = compared(
    "`foretell(a, b, periods) → int`: what an adder made of such rulers will say, its mistakes included.",
    cases=lambda: {
        "3 + 2 with rulers of 20, 7 and 3: none is blind, and the answer is 5.": (3, 2, [20, 7, 3]),
        "50 + 30 with rulers of 7 and 3: 80 leaves 3 and 2; the smallest such is 17.": (50, 30, [7, 3]),
        "at a difference of a whole period a ruler sees everything.": (50, 30, [20, 7, 3]),
        "40 + 37 with rulers of 7 and 20: a ruler of odd period is never blind, because no whole number is half of "
        "it.": (40, 37, [7, 20]),
        "45 + 35 with rulers of 20, 7 and 3: without the blind one the smallest number that fits is 17.": (
            *(45, 35),
            [20, 7, 3],
        ),
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
    mistakes={
        "when all rulers are blind every number fits, and the smallest is 0.": lambda a, b, periods: next(
            c for c in range(1, 999) if all((a + b - c) % p == 0 for p in periods if abs(a - b) % p * 2 != p)
        ),
    },
    explain=_too_good,
    elsewhere={
        "they know the sum only up to 21": lambda a, b, p: a + b,
        "so that ruler is blind": lambda a, b, p: _foretold(a, b, p, lambda d, q: False),
        "one and a half periods": lambda a, b, p: _foretold(a, b, p, lambda d, q: 2 * d == q),
        "at a difference of a whole period": lambda a, b, p: _foretold(a, b, p, lambda d, q: d > 0 and 2 * d % q == 0),
        "a ruler of odd period is never blind": lambda a, b, p: _foretold(a, b, p, lambda d, q: d % q == q // 2),
        "foretold as 45 + 35 is": lambda a, b, p: _foretold(a, b, p, lambda d, q: a > b and d % q * 2 == q),
        "is foretold wrong": lambda a, b, p: (a + b) % math.prod(q for q in p if abs(a - b) % q * 2 != q),
        "none is blind, and the answer is 5": lambda a, b, p: _foretold(a, b, p, lambda d, q: d % q * 2 != q),
    },
    also_right={
        "the votes of the rulers": lambda a, b, p: max(
            range(a + b + 1),
            key=lambda c: (sum((a + b - c) % q == 0 for q in p if (a - b) % q != q / 2), -c),
        ),
        "modulo the least common multiple": lambda a, b, p: (
            (a + b) % math.lcm(*(q for q in p if q % 2 or (a - b - q // 2) % q))
        ),
        "torch": lambda a, b, p: (
            torch.stack([torch.arange(a + b + 1) % q == (a + b) % q for q in [1, *p] if 2 * (a - b) % (2 * q) != q])
            .all(0)
            .int()
            .argmax()
        ),
    },
)


def _two_parts(model: HookedTransformer, tokens: Tensor, attention: Tensor | None = None, places: float = 1) -> Two:
    """The right answer, or that of another attention, or without `places`."""
    x = model.W_E[tokens] + places * model.W_pos[: tokens.shape[1]]
    attention = heads.patterns(model, tokens)[0, 0, :, -1] if attention is None else attention
    head = torch.einsum("bs,bsd->bd", attention, x) @ model.W_V[0, 0] @ model.W_O[0, 0]
    return x[:, -1] @ model.W_in[0], head @ model.W_in[0]


def _changed(change: Callable[[Tensor, Tensor], Any]) -> Answer:
    """The right answer with its two parts changed: `change(residual, head)`."""
    return lambda model, tokens: change(*_two_parts(model, tokens))


def _from_cache(model: HookedTransformer, tokens: Tensor) -> Two:
    cache = model.run_with_cache(tokens)[1]
    return cache["resid_pre", 0][:, -1] @ model.W_in[0], cache["attn_out", 0][:, -1] @ model.W_in[0]


def _by_difference(model: HookedTransformer, tokens: Tensor) -> Two:
    residual = (model.W_E[tokens[:, -1]] + model.W_pos[tokens.shape[1] - 1]).double() @ model.W_in[0].double()
    return residual, model.run_with_cache(tokens)[1]["pre", 0][:, -1] - residual


def _text_by_text(model: HookedTransformer, tokens: Tensor) -> Two:
    parts = []
    for text in tokens:
        mid = model.run_with_cache(text[None])[1]["z", 0][0, -1, 0] @ model.W_O[0, 0]
        parts.append([(model.W_E[text[-1]] + model.W_pos[len(text) - 1]) @ model.W_in[0], mid @ model.W_in[0]])
    return tuple(map(torch.stack, zip(*parts, strict=True)))


def _unlike_residual(got: Sequence[Tensor], right: Two, model: HookedTransformer, tokens: Tensor) -> str | None:
    if model.cfg.d_vocab != 7 or close(got[0], right[0]):
        return None
    return "the first part is not what the MLP reads of the last token: its embedding and position, through W_in."


preactivations = compared(
    "`preactivations(model, tokens) → residual, head`: the two parts of the MLP's input at the last position.",
    returns=("the residual path's part [batch, neuron]", "the head's part [batch, neuron]"),
    cases=lambda: {
        "the two parts should add up to what the model's own neurons receive (hook_pre). The residual path is right; "
        "look at the head's.": (_model(), torch.tensor([[5, 4, 1], [0, 3, 5]])),
        **{
            f"it fails for another model, with {batch} texts of length {length}.": _other(batch, length)
            for batch, length in ((4, 2), (3, 6), (1, 1))
        },
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
            lambda m, t: (
                _two_parts(m, t)[0],
                (heads.patterns(m, t)[0, 0, :, -1, :, None] * m.run_with_cache(t)[1]["resid_pre", 0]).sum(1)
                @ m.W_in[0],
            )
        ),
        "the two parts should add up to what the model's own neurons receive (hook_pre). The residual path is right; "
        "look at the head's.": lambda m, t: (_two_parts(m, t)[0], _two_parts(m, t, places=0)[1]),
    },
    explain=_unlike_residual,
    elsewhere={
        "the first part is not what the MLP reads": lambda m, t: (_two_parts(m, t[:, :1])[0], _two_parts(m, t)[1]),
        "it fails for another model, with 3 texts of length 6.": lambda m, t: _two_parts(
            m, t, heads.patterns(m, t)[0, 0, :, -1] * (torch.arange(t.shape[1]) < 3)
        ),
    },
    also_right={
        "what the layer reads and what its head writes": _from_cache,
        "all that the neurons receive less the residual path": _by_difference,
        "text by text": _text_by_text,
    },
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


def _frozen(model: HookedTransformer, tokens: Tensor, weights: Tensor) -> Tensor:
    pattern = heads.patterns(model, tokens)[0].transpose(0, 1).clone()
    pattern[:, 0, -1] = weights
    with interventions.patched(model, "blocks.0.attn.hook_pattern", pattern):
        return model(tokens)[:, -1]


with_attention = compared(
    "`with_attention(model, tokens, weights) → [batch, d_vocab]`: last logits under a given last row of attention.",
    returns="[batch, logit], at the last position alone",
    cases=lambda: {
        "in the last row, each source should get the weight that is given for it.": (
            _model(),
            torch.tensor([[2, 6, 0], [5, 1, 3]]),
            torch.tensor([0.7, 0.2, 0.3]),
        ),
        **{
            f"it fails for another model, with {batch} texts of length {len(weights)}.": (
                *_other(batch, len(weights)),
                torch.tensor(weights),
            )
            for batch, weights in ((4, [0.0, 1.0]), (3, [0.1, -0.5, 0.4, 0.9, 0.2, 0.3]), (1, [0.6]))
        },
    },
    mistakes={
        "the last position still pays its own attention: these are the model's own logits.": lambda m, t, w: m(t)[
            :, -1
        ],
        "the weights went through a softmax: replace the pattern, not the scores.": lambda m, t, w: _forced(
            m, t, w.softmax(0)
        ),
        "use the weights as they are given, not normalised.": lambda m, t, w: _forced(m, t, w / w.sum()),
        "these are probabilities, or their logarithms; return the logits.": (
            lambda m, t, w: _forced(m, t, w).softmax(-1),
            lambda m, t, w: _forced(m, t, w).log_softmax(-1),
        ),
        "in the last row, each source should get the weight that is given for it.": lambda m, t, w: _forced(
            m, t, w.flip(0)
        ),
        "it fails for another model, with 3 texts of length 6.": lambda m, t, w: _forced(
            m, t, w * (torch.arange(len(w)) < 3)
        ),
    },
    also_right={
        "no hook": _forced,
        "a pattern made before": _frozen,
        "every row replaced": _hooked("attn.hook_pattern", lambda pattern, weights: weights.expand_as(pattern)),
        "values mixed in a hook": lambda m, t, w: _hooked(
            "attn.hook_z", lambda z, v: torch.einsum("s,bshd->bhd", w, v)[:, None].expand_as(z)
        )(m, t, m.run_with_cache(t)[1]["v", 0]),
    },
)


def _zeroed(post: Tensor, neurons: list[int]) -> Tensor:
    post[..., neurons] = 0
    return post


def _by_hand(model: HookedTransformer, tokens: Tensor, neurons: list[int]) -> Tensor:
    cache = model.run_with_cache(tokens)[1]
    mid, post = (cache[name, 0][:, -1].numpy() for name in ("resid_mid", "post"))
    speak = np.setdiff1d(np.arange(model.cfg.d_mlp), neurons).astype(int)
    return (mid + post[:, speak] @ model.W_out[0].numpy()[speak]) @ model.W_U.numpy()


def _less(model: HookedTransformer, tokens: Tensor, neurons: list[int]) -> Tensor:
    logits, cache = model.run_with_cache(tokens)
    for neuron in neurons:
        logits = logits - cache["post", 0][..., [neuron]] * (model.W_out[0, neuron] @ model.W_U)
    return logits[:, -1]


without_neurons = compared(
    "`without_neurons(model, tokens, neurons) → [batch, d_vocab]`: last logits when these neurons are silent.",
    returns="[batch, logit], at the last position alone",
    cases=lambda: {
        "each of the given neurons, and no other, should give 0 after the ReLU.": (
            _model(),
            torch.tensor([[2, 6, 0], [5, 1, 3]]),
            [3, 2, 0],
        ),
        **{
            f"it fails for another model, with {batch} texts of length {length} and {len(neurons)} neurons.": (
                *_other(batch, length),
                neurons,
            )
            for batch, length, neurons in ((4, 2, [3]), (3, 6, [0, 1, 2, 3, 4]), (1, 3, []))
        },
    },
    mistakes={
        "these are the model's own logits: the neurons still speak.": lambda m, t, n: m(t)[:, -1],
        "these neurons alone speak, and they should be the silent ones.": _hooked(
            "mlp.hook_post", lambda post, n: post - _zeroed(post.clone(), n)
        ),
        "these are probabilities, or their logarithms; return the logits.": (
            lambda m, t, n: _by_hand(m, t, n).softmax(-1),
            lambda m, t, n: _by_hand(m, t, n).log_softmax(-1),
        ),
        "each of the given neurons, and no other, should give 0 after the ReLU.": _hooked(
            "mlp.hook_post", lambda post, n: _zeroed(post, n[:1])
        ),
    },
    also_right={
        "no hook, in numpy": _by_hand,
        "their votes subtracted": _less,
        "a mask": _hooked(
            "mlp.hook_post", lambda post, n: post * ~torch.isin(torch.arange(post.shape[-1]), torch.tensor(n))
        ),
        "before the ReLU": _hooked("mlp.hook_pre", lambda pre, n: _zeroed(pre, n)),
    },
)
