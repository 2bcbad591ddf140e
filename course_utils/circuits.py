"""One head's weights: its QK and OV circuits, their [vocab, vocab] forms, and what "copying" can mean.

Everything stays factored: a full circuit has d_vocab² entries but rank d_head, so `FactoredMatrix` holds it as a thin
times a wide matrix and no function here multiplies them out. Row form, as TransformerLens has it: `x @ QK @ y.T`.
"""

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor
from transformer_lens import FactoredMatrix

from course_utils._arguments import Count, NotNegative, checked
from course_utils.models import check_head

SIDE = 1024  # a full circuit is made in square pieces of this side, 4 MB: small enough to stay in the cache
BLOCK = 2**22  # entries of whole rows that are in memory at a time: 16 MB


@checked
def qk(model, layer: int, head: int) -> FactoredMatrix:
    """W_Q W_Kᵀ, [d_model, d_model]: `x_dest @ QK @ x_src` is the attention score times √d_head (Elhage et al. 2021)."""
    check_head(model, layer, head)
    return FactoredMatrix(model.W_Q[layer, head], model.W_K[layer, head].T)


@checked
def ov(model, layer: int, head: int) -> FactoredMatrix:
    """W_V W_O, [d_model, d_model]: what `x_src` adds to the stream at the destination, if fully attended to."""
    check_head(model, layer, head)
    return FactoredMatrix(model.W_V[layer, head], model.W_O[layer, head])


@checked
def full_qk(model, layer: int, head: int) -> FactoredMatrix:
    """W_E QK W_Eᵀ / √d_head, [d_vocab, d_vocab] as [dest, src]: scores from the token embeddings alone.

    The whole score has position terms too (see `W_pos`); in layer 1 and above, also what earlier heads wrote.
    """
    return model.W_E @ (qk(model, layer, head) * model.cfg.d_head**-0.5) @ model.W_E.T


@checked
def full_ov(model, layer: int, head: int) -> FactoredMatrix:
    """W_E OV W_U, [d_vocab, d_vocab] as [src, out]: what each source token adds to each logit."""
    return model.W_E @ ov(model, layer, head) @ model.W_U


@checked
def direct_path(model) -> FactoredMatrix:
    """W_E W_U, [d_vocab, d_vocab] as [token, next]: logits from the current token alone."""
    return FactoredMatrix(model.W_E, model.W_U)


@checked
def eigenvalues(matrix: FactoredMatrix) -> Complex[Tensor, "d_head"]:
    """The non-zero eigenvalues of A B, from the small matrix B A: eig(A B) = eig(B A), but for zeros."""
    if matrix.ldim != matrix.rdim:
        raise ValueError(f"Only a square matrix has eigenvalues, not one of shape [{matrix.ldim}, {matrix.rdim}].")
    return torch.linalg.eigvals(matrix.B @ matrix.A)


@checked
def copying_score(matrix: FactoredMatrix) -> float:
    """Σλ / Σ|λ| over the eigenvalues, from −1 to 1: near 1, a token attended to mostly raises its own logit.

    Elhage et al. 2021, "Detecting Copying Behavior". Compare it with `copying_null`, and with other notions: a
    positive score does not force a positive diagonal.
    """
    return _positivity(eigenvalues(matrix)).item()


@checked
def copying_scores(model) -> Float[Tensor, "layer head"]:
    """`copying_score` of the full OV circuit of every head.

    All heads share W_U W_E, [d_model, d_model]; only making it costs something with the size of the vocabulary. Raises
    ValueError if the model has no layers.
    """
    if model.cfg.n_layers == 0:
        raise ValueError("A model without layers has no heads, so there are no copying scores.")
    return _positivity(torch.linalg.eigvals(model.W_O @ (model.W_U @ model.W_E) @ model.W_V))  # [layer, head, d_head]


def _positivity(values: Complex[Tensor, "... d_head"]) -> Float[Tensor, "..."]:
    """Σλ / Σ|λ| of eigenvalues."""
    return values.sum(-1).real / values.abs().sum(-1)


@checked
def copying_null(model, samples: Count = 200, seed: NotNegative = 0) -> Float[Tensor, "samples"]:
    """`copying_score` of random OV circuits of the model's shape between its own W_E and W_U: what chance gives."""
    generator = torch.Generator().manual_seed(seed)
    W_UE = model.W_U @ model.W_E  # [d_model, d_model]
    scores = []
    for _ in range(samples):
        W_V, W_O = torch.randn(2, model.cfg.d_model, model.cfg.d_head, generator=generator)
        scores.append(copying_score(FactoredMatrix(W_V, W_O.T @ W_UE)))
    return torch.tensor(scores)


@checked
def self_rate(table: FactoredMatrix | Float[Tensor, "V V"], k: Count = 1) -> float:
    """The share of tokens that are among the `k` largest entries of their own row, a block of rows at a time."""
    hits = 0
    for start in range(0, table.shape[-2], 1024):
        rows = table[start : start + 1024]
        rows = rows.AB if isinstance(rows, FactoredMatrix) else rows
        hits += ((rows > rows.diagonal(start)[:, None]).sum(1) < k).sum().item()
    return hits / table.shape[-2]


@checked
def row_maxima(matrix: FactoredMatrix) -> Float[Tensor, "row"]:
    """The largest entry of every row of A B. It costs hardly more than the product, which is made piece by piece."""
    maxima = matrix.A.new_full((matrix.A.shape[0],), -torch.inf)
    for rows, largest in zip(matrix.A.split(SIDE), maxima.split(SIDE), strict=True):
        for columns in matrix.B.split(SIDE, dim=1):
            torch.maximum(largest, (rows @ columns).amax(1), out=largest)
    return maxima


@checked
def top_entries(matrix: FactoredMatrix, k: int) -> tuple[Float[Tensor, "k"], Int[Tensor, "k"], Int[Tensor, "k"]]:
    """The `k` largest entries of A B, largest first: their values, rows and columns; exact, and never all at once.

    They stand in the `k` rows with the largest maxima: each of these rows holds an entry that is at least as large as
    all of any other row. So only these rows are ranked. For the smallest entries pass `FactoredMatrix(-A, B)`. Raises
    ValueError for a `k` that the matrix does not have.
    """
    rows, columns = matrix.shape
    if not 1 <= k <= rows * columns:
        raise ValueError(f"k must be a whole number from 1 to {rows * columns:,}, not {k!r}.")
    values, places = matrix.A.new_empty(0), torch.empty(0, dtype=torch.long, device=matrix.A.device)
    for chosen in row_maxima(matrix).topk(min(k, rows)).indices.split(max(1, BLOCK // columns)):
        new, at = (matrix.A[chosen] @ matrix.B).flatten().topk(min(k, len(chosen) * columns))
        at = chosen[at // columns] * columns + at % columns
        values, best = torch.cat([values, new]).topk(min(k, len(values) + len(new)))
        places = torch.cat([places, at])[best]
    return values, places // columns, places % columns


@checked
def top_skip_trigrams(
    model, layer: int, head: int, k: int
) -> tuple[Float[Tensor, "k"], Int[Tensor, "k"], Int[Tensor, "k"], Int[Tensor, "k"]]:
    """The `k` strongest skip-trigrams `source … destination → out` of a head: log strengths, sources, dests, outs.

    The strength is exp(score) · effect: the attention that the destination pays to the source, in units of what it pays
    to one with the average key, times what the source adds to the logit of the out. Of all d_vocab³ triples, exactly:
    the best source, destination and out are each found by the best that the rest can add. Token embeddings only.
    Raises ValueError for a `k` above d_vocab. After Elhage et al. 2021, "Interpretation as Skip-Trigrams".
    """
    if not 1 <= k <= model.cfg.d_vocab:
        raise ValueError(f"k must be a whole number from 1 to {model.cfg.d_vocab:,}, not {k!r}.")
    queries, keys = model.W_E @ qk(model, layer, head).A, model.W_E @ model.W_K[layer, head]
    scores = FactoredMatrix(keys - keys.mean(0), queries.T * model.cfg.d_head**-0.5)  # [src, dest]
    effects = full_ov(model, layer, head)  # [src, out]
    sources = (row_maxima(scores) + row_maxima(effects).clamp(min=0).log()).topk(k).indices
    score, dest = (scores.A[sources] @ scores.B).topk(k)  # [source, k]
    effect, out = (effects.A[sources] @ effects.B).clamp(min=0).log().topk(k)  # [source, k]
    pairs = (score + effect[:, :1]).flatten().topk(k).indices  # of source and destination, by their best out
    source, dest, score = pairs // k, dest.flatten()[pairs], score.flatten()[pairs]
    strengths, triples = (score[:, None] + effect[source]).flatten().topk(k)
    pair = triples // k
    return strengths, sources[source[pair]], dest[pair], out[source].flatten()[triples]
