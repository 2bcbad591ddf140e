"""Lesson 10b, methods on trial."""

from course_lessons.l10b_methods_on_trial import checks as checks
from course_utils.course import registry

registry.register(__file__)
