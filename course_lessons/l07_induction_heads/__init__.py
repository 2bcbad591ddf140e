"""Lesson 07, induction heads."""

from course_lessons.l07_induction_heads import checks as checks
from course_utils.course import registry

registry.register(__file__)
