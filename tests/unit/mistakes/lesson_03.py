"""Typical wrong answers to the exercises of lesson 03, which the checks must reject."""

import torch


def pairs(tokens):
    return tokens[:-1], tokens[1:]


def counts_with(d_vocab, alpha, current, following):
    counts = torch.full((d_vocab, d_vocab), float(alpha))
    return counts.index_put_((current, following), torch.ones(len(current)), accumulate=True)


def across_documents(tokens, d_vocab, alpha):
    counts = counts_with(d_vocab, alpha, *pairs(tokens))
    return (counts / counts.sum(1, keepdim=True)).log()


def inside(tokens, d_vocab, alpha):
    current, following = pairs(tokens)
    return counts_with(d_vocab, alpha, current[following != 0], following[following != 0])


def every_pair_once(tokens, d_vocab, alpha):
    current, following = pairs(tokens)
    counts = torch.full((d_vocab, d_vocab), float(alpha))
    counts[current[following != 0], following[following != 0]] += 1
    return (counts / counts.sum(1, keepdim=True)).log()


def centred_over_everything(A, B, mask):
    a, b = ((M - M.mean(1, keepdim=True))[mask] for M in (A, B))
    return (a * b).sum() / (a.norm() * b.norm())


def empty_rows_divide(A, B, mask):
    a, b = ((M - (M * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)) * mask for M in (A, B))
    return (a * b).sum() / (a.norm() * b.norm())


def mean_of_rows(A, B, mask):
    total = 0
    for a, b, m in zip(A, B, mask, strict=True):
        a, b = a[m] - a[m].mean(), b[m] - b[m].mean()
        total += (a * b).sum() / (a.norm() * b.norm())
    return total / len(A)


def svd_kept(matrix, part):
    U, S, Vh = torch.linalg.svd(matrix, full_matrices=False)
    return U[:, part] * S[part] @ Vh[part]


def svd_unscaled(matrix, k):
    U, _, Vh = torch.linalg.svd(matrix, full_matrices=False)
    return U[:, :k] @ Vh[:k]


diagonal = torch.arange
MISTAKES = {
    "direct_path": {
        "transposed": lambda W_E, W_U: (W_E @ W_U).T,
        "wrong order": lambda W_E, W_U: W_U @ W_E,
        "tied": lambda W_E, W_U: W_E @ W_E.T,
        "a probability": lambda W_E, W_U: (W_E @ W_U).softmax(1),
    },
    "bigram_logprobs": {
        "normalised on columns": lambda t, V, alpha: (inside(t, V, alpha) / inside(t, V, alpha).sum(0)).log(),
        "normalised over all": lambda t, V, alpha: (inside(t, V, alpha) / inside(t, V, alpha).sum()).log(),
        "pairs across documents": across_documents,
        "every pair once": every_pair_once,
        "transposed": lambda t, V, alpha: ((c := inside(t, V, alpha).T) / c.sum(1, keepdim=True)).log(),
        "alpha twice": lambda t, V, alpha: ((c := inside(t, V, alpha) + alpha) / c.sum(1, keepdim=True)).log(),
        "documents' first pairs left out": lambda t, V, alpha: across_documents(t[t != 0], V, alpha),
        "no log": lambda t, V, alpha: inside(t, V, alpha) / inside(t, V, alpha).sum(1, keepdim=True),
        "no alpha": lambda t, V, alpha: ((c := inside(t, V, 0)) / c.sum(1, keepdim=True)).log(),
    },
    "table_loss": {
        "sign": lambda p, t: p[t[:, 1:-1], t[:, 2:]].mean(),
        "rows and columns swapped": lambda p, t: -p[t[:, 2:], t[:, 1:-1]].mean(),
        "the start token counts": lambda p, t: -p[t[:, :-1], t[:, 1:]].mean(),
        "unshifted": lambda p, t: -p[t[:, 1:], t[:, 1:]].mean(),
        "summed": lambda p, t: -p[t[:, 1:-1], t[:, 2:]].sum(),
        "a probability": lambda p, t: -p.exp()[t[:, 1:-1], t[:, 2:]].mean(),
        "one per token": lambda p, t: -p[t[:, 1:-1], t[:, 2:]],
    },
    "row_centred_correlation": {
        "no care for empty rows": lambda A, B, m: empty_rows_divide(A, B, m),
        "not centred": lambda A, B, m: (A[m] * B[m]).sum() / (A[m].norm() * B[m].norm()),
        "one mean for all": lambda A, B, m: torch.corrcoef(torch.stack([A[m], B[m]]))[0, 1],
        "centred over columns": lambda A, B, m: mean_of_rows(A.T, B.T, m.T),
        "means outside the mask": centred_over_everything,
        "mask ignored": lambda A, B, m: centred_over_everything(A, B, torch.ones_like(m)),
        "mean of the rows' correlations": mean_of_rows,
        "always 1": lambda A, B, m: 1.0,
    },
    "low_rank": {
        "singular values forgotten": svd_unscaled,
        "the smallest kept": lambda matrix, k: svd_kept(matrix, slice(-k, None)),
        "one too many": lambda matrix, k: svd_kept(matrix, slice(k + 1)),
        "one too few": lambda matrix, k: svd_kept(matrix, slice(k - 1)),
        "nothing cut": lambda matrix, k: matrix,
        "rows cut": lambda matrix, k: torch.cat([matrix[:k], torch.zeros_like(matrix[k:])]),
    },
    "self_rate": {
        "over columns": lambda m: (m.argmax(0) == diagonal(len(m))).float().mean(),
        "a count": lambda m: (m.argmax(1) == diagonal(len(m))).sum(),
        "diagonal above zero": lambda m: (m.diagonal() > 0).float().mean(),
        "the smallest": lambda m: (m.argmin(1) == diagonal(len(m))).float().mean(),
        "above the row's mean": lambda m: (m.diagonal() > m.mean(1)).float().mean(),
        "one per row": lambda m: m.argmax(1) == diagonal(len(m)),
    },
}
