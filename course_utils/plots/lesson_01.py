"""What only lesson 01 draws: the machine, attention in four steps, who notices an edit, training, typical texts."""

from collections.abc import Mapping, Sequence
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
    _box(axes, last / 2, 2.1, last + 0.6, "attention: the only part that reads other columns", ORANGE)
    for x in range(last):
        look = {"arrowstyle": "-|>", "color": ORANGE, "lw": 1.5, "connectionstyle": "arc3,rad=-0.25"}
        axes.annotate("", (last - 0.06, 2.85), (x, 2.35), arrowprops=look)
    notes = {
        -0.05: "tokens  [batch, pos]",
        0.9: "+ $W_{pos}$: where it stands",
        1.5: "the stream  [batch, pos, d_model]",
        2.1: "heads add what they fetched",
        3.0: "the stream",
        3.9: "adds what it made of it",
        4.55: "the stream",
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
def steps(names: Sequence[str], tables: Mapping[str, Float[Tensor, "dest column"]]) -> Sequence[Axes]:
    """The tables of attention's steps side by side, every number in its place; a row for each destination."""
    sizes = [table.shape[1] for table in tables.values()]
    figure, panels = plt.subplots(1, len(tables), figsize=(11, 2.6), width_ratios=sizes)
    for number, (axes, (title, table)) in enumerate(zip(panels, tables.items(), strict=True), 1):
        seen = table.isfinite()
        reach = table[seen].abs().max().item()
        axes.imshow(torch.where(seen, table, torch.nan).numpy(), cmap="PuOr_r", vmin=-2.2 * reach, vmax=2.2 * reach)
        for dest, row in enumerate(table.tolist()):
            for column, value in enumerate(row):
                shown = "−∞" if value == -torch.inf else f"{value:.2f}".replace("-", "−")
                axes.text(column, dest, shown, ha="center", va="center", fontsize=8.5)
        labels = [visible(name) for name in names] if number < len(tables) else [""] * table.shape[1]
        axes.set_xticks(range(table.shape[1]), labels, rotation=40, ha="right", fontsize=8, **MONO)
        rows = [visible(name) for name in names] if number == 1 else [""] * len(names)
        axes.set_yticks(range(len(names)), rows, fontsize=8, **MONO)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{number} · {title}", fontsize=10)
    panels[0].set_ylabel("destination")
    figure.supxlabel("source (in the last table: the first entries of each vector)", fontsize=9)
    return list(panels)


@checked
def notice_tables(tables: Mapping[str, Bool[Tensor, "pos edited"]]) -> Sequence[Axes]:
    """A square for each part of a model: in column i, black where the output changed when position i was edited."""
    _, (panels,) = plt.subplots(1, len(tables), figsize=(2.1 * len(tables), 2.6), sharey=True, squeeze=False)
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        axes.imshow(table.float().numpy(), cmap="Greys", vmin=0, vmax=1.3)
        axes.set_xticks(range(table.shape[1]), range(table.shape[1]), fontsize=8)
        axes.set_yticks(range(len(table)), range(len(table)), fontsize=8)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("edited position")
    panels[0].set_ylabel("who notices")
    return list(panels)


@checked
def training(runs: Mapping[str, Mapping[str, Sequence[float]]], tables: Mapping[str, float], every: int) -> Axes:
    """Loss over the steps of training: "seen" at each step, "new text" each `every` steps; dotted: plain `tables`."""
    axes = plt.subplots(figsize=(8, 4))[1]
    for (name, run), colour in zip(runs.items(), (BLUE, ORANGE), strict=False):
        axes.plot(run["seen"], color=colour, alpha=0.35, linewidth=1)
        mean = torch.tensor(run["seen"]).unfold(0, 20, 1).mean(-1)
        centre = range(10, 10 + len(mean))
        axes.plot(centre, mean, color=colour, label=f"{name}: what it learns from (faint: each step)")
        at = range(every, every * len(run["new text"]) + 1, every)
        axes.plot(at, run["new text"], "o--", color=colour, markersize=4, label=f"{name}: new text")
    for name, value in tables.items():
        axes.axhline(value, color="black", linewidth=1, linestyle=":")
        axes.text(len(run["seen"]), value + 0.05, name, fontsize=8, ha="right")
    axes.set(xlabel="training step", ylabel="loss, nats per token", title="What does it learn, and what of new text?")
    axes.legend(fontsize=9, frameon=True, framealpha=1, edgecolor="none")
    return axes


@checked
def typical(texts: Mapping[str, Float[Tensor, " text"]], entropy: float) -> Axes:
    """Each text a dot at its mean surprise, a row for each way of writing; the line is the mean entropy."""
    axes = plt.subplots(figsize=(8, 3.4))[1]
    for row, (values, marker) in enumerate(zip(texts.values(), "*ovD^sP", strict=False)):
        spread = torch.linspace(-0.28, 0.28, len(values))[torch.arange(len(values)) * 7 % len(values)]
        axes.plot(values, row + spread, marker, color=COLOURS[row % 6], markersize=5, alpha=0.6, linestyle="none")
        axes.plot(
            [values.mean().item()] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2, label="mean" * (not row)
        )
    axes.axvline(entropy, color="#777777", linestyle="--")
    axes.text(entropy, -0.62, " the entropy: the surprise that the model expects", fontsize=8)
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
        place = [group + 0.27 * (number - 1) for group in range(len(table))]
        drawn = axes.barh(place, [row[rule] for row in table.values()], height=0.25, label=rule, hatch=hatch)
        axes.bar_label(drawn, fmt="{:.0%}", padding=3, fontsize=8)
    axes.set_yticks(range(len(table)), list(table))
    axes.invert_yaxis()
    axes.set(title=title, xlabel=xlabel, xlim=(0, 1.1))
    axes.legend(loc="upper right", fontsize=8)
    return axes
