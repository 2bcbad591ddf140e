"""Lesson 11: can a hypothesis take a sealed model's place?

A hypothesis is a program whose heads have the model's names: {"0.1": Head(back(3), {"token": "moved"}), "1.0": …}. It
says where each head looks, what is moved, and by that which doors are heard. A model is *scrubbed* for it: all that the
hypothesis does not name comes from another text (Chan et al. 2022), and the named heads look where it says, or by
themselves, at what it names. No answer is stored anywhere: the reference is what the model says when it is whole.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions, programs
from course_utils.course.questions import Wrong, demand
from course_utils.interventions import Edge, Head, Writer, head_name
from course_utils.lessons.l11_final_case import cases
from course_utils.programs import Program

ENOUGH = 0.75  # the share of what the model saves that must stay when the hypothesis takes its place
COSTS = 0.1  # the share that is lost, at least, without a part that was named
LOOKS = 0.5  # the share of its attention with which a head that speaks looks where the hypothesis says
STEPS_IN = 0.5  # the share that the model saves without a named head, from which on somebody stands in for it
MANY, OFTEN = 20, 0.2  # nothing is judged by fewer places where something is said, or by a smaller share of places
ROWS = 80  # of unseen texts, at most
ASKED = {"blocks": cases.PERIOD + 2, "template": 8}
SURE = 0.8  # the probability from which on a model says something; two places that tie give a half each
LETTERS = "·abcdefghijklmnopqrst"
Hypothesis = Mapping[str, programs.Head]
DOORS = {"q": "queries", "k": "keys", "v": "values"}


class Seen(NamedTuple):
    """A model's run on some texts, with some heads gone: its logits, and for each head where it looks and writes."""

    tokens: Int[Tensor, "batch pos"]
    logits: Float[Tensor, "batch pos d_vocab"]
    streams: list[Float[Tensor, "batch pos d_model"]]  # before each layer, and at the end
    looks: dict[Head, Float[Tensor, "batch dest src"]]
    wrote: dict[Writer, Float[Tensor, "batch pos d_model"]]


class Box:
    """A sealed model, with texts that the lesson shows and texts that only the judge has."""

    def __init__(self, model: HookedTransformer, language: str = "blocks") -> None:
        self.model, self.language = model, language
        self.heads = [(layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads)]
        self.unseen, self.pool = cases.texts(language, shown=False)[:ROWS], cases.pool(language)
        self.asked = ASKED[language]  # the first position whose prediction counts, on texts of its language

    @torch.no_grad()
    def seen(self, tokens: Int[Tensor, "batch pos"], gone: Sequence[Head] = ()) -> Seen:
        """What the model does on texts, with some heads silent."""
        with interventions.cut(self.model, *gone):
            logits, cache = self.model.run_with_cache(tokens)
        layers = range(self.model.cfg.n_layers)
        streams = [cache["resid_pre", layer] for layer in layers] + [cache["resid_post", layers[-1]]]
        wrote: dict[Writer, Tensor] = {"embed": cache["embed"]}
        wrote |= {(n, head): cache["z", n][:, :, head] @ self.model.W_O[n, head] for n, head in self.heads}
        return Seen(tokens, logits, streams, {(n, h): cache["pattern", n][:, h] for n, h in self.heads}, wrote)

    @torch.no_grad()
    def scrubbed(
        self, seen: Seen, doors: set[Edge], looks: Mapping[Head, Tensor], zero: Sequence[Edge] = ()
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """Logits, and where heads look, when only these doors carry the text's own and all else is another text's.

        Heads in `looks` look there, others by themselves. What stands behind the doors of `zero` is missing.
        """
        other = {writer: x.roll(1, 0) for writer, x in seen.wrote.items()}
        own, looked, cfg = {"embed": seen.wrote["embed"]}, dict[Head, Tensor](), self.model.cfg
        hidden = torch.ones(seen.tokens.shape[1], seen.tokens.shape[1]).triu(1).bool()

        def read(stream: int, *door: Any) -> Tensor:
            x = seen.streams[stream].roll(1, 0)
            for writer in [one[0] for one in doors if one[1:] == door]:
                x = x + (own[writer] - other[writer])
            return x - sum(other[one[0]] for one in zero if one[1:] == door)

        for layer, head in sorted({one for door in doors for one in (door[0], door[-1]) if isinstance(one, tuple)}):
            attention, this = self.model.blocks[layer].attn, (layer, head)
            q, k, v = (read(layer, path, this) @ getattr(attention, f"W_{path.upper()}")[head] for path in "qkv")
            scores = (q @ k.mT / math.sqrt(cfg.d_head)).masked_fill(hidden, -torch.inf)
            looked[this] = looks[this] if this in looks else scores.softmax(-1)
            own[this] = looked[this] @ v @ attention.W_O[head]
        return read(cfg.n_layers, "logits") @ self.model.W_U + self.model.b_U, looked


def programmed(box: Box, hypothesis: Any) -> tuple[Program, dict[str, Head]]:
    """A hypothesis as a program, and the model's head for each name. Raises Wrong for what is none."""
    example = '{"0.1": Head(back(1), {"token": "before"}), …}'
    is_one = isinstance(hypothesis, Mapping) and all(isinstance(one, programs.Head) for one in hypothesis.values())
    demand(is_one and len(hypothesis) > 0, f"a hypothesis names heads and says what they do: {example}.")
    names = {head_name(head): head for head in box.heads}
    for name in hypothesis:
        demand(name in names, f"the boxes have the heads 0.0 to 0.3 and 1.0 to 1.3, and {name} is none of them.")
    layers: list[dict[str, programs.Head]] = [{} for _ in range(box.model.cfg.n_layers)]
    for name, head in hypothesis.items():
        layers[names[name][0]][name] = head
    try:
        program = Program(*layers)
    except ValueError as problem:
        raise Wrong(str(problem)) from None
    for name in sorted(program.heads.keys() - program.reads().keys()):
        raise Wrong(f"{name} is named, but nothing that your hypothesis says depends on it.")
    return program, {name: names[name] for name in sorted(program.heads)}


def named_doors(program: Program, heads: Mapping[str, Head]) -> set[Edge]:
    """The doors that a hypothesis names: between heads, from the embedding, to the logits."""
    found: set[Edge] = {(heads[writer], door, heads[reader]) for writer, door, reader in program.doors()}
    for reader, by_door in program.reads().items():
        found |= {("embed", door, heads[reader]) for door, slots in by_door.items() if "token" in slots}
    return found | {(heads[name], "logits") for name, head in program.heads.items() if "out" in head.moves.values()}


class Place(NamedTuple):
    """Two sets of logits compared: the share of what one saves that the other keeps, and where least is kept."""

    share: float
    text: int
    place: int


def kept(reference: Tensor, logits: Tensor, none: Tensor, at: Bool[Tensor, "batch pos"]) -> Place | None:
    """How much of what the model saves, beside `none`, is left in `logits`, where either of them says something.

    The loss is that at the token which the model finds likeliest, and at most that of somebody who has no idea. None
    where there are too few places to judge by.
    """
    sure = at & (torch.maximum(says(reference), says(logits)) > SURE)
    if sure.sum() < max(MANY, OFTEN * at.sum()):
        return None
    token = reference.argmax(-1, keepdim=True)
    most = math.log(reference.shape[-1] - 1)
    whole, this, no_idea = (
        (-x.log_softmax(-1).gather(-1, token)[..., 0]).clamp(max=most) for x in (reference, logits, none)
    )
    lost, saved = (this - whole) * sure, (no_idea - whole)[sure].sum()
    return Place((1 - lost.sum() / saved.clamp(min=1)).item(), *divmod(lost.argmax().item(), sure.shape[1]))


def says(logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "batch pos"]:
    """How likely the likeliest token is."""
    return logits.softmax(-1).amax(-1)


class About(NamedTuple):
    """Some texts, with some heads gone: what the model does, and what the hypothesis says that it does."""

    seen: Seen
    reference: Float[Tensor, "batch pos d_vocab"]  # of the whole model
    at: Bool[Tensor, "batch pos"]  # the places that may count
    looks: dict[Head, Float[Tensor, "batch dest src"]]
    said: Int[Tensor, "batch pos"]


class Trial:
    """A hypothesis on trial. `held` are sentences on what held; `failed` is what did not, and nothing came after it."""

    def __init__(self, box: Box, hypothesis: Any) -> None:
        self.box, self.held, self.failed = box, list[str](), ""
        self.program, self.heads = programmed(box, hypothesis)
        self.doors = named_doors(self.program, self.heads)
        self.speakers = [self.heads[name] for name, head in self.program.heads.items() if "out" in head.moves.values()]
        self.worlds: list[tuple[Head, ...]] = [()]  # of heads that are gone
        self._known: dict[Any, About] = {}
        self._scores: dict[Any, float] = {}
        asked = (self._looks, self._is_enough, self._stands_rivals, self._needs_all)
        self.false = not all(ask() for ask in asked)
        self.solved = not self.false and self._is_all()

    def about(self, n: int, *gone: Head) -> About:
        """Of the texts number `n`: 0 are unseen ones of the box's language, and later ones of other kinds."""
        if (n, gone) not in self._known:
            tokens = [self.box.unseen, *self.box.pool][n]
            names = [name for name, head in self.heads.items() if head in gone]
            ran = programs.run(self.program, tokens, self.box.model.cfg.d_vocab, without=names)
            at, seen = torch.ones_like(tokens).bool(), self.box.seen(tokens, gone)
            at[:, : self.box.asked if n == 0 else 1 if n == 1 else -2] = at[:, -1] = False
            looks = {self.heads[name]: look for name, look in ran.looks.items() if self.heads[name] not in gone}
            self._known[n, gone] = About(seen, self.about(n).reference if gone else seen.logits, at, looks, ran.said)
        return self._known[n, gone]

    def _fails(self, *sentences: str) -> bool:
        self.failed = " ".join(sentences)
        return False

    def _holds(self, sentence: str) -> bool:
        self.held.append(sentence)
        return True

    def _looks(self, *gone: Head) -> bool:
        """Whether heads that speak look where the hypothesis says, wherever the model says something."""
        least = 1.0
        for n in range(1 + len(self.box.pool)):
            case = self.about(n, *gone)
            sure = case.at & (says(case.seen.logits) > SURE)
            for head in self.speakers if sure.sum() >= MANY else ():
                if head in gone:
                    continue
                there = (case.seen.looks[head] * (case.looks[head] > 0)).sum(-1)
                least = min(least, share := there[sure].mean().item())
                if share < LOOKS:
                    text, place = divmod((there + 2 * ~sure).argmin().item(), sure.shape[1])
                    tokens = case.seen.tokens[text]
                    yours, its = (
                        f"{LETTERS[tokens[look[text, place].argmax()]]} ({place - look[text, place].argmax()} back)"
                        for look in (case.looks[head], case.seen.looks[head])
                    )
                    where = f"Where you say are {_share(share)} of the attention of {head_name(head)}"
                    return self._fails(
                        f"{_without(gone)}{where}, on {_kind(n)}.",
                        f"At the end of {_text(tokens, place)} you say {yours}, and it looks at {its}.",
                    )
        names = " and ".join(map(head_name, self.speakers))
        looks = f"{names} look{'s' * (len(self.speakers) == 1)} where you say"
        return bool(gone) or self._holds(f"{looks}: {_share(least)} of the attention, at least.")

    def _scrubbed(self, case: About, *gone: Head) -> Iterator[tuple[str, Tensor]]:
        """The logits with only what is named, heads looking in one way or another."""
        doors = {door for door in self.doors if not {*gone} & {door[0], door[-1]}}
        fetch = {head: look for head, look in case.looks.items() if head not in self.speakers}
        modes = {"where you say": case.looks, "by themselves": {}}
        if fetch:
            modes["by themselves, at what the others fetch where you say"] = fetch
        for mode, looks in modes.items():
            yield mode, self.box.scrubbed(case.seen, doors, looks)[0]

    def _least_kept(self, n: int, masks: Sequence[Tensor], *gone: Head) -> tuple[float, str]:
        """The least share of what the model saves that what is named keeps, at some places; and a sentence on it."""
        case, least, told = self.about(n, *gone), 1.0, ""
        for mode, logits in self._scrubbed(case, *gone):
            for mask in masks:
                found = kept(case.reference, logits, case.seen.logits.roll(1, 0), case.at & mask)
                if found and found.share < least:
                    at = found.text, found.place
                    model, yours = (
                        f"“{LETTERS[x[at].argmax()]}”" if says(x)[at] > SURE else "nothing clearly"
                        for x in (case.reference, logits)
                    )
                    least, text = found.share, _text(case.seen.tokens[found.text], found.place)
                    told = f"Its heads look {mode}; after {text} the model says {model}, and what you named {yours}."
        return least, told

    def _is_enough(self) -> bool:
        share, told = self._least_kept(0, [torch.tensor(True)])
        left = f"All that you did not name comes from another text, and {_share(share)} of what the model saves"
        return self._holds(f"{left} stays, on {_kind(0)}.") if share >= ENOUGH else self._fails(f"{left} stays.", told)

    def _stands_rivals(self) -> bool:
        """The same on texts of other kinds: on each kind, and wherever another rule would say something else."""
        least, told, rivals = 1.0, "", list(self._rivals())
        for n, tokens in enumerate(self.box.pool, 1):
            rows, own = torch.arange(len(tokens))[:, None] // cases.FEW, self.about(n).said
            masks = [rows == kind for kind in range(len(tokens) // cases.FEW)]
            others = [programs.run(rival, tokens, self.box.model.cfg.d_vocab).said for rival in rivals]
            masks += [(own != programs.START) & (own != other) for other in others]
            least, told = min((least, told), self._least_kept(n, masks))
        stays = f"On texts searched for because other rules part from yours there, {_share(least)} stays"
        return self._holds(f"{stays}, at least.") if least >= ENOUGH else self._fails(f"{stays}.", told)

    def _rivals(self) -> Iterator[Program]:
        """The hypothesis with one head looking elsewhere."""
        looks = [*map(programs.back, (1, 2, 3, 4, 7)), programs.where("token", itself=False), programs.everywhere()]
        for name, head in self.program.heads.items():
            parts = [programs.Look((term,)) for term in head.look.terms if len(head.look.terms) > 1]
            for look in (*looks, *parts):
                layers = (
                    {**layer, name: head._replace(look=look)} if name in layer else layer
                    for layer in self.program.layers
                )
                with contextlib.suppress(ValueError):
                    yield Program(*layers)

    def _needs_all(self) -> bool:
        """Whether something is lost without each part, in the whole model or where another head is gone."""
        self.worlds += [(head,) for head in self.heads.values() if self._saves(head) > STEPS_IN]
        parts = {f"head {name}": {door for door in self.doors if door[0] == head} for name, head in self.heads.items()}
        parts |= {_door(door): {door} for door in self.doors if len(door) == 3}
        least = 1.0
        for name, doors in sorted(parts.items()):
            costs = (self._cost(doors, n, gone) for gone in self.worlds for n in (0, 1))
            cost = next((cost for cost in costs if cost >= COSTS), 0.0)
            if cost < COSTS:
                return self._fails(f"Without {name} nearly nothing of what the model saves is lost. Is it needed?")
            least = min(least, cost)
        return self._holds(f"Each part is needed: without any one, {_share(least)} is lost, at least.")

    def _saves(self, gone: Head) -> float:
        """The share that the model saves without a head."""
        case, whole = self.about(0, gone), self.about(0)
        found = kept(whole.reference, case.seen.logits, whole.seen.logits.roll(1, 0), case.at)
        return found.share if found else 0.0

    def _cost(self, dropped: set[Edge], n: int, gone: tuple[Head, ...]) -> float:
        """What is lost without some doors: behind them stands another text's, or nothing, whichever costs more."""
        case, doors = self.about(n, *gone), {door for door in self.doors if not {*gone} & {door[0], door[-1]}}
        sure = case.at & (says(case.reference) > SURE)

        def score(doors: set[Edge], zero: set[Edge]) -> float:
            logits, looked = self.box.scrubbed(case.seen, doors, {}, zero)
            found = kept(case.reference, logits, case.seen.logits.roll(1, 0), case.at)
            speak = [head for head in self.speakers if head in looked]
            on = ((looked[head] * (case.looks[head] > 0)).sum(-1)[sure].mean().item() for head in speak)
            return min([found.share if found else 1.0, *on])

        if not dropped & doors:
            return 0.0
        whole = self._scores.get((n, gone)) or self._scores.setdefault((n, gone), score(doors, set()))
        costs = (whole - score(doors - dropped, zero) for zero in (set(), dropped & doors))
        return next((cost for cost in costs if cost >= COSTS), 0.0)

    def _is_all(self) -> bool:
        """Whether what is named goes on as the model does, when any one of its heads is gone."""
        for gone in self.worlds[1:]:
            saves, (share, _) = self._saves(*gone), self._least_kept(0, [torch.tensor(True)], *gone)
            if share < ENOUGH * saves:
                saved = f"the model still saves {_share(saves)}, and what you named {_share(share)}"
                return self._fails(f"{_without(gone)}{saved}. Who makes up for it?")
            if not self._looks(*gone):
                return False
        return self._holds("Whichever of your heads is gone, what you named does then as the model does.")


def _share(number: float) -> str:
    return f"{100 * min(1.0, max(number, 0)):.0f} %"


def _without(gone: Sequence[Head]) -> str:
    return f"With {head_name(gone[0])} gone: " if gone else ""


def _kind(n: int) -> str:
    return "texts of another kind" if n else "unseen texts"


def _text(tokens: Int[Tensor, " pos"], place: int) -> str:
    return f"“{''.join(LETTERS[token] for token in tokens[: place + 1].tolist())}”"


def _door(door: Any) -> str:
    writer, path, reader = door
    return (
        f"the token in the {DOORS[path]} of {head_name(reader)}" if writer == "embed" else interventions.in_words(door)
    )


def solvable(seed: int, level: int) -> cases.Made:
    """The new box of a seed, with a hypothesis that the judge accepts."""
    return next(new for new in cases.made(seed, level) if Trial(Box(new.model), new.hypothesis).solved)
