"""Programs in the vocabulary of heads: written, run as they stand, compiled into weights.

A position has **slots**: `"token"` holds its token and `"place"` its position, all others are empty
at the start. A **head** says where it looks and what it moves from there, slot to slot. Heads of a
layer read before any of them writes. What stands in `"out"` at the end is what the model says comes
next. Induction in a few lines:

    induction = Program(
        # layer 0: fetch the token one back, into a slot of your own
        {"previous": Head(back(1), {"token": "before"})},
        # layer 1: find it there, and say it
        {"reader": Head(where("before", equals="token"), {"token": "out"})},
    )
    # [batch, pos]: texts open with the token 0, and have it nowhere else
    tokens = torch.tensor([[0, 4, 7, 4]])
    # what comes next at each position, 0 for nothing: no weights are involved
    run(induction, tokens, d_vocab=10).said
    # weights, and which head is which; seed=0 blurs them
    model, heads = compiled(induction, d_vocab=10, n_ctx=12)
    # which head needs which, and through its queries, keys or values
    induction.doors()

*Where to look.* `back(3)`; `where("before", equals="token")`: where the slot `before` there holds
what `token` holds here; `where("place", equals="pointer", step=1)`: one behind the place that
`pointer` holds here; `both(one, other)`: where two looks fit; `where("token", equals="token",
itself=False)`: at the same token, earlier; `everywhere()`; `listed(points)`: by a table of the
token here and the token there; `unless("flag", look)`: nowhere while a flag is up; `but_not(look,
"token", equals="said")`: not at what `said` holds here. If several places fit, a head moves their
mean: shares, never counts. If none does, it rests on the start token and moves nothing.

*What to move.* `{"token": "out"}`, or several: `{"token": "out", "any": "flag"}`. `"any"`, 1 at
every token but the start, makes a slot a flag. `Head(…, loud=-0.5)` takes away half; moves add up.

After RASP (Weiss et al. 2021) and Tracr (Lindner et al. 2023).
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
from course_utils._arguments import Count, NotNegative, require_tokens, validated

START = 0  # the token at the beginning of every text
MOST_LAYERS = 3
GIVEN = ("token", "place", "any")  # slots that nobody writes to
KINDS = {  # slot → what it holds, for the slots that every program has
    "token": "tokens",
    "place": "places",
    "any": "flags",
    "out": "tokens",
}
REST = 0.5  # points of the start token, where one is a perfect fit
EXACT, BLURRED = 1000.0, 12.0  # the score of a point
UNEMBED = 10.0  # the logit of a token that is written once
JUNK = 0.05  # how loud heads without a part are, when blurred
NOISE = 0.03  # by how much all weights are blurred

Slots = Float[Tensor, "batch pos size"]
Points = Callable[[int, int], Tensor]  # sizes of two slots → [size here, size there]
Door = tuple[str, str, str]  # a head that writes; "q", "k" or "v"; the head that reads there


class Term(NamedTuple):
    """Points for a place there, by what `here` and `there` hold.

    `kinds` are theirs, if it is not enough that they agree.
    """

    here: str
    there: str
    points: Points
    kinds: tuple[str, str] | None = None


class Look(NamedTuple):
    """Where a head looks: at the places with most points, or at the start token.

    It looks at the start token if no place has `rest`.
    """

    terms: tuple[Term, ...]
    rest: float = REST


class Head(NamedTuple):
    """Where to look, what to move from there, {slot: slot}, and how loud."""

    look: Look
    moves: Mapping[str, str]
    loud: float = 1.0


def _equal(step: int = 0) -> Points:
    """A point where both slots hold the same, or the one there `step` more."""
    return lambda n, m: torch.ones(n, m).tril(step).triu(step)


def _unequal() -> Points:
    """Two points less where both slots hold the same."""
    return lambda n, m: -2 * torch.eye(n)


def _at_start(points: float) -> Points:
    """So many points for the start token there, whatever stands here."""
    return lambda n, m: points * torch.eye(m)[START].expand(n, m)


@validated
def where(there: str, *, equals: str = "token", step: int = 0, itself: bool = True) -> Look:
    """Where the slot `there` holds what `equals` holds here, or a place `step` further.

    Without `itself`, not here.
    """
    kinds = ("places", "places") if step else None
    same = Term(equals, there, _equal(step), kinds)
    elsewhere = Term("place", "place", _unequal())
    return Look((same,) if itself else (same, elsewhere))


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
    """Where the token has points in a table of the token here and the token there.

    Above half a point it counts.
    """
    by_table = Term("token", "token", lambda n, m: points, ("tokens", "tokens"))
    return Look((by_table,))


@validated
def unless(flag: str, look: Look) -> Look:
    """`look`, but nowhere while the flag is up here."""
    rests = Term(flag, "token", _at_start(2), ("flags", "tokens"))
    return look._replace(terms=(*look.terms, rests))


@validated
def but_not(look: Look, there: str, *, equals: str) -> Look:
    """`look`, but not where the slot `there` holds what `equals` holds here."""
    avoids = Term(equals, there, _unequal())
    return look._replace(terms=(*look.terms, avoids))


def _refuse(is_so: bool, sentence: str) -> None:
    if is_so:
        raise ValueError(sentence)


class Program:
    """Layers of heads by name, checked as written.

    Raises ValueError, in a sentence, for what so many layers can't do.
    """

    def __init__(self, *layers: Mapping[str, Head]) -> None:
        have_names = all(isinstance(layer, Mapping) for layer in layers)
        _refuse(not have_names, "A layer has names, as {name: Head(…)}.")
        self.layers = [dict(layer) for layer in layers]
        self.heads: dict[str, Head] = {}
        self.layer: dict[str, int] = {}  # of each head
        for n, layer in enumerate(self.layers):
            self.heads |= layer
            self.layer |= dict.fromkeys(layer, n)
        count = f"A program has one to {MOST_LAYERS} layers, not {len(layers)}."
        _refuse(not 1 <= len(layers) <= MOST_LAYERS, count)
        names = "Two heads have one name: give each its own."
        _refuse(len(self.heads) < sum(map(len, layers)), names)

        self.kinds = dict(KINDS)  # slot → what it holds
        self.means: set[str] = set()  # slots that hold a mean of everything
        for layer in self.layers:
            self._check_layer(layer)
        _refuse(not self.reads(), 'No head moves anything to "out": the program says nothing.')

    def _check_layer(self, layer: Mapping[str, Head]) -> None:
        """Check the heads of a layer, then note what they have written, for the layers after it."""
        written: dict[str, str] = {}
        for name, head in layer.items():
            _check_form(name, head)
            self._check_look(name, head.look)
            for source, to in head.moves.items():
                given = f'Head "{name}" writes to "{to}", which is given: write to a slot of yours.'
                kind = self._kind(name, source)
                other = (self.kinds | written).get(to, kind)
                _refuse(to in GIVEN, given)
                _refuse(
                    other != kind, f'Head "{name}" moves {kind} to "{to}", which holds {other}.'
                )
                written[to] = kind
        self.kinds |= written
        for head in layer.values():
            if head.look == everywhere():
                self.means |= set(head.moves.values())

    def _check_look(self, name: str, look: Look) -> None:
        """Refuse slots of kinds that can't be compared, and means."""
        for here, there, _, kinds in look.terms:
            one = self._kind(name, here)
            other = self._kind(name, there)
            fit = one == other if kinds is None else (one, other) == kinds
            steps = kinds == ("places", "places") and one == other
            why = "only places have steps" if steps else "they are never equal"
            compared = f'"{here}", which holds {one}, with "{there}", which holds {other}'
            _refuse(not fit, f'Head "{name}" compares {compared}: {why}.')

            mean = "the mean of all that was read"
            never = "A softmax hands over means, and a mean equals no single one."
            for slot in self.means & {here, there}:
                raise ValueError(f'Head "{name}" looks by "{slot}", which holds {mean}. {never}')

    def _kind(self, name: str, slot: str) -> str:
        """What a slot holds, for a head of the layer that is checked."""
        if slot not in self.kinds:
            why = "and no head writes that slot"
            for writer, head in self.heads.items():
                if slot in head.moves.values():
                    late = "writes too late: heads of a layer read before any of them writes"
                    why = f'which "{writer}" {late}. Put "{name}" one layer after it'
            raise ValueError(f'Head "{name}" reads "{slot}", {why}.')
        return self.kinds[slot]

    def sizes(self, d_vocab: int, n_ctx: int) -> dict[str, int]:
        """How many dimensions each slot takes, in their order in the stream.

        `"any"` takes none.
        """
        size = {"tokens": d_vocab, "places": n_ctx, "flags": 1}
        own = [slot for slot in self.kinds if slot not in KINDS]
        by_kind = [slot for kind in size for slot in own if self.kinds[slot] == kind]
        return {slot: size[self.kinds[slot]] for slot in ("token", "place", "out", *by_kind)}

    def reads(self) -> dict[str, dict[str, set[str]]]:
        """The heads on which what is said depends, and the slots that each reads, by door."""
        wanted = {"out"}
        found: dict[str, dict[str, set[str]]] = {}
        for layer in reversed(self.layers):
            for name, head in layer.items():
                moved = {source for source, to in head.moves.items() if to in wanted}
                if moved and head.loud:
                    here = {term.here for term in head.look.terms}
                    there = {term.there for term in head.look.terms}
                    found[name] = {"q": here, "k": there, "v": moved}
            # what these heads read, the layers before should write
            for by_door in found.values():
                wanted = wanted.union(*by_door.values())
        return found

    def doors(self) -> set[Door]:
        """The truth per door, (writer, "q", "k" or "v", reader).

        A door counts wherever what is said depends on it.
        """
        found: set[Door] = set()
        for reader, by_door in self.reads().items():
            for writer, head in self.heads.items():
                if head.loud and self.layer[writer] < self.layer[reader]:
                    written = set(head.moves.values())
                    used = [door for door, slots in by_door.items() if slots & written]
                    found |= {(writer, door, reader) for door in used}
        return found


def _check_form(name: str, head: Head) -> None:
    """Refuse what is no head."""
    is_head = isinstance(head, Head)
    whole = is_head and isinstance(head.look, Look) and isinstance(head.moves, Mapping)
    what = "Head(look, {slot: slot}): where it looks, and what it moves."
    _refuse(not whole, f'"{name}" should be {what}')


class ProgramRun(NamedTuple):
    """What a program did on some texts.

    That is its slots in the end, and by head its attention, what it wrote, and its layer.
    """

    slots: dict[str, Slots]
    looks: dict[str, Float[Tensor, "batch dest src"]]
    wrote: dict[str, dict[str, Slots]]
    layers: dict[str, int]

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
    instead: Mapping[Any, Mapping[str, Tensor]] | None = None,
) -> ProgramRun:
    """Run a program as it stands, without weights.

    Texts begin with the token 0, which comes nowhere else. `without` names heads, or doors,
    ("previous", "k", "reader"), that are cut. `instead` has what heads write in this run, by head
    and slot, another run's `wrote`, say; by door it is only what one reader receives. Raises
    ValueError for other texts.
    """
    require_tokens(d_vocab, tokens)
    opens = (tokens[:, 0] == START).all()
    nowhere_else = (tokens[:, 1:] != START).all()
    rule = f"Each text should begin with the start token, {START}, and have it nowhere else."
    _refuse(not (opens and nowhere_else), rule)
    n = tokens.shape[1]
    sizes = program.sizes(d_vocab, n)
    given = {
        "token": one_hot(tokens, d_vocab).float(),  # [batch, pos, d_vocab]
        "place": torch.eye(n).expand(len(tokens), n, n),  # [batch, pos, pos]
        "any": (tokens != START)[..., None].float(),  # [batch, pos, 1]
    }
    wrote: dict[str, dict[str, Slots]] = {}  # what heads of the layers before wrote

    def read(slot: str, door: str = "", reader: str = "") -> Slots:
        """What a slot holds, as a door of a reader sees it."""
        total = given[slot] if slot in given else torch.zeros(*tokens.shape, sizes[slot])
        for name, moved in wrote.items():
            received = (instead or {}).get((name, door, reader), moved)
            if slot in received and (name, door, reader) not in without:
                total = total + received[slot]
        return total

    layers = {name: number for number, layer in enumerate(program.layers) for name in layer}
    done = ProgramRun({}, {}, {}, layers)
    ahead = torch.ones(n, n).triu(1).bool()  # [dest, src]
    for layer in program.layers:
        for name, head in layer.items():
            # where it looks: at the places with most points, in equal shares
            points = torch.zeros(len(tokens), n, n)  # [batch, dest, src]
            for term in head.look.terms:
                here = read(term.here, "q", name)
                there = read(term.there, "k", name)
                points += here @ term.points(here.shape[-1], there.shape[-1]) @ there.mT
            points[:, :, 0] += head.look.rest
            points = points.masked_fill(ahead, -torch.inf)
            best = points >= points.amax(-1, keepdim=True) - 1e-4
            done.looks[name] = best / best.sum(-1, keepdim=True)

            # what it moves from there, slot to slot
            loud = 0.0 if name in without else head.loud
            seen = loud * done.looks[name]
            moved = {}
            for source, to in head.moves.items():
                moved[to] = seen @ _but_start(read(source, "v", name))
            done.wrote[name] = dict((instead or {}).get(name, moved))
        wrote |= {name: done.wrote[name] for name in layer}
    done.slots.update({slot: read(slot) for slot in program.kinds})
    return done


def _but_start(value: Slots) -> Slots:
    """What can be moved of a slot: all but token 0 and place 0; a flag as it is."""
    if value.shape[-1] == 1:
        return value
    return torch.cat([torch.zeros_like(value[..., :1]), value[..., 1:]], -1)


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
    """A model without LayerNorm, biases and MLPs that does what the program says.

    It does so on texts that begin with the token 0. Without a seed it is exact: each slot has
    dimensions of its own, and the first `d_vocab` of them hold the token. A seed shuffles the
    heads, turns the stream, blurs all weights by `noise` and softens attention, and heads without a
    part mumble: so no weight is zero. `sizes` says how large, {"d_model": 64, "n_heads": 4,
    "d_head": 32}, if not as the program needs, and may say where a slot begins. Raises ValueError
    for a program without room.
    """
    rng = None if seed is None else torch.Generator().manual_seed(seed)
    score = EXACT if rng is None else BLURRED
    lies = program.sizes(d_vocab, n_ctx)  # slot → how many dimensions it takes

    # is there room?
    need, many = sum(lies.values()), max(map(len, program.layers))
    size = {"d_model": need, "n_heads": many} | dict(sizes or {})
    d_model, n_heads = size["d_model"], size["n_heads"]
    d_head = size.get("d_head", d_model)
    room = f"The slots need {need} dimensions of the stream, {lies}, and d_model is {d_model}."
    _refuse(need > d_model, room)
    room = f"A layer of the program has {many} heads, and a layer of the model {n_heads}."
    _refuse(many > n_heads, room)
    room = "A softmax gives each place a little, and there are too many: take fewer, or no seed."
    _refuse(n_ctx * math.exp(-score * REST) > 0.5, room)

    kind = {
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "standard",
        "seed": 0,
        "n_layers": len(program.layers),
        "d_vocab": d_vocab,
        "n_ctx": n_ctx,
        "d_model": d_model,
        "n_heads": n_heads,
        "d_head": d_head,
    }
    model = models.initial(kind).eval().requires_grad_(False)
    heads: dict[str, interventions.Head] = {}

    # the stream: a part for each slot, and all of it turned
    turn = _turn(d_model, rng)
    part: dict[str, slice] = {}
    start = 0
    for slot, width in lies.items():
        at = size.get(slot, start)
        part[slot] = slice(at, at + width)
        start += width
    model.embed.W_E.copy_(turn[part["token"]])  # [d_vocab, d_model]
    model.pos_embed.W_pos.copy_(turn[part["place"]])  # [n_ctx, d_model]
    model.unembed.W_U.copy_(UNEMBED * turn[part["out"]].T)  # [d_model, d_vocab]

    for n, layer in enumerate(program.layers):
        # which head of the model gets which part; the others get none
        order = list(range(n_heads))
        if rng is not None:
            order = torch.randperm(n_heads, generator=rng).tolist()
        heads.update({name: (n, head) for name, head in zip(layer, order, strict=False)})
        # (there are circuits left over: they have drawn their numbers, too)
        names = [*layer, *[None] * n_heads]
        parts = [*layer.values(), *[None] * n_heads]
        made = [_circuits(head, part, score, d_model, rng) for head in parts]
        attention = model.blocks[n].attn
        for name, head, (QK, OV) in zip(names, order, made, strict=False):
            if name is not None and d_head < d_model:
                rank = max(torch.linalg.matrix_rank(QK), torch.linalg.matrix_rank(OV))
                room = f'Head "{name}" needs {rank} dimensions, and a head of the model has'
                _refuse(bool(rank > d_head), f"{room} {d_head}.")
            W_Q, W_K = _factors(turn.T @ QK @ turn * d_head**0.5, d_head, rng)
            W_V, W_O = _factors(turn.T @ OV @ turn, d_head, rng)
            attention.W_Q[head] = W_Q  # [d_model, d_head]
            attention.W_K[head] = W_K
            attention.W_V[head] = W_V
            attention.W_O[head] = W_O.T  # [d_head, d_model]

    if rng is not None:
        for name, weight in model.named_parameters():
            if ".b_" not in name:
                blur = noise * weight.std().item()
                weight.add_(torch.randn(weight.shape, generator=rng), alpha=blur)
    return Compiled(model, heads)


def _turn(n: int, rng: torch.Generator | None) -> Tensor:
    """A random rotation of n dimensions, [n, n]; none at all without a generator."""
    if rng is None:
        return torch.eye(n)
    return torch.linalg.qr(torch.randn(n, n, generator=rng)).Q


def _circuits(
    head: Head | None,
    part: Mapping[str, slice],
    score: float,
    d_model: int,
    rng: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """QK [query, key] and OV [from, to] of a head, as in lesson 07.

    With a seed, one without a part mumbles.
    """
    QK, OV = torch.zeros(2, d_model, d_model)
    eye = torch.eye(d_model)
    if head is None:
        if rng is not None:
            seen, size = part["place"].stop, part["token"].stop
            QK[:seen, :seen] = 0.6 * torch.randn(seen, seen, generator=rng)
            OV[:size] = JUNK * torch.randn(size, d_model, generator=rng)
        return QK, OV

    reads = {slot: eye[:, at] for slot, at in part.items()}  # [d_model, size]
    reads["any"] = reads["token"][:, 1:].sum(1, keepdim=True)
    rests = Term("place", "token", _at_start(head.look.rest))
    for here, there, points, _ in (*head.look.terms, rests):
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
    turn = lengths[:d_head].sqrt()[:, None] * _turn(d_head, rng)
    return U[:, :d_head] @ turn, V[:d_head].T @ turn
