"""Two tasks to know completely: a list's largest, and addition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from course_utils._arguments import Count, NotNegative, require_tokens, validated


@dataclass(frozen=True)
class Task:
    """How one small model is made: all that its weights depend on."""

    # No fields, and so the same for all: only the finished weights are kept, AdamW trains them.
    snapshots: ClassVar[tuple[int, ...]] = ()
    muon: ClassVar[None] = None
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
    # Until this share of the steps it stays there; then it falls to 0 in a straight line.
    hold: float = 1 / 3
    # The share of pairs that training never asks for; random lists need no such care.
    held_out: float = 0.2
    seed: int = 0

    @property
    def adamw(self) -> dict[str, Any]:
        """The options of AdamW."""
        return {"lr": self.adamw_lr, "betas": (0.9, 0.98), "weight_decay": self.adamw_decay}

    def config(self) -> dict[str, Any]:
        """The model, as fields of `HookedTransformerConfig`: one layer of one head."""
        sizes = {"n_layers": 1, "d_model": self.d_model, "n_heads": 1, "d_head": self.d_model}
        reads = {"n_ctx": max(self.lengths), "d_vocab": self.d_vocab}
        kind = {"normalization_type": None, "positional_embedding_type": "standard"}
        mlp = {"d_mlp": self.d_mlp, "act_fn": "relu"} if self.d_mlp else {"attn_only": True}
        return {**sizes, **reads, **kind, "seed": self.seed, **mlp}


_LARGEST = Task(
    "largest", d_vocab=64, lengths=(2, 3, 4, 5, 6), d_model=32, d_mlp=0, steps=3_000, batch=512
)
_SUM = Task("sum", d_vocab=128, lengths=(2,), d_model=128, d_mlp=128, steps=3_000, batch=512)
# A lower rate left more pairs wrong.
_ADDITION = replace(_SUM, adamw_lr=2e-2, adamw_decay=0.1, warmup=900, hold=0.3)
TASKS = {"max-of-list": _LARGEST, "addition": _ADDITION}


@validated
def answers(task: Task, tokens: Int[Tensor, "batch length"]) -> Int[Tensor, " batch"]:
    """What the model should say about each input, at its last position."""
    require_tokens(task.d_vocab, tokens)
    return tokens.amax(-1) if task.rule == "largest" else tokens[:, -2:].sum(-1)


@validated
def sequences(length: int, d_vocab: Count = 128) -> Int[Tensor, "n length"]:
    """Every sequence in which each number is the sum of the two before it.

    The number that comes next is a token too: with length 2 these are all pairs whose sum is below
    `d_vocab`.
    """
    if length < 2:
        raise ValueError(
            f"length must be at least 2, not {length}: the first two numbers are free."
        )
    numbers = torch.arange(d_vocab)
    columns = list(torch.cartesian_prod(numbers, numbers).T)  # two of [d_vocab²]: all pairs
    while len(columns) <= length:
        columns.append(columns[-2] + columns[-1])
    rows = torch.stack(columns, dim=1)  # [n, length + 1]: the sequence and its next number
    are_tokens = rows.amax(1) < d_vocab
    return rows[are_tokens, :-1]


@validated
def is_held_out(task: Task, tokens: Int[Tensor, "batch length"]) -> Bool[Tensor, " batch"]:
    """Which inputs end in a pair that training never asked for, in this order or the other.

    a + b = b + a, and a model that treats both places alike would know the one from the other.
    """
    require_tokens(task.d_vocab, tokens)
    generator = torch.Generator().manual_seed(task.seed)
    pairs = (task.d_vocab, task.d_vocab)  # smaller, larger
    chosen = torch.rand(pairs, generator=generator, device="cpu") < task.held_out
    chosen = chosen.to(tokens.device)
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
        lists = [torch.randint(task.d_vocab, (4_096, n), generator=generator) for n in task.lengths]
        return [], lists

    training = []
    held_out = []
    for length in task.lengths:
        tokens = sequences(length, task.d_vocab)  # [n, length]
        kept_back = is_held_out(task, tokens)  # [n]
        training.append(tokens[~kept_back])
        held_out.append(tokens[kept_back])
    return training, held_out


@validated
def batch_of(
    task: Task, step: NotNegative, training: Sequence[Int[Tensor, "_n _length"]] = ()
) -> Int[Tensor, "batch length"]:
    """The inputs of one training step, by the seed and the step alone: a run can be resumed."""
    generator = torch.Generator().manual_seed(task.seed * 1_000_000_007 + step)
    which = int(torch.randint(len(task.lengths), (1,), generator=generator))
    if task.rule == "largest":
        shape = (task.batch, task.lengths[which])
        return torch.randint(task.d_vocab, shape, generator=generator)
    rows = torch.randint(len(training[which]), (task.batch,), generator=generator)  # [batch]
    return training[which][rows]  # [batch, length]
