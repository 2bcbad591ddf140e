"""The wait and the jump of a curve, as lesson 08 reads them from its toy and from its runs."""

from collections.abc import Sequence

from course_lessons.formation.events import event_time
from course_utils._arguments import validated


@validated
def wait_and_jump(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """When half of the rise is made, and how long it takes from a quarter to three quarters."""
    quarter, half, most = (event_time(times, values, share) for share in (0.25, 0.5, 0.75))
    return half, most - quarter
