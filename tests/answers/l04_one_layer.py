"""Answers to lesson 04's exercises: others that are right, and wrong ones with what they hear."""

import math
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


def _ring(angle: float) -> Tensor:
    """The OV circuit that turns a row vector counter-clockwise."""
    return torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])


def _by_eigenvalues(angle: float) -> Tensor:
    """The same from its eigenvalues, two numbers of length 1."""
    turns = torch.polar(torch.ones(2).double(), torch.tensor([angle, -angle]).double())
    basis = torch.tensor([[1, 1], [1j, -1j]], dtype=torch.complex128)
    return (basis @ turns.diag() @ basis.inverse()).real


def _fitted(n: int, k: int) -> Tensor:
    """Least squares: each letter's direction becomes that of the letter k places on."""
    angle = 2 * math.pi * torch.arange(n) / n
    letters = torch.stack([angle.cos(), angle.sin()], dim=1)
    return torch.linalg.lstsq(letters, letters.roll(-k, 0)).solution


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
    "skip_trigrams": {
        "in lists, by Python's sort": _by_python,
        "less the mean embedding": _ranked(
            lambda m, h, s: m.W_E @ m.W_Q[0, h] @ ((m.W_E[s] - m.W_E.mean(0)) @ m.W_K[0, h])
        ),
        "numpy": lambda m, h, s, k: [
            np.argsort(-row.numpy())[:k] for row in (_relative(m, h, s), _OV(m, h)[s])
        ],
    },
    "ring_head": {
        "ten times as strong": lambda n, k: 10 * _ring(2 * math.pi * k / n),
        "k single steps": lambda n, k: torch.linalg.matrix_power(_ring(2 * math.pi / n), k),
        "in float64, by eigenvalues": lambda n, k: _by_eigenvalues(2 * math.pi * k / n),
        "fitted to where letters go": _fitted,
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
    "skip_trigrams": {sentence: _ranked(outs=row) for sentence, row in OUTS.items()}
    | {sentence: _ranked(row) for sentence, row in DESTS.items()}
    | {
        "(its column's mean changes no order)": _ranked(
            lambda m, h, s: _QK(m, h)[:, s] - _QK(m, h)[:, s].mean()
        ),
        "the output tokens are not the largest entries": _ranked(
            outs=lambda m, h, s: _OV(m, h)[s - 1]
        ),
        "the output tokens are the right ones, but the largest": _ranked(
            end=lambda d, o: (d.flip(0), o.flip(0))
        ),
        "the destinations are not those with the largest": _ranked(
            lambda m, h, s: _relative(m, h, s - 1)
        ),
        "the destinations are the right ones, but the largest": _ranked(
            end=lambda d, o: (d.flip(0), o)
        ),
        "for another with 13 tokens, head 3 and k = 1": _ranked(lambda m, h, s: _relative(m, 1, s)),
        "the output tokens should be token ids, which are integers": _ranked(
            end=lambda d, o: (d, o.float())
        ),
        "return its `.indices`": lambda m, h, s, k: (
            _relative(m, h, s).topk(k),
            _OV(m, h)[s].topk(k),
        ),
    },
    "ring_head": {
        "the circle turns the other way": (
            lambda n, k: _ring(2 * math.pi * k / n).T,
            lambda n, k: _ring(-2 * math.pi * k / n),
        ),
        "what part of a whole turn, in radians": (
            lambda n, k: _ring(360 * k / n),
            lambda n, k: _ring(k),
            lambda n, k: _ring(2 * math.pi * (k + 1) / n),
        ),
        "this head turns nothing": lambda n, k: torch.eye(2),
        "raises two others alike": (
            lambda n, k: torch.zeros(2, 2),
            lambda n, k: _ring(2 * math.pi * (k + 0.5) / n),
        ),
        "are sent to different distances": lambda n, k: (
            torch.tensor([[1.0, 0], [0, -1]]) @ _ring(0.1 if k else 0)
        ),
        "it should be [2, 2]": lambda n, k: torch.eye(n),
        "should return a tensor, not list": lambda n, k: [[1.0, 0.0], [0.0, 1.0]],
    },
}
