"""Bad input gets one clear sentence.

`@validated` holds a function's arguments to what its signature says, and its result too where
somebody asks for it, as our tests do: see `hold_result`. `require_tokens` says what a signature
can't: that numbers are tokens of this model's. `plain` makes numbers Python's own.
"""

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
import torch
from annotated_types import Ge
from jaxtyping import AbstractArray, Bool, Float, Int, jaxtyped
from torch import Tensor, nn
from transformer_lens import FactoredMatrix, HookedTransformer

from course_utils import _torch_state

Count = Annotated[int, Ge(1)]
NotNegative = Annotated[int, Ge(0)]
SMALL = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32)  # whole numbers, not long
NUMBERS: dict[Any, str] = {
    Float: "floating-point numbers",
    Int: "whole numbers",
    Bool: "True and False",
}
THINGS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple: "a tuple",
    Callable: "a function",
    Sequence: "a list",
    Iterable: "a list",
    Mapping: "a dictionary",
    HookedTransformer: "a HookedTransformer, as load() gives it",
}

Params = ParamSpec("Params")
Result = TypeVar("Result")
# is given every result of a `@validated` function, and its hint
hold_result: Callable[[Any, Any], None] | None = None


def validated(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """The function, refusing arguments that its annotations rule out, before anything is computed.

    Tensors: kind of number, number of axes, axes of one name equally long, not empty, nothing that
    is not a number, and all on one device, the model's. Numbers: kind, and the least value in
    `Annotated[int, Ge(least)]`.

    Raises TypeError for the wrong kind of thing, ValueError for the wrong value.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters
    annotations = {name: parameter.annotation for name, parameter in parameters.items()}
    several = {name for name, one in parameters.items() if one.kind is one.VAR_POSITIONAL}

    @functools.wraps(function)
    def guarded(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        for name, value in given.items():
            annotation = annotations[name]
            if name in several:
                given[name] = tuple(_plain(item, annotation) for item in value)
            else:
                given[name] = _plain(value, annotation)
        # within it an axis name means one length: in all arguments, and in the result
        with jaxtyped("context"), _torch_state.made_like(*_place(given)):
            for name, value in given.items():
                for item in value if name in several else [value]:
                    _check(name, item, annotations[name])
            result = function(*bound.args, **bound.kwargs)
            if hold_result is not None:
                hold_result(result, signature.return_annotation)
        return result

    return guarded


def plain(value: Any) -> Any:
    """Numbers of numpy and torch as Python's, and lists of them as tuples, as keys need them."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def _plain(value: Any, annotation: Any) -> Any:
    """A number or a pair of numpy's or torch's as Python's own, where that is asked for.

    Small whole numbers, as int8, become long: torch reads some of them as a mask.
    """
    if not isinstance(value, Tensor | np.ndarray | np.generic):
        return value
    asked = get_args(annotation) if _is_union(annotation) else [annotation]
    if isinstance(value, Tensor) and value.dtype in SMALL:
        are_asked = any(_is_tensor(one) and _numbers(one) == NUMBERS[Int] for one in asked)
        return value.long() if are_asked else value
    kinds = {_kind(one) for one in asked}
    fits = {int, float, bool, str} if value.ndim == 0 else {tuple}
    return plain(value) if fits & kinds else value


def _check(name: str, value: Any, annotation: Any) -> None:
    if _is_union(annotation):
        options = get_args(annotation)
        fitting = [option for option in options if _fits(value, option)]
        tensors = [option for option in options if _is_tensor(option)]
        near = [option for option in tensors if isinstance(value, option.array_type)]
        # if none fits, one of them says what is wrong
        _check(name, value, [*fitting, *near, *options][0])
    elif _is_tensor(annotation):
        _check_tensor(name, value, annotation)
    elif not _fits(value, annotation):
        raise TypeError(f"{name} must be {_wanted(annotation)}, not {_described(value)}.")
    elif isinstance(value, FactoredMatrix):
        for side in (value.A, value.B):
            _check_numbers(name, side)
    elif annotation is not Any and isinstance(value, Real) and not isinstance(value, bool):
        least = _least(annotation)
        if value != value or (least is not None and value < least):
            raise ValueError(f"{name} must be {_wanted(annotation)}, not {value!r}.")


def _check_tensor(name: str, value: Any, annotation: Any) -> None:
    axes = annotation.dim_str.split()
    shape = f"shape [{', '.join(axes)}]" if axes else "no axes"
    wanted = f"{name} must be a tensor of {_numbers(annotation)}, {shape}"
    if not isinstance(value, annotation.array_type):
        raise TypeError(f"{wanted}, not {_described(value)}.")
    if not isinstance(value, annotation):
        if value.ndim == len(axes):
            wanted += " (an axis name means one length in all arguments)"
        dtype = str(value.dtype).removeprefix("torch.")
        raise ValueError(f"{wanted}; this one holds {dtype}, shape {[*value.shape]}.")
    if 0 in value.shape:
        raise ValueError(f"{name} is empty: its shape is {[*value.shape]}.")
    if _numbers(annotation) == NUMBERS[Float]:
        _check_numbers(name, value)


def _check_numbers(name: str, value: Any) -> None:
    if not getattr(value, "is_meta", False) and (value != value).any():
        raise ValueError(f"{name} holds values that are not a number (NaN).")


def _place(given: dict[str, Any]) -> tuple[torch.device, torch.dtype]:
    """The device that all arguments are on, and what their fractions are: what is made joins them.

    Raises ValueError if they are not on one.
    """
    devices = {}
    dtype = torch.float32
    for name, value in given.items():
        for tensor in itertools.islice(tensors_of(value), 1):
            devices[name] = tensor.device
            dtype = tensor.dtype if tensor.is_floating_point() else dtype
    if len({device.type for device in devices.values()}) > 1:
        places = ", ".join(f"{name} on {device.type}" for name, device in devices.items())
        raise ValueError(f"Everything must be on one device, and this is not: {places}.")
    return next(iter(devices.values()), torch.device("cpu")), dtype


def tensors_of(value: Any) -> Iterable[Tensor]:
    """The tensor that a value is, or those that a model or a factored matrix is made of."""
    if isinstance(value, nn.Module):
        return value.parameters()
    if isinstance(value, FactoredMatrix):
        return (value.A, value.B)
    return (value,) if isinstance(value, Tensor) else ()


def require_tokens(
    known: HookedTransformer | int | None, tokens: Tensor, name: str = "tokens"
) -> None:
    """Raise ValueError, in one sentence, unless all `tokens` are ids of the vocabulary.

    `known` is what the caller knows of it: the model that reads the tokens, and then texts must fit
    into its context; how many ids there are; or nothing (None), and then none may be negative.
    """
    d_vocab = known.cfg.d_vocab if isinstance(known, HookedTransformer) else known
    if isinstance(known, HookedTransformer):
        n_ctx = known.cfg.n_ctx
        length = tokens.shape[-1]
        if length > n_ctx:
            raise ValueError(
                f"{name} has texts of {length} tokens, and the model reads at most {n_ctx}: "
                "take a part."
            )

    if tokens.is_meta:
        return  # it has a shape, and no numbers
    if d_vocab is None:
        ids = "token ids, which start at 0"
        wrong = tokens[tokens < 0]
    else:
        ids = f"token ids from 0 to {d_vocab - 1}"
        wrong = tokens[(tokens < 0) | (tokens >= d_vocab)]
    if len(wrong):
        raise ValueError(f"{name} must hold {ids}; {wrong[0].item()} is not one of them.")


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _is_tensor(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, AbstractArray)


def _numbers(annotation: Any) -> str:
    for kind, words in NUMBERS.items():
        if annotation.dtypes == kind[Tensor, "..."].dtypes:
            return words
    return "numbers"


def _least(annotation: Any) -> Any:
    """The least number that an annotation allows, or None."""
    return next((bound.ge for bound in get_args(annotation) if isinstance(bound, Ge)), None)


def _kind(annotation: Any) -> Any:
    """The class that an annotation names: `int` for Annotated[int, …], `list` for list[str]."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_origin(annotation) or annotation


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return True
    kind = _kind(annotation)
    if isinstance(value, str | bytes) and kind is not str:
        return False  # a string is also a sequence, of its characters, but nobody means that
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if kind is tuple:
        return isinstance(value, tuple | list)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _wanted(annotation: Any) -> str:
    least = _least(annotation)
    bound = "" if least is None else f" from {least}"
    kind = _kind(annotation)
    return f"{THINGS.get(kind) or f'a {kind.__name__}'}{bound}"


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {[*value.shape]}"
    return repr(value) if isinstance(value, int | float | str | None) else type(value).__name__
