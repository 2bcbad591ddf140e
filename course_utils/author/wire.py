"""Calls from process to process with nothing in them that could run: JSON, and numbers as bytes.

Both ends are a Peer. A function is sent as a number, and the other end calls it back by that number. `grade` lets the
learner's function answer at one end while the check asks at the other.
"""

import copy
import json
import math
from collections.abc import Callable
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformer_lens import FactoredMatrix, HookedTransformer, HookedTransformerConfig
from transformer_lens.hook_points import HookPoint

from course_utils.course.guard import Blank
from course_utils.course.questions import Wrong

MOST_WORDS = 1_000_000  # bytes of a message's JSON
MOST_ASKED = 100_000  # bytes of a call that comes from an end we do not trust: a part of a check takes small tensors
KINDS = {"tuple", "set", "dict", "tensor", "dtype", "function", "hook", "namespace", "factors", "other"}
KINDS |= {"model", "same", "like"}
WORDS = 200  # characters of a sentence that comes from there


class Connection(Protocol):
    """What carries the messages: one end of a `multiprocessing.Pipe`, or something around it."""

    def send_bytes(self, message: bytes) -> None: ...
    def recv_bytes(self) -> bytes: ...


class Peer:
    """One end of a connection; `trusts` says whether what comes from the other end may say how a model is built."""

    def __init__(self, connection: Connection, trusts: bool) -> None:
        self.connection, self.trusts = connection, trusts
        self.offered: list[Callable[..., Any]] = []  # the other end calls them by their numbers
        self.models: list[HookedTransformer] = []  # that went from the trusted end to the other, numbered at both

    def call(self, number: int, args: tuple = (), kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
        """The reply to a call; on the way to it the other end may call what it was offered."""
        self._send({"call": number, "args": list(args), "kwargs": kwargs or {}})
        while True:
            message = self._receive()
            if "call" not in message:
                return message
            self._answer(message)

    def serve(self) -> None:
        """Answer calls until the other end closes."""
        while True:
            self._answer(self._receive())

    def _answer(self, message: dict[str, Any]) -> None:
        """Call what was asked for, and send what it returns and which tensors it changed, or how it failed."""
        try:
            args, kwargs = message["args"], message["kwargs"]
            before = [arg.clone() if isinstance(arg, Tensor) else None for arg in args]
            value = self.offered[message["call"]](*args, **kwargs)
            changed = {
                place: args[place]
                for place, old in enumerate(before)
                if old is not None and not torch.equal(old, args[place])
            }
            reply = {"value": value, "changed": changed}
        except EOFError:  # the other end is gone
            raise
        except BaseException as error:
            reply = _failure(error)
        self._send(reply)

    def _send(self, message: Any) -> None:
        packed = _Packing(self)
        try:
            words = json.dumps(packed.value(message))
        except (ValueError, RecursionError, RuntimeError) as error:  # a number too long, a list that holds itself
            words, packed.numbers = json.dumps(packed.value(_failure(error))), []
        self.connection.send_bytes(b"\n".join([words.encode(), b"".join(packed.numbers)]))

    def _receive(self) -> dict[str, Any]:
        """The next message. Raises Wrong for one that can't be read, if it comes from an end that we do not trust."""
        message = self.connection.recv_bytes()
        try:
            words, _, numbers = message.partition(b"\n")
            if len(words) > MOST_WORDS and not self.trusts:
                raise Wrong("it returns too much to be looked at.")
            read = _Unpacking(self, numbers).value(json.loads(words))
            if not isinstance(read, dict):
                raise TypeError(type(read).__name__)
            if "call" in read and len(message) > MOST_ASKED and not self.trusts:
                raise Wrong("it calls what it was given with far more numbers than there are.")
            return read
        except (ArithmeticError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError, ValueError) as e:
            raise Wrong(f"what it returns can't be read ({type(e).__name__}).") from None


class Remote:
    """A function at the other end."""

    def __init__(self, peer: Peer, number: int) -> None:
        self.peer, self.number = peer, number
        self.changes_arguments = True  # whether what it changes in tensors, it changes here too, as a hook may

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        reply = self.peer.call(self.number, args, kwargs)
        if "failed" in reply:
            raise _raised(reply)
        if self.changes_arguments:
            for place, value in reply.get("changed", {}).items():
                args[place].copy_(value)
        return reply.get("value")


def _failure(error: BaseException) -> dict[str, Any]:
    known = type(error).__name__ if isinstance(error, Blank | Wrong) else ""
    by_torch = isinstance(error.__cause__, RuntimeError)  # a check looks at it
    return {"failed": known, "kind": type(error).__name__, "said": str(error)[:1000], "by torch": by_torch}


def _raised(reply: dict[str, Any]) -> Exception:
    said = str(reply.get("said"))[:WORDS]
    if reply["failed"] == "Blank":
        return Blank()
    if reply["failed"] == "Wrong":
        error = Wrong(said)
        error.__cause__ = RuntimeError() if reply.get("by torch") else None
        return error
    return type(str(reply.get("kind"))[:WORDS], (Exception,), {})(said)


class _Packing:
    """A value as JSON; the bytes of its tensors stand aside."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.numbers: list[bytes] = []
        self.at = 0

    def value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return float(value)
        if isinstance(value, list):
            return [self.value(part) for part in value]
        if isinstance(value, tuple):
            return {"tuple": [self.value(part) for part in value]}
        if isinstance(value, set | frozenset):
            return {"set": [self.value(part) for part in value]}
        if isinstance(value, dict):
            return {"dict": [[self.value(key), self.value(part)] for key, part in value.items()]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiubc":
            value = torch.from_numpy(np.array(value))
        if isinstance(value, Tensor):
            return self._tensor(value)
        return self._thing(value)

    def _tensor(self, value: Tensor) -> Any:
        dense = value.detach().to_dense().cpu().resolve_conj().resolve_neg().contiguous()
        data = dense.flatten().view(torch.uint8).numpy().tobytes() if dense.numel() else b""
        self.numbers.append(data)
        self.at += len(data)
        return {"tensor": str(dense.dtype).split(".")[1], "shape": list(dense.shape), "at": self.at - len(data)}

    def _thing(self, value: Any) -> Any:
        if isinstance(value, HookedTransformer):
            return self._model(value)
        if isinstance(value, FactoredMatrix):
            return {"factors": [self.value(value.A), self.value(value.B)]}
        if isinstance(value, SimpleNamespace):
            return {"namespace": self.value(vars(value))}
        if isinstance(value, HookPoint):
            return {"hook": value.name}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).split(".")[1]}
        if callable(value) and not isinstance(value, type):
            self.peer.offered.append(value)
            return {"function": len(self.peer.offered) - 1}
        return {"other": type(value).__name__}

    def _model(self, model: HookedTransformer) -> Any:
        """A model that we make; or, at the other end, one that came from here, as it is or with other weights."""
        if not self.peer.trusts:
            self.peer.models.append(model)
            cfg = {key: value for key, value in model.cfg.to_dict().items() if value is None or not callable(value)}
            return {"model": self.value(cfg), "weights": self.value(dict(model.state_dict())), "set": _settings(model)}
        shapes = [weight.shape for weight in model.state_dict().values()]
        for number, known in reversed([*enumerate(self.peer.models)]):
            if known is model:
                return {"same": number}
            if [weight.shape for weight in known.state_dict().values()] == shapes:
                return {"like": number, "weights": self.value(dict(model.state_dict())), "set": _settings(model)}
        return {"other": "HookedTransformer with weights of other shapes"}


class _Unpacking:
    """The value that JSON and the bytes aside stand for."""

    def __init__(self, peer: Peer, numbers: bytes) -> None:
        self.peer, self.numbers = peer, numbers

    def value(self, packed: Any) -> Any:
        if isinstance(packed, list):
            return [self.value(part) for part in packed]
        if not isinstance(packed, dict):
            return packed
        kind = next(iter(packed))
        if kind not in KINDS:
            raise ValueError(kind)
        return getattr(self, f"_{kind}")(packed[kind], packed)

    def _tuple(self, parts: list, packed: dict) -> tuple:
        return tuple(map(self.value, parts))

    def _set(self, parts: list, packed: dict) -> set:
        return set(map(self.value, parts))

    def _dict(self, parts: list, packed: dict) -> dict:
        return {self.value(key): self.value(part) for key, part in parts}

    def _tensor(self, dtype: str, packed: dict) -> Tensor:
        kind, shape, at = self._dtype(dtype, packed), packed["shape"], packed["at"]
        count = math.prod(shape)
        if not count:
            return torch.empty(shape, dtype=kind)
        data = bytearray(self.numbers[at : at + count * kind.itemsize])
        return torch.frombuffer(data, dtype=kind).reshape(shape)

    def _dtype(self, name: str, packed: dict) -> torch.dtype:
        if not isinstance(kind := getattr(torch, name), torch.dtype):
            raise TypeError(name)
        return kind

    def _function(self, number: int, packed: dict) -> Remote:
        return Remote(self.peer, number)

    def _hook(self, name: str, packed: dict) -> HookPoint:
        point = HookPoint()
        point.name = name
        return point

    def _namespace(self, fields: dict, packed: dict) -> SimpleNamespace:
        return SimpleNamespace(**self.value(fields))

    def _factors(self, factors: list, packed: dict) -> FactoredMatrix:
        return FactoredMatrix(*map(self.value, factors))

    def _other(self, name: str, packed: dict) -> Any:
        """Something that is not sent; of its type's name, so that a check can say what it is not."""
        return type(name[:WORDS], (), {})()

    def _same(self, number: int, packed: dict) -> HookedTransformer:
        return self.peer.models[number]

    def _like(self, number: int, packed: dict) -> HookedTransformer:
        model = copy.deepcopy(self.peer.models[number])
        model.load_state_dict(self.value(packed["weights"]))
        _set(model, packed["set"])
        return model

    def _model(self, cfg: dict, packed: dict) -> HookedTransformer:
        """A model as the trusted end describes it. Who may name a tokenizer could load what he likes."""
        if not self.peer.trusts:
            raise TypeError("a model's configuration")
        config = HookedTransformerConfig.from_dict(self.value(cfg) | {"init_weights": False, "seed": None})
        model = HookedTransformer(config).eval().requires_grad_(False)
        model.load_state_dict(self.value(packed["weights"]))
        _set(model, packed["set"])
        self.peer.models.append(model)
        return model


def _settings(model: HookedTransformer) -> dict[str, dict[str, float]]:
    """What plain numbers and switches a model, its parts and its configuration hold."""
    places: dict[str, nn.Module | HookedTransformerConfig] = {**dict(model.named_modules()), "cfg": model.cfg}
    return {
        place: {name: value for name, value in vars(part).items() if isinstance(value, float | int)}
        for place, part in places.items()
    }


def _set(model: HookedTransformer, settings: dict[str, dict[str, float]]) -> None:
    """Give a model these settings, where it has one of the name and kind; nothing else can be set."""
    places: dict[str, Any] = {**dict(model.named_modules()), "cfg": model.cfg}
    for place, values in settings.items():
        for name, value in values.items():
            kinds = isinstance(value, bool), isinstance(value, float | int)  # a bool is an int too
            old = vars(places[place]).get(name)
            if all(kinds[1:]) and (isinstance(old, bool), isinstance(old, float | int)) == kinds:
                setattr(places[place], name, value)
