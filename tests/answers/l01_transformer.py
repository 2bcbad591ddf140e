"""Answers to lesson 01's exercises: others that are right, and wrong ones with what they hear."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lessons.l01_transformer.checks import _model


def _causal(scores: Tensor, value: float = -torch.inf, diagonal: int = 1) -> Tensor:
    return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal), value)


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


def _by_loop(scores: Tensor, n: int) -> Tensor:
    result = scores.clone()
    for dest in range(n):
        result[dest, dest + 1 :] = -torch.inf
    return result


RIGHT_ANSWERS = {
    "attention_scores": {
        "each divided before": lambda q, k: (
            (q / q.shape[-1] ** 0.25) @ (k / k.shape[-1] ** 0.25).mT
        ),
        "einsum": lambda q, k: torch.einsum("...id,...jd->...ij", q, k) * q.shape[-1] ** -0.5,
        "products, then a sum": lambda q, k: (
            (q[..., None, :] * k[..., None, :, :]).sum(-1) / q.shape[-1] ** 0.5
        ),
        "float64, in numpy": lambda q, k: (
            q.double().numpy() @ k.mT.double().numpy() / q.shape[-1] ** 0.5
        ),
    },
    "masked": {
        "a sum": lambda scores: scores + torch.full(scores.shape[-2:], -torch.inf).triu(1),
        "where": lambda s: torch.where(torch.ones_like(s).tril() > 0, s, -torch.inf),
        "row by row": lambda s: _by_loop(s.movedim((-2, -1), (0, 1)), s.shape[-1]).movedim(
            (0, 1), (-2, -1)
        ),
        "float64, in numpy": lambda s: (
            s.double() + torch.full(s.shape[-2:], -torch.inf).triu(1)
        ).numpy(),
    },
    "transformer": {
        "one-hot rows": _model(
            start=lambda t, E, P: F.one_hot(t, len(E)).float() @ E + P[: t.shape[1]]
        ),
        "embeddings, einsum": _model(
            start=lambda t, E, P: F.embedding(t, E) + F.embedding(torch.arange(t.shape[1]), P),
            end=lambda x, ln, E, P, U: torch.einsum("bnd,dv->bnv", ln(x), U).double(),
        ),
        "attention twice": _model(
            lambda x, ln1, attn, ln2, ff: x + attn(ln1(x)) + ff(ln2(x + attn(ln1(x))))
        ),
        "text by text": lambda t, *others: torch.cat([_model()(one[None], *others) for one in t]),
    },
}


WRONG_ANSWERS = {
    "attention_scores": {
        "the mask is the next step": lambda q, k: _causal(_scores(q, k)),
        "[2, 6, 3] and [2, 6, 3]: `k.mT` exchanges": lambda q, k: q @ k.T / q.shape[-1] ** 0.5,
        "a table of dot products is a matrix product": (
            lambda q, k: q * k.mT / q.shape[-1] ** 0.5,
            lambda q, k: q.mT * k / q.shape[-1] ** 0.5,
        ),
        "of shape [5, 4] it divides by 5.66: d_head is 4 here": lambda q, k: q @ k.mT / 32**0.5,
        "of shape [2, 6, 3] it divides by 2: d_head is 3 here": lambda q, k: q @ k.mT / 2,
        "it fails for q and k of shape [2, 6, 3]": lambda q, k: (
            _scores(q, k) if q.shape[-1] == 4 else _scores(q, k) + 1
        ),
        "these rows sum to 1: the softmax comes two steps on.": (
            lambda q, k: _scores(q, k).softmax(-1),
            lambda q, k: (q @ k.mT).softmax(-1),
            lambda q, k: _causal(_scores(q, k)).softmax(-1),
        ),
    },
    "masked": {
        "a score that is not hidden should stay as it was.": lambda scores: _causal(0 * scores),
        "a position may look at itself": lambda scores: _causal(scores, diagonal=0),
        "keeps a score: hide all": (
            lambda scores: _causal(scores, diagonal=2),
            lambda scores: torch.ones_like(scores).triu(1).bool(),
        ),
        "come back as they were: `masked_fill` makes a new": lambda scores: scores.clone(),
        "hides a source that comes *before*": lambda scores: _causal(scores.mT).mT,
        "a score like any other; use −∞": lambda scores: scores.tril(),
        "these rows sum to 1: the softmax is the next step.": lambda s: _causal(s).softmax(-1),
        "large, but not −∞": lambda scores: _causal(scores, -1e9),
        "that are no numbers: 0 · ∞": lambda scores: (
            scores + torch.ones(scores.shape[-2:]).triu(1) * -torch.inf
        ),
        "it fails for scores of shape [2, 5, 5]": lambda scores: _by_loop(scores, len(scores)),
        "an index does not fit the shape [2, 5, 5]": lambda scores: _by_loop(
            scores, scores.shape[-1]
        ),
    },
    "transformer": {
        "W_pos has n_ctx rows, here 8": _model(start=lambda t, E, P: E[t] + P),
        "its length counts the texts, here 2": _model(start=lambda t, E, P: E[t] + P[: len(t)]),
        "is `return` missing, or inside the loop?": lambda *given: (
            _model()(*given) if given[3] else None
        ),
        "these are log-probabilities; the logits come before them.": _model(
            end=lambda x, ln, E, P, U: (ln(x) @ U).log_softmax(-1)
        ),
        "no logit is below 0: these look like probabilities, and the softmax comes later.": _model(
            end=lambda x, ln, E, P, U: (ln(x) @ U).softmax(-1)
        ),
        "without blocks, the logits should be (W_E[tokens] + positions) W_U.": _model(
            start=lambda t, E, P: E[t] * P[: t.shape[1]]
        ),
        "what leaves a block should be the stream after attention, plus the MLP's output.": _model(
            out=lambda x, m, f: x + m + f
        ),
        "they normalise what it reads, not what it returns.": _model(
            lambda x, ln1, attn, ln2, ff: torch.add(m := x + ln1(attn(x)), ln2(ff(m)))
        ),
        "each block should read what the last one returned.": _model(order=slice(1)),
        "ln_final belongs between the last block and W_U, once.": (
            _model(end=lambda x, ln, E, P, U: x @ U),
            _model(end=lambda x, ln, E, P, U: ln(ln(x)) @ U),
        ),
        "it fails for 1 texts of 5 tokens, n_ctx 5, and 3 blocks.": _model(order=slice(2)),
    },
}
