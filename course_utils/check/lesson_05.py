"""Checks of lesson 05, max of a list: each exercise, then its typical mistakes with the sentence each must get."""

import math

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random, tiny_model
from course_utils.check.questions import close, demand, number, tensor

ONE_HEAD = {"n_layers": 1, "n_heads": 1, "positional_embedding_type": "standard"}


@exercise
def qk_scores(answer: Answer) -> None:
    """`qk_scores(model, q_pos, k_pos) → [query value, key value]`: scores before the softmax, with positions."""
    model = tiny_model(1.0, **ONE_HEAD, d_model=6, d_vocab=7, n_ctx=5)
    means = "[value at q_pos, value at k_pos]"
    result = tensor(answer(model, 3, 1), (7, 7), means)
    demand(not close(result.sum(1), torch.ones(7)), "these are probabilities; scores come before the softmax.")
    demand(not close(tensor(answer(model, 3, 2), (7, 7), means), result), "another k_pos should give other scores.")
    demand(not close(tensor(answer(model, 4, 1), (7, 7), means), result), "another q_pos should give other scores.")
    _, cache = model.run_with_cache(torch.tensor([[0, 2, 6, 5, 4]]))
    seen = cache["attn_scores", 0][0, 0, 3, 1].item()  # value 5 at position 3 looks at value 2 at position 1
    right = close(seen, result[5, 2])
    demand(
        right or not close(seen, result[2, 5]),
        "rows and columns are swapped: the query, which looks, belongs on the rows.",
    )
    ratio = (result[5, 2] / seen).item()
    demand(
        right or not close(result, ratio * _scores(model, 3, 1)),
        f"your scores are {ratio:.2f} times the model's: TransformerLens divides them by √d_head, once.",
    )
    swapped = _scores(model, 1, 3)
    demand(
        right or not (close(result, swapped) or close(result, swapped.T)),
        "query and key have changed roles: W_Q reads what stands at q_pos, W_K what stands at k_pos.",
    )
    demand(
        right,
        f"the model gives value 2 at position 1 a score of {seen:.2f} when value 5 at position 3 looks at it; "
        f"yours is {result[5, 2]:.2f}.",
    )
    demand(close(result, _scores(model, 3, 1)), "one entry is the model's score, and others are not.")
    other = tiny_model(1.0, **ONE_HEAD, d_head=9, d_vocab=8)
    for q_pos, k_pos in ((0, 0), (8, 5)):
        result = tensor(answer(other, q_pos, k_pos), (8, 8), means)
        demand(
            close(result, _scores(other, q_pos, k_pos)),
            f"the scores are wrong for a model of other sizes (d_head 9), from position {q_pos} to {k_pos}.",
        )


def _placed(model: HookedTransformer, pos: int) -> Tensor:
    return model.W_E + model.W_pos[pos]


def _between(model: HookedTransformer, query: Tensor, key: Tensor) -> Tensor:
    return query @ model.W_Q[0, 0] @ model.W_K[0, 0].T @ key.T / model.cfg.d_head**0.5


def _scores(model: HookedTransformer, q_pos: int, k_pos: int) -> Tensor:
    return _between(model, _placed(model, q_pos), _placed(model, k_pos))


def _shifting_W_E(model: HookedTransformer, q_pos: int, k_pos: int) -> Tensor:
    model.W_E.data += model.W_pos[k_pos]
    return _scores(model, q_pos, k_pos)


def _with_a_hook(model: HookedTransformer, q_pos: int, k_pos: int) -> Tensor:
    model.add_hook("blocks.0.attn.hook_attn_scores", lambda scores, hook: scores)
    return _scores(model, q_pos, k_pos)


qk_scores.mistakes = {
    "positions missing": (lambda m, q, k: _between(m, m.W_E, m.W_E), "another k_pos should give"),
    "the key's position missing": (lambda m, q, k: _between(m, _placed(m, q), m.W_E), "another k_pos should give"),
    "the query's position missing": (lambda m, q, k: _between(m, m.W_E, _placed(m, k)), "another q_pos should give"),
    "axes flipped": (lambda m, q, k: _scores(m, q, k).T, "rows and columns are swapped"),
    "positions swapped": (lambda m, q, k: _scores(m, k, q), "query and key have changed roles"),
    "positions and axes swapped": (lambda m, q, k: _scores(m, k, q).T, "query and key have changed roles"),
    "W_Q and W_K swapped": (
        lambda m, q, k: _placed(m, q) @ m.W_K[0, 0] @ m.W_Q[0, 0].T @ _placed(m, k).T / m.cfg.d_head**0.5,
        "query and key have changed roles",
    ),
    "not scaled": (lambda m, q, k: _scores(m, q, k) * m.cfg.d_head**0.5, "your scores are 2.00 times the model's"),
    "scaled by d_model": (
        lambda m, q, k: _scores(m, q, k) * (m.cfg.d_head / m.cfg.d_model) ** 0.5,
        "your scores are 0.82 times the model's",
    ),
    "scaled by d_head, no root": (
        lambda m, q, k: _scores(m, q, k) / m.cfg.d_head**0.5,
        "your scores are 0.50 times the model's",
    ),
    "scaled for d_head 4": (lambda m, q, k: _scores(m, q, k) * (m.cfg.d_head / 4) ** 0.5, "other sizes (d_head 9)"),
    "after the softmax": (lambda m, q, k: _scores(m, q, k).softmax(1), "these are probabilities"),
    "one entry only": (
        lambda m, q, k: _scores(m, q, k) * ((torch.arange(m.cfg.d_vocab)[:, None] == 5) | (q > 3)),
        "one entry is the model's score",
    ),
    "the model changed": (_shifting_W_E, "it changes `model.embed.W_E`, which it was given"),
    "a hook left": (_with_a_hook, "it leaves a hook on `model`, at blocks.0.attn.hook_attn_scores"),
}


@exercise
def order_violations(answer: Answer) -> None:
    """`order_violations(s10, s11) → int`: how many lists [a, b], a ≠ b, look more at the smaller value."""
    values = torch.arange(6.0)
    constant = 3 * random(6, 1)  # each query has its own, which its softmax ignores
    s10 = values + constant + 0.5  # a half: not enough to beat the next larger value
    s11 = torch.where(torch.eye(6).bool(), values + constant, 50 * random(6, 6, seed=3))  # off the diagonal: noise
    value = number(answer(s10, s11))
    demand(value != 6, "a list of two equal values has no larger one: leave out a = b.")
    demand(
        value == 0,
        "when every list looks more at its larger value, the count should be 0. The last token, b, asks, and it "
        f"chooses between s10[b, a] and s11[b, b]; yours found {value:g}.",
    )
    blind = number(answer(values.expand(6, 6), torch.diag(values - 100)))
    demand(
        blind == 15,
        "when position 0 always wins, the 15 lists with a < b are in the wrong order, though each of the two tables "
        f"rises with the value; yours found {blind:g}.",
    )
    own = number(answer(values.expand(6, 6), torch.diag(values + 100)))
    demand(
        own == 15,
        f"when position 1 always wins, the 15 lists with a > b are in the wrong order; yours found {own:g}.",
    )
    level = -torch.ones(6, 6).tril(-1)  # equal to the last token's score, 0, where a > b, and below it where a < b
    demand(
        number(answer(level, torch.zeros(6, 6))) == 15,
        "when two scores are equal, the first is not larger: by the formula the 15 lists with a > b fail.",
    )
    for size in (2, 6, 7, 10):
        noise = random(size, size, seed=1), random(size, size, seed=2)
        found, right = number(answer(*noise)), _violations(noise[0], noise[1].diagonal()[:, None])
        demand(
            found == right,
            f"on two random tables of {size} values there are not {found:g} violations: s10[b, a] has b on its rows.",
        )


def _violations(first: Tensor, own: Tensor) -> Tensor:
    values = torch.arange(len(first))
    return (((first > own) != (values > values[:, None])) & (values != values[:, None])).sum()


def _each_alone(*tables: Tensor) -> Tensor | int:
    """Pairs out of order within each table."""
    a, b = torch.tril_indices(len(tables[0]), len(tables[0]), -1)
    return sum((table[:, a] <= table[:, b]).sum() for table in tables)


def _centring(s10: Tensor, s11: Tensor) -> Tensor:
    s10 -= s11.diagonal()[:, None]
    return _violations(s10, torch.zeros(len(s10), 1))


order_violations.mistakes = {
    "each plot tested alone": (_each_alone, "chooses between s10[b, a] and s11[b, b]"),
    "only the first plot": (lambda s10, s11: _each_alone(s10), "when position 0 always wins"),
    "all of s11": (_violations, "chooses between s10[b, a] and s11[b, b]"),
    "s11[a, a]": (lambda s10, s11: _violations(s10, s11.diagonal()), "chooses between s10[b, a] and s11[b, b]"),
    "axes flipped": (
        lambda s10, s11: _violations(s10.T, s11.diagonal()[:, None]),
        "chooses between s10[b, a] and s11[b, b]",
    ),
    "a = b counted": (lambda s10, s11: _violations(s10, s11.diagonal()[:, None]) + len(s10), "leave out a = b"),
    "right ones counted": (
        lambda s10, s11: len(s10) * (len(s10) - 1) - _violations(s10, s11.diagonal()[:, None]),
        "the count should be 0",
    ),
    "a share": (
        lambda s10, s11: _violations(s10, s11.diagonal()[:, None]) / len(s10) ** 2,
        "when position 0 always wins, the 15 lists",
    ),
    "only a > b": (
        lambda s10, s11: (s10 <= s11.diagonal()[:, None]).triu(1).sum(),
        "when position 0 always wins, the 15 lists",
    ),
    "only a < b": (
        lambda s10, s11: (s10 > s11.diagonal()[:, None]).tril(-1).sum(),
        "when position 1 always wins, the 15 lists",
    ),
    "only a < b, and the right ones": (
        lambda s10, s11: (s10 <= s11.diagonal()[:, None]).tril(-1).sum(),
        "the count should be 0",
    ),
    "equal scores count as larger": (
        lambda s10, s11: _violations(torch.nextafter(s10, s10 + 1), s11.diagonal()[:, None]),
        "when two scores are equal, the first is not larger",
    ),
    "the sign turned round": (lambda s10, s11: _violations(-s10, -s11.diagonal()[:, None]), "the count should be 0"),
    "one too many where there are any": (
        lambda s10, s11: (n := _violations(s10, s11.diagonal()[:, None])) + (n != 15) * (n > 0),
        "on two random tables",
    ),
    "six values": (
        lambda s10, s11: _violations(s10[:6, :6], s11.diagonal()[:6, None]),
        "on two random tables of 7 values",
    ),
    "s10 changed": (_centring, "it changes `s10`, which it was given"),
}


@exercise
def error_bound(answer: Answer) -> None:
    """`error_bound(n, confidence) → float`: the error rate that n right answers in a row still leave possible."""
    one = number(answer(1, 0.95))
    demand(0 <= one <= 1, f"a rate lies between 0 and 1; after one right answer yours is {one:g}.")
    demand(
        number(answer(100, 0.95)) < number(answer(10, 0.95)), "more right answers should leave less room for errors."
    )
    demand(
        number(answer(100, 0.99)) > number(answer(100, 0.9)),
        "to be more confident with the same sample, you must allow a higher rate.",
    )
    for n, confidence in ((2, 0.95), (20, 0.95), (300, 0.9), (50_000, 0.5)):
        left = (1 - number(answer(n, confidence))) ** n
        demand(
            math.isclose(left, 1 - confidence, rel_tol=1e-3),
            f"at your rate, {n} right answers in a row would have the probability {left:.3f}; it should be "
            f"{1 - confidence:.2f}.",
        )


error_bound.mistakes = {
    "rule of three": (lambda n, confidence: 3 / n, "after one right answer yours is 3"),
    "rule of three, at most 1": (lambda n, confidence: min(1, 3 / n), "you must allow a higher rate"),
    "the rule's logarithm": (
        lambda n, confidence: min(1, -math.log(1 - confidence) / n),
        "2 right answers in a row would have the probability 0.000",
    ),
    "confidence for its complement": (
        lambda n, confidence: 1 - confidence ** (1 / n),
        "you must allow a higher rate",
    ),
    "confidence ignored": (lambda n, confidence: 1 - 0.05 ** (1 / n), "you must allow a higher rate"),
    "the share of right ones": (lambda n, confidence: (1 - confidence) ** (1 / n), "more right answers should leave"),
    "none seen, so none": (lambda n, confidence: 0.0, "more right answers should leave"),
    "one error assumed": (lambda n, confidence: 1 / (n + 1), "you must allow a higher rate"),
    "no root": (lambda n, confidence: 1 - (1 - confidence) / n, "more right answers should leave"),
    "divided": (lambda n, confidence: confidence / n, "2 right answers in a row would have the probability 0.276"),
    "in per cent": (
        lambda n, confidence: 100 * (1 - (1 - confidence) ** (1 / n)),
        "after one right answer yours is 95",
    ),
}


@exercise
def votes(answer: Answer) -> None:
    """`votes(scores, say, direct) → [pos, value, out]`: what each value at each position adds to Z · logits."""
    scores, say, direct = random(3, 5), random(3, 5, 4, seed=1), random(4, seed=2)
    means = "[position, value, output]"
    result = tensor(answer(scores, say, direct), (3, 5, 4), means)
    changed = scores.clone()
    changed[1, 2] += 1
    difference = (tensor(answer(changed, say, direct), (3, 5, 4), means) - result).abs().sum(-1)
    demand(difference[1, 2] > 0, "raising one score leaves its vote as it was.")
    difference[1, 2] = 0
    demand(
        close(difference, torch.zeros(3, 5)),
        "one score should change one vote and no other: the softmax's denominator Z has no place here.",
    )
    demand(
        close(tensor(answer(changed, say, direct), (3, 5, 4), means)[1, 2], math.e * result[1, 2]),
        "a score that is higher by 1 should make the whole vote e times as heavy, the direct path's share included.",
    )
    for positions, values, outputs in ((3, 5, 4), (2, 7, 6)):
        scores, say, direct = random(positions, values), random(positions, values, outputs, seed=1), random(outputs)
        result = tensor(answer(scores, say, direct), (positions, values, outputs), means)
        places = torch.arange(positions)
        for first in range(values):
            chosen = (places + first) % values  # a list: the value at each position
            weights = scores[places, chosen].exp()
            logits = weights / weights.sum() @ say[places, chosen] + direct
            demand(
                close(result[places, chosen].sum(0) / weights.sum(), logits),
                "the votes of a list, added up and divided by Z, should be its logits: attention · say, plus direct.",
            )


def _bag(score: Tensor, say: Tensor, direct: Tensor | float) -> Tensor:
    return score.exp()[..., None] * (say + direct)


def _adding_direct(score: Tensor, say: Tensor, direct: Tensor) -> Tensor:
    say += direct
    return score.exp()[..., None] * say


def _over_everything(score: Tensor, say: Tensor, direct: Tensor) -> Tensor:
    return score.flatten().softmax(0).view(*score.shape, 1) * (say + direct)


votes.mistakes = {
    "the direct path forgotten": (lambda s, say, direct: _bag(s, say, 0), "attention · say, plus direct"),
    "the direct path unweighted": (lambda s, say, direct: _bag(s, say, 0) + direct, "the direct path's share included"),
    "no exponential": (lambda s, say, direct: s[..., None] * (say + direct), "make the whole vote e times as heavy"),
    "softmax over positions": (lambda s, say, direct: s.softmax(0)[..., None] * (say + direct), "Z has no place here"),
    "softmax over values": (lambda s, say, direct: s.softmax(1)[..., None] * (say + direct), "Z has no place here"),
    "softmax over everything": (_over_everything, "Z has no place here"),
    "unweighted": (lambda s, say, direct: say + direct, "raising one score leaves its vote"),
    "added": (lambda s, say, direct: s.exp()[..., None] + say + direct, "make the whole vote e times as heavy"),
    "the direct path shared out": (
        lambda s, say, direct: _bag(s, say, direct / len(s)),
        "attention · say, plus direct",
    ),
    "base 2": (lambda s, say, direct: 2 ** s[..., None] * (say + direct), "make the whole vote e times as heavy"),
    "say changed": (_adding_direct, "it changes `say`, which it was given"),
}


@exercise
def worst_lead(answer: Answer) -> None:
    """`worst_lead(lead, largest) → float`: the least total lead of a list whose largest value is `largest`."""
    lead = torch.tensor([[1.0, -3, 4, -50], [2, -1, 8, -50]])
    value = number(answer(lead, 2))
    demand(value > -40, "values above `largest` can't stand in the list.")
    demand(value != -4, "a list of ones does not have the largest value 2: at least one value must be `largest`.")
    demand(value != 12, "only one value must be `largest`; the others may be smaller, and do more harm.")
    demand(value != 5, "the largest value may stand at any position: the worst one counts.")
    demand(value == 3, f"the worst list here has the values 2 and 1, with a lead of 4 − 1 = 3; yours has {value:g}.")
    demand(number(answer(lead, 0)) == 3, "when the largest value is 0, all values are 0.")
    for positions, values in ((4, 6), (1, 5), (3, 7)):
        lead = random(positions, values, seed=positions)
        lists = torch.cartesian_prod(*[torch.arange(values)] * positions).view(-1, positions)
        totals = lead[torch.arange(positions), lists].sum(1)
        for largest in range(values):
            expected = totals[lists.amax(1) == largest].min().item()
            demand(
                close(number(answer(lead, largest)), expected),
                f"on random leads, {positions} × {values}, there is a worse list with the largest value {largest}, "
                "or none so bad.",
            )


def _free(lead: Tensor, largest: int) -> Tensor:
    return lead[:, : largest + 1].amin(1)


def _swapped_in(lead: Tensor, largest: int, place: int) -> Tensor:
    least = _free(lead, largest)
    return least.sum() - least[place] + lead[place, largest]


def _hiding_larger(lead: Tensor, largest: int) -> Tensor:
    lead[:, largest + 1 :] = float("inf")
    least = lead.amin(1)
    return (least.sum() - least + lead[:, largest]).min()


worst_lead.mistakes = {
    "nothing must be the largest": (lambda lead, largest: _free(lead, largest).sum(), "at least one value must be"),
    "all are the largest": (lambda lead, largest: lead[:, largest].sum(), "only one value must be `largest`"),
    "values above the largest": (
        lambda lead, largest: (least := lead.amin(1)).sum() + (lead[:, largest] - least).min(),
        "values above `largest` can't stand",
    ),
    "the first is the largest": (
        lambda lead, largest: _swapped_in(lead, largest, 0),
        "on random leads, 4 × 6, there is a worse list",
    ),
    "the last is the largest": (
        lambda lead, largest: _swapped_in(lead, largest, -1),
        "the largest value may stand at any position",
    ),
    "the best": (lambda lead, largest: lead[:, : largest + 1].amax(1).sum(), "only one value must be `largest`"),
    "one position only": (lambda lead, largest: lead[:, largest].min(), "yours has 4"),
    "the mildest place": (
        lambda lead, largest: max(_swapped_in(lead, largest, p) for p in range(len(lead))),
        "the largest value may stand at any position",
    ),
    "below the largest": (
        lambda lead, largest: lead[:, : max(largest, 1)].amin(1).sum(),
        "at least one value must be `largest`",
    ),
    "one per position": (_free, "it should return one number"),
    "lead changed": (_hiding_larger, "it changes `lead`, which it was given"),
}
