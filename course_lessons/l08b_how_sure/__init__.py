"""Lesson 08b, how sure."""

from course_lessons.l08b_how_sure import checks as checks
from course_utils.course import registry

registry.register(__file__)
