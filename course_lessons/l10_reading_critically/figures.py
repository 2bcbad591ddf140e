"""What only lesson 10 draws: rankings of doors, effects, a probe, a prediction as a graph."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lessons import drawings
from course_lessons.l10_reading_critically.boxes import D_VOCAB, Tried
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.interventions import Door, in_words
from course_utils.plots import COLOURS
from course_utils.text import visible

BLUE, ORANGE, GREY = *COLOURS[:2], COLOURS[6]
ALT = plots.alt_texts(__file__)
Point = tuple[float, float]


def board(
    trial: Mapping[str, Sequence[Tried]], forms: Sequence[str], programs: Iterable[str]
) -> None:
    """How each method ranks the doors of each program: a table for each other text.

    `trial` has what was tried with each of these texts, by method. Hatched: no door can be reached.
    """
    names, methods = [*programs], [*trial]
    size = (8.8, 2.0 + 0.36 * len(methods))
    panels = {f"other text: {form}": number for number, form in enumerate(forms)}
    for (title, number), (axes, _) in zip(panels.items(), plots.panels(panels, size), strict=True):
        scores = torch.stack([tries[number].reached.nanmean(1) for tries in trial.values()])
        look: dict[str, Any] = {"bar": False, "axes": axes, "colours": "Blues"}
        plots.heatmap(scores.nan_to_num(0), methods, names, title, limit=1.0, **look)
        axes.images[0].set_clim(0, 2.2)  # light enough for numbers in black
        for (row, column), score in np.ndenumerate(scores.numpy()):
            if np.isnan(score):
                corner = column - 0.5, row - 0.5
                style: dict[str, Any] = {"facecolor": "#eeeeee", "edgecolor": "#999999", "lw": 0}
                style["hatch"] = "////"
                axes.add_patch(Rectangle(corner, 1, 1, **style))
            else:
                said = plots.written(float(score))
                axes.text(column, row, said, ha="center", va="center", fontsize=9)
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
        axes.set_yticks(range(len(methods)), methods)
        axes.set_xlabel("hatched: no door within reach", labelpad=8)


def probe(right: Mapping[str, Sequence[float]], rises: Mapping[str, float]) -> None:
    """What a probe reads before and after layer 0, and what is lost without the head that wrote it.

    `right` has both shares by label, `rises` nats.
    """
    labels = [*right]
    _, (left, other) = plt.subplots(1, 2, figsize=(8.8, 3.4))
    before, after = zip(*right.values(), strict=True)
    groups = {"before layer 0": before, "after layer 0": after}
    title = "Can a probe read it?"
    plots.grouped_bars(groups, labels, title, "share right", numbers=True, axes=left)
    left.set(ylim=(0, 1.35), yticks=[0, 0.25, 0.5, 0.75, 1])  # 1 is the most
    left.axhline(1 / (D_VOCAB - 1), color=GREY, ls="--", label="chance")
    left.legend(loc="upper center", ncols=3, columnspacing=0.9, handlelength=1.4)
    other.bar(labels, [*rises.values()], 0.5, color=COLOURS[2])
    for column, value in enumerate(rises.values()):  # above the axis, also where it is just below 0
        other.text(column, max(value, 0), plots.written(value), ha="center", va="bottom")
    other.set(title="Is it used?", ylabel="rise of the loss without its head, nats")
    other.set_ylim(0, 1.15 * max(*rises.values(), 0.1))


def tangent(losses: Sequence[float], slope: float) -> None:
    """The loss while a door goes from one text's content to another's.

    Beside it stands what the gradient at the start foresees.
    """
    share = torch.linspace(0, 1, len(losses))
    lines = {"patched": torch.tensor(losses), "the gradient's estimate": losses[0] + slope * share}
    title, way = "What does patching cost, on the way?", "share of the other text in the door"
    plots.curves(lines, title, way, "loss, nats", x=share).legend(loc="upper left")


def estimates(costs: Mapping[Door, float], guesses: Mapping[Door, float]) -> None:
    """Each door's cost and the gradient's estimate of it; the two most costly are named."""
    _, axes = plt.subplots(figsize=(6.6, 5.0))
    x, y = ([table[door] for door in costs] for table in (costs, guesses))
    axes.scatter(x, y, 22, color=BLUE, alpha=0.5, linewidths=0)
    ends = [min(*x, *y), max(*x, *y)]
    axes.plot(ends, ends, "--", color=GREY, label="estimate = cost")
    for door in sorted(costs, key=lambda door: costs[door], reverse=True)[:2]:
        above = guesses[door] > costs[door]  # away from the dashed line
        place: dict[str, Any] = {
            "ha": "right" if above else "left",
            "va": "bottom" if above else "top",
        }
        axes.text(costs[door], guesses[door], f" {in_words(door)} ", fontsize=9, **place)
    axes.set_xlim(ends[0] - 0.2, ends[1] + 1.1)
    axes.set(title="Does the gradient know what patching costs?")
    axes.set(xlabel="what patching costs, nats", ylabel="what the gradient says, nats")
    axes.legend(loc="lower right")


def graph(
    tokens: Sequence[str], out: str, terms: tuple[Tensor, Tensor, Tensor, Tensor], least: float
) -> None:
    """The `terms` of `to_logit` that change a logit by at least `least`, as a graph.

    The rest is one number.
    """
    n = len(tokens)
    _, axes = plt.subplots(figsize=(8.8, 5.4))
    _tokens_below(axes, tokens)
    logit = (n - 3.0, 3.3)
    routes = _routes(axes, n, logit, terms, least)

    # sum: several routes may share an edge
    edges: dict[tuple[Point, Point], float] = defaultdict(float)
    for value, places in routes:
        for edge in pairwise(places):
            edges[edge] += value

    # draw, and write the sum and the rest on top
    for (start, end), weight in edges.items():
        _edge(axes, start, end, weight)
    total = sum(term.sum().item() for term in terms)
    says = f"{visible(out)}: {plots.written(total, '+.1f')}"
    drawings.box(axes, logit[0], logit[1] + 0.1, says, "#ffe9d6")
    rest = plots.written(total - sum(value for value, _ in routes), "+.1f")
    axes.text(n - 0.6, 3.45, f"the rest, in small pieces: {rest}", fontsize=9)
    for y, label in ((0, "tokens"), (1.1, "layer 0"), (2.2, "layer 1"), (3.45, "logit")):
        axes.text(-2.6, y, label, va="center", fontsize=9, color="#555555")
    axes.set(xlim=(-2.8, n + 4.5), ylim=(-1.3, 3.9))
    axes.axis("off")


def _routes(
    axes: Axes, n: int, logit: Point, terms: tuple[Tensor, Tensor, Tensor, Tensor], least: float
) -> list[tuple[float, list[Point]]]:
    """What each large term adds and where it passes; boxes are drawn for the heads on the way."""
    # choose: which terms are large enough
    direct, layer_0, layer_1, both = terms
    large_0 = _large(layer_0, least)  # [head, src]
    large_1 = _large(layer_1, least)  # [head, src]
    large_both = _large(both, least)  # [head of layer 1, head of layer 0, dest, src]

    # place: a head of layer 0 where it writes, heads of layer 1 side by side above the text
    top = sorted({head for head, *_ in large_1 + large_both})
    across = torch.linspace(n - 12, n - 4, len(top)).tolist()
    at = {head: (x, 2.2) for head, x in zip(top, across, strict=True)}
    boxes = {(*place, f"1.{head}") for head, place in at.items()}
    boxes |= {(n - 1, 1.1, f"0.{head}") for head, _ in large_0}
    boxes |= {(dest, 1.1, f"0.{first}") for _, first, dest, _ in large_both}
    for x, y, name in sorted(boxes):
        drawings.box(axes, x, y, name, "#dcebf5")

    # route: what each term adds, and where it passes
    routes: list[tuple[float, list[Point]]] = []
    if abs(direct) >= least:
        routes.append((direct.item(), [(n - 1, 0), logit]))
    for head, src in large_0:
        routes.append((layer_0[head, src].item(), [(src, 0), (n - 1, 1.1), logit]))
    for head, src in large_1:
        routes.append((layer_1[head, src].item(), [(src, 0), at[head], logit]))
    for head, first, dest, src in large_both:
        value = both[head, first, dest, src].item()
        routes.append((value, [(src, 0), (dest, 1.1), at[head], logit]))
    return routes


def _tokens_below(axes: Axes, tokens: Sequence[str]) -> None:
    """A dot for each token, and below it the token, slanted."""
    look: dict[str, Any] = {"family": "monospace", "parse_math": False}
    look |= {"rotation": 60, "rotation_mode": "anchor", "ha": "right", "va": "center"}
    for place, token in enumerate(tokens):
        axes.plot(place, 0, ".", color="#555555")
        axes.text(place, -0.15, visible(token), **look)


def _large(values: Tensor, least: float) -> list[list[int]]:
    """Where the values are at least so large, up or down: an index into `values` each."""
    return (values.abs() >= least).nonzero().tolist()


def _edge(axes: Axes, start: Point, end: Point, weight: float) -> None:
    """An arrow, as wide as its weight, and the weight beside its middle."""
    colour, line = (BLUE, "-") if weight > 0 else (ORANGE, "--")
    style = {"arrowstyle": "-|>", "color": colour, "ls": line, "shrinkA": 10, "shrinkB": 10}
    style["lw"] = 0.8 + 0.6 * abs(weight)
    axes.annotate("", end, start, arrowprops=style, zorder=0)

    x = 0.55 * start[0] + 0.45 * end[0]
    y = 0.55 * start[1] + 0.45 * end[1]
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    said = plots.written(weight, "+.1f")
    axes.text(x, y, said, fontsize=9, ha="center", va="center", bbox=box)


draws_in_style(__name__)
