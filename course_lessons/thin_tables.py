"""Tables of lessons 03 and 03b: trained on counts, cut to a rank, compared with models."""

from collections.abc import Callable, Sequence
from typing import Annotated

import torch
from annotated_types import Ge
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from course_utils._arguments import Count, validated
from course_utils._torch_state import usual


@validated
def pair_loss(logits: Float[Tensor, "V V"], pairs: Float[Tensor, "V V"]) -> Float[Tensor, ""]:
    """Mean −log p, in nats, over a text of which each pair [current, next] is the share `pairs`."""
    return -(pairs * logits.log_softmax(1)).sum()


@usual()
@validated
def fit(
    logits_of: Callable[..., Tensor],
    weights: Sequence[Tensor],
    pairs: Float[Tensor, "V V"],
    steps: Count = 200,
    lr: Annotated[float, Ge(0)] = 0.05,
) -> Float[Tensor, "V V"]:
    """Train `weights` by Adam on the shares of pairs; returns the logits, `logits_of(*weights)`.

    The loss is `pair_loss` itself, not an estimate from a batch.
    """
    optimizer = torch.optim.Adam(weights, lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        pair_loss(logits_of(*weights), pairs).backward()
        optimizer.step()
    return logits_of(*weights).detach()


@usual()
@validated
def train_factors(N: Float[Tensor, "V V"], rank: Count) -> Float[Tensor, "V V"]:
    """Logits [current, next] of two thin factors trained on the counts N of pairs.

    The factors, [V, rank] and [rank, V], begin small and random.
    """
    generator = torch.Generator().manual_seed(0)
    E = torch.randn(len(N), rank, generator=generator, device="cpu")
    U = torch.randn(rank, len(N), generator=generator, device="cpu")
    E, U = (torch.nn.Parameter(0.1 * factor.to(N)) for factor in (E, U))
    return fit(torch.matmul, [E, U], N / N.sum())


@validated
def svd_cut(
    table: Float[Tensor, "V V"], rank: Count, weights: Float[Tensor, "V V"] | None = None
) -> Float[Tensor, "V V"]:
    """The table of this rank that comes nearest to `table` in squared differences.

    Each row's mean is taken out first. `weights`, a column times a row, multiply the differences
    before they are squared. The decomposition is `torch.svd_lowrank`, with 64 more random
    directions than are kept.
    """
    weights = torch.ones_like(table) if weights is None else weights
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        centred = (table - table.mean(1, keepdim=True)) * weights
        left, S, right = torch.svd_lowrank(centred, q=min(rank + 64, len(table)), niter=2)
    return (left[:, :rank] * S[:rank]) @ right.T[:rank] / weights


@validated
def row_centred_correlation(
    A: Float[Tensor, "row column"], B: Float[Tensor, "row column"], mask: Bool[Tensor, "row column"]
) -> float:
    """Pearson's correlation of two tables over `mask`, each row less its own mean over it.

    A softmax over a row ignores a constant, so a comparison of logits must ignore it too.
    """
    n = mask.sum(1, keepdim=True)  # [row, 1]

    def centred(table: Tensor) -> Tensor:
        mean = (table * mask).sum(1, keepdim=True) / n  # [row, 1]
        return torch.where(mask, table - mean, 0)

    A, B = centred(A), centred(B)
    return ((A * B).sum() / (A.norm() * B.norm())).item()


@validated
def between_rows(table: Float[Tensor, "row column"]) -> float:
    """The mean cosine between two different rows, each less its own mean."""
    n = len(table)
    rows = normalize(table - table.mean(1, keepdim=True), dim=1)
    both = rows.sum(0).pow(2).sum()  # all cosines, and 1 for each row with itself
    return ((both - n) / (n * (n - 1))).item()
