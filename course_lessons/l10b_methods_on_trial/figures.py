"""What only lesson 10b draws: programs as arrows, how methods rank doors, an estimate's worth."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lessons import drawings
from course_lessons.l10b_methods_on_trial.trial import Scored
from course_lessons.programs import Program
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.interventions import Door
from course_utils.plots import COLOURS

BLUE, ORANGE, GREY = *COLOURS[:2], COLOURS[6]
UNREAD, UNREACHED = "#bbbbbb", "#eeeeee"
ALT = plots.alt_texts(__file__)


def arrows(named: Mapping[str, Program]) -> None:
    """Programs as heads and arrows, a panel each; at an arrow stands the door that it goes through.

    Grey are heads on which nothing depends that is said, orange those that take something away.
    """
    layers = [len(program.layers) for program in named.values()]
    half = (len(named) + 1) // 2
    tall = [max(layers[:half]) + 0.9, max(layers[half:]) + 0.9]  # of each row of panels
    _, every = plt.subplots(2, half, figsize=(8.8, 4.6), height_ratios=tall)
    for n, (axes, (name, program)) in enumerate(zip(every.flat, named.items(), strict=True)):
        needed, at = program.reads(), _places(program)
        out = (1.5, float(layers[n]))
        for reader, head in program.heads.items():
            colour = UNREAD if reader not in needed else ORANGE if head.loud < 0 else BLUE
            looks = {"q": {term.here for term in head.look.terms}}
            looks |= {"k": {term.there for term in head.look.terms}, "v": set(head.moves)}
            for writer, other in program.heads.items():
                written = set(other.moves.values())
                earlier = program.layer[writer] < program.layer[reader]
                letters = [door for door, slots in looks.items() if earlier and slots & written]
                if letters:
                    _joined(axes, at[writer], at[reader], colour, ", ".join(letters))
            if "out" in head.moves.values():
                _joined(axes, at[reader], out, colour)
        for label, (x, y) in at.items():
            drawings.box(axes, x, y, label, "white" if label in needed else UNREACHED)
        drawings.box(axes, *out, "out", "#ffe9d6")
        axes.set(xlim=(-0.2, 3.2), ylim=(-0.45, tall[n // half] - 0.45), title=name)
        axes.axis("off")
        for text in axes.texts:
            text.set_fontsize(8)


def _places(program: Program) -> dict[str, tuple[float, float]]:
    """Where each head stands: a layer is a row, from below."""
    places: dict[str, tuple[float, float]] = {}
    for layer, heads in enumerate(program.layers):
        across = np.linspace(0.3, 2.7, 2 * len(heads) + 1)[1::2]
        places |= {head: (float(x), float(layer)) for head, x in zip(heads, across, strict=True)}
    return places


def _joined(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, letters: str = ""
) -> None:
    """An arrow from head to head, and the letter of the door beside its middle."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 9, "shrinkB": 11}
    axes.annotate("", end, start, arrowprops=style, zorder=0)
    if letters:
        x, y = (np.array(start) + np.array(end)) / 2
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.text(x, y, letters, ha="center", va="center", color=colour, bbox=ground)


def board(tried: Scored, programs: Iterable[str]) -> None:
    """How each method ranks the doors of each program, with each metric: one table.

    Hatched: no door can be shown by a single patch.
    """
    names, rows = [*programs], [f"{method}, {metric}" for method, metric in tried]
    scores = torch.stack([one.nanmean(1) for one in tried.values()])  # [row, program]
    _, axes = plt.subplots(figsize=(8.8, 0.9 + 0.34 * len(rows)))
    title = "How well does each method rank the doors of the boxes?"
    look: dict[str, Any] = {"bar": False, "axes": axes, "colours": "Blues"}
    plots.heatmap(scores.nan_to_num(0), rows, names, title, limit=1.0, **look)
    axes.images[0].set_clim(0, 2.2)  # light enough for numbers in black
    for (row, column), score in np.ndenumerate(scores.numpy()):
        if np.isnan(score):
            style: dict[str, Any] = {"facecolor": UNREACHED, "edgecolor": "#999999", "lw": 0}
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, hatch="////", **style))
        else:
            said = plots.written(float(score))
            axes.text(column, row, said, ha="center", va="center", fontsize=9)
    methods = [method for method, _ in tried]
    for row in range(1, len(rows)):
        if methods[row] != methods[row - 1]:
            axes.axhline(row - 0.5, color="black", lw=0.8)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("hatched: no door that a single patch can show", labelpad=8)


def estimates(
    costs: Mapping[str, Mapping[Door, float]], guesses: Mapping[str, Mapping[Door, float]]
) -> None:
    """Each door's cost and the gradient's estimate of it: a panel for each metric."""
    _, panels = plt.subplots(1, len(costs), figsize=(8.8, 4.0))
    for name, axes in zip(costs, panels, strict=True):
        x, y = ([table[name][door] for door in costs[name]] for table in (costs, guesses))
        axes.scatter(x, y, 22, color=BLUE, alpha=0.5, linewidths=0)
        ends = [min(x), max(x)]
        axes.plot(ends, ends, "--", color=GREY, label="estimate = cost")
        axes.set(title=f"metric: {name}", xlabel="what patching costs, nats")
        axes.legend(loc="upper left")
    panels[0].set_ylabel("what the gradient says, nats")


draws_in_style(__name__)
