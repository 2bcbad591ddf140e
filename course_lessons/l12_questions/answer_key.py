"""The keys of the twenty-four questions: the option that holds, and your bets before and after."""

import os

from torch import Tensor

from course_utils.course import bets, claims


def true_one(asked: tuple[str, list[str]], *holds: bool | Tensor) -> str:
    """Of a question and its options the one option that holds, each tested by itself; else how many
    do.
    """
    true = [option for option, one in zip(asked[1], holds, strict=True) if one]
    return true[0] if len(true) == 1 else f"{len(true)} of these"


def before_and_after() -> None:
    """Print how many bets were right before and after, by lesson; then the questions still wrong,
    with both answers.
    """
    kept = {} if claims.MODE in os.environ else bets.guesses()  # nobody's bets are stored
    groups: dict[str, list[tuple[bool, bool]]] = {}
    wrong = []
    for name, bet in kept.items():
        before, after = kept.get(name.replace("12_", "12_before_", 1), {}), bet.get("first", bet)
        if not name.startswith("12_") or "truth" not in bet or "guess" not in before:
            continue
        lesson, number = name.split("_")[1], bet["question"].partition(".")[0]
        right = [one["guess"] == bet["truth"] for one in (before, after)]
        for group in ("all", lesson):
            groups.setdefault(group, []).append((right[0], right[1]))
        if not right[1]:
            since = "as before" if before["guess"] == after["guess"] else "new"
            wrong.append(
                f"question {number}, {since}: “{after['guess']}”; the key: “{bet['truth']}”"
            )
    for group, pairs in groups.items():
        first, last = (sum(column) for column in zip(*pairs, strict=True))
        print(f"{group:3} of {len(pairs):2}: before {first}, after {last}")
    print(
        *wrong
        or ["None is wrong any more." if groups else "No question is answered both times yet."],
        sep="\n",
    )
