"""Attention with sources hidden: the start token, or as much of others."""

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils._arguments import validated

Attention = Float[Tensor, "*heads dest src"]


@validated
def without_start(patterns: Attention) -> Attention:
    """Patterns with the start token hidden, where it has at most half of the attention."""
    left = patterns.clone()
    left[..., 0] = 0
    return _shared_out(patterns, left)


@validated
def without_others(patterns: Attention, generator: torch.Generator) -> Attention:
    """The control: other sources hidden, in random order, until as much attention is gone."""
    order = torch.rand(patterns.shape, generator=generator)
    order[..., 0] = 2  # the start token comes last, and is never reached
    places = order.argsort(-1)
    share = patterns.gather(-1, places)
    gone = share.cumsum(-1) - share  # before each of them
    taken = torch.minimum(share, (patterns[..., :1] - gone).clamp(min=0))
    left = torch.zeros_like(patterns).scatter(-1, places, share - taken)
    return _shared_out(patterns, left)


def _shared_out(before: Attention, left: Attention) -> Attention:
    """What is left, as rows that sum to 1; rows in which it is under half stay as they were."""
    whole = left.sum(-1, keepdim=True)
    return torch.where(before[..., :1] <= 0.5, left / whole.clamp(min=1e-9), before)
