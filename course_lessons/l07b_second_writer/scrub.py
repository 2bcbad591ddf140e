"""Causal scrubbing: heads that know some tokens of a text, and in place of all others another's."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions, measure
from course_utils._arguments import require_tokens, validated
from course_utils.interventions import ROWS

Head = tuple[int, int]


def _parts(model: HookedTransformer, tokens: Tensor) -> dict[str, Tensor]:
    """Queries, keys and values of layer 0: [batch, pos, head, d_head] each."""
    names = [f"blocks.0.attn.hook_{part}" for part in "qkv"]
    _, cache = model.run_with_cache(tokens, stop_at_layer=1, names_filter=names)
    return {part: cache[part, 0] for part in "qkv"}


@validated
def within(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    another: Int[Tensor, "batch pos"],
    back: Sequence[int],
) -> Float[Tensor, "batch pos head d_head"]:
    """What layer 0's heads move if they know the text's own tokens only so many places `back`.

    There the score and the value are the text's own, everywhere else they are `another`'s, and so
    is the query, unless 0 is in `back`. After Chan et al. 2022, "Causal Scrubbing".
    """
    require_tokens(model, tokens)
    own, theirs = _parts(model, tokens), _parts(model, another)
    n, d_head = tokens.shape[1], model.cfg.d_head
    steps = torch.arange(n)[:, None] - torch.arange(n)  # [dest, src]
    near = torch.isin(steps, torch.tensor(list(back)))
    query = (own if 0 in back else theirs)["q"]
    ours = torch.einsum("bphd,bshd->bhps", query, own["k"])  # [batch, head, dest, src]
    of_theirs = torch.einsum("bphd,bshd->bhps", query, theirs["k"])
    scores = torch.where(near, ours, of_theirs) / d_head**0.5
    seen = scores.masked_fill(steps < 0, -torch.inf)
    weight = seen.softmax(-1)  # [batch, head, dest, src]
    from_own = torch.einsum("bhps,bshd->bphd", weight * near, own["v"])
    return from_own + torch.einsum("bhps,bshd->bphd", weight * ~near, theirs["v"])


def losses(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    another: Int[Tensor, "batch pos"],
    windows: Mapping[Head, Sequence[int]],
    named: Sequence[Any],
    rest: Sequence[Any],
    instead: Mapping[Any, Tensor],
) -> Float[Tensor, "batch pos-1"]:
    """−log p of every next token, in nats, when heads of layer 0 know no more than their windows.

    `windows` says for each head how many places back its own tokens are. What it writes so comes
    through the doors that are `named`; through those of the `rest` comes what `instead` has.
    """
    z = {}
    for head, back in windows.items():
        z[head] = within(model, tokens, another, back)[:, :, head[1]]  # [batch, pos, d_head]
    nats = []
    for rows in torch.arange(len(tokens)).split(ROWS):
        own = {head: one[rows] for head, one in z.items()}
        others = {writer: one[rows] for writer, one in instead.items()}
        with (
            interventions.cut(model, *named, instead=own),
            interventions.cut(model, *rest, instead=others),
        ):
            nats.append(measure.losses(model, tokens[rows]))
    return torch.cat(nats)
