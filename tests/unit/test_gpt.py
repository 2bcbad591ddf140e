"""What lesson 01 needs around the learner's transformer, by hand."""

import itertools
from math import prod

import pytest
import torch

from course_lessons import gpt


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("tokens", "merged"),
    [
        ("ababa", ["ab", "ab", "a"]),
        ("ba", ["b", "a"]),
        ("", []),
        ("a", ["a"]),
        ("aab", ["a", "ab"]),
    ],
)
def test_merge_by_hand(tokens, merged):
    assert gpt.merge(list(tokens), ("a", "b")) == merged


def test_words_keep_the_space_before_them_and_pairs_count_each_time_a_word_stands():
    words = gpt.words(["aba aba", "aba"])
    assert words == {"aba": 2, "Ġaba": 1}
    pairs = gpt.count_pairs(words, {word: list(word) for word in words})
    assert pairs == {("a", "b"): 3, ("b", "a"): 3, ("Ġ", "a"): 1}


def test_the_shapes_are_those_of_gpt_2():
    shapes = gpt.shapes(50_257, 1024, 768, 12, 12)
    # W_E's transpose in GPT-2
    counted = sum(prod(shape) for name, shape in shapes.items() if name != "unembed.W_U")
    assert counted == 124_439_808


def test_a_model_starts_the_same_for_the_same_seed_and_norms_do_nothing_but_norm():
    first, again, other = (
        gpt.initial_weights(gpt.shapes(9, 5, 8, 2, 1), seed) for seed in (0, 0, 1)
    )
    for name, weight in first.items():
        assert (
            weight.requires_grad
            and weight.dtype == torch.double
            and torch.equal(weight, again[name])
        )
        assert torch.equal(weight, other[name]) != name.split(".")[-1].startswith("W")
    assert first["ln_final.w"].eq(1).all() and first["blocks.0.mlp.b_in"].eq(0).all()
    assert first["embed.W_E"].std().item() == pytest.approx(0.02, rel=0.2)


def test_random_weights_leave_no_part_neutral():
    weights = gpt.random_weights(gpt.shapes(9, 5, 8, 2, 1))
    assert {name: tuple(one.shape) for name, one in weights.items()} == gpt.shapes(9, 5, 8, 2, 1)
    assert all(one.dtype == torch.double and one.std() > 0.1 for one in weights.values())


def test_batches_are_windows_of_the_stream_and_the_rate_rises_and_falls():
    stream = torch.arange(50)
    drawn = list(gpt.batches(stream, "a bar", steps=40, n_ctx=6))
    assert len(drawn) == 40 and all(batch.shape == (16, 6) for batch, _ in drawn)
    assert all(batch.diff().eq(1).all() for batch, _ in drawn)
    rates = [rate for _, rate in drawn]
    assert (
        rates[0] == pytest.approx(2e-4) and max(rates) == pytest.approx(4e-3) and rates[-1] < 2.1e-4
    )


def test_the_layers_come_in_the_order_of_their_numbers():
    weights = {f"blocks.{layer}.ln1.w": torch.tensor(layer) for layer in (10, 2, 0)} | {
        "embed.W_E": torch.tensor(0)
    }
    assert [list(layer.items()) for layer in gpt.by_layer(weights)] == [
        [("ln1.w", layer)] for layer in (0, 2, 10)
    ]


def test_a_model_is_connected_from_what_has_weights():
    def norm(x, w, b):
        return x * w + b

    def times(x, layer):
        return x * layer["attn.W_O"]

    def plus(x, layer):
        return x + layer["mlp.W_in"]

    two, three, x = torch.tensor(2.0), torch.tensor(3.0), torch.tensor(5.0)
    weights = {"blocks.0.attn.W_O": two, "blocks.1.attn.W_O": three, "blocks.1.mlp.W_in": two}
    weights |= {
        "blocks.1.ln2.w": two,
        "blocks.1.ln2.b": three,
        "ln_final.w": three,
        "ln_final.b": two,
    }
    (first, second), last = gpt.parts(weights, norm, times, plus)
    assert [part(x).item() for part in first] == [5, 10, 5, 0]
    assert [part(x).item() for part in second] == [5, 15, 13, 7] and last(x) == 17


def test_every_fifth_stream_is_kept_back():
    train, unseen = gpt.split([torch.full((5,), number) for number in range(7)], n_ctx=4)
    assert train.unique().tolist() == [1, 2, 3, 4, 6] and len(train) == 25
    assert unseen.tolist() == [[0, 0, 0, 0], [0, 5, 5, 5]]
    with pytest.raises(ValueError, match="at least two streams"):
        gpt.split([torch.arange(9)])


def test_a_token_is_drawn_as_often_as_its_probability_says():
    p = torch.tensor([0.0, 0.25, 0.75, 0.0]).expand(4000, 4)
    generator = torch.Generator().manual_seed(0)
    shares = gpt.drawn(p, generator).flatten().bincount(minlength=4) / 4000
    assert shares[0] == shares[3] == 0 and shares[1].item() == pytest.approx(0.25, abs=0.03)
    assert gpt.drawn(torch.zeros(1, 3), generator).item() == 2


def test_beam_search_finds_the_best_when_nothing_is_dropped():
    table = _random(3, 3).log_softmax(-1)
    text, total = gpt.beam_search(lambda texts: table[texts[:, -1]], torch.tensor([1]), 27, 3)
    texts = [(1, *rest) for rest in itertools.product(range(3), repeat=3)]
    best = max(texts, key=lambda one: sum(table[a, b] for a, b in itertools.pairwise(one)))
    assert text.tolist() == list(best)
    assert total == pytest.approx(
        sum(table[a, b].item() for a, b in itertools.pairwise(best)), abs=1e-5
    )
