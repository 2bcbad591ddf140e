"""Exercises of lesson 02, the residual stream: what each answer is called with, and what typical mistakes are told."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils.course import ours
from course_utils.course.exercises import Answer, Cases, Said, compared, judged
from course_utils.course.fixtures import FAILS, OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course.questions import Wrong, close, demand, pair, tensor
from course_utils.lessons.l02_residual_stream import methods

Model = HookedTransformer


_terms, _drop, _replaced, _shares = map(ours.answer, ("stream_terms", "predicted_drop", "replaced", "patch_stream"))


def _reordered(*order: int) -> Answer:
    return lambda model, tokens: _terms(model, tokens)[list(order)]


def _what_differs(got: Tensor, right: Tensor, model: Model, tokens: Tensor) -> Said:
    if model.cfg.n_layers > 2:
        return None  # that it was right for two layers says more
    summed, alike = close(got.sum(0), right.sum(0)), close(got[1], got[2])
    return {
        "the first term should be what the embedding wrote: rows of W_E.": not close(got[0], right[0]),
        "heads 0.0 and 0.1 get the same term: what the whole layer adds does not say what each head adds.": alike,
        "the terms do not sum to the stream at the end, `resid_post` of the last layer.": not summed,
    }


def _why_it_stops(outcome: object, model: Model, tokens: Tensor) -> Said:
    if model.cfg.n_layers > 2:
        return None  # that it was right for two layers says more
    index, stack = isinstance(outcome, IndexError), "stack expects" in str(outcome)
    return {
        "an index is too large for this model of 2 layers of 3 heads: take the numbers from `model.cfg`.": index,
        "the terms differ in shape: each is [pos, d_model]; a head's z, [pos, d_head], gets there by its W_O.": stack,
    }


stream_terms = compared(
    "`stream_terms(model, tokens) → [1 + layers · heads, pos, d_model]`: the embedding, then every head's output.",
    returns="[the embedding and every head, position, d_model]",
    cases=lambda: {
        "the sum is right, but the terms are not each head's own, z @ W_O.": (tiny_model(), TOKENS),
        FAILS: (tiny_model(**OTHER), OTHER_TOKENS),
    },
    advice=_why_it_stops,
    explain=_what_differs,
    mistakes={
        "the first term holds W_pos; in these models positions go to queries and keys only, never into the stream.": (
            lambda m, t: torch.cat([m.W_E[t] + m.W_pos[:5], _terms(m, t)[1:]]),
            lambda m, t: torch.cat([m.W_pos[None, :5], _terms(m, t)[1:]]),
        ),
        "the embedding comes last; it should be the first term.": _reordered(1, 2, 3, 4, 5, 6, 0),
        "the heads' terms hold the embedding once more: a head's output is only what it adds.": (
            lambda m, t: torch.cat([m.W_E[t], _terms(m, t)[1:] + m.W_E[t]]),
            lambda m, t: torch.cat([m.W_E[t], _terms(m, t)[1:] + m.W_E[t] / 6]),
        ),
        "head 1.0 should be term 4 of 7: first the heads of layer 0, then those of layer 1.": (
            _reordered(0, 1, 4, 2, 5, 3, 6),
            _reordered(0, 4, 5, 6, 1, 2, 3),
        ),
    },
)


predicted_drop = compared(
    "`predicted_drop(terms, instead, W_U, token) → [term]`: the terms less what replaces them, read by one logit.",
    returns="one number for each term",
    cases=lambda: {
        "it is not the drop of the logit of `token`, term by term.": (*random(2, 4, 6), random(6, 9), 5),
        "it fails for 3 terms of 8 dimensions and token 0 of 5.": (*random(2, 3, 8), random(8, 5), 0),
        "with zeros in `instead`, the drop is all that a term adds.": (random(7, 5), 0 * random(7, 5), random(5, 4), 2),
    },
    mistakes={
        "the sign is turned: where the logit falls, the number should be positive.": lambda *given: -_drop(*given),
        "`instead` makes no difference; it is what stands in the term's place.": lambda t, i, W, n: t @ W[:, n],
        "that is what `instead` adds to the logit; the drop is a difference.": lambda t, i, W, n: i @ W[:, n],
        "W_U makes no difference: one of its columns says what a vector adds to the logit.": (
            lambda t, i, W, n: (t - i).sum(1)
        ),
        "that is a probability or its logarithm; the logit is what the column of W_U gives, with no softmax.": (
            lambda t, i, W, n: ((t - i) @ W).softmax(-1)[:, n],
            lambda t, i, W, n: ((t - i) @ W).log_softmax(-1)[:, n],
        ),
    },
)


def _hook(change: Callable[[Tensor, int, Tensor], object]) -> Answer:
    """The logits after `change(z, head, value)`, with z [batch, pos, head, d_head]."""

    def answer(model: Model, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
        def put(z: Tensor, hook: HookPoint) -> None:
            change(z, head, torch.as_tensor(value))

        return model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", put)])

    return answer


def _replaced_cases() -> Cases:
    first = "the logits are not those of a run with `value` as its z."
    cases: dict[str, tuple] = {first: (tiny_model(), TOKENS, 0, 1, random(4, seed=5))}
    for model, tokens in ((tiny_model(), torch.cat([TOKENS, TOKENS.flip(1)])), (tiny_model(**OTHER), OTHER_TOKENS)):
        sizes = (*tokens.shape, model.cfg.d_head)
        for layer, head in ((0, 0), list(methods.heads(model))[-1], (1, 0)):
            where = f"head {layer}.{head} of {model.cfg.n_layers} layers, texts: {len(tokens)}"
            for n, kind in enumerate(("the number 0", "one vector [d_head]", "[pos, d_head]", "[batch, pos, d_head]")):
                value = random(*sizes[-n:], seed=n) if n else 0
                cases[f"it fails for {where}, when value is {kind}."] = (model, tokens, layer, head, value)
    return cases


def _another_head(got: Tensor, right: Tensor, model: Model, tokens: Tensor, *given: Any) -> str | None:
    *asked, value = given
    for layer, head in methods.heads(model):
        if close(got, _replaced(model, tokens, layer, head, value)):
            why = "." if layer == asked[0] else ": is the layer in the name?"
            return f"head {layer}.{head} was replaced where it should be {asked[0]}.{asked[1]}{why}"
    return None


replaced = compared(
    "`replaced(model, tokens, layer, head, value) → [batch, pos, d_vocab]`: logits with one head's z replaced.",
    returns="the logits, [batch, pos, d_vocab]",
    cases=_replaced_cases,
    explain=_another_head,
    mistakes={
        "these are log-probabilities; return the logits.": lambda *given: _replaced(*given).log_softmax(-1),
        "these are probabilities; return the logits.": lambda *given: _replaced(*given).softmax(-1),
        "the logits are those of the plain run: does your hook return the changed z, and is it on the right name?": (
            lambda model, tokens, *_: model(tokens)
        ),
        "all heads of the layer got the value; only `head` should.": _hook(lambda z, h, v: z.copy_(v)),
        "the value was added; it should stand in place of what was there.": _hook(lambda z, h, v: z[:, :, h].add_(v)),
        "zeros stand in the head's z; it should be `value`.": _hook(lambda z, h, v: z[:, :, h].zero_()),
        "only the last position was replaced; `value` goes to all positions.": (
            _hook(lambda z, h, v: z[:, -1, h].copy_(v))
        ),
        "z was multiplied by `value`; `value` should stand in its place.": _hook(lambda z, h, v: z[:, :, h].mul_(v)),
        "`head` counts positions here: z is [batch, pos, head, d_head], and the third axis is the head.": (
            _hook(lambda z, h, v: z[:, h].copy_(v))
        ),
    },
)


def _patch_cases() -> Cases:
    one, other = TOKENS.clone(), OTHER_TOKENS.clone()
    one[0, 1], other[0, 2] = 12, 2  # which move the logits of 4 and 7 far
    return {
        "it is not the share that each single vector of the clean stream brings back.": (tiny_model(), TOKENS, one, 4),
        FAILS: (tiny_model(**OTHER), OTHER_TOKENS, other, 7),
    }


def _ends(model: Model, clean: Tensor, corrupted: Tensor, token: int) -> tuple[Tensor, Tensor]:
    """The logit of `token` with nothing brought back, and with all."""
    low, high = (model(tokens)[0, -1, token] for tokens in (corrupted, clean))
    return low, high


def _where_it_differs(got: Tensor, right: Tensor, model: Model, *given: Any) -> Said:
    if model.cfg.n_layers > 2:
        return None  # that it was right for two layers says more
    first, last = (close(got[at], right[at]) for at in ((slice(None), 0), (-1, -1)))
    return {
        "position 0 is the same in both runs, and its vector brings something back: which position do you "
        "replace?": not first,
        "after the last layer, the last position brings all back: read the logit at the last position, and see that "
        "the stages are `resid_pre` of layer 0, then `resid_post` of every layer.": not last,
    }


patch_stream = compared(
    "`patch_stream(model, clean, corrupted, token) → [layers + 1, pos]`: what share of a logit each vector returns.",
    returns="[before layer 0 and after every layer, position]",
    cases=_patch_cases,
    explain=_where_it_differs,
    mistakes={
        "these are logits: 0 should be the corrupted run's logit, and 1 the clean one's.": (
            lambda *given: torch.lerp(*_ends(*given), _shares(*given))
        ),
        "these are differences of logits; divide by clean less corrupted.": (
            lambda *given: _shares(*given) * torch.sub(*_ends(*given)[::-1])
        ),
        "it runs on `clean` and puts corrupted vectors in; run on `corrupted`, and put clean vectors in.": (
            lambda m, a, b, t: _shares(m, b, a, t),
            lambda m, a, b, t: 1 - _shares(m, b, a, t),
        ),
        "0 and 1 are exchanged: where nothing comes back, the share is 0.": lambda *given: 1 - _shares(*given),
        "nothing ever comes back: do the vectors come from the clean run?": lambda *given: 0 * _shares(*given),
        "all comes back everywhere: run on `corrupted`, put one position's vector in at a time, and take the hook away"
        " again.": lambda *given: 0 * _shares(*given) + 1,
    },
)


@judged
def bias_head(answer: Answer) -> None:
    """`bias_head(model, token, amount) → (W_V, W_O)`: a head at rest on the start token that raises one logit."""
    for config, token, amount in (({}, 7, 2.0), ({}, 3, -1.5), (OTHER, 11, 0.0), (OTHER, 0, 30.0)):
        model = tiny_model(**config)
        d_model, d_head = model.cfg.d_model, model.cfg.d_head
        W_V, W_O = pair(answer(model, token, amount), "W_V and W_O")
        W_V = tensor(W_V, (d_model, d_head), "W_V, [d_model, d_head]")
        W_O = tensor(W_O, (d_head, d_model), "W_O, [d_head, d_model]")
        x, u = model.W_E[0], model.W_U[:, token]
        adds, at_token, at_1 = (model.W_E[start] @ W_V @ W_O @ u for start in (0, token, 1))
        if close(adds, amount):
            continue
        elsewhere = "that is for a head that looks at `token`; it rests on the start token, model.W_E[0]."
        demand(not close(at_token, amount), elsewhere)
        demand(not close(at_1, amount), "that is for token 1; the start token has row 0 of W_E.")
        told: dict[str, Any] = {  # what is said → of a head that adds `amount` times this
            "`amount` comes in twice, in W_V and in W_O: the logit rises by its square.": amount,
            f"it adds nothing to the logit of token {token}: what does W_V make of model.W_E[0], and where does W_O"
            " write?": 0.0,
            "the sign is turned: the logit falls by `amount`.": -1.0,
            f"each of the {d_head} dimensions of z brings all of `amount`, and they add up: one is enough.": d_head,
        } | _not_divided(x, u)
        for says, factor in told.items():
            demand(not close(adds, amount * factor), says)
        begins = ", ".join(f"{number:.2f}" for number in (x @ W_V)[:3].tolist())
        raise Wrong(
            f"asked for {amount:g}, it adds {adds:.3f} to the logit of token {token}; at rest z begins with {begins},"
            f" of which W_O should make {amount:g}."
        )


def _not_divided(x: Tensor, u: Tensor) -> dict[str, Tensor]:
    """By what an answer is off that forgot to divide by x · x or u · u, or divided by a length once only."""
    of_x, of_u = ({"": torch.ones(()), f"|{n}|": v.norm(), f"{n} · {n}": v @ v} for n, v in (("x", x), ("u", u)))
    both = {" and ".join(filter(None, (a, b))): of_x[a] * of_u[b] for a in of_x for b in of_u if a or b}
    told = "it adds `amount` times {}, with x for model.W_E[0] and u for the column of W_U: divide that out."
    return {told.format(name): factor for name, factor in both.items()}
