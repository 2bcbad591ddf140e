"""A folder for each lesson: the checks of its exercises, its figures, its claims, and what only it needs."""
