"""Feedback on exercises, one line each: ✓ right, ✗ with what went wrong, ○ not attempted yet.

`check.direct_path(direct_path)` calls the learner's function and compares; a wrong answer hears what it did instead,
and never sees the right one. After ✓ the lesson goes on with the learner's function, else with ours:
`direct_path = check.direct_path(direct_path)`. `check.hint("direct_path")` shows the next hint,
`check.solution("direct_path")` our solution once the exercise has been attempted, and `check.reset("direct_path")`
gives the blank back. Each exercise stands in its lesson's folder, `lessons/l03_zero_layers/checks.py`.
"""

import importlib
import importlib.util
import pkgutil

from course_utils import lessons
from course_utils.course.exercises import EXERCISES, Exercise, hint, reset, solution
from course_utils.lessons.l11_final_case.checks import case

__all__ = ["EXERCISES", "case", "hint", "reset", "solution"]

for _folder in pkgutil.iter_modules(lessons.__path__):
    if importlib.util.find_spec(f"{lessons.__name__}.{_folder.name}.checks"):
        importlib.import_module(f"{lessons.__name__}.{_folder.name}.checks")


def __getattr__(name: str) -> Exercise:
    if name in EXERCISES:
        return EXERCISES[name]
    raise AttributeError(f"There is no exercise {name!r}: give the name that the heading has.")


def __dir__() -> list[str]:
    return sorted([*__all__, *EXERCISES])
