"""Lesson 01b, tokens, training and writing."""

from course_lessons.l01b_writing import checks as checks
from course_utils.course import registry

registry.register(__file__)
