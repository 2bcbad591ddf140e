"""Heads at work, on patterns made by hand."""

import pytest
import torch

from course_utils import heads, load, measure, models, text

PERIOD, LENGTH = 5, 16  # a start token and three passes


def _looking(source):
    """A pattern where each destination attends to `source(dest)`, or else to the start."""
    pattern = torch.zeros(LENGTH, LENGTH)
    for dest in range(LENGTH):
        pattern[dest, max(source(dest), 0)] = 1
    return pattern


UNIFORM = torch.ones(LENGTH, LENGTH).tril() / torch.arange(1.0, LENGTH + 1)[:, None]


@pytest.mark.parametrize(("back", "expected"), [(1, 1), (0, 0), (2, 0), (LENGTH, 0)])
def test_previous_token_score_of_a_head_that_looks_back(back, expected):
    assert heads.previous_token_score(_looking(lambda dest: dest - back)) == expected


@pytest.mark.parametrize(
    ("back", "expected"), [(PERIOD - 1, 1), (PERIOD, 0), (PERIOD - 2, 0), (1, 0), (LENGTH, 0)]
)
def test_prefix_matching_score_of_a_head_that_looks_back(back, expected):
    assert heads.prefix_matching_score(_looking(lambda dest: dest - back), PERIOD) == expected


@pytest.mark.parametrize("repeats", [2, 3, 4])
@pytest.mark.parametrize(
    "chosen", [slice(-1, None), slice(1), slice(None)], ids=["last", "first", "all"]
)
def test_an_induction_head_scores_one(repeats, chosen):
    """It attends to what followed occurrences of the current token, whichever it takes."""
    tokens = text.repeated_tokens(PERIOD, 1, repeats, d_vocab=10_000, seed=1)[0].tolist()
    assert len(set(tokens)) == PERIOD + 1
    pattern = torch.zeros(len(tokens), len(tokens))
    for dest, token in enumerate(tokens):
        earlier = [src for src in range(dest) if tokens[src] == token]
        sources = [src + 1 for src in earlier[chosen]] or [0]
        pattern[dest, sources] = 1 / len(sources)
    assert heads.prefix_matching_score(pattern, PERIOD).item() == pytest.approx(1)
    assert heads.previous_token_score(pattern) == 0


def test_scores_of_uniform_attention():
    # Destinations with a choice of two: 2 … 15. Destinations in the second and third pass: 6 … 15.
    # In the third, 11 … 15, two sources count.
    previous, second, third = (
        sum(1 / (d + 1) for d in range(first, LENGTH)) for first in (2, 6, 11)
    )
    assert heads.previous_token_score(UNIFORM).item() == pytest.approx(previous / 14)
    assert heads.prefix_matching_score(UNIFORM, PERIOD).item() == pytest.approx(
        (second + third) / 10
    )


def test_prefix_matching_counts_a_pass_that_has_just_begun():
    # the last token opens the third pass; what followed it stands one and two periods back
    n = 2 * PERIOD + 2
    assert heads.prefix_matching_score(
        torch.eye(n).roll(1 - 2 * PERIOD, 1), PERIOD
    ) == pytest.approx(1 / (PERIOD + 1))


def test_scores_keep_the_leading_axes():
    stack = torch.stack(
        [_looking(lambda dest: dest - 1), _looking(lambda dest: dest - PERIOD + 1), UNIFORM]
    )
    stack = stack[:, None].expand(3, 4, LENGTH, LENGTH)
    previous, prefix = heads.previous_token_score(stack), heads.prefix_matching_score(stack, PERIOD)
    assert previous.shape == prefix.shape == (3, 4)
    assert (previous[0] == 1).all() and (previous[1] == 0).all()
    assert (prefix[0] == 0).all() and (prefix[1] == 1).all()


def small():
    config = {"n_layers": 2, "d_model": 12, "n_heads": 3, "d_head": 4, "n_ctx": 9, "d_vocab": 30}
    config |= {
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "shortformer",
        "seed": 0,
    }
    return models.initial(config).requires_grad_(False)


def test_patterns_have_one_axis_for_each_thing():
    model = small()
    tokens = torch.randint(30, (5, 8), generator=torch.Generator().manual_seed(0))
    patterns = heads.patterns(model, tokens)
    assert patterns.shape == (2, 3, 5, 8, 8)
    assert not patterns.triu(1).any()
    torch.testing.assert_close(patterns.sum(-1), torch.ones(2, 3, 5, 8))
    x = model.W_E[tokens[4]] + model.W_pos[:8]
    scores = (x @ model.W_Q[0, 1]) @ (x @ model.W_K[0, 1]).T / 2
    expected = scores.masked_fill(torch.ones(8, 8).triu(1).bool(), -torch.inf).softmax(-1)
    torch.testing.assert_close(patterns[0, 1, 4], expected)


@pytest.mark.parametrize("period", [0, 1, 24, 100])
def test_a_period_that_does_not_fit_is_refused(period):
    with pytest.raises(ValueError, match="holds no second pass of period"):
        heads.prefix_matching_score(torch.eye(25), period)
    assert heads.prefix_matching_score(torch.eye(25), 23) == 0  # one destination is left


def test_a_model_without_layers_has_no_patterns():
    model = models.initial(
        {
            "n_layers": 0,
            "d_model": 8,
            "n_ctx": 4,
            "d_head": 4,
            "d_vocab": 9,
            "seed": 0,
            "attn_only": True,
        }
    )
    with pytest.raises(ValueError, match="no heads"):
        heads.patterns(model, torch.tensor([[0, 1, 2]]))


def test_value_weighting_measures_what_the_head_would_write():
    model = small()
    tokens = torch.randint(1, 30, (2, 6), generator=torch.Generator().manual_seed(1))
    weighted, patterns = heads.value_weighted(model, tokens), heads.patterns(model, tokens)
    _, cache = model.run_with_cache(tokens)
    for layer, head in ((0, 0), (1, 2)):
        written = cache["resid_pre", layer] @ model.W_V[layer, head] @ model.W_O[layer, head]
        torch.testing.assert_close(
            weighted[layer, head], patterns[layer, head] * written.norm(dim=-1)[:, None, :]
        )


@pytest.mark.parametrize("function", [heads.patterns, heads.value_weighted, measure.losses])
def test_a_text_longer_than_the_context_is_a_sentence(function):
    with pytest.raises(ValueError, match="texts of 300 tokens, and the model reads at most 256"):
        function(load("one-layer"), torch.ones(1, 300, dtype=torch.long))
