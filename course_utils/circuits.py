"""One head's weights: its QK and OV circuits, their tables over tokens, and what "copying" means.

Everything stays factored: a full circuit has d_vocab² entries but rank d_head, so `FactoredMatrix`
holds it as a thin times a wide matrix and no function here multiplies them out. Row form, as
TransformerLens has it: `x @ QK @ y.T`.
"""

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

from course_utils._arguments import Count, validated
from course_utils.models import require_head

SIDE = 1024  # of the square pieces that a full circuit is made in: 4 MB, they stay in the cache
BLOCK = 2**22  # entries of whole rows that are in memory at a time: 16 MB


@validated
def qk(model: HookedTransformer, layer: int, head: int) -> FactoredMatrix:
    """W_Q W_Kᵀ, [d_model, d_model]: `x_dest @ QK @ x_src` is the attention score times √d_head.

    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
    """
    require_head(model, layer, head)
    return FactoredMatrix(model.W_Q[layer, head], model.W_K[layer, head].T)


@validated
def ov(model: HookedTransformer, layer: int, head: int) -> FactoredMatrix:
    """W_V W_O, [d_model, d_model]: `x_src @ OV` is added where `x_src` gets all the attention."""
    require_head(model, layer, head)
    return FactoredMatrix(model.W_V[layer, head], model.W_O[layer, head])


def full_qk(model: HookedTransformer, layer: int, head: int) -> FactoredMatrix:
    """W_E QK W_Eᵀ / √d_head, [d_vocab, d_vocab] as [dest, src]: scores from the tokens alone.

    The whole score has position terms too (see `W_pos`); in layer 1 and above, also what earlier
    heads wrote.
    """
    scaled = qk(model, layer, head) * model.cfg.d_head**-0.5  # [d_model, d_model]
    return model.W_E @ scaled @ model.W_E.T


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
            "Only a square matrix has eigenvalues, "
            f"not one of shape [{matrix.ldim}, {matrix.rdim}]."
        )
    small = matrix.B @ matrix.A  # [d_head, d_head]
    return _eigenvalues(small)


def _eigenvalues(small: Float[Tensor, "... d d"]) -> Complex[Tensor, "... d"]:
    """Of small matrices; ValueError unless they are finite, since LAPACK would end the process."""
    if not small.isfinite().all():
        raise ValueError(
            "A matrix with infinities or NaN has no eigenvalues: "
            "did the training of this model diverge?"
        )
    return torch.linalg.eigvals(small)


def copying_score(matrix: FactoredMatrix) -> float:
    """Σλ / Σ|λ| over the eigenvalues, from −1 to 1: near 1, tokens mostly raise their own logit.

    A positive score does not force a positive diagonal. Elhage et al. 2021, "Detecting Copying
    Behavior".
    """
    return _positivity(eigenvalues(matrix)).item()


@validated
def copying_scores(model: HookedTransformer) -> Float[Tensor, "layer head"]:
    """`copying_score` of the full OV circuit of every head.

    Its eigenvalues are those of W_O (W_U W_E) W_V: see `eigenvalues`. All heads share W_U W_E, and
    only making that costs more where the vocabulary is larger. Raises ValueError if the model has
    no layers.
    """
    if model.cfg.n_layers == 0:
        raise ValueError("A model without layers has no heads, so there are no copying scores.")
    W_UE = model.W_U @ model.W_E  # [d_model, d_model]
    small = model.W_O @ W_UE @ model.W_V  # [layer, head, d_head, d_head]
    return _positivity(_eigenvalues(small))


def _positivity(values: Complex[Tensor, "... d_head"]) -> Float[Tensor, "..."]:
    """Σλ / Σ|λ| of eigenvalues."""
    sums = values.sum(-1).real  # of a real matrix: the imaginary parts cancel
    sizes = values.abs().sum(-1)
    return sums / sizes


@validated
def self_rate(table: FactoredMatrix | Float[Tensor, "V V"], k: Count = 1) -> float:
    """The share of tokens that are among the `k` largest entries of their own row."""
    hits = 0
    n_tokens = table.shape[-2]
    for start in range(0, n_tokens, SIDE):
        # a block of rows, [row, V]
        block = slice(start, start + SIDE)
        rows = table.A[block] @ table.B if isinstance(table, FactoredMatrix) else table[block]

        # row i of the block is token start + i: its own entry stands in that column
        own = rows.diagonal(start)  # [row]
        larger = (rows > own[:, None]).sum(1)  # [row]: how many stand before it
        hits += int((larger < k).sum())
    return hits / n_tokens


def lead(matrix: FactoredMatrix, pairs: Int[Tensor, "pair 2"] | None = None) -> float:
    """The mean of `leads` over tokens or pairs.

    Unlike `copying_score` and `self_rate`, it says how much.
    """
    return leads(matrix, pairs).mean().item()


@validated
def leads(
    matrix: FactoredMatrix, pairs: Int[Tensor, "pair 2"] | None = None
) -> Float[Tensor, " row"]:
    """By how much each token's own entry beats its row's mean, in units of the entries.

    With `pairs`, each a row and a column, the entries at these places instead of the tokens' own.
    """
    A, B = matrix.A, matrix.B.mT  # [row, d_head], [column, d_head]
    if pairs is not None:
        A, B = A[pairs[:, 0]], B[pairs[:, 1]]  # each [pair, d_head]
    entry = (A * B).sum(-1)  # [row]
    mean = A @ matrix.B.mean(-1)  # [row], over all columns
    return entry - mean


@validated
def row_maxima(matrix: FactoredMatrix) -> Float[Tensor, " row"]:
    """The largest entry of every row of A B.

    It costs hardly more than the product, which is made piece by piece.
    """
    n_rows = matrix.A.shape[0]
    maxima = matrix.A.new_full((n_rows,), -torch.inf)  # [row]
    views = maxima.split(SIDE)  # what is written into these stands in `maxima`
    for rows, largest in zip(matrix.A.split(SIDE), views, strict=True):
        for columns in matrix.B.split(SIDE, dim=1):
            here = (rows @ columns).amax(1)  # [row], of a piece that is [SIDE, SIDE] at most
            torch.maximum(largest, here, out=largest)
    return maxima


@validated
def top_entries(
    matrix: FactoredMatrix, k: int
) -> tuple[Float[Tensor, " k"], Int[Tensor, " k"], Int[Tensor, " k"]]:
    """The `k` largest entries of A B, largest first: their values, rows and columns.

    They are exact, and A B is never there all at once: they stand in the `k` rows with the largest
    maxima, since each of these rows holds an entry that is at least as large as all of any other
    row. So only these rows are ranked. For the smallest entries pass `FactoredMatrix(-A, B)`.
    Raises ValueError for a `k` that the matrix does not have.
    """
    n_rows, n_columns = matrix.shape
    if not 1 <= k <= n_rows * n_columns:
        raise ValueError(f"k must be a whole number from 1 to {n_rows * n_columns:,}, not {k!r}.")

    # the rows that hold them all
    maxima = row_maxima(matrix)  # [n_rows]
    candidates = maxima.topk(min(k, n_rows)).indices  # [at most k]

    # the largest so far, [at most k] each
    values = maxima.new_empty(0)
    rows = columns = candidates.new_empty(0)
    for some in candidates.split(max(1, BLOCK // n_columns)):
        # the largest of a few rows
        table = matrix.A[some] @ matrix.B  # [row, n_columns], whose rows are those of `some`
        new, places = table.flatten().topk(min(k, table.numel()))
        row, column = torch.unravel_index(places, table.shape)

        # they join those so far, and the largest of all stay
        values = torch.cat([values, new])
        rows = torch.cat([rows, some[row]])
        columns = torch.cat([columns, column])
        values, best = values.topk(min(k, len(values)))
        rows, columns = rows[best], columns[best]
    return values, rows, columns
