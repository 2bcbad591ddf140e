"""The course's versions of lesson 01's gpt, against other implementations and by hand."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from course_utils import check, gpt

EXERCISES = [
    "merge",
    "lm_loss",
    "layer_norm",
    "attention",
    "mlp",
    "block",
    "transformer",
    "probabilities",
    "beam_search",
]


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", EXERCISES)
def test_the_course_passes_its_own_checks(capsys, name):
    getattr(check, name)(getattr(gpt, name))
    assert capsys.readouterr().out == f"✓ {name}\n"


@pytest.mark.parametrize(
    ("tokens", "merged"),
    [("ababa", ["ab", "ab", "a"]), ("ba", ["b", "a"]), ("", []), ("a", ["a"]), ("aab", ["a", "ab"])],
)
def test_merge_by_hand(tokens, merged):
    assert gpt.merge(list(tokens), ("a", "b")) == merged


def test_the_loss_is_torchs_cross_entropy():
    logits, tokens = _random(3, 7, 11), torch.arange(21).view(3, 7) % 11
    expected = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    torch.testing.assert_close(gpt.lm_loss(logits, tokens), expected)


def test_layer_norm_is_torchs():
    x, w, b = _random(2, 5, 8), _random(8, seed=1), _random(8, seed=2)
    torch.testing.assert_close(gpt.layer_norm(x, w, b), F.layer_norm(x, (8,), w, b))


def test_attention_is_torchs():
    x, (W_Q, W_K, W_V), W_O = _random(2, 5, 8), _random(3, 4, 8, 6, seed=1), _random(4, 6, 9, seed=2)
    out, pattern = gpt.attention(x, W_Q, W_K, W_V, W_O)
    q, k, v = (torch.einsum("bpm,hmd->bhpd", x, W) for W in (W_Q, W_K, W_V))
    z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(out, torch.einsum("bhpd,hdm->bpm", z, W_O))
    torch.testing.assert_close(pattern @ v, z)


def test_beam_search_finds_the_best_when_nothing_is_dropped():
    table = _random(3, 3).log_softmax(-1)
    text, total = gpt.beam_search(lambda texts: table[texts[:, -1]], torch.tensor([1]), 27, 3)
    texts = [(1, *rest) for rest in itertools.product(range(3), repeat=3)]
    best = max(texts, key=lambda one: sum(table[a, b] for a, b in itertools.pairwise(one)))
    assert text.tolist() == list(best)
    assert total == pytest.approx(sum(table[a, b].item() for a, b in itertools.pairwise(best)), abs=1e-5)
