"""What was tried on each sealed model of lesson 11, and what it cost: kept in `my_cases.json`
beside the notebook.
"""

import json
from pathlib import Path

from course_utils._files import write_text
from course_utils.course.values import is_recorded

# points that a box is worth, and what a false hypothesis costs of them
FILE, POINTS, PRICE = ("my_cases.json", 10, 3)


def kept() -> dict[str, dict[str, str]]:
    """By box the digests of all hypotheses, and whether each was "false", "true" or "solved"."""
    path = Path(FILE)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def add(box: str, digest: str, outcome: str) -> str:
    """Enter a hypothesis, the same one once only, and say how the box stands.

    Authors' and CI's are not kept.
    """
    known = {} if is_recorded() else kept()
    known.setdefault(box, {}).setdefault(digest, outcome)
    if not is_recorded():
        write_text(Path(FILE), json.dumps(known, indent=1) + "\n")
    return stands(known[box])


def stands(tried: dict[str, str]) -> str:
    """Tries, false ones, and points of the maximum, in words; what is tried once the box is solved
    costs nothing.
    """
    outcomes = [*tried.values()]
    false = outcomes[: [*outcomes, "solved"].index("solved")].count("false")
    points = max(0, POINTS - PRICE * false)
    left = (
        f"{points} of {POINTS} points" if "solved" in tried.values() else f"{points} points to win"
    )
    return f"{len(tried)} {'try' if len(tried) == 1 else 'tries'}, {false} false, {left}"


def summary() -> str:
    """All boxes in a sentence; nothing where none was tried."""
    boxes = [f"{box}: {stands(tried)}" for box, tried in sorted(kept().items())]
    return f"Sealed boxes. {'; '.join(boxes)}." if boxes else ""
