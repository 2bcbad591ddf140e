"""Boxes whose edges are known: four programs as weights with noise, and methods' scores.

All say how a text goes on that repeats itself: a start token, and a block of six different tokens
twice.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_lessons.programs import Head, Program, back, compiled, run, unless, where
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
Method = Callable[..., Scores]  # (model, clean, other)

_AFTER = where("before", equals="token")
_ONE_BACK, _ANSWER = Head(back(1), {"token": "before"}), Head(_AFTER, {"token": "out"})
_EARLIER_COPY = Head(where("token", equals="token", itself=False), {"place": "pointer"})
PROGRAMS = {
    # the label of lesson 07, in the keys
    "keys": Program({"writer": _ONE_BACK}, {"reader": _ANSWER}),
    # the position of the earlier copy, and the reader looks one further
    "queries": Program(
        {"writer": _EARLIER_COPY},
        {"reader": Head(where("place", equals="pointer", step=1), {"token": "out"})},
    ),
    # as keys, but what is found is a position, for a third layer
    "three layers": Program(
        {"writer": _ONE_BACK},
        {"finder": Head(_AFTER, {"place": "pointer"})},
        {"reader": Head(where("place", equals="pointer"), {"token": "out"})},
    ),
    # one head answers and raises a flag; the backup head is silent while the flag is up
    "backup": Program(
        {"main": Head(back(PERIOD - 1), {"token": "out", "any": "flag"}), "writer": _ONE_BACK},
        {"backup": Head(unless("flag", _AFTER), {"token": "out"})},
    ),
}
# as keys, and a decoy stores the token two back where no later head and no logit reads
DECOYED = Program(
    {"writer": _ONE_BACK, "decoy": Head(back(2), {"token": "unread"})}, {"reader": _ANSWER}
)
# the seeds of the boxes in the trial: two boxes of a program, and eight where boxes differ
SEEDS = {name: range(100, 108 if name == "three layers" else 102) for name in PROGRAMS}


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
    """A run's loss, what the doors receive, and heads' z.

    ("k", layer) → [batch, pos, head, d_head]; head → [batch, pos, d_head].
    """

    loss: Tensor
    reads: dict[tuple[str, int], Tensor]
    z: dict[Place, Tensor]


@usual()
@validated
def recorded(
    model: HookedTransformer,
    tokens: Texts,
    at: Float[Tensor, "batch pos d_model"] | None = None,
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
    model: HookedTransformer,
    clean: Tensor,
    cuts: Collection[Any],
    instead: Any = None,
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
def acdc(
    model: HookedTransformer,
    clean: Texts,
    other: Texts,
    threshold: float = 0.05,
) -> Scores:
    """What patching each door costs, from the last on (Conmy et al.).

    The cost is 0 if it is less than `threshold`: then the door stays patched.
    """
    elsewhere, now = recorded(model, other).z, _patched(model, clean, [])
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
def eap_ig(attribution: Method, steps: Count = 5) -> Method:
    """Attribution patching at several mixtures of both texts' embeddings, averaged (Hanna et al.).

    `attribution` is a method that takes the embeddings to run on as `at`.
    """

    def method(model: HookedTransformer, clean: Tensor, other: Tensor) -> Scores:
        ends = model.W_E[other], model.W_E[clean]  # [batch, pos, d_model] each
        mixtures = [torch.lerp(*ends, step / steps) for step in range(1, steps + 1)]
        tables = [attribution(model, clean, other, at=at) for at in mixtures]
        return {door: sum(table[door] for table in tables) / steps for door in tables[0]}

    return method


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


@validated
def reachable(program: str, other: Texts) -> set[tuple[str, str, str]]:
    """The doors of a program that a single patch can show at all.

    The program itself is run, without weights: a door counts if what the program says changes when
    this door alone carries what it carries on the other text.
    """
    clean, written = repeated(), PROGRAMS[program]
    whole, elsewhere = (run(written, texts, D_VOCAB) for texts in (clean, other))
    second = slice(PERIOD + 1, 2 * PERIOD)  # where the next token can be known
    changed = set()
    for door in written.doors():
        patched = run(written, clean, D_VOCAB, instead={door: elsewhere.wrote[door[0]]})
        said = patched.slots["out"][:, second]
        if (said - whole.slots["out"][:, second]).abs().max() > 0.01:
            changed.add(door)
    return changed


class Tried(NamedTuple):
    """How well a method ranks the doors of boxes, of each program and seed.

    The scores are average precisions; where no door can be reached, there is none (NaN).
    """

    every: Float[Tensor, "program seed"]  # of all true doors; NaN where there is no such box
    reached: Float[Tensor, "program seed"]  # of those that a single patch can show
    runs: int  # of the model, on the first box


@validated
def score_method(
    method: Method,
    other: Texts,
    programs: Collection[str] = tuple(PROGRAMS),
    seeds: Collection[int] | None = None,
) -> Tried:
    """How a method ranks the doors of a box of each program and seed; equal scores are shuffled.

    Without `seeds`, the boxes are those of `SEEDS`.

    A method gets a model, the texts of `repeated()` and other ones, and returns a number for each
    door.
    """
    clean, every, reached, runs = repeated(), list[float](), list[float](), list[int]()
    chosen = {name: [*(SEEDS[name] if seeds is None else seeds)] for name in programs}
    for name, seed in [(one, seed) for one, all_seeds in chosen.items() for seed in all_seeds]:
        model, truth, heads = box(name, seed)
        # the number of the box
        counter = model.register_forward_pre_hook(lambda *_: runs.append(len(every)))
        scores = list(method(model, clean, other).items())
        counter.remove()
        order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed)).tolist()
        table = dict(scores[n] for n in order)
        every.append(average_precision(table, truth))

        shown = {(heads[w], door, heads[r]) for w, door, r in reachable(name, other)}
        fair = {door: score for door, score in table.items() if door not in truth - shown}
        reached.append(average_precision(fair, shown) if shown else math.nan)
    lengths = [len(one) for one in chosen.values()]
    by_program, fairly = (
        pad_sequence([*torch.tensor(x).split(lengths)], batch_first=True, padding_value=math.nan)
        for x in (every, reached)
    )
    return Tried(by_program, fairly, runs.count(0))


@validated
def trial(methods: Mapping[str, Method], others: Mapping[str, Texts]) -> dict[str, list[Tried]]:
    """How each method ranks the doors of all boxes, by method: for each other text."""
    return {
        name: [score_method(method, other) for other in others.values()]
        for name, method in methods.items()
    }


@validated
def over_programs(tries: Mapping[str, Collection[Tried]]) -> dict[str, float]:
    """By method, the mean score over reachable doors.

    Texts and seeds are averaged first; a program without a door that can be reached does not count.
    """
    scores = {
        method: torch.cat([tried.reached for tried in by_text], 1).nanmean(1)  # [program]
        for method, by_text in tries.items()
    }
    return {method: by_program.nanmean().item() for method, by_program in scores.items()}
