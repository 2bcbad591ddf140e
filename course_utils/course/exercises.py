"""What a check prints and returns; hint, solution and reset of an exercise by its name.

An exercise stands in its lesson's folder, `lessons/l03_zero_layers/checks.py`, and is data: what
the answer is called with, and what wrong answers there are. Ours, in the solutions notebook, says
what is right.

    direct_path = compared(
        "`direct_path(W_E, W_U) → [V, V]`: the logits of a model without layers, one row per current token.",
        returns="[current token, next token]",
        cases=lambda: {"which product gives logits, and nothing more?": (random(7, 3), random(3, 7, seed=1))},
        mistakes={"is the current token on the rows?": lambda W_E, W_U: (W_E @ W_U).T},
    )

An answer is compared with ours case by case. Where it differs it is compared with each mistake,
made with the same arguments: the first that returns the same is told, and else the sentence of the
case. tests/answers/ has other right answers, at least three for each exercise, and wrong ones whose
sentence something else makes.

Where many answers are right, as when something is to be built, an exercise is a function instead:
see `judged`.
"""

import difflib
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from course_utils.course import solutions
from course_utils.course.expectations import Unfit, Wrong, converted, same
from course_utils.course.guard import (
    LINE,
    Blank,
    Guarded,
    as_tensors,
    notebook_data,
    randomness_kept,
)

Answer = Callable[..., Any]
Answers = Answer | tuple[Answer, ...]
# what is said of an answer that fails there → arguments, once or several
Cases = Mapping[str, tuple | list[tuple]]
# a sentence, or sentences with whether each is so: the first that is, is told
Said = Mapping[str, Any] | str | None
EXERCISES: dict[str, "Exercise"] = {}  # by name
# what else a lesson puts into `check`, as 11 does `check.case`
BESIDE: dict[str, Callable[..., Any]] = {}


class Exercise:
    """One exercise: called with an answer it prints a verdict and returns the function that the
    lesson goes on with.

    ✓ right, and the lesson goes on with the learner's function, unless a second line says why it
    can't; ✗ with what went wrong, ○ not attempted yet, and it goes on with ours.
    """

    def __init__(self, name: str, check: Callable[[Answer], None]) -> None:
        self.name = name
        self.check = check  # raises Wrong where the answer lacks something
        self.mistakes: Mapping[str, Answers] = {}  # a sentence → answers that get it
        self.cases: Callable[[], Cases] | None = None  # of an exercise that is compared with ours
        self.attempted = False
        self.mark = ""  # of the last answer: ✓, ✗ or ○
        self.unfit = ""  # why the lesson can't go on with the last answer, though it is right
        self.hints_shown = 0
        if name in EXERCISES:
            raise ValueError(
                f"Two exercises are called {name}: `check.{name}` would meet one of them only."
            )
        EXERCISES[name] = self

    def __call__(self, answer: Answer) -> Answer:
        if not callable(answer):
            self._say(
                f"✗ {self.name}: give the check your function itself, not {type(answer).__name__}."
            )
        elif answer is solutions.find(self.name).function:
            self._say(
                f"○ {self.name}: this is our function; run the cell again in which you write yours."
            )
        else:
            guarded = Guarded(answer)
            verdict = self._shown(guarded)
            self._say(
                verdict + (" The lesson goes on with ours." if verdict.startswith("○") else "")
            )
            if self.unfit:
                print(f"  It is right, but {self.unfit}.")
            elif verdict.startswith("✓"):
                if not guarded.converted:
                    return answer
                return functools.wraps(answer)(
                    lambda *args, **kwargs: as_tensors(answer(*args, **kwargs))
                )
            if verdict.startswith("✗") and (names := notebook_data(answer)):
                few = ", ".join(f"`{name}`" for name in names[:3])
                print(
                    f"  It reads {few} of the notebook, though the check calls it with small "
                    f"values of its own."
                )
            if verdict.startswith("○"):
                return solutions.find(self.name).function
        print("  The lesson goes on with ours.")
        return solutions.find(self.name).function

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
        self.unfit, line = "", f"✓ {self.name}"
        try:
            with randomness_kept(), warnings.catch_warnings():
                # with more than two axes: a wall of text
                warnings.filterwarnings("ignore", "The use of `x.T`")
                self.check(answer)
        except Blank:
            return f"○ {self.name}: not attempted yet."
        except Unfit as reason:
            self.unfit = str(reason)
        except Wrong as problem:
            line = f"✗ {self.name}: {problem}"
        except (
            Exception
        ) as error:  # in the check itself: it met something that its author did not think of
            line = (
                f"✗ {self.name}: the check can't read what your function returns "
                f"({type(error).__name__}: {error})."
            )
        self.attempted = True
        line = " ".join(line.split())
        return line if len(line) <= LINE else line[: LINE - 1] + "…"


def judged(check: Callable[[Answer], None]) -> Exercise:
    """An exercise with many right answers, of a function of its name that raises `Wrong` with a
    sentence.
    """
    return Exercise(check.__name__, check)


def compared(
    says: str,
    *,
    cases: Callable[[], Cases],
    returns: str | tuple[str, ...] = "",
    mistakes: Mapping[str, Answers] = {},
    explain: Callable[..., Said] = lambda got, right, *arguments: None,
    advice: Callable[..., Said] = lambda outcome, *arguments: None,
    as_read: Callable[[Any], Any] = lambda value: value,
    fits: Callable[[Answer], None] = lambda answer: None,
) -> Exercise:
    """An exercise with one right result for each case: ours.

    `says` opens with the call in backticks, whose name is the exercise's. `cases` makes its
    arguments anew at each call, so that no answer can spoil them. `returns` says what a tensor's
    axes are, or what the things of a tuple are, in an error's words. `mistakes` are compared with,
    in their order. `explain(got, right, *arguments)` may name a difference that depends on numbers:
    see `Said`. `advice(outcome, *arguments)` comes before everything else, and sees a result as it
    was returned, or the exception. `as_read` makes of a result what is compared, and may raise
    `Wrong`; `fits` may raise `Unfit` for an answer that is right.
    """
    found = re.match(r"`(\w+)\(", says)
    if not found:
        raise ValueError(
            f"An exercise's description opens with its call in backticks, not with {says[:20]!r}."
        )
    name = found[1]

    def result(value: Any, right: Any) -> Any:
        return converted(as_read(value), right, returns)

    def called(answer: Answer, arguments: tuple) -> Any:
        try:
            value, problem = answer(*arguments), ""
        except Wrong as wrong:
            value, problem = wrong.__cause__, str(wrong)
        if said := told(advice(value, *arguments)) or problem:
            raise Wrong(said)
        return value

    def check(answer: Answer) -> None:
        for number, (otherwise, arguments) in enumerate(each(cases())):
            right = as_read(solutions.find(name).function(*arguments))
            got = result(called(answer, arguments), right)
            if same(got, right):
                continue
            for sentence, wrong in each(mistakes, tuple):
                _, anew = list(each(cases()))[number]
                try:
                    is_this = same(got, result(wrong(*anew), right))
                except Exception:  # a mistake may fit other cases only
                    continue
                if is_this:
                    raise Wrong(sentence)
            raise Wrong(told(explain(got, right, *arguments)) or otherwise)
        fits(answer)

    made = Exercise(name, check)
    made.mistakes, made.cases = mistakes, cases
    return made


def told(said: Said) -> str | None:
    """The first sentence that is so, if any is."""
    return (
        next((one for one, is_so in said.items() if is_so), None)
        if isinstance(said, Mapping)
        else said
    )


def each(given: Mapping[str, Any], several: Any = list) -> Iterator[tuple[str, Any]]:
    """Each thing with its sentence: the arguments of a case, or of a `tuple` of mistakes each one."""
    for sentence, things in given.items():
        for thing in things if isinstance(things, several) else (things,):
            yield sentence, thing


def hint(name: str) -> None:
    """Show the next hint of an exercise: `check.hint("direct_path")`."""
    if (known := _known(name)) is None:
        return
    hints = solutions.find(name).hints
    if known.hints_shown == len(hints):
        print(f'There is no further hint for {name}; check.solution("{name}") shows our solution.')
        return
    known.hints_shown += 1
    text = f"**Hint {known.hints_shown} of {len(hints)}** · {hints[known.hints_shown - 1]}"
    if _notebook() is None:
        print(text)
    else:
        from IPython.display import Markdown, display

        display(Markdown(text))


def solution(name: str) -> None:
    """Show our solution of an exercise, once it has been attempted:
    `check.solution("direct_path")`.
    """
    if (known := _known(name)) is None:
        return
    if not known.attempted:
        print(f'Try {name} first, and run its cell. check.hint("{name}") helps.')
        return
    print(solutions.find(name).solution)


def reset(name: str) -> None:
    """Put an exercise's blank into a new cell, and overwrite nothing: `check.reset("direct_path")`."""
    if _known(name) is None:
        return
    stub = solutions.find(name).stub
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
    print(
        f"There is no exercise {name!r}.{meant} Give its name as the heading writes it, in "
        f"quotation marks."
    )
    return None


def _notebook() -> Any:
    """IPython's shell, or None outside of it."""
    try:
        from IPython import get_ipython
    except ModuleNotFoundError:
        return None
    return get_ipython()
