"""What only lesson 04b draws: three-token tables, bugs, heads side by side, parts of scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, HATCHES, written

ALT = plots.alt_texts(__file__)
Numbers = Float[Tensor, " n"]


def tables(
    panels: Mapping[str, Float[Tensor, "dest out"]], dests: Sequence[str], outs: Sequence[str]
) -> None:
    """Small tables of destinations against outs side by side, the number in each cell."""
    for (axes, table), title in zip(
        plots.panels(panels, (5 * len(panels), 3.2)), panels, strict=True
    ):
        plots.heatmap(table, dests, outs, title, centred=True, numbers_from=0, bar=False, axes=axes)
        axes.set_xticks(range(len(outs)), outs, rotation=15)
        axes.set_yticks(range(len(dests)), dests)
        axes.label_outer()


def rank_one(looks: Numbers, says: Numbers, dests: Sequence[str], outs: Sequence[str]) -> None:
    """A schematic: attention down the side, effects along the top, their products in the table.

    All have one scale.
    """
    sizes = {"width_ratios": (1, len(outs)), "height_ratios": (1, len(dests))}
    _, grid = plt.subplots(2, 2, figsize=(9, 4), gridspec_kw=sizes)
    effects = [[written(say, "+g") for say in says.tolist()]]
    attention = [[f"{look:g}"] for look in looks.tolist()]
    said = [
        [f"{look:g} · {say:g} = {look * say:.2g}" for say in says.tolist()]
        for look in looks.tolist()
    ]
    for axes, values, words, title, colour in (
        (grid[0, 1], says[None], effects, "what keep says: its effect", COLOURS[1]),
        (grid[1, 0], looks[:, None], attention, "who looks: attention", COLOURS[0]),
        (
            grid[1, 1],
            torch.outer(looks, says),
            said,
            "what the head adds: attention × effect",
            COLOURS[2],
        ),
    ):
        white_to_colour = LinearSegmentedColormap.from_list("", ["white", colour])
        axes.imshow(values, aspect="auto", cmap=white_to_colour, vmin=0, vmax=1.6 * values.max())
        for i, row in enumerate(words):
            for j, word in enumerate(row):
                axes.text(j, i, word, ha="center", va="center", fontsize=11)
        axes.set_title(title)
        axes.set_xticks(range(len(words[0])), outs if len(words[0]) > 1 else [], family="monospace")
        axes.set_yticks(range(len(words)), dests if len(words) > 1 else [], family="monospace")
    grid[0, 0].axis("off")


def above_optimum(results: Mapping[str, Sequence[float]], title: str) -> None:
    """Bars of mean losses above the optimum, with a dot for each run; transformers stand out."""
    means = {name: sum(values) / len(values) for name, values in results.items()}
    transformers = [name for name in results if name.startswith("transformer")]
    axes = plots.bars(means, title, "nats above the optimum (dots: single runs)", transformers)
    numbers: list[Any] = list(axes.texts)
    for row, (values, number) in enumerate(zip(results.values(), numbers, strict=True)):
        axes.scatter(list(values), [row] * len(values), color="black", s=8, zorder=3)
        number.xy = max(values), row  # beside the last dot


def by_head(
    panels: Mapping[str, Sequence[float] | Float[Tensor, " head"]], highlight: Sequence[int]
) -> None:
    """Bars for each head, in one or more panels with the same rows.

    Some heads stand out by colour and hatching.
    """
    colours, hatches = ([kind[h in highlight] for h in range(8)] for kind in (COLOURS, HATCHES))
    for axes, values in plots.panels(panels, (4.6 * len(panels) + 1, 3.4)):
        names = [f"head 0.{h}" for h in range(8)]
        drawn = axes.barh(names, [float(value) for value in values], color=colours, hatch=hatches)
        axes.bar_label(drawn, fmt="%.0f" if max(values) > 2 else "%.2f", padding=4)
        axes.margins(x=0.14)
    axes.invert_yaxis()  # of all panels: they share it


def beside(patterns: Mapping[str, Float[Tensor, "dest src"]], tokens: Sequence[str]) -> None:
    """Attention patterns on the same tokens, side by side and in one scale."""
    # the first few have little to choose from
    most = max(pattern[8:].max().item() for pattern in patterns.values())
    names = [token if len(token) < 9 else f"{token[:7]}…" for token in tokens]
    for (axes, pattern), title in zip(
        plots.panels(patterns, (5.6 * len(patterns), 5.4)), patterns, strict=True
    ):
        plots.attention(pattern, names, title, axes).images[0].set_clim(0, most)
        axes.tick_params(labelsize=8)
        axes.label_outer()


def programs(scores: Mapping[str, Float[Tensor, " head"]]) -> None:
    """For each head the share of its attention that each program foresees."""
    words = "How much of a head's attention does a program foresee?", "share foreseen", "head"
    axes = plt.subplots(figsize=(10, 3.8))[1]
    plots.grouped_bars(
        scores, [f"0.{h}" for h in range(8)], *words, numbers=True, axes=axes
    ).legend()


def pairs(table: Float[Tensor, "head head"], names: Sequence[str], first: int, title: str) -> None:
    """A table of pairs of heads with its numbers, a line behind the first few heads."""
    axes = plt.subplots(figsize=(8, 4.8))[1]
    plots.heatmap(
        table,
        names,
        names,
        title,
        "head",
        "head",
        label="nats",
        centred=True,
        numbers_from=0.005,
        axes=axes,
    )
    axes.axhline(first - 0.5, color="black")
    axes.axvline(first - 0.5, color="black")


def times(panels: Mapping[str, Mapping[str, float]], unit: str) -> None:
    """Bars of how often something came, and should have come by each account.

    There is a panel for each kind.
    """
    _, grid = plt.subplots(
        1, len(panels), figsize=(10, 0.9 + 0.38 * len(next(iter(panels.values()))))
    )
    for axes, (title, counts) in zip(grid, panels.items(), strict=True):
        plots.bars(counts, title, unit, ["came"], axes)
        for label, count in zip(axes.texts, counts.values(), strict=True):
            label.set_text(f"{count:,.0f}")


def raised(found: Mapping[str, tuple[Mapping[str, Numbers], Numbers, Numbers]]) -> None:
    """How often outs should come by each account [n], and came [n].

    There is a panel for each kind of triple.
    """
    panels = {
        title: {who: p.sum().item() for who, p in {**told, "came": came}.items()}
        for title, (told, came, _) in found.items()
    }
    times(panels, "times in the new text")


draws_in_style(__name__)
