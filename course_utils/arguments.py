"""Bad input gets one clear sentence: `@checked` holds a function's arguments to what its signature says."""

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Annotated, Any, Union, get_args, get_origin

import torch
from jaxtyping import AbstractArray, Bool, Complex, Float, Int, jaxtyped
from torch import Tensor

Count = Annotated[int, 1]  # a whole number from 1
NotNegative = Annotated[int, 0]
KINDS = {Float: "numbers with a fraction", Int: "whole numbers", Bool: "True and False", Complex: "complex numbers"}


def checked(function: Callable) -> Callable:
    """The function, refusing arguments that its annotations rule out, before anything is computed.

    Tensors: kind of number, number of axes, axes of one name equally long, not empty, nothing that is not a number,
    and all on one device. Numbers: kind, and the least value in `Annotated[int, least]`. An argument called `model`
    must be a `HookedTransformer`; whole-number tensors called `tokens` beside it must be of its vocabulary.

    Raises TypeError for the wrong kind of thing, ValueError for the wrong value.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        with jaxtyped("context"):  # an axis name means one length throughout the call
            for name, value in given.items():
                parameter = signature.parameters[name]
                values = value if parameter.kind == parameter.VAR_POSITIONAL else [value]
                if name == "model":
                    _check_model(value)
                for item in values:
                    _check(name, item, parameter.annotation)
        _check_together(given)
        return function(*args, **kwargs)

    return guarded


def _check_model(value: Any) -> None:
    if not hasattr(value, "cfg") or not hasattr(value, "run_with_cache"):
        raise TypeError(f"model must be a HookedTransformer, as load() gives it, not {_described(value)}.")


def _check(name: str, value: Any, annotation: Any) -> None:
    if get_origin(annotation) in (Union, types.UnionType):
        options = get_args(annotation)
        if not any(_fits(value, option) for option in options):
            _check(name, value, next(o for o in options if o is not type(None)))  # says what the first one would be
    elif _is_tensor(annotation):
        _check_tensor(name, value, annotation)
    elif not _fits(value, annotation):
        wanted = "a list of texts" if _is_texts(annotation) else _wanted(annotation)
        raise TypeError(f"{name} must be {wanted}, not {_described(value)}.")
    elif isinstance(value, Real) and not isinstance(value, bool):
        least = get_args(annotation)[1] if get_origin(annotation) is Annotated else None
        if value != value or (least is not None and value < least):
            raise ValueError(f"{name} must be {_wanted(annotation)}, not {value!r}.")


def _check_tensor(name: str, value: Any, annotation: Any) -> None:
    axes = f"shape [{', '.join(annotation.dim_str.split())}]" if annotation.dim_str else "no axes"
    wanted = f"{name} must be a tensor of {_kind(annotation)}, {axes}"
    if not isinstance(value, Tensor):
        raise TypeError(f"{wanted}, not {_described(value)}.")
    if not isinstance(value, annotation):
        raise ValueError(f"{wanted}; this one holds {str(value.dtype).removeprefix('torch.')}, shape {[*value.shape]}.")
    if not value.numel():
        raise ValueError(f"{name} is empty: its shape is {[*value.shape]}.")
    if value.is_floating_point() and value.layout is torch.strided and value.isnan().any():
        raise ValueError(f"{name} holds values that are not a number (NaN).")


def _check_together(given: dict[str, Any]) -> None:
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    devices = {name: value.device.type for name, value in tensors.items()}
    cfg = getattr(given.get("model"), "cfg", None)
    if cfg is not None:
        devices["model"] = torch.device(cfg.device).type
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"Everything must be on one device, and this is not: {places}.")
    if cfg is not None and "tokens" in tensors:
        check_tokens(tensors["tokens"], cfg.d_vocab)


def check_tokens(tokens: Tensor, d_vocab: int) -> None:
    """Raise ValueError, in one sentence, unless every token id is one of a vocabulary."""
    if tokens.min() < 0 or tokens.max() >= d_vocab:
        wrong = tokens[(tokens < 0) | (tokens >= d_vocab)][0].item()
        raise ValueError(f"tokens must be ids from 0 to {d_vocab - 1}, and {wrong} is none.")


def _is_tensor(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, AbstractArray)


def _is_texts(annotation: Any) -> bool:
    return (
        isinstance(get_origin(annotation), type)
        and issubclass(get_origin(annotation), Iterable)
        and (get_args(annotation)[:1] == (str,))
    )


def _kind(annotation: Any) -> str:
    return next(words for kind, words in KINDS.items() if annotation.dtypes == kind[Tensor, "..."].dtypes)


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return True
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if annotation is None:
        return value is None
    if _is_texts(annotation) and isinstance(value, str | bytes):
        return False  # one text is also a sequence of texts, of its characters, but nobody means that
    kind = get_origin(annotation) or annotation
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
    names = {int: "a whole number", float: "a number", str: "a text", tuple: "a pair", Callable: "a function"}
    return f"{names.get(kind, f'a {kind.__name__}')}{least}"


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {[*value.shape]}"
    return repr(value) if isinstance(value, int | float | str | None) else type(value).__name__
