"""What only lesson 06 draws: two layers with three doors, a virtual head, and composition scores against chance."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS, HATCHES, MARKERS, Pattern
from course_utils.text import visible

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]
ASKS = {"Q": "query: what do I look for?", "K": "key: what am I found by?", "V": "value: what do I pass on?"}


@checked
def doors(costs: Mapping[str, float] | None = None) -> Axes:
    """Two positions and two layers: a head of layer 1 reads what layer 0 wrote through its query, key or value.

    With `costs` ("Q", "K" and "V", in nats) each door is as wide as its cost, and says it.
    """
    _, axes = plt.subplots(figsize=(9, 4.1))
    for x, place in ((1.8, "source"), (9.4, "destination")):
        stream = FancyArrowPatch((x, -0.25), (x, 6.25), arrowstyle="-|>", mutation_scale=22, lw=7, color="#c9c9c9")
        axes.add_patch(stream)
        axes.text(x, -0.4, f"{place}\nstarts as its token, $x_0$", ha="center", va="top")
        _box(axes, x - 1.6, 1.2, 1.5, "layer 0\nwrites", BLUE)
        _arrow(axes, (x - 0.81, 1.2), (x - 0.08, 1.2), BLUE, 2)
    _box(axes, 5.7, 3.85, 1.7, "a head of\nlayer 1 reads", ORANGE, height=2.2)
    for door, height, side in (("K", 4.4, -1), ("V", 3.1, -1), ("Q", 3.75, 1)):
        start, end = 5.6 + 3.7 * side, 5.7 + 0.9 * side
        cost = None if costs is None else float(costs[door])
        _arrow(axes, (start, height), (end, height), BLUE, 2 if cost is None else 1 + 11 * cost)
        axes.text(
            (start + end) / 2,
            height + (0.2 if cost is None else 0.3),
            f"{door} · {ASKS[door]}",
            ha="center",
            fontsize=9,
        )
        if cost is None:
            axes.plot([(start + end) / 2] * 2, [height - 0.3, height + 0.1], color=BLUE, lw=3)
        else:
            axes.text((start + end) / 2, height - 0.5, f"{cost:.2f} nats", ha="center", fontsize=9, fontweight="bold")
    out = FancyArrowPatch((5.7, 5.0), (9.32, 5.65), connectionstyle="angle,angleA=90,angleB=0,rad=8")
    out.set(arrowstyle="-|>", mutation_scale=16, linewidth=2, color=ORANGE)
    axes.add_patch(out)
    axes.text(6.0, 5.78, "and writes what it moved", fontsize=9)
    axes.set(xlim=(-0.7, 10.9), ylim=(-1.25, 6.3))
    axes.axis("off")
    return axes


def _box(axes: Axes, x: float, y: float, width: float, words: str, colour: str, height: float = 1.0) -> None:
    shape = FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0.04", facecolor="white")
    shape.set(edgecolor=colour, linewidth=2)
    axes.add_patch(shape)
    axes.text(x, y, words, ha="center", va="center")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, width: float) -> None:
    arrow = FancyArrowPatch(start, end, arrowstyle="-|>", shrinkA=0, shrinkB=0, lw=width, color=colour)
    arrow.set_mutation_scale(10 + 1.5 * width)
    axes.add_patch(arrow)


@checked
def patterns(shown: Mapping[str, Pattern], tokens: Sequence[str]) -> Axes:
    """Attention patterns side by side, one for each title, tokens on both axes; darker is more."""
    _, panels = plt.subplots(1, len(shown), figsize=(3.1 * len(shown), 3.1), squeeze=False)
    names = [visible(token) for token in tokens]
    for axes, (title, pattern) in zip(panels[0], shown.items(), strict=True):
        axes.imshow(pattern, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(names)), names, family="monospace", rotation=90, parse_math=False)
        axes.set_yticks(range(len(names)), names, family="monospace", parse_math=False)
        axes.set(title=title, xlabel="source")
    panels[0][0].set_ylabel("destination")
    return panels[0][0]


@checked
def lead_shares(shares: Mapping[str, Float[Tensor, " head"]], names: Sequence[str], title: str) -> Axes:
    """One bar for each head, cut into the `shares` of its lead; shares of a tenth and more have their number."""
    _, axes = plt.subplots(figsize=(9, 0.9 + 0.32 * len(names)))
    left = torch.zeros(len(names))
    for i, (kind, values) in enumerate(shares.items()):
        drawn = axes.barh(names, values, left=left, label=kind, color=COLOURS[i], hatch=HATCHES[i], edgecolor="white")
        labels = [f"{value:.2f}" if value >= 0.1 else "" for value in values]
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.bar_label(drawn, labels, label_type="center", fontsize=8, bbox=ground)
        left = left + values
    for label in axes.texts:
        label.set_visible(bool(label.get_text()))
    axes.invert_yaxis()
    axes.set(title=title, xlabel="share of the lead", ylabel="head")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return axes


@checked
def score_tables(scores: Mapping[str, Float[Tensor, "head0 head1"]], d_model: int) -> Axes:
    """Composition scores in units of chance, a table for each mode: 1 is white, more is red, less is blue."""
    figure, panels = plt.subplots(1, len(scores), figsize=(3.7 * len(scores), 3.5), squeeze=False)
    for axes, (mode, score) in zip(panels[0], scores.items(), strict=True):
        times = score * d_model**0.5
        picture = axes.imshow(times, cmap="RdBu_r", norm=TwoSlopeNorm(1, vmin=0, vmax=2.5), aspect="auto")
        for (row, column), value in np.ndenumerate(times.numpy()):
            look = {"weight": "bold", "size": 10} if value >= 1.6 else {"size": 8.5}
            colour = "white" if value < 0.25 or value > 2 else "black"
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour, **look)
        writers, readers = ([f"{layer}.{head}" for head in range(n)] for layer, n in enumerate(score.shape))
        axes.set_xticks(range(len(readers)), readers)
        axes.set_yticks(range(len(writers)), writers)
        axes.set(title=f"{mode}-composition", xlabel="reader")
    panels[0][0].set_ylabel("writer")
    figure.colorbar(picture, ax=panels, label="score, in units of chance", ticks=[0, 1, 2])
    return panels[0][0]


@checked
def against_chance(
    scores: Mapping[str, Float[Tensor, "head0 head1"]],
    null: Mapping[str, Float[Tensor, "sample head0 head1"]],
    d_model: int,
) -> Axes:
    """Every pair's score as a point, a row for each mode, over the band that random directions reach.

    Pairs of 1.6 times 1/√d_model and more have their name.
    """
    _, axes = plt.subplots(figsize=(9, 3.8))
    for row, (mode, score) in enumerate(scores.items()):
        low, high = float(null[mode].min()), float(null[mode].max())
        axes.fill_betweenx(
            [row - 0.4, row + 0.4], low, high, color="#d0d0d0", zorder=0, label=None if row else "all random draws"
        )
        height = row + torch.linspace(-0.3, 0.3, score.numel())
        axes.scatter(score.flatten(), height, s=14, color=COLOURS[row], marker=MARKERS[row])
        for n, i in enumerate((score.flatten() >= 1.6 * d_model**-0.5).nonzero()[:, 0].tolist()):
            name = f"0.{i // score.shape[1]} → 1.{i % score.shape[1]}"
            place = float(score.flatten()[i]), float(height[i])
            axes.annotate(name, place, (0, (7, -14)[n % 2]), textcoords="offset points", ha="center", fontsize=9)
    axes.axvline(d_model**-0.5, color="black", lw=1, label="1/√d_model")
    axes.set_yticks(range(len(scores)), list(scores))
    axes.invert_yaxis()
    axes.set(title="Which scores could be chance?", xlabel="composition score of a pair of heads", ylabel="door")
    axes.legend(loc="lower right")
    return axes
