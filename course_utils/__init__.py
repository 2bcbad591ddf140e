"""Support package of the course *Transformer circuits, hands-on*.

Its modules are the ground floor: what every lesson computes with, to be read in an evening. Above
it stand two rooms: `training` (what models are trained with) and `course` (what runs the course).
What lessons alone need is in `course_lessons`, what they look through in `course_microscope`, what
writes the course in `course_tools`. What lessons ask for by name comes from here, as in `from
course_utils import check, circuits`; it is imported on first use, so `import course_utils` costs
nothing.
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
    "smollm2",
    "text",
)
_MODULES = {name: name for name in _GROUND}  # name → where it is in the package
_MODULES |= {name: f"training.{name}" for name in ("tasks", "train")}
_MODULES |= {name: f"course.{name}" for name in ("check", "claims")}
_SHORT = {
    "claim": "course.claims",
    "identity": "course.claims",
    "load": "models",
    "predict": "course.bets",
}
_ROOMS = {"microscope": "course_microscope"}  # packages of their own
__all__ = [*_MODULES, *_ROOMS, *_SHORT]
_MOVED = {  # modules that learners' copies of version 0.3 ask for: see `lessons`
    "programs": "lessons.programs",
    "fourier": "lessons.fourier",
    "gpt": "lessons.gpt",
    "autoencoder": "lessons.l09c_superposition.autoencoder",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    if name in _MODULES or name in _MOVED:
        return importlib.import_module(f"{__name__}.{(_MODULES | _MOVED)[name]}")
    if name in _SHORT:
        return getattr(importlib.import_module(f"{__name__}.{_SHORT[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
