"""What a check prints and returns; hint, solution and reset of an exercise by its name.

An exercise stands in its lesson's package, `course_lessons/l03_zero_layers/checks.py`, and is data:
what the answer is called with, and what wrong answers there are. Our solution says what is right.

    direct_path = compared(
        "`direct_path(W_E, W_U) → [V, V]`: the logits of a model without layers.",
        returns="[current token, next token]",
        cases=lambda: {"which product gives logits?": (random(7, 3), random(3, 7, seed=1))},
        mistakes={"is the current token on the rows?": lambda W_E, W_U: (W_E @ W_U).T},
    )

An answer is compared with ours case by case. Where it differs it is compared with each mistake,
made with the same arguments: the first that returns the same is told, and else the sentence of the
case. Where many answers are right, as when something is to be built, an exercise is a function
instead: see `judged`. tests/answers/ has other right answers and more wrong ones.
"""

import difflib
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from IPython import get_ipython
from IPython.display import Markdown, display

from course_utils import _torch_state
from course_utils.course import guard, registry, results, solutions, verdicts
from course_utils.course.expectations import Unfit, Wrong, converted, same

Answer = Callable[..., Any]
Answers = Answer | tuple[Answer, ...]
Cases = Mapping[str, tuple | list[tuple]]  # what an answer that fails there hears → arguments
Said = Mapping[str, Any] | str | None  # a sentence, or sentences with whether each is so

EXERCISES: dict[str, "Exercise"] = {}  # by name
BESIDE: dict[str, Callable[..., Any]] = {}  # what else is in `check`, as 11 puts `check.case` there
WITH_OURS = "The lesson goes on with ours."


class Exercise:
    """One exercise: called with an answer it prints a verdict, and returns what the lesson uses.

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
        self.odd: list[_torch_state.Odd] = []  # what the notebook has set otherwise in torch
        self.hints_shown = 0
        if name in EXERCISES:
            raise ValueError(
                f"Two exercises are called {name}: `check.{name}` would meet one of them only."
            )
        EXERCISES[name] = self

    def __call__(self, answer: Answer) -> Answer:
        ours = solutions.find(self.name).function
        if not callable(answer):
            kind = type(answer).__name__
            self._say(f"✗ {self.name}: give the check your function itself, not {kind}.", WITH_OURS)
            return ours
        if answer is ours:
            again = "this is our function; run the cell again in which you write yours."
            self._say(f"○ {self.name}: {again}", WITH_OURS)
            return ours
        guarded = guard.Guarded(answer)
        verdict = self._shown(guarded)
        if verdict.startswith("○"):
            self._say(f"{verdict} {WITH_OURS}")
            return ours
        if verdict.startswith("✗"):
            self._say(verdict, *self._what_it_reads(answer), WITH_OURS)
        elif self.unfit:
            self._say(verdict, f"It is right, but {self.unfit}.", WITH_OURS)
        else:
            self._say(verdict)
        _torch_state.tell(*self.odd)
        is_used = verdict.startswith("✓") and not self.unfit
        return self._as_the_lesson_needs_it(guarded, ours) if is_used else ours

    def _as_the_lesson_needs_it(self, answer: guard.Guarded, ours: Answer) -> Answer:
        """The learner's function itself, or made to return what ours does where it differs."""
        if answer.first is None:
            return answer.function
        args, kwargs, result = answer.first
        with _torch_state.usual(), guard.randomness_kept():
            try:
                right = ours(*args, **kwargs)
            except Exception:  # what the check gave cannot be given twice
                right = None
        if answer.converted or self.odd or results.as_ours(result, right) is not result:
            return _made_to_return(answer.function, right)
        return answer.function

    def _say(self, line: str, *others: str) -> None:
        """Show a verdict, and below it what else there is to say; after ✗, where help is."""
        self.mark = line[0]
        lines = [line, *(f"  {other}" for other in others)]
        if self.mark == "✗" and self.attempted:
            found = solutions.find(self.name)
            verdicts.show(lines, found.hints, found.solution)
        else:
            verdicts.show(lines)

    def _what_it_reads(self, answer: Answer) -> list[str]:
        """A sentence on values of the notebook that an answer reads, if it does."""
        names = guard.notebook_data(answer)
        if not names:
            return []
        few = ", ".join(f"`{name}`" for name in names[:3])
        small = "though the check calls it with small values of its own"
        return [f"It reads {few} of the notebook, {small}."]

    def _shown(self, answer: guard.Guarded) -> str:
        """The verdict about a guarded answer, once what the answer printed is on the page."""
        verdict = self.verdict(answer)
        if answer.printed:
            print(answer.printed, end="" if answer.printed.endswith("\n") else "\n")
        return verdict

    def verdict(self, answer: Answer) -> str:
        """What is printed about a guarded answer, in one line."""
        self.unfit = ""
        line = f"✓ {self.name}"
        try:
            with _torch_state.usual() as self.odd, guard.randomness_kept():
                self.check(answer)
        except guard.Blank:
            return f"○ {self.name}: not attempted yet."
        except Unfit as unfit:
            self.unfit = str(unfit)
        except Wrong as problem:
            line = f"✗ {self.name}: {problem}"
        except Exception as error:  # in the check itself: its author did not think of this answer
            reason = f"{type(error).__name__}: {error}"
            line = f"✗ {self.name}: the check can't read what your function returns ({reason})."
        self.attempted = True
        return guard.cut(" ".join(line.split()), guard.LINE)


def _made_to_return(answer: Answer, right: Any) -> Answer:
    """The answer, but its results are the kind of thing that `right` is: see `results`."""

    @functools.wraps(answer)
    def made(*args: Any, **kwargs: Any) -> Any:
        with _torch_state.made_like(torch.device("cpu"), torch.float32):
            result = answer(*args, **kwargs)
        return results.as_ours(results.as_tensors(result, (args, kwargs)), right)

    return made


def judged(check: Callable[[Answer], None]) -> Exercise:
    """An exercise with many right answers, of a function of its name that may raise `Wrong`."""
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
    opening = re.match(r"`(\w+)\(", says)
    if not opening:
        raise ValueError(
            f"An exercise's description opens with its call in backticks, not with {says[:20]!r}."
        )
    name = opening[1]

    def outcome(answer: Answer, arguments: tuple) -> Any:
        """What the answer returns, where advice and guard have nothing to say."""
        problem = ""
        try:
            value = answer(*arguments)
        except Wrong as wrong:
            if wrong.__cause__ is None:  # the guard's own sentence
                raise
            value = wrong.__cause__  # what the learner's function raised
            problem = str(wrong)
        said = told(advice(value, *arguments)) or problem
        if said:
            raise Wrong(said)
        return value

    def read(value: Any, right: Any) -> Any:
        return converted(as_read(value), right, returns)

    def mistake(got: Any, right: Any, number: int) -> str | None:
        """The sentence of the first mistake that returns the same in the case of this number."""
        for sentence, wrong in each_mistake(mistakes):
            _, arguments = list(each_case(cases()))[number]
            try:
                if same(got, read(wrong(*arguments), right)):
                    return sentence
            except Exception:  # a mistake may fit other cases only
                continue
        return None

    def check(answer: Answer) -> None:
        for number, (otherwise, arguments) in enumerate(each_case(cases())):
            right = as_read(solutions.find(name).function(*arguments))
            got = read(outcome(answer, arguments), right)
            if not same(got, right):
                known = mistake(got, right, number)
                raise Wrong(known or told(explain(got, right, *arguments)) or otherwise)
        fits(answer)

    exercise = Exercise(name, check)
    exercise.mistakes = mistakes
    exercise.cases = cases
    return exercise


def told(said: Said) -> str | None:
    """The first sentence that is so, if any is."""
    if not isinstance(said, Mapping):
        return said
    return next((sentence for sentence, is_so in said.items() if is_so), None)


def each_case(cases: Cases) -> Iterator[tuple[str, tuple]]:
    """The arguments of each case, with its sentence."""
    for sentence, given in cases.items():
        for arguments in given if isinstance(given, list) else [given]:
            yield sentence, arguments


def each_mistake(mistakes: Mapping[str, Answers]) -> Iterator[tuple[str, Answer]]:
    """Each wrong answer, with its sentence."""
    for sentence, given in mistakes.items():
        for answer in given if isinstance(given, tuple) else (given,):
            yield sentence, answer


def hint(name: str) -> None:
    """Show the next hint of an exercise: `check.hint("direct_path")`."""
    exercise = _known(name)
    if exercise is None:
        return
    hints = solutions.find(name).hints
    shown = exercise.hints_shown
    if shown == len(hints):
        print(f'There is no further hint for {name}; check.solution("{name}") shows our solution.')
        return
    exercise.hints_shown += 1
    text = f"**Hint {shown + 1} of {len(hints)}** · {hints[shown]}"
    if get_ipython() is None:
        print(text)
    else:
        display(Markdown(text))


def solution(name: str) -> None:
    """Show our solution, once the exercise was attempted: `check.solution("direct_path")`."""
    exercise = _known(name)
    if exercise is None:
        return
    if exercise.attempted:
        print(solutions.find(name).solution)
    else:
        print(f'Try {name} first, and run its cell. check.hint("{name}") helps.')


def reset(name: str) -> None:
    """Put an exercise's blank into a new cell below: `check.reset("direct_path")`."""
    if _known(name) is None:
        return
    stub = solutions.find(name).stub
    shell = get_ipython()
    if shell is None:
        print(stub)
    else:
        shell.set_next_input(stub)


def _known(name: object) -> Exercise | None:
    """The exercise of that name; None, and a sentence with near names, if there is none."""
    if isinstance(name, str) and name not in EXERCISES:
        registry.import_all()
    if isinstance(name, str) and name in EXERCISES:
        return EXERCISES[name]
    near = difflib.get_close_matches(str(name), EXERCISES, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    advice = "Give its name as the heading writes it, in quotation marks."
    print(f"There is no exercise {name!r}.{meant} {advice}")
    return None
