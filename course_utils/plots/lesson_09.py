"""What only lesson 09 draws: lattices of firing, rulers that repeat, and what goes wrong without one of them."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS, HATCHES, LINES, MARKERS

LEVELS = plt.get_cmap("viridis", 10)  # few colours, so that a triangle of 8,256 pairs is stored in few bytes
BLUE, ORANGE, GREEN, GREY = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[6]


def _grid(pairs: Int[Tensor, "pair 2"], values: Float[Tensor, " pair"]) -> Float[Tensor, "b a"]:
    """The values in the triangle of all pairs, the first operand to the right and the second upwards."""
    n = int(pairs.max()) + 1
    grid = torch.full((n, n), float("nan"))
    grid[pairs[:, 1], pairs[:, 0]] = values.float()
    return grid


@checked
def lattices(
    pairs: Int[Tensor, "pair 2"],
    fires: Float[Tensor, "pair _neuron"],
    titles: Sequence[str],
    lines: Sequence[tuple[float, float]] = (),
) -> Axes:
    """For which pairs each neuron fires; with `lines`, (period, crest), the sums that it should vote for as lines."""
    n = int(pairs.max()) + 1
    _, panels = plt.subplots(1, len(titles), figsize=(3.0 * len(titles), 3.0), sharey=True, squeeze=False)
    for i, (axes, title) in enumerate(zip(panels[0], titles, strict=True)):
        axes.imshow(_grid(pairs, fires[:, i]), origin="lower", cmap=LEVELS, interpolation="nearest")
        if lines:
            period, crest = lines[i]
            for total in torch.arange(2 * crest % period, n, period).tolist():
                axes.plot([0, total], [total, 0], color=ORANGE, lw=min(1.2, period / 15))
        axes.set(title=title, xlabel="first number a", xlim=(-0.5, n - 0.5), ylim=(-0.5, n - 0.5))
    panels[0, 0].set_ylabel("second number b")
    return panels[0, 0]


@checked
def folding() -> Axes:
    """Two waves of the same period, their sum, and what a ReLU makes of it: in step and out of step."""
    _, panels = plt.subplots(2, 3, figsize=(9.6, 3.9), sharex=True, sharey="row")
    total = torch.linspace(0, 4 * torch.pi, 400)  # A + B
    for axes, apart, words in zip(
        panels.T, (0.0, 1.6, torch.pi), ("in step", "a quarter apart", "half apart"), strict=True
    ):
        A, B = (total + apart) / 2, (total - apart) / 2
        upper, lower = axes
        upper.plot(total, A.cos(), color=BLUE, ls="--", lw=1, label="cos A")
        upper.plot(total, B.cos(), color=GREEN, ls=":", lw=1.4, label="cos B")
        upper.plot(total, A.cos() + B.cos(), color="black", lw=1.8, label="their sum")
        upper.set_title(words)
        lower.fill_between(total, (A.cos() + B.cos()).relu(), color=BLUE, alpha=0.35)
        lower.plot(total, (A.cos() + B.cos()).relu(), color=BLUE, label="this neuron")
        lower.plot(total, (-A.cos() - B.cos()).relu(), color=ORANGE, ls="--", label="its opposite")
        lower.set_xlabel("A + B, in turns")
        lower.set_xticks([0, 2 * torch.pi, 4 * torch.pi], ["0", "1", "2"])
        for axis in axes:
            axis.axhline(0, color=GREY, lw=0.6)
    panels[0, 0].set_ylabel("before the ReLU")
    panels[1, 0].set_ylabel("after it")
    for axis in panels[:, 2]:
        axis.legend(fontsize=8, loc="upper center", ncols=2)
    return panels[0, 0]


@checked
def rulers(periods: Sequence[int], total: int, n: int = 128) -> Axes:
    """One ruler for each period with a mark wherever it would put the sum; only at `total` do all of them have one."""
    _, axes = plt.subplots(figsize=(9.6, 0.8 + 0.5 * len(periods)))
    axes.axvline(total, color=ORANGE, lw=6, alpha=0.3)
    for row, period in enumerate(periods):
        marks = torch.arange(total % period, n, period)
        axes.hlines(-row, 0, n - 1, color=GREY, lw=0.8)
        axes.plot(marks, torch.full((len(marks),), -row), "|", ms=13, mew=1.8, color=COLOURS[row])
        axes.text(-2, -row, f"period {period}", ha="right", va="center")
    axes.text(
        total, 0.45, f"all three: {total}" if len(periods) == 3 else f"all: {total}", ha="center", color="#a34700"
    )
    axes.set(xlim=(-18, n), ylim=(0.3 - len(periods), 0.9), xlabel="number that the ruler would answer")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return axes


@checked
def mistakes(
    pairs: Int[Tensor, "pair 2"],
    foretold: Bool[Tensor, " pair"],
    found: Bool[Tensor, " pair"],
    off: Int[Tensor, " pair"],
) -> Axes:
    """Left: which pairs were to go wrong, and which did. Right: by how much the answers are off."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), width_ratios=[1, 1.2])
    left.plot(*pairs[foretold].T, "s", ms=3.2, mfc="none", color=GREY, label="foretold")
    left.plot(*pairs[found].T, ".", ms=2.5, color=ORANGE, label="found")
    left.set(title="Which pairs go wrong?", xlabel="a", ylabel="b", xlim=(-2, 128), ylim=(-2, 128), aspect="equal")
    left.legend(loc="upper right", markerscale=1.6)
    sizes, counts = off[off != 0].abs().unique(return_counts=True)
    right.bar(sizes, counts, width=2.4, color=ORANGE)
    right.set_xticks(sizes, [str(size) for size in sizes.tolist()])
    right.set(title="By how much?", xlabel="answers off by", ylabel="pairs", xlim=(0, 128))
    return left


@checked
def neurons(
    pairs: Int[Tensor, "pair 2"],
    curves: Float[Tensor, "value column"],
    fires: Float[Tensor, "pair column"],
    votes: Float[Tensor, "column out"],
    titles: Sequence[str],
) -> Axes:
    """A column for each neuron: what it receives from an operand, for which pairs it fires, and what it says then."""
    _, panels = plt.subplots(3, len(titles), figsize=(1.92 * len(titles), 5.4), height_ratios=(2, 3, 2), squeeze=False)
    for i, title in enumerate(titles):
        top, middle, bottom = panels[:, i]
        top.plot(curves[:, i], color=BLUE)
        top.axhline(0, color=GREY, lw=0.5)
        top.set(title=title, xlabel="value of an operand")
        middle.imshow(_grid(pairs, fires[:, i]), origin="lower", cmap=LEVELS, interpolation="nearest")
        middle.set(xlabel="a", ylabel="b")
        bottom.plot(votes[i], color=ORANGE)
        bottom.axhline(0, color=GREY, lw=0.5)
        bottom.set(xlabel="output")
    for row, label in zip(panels, ("receives", "fires at\nb", "votes"), strict=True):
        row[0].set_ylabel(label)
    return panels[0, 0]


@checked
def shares(share: Float[Tensor, " neuron"], null: Float[Tensor, " n"], line: float) -> Axes:
    """How much of a curve one whole frequency holds: the neurons, shuffled tokens, and a straight line."""
    _, axes = plt.subplots(figsize=(8, 2.8))
    bins = torch.arange(0, 1.01, 0.04).tolist()
    for data, label, colour, hatch in (
        (null, "tokens shuffled (200 times)", GREY, HATCHES[1]),
        (share, "the model's neurons", BLUE, HATCHES[0]),
    ):
        axes.hist(data.tolist(), bins, density=True, label=label, alpha=0.7, color=colour, hatch=hatch)
    axes.axvline(line, color=ORANGE, linestyle="--", label="a straight line")
    axes.set(title="How much of a neuron's curve is one wave?", xlabel="share of power at the top frequency")
    axes.set_ylabel("density")
    axes.legend()
    return axes


@checked
def spectrum(
    fine: Float[Tensor, " freq"], pooled: Float[Tensor, " freq"], whole: Float[Tensor, " k"], peaks: Sequence[float]
) -> Axes:
    """The share of variance that a wave of each frequency explains: any frequency as a line, whole ones as sticks."""
    _, axes = plt.subplots(figsize=(9.6, 2.9))
    axes.plot(fine, pooled, label="any frequency", color=BLUE)
    axes.vlines(torch.arange(len(whole)), 0, whole, color=ORANGE, lw=1.5, label="whole frequencies")
    for peak in peaks:
        axes.annotate(f"{peak:g}", (peak, float(pooled[fine == peak])), ha="center", va="bottom")
    axes.set(title="Which waves are in the neurons' curves?", xlabel="frequency: periods in 128 values")
    axes.set(ylabel="share of variance explained", ylim=(0, 0.55))
    axes.legend()
    return axes


@checked
def phases(votes: Mapping[str, Float[Tensor, "2 _neuron"]], ruler_of: Sequence[str]) -> Axes:
    """The phase of the votes (second row) against the phase of the curve (first row), a panel for each choice of votes.

    `ruler_of` says to which ruler a neuron belongs. The grey lines are twice the phase, up to whole turns.
    """
    _, panels = plt.subplots(1, len(votes), figsize=(4.2 * len(votes), 3.6), sharey=True, squeeze=False)
    turn = torch.linspace(-torch.pi, torch.pi, 2)
    for axes, (title, (came, went)) in zip(panels[0], votes.items(), strict=True):
        for i, ruler in enumerate(dict.fromkeys(ruler_of)):
            own = torch.tensor([name == ruler for name in ruler_of])
            axes.plot(came[own], went[own], MARKERS[i], color=COLOURS[i], ms=5, label=ruler)
        for k in (-1, 0, 1):
            axes.plot(turn, 2 * turn + 2 * torch.pi * k, color=GREY, lw=0.8, zorder=0)
        axes.set(title=title, xlabel="phase of the curve", ylim=(-3.4, 3.4))
    panels[0, 0].set_ylabel("phase of the votes")
    if ruler_of:
        panels[0, -1].legend(title="frequency", loc="center left", bbox_to_anchor=(1, 0.5))
    return panels[0, 0]


@checked
def leads(curves: Mapping[str, tuple[float, Float[Tensor, " _distance"]]]) -> Axes:
    """How far a ruler alone puts the right sum ahead, by |a − b|; `curves` has its period and the leads.

    Dashed lines stand where it should be blind: at odd multiples of half the period.
    """
    _, panels = plt.subplots(1, len(curves), figsize=(2.5 * len(curves), 2.6), squeeze=False)
    for axes, (title, (period, curve)) in zip(panels[0], curves.items(), strict=True):
        reach = 100 if period > 4 else 16
        axes.plot(curve[:reach], marker="o", ms=2, color=BLUE)
        for blind in torch.arange(period / 2, reach, period).tolist():
            axes.axvline(blind, color=ORANGE, lw=1, ls="--")
        axes.set(title=title, xlabel="|a − b|", ylim=(0, None))
    panels[0, 0].set_ylabel("lead of the right sum")
    return panels[0, 0]


@checked
def misses(counts: Mapping[str, tuple[int, Float[Tensor, " off"], Float[Tensor, " off"]]]) -> Axes:
    """Errors by size without each ruler: (what was foretold, pairs off by 0, 1, …, the same for a random control).

    Both as a share of all errors. The triangle marks what was foretold.
    """
    _, panels = plt.subplots(len(counts), 1, figsize=(9.6, 1.25 * len(counts) + 0.5), sharex=True, squeeze=False)
    for axes, (title, (foretold, without, control)) in zip(panels[:, 0], counts.items(), strict=True):
        for count, colour, way in ((without, ORANGE, 1), (control, GREY, -1)):
            share = way * count[1:] / count[1:].sum().clamp(min=1)
            axes.bar(range(1, len(count)), share, width=1.0, color=colour, hatch=HATCHES[0 if way > 0 else 1])
        axes.plot(foretold, 1.12, "v", color="black", ms=7, clip_on=False)
        axes.axhline(0, color="black", lw=0.8)
        axes.set(ylim=(-0.6, 1.1), yticks=[-0.5, 0, 0.5, 1], xlim=(0, 128))
        axes.set_yticklabels(["50 %", "0", "50 %", "100 %"], fontsize=8)
        axes.text(127, 0.95, title, ha="right", va="top")
    panels[0, 0].set_title(
        "How far are the errors off?  (up: without the ruler; down: as many neurons at random)", pad=14
    )
    panels[-1, 0].set_xlabel("off by          (▼ foretold from the frequencies)")
    return panels[0, 0]


@checked
def kept(
    sizes: Sequence[int],
    rates: Float[Tensor, "seed size kind"],
    kinds: Sequence[str],
    rest: Float[Tensor, "seed value"],
) -> Axes:
    """Left: right answers by the number of waves kept, for each seed. Right: what 8 waves leave over of each value.

    The first seed is drawn thick; of the others the right panel has the mean.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.1))
    for seed in range(len(rates)):
        look = {"lw": 2.2, "marker": "o", "ms": 4} if seed == 0 else {"lw": 0.8, "alpha": 0.6}
        for i, kind in enumerate(kinds):
            style = look | {"color": COLOURS[i], "linestyle": LINES[i]}
            left.plot(sizes, rates[seed, :, i], label=kind if seed == 0 else None, **style)
    right.plot(rest[0], color=BLUE, lw=1.6, label="our model")
    right.plot(rest[1:].mean(0), color=GREY, lw=1.2, ls="--", label="mean of the other seeds")
    right.legend(fontsize=8, loc="upper left")
    left.set(title="How many pairs are right with k waves?", xlabel="k", ylabel="share of pairs", xticks=sizes)
    left.legend(fontsize=8, loc="center right")
    right.set(title="What do 8 waves leave over?", xlabel="value of the operand", yscale="log")
    right.set_ylabel("squared rest ÷ mean variance")
    return left


@checked
def fibonacci(attention: Sequence[Float[Tensor, " _pos"]]) -> Axes:
    """What the last position pays to each position, for sequences of each length; the last two stand out."""
    _, panels = plt.subplots(1, len(attention), figsize=(9.6, 2.4), sharey=True, squeeze=False)
    for axes, row in zip(panels[0], attention, strict=True):
        n = len(row)
        bars = axes.bar([str(i) for i in range(n)], row, color=[GREY] * (n - 2) + [BLUE] * 2)
        for bar in bars[: n - 2]:
            bar.set_hatch(HATCHES[1])
        axes.set(title=f"length {n}", xlabel="position")
    panels[0, 0].set_ylabel("attention of the last")
    return panels[0, 0]


@checked
def attention_forced(
    own: Float[Tensor, " pair"], before: Float[Tensor, " pair"], forced: Float[Tensor, " p"], right: Sequence[float]
) -> Axes:
    """The share of right answers if attention is forced, and where it lies by itself, trained and untrained."""
    _, axes = plt.subplots(figsize=(8.2, 3.0))
    axes.plot(forced, right, marker="o", ms=3, color=BLUE)
    for values, label, colour, hatch in (
        (own, "its own, all pairs", COLOURS[4], HATCHES[0]),
        (before, "before training", GREY, HATCHES[1]),
    ):
        axes.axvspan(float(values.min()), float(values.max()), color=colour, alpha=0.45, label=label, hatch=hatch)
    axes.set(title="What if the head paid p to a?", xlabel="p", ylabel="share of pairs right")
    axes.legend()
    return axes
