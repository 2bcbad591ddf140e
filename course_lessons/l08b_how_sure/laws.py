"""When the jump comes in runs of several sizes, and the exponent of size that fits best."""

import torch

from course_lessons.formation import experiments
from course_lessons.formation.events import exponent
from course_utils._arguments import validated

Points = list[tuple[float, float]]  # (size, step of half the gain)


@validated
def by_size(results: experiments.Results, what: str) -> tuple[Points, Points]:
    """A point for each run, and a point for each size: the geometric mean of its runs.

    `what` is "context" or "batch". Runs that make no jump are left out: `experiments.sized`.
    """
    runs = [(float(size), step) for size, step in experiments.sized(results, what)[0]]
    means = []
    for size in sorted({size for size, _ in runs}):
        logs = torch.tensor([step for n, step in runs if n == size]).log()
        means.append((size, float(logs.mean().exp())))
    return runs, means


@validated
def fitted(points: Points) -> tuple[float, float]:
    """The exponent k of steps ∝ sizeᵏ that fits some points best, and its standard error."""
    return exponent(*zip(*points, strict=True))
