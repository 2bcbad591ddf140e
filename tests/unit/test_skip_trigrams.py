"""Triples in text: what is counted and expected, against slow ways that are easy to read."""

import pytest
import torch

from course_lessons.l04b_what_reading_misses import skip_trigrams
from course_utils import models

WINDOW = 2
STREAM = torch.randint(1, 8, (400,), generator=torch.Generator().manual_seed(0))
TABLE = torch.full((8, 8), 100.0)  # every pair is frequent, and all c are equally likely after b
TOKENS = torch.randint(1, 8, (3, 10), generator=torch.Generator().manual_seed(1))
TOKENS[:, 0] = 0


@pytest.fixture(scope="module")
def model():
    config = {
        "n_layers": 1,
        "d_model": 8,
        "n_heads": 2,
        "d_head": 4,
        "n_ctx": 10,
        "d_vocab": 8,
        "seed": 0,
    }
    shape = {
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "shortformer",
    }
    result = models.initial(config | shape).requires_grad_(False)
    for parameter in result.parameters():
        parameter.mul_(2)
    return result


@pytest.fixture(scope="module")
def triples():
    return skip_trigrams.count(STREAM, TABLE, WINDOW, least=800)


def test_triples_are_counted_as_one_counts_them_by_hand(triples):
    seen, before_b, after_a = torch.zeros(8, 8, 8), torch.zeros(8, 8), torch.zeros(8, 8)
    for i in range(WINDOW, len(STREAM) - 1):
        for a in STREAM[i - WINDOW : i]:
            before_b[a, STREAM[i]] += 1
            after_a[a, STREAM[i + 1]] += 1
            seen[a, STREAM[i], STREAM[i + 1]] += 1
    assert torch.equal(triples.came, seen[:, triples.b, triples.c].int())
    assert torch.allclose(triples.expected, before_b[:, triples.b] / 8)
    share = after_a / (WINDOW * torch.bincount(STREAM[:-1], minlength=8)[:, None])
    usual = torch.bincount(STREAM[1:], minlength=8) / (len(STREAM) - 1)
    assert (
        torch.equal(triples.likes[1:], (share >= usual)[1:, triples.c])
        and not triples.likes[0].any()
    )


def test_the_model_expects_what_its_probabilities_say(model, triples):
    chosen = triples.likes & (triples.c % 2 == 0)
    expected, came = 0.0, 0
    p = model(TOKENS).softmax(-1)
    for row in range(len(TOKENS)):
        for i in range(WINDOW, TOKENS.shape[1] - 1):
            for pair in (triples.b == TOKENS[row, i]).nonzero().flatten():
                if chosen[TOKENS[row, i - WINDOW : i], pair].any():
                    expected += p[row, i, triples.c[pair]].item()
                    came += int(TOKENS[row, i + 1] == triples.c[pair])
    assert came > 0
    probability, hit, row, pos, pair = skip_trigrams.instances(
        model, TOKENS, triples, chosen, WINDOW
    )
    assert (probability.sum().item(), int(hit.sum())) == (pytest.approx(expected, rel=1e-4), came)
    assert torch.allclose(probability, p[row, pos, triples.c[pair]], rtol=1e-4)


def test_a_last_layernorm_is_part_of_the_model(triples):
    config = {"n_layers": 1, "d_model": 8, "n_heads": 2, "d_head": 4, "n_ctx": 10, "d_vocab": 8}
    shape = {"attn_only": True, "normalization_type": "LN", "seed": 0}
    model = models.initial(config | shape).requires_grad_(False)
    found, _, row, pos, pair = skip_trigrams.instances(
        model, TOKENS, triples, triples.likes, WINDOW
    )
    p = model(TOKENS).softmax(-1)
    assert len(found) and torch.allclose(found, p[row, pos, triples.c[pair]], rtol=1e-4)


def test_preceded_counts_what_stands_before_each_label():
    stream = torch.tensor([0, 1, 2, 1, 3, 1, 2])
    # the first two positions have no two tokens before them
    labels = torch.tensor([9, 9, 0, -1, 1, 0, 0])
    labels[:2] = 0
    table = skip_trigrams.preceded(stream, labels, window=2, d_vocab=4)
    expected = torch.zeros(4, 2, dtype=torch.int32)
    for position in range(2, 7):
        if labels[position] >= 0:
            for source in stream[position - 2 : position]:
                expected[source, labels[position]] += 1
    assert table.tolist() == expected.tolist() and table.sum() == 8
