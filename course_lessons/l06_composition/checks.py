"""Checks of lesson 06, two layers: each exercise, and what each typical mistake is told."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from course_lessons.fixtures import random
from course_utils.course import solutions
from course_utils.course.exercises import Answer, Said, compared
from course_utils.course.expectations import close, number, tensor


def _reads(
    names: str, n: int, d_model: int, d_head: int
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    parts = {name: random(n, d_model, seed=seed) for seed, name in enumerate(names.split())}
    return parts, random(d_model, d_head, seed=8), random(d_model, d_head, seed=9)


def _other_terms(got: Mapping, right: Mapping, parts: Mapping, W_Q: Tensor, W_K: Tensor) -> Said:
    missing = [pair for pair in right if pair not in got]
    extra = [key for key in got if key not in right]
    if missing:
        had = f" You have {extra[0]!r}." if extra and len(repr(extra[0])) < 40 else ""
        return f"{len(missing)} of {len(right)} keys are missing, such as {missing[0]}.{had}"
    if extra:
        return f"there are keys that should not be there, such as {extra[0]}."
    if any(isinstance(term, Tensor) and term.isneginf().any() for term in got.values()):
        return "there is −∞ in the terms: they are asked for before the mask."
    given = [tensor(got[pair], tuple(term.shape), "[dest, src]") for pair, term in right.items()]
    theirs = torch.stack(given)
    terms = torch.stack([*right.values()])
    if len(parts) == 3:
        return None
    ratio = ((theirs * terms).sum() / terms.square().sum()).item()
    ahead = theirs.triu(1).any()
    sum_to_1 = close(theirs.sum(-1), 1.0)
    times = close(theirs, ratio * terms)
    wrong = next(pair for pair, *both in zip(right, theirs, terms, strict=True) if not close(*both))
    return {
        "all terms are 0 above the diagonal: they are asked for before the mask.": not ahead,
        "each term's rows sum to 1, as probabilities do: scores come before the softmax.": sum_to_1,
        f"every term is {ratio:.2f} times what it should be: "
        "scores are divided by √d_head, once.": times,
        f"the term {wrong} is not what these two parts contribute to the score.": True,
    }


_terms = solutions.answer("qk_terms")
qk_terms = compared(
    "`qk_terms(parts, W_Q, W_K) → {(q_part, k_part): [n, n]}`: the scores of a head, part by part.",
    returns="a dictionary",
    cases=lambda: {
        "these are not the terms of the scores.": _reads("embed pos 0.0 0.1 0.2", 7, 10, 4),
        "for another head, of d_head 9 and with 3 parts, the terms are wrong.": _reads(
            "embed 0.0 0.1", 6, 8, 9
        ),
    },
    mistakes={
        "the first name of a key should be the query's part.": lambda *given: {
            (b, a): term for (a, b), term in _terms(*given).items()
        },
        "the destination, where the query is, should be on the rows.": lambda *given: {
            pair: term.T for pair, term in _terms(*given).items()
        },
        "queries and keys have changed places: W_Q reads at the destination, W_K at the source.": (
            lambda s, W_Q, W_K: _terms(s, W_K, W_Q)
        ),
        "keys are made with W_K; in yours W_Q stands on both sides.": lambda s, W_Q, W_K: _terms(
            s, W_Q, W_Q
        ),
        "queries are made with W_Q; in yours W_K stands on both sides.": lambda s, W_Q, W_K: _terms(
            s, W_K, W_K
        ),
    },
    explain=_other_terms,
)


READS = {"Q": "queries", "K": "keys", "V": "values"}


def _score_cases() -> dict[str, Any]:
    names = ("read first", "written first", *READS.values(), "written second")
    size = torch.tensor([0.5, 1, 1.5, 2])  # of each direction
    free = {
        name: torch.linalg.qr(random(64, 4, seed=seed)).Q * size for seed, name in enumerate(names)
    }

    def planted(mode: str, first: str, second: str) -> tuple:
        reads, writes, queries, keys, values, written = (free | {second: free[first]}).values()
        return 3 * reads @ writes.T, queries @ keys.T / 2, values @ written.T, mode

    cases: dict[str, Any] = {}
    for mode, part in READS.items():
        hardly = (
            f"the later head's {part} read exactly what the earlier head writes, "
            f"and mode {mode!r} hardly sees it"
        )
        cases[f"{hardly}: which side of which circuit meets the stream?"] = planted(
            mode, "written first", part
        )
        for other in (other for other in READS.values() if other != part):
            react = (
                f"mode {mode!r} should not react when it is the "
                f"later head's {other} that read what the earlier head writes."
            )
            cases[react] = planted(mode, "written first", other)
        early = (
            f"mode {mode!r} reacts to the directions that the earlier head reads: "
            "only what it writes can be read later."
        )
        cases[early] = [planted(mode, "read first", other) for other in names[2:]]
        alike = (
            f"mode {mode!r} reacts to both heads writing in the same directions: "
            "that is no composition."
        )
        cases[alike] = planted(mode, "written first", "written second")
    cases["it is not the ratio of Frobenius norms."] = [
        (*(random(d, r, seed=s) @ random(r, d, seed=s + 3) for s in range(3)), mode)
        for (d, r), mode in itertools.product(((9, 2), (16, 5)), READS)
    ]
    return cases


def _other_score(
    got: float, right: float, OV_w: Tensor, QK_r: Tensor, OV_r: Tensor, mode: str
) -> Said:
    norms = (
        f"the ratio of Frobenius norms (d_model {len(OV_w)}): "
        "the root of the sum of all squared entries."
    )
    # else it misses what is planted, or sees it where it should not
    near = right / 2 < got < right * 2
    return {
        f"a ratio of norms is above 0; in mode {mode!r} yours is {got:.3f}.": got <= 0,
        f"the score should never be above 1, and is {got:.2f}.": got > 1,
        f"mode {mode!r} finds the planted pairs, but {got:.3f} is not {norms}": near,
    }


def _ratio(first: Tensor, second: Tensor, norm: Any = "fro") -> Any:
    size = norm if callable(norm) else lambda M: torch.linalg.matrix_norm(M, norm)
    return size(first @ second) / (size(first) * size(second))


def _in(modes: str, wrong: Callable[..., Any]) -> Answer:
    """An answer that is right in the other modes.

    `wrong` gets what is written, what is read in this mode, the third circuit, the score.
    """

    def answer(o: Tensor, q: Tensor, v: Tensor, mode: str) -> Any:
        read, idle = {"Q": (q, v), "K": (q.T, v), "V": (v, q)}[mode]
        score = _ratio(o, read)
        return wrong(o, read, idle, score) if mode in modes else score

    return answer


def _mistakes_in(mode: str, read: str, idle: str) -> dict[str, Answer]:
    """What an answer is told that is wrong in one mode alone.

    There the circuit `read` meets what is written, and the circuit `idle` stands aside.
    """
    norm = "that is the norm of the product, not yet divided by the norms of its factors."
    order = (
        "that is the product in the other order: the earlier head comes first, OV_w on the left."
    )
    brackets = "divide by both norms: their product needs brackets, a / (b * c)."
    square = "that is the square of the score."
    minus = "the chance level is not subtracted: it is what you compare the score with."
    times = "the score is not divided by the chance level: that is what you compare it with."
    largest = "that is the ratio of largest singular values; take Frobenius norms."
    nuclear = "that is the ratio of sums of singular values; take Frobenius norms."
    entries = "that is the ratio of sums of absolute entries; take Frobenius norms."
    no_change = "should change nothing, and does"
    norms = "divide by the norms of the two circuits that you multiply."
    another = f"another {idle} {no_change}: what is read in this mode?"
    wrong: dict[str, Callable[..., Any]] = {  # of what is written, read and idle, and the score
        norm: lambda o, r, i, score: (o @ r).norm(),
        order: lambda o, r, i, score: _ratio(r, o),
        brackets: lambda o, r, i, score: (o @ r).norm() / o.norm() * r.norm(),
        square: lambda o, r, i, score: score**2,
        minus: lambda o, r, i, score: score - len(o) ** -0.5,
        times: lambda o, r, i, score: score * len(o) ** 0.5,
        largest: lambda o, r, i, score: _ratio(o, r, 2),
        nuclear: lambda o, r, i, score: _ratio(o, r, "nuc"),
        entries: lambda o, r, i, score: _ratio(o, r, lambda M: M.abs().sum()),
        f"scaling OV_w {no_change}: {norms}": lambda o, r, i, score: (o @ r).norm() / r.norm(),
        f"scaling {read} {no_change}: {norms}": lambda o, r, i, score: (o @ r).norm() / o.norm(),
        f"scaling {idle} {no_change}: {norms}": lambda o, r, i, score: (
            (o @ r).norm() / (o.norm() * i.norm())
        ),
        another: lambda o, r, i, score: _ratio(o, i),
    }
    return {f"in mode {mode!r}, {sentence}": _in(mode, score) for sentence, score in wrong.items()}


# Q and K exchanged, as who writes vectors as columns has them
COLUMNS = "Elhage et al. transpose for Q, since they write columns. Our vectors are rows, so"
OTHER_SIDE = {
    f"mode 'Q' reads the side of the keys. {COLUMNS} queries meet QK_r on its left.": _in(
        "Q", lambda o, r, idle, score: min(_ratio(o, r.T), score)
    ),
    f"mode 'K' reads the side of the queries. {COLUMNS} keys meet QK_r transposed.": _in(
        "K", lambda o, r, idle, score: min(_ratio(o, r.T), score)
    ),
}
composition = compared(
    "`composition(OV_w, QK_r, OV_r, mode) → float`: "
    "how much of what the earlier head writes, the later one reads.",
    as_read=number,
    cases=_score_cases,
    mistakes=OTHER_SIDE
    | _mistakes_in("Q", read="QK_r", idle="OV_r")
    | _mistakes_in("K", read="QK_r", idle="OV_r")
    | _mistakes_in("V", read="OV_r", idle="QK_r"),
    explain=_other_score,
)
