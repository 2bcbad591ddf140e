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


def singular(W: Float[Tensor, "2 2"]) -> None:
    """The three steps of the SVD on the unit circle: turn, stretch along the axes, turn again; det W > 0."""
    U, S, V = torch.linalg.svd(W)
    signs = U[0, 0].sign() * torch.stack([torch.ones(()), torch.linalg.det(U)])  # U a turn, and so V, on every machine
    U, V = U * signs, V * signs[:, None]
    steps = {"two directions": torch.eye(2), "1 turn": U, "2 stretch": U * S, "3 turn: the same as W": U * S @ V}
    for axes, step in plots.panels(steps, (10, 2.7)):
        _circle(axes, step)
        for number, x, colour in zip("12", U.T, COLOURS[1:3], strict=True):
            _arrow(axes, x @ step, colour, f"$u_{number}$")


def again(planes: Mapping[str, Float[Tensor, "2 2"]], matrices: Mapping[str, Float[Tensor, "row column"]]) -> None:
    """Matrices of the plane, and below each the singular values of a large one that does the same."""
    _, grid = plt.subplots(2, len(planes), figsize=(10.5, 6.2), height_ratios=(1.2, 1), sharey="row")
    look: dict[str, Any] = {"lines": False, "markers": True, "size": 2, "ylim": (-0.1, 2.3)}
    for (above, below), (title, W), (name, large) in zip(grid.T, planes.items(), matrices.items(), strict=True):
        _act(above, W)
        above.set_title(title)
        values = dict(enumerate(torch.linalg.svdvals(large).tolist(), 1))
        plots.curves({name: values}, name, "singular value, in order of size", "stretch", **look, axes=below)
        below.label_outer()


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


def spectra(shares: Mapping[str, Float[Tensor, " direction"]], of_first: Float[Tensor, " direction"]) -> None:
    """Variance against the number of directions; and beside it, who uses each direction of a joint PCA."""
    _, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.8))
    sums = {name: dict(enumerate(share.cumsum(0).tolist(), 1)) for name, share in shares.items()}
    plots.curves(sums, "How many directions for 90 %?", "directions", "share of variance", axes=left)
    left.axhline(0.9, color=GREY, linewidth=0.8)
    labels = "Joint PCA: who uses each direction?", "direction", "share of W_E (W_U has the rest)"
    plots.curves({"W_E": of_first}, *labels, lines=False, markers=True, size=2, axes=right, ylim=(0, 1))
    right.axhline(0.5, color=GREY, linewidth=0.8)


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


def where_and_what() -> None:
    """A head as two matrices: A mixes the rows of the stream (positions), W_OV acts on each row."""
    axes = _schematic(3.1, 2.5, "What is a head, as matrices?", width=11)
    A = np.tril(np.array([[1, 0, 0, 0], [0.9, 0.1, 0, 0], [0.1, 0.8, 0.1, 0], [0.1, 0.2, 0.6, 0.1]]))
    rows = np.arange(24).reshape(4, 6) % 7 / 7
    for x, width, height, matrix, cmap, label in (
        (0.5, 1.4, 1.4, A, "Blues", "$A$  [dest, src]\nWHERE: mixes positions"),
        (2.6, 2.1, 1.4, rows, "Purples", "$x$  [src, d_model]\nthe stream, a row per position"),
        (5.4, 1.6, 1.6, rows.T @ rows, "Greens", "$W_V W_O$  [d_model, d_model]\nWHAT: acts on each row"),
    ):
        axes.imshow(matrix, cmap=cmap, extent=(x, x + width, 0.75, 0.75 + height), aspect="auto", vmin=0)
        axes.text(x + width / 2, 0.6, label, ha="center", va="top", fontsize=9)
    axes.set(xlim=(0, 9), ylim=(0, 2.5))  # imshow has moved them
    for x, label in ((2.2, "·"), (5.05, "·"), (7.25, "=  what the head adds")):
        axes.text(x, 1.45, label, fontsize=14, ha="left", va="center")


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


def layer_norm() -> None:
    """The steps of LayerNorm and the map behind it: σ is another for each token, the rest is the same for all."""
    axes = _schematic(2.3, 1.9, "Which part of LayerNorm can be folded away?")
    _flow(axes, (1.1, 1.2), (9.9, 1.2))
    steps = (("x less its mean", "white"), ("/ σ", ORANGE), ("⊙ w,  + b", GREEN), ("W,  + b_W", GREEN))
    for x, (text, colour) in zip((1.1, 3.5, 5.9, 8.3), steps, strict=True):
        plots.box(axes, x, 1.2, text, colour)
    axes.text(3.5, 0.75, "one σ per token,\nmade from x: it stays", ha="center", va="top")
    axes.text(7.1, 0.75, "the same for every token:\none map, W' and b'", ha="center", va="top")
    axes.text(4.7, 1.3, "n(x)", ha="center", va="bottom")


def biases(shifts: Mapping[str, Float[Tensor, "pos d_vocab"]]) -> None:
    """What biases add to the logits of the first 40 tokens at every position; no colour is no change."""
    look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -10, "vmax": 10, "aspect": "auto", "interpolation": "none"}
    named = {f"{kind} at random": shift[:, :40] for kind, shift in shifts.items()}
    panels = plots.panels(named, (11.6, 3.5), "logit of token", "position")
    drawn = [axes.imshow(shift, **look) for axes, shift in panels]
    plt.colorbar(drawn[0], ax=[axes for axes, _ in panels], label="change, nats", pad=0.01, extend="both")
