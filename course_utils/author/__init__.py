"""What writes the course and what teachers run: `python -m course_utils.author.authoring` and its neighbours."""
