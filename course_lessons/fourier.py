"""Columns of numbers as waves: how much a frequency explains, and where its crests stand.

A frequency counts waves over the n rows of a column. It need not be whole: nothing that is not
periodic in n has to return to where it started.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils._arguments import Count, validated

Frequencies = Sequence[float] | Float[Tensor, " freq"]


@validated
def power(W: Float[Tensor, "n column"]) -> Float[Tensor, "freq column"]:
    """How much of each column's variance each whole frequency 0, 1, …, n/2 holds.

    They add up to the variance. Row 0 is zero: a constant is no variation. By the discrete Fourier
    transform, in which every frequency but 0 and n/2 occurs twice, as k and as n − k.
    """
    n = len(W)
    waves = torch.fft.rfft(W - W.mean(0), dim=0)  # [freq, column], freq = 0, 1, …, n // 2
    found = waves.abs() ** 2 / n**2
    found[0] = 0
    twice = torch.full((len(found), 1), 2.0)  # for k and n − k
    if n % 2 == 0:
        twice[-1] = 1  # the last one is n/2, which is its own n − k
    # by Parseval, Σ |c_k|² / n² over all n frequencies is the mean square, here the variance
    return twice * found


def _columns(frequencies: Frequencies, n: int) -> Float[Tensor, "freq n 3"]:
    """The constant, the cosine and the sine of each frequency, in double precision."""
    frequencies = torch.as_tensor(frequencies, dtype=torch.double)
    if ((frequencies <= 0) | (frequencies > n / 2)).any():
        raise ValueError(f"With {n} rows a frequency must be above 0 and at most {n / 2:g}.")
    rows = torch.arange(n, dtype=torch.double)
    angles = 2 * math.pi * torch.outer(frequencies, rows) / n  # [freq, n]
    return torch.stack([torch.ones_like(angles), angles.cos(), angles.sin()], dim=-1)


def _orthonormal(columns: Float[Tensor, "... n dim"]) -> Float[Tensor, "... n dim"]:
    """The same span, by orthonormal columns.

    One is zero where a column depends on the others, as the sine of n/2 does: it is 0 in every row.
    """
    U, S, _ = torch.linalg.svd(columns, full_matrices=False)
    kept = S / S[..., :1] > 1e-6  # S falls: the first is the largest
    return (U * kept[..., None, :]).float()


@validated
def basis(frequencies: Frequencies, n: Count) -> Float[Tensor, "n dim"]:
    """Orthonormal columns that span the constant and the cosine and sine of every frequency.

    Raises ValueError for a frequency that n rows can't show: only those above 0 and up to n/2
    differ from each other.
    """
    constant = torch.ones(n, 1, dtype=torch.double)  # one is enough for all frequencies
    waves = _columns(frequencies, n)[..., 1:]  # [freq, n, 2]
    waves = waves.permute(1, 0, 2).flatten(1)  # [n, freq 2]
    found = _orthonormal(torch.cat([constant, waves], dim=1))  # [n, 1 + freq 2]
    return found[:, found.any(0)]


@validated
def projected(W: Float[Tensor, "n column"], frequencies: Frequencies) -> Float[Tensor, "n column"]:
    """The nearest sum of a constant and waves of these frequencies, by least squares."""
    Q = basis(frequencies, len(W)).to(W)  # [n, dim]
    return Q @ (Q.T @ W)


@validated
def explained(
    W: Float[Tensor, "n column"], frequencies: Frequencies
) -> Float[Tensor, "freq column"]:
    """How much of each column's variance one wave explains, for each frequency alone.

    At whole frequencies this is `power`.
    """
    Q = _orthonormal(_columns(frequencies, len(W))).to(W)  # [freq, n, 3]
    # how far each column goes along the directions
    along = Q.transpose(1, 2) @ (W - W.mean(0))  # [freq, 3, column]
    return (along**2).sum(1) / len(W)


@validated
def phase(
    W: Float[Tensor, "n column"], frequency: float | Float[Tensor, ""]
) -> Float[Tensor, " column"]:
    """The angle φ, from −π to π, at which each column's best wave of this frequency has its crest.

    The wave is A cos(2π f row / n − φ), fitted beside a constant. Since A > 0, a crest stands where
    2π f row / n = φ. Raises ValueError like `basis`.
    """
    along, across = _fit(W, frequency)
    # a cos x + b sin x = A cos(x − φ) with a = A cos φ and b = A sin φ
    return torch.atan2(across, along).float()


@validated
def height(
    W: Float[Tensor, "n column"], frequency: float | Float[Tensor, ""]
) -> Float[Tensor, " column"]:
    """The height A of the wave A cos(2π f row / n − φ) that fits each column best.

    It is fitted beside a constant. Raises ValueError like `basis`.
    """
    return _fit(W, frequency).norm(dim=0).float()


def _fit(
    W: Float[Tensor, "n column"], frequency: float | Float[Tensor, ""]
) -> Float[Tensor, "2 column"]:
    """How much cosine and sine of the frequency fit each column best, beside a constant."""
    columns = _columns([float(frequency)], len(W))[0]  # [n, 3]
    fit = torch.linalg.lstsq(columns, W.double()).solution  # [3, column]: constant, cosine, sine
    return fit[1:]
