"""Checks of lesson 08, how induction heads form: each exercise, then its mistakes with the sentence each must get."""

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import random, tiny_model
from course_utils.course.questions import Wrong, close, demand, number, pair, tensor
from course_utils.lessons.l08_how_induction_forms import events
from course_utils.lessons.l08_how_induction_forms.forward import held_logits
from course_utils.models import sinusoids


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
    value = asked([-1, -1, -1, 3, 3, 3, 3, 3])
    demand(
        close(value, 25), "a curve that starts at −1 and ends at 3 has risen by half at 1: begin at the first value."
    )
    value = asked([0, 0, 3, 1, 1, 1, 1, 1])
    demand(close(value, 10 + 5 / 3), "the rise ends at the end, not at the curve's highest point.")
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
    """Demand the time of the event on noisy curves that rise."""
    for seed, share in ((0, 0.5), (1, 0.25), (2, 0.8), (3, 0.6)):
        length = 9 + 2 * seed
        rise = torch.arange(length) / 2
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
    share: Callable[[float], float] = lambda s: s,
    at_level: bool = False,
) -> Answer:
    def answer(steps: list, values: list, part: float = 0.5) -> float:
        start, end = first(values), final(values)
        level = start + share(part) * (end - start)
        short = [i for i, v in enumerate(values[:-1]) if v < level or (at_level and v == level)]
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
    "half of the end": (_event(first=lambda v: 0.0), "has risen by half at 1"),
    "half of the rise, counted from 0": (
        _event(first=lambda v: 0.0, final=lambda v: sum(v[-4:]) / 4 - v[0], last=False),
        "has risen by half at 1",
    ),
    "half of the peak": (_event(final=max), "not at the curve's highest point"),
    "between lowest and highest": (_event(first=min, final=max), "not at the curve's highest point"),
    "from the lowest": (_event(first=min), "not at the curve's lowest point"),
    "only the last value": (_event(final=lambda v: v[-1]), "a single one may be an outlier"),
    "the mean of three": (_event(final=lambda v: sum(v[-3:]) / 3), "of all the same"),
    "the mean of five": (_event(final=lambda v: sum(v[-5:]) / 5), "and of no more"),
    "the median of the last": (_event(final=lambda v: statistics.median(v[-4:])), "of all the same"),
    "no line between measurements": (_event(line=False), "is half-way at step 25, not 30"),
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
def paired_test(answer: Answer) -> None:
    """`paired_test(first, second) → float`: how many swaps within pairs part the means as far as this?"""

    def asked(first: list[float], second: list[float]) -> float:
        value = number(answer(first, second))
        demand(value > 0, "what was observed is one of the ways, so the share is never 0.")
        demand(value < 1 + 1e-6, f"a share lies between 0 and 1; yours is {value:.3f}.")
        return value

    first, second = [1.0, 7, 3, 9], [2.0, 10, 5, 14]
    value = asked(first, second)
    demand(not close(value, 1 / 16), "you count one direction only; a difference the other way would be as surprising.")
    demand(
        not close(value, 28 / 70) and not close(value, _dealt(first, second)),
        "you deal all the values to two groups; only swaps within a pair are allowed: 2 ways for each pair.",
    )
    demand(
        close(value, 2 / 16),
        f"of the 16 ways to swap within four pairs, 2 part 1 7 3 9 and 2 10 5 14 as far; your share is {value:.3f}.",
    )
    demand(close(asked(second, first), value), "exchanging the groups should not change the share.")
    value = asked([0.0, 0, 0], [3.0, 2, -1])
    demand(
        close(value, 4 / 8),
        "differences of 3, 2 and −1 sum to 4, and 4 of the 8 choices of signs give a sum of 4 or more in size: sizes "
        f"count, not only orders. Your share is {value:.3f}.",
    )
    value = asked([5.0, 5], [5.0, 9])
    demand(close(value, 1), "of differences 0 and 4, each swap parts the means as far: the share is 1.")
    value = asked([0.6, 0.2, 0.5, 0.4], [0.8, 0.3, 0.9, 0.2])
    demand(
        close(value, _swapped([0.6, 0.2, 0.5, 0.4], [0.8, 0.3, 0.9, 0.2])),
        "differences that are equal but for rounding should count: compare with a small tolerance.",
    )
    for n in (1, 5, 7, 10):
        one, two = (20 * random(n, seed=n)).round().tolist(), (20 * random(n, seed=n + 20) + 8).round().tolist()
        demand(
            close(asked(one, two), _swapped(one, two)),
            f"on {n} pairs the share is wrong: try every one of the 2^{n} = {2**n} choices of who is swapped.",
        )


def _swapped(
    first: list[float],
    second: list[float],
    far: Callable[[float, float], bool] = lambda d, o: abs(d) >= abs(o) - 1e-9,
    signs: tuple[int, ...] = (1, -1),
) -> float:
    differences = [b - a for a, b in zip(first, second, strict=True)]
    sums = [
        sum(sign * d for sign, d in zip(chosen, differences, strict=True))
        for chosen in itertools.product(signs, repeat=len(differences))
    ]
    return sum(far(total, sum(differences)) for total in sums) / len(sums)


def _dealt(first: list[float], second: list[float]) -> float:
    values, n = [*first, *second], len(first)
    apart = []
    for chosen in itertools.combinations(range(len(values)), n):
        inside = sum(values[i] for i in chosen)
        apart.append(abs(2 * inside - sum(values)))
    return sum(distance >= apart[0] - 1e-9 for distance in apart) / len(apart)


def _some_signs(first: list[float], second: list[float]) -> float:
    """Swaps one pair at a time."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    sums = [sum(differences)] + [sum(differences) - 2 * d for d in differences]
    return sum(abs(total) >= abs(sums[0]) - 1e-9 for total in sums) / len(sums)


def _sorting(first: list[float], second: list[float]) -> float:
    found = _swapped(first, second)
    first.sort()
    return found


paired_test.mistakes = {
    "one side": (lambda a, b: _swapped(a, b, far=lambda d, o: d >= o - 1e-9), "you count one direction only"),
    "all dealings": (_dealt, "you deal all the values to two groups"),
    "the sign test": (events.sign_test, "sizes count, not only orders"),
    "further, but not as far": (
        lambda a, b: _swapped(a, b, far=lambda d, o: abs(d) > abs(o) + 1e-9),
        "so the share is never 0",
    ),
    "no tolerance": (lambda a, b: _swapped(a, b, far=lambda d, o: abs(d) >= abs(o)), "compare with a small tolerance"),
    "swapped or left out": (lambda a, b: _swapped(a, b, signs=(1, 0)), "you count one direction only"),
    "one pair at a time": (_some_signs, "2 part 1 7 3 9 and 2 10 5 14"),
    "rounded to whole numbers": (events.paired_test, "compare with a small tolerance"),
    "the difference": (lambda a, b: abs(sum(a) - sum(b)) / len(a), "a share lies between 0 and 1"),
    "one minus": (lambda a, b: 1 - _swapped(a, b), "2 part 1 7 3 9 and 2 10 5 14"),
    "only the two extremes": (lambda a, b: 2 / 2 ** len(a), "sizes count, not only orders"),
    "first sorted": (_sorting, "it changes `first"),
}


@exercise
def previous_token_weights(answer: Answer) -> None:
    """`previous_token_weights(W_pos, d_head, scale, back) → W_Q, W_K`: a head that looks back, by one or by more."""
    W_pos = sinusoids(64, 64)  # of 16 coordinates the slowest makes a turn: least squares is well-conditioned

    def weights(scale: float, W_pos: Tensor = W_pos, d_head: int = 16, back: int = 1) -> tuple[Tensor, Tensor]:
        W_Q, W_K = pair(answer(W_pos, d_head, scale, back), "W_Q and W_K")
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
    offset = torch.arange(1, len(W_pos)) - one.argmax(1)[1:]  # over every source, later ones too
    demand(
        not (offset[:-1] == -1).all(),
        "position i looks at position i + 1: turn the queries back instead of forward, or exchange W_Q and W_K.",
    )
    demand(not (offset == 0).all(), "each position looks at itself: nothing turns the queries back by one.")
    demand((offset == 1).all(), "not every position has its highest score at the position before it.")
    W_Q, W_K = weights(1.0, back=3)
    offset = torch.arange(3, len(W_pos)) - ((W_pos @ W_Q) @ (W_pos @ W_K).T).argmax(1)[3:]
    demand(not (offset == 1).all(), "with back = 3 the head still looks at the token before: use `back`.")
    demand((offset == 3).all(), "with back = 3 each position, from 3 on, should have its highest score 3 places back.")
    for n, d_model, d_head, scale, back in ((64, 64, 16, 3.0, 1), (25, 20, 6, 2.0, 2), (64, 48, 8, 4.0, 8)):
        W_pos = sinusoids(n, d_model)
        W_Q, W_K = weights(scale, W_pos, d_head, back)
        fast = W_pos[:, :d_head]
        demand(
            (W_pos @ W_K - scale * fast).abs().max() < 1e-3 * scale,
            f"with scale {scale:g} and d_head {d_head}, each key should be the position's first {d_head} coordinates "
            f"times {scale:g}: W_K carries the scale and turns nothing.",
        )
        demand(
            ((W_pos @ W_Q)[back:] - scale * fast[:-back]).abs().max() < 1e-3 * scale,
            f"with scale {scale:g} and d_head {d_head}, the query of position i should be the first {d_head} "
            f"coordinates of position i − {back} times {scale:g}, for every i from {back} on.",
        )


def _turned(
    shift: int = 0,
    columns: Callable[[int], slice] = slice,
    scales: tuple[int, int] = (1, 1),
    swapped: bool = False,
    wrapped: bool = False,
    everywhere: float = 0.0,
    always: int = 0,
) -> Answer:
    def answer(W_pos: Tensor, d_head: int, scale: float = 4.0, back: int = 1) -> tuple[Tensor, Tensor]:
        back = always or back + shift
        rows = columns(d_head)
        part = W_pos[:, rows].double()
        n = len(part)
        dest, src = (part[back:], part[: n - back]) if back >= 0 else (part[:back], part[-back:])
        if wrapped:
            dest, src = part, part.roll(back, 0)
        turn = torch.linalg.lstsq(dest, src, driver="gelsd").solution.float()
        W_Q, W_K = torch.full((2, W_pos.shape[1], d_head), everywhere)
        W_Q[rows] = scale ** scales[0] * turn
        W_K[rows] = scale ** scales[1] * torch.eye(d_head)
        return (W_K, W_Q) if swapped else (W_Q, W_K)

    return answer


def _clearing_slow(W_pos: Tensor, d_head: int, scale: float, back: int) -> tuple[Tensor, Tensor]:
    W_pos[:, d_head:] = 0
    return _turned()(W_pos, d_head, scale, back)


previous_token_weights.mistakes = {
    "the next token": (_turned(always=-1), "position i looks at position i + 1"),
    "swapped": (_turned(swapped=True), "position i looks at position i + 1"),
    "one further back": (_turned(shift=1), "its highest score at the position before it"),
    "itself": (_turned(shift=-1), "each position looks at itself"),
    "always one back": (_turned(always=1), "still looks at the token before"),
    "the slowest columns": (_turned(columns=lambda d: slice(-d, None)), "W_Q reads other columns of W_pos too"),
    "something in every row": (_turned(everywhere=0.01), "W_Q reads other columns of W_pos too"),
    "the first position from the last": (_turned(wrapped=True), "its highest score 3 places back"),
    "scale on the queries alone": (_turned(scales=(1, 0)), "W_K carries the scale"),
    "scale on the keys alone": (_turned(scales=(0, 1)), "coordinates of position i − 1 times 3"),
    "scale on the queries twice": (_turned(scales=(2, 0)), "W_K carries the scale"),
    "scale forgotten": (_turned(scales=(0, 0)), "W_K carries the scale"),
    "zeros": (
        lambda W_pos, d_head, scale, back: torch.zeros(2, W_pos.shape[1], d_head).unbind(),
        "the head looks everywhere alike",
    ),
    "the product": (
        lambda W_pos, d_head, scale, back: (w := _turned()(W_pos, d_head, scale, back))[0] @ w[1].T,
        "it should return two things",
    ),
    "W_pos changed": (_clearing_slow, "it changes `W_pos`, which it was given"),
}


@exercise
def looks_held(answer: Answer) -> None:
    """`looks_held(model, other, tokens) → [batch, pos, d_vocab]`: logits with layer 0 looking where `other` does."""

    def asked(model: HookedTransformer, other: HookedTransformer, tokens: Tensor) -> Tensor:
        shape = *tokens.shape, model.cfg.d_vocab
        return tensor(answer(model, other, tokens), shape, "[batch, pos, d_vocab], logits")

    for config in ({}, {"n_heads": 2, "d_head": 5, "d_model": 14, "d_vocab": 12, "n_ctx": 8}):
        model, other = tiny_model(0.6, **config), _another(0.6, **config)
        tokens = torch.randint(0, 12, (3, 7), generator=torch.Generator().manual_seed(len(config)))
        result = asked(model, other, tokens)

        def alike(logits: Tensor, result: Tensor = result) -> bool:  # logits reach 50: the order of sums shows
            return torch.allclose(result, logits, rtol=1e-3, atol=1e-3)

        demand(not alike(model(tokens)), "these are the logits of `model` alone: nothing of `other` has come in.")
        demand(not alike(other(tokens)), "these are the logits of `other`: only where layer 0 looks is its.")
        demand(
            not alike(held_logits(other, tokens, model, ["look"])),
            "the models have changed roles: `other` gives the patterns, `model` does all the rest.",
        )
        demand(
            not alike(_with_pattern(model, other, tokens, (1,))),
            "you hold the pattern of layer 1; it is layer 0 that should look where `other` looks.",
        )
        demand(
            not alike(_with_pattern(model, other, tokens, (0, 1))),
            "you hold the patterns of both layers; layer 1 should look where its own queries and keys send it.",
        )
        demand(
            not alike(_with_pattern(model, other, tokens, (0,), "hook_z")),
            "what layer 0's heads move comes from `other`, too: hold the pattern alone, values stay the model's own.",
        )
        demand(
            not alike(_with_pattern(model, other, tokens, (0,), heads=(0,))),
            "only head 0 looks where it does in `other`: hold all heads of layer 0.",
        )
        demand(
            alike(held_logits(model, tokens, other, ["look"])),
            "that is not `model` with the attention pattern of layer 0 taken from `other`, on these tokens.",
        )


def _another(scale: float, **config: Any) -> HookedTransformer:
    """Another model of the same sizes."""
    model = tiny_model(scale, **config)
    for parameter in model.parameters():
        parameter.data = parameter.data.flip(0, -1) if parameter.ndim > 1 else parameter.data
    return model


def _with_pattern(
    model: HookedTransformer,
    other: HookedTransformer,
    tokens: Tensor,
    layers: Iterable[int],
    place: str = "hook_pattern",
    heads: tuple[int, ...] | None = None,
    leave: bool = False,
) -> Tensor:
    names = [f"blocks.{layer}.attn.{place}" for layer in layers]
    _, cache = other.run_with_cache(tokens, names_filter=names)

    def put(pattern: Tensor, hook: Any) -> Tensor:
        if heads is None:
            return cache[hook.name]
        pattern = pattern.clone()
        pattern[:, list(heads)] = cache[hook.name][:, list(heads)]
        return pattern

    if leave:
        add: Any = model.add_hook  # whose type knows no hook that is a plain function
        for name in names:
            add(name, put)
        return model(tokens)
    return model.run_with_hooks(tokens, fwd_hooks=[(name, put) for name in names])


def _weights_copied(model: HookedTransformer, other: HookedTransformer, tokens: Tensor) -> Tensor:
    for name in ("W_Q", "W_K"):
        getattr(model.blocks[0].attn, name).data = getattr(other.blocks[0].attn, name).data
    return model(tokens)


def _weights_borrowed(model: HookedTransformer, other: HookedTransformer, tokens: Tensor) -> Tensor:
    """The right weights on the wrong stream: the queries and keys of `other` read the model's own embedding."""
    attn, theirs = model.blocks[0].attn, other.blocks[0].attn
    kept = attn.W_Q.data, attn.W_K.data
    attn.W_Q.data, attn.W_K.data = theirs.W_Q.data, theirs.W_K.data
    found = model(tokens)
    attn.W_Q.data, attn.W_K.data = kept
    return found


looks_held.mistakes = {
    "nothing held": (lambda m, o, t: m(t), "nothing of `other` has come in"),
    "the other model": (lambda m, o, t: o(t), "these are the logits of `other`"),
    "roles exchanged": (lambda m, o, t: _with_pattern(o, m, t, (0,)), "the models have changed roles"),
    "layer 1": (lambda m, o, t: _with_pattern(m, o, t, (1,)), "you hold the pattern of layer 1"),
    "both layers": (lambda m, o, t: _with_pattern(m, o, t, (0, 1)), "you hold the patterns of both layers"),
    "values too": (lambda m, o, t: _with_pattern(m, o, t, (0,), "hook_z"), "hold the pattern alone"),
    "one head": (lambda m, o, t: _with_pattern(m, o, t, (0,), heads=(0,)), "only head 0 looks where"),
    "scores after the softmax": (
        lambda m, o, t: _with_pattern(m, o, t, (0,), "hook_attn_scores").softmax(-1),
        "that is not `model` with the attention pattern",
    ),
    "queries and keys of the other": (_weights_borrowed, "that is not `model` with the attention pattern"),
    "the weights changed": (_weights_copied, "it changes `model.blocks.0.attn.W_Q`"),
    "a hook left behind": (lambda m, o, t: _with_pattern(m, o, t, (0,), leave=True), "it leaves a hook on `m`"),
    "one text": (lambda m, o, t: _with_pattern(m, o, t[:1], (0,)), "[batch, pos, d_vocab], logits"),
    "the pattern": (lambda m, o, t: o.run_with_cache(t)[1]["pattern", 0], "[batch, pos, d_vocab], logits"),
}


OBJECTIONS = {"A": "fine", "B": "pairs", "C": "many", "D": "after", "E": "size", "F": "blind", "G": "sham", "H": "fine"}
ASKED = {  # what to ask oneself again, case by case
    "A": "was anything fixed too late, or left out? If you find nothing, say so",
    "B": "a run with the plant and the run of the same seed without it: what have they in common?",
    "C": "how often would the smallest of fifteen p-values be below 0.05, if there were nothing?",
    "D": "when was the rule made, and when were the curves seen?",
    "E": "what happens to positivity if all weights are made a hundred times smaller?",
    "F": "which ways to use a repetition does prefix matching see?",
    "G": "what else would any sharp head do to a young model?",
    "H": "when was the rule made that chooses the pair?",
}


@exercise
def objections(answer: Answer) -> None:
    """`objections() → {"A": word, …}`: for each of eight cases what is wrong with the test, or "fine"."""
    found = answer()
    if not isinstance(found, dict):
        raise Wrong(f"it should return a dictionary, a word for each letter, not {type(found).__name__}.")
    if missing := [letter for letter in OBJECTIONS if letter not in found]:
        raise Wrong(f"these cases have no verdict yet: {', '.join(missing)}.")
    words = list(dict.fromkeys(OBJECTIONS.values()))
    for letter, right in OBJECTIONS.items():
        demand(found[letter] in words, f"case {letter}: {found[letter]!r} is not one of {', '.join(words)}.")
        demand(found[letter] == right, f"case {letter}: think again: {ASKED[letter]}.".replace("?.", "?"))


def _verdicts(**other: object) -> Answer:
    return lambda: {**OBJECTIONS, **other}


objections.mistakes = {
    "A refused": (_verdicts(A="many"), "case A: think again: was anything fixed too late"),
    "groups dealt": (_verdicts(B="fine"), "case B: think again: a run with the plant"),
    "the smallest p": (_verdicts(C="fine"), "case C: think again: how often would the smallest"),
    "a rule moved": (_verdicts(D="fine"), "case D: think again: when was the rule made"),
    "a ratio": (_verdicts(E="fine"), "case E: think again: what happens to positivity"),
    "one mechanism": (_verdicts(F="size"), "case F: think again: which ways to use a repetition"),
    "no sham": (_verdicts(G="fine"), "case G: think again: what else would any sharp head"),
    "chosen at the end": (_verdicts(H="after"), "case H: think again: when was the rule made that chooses"),
    "another word": (_verdicts(B="unfair"), "'unfair' is not one of fine, pairs"),
    "one is missing": (lambda: {k: v for k, v in OBJECTIONS.items() if k != "E"}, "have no verdict yet: E"),
    "a list": (lambda: list(OBJECTIONS.values()), "it should return a dictionary"),
}
