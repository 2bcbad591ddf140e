"""Feedback on exercises, one line each: ✓ right, ✗ with what went wrong, ○ not attempted yet.

`check.direct_path(direct_path)` looks at properties first (a shape, a sum, what must not matter), so that a wrong
answer hears which one fails; it never shows the right answer.
"""

from course_utils.check.lesson_03 import (
    bigram_logprobs,
    direct_path,
    low_rank,
    row_centred_correlation,
    self_rate,
    table_loss,
)
from course_utils.check.lesson_05 import error_bound, order_violations, qk_scores, votes, worst_lead
