"""Answers to lesson 05b's exercises: others that are right, and wrong ones with what they hear."""

import math

import numpy as np
import torch
from torch import Tensor

from course_lessons.l05b_what_a_proof_costs.checks import _last, _runner_up


def _upwards(margin: Tensor, weight: Tensor, M: int) -> int:
    """From 0 up, as long as it is safe."""
    worst, best = torch.zeros(len(margin)), -1
    for value in range(M):
        worst = torch.minimum(worst, weight[value] * margin[value])
        ahead = margin[M] + 5 * worst
        ahead[M] = math.inf
        if ahead.min() <= 0:
            break
        best = value
    return best


def _in_numpy(margin: Tensor, weight: Tensor, M: int) -> int:
    taken = np.minimum(weight.numpy()[:M, None] * margin.numpy()[:M], 0)
    worst = np.minimum.accumulate(taken, axis=0)
    left = np.delete(margin.numpy()[M] + 5 * worst, M, axis=1).min(1)
    return int((left > 0).sum()) - 1


RIGHT_ANSWERS = {
    "runner_up": {
        "from 0 up": _upwards,
        "numpy": _in_numpy,
        "all at once, float64": lambda margin, weight, M: _last(
            _runner_up(margin.double(), weight.double(), M)[1]
        ),
    },
}


WRONG_ANSWERS = {
    "runner_up": {
        "11 the runner-up may be at most 7; yours is 3, and −1": lambda *given: 3,
    },
}
