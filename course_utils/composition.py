"""Two heads in different layers: how much of what the first writes, the second reads.

The second head reads through its queries ("Q"), its keys ("K") or its values ("V"). Elhage et al. 2021, "Three Kinds of
Composition". No head's d_model × d_model circuit is multiplied out: its norm comes from something d_head wide.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

from course_utils import circuits
from course_utils._arguments import Count, NotNegative, checked


def _reading(model: HookedTransformer, mode: str) -> tuple[Tensor, Tensor]:
    """The reading circuit as A Bᵀ, A on the side that meets the stream; each [layer, head, d_model, d_head]."""
    if mode not in ("Q", "K", "V"):
        raise ValueError(f'mode must be "Q", "K" or "V", not {mode!r}.')
    if model.cfg.n_layers < 2:
        raise ValueError("Composition needs heads in two layers or more.")
    sides = {"Q": (model.W_Q, model.W_K), "K": (model.W_K, model.W_Q)}
    return sides[mode] if mode != "V" else (model.W_V, model.W_O.mT)


@checked
def scores(model: HookedTransformer, mode: str) -> Float[Tensor, "layer1 head1 layer2 head2"]:
    """‖OV₁ C₂‖ / (‖OV₁‖ ‖C₂‖) in Frobenius norms, C₂ being QK₂ ("Q"), QK₂ᵀ ("K") or OV₂ ("V"): all pairs at once.

    From 0, when the second head reads nothing of what the first writes, to 1; heads pointing in random directions
    score about 1/√d_model. Zero where the second head is not in a later layer. Equal to TransformerLens's
    `all_composition_scores`, but W_V W_O and W_Q W_Kᵀ are never multiplied out: of W_V = Q R with orthonormal columns
    Q, the norm only needs R, and of B likewise. Raises ValueError for another mode, or a model with fewer than two
    layers. Elhage et al. 2021, "Analyzing a Two-Layer Model".
    """
    A, B = _reading(model, mode)
    writes = torch.linalg.qr(model.W_V).R @ model.W_O  # [layer, head, d_head, d_model], as long as W_V W_O
    reads = A @ torch.linalg.qr(B).R.mT  # [layer, head, d_model, d_head], as long as A Bᵀ
    lengths = writes.flatten(2).norm(dim=-1)[:, :, None, None] * reads.flatten(2).norm(dim=-1)  # as the result
    reads = reads.transpose(1, 2).flatten(2)  # [layer, d_model, head d_head]: all heads of a layer as one matrix
    n_layers, n_heads = A.shape[:2]
    result = torch.zeros_like(lengths)  # [layer1, head1, layer2, head2]
    for layer in range(n_layers - 1):
        for later in range(layer + 1, n_layers):
            product = writes[layer] @ reads[later]  # [head1, d_head, head2 d_head]
            product = product.view(n_heads, -1, n_heads, A.shape[-1])  # [head1, d_head, head2, d_head]
            result[layer, :, later] = product.square().sum((1, 3)).sqrt()  # [head1, head2], Frobenius norms
    return result / lengths


@checked
def null(
    model: HookedTransformer, mode: str, samples: Count = 100, seed: NotNegative = 0
) -> Float[Tensor, "sample layer1 head1 layer2 head2"]:
    """What `scores` would be by chance: every circuit keeps its singular values and points in random directions.

    The directions are uniform (Haar) and independent, for each head and each sample. The mean of the squares is
    1 / d_model exactly; how far a score strays from it depends on the pair, most for circuits of low effective rank.
    Raises ValueError as `scores` does.

    With singular values s and t and directions U, V, of which only those that meet matter, the product is
    diag(s) Uᵀ V diag(t), up to rotations. So the square of its norm is Σᵢⱼ sᵢ² (Uᵀ V)ᵢⱼ² tⱼ², and with shares of Σ s²
    and Σ t² in place of the squares it is already divided by the squares of both lengths.
    """
    A, B = _reading(model, mode)
    written = _shares(model.W_V, model.W_O.mT)  # [layer, head, d_head]
    read = _shares(A, B)[1:]  # [layer - 1, head, d_head]: the first layer reads no head
    generator = torch.Generator().manual_seed(seed)
    n_layers, n_heads, d_model, d_head = A.shape
    result = torch.zeros(samples, n_layers, n_heads, n_layers, n_heads)
    for sample in result:
        columns = torch.randn(2, n_layers - 1, n_heads, d_model, d_head, generator=generator)
        writes, reads = _orthonormal(columns)  # of layers 0, 1, … and of layers 1, 2, …: reads[layer] is layer + 1
        for layer in range(n_layers - 1):
            for head in range(n_heads):
                overlap = (writes[layer, head].mT @ reads[layer:]) ** 2  # [layer2, head2, d_head, d_head]
                squared = (written[layer, head] @ overlap * read[layer:]).sum(-1)  # [layer2, head2]
                sample[layer, head, layer + 1 :] = squared.sqrt()
    return result


@checked
def match_matrix(
    model: HookedTransformer, later: tuple[int, int], earlier: tuple[int, int], query: tuple[int, int] | None = None
) -> FactoredMatrix:
    """W_E QK₂ OV₁ᵀ W_Eᵀ, [d_vocab, d_vocab] as [dest, src]: does the later head look for what the earlier one wrote?

    Each head is a pair (layer, head). Divided by √d_head of the later one, an entry is what its score gains when the
    destination holds token `dest` and the earlier head wrote token `src` at the source: the K-composition term of
    Elhage et al. 2021. With a head `query`, the query is made of what that one wrote of `dest`, and W_E becomes W_E OV:
    Q- and K-composition at once. Raises IndexError for a head that the model does not have, ValueError if `earlier` or
    `query` is not in an earlier layer.
    """
    qk, ov = circuits.qk(model, *later), circuits.ov(model, *earlier)
    for writer in (earlier, query or earlier):
        if writer[0] >= later[0]:
            raise ValueError(f"Head {writer} writes too late for head {later}: it must stand in an earlier layer.")
    asks = model.W_E if query is None else model.W_E @ circuits.ov(model, *query)
    return asks @ qk @ ov.T @ model.W_E.T


@checked
def find_and_copy(
    model: HookedTransformer, later: tuple[int, int], earlier: tuple[int, int]
) -> Float[Tensor, "measure axis"]:
    """How well a pair of heads finds the token that the earlier one wrote, and how well the later one copies a token.

    The axes are M_K, to find, and W_E OV₂ W_U, to copy; the measures of each are `circuits.copying_score` and
    `circuits.lead`, that of M_K in units of the score. After Elhage et al. 2021, "Analyzing a Two-Layer Model".
    """
    match = match_matrix(model, later, earlier)
    return _two_measures(match, circuits.full_ov(model, *later), model.cfg.d_head)


@checked
def find_and_copy_null(
    model: HookedTransformer,
    later: tuple[int, int],
    earlier: tuple[int, int],
    samples: Count = 200,
    seed: NotNegative = 0,
) -> Float[Tensor, "sample measure axis"]:
    """What `find_and_copy` would be by chance: for pairs whose weights are random, and as large as this pair's."""
    own = model.W_Q[later], model.W_K[later], model.W_V[earlier], model.W_O[earlier], model.W_V[later], model.W_O[later]
    sizes = [W.norm() / W.numel() ** 0.5 for W in own]
    generator, found = torch.Generator().manual_seed(seed), []
    for _ in range(samples):
        drawn = [torch.randn(model.cfg.d_model, model.cfg.d_head, generator=generator) for _ in sizes]
        W_Q, W_K, W_V, W_O, W_V2, W_O2 = (size * W for size, W in zip(sizes, drawn, strict=True))
        match = model.W_E @ FactoredMatrix(W_Q, W_K.T) @ FactoredMatrix(W_V, W_O.T).T @ model.W_E.T
        copy = model.W_E @ FactoredMatrix(W_V2, W_O2.T) @ model.W_U
        found.append(_two_measures(match, copy, model.cfg.d_head))
    return torch.stack(found)


def _two_measures(match: FactoredMatrix, copy: FactoredMatrix, d_head: int) -> Float[Tensor, "measure axis"]:
    positivity = [circuits.copying_score(match), circuits.copying_score(copy)]
    return torch.tensor([positivity, [circuits.lead(match) / d_head**0.5, circuits.lead(copy)]])


def _shares(
    A: Float[Tensor, "layer head d_model d_head"], B: Float[Tensor, "layer head d_model d_head"]
) -> Float[Tensor, "layer head d_head"]:
    """The squared singular values of A Bᵀ, as shares of their sum.

    With A = Q R and B = P S, both with orthonormal columns Q and P, A Bᵀ = Q (R Sᵀ) Pᵀ: those of the small R Sᵀ.
    """
    squared = torch.linalg.svdvals(torch.linalg.qr(A).R @ torch.linalg.qr(B).R.mT) ** 2
    return squared / squared.sum(-1, keepdim=True)


def _orthonormal(columns: Float[Tensor, "... d_model d_head"]) -> Float[Tensor, "... d_model d_head"]:
    """The columns made orthonormal: X L⁻ᵀ with XᵀX = L Lᵀ. The same as `qr(X).Q`, and much faster for a stack.

    Orthonormal, since (X L⁻ᵀ)ᵀ X L⁻ᵀ = L⁻¹ (XᵀX) L⁻ᵀ = L⁻¹ L Lᵀ L⁻ᵀ = 1.
    """
    L = torch.linalg.cholesky(columns.mT @ columns)
    return torch.linalg.solve_triangular(L, columns.mT, upper=False).mT
