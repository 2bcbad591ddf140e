"""What only lesson 04b draws: a head's three-token table, a rank-one schematic, prices, parts of the score, entries."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # lines are told apart without colours


@checked
def tables(panels: Mapping[str, Float[Tensor, "dest out"]], dests: Sequence[str], outs: Sequence[str]) -> None:
    """Small tables of destinations against outs side by side, the number in each cell; 0 and below are white."""
    _, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 3.2))
    for one, (title, table) in zip(axes, panels.items(), strict=True):
        drawn = one.imshow(table, aspect="auto", cmap="Blues", vmin=0)
        for (i, j), value in ((divmod(n, table.shape[1]), v) for n, v in enumerate(table.flatten().tolist())):
            red, green, blue, _ = drawn.cmap(drawn.norm(value))
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            one.text(j, i, _short(value), ha="center", va="center", fontsize=10, color="white" if dark else "black")
        one.set_xticks(range(len(outs)), outs, rotation=15, family="monospace", parse_math=False)
        one.set_yticks(range(len(dests)), dests, family="monospace", parse_math=False)
        one.set_title(title)
        one.spines[:].set_visible(False)


def _short(value: float) -> str:
    if value == round(value) or abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.2g}" if abs(value) >= 0.01 else "< 0.01"


@checked
def rank_one(
    looks: Float[Tensor, " dest"], says: Float[Tensor, " out"], dests: Sequence[str], outs: Sequence[str]
) -> None:
    """A schematic: attention down the side, effects along the top, and their products in the table."""
    _, axes = plt.subplots(figsize=(9, 3.4))
    for i, (name, look) in enumerate(zip(dests, looks.tolist(), strict=True)):
        axes.text(-1.5, -i, f"{name}  {look:g}", ha="right", va="center", family="monospace", parse_math=False)
        for j, say in enumerate(says.tolist()):
            box = {"boxstyle": "round,pad=0.5", "facecolor": "#fbe9df", "edgecolor": COLOURS[1]}
            axes.text(2 * j, -i, f"{look:g} · {say:g} = {look * say:g}", ha="center", va="center", bbox=box)
    for j, (name, say) in enumerate(zip(outs, says.tolist(), strict=True)):
        axes.text(2 * j, 0.8, f"{name}  {say:+g}", ha="center", va="center", family="monospace", parse_math=False)
    axes.text(-1.5, 0.8, "attention × effect", ha="right", va="center", fontsize=9)
    axes.set(xlim=(-4, 2 * len(outs) - 0.8), ylim=(-len(dests) + 0.3, 1.3))
    axes.axis("off")


@checked
def above_optimum(results: Mapping[str, Sequence[float]], title: str, highlight: Sequence[str]) -> Axes:
    """Bars of mean losses above the optimum, with a dot for each run."""
    _, axes = plt.subplots(figsize=(10, 1 + 0.45 * len(results)))
    for row, (name, values) in enumerate(results.items()):
        chosen = name in highlight
        mean = sum(values) / len(values)
        axes.barh(row, mean, color=COLOURS[chosen], hatch="//" if chosen else "", edgecolor="white")
        axes.scatter(list(values), [row] * len(values), color="black", s=8, zorder=3)
        axes.annotate(f"{mean:.2f}", (max(values), row), (6, -4), textcoords="offset points")
    axes.set_yticks(range(len(results)), list(results))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set(title=title, xlabel="nats above the optimum (dots: single runs)")
    return axes


@checked
def stacked(parts: Mapping[str, Sequence[float]], title: str, unit: str) -> Axes:
    """For each head one bar made of several parts, told apart by hatching as well as by colour."""
    _, axes = plt.subplots(figsize=(10, 4.2))
    n = len(next(iter(parts.values())))
    bottom = [0.0] * n
    for i, (name, values) in enumerate(parts.items()):
        hatch = ("", "//", "..")[i % 3]
        axes.bar(range(n), list(values), bottom=bottom, label=name, hatch=hatch, edgecolor="white")
        bottom = [b + v for b, v in zip(bottom, values, strict=True)]
    axes.set_xticks(range(n), [f"0.{h}" for h in range(n)])
    axes.set(title=title, xlabel="head", ylabel=unit)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return axes


@checked
def entries(losses: Mapping[str, Sequence[float]], shares: Sequence[float], lines: Mapping[str, float]) -> Axes:
    """The loss against the share of entries kept, one line for each way to choose them, and levels to compare with."""
    _, axes = plt.subplots(figsize=(10, 4.8))
    for marker, (name, values) in zip(MARKERS, losses.items(), strict=False):
        axes.plot([100 * share for share in shares], list(values), marker=marker, label=name)
    for style, (name, level) in zip(("--", "-.", ":"), lines.items(), strict=False):
        axes.axhline(level, color=COLOURS[6], linestyle=style, label=name)
    axes.set_xscale("log")
    axes.set_xticks([100 * share for share in shares], [f"{share:.2%}".replace(".00", "") for share in shares])
    axes.minorticks_off()
    axes.set(title="How many entries does it take?", xlabel="entries kept of each of seven OV tables")
    axes.set_ylabel("nats per token")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return axes
