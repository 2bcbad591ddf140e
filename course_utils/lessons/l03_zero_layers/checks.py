"""Checks of lesson 03, zero layers: each exercise, then its typical mistakes with the sentence each must get."""

import math
from collections.abc import Callable

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
)


def _weights(value: object, d_vocab: int, d_model: int | None = None) -> tuple[Tensor, Tensor]:
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
        right, turned, exp = (close(product, other) for other in (table, table.T, table.exp()))
        away, rank = (product - table).abs().max(), f"a d_model of {d_model} gives a table of rank {d_model} at most"
        for sentence, fails in {
            "W_E @ W_U is the table transposed: the current token is on its rows.": turned,
            "W_E @ W_U holds probabilities; it should hold what the table holds, their logarithms.": exp,
            f"{rank}; this one needs as many as it has tokens.": d_model < d_vocab,
            f"for {d_vocab} tokens an entry of W_E @ W_U is {away:.2g} away from the table's.": not right,
        }.items():
            demand(right or not fails, sentence)


@judged
def alphabet_weights(answer: Answer) -> None:
    """`alphabet_weights(n, scale) → W_E [n, 2], W_U [2, n]`: n letters follow each other, on any circle."""
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
        "the last pair of the stream, (0, 3), does not count, and should.": lambda t, V, a: add_alpha(_N(t[:-1], V), a),
        "token 5 never occurs, so its row should be uniform.": lambda t, V, alpha: add_alpha(
            torch.where((N := _N(t, V)).sum(1, keepdim=True) > 0, N, N.sum(0)), alpha
        ),
    },
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
    return table.masked_fill(~chosen, torch.nan).nanmedian(dim, keepdim=True).values


def _leading(
    share: Answer = lambda x, c, h: x[h].mean(),
    level: Answer = lambda t, a, h: _medians(t, a),
    leads: Answer = torch.gt,
) -> Answer:
    return lambda train, c, h: share(leads(table := train(c * ~h), level(table, c == 0, h)).float(), c, h)


_SHARES = {  # of x, 1 where a pair leads
    "that is how many hidden pairs lead; their share is asked for, between 0 and 1.": lambda x, c, h: x[h].sum(),
    "that is the share in per cent; return it as a number between 0 and 1.": lambda x, c, h: 100 * x[h].mean(),
    "that is a share of the whole table; it should be one of the hidden pairs.": lambda x, c, h: (x * h).mean(),
    "that is the share of all pairs that lead; only hidden ones should be counted.": lambda x, c, h: x.mean(),
    "each hidden pair should count once, however often it occurs.": lambda x, c, h: (c * h * x).sum() / (c * h).sum(),
    "each hidden pair should count once, not each row.": lambda x, c, h: ((x * h).sum(1) / h.sum(1)).nanmean(),
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
)
