"""The course's statistics: losses, what a cut costs, on text and on repeated random tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads, interventions
from course_utils._arguments import Count, require_tokens, validated
from course_utils.interventions import ROWS, Cut, Edge


@validated
def losses(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch pos-1"]:
    """−log p of every next token, in nats."""
    require_tokens(model, tokens)
    # a few rows at a time: the logits of a large vocabulary take much memory
    rows = tokens.split(ROWS)
    return torch.cat([model(some, return_type="loss", loss_per_token=True) for some in rows])


@validated
@torch.no_grad()
def cost(
    model: HookedTransformer,
    cuts: Sequence[Cut | Edge],
    tokens: Int[Tensor, "batch pos"],
    instead: Mapping[Any, Float[Tensor, "batch pos d_head_or_d_model"]] | None = None,
) -> Float[Tensor, "batch pos-1"]:
    """By how much each token's loss rises, in nats, when parts are cut or replaced.

    `instead` is what takes their place. Cuts and what they raise: see `interventions.cut`.
    """
    require_tokens(model, tokens)
    after = []
    for start in range(0, len(tokens), ROWS):
        rows = slice(start, start + ROWS)
        here = {part: values[rows] for part, values in (instead or {}).items()}
        with interventions.cut(model, *cuts, instead=here):
            after.append(losses(model, tokens[rows]))
    return torch.cat(after) - losses(model, tokens)


@validated
def mean_and_error(
    values: Float[Tensor, "*n"], clusters: Int[Tensor, "*#n"]
) -> tuple[float, float]:
    """The mean of values, and its standard error where the values of a cluster are alike.

    A cluster is a document, say, or a context. For a difference of losses, give the paired
    differences, token by token: `cost`, or one `losses` less another. With G clusters of sums S_g
    of deviations from the mean, over n values: √(G/(G−1) Σ S_g²) / n. Raises ValueError for fewer
    than two clusters.
    """
    clusters = clusters.expand(values.shape).flatten()
    values = values.flatten().double()
    count = len(clusters.unique())  # G
    if count < 2:
        raise ValueError("A standard error needs values of at least two clusters.")

    mean = values.mean()
    sums = torch.zeros(int(clusters.max()) + 1, dtype=torch.double)
    sums.index_add_(0, clusters, values - mean)  # S_g
    error = (count / (count - 1) * sums.square().sum()).sqrt().item() / len(values)
    return mean.item(), error


@validated
@torch.no_grad()
def inserted(
    model: HookedTransformer,
    contexts: Int[Tensor, "n pos"],
    tokens: Int[Tensor, "#n"],
    back: Int[Tensor, "#n"],
    out: Int[Tensor, "#n"],
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """log P(out) at the end of each context, in nats: as it is, and with a token written into it.

    The token stands `back` places before the end. `tokens`, `back` and `out` hold one entry for
    each context, or one for all. For models without a last LayerNorm. Raises ValueError for a place
    before the context's start.
    """
    require_tokens(model.cfg.d_vocab, tokens)
    n, pos = contexts.shape
    if back.min() < 0 or back.max() >= pos:
        raise ValueError(
            f"A context of {pos} tokens has places from 0 to {pos - 1} back; one of these is not."
        )
    rows = torch.arange(n)
    changed = contexts.clone()
    changed[rows, pos - 1 - back] = tokens

    log_p = []
    for some in (contexts, changed):
        stream = model(some, stop_at_layer=model.cfg.n_layers)[:, -1]  # [n, d_model]
        log_p.append((stream @ model.W_U).log_softmax(-1)[rows, out])  # [n]
    before, after = log_p
    return before, after


@validated
@torch.no_grad()
def on_text(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], window: Count = 32
) -> dict[str, float]:
    """Losses on text, in nats per token: "held_out_loss", and "in_context_learning".

    In-context learning is the mean loss of the last `window` predictions less that of the second
    `window` ones: below 0, the model profits from a longer context. After Olsson et al. 2022,
    "In-context Learning and Induction Heads".
    """
    loss = losses(model, tokens)  # [batch, pos - 1]: column i is the prediction made at position i
    late = loss[:, -window:].mean()
    early = loss[:, window : 2 * window].mean()
    return {
        # what follows the start token is anybody's guess
        "held_out_loss": loss[:, 1:].mean().item(),
        "in_context_learning": (late - early).item(),
    }


@validated
@torch.no_grad()
def on_repeats(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], period: Count
) -> dict[str, Any]:
    """Losses and scores of heads on random tokens that repeat every `period`, behind a start token.

    "first_pass_loss" and "second_pass_loss" in nats per token; with layers also "previous_token"
    and "prefix_matching", as [layer][head]: see `heads`.
    """
    # [pos - 1]; passes open at positions 1, period + 1, 2 period + 1, …
    loss = losses(model, tokens).mean(0)
    result: dict[str, Any] = {
        "first_pass_loss": loss[1:period].mean().item(),
        "second_pass_loss": loss[period + 1 : 2 * period].mean().item(),
    }
    if model.cfg.n_layers:
        parts = [heads.patterns(model, some) for some in tokens.split(ROWS)]
        patterns = torch.cat(parts, dim=2)  # [layer, head, batch, dest, src]
        previous = heads.previous_token_score(patterns)  # [layer, head, batch]
        matching = heads.prefix_matching_score(patterns, period)  # [layer, head, batch]
        result["previous_token"] = previous.mean(-1).tolist()
        result["prefix_matching"] = matching.mean(-1).tolist()
    return result
