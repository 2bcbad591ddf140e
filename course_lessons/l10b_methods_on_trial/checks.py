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
    clean, same_form = boxes.repeated(batch=6), boxes.repeated(batch=6).roll(1, 0)
    five = boxes.repeated(period=5, batch=6).roll(1, 0)
    committee, brake = boxes.box("committee", 4).model, boxes.box("brake", 5).model
    drawn = [
        torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(seed))
        for seed in (0, 1)
    ]
    wrong = "the costs at each door's turn are not right"
    return {
        f"{wrong} on a box with three heads that give the answer, where a door "
        "can be free at first and no longer after others were patched.": (
            committee,
            clean,
            five,
            boxes.loss,
            0.05,
        ),
        f"{wrong} on a box with a brake, without which the loss falls.": (
            brake,
            clean,
            same_form,
            boxes.loss,
            0.05,
        ),
        f"{wrong} with another metric than the loss: ask `metric`.": (
            committee,
            clean,
            five,
            trial.minus_logit,
            0.5,
        ),
        f"{wrong} where every patch stays, since the threshold is high.": (
            tiny_model(),
            *drawn,
            boxes.loss,
            99.0,
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
        "a patch stays if the metric rises by *less* than the threshold; yours keeps those that "
        "cost more.": _pruned(stays=lambda cost, threshold: cost >= threshold),
        "a patch that makes the metric fall costs less than the threshold, too, so it stays: "
        "leave the sign.": _pruned(stays=lambda cost, threshold: abs(cost) < threshold),
        "every patch stays: first ask what it costs.": _pruned(stays=lambda cost, threshold: True),
        "the doors are asked from the first to the last.": _pruned(order=lambda doors: doors),
    },
)
