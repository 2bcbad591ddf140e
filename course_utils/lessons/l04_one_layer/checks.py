"""Checks of lesson 04, one layer: each exercise, with its typical mistakes and the sentence that each gets."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import circuits, heads, interventions, paths
from course_utils.course.exercises import Answer, Cases, compared, judged
from course_utils.course.fixtures import random, tiny_model
from course_utils.course.questions import Unfit, Wrong, close, demand, pair, tensor

OTHER = {"n_layers": 1, "n_heads": 2, "d_head": 7, "d_vocab": 13, "d_model": 8}


def _why_terms(got: list[Tensor], right: list[Tensor], model: HookedTransformer, tokens: Tensor) -> str | None:
    (direct, terms), (right_direct, right_terms) = got, right
    if len(tokens) < 6:  # the second case, which has a sentence of its own
        return None
    if not close(direct, right_direct):
        if close(direct, right_direct + right_terms.sum(0)):
            return "these are the model's logits, all paths together: the direct path is one of them."
        if close(direct, (model.W_E[tokens] + model.W_pos[: len(tokens)]) @ model.W_U):
            return (
                "positions are in your direct path: this model adds them to queries and keys only, never to the stream."
            )
        if close(direct[1], direct[3]) and close(direct[2], direct[5]):
            return "the direct path is not the embedding times the unembedding."
        return (
            "the direct path sees the current token alone, but the same token gets two different rows: "
            "what else is in it?"
        )
    ratio = (terms.norm() / right_terms.norm()).item()
    if close(terms, ratio * right_terms):
        return f"the heads' terms are {ratio:.3g} times as large as what the heads add."
    if not close(terms[:, 0], right_terms[:, 0]):
        return "the first position can attend to itself alone, so each head's term there is one row of its OV table."
    if not close(terms.sum(0), right_terms.sum(0)):
        return (
            "the terms do not add up to the logits: is each pattern the model's own, as [dest, src], one for each head?"
        )
    return None


def _terms(
    change: Callable[[Tensor], Tensor] = lambda A: A,
    turn: Callable[[Tensor], Tensor] = lambda OV: OV,
    place: Callable[[Tensor], Tensor] = torch.zeros_like,
) -> Answer:
    """An answer that changes the patterns, [head, dest, src], or OV, or adds what `place` makes of W_pos to values."""

    def answer(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x, A = model.W_E[tokens], heads.patterns(model, tokens[None])[0, :, 0]
        values = x + place(model.W_pos[: len(x)])
        return x @ model.W_U, change(A) @ values @ turn(model.W_V[0] @ model.W_O[0]) @ model.W_U

    return answer


def _then(change: Callable[[Tensor, Tensor], Any]) -> Answer:
    return lambda model, tokens: change(*paths.path_terms(model, tokens))


def _without_positions(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    bare = copy.deepcopy(model)
    bare.W_pos.data.zero_()
    return paths.path_terms(bare, tokens)


def _row_by_row(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    (A,), terms = model.run_with_cache(tokens)[1]["pattern", 0], [0 * model(tokens)[0]] * model.cfg.n_heads
    for head in range(model.cfg.n_heads):
        for src, token in enumerate(tokens):
            terms[head] = terms[head] + A[head, :, src, None] * circuits.full_ov(model, 0, head).AB[token]
    return torch.stack([model.W_E[token] @ model.W_U for token in tokens]), torch.stack(terms)


def _by_cutting(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    terms = []
    for head in range(model.cfg.n_heads):
        with interventions.cut(model, (0, head)):
            terms.append(model(tokens[None])[0])
    logits = model(tokens[None])[0]
    return sum(terms) - (len(terms) - 1) * logits, logits - torch.stack(terms)


def _from_z(model: HookedTransformer, tokens: Tensor) -> list[Any]:
    _, cache = model.run_with_cache(tokens)
    W_O, W_U = model.W_O[0].double(), model.W_U.double()
    terms = torch.einsum("phd,hdm,mv->hpv", cache["z", 0][0].double(), W_O, W_U)
    return [cache["embed"][0].double() @ W_U, terms.numpy()]


path_terms = compared(
    "`path_terms(model, tokens) → direct [n, V], heads [h, n, V]`: what each path adds to the logits.",
    returns=("[pos, d_vocab] for the direct path", "[head, pos, d_vocab] for the heads"),
    cases=lambda: {
        "the sum is right, but not what each head adds to it.": (
            tiny_model(0.6, n_layers=1),
            torch.tensor([0, 7, 3, 7, 11, 3]),
        ),
        "it is right for one small model, and wrong for another with other sizes and three tokens.": (
            tiny_model(0.6, **OTHER),
            torch.tensor([0, 12, 5]),
        ),
    },
    explain=_why_terms,
    mistakes={
        "each head's term holds the direct path too: it would be counted four times.": _then(lambda d, h: (d, h + d)),
        "positions are in your values: this model adds them to queries and keys only.": _terms(place=torch.clone),
        "your pattern is transposed: it is [dest, src], and a head sums over sources.": _terms(lambda A: A.mT),
        "these are the right terms in another order of heads.": _then(lambda d, h: (d, h.roll(-1, 0))),
        "these are the right terms, with the heads in another order.": _then(lambda d, h: (d, h.roll(1, 0))),
        "the heads stand in reverse.": _then(lambda d, h: (d, h.flip(0))),
        "W_V W_O is transposed: a row x goes through W_V first, then W_O.": _terms(turn=lambda OV: OV.mT),
        "each position gets its own row of OV: no head has moved anything.": _terms(
            lambda A: torch.eye(A.shape[-1]).expand_as(A)
        ),
        "this leaves positions out of the pattern; the scores hold them.": _without_positions,
    },
    elsewhere={
        "these are the model's logits, all paths together": _then(lambda d, h: (d + h.sum(0), h)),
        "positions are in your direct path": lambda m, t: (
            (m.W_E[t] + m.W_pos[: len(t)]) @ m.W_U,
            _terms(place=torch.clone)(m, t)[1],
        ),
        "the same token gets two different rows": _then(lambda d, h: (d + h[0], h)),
        "is not the embedding times the unembedding": _then(lambda d, h: (d.softmax(-1), h)),
        "0.333 times as large as what the heads add": _then(lambda d, h: (d, h / len(h))),
        "the first position can attend to itself alone": _then(lambda d, h: (d, h.mean(0).expand_as(h))),
        "the terms do not add up to the logits": _terms(lambda A: A[:1].expand_as(A)),
        "the sum is right, but not what each head": _then(lambda d, h: (d, torch.cat([h[:, :1], h.flip(0)[:, 1:]], 1))),
        "it is right for one small model": _then(lambda d, h: (d, h * 3 / len(h))),
        "it should return two things": lambda m, t: m(t[None])[0],
    },
    also_right={
        "row by row of the tables": _row_by_row,
        "what is lost when a head is cut": _by_cutting,
        "from z, in float64": _from_z,
    },
)


PATTERN = "blocks.0.attn.hook_pattern"
Change = Callable[[Tensor, Tensor], Tensor]  # of a head's pattern, [batch, dest, src], and the identity, [dest, src]


def _looking(change: Change, which: Callable[[int], int | slice] = lambda head: head) -> Answer:
    def answer(model: HookedTransformer, tokens: Tensor, head: int) -> Tensor:
        A = model.run_with_cache(tokens)[1][PATTERN].clone()  # [batch, head, dest, src]
        A[:, which(head)] = change(A[:, which(head)], torch.eye(tokens.shape[1]))
        with interventions.patched(model, PATTERN, A):
            return model(tokens)

    return answer


def _why_not_fixed(got: Tensor, right: Tensor, model: HookedTransformer, tokens: Tensor, head: int) -> str | None:
    for other in range(model.cfg.n_heads):
        if close(got, _fixed(model, tokens, other)):
            return f"head {other} was forced, and head {head} was asked for."
    if close(got[:, 1:], right[:, 1:]):
        return "it is right from position 1 on; the start token itself can look at nothing else either."
    if close(got[:1], right[:1]):
        return "the first text of the batch is right and the second is not: force the head in every text."
    return None


def _first_text(A: Tensor, eye: Tensor) -> Tensor:
    return torch.cat([eye[:1].expand_as(A[:1]), A[1:]])


def _leaving_the_hook(model: HookedTransformer, tokens: Tensor, head: int) -> Tensor:
    model.add_hook(PATTERN, lambda pattern, hook: pattern)
    return _fixed(model, tokens, head)


def _by_the_scores(model: HookedTransformer, tokens: Tensor, head: int) -> Tensor:
    def hide(scores: Tensor, hook: Any) -> Tensor:
        scores[:, head, :, 1:] = -torch.inf
        return scores

    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_attn_scores", hide)]):
        return model(tokens)


def _by_the_terms(model: HookedTransformer, tokens: Tensor, head: int) -> Tensor:
    with interventions.cut(model, (0, head)):
        return model(tokens) + (circuits.full_ov(model, 0, head).AB[tokens[:, :1]])


def _by_z(model: HookedTransformer, tokens: Tensor, head: int) -> Any:
    z = (model.W_E[tokens[:, 0]] @ model.W_V[0, head])[:, None].expand(*tokens.shape, -1)
    with interventions.cut(model, (0, head), instead={(0, head): z}):
        return model(tokens).double().numpy()


_fixed = _looking(lambda A, eye: eye[0])
fixed_on_start = compared(
    "`fixed_on_start(model, tokens, head) → [batch, pos, d_vocab]`: one head looks at the start token only.",
    returns="logits [batch, pos, d_vocab]",
    cases=lambda: (
        {
            f"the logits are not those of the model with head {head} looking at the start token only.": (
                tiny_model(0.6, n_layers=1),
                torch.tensor([[0, 7, 3, 7, 11], [0, 5, 19, 2, 2]]),
                head,
            )
            for head in (1, 0)
        }
        | {
            "it is right for one small model, and wrong for another with other sizes and one text of three tokens.": (
                tiny_model(0.6, **OTHER),
                torch.tensor([[0, 12, 5]]),
                1,
            )
        }
    ),
    explain=_why_not_fixed,
    mistakes={
        "these are the logits of the model as it was: has your hook run, and does it return the pattern?": (
            lambda m, t, h: m(t)
        ),
        "the head is silenced: it should go on attending, all of it to the start token.": _looking(
            lambda A, eye: 0 * A
        ),
        "the head still looks at other tokens too: set the rest of each row to 0.": _looking(
            lambda A, eye: A.maximum(eye[0])
        ),
        "sources and destinations are swapped: every row [dest] should be 1 followed by zeros.": _looking(
            lambda A, eye: eye[:, :1].expand_as(A)
        ),
        "the attention to the start token is as it was; the head should pay it all of its attention.": _looking(
            lambda A, eye: A * eye[0]
        ),
        "each position looks at itself; it should look at position 0.": _looking(lambda A, eye: eye),
        "all heads were forced; only the head asked for should be.": _looking(
            lambda A, eye: eye[0], lambda head: slice(None)
        ),
        "the head looks at position 1; the start token stands at position 0.": _looking(lambda A, eye: eye[1]),
        "the head looks at the last position; the start token stands at position 0.": _looking(lambda A, eye: eye[-1]),
        "these are probabilities; asked for are the logits.": lambda *a: _fixed(*a).softmax(-1),
        "these are log-probabilities; asked for are logits.": lambda *a: _fixed(*a).log_softmax(-1),
    },
    elsewhere={
        "head 2 was forced, and head 1 was asked for.": lambda m, t, h: _fixed(m, t, (h + 1) % m.cfg.n_heads),
        "head 1 was forced, and head 0 was asked for.": lambda m, t, h: _fixed(m, t, 1),
        "it is right from position 1 on": _looking(lambda A, eye: A * 0 + eye[0] * (1 - eye[0])[:, None]),
        "force the head in every text": _looking(_first_text),
        "it is right for one small model": lambda m, t, h: _fixed(m, t, h) * (len(t) > 1),
        "it leaves a hook": _leaving_the_hook,
    },
    also_right={"all scores but one hidden": _by_the_scores, "a term added": _by_the_terms, "z instead": _by_z},
)


Row = Callable[[HookedTransformer, int, int], Tensor]  # of a model, a head and a source: a number for each token


def _QK(model: HookedTransformer, head: int) -> Tensor:
    return circuits.full_qk(model, 0, head).AB  # [dest, src]


def _OV(model: HookedTransformer, head: int) -> Tensor:
    return circuits.full_ov(model, 0, head).AB  # [src, out]


def _relative(model: HookedTransformer, head: int, source: int) -> Tensor:
    table = _QK(model, head)
    return (table - table.mean(1, keepdim=True))[:, source]


def _promoted(model: HookedTransformer, head: int, source: int) -> Tensor:
    return _OV(model, head)[source]


def _direct(model: HookedTransformer, head: int, source: int) -> Tensor:
    return model.W_E[source] @ model.W_U


def _key_less_its_own_mean(model: HookedTransformer, head: int, source: int) -> Tensor:
    key = model.W_E[source] @ model.W_K[0, head]
    return model.W_E @ model.W_Q[0, head] @ (key - key.mean())


OUTS: dict[str, Row] = {  # what wrong outs are the largest entries of
    "these outs belong to head 0; head 1 was asked for.": lambda m, h, s: _promoted(m, 0, s),
    "these outs belong to head 2; head 1 was asked for.": lambda m, h, s: _promoted(m, 2, s),
    "these tokens promote the source; the source is on the rows of OV.": lambda m, h, s: _OV(m, h)[:, s],
    "these are the outs that the head lowers most.": lambda *a: -_promoted(*a),
    "these outs are the largest by size; asked for are those that gain most.": lambda *a: _promoted(*a).abs(),
    "your outs are the direct path's: follow the source through W_V and W_O.": _direct,
    "the direct path is in your outs: asked for is what this head adds.": lambda *a: _direct(*a) + _promoted(*a),
}
SOURCES = "these are the sources that this token looks for as a destination"
DESTS: dict[str, Row] = {  # and wrong destinations
    f"{SOURCES}: QK is [dest, src], take a column.": lambda m, h, s: _QK(m, h)[s],
    f"{SOURCES}, centred: QK is [dest, src], take a column.": lambda m, h, s: (_QK(m, h) - _QK(m, h).mean(0))[s],
    f"{SOURCES}, less other rows' means: QK is [dest, src].": lambda m, h, s: (_QK(m, h) - _QK(m, h).mean(1))[s],
    "these are the destinations that look for the source least.": lambda *a: -_relative(*a),
    "these scores are the largest by size; a negative one means less attention.": lambda *a: _relative(*a).abs(),
    "these are ranked by probability; asked for is the score, less its row's mean.": (
        lambda m, h, s: _QK(m, h).softmax(1)[:, s]
    ),
    "that is a mean over d_head; the mean key is a mean over tokens, `keys.mean(0)`.": _key_less_its_own_mean,
    "what is the same for every source changes no pattern, but it changed your destinations. Subtract from each "
    "score the mean of its row first (its column's mean changes no order).": lambda m, h, s: _QK(m, h)[:, s],
}


def _ids(ends: Any) -> tuple[Any, ...]:
    """Destinations and outs, tensors or lists of whole numbers, as tensors."""
    found = []
    for ids, name in zip(pair(ends, "destinations and outs"), ("destinations", "outs"), strict=True):
        if isinstance(ids, tuple) and hasattr(ids, "indices"):
            raise Wrong("`topk` gives values and indices: return its `.indices`.")
        found.append(torch.as_tensor(ids) if isinstance(ids, list | tuple) else ids)
        if isinstance(found[-1], Tensor) and found[-1].is_floating_point():
            raise Wrong(f"the {name} should be token ids, which are integers.")
    return tuple(found)


def _why_ids(got: list, right: list, model: HookedTransformer, head: int, source: int, k: int) -> str | None:
    if k != 4:  # the other cases have a sentence of their own
        return None
    for part, rows, name, otherwise in (
        (1, OUTS, "outs", "the outs are not the largest entries of the source's row of OV."),
        (0, DESTS, "destinations", "the destinations are not those with the largest relative score."),
    ):
        ids, best = got[part].tolist(), right[part].tolist()
        if ids == best:
            continue
        for sentence, row in rows.items():
            if ids == row(model, head, source).topk(k).indices.tolist():
                return sentence
        if sorted(ids) == sorted(best):
            return f"the {name} are the right ones, but the largest should come first."
        return otherwise
    return None


def _asked() -> Cases:
    model, other = tiny_model(0.6, n_layers=1), tiny_model(0.6, **OTHER | {"n_heads": 4})
    model.W_E[:, 0] = 1  # so that a row of W_K gives all keys something in common
    model.blocks[0].attn.W_K[1, 0] += 9 * random(4, seed=60)
    return {"the answer fails for head 1, source 4 and k = 4.": (model, 1, 4, 4)} | {
        f"it is right for one model and k = 4, but not for another with 13 tokens, head {head} and k = {k}.": (
            other,
            head,
            source,
            k,
        )
        for head, source, k in ((3, 12, 1), (0, 0, 13), (2, 5, 6))
    }


def _ranked(dests: Row = _relative, outs: Row = _promoted, end: Callable[..., Any] = lambda *ends: ends) -> Answer:
    return lambda m, h, s, k: end(dests(m, h, s).topk(k).indices, outs(m, h, s).topk(k).indices)


def _sorted_by_python(model: HookedTransformer, head: int, source: int, k: int) -> tuple[list, list]:
    QK, OV = _QK(model, head).tolist(), _OV(model, head).tolist()
    tokens = range(len(QK))
    dests = sorted(tokens, key=lambda token: sum(QK[token]) / len(QK) - QK[token][source])
    return dests[:k], sorted(tokens, key=lambda token: -OV[source][token])[:k]


def _by_numpy(model: HookedTransformer, head: int, source: int, k: int) -> Any:
    weights = (W.double().numpy() for W in (model.W_E, model.W_Q[0, head], model.W_K[0, head]))
    W_E, W_Q, W_K = weights
    scores = (W_E @ W_Q) @ ((W_E[source] - W_E.mean(0)) @ W_K)
    return (-scores).argsort()[:k], (-_promoted(model, head, source)).numpy().argsort()[:k]


skip_trigrams = compared(
    "`skip_trigrams(model, head, source, k) → dest ids [k], out ids [k]`: what one source token is for one head.",
    returns=("the ids of k destinations", "the ids of k outs"),
    cases=_asked,
    as_read=_ids,
    explain=_why_ids,
    mistakes={"these are the outs, then the destinations: turn them round.": _ranked(end=lambda d, o: (o, d))},
    elsewhere={sentence: _ranked(outs=row) for sentence, row in OUTS.items()}
    | {sentence: _ranked(row) for sentence, row in DESTS.items()}
    | {
        "Subtract from each score the mean of its row first": _ranked(
            lambda m, h, s: (_QK(m, h) - _QK(m, h).mean(0))[:, s]
        ),
        "the outs are not the largest entries": _ranked(outs=lambda m, h, s: _promoted(m, h, s - 1)),
        "the outs are the right ones, but the largest": _ranked(end=lambda d, o: (d.flip(0), o.flip(0))),
        "the destinations are not those with the largest": _ranked(lambda m, h, s: _relative(m, h, s - 1)),
        "the destinations are the right ones, but the largest": _ranked(end=lambda d, o: (d.flip(0), o)),
        "for another with 13 tokens, head 3 and k = 1": _ranked(lambda m, h, s: _relative(m, 1, s)),
        "the result has shape [4]; it should be [13]": lambda m, h, s, k: tuple(x[:k] for x in _ranked()(m, h, s, 4)),
        "the destinations should be token ids, which": lambda m, h, s, k: (_relative(m, h, s)[:k], torch.arange(k)),
        "the outs should be token ids, which": lambda m, h, s, k: (torch.arange(k), _promoted(m, h, s)[:k]),
        "return its `.indices`": lambda m, h, s, k: (_relative(m, h, s).topk(k), _promoted(m, h, s).topk(k)),
        "it should return two things": _ranked(end=lambda d, o: d),
    },
    also_right={
        "in lists, by Python's sort": _sorted_by_python,
        "numpy, in double precision": _by_numpy,
        "the whole order, cut off": lambda m, h, s, k: [
            row.argsort(descending=True)[:k] for row in (_relative(m, h, s), _promoted(m, h, s))
        ],
    },
)


def _then_tensors(answer: Answer, compare: Callable[[Answer], None] = skip_trigrams.check) -> None:
    compare(answer)
    if not all(isinstance(ids, Tensor) for ids in answer(tiny_model(n_layers=1), 0, 0, 13)):
        raise Unfit("the next cells index tensors with these ids, and get lists: return tensors, as `topk` does")


skip_trigrams.check = _then_tensors


@judged
def positive_yet_lowering(answer: Answer) -> None:
    """`positive_yet_lowering() → [2, 2]`: rows sum to 0, eigenvalues 0 and positive, a token that lowers itself.

    Many matrices are right.
    """
    matrix = tensor(answer(), (2, 2), "[source, out]").double()
    size = matrix.abs().max().item() or 1.0
    (a, b), (c, d) = (matrix / size).tolist()
    near = 1e-6
    columns = abs(a + c) < near and abs(b + d) < near
    for name, total in (("first", a + b), ("second", c + d)):
        demand(
            abs(total) < near or not columns,
            "its columns sum to 0; the rows should: a row holds what one source adds to every out.",
        )
        demand(
            abs(total) < near, f"its {name} row sums to {total * size:.3g}, and a softmax takes that away: make it 0."
        )
    demand(a + d > -near, f"its eigenvalues are 0 and {(a + d) * size:.3g}; none should be negative.")
    demand(a + d > near, "its eigenvalues are both 0; one should be positive.")
    demand(min(a, d) < -near, f"its diagonal is {a * size:.3g} and {d * size:.3g}: no token lowers its own logit.")


positive_yet_lowering.mistakes = {
    "its first row sums to 2, and a softmax takes": lambda: torch.tensor([[-1.0, 3], [-2, 4]]),
    "its second row sums to 2": lambda: torch.tensor([[-1.0, 1], [-2, 4]]),
    "its columns sum to 0; the rows should": lambda: torch.tensor([[-1.0, 2], [1, -2]]),
    "its eigenvalues are 0 and -1": lambda: torch.tensor([[-2.0, 2], [-1, 1]]),
    "its eigenvalues are both 0": (lambda: torch.tensor([[-1.0, 1], [-1, 1]]), lambda: torch.zeros(2, 2)),
    "its diagonal is 1 and 2: no token lowers its own logit": lambda: torch.tensor([[1.0, -1], [-2, 2]]),
}
positive_yet_lowering.also_right = {
    "the second token lowers itself": lambda: torch.tensor([[5.0, -5], [3, -3]]),
    "very small, in float64": lambda: torch.tensor([[-1e-3, 1e-3], [-3e-3, 3e-3]], dtype=torch.float64),
    "columns times a row, in numpy": lambda: np.outer([-1, -4], [1, -1]),
    "large whole numbers": lambda: torch.tensor([[-7000, 7000], [-9000, 9000]]),
}
