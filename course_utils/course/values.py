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
        has_lists = any(isinstance(item, list) for item in value.values())
        items = [f"{key}: {shown(item, unit, entry)}" for key, item in value.items()]
        return ("; " if has_lists else ", ").join(items)
    if isinstance(value, list):
        return ", ".join(shown(item, unit, entry) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    tolerance = entry.get("tolerance")
    times = 100 if unit == "%" else 1
    value *= times
    if isinstance(value, int):
        number = f"{value:,}"
    elif isinstance(tolerance, int | float) and tolerance > 0:
        digits = math.ceil(-math.log10(tolerance * times))
        number = f"{value:,.{max(0, digits)}f}"
    elif abs(value) < 1_000:
        number = f"{value:.3g}"
    else:
        number = f"{value:,.0f}"
    number = true_minus(number)
    return f"{number} {unit}" if unit else number
