"""Checks of lesson 10, reading critically: each exercise, then its typical mistakes with the sentence each must get."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import tiny_model
from course_utils.course.questions import Wrong, close, demand, tensor


@exercise
def with_divisors(answer: Answer) -> None:
    """`with_divisors(model, tokens, values) → logits`: LayerNorm's divisors replaced, by hook."""
    tokens = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [7, 3, 9, 9, 1, 2, 8]])
    model = tiny_model(normalization_type="LN")
    first, second, final = "blocks.0.ln1.hook_scale", "blocks.1.ln1.hook_scale", "ln_final.hook_scale"
    plain = model(tokens)

    def found(values: dict[str, float]) -> Tensor:
        return tensor(answer(model, tokens, values), (2, 7, 20), "[batch, pos, d_vocab], logits")

    demand(close(found({}), plain), "with no divisor to replace, these should be the logits of the model itself.")
    logits = found({final: 0.7})
    demand(not close(logits, plain), "nothing has changed: the hook has to return the new divisor.")
    wrong: dict[str, Callable[[Tensor, float], Tensor]] = {
        "the divisor is multiplied by the value; it should be replaced by it.": lambda old, new: old * new,
        "the divisor is divided by the value; it should be replaced by it.": lambda old, new: old / new,
        "1 / value stands in the divisor's place; the value itself should.": lambda old, new: torch.full_like(
            old, 1 / new
        ),
    }
    for sentence, change in wrong.items():
        demand(not close(logits, _with_divisors(model, tokens, {final: 0.7}, change)), sentence)
    right = _with_divisors(model, tokens, {final: 0.7})
    demand(
        close(logits, right),
        "with the final divisor replaced by 0.7 everywhere, the logits are different ones: put the given value, and "
        "nothing else, at every position.",
    )
    demand(
        not close(found({final: 3.0}), right),
        "the result is the same for another value: use the value that is given, not a mean of your own.",
    )
    demand(
        close(found({first: 1.3}), _with_divisors(model, tokens, {first: 1.3})),
        "it is right for the last LayerNorm and wrong for the one in front of layer 0: hook the names in `values`.",
    )
    several = {first: 1.3, second: 0.4, final: 2.0}
    demand(
        close(found(several), _with_divisors(model, tokens, several)),
        "with one name it is right, with several not: each hook takes the value of its own name (a function made in a "
        "loop sees the loop's last value).",
    )


def _with_divisors(
    model: HookedTransformer,
    tokens: Tensor,
    values: dict[str, float],
    change: Callable[[Tensor, float], Tensor | None] = lambda old, new: torch.full_like(old, new),
) -> Tensor:
    hooks: list[Any] = [(name, lambda old, hook: change(old, values[hook.name])) for name in values]
    return model.run_with_hooks(tokens, fwd_hooks=hooks)


def _last_value_of_the_loop(model: HookedTransformer, tokens: Tensor, values: dict[str, float]) -> Tensor:
    hooks: list[Any] = []
    for name in values:
        hooks.append((name, lambda old, hook: torch.full_like(old, values[name])))  # noqa: B023
    return model.run_with_hooks(tokens, fwd_hooks=hooks)


def _left_behind(model: HookedTransformer, tokens: Tensor, values: dict[str, float]) -> Tensor:
    for name in values:
        model.add_hook(name, lambda old, hook: torch.full_like(old, values[hook.name]))
    return model(tokens)


def _final_only(model: HookedTransformer, tokens: Tensor, values: dict[str, float]) -> Tensor:
    name = "ln_final.hook_scale"
    return _with_divisors(model, tokens, {name: values[name]} if name in values else {})


with_divisors.mistakes = {
    "nothing returned": (lambda m, t, v: _with_divisors(m, t, v, lambda old, new: None), "nothing has changed"),
    "the model itself": (lambda m, t, v: m(t), "nothing has changed"),
    "multiplied": (lambda m, t, v: _with_divisors(m, t, v, lambda old, new: old * new), "the divisor is multiplied"),
    "divided": (
        lambda m, t, v: _with_divisors(m, t, v, lambda old, new: old / new),
        "the divisor is divided by the value",
    ),
    "the inverse": (
        lambda m, t, v: _with_divisors(m, t, v, lambda old, new: torch.full_like(old, 1 / new)),
        "1 / value stands in",
    ),
    "a mean of its own": (
        lambda m, t, v: _with_divisors(m, t, v, lambda old, new: torch.full_like(old, old.mean().item())),
        "with the final divisor replaced by 0.7",
    ),
    "one value for all": (
        lambda m, t, v: _with_divisors(m, t, {name: 0.7 for name in v}),
        "the result is the same for another value",
    ),
    "the final one only": (_final_only, "it is right for the last LayerNorm"),
    "the loop's last value": (_last_value_of_the_loop, "with one name it is right"),
    "a hook left behind": (_left_behind, "it leaves a hook on `model`"),
    "log-probabilities": (lambda m, t, v: _with_divisors(m, t, v).log_softmax(-1), "with no divisor to replace"),
    "one text": (lambda m, t, v: _with_divisors(m, t[:1], v), "[batch, pos, d_vocab], logits"),
}


VERDICTS = ("decides nothing", "stands", "falls", "between")


@exercise
def verdict(answer: Answer) -> None:
    """`verdict(claimed, denied, measured, noise) → str`: what a number says of a sentence."""

    def said(claimed: float, denied: float, measured: float, noise: float) -> str:
        word = answer(claimed, denied, measured, noise)
        if not isinstance(word, str):
            raise Wrong(f"it should return one of {', '.join(map(repr, VERDICTS))}, not {type(word).__name__}.")
        demand(word in VERDICTS, f"{word!r} is not one of {', '.join(map(repr, VERDICTS))}.")
        return word

    cases = [
        ((0.0, 10.0, 0.2, 0.5), "stands", "the number is where the sentence puts it, to within the noise"),
        ((0.0, 10.0, 9.9, 0.5), "falls", "the number is where it would be if the sentence were false"),
        ((0.0, 10.0, 4.0, 0.5), "between", "the number is near to neither"),
        ((5.0, 5.3, 5.1, 0.5), "decides nothing", "the sentence and its denial foresee the same, to within the noise"),
        (
            (5.0, 5.3, 9.0, 0.5),
            "decides nothing",
            "no number can tell the sentence from its denial here",
        ),
        ((1.0, 0.0, 0.98, 0.05), "stands", "the claimed number is above the other one here; only distances count"),
        ((1.0, 0.0, -0.03, 0.05), "falls", "the claimed number is above the other one here; only distances count"),
        ((0.0, 1.5, 0.5, 0.5), "stands", "exactly as far off as the noise is still within it"),
        ((0.0, 1.0, 0.4, 0.5), "decides nothing", "two noises apart is not far enough: the ranges touch"),
        ((-2.0, 2.0, 0.0, 0.5), "between", "the number is near to neither; sizes say nothing"),
        ((0.0, 10.0, 13.0, 0.5), "between", "the number is near to neither: it has overshot both"),
    ]
    for numbers, right, because in cases:
        word = said(*numbers)
        named = ", ".join(f"{name} {value:g}" for name, value in zip(_NAMES, numbers, strict=True))
        if word == "decides nothing" != right:
            because = "claimed and denied are more than two noises apart, whichever is larger: abs(claimed - denied)"
        demand(word == right, f"{named}: {because}; you say {word!r}.")


_NAMES = ("claimed", "denied", "measured", "noise")


def _verdict(claimed: float, denied: float, measured: float, noise: float) -> str:
    if abs(claimed - denied) <= 2 * noise:
        return "decides nothing"
    if abs(measured - claimed) <= noise:
        return "stands"
    return "falls" if abs(measured - denied) <= noise else "between"


def _deciding_always(claimed: float, denied: float, measured: float, noise: float) -> str:
    if abs(measured - claimed) <= noise:
        return "stands"
    return "falls" if abs(measured - denied) <= noise else "between"


verdict.mistakes = {
    "always decides": (_deciding_always, "foresee the same"),
    "one noise apart": (
        lambda c, d, m, n: "decides nothing" if abs(c - d) <= n else _deciding_always(c, d, m, n),
        "two noises apart",
    ),
    "the nearer one": (
        lambda c, d, m, n: "stands" if abs(m - c) < abs(m - d) else "falls",
        "the number is near to neither",
    ),
    "not claimed, so false": (
        lambda c, d, m, n: "falls" if (word := _verdict(c, d, m, n)) == "between" else word,
        "the number is near to neither",
    ),
    "exchanged": (lambda c, d, m, n: _verdict(d, c, m, n), "the number is where the sentence puts it"),
    "without noise": (lambda c, d, m, n: _verdict(c, d, m, 0.0), "to within the noise"),
    "signs": (
        lambda c, d, m, n: "decides nothing" if d - c <= 2 * n else _deciding_always(c, d, m, n),
        "whichever is larger",
    ),
    "claimed less denied": (
        lambda c, d, m, n: "decides nothing" if c - d <= 2 * n else _deciding_always(c, d, m, n),
        "whichever is larger",
    ),
    "strictly within": (
        lambda c, d, m, n: _verdict(c, d, m, n * 0.999) if abs(c - d) > 2 * n else "decides nothing",
        "exactly as far off",
    ),
    "beyond is within": (
        lambda c, d, m, n: "falls" if abs(c - d) > 2 * n and m > max(c, d) > c else _verdict(c, d, m, n),
        "it has overshot both",
    ),
    "a truth value": (lambda c, d, m, n: abs(m - c) <= n, "it should return one of"),
    "another word": (lambda c, d, m, n: "true", "'true' is not one of"),
}


@exercise
def undo_scaling(answer: Answer) -> None:
    """`undo_scaling(model) → model`: a copy whose scores are not divided by √d_head."""
    for sizes in ({"d_head": 4}, {"d_head": 5, "n_heads": 2, "n_layers": 3, "d_model": 12}):
        model, tokens = tiny_model(0.5, **sizes), torch.tensor([[0, 1, 2, 3, 4, 5], [7, 3, 9, 9, 1, 2]])
        d_head, first = sizes["d_head"], f"with d_head = {sizes['d_head']}, "
        result = answer(model)
        if not isinstance(result, HookedTransformer):
            raise Wrong(f"it should return a model, not {type(result).__name__}.")
        demand(result is not model, "it returns the very model that it was given: return a copy.")
        lower = torch.ones(6, 6).tril() > 0
        with torch.no_grad():
            cache = result.run_with_cache(tokens)[1]
            given = model.run_with_cache(tokens)[1]
        factor = (cache["attn_scores", 0][..., lower] / given["attn_scores", 0][..., lower]).median().item()
        demand(
            abs(factor - 1) > 1e-3,
            "the scores are still divided: model.W_Q is a stack made on the spot, and heads read cfg.use_attn_scale "
            "only when they are made; the weights are in model.blocks.",
        )
        demand(
            abs(factor - d_head**0.5) < 1e-3,
            f"{first}the scores should be {d_head**0.5:.2f} times as large, not {factor:.2f} times.",
        )
        right = copy.deepcopy(model)
        for block in right.blocks:
            block.attn.W_Q.data *= d_head**0.5
        with torch.no_grad():
            whole = right.run_with_cache(tokens)[1]
        layers = range(model.cfg.n_layers)
        demand(
            _alike(cache["v", 0], whole["v", 0]) and _alike(cache["attn_out", 0], whole["attn_out", 0]),
            f"{first}the scores of layer 0 are right, and something else has changed: values or outputs.",
        )
        demand(
            all(
                _alike(cache["attn_scores", layer][..., lower], whole["attn_scores", layer][..., lower])
                for layer in layers
            )
            and _alike(result(tokens), right(tokens)),
            "layer 0 is right, and another layer is not: undo the division in every layer.",
        )


def _alike(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding, which every layer makes larger."""
    return ((a - b).norm() < 1e-3 * b.norm()).item()


def _rescaled(
    model: HookedTransformer,
    factor: Callable[[Any], float] = lambda cfg: cfg.d_head**0.5,
    names: tuple[str, ...] = ("W_Q",),
    layers: slice = slice(None),
) -> HookedTransformer:
    model = copy.deepcopy(model)
    for block in model.blocks[layers]:
        for name in names:
            getattr(block.attn, name).data *= factor(model.cfg)
    return model


def _on_the_stack(model: HookedTransformer) -> HookedTransformer:
    model = copy.deepcopy(model)
    model.W_Q.data *= math.sqrt(model.cfg.d_head)
    return model


def _on_the_configuration(model: HookedTransformer) -> HookedTransformer:
    model = copy.deepcopy(model)
    model.cfg.attn_scale = 1.0
    return model


def _on_the_model_itself(model: HookedTransformer) -> HookedTransformer:
    for block in model.blocks:
        block.attn.W_Q.data *= math.sqrt(model.cfg.d_head)
    return model


undo_scaling.mistakes = {
    "on the stack": (_on_the_stack, "the scores are still divided"),
    "in the configuration": (_on_the_configuration, "the scores are still divided"),
    "no copy": (_on_the_model_itself, "it changes `model.blocks.0.attn.W_Q`, which it was given"),
    "a shallow copy": (
        lambda m: _on_the_model_itself(copy.copy(m)),
        "it changes `m.blocks.0.attn.W_Q`, which it was given",
    ),
    "the model itself": (lambda m: m, "it returns the very model that it was given"),
    "nothing": (copy.deepcopy, "the scores are still divided"),
    "queries and keys": (lambda m: _rescaled(m, names=("W_Q", "W_K")), "with d_head = 4"),
    "values too": (lambda m: _rescaled(m, names=("W_Q", "W_V")), "with d_head = 4"),
    "outputs too": (lambda m: _rescaled(m, names=("W_Q", "W_O")), "with d_head = 4"),
    "values": (lambda m: _rescaled(m, names=("W_V",)), "the scores are still divided"),
    "the first layer only": (lambda m: _rescaled(m, layers=slice(0, 1)), "layer 0 is right"),
    "the last layer only": (lambda m: _rescaled(m, layers=slice(-1, None)), "the scores are still divided"),
    "divided again": (lambda m: _rescaled(m, lambda cfg: cfg.d_head**-0.5), "with d_head = 4"),
    "d_head": (lambda m: _rescaled(m, lambda cfg: cfg.d_head), "with d_head = 4"),
    "d_model": (lambda m: _rescaled(m, lambda cfg: cfg.d_model**0.5), "with d_head = 4"),
    "twice, whatever the width": (lambda m: _rescaled(m, lambda cfg: 2.0), "with d_head = 5"),
    "a state dict": (lambda m: _rescaled(m).state_dict(), "it should return a model"),
}


@exercise
def attention_by_gap(answer: Answer) -> None:
    """`attention_by_gap(model, head, source, dest, fillers) → [gap]`: attention to a source that moves away."""
    model, fillers = tiny_model(0.7), torch.tensor([[3, 4, 5, 6], [7, 8, 6, 3]])

    def measured(head: int, source: int = 1, dest: int = 2, fillers: Tensor = fillers) -> Tensor:
        shape, means = (fillers.shape[1] + 1,), "[gap], from 0 to the number of fillers"
        return tensor(answer(model, head, source, dest, fillers), shape, means)

    results = [measured(head) for head in (0, 1)]
    expected = _by_gap(model, 0, 1, 2, fillers)
    demand(
        not close(results[0], 0 * expected),
        "this attention is 0: the destination, the last token, looks at the source; nothing looks ahead.",
    )
    demand(not close(results[0], results[1]), "two heads give the same numbers: use the head that was asked for.")
    demand(all(((r >= 0) & (r <= 1)).all() for r in results), "attention lies between 0 and 1.")
    demand(
        close(results[0][0], expected[0]),
        "with no filler the context is start token, source, destination; read the attention from the last position to "
        "position 1.",
    )
    same = measured(0, fillers=fillers[:1].expand(2, 4))
    swapped = measured(0, fillers=fillers.flip(0))
    demand(close(swapped, results[0]), "the order of the rows of fillers should not matter: average over all of them.")
    demand(not close(same, results[0]), "the second row of fillers makes no difference: average over all rows.")
    demand(close(results[0], expected), "at gap g, the first g fillers of each row stand between the two.")
    for head, source, dest, given in ((2, 9, 11, [[12], [5], [7]]), (1, 4, 4, [[1, 2, 3, 4, 5, 6]])):
        fillers = torch.tensor(given)
        demand(
            close(measured(head, source, dest, fillers), _by_gap(model, head, source, dest, fillers)),
            f"it fails for {len(given)} rows of {len(given[0])} fillers, source {source} and destination {dest}.",
        )


def _by_gap(
    model: HookedTransformer,
    head: int,
    source: int,
    dest: int,
    fillers: Tensor,
    *,
    build: Callable[..., list[int]] | None = None,
    read: tuple[int, int] = (-1, 1),
    of: Callable[[Tensor], Tensor] = torch.mean,
    start: int = 0,
) -> Tensor:
    found = []
    for gap in range(start, fillers.shape[1] + 1):
        plain = [[0, source, *row[:gap], dest] for row in fillers.tolist()]
        rows = [build(row, gap, source, dest) for row in fillers.tolist()] if build else plain
        found.append(of(heads.patterns(model, torch.tensor(rows))[0, head, :, read[0], read[1]]))
    return torch.stack(found)


def _changing_fillers(model: HookedTransformer, head: int, source: int, dest: int, fillers: Tensor) -> Tensor:
    found = _by_gap(model, head, source, dest, fillers)
    fillers[:, -1] = dest
    return found


def _with_a_hook(model: HookedTransformer, head: int, source: int, dest: int, fillers: Tensor) -> Tensor:
    model.add_hook("blocks.0.attn.hook_pattern", lambda pattern, hook: pattern)
    return _by_gap(model, head, source, dest, fillers)


attention_by_gap.mistakes = {
    "read at the start token": (lambda *a: _by_gap(*a, read=(-1, 0)), "with no filler the context is start token"),
    "read from the source": (lambda *a: _by_gap(*a, read=(1, -1)), "this attention is 0"),
    "read at the token before": (lambda *a: _by_gap(*a, read=(-1, -2)), "at gap g, the first g fillers of each"),
    "no start token": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [s, *r[:g], d], read=(-1, 0)),
        "with no filler the context is start token",
    ),
    "one row": (lambda *a: _by_gap(*a, of=lambda entries: entries[0]), "the order of the rows of fillers should not"),
    "the largest": (lambda *a: _by_gap(*a, of=torch.max), "at gap g, the first g fillers of each"),
    "summed": (lambda *a: _by_gap(*a, of=torch.sum), "attention lies between 0 and 1"),
    "gap 0 left out": (lambda *a: _by_gap(*a, start=1), "the result has shape [4]"),
    "backwards": (lambda *a: _by_gap(*a).flip(0), "with no filler the context is start token"),
    "the last fillers": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [0, s, *r[len(r) - g :], d]),
        "at gap g, the first g fillers of each",
    ),
    "fillers in front": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [0, *r[:g], s, d]),
        "at gap g, the first g fillers of each",
    ),
    "the first filler again and again": (
        lambda *a: _by_gap(*a, build=lambda r, g, s, d: [0, s, *([r[0]] * g), d]),
        "at gap g, the first g fillers of each",
    ),
    "source and destination exchanged": (
        lambda m, h, s, d, f: _by_gap(m, h, d, s, f),
        "with no filler the context is start token",
    ),
    "always the first head": (lambda m, h, s, d, f: _by_gap(m, 0, s, d, f), "two heads give the same numbers"),
    "the fillers changed": (_changing_fillers, "it changes `fillers`, which it was given"),
    "a hook left": (_with_a_hook, "it leaves a hook on `model`"),
}


@exercise
def copier(answer: Answer) -> None:
    """`copier(n) → [n, n]`: every token raises itself most, and yet an eigenvalue is negative."""
    for n in (4, 6, 10):
        matrix = tensor(answer(n), (n, n), "[source, out]")
        diagonal = matrix.diagonal()
        demand((diagonal > 0).all(), "a token lowers its own logit: every entry on the diagonal should be above 0.")
        others = matrix.masked_fill(torch.eye(n) > 0, -math.inf).amax(1)
        demand(
            (diagonal > others + 1e-6).all(),
            "some token raises another one as much as itself: each row should be largest on the diagonal.",
        )
        least = _least_eigenvalue(matrix)
        demand(least < -1e-6, f"all eigenvalues have a real part of {least:.2f} or more; one should be negative.")
        least = _least_eigenvalue(matrix - matrix.mean(1, keepdim=True))
        demand(
            least < -1e-4 * matrix.abs().max().item(),  # centring leaves one of 0, but for rounding
            "take each row's mean away, which no softmax sees, and no eigenvalue is negative: yours belongs to the "
            "direction in which all logits rise together.",
        )


def _least_eigenvalue(matrix: Tensor) -> float:
    return torch.linalg.eigvals(matrix.double()).real.min().item()


def _signs(n: int, off: float) -> Tensor:
    v = torch.ones(n)
    v[: n // 2] = -1
    return off * torch.outer(v, v)


copier.mistakes = {
    "the identity": (lambda n: torch.eye(n), "all eigenvalues have a real part of 1.00 or"),
    "minus the identity": (lambda n: -torch.eye(n), "a token lowers its own logit"),
    "zeros": (lambda n: torch.zeros(n, n), "a token lowers its own logit"),
    "positive diagonal only": (
        lambda n: 2 * torch.ones(n, n) - torch.eye(n),
        "some token raises another one as much as itself",
    ),
    "all alike": (lambda n: torch.full((n, n), 0.9).fill_diagonal_(1.0), "all eigenvalues have a real part of 0.10 or"),
    "the constant direction": (lambda n: -0.9 * torch.ones(n, n) + 1.9 * torch.eye(n), "take each row's mean away"),
    "off the diagonal too weak": (
        lambda n: _signs(n, -0.1).fill_diagonal_(1.0),
        "all eigenvalues have a real part of 0.70 or",
    ),
    "the other sign": (lambda n: _signs(n, 0.9).fill_diagonal_(1.0), "all eigenvalues have a real part of 0.10 or"),
    "as large as itself": (
        lambda n: _signs(n, -1.0).fill_diagonal_(1.0),
        "some token raises another one as much as itself",
    ),
    "neighbours in a ring": (
        lambda n: torch.eye(n) + 0.9 * torch.eye(n).roll(1, 0),
        "all eigenvalues have a real part of 0.10 or",
    ),
    "four tokens always": (lambda n: _signs(4, -0.9).fill_diagonal_(1.0), "the result has shape [4"),
    "weaker for more tokens": (
        lambda n: _signs(n, -0.9 if n < 8 else -0.05).fill_diagonal_(1.0),
        "all eigenvalues have a real part of 0.55 or",
    ),
    "not a number": (lambda n: torch.full((n, n), math.nan), "the result holds values that are infinite or not"),
    "random": (lambda n: torch.randn(n, n, generator=torch.Generator().manual_seed(1)), "a token lowers its own logit"),
}


@exercise
def path_patched(answer: Answer) -> None:
    """`path_patched(model, clean, other, writer, reader, door) → logits`: one path gets what it has on another text."""
    model = tiny_model()
    clean = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 3, 9, 9, 1, 2, 8]])
    other = torch.tensor([[0, 8, 7, 13, 4, 11, 6], [0, 2, 14, 9, 17, 2, 5]])
    plain = model(clean)

    def found(*arguments: Any) -> Tensor:
        return tensor(answer(model, *arguments), (2, 7, 20), "[batch, pos, d_vocab], logits")

    same = found(clean, clean, 1, 2, "k")
    demand(close(same, plain), "with the clean text in the place of the other one, nothing should change.")
    logits = found(clean, other, 1, 2, "k")
    demand(not close(logits, plain), "nothing has changed: does the hook return what it changed?")
    wrong = {
        "these are the logits of the other text: run the clean one, and change one path in it.": model(other),
        "the writer's output has changed for all that read it; only the reader's keys should see the other text.": (
            _writer_replaced(model, clean, other, 1)
        ),
        "all heads of layer 1 read the other text; only `reader` should.": _patched(model, clean, other, 1, None, "k"),
        "the change goes into the keys of all heads of layer 1; only `reader`'s, x[:, :, reader], should get it.": (
            _patched(model, clean, other, 1, 2, "k", everywhere=True)
        ),
        "writer and reader are exchanged.": _patched(model, clean, other, 2, 1, "k"),
        "the texts are exchanged: the clean one is run, and `other` goes down the path.": (
            _patched(model, other, clean, 1, 2, "k")
        ),
        "what the writer says on the other text has been added; what it says on the clean one is still there.": (
            _patched(model, clean, other, 1, 2, "k", change=_kept)
        ),
        "the change has its sign turned round; it is what `writer` says on `other` less what it says on `clean`.": (
            _patched(model, clean, other, 1, 2, "k", change=torch.rsub)
        ),
        "the reader's keys come from the other text as a whole; only what `writer` puts into them should.": (
            _door_replaced(model, clean, other, 2, "k")
        ),
        "the whole layer 0 has changed in the keys, not `writer` alone.": _patched(model, clean, other, None, 2, "k"),
    }
    for sentence, logits_then in wrong.items():
        demand(not close(logits, logits_then), sentence)
    for door in "kqv":
        right = _patched(model, clean, other, 1, 2, door)
        demand(close(found(clean, other, 1, 2, door), right), f'with door "{door}" these are not the patched logits.')
    right = _patched(model, clean, other, 2, 0, "v")
    demand(close(found(clean, other, 2, 0, "v"), right), "it fails for other heads: use `writer` and `reader`.")


def _patched(
    model: HookedTransformer,
    clean: Tensor,
    other: Tensor,
    writer: int | None,
    reader: int | None,
    door: str,
    leave: bool = False,
    everywhere: bool = False,
    change: Callable[[Tensor, Tensor], Tensor] = torch.sub,
) -> Tensor:
    """The path patched; None: all heads, `everywhere`: all get what `reader` reads, `change`: of new and old output."""
    z, new = (model.run_with_cache(tokens)[1]["z", 0] for tokens in (clean, other))  # [batch, pos, head, d_head]
    which = slice(None) if writer is None else [writer]
    written = torch.einsum("bphd,hdm->bpm", change(new, z)[:, :, which], model.W_O[0, which])
    readers = slice(None) if reader is None else [reader]
    matrix = {"q": model.W_Q, "k": model.W_K, "v": model.W_V}[door][1, readers]

    def patch(x: Tensor, *, hook: Any) -> Tensor:
        x = x.clone()
        x[:, :, slice(None) if everywhere else readers] += torch.einsum("bpm,hmd->bphd", written, matrix)
        return x

    hooks: list[Any] = [(f"blocks.1.attn.hook_{door}", patch)]
    if leave:
        model.add_hook(*hooks[0])
        return model(clean)
    return model.run_with_hooks(clean, fwd_hooks=hooks)


def _kept(new: Tensor, old: Tensor) -> Tensor:
    """The clean output stays, and the other one comes on top."""
    return new


def _writer_replaced(model: HookedTransformer, clean: Tensor, other: Tensor, writer: int) -> Tensor:
    new = model.run_with_cache(other)[1]["z", 0]

    def overwrite(z: Tensor, *, hook: Any) -> Tensor:
        z = z.clone()
        z[:, :, writer] = new[:, :, writer]
        return z

    return model.run_with_hooks(clean, fwd_hooks=[("blocks.0.attn.hook_z", overwrite)])


def _door_replaced(model: HookedTransformer, clean: Tensor, other: Tensor, reader: int, door: str) -> Tensor:
    new = model.run_with_cache(other)[1][door, 1]

    def overwrite(x: Tensor, *, hook: Any) -> Tensor:
        x = x.clone()
        x[:, :, reader] = new[:, :, reader]
        return x

    return model.run_with_hooks(clean, fwd_hooks=[(f"blocks.1.attn.hook_{door}", overwrite)])


path_patched.mistakes = {
    "the whole door": (lambda m, c, o, w, r, d: _door_replaced(m, c, o, r, d), "come from the other text as a whole"),
    "the clean run": (lambda m, c, o, w, r, d: m(c), "nothing has changed"),
    "the other run": (lambda m, c, o, w, r, d: m(o), "these are the logits of the other text"),
    "the writer everywhere": (lambda m, c, o, w, r, d: _writer_replaced(m, c, o, w), "the writer's output has changed"),
    "all readers": (lambda m, c, o, w, r, d: _patched(m, c, o, w, None, d), "all heads of layer 1 read"),
    "into all readers": (
        lambda m, c, o, w, r, d: _patched(m, c, o, w, r, d, everywhere=True),
        "the change goes into the keys of all heads",
    ),
    "heads exchanged": (lambda m, c, o, w, r, d: _patched(m, c, o, r, w, d), "writer and reader are exchanged"),
    "texts exchanged": (lambda m, c, o, w, r, d: _patched(m, o, c, w, r, d), "the texts are exchanged"),
    "added": (lambda m, c, o, w, r, d: _patched(m, c, o, w, r, d, change=_kept), "with the clean text in the place"),
    "turned": (lambda m, c, o, w, r, d: _patched(m, c, o, w, r, d, change=torch.rsub), "its sign turned round"),
    "all writers": (lambda m, c, o, w, r, d: _patched(m, c, o, None, r, d), "the whole layer 0"),
    "always the keys": (lambda m, c, o, w, r, d: _patched(m, c, o, w, r, "k"), 'with door "q"'),
    "head 1 writes": (lambda m, c, o, w, r, d: _patched(m, c, o, 1, r, d), "it fails for other heads"),
    "head 2 reads": (lambda m, c, o, w, r, d: _patched(m, c, o, w, 2, d), "it fails for other heads"),
    "a hook left behind": (
        lambda m, c, o, w, r, d: _patched(m, c, o, w, r, d, leave=True),
        "it leaves a hook on `m`",
    ),
    "log-probabilities": (
        lambda m, c, o, w, r, d: _patched(m, c, o, w, r, d).log_softmax(-1),
        "with the clean text in the place",
    ),
    "one text": (lambda m, c, o, w, r, d: _patched(m, c[:1], o[:1], w, r, d), "[batch, pos, d_vocab], logits"),
}
