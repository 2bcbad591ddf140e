"""What heads are worth to one logit, by every method of lesson 02. `replaced` and `stream_terms` are its exercises."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

Replaced = Callable[..., Float[Tensor, "batch pos d_vocab"]]


def _heads(model: HookedTransformer) -> Iterator[tuple[int, int]]:
    yield from ((layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads))


def _brought_back(
    model: HookedTransformer, clean: Tensor, corrupted: Tensor, token: Tensor, replaced: Replaced
) -> tuple[Float[Tensor, " head"], Float[Tensor, ""]]:
    """What the last logit of `token` [batch] rises by with each head's clean z in the corrupted runs; and with all."""
    _, kept = model.run_with_cache(clean)

    def mean(logits: Tensor) -> Tensor:
        return logits[:, -1].gather(1, token[:, None]).mean()

    low = mean(model(corrupted))
    runs = (replaced(model, corrupted, n, head, kept["z", n][:, :, head]) for n, head in _heads(model))
    return torch.stack([mean(run) for run in runs]) - low, mean(model(clean)) - low


def carried(
    model: HookedTransformer,
    clean: Int[Tensor, "batch pos"],
    corrupted: Int[Tensor, "batch pos"],
    token: Int[Tensor, " batch"],
    replaced: Replaced,
) -> dict[str, float]:
    """How much of the last logit of `token` each head's clean z brings back into the corrupted runs, as a share."""
    back, whole = _brought_back(model, clean, corrupted, token, replaced)
    return {f"{n}.{head}": share for (n, head), share in zip(_heads(model), (back / whole).tolist(), strict=True)}


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
    _, usual = model.run_with_cache(others)
    texts, logit = clean.expand(len(others), -1), model(clean)[0, -1, token]  # a text for each that z is taken from
    terms, changed = (stream_terms(model, tokens)[:, -1] @ model.W_U[:, token] for tokens in (clean, corrupted))
    direct = terms[0] - (model.W_E[others] @ model.W_U[:, token]).mean()  # cutting the direct path needs no run
    cuts = {"zero": [terms[0]], "mean": [direct], "resample": [direct]}
    for layer, head in _heads(model):
        z = usual["z", layer][:, :, head]
        for method, value in (("zero", 0), ("mean", z.mean((0, 1))), ("resample", z[:, : clean.shape[1]])):
            cuts[method].append(logit - replaced(model, texts, layer, head, value)[:, -1, token].mean())
    back, _ = _brought_back(model, clean, corrupted, torch.tensor([token]), replaced)
    whole = {"attribution": terms} | {method: torch.stack(values) for method, values in cuts.items()}
    return whole | {"patching": torch.cat([(terms - changed)[:1], back])}


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
    for layer, head in _heads(model):
        wrote = cache["z", layer][:, :, head] @ model.W_O[layer, head]
        values["attribution"].append((wrote * column).sum(-1))
        for method, value in (("zero", 0), ("mean", usual["z", layer][:, :, head].mean((0, 1)))):
            lost = logits - replaced(model, tokens, layer, head, value)
            values[method].append(lost.gather(-1, likely)[..., 0])
    return {method: torch.stack(each).abs().argmax(0) for method, each in values.items()}
