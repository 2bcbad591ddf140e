"""`python -m course_utils` opens the course: your own copies of the lessons, in JupyterLab."""

import sys

from course_utils.course import start

sys.exit(start.main())
