"""What only lesson 07 draws."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS
from course_utils.text import visible

WIDTH = 112  # characters of a line


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
        box = {"facecolor": colours.to_rgba(np.clip(value, -limit, limit)), "edgecolor": "none", "pad": 1}
        axes.text(column, -line, word, family="monospace", fontsize=8.5, parse_math=False, bbox=box)
        if value < -limit / 5:
            axes.plot([column, column + len(word)], [-line - 0.22] * 2, color="black", linewidth=1)
        column += len(word)
    axes.set(xlim=(0, WIDTH), ylim=(-line - 0.6, 1), title=title)
    axes.axis("off")
    key = plt.colorbar(colours, ax=axes, label=label, boundaries=[limit * i / 50 for i in range(-50, 51)])
    key.set_ticks([-limit, 0, limit])
    return axes


@checked
def find_and_copy(
    finding: Float[Tensor, "later earlier"],
    copying: Float[Tensor, " later"],
    writer: int,
    induction: Sequence[int],
    random: tuple[Float[Tensor, " n"], Float[Tensor, " n"]],
    untrained: tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]],
) -> Axes:
    """For every pair of heads how well it finds, across, and how well the later head copies, upwards.

    The pairs with the earlier head `writer` carry the later head's name. `random` and `untrained` are the same two
    numbers of pairs that were not trained.
    """
    axes = plt.subplots(figsize=(7.5, 4.4))[1]
    axes.scatter(*random, s=8, color=COLOURS[6], alpha=0.5, label="200 random pairs")
    axes.scatter(*untrained, s=12, color="black", marker="x", label="untrained model")
    rest = [h for h in range(finding.shape[1]) if h != writer]
    axes.scatter(finding[:, rest], copying[:, None].expand(-1, len(rest)), s=18, label="other pairs")
    others = [h for h in range(len(copying)) if h not in induction]
    kinds = ((others, "other heads", COLOURS[0], "o"), (list(induction), "induction heads", COLOURS[1], "D"))
    for these, name, colour, marker in kinds:
        said = f"{name}, with 0.{writer}"
        axes.scatter(finding[these, writer], copying[these], 60, colour, marker=marker, edgecolor="black", label=said)
    for head in others:
        at = (finding[head, writer].item(), copying[head].item())
        axes.annotate(f"1.{head}", at, xytext=(0, -14), textcoords="offset points", ha="center")
    corner = (finding[induction, writer].mean().item(), copying[induction].mean().item())
    names = " and ".join(f"1.{head}" for head in induction)
    axes.annotate(names, corner, xytext=(-10, -16), textcoords="offset points", ha="center")
    axes.set(title="Finding and copying, pair by pair", ylim=(-0.6, 1.15))
    axes.set(xlabel="to find: positivity of M_K", ylabel="to copy: positivity of W_E OV W_U")
    axes.legend(loc="lower left", ncols=2, fontsize=8, columnspacing=1, handletextpad=0.2)
    return axes
