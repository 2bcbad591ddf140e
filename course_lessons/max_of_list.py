"""Max of a list, held to every list there is: a model made by hand, its votes, all its errors.

At the last position one layer of attention is a vote. Given the last value q, a position's vote
depends on its place and its own value alone, and the largest sum wins. `votes[q, i, v, o]`, [query,
pos, value, out], is what value v at position i says for output o. It is all that the census needs
to know of a model. Lessons 05 and 05b share what is here.
"""

import itertools
import math
from collections.abc import Iterator, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import Count, validated
from course_utils.course import solutions
from course_utils.models import initial
from course_utils.training.tasks import TASKS

Votes = Float[Tensor, "query pos value out"]
SHOWN = 20  # wrong lists that `try_all` returns
# a class of lists: the last value, the largest, and its first place
Case = tuple[int, int, int]

_votes = solutions.answer("votes")  # our answer to lesson 05's exercise


@validated
def built(weights: Mapping[str, Tensor]) -> HookedTransformer:
    """The model with these weights.

    W_E [value, d_model], W_Q, W_K and W_V [d_model, d_head], W_O, W_U [d_model, out]. One layer,
    one head, nothing at W_pos, as long a list as max-of-list reads. Raises ValueError in one
    sentence for weights that are missing or do not fit together.
    """
    names = ("W_E", "W_Q", "W_K", "W_V", "W_O", "W_U")
    if {*weights} != {*names} or any(
        not isinstance(w, Tensor) or w.ndim != 2 for w in weights.values()
    ):
        raise ValueError(f"weights must be six matrices called {', '.join(names)}.")
    (d_vocab, d_model), d_head = weights["W_E"].shape, weights["W_Q"].shape[1]
    shapes = [(d_vocab, d_model), *[(d_model, d_head)] * 3, (d_head, d_model), (d_model, d_vocab)]
    for name, shape in zip(names, shapes, strict=True):
        if tuple(weights[name].shape) != shape:
            raise ValueError(
                f"{name} must have shape {[*shape]} beside the others, "
                f"not {[*weights[name].shape]}."
            )
    task = TASKS["max-of-list"]
    config = task.config() | {
        "model_name": task.rule,
        "d_model": d_model,
        "d_head": d_head,
        "d_vocab": d_vocab,
    }
    model = initial(config).requires_grad_(False)
    places = [
        model.embed.W_E,
        *(getattr(model.blocks[0].attn, name)[0] for name in names[1:5]),
        model.unembed.W_U,
    ]
    for name, place in zip(names, places, strict=True):
        place.copy_(weights[name])
    model.pos_embed.W_pos.zero_()
    return model


@validated
def tables(
    model: HookedTransformer, n: Count
) -> tuple[
    Float[Tensor, "query pos value"], Float[Tensor, "pos value out"], Float[Tensor, "query out"]
]:
    """Scores, what each source says, and the direct path, for lists of length n.

    All in double precision. The last position asks. logits = Σ_i A_i say[i, v_i] + direct[q], and A
    is the softmax of scores[q, i, v_i] over i.
    """
    if n > model.cfg.n_ctx:
        raise ValueError(f"This model reads lists of at most {model.cfg.n_ctx} values, not {n}.")
    embed, places, unembed = (w.double() for w in (model.W_E, model.W_pos[:n], model.W_U))
    W_Q, W_K, W_V, W_O = (w[0, 0].double() for w in (model.W_Q, model.W_K, model.W_V, model.W_O))
    x = embed + places[:, None]  # [pos, value, d_model]
    scores = torch.einsum("qh,pvh->qpv", x[-1] @ W_Q, x @ W_K) / model.cfg.d_head**0.5
    return scores, x @ W_V @ W_O @ unembed, x[-1] @ unembed


@validated
def number_line(
    table: Float[Tensor, "query key"],
) -> tuple[Float[Tensor, " query"], Float[Tensor, " key"]]:
    """f and g with f · g nearest to the row-centred table.

    g rises from the first key to the last by 1 a step. The first term of the singular value
    decomposition. g has the mean 0, and f is in points of score per mean step.
    """
    U, S, Vh = torch.linalg.svd(table - table.mean(1, keepdim=True), full_matrices=False)
    step = (Vh[0, -1] - Vh[0, 0]) / (len(Vh[0]) - 1)
    return U[:, 0] * S[0] * step, Vh[0] / step  # whatever the signs of U and Vh, they cancel


@validated
def one_line(
    model: HookedTransformer, n: Count
) -> tuple[Float[Tensor, " query"], Float[Tensor, " value"], Float[Tensor, ""]]:
    """f and g of one line for all positions at length n, and the largest deviation of a score.

    As in `number_line`; of each query's scores the mean is taken away. The deviation is in points
    of score.
    """
    scores = tables(model, n)[0]
    scores = scores - scores.mean((1, 2), keepdim=True)  # [query, pos, value]
    f, g = number_line(scores.mean(1))
    return f, g, (scores - f[:, None, None] * g).abs().max()


@validated
def left_over(model: HookedTransformer) -> Float[Tensor, " place"]:
    """The share of the squared scores that the best f · g leaves over.

    Row-centred; for each length from two on, and each position.
    """
    shares = []
    for n in range(2, model.cfg.n_ctx + 1):
        for table in tables(model, n)[0].unbind(1):
            centred = table - table.mean(1, keepdim=True)
            rest = centred - torch.outer(*number_line(table))
            shares.append((rest**2).sum() / (centred**2).sum())
    return torch.stack(shares)


@validated
def vote_table(
    model: HookedTransformer, n: Count, extra: Float[Tensor, "query pos value"] | None = None
) -> Votes:
    """All votes of a model on lists of length n; `extra` is added to its scores.

    A query's votes are divided by e to its largest score, so that none overflows.
    """
    scores, say, direct = tables(model, n)
    if extra is not None:
        scores = scores + extra
    scores = scores - scores.amax((1, 2), keepdim=True)
    return _votes(scores, say, direct)


@validated
def try_all(votes: Votes) -> tuple[int, list[list[int]]]:
    """How many of all lists get a wrong answer, and the first few of them.

    Feasible up to length 4.
    """
    n, values = votes.shape[1:3]
    count: int = 0
    found: list[list[int]] = []
    inside = torch.tensor(0)  # the largest of no values yet
    for _ in range(n - 2):  # of positions 1 … n − 2, on a grid of all their values
        inside = torch.maximum(inside[..., None], torch.arange(values))
    for q, first in itertools.product(range(values), repeat=2):
        total = votes[q, -1, q] + votes[q, 0, first]
        for i in range(1, n - 1):
            total = total[..., None, :] + votes[q, i]  # one more axis of values
        right = total.gather(-1, inside.clamp(min=max(q, first))[..., None])[..., 0]
        wrong = total.amax(-1) > right
        count += int(wrong.sum())
        found += [[first, *others, q] for others in wrong.nonzero()[: SHOWN - len(found)].tolist()]
    return count, found


@validated
def worst_cases(votes: Votes) -> Iterator[tuple[Case, int, Tensor]]:
    """For each class of lists its name, its size, and the least margin of its largest value.

    The margin is over each output, [out]. A class has one last value, one largest value M, and one
    first place of M: before it all values are smaller, after it none is larger. Every list is in
    exactly one class.
    """
    n, values = votes.shape[1:3]
    # [query, out]: the last position's vote
    own = votes[torch.arange(values), -1, torch.arange(values)]
    for M, place in [(0, 0), *itertools.product(range(1, values), range(n))]:  # nothing is below 0
        q = slice(M, M + 1) if place == n - 1 else slice(M + 1)  # the last value
        parts = votes[q, :-1, : M + 1, M, None] - votes[q, :-1, : M + 1]  # [query, pos, value, out]
        before = parts[:, :place, : max(M, 1)].amin(2).sum(1)
        after = parts[:, place + 1 :].amin(2).sum(1)
        worst = own[q, M, None] - own[q] + before + parts[:, place : place + 1, M].sum(1) + after
        worst[:, M] = math.inf  # M need not beat itself
        size = M ** (n - 1) if place == n - 1 else M**place * (M + 1) ** (n - 2 - place)
        for last, row in zip(range(values)[q], worst, strict=True):
            yield (last, M, place), size, row


@validated
def census(votes: Votes, most: Count = 5_000) -> Int[Tensor, "wrong pos"]:
    """All lists of one length that get a wrong answer.

    A draw counts as wrong. A model that leaves more than `most` pairs of class and rival open is
    wrong nearly everywhere; its errors are not searched for.
    """
    rivals: list[tuple[Case, int]] = []
    for name, _, worst in worst_cases(votes):
        ahead = (worst <= 0).nonzero().flatten().tolist()
        rivals += [(name, rival) for rival in ahead]
    wrong = [torch.zeros(0, votes.shape[1], dtype=torch.long)]
    if len(rivals) <= most:
        wrong += [_search(votes, *pair) for pair in rivals]
    return torch.cat(wrong).unique(dim=0)


def _search(votes: Votes, case: Case, rival: int) -> Int[Tensor, "wrong pos"]:
    """All lists of a class in which `rival` beats the largest value, or draws.

    Lists grow value by value, and a beginning is kept only if its worst continuation is still an
    error. That worst case is a list too, so every beginning that is kept leads to an error, and no
    error is missed.
    """
    q, M, place = case
    n = votes.shape[1]
    parts = votes[q, :-1, : M + 1, M] - votes[q, :-1, : M + 1, rival]  # [pos, value]
    parts[:place, M] = math.inf  # not allowed there
    parts[place : place + 1, :M] = math.inf
    least = parts.amin(1)
    lists = torch.zeros(1, 0, dtype=torch.long)
    margin = votes[q, -1, q, M] - votes[q, -1, q, rival] + least.sum()
    for i in range(n - 1):
        extended = margin.reshape(-1, 1) - least[i] + parts[i]  # a real value for the worst one
        beginning, value = (extended <= 0).nonzero().T
        lists = torch.cat([lists[beginning], value[:, None]], dim=1)
        margin = extended[beginning, value]
    return torch.cat([lists, torch.full((len(lists), 1), q)], dim=1)
