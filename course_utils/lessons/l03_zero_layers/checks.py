"""Checks of lesson 03, zero layers: each exercise, then its typical mistakes with the sentence each must get."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from course_utils import bigrams
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import random
from course_utils.course.questions import close, demand, number, pair, tensor


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


def _weights(value: object, d_vocab: int, d_model: int | None = None) -> tuple[Tensor, Tensor]:
    """W_E [d_vocab, d_model] and W_U [d_model, d_vocab]; without a d_model, whatever the answer chose."""
    weights = pair(value, "W_E and W_U")
    for name, weight in zip(("W_E", "W_U"), weights, strict=True):
        demand(isinstance(weight, Tensor) and weight.ndim == 2, f"{name} should be a tensor with two axes.")
    d_model = d_model or weights[0].shape[1]
    W_E = tensor(weights[0], (d_vocab, d_model), "W_E as [d_vocab, d_model]")
    return W_E, tensor(weights[1], (d_model, d_vocab), "W_U as [d_model, d_vocab]")


@exercise
def exact_weights(answer: Answer) -> None:
    """`exact_weights(table) → W_E, W_U`: weights whose direct path is a given table, entry by entry."""
    for d_vocab in (5, 3, 8):
        table = random(d_vocab, d_vocab, seed=d_vocab).log_softmax(1)
        W_E, W_U = _weights(answer(table), d_vocab)
        product = W_E @ W_U
        demand(not close(product, table.T), "W_E @ W_U is the table transposed: the current token is on its rows.")
        demand(not close(product.exp(), table), "W_E @ W_U should be the table itself; its logarithm was taken again.")
        demand(
            not close(product, table.exp()),
            "W_E @ W_U holds probabilities; it should hold what the table holds, their logarithms.",
        )
        d_model = W_E.shape[1]
        demand(
            close(product, table) or d_model >= d_vocab,
            f"a d_model of {d_model} gives a table of rank {d_model} at most; this one needs as many as it has tokens.",
        )
        demand(
            close(product, table),
            f"for {d_vocab} tokens an entry of W_E @ W_U is {(product - table).abs().max():.2g} away from the table's.",
        )


def _halved(table: Tensor) -> tuple[Tensor, Tensor]:
    k = len(table) // 2
    U, S, Vh = torch.linalg.svd(table)
    return U[:, :k] * S[:k], Vh[:k]


exact_weights.mistakes = {
    "transposed": (lambda table: (torch.eye(len(table)), table.T), "is the table transposed"),
    "probabilities": (lambda table: (torch.eye(len(table)), table.exp()), "it should hold what the table holds"),
    "logarithm again": (lambda table: (torch.eye(len(table)), (-table).log()), "away from the table's"),
    "the table twice": (lambda table: (table, table), "away from the table's"),
    "half of the rank": (_halved, "gives a table of rank 2 at most"),
    "one matrix": (lambda table: table, "it should return two things, W_E and W_U, not Tensor"),
    "five tokens": (lambda table: (torch.eye(5), table), "W_E as [d_vocab, d_model]"),
    "the product": (lambda table: (table, torch.tensor(1.0)), "W_U should be a tensor with two axes"),
    "table changed": (lambda table: (torch.eye(len(table)), table.exp_().log()), "it changes `table`"),
}


@exercise
def alphabet_weights(answer: Answer) -> None:
    """`alphabet_weights(n, scale) → W_E [n, 2], W_U [2, n]`: each of n letters in a ring is followed by the next."""
    for n, scale in ((5, 3.0), (26, 50.0), (4, 1.0), (9, 20.0)):
        W_E, W_U = _weights(answer(n, scale), n, 2)
        lengths = W_E.norm(dim=1), W_U.norm(dim=0)
        demand(close(lengths[1], torch.ones(n)), "each column of W_U should have length 1: a point on a circle.")
        demand(
            close(lengths[0], torch.full((n,), scale)),
            f"with a scale of {scale:g} an embedding has length {lengths[0][0]:.3g}.",
        )
        logits = W_E @ W_U
        first, following = logits.argmax(1), (torch.arange(n) + 1) % n
        best = logits.topk(2, dim=1).values
        demand(
            (best[:, 0] - best[:, 1] > 1e-4 * scale / n).all(),
            f"for n = {n} some letter has two best successors: are two of the directions the same?",
        )
        demand(not (first == torch.arange(n)).all(), "every letter predicts itself; it should predict the next one.")
        demand(
            not (first == (torch.arange(n) - 1) % n).all(), "every letter predicts the one before it, not the next one."
        )
        wrong = first != following
        demand(
            wrong.sum() != 1 or not wrong[-1],
            f"for n = {n} all are right but the last letter: do the angles go once round, in radians?",
        )
        demand(not wrong.any(), f"for n = {n} the first guess is wrong for {int(wrong.sum())} of the letters.")
        lead = best[:, 0] - best[:, 1]
        demand(
            (lead.max() - lead.min()) < 1e-2 * lead.max(),
            "some letters are surer of their successor than others: spread the directions evenly.",
        )


def _ring(angles: Tensor, shifted: Tensor, scale: float, outer: float = 1) -> tuple[Tensor, Tensor]:
    W_E = scale * torch.stack([angles.cos(), angles.sin()], dim=1)
    return W_E, outer * torch.stack([shifted.cos(), shifted.sin()])


def _steps(n: int) -> Tensor:
    return 2 * math.pi * torch.arange(n) / n


alphabet_weights.mistakes = {
    "itself": (lambda n, s: _ring(_steps(n), _steps(n), s), "every letter predicts itself"),
    "the letter before": (lambda n, s: _ring(_steps(n), _steps(n) + 2 * math.pi / n, s), "the one before it"),
    "half a circle": (
        lambda n, s: _ring(_steps(n) / 2, (_steps(n) - 2 * math.pi / n) / 2, s),
        "all are right but the last letter",
    ),
    "no closing of the ring": (
        lambda n, s: _ring(a := torch.linspace(0, 2 * math.pi, n), a.roll(1), s),
        "has two best successors",
    ),
    "degrees": (lambda n, s: _ring(a := 360 * torch.arange(n) / n, a - 360 / n, s), "do the angles go once round"),
    "one number": (lambda n, s: (torch.arange(1.0, n + 1)[:, None], torch.ones(1, n)), "it should be [5, 2], W_E as"),
    "n numbers": (lambda n, s: (s * torch.eye(n), torch.eye(n).roll(1, 1)), "it should be [5, 2], W_E as"),
    "axes of W_E": (
        lambda n, s: (_ring(_steps(n), _steps(n), s)[0].T, _ring(_steps(n), _steps(n), s)[1]),
        "the result has shape [2, 5]; it should be [5, 2], W_E as",
    ),
    "axes of W_U": (lambda n, s: (_ring(_steps(n), _steps(n), s)[0],) * 2, "W_U as [d_model, d_vocab]"),
    "scale forgotten": (lambda n, s: _ring(_steps(n), _steps(n) - 2 * math.pi / n, 1), "an embedding has length 1"),
    "on a line": (
        lambda n, s: (
            torch.stack([torch.arange(n) + 1.0, torch.ones(n)], 1),
            torch.stack([x := torch.arange(n) - 1.0, -x]),
        ),
        "a point on a circle",
    ),
    "scale on both": (lambda n, s: _ring(_steps(n), _steps(n) - 2 * math.pi / n, s, s), "each column of W_U"),
    "unevenly": (
        lambda n, s: _ring(a := _steps(n) + 0.3 * _steps(n).sin(), a.roll(1), s),
        "spread the directions evenly",
    ),
    "26 letters": (lambda n, s: _ring(_steps(26), _steps(26) - 2 * math.pi / 26, s), "it should be [5, 2]"),
}


@exercise
def bigram_logprobs(answer: Answer) -> None:
    """`bigram_logprobs(tokens, d_vocab, alpha) → [V, V]`: add-alpha log-probabilities, documents kept apart."""
    means = "[current token, next token]"
    tokens = torch.tensor([0, 1, 2, 1, 2, 1, 3, 0, 2, 2, 3, 4, 0, 3])  # three documents over 6 tokens; 5 never occurs
    value = answer(tokens, 6, 0.5)
    demand(
        not isinstance(value, Tensor) or value.isfinite().all(),
        "an entry is infinite or not a number: is alpha added to every count before the division?",
    )
    result = tensor(value, (6, 6), means)
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
    "no alpha": (
        lambda t, V, alpha: _over_rows(_inside(t, V, 0)).log(),
        "is alpha added to every count before the division",
    ),
    "six tokens": (lambda t, V, alpha: _over_rows(_inside(t, 6, alpha)).log(), "it should be [8, 8]"),
}


@exercise
def hidden_lead(answer: Answer) -> None:
    """`hidden_lead(train, counts, hidden) → float`: how often a hidden pair leads its row's median absent one."""
    for d_vocab, seed in ((60, 0), (24, 1), (41, 2)):
        counts = (3 * random(d_vocab, d_vocab, seed=seed).abs()).floor()
        even = (counts == 0).sum(1) % 2 == 0  # an odd number has one median
        counts[even, (counts == 0).int().argmax(1)[even]] = 1
        hidden = (random(d_vocab, d_vocab, seed=seed + 9) > 0.3) & (counts > 0)
        logits = random(d_vocab, d_vocab, seed=seed + 5).exp() + random(d_vocab, 1, seed=seed + 6) + 0.5 * hidden
        given: list[Tensor] = []

        def train(kept: Tensor, given: list[Tensor] = given, logits: Tensor = logits) -> Tensor:
            given.append(torch.as_tensor(kept).detach().clone().float())
            return logits.clone()

        value = number(answer(train, counts, hidden))
        demand(len(given) > 0, "it never calls `train`.")
        demand(given[0].shape == counts.shape, f"`train` was given shape {list(given[0].shape)}, not that of `counts`.")
        demand((given[0][~hidden] == counts[~hidden]).all(), "pairs that are not hidden should keep their counts.")
        demand((given[0][hidden] == 0).all(), "`train` still saw hidden pairs: their counts should be 0 before it.")
        _judge_share(value, counts, hidden, logits)


def _medians(table: Tensor, chosen: Tensor, dim: int = 1) -> Tensor:
    """The median of the chosen entries of each row (of each column with `dim` 0), kept as an axis of 1."""
    return table.masked_fill(~chosen, torch.nan).nanmedian(dim, keepdim=True).values


def _share(table: Tensor, hidden: Tensor, medians: Tensor) -> Tensor:
    return (table > medians)[hidden].float().mean()


def _judge_share(value: float, counts: Tensor, hidden: Tensor, table: Tensor) -> None:
    """Name what a wrong number is; the right one is `_share` over the medians of the absent pairs."""
    absent = counts == 0
    medians = _medians(table, absent)
    right, leads = _share(table, hidden, medians), table > medians
    mean = table.masked_fill(~absent, torch.nan).nanmean(1, keepdim=True)
    by_row = (leads & hidden).sum(1)[hidden.any(1)] / hidden.sum(1)[hidden.any(1)]
    named = {
        "that is how often a hidden pair is *below* the median absent one.": 1 - right,
        "that is how many hidden pairs lead; their share is asked for, between 0 and 1.": (leads & hidden).sum(),
        "that is the share in per cent; return it as a number between 0 and 1.": 100 * right,
        "that is a share of the whole table; it should be one of the hidden pairs.": (leads & hidden).float().mean(),
        "that is the share of all pairs that lead; only hidden ones should be counted.": leads.float().mean(),
        "the hidden pairs are among the absent ones there; absent are pairs that `counts` does not have.": _share(
            table, hidden, _medians(table, absent | hidden)
        ),
        "the hidden pairs should be compared with absent pairs, not with all others.": _share(
            table, hidden, _medians(table, ~hidden)
        ),
        "the hidden pairs should be compared with absent pairs, not with those that were kept.": _share(
            table, hidden, _medians(table, ~hidden & ~absent)
        ),
        "the hidden pairs should be compared with absent pairs, not with the whole row.": _share(
            table, hidden, table.median(1, keepdim=True).values
        ),
        "one median serves all rows there; each row needs its own.": _share(table, hidden, table[absent].median()),
        "the medians are those of columns; each row, a current token, needs its own.": _share(
            table, hidden, _medians(table, absent, 0)
        ),
        "that compares with the mean of a row's absent pairs; the median is asked for.": _share(table, hidden, mean),
        "each hidden pair should count once, however often it occurs.": (counts * hidden * leads).sum()
        / (counts * hidden).sum(),
        "each hidden pair should count once, not each row.": by_row.mean(),
    }
    for sentence, wrong in named.items():
        demand(close(value, right) or not close(value, wrong), sentence)
    demand(close(value, right), "that is not the share of hidden pairs above the median absent pair of their row.")


def _table(train: Answer, counts: Tensor, hidden: Tensor) -> Tensor:
    return train(counts * ~hidden)


def _against(chosen: Callable[[Tensor, Tensor], Tensor], dim: int = 1) -> Answer:
    """An answer that compares the hidden pairs with the median of the pairs that `chosen(counts, hidden)` says."""
    return lambda train, c, h: _share(t := _table(train, c, h), h, _medians(t, chosen(c, h), dim))


def _leading(train: Answer, counts: Tensor, hidden: Tensor) -> Tensor:
    table = _table(train, counts, hidden)
    return table > _medians(table, counts == 0)


def _changing(train: Answer, counts: Tensor, hidden: Tensor) -> Tensor:
    absent = counts == 0
    counts[hidden] = 0
    return _share(table := train(counts), hidden, _medians(table, absent))


hidden_lead.mistakes = {
    "trained on all": (
        lambda train, c, h: _share(t := train(c), h, _medians(t, c == 0)),
        "`train` still saw hidden pairs",
    ),
    "trained on the hidden": (
        lambda train, c, h: _share(t := train(c * h), h, _medians(t, c == 0)),
        "should keep their counts",
    ),
    "never trained": (lambda train, c, h: _share(c, h, _medians(c, c == 0)), "it never calls `train`"),
    "hidden among the absent": (_against(lambda c, h: c * ~h == 0), "the hidden pairs are among the absent ones"),
    "against all others": (_against(lambda c, h: ~h), "not with all others"),
    "against the kept": (_against(lambda c, h: ~h & (c > 0)), "those that were kept"),
    "against the row": (_against(lambda c, h: c >= 0), "not with the whole row"),
    "medians of columns": (_against(lambda c, h: c == 0, 0), "the medians are those of columns"),
    "one median": (
        lambda train, c, h: _share(t := _table(train, c, h), h, t[c == 0].median()),
        "one median serves all rows",
    ),
    "the mean": (
        lambda train, c, h: _share(
            t := _table(train, c, h), h, t.masked_fill(c > 0, torch.nan).nanmean(1, keepdim=True)
        ),
        "the median is asked for",
    ),
    "below": (lambda train, c, h: (~_leading(train, c, h))[h].float().mean(), "is *below* the median"),
    "how many": (lambda train, c, h: _leading(train, c, h)[h].sum(), "how many hidden pairs lead"),
    "per cent": (lambda train, c, h: 100 * _leading(train, c, h)[h].float().mean(), "in per cent"),
    "of the whole table": (lambda train, c, h: (_leading(train, c, h) & h).float().mean(), "of the whole table"),
    "all pairs": (lambda train, c, h: _leading(train, c, h).float().mean(), "only hidden ones should be counted"),
    "weighted": (
        lambda train, c, h: (c * h * _leading(train, c, h)).sum() / (c * h).sum(),
        "however often it occurs",
    ),
    "by row": (
        lambda train, c, h: ((_leading(train, c, h) & h).sum(1) / h.sum(1)).nanmean(),
        "count once, not each row",
    ),
    "difference of means": (
        lambda train, c, h: (t := _table(train, c, h))[h].mean() - t[c == 0].mean(),
        "the share of hidden pairs above the median",
    ),
    "counts changed": (_changing, "it changes `counts`, which it was given"),
}
