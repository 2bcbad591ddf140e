"""What only lesson 10 draws: how methods rank doors, effects with their errors, one prediction as a
graph, a survey.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from course_lessons.l10_reading_critically.boxes import Tried
from course_utils import plots
from course_utils.interventions import Door, in_words
from course_utils.plots import COLOURS, MARKERS
from course_utils.text import visible

BLUE, ORANGE, GREY = *COLOURS[:2], COLOURS[6]
ALT = plots.alt_texts(__file__)
Point = tuple[float, float]


def board(found: Mapping[str, Mapping[str, Tried]], programs: Iterable[str]) -> None:
    """The mean score of each method, on a row, for each program: a table for each other text."""
    ways, names = [*next(iter(found.values()))], [*programs]
    panels = {f"patched with {way}": way for way in ways}
    size = (9.8, 2.0 + 0.36 * len(found))
    for (title, way), (axes, _) in zip(panels.items(), plots.panels(panels, size), strict=True):
        means = torch.stack([by_way[way].score.mean(1) for by_way in found.values()])
        look: dict[str, Any] = {"numbers_from": 0.0, "bar": False, "axes": axes, "colours": "Blues"}
        plots.heatmap(means, [*found], names, title, **look)
        axes.images[0].set_clim(0, 1)
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
        axes.set_yticks(range(len(found)), [*found])


def tangent(losses: Sequence[float], slope: float) -> None:
    """The loss while a door goes from one text's content to another's, and what the gradient at the
    start foresees.
    """
    share = torch.linspace(0, 1, len(losses))
    lines = {"patched": torch.tensor(losses), "the gradient's estimate": losses[0] + slope * share}
    labels = (
        "What does patching cost, on the way?",
        "share of the other text in the door",
        "loss, nats",
    )
    plots.curves(lines, *labels, x=share).legend(loc="upper left")


def estimates(pairs: Sequence[tuple[float, float]], named: Sequence[Door]) -> None:
    """Each door's cost and the gradient's estimate of it; the first of `named` doors have their
    names beside them.
    """
    costs, guesses = torch.tensor(pairs).T
    _, axes = plt.subplots(figsize=(6.6, 5.0))
    axes.scatter(costs, guesses, 28, color=BLUE, alpha=0.7)
    ends = [min(costs.min(), guesses.min()).item(), max(costs.max(), guesses.max()).item()]
    axes.plot(ends, ends, "--", color=GREY, label="estimate = cost")
    for place, door in zip(costs.argsort(descending=True).tolist(), named, strict=False):
        axes.text(
            costs[place].item() - 0.1, guesses[place].item(), in_words(door), fontsize=9, ha="right"
        )
    axes.set(title="Does the gradient know what doors are worth?")
    axes.set(xlabel="what patching costs, nats", ylabel="what the gradient says, nats")
    axes.legend(loc="lower right")


def effects(by_name: Mapping[str, tuple[float, float]], title: str, unit: str) -> None:
    """Means, each with two standard errors either way, beside a line at 0."""
    _, axes = plt.subplots(figsize=(8.2, 1.1 + 0.45 * len(by_name)))
    for row, (mean, error) in enumerate(by_name.values()):
        axes.errorbar(mean, row, xerr=2 * error, fmt="o", color=BLUE, capsize=4)
        axes.text(mean, row - 0.18, plots.written(mean), ha="center", va="bottom", fontsize=9)
    axes.axvline(0, color=GREY, lw=1)
    axes.set_yticks(range(len(by_name)), list(by_name))
    axes.set(
        title=title, xlabel=f"{unit} (bars: two standard errors)", ylim=(len(by_name) - 0.5, -0.7)
    )


def survey(pages: Mapping[str, Mapping[str, Any]]) -> None:
    """Every head of every model on the page: does it look for repetition, and copy what it finds?"""
    _, axes = plt.subplots(figsize=(7.6, 4.6))
    for number, (name, page) in enumerate(
        (name, page) for name, page in pages.items() if "copying" in page
    ):
        mark, colour = MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]
        x, y = (np.concatenate(page[score]) for score in ("prefix_matching", "copying"))
        axes.scatter(x.clip(1e-4), y, s=45, label=name, marker=mark, color=colour, alpha=0.8)
    axes.set(title="Which heads look for repetition, and copy what they find?")
    axes.set(
        xlabel="prefix-matching score (0.0001: that or less)", ylabel="copying score", xscale="log"
    )
    axes.legend(loc="lower right")


def _arrow(axes: Axes, start: Point, end: Point, colour: str, line: str, lw: float = 1.6) -> None:
    style = {
        "arrowstyle": "-|>",
        "color": colour,
        "ls": line,
        "lw": lw,
        "shrinkA": 10,
        "shrinkB": 10,
    }
    axes.annotate("", end, start, arrowprops=style, zorder=0)


def graph(
    tokens: Sequence[str], out: str, terms: tuple[Tensor, Tensor, Tensor, Tensor], least: float
) -> None:
    """The `terms` of `to_logit` that add at least `least` to a logit, or take it away; the rest is
    one number.
    """
    direct, layer_0, layer_1, both = terms
    _, axes = plt.subplots(figsize=(9.8, 5.4))
    n, logit = len(tokens), (len(tokens) - 3.0, 3.3)
    for place, token in enumerate(tokens):
        axes.plot(place, 0, ".", color="#555555")
        look: dict[str, Any] = {
            "rotation": 60,
            "rotation_mode": "anchor",
            "ha": "right",
            "va": "center",
        }
        axes.text(place, -0.15, visible(token), family="monospace", parse_math=False, **look)
    large_0, large_1, large = (
        (values.abs() >= least).nonzero().tolist() for values in (layer_0, layer_1, both)
    )
    top = sorted({head for head, *_ in large_1 + large})
    at = {
        head: (x, 2.2)
        for head, x in zip(top, torch.linspace(n - 12, n - 4, len(top)).tolist(), strict=True)
    }
    # what it adds, where it passes
    routes: list[Any] = [(direct, (n - 1, 0), logit)] if abs(direct) >= least else []
    routes += [(layer_0[h, src], (src, 0), (n - 1, 1.1), logit) for h, src in large_0]
    routes += [(layer_1[h, src], (src, 0), at[h], logit) for h, src in large_1]
    routes += [
        (both[h, first, dest, src], (src, 0), (dest, 1.1), at[h], logit)
        for h, first, dest, src in large
    ]
    boxes = {(*at[h], f"1.{h}") for h in top} | {(n - 1, 1.1, f"0.{h}") for h, _ in large_0}
    for x, y, name in sorted(boxes | {(dest, 1.1, f"0.{first}") for _, first, dest, _ in large}):
        _head(axes, name, x, y)
    edges: dict[Any, float] = defaultdict(float)  # which several routes may share
    for value, *places in routes:
        for edge in pairwise(places):
            edges[edge] += value.item()
    for (start, end), weight in edges.items():
        _arrow(
            axes,
            start,
            end,
            *((BLUE, "-") if weight > 0 else (ORANGE, "--")),
            0.8 + 0.6 * abs(weight),
        )
        x, y = (0.55 * a + 0.45 * b for a, b in zip(start, end, strict=True))
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text(
            x, y, plots.written(weight, "+.1f"), fontsize=9, ha="center", va="center", bbox=box
        )
    total = (direct + layer_0.sum() + layer_1.sum() + both.sum()).item()
    plots.box(
        axes, logit[0], logit[1] + 0.1, f"{visible(out)}: {plots.written(total, '+.1f')}", "#ffe9d6"
    )
    rest = plots.written(total - sum(value.item() for value, *_ in routes), "+.1f")
    axes.text(n - 0.6, 3.45, f"the rest, in small pieces: {rest}", fontsize=9)
    for y, label in ((0, "tokens"), (1.1, "layer 0"), (2.2, "layer 1"), (3.45, "logit")):
        axes.text(-2.6, y, label, va="center", fontsize=9, color="#555555")
    axes.set(xlim=(-2.8, n + 4.5), ylim=(-1.3, 3.9))
    axes.axis("off")


def _head(axes: Axes, name: str, x: float, y: float) -> Point:
    plots.box(axes, x, y, name, "#dcebf5")
    return x, y
