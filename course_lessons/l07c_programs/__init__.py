"""Lesson 07c, programs."""

from course_lessons.l07c_programs import checks as checks
from course_utils.course import registry

registry.register(__file__)
