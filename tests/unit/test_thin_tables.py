"""Tables of lesson 03: trained, cut to a rank, compared."""

import math

import pytest
import torch

from course_lessons import thin_tables
from course_utils import bigrams


def test_pair_loss_is_table_loss_on_a_text_of_these_pairs():
    tokens = torch.randint(1, 9, (1, 500), generator=torch.Generator().manual_seed(0))
    logits = torch.randn(9, 9, generator=torch.Generator().manual_seed(1))
    counts = torch.zeros(9, 9).index_put_(
        (tokens[0, 1:-1], tokens[0, 2:]), torch.ones(498), accumulate=True
    )
    loss = thin_tables.pair_loss(logits, counts / 498).item()
    assert loss == pytest.approx(bigrams.table_loss(logits.log_softmax(1), tokens), abs=1e-5)


def test_training_reaches_the_best_table_that_the_rank_allows():
    counts = torch.randint(1, 50, (12, 12), generator=torch.Generator().manual_seed(0)).float()
    pairs = counts / counts.sum()
    best = thin_tables.pair_loss((counts / counts.sum(1, keepdim=True)).log(), pairs)
    free = thin_tables.fit(torch.clone, [torch.zeros(12, 12, requires_grad=True)], pairs)
    full, thin = (thin_tables.train_factors(counts, rank) for rank in (12, 1))
    assert torch.linalg.matrix_rank(thin) == 1 and torch.equal(
        thin, thin_tables.train_factors(counts, 1)
    )
    over = [(thin_tables.pair_loss(table, pairs) - best).item() for table in (free, full, thin)]
    assert min(over) > -1e-5 and max(over[:2]) < 2e-3 < 0.05 < over[2]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_svd_cut_is_the_nearest_table_of_its_rank(is_weighted):
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(30, 30, generator=generator)
    rows, columns = torch.rand(2, 30, generator=generator) + 0.5
    weights = rows[:, None] * columns if is_weighted else torch.ones(30, 30)
    before = torch.get_rng_state()
    cut = thin_tables.svd_cut(table, 5, weights if is_weighted else None)
    centred = table - table.mean(1, keepdim=True)
    values = torch.linalg.svdvals(centred * weights)
    assert torch.linalg.matrix_rank(cut, rtol=1e-4) == 5
    assert ((cut - centred) * weights).norm().item() == pytest.approx(
        values[5:].norm().item(), rel=1e-2
    )
    assert torch.equal(before, torch.get_rng_state())


@pytest.fixture
def tables():
    generator = torch.Generator().manual_seed(0)
    A, B = torch.randn(2, 20, 20, generator=generator)
    return A, B, torch.rand(20, 20, generator=generator) < 0.5


def test_correlation_is_pearsons_over_what_is_left_of_each_row(tables):
    A, B, mask = tables
    pairs = []
    for a, b, row in zip(*tables, strict=True):
        pairs += zip(
            (a[row] - a[row].mean()).tolist(), (b[row] - b[row].mean()).tolist(), strict=True
        )
    expected = torch.corrcoef(torch.tensor(pairs).T)[0, 1].item()
    assert thin_tables.row_centred_correlation(A, B, mask) == pytest.approx(expected, abs=1e-5)


def test_correlation_ignores_what_a_softmax_ignores(tables):
    A, B, mask = tables
    value = thin_tables.row_centred_correlation(A, B, mask)
    shifted = A + torch.arange(20.0)[:, None]
    assert thin_tables.row_centred_correlation(shifted, B, mask) == pytest.approx(value, abs=1e-5)
    assert thin_tables.row_centred_correlation(torch.where(mask, A, 1e3), B, mask) == pytest.approx(
        value, abs=1e-5
    )
    assert thin_tables.row_centred_correlation(A, -2 * A, mask) == pytest.approx(-1, abs=1e-5)


def test_correlation_survives_a_row_without_entries(tables):
    A, B, mask = tables
    mask[3] = False
    assert math.isfinite(thin_tables.row_centred_correlation(A, B, mask))


def test_the_mean_cosine_between_rows():
    first = torch.tensor([1.0, -1.0, 0.0])
    second = torch.tensor([1.0, 1.0, -2.0])  # at right angles to the first
    table = torch.stack([first + 5, 3 * first, second])  # cosines 1, 0 and 0
    assert thin_tables.between_rows(table) == pytest.approx(1 / 3)
