"""Tables of which token follows which: counted, smoothed, trained, scored, and compared with a
model's weights.
"""

import functools
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from jaxtyping import Float, Int
from torch import Tensor

from course_utils._arguments import Count, validated
from course_utils._files import DATA, verified
from course_utils.text import D_VOCAB


@validated
def count(stream: Int[Tensor, " pos"], d_vocab: Count = D_VOCAB) -> Tensor:
    """How often each token follows each other one within a document, as a sparse [d_vocab, d_vocab]
    tensor.
    """
    pairs = torch.stack([stream[:-1], stream[1:]])  # [2, pos - 1], as (current, next)
    pairs = pairs[:, stream[1:] != 0]  # what precedes a start token is another text
    ones = torch.ones(pairs.shape[1])
    return torch.sparse_coo_tensor(
        pairs, ones, (d_vocab, d_vocab), check_invariants=True
    ).coalesce()


@functools.cache
def counts() -> Tensor:
    """The counts of the training corpus: a sparse float tensor [d_vocab, d_vocab], row = first
    token of the pair.
    """
    stored = np.load(verified(DATA / "bigrams.npz"))
    # [pair]: each row as often as it has entries
    rows = np.repeat(np.arange(D_VOCAB), np.diff(stored["row_starts"]))
    indices = torch.from_numpy(np.stack([rows, stored["columns"].astype(np.int64)]))  # [2, pair]
    values = torch.from_numpy(stored["counts"].astype(np.float32))
    return torch.sparse_coo_tensor(
        indices, values, (D_VOCAB, D_VOCAB), check_invariants=True
    ).coalesce()


@validated
def add_alpha(table: Float[Tensor, "V V"], alpha: Annotated[float, Ge(0)]) -> Float[Tensor, "V V"]:
    """Log-probabilities [current, next] from dense counts, `alpha` added to each (Lidstone
    smoothing).
    """
    return ((table + alpha) / (table + alpha).sum(1, keepdim=True)).log()


@validated
def kneser_ney(table: Float[Tensor, "V V"]) -> Float[Tensor, "V V"]:
    """Log-probabilities [current, next] by interpolated Kneser-Ney smoothing, the customary one for
    bigrams.

    Every count is lowered by one discount D = n₁ / (n₁ + 2 n₂), from how many pairs occur once and
    twice. What that frees goes to all next tokens in proportion to how many *different* tokens
    precede them (Ney, Essen & Kneser 1994).
    """
    discount = (table == 1).sum() / ((table == 1).sum() + 2 * (table == 2).sum())
    seen = table > 0
    before = seen.sum(0) + 1.0  # [next], plus one, so that no token is impossible
    backoff = before / before.sum()  # [next]
    total = table.sum(1, keepdim=True)  # [current, 1]
    # [current, 1]: D was taken from each of its seen pairs
    freed = discount * seen.sum(1, keepdim=True) / total
    return torch.where(
        total > 0, (table - discount).clamp(min=0) / total + freed * backoff, backoff
    ).log()


@validated
def table_loss(
    logprobs: Float[Tensor, "d_vocab d_vocab"], tokens: Int[Tensor, "batch pos"]
) -> float:
    """What a table [current, next] of log-probabilities loses on contexts, in nats per token.

    The prediction behind the start token is left out: contexts open anywhere in a document.
    """
    # rows: current, from position 1; columns: next
    return -logprobs[tokens[:, 1:-1], tokens[:, 2:]].mean().item()
