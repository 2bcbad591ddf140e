"""Two summaries of one match over training: one is a ratio, and one has a size."""

from course_lessons.formation import experiments
from course_lessons.formation.events import event_time
from course_utils._arguments import validated


@validated
def positive_and_high(made: list[experiments.Kept]) -> tuple[list[float], list[float]]:
    """For each run the step of half its positivity, and how high its own entry is by then.

    The height is the own entry's lead over its row, as a share of its last value, at the first
    measurement from that step on. Steps count from 0.
    """
    halves, heights = [], []
    for kept in made:
        steps, positivity = experiments.points(kept, "positivity")
        halves.append(event_time(steps, positivity))
        row = next(i for i, step in enumerate(steps) if step >= halves[-1])
        lead = experiments.curve(kept, "lead")
        heights.append(lead[row] / lead[-1])
    return halves, heights
