"""Programs in the vocabulary of heads: written in a few lines, run as they stand, compiled into
weights.

A position has **slots**: `"token"` holds its token and `"place"` its position, all others are empty
at the start. A **head** says where it looks and what it moves from there, slot to slot. Heads of a
layer read before any of them writes. What stands in `"out"` at the end is what the model says comes
next. Induction in four lines:

    induction = Program(
        {"previous": Head(back(1), {"token": "before"})},  # layer 0: fetch the token one back, into a slot of your own
        {"reader": Head(where("before", equals="token"), {"token": "out"})},  # layer 1: find it there, and say it
    )
    tokens = torch.tensor([[0, 4, 7, 4]])  # [batch, pos]: texts open with the token 0, and have it nowhere else
    run(induction, tokens, d_vocab=10).said  # what comes next at each position, 0 for nothing: no weights are involved
    model, heads = compiled(induction, d_vocab=10, n_ctx=12)  # weights, and which head is which; seed=0 blurs them
    induction.doors()  # which head needs which, and through its queries, keys or values

*Where to look.* `back(3)`; `where("before", equals="token")`: where the slot `before` there holds
what `token` holds here; `where("place", equals="pointer", step=1)`: one behind the place that
`pointer` holds here; `both(one, other)`: where two looks fit; `where("token", equals="token",
itself=False)`: at the same token, earlier; `everywhere()`; `listed(points)`: by a table of the
token here and the token there; `unless("flag", look)`: nowhere while a flag is up; `but_not(look,
"token", equals="said")`: not at what `said` holds here. If several places fit, a head moves their
mean: shares, never counts. If none does, it rests on the start token and moves nothing. *What to
move.* `{"token": "out"}`, or several: `{"token": "out", "any": "flag"}`. `"any"`, 1 at every token
but the start, makes a slot a flag. `Head(…, loud=-0.5)` takes away half; moves add up. After RASP
(Weiss et al. 2021) and Tracr (Lindner et al. 2023).
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot
from transformer_lens import HookedTransformer

from course_utils import interventions, models
from course_utils._arguments import Count, NotNegative, validated

START = 0  # the token at the beginning of every text
# of what the slots hold that all have
KINDS = {"token": "tokens", "place": "places", "any": "flags", "out": "tokens"}
GIVEN, MOST_LAYERS = ("token", "place", "any"), 3
REST = 0.5  # points of the start token, where one is a perfect fit
EXACT, BLURRED = 1000.0, 12.0  # the score of a point
UNEMBED = 10.0  # the logit of a token that is written once
# how loud heads without a part are, when blurred; by how much all weights are
JUNK, NOISE = (0.05, 0.03)

Slots = Float[Tensor, "batch pos size"]
# what the first head writes, as the last one reads it: in its "q", "k" or "v"
Door = tuple[str, str, str]


class Term(NamedTuple):
    """Points for a place there, by what `here` and `there` hold; their kinds, if it is not enough
    that they agree.
    """

    here: str
    there: str
    points: Callable[[int, int], Tensor]  # sizes of both → [size here, size there]
    kinds: tuple[str, str] | None = None


class Look(NamedTuple):
    """Where a head looks: at the places with most points, and at the start token unless they have
    `rest`.
    """

    terms: tuple[Term, ...]
    rest: float = REST


class Head(NamedTuple):
    """Where to look, what to move from there, {slot: slot}, and how loud."""

    look: Look
    moves: Mapping[str, str]
    loud: float = 1.0


@validated
def where(there: str, *, equals: str = "token", step: int = 0, itself: bool = True) -> Look:
    """Where the slot `there` holds what `equals` holds here, or a place `step` further; without
    `itself`, not here.
    """
    kinds = ("places", "places") if step else None
    same = Term(equals, there, lambda n, m: torch.ones(n, m).tril(step).triu(step), kinds)
    return Look(
        (same,) if itself else (same, Term("place", "place", lambda n, m: -2 * torch.eye(n)))
    )


@validated
def back(n: int) -> Look:
    """`n` places back; 0 is the head's own position."""
    _refuse(n < 0, f"Nobody can look {-n} ahead: what comes later is hidden from a head.")
    return where("place", equals="place", step=-n)


@validated
def both(one: Look, other: Look) -> Look:
    """Where both fit."""
    return Look(one.terms + other.terms, one.rest + other.rest + REST)


def everywhere() -> Look:
    """At all places up to this one alike, the start token among them."""
    return Look((), 0.0)


@validated
def listed(points: Float[Tensor, "here there"]) -> Look:
    """Where the token has points in a table of the token here and the token there; from half a
    point on it counts.
    """
    return Look((Term("token", "token", lambda n, m: points, ("tokens", "tokens")),))


@validated
def unless(flag: str, look: Look) -> Look:
    """`look`, but nowhere while the flag is up here."""
    at_start = Term(
        flag, "token", lambda n, m: 2 * torch.eye(m)[START].expand(n, m), ("flags", "tokens")
    )
    return look._replace(terms=(*look.terms, at_start))


@validated
def but_not(look: Look, there: str, *, equals: str) -> Look:
    """`look`, but not where the slot `there` holds what `equals` holds here."""
    return look._replace(terms=(*look.terms, Term(equals, there, lambda n, m: -2 * torch.eye(n))))


def _refuse(is_so: bool, sentence: str) -> None:
    if is_so:
        raise ValueError(sentence)


class Program:
    """Layers of heads by name, checked as written: ValueError, in a sentence, for what so many
    layers can't do.
    """

    def __init__(self, *layers: Mapping[str, Head]) -> None:
        _refuse(
            not all(isinstance(layer, Mapping) for layer in layers),
            "A layer has names, as {name: Head(…)}.",
        )
        self.layers = [dict(layer) for layer in layers]
        self.heads: dict[str, Head] = {
            name: head for layer in self.layers for name, head in layer.items()
        }
        self.layer = {name: n for n, layer in enumerate(self.layers) for name in layer}
        # means: slots that hold a mean of everything
        self.kinds, self.means = (dict(KINDS), set[str]())
        _refuse(
            not 1 <= len(layers) <= MOST_LAYERS,
            f"A program has one to {MOST_LAYERS} layers, not {len(layers)}.",
        )
        _refuse(
            len(self.heads) < sum(map(len, layers)), "Two heads have one name: give each its own."
        )
        for layer in self.layers:
            written: dict[str, str] = {}
            for name, head in layer.items():
                whole = (
                    isinstance(head, Head)
                    and isinstance(head.look, Look)
                    and isinstance(head.moves, Mapping)
                )
                _refuse(
                    not whole,
                    f'"{name}" should be Head(look, {{slot: slot}}): where it looks, and what '
                    f"it moves.",
                )
                self._check_look(name, head.look)
                for source, to in head.moves.items():
                    kind = self._kind(name, source)
                    other = (self.kinds | written).setdefault(to, kind)
                    _refuse(
                        to in GIVEN,
                        f'Head "{name}" writes to "{to}", which is given: write to a slot of '
                        f"yours.",
                    )
                    _refuse(
                        other != kind, f'Head "{name}" moves {kind} to "{to}", which holds {other}.'
                    )
                    written[to] = kind
            self.kinds |= written
            self.means |= {
                to
                for head in layer.values()
                if head.look == everywhere()
                for to in head.moves.values()
            }
        _refuse(not self.reads(), 'No head moves anything to "out": the program says nothing.')

    def _kind(self, name: str, slot: str) -> str:
        """What a slot holds, for a head of the layer that is checked."""
        if slot not in self.kinds:
            why = "and no head writes that slot"
            for writer in (
                other for other, head in self.heads.items() if slot in head.moves.values()
            ):
                late = "writes too late: heads of a layer read before any of them writes"
                why = f'which "{writer}" {late}. Put "{name}" one layer after it'
            raise ValueError(f'Head "{name}" reads "{slot}", {why}.')
        return self.kinds[slot]

    def _check_look(self, name: str, look: Look) -> None:
        for here, there, _, kinds in look.terms:
            one, other = self._kind(name, here), self._kind(name, there)
            fit = one == other if kinds is None else (one, other) == kinds
            compared = f'"{here}", which holds {one}, with "{there}", which holds {other}'
            why = (
                "only places have steps"
                if kinds == ("places", "places") and one == other
                else "they are never equal"
            )
            _refuse(not fit, f'Head "{name}" compares {compared}: {why}.')
            mean = (
                "the mean of all that was read. A softmax hands over means, and a mean "
                "equals no single one."
            )
            for slot in self.means & {here, there}:
                raise ValueError(f'Head "{name}" looks by "{slot}", which holds {mean}')

    def sizes(self, d_vocab: int, n_ctx: int) -> dict[str, int]:
        """How many dimensions each slot takes, in the order in which they lie in the stream;
        `"any"` takes none.
        """
        size = {"tokens": d_vocab, "places": n_ctx, "flags": 1}
        own = [
            slot
            for kind in size
            for slot in self.kinds
            if slot not in KINDS and self.kinds[slot] == kind
        ]
        return {slot: size[self.kinds[slot]] for slot in ("token", "place", "out", *own)}

    def reads(self) -> dict[str, dict[str, set[str]]]:
        """The heads on which what is said depends, and the slots that each of them reads there, by
        door.
        """
        wanted, found = {"out"}, dict[str, dict[str, set[str]]]()
        for layer in reversed(self.layers):
            for name, head in layer.items():
                moved = {source for source, to in head.moves.items() if to in wanted and head.loud}
                by_door = {
                    "q": {term.here for term in head.look.terms},
                    "k": {term.there for term in head.look.terms},
                }
                found |= {name: by_door | {"v": moved}} if moved else {}
            wanted |= {
                slot for by_door in found.values() for slots in by_door.values() for slot in slots
            }
        return found

    def doors(self) -> set[Door]:
        """The truth per door: (writer, "q", "k" or "v", reader), wherever what is said depends on
        it.
        """
        return {
            (writer, door, reader)
            for reader, by_door in self.reads().items()
            for door, slots in by_door.items()
            for writer, head in self.heads.items()
            if slots & {*head.moves.values()}
            and head.loud
            and self.layer[writer] < self.layer[reader]
        }


class ProgramRun(NamedTuple):
    """What a program did on some texts: its slots in the end, and by head its attention and what it
    wrote.
    """

    slots: dict[str, Slots]
    looks: dict[str, Float[Tensor, "batch dest src"]]
    wrote: dict[str, dict[str, Slots]]

    @property
    def said(self) -> Int[Tensor, "batch pos"]:
        """The token that the program says comes next; the start token where it says nothing."""
        return self.slots["out"].argmax(-1)


@validated
def run(
    program: Program,
    tokens: Int[Tensor, "batch pos"],
    d_vocab: Count,
    without: Collection[Any] = (),
    instead: Mapping[str, Mapping[str, Tensor]] | None = None,
) -> ProgramRun:
    """ProgramRun a program as it stands, without weights. Texts begin with the token 0, which comes
    nowhere else.

    `without` names heads, or doors, ("previous", "k", "reader"), that are cut. `instead` has what
    heads write in this run, by head and slot: another run's `wrote`, say. Raises ValueError for
    other texts.
    """
    only = bool((tokens[:, 0] == START).all() and (tokens[:, 1:] != START).all())
    _refuse(
        not only, f"Each text should begin with the start token, {START}, and have it nowhere else."
    )
    n, sizes = tokens.shape[1], program.sizes(d_vocab, tokens.shape[1])
    given = {
        "token": one_hot(tokens, d_vocab).float(),
        "place": torch.eye(n).expand(len(tokens), n, n),
    }
    given["any"] = (tokens != START)[..., None].float()
    done = ProgramRun({}, {}, {})

    def read(slot: str, door: str = "", reader: str = "") -> Slots:
        empty = given[slot] if slot in given else torch.zeros(*tokens.shape, sizes[slot])
        heard = (
            w for name, w in wrote.items() if slot in w and (name, door, reader) not in without
        )
        return empty + sum(one[slot] for one in heard)

    wrote: dict[str, dict[str, Slots]] = {}  # of the layers before
    for layer in program.layers:
        for name, head in layer.items():
            points = torch.zeros(len(tokens), n, n)
            for term in head.look.terms:
                here, there = read(term.here, "q", name), read(term.there, "k", name)
                points += here @ term.points(here.shape[-1], there.shape[-1]) @ there.mT
            points[:, :, 0] += head.look.rest
            points = points.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
            best = points >= points.amax(-1, keepdim=True) - 1e-4
            done.looks[name] = best / best.sum(-1, keepdim=True)
            seen = (0.0 if name in without else head.loud) * done.looks[name]
            moved = {
                to: seen @ _but_start(read(source, "v", name)) for source, to in head.moves.items()
            }
            done.wrote[name] = {**(instead or {}).get(name, moved)}
        wrote |= {name: done.wrote[name] for name in layer}
    done.slots.update({slot: read(slot) for slot in program.kinds})
    return done


def _but_start(value: Slots) -> Slots:
    """What can be moved of a slot: all but token 0 and place 0."""
    return (
        value
        if value.shape[-1] == 1
        else torch.cat([torch.zeros_like(value[..., :1]), value[..., 1:]], -1)
    )


class Compiled(NamedTuple):
    """A program as weights, and which head, (layer, head), has which part."""

    model: HookedTransformer
    heads: dict[str, interventions.Head]


@validated
@torch.no_grad()
def compiled(
    program: Program,
    d_vocab: Count,
    n_ctx: Count,
    seed: NotNegative | None = None,
    noise: float = NOISE,
    sizes: Mapping[str, int] | None = None,
) -> Compiled:
    """A model without LayerNorm, biases and MLPs that does what the program says, on texts that
    begin with token 0.

    Without a seed it is exact: each slot has dimensions of its own, and the first `d_vocab` of them
    hold the token. A seed shuffles the heads, turns the stream, blurs all weights by `noise` and
    softens attention, and heads without a part mumble: so no weight is zero. `sizes` says how
    large, {"d_model": 64, "n_heads": 4, "d_head": 32}, if not as the program needs, and may say
    where a slot begins. Raises ValueError for a program without room.
    """
    rng = None if seed is None else torch.Generator().manual_seed(seed)
    score, lies = EXACT if rng is None else BLURRED, program.sizes(d_vocab, n_ctx)
    need, many, leak = (
        sum(lies.values()),
        max(map(len, program.layers)),
        n_ctx * math.exp(-score * REST),
    )
    size = {"d_model": need, "n_heads": many} | dict(sizes or {})
    d_model, n_heads, d_head = size["d_model"], size["n_heads"], size.get("d_head", size["d_model"])
    _refuse(
        need > d_model,
        f"The slots need {need} dimensions of the stream, {lies}, and d_model is {d_model}.",
    )
    _refuse(
        many > n_heads,
        f"A layer of the program has {many} heads, and a layer of the model {n_heads}.",
    )
    _refuse(
        leak > 0.5,
        "A softmax gives each place a little, and there are too many: take fewer, or no seed.",
    )
    kind = {
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "standard",
        "seed": 0,
    }
    kind |= {"n_layers": len(program.layers), "d_vocab": d_vocab, "n_ctx": n_ctx}
    model = models.initial(kind | {"d_model": d_model, "n_heads": n_heads, "d_head": d_head}).eval()
    done = Compiled(model.requires_grad_(False), {})
    turn = (
        torch.eye(d_model)
        if rng is None
        else torch.linalg.qr(torch.randn(d_model, d_model, generator=rng)).Q
    )
    starts = dict(zip(lies, torch.tensor([0, *lies.values()]).cumsum(0).tolist(), strict=False))
    part = {
        slot: slice(at := size.get(slot, start), at + lies[slot]) for slot, start in starts.items()
    }
    model.embed.W_E.copy_(turn[part["token"]])
    model.pos_embed.W_pos.copy_(turn[part["place"]])
    model.unembed.W_U.copy_(UNEMBED * turn[part["out"]].T)
    for n, layer in enumerate(program.layers):
        order = (
            list(range(n_heads)) if rng is None else torch.randperm(n_heads, generator=rng).tolist()
        )
        done.heads.update({name: (n, head) for name, head in zip(layer, order, strict=False)})
        made = [
            _circuits(head, part, score, d_model, rng)
            for head in (*layer.values(), *[None] * n_heads)
        ]
        attention = model.blocks[n].attn
        for name, head, (QK, OV) in zip([*layer, *order], order, made, strict=False):
            rank = (
                max(map(torch.linalg.matrix_rank, (QK, OV)))
                if name in program.heads and d_head < d_model
                else 0
            )
            _refuse(
                rank > d_head,
                f'Head "{name}" needs {rank} dimensions, and a head of the model has {d_head}.',
            )
            attention.W_Q[head], attention.W_K[head] = _factors(
                turn.T @ QK @ turn * d_head**0.5, d_head, rng
            )
            attention.W_V[head], W_O = _factors(turn.T @ OV @ turn, d_head, rng)
            attention.W_O[head] = W_O.T
    for weight in (
        one for name, one in model.named_parameters() if rng is not None and ".b_" not in name
    ):
        weight.add_(torch.randn(weight.shape, generator=rng), alpha=noise * weight.std().item())
    return done


def _circuits(
    head: Head | None,
    part: Mapping[str, slice],
    score: float,
    d_model: int,
    rng: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """QK [query, key] and OV [from, to] of a head, as in lesson 07; with a seed, one without a part
    mumbles.
    """
    (QK, OV), eye = torch.zeros(2, d_model, d_model), torch.eye(d_model)
    reads = {slot: eye[:, at] for slot, at in part.items()}  # [d_model, size]
    reads["any"] = reads["token"][:, 1:].sum(1, keepdim=True)
    if head is None:
        if rng is not None:
            seen, size = part["place"].stop, part["token"].stop
            QK[:seen, :seen] = 0.6 * torch.randn(seen, seen, generator=rng)
            OV[:size] = JUNK * torch.randn(size, d_model, generator=rng)
        return QK, OV
    at_start = Term(
        "place", "token", lambda n, m: head.look.rest * torch.eye(m)[START].expand(n, m)
    )
    for here, there, points, _ in (*head.look.terms, at_start):
        one, other = reads[here], reads[there]
        QK += score * one @ points(one.shape[1], other.shape[1]) @ other.T
    for source, to in head.moves.items():
        OV += head.loud * _but_start(reads[source]) @ eye[part[to]]
    return QK, OV


def _factors(matrix: Tensor, d_head: int, rng: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """A and B, [d_model, d_head] each, with A Bᵀ as near to the matrix as their rank allows."""
    if rng is None and d_head == len(matrix):
        return matrix, torch.eye(d_head)
    U, lengths, V = torch.linalg.svd(matrix)
    turn = (
        torch.eye(d_head)
        if rng is None
        else torch.linalg.qr(torch.randn(d_head, d_head, generator=rng)).Q
    )
    turn = lengths[:d_head].sqrt()[:, None] * turn
    return U[:, :d_head] @ turn, V[:d_head].T @ turn
