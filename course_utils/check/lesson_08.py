"""Checks of lesson 08, how induction heads form: each exercise, then its mistakes with the sentence each must get."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, pair, tensor
from course_utils.formation import events, language
from course_utils.models import sinusoids


@exercise
def predictable(answer: Answer) -> None:
    """`predictable(tokens) → [batch, pos − 1]`: what followed the current token last time comes again."""

    def asked(*rows: list[int]) -> Tensor:
        result = tensor(
            answer(torch.tensor(rows)), (len(rows), len(rows[0]) - 1), "[batch, pos − 1], one entry per next token"
        )
        demand(
            ((result == 0) | (result == 1)).all(),
            "it should hold true and false, or 1 and 0, and it holds other numbers.",
        )
        return result != 0

    def positions(*row: int) -> list[int]:
        return [i + 1 for i, hit in enumerate(asked(list(row))[0].tolist()) if hit]

    found = positions(0, 5, 6, 7, 8, 5, 6)
    demand(bool(found), "in 0 5 6 7 8 5 6 the last token is what followed 5 before, and nothing is marked.")
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
    demand(positions(0, 5, 0, 5) == [3], "in 0 5 0 5 the 5 follows a 0 for the second time, wherever the 0 stands.")
    demand(positions(5, 0, 5, 0) == [3], "in 5 0 5 0 what followed 5 last was 0, a token like any other.")
    demand(
        not asked([0, 5, 6, 7], [0, 5, 6, 8])[1].any(), "what one document teaches should not be known in the next one."
    )
    for batch, length, most in ((3, 30, 6), (5, 12, 3), (2, 40, 9)):
        tokens = torch.randint(0, most, (batch, length), generator=torch.Generator().manual_seed(most))
        demand(
            torch.equal(asked(*(300 * tokens).tolist()), language.predictable(tokens)),
            f"in {batch} random documents of {length} tokens some entries are wrong.",
        )


def _remembered(
    tokens: Tensor,
    update_first: bool = False,
    keep_first: bool = False,
    across: bool = False,
    shifted: bool = False,
    missing: int | None = None,
) -> Tensor:
    result = torch.zeros(len(tokens), tokens.shape[1] - 1, dtype=torch.bool)
    followed: dict[int, int] = {}
    for row, document in enumerate(tokens.tolist()):
        followed = followed if across else {}
        for i, (current, following) in enumerate(itertools.pairwise(document)):
            if update_first:
                followed[current] = following
            place = i + shifted
            if place < result.shape[1]:
                result[row, place] = followed.get(current, missing) == following
            if not (keep_first and current in followed):
                followed[current] = following
    return result


def _truthy(tokens: Tensor) -> Tensor:
    """Takes token 0 for "nothing yet"."""
    rows = []
    for document in tokens.tolist():
        followed: dict[int, int] = {}
        row = []
        for current, following in itertools.pairwise(document):
            row.append(bool(followed.get(current)) and followed[current] == following)
            followed[current] = following
        rows.append(row)
    return torch.tensor(rows)


def _any_pair_before(tokens: Tensor) -> Tensor:
    rows = [list(itertools.pairwise(row)) for row in tokens.tolist()]
    return torch.tensor([[now in pairs[:i] for i, now in enumerate(pairs)] for pairs in rows])


def _token_before(tokens: Tensor) -> Tensor:
    return torch.tensor([[row[i] in row[1:i] for i in range(1, len(row))] for row in tokens.tolist()])


def _current_before(tokens: Tensor) -> Tensor:
    return torch.tensor([[row[i] in row[:i] for i in range(len(row) - 1)] for row in tokens.tolist()])


def _clearing_start(tokens: Tensor) -> Tensor:
    tokens[:, 0] = -1
    return _remembered(tokens)


predictable.mistakes = {
    "the first time instead of the last": (lambda t: _remembered(t, keep_first=True), "what followed 5 *last* was 7"),
    "learnt before it is asked": (lambda t: _remembered(t, update_first=True), "you mark [1, 2, 3, 4, 5, 6]"),
    "remembered from document to document": (lambda t: _remembered(t, across=True), "what one document teaches"),
    "shifted by one": (lambda t: _remembered(t, shifted=True), "and nothing is marked"),
    "any earlier pair": (_any_pair_before, "what followed 5 *last* was 7"),
    "the token was seen": (_token_before, "only the last token, number 6"),
    "the current token was seen": (_current_before, "that 6 did is not enough"),
    "0 counts as remembered": (lambda t: _remembered(t, missing=0), "the 5 follows a 0 for the second time"),
    "0 is never remembered": (_truthy, "in 5 0 5 0 what followed"),
    "three documents": (
        lambda t: torch.cat([_remembered(t[:3]), torch.zeros_like(t[3:, 1:]).bool()]),
        "in 5 random documents of 12",
    ),
    "one entry too many": (
        lambda t: torch.cat([torch.zeros_like(t[:, :1]).bool(), _remembered(t)], 1),
        "one entry per next token",
    ),
    "a count": (lambda t: _remembered(t).sum(), "one entry per next token"),
    "nothing": (lambda t: torch.zeros_like(t[:, 1:]).bool(), "and nothing is marked"),
    "the tokens changed": (_clearing_start, "it changes `tokens`, which it was given"),
}


@exercise
def in_context_learning_score(answer: Answer) -> None:
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
    for batch, length, window in ((4, 12, 3), (2, 30, 7), (5, 9, 1)):
        losses = random(batch, length, seed=window).abs()
        demand(
            close(number(answer(losses, window)), _late_minus_early(losses, window)),
            f"on random losses [{batch}, {length}] with windows of {window} it is not the difference of two means, "
            "each over all documents and all positions of its window.",
        )


def _late_minus_early(losses: Tensor, window: int) -> float:
    return (losses[:, -window:].mean() - losses[:, window : 2 * window].mean()).item()


def _shifting(losses: Tensor, window: int) -> Tensor:
    losses -= losses[:, window : 2 * window].mean()
    return losses[:, -window:].mean()


in_context_learning_score.mistakes = {
    "sign": (lambda x, w: -_late_minus_early(x, w), "late minus early"),
    "the first window": (lambda x, w: x[:, -w:].mean() - x[:, :w].mean(), "the first window should not count"),
    "everything before": (lambda x, w: x[:, -w:].mean() - x[:, :-w].mean(), "the first window should not count"),
    "against the mean": (lambda x, w: x[:, -w:].mean() - x.mean(), "the first window should not count"),
    "single positions": (lambda x, w: x[:, -1].mean() - x[:, w].mean(), "windows of 3 should give −6"),
    "sums": (
        lambda x, w: x[:, -w:].sum() - x[:, w : 2 * w].sum(),
        "should raise the score by 1, not 12.00",
    ),
    "bits": (lambda x, w: _late_minus_early(x, w) / math.log(2), "should raise the score by 1, not 1.44"),
    "a ratio": (lambda x, w: x[:, -w:].mean() / x[:, w : 2 * w].mean(), "late minus early"),
    "medians": (lambda x, w: x[:, -w:].median() - x[:, w : 2 * w].median(), "it is not the difference of two means"),
    "the first document": (lambda x, w: _late_minus_early(x[:1], w), "each over all documents"),
    "windows of 3": (lambda x, w: _late_minus_early(x, 3), "on random losses [2, 30] with windows of 7"),
    "rows for positions": (lambda x, w: x[-w:].mean() - x[w : 2 * w].mean(), "the result is nan"),
    "one per document": (
        lambda x, w: x[:, -w:].mean(1) - x[:, w : 2 * w].mean(1),
        "it should return one number",
    ),
    "the losses changed": (_shifting, "it changes `losses`, which it was given"),
}


@exercise
def best_head_curve(answer: Answer) -> None:
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
    demand(not close(curve, curves[:, 1, 1].flip(0)), "the curve is back to front: its first value is the first row's.")
    demand(close(curve, curves[:, 1, 1]), "in the last row of layer 1 head 1 is highest; that is no curve of head 1.")
    demand(close(asked("induction", 0), curves[:, 0, 1]), "layer 0 should give the curve of its own best head.")
    demand(close(asked("other", 1), 1 - curves[:, 1, 0]), "for another score, choose the head by that one.")
    demand(close(asked("induction", 1, history[:3]), curves[:3, 1, 0]), "a shorter history has another last row.")
    curves = random(7, 3, 5)
    for layer in range(3):
        best = curves[-1, layer].argmax()
        demand(
            close(asked("induction", layer, _history(curves)), curves[:, layer, best]),
            f"with 3 layers of 5 heads, some scores below 0, layer {layer} gets the curve of another head.",
        )
    below = -1 - random(4, 2, 6, seed=1).abs()
    demand(
        close(asked("induction", 1, _history(below)), below[:, 1, below[-1, 1].argmax()]),
        "where all scores are below 0, the highest is the one nearest to 0.",
    )


def _history(curves: Tensor) -> list[dict]:
    """Curves [step, layer, head] as a history of a score, with another score beside it."""
    return [
        {"step": 25 * i, "induction": row.tolist(), "other": (1 - row).tolist(), "loss": 4.0}
        for i, row in enumerate(curves)
    ]


def _curve_of(choose: Callable[[Tensor], Tensor | int]) -> Answer:
    """An answer that chooses its head from all rows [step, head]."""

    def answer(history: list[dict], score: str, layer: int) -> list[float]:
        rows = torch.tensor([row[score][layer] for row in history])
        return rows[:, choose(rows)].tolist()

    return answer


_right_curve = _curve_of(lambda rows: rows[-1].argmax())


def _turning_round(history: list[dict], score: str, layer: int) -> list[float]:
    found = _right_curve(history, score, layer)
    history.reverse()
    return found


best_head_curve.mistakes = {
    "the best at each moment": (
        lambda h, s, layer: [max(row[s][layer]) for row in h],
        "the head that is best at that moment",
    ),
    "the mean head": (
        lambda h, s, layer: [sum(row[s][layer]) / len(row[s][layer]) for row in h],
        "that is the mean over heads",
    ),
    "the best at the start": (_curve_of(lambda rows: rows[0].argmax()), "choose by the last row"),
    "the best on average": (_curve_of(lambda rows: rows.mean(0).argmax()), "choose by the last row"),
    "the one with the highest peak": (
        _curve_of(lambda rows: rows.max(0).values.argmax()),
        "layer 0 should give the curve of its own best head",
    ),
    "the one that rises most": (_curve_of(lambda rows: (rows[-1] - rows[0]).argmax()), "with 3 layers of 5 heads"),
    "the largest size": (_curve_of(lambda rows: rows[-1].abs().argmax()), "with 3 layers of 5 heads"),
    "above 0 only": (_curve_of(lambda rows: rows[-1].clamp(min=0).argmax()), "where all scores are below 0"),
    "back to front": (lambda h, s, layer: _right_curve(h, s, layer)[::-1], "the curve is back to front"),
    "layer 0 always": (lambda h, s, layer: _right_curve(h, s, 0), "in the last row of layer 1"),
    "layer 1 always": (lambda h, s, layer: _right_curve(h, s, 1), "layer 0 should give"),
    "the last layer for 1": (lambda h, s, layer: _right_curve(h, s, -layer), "with 3 layers of 5 heads"),
    "its number": (
        lambda h, s, layer: h[-1][s][layer].index(max(h[-1][s][layer])),
        "it should return a list, one number per row",
    ),
    "head 1 always": (_curve_of(lambda rows: 1), "for another score, choose"),
    "chosen by another score": (
        lambda h, s, layer: [row[s][layer][torch.tensor(h[-1]["induction"][layer]).argmax()] for row in h],
        "for another score, choose",
    ),
    "the history changed": (_turning_round, "it changes `history"),
}


@exercise
def event_time(answer: Answer) -> None:
    """`event_time(steps, values, share) → float`: when a share of the final rise is reached for good."""
    steps = [0, 10, 20, 30, 40, 50, 60, 70]

    def asked(values: list[float], share: float = 0.5, steps: Sequence[float] = steps) -> float:
        return number(answer(steps, values, share))

    value = asked([0, 0, 0, 1, 1, 1, 1, 1])
    demand(not close(value, 2.5), "you return the number of the measurement; steps says when it was made.")
    demand(
        close(value, 25),
        f"a curve that goes straight from 0 at step 20 to 1 at step 30 is half-way at step 25, not {value:g}.",
    )
    value = asked([2, 2, 2, 3, 3, 3, 3, 3])
    demand(close(value, 25), "a curve that starts at 2 and ends at 3 has risen by half at 2.5, not at half its end.")
    value = asked([0, 0, 3, 1, 1, 1, 1, 1])
    demand(close(value, 10 + 5 / 3), "the rise ends at the end, not at the curve's highest point.")
    value = asked([4, 4, 4, 1, 1, 1, 1, 1])
    demand(close(value, 25), "a curve that falls has its event too: half of the way down.")
    value = asked([0, 1, 0, 0, 1, 1, 1, 1])
    demand(not close(value, 34), "the end is the mean of the last four values, and of no more.")
    demand(close(value, 35), "a curve that rises, falls back and rises again gets there for good the second time only.")
    value = asked([0, -2, 0, 1, 1, 1, 1, 1])
    demand(close(value, 25), "the rise begins at the first value, not at the curve's lowest point.")
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
    value = asked([0, 0.5, 0.5, 0.5, 1, 1, 1, 1])
    demand(
        close(value, 10),
        "a curve that reaches half at step 10 and stays there till step 30 is there for good from step 10, "
        f"not {value:g}.",
    )
    _right_on_noise(asked)


def _right_on_noise(asked: Callable[..., float]) -> None:
    """Demand the time of the event on noisy curves that rise or fall."""
    for seed, share in ((0, 0.5), (1, 0.25), (2, 0.8), (3, 0.6)):
        length = 9 + 2 * seed
        rise = torch.arange(length) / 2 * (1 if seed % 2 else -1)
        values = (rise + random(length, seed=seed)).tolist()
        steps = (25 * torch.arange(length) + 3 * torch.arange(length) ** 2).tolist()
        demand(
            close(asked(values, share, steps), events.event_time(steps, values, share)),
            f"on a noisy curve of {length} measurements and share {share} the time is wrong: the last measurement "
            "short of the level, and the straight line from there.",
        )


def _event(
    first: Callable[[list], float] = lambda v: v[0],
    final: Callable[[list], float] = lambda v: sum(v[-4:]) / 4,
    last: bool = True,
    line: bool = True,
    rising: bool = False,
    share: Callable[[float], float] = lambda s: s,
    at_level: bool = False,
) -> Answer:
    def answer(steps: list, values: list, part: float = 0.5) -> float:
        start, end = first(values), final(values)
        level = start + share(part) * (end - start)
        sign = 1 if end > start or rising else -1
        short = [i for i, v in enumerate(values[:-1]) if sign * (v - level) < 0 or (at_level and v == level)]
        crossings = [i for i in short if i + 1 not in short]
        if not crossings:
            return 0.0
        before = crossings[-1] if last else crossings[0]
        rise = values[before + 1] - values[before]
        if not line or not rise:
            return float(steps[before + 1])
        return steps[before] + (level - values[before]) / rise * (steps[before + 1] - steps[before])

    return answer


def _index_of_event(steps: list, values: list, share: float = 0.5) -> float:
    return _event()(list(range(len(steps))), values, share)


def _turning_down(steps: list, values: list, share: float = 0.5) -> float:
    found = _event()(steps, values, share)
    values[:] = [-v for v in values]
    return found


event_time.mistakes = {
    "the first crossing": (_event(last=False), "gets there for good the second time only"),
    "half of the end": (_event(first=lambda v: 0.0), "has risen by half at 2.5"),
    "half of the peak": (_event(final=max), "not at the curve's highest point"),
    "between lowest and highest": (_event(first=min, final=max, rising=True), "not at the curve's highest point"),
    "from the lowest": (_event(first=min), "a curve that falls has its event too"),
    "only the last value": (_event(final=lambda v: v[-1]), "a single one may be an outlier"),
    "the mean of three": (_event(final=lambda v: sum(v[-3:]) / 3), "of all the same"),
    "the mean of five": (_event(final=lambda v: sum(v[-5:]) / 5), "and of no more"),
    "the median of the last": (_event(final=lambda v: statistics.median(v[-4:])), "of all the same"),
    "no line between measurements": (_event(line=False), "is half-way at step 25, not 30"),
    "only rising": (_event(rising=True), "a curve that falls has its event too"),
    "what is at the level counts as short": (_event(at_level=True), "is there for good from step 10, not 30"),
    "an index": (_index_of_event, "you return the number of the measurement"),
    "share ignored": (_event(share=lambda s: 0.5), "with share 0.25 the time should be"),
    "share from the end": (_event(share=lambda s: 1 - s), "with share 0.25 the time should be"),
    "share squared, twice": (_event(share=lambda s: 2 * s * s), "with share 0.25 the time should be"),
    "equal distances": (
        lambda steps, v, s=0.5: _index_of_event(steps, v, s) * (steps[-1] - steps[-2]),
        "need not come at equal distances",
    ),
    "the values changed": (_turning_down, "it changes `values"),
}


@exercise
def sign_test(answer: Answer) -> None:
    """`sign_test(first, second) → float`: is one event before the other more often than a coin would say?"""

    def asked(first: list[float], second: list[float]) -> float:
        value = number(answer(first, second))
        demand(0 < value < 1 + 1e-6, f"a p-value lies between 0 and 1; yours is {value:.3f}.")
        return value

    five, later = [3.0, 1, 5, 2, 4], [4.0, 2, 6, 3, 5]
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
    demand(close(asked(five, [x + 100 * i for i, x in enumerate(later)]), 1 / 16), "only a pair's order should count.")
    for n, rarer in ((7, 2), (10, 3), (9, 1)):
        first = (100 * random(n, seed=n)).tolist()
        second = [time + (-1 if i < rarer else 2) for i, time in enumerate(first)]
        demand(
            close(asked(first, second), events.sign_test(first, second)),
            f"with {n} pairs, {rarer} of them in the rarer order, add up the cases of every count from 0 to {rarer}.",
        )


def _coin(
    first: list[float],
    second: list[float],
    sides: int = 2,
    ties: bool = False,
    exactly: bool = False,
    ways: Callable[[int, int], int] = math.comb,
    pairs: Callable[[list, list], Iterable[tuple[float, float]]] = zip,
) -> float:
    differences = [b - a for a, b in pairs(first, second) if ties or a != b]
    n, rarer = len(differences), min(sum(d > 0 for d in differences), sum(d < 0 for d in differences))
    counts = [rarer] if exactly else range(rarer + 1)
    return min(1.0, sides * sum(ways(n, k) for k in counts) / 2**n)


def _every_pair(first: list[float], second: list[float]) -> Iterable[tuple[float, float]]:
    return ((a, b) for a in first for b in second)


def _sorted_pairs(first: list[float], second: list[float]) -> Iterable[tuple[float, float]]:
    return zip(sorted(first), sorted(second), strict=True)


def _sorting(first: list[float], second: list[float]) -> float:
    found = _coin(first, second)
    first.sort()
    return found


sign_test.mistakes = {
    "one side": (lambda a, b: _coin(a, b, sides=1), "so count both"),
    "ties counted": (lambda a, b: _coin(a, b, ties=True), "speaks for neither order"),
    "exactly as many": (lambda a, b: _coin(a, b, exactly=True), "count all outcomes that are"),
    "permutations for combinations": (lambda a, b: _coin(a, b, ways=math.perm), "every count from 0 to 2"),
    "the larger count": (lambda a, b: 1.0, "compare within pairs, not between groups"),
    "sorted, not paired": (lambda a, b: _coin(a, b, pairs=_sorted_pairs), "count all outcomes that are"),
    "every pair with every other": (lambda a, b: _coin(a, b, pairs=_every_pair), "in 2 of 32 cases"),
    "above 1": (lambda a, b: 2 * _coin(a, b, sides=1), "a p-value lies between 0 and 1"),
    "the share of pairs": (
        lambda a, b: sum(x < y for x, y in zip(a, b, strict=True)) / len(a),
        "compare within pairs, not between groups",
    ),
    "of groups": (lambda a, b: _dealt(a, b), "in 2 of 32 cases"),
    "first sorted": (_sorting, "it changes `first"),
}


@exercise
def permutation_test(answer: Answer) -> None:
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
    for first, second in ROUNDED:
        demand(
            close(asked(first, second), events.permutation_test(first, second)),
            "differences that are equal but for rounding should count: compare with a small tolerance.",
        )
    for first, second in (
        ([1.0, 4, 2, 9], [3.0, 5, 8, 30]),
        ([7.0, 1, 12], [3.0, 9, 2, 20, 5]),
        ([6.0, 40, 3, 8, 2], [11.0, 1]),
    ):
        demand(
            close(asked(first, second), events.permutation_test(first, second)),
            f"on {_spaced(first)} against {_spaced(second)} the share is wrong: compare means, over every way to "
            "choose the first group.",
        )


ROUNDED = [([0.1, 0.6, 0.2], [0.7, 0.4]), ([0.1, 0.7, 0.3], [0.4, 0.6])]


def _spaced(values: list[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _dealt(
    first: list[float],
    second: list[float],
    mean: Callable[[list[float]], float] = statistics.fmean,
    far: Callable[[float, float], bool] = lambda d, o: abs(d) >= abs(o) - 1e-9,
    deals: Callable[[Iterable[int], int], Iterable[tuple[int, ...]]] = itertools.combinations,
) -> float:
    values, n = [*first, *second], len(first)
    distances = []
    for chosen in deals(range(len(values)), n):
        inside = [values[i] for i in chosen]
        outside = [value for i, value in enumerate(values) if i not in chosen]
        distances.append(mean(inside) - mean(outside) if outside else 0.0)
    observed = mean(first) - mean(second)
    return sum(far(d, observed) for d in distances) / len(distances)


def _naive_mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _with_replacement(values: Iterable[int], n: int) -> Iterable[tuple[int, ...]]:
    return itertools.combinations_with_replacement(values, n)


def _extending(first: list[float], second: list[float]) -> float:
    found = _dealt(first, second)
    first.extend(second)
    return found


permutation_test.mistakes = {
    "one side": (lambda a, b: _dealt(a, b, far=lambda d, o: d <= o + 1e-9), "you count one direction only"),
    "the other side": (lambda a, b: _dealt(a, b, far=lambda d, o: d >= o - 1e-9), "your share is 1.000"),
    "further, but not as far": (
        lambda a, b: _dealt(a, b, far=lambda d, o: abs(d) > abs(o) + 1e-9),
        "so the share is never 0",
    ),
    "no tolerance": (
        lambda a, b: _dealt(a, b, mean=_naive_mean, far=lambda d, o: abs(d) >= abs(o)),
        "compare with a small tolerance",
    ),
    "medians": (lambda a, b: _dealt(a, b, mean=statistics.median), "2 part the means as far"),
    "sums": (lambda a, b: _dealt(a, b, mean=sum), "groups may differ in size"),
    "with replacement": (lambda a, b: _dealt(a, b, deals=_with_replacement), "2 part the means as far"),
    "the difference": (lambda a, b: abs(_naive_mean(a) - _naive_mean(b)), "a share lies between 0 and 1"),
    "one minus": (lambda a, b: 1 - _dealt(a, b), "2 part the means as far"),
    "only the observed dealing": (
        lambda a, b: 1 / math.comb(len(a) + len(b), len(a)),
        "you count one direction only",
    ),
    "the observed and its mirror": (
        lambda a, b: 2 / math.comb(len(a) + len(b), len(a)),
        "two equal groups are no further apart",
    ),
    "first extended": (_extending, "it changes `first"),
}


@exercise
def previous_token_weights(answer: Answer) -> None:
    """`previous_token_weights(W_pos, d_head, scale) → W_Q, W_K`: a head that looks back by one."""
    W_pos = sinusoids(40, 32)

    def weights(scale: float, W_pos: Tensor = W_pos, d_head: int = 16) -> tuple[Tensor, Tensor]:
        W_Q, W_K = pair(answer(W_pos, d_head, scale), "W_Q and W_K")
        shape = W_pos.shape[1], d_head
        return tensor(W_Q, shape, "[d_model, d_head]"), tensor(W_K, shape, "[d_model, d_head]")

    W_Q, W_K = weights(1.0)
    one = (W_pos @ W_Q) @ (W_pos @ W_K).T
    demand(one.std() > 1e-4, "all scores are the same, so the head looks everywhere alike.")
    for name, W in (("W_Q", W_Q), ("W_K", W_K)):
        demand(
            (W[16:].abs() < 1e-5).all(),
            f"{name} reads other columns of W_pos too: its rows from d_head = 16 on should be 0.",
        )
    offset = torch.arange(1, 40) - one.argmax(1)[1:]  # over every source, later ones too
    demand(
        not (offset[:-1] == -1).all(),
        "position i looks at position i + 1: turn the queries back instead of forward, or exchange W_Q and W_K.",
    )
    demand(not (offset == 0).all(), "each position looks at itself: nothing turns the queries back by one.")
    demand((offset == 1).all(), "not every position has its highest score at the position before it.")
    for n, d_model, d_head, scale in ((40, 32, 16, 3.0), (25, 20, 6, 2.0), (64, 48, 8, 4.0)):
        W_pos = sinusoids(n, d_model)
        W_Q, W_K = weights(scale, W_pos, d_head)
        fast = W_pos[:, :d_head]
        demand(  # least squares on slow sinusoids is ill-conditioned: rounding moves a little
            (W_pos @ W_K - scale * fast).abs().max() < 0.02 * scale,
            f"with scale {scale:g} and d_head {d_head}, each key should be the position's first {d_head} coordinates "
            f"times {scale:g}: W_K carries the scale and turns nothing.",
        )
        demand(
            ((W_pos @ W_Q)[1:] - scale * fast[:-1]).abs().max() < 0.02 * scale,
            f"with scale {scale:g} and d_head {d_head}, the query of position i should be the first {d_head} "
            f"coordinates of position i − 1 times {scale:g}, for every i from 1 on.",
        )


def _turned(
    back: int = 1,
    columns: Callable[[int], slice] = slice,
    scales: tuple[int, int] = (1, 1),
    swapped: bool = False,
    wrapped: bool = False,
    everywhere: float = 0.0,
) -> Answer:
    def answer(W_pos: Tensor, d_head: int, scale: float) -> tuple[Tensor, Tensor]:
        rows = columns(d_head)
        part = W_pos[:, rows].double()
        n = len(part)
        dest, src = (part[back:], part[: n - back]) if back >= 0 else (part[:back], part[-back:])
        if wrapped:
            dest, src = part, part.roll(1, 0)
        turn = torch.linalg.lstsq(dest, src, driver="gelsd").solution.float()
        W_Q, W_K = torch.full((2, W_pos.shape[1], d_head), everywhere)
        W_Q[rows] = scale ** scales[0] * turn
        W_K[rows] = scale ** scales[1] * torch.eye(d_head)
        return (W_K, W_Q) if swapped else (W_Q, W_K)

    return answer


def _clearing_slow(W_pos: Tensor, d_head: int, scale: float) -> tuple[Tensor, Tensor]:
    W_pos[:, d_head:] = 0
    return _turned()(W_pos, d_head, scale)


previous_token_weights.mistakes = {
    "the next token": (_turned(back=-1), "position i looks at position i + 1"),
    "swapped": (_turned(swapped=True), "position i looks at position i + 1"),
    "two back": (_turned(back=2), "its highest score at the position before it"),
    "itself": (_turned(back=0), "each position looks at itself"),
    "the slowest columns": (_turned(columns=lambda d: slice(-d, None)), "W_Q reads other columns of W_pos too"),
    "something in every row": (_turned(everywhere=0.01), "W_Q reads other columns of W_pos too"),
    "the first position from the last": (_turned(wrapped=True), "coordinates of position i − 1"),
    "scale on the queries alone": (_turned(scales=(1, 0)), "W_K carries the scale"),
    "scale on the keys alone": (_turned(scales=(0, 1)), "coordinates of position i − 1 times 3"),
    "scale on the queries twice": (_turned(scales=(2, 0)), "W_K carries the scale"),
    "scale forgotten": (_turned(scales=(0, 0)), "W_K carries the scale"),
    "zeros": (
        lambda W_pos, d_head, scale: torch.zeros(2, W_pos.shape[1], d_head).unbind(),
        "the head looks everywhere alike",
    ),
    "the product": (
        lambda W_pos, d_head, scale: (w := _turned()(W_pos, d_head, scale))[0] @ w[1].T,
        "it should return two things",
    ),
    "W_pos changed": (_clearing_slow, "it changes `W_pos`, which it was given"),
}


@exercise
def pattern_from(answer: Answer) -> None:
    """`pattern_from(dest_input, src_input, W_Q, W_K) → [dest, src]`: queries from one stream, keys from another."""
    dest, src = random(7, 12), random(7, 12, seed=1)
    W_Q, W_K = random(12, 4, seed=2) / 3, random(12, 4, seed=3) / 3

    def asked(dest: Tensor = dest, src: Tensor = src, W_Q: Tensor = W_Q, W_K: Tensor = W_K) -> Tensor:
        return tensor(answer(dest, src, W_Q, W_K), (len(dest), len(dest)), "[dest, src]")

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

    def softened(scale: float) -> Tensor:
        return _attention(dest, src, W_Q, W_K, divide=lambda d_model, d_head: scale)

    demand(not close(result, softened(1.0)), "the scores are not divided by √d_head.")
    demand(not close(result, softened(4.0)), "divide by the square root of d_head, not by d_head.")
    demand(not close(result, softened(12**0.5)), "divide by √d_head, not by √d_model.")
    demand(
        not close(result, _attention(dest, src, W_K, W_Q)),
        "W_Q and W_K have changed roles: queries are dest_input W_Q, keys src_input W_K.",
    )
    demand(close(result, softened(2.0)), "that is not the pattern of queries dest_input W_Q and keys src_input W_K.")
    dest, src = random(5, 8, seed=4), random(5, 8, seed=5)
    W_Q, W_K = random(8, 3, seed=6) / 3, random(8, 3, seed=7) / 3
    demand(
        close(asked(dest, src, W_Q, W_K), _attention(dest, src, W_Q, W_K)),
        "at other sizes (5 positions, d_head 3) the pattern is wrong.",
    )


def _attention(
    dest: Tensor,
    src: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    divide: Callable[[int, int], float] = lambda d_model, d_head: d_head**0.5,
    mask: int | None = 0,
    axis: int = -1,
) -> Tensor:
    scores = (dest @ W_Q) @ (src @ W_K).T / divide(*W_Q.shape)
    if mask is not None:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(mask), -torch.inf)
    return scores.softmax(axis)


def _scaling_W_Q(dest: Tensor, src: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    W_Q /= W_Q.shape[1] ** 0.5
    return _attention(dest, src, W_Q, W_K, divide=lambda d_model, d_head: 1)


pattern_from.mistakes = {
    "streams swapped": (lambda d, s, Q, K: _attention(s, d, Q, K), "queries come from dest_input"),
    "weights swapped": (lambda d, s, Q, K: _attention(d, s, K, Q), "W_Q and W_K have changed roles"),
    "W_Q for both": (lambda d, s, Q, K: _attention(d, s, Q, Q), "that is not the pattern of queries"),
    "both from dest": (lambda d, s, Q, K: _attention(d, d, Q, K), "queries come from dest_input"),
    "both from src": (lambda d, s, Q, K: _attention(s, s, Q, K), "queries come from dest_input"),
    "no mask": (lambda d, s, Q, K: _attention(d, s, Q, K, mask=None), "a destination looks at what comes after it"),
    "mask after the softmax": (
        lambda d, s, Q, K: _attention(d, s, Q, K, mask=None).tril(),
        "the attention of a destination should sum to 1",
    ),
    "zeros for a mask": (
        lambda d, s, Q, K: ((d @ Q) @ (s @ K).T / Q.shape[1] ** 0.5).tril().softmax(-1),
        "a destination looks at what comes after it",
    ),
    "mask off by one": (
        lambda d, s, Q, K: _attention(d, s, Q, K, mask=1),
        "a destination looks at what comes after it",
    ),
    "no square root": (
        lambda d, s, Q, K: _attention(d, s, Q, K, divide=lambda d_model, d_head: d_head),
        "divide by the square root of d_head",
    ),
    "√d_model": (
        lambda d, s, Q, K: _attention(d, s, Q, K, divide=lambda d_model, d_head: d_model**0.5),
        "not by √d_model",
    ),
    "not divided": (
        lambda d, s, Q, K: _attention(d, s, Q, K, divide=lambda d_model, d_head: 1),
        "the scores are not divided",
    ),
    "divided by 2": (
        lambda d, s, Q, K: _attention(d, s, Q, K, divide=lambda d_model, d_head: 2),
        "at other sizes (5 positions, d_head 3)",
    ),
    "softmax over destinations": (
        lambda d, s, Q, K: _attention(d, s, Q, K, axis=0),
        "the columns sum to 1",
    ),
    "transposed": (lambda d, s, Q, K: _attention(d, s, Q, K).T, "a destination looks at what comes after it"),
    "scores": (lambda d, s, Q, K: (d @ Q) @ (s @ K).T, "a destination looks at what comes after it"),
    "W_Q changed": (_scaling_W_Q, "it changes `W_Q`, which it was given"),
}
