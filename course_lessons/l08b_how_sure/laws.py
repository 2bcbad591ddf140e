"""Made-up laws, to see what an interval around an exponent is worth."""

import torch

from course_lessons.formation.events import exponent
from course_utils._arguments import Count, validated

TRUTH = -0.5
RUNS = {64: 30, 96: 4, 128: 3, 192: 2}  # how many there are at each size
# how many standard errors a 95 % interval has to either side, with 37 and with 2 points left over
WIDTHS = {"a point a run": 2.03, "a point a size": 4.30}


@validated
def covered(times: Count = 500, spread: float = 0.05) -> dict[str, float]:
    """The share of made-up data sets whose interval holds the exponent that made them.

    Each size, and each run beside, is off by `spread` as a standard deviation of the logarithm.
    """
    generator, held = torch.Generator().manual_seed(0), dict.fromkeys(WIDTHS, 0)
    for _ in range(times):
        points: dict[str, list[tuple[int, float]]] = {unit: [] for unit in WIDTHS}
        for size, runs in RUNS.items():
            noise = spread * torch.randn(runs + 1, generator=generator).double()
            logs = TRUTH * torch.tensor(float(size)).log() + noise[0] + noise[1:]
            points["a point a run"] += [(size, time) for time in logs.exp().tolist()]
            points["a point a size"].append((size, logs.mean().exp().item()))
        for unit, width in WIDTHS.items():
            found, error = exponent(*zip(*points[unit], strict=True))
            held[unit] += abs(found - TRUTH) < width * error
    return {unit: n / times for unit, n in held.items()}
