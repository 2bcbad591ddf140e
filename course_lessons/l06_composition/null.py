"""What composition scores would be by chance, for circuits as stretched as a model's own."""

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import Count, NotNegative, validated
from course_utils.composition import reading


@validated
@torch.no_grad()
def null(
    model: HookedTransformer, mode: str, samples: Count = 100, seed: NotNegative = 0
) -> Float[Tensor, "sample layer1 head1 layer2 head2"]:
    """What `scores` would be by chance.

    Every circuit keeps its singular values and points in random directions: uniform (Haar) ones,
    independent for each head and each sample. The mean of the squares is 1 / d_model exactly; how
    far a score strays from it depends on the pair, most for circuits of low effective rank. Raises
    ValueError as `scores` does.

    With singular values s and t and directions U, V, of which only those that meet matter, the
    product is diag(s) Uᵀ V diag(t), up to rotations. So the square of its norm is Σᵢⱼ sᵢ² (Uᵀ V)ᵢⱼ²
    tⱼ², and with shares of Σ s² and Σ t² in place of the squares it is already divided by the
    squares of both lengths.
    """
    A, B = reading(model, mode)
    written = _shares(model.W_V, model.W_O.mT)  # [layer, head, d_head]
    read = _shares(A, B)[1:]  # [layer - 1, head, d_head]: the first layer reads no head
    generator = torch.Generator().manual_seed(seed)
    n_layers, n_heads, d_model, d_head = A.shape
    result = torch.zeros(samples, n_layers, n_heads, n_layers, n_heads)
    for sample in result:
        # directions of layers 0, 1, …, and of layers 1, 2, …: reads[layer] is layer + 1
        shape = (2, n_layers - 1, n_heads, d_model, d_head)
        columns = torch.randn(shape, generator=generator, device="cpu")
        writes, reads = _orthonormal(columns.to(A))
        for layer in range(n_layers - 1):
            # all heads at once: [head1, d_head, layer2, head2, d_head]
            facing = writes[layer].mT.flatten(0, 1) @ reads[layer:].movedim(-2, 0).flatten(1)
            squares = facing.square().view(n_heads, d_head, -1, n_heads, d_head)
            shares = (written[layer], squares, read[layer:])
            sample[layer, :, layer + 1 :] = torch.einsum("hs,hslgt,lgt->hlg", *shares).sqrt()
    return result


def _shares(
    A: Float[Tensor, "layer head d_model d_head"], B: Float[Tensor, "layer head d_model d_head"]
) -> Float[Tensor, "layer head d_head"]:
    """The squared singular values of A Bᵀ, as shares of their sum.

    With A = Q R and B = P S, both with orthonormal columns Q and P, A Bᵀ = Q (R Sᵀ) Pᵀ: those of
    the small R Sᵀ.
    """
    squared = torch.linalg.svdvals(torch.linalg.qr(A).R @ torch.linalg.qr(B).R.mT) ** 2
    return squared / squared.sum(-1, keepdim=True)


def _orthonormal(
    columns: Float[Tensor, "... d_model d_head"],
) -> Float[Tensor, "... d_model d_head"]:
    """The columns made orthonormal: X L⁻ᵀ with XᵀX = L Lᵀ.

    The same as `qr(X).Q`, and much faster for a stack. Orthonormal, since (X L⁻ᵀ)ᵀ X L⁻ᵀ = L⁻¹
    (XᵀX) L⁻ᵀ = L⁻¹ L Lᵀ L⁻ᵀ = 1.
    """
    L = torch.linalg.cholesky(columns.mT @ columns)
    return torch.linalg.solve_triangular(L, columns.mT, upper=False).mT
