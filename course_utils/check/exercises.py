"""`@exercise`: what a check prints and returns; hint, solution and reset of an exercise by its name.

An exercise is a function of its name in `check/lesson_NN.py`, which raises Wrong where the answer lacks a property,
and below it its typical mistakes, each with a part of the sentence that it must get:

    @exercise
    def direct_path(answer: Answer) -> None:
        '''`direct_path(W_E, W_U) → [V, V]`: the logits of a model without layers.'''
        W_E, W_U = random(7, 3), random(3, 7, seed=1)
        result = tensor(answer(W_E, W_U), (7, 7), "[current token, next token]")
        demand(close(result, W_E @ W_U), "which product gives logits, and nothing more?")

    direct_path.mistakes = {"scaled": (lambda W_E, W_U: W_E @ W_U / 2, "which product gives logits")}

Solution, hints and blank stand in the solutions notebook. What holds for every exercise, `guard` looks after.
"""

import difflib
import functools
from collections.abc import Callable
from typing import Any

from course_utils.check import ours
from course_utils.check.guard import LINE, Blank, Guarded, as_tensors, notebook_data, randomness_kept
from course_utils.check.questions import Unfit, Wrong

Answer = Callable[..., Any]
Mistakes = dict[str, tuple[Answer, str]]  # what is wrong → an answer wrong in this way, a part of the sentence it gets
EXERCISES: dict[str, "Exercise"] = {}  # by name


class Exercise:
    """One exercise: called with an answer it prints a verdict and returns the function that the lesson goes on with.

    ✓ right, and the lesson goes on with the learner's function, unless a second line says why it can't; ✗ with what
    went wrong, ○ not attempted yet, and it goes on with ours. `mistakes` are typical ones; tests/unit/test_check.py
    gives them to the check.
    """

    def __init__(self, check: Callable[[Answer], None]) -> None:
        functools.update_wrapper(self, check)
        self.name = check.__name__
        self.check = check
        self.mistakes: Mistakes = {}
        self.attempted = False
        self.mark = ""  # of the last answer: ✓, ✗ or ○
        self.unfit = ""  # why the lesson can't go on with the last answer, though it is right
        self.hints_shown = 0

    def __call__(self, answer: Answer) -> Answer:
        if not callable(answer):
            self._say(f"✗ {self.name}: give the check your function itself, not {type(answer).__name__}.")
        elif answer is ours.find(self.name).function:
            self._say(f"○ {self.name}: this is our function; run the cell again in which you write yours.")
        else:
            guarded = Guarded(answer)
            verdict = self._shown(guarded)
            self._say(verdict + (" The lesson goes on with ours." if verdict.startswith("○") else ""))
            if self.unfit:
                print(f"  It is right, but {self.unfit}.")
            elif verdict.startswith("✓"):
                return _returning_tensors(answer) if guarded.made_arrays else answer
            if verdict.startswith("✗") and (names := notebook_data(answer)):
                few = ", ".join(f"`{name}`" for name in names[:3])
                print(f"  It reads {few} of the notebook, though the check calls it with small values of its own.")
            if verdict.startswith("○"):
                return ours.find(self.name).function
        print("  The lesson goes on with ours.")
        return ours.find(self.name).function

    def _shown(self, answer: Guarded) -> str:
        """The verdict about a guarded answer, once what the answer printed is on the page."""
        verdict = self.verdict(answer)
        if answer.printed:
            print(answer.printed, end="" if answer.printed.endswith("\n") else "\n")
        return verdict

    def _say(self, line: str) -> None:
        self.mark = line[0]
        print(line)

    def verdict(self, answer: Answer) -> str:
        """What is printed about a guarded answer, in one line."""
        self.unfit = ""
        try:
            with randomness_kept():
                self.check(answer)
        except Blank:
            return f"○ {self.name}: not attempted yet."
        except Unfit as reason:
            self.unfit = str(reason)
            line = f"✓ {self.name}"
        except Wrong as problem:
            line = f"✗ {self.name}: {problem}"
        except Exception as error:  # in the check itself: it met something that its author did not think of
            line = f"✗ {self.name}: the check can't read what your function returns ({type(error).__name__}: {error})."
        else:
            line = f"✓ {self.name}"
        self.attempted = True
        line = " ".join(line.split())
        return line if len(line) <= LINE else line[: LINE - 1] + "…"


def exercise(check: Callable[[Answer], None]) -> Exercise:
    """Make an exercise of a function that raises `Wrong`; its name is the exercise's."""
    EXERCISES[check.__name__] = made = Exercise(check)
    return made


def hint(name: str) -> None:
    """Show the next hint of an exercise: `check.hint("direct_path")`."""
    if (known := _known(name)) is None:
        return
    hints = ours.find(name).hints
    if known.hints_shown == len(hints):
        print(f'There is no further hint for {name}; check.solution("{name}") shows our solution.')
        return
    known.hints_shown += 1
    _show(f"**Hint {known.hints_shown} of {len(hints)}** · {hints[known.hints_shown - 1]}")


def solution(name: str) -> None:
    """Show our solution of an exercise, once it has been attempted: `check.solution("direct_path")`."""
    if (known := _known(name)) is None:
        return
    if not known.attempted:
        print(f'Try {name} first, and run its cell. check.hint("{name}") helps.')
        return
    print(ours.find(name).solution)


def reset(name: str) -> None:
    """Put an exercise's blank into a new cell, and overwrite nothing: `check.reset("direct_path")`."""
    if _known(name) is None:
        return
    stub = ours.find(name).stub
    if (shell := _notebook()) is None:
        print(stub)
    else:
        shell.set_next_input(stub)


def _known(name: object) -> Exercise | None:
    """The exercise of that name; None, and a sentence with near names, if there is none."""
    if name in EXERCISES:
        return EXERCISES[str(name)]
    near = difflib.get_close_matches(str(name), EXERCISES, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(repr(other) for other in near)}?" if near else ""
    print(f"There is no exercise {name!r}.{meant} Give its name as the heading writes it, in quotation marks.")
    return None


def _returning_tensors(answer: Answer) -> Answer:
    """The learner's function, its numpy arrays as tensors, which is what the lesson goes on with."""

    @functools.wraps(answer)
    def converted(*args: Any, **kwargs: Any) -> Any:
        return as_tensors(answer(*args, **kwargs))

    return converted


def _show(text: str) -> None:
    """Markdown, drawn where something can draw it."""
    if _notebook() is None:
        print(text)
    else:
        from IPython.display import Markdown, display

        display(Markdown(text))


def _notebook() -> Any:
    """IPython's shell, or None outside of it."""
    try:
        from IPython import get_ipython
    except ModuleNotFoundError:
        return None
    return get_ipython()
