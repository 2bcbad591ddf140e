"""What only lesson 09c draws: features as arrows and what they cost each other, neurons on text."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.colors
import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, MARKERS
from course_utils.text import visible

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]
Stars = Float[Tensor, "model feature 2"]
Planes = Mapping[str, Float[Tensor, "_feature 2"]]
Fires = Float[Tensor, " place"]
ALT = plots.alt_texts(__file__)


def _arrow(axes: Axes, feature: int, end: Sequence[float], named_at: Sequence[float]) -> None:
    arrow = {
        "arrowstyle": "-|>",
        "color": COLOURS[feature % len(COLOURS)],
        "lw": 2,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    axes.annotate("", (end[0], end[1]), (0, 0), arrowprops=arrow)
    if math.hypot(*named_at) > 0.5:
        axes.text(1.2 * named_at[0], 1.2 * named_at[1], str(feature), ha="center", va="center")


def arrows(W: Stars, titles: Sequence[str]) -> None:
    """Each feature as an arrow from the centre of a plane, one panel for each model.

    Those next to 0 are not named.
    """
    rows = -(-len(W) // 3)
    for axes, directions in plots.panels(
        dict(zip(titles, W, strict=True)), (8.8, 3.8 * rows), rows=rows
    ):
        axes.add_patch(plt.Circle((0, 0), 1, fill=False, color=GREY, lw=0.6))
        for feature, end in enumerate(directions.tolist()):
            _arrow(axes, feature, end, end)
        missing = int((directions.norm(dim=1) <= 0.5).sum())
        axes.text(0, -1.9, f"{missing or 'none'} left out", ha="center")
        axes.set(xlim=(-1.7, 1.7), ylim=(-2.0, 1.6), aspect="equal")
        axes.axis("off")


def diagram(
    W: Float[Tensor, "density count 2"],
    densities: Sequence[float],
    counts: Sequence[float],
    guess: str,
) -> None:
    """What one dimension keeps of two features, by density and by how much the second counts.

    Densities are rows; a guess lies on it.
    """
    kept = W.abs() > 0.5
    table = kept[..., 0].int() + 2 * kept[..., 1].int()  # 1 the first, 2 the second, 3 both
    axes = plt.subplots(figsize=(8.4, 4.0))[1]
    axes.imshow(
        table,
        matplotlib.colors.ListedColormap(["white", "#c6dbef", "#fdd0a2", "#74c476"]),
        aspect="auto",
        vmin=0,
        vmax=3,
    )
    mine = [row.split() for row in guess.strip().splitlines()]
    for i, row in enumerate(table.tolist()):
        for j, what in enumerate(row):
            said = mine[i][j] if i < len(mine) and j < len(mine[i]) else "?"
            axes.text(
                j,
                i,
                f"{('none', 'first', 'second', 'both')[what]}\n(you: {said})",
                ha="center",
                va="center",
            )
    axes.set_xticks(range(len(counts)), map("{:g}".format, counts))
    axes.set_yticks(range(len(densities)), [f"{density:.0%}" for density in densities])
    says = (
        "What does one dimension keep of two features?",
        "how much the second counts (the first: 1)",
        "density",
    )
    axes.set(title=says[0], xlabel=says[1], ylabel=says[2])


def children(likes: Mapping[str, Mapping[str, Float[Tensor, " child"]]]) -> None:
    """For each child, the cosine of the best unit with it, and with child and parent together."""
    _, panels = plt.subplots(1, len(likes), figsize=(8.8, 3.8), sharey=True)
    for axes, (title, ends) in zip(panels, likes.items(), strict=True):
        for i, (name, cosines) in enumerate(ends.items()):
            axes.plot(range(1, 10), cosines, MARKERS[i], color=COLOURS[i], ms=8, label=name)
        axes.set(title=title, xlabel="child", xticks=range(1, 10), ylim=(0, 1.05))
    panels[0].set_ylabel("cosine of the best unit with …")
    panels[0].legend(loc="lower right", fontsize=10)


def codes(left: Mapping[str, Sequence[float]], kinds: Sequence[str]) -> None:
    """The variance that the best codes of two units leave, for each dictionary and each kind."""
    axes = plt.subplots(figsize=(8.4, 3.8))[1]
    says = "The best that two units can do", "share of variance left over"
    plots.grouped_bars(left, kinds, *says, axes=axes)
    drawn: Any = axes.containers
    for bars in drawn:
        axes.bar_label(bars, fmt="%.2f", fontsize=11)
    axes.set_ylim(0, 0.3)
    axes.legend(loc="upper center", ncols=3, fontsize=10.5)


def cut(before: Planes, after: Planes, values: Mapping[str, Float[Tensor, " _feature"]]) -> None:
    """Directions before and after feature 0 was cut out, and what each feature comes back as.

    Before is dotted.
    """
    _, panels = plt.subplots(
        2, len(before), figsize=(4.4 * len(before), 6.2), squeeze=False, height_ratios=[1.3, 1]
    )
    for (upper, lower), (title, directions) in zip(panels.T, before.items(), strict=True):
        for i, (old, new) in enumerate(
            zip(directions.tolist(), after[title].tolist(), strict=True)
        ):
            upper.plot([0, old[0]], [0, old[1]], color=COLOURS[i % len(COLOURS)], ls=":")
            _arrow(upper, i, new, old)
        upper.set(title=title, xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal")
        upper.axis("off")
        said = {f"feature {i}": value for i, value in enumerate(values[title].tolist())}
        plots.bars(said, "", "comes back, if it is active, as", axes=lower).set_xlim(0, 1.2)


def squeeze() -> None:
    """The toy: five features, two dimensions, five read back with the same directions.

    One feature is active.
    """
    _, axes = plt.subplots(figsize=(8.8, 2.9))
    for i, y in enumerate((2.2, 1.65, 1.1, 0.55, 0.0)):
        line, inside, text, width = (
            (ORANGE, ORANGE, "white", 2) if i == 3 else (GREY, "white", "black", 0.7)
        )
        for middle in (1.6, 0.6):
            axes.plot(
                [0.6, 4.0, 7.4], [y, middle, y], color=line, lw=width, zorder=width, aa=i == 3
            )
        axes.plot([0.6, 7.4], [y, y], "o", ms=17, color=inside, mec=line, zorder=3)
        for x in (0.6, 7.4):
            axes.text(x, y, str(i), ha="center", va="center", color=text, zorder=4)
    axes.plot([4.0, 4.0], [1.6, 0.6], "s", ms=19, color="white", mec="black", zorder=3)
    words = {
        "x: five features": (0.6, 2.6),
        "h: two dimensions": (4.0, 2.6),
        "what is read back": (7.4, 2.6),
    }
    words |= {"W": (2.3, -0.4), "$W^T$, + b, ReLU": (5.7, -0.4)}
    for said, (x, y) in words.items():
        axes.text(x, y, said, ha="center", va="bottom", fontsize=12)
    axes.set(xlim=(-0.5, 8.5), ylim=(-0.5, 2.9))
    axes.axis("off")


LETTERS = 96  # in a line of an example


def _line(axes: Axes, row: float, words: Sequence[str], fires: Fires, place: int) -> None:
    """Text with the token at `place` in the middle, framed.

    A token's ground and underline are as strong as it fires.
    """
    shown, strength = [visible(word) for word in words], fires.clamp(min=0) / fires.max()
    start = place
    while start > 0 and len("".join(shown[start - 1 : place])) <= 0.62 * LETTERS:
        start -= 1
    middle = 0.62 * LETTERS
    left = middle - len("".join(shown[start:place]))
    look: Any = {
        "ha": "center",
        "va": "center",
        "family": "monospace",
        "fontsize": 10.5,
        "parse_math": False,
    }
    for token, share in zip(shown[start:], strength[start:].tolist(), strict=True):
        if (right := left + len(token)) > LETTERS:
            break
        axes.add_patch(
            plt.Rectangle(
                (left, row - 0.42), len(token), 0.84, color=ORANGE, alpha=0.75 * share, lw=0
            )
        )
        if share > 0.05:
            axes.plot(
                [left, right], [row + 0.44] * 2, color="black", lw=4 * share, solid_capstyle="butt"
            )
        for k, letter in enumerate(token):
            axes.text(left + k + 0.5, row, letter, **look)
        if left == middle:
            frame = plt.Rectangle((left, row - 0.46), len(token), 0.94, fill=False, lw=1.3)
            axes.add_patch(frame)
        left = right


def examples(words: Sequence[str], fires: Fires, where: Sequence[int], title: str) -> None:
    """Pieces of a text around some places, below each other.

    Ground and underline show how strongly a neuron fires.
    """
    _, axes = plt.subplots(figsize=(8.8, 0.4 + 0.38 * len(where)))
    for row, place in enumerate(where):
        _line(axes, row, words, fires, place)
    axes.set(xlim=(0, LETTERS), ylim=(len(where) - 0.3, -0.7), title=title)
    axes.axis("off")


draws_in_style(__name__)
