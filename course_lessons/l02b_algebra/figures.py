"""Pictures of lesson 02b: what matrices do to a plane, and the algebra of the residual stream."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS
from course_utils.text import visible

GREY, BLUE, ORANGE, GREEN = COLOURS[6], "#ddebf7", "#ffe9d6", "#dff0e6"  # of lines, and of boxes
# of a label that may stand on a line
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
CODE: dict[str, Any] = {"family": "monospace", "parse_math": False}  # how tokens are written
ALT = plots.alt_texts(__file__)


def _arrow(axes: Axes, end: Tensor, colour: str, label: str, style: str = "-") -> None:
    _flow(axes, (0, 0), tuple(end.tolist()), color=colour, linestyle=style, shrinkA=0, shrinkB=0)
    along = end / end.norm()
    # beside the arrow, not on its line
    away = end + 0.22 * along + 0.16 * torch.stack([-along[1], along[0]])
    axes.text(
        away[0].item(), away[1].item(), label, ha="center", va="center", color=colour, bbox=BEHIND
    )


def _circle(axes: Axes, W: Tensor) -> None:
    """The unit circle, dashed, and what one matrix makes of it."""
    angles = torch.linspace(0, 2 * math.pi, 200)
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    axes.plot(*circle.T, "--", color=GREY, linewidth=1)
    axes.plot(*(circle @ W).T, color=COLOURS[0], linewidth=1.6)
    axes.set(xlim=(-2, 2), ylim=(-2, 2), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _act(axes: Axes, W: Tensor) -> None:
    """What x → x W does to the unit circle and its vectors a, b.

    Dotted are the directions that it keeps, with factors.
    """
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
        axes.text(
            -side * 2.1 * x,
            -side * 2.1 * y,
            factor,
            ha="center",
            va="center",
            color=GREY,
            fontsize=9,
        )


def acts(matrices: Mapping[str, Float[Tensor, "2 2"]]) -> None:
    """Show what matrices do to the unit circle (dashed → solid) and its vectors a, b.

    Dotted is what they keep.
    """
    for axes, W in plots.panels(matrices, (2.2 * len(matrices), 2.4)):
        _act(axes, W)
    plots.show("A circle turned, made an ellipse, pressed flat, mirrored. Dotted: eigenvectors.")


def turned(
    streams: Mapping[str, Float[Tensor, " d_model"]],
    spreads: Mapping[str, Float[Tensor, " d_model"]],
) -> None:
    """The stream at one position and the spread of W_pos, of two models that do the same.

    Both are drawn coordinate by coordinate.
    """
    _, grid = plt.subplots(2, 2, figsize=(8.8, 5.8), sharex="col", sharey="col")
    for (left, right), (name, stream), colour in zip(
        grid, streams.items(), COLOURS[:2], strict=True
    ):
        left.bar(range(60), stream[:60], color=colour)
        left.set(
            title=f"the stream at the last position, {name}",
            ylabel="value",
            xlabel="coordinate (the first 60)",
        )
        right.bar(range(len(stream)), spreads[name], width=1, color=colour)
        right.set(title=f"positions, {name}", ylabel="spread of W_pos", xlabel="coordinate")


def who_reads_whom(strength: Float[Tensor, "writer door reader"]) -> None:
    """The virtual weights between two layers.

    Writers stand on the rows; queries, keys and values of readers on the columns.
    """
    writers, _, readers = strength.shape
    columns = [
        f"{door}:1.{head}" for door in ("queries", "keys", "values") for head in range(readers)
    ]
    look: dict[str, Any] = {
        "xlabel": "read by",
        "label": "strength (chance 0.06)",
        "numbers_from": 0.11,
    }
    title = "How much of each head of layer 0 do those of layer 1 read?"
    rows = [f"0.{head}" for head in range(writers)]
    axes = plt.subplots(figsize=(8.8, 3.8))[1]
    plots.heatmap(strength.flatten(1), rows, columns, title, "written by", axes=axes, **look)
    for door in (1, 2):
        axes.axvline(door * readers - 0.5, color="white", linewidth=3)


def _flow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **look: Any) -> None:
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 1.6} | look
    )


def _schematic(height: float, top: float, title: str, width: float = 8.8) -> Axes:
    _, axes = plt.subplots(figsize=(width, height))
    axes.set(xlim=(0, 10), ylim=(0, top), title=title)
    axes.axis("off")
    return axes


def turn_and_back() -> None:
    """A writer turns what it writes by Q, a reader turns it back.

    Between them the stream is another, they are not.
    """
    axes = _schematic(2.4, 2.0, "Who notices, if the stream is turned?")
    for y, label in ((1.5, "x"), (0.4, "x Q")):
        _flow(axes, (1.55, y), (8.45, y))
        drawings.box(axes, 1.2, y, "writes x", BLUE)
        drawings.box(axes, 8.8, y, "reads x", GREEN)
        axes.text(5, y + 0.08, f"in the stream: {label}", ha="center", va="bottom")
    drawings.box(axes, 3, 0.4, "Q", ORANGE)
    drawings.box(axes, 7, 0.4, "Qᵀ", ORANGE)


def where_and_what() -> None:
    """A head as two matrices: A mixes the rows of the stream (positions), W_OV acts on each row."""
    _, axes = plt.subplots(figsize=(8.8, 3.1))
    axes.axis("off")
    weights = [[1, 0, 0, 0], [0.9, 0.1, 0, 0], [0.1, 0.8, 0.1, 0], [0.1, 0.2, 0.6, 0.1]]
    A = np.tril(np.array(weights))
    rows = np.arange(24).reshape(4, 6) % 7 / 7
    OV = rows.T @ rows
    where = "$A$  [dest, src]\nWHERE: mixes positions"
    between = "$x$  [src, d_model]\nthe stream, a row per position"
    what = "$W_V W_O$  [d_model, d_model]\nWHAT: acts on each row"
    for x, width, height, matrix, cmap, label in (
        (0.5, 1.4, 1.4, A, "Blues", where),
        (2.6, 2.1, 1.4, rows, "Purples", between),
        (5.4, 1.6, 1.6, OV, "Greens", what),
    ):
        extent = (x, x + width, 0.75, 0.75 + height)
        axes.imshow(matrix, cmap=cmap, extent=extent, aspect="auto", vmin=0)
        axes.text(x + width / 2, 0.6, label, ha="center", va="top", fontsize=9)
    axes.set(xlim=(0, 9), ylim=(0, 2.5), title="What is a head, as matrices?")
    for x, label in ((2.2, "·"), (5.05, "·"), (7.25, "=  what the head adds")):
        axes.text(x, 1.45, label, fontsize=14, ha="left", va="center")


def lens(
    model: HookedTransformer,
    logits: Float[Tensor, "stage pos d_vocab"],
    comes: Int[Tensor, " pos"],
    tokens: Sequence[str],
) -> Axes:
    """The likeliest token at every stage and position.

    It is the darker, the more probable the one that really `comes` next.
    """
    probability = logits.softmax(-1)[:, range(len(comes)), comes]  # [stage, pos]
    stages = ["embedding", *(f"after layer {layer}" for layer in range(len(logits) - 1))]
    title = "Which token would be predicted after each layer?"
    _, axes = plt.subplots(figsize=(8.8, 1.6 + 0.7 * len(stages)))
    look: dict[str, Any] = {"label": "p of the token that comes, %", "colours": "Blues"}
    xlabel = "position (its own token)"
    plots.heatmap(100 * probability, stages, tokens, title, "", xlabel, axes=axes, **look)
    axes.set_yticks(range(len(stages)), stages)  # words, not tokens
    for stage, pos in itertools.product(range(len(stages)), range(len(comes))):
        word = visible(str(model.to_string([int(logits[stage, pos].argmax())])))
        ink = "white" if probability[stage, pos] > 0.5 else "black"
        short = word if len(word) < 8 else f"{word[:5]}…"
        axes.annotate(short, (pos, stage), ha="center", va="center", color=ink, fontsize=9, **CODE)
    return axes


draws_in_style(__name__)
