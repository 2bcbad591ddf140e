"""Feedback on exercises, one line each: ✓ right, ✗ with what went wrong, ○ not attempted yet.

`check.direct_path(direct_path)` looks at properties first (a shape, a sum, what must not matter), so that a wrong
answer hears which one fails; it never shows the right answer.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from course_utils import bigrams


class Wrong(Exception):
    """A property that the answer lacks, in one sentence for the learner."""


def _exercise(check: Callable) -> Callable:
    """Turn a function that raises `Wrong` into one that prints one of the three outcomes."""

    @functools.wraps(check)
    def report(answer: Callable) -> None:
        name = check.__name__
        if not callable(answer):
            print(f"✗ {name}: give the check your function itself, not {type(answer).__name__}.")
            return
        try:
            with torch.random.fork_rng():
                check(answer)
        except NotImplementedError:
            print(f"○ {name}: not attempted yet.")
        except Wrong as problem:
            print(f"✗ {name}: {problem}")
        except Exception as error:
            reason = (str(error).strip() or "no message").splitlines()[0]
            print(f"✗ {name}: your function stopped with {type(error).__name__}: {reason}")
        else:
            print(f"✓ {name}")

    return report


def _tensor(value: object, shape: tuple[int, ...], means: str) -> Tensor:
    """The answer as a finite tensor of the right shape; `means` says what the axes are."""
    if not isinstance(value, Tensor):
        raise Wrong(f"it should return a tensor, not {type(value).__name__}.")
    if tuple(value.shape) != shape:
        raise Wrong(f"the result has shape {list(value.shape)}; it should be {list(shape)}, {means}.")
    if not value.isfinite().all():
        raise Wrong("the result holds values that are infinite or not a number.")
    return value.detach().float()


def _number(value: object) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise Wrong(f"it should return one number, not {kind}.")
    if value != value or value in (float("inf"), float("-inf")):
        raise Wrong(f"the result is {value}: look for a division by 0 or a logarithm of 0.")
    return float(value)


def _demand(holds: bool | Tensor, otherwise: str) -> None:
    if not bool(holds):
        raise Wrong(otherwise)


def _close(a: Tensor | float, b: Tensor | float) -> bool:
    return torch.allclose(torch.as_tensor(a).float(), torch.as_tensor(b).float(), rtol=1e-4, atol=1e-5)


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Lesson 03


@_exercise
def direct_path(answer: Callable) -> None:
    """`direct_path(W_E, W_U) → [V, V]`: the logits of a model without layers, one row per current token."""
    W_E, W_U = _random(7, 3), _random(3, 7, seed=1)
    result = _tensor(answer(W_E, W_U), (7, 7), "[current token, next token]")
    louder = W_E.clone()
    louder[2] *= 2
    change = (_tensor(answer(louder, W_U), (7, 7), "[current token, next token]") - result).abs()
    _demand(change[2].sum() > 0, "doubling token 2's embedding leaves its row as it was.")
    _demand(
        _close(change.sum(), change[2].sum()),
        "doubling token 2's embedding should change row 2 and no other: is the current token on the rows?",
    )
    _demand(
        _close(result, W_E @ W_U),
        "the shape is right and the numbers are not: which product gives logits, and nothing more?",
    )


@_exercise
def bigram_logprobs(answer: Callable) -> None:
    """`bigram_logprobs(tokens, d_vocab, alpha) → [V, V]`: add-alpha log-probabilities, documents kept apart."""
    means = "[current token, next token]"
    tokens = torch.tensor([0, 1, 2, 1, 2, 1, 3, 0, 2, 2, 3, 4, 0, 3])  # three documents over 6 tokens; 5 never occurs
    result = _tensor(answer(tokens, 6, 0.5), (6, 6), means)
    _demand((result <= 1e-6).all(), "log-probabilities are never above 0.")
    _demand(
        not _close(result.exp().sum(0), torch.ones(6)),
        "each column sums to 1; the next token is on the columns, so each row should.",
    )
    sums = result.exp().sum(1)
    _demand(_close(sums, torch.ones(6)), f"the probabilities of row 1 sum to {sums[1]:.3f}, not to 1.")
    _demand(_close(result[5], result[5, 0]), "token 5 never occurs, so its row should be uniform.")
    _demand(
        result[3, 4] > result[3, 2],
        "token 4 follows token 3 and token 2 never does: is the current token on the rows?",
    )
    _demand(result[1, 2] > result[1, 3], "the pair (1, 2) stands twice in the stream, so it counts twice.")
    _demand(
        result[0, 1] > result[0, 4],
        "token 1 opens a document: the pair of the start token and the first token belongs to it, and counts.",
    )
    _demand(
        result[3, 0].exp() < 0.2,
        "token 3 ends a document: the start token behind it opens another one, and that pair must not count.",
    )
    flat = _tensor(answer(tokens, 6, 1e6), (6, 6), means).exp()
    _demand((flat - 1 / 6).abs().max() < 1e-3, "with a huge alpha every row should be nearly uniform.")
    expected = bigrams.add_alpha(bigrams.count(tokens, 6).to_dense(), 0.5)
    _demand(_close(result.exp(), expected.exp()), "the counts differ: alpha is added once to every pair.")
    _demand(_close(answer(tokens + 0, 6, 0.5), result), "two calls with the same tokens give two results.")


@_exercise
def table_loss(answer: Callable) -> None:
    """`table_loss(logprobs, tokens) → float`: mean surprise in nats, the prediction behind the start token left out."""
    uniform = torch.full((5, 5), 0.2).log()
    tokens = torch.tensor([[0, 1, 2, 3], [0, 4, 4, 1]])
    value = _number(answer(uniform, tokens))
    _demand(value > 0, "a loss is −log p, so it is never below 0.")
    _demand(
        _close(value, -uniform[0, 0].item()),
        f"a uniform table over 5 tokens costs ln 5 = 1.609 nats per token, not {value:.3f}.",
    )
    table = _random(5, 5).log_softmax(1)
    value = _number(answer(table, tokens))
    other = table.clone()
    other[0] = _random(5, seed=2).log_softmax(0)
    _demand(
        _close(_number(answer(other, tokens)), value),
        "what the table says behind the start token should not count: a context opens anywhere in a document.",
    )
    pairs = [(1, 2), (2, 3), (4, 4), (4, 1)]
    _demand(
        not _close(value, -sum(table[b, a] for a, b in pairs) / 4),
        "rows and columns are swapped: the current token picks the row.",
    )
    _demand(
        _close(value, -sum(table[a, b] for a, b in pairs) / 4),
        "token t at one position should be scored against the token one position later.",
    )


@_exercise
def row_centred_correlation(answer: Callable) -> None:
    """`row_centred_correlation(A, B, mask) → float`: over the masked entries, each row less its own mean."""
    A, B = _random(6, 8), _random(6, 8, seed=1)
    B = A + 0.5 * B
    mask = _random(6, 8, seed=2) > -0.3
    mask[4] = False  # a token that was never seen often enough
    _demand(_close(_number(answer(A, A, mask)), 1.0), "a table's correlation with itself should be 1.")
    _demand(_close(_number(answer(A, -A, mask)), -1.0), "a table's correlation with its negative should be −1.")
    value = _number(answer(A, B, mask))
    _demand(
        _close(_number(answer(A + 5 * _random(6, 1, seed=3), B, mask)), value),
        "adding a constant to every entry of a row changes no probability, so it should change nothing here.",
    )
    _demand(
        _close(_number(answer(torch.where(mask, A, 9.0), B, mask)), value),
        "entries outside the mask should not matter, in the mean of their row neither.",
    )
    _demand(_close(_number(answer(3 * A, B, mask)), value), "scaling one table should not change a correlation.")
    expected = bigrams.row_centred_correlation(A, B, mask)
    _demand(_close(value, expected), "that is no correlation over all masked entries together, each row centred.")


@_exercise
def low_rank(answer: Callable) -> None:
    """`low_rank(matrix, k) → matrix`: the closest matrix of rank k, which the SVD gives."""
    matrix = _random(9, 6)
    singular = torch.linalg.svdvals(matrix)
    result = _tensor(answer(matrix, 2), (9, 6), "as the matrix it approximates")
    rank = int(torch.linalg.matrix_rank(result, rtol=1e-4))
    _demand(rank == 2, f"the result for k = 2 has rank {rank}.")
    best = singular[2:].norm()
    error = (matrix - result).norm()
    _demand(
        error < best * 1.001, f"it is {error:.2f} away from the matrix; a closer one of rank 2 exists, at {best:.2f}."
    )
    _demand(_close(answer(matrix, 6), matrix), "with k = 6, the full rank, nothing should be lost.")


@_exercise
def self_rate(answer: Callable) -> None:
    """`self_rate(matrix) → float`: the share of rows whose largest entry stands on the diagonal."""
    _demand(_number(answer(torch.eye(5))) == 1, "every row of the identity matrix is largest at itself: the rate is 1.")
    _demand(
        _number(answer(-torch.eye(5) + 0.1 * _random(5, 5))) == 0,
        "no row of −1 times the identity is largest at itself.",
    )
    matrix = torch.tensor([[3.0, 0, 0, 9], [2, 1, 0, 0], [0, 0, 5, 4], [0, 0, 0, 1]])
    value = _number(answer(matrix))
    _demand(
        _close(value, 0.5),
        f"the rate of [[3, 0, 0, 9], [2, 1, 0, 0], [0, 0, 5, 4], [0, 0, 0, 1]] is not {value:.2f}: go row by row.",
    )
