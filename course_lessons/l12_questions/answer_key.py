"""The keys of the twenty-four questions: the option that holds, and your bets before and after."""

from torch import Tensor

from course_utils.course import bets
from course_utils.course.values import is_recorded


def true_one(asked: tuple[str, list[str]], *holds: bool | Tensor) -> str:
    """Of a question and its options the one option that holds; else how many do.

    Each is tested by itself.
    """
    true = [option for option, one in zip(asked[1], holds, strict=True) if one]
    return true[0] if len(true) == 1 else f"{len(true)} of these"


def before_and_after() -> None:
    """Print how many bets were right before and after, by lesson.

    Then come the questions still wrong, with both answers.
    """
    kept = {} if is_recorded() else bets.guesses()  # nobody's bets are stored
    groups: dict[str, list[tuple[bool, bool]]] = {}
    wrong = []
    for name, bet in kept.items():
        before = kept.get(name.replace("12_", "12_before_", 1), {})
        after = bet.get("first", bet)
        if not name.startswith("12_") or "truth" not in bet or "guess" not in before:
            continue
        lesson, number = name.split("_")[1], bet["question"].partition(".")[0]
        was_right = before["guess"] == bet["truth"]
        is_right = after["guess"] == bet["truth"]
        for group in ("all", lesson):
            groups.setdefault(group, []).append((was_right, is_right))
        if not is_right:
            since = "as before" if before["guess"] == after["guess"] else "new"
            said, key = after["guess"], bet["truth"]
            wrong.append(f"question {number}, {since}: “{said}”; the key: “{key}”")
    for group, pairs in groups.items():
        first, last = (sum(column) for column in zip(*pairs, strict=True))
        print(f"{group:3} of {len(pairs):2}: before {first}, after {last}")
    if not wrong:
        none = "None is wrong any more." if groups else "No question is answered both times yet."
        wrong = [none]
    print(*wrong, sep="\n")
