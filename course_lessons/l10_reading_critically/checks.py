"""Checks of lesson 10, reading critically: its exercises, and what each mistake is told."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import boxes
from course_lessons.fixtures import random, tiny_model
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

    def answer(model: HookedTransformer, clean: Tensor, other: Tensor) -> dict:
        loss, reads, z = boxes.recorded(model, clean)
        z_other = boxes.recorded(model, other).z
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
    }


attribution_patching = compared(
    "`attribution_patching(model, clean, other) → {door: "
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
        "it is the mean over texts; the loss is one already, so sum here.": _estimates(
            total=lambda product: product.sum((1, 2)).mean()
        ),
        "the size of each product is summed; signs belong to the estimate.": _estimates(
            total=lambda product: product.abs().sum()
        ),
        "the gradient is that of another head: take `[:, :, head]` of the reader.": (
            _estimates(at_reader=lambda head, n: 0),
            _estimates(at_reader=lambda head, n: n - 1 - head),
        ),
    },
)


def _probed(
    fit: Callable[[int], slice] = lambda n: slice(n // 2),
    score: Callable[[int], slice] = lambda n: slice(n // 2, None),
    constant: bool = False,
    total: Callable[[Tensor], Tensor] = torch.mean,
) -> Answer:
    """A probe with something to get wrong in each keyword."""

    def answer(stream: Tensor, target: Tensor, n_classes: int) -> float:
        rows = torch.cat([stream, torch.ones(len(stream), 1)], 1) if constant else stream
        seen, judged = fit(len(rows)), score(len(rows))
        weights = torch.linalg.lstsq(rows[seen], torch.eye(n_classes)[target[seen]]).solution
        right = (rows[judged] @ weights).argmax(-1) == target[judged]
        return total(right.float()).item()

    return answer


def _as_a_quantity(stream: Tensor, target: Tensor, n_classes: int) -> float:
    half = len(stream) // 2
    weights = torch.linalg.lstsq(stream[:half], target[:half, None].float()).solution
    guesses = (stream[half:] @ weights)[:, 0].round()
    return (guesses == target[half:]).float().mean().item()


def _readable(n: int, n_classes: int, seed: int) -> tuple[Tensor, Tensor, int]:
    """A stream from which a class can be read, but not always: [n, 6], [n]."""
    stream = random(n, 6, seed=seed)
    scores = stream @ random(6, n_classes, seed=seed + 1)
    return stream, (scores + 1.5 * random(n, n_classes, seed=seed + 2)).argmax(-1), n_classes


def _share(value: Any) -> Tensor:
    """The share as one number."""
    try:
        return torch.as_tensor(float(value))
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("it should return one number, the share that is right.") from None


probe = compared(
    "`probe(stream, target, n_classes) → share`: what a linear probe of the first half of the rows "
    "gets right in the second.",
    returns="share",
    cases=lambda: {
        "is a class the largest of the outputs, fitted on the first half and scored on the "
        "second?": [_readable(120, 4, 0), _readable(91, 5, 10), _readable(60, 3, 20)],
    },
    as_read=_share,
    mistakes={
        "it is fitted on all rows, so it is scored on rows that it has seen: fit the first half.": (
            _probed(fit=lambda n: slice(None))
        ),
        "it is scored on the rows on which it was fitted: take the second half.": _probed(
            score=lambda n: slice(n // 2)
        ),
        "it is scored on all rows, of which it has seen half: take the second half.": _probed(
            score=lambda n: slice(None)
        ),
        "it predicts the number of the class, as if class 4 were twice class 2: give each class "
        "a column of its own, `torch.eye(n_classes)[target]`.": _as_a_quantity,
        "it is fitted on the second half and scored on the first.": _probed(
            fit=lambda n: slice(n // 2, None), score=lambda n: slice(n // 2)
        ),
        "it has a column of ones: this probe is a matrix alone.": _probed(constant=True),
        "it counts the rows that are right; the share is their mean.": _probed(total=torch.sum),
    },
)
