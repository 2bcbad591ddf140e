"""What only lesson 10 draws: verdicts, thresholds, divisors, paths, features, one prediction as a graph, a survey."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils.plots import COLOURS, MARKERS
from course_utils.text import visible

BLUE, ORANGE, PLUM, GREY = *COLOURS[:3], COLOURS[6]
MARKS = {"stands": ("o", BLUE), "falls": ("D", ORANGE), "between": ("s", PLUM), "decides nothing": ("X", GREY)}
ALT = plots.alt_texts(__file__)
Point = tuple[float, float]


def across(panels: Mapping[str, Float[Tensor, "dest src"]], wall: int) -> None:
    """One pattern in each panel, and a line before and behind the position `wall`."""
    for axes, pattern in plots.panels(panels, (9.4, 4.4), "source position", "destination position"):
        drawn = axes.imshow(pattern, vmin=0, vmax=1)
        axes.axhline(wall, color="white", lw=1, ls="--")
        axes.axvline(wall, color="white", lw=1, ls="--")
    plt.colorbar(drawn, ax=plt.gcf().axes, label="attention", shrink=0.8)


def signs(panels: Mapping[str, Float[Tensor, " token"]], unit: str) -> None:
    """What each token gains or loses, in the `unit`: one histogram for each panel, in two colours that meet at 0."""
    for axes, values in plots.panels(panels, (9.4, 4.0), unit, "how many"):
        width = (values.max() - values.min()).item() / 40
        edges = (width * torch.arange(values.min() // width, values.max() // width + 2)).tolist()  # one of them at 0
        axes.hist(values[values > 0], edges, color=BLUE, label=f"raised: {(values > 0).float().mean():.0%}")
        axes.hist(values[values <= 0], edges, color=ORANGE, label="lowered (left of 0)")
        axes.margins(y=0.25)  # room for the legend
        axes.legend()


def stairs(
    thresholds: Float[Tensor, " threshold"],
    scores: Mapping[str, Float[Tensor, " head"]],
    null: Float[Tensor, " sample"],
) -> None:
    """How many heads of each model score above each threshold, and what random circuits reach."""
    above = {f"{name}, last layer": (values > thresholds[:, None]).sum(1) for name, values in scores.items()}
    labels = "How many of eight heads copy?", "threshold for the copying score", "heads above the threshold"
    axes = plots.curves(above, *labels, x=thresholds, figsize=(7.6, 4.2), ylim=(0, 8.4))
    for line in axes.lines:
        line.set(drawstyle="steps", linewidth=2)
    axes.axvspan(null.min().item(), null.max().item(), color="0.9", label=f"{len(null)} random circuits")
    axes.legend(loc="lower left")


def heads_by_two_scores(
    x: Float[Tensor, " head"], y: Float[Tensor, " head"], marked: Sequence[int], names: Sequence[str]
) -> None:
    """One point for each head, diamonds for those that are `marked`."""
    _, axes = plt.subplots(figsize=(6.6, 5.4))
    for h, name in enumerate(names):
        axes.scatter(x[h], y[h], 70, color=COLOURS[h in marked], marker="oD"[h in marked])
        axes.text(x[h].item(), y[h].item() + 0.06, name, ha="center", fontsize=9)
    axes.set(title="Which eigenvalues tell the induction heads (diamonds) apart?", xlim=(-1.1, 1.2), ylim=(-1.1, 1.2))
    axes.set(xlabel="positivity of $W_{QK}$ alone", ylabel="positivity of the K-composition term")


def scales(
    trials: Mapping[str, tuple[float, float, float, float]],
    words: Mapping[str, str],
    measured: Mapping[str, float] | None = None,
    title: str = "What does the number say?",
) -> None:
    """Where each measured number fell between "as if false" (0) and "as claimed" (1), and the verdict's word.

    A trial is (claimed, denied, measured, noise). With the numbers as they were `measured`, those at which ends and
    mark stand are written in; a mark that stands elsewhere says what its number counts as.
    """
    _, axes = plt.subplots(figsize=(9.4, 0.6 + (0.9 if measured else 0.6) * len(trials)))
    for row, (name, (claimed, denied, counted, noise)) in enumerate(trials.items()):
        place, width = (counted - denied) / (claimed - denied), noise / abs(claimed - denied)
        axes.plot([0, 1], [row, row], color="0.85", lw=2, zorder=0)
        for end, colour, said in ((0, "#f6cdb0", f"if false: {denied:.2f}"), (1, "#b5d6ea", f"claimed: {claimed:.2f}")):
            axes.barh(row, 2 * width, 0.36, end - width, color=colour, zorder=0)
            axes.plot([end, end], [row - 0.18, row + 0.18], color="0.4", lw=1, zorder=0)
            if measured:
                axes.text(end, row + 0.24, said, ha="center", va="top", color="#555555")
        mark, colour = MARKS[words[name]]
        axes.plot(place, row, mark, ms=8, color=colour)
        axes.text(1.38, row, words[name], va="center")
        if measured:
            said = f", counts as {counted:.0f}" if counted != measured[name] else ""
            axes.text(place, row - 0.2, f"measured {plots.written(measured[name])}{said}", ha="center", va="bottom")
    axes.set_xticks([0, 1], ["as if it were false", "as claimed"])
    axes.xaxis.set_visible(not measured)
    axes.set_yticks(range(len(trials)), list(trials))
    axes.set(xlim=(-0.35, 1.65), ylim=(len(trials) - 0.4, -0.6), title=f"{title} (bands: within the noise)")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def copier(table: Float[Tensor, "source out"], values: Float[Tensor, " n"]) -> None:
    """A table of what each token adds to each logit, and the real parts of its eigenvalues on a line."""
    _, axes = plt.subplots(1, 2, figsize=(9.4, 3.2), width_ratios=(1, 1.1))
    names = [f"t{i}" for i in range(len(table))]
    look = {"centred": True, "numbers_from": 0.01, "bar": False, "axes": axes[0]}
    plots.heatmap(table, names, names, "Each token raises itself most …", "source", "out", **look)
    axes[1].axvline(0, color=GREY, lw=1)
    for value, times in zip(*values.round(decimals=2).unique(return_counts=True), strict=True):
        mark, colour = ("o", BLUE) if value >= 0 else ("D", ORANGE)
        axes[1].plot(value, 0, mark, color=colour, ms=9)
        axes[1].text(value, 0.015, f"{plots.written(value.item(), '.3g')} (×{times})", ha="center")
    axes[1].margins(x=0.2)
    axes[1].set(title="… and what do its eigenvalues say?", xlabel="eigenvalue (real part, rows centred)", yticks=[])
    axes[1].spines["left"].set_visible(False)


def divisors(panels: Mapping[str, Float[Tensor, "context pos"]]) -> None:
    """A histogram of LayerNorm's divisor over tokens for each place, with its mean."""
    named = {f"Is the divisor {name} constant?": scale for name, scale in panels.items()}
    for axes, scale in plots.panels(named, (9.4, 4.0), "divisor", "tokens"):
        axes.hist(scale.flatten().numpy(), bins=60, color=BLUE)
        axes.axvline(scale.mean().item(), color=ORANGE, ls="--", lw=2, label=f"mean {scale.mean():.2f}")
        axes.legend()


def survey(pages: Mapping[str, Mapping[str, Any]]) -> None:
    """Every head of every model on the page: does it look for repetition, and copy what it finds?"""
    _, axes = plt.subplots(figsize=(7.6, 4.6))
    for number, (name, page) in enumerate((name, page) for name, page in pages.items() if "copying" in page):
        mark, colour = MARKERS[number % len(MARKERS)], COLOURS[number % len(COLOURS)]
        x, y = (np.concatenate(page[score]) for score in ("prefix_matching", "copying"))
        axes.scatter(x.clip(1e-4), y, s=45, label=name, marker=mark, color=colour, alpha=0.8)
    axes.set(title="Which heads look for repetition, and copy what they find?")
    axes.set(xlabel="prefix-matching score (0.0001: that or less)", ylabel="copying score", xscale="log")
    axes.legend(loc="lower right")


def one_path() -> None:
    """Path patching as a drawing: two runs, and one difference that goes to one door of one head."""
    _, axes = plt.subplots(figsize=(9.4, 3.9))
    for y, end, name, colour, line in ((1.0, 10.0, "clean", BLUE, "-"), (3.6, 2.9, "other", ORANGE, "--")):
        axes.plot([0.4, end], [y, y], color=colour, ls=line, lw=2.5, zorder=0)
        axes.text(0.3, y, f"run on {name}", ha="right", va="center", color=colour)
        _head(axes, "writer", 1.9, y)
    doors = {door: (6.7, 2.9 - 0.6 * rank) for rank, door in enumerate("kqv")}
    for door, (x, y) in doors.items():
        axes.text(x, y, door, ha="center", va="center", bbox={"boxstyle": "square,pad=0.25", "facecolor": "white"})
    reader, others, meet = _head(axes, "reader", 7.4, 2.3), _head(axes, "all other heads", 9.0, 2.3), (4.1, 2.9)
    clean = [((5.6, 0.95), door) for door in doors.values()] + [(reader, (7.9, 1.0)), ((1.9, 1.0), meet)]
    for tail, tip in [*clean, ((8.5, 0.95), others), (others, (9.5, 1.0))]:
        _arrow(axes, tail, tip, BLUE, "-")
    for tail, tip in (((1.9, 3.6), meet), (meet, doors["k"])):
        _arrow(axes, tail, tip, ORANGE, "--")
    axes.text(*meet, "Σ", ha="center", va="center", bbox={"boxstyle": "circle,pad=0.25", "facecolor": "#ffe9d6"})
    labels = {"+ what it writes here": (0.9, 3.0), "− what it writes here": (3.1, 1.7), "the difference": (4.4, 3.0)}
    for said, (x, y) in labels.items():
        axes.text(x, y, said, fontsize=9)
    axes.text(10.1, 1.0, "logits", va="center")
    axes.set_title("What goes down one path, into the reader's keys?")
    axes.set(xlim=(-1.2, 10.9), ylim=(0.5, 4.1))
    axes.axis("off")


def _arrow(axes: Axes, start: Point, end: Point, colour: str, line: str, lw: float = 1.6) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "ls": line, "lw": lw, "shrinkA": 10, "shrinkB": 10}
    axes.annotate("", end, start, arrowprops=style, zorder=0)


def paths(panels: Mapping[str, Float[Tensor, "writer reader"]]) -> None:
    """What each path from a head of layer 0 to a head of layer 1 is worth: one table for each door."""
    limit, last = max(costs.abs().max().item() for costs in panels.values()), [*panels.values()][-1]
    for (title, costs), (axes, _) in zip(panels.items(), plots.panels(panels, (9.4, 4.4)), strict=True):
        writers, readers = ([f"{layer}.{h}" for h in range(n)] for layer, n in enumerate(costs.shape))
        look: dict[str, Any] = {"centred": True, "limit": limit, "numbers_from": limit / 8, "bar": costs is last}
        plots.heatmap(costs, writers, readers, title, "writer", "reader", label="nats", axes=axes, **look)


def graph(tokens: Sequence[str], out: str, terms: tuple[Tensor, Tensor, Tensor, Tensor], least: float) -> None:
    """The `terms` of `paths.to_logit` that add at least `least` to a logit, or take it away; the rest is one number."""
    direct, layer_0, layer_1, both = terms
    _, axes = plt.subplots(figsize=(9.8, 5.4))
    n, logit = len(tokens), (len(tokens) - 3.0, 3.3)
    for place, token in enumerate(tokens):
        axes.plot(place, 0, ".", color="#555555")
        look: dict[str, Any] = {"rotation": 60, "rotation_mode": "anchor", "ha": "right", "va": "center"}
        axes.text(place, -0.15, visible(token), family="monospace", parse_math=False, **look)
    large_0, large_1, large = ((values.abs() >= least).nonzero().tolist() for values in (layer_0, layer_1, both))
    top = sorted({head for head, *_ in large_1 + large})
    at = {head: (x, 2.2) for head, x in zip(top, torch.linspace(n - 12, n - 4, len(top)).tolist(), strict=True)}
    routes: list[Any] = [(direct, (n - 1, 0), logit)] if abs(direct) >= least else []  # what it adds, where it passes
    routes += [(layer_0[h, src], (src, 0), (n - 1, 1.1), logit) for h, src in large_0]
    routes += [(layer_1[h, src], (src, 0), at[h], logit) for h, src in large_1]
    routes += [(both[h, first, dest, src], (src, 0), (dest, 1.1), at[h], logit) for h, first, dest, src in large]
    boxes = {(*at[h], f"1.{h}") for h in top} | {(n - 1, 1.1, f"0.{h}") for h, _ in large_0}
    for x, y, name in sorted(boxes | {(dest, 1.1, f"0.{first}") for _, first, dest, _ in large}):
        _head(axes, name, x, y)
    edges: dict[Any, float] = defaultdict(float)  # which several routes may share
    for value, *places in routes:
        for edge in pairwise(places):
            edges[edge] += value.item()
    for (start, end), weight in edges.items():
        _arrow(axes, start, end, *((BLUE, "-") if weight > 0 else (ORANGE, "--")), 0.8 + 0.6 * abs(weight))
        x, y = (0.55 * a + 0.45 * b for a, b in zip(start, end, strict=True))
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text(x, y, plots.written(weight, "+.1f"), fontsize=9, ha="center", va="center", bbox=box)
    total = (direct + layer_0.sum() + layer_1.sum() + both.sum()).item()
    plots.box(axes, logit[0], logit[1] + 0.1, f"{visible(out)}: {plots.written(total, '+.1f')}", "#ffe9d6")
    rest = plots.written(total - sum(value.item() for value, *_ in routes), "+.1f")
    axes.text(n - 0.6, 3.45, f"the rest, in small pieces: {rest}", fontsize=9)
    for y, label in ((0, "tokens"), (1.1, "layer 0"), (2.2, "layer 1"), (3.45, "logit")):
        axes.text(-2.6, y, label, va="center", fontsize=9, color="#555555")
    axes.set(xlim=(-2.8, n + 4.5), ylim=(-1.3, 3.9))
    axes.axis("off")


def _head(axes: Axes, name: str, x: float, y: float) -> Point:
    plots.box(axes, x, y, name, "#dcebf5")
    return x, y
