"""What was tried on lesson 11's sealed models, and its cost: `my_cases.json` beside it."""

from course_utils.course import keeping
from course_utils.course.values import is_recorded

FILE = "my_cases.json"
POINTS = 10  # that a box is worth
PRICE = 3  # of a false hypothesis, in points


def kept() -> dict[str, dict[str, str]]:
    """By box the digests of all hypotheses, and whether each was "false", "true" or "solved"."""
    return keeping.read(FILE, lambda tried: isinstance(tried, dict))


def add(box: str, digest: str, outcome: str) -> str:
    """Enter a hypothesis, the same one once only, and say how the box stands.

    Authors' and CI's are not kept.
    """
    known = {} if is_recorded() else kept()
    tried = known.setdefault(box, {})
    tried.setdefault(digest, outcome)
    if not is_recorded():
        keeping.enter(FILE, box, tried)
    return stands(tried)


def stands(tried: dict[str, str]) -> str:
    """Tries, false ones, points of the maximum: what is tried once it is solved costs nothing."""
    outcomes = list(tried.values())
    is_solved = "solved" in outcomes
    if is_solved:
        outcomes = outcomes[: outcomes.index("solved")]
    false = outcomes.count("false")
    points = max(0, POINTS - PRICE * false)
    tries = "try" if len(tried) == 1 else "tries"
    to_win = "point to win" if points == 1 else "points to win"
    worth = f"of {POINTS} points" if is_solved else to_win
    return f"{len(tried)} {tries}, {false} false, {points} {worth}"


def summary() -> str:
    """All boxes in a sentence; nothing where none was tried."""
    boxes = sorted(kept().items())
    said = "; ".join(f"{box}: {stands(tried)}" for box, tried in boxes)
    return f"Sealed boxes. {said}." if boxes else ""
