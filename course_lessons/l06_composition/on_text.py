"""How much of what raises a score is one term, on text that nobody chose."""

import torch
from jaxtyping import Int
from torch import Tensor
from transformer_lens import HookedTransformer


@torch.no_grad()
def shares(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], writer: int
) -> list[tuple[float, float]]:
    """Of each head of layer 1, the share of embed · 0.`writer` in its rises, and what is left out.

    For each query, the source with the highest score rises above the average of its row; the term
    has the token in the query and what head `writer` of layer 0 wrote in the key. Left out are
    queries whose highest score is the start token's; given is their share of all queries.
    """
    _, cache = model.run_with_cache(tokens)
    written = cache["z", 0][:, :, writer] @ model.W_O[0, writer]  # [batch, pos, d_model]
    length = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
    found = []
    for head in range(model.cfg.n_heads):
        scores = cache["attn_scores", 1][:, head]  # [batch, dest, src]
        queries, keys = cache["embed"] @ model.W_Q[1, head], written @ model.W_K[1, head]
        term = queries @ keys.mT / queries.shape[-1] ** 0.5
        best = scores.argmax(-1)  # [batch, dest]
        both = torch.stack([term, scores]).tril()
        at_best = both.gather(-1, best.expand(2, -1, -1)[..., None])[..., 0]
        rise = (at_best - both.sum(-1) / length)[:, best != 0].sum(-1)
        found.append(((rise[0] / rise[1]).item(), (best == 0).float().mean().item()))
    return found
