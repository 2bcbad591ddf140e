"""What the scores of a first layer are made of: tokens, positions, and what mixes them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import Count, require_tokens, validated


@validated
@torch.no_grad()
def score_parts(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], first: Count = 64
) -> dict[str, Float[Tensor, " head"]]:
    """How much each part of a score in layer 0 varies over the sources of a destination.

    The result has mean variances, by part. Sources are the earlier tokens; destinations, those from
    position `first` on. "mixed" sums two parts: token against position, and position against token.
    Needs positions that only queries and keys see, or that are added to tokens.
    """
    require_tokens(model, tokens)
    if model.cfg.n_layers == 0:
        raise ValueError("A model without layers has no heads, so there are no scores.")
    x = model.W_E[tokens]  # [batch, pos, d_model]
    p = model.W_pos[: tokens.shape[1]]  # [pos, d_model]
    allowed = torch.ones(len(p), len(p)).tril(-1)[first:]  # [dest, src]
    n = allowed.sum(-1)

    def varies(scores: Float[Tensor, "... dest src"]) -> Tensor:
        """The variance over a destination's sources, in the mean."""
        scores = scores[..., first:, :]
        centred = scores - (scores * allowed).sum(-1, keepdim=True) / n[:, None]
        return ((centred**2 * allowed).sum(-1) / n).mean()

    parts: dict[str, list[Tensor]] = {"position–position": [], "mixed": [], "token–token": []}
    for W_Q, W_K in zip(model.W_Q[0] / model.cfg.d_head**0.5, model.W_K[0], strict=True):
        tq, tk = x @ W_Q, x @ W_K  # queries and keys of tokens, [batch, pos, d_head]
        pq, pk = p @ W_Q, p @ W_K  # and of positions, [pos, d_head]
        parts["position–position"].append(varies(pq @ pk.T))
        parts["mixed"].append(varies(tq @ pk.T) + varies(pq @ tk.mT))
        parts["token–token"].append(varies(tq @ tk.mT))
    return {name: torch.stack(values) for name, values in parts.items()}
