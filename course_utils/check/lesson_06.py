"""Checks of lesson 06, two layers: each exercise, then its typical mistakes with the sentence each must get."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedTransformer

from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random, tiny_model
from course_utils.check.questions import Wrong, close, demand, largest_table, number, tensor


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
    "everything transposed": (lambda o, q, v, mode: _score(o.T, q.T, v.T, mode), "mode 'Q' hardly sees it"),
    "columns": (
        _with(lambda o, q, v: _ratio(q, o), lambda o, q, v: _ratio(q.T, o), lambda o, q, v: _ratio(v, o)),
        "which side of which circuit meets the stream?",
    ),
    "V in the wrong order": (_with(V=lambda o, q, v: _ratio(v, o)), "mode 'V' hardly sees it"),
    "Q in the wrong order": (_with(Q=lambda o, q, v: _ratio(q, o)), "mode 'Q' hardly sees it"),
    "K in the wrong order": (_with(K=lambda o, q, v: _ratio(q, o)), "mode 'K' hardly sees it"),
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
def product_norm(answer: Answer) -> None:
    """`product_norm(W_V, W_O, W_Q, W_K) → float`: ‖W_V W_O W_Q W_Kᵀ‖ from small matrices alone."""
    V, out, Q, K = weights = _weights(50, 3, 2)
    value, true = number(answer(*weights)), _norm(*weights)
    M = out @ Q
    for guess, sentence in (
        (true**2, "that is the square of the norm."),
        (true**0.5, "that is the root of the norm: one root is enough."),
        ((K.T @ V @ M).norm(), "moving W_Kᵀ from the end to the front keeps the trace of a product, but not its norm."),
        ((K.T @ V @ M).trace().abs(), "that is the trace of the product itself; the trace of M Mᵀ is a squared norm."),
        ((V.T @ V @ M @ K.T @ K @ M).trace().abs().sqrt(), "the second M in the trace should be transposed."),
        (_norm(K, out, Q, V), "W_V and W_K have changed places: on which side of M does W_V stand?"),
        (_norm(V, out, K, Q), "W_Q and W_K have changed places: the product ends with W_Kᵀ."),
        (V.norm() * M.norm() * K.norm(), "that is a product of norms, which is only a bound on the norm of a product."),
        (V.norm() * out.norm() * Q.norm() * K.norm(), "that is a product of norms, which is only a bound on this one."),
        (torch.linalg.matrix_norm(V @ M @ K.T, 2), "that is the largest singular value; take the Frobenius norm."),
        (_norm(*weights) / (V.norm() * K.norm()), "that is divided by norms of the factors, which nobody asked for."),
    ):
        demand(not close(value, guess), sentence)
    demand(value > 0, "a norm is above 0.")
    for index, name in enumerate(("W_V", "W_O", "W_Q", "W_K")):
        factor = number(answer(*(W * (1 + (i == index)) for i, W in enumerate(weights)))) / value
        demand(
            close(factor, 2),
            f"doubling {name} should double the norm; yours becomes {factor:.2f} times as large.",
        )
    demand(
        close(value, true),
        f"the norm of a product of four random matrices should be {true:.1f}, and you get {value:.1f}.",
    )
    for d_model, d_head, seed in ((40, 3, 7), (30, 7, 4), (20, 1, 9)):
        weights = _weights(d_model, d_head, seed)
        demand(
            close(number(answer(*weights)), _norm(*weights)),
            f"for other weights the norm is wrong (d_model {d_model}, d_head {d_head}).",
        )
    weights = _weights(1000, 4)
    demand(
        largest_table(lambda: answer(*weights)) < 1000 * 1000,
        "the number is right, but on the way there is a matrix of d_model × d_model.",
    )


def _weights(d_model: int, d_head: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    W_V, W_Q, W_K = (random(d_model, d_head, seed=seed + s) for s in range(3))
    return W_V, random(d_head, d_model, seed=seed + 3), W_Q, W_K


def _norm(W_V: Tensor, W_O: Tensor, W_Q: Tensor, W_K: Tensor) -> float:
    return float((W_V @ W_O @ W_Q @ W_K.T).norm())


def _small(V: Tensor, out: Tensor, Q: Tensor, K: Tensor) -> Tensor:
    """As our solution."""
    M = out @ Q
    return ((V.T @ V) @ M @ (K.T @ K) @ M.T).trace().sqrt()


def _scaling_W_K(V: Tensor, out: Tensor, Q: Tensor, K: Tensor) -> Tensor:
    K /= K.norm()
    return _small(V, out, Q, K)


product_norm.mistakes = {
    "multiplied out": (lambda V, out, Q, K: (V @ out @ Q @ K.T).norm(), "there is a matrix of d_model × d_model"),
    "the circuits multiplied out": (
        lambda V, out, Q, K: ((V @ out) @ (Q @ K.T)).norm(),
        "there is a matrix of d_model × d_model",
    ),
    "multiplied out in numpy": (
        lambda V, out, Q, K: (((V @ out @ Q).numpy() @ K.numpy().T) ** 2).sum() ** 0.5,
        "there is a matrix of d_model × d_model",
    ),
    "the wide Gram matrix": (
        lambda V, out, Q, K: ((out @ Q @ K.T).T @ (V.T @ V) @ (out @ Q @ K.T)).trace().sqrt(),
        "there is a matrix of d_model × d_model",
    ),
    "cycled": (lambda V, out, Q, K: (K.T @ V @ out @ Q).norm(), "keeps the trace of a product, but not its norm"),
    "squared": (lambda V, out, Q, K: _small(V, out, Q, K) ** 2, "that is the square of the norm"),
    "two roots": (lambda V, out, Q, K: _small(V, out, Q, K).sqrt(), "one root is enough"),
    "the middle alone": (lambda V, out, Q, K: (out @ Q).norm(), "doubling W_V should double the norm"),
    "product of norms": (
        lambda V, out, Q, K: V.norm() * (out @ Q).norm() * K.norm(),
        "which is only a bound on the norm of a product",
    ),
    "product of four norms": (
        lambda V, out, Q, K: V.norm() * out.norm() * Q.norm() * K.norm(),
        "which is only a bound on this one",
    ),
    "one transpose missing": (
        lambda V, out, Q, K: ((V.T @ V) @ (out @ Q) @ (K.T @ K) @ (out @ Q)).trace().sqrt(),
        "the second M in the trace should be transposed",
    ),
    "grams swapped": (
        lambda V, out, Q, K: _small(K, out, Q, V),
        "on which side of M does W_V stand?",
    ),
    "the norm of what should be traced": (
        lambda V, out, Q, K: ((V.T @ V) @ (out @ Q) @ (K.T @ K)).norm(),
        "doubling W_V should double the norm; yours becomes 4.00 times as large",
    ),
    "Q and K swapped": (lambda V, out, Q, K: _small(V, out, K, Q), "the product ends with W_Kᵀ"),
    "no K": (
        lambda V, out, Q, K: ((V.T @ V) @ (out @ Q) @ (out @ Q).T).trace().sqrt(),
        "doubling W_K should double the norm; yours becomes 1.00 times",
    ),
    "the trace for the norm": (
        lambda V, out, Q, K: (out @ Q @ (K.T @ V)).trace(),
        "that is the trace of the product itself",
    ),
    "the largest singular value": (
        lambda V, out, Q, K: torch.linalg.matrix_norm(torch.linalg.qr(V).R @ (out @ Q) @ torch.linalg.qr(K).R.T, 2),
        "that is the largest singular value",
    ),
    "divided by norms": (
        lambda V, out, Q, K: _small(V, out, Q, K) / (V.norm() * K.norm()),
        "divided by norms of the factors",
    ),
    "lengths for Gram matrices": (
        lambda V, out, Q, K: (V.norm(dim=0)[:, None] * (out @ Q) * K.norm(dim=0)).norm(),
        "the norm of a product of four random matrices should be",
    ),
    "three wide": (
        lambda V, out, Q, K: _small(V[:, :3], out[:3], Q[:, :3], K[:, :3]),
        "for other weights the norm is wrong (d_model 30, d_head 7)",
    ),
    "W_K changed": (_scaling_W_K, "it changes `K`, which it was given"),
}


@exercise
def value_weighted(answer: Answer) -> None:
    """`value_weighted(pattern, x, W_V, W_O) → [dest, src]`: attention times the length of what is moved."""
    A, x, V, out = given = _causal(5, 0), random(5, 8, seed=1), random(8, 3, seed=2), random(3, 8, seed=3)
    means = "[dest, src]"
    result = tensor(answer(*given), (5, 5), means)
    _no_other_length(result, given)
    demand((result >= 0).all(), "a length is never below 0, so neither is what you return.")
    silent = x.clone()
    silent[2] = 0
    quiet = tensor(answer(A, silent, V, out), (5, 5), means)
    demand(
        close(quiet[:, 2], torch.zeros(5)),
        "position 2 has nothing to give here, so nothing should come from it: its column should be 0.",
    )
    others = torch.tensor([0, 1, 3, 4])
    demand(
        close(quiet[others][:, others], result[others][:, others]),
        "when position 2 has nothing to give, what comes from the others should stay as it was: is there one scale "
        "for all?",
    )
    demand(close(quiet[2, :2], result[2, :2]), "what position 2 receives should not depend on what it has to give.")
    demand(
        close(tensor(answer(A, 2 * x, V, out), (5, 5), means), 2 * result),
        "twice the stream should give twice the lengths: leave the rows unnormalised, and lengths unsquared.",
    )
    for which, weights in (("W_V", (random(8, 3, seed=5), out)), ("W_O", (V, random(3, 8, seed=5)))):
        demand(
            not close(tensor(answer(A, x, *weights), (5, 5), means), result),
            f"{which} makes no difference: what is moved is the whole of x W_V W_O.",
        )
    turn = torch.linalg.qr(random(3, 3, seed=4)).Q * torch.tensor([1.0, 2, 3])
    demand(
        close(tensor(answer(A, x, V @ turn, turn.inverse() @ out), (5, 5), means), result),
        "values rewritten in other coordinates, W_O to match, are the same head, and should give the same: only "
        "the product W_V W_O counts.",
    )
    level = torch.ones(5, 5).tril() / torch.arange(1, 6)[:, None]  # the same attention to all that is seen
    spread = tensor(answer(level, x, V, out), (5, 5), means)
    demand(close(spread[4, 0], result[0, 0] / 5), "a fifth of the attention should move a fifth of the length.")
    _right_at_sizes(answer)


def _no_other_length(result: Tensor, given: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    """The answer is none of the formulas that come to mind."""
    A, x, V, out = given
    written = x @ V @ out
    lengths = written.norm(dim=1)
    right = A * lengths
    for guess, sentence in (
        (A, "that is the pattern as it was."),
        (A * lengths[:, None], "the lengths stand on the rows, and weigh the destination; each source has its own."),
        (right.T, "rows and columns are swapped: the destination should be on the rows."),
        (lengths.expand(5, 5), "these are the lengths alone: how much of each is fetched, the pattern says."),
        (right / right.sum(1, keepdim=True), "the rows are normalised to a sum of 1, which takes the lengths away."),
        (A * lengths**2, "the lengths are squared."),
        (A * written.sum(1), "entries are summed as they are; a length is the root of the sum of their squares."),
        (A * written.abs().sum(1), "absolute entries are summed; a length is the root of the sum of squares."),
        (A * (x @ V).norm(dim=1), "that is the length of x W_V; take the whole of x W_V W_O."),
        (A * x.norm(dim=1), "that is the length of x itself; take what the head makes of it, x W_V W_O."),
    ):
        demand(not close(result, guess), sentence)


def _right_at_sizes(answer: Answer) -> None:
    """Right for sizes that differ, one of them with d_head above d_model."""
    for n, d_model, d_head in ((5, 8, 3), (7, 6, 4), (3, 4, 9)):
        A, x = _causal(n, 5), random(n, d_model, seed=1)
        V, out = random(d_model, d_head, seed=2), random(d_head, d_model, seed=3)
        result = tensor(answer(A, x, V, out), (n, n), "[dest, src]")
        ratio = (result[0, 0] / (x[0] @ V @ out).norm()).item()
        demand(
            close(result, A * (x @ V @ out).norm(dim=1)),
            f"the lengths are not those of the rows of x W_V W_O ({n} positions, d_model {d_model}); of the first, "
            f"yours is {ratio:.2f} times the length.",
        )


def _written(x: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    """How long what each source has to give is, [src]."""
    return (x @ W_V @ W_O).norm(dim=1)


def _weighing(A: Tensor, x: Tensor, V: Tensor, out: Tensor) -> Tensor:
    A *= _written(x, V, out)
    return A


value_weighted.mistakes = {
    "weighted by destination": (lambda A, x, V, out: A * _written(x, V, out)[:, None], "the lengths stand on the rows"),
    "the value's length": (lambda A, x, V, out: A * (x @ V).norm(dim=1), "that is the length of x W_V"),
    "the stream's length": (lambda A, x, V, out: A * x.norm(dim=1), "that is the length of x itself"),
    "rows normalised": (
        lambda A, x, V, out: (w := A * _written(x, V, out)) / w.sum(1, keepdim=True),
        "the rows are normalised to a sum of 1",
    ),
    "divided by the largest": (
        lambda A, x, V, out: (w := A * _written(x, V, out)) / w.max(),
        "twice the stream should give twice the lengths",
    ),
    "lengths that sum to 1": (
        lambda A, x, V, out: A * (w := _written(x, V, out)) / w.sum(),
        "is there one scale for all?",
    ),
    "squared": (lambda A, x, V, out: A * _written(x, V, out) ** 2, "the lengths are squared"),
    "the sum instead of the length": (lambda A, x, V, out: A * (x @ V @ out).sum(1), "entries are summed as they are"),
    "absolute entries": (lambda A, x, V, out: A * (x @ V @ out).abs().sum(1), "absolute entries are summed"),
    "largest entry": (lambda A, x, V, out: A * (x @ V @ out).abs().amax(1), "not those of the rows of x W_V W_O"),
    "root mean square": (
        lambda A, x, V, out: A * _written(x, V, out) / x.shape[1] ** 0.5,
        "yours is 0.35 times the length",
    ),
    "standard deviation": (lambda A, x, V, out: A * (x @ V @ out).std(1), "not those of the rows of x W_V W_O"),
    "one length for all": (lambda A, x, V, out: A * (x @ V @ out).norm(), "its column should be 0"),
    "lengths of columns": (
        lambda A, x, V, out: A * (x @ V @ out).norm(dim=0).repeat(2)[: len(A)],
        "its column should be 0",
    ),
    "the circuit transposed": (
        lambda A, x, V, out: A * (x @ (V @ out).T).norm(dim=1),
        "not those of the rows of x W_V W_O",
    ),
    "a product of lengths": (
        lambda A, x, V, out: A * (x @ V).norm(dim=1) * out.norm(),
        "only the product W_V W_O counts",
    ),
    "what arrives": (
        lambda A, x, V, out: (A @ x @ V @ out).norm(dim=1)[:, None] * A,
        "its column should be 0",
    ),
    "transposed": (lambda A, x, V, out: (A * _written(x, V, out)).T, "rows and columns are swapped"),
    "the pattern as it is": (lambda A, x, V, out: A, "that is the pattern as it was"),
    "without the pattern": (lambda A, x, V, out: _written(x, V, out).expand(5, 5), "these are the lengths alone"),
    "the vectors": (lambda A, x, V, out: A[..., None] * (x @ V @ out), "it should be [5, 5], [dest, src]"),
    "the root of attention": (
        lambda A, x, V, out: A.sqrt() * _written(x, V, out),
        "a fifth of the attention should move a fifth",
    ),
    "the pattern changed": (_weighing, "it changes `A`, which it was given"),
}


@exercise
def order_losses(answer: Answer) -> None:
    """`order_losses(model, tokens) → [3]`: the loss with paths through no, at most one and at most two heads."""
    model = tiny_model()
    tokens = torch.tensor([[0, 7, 3, 11, 3, 19, 5, 2], [0, 4, 4, 13, 1, 7, 3, 12]])
    means = "orders 0, 1 and 2"
    result = tensor(answer(model, tokens), (3,), means)
    streams = _streams(model, tokens)
    x0 = streams[0]
    right = _losses(model, tokens, *_orders(*streams))
    for guess in (right.diff(prepend=0 * right[:1]), -right.diff(prepend=0 * right[:1])):
        demand(
            not close(result[1:], guess[1:]),
            "these are differences, what each order changes; the losses themselves are asked for.",
        )
    demand(not (result < 0).all(), "a loss is −log p, so it is never below 0.")
    demand(not close(result, right.exp()), "these are perplexities, exp of the losses; the losses are asked for.")
    ratio = (result[0] / right[0]).item()
    demand(
        close(ratio, 1) or not close(result, ratio * right),
        f"all three are {ratio:.2f} times the loss: model.loss_fn has taken the mean already, in nats.",
    )
    demand(not close(result, right.flip(0)), "the order is reversed: no head comes first.")
    placed = _losses(model, tokens, x0 + model.W_pos[: tokens.shape[1]])
    demand(
        not close(result[0], placed[0]),
        "the positions are in the stream: in our models only queries and keys see them.",
    )
    logits = x0 @ model.W_U
    unshifted = -logits.log_softmax(-1).gather(-1, tokens[..., None]).mean()
    demand(not close(result[0], unshifted), "each token is scored at its own position: the loss is the next token's.")
    for context in (0, 1):
        alone = _losses(model, tokens[context : context + 1], x0[context : context + 1])
        demand(not close(result[0], alone[0]), f"only context {context} counts in the loss; there are 2.")
    demand(close(result[0], right[0]), "order 0 is the direct path: embedding to unembedding, no head at all.")
    _right_orders(result, right, model, tokens, streams)
    other = tiny_model(0.4, n_heads=5, d_head=3, d_model=8, n_ctx=11, d_vocab=15)
    for batch, length in ((1, 6), (3, 11)):
        tokens = torch.randint(1, 15, (batch, length), generator=torch.Generator().manual_seed(length))
        tokens[:, 0] = 0
        demand(
            close(
                tensor(answer(other, tokens), (3,), means),
                _losses(other, tokens, *_orders(*_streams(other, tokens))),
            ),
            f"the losses are wrong for another model, of 5 heads, on tokens of shape [{batch}, {length}].",
        )


def _right_orders(
    result: Tensor,
    right: Tensor,
    model: HookedTransformer,
    tokens: Tensor,
    streams: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Orders 1 and 2 hold all paths of their length, and none of them twice."""
    x0, first, second, virtual = streams
    demand(
        not close(result[1], right[0]),
        "order 1 is order 0 again: what was saved in run 0 should come in in run 1.",
    )
    demand(
        not close(result[1], right[2]), "order 1 is the whole model's loss already: whose outputs does layer 1 read?"
    )
    for stream, sentence in (
        (x0 + first, "order 1 has the heads of layer 0 only: in run 1 both layers' saved outputs are added."),
        (x0 + second, "order 1 has the heads of layer 1 only: in run 1 both layers' saved outputs are added."),
        (first + second, "order 1 has lost the direct path: 'at most one head' is no head and one."),
        (_unfrozen(model, tokens)[1], "in order 1 the patterns are computed anew: freeze those of the full model."),
    ):
        demand(not close(result[1], _losses(model, tokens, stream)[0]), sentence)
    demand(
        close(result[1], right[1]),
        "order 1 should hold each head applied to the embeddings alone, through the pattern of the full model.",
    )
    for stream, sentence in (
        (x0 + 2 * first + 2 * second + virtual, "order 2 has single heads twice: each run replaces what was saved."),
        (x0 + first + virtual, "in order 2 the heads of layer 1 read x1, the embeddings too, and not first alone."),
        (x0 + virtual, "order 2 has lost the single heads: 'at most two heads' is no head, one and two."),
        (virtual, "order 2 has lost all shorter paths: 'at most two heads' is no head, one and two."),
        (first + second + virtual, "order 2 has lost the direct path: 'at most two heads' is no head, one and two."),
    ):
        demand(not close(result[2], _losses(model, tokens, stream)[0]), sentence)
    demand(not close(result[2], right[1]), "order 2 is order 1 again: in run 2 layer 1 reads what layer 0 wrote.")
    demand(
        close(result[2], right[2]),
        "with paths through up to two heads nothing is left out: order 2 is the model's loss.",
    )


def _write(model: HookedTransformer, pattern: Tensor, layer: int, x: Tensor) -> Tensor:
    """What all heads of a layer write together, reading x: [batch, pos, d_model]."""
    return (pattern @ (x[:, None] @ model.W_V[layer]) @ model.W_O[layer]).sum(1)


def _streams(
    model: HookedTransformer, tokens: Tensor, placed: bool = False, transposed: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What reaches the end: the embeddings; through a head of layer 0, of layer 1, and of both."""
    _, cache = model.run_with_cache(tokens)
    x, place = cache["embed"], model.W_pos[: tokens.shape[1]] if placed else torch.zeros(1)
    A = [cache["pattern", layer].mT if transposed else cache["pattern", layer] for layer in (0, 1)]
    first = _write(model, A[0], 0, x + place)
    second = _write(model, A[1], 1, x + place)
    return x, first, second, _write(model, A[1], 1, first)


def _orders(x0: Tensor, first: Tensor, second: Tensor, virtual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x0, x0 + first + second, x0 + first + second + virtual


def _unfrozen(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three streams when each run computes its patterns from what layers read in it."""
    x0 = model.W_E[tokens]
    place = model.W_pos[: tokens.shape[1]]
    future = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()

    def write(layer: int, x: Tensor) -> Tensor:
        q, k = ((x + place)[:, None] @ W[layer] for W in (model.W_Q, model.W_K))
        scores = (q @ k.mT / model.cfg.d_head**0.5).masked_fill(future, -torch.inf)
        return _write(model, scores.softmax(-1), layer, x)

    first = write(0, x0)
    return x0, x0 + first + write(1, x0), x0 + first + write(1, x0 + first)


def _losses(model: HookedTransformer, tokens: Tensor, *streams: Tensor) -> Tensor:
    return torch.stack([model.loss_fn(stream @ model.W_U, tokens) for stream in streams])


def _right(model: HookedTransformer, tokens: Tensor) -> Tensor:
    return _losses(model, tokens, *_orders(*_streams(model, tokens)))


def _made(change: Any, **options: bool) -> Answer:
    """The losses of three streams, which `change` makes of the parts."""
    return lambda model, tokens: _losses(model, tokens, *change(*_streams(model, tokens, **options)))


def _unshifted(model: HookedTransformer, tokens: Tensor) -> Tensor:
    streams = torch.stack(_orders(*_streams(model, tokens)))
    logprobs = (streams @ model.W_U).log_softmax(-1)
    return -logprobs.gather(-1, tokens.expand(3, *tokens.shape)[..., None]).mean((1, 2, 3))


def _hooks_left(model: HookedTransformer, tokens: Tensor) -> Tensor:
    model.add_hook("blocks.1.attn.hook_z", lambda z, hook: z)
    return _right(model, tokens)


def _silencing(model: HookedTransformer, tokens: Tensor) -> Tensor:
    losses = _right(model, tokens)
    model.blocks[1].attn.W_O.data[:] = 0
    return losses


order_losses.mistakes = {
    "patterns not frozen": (
        lambda model, tokens: _losses(model, tokens, *_unfrozen(model, tokens)),
        "freeze those of the full model",
    ),
    "layer 1 reads this run's layer 0": (
        _made(lambda x, a, b, ab: (x, x + a + b + ab, x + a + b + ab)),
        "order 1 is the whole model's loss already",
    ),
    "outputs added up over the runs": (
        _made(lambda x, a, b, ab: (x, x + a + b, x + 2 * a + 2 * b + ab)),
        "each run replaces what was saved",
    ),
    "layer 0 only": (_made(lambda x, a, b, ab: (x, x + a, x + a)), "order 1 has the heads of layer 0 only"),
    "layer 1 only": (_made(lambda x, a, b, ab: (x, x + b, x + b)), "order 1 has the heads of layer 1 only"),
    "layer by layer": (_made(lambda x, a, b, ab: (x, x + a, x + a + b + ab)), "the heads of layer 0 only"),
    "each order alone": (_made(lambda x, a, b, ab: (x, a + b, ab)), "order 1 has lost the direct path"),
    "each order with the direct path": (
        _made(lambda x, a, b, ab: (x, x + a + b, x + ab)),
        "order 2 has lost the single heads",
    ),
    "layer 1 reads what layer 0 wrote alone": (
        _made(lambda x, a, b, ab: (x, x + a + b, x + a + ab)),
        "the heads of layer 1 read x1, the embeddings too",
    ),
    "order 2 without the direct path": (
        _made(lambda x, a, b, ab: (x, x + a + b, a + b + ab)),
        "order 2 has lost the direct path",
    ),
    "positions in the values": (
        _made(_orders, placed=True),
        "order 1 should hold each head applied to the embeddings alone",
    ),
    "positions in the stream": (
        lambda model, tokens: _losses(
            model, tokens, *(s + model.W_pos[: tokens.shape[1]] for s in _orders(*_streams(model, tokens)))
        ),
        "the positions are in the stream",
    ),
    "patterns transposed": (
        _made(_orders, transposed=True),
        "order 1 should hold each head applied to the embeddings alone",
    ),
    "backwards": (lambda model, tokens: _right(model, tokens).flip(0), "the order is reversed"),
    "differences": (
        lambda model, tokens: _right(model, tokens).diff(prepend=torch.zeros(1)),
        "the losses themselves are asked for",
    ),
    "gains": (
        lambda model, tokens: -_right(model, tokens).diff(prepend=torch.tensor([model.cfg.d_vocab]).log()),
        "the losses themselves are asked for",
    ),
    "sign": (lambda model, tokens: -_right(model, tokens), "so it is never below 0"),
    "perplexities": (lambda model, tokens: _right(model, tokens).exp(), "these are perplexities, exp of the losses"),
    "in bits": (lambda model, tokens: _right(model, tokens) / 0.693147, "all three are 1.44 times the loss"),
    "summed": (lambda model, tokens: _right(model, tokens) * 14, "all three are 14.00 times the loss"),
    "unshifted": (_unshifted, "each token is scored at its own position"),
    "the first context only": (
        lambda model, tokens: _right(model, tokens[:1]),
        "only context 0 counts in the loss",
    ),
    "one token per context": (
        lambda model, tokens: torch.stack(
            [
                model.loss_fn(stream @ model.W_U, tokens, per_token=True)[:, -1].mean()
                for stream in _orders(*_streams(model, tokens))
            ]
        ),
        "order 0 is the direct path",
    ),
    "one run late": (_made(lambda x, a, b, ab: (x, x, x + a + b)), "order 1 is order 0 again"),
    "order 1 twice": (_made(lambda x, a, b, ab: (x, x + a + b, x + a + b)), "order 2 is order 1 again"),
    "the whole model's loss": (
        lambda model, tokens: model(tokens, return_type="loss").expand(3),
        "order 0 is the direct path",
    ),
    "one number": (lambda model, tokens: _right(model, tokens)[2], "it should be [3], orders 0, 1 and 2"),
    "three heads": (
        lambda model, tokens: _right(model, tokens) + (model.cfg.n_heads != 3),
        "for another model, of 5 heads",
    ),
    "hooks left behind": (_hooks_left, "it leaves a hook on `model`, at blocks.1.attn.hook_z"),
    "weights changed": (_silencing, "it changes `model.blocks.1.attn.W_O`"),
}
