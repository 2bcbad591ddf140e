"""Pictures of lesson 02b: what matrices do to a plane, and the algebra of the residual stream."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Complex, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from torch import Tensor

from course_utils import plots
from course_utils.plots import COLOURS

GREY, BLUE, ORANGE, GREEN = COLOURS[6], "#ddebf7", "#ffe9d6", "#dff0e6"  # of lines, and of boxes
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # of a label that may stand on a line
ALT = plots.alt_texts(__file__)


def _arrow(axes: Axes, end: Tensor, colour: str, label: str, style: str = "-") -> None:
    _flow(axes, (0, 0), tuple(end.tolist()), color=colour, linestyle=style, shrinkA=0, shrinkB=0)
    along = end / end.norm()
    away = end + 0.22 * along + 0.16 * torch.stack([-along[1], along[0]])  # beside the arrow, not on its line
    axes.text(away[0].item(), away[1].item(), label, ha="center", va="center", color=colour, bbox=BEHIND)


def _circle(axes: Axes, W: Tensor) -> None:
    """The unit circle, dashed, and what one matrix makes of it."""
    angles = torch.linspace(0, 2 * math.pi, 200)
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    axes.plot(*circle.T, "--", color=GREY, linewidth=1)
    axes.plot(*(circle @ W).T, color=COLOURS[0], linewidth=1.6)
    axes.set(xlim=(-2, 2), ylim=(-2, 2), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _act(axes: Axes, W: Tensor) -> None:
    """What x → x W does to the unit circle and its vectors a, b; dotted, the directions that it keeps, with factors."""
    _circle(axes, W)
    for name, x, colour in zip("ab", torch.eye(2), COLOURS[1:3], strict=True):
        _arrow(axes, x, GREY, name, "--")
        _arrow(axes, x @ W, colour, f"{name}W")
    axes.set_ylim(-2, 1.8)
    values, vectors = torch.linalg.eig(W.T)
    if values.imag.abs().max() > 1e-4:
        return  # a rotation keeps none
    for value, (x, y) in zip(values.real.tolist(), vectors.real.T.tolist(), strict=True):
        side = 1 if y > 1e-3 or (abs(y) <= 1e-3 and x > 0) else -1  # the same end on every machine
        axes.plot([-1.75 * x, 1.75 * x], [-1.75 * y, 1.75 * y], ":", color=GREY, linewidth=1)
        factor = f"×{plots.written(round(value, 1), 'g')}"
        axes.text(-side * 2.1 * x, -side * 2.1 * y, factor, ha="center", va="center", color=GREY, fontsize=9)


def acts(matrices: Mapping[str, Float[Tensor, "2 2"]]) -> None:
    """Show what matrices do to the unit circle (dashed → solid) and its vectors a, b; dotted, what they keep."""
    for axes, W in plots.panels(matrices, (2.5 * len(matrices), 2.5)):
        _act(axes, W)
    plots.show("A circle turned, made an ellipse, pressed flat, mirrored. Dotted: eigenvectors.")


def turned(streams: Mapping[str, Float[Tensor, " d_model"]], spreads: Mapping[str, Float[Tensor, " d_model"]]) -> None:
    """The stream at one position and the spread of W_pos, coordinate by coordinate, of two models that do the same."""
    _, grid = plt.subplots(2, 2, figsize=(10.5, 5.8), sharex="col", sharey="col")
    for (left, right), (name, stream), colour in zip(grid, streams.items(), COLOURS[:2], strict=True):
        left.bar(range(60), stream[:60], color=colour)
        left.set(title=f"the stream at the last position, {name}", ylabel="value", xlabel="coordinate (the first 60)")
        right.bar(range(len(stream)), spreads[name], width=1, color=colour)
        right.set(title=f"positions, {name}", ylabel="spread of W_pos", xlabel="coordinate")


def who_reads_whom(strength: Float[Tensor, "writer door reader"]) -> None:
    """The virtual weights between two layers: writers on the rows, queries, keys and values of readers on columns."""
    writers, _, readers = strength.shape
    columns = [f"{door}:1.{head}" for door in ("queries", "keys", "values") for head in range(readers)]
    look: dict[str, Any] = {"xlabel": "read by", "label": "strength (chance 0.06)", "numbers_from": 0.11}
    title, rows = "How much of each head of layer 0 do those of layer 1 read?", [f"0.{head}" for head in range(writers)]
    axes = plots.heatmap(strength.flatten(1), rows, columns, title, "written by", **look)
    for door in (1, 2):
        axes.axvline(door * readers - 0.5, color="white", linewidth=3)


def deleters(
    products: Mapping[str, Complex[Tensor, " d_head"]], changes: Mapping[str, tuple[float, float]], planted: float
) -> None:
    """What heads do to a vector at their own position, by their eigenvalues times their attention, and measured.

    `changes` are pairs: a head's attention to its own position, and the change of the vector, a share of it. `planted`
    is the change by a head that was made to delete, drawn as a line.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(11, 5))
    points: dict[str, Any] = {"lines": False, "markers": True}
    values, title = torch.cat(list(products.values())), "What would become of each eigenvector?"
    look = points | {"size": 2, "xlim": (-2.2, 1), "ylim": (-1.4, 1.4), "aspect": "equal"}
    labels = "real part of aλ", "imaginary part of aλ"
    plots.curves({"": values.imag}, title, *labels, x=values.real, axes=left, **look)
    left.add_patch(Circle((-1, 0), 1, facecolor="#e0e0e0", edgecolor=GREY))
    left.plot(-1, 0, "x", color="black", markersize=8)
    places = {"−1: nothing is left": (-1, -0.22), "in the circle: shorter": (-1, 0.5), "outside: longer": (0.45, 0.8)}
    for words, at in places.items():
        left.text(*at, words, ha="center", va="center")
    percent = {name: (own, 100 * share) for name, (own, share) in changes.items()}
    labels = "attention to its own position, a", "change of what is there, %"
    title = "What becomes of the stream at a head's own position?"
    plots.curves({"": dict(percent.values())}, title, *labels, **points, axes=right)
    ends = sorted(percent, key=lambda name: percent[name][1])
    for name, side, place in ((ends[0], (0, -14), "center"), (ends[-1], (-7, -4), "right")):
        right.annotate(name, percent[name], side, textcoords="offset points", ha=place)
    right.axhline(0, color=GREY, linewidth=0.8)
    right.axhline(100 * planted, color=GREY, linestyle="--")
    right.text(0.002, 100 * planted + 0.3, "a head that deletes 32 directions of 256")


def tensor_product(pictures: Mapping[str, Shaped[Tensor, "row column"]], edges: Sequence[float]) -> None:
    """Small integer matrices with their entries, the last one with lines between its blocks."""
    look: dict[str, Any] = {"centred": True, "numbers_from": 1, "spec": ".0f", "bar": False}
    widths = [matrix.shape[1] + 2 for matrix in pictures.values()]
    _, panels = plt.subplots(1, len(pictures), figsize=(10.8, 4.7), width_ratios=widths)
    for axes, (title, matrix) in zip(panels, pictures.items(), strict=True):
        rows, columns = ([""] * size for size in matrix.shape)  # without names
        plots.heatmap(matrix, rows, columns, title, **look, axes=axes)
        axes.set(xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_visible(True)
    for edge in edges:
        panels[-1].axvline(edge, color="black", linewidth=0.8)
        panels[-1].axhline(edge, color="black", linewidth=0.8)
    panels[-1].set_xlabel("flattened stream, position by position")


def _flow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **look: Any) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 1.6} | look)


def _schematic(height: float, top: float, title: str, width: float = 10) -> Axes:
    _, axes = plt.subplots(figsize=(width, height))
    axes.set(xlim=(0, 10), ylim=(0, top), title=title)
    axes.axis("off")
    return axes


def turn_and_back() -> None:
    """A writer turns what it writes by Q, a reader turns it back: between them the stream is another, they are not."""
    axes = _schematic(2.4, 2.0, "Who notices, if the stream is turned?")
    for y, label in ((1.5, "x"), (0.4, "x Q")):
        _flow(axes, (1.55, y), (8.45, y))
        plots.box(axes, 1.2, y, "writes x", BLUE)
        plots.box(axes, 8.8, y, "reads x", GREEN)
        axes.text(5, y + 0.08, f"in the stream: {label}", ha="center", va="bottom")
    plots.box(axes, 3, 0.4, "Q", ORANGE)
    plots.box(axes, 7, 0.4, "Qᵀ", ORANGE)


def virtual_weights() -> None:
    """A head of layer 0 writes to the stream; a head of layer 1 reads it through three doors."""
    axes = _schematic(3.0, 2.6, "How does one head hear another?")
    plots.box(axes, 1.2, 0.4, "head 0.a", BLUE)
    _flow(axes, (0.2, 1.2), (9.8, 1.2), linewidth=4)
    axes.text(0.2, 1.32, "stream", va="bottom")
    _flow(axes, (1.2, 0.6), (1.2, 1.15))
    axes.text(1.3, 0.9, "$W_O$", va="center")
    for x, matrix, use in ((4.2, "W_Q", "queries"), (6.4, "W_K", "keys"), (8.6, "W_V", "values")):
        plots.box(axes, x, 2.25, f"{use} of 1.b", GREEN)
        _flow(axes, (x, 1.25), (x, 2.07))
        axes.text(x + 0.1, 1.6, f"${matrix}$", va="center")
        _flow(axes, (1.6, 0.4), (x, 1.15), linestyle=":", color=COLOURS[1], connectionstyle="angle3,angleA=0,angleB=90")
        axes.text(x + 0.12, 0.75, f"$W_O\\,{matrix}$", color=COLOURS[1], va="center")
