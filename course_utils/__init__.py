"""Support package of the course *Transformer circuits, hands-on*.

Submodules load on first use, so `import course_utils` costs nothing until a lesson asks for something.
"""

import importlib
from typing import Any

_MODULES = (
    "addition",
    "autoencoder",
    "bigrams",
    "cases",
    "check",
    "circuits",
    "claims",
    "composition",
    "formation",
    "fourier",
    "gpt",
    "grokking",
    "heads",
    "max_of_list",
    "measure",
    "microscope",
    "models",
    "neurons",
    "paths",
    "plots",
    "skip_trigrams",
    "superposition",
    "tasks",
    "text",
    "tools",
    "train",
    "transforms",
    "trials",
)
_SHORT = {
    "claim": "claims",
    "identity": "claims",
    "load": "models",
    "predict": "claims",
}  # from which module
__all__ = [*_MODULES, *_SHORT]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _SHORT:
        return getattr(importlib.import_module(f"{__name__}.{_SHORT[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
