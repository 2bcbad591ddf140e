"""Lesson 10b's trial: methods that know all or nothing, metrics, and what a patch can show."""

import pytest
import torch

from course_lessons import boxes
from course_lessons.l10b_methods_on_trial import trial
from course_lessons.programs import Head, Program, back
from course_utils import interventions
from course_utils.course import solutions

FIVE = boxes.repeated(5).roll(9, 0)
VALUES = Program(  # through values the logits are a sum
    {"writer": Head(back(2), {"token": "label"})}, {"reader": Head(back(3), {"label": "out"})}
)


def test_a_method_that_knows_the_truth_scores_highest():
    truths = iter([boxes.box(name, 0).truth for name in boxes.PROGRAMS])  # each is asked about once
    found = trial.score(
        lambda model, clean, other, metric: (
            dict.fromkeys(boxes.doors(model), 0.0) | dict.fromkeys(next(truths), -1.0)
        ),
        FIVE,
        seeds=[0],
    )
    assert found.every.shape == (8, 1) and (found.every == 1).all()
    # nothing shows a backup
    assert (found.reached[:-1] == 1).all() and found.reached[-1].isnan()


def test_a_method_that_knows_nothing_ranks_by_chance():
    def knows_nothing(model, clean, other, metric):
        return dict.fromkeys(boxes.doors(model), 0.0)  # all equal: chance decides

    tried = trial.score(knows_nothing, FIVE, seeds=range(6))
    assert tried.every.shape == (8, 6) and tried.every.mean() < 0.2
    mean, error = trial.over_programs({("nothing", "loss"): tried.reached})["nothing"]["loss"]
    assert 0 < error < mean < 0.2


def test_the_mean_is_over_programs_that_can_be_reached_and_so_is_its_error():
    scores = torch.tensor([[1.0, 0.5], [0.25, 0.25], [torch.nan, torch.nan]])
    mean, error = trial.over_programs({("some", "KL"): scores})["some"]["KL"]
    assert mean == pytest.approx(0.5)  # of 0.75 and 0.25
    assert error == pytest.approx(0.25)  # their deviation 0.354, over √2


@pytest.mark.parametrize(
    "values, true, precision",
    [
        ([5, 4, 1, 0.5], {0, 1}, 1),
        ([5, 4, 3, 2], {0, 3}, 0.75),
        ([-9, 0.5, 1, -3, 4], {3}, 1 / 3),
        ([0, 3], {0}, 0.5),
        ([2, 1], set(), 0),
    ],
)
def test_average_precision_goes_by_size(values, true, precision):
    scores = {((0, n), "k", (1, 0)): float(x) for n, x in enumerate(values)}
    truth = {((0, n), "k", (1, 0)) for n in true}
    assert trial.average_precision(scores, truth) == pytest.approx(precision)


@pytest.mark.parametrize("name", trial.METRICS)
def test_all_metrics_rise_when_the_only_door_is_patched(name):
    model, (truth,), _ = boxes.box("keys", 1)
    clean = boxes.repeated()
    metric = trial.METRICS[name](model, clean)
    rises = trial.path_patching(model, clean, FIVE, metric)
    assert max(rises, key=rises.get) == truth and rises[truth] > 2
    assert rises == trial.path_patching(model, clean, FIVE, metric)


def test_the_divergence_is_zero_for_the_whole_model_and_is_what_torch_says():
    model, (truth,), _ = boxes.box("keys", 2)
    clean = boxes.repeated(batch=4)
    metric = trial.divergence(model, clean)
    assert metric(model, clean).abs() < 1e-6
    whole = model(clean)[:, 7:-1].log_softmax(-1)
    with interventions.cut(model, truth):
        now = model(clean)[:, 7:-1].log_softmax(-1)
        found = metric(model, clean)
    expected = torch.nn.functional.kl_div(now, whole, log_target=True, reduction="none")
    torch.testing.assert_close(found, expected.sum(-1).mean())


def test_the_logit_is_the_right_tokens_less_the_mean_of_all():
    model, _, _ = boxes.box(VALUES, 2)
    clean = boxes.repeated(batch=3)
    logits = model(clean)
    expected = [
        (logits[row, pos].mean() - logits[row, pos, clean[row, pos + 1]]).item()
        for row in range(3)
        for pos in range(7, 12)
    ]
    assert trial.minus_logit(model, clean).item() == pytest.approx(sum(expected) / 15, abs=1e-4)


def test_at_the_minimum_of_the_divergence_one_gradient_says_nothing():
    model, (truth,), _ = boxes.box(VALUES, 1)
    clean = boxes.repeated()
    metric = trial.divergence(model, clean)
    assert trial.path_patching(model, clean, FIVE, metric)[truth] > 2
    estimates = trial.attribution_patching(model, clean, FIVE, metric)
    assert max(map(abs, estimates.values())) < 1e-3
    assert trial.eap_ig(model, clean, FIVE, metric)[truth] > 0.1


def test_attribution_is_exact_where_the_metric_is_a_sum():
    model, (truth,), _ = boxes.box(VALUES, 1)
    clean = boxes.repeated()
    patched = trial.path_patching(model, clean, FIVE, trial.minus_logit)[truth]
    estimate = trial.attribution_patching(model, clean, FIVE, trial.minus_logit)[truth]
    assert estimate == pytest.approx(patched, rel=1e-3) and abs(patched) > 5


def test_acdc_keeps_what_costs_more_than_its_threshold_and_leaves_the_rest_patched():
    acdc = solutions.find("acdc").function
    model, truth, _ = boxes.box("keys", 1)
    clean = boxes.repeated()
    scores = acdc(model, clean, clean.roll(9, 0), boxes.loss, 0.05)
    assert {door for door, nats in scores.items() if nats} == truth
    assert not any(acdc(model, clean, clean.roll(9, 0), boxes.loss, 99.0).values())


def test_doors_that_carry_the_same_on_both_texts_cannot_be_reached():
    same_form = boxes.repeated().roll(9, 0)
    assert trial.reachable("keys", same_form) == {("writer", "k", "reader")}
    assert trial.reachable("queries", same_form) == set()
    assert trial.reachable("queries", FIVE) == {("writer", "q", "reader")}
    assert not trial.reachable("backup", same_form) | trial.reachable("backup", FIVE)
    assert len(trial.reachable("committee", FIVE)) == 3


def test_dead_ends_are_connected_and_not_true():
    model, truth, heads = boxes.box("dead ends", 101)
    scores = trial.composition_scores(model, boxes.repeated(), FIVE)
    dead = [scores[heads["writer"], "k", heads[name]] for name in ("one", "another")]
    assert truth == {(heads["writer"], "k", heads["reader"])}
    assert min(dead) > 0.9 * scores[truth.pop()]


def test_a_suppressor_hides_from_mixtures_and_not_from_a_patch():
    model, _, heads = boxes.box("suppressor", 100)
    clean, door = boxes.repeated(), (heads["guess"], "q", heads["suppressor"])
    assert boxes.loss(model, clean) < 0.1
    assert trial.path_patching(model, clean, FIVE)[door] > 5
    assert abs(trial.eap_ig(model, clean, FIVE)[door]) < 1


def test_the_trial_leaves_others_their_cores_and_the_threads_as_they_were():
    seen = []

    def method(model, clean, other, metric):
        seen.append(torch.get_num_threads())
        raise ValueError("a learner's method may fail")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ValueError, match="may fail"):
            trial.score(method, FIVE, programs=["keys"])
        assert seen == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
