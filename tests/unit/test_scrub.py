"""Lesson 07b: heads that know some tokens of a text only."""

import torch

from course_lessons.l07b_second_writer import scrub
from course_utils import interventions, load, measure, text

TOKENS = text.repeated_tokens(10, batch=5)
ANOTHER = text.repeated_tokens(30, batch=5, repeats=1, seed=1)


def test_a_head_that_knows_all_tokens_is_the_head():
    model = load("two-layer")
    z = model.run_with_cache(TOKENS)[1]["z", 0]
    everywhere = scrub.within(model, TOKENS, ANOTHER, range(TOKENS.shape[1]))
    assert torch.allclose(everywhere, z, atol=1e-4)
    nowhere = scrub.within(model, TOKENS, ANOTHER, [])
    theirs = model.run_with_cache(ANOTHER[:, : TOKENS.shape[1]])[1]["z", 0]
    assert torch.allclose(nowhere, theirs, atol=1e-4)


def test_what_is_outside_the_window_changes_nothing():
    model, changed = load("two-layer"), TOKENS.clone()
    changed[:, 7] = 5
    before, after = (scrub.within(model, t, ANOTHER, [1]) for t in (TOKENS, changed))
    differs = (before - after).abs().amax((0, 2, 3)) > 1e-4
    assert differs.nonzero().flatten().tolist() == [8]


def test_losses_with_whole_windows_are_those_of_the_doors():
    model, previous = load("two-layer"), (0, 5)
    named = [(previous, "k", (1, 6))]
    rest = [((0, 0), "k", (1, 6))]
    instead = interventions.stand_ins(model, 0, ANOTHER)["the mean"]
    windows = {previous: range(TOKENS.shape[1])}
    found = scrub.losses(model, TOKENS, ANOTHER, windows, named, rest, instead)
    expected = measure.losses(model, TOKENS) + measure.cost(model, rest, TOKENS, instead)
    assert torch.allclose(found, expected, atol=1e-3)
