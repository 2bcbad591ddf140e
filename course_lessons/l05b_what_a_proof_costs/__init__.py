"""Lesson 05b, what a proof costs."""

from course_lessons.l05b_what_a_proof_costs import checks as checks
from course_utils.course import registry

registry.register(__file__)
