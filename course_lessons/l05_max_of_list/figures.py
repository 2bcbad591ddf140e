"""What only lesson 05 draws: the number line, the votes, and where the errors are."""

import itertools
from collections.abc import Sequence
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
SHOWN = 8  # numbers below the largest in its table of parts


def two_jobs(numbers: Sequence[int]) -> None:
    """A drawing of the idea.

    A place on a line gives each number its weight, and it votes for its own name.
    """
    axes = plt.subplots(figsize=(8.8, 3.8))[1]
    where = 0.3 + 3.2 * torch.tensor(numbers) / max(numbers)
    weight = (2 * where).softmax(0)
    axes.annotate("", (3.9, 0), (0, 0), arrowprops={"arrowstyle": "->", "color": GREY})
    axes.text(0, 2.5, "1 · weigh: a place on a line;\nfurther right, a higher score", va="top")
    axes.text(6.8, 1.4, "2 · say: a name;\neach number votes\nfor its own", va="top")
    axes.text(1.2, 1.15, "the softmax turns\nscores into weights", ha="center", color=BLUE)
    axes.plot(where, 0 * where, "o", color=BLUE, ms=7)
    axes.bar(where, 1.6 * weight, 0.14, 0.15, color=BLUE, alpha=0.35)
    for row, (place, number, share) in enumerate(
        zip(where.tolist(), numbers, weight.tolist(), strict=True)
    ):
        axes.text(place, -0.22, str(number), ha="center", va="top")
        thick = {
            "arrowstyle": "->",
            "connectionstyle": "arc3,rad=-0.15",
            "color": ORANGE,
            "lw": 0.4 + 3 * share,
        }
        axes.annotate("", (5.9, 0.1 + 0.65 * row), (place, 0.2 + 1.6 * share), arrowprops=thick)
        axes.text(
            6.0, 0.1 + 0.65 * row, str(number), color=ORANGE, fontsize=9 + 9 * share, va="center"
        )
    axes.set(xlim=(-0.1, 8.6), ylim=(-0.6, 2.6))
    axes.axis("off")
    plots.show(ALT["two_jobs"])


def ballots(
    cases: Sequence[Sequence[int]], parts: Sequence[Float[Tensor, " _pos"]], titles: Sequence[str]
) -> None:
    """What each position, and all, give the largest value minus the value below, for each list.

    The longest bar has length 1.
    """
    shown = dict(zip(titles, zip(cases, parts, strict=True), strict=True))
    unit = "votes for the largest, minus votes\nfor the one below (longest = 1)"
    for axes, (numbers, given) in plots.panels(shown, (8.8, 4), "number at each position", unit):
        heights = (given / given.abs().max()).tolist()
        colours = [ORANGE if number == max(numbers) else BLUE for number in numbers]
        axes.bar(range(len(numbers) + 1), [*heights, sum(heights)], color=[*colours, GREY])
        axes.set_xticks(range(len(numbers) + 1), [*map(str, numbers), "sum"])
        axes.axhline(0, color="black", lw=0.8)
    ends = [
        f"{title}, {'ahead' if part.sum() > 0 else 'behind'}"
        for part, title in zip(parts, titles, strict=True)
    ]
    plots.show(
        f"{len(cases)} bar charts of the votes in a list, and their sum. "
        f"The largest: {'; '.join(ends)}."
    )


def parts_of_margin(parts: Float[Tensor, "pos value"], last: float) -> None:
    """What the highest values at each position add to the margin of the largest, and the `last`.

    The most is 1. The worst have boxes, the cheapest swap a dashed one.
    """
    n, M = parts.shape[0], parts.shape[1] - 1
    shown = torch.full((n + 1, M + 1), torch.nan)  # grey: other values than the last one's
    shown[:n], shown[n, M - 1] = parts, last
    shown = shown[:, M - SHOWN :] / parts.abs().max()
    names = [*map(str, range(n)), "last"], [*map(str, range(M - SHOWN, M + 1))]
    words = (
        f"What does each number add to the margin of {M} over {M - 1}?",
        "position",
        "number there (largest part = 1; nothing written: below 0.05)",
    )
    axes, limit = plt.subplots(figsize=(8.8, 3.4))[1], 1.8  # so that boxes are seen on the darkest
    look: dict[str, Any] = {"centred": True, "numbers_from": 0.05, "bar": False}
    plots.heatmap(shown, *names, *words, axes=axes, limit=limit, **look).set_facecolor("#dddddd")
    swap = int((parts[:, M] - parts.amin(1)).argmin())
    worst = [(place, int(parts[place].argmin()), "-") for place in range(n)]
    for place, value, style in [*worst, (swap, M, "--")]:
        corner = (value - (M - SHOWN) - 0.47, place - 0.45)
        axes.add_patch(plt.Rectangle(corner, 0.94, 0.9, fill=False, ls=style, lw=2))
    plots.show(ALT["parts_of_margin"])


def tables(
    left: Float[Tensor, "query key"], right: Float[Tensor, "query key"], titles: Sequence[str]
) -> None:
    """Two tables of scores side by side on one scale, row-centred beforehand."""
    limit = float(torch.stack([left, right]).abs().max())
    both = dict(zip(titles, (left, right), strict=True))
    for axes, table in plots.panels(both, (8.8, 4.4), "number at the source", "last number"):
        drawn = axes.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    plt.colorbar(drawn, ax=axes.figure.axes, label="score, row-centred")
    plots.show(ALT["tables"])


def line(g: Values, title: str, errors: Int[Tensor, " value"] | None = None) -> None:
    """Each value at its place on the number line, in three rows that are cut at wide steps.

    Those with errors are orange, under a bar as high as their errors; the highest are numbered.
    """
    tall = errors is not None
    _, panels = plt.subplots(3, 1, figsize=(8.8, 6 if tall else 4.2))
    count = torch.zeros(len(g), dtype=torch.long) if errors is None else errors
    most = max(int(count.max()), 1)
    pieces = _cut(g, len(panels))
    width = max(float(g[piece].max() - g[piece].min()) for piece in pieces) + 1.2
    for axes, piece in zip(panels, pieces, strict=True):
        left, right = float(g[piece].min()) - 0.6, float(g[piece].max()) + 0.6
        axes.plot([left, right], [0, 0], color=GREY, lw=0.8, zorder=0)
        for value in piece:
            place, wrong = float(g[value]), int(count[value])
            colour, marker, weight = (ORANGE, "D", "bold") if wrong else (BLUE, "o", "normal")
            axes.plot(place, 0, alpha=0.7, ms=5, color=colour, marker=marker)
            below = (0, -8 if value % 2 else -20)  # in points, on two levels
            said = {"xytext": below, "textcoords": "offset points", "ha": "center", "va": "top"}
            axes.annotate(str(value), (place, 0), fontsize=9, fontweight=weight, **said)
            axes.bar(place, wrong / most, 0.16, color=ORANGE)
            if wrong and value in count.topk(4).indices:
                axes.text(place, wrong / most + 0.04, f"{wrong:,}", ha="center", fontsize=9)
        top, bottom = (1.25, -0.75) if tall else (0.5, -1)
        axes.set(xlim=(left, left + width), ylim=(bottom, top), yticks=[])
        axes.set_xticks([tick for tick in range(-100, 100, 5) if left <= tick <= right])
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_bounds(left, right)
    panels[0].set_title(f"{title} (◆ has wrong lists, bars say how many)" if tall else title)
    panels[-1].set_xlabel("place on the line, g (points of score for an average query)")
    plots.show(ALT["errors" if tall else "line"].format(len(g), int(count.argmax())))


def _cut(g: Values, rows: int) -> list[list[int]]:
    """The values in rows of about equal length, cut at the widest step near each third."""
    middles, steps = (g[1:] + g[:-1]) / 2, g.diff()
    low, high = float(g.min()), float(g.max())
    cuts = []
    for row in range(1, rows):
        away = (middles - low - (high - low) * row / rows).abs()
        near = away.argsort()[:5]  # of the five nearest steps
        cuts.append(int(near[steps[near].argmax()]) + 1)
    values = list(range(len(g)))
    ends = [0, *sorted(cuts), len(g)]
    return [values[start:end] for start, end in itertools.pairwise(ends)]


draws_in_style(__name__)
