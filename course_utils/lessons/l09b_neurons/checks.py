"""Checks of lesson 09b, neurons: each exercise, then its typical mistakes with the sentence each must get."""

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_utils import models, text
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import random
from course_utils.course.questions import close, demand, number, pair, tensor
from course_utils.making import fourier


@exercise
def only_waves(answer: Answer) -> None:
    """`only_waves(table, frequencies) → table`: waves of the sum a + b at these frequencies, and a constant."""
    for n, frequencies in ((7, [2]), (11, [1, 4, 5]), (5, [1, 2])):
        table = random(n, n, n, seed=n)
        found = tensor(answer(table, frequencies), (n, n, n), "[a, b, answer]")
        sums = (torch.arange(n)[:, None] + torch.arange(n)) % n
        means = torch.stack([table[sums == total].mean(0) for total in range(n)])
        right = fourier.projected(means, frequencies)[sums]
        apart = (torch.arange(n)[:, None] - torch.arange(n)) % n
        demand(not close(found, table), "the table came back as it was.")
        demand(not close(found, table - right), "this is what is left without the waves: return the waves.")
        demand(
            not close(found, means[sums]) or len(frequencies) == 2,
            "these are the means by sum; of them only the waves at `frequencies` should stay.",
        )
        demand(
            not close(found, right - right.mean((0, 1))),
            "the constant of each answer is missing: keep it.",
        )
        by_difference = torch.stack([table[apart == d].mean(0) for d in range(n)])
        demand(
            not close(found, fourier.projected(by_difference, frequencies)[apart]),
            "these are waves of a − b; they should be waves of the sum.",
        )
        first, second = found[sums == 1].amax(0), found[sums == 1].amin(0)
        demand(
            close(first, second),
            f"pairs with the same sum modulo {n}, the size of the table, should get the same logits.",
        )
        summed = torch.stack([table[sums == total].sum(0) for total in range(n)])
        demand(
            not close(found, fourier.projected(summed, frequencies)[sums]),
            "these are waves of the sums over the pairs with the same a + b: take their mean.",
        )
        demand(
            close(found, right) or not close(found, fourier.projected(means.T, frequencies).T[sums]),
            "these are waves along the answers; they should be waves along the sums: one column for each answer.",
        )
        demand(close(found, right), f"with {n} numbers and the frequencies {frequencies} the waves are not those.")


def _waves(table: Tensor, frequencies: Sequence[int], sign: int = 1, reduce: Callable = torch.mean) -> Tensor:
    n = len(table)
    sums = (torch.arange(n)[:, None] + sign * torch.arange(n)) % n
    means = torch.stack([reduce(table[sums == total], 0) for total in range(n)])
    return fourier.projected(means, frequencies)[sums]


def _means(table: Tensor) -> Tensor:
    n = len(table)
    sums = (torch.arange(n)[:, None] + torch.arange(n)) % n
    return torch.stack([table[sums == total].mean(0) for total in range(n)])[sums]


def _along_answers(table: Tensor, frequencies: Sequence[int]) -> Tensor:
    return torch.stack([fourier.projected(rows.T, frequencies).T for rows in _means(table)])


only_waves.mistakes = {
    "as it was": (lambda table, f: table, "the table came back as it was"),
    "without the waves": (lambda table, f: table - _waves(table, f), "this is what is left without the waves"),
    "means by sum": (lambda table, f: _means(table), "these are the means by sum"),
    "waves of the difference": (lambda table, f: _waves(table, f, -1), "these are waves of a − b"),
    "no constant": (
        lambda table, f: _waves(table, f) - _waves(table, f).mean((0, 1)),
        "the constant of each answer is missing",
    ),
    "waves of the first operand": (
        lambda table, f: fourier.projected(table.flatten(1), f).view_as(table),
        "pairs with the same sum modulo 7",
    ),
    "summed": (lambda table, f: _waves(table, f, 1, torch.sum), "take their mean"),
    "along the answers": (lambda table, f: _along_answers(table, f), "these are waves along the answers"),
    "the first frequency": (lambda table, f: _waves(table, f[:1]), "with 11 numbers"),
    "53 built in": (
        lambda table, f: table[(torch.arange(len(table))[:, None] + torch.arange(len(table))) % 53 % len(table), 0],
        "the waves are not those",
    ),
    "one row for each sum": (
        lambda table, f: fourier.projected(_means(table)[:, 0], f),
        "the result has shape [7, 7]",
    ),
}


@exercise
def polygon(answer: Answer) -> None:
    """`polygon(n) → W [n, 2], b [n]`: any feature that is on alone is read back exactly, and no other."""
    for n in (5, 3, 4, 8, 13):
        W, b = pair(answer(n), "the directions and the biases")
        W, b = tensor(W, (n, 2), "[feature, dimension]"), tensor(b, (n,), "one bias for each feature")
        before, said = W @ W.T + b, (W @ W.T + b).relu()
        others = said - said.diag().diag()
        if n == 5:
            demand(
                not close(W.norm(dim=1), torch.zeros(n)),
                "all directions are 0: nothing gets through the two dimensions.",
            )
            apart = torch.nn.functional.normalize(W, dim=1)
            nearest = (apart @ apart.T - 2 * torch.eye(n)).amax(1)
            demand(
                nearest.max() < math.cos(2 * math.pi / n) + 1e-3,
                "five directions should stand as far apart as they can: a fifth of a turn from one to the next.",
            )
            demand(
                not close(before.diag() - b, torch.ones(n)) or not close(b, torch.zeros(n)),
                "with directions of length 1 and no bias a feature also says something about its neighbours.",
            )
        name = f"with {n} features"
        demand(
            close(said.diag(), torch.ones(n)),
            f"{name}, one that is on should come back as 1, and comes as "
            f"{said.diag().mean():.2f}: make the directions longer or shorter, and the bias with them.",
        )
        demand(
            close(others, torch.zeros(n, n)), f"{name}, one that is on also makes others speak: they need a lower bias."
        )


def _polygon(n: int, gain: float | None = None, bias: float | None = None, turn: float = 1) -> tuple[Tensor, Tensor]:
    angle = 2 * math.pi * turn * torch.arange(n) / n
    gain = gain or 1 / (1 - math.cos(2 * math.pi / n))
    W = gain**0.5 * torch.stack([angle.cos(), angle.sin()], 1)
    return W, torch.full((n,), 1 - gain if bias is None else bias)


polygon.mistakes = {
    "no bias": (lambda n: _polygon(n, 1.0, 0.0), "with directions of length 1 and no bias"),
    "length 1, neighbours silenced": (
        lambda n: _polygon(n, 1.0, -math.cos(2 * math.pi / n)),
        "one that is on should come back as 1",
    ),
    "the gain as a length": (
        lambda n: (_polygon(n)[0] / (1 - math.cos(2 * math.pi / n)) ** 0.5, _polygon(n)[1]),
        "comes as 1.65",
    ),
    "half a turn": (lambda n: _polygon(n, turn=0.5), "as far apart as they can"),
    "a pentagon for every n": (
        lambda n: _polygon(n, 1 / (1 - math.cos(2 * math.pi / 5))),
        "one that is on also makes others speak",
    ),
    "an axis each for two": (
        lambda n: (torch.eye(2)[torch.arange(n) % 2], torch.zeros(n)),
        "as far apart as they can",
    ),
    "nothing": (lambda n: (torch.zeros(n, 2), torch.zeros(n)), "all directions are 0"),
    "transposed": (lambda n: (_polygon(n)[0].T, _polygon(n)[1]), "the result has shape [2, 5]"),
    "one bias": (lambda n: (_polygon(n)[0], _polygon(n)[1][:1]), "the result has shape [1]"),
    "the directions alone": (lambda n: _polygon(n)[0], "it should return two things"),
}


@exercise
def pair_error(answer: Answer) -> None:
    """`pair_error(W, b, i, j) → float`: the squared error when features i and j are on and no other is."""
    for n, m, i, j in ((5, 2, 0, 1), (5, 2, 3, 1), (7, 3, 6, 2)):
        W, b = random(n, m, seed=i), 0.3 * random(n, seed=j)
        found, right = number(answer(W, b, i, j)), _pair_error(W, b, i, j)
        x = torch.zeros(n)
        x[[i, j]] = 1
        demand(
            not close(found, ((x - (x @ W @ W.T + b)) ** 2).sum()),
            "the ReLU is missing: what is read is never below 0.",
        )
        demand(not close(found, ((x - (x @ W @ W.T).relu()) ** 2).sum()), "the bias is missing.")
        demand(not close(found, right / n), "this is the mean over the features; the error is the sum.")
        demand(
            not close(found, _only(W, b, i, j, [i, j])),
            "features that are off count too: what is read of them should be 0.",
        )
        demand(
            close(found, right), f"with features {i} and {j} of {n} on, this is not the sum of (x − relu(x W Wᵀ + b))²."
        )


def _pair_error(W: Tensor, b: Tensor, i: int, j: int) -> float:
    return _only(W, b, i, j, list(range(len(W))))


def _only(W: Tensor, b: Tensor, i: int, j: int, counted: list[int]) -> float:
    x = torch.zeros(len(W))
    x[[i, j]] = 1
    return (((x - (x @ W @ W.T + b).relu()) ** 2)[counted]).sum().item()


pair_error.mistakes = {
    "without the ReLU": (
        lambda W, b, i, j: ((torch.eye(len(W))[[i, j]].sum(0) - ((W[i] + W[j]) @ W.T + b)) ** 2).sum(),
        "the ReLU is missing",
    ),
    "without the bias": (lambda W, b, i, j: _pair_error(W, 0 * b, i, j), "the bias is missing"),
    "the mean": (lambda W, b, i, j: _pair_error(W, b, i, j) / len(W), "the error is the sum"),
    "the two alone": (lambda W, b, i, j: _only(W, b, i, j, [i, j]), "features that are off count too"),
    "not squared": (
        lambda W, b, i, j: (torch.eye(len(W))[[i, j]].sum(0) - ((W[i] + W[j]) @ W.T + b).relu()).abs().sum(),
        "this is not the sum",
    ),
    "one of them": (lambda W, b, i, j: _pair_error(W, b, i, i), "this is not the sum"),
    "each alone": (
        lambda W, b, i, j: _pair_error(W, b, i, i) + _pair_error(W, b, j, j),
        "this is not the sum",
    ),
    "what is read": (lambda W, b, i, j: ((W[i] + W[j]) @ W.T + b).relu(), "it should return one number"),
}


@exercise
def without_direction(answer: Answer) -> None:
    """`without_direction(hidden, direction) → hidden`: the part along the direction taken out of each row."""
    for rows, m, seed in ((6, 2, 0), (4, 5, 1), (1, 3, 2)):
        hidden, direction = random(rows, m, seed=seed), 1.7 * random(m, seed=seed + 9)
        found = tensor(answer(hidden, direction), (rows, m), "that of `hidden`")
        unit = direction / direction.norm()
        right = hidden - torch.outer(hidden @ unit, unit)
        demand(not close(found, torch.outer(hidden @ unit, unit)), "this is the part along the direction: take it out.")
        demand(
            not close(found, hidden - torch.outer(hidden @ direction, direction)),
            "the direction's length should not matter: divide it by its norm first.",
        )
        demand(
            not close(found, hidden - direction),
            "subtract from each row what it has along the direction, not all of it.",
        )
        demand(
            close(found @ unit, torch.zeros(rows)), "something is left along the direction: the product should be 0."
        )
        demand(close(found, right), "what is across the direction should stay as it was.")


def _out(hidden: Tensor, direction: Tensor, norm: float | None = None) -> Tensor:
    unit = direction / (norm or direction.norm())
    return hidden - torch.outer(hidden @ unit, unit)


without_direction.mistakes = {
    "not normalised": (lambda h, d: _out(h, d, 1.0), "the direction's length should not matter"),
    "the part itself": (lambda h, d: h - _out(h, d), "this is the part along the direction"),
    "subtracted": (lambda h, d: h - d, "not all of it"),
    "everything 0": (lambda h, d: 0 * h, "what is across the direction should stay"),
    "the largest coordinate": (
        lambda h, d: h * (torch.arange(h.shape[1]) != d.abs().argmax()),
        "something is left along the direction",
    ),
    "reflected": (lambda h, d: h - 2 * (h - _out(h, d)), "something is left along the direction"),
    "one number a row": (lambda h, d: h @ d, "the result has shape [6]"),
}


@functools.cache
def _neuron() -> tuple[list[str], Tensor]:
    """The first half of the held-out code, and where neuron 49 fires strongly in it."""
    model, tokens = models.load("one-layer-mlp"), text.held_out_tokens("code")
    fires = model.run_with_cache(tokens)[1]["post", 0][:, 1:, 49].flatten()
    words = [str(token) for token in model.to_str_tokens(tokens[:, 1:].flatten())]
    half = len(words) // 2
    return words[:half], (fires > fires.max() / 2)[:half]


@exercise
def about(answer: Answer) -> None:
    """`about(tokens) → list of bool`: where the neuron should fire strongly, by your rule."""
    words, strongly = _neuron()
    said = answer(words)
    demand(hasattr(said, "__len__"), "return a list with one True or False for each token.")
    demand(len(said) == len(words), f"{len(words)} tokens need as many verdicts, and there are {len(said)}.")
    odd = [one for one in said if not isinstance(one, bool | int | Tensor)]
    demand(not odd, f"each verdict should be True or False, and one is {odd[:1]}: bool(…) makes one of it.")
    verdict = torch.tensor([bool(one) for one in said])
    demand(verdict.any(), "by this rule the neuron never fires.")
    demand(not verdict.all(), "by this rule the neuron always fires.")
    hits = (verdict & strongly).sum().item()
    precision, recall = hits / verdict.sum().item(), hits / strongly.sum().item()
    demand(
        precision >= 0.7,
        f"at {precision:.0%} of the places that your rule names the neuron fires strongly; a rule that says less "
        "should reach 70 %.",
    )
    demand(
        recall >= 0.4,
        f"your rule names {recall:.0%} of the places where the neuron fires strongly; a wider one should reach 40 %.",
    )


about.mistakes = {
    "never": (lambda tokens: [False] * len(tokens), "the neuron never fires"),
    "always": (lambda tokens: [True] * len(tokens), "the neuron always fires"),
    "every def": (lambda tokens: [token.strip() == "def" for token in tokens], "a rule that says less"),
    "every bracket": (lambda tokens: ["(" in token for token in tokens], "a rule that says less"),
    "every self": (lambda tokens: [token == "self" for token in tokens], "should reach 70 %"),
    "after __init__ alone": (
        lambda tokens: [t == "self" and tokens[i - 2 : i - 1] == ["init"] for i, t in enumerate(tokens)],
        "a wider one should reach",
    ),
    "one verdict": (lambda tokens: "self" in tokens, "return a list with one True or False"),
    "the places": (lambda tokens: [i for i, t in enumerate(tokens) if t == "self"], "tokens need as many verdicts"),
}
