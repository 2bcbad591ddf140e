"""Checks of lesson 03, zero layers: each exercise, then its typical mistakes with the sentence each must get."""

import math

import torch
from torch import Tensor

from course_utils import bigrams
from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import close, demand, number, tensor


@exercise
def direct_path(answer: Answer) -> None:
    """`direct_path(W_E, W_U) → [V, V]`: the logits of a model without layers, one row per current token."""
    W_E, W_U = random(7, 3), random(3, 7, seed=1)
    means = "[current token, next token]"
    result = tensor(answer(W_E, W_U), (7, 7), means)
    louder = W_E.clone()
    louder[2] *= 2
    change = (tensor(answer(louder, W_U), (7, 7), means) - result).abs()
    demand(change[2].sum() > 0, "doubling token 2's embedding leaves its row as it was.")
    demand(
        close(change.sum(), change[2].sum()),
        "doubling token 2's embedding should change row 2 and no other: is the current token on the rows?",
    )
    demand(
        close(tensor(answer(W_E, 2 * W_U), (7, 7), means), 2 * result),
        "doubling W_U should double every logit: stay with logits, without a softmax.",
    )
    for d_vocab, d_model in ((7, 3), (5, 8)):
        W_E, W_U = random(d_vocab, d_model), random(d_model, d_vocab, seed=1)
        demand(
            close(tensor(answer(W_E, W_U), (d_vocab, d_vocab), means), W_E @ W_U),
            "the shape is right and the numbers are not: which product gives logits, and nothing more?",
        )


def _doubling(W_E: Tensor, W_U: Tensor) -> Tensor:
    W_E *= 2
    return W_E @ W_U / 2


direct_path.mistakes = {
    "transposed": (lambda W_E, W_U: (W_E @ W_U).T, "is the current token on the rows?"),
    "wrong order": (lambda W_E, W_U: W_U @ W_E, "the result has shape [3, 3]; it should be [7, 7]"),
    "tied": (lambda W_E, W_U: W_E @ W_E.T, "is the current token on the rows?"),
    "a probability": (lambda W_E, W_U: (W_E @ W_U).softmax(1), "stay with logits, without a softmax"),
    "a log-probability": (lambda W_E, W_U: (W_E @ W_U).log_softmax(1), "stay with logits, without a softmax"),
    "centred": (lambda W_E, W_U: (x := W_E @ W_U) - x.mean(1, keepdim=True), "which product gives logits"),
    "scaled": (lambda W_E, W_U: W_E @ W_U / W_E.shape[1] ** 0.5, "which product gives logits"),
    "W_E changed": (_doubling, "it changes `W_E`, which it was given"),
}


@exercise
def bigram_logprobs(answer: Answer) -> None:
    """`bigram_logprobs(tokens, d_vocab, alpha) → [V, V]`: add-alpha log-probabilities, documents kept apart."""
    means = "[current token, next token]"
    tokens = torch.tensor([0, 1, 2, 1, 2, 1, 3, 0, 2, 2, 3, 4, 0, 3])  # three documents over 6 tokens; 5 never occurs
    result = tensor(answer(tokens, 6, 0.5), (6, 6), means)
    demand((result <= 1e-6).all(), "log-probabilities are never above 0.")
    p = result.exp()
    demand(
        not close(p.sum(0), torch.ones(6)),
        "each column sums to 1; the next token is on the columns, so each row should.",
    )
    demand(not close(p.sum(), torch.tensor(1.0)), "all entries together sum to 1; each row should, by itself.")
    total = p[1].sum().item()
    demand(
        not close((result * math.log(2)).exp().sum(1), torch.ones(6)),
        "these are logarithms to the base 2; the natural logarithm is asked for.",
    )
    demand(close(p.sum(1), torch.ones(6)), f"the probabilities of row 1 miss a sum of 1 by {abs(total - 1):.2g}.")
    demand(close(result[5], result[5, 0]), "token 5 never occurs, so its row should be uniform.")
    demand(
        result[3, 4] > result[3, 1],
        "token 4 follows token 3 and token 1 never does: is the current token on the rows?",
    )
    demand(result[1, 2] > result[1, 3], "the pair (1, 2) stands twice in the stream, so it counts twice.")
    demand(
        result[0, 1] > result[0, 4],
        "token 1 opens a document: the pair of the start token and the first token belongs to it, and counts.",
    )
    demand(
        p[3, 0] < 0.2,
        "token 3 ends a document: the start token behind it opens another one, and that pair must not count.",
    )
    demand(
        result[0, 3] > result[0, 4],
        "the last pair of the stream, (0, 3), does not count, and should.",
    )
    flat = tensor(answer(tokens, 6, 1e6), (6, 6), means).exp()
    demand((flat - 1 / 6).abs().max() < 1e-3, "with a huge alpha every row should be nearly uniform.")
    longer = torch.randint(0, 9, (400,), generator=torch.Generator().manual_seed(0))
    longer[0] = 0
    for stream, d_vocab, alpha in ((tokens, 6, 0.5), (tokens, 8, 2), (longer, 9, 0.01), (torch.tensor([0]), 3, 1.0)):
        result = tensor(answer(stream, d_vocab, alpha), (d_vocab, d_vocab), means)
        expected = bigrams.add_alpha(bigrams.count(stream, d_vocab).to_dense(), alpha)
        demand(close(result.exp(), expected.exp()), "the counts differ: alpha is added once to every pair.")


def _counted(d_vocab: int, alpha: float, current: Tensor, following: Tensor) -> Tensor:
    counts = torch.full((d_vocab, d_vocab), float(alpha))
    return counts.index_put_((current, following), torch.ones(len(current)), accumulate=True)


def _inside(tokens: Tensor, d_vocab: int, alpha: float) -> Tensor:
    kept = tokens[1:] != 0
    return _counted(d_vocab, alpha, tokens[:-1][kept], tokens[1:][kept])


def _over_rows(counts: Tensor) -> Tensor:
    return counts / counts.sum(1, keepdim=True)


def _across_documents(tokens: Tensor, d_vocab: int, alpha: float) -> Tensor:
    return _over_rows(_counted(d_vocab, alpha, tokens[:-1], tokens[1:])).log()


def _every_pair_once(tokens: Tensor, d_vocab: int, alpha: float) -> Tensor:
    kept = tokens[1:] != 0
    counts = torch.full((d_vocab, d_vocab), float(alpha))
    counts[tokens[:-1][kept], tokens[1:][kept]] += 1
    return _over_rows(counts).log()


bigram_logprobs.mistakes = {
    "normalised on columns": (
        lambda t, V, alpha: ((c := _inside(t, V, alpha)) / c.sum(0)).log(),
        "each column sums to 1",
    ),
    "normalised over all": (
        lambda t, V, alpha: ((c := _inside(t, V, alpha)) / c.sum()).log(),
        "all entries together sum to 1",
    ),
    "pairs across documents": (_across_documents, "the start token behind it opens another one"),
    "every pair once": (_every_pair_once, "stands twice in the stream, so it counts twice"),
    "transposed": (lambda t, V, alpha: _over_rows(_inside(t, V, alpha).T).log(), "is the current token on the rows?"),
    "alpha twice": (lambda t, V, alpha: _over_rows(_inside(t, V, alpha) + alpha).log(), "alpha is added once"),
    "alpha is always a half": (lambda t, V, alpha: _over_rows(_inside(t, V, 0.5)).log(), "with a huge alpha every row"),
    "documents' first pairs left out": (
        lambda t, V, alpha: _across_documents(t[t != 0], V, alpha),
        "the pair of the start token and the first token belongs to it",
    ),
    "the last pair left out": (
        lambda t, V, alpha: _over_rows(_inside(t[:-1], V, alpha)).log(),
        "the last pair of the stream",
    ),
    "no log": (lambda t, V, alpha: _over_rows(_inside(t, V, alpha)), "log-probabilities are never above 0"),
    "base 2": (lambda t, V, alpha: _over_rows(_inside(t, V, alpha)).log2(), "logarithms to the base 2"),
    "no alpha": (lambda t, V, alpha: _over_rows(_inside(t, V, 0)).log(), "infinite or not a number"),
    "six tokens": (lambda t, V, alpha: _over_rows(_inside(t, 6, alpha)).log(), "it should be [8, 8]"),
}


@exercise
def table_loss(answer: Answer) -> None:
    """`table_loss(logprobs, tokens) → float`: mean surprise in nats, the prediction behind the start token left out."""
    uniform = torch.full((5, 5), 0.2).log()
    tokens = torch.tensor([[0, 1, 2, 3], [0, 4, 4, 1]])
    value = number(answer(uniform, tokens))
    demand(value > 0, "a loss is −log p, so it is never below 0.")
    demand(not close(value, math.log2(5)), "that is in bits; the table holds natural logarithms already.")
    demand(
        close(value, math.log(5)),
        f"a uniform table over 5 tokens costs ln 5 = 1.609 nats per token, not {value:.4g}.",
    )
    table = random(5, 5).log_softmax(1)
    value = number(answer(table, tokens))
    other = table.clone()
    other[0] = random(5, seed=2).log_softmax(0)
    demand(
        close(number(answer(other, tokens)), value),
        "what the table says behind the start token should not count: a context opens anywhere in a document.",
    )
    pairs = [(1, 2), (2, 3), (4, 4), (4, 1)]
    demand(
        not close(value, -sum(table[b, a] for a, b in pairs) / 4),
        "rows and columns are swapped: the current token picks the row.",
    )
    demand(
        not close(value, -torch.stack([table[a, b] for a, b in pairs]).exp().mean().log()),
        "that is the logarithm of the mean probability; the mean is taken over the surprises.",
    )
    demand(
        close(value, -sum(table[a, b] for a, b in pairs) / 4),
        "token t at one position should be scored against the token one position later, and every one counts alike.",
    )
    for batch, length in ((1, 3), (3, 6), (6, 4)):
        table = random(7, 7, seed=length).log_softmax(1)
        tokens = torch.randint(0, 7, (batch, length), generator=torch.Generator().manual_seed(length))
        tokens[:, 0] = 0
        expected = -table[tokens[:, 1:-1], tokens[:, 2:]].mean().item()
        demand(
            close(number(answer(table, tokens)), expected),
            f"for {batch} contexts of length {length} that is not the mean over all predictions but the first.",
        )


def _of_tokens(p: Tensor, t: Tensor) -> Tensor:
    return p[t[:, 1:-1], t[:, 2:]]


table_loss.mistakes = {
    "sign": (lambda p, t: _of_tokens(p, t).mean(), "so it is never below 0"),
    "rows and columns swapped": (lambda p, t: -p[t[:, 2:], t[:, 1:-1]].mean(), "rows and columns are swapped"),
    "the start token counts": (lambda p, t: -p[t[:, :-1], t[:, 1:]].mean(), "behind the start token should not count"),
    "unshifted": (lambda p, t: -p[t[:, 1:], t[:, 1:]].mean(), "against the token one position later"),
    "two positions later": (lambda p, t: -p[t[:, 1:-2], t[:, 3:]].mean(), "against the token one position later"),
    "the last prediction left out": (lambda p, t: -p[t[:, 1:-2], t[:, 2:-1]].mean(), "every one counts alike"),
    "median": (lambda p, t: -_of_tokens(p, t).flatten().quantile(0.5), "every one counts alike"),
    "summed": (lambda p, t: -_of_tokens(p, t).sum(), "costs ln 5 = 1.609 nats per token, not 6.438"),
    "summed over each context": (lambda p, t: -_of_tokens(p, t).sum() / len(t), "costs ln 5 = 1.609 nats per token"),
    "summed, by four": (lambda p, t: -_of_tokens(p, t).sum() / 4, "for 1 contexts of length 3 that is not the mean"),
    "in bits": (lambda p, t: -_of_tokens(p, t).mean() / math.log(2), "that is in bits"),
    "a probability": (lambda p, t: -_of_tokens(p, t).exp().mean(), "so it is never below 0"),
    "perplexity": (lambda p, t: (-_of_tokens(p, t).mean()).exp(), "costs ln 5 = 1.609 nats per token, not 5"),
    "the mean probability's logarithm": (lambda p, t: -_of_tokens(p, t).exp().mean().log(), "the mean is taken over"),
    "one per token": (lambda p, t: -_of_tokens(p, t), "it should return one number"),
}


@exercise
def row_centred_correlation(answer: Answer) -> None:
    """`row_centred_correlation(A, B, mask) → float`: over the masked entries, each row less its own mean."""
    A, B = random(6, 8), random(6, 8, seed=1)
    B = A + 0.5 * B
    mask = random(6, 8, seed=2) > -0.3
    mask[4] = False  # a token that was never seen often enough
    demand(close(number(answer(A, A, mask)), 1.0), "a table's correlation with itself should be 1.")
    demand(close(number(answer(A, -A, mask)), -1.0), "a table's correlation with its negative should be −1.")
    value = number(answer(A, B, mask))
    shift = 5 * random(6, 1, seed=3)
    demand(
        close(number(answer(A + shift, B, mask)), value) and close(number(answer(A, B + shift, mask)), value),
        "adding a constant to every entry of a row changes no probability, so it should change nothing here.",
    )
    demand(
        close(number(answer(torch.where(mask, A, 9.0), B, mask)), value)
        and close(number(answer(A, torch.where(mask, B, 9.0), mask)), value),
        "entries outside the mask should not matter, in the mean of their row neither.",
    )
    demand(
        close(number(answer(3 * A, B, mask)), value) and close(number(answer(A, 3 * B, mask)), value),
        "scaling one table should not change a correlation.",
    )
    for rows, columns in ((6, 8), (9, 5)):
        A, mask = random(rows, columns), random(rows, columns, seed=2) > -0.3
        A = A * torch.arange(1.0, rows + 1)[:, None]  # rows of unlike spread
        B = A + 2 * random(rows, columns, seed=1)
        demand(
            close(number(answer(A, B, mask)), _centred_over(A, B, mask)),
            "that is no correlation over all masked entries together, each row centred.",
        )


def _centred_over(A: Tensor, B: Tensor, mask: Tensor) -> float:
    return float(bigrams.row_centred_correlation(A, B, mask))


def _means_outside(A: Tensor, B: Tensor, mask: Tensor) -> Tensor:
    a, b = ((M - M.mean(1, keepdim=True))[mask] for M in (A, B))
    return (a * b).sum() / (a.norm() * b.norm())


def _empty_rows_divide(A: Tensor, B: Tensor, mask: Tensor) -> Tensor:
    a, b = ((M - (M * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)) * mask for M in (A, B))
    return (a * b).sum() / (a.norm() * b.norm())


def _mean_of_rows(A: Tensor, B: Tensor, mask: Tensor) -> Tensor:
    each = []
    for a, b, m in zip(A, B, mask, strict=True):
        if m.sum() > 1:
            a, b = a[m] - a[m].mean(), b[m] - b[m].mean()
            each.append((a * b).sum() / (a.norm() * b.norm()))
    return torch.stack(each).mean()


def _zeroing(A: Tensor, B: Tensor, mask: Tensor) -> float:
    A[~mask] = 0
    return _centred_over(A, B, mask)


row_centred_correlation.mistakes = {
    "no care for empty rows": (_empty_rows_divide, "look for a division by 0"),
    "not centred": (
        lambda A, B, m: (A[m] * B[m]).sum() / (A[m].norm() * B[m].norm()),
        "adding a constant to every entry of a row",
    ),
    "one mean for all": (
        lambda A, B, m: torch.corrcoef(torch.stack([A[m], B[m]]))[0, 1],
        "adding a constant to every entry of a row",
    ),
    "centred over columns": (lambda A, B, m: _centred_over(A.T, B.T, m.T), "adding a constant to every entry of a row"),
    "means outside the mask": (_means_outside, "entries outside the mask should not matter"),
    "mask ignored": (lambda A, B, m: _means_outside(A, B, torch.ones_like(m)), "entries outside the mask"),
    "mean of the rows' correlations": (_mean_of_rows, "over all masked entries together"),
    "squared": (lambda A, B, m: _centred_over(A, B, m) ** 2, "with its negative should be −1"),
    "covariance": (lambda A, B, m: _centred_over(A, B, m) * A[m].std() * B[m].std(), "with itself should be 1"),
    "always 1": (lambda A, B, m: 1.0, "with its negative should be −1"),
    "A changed": (_zeroing, "it changes `A`, which it was given"),
}


@exercise
def low_rank(answer: Answer) -> None:
    """`low_rank(matrix, k) → matrix`: the closest matrix of rank k, which the SVD gives."""
    for rows, columns, ranks in ((9, 6, (2, 1, 6)), (4, 7, (3, 2, 4))):
        matrix = random(rows, columns)
        singular = torch.linalg.svdvals(matrix)
        for k in ranks:
            result = tensor(answer(matrix, k), (rows, columns), "as the matrix it approximates")
            error, best = (matrix - result).norm().item(), singular[k:].norm().item()
            if k == min(rows, columns):
                demand(error < 1e-4, f"with k = {k}, the full rank, nothing should be lost.")
                continue
            rank = int(torch.linalg.matrix_rank(result, rtol=1e-4))
            demand(rank == k, f"the result for k = {k} has rank {rank}.")
            demand(
                error < best * 1.0001,
                f"it is {error:.3f} away from the matrix; a closer one of rank {k} exists, at {best:.3f}.",
            )


def _kept(matrix: Tensor, part: slice) -> Tensor:
    U, S, Vh = torch.linalg.svd(matrix, full_matrices=False)
    return U[:, part] * S[part] @ Vh[part]


def _unscaled(matrix: Tensor, k: int) -> Tensor:
    U, _, Vh = torch.linalg.svd(matrix, full_matrices=False)
    return U[:, :k] @ Vh[:k]


def _V_for_Vh(matrix: Tensor, k: int) -> Tensor:
    U, S, Vh = torch.linalg.svd(matrix, full_matrices=False)
    return U[:, :k] * S[:k] @ Vh[:, :k].T


def _subtracting(matrix: Tensor, k: int) -> Tensor:
    matrix -= _kept(matrix, slice(k, None))
    return matrix


low_rank.mistakes = {
    "singular values forgotten": (_unscaled, "a closer one of rank 2 exists"),
    "V for Vh": (_V_for_Vh, "a closer one of rank 2 exists"),
    "the smallest kept": (lambda matrix, k: _kept(matrix, slice(-k, None)), "a closer one of rank 2 exists"),
    "one too many": (lambda matrix, k: _kept(matrix, slice(k + 1)), "the result for k = 2 has rank 3"),
    "one too few": (lambda matrix, k: _kept(matrix, slice(k - 1)), "the result for k = 2 has rank 1"),
    "always 2": (lambda matrix, k: _kept(matrix, slice(2)), "the result for k = 1 has rank 2"),
    "what is left over": (lambda matrix, k: matrix - _kept(matrix, slice(k)), "the result for k = 2 has rank 4"),
    "nothing cut": (lambda matrix, k: matrix, "the result for k = 2 has rank 6"),
    "rows cut": (lambda matrix, k: torch.cat([matrix[:k], torch.zeros_like(matrix[k:])]), "a closer one of rank 2"),
    "matrix changed": (_subtracting, "it changes `matrix`, which it was given"),
}


@exercise
def self_rate(answer: Answer) -> None:
    """`self_rate(matrix) → float`: the share of rows whose largest entry stands on the diagonal."""
    demand(number(answer(torch.eye(5))) == 1, "every row of the identity matrix is largest at itself: the rate is 1.")
    demand(
        number(answer(-torch.eye(5) + 0.1 * random(5, 5))) == 0,
        "no row of −1 times the identity is largest at itself.",
    )
    matrix = torch.tensor([[3.0, 0, 0, 9], [2, 1, 0, 0], [0, 0, 5, 4], [0, 0, 0, 1]])
    value = number(answer(matrix))
    demand(
        close(value, 0.5),
        f"the rate of [[3, 0, 0, 9], [2, 1, 0, 0], [0, 0, 5, 4], [0, 0, 0, 1]] is not {value:.2f}: go row by row.",
    )
    demand(
        close(number(answer(matrix - 10)), 0.5) and close(number(answer(-matrix.T)), 0),
        "subtracting 10 from every entry changes no row's largest entry, so the rate stays: is 0 taken as a bound?",
    )
    for size in (3, 7):
        matrix = random(size, size) + torch.eye(size)
        expected = sum(row.max().item() == row[i].item() for i, row in enumerate(matrix)) / size
        demand(
            close(number(answer(matrix)), expected),
            f"on a random {size} × {size} table it is not the share of rows that are largest on the diagonal.",
        )


def _argmax_hits(matrix: Tensor) -> Tensor:
    return matrix.argmax(1) == torch.arange(len(matrix))


self_rate.mistakes = {
    "over columns": (lambda m: _argmax_hits(m.T).float().mean(), "go row by row"),
    "a count": (lambda m: _argmax_hits(m).sum(), "every row of the identity matrix"),
    "diagonal above zero": (lambda m: (m.diagonal() > 0).float().mean(), "go row by row"),
    "the smallest": (lambda m: (m.argmin(1) == torch.arange(len(m))).float().mean(), "every row of the identity"),
    "above the row's mean": (lambda m: (m.diagonal() > m.mean(1)).float().mean(), "go row by row"),
    "by absolute value": (lambda m: _argmax_hits(m.abs()).float().mean(), "no row of −1 times the identity"),
    "a zero in place of the diagonal": (
        lambda m: (m.diagonal() > (m * (1 - torch.eye(len(m)))).amax(1)).float().mean(),
        "is 0 taken as a bound?",
    ),
    "of four rows": (lambda m: _argmax_hits(m).sum() / 4, "every row of the identity matrix"),
    "one per row": (_argmax_hits, "it should return one number"),
}
