"""What models trained with other seeds say of the lessons' claims, as tables.

`course_tools.replicate` asks them and writes `data/replication.json`; here it is shown.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from IPython.display import Markdown

from course_utils import _words
from course_utils._arguments import validated
from course_utils._files import DATA, verified
from course_utils.course.claims import table
from course_utils.course.values import shown

VERDICTS = "holds", "k of n", "ours alone"  # of siblings on a claim


@validated
def siblings(lesson: str, statements: Sequence[str]) -> Any:
    """What models trained with other seeds say of some of a lesson's claims, and of all in sum.

    From `data/replication.json`, made by `python -m course_tools.replicate`; `data/REPLICATION.md`
    has all of it, and the rule of the verdicts. Raises KeyError for a statement that was not
    replicated.
    """
    replicated = json.loads(verified(DATA / "replication.json").read_text(encoding="utf-8"))
    rows = replicated[lesson]
    verdicts = [row["verdict"] for row in rows.values()]
    holds, some, alone = map(verdicts.count, VERDICTS)
    made = sibling_table(lesson, {statement: rows[statement] for statement in statements})
    return Markdown(
        f"{made}\n\nOf the lesson's {len(rows)} claims about the trained model {holds} hold on "
        f"every sibling, {some} on some or for some of their numbers, and {alone} are ours alone."
    )


def sibling_table(lesson: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Replicated claims in a table: ours, the seeds' range, other siblings, how many agree."""
    names = dict.fromkeys(name for row in rows.values() for name in row["siblings"])
    seeds = [name for name in names if name.startswith("seed")]
    others = [name for name in names if name not in seeds]
    groups = [seeds, *([name] for name in others)]
    cells = []
    for statement, row in rows.items():
        entry = table(lesson)[statement]
        ours = shown(row["ours"], entry.get("unit", ""), entry)
        theirs = []
        for group in groups:
            values = [row["siblings"].get(name) for name in group]
            theirs.append(spread(values, entry))
        agree = row["agree"]  # for each number, how many
        if len(set(agree)) == 1:
            agree = agree[:1]
        agree = ", ".join(map(str, agree))
        cells.append((statement, ours, *theirs, f"{agree} of {len(seeds)}"))
    of_others = [f"with {name}" for name in others]
    heads = ["claim", "ours", f"{len(seeds)} siblings", *of_others, "siblings that agree"]
    return _words.table(heads, cells)


def spread(values: Iterable[Any], entry: Mapping = {}) -> str:
    """The smallest and the largest, number by number; of words, each different one once."""
    unit = entry.get("unit", "")
    measured = [value for value in values if value is not None]
    is_range = bool(measured) and entry.get("kind") not in ("equal", "list")
    first = measured[0] if is_range else ""
    if isinstance(first, dict):
        keys = dict.fromkeys(key for value in measured for key in value)
        parts = []
        for key in keys:
            part = spread([value.get(key) for value in measured], entry)
            parts.append(f"{key}: {part}")
        return "; ".join(parts)
    if isinstance(first, list):
        return ", ".join(spread(each, entry) for each in zip_longest(*measured))
    if isinstance(first, bool | str):
        different = dict.fromkeys(shown(value, unit, entry) or "none" for value in measured)
        return "; ".join(different) or "not measured"
    low = shown(min(measured), unit, entry)
    high = shown(max(measured), unit, entry)
    if low == high:
        return low
    return f"{low.removesuffix(f' {unit}')} to {high}"
