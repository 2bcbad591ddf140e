"""Lesson 11: a causal claim about a sealed model, tried by intervention on the spot.

A claim is a list of statements, sentences of the forms below. Whether a statement is true, the model itself says when
it is cut or given another text: no answer is stored anywhere. Costs are rises of the loss in nats, at the tokens of the
second block from the third on; a cut puts zero in, as everywhere in the course.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad
from transformer_lens import HookedTransformer

from course_utils import heads, interventions, models, plots
from course_utils.course.exercises import EXERCISES, Answer, Exercise
from course_utils.course.guard import Guarded
from course_utils.course.questions import Wrong, demand
from course_utils.interventions import Cut, Head, head_name
from course_utils.lessons.l11_final_case import cases

MATTERS, NOTHING = 1.0, 0.5  # nats: what matters costs at least so much; what does not, less, whatever else is cut
LOOKS = 0.4  # the share of its attention with which a head looks somewhere
ENOUGH = 0.75  # the share of what all heads save that the named heads and doors must save alone
MADE_UP = 0.5  # of that, less than this share may be made up for by others once a named head is cut
DOORS = {"queries": "q", "keys": "k", "values": "v"}
ASKED = cases.PERIOD + 2  # the first position whose prediction counts; two tokens have repeated there
HEAD = r"(\d\.\d)"
_one = partial(plots.written, spec=".1f")


class Box:
    """A sealed model, and what becomes of it under a cut."""

    def __init__(self, model: HookedTransformer) -> None:
        self.model, self.texts = model, cases.texts()
        self.heads = [(layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads)]
        self._losses: dict[frozenset[Cut], float] = {}

    def loss(self, *cuts: Cut) -> float:
        """Nats per token that counts, with these parts cut."""
        if (key := frozenset(cuts)) not in self._losses:
            with interventions.cut(self.model, *key):
                nats = self.model(self.texts, return_type="loss", loss_per_token=True)
            self._losses[key] = nats[:, ASKED:].mean().item()
        return self._losses[key]

    def cost(self, cut: Cut, *when: Cut) -> float:
        """What a cut costs while others are made."""
        return self.loss(cut, *when) - self.loss(*when)

    def most(self, cut: Cut, *when: Cut) -> float:
        """What a cut costs at most, alone or while one more head is cut."""
        others = [other for other in self.heads if other != cut]
        return max(self.cost(cut, *when), *(self.cost(cut, other, *when) for other in others))

    def attention(self, head: Head, when: tuple, tokens: Tensor) -> Float[Tensor, "batch dest src"]:
        """Where a head looks, with these parts cut."""
        with interventions.cut(self.model, *when):
            return heads.patterns(self.model, tokens)[head]

    def writes(self, head: Head, *when: Cut) -> Float[Tensor, "batch dest d_model"]:
        """What a head adds to the stream where it counts, with these parts cut."""
        name = f"blocks.{head[0]}.attn.hook_z"
        with interventions.cut(self.model, *when):
            z = self.model.run_with_cache(self.texts, names_filter=name)[1][name]
        return z[:, ASKED:-1, head[1]] @ self.model.W_O[head]

    def says(self, head: Head, *when: Cut) -> float:
        """What a head adds to the logit of the token that comes, where it counts; the average token gets 0."""
        logits = self.writes(head, *when) @ self.model.W_U
        return (logits.gather(-1, self.texts[:, ASKED + 1 :, None])[..., 0] - logits.mean(-1)).mean().item()


@dataclass(frozen=True)
class Verdict:
    """+1 for what is true, −1 for what is false, 0 for what is true and says nothing; and the evidence in words."""

    points: int
    evidence: str
    named: tuple[Cut, ...] = ()  # the heads and doors that a true statement brings into the account
    looks: bool = False


# What can be stated: what is false returns the evidence alone


def _matters(box: Box, when: tuple, head: Head) -> Verdict | str:
    cost = box.cost(head, *when)
    if cost >= MATTERS:
        return _true(f"without it the loss is {_one(cost)} nats higher", when, box.cost(head), head)
    only = f"its cut costs only {_one(cost)} nats"
    if (beside := box.most(head, *when)) >= MATTERS:
        return f"{only}, but {_one(beside)} beside another cut. Who stands in?"
    if _looks_sharply(box, when, head):
        return f"{only}. It looks at one clear place, but who hears it?"
    return f"{only}, and little more beside another cut"


def _does_not_matter(box: Box, when: tuple, head: Head) -> Verdict | str:
    cost, beside = _one(box.cost(head)), _one(box.most(head))
    if box.cost(head) >= NOTHING:
        return f"without it the loss is {cost} nats higher"
    if box.most(head) >= NOTHING:
        return f"alone its cut costs {cost} nats, but beside another cut {beside}: a reserve is no idler"
    if not _looks_sharply(box, (), head):
        return Verdict(0, "true, but no point: it looks nowhere in particular, so nobody would have suspected it")
    return Verdict(1, f"it looks at one clear place, but its cut costs {beside} nats at most, whatever else is cut")


def _needs(box: Box, when: tuple, reader: Head, writer: Head, door: str) -> Verdict | str:
    otherwise = "only a head of an earlier layer is there to be read."
    demand(writer[0] < reader[0], f"{head_name(reader)} can't need {head_name(writer)}: {otherwise}")
    this = (writer, DOORS[door], reader)
    cost = box.cost(this, *when)
    if cost >= MATTERS:
        evidence = f"cut there and nowhere else, the loss is {_one(cost)} nats higher"
        return _true(evidence, when, box.cost(this), reader, writer, this)
    only = f"the cut costs only {_one(cost)} nats"
    others = [(writer, other, reader) for other in DOORS.values() if other != DOORS[door]]
    if (elsewhere := max(box.cost(other, *when) for other in others)) >= MATTERS:
        return f"right heads, wrong door: {only}; through another door, {_one(elsewhere)}"
    if (beside := box.most(this, *when)) >= MATTERS:
        return f"the {door}, yes; but {only}, and {_one(beside)} beside another cut: something stands in"
    before, after = box.writes(reader, *when), box.writes(reader, this, *when)
    if (after - before).norm() > before.norm() / 2:  # of what it writes, whatever that is good for
        return f"the {door} do hear it, but {only}: nothing comes of what {head_name(reader)} does with it"
    matter = [head_name(head) for head in (reader, writer) if box.most(head) >= NOTHING]
    who = {0: "neither of them matters", 1: f"{' '.join(matter)} matters, but the other does not"}
    return f"{only}: {who.get(len(matter), 'both matter, but not in this way')}"


def _stands_in(box: Box, when: tuple, head: Head, missing: Head) -> Verdict | str:
    demand(head != missing, "one head can't stand in for itself.")
    cost, then = box.cost(missing), box.cost(head, missing)
    before, after = box.says(head), box.says(head, missing)
    name, adds = head_name(missing), f"it adds {_one(before)} to the right logit"
    if cost >= MATTERS:
        return f"without {name} the loss is {_one(cost)} nats higher: nobody stands in for it"
    if then < MATTERS:
        return f"with {name} cut, cutting {head_name(head)} too costs only {_one(then)} nats"
    if after < before + 1:
        return f"{adds}, with {name} and without: it does not step in"
    evidence = f"{adds}, and {_one(after)} once {name} is cut; to cut it too costs {_one(then)} nats"
    return Verdict(1, evidence, (head, missing))


def _looks(box: Box, when: tuple, head: Head, where: str) -> Verdict | str:
    rule = _PLACES.get(where) or partial(_by_distance, int(where.split()[0]))
    own, elsewhere, texts = rule(partial(box.attention, head, when))
    share = f"{_share(elsewhere)} of its attention"
    if elsewhere < LOOKS:
        also, why = ("but", ": it goes by another rule") if own >= LOOKS else ("and", "")
        return f"in the second block, {_share(own)} of its attention; {also} {texts}, {_share(elsewhere)}{why}"
    if box.most(head) < NOTHING:
        return Verdict(0, f"true, {share}; but no point: does anything depend on it?")
    if when and isinstance(_looks(box, (), head, where), Verdict):
        return Verdict(0, f"true, {share}; but no point: so it does without your condition")
    return Verdict(1, f"{share} {texts}", (head,), looks=True)


def _true(evidence: str, when: tuple, without: float, *named: Cut) -> Verdict:
    """A point, but none for a condition that changes nothing; `without` it, the cut costs so much."""
    if when and without >= MATTERS:
        return Verdict(0, f"true, but no point: {_one(without)} nats without your condition")
    return Verdict(1, evidence, named)


def _share(number: float) -> str:
    return f"{100 * max(number, 0):.0f} %"


def _looks_sharply(box: Box, when: tuple, head: Head) -> bool:
    """Whether most of a head's attention falls at one distance, where it counts: then it looks like a suspect."""
    look = partial(box.attention, head, when)
    return any(_by_distance(n, look)[0] >= LOOKS for n in range(1, ASKED))


# Where a head looks: a share on the box's own texts, another on texts where nothing else could guide it, and which

Look = Callable[[Tensor], Tensor]  # tokens → [batch, dest, src]
Found = tuple[float, float, str]


def _on(pattern: Float[Tensor, "batch ... src"], marks: Bool[Tensor, "batch ... src"]) -> float:
    """The attention on marked sources, averaged over destinations that have any."""
    return (pattern * marks).sum(-1)[marks.any(-1)].mean().item()


def _by_marks(look: Look, marks: Look, other: Tensor, said: str) -> Found:
    """The attention on what `marks` marks: on the boxes' texts where it counts, and on others."""
    texts = cases.texts()
    own = marks(texts)
    own[:, :ASKED] = own[:, -1] = False
    return _on(look(texts), own), _on(look(other), marks(other)), said


def _by_distance(n: int, look: Look) -> Found:
    demand(1 <= n < ASKED, f"nobody can look {n} back at all tokens that count: take a number from 1 to {ASKED - 1}.")

    def back(tokens: Tensor) -> Tensor:
        marks = torch.ones(tokens.shape[1] - n).diag(-n).bool()
        marks[:, cases.START] = False
        return marks.repeat(len(tokens), 1, 1)

    return _by_marks(look, back, pad(cases.blocks(cases.D_VOCAB - 1), (1, 0)), "where no token comes twice")


def _by_one_token(ago: int, look: Look) -> Found:
    """`ago` 0 looks at the earlier copy of the token, 1 right after it."""

    def found(tokens: Tensor) -> Tensor:
        copies = (tokens[:, :, None] == tokens[:, None]).tril(-1)
        return pad(copies, (ago, 0))[..., : tokens.shape[1]]

    block, order = cases.blocks(11), cases.blocks(11, 1, among=11)[0] - 1
    other = pad(torch.cat([block, block[:, order]], dim=1), (1, 0))
    return _by_marks(look, found, other, "where the same tokens come again in another order")


def _by_two_tokens(look: Look) -> Found:
    """In the text x a b … y a c … x a, it must prefer b to c, whichever comes first."""
    x, a, b, y, c, *rest = cases.blocks(18).split(1, dim=1)
    net = 0.0
    for sign, first, second in ((1, (x, a, b), (y, a, c)), (-1, (y, a, c), (x, a, b))):
        tokens = torch.cat([*rest[:4], *first, *rest[4:8], *second, *rest[8:], x, a], dim=1)
        pattern = look(pad(tokens, (1, 0)))[:, -1]
        net += sign * (pattern[:, 7] - pattern[:, 14]).mean().item() / 2
    return _by_one_token(1, look)[0], net, "in favour of two fitting tokens over one"


def _by_certain_tokens(look: Look) -> Found:
    """Whatever token it looks at, it still finds it when all that was read before is shuffled."""
    texts = cases.texts()
    dest, shuffled = texts.shape[1] - 2, texts.clone()
    orders = [cases.blocks(dest - 1, 1, seed, among=dest - 1) for seed in range(len(texts))]
    shuffled[:, 1:dest] = texts.gather(1, torch.cat(orders))
    own, moved = (look(tokens)[:, dest, :dest] for tokens in (texts, shuffled))
    token = texts.gather(1, 1 + own[:, 1:].argmax(-1, keepdim=True))  # [batch, 1]
    here, elsewhere = _on(own, (texts == token)[:, :dest]), _on(moved, (shuffled == token)[:, :dest])
    return here, elsewhere, "at the same token after all before it was shuffled"


_PLACES: dict[str, Callable[[Look], Found]] = {
    "at the same token": partial(_by_one_token, 0),
    "right after the same token": partial(_by_one_token, 1),
    "right after the same two tokens": _by_two_tokens,
    "at certain tokens": _by_certain_tokens,
}


STATEMENTS: dict[str, Callable[..., Verdict | str]] = {
    f"{HEAD} matters": _matters,
    f"{HEAD} does not matter": _does_not_matter,
    f"{HEAD} needs {HEAD} through its (queries|keys|values)": _needs,
    f"{HEAD} stands in for {HEAD}": _stands_in,
    rf"{HEAD} looks (\d+ back|{'|'.join(_PLACES)})": _looks,
}
FORMS = {  # how a statement goes on, by its verb
    "needs": "“1.2 needs 0.3 through its keys”, or queries, or values",
    "looks": ", ".join(["“1.2 looks 5 back”", *(f"“… {place}”" for place in _PLACES)]),
    "": "“1.2 matters”, “… does not matter”, “… needs 0.3 through its keys”, “… stands in for 0.3”, “… looks 5 back”",
}


# A claim


def tried(box: Box, claim: Sequence[str]) -> list[Verdict]:
    """The verdict on each statement of a claim. Raises Wrong for one that can't be read."""
    plain = [statement.lower().replace("doesn't", "does not").strip(" .") for statement in claim]
    said = [" ".join(words.split()) for words in plain]
    again = Verdict(0, "said already")
    return [again if words in said[:place] else _verdict(box, words) for place, words in enumerate(said)]


def _verdict(box: Box, words: str) -> Verdict:
    condition = re.fullmatch(rf"when {HEAD} is cut,? (.*)", words)
    when, words = ((_head(box, condition[1]),), condition[2]) if condition else ((), words)
    for form, judge in STATEMENTS.items():
        if found := re.fullmatch(form, words):
            tries_others = judge in (_does_not_matter, _stands_in)
            demand(not (when and tries_others), f"“{words}” takes no condition: it looks at other cuts by itself.")
            parts = [_head(box, part) if re.fullmatch(HEAD, part) else part for part in found.groups()]
            verdict = judge(box, when, *parts)
            return Verdict(-1, verdict) if isinstance(verdict, str) else verdict
    verb = next(verb for verb in FORMS if verb in words)
    raise Wrong(f"“{words}” can't be tried. Say {FORMS[verb]}.")


def _head(box: Box, name: str) -> Head:
    layer, head = map(int, name.split("."))
    sentence = f"the boxes have the heads 0.0 to 0.3 and 1.0 to 1.3, and {name} is none of them."
    demand((layer, head) in box.heads, sentence)
    return layer, head


def _saved(box: Box, *cuts: Cut) -> float:
    """The share of what all heads save that is left under cuts; 0 where they save nothing."""
    nothing, whole = box.loss(*box.heads), box.loss()
    return (nothing - box.loss(*cuts)) / (nothing - whole) if nothing - whole >= MATTERS else 0.0


def _split(box: Box, verdicts: Sequence[Verdict]) -> tuple[set[Cut], list[Cut]]:
    """The heads and doors that true statements name, and all others."""
    named = {part for verdict in verdicts if verdict.points > 0 for part in verdict.named}
    doors: list[Cut] = [(a, door, b) for a in box.heads for door in "qkv" for b in box.heads if a[0] < b[0]]
    return named, [part for part in (*box.heads, *doors) if part not in named]


def explained(box: Box, verdicts: Sequence[Verdict]) -> float:
    """The share of what all heads save that is left when everything is cut but what true statements name."""
    return _saved(box, *_split(box, verdicts)[1])


def made_up(box: Box, verdicts: Sequence[Verdict]) -> tuple[Head, float, float]:
    """The named head for whose cut others make up most, and what the whole model and the named parts save without it.

    After the completeness of Wang et al. 2022, for one head at a time: what is named must break as the model does.
    """
    named, others = _split(box, verdicts)
    without = [(head, _saved(box, head), _saved(box, head, *others)) for head in box.heads if head in named]
    return max(without, key=lambda each: each[1] - each[2])


class Case(Exercise):
    """The claim about one sealed model: the answer returns a list of statements; each gets a line with the evidence."""

    report: list[str]  # what stands behind the verdict, a line for each statement

    def __init__(self, number: int) -> None:
        def check(answer: Answer) -> None:
            self.report = []
            claim, box = _statements(answer()), sealed(number)
            verdicts = tried(box, claim)
            self.report = _lines(claim, verdicts)
            false = sum(verdict.points < 0 for verdict in verdicts)
            demand(not false, f"{false} of {len(claim)} statements false.")
            share = f"what you named saves {_share(explained(box, verdicts))} of what all heads save"
            self.report[-1] += f"; alone, {share}"
            demand(explained(box, verdicts) >= ENOUGH, f"nothing is false, but {share}. What else does it need?")
            demand(any(verdict.looks for verdict in verdicts), f"{share}. Now say where one of these heads looks.")
            head, whole, part = made_up(box, verdicts)
            cut = f"with {head_name(head)} cut, the whole model saves {_share(whole)}"
            saves = f"{cut} and what you named {_share(part)}"
            demand(whole - part < MADE_UP, f"nothing is false, but {saves}. Who makes up for it?")

        super().__init__(f"case_{number}", check)

    def __call__(self, answer: Answer) -> Answer:
        if callable(answer):
            self._say("\n".join([self._shown(Guarded(answer)), *self.report]))
        else:
            self._say(f"✗ {self.name}: give the check your function itself, not {type(answer).__name__}.")
        return answer


def _statements(value: Any) -> list[str]:
    sentences = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    demand(sentences, "return a list of sentences.")
    demand(len(value) > 0, "the list is empty: state at least one thing.")
    return list(value)


def _lines(claim: Sequence[str], verdicts: Sequence[Verdict]) -> list[str]:
    signs = {1: "+1", -1: "−1", 0: " 0"}
    told = ((v.points, f"{said.strip(' .')}: {v.evidence}") for said, v in zip(claim, verdicts, strict=True))
    lines = [f"  {signs[points]}  {line}{'' if line.endswith('?') else '.'}" for points, line in told]
    return [*lines, f"  points: {sum(verdict.points for verdict in verdicts)}".replace("-", "−")]


@cache
def sealed(number: int) -> Box:
    """The box with this number."""
    return Box(models.load(f"cases/{number}"))


def case(number: int, *claim: str | Answer) -> Answer | None:
    """Try a claim about the sealed model `number`, and print what the model says to each statement.

    `claim` is the function of an exercise, which gets a verdict and is returned, or statements, one by one.
    """
    last = len(cases.COMPILED)
    try:
        demand(number in range(last + 1), f"There are the boxes 0 to {last}, and {number!r} is none of them.")
        if len(claim) == 1 and callable(claim[0]) and f"case_{number}" in EXERCISES:
            return EXERCISES[f"case_{number}"](claim[0])
        statements = _statements(claim)
        print(*_lines(statements, tried(sealed(number), statements)), sep="\n")
    except Wrong as problem:
        print(f"✗ {problem}")
    return None


case_1, case_2, case_3, case_4, case_5, case_6, case_7, case_8 = map(Case, range(1, 9))
