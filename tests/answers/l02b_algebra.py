"""Answers to lesson 02b's exercises: others that are right, and wrong ones with what they hear."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from course_lessons.fixtures import TOKENS, random
from course_lessons.l02b_algebra.checks import Model, _rope
from course_utils.course.exercises import Answer

WRITES = ("W_E", "W_pos", "W_O")
READS = ("W_Q", "W_K", "W_V", "W_U")


def _turned(
    left: tuple[str, ...] = ("nothing",),
    write: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: W @ Q,
    read: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: Q.T @ W,
    new: Callable[[Model], Model] = copy.deepcopy,
) -> Answer:
    """The right answer, with something to get wrong in each keyword.

    `left` are weights that stay as they are.
    """

    def answer(model: Model, Q: Tensor) -> Model:
        model = new(model)
        for name, weight in model.named_parameters():
            if not name.endswith(left) and name.endswith(WRITES + READS):
                weight.data = (write if name.endswith(WRITES) else read)(weight.data, Q)
        return model

    return answer


def _part_by_part(model: Model, Q: Tensor) -> Model:
    """Every weight at its place in the model."""
    turned = copy.deepcopy(model)
    turned.embed.W_E.data = model.W_E @ Q
    turned.pos_embed.W_pos.data = model.W_pos @ Q
    for block in turned.blocks:
        for read in (block.attn.W_Q, block.attn.W_K, block.attn.W_V):
            read.data = Q.mT @ read
        block.attn.W_O.data = block.attn.W_O @ Q
    turned.unembed.W_U.data = Q.mT @ model.W_U
    return turned


def _loaded(model: Model, Q: Tensor) -> Model:
    turned = Model(model.cfg)
    weights = model.state_dict()
    for name, weight in weights.items():
        if name.endswith(WRITES):
            weights[name] = torch.einsum("...d,de->...e", weight, Q)
        elif name.endswith(READS):
            weights[name] = torch.einsum("...dn,de->...en", weight, Q)
    turned.load_state_dict(weights)
    return turned


def _doubly(model: Model, Q: Tensor) -> Model:
    """In float64, by way of another turn."""
    half = torch.linalg.qr(random(*Q.shape, seed=8).double())[0]
    return _turned()(_turned()(copy.deepcopy(model).double(), half), half.T @ Q.double()).float()


def _silent(model: Model) -> Model:
    model.add_hook("blocks.0.attn.hook_z", lambda z, hook: 0 * z)
    return model


def _complex(v: Tensor) -> Tensor:
    a, b = v.chunk(2, -1)
    rates = 10_000.0 ** (-2 * torch.arange(a.shape[-1]) / v.shape[-1])
    angles = torch.outer(torch.arange(v.shape[1]), rates)  # [pos, pair]
    z = torch.complex(a, b) * torch.polar(torch.ones(1), angles)
    return torch.cat([z.real, z.imag], -1)


def _matrices(v: Tensor) -> Tensor:
    """A matrix for each position, in float64."""
    half, turns = v.shape[-1] // 2, []
    for n in range(v.shape[1]):
        angles = n * 10_000 ** (-torch.arange(half).double() / half)
        cos, sin = angles.cos().diag(), angles.sin().diag()
        turns.append(torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)]))
    return torch.einsum("hpd,pde->hpe", v.double(), torch.stack(turns))


def _library(v: Tensor) -> Tensor:
    rates = 10_000.0 ** (-torch.arange(0, v.shape[-1], 2) / v.shape[-1])
    angles = torch.outer(torch.arange(v.shape[1]), rates)  # [pos, pair]
    both = torch.cat([angles, angles], -1)[None]
    return apply_rotary_pos_emb(v[None], v[None], both.cos(), both.sin())[0][0]


RIGHT_ANSWERS = {
    "rotate": {
        "part by part": _part_by_part,
        "a state dict": _loaded,
        "in two turns": _doubly,
    },
    "rope": {
        "complex numbers": _complex,
        "matrices, float64": _matrices,
        "the library's": _library,
    },
}


WRONG_ANSWERS = {
    "rotate": {
        "the embedding still writes as it did": (_turned(("W_E",)), _turned(WRITES)),
        "W_pos is not turned": _turned(("W_pos",)),
        "what the heads write is not turned": (_turned(("W_O",)), _turned(("blocks.1.attn.W_O",))),
        "W_U does not undo the turn": (
            _turned(("W_U",)),
            _turned(READS),
            _turned(read=lambda W, Q: Q @ W),
        ),
        "W_V does not undo the turn": _turned(("W_V",)),
        "queries do not undo the turn": _turned(("W_Q", "W_K")),
        "keys do not undo the turn": _turned(("W_K",)),
        "the embedding writes x Qᵀ": _turned(write=lambda W, Q: W @ Q.T),
        "the embedding should write x Q": _turned(write=lambda W, Q: 2 * W @ Q),
        "nothing has been turned": lambda model, Q: copy.deepcopy(model),
        "it returns the model that it was given": lambda model, Q: model,
        "which it was given: leave arguments": _turned(new=lambda model: model),
        "it should return a model, not Tensor": lambda model, Q: model(TOKENS),
        "the turned model's stream or logits": lambda model, Q: _silent(_turned()(model, Q)),
    },
    "rope": {
        "the vectors are not turned as they should be": lambda v: _rope(v.flip(1)).flip(1),
        "it fails for 1 head": lambda v: _rope(v) * (len(v) > 1),
        "it fails for 2 heads": lambda v: _rope(v) * (v.shape[-1] < 12),
    },
}
