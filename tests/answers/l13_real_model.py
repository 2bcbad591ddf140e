"""Answers to lesson 13's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.l13_real_model.checks import _patterns, _scores
from course_utils.course.exercises import Answer


def _cached(model: HookedTransformer, tokens: Tensor, marks: Tensor, hooks: Any = ()) -> Tensor:
    """All patterns at once: right, though it needs much memory."""
    return _scores(_patterns(model, hooks), marks)


def _with_loops(model: HookedTransformer, tokens: Tensor, marks: Tensor, hooks: Any = ()) -> list:
    """A list of lists, destination by destination."""
    scores = torch.zeros(model.cfg.n_layers, model.cfg.n_heads)
    count = marks.any(-1).sum()

    def look(pattern: Tensor, hook: Any) -> None:
        for text, dest in marks.any(-1).nonzero().tolist():
            for head in range(model.cfg.n_heads):
                seen = pattern[text, head, dest][marks[text, dest]].sum()
                scores[hook.layer(), head] += seen / count

    names = [name for name in model.hook_dict if name.endswith("hook_pattern")]
    own = [(name, look) for name in names]
    model.run_with_hooks(tokens, fwd_hooks=list(hooks) + own, return_type=None)
    return scores.double()


def _scored(change: Callable[[Tensor, Tensor], Tensor], own_hooks: bool = False) -> Answer:
    """An answer that makes `change(pattern, marks)` of each layer: [head]."""

    def answer(model: HookedTransformer, tokens: Tensor, marks: Tensor, hooks: Any = ()) -> Tensor:
        rows: list[Tensor] = []
        own = [
            (name, lambda pattern, hook: rows.append(change(pattern, marks)))
            for name in model.hook_dict
            if name.endswith("hook_pattern")
        ]
        given = [] if own_hooks else list(hooks)
        model.run_with_hooks(tokens, fwd_hooks=given + own, return_type=None)
        return torch.stack(rows)

    return answer


def _mean(pattern: Tensor, marks: Tensor) -> Tensor:
    on_marks = (pattern * marks[:, None]).sum(-1)
    return on_marks.transpose(0, 1)[:, marks.any(-1)].mean(-1)


def _by_text(pattern: Tensor, marks: Tensor) -> Tensor:
    each = [_mean(pattern[i : i + 1], marks[i : i + 1]) for i in range(len(pattern))]
    return torch.stack(each).mean(0)


def _last_layer(model: HookedTransformer, tokens: Tensor, marks: Tensor, hooks: Any = ()) -> Tensor:
    scores = _scores(_patterns(model, hooks), marks)
    return scores[-1:].expand_as(scores).clone()


def _ranked(
    value: Callable[[Tensor, Tensor, list], Any] = lambda before, after, readers: (
        sum((before[r] - after[r]).item() for r in readers) / len(readers)
    ),
    turned: bool = True,
    each_time: bool = False,
) -> Answer:
    """An answer with something to get wrong: the value of a candidate, the order, the runs."""

    def answer(scores: Callable, hooks_of: dict, readers: list) -> dict:
        before = scores()
        found = {}
        for head, hooks in hooks_of.items():
            before = scores() if each_time else before
            found[head] = value(before, scores(hooks), readers)
        order = sorted(found, key=lambda head: float(found[head]), reverse=turned)
        return {head: found[head] for head in order}

    return answer


def _at(scores: Tensor, readers: list) -> Tensor:
    return torch.stack([scores[r] for r in readers])


RIGHT_ANSWERS: dict[str, dict[str, Answer]] = {
    "rule_scores": {
        "all patterns cached": _cached,
        "destination by destination": _with_loops,
        "a list of rows": _scored(_mean),
    },
    "rank_by_effect": {
        "Python's sum": _ranked(),
        "tensors as falls": _ranked(lambda was, now, rs: (_at(was, rs) - _at(now, rs)).mean()),
        "means first": _ranked(
            lambda was, now, rs: (_at(was, rs).mean() - _at(now, rs).mean()).item()
        ),
    },
}
WRONG_ANSWERS: dict[str, dict[str, Any]] = {
    "rule_scores": {
        "average over the destinations that have a mark": _scored(
            lambda pattern, marks: (pattern * marks[:, None]).sum(-1).mean((0, 2))
        ),
        "add up what falls on all marks": _scored(
            lambda pattern, marks: pattern.transpose(0, 1)[:, marks].mean(-1)
        ),
        "of all texts at once": _scored(_by_text),
        "the scores of one layer stand in all rows": _last_layer,
        "gives the scores of the model without them": _scored(_mean, own_hooks=True),
        "some of the scores are wrong": lambda *given: _cached(*given).flip(1),
    },
    "rank_by_effect": {
        "the values are the scores that are left": _ranked(
            lambda before, after, rs: _at(after, rs).mean().item()
        ),
        "a fall should be positive": _ranked(
            lambda before, after, rs: (_at(after, rs) - _at(before, rs)).mean().item()
        ),
        "average over the readers alone": _ranked(
            lambda before, after, rs: (before - after).mean().item()
        ),
        "divide by their number": _ranked(
            lambda before, after, rs: (_at(before, rs) - _at(after, rs)).sum().item()
        ),
        "are not those of the readers' mean score": _ranked(
            lambda before, after, rs: (before[rs[0]] - after[rs[0]]).item()
        ),
        "the largest fall comes first": _ranked(turned=False),
        "measure them once": _ranked(each_time=True),
        "it should return a dictionary": lambda *given: [*_ranked()(*given).items()],
        "should be a key of the dictionary": lambda *given: {
            str(head): fall for head, fall in _ranked()(*given).items()
        },
        "should be one number": lambda *given: {head: None for head in _ranked()(*given)},
    },
}
