"""What only lesson 07 draws: the circuit, with numbers and without; loss, effects and costs; a moved label."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from torch import Tensor

from course_utils import plots
from course_utils._arguments import checked
from course_utils.plots import COLOURS
from course_utils.text import visible

WIDTH = 100  # characters of a line
BLUE, ORANGE, GREEN, GREY = *COLOURS[:3], COLOURS[6]


@checked
def circuit(tokens: Sequence[str] = ("A", "B", "A", "B"), steps: Sequence[str] = ("", "", "")) -> Axes:
    """The induction circuit: streams of three positions, and the three steps between them.

    `tokens` are the earlier A, the earlier B, the second A and the prediction; what `steps` say of the three steps
    stands below their names.
    """
    axes = plt.subplots(figsize=(9.6, 3.6))[1]
    first, second, again, to_come = tokens
    for x, token, place in ((1, first, "j"), (3.4, second, "j + 1"), (8, again, "n")):
        axes.plot([x, x], [0.35, 5], color="#d9d9d9", lw=9, zorder=0, solid_capstyle="round")
        _box(axes, x, 0, token)
        axes.text(x, -0.55, f"position {place}", ha="center", va="center", fontsize=9)
    _box(axes, 8, 5.2, f"{to_come} ?", "#ffe9d6")
    axes.text(5.7, 0, "· · ·", ha="center", va="center")
    for y, layer in ((1.3, "layer 0"), (3.7, "layer 1")):
        axes.axhspan(y - 0.95, y + 1.05, color="#f6f6f6", zorder=-1)
        axes.text(-0.35, y, layer, ha="center", va="center", fontsize=9, rotation=90, color="#555555")
    _arrow(axes, (1, 0.95), (3.4, 0.95), BLUE)
    axes.text(2.2, 1.1, _step("1  fetch from one back", steps[0]), ha="center", va="bottom", color=BLUE, fontsize=9)
    label = f"“{first} came before me”"
    box = {"boxstyle": "round,pad=0.3", "facecolor": "#dcebf5", "edgecolor": BLUE}
    axes.text(3.55, 2.0, label, ha="left", va="center", fontsize=9, bbox=box, parse_math=False)
    _arrow(axes, (8, 3.05), (3.4, 3.05), ORANGE, "--")
    said = _step(f"2  “who came after {first}?”", steps[1])
    axes.text(5.7, 3.1, said, ha="center", va="bottom", color="#a34700", fontsize=9, parse_math=False)
    _arrow(axes, (3.4, 4.05), (8, 4.05), GREEN)
    said = _step(f"3  copy {second}", steps[2])
    axes.text(5.7, 4.1, said, ha="center", va="bottom", color="#00654a", fontsize=9, parse_math=False)
    axes.text(3.2, 3.05, "key", ha="right", va="center", fontsize=9, color="#a34700")
    axes.text(8.2, 3.05, "query", ha="left", va="center", fontsize=9, color="#a34700")
    axes.text(3.2, 4.05, "value", ha="right", va="center", fontsize=9, color="#00654a")
    axes.set(xlim=(-0.6, 9.4), ylim=(-0.85, 5.65))
    axes.axis("off")
    return axes


def _step(name: str, found: str) -> str:
    return f"{name}\n{found}" if found else name


def _box(axes: Axes, x: float, y: float, label: str, colour: str = "white") -> None:
    style = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": "black"}
    axes.text(x, y, label, bbox=style, ha="center", va="center", family="monospace", parse_math=False)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, line: str = "-") -> None:
    style = {"arrowstyle": "-|>", "color": colour, "lw": 2, "linestyle": line, "shrinkA": 5, "shrinkB": 5}
    axes.annotate("", end, start, arrowprops=style)


@checked
def coloured(tokens: Sequence[str], values: Float[Tensor, " pos"], title: str, label: str, limit: float = 10) -> Axes:
    """A text on its lines, each token coloured by its value: orange above 0, blue and underlined below.

    `label` says what the colours measure; from `limit` on they get no stronger.
    """
    colours = ScalarMappable(Normalize(-limit / 0.7, limit / 0.7), "PuOr_r")  # the map's ends are too dark to read on
    axes = plt.subplots(figsize=(9, 2.6))[1]
    column, line = 0, 0
    for token, value in zip(tokens, values.tolist(), strict=True):
        word = visible(token)
        if column + len(word) > WIDTH:
            column, line = 0, line + 1
        box = {"facecolor": colours.to_rgba(np.clip(value, -limit, limit)), "edgecolor": "none", "pad": 0.5}
        axes.text(column, -line, word, family="monospace", fontsize=8.5, parse_math=False, bbox=box)
        if value < -limit / 5:
            axes.plot([column, column + len(word)], [-line - 0.22] * 2, color="black", linewidth=1)
        column += len(word)
    axes.set(xlim=(0, WIDTH), ylim=(-line - 0.6, 1), title=title)
    axes.axis("off")
    key = plt.colorbar(colours, ax=axes, label=label, boundaries=[limit * i / 50 for i in range(-50, 51)])
    key.set_ticks([-limit, 0, limit], labels=[f"−{limit:g}", "0", f"+{limit:g}"])
    return axes


@checked
def scores(panels: Mapping[str, Mapping[str, Float[Tensor, " head"]]]) -> None:
    """Show a layer's prefix-matching scores in each panel, "two-layer 1", one bar for each way to draw tokens."""
    _, axes = plt.subplots(1, len(panels), figsize=(9, 2.8), sharey=True)
    for panel, (title, values) in zip(axes, panels.items(), strict=True):
        model, layer = title.split()
        names = [f"{layer}.{h}" for h in range(len(next(iter(values.values()))))]
        plots.grouped_bars(values, names, f"{model}, layer {layer}", "", "head", axes=panel)
    axes[0].set_ylabel("prefix-matching score")
    axes[0].legend(title="tokens drawn")
    plots.show(
        "Prefix-matching scores of all heads of three layers. Only heads 1.1 and 1.6 of the two-layer model have high "
        "bars, however the tokens were drawn. All others are next to zero."
    )


@checked
def losses(
    panels: Mapping[str, Mapping[str, Float[Tensor, " pos"]]], period: int, chance: float, step: int = 8
) -> Axes:
    """Loss by position in each panel, one line for each model, averaged in steps; passes begin at dotted lines."""
    _, axes = plt.subplots(1, len(panels), figsize=(9, 3), sharey=True)
    for panel, (title, models) in zip(axes, panels.items(), strict=True):
        for line, (name, loss) in zip(plots.LINES, models.items(), strict=False):
            means = loss.view(-1, step).mean(1)
            panel.plot([step * (i + 0.5) for i in range(len(means))], means.tolist(), line, marker=".", label=name)
        for start in range(period, len(loss), period):
            label = "a pass begins" if start == period else None
            panel.axvline(start + 1, color=GREY, linestyle=":", label=label)
        panel.axhline(chance, color=GREY, label="all tokens equally likely")
        panel.set(title=f"tokens drawn {title}", xlabel="position of the predicted token", ylim=(0, 16))
    axes[0].set_ylabel("nats per token")
    axes[-1].legend(fontsize=8, ncols=2, frameon=True, framealpha=1, edgecolor="none")
    return axes[0]


@checked
def costs(panels: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Axes:
    """For each panel, what each way of cutting costs at each kind of position."""
    _, axes = plt.subplots(1, len(panels), figsize=(9.6, 3.4), sharey=True)
    for panel, (title, ways) in zip(axes, panels.items(), strict=True):
        places = list(next(iter(ways.values())))
        values = {way: [by_kind[place] for place in places] for way, by_kind in ways.items()}
        plots.grouped_bars(values, places, title, "", "kind of position", axes=panel)
        panel.axhline(0, color="black", lw=0.8)
    axes[0].set_ylabel("what the cut costs, nats per token")
    axes[0].legend(title="in place of what\nthe heads write")
    return axes[0]


@checked
def moved(lines: Mapping[str, Float[Tensor, " place"]], before: int, later: int, title: str) -> Axes:
    """Attention by place, counted from the earlier B, one line for each state of the label.

    The lines begin `before` places ahead of B; the label moves `later` places on.
    """
    _, axes = plt.subplots(figsize=(8.4, 3))
    for line, mark, (name, attention) in zip(plots.LINES, "os^", lines.items(), strict=False):
        places = range(-before, len(attention) - before)
        axes.plot(places, attention.tolist(), line, marker=mark, ms=4, label=name)
    axes.set(title=title, xlabel="source position", ylabel="attention", ylim=(0, 1))
    axes.set_xticks([0, later], ["earlier B", f"{later} later"])
    axes.legend()
    return axes


@checked
def matches(
    match: Float[Tensor, "dest src"], alike: Float[Tensor, "dest src"], tokens: Sequence[str], reader: str, writer: str
) -> Axes:
    """Two tables of scores on one scale: the match of `reader` through `writer`, and the reader's own QK."""
    _, panels = plt.subplots(1, 2, figsize=(10, 4))
    titles = f"M_K of {reader} with {writer}", f"QK of {reader} alone"
    ends = "token before the source", "token at the source"
    for axes, table, title, end in zip(panels, (match, alike), titles, ends, strict=True):
        side = "token at the destination"
        plots.heatmap(table, tokens, tokens, title, side, end, centred=True, limit=10.0, axes=axes)
    return panels[0]
