"""Answers to the exercises of lesson 10: others that are right, and wrong ones with what they hear."""

from typing import Any

import numpy as np
import torch

from course_utils.lessons.l10_reading_critically import boxes
from course_utils.lessons.l10_reading_critically.checks import _estimates, _precision


def _by_counting(scores: dict, truth: set) -> float:
    total = 0.0
    for door in truth:
        above = [other for other in scores if abs(scores[other]) >= abs(scores[door])]
        total += sum(other in truth for other in above) / len(above)
    return total / len(truth)


def _by_numpy(scores: dict, truth: set) -> Any:
    order = np.argsort([-abs(x) for x in scores.values()])
    hit = np.array([door in truth for door in scores])[order]
    return (np.cumsum(hit) / np.arange(1, len(hit) + 1))[hit].mean()


def _walking_down(scores: dict, truth: set) -> float:
    met, precisions = 0, []
    for rank, (door, _) in enumerate(sorted(scores.items(), key=lambda item: item[1] ** 2, reverse=True)):
        if door in truth:
            met += 1
            precisions.append(met / (rank + 1))
    return sum(precisions) / len(precisions)


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
        slope: Any = reads[path, reader[0]].grad
        found[writer, path, reader] = torch.einsum("bph,bph->", slope[:, :, reader[1]], moved).item()
    return found


RIGHT_ANSWERS = {
    "average_precision": {"by counting": _by_counting, "numpy": _by_numpy, "walking down": _walking_down},
    "attribution_patching": {"at z": _gradient_at_z, "backward": _by_backward, "the sum of a product": _estimates()},
}


WRONG_ANSWERS = {
    "average_precision": {
        "the ranking is upside down": _precision(down=-1),
        "ranked by their sign": _precision(size=float),
        "counts that door alone": _precision(part=lambda met, rank: 1 / rank),
        "that is the sum": lambda scores, truth: _precision()(scores, truth) * len(truth),
        "are perfect: 1": lambda scores, truth: 0.5,
        "a true door on rank 3": lambda scores, truth: max(_precision()(scores, truth), 0.4),
    },
    "attribution_patching": {
        "the sign is turned round": _estimates(change=lambda z, new: z - new),
        "used whole": _estimates(change=lambda z, new: new),
        "it is the mean over texts": _estimates(total=torch.mean),
        "the size of each product": _estimates(total=lambda product: product.abs().sum()),
        "that of another head": _estimates(at_reader=lambda head, n: 0),
        "it ignores `at`": lambda model, clean, other, at=None: _estimates()(model, clean, other),
        "it should return a dictionary": lambda *given: [1.0, 2.0],
        "one number": lambda *given: {door: torch.ones(2) for door in _estimates()(*given)},
    },
}
