"""Checks of lesson 02, the residual stream: each exercise, then its typical mistakes with the sentence each gets."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils import interventions
from course_utils.course.exercises import Answer, compared, exercise
from course_utils.course.fixtures import FAILS, OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course.questions import Wrong, close, demand, pair, tensor


def _logits(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return model(tokens, return_type="logits")


def _heads(model: HookedTransformer) -> Iterator[tuple[int, int]]:
    for layer in range(model.cfg.n_layers):
        yield from ((layer, head) for head in range(model.cfg.n_heads))


@exercise
def stream_terms(answer: Answer) -> None:
    """`stream_terms(model, tokens) → [1 + layers · heads, pos, d_model]`: the embedding, then every head's output."""
    model = tiny_model()
    shape, means = (7, 5, 10), "[the embedding and every head, position, d_model]"
    try:
        terms = tensor(answer(model, TOKENS), shape, means)
    except Wrong as problem:
        for told, says in (
            (
                "IndexError",
                "an index is too large for this model of 2 layers of 3 heads: take the numbers from `model.cfg`.",
            ),
            (
                "stack expects",
                "the terms differ in shape: each is [pos, d_model]; a head's z, [pos, d_head], gets there by its W_O.",
            ),
        ):
            if told in str(problem):
                raise Wrong(says) from None
        raise
    _, cache = model.run_with_cache(TOKENS)
    embedded = model.W_E[TOKENS[0]]
    demand(
        not close(terms[0], embedded + model.W_pos[:5]) and not close(terms[0], model.W_pos[:5]),
        "the first term holds W_pos; in these models positions go to queries and keys only, never into the stream.",
    )
    demand(not close(terms[-1], embedded), "the embedding comes last; it should be the first term.")
    demand(close(terms[0], embedded), "the first term should be what the embedding wrote: rows of W_E.")
    demand(
        not close(terms[1:].sum(0), cache["resid_post", 1][0]),
        "the heads' terms hold the embedding once more: a head's output is only what it adds.",
    )
    demand(
        close(terms.sum(0), cache["resid_post", 1][0]),
        "the terms do not sum to the stream at the end, `resid_post` of the last layer.",
    )
    demand(
        not close(terms[1], terms[2]),
        "heads 0.0 and 0.1 get the same term: what the whole layer adds does not say what each head adds.",
    )
    louder = tiny_model()
    louder.blocks[1].attn.W_O.data[0] *= 2  # head 1.0: layer 1 is read by nobody but W_U
    change = (tensor(answer(louder, TOKENS), shape, means) - terms).abs().sum((1, 2))
    demand(
        change[4] > 0 and close(change.sum(), change[4]),
        "head 1.0 should be term 4 of 7: first the heads of layer 0, then those of layer 1.",
    )
    demand(close(terms, _terms(model, TOKENS)), "the sum is right, but the terms are not each head's own, z @ W_O.")
    other = tiny_model(**OTHER)
    demand(close(tensor(answer(other, OTHER_TOKENS), (7, 7, 8), means), _terms(other, OTHER_TOKENS)), FAILS)


Term = Callable[[HookedTransformer, ActivationCache, int, int], Tensor]


def _term(model: HookedTransformer, cache: ActivationCache, layer: int, head: int) -> Tensor:
    return cache["z", layer][0, :, head] @ model.W_O[layer, head]


def _terms(model: HookedTransformer, tokens: Tensor, term: Term = _term) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return torch.stack([model.W_E[tokens[0]], *(term(model, cache, *place) for place in _heads(model))])


def _head_by_head(model: HookedTransformer, tokens: Tensor) -> Tensor:
    first, *others = _terms(model, tokens)
    return torch.stack(
        [first, *(term for head in range(model.cfg.n_heads) for term in others[head :: model.cfg.n_heads])]
    )


def _with_first(first: Callable[[HookedTransformer, Tensor], Tensor]) -> Answer:
    """Another first term: `first(model, what the embedding wrote)`."""

    def answer(model: HookedTransformer, tokens: Tensor) -> Tensor:
        terms = _terms(model, tokens)
        return torch.cat([first(model, terms[0])[None], terms[1:]])

    return answer


def _with_the_stream(model: HookedTransformer, tokens: Tensor) -> Tensor:
    terms = _terms(model, tokens)
    return torch.cat([terms[:1], terms[1:] + terms[0]])


def _with_results_on(model: HookedTransformer, tokens: Tensor) -> Tensor:
    model.set_use_attn_result(True)
    return _terms(model, tokens)


def _eight_heads(model: HookedTransformer, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return torch.stack([_term(model, cache, layer, head) for layer in range(2) for head in range(8)])


def _louder_W_O(model: HookedTransformer, tokens: Tensor) -> Tensor:
    model.blocks[0].attn.W_O.data *= 2
    return _terms(model, tokens)


stream_terms.mistakes = {
    "positions in the embedding": (_with_first(lambda m, x: x + m.W_pos[: len(x)]), "the first term holds W_pos"),
    "positions for the embedding": (_with_first(lambda m, x: m.W_pos[: len(x)]), "the first term holds W_pos"),
    "embedding left out": (lambda m, t: _terms(m, t)[1:], "it should be [7, 5, 10]"),
    "embedding last": (lambda m, t: _terms(m, t).roll(-1, 0), "the embedding comes last"),
    "embedding of one token": (_with_first(lambda m, x: x[:1].expand_as(x)), "the first term should be what"),
    "head-major order": (_head_by_head, "first the heads of layer 0"),
    "one term per layer": (
        lambda m, t: torch.stack([*_terms(m, t)[[0]], _terms(m, t)[1:4].sum(0)]),
        "it should be [7, 5, 10]",
    ),
    "layer's output split evenly": (
        lambda m, t: _terms(m, t, lambda m, cache, layer, head: cache["attn_out", layer][0] / m.cfg.n_heads),
        "heads 0.0 and 0.1 get the same term",
    ),
    "embedding in every head": (_with_the_stream, "the terms do not sum to the stream"),
    "running totals": (lambda m, t: _terms(m, t).cumsum(0), "the terms do not sum to the stream"),
    "absolute values": (lambda m, t: _terms(m, t).abs(), "the first term should be what the embedding"),
    "heads twice": (
        lambda m, t: _terms(m, t, lambda *given: 2 * _term(*given)),
        "the terms do not sum to the stream",
    ),
    "W_O of layer 0": (
        lambda m, t: _terms(m, t, lambda m, cache, layer, head: cache["z", layer][0, :, head] @ m.W_O[0, head]),
        "the terms do not sum to the stream",
    ),
    "values without attention": (
        lambda m, t: _terms(m, t, lambda m, cache, layer, head: cache["v", layer][0, :, head] @ m.W_O[layer, head]),
        "the terms do not sum to the stream",
    ),
    "no W_O": (
        lambda m, t: _terms(m, t, lambda m, cache, layer, head: cache["z", layer][0, :, head]),
        "the terms differ in shape",
    ),
    "two layers only": (lambda m, t: torch.cat([x := _terms(m, t)[: 1 + 2 * m.cfg.n_heads], x])[:7], FAILS),
    "two layers of eight heads": (_eight_heads, "take the numbers from `model.cfg`"),
    "a switch left on": (_with_results_on, "it leaves `model.cfg"),
    "W_O changed": (_louder_W_O, "it changes `model.blocks.0.attn.W_O`"),
}


def _lowering(terms: Tensor, instead: Tensor, W_U: Tensor, token: int) -> Tensor:
    terms -= instead
    return terms @ W_U[:, token]


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
        "it is not the drop of the logit of `token`, term by term.": (
            lambda t, i, W, n: ((t - i) @ W[:, n]).abs(),
            lambda t, i, W, n: (t + i) @ W[:, n],
            lambda t, i, W, n: (t - i) @ W[:, 0],
            lambda t, i, W, n: ((t - i) @ W[:, n]).mean().expand(len(t)),
        ),
        "it fails for 3 terms of 8 dimensions and token 0 of 5.": lambda t, i, W, n: (
            (t - i) @ W[:, min(5, W.shape[1] - 1)]
        ),
    },
    elsewhere={
        "it should be [4], one number": (
            lambda t, i, W, n: (t - i) @ W,
            lambda t, i, W, n: ((t - i) @ W[:, n]).sum(),
        ),
        "it changes `terms`, which it was given": _lowering,
    },
    also_right={
        "a loop": lambda t, i, W, n: torch.stack([(a - b) @ W[:, n] for a, b in zip(t, i, strict=True)]),
        "einsum": lambda t, i, W, n: torch.einsum("td,d->t", t - i, W[:, n]),
        "all logits first, in numpy": lambda t, i, W, n: (t.numpy() @ W.numpy() - i.numpy() @ W.numpy())[:, n],
        "float64": lambda t, i, W, n: (t - i).double() @ W[:, n].double(),
    },
)


@exercise
def replaced(answer: Answer) -> None:
    """`replaced(model, tokens, layer, head, value) → [batch, pos, d_vocab]`: logits with one head's z replaced."""
    model, means = tiny_model(), "the logits, [batch, pos, d_vocab]"
    logits, value = _logits(model, TOKENS), random(model.cfg.d_head, seed=5)
    result = tensor(answer(model, TOKENS, 0, 1, value), (1, 5, 20), means)
    demand(not close(result.exp().sum(-1), torch.ones(1, 5)), "these are log-probabilities; return the logits.")
    demand(not close(result.sum(-1), torch.ones(1, 5)), "these are probabilities; return the logits.")
    demand(
        not close(result, logits),
        "the logits are those of the plain run: does your hook return the changed z, and is it on the right name?",
    )
    for change, says in (
        (_all_heads, "all heads of the layer got the value; only `head` should."),
        (_added, "the value was added; it should stand in place of what was there."),
        (_silent, "zeros stand in the head's z; it should be `value`."),
        (_last_only, "only the last position was replaced; `value` goes to all positions."),
        (_multiplied, "z was multiplied by `value`; `value` should stand in its place."),
        (_wrong_axis, "`head` counts positions here: z is [batch, pos, head, d_head], and the third axis is the head."),
    ):
        demand(not close(result, _with_z(model, TOKENS, 0, 1, value, change)), says)
    for layer, head in ((1, 1), (0, 0), (0, 2)):
        demand(
            not close(result, _with_z(model, TOKENS, layer, head, value)),
            f"head {layer}.{head} was replaced where it should be 0.1.",
        )
    demand(
        close(result, _with_z(model, TOKENS, 0, 1, value)), "the logits are not those of a run with `value` as its z."
    )
    for model, tokens in ((tiny_model(), torch.cat([TOKENS, TOKENS.flip(1)])), (tiny_model(**OTHER), OTHER_TOKENS)):
        _well_replaced(answer, model, tokens)


def _well_replaced(answer: Answer, model: HookedTransformer, tokens: Tensor) -> None:
    (batch, pos), cfg = tokens.shape, model.cfg
    for layer, head in ((0, 0), (cfg.n_layers - 1, cfg.n_heads - 1), (1, 0)):
        for value, kind in (
            (0, "the number 0"),
            (random(cfg.d_head, seed=1), "one vector [d_head]"),
            (random(pos, cfg.d_head, seed=2), "[pos, d_head]"),
            (random(batch, pos, cfg.d_head, seed=3), "[batch, pos, d_head]"),
        ):
            result = tensor(answer(model, tokens, layer, head, value), (batch, pos, cfg.d_vocab), "logits")
            for other in {*range(cfg.n_layers)} - {layer}:
                demand(
                    not close(result, _with_z(model, tokens, other, head, value)),
                    f"head {other}.{head} was replaced where it should be {layer}.{head}: is the layer in the name?",
                )
            demand(
                close(result, _with_z(model, tokens, layer, head, value)),
                f"it fails for head {layer}.{head} of {cfg.n_layers} layers, texts: {batch}, when value is {kind}.",
            )


ChangeZ = Callable[[Tensor, int, Tensor | float], None]  # of z [batch, pos, head, d_head]


def _one_head(z: Tensor, head: int, value: Tensor | float) -> None:
    z[:, :, head] = value


def _all_heads(z: Tensor, head: int, value: Tensor | float) -> None:
    z[:] = value if not isinstance(value, Tensor) or value.ndim == 1 else value[..., None, :]


def _added(z: Tensor, head: int, value: Tensor | float) -> None:
    z[:, :, head] += value


def _multiplied(z: Tensor, head: int, value: Tensor | float) -> None:
    z[:, :, head] *= value


def _wrong_axis(z: Tensor, head: int, value: Tensor | float) -> None:
    z[:, head] = value


def _silent(z: Tensor, head: int, value: Tensor | float) -> None:
    z[:, :, head] = 0


def _last_only(z: Tensor, head: int, value: Tensor | float) -> None:
    z[:, -1, head] = value if not isinstance(value, Tensor) or value.ndim == 1 else value[..., -1, :]


def _first_text(z: Tensor, head: int, value: Tensor | float) -> None:
    z[0, :, head] = value if not isinstance(value, Tensor) or value.ndim < 3 else value[0]


def _with_z(
    model: HookedTransformer,
    tokens: Tensor,
    layer: int,
    head: int,
    value: Tensor | float,
    change: ChangeZ = _one_head,
    stay: bool = False,
) -> Tensor:
    """The right answer, with something to get wrong in the keywords."""

    def put(tensor: Tensor, hook: HookPoint) -> Tensor:
        z = tensor.clone()
        change(z, head, value)
        return z

    name = f"blocks.{layer}.attn.hook_z"
    if stay:
        model.add_hook(name, put)
        return model(tokens)
    return model.run_with_hooks(tokens, fwd_hooks=[(name, put)])


def _putting(change: ChangeZ) -> Answer:
    return lambda model, tokens, layer, head, value: _with_z(model, tokens, layer, head, value, change)


def _z_not_returned(model: HookedTransformer, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
    def put(z: Tensor, hook: HookPoint) -> None:
        z.clone()[:, :, head] = value

    return model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", put)])


def _silent_weights(model: HookedTransformer, tokens: Tensor, layer: int, head: int, value: Tensor | float) -> Tensor:
    model.blocks[layer].attn.W_O.data[head] = 0
    return model(tokens)


replaced.mistakes = {
    "all heads": (_putting(_all_heads), "all heads of the layer got the value"),
    "added": (_putting(_added), "the value was added"),
    "multiplied": (_putting(_multiplied), "z was multiplied by `value`"),
    "a position for the head": (_putting(_wrong_axis), "`head` counts positions here"),
    "always zero": (_putting(_silent), "zeros stand in the head's z"),
    "last position only": (_putting(_last_only), "only the last position was replaced"),
    "hook returns nothing": (_z_not_returned, "does your hook return the changed z"),
    "plain run": (lambda m, t, layer, head, value: m(t), "the logits are those of the plain run"),
    "always layer 0": (
        lambda m, t, layer, head, v: _with_z(m, t, 0, head, v),
        "should be 1.2: is the layer in the name?",
    ),
    "always layer 1": (lambda m, t, layer, head, v: _with_z(m, t, 1, head, v), "head 1.1 was replaced where"),
    "always head 0": (lambda m, t, layer, head, v: _with_z(m, t, layer, 0, v), "head 0.0 was replaced where"),
    "head counted from 1": (
        lambda m, t, layer, head, v: _with_z(m, t, layer, (head + 1) % m.cfg.n_heads, v),
        "head 0.2 was replaced where",
    ),
    "first text only": (_putting(_first_text), "texts: 2, when value is the number 0"),
    "hook left on the model": (
        lambda model, t, layer, head, v: _with_z(model, t, layer, head, v, stay=True),
        "it leaves a hook on `model`, at blocks.0.attn.hook_z",
    ),
    "weights silenced": (_silent_weights, "it changes `model.blocks.0.attn.W_O`"),
    "last logits only": (lambda *given: _with_z(*given)[:, -1], "the logits, [batch, pos, d_vocab]"),
    "probabilities": (lambda *given: _with_z(*given).softmax(-1), "these are probabilities"),
    "log-probabilities": (lambda *given: _with_z(*given).log_softmax(-1), "these are log-probabilities"),
}


@exercise
def patch_stream(answer: Answer) -> None:
    """`patch_stream(model, clean, corrupted, token) → [layers + 1, pos]`: what share of a logit each vector returns."""
    means = "[before layer 0 and after every layer, position]"
    model, clean, corrupted = tiny_model(), TOKENS, TOKENS.clone()
    corrupted[0, 1] = 12
    share = tensor(answer(model, clean, corrupted, 4), (3, 5), means)
    right = _shares(model, clean, corrupted, 4)
    low, high = (_logits(model, tokens)[0, -1, 4] for tokens in (corrupted, clean))
    demand(
        not close(share, right * (high - low) + low),
        "these are logits: 0 should be the corrupted run's logit, and 1 the clean one's.",
    )
    demand(not close(share, right * (high - low)), "these are differences of logits; divide by clean less corrupted.")
    demand(
        not close(share, 1 - _shares(model, corrupted, clean, 4))
        and not close(share, _shares(model, corrupted, clean, 4)),
        "it runs on `clean` and puts corrupted vectors in; run on `corrupted`, and put clean vectors in.",
    )
    demand(not close(share, 1 - right), "0 and 1 are exchanged: where nothing comes back, the share is 0.")
    demand(not close(share, 0 * right), "nothing ever comes back: do the vectors come from the clean run?")
    demand(
        not close(share, torch.ones_like(share)),
        "all comes back everywhere: run on `corrupted`, put one position's vector in at a time, and take the hook away"
        " again.",
    )
    demand(
        close(share[:, 0], torch.zeros(3)),
        "position 0 is the same in both runs, and its vector brings something back: which position do you replace?",
    )
    demand(
        close(share[-1, -1], torch.tensor(1.0)),
        "after the last layer, the last position brings all back: read the logit at the last position, and see that"
        " the stages are `resid_pre` of layer 0, then `resid_post` of every layer.",
    )
    demand(close(share, right), "it is not the share that each single vector of the clean stream brings back.")
    corrupted = OTHER_TOKENS.clone()
    corrupted[0, 3] = 6
    other = tiny_model(**OTHER)
    demand(
        close(
            tensor(answer(other, OTHER_TOKENS, corrupted, 7), (4, 7), means), _shares(other, OTHER_TOKENS, corrupted, 7)
        ),
        FAILS,
    )


def _shares(
    model: HookedTransformer,
    clean: Tensor,
    corrupted: Tensor,
    token: int,
    names: Callable[[HookedTransformer], list[str]] | None = None,
    index: Callable[[int], tuple] = lambda pos: (slice(None), pos),
    read: int = -1,
) -> Tensor:
    """The right answer, with something to get wrong in the keywords."""
    _, cache = model.run_with_cache(clean)
    low, high = (_logits(model, tokens)[0, read, token] for tokens in (corrupted, clean))
    rows = []
    for name in (names or _stages)(model):
        logits = []
        for pos in range(clean.shape[1]):
            with interventions.patched(model, name, cache[name], index(pos)):
                logits.append(_logits(model, corrupted)[0, read, token])
        rows.append((torch.stack(logits) - low) / (high - low))
    return torch.stack(rows)


def _stages(model: HookedTransformer) -> list[str]:
    return ["blocks.0.hook_resid_pre", *(f"blocks.{n}.hook_resid_post" for n in range(model.cfg.n_layers))]


def _ends(model: HookedTransformer, clean: Tensor, corrupted: Tensor, token: int) -> tuple[Tensor, Tensor]:
    low, high = (_logits(model, tokens)[0, -1, token] for tokens in (corrupted, clean))
    return low, high


def _as_logits(model: HookedTransformer, clean: Tensor, corrupted: Tensor, token: int) -> Tensor:
    low, high = _ends(model, clean, corrupted, token)
    return low + _shares(model, clean, corrupted, token) * (high - low)


def _as_differences(model: HookedTransformer, clean: Tensor, corrupted: Tensor, token: int) -> Tensor:
    low, high = _ends(model, clean, corrupted, token)
    return _shares(model, clean, corrupted, token) * (high - low)


def _hook_left(model: HookedTransformer, clean: Tensor, corrupted: Tensor, token: int) -> Tensor:
    model.add_hook("blocks.0.hook_resid_pre", lambda x, hook: x)
    return _shares(model, clean, corrupted, token)


def _with_names(names: Callable[[HookedTransformer], list[str]]) -> Answer:
    return lambda m, a, b, t: _shares(m, a, b, t, names=names)


patch_stream.mistakes = {
    "logits": (_as_logits, "these are logits"),
    "differences": (_as_differences, "these are differences of logits"),
    "clean and corrupted exchanged": (lambda m, a, b, t: _shares(m, b, a, t), "it runs on `clean`"),
    "exchanged, and 1 less": (lambda m, a, b, t: 1 - _shares(m, b, a, t), "it runs on `clean`"),
    "one less the share": (lambda *given: 1 - _shares(*given), "0 and 1 are exchanged"),
    "corrupted vectors": (lambda *given: 0 * _shares(*given), "nothing ever comes back"),
    "all positions": (
        lambda m, a, b, t: _shares(m, a, b, t, index=lambda pos: (slice(None),)),
        "all comes back everywhere",
    ),
    "clean vectors into the clean run": (lambda *given: torch.ones_like(_shares(*given)), "run on `corrupted`"),
    "positions up to it": (
        lambda m, a, b, t: _shares(m, a, b, t, index=lambda pos: (slice(None), slice(pos + 1))),
        "it is not the share that each single vector",
    ),
    "positions from it": (
        lambda m, a, b, t: _shares(m, a, b, t, index=lambda pos: (slice(None), slice(pos, None))),
        "which position do you replace",
    ),
    "one position late": (lambda *given: _shares(*given).roll(-1, 1), "which position do you replace"),
    "one position early": (lambda *given: _shares(*given).roll(1, 1), "which position do you replace"),
    "another position's logit": (lambda m, a, b, t: _shares(m, a, b, t, read=-2), "see that the stages are"),
    "layers only": (_with_names(lambda m: _stages(m)[1:]), "it should be [3, 5]"),
    "before each layer": (
        _with_names(lambda m: [f"blocks.{n}.hook_resid_pre" for n in (0, *range(m.cfg.n_layers))]),
        "see that the stages are",
    ),
    "layers exchanged": (lambda *given: _shares(*given).flip(0), "see that the stages are"),
    "positions first": (lambda *given: _shares(*given).T, "it should be [3, 5]"),
    "two layers only": (
        _with_names(lambda m: [*_stages(m)[:2], *_stages(m)[-1:]]),
        "it should be [4, 7]",
    ),
    "hook left on the model": (_hook_left, "it leaves a hook on `model`"),
}


@exercise
def bias_head(answer: Answer) -> None:
    """`bias_head(model, token, amount) → (W_V, W_O)`: a head at rest on the start token that raises one logit."""
    for model, token, amount in (
        (tiny_model(), 7, 2.0),
        (tiny_model(), 3, -1.5),
        (tiny_model(**OTHER), 11, 0.0),
        (tiny_model(**OTHER), 0, 30.0),
    ):
        cfg = model.cfg
        W_V, W_O = pair(answer(model, token, amount), "W_V and W_O")
        W_V = tensor(W_V, (cfg.d_model, cfg.d_head), "W_V, [d_model, d_head]")
        W_O = tensor(W_O, (cfg.d_head, cfg.d_model), "W_O, [d_head, d_model]")
        written = model.W_E[0] @ W_V @ W_O
        adds = (written @ model.W_U[:, token]).item()
        demand(
            amount == 0 or not close(adds, amount**2),
            "`amount` comes in twice, in W_V and in W_O: the logit rises by its square.",
        )
        demand(
            amount == 0 or abs(adds) > 1e-6,
            f"it adds nothing to the logit of token {token}: what does W_V make of model.W_E[0], and where does W_O"
            " write?",
        )
        demand(not close(adds, -amount) or amount == 0, "the sign is turned: the logit falls by `amount`.")
        for x, says in (
            (model.W_E[token], "that is for a head that looks at `token`; it rests on the start token, model.W_E[0]."),
            (model.W_E[1], "that is for token 1; the start token has row 0 of W_E."),
        ):
            demand(
                token == 0
                or amount == 0
                or close(adds, amount)
                or not close(x @ W_V @ W_O @ model.W_U[:, token], amount),
                says,
            )
        x, u = model.W_E[0], model.W_U[:, token]
        for name, factor in _factors(x, u).items():
            demand(
                amount == 0 or not close(adds, amount * factor),
                f"it adds `amount` times {name}, with x for model.W_E[0] and u for the column of W_U: divide that out.",
            )
        demand(
            amount == 0 or not close(adds, amount * cfg.d_head),
            f"each of the {cfg.d_head} dimensions of z brings all of `amount`, and they add up: one is enough.",
        )
        demand(
            close(adds, amount),
            f"asked for {amount:g}, it adds {adds:.3f} to the logit of token {token}; at rest z begins with"
            f" {', '.join(f'{number:.2f}' for number in (x @ W_V)[:3].tolist())}, of which W_O should make {amount:g}.",
        )


def _factors(x: Tensor, u: Tensor) -> dict[str, Tensor]:
    """By what an answer is off that forgot to divide by x · x or u · u, or divided by a length once only."""
    of_x, of_u = ({"": torch.ones(()), f"|{n}|": v.norm(), f"{n} · {n}": v @ v} for n, v in (("x", x), ("u", u)))
    both = {(a, b): of_x[a] * of_u[b] for a in of_x for b in of_u if a or b}
    return {" and ".join(filter(None, names)): factor for names, factor in both.items()}


def _built(
    model: HookedTransformer, token: int, amount: float, start: int = 0, x_size: int = 2, u_size: int = 2
) -> tuple[Tensor, Tensor]:
    """The right answer; the vectors are divided by their lengths to the powers `x_size` and `u_size`."""
    x, u = model.W_E[start], model.W_U[:, token]
    W_V, W_O = torch.zeros(model.cfg.d_model, model.cfg.d_head), torch.zeros(model.cfg.d_head, model.cfg.d_model)
    W_V[:, 0] = x / x.norm() ** x_size
    W_O[0] = amount * u / u.norm() ** u_size
    return W_V, W_O


def _other_dimension(model: HookedTransformer, token: int, amount: float) -> tuple[Tensor, Tensor]:
    W_V, W_O = _built(model, token, amount)
    return W_V, W_O.roll(1, 0)


def _squared(model: HookedTransformer, token: int, amount: float) -> tuple[Tensor, Tensor]:
    W_V, W_O = _built(model, token, amount)
    return amount * W_V, W_O


def _every_dimension(model: HookedTransformer, token: int, amount: float) -> tuple[Tensor, Tensor]:
    W_V, W_O = _built(model, token, amount)
    return W_V[:, :1].expand_as(W_V), W_O[:1].expand_as(W_O)


bias_head.mistakes = {
    "x not divided": (lambda m, t, a: _built(m, t, a, x_size=0), "it adds `amount` times x · x, with"),
    "u not divided": (lambda m, t, a: _built(m, t, a, u_size=0), "it adds `amount` times u · u, with"),
    "neither divided": (lambda m, t, a: _built(m, t, a, 0, 0, 0), "it adds `amount` times x · x and u · u, with"),
    "x divided by its length": (lambda m, t, a: _built(m, t, a, x_size=1), "it adds `amount` times |x|, with"),
    "u divided by its length": (lambda m, t, a: _built(m, t, a, u_size=1), "it adds `amount` times |u|, with"),
    "both divided by lengths": (lambda m, t, a: _built(m, t, a, 0, 1, 1), "it adds `amount` times |x| and |u|, with"),
    "sign turned": (lambda m, t, a: _built(m, t, -a), "the sign is turned"),
    "amount twice": (_squared, "`amount` comes in twice"),
    "another dimension read": (_other_dimension, "it adds nothing to the logit"),
    "every dimension": (_every_dimension, "they add up: one is enough"),
    "amount left out": (lambda m, t, a: _built(m, t, 1.0), "asked for 2, it adds 1.000"),
    "another token": (lambda m, t, a: _built(m, (t + 1) % m.cfg.d_vocab, a), "asked for 2, it adds"),
    "looks at the token": (lambda m, t, a: _built(m, t, a, start=t), "it rests on the start token"),
    "looks at token 1": (lambda m, t, a: _built(m, t, a, start=1), "the start token has row 0"),
    "the product": (lambda m, t, a: _built(m, t, a)[0] @ _built(m, t, a)[1], "it should return two things"),
    "transposed": (lambda m, t, a: tuple(W.T for W in _built(m, t, a)), "W_V, [d_model, d_head]"),
    "swapped": (lambda m, t, a: _built(m, t, a)[::-1], "W_V, [d_model, d_head]"),
    "nothing": (lambda m, t, a: tuple(0 * W for W in _built(m, t, a)), "it adds nothing to the logit"),
    "gives one logit too little": (lambda m, t, a: _built(m, t, a - 1), "asked for 2, it adds 1.000"),
}
