"""Checks of lesson 07, induction heads: each exercise, and what each typical mistake is told."""

import re
from typing import Any

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer

from course_lessons import by_hand
from course_lessons.fixtures import passes, random, tiny_model
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.expectations import Wrong, close, demand, four_circuits

FUTURE = "you mark sources after their destination; a head can't look into the future."
WHOLE_LABEL = (
    "a label has d_model numbers, and a key has d_head: which matrix leads from one to the other?"
)
NUMBERS = "it should hold True and False, or 1 and 0, and it holds other numbers."


def _copies(tokens: Tensor) -> Tensor:
    return (tokens[:, None] == tokens).tril(-1)


def _marks(tokens: Tensor, by: int = 1) -> Tensor:
    return _copies(tokens).roll(by, 1)


def _true_or_false(marks: Any) -> Any:
    if isinstance(marks, Tensor) and marks.dtype != torch.bool:
        demand(((marks == 0) | (marks == 1)).all(), NUMBERS)
        return marks.bool()
    return marks


RANDOM = [2100, 0, 0, 1400, 2100, 700, 1400, 1400, 0, 1400, 0, 700, 0, 700]
FOLLOWED = (
    "in 0 4 7 9 4 8 the 7 at position 2 followed the earlier 4: the second 4 should look there."
)
ITSELF = (
    "in 0 4 4 the second 4 is itself what came after the first: "
    "a head may look at its own position."
)
TWO_COPIES = "in 0 4 7 4 8 4 the last 4 has two earlier copies; mark what followed each."
induction_targets = compared(
    "`induction_targets(tokens) → [dest, src]`: "
    "true where the source followed an earlier copy of dest's token.",
    returns="[dest, src]",
    cases=lambda: {
        sentence: (torch.tensor(tokens),)
        for sentence, tokens in {
            TWO_COPIES: [0, 4, 7, 4, 8, 4],
            FOLLOWED: [0, 4, 7, 9, 4, 8],
            "where no token occurs twice, there is nothing to mark.": [0, 1, 2, 3, 4],
            ITSELF: [0, 4, 4],
            "in 4 7 4 the first 4, at position 0, is an earlier copy like any other.": [4, 7, 4],
            "in 14 random tokens something is marked that should not be, or missing.": RANDOM,
        }.items()
    },
    mistakes={
        "in 0 4 7 9 4 8 the second 4 stands at position 4 and looks at position 2: "
        "the destination is on the rows.": (lambda t: _marks(t).T),
        "in 0 4 7 9 4 8 you mark the earlier 4 itself; "
        "an induction head looks at what came after it.": (
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
    explain=lambda got, right, tokens: FUTURE if got.triu(1).any() else None,
    as_read=_true_or_false,
)


@judged
def induction_by_hand(answer: Answer) -> None:
    """`induction_by_hand(V, n_ctx) → QK1, OV1, QK2, OV2`: two heads that do induction together.

    Any such circuits are right.
    """
    for V, n_ctx, period in ((7, 13, 4), (9, 17, 8)):
        circuits = four_circuits(answer(V, n_ctx), 2 * V + n_ctx, "2 · V + n_ctx")
        tokens = passes(V, n_ctx, period)
        built = by_hand.from_circuits(circuits[0::2], circuits[1::2], V, n_ctx)
        logits, (_, run) = built(tokens), built.run_with_cache(tokens)
        first, second = (run["pattern", layer][:, 0] for layer in (0, 1))
        own, one, two = (first.diagonal(-back, 1, 2)[:, 2:].mean().item() for back in (0, 1, 2))
        even = (1 / torch.arange(4, n_ctx + 1)).mean().item()
        stream, now = run["resid_post", 0], torch.nn.functional.one_hot(tokens, V)
        label = not close(stream[..., V:], torch.zeros_like(stream[..., V:]))
        copies = (tokens[:, :, None] == tokens[:, None]).tril(-1)  # [text, dest, src]: an earlier A
        given = [(second * copies.roll(by, 2)).sum(2) for by in (-1, 0, 1)]  # [text, dest] each
        before, at, after = (share[:, period + 1 :].mean().item() for share in given)
        said = logits.argmax(-1)[:, period + 1 : -1]
        asked = tokens[:, period + 1 : -1]
        right = tokens[:, period + 2 :]
        again = (said == asked).float().mean().item()
        token_left = close(stream[..., :V], now)  # as it was before the first head wrote
        for sentence, holds in {
            "the first head looks at its own position, not at the one before.": own < 0.5,
            "the first head looks two back.": two < 0.5,
            "the first head looks at all positions alike: QK1 is [query, key]; "
            "a query at n should fit the key at n − 1.": abs(one - even) > 0.05,
            f"the first head gives the token before it {one:.2f} of its attention: "
            "make its scores larger.": one > 0.98,
            "what the first head writes lands on the dimensions of the token itself; a key can't "
            "tell “I am A” from “I come after A” then. Write it where the stream is empty.": label
            or token_left,
            "the first head writes nothing into the stream: "
            "OV1 is [from, to], from the token's dimensions.": label,
            "the second head looks at the earlier A itself: "
            "let its key read what the first head wrote.": at < 0.5,
            "the second head looks at what stood before the earlier A: "
            "are query and key exchanged?": before < 0.5,
            f"the second head gives the earlier B {after:.2f} of its attention: its query should "
            "hold the token, its key the token before, and the scores should be large.": after
            > 0.98,
            "the second head looks at B, but the model says A again: do you move B's token part, "
            "and into the token part?": again < 0.5 or bool(circuits[3][:V, :V].any()),
            "the second head looks at B, but the model says A again: the direct "
            "path gives A's own logit 10. Let what is copied be louder than that.": again < 0.5,
            "the second head looks at B, but the model does not say B: does OV2 "
            "bring B's token to where W_U reads, and is it loud enough?": torch.equal(said, right),
        }.items():
            demand(holds, sentence)


@judged
def move_label(answer: Answer) -> None:
    """`move_label(model, label, src, target) → hooks`: moves `label` from keys at src to target's.

    Layer 1's keys; any hooks that do so are right.
    """
    sizes: tuple[dict[str, int], ...] = ({}, {"n_heads": 2, "d_head": 5, "d_model": 12})
    for config, tokens in zip(
        sizes, ([[0, 7, 3, 9, 11, 3], [0, 2, 2, 5, 8, 1]], [[0, 4, 6, 1, 9]] * 3), strict=True
    ):
        model, batch = tiny_model(0.6, **config), torch.tensor(tokens)
        label = random(len(batch), model.cfg.d_model, seed=3)
        plain = model.run_with_cache(batch)[1]
        for src, target in ((2, 4), (3, 1)):
            hooks = answer(model, label, src, target)
            asked = _run(hooks, model, batch, f"a label moved from {src} to {target}")
            given = asked["k", 1] - plain["k", 1]
            others = [p for p in range(batch.shape[1]) if p not in (src, target)]
            door = next((door for door in "qv" if not close(plain[door, 1], asked[door, 1])), "")
            for sentence, holds in {
                "layer 0 is changed: only keys of layer 1 should move.": close(
                    plain["z", 0], asked["z", 0]
                ),
                f'the "{door}" of layer 1 move too: '
                "a label in the key is read in the keys alone.": not door,
                "no key of layer 1 changes: "
                "does the function return the keys that it changed?": bool(given.any()),
                "keys at other positions than src and target change.": not given[:, others].any(),
                **_moved(model, label, given[:, src], given[:, target]),
                **_read_otherwise(model, label, asked["k", 1][:, target], given[:, target]),
            }.items():
                demand(holds, sentence)


def _reads(weights: Tensor, label: Tensor) -> Tensor:
    return torch.einsum("bm,hmd->bhd", label, weights)


def _moved(model: HookedTransformer, label: Tensor, away: Tensor, there: Tensor) -> dict[str, bool]:
    """What is wrong with where the label goes: the changes of keys at src and at target."""
    read = _reads(model.W_K[1], label)
    heads = there.flatten(2).any(2).any(0)  # [head]
    return {
        "the signs are exchanged: take away at src, add at target.": not close(there, -read),
        "the label stays at src: it should be taken out there, too.": bool(away.any()),
        "the label is taken out at src, and arrives nowhere: add it at target.": bool(there.any()),
        "the keys of some heads stay as they are: "
        "every head of layer 1 has keys of its own, and all should change.": bool(heads.all()),
    }


def _read_otherwise(
    model: HookedTransformer, label: Tensor, key: Tensor, there: Tensor
) -> dict[str, bool]:
    """What is wrong with what arrives at target, where `key` is the key and `there` its change."""
    read = _reads(model.W_K[1], label)
    first, alike = read[:1].expand_as(read), read[:, :1].expand_as(read)
    return {
        "what arrives at target takes the key's place: add it to what is there.": not close(
            key, read
        ),
        "you read the label with W_Q, as queries do: keys are made with W_K.": not close(
            there, _reads(model.W_Q[1], label)
        ),
        "you read the label with the W_K of layer 0: the keys are those of layer 1.": not close(
            there, _reads(model.W_K[0], label)
        ),
        "all texts get the first text's label: each row of `label` is for one text.": close(
            read, first
        )
        or not close(there, first),
        "all heads get what the first head reads: each has a W_K of its own.": not close(
            there, alike
        ),
        "the keys at src and target change by something else than what W_K[1] reads of the "
        "label.": close(there, read),
    }


def _run(given: Any, model: HookedTransformer, tokens: Tensor, asked: str) -> ActivationCache:
    pairs = list(given) if isinstance(given, tuple | list) else []
    demand(
        not (pairs and isinstance(pairs[0], str)),
        "put the one hook into a list: [(name, function)].",
    )
    if not pairs or not all(
        isinstance(p, tuple | list) and len(p) == 2 and callable(p[1]) for p in pairs
    ):
        raise Wrong(
            "it should return a list of hooks, pairs of a name and a function: "
            "[(name, function), …]."
        )
    if unknown := [name for name, _ in pairs if not callable(name) and name not in model.hook_dict]:
        raise Wrong(
            f"the model has no activation called {unknown[0]!r}; model.hook_dict lists them all."
        )
    try:
        with model.hooks(fwd_hooks=[tuple(pair) for pair in pairs]):
            return model.run_with_cache(tokens)[1]
    except Exception as error:
        sizes = {int(size) for size in re.findall(r"\((\d+)\)", str(error))}
        demand(sizes != {model.cfg.d_model, model.cfg.d_head}, WHOLE_LABEL)
        raise Wrong(
            f"the model with your hooks stops: {type(error).__name__}, {error}. Asked: {asked}."
        ) from error
