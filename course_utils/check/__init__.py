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
from course_utils.check.lesson_10 import (
    attention_across,
    attention_by_gap,
    copier,
    copying_heads,
    destination_axis,
    eraser,
    fold_layer_norm,
    identity_error,
    landing,
    match_positivity,
    next_merge,
    qk_term,
    scale_spread,
    self_logit_share,
    split_words,
    through_layer,
    undo_scaling,
)
