"""Checks of lesson 02, the residual stream: each exercise, then its typical mistakes with the sentence each gets."""

import copy
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils import heads, transforms
from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random, tiny_model
from course_utils.check.questions import close, demand, number, pair, tensor

TOKENS = torch.tensor([[0, 7, 3, 3, 9]])
OTHER = {"n_layers": 3, "n_heads": 2, "d_head": 5, "d_model": 8, "d_vocab": 12}  # for answers that fit one model only
OTHER_TOKENS = torch.tensor([[0, 4, 11, 4, 2, 2, 8]])
FAILS = "it is right for 2 layers of 3 heads, and it fails for 3 layers of 2 heads and 7 tokens."


def _attention_pattern(n: int, seed: int = 0) -> Tensor:
    scores = 2 * random(n, n, seed=seed)
    return scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf).softmax(-1)


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
    terms = tensor(answer(model, TOKENS), shape, means)
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
    "two layers only": (lambda m, t: torch.cat([x := _terms(m, t)[: 1 + 2 * m.cfg.n_heads], x])[:7], FAILS),
    "a switch left on": (_with_results_on, "it leaves `model.cfg"),
    "W_O changed": (_louder_W_O, "it changes `model.blocks.0.attn.W_O`"),
}


@exercise
def logit_lens(answer: Answer) -> None:
    """`logit_lens(model, tokens) → [layers + 1, pos, d_vocab]`: what W_U reads from the stream after every layer."""
    model = tiny_model()
    shape, means = (3, 5, 20), "[before layer 0 and after each layer, position, d_vocab]"
    lens = tensor(answer(model, TOKENS), shape, means)
    _, cache = model.run_with_cache(TOKENS)
    logits = model(TOKENS)[0]
    demand(
        not (close(lens[0], logits) and not close(lens[2], logits)),
        "the order is reversed: the stream before layer 0 comes first.",
    )
    demand(not close(lens.exp().sum(-1), torch.ones(3, 5)), "these are log-probabilities; the lens gives logits.")
    demand(not close(lens.sum(-1), torch.ones(3, 5)), "these are probabilities; the lens gives logits.")
    demand(
        not close(lens[0], (model.W_E[TOKENS[0]] + model.W_pos[:5]) @ model.W_U),
        "the first entry holds W_pos, which never enters the stream.",
    )
    demand(
        close(lens[0], model.W_E[TOKENS[0]] @ model.W_U),
        "the first entry should be what W_U reads before any layer has written: the embedding alone.",
    )
    demand(
        not close(lens[2], cache["attn_out", 1][0] @ model.W_U),
        "these are the logits of what each layer adds; the lens reads the whole stream.",
    )
    demand(close(lens[2], logits), "the last entry should be the model's own logits.")
    demand(close(lens[1], cache["resid_post", 0][0] @ model.W_U), "the entry after layer 0 is not the stream there.")
    other = tiny_model(**OTHER)
    demand(close(tensor(answer(other, OTHER_TOKENS), (4, 7, 12), means), _lens(other, OTHER_TOKENS)), FAILS)


def _lens(model: HookedTransformer, tokens: Tensor, read: str = "resid_post") -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return torch.cat([cache["embed"], *(cache[read, layer] for layer in range(model.cfg.n_layers))]) @ model.W_U


def _with_a_hook(model: HookedTransformer, tokens: Tensor) -> Tensor:
    model.add_hook("blocks.0.hook_resid_pre", lambda x, hook: x)
    return _lens(model, tokens)


logit_lens.mistakes = {
    "what a layer adds": (lambda m, t: _lens(m, t, "attn_out"), "these are the logits of what each layer adds"),
    "before layer 0 left out": (lambda m, t: _lens(m, t)[1:], "it should be [3, 5, 20]"),
    "the last left out": (lambda m, t: _lens(m, t)[:-1], "it should be [3, 5, 20]"),
    "before each layer": (lambda m, t: _lens(m, t, "resid_pre"), "the last entry should be the model's own logits"),
    "reversed": (lambda m, t: _lens(m, t).flip(0), "the order is reversed"),
    "log-probabilities": (lambda m, t: _lens(m, t).log_softmax(-1), "these are log-probabilities"),
    "probabilities": (lambda m, t: _lens(m, t).softmax(-1), "these are probabilities"),
    "positions in the stream": (
        lambda m, t: _lens(m, t) + m.W_pos[: t.shape[1]] @ m.W_U,
        "the first entry holds W_pos",
    ),
    "always the model's logits": (
        lambda m, t: m(t).expand(m.cfg.n_layers + 1, -1, -1),
        "before any layer has written",
    ),
    "the stream itself": (
        lambda m, t: torch.stack([m.run_with_cache(t)[1]["resid_post", 0][0]] * 3),
        "it should be [3, 5, 20]",
    ),
    "layers swapped": (lambda m, t: _lens(m, t)[[0, 2, 1]], "the last entry should be the model's own logits"),
    "middle doubled": (
        lambda m, t: _lens(m, t) * torch.tensor([1.0, 2, 1])[:, None, None],
        "the entry after layer 0 is not the stream",
    ),
    "the last layer twice": (lambda m, t: _lens(m, t)[[0, -1, -1]], "the entry after layer 0 is not the stream"),
    "the last position only": (lambda m, t: _lens(m, t)[:, -1], "it should be [3, 5, 20]"),
    "the batch axis left": (lambda m, t: _lens(m, t)[:, None], "it should be [3, 5, 20]"),
    "normed": (
        lambda m, t: torch.nn.functional.layer_norm(torch.cat([_lens(m, t)]), (m.cfg.d_vocab,)),
        "before any layer has written",
    ),
    "a middle layer left out": (
        lambda m, t: torch.cat([x := _lens(m, t)[[0, 1, -1]], x])[: m.cfg.n_layers + 1],
        FAILS,
    ),
    "a hook left": (_with_a_hook, "it leaves a hook on `model`, at blocks.0.hook_resid_pre"),
}


@exercise
def patched(answer: Answer) -> None:
    """`patched(model, tokens, name, pos, value) → [1, pos, d_vocab]`: logits with one position of `name` replaced."""
    model, name = tiny_model(), "blocks.1.hook_resid_pre"
    means = "the logits, [1, pos, d_vocab]"
    _, cache = model.run_with_cache(TOKENS)
    logits, value = _logits(model, TOKENS), random(10, seed=5)
    result = tensor(answer(model, TOKENS, name, 2, value), (1, 5, 20), means)
    demand(not close(result.exp().sum(-1), torch.ones(1, 5)), "these are log-probabilities; return the logits.")
    demand(not close(result.sum(-1), torch.ones(1, 5)), "these are probabilities; return the logits.")
    demand(
        not close(result, logits),
        "the logits are those of the plain run: does your hook return the changed activation, and is it on `name`?",
    )
    everywhere = cache[name] * 0 + value
    with heads.patched(model, name, everywhere):
        demand(
            not close(result, _logits(model, TOKENS)),
            "the value stands at all positions; only `pos` should be replaced.",
        )
    with heads.patched(model, name, cache[name] + value, (slice(None), 2)):
        demand(
            not close(result, _logits(model, TOKENS)),
            "the value was added; it should stand in place of what was there.",
        )
    with heads.patched(model, name, 0 * cache[name], (slice(None), 2)):
        demand(not close(result, _logits(model, TOKENS)), "zeros stand at `pos`; it should be `value`.")
    demand(
        close(result[:, :2], logits[:, :2]),
        "positions before `pos` changed, and they cannot see it: which position does your hook write to?",
    )
    demand(not close(result[:, 2], logits[:, 2]), "the prediction at `pos` itself did not change.")
    with heads.patched(model, name, everywhere, (slice(None), 2)):
        demand(
            close(result, _logits(model, TOKENS)),
            "the logits are not those of a run with `value` at `pos`, and only there.",
        )
    _well_patched(answer, model, TOKENS)
    _well_patched(answer, tiny_model(**OTHER), OTHER_TOKENS)


def _well_patched(answer: Answer, model: HookedTransformer, tokens: Tensor) -> None:
    shape = (1, tokens.shape[1], model.cfg.d_vocab)
    last = model.cfg.n_layers - 1
    for name in ("hook_embed", "blocks.0.hook_resid_pre", "blocks.1.hook_attn_out", f"blocks.{last}.hook_resid_post"):
        for pos in (0, 1, tokens.shape[1] - 1):
            value = random(model.cfg.d_model, seed=pos)
            demand(
                close(
                    tensor(answer(model, tokens, name, pos, value), shape, "the logits, [1, pos, d_vocab]"),
                    _patched(model, tokens, name, pos, value),
                ),
                f"it works for one activation and fails for {name!r} at position {pos}: use `name` and `pos`.",
            )


Change = Callable[[Tensor, int, Tensor], None]  # of an activation [batch, pos, d_model], given `pos` and `value`


def _set(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, pos] = value


def _hooked(
    model: HookedTransformer,
    tokens: Tensor,
    name: str,
    pos: int,
    value: Tensor,
    change: Change = _set,
    stay: bool = False,
) -> Tensor:
    def hook(tensor: Tensor, hook: HookPoint) -> Tensor:
        changed = tensor.clone()
        change(changed, pos, value)
        return changed

    if stay:
        model.add_hook(name, hook)
        return model(tokens)
    return model.run_with_hooks(tokens, fwd_hooks=[(name, hook)])


_patched = _hooked  # the right answer


def _changing(change: Change) -> Answer:
    return lambda model, tokens, name, pos, value: _hooked(model, tokens, name, pos, value, change)


def _everywhere(x: Tensor, pos: int, value: Tensor) -> None:
    x[:] = value


def _late(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, (pos + 1) % x.shape[1]] = value


def _early(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, pos - 1] = value


def _up_to(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, : pos + 1] = value


def _from_there(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, pos:] = value


def _add(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, pos] += value


def _halfway(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, pos] = (x[:, pos] + value) / 2


def _zero(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, pos] = 0


def _position_2(x: Tensor, pos: int, value: Tensor) -> None:
    x[:, 2] = value


def _token_changed(model: HookedTransformer, tokens: Tensor, name: str, pos: int, value: Tensor) -> Tensor:
    tokens[:, pos] = 1
    return model(tokens)


def _not_returned(model: HookedTransformer, tokens: Tensor, name: str, pos: int, value: Tensor) -> Tensor:
    def hook(x: Tensor, hook: HookPoint) -> None:
        x.clone()[:, pos] = value

    return model.run_with_hooks(tokens, fwd_hooks=[(name, hook)])


patched.mistakes = {
    "at all positions": (_changing(_everywhere), "the value stands at all positions"),
    "added": (_changing(_add), "the value was added"),
    "halfway": (_changing(_halfway), "with `value` at `pos`, and only there"),
    "zeros": (_changing(_zero), "zeros stand at `pos`"),
    "one position late": (_changing(_late), "the prediction at `pos` itself did not change"),
    "one position early": (_changing(_early), "which position does your hook write to"),
    "all positions up to it": (_changing(_up_to), "which position does your hook write to"),
    "all positions from it": (_changing(_from_there), "with `value` at `pos`, and only there"),
    "hook returns nothing": (_not_returned, "does your hook return the changed activation"),
    "hook left on the model": (
        lambda model, tokens, name, pos, value: _hooked(model, tokens, name, pos, value, stay=True),
        "it leaves a hook on `model`, at blocks.1.hook_resid_pre",
    ),
    "plain run": (lambda m, t, name, pos, value: m(t), "the logits are those of the plain run"),
    "always the same activation": (
        lambda m, t, name, pos, value: _hooked(m, t, "blocks.1.hook_resid_pre", pos, value),
        "use `name` and `pos`",
    ),
    "another activation": (
        lambda m, t, name, pos, value: _hooked(m, t, "blocks.1.hook_resid_post", pos, value),
        "with `value` at `pos`, and only there",
    ),
    "always position 2": (_changing(_position_2), "use `name` and `pos`"),
    "token changed instead": (_token_changed, "it changes `tokens`, which it was given"),
    "only that position's logits": (lambda *given: _hooked(*given)[:, given[3]], "the logits, [1, pos, d_vocab]"),
    "probabilities": (lambda *given: _hooked(*given).softmax(-1), "these are probabilities"),
    "log-probabilities": (lambda *given: _hooked(*given).log_softmax(-1), "these are log-probabilities"),
}


@exercise
def rotate(answer: Answer) -> None:
    """`rotate(model, Q) → model`: the same function, with `x @ Q` in the stream where `x` was."""
    _well_turned(answer, tiny_model(), TOKENS)
    _well_turned(answer, tiny_model(**OTHER), OTHER_TOKENS)


def _well_turned(answer: Answer, model: HookedTransformer, tokens: Tensor) -> None:
    d_model = model.cfg.d_model
    Q = torch.linalg.qr(random(d_model, d_model, seed=7))[0]
    turned = answer(model, Q)
    demand(
        hasattr(turned, "run_with_cache"), f"it should return a model, not {type(turned).__name__}: is there a return?"
    )
    demand(turned is not model, "it returns the model that it was given: work on `copy.deepcopy(model)`.")
    logits, cache = model.run_with_cache(tokens)
    result, turned_cache = turned(tokens), turned.run_with_cache(tokens)[1]
    right = transforms.rotated(model, Q)
    kinds = ("W_E", "W_pos", "W_O", "W_Q", "W_K", "W_V", "W_U")
    demand(
        not all(close(getattr(turned, kind), getattr(model, kind)) for kind in kinds), "nothing has been turned at all."
    )
    demand(not close(turned.W_E, model.W_E), "the embedding still writes as it did: W_E writes to the stream too.")
    demand(
        not close(turned.W_E, model.W_E @ Q.T),
        "the embedding writes x Qᵀ; it should write x Q, and what reads undoes it with Qᵀ.",
    )
    demand(close(turned.W_E, model.W_E @ Q), "the embedding should write x Q where it wrote x.")
    for kind, says in {
        "W_O": "what the heads write is not turned as the embedding is: W_O writes to the stream too, in every layer.",
        "W_pos": "W_pos is not turned: it is added to what queries and keys read, so it has to turn with the stream.",
        "W_U": "W_U does not undo the turn: what reads the stream must turn it back first.",
        "W_V": "W_V does not undo the turn: what reads the stream must turn it back first, in every layer.",
    }.items():
        demand(close(getattr(turned, kind), getattr(right, kind)), says)
    for kind, part in {"W_Q": "queries", "W_K": "keys"}.items():
        demand(
            close(getattr(turned, kind), getattr(right, kind)),
            f"{part} do not undo the turn: W_Q and W_K both read the stream, in every layer.",
        )
    last = model.cfg.n_layers - 1
    demand(
        close(result, logits) and close(turned_cache["resid_post", last], cache["resid_post", last] @ Q),
        "the turned model's stream or logits are not those of the model that was given.",
    )


WRITES, READS = ("W_E", "W_pos", "W_O"), ("W_Q", "W_K", "W_V", "W_U")


def _turned(
    left: tuple[str, ...] = (),
    write: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: W @ Q,
    read: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: Q.T @ W,
    new: Callable[[HookedTransformer], HookedTransformer] = copy.deepcopy,
    layers: str = "",
) -> Answer:
    """The right answer, with something to get wrong in each keyword; `left` are weights that stay as they are."""

    def answer(model: HookedTransformer, Q: Tensor) -> HookedTransformer:
        model = new(model)
        for name, weight in model.named_parameters():
            if name.endswith(left or ("nothing",)) or ("blocks" in name and layers not in name):
                continue
            if name.endswith(WRITES):
                weight.data = write(weight.data, Q)
            elif name.endswith(READS):
                weight.data = read(weight.data, Q)
        return model

    return answer


rotate.mistakes = {
    "W_E missed": (_turned(("W_E",)), "the embedding still writes as it did"),
    "W_pos missed": (_turned(("W_pos",)), "W_pos is not turned"),
    "W_O missed": (_turned(("W_O",)), "what the heads write is not turned"),
    "only embedding and unembedding": (_turned(("W_pos", "W_O", "W_Q", "W_K", "W_V")), "what the heads write is not"),
    "W_U missed": (_turned(("W_U",)), "W_U does not undo the turn"),
    "W_V missed": (_turned(("W_V",)), "W_V does not undo the turn"),
    "W_Q and W_K missed": (_turned(("W_Q", "W_K")), "queries do not undo the turn"),
    "W_K missed": (_turned(("W_K",)), "keys do not undo the turn"),
    "layer 0 only": (_turned(layers="blocks.0"), "what the heads write is not turned"),
    "Qᵀ for Q on the writes": (_turned(write=lambda W, Q: W @ Q.T), "the embedding writes x Qᵀ"),
    "Q for Qᵀ on the reads": (_turned(read=lambda W, Q: Q @ W), "W_U does not undo the turn"),
    "the other way round": (
        _turned(write=lambda W, Q: W @ Q.T, read=lambda W, Q: Q @ W),
        "the embedding writes x Qᵀ",
    ),
    "only the reads": (_turned(WRITES), "the embedding still writes as it did"),
    "only the writes": (_turned(READS), "W_U does not undo the turn"),
    "nothing turned": (lambda model, Q: copy.deepcopy(model), "nothing has been turned"),
    "the given model": (lambda model, Q: model, "it returns the model that it was given"),
    "the given model changed": (_turned(new=lambda model: model), "which it was given: leave arguments"),
    "logits returned": (lambda model, Q: model(torch.tensor([[0, 1, 2]])), "it should return a model, not Tensor"),
}


@exercise
def virtual_strength(answer: Answer) -> None:
    """`virtual_strength(W_out, W_in) → float`: ‖W_out W_in‖ / ‖W_out‖ ‖W_in‖, from 0 to 1."""
    W_out, W_in = random(3, 8), random(8, 4, seed=1)
    value = number(answer(W_out, W_in))
    demand(
        close(number(answer(5 * W_out, W_in)), value) and close(number(answer(W_out, 5 * W_in)), value),
        "louder weights alone should change nothing: divide by both norms.",
    )
    apart_out, apart_in = torch.zeros(3, 8), torch.zeros(8, 4)
    apart_out[:, :4], apart_in[4:] = W_out[:, :4], W_in[4:]
    demand(
        close(number(answer(apart_out, apart_in)), 0),
        "what is written to dimensions 0–3 and read from dimensions 4–7 never meets: the strength should be 0.",
    )
    u = random(8, seed=2)
    demand(
        close(number(answer(random(3, 1) * u, u[:, None] * random(1, 4))), 1),
        "one direction written and the same one read should give 1: product and norms must belong together.",
    )
    Q = torch.linalg.qr(random(8, 8, seed=3))[0]
    demand(
        close(number(answer(W_out @ Q, Q.T @ W_in)), value), "turning the stream between the two should change nothing."
    )
    expected = (W_out @ W_in).norm() / W_out.norm() / W_in.norm()
    demand(not close(value, expected**2), "that is the square of the strength: norms are roots of sums of squares.")
    demand(close(value, expected), "use the Frobenius norm, the root of the sum of all squares, three times.")
    for written, d_model, read in ((1, 5, 7), (6, 6, 6), (9, 4, 2)):
        W_out, W_in = random(written, d_model, seed=4), random(d_model, read, seed=5)
        expected = (W_out @ W_in).norm() / W_out.norm() / W_in.norm()
        demand(
            close(number(answer(W_out, W_in)), expected),
            f"it fails for weights of other shapes, {list(W_out.shape)} and {list(W_in.shape)}.",
        )


def _dividing(W_out: Tensor, W_in: Tensor) -> Tensor:
    W_out /= W_out.norm()
    return (W_out @ W_in).norm() / W_in.norm()


def _by_norm(order: float | str) -> Answer:
    norm = torch.linalg.matrix_norm
    return lambda a, b: norm(a @ b, order) / norm(a, order) / norm(b, order)


virtual_strength.mistakes = {
    "not divided": (lambda a, b: (a @ b).norm(), "divide by both norms"),
    "divided by one norm": (lambda a, b: (a @ b).norm() / a.norm(), "divide by both norms"),
    "divided by their sum": (lambda a, b: (a @ b).norm() / (a.norm() + b.norm()), "divide by both norms"),
    "squared": (lambda a, b: ((a @ b).norm() / a.norm() / b.norm()) ** 2, "that is the square of the strength"),
    "spectral norms": (_by_norm(2), "use the Frobenius norm"),
    "nuclear norms": (_by_norm("nuc"), "use the Frobenius norm"),
    "divided by the norm of both together": (
        lambda a, b: (a @ b).norm() / torch.cat([a, b.T]).norm() ** 2,
        "divide by both norms",
    ),
    "sum of entries": (lambda a, b: (a @ b).sum() / a.norm() / b.norm(), "should give 1: product and norms"),
    "mean of absolute entries": (lambda a, b: (a @ b).abs().mean() / a.norm() / b.norm(), "should give 1: product"),
    "root of mean squares": (
        lambda a, b: (a @ b).square().mean().sqrt() / a.square().mean().sqrt() / b.square().mean().sqrt(),
        "should give 1: product and norms",
    ),
    "trace": (lambda a, b: (a @ b).diagonal().sum() / a.norm() / b.norm(), "should give 1: product and norms"),
    "norm of each row": (lambda a, b: (a @ b).norm(dim=1) / a.norm() / b.norm(), "it should return one number"),
    "the product itself": (lambda a, b: a @ b, "it should return one number"),
    "always 1": (lambda a, b: 1.0, "never meets: the strength should be 0"),
    "always 0": (lambda a, b: 0.0, "should give 1: product and norms"),
    "W_out changed": (_dividing, "it changes `W_out`, which it was given"),
}


@exercise
def head_out(answer: Answer) -> None:
    """`head_out(x, A, OV) → [pos, d_model]`: A moves between positions, OV acts on each vector."""
    x, A, OV = random(5, 5), _attention_pattern(5), random(5, 5, seed=2)  # one size, so that wrong orders run
    means = "[dest, d_model]"
    result = tensor(answer(x, A, OV), (5, 5), means)
    demand(not close(result.T, A @ x @ OV), "the result is transposed: a row for each destination.")
    demand(
        not close(result, A @ x @ OV.T) and not close(result.T, OV @ (A @ x).T),
        "OV acts from the wrong side: in row form a vector stands left of its matrix, x W_V W_O.",
    )
    later = x.clone()
    later[3] += 1
    change = (tensor(answer(later, A, OV), (5, 5), means) - result).abs().sum(1)
    demand(
        change[:3].max() < 1e-5,
        "a changed position 3 should not reach positions 0 to 2: the rows of A are destinations.",
    )
    demand(change[4] > 1e-4, "a changed position 3 should reach position 4, which attends to it.")
    demand(not close(result, A @ x), "the vectors are moved and not transformed: where is OV?")
    demand(not close(result, x + A @ x @ OV), "that is the stream after the head; return only what the head adds.")
    demand(close(result, A @ x @ OV), "the numbers differ: A mixes the rows of x, and OV acts on every row.")
    for n, d_model in ((4, 3), (2, 7), (1, 6)):
        for A in (_attention_pattern(n, seed=1), random(n, n, seed=3)):
            x, OV = random(n, d_model), random(d_model, d_model, seed=2)
            demand(
                close(tensor(answer(x, A, OV), (n, d_model), means), A @ x @ OV),
                f"it fails for {n} positions of {d_model} dimensions: take A as it is, whatever its rows sum to.",
            )


def _moving_x(x: Tensor, A: Tensor, OV: Tensor) -> Tensor:
    x.copy_(x @ OV)
    return A @ x


head_out.mistakes = {
    "A transposed": (lambda x, A, OV: A.T @ x @ OV, "the rows of A are destinations"),
    "OV from the wrong side": (lambda x, A, OV: A @ x @ OV.T, "OV acts from the wrong side"),
    "no OV": (lambda x, A, OV: A @ x, "moved and not transformed"),
    "no A": (lambda x, A, OV: x @ OV, "should reach position 4, which attends"),
    "OV x A": (lambda x, A, OV: OV @ x @ A, "the rows of A are destinations"),
    "transposed": (lambda x, A, OV: (A @ x @ OV).T, "the result is transposed"),
    "the stream added": (lambda x, A, OV: x + A @ x @ OV, "that is the stream after the head"),
    "summed over positions": (lambda x, A, OV: (A @ x @ OV).sum(0), "it should be [5, 5]"),
    "divided by the positions": (lambda x, A, OV: A @ x @ OV / len(x), "A mixes the rows of x"),
    "uniform attention": (
        lambda x, A, OV: torch.ones_like(A).tril() / torch.arange(1, len(A) + 1)[:, None] @ x @ OV,
        "A mixes the rows of x",
    ),
    "softmax once more": (lambda x, A, OV: A.softmax(-1) @ x @ OV, "the rows of A are destinations"),
    "A divided by its rows' sums": (
        lambda x, A, OV: A / A.sum(1, keepdim=True) @ x @ OV,
        "take A as it is, whatever its rows sum to",
    ),
    "A masked once more": (lambda x, A, OV: A.tril() @ x @ OV, "take A as it is, whatever its rows sum to"),
    "x changed": (_moving_x, "it changes `x`, which it was given"),
}


def _kron(a: Tensor, b: Tensor) -> Tensor:
    return torch.kron(a.contiguous(), b.contiguous())  # torch.kron stops at a transposed factor


def _operator(
    A: Tensor, OV: Tensor, factors: Callable[[Tensor, Tensor], Tensor] = lambda a, b: _kron(a, b.T)
) -> Tensor:
    return torch.eye(A.shape[-1] * OV.shape[-1]) + sum(factors(a, b) for a, b in zip(A, OV, strict=True))


def _one_by_one(A: Tensor, OV: Tensor) -> Tensor:
    T = torch.eye(A.shape[-1] * OV.shape[-1])
    for head in range(len(A)):
        T = _operator(A[head : head + 1], OV[head : head + 1]) @ T
    return T


@exercise
def layer_operator(answer: Answer) -> None:
    """`layer_operator(A, OV) → [pos · d_model, pos · d_model]`: Id ⊗ Id + Σ A ⊗ OVᵀ, on the flattened stream."""
    n, d = 4, 3
    A = torch.stack([_attention_pattern(n), _attention_pattern(n, seed=1)])
    OV, x = random(2, d, d, seed=2), random(n, d, seed=3)
    means = "[pos · d_model, pos · d_model]"
    T = tensor(answer(A, OV), (n * d, n * d), means)
    eye = torch.eye(n * d)
    silent = tensor(answer(A, 0 * OV), (n * d, n * d), means)
    demand(
        not close(silent, 2 * eye), "with silent heads the stream is doubled: the identity belongs to the layer once."
    )
    demand(close(silent, eye), "with silent heads the stream should pass unchanged: the operator must be the identity.")
    for factors, says in (
        (
            lambda a, b: _kron(torch.eye(n), b.T),
            "the attention patterns do not enter: this layer moves nothing between positions.",
        ),
        (
            lambda a, b: _kron(b.T, a),
            "the two factors have changed places: flattening a [pos, d_model] stream puts positions outside.",
        ),
        (_kron, "OV acts from the left here, and on a flattened row it must do what x @ OV does: transpose it."),
        (lambda a, b: _kron(a.T, b.T), "A is transposed: its rows are destinations already."),
        (lambda a, b: _kron(a.T, b), "the whole operator is transposed: it stands left of the flattened stream."),
        (lambda a, b: _kron(a, b.T) / 2, "the heads are averaged; a layer adds up what its heads write."),
    ):
        demand(not close(T, _operator(A, OV, factors)), says)
    demand(
        not close(T, _one_by_one(A, OV)),
        "the second head reads what the first one wrote; the heads of one layer all read the same stream.",
    )
    wanted = x + sum(a @ x @ b for a, b in zip(A, OV, strict=True))
    demand(close((T @ x.flatten()).view(n, d), wanted), "T @ x.flatten() is not the stream after the layer.")
    demand(close(T, _operator(A, OV)), "the operator is right for one stream and wrong for others.")
    for count, n, d in ((3, 2, 5), (1, 5, 2), (4, 3, 3)):
        A = torch.stack([_attention_pattern(n, seed=seed) for seed in range(count)])
        OV = random(count, d, d, seed=4)
        demand(
            close(tensor(answer(A, OV), (n * d, n * d), means), _operator(A, OV)),
            f"it fails for {count} heads, {n} positions and d_model {d}.",
        )


def _turning_OV(A: Tensor, OV: Tensor) -> Tensor:
    OV.copy_(OV.mT.clone())
    return _operator(A, OV.mT)


layer_operator.mistakes = {
    "no identity": (lambda A, OV: _operator(A, OV) - _operator(A, 0 * OV), "the operator must be the identity"),
    "an identity for each head": (
        lambda A, OV: _operator(A, OV) + (len(A) - 1) * _operator(A, 0 * OV),
        "the identity belongs to the layer once",
    ),
    "ones for the identity": (
        lambda A, OV: _operator(A, OV) - _operator(A, 0 * OV) + 1,
        "the operator must be the identity",
    ),
    "attention dropped": (
        lambda A, OV: _operator(A, OV, lambda a, b: _kron(torch.eye(len(a)), b.T)),
        "the attention patterns do not enter",
    ),
    "factors swapped": (lambda A, OV: _operator(A, OV, lambda a, b: _kron(b.T, a)), "factors have changed places"),
    "factors swapped, OV untransposed": (
        lambda A, OV: _operator(A, OV, lambda a, b: _kron(b, a)),
        "T @ x.flatten() is not the stream",
    ),
    "OV untransposed": (lambda A, OV: _operator(A, OV, _kron), "it must do what x @ OV does"),
    "A transposed": (lambda A, OV: _operator(A.mT, OV), "A is transposed: its rows"),
    "transposed": (lambda A, OV: _operator(A, OV).T, "the whole operator is transposed"),
    "heads one after the other": (_one_by_one, "the second head reads what the first one wrote"),
    "mean of the heads": (lambda A, OV: _operator(A, OV / len(A)), "the heads are averaged"),
    "sums before the product": (
        lambda A, OV: _operator(A.sum(0, keepdim=True), OV.sum(0, keepdim=True)),
        "T @ x.flatten() is not the stream",
    ),
    "the first head alone": (lambda A, OV: _operator(A[:1], OV[:1]), "T @ x.flatten() is not the stream"),
    "the first two heads": (lambda A, OV: _operator(A[:2], OV[:2]), "it fails for 3 heads"),
    "one for each head": (
        lambda A, OV: torch.stack([_operator(a[None], b[None]) for a, b in zip(A, OV, strict=True)]),
        "it should be [12, 12]",
    ),
    "OV changed": (_turning_OV, "it changes `OV`, which it was given"),
}


@exercise
def pattern(answer: Answer) -> None:
    """`pattern(x, p, QK, d_head) → [dest, src]`: the whole attention pattern from W_Q W_Kᵀ, positions included."""
    n, d, d_head = 5, 6, 4
    x, p, QK = random(n, d), random(n, d, seed=1), 0.7 * random(d, d, seed=2)
    means = "[dest, src]"
    result = tensor(answer(x, p, QK, d_head), (n, n), means)
    demand(
        not close(result.sum(0), torch.ones(n)),
        "the columns sum to 1: each destination shares out its own attention, so the rows should.",
    )
    demand(
        result.triu(1).abs().max() < 1e-6, "a destination attends to positions after it: mask them before the softmax."
    )
    demand(result.min() >= 0, "attention is never negative: these look like scores.")
    demand(
        not close(tensor(answer(x, 0 * p, QK, d_head), (n, n), means), result),
        "positions make no difference: p is added to x before queries and keys are formed.",
    )
    both = x + p
    demand(not close(result, _attention(both, both, QK.T, 2)), "QK is transposed: destinations stand left of it.")
    for root in (1, 1 / d_head**0.5, d_head, d**0.5, d, n**0.5):
        demand(
            not close(result, _attention(both, both, QK, root)),
            "the scores are divided by √d_head, and by nothing else.",
        )
    demand(result.diagonal()[1:].min() > 1e-9, "a position cannot see itself: the mask is off by one.")
    sums = result.sum(1)
    worst = int((sums - 1).abs().argmax())
    demand(
        close(sums, torch.ones(n)),
        f"destination {worst}'s attention sums to {sums[worst]:.3f}, not to 1: mask the scores, then take the softmax.",
    )
    demand(
        not close(result, _attention(both, x, QK, 2)) and not close(result, _attention(x, both, QK, 2)),
        "positions reach only one side: queries and keys both read x + p.",
    )
    demand(
        close(result, _attention(both, both, QK, 2)),
        "the shape of the pattern is right and its numbers are not: softmax of (x + p) QK (x + p)ᵀ / √d_head.",
    )
    for n, d, d_head in ((3, 8, 16), (7, 4, 2), (1, 5, 3)):
        x, p, QK = random(n, d), random(n, d, seed=1), 3 * random(d, d, seed=2)  # scores that no mask of −20 hides
        expected = _attention(x + p, x + p, QK, d_head**0.5)
        demand(
            close(tensor(answer(x, p, QK, d_head), (n, n), means), expected),
            f"it fails for {n} positions, d_model {d} and d_head {d_head}.",
        )


def _attention(
    query: Tensor, key: Tensor, QK: Tensor, root: float, after: int = 1, hide: float = -math.inf, dim: int = -1
) -> Tensor:
    scores = query @ QK @ key.T / root
    return scores.masked_fill(torch.ones_like(scores).triu(after).bool(), hide).softmax(dim)


def _scores(x: Tensor, p: Tensor, QK: Tensor, d_head: int) -> Tensor:
    return (x + p) @ QK @ (x + p).T / d_head**0.5


def _adding_p(x: Tensor, p: Tensor, QK: Tensor, d_head: int) -> Tensor:
    x += p
    return _attention(x, x, QK, d_head**0.5)


def _rooted(root: Callable[[Tensor, int], float]) -> Answer:
    """The scores divided by `root(x, d_head)`."""
    return lambda x, p, QK, d: _attention(x + p, x + p, QK, root(x, d))


pattern.mistakes = {
    "positions omitted": (lambda x, p, QK, d: _attention(x, x, QK, d**0.5), "positions make no difference"),
    "positions in queries only": (
        lambda x, p, QK, d: _attention(x + p, x, QK, d**0.5),
        "positions reach only one side",
    ),
    "positions in keys only": (lambda x, p, QK, d: _attention(x, x + p, QK, d**0.5), "positions reach only one side"),
    "QK transposed": (lambda x, p, QK, d: _attention(x + p, x + p, QK.T, d**0.5), "QK is transposed: destinations"),
    "no √d": (_rooted(lambda x, d: 1), "divided by √d_head, and by nothing else"),
    "times √d": (_rooted(lambda x, d: d**-0.5), "divided by √d_head, and by nothing else"),
    "divided by d": (_rooted(lambda x, d: d), "divided by √d_head, and by nothing else"),
    "√d_model": (_rooted(lambda x, d: x.shape[1] ** 0.5), "divided by √d_head, and by nothing else"),
    "half": (_rooted(lambda x, d: 2), "it fails for 3 positions, d_model 8"),
    "softmax over destinations": (
        lambda x, p, QK, d: _attention(x + p, x + p, QK, d**0.5, dim=0, hide=-1e9),
        "the columns sum to 1",
    ),
    "transposed": (
        lambda x, p, QK, d: _attention(x + p, x + p, QK, d**0.5).T,
        "the columns sum to 1",
    ),
    "no mask": (lambda *given: _scores(*given).softmax(-1), "mask them before the softmax"),
    "mask after the softmax": (lambda *given: _scores(*given).softmax(-1).tril(), "mask the scores, then take"),
    "masked with zeros": (lambda *given: _scores(*given).tril().softmax(-1), "mask them before the softmax"),
    "masked with −20": (
        lambda x, p, QK, d: _attention(x + p, x + p, QK, d**0.5, hide=-20.0),
        "mask them before the softmax",
    ),
    "mask off by one, sees the next": (
        lambda x, p, QK, d: _attention(x + p, x + p, QK, d**0.5, after=2),
        "mask them before the softmax",
    ),
    "mask off by one, not itself": (
        lambda x, p, QK, d: _attention(x + p, x + p, QK, d**0.5, after=0, hide=-1e9).tril(-1),
        "a position cannot see itself",
    ),
    "scores": (lambda *given: _scores(*given).tril(), "these look like scores"),
    "positions beside the scores": (
        lambda x, p, QK, d: (x @ QK @ x.T / d**0.5 + p @ p.T + torch.full((len(x), len(x)), -1e9).triu(1)).softmax(-1),
        "the shape of the pattern is right and its numbers are not",
    ),
    "x changed": (_adding_p, "it changes `x`, which it was given"),
}


@exercise
def fold_layer_norm(answer: Answer) -> None:
    """`fold_layer_norm(w, b, W, b_W) → (W, b_W)`: LayerNorm's weight and bias inside the next linear map."""

    def folded(w: Tensor, b: Tensor, W: Tensor, b_W: Tensor) -> tuple[Tensor, Tensor]:
        new_W, new_b = pair(answer(w, b, W, b_W), "the new W and the new b_W")
        return tensor(new_W, tuple(W.shape), "as W has it"), tensor(new_b, tuple(b_W.shape), "as b_W has it")

    d = 6
    w, b, W, b_W = 1 + 0.5 * random(d), random(d, seed=1), random(d, d, seed=2), random(d, seed=3)
    new_W, new_b = folded(w, b, W, b_W)
    plain_W, plain_b = folded(torch.ones(d), torch.zeros(d), W, b_W)
    demand(not close(plain_W, W.T), "W comes back transposed: keep its shape, [d_model, d_out].")
    demand(
        close(plain_W, W) and (close(plain_b, b_W) or close(plain_b, 0 * b_W)),
        "with w = 1 and b = 0 LayerNorm's weights do nothing, so W and b_W should come back as they are.",
    )
    demand(not close(new_W, W * w), "w scales the columns of W; it belongs to the coordinates that W reads, its rows.")
    demand(close(new_W, w[:, None] * W), "the new W is not what turns w ⊙ n into n: each row of W takes one factor.")
    demand(not close(new_b, b_W + b), "b went into the new bias as it is; but it, too, is read through W.")
    demand(not close(new_b, b_W), "b is lost: what LayerNorm adds to every vector must arrive behind W.")
    demand(not close(new_b, b @ W), "b_W is lost: the map had a bias of its own.")
    demand(not close(new_b, b_W + (w * b) @ W), "b is multiplied by w; LayerNorm adds b after it has multiplied by w.")
    demand(not close(new_b, b_W + W @ b), "b stands on the wrong side of W: a row vector stands left of its matrix.")
    demand(not close(new_b, b_W - b @ W), "b goes through W and is then subtracted; LayerNorm adds it.")
    demand(close(new_b, b_W + b @ W), "the new bias is not what b becomes behind W, plus b_W.")
    for d_model, d_out in ((5, 3), (2, 7), (4, 1)):
        w, b, W, b_W = random(d_model), random(d_model, seed=1), random(d_model, d_out, seed=2), random(d_out, seed=3)
        new_W, new_b = folded(w, b, W, b_W)
        demand(
            close(new_W, w[:, None] * W) and close(new_b, b_W + b @ W),
            f"it fails for a map from {d_model} dimensions to {d_out}.",
        )


def _scaling_W(w: Tensor, b: Tensor, W: Tensor, b_W: Tensor) -> tuple[Tensor, Tensor]:
    new_b = b_W + b @ W
    return W.mul_(w[:, None]), new_b


fold_layer_norm.mistakes = {
    "w on the columns": (lambda w, b, W, b_W: (W * w, b_W + b @ W), "w scales the columns of W"),
    "w left out": (lambda w, b, W, b_W: (W, b_W + b @ W), "each row of W takes one factor"),
    "b as it is": (lambda w, b, W, b_W: (w[:, None] * W, b_W + b), "b went into the new bias as it is"),
    "b lost": (lambda w, b, W, b_W: (w[:, None] * W, b_W), "b is lost: what LayerNorm adds"),
    "b_W lost": (lambda w, b, W, b_W: (w[:, None] * W, b @ W), "b_W is lost: the map"),
    "b times w": (lambda w, b, W, b_W: (w[:, None] * W, b_W + (w * b) @ W), "b is multiplied by w"),
    "b from the wrong side": (lambda w, b, W, b_W: (w[:, None] * W, b_W + W @ b), "b stands on the wrong side"),
    "b subtracted": (lambda w, b, W, b_W: (w[:, None] * W, b_W - b @ W), "is then subtracted; LayerNorm adds"),
    "b_W scaled": (lambda w, b, W, b_W: (w[:, None] * W, b_W * w.mean() + b @ W), "the new bias is not what b becomes"),
    "divided by w": (lambda w, b, W, b_W: (W / w[:, None], b_W + b @ W), "each row of W takes one factor"),
    "centred": (
        lambda w, b, W, b_W: ((n := w[:, None] * W) - n.mean(0), b_W + b @ W),
        "W and b_W should come back as they are",
    ),
    "transposed": (lambda w, b, W, b_W: ((w[:, None] * W).T, b_W + b @ W), "W comes back transposed"),
    "only the matrix": (lambda w, b, W, b_W: w[:, None] * W, "it should return two things"),
    "order swapped": (lambda w, b, W, b_W: (b_W + b @ W, w[:, None] * W), "it should be [6, 6]"),
    "W changed": (_scaling_W, "it changes `W`, which it was given"),
}


@exercise
def frozen_logits(answer: Answer) -> None:
    """`frozen_logits(model, soft, A) → [pos, d_vocab]`: the whole model with its attention patterns held fixed."""
    model, n, d_vocab = tiny_model(), 5, 20
    means = "[pos, d_vocab]"
    hard = torch.eye(d_vocab)[TOKENS[0]]
    other = torch.eye(d_vocab)[torch.tensor([0, 2, 5, 1, 4])]
    A = heads.patterns(model, TOKENS)[:, :, 0]
    logits = tensor(answer(model, hard, A), (n, d_vocab), means)
    demand(not close(logits.exp().sum(-1), torch.ones(n)), "these are log-probabilities; the function returns logits.")
    demand(not close(logits.sum(-1), torch.ones(n)), "these are probabilities; the function returns logits.")
    foreign = _patterns(2, 3, n)
    moved = tensor(answer(model, hard, foreign), (n, d_vocab), means)
    demand(not close(moved, logits), "other patterns give the same logits: are they computed anew from the stream?")
    for layer in (0, 1):
        changed = A.clone()
        changed[layer] = foreign[layer]
        demand(
            not close(tensor(answer(model, hard, changed), (n, d_vocab), means), logits),
            f"the patterns of layer {layer} make no difference.",
        )
    mixed = tensor(answer(model, 0.3 * hard + 0.5 * other, A), (n, d_vocab), means)
    parts = 0.3 * logits + 0.5 * tensor(answer(model, other, A), (n, d_vocab), means)
    demand(
        close(mixed, parts), "it is not linear in `soft`: with fixed patterns nothing but products and sums remains."
    )
    for wrong, says in (
        (_frozen(model, hard, A.mT), "the patterns are transposed: rows are destinations."),
        (
            _frozen(model, hard, A, one_by_one=True),
            "a head reads what its neighbour in the same layer wrote; all heads of a layer read the same stream.",
        ),
        (
            _frozen(model, hard, A, from_embedding=True),
            "layer 1 reads the embedding; it should read the stream, to which layer 0 has added.",
        ),
        (_frozen(model, hard, A, positions=True), "W_pos stands in the stream; here it only ever enters patterns."),
        (_frozen(model, hard, A, residual=False), "the stream itself is lost: a layer adds its heads to it."),
        (_frozen(model, hard, A.flip(0)), "the layers have each other's patterns: A[0] belongs to layer 0."),
        (_frozen(model, hard, A.flip(1)), "the heads have each other's patterns: A[layer, 0] belongs to head 0."),
    ):
        demand(not close(logits, wrong), says)
    demand(
        close(logits, _logits(model, TOKENS)[0]), "with the model's own patterns the logits should be the model's own."
    )
    demand(close(moved, _frozen(model, hard, foreign)), "with other patterns it goes wrong.")
    other_model = tiny_model(**OTHER)
    soft, A = random(7, 12), _patterns(3, 2, 7)
    demand(close(tensor(answer(other_model, soft, A), (7, 12), means), _frozen(other_model, soft, A)), FAILS)


def _patterns(layers: int, n_heads: int, n: int) -> Tensor:
    """Patterns that no model has made, [layer, head, dest, src]."""
    every = [_attention_pattern(n, seed=seed) for seed in range(layers * n_heads)]
    return torch.stack(every).view(layers, n_heads, n, n)


def _frozen(
    model: HookedTransformer,
    soft: Tensor,
    A: Tensor,
    positions: bool = False,
    residual: bool = True,
    one_by_one: bool = False,
    from_embedding: bool = False,
) -> Tensor:
    """The right answer, with one thing to get wrong in each keyword."""
    embedded = soft @ model.W_E
    if positions:
        embedded = embedded + model.W_pos[: len(soft)]
    x = embedded
    for layer in range(model.cfg.n_layers):
        read = embedded if from_embedding else x
        x = x if residual else 0 * x
        for head in range(model.cfg.n_heads):
            x = x + A[layer, head] @ (x if one_by_one else read) @ model.W_V[layer, head] @ model.W_O[layer, head]
    return x @ model.W_U


def _quieter(model: HookedTransformer, soft: Tensor, A: Tensor) -> Tensor:
    result = _frozen(model, soft, A)
    model.blocks[0].attn.W_V.data *= 0.9
    return result


def _two_layers(model: HookedTransformer, soft: Tensor, A: Tensor) -> Tensor:
    x = soft @ model.W_E
    for layer in (0, 1):
        x = x + (A[layer] @ x @ model.W_V[layer] @ model.W_O[layer]).sum(0)
    return x @ model.W_U


frozen_logits.mistakes = {
    "patterns computed anew": (lambda m, s, A: m(s.argmax(1)[None])[0], "are they computed anew from the stream"),
    "A transposed": (lambda m, s, A: _frozen(m, s, A.mT), "the patterns are transposed"),
    "positions in the stream": (lambda m, s, A: _frozen(m, s, A, positions=True), "it is not linear in `soft`"),
    "no residual": (lambda m, s, A: _frozen(m, s, A, residual=False), "the stream itself is lost"),
    "heads one after the other": (
        lambda m, s, A: _frozen(m, s, A, one_by_one=True),
        "a head reads what its neighbour in the same layer wrote",
    ),
    "layer 1 reads the embedding": (
        lambda m, s, A: _frozen(m, s, A, from_embedding=True),
        "layer 1 reads the embedding",
    ),
    "patterns of layer 0 everywhere": (lambda m, s, A: _frozen(m, s, A[:1].expand_as(A)), "patterns of layer 1 make"),
    "layers backwards": (lambda m, s, A: _frozen(m, s, A.flip(0)), "A[0] belongs to layer 0"),
    "heads backwards": (lambda m, s, A: _frozen(m, s, A.flip(1)), "A[layer, 0] belongs to head 0"),
    "heads alone": (lambda m, s, A: _frozen(m, s, A) - s @ m.W_E @ m.W_U, "should be the model's own"),
    "direct path alone": (lambda m, s, A: s @ m.W_E @ m.W_U, "are they computed anew from the stream"),
    "two layers": (_two_layers, FAILS),
    "the likeliest token": (
        lambda m, s, A: _frozen(m, torch.eye(s.shape[1])[s.argmax(1)], A),
        "it is not linear in `soft`",
    ),
    "probabilities": (lambda m, s, A: _frozen(m, s, A).softmax(-1), "these are probabilities"),
    "log-probabilities": (lambda m, s, A: _frozen(m, s, A).log_softmax(-1), "these are log-probabilities"),
    "softmax of the tokens": (lambda m, s, A: _frozen(m, s.softmax(-1), A), "it is not linear in `soft`"),
    "the model changed": (_quieter, "it changes `model.blocks.0.attn.W_V`"),
}
