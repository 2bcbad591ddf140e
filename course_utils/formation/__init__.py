"""How induction heads form: `python -m course_utils.formation` trains many small models and keeps every history.

The models read a synthetic language in which induction pays, so that one run takes half a minute on a laptop. Lesson 08
watches one of them and compares many: `language` is what they read, `forward` what they compute, part by part,
`measures` what is seen of them, `runs` how they are trained, `events` when things happen, `experiments` which runs are
compared, and how, `predictions` what was expected of them.
"""

from course_utils.formation import events, experiments, forward, language, measures, predictions, runs

__all__ = ["events", "experiments", "forward", "language", "measures", "predictions", "runs"]
