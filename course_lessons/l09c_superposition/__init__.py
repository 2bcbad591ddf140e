"""Lesson 09c, superposition and dictionaries."""

from course_lessons.l09c_superposition import checks as checks
from course_utils.course import registry

registry.register(__file__)
