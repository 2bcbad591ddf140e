"""What lesson 01 needs around the learner's transformer, by hand."""

import itertools
import math

import pytest
import torch

from course_utils import gpt


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("tokens", "merged"),
    [("ababa", ["ab", "ab", "a"]), ("ba", ["b", "a"]), ("", []), ("a", ["a"]), ("aab", ["a", "ab"])],
)
def test_merge_by_hand(tokens, merged):
    assert gpt.merge(list(tokens), ("a", "b")) == merged


def test_the_shapes_are_those_of_gpt_2():
    shapes = gpt.shapes(50_257, 1024, 768, 12, 12)
    del shapes["unembed.W_U"]  # GPT-2 uses the transpose of W_E
    assert sum(map(math.prod, shapes.values())) == 124_439_808


def test_a_model_starts_the_same_for_the_same_seed_and_norms_do_nothing_but_norm():
    first, again, other = (gpt.initial_weights(gpt.shapes(9, 5, 8, 2, 1), seed) for seed in (0, 0, 1))
    for name, weight in first.items():
        assert weight.requires_grad and weight.dtype == torch.double and torch.equal(weight, again[name])
        assert torch.equal(weight, other[name]) != name.split(".")[-1].startswith("W")
    assert first["ln_final.w"].eq(1).all() and first["blocks.0.mlp.b_in"].eq(0).all()
    assert first["embed.W_E"].std().item() == pytest.approx(0.02, rel=0.2)


def test_the_layers_come_in_the_order_of_their_numbers():
    weights = {f"blocks.{layer}.ln1.w": torch.tensor(layer) for layer in (10, 2, 0)} | {"embed.W_E": torch.tensor(0)}
    assert [list(layer.items()) for layer in gpt.by_layer(weights)] == [[("ln1.w", layer)] for layer in (0, 2, 10)]


def test_beam_search_finds_the_best_when_nothing_is_dropped():
    table = _random(3, 3).log_softmax(-1)
    text, total = gpt.beam_search(lambda texts: table[texts[:, -1]], torch.tensor([1]), 27, 3)
    texts = [(1, *rest) for rest in itertools.product(range(3), repeat=3)]
    best = max(texts, key=lambda one: sum(table[a, b] for a, b in itertools.pairwise(one)))
    assert text.tolist() == list(best)
    assert total == pytest.approx(sum(table[a, b].item() for a, b in itertools.pairwise(best)), abs=1e-5)
