"""Checks of lesson 08, how induction heads form."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from course_utils import heads
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor
from course_utils.formation import events, language
from course_utils.models import sinusoids


@exercise
def predictable(answer: Callable) -> None:
    """`predictable(tokens) → [batch, pos − 1]`: what followed the current token last time comes again."""

    def asked(*rows: list[int]) -> Tensor:
        tokens = torch.tensor(rows)
        return tensor(answer(tokens), (len(rows), len(rows[0]) - 1), "[batch, pos − 1], one entry per next token") != 0

    def positions(*row: int) -> list[int]:
        return [i + 1 for i, hit in enumerate(asked(list(row))[0].tolist()) if hit]

    found = positions(0, 5, 6, 7, 8, 5, 6)
    demand(found, "in 0 5 6 7 8 5 6 the last token is what followed 5 before, and nothing is marked.")
    demand(
        found == [6],
        f"in 0 5 6 7 8 5 6 only the last token, number 6, follows its 5 for the second time; you mark {found}: "
        "entry i of the result is about token i + 1.",
    )
    demand(not positions(0, 5, 6, 8, 6, 7), "in 0 5 6 8 6 7 the 7 never followed a 6 before; that 6 did is not enough.")
    demand(not positions(0, 5, 6, 5, 7), "in 0 5 6 5 7 the second 5 is followed by something new: nothing to mark.")
    found = positions(0, 5, 6, 5, 7, 5, 6)
    demand(not found, "in 0 5 6 5 7 5 6 what followed 5 *last* was 7, so the last 6 is not what comes again.")
    found = positions(0, 5, 6, 5, 7, 5, 7)
    demand(found == [6], "in 0 5 6 5 7 5 7 the last 7 is what followed 5 last: it and nothing else should be marked.")
    demand(positions(0, 4, 4, 4) == [3], "in 0 4 4 4 the third 4 follows a 4 for the second time: mark it.")
    demand(
        not asked([0, 5, 6, 7], [0, 5, 6, 8])[1].any(), "what one document teaches should not be known in the next one."
    )
    tokens = torch.randint(0, 6, (3, 30), generator=torch.Generator().manual_seed(0))
    demand(torch.equal(asked(*tokens.tolist()), language.predictable(tokens)), "in longer documents some differ.")


@exercise
def in_context_learning_score(answer: Callable) -> None:
    """`in_context_learning_score(losses, window) → float`: the last window's mean loss less the second window's."""
    falling = torch.arange(12.0, 0.0, -1).repeat(2, 1)
    value = number(answer(falling, 3))
    demand(value < 0, "when the loss falls along the document, the score should be below 0: late minus early.")
    losses = random(4, 12).abs()

    def change(start: int, stop: int) -> float:
        raised = losses.clone()
        raised[:, start:stop] += 1.0
        return number(answer(raised, 3)) - number(answer(losses, 3))

    demand(close(change(0, 12), 0), "one nat more everywhere should leave the score as it is.")
    demand(close(change(0, 3), 0), "the first window should not count: the second one is compared with the last.")
    demand(close(change(6, 9), 0), "what lies between the second and the last window should not count.")
    demand(
        close(change(9, 12), 1),
        f"one nat more on the last 3 predictions should raise the score by 1, not {change(9, 12):.2f}.",
    )
    demand(
        close(change(3, 6), -1),
        f"one nat more on predictions 3, 4, 5 should lower the score by 1, not change it by {change(3, 6):.2f}.",
    )
    demand(close(value, -6), "over losses that fall by 1 at each of 12 predictions, windows of 3 should give −6.")


def _history(curves: Tensor) -> list[dict]:
    """Curves [step, layer, head] as a history of a score, with another score beside it."""
    return [
        {"step": 25 * i, "induction": row.tolist(), "other": (1 - row).tolist(), "loss": 4.0}
        for i, row in enumerate(curves)
    ]


@exercise
def best_head_curve(answer: Callable) -> None:
    """`best_head_curve(history, score, layer) → list`: the head that ends highest, followed back."""
    curves = torch.tensor(
        [
            [[0.1, 0.2, 0.3], [0.4, 0.0, 0.1]],
            [[0.9, 0.1, 0.3], [0.8, 0.1, 0.6]],
            [[0.2, 0.6, 0.3], [0.8, 0.3, 0.2]],
            [[0.3, 0.7, 0.4], [0.2, 0.9, 0.3]],
        ]
    )
    history = _history(curves)

    def asked(score: str, layer: int, history: list[dict] = history) -> Tensor:
        value = answer(history, score, layer)
        if isinstance(value, Tensor) and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise Wrong(f"it should return a list, one number per row of the history, not {type(value).__name__}.")
        demand(len(value) == len(history), f"there are {len(history)} rows, and your curve has {len(value)} values.")
        return torch.tensor([number(item) for item in value])

    curve = asked("induction", 1)
    demand(not close(curve, curves[:, 0].max(-1).values), "that is the best head of layer 0, asked for layer 1.")
    demand(
        not close(curve, curves[:, 1].max(-1).values),
        "each value belongs to the head that is best at that moment: choose one head, at the end, and follow it.",
    )
    demand(not close(curve, curves[:, 1].mean(-1)), "that is the mean over heads; choose one head and follow it.")
    demand(
        not close(curve, curves[:, 1, 0]),
        "you follow the head that was highest at the start or on average: choose by the last row.",
    )
    demand(close(curve, curves[:, 1, 1]), "in the last row of layer 1 head 1 is highest; that is no curve of head 1.")
    demand(close(asked("induction", 0), curves[:, 0, 1]), "layer 0 should give the curve of its own best head.")
    demand(close(asked("other", 1), 1 - curves[:, 1, 0]), "for another score, choose the head by that one.")
    demand(close(asked("induction", 1, history[:3]), curves[:3, 1, 0]), "a shorter history has another last row.")


@exercise
def event_time(answer: Callable) -> None:
    """`event_time(steps, values, share) → float`: when a share of the final rise is reached for good."""
    steps = [0, 10, 20, 30, 40, 50, 60, 70]

    def asked(values: list[float], share: float = 0.5, steps: list[float] = steps) -> float:
        return number(answer(steps, values, share))

    value = asked([0, 0, 0, 1, 1, 1, 1, 1])
    demand(not close(value, 2.5), "you return the number of the measurement; steps says when it was made.")
    demand(
        close(value, 25),
        f"a curve that goes straight from 0 at step 20 to 1 at step 30 is half-way at step 25, not {value:g}.",
    )
    value = asked([2, 2, 2, 3, 3, 3, 3, 3])
    demand(close(value, 25), "a curve that starts at 2 and ends at 3 has risen by half at 2.5, not at half its end.")
    value = asked([4, 4, 4, 1, 1, 1, 1, 1])
    demand(close(value, 25), "a curve that falls has its event too: half of the way down.")
    value = asked([0, 1, 0, 0, 1, 1, 1, 1])
    demand(close(value, 35), "a curve that rises, falls back and rises again gets there for good the second time only.")
    value = asked([0, 0, 1, 3, 1, 1, 1, 1])
    demand(close(value, 15), "the rise ends at the end, not at the curve's highest point.")
    value = asked([0, 0, 0, 1, 0.5, 1.5, 0, 2])
    demand(
        not close(value, 60 + 10 * 0.5),
        "the end is the mean of the last four values: a single one may be an outlier.",
    )
    value = asked([0, 0, 0, 0, 2, 2, 2, 6])
    demand(close(value, 37.5), "the end is the mean of the last four values, of all the same.")
    early, late = (asked([0, 0, 0, 1, 1, 1, 1, 1], share) for share in (0.25, 0.75))
    demand(
        close(early, 22.5) and close(late, 27.5),
        "with share 0.25 the time should be when a quarter of the rise is reached, with 0.75 three quarters.",
    )
    value = asked([0, 0, 0, 1, 1, 1, 1, 1], steps=[0, 1, 2, 10, 20, 30, 40, 50])
    demand(close(value, 6), "measurements need not come at equal distances.")


@exercise
def sign_test(answer: Callable) -> None:
    """`sign_test(first, second) → float`: is one event before the other more often than a coin would say?"""

    def asked(first: list[float], second: list[float]) -> float:
        value = number(answer(first, second))
        demand(0 < value < 1 + 1e-6, f"a p-value lies between 0 and 1; yours is {value:.3f}.")
        return value

    five, later = [1.0, 2, 3, 4, 5], [2.0, 3, 4, 5, 6]
    value = asked(five, later)
    demand(not close(value, 1 / 32), "five of five in one order: the other order would be as extreme, so count both.")
    demand(not close(value, 1), "five of five pairs in the same order: compare within pairs, not between groups.")
    demand(close(value, 1 / 16), f"a coin puts 5 of 5 pairs in one order in 2 of 32 cases, not {value:.4f}.")
    demand(close(asked(later, five), value), "exchanging the two events should not change the p-value.")
    value = asked([1.0, 2, 3, 4, 5], [2.0, 3, 4, 5, 0])
    demand(
        close(value, 12 / 32),
        "4 of 5 in one order: count all outcomes that are at least as one-sided, 5 of 5 among them, on both sides.",
    )
    demand(close(asked([1.0, 2, 3, 4], [2.0, 3, 0, 0]), 1), "2 of 4 is as even as can be: the p-value is 1, no more.")
    value = asked([*five, 7.0], [*later, 7.0])
    demand(close(value, 1 / 16), "a pair at the same time speaks for neither order: leave it out.")
    demand(close(asked(five, [102.0, 3, 4, 5, 6]), 1 / 16), "only a pair's order should count, not its distance.")


@exercise
def permutation_test(answer: Callable) -> None:
    """`permutation_test(first, second) → float`: how many ways of dealing part the means as far as this?"""

    def asked(first: list[float], second: list[float]) -> float:
        value = number(answer(first, second))
        demand(value > 0, "the dealing that was observed is one of the ways, so the share is never 0.")
        demand(value < 1 + 1e-6, f"a share lies between 0 and 1; yours is {value:.3f}.")
        return value

    low, high = [1.0, 2, 3], [11.0, 12, 14]
    value = asked(low, high)
    demand(
        not close(value, 1 / 20), "you count one direction only; that the first group is higher would be as surprising."
    )
    demand(
        close(value, 2 / 20),
        "of the 20 ways to deal 1, 2, 3, 11, 12, 14 to two groups of three, 2 part the means as far; "
        f"your share is {value:.3f}.",
    )
    demand(close(asked(high, low), value), "exchanging the groups should not change the share.")
    demand(close(asked([x + 5 for x in low], [x + 5 for x in high]), value), "one shift for all should not matter.")
    demand(close(asked([1.0, 2], [1.0, 2]), 1), "two equal groups are no further apart than any: the share is 1.")
    value = asked([5.0], [1.0, 2, 3, 4])
    demand(close(value, 2 / 5), "groups may differ in size: 5 | 1 2 3 4 is matched by 1 | 2 3 4 5 alone, 2 of 5.")
    first, second = [1.0, 4, 2, 9], [3.0, 5, 8, 30]
    demand(
        close(asked(first, second), events.permutation_test(first, second)),
        "on 1 4 2 9 against 3 5 8 30 the share is wrong: compare means, over every way to choose the first group.",
    )


@exercise
def previous_token_weights(answer: Callable) -> None:
    """`previous_token_weights(W_pos, d_head, scale) → W_Q, W_K`: a head that looks back by one."""
    W_pos = sinusoids(40, 32)

    def weights(scale: float) -> tuple[Tensor, Tensor]:
        value = answer(W_pos, 16, scale)
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise Wrong("it should return two matrices, W_Q and W_K.")
        return tuple(tensor(W, (32, 16), "[d_model, d_head]") for W in value)

    def scores(scale: float) -> Tensor:
        W_Q, W_K = weights(scale)
        return (W_pos @ W_Q) @ (W_pos @ W_K).T

    one = scores(1.0)
    demand(one.std() > 1e-4, "all scores are the same, so the head looks everywhere alike.")
    demand(  # least squares on slow sinusoids is ill-conditioned: rounding moves scores a little
        (scores(3.0) - 9 * one).abs().max() < 0.05 * 9 * one.abs().max(),
        "scale multiplies both matrices: three times as much, scores nine times as large.",
    )
    best = one.argmax(1)[1:]  # over every source, later ones too
    dest = torch.arange(1, 40)
    offset = dest - best
    demand(
        not (offset[:-1] == -1).all(),
        "position i looks at position i + 1: turn the queries back instead of forward, or exchange W_Q and W_K.",
    )
    demand(not (offset == 0).all(), "each position looks at itself: nothing turns the queries back by one.")
    demand((offset == 1).all(), "not every position has its highest score at the position before it.")
    mask = torch.ones(40, 40, dtype=torch.bool).tril()
    pattern = (scores(4.0) / 4).masked_fill(~mask, -torch.inf).softmax(-1)
    share = heads.previous_token_score(pattern).item()
    demand(
        share > 0.8,
        f"with scale 4 the head gives the previous position {share:.2f} of its attention; the first columns of W_pos, "
        "which turn fastest, allow more than 0.8.",
    )


@exercise
def pattern_from(answer: Callable) -> None:
    """`pattern_from(dest_input, src_input, W_Q, W_K) → [dest, src]`: queries from one stream, keys from another."""
    dest, src = random(7, 12), random(7, 12, seed=1)
    W_Q, W_K = random(12, 4, seed=2) / 3, random(12, 4, seed=3) / 3

    def asked(dest: Tensor = dest, src: Tensor = src) -> Tensor:
        return tensor(answer(dest, src, W_Q, W_K), (7, 7), "[dest, src]")

    result = asked()
    demand(
        close(result.triu(1), 0 * result),
        "a destination looks at what comes after it: mask the scores above the diagonal, before the softmax.",
    )
    demand(not close(result.sum(0), torch.ones(7)), "the columns sum to 1; attention is shared out over sources.")
    demand(close(result.sum(1), torch.ones(7)), "the attention of a destination should sum to 1.")
    moved = dest.clone()
    moved[3] += 1
    rows = ((asked(dest=moved) - result).abs().sum(1) > 1e-5).nonzero().flatten().tolist()
    demand(rows == [3], "queries come from dest_input: changing it at position 3 should change row 3 alone.")
    moved = src.clone()
    moved[6] += 1
    rows = ((asked(src=moved) - result).abs().sum(1) > 1e-5).nonzero().flatten().tolist()
    demand(rows == [6], "changing the key side at the last position should change the last row and no other.")
    scores = (dest @ W_Q) @ (src @ W_K).T
    mask = torch.ones(7, 7, dtype=torch.bool).tril()

    def softened(scale: float) -> Tensor:
        return (scores / scale).masked_fill(~mask, -math.inf).softmax(-1)

    demand(not close(result, softened(1.0)), "the scores are not divided by √d_head.")
    demand(not close(result, softened(4.0)), "divide by the square root of d_head, not by d_head.")
    demand(not close(result, softened(12**0.5)), "divide by √d_head, not by √d_model.")
    demand(close(result, softened(2.0)), "that is not the pattern of queries dest_input W_Q and keys src_input W_K.")
