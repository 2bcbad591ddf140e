"""What lesson 10 measures, on models whose answer is known."""

import pytest
import torch
from transformer_lens import FactoredMatrix

from course_utils import circuits, load
from course_utils.lessons.l10_reading_critically import trials


def test_a_head_that_looks_everywhere_alike_sends_its_share_across():
    model = load("two-layer", step=0)
    model.blocks[1].attn.W_Q.data.zero_()
    pattern, share = trials.across(model, 1, 3, 700)
    lower = torch.ones(122, 122).tril()
    torch.testing.assert_close(pattern, lower / lower.sum(1, keepdim=True))
    expected = sum(60 / (60 + 1 + dest) for dest in range(1, 61)) / 60  # of what is not the start token's
    assert share.item() == pytest.approx(expected, abs=1e-5)


def test_a_model_that_knows_nothing_guesses_nothing():
    model = load("one-layer", step=0)
    model.unembed.W_U.data.zero_()
    tokens = torch.randint(1, 4096, (2, 9), generator=torch.Generator().manual_seed(0))
    right, entropy = trials.guesses(model, tokens)
    assert right == 0 and entropy == pytest.approx(torch.tensor(4096.0).log().item(), abs=1e-4)


def test_the_best_pair_is_the_tables():
    model, among = load("one-layer"), torch.arange(300, 340)
    table = circuits.full_qk(model, 0, 2).AB[300:340, 300:340]
    table = table - table.mean(1, keepdim=True)
    source, dest = trials.best_pair(model, 2, among)
    assert table[dest - 300, source - 300] == table.max()


def test_split_words_are_split():
    model, words = load("one-layer", step=0), trials.split_words()
    assert len(words) > 50
    for whole, first, second in words[:20].tolist():
        name = model.to_string(torch.tensor([whole]))
        assert name[0] == " " and name[1:] == model.to_string(torch.tensor([first, second]))


def test_another_word_stands_where_it_should():
    words, fillers = torch.tensor([[10, 11, 12], [20, 21, 22], [30, 31, 32]]), torch.tensor([5, 6])
    rows = trials.with_first_pieces(words, fillers)
    assert rows.shape == (3, 15) and (rows[:, 0] == 0).all() and rows[:, -1].tolist() == [11, 21, 31]
    assert sorted(rows[:, -1 - trials.BACK].tolist()) == [10, 20, 30]
    assert sum((rows == token).sum() for token in (5, 6)) == 3 * 12


def test_the_distance_from_the_identity():
    a = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    assert trials.from_identity(FactoredMatrix(a, torch.eye(2))) == pytest.approx(0, abs=1e-6)
    swapped = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert trials.from_identity(FactoredMatrix(a, swapped)) == pytest.approx(1)
    narrow = torch.linalg.qr(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)))[0]
    assert trials.from_identity(FactoredMatrix(narrow, narrow.T)) == pytest.approx((1 - 4 / 16) ** 0.5)
