"""What only lesson 04b draws: three-token tables, bugs, heads side by side, programs, parts of the score, entries."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from course_utils import plots
from course_utils.lessons.l04b_what_reading_misses.skip_trigrams import Triples
from course_utils.plots import COLOURS, HATCHES, LINES, written
from course_utils.text import visible

ALT = plots.alt_texts(__file__)
Numbers = Float[Tensor, " n"]


def tables(panels: Mapping[str, Float[Tensor, "dest out"]], dests: Sequence[str], outs: Sequence[str]) -> None:
    """Small tables of destinations against outs side by side, the number in each cell."""
    for (axes, table), title in zip(plots.panels(panels, (5 * len(panels), 3.2)), panels, strict=True):
        plots.heatmap(table, dests, outs, title, centred=True, numbers_from=0, bar=False, axes=axes)
        axes.set_xticks(range(len(outs)), outs, rotation=15)
        axes.set_yticks(range(len(dests)), dests)
        axes.label_outer()


def rank_one(looks: Numbers, says: Numbers, dests: Sequence[str], outs: Sequence[str]) -> None:
    """A schematic: attention down the side, effects along the top, and their products in the table, in one scale."""
    sizes = {"width_ratios": (1, len(outs)), "height_ratios": (1, len(dests))}
    _, grid = plt.subplots(2, 2, figsize=(9, 4), gridspec_kw=sizes)
    effects, attention = [[written(say, "+g") for say in says.tolist()]], [[f"{look:g}"] for look in looks.tolist()]
    said = [[f"{look:g} · {say:g} = {look * say:.2g}" for say in says.tolist()] for look in looks.tolist()]
    for axes, values, words, title, colour in (
        (grid[0, 1], says[None], effects, "what keep says: its effect", COLOURS[1]),
        (grid[1, 0], looks[:, None], attention, "who looks: attention", COLOURS[0]),
        (grid[1, 1], torch.outer(looks, says), said, "what the head adds: attention × effect", COLOURS[2]),
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


def above_optimum(results: Mapping[str, Sequence[float]], title: str, highlight: Sequence[str]) -> None:
    """Bars of mean losses above the optimum, with a dot for each run."""
    means = {name: sum(values) / len(values) for name, values in results.items()}
    axes = plots.bars(means, title, "nats above the optimum (dots: single runs)", highlight)
    numbers: list[Any] = list(axes.texts)
    for row, (values, number) in enumerate(zip(results.values(), numbers, strict=True)):
        axes.scatter(list(values), [row] * len(values), color="black", s=8, zorder=3)
        number.xy = max(values), row  # beside the last dot


def stacked(parts: Mapping[str, Float[Tensor, " head"]], title: str, unit: str) -> None:
    """For each head one bar made of several parts, told apart by hatching as well as by colour."""
    axes, bottom = plt.subplots(figsize=(10, 4.2))[1], torch.zeros(())
    for (name, values), hatch in zip(parts.items(), HATCHES, strict=False):
        axes.bar(_heads(values), values.tolist(), bottom=bottom, label=name, hatch=hatch, edgecolor="white")
        bottom = bottom + values
    axes.set(title=title, xlabel="head", ylabel=unit)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def entries(losses: Mapping[str, Sequence[float]], shares: Sequence[float], lines: Mapping[str, float]) -> None:
    """The loss against the share of entries kept, one line for each way to choose them, and levels to compare with."""
    words = "How many entries does it take?", "entries kept of each of seven OV tables", "nats per token"
    axes = plots.curves(losses, *words, x=shares, markers=True, figsize=(10, 4.8), xscale="log")
    for style, (name, level) in zip(("--", "-.", ":"), lines.items(), strict=False):
        axes.axhline(level, color=COLOURS[6], linestyle=style, label=name)
    axes.set_xticks(shares, [f"{share:.2%}".replace(".00", "") for share in shares])
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def traps(triples: Triples, bugs: Bool[Tensor, "a pair"], strings: Sequence[str]) -> None:
    """The true bugs expected most often, words only so that one can read them: expected beside came."""
    is_word = torch.tensor([len(string) > 2 and string.strip().isalpha() for string in strings])
    weights = triples.expected * bugs * is_word[:, None] * is_word[triples.c]
    axes, places = plt.subplots(figsize=(10, 4.6))[1], torch.arange(8)
    a, pair = torch.unravel_index(weights.flatten().topk(8).indices, bugs.shape)
    columns = {"expected, if a made no difference": triples.expected[a, pair], "came": triples.came[a, pair]}
    for i, (name, values) in enumerate(columns.items()):
        rows = places + 0.4 * (i - 0.5)
        drawn = axes.barh(rows, values, 0.4, label=name, color=COLOURS[i], hatch=HATCHES[i])
        axes.bar_label(drawn, fmt="%.0f", padding=4)
    words = ([visible(strings[token]) for token in tokens] for tokens in (a, triples.b[pair], triples.c[pair]))
    names = [f"{x} … {y} → {z}" for x, y, z in zip(*words, strict=True)]
    axes.set_yticks(places, names, family="monospace", parse_math=False)
    axes.invert_yaxis()
    axes.legend(loc="lower right")
    axes.set(title=f"Eight of {int(bugs.sum()):,} true bugs", xlabel="times in half of the training text")


def by_head(panels: Mapping[str, Sequence[float] | Float[Tensor, " head"]], highlight: Sequence[int]) -> None:
    """Bars for each head, in one or more panels with the same rows; some heads stand out by colour and hatching."""
    colours, hatches = ([kind[h in highlight] for h in range(8)] for kind in (COLOURS, HATCHES))
    for axes, values in plots.panels(panels, (4.6 * len(panels) + 1, 3.4)):
        names = [f"head {name}" for name in _heads(values)]
        drawn = axes.barh(names, [float(value) for value in values], color=colours, hatch=hatches)
        axes.bar_label(drawn, fmt="%.0f" if max(values) > 2 else "%.2f", padding=4)
        axes.margins(x=0.14)
    axes.invert_yaxis()  # of all panels: they share it


def beside(patterns: Mapping[str, Float[Tensor, "dest src"]], tokens: Sequence[str]) -> None:
    """Attention patterns on the same tokens, side by side and in one scale."""
    most = max(pattern[8:].max().item() for pattern in patterns.values())  # the first few have little to choose from
    names = [token if len(token) < 9 else f"{token[:7]}…" for token in tokens]
    for (axes, pattern), title in zip(plots.panels(patterns, (5.6 * len(patterns), 5.4)), patterns, strict=True):
        plots.attention(pattern, names, title, axes).images[0].set_clim(0, most)
        axes.tick_params(labelsize=8)
        axes.label_outer()


def _heads(values: Sequence[float] | Float[Tensor, " head"]) -> list[str]:
    return [f"0.{h}" for h in range(len(values))]


def programs(scores: Mapping[str, Float[Tensor, " head"]]) -> None:
    """For each head the share of its attention that each program foresees."""
    words = "How much of a head's attention does a program foresee?", "share foreseen", "head"
    axes = plt.subplots(figsize=(10, 3.8))[1]
    plots.grouped_bars(scores, _heads(next(iter(scores.values()))), *words, numbers=True, axes=axes).legend()


def by_distance(attention: Mapping[str, Sequence[float] | Float[Tensor, " back"]]) -> None:
    """Attention against the distance to the source, one line for each head."""
    words = "How sharply can a head see the token before?", "tokens back", "attention, %"
    percent = {name: [100 * float(value) for value in values] for name, values in attention.items()}
    axes = plots.curves(percent, *words, markers=True, figsize=(10, 4))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def pairs(table: Float[Tensor, "head head"], names: Sequence[str], first: int, title: str) -> None:
    """A table of pairs of heads with its numbers, a line behind the first few heads."""
    axes = plt.subplots(figsize=(8, 4.8))[1]
    plots.heatmap(table, names, names, title, "head", "head", label="nats", centred=True, numbers_from=0.005, axes=axes)
    axes.axhline(first - 0.5, color="black")
    axes.axvline(first - 0.5, color="black")


def clusters(sides: Mapping[str, Float[Tensor, " token"]], strings: Sequence[str]) -> None:
    """Directions of OV tables, as sources and as outs in turn: the tokens that have most of them."""
    grid = plt.subplots(len(sides) // 2, 2, figsize=(10, 0.775 * len(sides)))[1]
    for i, (axes, (title, side)) in enumerate(zip(grid.flat, sides.items(), strict=True)):
        best = side.topk(6)
        axes.barh(range(6), best.values.tolist(), color=COLOURS[i % 2])
        names = [visible(strings[token]) for token in best.indices.tolist()]
        axes.set_yticks(range(6), names, family="monospace", fontsize=9, parse_math=False)
        axes.set(title=title, xticks=[])
        axes.invert_yaxis()


def spectra(trained: Float[Tensor, "head direction"], untrained: Float[Tensor, "head direction"]) -> None:
    """The share of each direction of a singular value decomposition in a head's table, trained and untrained."""
    _, grid = plt.subplots(2, len(trained) // 2, figsize=(10, 4.6), sharex=True)
    directions = range(1, trained.shape[1] + 1)
    for h, axes in enumerate(grid.flat):
        axes.bar(directions, (100 * trained[h]).tolist(), color=COLOURS[0], label="trained")
        axes.plot(directions, (100 * untrained[h]).tolist(), color=COLOURS[1], label="untrained")
        axes.set_title(f"head 0.{h}")
    grid[0, 0].legend()
    plt.gcf().supxlabel("direction, largest first")
    plt.gcf().supylabel("share of the squared sizes, %")


def histograms(groups: Mapping[str, Float[Tensor, " n"]], title: str, xlabel: str, ylabel: str) -> None:
    """How often values fall where, one outline for each group; a line at 0."""
    axes, together = plt.subplots(figsize=(10, 3.8))[1], torch.cat([*groups.values()])
    limits = together.min().item(), together.max().item()
    for i, (name, values) in enumerate(groups.items()):
        outline = axes.hist(values.tolist(), bins=30, range=limits, histtype="step", label=name, linewidth=2)[2]
        plt.setp(outline, linestyle=LINES[i], edgecolor=COLOURS[i])
    axes.axvline(0, color="black", linewidth=1)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.legend()
