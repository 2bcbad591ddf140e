"""Lesson 06b, what a path is worth."""

from course_lessons.l06b_path_worth import checks as checks
from course_utils.course import registry

registry.register(__file__)
