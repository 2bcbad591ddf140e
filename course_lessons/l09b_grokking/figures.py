"""What only lesson 09b draws: learning late, and what grows meanwhile and when."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

BLUE, ORANGE, WAVES, GREY = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[6]
ALT = plots.alt_texts(__file__)


def _guessing(axes: Axes, end: int) -> None:
    axes.axhline(math.log(53), color=GREY, lw=0.8, ls=":")
    axes.text(end, math.log(53), "guessing", ha="right", va="bottom", fontsize=9)


def learning(
    runs: Mapping[str, Sequence[Mapping]], until: int | None = None, waves: bool = False
) -> None:
    """Losses of runs over the steps, a panel for each group.

    `until` hides what is later, `waves` adds key waves.
    """
    panels = plots.panels(runs, (max(8.8, 4.4 * len(runs)), 3.9), "training step", "loss, nats")
    for axes, group in panels:
        lines = [(run, "test_loss", ORANGE, "-", "new pairs") for run in group]
        # all seeds learn these alike
        lines += [(group[0], "train_loss", BLUE, "--", "training pairs")]
        lines += [
            (run, "restricted_loss", WAVES, "-.", "key waves alone, new pairs")
            for run in group
            if waves
        ]
        for run, name, colour, dash, label in lines:
            at = range(0, (run["steps"] if until is None else until) + 1, run["every"])
            axes.plot(
                at,
                run[name][: len(at)],
                color=colour,
                ls=dash,
                label=label if run is group[0] else None,
            )
        _guessing(axes, group[0]["steps"])
        axes.set(yscale="log", xlim=(0, group[0]["steps"]), ylim=(1e-4, 100))
        axes.minorticks_off()
    panels[-1][0].legend(loc="lower right", fontsize=9)


def progress(steps: Sequence[int], losses: Mapping[str, Float[Tensor, " _time"]]) -> None:
    """Losses over the steps of training, one line for each part of the logits."""
    says = "What grows while nothing seems to happen?", "training step", "loss, nats"
    axes = plots.curves(
        losses, *says, x=steps, legend=False, figsize=(8.8, 5.0), ylim=(0, 16), xlim=(0, steps[-1])
    )
    # as in the other figures: orange the whole model on new pairs, then its key waves
    for line, colour in zip(axes.lines, (ORANGE, WAVES, *COLOURS[3:]), strict=False):
        line.set_color(colour)
    axes.legend()
    _guessing(axes, steps[-1])


def dates(first: Sequence[int], last: Sequence[int], names: tuple[str, str]) -> None:
    """Two steps of training for each seed, joined by a line, seeds below each other."""
    _, axes = plt.subplots(figsize=(8.8, 3.4))
    rows = range(len(first))
    axes.hlines(rows, first, last, color=GREY, lw=1)
    for steps, marker, colour, name in zip(
        (first, last), "os", (WAVES, ORANGE), names, strict=True
    ):
        axes.plot(steps, rows, marker, ms=9, color=colour, label=name)
    axes.set(
        title="When is each ahead of every control?",
        xlabel="last step at which a control is as good",
        xlim=(0, None),
    )
    axes.set_yticks(rows, [f"seed {row}" for row in rows])
    axes.invert_yaxis()
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


draws_in_style(__name__)
