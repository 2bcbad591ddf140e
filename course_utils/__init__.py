"""Support package of the course *Transformer circuits, hands-on*.

Its modules are the ground floor: what every lesson computes with, to be read in an evening. Above it stand four rooms:
`making` (what models are made and trained with), `course` (what runs the course), `lessons` (a folder for each), and
`author` (what writes it). What lessons ask for by name comes from here: `from course_utils import check, circuits`;
it is imported on first use, so `import course_utils` costs nothing.
"""

import importlib
from typing import Any

_GROUND = (
    "bigrams",
    "circuits",
    "composition",
    "heads",
    "interventions",
    "measure",
    "models",
    "paths",
    "plots",
    "programs",
    "text",
    "transforms",
)
_MODULES = {name: name for name in ("check", *_GROUND)}  # name → where it stands in the package
_MODULES |= {name: f"making.{name}" for name in ("autoencoder", "fourier", "gpt", "tasks", "train")}
_MODULES |= {name: f"course.{name}" for name in ("claims", "microscope")}
_SHORT = {"claim": "course.claims", "identity": "course.claims", "load": "models", "predict": "course.bets"}
__all__ = [*_MODULES, *_SHORT]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _SHORT:
        return getattr(importlib.import_module(f"{__name__}.{_SHORT[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
