"""In tests all lessons are registered, and results are held to what signatures say.

What a `@validated` function of the package returns must fit its annotation, shapes included: an
axis name means one length in arguments and result. Lessons do without: it takes time, and what it
finds is our bug.
"""

from beartype.door import die_if_unbearable

import course_lessons
from course_utils import _arguments

course_lessons.import_all()
_arguments.hold_result = die_if_unbearable
