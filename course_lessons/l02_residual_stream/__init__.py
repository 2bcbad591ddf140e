"""Lesson 02, the residual stream."""

from course_lessons.l02_residual_stream import checks as checks
from course_utils.course import registry

registry.register(__file__)
