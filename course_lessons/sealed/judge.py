"""Lesson 11's judge: can a hypothesis take a sealed model's place?

A hypothesis is a program whose heads have the model's names: {"0.1": Head(back(3), {"token":
"moved"}), "1.0": …}. It says where each head looks, what is moved, and so which doors are read.
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
from course_lessons.programs import Program
from course_lessons.sealed import languages, places
from course_utils import interventions
from course_utils.course.expectations import Wrong, demand
from course_utils.interventions import Edge, Head, head_name
from course_utils.models import all_heads

# the share of what the model saves that must stay when the hypothesis takes its place
ENOUGH = 0.75
COSTS = 0.1  # the share that is lost, at least, without a part that was named
# the share that the model saves without a named head, from which on another takes over
TAKES_OVER = 0.6
# the probability from which on a model says something; two places that tie give a half each
SURE = 0.8
# nothing is judged by fewer places where something is said, or by a smaller share of places
MANY, OFTEN = 20, 0.2
LETTERS = "·abcdefghijklmnopqrst"
EVERYWHERE = (torch.tensor(True),)
# how many texts before this one is the other text that each door reads: queries and keys of one
# text would go on agreeing about it
BEFORE = {"logits": 1, "q": 2, "k": 3, "v": 4}
QUESTIONS = ("where?", "is it enough?", "is it this rule?", "is each part needed?", "is it all?")


class SealedBox:
    """A sealed model, and texts that only the judge has.

    Unseen ones of its language come first, then other kinds.
    """

    def __init__(self, model: HookedTransformer, language: str = "blocks") -> None:
        self.model, self.language = model, language
        self.heads = all_heads(model)
        self.texts = [languages.texts(language, shown=False), *languages.pool(language)]

    def counts(self, n: int) -> Bool[Tensor, "batch pos"]:
        """The places whose prediction may count, in the texts number `n`."""
        length = self.texts[n].shape[1]
        first = length // 2 + 2  # the second time that a block is read
        if self.language == "template":
            first = length - 2
        elif self.language == "blocks" and n > 0:
            first = 1
        at = torch.ones_like(self.texts[n]).bool()
        at[:, :first] = False
        at[:, -1] = False
        return at

    def scrubbed(
        self,
        cache: ActivationCache,
        doors: set[Edge],
        looks: Mapping[Head, Tensor],
        zero: Collection[Edge] = (),
    ) -> tuple[Float[Tensor, "batch pos d_vocab"], dict[Head, Tensor]]:
        """Logits, and where heads look, when only these doors carry the text's own.

        All else is another text's, a different one for queries, keys, values and logits. Heads in
        `looks` look there, others by themselves. What stands behind the doors of `zero` is missing.
        """
        model = self.model
        looked: dict[Head, Tensor] = {}
        own: dict[Any, Tensor] = {"embed": cache["embed"]}  # what writers write on this text

        def written(writer: Any) -> Tensor:
            """What a writer writes in the model as it is."""
            if writer == "embed":
                return cache["embed"]
            layer, head = writer
            return cache["z", layer][:, :, head] @ model.W_O[writer]  # [batch, pos, d_model]

        def read(stream: Tensor, *door: Any) -> Tensor:
            """Another text's stream, in which the doors that lead here carry this text's own."""
            before = BEFORE[door[0]]
            named = [writer for writer, *rest in doors if tuple(rest) == door]
            missing = [writer for writer, *rest in zero if tuple(rest) == door]
            changes = [own[writer] - written(writer).roll(before, 0) for writer in named]
            changes += [-written(writer).roll(before, 0) for writer in missing]
            return sum(changes, stream.roll(before, 0))

        ends = {end for door in doors for end in (door[0], door[-1])}
        for this in sorted(end for end in ends if isinstance(end, tuple)):
            layer, head = this
            stream = cache["resid_pre", layer]  # [batch, pos, d_model]
            attention: Any = model.blocks[layer].attn
            q = read(stream, "q", this) @ attention.W_Q[head]  # [batch, pos, d_head], as k and v
            k = read(stream, "k", this) @ attention.W_K[head]
            v = read(stream, "v", this) @ attention.W_V[head]
            if this in looks:
                looked[this] = looks[this]  # [batch, dest, src]
            else:
                scores = q @ k.mT / math.sqrt(model.cfg.d_head)
                hidden = torch.ones_like(scores).triu(1).bool()
                looked[this] = scores.masked_fill(hidden, -torch.inf).softmax(-1)
            own[this] = looked[this] @ v @ attention.W_O[head]
        last = read(cache["resid_post", model.cfg.n_layers - 1], "logits")
        return last @ model.W_U + model.b_U, looked


def programmed(box: SealedBox, hypothesis: Any) -> tuple[Program, dict[str, Head], set[Edge]]:
    """A hypothesis as a program, the model's head for each name, and the doors.

    Raises Wrong for what is none.
    """
    names = {head_name(head): head for head in box.heads}
    _require_heads(hypothesis, names, box.model.cfg.d_vocab)
    layers: list[dict[str, programs.Head]] = [{}, {}]
    for name, head in hypothesis.items():
        layer, _ = names[name]
        layers[layer][name] = head
    try:
        program = Program(*layers)
    except ValueError as problem:
        raise Wrong(str(problem)) from None
    reads = program.reads()
    for name in sorted(program.heads.keys() - reads.keys()):
        raise Wrong(f"{name} is named, but nothing that your hypothesis says depends on it.")
    read = {"out"}.union(*(slots for doors in reads.values() for slots in doors.values()))
    for name, head in program.heads.items():
        for slot in head.moves.values():
            demand(slot in read, f'{name} writes to "{slot}", which nobody reads: leave it out.')

    # what each head reads: other heads, and the token itself; and what the logits read
    doors: set[Edge] = set()
    for writer, door, reader in program.doors():
        doors.add((names[writer], door, names[reader]))
    for name, by_door in reads.items():
        for door, slots in by_door.items():
            if "token" in slots:
                doors.add(("embed", door, names[name]))
    for name, head in program.heads.items():
        if "out" in head.moves.values():
            doors.add((names[name], "logits"))
    return program, {name: names[name] for name in sorted(program.heads)}, doors


def _require_heads(hypothesis: Any, names: Collection[str], n: int) -> None:
    """Raise Wrong for what does not say of heads with these names what they do, on n tokens."""
    is_one = isinstance(hypothesis, Mapping) and all(
        isinstance(one, programs.Head) for one in hypothesis.values()
    )
    example = '{"0.1": Head(back(1), {"token": "before"}), …}'
    what = f"a hypothesis names heads and says what they do: {example}."
    demand(is_one and len(hypothesis) > 0, what)
    for name, head in hypothesis.items():
        none = f"the boxes have the heads 0.0 to 0.3 and 1.0 to 1.3, and {name} is none of them."
        demand(name in names, none)
        demand(head.loud == 1, f"how loud {name} is can't be tried here: leave `loud` out.")
    table = f"a table for `listed` has a row and a column for each token: torch.zeros({n}, {n})."
    for head in hypothesis.values():
        demand(all(term.points(n, n).shape == (n, n) for term in head.look.terms), table)


class Kept(NamedTuple):
    """The share of what a model saves that is left, and the text and the place where least is."""

    share: float
    place: tuple[int, int]


def kept(
    reference: Tensor, logits: Tensor, none: Tensor, at: Bool[Tensor, "batch pos"]
) -> Kept | None:
    """How much of what the model saves, beside `none`, is left in `logits`.

    Only places count where either of them says something. The loss is that at the token which the
    model finds likeliest, and at most that of somebody who has no idea. None where there are too
    few places to judge by.
    """
    logits = logits.nan_to_num()  # a look that is no number says nothing
    sure = at & (torch.maximum(says(reference), says(logits)) > SURE)
    if int(sure.sum()) < max(MANY, OFTEN * int(at.sum())):
        return None

    # what each of three loses at the token that the model finds likeliest, [batch, pos]
    token = reference.argmax(-1, keepdim=True)  # [batch, pos, 1]
    most = math.log(reference.shape[-1] - 1)

    def loss(one: Tensor) -> Tensor:
        return (-one.log_softmax(-1).gather(-1, token)[..., 0]).clamp(max=most) * sure

    whole, this, no_idea = loss(reference), loss(logits), loss(none)
    lost = this - whole
    share = lost.sum() / (no_idea - whole).sum().clamp(min=1)
    text, place = divmod(int(lost.argmax()), sure.shape[1])
    return Kept(1 - share.item(), (text, place))


def says(logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "batch pos"]:
    """How likely the likeliest token is."""
    return logits.softmax(-1).amax(-1)


class About(NamedTuple):
    """Some texts, with some heads gone: what the model does, and what the hypothesis says."""

    tokens: Int[Tensor, "batch pos"]
    logits: Float[Tensor, "batch pos d_vocab"]
    cache: ActivationCache
    reference: Float[Tensor, "batch pos d_vocab"]  # what the whole model says
    looks: dict[Head, Float[Tensor, "batch dest src"]]
    said: Int[Tensor, "batch pos"]


class Trial:
    """A hypothesis on trial.

    `held` are sentences on what held, and `failed` is what did not. A question that fails is the
    last, unless all are wanted `to_the_end`; `answers` has the answer to each that was asked, and
    `stays` what stays of what the model saves at the second, a share.
    """

    @torch.no_grad()
    def __init__(self, box: SealedBox, hypothesis: Any, to_the_end: bool = False) -> None:
        self.box = box
        self.answers: dict[str, bool] = {}
        self.stays = 0.0
        self.held: list[str] = []
        self.failed: list[str] = []
        self.program, self.heads, self.doors = programmed(box, hypothesis)
        self.last = [door[0] for door in sorted(self.doors, key=str) if door[1] == "logits"]
        self._known: dict[Any, Any] = {}
        asked = (self._looks, self._is_enough, self._is_this_rule, self._needs_all, self._is_all)
        for question, ask in zip(QUESTIONS, asked, strict=True):
            self.answers[question] = ask()
            if not (self.answers[question] or to_the_end):
                break
        self.solved = all(self.answers.values())
        self.false = not all(self.answers.get(question) for question in QUESTIONS[:-1])

    @property
    def outcome(self) -> str:
        """ "false", "true" (but not all) or "solved"."""
        return "false" if self.false else "solved" if self.solved else "true"

    @property
    def digest(self) -> str:
        """What two hypotheses that say the same have in common."""
        looks = self.about(0).looks
        parts = [str(sorted(map(str, self.doors))).encode()]
        parts += [looks[head].numpy().tobytes() for head in sorted(looks)]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:12]

    def about(self, n: int, *gone: Head) -> About:
        """What is known of the texts number `n`, with some heads gone; worked out once."""
        if (n, gone) not in self._known:
            tokens, model = self.box.texts[n], self.box.model
            names = [name for name, head in self.heads.items() if head in gone]
            left = [name for name in self.program.heads if name not in names]
            ran = programs.run(self.program, tokens, model.cfg.d_vocab, without=names)
            with interventions.cut(model, *gone):
                cache = model.run_with_cache(tokens, return_type=None)[1]
            looks = {self.heads[name]: ran.looks[name] for name in left}
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
        """Whether each head looks where the hypothesis says, wherever it is read.

        All such places are asked, and those with one letter, each letter in turn.
        """
        asked = {head: places.Asked() for head in self.heads.values() if head not in gone}
        for n in range(len(self.box.texts)):
            about = self.about(n, *gone)
            sure = self.box.counts(n) & (says(about.logits) > SURE)
            if sure.sum() < MANY:
                continue
            own = {head: about.cache["pattern", head[0]][:, head[1]] for head in about.looks}
            for head, at in places.counted(self.doors, own, sure).items():
                asked[head].add(n, about.tokens, own[head], about.looks[head], at)

        without = f"With {head_name(gone[0])} gone, " if gone else ""
        each = "each head looks where you say" if gone else "Each head looks where you say"
        limits = places.LEFT if gone else places.WHOLE
        least, held = 1.0, ""
        for head, one in asked.items():
            groups = list(one.groups(LETTERS, limits))
            wrong = [group for group in groups if group.share < group.limit]
            if wrong:
                # the first, and so the widest, of those that are about as bad
                worst = min(wrong, key=lambda group: round(group.share, 1))
                share = f"{_share(worst.share)} of the places {worst.which}"
                sentence = f"{without}{head_name(head)} looks where you say at {share}."
                n, text, place = worst.wrong
                about = self.about(n, *gone)
                own_look = about.cache["pattern", head[0]][text, head[1]]
                yours = about.looks[head][text]
                told = _told_look(about.tokens[text], place, yours[place], own_look[place])
                return self._verdict(False, sentence, told)
            if groups and groups[0].share <= least:
                least = groups[0].share
                held = f"{head_name(head)} at {_share(least)} of the places that count, at least."
        return not held or self._verdict(True, f"{without}{each}, {held}")

    def _least(
        self, n: int, *gone: Head, masks: Sequence[Tensor] = EVERYWHERE
    ) -> tuple[float, str]:
        """The least share that what is named keeps, at some places; a sentence.

        Its heads look in several ways.
        """
        about = self.about(n, *gone)
        least, told = 1.0, ""
        fetch = {head: look for head, look in about.looks.items() if head not in self.last}
        ways = {
            "where only the heads that write to out choose where to look": fetch,
            "where the heads choose where to look": {},
            "where the heads look as you say": about.looks,
        }
        no_idea, counts = about.logits.roll(1, 0), self.box.counts(n)
        for mode, looks in ways.items():
            logits = self.box.scrubbed(about.cache, self._left(gone), looks)[0]
            for mask in masks:
                found = kept(about.reference, logits, no_idea, counts & mask)
                if found and found.share < least:
                    least = found.share
                    text, place = found.place
                    model = _said(about.reference[text, place])
                    yours = _said(logits[text, place])
                    after = _text(about.tokens[text, : place + 1])
                    told = (
                        f"After {after} the model says {model}, and what you named {yours}, {mode}."
                    )
        return least, told

    def _left(self, gone: Sequence[Head]) -> set[Edge]:
        return {door for door in self.doors if not {*gone} & {door[0], door[-1]}}

    def _is_enough(self) -> bool:
        """Whether the prediction stays on unseen texts, for each letter and at each position."""
        tokens, said = self.about(0).tokens, self.about(0).logits.argmax(-1)  # [batch, pos]
        masks = [tokens == letter for letter in tokens.unique()]
        masks += [said == letter for letter in said.unique()]
        masks += list(torch.eye(tokens.shape[1]).bool())
        share, told = self._least(0, masks=[*EVERYWHERE, *masks])
        self.stays = share
        named = "With all that you did not name from other texts"
        stays = f"{_share(share)} of what the model saves stays, at least, on unseen texts."
        return self._verdict(share >= ENOUGH, f"{named}, {stays}", told)

    def _is_this_rule(self) -> bool:
        """Whether the same holds on texts of other kinds.

        It has to hold on each kind, and wherever another rule would say something else.
        """
        least, told = 1.0, ""
        rivals = list(self._rivals())
        d_vocab = self.box.model.cfg.d_vocab
        for n, tokens in enumerate(self.box.texts[1:], 1):
            own = self.about(n).said  # [batch, pos]
            kind = torch.arange(len(tokens))[:, None] // languages.FEW  # [batch, 1]
            masks = [kind == number for number in range(int(kind.max()) + 1)]
            for rival in rivals:
                said = programs.run(rival, tokens, d_vocab).said
                masks.append((own != programs.START) & (own != said))
            least, told = min((least, told), self._least(n, masks=masks))
        others = "On texts of other kinds, where other rules part from yours"
        stays = f"{others}, {_share(least)} stays, at least."
        return self._verdict(least >= ENOUGH, stays, told)

    def _rivals(self) -> Iterator[Program]:
        """The hypothesis with one head looking elsewhere."""
        looks = [
            *map(programs.back, (1, 2, 3, 4, 7)),
            programs.where("token", itself=False),
            programs.everywhere(),
        ]
        for name, head in self.program.heads.items():
            alone = [programs.Look((term,)) for term in head.look.terms]
            for look in looks + alone:
                heads = self.program.heads | {name: head._replace(look=look)}
                layers = [{one: heads[one] for one in layer} for layer in self.program.layers]
                with contextlib.suppress(ValueError):
                    yield Program(*layers)

    def _needs_all(self) -> bool:
        """Whether something is lost without each part.

        It may be lost in the whole model or where another head is gone.
        """
        worlds: list[tuple[Head, ...]] = [(), *((head,) for head in self.heads.values())]
        parts: dict[str, set[Edge]] = {}
        for name, head in self.heads.items():
            parts[f"head {name}"] = {door for door in self.doors if door[0] == head}
        for door in self.doors:
            if len(door) == 3:
                parts[_in_words(door)] = {door}
        least = 1.0
        for name, doors in sorted(parts.items()):
            costs = (self._cost(doors, n, gone) for gone in worlds for n in (0, 1))
            least = min(least, next((cost for cost in costs if cost >= COSTS), 0.0))
            if least < COSTS:
                hardly = f"Without {name} hardly anything is lost. Is it needed?"
                return self._verdict(False, hardly)
        needed = "Each part is needed, in the whole model or once another head is gone"
        return self._verdict(True, f"{needed}: {_share(least)} is lost, at least.")

    def _saves(self, gone: Head) -> float:
        """The share that the model saves without a head."""
        about, whole = self.about(0, gone), self.about(0)
        found = kept(whole.logits, about.logits, whole.logits.roll(1, 0), self.box.counts(0))
        return found.share if found else 0.0

    def _cost(self, dropped: set[Edge], n: int, gone: tuple[Head, ...]) -> float:
        """What is lost without some doors, of what is kept or of how well one head looks.

        Behind them stands another text's, or nothing, whichever costs more.
        """
        about, doors = self.about(n, *gone), self._left(gone)
        counts = self.box.counts(n)
        sure = counts & (says(about.reference) > SURE)
        no_idea = about.logits.roll(1, 0)

        def score(doors: set[Edge], zero: Collection[Edge] = ()) -> list[float]:
            """What is kept, and how well each head looks that writes to the logits."""
            logits, looked = self.box.scrubbed(about.cache, doors, {}, zero)
            found = kept(about.reference, logits, no_idea, counts)
            shares = [found.share if found else 1.0]
            for head in self.last:
                if head in about.looks:
                    look = looked.get(head, torch.zeros_like(about.looks[head]))
                    there = (look * (about.looks[head] > 0)).sum(-1)  # [batch, dest]
                    shares.append(there[sure].mean().item())
            return shares

        if (n, gone, "score") not in self._known:
            self._known[n, gone, "score"] = score(doors)
        whole = self._known[n, gone, "score"]
        dropped = dropped & doors
        behind: list[Collection[Edge]] = [(), dropped] if dropped else []
        for zero in behind:
            left = score(doors - dropped, zero)
            cost = max(before - after for before, after in zip(whole, left, strict=True))
            if cost >= COSTS:
                return cost
        return 0.0

    def _is_all(self) -> bool:
        """Whether what is named goes on as the model does, when any one of its heads is gone."""
        spared = [head for head in self.heads.values() if self._saves(head) > TAKES_OVER]
        for gone in spared:
            saves = self._saves(gone)
            share, _ = self._least(0, gone)
            model = f"With {head_name(gone)} gone, the model saves {_share(saves)}"
            saved = f"{model}, and what you named {_share(share)}."
            as_much = share >= ENOUGH * saves
            if not self._verdict(as_much, saved, "Which head takes over?") or not self._looks(gone):
                return False
        if spared:
            return True
        nothing = "No other head takes over when one that you named is gone."
        return self._verdict(True, nothing)


def _share(number: float) -> str:
    return f"{100 * min(1.0, max(number, 0)):.0f} %"


def _text(tokens: Int[Tensor, " pos"]) -> str:
    return f"“{''.join(LETTERS[token] for token in tokens.tolist())}”"


def _said(logits: Float[Tensor, " d_vocab"]) -> str:
    """The token that these logits say, if they say one."""
    return f"“{LETTERS[logits.argmax()]}”" if says(logits) > SURE else "nothing clearly"


def _told_look(
    tokens: Int[Tensor, " pos"],
    place: int,
    yours: Float[Tensor, " src"],
    own: Float[Tensor, " src"],
) -> str:
    """Where you say that a head looks from a place, and where it looks by itself."""
    named = [_back(place, src) for src in yours.nonzero()[:, 0].tolist()[::-1]]
    you = " and ".join(named) if len(named) < 4 else f"at {len(named)} positions"
    its = _back(place, int(own.argmax()))
    return f"At the end of {_text(tokens[: place + 1])} you say {you}, and it looks {its}."


def _back(place: int, src: int) -> str:
    """How far back a position is, in words."""
    if src == 0:
        return "at the start token"
    return "at its own place" if src == place else f"{place - src} back"


def _in_words(door: Any) -> str:
    """A door in words, also one through which a head reads the token itself."""
    writer, path, reader = door
    if writer != "embed":
        return interventions.in_words(door)
    there = interventions.in_words((reader, path, reader)).removeprefix(head_name(reader))
    return f"the token{there}"
