"""Answers to lesson 04's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.l04_one_layer.checks import (
    _OV,
    _QK,
    DESTS,
    OUTS,
    Row,
    _looking,
    _relative,
    _terms,
    _then,
)
from course_utils import interventions
from course_utils.course.exercises import Answer


def _by_cutting(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    terms = []
    for head in range(model.cfg.n_heads):
        with interventions.cut(model, (0, head)):
            terms.append(model(tokens[None])[0])
    logits = model(tokens[None])[0]
    return sum(terms) - (len(terms) - 1) * logits, logits - torch.stack(terms)


def _from_z(model: HookedTransformer, tokens: Tensor) -> list[Any]:
    _, cache = model.run_with_cache(tokens)
    W_O, W_U = model.W_O[0].double(), model.W_U.double()
    return [
        cache["embed"][0].double() @ W_U,
        torch.einsum("phd,hdm,mv->hpv", cache["z", 0][0].double(), W_O, W_U),
    ]


def _from_tables(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, np.ndarray]:
    patterns = model.run_with_cache(tokens)[1]["pattern", 0][0].numpy()
    terms = [A @ _OV(model, head)[tokens].numpy() for head, A in enumerate(patterns)]
    return (model.W_E @ model.W_U)[tokens], np.stack(terms)


def _by_scores(model: HookedTransformer, tokens: Tensor, head: int) -> Tensor:
    batch, n = tokens.shape
    scores = torch.full((batch, model.cfg.n_heads, n, n), -torch.inf)
    scores[..., 0] = 3
    name, at = "blocks.0.attn.hook_attn_scores", (slice(None), head)
    with interventions.patched(model, name, scores, at):
        return model(tokens)


def _by_z(model: HookedTransformer, tokens: Tensor, head: int) -> Tensor:
    z = (model.W_E[tokens[:, 0]] @ model.W_V[0, head])[:, None].expand(*tokens.shape, -1)
    with interventions.cut(model, (0, head), instead={(0, head): z}):
        return model(tokens).double()


def _by_terms(model: HookedTransformer, tokens: Tensor, head: int) -> np.ndarray:
    says = _OV(model, head)[0]  # [d_vocab], of the start token, which is 0
    forced = []
    for row in tokens:
        direct, heads = _from_z(model, row)
        forced.append(direct + heads.sum(0) - heads[head] + says)
    return np.stack(forced)


def _by_python(model: HookedTransformer, head: int, source: int, k: int) -> tuple[list, list]:
    QK, OV = _QK(model, head).tolist(), _OV(model, head).tolist()
    dests = sorted(range(len(QK)), key=lambda token: sum(QK[token]) / len(QK) - QK[token][source])
    return dests[:k], sorted(range(len(QK)), key=lambda token: -OV[source][token])[:k]


def _ranked(
    dests: Row = _relative,
    outs: Row = lambda m, h, s: _OV(m, h)[s],
    end: Callable[[Tensor, Tensor], Any] = lambda dests, outs: (dests, outs),
) -> Answer:
    return lambda m, h, s, k: end(dests(m, h, s).topk(k).indices, outs(m, h, s).topk(k).indices)


RIGHT_ANSWERS = {
    "path_terms": {
        "what is lost by a cut": _by_cutting,
        "from z, in float64": _from_z,
        "tables, numpy": _from_tables,
    },
    "fixed_on_start": {
        "other scores hidden": _by_scores,
        "z instead, float64": _by_z,
        "path by path, numpy": _by_terms,
    },
    "skip_trigrams": {
        "in lists, by Python's sort": _by_python,
        "less the mean embedding": _ranked(
            lambda m, h, s: m.W_E @ m.W_Q[0, h] @ ((m.W_E[s] - m.W_E.mean(0)) @ m.W_K[0, h])
        ),
        "numpy": lambda m, h, s, k: [
            np.argsort(-row.numpy())[:k] for row in (_relative(m, h, s), _OV(m, h)[s])
        ],
    },
    "positive_yet_lowering": {
        "the second token lowers itself": lambda: torch.tensor([[5.0, -5], [3, -3]]),
        "very small, in float64": lambda: torch.tensor(
            [[-1e-3, 1e-3], [-3e-3, 3e-3]], dtype=torch.float64
        ),
        "columns times a row, in numpy": lambda: np.outer([-1, -4], [1, -1]),
        "large whole numbers": lambda: torch.tensor([[-7000, 7000], [-9000, 9000]]),
    },
}


WRONG_ANSWERS = {
    "path_terms": {
        "the same token gets two different rows": _then(lambda d, h: (d + h[0], h)),
        "is not the embedding times the unembedding": _then(lambda d, h: (d.softmax(-1), h)),
        "0.333 times as large as what the heads add": _then(lambda d, h: (d, h / len(h))),
        "the first position can attend to itself alone": _then(
            lambda d, h: (d, h.mean(0).expand_as(h))
        ),
        "the terms do not add up to the logits": _terms(lambda A: A[:1].expand_as(A)),
        "the sum is right, but not what each head": _then(
            lambda d, h: (d, torch.cat([h[:, :1], h.flip(0)[:, 1:]], 1))
        ),
        "and wrong for another with other sizes": _then(lambda d, h: (d, h * 3 / len(h))),
    },
    "fixed_on_start": {
        "head 2 was forced, and head 1 was asked for.": lambda m, t, h: _looking()(
            m, t, (h + 1) % m.cfg.n_heads
        ),
        "head 1 was forced, and head 0 was asked for.": lambda m, t, h: _looking()(m, t, 1),
        "it is right from position 1 on": _looking(lambda A, E: E[0] * (1 - E[0])[:, None]),
        "force the head in every text": _looking(
            lambda A, E: torch.cat([E[0].expand_as(A[:1]), A[1:]])
        ),
        "and wrong for another with other sizes": lambda m, t, h: (
            _looking()(m, t, h) * (len(t) > 1)
        ),
        "the logits are not those of the model with head 1": _looking(lambda A, E: (A + E[0]) / 2),
    },
    "skip_trigrams": {sentence: _ranked(outs=row) for sentence, row in OUTS.items()}
    | {sentence: _ranked(row) for sentence, row in DESTS.items()}
    | {
        "(its column's mean changes no order)": _ranked(
            lambda m, h, s: _QK(m, h)[:, s] - _QK(m, h)[:, s].mean()
        ),
        "the outs are not the largest entries": _ranked(outs=lambda m, h, s: _OV(m, h)[s - 1]),
        "the outs are the right ones, but the largest": _ranked(
            end=lambda d, o: (d.flip(0), o.flip(0))
        ),
        "the destinations are not those with the largest": _ranked(
            lambda m, h, s: _relative(m, h, s - 1)
        ),
        "the destinations are the right ones, but the largest": _ranked(
            end=lambda d, o: (d.flip(0), o)
        ),
        "for another with 13 tokens, head 3 and k = 1": _ranked(lambda m, h, s: _relative(m, 1, s)),
        "the outs should be token ids, which are integers": _ranked(
            end=lambda d, o: (d, o.float())
        ),
        "return its `.indices`": lambda m, h, s, k: (
            _relative(m, h, s).topk(k),
            _OV(m, h)[s].topk(k),
        ),
    },
    "positive_yet_lowering": {
        "its first row sums to 2, and a softmax takes": lambda: torch.tensor([[-1.0, 3], [-2, 4]]),
        "its second row sums to 2": lambda: torch.tensor([[-1.0, 1], [-2, 4]]),
        "its columns sum to 0; the rows should": lambda: torch.tensor([[-1.0, 2], [1, -2]]),
        "its eigenvalues are 0 and -1": lambda: torch.tensor([[-2.0, 2], [-1, 1]]),
        "its eigenvalues are both 0": (
            lambda: torch.tensor([[-1.0, 1], [-1, 1]]),
            lambda: torch.zeros(2, 2),
        ),
        "its diagonal is 1 and 2: no token lowers its own logit": lambda: torch.tensor(
            [[1.0, -1], [-2, 2]]
        ),
    },
}
