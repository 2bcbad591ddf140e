"""Wrong hypotheses about the sealed models of lesson 11, with what the judge says.

Right ones stand in the solutions.
"""

from course_lessons.programs import Head, back, where

INDUCTION = Head(where("before", equals="token"), {"token": "out"})
WRONG = {
    "a hypothesis names heads and says what they do": lambda: [],
    "says what they do": lambda: {"1.2": "induction"},
    "is none of them": lambda: {"1.4": Head(back(7), {"token": "out"})},
    "and no head writes that slot": lambda: {"1.2": INDUCTION},
    "the program says nothing": lambda: {"0.2": Head(back(1), {"token": "before"})},
    "nothing that your hypothesis says depends on it": lambda: {
        "0.2": Head(back(1), {"token": "before"}),
        "1.1": Head(back(7), {"token": "out"}),
    },
    'writes to "here", which nobody reads': lambda: {
        "0.2": Head(back(1), {"token": "before", "place": "here"}),
        "1.1": INDUCTION,
    },
    "something in it is false": lambda: {
        "0.3": Head(back(6), {"token": "before"}),
        "1.0": INDUCTION,
    },
}

RIGHT_ANSWERS: dict[str, dict] = {}
WRONG_ANSWERS = {f"case_{number}": WRONG for number in (1, 2, 3)}
