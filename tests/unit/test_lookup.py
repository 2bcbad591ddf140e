"""The task of lesson 07c, and what is stored of the models that learned it."""

import pytest
import torch

from course_lessons.l07c_programs import lookup
from course_utils import models


@pytest.mark.parametrize("n", [3, 8])
def test_what_came_after_each_letter(n):
    tokens = lookup.texts(n, 20)
    other = lookup.with_another_block(tokens)
    assert torch.equal(tokens[:, n + 1 :], other[:, n + 1 :])  # the same questions
    # about the same letters
    assert torch.equal(tokens[:, : n + 1].sort().values, other[:, : n + 1].sort().values)
    for text, swapped, own, exchanged in zip(
        tokens.tolist(),
        other.tolist(),
        lookup.answers(tokens),
        lookup.answers(tokens, about=other),
        strict=True,
    ):
        assert own.tolist() == [text[text.index(letter) + 1] for letter in text[n + 1 :]]
        assert exchanged.tolist() == [text[swapped.index(letter) + 1] for letter in text[n + 1 :]]


def test_right_counts_answers():
    tokens = lookup.texts(5, 10)
    logits = torch.zeros(10, 11, lookup.D_VOCAB)
    logits[:, 6:] = torch.nn.functional.one_hot(lookup.answers(tokens), lookup.D_VOCAB).float()
    assert lookup.right(logits, tokens) == 1.0 and lookup.right(-logits, tokens) == 0.0


def _says(answers):
    logits = torch.zeros(10, 11, lookup.D_VOCAB)
    logits[:, 6:] = torch.nn.functional.one_hot(answers, lookup.D_VOCAB).float()
    return logits


def test_what_follows_the_other_text_by_door():
    tokens = lookup.texts(5, 10)
    source = lookup.with_another_block(tokens)
    own, by_place = lookup.answers(tokens), lookup.answers(tokens, about=source)
    by_letter = lookup.answers(source, about=tokens)  # our place, their letter
    n = tokens.shape[1] // 2
    for row, question, letter in ((0, 2, by_letter[0, 2]), (3, 1, by_letter[3, 1])):
        place = tokens[row, : n + 1].tolist().index(tokens[row, n + 1 + question])
        assert letter == source[row, place + 1]
    for door in "qk":
        assert lookup.followed(_says(by_place), tokens, source, door) == 1.0
        assert lookup.followed(_says(own), tokens, source, door) == 0.0
    assert lookup.followed(_says(by_letter), tokens, source, "v") == 1.0
    assert lookup.followed(_says(own), tokens, source, "v") == 0.0
    assert lookup.kept(_says(own), tokens, source) == 1.0
    assert lookup.kept(_says(by_place), tokens, source) == 0.0
    with pytest.raises(ValueError, match="A door is"):
        lookup.followed(_says(own), tokens, source, "keys")


def test_the_parts_of_what_layer_0_moves_add_up():
    model, tokens = models.load("lookup/0"), lookup.texts(6, 20)
    parts = lookup.parts(model, tokens)
    cache = model.run_with_cache(tokens)[1]
    assert torch.allclose(sum(parts.values()), cache["z", 0], atol=1e-5)
    before = cache["pattern", 0][3, 1, 5, 4] * cache["v", 0][3, 4, 1]
    assert torch.allclose(parts["the token before"][3, 5, 1], before, atol=1e-5)
    assert not parts["the token before"][:, 0].any()


def test_errors_and_what_they_say():
    found = lookup.errors(models.load("lookup/one-layer"))
    assert found["wrong"] == found["a letter of the block"] > 4_000
    untrained = lookup.errors(models.load("lookup/0", step=0))
    assert untrained["a letter of the block"] < untrained["wrong"]


def test_a_letter_stands_for_the_second_time():
    assert lookup.a_second_time(torch.tensor([[0, 3, 5, 3, 3, 5]])).tolist() == [
        [False] * 3 + [True, False, True]
    ]
    tokens = lookup.any_letters(4)
    assert (
        tokens.shape == (4, lookup.N_CTX)
        and (tokens[:, 0] == 0).all()
        and (tokens[:, 1:] > 0).all()
    )


def test_attention_is_where_a_head_that_looks_one_back_looks():
    model = models.load("lookup/0")
    assert lookup.attention(model, lookup.texts(6, 20))["1.0"]["one after"] > 0.8


def test_each_model_is_stored():
    assert {f"lookup/{name}" for name in lookup.MODELS} <= {*models.bundled()}


def test_a_short_training_can_be_repeated():
    first, second = (lookup.trained(seed=0, steps=2, shut=lookup.KEYS) for _ in range(2))
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )
