"""The sealed models of lessons 11 and 11b: one behaviour, many mechanisms.

`python -m course_lessons.sealed.cases` makes those of `data/cases/` again. All have two
layers of four heads. Most are compiled (see `programs`), turned in the stream and blurred by noise,
so that no weight is zero; three are trained. Seeds decide which head plays which part. This file
tells what there is: read it after the lesson.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.functional import one_hot
from transformer_lens import HookedTransformer

from course_lessons import programs
from course_lessons.programs import (
    JUNK,
    NOISE,
    START,
    Head,
    Look,
    Program,
    back,
    both,
    but_not,
    listed,
    unless,
    where,
)
from course_lessons.sealed.languages import (
    D_VOCAB,
    N_CTX,
    NAMES,
    PERIOD,
    generator,
    habits,
    unrelated,
)
from course_utils import models
from course_utils._arguments import Count, NotNegative, validated
from course_utils._files import DATA, write_checksums, write_text
from course_utils._torch_state import usual

N_HEADS = 4
SIZES = {"n_heads": N_HEADS, "d_head": 44, "d_model": 112}
KIND = {
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "standard",
    "seed": 0,
}
CONFIG: dict[str, Any] = {"n_layers": 2, **SIZES, "n_ctx": N_CTX, "d_vocab": D_VOCAB, **KIND}


class Way(NamedTuple):
    """One way to the token seven back.

    It has heads of layer 0, where the reader looks, and the slot that it moves from there.
    """

    writers: dict[str, Head]
    look: Look
    says: str = "token"


_MAY_FOLLOW = one_hot(habits(), D_VOCAB).sum(1).float()
_MAY_FOLLOW[START] = 0


def ways() -> dict[str, Way]:
    """All ways, by name."""

    def fetch(**slots: int) -> dict[str, Head]:  # {slot: how far back its token is fetched from}
        return {slot: Head(back(n), {"token": slot}) for slot, n in slots.items()}

    found = {"distance": Way({}, back(PERIOD - 1)), "habit": Way({}, listed(_MAY_FOLLOW))}
    found |= {
        f"relay {n}": Way(fetch(label=n), back(PERIOD - 1 - n), "label")
        for n in range(1, PERIOD - 1)
    }
    found["label 1"] = Way(fetch(label=1), where("label"))
    finder = {"pointer": Head(where("token", itself=False), {"place": "pointer"})}
    found["pointer 1"] = Way(finder, where("place", equals="pointer", step=1))
    found["two tokens"] = Way(
        fetch(label=1, second=2), both(where("label"), where("second", equals="label"))
    )
    for n in (2, 3, 4):
        two = fetch(label=n, second=n - 1)
        found[f"label {n}"] = Way(two, where("label", equals="second"))
        found[f"label {n}, relay"] = Way(two, where("label"), "second")
        moved = finder | fetch(second=n - 1)
        found[f"pointer {n}, relay"] = Way(
            moved, where("place", equals="pointer", step=n), "second"
        )
    return found


def built(way: Way, more: Mapping[str, Head] = {}, decoys: Mapping[str, Head] = {}) -> Program:
    """A reader and its writers, and beside them heads that nobody reads."""
    return Program({**way.writers, **more}, {"reader": Head(way.look, {way.says: "out"}), **decoys})


def with_backup(look: Look, way: Way) -> Program:
    """One head of layer 0 does it all and raises a flag; another way is silent while it is up."""
    backup = Head(unless("flag", way.look), {way.says: "out"})
    return Program(
        {"reader": Head(look, {"token": "out", "any": "flag"}), **way.writers},
        {"backup": backup},
    )


def unread(look: Look, to: str = "unread") -> Head:
    """A head that writes where nobody reads."""
    return Head(look, {"token": to})


WAYS = ways()
BACK = back(PERIOD - 1)
_NAMES = torch.tensor([0.0] + [1.0] * NAMES + [0.0] * (D_VOCAB - 1 - NAMES))
_SHAM, _DECOY = {"sham": unread(back(1), "label")}, {"decoy": unread(where("label"))}
_INHIBITION = Way(
    {"inhibitor": Head(back(2), {"token": "not"})},
    but_not(listed(_NAMES.expand(D_VOCAB, D_VOCAB)), "token", equals="not"),
)
COMPILED = {  # a way, and heads of layer 0 and layer 1 that nobody reads
    "relay": built(
        WAYS["relay 3"],
        {"sham": unread(back(1), "second")},
        {"decoy": unread(where("second"), "second")},
    ),
    "decoy": built(
        WAYS["label 1"], {"sham": unread(back(3))}, _DECOY | {"second decoy": unread(BACK)}
    ),
    "fixed_distance": built(WAYS["distance"], _SHAM, _DECOY),
    "induction": built(WAYS["label 1"], {"sham": unread(back(2), "second")}),
    "pointers": built(WAYS["pointer 1"], _SHAM, {"decoy": unread(where("label"), "label")}),
    "skip_trigrams": built(WAYS["habit"], _SHAM, _DECOY),
    "backup": with_backup(BACK, WAYS["label 1"]),
    "two_tokens": built(WAYS["two tokens"]),
    "names": built(
        _INHIBITION,
        {"sham": unread(where("token", itself=False))},
        {"decoy": unread(where("token", equals="not"))},
    ),
}
# what `trained` is told
TRAINED = {"ordinary": (0, 1), "shared": (2, 2), "one_length": (4, 1, PERIOD)}
QUIET = {"names": 0.01}  # less noise, where a table has large weights beside small ones
# others: "blocks"
LANGUAGE = {"names": "template", "ordinary": "lengths", "shared": "lengths", "one_length": "eight"}
_INSIDE = Path(__file__).with_name("inside.json")
# what is said of a box once it is solved
INSIDE: dict[str, str] = json.loads(_INSIDE.read_text(encoding="utf-8"))
ORDER, SHUFFLE = 3459, 50  # the seed that numbers the first boxes, and that of the first box


def names() -> list[str]:
    """The mechanism of each box, by its number; box 0 is the lesson's example."""
    first, order = list(COMPILED)[:8], torch.randperm(8, generator=generator(ORDER)).tolist()
    return [first[place] for place in order] + ["ordinary", "names", *list(TRAINED)[1:]]


@validated
def compiled(name: str, seed: NotNegative) -> programs.Compiled:
    """The model of a mechanism, and which head (layer, head) has which part.

    The seed shuffles, turns and blurs it.
    """
    program, noise = COMPILED[name], QUIET.get(name, NOISE)
    return stored(programs.compiled(program, D_VOCAB, N_CTX, seed, noise, SIZES | {"flag": 109}))


def stored(box: programs.Compiled) -> programs.Compiled:
    """The same box, told which of its weights a file keeps: all but the biases, which are zero."""
    for weight, parameter in box.model.named_parameters():
        parameter.requires_grad_(".b_" not in weight)
    return box


STEPS, BATCH = 1_000, 64  # of a trained model


@usual()
@validated
def trained(seed: NotNegative, alive: Count, only: NotNegative = 0) -> HookedTransformer:
    """A model that learned from unrelated texts.

    Blocks have 5 to 11 tokens or `only` so many; `alive` heads a layer learned.
    """
    model, longest = models.initial(CONFIG | {"seed": seed}).eval(), (N_CTX - 1) // 2
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=3e-3)
    idle = [
        torch.randperm(N_HEADS, generator=generator(seed + layer))[alive:] for layer in range(2)
    ]
    mumbled = [
        block.attn.W_O[heads].clone().detach()
        for block, heads in zip(model.blocks, idle, strict=True)
    ]
    for step in range(STEPS):
        for block, heads in zip(model.blocks, idle, strict=True):
            block.attn.W_O.data[heads] = 0
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 50, 2 * (1 - step / STEPS))
        tokens = unrelated(only or 5 + step * 5 % (longest - 4), BATCH, STEPS * seed + step)
        optimizer.zero_grad()
        model(tokens, return_type="loss").backward()
        optimizer.step()
    for block, heads, weights in zip(model.blocks, idle, mumbled, strict=True):
        block.attn.W_O.data[heads] = JUNK * weights / weights.std()
    return model


COMMAND = "python -m course_lessons.sealed.cases"


def main() -> None:
    """Make all boxes again, in `data/cases/`."""
    for number, name in enumerate(names()):
        model = trained(*TRAINED[name]) if name in TRAINED else compiled(name, SHUFFLE + number)[0]
        folder = DATA / "cases" / str(number)
        write_text(
            folder / "config.json",
            json.dumps({"model": CONFIG, "made by": COMMAND}, indent=1) + "\n",
        )
        models.save_weights(model, folder / "model.safetensors")
        write_checksums(folder)


if __name__ == "__main__":
    main()
