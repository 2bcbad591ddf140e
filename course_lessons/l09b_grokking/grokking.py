"""Addition around a clock face, learnt late: (a + b) mod 53 from 40 % of the pairs.

Runs are with and without weight decay. A run is told as its tables: the logits [a, b, answer] for
all pairs, at some steps of training. All that lesson 09b measures is measured on such tables.
`python -m course_lessons.l09b_grokking.grokking` trains all runs and writes what it measured to
`data/grokking.json`, in some minutes on one core.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformer_lens import HookedTransformer

from course_lessons import fourier
from course_utils import models
from course_utils._arguments import NotNegative, validated
from course_utils._files import DATA, verified, write_checksums, write_text
from course_utils._torch_state import usual

P = 53  # numbers on the clock face; a prime, so that every frequency passes through all of them
SHARE = 0.4  # of the pairs, to train on
PAIRS = torch.cartesian_prod(torch.arange(P), torch.arange(P))  # all 53 · 53 (a, b), b faster
SUMS = PAIRS.sum(1).view(P, P) % P  # the right answers [a, b]
ALL = torch.ones(P, P, dtype=torch.bool)
STORED = DATA / "grokking.json"


@dataclass(frozen=True)
class Run:
    """How one run is made: AdamW on all training pairs at once."""

    seed: int = 0
    decay: float = 1.0  # weight decay
    steps: int = 1_000  # some hundred later the loss jumps up now and then, with this learning rate
    every: int = 20  # steps between tables


KINDS = ((1.0, 6), (0.0, 3))  # weight decay, seeds
RUNS = [Run(seed, decay) for decay, seeds in KINDS for seed in range(seeds)]


@validated
def is_train(seed: NotNegative) -> Tensor:
    """Which pairs a run trains on: bool [a, b]."""
    order = torch.randperm(P * P, generator=torch.Generator().manual_seed(seed))
    return (order < SHARE * P * P).view(P, P)


@validated
def is_new(seed: NotNegative) -> Tensor:
    """Which pairs say nothing of a run's memory: bool [a, b].

    Neither the pair nor its mirror image (b, a) is trained on, since a model that mixes both
    numbers alike knows the mirror images of what it has memorised.
    """
    known = is_train(seed)
    return ~known & ~known.T


@usual()
def train(run: Run) -> tuple[HookedTransformer, Float[Tensor, "time a b answer"]]:
    """The trained model, and its tables at step 0, `every`, 2 `every`, …"""
    sizes = {
        "n_layers": 1,
        "n_heads": 1,
        "d_model": 48,
        "d_head": 48,
        "d_mlp": 96,
        "n_ctx": 2,
        "d_vocab": P,
    }
    model = models.initial(
        {**sizes, "act_fn": "relu", "normalization_type": None, "seed": run.seed}
    )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=0.01, betas=(0.9, 0.98), weight_decay=run.decay
    )
    known = is_train(run.seed).flatten()
    tokens, answers = PAIRS[known], SUMS.flatten()[known]
    tables = [table(model)]
    for step in range(run.steps):
        loss = cross_entropy(model(tokens)[:, -1], answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % run.every == 0:
            tables.append(table(model))
    return model.eval().requires_grad_(False), torch.stack(tables)


@validated
@torch.no_grad()
def table(model: HookedTransformer) -> Float[Tensor, "a b answer"]:
    """The logits of all answers for all pairs."""
    return model(PAIRS)[:, -1].view(P, P, -1)


@validated
def losses(tables: Float[Tensor, "*time a b answer"]) -> Float[Tensor, "*time a b"]:
    """The loss of every pair, in nats."""
    answers = SUMS.to(tables.device).expand(tables.shape[:-1])
    return cross_entropy(tables.flatten(0, -2), answers.flatten(), reduction="none").view(
        tables.shape[:-1]
    )


@validated
def by_sum(
    one: Float[Tensor, "a b answer"], where: Bool[Tensor, "a b"] | None = None
) -> Float[Tensor, "sum answer"]:
    """The mean logits of the pairs with the same a + b (mod 53), of all or of those in `where`."""
    sums = SUMS.to(one.device)
    pairs = torch.ones_like(sums).bool() if where is None else where
    return torch.stack([one[pairs & (total == sums)].mean(0) for total in range(P)])


def _power(one: Float[Tensor, "a b answer"], where: Bool[Tensor, "a b"]) -> Float[Tensor, " freq"]:
    """What each frequency holds of the variance of the mean logits by sum."""
    return fourier.power(by_sum(one, where)).sum(1)


@validated
def strongest(one: Float[Tensor, "a b answer"], where: Bool[Tensor, "a b"]) -> list[int]:
    """All frequencies above 0, the one that holds most of the variance of the means first."""
    order = _power(one, where).argsort(descending=True).tolist()
    return [f for f in order if f]


@validated
def key_frequencies(one: Float[Tensor, "a b answer"], where: Bool[Tensor, "a b"]) -> list[int]:
    """Frequencies that hold at least 5 % of the variance of the mean logits by sum."""
    power = _power(one, where)
    return (power >= 0.05 * power.sum()).nonzero().flatten().tolist()


@validated
def rivals(
    one: Float[Tensor, "a b answer"], where: Bool[Tensor, "a b"], seed: NotNegative = 0
) -> list[list[int]]:
    """Seven other sets of as many frequencies as the key ones, as controls.

    The first are the next strongest, the others are drawn at random from all that are not key
    frequencies.
    """
    keys = key_frequencies(one, where)
    others = [f for f in strongest(one, where) if f not in keys]
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randperm(len(others), generator=generator).tolist() for _ in range(6)]
    return [others[: len(keys)], *([others[i] for i in order[: len(keys)]] for order in drawn)]


@validated
def restricted(
    one: Float[Tensor, "a b answer"], frequencies: Sequence[int], where: Bool[Tensor, "a b"]
) -> Float[Tensor, "a b answer"]:
    """Of a table the waves of a + b at these frequencies, and a constant for each answer.

    As in Nanda et al. 2023, § 5. The means are over the pairs `where` alone. Give those of
    `is_new`: the means of all pairs hold the right answers of every pair that is memorised, and so
    waves of the sum.
    """
    return fourier.projected(by_sum(one, where), frequencies)[SUMS]


# All runs


def measured(run: Run) -> dict:
    """What is stored of a run."""
    return told(run, train(run)[1])


def told(run: Run, tables: Float[Tensor, "time a b answer"]) -> dict:
    """What is stored of a run with these tables.

    That is losses and right answers over time, on training pairs, on their mirror images (those
    that are not trained on) and on new pairs; and how well waves do alone on new pairs: the key
    frequencies, their rivals, and the three strongest of each moment.
    """
    known, new = is_train(run.seed), is_new(run.seed)
    loss, right = losses(tables), (tables.argmax(-1) == SUMS).float()
    keys = key_frequencies(tables[-1], new)
    waves = torch.stack([restricted(one, keys, new) for one in tables])
    others = torch.stack([_alone(tables, f, new) for f in rivals(tables[-1], new, run.seed)])
    three = torch.stack([restricted(one, strongest(one, new)[:3], new) for one in tables])
    every = torch.stack([by_sum(one, new)[SUMS] for one in tables])
    found = {
        "train_loss": loss[:, known].mean(1),
        "test_loss": loss[:, new].mean(1),
        "test_scaled": scaled(tables, new),
        "restricted_loss": losses(waves)[:, new].mean(1),
        "restricted_scaled": scaled(waves, new),
        "strongest_loss": losses(three)[:, new].mean(1),
        "means_loss": losses(every)[:, new].mean(1),
        "next_loss": others[0],
        "random_loss": others[1:].amin(0),  # the lowest of the six, at each time
        "mirror_right": right[:, known.T & ~known].mean(1),
        "test_right": right[:, new].mean(1),
    }
    return {
        **asdict(run),
        **{
            name: [float(f"{value:.4g}") for value in values.tolist()]
            for name, values in found.items()
        },
        "key_frequencies": keys,
    }


@validated
def scaled(
    tables: Float[Tensor, "time a b answer"], where: Bool[Tensor, "a b"]
) -> Float[Tensor, " time"]:
    """The loss on these pairs if all logits of a table are divided by the number that suits best.

    So it does not punish a table for being too sure. At most it is about what guessing costs.
    """
    tried = [losses(tables / by)[:, where].mean(1) for by in torch.logspace(-1, 3, 41).tolist()]
    return torch.stack(tried).amin(0)


def _alone(
    tables: Float[Tensor, "time a b answer"], frequencies: list[int], where: Bool[Tensor, "a b"]
) -> Float[Tensor, " time"]:
    """The loss on these pairs when the waves of these frequencies, and a constant, are all."""
    waves = torch.stack([restricted(one, frequencies, where) for one in tables])
    return losses(waves)[:, where].mean(1)


def stored() -> list[dict]:
    """The runs of `data/grokking.json`: each what `measured` gave."""
    return json.loads(verified(STORED).read_text(encoding="utf-8"))


def steps_before(runs: Sequence[dict], waves: str, whole: str) -> list[int]:
    """By how many steps one stored loss is clearly below guessing before another: least, most.

    Clearly means by 0.1 nats, and for good.
    """

    def last(run: dict, name: str) -> int:
        limit = math.log(P) - 0.1
        return max(run["every"] * i for i, nats in enumerate(run[name]) if nats >= limit)

    apart = [last(run, whole) - last(run, waves) for run in runs]
    return [min(apart), max(apart)]


def main(arguments: list[str] | None = None) -> None:
    """Train all runs and store what was measured, in `data/`."""
    prog = "python -m course_lessons.l09b_grokking.grokking"
    argparse.ArgumentParser(prog=prog, description=main.__doc__).parse_args(arguments)
    rows = [json.dumps(measured(run)) for run in tqdm(RUNS, unit="run")]
    write_text(STORED, "[\n" + ",\n".join(rows) + "\n]\n")
    write_checksums(DATA)


if __name__ == "__main__":
    main()
