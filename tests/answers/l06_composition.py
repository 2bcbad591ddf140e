"""Answers to lesson 06's exercises: others that are right, and wrong ones with what they hear."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from course_lessons.l06_composition.checks import _in, _ratio, _terms
from course_utils.course.exercises import Answer


def _by_rows(
    parts: Mapping[str, Tensor], W_Q: Tensor, W_K: Tensor
) -> dict[tuple[str, str], Tensor]:
    read = W_K @ W_Q.T / W_Q.shape[1] ** 0.5
    return {
        (a, b): torch.stack([parts[b] @ (read @ x) for x in parts[a]]) for a in parts for b in parts
    }


def _all_at_once(
    parts: Mapping[str, Tensor], W_Q: Tensor, W_K: Tensor
) -> dict[tuple[str, str], Tensor]:
    x = torch.stack([*parts.values()]).double()
    scores = (
        torch.einsum("apd,dh,eh,bqe->abpq", x, W_Q.double(), W_K.double(), x) / W_K.shape[1] ** 0.5
    )
    return dict(zip([(a, b) for a in parts for b in parts], scores.flatten(0, 1), strict=True))


def _or_seen(right: Tensor, other: Tensor) -> Tensor:
    """The other score where it sees something planted."""
    return other if other > 0.3 else right


def _each(change: Callable[[Tensor], Tensor]) -> Answer:
    return lambda *given: {pair: change(term) for pair, term in _terms(*given).items()}


def _named(name: Callable[[str, str], Any]) -> Answer:
    """The right terms under other names, or left out (None)."""
    return lambda *given: {
        name(*pair): term for pair, term in _terms(*given).items() if name(*pair) is not None
    }


RIGHT_ANSWERS = {
    "qk_terms": {
        "row by row": _by_rows,
        "all at once, float64": _all_at_once,
        "the circuit first, numpy": lambda s, W_Q, W_K: {
            (a, b): s[a].numpy() @ (W_Q @ W_K.T).numpy() @ s[b].T.numpy() / W_Q.shape[1] ** 0.5
            for b in s
            for a in s
        },
    },
    "composition": {
        "the trace": _in(
            "QKV", lambda o, r, idle, s: _ratio(o, r, lambda M: (M @ M.T).trace().sqrt())
        ),
        "singular values, float64": _in(
            "QKV",
            lambda o, r, idle, s: _ratio(o, r, lambda M: torch.linalg.svdvals(M.double()).norm()),
        ),
        "a loop, a number": _in(
            "QKV", lambda o, r, idle, s: _ratio(o, r, lambda M: math.hypot(*M.flatten().tolist()))
        ),
    },
}


WRONG_ANSWERS = {
    "qk_terms": {
        "9 of 25 keys are missing": _named(lambda a, b: None if "pos" in (a, b) else (a, b)),
        "You have 'embed|embed'": _named(lambda a, b: f"{a}|{b}"),
        "there are keys that should not be there": lambda s, *W: _terms(
            {**s, "all": sum(s.values())}, *W
        ),
        "there is −∞ in the terms": _each(
            lambda t: t.masked_fill(torch.ones_like(t).triu(1).bool(), -torch.inf)
        ),
        "it should be [7, 7], [dest, src]": _each(lambda term: term[0]),
        "0 above the diagonal: they are asked for before the mask": _each(torch.tril),
        "scores come before the softmax": _each(lambda term: term.softmax(1)),
        "every term is 2.00 times what it should be": _each(lambda term: 2 * term),
        "every term is 0.50 times what it should be": _each(lambda term: term / 2),
        "the term ('pos', 'embed') is not what these two parts contribute": lambda *given: {
            pair: term * (pair[0] != "pos") for pair, term in _terms(*given).items()
        },
        "for another head, of d_head 9": lambda s, *W: _each(lambda t: t * len(W[0].T) ** 0.5 / 2)(
            s, *W
        ),
        "it should return a dictionary, not Tensor": lambda *given: sum(_terms(*given).values()),
    },
    "composition": {
        "mode 'Q' reads the side of the keys": (
            _in("Q", lambda o, r, idle, s: _ratio(o, r.T)),
            lambda o, q, v, mode: _ratio(o, {"Q": q.T, "K": q, "V": v}[mode]),
        ),
        "mode 'K' reads the side of the queries": (
            _in("K", lambda o, r, idle, s: _ratio(o, r.T)),
            lambda o, q, v, mode: _ratio(o, v if mode == "V" else q),
        ),
        "mode 'Q' hardly sees it": (
            _in("QKV", lambda o, r, idle, s: _ratio(o.T, r)),
            _in("Q", lambda o, r, idle, s: (o * r).norm() / (o.norm() * r.norm())),
        ),
        "mode 'K' hardly sees it": _in("K", lambda o, r, idle, s: _ratio(o.T, r)),
        "mode 'V' hardly sees it": _in("V", lambda o, r, idle, s: _ratio(o, r.T)),
        "should not react when it is the later head's keys": _in(
            "Q", lambda o, r, idle, s: _or_seen(_ratio(o, r), _ratio(o, r.T))
        ),
        "reacts to the directions that the earlier head reads": _in(
            "Q", lambda o, r, idle, s: _or_seen(_ratio(o, r), _ratio(o.T, r))
        ),
        "reacts to both heads writing": _in(
            "V", lambda o, r, idle, s: _or_seen(_ratio(o, r), _ratio(o, r.T))
        ),
        "a ratio of norms is above 0": _in("K", lambda o, r, idle, s: -_ratio(o, r)),
        "the score should never be above 1, and is": _in(
            "Q", lambda o, r, idle, s: _ratio(o, r) + _ratio(o, idle) + 0.45
        ),
        "is not the ratio of Frobenius norms (d_model 64)": _in(
            "Q", lambda o, r, idle, s: _ratio(o, r) ** 1.5
        ),
    },
}
