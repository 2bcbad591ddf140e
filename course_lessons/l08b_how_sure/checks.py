"""Checks of lesson 08b, how sure: each exercise, and what each typical mistake is told."""

import itertools
from collections.abc import Callable

import torch

from course_lessons.fixtures import random
from course_lessons.formation import events
from course_utils.course import solutions
from course_utils.course.exercises import Answer, Said, compared

Numbers = list[float]
STRAIGHT, FLAT = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0]


def _on(*values: float, share: float = 0.5) -> tuple[Numbers, Numbers, float]:
    return [10.0 * i for i in range(len(values))], [float(value) for value in values], share


def _on_noise(seed: int, share: float) -> tuple[Numbers, Numbers, float]:
    at = torch.arange(9.0 + 2 * seed)
    return (25 * at + 3 * at**2).tolist(), (at / 2 + random(len(at), seed=seed)).tolist(), share


def _up_to(final: Callable[[Numbers], float]) -> Answer:
    return lambda steps, v, share: events.reached(steps, v, v[0] + share * (final(v) - v[0]))


def _not_there(
    got: float, right: float, steps: Numbers, values: Numbers, share: float
) -> str | None:
    said = {
        10.0: "a curve that reaches half at step 10 and stays "
        "there till step 30 is there for good from step 10",
        25.0: "a curve that goes straight from 0 at step 20 to 1 at step 30 is half-way at step 25",
    }
    return f"{said[right]}, not {got:g}." if values in (STRAIGHT, FLAT) else None


event_time = compared(
    "`event_time(steps, values, share) → float`: "
    "when a share of the final rise is reached for good.",
    cases=lambda: {
        "that is not the time of half the rise.": [_on(*STRAIGHT), _on(*FLAT)],
        "a curve that starts at −1 and ends at 3 has risen by half at 1: "
        "begin at the first value.": (_on(-1, -1, -1, 3, 3, 3, 3, 3)),
        "the rise ends at the end, not at the curve's highest point.": _on(0, 0, 3, 1, 1, 1, 1, 1),
        "a curve that rises, "
        "falls back and rises again gets there for good the second time only.": (
            _on(0, 1, 0, 0, 1, 1, 1, 1)
        ),
        "the rise begins at the first value, not at the curve's lowest point.": _on(
            0, -2, 0, 1, 1, 1, 1, 1
        ),
        "the end is the mean of the last four values, of all the same.": [
            _on(0, 0, 0, 1, 0.5, 1.5, 0, 2),
            _on(0, 0, 0, 0, 2, 2, 2, 6),
        ],
        "with share 0.25 the time should be when a quarter of the rise is reached, "
        "with 0.75 three quarters.": [
            _on(0, 0, 0, 2, 2, 2, 2, 2, share=0.25),
            _on(0, 0, 0, 2, 2, 2, 2, 2, share=0.75),
        ],
        "measurements need not come at equal distances.": (
            [0.0, 1.0, 2.0, 10.0, 20.0, 30.0, 40.0, 50.0],
            *_on(0, 0, 0, 2, 2, 2, 2, 2)[1:],
        ),
        **{
            f"on a noisy curve of {9 + 2 * seed} measurements and share {share} the time is wrong: "
            "the last measurement short of the level, and the straight line from there.": _on_noise(
                seed, share
            )
            for seed, share in enumerate((0.5, 0.25, 0.8, 0.6))
        },
    },
    explain=_not_there,
    mistakes={
        "you return the number of the measurement; steps says when it was made.": (
            lambda steps, v, share: events.event_time(range(len(v)), v, share)
        ),
        "the end is the mean of the last four values, and of no more.": _up_to(
            lambda v: sum(v[-5:]) / 5
        ),
        "the end is the mean of the last four values: a single one may be an outlier.": _up_to(
            lambda v: v[-1]
        ),
    },
)


def _dealt(first: Numbers, second: Numbers) -> float:
    values = [*first, *second]
    apart = [
        abs(2 * sum(chosen) - sum(values)) for chosen in itertools.combinations(values, len(first))
    ]
    return sum(distance >= apart[0] - 1e-9 for distance in apart) / len(apart)


def _no_such_share(got: float, right: float, first: Numbers, second: Numbers) -> Said:
    ways = (
        "of the 16 ways to swap within four pairs, "
        "2 part the means of [1, 7, 3, 9] and [2, 10, 5, 14] as far, so the share is 0.125"
    )
    signs = (
        "differences of 3, 2 and −1 sum to 4, "
        "and 4 of the 8 choices of signs give a sum of 4 or more in size"
    )
    return {
        "what was observed is one of the ways, so the share is never 0.": got <= 0,
        f"a share lies between 0 and 1; yours is {got:.3f}.": got >= 1 + 1e-6,
        "you count all of the 16 ways: count those that part the means at least as far, "
        "in either direction.": first == [1, 7, 3, 9] and got > 1 - 1e-6,
        f"{ways}; yours is {got:.3f}.": first == [1, 7, 3, 9],
        f"{signs}: sizes count, not only orders. Your share is {got:.3f}.": second == [3, 2, -1],
    }


paired_test = compared(
    "`paired_test(first, second) → float`: "
    "how many swaps within pairs part the means as far as this?",
    cases=lambda: {
        "that is not the share of the swaps.": ([1.0, 7.0, 3.0, 9.0], [2.0, 10.0, 5.0, 14.0]),
        "exchanging the groups should not change the share.": (
            [2.0, 10.0, 5.0, 14.0],
            [1.0, 7.0, 3.0, 9.0],
        ),
        "sizes count, not only orders.": ([0.0, 0.0, 0.0], [3.0, 2.0, -1.0]),
        "of differences 0 and 4, each swap parts the means as far: the share is 1.": (
            [5.0, 5.0],
            [5.0, 9.0],
        ),
        "differences that are equal but for rounding should count: "
        "compare with a small tolerance.": [([0.6, 0.2, 0.5, 0.4], [0.8, 0.3, 0.9, 0.2])],
        **{
            f"on {n} pairs the share is wrong: "
            f"try every one of the 2^{n} = {2**n} choices of who is swapped.": (
                (20 * random(n, seed=n)).round().tolist(),
                (20 * random(n, seed=n + 20) + 8).round().tolist(),
            )
            for n in (1, 5, 7, 10)
        },
    },
    explain=_no_such_share,
    mistakes={
        "you count one direction only; a difference the other way would be as surprising.": (
            lambda a, b: solutions.find("paired_test").function(a, b) / 2
        ),
        "you deal all the values to two groups; "
        "only swaps within a pair are allowed: 2 ways for each pair.": _dealt,
    },
)


OBJECTIONS = {  # what to ask oneself again, case by case
    "A": "what was fixed before the runs, and how much does the report claim?",
    "B": "a run with the plant and the run of the same seed without it: what have they in common?",
    "C": "how often would the smallest of fifteen p-values be below 0.05, if there were nothing?",
    "D": "when was the rule made, and when were the curves seen?",
    "E": "what happens to positivity if all weights are made a hundred times smaller?",
    "F": "which ways to use a repetition does prefix matching see?",
    "G": "what else would any sharp head do to a young model?",
    "H": "when was the rule made that chooses the pair?",
}
WORDS = ("fine", "pairs", "many", "after", "size", "blind", "sham")
RIGHT = dict(zip(OBJECTIONS, (*WORDS, "fine"), strict=True))


def _think_again(got: dict[str, str], right: dict[str, str]) -> str:
    if missing := [letter for letter in right if letter not in got]:
        return f"these cases have no verdict yet: {', '.join(missing)}."
    letter = next(letter for letter in right if got[letter] != right[letter])
    if got[letter] not in WORDS:
        return f"case {letter}: {got[letter]!r} is not one of {', '.join(WORDS)}."
    return f"case {letter}: think again: {OBJECTIONS[letter]}.".replace("?.", "?")


objections = compared(
    '`objections() → {"A": word, …}`: for each of eight cases what is wrong with the test, or '
    '"fine".',
    returns="a dictionary, a word for each letter",
    cases=lambda: {"one of the verdicts is wrong.": ()},
    as_read=lambda found: (
        {k: found[k] for k in OBJECTIONS if k in found} if isinstance(found, dict) else found
    ),
    explain=_think_again,
    mistakes={
        "these cases have no verdict yet: E.": lambda: {
            k: word for k, word in RIGHT.items() if k != "E"
        },
        "case B: 'unfair' is not one of fine, pairs, many, after, size, blind, sham.": lambda: (
            RIGHT | {"B": "unfair"}
        ),
    },
)
