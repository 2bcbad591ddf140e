"""A head at work on tokens: where it looks, what it gives, and the scores that name heads."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import require_tokens, validated


@validated
def patterns(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "layer head batch dest src"]:
    """The attention patterns of every head on `tokens`.

    Raises ValueError if the model has no layers.
    """
    require_tokens(model, tokens)
    if model.cfg.n_layers == 0:
        raise ValueError("A model without layers has no heads, so there are no attention patterns.")
    _, cache = model.run_with_cache(
        tokens, return_type=None, names_filter=lambda name: name.endswith("hook_pattern")
    )
    by_layer = []
    for layer in range(model.cfg.n_layers):
        pattern = cache["pattern", layer]  # [batch, head, dest, src]
        by_layer.append(pattern.transpose(0, 1))  # heads first
    return torch.stack(by_layer)


def value_weighted(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "layer head batch dest src"]:
    """The attention patterns, each source times the length of what it has to give.

    So A[dest, src] · ‖x_src W_V W_O‖. A head with nothing to say rests on a source whose output is
    short: the plain pattern shows much attention there, this one little. Elhage et al. 2021 take
    ‖x_src W_V‖, but only the product W_V W_O has a meaning of its own. Attention-only models
    without biases. Raises ValueError if the model has no layers.
    """
    weighted = patterns(model, tokens)  # [layer, head, batch, dest, src]
    _, cache = model.run_with_cache(
        tokens, return_type=None, names_filter=lambda name: name.endswith("hook_v")
    )
    for layer in range(model.cfg.n_layers):
        values = cache["v", layer]  # [batch, src, head, d_head]
        gives = torch.einsum("bphd,hdm->hbpm", values, model.W_O[layer])
        lengths = gives.norm(dim=-1)  # [head, batch, src]
        weighted[layer] *= lengths[:, :, None, :]  # the same for every destination
    return weighted


@validated
def previous_token_score(pattern: Float[Tensor, "... dest src"]) -> Float[Tensor, "..."]:
    """How much attention goes to the token just before, on average over positions from 2 on.

    Position 1 has only the start token before it, so it has no choice.
    """
    # the entries (1, 0), (2, 1), (3, 2), … of one diagonal, the first left out
    previous = pattern.diagonal(-1, -2, -1)  # [..., dest - 1]
    return previous[..., 1:].mean(-1)


@validated
def prefix_matching_score(
    pattern: Float[Tensor, "... dest src"], period: int
) -> Float[Tensor, "..."]:
    """How much attention goes to what followed the current token earlier, on repeated tokens.

    `pattern` comes from `text.repeated_tokens(period, ...)`: a start token, then the same `period`
    tokens again and again. From the second pass on, the token at `dest` was seen at `dest -
    period`, and before that at `dest - 2 * period` …; what followed it stands one further.
    Attention to any of these counts, as in Olsson et al. 2022, "In-context Learning and Induction
    Heads". Raises ValueError if the pattern is too short for a second pass.
    """
    n = pattern.shape[-1]
    if not 2 <= period < n - 1:
        raise ValueError(f"A pattern over {n} positions holds no second pass of period {period!r}.")
    attended = pattern.new_zeros(())  # [...]
    for ago in range(period, n, period):
        # What followed the token `ago` positions back stands at src = dest - ago + 1: the entries
        # (ago - 1, 0), (ago, 1), (ago + 1, 2), … of one diagonal. The first two are none: dest -
        # ago, the position of the same token, is -1 and 0 there, in front of the text and at the
        # start token. So they are counted from (ago + 1, 2) on.
        followed = pattern.diagonal(1 - ago, -2, -1)  # [..., dest - ago + 1]
        attended = attended + followed[..., 2:].sum(-1)

    # on average over the second pass and later: destinations period + 1, …, n - 1
    n_destinations = n - 1 - period
    return attended / n_destinations
