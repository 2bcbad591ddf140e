"""What authors and teachers run: `python -m course_utils.tools.authoring` and its neighbours; no lesson imports it."""
