"""What only lesson 01 draws: the machine, attention in four steps, who notices an edit, training, typical texts."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS
from course_utils.text import visible

BLUE, ORANGE, GREEN = COLOURS[:3]
MONO: dict[str, Any] = {"family": "monospace", "parse_math": False}


def _box(axes: Axes, x: float, y: float, width: float, words: str, colour: str) -> None:
    look: dict[str, Any] = {
        "boxstyle": "round,pad=0.04",
        "facecolor": "white",
        "edgecolor": colour,
        "linewidth": 2,
        "zorder": 3,
    }
    axes.add_patch(FancyBboxPatch((x - width / 2, y - 0.2), width, 0.4, **look))
    axes.text(x, y, words, ha="center", va="center", fontsize=9, zorder=4)


@checked
def machine(names: Sequence[str], expected: Sequence[str]) -> None:
    """A transformer with one block: a stream for every token of `names`, `expected` what it says on top of each."""
    _, axes = plt.subplots(figsize=(9.2, 4.9))
    last = len(names) - 1
    for x, (name, said) in enumerate(zip(names, expected, strict=True)):
        axes.annotate("", (x, 6.25), (x, 0.35), arrowprops={"arrowstyle": "-|>", "lw": 5, "color": "#bbbbbb"}, zorder=0)
        axes.text(x, -0.05, visible(name), ha="center", **MONO)
        _box(axes, x, 0.9, 0.62, "look up $W_E$", COLOURS[6])
        _box(axes, x, 3.9, 0.62, "MLP", GREEN)
        _box(axes, x, 5.2, 0.62, "times $W_U$", COLOURS[6])
        axes.text(x, 6.35, visible(said), ha="center", color=BLUE, **MONO)
        for y in (1.65, 3.4, 4.7):  # a LayerNorm before attention, MLP and W_U
            axes.plot([x - 0.15, x + 0.15], [y, y], color="black", linestyle=(0, (2, 1)), linewidth=1.5)
    _box(axes, last / 2, 2.1, last + 0.6, "attention: the only part that reads other columns", ORANGE)
    look: dict[str, Any] = {"arrowstyle": "-|>", "color": ORANGE, "lw": 1.5, "connectionstyle": "arc3,rad=-0.25"}
    for src, dest in combinations(range(len(names)), 2):
        axes.annotate("", (dest - 0.06, 2.85), (src, 2.35), arrowprops=look)
    notes = {
        -0.05: "tokens  [batch, pos]",
        0.9: "+ $W_{pos}$: where it stands",
        1.5: "the stream  [batch, pos, d_model]",
        2.1: "heads add what they fetched",
        3.0: "the stream",
        3.9: "adds what it made of it",
        4.65: "dashed: LayerNorm, section 5",
        5.2: "a number for each next token",
        6.35: "logits  [batch, pos, d_vocab]",
    }
    for y, words in notes.items():
        axes.text(last + 0.6, y, words, va="center", fontsize=9)
    axes.set(xlim=(-0.6, last + 2.9), ylim=(-0.4, 6.7), title="How does a text become a guess at each next token?")
    axes.axis("off")


@checked
def surprises(
    names: Sequence[str], surprise: Float[Tensor, " pos"], title: str, entropy: Float[Tensor, " pos"] | None = None
) -> Axes:
    """How much each token of a text surprised the model, in nats; `entropy` is the surprise it expected there."""
    axes = plt.subplots(figsize=(8.5, 3.1))[1]
    axes.bar(range(len(names)), surprise.tolist(), color=BLUE, label="surprise: −log p of the token that came")
    if entropy is not None:
        axes.plot(entropy.tolist(), "D-", color=ORANGE, markersize=4, label="entropy: the surprise that was expected")
        axes.legend(loc="upper right", fontsize=8)
    axes.set_xticks(range(len(names)), [visible(name) for name in names], rotation=45, ha="right", fontsize=8, **MONO)
    axes.set(title=title, ylabel="nats")
    return axes


@checked
def steps(
    names: Sequence[str], tables: Mapping[str, Float[Tensor, "dest column"]], below: str, part: Float[Tensor, " column"]
) -> Sequence[Axes]:
    """The tables of attention's steps, every number in its place, a row for each destination.

    Below the last table stands one row more, a `part` of its last row; `below` is its label.
    """
    sizes = [table.shape[1] for table in tables.values()]
    figure, panels = plt.subplots(1, len(tables), figsize=(11, 3.1), width_ratios=sizes)
    for number, (axes, (title, table)) in enumerate(zip(panels, tables.items(), strict=True), 1):
        reach = 2.2 * table[table.isfinite()].abs().max().item()
        labels = [visible(name) for name in names] if number < len(tables) else [""] * table.shape[1]
        axes.set_xticks(range(table.shape[1]), labels, rotation=40, ha="left", fontsize=8, **MONO)
        axes.xaxis.tick_top()
        rows = [visible(name) for name in names] if number == 1 else [""] * len(names)
        axes.set_yticks(range(len(names)), rows, fontsize=8, **MONO)
        for dest, row in enumerate(table):
            _numbers(axes, row, dest, reach)
        if number == len(tables):
            _numbers(axes, part, len(names) + 0.3, reach)
            axes.text(-0.65, len(names) + 0.3, below, ha="right", va="center", fontsize=8, **MONO)
        axes.set(xlim=(-0.5, table.shape[1] - 0.5), ylim=(len(names) + 0.8, -0.5), aspect="equal")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{number} · {title}", fontsize=10, pad=8)
    panels[0].set_ylabel("destination")
    figure.supxlabel("columns: sources (in the last table: the first entries of each vector)", fontsize=9)
    return list(panels)


def _numbers(axes: Axes, row: Tensor, y: float, reach: float) -> None:
    """A row of numbers, each on a ground that goes from violet at −reach to orange at reach; white for −∞."""
    ground = torch.where(row.isfinite(), row, torch.nan)[None].numpy()
    axes.imshow(ground, cmap="PuOr_r", vmin=-reach, vmax=reach, extent=(-0.5, len(row) - 0.5, y + 0.5, y - 0.5))
    for x, value in enumerate(row.tolist()):
        shown = "−∞" if value == -torch.inf else f"{value:.2f}".replace("-", "−")
        axes.text(x, y, shown, ha="center", va="center", fontsize=8.5)


@checked
def notice_tables(tables: Mapping[str, Bool[Tensor, "pos edited"]]) -> Sequence[Axes]:
    """A square for each part of a model: in column i, black where the output changed when position i was edited."""
    figure, (panels,) = plt.subplots(1, len(tables), figsize=(2.1 * len(tables), 2.9), sharey=True, squeeze=False)
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        axes.imshow(table.float().numpy(), cmap="Greys", vmin=0, vmax=1.3)
        axes.set_xticks(range(table.shape[1]), range(table.shape[1]), fontsize=8)
        axes.set_yticks(range(len(table)), range(len(table)), fontsize=8)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("edited position")
    panels[0].set_ylabel("position of the output")
    figure.suptitle("Which outputs notice an edit? (black: it changed)", fontsize=11)
    return list(panels)


@checked
def training(runs: Mapping[str, Mapping[str, Sequence[float]]], tables: Mapping[str, float], every: int) -> Axes:
    """Loss over the steps of training: "seen" at each step, "new text" each `every` steps; dotted: plain `tables`."""
    axes = plt.subplots(figsize=(8, 4))[1]
    for (name, run), colour in zip(runs.items(), (BLUE, ORANGE), strict=False):
        axes.plot(run["seen"], color=colour, alpha=0.35, linewidth=1)
        mean = torch.tensor(run["seen"]).unfold(0, 20, 1).mean(-1)
        centre = range(10, 10 + len(mean))
        axes.plot(centre, mean, color=colour, label=f"{name}: training text (faint: each step)")
        at = range(every, every * len(run["new text"]) + 1, every)
        axes.plot(at, run["new text"], "o--", color=colour, markersize=4, label=f"{name}: new text")
    for name, value in tables.items():
        axes.axhline(value, color="black", linewidth=1, linestyle=":")
        axes.text(len(run["seen"]), value + 0.05, name, fontsize=8, ha="right")
    axes.set(
        xlabel="training step",
        ylabel="loss, nats per token",
        title="How low is the loss on training text and on new text?",
    )
    axes.legend(fontsize=9, frameon=True, framealpha=1, edgecolor="none")
    return axes


@checked
def typical(texts: Mapping[str, Float[Tensor, " text"]], entropy: float) -> Axes:
    """Each text a dot at its mean surprise, a row for each way of writing; the line: the entropy along sampled ones."""
    axes = plt.subplots(figsize=(8, 3.4))[1]
    for row, (values, marker) in enumerate(zip(texts.values(), "*ovD^sP", strict=False)):
        spread = torch.linspace(-0.28, 0.28, len(values))[torch.arange(len(values)) * 7 % len(values)]
        axes.plot(values, row + spread, marker, color=COLOURS[row % 6], markersize=5, alpha=0.6, linestyle="none")
        axes.plot(
            [values.mean().item()] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2, label="mean" * (not row)
        )
    axes.axvline(entropy, color="#777777", linestyle="--")
    axes.text(entropy, -0.62, " entropy along the sampled texts", fontsize=8)
    axes.set_yticks(range(len(texts)), list(texts))
    axes.invert_yaxis()
    axes.set(xlabel="mean surprise of a text, nats per token (left: more probable)", xlim=(0, None))
    axes.set_title("Where do the texts lie that each way writes?", pad=12)
    axes.legend(loc="lower right", fontsize=8)
    return axes


@checked
def rates(table: Mapping[str, Mapping[str, float]], title: str, xlabel: str = "share of questions") -> Axes:
    """Shares as groups of bars: a group for each entry, a bar for each rule within it."""
    axes = plt.subplots(figsize=(7.5, 0.9 * len(table) + 0.9))[1]
    rules = list(next(iter(table.values())))
    for number, (rule, hatch) in enumerate(zip(rules, ("", "///", "..."), strict=False)):
        place = [group + 0.27 * (number - (len(rules) - 1) / 2) for group in range(len(table))]
        drawn = axes.barh(place, [row[rule] for row in table.values()], height=0.25, label=rule, hatch=hatch)
        axes.bar_label(drawn, fmt="{:.0%}", padding=3, fontsize=8)
    axes.set_yticks(range(len(table)), list(table))
    axes.invert_yaxis()
    axes.set(title=title, xlabel=xlabel, xlim=(0, 1.1))
    axes.legend(loc="upper right", fontsize=8)
    return axes
