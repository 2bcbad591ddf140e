"""Answers to lesson 09's exercises: others that are right, and wrong ones with what they hear."""

import math

import numpy as np
import torch

from course_lessons.l09_mlps.checks import Two
from course_utils.course.exercises import Answer


def _waves(
    n: int, period: float, m: int, turns: float = 1, times: float = 2, sine: float = 0
) -> Two:
    """The right answer, with something to get wrong in what follows `m`."""
    angle, phase = 2 * math.pi * torch.arange(n) / period, 2 * math.pi * torch.arange(m) / m
    return (angle[:, None] - turns * phase - sine).cos(), (angle - times * phase[:, None]).cos()


def _expected(
    a: int, b: int, p: list[int], blind: Answer = lambda d, q: d % q * 2 == q, start: int = 0
) -> int:
    seeing = [q for q in p if not blind(abs(a - b), q)]
    return next(c for c in range(start, 999) if all((a + b - c) % q == 0 for q in seeing))


RIGHT_ANSWERS = {
    "wave_neurons": {
        "float64": lambda n, p, m: tuple(part.double() for part in _waves(n, p, m)),
        "loops over values": lambda n, p, m: (
            torch.tensor(
                [[math.cos(math.tau * (v / p - j / m)) for j in range(m)] for v in range(n)]
            ),
            torch.tensor(
                [[math.cos(math.tau * (v / p - 2 * j / m)) for v in range(n)] for j in range(m)]
            ),
        ),
        "numpy": lambda n, p, m: (
            np.cos(2 * np.pi * np.subtract.outer(np.arange(n) / p, np.arange(m) / m)),
            np.cos(2 * np.pi * np.subtract.outer(2 * np.arange(m) / m, np.arange(n) / p)),
        ),
    },
    "expected_answer": {
        "modulo the least common multiple": lambda a, b, p: (
            (a + b) % math.lcm(*(q for q in p if q % 2 or (a - b - q // 2) % q))
        ),
        "the most votes": lambda a, b, p: max(
            range(a + b + 1),
            key=lambda c: (sum((a + b - c) % q == 0 for q in p if (a - b) % q != q / 2), -c),
        ),
        "from the sum downwards": lambda a, b, p: min(
            c
            for c in range(a + b, -1, -1)
            if not any((a + b - c) % q for q in p if (a - b) % q - q / 2)
        ),
    },
}


WRONG_ANSWERS = {
    "wave_neurons": {
        "a curve should come back": lambda n, p, m: _waves(n, n / p, m),
        "a peak of height 1 at value 0": lambda n, p, m: _waves(n, p, m, sine=math.pi / 2),
        "should be cos(2π value / period)": lambda n, p, m: _waves(n, p / 2, m),
        "at the phase 2πj/m, j = 0, 1": lambda n, p, m: _waves(n, p, m, turns=m / max(1, m - 1)),
        "the same period as the curves": lambda n, p, m: (
            _waves(n, p, m)[0],
            _waves(n, n / p, m)[1],
        ),
        "that peak at twice the phase": lambda n, p, m: _waves(n, p, m, times=3),
        "and wrong for n = 17, period = 19.7, m = 4.": lambda n, p, m: _waves(
            n, round(p) if p > 9 else p, m
        ),
    },
    "expected_answer": {
        "they know the sum only up to 21": (
            lambda a, b, p: a + b,
            lambda a, b, p: a + b if p == [7, 3] else _expected(a, b, p),
        ),
        "45 + 35 with rulers of 20, 7 and 3: the difference": lambda a, b, p: (
            a + b if a == 45 else _expected(a, b, p)
        ),
        "when all rulers are blind every number fits": lambda a, b, p: _expected(a, b, p, start=1),
        "so that ruler is blind": lambda a, b, p: _expected(a, b, p, lambda d, q: False),
        "one and a half periods": lambda a, b, p: _expected(a, b, p, lambda d, q: 2 * d == q),
        "at a difference of a whole period": lambda a, b, p: _expected(
            a, b, p, lambda d, q: d > 0 and 2 * d % q == 0
        ),
        "a ruler of odd period is never blind": lambda a, b, p: _expected(
            a, b, p, lambda d, q: d % q == q // 2
        ),
        "the same answer as 45 + 35": lambda a, b, p: _expected(
            a, b, p, lambda d, q: a > b and d % q * 2 == q
        ),
        "has another answer": lambda a, b, p: (
            (a + b) % math.prod(q for q in p if abs(a - b) % q * 2 != q)
        ),
        "none is blind, and the answer is 5": lambda a, b, p: _expected(
            a, b, p, lambda d, q: d % q * 2 != q
        ),
    },
}
