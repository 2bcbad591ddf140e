"""Checks of lesson 04, one layer: each exercise, and what each typical mistake is told."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random, tiny_model
from course_utils import circuits, heads, interventions
from course_utils.course import solutions
from course_utils.course.exercises import Answer, Cases, Said, compared, judged
from course_utils.course.expectations import Unfit, Wrong, close, demand, pair, tensor

_ours = solutions.answer("skip_trigrams")
_path_terms = solutions.answer("path_terms")

OTHER = {"n_heads": 2, "d_head": 7, "d_vocab": 13, "d_model": 8}
FAILS = "it is right for one small model, and wrong for another with other sizes and"


_small = partial(tiny_model, 0.6, n_layers=1)


def _QK(model: HookedTransformer, head: int) -> Any:
    return circuits.full_qk(model, 0, head).AB  # [dest, src]


def _OV(model: HookedTransformer, head: int) -> Any:
    return circuits.full_ov(model, 0, head).AB  # [src, out]


def _why_terms(
    got: list[Tensor], right: list[Tensor], model: HookedTransformer, tokens: Tensor
) -> Said:
    (direct, terms), (right_direct, right_terms) = got, right
    if len(tokens) < 6:  # the second case, which has a sentence of its own
        return None
    ratio = (terms.norm() / right_terms.norm()).item()
    return {
        "the direct path sees the current token alone, but the same token gets two different rows: "
        "what else is in it?": not close(direct[[1, 2]], direct[[3, 5]]),
        "the direct path is not the embedding times the unembedding.": not close(
            direct, right_direct
        ),
        f"the heads' terms are {ratio:.3g} times as large as what the heads add.": close(
            terms, ratio * right_terms
        ),
        "the first position can attend to itself alone, so each head's "
        "term there is one row of its full OV table.": (not close(terms[:, 0], right_terms[:, 0])),
        "the terms do not add up to the logits: is each pattern the model's own, "
        "as [dest, src], one for each head?": (not close(terms.sum(0), right_terms.sum(0))),
    }


def _terms(
    change: Callable[[Tensor], Tensor] = lambda A: A,
    turn: Any = torch.clone,
    values: int = 0,
    direct: int = 0,
) -> Answer:
    """An answer with something to get wrong in each keyword.

    It changes the patterns, [head, dest, src], turns OV, or has W_pos in its values or direct path.
    """

    def answer(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x = model.W_E[tokens]
        W_pos = model.W_pos[: len(tokens)]
        A = heads.patterns(model, tokens[None])[0, :, 0]
        moved = change(A) @ (x + values * W_pos) @ turn(model.W_V[0] @ model.W_O[0])
        return (x + direct * W_pos) @ model.W_U, moved @ model.W_U

    return answer


def _then(change: Callable[[Tensor, Tensor], Any]) -> Answer:
    return lambda model, tokens: change(*_path_terms(model, tokens))


def _without_positions(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    with interventions.patched(
        model, "hook_pos_embed", torch.zeros(1, len(tokens), model.cfg.d_model)
    ):
        return _path_terms(model, tokens)


path_terms = compared(
    "`path_terms(model, tokens) → direct [n, V], heads [h, n, V]`: "
    "what each path adds to the logits.",
    returns=("[pos, d_vocab] for the direct path", "[head, pos, d_vocab] for the heads"),
    cases=lambda: {
        "the sum is right, but not what each head adds to it.": (
            _small(),
            torch.tensor([0, 7, 3, 7, 11, 3]),
        ),
        f"{FAILS} three tokens.": (_small(**OTHER), torch.tensor([0, 12, 5])),
    },
    explain=_why_terms,
    mistakes={
        "these are the model's logits, all paths together: the direct path is one of them.": _then(
            lambda d, h: (d + h.sum(0), h)
        ),
        "positions are in your direct path: this model adds them to queries and keys only, "
        "never to the stream.": (_terms(direct=1), _terms(direct=1, values=1)),
        "each head's term holds the direct path too: it would be counted four times.": _then(
            lambda d, h: (d, h + d)
        ),
        "positions are in your values: this model adds them to queries and keys only.": _terms(
            values=1
        ),
        "your pattern is transposed: it is [dest, src], and a head sums over sources.": _terms(
            lambda A: A.mT
        ),
        "these are the right terms in another order of heads.": _then(
            lambda d, h: (d, h.roll(-1, 0))
        ),
        "these are the right terms, with the heads in another order.": _then(
            lambda d, h: (d, h.roll(1, 0))
        ),
        "the heads stand in reverse.": _then(lambda d, h: (d, h.flip(0))),
        "W_V W_O is transposed: a row x goes through W_V first, then W_O.": _terms(
            turn=lambda OV: OV.mT
        ),
        "each position gets its own row of the full OV table: no head has moved anything.": _terms(
            lambda A: torch.eye(len(A[0]))
        ),
        "this leaves positions out of the pattern; the scores hold them.": _without_positions,
    },
)


# of a model, a head and a source: a number for each token
Row = Callable[[HookedTransformer, int, int], Tensor]


def _relative(model: HookedTransformer, head: int, source: int) -> Tensor:
    return (_QK(model, head) - _QK(model, head).mean(1, keepdim=True))[:, source]


OUTS: dict[str, Row] = {  # what wrong outs are the largest entries of
    "these output tokens belong to head 0; head 1 was asked for.": lambda m, h, s: _OV(m, 0)[s],
    "these output tokens belong to head 2; head 1 was asked for.": lambda m, h, s: _OV(m, 2)[s],
    "these tokens raise the source; "
    "the source is on the rows of the full OV table.": lambda m, h, s: _OV(m, h)[:, s],
    "these are the output tokens that the head lowers most.": lambda m, h, s: -_OV(m, h)[s],
    "these output tokens are the largest by size; "
    "asked for are those that gain most.": lambda m, h, s: _OV(m, h)[s].abs(),
    "your output tokens are the direct path's: "
    "follow the source through W_V and W_O.": lambda m, h, s: m.W_E[s] @ m.W_U,
    "the direct path is in your output tokens: asked for is what this head adds.": (
        lambda m, h, s: _OV(m, h)[s] + m.W_E[s] @ m.W_U
    ),
}
SOURCES = "these are the sources that this token looks for as a destination"
DESTS: dict[str, Row] = {  # and wrong destinations
    f"{SOURCES}: the full QK table is [dest, src], take a column.": lambda m, h, s: _QK(m, h)[s],
    f"{SOURCES}, centred: the full QK table is [dest, src], take a column.": lambda m, h, s: (
        _QK(m, h)[s] - _QK(m, h).mean(0)
    ),
    f"{SOURCES}, less other rows' means: the full QK table is [dest, src].": lambda m, h, s: (
        _QK(m, h)[s] - _QK(m, h).mean(1)
    ),
    "these are the destinations that look for the source least.": lambda *a: -_relative(*a),
    "these scores are the largest by size; a negative one means less attention.": lambda *a: (
        _relative(*a).abs()
    ),
    "these are ranked by probability; asked for is the score, less its row's mean.": (
        lambda m, h, s: _QK(m, h).softmax(1)[:, s]
    ),
    "that is a mean over d_head; the mean key is a mean over tokens, `keys.mean(0)`.": (
        lambda m, h, s: (
            m.W_E @ m.W_Q[0, h] @ (m.W_E[s] @ (m.W_K[0, h] - m.W_K[0, h].mean(1, keepdim=True)))
        )
    ),
    "what is the same for every source changes no pattern, but it changed your destinations. "
    "Subtract from each score the mean of its row "
    "first (its column's mean changes no order).": lambda m, h, s: _QK(m, h)[:, s],
}


def _ids(ends: Any) -> tuple[Any, ...]:
    """Destinations and outs, tensors or lists of whole numbers, as tensors."""
    found = []
    both = pair(ends, "destinations and output tokens")
    for ids, name in zip(both, ("destinations", "output tokens"), strict=True):
        if isinstance(ids, tuple) and hasattr(ids, "indices"):
            raise Wrong("`topk` gives values and indices: return its `.indices`.")
        found.append(torch.as_tensor(ids) if isinstance(ids, list | tuple) else ids)
        if isinstance(found[-1], Tensor) and found[-1].is_floating_point():
            raise Wrong(f"the {name} should be token ids, which are integers.")
    return tuple(found)


def _why_ids(
    got: list, right: list, model: HookedTransformer, head: int, source: int, k: int
) -> str | None:
    if k != 4:  # the other cases have sentences of their own
        return None
    if close(got[1], right[1]):
        part, name, rows = 0, "destinations", DESTS
        otherwise = "the destinations are not those with the largest relative score."
    else:
        part, name, rows = 1, "output tokens", OUTS
        row_of = "the source's row of the full OV table"
        otherwise = f"the output tokens are not the largest entries of {row_of}."
    for sentence, row in rows.items():
        if close(got[part], row(model, head, source).topk(k).indices):
            return sentence
    in_order = close(got[part].sort().values, right[part].sort().values)
    order = f"the {name} are the right ones, but the largest should come first."
    return order if in_order else otherwise


def _asked() -> Cases:
    model, other = _small(), _small(**OTHER | {"n_heads": 4})
    model.W_E[:, 0] = 1  # so that a row of W_K gives all keys something in common
    model.blocks[0].attn.W_K[1, 0] += 9 * random(4, seed=60)
    fails = "it is right for one model and k = 4, but not for another with 13 tokens, head"
    others = {
        f"{fails} {head} and k = {k}.": (other, head, s, k)
        for head, s, k in ((3, 12, 1), (0, 0, 13), (2, 5, 6))
    }
    return {"the answer is wrong for head 1, source 4 and k = 4.": (model, 1, 4, 4)} | others


def _returns_tensors(answer: Answer) -> None:
    if not all(isinstance(ids, Tensor) for ids in answer(_small(), 0, 0, 13)):
        raise Unfit(
            "the next cells index tensors with these ids, and get lists: "
            "return tensors, as `topk` does"
        )


skip_trigrams = compared(
    "`skip_trigrams(model, head, source, k) → dest ids [k], output ids [k]`: "
    "what one source token is for one head.",
    returns=("the ids of k destinations", "the ids of k output tokens"),
    cases=_asked,
    as_read=_ids,
    explain=_why_ids,
    fits=_returns_tensors,
    mistakes={
        "these are the output tokens, then the destinations: turn them round.": lambda *a: _ours(
            *a
        )[::-1]
    },
)


@judged
def ring_head(answer: Answer) -> None:
    """`ring_head(n, k) → [2, 2]`: an OV circuit that makes each letter raise the one k further on.

    Any circuit is right that puts the right letter first in every row.
    """
    for n, k in ((4, 0), (3, 1), (4, 2), (26, 5), (7, 5)):
        circuit = tensor(answer(n, k), (2, 2), "a matrix of two by two")
        angle = 2 * math.pi * torch.arange(n) / n
        letters = torch.stack([angle.cos(), angle.sin()], dim=1)  # [letter, 2]
        best, raised = (letters @ circuit @ letters.T).topk(2, dim=1)
        tied = (best[:, 0] - best[:, 1] <= 1e-4 * circuit.norm()).any()
        still = circuit[0, 1].abs() <= 1e-4 * circuit.norm()
        further = (raised[:, 0] - torch.arange(n)) % n
        asked = f"for n = {n} and k = {k}"
        demand(not tied, f"{asked} some letter raises two others alike.")
        for sentence, fails in {
            "every letter raises itself: this head turns nothing.": still and (further == 0).all(),
            f"{asked} the circle turns the other way: a row vector x leaves the head as x @ W_OV, "
            "so is your matrix transposed?": 2 * k != n and (further == n - k).all(),
            f"{asked} a letter raises the one {int(further[0])} further on: what part of a whole "
            "turn, in radians, is a step?": (further == further[0]).all(),
            f"{asked} different letters are sent to different distances: a head that turns the "
            "circle keeps its shape.": True,
        }.items():
            demand((further == k).all() or not fails, sentence)
    if not answer(4, 1).is_floating_point():
        raise Unfit("the next cell multiplies floats by it, and gets whole numbers")
