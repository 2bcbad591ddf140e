"""Three tasks small enough to know completely: the largest of a list, addition, and the next
Fibonacci number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from course_utils._arguments import Count, NotNegative, validated


@dataclass(frozen=True)
class Task:
    """How one small model is made: all that its weights depend on. It answers at the last position
    of its input.
    """

    # no field, and so the same for all: only the finished weights are kept
    snapshots: ClassVar[tuple[int, ...]] = ()
    muon: ClassVar[None] = None  # AdamW for all weights
    rule: str  # "largest" of the list, or "sum" of the last two
    d_vocab: int
    lengths: tuple[int, ...]  # of the inputs; every batch has one, drawn at random
    d_model: int
    d_mlp: int  # 0 for a model without an MLP
    steps: int
    batch: int
    adamw_lr: float = 3e-3
    adamw_decay: float = 0.0
    warmup: int = 100  # steps up to the full learning rate
    # until this share of the steps it stays there; then it falls to 0 in a straight line
    hold: float = 1 / 3
    held_out: float = (
        0.2  # the share of pairs that training never asks for; random lists need no such care
    )
    seed: int = 0

    @property
    def adamw(self) -> dict[str, Any]:
        """The options of AdamW."""
        return {"lr": self.adamw_lr, "betas": (0.9, 0.98), "weight_decay": self.adamw_decay}

    def config(self) -> dict[str, Any]:
        """The model, as fields of `HookedTransformerConfig`: one layer, one head, positions in the
        stream.
        """
        sizes = {"n_layers": 1, "d_model": self.d_model, "n_heads": 1, "d_head": self.d_model}
        sizes |= {"n_ctx": max(self.lengths), "d_vocab": self.d_vocab}
        kind = {
            "normalization_type": None,
            "positional_embedding_type": "standard",
            "seed": self.seed,
        }
        mlp = {"d_mlp": self.d_mlp, "act_fn": "relu"} if self.d_mlp else {"attn_only": True}
        return {**sizes, **kind, **mlp}


_SUM = Task("sum", d_vocab=128, lengths=(2,), d_model=128, d_mlp=128, steps=3_000, batch=512)
# a lower rate left more pairs wrong
_ADDITION = replace(_SUM, adamw_lr=2e-2, adamw_decay=0.1, warmup=900, hold=0.3)
TASKS = {
    "max-of-list": Task(
        "largest", d_vocab=64, lengths=(2, 3, 4, 5, 6), d_model=32, d_mlp=0, steps=3_000, batch=512
    ),
    "addition": _ADDITION,
    "fibonacci": replace(_ADDITION, lengths=(2, 3, 4, 5)),
}


@validated
def answers(task: Task, tokens: Int[Tensor, "batch length"]) -> Int[Tensor, " batch"]:
    """What the model should say about each input."""
    return tokens.amax(-1) if task.rule == "largest" else tokens[:, -2:].sum(-1)


@validated
def sequences(length: int, d_vocab: Count = 128) -> Int[Tensor, "n length"]:
    """Every sequence in which each number is the sum of the two before it, and whose next number is
    a token too.

    With length 2 these are all pairs whose sum is below `d_vocab`.
    """
    if length < 2:
        raise ValueError(
            f"length must be at least 2, not {length}: the first two numbers are free."
        )
    columns = list(torch.cartesian_prod(torch.arange(d_vocab), torch.arange(d_vocab)).T)
    while len(columns) <= length:
        columns.append(columns[-2] + columns[-1])
    rows = torch.stack(columns, dim=1)  # [n, length + 1]: the sequence and its next number
    return rows[rows.amax(1) < d_vocab, :-1]


@validated
def is_held_out(task: Task, tokens: Int[Tensor, "batch length"]) -> Bool[Tensor, " batch"]:
    """Which inputs end in a pair that training never asked for, in this order or the other.

    a + b = b + a, and a model that treats both places alike would know the one from the other.
    """
    generator = torch.Generator().manual_seed(task.seed)
    # [smaller, larger]
    chosen = torch.rand(task.d_vocab, task.d_vocab, generator=generator) < task.held_out
    last = tokens[:, -2:].sort(dim=1).values  # [batch, 2], the smaller one first
    return chosen[last[:, 0], last[:, 1]]


@validated
def examples(task: Task) -> tuple[list[Int[Tensor, "_n _length"]], list[Int[Tensor, "_n _length"]]]:
    """For each length, the inputs to train on, and those held out.

    There are too many lists to have them all: batches of the task "largest" are drawn afresh, and
    what is held out are 4,096 random lists of each length.
    """
    if task.rule == "largest":
        generator = torch.Generator().manual_seed(-1 - task.seed)
        return [], [
            torch.randint(task.d_vocab, (4_096, n), generator=generator) for n in task.lengths
        ]
    everything = [sequences(n, task.d_vocab) for n in task.lengths]
    kept_back = [is_held_out(task, tokens) for tokens in everything]
    pairs = list(zip(everything, kept_back, strict=True))
    return [tokens[~mask] for tokens, mask in pairs], [tokens[mask] for tokens, mask in pairs]


@validated
def batch_of(
    task: Task, step: NotNegative, training: Sequence[Int[Tensor, "_n _length"]] = ()
) -> Int[Tensor, "batch length"]:
    """The inputs of one training step: they depend on the seed and the step alone, so a run can be
    resumed.
    """
    generator = torch.Generator().manual_seed(task.seed * 1_000_000_007 + step)
    which = int(torch.randint(len(task.lengths), (1,), generator=generator))
    if task.rule == "largest":
        return torch.randint(task.d_vocab, (task.batch, task.lengths[which]), generator=generator)
    rows = torch.randint(len(training[which]), (task.batch,), generator=generator)
    return training[which][rows]
