"""Answers to lesson 06's exercises: others that are right, and wrong ones with what they hear."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_lessons.fixtures import random
from course_lessons.l06_composition.checks import (
    READS,
    WRONG_CUTS,
    _by_heads,
    _in,
    _ratio,
    _terms,
    _with,
)
from course_utils.course.exercises import Answer
from course_utils.interventions import patched


def _hard(A: Tensor) -> Tensor:
    return torch.eye(len(A))[A.argmax(1)]


def _by_rows(
    sources: Mapping[str, Tensor], W_Q: Tensor, W_K: Tensor
) -> dict[tuple[str, str], Tensor]:
    read = W_K @ W_Q.T / W_Q.shape[1] ** 0.5
    return {
        (a, b): torch.stack([sources[b] @ (read @ x) for x in sources[a]])
        for a in sources
        for b in sources
    }


def _all_at_once(
    sources: Mapping[str, Tensor], W_Q: Tensor, W_K: Tensor
) -> dict[tuple[str, str], Tensor]:
    x = torch.stack([*sources.values()]).double()
    scores = (
        torch.einsum("apd,dh,eh,bqe->abpq", x, W_Q.double(), W_K.double(), x) / W_K.shape[1] ** 0.5
    )
    return dict(zip([(a, b) for a in sources for b in sources], scores.flatten(0, 1), strict=True))


def _or_seen(right: Tensor, other: Tensor) -> Tensor:
    """The other score where it sees something planted."""
    return other if other > 0.3 else right


def _without(written: Tensor, W: Tensor) -> Tensor:
    """The columns less what lies along what is written."""
    return W - torch.linalg.pinv(written) @ written @ W


def _blind(written: Tensor) -> Tensor:
    return _without(written, random(*written.T.shape, seed=11))


def _door(
    right: Callable[[Tensor], Tensor] = lambda w: w.T, wrong: Callable[[Tensor], Tensor] = _blind
) -> Answer:
    return lambda W_O, door: tuple(right(W_O) if name == door else wrong(W_O) for name in READS)


def _each(change: Callable[[Tensor], Tensor]) -> Answer:
    return lambda *given: {pair: change(term) for pair, term in _terms(*given).items()}


def _named(name: Callable[[str, str], Any]) -> Answer:
    """The right terms under other names, or left out (None)."""
    return lambda *given: {
        name(*pair): term for pair, term in _terms(*given).items() if name(*pair) is not None
    }


def _head_by_head(
    model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor
) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    new = instead - (cache["resid_pre", 1] - cache["embed"])

    def move(read: Tensor, hook: HookPoint) -> Tensor:
        for head in who:
            read[:, :, head] += (
                new @ {"Q": model.W_Q, "K": model.W_K, "V": model.W_V}[door][1, head]
            )
        return read

    hooks = [(f"blocks.1.attn.hook_{door.lower()}", move)]
    return model.run_with_hooks(tokens, fwd_hooks=hooks, return_type="loss")


def _read_anew(
    model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor
) -> float:
    """Made anew from the embedding, and the loss by hand."""
    _, cache = model.run_with_cache(tokens)
    read = cache["embed"] + instead + (door != "V") * model.W_pos[: tokens.shape[1]]
    made = cache[door.lower(), 1].clone()
    made[:, :, who] = torch.einsum("bpm,hmd->bphd", read, getattr(model, f"W_{door}")[1][who])
    with patched(model, f"blocks.1.attn.hook_{door.lower()}", made):
        log_p = model(tokens)[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, tokens[:, 1:, None]).mean().item()


RIGHT_ANSWERS = {
    "virtual_head": {
        "one head, then the other": lambda x, A, V, B, W: B @ ((A @ (x @ V)) @ W),
        "einsum, float64": lambda x, A, V, B, W: torch.einsum(
            "rs,st,td,de,ef->rf", *(M.double() for M in (B, A, x, V, W))
        ),
        "source by source": lambda x, A, V, B, W: sum(
            (B @ A)[:, [src]].numpy() * (x[src] @ V @ W).numpy() for src in range(len(x))
        ),
    },
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
    "one_door": {
        "an orthonormal basis, a list": lambda W_O, door: [
            torch.linalg.qr(W_O.T, mode="complete").Q[
                :, slice(len(W_O)) if name == door else slice(-len(W_O), None)
            ]
            for name in READS
        ],
        "the null space, float64": _door(
            wrong=lambda w: torch.linalg.svd(w.double()).Vh[-len(w) :].T
        ),
        "other sizes, mixed": _door(
            right=lambda w: 50 * w.T @ random(len(w), len(w)),
            wrong=lambda w: _blind(w) @ random(len(w), len(w)) / 50,
        ),
    },
    "shut": {
        "the doors of all writers, float64": lambda *given: _by_heads(*given).double(),
        "what is read anew, a number": _read_anew,
        "head by head": _head_by_head,
    },
}


WRONG_ANSWERS = {
    "virtual_head": {
        "when the writer writes nothing": (
            lambda x, A, V, B, W: B @ x @ W,
            lambda x, A, V, B, W: B @ (x + A @ x @ V) @ W,
        ),
        "when the reader writes nothing": (
            lambda x, A, V, B, W: A @ x @ V,
            lambda x, A, V, B, W: A @ x @ V + B @ A @ x @ V @ W,
        ),
        "what stood at 2 should arrive at 5.": lambda x, A, V, B, W: (B * A) @ x @ V @ W,
        "one position gets what it should": lambda x, A, V, B, W: (B[-1] @ A @ x @ V @ W).expand_as(
            x
        ),
        "x OV_w should be left: rows times matrix": lambda x, A, V, B, W: B @ A @ x @ V.T @ W.T,
        "x OV_r should be left: rows times matrix": lambda x, A, V, B, W: B @ A @ x @ V @ W.T,
        "the two circuits should act one after": lambda x, A, V, B, W: (
            B @ A @ x @ (V + W - torch.eye(len(V)))
        ),
        "every source counts, by its weight": lambda x, A, V, B, W: _hard(B) @ _hard(A) @ x @ V @ W,
    },
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
        "the term ('pos', 'embed') is not what these two sources contribute": lambda *given: {
            pair: term * (pair[0] != "pos") for pair, term in _terms(*given).items()
        },
        "for another head, of d_head 9": lambda s, *W: _each(lambda t: t * len(W[0].T) ** 0.5 / 2)(
            s, *W
        ),
        "it should return a dictionary, not Tensor": lambda *given: sum(_terms(*given).values()),
    },
    "composition": {
        "mode 'Q' hardly sees it": (
            _in("Q", lambda o, r, idle, s: _ratio(o, r.T)),
            _in("QKV", lambda o, r, idle, s: _ratio(o.T, r)),
            _in("Q", lambda o, r, idle, s: (o * r).norm() / (o.norm() * r.norm())),
        ),
        "mode 'K' hardly sees it": (
            _in("K", lambda o, r, idle, s: _ratio(o, r.T)),
            lambda o, q, v, mode: _ratio(o, q),
        ),
        "mode 'V' hardly sees it": _in("V", lambda o, r, idle, s: _ratio(o, r.T)),
        "should not react when it is the reader's keys": _in(
            "Q", lambda o, r, idle, s: _or_seen(_ratio(o, r), _ratio(o, r.T))
        ),
        "reacts to the directions that the writer reads": _in(
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
    "one_door": {
        "W_Q reads nothing of what the writer writes": (
            lambda W_O, door: _door()(W_O, {"Q": "K", "K": "Q", "V": "V"}[door]),
            lambda W_O, door: _door()(W_O, "K"),
        ),
        "W_K should read nothing of what the writer writes": (
            _door(wrong=lambda w: w.T),
            _door(wrong=lambda w: random(*w.T.shape, seed=4)),
        ),
        "take what lies along the rows of W_O out of its columns, all of it": _door(
            wrong=lambda w: _without(w[:1], random(*w.T.shape, seed=3))
        ),
        "no part of the head is idle": _door(wrong=lambda w: 0 * w.T),
        "W_Q has less than rank 3": _door(right=lambda w: w[:1].T.expand(-1, len(w)).clone()),
        "also reads directions that the writer does not write": (
            _door(right=lambda w: w.T + _blind(w)),
            _door(right=lambda w: random(*w.T.shape, seed=4)),
        ),
        "it should be [10, 3], W_Q is [d_model, d_head]": _door(right=lambda w: w),
        "it should return three matrices": lambda W_O, door: W_O.T,
    },
    "shut": WRONG_CUTS
    | {
        "Only the sum that this door reads should change": lambda *given: (
            _with()(*given) - _with(who=[])(*given)
        ),
        "the loss is wrong for another model: of 4 heads, door 'Q' of the heads [0, 2].": (
            lambda *given: _with(who=given[3][:1])(*given)
        ),
        "it should return one number": lambda *given: _with()(*given).expand(2, 7),
    },
}
