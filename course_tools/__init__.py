"""What writes the course and what teachers run: `python -m course_tools.authoring` and its
neighbours.
"""
