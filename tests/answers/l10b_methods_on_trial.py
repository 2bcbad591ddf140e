"""Answers to lesson 10b's exercise: others that are right, and wrong ones with what they hear."""

from typing import Any

from course_lessons import boxes
from course_lessons.l10b_methods_on_trial.checks import _pruned
from course_utils import interventions


def _without_now(model: Any, clean: Any, other: Any, metric: Any, threshold: float) -> dict:
    """The metric before each patch is measured anew, with a cut of its own."""
    elsewhere, stays, found = boxes.recorded(model, other).z, [], {}
    for door in sorted(boxes.doors(model), key=boxes.doors(model).index, reverse=True):
        with interventions.cut(model, *stays, instead=elsewhere):
            before = metric(model, clean)
        with interventions.cut(model, *stays, door, instead=elsewhere):
            cost = float(metric(model, clean) - before)
        if cost < threshold:
            stays.append(door)
        found[door] = cost * (cost >= threshold)
    return found


def _by_rank(model: Any, clean: Any, other: Any, metric: Any, threshold: float) -> dict:
    """The doors by number, and those that stay as a mask."""
    doors, elsewhere = boxes.doors(model), boxes.recorded(model, other).z
    stay, costs = [False] * len(doors), [0.0] * len(doors)

    def with_patched(*more: int) -> float:
        chosen = [door for n, door in enumerate(doors) if stay[n] or n in more]
        return boxes.patched(model, clean, chosen, elsewhere, metric)

    for n in range(len(doors) - 1, -1, -1):
        cost = with_patched(n) - with_patched()
        stay[n] = cost < threshold
        costs[n] = 0.0 if stay[n] else cost
    return dict(zip(doors, costs, strict=True))


RIGHT_ANSWERS = {
    "acdc": {
        "measured anew": _without_now,
        "our own": _pruned(),
        "by what stays": _by_rank,
    },
}


WRONG_ANSWERS = {
    "acdc": {
        "patched alone": _pruned(keeps=False, follows=False),
        "counted from the whole model": _pruned(follows=False),
        "not kept among those": _pruned(keeps=False),
        "should have the score 0": _pruned(zero=False),
        "changes only when a patch stays": _pruned(moves=True),
        "yours keeps those that cost more": _pruned(stays=lambda cost, threshold: cost > threshold),
        "leave the sign": _pruned(stays=lambda cost, threshold: abs(cost) < threshold),
        "every patch stays": _pruned(stays=lambda cost, threshold: True),
        "from the first to the last": _pruned(order=lambda doors: doors),
        "with another metric than": lambda model, clean, other, metric, threshold: _pruned()(
            model, clean, other, boxes.loss, threshold
        ),
        "it should return a dictionary": lambda *given: [1.0, 2.0],
        "one number": lambda *given: dict.fromkeys(_pruned()(*given), "much"),
    },
}
