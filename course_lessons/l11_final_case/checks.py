"""Checks of lesson 11: a hypothesis about each of three boxes gets its trial."""

from course_lessons.sealed.trial import Case

for _number in (1, 2, 3):
    Case(_number)
