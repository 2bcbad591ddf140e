"""What only lesson 01 draws: the machine, patterns that differ, what a head brings."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor
from torch.nn import functional as F

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS
from course_utils.text import visible

BLUE, ORANGE, PLUM = COLOURS[:3]
MONO: dict[str, Any] = {"family": "monospace", "parse_math": False}
ALT = plots.alt_texts(__file__)
ByPos = Float[Tensor, " pos"]


def machine(names: Sequence[str], expected: Sequence[str]) -> None:
    """A transformer with one block: a stream for every token of `names`.

    On top of each stands `expected`, what it says.
    """
    # how far a part stands from the stream that it reads
    axes = plt.subplots(figsize=(8.8, 6.2))[1]
    side = 0.72
    norm: dict[str, Any] = {"color": "black", "linestyle": (0, (2, 1)), "linewidth": 2}
    columns = [1.7 * number for number in range(len(names))]
    for x, name, said in zip(columns, names, expected, strict=True):
        axes.annotate(
            "",
            (x, 7.2),
            (x, 0.3),
            arrowprops={"arrowstyle": "-|>", "lw": 5, "color": "#bbbbbb"},
            zorder=0,
        )
        axes.text(x, -0.05, visible(name), ha="center", fontsize=11, **MONO)
        boxes = [(x, 0.85, "look up $W_E$", COLOURS[6]), (x, 6.35, "times $W_U$", COLOURS[6])]
        boxes += [(x + side, 2.5, "attention", ORANGE), (x + side, 4.55, "MLP", PLUM)]
        for at, y, words, colour in boxes:
            style = {
                "boxstyle": "round,pad=0.7",
                "facecolor": "white",
                "edgecolor": colour,
                "linewidth": 2,
            }
            axes.text(at, y, words, ha="center", va="center", zorder=4, bbox=style)
        for y in (2.5, 4.55):  # each part reads the stream below, and is added to it above
            axes.plot(
                [x, x + side, x + side],
                [y - 0.75, y - 0.75, y + 0.75],
                color="black",
                linewidth=1.2,
                zorder=1,
            )
            axes.plot([x + side / 2] * 2, [y - 0.93, y - 0.57], **norm)
            drawings.arrow(axes, (x + side, y + 0.75), (x, y + 0.75), "black")
            axes.text(
                x, y + 0.75, "+", ha="center", va="center", fontsize=13, fontweight="bold", zorder=4
            )
        axes.plot([x - 0.15, x + 0.15], [5.75, 5.75], **norm)
        axes.text(x, 7.3, visible(said), ha="center", color=BLUE, fontsize=11, **MONO)
    for (i, src), (j, dest) in combinations(enumerate(columns), 2):  # a stream is read elsewhere
        bend, reach = (0.14, 0.28) if j - i > 1 else (0, 0.36)  # under the box between
        start, end = (src + side, 1.75), (dest + side - reach, 2.3 if j - i > 1 else 2.45)
        drawings.arrow(axes, start, end, ORANGE, bend=bend)
    notes = {
        0.0: "tokens  [batch, pos]",
        0.85: "GPT-2 adds its place here (section 4)",
        1.3: "the stream  [batch, pos, d_model]",
        2.5: "the only part that reads other positions",
        3.25: "+  what a part makes is added",
        4.55: "each position alone (our model has none)",
        5.75: "dashed: LayerNorm (our model has none)",
        7.4: "logits  [batch, pos, d_vocab]",
    }
    for y, words in notes.items():
        axes.text(columns[-1] + 1.4, y, words, va="center", fontsize=10)
    title = "How does a text become a guess at each next token?"
    axes.set(xlim=(-0.5, columns[-1] + 3.6), ylim=(-0.3, 7.7), title=title)
    axes.axis("off")


def beside_line(
    values: Mapping[str, float], title: str, unit: str, line: float, label: str, highlight: str
) -> Axes:
    """Bars for what was changed, and a dashed line for nothing changed.

    The bar of `highlight` stands out.
    """
    axes = plots.bars(values, title, unit, [highlight])
    axes.axvline(line, color="black", linestyle="--", label=label)
    # above the line
    plt.setp(axes.texts, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5}, zorder=3)
    axes.legend()
    return axes


def softmax(
    names: Sequence[str], logits: Float[Tensor, " token"], p: Float[Tensor, " token"]
) -> Sequence[Axes]:
    """The logits of some tokens, and beside them the probabilities that a softmax makes."""
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 0.9 + 0.36 * len(names)))
    shown = [visible(name) for name in names]
    before = dict(zip(shown, logits.tolist(), strict=True))
    plots.bars(before, "before the softmax: logits", "logit", axes=left)
    after = dict(zip(shown, p.tolist(), strict=True))
    plots.bars(after, "after the softmax: probabilities", "probability", axes=right)
    left.set_yticks(range(len(names)), shown, **MONO)
    right.set_yticks([])
    return [left, right]


def causal(
    pattern: Float[Tensor, "dest src"], names: Sequence[str], title: str, axes: Axes | None = None
) -> Axes:
    """A pattern, empty above the diagonal."""
    axes = plots.attention(pattern, names, title, axes=axes)
    later = torch.ones_like(pattern).triu(1).bool()
    axes.images[0].set_data(pattern.masked_fill(later, torch.nan).numpy())  # left white
    return axes


def chosen(
    names: Sequence[str],
    pattern: Float[Tensor, "dest src"],
    rows: Mapping[str, ByPos],
    sources: Sequence[str],
) -> Sequence[Axes]:
    """A pattern, its last row framed; beside it, for each text, this row as bars.

    `sources` names the columns of all texts, where these differ.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 4.6), width_ratios=(1, 1.35))
    shown = [visible(name) if name in names else name for name in sources]
    causal(pattern, names, "One pattern: each row sums to 1", left)
    n = len(names)
    frame = plt.Rectangle((-0.5, n - 1.5), n, 1, fill=False, edgecolor=ORANGE, linewidth=3)
    left.add_patch(frame)
    plots.grouped_bars(rows, shown, "Its last row, for two texts", "weight", "source", axes=right)
    right.set_xticks(range(n), shown, rotation=45, ha="right", **MONO)
    right.legend()
    return [left, right]


def brought(
    names: Sequence[str], columns: Mapping[str, ByPos], highlight: Sequence[str]
) -> Sequence[Axes]:
    """What a destination receives in one head: a row for each source, a panel for each measure."""
    size = (8.8, 0.9 + 0.33 * len(names))
    figure, panels = plt.subplots(1, len(columns), figsize=size, sharey=True, layout="constrained")
    figure.suptitle(f"What does {visible(names[-1])} receive in this head, from each source?")
    shown = [visible(name) for name in names]
    colours = [ORANGE if name in highlight else BLUE for name in shown]
    for axes, (title, values) in zip(panels, columns.items(), strict=True):
        drawn = axes.barh(range(len(names)), values.tolist(), color=colours)
        axes.bar_label(drawn, fmt="%.2f", padding=4)
        axes.margins(x=0.2)
        axes.set_title(title)
        axes.set_xticks([])
    panels[0].set_yticks(range(len(names)), shown, **MONO)
    panels[0].invert_yaxis()  # of all, since they share it
    return list(panels)


def normed_and_bent() -> Sequence[Axes]:
    """What LayerNorm makes of eight numbers, and what the GELU makes of one.

    Beside the GELU stands a hard cut at 0.
    """
    x = torch.tensor([5.5, 3.5, 6.5, 4.0, 9.0, 3.0, 4.5, 6.0])
    _, panels = plt.subplots(1, 3, figsize=(8.8, 3.3), width_ratios=(1, 1, 1.3))
    for axes, values, title in zip(
        panels, (x, F.layer_norm(x, (8,))), ("a stream's entries", "normed"), strict=False
    ):
        axes.bar(range(8), values.tolist(), color=COLOURS[6] if title == "normed" else BLUE)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(title=title, ylim=(-2.2, 9.6), xlabel="entry", xticks=[])
    reach = torch.linspace(-4, 4, 100)
    bent = {"GELU": F.gelu(reach), "negative values cut off": reach.clamp(min=0)}
    plots.curves(bent, "how the MLP bends a neuron", "before", "after", x=reach, axes=panels[2])
    return list(panels)


draws_in_style(__name__)
