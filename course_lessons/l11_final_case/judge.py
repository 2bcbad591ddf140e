"""Lesson 11: can a hypothesis take a sealed model's place?

A hypothesis is a program whose heads have the model's names: {"0.1": Head(back(3), {"token":
"moved"}), "1.0": …}. It says where each head looks, what is moved, and so which doors are heard.
The model is *scrubbed* for it: all that the hypothesis does not name comes from another text (Chan
et al. 2022), and the named heads look where it says, or by themselves, at what it names. No answer
is stored anywhere: the reference is what the model says when it is whole.
"""

import contextlib
import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer

from course_lessons import programs
from course_lessons.l11_final_case import languages
from course_lessons.programs import Program
from course_utils import interventions
from course_utils.course.expectations import Wrong, demand
from course_utils.interventions import Edge, Head, head_name
from course_utils.models import all_heads

ENOUGH = (
    0.75  # the share of what the model saves that must stay when the hypothesis takes its place
)
COSTS = 0.1  # the share that is lost, at least, without a part that was named
LOOKS = (
    0.5  # the share of its attention with which a head that speaks looks where the hypothesis says
)
# the share that the model saves without a named head, from which on somebody stands in for it
STEPS_IN = 0.6
# the probability from which on a model says something; two places that tie give a half each
SURE = 0.8
# nothing is judged by fewer places where something is said, or by a smaller share of places
MANY, OFTEN = (20, 0.2)
LETTERS = "·abcdefghijklmnopqrst"
EVERYWHERE = (torch.tensor(True),)


class SealedBox:
    """A sealed model, and texts that only the judge has: unseen ones of its language first, then
    other kinds.
    """

    def __init__(self, model: HookedTransformer, language: str = "blocks") -> None:
        self.model, self.language = model, language
        self.heads = all_heads(model)
        self.texts = [languages.texts(language, shown=False), *languages.pool(language)]

    def counts(self, n: int) -> Bool[Tensor, "batch pos"]:
        """The places whose prediction may count, in the texts number `n`."""
        at, length = torch.ones_like(self.texts[n]).bool(), self.texts[n].shape[1]
        first = {"template": length - 2, "blocks": 1 if n else length // 2 + 2}.get(
            self.language, length // 2 + 2
        )
        at[:, :first] = at[:, -1] = False
        return at

    def scrubbed(
        self,
        cache: ActivationCache,
        doors: set[Edge],
        looks: Mapping[Head, Tensor],
        zero: Collection[Edge] = (),
    ) -> tuple[Float[Tensor, "batch pos d_vocab"], dict[Head, Tensor]]:
        """Logits, and where heads look, when only these doors carry the text's own and all else is
        another text's.

        Heads in `looks` look there, others by themselves. What stands behind the doors of `zero` is
        missing.
        """
        own: dict[Any, Tensor] = {"embed": cache["embed"]}
        looked, model = dict[Head, Tensor](), self.model

        def other(writer: Any) -> Tensor:
            is_token = writer == "embed"
            wrote = (
                cache["embed"]
                if is_token
                else cache["z", writer[0]][:, :, writer[1]] @ model.W_O[writer]
            )
            return wrote.roll(1, 0)

        def read(stream: Tensor, *door: Any) -> Tensor:
            changes = [
                own[writer] - other(writer) for writer, *rest in doors if tuple(rest) == door
            ]
            changes += [-other(writer) for writer, *rest in zero if tuple(rest) == door]
            return sum(changes, stream.roll(1, 0))

        for layer, head in sorted(
            {one for door in doors for one in (door[0], door[-1]) if isinstance(one, tuple)}
        ):
            attention, this, stream = (
                model.blocks[layer].attn,
                (layer, head),
                cache["resid_pre", layer],
            )
            q, k, v = (
                read(stream, path, this) @ getattr(attention, f"W_{path.upper()}")[head]
                for path in "qkv"
            )
            scores = q @ k.mT / math.sqrt(model.cfg.d_head)
            hidden = torch.ones_like(scores).triu(1).bool()
            looked[this] = (
                looks[this] if this in looks else scores.masked_fill(hidden, -torch.inf).softmax(-1)
            )
            own[this] = looked[this] @ v @ attention.W_O[head]
        return read(
            cache["resid_post", model.cfg.n_layers - 1], "logits"
        ) @ model.W_U + model.b_U, looked


def programmed(box: SealedBox, hypothesis: Any) -> tuple[Program, dict[str, Head], set[Edge]]:
    """A hypothesis as a program, the model's head for each name, and the doors.

    Raises Wrong for what is none.
    """
    is_one = isinstance(hypothesis, Mapping) and all(
        isinstance(one, programs.Head) for one in hypothesis.values()
    )
    example = '{"0.1": Head(back(1), {"token": "before"}), …}'
    demand(
        is_one and len(hypothesis) > 0,
        f"a hypothesis names heads and says what they do: {example}.",
    )
    names = {head_name(head): head for head in box.heads}
    for name in hypothesis:
        demand(
            name in names,
            f"the boxes have the heads 0.0 to 0.3 and 1.0 to 1.3, and {name} is none of them.",
        )
        demand(
            hypothesis[name].loud == 1, f"how loud {name} is can't be tried here: leave `loud` out."
        )
    n = box.model.cfg.d_vocab
    for look in (one.look for one in hypothesis.values()):
        square = all(term.points(n, n).shape == (n, n) for term in look.terms)
        demand(
            square,
            f"a table for `listed` has a row and a column for each token: torch.zeros({n}, {n}).",
        )
    try:
        program = Program(
            *({n: hypothesis[n] for n in hypothesis if names[n][0] == layer} for layer in (0, 1))
        )
    except ValueError as problem:
        raise Wrong(str(problem)) from None
    reads = program.reads()
    for name in sorted(program.heads.keys() - reads.keys()):
        raise Wrong(f"{name} is named, but nothing that your hypothesis says depends on it.")
    doors: set[Edge] = {
        (names[writer], door, names[reader]) for writer, door, reader in program.doors()
    }
    doors |= {
        ("embed", door, names[one])
        for one, by in reads.items()
        for door, slots in by.items()
        if "token" in slots
    }
    doors |= {
        (names[name], "logits")
        for name, head in program.heads.items()
        if "out" in head.moves.values()
    }
    return program, {name: names[name] for name in sorted(program.heads)}, doors


class Kept(NamedTuple):
    """The share of what a model saves that is left, and the text and the place where least is."""

    share: float
    place: tuple[int, int]


def kept(
    reference: Tensor, logits: Tensor, none: Tensor, at: Bool[Tensor, "batch pos"]
) -> Kept | None:
    """How much of what the model saves, beside `none`, is left in `logits`, where either of them
    says something.

    The loss is that at the token which the model finds likeliest, and at most that of somebody who
    has no idea. None where there are too few places to judge by.
    """
    logits = logits.nan_to_num()  # a look that is no number says nothing
    sure = at & (torch.maximum(says(reference), says(logits)) > SURE)
    if int(sure.sum()) < max(MANY, OFTEN * int(at.sum())):
        return None
    token, most = reference.argmax(-1, keepdim=True), math.log(reference.shape[-1] - 1)
    losses = (-one.log_softmax(-1).gather(-1, token)[..., 0] for one in (reference, logits, none))
    whole, this, no_idea = (loss.clamp(max=most) * sure for loss in losses)
    text, place = divmod(int((this - whole).argmax()), sure.shape[1])
    return Kept(
        1 - ((this - whole).sum() / (no_idea - whole).sum().clamp(min=1)).item(), (text, place)
    )


def says(logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "batch pos"]:
    """How likely the likeliest token is."""
    return logits.softmax(-1).amax(-1)


class About(NamedTuple):
    """Some texts, with some heads gone: what the model does, and what the hypothesis says that it
    does.
    """

    tokens: Int[Tensor, "batch pos"]
    logits: Float[Tensor, "batch pos d_vocab"]
    cache: ActivationCache
    reference: Float[Tensor, "batch pos d_vocab"]  # what the whole model says
    looks: dict[Head, Float[Tensor, "batch dest src"]]
    said: Int[Tensor, "batch pos"]


class Trial:
    """A hypothesis on trial.

    `held` are sentences on what held; `failed` is what did not, and nothing came after it.
    """

    @torch.no_grad()
    def __init__(self, box: SealedBox, hypothesis: Any) -> None:
        self.box, self.held, self.failed = box, list[str](), list[str]()
        self.program, self.heads, self.doors = programmed(box, hypothesis)
        self.speakers = [door[0] for door in sorted(self.doors, key=str) if door[1] == "logits"]
        self._known: dict[Any, Any] = {}
        asked = (self._looks, self._is_enough, self._stands_rivals, self._needs_all)
        self.false = not all(ask() for ask in asked)
        self.solved = not self.false and self._is_all()

    @property
    def outcome(self) -> str:
        """ "false", "true" (but not all) or "solved"."""
        return "false" if self.false else "solved" if self.solved else "true"

    @property
    def digest(self) -> str:
        """What two hypotheses that say the same have in common."""
        looks = self.about(0).looks
        parts = [
            str(sorted(map(str, self.doors))).encode(),
            *(looks[head].numpy().tobytes() for head in sorted(looks)),
        ]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:12]

    def about(self, n: int, *gone: Head) -> About:
        if (n, gone) not in self._known:
            tokens, model = self.box.texts[n], self.box.model
            names = [name for name, head in self.heads.items() if head in gone]
            ran = programs.run(self.program, tokens, model.cfg.d_vocab, without=names)
            with interventions.cut(model, *gone):
                cache = model.run_with_cache(tokens, return_type=None)[1]
            looks = {
                self.heads[name]: look for name, look in ran.looks.items() if name not in names
            }
            logits = cache["resid_post", model.cfg.n_layers - 1] @ model.W_U + model.b_U
            whole = self.about(n).logits if gone else logits
            self._known[n, gone] = About(tokens, logits, cache, whole, looks, ran.said)
        return self._known[n, gone]

    def _verdict(self, held: bool, sentence: str, *why: str) -> bool:
        if held:
            self.held.append(sentence)
        else:
            self.failed += [sentence, *why]
        return held

    def _looks(self, *gone: Head) -> bool:
        """Whether heads that speak look where the hypothesis says, wherever the model says
        something.
        """
        least, found = 1.0, ("", "")
        for n in range(len(self.box.texts)):
            about, sure = self.about(n, *gone), self.box.counts(n)
            sure = sure & (says(about.logits) > SURE)
            for head in (one for one in self.speakers if one in about.looks and sure.sum() >= MANY):
                own, yours = about.cache["pattern", head[0]][:, head[1]], about.looks[head]
                there = (own * (yours > 0)).sum(-1)
                if (share := there[sure].mean().item()) < least:
                    text, place = divmod(int((there + 2 * ~sure).argmin()), sure.shape[1])
                    yours_at, its = (look[text, place].argmax().item() for look in (yours, own))
                    ends = (
                        f"At the end of {_text(about.tokens[text, : place + 1])} you say "
                        f"{place - yours_at} back"
                    )
                    looks = f"looks {place - its} back" if its else "rests on the start token"
                    least, found = share, (head_name(head), f"{ends}, and it {looks}.")
        without = f"With {head_name(gone[0])} gone, " if gone else ""
        where = (
            f"{without}{found[0]} gives {_share(least)} of its attention, at least, to "
            f"where you say."
        )
        return self._verdict(least >= LOOKS, where, found[1])

    def _least(
        self, n: int, *gone: Head, masks: Sequence[Tensor] = EVERYWHERE
    ) -> tuple[float, str]:
        """The least share that what is named keeps, at some places, its heads looking in several
        ways; a sentence.
        """
        about, least, told = self.about(n, *gone), 1.0, ""
        fetch = {head: look for head, look in about.looks.items() if head not in self.speakers}
        ways = {
            "where only the heads that write to out choose where to look": fetch,
            "where the heads choose where to look": {},
            "where the heads look as you say": about.looks,
        }
        for mode, looks in ways.items():
            logits = self.box.scrubbed(about.cache, self._left(gone), looks)[0]
            for mask in masks:
                found = kept(
                    about.reference, logits, about.logits.roll(1, 0), self.box.counts(n) & mask
                )
                if found and found.share < least:
                    model, yours = (
                        f"“{LETTERS[one[found.place].argmax()]}”"
                        if says(one)[found.place] > SURE
                        else "nothing clearly"
                        for one in (about.reference, logits)
                    )
                    text = _text(about.tokens[found.place[0], : found.place[1] + 1])
                    least = found.share
                    told = (
                        f"After {text} the model says {model}, and what you named {yours}, {mode}."
                    )
        return least, told

    def _left(self, gone: Sequence[Head]) -> set[Edge]:
        return {door for door in self.doors if not {*gone} & {door[0], door[-1]}}

    def _is_enough(self) -> bool:
        share, told = self._least(0)
        stays = (
            f"With all that you did not name from other texts, {_share(share)} of what the "
            f"model saves stays"
        )
        return self._verdict(share >= ENOUGH, f"{stays}, on unseen texts.", told)

    def _stands_rivals(self) -> bool:
        """The same on texts of other kinds: on each kind, and wherever another rule would say
        something else.
        """
        least, told, rivals = 1.0, "", list(self._rivals())
        for n, tokens in enumerate(self.box.texts[1:], 1):
            kind, own = torch.arange(len(tokens))[:, None] // languages.FEW, self.about(n).said
            said = [
                programs.run(rival, tokens, self.box.model.cfg.d_vocab).said for rival in rivals
            ]
            masks = [kind == number for number in range(int(kind.max()) + 1)]
            masks += [(own != programs.START) & (own != other) for other in said]
            least, told = min((least, told), self._least(n, masks=masks))
        stays = (
            f"On texts of other kinds, where other rules part from yours, {_share(least)} "
            f"stays, at least."
        )
        return self._verdict(least >= ENOUGH, stays, told)

    def _rivals(self) -> Iterator[Program]:
        """The hypothesis with one head looking elsewhere."""
        looks = [
            *map(programs.back, (1, 2, 3, 4, 7)),
            programs.where("token", itself=False),
            programs.everywhere(),
        ]
        for name, head in self.program.heads.items():
            for look in [*looks, *(programs.Look((term,)) for term in head.look.terms)]:
                heads = self.program.heads | {name: head._replace(look=look)}
                with contextlib.suppress(ValueError):
                    yield Program(
                        *({one: heads[one] for one in layer} for layer in self.program.layers)
                    )

    def _needs_all(self) -> bool:
        """Whether something is lost without each part, in the whole model or where another head is
        gone.
        """
        worlds = [(), *((head,) for head in self.heads.values())]
        parts = {
            f"head {name}": {door for door in self.doors if door[0] == head}
            for name, head in self.heads.items()
        }
        between: Any = [door for door in self.doors if len(door) == 3]
        for door in between:
            parts[interventions.in_words(door).replace("e.m", "the token")] = {door}
        least = 1.0
        for name, doors in sorted(parts.items()):
            costs = (self._cost(doors, n, gone) for gone in worlds for n in (0, 1))
            least = min(least, next((cost for cost in costs if cost >= COSTS), 0.0))
            if least < COSTS:
                return self._verdict(
                    False, f"Without {name} hardly anything is lost. Is it needed?"
                )
        needed = "Each part is needed, at once or when what it stands in for is cut"
        return self._verdict(True, f"{needed}: {_share(least)} is lost, at least.")

    def _saves(self, gone: Head) -> float:
        """The share that the model saves without a head."""
        about, whole = self.about(0, gone), self.about(0)
        found = kept(whole.logits, about.logits, whole.logits.roll(1, 0), self.box.counts(0))
        return found.share if found else 0.0

    def _cost(self, dropped: set[Edge], n: int, gone: tuple[Head, ...]) -> float:
        """What is lost without some doors: behind them stands another text's, or nothing, whichever
        costs more.
        """
        about, doors = self.about(n, *gone), self._left(gone)
        sure = self.box.counts(n) & (says(about.reference) > SURE)

        def score(doors: set[Edge], zero: Collection[Edge] = ()) -> float:
            logits, looked = self.box.scrubbed(about.cache, doors, {}, zero)
            found = kept(about.reference, logits, about.logits.roll(1, 0), self.box.counts(n))
            speak = [head for head in self.speakers if head in looked]
            on = (
                (looked[head] * (about.looks[head] > 0)).sum(-1)[sure].mean().item()
                for head in speak
            )
            return min([found.share if found else 1.0, *on])

        if (n, gone, "score") not in self._known:
            self._known[n, gone, "score"] = score(doors)
        dropped = dropped & doors
        costs = (
            self._known[n, gone, "score"] - score(doors - dropped, zero)
            for zero in ((), dropped)
            if dropped
        )
        return next((cost for cost in costs if cost >= COSTS), 0.0)

    def _is_all(self) -> bool:
        """Whether what is named goes on as the model does, when any one of its heads is gone."""
        reserves = [(head,) for head in self.heads.values() if self._saves(head) > STEPS_IN]
        for gone in reserves:
            saves, share = self._saves(*gone), self._least(0, *gone)[0]
            saved = (
                f"With {head_name(*gone)} gone, the model saves {_share(saves)}, and what "
                f"you named {_share(share)}."
            )
            if not self._verdict(
                share >= ENOUGH * saves, saved, "Who makes up for it?"
            ) or not self._looks(*gone):
                return False
        return bool(reserves) or self._verdict(
            True, "Nothing else steps in when a head that you named is gone."
        )


def _share(number: float) -> str:
    return f"{100 * min(1.0, max(number, 0)):.0f} %"


def _text(tokens: Int[Tensor, " pos"]) -> str:
    return f"“{''.join(LETTERS[token] for token in tokens.tolist())}”"
