"""Methods that give every door of a model a score, and how well they rank the doors of boxes."""

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm
from transformer_lens import HookedTransformer

from course_lessons import boxes
from course_lessons.boxes import D_VOCAB, PERIOD, PROGRAMS, Metric, Scores, Texts
from course_lessons.programs import run
from course_utils import composition, measure
from course_utils._arguments import Count, require_tokens, validated
from course_utils._torch_state import one_thread
from course_utils.interventions import Door

Method = Callable[..., Scores]  # (model, clean, other, metric)

Scored = dict[tuple[str, str], Float[Tensor, "program seed"]]  # by method and metric
SEEDS = range(100, 103)  # of the boxes on trial


def _logits(model: HookedTransformer, tokens: Texts) -> Float[Tensor, "batch pos d_vocab"]:
    """The logits that predict the second half of texts."""
    require_tokens(model, tokens)
    return model(tokens)[:, tokens.shape[1] // 2 + 1 : -1]


@validated
def minus_logit(model: HookedTransformer, tokens: Texts) -> Float[Tensor, ""]:
    """Minus the right token's logit in the second half, counted from the mean of all logits.

    Like a loss it rises when a model gets worse, but no softmax comes after the logits.
    """
    logits = _logits(model, tokens)
    right = logits.gather(-1, tokens[:, -logits.shape[1] :, None])[..., 0]  # [batch, pos]
    return (logits.mean(-1) - right).mean()


@validated
def divergence(model: HookedTransformer, clean: Texts) -> Metric:
    """A metric: the KL divergence from what the model says of `clean` now, in nats.

    Unlike a loss it cannot fall when a part is taken out.
    """
    with torch.no_grad():
        whole = _logits(model, clean).log_softmax(-1)  # [batch, pos, d_vocab]

    def from_whole(model: HookedTransformer, tokens: Texts) -> Float[Tensor, ""]:
        now = _logits(model, tokens).log_softmax(-1)
        return (whole.exp() * (whole - now)).sum(-1).mean()

    return from_whole


METRICS: dict[str, Callable[[HookedTransformer, Texts], Metric]] = {
    "loss": lambda model, clean: boxes.loss,
    "logit": lambda model, clean: minus_logit,
    "KL": divergence,
}


@validated
def path_patching(
    model: HookedTransformer, clean: Texts, other: Texts, metric: Metric = boxes.loss
) -> Scores:
    """By how much a metric rises when one door carries what it carries on other texts."""
    elsewhere, whole = boxes.recorded(model, other).z, metric(model, clean).item()
    return {
        door: boxes.patched(model, clean, [door], elsewhere, metric) - whole
        for door in boxes.doors(model)
    }


def _changes(model: HookedTransformer, clean: Tensor, other: Tensor) -> dict[Door, Tensor]:
    """By how much what a door's reader receives differs on other texts, [batch, pos, d_head]."""
    z, z_other = (boxes.recorded(model, texts).z for texts in (clean, other))
    changes = {head: z_other[head] - z[head] for head in z}
    return {door: changes[door[0]] @ boxes.through(model, door) for door in boxes.doors(model)}


def _estimates(
    model: HookedTransformer,
    clean: Tensor,
    other: Tensor,
    metric: Metric,
    embeddings: Sequence[Tensor | None],
) -> Scores:
    """Each door's change times the metric's gradient there, averaged over some embeddings."""
    gradients: dict[tuple[str, int], Tensor] = {}
    for at in embeddings:
        there = boxes.recorded(model, clean, at, metric)
        slopes = torch.autograd.grad(there.loss, list(there.reads.values()))
        for read, slope in zip(there.reads, slopes, strict=True):
            gradients[read] = gradients.get(read, 0) + slope / len(embeddings)
    return {
        (writer, path, (layer, head)): (gradients[path, layer][:, :, head] * change).sum().item()
        for (writer, path, (layer, head)), change in _changes(model, clean, other).items()
    }


@validated
def attribution_patching(
    model: HookedTransformer, clean: Texts, other: Texts, metric: Metric = boxes.loss
) -> Scores:
    """The same as one gradient estimates it, on the clean texts (Syed et al.)."""
    return _estimates(model, clean, other, metric, [None])


@validated
def eap_ig(
    model: HookedTransformer,
    clean: Texts,
    other: Texts,
    metric: Metric = boxes.loss,
    steps: Count = 5,
) -> Scores:
    """The same with the mean gradient at mixtures of both texts' embeddings (Hanna et al.)."""
    ends = model.W_E[other], model.W_E[clean]  # [batch, pos, d_model] each
    mixtures = [torch.lerp(*ends, step / steps) for step in range(1, steps + 1)]
    return _estimates(model, clean, other, metric, mixtures)


@validated
def composition_scores(
    model: HookedTransformer, clean: Texts, other: Texts, metric: Metric = boxes.loss
) -> Scores:
    """How much of what a head writes the next one's door reads.

    The weights alone say so: neither texts nor metric are looked at.
    """
    tables = {door: composition.scores(model, door.upper()) for door in "qkv"}
    return {
        (writer, path, reader): tables[path][writer + reader].item()
        for writer, path, reader in boxes.doors(model)
    }


@validated
def size_of_change(
    model: HookedTransformer, clean: Texts, other: Texts, metric: Metric = boxes.loss
) -> Scores:
    """How much what a door's reader receives differs between both texts.

    That is all: no door is patched, no gradient taken, and the metric is not looked at.
    """
    return {door: one.norm().item() for door, one in _changes(model, clean, other).items()}


@validated
def average_precision(scores: Scores, truth: Collection[Door]) -> float:
    """The mean precision at the ranks of the true doors, by the size of their scores.

    It is 0 if there are none.
    """
    ranked = sorted(scores, key=lambda door: abs(scores[door]), reverse=True)
    ranks = [rank for rank, door in enumerate(ranked, 1) if door in truth]
    return sum(met / rank for met, rank in enumerate(ranks, 1)) / max(len(truth), 1)


@validated
def reachable(program: str, other: Texts) -> set[tuple[str, str, str]]:
    """The doors of a program that a single patch can show at all.

    The program itself is run, without weights: a door counts if what the program says changes when
    this door alone carries what it carries on the other text.
    """
    clean, written = boxes.repeated(), PROGRAMS[program]
    whole, elsewhere = (run(written, texts, D_VOCAB) for texts in (clean, other))
    second = slice(PERIOD + 1, 2 * PERIOD)  # where the next token can be known
    changed = set()
    for door in written.doors():
        patched = run(written, clean, D_VOCAB, instead={door: elsewhere.wrote[door[0]]})
        said = patched.slots["out"][:, second]
        if (said - whole.slots["out"][:, second]).abs().max() > 0.01:
            changed.add(door)
    return changed


class Tried(NamedTuple):
    """How well a method ranks the doors of boxes: average precisions, [program, seed].

    Where no single patch can show a door, `reached` is NaN.
    """

    every: Float[Tensor, "program seed"]  # of all true doors
    reached: Float[Tensor, "program seed"]  # of those that a single patch can show


@validated
@one_thread()
def score(
    method: Method,
    other: Texts,
    metric: str = "loss",
    programs: Collection[str] = tuple(PROGRAMS),
    seeds: Collection[int] = SEEDS,
) -> Tried:
    """How a method ranks the doors of a box of each program and seed; equal scores are shuffled.

    A method gets a model, the texts of `boxes.repeated()`, other ones, and one of the `METRICS`,
    made for both. It returns a number for each door.
    """
    clean, every, reached = boxes.repeated(), list[float](), list[float]()
    within = {name: reachable(name, other) for name in programs}
    for name, seed in itertools.product(programs, seeds):
        model, truth, heads = boxes.box(name, seed)
        scores = list(method(model, clean, other, METRICS[metric](model, clean)).items())
        order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed)).tolist()
        table = dict(scores[n] for n in order)
        every.append(average_precision(table, truth))

        shown = {(heads[w], door, heads[r]) for w, door, r in within[name]}
        fair = {door: size for door, size in table.items() if door not in truth - shown}
        reached.append(average_precision(fair, shown) if shown else math.nan)
    shape = len(programs), len(seeds)
    return Tried(torch.tensor(every).view(shape), torch.tensor(reached).view(shape))


@validated
def trial(methods: Mapping[str, Method], other: Texts) -> Scored:
    """How each method ranks the doors that a single patch can show, with each metric, on all boxes.

    A bar shows how far it is.
    """
    rows = [(name, metric) for name in methods for metric in METRICS]
    bar = tqdm(rows, "rows", bar_format="{desc} {bar} {n_fmt}/{total_fmt}")
    return {(name, metric): score(methods[name], other, metric).reached for name, metric in bar}


@validated
def over_programs(tried: Scored) -> dict[str, dict[str, tuple[float, float]]]:
    """By method and metric, the mean over programs and its standard error.

    Boxes of one program are averaged first; a program without a door that a single patch can show
    does not count.
    """
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for (method, metric), scores in tried.items():
        by_program = scores.nanmean(1)  # [program]
        known = by_program[~by_program.isnan()]
        each = torch.arange(len(known))
        found.setdefault(method, {})[metric] = measure.mean_and_error(known, each)
    return found
