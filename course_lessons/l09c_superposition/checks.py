"""Checks of lesson 09c, superposition: each exercise, and what each typical mistake is told."""

import functools
import math

import numpy as np
import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_lessons.l09c_superposition import neurons
from course_utils import models, text
from course_utils.course import solutions
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.expectations import close, converted, demand

_without = solutions.answer("without_direction")


@judged
def polygon(answer: Answer) -> None:
    """`polygon(n) → W [n, 2], b [n]`: any feature that is active alone is read back exactly.

    No other feature is read then.
    """
    for n in (5, 3, 4, 8, 13):
        likes = torch.zeros(n, 2), torch.zeros(n)
        W, b = converted(
            answer(n), likes, ("the directions [feature, dimension]", "one bias for each feature")
        )
        said = (W @ W.T + b).relu()
        apart = torch.nn.functional.normalize(W, dim=1)
        furthest = (apart @ apart.T - 2 * torch.eye(n)).max() < math.cos(2 * math.pi / n) + 1e-3
        of_length_1 = close((W @ W.T).diag(), torch.ones(n)) and close(b, torch.zeros(n))
        holds = {
            "all directions are 0: nothing gets through the two dimensions.": W.norm(dim=1).any(),
            "five directions should stand as far apart as they can: "
            "a fifth of a turn from one to the next.": (n != 5 or furthest),
            "with directions of length 1 and no bias a "
            "feature also contributes something to its neighbours.": (n != 5 or not of_length_1),
            f"with {n} features, one that is active should come back as 1, "
            f"and comes as {said.diag().mean():.2f}: "
            "make the directions longer or shorter, and the bias with them.": close(
                said.diag(), torch.ones(n)
            ),
            f"with {n} features, one that is active also brings others with it: "
            "they need a lower bias.": close(said, said.diag().diag()),
        }
        for otherwise, is_so in holds.items():
            demand(is_so, otherwise)


without_direction = compared(
    "`without_direction(hidden, direction) → hidden`: "
    "the part along the direction taken out of each row.",
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
        "subtract from each row what it has along the direction, not all of it.": lambda h, d: (
            h - d
        ),
    },
    explain=lambda got, right, h, d: (
        None
        if close(got @ d, 0 * h[:, 0])
        else "something is left along the direction: the product should be 0."
    ),
)


@functools.cache
def _neuron() -> tuple[list[str], Tensor]:
    """The first half of the held-out code, and how neuron 49 fires in it, of its largest."""
    model, tokens = models.load("one-layer-mlp"), text.held_out_tokens("code")
    fires = model.run_with_cache(tokens)[1]["post", 0][:, 1:, 49].flatten()
    words = [str(token) for token in model.to_str_tokens(tokens[:, 1:].flatten())]
    half = len(words) // 2
    return words[:half], (fires / fires.max())[:half]


@judged
def about(answer: Answer) -> None:
    """`about(tokens) → list of bool`: where the neuron should fire strongly.

    Any rule that it follows well is right.
    """
    words, fires = _neuron()
    said = converted(answer(words.copy()), [], "a list with one True or False for each token")
    demand(
        len(said) == len(words),
        f"{len(words)} tokens need as many verdicts, and there are {len(said)}.",
    )
    odd = [one for one in said if not isinstance(one, bool | int | np.bool_ | Tensor)]
    demand(
        not odd,
        f"each verdict should be True or False, and one is {odd[:1]}: bool(…) makes one of it.",
    )
    verdict = torch.tensor([bool(one) for one in said])
    demand(
        verdict.any(),
        "your rule names no place: tokens look like ' def' and '__(', with their space or bracket.",
    )
    demand(not verdict.all(), "by this rule the neuron always fires.")
    precision, recall = neurons.judged(fires > 0.5, verdict)
    least = int(fires.where(verdict, torch.inf).argmin())  # the place where the rule fails most
    around = "".join(map(text.visible, words[max(0, least - 6) : least + 1]))
    demand(
        precision >= 0.8,
        f"at {precision:.0%} of the places that your rule names the neuron fires strongly, and not "
        f"at the end of `{around}`; a rule that says less should reach 80 %.",
    )
    demand(
        recall >= 0.5,
        f"your rule names {recall:.0%} of the places where the neuron fires strongly; "
        "a wider one should reach 50 %.",
    )
