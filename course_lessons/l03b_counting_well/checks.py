"""Checks of lesson 03b, counting well: each exercise, and what each typical mistake is told."""

import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_utils.course.exercises import Answer, Answers, compared
from course_utils.course.expectations import Wrong, close, demand, number


def _rows(d_vocab: int, seed: int = 0) -> Tensor:
    """Counts of pairs; nothing ever followed the last token."""
    counts = (3 * random(d_vocab, d_vocab, seed=seed).abs()).floor()
    counts[:, 0] += 1
    counts[-1] = 0
    return counts


def _shares(*shape: int) -> Tensor:
    weights = 0.1 + random(*shape, seed=7).abs()
    return weights / weights.sum(-1, keepdim=True)


# columns differ in how many counts they have
_THREE = torch.tensor([[0.0, 3, 1], [1, 4, 0], [0, 0, 0]])


def _smoothed(
    imagined: Answer = lambda N, c: c * (N > 0).sum(1, keepdim=True),
    shared: Answer = lambda N, base: base,
    counted: Answer = lambda N: N,
) -> Answer:
    """A smoothing: how many occurrences are `imagined` in a row, and how they are `shared` out."""

    def logprobs(N: Tensor, c: float, base: Tensor) -> Tensor:
        more, share = imagined(N, c), shared(N, base)
        table = (counted(N) + more * share) / (N.sum(1, keepdim=True) + more)
        return torch.where(N.sum(1, keepdim=True) > 0, table, share).log()

    return logprobs


def _finite(value: object) -> object:
    if isinstance(value, Tensor) and value.isnan().any():
        raise Wrong(
            "an entry is not a number: "
            "in a row without counts 0 is divided by 0; there it should be `base`."
        )
    return value


def _no_distribution(got: Tensor, right: Tensor, *_: object) -> str | None:
    p, ones = got.exp(), torch.ones(len(got))
    miss, row = (p.sum(1) - 1).abs().max(0)
    if not miss > 1e-3:
        return None
    columns = close(p.sum(0), ones)
    base_2 = close((2**got).sum(1), ones)
    found = {
        "log-probabilities are never above 0.": (got > 1e-6).any(),
        "each column sums to 1; the next token is on the columns, so each row should.": columns,
        "these are logarithms to the base 2; the natural logarithm is asked for.": base_2,
        f"the probabilities of row {row} miss a sum of 1 by {miss:.2g}.": True,
    }
    return next((sentence for sentence, fails in found.items() if fails), None)


witten_bell = compared(
    "`witten_bell(N, c, base) → [V, V]`: "
    "log-probabilities, c · D(a) occurrences added to row a, shared like `base`.",
    returns="[current token, next token]",
    cases=lambda: {
        "the table differs: "
        "behind a row's occurrences come c times as many as it has different next tokens.": [
            (_THREE, 1.0, torch.tensor([0.5, 0.25, 0.25])),
            (_rows(7), 4.0, _shares(7)),
            (_rows(9, 1), 0.5, _shares(9, 9)),
        ]
    },
    as_read=_finite,
    explain=_no_distribution,
    mistakes={
        "c is left out.": _smoothed(lambda N, c: (N > 0).sum(1, keepdim=True)),
        "D(a) counts what follows a, along its row; yours counts what precedes it.": (
            _smoothed(lambda N, c: c * (N > 0).sum(0)[:, None])
        ),
        "the imagined occurrences are c for every row; "
        "a row with more different next tokens should have more.": (_smoothed(lambda N, c: c)),
        "D(a) is how many *different* tokens follow a, not how many.": _smoothed(
            lambda N, c: c * N.sum(1, keepdim=True)
        ),
        "all next tokens get the same share there; `base` says who gets how much.": (
            _smoothed(shared=lambda N, base: torch.full_like(base, 1 / len(N)))
        ),
        "what is kept back goes to all next tokens, those that were seen as well.": (
            _smoothed(
                shared=lambda N, base: (N == 0) * base / ((N == 0) * base).sum(1, keepdim=True)
            ),
            _smoothed(shared=lambda N, base: (N == 0) * base),
        ),
    },
)


def _likeness(n: int, seed: int) -> tuple[Tensor, Tensor]:
    return _shares(n, n).roll(seed, 0), 0.1 + random(n, n, seed=seed).abs()


def _mean(
    rows: Answer = lambda P: P, weight: Answer = lambda like: like.clone().fill_diagonal_(0)
) -> Answer:
    return lambda P, like: (w := weight(like)) / w.sum(1, keepdim=True) @ rows(P)


borrowed = compared(
    "`borrowed(P, like) → [V, V]`: "
    "for each token the mean of the other tokens' rows, weighted by its row of `like`.",
    returns="[current token, next token]",
    cases=lambda: {
        "that is not the weighted mean of the other rows.": [_likeness(6, 1), _likeness(9, 2)]
    },
    mistakes={
        "a token's own row is in its mean there: it should hear of the others only.": _mean(
            weight=lambda like: like
        ),
        "the rows of P are averaged unweighted; `like` says how much each counts.": (
            _mean(weight=lambda like: 1 - torch.eye(len(like)))
        ),
        "row a should be weighted by row a of `like`; is something transposed?": (
            _mean(weight=lambda like: like.T.clone().fill_diagonal_(0)),
            _mean(lambda P: P.T),
        ),
        "the weights of a row should sum to 1: a sum of rows is no mean yet.": (
            lambda P, like: like.clone().fill_diagonal_(0) @ P
        ),
        "each row of weights should sum to 1, not each column.": (
            lambda P, like: (w := like.clone().fill_diagonal_(0)) / w.sum(0) @ P
        ),
        "a sum without keepdim is a row, so each column is divided by a number of its own: "
        "give `sum` keepdim=True.": (
            lambda P, like: (w := like.clone().fill_diagonal_(0)) / w.sum(1) @ P
        ),
        "set the diagonal to 0 before you divide, so that what is left sums to 1.": (
            lambda P, like: (like / like.sum(1, keepdim=True)).fill_diagonal_(0) @ P
        ),
        "the weights go to softmax there; they are weights already, and only need a sum of 1.": (
            lambda P, like: like.clone().fill_diagonal_(-torch.inf).softmax(1) @ P
        ),
    },
)


class _Training:
    """The `train` that an answer is given.

    It looks at what it gets, and returns a table that was drawn before.
    """

    def __init__(self, counts: Tensor, hidden: Tensor, logits: Tensor) -> None:
        self.counts, self.hidden, self.logits, self.calls = counts, hidden, logits, 0

    def __call__(self, kept: Tensor) -> Tensor:
        self.calls += 1
        kept = torch.as_tensor(kept).detach().float()
        demand(
            kept.shape == self.counts.shape,
            f"`train` was given shape {list(kept.shape)}, not that of `counts`.",
        )
        same = kept == self.counts
        demand(same[~self.hidden].all(), "pairs that are not hidden should keep their counts.")
        demand(
            (kept[self.hidden] == 0).all(),
            "`train` still saw hidden pairs: their counts should be 0 before it.",
        )
        return self.logits.clone()


def _experiment(d_vocab: int, seed: int) -> tuple[_Training, Tensor, Tensor]:
    counts = (3 * random(d_vocab, d_vocab, seed=seed).abs()).floor()
    even = (counts == 0).sum(1) % 2 == 0  # an odd number has one median
    counts[even, (counts == 0).int().argmax(1)[even]] = 1
    hidden = (random(d_vocab, d_vocab, seed=seed + 9) > 0.3) & (counts > 0)
    logits = (
        random(d_vocab, d_vocab, seed=seed + 5).exp()
        + random(d_vocab, 1, seed=seed + 6)
        + 0.5 * hidden
    )
    rounded = logits.round(decimals=1)  # some hidden pairs are equal to the median
    return _Training(counts.clone(), hidden.clone(), rounded), counts, hidden


def _medians(table: Tensor, chosen: Tensor, dim: int = 1) -> Tensor:
    return table.masked_fill(~chosen, torch.nan).nanmedian(dim, keepdim=True).values


def _leading(
    share: Answer = lambda x, c, h: x[h].mean(),
    level: Answer = lambda t, a, h: _medians(t, a),
    leads: Answer = lambda x, y: (torch.sign(x - y) + 1) / 2,
) -> Answer:
    def answer(train: Answer, counts: Tensor, hidden: Tensor) -> object:
        table = train(counts * ~hidden)
        leading = leads(table, level(table, counts == 0, hidden))
        return share(leading.float(), counts, hidden)

    return answer


_SHARES = {  # of x, 1 where a pair leads
    "that is how many hidden pairs lead; "
    "their share is asked for, between 0 and 1.": lambda x, c, h: x[h].sum(),
    "that is the share in per cent; return it as a number between 0 and 1.": lambda x, c, h: (
        100 * x[h].mean()
    ),
    "that is a share of the whole table; it should be one of the hidden pairs.": lambda x, c, h: (
        x * h
    ).mean(),
    "that is the share of all pairs that lead; "
    "only hidden ones should be counted.": lambda x, c, h: x.mean(),
    "each hidden pair should count once, however often it occurs.": lambda x, c, h: (
        (c * h * x).sum() / (c * h).sum()
    ),
    "each hidden pair should count once, not each row.": lambda x, c, h: (
        (x * h).sum(1) / h.sum(1)
    ).nanmean(),
}
_LEVELS = {  # of the table t, the absent pairs a and the hidden ones h
    "those are medians of the pairs that occur: "
    "keep the absent pairs and put `torch.nan` in place of all others.": (
        lambda t, a, h: _medians(t, ~a)
    ),
    "the hidden pairs are among the absent ones there; "
    "absent are pairs that `counts` does not have.": (lambda t, a, h: _medians(t, a | h)),
    "the hidden pairs should be compared with absent pairs, not with all others.": lambda t, a, h: (
        _medians(t, ~h)
    ),
    "the hidden pairs should be compared with absent pairs, not with those that were kept.": (
        lambda t, a, h: _medians(t, ~h & ~a)
    ),
    "the hidden pairs should be compared with absent pairs, not with the whole row.": (
        lambda t, a, h: t.median(1, keepdim=True).values
    ),
    "one median serves all rows there; each row needs its own.": lambda t, a, h: t[a].median(),
    "the medians are those of columns; each row, a current token, needs its own.": lambda t, a, h: (
        _medians(t, a, 0)
    ),
    "that compares with the mean of a row's absent pairs; the median is asked for.": (
        lambda t, a, h: t.masked_fill(~a, torch.nan).nanmean(1, keepdim=True)
    ),
}


_LEADS: dict[str, Answers] = {
    "that is how often a hidden pair is *below* the median absent one.": (
        _leading(leads=torch.lt),
        _leading(leads=torch.le),
        _leading(leads=lambda x, y: (torch.sign(y - x) + 1) / 2),
    ),
    "a hidden pair that equals the median is a tie, and counts a half; "
    "yours counts it as not ahead.": (_leading(leads=torch.gt)),
    "a hidden pair that equals the median is a tie, and counts a half; yours counts it as ahead.": (
        _leading(leads=torch.ge)
    ),
}


hidden_lead = compared(
    "`hidden_lead(train, counts, hidden) → float`: "
    "how often a hidden pair leads its row's median absent one.",
    cases=lambda: {
        "that is not the share of hidden pairs above the median absent pair of their row, "
        "ties counted a half.": [
            _experiment(d_vocab, seed) for d_vocab, seed in ((60, 0), (24, 1), (41, 2))
        ]
    },
    as_read=number,
    explain=lambda got, right, train, *_: (
        "it never calls `train`." if train.calls == 1 else None
    ),  # ours called it
    mistakes=_LEADS
    | {sentence: _leading(share) for sentence, share in _SHARES.items()}
    | {sentence: _leading(level=level) for sentence, level in _LEVELS.items()},
)
