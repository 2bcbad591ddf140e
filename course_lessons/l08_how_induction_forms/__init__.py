"""Lesson 08, how induction heads form."""

from course_lessons.l08_how_induction_forms import checks as checks
from course_utils.course import registry

# where learners' copies of version 0.3 look for them
from course_lessons.formation import (  # isort: skip
    events as events,
    experiments as experiments,
    forward as forward,
    language as language,
    measures as measures,
    runs as runs,
)

registry.register(__file__)
