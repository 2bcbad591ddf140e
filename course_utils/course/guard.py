"""The guard around every call of a learner's function.

It tells what a call leaves behind: a changed argument, a hook on a model, a switch of torch. It
ends a call that takes too long, tells an exception with the learner's own line, and keeps what the
function prints to show it once.
"""

import contextlib
import ctypes
import dis
import functools
import inspect
import io
import random
import reprlib
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformer_lens import ActivationCache, FactoredMatrix

from course_utils.course.expectations import Wrong
from course_utils.course.saved_notebook import BLANK

SECONDS = 10.0  # of a processor's time that one call may take; ours take less than one
SLOWED = 6  # so much longer it may wait, on a machine that is busy with something else
PRINTED = 1_000  # characters that are shown of what a function prints
LINE = 199  # characters of a sentence that is told
ABSENT = object()  # stands for what is not there


class Blank(Exception):
    """The answer is still the stub."""


class TooLong(BaseException):
    """Raised inside a call that takes too long; no Exception, so that a learner's `except
    Exception` lets it pass.
    """


class Guarded:
    """A learner's function; a call raises Blank, or Wrong with one sentence, where the function
    itself misbehaves.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.printed = ""  # by the first call that printed, or by one that failed
        self.converted = (
            False  # whether it returned numpy arrays or float64, with which a later cell would stop
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._named(args, kwargs)
        before = {name: _state(value) for name, value in given.items()}
        output = _Capped()
        with _torch_restored() as left_behind:
            try:
                with contextlib.redirect_stdout(output):
                    result = _in_time(lambda: self.function(*args, **kwargs), SECONDS)
            except TooLong:
                self.printed = output.getvalue()
                raise Wrong(
                    f"after {SECONDS:g} seconds it was still running, and was stopped: is there "
                    f"a loop without an end?"
                ) from None
            except (Exception, SystemExit) as error:
                self.printed = output.getvalue()
                raise _told(error, self.function) from error
        self.printed = self.printed or output.getvalue()
        for name, value in given.items():
            _compare(name, before[name], _state(value))
        if left_behind:
            raise Wrong(left_behind[0])
        made = as_tensors(result)
        self.converted |= made is not result
        return made

    def _named(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments under the learner's own names for them."""
        try:
            signature = inspect.signature(self.function)
        except ValueError:  # some functions of C have none
            return {f"argument {number}": value for number, value in enumerate(args, 1)} | kwargs
        try:
            return dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            count = len(args) + len(kwargs)
            raise Wrong(
                f"the check calls your function with {count} arguments, and that fails: {error}."
            ) from None


def as_tensors(result: Any) -> Any:
    """What an answer returned, as torch's other tensors are: numpy arrays of numbers as tensors,
    float64 as float32.
    """
    if isinstance(result, Tensor) and result.dtype == torch.float64:
        return result.to(torch.get_default_dtype())
    if isinstance(result, np.ndarray) and result.ndim and result.dtype.kind in "fiubc":
        whole = torch.from_numpy(np.array(result))
        return whole.to(torch.get_default_dtype()) if whole.is_floating_point() else whole
    if type(result) in (tuple, list):
        converted = type(result)(map(as_tensors, result))
        return result if all(a is b for a, b in zip(result, converted, strict=True)) else converted
    if type(result) is dict:
        values = {name: as_tensors(value) for name, value in result.items()}
        return result if all(values[name] is value for name, value in result.items()) else values
    return result


def notebook_data(function: Callable[..., Any]) -> list[str]:
    """Tensors, models and caches of the notebook that the function reads, itself or through
    functions it calls.
    """
    found, seen, waiting = [], set(), [inspect.unwrap(function)]
    while waiting:
        code, space = getattr(waiting[0], "__code__", None), getattr(waiting[0], "__globals__", {})
        waiting = waiting[1:]
        for name in global_names(code) if code else ():
            value = space.get(name)
            if name in seen:
                continue
            seen.add(name)
            if isinstance(
                value, Tensor | nn.Module | ActivationCache | FactoredMatrix | np.ndarray
            ):
                found.append(name)
            elif isinstance(value, types.FunctionType) and value.__globals__ is space:
                waiting.append(value)
    return found


def global_names(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
        elif isinstance(step.argval, types.CodeType):  # a function, lambda or comprehension inside
            yield from global_names(step.argval)


# --- exceptions ---


def _told(error: BaseException, function: Callable[..., Any]) -> Exception:
    """What to raise for an exception of the learner's function: Blank for our own stub, else a
    sentence.
    """
    if isinstance(error, Wrong):  # from something that the check handed to the function
        return error
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    stub = isinstance(error, NotImplementedError) and str(error) == BLANK
    if stub and code and frames[-1].f_code is code:
        return Blank()
    reason = next(iter(str(error).strip().splitlines()), "") or "no message"
    lines = [
        entry.line if len(entry.line) <= 60 else entry.line[:59] + "…"
        for entry, frame in zip(traceback.extract_tb(error.__traceback__), frames, strict=True)
        if code and entry.line and frame.f_code.co_filename == code.co_filename
    ]
    where = f" in the line `{lines[-1]}`" if lines else ""
    return Wrong(f"your function stopped{where} with {type(error).__name__}: {reason}")


# --- time and print ---


def _in_time(call: Callable[[], Any], seconds: float) -> Any:
    """What `call()` returns; raises TooLong inside it after some seconds at work, and each second
    while it is caught.

    It comes between two steps of Python: one long step of C, as `time.sleep(9999)`, is not cut
    short, and what waits in another thread is not reached; nor, in Python 3.10, a loop that holds a
    `try` and calls nothing.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock, over, ended = threading.Lock(), threading.Event(), False

    def watch() -> None:
        until, last, wait = (
            time.process_time() + seconds,
            time.monotonic() + SLOWED * seconds,
            seconds,
        )
        while not over.wait(wait):
            wait = min(1.0, seconds)
            if time.process_time() < until and time.monotonic() < last:
                continue  # others have the processor
            with lock:
                if not ended:
                    raise_in(thread, ctypes.py_object(TooLong))

    try:
        threading.Thread(target=watch, daemon=True).start()
        return call()
    finally:
        called_off = False
        while not called_off:
            try:  # the exception may still arrive in these lines
                with lock:
                    ended = True
                over.set()
                raise_in(thread, None)  # takes back one that has not arrived
                called_off = True
            except TooLong:
                pass


class _Capped(io.StringIO):
    """Text up to a length; more is swallowed, so that a loop that prints fills no memory."""

    def write(self, text: str) -> int:
        if (room := PRINTED - self.tell()) > 0:
            super().write(text if len(text) <= room else text[:room] + " …\n")
        return len(text)


# --- what a call leaves behind ---

SWITCHES: list[
    tuple[Callable[[], Any], Callable[[Any], Any]]
] = [  # what reads each, and what sets it back
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_default_device, torch.set_default_device),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.initial_seed, lambda seed: None),  # `randomness_kept` sets back the whole generator
]
SWITCHED = [  # what is said of each, in the same order
    "it leaves gradients switched on or off for the whole notebook: write `with "
    "torch.no_grad():` instead.",
    "it leaves torch with another default dtype for the whole notebook: give `dtype=` where it "
    "is needed.",
    "it leaves torch with another default device for the whole notebook: give `device=` where "
    "it is needed.",
    "it leaves torch with another number of threads for the whole notebook: leave that as it is.",
    "it leaves torch's deterministic algorithms switched for the whole notebook: leave them as "
    "they are.",
    "it seeds torch's random numbers for the whole notebook: draw from a torch.Generator of its "
    "own.",
]


@contextlib.contextmanager
def _torch_restored() -> Iterator[list[str]]:
    """Set torch's switches back; the list is filled, at the end, with a sentence for each that was
    changed.
    """
    before = [read() for read, _ in SWITCHES]
    changed: list[str] = []
    try:
        yield changed
    finally:
        for value, (read, write), sentence in zip(before, SWITCHES, SWITCHED, strict=True):
            if read() != value:
                write(value)
                changed.append(sentence)


@contextlib.contextmanager
def randomness_kept() -> Iterator[None]:
    """Leave the random numbers that come next, of torch, numpy and Python, as if the block had
    drawn none.
    """
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _state(value: Any) -> dict[str, Any]:
    """Everything in a value that a function could change, copied, by the path that leads there."""
    found: dict[str, Any] = {}
    seen: dict[int, Any] = {}
    waiting = [("", value)]
    while waiting:
        path, value = waiting.pop(0)
        if id(value) in seen and not isinstance(value, int | str):
            continue
        seen[id(value)] = value  # kept alive, so that its id stays its own
        if isinstance(value, Tensor):
            found[path] = value.detach().to_dense().clone()
            found[f"{path}.requires_grad"] = value.requires_grad
            found[f"{path}.grad"] = (
                None if not value.is_leaf or value.grad is None else value.grad.clone()
            )
        elif isinstance(value, np.ndarray):
            found[path] = value.copy()
        elif isinstance(value, nn.Module):
            waiting += _module_parts(path, value)
        else:
            parts = list(_parts(value))
            found[path] = (
                value
                if not parts and not isinstance(value, list | dict | set)
                else (type(value), len(parts))
            )
            waiting += [(f"{path}{step}", part) for step, part in parts]
    return found


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, with the way to each thing."""
    if isinstance(value, list | tuple):
        yield from ((f"[{number}]", part) for number, part in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"[{reprlib.repr(key)}]", part) for key, part in value.items())
    elif isinstance(value, set):
        yield from ((f"{{{reprlib.repr(part)}}}", part) for part in sorted(value, key=repr))
    elif isinstance(value, FactoredMatrix):
        yield from ((".A", value.A), (".B", value.B))
    elif (
        hasattr(value, "__dict__")
        and not isinstance(value, type | types.ModuleType)
        and not callable(value)
    ):
        yield from ((f".{name}", part) for name, part in vars(value).items())


def _module_parts(path: str, module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Of a model: parameters, buffers, hooks, modes and configuration."""
    yield from ((f"{path}.{name}", tensor) for name, tensor in module.named_parameters())
    yield from ((f"{path}.{name}", tensor) for name, tensor in module.named_buffers())
    for name, part in module.named_modules():
        place = f"{path}.{name}".rstrip(".")
        yield (
            f"{place}.hooks",
            (*part._forward_hooks, *part._forward_pre_hooks, *part._backward_hooks),
        )
        yield f"{place}.training", part.training
    yield f"{path}.cfg", getattr(module, "cfg", None)


def _compare(name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise Wrong with a sentence that names what was changed, if anything was."""
    changed = [
        path
        for path in before | after
        if not _same(before.get(path, ABSENT), after.get(path, ABSENT))
    ]
    if not changed:
        return
    path = min(changed, key=len)
    place = f"`{name}{path}`" if path else f"`{name}`"
    if ".hooks" in path:
        at = path.split(".hooks")[0].lstrip(".")
        raise Wrong(
            f"it leaves a hook on `{name}`, at {at}: use `run_with_hooks`, which takes it off "
            f"again."
        )
    if path.startswith(".cfg."):
        raise Wrong(
            f"it leaves {place} set to {after.get(path)!r}: set it back, others use the model too."
        )
    if path.endswith(".grad"):
        raise Wrong(
            f"it leaves a gradient in `{name}{path[:-5]}`: take gradients with torch.autograd.grad."
        )
    raise Wrong(
        f"it changes {place}, which it was given: leave arguments as they are, and work on a copy."
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        same = a.shape == b.shape and a.dtype == b.dtype
        return same and bool(((a == b) | ((a != a) & (b != b))).all())
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    simple = isinstance(a, int | float | complex | str | bytes | tuple | torch.dtype | torch.device)
    return a is b or (simple and type(a) is type(b) and (a == b or a != a))
