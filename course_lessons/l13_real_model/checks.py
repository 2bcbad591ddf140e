"""Checks of lesson 13, a real language model: two exercises, and what feeds a head."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random, tiny_model
from course_lessons.l13_real_model import feeders
from course_utils.course.exercises import BESIDE, Answer, judged
from course_utils.course.expectations import Wrong, close, demand, tensor

TEXTS = torch.tensor([[0, 7, 3, 9, 11, 3, 5], [0, 2, 2, 5, 8, 2, 6]])
EACH = "average over the destinations that have a mark, not over all of them."
SHAPES: tuple[dict[str, int], ...] = ({}, {"n_layers": 3, "n_heads": 2, "d_head": 5, "d_model": 8})


def _marks(tokens: Tensor) -> Tensor:
    copies = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    return copies.roll(1, 2)  # [batch, dest, src]


def _scores(model: HookedTransformer, marks: Tensor, hooks: Any) -> Tensor:
    with model.hooks(fwd_hooks=list(hooks)):
        cache = model.run_with_cache(TEXTS)[1]
    asked = marks.any(-1)
    rows = []
    for layer in range(model.cfg.n_layers):
        on_marks = (cache["pattern", layer] * marks[:, None]).sum(-1)  # [batch, head, dest]
        rows.append(on_marks.transpose(0, 1)[:, asked].mean(-1))
    return torch.stack(rows)


def _without(layer: int, head: int) -> list[tuple]:
    def put(z: Tensor, hook: Any) -> Tensor:
        z[:, :, head] = 0
        return z

    return [(f"blocks.{layer}.attn.hook_z", put)]


@judged
def rule_scores(answer: Answer) -> None:
    """`rule_scores(model, tokens, marks, fwd_hooks) → [layer, head]`: attention on marked sources.

    On average over the destinations that have any.
    """
    marks = _marks(TEXTS)
    for config in SHAPES:
        model = tiny_model(0.6, **config)
        shape = (model.cfg.n_layers, model.cfg.n_heads)
        for hooks in ((), _without(0, 1)):
            given = tensor(answer(model, TEXTS, marks, hooks), shape, "[layer, head]")
            right = _scores(model, marks, hooks)
            asked = marks.any(-1)
            share = asked.float().mean()
            others = _scores(model, marks, () if hooks else _without(0, 1))
            by_text = [_scores_of(model, marks, hooks, text) for text in range(len(TEXTS))]
            for sentence, holds in {
                EACH: not close(given, right * share),
                "add up what falls on all marks of a destination, then take the "
                "average.": not close(given, _share_of_marks(model, marks, hooks)),
                "take the average over all marked destinations of all texts at once; "
                "one text has more of them than the other.": close(given, right)
                or not close(given, torch.stack(by_text).mean(0)),
                "the scores of one layer stand in all rows: does each row get its own? "
                "`hook.layer()` says which it is.": not close(given, given[:1].expand(shape))
                or close(right, right[:1].expand(shape)),
                "with `fwd_hooks` it gives the scores of the model without them: "
                "run these hooks beside your own.": not (hooks and close(given, others)),
                "some of the scores are wrong.": close(given, right),
            }.items():
                demand(holds, sentence)


def _scores_of(model: HookedTransformer, marks: Tensor, hooks: Any, text: int) -> Tensor:
    alone = torch.zeros_like(marks)
    alone[text] = marks[text]
    return _scores(model, alone, hooks)


def _share_of_marks(model: HookedTransformer, marks: Tensor, hooks: Any) -> Tensor:
    """The mean over marks, where a destination may have two."""
    with model.hooks(fwd_hooks=list(hooks)):
        cache = model.run_with_cache(TEXTS)[1]
    layers = range(model.cfg.n_layers)
    return torch.stack([cache["pattern", n].transpose(0, 1)[:, marks].mean(-1) for n in layers])


@judged
def rank_by_effect(answer: Answer) -> None:
    """`rank_by_effect(scores, hooks_of, readers) → {candidate: fall}`, the largest fall first.

    By how much the readers' mean score falls with each candidate's hooks.
    """
    readers = [(1, 2), (2, 0)]
    heads = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 1)]
    table = {head: random(3, 3, seed=i).abs() / 4 for i, head in enumerate(heads)}
    base = random(3, 3, seed=9).abs() + 1
    runs: list[Any] = []

    def scores(fwd_hooks: Any = ()) -> Tensor:
        runs.append(fwd_hooks)
        return base - table[fwd_hooks[0]] if fwd_hooks else base.clone()

    given = answer(scores, {head: [head] for head in heads}, readers)
    demand(isinstance(given, dict), f"it should return a dictionary, not {type(given).__name__}.")
    demand(
        set(given) == set(heads), "each candidate should be a key of the dictionary, and no other."
    )
    try:
        falls = torch.tensor([float(given[head]) for head in heads])
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("each candidate's value should be one number, its fall.") from None
    right = torch.stack([torch.stack([table[h][r] for r in readers]).mean() for h in heads])
    level = torch.stack([base[r] for r in readers]).mean()
    ours = {head: fall for head, fall in zip(heads, falls.tolist(), strict=True)}
    order = list(given)
    for sentence, holds in {
        "the values are the scores that are left; the fall is the score without any hooks "
        "less this one.": not close(falls, level - right),
        "a fall should be positive where the score gets smaller: before less after.": not close(
            falls, -right
        ),
        "average over the readers alone, not over all heads.": not close(
            falls, torch.stack([table[head].mean() for head in heads])
        ),
        "add up over the readers, then divide by their number.": not close(
            falls, right * len(readers)
        ),
        "the falls are not those of the readers' mean score.": close(falls, right),
        "the largest fall comes first; yours are in another order.": order
        == sorted(heads, key=lambda head: -ours[head]),
        "the scores without any hooks are the same for every candidate: measure them once, "
        "before the loop.": len(runs) <= len(heads) + 1,
    }.items():
        demand(holds, sentence)


BESIDE["feeders"] = feeders.judge
