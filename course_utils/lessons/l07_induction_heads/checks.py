"""Checks of lesson 07, induction heads: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer

from course_utils import heads, models, text
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.fixtures import passes, random, tiny_model
from course_utils.course.questions import Wrong, close, demand, four_circuits, tensor

FUTURE = "you mark sources after their destination; a head can't look into the future."
NUMBERS = "it should hold True and False, and it holds other numbers."


def _copies(tokens: Tensor) -> Tensor:
    """[dest, src]: an earlier copy of the same token."""
    return (tokens[:, None] == tokens).tril(-1)


def _marks(tokens: Tensor, by: int = 1) -> Tensor:
    return _copies(tokens).roll(by, 1)


def _true_or_false(marks: Any) -> Any:
    if isinstance(marks, Tensor) and marks.dtype != torch.bool:
        demand(((marks == 0) | (marks == 1)).all(), NUMBERS)
        raise Wrong("it should hold True and False, which pick entries of a pattern, not 1 and 0.")
    return marks


def _drawn(size: int) -> list[int]:
    return (700 * torch.randint(0, 4, (size,), generator=torch.Generator().manual_seed(size))).tolist()


FOLLOWED = "in 0 4 7 9 4 8 the 7 at position 2 followed the earlier 4: the second 4 should look there."
ITSELF = "in 0 4 4 the second 4 is itself what came after the first: a head may look at its own position."
induction_targets = compared(
    "`induction_targets(tokens) → [dest, src]`: true where the source followed an earlier copy of dest's token.",
    returns="[dest, src]",
    cases=lambda: {
        sentence: (torch.tensor(tokens),)
        for sentence, tokens in {
            "in 0 4 7 4 8 4 the last 4 has two earlier copies; mark what followed each.": [0, 4, 7, 4, 8, 4],
            FOLLOWED: [0, 4, 7, 9, 4, 8],
            "where no token occurs twice, there is nothing to mark.": [0, 1, 2, 3, 4],
            ITSELF: [0, 4, 4],
            "in 4 7 4 the first 4, at position 0, is an earlier copy like any other.": [4, 7, 4],
            "in 9 random tokens something is marked that should not be, or missing.": _drawn(9),
            "in 14 random tokens something is marked that should not be, or missing.": _drawn(14),
        }.items()
    },
    mistakes={
        "in 0 4 7 9 4 8 the second 4 stands at position 4 and looks at position 2: the destination is on the rows.": (
            lambda t: _marks(t).T
        ),
        "in 0 4 7 9 4 8 you mark the earlier 4 itself; an induction head looks at what came after it.": (
            _copies,
            lambda t: _copies(t) | _marks(t),
            lambda t: torch.ones_like(_marks(t)).tril(),
        ),
        "in 0 4 7 9 4 8 you mark what came before the earlier 4, not what came after it.": (
            lambda t: _marks(t, -1),
            lambda t: _marks(t, -1) | _marks(t),
        ),
        FOLLOWED: lambda t: _marks(t, 2),
    },
    elsewhere={
        FUTURE: (
            lambda t: (t[:, None] == t).roll(1, 1),
            lambda t: (t[:, None] == t).fill_diagonal_(False).roll(1, 1),
        ),
        NUMBERS: lambda t: _marks(t) / _marks(t).sum(1, keepdim=True).clamp(min=1),
        "which pick entries of a pattern, not 1 and 0": lambda t: _marks(t).long(),
        "the last 4 has two earlier copies": lambda t: _marks(t) & (_marks(t).cumsum(1) == 1),
        "there is nothing to mark": lambda t: _marks(t) if _marks(t).any() else torch.eye(len(t)).bool(),
        ITSELF: lambda t: _marks(t).tril(-1),
        "is an earlier copy like any other": lambda t: _marks(t) & (t != t[0])[:, None],
        "in 14 random tokens something is marked": lambda t: _marks(t) & (torch.arange(len(t)) < 10),
    },
    also_right={
        "entry by entry": lambda t: torch.tensor(
            [[0 < src <= dest and bool(t[src - 1] == t[dest]) for src in range(len(t))] for dest in range(len(t))]
        ),
        "numpy": lambda t: np.pad(np.tril(t.numpy()[:, None] == t.numpy(), -1)[:, :-1], ((0, 0), (1, 0))),
        "the token before each source": lambda t: (t[:, None] == torch.cat([t[:1] - 1, t[:-1]])).tril(),
        "one-hot rows": lambda t: (torch.eye(2101)[t] @ torch.eye(2101)[t].T).tril(-1).roll(1, 1).bool(),
    },
    explain=lambda got, right, tokens: FUTURE if got.triu(1).any() else None,
    as_read=_true_or_false,
)


@judged
def induction_by_hand(answer: Answer) -> None:
    """`induction_by_hand(V, n_ctx) → QK1, OV1, QK2, OV2`: the circuits of two heads that do induction together.

    Any that do: scores and sizes are free, and so is what a label looks like.
    """
    for V, n_ctx, period in ((7, 13, 4), (9, 17, 8)):
        circuits = four_circuits(answer(V, n_ctx), 2 * V + n_ctx, "2 · V + n_ctx")
        tokens = passes(V, n_ctx, period)
        built = models.from_circuits(circuits[0::2], circuits[1::2], V, n_ctx)
        logits, (_, run) = built(tokens), built.run_with_cache(tokens)
        first, second = (run["pattern", layer][:, 0] for layer in (0, 1))
        _demand_looking_back(first)
        stream, now = run["resid_post", 0], torch.nn.functional.one_hot(tokens, V)
        labelled = not close(stream[..., V:], torch.zeros_like(stream[..., V:]))
        demand(
            labelled or close(stream[..., :V], now),
            "what the first head writes lands on the dimensions of the token itself; a key can't tell “I am A” from “I "
            "come after A” then. Write it where the stream is empty.",
        )
        demand(
            labelled, "the first head writes nothing into the stream: OV1 is [from, to], from the token's dimensions."
        )
        copies = (tokens[:, :, None] == tokens[:, None]).tril(-1)  # [text, dest, src]: an earlier A
        before, at, after = ((second * copies.roll(by, 2)).sum(2)[:, period + 1 :].mean().item() for by in (-1, 0, 1))
        demand(at < 0.5, "the second head looks at the earlier A itself: let its key read what the first head wrote.")
        demand(before < 0.5, "the second head looks at what stood before the earlier A: are query and key exchanged?")
        demand(
            after > 0.98,
            f"the second head gives the earlier B {after:.2f} of its attention: its query should hold the token, its "
            "key the token before, and the scores should be large.",
        )
        said, asked, right = logits.argmax(-1)[:, period + 1 : -1], tokens[:, period + 1 : -1], tokens[:, period + 2 :]
        demand(
            (said == asked).float().mean() < 0.5,
            "the second head looks at B, but the model says A again: the direct path gives A's own logit 10. Let what "
            "is copied be louder than that.",
        )
        demand(
            (said == right).all(),
            "the second head looks at B, but the model does not say B: does OV2 bring B's token to where W_U reads, "
            "and is it loud enough?",
        )


def _demand_looking_back(first: Tensor) -> None:
    """Demand of a pattern that it attends one back."""
    own, one, two = (first.diagonal(-back, 1, 2)[:, 2:].mean().item() for back in (0, 1, 2))
    even = (1 / torch.arange(4, first.shape[-1] + 1)).mean().item()
    demand(own < 0.5, "the first head looks at its own position, not at the one before.")
    demand(two < 0.5, "the first head looks two back.")
    demand(
        abs(one - even) > 0.05,
        "the first head looks at all positions alike: QK1 is [query, key]; a query at n should fit the key at n − 1.",
    )
    demand(one > 0.98, f"the first head gives the token before it {one:.2f} of its attention: make its scores larger.")


def _by_hand(back: int = -1, sharp: float = 30, match: float = 30, loud: float = 2, **to: Any) -> Answer:
    """Our answer, with something to get wrong, or to make otherwise, in the keywords."""
    OV1, QK2, OV2 = ({"OV1": ("token", "label"), "QK2": ("token", "label"), "OV2": ("token", "token")} | to).values()

    def answer(V: int, n_ctx: int) -> tuple[Tensor, ...]:
        part = {"token": slice(V), "place": slice(V, V + n_ctx), "label": slice(V + n_ctx, None)}
        made = torch.zeros(4, 2 * V + n_ctx, 2 * V + n_ctx)
        made[0, part["place"], part["place"]] = sharp * torch.diag(torch.ones(n_ctx - abs(back)), back)
        for matrix, (rows, columns), size in zip(made[1:], (OV1, QK2, OV2), (1, match, loud), strict=True):
            matrix[part[rows], part[columns]] = size * torch.eye(V)
        return tuple(made)

    return answer


def _by_distance(V: int, n_ctx: int) -> list[Tensor]:
    """The first head's scores fall with the distance from one back."""
    QK1, *others = _by_hand(sharp=0)(V, n_ctx)
    query, key = torch.arange(n_ctx)[:, None], torch.arange(n_ctx)
    QK1[V : V + n_ctx, V : V + n_ctx] = -20.0 * (query - 1 - key) ** 2
    return [QK1, *others]


def _in_a_random_basis(V: int, n_ctx: int) -> tuple[np.ndarray, ...]:
    """The labels, that is, and in numpy's float64."""
    QK1, OV1, QK2, OV2 = (matrix.double().numpy() for matrix in _by_hand()(V, n_ctx))
    basis = np.eye(2 * V + n_ctx)
    basis[V + n_ctx :, V + n_ctx :] = np.linalg.qr(random(V, V).numpy())[0]
    return QK1, OV1 @ basis, QK2 @ basis, OV2


induction_by_hand.mistakes = {
    "with d_model = 2 · V + n_ctx": lambda V, n_ctx: _by_hand()(7, n_ctx),
    "the first head looks at all positions alike": _by_hand(back=1),
    "the first head looks at its own position": _by_hand(back=0),
    "the first head looks two back": _by_hand(back=-2),
    "make its scores larger": _by_hand(sharp=1),
    "“I am A”": _by_hand(OV1=("token", "token")),
    "the first head writes nothing into the stream": _by_hand(OV1=("label", "token")),
    "looks at the earlier A itself": _by_hand(QK2=("token", "token")),
    "at what stood before the earlier A": _by_hand(QK2=("label", "token")),
    "of its attention: its query should hold the token": _by_hand(match=1),
    "but the model says A again": (_by_hand(loud=0.5), _by_hand(OV2=("label", "token"))),
    "and is it loud enough": _by_hand(loud=1),
}
induction_by_hand.also_right = {
    "louder and sharper": _by_hand(sharp=99, match=60, loud=9),
    "scores by distance": _by_distance,
    "labels in a random basis": _in_a_random_basis,
}


@judged
def move_label(answer: Answer) -> None:
    """`move_label(model, label, src, target) → hooks`: `label` moved from layer 1's keys at src to those at target.

    Hooks can be written in many ways: these are known by what the model does with them.
    """
    sizes: tuple[dict[str, int], ...] = ({}, {"n_heads": 2, "d_head": 5, "d_model": 12})
    for config, tokens in zip(sizes, ([[0, 7, 3, 9, 11, 3], [0, 2, 2, 5, 8, 1]], [[0, 4, 6, 1, 9]] * 3), strict=True):
        model, batch = tiny_model(0.6, **config), torch.tensor(tokens)
        label = random(len(batch), model.cfg.d_model, seed=3)
        read, plain = torch.einsum("bm,hmd->bhd", label, model.W_K[1]), model.run_with_cache(batch)[1]
        for src, target in ((2, 4), (3, 1)):
            hooks = _hooks(answer(model, label, src, target))
            asked = _run(model, batch, hooks, f"a label moved from {src} to {target}")
            given = asked["k", 1] - plain["k", 1]
            other = next((door for door in "qv" if not close(plain[door, 1], asked[door, 1])), "")
            demand(close(plain["z", 0], asked["z", 0]), "layer 0 is changed: only keys of layer 1 should move.")
            demand(not other, f'the "{other}" of layer 1 move too: a label in the key is read in the keys alone.')
            demand(given.any(), "no key of layer 1 changes: does the function return the keys that it changed?")
            elsewhere = [p for p in range(batch.shape[1]) if p not in (src, target)]
            demand(not given[:, elsewhere].any(), "keys at other positions than src and target change.")
            demand(not close(given[:, target], -read), "the signs are exchanged: take away at src, add at target.")
            demand(given[:, src].any(), "the label stays at src: it should be taken out there, too.")
            demand(given[:, target].any(), "the label is taken out at src, and arrives nowhere: add it at target.")
            demand(
                close(given[:, src], -read) and close(given[:, target], read),
                "the keys at src and target change by something else than what W_K[1] reads of the label.",
            )


def _hooks(given: Any) -> list[tuple]:
    """An answer as hooks: pairs of a name and a function."""
    pairs = list(given) if isinstance(given, tuple | list) else []
    demand(not (pairs and isinstance(pairs[0], str)), "put the one hook into a list: [(name, function)].")
    if not pairs or not all(isinstance(p, tuple | list) and len(p) == 2 and callable(p[1]) for p in pairs):
        raise Wrong("it should return a list of hooks, pairs of a name and a function: [(name, function), …].")
    return [tuple(pair) for pair in pairs]


def _run(model: HookedTransformer, tokens: Tensor, hooks: list[tuple], asked: str) -> ActivationCache:
    """What the model computes with these hooks."""
    if unknown := [name for name, _ in hooks if not callable(name) and name not in model.hook_dict]:
        raise Wrong(f"the model has no activation called {unknown[0]!r}; model.hook_dict lists them all.")
    try:
        with model.hooks(fwd_hooks=hooks):
            return model.run_with_cache(tokens)[1]
    except Exception as error:
        raise Wrong(f"the model with your hooks stops: {type(error).__name__}, {error}. Asked: {asked}.") from error


def _hooked(change: Callable[[Tensor, Tensor, int, int], Any], name: str = "blocks.1.attn.hook_k") -> Answer:
    """An answer that makes `change(activation, what the keys read of the label, src, target)`."""

    def answer(model: HookedTransformer, label: Tensor, src: int, target: int) -> list[tuple]:
        read = torch.stack([label @ W_K for W_K in model.blocks[1].attn.W_K], 1)
        return [(name, lambda x, hook: change(x, read, src, target))]

    return answer


def _moving(away: float = 1, there: float = 1, name: str = "blocks.1.attn.hook_k") -> Answer:
    def move(x: Tensor, read: Tensor, src: int, target: int) -> Tensor:
        return x.index_add(1, torch.tensor([src, target]), torch.stack([-away * read, there * read], 1))

    return _hooked(move, name)


def _by_a_filter(model: HookedTransformer, label: Tensor, src: int, target: int) -> tuple:
    """Its name is a function, as the library allows; the positions are told by a mask, in float64."""

    def move(k: Tensor, hook: Any) -> Tensor:
        at = torch.arange(k.shape[1])
        sign = (at == target).double() - (at == src).double()
        return (k + torch.einsum("p,bm,hmd->bphd", sign, label.double(), model.W_K[1].double())).float()

    return ([lambda name: name == "blocks.1.attn.hook_k", move],)


move_label.mistakes = {
    "the label stays at src": _moving(away=0),
    "is taken out at src, and arrives nowhere": _moving(there=0),
    "the signs are exchanged": (_moving(-1, -1), lambda m, x, s, t: _moving()(m, x, t, s)),
    'the "q" of layer 1 move too': _moving(name="blocks.1.attn.hook_q"),
    "layer 0 is changed": _moving(name="blocks.0.attn.hook_k"),
    "by something else than what W_K[1] reads": lambda m, x, s, t: _moving()(m, x[:1].expand_as(x), s, t),
    "keys at other positions": lambda m, x, s, t: _moving()(m, x, s, t - 1),
    "no key of layer 1 changes": _hooked(lambda k, *_: None),
    "the model with your hooks stops": _hooked(lambda k, read, *_: k + read),
    "the model has no activation called 'blocks.1.hook_k'": _moving(name="blocks.1.hook_k"),
    "put the one hook into a list": lambda *given: _moving()(*given)[0],
    "it should return a list of hooks": lambda m, x, s, t: x,
}
move_label.also_right = {
    "a new tensor": _moving(),
    "two hooks": lambda *given: _moving(there=0)(*given) + _moving(away=0)(*given),
    "by a filter": _by_a_filter,
}

CAUGHT, TIMES = 0.15, 8  # what a rule must catch of the mystery head's attention, and how many times its fair share


@judged
def mystery_targets(answer: Answer) -> None:
    """`mystery_targets(words) → [dest, src]`: a rule for where head 1.0 looks in prose, beyond the start token.

    Any rule that catches enough of its attention, and much more than even attention would.
    """
    caught = fair = total = 0.0
    for words, pattern in _mystery():
        n = len(words)
        rule = tensor(answer(list(words)), (n, n), "[dest, src]")
        demand(((rule == 0) | (rule == 1)).all(), NUMBERS)
        demand(not rule.triu(1).any(), FUTURE)
        demand(
            rule[:, 1:].any(),
            "it marks nothing beyond the start token; that the head rests there, you know already. In your "
            "words a line break is no ↵, and a space no ·.",
        )
        rule[:, 0] = 0
        caught += (pattern * rule).sum().item()
        fair += (pattern.sum(1) * rule.sum(1) / torch.arange(n).clamp(min=1)).sum().item()
        total += pattern.sum().item()
    share, times = caught / total, caught / fair
    demand(
        share >= CAUGHT and times >= TIMES,
        f"your rule catches {share:.2f} of what head 1.0 does not leave on the start token, {times:.1f} times what "
        f"even attention would give. Find one with {CAUGHT} and {TIMES} times at least.",
    )


@cache
def _mystery() -> list[tuple[list[str], Tensor]]:
    """Texts as lists of words, and where head 1.0 looks in them; the start token is taken out."""
    model, tokens = models.load("two-layer"), text.held_out_tokens("prose")[:4]
    pattern = heads.patterns(model, tokens)[1, 0]
    pattern[:, :, 0] = 0
    return [(list(map(str, model.to_str_tokens(row))), p) for row, p in zip(tokens, pattern, strict=True)]


def _words(chosen: Callable[[str], bool]) -> Answer:
    """A rule that marks earlier words of one kind."""
    return lambda words: torch.tensor([chosen(word) for word in words]).expand(len(words), -1).tril()


mystery_targets.mistakes = {
    "1.0 times what even attention would give": _words(lambda word: True),
    "times what even attention would give": (
        _words(lambda word: not any(map(str.isalnum, word))),
        lambda words: torch.diag(torch.ones(len(words) - 1), -1),
    ),
    "it marks nothing beyond the start token": _words(lambda word: word == text.START),
    FUTURE: lambda words: torch.ones(len(words), len(words)),
    NUMBERS: lambda words: torch.ones(len(words), len(words)).tril() / len(words),
}
mystery_targets.also_right = {
    "words that end in a break": lambda words: np.tril([[word[-1] == "\n" for word in words]] * len(words)),
    "breaks, and the start token": _words(lambda word: word.splitlines() != [word] or word == text.START),
    "the latest 200 places": lambda words: _words(lambda word: "\n" in word)(words).float().triu(-200),
}
