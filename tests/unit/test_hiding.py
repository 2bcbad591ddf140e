"""Sources hidden from heads, and the places of a text where lessons write one."""

import pytest
import torch
from transformer_lens.hook_points import HookPoint

from course_lessons import insertions
from course_lessons.l04b_what_reading_misses import hiding

PATTERNS = torch.rand(2, 9, 9, generator=torch.Generator().manual_seed(0)).tril()
PATTERNS /= PATTERNS.sum(-1, keepdim=True)


def test_a_hidden_start_token_leaves_the_others_in_proportion():
    hidden = hiding.without_start(PATTERNS)
    rest = PATTERNS[:, 1:, 1:] / PATTERNS[:, 1:, 1:].sum(-1, keepdim=True)
    assert torch.allclose(hidden[:, 1:, 1:], rest) and not hidden[:, 1:, 0].any()
    assert (hidden[:, 0, 0] == 1).all()  # where there is nothing else


def test_the_hooks_change_these_heads_alone():
    patterns, values = torch.stack([PATTERNS] * 3, 1), torch.ones(2, 9, 3, 4)
    where, hide = hiding.start_hidden([0, 2])
    hidden = hide(patterns.clone(), HookPoint())
    assert where == "blocks.0.attn.hook_pattern" and torch.equal(hidden[:, 1], patterns[:, 1])
    assert torch.equal(hidden[:, [0, 2]], hiding.without_start(patterns[:, [0, 2]]))
    where, mute = hiding.start_value_at_zero([1])
    muted = mute(values.clone(), HookPoint())
    assert where == "blocks.0.attn.hook_v" and not muted[:, 0, 1].any()
    assert muted.sum() == values.sum() - 2 * 4


def test_contexts_end_at_places_of_the_text():
    tokens = torch.arange(1, 141).view(2, 70)
    found = insertions.contexts(tokens, 20, torch.Generator().manual_seed(0))
    assert found.shape == (20, 48) and not found[:, 0].any()
    assert (found[:, 1:].diff(dim=1) == 1).all() and ((found[:, -1] - 1) % 70 >= 64).all()
    with pytest.raises(ValueError, match="too short"):
        insertions.contexts(tokens[:, :60], 1, torch.Generator())
