"""Checks of lesson 03, zero layers."""

from collections.abc import Callable

import torch

from course_utils import bigrams
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import close, demand, number, tensor


@exercise
def direct_path(answer: Callable) -> None:
    """`direct_path(W_E, W_U) → [V, V]`: the logits of a model without layers, one row per current token."""
    W_E, W_U = random(7, 3), random(3, 7, seed=1)
    result = tensor(answer(W_E, W_U), (7, 7), "[current token, next token]")
    louder = W_E.clone()
    louder[2] *= 2
    change = (tensor(answer(louder, W_U), (7, 7), "[current token, next token]") - result).abs()
    demand(change[2].sum() > 0, "doubling token 2's embedding leaves its row as it was.")
    demand(
        close(change.sum(), change[2].sum()),
        "doubling token 2's embedding should change row 2 and no other: is the current token on the rows?",
    )
    demand(
        close(result, W_E @ W_U),
        "the shape is right and the numbers are not: which product gives logits, and nothing more?",
    )


@exercise
def bigram_logprobs(answer: Callable) -> None:
    """`bigram_logprobs(tokens, d_vocab, alpha) → [V, V]`: add-alpha log-probabilities, documents kept apart."""
    means = "[current token, next token]"
    tokens = torch.tensor([0, 1, 2, 1, 2, 1, 3, 0, 2, 2, 3, 4, 0, 3])  # three documents over 6 tokens; 5 never occurs
    result = tensor(answer(tokens, 6, 0.5), (6, 6), means)
    demand((result <= 1e-6).all(), "log-probabilities are never above 0.")
    demand(
        not close(result.exp().sum(0), torch.ones(6)),
        "each column sums to 1; the next token is on the columns, so each row should.",
    )
    sums = result.exp().sum(1)
    demand(close(sums, torch.ones(6)), f"the probabilities of row 1 sum to {sums[1]:.3f}, not to 1.")
    demand(close(result[5], result[5, 0]), "token 5 never occurs, so its row should be uniform.")
    demand(
        result[3, 4] > result[3, 2],
        "token 4 follows token 3 and token 2 never does: is the current token on the rows?",
    )
    demand(result[1, 2] > result[1, 3], "the pair (1, 2) stands twice in the stream, so it counts twice.")
    demand(
        result[0, 1] > result[0, 4],
        "token 1 opens a document: the pair of the start token and the first token belongs to it, and counts.",
    )
    demand(
        result[3, 0].exp() < 0.2,
        "token 3 ends a document: the start token behind it opens another one, and that pair must not count.",
    )
    flat = tensor(answer(tokens, 6, 1e6), (6, 6), means).exp()
    demand((flat - 1 / 6).abs().max() < 1e-3, "with a huge alpha every row should be nearly uniform.")
    expected = bigrams.add_alpha(bigrams.count(tokens, 6).to_dense(), 0.5)
    demand(close(result.exp(), expected.exp()), "the counts differ: alpha is added once to every pair.")
    demand(close(answer(tokens + 0, 6, 0.5), result), "two calls with the same tokens give two results.")


@exercise
def table_loss(answer: Callable) -> None:
    """`table_loss(logprobs, tokens) → float`: mean surprise in nats, the prediction behind the start token left out."""
    uniform = torch.full((5, 5), 0.2).log()
    tokens = torch.tensor([[0, 1, 2, 3], [0, 4, 4, 1]])
    value = number(answer(uniform, tokens))
    demand(value > 0, "a loss is −log p, so it is never below 0.")
    demand(
        close(value, -uniform[0, 0].item()),
        f"a uniform table over 5 tokens costs ln 5 = 1.609 nats per token, not {value:.3f}.",
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
        close(value, -sum(table[a, b] for a, b in pairs) / 4),
        "token t at one position should be scored against the token one position later.",
    )


@exercise
def row_centred_correlation(answer: Callable) -> None:
    """`row_centred_correlation(A, B, mask) → float`: over the masked entries, each row less its own mean."""
    A, B = random(6, 8), random(6, 8, seed=1)
    B = A + 0.5 * B
    mask = random(6, 8, seed=2) > -0.3
    mask[4] = False  # a token that was never seen often enough
    demand(close(number(answer(A, A, mask)), 1.0), "a table's correlation with itself should be 1.")
    demand(close(number(answer(A, -A, mask)), -1.0), "a table's correlation with its negative should be −1.")
    value = number(answer(A, B, mask))
    demand(
        close(number(answer(A + 5 * random(6, 1, seed=3), B, mask)), value),
        "adding a constant to every entry of a row changes no probability, so it should change nothing here.",
    )
    demand(
        close(number(answer(torch.where(mask, A, 9.0), B, mask)), value),
        "entries outside the mask should not matter, in the mean of their row neither.",
    )
    demand(close(number(answer(3 * A, B, mask)), value), "scaling one table should not change a correlation.")
    expected = bigrams.row_centred_correlation(A, B, mask)
    demand(close(value, expected), "that is no correlation over all masked entries together, each row centred.")


@exercise
def low_rank(answer: Callable) -> None:
    """`low_rank(matrix, k) → matrix`: the closest matrix of rank k, which the SVD gives."""
    matrix = random(9, 6)
    singular = torch.linalg.svdvals(matrix)
    result = tensor(answer(matrix, 2), (9, 6), "as the matrix it approximates")
    rank = int(torch.linalg.matrix_rank(result, rtol=1e-4))
    demand(rank == 2, f"the result for k = 2 has rank {rank}.")
    best = singular[2:].norm()
    error = (matrix - result).norm()
    demand(
        error < best * 1.001, f"it is {error:.2f} away from the matrix; a closer one of rank 2 exists, at {best:.2f}."
    )
    demand(close(answer(matrix, 6), matrix), "with k = 6, the full rank, nothing should be lost.")


@exercise
def self_rate(answer: Callable) -> None:
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
