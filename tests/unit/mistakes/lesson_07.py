"""Typical wrong answers to the exercises of lesson 07, which the checks must reject."""

import torch

from course_utils import circuits


def offset(back, first=None):
    """Mean attention `back(period)` back, over destinations from `first(period)` on."""

    def score(pattern, period):
        dest = torch.arange(first(period) if first else period + 1, len(pattern))
        return pattern[dest, dest - back(period)].mean().item()

    return score


def first_follower_only(pattern, period):
    """Mean attention to what followed the first copy, whichever pass the destination is in."""
    dest = torch.arange(period + 1, len(pattern))
    return pattern[dest, (dest - 1) % period + 2].mean().item()


def copies(tokens):
    """[dest, src]: an earlier copy of the same token."""
    return (tokens[:, None] == tokens[None, :]).tril(-1)


def shifted(marks, by):
    """The marks moved along the sources, dropping what falls off."""
    result = torch.zeros_like(marks)
    if by > 0:
        result[:, by:] = marks[:, :-by]
    else:
        result[:, :by] = marks[:, -by:]
    return result


def last_copy_only(tokens):
    marks = copies(tokens)
    last = marks & (marks.long().flip(1).cumsum(1).flip(1) == 1)
    return shifted(last, 1)


def first_copy_only(tokens):
    marks = copies(tokens)
    return shifted(marks & (marks.long().cumsum(1) == 1), 1)


def picked(logits, following):
    return logits[torch.arange(len(following)), following]


def written_by(z, W_O):
    return torch.einsum("lhd,lhdm->lhm", z, W_O)


def read(written, W_K):
    return torch.einsum("pm,hmd->phd", written, W_K)


def eigenvalues_of(product):
    return lambda W_E, QK2, OV1: circuits.eigenvalues(product(W_E, QK2, OV1))


def singular_values(W_E, QK2, OV1):
    return torch.linalg.svdvals((W_E @ QK2 @ OV1.T @ W_E.T).AB)[: QK2.mdim]


def match(W_E, QK2, OV1):
    return W_E @ QK2 @ OV1.T @ W_E.T


MISTAKES = {
    "induction_score": {
        "the last copy only": offset(lambda period: period - 1),
        "the first copy only": first_follower_only,
        "the mean over the copies": lambda pattern, period: (
            sum(pattern.diagonal(1 - ago)[2:].mean().item() for ago in range(period, len(pattern) - 1, period))
            / (len(range(period, len(pattern) - 1, period)))
        ),
        "the sum of the copies' means": lambda pattern, period: sum(
            pattern.diagonal(1 - ago)[2:].mean().item() for ago in range(period, len(pattern) - 1, period)
        ),
        "the earlier copy itself": offset(lambda period: period),
        "the previous token": offset(lambda period: 1),
        "two steps behind the copy": offset(lambda period: period - 2, lambda period: period + 1),
        "one step before the copy": offset(lambda period: period + 1),
        "the whole diagonal": lambda pattern, period: pattern.diagonal(-(period - 1)).mean().item(),
        "the last of the first pass counts": offset(lambda period: period - 1, lambda period: period),
        "the third pass alone": offset(lambda period: period - 1, lambda period: 2 * period + 1),
        "the second pass alone": lambda pattern, period: pattern.diagonal(-(period - 1))[2 : period + 2].mean().item(),
        "destinations on the columns": lambda pattern, period: pattern.diagonal(period - 1)[2:].mean().item(),
        "a sum": lambda pattern, period: pattern.diagonal(-(period - 1))[2:].sum().item(),
        "over all rows": lambda pattern, period: pattern.diagonal(-(period - 1))[2:].sum().item() / len(pattern),
        "the mean of what it sees": lambda pattern, period: pattern[period + 1 :].mean().item(),
        "one per position": lambda pattern, period: pattern.diagonal(-(period - 1))[2:],
        "a period of 5 built in": lambda pattern, period: pattern.diagonal(-4)[2:].mean().item(),
    },
    "induction_targets": {
        "the copy itself": copies,
        "before the copy": lambda tokens: shifted(copies(tokens), -1),
        "two behind the copy": lambda tokens: shifted(copies(tokens), 2),
        "transposed": lambda tokens: shifted(copies(tokens), 1).T,
        "itself a copy of itself": lambda tokens: shifted((tokens[:, None] == tokens).tril(), 1),
        "the future": lambda tokens: shifted(tokens[:, None] == tokens, 1),
        "the last copy only": last_copy_only,
        "the first copy only": first_copy_only,
        "its own position left out": lambda tokens: shifted(copies(tokens), 1).tril(-1),
        "wrapped around": lambda tokens: (tokens[:, None] == tokens).fill_diagonal_(False).roll(1, 1),
        "where the next token agrees": lambda tokens: shifted(copies(tokens), 1) & (tokens == tokens.roll(-1)[:, None]),
        "nothing": lambda tokens: torch.zeros(len(tokens), len(tokens)),
    },
    "logit_effect": {
        "not centred": lambda r, W_U, n: picked(r @ W_U, n),
        "centred over positions": lambda r, W_U, n: picked(r @ W_U - (r @ W_U).mean(0), n),
        "centred over everything": lambda r, W_U, n: picked(r @ W_U - (r @ W_U).mean(), n),
        "W_U centred over d_model": lambda r, W_U, n: picked(r @ (W_U - W_U.mean(0)), n),
        "a log-probability": lambda r, W_U, n: picked((r @ W_U).log_softmax(1), n),
        "a probability": lambda r, W_U, n: picked((r @ W_U).softmax(1), n),
        "every position for every token": lambda r, W_U, n: (r @ (W_U - W_U.mean(1, keepdim=True)))[:, n],
        "the favourite": lambda r, W_U, n: (r @ (W_U - W_U.mean(1, keepdim=True))).max(1).values,
        "one off": lambda r, W_U, n: picked(r @ (W_U - W_U.mean(1, keepdim=True)), n.roll(-1)),
        "the mean": lambda r, W_U, n: picked(r @ (W_U - W_U.mean(1, keepdim=True)), n).mean(),
    },
    "head_attribution": {
        "the sign": lambda z, W_O, W_U, a, b: written_by(z, W_O) @ (W_U[:, b] - W_U[:, a]),
        "the right token alone": lambda z, W_O, W_U, a, b: written_by(z, W_O) @ W_U[:, a],
        "layer 0's W_O for both": lambda z, W_O, W_U, a, b: (
            torch.einsum("lhd,hdm->lhm", z, W_O[0]) @ (W_U[:, a] - W_U[:, b])
        ),
        "head 0's W_O for all": lambda z, W_O, W_U, a, b: (
            torch.einsum("lhd,ldm->lhm", z, W_O[:, 0]) @ (W_U[:, a] - W_U[:, b])
        ),
        "a share": lambda z, W_O, W_U, a, b: (
            (parts := written_by(z, W_O) @ (W_U[:, a] - W_U[:, b])) / parts.abs().sum()
        ),
        "probabilities": lambda z, W_O, W_U, a, b: (p := (written_by(z, W_O) @ W_U).softmax(-1))[..., a] - p[..., b],
        "one number": lambda z, W_O, W_U, a, b: (written_by(z, W_O) @ (W_U[:, a] - W_U[:, b])).sum(),
        "the layers summed": lambda z, W_O, W_U, a, b: (
            (written_by(z, W_O) @ (W_U[:, a] - W_U[:, b])).sum(0).expand(2, 3)
        ),
        "relative to the mean head": lambda z, W_O, W_U, a, b: (
            (parts := written_by(z, W_O) @ (W_U[:, a] - W_U[:, b])) - parts.mean()
        ),
    },
    "keys_without": {
        "added": lambda k, w, W_K: k + read(w, W_K),
        "what was written, alone": lambda k, w, W_K: read(w, W_K),
        "its negative, alone": lambda k, w, W_K: -read(w, W_K),
        "shifted by one": lambda k, w, W_K: k - read(w, W_K).roll(1, 0),
        "shifted back by one": lambda k, w, W_K: k - read(w, W_K).roll(-1, 0),
        "head 0's W_K for all": lambda k, w, W_K: k - read(w, W_K[:1].expand_as(W_K)),
        "the heads swapped": lambda k, w, W_K: k - read(w, W_K.flip(0)),
        "all heads' together": lambda k, w, W_K: k - read(w, W_K).sum(1, keepdim=True),
        "the mean over positions": lambda k, w, W_K: k - read(w, W_K).mean(0),
        "nothing": lambda k, w, W_K: k,
        "half": lambda k, w, W_K: k - read(w, W_K) / 2,
    },
    "k_match": {
        "OV₁ not transposed": eigenvalues_of(lambda W_E, QK2, OV1: W_E @ QK2 @ OV1 @ W_E.T),
        "through the query": eigenvalues_of(lambda W_E, QK2, OV1: W_E @ OV1 @ QK2 @ W_E.T),
        "through the query, OV₁ transposed": eigenvalues_of(lambda W_E, QK2, OV1: W_E @ OV1.T @ QK2 @ W_E.T),
        "QK₂ transposed": eigenvalues_of(lambda W_E, QK2, OV1: W_E @ QK2.T @ OV1.T @ W_E.T),
        "without embeddings": eigenvalues_of(lambda W_E, QK2, OV1: QK2 @ OV1.T),
        "QK₂ alone": eigenvalues_of(lambda W_E, QK2, OV1: W_E @ QK2 @ W_E.T),
        "OV₁ alone": eigenvalues_of(lambda W_E, QK2, OV1: W_E @ OV1 @ W_E.T),
        "eigenvalues of the whole table": lambda W_E, QK2, OV1: torch.linalg.eigvals(match(W_E, QK2, OV1).AB),
        "singular values": singular_values,
        "real parts": lambda W_E, QK2, OV1: circuits.eigenvalues(match(W_E, QK2, OV1)).real,
        "lengths": lambda W_E, QK2, OV1: circuits.eigenvalues(match(W_E, QK2, OV1)).abs(),
        "over √d_head": lambda W_E, QK2, OV1: circuits.eigenvalues(match(W_E, QK2, OV1)) / QK2.mdim**0.5,
        "the score of positivity": lambda W_E, QK2, OV1: circuits.copying_score(match(W_E, QK2, OV1)),
        "the matrix": match,
    },
    "shift_matrix": {
        "transposed": lambda n: torch.ones(n - 1).diag(-1),
        "the identity": torch.eye,
        "wrapped around": lambda n: torch.eye(n).roll(1, 1),
        "wrapped around, backwards": lambda n: torch.eye(n).roll(-1, 1),
        "all later positions": lambda n: torch.ones(n, n).triu(1),
        "two ahead": lambda n: torch.ones(n - 2).diag(2),
        "too small": lambda n: torch.eye(n - 1),
        "a step and itself": lambda n: torch.eye(n) + torch.ones(n - 1).diag(1),
        "scaled": lambda n: 2 * torch.ones(n - 1).diag(1),
    },
}
