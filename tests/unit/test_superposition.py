"""The toy of lesson 09c against what can be counted by hand."""

import pytest
import torch

from course_lessons.l09c_superposition import superposition


def test_few_features_have_every_case_once():
    x = superposition.cases(4)
    assert len(x) == 16 == len(x.unique(dim=0)) and set(x.unique().tolist()) == {0.0, 1.0}


def test_many_features_have_all_singles_and_pairs_and_some_of_the_rest():
    on = superposition.cases(20).sum(1).long().bincount()
    assert on[:3].tolist() == [1, 20, 190] and on[10] == superposition.MOST


@pytest.mark.parametrize("n", [4, 20])
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_probabilities_sum_to_one_and_have_the_density(n, density):
    x = superposition.cases(n)
    p = superposition.probabilities(x, density)
    assert p.sum().item() == pytest.approx(1, abs=1e-4)
    assert (p @ x.sum(1)).item() == pytest.approx(n * density, rel=1e-3)


@pytest.mark.parametrize("relu", [True, False])
def test_a_model_that_says_nothing_loses_one_per_feature_and_a_perfect_one_nothing(relu):
    assert superposition.losses(torch.zeros(5, 2), torch.zeros(5), [0.1], relu)[0] == pytest.approx(
        1, abs=1e-5
    )
    assert superposition.losses(torch.eye(5), torch.zeros(5), [0.1], relu)[0] == pytest.approx(
        0, abs=1e-6
    )


def test_without_a_relu_training_finds_what_least_squares_allow():
    W, b = superposition.train(4, 2, [0.3], relu=False, steps=400, copies=2)
    assert superposition.losses(W[0], b[0], [0.3], False)[0] == pytest.approx(2 / 4 * 0.7, abs=1e-3)


def test_two_sparse_features_share_one_dimension_as_opposites():
    W, _ = superposition.train(2, 1, [0.05], steps=600, copies=4)
    assert (W[0].abs() > 0.5).all() and W[0].prod() < 0


def test_training_leaves_the_caller_their_random_numbers_and_repeats_itself():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = (superposition.train(3, 2, [0.1], steps=3)[0] for _ in range(2))
    assert torch.equal(before, torch.get_rng_state()) and torch.equal(first, second)


def test_the_feature_that_counts_little_is_left_out_unless_both_are_rare():
    W, _ = superposition.train(2, 1, [0.5, 0.02], steps=600, copies=4, counts=[0.2, 0.2])
    assert (W[..., 0].abs() > 0.5).tolist() == [[True, False], [True, True]]


def test_planted_children_come_with_their_parent_only_if_nested():
    nested, free = superposition.planted(True), superposition.planted(False)
    parents, children = nested[:, 12:15].repeat_interleave(3, 1), nested[:, 15:]
    assert (children <= parents).all() and (
        free[:, 15:] > free[:, 12:15].repeat_interleave(3, 1)
    ).any()
    for on in (nested, free):
        torch.testing.assert_close(on[:, 15:].mean(), torch.tensor(0.0375), atol=0.002, rtol=0)


def test_a_unit_that_is_the_parent_fires_with_and_without_a_child():
    on = superposition.planted(True, rows=500)
    assert superposition.fires(on, torch.eye(24), on).tolist() == [[1, 1]] * 3
    alone = (
        on * (1 - torch.eye(24)[12])
        + torch.eye(24)[12] * (on[:, 15:18].sum(1, keepdim=True) == 0) * on
    )
    assert superposition.fires(alone, torch.eye(24), on).tolist() == [[1, 0], [1, 1], [1, 1]]


def test_joined_directions_are_the_true_ones_but_for_children():
    truth = superposition.directions()
    joined = superposition.joined(truth)
    assert torch.equal(joined[:15], truth[:15])
    torch.testing.assert_close(joined.norm(dim=1), torch.ones(24))
    first = joined[15:18]  # children of the first parent: as near to the one as to the other
    torch.testing.assert_close((first * truth[15:18]).sum(1), first @ truth[12])
