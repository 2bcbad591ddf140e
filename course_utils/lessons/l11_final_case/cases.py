"""The sealed models of lesson 11: one behaviour, many mechanisms, and boxes from a seed.

`python -m course_utils.lessons.l11_final_case.cases` makes those of `data/cases/` again; with `--seed 7 --level 2` it
makes a new one, a file whose name is its hash, and says what is inside. All have two layers of four heads. Most are
compiled (see `programs`), turned in the stream and blurred by noise, so that no weight is zero; three are trained.
Seeds decide which head plays which part. This file tells what there is: read it after the lesson.
"""

import argparse
import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from safetensors.torch import load
from torch import Tensor
from torch.nn.functional import one_hot, pad
from transformer_lens import HookedTransformer

from course_utils import models, programs, text
from course_utils._arguments import Count, NotNegative, checked
from course_utils._files import DATA, write_checksums, write_text
from course_utils.programs import JUNK, NOISE, START, Head, Look, Program, back, both, but_not, listed, unless, where

PERIOD = 8  # of the texts: a block of so many tokens, twice
D_VOCAB, N_CTX = 21, 23  # how many tokens and positions there are
FEW, NAMES = 24, 8  # texts of each other kind; tokens that are names in the texts of a template
N_HEADS = 4
SIZES = {"n_heads": N_HEADS, "d_head": 44, "d_model": 112}
KIND = {"attn_only": True, "normalization_type": None, "positional_embedding_type": "standard", "seed": 0}
CONFIG: dict[str, Any] = {"n_layers": 2, **SIZES, "n_ctx": N_CTX, "d_vocab": D_VOCAB, **KIND}


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


@checked
def texts(language: str = "blocks", shown: bool = True) -> Int[Tensor, "batch pos"]:
    """What a sealed model reads: a third of its language's texts, or what is not shown of them, in another order.

    "blocks": a start token and a block of 8 tokens, twice. In a block no token comes twice, and of the two that may
    follow one only that which does. "template": two names, then one of them again, and two tokens later the other.
    "eight": a block in any order, twice. "lengths": the same, and the other kinds have blocks of 5 to 11 tokens.
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
        rows = [block for block in rows if all(len({*following[token]} & {*block}) == 1 for token in block[:-1])]
        found = pad(torch.tensor(rows).repeat(1, 2), (1, 0), value=START)
    if shown:
        return found[::3]
    hidden = found[torch.arange(len(found)) % 3 > 0]
    return hidden[torch.randperm(len(hidden), generator=_generator(0))]  # or each text would be like the one before


@checked
def templates(batch: Count, seed: NotNegative = 0, extra: NotNegative = 0) -> Int[Tensor, "batch pos"]:
    """Texts x A x B x S x x O: names A and B, one of them as S again, and the other as O; `extra` tokens before S."""
    A, B = text.different_tokens(2, batch, NAMES, _generator(seed)).split(1, 1)
    x = (NAMES + text.different_tokens(5 + extra, batch, D_VOCAB - 1 - NAMES, _generator(seed + 1))).split(1, 1)
    first = (torch.arange(batch) % 2 == 0)[:, None]
    S, O = torch.where(first, A, B), torch.where(first, B, A)  # noqa: E741
    return pad(torch.cat([x[0], A, x[1], B, x[2], *x[5:], S, x[3], x[4], O], 1), (1, 0), value=START)


def pool(language: str = "blocks") -> list[Int[Tensor, "batch pos"]]:
    """Texts of other kinds, `FEW` of each, among which the judge searches; those of one length in one tensor."""
    if language == "eight":
        block, order = blocks(PERIOD, FEW, 97), blocks(PERIOD, FEW, 98, among=PERIOD) - 1
        again = torch.cat([block, block.gather(1, order)], 1)
        return [pad(torch.cat([blocks(2 * PERIOD, FEW, 96), again]), (1, 0), value=START)]
    if language == "lengths":
        return [unrelated(period, 2 * FEW, 400 + period) for period in range(5, 12) if period != PERIOD]
    if language == "template":
        return [templates(2 * FEW, 300 + extra, extra) for extra in range(1, 5)]
    found = []
    for period in (5, 8, 11):  # other letters first, then a block in any order, twice
        letters = blocks(N_CTX - 1 - period, FEW, 100 + period)
        found.append(torch.cat([letters, letters[:, -period:]], 1))
    block, row = blocks(11, FEW, 97), torch.arange(FEW)[:, None]
    order = blocks(11, FEW, 98, among=11) - 1
    pieces = torch.tensor([8, 9, 10, 3, 4, 0, 1, 2, 5, 6, 7])
    found += [torch.cat([block, block[row, order]], 1), torch.cat([block, block[:, pieces]], 1)]  # in another order
    return [pad(torch.cat(found), (1, 0), value=START)]


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


class Way(NamedTuple):
    """One way to the token seven back: heads of layer 0, where the reader looks, and the slot that it says there."""

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
    found |= {f"relay {n}": Way(fetch(label=n), back(PERIOD - 1 - n), "label") for n in range(1, PERIOD - 1)}
    found["label 1"] = Way(fetch(label=1), where("label"))
    finder = {"pointer": Head(where("token", itself=False), {"place": "pointer"})}
    found["pointer 1"] = Way(finder, where("place", equals="pointer", step=1))
    found["two tokens"] = Way(fetch(label=1, second=2), both(where("label"), where("second", equals="label")))
    for n in (2, 3, 4):
        two = fetch(label=n, second=n - 1)
        found[f"label {n}"] = Way(two, where("label", equals="second"))
        found[f"label {n}, relay"] = Way(two, where("label"), "second")
        moved = finder | fetch(second=n - 1)
        found[f"pointer {n}, relay"] = Way(moved, where("place", equals="pointer", step=n), "second")
    return found


def built(way: Way, more: Mapping[str, Head] = {}, decoys: Mapping[str, Head] = {}) -> Program:
    """A reader and its writers, and beside them heads that nobody hears."""
    return Program({**way.writers, **more}, {"reader": Head(way.look, {way.says: "out"}), **decoys})


def with_reserve(look: Look, way: Way) -> Program:
    """One head of layer 0 does it all and raises a flag; another way is silent while it is up."""
    stand_in = Head(unless("flag", way.look), {way.says: "out"})
    return Program({"reader": Head(look, {"token": "out", "any": "flag"}), **way.writers}, {"stand-in": stand_in})


def _unheard(look: Look, to: str = "unheard") -> Head:
    return Head(look, {"token": to})


_WAYS, _BACK, _NAMES = ways(), back(PERIOD - 1), torch.tensor([0.0] + [1.0] * NAMES + [0.0] * (D_VOCAB - 1 - NAMES))
_SHAM, _DECOY = {"sham": _unheard(back(1), "label")}, {"decoy": _unheard(where("label"))}
_INHIBITION = Way({"inhibitor": Head(back(2), {"token": "not"})},
                  but_not(listed(_NAMES.expand(D_VOCAB, D_VOCAB)), "token", equals="not"))  # fmt: skip
COMPILED = {  # a way, and heads of layer 0 and layer 1 that nobody hears
    "relay": built(
        _WAYS["relay 3"], {"sham": _unheard(back(1), "second")}, {"decoy": _unheard(where("second"), "second")}
    ),
    "decoy": built(_WAYS["label 1"], {"sham": _unheard(back(3))}, _DECOY | {"second decoy": _unheard(_BACK)}),
    "fixed_distance": built(_WAYS["distance"], _SHAM, _DECOY),
    "induction": built(_WAYS["label 1"], {"sham": _unheard(back(2), "second")}),
    "pointers": built(_WAYS["pointer 1"], _SHAM, {"decoy": _unheard(where("label"), "label")}),
    "skip_trigrams": built(_WAYS["habit"], _SHAM, _DECOY),
    "stand_in": with_reserve(_BACK, _WAYS["label 1"]),
    "two_tokens": built(_WAYS["two tokens"]),
    "names": built(
        _INHIBITION, {"sham": _unheard(where("token", itself=False))}, {"decoy": _unheard(where("token", equals="not"))}
    ),
}
TRAINED = {"ordinary": (0, 1), "crowd": (2, 2), "one_length": (4, 1, PERIOD)}  # what `trained` is told
QUIET = {"names": 0.01}  # less noise, where a table has large weights beside small ones
LANGUAGE = {"names": "template", "ordinary": "lengths", "crowd": "lengths", "one_length": "eight"}  # others: "blocks"
_INSIDE = Path(__file__).with_name("inside.json")
INSIDE: dict[str, str] = json.loads(_INSIDE.read_text(encoding="utf-8"))  # what is said of a box once it is solved
ORDER, SHUFFLE = 3459, 50  # the seed that numbers the first boxes, and that of the first box


def names() -> list[str]:
    """The mechanism of each box, by its number; box 0 is the lesson's example."""
    first, order = list(COMPILED)[:8], torch.randperm(8, generator=_generator(ORDER)).tolist()
    return [first[place] for place in order] + ["ordinary", "names", *list(TRAINED)[1:]]


@checked
def compiled(name: str, seed: NotNegative) -> programs.Compiled:
    """The model of a mechanism, and which head (layer, head) has which part; the seed shuffles, turns and blurs it."""
    program, noise = COMPILED[name], QUIET.get(name, NOISE)
    return _stored(programs.compiled(program, D_VOCAB, N_CTX, seed, noise, SIZES | {"flag": 109}))


def _stored(box: programs.Compiled) -> programs.Compiled:
    for weight, parameter in box.model.named_parameters():
        parameter.requires_grad_(".b_" not in weight)  # these are stored
    return box


STEPS, BATCH = 1_000, 64  # of a trained model


@checked
def trained(seed: NotNegative, alive: Count, only: NotNegative = 0) -> HookedTransformer:
    """A model that learned from unrelated texts, of 5 to 11 tokens or `only` so many; `alive` heads a layer learned."""
    model, longest = models.initial(CONFIG | {"seed": seed}).eval(), (N_CTX - 1) // 2
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=3e-3)
    idle = [torch.randperm(N_HEADS, generator=_generator(seed + layer))[alive:] for layer in range(2)]
    mumbled = [block.attn.W_O[heads].clone().detach() for block, heads in zip(model.blocks, idle, strict=True)]
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


class Made(NamedTuple):
    """A new box: the model, the hypothesis that can take its place, {"0.1": Head(…), …}, and what its way is called."""

    model: HookedTransformer
    hypothesis: dict[str, Head]
    way: str


def made(seed: int, level: int) -> Iterator[Made]:
    """Boxes of one seed; the first that can be solved is the seed's. Level 1 has one writer, 2 two, 3 a reserve."""
    rng, unheard = _generator(seed), [back(1), back(2), back(3)]

    def pick(among: Any) -> Any:
        return among[torch.randint(len(among), (1,), generator=rng).item()]

    while True:
        name, first = pick([*_WAYS]), pick(("distance", "habit"))
        if level < 3 and (len(_WAYS[name].writers) == 2) != (level == 2):
            continue
        decoy = {"decoy": _unheard(pick([_BACK, where("unheard"), where("token", itself=False)]))}
        program = built(_WAYS[name], {"sham": _unheard(pick(unheard))}, decoy)
        if level == 3:
            program, name = with_reserve(_WAYS[first].look, _WAYS[name]), f"{first}, in reserve {name}"
        with contextlib.suppress(ValueError):  # too much for one head
            sizes = SIZES | {"d_model": 192}
            model, heads = _stored(programs.compiled(program, D_VOCAB, N_CTX, pick(range(2**31)), sizes=sizes))
            yield Made(model, {"{}.{}".format(*heads[part]): program.heads[part] for part in program.reads()}, name)


def _named(content: bytes) -> str:
    return f"box-{hashlib.sha256(content).hexdigest()[:12]}.safetensors"


def write(model: HookedTransformer, folder: Path) -> Path:
    """A box as a file whose name is its hash, so that two people can tell whether they have the same."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        models.save_weights(model, file := Path(place) / "model.safetensors")
        return file.replace(folder / _named(file.read_bytes()))


@checked
def opened(path: str) -> HookedTransformer:
    """The model of such a file; OSError if it isn't what its name says."""
    content = Path(path).read_bytes()
    if Path(path).name != _named(content):
        raise OSError(f"{path} is damaged, or has another name than it was given: its hash differs.")
    weights = {key: weight.float() for key, weight in load(content).items()}
    model = models.initial(CONFIG | {"d_model": weights["embed.W_E"].shape[1]}).eval().requires_grad_(False)
    model.load_state_dict(weights, strict=False)
    return model


COMMAND = "python -m course_utils.lessons.l11_final_case.cases"


def main(arguments: list[str] | None = None) -> None:
    """Make all boxes again, in `data/cases/`, or a new one."""
    from course_utils.lessons.l11_final_case import judge  # which imports this module

    parser = argparse.ArgumentParser(prog=COMMAND, description=main.__doc__)
    parser.add_argument("--seed", type=int, help="of a new box; keep it to yourself")
    parser.add_argument("--level", type=int, choices=(1, 2, 3), default=2)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for it (default: this one)")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        new = judge.solvable(options.seed, options.level)
        print(write(new.model, options.out), f"inside: {new.way}, {', '.join(new.hypothesis)}", sep="\n")
        return
    for number, name in enumerate(names()):
        model = trained(*TRAINED[name]) if name in TRAINED else compiled(name, SHUFFLE + number)[0]
        folder = DATA / "cases" / str(number)
        write_text(folder / "config.json", json.dumps({"model": CONFIG, "made by": COMMAND}, indent=1) + "\n")
        models.save_weights(model, folder / "model.safetensors")
        write_checksums(folder)


if __name__ == "__main__":
    main()
