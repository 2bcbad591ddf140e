"""What only lesson 11 draws: reasons to look at a place, losses of boxes, looks on one text."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from torch import Tensor

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, LINES

ALT = plots.alt_texts(__file__)


def reasons(tokens: Sequence[str], places: Mapping[str, int]) -> None:
    """A text, and from its last token an arrow for each reason to the place that it gives."""
    axes = plt.subplots(figsize=(8.8, 3.3))[1]
    dest = len(tokens) - 1
    for x, token in enumerate(tokens):
        face = "#ffe9d6" if x == dest else "#dcebf5" if x in places.values() else "#f3f3f3"
        axes.text(
            x,
            0,
            token,
            ha="center",
            va="center",
            fontsize=13,
            bbox={"boxstyle": "square,pad=0.45", "fc": face},
        )
    axes.text(dest + 1, 0, "?", ha="center", va="center", fontsize=15, color="#a34700")
    for n, (reason, x) in enumerate(places.items()):
        height = 0.8 + 0.62 * n
        ends = x + 0.12 * (n - 1.5), dest + 0.12 * (n - 1.5)
        axes.plot(
            [ends[1], ends[1], ends[0]], [0.42, height, height], LINES[n], color=COLOURS[n], lw=1.6
        )
        drawings.arrow(axes, (ends[0], height + 0.08), (ends[0], 0.32), COLOURS[n])
        ground = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}
        # or left of it: a later arrow may come down on the right
        middle = 0.58 * ends[0] + 0.42 * ends[1]
        axes.text(
            middle,
            height + 0.25,
            reason,
            ha="center",
            va="center",
            fontsize=11,
            bbox=ground,
            zorder=5,
        )
    axes.set(xlim=(-0.7, dest + 1.5), ylim=(-0.5, 0.9 + 0.62 * len(places)))
    axes.axis("off")


def losses(by_box: Mapping[str, Float[Tensor, " pos"]], chance: float) -> None:
    """The loss of each box by position, and that of somebody who has no idea."""
    labels = (
        "Can you tell nine models apart by what they do?",
        "position of the token",
        "loss, nats",
    )
    named, n = list(by_box.items()), len(next(iter(by_box.values())))
    axes = plt.subplots(figsize=(8.6, 3.4))[1]
    # no two of them look the same
    for some, markers in ((named[: len(LINES)], False), (named[len(LINES) :], True)):
        plots.curves(dict(some), *labels, x=range(1, n + 1), markers=markers, size=4, axes=axes)
    axes.axhline(chance, color="#777777", lw=1)
    axes.text(n, chance, "no idea", ha="right", va="bottom", fontsize=11, color="#555555")
    axes.legend(ncols=3, fontsize=11, loc="lower left")


def last_looks(
    tokens: Sequence[str], rows: Mapping[str, tuple[Float[Tensor, " src"], str]]
) -> None:
    """A text for each head, shaded by its attention from the last token, and what its box says."""
    axes = plt.subplots(figsize=(8.8, 0.75 * len(rows) + 0.7))[1]
    dest = len(tokens) - 1
    shades = plt.get_cmap("Blues")
    for y, (name, (attention, said)) in enumerate(rows.items()):
        for x, token in enumerate(tokens):
            share = float(attention[x])
            axes.text(
                x,
                -y,
                token,
                ha="center",
                va="center",
                fontsize=13,
                color="white" if share > 0.6 else "black",
                bbox={"boxstyle": "square,pad=0.45", "fc": shades(0.85 * share)},
            )
        axes.text(-0.8, -y, name, ha="right", va="center", fontsize=11)
        axes.text(dest + 0.8, -y, f"says {said}", ha="left", va="center", fontsize=12)
    axes.set(xlim=(-3.4, dest + 2.4), ylim=(0.6 - len(rows), 0.9))
    axes.set_title("Where does each head look from the last letter? Darker is more.", fontsize=12)
    axes.axis("off")


draws_in_style(__name__)
