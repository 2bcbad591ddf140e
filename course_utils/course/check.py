"""Feedback on exercises, one line each: ✓ right, ✗ with what went wrong, ○ not attempted yet.

`check.direct_path(direct_path)` calls the learner's function and compares; a wrong answer hears
what it did instead, and never sees the right one. After ✓ the lesson goes on with the learner's
function, else with ours: `direct_path = check.direct_path(direct_path)`.
`check.hint("direct_path")` shows the next hint, `check.solution("direct_path")` our solution once
the exercise has been attempted, and `check.reset("direct_path")` gives the blank back.

The exercises are those of the lessons that were imported, and of all others once one is asked for
that they do not have: see `course.registry`.
"""

from typing import Any

from course_utils.course import registry
from course_utils.course.exercises import BESIDE, EXERCISES, hint, reset, solution

# What version 0.3 asked for and the course no longer does: a copy of a lesson of then goes on with
# what its learner wrote. This goes with version 0.5.
GONE = {
    "drawing",
    "fixed_on_start",
    "foretell",
    "found",
    "interference",
    "looks_held",
    "move_key",
    "moved",
    "patch_stream",
    "pointers_by_hand",
    "positive_yet_lowering",
    "qk_scores",
    "with_attention",
    "without_heads",
    "without_neurons",
    "worst_lead",
}

__all__ = ["EXERCISES", "hint", "reset", "solution"]


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name not in {*EXERCISES, *BESIDE}:
        registry.import_all()
    if name in EXERCISES:
        return EXERCISES[name]
    if name in BESIDE:
        return BESIDE[name]
    if name in GONE:
        return lambda answer: _unchecked(name, answer)
    raise AttributeError(f"There is no exercise {name!r}: give the name that the heading has.")


def _unchecked(name: str, answer: Any) -> Any:
    """The answer itself, with a sentence."""
    print(f"{name} is no exercise of the course any more, so nothing is checked here.")
    return answer


def __dir__() -> list[str]:
    return sorted([*__all__, *EXERCISES, *BESIDE])
