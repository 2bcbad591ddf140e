"""Checks of lesson 06b, what a path is worth: each exercise, and what each mistake is told."""

import torch
from torch.nn.functional import normalize

from course_lessons.fixtures import random
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.expectations import close, demand, tensor

DOORS = ("Q", "K", "V")


def _moving_cases() -> dict[str, tuple]:
    x, one, nothing, here = random(6, 5), torch.eye(5), torch.zeros(5, 5), torch.eye(6)
    OV_w, OV_r = random(5, 5, seed=1), random(5, 5, seed=2)
    before = here[[0, 0, 1, 2, 3, 4]]  # looks at the token before
    back = here[[0, 0, 1, 1, 1, 3]]  # looks back by another number of steps at each position
    empty = "writes nothing, a virtual head has nothing to move, but here something arrives."
    left = "should be left: rows times matrix."
    cases = {
        f"when the earlier head {empty}": (x, before, nothing, back, one),
        f"when the later head {empty}": (x, before, one, back, nothing),
        f"{PATH}.": (x, before, one, back, one),
        f"if nothing moves and OV_r changes nothing, x OV_w {left}": (x, here, OV_w, here, one),
        f"if nothing moves and OV_w changes nothing, x OV_r {left}": (x, here, one, here, OV_r),
        "if nothing is moved, the two circuits should act one after the other on x.": (
            x,
            here,
            OV_w,
            here,
            OV_r,
        ),
    }
    for n, d in ((6, 5), (4, 7), (1, 3)):
        sizes = f"({n} positions, d_model {d}): every source counts, by its weight."
        # causal patterns
        A_w, A_r = (normalize(random(n, n, seed=seed).exp().tril(), p=1) for seed in (3, 4))
        given = (random(n, d), A_w, random(d, d, seed=1), A_r, random(d, d, seed=2))
        cases[f"where heads attend to several positions, the numbers are wrong {sizes}"] = given
    return cases


PATH = (
    "the later head looks from position 5 to 3, the earlier one from 3 to 2: "
    "what stood at 2 should arrive at 5"
)
ONE_ROW = "one position gets what it should, others do not: go on row by row."
virtual_head = compared(
    "`virtual_head(x, A_w, OV_w, A_r, OV_r) → [pos, d_model]`: what a head of a head moves.",
    returns="[pos, d_model]",
    cases=_moving_cases,
    mistakes={
        "in row form the circuit that acts first stands next to x.": lambda x, A, V, B, W: (
            B @ A @ x @ W @ V
        ),
        f"{PATH}; yours goes through the earlier pattern first.": (
            lambda x, A, V, B, W: A @ B @ x @ V @ W,
            lambda x, A, V, B, W: A @ B @ x @ W @ V,
        ),
        f"{PATH}; yours leaves out the earlier pattern.": lambda x, A, V, B, W: B @ x @ V @ W,
        f"{PATH}; yours leaves out the later pattern.": lambda x, A, V, B, W: A @ x @ V @ W,
        f"{PATH}; a pattern has the destination on its rows, and seems transposed in yours.": (
            lambda x, A, V, B, W: B.T @ A.T @ x @ V @ W,
            lambda x, A, V, B, W: (B @ A).T @ x @ V @ W,
        ),
    },
    explain=lambda got, right, *given: ONE_ROW if close(got[-1], right[-1]) else None,
)


@judged
def one_door(answer: Answer) -> None:
    """`one_door(W_O, door) → (W_Q, W_K, W_V)`: the earlier head is read through one door only.

    Any that do so are right.
    """
    for d_head, d_model, seed in ((3, 10, 0), (2, 9, 5), (1, 4, 8)):
        written = random(d_head, d_model, seed=seed)
        for door in DOORS:
            weights = answer(written, door)
            is_three = isinstance(weights, tuple | list) and len(weights) == 3
            demand(is_three, "it should return three matrices: W_Q, W_K and W_V.")
            for name, W in zip(DOORS, weights, strict=True):
                W = tensor(W, (d_model, d_head), f"W_{name} is [d_model, d_head]")
                share = (written @ W).norm() / (written.norm() * W.norm())
                beyond = W - torch.linalg.pinv(written) @ written @ W
                rank = torch.linalg.matrix_rank(W, rtol=1e-3)
                is_door = name == door
                for sentence, is_so in {
                    f"W_{name} has less than rank {d_head}: its columns should be independent, "
                    "so that no part of the head is idle.": rank < d_head,
                    f"W_{name} should read nothing of what the earlier head writes, "
                    f"but W_O @ W_{name} is not 0: take what lies along "
                    "the rows of W_O out of its columns, all of it.": not is_door and share >= 1e-3,
                    f"W_{name} reads nothing of what the earlier head writes, "
                    "and should read it all.": is_door and close(W, beyond),
                    f"W_{name} also reads directions that the earlier head does not write: "
                    "build its columns from the rows of W_O.": is_door
                    and beyond.norm() >= 1e-3 * W.norm(),
                }.items():
                    demand(not is_so, f"door {door!r}: {sentence}")
