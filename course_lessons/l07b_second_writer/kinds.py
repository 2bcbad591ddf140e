"""Kinds of position, of token and of word: what came before, and what counts as the same."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from course_utils._arguments import require_tokens, validated
from course_utils.text import tokenizer


@validated
def kinds_of_position(tokens: Int[Tensor, "batch pos"]) -> dict[str, Bool[Tensor, "batch pos-1"]]:
    """Three kinds of position, by what came before: "new", "continued", "otherwise".

    The start token is of none. New: its token has not occurred before. Continued: what comes next
    has followed the token before, so that induction is right. Otherwise: the token has occurred,
    but something else comes now.
    """
    require_tokens(None, tokens)
    same = tokens[:, :, None] == tokens[:, None]  # [batch, dest, src]
    copies = same.tril(-1)[:, :-1, :-1]  # the same token earlier
    seen = copies.any(-1)  # [batch, pos - 1]
    following = tokens[:, 1:]
    continues = following[:, :, None] == following[:, None]  # [batch, dest, src]
    continued = (copies & continues).any(-1)
    after_start = torch.arange(seen.shape[1]) > 0
    return {"new": ~seen & after_start, "continued": continued, "otherwise": seen & ~continued}


@validated
def variants(change: Callable[[str], str]) -> Int[Tensor, "pair 2"]:
    """Words whose variant is a token, too: pairs of tokens, the word and what `change` makes of it.

    A word is a token of three or more small letters. Raises ValueError if no word has such a
    variant.
    """
    vocabulary = tokenizer().get_vocab()
    numbers = {str(tokenizer().decode([number])): number for number in sorted(vocabulary.values())}
    small = [name for name in numbers if name.isascii() and name.isalpha() and name.islower()]
    words = [name for name in small if len(name) >= 3]
    pairs = [(numbers[word], numbers[change(word)]) for word in words if change(word) in numbers]
    if not pairs:
        raise ValueError("No word of the vocabulary has such a variant in it.")
    return torch.tensor(pairs)


@validated
def words_again(tokens: Int[Tensor, " pos"]) -> list[tuple[list[int], list[int]]]:
    """Words of three or more pieces that come again in a text: positions of two mentions, in order.

    A word begins with a space and goes on with pieces of letters. Of each later mention, the first
    one is its partner.
    """
    require_tokens(None, tokens)
    names = [str(tokenizer().decode([token])) for token in tokens.tolist()]
    words: list[list[int]] = []
    for place, name in enumerate(names):
        if name.startswith(" ") and name[1:].isalpha():
            words.append([place])
        elif name.isalpha() and words and words[-1][-1] == place - 1:
            words[-1].append(place)
    first: dict[str, list[int]] = {}
    again = []
    for places in words:
        word = "|".join(names[place] for place in places)
        if len(places) >= 3 and word in first:
            again.append((first[word], places))
        first.setdefault(word, places)
    return again
