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

from course_utils import _torch_state
from course_utils.course.expectations import Wrong
from course_utils.course.results import as_tensors
from course_utils.course.saved_notebook import BLANK

SECONDS = 10.0  # of a processor's time that one call may take; ours take less than one
SLOWED = 6  # so much longer it may wait, on a machine that is busy with something else
PRINTED = 1_000  # characters that are shown of what a function prints
LINE = 199  # characters of a sentence that is told
ABSENT = object()  # stands for what is not there
DATA = Tensor | nn.Module | ActivationCache | FactoredMatrix | np.ndarray
SETS = ("set_", "use_")  # how the calls begin that set something from then on; others are blocks
SWITCHES: dict[str, Callable[[], Any]] = {  # what sets each switch of torch → what reads it
    **{name: switch.read for name, switch in _torch_state.SWITCHES.items() if name[:4] in SETS},
    "set_num_threads": torch.get_num_threads,
    "manual_seed": torch.initial_seed,  # `randomness_kept` sets back the whole generator
}


class Blank(Exception):
    """The answer is still the stub."""


class TooLong(BaseException):
    """Raised inside a call that takes too long; no Exception, since learners catch these."""


class Guarded:
    """A learner's function, whose calls raise Blank, or Wrong where the function misbehaves."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.printed = ""  # by the first call that printed, or by one that failed
        self.converted = False  # whether it returned something that `as_tensors` changes
        self.first: tuple[tuple, dict[str, Any], Any] | None = None  # call: arguments and result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # What the function could change, as it is before.
        given = self._named(args, kwargs)
        before = {name: _state(value) for name, value in given.items()}

        # The call: in time, with its print kept.
        output = _Capped()
        began = time.monotonic()
        with _torch_restored() as left_behind:
            try:
                with contextlib.redirect_stdout(output):
                    result = _in_time(lambda: self.function(*args, **kwargs), SECONDS)
            except TooLong:
                self.printed = output.getvalue()
                ran = (
                    f"after {time.monotonic() - began:.0f} s it was still running, and was stopped"
                )
                raise Wrong(f"{ran}: is there a loop without an end?") from None
            except (Exception, SystemExit) as error:
                self.printed = output.getvalue()
                raise _told(error, self.function) from error
        self.printed = self.printed or output.getvalue()

        # What it left behind.
        for name, value in given.items():
            _compare(name, before[name], _state(value))
        if left_behind:
            still = f"it leaves `torch.{left_behind[0]}` in force for the whole notebook"
            raise Wrong(f"{still}: set it back, or do without.")

        # What it returned.
        tensors = as_tensors(result, (args, kwargs))
        self.converted |= tensors is not result
        self.first = self.first or (args, kwargs, tensors)
        return tensors

    def _named(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments under the learner's own names for them."""
        try:
            signature = inspect.signature(self.function)
        except ValueError:  # some functions of C have none
            return {f"argument {number}": value for number, value in enumerate(args, 1)} | kwargs
        try:
            return dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            call = f"the check calls your function with {len(args) + len(kwargs)} arguments"
            raise Wrong(f"{call}, and that fails: {error}.") from None


def notebook_data(function: Callable[..., Any]) -> list[str]:
    """Tensors, models and caches of the notebook that a function reads, or one that it calls."""
    found: list[str] = []
    seen: set[str] = set()
    waiting = [inspect.unwrap(function)]
    while waiting:
        reader = waiting.pop(0)
        code = getattr(reader, "__code__", None)
        space = getattr(reader, "__globals__", {})
        for name in global_names(code) if code else ():
            if name in seen:
                continue
            seen.add(name)
            value = space.get(name)
            if isinstance(value, DATA):
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


def cut(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _told(error: BaseException, function: Callable[..., Any]) -> Exception:
    """What to raise for an exception of the learner's function: Blank for our stub, else Wrong."""
    if isinstance(error, Wrong):  # from something that the check handed to the function
        return error
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]

    # A stub raises in the function itself, and not in one that it calls.
    is_stub = isinstance(error, NotImplementedError) and str(error) == BLANK
    if is_stub and code and frames[-1].f_code is code:
        return Blank()

    # Of the learner's own lines that led there, the last.
    where = ""
    entries = traceback.extract_tb(error.__traceback__)
    for entry, frame in zip(entries, frames, strict=True):
        is_own = code and frame.f_code.co_filename == code.co_filename
        if is_own and entry.line:
            where = f" in the line `{cut(entry.line, 60)}`"
    reason = (str(error).strip() or "no message").splitlines()[0]
    return Wrong(f"your function stopped{where} with {type(error).__name__}: {reason}")


def _in_time(call: Callable[[], Any], seconds: float) -> Any:
    """What `call()` returns; raises TooLong inside it after some seconds at work.

    Where that is caught, it comes again each second. It comes between two steps of Python: one long
    step of C, as `time.sleep(9999)`, is not cut short, and what waits in another thread is not
    reached; nor, in Python 3.10, a loop that holds a `try` and calls nothing.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock = threading.Lock()
    over = threading.Event()
    ended = False

    def watch() -> None:
        worked_until = time.process_time() + seconds
        waited_until = time.monotonic() + SLOWED * seconds
        wait = seconds
        while not over.wait(wait):
            wait = min(1.0, seconds)
            if time.process_time() < worked_until and time.monotonic() < waited_until:
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
        room = PRINTED - self.tell()
        if room > 0:
            super().write(text if len(text) <= room else text[:room] + " …\n")
        return len(text)


@contextlib.contextmanager
def _torch_restored() -> Iterator[list[str]]:
    """Set torch's switches back at the end, and list those that were changed, and how."""
    before = {name: read() for name, read in SWITCHES.items()}
    changed: list[str] = []
    try:
        yield changed
    finally:
        for name, read in SWITCHES.items():
            after = read()
            if after != before[name]:
                getattr(torch, name)(before[name])
                changed.append(f"{name}({after})")


@contextlib.contextmanager
def randomness_kept() -> Iterator[None]:
    """Leave the random numbers to come, of torch, numpy and Python, as if none had been drawn."""
    python = random.getstate()
    numpy = np.random.get_state()
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
            grad = value.grad if value.is_leaf else None
            found[path] = value.detach().to_dense().clone()
            found[f"{path}.requires_grad"] = value.requires_grad
            found[f"{path}.grad"] = None if grad is None else grad.clone()
        elif isinstance(value, np.ndarray):
            found[path] = value.copy()
        elif isinstance(value, nn.Module):
            waiting += _module_parts(path, value)
        else:
            parts = list(_parts(value))
            is_container = bool(parts) or isinstance(value, list | dict | set)
            found[path] = (type(value), len(parts)) if is_container else value
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
    elif not isinstance(value, type | types.ModuleType) and not callable(value):
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def _module_parts(path: str, module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Of a model: parameters, buffers, hooks, modes and configuration."""
    yield from ((f"{path}.{name}", tensor) for name, tensor in module.named_parameters())
    yield from ((f"{path}.{name}", tensor) for name, tensor in module.named_buffers())
    for name, part in module.named_modules():
        place = f"{path}.{name}".rstrip(".")
        hooks = (*part._forward_hooks, *part._forward_pre_hooks, *part._backward_hooks)
        yield f"{place}.hooks", hooks
        yield f"{place}.training", part.training
    yield f"{path}.cfg", getattr(module, "cfg", None)


def _compare(name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise Wrong with a sentence that names what was changed, if anything was."""
    paths = before | after
    changed = [p for p in paths if not _same(before.get(p, ABSENT), after.get(p, ABSENT))]
    if not changed:
        return
    path = min(changed, key=len)
    place = f"`{name}{path}`"
    if ".hooks" in path:
        at = path.split(".hooks")[0].lstrip(".")
        left = f"it leaves a hook on `{name}`, at {at}"
        raise Wrong(f"{left}: use `run_with_hooks`, which takes it off again.")
    if path.startswith(".cfg."):
        left = f"it leaves {place} set to {after.get(path)!r}"
        raise Wrong(f"{left}: set it back, others use the model too.")
    if path.endswith(".grad"):
        left = f"it leaves a gradient in `{name}{path.removesuffix('.grad')}`"
        raise Wrong(f"{left}: take gradients with torch.autograd.grad.")
    given = f"it changes {place}, which it was given"
    raise Wrong(f"{given}: leave arguments as they are, and work on a copy.")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        alike = a.shape == b.shape and a.dtype == b.dtype
        return alike and bool(((a == b) | ((a != a) & (b != b))).all())
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    simple = isinstance(a, int | float | complex | str | bytes | tuple | torch.dtype | torch.device)
    return a is b or (simple and type(a) is type(b) and (a == b or a != a))
