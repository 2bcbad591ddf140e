"""What only lesson 05b draws: the price of a proof, needed steps, and lines made anew."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
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
        still = f"{100 * share:.2g} % open"
        if share < 1e-6:
            still = f"{100 * share:.6f} %, all errors"
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


def needed(need: Values, step: Values, errors: Int[Tensor, " value"]) -> None:
    """Each largest value by the step that it needs and the step that it has.

    Values with errors are larger for more of them, and the three with most are named.
    """
    _, axes = plt.subplots(figsize=(8.8, 6.4))
    ends = 1.05 * float(step.max()), 1.05 * float(need.max())
    axes.axline((0, 0), slope=1, ls="--", color="black", lw=1, label="as long as needed")
    right = errors == 0
    axes.plot(step[right], need[right], "o", color=BLUE, alpha=0.8, label="never wrong")
    sizes = 25 + 225 * errors[~right] / errors.max()
    name = "sometimes wrong, larger on more lists"
    look: dict[str, Any] = {"color": ORANGE, "alpha": 0.7, "label": name, "zorder": 3}
    axes.scatter(step[~right], need[~right], sizes, marker="D", **look)
    for at in errors.argsort(descending=True)[:3].tolist():
        place = float(step[at]), float(need[at])
        # left of the mark, or below it where the edge is near
        away, side = ((-11, -2), "right") if place[0] > 0.35 else ((0, -25), "center")
        said = f"{at + 1}: {int(errors[at]):,}"
        axes.annotate(said, place, away, textcoords="offset points", ha=side)
    axes.set(xlim=(0, ends[0]), ylim=(0, ends[1]), title="Which steps are too short?")
    axes.set(xlabel="step that it has (a mean step is 1)", ylabel="step that the number needs")
    axes.set_aspect("equal")
    axes.legend(loc="lower right")
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
