"""Who looks where in a sealed model, at a glance: the heads that have a clear place to look at."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils._style import draws_in_style

Patterns = Float[Tensor, "layer head dest src"]  # mean over some texts
CLEAR = 0.3  # the attention that makes a place clear; spread evenly it is at most 0.25 in any box


def clear(patterns: Patterns) -> dict[str, Float[Tensor, "dest src"]]:
    """The heads that give much attention to one distance, or to the start token, by name.

    The mean over destinations counts, of all or of those in the first half, as in a block that is
    read for the first time.
    """
    found = {}
    half = (patterns.shape[-1] + 1) // 2
    for layer, of_layer in enumerate(patterns):
        for head, pattern in enumerate(of_layer):
            shares = [pattern[half:, 0].mean()]
            for back in range(1, half):
                diagonal = pattern.diagonal(-back)[1:]  # without the start token
                shares += [diagonal.mean(), diagonal[: half - 1].mean()]
            if max(shares) > CLEAR:
                found[f"{layer}.{head}"] = pattern
    return found


def board(by_box: Mapping[str, Patterns], title: str) -> None:
    """A row for each box, with the mean patterns of those heads that have a clear place."""
    shown = {name: clear(patterns) for name, patterns in by_box.items()}
    columns = max(map(len, shown.values()))
    side = min(2.1, 8.2 / columns)  # of a panel, in inches
    size = side * columns + 0.4, side * len(shown) + 0.9
    figure, grid = plt.subplots(len(shown), columns, figsize=size, squeeze=False)
    for row, (name, of_box) in zip(grid, shown.items(), strict=True):
        for axes in row[len(of_box) :]:
            axes.axis("off")
        for axes, (head, pattern) in zip(row, of_box.items(), strict=False):
            _panel(axes, f"{name}: {head}" if len(shown) > 1 else head, pattern)
        row[0].set(ylabel="destination")
    for axes in grid[-1]:
        axes.set(xlabel="source")
    image = grid[0, 0].images[0]
    figure.colorbar(
        image, ax=[*grid.flat], label="attention, mean", shrink=0.8 / len(shown), pad=0.02
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)


def _panel(axes: Axes, title: str, pattern: Float[Tensor, "dest src"]) -> None:
    """One head's mean pattern."""
    axes.imshow(pattern, cmap="Blues", vmin=0, vmax=1)
    ticks = range(0, len(pattern), 8)
    axes.set_title(title, fontsize=11)
    axes.set(xticks=ticks, yticks=ticks)


draws_in_style(__name__)
