"""One head at work on tokens: where it looks, and what the model loses without it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def patterns(model, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "layer head batch dest src"]:
    """The attention patterns of every head on `tokens`. Raises ValueError if the model has no layers."""
    if model.cfg.n_layers == 0:
        raise ValueError("A model without layers has no heads, so there are no attention patterns.")
    _, cache = model.run_with_cache(tokens, return_type=None, names_filter=lambda name: name.endswith("hook_pattern"))
    return torch.stack([cache["pattern", layer].transpose(0, 1) for layer in range(model.cfg.n_layers)])


def previous_token_score(pattern: Float[Tensor, "... dest src"]) -> Float[Tensor, "..."]:
    """How much attention goes to the token just before, on average over the positions that have two to choose from."""
    return pattern.diagonal(-1, -2, -1)[..., 1:].mean(-1)


def prefix_matching_score(pattern: Float[Tensor, "... dest src"], period: int) -> Float[Tensor, "..."]:
    """How much attention goes to the token that followed the current one last time, on repeated random tokens.

    `pattern` comes from `text.repeated_tokens(period, ...)`: a start token, then the same `period` tokens again and
    again. From the second pass on, the token at `dest` was seen at `dest - period`, and what followed it stands at
    `dest - (period - 1)`. Olsson et al. 2022, "In-context Learning and Induction Heads". Raises ValueError if
    the pattern is too short to hold a second pass.
    """
    n = pattern.shape[-1]
    if not 2 <= period < n - 1:
        raise ValueError(f"A pattern over {n} positions holds no second pass of period {period!r}.")
    return pattern.diagonal(-(period - 1), -2, -1)[..., 2:].mean(-1)
