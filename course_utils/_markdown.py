"""Tables in Markdown."""

import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, a line per row. A cell is what `str` makes of it; bars in it that are not escaped yet are escaped."""
    return "\n".join([_row(heads), "|---" * len(heads) + "|", *map(_row, rows)])


def _row(cells: Sequence[object]) -> str:
    texts = (re.sub(r"(?<!\\)\|", r"\\|", str(cell)) for cell in cells)
    return "|" + "|".join(f" {text} " if text else " " for text in texts) + "|"
