"""Sources written into a text at random places: where, which, and what each one does there."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import bigrams, circuits, heads, measure
from course_utils._arguments import Count, require_tokens, validated
from course_utils.text import D_VOCAB

LENGTH = 48  # tokens of a context
COMMON = 100  # how often a source must stand in the training text

Tokens = Int[Tensor, " n"]


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


def random_sources(n: int, generator: torch.Generator) -> Tokens:
    """Tokens as often as they come in the training text."""
    frequency = bigrams.counts().to_dense().sum(0) + 1  # [token]
    return torch.multinomial(frequency, n, replacement=True, generator=generator)


def strongest(
    model: HookedTransformer, head: int, texts: Int[Tensor, "n pos"]
) -> tuple[Tokens, Tokens]:
    """For the last token of each context the source that a head of layer 0 looks for most.

    The second are the output tokens, which these sources raise most. Sources are common tokens.
    """
    full_qk, full_ov = circuits.full_qk(model, 0, head), circuits.full_ov(model, 0, head)
    common = bigrams.counts().to_dense().sum(1) >= COMMON  # [token]
    scores = full_qk.A[texts[:, -1]] @ full_qk.B  # [n, src]
    source = scores.masked_fill(~common, -torch.inf).argmax(1)
    return source, (full_ov.A[source] @ full_ov.B).argmax(1)


def gain(
    model: HookedTransformer,
    texts: Int[Tensor, "n pos"],
    back: Tensor,
    source: Tensor,
    out: Tensor,
) -> Float[Tensor, " n"]:
    """How log P(out) at the end of each context changes with the source `back` tokens before."""
    before, after = measure.inserted(model, texts, source, back, out)
    return after - before


def by_distance(
    model: HookedTransformer,
    texts: Int[Tensor, "n pos"],
    pairs: Mapping[int, tuple[Tokens, Tokens]],
    distances: Sequence[int],
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """What each head's sources do from each distance, in the median over contexts.

    The first is the factor for the probability of the output token, the second the attention that
    the source gets; `pairs` has each head's sources and output tokens.
    """
    factors: dict[str, list[float]] = {}
    looks: dict[str, list[float]] = {}
    for h, (source, out) in pairs.items():
        factors[f"0.{h}"], looks[f"0.{h}"] = [], []
        for d in distances:
            changes = gain(model, texts, torch.tensor([d]), source, out)
            factors[f"0.{h}"].append(changes.median().exp().item())
            inserted = texts.clone()
            inserted[:, -1 - d] = source
            attention = heads.patterns(model, inserted)[0, h, :, -1, -1 - d]
            looks[f"0.{h}"].append(attention.median().item())
    return factors, looks
