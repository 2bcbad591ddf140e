"""What is measured of a small model: where heads look, what layers look for, by which door."""

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import circuits, composition, heads, interventions
from course_utils._arguments import Count, require_tokens, validated


@validated
@torch.no_grad()
def offsets(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], period: Count, most: Count = 6
) -> dict[str, list[list[float]]]:
    """Where heads look on random tokens repeated every `period`.

    The result is lists [head][offset], offsets 0 to `most` − 1. "back": layer 0's attention to the
    token that many places back. "after": the last layer's attention to the tokens that many places
    after earlier copies of the current one, from the second pass on; 1 is prefix matching.
    """
    patterns = heads.patterns(model, tokens)  # [layer, head, batch, dest, src]
    first, last, n_ctx = patterns[0], patterns[-1], patterns.shape[-1]
    # diagonal(-d) lists attention from dest = src + d to src, for src = 0, 1, …
    # from dest = 2 on
    back = [first.diagonal(-o, -2, -1)[..., max(0, 2 - o) :].mean((-2, -1)) for o in range(most)]
    after = []
    for o in range(most):
        total = last.new_zeros(last.shape[:2])  # [head, batch]
        for ago in range(period, n_ctx - 1, period):  # src = copy + o, where copy = dest - ago
            # copy ≥ 1: no copy of the start token
            total = total + last.diagonal(o - ago, -2, -1)[..., 1 + o :].sum(-1)
        # on average over dest = period + 1, …, n_ctx - 1
        after.append(total.mean(-1) / (n_ctx - 1 - period))
    return {"back": torch.stack(back, -1).tolist(), "after": torch.stack(after, -1).tolist()}


@validated
@torch.no_grad()
def matches(model: HookedTransformer) -> dict[str, Float[Tensor, "head1 head2"]]:
    """Three numbers of every pair's M_K = W_E QK₂ OV₁ᵀ W_Eᵀ, each row less its mean.

    A softmax never sees a row's mean. "match": Σλ / Σ|λ|. Near 1, a head of layer 1 looks for the
    token that a head of layer 0 read and passed on: half of an induction head. It says nothing of
    how strongly.

    "lead": a token's own entry less its row's mean, on average over tokens, over √d_head: units of
    the attention score. e^lead is the factor in attention, once layer 0 puts all its attention on
    that token.

    "chance": the standard deviation of the lead when the columns are shuffled, so that each token's
    "own" is an arbitrary other's. It needs no shuffling: for a matrix D without row and column
    means, the sum of n entries, one in each row and column, has variance Σ D² / (n − 1) (Hoeffding
    1951).
    """
    n, d_vocab, d_head = model.cfg.n_heads, model.cfg.d_vocab, model.cfg.d_head
    match, lead, chance = torch.zeros(3, n, n)
    for pair in itertools.product(range(n), repeat=2):
        M = composition.match_matrix(model, (1, pair[1]), (0, pair[0]))
        M.B = M.B - M.B.mean(-1, keepdim=True)
        match[pair] = circuits.copying_score(M)
        lead[pair] = circuits.lead(M) / d_head**0.5
        A, B = M.A - M.A.mean(0), M.B  # [looks for, d_head], [d_head, was passed on]
        squares = ((A.T @ A) * (B @ B.T)).sum()  # Σ D², where D = A B: the trace of Aᵀ A B Bᵀ
        chance[pair] = (squares / (d_vocab - 1) / d_head).sqrt() / d_vocab
    return {"match": match, "lead": lead, "chance": chance}


@validated
@torch.no_grad()
def doors(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], period: Count
) -> dict[str, dict[str, Any]]:
    """The measures of the whole model, and without layer 0 in layer 1's queries, keys or values.

    They are found by their names. "paths": prefix-matching scores of layer 1's heads. The mechanism
    of Elhage et al. 2021 needs the keys. "savings": what repeating saves, in nats. It asks for no
    particular head or offset, and so sees every mechanism. The textbook's needs layer 0 in the keys
    alone; one that copies what layer 0 has brought along needs it in the values too.
    """
    require_tokens(model, tokens)
    paths, savings, pairs = {}, {}, list(itertools.product(range(model.cfg.n_heads), repeat=2))
    for door in ("whole", "keys", "queries", "values"):
        with interventions.cut(
            model, *(((0, a), door[0], (1, b)) for a, b in pairs if door != "whole")
        ):
            savings[door] = saving(model(tokens), tokens, period)
            if door != "values":  # where a head looks, they have no part in
                found = heads.patterns(model, tokens)[1]
                paths[door] = heads.prefix_matching_score(found, period).mean(-1).tolist()
    return {"paths": paths, "savings": savings}


@validated
def saving(
    logits: Float[Tensor, "batch pos d_vocab"], tokens: Int[Tensor, "batch pos"], period: Count
) -> float:
    """By how much the second pass's loss is below the first's, in nats, where tokens repeat."""
    require_tokens(logits.shape[-1], tokens)
    loss = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none").mean(0)  # [pos - 1]
    return (loss[1:period].mean() - loss[period + 1 : 2 * period].mean()).item()
