"""Max of a list, held to every list there is: a model made by hand, its votes, all its errors.

At the last position one layer of attention is a vote. Given the last value q, each position casts a
vote that depends on its own value alone, and the largest sum wins. `votes[q, i, v, o]`, [query,
pos, value, out], is what value v at position i says for output o. It is all that the functions
below need to know of a model.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from transformer_lens import HookedTransformer

from course_utils._arguments import Count, validated
from course_utils.models import initial
from course_utils.training.tasks import TASKS

Votes = Float[Tensor, "query pos value out"]
SHOWN = 20  # wrong lists that `try_all` returns
# a class of lists: the last value, the largest, and where it stands first
Case = tuple[int, int, int]


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
def wrong_order(model: HookedTransformer, n: Count) -> tuple[int, int]:
    """In how many comparisons at length n the larger value does not get the higher score.

    The first number counts the last token against each other position, every value against every
    value; the second counts two positions before the last, every pair of values and every query.
    """
    scores = tables(model, n)[0].transpose(0, 1)  # [pos, query, value]
    values = torch.arange(scores.shape[2])
    own, before = scores[-1].diagonal()[:, None], scores[:-1]
    wrong = ((before > own) != (values > values[:, None])) & (values != values[:, None])
    larger, smaller = torch.tril_indices(len(values), len(values), -1)
    between = before[:, None, :, larger] <= before[None, :, :, smaller]  # [pos, pos, query, pair]
    return int(wrong.sum()), int(between[~torch.eye(n - 1).bool()].sum())


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
    """For each class of lists its name, its size, and the least lead of its largest value.

    The lead is over each output, [out]. A class has one last value, one largest value M, and one
    first place where M stands: before it all values are smaller, behind it none is larger. Every
    list is in exactly one class.
    """
    n, values = votes.shape[1:3]
    # [query, out]: the last position's vote
    own = votes[torch.arange(values), -1, torch.arange(values)]
    for M, place in [(0, 0), *itertools.product(range(1, values), range(n))]:  # nothing is below 0
        q = slice(M, M + 1) if place == n - 1 else slice(M + 1)  # the last value
        lead = votes[q, :-1, : M + 1, M, None] - votes[q, :-1, : M + 1]  # [query, pos, value, out]
        before = lead[:, :place, : max(M, 1)].amin(2).sum(1)
        behind = lead[:, place + 1 :].amin(2).sum(1)
        worst = own[q, M, None] - own[q] + before + lead[:, place : place + 1, M].sum(1) + behind
        worst[:, M] = math.inf  # M need not beat itself
        size = M ** (n - 1) if place == n - 1 else M**place * (M + 1) ** (n - 2 - place)
        for last, row in zip(range(values)[q], worst, strict=True):
            yield (last, M, place), size, row


@validated
def census(
    votes: Votes, most: Count = 5_000
) -> tuple[int, int, int, int, Int[Tensor, "wrong pos"]]:
    """How many classes, left open, lists proved, beginnings searched; and all wrong lists.

    A draw counts as wrong. A model that leaves more than `most` pairs of class and rival open is
    wrong nearly everywhere; its errors are not searched for.
    """
    classes, proved = 0, 0
    rivals: list[tuple[Case, int]] = []
    for name, size, worst in worst_cases(votes):
        ahead = (worst <= 0).nonzero().flatten().tolist()
        classes, proved = classes + 1, proved + size * (not ahead)
        rivals += [(name, rival) for rival in ahead]
    looked, wrong = 0, [torch.zeros(0, votes.shape[1], dtype=torch.long)]
    for pair in rivals if len(rivals) <= most else []:
        beginnings, lists = _search(votes, *pair)
        looked, wrong = looked + beginnings, [*wrong, lists]
    return (
        classes,
        len({name for name, _ in rivals}),
        proved,
        looked,
        torch.cat(wrong).unique(dim=0),
    )


def _search(votes: Votes, case: Case, rival: int) -> tuple[int, Int[Tensor, "wrong pos"]]:
    """All lists of a class in which `rival` beats the largest value, or draws.

    Before them, how many beginnings it met. Lists grow value by value, and a beginning is kept only
    if its worst continuation is still an error. That worst case is a list too, so every beginning
    that is kept leads to an error, and no error is missed.
    """
    q, M, place = case
    n = votes.shape[1]
    lead = votes[q, :-1, : M + 1, M] - votes[q, :-1, : M + 1, rival]  # [pos, value]
    lead[:place, M] = math.inf  # not allowed there
    lead[place : place + 1, :M] = math.inf
    least = lead.amin(1)
    looked, lists = 0, torch.zeros(1, 0, dtype=torch.long)
    total = votes[q, -1, q, M] - votes[q, -1, q, rival] + least.sum()
    for i in range(n - 1):
        extended = total.reshape(-1, 1) - least[i] + lead[i]  # a real value for the worst one
        looked += int(extended.isfinite().sum())
        beginning, value = (extended <= 0).nonzero().T
        lists = torch.cat([lists[beginning], value[:, None]], dim=1)
        total = extended[beginning, value]
    return looked, torch.cat([lists, torch.full((len(lists), 1), q)], dim=1)


class _Counted(TorchDispatchMode):
    """Counts numbers while tensors are worked with.

    Of each operation it counts those of its largest argument or result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [one for one in pytree.tree_leaves(args) if isinstance(one, Tensor)]
        made = [one for one in pytree.tree_leaves(result) if isinstance(one, Tensor)]
        places = {one.untyped_storage().data_ptr() for one in given}
        is_new = any(one.untyped_storage().data_ptr() not in places for one in made)
        if not made or func._schema.is_mutable or is_new:  # a view reads nothing
            self.count += max((one.numel() for one in [*given, *made]), default=0)
        return result


@validated
def operations(proof: Callable[[], object]) -> int:
    """How many numbers a proof reads from tables or works out, counted while it runs."""
    with _Counted() as counted:
        proof()
    return counted.count


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
def line_weight(
    model: HookedTransformer, n: Count, exact: bool = False
) -> Float[Tensor, "largest value"]:
    """The most weight, by the line, that a source of value v can have beside one M.

    The list has length n. One line for all positions; it must rise from v to M. The pull is the
    least of the values up to M, all that can be last; the line's largest error does its worst on
    both sides, unless `exact` asks what it would give without.
    """
    scores, _, _ = tables(model, n)
    scores = scores - scores.mean((1, 2), keepdim=True)  # [query, pos, value]
    f, g = number_line(scores.mean(1))
    error = 0.0 if exact else (scores - f[:, None, None] * g).abs().max()
    least = f.cummin(0).values[:, None]  # row M: of the queries up to M
    return (2 * error - least * (g[:, None] - g)).exp()


@validated
def step_and_voice(
    model: HookedTransformer, n: Count
) -> tuple[Float[Tensor, " value"], Float[Tensor, " value"]]:
    """For M = 1, 2, …: its step in score above M − 1, and how many times as loud it votes.

    Both are taken at its worst position. M − 1 stands last. The voice is the lead of a vote for M,
    divided by the mean lead of a vote for M − 1 over M.
    """
    scores, say, direct = tables(model, n)
    M = torch.arange(1, len(direct))
    q = M - 1
    step = scores[q, :-1, M] - scores[q, :, q].mean(1, keepdim=True)  # [M, pos]
    lead = (say[:-1, M, M] - say[:-1, M, q] + direct[q, M] - direct[q, q]).T  # [M, pos]
    below = (say[:, q, q] - say[:, q, M] + direct[q, q] - direct[q, M]).mean(0)  # [M]
    voice = lead / below[:, None]
    worst = (step.exp() * voice).argmin(1, keepdim=True)
    return step.gather(1, worst)[:, 0], voice.gather(1, worst)[:, 0]


@validated
def values_allowed(
    model: HookedTransformer, n: Count, weight: Float[Tensor, "largest value"]
) -> list[int]:
    """For each largest M, how many values a list may hold, M among them, if M is to win for sure.

    The list has length n. r values are M and 0 … r − 2; 0 says that not even a list of nothing but
    M is proved. weight[M, v] is the most weight that a source of value v < M can have if one M has
    1.
    """
    _, say, direct = tables(model, n)
    allowed = []
    for M in range(len(direct)):
        # for the worst last value, [out]
        own = (direct[: M + 1, M, None] - direct[: M + 1]).amin(0)
        # at the worst position, [value, out]
        lead = (say[:, : M + 1, M, None] - say[:, : M + 1]).amin(0) + own
        # what one source of a smaller value can take away
        harm = (weight[M, :M, None] * lead[:M]).clamp(max=0)
        worst = harm.cummin(0).values  # the same, of all values up to this one
        # with no runner-up, with 0, with 0 and 1, …
        least = torch.cat([lead[M:], lead[M] + (n - 1) * worst])
        least[:, M] = math.inf  # M need not beat itself
        allowed.append(int((least > 0).all(1).sum()))
    return allowed
