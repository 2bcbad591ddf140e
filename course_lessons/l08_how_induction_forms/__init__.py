"""How induction heads form: many small models, trained, and every history kept.

`python -m course_lessons.l08_how_induction_forms` makes all of it.

The models read a synthetic language in which induction pays, so that one run takes half a minute on
a laptop. Lesson 08 watches one of them and compares many: `language` is what they read, `forward`
what they compute, part by part, `measures` what is seen of them, `runs` how they are trained,
`events` when things happen, `experiments` which runs are compared, and how.
"""

from course_lessons.l08_how_induction_forms import checks, events, forward, language, measures, runs
from course_utils.course import registry

__all__ = ["checks", "events", "forward", "language", "measures", "runs"]

registry.register(__file__)
