"""In tests, what a `@validated` function of the package returns is held to its annotation, shapes
included.

An axis name means one length in arguments and result. Lessons do without: it takes time, and what
it finds is our bug.
"""

from beartype.door import die_if_unbearable

from course_utils import _arguments

_arguments.hold_result = die_if_unbearable
