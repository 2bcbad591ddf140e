"""Checks of lesson 10b, methods on trial: its exercise, and what each mistake is told."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import boxes
from course_lessons.boxes import Metric
from course_lessons.fixtures import tiny_model
from course_lessons.l10b_methods_on_trial import trial
from course_utils.course.exercises import Answer, compared
from course_utils.course.expectations import Wrong
from course_utils.interventions import Door


def _pruned(
    order: Callable[[Sequence[Door]], Sequence[Door]] = lambda doors: doors[::-1],
    keeps: bool = True,
    follows: bool = True,
    zero: bool = True,
    stays: Callable[[float, float], bool] = lambda cost, threshold: cost < threshold,
    moves: bool = False,
) -> Answer:
    """An answer with something to get wrong in each keyword."""

    def answer(
        model: HookedTransformer, clean: Tensor, other: Tensor, metric: Metric, threshold: float
    ) -> dict:
        elsewhere, now = boxes.recorded(model, other).z, metric(model, clean).item()
        patched: list[Door] = []
        scores: dict[Door, float] = {}
        for door in order(boxes.doors(model)):
            after = boxes.patched(model, clean, [*patched, door], elsewhere, metric)
            scores[door] = after - now
            if stays(scores[door], threshold):
                scores[door] = 0.0 if zero else scores[door]
                patched = [*patched, door] if keeps else patched
                now = after if follows else now
            now = after if moves else now
        return scores

    return answer


def _in_order(value: Any) -> Tensor:
    """The costs of all doors, in one order."""
    if not isinstance(value, dict) or not value:
        raise Wrong("it should return a dictionary, {door: cost}.")
    try:
        return torch.tensor([float(value[door]) for door in sorted(value)])
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("each door of `boxes.doors(model)` should have one number.") from None


def _cases() -> dict[str, Any]:
    drawn = [
        torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(seed))
        for seed in (0, 1)
    ]
    given = (tiny_model(), *drawn)
    return {
        "the doors' scores are not right: ask from the last door to the first, each together with "
        "the patches that stay, and count from `now`.": (*given, boxes.loss, 0.03),
        "where the threshold is high, every patch stays, and all scores are 0.": (
            *given,
            boxes.loss,
            99.0,
        ),
        "where the threshold is low, each patch is taken back, and each door is asked alone.": (
            *given,
            boxes.loss,
            -99.0,
        ),
        "it is not right with another metric than the loss: ask `metric`.": (
            *given,
            trial.minus_logit,
            0.02,
        ),
    }


acdc = compared(
    "`acdc(model, clean, other, metric, threshold) → {door: cost}`: what each door's patch costs "
    "at its turn, 0 where it stays.",
    returns="{door: cost}",
    cases=_cases,
    as_read=_in_order,
    mistakes={
        "each door is patched alone: those that stay should be patched with it.": _pruned(
            keeps=False, follows=False
        ),
        "the cost is counted from the whole model; count it from what the doors that stay "
        "have left, `now`.": _pruned(follows=False),
        "`now` moves on, but the door is not kept among those that stay.": _pruned(keeps=False),
        "a door whose patch stays should have the score 0.": _pruned(zero=False),
        "`now` changes only when a patch stays; when it is taken back, all is as before.": _pruned(
            moves=True
        ),
        "a patch stays if the metric rises by *less* than the threshold; yours keeps those that "
        "cost more.": _pruned(stays=lambda cost, threshold: cost >= threshold),
        "a fall is less than the threshold, too, so the patch stays: leave the sign.": _pruned(
            stays=lambda cost, threshold: abs(cost) < threshold
        ),
        "every patch stays: first ask what it costs.": _pruned(stays=lambda cost, threshold: True),
        "the doors are asked from the first to the last.": _pruned(order=lambda doors: doors),
    },
)
