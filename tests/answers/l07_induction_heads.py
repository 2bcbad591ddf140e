"""Answers to lesson 07's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random
from course_lessons.l07_induction_heads.checks import FUTURE, ITSELF, NUMBERS, WHOLE_LABEL, _marks
from course_utils.course.exercises import Answer


def _by_hand(
    back: int = -1, sharp: float = 30, match: float = 30, loud: float = 2, **to: Any
) -> Answer:
    """Our answer, with something to get wrong, or to make otherwise, in the keywords."""
    ends = {"OV1": ("token", "label"), "QK2": ("token", "label"), "OV2": ("token", "token")} | to

    def answer(V: int, n_ctx: int) -> tuple[Tensor, ...]:
        part = {"token": slice(V), "place": slice(V, V + n_ctx), "label": slice(V + n_ctx, None)}
        made = torch.zeros(4, 2 * V + n_ctx, 2 * V + n_ctx)
        shift = torch.diag(torch.ones(n_ctx - abs(back)), back)
        made[0, part["place"], part["place"]] = sharp * shift
        sizes = (1, match, loud)
        for matrix, (rows, columns), size in zip(made[1:], ends.values(), sizes, strict=True):
            matrix[part[rows], part[columns]] = size * torch.eye(V)
        return tuple(made)

    return answer


def _by_distance(V: int, n_ctx: int) -> list[Tensor]:
    """The first head's scores fall with the distance from one back."""
    QK1, *others = _by_hand(sharp=0)(V, n_ctx)
    query, key = torch.arange(n_ctx)[:, None], torch.arange(n_ctx)
    QK1[V : V + n_ctx, V : V + n_ctx] = -20.0 * (query - 1 - key) ** 2
    return [QK1, *others]


def _in_a_random_basis(V: int, n_ctx: int) -> tuple[np.ndarray, ...]:
    """The labels, that is, and in numpy's float64."""
    QK1, OV1, QK2, OV2 = (matrix.double().numpy() for matrix in _by_hand()(V, n_ctx))
    basis = np.eye(2 * V + n_ctx)
    basis[V + n_ctx :, V + n_ctx :] = np.linalg.qr(random(V, V).numpy())[0]
    return QK1, OV1 @ basis, QK2 @ basis, OV2


def _hooked(
    change: Callable[[Tensor, Tensor, int, int], Any], name: str = "blocks.1.attn.hook_k"
) -> Answer:
    """An answer that makes `change(activation, what the keys read of the label, src, target)`."""

    def answer(model: HookedTransformer, label: Tensor, src: int, target: int) -> list[tuple]:
        read = torch.stack([label @ W_K for W_K in model.blocks[1].attn.W_K], 1)
        return [(name, lambda x, hook: change(x, read, src, target))]

    return answer


def _added(k: Tensor, read: Tensor, src: int, target: int) -> Tensor:
    return k.index_add(1, torch.tensor([src, target]), torch.stack([-read, read], 1))


def _put(k: Tensor, read: Tensor, src: int, target: int) -> Tensor:
    k[:, src] -= read
    k[:, target] = read
    return k


def _reading(weights: Callable[[HookedTransformer], Tensor]) -> Answer:
    """An answer that reads the label with other weights, [head, d_model, d_head]."""

    def answer(model: HookedTransformer, label: Tensor, src: int, target: int) -> list[tuple]:
        read = torch.einsum("bm,hmd->bhd", label, weights(model))
        return [("blocks.1.attn.hook_k", lambda k, hook: _added(k, read, src, target))]

    return answer


def _moving(away: float = 1, there: float = 1, name: str = "blocks.1.attn.hook_k") -> Answer:
    def move(x: Tensor, read: Tensor, src: int, target: int) -> Tensor:
        return x.index_add(
            1, torch.tensor([src, target]), torch.stack([-away * read, there * read], 1)
        )

    return _hooked(move, name)


def _unread(label: Tensor, src: int, target: int) -> Callable[[Tensor, Any], Tensor]:
    """A function of a hook that takes the label itself for what a key reads of it."""

    def move(k: Tensor, hook: Any) -> Tensor:
        k[:, src] -= label[:, None]
        k[:, target] += label[:, None]
        return k

    return move


def _by_a_filter(model: HookedTransformer, label: Tensor, src: int, target: int) -> tuple:
    """Its name is a function, as the library allows; a mask tells the positions, in float64."""

    def move(k: Tensor, hook: Any) -> Tensor:
        at = torch.arange(k.shape[1])
        sign = (at == target).double() - (at == src).double()
        return (
            k + torch.einsum("p,bm,hmd->bphd", sign, label.double(), model.W_K[1].double())
        ).float()

    return ([lambda name: name == "blocks.1.attn.hook_k", move],)


RIGHT_ANSWERS = {
    "induction_targets": {
        "entry by entry": lambda t: torch.tensor(
            [
                [0 < src <= dest and bool(t[src - 1] == t[dest]) for src in range(len(t))]
                for dest in range(len(t))
            ]
        ),
        "numpy": lambda t: np.pad(
            np.tril(t.numpy()[:, None] == t.numpy(), -1)[:, :-1], ((0, 0), (1, 0))
        ),
        "the token before each source": lambda t: (
            t[:, None] == torch.cat([t[:1] - 1, t[:-1]])
        ).tril(),
        "1 and 0": lambda t: _marks(t).long(),
        "one-hot rows": lambda t: (
            (torch.eye(2101)[t] @ torch.eye(2101)[t].T).tril(-1).roll(1, 1).bool()
        ),
    },
    "induction_by_hand": {
        "louder and sharper": _by_hand(sharp=99, match=60, loud=9),
        "scores by distance": _by_distance,
        "labels in a random basis": _in_a_random_basis,
    },
    "move_label": {
        "a new tensor": _moving(),
        "two hooks": lambda *given: _moving(there=0)(*given) + _moving(away=0)(*given),
        "by a filter": _by_a_filter,
    },
}


WRONG_ANSWERS = {
    "induction_targets": {
        FUTURE: (
            lambda t: (t[:, None] == t).roll(1, 1),
            lambda t: (t[:, None] == t).fill_diagonal_(False).roll(1, 1),
        ),
        NUMBERS: lambda t: _marks(t) / _marks(t).sum(1, keepdim=True).clamp(min=1),
        "the last 4 has two earlier copies": lambda t: _marks(t) & (_marks(t).cumsum(1) == 1),
        "there is nothing to mark": lambda t: (
            _marks(t) if _marks(t).any() else torch.eye(len(t)).bool()
        ),
        ITSELF: lambda t: _marks(t).tril(-1),
        "is an earlier copy like any other": lambda t: _marks(t) & (t != t[0])[:, None],
        "in 14 random tokens something is marked": lambda t: (
            _marks(t) & (torch.arange(len(t)) < 10)
        ),
    },
    "induction_by_hand": {
        "with d_model = 2 · V + n_ctx": lambda V, n_ctx: _by_hand()(7, n_ctx),
        "the first head looks at all positions alike": _by_hand(back=1),
        "the first head looks at its own position": _by_hand(back=0),
        "the first head looks two back": _by_hand(back=-2),
        "make its scores larger": _by_hand(sharp=1),
        "“I am A”": _by_hand(OV1=("token", "token")),
        "the first head writes nothing into the stream": _by_hand(OV1=("label", "token")),
        "looks at the earlier A itself": _by_hand(QK2=("token", "token")),
        "at what stood before the earlier A": _by_hand(QK2=("label", "token")),
        "of its attention: its query should hold the token": _by_hand(match=1),
        "Let what is copied be louder": _by_hand(loud=0.5),
        "do you move B's token part": (
            _by_hand(OV2=("label", "token")),
            _by_hand(OV2=("token", "label")),
        ),
        "and is it loud enough": _by_hand(loud=1),
    },
    "move_label": {
        "the label stays at src": _moving(away=0),
        "is taken out at src, and arrives nowhere": _moving(there=0),
        "the signs are exchanged": (_moving(-1, -1), lambda m, x, s, t: _moving()(m, x, t, s)),
        'the "q" of layer 1 move too': _moving(name="blocks.1.attn.hook_q"),
        "layer 0 is changed": _moving(name="blocks.0.attn.hook_k"),
        "all texts get the first text's label": lambda m, x, s, t: _moving()(
            m, x[:1].expand_as(x), s, t
        ),
        "something else than what W_K[1] reads": lambda m, x, s, t: _moving()(m, x / 2, s, t),
        "with W_Q, as queries do": _reading(lambda m: m.W_Q[1]),
        "with the W_K of layer 0": _reading(lambda m: m.W_K[0]),
        "all heads get what the first head reads": _reading(
            lambda m: m.W_K[1, :1].expand_as(m.W_K[1])
        ),
        "the keys of some heads stay as they are": _hooked(
            lambda k, read, s, t: _added(k, torch.cat([read[:, :1], 0 * read[:, 1:]], 1), s, t)
        ),
        "takes the key's place": _hooked(_put),
        "keys at other positions": lambda m, x, s, t: _moving()(m, x, s, t - 1),
        "no key of layer 1 changes": _hooked(lambda k, *_: None),
        WHOLE_LABEL: lambda m, x, s, t: [("blocks.1.attn.hook_k", _unread(x, s, t))],
        "the model with your hooks stops": _hooked(lambda k, read, *_: k + read),
        "the model has no activation called 'blocks.1.hook_k'": _moving(name="blocks.1.hook_k"),
        "put the one hook into a list": lambda *given: _moving()(*given)[0],
        "it should return a list of hooks": lambda m, x, s, t: x,
    },
}
