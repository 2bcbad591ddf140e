"""Checks of lesson 02, the residual stream: each exercise, and what each mistake is told."""

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import FAILS, OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course import solutions
from course_utils.course.exercises import Answer, Said, compared, judged
from course_utils.course.expectations import Wrong, close, demand, tensor

Model = HookedTransformer
TOO_LONG = (
    "the value does not fit into [batch, pos, d_head]: `others` are longer than `tokens`, so a "
    "mean for each position has to be cut to their length."
)


_terms, _adds = map(solutions.answer, ("stream_terms", "attribution"))


def _reordered(*order: int) -> Answer:
    return lambda model, tokens: _terms(model, tokens)[list(order)]


def _what_differs(got: Tensor, right: Tensor, model: Model, tokens: Tensor) -> Said:
    if model.cfg.n_layers > 2:
        return None  # that it was right for two layers says more
    summed, alike = close(got.sum(0), right.sum(0)), close(got[1], got[2])
    return {
        "the first term should be what the embedding wrote: rows of W_E.": not close(
            got[0], right[0]
        ),
        "heads 0.0 and 0.1 get the same term: "
        "what the whole layer adds does not say what each head adds.": alike,
        "the terms do not sum to the stream at the end, "
        "`resid_post` of the last layer.": not summed,
    }


def _why_it_stops(outcome: object, model: Model, tokens: Tensor) -> Said:
    if model.cfg.n_layers > 2:
        return None  # that it was right for two layers says more
    index, stack = isinstance(outcome, IndexError), "stack expects" in str(outcome)
    return {
        "an index is too large for this model of 2 layers of 3 heads: "
        "take the numbers from `model.cfg`.": index,
        "the terms differ in shape: each is [pos, d_model]; "
        "a head's z, [pos, d_head], gets there by its W_O.": stack,
    }


stream_terms = compared(
    "`stream_terms(model, tokens) → [1 + layers · heads, pos, d_model]`: "
    "the embedding, then every head's output.",
    returns="[the embedding and every head, position, d_model]",
    cases=lambda: {
        "the sum is right, but the terms are not each head's own, z @ W_O.": (tiny_model(), TOKENS),
        FAILS: (tiny_model(**OTHER), OTHER_TOKENS),
    },
    advice=_why_it_stops,
    explain=_what_differs,
    mistakes={
        "the first term holds W_pos; "
        "in these models positions go to queries and keys only, never into the stream.": (
            lambda m, t: torch.cat([m.W_E[t] + m.W_pos[:5], _terms(m, t)[1:]]),
            lambda m, t: torch.cat([m.W_pos[None, :5], _terms(m, t)[1:]]),
        ),
        "the embedding comes last; it should be the first term.": _reordered(1, 2, 3, 4, 5, 6, 0),
        "the heads' terms hold the embedding once more: a head's output is only what it adds.": (
            lambda m, t: torch.cat([m.W_E[t], _terms(m, t)[1:] + m.W_E[t]]),
            lambda m, t: torch.cat([m.W_E[t], _terms(m, t)[1:] + m.W_E[t] / 6]),
        ),
        "head 1.0 should be term 4 of 7: first the heads of layer 0, then those of layer 1.": (
            _reordered(0, 1, 4, 2, 5, 3, 6),
            _reordered(0, 4, 5, 6, 1, 2, 3),
        ),
    },
)


attribution = compared(
    "`attribution(terms, W_U, token, rival) → [term]`: "
    "what each term adds to one logit above what it adds to another.",
    returns="one number for each term",
    cases=lambda: {
        "it is not what each term adds to the logit of `token` above that of `rival`.": (
            *_vectors(4, 6, 9),
            5,
            2,
        ),
        "it fails for 3 terms of 8 dimensions.": (*_vectors(3, 8, 5), 0, 4),
        "a token is no rival of itself: then each term adds 0.": (*_vectors(7, 5, 4), 2, 2),
    },
    mistakes={
        "the sign is turned: what raises `token` should be positive.": lambda *given: (
            -_adds(*given)
        ),
        "`rival` makes no difference: subtract what a term adds to its logit.": lambda t, W, n, r: (
            t @ W[:, n]
        ),
        "that is what each adds to the logit of `rival` alone.": lambda t, W, n, r: t @ W[:, r],
        "that is a logarithm of a probability or a probability; "
        "a term adds to logits, before any softmax.": (
            lambda t, W, n, r: (x := (t @ W).log_softmax(-1))[:, n].exp() - x[:, r].exp(),
            lambda t, W, n, r: (t @ W).log_softmax(-1)[:, n],
        ),
    },
)


def _vectors(terms: int, d_model: int, d_vocab: int) -> tuple[Tensor, Tensor]:
    return random(terms, d_model), random(d_model, d_vocab, seed=1)


def _spoken(
    model: Model, tokens: Tensor, layer: int, head: int, logits: Tensor
) -> tuple[Tensor, bool]:
    """Which z of a head in the last layer these logits belong to.

    It also says whether all else is as in the plain run.
    """
    _, cache = model.run_with_cache(tokens)
    into = model.W_O[layer, head] @ model.W_U  # [d_head, d_vocab]
    moved = logits - (model(tokens) - cache["z", layer][:, :, head] @ into)
    z = moved @ torch.linalg.pinv(into)
    return z, close(z @ into, moved)


def _answered(answer: Answer, *given: object) -> object:
    """What the answer returns, with a sentence where its value is too long."""
    try:
        return answer(*given)
    except Wrong as wrong:
        is_long = isinstance(wrong.__cause__, RuntimeError) and "size" in str(wrong)
        demand(not is_long, TOO_LONG)
        raise


@judged
def ablated(answer: Answer) -> None:
    """`ablated(model, tokens, layer, head, others) → logits`: a head tells nothing of this text."""
    for config, layer, head in (
        ({"n_layers": 1}, 0, 1),
        ({}, 1, 2),
        ({}, 1, 0),
        (OTHER | {"n_layers": 1}, 0, 0),
    ):
        model = tiny_model(**config)
        one = OTHER_TOKENS if len(config) > 1 else TOKENS
        tokens = torch.cat([one, one.roll(2, 1)])
        others = torch.cat([one.flip(1), one.roll(1, 1), one.roll(3, 1).flip(1)])
        others = torch.cat([others, others[:, :1]], 1)  # longer, as in the lesson
        shape = (*tokens.shape, model.cfg.d_vocab)
        got = _answered(answer, model, tokens, layer, head, others)
        logits = tensor(got, shape, "[batch, pos, d_vocab]")
        (_, here), (_, there) = (model.run_with_cache(texts) for texts in (tokens, others))
        own, usual = here["z", layer][:, :, head], there["z", layer][:, :, head]
        as_long = usual[:, : tokens.shape[1]]
        for other in set(range(model.cfg.n_heads)) - {head}:
            wrong = f"head {layer}.{other} was changed where it should be {layer}.{head}."
            demand(
                close(logits, model(tokens)) or not _spoken(model, tokens, layer, other, logits)[1],
                wrong,
            )
        z, alone = _spoken(model, tokens, layer, head, logits)
        demand(
            alone,
            "these are not the logits of a run in which one head's z, "
            "at its layer, is all that was changed.",
        )
        demand(
            not close(z, own),
            "these are the logits of the plain run: return `run_with(value)`, "
            "with a value that comes from `others`.",
        )
        silent = (
            "zero takes away, too, what the head adds on every text alike: which value keeps that?"
        )
        demand(not close(z, 0 * z), silent)
        demand(
            not close(z, own.mean((0, 1)).expand_as(z)),
            "the mean over `tokens` tells of these texts: use `others`.",
        )
        means = [part.mean((0, 1)).expand_as(own[:1]) for part in (usual, as_long)]
        values = torch.cat([as_long.mean(0)[None], *means])  # [value, pos, d_head]
        from_mean = (z[:, None] - values).norm(dim=-1).amin(1)  # [batch, pos]
        from_any = torch.cdist(z, usual.flatten(0, 1)).amin(-1)
        neither = "the head's z is neither a mean over `others` nor anything that it has there."
        demand(from_mean.minimum(from_any).max() < 1e-3 * usual.norm(), neither)
