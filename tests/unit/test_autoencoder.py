"""The sparse autoencoder on activations whose features are known."""

import pytest
import torch

from course_lessons.l09c_superposition import autoencoder


def made_up(rows=4_000, d=16, features=24, on=2):
    """Sums of a few of many known directions: (x, directions)."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.nn.functional.normalize(torch.randn(features, d, generator=generator), dim=1)
    which = torch.rand(rows, features, generator=generator).argsort(1)[:, :on]
    strengths = torch.zeros(rows, features).scatter_(
        1, which, 1 + torch.rand(rows, on, generator=generator)
    )
    return strengths @ directions, directions


def test_known_directions_are_found():
    x, directions = made_up()
    coder = autoencoder.train(x, features=32, on=2, steps=600, batch=256)
    assert ((coder.back(x) - x) ** 2).sum() < 0.15 * ((x - x.mean(0)) ** 2).sum()
    found = (directions @ coder.W_out.T).amax(1)  # the cosine of each with its nearest feature
    assert (found > 0.9).float().mean() > 0.7


def test_no_more_features_are_on_than_asked_and_none_below_zero():
    x, _ = made_up(200)
    coder = autoencoder.train(x, features=20, on=3, steps=3, batch=50)
    strengths = coder.features(x[None])
    assert (
        strengths.shape == (1, 200, 20)
        and (strengths >= 0).all()
        and ((strengths > 0).sum(-1) <= 3).all()
    )
    torch.testing.assert_close(coder.W_out.norm(dim=1), torch.ones(20))
    torch.testing.assert_close(coder.back(x), coder.features(x) @ coder.W_out + coder.middle)


def test_training_repeats_itself_and_leaves_the_caller_their_random_numbers():
    x, _ = made_up(100)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, two, other = (
        autoencoder.train(x, features=8, on=2, steps=2, batch=20, seed=seed) for seed in (0, 0, 1)
    )
    assert torch.equal(before, torch.get_rng_state()) and torch.equal(one.W_in, two.W_in)
    assert not torch.equal(one.W_in, other.W_in) and not one.W_in.requires_grad


def test_more_features_on_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="features"):
        autoencoder.train(torch.rand(10, 4), features=3, on=5, steps=1)


def test_the_best_code_is_exact_for_two_directions_and_least_squares_for_more():
    x, directions = made_up(300)
    assert autoencoder.left_over_at_best(x, directions) == pytest.approx(0, abs=1e-4)
    x = torch.tensor([[3.0, 2.0, 1.0], [1.0, -2.0, 0.0]])
    left = (1 + 4) / ((x - x.mean(0)) ** 2).sum().item()  # no strength is below zero
    assert autoencoder.left_over_at_best(x, torch.eye(3)) == pytest.approx(left)


def test_a_pair_explains_no_less_than_each_of_its_directions():
    x, directions = made_up(300)
    one, both = directions[:1], directions[:2]
    alone, pair = (autoencoder.left_over_at_best(x, part) for part in (one, both))
    assert pair <= alone
