"""Checks of lesson 07, induction heads: each exercise, and what each typical mistake is told."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer

from course_lessons import by_hand
from course_lessons.fixtures import passes, random, tiny_model
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.expectations import Wrong, close, demand, four_circuits

FUTURE = "you mark sources after their destination; a head can't look into the future."
NUMBERS = "it should hold True and False, and it holds other numbers."


def _copies(tokens: Tensor) -> Tensor:
    return (tokens[:, None] == tokens).tril(-1)


def _marks(tokens: Tensor, by: int = 1) -> Tensor:
    return _copies(tokens).roll(by, 1)


def _true_or_false(marks: Any) -> Any:
    if isinstance(marks, Tensor) and marks.dtype != torch.bool:
        demand(((marks == 0) | (marks == 1)).all(), NUMBERS)
        raise Wrong("it should hold True and False, which pick entries of a pattern, not 1 and 0.")
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
        read = torch.einsum("bm,hmd->bhd", label, model.W_K[1])
        plain = model.run_with_cache(batch)[1]
        for src, target in ((2, 4), (3, 1)):
            asked = _run(
                answer(model, label, src, target),
                model,
                batch,
                f"a label moved from {src} to {target}",
            )
            given = asked["k", 1] - plain["k", 1]
            other = next((door for door in "qv" if not close(plain[door, 1], asked[door, 1])), "")
            elsewhere = [p for p in range(batch.shape[1]) if p not in (src, target)]
            moved = close(given[:, src], -read) and close(given[:, target], read)
            layer_0 = close(plain["z", 0], asked["z", 0])
            others = given[:, elsewhere].any()
            turned = close(given[:, target], -read)
            for sentence, holds in {
                "layer 0 is changed: only keys of layer 1 should move.": layer_0,
                f'the "{other}" of layer 1 move too: '
                "a label in the key is read in the keys alone.": not other,
                "no key of layer 1 changes: "
                "does the function return the keys that it changed?": bool(given.any()),
                "keys at other positions than src and target change.": not others,
                "the signs are exchanged: take away at src, add at target.": not turned,
                "the label stays at src: it should be taken out there, too.": bool(
                    given[:, src].any()
                ),
                "the label is taken out at src, and arrives nowhere: add it at target.": bool(
                    given[:, target].any()
                ),
                "the keys at src and target change by something "
                "else than what W_K[1] reads of the label.": moved,
            }.items():
                demand(holds, sentence)


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
        raise Wrong(
            f"the model with your hooks stops: {type(error).__name__}, {error}. Asked: {asked}."
        ) from error


@judged
def drawing(answer: Answer) -> None:
    """`drawing(writer, readers) → doors`: every end of every arrow, in any order."""
    for writer, readers in (((0, 5), [(1, 6), (1, 1)]), ((0, 2), [(1, 3)])):
        given = answer(writer, list(readers))
        listed = [tuple(one) for one in given] if isinstance(given, list | tuple | set) else []
        if not listed or not all(len(one) in (2, 3) for one in listed):
            raise Wrong(
                'it should return a list of doors, as (writer, "k", reader) or (reader, "logits").'
            )
        one, doors = readers[0], {*listed}
        wanted: set[tuple] = {("embed", "v", writer)}
        for r in readers:
            wanted |= {("embed", "q", r), (writer, "k", r), ("embed", "v", r), (r, "logits")}
        asks = ("embed", "q", one) in doors
        token_in_key = ("embed", "k", one) in doors
        moves = ("embed", "v", one) in doors
        hands_on = ("embed", "v", writer) in doors
        positions_alone = not doors & {("embed", "q", writer), ("embed", "k", writer)}
        keys_alone = not doors & {(writer, door, r) for door in "qv" for r in readers}
        in_key = (writer, "k", one) in doors
        speaks = (one, "logits") in doors
        no_other_speaks = not doors & {(writer, "logits"), ("embed", "logits")}
        for sentence, holds in {
            "the writer hands on the token one back: what are its values made of?": hands_on,
            "the writer looks one back by positions alone: "
            "its query and key need no token.": positions_alone,
            "the label arrives in the readers' keys, not elsewhere.": keys_alone,
            "the label stands in the key at B: "
            "which door of a reader does the writer reach?": in_key,
            "“who came after A?” is asked at the second A: what is the query made of?": asks,
            "in the drawing B's key is made of the label alone, "
            "not of the token B.": not token_in_key,
            "the third arrow moves B over: what are the readers' values made of?": moves,
            "B is moved, and nobody says it: "
            "from a reader to the logits a door is missing.": speaks,
            "in the drawing only the readers speak to the logits.": no_other_speaks,
            "one reader is drawn, the others are not: each needs its doors.": doors >= wanted,
            "it names a door that is not in the drawing.": doors <= wanted,
        }.items():
            demand(holds, sentence)
