"""One head's weights: its QK and OV circuits, their [vocab, vocab] forms, and what "copying" can
mean.

Everything stays factored: a full circuit has d_vocab² entries but rank d_head, so `FactoredMatrix`
holds it as a thin times a wide matrix and no function here multiplies them out. Row form, as
TransformerLens has it: `x @ QK @ y.T`.
"""

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

from course_utils._arguments import Count, NotNegative, validated
from course_utils.models import require_head

# a full circuit is made in square pieces of this side, 4 MB: small enough to stay in the cache
SIDE = 1024
BLOCK = 2**22  # entries of whole rows that are in memory at a time: 16 MB


@validated
def qk(model: HookedTransformer, layer: int, head: int) -> FactoredMatrix:
    """W_Q W_Kᵀ, [d_model, d_model]: `x_dest @ QK @ x_src` is the attention score times √d_head
    (Elhage et al. 2021).
    """
    require_head(model, layer, head)
    return FactoredMatrix(model.W_Q[layer, head], model.W_K[layer, head].T)


@validated
def ov(model: HookedTransformer, layer: int, head: int) -> FactoredMatrix:
    """W_V W_O, [d_model, d_model]: what `x_src` adds to the stream at the destination, if fully
    attended to.
    """
    require_head(model, layer, head)
    return FactoredMatrix(model.W_V[layer, head], model.W_O[layer, head])


@validated
def full_qk(model: HookedTransformer, layer: int, head: int) -> FactoredMatrix:
    """W_E QK W_Eᵀ / √d_head, [d_vocab, d_vocab] as [dest, src]: scores from the token embeddings
    alone.

    The whole score has position terms too (see `W_pos`); in layer 1 and above, also what earlier
    heads wrote.
    """
    return model.W_E @ (qk(model, layer, head) * model.cfg.d_head**-0.5) @ model.W_E.T


@validated
def full_ov(model: HookedTransformer, layer: int, head: int) -> FactoredMatrix:
    """W_E OV W_U, [d_vocab, d_vocab] as [src, out]: what each source token adds to each logit."""
    return model.W_E @ ov(model, layer, head) @ model.W_U


@validated
def eigenvalues(matrix: FactoredMatrix) -> Complex[Tensor, " d_head"]:
    """The non-zero eigenvalues of A B, from the small matrix B A.

    Both have the same: from A B v = λ v follows B A (B v) = λ (B v), and B v is not 0 unless λ is;
    from B A to A B likewise.
    """
    if matrix.ldim != matrix.rdim:
        raise ValueError(
            f"Only a square matrix has eigenvalues, not one of shape [{matrix.ldim}, "
            f"{matrix.rdim}]."
        )
    return _eigenvalues(matrix.B @ matrix.A)


def _eigenvalues(small: Float[Tensor, "... d d"]) -> Complex[Tensor, "... d"]:
    """LAPACK ends the process on a matrix that is not finite."""
    if not small.isfinite().all():
        raise ValueError(
            "A matrix with infinities or NaN has no eigenvalues: did the training of this model "
            "diverge?"
        )
    return torch.linalg.eigvals(small)


@validated
def copying_score(matrix: FactoredMatrix) -> float:
    """Σλ / Σ|λ| over the eigenvalues, from −1 to 1: near 1, a token attended to mostly raises its
    own logit.

    Elhage et al. 2021, "Detecting Copying Behavior". Compare it with `copying_null`, and with other
    notions: a positive score does not force a positive diagonal.
    """
    return _positivity(eigenvalues(matrix)).item()


@validated
def copying_scores(model: HookedTransformer) -> Float[Tensor, "layer head"]:
    """`copying_score` of the full OV circuit of every head; ValueError if the model has no layers.

    Its eigenvalues are those of W_O (W_U W_E) W_V, [d_head, d_head]: see `eigenvalues`. All heads
    share W_U W_E, [d_model, d_model]; only making it costs something with the size of the
    vocabulary.
    """
    if model.cfg.n_layers == 0:
        raise ValueError("A model without layers has no heads, so there are no copying scores.")
    small = model.W_O @ (model.W_U @ model.W_E) @ model.W_V  # [layer, head, d_head, d_head]
    return _positivity(_eigenvalues(small))


def _positivity(values: Complex[Tensor, "... d_head"]) -> Float[Tensor, "..."]:
    """Σλ / Σ|λ| of eigenvalues."""
    return values.sum(-1).real / values.abs().sum(-1)


@validated
def copying_null(
    model: HookedTransformer, samples: Count = 200, seed: NotNegative = 0
) -> Float[Tensor, " samples"]:
    """`copying_score` of random OV circuits of the model's shape between its own W_E and W_U: what
    chance gives.
    """
    generator = torch.Generator().manual_seed(seed)
    W_UE = model.W_U @ model.W_E  # [d_model, d_model]
    null = []
    for _ in range(samples):
        W_V, W_O = torch.randn(2, model.cfg.d_model, model.cfg.d_head, generator=generator)
        # W_E W_V W_O W_U and W_V (W_O W_U W_E) have the same eigenvalues, but for zeros: see
        # `eigenvalues`
        null.append(copying_score(FactoredMatrix(W_V, W_O.T @ W_UE)))
    return torch.tensor(null)


@validated
def self_rate(table: FactoredMatrix | Float[Tensor, "V V"], k: Count = 1) -> float:
    """The share of tokens that are among the `k` largest entries of their own row, a block of rows
    at a time.
    """
    hits, n = 0, table.shape[-2]
    for start in range(0, n, 1024):
        block = slice(start, start + 1024)
        # [row, V]
        rows = table.A[block] @ table.B if isinstance(table, FactoredMatrix) else table[block]
        # [row]: row i of the block is token start + i, and so is that column
        own = rows.diagonal(start)
        # [row]: how many entries stand before the token's own
        larger = (rows > own[:, None]).sum(1)
        hits += int((larger < k).sum())
    return hits / n


@validated
def lead(matrix: FactoredMatrix, pairs: Int[Tensor, "pair 2"] | None = None) -> float:
    """The mean of `leads` over tokens or pairs.

    Unlike `copying_score` and `self_rate`, it says how much.
    """
    return leads(matrix, pairs).mean().item()


@validated
def leads(
    matrix: FactoredMatrix, pairs: Int[Tensor, "pair 2"] | None = None
) -> Float[Tensor, " row"]:
    """By how much each token's own entry beats its row's mean, in units of the entries; of `pairs`,
    row and column.
    """
    rows, columns = (slice(None), slice(None)) if pairs is None else pairs.T
    entry, mean = (
        (matrix.A[rows] * matrix.B.mT[columns]).sum(-1),
        matrix.A[rows] @ matrix.B.mean(-1),
    )
    return entry - mean


@validated
def row_maxima(matrix: FactoredMatrix) -> Float[Tensor, " row"]:
    """The largest entry of every row of A B.

    It costs hardly more than the product, which is made piece by piece.
    """
    # [row], filled through the views `largest`
    maxima = matrix.A.new_full((matrix.A.shape[0],), -torch.inf)
    for rows, largest in zip(matrix.A.split(SIDE), maxima.split(SIDE), strict=True):
        for columns in matrix.B.split(SIDE, dim=1):
            # the product is [SIDE, SIDE] at most
            torch.maximum(largest, (rows @ columns).amax(1), out=largest)
    return maxima


@validated
def top_entries(
    matrix: FactoredMatrix, k: int
) -> tuple[Float[Tensor, " k"], Int[Tensor, " k"], Int[Tensor, " k"]]:
    """The `k` largest entries of A B, largest first: their values, rows and columns; exact, and
    never all at once.

    They stand in the `k` rows with the largest maxima: each of these rows holds an entry that is at
    least as large as all of any other row. So only these rows are ranked. For the smallest entries
    pass `FactoredMatrix(-A, B)`. Raises ValueError for a `k` that the matrix does not have.
    """
    n_rows, n_columns = matrix.shape
    if not 1 <= k <= n_rows * n_columns:
        raise ValueError(f"k must be a whole number from 1 to {n_rows * n_columns:,}, not {k!r}.")
    candidates = row_maxima(matrix).topk(min(k, n_rows)).indices  # the rows that hold them all
    values = matrix.A.new_empty(0)  # [at most k], the largest so far, as are their rows and columns
    rows = columns = torch.empty(0, dtype=torch.long, device=matrix.A.device)
    for some in candidates.split(max(1, BLOCK // n_columns)):
        table = matrix.A[some] @ matrix.B  # [row, n_columns], whose rows are those of `some`
        new, places = table.flatten().topk(min(k, table.numel()))
        row, column = torch.unravel_index(places, table.shape)
        values, best = torch.cat([values, new]).topk(min(k, len(values) + len(new)))
        rows, columns = torch.cat([rows, some[row]])[best], torch.cat([columns, column])[best]
    return values, rows, columns
