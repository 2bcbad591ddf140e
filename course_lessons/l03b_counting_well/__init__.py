"""Lesson 03b, counting well."""

from course_lessons.l03b_counting_well import checks as checks
from course_utils.course import registry

registry.register(__file__)
