"""What several lessons draw by hand: tokens in boxes, arrows, streams, and small tables."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from torch import Tensor

from course_utils import plots
from course_utils._arguments import validated
from course_utils._style import draws_in_style


@validated
def numbers(
    axes: Axes,
    table: Float[Tensor, "row column"],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    ylabel: str = "",
    xlabel: str = "",
    spec: str = ".1f",
    marked: Bool[Tensor, "row column"] | None = None,
) -> None:
    """Write a small table's numbers on white, with a pale ground for those that are marked.

    These are the largest of each row, if nothing else is said.
    """
    if marked is None:
        marked = table == table.amax(1, keepdim=True)
    ground = ListedColormap(["white", "#dbeaf5"])
    axes.imshow(marked.float().cpu().numpy(), aspect="auto", cmap=ground, vmin=0, vmax=1)
    for row, values in enumerate(table.tolist()):
        for column, value in enumerate(values):
            weight = "bold" if marked[row, column] else "normal"
            said = plots.written(value, spec)
            axes.text(column, row, said, ha="center", va="center", weight=weight, fontsize=11)
    style: Any = {"family": "monospace", "parse_math": False}
    axes.set_xticks(range(len(columns)), columns, **style)
    axes.set_yticks(range(len(rows)), rows, **style)
    axes.tick_params(length=0)
    axes.set(title=title, ylabel=ylabel, xlabel=xlabel)
    axes.spines[:].set_visible(False)


@validated
def box(axes: Axes, x: float, y: float, label: str, colour: str = "white") -> None:
    """Draw a token in its box."""
    frame = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": "black"}
    style: Any = {"ha": "center", "va": "center", "family": "monospace", "parse_math": False}
    axes.text(x, y, label, bbox=frame, **style)


@validated
def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    line: str = "-",
    bend: float = 0,
) -> None:
    """Draw an arrow; a dashed `line` is for one that only looks, and `bend` makes it an arc."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 2, "linestyle": line}
    style |= {"shrinkA": 5, "shrinkB": 5, "connectionstyle": f"arc3,rad={bend}"}
    axes.annotate("", end, start, arrowprops=style)


@validated
def streams(tokens: Sequence[str], to_come: str, height: float = 3.6) -> Axes:
    """Draw the streams of three positions, j, j + 1 and n, as columns through two layers.

    `to_come` is what is to be predicted at n.
    """
    axes = plt.subplots(figsize=(8.8, height))[1]
    centred: Any = {"ha": "center", "va": "center"}

    # the streams, each from its token upwards
    for x, token, place in zip((1, 3.4, 8), tokens, ("j", "j + 1", "n"), strict=True):
        axes.plot([x, x], [0.35, 5], color="#d9d9d9", lw=9, zorder=0, solid_capstyle="round")
        box(axes, x, 0, token)
        axes.text(x, -0.55, f"position {place}", fontsize=9, **centred)
    box(axes, 8, 5.2, f"{to_come} ?", "#ffe9d6")
    axes.text(5.7, 0, "· · ·", **centred)

    # the layers, across them
    for y, layer in ((1.3, "layer 0"), (3.7, "layer 1")):
        axes.axhspan(y - 0.95, y + 1.05, color="#f6f6f6", zorder=-1)
        axes.text(-0.35, y, layer, fontsize=9, rotation=90, color="#555555", **centred)
    axes.set(xlim=(-0.6, 9.4), ylim=(-0.85, 5.65))
    axes.axis("off")
    return axes


draws_in_style(__name__)
