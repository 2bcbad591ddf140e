"""Bad input gets one clear sentence: `@validated` holds a function's arguments to what its
signature says.

Results too, where somebody asks for it, as our tests do: see `hold_result`.
"""

import functools
import inspect
import math
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
KINDS: dict[Any, str] = {
    Float: "floating-point numbers",
    Int: "whole numbers",
    Bool: "True and False",
}

Params = ParamSpec("Params")
Result = TypeVar("Result")
hold_result: Callable[[Any, Any], None] | None = (
    None  # is given every result of a `@validated` function, and its hint
)


def validated(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """The function, refusing arguments that its annotations rule out, before anything is computed.

    Tensors: kind of number, number of axes, axes of one name equally long, not empty, nothing that
    is not a number, and all on one device, the model's. Numbers: kind, and the least value in
    `Annotated[int, Ge(least)]`. Arguments called `tokens` and `stream` must hold ids of the
    vocabulary, where the call knows it: from a model, a task, an argument `d_vocab` or an axis of
    that name, and no more of them than the model reads.

    Raises TypeError for the wrong kind of thing, ValueError for the wrong value.
    """
    signature = inspect.signature(function)
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def guarded(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        with jaxtyped(
            "context"
        ):  # an axis name means one length throughout the call, in the result too
            for name, value in given.items():
                several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                for item in value if several else [value]:
                    _check(name, item, annotations[name])
            _check_together(given, annotations)
            result = function(*args, **kwargs)
            if hold_result is not None:
                hold_result(result, signature.return_annotation)
        return result

    return guarded


def _check(name: str, value: Any, annotation: Any) -> None:
    if get_origin(annotation) in (Union, types.UnionType):
        options = get_args(annotation)
        fitting = [option for option in options if _fits(value, option)]
        near = [
            option
            for option in options
            if _is_tensor(option) and isinstance(value, option.array_type)
        ]
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
    axes = f"shape [{', '.join(annotation.dim_str.split())}]" if annotation.dim_str else "no axes"
    wanted = f"{name} must be a tensor of {_kind(annotation)}, {axes}"
    if not isinstance(value, annotation.array_type):
        raise TypeError(f"{wanted}, not {_described(value)}.")
    if not isinstance(value, annotation):
        dtype = str(value.dtype).removeprefix("torch.")
        same = (
            " (an axis name means one length in all arguments)"
            if value.ndim == len(annotation.dim_str.split())
            else ""
        )
        raise ValueError(f"{wanted}{same}; this one holds {dtype}, shape {[*value.shape]}.")
    if 0 in value.shape:
        raise ValueError(f"{name} is empty: its shape is {[*value.shape]}.")
    if _kind(annotation) == KINDS[Float]:
        _check_numbers(name, value)


def _check_numbers(name: str, value: Any) -> None:
    if (value != value).any():
        raise ValueError(f"{name} holds values that are not a number (NaN).")


def _check_together(given: dict[str, Any], annotations: dict[str, Any]) -> None:
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    models = {name: value for name, value in given.items() if isinstance(value, HookedTransformer)}
    devices = {name: value.device.type for name, value in tensors.items()}
    devices |= {
        name: torch.device(model.cfg.device or "cpu").type for name, model in models.items()
    }
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"Everything must be on one device, and this is not: {places}.")
    # a model's, a task's
    sizes = [getattr(getattr(value, "cfg", value), "d_vocab", None) for value in given.values()]
    sizes.append(given.get("d_vocab"))
    for name, value in tensors.items():
        if _is_tensor(annotations[name]):
            axes = zip(
                reversed(annotations[name].dim_str.split()), reversed(value.shape), strict=False
            )
            sizes += [size for axis, size in axes if axis == "d_vocab"]
    d_vocab = next((size for size in sizes if size), math.inf)
    n_ctx = min((model.cfg.n_ctx for model in models.values()), default=math.inf)
    reads = _is_tensor(annotations.get("tokens")) and annotations["tokens"].dim_str.endswith("pos")
    if "tokens" in tensors and reads and (length := tensors["tokens"].shape[-1]) > n_ctx:
        raise ValueError(
            f"tokens has texts of {length} tokens, and the model reads at most {n_ctx}: take a "
            f"part."
        )
    for name in {"tokens", "stream"} & set(tensors):
        wrong = tensors[name][(tensors[name] < 0) | (tensors[name] >= d_vocab)]
        if len(wrong):
            ids = (
                "token ids, which start at 0"
                if d_vocab == math.inf
                else f"token ids from 0 to {d_vocab - 1}"
            )
            raise ValueError(f"{name} must hold {ids}; {wrong[0].item()} is not one of them.")


def _is_tensor(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, AbstractArray)


def _kind(annotation: Any) -> str:
    return next(
        (words for kind, words in KINDS.items() if annotation.dtypes == kind[Tensor, "..."].dtypes),
        "numbers",
    )


def _least(annotation: Any) -> Any:
    """The least number that an annotation allows, or None."""
    return next((bound.ge for bound in get_args(annotation) if isinstance(bound, Ge)), None)


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return True
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kind = get_origin(annotation) or annotation
    if isinstance(value, str | bytes) and kind is not str:
        return False  # a string is also a sequence, of its characters, but nobody means that
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if kind is tuple:
        return isinstance(value, tuple | list)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _wanted(annotation: Any) -> str:
    bound = "" if _least(annotation) is None else f" from {_least(annotation)}"
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kind = get_origin(annotation) or annotation
    names = {
        int: "a whole number",
        float: "a number",
        str: "a string",
        tuple: "a tuple",
        Callable: "a function",
    }
    names |= {Sequence: "a list", Iterable: "a list", Mapping: "a dictionary"}
    names |= {HookedTransformer: "a HookedTransformer, as load() gives it"}
    return f"{names.get(kind, f'a {kind.__name__}')}{bound}"


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {[*value.shape]}"
    return repr(value) if isinstance(value, int | float | str | None) else type(value).__name__
