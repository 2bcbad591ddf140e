"""Answers to the exercises of lesson 02: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_utils import interventions
from course_utils.course.exercises import Answer
from course_utils.lessons.l02_residual_stream.checks import (
    Model,
    _hook,
    _reordered,
    _replaced,
    _shares,
    _terms,
)


def _einsum_terms(model: Model, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    z = torch.cat([cache["z", layer] for layer in range(model.cfg.n_layers)])  # [layer, pos, head, d_head]
    return torch.cat([model.W_E[tokens], torch.einsum("lphd,lhdm->lhpm", z, model.W_O).flatten(0, 1)])


def _with_z_cut(model: Model, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
    with interventions.cut(model, (layer, head), instead={(layer, head): torch.as_tensor(value).float()}):
        return model(tokens)


def _by_the_stream(model: Model, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
    """The change of what the head writes, put into the stream behind its layer."""
    _, cache = model.run_with_cache(tokens)
    name, z = f"blocks.{layer}.hook_resid_post", cache["z", layer][:, :, head]
    with interventions.patched(model, name, cache[name] + (value - z) @ model.W_O[layer, head]):
        return model(tokens)


def _patching(which: Callable[[Tensor], Tensor]) -> Answer:
    """A text for each position, which takes from the clean run what its row of `which(torch.eye)` marks."""

    def answer(model: Model, clean: Tensor, corrupted: Tensor, token: int) -> Tensor:
        (_, kept), (_, there) = (model.run_with_cache(tokens) for tokens in (clean, corrupted))
        low, high = (model(tokens)[0, -1, token] for tokens in (corrupted, clean))
        marked, rows = which(torch.eye(clean.shape[1])).bool()[..., None], []  # [text, pos, 1]
        for name in ["blocks.0.hook_resid_pre", *(f"blocks.{n}.hook_resid_post" for n in range(model.cfg.n_layers))]:
            with interventions.patched(model, name, torch.where(marked, kept[name], there[name])):
                rows.append(model(corrupted.expand(len(marked), -1))[:, -1, token])
        return (torch.stack(rows) - low) / (high - low)

    return answer


def _built(
    model: Model, token: int, amount: float, *, start: int = 0, x_size: int = 2, u_size: int = 2
) -> tuple[Tensor, Tensor]:
    """A right answer; the vectors are divided by their lengths to the powers `x_size` and `u_size`."""
    x, u, first = model.W_E[start], model.W_U[:, token], torch.eye(model.cfg.d_head)[0]
    return torch.outer(x / x.norm() ** x_size, first), torch.outer(first, amount * u / u.norm() ** u_size)


def _then(change: Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]) -> Answer:
    """A right answer, changed by `change(W_V, W_O, amount)`."""
    return lambda model, token, amount: change(*_built(model, token, amount), amount)


def _of_single_numbers(model: Model, token: int, amount: float) -> tuple[Tensor, Tensor]:
    W_V, W_O = torch.zeros(model.cfg.d_model, model.cfg.d_head), torch.zeros(model.cfg.d_head, model.cfg.d_model)
    W_V[3, 2], W_O[2, 5] = 1 / model.W_E[0, 3], amount / model.W_U[5, token]
    return W_V, W_O


RIGHT_ANSWERS = {
    "stream_terms": {
        "einsum": _einsum_terms,
        "float64": lambda *given: _terms(*given).double(),
        "the library's": lambda m, t: torch.cat(
            [(cache := m.run_with_cache(t)[1])["embed"], cache.stack_head_results()[:, 0]]
        ),
    },
    "predicted_drop": {
        "a loop": lambda t, i, W, n: torch.stack([(a - b) @ W[:, n] for a, b in zip(t, i, strict=True)]),
        "einsum": lambda t, i, W, n: torch.einsum("td,d->t", t - i, W[:, n]),
        "all logits first, in numpy": lambda t, i, W, n: (t.numpy() @ W.numpy() - i.numpy() @ W.numpy())[:, n],
        "float64": lambda t, i, W, n: (t - i).double() @ W[:, n].double(),
    },
    "replaced": {
        "a cut": _with_z_cut,
        "float64": lambda *given: _replaced(*given).double(),
        "by the stream": _by_the_stream,
    },
    "patch_stream": {
        "in one batch": _patching(lambda eye: eye),
        "float64": lambda *given: _shares(*given).double(),
        "numpy": lambda *given: _shares(*given).numpy(),
    },
    "bias_head": {
        "the last dimension": _then(lambda v, o, a: (v.flip(1), o.flip(0))),
        "every dimension a part": _then(lambda v, o, a: (v[:, :1].expand_as(v), o[:1].expand_as(o) / len(o))),
        "single numbers": _of_single_numbers,
        "float64": _then(lambda v, o, a: (-3 * v.double(), o.double() / -3)),
    },
}


WRONG_ANSWERS = {
    "stream_terms": {
        "the first term should be what": lambda m, t: torch.cat([m.W_E[t[:, [0] * 5]], _terms(m, t)[1:]]),
        "heads 0.0 and 0.1 get the same term": _reordered(0, 1, 1, 1, 4, 4, 4),
        "the terms do not sum to the stream": lambda m, t: torch.cat([m.W_E[t], 2 * _terms(m, t)[1:]]),
        "the sum is right, but": _reordered(0, 1, 3, 2, 4, 5, 6),
        "it fails for 3 layers": lambda m, t: torch.cat([x := _terms(m, t)[: 1 + 2 * m.cfg.n_heads], x])[:7],
        "take the numbers from `model.cfg`": lambda m, t: torch.stack([m.W_O[0, head] for head in range(8)]),
        "the terms differ in shape": lambda m, t: torch.stack([m.W_E[t[0]], m.run_with_cache(t)[1]["z", 0][0, :, 0]]),
    },
    "predicted_drop": {
        "it is not the drop of the logit": lambda t, i, W, n: ((t - i) @ W[:, n]).abs(),
        "it fails for 3 terms": lambda t, i, W, n: (t - i) @ W[:, min(5, W.shape[1] - 1)],
        "the drop is all": lambda t, i, W, n: (t - i) @ W[:, n] + i.eq(0).all(),
    },
    "replaced": {
        "head 1.1 was replaced where it should be 0.1": lambda m, t, layer, *at: _replaced(m, t, 1, *at),
        "should be 1.2: is the layer in the name?": lambda m, t, layer, *at: _replaced(m, t, 0, *at),
        "head 0.0 was replaced where it should be 0.1.": lambda m, t, layer, head, v: _replaced(m, t, layer, 0, v),
        "texts: 2, when value is the number 0": _hook(lambda z, h, v: z[:1, :, h].copy_(v)),
        "not those of a run with `value`": _hook(lambda z, h, v: z[:, :, h].copy_(v.abs())),
    },
    "patch_stream": {
        "all comes back everywhere": _patching(lambda eye: eye + 1),
        "which position do you replace": _patching(lambda eye: eye.cumsum(1)),
        "see that the stages are": (lambda *given: _shares(*given)[[0, 0, 1]], lambda *given: _shares(*given).flip(0)),
        "it is not the share": _patching(lambda eye: eye.cumsum(0)),
        "it fails for 3 layers": lambda m, a, b, t: _shares(m, a, b, t)[[0, 1, *[2] * (m.cfg.n_layers - 1)]],
    },
    "bias_head": {
        "it adds `amount` times x · x, with": lambda *given: _built(*given, x_size=0),
        "it adds `amount` times u · u, with": lambda *given: _built(*given, u_size=0),
        "it adds `amount` times x · x and u · u, with": lambda *given: _built(*given, x_size=0, u_size=0),
        "it adds `amount` times |x|, with": lambda *given: _built(*given, x_size=1),
        "it adds `amount` times |u|, with": lambda *given: _built(*given, u_size=1),
        "it adds `amount` times |x| and |u|, with": lambda *given: _built(*given, x_size=1, u_size=1),
        "the sign is turned": _then(lambda v, o, a: (v, -o)),
        "`amount` comes in twice": _then(lambda v, o, a: (a * v, o)),
        "it adds nothing to the logit": (_then(lambda v, o, a: (v, o.roll(1, 0))), _then(lambda v, o, a: (0 * v, o))),
        "they add up: one is enough": _then(lambda v, o, a: (v[:, :1].expand_as(v), o[:1].expand_as(o))),
        "asked for 2, it adds 1.000": lambda m, t, a: _built(m, t, a - 1),
        "asked for 0, it adds": lambda m, t, a: _built(m, t, a or 1),
        "it rests on the start token": lambda m, t, a: _built(m, t, a, start=t),
        "the start token has row 0": lambda m, t, a: _built(m, t, a, start=1),
        "it should return two things": lambda *given: torch.mm(*_built(*given)),
        "W_V, [d_model, d_head]": lambda *given: _built(*given)[::-1],
    },
}
