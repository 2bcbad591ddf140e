"""Lesson 07: labels that are moved, and where heads look then."""

import pytest
import torch

from course_lessons.l07_induction_heads import moving
from course_utils import load, text


@pytest.fixture(scope="module")
def model():
    return load("two-layer")


def test_what_a_head_writes(model):
    tokens = text.repeated_tokens(6, batch=2)
    cache = model.run_with_cache(tokens)[1]
    alone = cache["attn_out", 0] - model.b_O[0]
    added_up = sum(moving.written(model, tokens, head) for head in range(8))
    assert torch.allclose(added_up, alone, atol=1e-4)


def test_attention_is_that_of_the_second_a(model):
    tokens = text.repeated_tokens(32, batch=2)
    calls = []

    def moves_nothing(model, label, src, target):
        calls.append((src, target))
        return []

    labels = torch.zeros(2, tokens.shape[1], 256)
    looks = moving.attention(model, tokens, 32, labels, moves_nothing)
    assert calls == [(4, 24), (10, 30)]
    pattern = model.run_with_cache(tokens)[1]["pattern", 1]  # [batch, head, dest, src]
    at = [pattern[:, 6, src + 31, src].mean() for src, _ in calls]
    assert looks.shape == (moving.BEFORE + moving.LATER + moving.BEHIND, 8)
    assert torch.allclose(looks[moving.BEFORE, 6], sum(at) / 2, atol=1e-5)
    with pytest.raises(ValueError, match="no room"):
        moving.attention(model, tokens, 20, labels, moves_nothing)
