"""Two heads in different layers: how much of what the first writes, the second reads.

The second head reads through its queries ("Q"), its keys ("K") or its values ("V"). No head's
circuit, d_model × d_model, is multiplied out: its norm comes from something d_head wide. Elhage et
al. 2021, "Three Kinds of Composition".
"""

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

from course_utils import circuits
from course_utils._arguments import validated


@validated
def reading(model: HookedTransformer, mode: str) -> tuple[Tensor, Tensor]:
    """The reading circuit as A Bᵀ, A on the side that meets what was written.

    Each is [layer, head, d_model, d_head]. Raises ValueError for another mode than "Q", "K" or "V",
    and for a model with fewer than two layers.
    """
    if mode not in ("Q", "K", "V"):
        raise ValueError(f'mode must be "Q", "K" or "V", not {mode!r}.')
    if model.cfg.n_layers < 2:
        raise ValueError("Composition needs heads in two layers or more.")
    if mode == "Q":
        return model.W_Q, model.W_K  # QK
    if mode == "K":
        return model.W_K, model.W_Q  # QKᵀ
    return model.W_V, model.W_O.mT  # OV


def scores(model: HookedTransformer, mode: str) -> Float[Tensor, "layer1 head1 layer2 head2"]:
    """‖OV₁ C₂‖ / (‖OV₁‖ ‖C₂‖) of all pairs of heads, C₂ being QK₂ ("Q"), QK₂ᵀ ("K") or OV₂ ("V").

    From 0, when the second head reads nothing of what the first writes, to 1; heads pointing in
    random directions score about 1/√d_model. Zero where the second head is not in a later layer.
    The norms are Frobenius norms. Equal to TransformerLens's `all_composition_scores`, but W_V W_O
    and W_Q W_Kᵀ are never multiplied out. Raises ValueError for another mode, or a model with fewer
    than two layers. Elhage et al. 2021, "Analyzing a Two-Layer Model".
    """
    A, B = reading(model, mode)
    n_layers, n_heads, _, d_head = A.shape

    # Circuits made thin. Of W_V = Q R with orthonormal columns Q, a norm needs only R; B likewise.
    R_V = torch.linalg.qr(model.W_V).R  # [layer, head, d_head, d_head]
    R_B = torch.linalg.qr(B).R  # [layer, head, d_head, d_head]
    writes = R_V @ model.W_O  # [layer, head, d_head, d_model], as long as W_V W_O
    reads = A @ R_B.mT  # [layer, head, d_model, d_head], as long as A Bᵀ

    # what the products are compared with
    written = writes.flatten(2).norm(dim=-1)  # [layer1, head1]
    read = reads.flatten(2).norm(dim=-1)  # [layer2, head2]
    lengths = written[:, :, None, None] * read  # [layer1, head1, layer2, head2]

    # the products, of all heads of two layers at once
    side_by_side = reads.transpose(1, 2).flatten(2)  # [layer, d_model, head d_head]
    norms = torch.zeros_like(lengths)  # [layer1, head1, layer2, head2]
    for layer in range(n_layers - 1):
        for later in range(layer + 1, n_layers):
            product = writes[layer] @ side_by_side[later]  # [head1, d_head, head2 d_head]
            product = product.view(n_heads, -1, n_heads, d_head)  # [head1, d_head, head2, d_head]
            norms[layer, :, later] = product.square().sum((1, 3)).sqrt()  # [head1, head2]
    return norms / lengths


@validated
def match_matrix(
    model: HookedTransformer,
    later: tuple[int, int],
    earlier: tuple[int, int],
    query: tuple[int, int] | None = None,
) -> FactoredMatrix:
    """W_E QK₂ OV₁ᵀ W_Eᵀ, [d_vocab, d_vocab]: how well later queries fit what an earlier head wrote.

    Each head is a pair (layer, head). Divided by √d_head of the later one, an entry [dest, src] is
    what its score gains when the destination holds token `dest` and the earlier head wrote token
    `src` at the source: the K-composition term of Elhage et al. 2021. With a head `query`, the
    query is made of what that one wrote of `dest`, and W_E becomes W_E OV: Q- and K-composition at
    once. Raises IndexError for a head that the model does not have, ValueError if `earlier` or
    `query` is not in an earlier layer.
    """
    qk = circuits.qk(model, *later)
    ov = circuits.ov(model, *earlier)
    for writer in (earlier, query or earlier):
        if writer[0] >= later[0]:
            raise ValueError(
                f"Head {writer} writes too late for head {later}: "
                "it must stand in an earlier layer."
            )

    # what the later head's queries are made of, [d_vocab, d_model]
    asks = model.W_E if query is None else model.W_E @ circuits.ov(model, *query)
    return asks @ qk @ ov.T @ model.W_E.T
