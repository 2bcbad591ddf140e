"""What several lessons draw by hand: tokens in boxes, arrows, streams, and a logit's columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils._arguments import validated
from course_utils._style import draws_in_style


@validated
def score_to_logit(
    sources: Sequence[str],
    score: Mapping[str, Float[Tensor, " src"]],
    effects: Float[Tensor, " src"],
    head: str,
    others: Mapping[str, float],
    logit: str,
) -> None:
    """From a head's scores for one destination to one logit, a column for each source.

    From top to bottom: `score` holds the parts of each score, by name; their sum goes through the
    softmax. `effects` is what a source says about the logit if it gets all the attention, and
    `others` what other paths add to it.
    """
    score = {name: part.cpu() for name, part in score.items()}
    effects = effects.cpu()
    whole = torch.stack([*score.values()]).sum(0)  # [src]
    looks = whole.softmax(0)  # [src]
    rows = {  # what stands in each row, by the name of its parts
        "score": score,
        "attention\n(softmax of the row)": {"": looks},
        "what it says\n(OV)": {"": effects},
        "attention ×\nwhat it says": {"": looks * effects},
    }
    _, grid = plt.subplots(4, 2, figsize=(10, 5.6), sharex="col", width_ratios=[5, 2])
    for (name, parts), axes in zip(rows.items(), grid[:, 0], strict=True):
        _stacked_bars(axes, parts)
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.set(yticks=[])
        axes.margins(y=0.3)
        axes.axhline(0, color="black", lw=0.6)
    if len(score) > 1:
        grid[0, 0].legend(fontsize=8, loc="upper right", ncols=len(score))
    grid[3, 0].set_xticks(range(len(sources)), sources, family="monospace", parse_math=False)

    # beside the last row its sum, and the rest of the logit
    for axes in grid[:3, 1]:
        axes.axis("off")
    added = {head: float((looks * effects).sum())} | dict(others)
    totals = added | {logit: sum(added.values())}
    plots.bars(totals, "the sum of the row, and the rest", "", [head], grid[3, 1])
    grid[3, 1].set_position([0.8, 0.11, 0.15, 0.27])


def _stacked_bars(axes: Axes, parts: Mapping[str, Float[Tensor, " place"]]) -> None:
    """A bar at each place, its parts on one another, up and down from zero, their sum on top."""
    whole = torch.stack([*parts.values()]).sum(0)  # [place]
    top = torch.zeros_like(whole)  # of what stands above zero so far, [place]
    bottom = torch.zeros_like(whole)  # of what hangs below it
    for i, (part, heights) in enumerate(parts.items()):
        is_up = heights > 0
        style: Any = {
            "color": plots.COLOURS[6 if i else 0],
            "hatch": plots.HATCHES[i],
            "label": part,
        }
        axes.bar(range(len(heights)), heights, 0.6, torch.where(is_up, top, bottom), **style)
        top = top + heights * is_up
        bottom = bottom + heights * ~is_up
    style = {"ha": "center", "va": "bottom", "fontsize": 8}
    for place, value in enumerate(whole.tolist()):
        axes.text(place, float(top[place]), f" {plots.written(value)}", **style)


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
    axes = plt.subplots(figsize=(9.6, height))[1]
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
