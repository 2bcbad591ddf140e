"""The small tasks: what is asked, what is held out, what a batch is."""

from dataclasses import replace

import pytest
import torch

from course_utils import models
from course_utils.training import tasks

MAX, ADDITION = (tasks.TASKS[name] for name in ("max-of-list", "addition"))
each_task = pytest.mark.parametrize("task", tasks.TASKS.values(), ids=tasks.TASKS)


def pairs(tokens):
    """The last two of each input, as a set of unordered pairs."""
    return {tuple(sorted(pair)) for pair in tokens[:, -2:].tolist()}


def test_answers_by_hand():
    lists = torch.tensor([[3, 9, 1], [0, 0, 0], [7, 2, 63]])
    assert tasks.answers(MAX, lists).tolist() == [9, 0, 63]
    assert tasks.answers(ADDITION, torch.tensor([[3, 9], [0, 127]])).tolist() == [12, 127]


def test_sequences_of_length_two_are_all_pairs_with_a_token_for_their_sum():
    found = tasks.sequences(2)
    assert found.shape == (8_256, 2) and len(found.unique(dim=0)) == 8_256
    assert found.sum(1).max() == 127 and found.min() == 0


@pytest.mark.parametrize("length", [3, 4, 5])
def test_longer_sequences_follow_the_rule_to_their_end(length):
    found = tasks.sequences(length)
    assert found.shape[1] == length and (found[:, :-2] + found[:, 1:-1] == found[:, 2:]).all()
    assert found[:, -2:].sum(1).max() == 127  # the next number is a token, too
    by_hand = 0
    for a in range(128):
        for b in range(128):
            row = [a, b]
            while len(row) <= length:
                row.append(row[-2] + row[-1])
            by_hand += max(row) < 128
    assert len(found) == by_hand


def test_a_sequence_needs_two_numbers():
    with pytest.raises(ValueError, match="at least 2, not 1"):
        tasks.sequences(1)


def test_no_held_out_pair_is_ever_asked_in_training():
    task = ADDITION
    training, held_out = tasks.examples(task)
    asked, kept_back = (set().union(*map(pairs, part)) for part in (training, held_out))
    assert not asked & kept_back  # in neither order, at no length
    for n, one, other in zip(task.lengths, training, held_out, strict=True):
        assert len(one) + len(other) == len(tasks.sequences(n))
        assert 0.1 < len(other) / (len(one) + len(other)) < 0.3


def test_the_same_pair_is_held_out_in_both_orders():
    found = tasks.sequences(2)
    assert torch.equal(
        tasks.is_held_out(ADDITION, found), tasks.is_held_out(ADDITION, found.flip(1))
    )
    other_seed = tasks.is_held_out(replace(ADDITION, seed=1), found)
    assert not torch.equal(tasks.is_held_out(ADDITION, found), other_seed)


@each_task
def test_batches_depend_on_seed_and_step_alone(task):
    training, _ = tasks.examples(task)
    batch = tasks.batch_of(task, 7, training)
    torch.manual_seed(5)
    assert torch.equal(tasks.batch_of(replace(task, steps=9), 7, training), batch)
    others = [
        tasks.batch_of(replace(task, seed=s), t, training) for s, t in [(0, 8), (1, 7), (7, 0)]
    ]
    assert not any(torch.equal(other, batch) for other in others)


@each_task
def test_batches_have_every_length_and_come_from_the_training_part(task):
    training, _ = tasks.examples(task)
    batches = [tasks.batch_of(task, step, training) for step in range(60)]
    assert {batch.shape[1] for batch in batches} == set(task.lengths)
    assert all(len(batch) == task.batch for batch in batches)
    for batch in batches[:10]:
        assert tasks.answers(task, batch).max() < task.d_vocab
        if task.rule == "sum":
            known = {tuple(row) for row in training[task.lengths.index(batch.shape[1])].tolist()}
            assert all(tuple(row) in known for row in batch.tolist())


def test_lists_are_uniform_and_the_held_out_ones_are_others():
    batch = torch.cat([tasks.batch_of(MAX, step).flatten() for step in range(100)])
    assert batch.bincount(minlength=64).float().std() < 0.1 * len(batch) / 64
    nothing, held_out = tasks.examples(MAX)
    assert nothing == [] and [tuple(lists.shape) for lists in held_out] == [
        (4_096, n) for n in range(2, 7)
    ]


@each_task
def test_the_model_reads_the_longest_input(task):
    config = task.config()
    cfg = models.initial(config).cfg
    assert (cfg.n_layers, cfg.n_heads, cfg.d_head, cfg.positional_embedding_type) == (
        1,
        1,
        task.d_model,
        "standard",
    )
    assert cfg.n_ctx == max(task.lengths) and cfg.attn_only == (task.d_mlp == 0)
    assert not task.d_mlp or (cfg.d_mlp, cfg.act_fn) == (task.d_mlp, "relu")
