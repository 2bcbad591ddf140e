"""Answers to lesson 09b's exercises: others that are right, and wrong ones with what they hear."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lessons import fourier
from course_lessons.l09b_grokking.checks import _waves


def _sums(table: Tensor, sign: int = 1) -> Tensor:
    return (torch.arange(len(table))[:, None] + sign * torch.arange(len(table))) % len(table)


def _means(table: Tensor, new: Tensor) -> Tensor:
    """[sum, answer], by one product with the pairs of each sum."""
    of_sum = (_sums(table)[None] == torch.arange(len(table))[:, None, None]) & new  # [sum, a, b]
    return torch.einsum("sab,abc->sc", of_sum.float(), table) / of_sum.sum((1, 2))[:, None]


def _transform(table: Tensor, frequencies: Sequence[int], new: Tensor) -> Tensor:
    kept = torch.zeros(len(table))
    kept[[0, *frequencies, *(-f for f in frequencies)]] = 1
    waves = torch.fft.fft(_means(table, new), dim=0) * kept[:, None]  # [freq, answer]
    return torch.fft.ifft(waves, dim=0).real[_sums(table)]


def _kernel(table: Tensor, frequencies: Sequence[int], new: Tensor) -> Tensor:
    waves = [(2 * math.pi * f * _sums(table, -1) / len(table)).cos() for f in frequencies]
    return ((1 + 2 * torch.stack(waves).sum(0)) @ _means(table, new) / len(table))[_sums(table)]


RIGHT_ANSWERS = {
    "only_waves": {
        "a transform of the means": _transform,
        "each mean spread by a kernel": _kernel,
        "float64": lambda table, f, new: _waves(table, f, new).double(),
    }
}


WRONG_ANSWERS = {
    "only_waves": {
        "the same sum modulo 7": lambda table, f, new: fourier.projected(
            table.flatten(1), f
        ).view_as(table),
        "with 11 numbers and the frequencies [1, 4, 5]": lambda table, f, new: _waves(
            table, f[:1], new
        ),
    }
}
