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
def crests(phase: float) -> Axes:
    """Where a neuron with its crest at `phase` (in turns) fires, and its opposite; the lines have the same A + B."""
    _, axes = plt.subplots(figsize=(5.6, 4.2))
    angle = torch.linspace(0, 2, 200) * 2 * torch.pi
    phi = 2 * torch.pi * phase
    for i, (crest, name) in enumerate(((phi, "this neuron, crest at φ"), (phi + torch.pi, "its opposite, at φ + ½"))):
        fires = (((angle - crest).cos() + (angle - crest).cos()[:, None]).relu()).numpy()
        axes.contourf(angle / (2 * torch.pi), angle / (2 * torch.pi), fires, [0.6, 2.1], colors=COLOURS[i],
                      alpha=0.55 if i else 0.75)  # fmt: skip
        axes.plot([], [], "so"[i], color=COLOURS[i], ms=9, alpha=0.7, label=name)
    for k in range(4):
        total = 2 * phase + k
        axes.plot([total - 2, 2], [2, total - 2], color="black", lw=0.9, zorder=3)
    axes.set(title="Where do the two fire?", xlabel="A, in turns", ylabel="B, in turns", xlim=(0, 2), ylim=(0, 2))
    ticks = [0, phase, phase + 0.5, 1, phase + 1, phase + 1.5, 2]
    names = ["0", "φ", "φ + ½", "", "φ + 1", "", "2"]
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.set_aspect("equal")
    axes.plot([], [], color="black", lw=0.9, label="A + B = 2φ, up to whole turns")
    axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return axes


@checked
def paths() -> Axes:
    """A model of one head and one MLP as a drawing: the two ways to the neurons, and what a neuron does."""
    _, axes = plt.subplots(figsize=(9.6, 3.0))
    boxes = {
        "a": (0.3, 2.2, "first\nnumber a"), "b": (0.3, 0.9, "second\nnumber b"),
        "head": (2.5, 2.2, "head\nmixes both"), "stream": (4.3, 0.9, "stream of the\nlast token"),
        "neuron": (6.2, 2.2, "neuron: receives a\nnumber, ReLU"), "logits": (8.5, 0.9, "logits of\n128 sums"),
    }  # fmt: skip
    for x, y, words in boxes.values():
        axes.text(x, y, words, ha="center", va="center", bbox={"boxstyle": "round", "fc": "#eef3f8", "ec": BLUE})
    ways = [
        ("a", "head", ""),
        ("b", "head", ""),
        ("b", "stream", "residual path"),
        ("head", "stream", "adds"),
        ("stream", "neuron", "W_in: reads"),
        ("neuron", "logits", "W_out: its votes"),
        ("stream", "logits", ""),
    ]
    for start, end, words in ways:
        (x, y, _), (u, v, _) = boxes[start], boxes[end]
        axes.annotate("", (u, v), (x, y), arrowprops={"arrowstyle": "-|>", "color": GREY, "shrinkA": 34, "shrinkB": 34})
        side = "right" if v > y else "left" if v < y else "center"
        axes.text((x + u) / 2, (y + v) / 2 + 0.08, words, fontsize=9, color="#a34700", ha=side)
    axes.set(xlim=(-0.5, 9.4), ylim=(0.3, 2.8))
    axes.axis("off")
    return axes


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
    """A column for each neuron: what it receives from a number, for which pairs it fires, and what it says then.

    The last column, the finest, shows the first 21 values alone.
    """
    _, panels = plt.subplots(3, len(titles), figsize=(1.85 * len(titles), 5.6), height_ratios=(2, 3, 2), squeeze=False)
    for i, title in enumerate(titles):
        n = 21 if i == len(titles) - 1 else len(curves)
        top, middle, bottom = panels[:, i]
        top.plot(curves[:n, i], color=BLUE, marker="." if n == 21 else None)
        top.set(title=title, xlabel="value of a number")
        middle.imshow(_grid(pairs, fires[:, i]), origin="lower", cmap=LEVELS, interpolation="nearest")
        middle.set(xlabel="a", ylabel="b", xlim=(-0.5, n - 0.5), ylim=(-0.5, n - 0.5))
        bottom.plot(votes[i, :n], color=ORANGE, marker="." if n == 21 else None)
        bottom.set(xlabel="output")
        for axes in (top, bottom):
            axes.axhline(0, color=GREY, lw=0.5)
    for row, label in zip(panels, ("receives", "fires at\nb", "votes"), strict=True):
        row[0].set_ylabel(label)
    return panels[0, 0]


@checked
def spectrum(
    fine: Float[Tensor, " freq"],
    pooled: Float[Tensor, " freq"],
    share: Float[Tensor, " neuron"],
    shuffled: Float[Tensor, " neuron"],
) -> Axes:
    """Left: the share of all curves' variance that a wave of each frequency explains. Right: each curve's best wave."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.3), width_ratios=[1.7, 1])
    left.plot(fine, pooled, color=BLUE)
    inner = pooled[1:-1]  # its peaks, without ripples below 0.035
    for peak in fine[1:-1][(inner > pooled[:-2]) & (inner > pooled[2:]) & (inner > 0.035)].tolist():
        left.annotate(f"{peak:g}", (peak, float(pooled[fine == peak])), ha="center", va="bottom")
    left.set(title="Which waves are in the curves?", xlabel="frequency: periods in 128 values")
    left.set(ylabel="share of variance explained", ylim=(0, 1.15 * float(pooled.max())))
    bins = torch.arange(0, 1.01, 0.05).tolist()
    right.hist(shuffled.tolist(), bins, label="tokens shuffled", color=GREY, hatch=HATCHES[1], alpha=0.7)
    right.hist(share.tolist(), bins, label="the model's neurons", color=BLUE, alpha=0.7)
    right.set(title="How much of a curve is one wave?", xlabel="share of its best wave", ylabel="neurons")
    right.legend(fontsize=8)
    return left


@checked
def phases(found: Sequence[tuple[Float[Tensor, " _neuron"], ...]]) -> Axes:
    """The phase of the votes against the phase of the curve, in turns: above of each model, below of a control.

    Each model gives the curves' phases, the votes', the votes' of a partner, and frequencies: those above 25 are its
    finest ruler. The grey lines are twice the phase, up to whole turns.
    """
    _, panels = plt.subplots(2, len(found), figsize=(1.8 * len(found), 4.2), sharex=True, sharey=True, squeeze=False)
    turn = torch.tensor([-0.5, 0.5])
    for seed, (came, own, partner, f) in enumerate(found):
        panels[0, seed].set_title(f"seed {seed}" + (" (ours)" if seed == 0 else ""))
        panels[1, seed].set_xlabel("phase of the curve")
        for axes, went in zip(panels[:, seed], (own, partner), strict=True):
            for fine, label in ((False, "other rulers"), (True, "finest ruler")):
                x, y = (z[(f > 25) == fine] / (2 * torch.pi) for z in (came, went))
                axes.plot(x, y, MARKERS[fine], color=COLOURS[fine], ms=3.6, label=label)
            for k in (-1, 0, 1):
                axes.plot(turn, 2 * turn + k, color=GREY, lw=0.8, zorder=0)
            axes.set(ylim=(-0.53, 0.53), xticks=[-0.5, 0, 0.5], yticks=[-0.5, 0, 0.5])
    panels[0, 0].set_ylabel("its own votes")
    panels[1, 0].set_ylabel("a partner's votes")
    panels[0, -1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(-0.1, 1.5), ncols=2)
    return panels[0, 0]


@checked
def misses(counts: Mapping[str, tuple[int, Float[Tensor, " off"], Float[Tensor, " off"], bool]]) -> Axes:
    """Errors by size without each ruler: (what was foretold, pairs off by 0, 1, …, the same at random, the verdict).

    Both as a share of all errors. The triangle marks what was foretold, and the text says what came.
    """
    _, panels = plt.subplots(len(counts), 1, figsize=(9.6, 1.3 * len(counts) + 0.5), sharex=True, squeeze=False)
    for axes, (title, (foretold, without, control, holds)) in zip(panels[:, 0], counts.items(), strict=True):
        shares = [count[1:] / count[1:].sum().clamp(min=1) for count in (without, control)]
        for share, colour, way in zip(shares, (ORANGE, GREY), (1, -1), strict=True):
            axes.bar(range(1, len(without)), way * share, width=1.0, color=colour, hatch=HATCHES[0 if way > 0 else 1])
        axes.plot(foretold, 1.12, "v", color="black", ms=7, clip_on=False)
        axes.axhline(0, color="black", lw=0.8)
        axes.set(ylim=(-0.6, 1.1), yticks=[-0.5, 0, 0.5, 1], xlim=(0, 128))
        axes.set_yticklabels(["50 %", "0", "50 %", "100 %"], fontsize=8)
        here, there = (float(share[foretold - 1]) for share in shares)
        words = f"foretold {foretold}, most common {int(shares[0].argmax()) + 1}\n"
        words += f"off by {foretold}: {here:.0%} of {int(without[1:].sum()):,} errors; at random: {there:.0%}"
        axes.text(126, 1.0, f"{title}  {'✓' if holds else '✗'}", ha="right", va="top", weight="bold")
        axes.text(126, 0.65, words, ha="right", va="top", fontsize=9)
    panels[0, 0].set_title(
        "How far are the errors off?  (up: without the ruler; down: as many neurons at random)", pad=14
    )
    panels[-1, 0].set_xlabel("off by          (▼ foretold from frequencies and heights)")
    return panels[0, 0]


@checked
def verdicts(models: Sequence[tuple[list[float], list[bool]]]) -> Axes:
    """Which rulers each model has, on an axis on which doubling is a step of one width, and which predictions held."""
    _, axes = plt.subplots(figsize=(9.6, 0.62 * len(models) + 0.9))
    for row, (frequencies, held) in enumerate(models):
        axes.axhline(-row, color=GREY, lw=0.6, zorder=0)
        for f, holds in zip(frequencies, held, strict=True):
            colour = BLUE if holds else ORANGE
            axes.plot(f, -row, "o" if holds else "X", ms=13, color=colour, mfc=colour if holds else "white", mew=1.6)
            axes.text(f, 0.24 - row, "slopes" if f < 2 else f"{f:.1f}", ha="center", va="bottom", fontsize=9)
    axes.plot([], [], "o", color=BLUE, label="the prediction held")
    axes.plot([], [], "X", color=ORANGE, mfc="white", mew=1.6, label="it failed")
    axes.legend(ncols=2, loc="upper right", bbox_to_anchor=(1, 1.24))
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.5, 1, 2, 4, 8, 16, 32, 64], ["½", "1", "2", "4", "8", "16", "32", "64"])
    axes.set_yticks([-row for row in range(len(models))], [f"seed {row}" for row in range(len(models))])
    axes.set(title="Which rulers has each model?", xlabel="frequency: periods in 128 values", ylim=(-len(models), 0.7))
    return axes


@checked
def kept(
    sizes: Sequence[int],
    rates: Float[Tensor, "seed size kind"],
    kinds: Sequence[str],
    rest: Float[Tensor, " value"],
) -> Axes:
    """Left: right answers by the number of waves kept, for each seed. Right: what 8 waves leave over of each value.

    The first seed is drawn thick, and the right panel is about it alone.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4))
    for seed in range(len(rates)):
        look = {"lw": 2.2, "marker": "o", "ms": 4} if seed == 0 else {"lw": 0.6}
        for i, kind in enumerate(kinds):
            style = look | {"color": COLOURS[i], "linestyle": LINES[i]}
            left.plot(sizes, rates[seed, :, i], label=kind if seed == 0 else None, **style)
    right.plot(rest, color=BLUE, lw=1.6)
    left.set(title="How many pairs are right with k waves?", xlabel="k", ylabel="share of pairs", xticks=sizes)
    left.legend(fontsize=8, loc="center right")
    right.set(title="What do 8 waves leave over (ours)?", xlabel="value of a number", ylim=(0, 1.1 * float(rest.max())))
    right.set_ylabel("squared rest ÷ mean variance")
    return left


@checked
def fibonacci(attention: Sequence[Float[Tensor, " _pos"]]) -> Axes:
    """What the last position pays to each position, for sequences of each length; the last two stand out."""
    _, panels = plt.subplots(1, len(attention), figsize=(9.6, 2.6), sharey=True, squeeze=False)
    for axes, row in zip(panels[0], attention, strict=True):
        n = len(row)
        bars = axes.bar([str(i) for i in range(n)], row, color=[GREY] * (n - 2) + [BLUE] * 2)
        for bar in bars[: n - 2]:
            bar.set_hatch(HATCHES[1])
        axes.set(title=f"length {n}", xlabel="position")
    panels[0, 0].set_ylabel("attention of the last")
    panels[0, 0].figure.suptitle("Where does the last number look?")
    return panels[0, 0]


@checked
def which_two(results: Mapping[str, Mapping[str, Sequence[float]]]) -> Axes:
    """For each change to a sequence and each length from 3 to 5: what share of the answers are what."""
    _, panels = plt.subplots(1, len(results), figsize=(9.6, 2.9), sharey=True, squeeze=False)
    for axes, (title, shares) in zip(panels[0], results.items(), strict=True):
        for i, (label, values) in enumerate(shares.items()):
            places = torch.arange(len(values)) + 0.4 * i - 0.2
            axes.bar(places, values, width=0.38, color=COLOURS[i], hatch=HATCHES[i], label=label)
        axes.set(title=title, xlabel="length", xticks=[0, 1, 2], xticklabels=["3", "4", "5"], ylim=(0, 1.3))
        axes.legend(fontsize=8, ncols=2, loc="upper center")
    panels[0, 0].set_ylabel("share of answers")
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
