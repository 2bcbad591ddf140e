"""Support package of the course *Transformer circuits, hands-on*.

Submodules load on first use, so `import course_utils` costs nothing until a lesson asks for something.
"""

import importlib
from typing import Any

_MODULES = (
    "bigrams",
    "check",
    "circuits",
    "composition",
    "formation",
    "fourier",
    "gpt",
    "heads",
    "measure",
    "models",
    "paths",
    "plots",
    "tasks",
    "text",
    "tools",
    "train",
    "transforms",
)
__all__ = [*_MODULES, "load"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "load":
        return importlib.import_module(f"{__name__}.models").load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
