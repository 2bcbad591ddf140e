"""What only lesson 09b draws: features as arrows, and what they cost each other."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS, LINES, MARKERS

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]


@checked
def arrows(W: Float[Tensor, "model feature 2"], titles: Sequence[str]) -> Axes:
    """Each feature as an arrow from the centre of a plane, one panel for each model; those next to 0 are named."""
    _, panels = plt.subplots(1, len(W), figsize=(2.35 * len(W), 2.9), squeeze=False)
    for axes, directions, title in zip(panels[0], W, titles, strict=True):
        axes.add_patch(plt.Circle((0, 0), 1, fill=False, color=GREY, lw=0.6, ls=":"))
        for feature, (x, y) in enumerate(directions.tolist()):
            arrow = {"arrowstyle": "-|>", "color": COLOURS[feature % len(COLOURS)], "lw": 2, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
            if x * x + y * y > 0.25:
                axes.text(1.25 * x, 1.25 * y, str(feature), ha="center", va="center", fontsize=9)
        missing = int((directions.norm(dim=1) <= 0.5).sum())
        axes.text(0, -1.9, f"{missing} left out" if missing else "none left out", ha="center", fontsize=9)
        axes.set(title=title, xlim=(-1.6, 1.6), ylim=(-2.0, 1.6), aspect="equal")
        axes.axis("off")
    return panels[0, 0]


@checked
def prices(densities: Sequence[float], losses: Mapping[str, Sequence[float]]) -> Axes:
    """The loss per feature that is on, against the density (logarithmic), one line for each model."""
    _, axes = plt.subplots(figsize=(8.4, 3.5))
    for i, (name, values) in enumerate(losses.items()):
        axes.plot(densities, values, marker=MARKERS[i], ls=LINES[i], color=COLOURS[i], label=name)
    axes.set(
        xscale="log", ylim=(0, None), xlabel="density: how often a feature is on", ylabel="loss per feature that is on"
    )
    axes.set_xticks(list(densities), [f"{density:g}" for density in densities])
    axes.minorticks_off()
    axes.set_title("What does it cost?")
    axes.legend(fontsize=8)
    return axes


@checked
def sharing(models: Mapping[str, tuple[Sequence[float], Float[Tensor, "_density _feature"]]]) -> Axes:
    """How much of a dimension each feature has for itself, by density: densities and shares for each panel."""
    _, panels = plt.subplots(1, len(models), figsize=(4.8 * len(models), 3.4), sharey=True, squeeze=False)
    for axes, (title, (densities, shares)) in zip(panels[0], models.items(), strict=True):
        for place, features in enumerate(shares):
            spread = place + torch.linspace(-0.25, 0.25, len(features))
            axes.plot(spread, features.sort().values, "o", ms=4, color=BLUE, alpha=0.8)
        for share, name in ((1.0, "a dimension of its own"), (0.5, "two opposites"), (0.4, "a pentagon")):
            axes.axhline(share, color=ORANGE, lw=0.8, ls="--")
            axes.text(len(densities) - 0.5, share + 0.01, name, ha="right", va="bottom", fontsize=8)
        axes.set_xticks(range(len(densities)), [f"{density:g}" for density in densities])
        axes.set(title=title, xlabel="density", ylim=(-0.03, 1.1))
    panels[0, 0].set_ylabel("share of a dimension")
    return panels[0, 0]


@checked
def interference(products: Float[Tensor, "model feature feature"], titles: Sequence[str]) -> Axes:
    """What each feature that is on (rows) says about every feature (columns), before bias and ReLU."""
    figure, panels = plt.subplots(1, len(products), figsize=(2.6 * len(products) + 1, 2.9), squeeze=False)
    for axes, table, title in zip(panels[0], products, titles, strict=True):
        drawn = axes.imshow(table, cmap="RdBu_r", vmin=-1.5, vmax=1.5)
        for row in range(len(table)):
            for column in range(len(table)):
                value = float(table[row, column])
                colour = "white" if abs(value) > 0.9 else "black"
                axes.text(
                    column,
                    row,
                    f"{value:.1f}".replace("-0.0", "0.0"),
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=colour,
                )
        axes.set(title=title, xlabel="feature read", xticks=range(len(table)), yticks=range(len(table)))
    panels[0, 0].set_ylabel("feature that is on")
    figure.colorbar(drawn, ax=panels[0, -1], label="W Wᵀ")
    return panels[0, 0]


@checked
def cut(left: Mapping[str, Float[Tensor, " _feature"]]) -> Axes:
    """What each feature comes back as when it is on alone, after the direction of feature 0 was taken out."""
    _, panels = plt.subplots(1, len(left), figsize=(3.6 * len(left), 2.7), sharey=True, squeeze=False)
    for axes, (title, values) in zip(panels[0], left.items(), strict=True):
        bars = axes.bar(range(len(values)), values.tolist(), color=[ORANGE, *[BLUE] * (len(values) - 1)])
        axes.bar_label(bars, fmt="%.2f")
        axes.axhline(1, color=GREY, lw=0.8, ls="--")
        axes.set(title=title, xlabel="feature that is on", ylim=(0, 1.2), xticks=range(len(values)))
    panels[0, 0].set_ylabel("comes back as")
    return panels[0, 0]
