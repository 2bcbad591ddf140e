"""What only lesson 05b draws: the price of a proof, pulls, needed steps, and lines made anew."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

Values = Float[Tensor, " value"]
ALT = plots.alt_texts(__file__)
BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]


def price(proofs: Mapping[str, tuple[int, float]]) -> None:
    """What each proof leaves open, as a share, against its operations, both axes logarithmic."""
    points = {name: {cost: 100 * share} for name, (cost, share) in proofs.items()}
    words = (
        "What does each proof leave open?",
        "operations",
        "lists of length 6\nnot proved right, %",
    )
    look: dict[str, Any] = {
        "xscale": "log",
        "yscale": "log",
        "xlim": (1e6, 1e14),
        "ylim": (1e-6, 400),
        "legend": False,
    }
    axes = plots.curves(
        points, *words, lines=False, markers=True, size=8, figsize=(8.8, 4.4), **look
    )
    for name, (cost, share) in proofs.items():
        still = f"{100 * share:.2g} % open" if share > 1e-6 else "only errors open"
        # the last point's name ends above it
        away, side = ((6, 9), "right") if cost > 1e9 else ((9, -4), "left")
        said = f"{name}: {_short(cost)}, {still}"
        axes.annotate(said, (cost, 100 * share), away, textcoords="offset points", ha=side)
    axes.set_yticks([1e-6, 1e-4, 0.01, 1, 100], ["0.000001", "0.0001", "0.01", "1", "100"])
    axes.minorticks_off()
    plots.show(ALT["price" if len(proofs) == 3 else "price_of_four"])


def _short(count: int) -> str:
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:,}"


def beside(allowed: Sequence[int], exact: Sequence[int]) -> None:
    """For each largest value, how far below it the largest of the others must lie.

    Given how many of the smallest may be beside it, by the line and by a line that is exact.
    """
    words = (
        "How far below M must the runner-up lie?",
        "largest number M",
        "M less its largest runner-up",
    )
    below = {
        "by the line": [M - many + 1 for M, many in enumerate(allowed)],
        "by the line, if it were exact": [M - many + 1 for M, many in enumerate(exact)],
    }
    look: dict[str, Any] = {"figsize": (8.8, 3.6), "ylim": (0, 9)}
    axes = plots.curves(below, *words, markers=True, size=4, **look)
    M = len(allowed) // 4
    note = f"beside {M}, up to {allowed[M] - 1}"
    at = (M, below["by the line"][M])
    axes.annotate(note, at, (M - 7, at[1] + 1.3), arrowprops={"arrowstyle": "->"})
    axes.legend(ncols=2, loc="upper right")
    plots.show(ALT["beside"])


def queries(by_value: Values, with_position: Values, named: Sequence[int]) -> None:
    """How strongly each query asks for larger keys, alone and with its position.

    Alone means by its embedding; some are named.
    """
    pulls = {"by its number alone": by_value, "with its position, length 6": with_position}
    words = "How strongly does each query pull?", "last number", "f, score per mean step"
    room = min(0, float(by_value.min())) - 0.35, None
    axes = plots.curves(
        pulls, *words, lines=False, markers=True, size=4, figsize=(8.8, 4), ylim=room
    )
    axes.axhline(0, color="black", lw=0.8)
    for value in named:
        axes.annotate(
            str(value),
            (value, float(by_value[value])),
            (0, -11),
            textcoords="offset points",
            ha="center",
        )
    axes.legend(ncols=2)
    plots.show(ALT["queries"])


def needed(need: Values, step: Values, errors: Int[Tensor, " value"]) -> None:
    """Each largest value by the step that it needs and the step that it has.

    Values with errors are larger for more of them, and the three with most are named.
    """
    _, axes = plt.subplots(figsize=(8.8, 5))
    most = float(torch.cat([need, step]).max()) + 0.1
    axes.plot([0, most], [0, most], "--", color="black", lw=1, label="as long as needed")
    right = errors == 0
    axes.plot(need[right], step[right], "o", color=BLUE, alpha=0.8, label="never wrong")
    sizes = 25 + 225 * errors[~right] / errors.max()
    name = "sometimes wrong, larger on more lists"
    look: dict[str, Any] = {"color": ORANGE, "alpha": 0.7, "label": name, "zorder": 3}
    axes.scatter(need[~right], step[~right], sizes, marker="D", **look)
    for at in errors.argsort(descending=True)[:3].tolist():
        words: dict[str, Any] = {"textcoords": "offset points", "ha": "left"}
        said = f"{at + 1}: {int(errors[at]):,} lists"
        axes.annotate(said, (float(need[at]), float(step[at])), (11, -4), **words)
    axes.set(xlim=(0, most), ylim=(0, most), title="Which steps are too short?")
    axes.set(xlabel="step that the number needs", ylabel="step that it has (a mean step is 1)")
    axes.legend(loc="upper left")
    plots.show(ALT["needed"])


def remade(errors: Mapping[str, int]) -> None:
    """The wrong lists of length 6 with each line, on a logarithmic scale."""
    _, axes = plt.subplots(figsize=(8.8, 3.6))
    names, counts = [*errors], [*errors.values()]
    colours = [ORANGE if "trained" in name else BLUE for name in names]
    shown = [max(count, 1) for count in counts]
    axes.hlines(range(len(names)), 1, shown, color=colours, lw=1.5)
    for row, (count, place) in enumerate(zip(counts, shown, strict=True)):
        marker = "D" if "trained" in names[row] else "o"
        axes.plot(place, row, marker, color=colours[row], ms=8)
        axes.text(place * 1.3, row, f"{count:,}", va="center")
    axes.set_yticks(range(len(names)), names)
    axes.set(xscale="log", xlim=(1, 3e6), xlabel="wrong lists of length 6")
    axes.set_title("How many lists does each line get wrong?")
    axes.set_ylim(len(names) - 0.6, -0.4)
    plots.show(ALT["remade"])


draws_in_style(__name__)
