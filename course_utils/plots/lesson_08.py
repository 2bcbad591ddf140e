"""What only lesson 08 draws: models while they learn, when events came, where heads look, clamps and shams."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Bool, Int
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS, LINES, MARKERS

BLUE, ORANGE, GREEN, GREY = *COLOURS[:3], COLOURS[6]
Curves = Sequence[Sequence[float]]


@checked
def many(steps: Sequence[float], curves: Curves, title: str, unit: str, until: float | None = None) -> Axes:
    """One thin line per run; what comes after `until` is covered."""
    _, axes = plt.subplots(figsize=(8.4, 3))
    for curve in curves:
        shown = [(x, y) for x, y in zip(steps, curve, strict=True) if until is None or x <= until]
        axes.plot(*zip(*shown, strict=True), color=BLUE, lw=1, alpha=0.6)
    top = 1.1 * max(max(curve) for curve in curves)
    if until is not None:
        axes.axvspan(until, steps[-1], facecolor="#eeeeee", edgecolor=GREY, hatch="//", lw=0)
        axes.text((until + steps[-1]) / 2, top / 2, "?", fontsize=40, ha="center", va="center")
    axes.set(title=title, xlabel="step", ylabel=unit, xlim=(0, steps[-1]), ylim=(-0.1 * top, top))
    return axes


@checked
def document(tokens: Int[Tensor, " pos"], known: Bool[Tensor, " pos-1"], a_row: int = 32) -> Axes:
    """A document as boxes in rows; what memory could have known is filled and has a bold number."""
    rows = -(-len(tokens) // a_row)
    _, axes = plt.subplots(figsize=(9.6, 0.5 + 0.5 * rows))
    for i, token in enumerate(tokens.tolist()):
        x, y, hit = i % a_row, -(i // a_row), bool(i and known[i - 1])
        style: Any = {"facecolor": "#ffd9b8" if hit else "white", "edgecolor": ORANGE if hit else "#cccccc"}
        axes.add_patch(FancyBboxPatch((x - 0.36, y - 0.3), 0.72, 0.6, boxstyle="round,pad=0.06", **style))
        weight = "bold" if hit else "normal"
        axes.text(x, y, str(token), ha="center", va="center", fontsize=8, fontweight=weight)
    axes.set(xlim=(-0.7, a_row - 0.3), ylim=(0.6 - rows, 0.6))
    axes.axis("off")
    return axes


@checked
def watched(panels: np.ndarray, history: list[dict], table: float, steps: float) -> None:
    """Losses on the left, the scores of all heads on the right; `table` is the loss of a bigram table."""
    made = [row["step"] for row in history]
    left, right = panels
    left.clear()
    right.clear()
    for i, (name, key) in enumerate({"documents": "held_out_loss", "random, repeated": "second_pass_loss"}.items()):
        left.plot(made, [row[key] for row in history], LINES[i], color=COLOURS[i], label=name)
    left.axhline(table, color=GREY, linestyle=":", label="bigram table")
    left.set(title="Loss", xlabel="step", ylabel="nats per token", xlim=(0, steps), ylim=(0, 4.6))
    for layer, key in enumerate(("previous_token", "prefix_matching")):
        for head, score in enumerate(zip(*[row[key][layer] for row in history], strict=True)):
            label = f"{key.replace('_', ' ')}, layer {layer}" if head == 0 else None
            right.plot(made, score, LINES[layer], color=COLOURS[2 + layer], label=label)
            if score[-1] > 0.15 and made[-1] >= steps:
                right.text(made[-1], score[-1], f" {layer}.{head}", fontsize=8, va="center")
    right.set(title="Scores, one line per head", xlabel="step", xlim=(0, steps), ylim=(0, 1))
    left.legend(loc="lower left")
    right.legend(loc="upper left")


@checked
def events(times: Mapping[str, Sequence[float]], title: str) -> Axes:
    """When each event came: a row each, a mark per run, and a bar at the median."""
    _, axes = plt.subplots(figsize=(8.4, 0.9 + 0.38 * len(times)))
    for row, (name, found) in enumerate(times.items()):
        came = np.sort([time for time in found if time == time])
        spread = row + 0.26 * (np.arange(len(came)) % 3 - 1)
        axes.plot(came, spread, MARKERS[row % 7], color=COLOURS[row % 7], ms=4, alpha=0.7, label=name)
        axes.plot([np.median(came)] * 2, [row - 0.42, row + 0.42], color="black", lw=2)
    axes.set_yticks(range(len(times)), list(times))
    axes.invert_yaxis()
    axes.set(title=title, xlabel="step at which half of the rise was made")
    return axes


@checked
def medians(
    steps: Sequence[float], groups: Mapping[str, Curves], title: str, unit: str, axes: Axes | None = None
) -> Axes:
    """The median over runs of each group of curves, with a band from the lowest run to the highest."""
    axes = axes or plt.subplots()[1]
    for i, (name, curves) in enumerate(groups.items()):
        values = np.array(curves)  # (run, step)
        axes.fill_between(steps, values.min(0), values.max(0), color=COLOURS[i], alpha=0.15, lw=0)
        axes.plot(steps, np.median(values, 0), LINES[i], color=COLOURS[i], label=name)
    axes.set(title=title, xlabel="step", ylabel=unit)
    axes.legend(fontsize=8)
    return axes


@checked
def distances(groups: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str) -> Axes:
    """For each language how often a copy stands how far back (left), and what always guessing so far back saves."""
    _, panels = plt.subplots(1, 2, figsize=(9.6, 3))
    for i, (name, both) in enumerate(groups.items()):
        for axes, values in zip(panels, both, strict=True):
            at = range(1, len(values) + 1)
            axes.plot(at, values, LINES[i], marker=MARKERS[i], ms=4, color=COLOURS[i], label=name)
    panels[0].set(title=title, xlabel="distance, in tokens", ylabel="share of predictable tokens, %")
    panels[1].set(title="What a guess at that distance saves", xlabel="distance", ylabel="nats per token")
    panels[0].legend()
    return panels[0]


@checked
def looking_back(groups: Mapping[str, Sequence[Sequence[float]]], title: str) -> Axes:
    """Where layer 0 looks: for each group a panel, a row per run, a column per place back; the best head each."""
    sizes = [len(rows) for rows in groups.values()]
    figure, panels = plt.subplots(1, len(groups), figsize=(9.6, 0.9 + 0.16 * max(sizes)), squeeze=False)
    for axes, (name, rows) in zip(panels[0], groups.items(), strict=True):
        drawn = axes.imshow(np.array(rows), aspect="auto", vmin=0, vmax=1, cmap="viridis")
        axes.set(title=name, xlabel="places back")
        axes.set_xticks(range(0, len(rows[0]), 2))
        axes.set_yticks([0, len(rows) - 1], ["1", str(len(rows))])
    panels[0, 0].set_ylabel("seed")
    figure.colorbar(drawn, ax=panels[0], label="attention, best head")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return panels[0, 0]


@checked
def diagonals(groups: Mapping[str, tuple[Curves, Sequence[float]]], title: str) -> Axes:
    """A panel for each language: attention to the previous token by destination, and how many readers a key has."""
    _, panels = plt.subplots(1, len(groups), figsize=(9.6, 3), sharey=True, squeeze=False)
    for axes, (name, (curves, readers)) in zip(panels[0], groups.items(), strict=True):
        for curve in curves:
            line = axes.plot(range(1, len(curve) + 1), curve, color=BLUE, lw=1, alpha=0.7)[0]
        line.set_label("attention to the token before, a line per run")
        axes.plot(range(len(readers)), readers, "--", color=ORANGE, lw=2, label="later tokens that repeat this one")
        axes.set(title=name, xlabel="position")
    panels[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(0, 0.28))
    panels[0, 0].get_figure().suptitle(title, x=0.01, ha="left", fontsize=11)
    return panels[0, 0]


@checked
def clamp(held: str = "match") -> Axes:
    """A drawing of the idea: a model in training, a finished one, and the part that the finished one does for it."""
    _, axes = plt.subplots(figsize=(8.8, 2.7))
    parts = {"look": "where layer 0\nlooks", "match": "what layer 1\nlooks for", "copy": "what layer 1\nwrites"}
    for y, who in ((1.6, "in training"), (0, "finished")):
        axes.text(-0.3, y, who, ha="right", va="center")
        for x, (name, words) in enumerate(parts.items()):
            off = name == held and y > 0
            style: Any = {
                "facecolor": "#eeeeee" if off else "#ffe9d6" if name == held else "white",
                "edgecolor": "black",
            }
            style["linestyle"] = "--" if off else "-"
            axes.add_patch(FancyBboxPatch((2.3 * x, y - 0.4), 1.6, 0.8, boxstyle="round,pad=0.06", **style))
            label = f"{name}: {words}"
            axes.text(2.3 * x + 0.8, y, label, ha="center", va="center", fontsize=9, color=GREY if off else "black")
    arrow = {"arrowstyle": "-|>", "lw": 2, "color": "#a34700"}
    at = 2.3 * list(parts).index(held) + 0.8
    axes.annotate("", (at, 1.1), (at, 0.5), arrowprops=arrow)
    axes.text(at + 0.12, 0.8, "takes its place, at every step", va="center", fontsize=9, color="#a34700")
    axes.text(6.5, 1.6, "→ logits → loss → gradient", va="center", fontsize=9)
    axes.text(6.5, 0, "never changes", va="center", fontsize=9)
    axes.set(xlim=(-1.9, 9.6), ylim=(-0.6, 2.3))
    axes.axis("off")
    return axes


@checked
def forward(rows: Mapping[str, Sequence[float]], never: Mapping[str, int], title: str, last: float) -> Axes:
    """How many steps earlier (left) or later each arm got there, a mark per seed; an arrow where some never did."""
    _, axes = plt.subplots(figsize=(8.8, 0.9 + 0.33 * len(rows)))
    axes.axvline(0, color="black", lw=1)
    for row, (name, differences) in enumerate(rows.items()):
        mean = sum(differences) / len(differences)
        colour = BLUE if mean < -25 else ORANGE if mean > 25 else GREY
        mark = "<" if mean < -25 else ">" if mean > 25 else "o"
        axes.plot(differences, [row] * len(differences), mark, color=colour, ms=6, alpha=0.6)
        axes.plot([mean] * 2, [row - 0.35, row + 0.35], color="black", lw=2)
        if never.get(name):
            words = f"never: {never[name]} of {len(differences)}"
            axes.text(1.02 * last, row, words, ha="left", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.margins(y=0.06)
    axes.set(title=title, xlabel="steps, beside the same seed unaltered", xlim=(-last * 1.1, last * 1.45))
    marks = [Line2D([], [], marker=m, color=c, ls="") for m, c in (("<", BLUE), ("o", GREY), (">", ORANGE))]
    axes.legend(marks, ["earlier", "within 25 steps", "later"], loc="upper right", fontsize=8)
    return axes


@checked
def takeovers(values: Mapping[str, Sequence[float]], title: str, unit: str) -> Axes:
    """A row for each way to lose a head, a mark per seed and a bar at the mean."""
    _, axes = plt.subplots(figsize=(8.4, 0.9 + 0.4 * len(values)))
    for row, found in enumerate(values.values()):
        axes.barh(row, sum(found) / len(found), color=COLOURS[row], alpha=0.35, height=0.6)
        axes.plot(found, [row] * len(found), MARKERS[row], color=COLOURS[row], ms=5)
    axes.set_yticks(range(len(values)), list(values))
    axes.invert_yaxis()
    axes.set(title=title, xlabel=unit)
    return axes


@checked
def shares_of_rise(steps: Sequence[float], curves: Mapping[str, Sequence[float]], title: str) -> Axes:
    """Curves as shares of their own rise, on a logarithmic axis, from the second measurement on."""
    _, axes = plt.subplots(figsize=(8.4, 3.2))
    for i, (name, curve) in enumerate(curves.items()):
        final = sum(curve[-4:]) / 4
        shown: list[Any] = [(value - curve[0]) / (final - curve[0]) for value in curve]
        axes.plot(steps[1:], shown[1:], LINES[i], color=COLOURS[i], label=name)
    axes.axhline(0.5, color=GREY, lw=1)
    axes.set(xscale="log", title=title, xlabel="step (logarithmic)", ylabel="share of the rise", ylim=(-0.2, 1.6))
    axes.legend(loc="upper left", fontsize=8)
    return axes
