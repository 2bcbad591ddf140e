"""Tables of which token follows which."""

import json
import math

import pytest
import torch

from course_utils import _files, bigrams, models, text

# Three documents over four tokens; token 0 opens each.
STREAM = torch.tensor([0, 1, 2, 1, 2, 3, 0, 2, 0, 1, 2])
COUNTS = torch.tensor([[0, 2, 1, 0], [0, 0, 3, 0], [0, 1, 0, 1], [0, 0, 0, 0]])


def test_count_by_hand():
    counts = bigrams.count(STREAM, 4)
    assert counts.is_sparse and torch.equal(counts.to_dense(), COUNTS.float())


@pytest.mark.parametrize("seed", range(3))
def test_count_is_a_loop_over_each_document(seed):
    generator = torch.Generator().manual_seed(seed)
    stream = torch.randint(7, (500,), generator=generator)
    stream[0] = 0
    expected = torch.zeros(7, 7)
    for before, after in zip(stream.tolist(), stream.tolist()[1:], strict=False):
        if after != 0:
            expected[before, after] += 1
    assert torch.equal(bigrams.count(stream, 7).to_dense(), expected)
    assert expected.sum() == 500 - (stream == 0).sum()


def test_count_refuses_tokens_outside_the_vocabulary():
    with pytest.raises(
        ValueError, match="stream must hold token ids from 0 to 3; 4 is not one of them"
    ):
        bigrams.count(torch.tensor([0, 1, 4]), 4)


def test_saved_counts_come_back(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    stream = torch.randint(text.D_VOCAB, (20_000,), generator=generator)
    stream[1_000:3_000] = 7  # a large count; and the last row of the vocabulary
    stream[-3:] = text.D_VOCAB - 1
    counts = bigrams.count(stream)
    bigrams.save(counts, tmp_path / "bigrams.npz")
    _files.write_checksums(tmp_path)
    monkeypatch.setattr(bigrams, "DATA", tmp_path)
    loaded = bigrams.counts.__wrapped__()  # past the cache
    assert torch.equal(loaded.to_dense(), counts.to_dense())
    assert loaded.to_dense()[7, 7] == 1_999 and loaded.to_dense()[-1, -1] == 2


@pytest.fixture(scope="module")
def bundled():
    return bigrams.counts()


@pytest.fixture(scope="module")
def manifest():
    """The corpus that the bundled models were trained on; they all had the same."""
    cards = [
        json.loads((_files.DATA / name / "config.json").read_text(encoding="utf-8"))
        for name in models.bundled()
    ]
    first, *others = (card["corpus"] for card in cards if "corpus" in card)
    assert all(other["sha256"] == first["sha256"] for other in others)
    return first


def test_bundled_counts_are_sound(bundled):
    assert bundled.shape == (text.D_VOCAB, text.D_VOCAB)
    assert (bundled.values() > 0).all() and torch.equal(bundled.values(), bundled.values().round())
    assert bundled.values().sum() < 2**24  # up to there, float32 sums counts exactly
    assert bundled.to_dense()[:, 0].sum() == 0  # nothing is followed by a start token


def test_bundled_counts_are_of_the_models_corpus(bundled, manifest):
    firsts, nexts = (bundled.to_dense().double().sum(axis) for axis in (1, 0))
    # every document has one start token, and something behind it
    assert firsts[0] == manifest["files"]
    # and one last token, which nothing follows
    assert (nexts - firsts)[1:].sum() == manifest["files"]
    assert (nexts - firsts)[1:].min() >= 0
    lengths = torch.zeros(text.D_VOCAB, dtype=torch.double)  # in bytes
    for token, index in text.tokenizer().get_vocab().items():
        lengths[index] = len(token)  # a byte-level vocabulary writes each byte as one character
    assert nexts @ lengths == manifest["bytes"]


@pytest.mark.slow
def test_bundled_counts_cover_this_machines_corpus(bundled, manifest):
    if text.corpus_manifest()["sha256"] != manifest["sha256"]:
        pytest.skip("this machine's standard library is another one")
    some = text.corpus_files()[::40]
    stream = text.encode(file.read_bytes().decode().replace("\r\n", "\n") for file in some)
    assert (bundled.to_dense() >= bigrams.count(stream).to_dense()).all()


# Smoothing


def test_add_alpha_by_hand():
    logprobs = bigrams.add_alpha(COUNTS.float(), 0.5)
    expected = torch.tensor(
        [[0.5, 2.5, 1.5, 0.5], [0.5, 0.5, 3.5, 0.5], [0.5, 1.5, 0.5, 1.5], [0.5] * 4]
    )
    torch.testing.assert_close(
        logprobs.exp(), expected / torch.tensor([[5.0], [5.0], [4.0], [2.0]])
    )


def test_kneser_ney_by_hand():
    # One pair occurs twice, three once: D = 3 / 5. Preceded by: 0 by none, 1 by two, 2 by two, 3 by
    # one; each plus one.
    discount, backoff = 3 / 5, torch.tensor([1.0, 3.0, 3.0, 2.0]) / 9
    expected = torch.stack(
        [
            torch.tensor([0, 2 - discount, 1 - discount, 0]) / 3 + 2 * discount / 3 * backoff,
            torch.tensor([0, 0, 3 - discount, 0]) / 3 + discount / 3 * backoff,
            torch.tensor([0, 1 - discount, 0, 1 - discount]) / 2 + 2 * discount / 2 * backoff,
            backoff,  # nothing ever followed token 3
        ]
    )
    torch.testing.assert_close(bigrams.kneser_ney(COUNTS.float()).exp(), expected)


def test_smoothed_rows_are_distributions():
    counts = torch.randint(4, (30, 30), generator=torch.Generator().manual_seed(0)).float()
    counts[4] = 0
    for logprobs in (bigrams.add_alpha(counts, 0.1), bigrams.kneser_ney(counts)):
        assert logprobs.isfinite().all()
        torch.testing.assert_close(logprobs.exp().sum(1), torch.ones(30))


def test_table_loss_by_hand():
    logprobs = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.8, 0.1], [0.5, 0.25, 0.25]]).log()
    tokens = torch.tensor([[0, 1, 1, 2], [0, 2, 0, 1]])
    # 1→1, 1→2 | 2→0, 0→1; not what follows position 0
    expected = -sum(math.log(p) for p in (0.8, 0.1, 0.5, 0.5)) / 4
    assert bigrams.table_loss(logprobs, tokens) == pytest.approx(expected)


# Tables of a rank


def test_pair_loss_is_table_loss_on_a_text_of_these_pairs():
    tokens = torch.randint(1, 9, (1, 500), generator=torch.Generator().manual_seed(0))
    logits = torch.randn(9, 9, generator=torch.Generator().manual_seed(1))
    counts = torch.zeros(9, 9).index_put_(
        (tokens[0, 1:-1], tokens[0, 2:]), torch.ones(498), accumulate=True
    )
    loss = bigrams.pair_loss(logits, counts / 498).item()
    assert loss == pytest.approx(bigrams.table_loss(logits.log_softmax(1), tokens), abs=1e-5)


def test_training_reaches_the_best_table_that_the_rank_allows():
    counts = torch.randint(1, 50, (12, 12), generator=torch.Generator().manual_seed(0)).float()
    pairs = counts / counts.sum()
    best = bigrams.pair_loss((counts / counts.sum(1, keepdim=True)).log(), pairs)
    free = bigrams.fit(torch.clone, [torch.zeros(12, 12, requires_grad=True)], pairs)
    full, thin = (bigrams.train_factors(counts, rank) for rank in (12, 1))
    assert torch.linalg.matrix_rank(thin) == 1 and torch.equal(
        thin, bigrams.train_factors(counts, 1)
    )
    over = [(bigrams.pair_loss(table, pairs) - best).item() for table in (free, full, thin)]
    assert min(over) > -1e-5 and max(over[:2]) < 2e-3 < 0.05 < over[2]


@pytest.mark.parametrize("is_weighted", [False, True])
def test_svd_cut_is_the_nearest_table_of_its_rank(is_weighted):
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(30, 30, generator=generator)
    rows, columns = torch.rand(2, 30, generator=generator) + 0.5
    weights = rows[:, None] * columns if is_weighted else torch.ones(30, 30)
    before = torch.get_rng_state()
    cut = bigrams.svd_cut(table, 5, weights if is_weighted else None)
    centred = table - table.mean(1, keepdim=True)
    values = torch.linalg.svdvals(centred * weights)
    assert torch.linalg.matrix_rank(cut, rtol=1e-4) == 5
    assert ((cut - centred) * weights).norm().item() == pytest.approx(
        values[5:].norm().item(), rel=1e-2
    )
    assert torch.equal(before, torch.get_rng_state())


# Correlation


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
    assert bigrams.row_centred_correlation(A, B, mask) == pytest.approx(expected, abs=1e-5)


def test_correlation_ignores_what_a_softmax_ignores(tables):
    A, B, mask = tables
    value = bigrams.row_centred_correlation(A, B, mask)
    shifted = A + torch.arange(20.0)[:, None]
    assert bigrams.row_centred_correlation(shifted, B, mask) == pytest.approx(value, abs=1e-5)
    assert bigrams.row_centred_correlation(torch.where(mask, A, 1e3), B, mask) == pytest.approx(
        value, abs=1e-5
    )
    assert bigrams.row_centred_correlation(A, -2 * A, mask) == pytest.approx(-1, abs=1e-5)


def test_correlation_survives_a_row_without_entries(tables):
    A, B, mask = tables
    mask[3] = False
    assert math.isfinite(bigrams.row_centred_correlation(A, B, mask))


def test_preceded_counts_what_stands_before_each_label():
    stream = torch.tensor([0, 1, 2, 1, 3, 1, 2])
    # the first two positions have no two tokens before them
    labels = torch.tensor([9, 9, 0, -1, 1, 0, 0])
    labels[:2] = 0
    table = bigrams.preceded(stream, labels, window=2, d_vocab=4)
    expected = torch.zeros(4, 2, dtype=torch.int32)
    for position in range(2, 7):
        if labels[position] >= 0:
            for source in stream[position - 2 : position]:
                expected[source, labels[position]] += 1
    assert table.tolist() == expected.tolist() and table.sum() == 8
