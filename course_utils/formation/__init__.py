"""How induction heads form: `python -m course_utils.formation` trains many small models and keeps every history.

The models read a synthetic language in which induction pays, so that one run takes half a minute on a laptop. Lesson 08
watches one of them and compares many: `language` is what they read, `runs` how they are trained, `events` when things
happen.
"""

from course_utils.formation import events, language, runs

__all__ = ["events", "language", "runs"]
