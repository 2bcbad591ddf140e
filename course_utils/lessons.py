"""Where learners' copies of version 0.3 look for the lessons' code.

It is in `course_lessons` now. With the first such import all that has moved is found where it was.
This goes with version 0.5.
"""

import importlib

__path__: list[str] = []  # so that modules are looked for below it: `moved` finds them
importlib.import_module("course_lessons.moved")
