"""What only lesson 10 draws: rankings of doors, effects, a prediction as a graph, a survey."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from course_lessons import drawings
from course_lessons.l10_reading_critically.boxes import Tried
from course_utils import plots
from course_utils._style import draws_in_style
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
    """The loss while a door goes from one text's content to another's.

    Beside it stands what the gradient at the start foresees.
    """
    share = torch.linspace(0, 1, len(losses))
    lines = {"patched": torch.tensor(losses), "the gradient's estimate": losses[0] + slope * share}
    title, way = "What does patching cost, on the way?", "share of the other text in the door"
    plots.curves(lines, title, way, "loss, nats", x=share).legend(loc="upper left")


def estimates(pairs: Sequence[tuple[float, float]], named: Sequence[Door]) -> None:
    """Each door's cost and the gradient's estimate of it.

    The first of `named` doors have their names beside them.
    """
    costs, guesses = torch.tensor(pairs).T
    _, axes = plt.subplots(figsize=(6.6, 5.0))
    axes.scatter(costs, guesses, 28, color=BLUE, alpha=0.7)
    ends = [min(costs.min(), guesses.min()).item(), max(costs.max(), guesses.max()).item()]
    axes.plot(ends, ends, "--", color=GREY, label="estimate = cost")
    for place, door in zip(costs.argsort(descending=True).tolist(), named, strict=False):
        x, y = costs[place].item() - 0.1, guesses[place].item()
        axes.text(x, y, in_words(door), fontsize=9, ha="right")
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
    axes.set(title=title, xlabel=f"{unit} (bars: two standard errors)")
    axes.set_ylim(len(by_name) - 0.5, -0.7)


def survey(pages: Mapping[str, Mapping[str, Any]]) -> None:
    """Every head of every model: does it look for repetition, and copy what it finds?"""
    _, axes = plt.subplots(figsize=(7.6, 4.6))
    with_heads = {name: page for name, page in pages.items() if "copying" in page}
    for number, (name, page) in enumerate(with_heads.items()):
        mark, colour = MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]
        x, y = (np.concatenate(page[score]) for score in ("prefix_matching", "copying"))
        axes.scatter(x.clip(1e-4), y, s=45, label=name, marker=mark, color=colour, alpha=0.8)
    axes.set(title="Which heads look for repetition, and copy what they find?", xscale="log")
    axes.set(xlabel="prefix-matching score (0.0001: that or less)", ylabel="copying score")
    axes.legend(loc="lower right")


def graph(
    tokens: Sequence[str], out: str, terms: tuple[Tensor, Tensor, Tensor, Tensor], least: float
) -> None:
    """The `terms` of `to_logit` that change a logit by at least `least`, as a graph.

    The rest is one number.
    """
    direct, layer_0, layer_1, both = terms
    n = len(tokens)
    _, axes = plt.subplots(figsize=(9.8, 5.4))
    _tokens_below(axes, tokens)

    # choose: which terms are large enough
    large_0 = _large(layer_0, least)  # [head, src]
    large_1 = _large(layer_1, least)  # [head, src]
    large_both = _large(both, least)  # [head of layer 1, head of layer 0, dest, src]

    # place: a head of layer 0 where it writes, heads of layer 1 side by side above the text
    logit = (n - 3.0, 3.3)
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

    # sum: several routes may share an edge
    edges: dict[tuple[Point, Point], float] = defaultdict(float)
    for value, places in routes:
        for edge in pairwise(places):
            edges[edge] += value

    # draw, and write the sum and the rest on top
    for (start, end), weight in edges.items():
        _edge(axes, start, end, weight)
    total = (direct + layer_0.sum() + layer_1.sum() + both.sum()).item()
    says = f"{visible(out)}: {plots.written(total, '+.1f')}"
    drawings.box(axes, logit[0], logit[1] + 0.1, says, "#ffe9d6")
    rest = plots.written(total - sum(value for value, _ in routes), "+.1f")
    axes.text(n - 0.6, 3.45, f"the rest, in small pieces: {rest}", fontsize=9)
    for y, label in ((0, "tokens"), (1.1, "layer 0"), (2.2, "layer 1"), (3.45, "logit")):
        axes.text(-2.6, y, label, va="center", fontsize=9, color="#555555")
    axes.set(xlim=(-2.8, n + 4.5), ylim=(-1.3, 3.9))
    axes.axis("off")


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
