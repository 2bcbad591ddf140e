"""Pushes of one value's key: along the number line or across it, and which lists are wrong then."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import max_of_list
from course_utils._arguments import Count, NotNegative, validated

Key = Float[Tensor, " d_head"]


@validated
def push_to(model: HookedTransformer, M: NotNegative, share: float) -> Key:
    """The push that moves M's key to this share of the way from M − 1 to M + 1.

    Only along the line, which is the direction of the average query at the last position.
    """
    keys, along = model.W_E @ model.W_K[0, 0], _along(model)
    goal = keys[M - 1] + share * (keys[M + 1] - keys[M - 1])
    return ((goal - keys[M]) @ along) * along


@validated
def across(model: HookedTransformer, push: Key, n: Count) -> Float[Tensor, "n d_head"]:
    """Random pushes of the same length, at right angles to the line."""
    along = _along(model)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(n, len(push), generator=generator, device="cpu").to(push)
    drawn -= torch.outer(drawn @ along, along)
    return drawn * push.norm() / drawn.norm(dim=1, keepdim=True)


@validated
def count_at(model: HookedTransformer, M: NotNegative, share: float) -> Int[Tensor, " value"]:
    """How many of the longest lists get a wrong answer, by their largest value, when M lies there.

    `share` is the place of M on the way from M − 1 to M + 1.
    """
    n, values = model.cfg.n_ctx, model.cfg.d_vocab
    extra = torch.zeros(values, n, values, dtype=torch.double)  # [query, pos, value]
    more = (_queries(model) @ push_to(model, M, share)).double() / model.cfg.d_head**0.5
    extra[:, :, M] = more[:, None]
    wrong = max_of_list.census(max_of_list.vote_table(model, n, extra))
    return torch.bincount(wrong.amax(1), minlength=values)


def _queries(model: HookedTransformer) -> Float[Tensor, "value d_head"]:
    return (model.W_E + model.W_pos[-1]) @ model.W_Q[0, 0]


def _along(model: HookedTransformer) -> Key:
    mean = _queries(model).mean(0)
    return mean / mean.norm()
