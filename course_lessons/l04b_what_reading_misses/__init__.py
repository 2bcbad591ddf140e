"""Lesson 04b, what reading misses."""

from course_lessons.l04b_what_reading_misses import checks as checks
from course_utils.course import registry

registry.register(__file__)
