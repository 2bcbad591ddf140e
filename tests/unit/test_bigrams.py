"""Tables of which token follows which."""

import json
import math

import pytest
import torch

from course_tools import corpus
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
    corpus.save(counts, tmp_path / "bigrams.npz")
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
