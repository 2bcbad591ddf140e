"""The optimizer Muon (Jordan 2024), which orthogonalizes each step, in float32 or in bfloat16.

torch has it in bfloat16 alone, and on processors without units for that, as in most laptops, a
matrix of 256 × 256 takes 44 times as long (2 × 64 times 10). In bfloat16 both do the same, to the
last bit; a test holds that.
"""

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Parameter

# All of these as torch has them.
COEFFICIENTS = (3.4445, -4.775, 2.0315)
ITERATIONS = 5
TINY = 1e-7
MOMENTUM = 0.95


def orthogonalized(
    matrix: Float[Tensor, "rows columns"], dtype: torch.dtype
) -> Float[Tensor, "rows columns"]:
    """Nearly U Vᵀ of a matrix U S Vᵀ: its singular values are between about 0.7 and 1.2.

    Five Newton–Schulz iterations, X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X, computed in `dtype`.
    """
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    X = (matrix.T if is_tall else matrix).to(dtype)  # [short, long], so that X Xᵀ is small
    X = X / X.norm().clamp(min=TINY)  # now no singular value is above 1
    for _ in range(ITERATIONS):
        gram = X @ X.T  # [short, short]
        step = torch.addmm(gram, gram, gram, beta=b, alpha=c)  # b X Xᵀ + c (X Xᵀ)²
        X = torch.addmm(X, step, X, beta=a)  # [short, long]
    return X.T if is_tall else X


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalized in `dtype`: "float32" or "bfloat16"."""

    def __init__(
        self, matrices: Iterable[Parameter], lr: float, weight_decay: float, dtype: str = "float32"
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "dtype": dtype})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step with the gradients that are there."""
        for group in self.param_groups:
            # An older run that is resumed had torch's Muon, and so bfloat16.
            dtype = getattr(torch, group.get("dtype", "bfloat16"))
            for matrix in group["params"]:
                # The momentum follows the gradients, and the update looks one step ahead of it.
                zeros = torch.zeros_like(matrix)
                momentum = self.state[matrix].setdefault("momentum_buffer", zeros)
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                ahead = matrix.grad.lerp(momentum, MOMENTUM)
                update = orthogonalized(ahead, dtype)
                # The weights shrink a little, then take the step: longer for a tall matrix.
                longer = math.sqrt(max(1, matrix.shape[0] / matrix.shape[1]))
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-group["lr"] * longer)
