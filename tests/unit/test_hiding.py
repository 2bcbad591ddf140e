"""Sources hidden from heads, and the places of a text where lessons write one."""

import pytest
import torch

from course_lessons import insertions
from course_lessons.l04b_what_reading_misses import hiding

PATTERNS = torch.rand(2, 9, 9, generator=torch.Generator().manual_seed(0)).tril()
PATTERNS[0, 4:, 0] = 0.1  # little enough, so that others can be hidden
PATTERNS[1, 8, 0] = 99  # too much
PATTERNS /= PATTERNS.sum(-1, keepdim=True)
HAS_HALF = PATTERNS[..., :1] > 0.5


def test_a_hidden_start_token_leaves_the_others_in_proportion():
    hidden = hiding.without_start(PATTERNS, 0.5)
    rest = PATTERNS[..., 1:] / PATTERNS[..., 1:].sum(-1, keepdim=True)
    assert torch.allclose(torch.where(HAS_HALF, hidden[..., 1:], rest), hidden[..., 1:])
    assert (hidden[..., :1] == torch.where(HAS_HALF, PATTERNS[..., :1], 0)).all()
    everywhere = hiding.without_start(PATTERNS)  # but where there is nothing else
    assert not everywhere[:, 1:, 0].any() and (everywhere[:, 0, 0] == 1).all()


def test_the_control_hides_as_much_and_leaves_the_start_token():
    hidden = hiding.without_others(PATTERNS, torch.Generator().manual_seed(1))
    assert torch.allclose(hidden.sum(-1), torch.ones(2, 9))
    assert not hidden.triu(1).any() and (hidden >= 0).all()
    start = PATTERNS[..., 0]
    expected = torch.where(HAS_HALF[..., 0], start, start / (1 - start))  # a part as large is gone
    assert torch.allclose(hidden[..., 0], expected)


def test_contexts_end_at_places_of_the_text():
    tokens = torch.arange(1, 141).view(2, 70)
    found = insertions.contexts(tokens, 20, torch.Generator().manual_seed(0))
    assert found.shape == (20, 48) and not found[:, 0].any()
    assert (found[:, 1:].diff(dim=1) == 1).all() and ((found[:, -1] - 1) % 70 >= 64).all()
    with pytest.raises(ValueError, match="too short"):
        insertions.contexts(tokens[:, :60], 1, torch.Generator())
