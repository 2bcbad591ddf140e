"""Answers to lesson 10's exercises: others that are right, and wrong ones with what they hear."""

from typing import Any

import torch

from course_lessons import boxes
from course_lessons.l10_reading_critically.checks import _as_a_quantity, _estimates, _probed


def _gradient_at_z(model: Any, clean: Any, other: Any) -> dict:
    """The gradient is carried back to z, and meets the change there."""
    loss, reads, z = boxes.recorded(model, clean)
    new = boxes.recorded(model, other).z
    found = {}
    for door in boxes.doors(model):
        writer, path, (layer, head) = door
        (gradient,) = torch.autograd.grad(loss, [reads[path, layer]], retain_graph=True)
        back = gradient[:, :, head] @ boxes.through(model, door).T
        found[door] = float((back * (new[writer] - z[writer])).sum())
    return found


def _by_backward(model: Any, clean: Any, other: Any) -> dict:
    loss, reads, z = boxes.recorded(model, clean)
    new = boxes.recorded(model, other).z
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


def _by_pinv(stream: Any, target: Any, n_classes: int) -> Any:
    half = len(stream) // 2
    wanted = torch.zeros(half, n_classes)
    wanted[torch.arange(half), target[:half]] = 1
    outputs = stream[half:] @ torch.linalg.pinv(stream[:half]) @ wanted
    return (outputs.max(-1).indices == target[half:]).double().mean()


RIGHT_ANSWERS = {
    "attribution_patching": {
        "at z": _gradient_at_z,
        "backward": _by_backward,
        "the sum of a product": _estimates(),
    },
    "probe": {
        "pinv": _by_pinv,
        "our own probe": _probed(),
        "plus and minus one": lambda stream, target, n: (
            (
                (
                    stream[len(stream) // 2 :]
                    @ torch.linalg.lstsq(
                        stream[: len(stream) // 2], torch.eye(n)[target[: len(stream) // 2]] * 3.0
                    ).solution
                ).argmax(1)
                == target[len(stream) // 2 :]
            )
            .sum()
            .item()
            / (len(stream) - len(stream) // 2)
        ),
    },
}


WRONG_ANSWERS = {
    "attribution_patching": {
        "the sign is turned round": _estimates(change=lambda z, new: z - new),
        "used whole": _estimates(change=lambda z, new: new),
        "it is the mean over texts, positions": _estimates(total=torch.mean),
        "it is the mean over texts; the loss": _estimates(
            total=lambda product: product.sum((1, 2)).mean()
        ),
        "the size of each product": _estimates(total=lambda product: product.abs().sum()),
        "carry it there": _estimates(carry=lambda through: torch.eye(len(through))),
        "is turned round: vectors are rows": _estimates(carry=lambda through: through.T),
        "that of another head": _estimates(at_reader=lambda head, n: 0),
        "it should return a dictionary": lambda *given: [1.0, 2.0],
        "one number": lambda *given: {door: torch.ones(2) for door in _estimates()(*given)},
    },
    "probe": {
        "it is fitted on all rows": _probed(fit=lambda n: slice(None)),
        "on which it was fitted": _probed(score=lambda n: slice(n // 2)),
        "it is scored on all rows": _probed(score=lambda n: slice(None)),
        "it predicts the number of the class": _as_a_quantity,
        "it is fitted on the second half": _probed(
            fit=lambda n: slice(n // 2, None), score=lambda n: slice(n // 2)
        ),
        "a column of ones": _probed(constant=True),
        "it counts the rows": _probed(total=torch.sum),
        "it should return one number": lambda stream, target, n: stream,
    },
}
