"""What heads are worth to one logit, by every method of lesson 02. `replaced` and `stream_terms` are its exercises."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

Replaced = Callable[..., Float[Tensor, "batch pos d_vocab"]]


def heads(model: HookedTransformer) -> Iterator[tuple[int, int]]:
    yield from ((layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads))


def carried(
    model: HookedTransformer,
    clean: Int[Tensor, "batch pos"],
    corrupted: Int[Tensor, "batch pos"],
    token: Int[Tensor, " batch"],
    replaced: Replaced,
) -> dict[str, float]:
    """How much of the last logit of `token` each head's clean z brings back into the corrupted runs, as a share."""
    _, kept = model.run_with_cache(clean)
    back = {f"{n}.{head}": replaced(model, corrupted, n, head, kept["z", n][:, :, head]) for n, head in heads(model)}
    low, high, *each = (
        run[:, -1].gather(1, token[:, None]).mean() for run in (model(corrupted), model(clean), *back.values())
    )
    return {name: ((now - low) / (high - low)).item() for name, now in zip(back, each, strict=True)}


def worth(
    model: HookedTransformer,
    clean: Int[Tensor, "1 pos"],
    corrupted: Int[Tensor, "1 pos"],
    token: int,
    others: Int[Tensor, "text longer"],
    stream_terms: Callable[..., Float[Tensor, "term pos d_model"]],
    replaced: Replaced,
) -> dict[str, Float[Tensor, " part"]]:
    """What the embedding and each head are worth to the last logit of `token`, in nats, by every method.

    `others` are the texts for mean and resample.
    """
    kept, usual = (model.run_with_cache(texts)[1] for texts in (clean, others))
    each = clean.expand(len(others), -1)  # a text for each that z is taken from
    logit, low = (model(tokens)[0, -1, token] for tokens in (clean, corrupted))
    terms, changed = (stream_terms(model, tokens)[:, -1] @ model.W_U[:, token] for tokens in (clean, corrupted))
    direct = terms[0] - (model.W_E[others] @ model.W_U[:, token]).mean()  # cutting the direct path needs no run
    values = {"zero": [terms[0]], "mean": [direct], "resample": [direct], "patching": [terms[0] - changed[0]]}
    for layer, head in heads(model):
        z, own = usual["z", layer][:, :, head], kept["z", layer][:, :, head]
        for method, value in (("zero", 0), ("mean", z.mean((0, 1))), ("resample", z[:, : clean.shape[1]])):
            values[method].append(logit - replaced(model, each, layer, head, value)[:, -1, token].mean())
        values["patching"].append(replaced(model, corrupted, layer, head, own)[0, -1, token] - low)
    return {"attribution": terms} | {method: torch.stack(by_part) for method, by_part in values.items()}


def worth_most(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    others: Int[Tensor, "text longer"],
    replaced: Replaced,
) -> dict[str, Int[Tensor, "batch pos"]]:
    """The head worth most to the likeliest token's logit at every position, by attribution, zero and mean.

    Heads are counted through the layers; `others` are the texts for the mean.
    """
    cache, usual = (model.run_with_cache(texts)[1] for texts in (tokens, others))
    logits: Tensor = model(tokens)
    likely = logits.argmax(-1, keepdim=True)  # [batch, pos, 1]
    column = model.W_U.T[likely[..., 0]]  # [batch, pos, d_model]
    values: dict[str, list[Tensor]] = {"attribution": [], "zero": [], "mean": []}
    for layer, head in heads(model):
        wrote = cache["z", layer][:, :, head] @ model.W_O[layer, head]
        values["attribution"].append((wrote * column).sum(-1))
        for method, value in (("zero", 0), ("mean", usual["z", layer][:, :, head].mean((0, 1)))):
            lost = logits - replaced(model, tokens, layer, head, value)
            values[method].append(lost.gather(-1, likely)[..., 0])
    return {method: torch.stack(each).abs().argmax(0) for method, each in values.items()}
