"""Addition around a clock face, learnt late: (a + b) mod 53 from 40 % of the pairs.

Runs are with and without weight decay. A run is told as its tables: the logits [a, b, answer] for
all pairs, at some steps of training. All that lesson 09b measures is measured on such tables.
`python -m course_lessons.l09b_grokking.grokking` trains all runs and writes what it measured to
`data/grokking.json`, in some minutes on one core.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy
from tqdm import tqdm
from transformer_lens import HookedTransformer

from course_lessons import by_hand, fourier
from course_utils import models
from course_utils._arguments import NotNegative, validated
from course_utils._files import DATA, verified, write_checksums, write_text
from course_utils._torch_state import usual
from course_utils.training import tasks

P = 53  # numbers on the clock face; a prime, so that every frequency passes through all of them
SHARE = 0.4  # of the pairs, to train on
PAIRS = torch.cartesian_prod(torch.arange(P), torch.arange(P))  # all 53 · 53 (a, b), b faster
SUMS = PAIRS.sum(1).view(P, P) % P  # the right answers [a, b]
ALL = torch.ones(P, P, dtype=torch.bool)
FIVE = (3, 8, 12, 20, 25)  # frequencies of what is made by hand
STORED = DATA / "grokking.json"


@dataclass(frozen=True)
class Run:
    """How one run is made: AdamW on all training pairs at once."""

    seed: int = 0
    decay: float = 1.0  # weight decay
    attends: bool = True  # False: attention stays half and half, as in an adder made by hand
    steps: int = 1_000  # some hundred later the loss jumps up now and then, with this learning rate
    every: int = 20  # steps between tables


# weight decay, whether attention learns, seeds
KINDS = ((1.0, True, 6), (0.0, True, 3), (1.0, False, 3))
RUNS = [Run(seed, decay, attends) for decay, attends, seeds in KINDS for seed in range(seeds)]


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
    if not run.attends:
        for weight in (model.blocks[0].attn.W_Q, model.blocks[0].attn.W_K):
            weight.requires_grad_(False).zero_()  # every score is 0
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01, betas=(0.9, 0.98), weight_decay=run.decay)
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
def loudness(one: Float[Tensor, "a b answer"]) -> Float[Tensor, "sum difference"]:
    """The right answer's logit by a + b and a − b (mod 53), in standard deviations off its mean."""
    total, apart = torch.meshgrid(torch.arange(P), torch.arange(P), indexing="ij")
    a = (total + apart) * (P + 1) // 2 % P  # half of the sum of both, on a clock face of odd P
    right = one[a, (total - a) % P, total]
    return (right - right.mean()) / right.std()


@validated
def by_sum(
    one: Float[Tensor, "a b answer"], where: Bool[Tensor, "a b"] | None = None
) -> Float[Tensor, "sum answer"]:
    """The mean logits of the pairs with the same a + b (mod 53), of all or of those in `where`."""
    sums = SUMS.to(one.device)
    pairs = torch.ones_like(sums).bool() if where is None else where
    return torch.stack([one[pairs & (total == sums)].mean(0) for total in range(P)])


@validated
def key_frequencies(one: Float[Tensor, "a b answer"]) -> list[int]:
    """Frequencies that hold at least 5 % of the variance of the logits by sum."""
    power = fourier.power(by_sum(one)).sum(1)
    return (power >= 0.05 * power.sum()).nonzero().flatten().tolist()


@validated
def rivals(one: Float[Tensor, "a b answer"], seed: NotNegative = 0) -> list[list[int]]:
    """Seven other sets of as many frequencies as the key ones, as controls.

    The first are the next strongest of the logits by sum, the others are drawn at random from all
    that are not key frequencies.
    """
    keys = key_frequencies(one)
    power = fourier.power(by_sum(one)).sum(1)
    others = [f for f in power.argsort(descending=True).tolist() if f and f not in keys]
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


# Clock or pizza


@validated
def distance_irrelevance(right: Float[Tensor, " pair"], apart: Int[Tensor, " pair"]) -> float:
    """How little the right answer's logit depends on a − b.

    It is 0 for a pizza and goes towards 1 for a clock (Zhong et al. 2023). The standard deviation
    over the pairs that are equally far `apart`, averaged over distances, divided by that over all
    pairs.
    """
    within = [right[apart == d].std(correction=0) for d in apart.unique()]
    return (torch.stack(within).mean() / right.std(correction=0)).item()


@usual()
@validated
def symmetricity(
    logits: Callable[[Float[Tensor, "case 2 d"]], Float[Tensor, "case answer"]],
    embedded: Float[Tensor, "case 2 d"],
) -> float:
    """How alike the gradients of a logit are for both operands' embeddings.

    It is their mean cosine (Zhong et al. 2023). 1 for a pizza. As theirs, the logit of each case is
    that of an answer drawn at random. `logits` makes logits of what is `embedded`; for a
    transformer it is `after_embedding`.
    """
    embedded = embedded.clone().requires_grad_()
    said = logits(embedded)
    generator = torch.Generator().manual_seed(0)
    answers = torch.randint(said.shape[1], (len(said), 1), generator=generator, device="cpu")
    chosen = said.gather(1, answers.to(said.device))
    (gradient,) = torch.autograd.grad(chosen.sum(), embedded)
    return cosine_similarity(gradient[:, 0], gradient[:, 1]).mean().item()


@validated
def after_embedding(model: HookedTransformer) -> Callable[[Tensor], Tensor]:
    """The part of a transformer that makes logits, at the last position, of two embedded tokens."""

    def logits(embedded: Tensor) -> Tensor:
        tokens = torch.zeros(embedded.shape[:2], dtype=torch.long)  # their embeddings are replaced
        return model.run_with_hooks(
            tokens, fwd_hooks=[("hook_embed", lambda value, hook: embedded)]
        )[:, -1]

    return logits


Place = tuple[float, float]  # gradient symmetricity, distance irrelevance


def _place(
    logits: Callable,
    embedded: Tensor,
    said: Float[Tensor, "pair answer"],
    pairs: Int[Tensor, "pair 2"],
) -> Place:
    """The place of what makes `logits` of embedded pairs, and has `said` these.

    The sum is taken on the clock face, or past it.
    """
    sums, apart = pairs.sum(1), pairs[:, 0] - pairs[:, 1]
    if said.shape[1] == P:
        sums, apart = sums % P, apart % P
    return symmetricity(logits, embedded), distance_irrelevance(
        said.gather(1, sums[:, None])[:, 0], apart
    )


@validated
def place(model: HookedTransformer) -> Place:
    """Gradient symmetricity and distance irrelevance of a model, on all its pairs.

    There are 53 · 53, or sums up to 127.
    """
    n = model.cfg.d_vocab
    pairs = PAIRS if n == P else tasks.sequences(2, n)
    return _place(after_embedding(model), model.W_E[pairs], model(pairs)[:, -1], pairs)


def pizza() -> tuple[Float[Tensor, "a b answer"], Place]:
    """A pizza made by hand, its table and its place.

    It has, for each of five waves, nine neurons that read both operands' mean. Its votes are
    |cos(πk(a − b)/53)| cos(2πk(a + b − c)/53), a sum over the waves k.
    """
    turn, crest = 2 * torch.pi * torch.arange(P) / P, 2 * torch.pi * torch.arange(9) / 9
    curves = torch.cat([(k * turn[:, None] - crest).cos() for k in FIVE], 1)  # [value, neuron]
    votes = torch.cat([(k * turn - 2 * crest[:, None]).cos() for k in FIVE])  # [neuron, answer]
    model = by_hand.from_neurons(curves, votes)

    def logits(two: Tensor) -> Tensor:  # only the first dimensions of its stream hold the token
        return after_embedding(model)(torch.nn.functional.pad(two, (0, 2 * P)))

    said = table(model)
    return said, _place(logits, torch.eye(P)[PAIRS], said.flatten(0, 1), PAIRS)


def clock() -> tuple[Float[Tensor, "a b answer"], Place]:
    """A clock made by hand, its table and its place.

    It multiplies the hands of both operands, for each of five waves. The hands' lengths vary by 10
    % or so: with equal ones all right logits were the same, with nothing to measure.
    """
    turn = 2 * torch.pi * torch.arange(P)[:, None] / P
    # complex: points on five circles
    hands = torch.polar(torch.ones(P, len(FIVE)), turn * torch.tensor(FIVE))
    uneven = 1 + 0.1 * torch.randn(P, len(FIVE), generator=torch.Generator().manual_seed(0))

    def logits(two: Tensor) -> Tensor:  # embedded operands [case, 2, 10] → logits [case, answer]
        a, b = torch.view_as_complex(two.unflatten(-1, (len(FIVE), 2))).unbind(1)
        return ((a * b)[:, None] * hands.conj()).real.sum(-1)

    embedded = torch.view_as_real(hands * uneven).flatten(1)[PAIRS]  # [pair, 2, 10]
    said = logits(embedded)
    return said.view(P, P, P), _place(logits, embedded, said, PAIRS)


# All runs


def measured(run: Run) -> dict:
    """What is stored of a run.

    That is losses and right answers over time, on training pairs, on their mirror images (those
    that are not trained on) and on new pairs; how well the key frequencies do alone on new pairs,
    and their rivals; and where the model stands between clock and pizza.
    """
    model, tables = train(run)
    known, new = is_train(run.seed), is_new(run.seed)
    loss, right = losses(tables), (tables.argmax(-1) == SUMS).float()
    keys, (even, irrelevant) = key_frequencies(tables[-1]), place(model)
    waves = torch.stack([restricted(one, keys, new) for one in tables])
    others = torch.stack([_alone(tables, f, new) for f in rivals(tables[-1], run.seed)])
    found = {
        "train_loss": loss[:, known].mean(1),
        "test_loss": loss[:, new].mean(1),
        "restricted_loss": losses(waves)[:, new].mean(1),
        "next_loss": others[0],
        "random_loss": others[1:].amin(0),  # the lowest of the six, at each time
        "mirror_right": right[:, known.T & ~known].mean(1),
        "test_right": right[:, new].mean(1),
        "restricted_right": (waves.argmax(-1) == SUMS).float()[:, new].mean(1),
    }
    return {
        **asdict(run),
        **{
            name: [float(f"{value:.4g}") for value in values.tolist()]
            for name, values in found.items()
        },
        "key_frequencies": keys,
        "symmetricity": round(even, 4),
        "distance_irrelevance": round(irrelevant, 4),
    }


def _alone(
    tables: Float[Tensor, "time a b answer"], frequencies: list[int], where: Bool[Tensor, "a b"]
) -> Float[Tensor, " time"]:
    """The loss on these pairs when the waves of these frequencies, and a constant, are all."""
    waves = torch.stack([restricted(one, frequencies, where) for one in tables])
    return losses(waves)[:, where].mean(1)


def stored() -> list[dict]:
    """The runs of `data/grokking.json`: each what `measured` gave, and its place."""
    runs = json.loads(verified(STORED).read_text(encoding="utf-8"))
    return [run | {"place": (run["symmetricity"], run["distance_irrelevance"])} for run in runs]


def main(arguments: list[str] | None = None) -> None:
    """Train all runs and store what was measured, in `data/`."""
    prog = "python -m course_lessons.l09b_grokking.grokking"
    argparse.ArgumentParser(prog=prog, description=main.__doc__).parse_args(arguments)
    rows = [json.dumps(measured(run)) for run in tqdm(RUNS, unit="run")]
    write_text(STORED, "[\n" + ",\n".join(rows) + "\n]\n")
    write_checksums(DATA)


if __name__ == "__main__":
    main()
