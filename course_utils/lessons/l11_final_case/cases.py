"""The sealed models of lesson 11: one behaviour, seven mechanisms.

`python -m course_utils.lessons.l11_final_case.cases` makes them again.

All have two layers of four heads, and all read the same texts. Eight are compiled (see `programs`), turned in the
stream and blurred by noise, so that no weight is zero. One is trained. Seeds decide which number holds which mechanism,
and which head plays which part. This file tells what there is: read it after the lesson.
"""

import argparse
import json
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad
from transformer_lens import HookedTransformer

from course_utils import models, programs, text
from course_utils._arguments import Count, NotNegative, checked
from course_utils._files import DATA, write_checksums, write_text
from course_utils.programs import JUNK, START, Head, Program, back, both, listed, unless, where

PERIOD = 8  # of the texts: a block of so many tokens, twice
D_VOCAB, N_CTX = 21, 23  # how many tokens and positions there are
N_HEADS = 4
SIZES = {"n_heads": N_HEADS, "d_head": 44, "d_model": 112}
CONFIG: dict[str, Any] = {"n_layers": 2, **SIZES, "n_ctx": N_CTX, "d_vocab": D_VOCAB}
CONFIG |= {"attn_only": True, "normalization_type": None}
CONFIG |= {"positional_embedding_type": "standard", "seed": 0}


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
    return text.different_tokens(n, batch, among, _generator(seed))


@checked
def unrelated(period: Count, batch: Count = 64, seed: NotNegative = 0) -> Int[Tensor, "batch pos"]:
    """Texts of another language: a start token and a block of `period` different tokens, in any order, twice."""
    if period > (N_CTX - 1) // 2:
        raise ValueError(f"period must be at most {(N_CTX - 1) // 2}, not {period}: the models read {N_CTX} tokens.")
    return pad(blocks(period, batch, seed).repeat(1, 2), (1, 0), value=START)


# The heads with a part in layer 0 and in layer 1, by the name of the part; each layer has others beside them
_AFTER = where("label", equals="token")  # a label says which token came before
_ONE_BACK, _READER = Head(back(1), {"token": "label"}), Head(_AFTER, {"token": "out"})
_DECOY, _SEVEN_BACK = Head(_AFTER, {"token": "unheard"}), back(PERIOD - 1)
_SAME_TWO = both(_AFTER, where("second", equals="label"))
_MAY_FOLLOW = torch.nn.functional.one_hot(habits(), D_VOCAB).sum(1).float()
_MAY_FOLLOW[START] = 0
COMPILED = {
    "relay": Program(  # one head fetches from three back, a second moves that on by four; a pair that only looks
        {"writer": Head(back(3), {"token": "label"}), "sham": Head(back(1), {"token": "second"})},
        {
            "reader": Head(back(4), {"label": "out"}),
            "decoy": Head(where("second", equals="token"), {"token": "second"}),
        },
    ),
    "decoy": Program(  # induction, and two heads that look where it looks and say nothing that anybody hears
        {"writer": _ONE_BACK, "sham": Head(back(3), {"token": "unheard"})},
        {"reader": _READER, "decoy": _DECOY, "second decoy": Head(_SEVEN_BACK, {"token": "unheard"})},
    ),
    "fixed_distance": Program(  # whatever stands there; beside it an induction circuit that says nothing
        {"sham": _ONE_BACK},
        {"reader": Head(_SEVEN_BACK, {"token": "out"}), "decoy": _DECOY},
    ),
    "induction": Program(  # a label from one back, found by the keys; another label that nobody looks for
        {"writer": _ONE_BACK, "sham": Head(back(2), {"token": "second"})},
        {"reader": _READER},
    ),
    "pointers": Program(  # the place of the earlier copy, fetched into the queries; beside it a label for a decoy
        {
            "writer": Head(where("token", equals="token", itself=False), {"place": "pointer"}),
            "sham": _ONE_BACK,
        },
        {
            "reader": Head(where("place", equals="pointer", step=1), {"token": "out"}),
            "decoy": Head(_AFTER, {"token": "label"}),
        },
    ),
    "skip_trigrams": Program(  # tokens that may follow, found by name; an induction circuit that says nothing
        {"sham": _ONE_BACK},
        {"reader": Head(listed(_MAY_FOLLOW), {"token": "out"}), "decoy": _DECOY},
    ),
    "stand_in": Program(  # one head does it all and raises a flag; an induction circuit is silent while it is up
        {"reader": Head(_SEVEN_BACK, {"token": "out", "any": "flag"}), "writer": _ONE_BACK},
        {"stand-in": Head(unless("flag", _AFTER), {"token": "out"})},
    ),
    "two_tokens": Program(  # two labels in the keys and one in the queries: only where two tokens fit is it enough
        {"one back": _ONE_BACK, "two back": Head(back(2), {"token": "second"})},
        {"reader": Head(_SAME_TWO, {"token": "out"})},
    ),
}
TRAINED = "ordinary"
ORDER, SHUFFLE = 3459, 50  # the seed that numbers the boxes, and that of the first box


def names() -> list[str]:
    """The mechanism of each box, by its number; box 0 is the lesson's example."""
    order = torch.randperm(len(COMPILED), generator=_generator(ORDER)).tolist()
    return [list(COMPILED)[place] for place in order] + [TRAINED]


@checked
def compiled(name: str, seed: NotNegative) -> programs.Compiled:
    """The model of a mechanism, and which head (layer, head) has which part; the seed shuffles, turns and blurs it."""
    made = programs.compiled(COMPILED[name], D_VOCAB, N_CTX, seed, sizes=SIZES | {"flag": 109})
    for weight, parameter in made.model.named_parameters():
        parameter.requires_grad_(".b_" not in weight)  # these are stored
    return made


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
