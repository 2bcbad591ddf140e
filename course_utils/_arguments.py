"""Bad input gets one clear sentence: `@checked` holds a function's arguments to what its signature says."""

import functools
import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Annotated, Any, Union, get_args, get_origin

import torch
from jaxtyping import AbstractArray, Bool, Float, Int, jaxtyped
from torch import Tensor
from transformer_lens import FactoredMatrix

Count = Annotated[int, 1]  # a whole number from 1
NotNegative = Annotated[int, 0]
KINDS = {Float: "floating-point numbers", Int: "whole numbers", Bool: "True and False"}


def checked(function: Callable) -> Callable:
    """The function, refusing arguments that its annotations rule out, before anything is computed.

    Tensors: kind of number, number of axes, axes of one name equally long, not empty, nothing that is not a number,
    and all on one device. Numbers: kind, and the least value in `Annotated[int, least]`. An argument called `model`
    must be a `HookedTransformer`. `tokens` and `stream` must hold ids of the vocabulary, where the call knows it: from
    a model, a task, an argument `d_vocab` or an axis of that name.

    Raises TypeError for the wrong kind of thing, ValueError for the wrong value.
    """
    signature = inspect.signature(function)
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        with jaxtyped("context"):  # an axis name means one length throughout the call
            for name, value in given.items():
                several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                if name == "model":
                    _check_model(value)
                for item in value if several else [value]:
                    _check(name, item, annotations[name])
        _check_together(given, annotations)
        return function(*args, **kwargs)

    return guarded


def _check_model(value: Any) -> None:
    if not hasattr(value, "cfg") or not hasattr(value, "run_with_cache"):
        raise TypeError(f"model must be a HookedTransformer, as load() gives it, not {_described(value)}.")


def _check(name: str, value: Any, annotation: Any) -> None:
    if get_origin(annotation) in (Union, types.UnionType):
        options = get_args(annotation)
        fitting = [option for option in options if _fits(value, option)]
        near = [option for option in options if _is_tensor(option) and isinstance(value, option.array_type)]
        _check(name, value, [*fitting, *near, *options][0])  # if none fits, one of them says what is wrong
    elif _is_tensor(annotation):
        _check_tensor(name, value, annotation)
    elif not _fits(value, annotation):
        raise TypeError(f"{name} must be {_wanted(annotation)}, not {_described(value)}.")
    elif isinstance(value, FactoredMatrix):
        for side in (value.A, value.B):
            _check_numbers(name, side)
    elif isinstance(value, Real) and not isinstance(value, bool):
        least = get_args(annotation)[1] if get_origin(annotation) is Annotated else None
        if value != value or (least is not None and value < least):
            raise ValueError(f"{name} must be {_wanted(annotation)}, not {value!r}.")


def _check_tensor(name: str, value: Any, annotation: Any) -> None:
    axes = f"shape [{', '.join(annotation.dim_str.split())}]" if annotation.dim_str else "no axes"
    wanted = f"{name} must be a tensor of {_kind(annotation)}, {axes}"
    if not isinstance(value, annotation.array_type):
        raise TypeError(f"{wanted}, not {_described(value)}.")
    if not isinstance(value, annotation):
        dtype = str(value.dtype).removeprefix("torch.")
        same = (
            " (an axis name means one length in all arguments)" if value.ndim == len(annotation.dim_str.split()) else ""
        )
        raise ValueError(f"{wanted}{same}; this one holds {dtype}, shape {[*value.shape]}.")
    if 0 in value.shape:
        raise ValueError(f"{name} is empty: its shape is {[*value.shape]}.")
    if annotation.dtypes == Float[Tensor, "..."].dtypes:
        _check_numbers(name, value)


def _check_numbers(name: str, value: Any) -> None:
    if (value != value).any():
        raise ValueError(f"{name} holds values that are not a number (NaN).")


def _check_together(given: dict[str, Any], annotations: dict[str, Any]) -> None:
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    devices = {name: value.device.type for name, value in tensors.items()}
    cfg = getattr(given.get("model"), "cfg", None)
    if cfg is not None:
        devices["model"] = torch.device(cfg.device).type
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"Everything must be on one device, and this is not: {places}.")
    sizes = [getattr(cfg, "d_vocab", None), getattr(given.get("task"), "d_vocab", None), given.get("d_vocab")]
    for name, value in tensors.items():
        if _is_tensor(annotations[name]):
            axes = zip(reversed(annotations[name].dim_str.split()), reversed(value.shape), strict=False)
            sizes += [size for axis, size in axes if axis == "d_vocab"]
    d_vocab = next((size for size in sizes if size), math.inf)
    for name in {"tokens", "stream"} & set(tensors):
        wrong = tensors[name][(tensors[name] < 0) | (tensors[name] >= d_vocab)]
        if len(wrong):
            raise ValueError(f"{name} must hold token ids from 0 to {d_vocab - 1}, and {wrong[0].item()} is none.")


def _is_tensor(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, AbstractArray)


def _kind(annotation: Any) -> str:
    return next((words for kind, words in KINDS.items() if annotation.dtypes == kind[Tensor, "..."].dtypes), "numbers")


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return True
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kind = get_origin(annotation) or annotation
    if isinstance(value, str | bytes) and kind is not str:
        return False  # a text is also a sequence, of its characters, but nobody means that
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if kind is tuple:
        return isinstance(value, tuple | list)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _wanted(annotation: Any) -> str:
    least = ""
    if get_origin(annotation) is Annotated:
        annotation, number = get_args(annotation)
        least = f" from {number}"
    kind = get_origin(annotation) or annotation
    names = {int: "a whole number", float: "a number", str: "a text", tuple: "a tuple", Callable: "a function"}
    names |= {Sequence: "a list", Iterable: "a list", Mapping: "a dictionary"}
    return f"{names.get(kind, f'a {kind.__name__}')}{least}"


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {[*value.shape]}"
    return repr(value) if isinstance(value, int | float | str | None) else type(value).__name__
