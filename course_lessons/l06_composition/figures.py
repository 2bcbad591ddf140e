"""What only lesson 06 draws: three doors, kinds of path, a hundred terms, what cuts cost."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

from course_utils import plots
from course_utils._arguments import Count
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, MARKERS, written
from course_utils.text import visible

BLUE, ORANGE, GROUND = COLOURS[0], COLOURS[1], "#f1f1f1"
Place = tuple[float, float]
Scores = Mapping[str, Float[Tensor, "head0 head1"]]  # of each door
HEAD = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": ORANGE, "linewidth": 1.5}
ASKS = {
    "Q": ("query", "what do I look for?"),
    "K": ("key", "what am I found by?"),
    "V": ("value", "what do I pass on?"),
}
ALT = plots.alt_texts(__file__)


def doors(costs: Mapping[str, float] | None = None) -> None:
    """A head of layer 1 reads what layer 0 wrote through its query, key or value.

    With `costs`, those are the doors of all heads, each as wide as its cost in nats.
    """
    axes = plt.subplots(figsize=(8.8, 4.4))[1]
    for layer, (low, high) in enumerate(((0.3, 2.5), (2.8, 6.1))):
        axes.axhspan(low, high, color=GROUND, zorder=0)
        axes.text(
            10.85, high - 0.1, f"layer {layer}", ha="right", va="top", fontsize=9, color="#555555"
        )
    for x, place in ((1.8, "source"), (9.4, "destination")):
        _arrow(axes, (x, -0.1), (x, 7.1), "#bdbdbd", 7, zorder=1)
        axes.text(x, -0.25, f"{place}: starts as its token, $x_0$", ha="center", va="top")
        _box(axes, x - 1.6, 1.4, 1.5, "layer 0\nwrites", BLUE)
        _arrow(axes, (x - 0.81, 1.4), (x - 0.08, 1.4), BLUE, 2)
    reader, moved = "a head of\nlayer 1 reads", "and writes what it moved"
    if costs is not None:
        reader, moved = "all heads of\nlayer 1 read", "and write what they moved"
    _box(axes, 5.6, 4.4, 1.9, reader, ORANGE, height=2.9)
    for door, height, side in (("K", 5.1, -1), ("V", 3.5, -1), ("Q", 4.3, 1)):
        cost = 0.0 if costs is None else float(costs[door])
        wide, thick = (0.5, 2.0) if costs is None else (1.2 * cost, 14 * cost)
        start = 5.6 + 3.7 * side
        wall = 5.6 + 0.99 * side
        posts = (height - wide / 2, height + wide / 2)
        axes.plot([wall, wall], posts, color="white", lw=5, solid_capstyle="butt", zorder=1.5)
        axes.hlines(posts, wall - 0.1, wall + 0.1, color=ORANGE, lw=2, zorder=1.6)
        _arrow(axes, (start, height), (wall - 0.22 * side, height), BLUE, thick)
        name, asks = ASKS[door]
        said, weight = (asks, "normal") if costs is None else (f"{cost:.2f} nats", "bold")
        middle = (start + wall) / 2 + 0.1 * side
        axes.text(
            middle,
            height + 0.32,
            f"{door} · {name}: {said}",
            ha="center",
            fontsize=9.5,
            weight=weight,
        )
    _arrow(
        axes, (5.6, 5.92), (9.32, 6.5), ORANGE, 2, connectionstyle="angle,angleA=90,angleB=0,rad=8"
    )
    axes.text(6.0, 6.62, moved, fontsize=10)
    axes.set(xlim=(-0.7, 10.9), ylim=(-0.75, 7.1))
    axes.axis("off")


def paths(n_heads: Count) -> None:
    """The four kinds of path from tokens to logits through two layers, each with its number.

    A layer has `n_heads` heads.
    """
    kinds: dict[str, list[Place]] = {
        "direct: 1": [(2, 0), (2, 4)],
        f"a head in layer 0: {n_heads}": [(0, 0), (0, 1.3), (2, 1.3), (2, 4)],
        f"a head in layer 1: {n_heads}": [(0, 0), (0, 2.7), (2, 2.7), (2, 4)],
        f"two heads: {n_heads**2}": [(0, 0), (0, 1.3), (1, 1.3), (1, 2.7), (2, 2.7), (2, 4)],
    }
    for axes, route in plots.panels(kinds, (8.8, 3.9), "tokens"):
        for low in (0.8, 2.2):
            axes.axhspan(low, low + 1, color=GROUND, zorder=0)
        axes.vlines(range(3), 0, 4, color="#bdbdbd", lw=3, zorder=1)
        axes.plot(*zip(*route, strict=True), color=BLUE, lw=3.5, zorder=2, solid_joinstyle="round")
        axes.plot(*route[-1], marker="^", color=BLUE, ms=10, clip_on=False)
        for (x, height), (x_next, height_next) in itertools.pairwise(route):
            if height == height_next:
                axes.text(
                    (x + x_next) / 2,
                    height,
                    "head",
                    ha="center",
                    va="center",
                    bbox=HEAD,
                    zorder=3,
                    fontsize=9,
                )
        axes.set(xlim=(-0.4, 2.4), ylim=(-0.1, 4.2), xticks=[])
        axes.set_yticks([1.3, 2.7, 4], ["layer 0", "layer 1", "logits"])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)


def _box(
    axes: Axes, x: float, y: float, width: float, words: str, colour: str, height: float = 1.0
) -> None:
    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0.04", facecolor="white"
    )
    shape.set(edgecolor=colour, linewidth=2)
    axes.add_patch(shape)
    axes.text(x, y, words, ha="center", va="center")


def _arrow(axes: Axes, start: Place, end: Place, colour: str, width: float, **look: Any) -> None:
    look = {"shrinkA": 0, "shrinkB": 0, "zorder": 3} | look
    size = 10 + 1.5 * width
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=size, lw=width, color=colour, **look
        )
    )


def scores_and_terms(
    scores: Float[Tensor, " src"],
    tokens: Sequence[str],
    best: int,
    above: Mapping[tuple[str, str], float],
) -> None:
    """One query's `scores`, and how far each term raises the source `best` above their mean.

    The terms fill a square, the query's part on the rows, the key's on the columns.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 4.6), width_ratios=[1, 1])
    names = [visible(token) for token in tokens]
    average, top = float(scores.mean()), float(scores[best])
    colours = [ORANGE if src == best else "#9a9a9a" for src in range(len(names))]
    left.bar(range(len(names)), scores, color=colours)
    left.axhline(average, color="black", lw=1, ls="--")
    left.axhline(0, color="black", lw=0.8)
    left.text(len(names) - 0.5, average, "average ", ha="right", va="bottom")
    x = best + 0.65
    left.annotate("", (x, top), (x, average), arrowprops={"arrowstyle": "<->"})
    left.text(x + 0.2, (top + average) / 2, written(top - average, ".1f"))
    left.set_xticks(range(len(names)), names, family="monospace", rotation=90, parse_math=False)
    left.set(title="Where does the last query look?", xlabel="source", ylabel="score")
    _terms_square(right, above)


def _terms_square(axes: Axes, above: Mapping[tuple[str, str], float]) -> None:
    """A square for each term, its area as large as the term; those below zero are hollow."""
    parts = list(dict.fromkeys(query for query, _ in above))
    n, largest = len(parts), max(map(abs, above.values()))
    axes.set(xlim=(-0.7, n - 0.3), ylim=(n - 0.3, -0.7), aspect="equal")
    for (query, key), value in above.items():
        side = (abs(value) / largest) ** 0.5
        row, column = parts.index(query), parts.index(key)
        corner = (column - side / 2, row - side / 2)
        face = BLUE if value > 0 else "white"
        axes.add_patch(plt.Rectangle(corner, side, side, facecolor=face, edgecolor=BLUE))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
    look = {"arrowstyle": "->", "shrinkB": 12}
    largest_two = sorted(above.items(), key=lambda item: -item[1])[:2]
    for ((query, key), value), words in zip(largest_two, ((4.5, 3.5), (4.5, 8.2)), strict=True):
        place = (parts.index(key), parts.index(query))
        said = f"{query} · {key}: {written(value, '.1f')}"
        axes.annotate(said, place, words, ha="center", arrowprops=look, bbox=box)
    axes.axhline(1.5, color="black", lw=0.8)
    axes.axvline(1.5, color="black", lw=0.8)
    axes.set_xticks(range(n), parts, rotation=90)
    axes.set_yticks(range(n), parts)
    where = "what the key is from\n(a square's area: how far it raises the score)"
    axes.set(title="Which terms raise it? (hollow: lower it)", xlabel=where)
    axes.set_ylabel("what the query is from")


def against_chance(
    scores: Scores, null: Mapping[str, Float[Tensor, "sample head0 head1"]], d_model: int
) -> None:
    """Every pair's score as a point, a row for each door, over the band of chance.

    Those above 0.08 have their heads' names.
    """
    axes = plt.subplots(figsize=(8.8, 3.8))[1]
    for row, (name, score) in enumerate(scores.items()):
        low, high = null[name].min().item(), null[name].max().item()
        label = "all random draws" if row == 0 else None
        axes.barh(row, high - low, 0.8, low, color="#d0d0d0", zorder=0, label=label)
        x = score.flatten()  # [pair]
        y = row + torch.linspace(-0.3, 0.3, len(x))
        axes.scatter(x, y, s=14, color=COLOURS[row], marker=MARKERS[row])
        for n, pair in enumerate((x > 0.08).nonzero().flatten().tolist()):
            earlier, later = divmod(pair, score.shape[1])
            away = (0, (7, -15)[n % 2])
            look: dict[str, Any] = {"textcoords": "offset points", "ha": "center"}
            place = (x[pair].item(), y[pair].item())
            axes.annotate(f"0.{earlier} → 1.{later}", place, away, fontsize=9, **look)
    axes.axvline(d_model**-0.5, color="black", lw=1, label="1/√d_model")
    axes.set_yticks(range(len(scores)), list(scores))
    axes.invert_yaxis()
    axes.set(title="Which scores could be chance?", xlabel="composition score of a pair of heads")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def rises(found: Mapping[str, tuple[float, float]]) -> None:
    """By how much the loss rises, in nats with standard errors, for each head that is cut out."""
    axes = plt.subplots(figsize=(8.8, 3.4))[1]
    for height, (mean, error) in enumerate(found.values()):
        axes.errorbar(mean, height, xerr=error, fmt="o", color=BLUE, capsize=4)
        said = f"{written(mean)} ± {written(error)}" if mean > 0.05 else written(mean, ".3f")
        axes.annotate(said, (mean + error, height), (9, 0), textcoords="offset points", va="center")
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.margins(x=0.16, y=0.08)
    axes.set(
        title="Which head of layer 0 do the two keys need?", xlabel="rise of the loss, in nats"
    )


draws_in_style(__name__)
