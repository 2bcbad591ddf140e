"""What the sealed models of lesson 11 read: blocks that come twice, sentences, other kinds."""

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from course_lessons.programs import START
from course_utils import text
from course_utils._arguments import Count, NotNegative, validated

PERIOD = 8  # of the texts: a block of so many tokens, twice
D_VOCAB, N_CTX = 21, 23  # how many tokens and positions there are
FEW, NAMES = 24, 8  # texts of each other kind; tokens that are names in the texts of a template


def generator(seed: int) -> torch.Generator:
    """A generator with a seed."""
    return torch.Generator().manual_seed(seed)


def habits() -> Int[Tensor, "d_vocab two"]:
    """The two tokens that may follow each token in the texts; the start token's row is zero."""
    draw, taken = generator(43), [torch.arange(D_VOCAB)]
    while len(taken) < 3:  # no token follows itself, and the two are not the same
        order = torch.cat(
            [torch.zeros(1, dtype=torch.long), 1 + torch.randperm(D_VOCAB - 1, generator=draw)]
        )
        if all((order != other)[1:].all() for other in taken):
            taken.append(order)
    return torch.stack(taken[1:], dim=1)


@validated
def texts(language: str = "blocks", shown: bool = True) -> Int[Tensor, "batch pos"]:
    """What a sealed model reads: a third of its language's texts, or what is not shown of them.

    What is not shown comes in another order. "blocks": a start token and a block of 8 tokens,
    twice. In a block no token comes twice, and of the two that may follow one only that which does.
    "template": two names, then one of them again, and two tokens later the other. "eight": a block
    in any order, twice. "lengths": the same, and the other kinds have blocks of 5 to 11 tokens.
    """
    if language == "template":
        found = templates(180)
    elif language in ("lengths", "eight"):
        found = unrelated(PERIOD, 180, 9)
    else:
        following, rows = habits().tolist(), [[first] for first in range(1, D_VOCAB)]
        for _ in range(PERIOD - 1):
            rows = [[*block, token] for block in rows for token in following[block[-1]]]
        rows = [block for block in rows if len({*block}) == PERIOD]
        rows = [
            block
            for block in rows
            if all(len({*following[token]} & {*block}) == 1 for token in block[:-1])
        ]
        found = pad(torch.tensor(rows).repeat(1, 2), (1, 0), value=START)
    if shown:
        return found[::3]
    hidden = found[torch.arange(len(found)) % 3 > 0]
    # or each text would be like the one before
    return hidden[torch.randperm(len(hidden), generator=generator(0))]


@validated
def templates(
    batch: Count, seed: NotNegative = 0, extra: NotNegative = 0
) -> Int[Tensor, "batch pos"]:
    """Texts x A x B x S x x O.

    A and B are names, S is one of them again, and O the other; `extra` tokens come before S.
    """
    A, B = text.different_tokens(2, batch, NAMES, generator(seed)).split(1, 1)
    among = D_VOCAB - 1 - NAMES
    others = text.different_tokens(5 + extra, batch, among, generator(seed + 1))
    x = (NAMES + others).split(1, 1)
    first = (torch.arange(batch) % 2 == 0)[:, None]
    S, O = torch.where(first, A, B), torch.where(first, B, A)  # noqa: E741
    tokens = torch.cat([x[0], A, x[1], B, x[2], *x[5:], S, x[3], x[4], O], 1)
    return pad(tokens, (1, 0), value=START)


def pool(language: str = "blocks") -> list[Int[Tensor, "batch pos"]]:
    """Texts of other kinds, `FEW` of each, among which the judge searches.

    Those of one length are in one tensor.
    """
    if language == "eight":
        block, order = blocks(PERIOD, FEW, 97), blocks(PERIOD, FEW, 98, among=PERIOD) - 1
        again = torch.cat([block, block.gather(1, order)], 1)
        return [pad(torch.cat([blocks(2 * PERIOD, FEW, 96), again]), (1, 0), value=START)]
    if language == "lengths":
        return [
            unrelated(period, 2 * FEW, 400 + period) for period in range(5, 12) if period != PERIOD
        ]
    if language == "template":
        return [templates(20 * FEW, 300 + extra, extra) for extra in range(1, 5)]  # pairs are many
    found = []
    for period in (5, 8, 11):  # other letters first, then a block in any order, twice
        letters = blocks(N_CTX - 1 - period, FEW, 100 + period)
        found.append(torch.cat([letters, letters[:, -period:]], 1))
    block, row = blocks(11, FEW, 97), torch.arange(FEW)[:, None]
    order = blocks(11, FEW, 98, among=11) - 1
    pieces = torch.tensor([8, 9, 10, 3, 4, 0, 1, 2, 5, 6, 7])
    # in another order
    found += [torch.cat([block, block[row, order]], 1), torch.cat([block, block[:, pieces]], 1)]
    return [pad(torch.cat(found), (1, 0), value=START)]


@validated
def blocks(
    n: Count, batch: Count = 64, seed: NotNegative = 0, among: Count = D_VOCAB - 1
) -> Int[Tensor, "batch n"]:
    """Rows of different tokens in any order, out of the first `among`."""
    return text.different_tokens(n, batch, among, generator(seed))


@validated
def unrelated(period: Count, batch: Count = 64, seed: NotNegative = 0) -> Int[Tensor, "batch pos"]:
    """Texts of another language.

    A text is a start token and a block of `period` different tokens, in any order, twice.
    """
    if period > (N_CTX - 1) // 2:
        raise ValueError(
            f"period must be at most {(N_CTX - 1) // 2}, not {period}: "
            f"the models read {N_CTX} tokens."
        )
    return pad(blocks(period, batch, seed).repeat(1, 2), (1, 0), value=START)
