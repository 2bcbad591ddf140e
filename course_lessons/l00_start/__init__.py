"""Lesson 00, start."""

from course_utils.course import registry

registry.register(__file__)
