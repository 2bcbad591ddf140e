"""Lesson 10's boxes: their programs do what they say, and their doors are what cuts find."""

import pytest
import torch

from course_lessons import boxes
from course_utils import interventions


@pytest.mark.parametrize("name", boxes.PROGRAMS)
def test_a_box_knows_how_a_repeated_text_goes_on(name):
    model, truth, heads = boxes.box(name, 3)
    clean = boxes.repeated()
    # chance is 2.5 nats
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


def test_along_a_door_the_loss_goes_from_the_clean_one_to_the_patched_one():
    clean, other = boxes.repeated(), boxes.repeated().roll(9, 0)
    model, (truth,), _ = boxes.box("keys", 0)
    line = boxes.along(model, truth, clean, other)
    assert len(line) == 21 and line[0] == pytest.approx(boxes.loss(model, clean).item(), abs=1e-4)
    patched = boxes.patched(model, clean, [truth], boxes.recorded(model, other).z)
    assert patched == pytest.approx(line[-1], abs=0.01)


def test_a_backup_hides_what_a_head_is_worth():
    assert boxes.lost("backup", "main") < 0.01 > boxes.lost("backup", "backup")
    assert boxes.lost("backup", "main", "backup") > 2 < boxes.lost("backup", ("main", "logits"))


def test_nobody_reads_the_decoy():
    assert (
        abs(boxes.lost(boxes.DECOYED, "decoy")) < 1e-3 and boxes.lost(boxes.DECOYED, "writer") > 1
    )
