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
# the share of places that must be right: of all, once a head is gone, of those with one letter
ALL, ALL_LEFT, EACH = 0.9, 0.75, 0.5
MANY = 20  # nothing is judged by fewer places


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
        self._parts.append(torch.stack([right.long(), number, text, dest, here, there], 1))

    def groups(self, letters: str, by_position: bool, limit: float) -> Iterator[Group]:
        """The places in groups: all, those of some texts, those with one letter here or there.

        Of all of them `limit` must be right.

        Those of one position are asked of heads that write to `out`: a label is often worse at a
        few positions, and its readers can do without.
        """
        if sum(map(len, self._parts)) < MANY:
            return
        right, number, text, dest, here, there = torch.cat(self._parts).T
        where = torch.stack([number, text, dest], 1)

        def group(mask: Tensor, which: str, limit: float) -> Group:
            first = int((mask & (right == 0)).long().argmax())
            return Group(right[mask].float().mean().item(), which, limit, (*where[first].tolist(),))

        yield group(torch.ones_like(right).bool(), "that count", limit)
        many = len(letters)
        by = {
            "at the end of “{0}”": here,
            "where it looks at “{1}”": there,
            "where it looks from “{0}” at “{1}”": many * here + there,
            "on some kind of text": number,
        }
        if by_position:
            by["at one position"] = dest
        for which, keys in by.items():
            for key, size in zip(*keys.unique(return_counts=True), strict=True):
                mask = keys == key
                at = int(mask.long().argmax())
                one, other = letters[here[at]], letters[there[at]]
                # the start token holds nothing, and a head that finds nothing looks there
                rests = "{1}" in which and there[at] == START
                if size >= MANY and not rests:
                    yield group(mask, which.format(one, other), EACH)


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
