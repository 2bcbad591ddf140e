"""Tables of which token follows which: counted, smoothed, and scored on a text."""

import functools
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from jaxtyping import Float, Int
from torch import Tensor

from course_utils._arguments import Count, require_tokens, validated
from course_utils._files import DATA, verified
from course_utils.text import D_VOCAB


@validated
def count(stream: Int[Tensor, " pos"], d_vocab: Count = D_VOCAB) -> Tensor:
    """How often each token follows each other one within a document.

    A sparse tensor [d_vocab, d_vocab]: row = first token of the pair.
    """
    require_tokens(d_vocab, stream, "stream")
    pairs = torch.stack([stream[:-1], stream[1:]])  # [2, pos - 1], as (current, next)
    pairs = pairs[:, stream[1:] != 0]  # what precedes a start token is another text
    ones = torch.ones(pairs.shape[1])
    shape = (d_vocab, d_vocab)
    return torch.sparse_coo_tensor(pairs, ones, shape, check_invariants=True).coalesce()


@functools.cache
def counts() -> Tensor:
    """The counts of the training corpus, as `count` gives them."""
    stored = np.load(verified(DATA / "bigrams.npz"))  # compressed rows
    entries = np.diff(stored["row_starts"])  # [d_vocab]: how many a row has
    rows = np.repeat(np.arange(D_VOCAB), entries)  # [pair]
    columns = stored["columns"].astype(np.int64)  # [pair]
    indices = torch.from_numpy(np.stack([rows, columns]))  # [2, pair]
    values = torch.from_numpy(stored["counts"].astype(np.float32))  # [pair]
    shape = (D_VOCAB, D_VOCAB)
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=True).coalesce()


@validated
def add_alpha(table: Float[Tensor, "V V"], alpha: Annotated[float, Ge(0)]) -> Float[Tensor, "V V"]:
    """Log-probabilities [current, next] from dense counts, `alpha` added to each.

    This is Lidstone smoothing.
    """
    raised = table + alpha
    return (raised / raised.sum(1, keepdim=True)).log()


@validated
def kneser_ney(table: Float[Tensor, "V V"]) -> Float[Tensor, "V V"]:
    """Log-probabilities [current, next] from dense counts, by interpolated Kneser-Ney smoothing.

    Every count is lowered by one discount D = n₁ / (n₁ + 2 n₂), from how many pairs occur once and
    twice. What that frees goes to all next tokens in proportion to how many *different* tokens
    precede them (Ney, Essen & Kneser 1994).
    """
    once = (table == 1).sum()
    twice = (table == 2).sum()
    discount = once / (once + 2 * twice)
    seen = table > 0

    # what any token expects where nothing is known
    before = seen.sum(0) + 1.0  # [next], plus one, so that no token is impossible
    backoff = before / before.sum()  # [next]

    # the lowered counts, and what the discount freed: D from each of a row's seen pairs
    total = table.sum(1, keepdim=True)  # [current, 1]
    lowered = (table - discount).clamp(min=0) / total  # [current, next]
    freed = discount * seen.sum(1, keepdim=True) / total  # [current, 1]
    p = torch.where(total > 0, lowered + freed * backoff, backoff)
    return p.log()


@validated
def table_loss(
    logprobs: Float[Tensor, "d_vocab d_vocab"], tokens: Int[Tensor, "batch pos"]
) -> float:
    """What a table [current, next] of log-probabilities loses on contexts, in nats per token.

    The prediction behind the start token is left out: contexts open anywhere in a document.
    """
    require_tokens(len(logprobs), tokens)
    current = tokens[:, 1:-1]
    following = tokens[:, 2:]
    return -logprobs[current, following].mean().item()
