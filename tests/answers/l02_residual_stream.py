"""Answers to lesson 02's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lessons.l02_residual_stream.checks import Model, _adds, _reordered, _terms
from course_utils import interventions
from course_utils.course.exercises import Answer


def _einsum_terms(model: Model, tokens: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    # [layer, pos, head, d_head]
    z = torch.cat([cache["z", layer] for layer in range(model.cfg.n_layers)])
    return torch.cat(
        [model.W_E[tokens], torch.einsum("lphd,lhdm->lhpm", z, model.W_O).flatten(0, 1)]
    )


def _ablating(value: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """Puts `value(here, there)` in the head's place, both z [text, pos, d_head].

    `here` is on `tokens`, `there` on `others`.
    """

    def answer(model: Model, tokens: Tensor, layer: int, head: int, others: Tensor) -> Tensor:
        here, there = (
            model.run_with_cache(texts)[1]["z", layer][:, :, head] for texts in (tokens, others)
        )
        with interventions.cut(model, (layer, head), instead={(layer, head): value(here, there)}):
            return model(tokens)

    return answer


_mean = _ablating(lambda here, there: there.mean((0, 1)))


def _by_the_stream(model: Model, tokens: Tensor, layer: int, head: int, others: Tensor) -> Tensor:
    """The change of what the head writes, put into the stream behind its layer."""
    (_, cache), (_, usual) = (model.run_with_cache(texts) for texts in (tokens, others))
    mean = usual["z", layer][:, :, head].mean(0)[: tokens.shape[1]]
    name = f"blocks.{layer}.hook_resid_post"
    with interventions.patched(
        model, name, cache[name] + (mean - cache["z", layer][:, :, head]) @ model.W_O[layer, head]
    ):
        return model(tokens)


RIGHT_ANSWERS = {
    "stream_terms": {
        "einsum": _einsum_terms,
        "float64": lambda *given: _terms(*given).double(),
        "the library's": lambda m, t: torch.cat(
            [(cache := m.run_with_cache(t)[1])["embed"], cache.stack_head_results()[:, 0]]
        ),
    },
    "attribution": {
        "a loop": lambda t, W, n, r: torch.stack([a @ W[:, n] - a @ W[:, r] for a in t]),
        "einsum": lambda t, W, n, r: torch.einsum("td,d->t", t, W[:, n] - W[:, r]),
        "all logits first, in numpy": lambda t, W, n, r: (
            (x := t.numpy() @ W.numpy())[:, n] - x[:, r]
        ),
        "float64": lambda t, W, n, r: t.double() @ (W[:, n] - W[:, r]).double(),
        "log-probabilities": lambda t, W, n, r: (x := (t @ W).log_softmax(-1))[:, n] - x[:, r],
    },
    "ablated": {
        "the mean at each position, by the stream": _by_the_stream,
        "another text's": _ablating(lambda here, there: there[: len(here), : here.shape[1]]),
        "one vector of another text": _ablating(lambda here, there: there[1, 2].expand_as(here)),
        "always the last other text's": _ablating(
            lambda here, there: there[-1:, : here.shape[1]].expand_as(here)
        ),
        "float64": lambda *given: _mean(*given).double(),
    },
}


WRONG_ANSWERS = {
    "stream_terms": {
        "the first term should be what": lambda m, t: torch.cat(
            [m.W_E[t[:, [0] * 5]], _terms(m, t)[1:]]
        ),
        "heads 0.0 and 0.1 get the same term": _reordered(0, 1, 1, 1, 4, 4, 4),
        "the terms do not sum to the stream": lambda m, t: torch.cat(
            [m.W_E[t], 2 * _terms(m, t)[1:]]
        ),
        "the sum is right, but": _reordered(0, 1, 3, 2, 4, 5, 6),
        "it fails for 3 layers": lambda m, t: torch.cat(
            [x := _terms(m, t)[: 1 + 2 * m.cfg.n_heads], x]
        )[:7],
        "take the numbers from `model.cfg`": lambda m, t: torch.stack(
            [m.W_O[0, head] for head in range(8)]
        ),
        "the terms differ in shape": lambda m, t: torch.stack(
            [m.W_E[t[0]], m.run_with_cache(t)[1]["z", 0][0, :, 0]]
        ),
    },
    "attribution": {
        "it is not what each term adds": lambda t, W, n, r: 2 * t @ (W[:, n] - W[:, r]),
        "it fails for 3 terms": lambda t, W, n, r: t @ (W[:, n] - W[:, min(2, W.shape[1] - 1)]),
        "a token is no rival of itself": lambda t, W, n, r: _adds(t, W, n, r) + (n == r),
    },
    "ablated": {
        "zero takes away, too": _ablating(lambda here, there: 0 * here),
        "the mean over `tokens` tells": _ablating(lambda here, there: here.mean((0, 1))),
        "these are the logits of the plain run": lambda m, tokens, *given: m(tokens),
        "head 0.0 was changed where it should be 0.1": lambda m, t, layer, head, others: _mean(
            m, t, layer, 0, others
        ),
        "at its layer, is all that was changed": (
            lambda m, t, layer, head, others: _mean(m, t, 0, head, others),
            lambda m, t, layer, head, others: 2 * _mean(m, t, layer, head, others),
        ),
        "neither a mean over `others`": _ablating(lambda here, there: -there.mean((0, 1))),
        "a mean for each position has to be cut": _ablating(lambda here, there: there.mean(0)),
    },
}
