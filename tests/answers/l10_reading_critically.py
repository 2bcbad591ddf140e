"""Answers to lesson 10's exercise: others that are right, and wrong ones with what they hear."""

from typing import Any

import torch

from course_lessons.l10_reading_critically import boxes
from course_lessons.l10_reading_critically.checks import _estimates


def _gradient_at_z(model: Any, clean: Any, other: Any, at: Any = None) -> dict:
    """The gradient is carried back to z, and meets the change there."""
    loss, reads, _ = boxes.recorded(model, clean, at)
    z, new = boxes.recorded(model, clean).z, boxes.recorded(model, other).z
    found = {}
    for door in boxes.doors(model):
        writer, path, (layer, head) = door
        (gradient,) = torch.autograd.grad(loss, [reads[path, layer]], retain_graph=True)
        back = gradient[:, :, head] @ boxes.through(model, door).T
        found[door] = float((back * (new[writer] - z[writer])).sum())
    return found


def _by_backward(model: Any, clean: Any, other: Any, at: Any = None) -> dict:
    loss, reads, _ = boxes.recorded(model, clean, at)
    z, new = boxes.recorded(model, clean).z, boxes.recorded(model, other).z
    for read in reads.values():
        read.retain_grad()
    loss.backward()
    found = {}
    for writer, path, reader in boxes.doors(model):
        moved = (new[writer] - z[writer]) @ boxes.through(model, (writer, path, reader))
        layer, head = reader
        slope: Any = reads[path, layer].grad
        product = torch.einsum("bph,bph->", slope[:, :, head], moved)
        found[writer, path, reader] = product.item()
    return found


RIGHT_ANSWERS = {
    "attribution_patching": {
        "at z": _gradient_at_z,
        "backward": _by_backward,
        "the sum of a product": _estimates(),
    }
}


WRONG_ANSWERS = {
    "attribution_patching": {
        "the sign is turned round": _estimates(change=lambda z, new: z - new),
        "used whole": _estimates(change=lambda z, new: new),
        "it is the mean over texts": _estimates(total=torch.mean),
        "the size of each product": _estimates(total=lambda product: product.abs().sum()),
        "carry it there": _estimates(carry=lambda through: torch.eye(len(through))),
        "is turned round: vectors are rows": _estimates(carry=lambda through: through.T),
        "that of another head": _estimates(at_reader=lambda head, n: 0),
        "it ignores `at`": lambda model, clean, other, at=None: _estimates()(model, clean, other),
        "it should return a dictionary": lambda *given: [1.0, 2.0],
        "one number": lambda *given: {door: torch.ones(2) for door in _estimates()(*given)},
    }
}
