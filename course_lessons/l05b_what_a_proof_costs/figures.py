"""What only lesson 05b draws: the price of a proof, pulls, needed steps, and lines made anew."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float
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
    """For each largest value, how many smaller ones may stand beside it.

    Three lines: all of them, those that an exact line allows, and those that the line allows.
    """
    words = (
        "How many smaller numbers may be beside the largest?",
        "largest number M",
        "smaller numbers, from 0 upwards",
    )
    axes = plt.subplots(figsize=(8.8, 4.4))[1]
    axes.plot(range(len(allowed)), ":", color=GREY, label="all that are smaller")
    plots.curves(
        {"by the line": allowed, "by the line, if it were exact": exact}, *words, axes=axes
    )
    axes.fill_between(range(len(allowed)), allowed, color=BLUE, alpha=0.15)
    M = len(allowed) // 4
    note = f"beside {M}: {allowed[M]} of {M}"
    axes.annotate(note, (M, allowed[M]), (M + 6, allowed[M] - 6), arrowprops={"arrowstyle": "->"})
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


def needed(need: Values, step: Values, wrong: Bool[Tensor, " value"]) -> None:
    """Each largest value by the step that it needs and the step that it has."""
    _, axes = plt.subplots(figsize=(8.8, 5))
    for is_wrong, name, colour, marker in (
        (False, "never wrong", BLUE, "o"),
        (True, "sometimes wrong", ORANGE, "D"),
    ):
        these = wrong == is_wrong
        axes.plot(need[these], step[these], marker, color=colour, alpha=0.8, label=name)
    most = float(torch.cat([need, step]).max()) + 0.1
    axes.plot([0, most], [0, most], "--", color="black", lw=1, label="as long as needed")
    shortest = (step / need).argsort()[:4].tolist()
    for at in shortest:
        words: dict[str, Any] = {"textcoords": "offset points", "ha": "left", "fontsize": 9}
        axes.annotate(str(at + 1), (float(need[at]), float(step[at])), (6, -4), **words)
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
    axes.invert_yaxis()
    plots.show(ALT["remade"])


draws_in_style(__name__)
