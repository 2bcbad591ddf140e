"""The judge's first question: does a head look where a hypothesis says, wherever it is read?

Many places are compared one by one, since a mean over them hides a rule that is wrong for a few
letters only.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lessons.programs import START
from course_utils.interventions import Edge, Head

AS_MUCH = 0.5  # of what a position gets that is not named, so much gets each that is
SOME = 0.1  # of what the position with most attention gets, so much gets each that is named
READS = 0.5  # the attention of a reader from which on a place counts for what it reads there
MANY = 20  # nothing but pairs of letters is judged by fewer places
OFTEN = 0.03  # nor one position by a smaller share of them: a label may be worse where few read it


class Limits(NamedTuple):
    """The share of places that must be right, and how many a pair of letters is judged by."""

    of_all: float
    of_each: float
    pair: int


WHOLE = Limits(0.9, 0.75, 10)
LEFT = Limits(0.75, 0.5, MANY)  # once a head is gone, where the others look is blurred


class Group(NamedTuple):
    """Some places at which a head was asked: what they have in common, and how many are right.

    `limit` is the share that must be right, and `wrong` a place that is not: which texts, which
    text, which position.
    """

    share: float
    which: str
    limit: float
    wrong: tuple[int, int, int]


class Asked:
    """All places at which one head was asked where it looks."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._named: list[Tensor] = []

    def add(
        self,
        n: int,
        tokens: Int[Tensor, "batch pos"],
        own: Float[Tensor, "batch dest src"],
        yours: Float[Tensor, "batch dest src"],
        at: Bool[Tensor, "batch pos"],
    ) -> None:
        """Compare the head's attention with what is said of it, at some places of texts n."""
        text, dest = at.nonzero(as_tuple=True)
        here = tokens[text, dest]
        there = tokens[text, own.argmax(-1)[text, dest]]  # the letter that it looks at most
        right = as_said(own, yours)[text, dest]
        number = torch.full_like(text, n)
        places = torch.stack([right.long(), number, text, dest, here, there], 1)
        self._parts.append(places)

        # the same with each letter at which it is said to look, a row each
        row, src = (yours[text, dest] > 0).nonzero(as_tuple=True)
        named = places[row]
        named[:, -1] = tokens[text[row], src]
        self._named.append(named)

    def groups(self, letters: str, limits: Limits) -> Iterator[Group]:
        """The places in groups: all, and those that share something, each with its limit.

        They share a kind of text, a position, the letter here, the one there, or both; there is
        where the head looks, and also where it is said to look.
        """
        if sum(map(len, self._parts)) < MANY:
            return
        places, named = torch.cat(self._parts), torch.cat(self._named)
        right, number, _, dest, here, there = places.T
        many = len(letters)
        pair, named_pair = many * here + there, many * named[:, -2] + named[:, -1]
        often = max(MANY, int(OFTEN * len(places)))
        yield _group(places, torch.ones_like(right).bool(), "that count", limits.of_all)
        for which, rows, keys, least in (
            ("at the end of “{0}”", places, here, MANY),
            ("where it looks at “{1}”", places, there, MANY),
            ("where it looks from “{0}” at “{1}”", places, pair, limits.pair),
            ("where you say that it looks from “{0}” at “{1}”", named, named_pair, limits.pair),
            ("on some kind of text", places, number, MANY),
            ("at one position", places, dest, often),
        ):
            for key, size in zip(*keys.unique(return_counts=True), strict=True):
                mask = keys == key
                one, other = rows[mask][0, -2:].tolist()
                # the start token holds nothing, and a head that finds nothing looks there
                rests = "{1}" in which and other == START
                if size >= least and not rests:
                    yield _group(
                        rows, mask, which.format(letters[one], letters[other]), limits.of_each
                    )


def _group(
    rows: Int[Tensor, "place 6"], mask: Bool[Tensor, " place"], which: str, limit: float
) -> Group:
    """Some places as a group, with the first that is wrong."""
    right = rows[:, 0]
    first = int((mask & (right == 0)).long().argmax())
    n, text, dest = rows[first, 1:4].tolist()
    return Group(right[mask].float().mean().item(), which, limit, (n, text, dest))


def as_said(
    own: Float[Tensor, "batch dest src"], yours: Float[Tensor, "batch dest src"]
) -> Bool[Tensor, "batch dest"]:
    """Whether each position that is named gets enough attention, beside others and the best.

    Labels of two copies tie, and pointers to them nearly, so one may get less than the best.
    """
    named = yours > 0
    least = own.masked_fill(~named, torch.inf).amin(-1)
    other = own.masked_fill(named, 0).amax(-1)
    return (least >= AS_MUCH * other) & (least >= SOME * own.amax(-1))


def counted(
    doors: Collection[Edge],
    patterns: Mapping[Head, Float[Tensor, "batch dest src"]],
    sure: Bool[Tensor, "batch pos"],
) -> dict[Head, Bool[Tensor, "batch pos"]]:
    """The places at which it matters where each head looks.

    They are those where the model says something, for a head that writes to the logits; those of
    its reader, for one that is read in the queries; and for one that is read in keys or values
    those where the reader looks. Nothing can be read at the start token.
    """
    found = {head: torch.zeros_like(sure) for head in patterns}
    for writer, *rest in sorted(doors, key=len):  # readers, which write to the logits, come first
        if writer not in found:  # the embedding, or a head that is cut
            continue
        if rest == ["logits"]:
            found[writer] = found[writer] | sure
            continue
        door, reader = rest
        if reader not in found:
            continue
        places = found[reader]
        if door != "q":
            places = (places[..., None] & (patterns[reader] >= READS)).any(1)
        found[writer] = found[writer] | places
    for places in found.values():
        places[:, 0] = False
    return found
