"""Checks of lesson 10, reading critically: each exercise, with its typical mistakes and the sentence that each gets."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions
from course_utils.course import ours
from course_utils.course.exercises import Answer, Said, compared, judged
from course_utils.course.fixtures import tiny_model
from course_utils.course.questions import close, demand, tensor

_ours = ours.answer("attention_by_gap")

FIRST, SECOND, FINAL = "blocks.0.ln1.hook_scale", "blocks.1.ln1.hook_scale", "ln_final.hook_scale"
TEXTS = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [7, 3, 9, 9, 1, 2, 8]])
DIVISORS: dict[str, dict[str, float]] = {
    "with no divisor to replace, these should be the logits of the model itself.": {},
    "with the final divisor replaced by 0.7 everywhere, the logits are different ones: put the given value, and "
    "nothing else, at every position.": {FINAL: 0.7},
    "the result is the same for another value: use the value that is given, not a mean of your own.": {FINAL: 3.0},
    "it is right for the last LayerNorm and wrong for the one in front of layer 0: hook the names in `values`.": {
        FIRST: 1.3
    },
    "with one name it is right, with several not: each hook takes the value of its own name (a function made in a "
    "loop sees the loop's last value).": {FIRST: 1.3, SECOND: 0.4, FINAL: 2.0},
}


def _dividing(change: Callable[[Tensor, float], Tensor] = torch.full_like) -> Answer:
    """An answer that puts what `change` makes of a divisor and its value in the divisor's place."""

    def answer(model: HookedTransformer, tokens: Tensor, values: dict[str, float]) -> Tensor:
        hooks: list[Any] = [(name, lambda old, hook: change(old, values[hook.name])) for name in values]
        return model.run_with_hooks(tokens, fwd_hooks=hooks)

    return answer


with_divisors = compared(
    "`with_divisors(model, tokens, values) → logits`: LayerNorm's divisors replaced, by hook.",
    returns="[batch, pos, d_vocab], logits",
    cases=lambda: {said: (tiny_model(normalization_type="LN"), TEXTS, values) for said, values in DIVISORS.items()},
    mistakes={
        "nothing has changed: the hook has to return the new divisor.": lambda m, t, v: m(t) * (FIRST not in v),
        "the divisor is multiplied by the value; it should be replaced by it.": _dividing(torch.mul),
        "the divisor is divided by the value; it should be replaced by it.": _dividing(torch.div),
        "1 / value stands in the divisor's place; the value itself should.": _dividing(lambda old, x: 0 * old + 1 / x),
    },
)


VERDICTS = ("decides nothing", "stands", "falls", "between")
ONE_OF = f"one of {', '.join(map(repr, VERDICTS))}"
TRIALS = {  # claimed, denied, measured, noise
    (0.0, 10.0, 0.2, 0.5): "the number is where the sentence puts it, to within the noise",
    (0.0, 10.0, 9.9, 0.5): "the number is where it would be if the sentence were false",
    (0.0, 10.0, 4.0, 0.5): "the number is near to neither",
    (5.0, 5.3, 5.1, 0.5): "the sentence and its denial foresee the same, to within the noise",
    (5.0, 5.3, 9.0, 0.5): "no number can tell the sentence from its denial here",
    (1.0, 0.0, 0.98, 0.05): "the claimed number is above the other one here; only distances count",
    (1.0, 0.0, -0.03, 0.05): "the claimed number is above the other one here; only distances count",
    (0.0, 1.5, 0.5, 0.5): "exactly as far off as the noise is still within it",
    (0.0, 1.0, 0.4, 0.5): "two noises apart is not far enough: the ranges touch",
    (-2.0, 2.0, 0.0, 0.5): "the number is near to neither; sizes say nothing",
    (0.0, 10.0, 13.0, 0.5): "the number is near to neither: it has overshot both",
}


def _why_verdict(word: str, right: str, claimed: float, denied: float, measured: float, noise: float) -> str:
    if word not in VERDICTS:
        return f"{word!r} is not {ONE_OF}."
    because = TRIALS[claimed, denied, measured, noise]
    if word == "decides nothing":
        because = "claimed and denied are more than two noises apart, whichever is larger: abs(claimed - denied)"
    named = f"claimed {claimed:g}, denied {denied:g}, measured {measured:g}, noise {noise:g}"
    return f"{named}: {because}; you say {word!r}."


verdict = compared(
    "`verdict(claimed, denied, measured, noise) → str`: what a number says of a sentence.",
    returns=ONE_OF,
    cases=lambda: {"": list(TRIALS)},
    explain=_why_verdict,
)


@judged
def undo_scaling(answer: Answer) -> None:
    """`undo_scaling(model) → model`: a copy whose scores are not divided by √d_head; there are many."""
    lower = torch.ones(2, 1, 6, 6).tril() > 0
    for sizes in ({"d_head": 4}, {"d_head": 5, "n_heads": 2, "n_layers": 3, "d_model": 12}):
        model, root = tiny_model(0.5, **sizes), sizes["d_head"] ** 0.5
        result, first = answer(model), f"with d_head = {sizes['d_head']}, "
        demand(isinstance(result, HookedTransformer), f"it should return a model, not {type(result).__name__}.")
        with torch.no_grad():
            right = ours.find("undo_scaling").function(model)
            runs = [one.run_with_cache(TEXTS[:, :6]) for one in (result, right, model)]
        scores, _, given = (run["attn_scores", 0].where(lower, 0) for _, run in runs)
        factor = (scores / given)[lower.expand_as(scores)].median().item()
        parts_kept = _alike(*([run[part, 0] for part in ("v", "attn_out")] for _, run in runs[:2]))
        everywhere = _alike(*([logits, *run.stack_activation("pattern")] for logits, run in runs[:2]))
        undone = abs(factor - root) < 1e-3
        for otherwise, holds in {
            "it returns the very model that it was given: return a copy.": result is not model,
            "the scores are still divided: model.W_Q is a stack made on the spot, and heads read cfg.use_attn_scale "
            "only when they are made; the weights are in model.blocks.": abs(factor - 1) > 1e-3,
            f"{first}the scores should be {root:.2f} times as large, not {factor:.2f} times.": undone,
            f"{first}the scores of layer 0 are right, and something else has changed: values or outputs.": parts_kept,
            "layer 0 is right, and another layer is not: undo the division in every layer.": everywhere,
        }.items():
            demand(holds, otherwise)


def _alike(some: list[Tensor], others: list[Tensor]) -> bool:
    """Equal but for rounding, which every layer makes larger."""
    return all((a - b).norm() < 1e-3 * b.norm() for a, b in zip(some, others, strict=True))


FILLERS = [[3, 4, 5, 6], [7, 8, 6, 3]]
GAPS: dict[str, list[tuple]] = {  # head, source, destination, fillers
    "at gap g, the first g fillers of each row stand between the two.": [(1, 1, 2, FILLERS), (0, 1, 2, FILLERS)],
    "it fails for 3 rows of 1 fillers, source 9 and destination 11.": [(2, 9, 11, [[12], [5], [7]])],
    "it fails for 1 rows of 6 fillers, source 4 and destination 4.": [(1, 4, 4, [[1, 2, 3, 4, 5, 6]])],
}


def _why_gaps(got: Tensor, right: Tensor, model: Any, head: int, source: int, dest: int, fillers: Tensor) -> Said:
    if len(fillers) != 2:  # these cases have sentences of their own
        return None
    none, between = close(got, 0 * right), ((got >= 0) & (got <= 1)).all()
    return {
        "this attention is 0: the destination, the last token, looks at the source; nothing looks ahead.": none,
        "attention lies between 0 and 1.": not between,
        "with no filler the context is start token, source, destination; read the attention from the last position "
        "to position 1.": not close(got[0], right[0]),
    }


attention_by_gap = compared(
    "`attention_by_gap(model, head, source, dest, fillers) → [gap]`: attention to a source that moves away.",
    returns="[gap], from 0 to the number of fillers",
    cases=lambda: {
        sentence: [(tiny_model(0.7), *given[:-1], torch.tensor(given[-1])) for given in several]
        for sentence, several in GAPS.items()
    },
    explain=_why_gaps,
    mistakes={
        "two heads give the same numbers: use the head that was asked for.": (
            lambda m, h, *others: _ours(m, 0, *others),
            lambda m, h, *others: _ours(m, 1, *others),
        ),
        "the second row of fillers makes no difference: average over all rows.": lambda *a: _ours(*a[:-1], a[-1][:1]),
        "the order of the rows of fillers should not matter: average over all of them.": (
            lambda *a: _ours(*a[:-1], a[-1][-1:])
        ),
    },
)


@judged
def copier(answer: Answer) -> None:
    """`copier(n) → [n, n]`: every token raises itself most, and yet an eigenvalue is negative; there are many."""
    for n in (4, 6, 10):
        matrix = tensor(answer(n), (n, n), "[source, out]")
        diagonal, others = matrix.diagonal(), matrix.masked_fill(torch.eye(n) > 0, -math.inf).amax(1)
        centred = matrix - matrix.mean(1, keepdim=True)
        most = (diagonal > others + 1e-6).all()
        least, least_centred = (torch.linalg.eigvals(one.double()).real.min().item() for one in (matrix, centred))
        for otherwise, holds in {
            "a token lowers its own logit: every entry on the diagonal should be above 0.": (diagonal > 0).all(),
            "some token raises another one as much as itself: each row should be largest on the diagonal.": most,
            f"all eigenvalues have a real part of {least:.2f} or more; one should be negative.": least < -1e-6,
            "take each row's mean away, which no softmax sees, and no eigenvalue is negative: yours belongs to the "
            "direction in which all logits rise together.": (  # centring leaves one of 0, but for rounding
                least_centred < -1e-4 * matrix.abs().max()
            ),
        }.items():
            demand(holds, otherwise)


def _patched(
    cuts: Callable[[int, int, str], list[interventions.Cut]] = lambda w, r, door: [((0, w), door, (1, r))],
    change: Callable[[Tensor, Tensor], Tensor] = lambda new, old: new,
) -> Answer:
    """An answer that patches other paths, or puts what `change` makes of z on the other and the clean text there."""

    def answer(m: HookedTransformer, clean: Tensor, other: Tensor, writer: int, reader: int, door: str) -> Tensor:
        new, old = (m.run_with_cache(tokens)[1]["z", 0] for tokens in (other, clean))
        instead = {(0, head): z for head, z in enumerate(change(new, old).unbind(2))}
        with interventions.cut(m, *cuts(writer, reader, door), instead=instead):
            return m(clean)

    return answer


def _with_door(m: HookedTransformer, clean: Tensor, door: str, value: Tensor, *readers: int) -> Tensor:
    """The clean run with another value in the door of some heads, or of all."""
    with interventions.patched(m, f"blocks.1.attn.hook_{door}", value, (slice(None), slice(None), *readers)):
        return m(clean)


def _into_all(m: HookedTransformer, clean: Tensor, other: Tensor, writer: int, reader: int, door: str) -> Tensor:
    was, becomes = (m.run_with_cache(tokens)[1] for tokens in (clean, other))
    change = (becomes["z", 0] - was["z", 0])[:, :, writer] @ m.W_O[0, writer]
    return _with_door(m, clean, door, was[door, 1] + (change @ getattr(m, f"W_{door.upper()}")[1, reader])[:, :, None])


OTHER = torch.tensor([[0, 8, 7, 13, 4, 11, 6], [0, 2, 14, 9, 17, 2, 5]])
PATHS: dict[str, tuple] = {  # clean text, other text, writer, reader, door
    "with the clean text in the place of the other one, nothing should change.": (TEXTS, TEXTS, 1, 2, "k"),
    **{f'with door "{door}" these are not the patched logits.': (TEXTS, OTHER, 1, 2, door) for door in "kqv"},
    "it fails for other heads: use `writer` and `reader`.": (TEXTS, OTHER, 2, 0, "v"),
}


path_patched = compared(
    "`path_patched(model, clean, other, writer, reader, door) → logits`: one path gets what it has on another text.",
    returns="[batch, pos, d_vocab], logits",
    cases=lambda: {sentence: (tiny_model(), *given) for sentence, given in PATHS.items()},
    mistakes={
        "nothing has changed: does the hook return what it changed?": lambda m, c, o, w, r, d: m(c),
        "these are the logits of the other text: run the clean one, and change one path in it.": (
            lambda m, c, o, w, r, d: m(o)
        ),
        "the writer's output has changed for all that read it; only the reader's keys should see the other text.": (
            _patched(lambda w, r, door: [(0, w)])
        ),
        "all heads of layer 1 read the other text; only `reader` should.": _patched(
            lambda w, r, door: [((0, w), door, (1, each)) for each in range(3)]
        ),
        "the change goes into the keys of all heads of layer 1; only `reader`'s, x[:, :, reader], should get it.": (
            _into_all
        ),
        "writer and reader are exchanged.": _patched(lambda w, r, door: [((0, r), door, (1, w))]),
        "the texts are exchanged: the clean one is run, and `other` goes down the path.": (
            lambda m, c, o, *path: _patched()(m, o, c, *path)
        ),
        "what the writer says on the other text has been added; what it says on the clean one is still there.": (
            _patched(change=torch.add)
        ),
        "the change has its sign turned round; it is what `writer` says on `other` less what it says on `clean`.": (
            _patched(change=lambda new, old: 2 * old - new)
        ),
        "the reader's keys come from the other text as a whole; only what `writer` puts into them should.": (
            lambda m, c, o, w, r, d: _with_door(m, c, d, m.run_with_cache(o)[1][d, 1], r)
        ),
        "the whole layer 0 has changed in the keys, not `writer` alone.": _patched(
            lambda w, r, door: [((0, each), door, (1, r)) for each in range(3)]
        ),
    },
)
