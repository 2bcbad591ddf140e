"""How lessons print a measured value, and whether authors or CI are the ones who run them."""

import math
import os
from collections.abc import Mapping
from typing import Any

from course_utils._words import true_minus

MODE = "COURSE_CLAIMS"  # the environment variable that `claims` explains


def is_recorded() -> bool:
    """Whether authors or CI run this: then nothing personal is shown, for it may be stored."""
    return MODE in os.environ


def shown(value: Any, unit: str = "", entry: Mapping = {}) -> str:
    """A value as lessons print it: as many digits as its tolerance is worth, three without one.

    `value` is a number, a truth value, a string, or a list or dictionary of them; `entry` is what a
    lesson's table has of it. With the unit "%", a share is shown as per cent.
    """
    if isinstance(value, dict):
        between = "; " if any(isinstance(item, list) for item in value.values()) else ", "
        return between.join(f"{key}: {shown(item, unit, entry)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(shown(item, unit, entry) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    number = _digits(100 * value if unit == "%" else value, unit, entry.get("tolerance"))
    return f"{number} {unit}" if unit else number


def _digits(value: float, unit: str, tolerance: Any) -> str:
    if isinstance(value, int):
        number = f"{value:,}"
    elif isinstance(tolerance, int | float) and tolerance > 0:
        finest = tolerance * (100 if unit == "%" else 1)
        digits = math.ceil(-math.log10(finest))
        number = f"{value:,.{max(0, digits)}f}"
    elif abs(value) < 1_000:
        number = f"{value:.3g}"
    else:
        number = f"{value:,.0f}"
    return true_minus(number)
