"""What only lesson 09 draws: lattices, rulers, and what goes wrong without one of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lessons.l09_mlps import addition
from course_utils import plots
from course_utils._style import draws_in_style, settings
from course_utils.plots import COLOURS, MARKERS

# few colours, so that a triangle of 8,256 pairs is stored in few bytes
LEVELS = plt.get_cmap("viridis", 10)
# Lines without shades at their edges take half of the bytes, and at twice the size nobody sees a
# difference
plain_lines: Any = settings({"lines.antialiased": False})
BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]
Numbers = Float[Tensor, " n"]
Pairs = Int[Tensor, "pair 2"]
Which = Bool[Tensor, " pair"]
ALT = plots.alt_texts(__file__)


@plain_lines
def lattices(
    pairs: Pairs,
    fires: Float[Tensor, "pair _neuron"],
    titles: Sequence[str],
) -> None:
    """For which pairs each neuron fires."""
    n, size = int(pairs.max()) + 1, (8.8, 9.0 / len(titles))
    panels = plots.panels(
        dict(zip(titles, fires.T, strict=True)), size, "first number a", "second number b"
    )
    for axes, fired in panels:
        grid = torch.full((n, n), float("nan"))
        grid[pairs[:, 1], pairs[:, 0]] = fired
        axes.imshow(grid, origin="lower", cmap=LEVELS, interpolation="nearest")
        axes.set(xlim=(-0.5, n - 0.5), ylim=(-0.5, n - 0.5))


def peaks(phase: float) -> None:
    """Where a neuron that peaks at `phase` (in turns) fires, and its opposite: darker is more.

    The lines have the same A + B.
    """
    _, axes = plt.subplots(figsize=(7.0, 5.2))
    turns = torch.linspace(0, 2, 200)
    for i, (peak, name) in enumerate(
        ((phase, "this neuron, peak at φ"), (phase + 0.5, "its opposite, at φ + π"))
    ):
        wave = (2 * torch.pi * (turns - peak)).cos()
        shades: Any = [(COLOURS[i], share) for share in (0.12, 0.35, 0.65, 0.95)]
        levels = [0.02, 0.3, 0.9, 1.5, 2.1]
        axes.contourf(turns, turns, wave + wave[:, None], levels, colors=shades)
        axes.plot([], [], "so"[i], color=COLOURS[i], ms=9, label=name)
    for k in range(4):
        label = None if k else "A + B = 2φ, up to whole turns"
        axes.plot(
            [2 * phase + k - 2, 2],
            [2, 2 * phase + k - 2],
            color="black",
            lw=0.9,
            zorder=3,
            label=label,
        )
    axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    at = [0, *(phase + half / 2 for half in range(4)), 2]
    for axis, name in ((axes.xaxis, "A"), (axes.yaxis, "B")):
        axis.set_ticks(at, ["0", "φ", "φ + π", "φ + 2π", "φ + 3π", "4π"])
        axis.set_label_text(f"angle {name}")
    axes.set(title="Where do the two fire? (darker: more)", aspect="equal")
    axes.set(xlim=(0, 2), ylim=(0, 2))


def rulers(periods: Sequence[int], total: int, n: int = 128) -> None:
    """One ruler for each period with a mark wherever it would put the sum.

    Only at `total` do all of them have one.
    """
    _, axes = plt.subplots(figsize=(8.8, 0.8 + 0.5 * len(periods)))
    axes.axvline(total, color=ORANGE, lw=6, alpha=0.3)
    axes.text(total, 0.45, f"all of them: {total}", ha="center", color="#a34700")
    for row, period in enumerate(periods):
        axes.axhline(-row, color=GREY, lw=0.8)
        marks = torch.arange(total % period, n, period)
        axes.plot(marks, 0 * marks - row, "|", ms=13, mew=1.8, color=COLOURS[row])
        axes.text(-2, -row, f"period {period}", ha="right", va="center")
    axes.set(
        xlim=(-1, n),
        ylim=(0.3 - len(periods), 0.9),
        xlabel="number that the ruler would answer",
        yticks=[],
    )
    axes.spines["left"].set_visible(False)


def mistakes(pairs: Pairs, expected: Which, found: Which, off: Int[Tensor, " pair"]) -> None:
    """Left: which pairs were to go wrong, and which did. Right: by how much the answers are off."""
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 4.6), width_ratios=[1.2, 1])
    left.plot(*pairs[expected].T, "s", ms=3.2, mfc="none", color=GREY, label="expected")
    left.plot(*pairs[found].T, ".", ms=2.5, color=ORANGE, label="found")
    left.set(
        title="Which pairs go wrong?",
        xlabel="a",
        ylabel="b",
        xlim=(-2, 128),
        ylim=(-2, 128),
        aspect="equal",
    )
    left.legend(loc="upper right", markerscale=1.6)
    sizes, counts = off[off != 0].abs().unique(return_counts=True)
    right.bar(sizes, counts, width=2.4, color=ORANGE)
    right.set(
        title="By how much?",
        xlabel="answers too small by",
        ylabel="pairs",
        xlim=(0, 128),
        xticks=sizes,
    )


@plain_lines
def neurons(
    yours: tuple[Tensor, Tensor], others: Mapping[str, tuple[Numbers, Numbers, Numbers]]
) -> None:
    """Your third neuron and `addition.portraits`.

    Of each: what it receives, where it fires, and its votes.
    """
    columns = {"yours": (yours[0][:, 2], yours[0][:, 2], yours[1][2]), **others}
    _, panels = plt.subplots(
        3, len(columns), figsize=(8.8, 7.0), height_ratios=(2, 3, 2), squeeze=False
    )
    for (top, middle, bottom), (title, (first, second, votes)) in zip(
        panels.T, columns.items(), strict=True
    ):
        n = len(first)
        for axes, curve, colour in ((top, (first + second) / 2, BLUE), (bottom, votes, ORANGE)):
            axes.plot(curve, color=colour)
            axes.axhline(0, color=GREY, lw=0.5)
        top.set(title=title, xlabel="value of a number")
        bottom.set(xlabel="output")
        sums = torch.arange(n) + torch.arange(n)[:, None]
        fires = (first + second[:, None]).relu().where(sums < n, torch.nan)
        middle.imshow(fires, origin="lower", cmap=LEVELS, interpolation="nearest")
        middle.set(xlabel="a", ylabel="b")
    for row, label in zip(panels, ("receives", "fires at\nb", "votes"), strict=True):
        row[0].set_ylabel(label)


@plain_lines
def spectrum(fine: Numbers, pooled: Numbers) -> None:
    """The share of all curves' variance that each frequency explains."""
    says = (
        "Which waves are in the curves?",
        "frequency: periods in 128 values (at the peaks: how long a period is)",
        "share of variance explained",
    )
    axes = plots.curves(
        {"": pooled}, *says, x=fine, figsize=(8.8, 3.6), ylim=(0, 1.15 * float(pooled.max()))
    )
    inner = pooled[1:-1]  # its peaks, without ripples below 0.035
    for i in ((inner > pooled[:-2]) & (inner > pooled[2:]) & (inner > 0.035)).nonzero()[:, 0] + 1:
        period = f"{128 / fine[i]:.1f}" if fine[i] > 2 else "slopes"
        axes.annotate(period, (fine[i], pooled[i]), ha="center", va="bottom")


@plain_lines
def phases(found: Sequence[Float[Tensor, "4 _neuron"]]) -> None:
    """The phase of the votes against the phase of the curve, in turns.

    Each model has a panel, and so have the first one's partners. Each model gives what
    `addition.phases` finds; frequencies above 25 are those of its finest ruler. The grey lines are
    twice the phase, up to whole turns.
    """
    named = {f"seed {i}" + " (ours)" * (i == 0): z[[0, 1, 3]] for i, z in enumerate(found)}
    named["control: a partner's votes (ours)"] = found[0][[0, 2, 3]]
    xlabel, ylabel = "phase φ of the curve, in turns", "phase of the votes, in turns"
    turn = torch.tensor([-0.5, 0.5])
    for axes, (came, went, f) in plots.panels(named, (8.8, 6.2), xlabel, ylabel, rows=2):
        for fine, label in ((False, "other groups"), (True, "finest group")):
            x, y = (z[(f > 25) == fine] / (2 * torch.pi) for z in (came, went))
            axes.plot(x, y, MARKERS[fine], color=COLOURS[fine], ms=4, label=label)
        for k in (-1, 0, 1):
            axes.plot(turn, 2 * turn + k, color=GREY, lw=0.8, zorder=0)
        axes.set(ylim=(-0.53, 0.53), xticks=[-0.5, 0, 0.5], yticks=[-0.5, 0, 0.5])
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def misses(cuts: Mapping[str, addition.Cut], most: int = 44) -> None:
    """A row for each group taken away: how many errors are off by 1, 2, …

    Below each stands its control, without as many neurons at random.
    """
    _, axes = plt.subplots(figsize=(8.8, 0.95 * len(cuts) + 1.1))
    looks = {
        "without the group": (0.0, ORANGE, ORANGE),
        "without as many neurons at random": (0.36, GREY, "white"),
    }
    for row, cut in enumerate(cuts.values()):
        axes.axhspan(row - 0.35, row + 0.56, color="#f4f4f4", zorder=0)
        for (name, (down, edge, face)), count in zip(
            looks.items(), (cut.without, cut.at_random), strict=True
        ):
            share = (count[1:most] / count[1:].sum().clamp(min=1)).numpy()
            style: Any = {"edgecolors": edge, "facecolors": face, "label": None if row else name}
            axes.scatter(
                range(1, most),
                [row + down] * (most - 1),
                380 * share,
                clip_on=False,
                zorder=2,
                **style,
            )
        axes.plot(
            cut.expected,
            row,
            "s",
            ms=21,
            mfc="none",
            color="black",
            label=None if row else "expected",
        )
        here, there = cut.shares
        words = f"expected: {here:.0%} of {int(cut.without[1:].sum()):,}\nat random: {there:.0%}"
        axes.text(
            most + 1.5, row + 0.1, f"{words}  {'✓' if cut.holds else '✗'}", va="center", fontsize=9
        )
    axes.set_yticks(range(len(cuts)), [f"without {name}" for name in cuts])
    axes.set(
        title="By how much are the answers off? (area: share of all errors)",
        xlabel="answers off by",
    )
    axes.set(xlim=(0, most), ylim=(len(cuts) - 0.3, -0.6), xticks=[1, 3, *range(10, most, 10)])
    axes.legend(
        fontsize=9, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16), markerscale=0.5
    )


draws_in_style(__name__)
