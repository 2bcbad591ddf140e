"""What only lesson 04b draws: three-token tables, bugs, heads side by side, programs, parts of the score, entries."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor
from transformer_lens import FactoredMatrix

from course_utils.lessons.l04b_what_reading_misses.skip_trigrams import Triples
from course_utils.plots import COLOURS, HATCHES, LINES, MARKERS, grouped_bars, heatmap, written
from course_utils.text import visible

ALT = {  # what the figures show, in words: here, so that no cell under a prediction prints its answer
    "rise": "Starts against ends: probabilities without head 0.7, and by how much it multiplies each.",
    "heads": "The loss above the optimum: large without a head, small with one, nearly 0 with four.",
    "price": "Two bars: of all other triples nearly as many come as expected, of true bugs far fewer.",
    "compete": "Heads 0.3 and 0.7 cost far more than all others, and look at some ten tokens.",
    "row": "The loss with the direct path alone, with one row, about half way, and with all heads.",
}


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


def rank_one(
    looks: Float[Tensor, " dest"], says: Float[Tensor, " out"], dests: Sequence[str], outs: Sequence[str]
) -> None:
    """A schematic: attention down the side, effects along the top, and their products in the table, in one scale."""
    sizes = {"width_ratios": (1, len(outs)), "height_ratios": (1, len(dests))}
    _, grid = plt.subplots(2, 2, figsize=(9, 4), gridspec_kw=sizes)
    products, effects = torch.outer(looks, says), [[written(say, "+g") for say in says.tolist()]]
    said = [[f"{look:g} · {say:g} = {look * say:.2g}" for say in says.tolist()] for look in looks.tolist()]
    parts = (
        (grid[0, 1], says[None], effects, "what keep says: its effect", COLOURS[1]),
        (grid[1, 0], looks[:, None], [[f"{look:g}"] for look in looks.tolist()], "who looks: attention", COLOURS[0]),
        (grid[1, 1], products, said, "what the head adds: attention × effect", COLOURS[2]),
    )
    for axes, values, words, title, colour in parts:
        white_to_colour = LinearSegmentedColormap.from_list("", ["white", colour])
        axes.imshow(values, aspect="auto", cmap=white_to_colour, vmin=0, vmax=1.6 * values.max())
        for i, row in enumerate(words):
            for j, word in enumerate(row):
                axes.text(j, i, word, ha="center", va="center", fontsize=11)
        axes.set_title(title)
        axes.set_xticks(range(len(words[0])), outs if len(words[0]) > 1 else [], family="monospace")
        axes.set_yticks(range(len(words)), dests if len(words) > 1 else [], family="monospace")
    grid[0, 0].axis("off")


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


def stacked(parts: Mapping[str, Float[Tensor, " head"]], title: str, unit: str) -> Axes:
    """For each head one bar made of several parts, told apart by hatching as well as by colour."""
    _, axes = plt.subplots(figsize=(10, 4.2))
    n = len(next(iter(parts.values())))
    bottom = [0.0] * n
    for i, (name, values) in enumerate(parts.items()):
        hatch = ("", "//", "..")[i % 3]
        axes.bar(range(n), values.tolist(), bottom=bottom, label=name, hatch=hatch, edgecolor="white")
        bottom = [b + v for b, v in zip(bottom, values.tolist(), strict=True)]
    axes.set_xticks(range(n), [f"0.{h}" for h in range(n)])
    axes.set(title=title, xlabel="head", ylabel=unit)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return axes


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


def traps(triples: Triples, bugs: Bool[Tensor, "a pair"], strings: Sequence[str], k: int = 8) -> Axes:
    """The true bugs expected most often, words only so that one can read them: expected beside came."""
    is_word = torch.tensor([len(string) > 2 and string.strip().isalpha() for string in strings])
    weights = triples.expected * bugs * is_word[:, None] * is_word[triples.c]
    _, axes = plt.subplots(figsize=(10, 1 + 0.45 * k))
    places, height = torch.arange(k), 0.4
    a, pair = torch.unravel_index(weights.flatten().topk(k).indices, bugs.shape)
    columns = {"expected, if a made no difference": triples.expected[a, pair], "came": triples.came[a, pair]}
    for i, (name, values) in enumerate(columns.items()):
        rows = (places + (i - 0.5) * height).tolist()
        drawn = axes.barh(rows, values.tolist(), height, label=name, color=COLOURS[i], hatch=HATCHES[i])
        axes.bar_label(drawn, fmt="%.0f", padding=4)
    names = [
        f"{visible(strings[x])} … {visible(strings[y])} → {visible(strings[z])}"
        for x, y, z in zip(a.tolist(), triples.b[pair].tolist(), triples.c[pair].tolist(), strict=True)
    ]
    axes.set_yticks(places.tolist(), names, family="monospace", parse_math=False)
    axes.invert_yaxis()
    axes.legend(loc="lower right")
    axes.set(title=f"Eight of {int(bugs.sum()):,} true bugs", xlabel="times in half of the training text")
    return axes


def by_head(panels: Mapping[str, Sequence[float] | Float[Tensor, " head"]], highlight: Sequence[int]) -> None:
    """Bars for each head, in one or more panels with the same rows; some heads stand out by colour and hatching."""
    n = len(next(iter(panels.values())))
    _, grid = plt.subplots(1, len(panels), figsize=(4.6 * len(panels) + 1, 0.8 + 0.32 * n), sharey=True, squeeze=False)
    for axes, (title, values) in zip(grid[0], panels.items(), strict=True):
        chosen = [h in highlight for h in range(n)]
        colours, hatches = [COLOURS[one] for one in chosen], [HATCHES[one] for one in chosen]
        drawn = axes.barh(range(n), [float(value) for value in values], color=colours, hatch=hatches)
        axes.bar_label(drawn, fmt="%.0f" if max(values) > 2 else "%.2f", padding=4)
        axes.margins(x=0.14)
        axes.set_title(title)
    grid[0, 0].set_yticks(range(n), [f"head 0.{h}" for h in range(n)])
    grid[0, 0].invert_yaxis()


def beside(patterns: Mapping[str, Float[Tensor, "dest src"]], tokens: Sequence[str]) -> None:
    """Attention patterns on the same tokens, side by side and in one scale."""
    _, grid = plt.subplots(1, len(patterns), figsize=(5.2 * len(patterns), 5.4), sharey=True)
    most = max(pattern[8:].max().item() for pattern in patterns.values())  # the first few have little to choose from
    names = [visible(token) if len(token) < 9 else visible(token)[:7] + "…" for token in tokens]
    for axes, (title, pattern) in zip(grid, patterns.items(), strict=True):
        axes.imshow(pattern, cmap="Blues", vmin=0, vmax=most)
        axes.set(title=title, xlabel="source")
        axes.set_xticks(range(len(names)), names, rotation=90, family="monospace", fontsize=8, parse_math=False)
        axes.set_yticks(range(len(names)), names, family="monospace", fontsize=8, parse_math=False)
    grid[0].set_ylabel("destination")


def programs(scores: Mapping[str, Float[Tensor, " head"]]) -> Axes:
    """For each head the share of its attention that each program foresees."""
    axes = plt.subplots(figsize=(10, 3.8))[1]
    names = [f"0.{h}" for h in range(len(next(iter(scores.values()))))]
    title, unit = "How much of a head's attention does a program foresee?", "share foreseen"
    grouped_bars(scores, names, title, unit, "head", numbers=True, axes=axes).legend()
    return axes


def by_distance(attention: Mapping[str, Sequence[float] | Float[Tensor, " back"]]) -> Axes:
    """Attention against the distance to the source, one line for each head."""
    _, axes = plt.subplots(figsize=(10, 4))
    for i, (name, values) in enumerate(attention.items()):
        axes.plot(range(len(values)), [100 * float(v) for v in values], LINES[i], marker=MARKERS[i], label=name)
    axes.set(title="How sharply can a head see the token before?", xlabel="tokens back", ylabel="attention, %")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return axes


def pairs(table: Float[Tensor, "head head"], names: Sequence[str], first: int, title: str) -> Axes:
    """A table of pairs of heads with its numbers, a line behind the first few heads."""
    axes = plt.subplots(figsize=(8, 4.8))[1]
    heatmap(table, names, names, title, "head", "head", label="nats", centred=True, numbers_from=0.005, axes=axes)
    axes.axhline(first - 0.5, color="black")
    axes.axvline(first - 0.5, color="black")
    return axes


def clusters(
    factored: Sequence[FactoredMatrix],
    directions: Sequence[tuple[int, int]],
    frequent: Bool[Tensor, " token"],
    strings: Sequence[str],
    k: int = 6,
) -> None:
    """Directions (head, j) of OV tables: the frequent tokens that have most of them, as sources and as outs.

    Of the two signs of a direction, both equally good, that with the largest out.
    """
    _, grid = plt.subplots(len(directions), 2, figsize=(10, 1.55 * len(directions)))
    for (head, j), row in zip(directions, grid, strict=True):
        U, _, V = factored[head].svd()
        sign = V[V[:, j].abs().argmax(), j].sign()
        for i, (axes, side) in enumerate(zip(row, (U, V), strict=True)):
            best = (sign * side[:, j]).masked_fill(~frequent, -torch.inf).topk(k)
            axes.barh(range(k), best.values.tolist(), color=COLOURS[i])
            names = [visible(strings[token]) for token in best.indices.tolist()]
            axes.set_yticks(range(k), names, family="monospace", fontsize=9, parse_math=False)
            axes.set_title(
                f"head 0.{head}, direction {j + 1}: " + ("these sources …" if i == 0 else "… raise these outs")
            )
            axes.set_xticks([])
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


def histograms(groups: Mapping[str, Float[Tensor, " n"]], title: str, xlabel: str, ylabel: str) -> Axes:
    """How often values fall where, one outline for each group; a line at 0."""
    _, axes = plt.subplots(figsize=(10, 3.8))
    low, high = (float(edge(torch.cat([*groups.values()]))) for edge in (torch.min, torch.max))
    for i, (name, values) in enumerate(groups.items()):
        outline = axes.hist(values.tolist(), bins=30, range=(low, high), histtype="step", label=name, linewidth=2)[2]
        plt.setp(outline, linestyle=LINES[i], edgecolor=COLOURS[i])
    axes.axvline(0, color="black", linewidth=1)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    return axes
