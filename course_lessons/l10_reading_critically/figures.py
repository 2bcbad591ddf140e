"""What only lesson 10 draws: a prediction as a graph, a tangent, a probe, what is lost where."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from course_lessons import drawings
from course_lessons.boxes import D_VOCAB
from course_utils import measure, plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, MARKERS
from course_utils.text import visible

BLUE, ORANGE, GREY = *COLOURS[:2], COLOURS[6]
ALT = plots.alt_texts(__file__)
Point = tuple[float, float]
STEP = 16  # positions that a point of the loss is the mean of


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


def along(losses: Tensor, rises: Mapping[str, Tensor]) -> None:
    """The loss along a context, as it is and with what is lost without some heads.

    All are [context, pos - 1], in nats; a point is the mean of `STEP` positions.
    """
    lines = {"as it is": losses} | {f"without {name}": losses + x for name, x in rises.items()}
    starts = [*range(STEP, losses.shape[1], STEP)]  # the first tokens, which cost most, do not fit
    means = {
        name: torch.stack([x[:, start : start + STEP].mean() for start in starts])
        for name, x in lines.items()
    }
    x = [start + STEP / 2 for start in starts]
    title, size = "Where in a context does it get easier?", (8.8, 4.0)
    axes = plots.curves(means, title, "position", "loss, nats", x=x, markers=True, figsize=size)
    for start, end, says in ((32, 64, "early"), (losses.shape[1] - 128, losses.shape[1], "late")):
        axes.axvspan(start, end, color=GREY, alpha=0.15, lw=0)
        axes.text((start + end) / 2, 3.06, says, ha="center", color="#555555")
    axes.set_xlim(STEP, losses.shape[1])
    axes.set_ylim(3.0, axes.get_ylim()[1] + 0.35)
    axes.legend(loc="upper right", ncols=3, fontsize=9)


def definitions(found: Mapping[str, Mapping[str, Tensor]], document: Tensor) -> None:
    """Means over contexts, by definition and kind, with two standard errors either way.

    Errors are clustered by the contexts' `document`.
    """
    _, axes = plt.subplots(figsize=(8.8, 1.3 + 0.6 * len(found)))
    kinds = [*next(iter(found.values()))]
    for row, measured in enumerate(found.values()):
        for kind, values in measured.items():
            n, (mean, error) = kinds.index(kind), measure.mean_and_error(values, document)
            look: dict[str, Any] = {"color": COLOURS[n], "fmt": MARKERS[n], "capsize": 3}
            look["label"] = kind if row == 0 else None
            axes.errorbar(mean, row + 0.2 * (n - 1), xerr=2 * error, **look)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(found)), [*found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set(title="Does the definition decide?", xlabel="nats (bars: two standard errors)")
    axes.legend(loc="lower right", fontsize=9)


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
