"""Checks of lesson 13, a real language model: two exercises, and what feeds a head."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random, tiny_model
from course_lessons.l13_real_model import feeders
from course_utils import heads
from course_utils.course.exercises import BESIDE, Answer, judged
from course_utils.course.expectations import Wrong, close, demand, tensor

TEXTS = torch.tensor([[0, 7, 3, 9, 11, 3, 5], [0, 2, 2, 5, 8, 2, 6]])
EACH = "average over the destinations that have a mark, not over all of them."
SHAPES: tuple[dict[str, int], ...] = ({}, {"n_layers": 3, "n_heads": 2, "d_head": 5, "d_model": 8})


def _marks(tokens: Tensor) -> Tensor:
    copies = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    return copies.roll(1, 2)  # [batch, dest, src]


def _patterns(model: HookedTransformer, hooks: Any) -> Tensor:
    with model.hooks(fwd_hooks=list(hooks)):
        return heads.patterns(model, TEXTS)  # [layer, head, batch, dest, src]


def _scores(patterns: Tensor, marks: Tensor) -> Tensor:
    on_marks = (patterns * marks).sum(-1)  # [layer, head, batch, dest]
    return on_marks[..., marks.any(-1)].mean(-1)


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
            patterns = _patterns(model, hooks)
            right = _scores(patterns, marks)
            share = marks.any(-1).float().mean()
            # what a destination's marks have on average, where it may have two of them
            each_mark = patterns[..., marks].mean(-1)
            others = _scores(_patterns(model, () if hooks else _without(0, 1)), marks)
            by_text = [_scores(patterns[:, :, [n]], marks[[n]]) for n in range(len(TEXTS))]
            for sentence, holds in {
                EACH: not close(given, right * share),
                "add up what falls on all marks of a destination, then take the "
                "average.": not close(given, each_mark),
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


@judged
def rank_by_effect(answer: Answer) -> None:
    """`rank_by_effect(scores, hooks_of, readers) → {candidate: fall}`, the largest fall first.

    By how much the readers' mean score falls with each candidate's hooks.
    """
    readers = [(1, 2), (2, 0)]
    candidates = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 1)]
    table = {head: random(3, 3, seed=i).abs() / 4 for i, head in enumerate(candidates)}
    base = random(3, 3, seed=9).abs() + 1
    runs: list[Any] = []

    def scores(fwd_hooks: Any = ()) -> Tensor:
        runs.append(fwd_hooks)
        return base - table[fwd_hooks[0]] if fwd_hooks else base.clone()

    given = answer(scores, {head: [head] for head in candidates}, readers)
    demand(isinstance(given, dict), f"it should return a dictionary, not {type(given).__name__}.")
    demand(
        set(given) == set(candidates),
        "each candidate should be a key of the dictionary, and no other.",
    )
    try:
        falls = torch.tensor([float(given[head]) for head in candidates])
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("each candidate's value should be one number, its fall.") from None
    right = torch.stack([torch.stack([table[h][r] for r in readers]).mean() for h in candidates])
    level = torch.stack([base[r] for r in readers]).mean()
    ours = dict(zip(candidates, falls.tolist(), strict=True))
    order = list(given)
    for sentence, holds in {
        "the values are the scores that are left; the fall is the score without any hooks "
        "less this one.": not close(falls, level - right),
        "a fall should be positive where the score gets smaller: before less after.": not close(
            falls, -right
        ),
        "average over the readers alone, not over all heads.": not close(
            falls, torch.stack([table[head].mean() for head in candidates])
        ),
        "add up over the readers, then divide by their number.": not close(
            falls, right * len(readers)
        ),
        "the falls are not those of the readers' mean score.": close(falls, right),
        "the largest fall comes first; yours are in another order.": order
        == sorted(candidates, key=lambda head: -ours[head]),
        "the scores without any hooks are the same for every candidate: measure them once, "
        "before the loop.": len(runs) <= len(candidates) + 1,
    }.items():
        demand(holds, sentence)


BESIDE["feeders"] = feeders.judge
