"""What a check expects of an answer's result; each raises `Wrong` with a sentence for learners."""

import math
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

ARRAY = Tensor | np.ndarray
SEVERAL = tuple | list
IN_WORDS = ("no", "one", "two", "three", "four")


class Wrong(Exception):
    """A property that the answer lacks, in one sentence for the learner."""


class Unfit(Exception):
    """Why the lesson can't go on with an answer that is right."""


def demand(holds: bool | Tensor, otherwise: str) -> None:
    """Raise `Wrong` with the sentence `otherwise` unless the property holds."""
    if not holds:
        raise Wrong(otherwise)


def tensor(value: Any, shape: tuple[int, ...], means: str) -> Tensor:
    """A copy of the answer as a finite tensor of this shape; `means` says what the axes are."""
    demand(isinstance(value, Tensor), f"it should return a tensor, not {_kind(value)}.")
    given = list(value.shape)
    wanted = list(shape)
    demand(given == wanted, f"the result has shape {given}; it should be {wanted}, {means}.")
    demand(not value.is_complex(), "the result holds complex numbers.")
    value = value.detach().to_dense()
    copy = value.to(torch.float32, copy=True)  # an answer may use the same memory again
    demand(copy.isfinite().all(), "the result holds values that are infinite or not a number.")
    return copy


def four_circuits(value: Any, d_model: int, parts: str) -> Tensor:
    """QK and OV of two heads as [circuit, d_model, d_model]; d_model is the sum of `parts`."""
    demand(_counts(value, 4), "it should return four matrices, QK1, OV1, QK2, OV2.")
    shape = (d_model, d_model)
    axes = ["[query, key]", "[from, to]"] * 2
    matrices = []
    for matrix, both in zip(value, axes, strict=True):
        means = f"{both}, with d_model = {parts}"
        matrices.append(tensor(matrix, shape, means))
    return torch.stack(matrices)  # [circuit, d_model, d_model]


def number(value: Any) -> float:
    """The answer as one finite number: Python's, numpy's, a fraction, a tensor with one entry."""
    kind = _kind(value)
    if isinstance(value, ARRAY):
        kind = f"a tensor of shape {list(value.shape)}"
        value = value.item() if math.prod(value.shape) == 1 else None
    demand(_is_number(value), f"it should return one number, not {kind}.")
    result = float(value)
    advice = "look for a division by 0 or a logarithm of 0"
    demand(math.isfinite(result), f"the result is {result}: {advice}.")
    return result


def pair(value: Any, means: str) -> tuple[Any, Any]:
    """The answer as two things; `means` names them, "the direct path and the heads"."""
    demand(_counts(value, 2), f"it should return two things, {means}, not {_kind(value)}.")
    first, second = value
    return first, second


def close(a: Tensor | float, b: Tensor | float) -> bool:
    """Equal but for rounding."""
    a = torch.as_tensor(a).float()
    b = torch.as_tensor(b).float()
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def converted(value: Any, right: Any, returns: str | tuple[str, ...]) -> Any:
    """The answer as what `right` is, one or several; `returns` says what each of them means."""
    if isinstance(right, Tensor):
        shape = tuple(right.shape)
        return tensor(value, shape, str(returns))
    if isinstance(right, SEVERAL) and isinstance(returns, tuple):
        count = len(right)
        things = ", ".join(returns)
        wanted = f"{IN_WORDS[count]} things, {things}"
        given = f"{len(value)} of them" if isinstance(value, SEVERAL) else _kind(value)
        demand(_counts(value, count), f"it should return {wanted}, not {given}.")
        parts = zip(value, right, returns, strict=True)
        return [converted(*part) for part in parts]
    if _is_number(right):
        return number(value)
    plain = value.tolist() if isinstance(value, ARRAY) else value
    if isinstance(right, SEVERAL) and isinstance(plain, SEVERAL):
        return list(plain)
    is_alike = isinstance(plain, type(right))
    demand(is_alike, f"it should return {returns}, not {_kind(value)}.")
    return plain


def same(a: Any, b: Any) -> bool:
    """Equal but for rounding, in each of several things."""
    match a, b:
        case tuple() | list(), tuple() | list():
            return len(a) == len(b) and all(map(same, a, b))
        case dict(), dict():
            return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
        case bool(), _:
            return a == b
        case Tensor() | Real(), Tensor() | Real():
            a = torch.as_tensor(a)
            b = torch.as_tensor(b)
            return a.shape == b.shape and close(a, b)
    return a == b


def _kind(value: object) -> str:
    return type(value).__name__


def _counts(value: Any, count: int) -> bool:
    """Whether the answer is so many things."""
    return isinstance(value, SEVERAL) and len(value) == count


def _is_number(value: object) -> bool:
    """Whether it is a number, which a truth value is not."""
    return isinstance(value, Real) and not isinstance(value, bool)
