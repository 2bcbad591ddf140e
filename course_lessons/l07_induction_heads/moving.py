"""Labels that are moved from one key to another, and where heads look then."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads
from course_utils._arguments import require_tokens, validated

BEFORE, LATER, BEHIND = 3, 20, 12  # how far the places begin before the earlier B, and go on
FIRST, STEP = 4, 6  # the earlier Bs: every sixth position, from the fourth on
Move = Callable[[HookedTransformer, Tensor, int, int], list[tuple]]


@validated
def written(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], head: int
) -> Float[Tensor, "batch pos d_model"]:
    """What a head of layer 0 writes into the stream."""
    require_tokens(model, tokens)
    _, cache = model.run_with_cache(tokens, return_type=None, names_filter="blocks.0.attn.hook_z")
    return cache["z", 0][:, :, head] @ model.W_O[0, head]


@validated
def attention(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    period: int,
    labels: Float[Tensor, "batch pos d_model"],
    move_label: Move,
) -> Float[Tensor, "place head"]:
    """Where layer 1 looks from the second A, once the label at the earlier B is moved.

    `labels` at the earlier B goes from B's key to the key `LATER` places later, by `move_label`;
    `tokens` repeat after `period`. The mean over texts and seven places of B, of the attention to
    each place from `BEFORE` ahead of B to `BEHIND` past the new place. Raises ValueError if there
    is no room for that.
    """
    require_tokens(model, tokens)
    sources = range(FIRST, period - LATER, STEP)
    if not len(sources) or max(sources) + period > tokens.shape[1]:
        raise ValueError(f"There is no room for {LATER} places in a period of {period!r} tokens.")
    rows = []
    for src in sources:
        hooks = move_label(model, labels[:, src], src, src + LATER)
        with model.hooks(fwd_hooks=hooks):
            pattern = heads.patterns(model, tokens)[1]  # [head, batch, dest, src]
        second_a = src + period - 1
        looks = pattern[:, :, second_a, src - BEFORE : src + LATER + BEHIND].mean(1)
        rows.append(looks.mT)  # [place, head]
    return torch.stack(rows).mean(0)
