"""Checks of lesson 06, two layers: each exercise, and what each typical mistake is told."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random, tiny_model
from course_utils.course import solutions
from course_utils.course.exercises import Answer, Said, compared, judged
from course_utils.course.expectations import close, demand, number, tensor
from course_utils.interventions import cut


def _moving_cases() -> dict[str, tuple]:
    x, one, nothing, here = random(6, 5), torch.eye(5), torch.zeros(5, 5), torch.eye(6)
    OV_w, OV_r = random(5, 5, seed=1), random(5, 5, seed=2)
    before = here[[0, 0, 1, 2, 3, 4]]  # looks at the token before
    back = here[[0, 0, 1, 1, 1, 3]]  # looks back by another number of steps at each position
    empty = "writes nothing, a virtual head has nothing to move, but here something arrives."
    left = "should be left: rows times matrix."
    cases = {
        f"when the writer {empty}": (x, before, nothing, back, one),
        f"when the reader {empty}": (x, before, one, back, nothing),
        f"{PATH}.": (x, before, one, back, one),
        f"if nothing moves and OV_r changes nothing, x OV_w {left}": (x, here, OV_w, here, one),
        f"if nothing moves and OV_w changes nothing, x OV_r {left}": (x, here, one, here, OV_r),
        "if nothing is moved, the two circuits should act one after the other on x.": (
            x,
            here,
            OV_w,
            here,
            OV_r,
        ),
    }
    for n, d in ((6, 5), (4, 7), (1, 3)):
        sizes = f"({n} positions, d_model {d}): every source counts, by its weight."
        # causal patterns
        A_w, A_r = (normalize(random(n, n, seed=seed).exp().tril(), p=1) for seed in (3, 4))
        given = (random(n, d), A_w, random(d, d, seed=1), A_r, random(d, d, seed=2))
        cases[f"where heads attend to several positions, the numbers are wrong {sizes}"] = given
    return cases


PATH = (
    "the reader looks from position 5 to 3, the writer from 3 to 2: "
    "what stood at 2 should arrive at 5"
)
ONE_ROW = "one position gets what it should, others do not: go on row by row."
virtual_head = compared(
    "`virtual_head(x, A_w, OV_w, A_r, OV_r) → [pos, d_model]`: what a head of a head moves.",
    returns="[pos, d_model]",
    cases=_moving_cases,
    mistakes={
        "in row form the circuit that acts first stands next to x.": lambda x, A, V, B, W: (
            B @ A @ x @ W @ V
        ),
        f"{PATH}; yours goes through the writer's pattern first, on the way back from 5.": (
            lambda x, A, V, B, W: A @ B @ x @ V @ W,
            lambda x, A, V, B, W: A @ B @ x @ W @ V,
        ),
        f"{PATH}; yours leaves out the writer's pattern.": lambda x, A, V, B, W: B @ x @ V @ W,
        f"{PATH}; yours leaves out the reader's pattern.": lambda x, A, V, B, W: A @ x @ V @ W,
        f"{PATH}; a pattern has the destination on its rows, and seems transposed in yours.": (
            lambda x, A, V, B, W: B.T @ A.T @ x @ V @ W,
            lambda x, A, V, B, W: (B @ A).T @ x @ V @ W,
        ),
    },
    explain=lambda got, right, *given: ONE_ROW if close(got[-1], right[-1]) else None,
)


def _reads(
    names: str, n: int, d_model: int, d_head: int
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    sources = {name: random(n, d_model, seed=seed) for seed, name in enumerate(names.split())}
    return sources, random(d_model, d_head, seed=8), random(d_model, d_head, seed=9)


def _other_terms(got: Mapping, right: Mapping, sources: Mapping, W_Q: Tensor, W_K: Tensor) -> Said:
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
    if len(sources) == 3:
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
        f"the term {wrong} is not what these two sources contribute to the score.": True,
    }


_terms = solutions.answer("qk_terms")
qk_terms = compared(
    "`qk_terms(sources, W_Q, W_K) → {(q_source, k_source): "
    "[n, n]}`: the scores of a head, source by source.",
    returns="a dictionary",
    cases=lambda: {
        "these are not the terms of the scores.": _reads("embed pos 0.0 0.1 0.2", 7, 10, 4),
        "for another head, of d_head 9 and with 3 sources, the terms are wrong.": _reads(
            "embed 0.0 0.1", 6, 8, 9
        ),
    },
    mistakes={
        "the first name of a key should be the query's source.": lambda *given: {
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
            f"the reader's {part} read exactly what the writer writes, "
            f"and mode {mode!r} hardly sees it"
        )
        cases[f"{hardly}: which side of which circuit meets the stream?"] = planted(
            mode, "written first", part
        )
        for other in (other for other in READS.values() if other != part):
            react = (
                f"mode {mode!r} should not react when it is the "
                f"reader's {other} that read what the writer writes."
            )
            cases[react] = planted(mode, "written first", other)
        early = (
            f"mode {mode!r} reacts to the directions that the writer reads: "
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

    There the circuit `read` meets what the writer writes, and the circuit `idle` stands aside.
    """
    norm = "that is the norm of the product, not yet divided by the norms of its factors."
    order = "that is the product in the other order: the writer comes first, OV_w on the left."
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


composition = compared(
    "`composition(OV_w, QK_r, OV_r, mode) → float`: "
    "how much of what the writer writes, the reader reads.",
    as_read=number,
    cases=_score_cases,
    mistakes=_mistakes_in("Q", read="QK_r", idle="OV_r")
    | _mistakes_in("K", read="QK_r", idle="OV_r")
    | _mistakes_in("V", read="OV_r", idle="QK_r"),
    explain=_other_score,
)


@judged
def one_door(answer: Answer) -> None:
    """`one_door(W_O, door) → (W_Q, W_K, W_V)`: the writer is read through one door only.

    Any that do so are right.
    """
    for d_head, d_model, seed in ((3, 10, 0), (2, 9, 5), (1, 4, 8)):
        written = random(d_head, d_model, seed=seed)
        for door in READS:
            weights = answer(written, door)
            is_three = isinstance(weights, tuple | list) and len(weights) == 3
            demand(is_three, "it should return three matrices: W_Q, W_K and W_V.")
            for name, W in zip(READS, weights, strict=True):
                W = tensor(W, (d_model, d_head), f"W_{name} is [d_model, d_head]")
                share = (written @ W).norm() / (written.norm() * W.norm())
                beyond = W - torch.linalg.pinv(written) @ written @ W
                rank = torch.linalg.matrix_rank(W, rtol=1e-3)
                is_door = name == door
                for sentence, is_so in {
                    f"W_{name} has less than rank {d_head}: its columns should be independent, "
                    "so that no part of the head is idle.": rank < d_head,
                    f"W_{name} should read nothing of what the writer writes, "
                    f"but W_O @ W_{name} is not 0: take what lies along "
                    "the rows of W_O out of its columns, all of it.": not is_door and share >= 1e-3,
                    f"W_{name} reads nothing of what the writer writes, "
                    "and should read it all.": is_door and close(W, beyond),
                    f"W_{name} also reads directions that the writer does not write: build its "
                    "columns from the rows of W_O.": is_door and beyond.norm() >= 1e-3 * W.norm(),
                }.items():
                    demand(not is_so, f"door {door!r}: {sentence}")


def _with(read: Callable[..., Tensor] = lambda instead, *_: instead, **changes: Any) -> Answer:
    """Our own answer, called with other arguments.

    `instead` is `read(instead, written by layer 0, embedding, positions, door)`.
    """

    def answer(
        model: HookedTransformer, tokens: Tensor, door: str, who: list[int], instead: Tensor
    ) -> Tensor:
        _, cache = model.run_with_cache(tokens)
        x0 = cache["embed"]
        new = read(instead, cache["resid_pre", 1] - x0, x0, model.W_pos[: tokens.shape[1]], door)
        return solutions.find("shut").function(
            model, tokens, **{"door": door, "who": who, "instead": new} | changes
        )

    return answer


def _by_heads(
    model: HookedTransformer, tokens: Tensor, doors: str, who: list[int], instead: Tensor
) -> Tensor:
    """Other z of the writers, that together write `instead`.

    It stands behind all of these doors from all of them.
    """
    z = (instead @ torch.linalg.pinv(model.W_O[0].flatten(0, 1))).view(model.cfg.n_heads, -1)
    shut_doors = itertools.product(
        [(0, writer) for writer in range(len(z))], doors.lower(), [(1, one) for one in who]
    )
    with cut(model, *shut_doors, instead={(0, writer): z[writer] for writer in range(len(z))}):
        return model(tokens, return_type="loss")


WRONG_CUTS: dict[str, Answer] = {
    "the positions are gone, which queries and keys still read.": _with(
        lambda i, w, x, p, at: i - (at != "V") * p
    ),
    "values read no positions.": _with(lambda i, w, x, p, at: i + (at == "V") * p),
    "that is the model's own loss: "
    "does your hook return what it changed, and under the right name?": _with(who=[]),
    "all heads of layer 1 are shut off; only those in `who` should be.": _with(who=[0, 1, 2]),
    "that is what becomes of head 1.0.": _with(who=[0]),
    "`instead` is not read: what layer 0 wrote is taken out, and nothing put in its place.": _with(
        instead=0
    ),
    "`instead` is added, but what layer 0 wrote is read as well.": _with(lambda i, w, *_: i + w),
    "what layer 0 wrote is read twice: take it away.": _with(lambda i, w, *_: i + 2 * w),
    "the change has the wrong sign: `instead` minus what layer 0 wrote is added.": _with(
        lambda i, w, *_: 2 * w - i
    ),
    "the embedding is taken out too; only what layer 0 wrote should be.": _with(
        lambda i, w, x, *_: i - x
    ),
    "the stream itself has changed, so later parts miss it too; change what one door reads.": (
        lambda m, t, door, who, instead: m.run_with_hooks(
            t,
            return_type="loss",
            fwd_hooks=[("blocks.1.hook_resid_pre", lambda x, hook: m.embed(t) + instead)],
        )
    ),
    "all three doors are shut; only one should be.": lambda m, t, door, *of: _by_heads(
        m, t, "QKV", *of
    ),
    **{f"that is what shutting door {door!r} does.": _with(door=door) for door in READS},
}


def _other_loss(
    got: float, right: float, model: HookedTransformer, tokens: Tensor, *of: Any
) -> str | None:
    if model.cfg.n_heads == 4:
        return None
    head, own = f"door {of[0]!r}, head 1.1:", model(tokens, return_type="loss")
    for sentence, wrong in WRONG_CUTS.items():
        # with one key at every source, the softmax sees no difference
        guess = wrong(model, tokens, *of)
        if close(got, guess) and not close(guess, right):
            return f"{head} {sentence}"
    sums = (
        "Only the sum that this door reads should change: "
        "what layer 0 wrote goes out, `instead` comes in."
    )
    return (
        f"{head} the loss is {got:.3f}, and that of the model as it is would be {own:.3f}. {sums}"
    )


def _shut_cases() -> dict[str, Any]:
    tokens = torch.tensor([[0, 7, 3, 11, 3, 19, 5, 2], [0, 4, 4, 13, 1, 7, 3, 12]])
    other = tiny_model(0.4, n_heads=4, d_head=3, d_model=8, n_ctx=11, d_vocab=15)
    cases = {
        "it is another loss.": [
            (tiny_model(), tokens, door, [1], random(10, seed=20)) for door in READS
        ]
    }
    for door, who in (("Q", [0, 2]), ("K", [3]), ("V", [0, 1, 2, 3]), ("V", [])):
        for instead, zeros in ((random(8, seed=21), ""), (torch.zeros(8), ", `instead` all zeros")):
            fails = (
                "the loss is wrong for another model: "
                f"of 4 heads, door {door!r} of the heads {who}{zeros}."
            )
            cases[fails] = [(other, torch.tensor([[0, 3, 9, 14, 2, 2]]), door, who, instead)]
    return cases


shut = compared(
    "`shut(model, tokens, door, who, instead) → float`: "
    "the loss when heads of layer 1 cannot read layer 0 there.",
    as_read=number,
    cases=_shut_cases,
    explain=_other_loss,
)
