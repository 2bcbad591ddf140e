"""What only lesson 04b draws: distances, programs, the start token, small tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, MARKERS, written

ALT = plots.alt_texts(__file__)
Numbers = Float[Tensor, " n"]


def tables(
    panels: Mapping[str, Float[Tensor, "dest out"]],
    dests: Sequence[str],
    outputs: Sequence[str],
    spec: str = ".2f",
    least: float = 0,
) -> None:
    """Small tables of destinations against output tokens side by side, with their numbers.

    The right output token of each destination, on the diagonal, has a pale ground if its number is
    `least` or more.
    """
    for (axes, table), title in zip(plots.panels(panels, (8.8, 2.3)), panels, strict=True):
        marked = torch.eye(*table.shape).bool() & (table >= least)
        drawings.numbers(axes, table, dests, outputs, title, spec=spec, marked=marked)
        axes.label_outer()


def rank_one(looks: Numbers, adds: Numbers, dests: Sequence[str], outputs: Sequence[str]) -> None:
    """A schematic: attention down the side, effects along the top, their products in the table.

    All have one scale.
    """
    sizes = {"width_ratios": (1, len(outputs)), "height_ratios": (1, len(dests))}
    _, grid = plt.subplots(2, 2, figsize=(8.8, 4), gridspec_kw=sizes)
    effects = [[written(add, "+g") for add in adds.tolist()]]
    attention = [[f"{look:g}"] for look in looks.tolist()]
    said = [
        [f"{look:g} · {add:g} = {look * add:.2g}" for add in adds.tolist()]
        for look in looks.tolist()
    ]
    for axes, values, words, title, colour in (
        (grid[0, 1], adds[None], effects, "effect: what keep would add", COLOURS[1]),
        (grid[1, 0], looks[:, None], attention, "who looks: attention", COLOURS[0]),
        (
            grid[1, 1],
            torch.outer(looks, adds),
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
        axes.set_xticks(
            range(len(words[0])), outputs if len(words[0]) > 1 else [], family="monospace"
        )
        axes.set_yticks(range(len(words)), dests if len(words) > 1 else [], family="monospace")
    grid[0, 0].axis("off")


def beside(patterns: Mapping[str, Float[Tensor, "dest src"]], tokens: Sequence[str]) -> None:
    """Attention patterns on the same tokens, side by side and in one scale."""
    # the first few see little else here
    most = max(pattern[8:].max().item() for pattern in patterns.values())
    names = [token if len(token) < 9 else f"{token[:7]}…" for token in tokens]
    for (axes, pattern), title in zip(plots.panels(patterns, (8.8, 5)), patterns, strict=True):
        words: dict[str, Any] = {"ylabel": "destination", "xlabel": "source"}
        plots.heatmap(pattern, names, names, title, **words, colours="Greys", bar=False, axes=axes)
        axes.images[0].set_clim(0, most)
        axes.tick_params(labelsize=9)
        axes.label_outer()


def gains(
    changes: Mapping[str, Float[Tensor, " n"]], medians: Mapping[str, Any], rises: Mapping[str, Any]
) -> None:
    """By what factors inserted sources change an output token's probability, a dot a case.

    `changes` are in nats, `medians` are factors.
    """
    _, axes = plt.subplots(figsize=(8.8, 4.2))
    for i, (marker, (name, values)) in enumerate(zip(MARKERS, changes.items(), strict=False)):
        # side by side, to be seen
        spread = torch.linspace(-0.32, 0.32, 11).repeat(len(values))[: len(values)]
        axes.scatter(values.exp(), i + spread, s=6, marker=marker)
        axes.plot([medians[name]] * 2, [i - 0.42, i + 0.42], color="black", linewidth=2)
        said = f"likelier: {rises[name]:.0%}"
        axes.text(1.01, i, said, transform=axes.get_yaxis_transform(), va="center")
    axes.axvline(1, color=COLOURS[6], linewidth=0.8)
    title, names = "What does an inserted source do? (black: the median)", list(changes)
    axes.set(xscale="log", xlabel="factor for the output token's probability", title=title)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    plots.show(ALT["gains"])


def by_distance(
    factors: Mapping[str, Sequence[float]],
    looks: Mapping[str, Sequence[float]],
    distances: Sequence[int],
    dashed: Sequence[str],
) -> None:
    """What each head's skip-trigrams do, and what attention their sources get, by distance."""
    log: dict[str, Any] = {"xscale": "log", "xticks": distances, "xticklabels": distances}
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 4.4))
    kinds = (
        ("factor for the output token", factors, left),
        ("attention to the source", looks, right),
    )
    for title, values, axes in kinds:
        plots.curves(
            values,
            title,
            "tokens back",
            "",
            x=distances,
            markers=True,
            legend=False,
            axes=axes,
            **log,
        )
        for line in axes.lines:
            line.set_linestyle("--" if line.get_label() in dashed else "-")
        axes.minorticks_off()
    left.set_yscale("log")
    left.axhline(1, color=COLOURS[6], linewidth=0.8)
    right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plots.show(ALT["by_distance"])


def start_token(
    looks: Float[Tensor, " head"], rises: Mapping[str, Sequence[tuple[float, float]]]
) -> None:
    """The start token's share of attention by head, and by how much the loss rises, with errors."""
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.8), width_ratios=[1, 1.5])
    names = [f"0.{h}" for h in range(len(looks))]
    title = "attention to the start token"
    plots.grouped_bars({"": looks}, names, title, "share", "head", axes=left)
    means = {name: [mean for mean, _ in values] for name, values in rises.items()}
    plots.grouped_bars(means, names, "rise of the loss", "nats", "head", axes=right)
    right.set_ylim(top=1.35 * right.get_ylim()[1])
    right.legend(loc="upper left")
    drawn: Any = right.containers.copy()
    for bars, values in zip(drawn, rises.values(), strict=True):
        at = [bar.get_x() + bar.get_width() / 2 for bar in bars]
        mean, error = zip(*values, strict=True)
        right.errorbar(at, mean, error, fmt="none", color="black", lw=1)
    # bars of nothing are not seen: their numbers stand below
    right.set_ylim(bottom=-0.15)
    for bar in drawn[len(rises) - 1]:
        number = f"{abs(bar.get_height()):.2f}"
        middle = bar.get_x() + bar.get_width() / 2
        right.text(middle, -0.02, number, ha="center", va="top", fontsize=9)
    plots.show(ALT["start_token"])


draws_in_style(__name__)
