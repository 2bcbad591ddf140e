"""What an answer returned, as later cells can go on with it: as the kind of thing that ours is.

A right answer may return numpy arrays, float64, a sparse tensor, a parameter that wants a gradient,
or a whole number where ours returns a fraction. The next cell is written for what ours returns.
"""

import operator
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils._arguments import tensors_of

NUMBERS = (bool, int, float)


def as_tensors(result: Any, given: Any = ()) -> Any:
    """A result with plain tensors in it: dense, float32 if they hold fractions, on one device.

    They are float64, or want a gradient, where something is or does that the answer was `given`.
    """
    if isinstance(result, Tensor):
        return _plain(result, [*_tensors(given)])
    if isinstance(result, np.ndarray) and result.ndim and result.dtype.kind in "fiubc":
        return as_tensors(torch.from_numpy(np.array(result)), given)
    if type(result) is dict:
        values = [as_tensors(value, given) for value in result.values()]
        return _with(result, values)
    if type(result) in (tuple, list):
        return _with(result, [as_tensors(part, given) for part in result])
    return result


def _plain(tensor: Tensor, given: list[Tensor]) -> Tensor:
    """See `as_tensors`; the same tensor, if there is nothing to change."""
    plain = tensor
    if tensor.requires_grad and not any(one.requires_grad for one in given):
        plain = tensor.detach()  # of a parameter a tensor is left
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    are_double = any(one.dtype == torch.float64 for one in given)
    if plain.is_floating_point():
        plain = plain.double() if are_double else plain.float()
    return plain.to(given[0].device if given else "cpu")


def _tensors(given: Any) -> Iterator[Tensor]:
    """All tensors in what an answer was given, parameters of models among them."""
    yield from tensors_of(given)
    if isinstance(given, tuple | list | dict):
        for part in given.values() if isinstance(given, dict) else given:
            yield from _tensors(part)


def as_ours(result: Any, ours: Any) -> Any:
    """A result as the kind of thing that ours is: a list for a list, floats for floats.

    No value changes: 2 becomes 2.0, and 2.0 becomes 2, but 2.5 stays where ours is a whole number.
    """
    if isinstance(ours, Tensor):
        return _of_kind(result, ours.dtype) if isinstance(result, Tensor) else result

    # numbers of torch and numpy, one or several, as Python's
    if isinstance(result, np.generic):
        result = result.item()
    if isinstance(result, Tensor | np.ndarray):
        if isinstance(ours, NUMBERS) and len(result.reshape(-1)) == 1:
            result = result.item()
        elif isinstance(ours, list | tuple) and isinstance([*ours, None][0], NUMBERS):
            result = result.tolist()

    # Python's own
    kind = type(ours)
    if isinstance(ours, NUMBERS) and isinstance(result, Real) and type(result) is not kind:
        as_kind = kind(result)
        return as_kind if as_kind == result else result
    if kind is dict and type(result) is dict:
        values = [as_ours(value, ours.get(key)) for key, value in result.items()]
        return _with(result, values)
    if kind in (tuple, list) and type(result) in (tuple, list):
        more = len(result) - len(ours)
        like = [*ours, *ours[-1:] * more] if ours else [None] * len(result)
        parts = [as_ours(part, one) for part, one in zip(result, like, strict=False)]
        return _with(result, parts) if type(result) is kind else kind(parts)
    return result


def _of_kind(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor with truth values, whole numbers or fractions, if its values can be written so."""
    if tensor.dtype == dtype or tensor.dtype == torch.float64:  # float64 was asked for
        return tensor
    other = tensor.to(dtype)
    is_same = dtype.is_floating_point or torch.equal(other.to(tensor.dtype), tensor)
    return other if is_same else tensor


def _with(container: Any, parts: list) -> Any:
    """The container with other parts; itself, if they are the ones that it has."""
    if isinstance(container, dict):
        is_same = all(map(operator.is_, parts, container.values()))
        return container if is_same else dict(zip(container, parts, strict=True))
    is_same = all(map(operator.is_, parts, container))
    return container if is_same else type(container)(parts)
