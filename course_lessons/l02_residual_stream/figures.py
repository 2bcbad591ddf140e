"""Pictures of lesson 02: the residual stream, and one prediction taken apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

ALT = plots.alt_texts(__file__)


def stream() -> Axes:
    """The model as one channel, read upward.

    The embedding fills it, heads read a copy and add, W_U reads the end.
    """
    _, axes = plt.subplots(figsize=(8, 6))
    axes.set(xlim=(0, 8), ylim=(0, 7.6), title="What happens between a token and a logit?")
    axes.axis("off")
    channel = {
        "arrowstyle": "-|>",
        "linewidth": 8,
        "color": COLOURS[0],
        "alpha": 0.45,
        "mutation_scale": 24,
    }
    middle = 1.2  # of the channel
    axes.annotate("", (middle, 6.95), (middle, 0.5), arrowprops=channel)
    drawings.box(axes, middle, 0.3, "W_E", "#FFF2CC")
    drawings.box(axes, middle, 7.25, "W_U", "#FFF2CC")
    for start, layer, names in (
        (1.0, 0, ("0.0", "0.1", "… 0.7")),
        (4.1, 1, ("1.0", "1.1", "… 1.7")),
    ):
        _layer(axes, middle, start, names)
        axes.text(5.9, start + 1.1, f"layer {layer}: all heads read\nthe same stream", va="center")
    words = "the residual stream: one vector of 256 numbers at every position"
    axes.text(0.75, 3.75, words, rotation=90, ha="center", va="center", fontsize=9)
    return axes


def _layer(axes: Axes, middle: float, bottom: float, names: Sequence[str]) -> None:
    """Heads beside the channel: dashed lines read a copy of it, solid ones add to it above."""
    places = [2.8 + 1.2 * number for number in range(len(names))]
    top = bottom + 2.2
    axes.plot([middle, places[-1]], [bottom, bottom], "k--", linewidth=1.2)
    axes.plot([middle + 0.3, places[-1]], [top, top], "k-", linewidth=2)
    drawings.arrow(axes, (middle + 0.6, top), (middle + 0.05, top), "black")
    for x, name in zip(places, names, strict=True):
        drawings.arrow(axes, (x, bottom - 0.07), (x, bottom + 0.85), "black", "--")
        axes.plot([x, x], [bottom + 1.3, top], "k-", linewidth=2)
        drawings.box(axes, x, bottom + 1.1, name, "#DDEBF7")
    axes.text(middle + 0.3, bottom - 0.12, "read a copy", va="top", fontsize=9)
    axes.text(middle + 0.3, top + 0.1, "add", va="bottom", fontsize=9)
    axes.text(middle, top, "+", ha="center", va="center", fontsize=16, fontweight="bold")


def shares(
    share: Float[Tensor, "row pos"],
    rows: Sequence[str],
    tokens: Sequence[str],
    title: str,
    xlabel: str,
    label: str,
) -> Axes:
    """Shares by row and position, darker the larger, in percent; those above 10 are written in."""
    _, axes = plt.subplots(figsize=(8.8, 1.6 + 0.7 * len(rows)))
    look: dict[str, Any] = {"numbers_from": 10, "spec": ".0f", "colours": "Blues", "axes": axes}
    plots.heatmap(100 * share, rows, tokens, title, "", xlabel, label=f"{label}, %", **look)
    axes.set_yticks(range(len(rows)), rows)  # words, not tokens
    return axes


def two_each(
    groups: Mapping[str, Mapping[str, float]],
    title: str,
    unit: str,
    legend: str,
    numbers_from: float = 0,
) -> Axes:
    """Two bars for each head, one of either group, with a number on those that are long enough."""
    bars = {name: list(each.values()) for name, each in groups.items()}
    heads = list(next(iter(groups.values())))
    axes = plt.subplots(figsize=(8.8, 3.6))[1]
    plots.grouped_bars(bars, heads, title, unit, "head", numbers=True, axes=axes).legend(
        title=legend
    )
    heights = [height for each in bars.values() for height in each]
    for number, height in zip(list(axes.texts), heights, strict=True):
        if abs(height) < numbers_from:
            number.remove()
    return axes


draws_in_style(__name__)
