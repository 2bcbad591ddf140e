"""Lesson 12, questions before and after."""

from course_utils.course import registry

registry.register(__file__)
