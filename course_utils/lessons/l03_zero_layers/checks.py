"""Checks of lesson 03, zero layers: each exercise, then its typical mistakes with the sentence each must get."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from course_utils.bigrams import add_alpha
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.fixtures import random
from course_utils.course.questions import Wrong, close, demand, number, pair, tensor

direct_path = compared(
    "`direct_path(W_E, W_U) → [V, V]`: the logits of a model without layers, one row per current token.",
    returns="[current token, next token]",
    cases=lambda: {
        "the shape is right and the numbers are not: which product gives logits, and nothing more?": [
            (random(V, d_model), random(d_model, V, seed=1)) for V, d_model in ((7, 3), (5, 8))
        ]
    },
    mistakes={
        "doubling token 2's embedding leaves its row as it was.": lambda E, U: torch.nn.functional.normalize(E) @ U,
        "doubling token 2's embedding should change row 2 and no other: is the current token on the rows?": (
            lambda E, U: (E @ U).T,
            lambda E, U: E @ E.T,
        ),
        "doubling W_U should double every logit: stay with logits, without a softmax.": (
            lambda E, U: (E @ U).softmax(1),
            lambda E, U: (E @ U).log_softmax(1),
        ),
    },
    also_right={
        "a loop": lambda E, U: torch.stack([row @ U for row in E]),
        "numpy, float64": lambda E, U: E.double().numpy() @ U.double().numpy(),
        "a sum of products": lambda E, U: (E[:, :, None] * U).sum(1),
    },
)


def _weights(value: object, d_vocab: int, d_model: int | None = None) -> tuple[Tensor, Tensor]:
    """W_E [d_vocab, d_model] and W_U [d_model, d_vocab]; without a d_model, whatever the answer chose."""
    weights = pair(value, "W_E and W_U")
    for name, weight in zip(("W_E", "W_U"), weights, strict=True):
        demand(isinstance(weight, Tensor) and weight.ndim == 2, f"{name} should be a tensor with two axes.")
    d_model = d_model or weights[0].shape[1]
    W_E = tensor(weights[0], (d_vocab, d_model), "W_E as [d_vocab, d_model]")
    return W_E, tensor(weights[1], (d_model, d_vocab), "W_U as [d_model, d_vocab]")


@judged
def exact_weights(answer: Answer) -> None:
    """`exact_weights(table) → W_E, W_U`: weights whose direct path is a given table; every factorisation is right."""
    for d_vocab in (5, 3, 8):
        table = random(d_vocab, d_vocab, seed=d_vocab).log_softmax(1)
        W_E, W_U = _weights(answer(table), d_vocab)
        product, d_model = W_E @ W_U, W_E.shape[1]
        if close(product, table):
            continue
        demand(not close(product, table.T), "W_E @ W_U is the table transposed: the current token is on its rows.")
        demand(
            not close(product, table.exp()),
            "W_E @ W_U holds probabilities; it should hold what the table holds, their logarithms.",
        )
        demand(
            d_model >= d_vocab,
            f"a d_model of {d_model} gives a table of rank {d_model} at most; this one needs as many as it has tokens.",
        )
        away = (product - table).abs().max()
        raise Wrong(f"for {d_vocab} tokens an entry of W_E @ W_U is {away:.2g} away from the table's.")


exact_weights.mistakes = {
    "is the table transposed": lambda table: (torch.eye(len(table)), table.T),
    "it should hold what the table holds": lambda table: (torch.eye(len(table)), table.exp()),
    "for 5 tokens an entry of W_E @ W_U is": lambda table: (table, table),
    "a d_model of 2 gives a table of rank 2 at most": lambda table: (torch.eye(len(table))[:, :2], table[:2]),
    "W_E as [d_vocab, d_model]": lambda table: (torch.eye(5), table),
    "W_U should be a tensor with two axes": lambda table: (table, torch.tensor(1.0)),
}
exact_weights.also_right = {
    "the table first, in numpy": lambda table: [table.numpy() / 2, 2 * np.eye(len(table))],
    "by the SVD": lambda table: ((svd := torch.linalg.svd(table)).U * svd.S, svd.Vh),
    "QR, float64": lambda table: tuple(torch.linalg.qr(table.double())),
    "more dimensions than tokens": lambda table: (torch.eye(len(table), 9), torch.cat([table, table, table])[:9]),
}


@judged
def alphabet_weights(answer: Answer) -> None:
    """`alphabet_weights(n, scale) → W_E [n, 2], W_U [2, n]`: each of n letters in a ring is followed by the next.

    A circle that is turned, or gone round in another order, is right, too.
    """
    for n, scale in ((5, 3.0), (26, 50.0), (4, 1.0), (9, 20.0)):
        W_E, W_U = _weights(answer(n, scale), n, 2)
        demand(close(W_U.norm(dim=0), torch.ones(n)), "each column of W_U should have length 1: a point on a circle.")
        length = max(W_E.norm(dim=1), key=lambda length: abs(length - scale))
        demand(close(length, scale), f"with a scale of {scale:g} an embedding has length {length:.3g}.")
        best, successors = (W_E @ W_U).topk(2, dim=1)
        first, letter, lead = successors[:, 0], torch.arange(n), best[:, 0] - best[:, 1]
        wrong, tied = first != (letter + 1) % n, lead.min() <= 1e-4 * scale / n
        uneven = lead.max() - lead.min() >= 1e-2 * lead.max()
        narrow = lead.min() < 0.98 * scale * (1 - math.cos(2 * math.pi / n))
        last, itself, before = wrong.sum() == 1 and wrong[-1], first == letter, first == (letter - 1) % n
        for sentence, fails in {
            f"for n = {n} some letter has two best successors: are two of the directions the same?": tied,
            "every letter predicts itself; it should predict the next one.": itself.all(),
            "every letter predicts the one before it, not the next one.": before.all(),
            f"for n = {n} all are right but the last letter: do the angles go once round, in radians?": last,
            f"for n = {n} the first guess is wrong for {int(wrong.sum())} of the letters.": wrong.any(),
            "some letters are surer of their successor than others: spread the directions evenly.": uneven,
            "the letters fill a part of the circle only; spread them round the whole of it.": narrow,
        }.items():
            demand(not fails, sentence)


def _ring(scale: float, angle: Tensor, before: Tensor | None = None, outer: float = 1) -> tuple[Tensor, Tensor]:
    """Embeddings at `angle`, and unembeddings at those of the letters before, or where `before` says."""
    before = angle.roll(1) if before is None else before
    W_E = scale * torch.stack([angle.cos(), angle.sin()], dim=1)
    return W_E, outer * torch.stack([before.cos(), before.sin()])


def _steps(n: int, around: float = 2 * math.pi) -> Tensor:
    return around * torch.arange(n) / n


def _waves(n: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    letter = np.exp(2j * np.pi * np.arange(n) / n)
    before = np.roll(letter, 1)
    return scale * np.stack([letter.real, letter.imag], 1), np.stack([before.real, before.imag])


alphabet_weights.mistakes = {
    "every letter predicts itself": lambda n, s: _ring(s, _steps(n), _steps(n)),
    "every letter predicts the one before it": lambda n, s: _ring(s, _steps(n), _steps(n).roll(-1)),
    "all are right but the last letter: do the angles go once round, in radians?": (
        lambda n, s: _ring(s, _steps(n, math.pi), _steps(n, math.pi) - math.pi / n),
        lambda n, s: _ring(s, _steps(n, 360), _steps(n, 360) - 360 / n),
    ),
    "for n = 5 the first guess is wrong for 5 of the letters": lambda n, s: _ring(s, _steps(n), _steps(n).roll(2)),
    "for n = 5 some letter has two best successors": lambda n, s: _ring(s, torch.linspace(0, 2 * math.pi, n)),
    "spread the directions evenly": lambda n, s: _ring(s, _steps(n) + 0.3 * _steps(n).sin()),
    "the letters fill a part of the circle only": lambda n, s: _ring(s, _steps(n, math.pi)),
    "it should be [5, 2], W_E as": lambda n, s: (s * torch.eye(n), torch.eye(n).roll(1, 1)),
    "it should be [2, 5], W_U as [d_model, d_vocab]": lambda n, s: (_ring(s, _steps(n))[0],) * 2,
    "with a scale of 3 an embedding has length 1": lambda n, s: _ring(1, _steps(n)),
    "each column of W_U should have length 1: a point on a circle": lambda n, s: _ring(s, _steps(n), outer=s),
}
alphabet_weights.also_right = {
    "turned, the other way round": lambda n, s: _ring(s, 1 - _steps(n)),
    "in steps of two or three": lambda n, s: _ring(s, (2 if n % 2 else 3) * _steps(n)),
    "complex numbers, numpy": _waves,
}


def _streams() -> list[tuple[Tensor, int, float]]:
    short = torch.tensor([0, 1, 2, 1, 2, 1, 3, 0, 2, 2, 3, 4, 0, 3])  # three documents over 6 tokens; 5 never occurs
    long = torch.cat([torch.tensor([0]), torch.randint(0, 9, (400,), generator=torch.Generator().manual_seed(0))])
    return [(short, 6, 0.5), (short, 8, 2.0), (long, 9, 0.01), (short, 6, 1e6), (torch.tensor([0]), 3, 1.0)]


def _N(tokens: Tensor, d_vocab: int, kept: Callable[[Tensor, Tensor], Tensor] = lambda a, b: b != 0) -> Tensor:
    """How often each pair occurs, of those that are `kept(current, following)`."""
    a, b = (ids[kept(tokens[:-1], tokens[1:])] for ids in (tokens[:-1], tokens[1:]))
    return torch.zeros(d_vocab, d_vocab).index_put_((a, b), torch.ones(len(a)), accumulate=True)


def _finite(value: object) -> object:
    if isinstance(value, Tensor) and not value.isfinite().all():
        raise Wrong("an entry is infinite or not a number: is alpha added to every count before the division?")
    return value


def _no_distribution(got: Tensor, right: Tensor, *_: object) -> str | None:
    """What is said of a table whose rows are no log-probabilities."""
    p, ones = got.exp(), torch.ones(len(got))
    miss, row = (p.sum(1) - 1).abs().max(0)
    columns, base_2 = close(p.sum(0), ones), close((2**got).sum(1), ones)
    found = {
        "log-probabilities are never above 0.": (got > 1e-6).any(),
        "each column sums to 1; the next token is on the columns, so each row should.": columns and miss > 1e-3,
        "all entries together sum to 1; each row should, by itself.": close(p.sum(), 1.0),
        "these are logarithms to the base 2; the natural logarithm is asked for.": base_2,
        f"the probabilities of row {row} miss a sum of 1 by {miss:.2g}.": miss > 1e-3,
    }
    return next((sentence for sentence, fails in found.items() if fails), None)


def _by_hand(tokens: Tensor, d_vocab: int, alpha: float) -> Tensor:
    counts = [[alpha] * d_vocab for _ in range(d_vocab)]
    for current, following in pairwise(tokens.tolist()):
        counts[current][following] += following != 0
    return torch.tensor([[math.log(n / sum(row)) for n in row] for row in counts])


def _in_numpy(tokens: Tensor, d_vocab: int, alpha: float) -> np.ndarray:
    counts, ids = np.full((d_vocab, d_vocab), alpha), tokens.numpy()
    np.add.at(counts, (ids[:-1][ids[1:] > 0], ids[1:][ids[1:] > 0]), 1)
    return np.log(counts / counts.sum(1, keepdims=True))


def _numbered_pairs(tokens: Tensor, d_vocab: int, alpha: float) -> Tensor:
    pairs = (tokens[:-1] * d_vocab + tokens[1:])[tokens[1:] != 0]
    counts = torch.full((d_vocab, d_vocab), alpha)
    counts += torch.bincount(pairs, minlength=d_vocab**2).view(d_vocab, d_vocab)
    return counts.log() - counts.sum(1, keepdim=True).log()


bigram_logprobs = compared(
    "`bigram_logprobs(tokens, d_vocab, alpha) → [V, V]`: add-alpha log-probabilities, documents kept apart.",
    returns="[current token, next token]",
    cases=lambda: {"the counts differ: alpha is added once to every pair.": _streams()},
    as_read=_finite,
    explain=_no_distribution,
    mistakes={
        "token 3 ends a document: the start token behind it opens another one, and that pair must not count.": (
            lambda t, V, alpha: add_alpha(_N(t, V, lambda a, b: b >= 0), alpha)
        ),
        "the pair (1, 2) stands twice in the stream, so it counts twice.": (
            lambda t, V, alpha: add_alpha(_N(t, V).clamp(max=1), alpha)
        ),
        "token 4 follows token 3 and token 1 never does: is the current token on the rows?": (
            lambda t, V, alpha: add_alpha(_N(t, V).T, alpha)
        ),
        "with a huge alpha every row should be nearly uniform.": lambda t, V, alpha: add_alpha(_N(t, V), 0.5),
        "token 1 opens a document: the pair of the start token and the first token belongs to it, and counts.": (
            lambda t, V, alpha: add_alpha(_N(t[t != 0], V), alpha),
            lambda t, V, alpha: add_alpha(_N(t, V, lambda a, b: a * b > 0), alpha),
        ),
        "the last pair of the stream, (0, 3), does not count, and should.": (
            lambda t, V, alpha: add_alpha(_N(t[:-1], V), alpha)
        ),
        "token 5 never occurs, so its row should be uniform.": lambda t, V, alpha: add_alpha(
            torch.where((N := _N(t, V)).sum(1, keepdim=True) > 0, N, N.sum(0)), alpha
        ),
    },
    elsewhere={
        "is alpha added to every count before the division?": lambda t, V, alpha: add_alpha(_N(t, V), 0.0),
        "each column sums to 1": lambda t, V, alpha: add_alpha(_N(t, V).T, alpha).T,
        "all entries together sum to 1": lambda t, V, alpha: ((N := _N(t, V) + alpha) / N.sum()).log(),
        "log-probabilities are never above 0.": lambda t, V, alpha: add_alpha(_N(t, V), alpha).exp(),
        "logarithms to the base 2": lambda t, V, alpha: add_alpha(_N(t, V), alpha) / math.log(2),
        "the probabilities of row 4 miss a sum of 1 by 5.": (
            lambda t, V, alpha: ((N := _N(t, V)) + alpha).log() - (N.sum(1, keepdim=True) + alpha).log()
        ),
        "the counts differ: alpha is added once to every pair.": lambda t, V, alpha: add_alpha(_N(t, V), 2 * alpha),
    },
    also_right={"by hand": _by_hand, "numpy": _in_numpy, "numbered pairs": _numbered_pairs},
)


class _Training:
    """The `train` that an answer is given: it looks at what it gets, and returns a table that was drawn before."""

    def __init__(self, counts: Tensor, hidden: Tensor, logits: Tensor) -> None:
        self.counts, self.hidden, self.logits, self.calls = counts, hidden, logits, 0

    def __call__(self, kept: Tensor) -> Tensor:
        self.calls += 1
        kept = torch.as_tensor(kept).detach().float()
        demand(kept.shape == self.counts.shape, f"`train` was given shape {list(kept.shape)}, not that of `counts`.")
        same = kept == self.counts
        demand(same[~self.hidden].all(), "pairs that are not hidden should keep their counts.")
        demand((kept[self.hidden] == 0).all(), "`train` still saw hidden pairs: their counts should be 0 before it.")
        return self.logits.clone()


def _experiment(d_vocab: int, seed: int) -> tuple[_Training, Tensor, Tensor]:
    counts = (3 * random(d_vocab, d_vocab, seed=seed).abs()).floor()
    even = (counts == 0).sum(1) % 2 == 0  # an odd number has one median
    counts[even, (counts == 0).int().argmax(1)[even]] = 1
    hidden = (random(d_vocab, d_vocab, seed=seed + 9) > 0.3) & (counts > 0)
    logits = random(d_vocab, d_vocab, seed=seed + 5).exp() + random(d_vocab, 1, seed=seed + 6) + 0.5 * hidden
    rounded = logits.round(decimals=1)  # some hidden pairs are equal to the median
    return _Training(counts.clone(), hidden.clone(), rounded), counts, hidden


def _medians(table: Tensor, chosen: Tensor, dim: int = 1) -> Tensor:
    """The median of the chosen entries of each row (of each column with `dim` 0), kept as an axis of 1."""
    return table.masked_fill(~chosen, torch.nan).nanmedian(dim, keepdim=True).values


def _leading(
    share: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, counts, hidden: _mean(x[hidden]),
    level: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda table, absent, hidden: _medians(table, absent),
    leads: Callable[[Tensor, Tensor], Tensor] = torch.gt,
) -> Answer:
    """Ours, with something to get wrong: what the pairs are compared with, how, and what becomes of those that lead."""

    def answer(train: Answer, counts: Tensor, hidden: Tensor) -> Tensor:
        table = train(counts * ~hidden)
        return share(leads(table, level(table, counts == 0, hidden)), counts, hidden)

    return answer


def _mean(holds: Tensor) -> Tensor:
    return holds.float().mean()


_SHARES = {  # of x, which pairs lead
    "that is how many hidden pairs lead; their share is asked for, between 0 and 1.": lambda x, c, h: x[h].sum(),
    "that is the share in per cent; return it as a number between 0 and 1.": lambda x, c, h: 100 * _mean(x[h]),
    "that is a share of the whole table; it should be one of the hidden pairs.": lambda x, c, h: _mean(x & h),
    "that is the share of all pairs that lead; only hidden ones should be counted.": lambda x, c, h: _mean(x),
    "each hidden pair should count once, however often it occurs.": lambda x, c, h: (c * h * x).sum() / (c * h).sum(),
    "each hidden pair should count once, not each row.": lambda x, c, h: ((x & h).sum(1) / h.sum(1)).nanmean(),
}
_LEVELS = {  # of the table t, the absent pairs a and the hidden ones h
    "the hidden pairs are among the absent ones there; absent are pairs that `counts` does not have.": (
        lambda t, a, h: _medians(t, a | h)
    ),
    "the hidden pairs should be compared with absent pairs, not with all others.": lambda t, a, h: _medians(t, ~h),
    "the hidden pairs should be compared with absent pairs, not with those that were kept.": (
        lambda t, a, h: _medians(t, ~h & ~a)
    ),
    "the hidden pairs should be compared with absent pairs, not with the whole row.": (
        lambda t, a, h: t.median(1, keepdim=True).values
    ),
    "one median serves all rows there; each row needs its own.": lambda t, a, h: t[a].median(),
    "the medians are those of columns; each row, a current token, needs its own.": lambda t, a, h: _medians(t, a, 0),
    "that compares with the mean of a row's absent pairs; the median is asked for.": (
        lambda t, a, h: t.masked_fill(~a, torch.nan).nanmean(1, keepdim=True)
    ),
}


def _in_numpy_too(train: Answer, counts: Tensor, hidden: Tensor) -> np.floating:
    table = train(torch.where(hidden, 0, counts)).double().numpy()
    medians = np.nanmedian(np.where(counts.numpy() == 0, table, np.nan), axis=1, keepdims=True)
    return (table > medians)[hidden.numpy()].mean()


hidden_lead = compared(
    "`hidden_lead(train, counts, hidden) → float`: how often a hidden pair leads its row's median absent one.",
    cases=lambda: {
        "that is not the share of hidden pairs above the median absent pair of their row.": [
            _experiment(d_vocab, seed) for d_vocab, seed in ((60, 0), (24, 1), (41, 2))
        ]
    },
    as_read=number,
    explain=lambda got, right, train, *_: "it never calls `train`." if train.calls == 1 else None,  # ours called it
    mistakes={
        "that is how often a hidden pair is *below* the median absent one.": _leading(leads=torch.lt),
        "a hidden pair that equals the median does not lead: it should be above, `>`.": _leading(leads=torch.ge),
    }
    | {sentence: _leading(share) for sentence, share in _SHARES.items()}
    | {sentence: _leading(level=level) for sentence, level in _LEVELS.items()},
    elsewhere={
        "it never calls `train`.": lambda train, c, h: (c > c.median())[h].float().mean(),
        "`train` was given shape [60], not that of `counts`.": lambda train, c, h: train(c.sum(1)),
        "`train` still saw hidden pairs: their counts should be 0 before it.": lambda train, c, h: train(c).mean(),
        "pairs that are not hidden should keep their counts.": lambda train, c, h: train(c * h).mean(),
    },
    also_right={
        "row by row": lambda train, c, h: (
            sum((t[hide] > t[n == 0].median()).sum() for t, n, hide in zip(train(c * ~h), c, h, strict=True)) / h.sum()
        ),
        "numpy, float64": _in_numpy_too,
        "quantiles": _leading(level=lambda t, a, h: t.masked_fill(~a, torch.nan).nanquantile(0.5, 1, keepdim=True)),
    },
)
