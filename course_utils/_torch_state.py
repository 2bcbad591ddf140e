"""Torch as the course computes: float32, on the CPU, with gradients, and no warning is an error.

A notebook may say otherwise, as with `torch.set_default_dtype(torch.float64)`. That is its own, and
stays; what the course makes for itself does not follow it.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch


class Switch(NamedTuple):
    """A setting of torch's that holds for all that is computed."""

    read: Callable[[], Any]
    usual: Any
    within: Callable[[Any], AbstractContextManager]  # a block in which it has a value


@contextlib.contextmanager
def _held(read: Callable[[], Any], switch: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """Within this block a setting has a value, and after it the one from before."""
    before = read()
    switch(value)
    try:
        yield
    finally:
        switch(before)


def _without_block(
    read: Callable[[], Any], switch: Callable[[Any], Any], as_it_starts: Any
) -> Switch:
    """A switch that torch itself has no block for."""
    return Switch(read, as_it_starts, functools.partial(_held, read, switch))


def _autocast(value: bool) -> AbstractContextManager:
    return torch.autocast("cpu", enabled=value)


SWITCHES = {  # by the name of the call that sets it
    "set_default_dtype": _without_block(
        torch.get_default_dtype, torch.set_default_dtype, torch.float32
    ),
    "set_default_device": Switch(torch.get_default_device, torch.device("cpu"), torch.device),
    "inference_mode": Switch(torch.is_inference_mode_enabled, False, torch.inference_mode),
    "set_grad_enabled": Switch(torch.is_grad_enabled, True, torch.set_grad_enabled),
    "use_deterministic_algorithms": _without_block(
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, False
    ),
    "set_float32_matmul_precision": _without_block(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"
    ),
    "autocast": Switch(lambda: torch.is_autocast_enabled("cpu"), False, _autocast),
    "autograd.set_detect_anomaly": Switch(
        torch.is_anomaly_enabled, False, torch.autograd.set_detect_anomaly
    ),
}


Odd = tuple[str, str]  # the call that has set a switch, and the call that sets it back


@contextlib.contextmanager
def usual() -> Iterator[list[Odd]]:
    """Within this block torch is as it starts; yields what the notebook has set otherwise."""
    with _within(SWITCHES) as odd, _no_warning_is_an_error():
        yield odd


@contextlib.contextmanager
def _within(switches: dict[str, Switch]) -> Iterator[list[Odd]]:
    odd = []
    with contextlib.ExitStack() as block:
        for name, switch in switches.items():
            value = switch.read()
            if value != switch.usual:
                odd.append((_call(name, value), _call(name, switch.usual)))
                block.enter_context(switch.within(switch.usual))
        yield odd


def _call(name: str, value: Any) -> str:
    said = repr(str(value)) if isinstance(value, str | torch.device) else str(value)
    return f"torch.{name}({said})"


def made_like(device: torch.device, dtype: torch.dtype) -> AbstractContextManager:
    """A block in which new tensors are made there and so, whatever the notebook's defaults are."""
    values = {"set_default_device": device, "set_default_dtype": dtype}
    return _within({name: SWITCHES[name]._replace(usual=value) for name, value in values.items()})


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within this block one thread computes: as fast for small tensors, and much faster where other
    programs compute as well. It decorates functions, too.
    """
    with _held(torch.get_num_threads, torch.set_num_threads, 1):
        yield


@contextlib.contextmanager
def _no_warning_is_an_error() -> Iterator[None]:
    """Within this block a warning, numpy's of a division by 0 among them, raises nothing."""
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        filters: Any = warnings.filters
        filters[:] = [each for each in filters if each[0] != "error"]
        # tells Python that the list has changed; with more than two axes, this is a wall of text
        warnings.filterwarnings("ignore", "The use of `x.T`")
        yield


@functools.cache  # each says it once
def tell(*odd: Odd) -> None:
    """Say that torch is not as it starts, if it is not, what that may do, and the way back."""
    if odd:
        set_so, back = (" and ".join(calls) for calls in zip(*odd, strict=True))
        holds = f"{set_so} holds in this notebook, and a cell of the lesson may stop at it"
        print(f"{holds}: {back} sets it back.")
