"""Feedback on exercises, one line each: ✓ right, ✗ with what went wrong, ○ not attempted yet.

`check.direct_path(direct_path)` looks at properties first (a shape, a sum, what must not matter), so that a wrong
answer hears which one fails; it never shows the right answer.
After ✓ the lesson goes on with the learner's function, else with ours: `direct_path = check.direct_path(direct_path)`.
`check.hint("direct_path")` shows the next hint, `check.solution("direct_path")` our solution once the exercise has been
attempted, and `check.reset("direct_path")` gives the blank back.
"""

from course_utils.check.exercises import hint, reset, solution
from course_utils.check.lesson_01 import (
    attention_pattern,
    attention_scores,
    masked,
    notices,
    previous_token_head,
    top_p,
    transformer,
    weighted_values,
)
from course_utils.check.lesson_02 import bias_head, patch_stream, predicted_drop, replaced, stream_terms
from course_utils.check.lesson_02b import fold_layer_norm, frozen_logits, rotate
from course_utils.check.lesson_03 import (
    alphabet_weights,
    bigram_logprobs,
    direct_path,
    exact_weights,
    hidden_lead,
)
from course_utils.check.lesson_04 import (
    fixed_on_start,
    path_terms,
    positive_yet_lowering,
    skip_trigrams,
)
from course_utils.check.lesson_04b import attention_program, keep_in_mind, without_heads
from course_utils.check.lesson_05 import by_hand, move_key, qk_scores, worst_lead
from course_utils.check.lesson_06 import (
    composition,
    one_door,
    qk_terms,
    shut,
    virtual_head,
)
from course_utils.check.lesson_07 import induction_by_hand, induction_targets, move_label, mystery_targets
from course_utils.check.lesson_07b import pointers_by_hand, two_occurrences
from course_utils.check.lesson_08 import (
    event_time,
    looks_held,
    objections,
    paired_test,
    previous_token_weights,
)
from course_utils.check.lesson_09 import (
    foretell,
    preactivations,
    wave_neurons,
    with_attention,
    without_neurons,
)
from course_utils.check.lesson_09b import about, only_waves, pair_error, polygon, without_direction
from course_utils.check.lesson_10 import (
    attention_by_gap,
    copier,
    path_patched,
    undo_scaling,
    verdict,
    with_divisors,
)
from course_utils.check.lesson_11 import case, case_1, case_2, case_3, case_4, case_5, case_6, case_7, case_8
