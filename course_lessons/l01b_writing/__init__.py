"""Lesson 01b, tokens, training and writing."""

from course_utils.course import registry

registry.register(__file__)
