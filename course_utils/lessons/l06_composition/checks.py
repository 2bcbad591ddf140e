"""Checks of lesson 06, two layers: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import random, tiny_model
from course_utils.course.questions import Wrong, close, demand, number, tensor


def _causal(n: int, seed: int) -> Tensor:
    """An attention pattern, [n, n]."""
    return random(n, n, seed=seed).masked_fill(torch.ones(n, n).triu(1).bool(), -9e9).softmax(1)


@exercise
def virtual_head(answer: Answer) -> None:
    """`virtual_head(x, A_w, OV_w, A_r, OV_r) → [pos, d_model]`: what a head of a head moves."""
    x, identity = random(6, 5), torch.eye(5)
    before = torch.eye(6)[[0, 0, 1, 2, 3, 4]]  # looks at the token before
    back = torch.eye(6)[[0, 0, 1, 1, 1, 3]]  # looks back by another number of steps at each position
    means = "[pos, d_model]"
    for which, OV_w, OV_r in (("writer", 0 * identity, identity), ("reader", identity, 0 * identity)):
        demand(
            close(tensor(answer(x, before, OV_w, back, OV_r), (6, 5), means), 0 * x),
            f"when the {which} writes nothing, a virtual head has nothing to move, but here something arrives.",
        )
    moved = tensor(answer(x, before, identity, back, identity), (6, 5), means)
    path = "the reader looks from position 5 to 3, the writer from 3 to 2: what stood at 2 should arrive at 5"
    for guess, why in (
        (before @ back, "yours goes through the writer's pattern first, on the way back from 5."),
        (back, "yours leaves out the writer's pattern."),
        (before, "yours leaves out the reader's pattern."),
        (before.T @ back.T, "a pattern has the destination on its rows, and seems transposed in yours."),
        (back.T @ before.T, "a pattern has the destination on its rows, and seems transposed in yours."),
    ):
        demand(not close(moved, guess @ x), f"{path}; {why}")
    demand(close(moved[5], x[2]), f"{path}.")
    demand(close(moved, back @ before @ x), "one position gets what it should, others do not: go on row by row.")
    OV_w, OV_r = random(5, 5, seed=1), random(5, 5, seed=2)
    here = torch.eye(6)
    alone = tensor(answer(x, here, OV_w, here, identity), (6, 5), means)
    demand(
        close(alone, x @ OV_w),
        "if nothing moves and OV_r changes nothing, x OV_w should be left: rows times matrix.",
    )
    alone = tensor(answer(x, here, identity, here, OV_r), (6, 5), means)
    demand(
        close(alone, x @ OV_r),
        "if nothing moves and OV_w changes nothing, x OV_r should be left: rows times matrix.",
    )
    both = tensor(answer(x, here, OV_w, here, OV_r), (6, 5), means)
    demand(not close(both, x @ OV_r @ OV_w), "in row form the circuit that acts first stands next to x.")
    demand(close(both, x @ OV_w @ OV_r), "if nothing is moved, the two circuits should act one after the other on x.")
    for n, d in ((6, 5), (4, 7), (1, 3)):
        x, OV_w, OV_r = random(n, d), random(d, d, seed=1), random(d, d, seed=2)
        A_w, A_r = _causal(n, 3), _causal(n, 4)
        demand(
            close(tensor(answer(x, A_w, OV_w, A_r, OV_r), (n, d), means), A_r @ A_w @ x @ OV_w @ OV_r),
            f"where heads attend to several positions, the numbers are wrong ({n} positions, d_model {d}): every "
            "source counts, by its weight.",
        )


def _overwriting(x: Tensor, A_w: Tensor, OV_w: Tensor, A_r: Tensor, OV_r: Tensor) -> Tensor:
    x.copy_(A_w @ x @ OV_w)
    return A_r @ x @ OV_r


def _hard(A: Tensor) -> Tensor:
    return torch.eye(len(A))[A.argmax(1)]


virtual_head.mistakes = {
    "patterns in the wrong order": (
        lambda x, A_w, OV_w, A_r, OV_r: A_w @ A_r @ x @ OV_w @ OV_r,
        "goes through the writer's pattern first",
    ),
    "circuits in the wrong order": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r @ A_w @ x @ OV_r @ OV_w,
        "the circuit that acts first stands next to x",
    ),
    "both in the wrong order": (
        lambda x, A_w, OV_w, A_r, OV_r: A_w @ A_r @ x @ OV_r @ OV_w,
        "goes through the writer's pattern first",
    ),
    "patterns transposed": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r.T @ A_w.T @ x @ OV_w @ OV_r,
        "a pattern has the destination on its rows",
    ),
    "the product transposed": (
        lambda x, A_w, OV_w, A_r, OV_r: (A_r @ A_w).T @ x @ OV_w @ OV_r,
        "a pattern has the destination on its rows",
    ),
    "columns": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r @ A_w @ x @ OV_w.T @ OV_r.T,
        "x OV_w should be left: rows times matrix",
    ),
    "the second circuit in columns": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r @ A_w @ x @ OV_w @ OV_r.T,
        "x OV_r should be left: rows times matrix",
    ),
    "the second head alone": (lambda x, A_w, OV_w, A_r, OV_r: A_r @ x @ OV_r, "when the writer writes nothing"),
    "the first head alone": (lambda x, A_w, OV_w, A_r, OV_r: A_w @ x @ OV_w, "when the reader writes nothing"),
    "with the direct path": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r @ (x + A_w @ x @ OV_w) @ OV_r,
        "when the writer writes nothing",
    ),
    "with what the first head writes": (
        lambda x, A_w, OV_w, A_r, OV_r: (w := A_w @ x @ OV_w) + A_r @ w @ OV_r,
        "when the reader writes nothing",
    ),
    "the sum of two heads": (
        lambda x, A_w, OV_w, A_r, OV_r: A_w @ x @ OV_w + A_r @ x @ OV_r,
        "when the writer writes nothing",
    ),
    "the first pattern left out": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r @ x @ OV_w @ OV_r,
        "leaves out the writer's pattern",
    ),
    "the second pattern left out": (
        lambda x, A_w, OV_w, A_r, OV_r: A_w @ x @ OV_w @ OV_r,
        "leaves out the reader's pattern",
    ),
    "patterns multiplied entry by entry": (
        lambda x, A_w, OV_w, A_r, OV_r: (A_r * A_w) @ x @ OV_w @ OV_r,
        "what stood at 2 should arrive at 5",
    ),
    "circuits multiplied entry by entry": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r @ A_w @ x @ (OV_w * OV_r),
        "x OV_w should be left",
    ),
    "one pattern twice": (
        lambda x, A_w, OV_w, A_r, OV_r: A_r @ A_r @ x @ OV_w @ OV_r,
        "what stood at 2 should arrive at 5",
    ),
    "only the strongest source": (
        lambda x, A_w, OV_w, A_r, OV_r: _hard(A_r) @ _hard(A_w) @ x @ OV_w @ OV_r,
        "every source counts, by its weight",
    ),
    "five wide": (
        lambda x, A_w, OV_w, A_r, OV_r: torch.cat([(A_r @ A_w @ x @ OV_w @ OV_r)[:, :5], 0 * x[:, 5:]], 1),
        "(4 positions, d_model 7)",
    ),
    "x changed": (_overwriting, "it changes `x`, which it was given"),
}


@exercise
def qk_terms(answer: Answer) -> None:
    """`qk_terms(sources, W_Q, W_K) → {(q_source, k_source): [n, n]}`: the scores of a head, source by source."""
    sources, W_Q, W_K = _reads(("embed", "pos", "0.0", "0.1", "0.2"), 7, 10, 4)
    terms, right = _read_terms(answer(sources, W_Q, W_K), sources, 7), _terms(sources, W_Q, W_K)
    future = torch.ones(7, 7).triu(1).bool()
    masked = all(not term[future].any() for term in terms.values())
    demand(not masked, "all terms are 0 above the diagonal: they are asked for before the mask.")
    rows = all(close(term.sum(1), torch.ones(7)) for term in terms.values())
    demand(not rows, "each term's rows sum to 1, as probabilities do: scores come before the softmax.")

    def fits(guess: dict[tuple[str, str], Tensor]) -> bool:
        return all(close(term, guess[pair]) for pair, term in terms.items())

    ratio = (terms["embed", "embed"][2, 1] / right["embed", "embed"][2, 1]).item()
    demand(
        close(ratio, 1) or not fits({pair: ratio * term for pair, term in right.items()}),
        f"every term is {ratio:.2f} times what it should be: scores are divided by √d_head, once.",
    )
    swapped = {pair: right[pair[::-1]] for pair in right}
    demand(not fits(swapped), "the first name of a key should be the query's source.")
    demand(
        not fits({pair: term.T for pair, term in right.items()}),
        "the destination, where the query is, should be on the rows.",
    )
    demand(
        not fits({pair: term.T for pair, term in swapped.items()}),
        "queries and keys have changed places: W_Q reads at the destination, W_K at the source.",
    )
    demand(not fits(_terms(sources, W_Q, W_Q)), "keys are made with W_K; in yours W_Q stands on both sides.")
    demand(not fits(_terms(sources, W_K, W_K)), "queries are made with W_Q; in yours W_K stands on both sides.")
    wrong = [pair for pair in terms if not close(terms[pair], right[pair])]
    demand(not wrong, f"the term {wrong[0] if wrong else ''} is not what these two sources contribute to the score.")
    sources, W_Q, W_K = _reads(("embed", "0.0", "0.1"), 6, 8, 9)
    right = _terms(sources, W_Q, W_K)
    demand(
        all(close(term, right[pair]) for pair, term in _read_terms(answer(sources, W_Q, W_K), sources, 6).items()),
        "for another head, of d_head 9 and with 3 sources, the terms are wrong.",
    )


def _reads(names: tuple[str, ...], n: int, d_model: int, d_head: int) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Random sources, each [n, d_model], and the query and key matrices of a head that reads them."""
    sources = {name: random(n, d_model, seed=seed) for seed, name in enumerate(names)}
    return sources, random(d_model, d_head, seed=8), random(d_model, d_head, seed=9)


def _read_terms(result: object, names: Mapping[str, Tensor], n: int) -> dict[tuple[str, str], Tensor]:
    """The terms that were returned, all keys there and no others."""
    if not isinstance(result, dict):
        raise Wrong(f"it should return a dictionary, not {type(result).__name__}.")
    pairs = [(q, k) for q in names for k in names]
    missing, extra = [pair for pair in pairs if pair not in result], [key for key in result if key not in pairs]
    if missing:
        had = f" You have {extra[0]!r}." if extra and len(repr(extra[0])) < 40 else ""
        raise Wrong(f"{len(missing)} of {len(pairs)} keys are missing, such as {missing[0]}.{had}")
    demand(not extra, f"there are keys that should not be there, such as {extra[0] if extra else ''}.")
    for pair in pairs:
        if isinstance(result[pair], Tensor):
            demand(not result[pair].isneginf().any(), "there is −∞ in the terms: they are asked for before the mask.")
    return {pair: tensor(result[pair], (n, n), "[dest, src]") for pair in pairs}


def _terms(sources: Mapping[str, Tensor], W_Q: Tensor, W_K: Tensor) -> dict[tuple[str, str], Tensor]:
    q = {name: x @ W_Q / W_Q.shape[1] ** 0.5 for name, x in sources.items()}
    k = {name: x @ W_K for name, x in sources.items()}
    return {(a, b): q[a] @ k[b].T for a in sources for b in sources}


def _each(change: Any) -> Answer:
    """All terms right, but for `change` in each; it is given the pair of names and the term."""
    return lambda s, W_Q, W_K: {pair: change(pair, term) for pair, term in _terms(s, W_Q, W_K).items()}


def _renamed(change: Any) -> Answer:
    """All terms right, some under other names or left out (None)."""
    return lambda s, W_Q, W_K: {
        change(*pair): term for pair, term in _terms(s, W_Q, W_K).items() if change(*pair) is not None
    }


def _adding_pos(sources: dict[str, Tensor], W_Q: Tensor, W_K: Tensor) -> dict[tuple[str, str], Tensor]:
    sources["embed"] += sources.get("pos", 0)
    return _terms(sources, W_Q, W_K)


def _with_all(sources: dict[str, Tensor], W_Q: Tensor, W_K: Tensor) -> dict[tuple[str, str], Tensor]:
    return _terms({**sources, "all": sum(sources.values(), torch.tensor(0.0))}, W_Q, W_K)


qk_terms.mistakes = {
    "queries and keys swapped": (
        lambda s, W_Q, W_K: _terms(s, W_K, W_Q),
        "W_Q reads at the destination, W_K at the source",
    ),
    "W_Q twice": (lambda s, W_Q, W_K: _terms(s, W_Q, W_Q), "in yours W_Q stands on both sides"),
    "W_K twice": (lambda s, W_Q, W_K: _terms(s, W_K, W_K), "in yours W_K stands on both sides"),
    "names swapped": (_renamed(lambda a, b: (b, a)), "the first name of a key should be the query's source"),
    "transposed": (_each(lambda pair, t: t.T), "should be on the rows"),
    "positions omitted": (_renamed(lambda a, b: None if "pos" in (a, b) else (a, b)), "9 of 25 keys are missing"),
    "a source with itself alone": (_renamed(lambda a, b: (a, b) if a == b else None), "20 of 25 keys are missing"),
    "positions in the keys only": (
        _each(lambda pair, t: t * (pair[0] != "pos")),
        "the term ('pos', 'embed') is not what these two sources contribute",
    ),
    "not divided": (_each(lambda pair, t: 2 * t), "every term is 2.00 times what it should be"),
    "divided by d_head": (_each(lambda pair, t: t / 2), "every term is 0.50 times what it should be"),
    "divided by 2": (
        lambda s, W_Q, W_K: {p: t * W_Q.shape[1] ** 0.5 / 2 for p, t in _terms(s, W_Q, W_K).items()},
        "for another head, of d_head 9",
    ),
    "divided by √d_model": (_each(lambda pair, t: t * 0.4**0.5), "every term is 0.63 times what it should be"),
    "masked": (_each(lambda pair, t: t.tril()), "0 above the diagonal: they are asked for before the mask"),
    "masked by −∞": (
        _each(lambda pair, t: t.masked_fill(torch.ones_like(t).triu(1).bool(), -torch.inf)),
        "there is −∞ in the terms",
    ),
    "a softmax of each": (_each(lambda pair, t: t.softmax(1)), "scores come before the softmax"),
    "names of one string": (_renamed(lambda a, b: f"{a}|{b}"), "You have 'embed|embed'"),
    "the whole stream as well": (_with_all, "there are keys that should not be there"),
    "only the sum": (
        lambda s, W_Q, W_K: sum(_terms(s, W_Q, W_K).values()),
        "it should return a dictionary, not",
    ),
    "a source changed": (_adding_pos, "which it was given"),
}


@exercise
def composition(answer: Answer) -> None:
    """`composition(OV_w, QK_r, OV_r, mode) → float`: how much of what the writer writes, the reader reads."""
    OV_w, QK_r, OV_r = (scale * random(9, 2, seed=s) @ random(2, 9, seed=s + 3) for s, scale in enumerate((1, 2, 0.3)))
    for mode, second in _reading(QK_r, OV_r).items():
        value, right = number(answer(OV_w, QK_r, OV_r, mode)), _ratio(OV_w, second)
        for guess, sentence in (
            ((OV_w @ second).norm(), "that is the norm of the product, not yet divided by the norms of its factors."),
            (
                _ratio(second, OV_w),
                "that is the product in the other order: the writer comes first, OV_w on the left.",
            ),
            (right**2, "that is the square of the score."),
            (right - 1 / 3, "the chance level is not subtracted: it is what you compare the score with."),
            (right * 3, "the score is not divided by the chance level: that is what you compare it with."),
            (_ratio(OV_w, second, 2), "that is the ratio of largest singular values; take Frobenius norms."),
            (_ratio(OV_w, second, "nuc"), "that is the ratio of sums of singular values; take Frobenius norms."),
        ):
            demand(not close(value, guess), f"in mode {mode!r}, {sentence}")
        for which, circuits in (
            ("OV_w", (3 * OV_w, QK_r, OV_r)),
            ("QK_r", (OV_w, 5 * QK_r, OV_r)),
            ("OV_r", (OV_w, QK_r, 7 * OV_r)),
        ):
            demand(
                close(number(answer(*circuits, mode)), value),
                f"in mode {mode!r}, scaling {which} should change nothing, and does: divide by the norms of the two "
                "circuits that you multiply.",
            )
        idle = "QK_r" if mode == "V" else "OV_r"
        circuits = (OV_w, QK_r.flip(0), OV_r) if mode == "V" else (OV_w, QK_r, OV_r.flip(0))
        demand(
            close(number(answer(*circuits, mode)), value),
            f"in mode {mode!r}, another {idle} should change nothing, and does: what is read in this mode?",
        )
    for mode, part in (("Q", "queries2"), ("K", "keys2"), ("V", "reads2")):
        _sees_planted(answer, mode, part)
    for d, r in ((9, 2), (16, 5)):
        OV_w, QK_r, OV_r = (random(d, r, seed=s) @ random(r, d, seed=s + 3) for s in range(3))
        for mode, second in _reading(QK_r, OV_r).items():
            value = number(answer(OV_w, QK_r, OV_r, mode))
            demand(value <= 1, f"the score should never be above 1, and is {value:.2f}.")
            demand(
                close(value, _ratio(OV_w, second)),
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
        f"the reader's {'values' if mode == 'V' else part[:-1]} read exactly what the writer writes, and mode {mode!r} "
        "hardly sees it: which side of which circuit meets the stream?",
    )
    for other, what in (("queries2", "queries"), ("keys2", "keys"), ("reads2", "values")):
        demand(
            other == part or _planted(answer, mode, ("writes1", other)) < 2 * chance,
            f"mode {mode!r} should not react when it is the reader's {what} that read what the writer writes.",
        )
    for other in ("queries2", "keys2", "reads2", "writes2"):
        demand(
            _planted(answer, mode, ("reads1", other)) < 2 * chance,
            f"mode {mode!r} reacts to the directions that the writer reads: only what it writes can be read later.",
        )
    demand(
        _planted(answer, mode, ("writes1", "writes2")) < 2 * chance,
        f"mode {mode!r} reacts to both heads writing in the same directions: that is no composition.",
    )


def _reading(QK_r: Tensor, OV_r: Tensor) -> dict[str, Tensor]:
    return {"Q": QK_r, "K": QK_r.T, "V": OV_r}


def _ratio(first: Tensor, second: Tensor, norm: Any = "fro") -> Tensor:
    product, a, b = (torch.linalg.matrix_norm(m, norm) for m in (first @ second, first, second))
    return product / (a * b)


def _planted(answer: Answer, mode: str, same: tuple[str, str] = ("", "")) -> float:
    """The answer for random heads, two of whose directions are made the same."""
    names = ("reads1", "writes1", "queries2", "keys2", "reads2", "writes2")
    f = {name: torch.linalg.qr(random(64, 4, seed=seed)).Q for seed, name in enumerate(names)}
    if same != ("", ""):
        f[same[1]] = f[same[0]]
    OV_w, QK_r, OV_r = f["reads1"] @ f["writes1"].T, f["queries2"] @ f["keys2"].T, f["reads2"] @ f["writes2"].T
    return number(answer(OV_w, QK_r, OV_r, mode))


def _with(
    Q: Answer = lambda o, q, v: _ratio(o, q),
    K: Answer = lambda o, q, v: _ratio(o, q.T),
    V: Answer = lambda o, q, v: _ratio(o, v),
) -> Answer:
    return lambda OV_w, QK_r, OV_r, mode: {"Q": Q, "K": K, "V": V}[mode](OV_w, QK_r, OV_r)


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
    "OV_w transposed": (lambda o, q, v, mode: _score(o.T, q, v, mode), "mode 'Q' hardly sees it"),
    "everything transposed": (lambda o, q, v, mode: _score(o.T, q.T, v.T, mode), "the product in the other order"),
    "columns": (
        _with(lambda o, q, v: _ratio(q, o), lambda o, q, v: _ratio(q.T, o), lambda o, q, v: _ratio(v, o)),
        "the product in the other order",
    ),
    "V in the wrong order": (_with(V=lambda o, q, v: _ratio(v, o)), "mode 'V', that is the product in the other"),
    "Q in the wrong order": (_with(Q=lambda o, q, v: _ratio(q, o)), "mode 'Q', that is the product in the other"),
    "K in the wrong order": (_with(K=lambda o, q, v: _ratio(q.T, o)), "mode 'K', that is the product in the other"),
    "V with QK": (_with(V=lambda o, q, v: _ratio(o, q)), "in mode 'V', another QK_r should change nothing"),
    "the mode ignored": (lambda o, q, v, mode: _ratio(o, q), "in mode 'V', another QK_r should change nothing"),
    "all modes added": (
        lambda o, q, v, mode: sum(_score(o, q, v, m) for m in "QKV"),
        "in mode 'Q', another OV_r should change nothing",
    ),
    "either side": (
        _with(Q=lambda o, q, v: max(_ratio(o, q), _ratio(o, q.T))),
        "should not react when it is the reader's keys",
    ),
    "not divided": (_with(Q=lambda o, q, v: (o @ q).norm()), "in mode 'Q', that is the norm of the product"),
    "divided by one norm": (
        lambda o, q, v, mode: _score(o, q, v, mode) * o.norm(),
        "in mode 'Q', scaling OV_w should change nothing",
    ),
    "divided by another norm": (
        _with(V=lambda o, q, v: (o @ v).norm() / (o.norm() * q.norm())),
        "in mode 'V', scaling QK_r should change nothing",
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
    "OV_w changed": (_normalising, "it changes `o`, which it was given"),
}


@exercise
def one_door(answer: Answer) -> None:
    """`one_door(W_O, door) → (W_Q, W_K, W_V)`: a reader that reads what the writer writes through one door only."""
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
        f"door {door!r}: W_{door} reads nothing of what the writer writes, and should read it all.",
    )
    demand(
        other.norm() < 1e-3 * W.norm(),
        f"door {door!r}: W_{door} also reads directions that the writer does not write: build its columns from the "
        "rows of W_O.",
    )


def _reads_nothing(written: Tensor, W: Tensor, door: str, name: str) -> None:
    share = (written @ W).norm() / (written.norm() * W.norm())
    demand(
        share < 1e-3,
        f"door {door!r}: W_{name} should read nothing of what the writer writes, but W_O @ W_{name} is not 0: take "
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
    "always the keys": (lambda W_O, door: _planted_head(W_O, "K"), "W_Q reads nothing of what the writer writes"),
    "queries and keys swapped": (
        lambda W_O, door: _planted_head(W_O, {"Q": "K", "K": "Q", "V": "V"}[door]),
        "W_Q reads nothing of what the writer writes",
    ),
    "all doors read": (lambda W_O, door: (W_O.T,) * 3, "W_K should read nothing of what the writer writes"),
    "the others random": (
        _door(wrong=lambda w: random(*w.T.shape, seed=4)),
        "W_K should read nothing of what the writer writes",
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
        "also reads directions that the writer does not write",
    ),
    "random at the door": (
        _door(right=lambda w: random(*w.T.shape, seed=4)),
        "also reads directions that the writer does not write",
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
        for changes, sentence in _wrong_cuts(door, instead):
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


def _wrong_cuts(door: str, instead: Tensor) -> list[tuple[dict[str, Any], str]]:
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
        (
            {"out": -1, "instead": -instead},
            "the change has the wrong sign: `instead` minus what layer 0 wrote is added.",
        ),
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
