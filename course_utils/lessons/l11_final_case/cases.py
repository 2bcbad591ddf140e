"""The sealed models of lesson 11: one behaviour, seven mechanisms.

`python -m course_utils.lessons.l11_final_case.cases` makes them again.

All have two layers of four heads, and all read the same texts. Eight are compiled: circuits written down as in lesson
07, then turned in the stream and blurred by noise, so that no weight is zero. One is trained. Seeds decide which number
holds which mechanism, and which head plays which part. This file tells what there is: read it after the lesson.
"""

import argparse
import json
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad
from transformer_lens import HookedTransformer

from course_utils import models
from course_utils._arguments import Count, NotNegative, checked
from course_utils._files import DATA, write_checksums, write_text

PERIOD = 8  # of the texts: a block of so many tokens, twice
START, D_VOCAB, N_CTX = 0, 21, 23  # the start token, and how many tokens and positions there are
N_HEADS, D_HEAD, D_MODEL = 4, 44, 112
CONFIG: dict[str, Any] = {"n_layers": 2, "n_heads": N_HEADS, "d_head": D_HEAD, "d_model": D_MODEL, "n_ctx": N_CTX}
CONFIG |= {"d_vocab": D_VOCAB, "attn_only": True, "normalization_type": None}
CONFIG |= {"positional_embedding_type": "standard", "seed": 0}
# What the dimensions of the stream are for, before it is turned. A place as a label takes the room of the second label.
TOKEN, PLACE, OUT, LABEL, SECOND = slice(0, 21), slice(21, 44), slice(44, 65), slice(65, 86), slice(86, 107)
POINTER, FLAG = slice(86, 109), slice(109, 110)
FIRST = slice(START, START + 1)  # where the start token is
SHARP, REST = 12.0, 6.0  # the score of what a head looks for, and that of the start token, on which it rests
UNEMBED = 10.0  # the logit of a token that is written once
JUNK, NOISE = 0.05, 0.03  # how loud the heads without a part are; by how much all weights are blurred

Matrix = Float[Tensor, "d_model d_model"]
HeadMatrices = tuple[Matrix, Matrix]  # QK [query, key] and OV [from, to], as in lesson 07


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def habits() -> Int[Tensor, "d_vocab two"]:
    """The two tokens that may follow each token in the texts; the start token's row is zero."""
    generator, taken = _generator(43), [torch.arange(D_VOCAB)]
    while len(taken) < 3:  # no token follows itself, and the two are not the same
        order = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(D_VOCAB - 1, generator=generator)])
        if all((order != other)[1:].all() for other in taken):
            taken.append(order)
    return torch.stack(taken[1:], dim=1)


def texts() -> Int[Tensor, "batch pos"]:
    """What the sealed models read: a start token and a block of 8 tokens, twice; a third of all texts there are.

    In a block no token comes twice, and of the two that may follow one only that which does.
    """
    following, found = habits().tolist(), [[first] for first in range(1, D_VOCAB)]
    for _ in range(PERIOD - 1):
        found = [[*block, token] for block in found for token in following[block[-1]]]
    found = [block for block in found if len({*block}) == PERIOD]
    kept = [block for block in found if all(len({*following[token]} & {*block}) == 1 for token in block[:-1])]
    return pad(torch.tensor(kept)[::3].repeat(1, 2), (1, 0), value=START)


@checked
def blocks(n: Count, batch: Count = 64, seed: NotNegative = 0, among: Count = D_VOCAB - 1) -> Int[Tensor, "batch n"]:
    """Rows of different tokens in any order, out of the first `among`."""
    generator = _generator(seed)
    return 1 + torch.stack([torch.randperm(among, generator=generator)[:n] for _ in range(batch)])


@checked
def unrelated(period: Count, batch: Count = 64, seed: NotNegative = 0) -> Int[Tensor, "batch pos"]:
    """Texts of another language: a start token and a block of `period` different tokens, in any order, twice."""
    if period > (N_CTX - 1) // 2:
        raise ValueError(f"period must be at most {(N_CTX - 1) // 2}, not {period}: the models read {N_CTX} tokens.")
    return pad(blocks(period, batch, seed).repeat(1, 2), (1, 0), value=START)


# Heads, each as QK and OV


def _matrix(*parts: tuple[slice, slice, Tensor]) -> Matrix:
    """A matrix with these entries in these rows and columns, and zeros."""
    made = torch.zeros(D_MODEL, D_MODEL)
    for rows, columns, entries in parts:
        made[rows, columns] += entries
    return made


def _copy(source: slice = TOKEN, to: slice = OUT) -> Matrix:
    """Moves what stands at `source`; the start token gives nothing."""
    entries = torch.eye(source.stop - source.start)
    entries[START, START] = 0
    return _matrix((source, to, entries))


def _rest(score: float = REST) -> Matrix:
    """Queries from anywhere fit the start token."""
    return _matrix((PLACE, FIRST, torch.full((N_CTX, 1), score)))


def _fit(query: slice, key: slice) -> Matrix:
    """A query for a token fits the key that holds the same token."""
    return _matrix((query, key, SHARP * torch.eye(D_VOCAB)))


def _step(query: slice, n: int) -> Matrix:
    """Looks `n` places on from the one that the query names, or `-n` back."""
    return _matrix((query, PLACE, SHARP * torch.diag(torch.ones(N_CTX - abs(n)), n))) + _rest()


def _behind(label: slice = LABEL) -> Matrix:
    """Looks where the label is the current token."""
    return _fit(TOKEN, label) + _rest()


def _without_part(generator: torch.Generator) -> HeadMatrices:
    """A head that looks a little here and there and mumbles."""
    seen = slice(TOKEN.start, PLACE.stop)
    scores = torch.randn(PLACE.stop, PLACE.stop, generator=generator)
    mumbled = JUNK * torch.randn(D_VOCAB, D_MODEL, generator=generator)
    return _matrix((seen, seen, 0.6 * scores)), _matrix((TOKEN, slice(0, D_MODEL), mumbled))


# The heads with a part in layer 0 and in layer 1, by the name of the part; each layer has others beside them
_ONE_BACK, _READER, _DECOY = (_step(PLACE, -1), _copy(to=LABEL)), (_behind(), _copy()), (_behind(), _copy(to=SECOND))
_SEVEN_BACK = _step(PLACE, 1 - PERIOD)
_MAY_FOLLOW = torch.nn.functional.one_hot(habits(), D_VOCAB).sum(1)
_MAY_FOLLOW[START] = 0
_AT_COPY = _fit(TOKEN, TOKEN) - _matrix((PLACE, PLACE, 2 * SHARP * torch.eye(N_CTX))) + _rest()  # not at itself
_BOTH = _fit(TOKEN, LABEL) + _fit(LABEL, SECOND) + _rest(1.5 * SHARP)
_RAISE_FLAG = _matrix((slice(1, D_VOCAB), FLAG, torch.ones(D_VOCAB - 1, 1)))  # whatever token is moved
_UNLESS_FLAGGED = _matrix((FLAG, FIRST, torch.full((1, 1), 2 * SHARP)))  # else at the start token
COMPILED: dict[str, tuple[dict[str, HeadMatrices], dict[str, HeadMatrices]]] = {
    "relay": (  # one head fetches from three back, a second moves that on by four; a pair that only looks
        {"writer": (_step(PLACE, -3), _copy(to=LABEL)), "sham": (_step(PLACE, -1), _copy(to=SECOND))},
        {"reader": (_step(PLACE, -4), _copy(LABEL)), "decoy": (_behind(SECOND), _copy(to=SECOND))},
    ),
    "decoy": (  # induction, and two heads that look where it looks and say nothing that anybody hears
        {"writer": _ONE_BACK, "sham": (_step(PLACE, -3), _copy(to=SECOND))},
        {"reader": _READER, "decoy": _DECOY, "second decoy": (_SEVEN_BACK, _copy(to=SECOND))},
    ),
    "fixed_distance": (  # whatever stands there; beside it an induction circuit that says nothing
        {"sham": _ONE_BACK},
        {"reader": (_SEVEN_BACK, _copy()), "decoy": _DECOY},
    ),
    "induction": (  # a label from one back, found by the keys; another label that nobody looks for
        {"writer": _ONE_BACK, "sham": (_step(PLACE, -2), _copy(to=SECOND))},
        {"reader": _READER},
    ),
    "pointers": (  # the place of the earlier copy, fetched into the queries; beside it a label for a decoy
        {"writer": (_AT_COPY, _copy(PLACE, POINTER)), "sham": _ONE_BACK},
        {"reader": (_step(POINTER, 1), _copy()), "decoy": (_behind(), _copy(to=LABEL))},
    ),
    "skip_trigrams": (  # tokens that may follow, found by name; an induction circuit that says nothing
        {"sham": _ONE_BACK},
        {"reader": (_matrix((TOKEN, TOKEN, SHARP * _MAY_FOLLOW)) + _rest(), _copy()), "decoy": _DECOY},
    ),
    "stand_in": (  # one head does it all and raises a flag; an induction circuit is silent while it is up
        {"reader": (_SEVEN_BACK, _copy() + _RAISE_FLAG), "writer": _ONE_BACK},
        {"stand-in": (_behind() + _UNLESS_FLAGGED, _copy())},
    ),
    "two_tokens": (  # two labels in the keys and one in the queries: only where two tokens fit is it enough
        {"one back": _ONE_BACK, "two back": (_step(PLACE, -2), _copy(to=SECOND))},
        {"reader": (_BOTH, _copy())},
    ),
}
TRAINED = "ordinary"
ORDER, SHUFFLE = 3459, 50  # the seed that numbers the boxes, and that of the first box


def names() -> list[str]:
    """The mechanism of each box, by its number; box 0 is the lesson's example."""
    order = torch.randperm(len(COMPILED), generator=_generator(ORDER)).tolist()
    return [list(COMPILED)[place] for place in order] + [TRAINED]


def _factors(matrix: Matrix, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A and B, [d_model, d_head] each, with A Bᵀ as near to the matrix as their rank allows."""
    U, lengths, V = torch.linalg.svd(matrix)
    turn = lengths[:D_HEAD].sqrt()[:, None] * torch.linalg.qr(torch.randn(D_HEAD, D_HEAD, generator=generator)).Q
    return U[:, :D_HEAD] @ turn, V[:D_HEAD].T @ turn


@checked
@torch.no_grad()
def compiled(name: str, seed: NotNegative) -> tuple[HookedTransformer, dict[str, tuple[int, int]]]:
    """The model of a mechanism, and which head (layer, head) has which part; the seed shuffles, turns and blurs it."""
    generator, roles = _generator(seed), dict[str, tuple[int, int]]()
    model = models.initial(CONFIG).eval()
    turn = torch.linalg.qr(torch.randn(D_MODEL, D_MODEL, generator=generator)).Q
    model.embed.W_E.copy_(turn[TOKEN])
    model.pos_embed.W_pos.copy_(turn[PLACE])
    model.unembed.W_U.copy_(UNEMBED * turn[OUT].T)
    for layer, with_part in enumerate(COMPILED[name]):
        order = torch.randperm(N_HEADS, generator=generator).tolist()
        roles |= {part: (layer, head) for part, head in zip(with_part, order, strict=False)}
        heads = [*with_part.values(), *(_without_part(generator) for _ in order)]
        attention = model.blocks[layer].attn
        for head, (QK, OV) in zip(order, heads, strict=False):
            scores = turn.T @ QK @ turn * D_HEAD**0.5  # they are divided by √d_head
            attention.W_Q[head], attention.W_K[head] = _factors(scores, generator)
            attention.W_V[head], W_O = _factors(turn.T @ OV @ turn, generator)
            attention.W_O[head] = W_O.T
    for weight in (weight for name, weight in model.named_parameters() if ".b_" not in name):
        weight.add_(torch.randn(weight.shape, generator=generator), alpha=NOISE * weight.std().item())
    return model, roles


STEPS, BATCH = 1_000, 64  # of the trained model


@checked
def trained(seed: NotNegative) -> HookedTransformer:
    """A model that learned from unrelated texts, with blocks of 5 to 11 tokens; one head in each layer learned."""
    model, longest = models.initial(CONFIG | {"seed": seed}).eval(), (N_CTX - 1) // 2
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=3e-3)
    idle = [torch.randperm(N_HEADS, generator=_generator(seed + layer))[1:] for layer in range(2)]
    mumbled = [block.attn.W_O[heads].clone().detach() for block, heads in zip(model.blocks, idle, strict=True)]
    for step in range(STEPS):
        for block, heads in zip(model.blocks, idle, strict=True):
            block.attn.W_O.data[heads] = 0
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 50, 2 * (1 - step / STEPS))
        tokens = unrelated(5 + step * 5 % (longest - 4), BATCH, STEPS * seed + step)
        optimizer.zero_grad()
        model(tokens, return_type="loss").backward()
        optimizer.step()
    for block, heads, weights in zip(model.blocks, idle, mumbled, strict=True):
        block.attn.W_O.data[heads] = JUNK * weights / weights.std()
    return model


COMMAND = "python -m course_utils.lessons.l11_final_case.cases"


def main(arguments: list[str] | None = None) -> None:
    """Make all boxes again, in `data/cases/`."""
    argparse.ArgumentParser(prog=COMMAND, description=main.__doc__).parse_args(arguments)
    for number, name in enumerate(names()):
        model = trained(0) if name == TRAINED else compiled(name, SHUFFLE + number)[0]
        folder = DATA / "cases" / str(number)
        write_text(folder / "config.json", json.dumps({"model": CONFIG, "made by": COMMAND}, indent=1) + "\n")
        models.save_weights(model, folder / "model.safetensors")
        write_checksums(folder)


if __name__ == "__main__":
    main()
