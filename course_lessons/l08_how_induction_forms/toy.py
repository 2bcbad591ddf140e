"""Three numbers that grow by the slopes of their product, as in lesson 08's exercise `slopes`."""

from collections.abc import Sequence

from course_lessons.formation.events import event_time
from course_utils._arguments import validated

STEP = 0.01


@validated
def product(
    first: float, others: float, soft: bool = False, first_grows: bool = True
) -> tuple[list[float], list[float]]:
    """The product of three numbers over time, until it hardly rises: times and values.

    Each number grows by the product of the other two, up to 1: in steps cut off there, or, if
    `soft`, more slowly the nearer it is. Two of them begin alike.
    """
    a, b = first, others
    values: list[float] = []
    while len(values) < 1_000_000:
        values.append(a * b * b)
        rise_a, rise_b = b * b, a * b
        if soft:
            rise_a, rise_b = rise_a * (1 - a), rise_b * (1 - b)
        if first_grows:
            a = min(1, a + STEP * rise_a)
        b = min(1, b + STEP * rise_b)
        if min(a if first_grows else 1, b) > 0.999:
            values += 4 * [a * b * b]  # the end is the mean of the last four
            break
    return [STEP * i for i in range(len(values))], values


@validated
def wait_and_jump(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """When half of the rise is made, and how long it takes from a quarter to three quarters."""
    quarter, half, most = (event_time(times, values, share) for share in (0.25, 0.5, 0.75))
    return half, most - quarter
