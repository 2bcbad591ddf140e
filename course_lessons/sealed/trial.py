"""`check.case`: a hypothesis about a sealed model gets its trial, and tries are counted.

See `judge` and `case_score`.
"""

from functools import cache
from typing import Any

from course_lessons.sealed import cases, new_boxes
from course_lessons.sealed.judge import SealedBox, Trial
from course_utils import models
from course_utils.course import case_score
from course_utils.course.exercises import BESIDE, EXERCISES, Answer, Exercise
from course_utils.course.expectations import Wrong, demand
from course_utils.course.guard import Guarded


@cache
def sealed(box: int | str) -> SealedBox:
    """The box with this number, or that in a file of this name."""
    if isinstance(box, str):
        return SealedBox(new_boxes.opened(box))
    return SealedBox(models.load(f"cases/{box}"), cases.LANGUAGE.get(cases.names()[box], "blocks"))


def lines(box: int | str, trial: Trial) -> list[str]:
    """What held and what did not, how the box stands, and once it is solved what was inside."""
    said = [f"  holds  {sentence}" for sentence in trial.held]
    said += [
        f"  {'       ' if n else 'fails  '}{sentence}" for n, sentence in enumerate(trial.failed)
    ]
    if box != 0:  # the worked example
        said.append(f"  tally: {case_score.add(f'box {box}', trial.digest, trial.outcome)}")
    if trial.solved and isinstance(box, int):
        said.append(f"  {cases.INSIDE[cases.names()[box]]}")
    return said


class Case(Exercise):
    """The hypothesis about one sealed model.

    The answer returns it; behind the verdict stands the evidence.
    """

    def __init__(self, number: int) -> None:
        self.report = list[str]()

        def check(answer: Answer) -> None:
            self.report = []
            trial = Trial(sealed(number), answer())
            self.report = lines(number, trial)
            demand(not trial.false, "something in it is false.")
            demand(
                trial.solved, "what works in the whole box holds, but a backup is missing or wrong."
            )

        super().__init__(f"case_{number}", check)

    def __call__(self, answer: Answer) -> Answer:
        if callable(answer):
            self._say("\n".join([self._shown(Guarded(answer)), *self.report]))
        else:
            self._say(
                f"✗ {self.name}: give the check your function itself, not {type(answer).__name__}."
            )
        return answer

    def _say(self, line: str, *others: str) -> None:
        """Print it: what held stands in columns, and no card shows what is inside a box."""
        self.mark = line[0]
        print(line, *others, sep="\n")


def case(box: int | str, hypothesis: Any) -> Answer | None:
    """Try a hypothesis about a sealed model, by its number or its file.

    Prints what held and what did not. `hypothesis` is the function of an exercise, which gets a
    verdict and is returned, or the hypothesis itself.
    """
    try:
        numbers = range(len(cases.names()))
        demand(
            isinstance(box, str) or box in numbers,
            f"There are the boxes 0 to {numbers[-1]}, and no {box!r}.",
        )
        if callable(hypothesis):
            demand(
                f"case_{box}" in EXERCISES,
                "only an exercise takes a function: give the hypothesis itself.",
            )
            return EXERCISES[f"case_{box}"](hypothesis)
        trial = Trial(sealed(box), hypothesis)
        name = box if isinstance(box, str) else f"box {box}"
        outcome = trial.outcome.replace("true", "not all")
        print(f"{name}: {outcome}", *lines(box, trial), sep="\n")
    except (Wrong, OSError) as problem:
        print(f"✗ {problem}")
    return None


BESIDE["case"] = case
