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

COEFFICIENTS, ITERATIONS, TINY = (3.4445, -4.775, 2.0315), 5, 1e-7  # as torch has them
MOMENTUM = 0.95


def orthogonalized(
    matrix: Float[Tensor, "rows columns"], dtype: torch.dtype
) -> Float[Tensor, "rows columns"]:
    """Nearly U Vᵀ of a matrix U S Vᵀ, by five Newton–Schulz iterations: singular values of about
    0.7 to 1.2.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    X = (matrix.T if tall else matrix).to(dtype)
    X = X / X.norm().clamp(min=TINY)  # so that no singular value is above 1
    for _ in range(ITERATIONS):  # X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X
        gram = X @ X.T
        X = torch.addmm(X, torch.addmm(gram, gram, gram, beta=b, alpha=c), X, beta=a)
    return X.T if tall else X


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalized.

    `dtype` is what the iterations are done in: "float32" or "bfloat16".
    """

    def __init__(
        self, matrices: Iterable[Parameter], lr: float, weight_decay: float, dtype: str = "float32"
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "dtype": dtype})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step with the gradients that are there."""
        for group in self.param_groups:
            # an older run, resumed, had torch's
            dtype = getattr(torch, group.get("dtype", "bfloat16"))
            for matrix in group["params"]:
                momentum = self.state[matrix].setdefault(
                    "momentum_buffer", torch.zeros_like(matrix)
                )
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                update = orthogonalized(matrix.grad.lerp(momentum, MOMENTUM), dtype)
                # tall matrices take longer steps
                longer = math.sqrt(max(1, matrix.shape[0] / matrix.shape[1]))
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-group["lr"] * longer)
