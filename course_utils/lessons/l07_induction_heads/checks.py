"""Checks of lesson 07, induction heads: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads, models, text
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import passes, random, tiny_model
from course_utils.course.questions import Wrong, close, demand, four_circuits, tensor

Hooks = list[tuple[str, Callable[..., Any]]]


@exercise
def induction_targets(answer: Answer) -> None:
    """`induction_targets(tokens) → [dest, src]`: true where the source followed an earlier copy of dest's token."""

    def marked(*tokens: int) -> Tensor:
        result = tensor(answer(torch.tensor(tokens)), (len(tokens), len(tokens)), "[dest, src]")
        demand(((result == 0) | (result == 1)).all(), "it should hold True and False, and it holds other numbers.")
        return result

    result = marked(0, 4, 7, 9, 4, 8)  # dest 4 holds the same token as position 1, and 2 came after that
    demand(
        not result[2, 4] or result[4, 2],
        "in 0 4 7 9 4 8 the second 4 stands at position 4 and looks at position 2: the destination is on the rows.",
    )
    demand(
        not result[4, 1], "in 0 4 7 9 4 8 you mark the earlier 4 itself; an induction head looks at what came after it."
    )
    demand(not result[4, 0], "in 0 4 7 9 4 8 you mark what came before the earlier 4, not what came after it.")
    demand(
        not result.triu(1).any(),
        "you mark sources after their destination; a head can't look into the future.",
    )
    demand(result[4, 2], "in 0 4 7 9 4 8 the 7 at position 2 followed the earlier 4: the second 4 should look there.")
    demand(not marked(0, 1, 2, 3, 4).any(), "where no token occurs twice, there is nothing to mark.")
    result = marked(0, 4, 7, 4, 8, 4)
    demand(result[5, 2] and result[5, 4], "in 0 4 7 4 8 4 the last 4 has two earlier copies; mark what followed each.")
    demand(
        marked(0, 4, 4)[2, 2],
        "in 0 4 4 the second 4 is itself what came after the first: a head may look at its own position.",
    )
    demand(marked(4, 7, 4)[2, 1], "in 4 7 4 the first 4, at position 0, is an earlier copy like any other.")
    for size in (9, 14):
        tokens = 700 * torch.randint(0, 4, (size,), generator=torch.Generator().manual_seed(size))
        expected = torch.zeros(size, size)
        for dest in range(size):
            for copy in range(dest):
                expected[dest, copy + 1] = float(tokens[copy] == tokens[dest])
        demand(
            close(marked(*tokens.tolist()), expected),
            f"in {size} random tokens something is marked that should not be, or missing.",
        )
    marks = answer(torch.tensor([0, 4, 7, 4]))
    demand(marks.dtype == torch.bool, "it should hold True and False, which pick entries of a pattern, not 1 and 0.")


def _copies(tokens: Tensor) -> Tensor:
    """[dest, src]: an earlier copy of the same token."""
    return (tokens[:, None] == tokens[None, :]).tril(-1)


def _shifted(marks: Tensor, by: int) -> Tensor:
    """The marks moved along the sources, dropping what falls off."""
    result = torch.zeros_like(marks)
    if by > 0:
        result[:, by:] = marks[:, :-by]
    else:
        result[:, :by] = marks[:, -by:]
    return result


def _last_copy_only(tokens: Tensor) -> Tensor:
    marks = _copies(tokens)
    return _shifted(marks & (marks.long().flip(1).cumsum(1).flip(1) == 1), 1)


def _first_copy_only_marked(tokens: Tensor) -> Tensor:
    marks = _copies(tokens)
    return _shifted(marks & (marks.long().cumsum(1) == 1), 1)


def _hiding_start(tokens: Tensor) -> Tensor:
    tokens[0] = -1
    return _shifted(_copies(tokens), 1)


induction_targets.mistakes = {
    "the copy itself": (_copies, "you mark the earlier 4 itself"),
    "before the copy": (lambda t: _shifted(_copies(t), -1), "you mark what came before the earlier 4"),
    "two behind the copy": (lambda t: _shifted(_copies(t), 2), "the second 4 should look there"),
    "transposed": (lambda t: _shifted(_copies(t), 1).T, "the destination is on the rows"),
    "itself a copy of itself": (lambda t: _shifted((t[:, None] == t).tril(), 1), "can't look into the future"),
    "the future": (lambda t: _shifted(t[:, None] == t, 1), "can't look into the future"),
    "the last copy only": (_last_copy_only, "the last 4 has two earlier copies"),
    "the first copy only": (_first_copy_only_marked, "the last 4 has two earlier copies"),
    "its own position left out": (lambda t: _shifted(_copies(t), 1).tril(-1), "a head may look at its own position"),
    "wrapped around": (
        lambda t: (t[:, None] == t).fill_diagonal_(False).roll(1, 1),
        "can't look into the future",
    ),
    "where the next token agrees": (
        lambda t: _shifted(_copies(t), 1) & (t == t.roll(-1)[:, None]),
        "the second 4 should look there",
    ),
    "shares of attention": (
        lambda t: (marks := _shifted(_copies(t), 1).float()) / marks.sum(1, keepdim=True).clamp(min=1),
        "and it holds other numbers",
    ),
    "the start token is none": (
        lambda t: _shifted(_copies(t), 1) & (t != t[0])[:, None],
        "is an earlier copy like any other",
    ),
    "only the first ten tokens": (
        lambda t: _shifted(_copies(t), 1) & (torch.arange(len(t)) < 10),
        "in 14 random tokens something is marked",
    ),
    "nothing": (lambda t: torch.zeros(len(t), len(t)), "the second 4 should look there"),
    "the tokens changed": (_hiding_start, "it changes `tokens`, which it was given"),
}


@exercise
def induction_by_hand(answer: Answer) -> None:
    """`induction_by_hand(V, n_ctx) → QK1, OV1, QK2, OV2`: the circuits of two heads that do induction together."""
    for V, n_ctx, period in ((7, 13, 4), (9, 17, 8)):
        circuits = four_circuits(answer(V, n_ctx), 2 * V + n_ctx, "2 · V + n_ctx")
        built = models.from_circuits(circuits[0::2], circuits[1::2], V, n_ctx)
        tokens = passes(V, n_ctx, period)
        logits, (_, run) = built(tokens), built.run_with_cache(tokens)
        _demand_looking_back(run["pattern", 0][:, 0])
        _demand_label(run["resid_post", 0], tokens, V)
        _demand_following(run["pattern", 1][:, 0], period)
        said, right = logits[:, period + 1 : -1].argmax(-1), tokens[:, period + 2 :]
        own = (said == tokens[:, period + 1 : -1]).float().mean()
        demand(
            own < 0.5,
            "the second head looks at B, but the model says A again: the direct path gives A's own logit 10. Let what "
            "is copied be louder than that.",
        )
        demand(
            (said == right).all(),
            "the second head looks at B, but the model does not say B: does OV2 bring B's token to where W_U reads, "
            "and is it loud enough?",
        )


def _demand_looking_back(pattern: Tensor) -> None:
    """Demand that the first head attends one back."""
    n = pattern.shape[-1]
    share = {back: pattern.diagonal(-back, 1, 2)[:, 2:].mean().item() for back in (0, 1, 2)}
    demand(share[0] < 0.5, "the first head looks at its own position, not at the one before.")
    demand(share[2] < 0.5, "the first head looks two back.")
    even = (1 / torch.arange(4, n + 1)).mean().item()
    demand(
        abs(share[1] - even) > 0.05,
        "the first head looks at all positions alike: QK1 is [query, key]; a query at n should fit the key at n − 1.",
    )
    demand(
        share[1] > 0.98,
        f"the first head gives the token before it {share[1]:.2f} of its attention: make its scores larger.",
    )


def _demand_label(stream: Tensor, tokens: Tensor, V: int) -> None:
    """Demand that the current token stays as it is between the layers, and the token before is written somewhere."""
    now = torch.nn.functional.one_hot(tokens, V).float()
    demand(
        close(stream[..., :V], now) or not close(stream[..., V:], torch.zeros_like(stream[..., V:])),
        "what the first head writes lands on the dimensions of the token itself; a key can't tell “I am A” from “I come"
        " after A” then. Write it where the stream is empty.",
    )
    demand(
        not close(stream[..., V:], torch.zeros_like(stream[..., V:])),
        "the first head writes nothing into the stream: OV1 is [from, to], from the token's dimensions.",
    )


def _demand_following(pattern: Tensor, period: int) -> None:
    """Demand that the second head attends to what followed the earlier copies."""
    dest = torch.arange(period + 1, pattern.shape[-1])

    def share(offset: int) -> float:
        total = torch.zeros(len(pattern), len(dest))
        for ago in range(period, pattern.shape[-1], period):
            src = dest - ago + offset
            total += pattern[:, dest, src.clamp(min=0)] * (src >= max(1, offset))
        return total.mean().item()

    demand(share(0) < 0.5, "the second head looks at the earlier A itself: let its key read what the first head wrote.")
    demand(share(-1) < 0.5, "the second head looks at what stood before the earlier A: are query and key exchanged?")
    right = share(1)
    demand(
        right > 0.98,
        f"the second head gives the earlier B {right:.2f} of its attention: its query should hold the token, its key "
        "the token before, and the scores should be large.",
    )


def _by_hand(**wrong: Any) -> Answer:
    """Our answer, or one that is wrong in one of its matrices or sizes."""

    def answer(V: int, n_ctx: int) -> tuple[Tensor, ...]:
        token, place, before = slice(0, V), slice(V, V + n_ctx), slice(V + n_ctx, 2 * V + n_ctx)
        QK1, OV1, QK2, OV2 = torch.zeros(4, 2 * V + n_ctx, 2 * V + n_ctx)
        QK1[place, place] = wrong.get("sharp", 30) * wrong.get("back", torch.diag)(torch.ones(n_ctx - 1), -1)
        OV1[token, token if "over" in wrong else before] = torch.eye(V)
        QK2[token, before] = wrong.get("match", 30) * torch.eye(V)
        OV2[token, token] = wrong.get("loud", 2) * torch.eye(V)
        if "change" in wrong:
            return wrong["change"](QK1, OV1, QK2, OV2, token, place, before)
        return QK1, OV1, QK2, OV2

    return answer


def _moved(M: Tensor, rows: slice, columns: slice, to: tuple[slice, slice], by: float = 1) -> Tensor:
    """A matrix with one block put somewhere else."""
    result = torch.zeros_like(M)
    result[to] = by * M[rows, columns]
    return result


induction_by_hand.mistakes = {
    "one matrix": (lambda V, n: _by_hand()(V, n)[0], "it should return four matrices"),
    "no spare dimensions": (lambda V, n: list(torch.zeros(4, V + n, V + n)), "with d_model = 2 · V + n_ctx"),
    "QK1 transposed": (
        _by_hand(change=lambda a, b, c, d, *_: (a.T, b, c, d)),
        "looks at all positions alike",
    ),
    "looks at itself": (
        _by_hand(change=lambda a, b, c, d, t, p, _: (a + 90 * torch.diag(_ones(a, p)), b, c, d)),
        "at its own position",
    ),
    "looks two back": (
        _by_hand(change=lambda a, b, c, d, *_: (a @ a / 30, b, c, d)),
        "the first head looks two back",
    ),
    "scores of 1": (_by_hand(sharp=1), "make its scores larger"),
    "written over the token": (_by_hand(over=True), "“I am A”"),
    "OV1 transposed": (_by_hand(change=lambda a, b, c, d, *_: (a, b.T, c, d)), "writes nothing into the stream"),
    "no OV1": (_by_hand(change=lambda a, b, c, d, *_: (a, 0 * b, c, d)), "writes nothing into the stream"),
    "looks for the token itself": (
        _by_hand(change=lambda a, b, c, d, t, p, s: (a, b, _moved(c, t, s, (t, t)), d)),
        "looks at the earlier A itself",
    ),
    "QK2 transposed": (
        _by_hand(change=lambda a, b, c, d, *_: (a, b, c.T, d)),
        "at what stood before the earlier A",
    ),
    "a soft match": (_by_hand(match=1), "of its attention: its query should hold the token"),
    "too quiet": (_by_hand(loud=0.5), "louder than that"),
    "as loud as the direct path": (_by_hand(loud=1), "is it loud enough"),
    "copies the label": (
        _by_hand(change=lambda a, b, c, d, t, p, s: (a, b, c, _moved(d, t, t, (s, t)))),
        "but the model says A again",
    ),
    "OV2 does nothing": (_by_hand(loud=0), "louder than that"),
    "lowers what it copies": (_by_hand(loud=-30), "louder than that"),
    "copies into the spare part": (
        _by_hand(change=lambda a, b, c, d, t, p, s: (a, b, c, _moved(d, t, t, (t, s)))),
        "louder than that",
    ),
    "the next token's name": (
        _by_hand(change=lambda a, b, c, d, *_: (a, b, c, d.roll(1, 1))),
        "the model does not say B",
    ),
    "seven tokens built in": (lambda V, n: _by_hand()(7, n), "with d_model = 2 · V + n_ctx"),
}


def _ones(like: Tensor, where: slice) -> Tensor:
    """A vector of ones at some places."""
    result = torch.zeros(len(like))
    result[where] = 1
    return result


@exercise
def move_label(answer: Answer) -> None:
    """`move_label(model, label, src, target) → hooks`: `label` moved from layer 1's keys at src to those at target."""
    sizes: tuple[dict[str, int], ...] = ({}, {"n_heads": 2, "d_head": 5, "d_model": 12})
    for config, tokens in zip(sizes, ([[0, 7, 3, 9, 11, 3], [0, 2, 2, 5, 8, 1]], [[0, 4, 6, 1, 9]] * 3), strict=True):
        model, batch = tiny_model(0.6, **config), torch.tensor(tokens)
        label = random(len(batch), model.cfg.d_model, seed=3)
        for src, target in ((2, 4), (3, 1)):
            what = f"a label moved from {src} to {target}"
            plain, asked = (
                _doors(model, batch, []),
                _doors(model, batch, _hooks(answer(model, label, src, target)), what),
            )
            read = torch.einsum("bm,hmd->bhd", label, model.W_K[1])
            given = asked["k"] - plain["k"]
            other = next((d for d in "qv" if not close(plain[d], asked[d])), "")
            demand(close(plain["z0"], asked["z0"]), "layer 0 is changed: only keys of layer 1 should move.")
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


def _hooks(given: Any) -> Hooks:
    """An answer as hooks: pairs of a name and a function."""
    pairs = list(given) if isinstance(given, tuple | list) else []
    demand(not (pairs and isinstance(pairs[0], str)), "put the one hook into a list: [(name, function)].")
    if not pairs or not all(isinstance(p, tuple | list) and len(p) == 2 and callable(p[1]) for p in pairs):
        raise Wrong("it should return a list of hooks, pairs of a name and a function: [(name, function), …].")
    return [(str(name), function) for name, function in pairs]


def _doors(model: HookedTransformer, tokens: Tensor, hooks: Hooks, what: str = "") -> dict[str, Tensor]:
    """What passes layer 1's doors, and what layer 0 moved, when the model runs with these hooks."""
    seen: dict[str, Tensor] = {}

    def look(x: Tensor, hook: Any) -> None:
        seen[hook.name] = x.clone()

    watched = {door: f"blocks.1.attn.hook_{door}" for door in "qkv"} | {"z0": "blocks.0.attn.hook_z"}
    if unknown := [name for name, _ in hooks if name not in model.hook_dict]:
        raise Wrong(f"the model has no activation called {unknown[0]!r}; model.hook_dict lists them all.")
    try:
        with model.hooks(fwd_hooks=[*hooks, *((name, look) for name in watched.values())]):
            model(tokens)
    except Exception as error:
        raise Wrong(f"the model with your hooks stops: {type(error).__name__}, {error}. Asked: {what}.") from error
    return {door: seen[name] for door, name in watched.items()}


def _our_move(
    model: HookedTransformer, label: Tensor, src: int, target: int, away: float = 1, there: float = 1, door: str = "k"
) -> Hooks:
    read = torch.einsum("bm,hmd->bhd", label, getattr(model, f"W_{door.upper()}")[1])

    def move(k: Tensor, hook: Any) -> Tensor:
        k = k.clone()
        k[:, src] -= away * read
        k[:, target] += there * read
        return k

    return [(f"blocks.1.attn.hook_{door}", move)]


def _swapping(model: HookedTransformer, label: Tensor, src: int, target: int) -> Hooks:
    def swap(k: Tensor, hook: Any) -> Tensor:
        k = k.clone()
        k[:, [src, target]] = k[:, [target, src]]
        return k

    return [("blocks.1.attn.hook_k", swap)]


def _in_the_stream(model: HookedTransformer, label: Tensor, src: int, target: int) -> Hooks:
    def move(x: Tensor, hook: Any) -> Tensor:
        x = x.clone()
        x[:, src] -= label
        x[:, target] += label
        return x

    return [("blocks.1.hook_resid_pre", move)]


move_label.mistakes = {
    "only added": (lambda m, x, s, t: _our_move(m, x, s, t, away=0), "the label stays at src"),
    "only taken out": (lambda m, x, s, t: _our_move(m, x, s, t, there=0), "is taken out at src, and arrives nowhere"),
    "signs exchanged": (lambda m, x, s, t: _our_move(m, x, s, t, -1, -1), "the signs are exchanged"),
    "from target to src": (lambda m, x, s, t: _our_move(m, x, t, s), "the signs are exchanged"),
    "in the queries": (lambda m, x, s, t: _our_move(m, x, s, t, door="q"), 'the "q" of layer 1 move too'),
    "in the stream": (_in_the_stream, 'the "q" of layer 1 move too'),
    "half a label": (lambda m, x, s, t: _our_move(m, x, s, t, 0.5, 0.5), "by something else than what W_K[1] reads"),
    "whole keys swapped": (_swapping, "by something else than what W_K[1] reads"),
    "one further": (lambda m, x, s, t: _our_move(m, x, s, t - 1), "keys at other positions"),
    "the first label for all": (
        lambda m, x, s, t: _our_move(m, x[:1].expand_as(x), s, t),
        "by something else than what W_K[1] reads",
    ),
    "nothing": (lambda m, x, s, t: _our_move(m, 0 * x, s, t), "no key of layer 1 changes"),
    "no list": (lambda m, x, s, t: x, "it should return a list of hooks"),
}

CAUGHT, TIMES = 0.15, 8  # what a rule must catch of the mystery head's attention, and how many times its fair share


@exercise
def mystery_targets(answer: Answer) -> None:
    """`mystery_targets(words) → [dest, src]`: a rule for where head 1.0 looks in prose, beyond the start token."""
    caught = fair = total = 0.0
    for words, pattern in _mystery():
        n = len(words)
        rule = tensor(answer(list(words)), (n, n), "[dest, src]")
        demand(((rule == 0) | (rule == 1)).all(), "it should hold True and False, and it holds other numbers.")
        demand(
            not rule.triu(1).any(),
            "you mark sources after their destination; a head can't look into the future.",
        )
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

    def answer(words: list[str]) -> Tensor:
        return torch.tensor([chosen(word) for word in words]).expand(len(words), -1).tril()

    return answer


mystery_targets.mistakes = {
    "everything": (_words(lambda word: True), "1.0 times what even attention would give"),
    "punctuation": (_words(lambda word: not any(map(str.isalnum, word))), "times what even attention would give"),
    "the token before": (
        lambda words: torch.eye(len(words)).roll(-1, 1).T.triu(0).tril(0) + torch.diag(torch.ones(len(words) - 1), -1),
        "times what even attention would give",
    ),
    "its own position": (lambda words: torch.eye(len(words)), "times what even attention would give"),
    "the start token": (_words(lambda word: word == text.START), "it marks nothing beyond the start token"),
    "the future": (lambda words: torch.ones(len(words), len(words)), "can't look into the future"),
    "shares": (lambda words: torch.ones(len(words), len(words)).tril() / len(words), "it holds other numbers"),
    "one row": (lambda words: torch.tensor(["\n" in word for word in words]), "the result has shape"),
    "full stops": (_words(lambda word: "." in word), "times what even attention would give"),
}
