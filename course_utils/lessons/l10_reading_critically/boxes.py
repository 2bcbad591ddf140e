"""Boxes whose edges are known: seven programs as blurred weights, the doors that each uses, and methods' scores.

All say how a text goes on that repeats itself: a start token, and a block of six different tokens twice.
"""

import itertools
import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_utils import text
from course_utils._arguments import Count, NotNegative, checked
from course_utils.interventions import Door
from course_utils.interventions import Head as Place
from course_utils.programs import Head, Program, back, both, compiled, unless, where

PERIOD, D_VOCAB, STEPS = 6, 13, 48  # into so many equal parts a ranking is cut
SIZES = {"n_heads": 4, "d_head": 32, "d_model": 80}
Scores = dict[Door, float]
Method = Callable[[HookedTransformer, Tensor, Tensor], Scores]

_AFTER = where("before", equals="token")
_ONE_BACK, _SAY = Head(back(1), {"token": "before"}), Head(_AFTER, {"token": "out"})
_SAME_TWO = both(_AFTER, where("second", equals="before"))
PROGRAMS = {
    "keys": Program({"writer": _ONE_BACK}, {"reader": _SAY}),
    "values": Program({"writer": Head(back(2), {"token": "label"})}, {"reader": Head(back(3), {"label": "out"})}),
    "two tokens": Program(
        {"writer": _ONE_BACK, "two back": Head(back(2), {"token": "second"})},
        {"reader": Head(_SAME_TWO, {"token": "out"})},
    ),
    "brake": Program({"writer": _ONE_BACK}, {"reader": _SAY, "brake": Head(_AFTER, {"token": "out"}, loud=-0.5)}),
    "queries": Program(  # the place of the earlier copy, and the reader looks one further
        {"writer": Head(where("token", equals="token", itself=False), {"place": "pointer"})},
        {"reader": Head(where("place", equals="pointer", step=1), {"token": "out"})},
    ),
    "three layers": Program(
        {"writer": _ONE_BACK},
        {"finder": Head(_AFTER, {"place": "pointer"})},
        {"reader": Head(where("place", equals="pointer"), {"token": "out"})},
    ),
    "reserve": Program(  # one head does it all and raises a flag; the stand-in is silent while it is up
        {"main": Head(back(PERIOD - 1), {"token": "out", "any": "flag"}), "writer": _ONE_BACK},
        {"stand-in": Head(unless("flag", _AFTER), {"token": "out"})},
    ),
}


class Box(NamedTuple):
    """A model, the doors that its program uses, and which head has which part."""

    model: HookedTransformer
    truth: set[Door]
    heads: dict[str, Place]


@checked
def box(name: str, seed: NotNegative) -> Box:
    """One of the programs, turned, shuffled and blurred by a seed."""
    model, places = compiled(PROGRAMS[name], D_VOCAB, 2 * PERIOD + 1, seed, sizes=SIZES)
    truth = {(places[writer], door, places[reader]) for writer, door, reader in PROGRAMS[name].doors()}
    return Box(model, truth, places)


@checked
def repeated(period: Count = PERIOD, batch: Count = 20, seed: NotNegative = 0) -> Int[Tensor, "batch pos"]:
    """Texts of 13 tokens: a start token, and a block of `period` different tokens again and again."""
    blocks = text.different_tokens(period, batch, D_VOCAB - 1, torch.Generator().manual_seed(seed))
    again = blocks.repeat(1, 2 * PERIOD // period + 1)[:, : 2 * PERIOD]
    return torch.cat([torch.zeros_like(again[:, :1]), again], 1)


@checked
def doors(model: HookedTransformer) -> list[Door]:
    """All doors from a head to a head of a later layer."""
    heads = [(layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads)]
    return [(one, door, other) for one in heads for other in heads if one[0] < other[0] for door in "qkv"]


@checked
def loss(model: HookedTransformer, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, ""]:
    """The mean loss in the second half of texts, in nats."""
    return model(tokens, return_type="loss", loss_per_token=True)[:, tokens.shape[1] // 2 + 1 :].mean()


class Recorded(NamedTuple):
    """A run's loss; what the doors read, ("k", layer) → [batch, pos, head, d_head]; z, head → [batch, pos, d_head]."""

    loss: Tensor
    reads: dict[tuple[str, int], Tensor]
    z: dict[Place, Tensor]


@checked
def recorded(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    at: Float[Tensor, "batch pos d_model"] | None = None,
) -> Recorded:
    """Run a model with gradients; `at` are embeddings to run on in the place of the tokens' own."""
    kept: dict[str, Tensor] = {}
    layers = range(model.cfg.n_layers)

    def keep(x: Tensor, hook: HookPoint) -> None:
        kept[str(hook.name)] = x

    hooks: list[tuple[str | Callable, Callable]] = [
        (f"blocks.{n}.attn.hook_{part}", keep) for n in layers for part in "qkvz"
    ]
    hooks += [("hook_embed", lambda x, hook: (x if at is None else at).detach().requires_grad_())]
    with torch.enable_grad(), model.hooks(fwd_hooks=hooks):
        result = loss(model, tokens)
    reads = {(door, n): kept[f"blocks.{n}.attn.hook_{door}"] for n in layers for door in "qkv"}
    z = [kept[f"blocks.{n}.attn.hook_z"].detach().unbind(2) for n in layers]
    return Recorded(result, reads, {(n, head): one for n in layers for head, one in enumerate(z[n])})


@checked
def through(model: HookedTransformer, door: Door) -> Float[Tensor, "d_head d_head"]:
    """The matrix from what the writer moves, z, to what the reader's door reads."""
    writer, path, reader = door
    return (model.W_O[writer] @ getattr(model, f"W_{path.upper()}")[reader]).detach()


class Tried(NamedTuple):
    """What a method's rankings are worth on boxes of each program and seed, and the runs of the model on the first."""

    score: Float[Tensor, "program seed"]
    found: Float[Tensor, "program seed step"]  # the share of true doors in the first 1/48, 2/48, … of the ranking
    runs: int


@checked
def score_method(
    method: Method,
    score: Callable[[Scores, set[Door]], float],
    seeds: Collection[int],
    other: Int[Tensor, "batch pos"],
) -> Tried:
    """What `score` says of a method's scores and the truth, on a box of each program and seed; equal ones are shuffled.

    A method gets a model, the texts of `repeated()`, and `other` ones, and returns a number for each door.
    """
    clean, marks, found, runs = repeated(), list[float](), list[Tensor](), list[int]()
    for name, seed in itertools.product(PROGRAMS, seeds):
        model, truth, _ = box(name, seed)
        counter = model.register_forward_pre_hook(lambda *_: runs.append(len(marks)))  # the number of the box
        scores = list(method(model, clean, other).items())
        counter.remove()
        order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed)).tolist()
        table = dict(scores[n] for n in order)
        ranked = sorted(table, key=lambda door: abs(table[door]), reverse=True)
        met = torch.tensor([float(door in truth) for door in ranked]).cumsum(0) / len(truth)
        found.append(met[[math.ceil(step * len(ranked) / STEPS) - 1 for step in range(1, STEPS + 1)]])
        marks.append(score(table, truth))
    size = len(PROGRAMS), len(seeds)
    return Tried(torch.tensor(marks).view(size), torch.stack(found).view(*size, STEPS), runs.count(0))
