"""Lesson 02b, the algebra behind the stream."""

from course_lessons.l02b_algebra import checks as checks
from course_utils.course import registry

registry.register(__file__)
