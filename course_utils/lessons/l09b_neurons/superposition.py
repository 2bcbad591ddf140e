"""More features than dimensions: the toy model of Elhage et al. 2022, "Toy Models of Superposition".

Features are on (1) or off (0), each on with the same probability, the density. The model squeezes n of them into m
dimensions and reads them back: x → relu(x W Wᵀ + b). Its loss is per feature that is on.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils._arguments import Count, NotNegative, checked

MOST = 150  # cases with the same number of features on; where there are more (and more than pairs), so many at random


@checked
def cases(n: Count) -> Float[Tensor, "case n"]:
    """Which features are on, in every case with few enough like it; of others 150 at random, of each size."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for on in range(n + 1):
        if math.comb(n, on) <= max(MOST, n * (n - 1) // 2):
            every = list(itertools.combinations(range(n), on))
            chosen = torch.tensor(every, dtype=torch.long).view(len(every), on)
        else:
            chosen = torch.rand(MOST, n, generator=generator).argsort(1)[:, :on]
        rows.append(torch.zeros(len(chosen), n).scatter_(1, chosen, 1.0))
    return torch.cat(rows)


@checked
def probabilities(x: Float[Tensor, "case n"], density: float) -> Float[Tensor, " case"]:
    """How probable each case is: the binomial probability of so many features on, shared by all cases like it."""
    n, on = x.shape[1], x.sum(1)
    alike = on.long().bincount(minlength=n + 1)
    share = [math.comb(n, k) * density**k * (1 - density) ** (n - k) / max(1, int(alike[k])) for k in range(n + 1)]
    return torch.tensor(share)[on.long()]


@checked
def losses(
    W: Float[Tensor, "*model n m"], b: Float[Tensor, "*model n"], densities: Sequence[float], relu: bool = True
) -> list[float]:
    """The loss at each density, of one model at all of them or of as many at one each; 1 for always saying 0."""
    x = cases(W.shape[-2])
    W, b = (part.expand(len(densities), *part.shape[-k:]) for part, k in ((W, 2), (b, 1)))
    return [
        (_errors(x, one, bias, relu) @ probabilities(x, density) / (density * len(one))).item()
        for one, bias, density in zip(W, b, densities, strict=True)
    ]


def _errors(x: Tensor, W: Tensor, b: Tensor, relu: bool) -> Float[Tensor, "*model case"]:
    """The squared error of every model in every case, summed over features."""
    said = x @ W @ W.mT + b[..., None, :]  # [*model, case, n]
    return ((x - (said.relu() if relu else said)) ** 2).sum(-1)


@checked
def train(
    n: Count,
    m: Count,
    densities: Sequence[float],
    relu: bool = True,
    steps: Count = 1_500,
    copies: Count = 8,
    seed: NotNegative = 0,
) -> tuple[Float[Tensor, "density n m"], Float[Tensor, "density n"]]:
    """Weights and biases for each density: the best of `copies` that begin at random, all trained at once."""
    x = cases(n)
    weight = torch.stack([probabilities(x, density) / (density * n) for density in densities])  # [density, case]
    start = torch.randn(copies, len(densities), n, m, generator=torch.Generator().manual_seed(seed))
    W = (0.6 * start).requires_grad_()
    b = torch.zeros(copies, len(densities), n, requires_grad=True)
    optimizer = torch.optim.Adam([W, b], lr=0.02)
    for step in range(steps):
        per_model = (_errors(x, W, b, relu) * weight).sum(-1)  # [copy, density]
        optimizer.zero_grad()
        per_model.sum().backward()
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / steps)
        optimizer.step()
    best, every = per_model.argmin(0), torch.arange(len(densities))
    return W.detach()[best, every], b.detach()[best, every]


@checked
def dimensions(W: Float[Tensor, "*model n m"]) -> Float[Tensor, "*model n"]:
    """How much of a dimension each feature has for itself: 1 with one of its own, 1/2 as one of two opposites.

    |W_i|² / Σ_j (Ŵ_i · W_j)², and 0 for a feature that is not there. Elhage et al. 2022.
    """
    norm = W.norm(dim=-1)  # [*model, n]
    along = (W / norm.clamp(min=1e-6)[..., None]) @ W.mT  # [*model, i, j]: how far j reaches along i
    return norm**2 / (along**2).sum(-1).clamp(min=1e-6)
