"""What each lesson needs beside its notebook: a folder for each, with the same name.

In a folder are the checks of the lesson's exercises, its figures, the table of what it claims, and
what only it computes with. No lesson imports another. Importing a lesson's package registers its
exercises and its table, so that nothing in `course_utils` has to know which lessons there are.
"""

import importlib
import pkgutil
from types import ModuleType


def import_all() -> list[ModuleType]:
    """The packages of all lessons, imported and so registered: for tools and tests."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return [importlib.import_module(f"{__name__}.{name}") for name in names]
