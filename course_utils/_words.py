"""Words on a page: tables in Markdown, and numbers with a true minus sign."""

import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, a line per row.

    A cell is what `str` makes of it, on one line; bars in it that are not escaped yet are escaped,
    and so is what would be HTML.
    """
    rule = "|---" * len(heads) + "|"
    return "\n".join([_row(heads), rule, *map(_row, rows)])


def _row(cells: Sequence[object]) -> str:
    line = "|"
    for cell in cells:
        text = re.sub(r"(?<!\\)\|", r"\\|", " ".join(str(cell).splitlines()))
        text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
        line += f" {text} |" if text else " |"
    return line


def true_minus(number: str) -> str:
    """A number that is written already, with a minus for its hyphens, and no sign before a zero."""
    is_zero = not number.strip("+-0.,")
    return number.lstrip("+-") if is_zero else number.replace("-", "−")
