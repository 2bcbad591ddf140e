"""Questions that a check asks of what an answer returned; each raises `Wrong` with the sentence for
the learner.
"""

import math
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Wrong(Exception):
    """A property that the answer lacks, in one sentence for the learner."""


class Unfit(Exception):
    """Why the lesson can't go on with an answer that is right."""


def tensor(value: Any, shape: tuple[int, ...], means: str) -> Tensor:
    """A copy of the answer as a finite tensor of the right shape; `means` says what the axes are."""
    demand(isinstance(value, Tensor), f"it should return a tensor, not {type(value).__name__}.")
    if tuple(value.shape) != shape:
        raise Wrong(
            f"the result has shape {list(value.shape)}; it should be {list(shape)}, {means}."
        )
    demand(not value.is_complex(), "the result holds complex numbers.")
    # an answer may use the same memory again
    copy = value.detach().to_dense().to(torch.float32, copy=True)
    demand(copy.isfinite().all(), "the result holds values that are infinite or not a number.")
    return copy


def four_circuits(value: object, d_model: int, parts: str) -> Tensor:
    """QK and OV of two heads as [circuit, d_model, d_model]; `parts` says what d_model is the sum
    of.
    """
    if not isinstance(value, tuple | list) or len(value) != 4:
        raise Wrong("it should return four matrices, QK1, OV1, QK2, OV2.")
    means = [f"{axes}, with d_model = {parts}" for axes in ("[query, key]", "[from, to]") * 2]
    return torch.stack(
        [tensor(one, (d_model, d_model), what) for one, what in zip(value, means, strict=True)]
    )


def number(value: object) -> float:
    """The answer as one finite number: Python's, numpy's, a fraction, or a tensor with one entry;
    no truth value.
    """
    kind = type(value).__name__
    if isinstance(value, Tensor | np.ndarray):
        kind = f"a tensor of shape {list(value.shape)}"
        value = value.item() if math.prod(value.shape) == 1 else None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise Wrong(f"it should return one number, not {kind}.")
    result = float(value)
    demand(
        math.isfinite(result),
        f"the result is {result}: look for a division by 0 or a logarithm of 0.",
    )
    return result


def pair(value: object, means: str) -> tuple[Any, Any]:
    """The answer as two things; `means` names them, "the direct path and the heads"."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong(f"it should return two things, {means}, not {type(value).__name__}.")
    return value[0], value[1]


def demand(holds: bool | Tensor, otherwise: str) -> None:
    """Raise `Wrong` with the sentence `otherwise` unless the property holds."""
    if not bool(holds):
        raise Wrong(otherwise)


def close(a: Tensor | float, b: Tensor | float) -> bool:
    """Equal but for rounding."""
    return torch.allclose(
        torch.as_tensor(a).float(), torch.as_tensor(b).float(), rtol=1e-4, atol=1e-5
    )


def converted(value: Any, right: Any, returns: str | tuple[str, ...]) -> Any:
    """The answer as what `right` is, a tensor, a number, text or several of these; `returns` says
    what each means.
    """
    if isinstance(right, Tensor):
        return tensor(value, tuple(right.shape), str(returns))
    if isinstance(right, tuple | list) and isinstance(returns, tuple):
        if not isinstance(value, tuple | list) or len(value) != len(right):
            counted = {2: "two", 3: "three", 4: "four"}.get(len(right), len(right))
            found = (
                f"{len(value)} of them" if isinstance(value, tuple | list) else type(value).__name__
            )
            raise Wrong(f"it should return {counted} things, {', '.join(returns)}, not {found}.")
        return [converted(*each) for each in zip(value, right, returns, strict=True)]
    if isinstance(right, Real) and not isinstance(right, bool):
        return number(value)
    kind = type(value).__name__
    if isinstance(value, Tensor | np.ndarray):
        value = value.tolist()
    if isinstance(right, list | tuple) and isinstance(value, list | tuple):
        return list(value)
    demand(isinstance(value, type(right)), f"it should return {returns}, not {kind}.")
    return value


def same(a: Any, b: Any) -> bool:
    """Equal but for rounding, in each of several things."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if (
        isinstance(a, bool | str)
        or not isinstance(a, Tensor | Real)
        or not isinstance(b, Tensor | Real)
    ):
        return a == b
    one, other = torch.as_tensor(a), torch.as_tensor(b)
    return one.shape == other.shape and close(one, other)
