"""Addition around a clock face: splits, waves and losses against what is known.

It is known by construction.
"""

import math

import pytest
import torch

from course_lessons import fourier
from course_lessons.l09b_grokking import grokking

P = grokking.P


def wave_table(frequencies):
    """Logits that are waves of a + b alone, largest at the right answer."""
    off = (grokking.SUMS[..., None] - torch.arange(P)) % P
    return sum((2 * torch.pi * f * off / P).cos() for f in frequencies)


def test_a_seed_decides_which_pairs_are_for_training():
    first, again, other = (grokking.is_train(seed) for seed in (0, 0, 1))
    assert (
        first.sum() == int(grokking.SHARE * P * P) + 1
        and torch.equal(first, again)
        and not torch.equal(first, other)
    )


def test_waves_of_the_sum_are_found_kept_and_taken_out():
    table = wave_table([3, 7])
    noise = 0.1 * torch.randn(table.shape, generator=torch.Generator().manual_seed(0))
    for where in (grokking.ALL, ~grokking.is_train(0)):
        assert grokking.key_frequencies(table + noise, where) == [3, 7]
        assert set(grokking.strongest(table + noise, where)[:2]) == {3, 7}
        torch.testing.assert_close(
            grokking.restricted(table, [3, 7], where), table, atol=1e-4, rtol=0
        )
        torch.testing.assert_close(
            grokking.restricted(table, [3], where), wave_table([3]), atol=1e-4, rtol=0
        )
    of_differences = table.flip(1)  # waves of a − b − 1
    assert fourier.power(grokking.by_sum(of_differences)).sum() < 1e-6


def test_what_is_memorised_does_not_leak_into_the_means_of_new_pairs():
    known, new, table = grokking.is_train(0), grokking.is_new(0), torch.zeros(P, P, P)
    assert torch.equal(new, new.T) and not (new & (known | known.T)).any()
    assert (new | known | known.T).all()
    # sure of every training pair and its mirror image, and of nothing else
    table[~new, grokking.SUMS[~new]] = 20.0
    assert grokking.restricted(table, [1, 2, 3], new).abs().max() == 0
    not_trained = grokking.restricted(table, [1, 2, 3], ~known)
    assert grokking.losses(not_trained)[~known].mean() < math.log(P) - 0.5
    leaky = grokking.losses(grokking.restricted(table, [1, 2, 3], grokking.ALL)).mean()
    assert leaky < math.log(P) - 0.5


def test_rivals_are_as_many_and_none_of_the_key_frequencies():
    table = wave_table([3, 7]) + 0.1 * wave_table([5]) + 0.05 * wave_table([9])
    found = grokking.rivals(table, grokking.ALL, seed=1)
    assert [len(set(rival)) for rival in found] == 7 * [2] and found[0] == [5, 9]
    assert not {3, 7, 0} & {f for rival in found for f in rival}
    again, other = (grokking.rivals(table, grokking.ALL, seed) for seed in (1, 2))
    assert found == again != other


def test_a_table_that_knows_the_sum_has_no_loss_and_one_that_guesses_has_log_53():
    assert grokking.losses(10_000 * wave_table([1])[None]).max() < 1e-6
    guessing = torch.full((P, P), math.log(P))
    torch.testing.assert_close(grokking.losses(torch.zeros(P, P, P)), guessing)


def test_a_run_starts_where_it_should_and_leaves_a_table_every_so_often():
    model, tables = grokking.train(grokking.Run(seed=1, steps=4, every=2))
    assert tables.shape == (3, P, P, P) and not torch.equal(tables[0], tables[-1])
    torch.testing.assert_close(grokking.table(model), tables[-1])


def test_at_its_best_scale_a_table_is_not_punished_for_being_sure():
    where = grokking.is_new(0)
    right, wrong = 20 * wave_table([1, 2, 3]), -wave_table([1, 2, 3])
    found = grokking.scaled(torch.stack([right, 100 * right, 10 * wrong]), where)
    assert found[0] == pytest.approx(found[1].item(), abs=0.02) and found[0] < 0.02
    assert found[2] == pytest.approx(math.log(P), abs=0.05)
    assert grokking.losses(10 * wrong).mean() > 30


def test_the_stored_runs_are_those_that_the_command_makes():
    stored = grokking.stored()
    assert [(run["seed"], run["decay"]) for run in stored] == [
        (run.seed, run.decay) for run in grokking.RUNS
    ]
    for run in stored:
        assert len(run["test_loss"]) == run["steps"] // run["every"] + 1
        assert run["test_loss"][0] == pytest.approx(3.98, abs=0.03)


@pytest.mark.slow
def test_a_stored_run_begins_as_it_does_here():
    run = grokking.Run(seed=2, steps=40)
    stored = next(row for row in grokking.stored() if (row["seed"], row["decay"]) == (2, 1.0))
    here = grokking.measured(run)
    assert here["test_loss"] == pytest.approx(stored["test_loss"][:3], rel=0.02)
    assert here["train_loss"] == pytest.approx(stored["train_loss"][:3], rel=0.05)
    assert here.keys() == stored.keys()
