"""What only lesson 06b draws: two paths, a virtual head, orders of paths, tables of scores."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.colors import TwoSlopeNorm
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, HATCHES, Pattern, written

ALT = plots.alt_texts(__file__)
Scores = Mapping[str, Float[Tensor, "head0 head1"]]  # of each mode


def cuts(rises: Mapping[str, float]) -> None:
    """By how much the loss rises, in nats, for each way to cut head 0.5 out of keys."""
    axes = plt.subplots(figsize=(8, 0.9 + 0.45 * len(rises)))[1]
    colours = [COLOURS[1] if name.startswith("the sum") else COLOURS[0] for name in rises]
    drawn = axes.barh(list(rises), [float(nats) for nats in rises.values()], color=colours)
    axes.bar_label(drawn, fmt=written, padding=4)
    axes.invert_yaxis()
    axes.set(title="What does it cost to cut head 0.5?", xlabel="rise of the loss, in nats")
    axes.set_xlim(0, 0.6)


def logit_and_loss(logit: Mapping[str, float], loss: Mapping[str, float]) -> None:
    """The logit of one token and the loss at it, in nats, with nothing cut and after each cut."""
    _, panels = plt.subplots(1, 2, figsize=(8.8, 3.4))
    titles = "logit of mp, in nats", "loss at mp, in nats"
    for axes, title, values, spec in zip(
        panels, titles, (logit, loss), (".1f", ".2f"), strict=True
    ):
        heights = [float(value) for value in values.values()]
        drawn = axes.bar(list(values), heights, color=COLOURS[0])
        axes.bar_label(drawn, [written(height, spec) for height in heights], padding=2)
        axes.set(title=title, xlabel="0.5 out of the keys of")
        axes.margins(y=0.15)


def patterns(shown: Mapping[str, Pattern], tokens: Sequence[str]) -> None:
    """Attention patterns side by side, one for each title, tokens on both axes."""
    for axes, pattern in plots.panels(shown, (8.8, 3.7), "source", "destination"):
        axes.imshow(pattern, cmap="Blues", vmin=0, vmax=1.7)
        for set_ticks in (axes.set_xticks, axes.set_yticks):
            set_ticks(range(len(tokens)), tokens, family="monospace", parse_math=False)
        axes.tick_params(length=0, labelleft=True)
        axes.set_xticks([i + 0.5 for i in range(len(tokens) - 1)], minor=True)
        axes.set_yticks([i + 0.5 for i in range(len(tokens) - 1)], minor=True)
        axes.grid(which="minor", color="white", lw=1.5)


def score_tables(scores: Scores, d_model: int) -> None:
    """Composition scores in units of chance, a table for each door.

    1 is white, more is red, less is blue.
    """
    tables = {
        f"{mode}-composition": (score * d_model**0.5).numpy() for mode, score in scores.items()
    }
    pale = TwoSlopeNorm(1, vmin=-1, vmax=6)
    for axes, times in plots.panels(tables, (8.8, 3.7), "later head", "earlier head"):
        axes.imshow(times, cmap="RdBu_r", norm=pale, aspect="auto")
        for (row, column), value in np.ndenumerate(times):
            is_far = abs(value - 1) > 0.5
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9}
            look["weight"] = "bold" if is_far else "normal"
            axes.text(column, row, written(float(value), ".1f"), **look)
        for set_ticks, layer, n in zip(
            (axes.set_yticks, axes.set_xticks), (0, 1), times.shape, strict=True
        ):
            set_ticks(range(n), [f"{layer}.{head}" for head in range(n)])
    plt.suptitle("Scores in units of chance: red above, blue below")


def shut_doors(rises: Mapping[str, Sequence[float]], title: str) -> None:
    """By how much the loss rises at queries, keys and values, a bar for each way to replace."""
    axes = plt.subplots(figsize=(8.8, 3.8))[1]
    places = ["queries", "keys", "values"]
    unit = "rise of the loss, in nats"
    plots.grouped_bars(rises, places, title, unit, numbers=True, axes=axes)
    for number in axes.texts:
        number.set_fontsize(9)
    axes.margins(y=0.12)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="instead")


def orders(losses: Mapping[str, float]) -> None:
    """The loss as steps down: each of the `losses`, in nats, is reached from the one before it."""
    _, axes = plt.subplots(figsize=(8.8, 3.6))
    values = list(losses.values())
    for step, (before, after) in enumerate(itertools.pairwise(values), 1):
        axes.bar(
            step,
            before - after,
            width=0.6,
            bottom=after,
            color=COLOURS[step - 1],
            hatch=HATCHES[step - 1],
        )
        axes.plot([step - 1.3, step + 0.3], [before, before], color="black", lw=0.8)
        axes.text(step + 0.34, (before + after) / 2, f"−{before - after:.2f}", va="center")
    ends = axes.bar([0, len(values)], [values[0], values[-1]], width=0.6, color="#9a9a9a")
    axes.bar_label(ends, fmt="%.2f")
    axes.set_xticks(range(len(values) + 1), [*losses, "the model"])
    axes.set(title="What does each order of paths take off the loss?", ylabel="loss, in nats")
    axes.margins(y=0.1)
    plots.show("The loss goes down in three steps: direct path, single heads, virtual heads.")


draws_in_style(__name__)
