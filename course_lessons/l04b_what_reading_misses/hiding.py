"""Attention with sources hidden: the start token, or as much of others."""

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils._arguments import validated

Attention = Float[Tensor, "*heads dest src"]


@validated
def without_start(patterns: Attention, most: float = 1.0) -> Attention:
    """Patterns with the start token hidden, where it has at most this share of the attention."""
    left = patterns.clone()
    left[..., 0] = 0
    return _shared_out(patterns, left, most)


@validated
def without_others(patterns: Attention, generator: torch.Generator) -> Attention:
    """The control: other sources hidden, in random order, until as much attention is gone.

    Where the start token has more than half, nothing is: the others have too little.
    """
    order = torch.rand(patterns.shape, generator=generator, device=generator.device)
    order[..., 0] = 2  # the start token comes last, and is never reached
    places = order.argsort(-1).to(patterns.device)
    share = patterns.gather(-1, places)
    gone = share.cumsum(-1) - share  # before each of them
    taken = torch.minimum(share, (patterns[..., :1] - gone).clamp(min=0))
    left = torch.zeros_like(patterns).scatter(-1, places, share - taken)
    return _shared_out(patterns, left, 0.5)


def _shared_out(before: Attention, left: Attention, most: float) -> Attention:
    """What is left as rows that sum to 1, where the start token had at most this share."""
    whole = left.sum(-1, keepdim=True)
    can_be = (before[..., :1] <= most) & (whole > 1e-6)
    return torch.where(can_be, left / whole.clamp(min=1e-6), before)
