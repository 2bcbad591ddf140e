"""Wrong hypotheses about the sealed models of lesson 11b, with what the judge says.

Right ones stand in the solutions.
"""

from tests.answers.l11_final_case import WRONG

RIGHT_ANSWERS: dict[str, dict] = {}
WRONG_ANSWERS = {f"case_{number}": WRONG for number in range(4, 12)}
