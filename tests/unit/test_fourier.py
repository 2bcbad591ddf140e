"""Waves in columns: planted ones are found, and noise is not mistaken for them."""

import math

import pytest
import torch

from course_lessons import fourier

ROWS = torch.arange(60.0)


def wave(frequency, phase=0.0, rows=ROWS):
    return torch.cos(2 * math.pi * frequency * rows / len(rows) - phase)


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [60, 61])
def test_power_adds_up_to_the_variance(n):
    W = noise(n, 5) + 7
    found = fourier.power(W)
    assert found.shape == (n // 2 + 1, 5) and (found[0] == 0).all()
    torch.testing.assert_close(found.sum(0), W.var(0, correction=0))


def test_power_finds_each_planted_wave_at_its_frequency():
    W = torch.stack([3 * wave(4, 1.0), wave(30) + 5, wave(2) + 2 * wave(9, 0.3)], dim=1)
    found = fourier.power(W)
    assert found.argmax(0).tolist() == [4, 30, 9]
    torch.testing.assert_close(found[4, 0], torch.tensor(4.5))  # A² / 2
    torch.testing.assert_close(found[30, 1], torch.tensor(1.0))  # the fastest wave is 1, −1, 1, …
    torch.testing.assert_close(found[[2, 9], 2], torch.tensor([0.5, 2.0]))


def test_the_basis_is_orthonormal_and_holds_what_it_should():
    Q = fourier.basis([2.5, 7.25, 30], 60)
    assert Q.shape == (60, 6)  # 1 + 2 · 3, less the sine of 30
    torch.testing.assert_close(Q.T @ Q, torch.eye(6), atol=1e-5, rtol=0)
    inside = torch.stack([wave(2.5, 2.0), wave(7.25, 0.4), torch.ones(60)], dim=1)
    torch.testing.assert_close(Q @ (Q.T @ inside), inside, atol=1e-4, rtol=0)
    outside = wave(15)[:, None]
    assert (Q @ (Q.T @ outside)).norm() < 0.3 * outside.norm()


@pytest.mark.parametrize("bad", [0, -1, 30.5])
def test_a_frequency_that_the_rows_cannot_show_is_an_error(bad):
    with pytest.raises(ValueError, match="above 0 and at most 30"):
        fourier.basis([3, bad], 60)
    with pytest.raises(ValueError, match="above 0 and at most 30"):
        fourier.phase(noise(60, 2), bad)


def test_projection_keeps_planted_waves_and_the_mean_and_drops_the_rest():
    kept = torch.stack([4 + wave(3.3, 1), 2 * wave(8.6, 2) - 1], dim=1)
    W = kept + torch.stack([wave(20), wave(25)], dim=1)
    assert (fourier.projected(W, [3.3, 8.6]) - kept).abs().max() < 0.1
    torch.testing.assert_close(fourier.projected(kept, [3.3, 8.6]), kept, atol=1e-4, rtol=0)


def test_frequencies_may_be_tensors():
    W, listed = noise(60, 3), [2.5, 7.25]
    given = torch.tensor(listed)
    for function in (fourier.explained, fourier.projected):
        torch.testing.assert_close(function(W, given), function(W, listed))
    torch.testing.assert_close(fourier.basis(given, 60), fourier.basis(listed, 60))
    torch.testing.assert_close(fourier.phase(W, given[0]), fourier.phase(W, listed[0]))


def test_no_frequencies_leave_the_mean():
    W = noise(60, 3)
    torch.testing.assert_close(fourier.projected(W, []), W.mean(0).expand(60, 3), atol=1e-5, rtol=0)


def test_explained_is_the_power_at_whole_frequencies():
    W = noise(60, 4) + 3
    torch.testing.assert_close(
        fourier.explained(W, range(1, 31)), fourier.power(W)[1:], atol=1e-5, rtol=1e-4
    )


def test_explained_peaks_between_whole_frequencies_where_a_wave_lies_there():
    fine = [f / 8 for f in range(8, 240)]
    W = torch.stack([wave(6.5, 1.0), wave(20.5) + 9], dim=1)
    found = fourier.explained(W, fine)
    assert [fine[i] for i in found.argmax(0)] == [6.5, 20.5]
    torch.testing.assert_close(found.amax(0), W.var(0, correction=0), atol=1e-4, rtol=0)
    # whole frequencies miss half of it
    assert (fourier.power(W).amax(0) < 0.6 * W.var(0, correction=0)).all()
    assert (fourier.explained(noise(60, 50), fine).amax(0) < 0.5).all()  # the control


@pytest.mark.parametrize("frequency", [3, 3.4, 17.7])
def test_phase_is_read_back_at_any_frequency(frequency):
    planted = torch.tensor([-3.0, -1.5, 0.0, 0.7, 2.9])
    W = torch.stack(
        [(1 + i) * wave(frequency, p.item()) + 5 * i for i, p in enumerate(planted)], dim=1
    )
    torch.testing.assert_close(fourier.phase(W, frequency), planted, atol=1e-4, rtol=0)
