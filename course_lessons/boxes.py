"""Boxes whose edges are known: eight programs as weights with noise, for lessons 10 and 10b.

All say how a text goes on that repeats itself: a start token, and a block of six different tokens
twice.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_lessons.programs import Head, Program, back, compiled, unless, where
from course_utils import interventions, text
from course_utils._arguments import Count, NotNegative, require_tokens, validated
from course_utils._torch_state import usual
from course_utils.interventions import Door
from course_utils.interventions import Head as Place
from course_utils.models import all_heads

PERIOD, D_VOCAB = 6, 13
SIZES = {"n_heads": 4, "d_head": 32, "d_model": 80}
Scores = dict[Door, float]
Texts = Int[Tensor, "batch pos"]
Metric = Callable[[HookedTransformer, Tensor], Tensor]

_AFTER = where("before", equals="token")
_ONE_BACK, _ANSWER = Head(back(1), {"token": "before"}), Head(_AFTER, {"token": "out"})
_UNREAD = Head(_AFTER, {"token": "unread"})
_TWO_BACK, _ONWARD = Head(back(2), {"token": "label"}), Head(back(3), {"label": "out"})
PROGRAMS = {
    # the label of lesson 07, in the keys
    "keys": Program({"writer": _ONE_BACK}, {"reader": _ANSWER}),
    # the position of the earlier copy, and the reader looks one further
    "queries": Program(
        {"writer": Head(where("token", equals="token", itself=False), {"place": "pointer"})},
        {"reader": Head(where("place", equals="pointer", step=1), {"token": "out"})},
    ),
    # two back and three back are five back, and a negative head takes half of the answer away
    "brake": Program(
        {"writer": _TWO_BACK},
        {"reader": _ONWARD, "brake": Head(back(3), {"label": "out"}, loud=-0.5)},
    ),
    # as keys, but what is found is a position, for a third layer
    "three layers": Program(
        {"writer": _ONE_BACK},
        {"finder": Head(_AFTER, {"place": "pointer"})},
        {"reader": Head(where("place", equals="pointer"), {"token": "out"})},
    ),
    # as keys, but three heads give the answer, each as loud as one
    "committee": Program(
        {"writer": _ONE_BACK}, {"first": _ANSWER, "second": _ANSWER, "third": _ANSWER}
    ),
    # as keys, and two more heads find the answer and store it where nobody reads
    "dead ends": Program(
        {"writer": _ONE_BACK}, {"reader": _ANSWER, "one": _UNREAD, "another": _UNREAD}
    ),
    # a loud wrong guess, and a head that looks for what was said and takes it back
    "suppressor": Program(
        {"writer": _TWO_BACK, "guess": Head(back(3), {"token": "out"}, loud=2.0)},
        {
            "reader": _ONWARD,
            "suppressor": Head(where("token", equals="out"), {"token": "out"}, loud=-2.0),
        },
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
    """A run's loss or other metric, what the doors receive, and heads' z.

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
    metric: Metric = loss,
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
        result = metric(model, tokens)
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
@validated
def patched(
    model: HookedTransformer,
    clean: Texts,
    cuts: Collection[Any],
    instead: Any = None,
    metric: Metric = loss,
) -> float:
    """The loss or another metric without some parts, or with something else in their place."""
    with interventions.cut(model, *cuts, instead=instead):
        return metric(model, clean).item()


@validated
def along(model: HookedTransformer, door: Door, clean: Texts, other: Texts) -> list[float]:
    """The loss while what a door carries goes from one text's content to the other's.

    It goes in twenty steps.
    """
    here, there = (recorded(model, texts).z[door[0]] for texts in (clean, other))
    between = ({door[0]: torch.lerp(here, there, share / 20)} for share in range(21))
    return [patched(model, clean, [door], one) for one in between]


@validated
def lost(program: str | Program, *parts: str | tuple[str, str]) -> float:
    """The nats a box loses with zero for some heads, or for what the logits read there.

    "main" names a head, ("main", "logits") what they read.
    """
    (model, _, heads), clean = box(program, 0), repeated()
    cuts = [heads[one] if isinstance(one, str) else (heads[one[0]], one[1]) for one in parts]
    return patched(model, clean, cuts) - loss(model, clean).item()
