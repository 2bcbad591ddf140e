"""Exercises of lesson 02, the residual stream: what each answer is called with, and what typical mistakes are told."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils import interventions
from course_utils.course.exercises import Answer, Cases, compared, judged
from course_utils.course.fixtures import FAILS, OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course.questions import Wrong, close, demand, pair, tensor
from course_utils.interventions import Head

Model = HookedTransformer


def _heads(model: Model) -> list[Head]:
    return [(layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads)]


def _z(model: Model, cache: Any, layer: int, head: int) -> Tensor:
    return cache["z", layer][0, :, head]


def _wrote(model: Model, cache: Any, layer: int, head: int) -> Tensor:
    return _z(model, cache, layer, head) @ model.W_O[layer, head]


def _averaged_values(model: Model, cache: Any, layer: int, head: int) -> Tensor:
    values = cache["v", layer][0, :, head].double() @ model.W_O[layer, head].double()
    return cache["pattern", layer][0, head].double() @ values


def _terms(model: Model, tokens: Tensor, term: Callable[..., Tensor] = _wrote) -> Tensor:
    """The right answer, or with another `term` for the heads."""
    _, cache = model.run_with_cache(tokens)
    return torch.stack([model.W_E[tokens[0]], *(term(model, cache, *head) for head in _heads(model))])


def _reordered(*order: int) -> Answer:
    return lambda model, tokens: _terms(model, tokens)[list(order)]


def _with_first(first: Callable[[Model, Tensor], Tensor]) -> Answer:
    """Another first term: `first(model, what the embedding wrote)`."""
    return lambda m, t: torch.cat([first(m, m.W_E[t[0]])[None], _terms(m, t)[1:]])


def _einsum_terms(model: Model, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    z = torch.cat([cache["z", layer] for layer in range(model.cfg.n_layers)])  # [layer, pos, head, d_head]
    return torch.cat([model.W_E[tokens], torch.einsum("lphd,lhdm->lhpm", z, model.W_O).flatten(0, 1)])


def _library_terms(model: Model, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return torch.cat([cache["embed"], cache.stack_head_results()[:, 0]])


def _what_differs(got: Tensor, right: Tensor, model: Model, tokens: Tensor) -> str | None:
    if model.cfg.n_layers > 2:
        return None  # that it was right for two layers says more
    if not close(got[0], right[0]):
        return "the first term should be what the embedding wrote: rows of W_E."
    summed = close(got.sum(0), right.sum(0))
    return None if summed else "the terms do not sum to the stream at the end, `resid_post` of the last layer."


stream_terms = compared(
    "`stream_terms(model, tokens) → [1 + layers · heads, pos, d_model]`: the embedding, then every head's output.",
    returns="[the embedding and every head, position, d_model]",
    cases=lambda: {
        "the sum is right, but the terms are not each head's own, z @ W_O.": (tiny_model(), TOKENS),
        FAILS: (tiny_model(**OTHER), OTHER_TOKENS),
    },
    explain=_what_differs,
    mistakes={
        "the first term holds W_pos; in these models positions go to queries and keys only, never into the stream.": (
            _with_first(lambda m, x: x + m.W_pos[: len(x)]),
            _with_first(lambda m, x: m.W_pos[: len(x)]),
        ),
        "the embedding comes last; it should be the first term.": _reordered(1, 2, 3, 4, 5, 6, 0),
        "the heads' terms hold the embedding once more: a head's output is only what it adds.": (
            lambda m, t: _terms(m, t, lambda m, *at: _wrote(m, *at) + m.W_E[t[0]]),
            lambda m, t: _terms(m, t, lambda m, *at: _wrote(m, *at) + m.W_E[t[0]] / len(_heads(m))),
        ),
        "heads 0.0 and 0.1 get the same term: what the whole layer adds does not say what each head adds.": (
            lambda m, t: _terms(m, t, lambda m, cache, layer, head: cache["attn_out", layer][0]),
            lambda m, t: _terms(m, t, lambda m, cache, layer, head: cache["attn_out", layer][0] / m.cfg.n_heads),
        ),
        "head 1.0 should be term 4 of 7: first the heads of layer 0, then those of layer 1.": (
            _reordered(0, 1, 4, 2, 5, 3, 6),
            _reordered(0, 4, 5, 6, 1, 2, 3),
            _reordered(0, 6, 5, 4, 3, 2, 1),
        ),
    },
    elsewhere={
        "the first term should be what": _with_first(lambda m, x: x[:1].expand_as(x)),
        "the terms do not sum to the stream": lambda m, t: _terms(m, t, lambda *at: 2 * _wrote(*at)),
        "the sum is right, but": _reordered(0, 1, 3, 2, 4, 5, 6),
        "it fails for 3 layers": lambda m, t: torch.cat([x := _terms(m, t)[: 1 + 2 * m.cfg.n_heads], x])[:7],
        "take the numbers from `model.cfg`": lambda m, t: torch.stack([m.W_O[0, head] for head in range(8)]),
        "the terms differ in shape": lambda m, t: _terms(m, t, _z),
    },
    also_right={
        "einsum": _einsum_terms,
        "TransformerLens's own": _library_terms,
        "patterns and values, in float64": lambda m, t: _terms(m, t, _averaged_values),
    },
)
_compare_terms = stream_terms.check
STOPS = {  # part of an error → what it means here
    "IndexError": "an index is too large for this model of 2 layers of 3 heads: take the numbers from `model.cfg`.",
    "stack expects": (
        "the terms differ in shape: each is [pos, d_model]; a head's z, [pos, d_head], gets there by its W_O."
    ),
}


def _compare_or_say_why_it_stopped(answer: Answer) -> None:
    try:
        answer(tiny_model(), TOKENS)
    except Wrong as problem:
        for told, says in STOPS.items():
            demand(told not in str(problem), says)
    _compare_terms(answer)


stream_terms.check = _compare_or_say_why_it_stopped

predicted_drop = compared(
    "`predicted_drop(terms, instead, W_U, token) → [term]`: the terms less what replaces them, read by one logit.",
    returns="one number for each term",
    cases=lambda: {
        "it is not the drop of the logit of `token`, term by term.": (
            random(4, 6),
            random(4, 6, seed=1),
            random(6, 9, seed=2),
            5,
        ),
        "it fails for 3 terms of 8 dimensions and token 0 of 5.": (random(3, 8), random(3, 8, seed=3), random(8, 5), 0),
        "with zeros in `instead`, the drop is all that a term adds.": (
            random(7, 5),
            torch.zeros(7, 5),
            random(5, 4),
            2,
        ),
    },
    mistakes={
        "the sign is turned: where the logit falls, the number should be positive.": lambda t, i, W, n: (
            (i - t) @ W[:, n]
        ),
        "`instead` makes no difference; it is what stands in the term's place.": lambda t, i, W, n: t @ W[:, n],
        "that is what `instead` adds to the logit; the drop is a difference.": lambda t, i, W, n: i @ W[:, n],
        "W_U makes no difference: one of its columns says what a vector adds to the logit.": lambda t, i, W, n: (
            t - i
        ).sum(1),
        "that is a probability or its logarithm; the logit is what the column of W_U gives, with no softmax.": (
            lambda t, i, W, n: ((t - i) @ W).softmax(-1)[:, n],
            lambda t, i, W, n: ((t - i) @ W).log_softmax(-1)[:, n],
        ),
    },
    elsewhere={
        "it is not the drop of the logit": lambda t, i, W, n: ((t - i) @ W[:, n]).abs(),
        "it fails for 3 terms": lambda t, i, W, n: (t - i) @ W[:, min(5, W.shape[1] - 1)],
        "the drop is all": lambda t, i, W, n: (t - i) @ W[:, n] * (i.norm() > 0),
    },
    also_right={
        "a loop": lambda t, i, W, n: torch.stack([(a - b) @ W[:, n] for a, b in zip(t, i, strict=True)]),
        "einsum": lambda t, i, W, n: torch.einsum("td,d->t", t - i, W[:, n]),
        "all logits first, in numpy": lambda t, i, W, n: (t.numpy() @ W.numpy() - i.numpy() @ W.numpy())[:, n],
        "float64": lambda t, i, W, n: (t - i).double() @ W[:, n].double(),
    },
)


def _with_z(model: Model, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
    with interventions.cut(model, (layer, head), instead={(layer, head): torch.as_tensor(value).float()}):
        return model(tokens)


def _with_changed(change: Callable[[Tensor, int, Tensor], object]) -> Answer:
    """The logits after `change(z, head, value)`, with z [batch, pos, head, d_head]."""

    def answer(model: Model, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
        def put(z: Tensor, hook: HookPoint) -> Tensor:
            change(z, head, torch.as_tensor(value))
            return z

        return model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", put)])

    return answer


def _by_the_stream(model: Model, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
    """The change of what the head writes, put into the stream behind its layer."""
    _, cache = model.run_with_cache(tokens)
    name, z = f"blocks.{layer}.hook_resid_post", cache["z", layer][:, :, head]
    with interventions.patched(model, name, cache[name] + (value - z) @ model.W_O[layer, head]):
        return model(tokens)


def _replaced_cases() -> Cases:
    cases: dict[str, tuple] = {
        "the logits are not those of a run with `value` as its z.": (tiny_model(), TOKENS, 0, 1, random(4, seed=5))
    }
    for model, tokens in ((tiny_model(), torch.cat([TOKENS, TOKENS.flip(1)])), (tiny_model(**OTHER), OTHER_TOKENS)):
        (batch, pos), d_head = tokens.shape, model.cfg.d_head
        for layer, head in ((0, 0), _heads(model)[-1], (1, 0)):
            for value, kind in (
                (0, "the number 0"),
                (random(d_head, seed=1), "one vector [d_head]"),
                (random(pos, d_head, seed=2), "[pos, d_head]"),
                (random(batch, pos, d_head, seed=3), "[batch, pos, d_head]"),
            ):
                where = f"head {layer}.{head} of {model.cfg.n_layers} layers, texts: {batch}"
                cases[f"it fails for {where}, when value is {kind}."] = (model, tokens, layer, head, value)
    return cases


def _another_head(got: Tensor, right: Tensor, model: Model, tokens: Tensor, *given: Any) -> str | None:
    *asked, value = given
    for layer, head in _heads(model):
        if close(got, _with_z(model, tokens, layer, head, value)):
            why = "." if layer == asked[0] else ": is the layer in the name?"
            return f"head {layer}.{head} was replaced where it should be {asked[0]}.{asked[1]}{why}"
    return None


replaced = compared(
    "`replaced(model, tokens, layer, head, value) → [batch, pos, d_vocab]`: logits with one head's z replaced.",
    returns="the logits, [batch, pos, d_vocab]",
    cases=_replaced_cases,
    explain=_another_head,
    mistakes={
        "these are log-probabilities; return the logits.": lambda *given: _with_z(*given).log_softmax(-1),
        "these are probabilities; return the logits.": lambda *given: _with_z(*given).softmax(-1),
        "the logits are those of the plain run: does your hook return the changed z, and is it on the right name?": (
            lambda model, tokens, *_: model(tokens)
        ),
        "all heads of the layer got the value; only `head` should.": _with_changed(lambda z, h, v: z.copy_(v)),
        "the value was added; it should stand in place of what was there.": _with_changed(
            lambda z, h, v: z[:, :, h].add_(v)
        ),
        "zeros stand in the head's z; it should be `value`.": _with_changed(lambda z, h, v: z[:, :, h].zero_()),
        "only the last position was replaced; `value` goes to all positions.": _with_changed(
            lambda z, h, v: z[:, -1, h].copy_(v)
        ),
        "z was multiplied by `value`; `value` should stand in its place.": _with_changed(
            lambda z, h, v: z[:, :, h].mul_(v)
        ),
        "`head` counts positions here: z is [batch, pos, head, d_head], and the third axis is the head.": _with_changed(
            lambda z, h, v: z[:, h].copy_(v)
        ),
    },
    elsewhere={
        "head 1.1 was replaced where it should be 0.1": lambda m, t, layer, *head_v: _with_z(m, t, 1, *head_v),
        "should be 1.2: is the layer in the name?": lambda m, t, layer, *head_v: _with_z(m, t, 0, *head_v),
        "head 0.0 was replaced where it should be 0.1.": lambda m, t, layer, head, v: _with_z(m, t, layer, 0, v),
        "texts: 2, when value is the number 0": _with_changed(lambda z, h, v: z[:1, :, h].copy_(v)),
        "not those of a run with `value`": _with_changed(lambda z, h, v: z[:, :, h].copy_(v.abs())),
    },
    also_right={
        "a cut": lambda *given: _with_z(*given),
        "in float64": lambda *given: _with_z(*given).double(),
        "a change in place": _with_changed(lambda z, h, v: z[:, :, h].copy_(v)),
        "by the stream": _by_the_stream,
    },
)


def _patch_cases() -> Cases:
    one, other = TOKENS.clone(), OTHER_TOKENS.clone()
    one[0, 1], other[0, 3] = 12, 6
    return {
        "it is not the share that each single vector of the clean stream brings back.": (tiny_model(), TOKENS, one, 4),
        FAILS: (tiny_model(**OTHER), OTHER_TOKENS, other, 7),
    }


def _ends(model: Model, clean: Tensor, corrupted: Tensor, token: int, read: int = -1) -> tuple[Tensor, Tensor]:
    """The logit of `token` with nothing brought back, and with all."""
    low, high = (model(tokens)[0, read, token] for tokens in (corrupted, clean))
    return low, high


def _stages(model: Model) -> list[str]:
    return ["blocks.0.hook_resid_pre", *(f"blocks.{n}.hook_resid_post" for n in range(model.cfg.n_layers))]


def _shares(
    model: Model,
    clean: Tensor,
    corrupted: Tensor,
    token: int,
    names: Callable[[Model], list[str]] = _stages,
    part: Callable[[int], slice] = lambda pos: slice(pos, pos + 1),
    read: int = -1,
) -> Tensor:
    """The right answer, with something to get wrong in the keywords."""
    _, cache = model.run_with_cache(clean)
    low, high = _ends(model, clean, corrupted, token, read)
    back = torch.zeros(len(names(model)), clean.shape[1])
    for stage, name in enumerate(names(model)):
        for pos in range(clean.shape[1]):
            with interventions.patched(model, name, cache[name], (slice(None), part(pos))):
                back[stage, pos] = model(corrupted)[0, read, token]
    return (back - low) / (high - low)


def _in_one_batch(model: Model, clean: Tensor, corrupted: Tensor, token: int) -> Tensor:
    """A text for each position that comes back."""
    n, (_, kept), (_, there) = clean.shape[1], model.run_with_cache(clean), model.run_with_cache(corrupted)
    low, high = _ends(model, clean, corrupted, token)
    rows = []
    for name in _stages(model):
        with interventions.patched(model, name, torch.where(torch.eye(n).bool()[..., None], kept[name], there[name])):
            rows.append(model(corrupted.expand(n, -1))[:, -1, token])
    return (torch.stack(rows) - low) / (high - low)


def _by_hooks(model: Model, clean: Tensor, corrupted: Tensor, token: int) -> Tensor:
    _, cache = model.run_with_cache(clean)
    low, high = _ends(model, clean, corrupted, token)

    def share(name: str, pos: int) -> float:
        def put(x: Tensor, hook: HookPoint) -> Tensor:
            return torch.cat([x[:, :pos], cache[name][:, pos : pos + 1], x[:, pos + 1 :]], 1)

        logit = model.run_with_hooks(corrupted, fwd_hooks=[(name, put)])[0, -1, token]
        return ((logit - low) / (high - low)).item()

    return torch.tensor([[share(name, pos) for pos in range(clean.shape[1])] for name in _stages(model)])


def _where_it_differs(got: Tensor, right: Tensor, model: Model, *given: Any) -> str | None:
    if model.cfg.n_layers > 2:
        return None  # that it was right for two layers says more
    if not close(got[:, 0], right[:, 0]):
        return (
            "position 0 is the same in both runs, and its vector brings something back: which position do you replace?"
        )
    if not close(got[-1, -1], right[-1, -1]):
        return (
            "after the last layer, the last position brings all back: read the logit at the last position, and see that"
            " the stages are `resid_pre` of layer 0, then `resid_post` of every layer."
        )
    return None


patch_stream = compared(
    "`patch_stream(model, clean, corrupted, token) → [layers + 1, pos]`: what share of a logit each vector returns.",
    returns="[before layer 0 and after every layer, position]",
    cases=_patch_cases,
    explain=_where_it_differs,
    mistakes={
        "these are logits: 0 should be the corrupted run's logit, and 1 the clean one's.": lambda *given: torch.lerp(
            *_ends(*given), _shares(*given)
        ),
        "these are differences of logits; divide by clean less corrupted.": lambda *given: (
            _shares(*given) * (_ends(*given)[1] - _ends(*given)[0])
        ),
        "it runs on `clean` and puts corrupted vectors in; run on `corrupted`, and put clean vectors in.": (
            lambda m, a, b, t: _shares(m, b, a, t),
            lambda m, a, b, t: 1 - _shares(m, b, a, t),
        ),
        "0 and 1 are exchanged: where nothing comes back, the share is 0.": lambda *given: 1 - _shares(*given),
        "nothing ever comes back: do the vectors come from the clean run?": lambda m, a, b, t: torch.zeros(
            m.cfg.n_layers + 1, a.shape[1]
        ),
        "all comes back everywhere: run on `corrupted`, put one position's vector in at a time, and take the hook away"
        " again.": lambda *given: _shares(*given, part=lambda pos: slice(None)),
    },
    elsewhere={
        "which position do you replace": (
            lambda *given: _shares(*given, part=lambda pos: slice(pos, None)),
            lambda *given: _shares(*given).roll(-1, 1),
        ),
        "see that the stages are": (
            lambda *given: _shares(*given, read=-2),
            lambda *given: _shares(*given, names=lambda m: [_stages(m)[0], *_stages(m)[:-1]]),
        ),
        "it is not the share": lambda *given: _shares(*given, part=lambda pos: slice(pos + 1)),
        "it fails for 3 layers": lambda m, a, b, t: _shares(m, a, b, t, read=4 if m.cfg.n_layers == 2 else -2),
    },
    also_right={"in one batch": _in_one_batch, "hooks": _by_hooks, "float64": lambda *given: _shares(*given).double()},
)


@judged
def bias_head(answer: Answer) -> None:
    """`bias_head(model, token, amount) → (W_V, W_O)`: a head at rest on the start token that raises one logit.

    Many heads do: any vector that x W_V is, and any W_O that writes from it.
    """
    for model, token, amount in (
        (tiny_model(), 7, 2.0),
        (tiny_model(), 3, -1.5),
        (tiny_model(**OTHER), 11, 0.0),
        (tiny_model(**OTHER), 0, 30.0),
    ):
        d_model, d_head = model.cfg.d_model, model.cfg.d_head
        W_V, W_O = pair(answer(model, token, amount), "W_V and W_O")
        W_V = tensor(W_V, (d_model, d_head), "W_V, [d_model, d_head]")
        W_O = tensor(W_O, (d_head, d_model), "W_O, [d_head, d_model]")
        x, u = model.W_E[0], model.W_U[:, token]
        adds = x @ W_V @ W_O @ u
        if close(adds, amount):
            continue
        for off, says in {
            amount**2: "`amount` comes in twice, in W_V and in W_O: the logit rises by its square.",
            0.0: f"it adds nothing to the logit of token {token}: what does W_V make of model.W_E[0], and where does W_O"
            " write?",
            -amount: "the sign is turned: the logit falls by `amount`.",
        }.items():
            demand(not close(adds, off), says)
        for seen, says in (
            (model.W_E[token], "that is for a head that looks at `token`; it rests on the start token, model.W_E[0]."),
            (model.W_E[1], "that is for token 1; the start token has row 0 of W_E."),
        ):
            demand(amount == 0 or not close(seen @ W_V @ W_O @ u, amount), says)
        for name, factor in _factors(x, u).items():
            demand(
                not close(adds, amount * factor),
                f"it adds `amount` times {name}, with x for model.W_E[0] and u for the column of W_U: divide that out.",
            )
        demand(
            not close(adds, amount * d_head),
            f"each of the {d_head} dimensions of z brings all of `amount`, and they add up: one is enough.",
        )
        begins = ", ".join(f"{number:.2f}" for number in (x @ W_V)[:3].tolist())
        raise Wrong(
            f"asked for {amount:g}, it adds {adds:.3f} to the logit of token {token}; at rest z begins with {begins},"
            f" of which W_O should make {amount:g}."
        )


def _factors(x: Tensor, u: Tensor) -> dict[str, Tensor]:
    """By what an answer is off that forgot to divide by x · x or u · u, or divided by a length once only."""
    of_x, of_u = ({"": torch.ones(()), f"|{n}|": v.norm(), f"{n} · {n}": v @ v} for n, v in (("x", x), ("u", u)))
    both = {(a, b): of_x[a] * of_u[b] for a in of_x for b in of_u if a or b}
    return {" and ".join(filter(None, names)): factor for names, factor in both.items()}


def _built(
    model: Model, token: int, amount: float, start: int = 0, x_size: int = 2, u_size: int = 2
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


bias_head.mistakes = {
    "it adds `amount` times x · x, with": lambda *given: _built(*given, x_size=0),
    "it adds `amount` times u · u, with": lambda *given: _built(*given, u_size=0),
    "it adds `amount` times x · x and u · u, with": lambda *given: _built(*given, 0, 0, 0),
    "it adds `amount` times |x|, with": lambda *given: _built(*given, x_size=1),
    "it adds `amount` times |u|, with": lambda *given: _built(*given, u_size=1),
    "it adds `amount` times |x| and |u|, with": lambda *given: _built(*given, 0, 1, 1),
    "the sign is turned": _then(lambda V, O, a: (V, -O)),
    "`amount` comes in twice": _then(lambda V, O, a: (a * V, O)),
    "it adds nothing to the logit": (_then(lambda V, O, a: (V, O.roll(1, 0))), _then(lambda V, O, a: (0 * V, O))),
    "they add up: one is enough": _then(lambda V, O, a: (V[:, :1].expand_as(V), O[:1].expand_as(O))),
    "asked for 2, it adds 1.000": lambda m, t, a: _built(m, t, a - 1),
    "asked for 0, it adds": lambda m, t, a: _built(m, t, a or 1),
    "it rests on the start token": lambda m, t, a: _built(m, t, a, t),
    "the start token has row 0": lambda m, t, a: _built(m, t, a, 1),
    "it should return two things": lambda *given: torch.mm(*_built(*given)),
    "W_V, [d_model, d_head]": lambda *given: _built(*given)[::-1],
}
bias_head.also_right = {
    "the last dimension": _then(lambda V, O, a: (V.flip(1), O.flip(0))),
    "every dimension a part": _then(lambda V, O, a: (V[:, :1].expand_as(V), O[:1].expand_as(O) / len(O))),
    "single numbers": _of_single_numbers,
    "float64": _then(lambda V, O, a: (-3 * V.double(), O.double() / -3)),
}
