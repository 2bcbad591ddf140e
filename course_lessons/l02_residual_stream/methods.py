"""What heads are worth to one logit, by every method of lesson 02.

`stream_terms` is its exercise.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions, measure
from course_utils.interventions import Head, head_name
from course_utils.models import all_heads


def _with_z(model: HookedTransformer, tokens: Tensor, head: Head, z: Tensor) -> Tensor:
    """Logits [batch, pos, d_vocab] of a run in which a head moves `z`."""
    with interventions.cut(model, head, instead={head: z}):
        return model(tokens)


def carried(
    model: HookedTransformer,
    source: Int[Tensor, "text pos"],
    into: Int[Tensor, "text pos"],
    token: Int[Tensor, " text"],
) -> dict[str, tuple[float, float]]:
    """How much of the way from `into` to `source` each head's z carries the last logit of `token`.

    A share of the mean way, and its standard error over texts.
    """
    _, kept = model.run_with_cache(source)

    def last(logits: Tensor) -> Tensor:
        """The logit of each text's token at the last position, [text]."""
        return logits[:, -1].gather(1, token[:, None])[:, 0]

    start, end = last(model(into)), last(model(source))
    way = end - start
    shares = {}
    for head in all_heads(model):
        layer, number = head
        now = last(_with_z(model, into, head, kept["z", layer][:, :, number]))
        share = ((now - start).mean() / way.mean()).item()
        error = (now - start - share * way).std() / len(way) ** 0.5 / way.mean().abs()
        shares[head_name(head)] = (share, error.item())
    return shares


def worth(
    model: HookedTransformer,
    clean: Int[Tensor, "1 pos"],
    corrupted: Int[Tensor, "1 pos"],
    token: int,
    others: Int[Tensor, "text longer"],
    stream_terms: Callable[..., Float[Tensor, "term pos d_model"]],
) -> dict[str, Float[Tensor, " part"]]:
    """What the embedding and each head are worth to the last logit of `token`, by every method.

    Values are in nats. `others` are the texts for mean and resample.
    """
    kept, usual = (model.run_with_cache(texts)[1] for texts in (clean, others))
    each = clean.expand(len(others), -1)  # a text for each that z is taken from
    logit, low = (model(tokens)[0, -1, token] for tokens in (clean, corrupted))
    terms, changed = (
        stream_terms(model, tokens)[:, -1] @ model.W_U[:, token] for tokens in (clean, corrupted)
    )
    # cutting the direct path needs no run
    direct = terms[0] - (model.W_E[others] @ model.W_U[:, token]).mean()
    values = {
        "zero": [terms[0]],
        "mean": [direct],
        "resample": [direct],
        "patching": [terms[0] - changed[0]],
    }
    for head in all_heads(model):
        z, own = (cache["z", head[0]][:, :, head[1]] for cache in (usual, kept))
        ways = {
            "zero": torch.zeros(model.cfg.d_head),
            "mean": z.mean((0, 1)),
            "resample": z[:, : clean.shape[1]],
        }
        for method, value in ways.items():
            values[method].append(logit - _with_z(model, each, head, value)[:, -1, token].mean())
        values["patching"].append(_with_z(model, corrupted, head, own)[0, -1, token] - low)
    return {"attribution": terms} | {
        method: torch.stack(by_part) for method, by_part in values.items()
    }


def repair(
    model: HookedTransformer,
    tokens: Int[Tensor, "text pos"],
    others: Int[Tensor, "text longer"],
    top: float = 0.02,
) -> dict[str, dict[str, tuple[float, float]]]:
    """What the likeliest token's logit loses with a head of layer 0 at its mean over `others`.

    Standard errors stand beside. The loss is given by its own term, and in all, where its own term
    is among the largest `top` of these predictions; clustered by text.
    """
    here, usual = (model.run_with_cache(texts, return_type=None)[1] for texts in (tokens, others))
    logits = model(tokens)
    likely = logits.argmax(-1, keepdim=True)  # [text, pos, 1]
    column = model.W_U.T[likely[..., 0]]  # [text, pos, d_model]
    texts = torch.arange(len(tokens))[:, None].expand(-1, tokens.shape[1] - 1)
    lost: dict[str, dict[str, tuple[float, float]]] = {
        "own term": {},
        "in all": {},
        "made up for": {},
    }
    for head in range(model.cfg.n_heads):
        z, mean = here["z", 0][:, :, head], usual["z", 0][:, :, head].mean((0, 1))
        own = (((z - mean) @ model.W_O[0, head]) * column).sum(-1)[:, 1:]
        total = (logits - _with_z(model, tokens, (0, head), mean)).gather(-1, likely)[:, 1:, 0]
        most = own > own.flatten().quantile(1 - top)
        for name, values in zip(lost, (own, total, own - total), strict=True):
            lost[name][f"0.{head}"] = measure.mean_and_error(values[most], texts[most])
    return lost
