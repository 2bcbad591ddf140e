"""Boxes whose edges are known: seven programs as blurred weights, and methods' scores.

All say how a text goes on that repeats itself: a start token, and a block of six different tokens
twice.
"""

import itertools
import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_lessons.programs import Head, Program, back, both, compiled, unless, where
from course_utils import composition, interventions, text
from course_utils._arguments import Count, NotNegative, require_tokens, validated
from course_utils._torch_state import usual
from course_utils.interventions import Door
from course_utils.interventions import Head as Place
from course_utils.models import all_heads

PERIOD, D_VOCAB = 6, 13
SIZES = {"n_heads": 4, "d_head": 32, "d_model": 80}
Scores = dict[Door, float]
Texts = Int[Tensor, "batch pos"]
Method = Callable[[HookedTransformer, Tensor, Tensor], Scores]

_AFTER = where("before", equals="token")
_ONE_BACK, _SAY = Head(back(1), {"token": "before"}), Head(_AFTER, {"token": "out"})
_SAME_TWO = both(_AFTER, where("second", equals="before"))
PROGRAMS = {
    "keys": Program({"writer": _ONE_BACK}, {"reader": _SAY}),
    "values": Program(
        {"writer": Head(back(2), {"token": "label"})}, {"reader": Head(back(3), {"label": "out"})}
    ),
    "two tokens": Program(
        {"writer": _ONE_BACK, "two back": Head(back(2), {"token": "second"})},
        {"reader": Head(_SAME_TWO, {"token": "out"})},
    ),
    "brake": Program(
        {"writer": _ONE_BACK}, {"reader": _SAY, "brake": Head(_AFTER, {"token": "out"}, loud=-0.5)}
    ),
    "queries": Program(  # the place of the earlier copy, and the reader looks one further
        {"writer": Head(where("token", equals="token", itself=False), {"place": "pointer"})},
        {"reader": Head(where("place", equals="pointer", step=1), {"token": "out"})},
    ),
    "three layers": Program(
        {"writer": _ONE_BACK},
        {"finder": Head(_AFTER, {"place": "pointer"})},
        {"reader": Head(where("place", equals="pointer"), {"token": "out"})},
    ),
    # one head does it all and raises a flag; the stand-in is silent while it is up
    "reserve": Program(
        {"main": Head(back(PERIOD - 1), {"token": "out", "any": "flag"}), "writer": _ONE_BACK},
        {"stand-in": Head(unless("flag", _AFTER), {"token": "out"})},
    ),
}


class Box(NamedTuple):
    """A model, the doors that its program uses, and which head has which part."""

    model: HookedTransformer
    truth: set[Door]
    heads: dict[str, Place]


@validated
def box(program: str | Program, seed: NotNegative) -> Box:
    """One of the programs, by its name, or another, turned, shuffled and blurred by a seed."""
    program = PROGRAMS[program] if isinstance(program, str) else program
    model, places = compiled(program, D_VOCAB, 2 * PERIOD + 1, seed, sizes=SIZES)
    truth = {(places[writer], door, places[reader]) for writer, door, reader in program.doors()}
    return Box(model, truth, places)


@validated
def repeated(period: Count = PERIOD, batch: Count = 20, seed: NotNegative = 0) -> Texts:
    """Texts of 13 tokens: a start token, and `period` different tokens again and again."""
    blocks = text.different_tokens(period, batch, D_VOCAB - 1, torch.Generator().manual_seed(seed))
    again = blocks.repeat(1, 2 * PERIOD // period + 1)[:, : 2 * PERIOD]
    return torch.cat([torch.zeros_like(again[:, :1]), again], 1)


@validated
def doors(model: HookedTransformer) -> list[Door]:
    """All doors from a head to a head of a later layer."""
    heads = all_heads(model)
    return [
        (one, door, other)
        for one in heads
        for other in heads
        if one[0] < other[0]
        for door in "qkv"
    ]


@validated
def loss(model: HookedTransformer, tokens: Texts) -> Float[Tensor, ""]:
    """The mean loss in the second half of texts, in nats."""
    require_tokens(model, tokens)
    each = model(tokens, return_type="loss", loss_per_token=True)  # [batch, pos - 1]
    return each[:, tokens.shape[1] // 2 + 1 :].mean()


class Recorded(NamedTuple):
    """A run's loss, what the doors read, and heads' z.

    ("k", layer) → [batch, pos, head, d_head]; head → [batch, pos, d_head].
    """

    loss: Tensor
    reads: dict[tuple[str, int], Tensor]
    z: dict[Place, Tensor]


@usual()
@validated
def recorded(
    model: HookedTransformer, tokens: Texts, at: Float[Tensor, "batch pos d_model"] | None = None
) -> Recorded:
    """Run a model with gradients; `at` are embeddings to run on in the place of the tokens' own."""
    require_tokens(model, tokens)
    kept: dict[str, Tensor] = {}
    layers = range(model.cfg.n_layers)

    def keep(x: Tensor, hook: HookPoint) -> None:
        kept[str(hook.name)] = x

    hooks: list[tuple[str | Callable, Callable]] = [
        (f"blocks.{n}.attn.hook_{part}", keep) for n in layers for part in "qkvz"
    ]
    hooks += [("hook_embed", lambda x, hook: (x if at is None else at).detach().requires_grad_())]
    with model.hooks(fwd_hooks=hooks):
        result = loss(model, tokens)
    reads = {(door, n): kept[f"blocks.{n}.attn.hook_{door}"] for n in layers for door in "qkv"}
    z = [kept[f"blocks.{n}.attn.hook_z"].detach().unbind(2) for n in layers]
    return Recorded(
        result, reads, {(n, head): one for n in layers for head, one in enumerate(z[n])}
    )


@validated
def through(model: HookedTransformer, door: Door) -> Float[Tensor, "d_head d_head"]:
    """The matrix from what the writer moves, z, to what the reader's door reads."""
    writer, path, reader = door
    return (model.W_O[writer] @ getattr(model, f"W_{path.upper()}")[reader]).detach()


@torch.no_grad()
def _patched(
    model: HookedTransformer, clean: Tensor, cuts: Collection[Any], instead: Any = None
) -> Tensor:
    """The loss without some parts, or with something else in their place."""
    with interventions.cut(model, *cuts, instead=instead):
        return loss(model, clean)


@validated
def along(model: HookedTransformer, door: Door, clean: Texts, other: Texts) -> list[float]:
    """The loss while what a door carries goes from one text's content to the other's.

    It goes in twenty steps.
    """
    here, there = (recorded(model, texts).z[door[0]] for texts in (clean, other))
    between = ({door[0]: torch.lerp(here, there, share / 20)} for share in range(21))
    return [_patched(model, clean, [door], one).item() for one in between]


@validated
def acdc(model: HookedTransformer, clean: Texts, other: Texts, threshold: float = 0.05) -> Scores:
    """What patching each door costs, from the last on (Conmy et al.).

    The cost is 0 if it is less than `threshold`: then the door stays patched.
    """
    elsewhere, now = recorded(model, other).z, loss(model, clean)
    pruned, scores = list[Door](), Scores()
    for door in reversed(doors(model)):
        after = _patched(model, clean, [*pruned, door], elsewhere)
        scores[door] = (after - now).item()
        if scores[door] < threshold:
            pruned, now, scores[door] = [*pruned, door], after, 0.0
    return scores


@validated
def composition_scores(model: HookedTransformer, clean: Texts, other: Texts) -> Scores:
    """How much of what a head writes the next one's door reads.

    The weights alone say so: the texts are not looked at.
    """
    tables = {door: composition.scores(model, door.upper()) for door in "qkv"}
    return {
        (writer, path, reader): tables[path][writer + reader].item()
        for writer, path, reader in doors(model)
    }


@validated
def chance(model: HookedTransformer, clean: Texts, other: Texts) -> Scores:
    """A random number for each door."""
    return {door: torch.rand(()).item() for door in doors(model)}


@validated
def left(
    model: HookedTransformer, tokens: Tensor, other: Tensor, scores: Scores, count: Count
) -> float:
    """The loss when only the doors with the `count` largest scores are kept.

    All others carry the other text's.
    """
    require_tokens(model, tokens)
    ranked = sorted(scores, key=lambda door: abs(scores[door]))
    return _patched(model, tokens, ranked[:-count], recorded(model, other).z).item()


@validated
def asked(
    method: Method, program: str | Program, door: tuple[str, str, str], other: Tensor
) -> list[float]:
    """What a method says of a door of a box, and what patching it costs, in nats.

    A door is ("writer", "k", "reader").
    """
    model, _, heads = box(program, 0)
    clean, at = repeated(), (heads[door[0]], door[1], heads[door[2]])
    patched = _patched(model, clean, [at], recorded(model, other).z)
    return [method(model, clean, other)[at], (patched - loss(model, clean)).item()]


@validated
def lost(program: str | Program, *parts: str | tuple[str, str]) -> float:
    """The nats a box loses with zero for some heads, or for what the logits read there.

    "main" names a head, ("main", "logits") what they read.
    """
    (model, _, heads), clean = box(program, 0), repeated()
    cuts = [heads[one] if isinstance(one, str) else (heads[one[0]], one[1]) for one in parts]
    return (_patched(model, clean, cuts) - loss(model, clean)).item()


@validated
def average_precision(scores: Scores, truth: Collection[Door]) -> float:
    """The mean precision at the ranks of the true doors, by the size of their scores.

    It is 0 if there are none.
    """
    ranked = sorted(scores, key=lambda door: abs(scores[door]), reverse=True)
    ranks = [rank for rank, door in enumerate(ranked, 1) if door in truth]
    return sum(met / rank for met, rank in enumerate(ranks, 1)) / max(len(truth), 1)


class Tried(NamedTuple):
    """What a method's rankings are worth on boxes of each program and seed.

    Beside it stand the runs of the model on the first.
    """

    score: Float[Tensor, "program seed"]  # average precision
    # the share of true doors in the first sixteenth of the ranking
    first: Float[Tensor, "program seed"]
    runs: int


@validated
def score_method(method: Method, seeds: Collection[int], other: Texts) -> Tried:
    """How a method ranks the doors of a box of each program and seed; equal scores are shuffled.

    A method gets a model, the texts of `repeated()`, and `other` ones, and returns a number for
    each door.
    """
    clean, marks, first, runs = repeated(), list[float](), list[float](), list[int]()
    for name, seed in itertools.product(PROGRAMS, seeds):
        model, truth, _ = box(name, seed)
        # the number of the box
        counter = model.register_forward_pre_hook(lambda *_: runs.append(len(marks)))
        scores = list(method(model, clean, other).items())
        counter.remove()
        order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed)).tolist()
        table = dict(scores[n] for n in order)
        ranked = sorted(table, key=lambda door: abs(table[door]), reverse=True)
        first.append(len(truth & {*ranked[: math.ceil(len(ranked) / 16)]}) / len(truth))
        marks.append(average_precision(table, truth))
    size = len(PROGRAMS), len(seeds)
    return Tried(torch.tensor(marks).view(size), torch.tensor(first).view(size), runs.count(0))
