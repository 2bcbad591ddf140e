"""The twenty-four questions, their keys, and your answers in three sittings.

`questions.json` has each question by name ("01_value": its lesson, and a word) with its options,
the claim whose value is the key, and the lessons and sections that show it. An answer is a bet
under a sitting's name: "12_before_01_value", "12_01_value" after the course, "12_later_01_value"
30 days on.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from course_utils.course import bets, claims, keeping
from course_utils.course.values import is_recorded

LESSON = "12_questions"
FROM_SITE = "my_questions.json"  # what the site saves, in the form of my_predictions.json
# What each sitting is called, and how the names of its bets begin.
SITTINGS = {"before": "12_before_", "after": "12_", "30 days later": "12_later_"}
_STORED = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))
# By name: the question, and its options.
QUESTIONS: dict[str, tuple[str, list[str]]] = {
    name: (asked["question"], asked["options"]) for name, asked in _STORED.items()
}
# By name: the lessons that show the key, and their sections.
SHOWN: dict[str, dict[str, list[int]]] = {name: asked["shown"] for name, asked in _STORED.items()}


def keys() -> dict[str, str]:
    """The right option of each question, by name: the value of its claim."""
    table = claims.table(LESSON)
    return {name: table[asked["key"]]["value"] for name, asked in _STORED.items()}


def places(name: str) -> str:
    """Where the course shows a question's key: "lesson 02, section 4; lesson 04b, section 3"."""
    said = []
    for lesson, sections in SHOWN[name].items():
        word = "section" if len(sections) == 1 else "sections"
        numbers = " and ".join(map(str, sections))
        said.append(f"lesson {lesson}" + (f", {word} {numbers}" if sections else ""))
    return "; ".join(said)


def true_one(asked: tuple[str, list[str]], *holds: bool | Tensor) -> str:
    """Of a question and its options the one option that holds; else how many do.

    Each is tested by itself.
    """
    true = [option for option, one in zip(asked[1], holds, strict=True) if one]
    return true[0] if len(true) == 1 else f"{len(true)} of these"


def answers(kept: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Of kept bets the answers to the questions: sitting → question → option, as they are read now.

    Of somebody who bet again once the key was known, the first bet counts. What has another form,
    or is no option of its question, is left out.
    """
    found: dict[str, dict[str, str]] = {}
    for sitting, begins in SITTINGS.items():
        found[sitting] = {}
        for name, (_, options) in QUESTIONS.items():
            bet = kept.get(begins + name)
            first = bet.get("first", bet) if isinstance(bet, dict) else None
            guess = first.get("guess") if isinstance(first, dict) else None
            if guess in options:
                found[sitting][name] = guess
    return found


def from_the_site() -> None:
    """Add to your bets the answers that you saved on the site.

    They are read from `my_questions.json` beside the notebook, and what you answered here stays.
    """
    if is_recorded():
        return
    saved, kept = bets.guesses(FROM_SITE), bets.guesses()
    new = [
        begins + name
        for sitting, begins in SITTINGS.items()
        for name in answers(saved)[sitting]
        if begins + name not in kept
    ]
    for name in new:
        keeping.enter(bets.PREDICTIONS, name, saved[name])
    if new:
        print(f"{len(new)} answers of {FROM_SITE} are now among your bets.")


def before_and_after() -> None:
    """Print how many answers are right in each sitting, by lesson, once one has a key.

    Then come the questions whose last answer is wrong, with it and the key.
    """
    given = answers({} if is_recorded() else bets.guesses())  # nobody's bets are stored
    before, *_ = given
    if not any(given[sitting] for sitting in given if sitting != before):
        print("No question is answered after the course yet.")
        return

    # A line for all, and one for each lesson.
    right = keys()
    lessons = dict.fromkeys(name.partition("_")[0] for name in QUESTIONS)
    for group in ("all", *lessons):
        counts = []
        for sitting, said in given.items():
            here = [name for name in said if group in ("all", name.partition("_")[0])]
            hits = sum(said[name] == right[name] for name in here)
            counts += [f"{sitting} {hits} of {len(here)}"] if here else []
        if counts:
            print(f"{group:3}: {', '.join(counts)}")

    # What is wrong still.
    wrong = []
    for name, (question, _) in QUESTIONS.items():
        mine = [given[sitting][name] for sitting in given if name in given[sitting]]
        is_known = any(name in given[sitting] for sitting in given if sitting != before)
        if is_known and mine[-1] != right[name]:
            since = "as before" if len(mine) > 1 and mine[-2] == mine[-1] else "new"
            number = question.partition(".")[0]
            told = f"question {number}, {since}: “{mine[-1]}”; the key: “{right[name]}”"
            wrong.append(f"{told} ({places(name)})")
    print(*(wrong or ["None is wrong any more."]), sep="\n")
