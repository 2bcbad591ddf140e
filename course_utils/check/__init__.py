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
from course_utils.check.lesson_08 import (
    best_head_curve,
    event_time,
    in_context_learning_score,
    pattern_from,
    permutation_test,
    predictable,
    previous_token_weights,
    sign_test,
)
