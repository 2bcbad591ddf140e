"""Pictures of lesson 02: the residual stream, and one prediction taken apart."""

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

ALT = plots.alt_texts(__file__)
CODE: dict[str, Any] = {"family": "monospace", "parse_math": False}  # how tokens are written


def stream() -> Axes:
    """The model as one channel.

    The embedding fills it, heads read a copy and add, W_U reads the end.
    """
    _, axes = plt.subplots(figsize=(9, 3.4))
    axes.set(xlim=(0, 9), ylim=(0, 3.4), title="What happens between a token and a logit?")
    axes.axis("off")
    channel = {
        "arrowstyle": "-|>",
        "linewidth": 8,
        "color": COLOURS[0],
        "alpha": 0.45,
        "mutation_scale": 24,
    }
    axes.annotate("", (8.15, 0.6), (0.8, 0.6), arrowprops=channel)
    drawings.box(axes, 0.6, 0.6, "W_E", "#FFF2CC")
    drawings.box(axes, 8.4, 0.6, "W_U", "#FFF2CC")
    for start, layer, names in (
        (1.7, 0, ("0.0", "0.1", "… 0.7")),
        (4.9, 1, ("1.0", "1.1", "… 1.7")),
    ):
        axes.text(start + 1.1, 3.1, f"layer {layer}: all heads read the same stream", ha="center")
        axes.text(
            start - 0.28, 1.35, "read a copy", rotation=90, ha="right", va="center", fontsize=9
        )
        axes.text(start + 2.4, 1.35, "add", rotation=90, ha="left", va="center", fontsize=9)
        axes.plot([start - 0.2, start - 0.2, start + 1.95], [0.7, 2, 2], "k--", linewidth=1.2)
        for number, name in enumerate(names):
            x = start + 0.25 + 0.9 * number
            drawings.arrow(axes, (x - 0.1, 1.95), (x - 0.1, 2.45), "black", "--")
            drawings.arrow(axes, (x + 0.1, 2.45), (x + 0.1, 0.65), "black")
            drawings.box(axes, x, 2.55, name, "#DDEBF7")
            axes.text(x - 0.09, 0.85, "+", fontsize=14)
    axes.text(
        4.5, 0.15, "the residual stream: one vector of 256 numbers at every position", ha="center"
    )
    return axes


def where_and_what() -> None:
    """A head as two matrices: A mixes the rows of the stream (positions), W_OV acts on each row."""
    _, axes = plt.subplots(figsize=(11, 3.1))
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
    title, label = "Which token would be predicted after each layer?", "p of the token that comes"
    axes = shares(probability, stages, tokens, title, "position (its own token)", label)
    for number in list(axes.texts):
        number.remove()  # words stand there
    for (stage, pos), guess in np.ndenumerate(logits.argmax(-1).numpy()):
        word = visible(str(model.to_string([guess])))
        ink = "white" if probability[stage, pos] > 0.5 else "black"
        short = word if len(word) < 10 else f"{word[:8]}…"
        axes.annotate(short, (pos, stage), ha="center", va="center", color=ink, fontsize=7, **CODE)
    return axes


def shares(
    share: Float[Tensor, "row pos"],
    rows: Sequence[str],
    tokens: Sequence[str],
    title: str,
    xlabel: str,
    label: str,
) -> Axes:
    """Shares by row and position, darker the larger, in percent; those above 10 are written in."""
    _, axes = plt.subplots(figsize=(10, 1.6 + 0.7 * len(rows)))
    look: dict[str, Any] = {"numbers_from": 10, "spec": ".0f", "colours": "Blues", "axes": axes}
    plots.heatmap(100 * share, rows, tokens, title, "", xlabel, label=f"{label}, %", **look)
    axes.set_yticks(range(len(rows)), rows)  # words, not tokens
    return axes


def two_each(groups: Mapping[str, Mapping[str, float]], title: str, unit: str, legend: str) -> Axes:
    """Two bars for each head, one of either group."""
    bars = {name: list(each.values()) for name, each in groups.items()}
    heads = list(next(iter(groups.values())))
    axes = plt.subplots(figsize=(max(10, 0.75 * len(heads)), 3.6))[1]
    plots.grouped_bars(bars, heads, title, unit, "head", numbers=True, axes=axes).legend(
        title=legend
    )
    return axes


def three_ways(
    tables: Mapping[str, Mapping[str, Float[Tensor, " part"]]], parts: Sequence[str]
) -> Axes:
    """Predictions side by side: what each part is worth, by every method.

    Each method has a column, in nats of logit.
    """
    look: dict[str, Any] = {
        "centred": True,
        "limit": 12,
        "numbers_from": 0,
        "spec": ".1f",
        "bar": False,
    }
    panels = plots.panels(tables, (4.9 * len(tables), 1.2 + 0.27 * len(parts)))
    for (axes, table), title in zip(panels, tables, strict=True):
        values = torch.stack(list(table.values()), 1)  # [part, method]
        plots.heatmap(values, parts, list(table), title, "part of the model", **look, axes=axes)
        for column, row in enumerate(values[1:].abs().argmax(0) + 1):  # of the heads
            most = axes.texts[row * len(table) + column]
            most.set(text=f"▸{most.get_text()}", weight="bold")
        axes.axhline(0.5, color="black", linewidth=0.8)
        axes.tick_params("x", rotation=0, labelsize=9)
        axes.set_yticks(range(len(parts)), parts)
        axes.label_outer()
    panels[0][0].figure.supxlabel("nats of logit; ▸ the head worth most by this method", fontsize=9)
    return panels[0][0]


draws_in_style(__name__)
