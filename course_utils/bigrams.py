"""Tables of which token follows which: counted, smoothed, trained, scored, and compared with a model's weights."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_utils._arguments import Count, checked
from course_utils._files import DATA, verified, write_atomically
from course_utils.text import D_VOCAB


@checked
def count(stream: Int[Tensor, " pos"], d_vocab: Count = D_VOCAB) -> Tensor:
    """How often each token follows each other one within a document, as a sparse [d_vocab, d_vocab] tensor."""
    pairs = torch.stack([stream[:-1], stream[1:]])  # [2, pos - 1], as (current, next)
    pairs = pairs[:, stream[1:] != 0]  # what precedes a start token is another text
    ones = torch.ones(pairs.shape[1])
    return torch.sparse_coo_tensor(pairs, ones, (d_vocab, d_vocab), check_invariants=True).coalesce()


@checked
def preceded(
    stream: Int[Tensor, " pos"], labels: Int[Tensor, " pos"], window: Count = 16, d_vocab: Count = D_VOCAB
) -> Int[Tensor, "d_vocab label"]:
    """How often each token stands among the `window` tokens before a position, for each label of the position.

    Labels are 0, 1, 2, …; −1 leaves a position out, as are those with fewer tokens before them. A window may reach back
    into another document.
    """
    n = int(labels.max()) + 1
    here = (labels[window:] >= 0).nonzero().flatten() + window  # positions to count at
    table = torch.zeros(d_vocab * n, dtype=torch.int32)
    ones = torch.ones(len(here), dtype=torch.int32)
    for back in range(1, window + 1):
        table.index_add_(0, stream[here - back] * n + labels[here], ones)
    return table.view(d_vocab, n)


@functools.cache
def counts() -> Tensor:
    """The counts of the training corpus: a sparse float tensor [d_vocab, d_vocab], row = first token of the pair."""
    stored = np.load(verified(DATA / "bigrams.npz"))
    rows = np.repeat(np.arange(D_VOCAB), np.diff(stored["row_starts"]))  # [pair]: each row as often as it has entries
    indices = torch.from_numpy(np.stack([rows, stored["columns"].astype(np.int64)]))  # [2, pair]
    values = torch.from_numpy(stored["counts"].astype(np.float32))
    return torch.sparse_coo_tensor(indices, values, (D_VOCAB, D_VOCAB), check_invariants=True).coalesce()


def save(table: Tensor, path: Path) -> None:
    """Write sparse counts as compressed rows, which is how `counts` reads them."""
    rows, columns = table.indices()  # sorted by row, then by column
    arrays = {
        "row_starts": np.concatenate([[0], np.bincount(rows, minlength=table.shape[0]).cumsum()]).astype(np.uint32),
        "columns": columns.numpy().astype(np.uint16),
        "counts": table.values().numpy().astype(np.uint32),
    }

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:  # given a name, numpy would append .npz to it
            np.savez_compressed(file, **arrays)

    write_atomically(path, write)


@checked
def add_alpha(table: Float[Tensor, "V V"], alpha: Annotated[float, Ge(0)]) -> Float[Tensor, "V V"]:
    """Log-probabilities [current, next] from dense counts, `alpha` added to each (Lidstone smoothing)."""
    return ((table + alpha) / (table + alpha).sum(1, keepdim=True)).log()


@checked
def kneser_ney(table: Float[Tensor, "V V"]) -> Float[Tensor, "V V"]:
    """Log-probabilities [current, next] by interpolated Kneser-Ney smoothing, the customary one for bigrams.

    Every count is lowered by one discount D = n₁ / (n₁ + 2 n₂), from how many pairs occur once and twice. What that
    frees goes to all next tokens in proportion to how many *different* tokens precede them (Ney, Essen & Kneser 1994).
    """
    discount = (table == 1).sum() / ((table == 1).sum() + 2 * (table == 2).sum())
    seen = table > 0
    before = seen.sum(0) + 1.0  # [next], plus one, so that no token is impossible
    backoff = before / before.sum()  # [next]
    total = table.sum(1, keepdim=True)  # [current, 1]
    freed = discount * seen.sum(1, keepdim=True) / total  # [current, 1]: D was taken from each of its seen pairs
    return torch.where(total > 0, (table - discount).clamp(min=0) / total + freed * backoff, backoff).log()


@checked
def pair_loss(logits: Float[Tensor, "V V"], pairs: Float[Tensor, "V V"]) -> Float[Tensor, ""]:
    """Mean −log p, in nats, over a text in which each pair [current, next] has the share `pairs` of all."""
    return -(pairs * logits.log_softmax(1)).sum()


@checked
def fit(
    logits_of: Callable[..., Tensor],
    weights: Sequence[Tensor],
    pairs: Float[Tensor, "V V"],
    steps: Count = 200,
    lr: Annotated[float, Ge(0)] = 0.05,
) -> Float[Tensor, "V V"]:
    """Train `weights` by Adam on the shares of pairs, and return the logits that `logits_of(*weights)` then gives.

    The loss is `pair_loss` itself, not an estimate from a batch.
    """
    optimizer = torch.optim.Adam(weights, lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        pair_loss(logits_of(*weights), pairs).backward()
        optimizer.step()
    return logits_of(*weights).detach()


@checked
def train_factors(N: Float[Tensor, "V V"], rank: Count) -> Float[Tensor, "V V"]:
    """Logits [current, next] trained on the counts N of pairs, from small random factors [V, rank] and [rank, V]."""
    generator = torch.Generator().manual_seed(0)
    E = torch.nn.Parameter(0.1 * torch.randn(len(N), rank, generator=generator))
    U = torch.nn.Parameter(0.1 * torch.randn(rank, len(N), generator=generator))
    return fit(torch.matmul, [E, U], N / N.sum())


@checked
def svd_cut(
    table: Float[Tensor, "V V"], rank: Count, weights: Float[Tensor, "V V"] | None = None
) -> Float[Tensor, "V V"]:
    """The table of this rank that comes nearest to `table` in squared differences, each row's mean taken out first.

    `weights`, a column times a row, multiply the differences before they are squared. The decomposition is
    `torch.svd_lowrank`, with 64 more random directions than are kept.
    """
    weights = torch.ones_like(table) if weights is None else weights
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        centred = (table - table.mean(1, keepdim=True)) * weights
        left, S, right = torch.svd_lowrank(centred, q=min(rank + 64, len(table)), niter=2)
    return (left[:, :rank] * S[:rank]) @ right.T[:rank] / weights


@checked
def table_loss(logprobs: Float[Tensor, "d_vocab d_vocab"], tokens: Int[Tensor, "batch pos"]) -> float:
    """What a table [current, next] of log-probabilities loses on contexts, in nats per token.

    The prediction behind the start token is left out: contexts open anywhere in a document.
    """
    return -logprobs[tokens[:, 1:-1], tokens[:, 2:]].mean().item()  # rows: current, from position 1; columns: next


@checked
def row_centred_correlation(
    A: Float[Tensor, "row column"], B: Float[Tensor, "row column"], mask: Bool[Tensor, "row column"]
) -> float:
    """Pearson's correlation of two tables over the entries in `mask`, after each row lost its own mean over them.

    A softmax over a row ignores a constant, so a comparison of logits must ignore it too.
    """
    n = mask.sum(1, keepdim=True)  # [row, 1]
    A, B = (torch.where(mask, T - (T * mask).sum(1, keepdim=True) / n, 0) for T in (A, B))  # 0 outside the mask
    return ((A * B).sum() / (A.norm() * B.norm())).item()
