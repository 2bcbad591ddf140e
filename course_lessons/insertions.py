"""Where lessons 04 and 04b write a source into a text: random places of it."""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from course_utils._arguments import Count, require_tokens, validated
from course_utils.text import D_VOCAB

LENGTH = 48  # tokens of a context


@validated
def contexts(
    tokens: Int[Tensor, "batch pos"],
    n: Count,
    generator: torch.Generator,
    d_vocab: Count = D_VOCAB,
) -> Int[Tensor, "n 48"]:
    """The 48 tokens up to each of `n` random places of a text.

    The start token takes the place of the first. Raises ValueError for texts of under 66 tokens.
    """
    require_tokens(d_vocab, tokens)
    batch, pos = tokens.shape
    if pos < LENGTH + 18:
        raise ValueError(f"Texts of {pos} tokens are too short: {LENGTH + 18} are needed.")
    drawn: Any = {"generator": generator, "device": generator.device}
    rows = torch.randint(batch, (n,), **drawn).to(tokens.device)
    ends = torch.randint(64, pos - 1, (n,), **drawn).to(tokens.device)
    places = ends[:, None] + torch.arange(1 - LENGTH, 1, device=tokens.device)
    found = tokens[rows[:, None], places]
    found[:, 0] = 0
    return found
