"""Checks of lesson 10, reading critically: its exercise, and what each mistake is told."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random, tiny_model
from course_lessons.l10_reading_critically import boxes
from course_utils.course.exercises import Answer, compared
from course_utils.course.expectations import Wrong


def _texts() -> tuple[Tensor, Tensor]:
    def drawn(seed: int) -> Tensor:
        return torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(seed))

    return drawn(0), drawn(1)


def _estimates(
    change: Callable[[Tensor, Tensor], Tensor] = lambda z, new: new - z,
    at_reader: Callable[[int, int], int] = lambda head, n: head,
    total: Callable[[Tensor], Tensor] = torch.sum,
    carry: Callable[[Tensor], Tensor] = lambda through: through,
) -> Answer:
    """An answer with something to get wrong in each keyword.

    That is another change, another head's gradient, another sum or another way from writer to
    reader.
    """

    def answer(
        model: HookedTransformer, clean: Tensor, other: Tensor, at: Tensor | None = None
    ) -> dict:
        loss, reads, _ = boxes.recorded(model, clean, at)
        z, z_other = boxes.recorded(model, clean).z, boxes.recorded(model, other).z
        gradients = dict(zip(reads, torch.autograd.grad(loss, list(reads.values())), strict=True))
        result = {}
        for door in boxes.doors(model):
            writer, path, (layer, head) = door
            moved = change(z[writer], z_other[writer]) @ carry(boxes.through(model, door))
            gradient = gradients[path, layer][:, :, at_reader(head, model.cfg.n_heads)]
            result[door] = total(gradient * moved).item()
        return result

    return answer


def _in_order(value: Any) -> Tensor:
    """The estimates of all doors, in one order."""
    if not isinstance(value, dict) or not value:
        raise Wrong("it should return a dictionary, {door: estimate}.")
    try:
        return torch.tensor([float(value[door]) for door in sorted(value)])
    except (TypeError, ValueError, RuntimeError):
        raise Wrong(
            "each door of `boxes.doors(model)` should have one number: `.sum().item()`."
        ) from None


def _cases() -> dict[str, Any]:
    return {
        "with the clean text as the other one, no door changes: all estimates are 0.": (
            tiny_model(),
            *_texts()[:1] * 2,
        ),
        "these are not gradient · change, summed over texts, "
        "positions and dimensions, for each door.": (tiny_model(), *_texts()),
        "it fails for three layers: a door of layer 2 reads `reads[door, 2]`.": (
            tiny_model(n_layers=3),
            *_texts(),
        ),
        "it ignores `at`: take the gradients of the `loss` and `reads` that are given.": (
            tiny_model(),
            *_texts(),
            random(3, 9, 10),
        ),
    }


attribution_patching = compared(
    "`attribution_patching(model, clean, other, at) → {door: "
    "nats}`: each door's patch, from one gradient.",
    returns="{door: nats}",
    cases=_cases,
    as_read=_in_order,
    mistakes={
        "the sign is turned round: the change is what the head moves on the other text, "
        "less what it moves here.": (_estimates(change=lambda z, new: z - new)),
        "what the head moves on the other text is used whole; "
        "the change is the difference of both texts.": _estimates(change=lambda z, new: new),
        "the writer's change meets the reader's gradient as it is: carry it there, `@ "
        "boxes.through(model, door)`.": (_estimates(carry=lambda through: torch.eye(len(through)))),
        "the matrix from writer to reader is turned round: vectors are rows, "
        "`change @ boxes.through(model, door)`.": (_estimates(carry=lambda through: through.T)),
        "it is the mean over texts, positions and dimensions; "
        "the loss is a mean already, so take the sum.": _estimates(total=torch.mean),
        "the size of each product is summed; signs belong to the estimate.": _estimates(
            total=lambda product: product.abs().sum()
        ),
        "the gradient is that of another head: take `[:, :, head]` of the reader.": (
            _estimates(at_reader=lambda head, n: 0),
            _estimates(at_reader=lambda head, n: n - 1 - head),
        ),
    },
)
