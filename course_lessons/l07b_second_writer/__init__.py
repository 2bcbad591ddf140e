"""Lesson 07b, the second writer."""

from course_lessons.l07b_second_writer import checks as checks
from course_utils.course import registry

registry.register(__file__)
