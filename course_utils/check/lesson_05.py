"""Checks of lesson 05, max of a list."""

import math
from collections.abc import Callable

import torch

from course_utils import models
from course_utils.check.tools import close, demand, exercise, number, random, tensor

TINY = {"n_layers": 1, "d_model": 6, "n_heads": 1, "d_head": 4, "n_ctx": 5, "d_vocab": 7, "attn_only": True}
TINY |= {"normalization_type": None, "positional_embedding_type": "standard", "seed": 0}


@exercise
def qk_scores(answer: Callable) -> None:
    """`qk_scores(model, q_pos, k_pos) → [query value, key value]`: scores before the softmax, with positions."""
    model = models.initial(TINY).requires_grad_(False)
    for seed, weight in enumerate((model.W_E, model.W_pos, model.W_Q, model.W_K)):
        weight.data = random(*weight.shape, seed=seed)
    means = "[value at q_pos, value at k_pos]"
    result = tensor(answer(model, 3, 1), (7, 7), means)
    demand(not close(result.sum(1), torch.ones(7)), "these are probabilities; scores come before the softmax.")
    demand(not close(tensor(answer(model, 3, 2), (7, 7), means), result), "another k_pos should give other scores.")
    demand(not close(tensor(answer(model, 4, 1), (7, 7), means), result), "another q_pos should give other scores.")
    _, cache = model.run_with_cache(torch.tensor([[0, 2, 6, 5, 4]]))
    seen = cache["attn_scores", 0][0, 0, 3, 1].item()  # value 5 at position 3 looks at value 2 at position 1
    demand(
        close(seen, result[5, 2]) or not close(seen, result[2, 5]),
        "rows and columns are swapped: the query, which looks, belongs on the rows.",
    )
    demand(
        close(seen, result[5, 2]) or not close(seen, result[5, 2] / 2),
        "the scores are too large by a factor √d_head, by which TransformerLens divides them.",
    )
    demand(
        close(seen, result[5, 2]),
        f"the model gives value 2 at position 1 a score of {seen:.2f} when value 5 at position 3 looks at it; "
        f"yours is {result[5, 2]:.2f}.",
    )
    expected = (model.W_E + model.W_pos[3]) @ model.W_Q[0, 0] @ model.W_K[0, 0].T @ (model.W_E + model.W_pos[1]).T / 2
    demand(close(result, expected), "one entry is the model's score, and others are not.")


@exercise
def order_violations(answer: Callable) -> None:
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
    noise = random(6, 6, seed=1), random(6, 6, seed=2)
    first, own = noise[0], noise[1].diagonal()[:, None]
    wrong = ((first > own) != (values > values[:, None])) & (values != values[:, None])
    found = number(answer(*noise))
    demand(
        found == wrong.sum(), f"on two random tables there are not {found:g} violations: s10[b, a] has b on its rows."
    )


@exercise
def error_bound(answer: Callable) -> None:
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
    for n, confidence in ((1, 0.95), (20, 0.95), (300, 0.9)):
        left = (1 - number(answer(n, confidence))) ** n
        demand(
            math.isclose(left, 1 - confidence, rel_tol=1e-3),
            f"at your rate, {n} right answers in a row would have the probability {left:.3f}; it should be "
            f"{1 - confidence:.2f}.",
        )


@exercise
def votes(answer: Callable) -> None:
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
    chosen = torch.tensor([4, 0, 2])
    places = torch.arange(3)
    weights = scores[places, chosen].exp()
    logits = weights / weights.sum() @ say[places, chosen] + direct
    demand(
        close(result[places, chosen].sum(0) / weights.sum(), logits),
        "the votes of a list, added up and divided by Z, should be its logits: attention times say, plus direct.",
    )


@exercise
def worst_lead(answer: Callable) -> None:
    """`worst_lead(lead, largest) → float`: the least total lead of a list whose largest value is `largest`."""
    lead = torch.tensor([[1.0, -3, 4, -50], [2, -1, 7, -50]])
    value = number(answer(lead, 2))
    demand(value > -90, "values above `largest` can't stand in the list.")
    demand(value != -4, "a list of ones does not have the largest value 2: at least one value must be `largest`.")
    demand(value != 11, "only one value must be `largest`; the others may be smaller, and do more harm.")
    demand(value != 6, "the largest value may stand at any position: the worst one counts.")
    demand(value == 3, f"the worst list here has the values 2 and 1, with a lead of 4 − 1 = 3; yours has {value:g}.")
    demand(number(answer(lead, 0)) == 3, "when the largest value is 0, all values are 0.")
    lead = random(4, 6)
    lists = torch.cartesian_prod(*[torch.arange(6)] * 4)
    totals = lead[torch.arange(4), lists].sum(1)
    for largest in range(6):
        expected = totals[lists.amax(1) == largest].min()
        demand(
            close(number(answer(lead, largest)), expected),
            f"on random leads for 4 positions there is a worse list, or none so bad, with the largest value {largest}.",
        )
