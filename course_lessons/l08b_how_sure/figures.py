"""What only lesson 08b draws: dates of curves, laws, and a detour."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, LINES, MARKERS, written

BLUE, ORANGE, PLUM = COLOURS[:3]
ALT = plots.alt_texts(__file__)


def orders(
    found: Mapping[str, Sequence[Sequence[float]]], shares: Sequence[float], title: str
) -> None:
    """The step at which a share of each curve's rise is made.

    A line is the median run, the shade around it the range of all.
    """
    percent = [100 * share for share in shares]
    _, axes = plt.subplots(figsize=(8.4, 3.8))
    for i, (name, runs) in enumerate(found.items()):  # runs: [run][share]
        style: Any = {"color": COLOURS[i], "ls": LINES[i], "marker": MARKERS[i], "ms": 5}
        axes.plot(percent, np.median(runs, 0), label=name, **style)
        low, high = np.min(runs, 0), np.max(runs, 0)
        axes.fill_between(percent, low, high, color=COLOURS[i], alpha=0.1, lw=0)
        for edge in (low, high):
            axes.plot(percent, edge, color=COLOURS[i], lw=0.7, alpha=0.8)
    axes.set(title=title, xlabel="share of the rise, %", ylabel="step", ylim=(100, 400))
    axes.set_xticks(percent)
    axes.legend(loc="upper left")


def law(
    points: Mapping[str, tuple[Sequence[tuple[float, float]], Sequence[tuple[float, float]]]],
    fitted: Mapping[str, float],
    laws: Mapping[str, Mapping[str, float]],
) -> None:
    """Steps against sizes, logarithmic: a large dot for each size, a small one for each run.

    Lines are the exponent that fits best, and published ones, through the middle of the large dots.
    """
    _, panels = plt.subplots(1, len(points), figsize=(8.8, 3.8), sharey=True, layout="constrained")
    papers = {
        paper: i for i, paper in enumerate(dict.fromkeys(n for by in laws.values() for n in by))
    }
    for axes, (name, (runs, made)) in zip(panels, points.items(), strict=True):
        axes.plot(*zip(*runs, strict=True), "o", color=BLUE, ms=4, alpha=0.35, mew=0)
        sizes, times = np.transpose(made)
        centre, ends = np.exp(np.log(made).mean(0)), np.array([min(sizes), max(sizes)])
        for label, k in {"our fit": fitted[name], **laws[name]}.items():
            i = papers.get(label, -1) + 1
            style: Any = {"color": ("black", ORANGE, PLUM)[i], "ls": LINES[i]}
            label = f"{label}: {written(k, '+.2f')}"
            axes.plot(ends, centre[1] * (ends / centre[0]) ** k, label=label, **style)
        axes.plot(sizes, times, "o", color=BLUE, ms=8)
        unit = {"context": "tokens a document", "batch": "documents a batch"}[name]
        axes.set(xscale="log", yscale="log", xlabel=unit, title=f"The {name} size", ylim=(120, 600))
        axes.minorticks_off()
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.legend(fontsize=9)
    panels[0].set_ylabel("steps to half of the gain")
    panels[0].set_yticks([150, 200, 300, 400, 500], ["150", "200", "300", "400", "500"])


def _arches(
    tokens: str, height: float, top: float, arches: Sequence[tuple[float, float, float, str, str]]
) -> Axes:
    """Letters in boxes, and squared arrows between them.

    An arrow is from, to, how high (below the row if negative), words and colour.
    """
    _, axes = plt.subplots(figsize=(8.8, height))
    for x, token in enumerate(tokens):
        drawings.box(axes, x, 0, token, "#eeeeee" if token == "·" else "white")
    for start, end, high, words, colour in arches:
        foot, align = (0.3, "bottom") if high > 0 else (-0.3, "top")
        axes.plot([start, start, end, end], [foot, high, high, 1.4 * foot], color=colour, lw=2)
        drawings.arrow(axes, (end, high), (end, foot), colour)
        axes.text(
            (start + end) / 2, 1.06 * high, words, ha="center", va=align, fontsize=9, color=colour
        )
    axes.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-1.6, top))
    axes.axis("off")
    return axes


def detour() -> None:
    """A drawing: two heads of layer 0 bring A and B to one place, and layer 1 takes both there."""
    over = (
        (0, 8, 1.0, "one head, 8 back: brings A", BLUE),
        (1, 8, 1.75, "another head, 7 back: brings B", PLUM),
    )
    below = 15, 8, -1.0, "layer 1 looks here: the match finds the A, the copy takes the B", ORANGE
    axes = _arches("ABCDEFGH·······A?", 3.2, 2.4, [*over, below])
    axes.text(16, 0.55, "B", ha="center", va="center", fontsize=12, weight="bold", color=ORANGE)


draws_in_style(__name__)
