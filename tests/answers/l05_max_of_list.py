"""Answers to lesson 05's exercises: others that are right, and wrong ones with what they hear."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random
from course_lessons.l05_max_of_list.checks import _scores, _sums
from course_utils.course import solutions
from course_utils.course.exercises import Answer
from course_utils.interventions import patched


def _but(**changes: Callable[[dict[str, Tensor]], Any]) -> Answer:
    """Our weights, but for some that are made from all of them."""

    def answer(line: Tensor) -> dict[str, Tensor]:
        weights = solutions.find("by_hand").function(line)
        return weights | {name: change(weights) for name, change in changes.items()}

    return answer


def _turned(line: Tensor) -> dict[str, Tensor]:
    """Ours in another basis of the stream."""
    R = torch.linalg.qr(random(2 * len(line) + 2, 2 * len(line) + 2)).Q
    return {name: W @ R if name in ("W_E", "W_O") else R.T @ W for name, W in _but()(line).items()}


def _one_hot(line: Tensor) -> dict[str, Tensor]:
    """Neither a place nor a constant in the stream.

    W_Q reads every value alike, and W_K knows the line.
    """
    one, none = torch.eye(len(line)), torch.zeros(len(line), len(line))
    reads, writes = torch.cat([one, none]), torch.cat([none, one])
    W_Q, W_K = reads.sum(1, keepdim=True) * len(line) ** 0.5, reads @ line[:, None]
    W_Q, W_K = (torch.cat([W, torch.zeros(len(W), len(line) - 1)], 1) for W in (W_Q, W_K))
    return {"W_E": reads.T, "W_Q": W_Q, "W_K": W_K, "W_V": reads, "W_O": writes.T, "W_U": writes}


def _at(model: HookedTransformer, place: int) -> Tensor:
    """The stream of all values at a place."""
    return model.W_E + model.W_pos[place]


def _by_products(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    x = model.W_E[lists] + model.W_pos[: lists.shape[1]]
    keys = x @ model.W_K[0, 0]
    keys[lists == value] += push
    scores = torch.einsum("bh,bph->bp", x[:, -1] @ model.W_Q[0, 0], keys) / len(push) ** 0.5
    moved = torch.einsum("bp,bph->bh", scores.softmax(1), x @ model.W_V[0, 0]) @ model.W_O[0, 0]
    return (x[:, -1] + moved) @ model.W_U


def _pushed(where: Callable[[Tensor, int], Tensor] = torch.eq, sign: int = 1) -> Answer:
    """The push on the keys that `where(lists, value)` says."""

    def answer(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
        change = sign * where(lists, value)[..., None, None] * push
        hook = ("blocks.0.attn.hook_k", lambda x, hook: x + change)
        return model.run_with_hooks(lists, fwd_hooks=[hook])[:, -1]

    return answer


def _tried(lead: Tensor, largest: int) -> float:
    lists = [
        one for one in itertools.product(range(largest + 1), repeat=len(lead)) if largest in one
    ]
    return lead[range(len(lead)), lists].sum(1).min().item()


def _place_by_place(lead: Tensor, largest: int) -> Tensor:
    least, places = lead[:, : largest + 1].amin(1), range(len(lead))
    return min(
        sum(lead[i, largest] if i == place else least[i] for i in places) for place in places
    )


def _patched(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    name = "blocks.0.attn.hook_k"
    with patched(
        model, name, model.run_with_cache(lists)[1][name] + (lists == value)[..., None, None] * push
    ):
        return model(lists)[:, -1].double()


RIGHT_ANSWERS = {
    "by_hand": {
        "another basis": _turned,
        "one-hot embeddings": _one_hot,
        "other sizes, float64": _but(
            W_V=lambda w: 5 * w["W_V"], W_O=lambda w: w["W_O"].double() / 5
        ),
    },
    "qk_scores": {
        "the circuit first, float64": lambda m, q, k: (
            _at(m, q).double()
            @ (m.W_Q[0, 0] @ m.W_K[0, 0].T).double()
            @ _at(m, k).T.double()
            / m.cfg.d_head**0.5
        ),
        "query by query": lambda m, q, k: torch.stack(
            [_at(m, k) @ (m.W_K[0, 0] @ (m.W_Q[0, 0].T @ x)) / m.cfg.d_head**0.5 for x in _at(m, q)]
        ),
        "four parts, in numpy": lambda m, q, k: sum(
            (a @ m.W_Q[0, 0]).numpy() @ (b @ m.W_K[0, 0]).numpy().T / m.cfg.d_head**0.5
            for a in (m.W_E, m.W_pos[[q]])
            for b in (m.W_E, m.W_pos[[k]])
        ),
    },
    "worst_lead": {
        "all lists": _tried,
        "place by place": _place_by_place,
        "the least harm of a change, float64": lambda lead, M: (
            (least := lead.double()[:, : M + 1].amin(1)).sum() + (lead[:, M] - least).amin()
        ),
    },
    "move_key": {
        "products of matrices": _by_products,
        "patched keys, float64": _patched,
        "list by list": lambda m, lists, *rest: torch.cat(
            [_pushed()(m, one[None], *rest) for one in lists]
        ),
    },
}


WRONG_ANSWERS = {
    "by_hand": {
        "TransformerLens divides them by √d_head": _but(
            W_Q=lambda w: w["W_Q"] / w["W_Q"].shape[1] ** 0.5
        ),
        "scores are -1.00 times the line": _but(W_Q=lambda w: -w["W_Q"]),
        "every source gets the same attention": _but(W_Q=lambda w: w["W_Q"].roll(1, 1)),
        "whatever the last token is": _but(W_Q=lambda w: w["W_Q"].roll(-1, 0)),
        "no value votes for itself": (
            _but(W_U=lambda w: w["W_U"].roll(1, 1)),
            _but(W_U=lambda w: -w["W_U"]),
        ),
        "the direct path, W_E W_U, speaks too": _but(
            W_O=lambda w: w["W_V"].T, W_U=lambda w: w["W_V"]
        ),
        "a vote for itself and for nothing else": _but(
            W_U=lambda w: w["W_U"] + w["W_U"].roll(1, 1) / 2
        ),
        "is 2.00 times the attention": _but(W_O=lambda w: 2 * w["W_O"]),
        "W_O must have shape": _but(W_O=lambda w: w["W_O"].T),
        "W_V should be a tensor, not list": _but(W_V=lambda w: w["W_V"].tolist()),
        "six matrices called": lambda line: {
            name: W for name, W in _but()(line).items() if name != "W_V"
        },
        "for a line of 7 values W_E should have 7 rows": lambda line: _but()(line[:5]),
        "it should return a dictionary": lambda line: [*_but()(line).values()],
    },
    "qk_scores": {
        "your scores are 2.00 times the model's": lambda m, *of: (
            _scores(m, *of) * m.cfg.d_head**0.5
        ),
        "the model gives value 2 at position 1 a score of": lambda m, q, k: _scores(m, q + 1, k),
        "other sizes (d_head 9), from position 0 to 0": lambda m, *of: (
            _scores(m, *of) * (m.cfg.d_head / 4) ** 0.5
        ),
        "one entry is the model's score": lambda m, *of: (
            _scores(m, *of) * (torch.arange(m.cfg.d_vocab) == 2)
        ),
    },
    "worst_lead": {
        "on leads, 2 × 4, the worst list with the largest value 2 is [2, 1], with a lead of 3.00; "
        "yours is 4.00.": (lambda lead, M: lead[:, M].min()),
        "when the largest value is 0, all values are 0": lambda lead, M: _sums(
            lead, max(M, 1)
        ).min(),
    },
    "move_key": {
        "the push changes nothing": _pushed(lambda lists, value: torch.ones_like(lists)),
        "a push of zero should leave": lambda m, lists, *rest: m(lists)[:, 0],
        "lists without the value 3 should keep": _pushed(
            lambda lists, value: lists.cumsum(1) == lists
        ),
        "where 3 stands once, its key should be its key plus": _pushed(sign=-1),
        "the last token's own key moves too": _pushed(
            lambda lists, value: (
                (lists == value) & (torch.arange(lists.shape[1]) < lists.shape[1] - 1)
            )
        ),
        "both keys should move": _pushed(
            lambda lists, value: (lists == value) & ((lists == value).cumsum(1) == 1)
        ),
        "one row of logits per list": lambda m, lists, *rest: m(lists),
    },
}
