"""Lesson 10's boxes: their programs do what they say, and their doors are what cuts find."""

import pytest
import torch

from course_lessons.l10_reading_critically import boxes
from course_utils import interventions


@pytest.mark.parametrize("name", boxes.PROGRAMS)
def test_a_box_knows_how_a_repeated_text_goes_on(name):
    model, truth, heads = boxes.box(name, 3)
    clean = boxes.repeated()
    # chance is 2.5 nats; "two tokens" has seen but one at the first prediction
    assert boxes.loss(model, clean) < 1
    assert truth <= {*boxes.doors(model)} and {door[0] for door in truth} <= {*heads.values()}


def test_repeated_texts_repeat():
    for period in (5, 6):
        tokens = boxes.repeated(period, batch=4, seed=1)
        assert tokens.shape == (4, 13) and (tokens[:, 0] == 0).all()
        assert (tokens[:, 1:-period] == tokens[:, 1 + period :]).all()
        assert all(len({*row}) == period for row in tokens[:, 1 : 1 + period].tolist())


def test_what_is_recorded_is_what_heads_move_and_read():
    model, _, _ = boxes.box("keys", 0)
    clean = boxes.repeated(batch=3)
    found, (_, run) = boxes.recorded(model, clean), model.run_with_cache(clean)
    torch.testing.assert_close(found.z[1, 2], run["z", 1][:, :, 2])
    torch.testing.assert_close(found.reads["k", 1], run["k", 1])
    writer = (0, 1)
    reader = (1, 2)
    with interventions.cut(model, (writer, "q", reader)):
        _, without = model.run_with_cache(clean)
    change = -found.z[writer] @ boxes.through(model, (writer, "q", reader))
    torch.testing.assert_close(
        without["q", 1][:, :, 2] - run["q", 1][:, :, 2], change, atol=1e-4, rtol=1e-4
    )
    shifted = boxes.recorded(model, clean, run["embed"] * 0.5)
    assert shifted.loss != found.loss


def test_a_method_that_knows_the_truth_scores_highest():
    truths = iter([boxes.box(name, 0).truth for name in boxes.PROGRAMS])  # each is asked about once
    found = boxes.score_method(
        lambda model, clean, other: (
            dict.fromkeys(boxes.doors(model), 0.0) | dict.fromkeys(next(truths), -1.0)
        ),
        boxes.repeated(5),
        seeds=[0],
    )
    assert found.every.shape == (4, 1) and (found.every == 1).all() and found.runs == 0
    # nothing shows a backup
    assert (found.reached[:-1] == 1).all() and found.reached[-1].isnan()


def test_a_method_that_knows_nothing_ranks_by_chance_and_its_runs_are_counted():
    def knows_nothing(model, clean, other):
        # all equal: chance decides
        return dict.fromkeys(boxes.doors(model), 0.0 * model(clean).sum().item())

    tried = boxes.score_method(knows_nothing, boxes.repeated(5), seeds=range(6))
    assert tried.runs == 1 and tried.every.shape == (4, 6)
    assert tried.every.mean() < 0.2
    assert 0 < boxes.over_programs({"nothing": [tried]})["nothing"] < 0.2


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
    assert boxes.average_precision(scores, {((0, n), "k", (1, 0)) for n in true}) == pytest.approx(
        precision
    )


def test_acdc_keeps_what_costs_more_than_its_threshold_and_leaves_the_rest_patched():
    model, truth, _ = boxes.box("keys", 1)
    clean = boxes.repeated()
    scores = boxes.acdc(model, clean, clean.roll(9, 0))
    assert {door for door, nats in scores.items() if nats} == truth
    assert not any(boxes.acdc(model, clean, clean.roll(9, 0), threshold=99.0).values())


def test_along_a_door_the_loss_goes_from_the_clean_one_to_the_patched_one():
    clean, other = boxes.repeated(), boxes.repeated().roll(9, 0)
    model, (truth,), _ = boxes.box("keys", 0)
    line = boxes.along(model, truth, clean, other)
    assert len(line) == 21 and line[0] == pytest.approx(boxes.loss(model, clean).item(), abs=1e-4)
    assert boxes.acdc(model, clean, other)[truth] == pytest.approx(line[-1] - line[0], abs=0.2)


def test_a_backup_hides_what_a_head_is_worth():
    assert boxes.lost("backup", "main") < 0.01 > boxes.lost("backup", "backup")
    assert boxes.lost("backup", "main", "backup") > 2 < boxes.lost("backup", ("main", "logits"))


def test_doors_that_carry_the_same_on_both_texts_cannot_be_reached():
    same_form, five = boxes.repeated().roll(9, 0), boxes.repeated(5)
    assert boxes.reachable("keys", same_form) == {("writer", "k", "reader")}
    assert boxes.reachable("queries", same_form) == set()
    assert boxes.reachable("queries", five) == {("writer", "q", "reader")}
    assert not boxes.reachable("backup", same_form) | boxes.reachable("backup", five)


def test_nobody_reads_the_decoy():
    assert (
        abs(boxes.lost(boxes.DECOYED, "decoy")) < 1e-3 and boxes.lost(boxes.DECOYED, "writer") > 1
    )


def test_a_box_of_each_seed_has_its_place():
    tried = boxes.score_method(
        boxes.composition_scores, boxes.repeated(5), programs=["keys", "three layers"]
    )
    assert tried.every.shape == (2, 8) and tried.every[0, 2:].isnan().all()
    assert not tried.every[1].isnan().any()
