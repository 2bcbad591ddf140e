"""Answers to the exercises of lesson 02b: others that are right, and wrong ones with what they hear."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_utils import transforms
from course_utils.course.exercises import Answer
from course_utils.course.fixtures import TOKENS, random
from course_utils.lessons.l02b_algebra.checks import Model, _linear, _with_bias

WRITES, READS = ("W_E", "W_pos", "W_O"), ("W_Q", "W_K", "W_V", "W_U")


def _turned(
    left: tuple[str, ...] = ("nothing",),
    write: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: W @ Q,
    read: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: Q.T @ W,
    new: Callable[[Model], Model] = copy.deepcopy,
) -> Answer:
    """The right answer, with something to get wrong in each keyword; `left` are weights that stay as they are."""

    def answer(model: Model, Q: Tensor) -> Model:
        model = new(model)
        for name, weight in model.named_parameters():
            if not name.endswith(left) and name.endswith(WRITES + READS):
                weight.data = (write if name.endswith(WRITES) else read)(weight.data, Q)
        return model

    return answer


def _loaded(model: Model, Q: Tensor) -> Model:
    turned, weights = Model(model.cfg), model.state_dict()
    for name, weight in weights.items():
        if name.endswith(WRITES):
            weights[name] = torch.einsum("...d,de->...e", weight, Q)
        elif name.endswith(READS):
            weights[name] = torch.einsum("...dn,de->...en", weight, Q)
    turned.load_state_dict(weights)
    return turned


def _doubly(model: Model, Q: Tensor) -> Model:
    """In float64, by way of another turn."""
    half = torch.linalg.qr(random(*Q.shape, seed=8).double())[0]
    return _turned()(_turned()(copy.deepcopy(model).double(), half), half.T @ Q.double()).float()


def _silent(model: Model) -> Model:
    model.add_hook("blocks.0.attn.hook_z", lambda z, hook: 0 * z)
    return model


def _two_layers(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    x = soft @ model.W_E
    for layer in (0, 1):
        x = x + (A[layer] @ x @ model.W_V[layer] @ model.W_O[layer]).sum(0)
    return x @ model.W_U


def _einsum(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    x = soft.double() @ model.W_E.double()
    for pattern, W_V, W_O in zip(A.double(), model.W_V.double(), model.W_O.double(), strict=True):
        x = x + torch.einsum("hds,sm,hmk,hkn->dn", pattern, x, W_V, W_O)
    return x @ model.W_U.double()


def _by_hooks(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    hooks: list[tuple[Any, Callable]] = [
        ("hook_embed", lambda x, hook: (soft @ model.W_E)[None]),
        (lambda name: name.endswith("hook_pattern"), lambda pattern, hook: A[hook.layer()][None]),
    ]
    return model.run_with_hooks(torch.zeros(1, len(soft)).long(), fwd_hooks=hooks)[0]


def _as_sum_of_paths(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    """Every path through the layers is a product of its own."""
    paths = [soft @ model.W_E]
    for A_heads, W_V, W_O in zip(A, model.W_V, model.W_O, strict=True):
        paths += [pattern @ x @ V @ back for x in paths for pattern, V, back in zip(A_heads, W_V, W_O, strict=True)]
    return torch.stack(paths).sum(0) @ model.W_U


RIGHT_ANSWERS = {
    "rotate": {"the course's own": transforms.rotated, "a state dict": _loaded, "in two turns": _doubly},
    "fold_layer_norm": {
        "diag and addmv": lambda w, b, W, b_W: (torch.diag(w) @ W, torch.addmv(b_W, W.T, b)),
        "row by row": lambda w, b, W, b_W: (
            torch.stack([n * row for n, row in zip(w, W, strict=True)]),
            b_W + sum(n * row for n, row in zip(b, W, strict=True)),
        ),
        "numpy, as a list": lambda w, b, W, b_W: [(W.numpy().T * w.numpy()).T, b_W.numpy() + b.numpy() @ W.numpy()],
        "float64": lambda w, b, W, b_W: (w.double()[:, None] * W, b_W.double() + b.double() @ W.double()),
    },
    "frozen_logits": {"einsum, float64": _einsum, "hooks": _by_hooks, "a sum over paths": _as_sum_of_paths},
}


WRONG_ANSWERS = {
    "rotate": {
        "the embedding still writes as it did": (_turned(("W_E",)), _turned(WRITES)),
        "W_pos is not turned": _turned(("W_pos",)),
        "what the heads write is not turned": (_turned(("W_O",)), _turned(("blocks.1.attn.W_O",))),
        "W_U does not undo the turn": (_turned(("W_U",)), _turned(READS), _turned(read=lambda W, Q: Q @ W)),
        "W_V does not undo the turn": _turned(("W_V",)),
        "queries do not undo the turn": _turned(("W_Q", "W_K")),
        "keys do not undo the turn": _turned(("W_K",)),
        "the embedding writes x Qᵀ": _turned(write=lambda W, Q: W @ Q.T),
        "the embedding should write x Q": _turned(write=lambda W, Q: 2 * W @ Q),
        "nothing has been turned": lambda model, Q: copy.deepcopy(model),
        "it returns the model that it was given": lambda model, Q: model,
        "which it was given: leave arguments": _turned(new=lambda model: model),
        "it should return a model, not Tensor": lambda model, Q: model(TOKENS),
        "the turned model's stream or logits": lambda model, Q: _silent(transforms.rotated(model, Q)),
    },
    "fold_layer_norm": {
        "each row of W takes one factor": lambda w, b, W, b_W: (W / w[:, None], b_W + b @ W),
        "the new bias is not what b becomes": _with_bias(lambda w, b, W, b_W: 2 * b_W + b @ W),
        "it fails for a map from 4": _with_bias(lambda w, b, W, b_W: b_W + b @ W + (len(b_W) == 1)),
    },
    "frozen_logits": {
        "should be the model's own": lambda m, s, A: _linear(m, s, A) - s @ m.W_E @ m.W_U,
        "it is not linear in `soft`": lambda m, s, A: _linear(m, torch.eye(s.shape[1])[s.argmax(1)], A),
        "it fails for 3 layers": _two_layers,
    },
}
