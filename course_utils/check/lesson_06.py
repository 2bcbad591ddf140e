"""Checks of lesson 06, two layers: each exercise, then its typical mistakes with the sentence each must get."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer

from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random, tiny_model
from course_utils.check.questions import Wrong, close, demand, number, tensor


def _causal(n: int, seed: int) -> Tensor:
    """An attention pattern, [n, n]."""
    return random(n, n, seed=seed).masked_fill(torch.ones(n, n).triu(1).bool(), -9e9).softmax(1)


@exercise
def virtual_head(answer: Answer) -> None:
    """`virtual_head(x, A1, OV1, A2, OV2) → [pos, d_model]`: what a head of a head moves."""
    x, identity = random(6, 5), torch.eye(5)
    before = torch.eye(6)[[0, 0, 1, 2, 3, 4]]  # looks at the token before
    back = torch.eye(6)[[0, 0, 1, 1, 1, 3]]  # looks back by another number of steps at each position
    means = "[pos, d_model]"
    for which, OV1, OV2 in (("first", 0 * identity, identity), ("second", identity, 0 * identity)):
        demand(
            close(tensor(answer(x, before, OV1, back, OV2), (6, 5), means), 0 * x),
            f"when the {which} head writes nothing, a virtual head has nothing to move, but here something arrives.",
        )
    moved = tensor(answer(x, before, identity, back, identity), (6, 5), means)
    path = "head 2 looks from position 5 to 3, head 1 from 3 to 2: what stood at 2 should arrive at 5"
    for guess, why in (
        (before @ back, "yours goes through head 1's pattern first, on the way back from 5."),
        (back, "yours leaves out the pattern of head 1."),
        (before, "yours leaves out the pattern of head 2."),
        (before.T @ back.T, "a pattern has the destination on its rows, and seems transposed in yours."),
        (back.T @ before.T, "a pattern has the destination on its rows, and seems transposed in yours."),
    ):
        demand(not close(moved, guess @ x), f"{path}; {why}")
    demand(close(moved[5], x[2]), f"{path}.")
    demand(close(moved, back @ before @ x), "one position gets what it should, others do not: go on row by row.")
    OV1, OV2 = random(5, 5, seed=1), random(5, 5, seed=2)
    here = torch.eye(6)
    alone = tensor(answer(x, here, OV1, here, identity), (6, 5), means)
    demand(
        close(alone, x @ OV1), "if nothing is moved and OV2 changes nothing, x OV1 should be left: rows times matrix."
    )
    alone = tensor(answer(x, here, identity, here, OV2), (6, 5), means)
    demand(
        close(alone, x @ OV2), "if nothing is moved and OV1 changes nothing, x OV2 should be left: rows times matrix."
    )
    both = tensor(answer(x, here, OV1, here, OV2), (6, 5), means)
    demand(not close(both, x @ OV2 @ OV1), "in row form the circuit that acts first stands next to x.")
    demand(close(both, x @ OV1 @ OV2), "if nothing is moved, the two circuits should act one after the other on x.")
    for n, d in ((6, 5), (4, 7), (1, 3)):
        x, OV1, OV2 = random(n, d), random(d, d, seed=1), random(d, d, seed=2)
        A1, A2 = _causal(n, 3), _causal(n, 4)
        demand(
            close(tensor(answer(x, A1, OV1, A2, OV2), (n, d), means), A2 @ A1 @ x @ OV1 @ OV2),
            f"where heads attend to several positions, the numbers are wrong ({n} positions, d_model {d}): every "
            "source counts, by its weight.",
        )


def _overwriting(x: Tensor, A1: Tensor, OV1: Tensor, A2: Tensor, OV2: Tensor) -> Tensor:
    x.copy_(A1 @ x @ OV1)
    return A2 @ x @ OV2


def _hard(A: Tensor) -> Tensor:
    return torch.eye(len(A))[A.argmax(1)]


virtual_head.mistakes = {
    "patterns in the wrong order": (
        lambda x, A1, OV1, A2, OV2: A1 @ A2 @ x @ OV1 @ OV2,
        "goes through head 1's pattern first",
    ),
    "circuits in the wrong order": (
        lambda x, A1, OV1, A2, OV2: A2 @ A1 @ x @ OV2 @ OV1,
        "the circuit that acts first stands next to x",
    ),
    "both in the wrong order": (
        lambda x, A1, OV1, A2, OV2: A1 @ A2 @ x @ OV2 @ OV1,
        "goes through head 1's pattern first",
    ),
    "patterns transposed": (
        lambda x, A1, OV1, A2, OV2: A2.T @ A1.T @ x @ OV1 @ OV2,
        "a pattern has the destination on its rows",
    ),
    "the product transposed": (
        lambda x, A1, OV1, A2, OV2: (A2 @ A1).T @ x @ OV1 @ OV2,
        "a pattern has the destination on its rows",
    ),
    "columns": (lambda x, A1, OV1, A2, OV2: A2 @ A1 @ x @ OV1.T @ OV2.T, "x OV1 should be left: rows times matrix"),
    "the second circuit in columns": (
        lambda x, A1, OV1, A2, OV2: A2 @ A1 @ x @ OV1 @ OV2.T,
        "x OV2 should be left: rows times matrix",
    ),
    "the second head alone": (lambda x, A1, OV1, A2, OV2: A2 @ x @ OV2, "when the first head writes nothing"),
    "the first head alone": (lambda x, A1, OV1, A2, OV2: A1 @ x @ OV1, "when the second head writes nothing"),
    "with the direct path": (
        lambda x, A1, OV1, A2, OV2: A2 @ (x + A1 @ x @ OV1) @ OV2,
        "when the first head writes nothing",
    ),
    "with what the first head writes": (
        lambda x, A1, OV1, A2, OV2: (w := A1 @ x @ OV1) + A2 @ w @ OV2,
        "when the second head writes nothing",
    ),
    "the sum of two heads": (
        lambda x, A1, OV1, A2, OV2: A1 @ x @ OV1 + A2 @ x @ OV2,
        "when the first head writes nothing",
    ),
    "the first pattern left out": (
        lambda x, A1, OV1, A2, OV2: A2 @ x @ OV1 @ OV2,
        "leaves out the pattern of head 1",
    ),
    "the second pattern left out": (
        lambda x, A1, OV1, A2, OV2: A1 @ x @ OV1 @ OV2,
        "leaves out the pattern of head 2",
    ),
    "patterns multiplied entry by entry": (
        lambda x, A1, OV1, A2, OV2: (A2 * A1) @ x @ OV1 @ OV2,
        "what stood at 2 should arrive at 5",
    ),
    "circuits multiplied entry by entry": (
        lambda x, A1, OV1, A2, OV2: A2 @ A1 @ x @ (OV1 * OV2),
        "x OV1 should be left",
    ),
    "one pattern twice": (
        lambda x, A1, OV1, A2, OV2: A2 @ A2 @ x @ OV1 @ OV2,
        "what stood at 2 should arrive at 5",
    ),
    "only the strongest source": (
        lambda x, A1, OV1, A2, OV2: _hard(A2) @ _hard(A1) @ x @ OV1 @ OV2,
        "every source counts, by its weight",
    ),
    "five wide": (
        lambda x, A1, OV1, A2, OV2: torch.cat([(A2 @ A1 @ x @ OV1 @ OV2)[:, :5], 0 * x[:, 5:]], 1),
        "(4 positions, d_model 7)",
    ),
    "x changed": (_overwriting, "it changes `x`, which it was given"),
}


class _Stacking(ActivationCache):
    """A cache that stacks what heads wrote without keeping it, so that the guard finds it as it was."""

    def stack_head_results(self, *args: Any, **kwargs: Any) -> Any:
        return ActivationCache(dict(self.cache_dict), self.model).stack_head_results(*args, **kwargs)


def _cached(model: HookedTransformer, tokens: Tensor) -> _Stacking:
    return _Stacking(model.run_with_cache(tokens)[1].cache_dict, model)


@exercise
def qk_terms(answer: Answer) -> None:
    """`qk_terms(cache, head) → {(q_source, k_source): [n, n]}`: the scores of a layer-1 head, source by source."""
    model = tiny_model()
    cache = _cached(model, torch.tensor([[0, 7, 3, 11, 3, 19, 5]]))
    terms = _read_terms(answer(cache, 1), 3, 7)
    sources = _sources(cache)
    future = torch.ones(7, 7).triu(1).bool()
    masked = all(not term[future].any() for term in terms.values())
    demand(not masked, "all terms are 0 above the diagonal: they are asked for before the mask.")
    rows = all(close(term.sum(1), torch.ones(7)) for term in terms.values())
    demand(not rows, "each term's rows sum to 1, as probabilities do: scores come before the softmax.")

    def fits(**changes: Any) -> bool:
        guess = _terms(cache, **({"head": 1} | changes))
        return all(close(term, guess[pair]) for pair, term in terms.items())

    right = _terms(cache, 1)
    ratio = (terms["embed", "embed"][2, 1] / right["embed", "embed"][2, 1]).item()
    scaled = all(close(term, ratio * right[pair]) for pair, term in terms.items())
    demand(
        close(ratio, 1) or not scaled,
        f"every term is {ratio:.2f} times what it should be: scores are divided by √d_head, once.",
    )
    demand(not fits(layer=0), "these are the terms of a head in layer 0: the head is in layer 1.")
    for head in (0, 2):
        demand(not fits(head=head), f"head 1 was asked for, and these are the terms of head {head}.")
    swapped = {pair: right[pair[::-1]] for pair in right}
    demand(
        not all(close(term, swapped[pair]) for pair, term in terms.items()),
        "the first name of a key should be the query's source.",
    )
    demand(
        not all(close(term, right[pair].T) for pair, term in terms.items()),
        "the destination, where the query is, should be on the rows.",
    )
    demand(
        not all(close(term, swapped[pair].T) for pair, term in terms.items()),
        "queries and keys have changed places: W_Q reads at the destination, W_K at the source.",
    )
    placed = {name: x + sources["pos"] * (name != "pos") for name, x in sources.items()}
    demand(
        not close(terms["embed", "embed"], _terms(cache, 1, sources=placed)["embed", "embed"]),
        "`embed` holds the positions as well, which are a source of their own: cache['embed'] is without them.",
    )
    _sum_to_scores(terms, right, sources, cache["attn_scores", 1][0, 1], future)
    other = tiny_model(n_heads=5, d_head=9, d_model=8, n_ctx=11, d_vocab=15)
    cache = _cached(other, torch.tensor([[0, 14, 2, 2, 9, 6]]))
    for head in (0, 4):
        terms, right = _read_terms(answer(cache, head), 5, 6), _terms(cache, head)
        demand(
            all(close(term, right[pair]) for pair, term in terms.items()),
            f"for a model of other sizes, 5 heads of d_head 9, the terms of head {head} are wrong.",
        )


def _sum_to_scores(
    terms: dict[tuple[str, str], Tensor],
    right: dict[tuple[str, str], Tensor],
    sources: dict[str, Tensor],
    scores: Tensor,
    future: Tensor,
) -> None:
    """Every source contributes, is what its name says, and all together they make the scores."""
    for side, what in enumerate(("queries", "keys")):
        silent = [name for name in sources if not any(term.any() for pair, term in terms.items() if pair[side] == name)]
        demand(not silent, f"the source '{silent[0] if silent else ''}' contributes nothing to the {what}.")
    wrong = [pair for pair in terms if not close(terms[pair], right[pair])]
    if ("embed", "embed") not in wrong:
        odd = [name for name in sources if all(pair in wrong for pair in right if name in pair)]
        demand(
            not odd,
            f"the source '{odd[0] if odd else ''}' is not what its name says: 'embed' with itself is right, and no "
            "term of this source is.",
        )
    gap = (sum(terms.values(), torch.zeros(7, 7)) - scores)[~future].abs().max()
    demand(gap < 1e-3, f"the terms should sum to the attention scores, and are up to {gap:.2f} away from them.")
    demand(not wrong, f"the terms sum to the scores, but {wrong[:1]} is not what these two sources contribute.")


def _read_terms(result: object, n_heads: int, n: int) -> dict[tuple[str, str], Tensor]:
    """The terms that were returned, all keys there and no others."""
    if not isinstance(result, dict):
        raise Wrong(f"it should return a dictionary, not {type(result).__name__}.")
    names = ["embed", "pos", *(f"0.{head}" for head in range(n_heads))]
    pairs = [(q, k) for q in names for k in names]
    missing, extra = [pair for pair in pairs if pair not in result], [key for key in result if key not in pairs]
    if missing:
        had = f" You have {extra[0]!r}." if extra and len(repr(extra[0])) < 40 else ""
        raise Wrong(
            f"{len(missing)} of {len(pairs)} keys are missing, such as {missing[0]}; {n_heads} heads make "
            f"{len(names)} sources.{had}"
        )
    demand(not extra, f"there are keys that should not be there, such as {extra[0] if extra else ''}.")
    for pair in pairs:
        if isinstance(result[pair], Tensor):
            demand(not result[pair].isneginf().any(), "there is −∞ in the terms: they are asked for before the mask.")
    return {pair: tensor(result[pair], (n, n), "[dest, src]") for pair in pairs}


def _sources(cache: ActivationCache) -> dict[str, Tensor]:
    """What layer 1 reads, by who wrote it; each [pos, d_model]."""
    model, x = cache.model, cache["embed"][0]
    heads = {f"0.{h}": cache["z", 0][0, :, h] @ model.W_O[0, h] for h in range(model.cfg.n_heads)}
    return {"embed": x, "pos": model.W_pos[: len(x)]} | heads


def _terms(
    cache: ActivationCache, head: int, layer: int = 1, sources: dict[str, Tensor] | None = None
) -> dict[tuple[str, str], Tensor]:
    model = cache.model
    sources = sources or _sources(cache)
    q = {name: x @ model.W_Q[layer, head] / model.cfg.d_head**0.5 for name, x in sources.items()}
    k = {name: x @ model.W_K[layer, head] for name, x in sources.items()}
    return {(a, b): q[a] @ k[b].T for a in sources for b in sources}


def _each(change: Any) -> Answer:
    """All terms right, but for `change` in each; it is given the pair of names and the term."""
    return lambda cache, head: {pair: change(pair, term) for pair, term in _terms(cache, head).items()}


def _renamed(change: Any) -> Answer:
    """All terms right, some under other names or left out (None)."""
    return lambda cache, head: {
        change(*pair): term for pair, term in _terms(cache, head).items() if change(*pair) is not None
    }


def _from(change: Any) -> Answer:
    """Right terms of sources that are changed."""
    return lambda cache, head: _terms(cache, head, sources=change(cache, _sources(cache)))


def _placed_sources(cache: ActivationCache, sources: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x + sources["pos"] * (name != "pos") for name, x in sources.items()}


def _placed_embed(cache: ActivationCache, sources: dict[str, Tensor]) -> dict[str, Tensor]:
    return sources | {"embed": sources["embed"] + sources["pos"]}


def _one_W_O(cache: ActivationCache, sources: dict[str, Tensor]) -> dict[str, Tensor]:
    heads = {f"0.{h}": cache["z", 0][0, :, h] @ cache.model.W_O[0, 0] for h in range(cache.model.cfg.n_heads)}
    return sources | heads


def _values_for_z(cache: ActivationCache, sources: dict[str, Tensor]) -> dict[str, Tensor]:
    model = cache.model
    return sources | {f"0.{h}": cache["v", 0][0, :, h] @ model.W_O[0, h] for h in range(model.cfg.n_heads)}


def _moved(cache: ActivationCache, head: int) -> dict[tuple[str, str], Tensor]:
    right = _terms(cache, head)
    right["embed", "pos"], right["pos", "embed"] = right["pos", "embed"], right["embed", "pos"]
    return right


def _three_heads(cache: ActivationCache, head: int) -> dict[tuple[str, str], Tensor]:
    return _terms(cache, head, sources=dict(list(_sources(cache).items())[:5]))


def _adding_pos(cache: ActivationCache, head: int) -> dict[tuple[str, str], Tensor]:
    right = _terms(cache, head)
    cache["embed"].add_(cache.model.W_pos[: cache["embed"].shape[1]])
    return right


qk_terms.mistakes = {
    "queries and keys swapped": (
        lambda cache, head: {(b, a): t.T for (a, b), t in _terms(cache, head).items()},
        "W_Q reads at the destination, W_K at the source",
    ),
    "names swapped": (_renamed(lambda a, b: (b, a)), "the first name of a key should be the query's source"),
    "transposed": (_each(lambda pair, t: t.T), "should be on the rows"),
    "positions omitted": (_renamed(lambda a, b: None if "pos" in (a, b) else (a, b)), "9 of 25 keys are missing"),
    "positions zero": (
        _from(lambda cache, s: s | {"pos": 0 * s["pos"]}),
        "the source 'pos' contributes nothing to the queries",
    ),
    "positions in the keys only": (
        _each(lambda pair, t: t * (pair[0] != "pos")),
        "the source 'pos' contributes nothing to the queries",
    ),
    "positions in every source": (_from(_placed_sources), "`embed` holds the positions as well"),
    "positions in the embedding": (_from(_placed_embed), "`embed` holds the positions as well"),
    "not divided": (_each(lambda pair, t: 2 * t), "every term is 2.00 times what it should be"),
    "divided by d_head": (_each(lambda pair, t: t / 2), "every term is 0.50 times what it should be"),
    "divided by 2": (
        lambda cache, head: {p: t * cache.model.cfg.d_head**0.5 / 2 for p, t in _terms(cache, head).items()},
        "5 heads of d_head 9, the terms of head 0",
    ),
    "divided by √d_model": (
        lambda cache, head: {p: t * (4 / 10) ** 0.5 for p, t in _terms(cache, head).items()},
        "every term is 0.63 times what it should be",
    ),
    "masked": (_each(lambda pair, t: t.tril()), "0 above the diagonal: they are asked for before the mask"),
    "masked by −∞": (
        _each(lambda pair, t: t.masked_fill(torch.ones_like(t).triu(1).bool(), -torch.inf)),
        "there is −∞ in the terms",
    ),
    "a softmax of each": (_each(lambda pair, t: t.softmax(1)), "scores come before the softmax"),
    "the head of layer 0": (lambda cache, head: _terms(cache, head, layer=0), "the head is in layer 1"),
    "one W_O for all heads": (_from(_one_W_O), "the source '0.1' is not what its name says"),
    "values that were not moved": (_from(_values_for_z), "the source '0.0' is not what its name says"),
    "another head": (lambda cache, head: _terms(cache, 0), "these are the terms of head 0"),
    "head 1 always": (lambda cache, head: _terms(cache, 1), "the terms of head 0 are wrong"),
    "three heads": (_three_heads, "24 of 49 keys are missing"),
    "one term": (_renamed(lambda a, b: (a, b) if a == b == "0.0" else None), "24 of 25 keys are missing"),
    "names of one string": (_renamed(lambda a, b: f"{a}|{b}"), "You have 'embed|embed'"),
    "heads numbered from 1": (
        _renamed(lambda a, b: tuple(f"0.{int(s[2:]) + 1}" if s[0] == "0" else s for s in (a, b))),
        "such as ('embed', '0.0'); 3 heads make 5 sources",
    ),
    "the whole stream as well": (
        _from(lambda cache, s: s | {"all": sum(s.values())}),
        "there are keys that should not be there",
    ),
    "two terms changed places": (_moved, "is not what these two sources contribute"),
    "only the sum": (lambda cache, head: sum(_terms(cache, head).values()), "it should return a dictionary, not"),
    "the cache changed": (_adding_pos, "it changes `cache.cache_dict['hook_embed']`"),
}


@exercise
def composition(answer: Answer) -> None:
    """`composition(OV1, QK2, OV2, mode) → float`: how much of what head 1 writes, head 2 reads."""
    OV1, QK2, OV2 = (scale * random(9, 2, seed=s) @ random(2, 9, seed=s + 3) for s, scale in enumerate((1, 2, 0.3)))
    for mode, second in _reading(QK2, OV2).items():
        value, right = number(answer(OV1, QK2, OV2, mode)), _ratio(OV1, second)
        for guess, sentence in (
            ((OV1 @ second).norm(), "that is the norm of the product, not yet divided by the norms of its factors."),
            (_ratio(second, OV1), "that is the product in the other order: head 1 writes first, so OV1 stands left."),
            (right**2, "that is the square of the score."),
            (right - 1 / 3, "the chance level is not subtracted: it is what you compare the score with."),
            (right * 3, "the score is not divided by the chance level: that is what you compare it with."),
            (_ratio(OV1, second, 2), "that is the ratio of largest singular values; take Frobenius norms."),
            (_ratio(OV1, second, "nuc"), "that is the ratio of sums of singular values; take Frobenius norms."),
        ):
            demand(not close(value, guess), f"in mode {mode!r}, {sentence}")
        for which, circuits in (
            ("OV1", (3 * OV1, QK2, OV2)),
            ("QK2", (OV1, 5 * QK2, OV2)),
            ("OV2", (OV1, QK2, 7 * OV2)),
        ):
            demand(
                close(number(answer(*circuits, mode)), value),
                f"in mode {mode!r}, scaling {which} should change nothing, and does: divide by the norms of the two "
                "circuits that you multiply.",
            )
        idle = "QK2" if mode == "V" else "OV2"
        circuits = (OV1, QK2.flip(0), OV2) if mode == "V" else (OV1, QK2, OV2.flip(0))
        demand(
            close(number(answer(*circuits, mode)), value),
            f"in mode {mode!r}, another {idle} should change nothing, and does: what does head 2 read in this mode?",
        )
    for mode, part in (("Q", "queries2"), ("K", "keys2"), ("V", "reads2")):
        _sees_planted(answer, mode, part)
    for d, r in ((9, 2), (16, 5)):
        OV1, QK2, OV2 = (random(d, r, seed=s) @ random(r, d, seed=s + 3) for s in range(3))
        for mode, second in _reading(QK2, OV2).items():
            value = number(answer(OV1, QK2, OV2, mode))
            demand(value <= 1, f"the score should never be above 1, and is {value:.2f}.")
            demand(
                close(value, _ratio(OV1, second)),
                f"mode {mode!r} finds the planted pairs, but {value:.3f} is not the ratio of Frobenius norms (d_model "
                f"{d}): the root of the sum of all squared entries.",
            )


def _sees_planted(answer: Answer, mode: str, part: str) -> None:
    """A mode sees the pair that was planted for it, and none that was planted for another."""
    found, chance = _planted(answer, mode, ("writes1", part)), _planted(answer, mode)
    demand(
        found > 0 and chance > 0,
        f"a ratio of norms is above 0; in mode {mode!r} yours is {min(found, chance):.3f}.",
    )
    demand(
        found > 2 * chance,
        f"head 2's {'values' if mode == 'V' else part[:-1]} read exactly what head 1 writes, and mode {mode!r} "
        "hardly sees it: which side of which circuit meets the stream?",
    )
    for other, what in (("queries2", "queries"), ("keys2", "keys"), ("reads2", "values")):
        demand(
            other == part or _planted(answer, mode, ("writes1", other)) < 2 * chance,
            f"mode {mode!r} should not react when it is head 2's {what} that read what head 1 writes.",
        )
    for other in ("queries2", "keys2", "reads2", "writes2"):
        demand(
            _planted(answer, mode, ("reads1", other)) < 2 * chance,
            f"mode {mode!r} reacts to the directions that head 1 reads: only what it writes can be read later.",
        )
    demand(
        _planted(answer, mode, ("writes1", "writes2")) < 2 * chance,
        f"mode {mode!r} reacts to both heads writing in the same directions: that is no composition.",
    )


def _reading(QK2: Tensor, OV2: Tensor) -> dict[str, Tensor]:
    return {"Q": QK2, "K": QK2.T, "V": OV2}


def _ratio(first: Tensor, second: Tensor, norm: Any = "fro") -> Tensor:
    product, a, b = (torch.linalg.matrix_norm(m, norm) for m in (first @ second, first, second))
    return product / (a * b)


def _planted(answer: Answer, mode: str, same: tuple[str, str] = ("", "")) -> float:
    """The answer for random heads, two of whose directions are made the same."""
    names = ("reads1", "writes1", "queries2", "keys2", "reads2", "writes2")
    f = {name: torch.linalg.qr(random(64, 4, seed=seed)).Q for seed, name in enumerate(names)}
    if same != ("", ""):
        f[same[1]] = f[same[0]]
    OV1, QK2, OV2 = f["reads1"] @ f["writes1"].T, f["queries2"] @ f["keys2"].T, f["reads2"] @ f["writes2"].T
    return number(answer(OV1, QK2, OV2, mode))


def _with(
    Q: Answer = lambda o, q, v: _ratio(o, q),
    K: Answer = lambda o, q, v: _ratio(o, q.T),
    V: Answer = lambda o, q, v: _ratio(o, v),
) -> Answer:
    return lambda OV1, QK2, OV2, mode: {"Q": Q, "K": K, "V": V}[mode](OV1, QK2, OV2)


def _score(o: Tensor, q: Tensor, v: Tensor, mode: str) -> Tensor:
    return _ratio(o, _reading(q, v)[mode])


def _absolute(o: Tensor, q: Tensor, v: Tensor, mode: str) -> Tensor:
    second = _reading(q, v)[mode]
    return (o @ second).abs().sum() / (o.abs().sum() * second.abs().sum())


def _entrywise(o: Tensor, q: Tensor, v: Tensor, mode: str) -> Tensor:
    second = _reading(q, v)[mode]
    return (o * second).norm() / (o.norm() * second.norm())


def _normalising(o: Tensor, q: Tensor, v: Tensor, mode: str) -> Tensor:
    o /= o.norm()
    return _score(o, q, v, mode)


composition.mistakes = {
    "Q transposed": (_with(Q=lambda o, q, v: _ratio(o, q.T)), "mode 'Q' hardly sees it"),
    "K not transposed": (_with(K=lambda o, q, v: _ratio(o, q)), "mode 'K' hardly sees it"),
    "Q and K swapped": (
        _with(Q=lambda o, q, v: _ratio(o, q.T), K=lambda o, q, v: _ratio(o, q)),
        "mode 'Q' hardly sees it",
    ),
    "V transposed": (_with(V=lambda o, q, v: _ratio(o, v.T)), "mode 'V' hardly sees it"),
    "OV1 transposed": (lambda o, q, v, mode: _score(o.T, q, v, mode), "mode 'Q' hardly sees it"),
    "everything transposed": (lambda o, q, v, mode: _score(o.T, q.T, v.T, mode), "the product in the other order"),
    "columns": (
        _with(lambda o, q, v: _ratio(q, o), lambda o, q, v: _ratio(q.T, o), lambda o, q, v: _ratio(v, o)),
        "the product in the other order",
    ),
    "V in the wrong order": (_with(V=lambda o, q, v: _ratio(v, o)), "mode 'V', that is the product in the other"),
    "Q in the wrong order": (_with(Q=lambda o, q, v: _ratio(q, o)), "mode 'Q', that is the product in the other"),
    "K in the wrong order": (_with(K=lambda o, q, v: _ratio(q.T, o)), "mode 'K', that is the product in the other"),
    "V with QK": (_with(V=lambda o, q, v: _ratio(o, q)), "in mode 'V', another QK2 should change nothing"),
    "the mode ignored": (lambda o, q, v, mode: _ratio(o, q), "in mode 'V', another QK2 should change nothing"),
    "all modes added": (
        lambda o, q, v, mode: sum(_score(o, q, v, m) for m in "QKV"),
        "in mode 'Q', another OV2 should change nothing",
    ),
    "either side": (
        _with(Q=lambda o, q, v: max(_ratio(o, q), _ratio(o, q.T))),
        "should not react when it is head 2's keys",
    ),
    "not divided": (_with(Q=lambda o, q, v: (o @ q).norm()), "in mode 'Q', that is the norm of the product"),
    "divided by one norm": (
        lambda o, q, v, mode: _score(o, q, v, mode) * o.norm(),
        "in mode 'Q', scaling OV1 should change nothing",
    ),
    "divided by another norm": (
        _with(V=lambda o, q, v: (o @ v).norm() / (o.norm() * q.norm())),
        "in mode 'V', scaling QK2 should change nothing",
    ),
    "the spectral norm": (
        lambda o, q, v, mode: _ratio(o, _reading(q, v)[mode], 2),
        "that is the ratio of largest singular values",
    ),
    "the nuclear norm": (
        lambda o, q, v, mode: _ratio(o, _reading(q, v)[mode], "nuc"),
        "that is the ratio of sums of singular values",
    ),
    "sums of absolute entries": (_absolute, "is not the ratio of Frobenius norms"),
    "squared": (lambda o, q, v, mode: _score(o, q, v, mode) ** 2, "that is the square of the score"),
    "the baseline subtracted": (
        lambda o, q, v, mode: _score(o, q, v, mode) - len(o) ** -0.5,
        "the chance level is not subtracted",
    ),
    "over the baseline": (
        lambda o, q, v, mode: _score(o, q, v, mode) * len(o) ** 0.5,
        "the score is not divided by the chance level",
    ),
    "entry by entry": (_entrywise, "mode 'Q' hardly sees it"),
    "the trace": (
        lambda o, q, v, mode: (o @ (second := _reading(q, v)[mode])).trace() / (o.norm() * second.norm()),
        "a ratio of norms is above 0",
    ),
    "all three": (
        lambda o, q, v, mode: torch.stack([_score(o, q, v, m) for m in "QKV"]),
        "it should return one number",
    ),
    "OV1 changed": (_normalising, "it changes `o`, which it was given"),
}


@exercise
def one_door(answer: Answer) -> None:
    """`one_door(W_O, door) → (W_Q, W_K, W_V)`: a later head that reads what the first writes through one door only."""
    for d_head, d_model, seed in ((3, 10, 0), (2, 9, 5), (1, 4, 8)):
        written = random(d_head, d_model, seed=seed)
        for door in DOORS:
            weights = answer(written, door)
            demand(
                isinstance(weights, tuple | list) and len(weights) == 3,
                "it should return three matrices: W_Q, W_K and W_V.",
            )
            for name, W in zip(DOORS, weights, strict=True):
                W = tensor(W, (d_model, d_head), f"W_{name} is [d_model, d_head]")
                wide = torch.linalg.matrix_rank(W, rtol=1e-3) == d_head
                demand(
                    wide,
                    f"door {door!r}: W_{name} has less than rank {d_head}: its columns should be independent, so that "
                    "no part of the head is idle.",
                )
                if name == door:
                    _reads_all(written, W, door)
                else:
                    _reads_nothing(written, W, door, name)


DOORS = ("Q", "K", "V")


def _reads_all(written: Tensor, W: Tensor, door: str) -> None:
    """Each column of W lies in the span of the rows of `written`, and every direction written arrives."""
    other = W - torch.linalg.pinv(written) @ written @ W
    demand(
        not close(W, other),
        f"door {door!r}: W_{door} reads nothing of what the first head writes, and should read it all.",
    )
    demand(
        other.norm() < 1e-3 * W.norm(),
        f"door {door!r}: W_{door} also reads directions that the first head does not write: build its columns from the "
        "rows of W_O.",
    )


def _reads_nothing(written: Tensor, W: Tensor, door: str, name: str) -> None:
    share = (written @ W).norm() / (written.norm() * W.norm())
    demand(
        share < 1e-3,
        f"door {door!r}: W_{name} should read nothing of what the first head writes, but W_O @ W_{name} is not 0: take "
        "what lies along the rows of W_O out of its columns, all of it.",
    )


def _planted_head(written: Tensor, door: str) -> tuple[Tensor, ...]:
    """As our solution, but the same at every call."""
    blind = _blind(written)
    return tuple(written.T if name == door else blind for name in DOORS)


def _blind(written: Tensor, seed: int = 11) -> Tensor:
    """[d_model, d_head], orthogonal to every row of `written`."""
    random_columns = random(*written.T.shape, seed=seed)
    return random_columns - torch.linalg.pinv(written) @ written @ random_columns


def _door(right: Any = lambda w: w.T, wrong: Any = _blind) -> Answer:
    return lambda W_O, door: tuple(right(W_O) if name == door else wrong(W_O) for name in DOORS)


def _first_out(W: Tensor) -> Tensor:
    """Only what lies along the first row is taken out."""
    columns = random(*W.T.shape, seed=3)
    return columns - W[0][:, None] @ (W[0] @ columns)[None] / W[0].square().sum()


def _shrinking(W_O: Tensor, door: str) -> tuple[Tensor, ...]:
    W_O /= W_O.norm()
    return _planted_head(W_O, door)


one_door.mistakes = {
    "always the keys": (lambda W_O, door: _planted_head(W_O, "K"), "W_Q reads nothing of what the first head writes"),
    "queries and keys swapped": (
        lambda W_O, door: _planted_head(W_O, {"Q": "K", "K": "Q", "V": "V"}[door]),
        "W_Q reads nothing of what the first head writes",
    ),
    "all doors read": (lambda W_O, door: (W_O.T,) * 3, "W_K should read nothing of what the first head writes"),
    "the others random": (
        _door(wrong=lambda w: random(*w.T.shape, seed=4)),
        "W_K should read nothing of what the first head writes",
    ),
    "one direction taken out": (
        _door(wrong=_first_out),
        "take what lies along the rows of W_O out of its columns, all of it",
    ),
    "the others zero": (_door(wrong=lambda w: 0 * w.T), "no part of the head is idle"),
    "one direction read": (
        _door(right=lambda w: w[:1].T.expand(-1, len(w)).clone()),
        "W_Q has less than rank 3",
    ),
    "reads more than is written": (
        _door(right=lambda w: w.T + _blind(w)),
        "also reads directions that the first head does not write",
    ),
    "random at the door": (
        _door(right=lambda w: random(*w.T.shape, seed=4)),
        "also reads directions that the first head does not write",
    ),
    "not transposed": (_door(right=lambda w: w), "it should be [10, 3], W_Q is [d_model, d_head]"),
    "only the open door": (lambda W_O, door: W_O.T, "it should return three matrices"),
    "three wide": (
        lambda W_O, door: (
            tuple(W[:, :2] for W in _planted_head(W_O, door)) if len(W_O) == 3 else _planted_head(W_O, door)
        ),
        "it should be [10, 3]",
    ),
    "W_O changed": (_shrinking, "it changes `W_O`, which it was given"),
}


@exercise
def shut(answer: Answer) -> None:
    """`shut(model, tokens, door, who, instead) → float`: the loss when heads of layer 1 cannot read layer 0 there."""
    tokens = torch.tensor([[0, 7, 3, 11, 3, 19, 5, 2], [0, 4, 4, 13, 1, 7, 3, 12]])
    model, instead = tiny_model(), random(10, seed=20)
    for door in DOORS:
        value, right = number(answer(model, tokens, door, [1], instead)), _shut(model, tokens, door, [1], instead)
        for changes, sentence in _wrong_cuts(door):
            guess = _shut(model, tokens, **({"door": door, "who": [1], "instead": instead} | changes))
            same = close(guess, right)  # with the same key at every source, the softmax sees no difference
            demand(same or not close(value, guess), f"door {door!r}, head 1.1: {sentence}")
        demand(
            close(value, right),
            f"door {door!r}, head 1.1: the loss is {value:.3f}, and that of the model as it is would be "
            f"{_shut(model, tokens, door, [], instead):.3f}. Only the sum that this door reads should change: "
            "what layer 0 wrote goes out, `instead` comes in.",
        )
    other = tiny_model(0.4, n_heads=4, d_head=3, d_model=8, n_ctx=11, d_vocab=15)
    short = torch.tensor([[0, 3, 9, 14, 2, 2]])
    for door, who in (("Q", [0, 2]), ("K", [3]), ("V", [0, 1, 2, 3]), ("V", [])):
        for given in (random(8, seed=21), torch.zeros(8)):
            demand(
                close(number(answer(other, short, door, who, given)), _shut(other, short, door, who, given)),
                f"the loss is wrong for another model: of 4 heads, door {door!r} of the heads {who}"
                f"{', `instead` all zeros' * (not given.any())}.",
            )


def _wrong_cuts(door: str) -> list[tuple[dict[str, Any], str]]:
    """What else one might do, as changes to `_shut`, each with its sentence."""
    others = [name for name in DOORS if name != door]
    places = (
        "values read no positions." if door == "V" else "the positions are gone, which queries and keys still read."
    )
    return [
        ({"places": True}, places),
        ({"who": []}, "that is the model's own loss: does your hook return what it changed, and under the right name?"),
        ({"who": [0, 1, 2]}, "all heads of layer 1 are shut off; only those in `who` should be."),
        ({"who": [0]}, "that is what becomes of head 1.0."),
        ({"instead": 0}, "`instead` is not read: what layer 0 wrote is taken out, and nothing put in its place."),
        ({"out": 0}, "`instead` is added, but what layer 0 wrote is read as well."),
        ({"out": -1}, "what layer 0 wrote is read twice: take it away."),
        ({"out": "stream"}, "the embedding is taken out too; only what layer 0 wrote should be."),
        (
            {"everywhere": True},
            "the stream itself has changed, so later parts miss it too; change what one door reads.",
        ),
        ({"doors": DOORS}, "all three doors are shut; only one should be."),
        *(({"doors": (name,)}, f"that is what shutting door {name!r} does.") for name in others),
    ]


def _shut(
    model: HookedTransformer,
    tokens: Tensor,
    door: str,
    who: list[int],
    instead: Any,
    out: Any = 1,
    doors: tuple[str, ...] = (),
    everywhere: bool = False,
    places: bool = False,
) -> Tensor:
    """The loss, by matrix products alone; the other arguments make mistakes."""
    _, cache = model.run_with_cache(tokens)
    x = cache["resid_pre", 1]  # [batch, pos, d_model]
    written = x - cache["embed"]
    change = instead - (x if out == "stream" else out * written)
    place = model.W_pos[: tokens.shape[1]]
    reads = {name: ((x + place * (name != "V"))[:, None] @ W[1]) for name, W in _weights_of(model).items()}
    for name in doors or (door,):
        for head in who:
            wrong = places * place * (1 if name == "V" else -1)
            reads[name][:, head] += (change + wrong) @ _weights_of(model)[name][1, head]
    future = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()
    scores = reads["Q"] @ reads["K"].mT / model.cfg.d_head**0.5
    pattern = scores.masked_fill(future, -torch.inf).softmax(-1)
    final = x + (pattern @ reads["V"] @ model.W_O[1]).sum(1) + (change if everywhere else 0)
    return model.loss_fn(final @ model.W_U, tokens)


def _weights_of(model: HookedTransformer) -> dict[str, Tensor]:
    return {"Q": model.W_Q, "K": model.W_K, "V": model.W_V}


def _shutting(**changes: Any) -> Answer:
    """A wrong cut, made from the right one."""

    def wrong(model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor) -> Tensor:
        return _shut(model, tokens, **({"door": door, "who": who, "instead": instead} | changes))

    return wrong


def _only_the_first(model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor) -> Tensor:
    return _shut(model, tokens, door, who[:1], instead)


def _per_token(model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor) -> Tensor:
    return _shut(model, tokens, door, who, instead).expand(len(tokens), 7)


def _cost(model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor) -> Tensor:
    return _shut(model, tokens, door, who, instead) - _shut(model, tokens, door, [], instead)


def _hook_left(model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor) -> Tensor:
    loss = _shut(model, tokens, door, who, instead)
    model.add_hook(f"blocks.1.attn.hook_{door.lower()}", lambda read, hook: read)
    return loss


shut.mistakes = {
    "the model as it is": (_shutting(who=[]), "that is the model's own loss"),
    "all heads": (_shutting(who=[0, 1, 2]), "only those in `who` should be"),
    "head 0 always": (_shutting(who=[0]), "that is what becomes of head 1.0"),
    "the first of who": (_only_the_first, "door 'Q' of the heads [0, 2]"),
    "nothing in its place": (_shutting(instead=0), "`instead` is not read"),
    "nothing taken out": (_shutting(out=0), "what layer 0 wrote is read as well"),
    "added again": (_shutting(out=-1), "what layer 0 wrote is read twice"),
    "the embedding too": (_shutting(out="stream"), "the embedding is taken out too"),
    "positions lost": (_shutting(places=True), "the positions are gone"),
    "positions added to values": (
        lambda model, tokens, door, who, instead: _shut(model, tokens, door, who, instead, places=door == "V"),
        "values read no positions",
    ),
    "out of the stream": (_shutting(doors=DOORS, who=[0, 1, 2], everywhere=True), "the loss is"),
    "all doors": (_shutting(doors=DOORS), "all three doors are shut"),
    "queries always": (_shutting(door="Q"), "that is what shutting door 'Q' does"),
    "the cost": (_cost, "the loss is"),
    "one loss per token": (_per_token, "it should return one number"),
    "hook left behind": (_hook_left, "it leaves a hook on `model`"),
}
