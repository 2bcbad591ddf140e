"""Lesson 10's boxes: their programs do what they say, and their doors are what cuts find."""

import pytest
import torch

from course_utils import interventions
from course_utils.lessons.l10_reading_critically import boxes


@pytest.mark.parametrize("name", boxes.PROGRAMS)
def test_a_box_knows_how_a_repeated_text_goes_on(name):
    model, truth, heads = boxes.box(name, 3)
    clean = boxes.repeated()
    assert boxes.loss(model, clean) < 1  # chance is 2.5 nats; "two tokens" has seen but one at the first prediction
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
    writer, reader = (0, 1), (1, 2)
    with interventions.cut(model, (writer, "q", reader)):
        _, without = model.run_with_cache(clean)
    change = -found.z[writer] @ boxes.through(model, (writer, "q", reader))
    torch.testing.assert_close(without["q", 1][:, :, 2] - run["q", 1][:, :, 2], change, atol=1e-4, rtol=1e-4)
    shifted = boxes.recorded(model, clean, run["embed"] * 0.5)
    assert shifted.loss != found.loss


def test_a_method_that_knows_the_truth_scores_highest():
    truths = iter([boxes.box(name, 0).truth for name in boxes.PROGRAMS])  # each is asked about once
    found = boxes.score_method(
        lambda model, clean, other: dict.fromkeys(boxes.doors(model), 0.0) | dict.fromkeys(next(truths), 1.0),
        lambda scores, truth: min(scores[door] for door in truth),
        [0],
        boxes.repeated(5),
    )
    assert found.score.shape == (7, 1) and (found.score == 1).all() and found.runs == 0
    assert (found.found[..., 2] == 1).all() and found.found.shape == (7, 1, 48)


def test_a_method_that_knows_nothing_finds_as_much_as_it_looks_at_and_its_runs_are_counted():
    def knows_nothing(model, clean, other):
        return dict.fromkeys(boxes.doors(model), 0.0 * model(clean).sum().item())  # all equal: chance decides

    tried = boxes.score_method(knows_nothing, lambda scores, truth: len(scores), range(6), boxes.repeated(5))
    assert tried.runs == 1 and (tried.score[0] == 48).all()
    assert abs(tried.found.mean((0, 1)) - torch.arange(1, 49) / 48).max() < 0.2
