"""Checks of lesson 11b: a hypothesis about each of eight more boxes gets its trial."""

from course_lessons.sealed.trial import Case

for _number in range(4, 12):
    Case(_number)
