"""The start token out of a head's way: hidden, or seen and its value at zero."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from course_utils._arguments import validated

Attention = Float[Tensor, "*heads dest src"]
Hook = tuple[str, Callable[[Tensor, HookPoint], Tensor]]  # where, and what to do there


@validated
def start_value_at_zero(heads: Sequence[int]) -> Hook:
    """A hook: these heads look at the start token as before, and get nothing from it."""

    def hook(v: Tensor, hook: HookPoint) -> Tensor:  # [batch, pos, head, d_head]
        v[:, 0, list(heads)] = 0
        return v

    return "blocks.0.attn.hook_v", hook


@validated
def start_hidden(heads: Sequence[int]) -> Hook:
    """A hook: these heads look at the other sources only."""

    def hook(patterns: Tensor, hook: HookPoint) -> Tensor:  # [batch, head, dest, src]
        patterns[:, list(heads)] = without_start(patterns[:, list(heads)])
        return patterns

    return "blocks.0.attn.hook_pattern", hook


@validated
def without_start(patterns: Attention) -> Attention:
    """Patterns with the start token hidden, where there is another source: rows sum to 1 again."""
    left = patterns.clone()
    left[..., 0] = 0
    whole = left.sum(-1, keepdim=True)
    return torch.where(whole > 1e-6, left / whole.clamp(min=1e-6), patterns)
