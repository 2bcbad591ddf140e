"""Answers to lesson 08's exercises: others that are right, and wrong ones with what they hear."""

import numpy as np
import torch
from torch import Tensor

from course_lessons.formation import runs
from course_lessons.formation.forward import held_logits
from course_lessons.l08_how_induction_forms.checks import _holding


def _divided(parts: Tensor) -> Tensor:
    return parts.prod() / parts


def _by_gradient(parts: Tensor) -> Tensor:
    parts = parts.clone().requires_grad_()
    return torch.autograd.grad(parts.prod(), parts)[0]


def _one_by_one(keys: Tensor) -> Tensor:
    mixed = [keys[:, 0]]
    for place in range(1, keys.shape[1]):
        mixed.append(0.5 * keys[:, place] + 0.5 * keys[:, place - 1])
    return torch.stack(mixed, 1)


def _by_matrix(keys: Tensor) -> Tensor:
    n = keys.shape[1]
    mixing = (torch.eye(n) + torch.eye(n).roll(1, 0).tril()) / 2  # [place, mixed from]
    mixing[0, 0] = 1
    return torch.einsum("pq,bqhd->bphd", mixing, keys)


def _keys_with_numpy(keys: Tensor) -> np.ndarray:
    found = keys.numpy().astype(float)
    return np.concatenate([found[:, :1], (found[:, 1:] + found[:, :-1]) / 2], axis=1)


RIGHT_ANSWERS = {
    "slopes": {
        "by gradient": _by_gradient,
        "rolled": lambda parts: parts.roll(1) * parts.roll(2),
        "numpy": lambda parts: np.array([np.prod(np.delete(parts.numpy(), i)) for i in range(3)]),
    },
    "smeared": {
        "the package's": runs.smeared,
        "a loop": _one_by_one,
        "a matrix": _by_matrix,
        "numpy": _keys_with_numpy,
    },
    "patterns_from": {
        "queries and keys held": lambda m, o, t: _holding(
            m, o, t, "0.attn.hook_q", "0.attn.hook_k"
        ),
        "scores held": lambda m, o, t: _holding(m, o, t, "0.attn.hook_attn_scores"),
        "without hooks": lambda m, o, t: held_logits(m, t, o, ["look"]),
    },
}


WRONG_ANSWERS = {
    "slopes": {
        "infinite or not a number": _divided,
        "the product of the other two": (
            lambda parts: parts,
            lambda parts: torch.stack([parts[1] * parts[2]] * 3),
        ),
    },
    "smeared": {
        "be half itself and half": (
            lambda keys: 0.6 * runs.smeared(keys) + 0.4 * keys,
            lambda keys: runs.smeared(keys, (torch.arange(keys.shape[1]) - 2).clamp(min=0)),
        ),
        "the last place's key in there": lambda keys: (
            (keys + torch.cat([keys[:, -1:], keys[:, :-1]], 1)) / 2
        ),
        "the first stays as it is": lambda keys: torch.cat(
            [keys[:, :1] / 2, runs.smeared(keys)[:, 1:]], 1
        ),
    },
    "patterns_from": {
        "that is not `model` with": lambda m, o, t: _holding(m, o, t, "0.attn.hook_q")
    },
}
