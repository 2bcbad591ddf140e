"""Bad input gets one clear sentence.

`@validated` holds a function's arguments to what its signature says, and its result too where
somebody asks for it, as our tests do: see `hold_result`. `require_tokens` says what a signature
can't: that numbers are tokens of this model's.
"""

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin

import torch
from annotated_types import Ge
from jaxtyping import AbstractArray, Bool, Float, Int, jaxtyped
from torch import Tensor
from transformer_lens import FactoredMatrix, HookedTransformer

Count = Annotated[int, Ge(1)]
NotNegative = Annotated[int, Ge(0)]
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
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def guarded(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        # within it an axis name means one length: in all arguments, and in the result
        with jaxtyped("context"):
            for name, value in given.items():
                several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                for item in value if several else [value]:
                    _check(name, item, annotations[name])
            _check_devices(given)
            result = function(*args, **kwargs)
            if hold_result is not None:
                hold_result(result, signature.return_annotation)
        return result

    return guarded


def _check(name: str, value: Any, annotation: Any) -> None:
    if get_origin(annotation) in (Union, types.UnionType):
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
    elif isinstance(value, Real) and not isinstance(value, bool):
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
    if (value != value).any():
        raise ValueError(f"{name} holds values that are not a number (NaN).")


def _check_devices(given: dict[str, Any]) -> None:
    devices = {}
    for name, value in given.items():
        if isinstance(value, Tensor):
            devices[name] = value.device.type
    for name, value in given.items():
        if isinstance(value, HookedTransformer):
            devices[name] = torch.device(value.cfg.device or "cpu").type
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"Everything must be on one device, and this is not: {places}.")


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

    if d_vocab is None:
        ids = "token ids, which start at 0"
        wrong = tokens[tokens < 0]
    else:
        ids = f"token ids from 0 to {d_vocab - 1}"
        wrong = tokens[(tokens < 0) | (tokens >= d_vocab)]
    if len(wrong):
        raise ValueError(f"{name} must hold {ids}; {wrong[0].item()} is not one of them.")


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
