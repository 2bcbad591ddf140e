"""What only lesson 06 draws: three doors, a virtual head, composition scores against chance."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

from course_utils import plots
from course_utils._arguments import Count
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, HATCHES, MARKERS, Pattern, written
from course_utils.text import visible

BLUE, ORANGE, GROUND = COLOURS[0], COLOURS[1], "#f1f1f1"
Place = tuple[float, float]
Scores = Mapping[str, Float[Tensor, "head0 head1"]]  # of each mode
HEAD = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": ORANGE, "linewidth": 1.5}
ASKS = {
    "Q": "query: what do I look for?",
    "K": "key: what am I found by?",
    "V": "value: what do I pass on?",
}
ALT = plots.alt_texts(__file__)


def doors(costs: Mapping[str, float] | None = None) -> None:
    """A head of layer 1 reads what layer 0 wrote through its query, key or value.

    Each is as wide as its `costs` in nats.
    """
    axes = plt.subplots(figsize=(10, 4.4))[1]
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
    _box(axes, 5.6, 4.4, 1.9, "a head of\nlayer 1 reads", ORANGE, height=2.9)
    for door, height, side in (("K", 5.1, -1), ("V", 3.5, -1), ("Q", 4.3, 1)):
        cost = 0.0 if costs is None else float(costs[door])
        wide, thick = (0.5, 2.0) if costs is None else (0.16 + 0.8 * cost, max(14 * cost, 0.5))
        start = 5.6 + 3.7 * side
        wall = 5.6 + 0.99 * side
        posts = (height - wide / 2, height + wide / 2)
        axes.plot([wall, wall], posts, color="white", lw=5, solid_capstyle="butt", zorder=1.5)
        axes.hlines(posts, wall - 0.1, wall + 0.1, color=ORANGE, lw=2, zorder=1.6)
        _arrow(axes, (start, height), (wall - 0.22 * side, height), BLUE, thick)
        said, weight = (ASKS[door], "normal") if costs is None else (f"{cost:.2f} nats", "bold")
        middle = (start + wall) / 2 + 0.1 * side
        axes.text(
            middle, height + 0.32, f"{door} · {said}", ha="center", fontsize=9.5, fontweight=weight
        )
    _arrow(
        axes, (5.6, 5.92), (9.32, 6.5), ORANGE, 2, connectionstyle="angle,angleA=90,angleB=0,rad=8"
    )
    axes.text(6.0, 6.62, "and writes what it moved", fontsize=10)
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
    for axes, route in plots.panels(kinds, (10.4, 3.9), "tokens"):
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


def patterns(shown: Mapping[str, Pattern], tokens: Sequence[str]) -> None:
    """Attention patterns side by side, one for each title, tokens on both axes."""
    _, panels = plt.subplots(1, len(shown), figsize=(3.6 * len(shown), 3.4), squeeze=False)
    for axes, (title, pattern) in zip(panels[0], shown.items(), strict=True):
        plots.attention(pattern, tokens, title, axes)


def race(scores: Float[Tensor, " src"], tokens: Sequence[str], leads: Mapping[str, float]) -> None:
    """One query's `scores`, with the winner's lead over the average, and the largest `leads`.

    Five of them are shown.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), width_ratios=[1.15, 1])
    names = [visible(token) for token in tokens]
    winner, average = int(scores.argmax()), float(scores.mean())
    left.bar(
        range(len(names)),
        scores,
        color=[ORANGE if src == winner else "#9a9a9a" for src in range(len(names))],
    )
    left.axhline(average, color="black", lw=1, ls="--")
    left.axhline(0, color="black", lw=0.8)
    left.text(len(names) - 0.5, average, "average ", ha="right", va="bottom", fontsize=9)
    arrow, x, top = {"arrowstyle": "<->"}, winner + 0.65, float(scores[winner])
    left.annotate("", (x, top), (x, average), arrowprops=arrow)
    left.text(x + 0.2, (top + average) / 2, f"lead: {top - average:.1f}")
    left.set_xticks(range(len(names)), names, family="monospace", rotation=90, parse_math=False)
    left.set(title="How far is the winner ahead?", xlabel="source", ylabel="score")
    first = dict(sorted(leads.items(), key=lambda item: -item[1])[:5])
    shown = first | {f"the other {len(leads) - 5}": sum(leads.values()) - sum(first.values())}
    plots.bars(shown, "What puts it there?", "lead of a term (query · key)", axes=right).margins(
        x=0.16
    )


def square(names: Sequence[str], term: tuple[str, str]) -> None:
    """The terms of one head by where query and key come from.

    The four grounds are named, and one `term` is marked.
    """
    axes = plt.subplots(figsize=(6.6, 5.2))[1]
    n = len(names)
    for (x, y), words, colour in (
        ((0, 0), "neither", "white"),
        ((2, 0), "K-composition", "#fde3d3"),
        ((0, 2), "Q-\ncomposition", "#d3e6f5"),
        ((2, 2), "both", "#e6e6e6"),
    ):
        width = 2 if x == 0 else n - 2
        height = 2 if y == 0 else n - 2
        axes.add_patch(
            plt.Rectangle((x - 0.5, y - 0.5), width, height, facecolor=colour, edgecolor="black")
        )
        axes.text(x - 0.5 + width / 2, y - 0.5 + height / 2, words, ha="center", va="center")
    row, column = (names.index(name) for name in term)
    axes.plot(column, row, marker="s", ms=17, color=ORANGE)
    axes.annotate(
        " · ".join(term),
        (column, row),
        (column, -1.2),
        ha="center",
        arrowprops={"arrowstyle": "->"},
    )
    for set_ticks in (axes.set_xticks, axes.set_yticks):
        set_ticks(range(n), names)
    axes.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -1.6), xlabel="key from", ylabel="query from")
    axes.spines[:].set_visible(False)


def lead_grids(shares: Float[Tensor, "head source source"], names: Sequence[str]) -> None:
    """Shares of each head's lead by pairs of sources: embed, pos, heads of layer 0.

    Ruled off are the grounds of Q and of K.
    """
    rows = -(-len(shares) // 4)
    squares = {f"1.{head}": 100 * share for head, share in enumerate(shares)}
    look: dict[str, Any] = {
        "centred": True,
        "limit": 50.0,
        "numbers_from": 5.0,
        "spec": ".0f",
        "bar": False,
    }
    for axes, share in plots.panels(squares, (10.4, 0.5 + 2.85 * rows), rows=rows):
        q, k, both = (float(part.sum()) for part in (share[2:, :2], share[:2, 2:], share[2:, 2:]))
        title = f"{axes.get_title('left')}:  Q {q:.0f} %, K {k:.0f} %, both {both:.0f} %"
        plots.heatmap(share, names, names, "", "query from", "key from", axes=axes, **look)
        axes.spines[:].set_visible(True)
        axes.axhline(1.5, color="black", lw=1)
        axes.axvline(1.5, color="black", lw=1)
        axes.label_outer()
        axes.set_title(title, fontsize=8.5)


def score_tables(scores: Scores, d_model: int) -> None:
    """Composition scores in units of chance, a table for each mode.

    1 is white, more is red, less is blue.
    """
    tables = {
        f"{mode}-composition": (score * d_model**0.5).numpy() for mode, score in scores.items()
    }
    for axes, times in plots.panels(tables, (3.5 * len(scores), 3.9), "reader", "writer"):
        picture = axes.imshow(
            times, cmap="RdBu_r", norm=TwoSlopeNorm(1, vmin=0, vmax=2.5), aspect="auto"
        )
        for (row, column), value in np.ndenumerate(times):
            colour = "black" if 0.25 <= value <= 2 else "white"
            weight = "bold" if value >= 1.6 else "normal"
            look: dict[str, Any] = {
                "ha": "center",
                "va": "center",
                "fontsize": 8.5,
                "color": colour,
                "weight": weight,
            }
            axes.text(column, row, written(float(value), ".1f"), **look)
        for set_ticks, layer, n in zip(
            (axes.set_yticks, axes.set_xticks), (0, 1), times.shape, strict=True
        ):
            set_ticks(range(n), [f"{layer}.{head}" for head in range(n)])
    plt.colorbar(picture, ax=axes.figure.axes, label="score, in units of chance", ticks=[0, 1, 2])


def against_chance(
    scores: Scores, null: Mapping[str, Float[Tensor, "sample head0 head1"]], d_model: int
) -> None:
    """Every pair's score as a point, a row for each mode, over the band of chance.

    Those from 1.6/√d_model on are named.
    """
    axes = plt.subplots(figsize=(9, 3.8))[1]
    low, high = (
        torch.stack([one(null[mode]) for mode in scores]) for one in (torch.min, torch.max)
    )
    axes.barh(
        range(len(scores)),
        high - low,
        0.8,
        low,
        color="#d0d0d0",
        zorder=0,
        label="all random draws",
    )
    for row, score in enumerate(scores.values()):
        points = torch.stack([score.flatten(), row + torch.linspace(-0.3, 0.3, score.numel())], 1)
        axes.scatter(points[:, 0], points[:, 1], s=14, color=COLOURS[row], marker=MARKERS[row])
        for n, i in enumerate((points[:, 0] >= 1.6 * d_model**-0.5).nonzero()[:, 0].tolist()):
            name, away = f"0.{i // score.shape[1]} → 1.{i % score.shape[1]}", (0, (7, -14)[n % 2])
            axes.annotate(
                name,
                (*points[i].tolist(),),
                away,
                textcoords="offset points",
                ha="center",
                fontsize=9,
            )
    axes.axvline(d_model**-0.5, color="black", lw=1, label="1/√d_model")
    axes.set_yticks(range(len(scores)), list(scores))
    axes.invert_yaxis()
    axes.set(title="Which scores could be chance?", xlabel="composition score of a pair of heads")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def orders(losses: Mapping[str, float]) -> None:
    """The loss as steps down: each of the `losses`, in nats, is reached from the one before it."""
    _, axes = plt.subplots(figsize=(9, 3.6))
    values = list(losses.values())
    for step, (before, after) in enumerate(itertools.pairwise(values), 1):
        axes.bar(
            step,
            before - after,
            width=0.6,
            bottom=after,
            color=COLOURS[step - 1],
            hatch=HATCHES[step - 1],
        )
        axes.plot([step - 1.3, step + 0.3], [before, before], color="black", lw=0.8)
        axes.text(step + 0.34, (before + after) / 2, f"−{before - after:.2f}", va="center")
    ends = axes.bar([0, len(values)], [values[0], values[-1]], width=0.6, color="#9a9a9a")
    axes.bar_label(ends, fmt="%.2f")
    axes.set_xticks(range(len(values) + 1), [*losses, "the model"])
    axes.set(title="What does each order of paths take off the loss?", ylabel="loss, in nats")
    axes.margins(y=0.1)


draws_in_style(__name__)
