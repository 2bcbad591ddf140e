"""Answers to the exercises of lesson 10: others that are right, and wrong ones with what they hear."""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads, interventions
from course_utils.course.exercises import Answer
from course_utils.lessons.l10_reading_critically.checks import (
    FINAL,
    VERDICTS,
    _dividing,
    _patched,
    _with_door,
)


def _one_in_the_other(model: HookedTransformer, tokens: Tensor, values: dict[str, float]) -> Tensor:
    if not values:
        return model(tokens).double()
    (name, value), *others = values.items()
    with interventions.patched(model, name, torch.full((*tokens.shape, 1), value)):
        return _one_in_the_other(model, tokens, dict(others))


def _judge(c: float, d: float, m: float, n: float, apart: Any = None, near: float = 1) -> str:
    """The right word, with something to get wrong: how far `apart` the ends are, how many noises are `near`."""
    if (abs(c - d) if apart is None else apart) <= 2 * n:
        return "decides nothing"
    return "stands" if abs(m - c) <= near * n else "falls" if abs(m - d) <= near * n else "between"


def _by_ranges(c: float, d: float, m: float, n: float) -> str:
    if max(c, d) - n <= min(c, d) + n:
        return "decides nothing"
    return next((word for end, word in ((c, "stands"), (d, "falls")) if end - n <= m <= end + n), "between")


def _rescaled(model: HookedTransformer, factor: float, *names: str, layers: slice = slice(None)) -> HookedTransformer:
    model = copy.deepcopy(model)
    for block in model.blocks[layers]:
        for name in names or ("W_Q",):
            getattr(block.attn, name).data *= factor
    return model


def _root(model: HookedTransformer) -> float:
    return math.sqrt(model.cfg.d_head)


def _in_the_heads(model: HookedTransformer) -> HookedTransformer:
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attn.attn_scale = 1.0
    return model


def _by_gap(
    row_of: Callable[..., list[int]] = lambda row, gap, source, dest: [0, source, *row[:gap], dest],
    entry: tuple[int, int] = (-1, 1),
    of: Callable[[Tensor], Tensor] = torch.mean,
) -> Answer:
    """An answer with something to get wrong: what a context is, which entry is read, what is made of several."""

    def answer(model: HookedTransformer, head: int, source: int, dest: int, fillers: Tensor) -> Tensor:
        gaps, fill = range(fillers.shape[1] + 1), fillers.tolist()
        texts = [torch.tensor([row_of(row, gap, source, dest) for row in fill]) for gap in gaps]
        return torch.stack([of(heads.patterns(model, rows)[0, head, :, entry[0], entry[1]]) for rows in texts])

    return answer


def _one_text_at_a_time(model: HookedTransformer, head: int, source: int, dest: int, fillers: Tensor) -> Tensor:
    found = torch.zeros(len(fillers), fillers.shape[1] + 1, dtype=torch.float64)
    for i, row in enumerate(fillers):
        for gap in range(len(row) + 1):
            tokens = torch.cat([torch.tensor([0, source]), row[:gap], torch.tensor([dest])])
            found[i, gap] = model.run_with_cache(tokens)[1]["pattern", 0][0, head, -1, 1]
    return found.mean(0)


def _fillers_behind(model: HookedTransformer, head: int, source: int, dest: int, fillers: Tensor) -> np.ndarray:
    found = []
    for gap in range(fillers.shape[1] + 1):  # no token sees those behind the destination
        rows = [[0, source, *row[:gap], dest, *row[gap:]] for row in fillers.tolist()]
        found.append(heads.patterns(model, torch.tensor(rows))[0, head, :, gap + 2, 1].numpy())
    return np.mean(found, axis=1)


def _signs(n: int, off: float) -> Tensor:
    v = torch.ones(n)
    v[: n // 2] = -1
    return (off * torch.outer(v, v)).fill_diagonal_(1.0)


def _with_writer(m: HookedTransformer, clean: Tensor, other: Tensor, writer: int) -> Any:
    """The cache of the clean run, with the writer's output replaced for all that read it."""
    z = m.run_with_cache(other)[1]["z", 0][:, :, writer]
    with interventions.cut(m, (0, writer), instead={(0, writer): z}):
        return m.run_with_cache(clean)[1]


def _by_einsum(m: HookedTransformer, clean: Tensor, other: Tensor, writer: int, reader: int, door: str) -> np.ndarray:
    z = m.run_with_cache(torch.cat([other, clean]))[1]["z", 0][:, :, writer]
    matrix = getattr(m, f"W_{door.upper()}")[1, reader]
    change = torch.einsum("bpd,dm,mh->bph", z[: len(clean)] - z[len(clean) :], m.W_O[0, writer], matrix)
    hook = functools.partial(lambda x, hook: x.index_add(2, torch.tensor([reader]), change[:, :, None]))
    return m.run_with_hooks(clean, fwd_hooks=[(f"blocks.1.attn.hook_{door}", hook)]).numpy()


RIGHT_ANSWERS = {
    "with_divisors": {
        "a function for each, numpy": lambda m, t, v: m.run_with_hooks(
            t, fwd_hooks=[(k, functools.partial(lambda old, hook, x: 0 * old + x, x=x)) for k, x in v.items()]
        ).numpy(),
        "one hook within the other": _one_in_the_other,
        "the divisor overwritten": _dividing(lambda old, new: old.fill_(new)),
    },
    "verdict": {
        "ranges": _by_ranges,
        "the first that holds": lambda c, d, m, n: VERDICTS[
            [abs(d - c) - 2 * n <= 0, abs(m - c) <= n, abs(m - d) <= n, True].index(True)
        ],
        "in units of the noise": lambda c, d, m, n: _judge(c / n, d / n, m / n, 1),
    },
    "undo_scaling": {
        "the keys": lambda m: _rescaled(m, _root(m), "W_K"),
        "half in the queries, half in the keys": lambda m: _rescaled(m, _root(m) ** 0.5, "W_Q", "W_K"),
        "the number that heads divide by": _in_the_heads,
    },
    "attention_by_gap": {
        "one text at a time, in float64": _one_text_at_a_time,
        "the other fillers behind, in numpy": _fillers_behind,
        "the sum over rows, divided": _by_gap(of=lambda entries: sum(entry / len(entries) for entry in entries)),
    },
    "copier": {
        "two halves that lower each other": lambda n: _signs(n, -0.9),
        "partners half a ring away, numpy": lambda n: np.eye(n) - 3 * np.roll(np.eye(n), n // 2, 0),
        "every other one, by loops": lambda n: torch.tensor(
            [[1.0 if i == j else -2.0 * ((i - j) % 2 == 0) for j in range(n)] for i in range(n)]
        ),
    },
    "path_patched": {
        "the writer stands in, behind one door": _patched(),
        "the door of a run with another writer": lambda m, c, o, w, r, d: _with_door(
            m, c, d, _with_writer(m, c, o, w)[d, 1], r
        ).double(),
        "both texts at once, einsum, numpy": _by_einsum,
    },
}


WRONG_ANSWERS = {
    "with_divisors": {
        "with the final divisor replaced by 0.7": _dividing(lambda old, new: old.mean().expand_as(old)),
        "the result is the same for another value": _dividing(lambda old, new: torch.full_like(old, 0.7)),
        "it is right for the last LayerNorm": lambda m, t, v: _dividing()(m, t, {k: v[k] for k in v if k == FINAL}),
        "with one name it is right": lambda m, t, v: _dividing()(m, t, {name: [*v.values()][-1] for name in v}),
    },
    "verdict": {
        "foresee the same": lambda c, d, m, n: _judge(c, d, m, n, math.inf),
        "two noises apart": lambda c, d, m, n: _judge(c, d, m, n, 2 * abs(c - d)),
        "the number is near to neither": (
            lambda c, d, m, n: "stands" if abs(m - c) < abs(m - d) else "falls",
            lambda *numbers: _judge(*numbers).replace("between", "falls"),
        ),
        "the number is where the sentence puts it": lambda c, d, m, n: _judge(d, c, m, n),
        "whichever is larger": (
            lambda c, d, m, n: _judge(c, d, m, n, d - c),
            lambda c, d, m, n: _judge(c, d, m, n, c - d),
        ),
        "exactly as far off": lambda c, d, m, n: _judge(c, d, m, n, near=0.999),
        "it has overshot both": lambda c, d, m, n: "falls" if m > d > c + 2 * n else _judge(c, d, m, n),
        "it should return one of": lambda c, d, m, n: abs(m - c) <= n,
        "'true' is not one of": lambda c, d, m, n: "true",
    },
    "undo_scaling": {
        "the scores are still divided": (copy.deepcopy, lambda m: _rescaled(m, _root(m), layers=slice(1, 2))),
        "it returns the very model that it was given": lambda m: m,
        "with d_head = 4, the scores should be 2.00 times as large, not 4.00": lambda m: _rescaled(m, m.cfg.d_head),
        "something else has changed: values or outputs": (
            lambda m: _rescaled(m, _root(m), "W_Q", "W_V"),
            lambda m: _rescaled(m, _root(m), "W_Q", "W_O"),
        ),
        "layer 0 is right": lambda m: _rescaled(m, _root(m), layers=slice(0, 1)),
        "with d_head = 5": lambda m: _rescaled(m, 2.0),
        "it should return a model": lambda m: _rescaled(m, _root(m)).state_dict(),
    },
    "attention_by_gap": {
        "this attention is 0": _by_gap(entry=(1, -1)),
        "attention lies between 0 and 1": _by_gap(of=torch.sum),
        "with no filler the context is start token": (
            _by_gap(entry=(-1, 0)),
            _by_gap(lambda row, gap, source, dest: [source, *row[:gap], dest], (-1, 0)),
            lambda m, h, source, dest, fillers: _by_gap()(m, h, dest, source, fillers),
        ),
        "at gap g, the first g fillers": _by_gap(
            lambda row, gap, source, dest: [0, source, *row[len(row) - gap :], dest]
        ),
        "it fails for 3 rows of 1 fillers": lambda m, h, s, d, f: _by_gap()(m, h, s, d, f) * (d < 11),
        "it fails for 1 rows of 6 fillers": lambda m, h, s, d, f: _by_gap()(m, h, s, d, f) * (s != d),
    },
    "copier": {
        "all eigenvalues have a real part of 1.00 or more": torch.eye,
        "all eigenvalues have a real part of 0.55 or more": lambda n: _signs(n, -0.9 if n < 8 else -0.05),
        "a token lowers its own logit": (lambda n: -torch.eye(n), lambda n: torch.zeros(n, n)),
        "some token raises another one as much as itself": (
            lambda n: 2 * torch.ones(n, n) - torch.eye(n),
            lambda n: _signs(n, -1.0),
        ),
        "take each row's mean away": lambda n: -0.9 * torch.ones(n, n) + 1.9 * torch.eye(n),
        "the result has shape [4": lambda n: _signs(4, -0.9),
    },
    "path_patched": {
        'with door "q" these are not the patched logits': lambda *given: _patched()(*given[:-1], "k"),
        "it fails for other heads": lambda m, c, o, w, r, d: _patched()(m, c, o, 1, r, d),
        "with the clean text in the place": lambda *given: _patched()(*given).log_softmax(-1),
    },
}
