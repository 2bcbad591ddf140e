"""Lesson 07b: kinds of position, and words with a variant."""

import pytest
import torch

from course_lessons.l07b_second_writer import kinds
from course_utils import text


def test_a_position_is_of_one_kind_by_what_came_before():
    tokens = torch.tensor([[0, 4, 7, 4, 7, 4, 9], [0, 5, 5, 5, 6, 0, 5]])
    found = kinds.kinds_of_position(tokens)
    assert list(found) == ["new", "continued", "otherwise"]
    assert found["new"].int().tolist() == [[0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 1, 0]]
    assert found["continued"].int().tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 1, 0, 0, 1]]
    assert found["otherwise"].int().tolist() == [[0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0]]


def test_variants_are_pairs_of_tokens_of_the_vocabulary():
    pairs = kinds.variants(lambda word: " " + word)
    words = [[text.tokenizer().decode([token]) for token in pair] for pair in pairs.tolist()]
    assert len(words) > 100 and all(variant == " " + word for word, variant in words)
    assert all(len(word) >= 3 and word.islower() for word, _ in words)
    with pytest.raises(ValueError, match="such a variant"):
        kinds.variants(lambda word: word + "§")


def test_words_that_come_again_are_those_of_three_pieces():
    sentence = " Kettering met Kettering, and Ketterings met Kettering."
    tokens = text.encode([sentence])
    names = [text.tokenizer().decode([token]) for token in tokens.tolist()]
    again = kinds.words_again(tokens)
    assert [["".join(names[i] for i in word) for word in pair] for pair in again] == [
        [" Kettering", " Kettering"]
    ] * 2
    (first, second), (partner, third) = again
    assert first == partner and first[-1] < second[0] < third[0]
    assert kinds.words_again(text.encode([" met the met the"])) == []
