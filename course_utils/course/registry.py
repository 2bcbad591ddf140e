"""Which lessons there are: each lesson's package says so, with `registry.register(__file__)`."""

import functools
from importlib.metadata import entry_points
from pathlib import Path

folders: dict[str, Path] = {}  # by lesson, "05_max_of_list": where its table and its code are


def register(file: str) -> None:
    """Make a lesson known by the `__init__.py` of its package, `l05_max_of_list/__init__.py`."""
    folder = Path(file).parent
    folders[folder.name.removeprefix("l")] = folder


@functools.cache
def import_all() -> None:
    """Import every lesson that is installed, for a notebook of the learner's own."""
    for lessons in entry_points(group="course_utils.lessons"):
        lessons.load()()
