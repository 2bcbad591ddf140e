"""What writes the course, and what teachers run: `python -m course_tools.site` and neighbours."""
