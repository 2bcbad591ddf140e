"""Pictures of lesson 02: the residual stream, and one prediction taken apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import plots
from course_utils.plots import COLOURS, written
from course_utils.text import visible

GREY = COLOURS[6]
ALT = plots.alt_texts(__file__)


def _box(axes: Axes, x: float, y: float, label: str, colour: str = "white", width: float = 0.8) -> None:
    """A labelled box around the point (x, y)."""
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - 0.2), width, 0.4, style, facecolor=colour, edgecolor="black"))
    axes.text(x, y, label, ha="center", va="center")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **style: object) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.2} | style)


def stream() -> Axes:
    """The model as one channel: the embedding fills it, heads read a copy and add, W_U reads the end."""
    _, axes = plt.subplots(figsize=(9, 3.4))
    axes.set(xlim=(0, 9), ylim=(0, 3.4))
    axes.axis("off")
    _arrow(axes, (1.1, 0.6), (7.9, 0.6), linewidth=8, color=COLOURS[5], mutation_scale=24)
    _box(axes, 0.6, 0.6, "$W_E$", "#FFF2CC")
    _box(axes, 8.4, 0.6, "$W_U$", "#FFF2CC")
    for start, layer, names in ((1.7, 0, ("0.0", "0.1", "… 0.7")), (4.9, 1, ("1.0", "1.1", "… 1.7"))):
        axes.text(start + 1.1, 3.1, f"layer {layer}: all heads read the same stream", ha="center")
        axes.text(start - 0.28, 1.35, "read a copy", rotation=90, ha="right", va="center", fontsize=9)
        axes.text(start + 2.4, 1.35, "add", rotation=90, ha="left", va="center", fontsize=9)
        _arrow(axes, (start - 0.2, 0.7), (start - 0.2, 2), linestyle="--", arrowstyle="-")
        _arrow(axes, (start - 0.2, 2), (start + 2.1, 2), linestyle="--", arrowstyle="-")
        for number, name in enumerate(names):
            x = start + 0.25 + 0.9 * number
            _arrow(axes, (x - 0.15, 2), (x - 0.15, 2.35), linestyle="--")
            _box(axes, x, 2.55, name, "#DDEBF7", 0.75)
            _arrow(axes, (x + 0.2, 2.35), (x + 0.2, 0.7))
            axes.text(x + 0.03, 0.85, "+", fontsize=14)
    axes.text(4.5, 0.15, "the residual stream: one vector of 256 numbers at every position", ha="center")
    axes.set_title("What happens between a token and a logit?")
    return axes


def unseen_constants() -> Axes:
    """Three numbers, the same three with 2 added to each, and the one softmax that both have."""
    logits = torch.tensor([2.0, 0.5, -1.0])
    _, panels = plt.subplots(1, 3, figsize=(9, 3.2))
    for axes, values, title, unit in zip(
        panels,
        (logits, logits + 2, logits.softmax(0)),
        ("three logits", "2 added to all", "softmax of both"),
        ("nats", "nats", "probability"),
        strict=True,
    ):
        plots.grouped_bars({title: values}, ["a", "b", "c"], title, unit, numbers=True, axes=axes)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_ylim(*((-2, 5) if unit == "nats" else (0, 1)))  # one scale: the second bars stand higher
    return panels[2]


def lens(
    model: HookedTransformer,
    logits: Float[Tensor, "stage pos d_vocab"],
    comes: Int[Tensor, " pos"],
    tokens: Sequence[str],
) -> Axes:
    """The likeliest token at every stage and position, darker the more probable the one that really `comes` next."""
    probability = logits.softmax(-1)[:, range(len(comes)), comes]  # [stage, pos]
    words = [[_short(str(model.to_string([guess]))) for guess in row] for row in logits.argmax(-1).tolist()]
    title = "Which token would be predicted after each layer?"
    stages = ["embedding", *(f"after layer {layer}" for layer in range(len(logits) - 1))]
    return shares(probability, stages, tokens, title, "position (its own token)", "p of the token that comes", words)


def shares(
    share: Float[Tensor, "row pos"],
    rows: Sequence[str],
    tokens: Sequence[str],
    title: str,
    xlabel: str,
    label: str,
    words: Sequence[Sequence[str]] | None = None,
) -> Axes:
    """Shares by row and position, darker the larger; `words` stand in the cells, or what is above 10 %."""
    _, axes = plt.subplots(figsize=(10, 1.6 + 0.7 * len(rows)))
    drawn = axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    plt.colorbar(drawn, ax=axes, label=label, pad=0.01, fraction=0.02)
    code: dict[str, Any] = {"family": "monospace", "parse_math": False}
    for (row, column), value in np.ndenumerate(share.numpy()):
        said = words[row][column] if words else f"{value:.0%}" if abs(value) > 0.1 else ""
        colour = "white" if value > 0.5 else "black"
        axes.text(column, row, said, ha="center", va="center", color=colour, fontsize=8, **code)
    names = [_short(token) for token in tokens]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor", **code)
    axes.set_yticks(range(len(rows)), rows)
    axes.spines[:].set_visible(False)
    axes.set(title=title, xlabel=xlabel)
    return axes


def _short(token: str) -> str:
    """A token as lessons write it, at most nine characters."""
    shown = visible(token)
    return shown if len(shown) < 10 else f"{shown[:8]}…"


def told_and_cut(told: Float[Tensor, " head"], cut: Float[Tensor, " head"], names: Sequence[str]) -> Axes:
    """What the terms say a head is worth against what its cut takes away; on the right, the small ones large."""
    _, panels = plt.subplots(1, 2, figsize=(10, 4.4))
    points = dict(zip(names, zip(told.tolist(), cut.tolist(), strict=True), strict=True))
    layers = {f"heads of layer {n}": dict(at for name, at in points.items() if name[0] == n) for n in "01"}
    ends = (min(told.min(), cut.min()).item() - 1, max(told.max(), cut.max()).item() + 1), (-0.3, 0.7)
    for axes, title, limits in zip(
        panels, ("Does a head's term say what its cut costs?", "The knot near zero, enlarged"), ends, strict=True
    ):
        axes.axline((0, 0), slope=1, color=GREY, linewidth=0.8, linestyle="--", label="as predicted")
        labels: dict[str, Any] = {
            "xlabel": "predicted from its term, in nats of logit",
            "ylabel": "measured, in nats of logit",
        }
        plots.curves(layers, title, **labels, lines=False, markers=True, axes=axes, xlim=limits, ylim=limits)
        for i, (name, at) in enumerate(points.items()):
            if (max(map(abs, at)) < 0.7) == (axes is panels[1]):
                offset, side = ((-7, -4), "right") if i % 2 == 0 else ((7, -4), "left")  # neighbours: on two sides
                axes.annotate(name, at, offset, textcoords="offset points", ha=side)
    return panels[0]


def two_each(groups: Mapping[str, Mapping[str, float]], title: str, unit: str, legend: str) -> Axes:
    """Two bars for each head, one of either group."""
    bars, heads = {name: list(each.values()) for name, each in groups.items()}, next(iter(groups.values()))
    axes = plt.subplots(figsize=(max(10, 0.75 * len(heads)), 3.6))[1]
    plots.grouped_bars(bars, list(heads), title, unit, "head", numbers=True, axes=axes).legend(title=legend)
    return axes


def bias_against_counts(
    model: HookedTransformer, writes: Float[Tensor, " d_vocab"], log_counts: Float[Tensor, " d_vocab"]
) -> Axes:
    """What a head adds to every logit, always, against how often the training text has the token; some are named."""
    title, xlabel = (
        "Which tokens does the resting head speak for?",
        "how often the training text has the token, logarithm",
    )
    named = [*log_counts.argsort(descending=True)[[0, 2, 5, 9, 20, 60]].tolist(), 0]
    axes = plots.curves(
        {"all": writes},
        title,
        xlabel,
        "added to the logit, nats",
        x=log_counts,
        lines=False,
        markers=True,
        size=3,
        axes=plt.subplots(figsize=(8, 4.6))[1],
    )
    axes.lines[0].set(alpha=0.25, markeredgewidth=0)
    axes.axhline(0, color="black", linewidth=0.8)
    for token in named:
        at = (log_counts[token].item(), writes[token].item())
        axes.plot(*at, "o", color=COLOURS[1], markersize=5)
        name = visible(str(model.to_string([token])))
        axes.annotate(name, at, (7, -5), textcoords="offset points", family="monospace", parse_math=False)
    return axes


def three_ways(tables: Mapping[str, Mapping[str, Float[Tensor, " part"]]], parts: Sequence[str]) -> Axes:
    """Predictions side by side: what each part is worth, in nats of logit, by every method (the columns)."""
    size = (4.9 * len(tables), 0.9 + 0.27 * len(parts))
    figure, panels = plt.subplots(1, len(tables), figsize=size, sharey=True, squeeze=False)
    for axes, (title, table) in zip(panels[0], tables.items(), strict=True):
        values = torch.stack(list(table.values()), 1)  # [part, method]
        axes.imshow(values, cmap="RdBu_r", vmin=-12, vmax=12, aspect="auto")
        most = values[1:].abs().argmax(0) + 1  # of the heads
        for (row, column), value in np.ndenumerate(values.numpy()):
            said, look = written(value.item(), ".1f"), {}
            if row == most[column]:
                said, look = f"▸{said}", {"weight": "bold", "color": "white" if abs(value) > 8 else "black"}
            axes.text(column, row, said, ha="center", va="center", fontsize=9, **look)
        axes.set_xticks(range(len(table)), list(table), fontsize=9)
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(parts)), parts)
        axes.axhline(0.5, color="black", linewidth=0.8)
        axes.spines[:].set_visible(False)
        axes.set_title(title, parse_math=False)
    panels[0][0].set_ylabel("part of the model")
    figure.supxlabel("nats of logit; ▸ the head worth most by this method", fontsize=9)
    return panels[0][0]
