"""Checks of lesson 09b, neurons: each exercise as data, with the sentence that each typical mistake gets."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from course_utils import models, text
from course_utils.course import ours
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.fixtures import random
from course_utils.course.questions import close, demand, read
from course_utils.lessons.l09b_neurons import neurons
from course_utils.making import fourier

_waves, _error, _without = ours.answer("only_waves"), ours.answer("pair_error"), ours.answer("without_direction")


def _all(table: Tensor) -> Tensor:
    return torch.ones(table.shape[:2], dtype=torch.bool)


def _means(table: Tensor, unseen: Tensor) -> Tensor:
    """The mean of each sum: what is left of a table with an odd size if all waves stay."""
    return _waves(table, list(range(1, len(table) // 2 + 1)), unseen)


def _unseen(n: int) -> Tensor:
    """Some two thirds of all pairs, with every sum among them."""
    return (random(n, n, seed=n) > -0.4) | (torch.arange(n) == 0)[:, None]


def _unlike_sums(
    got: Tensor, right: Tensor, table: Tensor, frequencies: Sequence[int], unseen: Tensor
) -> str | None:
    a = torch.arange(len(table))
    alike = got[a, 1 - a]
    says = f"pairs with the same sum modulo {len(table)}, the size of the table, should get the same logits."
    return None if close(alike.amax(0), alike.amin(0)) else says


only_waves = compared(
    "`only_waves(table, frequencies, unseen) → table`: waves of a + b at these frequencies, and a constant.",
    returns="[a, b, answer]",
    cases=lambda: {
        f"with {n} numbers and the frequencies {f} the waves are not those.": (random(n, n, n, seed=n), f, _unseen(n))
        for n, f in ((7, [2]), (11, [1, 4, 5]), (5, [1, 2]))
    },
    mistakes={
        "the table came back as it was.": lambda table, f, unseen: table,
        "this is what is left without the waves: return the waves.": lambda t, f, unseen: t - _waves(t, f, unseen),
        "these are the means by sum; of them only the waves at `frequencies` should stay.": (
            lambda table, f, unseen: _means(table, unseen)
        ),
        "the means are over all pairs: take those of the unseen ones, or pairs known by heart give them away.": (
            lambda table, f, unseen: _waves(table, f, _all(table))
        ),
        "the means are over the training pairs: take the others, `unseen`.": (
            lambda table, f, unseen: _waves(table, f, ~unseen | (torch.arange(len(table)) == 0)[:, None])
        ),
        "the constant of each answer is missing: keep it.": lambda table, f, unseen: (
            _waves(table, f, unseen) - _waves(table, [], unseen)
        ),
        "these are waves along the answers; they should be waves along the sums: one column for each answer.": (
            lambda table, f, unseen: fourier.projected(_means(table, unseen).flatten(0, 1).T, f).T.view_as(table)
        ),
    },
    explain=_unlike_sums,
)


@judged
def polygon(answer: Answer) -> None:
    """`polygon(n) → W [n, 2], b [n]`: any feature that is on alone is read back exactly, and no other."""
    for n in (5, 3, 4, 8, 13):
        likes = torch.zeros(n, 2), torch.zeros(n)
        W, b = read(answer(n), likes, ("the directions [feature, dimension]", "one bias for each feature"))
        said = (W @ W.T + b).relu()
        apart = torch.nn.functional.normalize(W, dim=1)
        furthest = (apart @ apart.T - 2 * torch.eye(n)).max() < math.cos(2 * math.pi / n) + 1e-3
        of_length_1 = close((W @ W.T).diag(), torch.ones(n)) and close(b, torch.zeros(n))
        holds = {
            "all directions are 0: nothing gets through the two dimensions.": W.norm(dim=1).any(),
            "five directions should stand as far apart as they can: a fifth of a turn from one to the next.": (
                n != 5 or furthest
            ),
            "with directions of length 1 and no bias a feature also says something about its neighbours.": (
                n != 5 or not of_length_1
            ),
            f"with {n} features, one that is on should come back as 1, and comes as {said.diag().mean():.2f}: make the "
            "directions longer or shorter, and the bias with them.": close(said.diag(), torch.ones(n)),
            f"with {n} features, one that is on also makes others speak: they need a lower bias.": (
                close(said, said.diag().diag())
            ),
        }
        for otherwise, is_so in holds.items():
            demand(is_so, otherwise)


pair_error = compared(
    "`pair_error(W, b, i, j) → float`: the squared error when features i and j are on and no other is.",
    cases=lambda: {
        f"with features {i} and {j} of {n} on, this is not the sum of (x − relu(x W Wᵀ + b))².": (
            *(random(n, m, seed=i), 0.3 * random(n, seed=j)),
            *(i, j),
        )
        for n, m, i, j in ((5, 2, 0, 1), (5, 2, 3, 1), (7, 3, 6, 2))
    },
    mistakes={
        "the ReLU is missing: what is read is never below 0.": lambda W, b, i, j: (
            (torch.eye(len(W))[[i, j]].sum(0) - ((W[i] + W[j]) @ W.T + b)) ** 2
        ).sum(),
        "the bias is missing.": lambda W, b, i, j: _error(W, 0 * b, i, j),
        "this is the mean over the features; the error is the sum.": lambda W, b, i, j: _error(W, b, i, j) / len(W),
        "features that are off count too: what is read of them should be 0.": lambda W, b, i, j: (
            (1 - ((W[i] + W[j]) @ W[[i, j]].T + b[[i, j]]).relu()) ** 2
        ).sum(),
    },
)


without_direction = compared(
    "`without_direction(hidden, direction) → hidden`: the part along the direction taken out of each row.",
    returns="that of `hidden`",
    cases=lambda: {
        "what is across the direction should stay as it was.": [
            (random(rows, m, seed=seed), 1.7 * random(m, seed=seed + 9))
            for rows, m, seed in ((6, 2, 0), (4, 5, 1), (1, 3, 2))
        ]
    },
    mistakes={
        "this is the part along the direction: take it out.": lambda h, d: h - _without(h, d),
        "the direction's length should not matter: divide it by its norm first.": lambda h, d: (
            h - torch.outer(h @ d, d)
        ),
        "subtract from each row what it has along the direction, not all of it.": lambda h, d: h - d,
    },
    explain=lambda got, right, h, d: (
        None if close(got @ d, 0 * h[:, 0]) else "something is left along the direction: the product should be 0."
    ),
)


@functools.cache
def _neuron() -> tuple[list[str], Tensor]:
    """The first half of the held-out code, and where neuron 49 fires strongly in it."""
    model, tokens = models.load("one-layer-mlp"), text.held_out_tokens("code")
    fires = model.run_with_cache(tokens)[1]["post", 0][:, 1:, 49].flatten()
    words = [str(token) for token in model.to_str_tokens(tokens[:, 1:].flatten())]
    half = len(words) // 2
    return words[:half], (fires > fires.max() / 2)[:half]


@judged
def about(answer: Answer) -> None:
    """`about(tokens) → list of bool`: where the neuron should fire strongly, by any rule that it follows well."""
    words, strongly = _neuron()
    said = read(answer(words.copy()), [], "a list with one True or False for each token")
    demand(len(said) == len(words), f"{len(words)} tokens need as many verdicts, and there are {len(said)}.")
    odd = [one for one in said if not isinstance(one, bool | int | np.bool_ | Tensor)]
    demand(not odd, f"each verdict should be True or False, and one is {odd[:1]}: bool(…) makes one of it.")
    verdict = torch.tensor([bool(one) for one in said])
    demand(verdict.any(), "by this rule the neuron never fires.")
    demand(not verdict.all(), "by this rule the neuron always fires.")
    precision, recall = neurons.judged(strongly, verdict)
    demand(
        precision >= 0.7,
        f"at {precision:.0%} of the places that your rule names the neuron fires strongly; a rule that says less "
        "should reach 70 %.",
    )
    demand(
        recall >= 0.4,
        f"your rule names {recall:.0%} of the places where the neuron fires strongly; a wider one should reach 40 %.",
    )
