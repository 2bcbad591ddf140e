"""What only lesson 09b draws: learning late, features as arrows and what they cost each other, neurons on text."""

import math
import textwrap
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils.plots import COLOURS, HATCHES, LINES, MARKERS, written
from course_utils.text import visible

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]
ALT = {  # what the figures show, in words: here, so that no cell under a prediction prints its answer
    "decay": "The same two panels to step 1,000, other pairs for three seeds. With weight decay their loss falls "
    "steeply between steps 400 and 700. Without, it goes on rising.",
    "waves": "Four losses over the steps. That of other pairs falls late, that of the key waves alone long before. The "
    "next strongest waves alone stay high. Without the key waves the training pairs, at first known, are lost again.",
    "clock": "Models by two measures. The pizza stands at the lower right, the clock at the upper left. Models that "
    "add well stand at the right edge, half-way up or higher; those that know by heart in the middle at the top, the "
    "untrained one further left.",
    "most": "Three tables of what each feature that is on says about all five, in the order of the star. At the left, "
    "with four features kept, 0.8 for itself and minus 0.8 for its opposite. At the right 1.4 for itself, 0.4 for two "
    "neighbours and minus 1.1 for the two others.",
    "pairs": "Loss against density for three models. The pentagon by hand gets dearer with density, the model without "
    "a ReLU cheaper; their lines cross. The trained models lie below both, next to the pentagon at the sparse end and "
    "next to the other at the dense end.",
    "cut": "Above, arrows before and after the cut: the pentagon's come to lie on one line, two are short. Below, what "
    "each comes back as. In the pentagon feature 0 is gone, its neighbours lose a little, the others nearly all. Of "
    "two features the other is untouched.",
    "twenty": "A dot for each feature at the share of a dimension that it has, by density. In two dimensions they fall "
    "from two thirds to two fifths, in five from scattered values to about a quarter.",
    "spiky": "Excess kurtosis along neurons and along rotated axes, trained and untrained. Before the ReLU they hardly "
    "differ; after it the trained model's neurons are far spikier than anything else. Right, how much the loss rises "
    "when one neuron is off: for most next to nothing.",
    "fires": "Left, by the level from which firing counts: at the rule's places it fires, then at few; of what fires "
    "the rule names a tenth, then most. Right, two outlines: what is weak is elsewhere.",
    "fires a little": "Six lines of code, at their middle a place where the neuron fires at 10 to 40 % of its "
    "largest value: words in the head of a function, and others that are not.",
    "sae": "Left, the share of the MLP's work that comes back: 16 features most of it, 16 neurons three quarters, 32 "
    "neurons nine tenths, the mean a third. Right, the variance left over: less for an untrained model.",
    "sae feature": "Above, two pieces of code, twice: marked where neuron 49 fires, and where the best feature does, "
    "which is at the self. Below, how well neuron, feature, random direction and untrained feature fit the rule on "
    "both halves: all lose on the new one, the feature stays best.",
}


def arrows(W: Float[Tensor, "model feature 2"], titles: Sequence[str]) -> Axes:
    """Each feature as an arrow from the centre of a plane, one panel for each model; those next to 0 are named."""
    rows = -(-len(W) // 3)
    _, panels = plt.subplots(rows, 3, figsize=(9.6, 3.8 * rows), squeeze=False)
    for axes in panels.flat[len(W) :]:
        axes.axis("off")
    for axes, directions, title in zip(panels.flat, W, titles, strict=False):
        axes.add_patch(plt.Circle((0, 0), 1, fill=False, color=GREY, lw=0.6))
        for feature, (x, y) in enumerate(directions.tolist()):
            arrow = {"arrowstyle": "-|>", "color": COLOURS[feature % len(COLOURS)], "lw": 2, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
            if x * x + y * y > 0.25:
                axes.text(1.25 * x, 1.25 * y, str(feature), ha="center", va="center", fontsize=11)
        missing = int((directions.norm(dim=1) <= 0.5).sum())
        axes.text(0, -1.9, f"{missing} left out" if missing else "none left out", ha="center", fontsize=10)
        axes.set(title=title, xlim=(-1.7, 1.7), ylim=(-2.0, 1.6), aspect="equal")
        axes.axis("off")
    return panels[0, 0]


def prices(densities: Sequence[float], losses: Mapping[str, Sequence[float]]) -> Axes:
    """The loss per feature that is on, against the density (logarithmic), one line for each model."""
    _, axes = plt.subplots(figsize=(9.6, 4.4))
    for i, (name, values) in enumerate(losses.items()):
        axes.plot(densities, values, marker=MARKERS[i], ls=LINES[i], color=COLOURS[i], label=name)
    axes.set(
        xscale="log", ylim=(0, None), xlabel="density: how often a feature is on", ylabel="loss per feature that is on"
    )
    axes.set_xticks(list(densities), [f"{density:g}" for density in densities])
    axes.minorticks_off()
    axes.set_title("What does it cost?")
    axes.legend(fontsize=8)
    return axes


def sharing(models: Mapping[str, tuple[Sequence[float], Float[Tensor, "_density _feature"]]]) -> Axes:
    """How much of a dimension each feature has for itself, by density: densities and shares for each panel."""
    _, panels = plt.subplots(1, len(models), figsize=(4.9 * len(models), 4.6), sharey=True, squeeze=False)
    for axes, (title, (densities, shares)) in zip(panels[0], models.items(), strict=True):
        for place, features in enumerate(shares):
            spread = place + torch.linspace(-0.25, 0.25, len(features))
            axes.plot(spread, features.sort().values, "o", ms=4, color=BLUE, alpha=0.8)
        for share, name in ((1.0, "a dimension of its own"), (0.5, "two opposites"), (0.4, "a pentagon")):
            axes.axhline(share, color=ORANGE, lw=0.8, ls="--")
            axes.text(len(densities) - 0.5, share + 0.01, name, ha="right", va="bottom", fontsize=8)
        axes.set_xticks(range(len(densities)), [f"{density:g}" for density in densities])
        axes.set(title=title, xlabel="density", ylim=(-0.03, 1.1))
    panels[0, 0].set_ylabel("share of a dimension")
    return panels[0, 0]


def interference(W: Float[Tensor, "model feature 2"], titles: Sequence[str]) -> Axes:
    """What each feature that is on (rows) says about every feature (columns), before bias and ReLU.

    Features stand in the order of their angles, those that are left out (shorter than 0.5) at the end.
    """
    _, panels = plt.subplots(1, len(W), figsize=(3.4 * len(W), 3.9), squeeze=False)
    for axes, directions, title in zip(panels[0], W, titles, strict=True):
        angle = torch.atan2(directions[:, 1], directions[:, 0]) % (2 * math.pi)
        order = (angle + 10 * (directions.norm(dim=1) <= 0.5)).argsort()
        table = (directions @ directions.T)[order][:, order]
        axes.imshow(table, cmap=plt.get_cmap("RdBu_r", 13), vmin=-1.5, vmax=1.5)
        for row in range(len(table)):
            for column in range(len(table)):
                value = float(table[row, column])
                colour = "white" if abs(value) > 0.6 else "black"
                shown = written(value, ".1f")
                axes.text(column, row, shown, ha="center", va="center", fontsize=11, color=colour)
        axes.set(title=title, xlabel="feature read")
        axes.set_xticks(range(len(table)), order.tolist())
        axes.set_yticks(range(len(table)), order.tolist())
    panels[0, 0].set_ylabel("feature that is on")
    return panels[0, 0]


def cut(
    before: Mapping[str, Float[Tensor, "_feature 2"]],
    after: Mapping[str, Float[Tensor, "_feature 2"]],
    values: Mapping[str, Float[Tensor, " _feature"]],
) -> Axes:
    """Directions before (dotted) and after feature 0 was cut out, and what each feature then comes back as."""
    _, panels = plt.subplots(2, len(before), figsize=(4.7 * len(before), 6.2), squeeze=False, height_ratios=[1.3, 1])
    for (upper, lower), (title, directions) in zip(panels.T, before.items(), strict=True):
        for i, (old, new) in enumerate(zip(directions.tolist(), after[title].tolist(), strict=True)):
            colour = COLOURS[i % len(COLOURS)]
            upper.plot([0, old[0]], [0, old[1]], color=colour, ls=":")
            upper.text(1.15 * old[0], 1.15 * old[1], str(i), ha="center", va="center")
            arrow = {"arrowstyle": "-|>", "color": colour, "lw": 2.5, "shrinkA": 0, "shrinkB": 0}
            upper.annotate("", new, (0, 0), arrowprops=arrow)
        upper.set(title=title, xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal")
        upper.axis("off")
        bars = lower.bar(range(len(directions)), values[title].tolist(), 0.6, color=COLOURS[: len(directions)])
        lower.bar_label(bars, fmt="%.2f")
        lower.axhline(1, color=GREY, lw=0.8, ls="--")
        lower.set(xlabel="feature that is on", ylim=(0, 1.2), xlim=(-0.6, 4.6), xticks=range(len(directions)))
    panels[1, 0].set_ylabel("comes back as")
    return panels[0, 0]


def squeeze() -> Axes:
    """The toy: five features, two dimensions, five read back with the same directions; one feature is on."""
    _, axes = plt.subplots(figsize=(9.6, 2.9))
    heights = [2.2, 1.65, 1.1, 0.55, 0.0]
    for i, y in enumerate(heights):
        on = i == 3
        for middle in (1.6, 0.6):
            axes.plot(
                [0.6, 4.0, 7.4], [y, middle, y], color=ORANGE if on else GREY, lw=2 if on else 0.7, zorder=1 + on, aa=on
            )
        for x in (0.6, 7.4):
            axes.plot([x], [y], "o", ms=17, color=ORANGE if on else "white", mec=ORANGE if on else GREY, zorder=3)
            axes.text(x, y, str(i), ha="center", va="center", color="white" if on else "black", zorder=4)
    axes.plot([4.0, 4.0], [1.6, 0.6], "s", ms=19, color="white", mec="black", zorder=3, ls="")
    for x, text in ((0.6, "x: five features"), (4.0, "h: two dimensions"), (7.4, "what is read back")):
        axes.text(x, 2.6, text, ha="center", va="bottom", fontweight="bold")
    for x, text in ((2.3, "W"), (5.7, "$W^T$, + b, ReLU")):
        axes.text(x, -0.1, text, ha="center", va="top", fontsize=12)
    axes.set(xlim=(-0.5, 8.5), ylim=(-0.5, 2.9))
    axes.axis("off")
    return axes


# Learnt late


def _guessing(axes: Axes, end: int) -> None:
    axes.axhline(math.log(53), color=GREY, lw=0.8, ls=":")
    axes.text(end, math.log(53), "guessing", ha="right", va="bottom", fontsize=8)


def learning(runs: Mapping[str, Sequence[Mapping]], until: int | None = None, waves: bool = False) -> Axes:
    """Losses of runs over the steps, a panel for each group; `until` hides what is later, `waves` adds key waves."""
    _, panels = plt.subplots(1, len(runs), figsize=(max(9.0, 4.9 * len(runs)), 3.9), sharey=True, squeeze=False)
    for axes, (title, group) in zip(panels[0], runs.items(), strict=True):
        for i, run in enumerate(group):
            steps = torch.arange(len(run["test_loss"])) * run["every"]
            shown = len(steps) if until is None else int((steps <= until).sum())
            for name, colour, style in (("test", ORANGE, "-"), ("train", BLUE, "--")):
                label = f"{name}ing pairs".replace("testing", "other") if i == 0 else None
                if name == "train" and i > 0:
                    continue  # all seeds learn their training pairs alike
                axes.plot(steps[:shown], run[f"{name}_loss"][:shown], color=colour, ls=style, label=label)
            if waves:
                axes.plot(steps, run["restricted_loss"], color=COLOURS[2], ls="-.", label="key waves alone, all pairs")
        _guessing(axes, int(steps[-1]))
        axes.set(title=title, xlabel="training step", yscale="log", xlim=(0, int(steps[-1])), ylim=(1e-4, 100))
        axes.minorticks_off()
    panels[0, 0].set_ylabel("loss, nats")
    panels[0, 0].legend(loc="lower left", fontsize=9)
    return panels[0, 0]


def progress(steps: Sequence[int], losses: Mapping[str, Float[Tensor, " _time"]]) -> Axes:
    """Losses over the steps of training, one line for each part of the logits."""
    _, axes = plt.subplots(figsize=(9.6, 5.0))
    for i, (name, values) in enumerate(losses.items()):
        axes.plot(steps, values, color=COLOURS[i], ls=LINES[i], label=name)
    _guessing(axes, steps[-1])
    axes.set(title="What grows while nothing seems to happen?", xlabel="training step", ylabel="loss, nats")
    axes.set(ylim=(0, 14), xlim=(0, steps[-1]))
    axes.legend(fontsize=9)
    return axes


def loudness(tables: Mapping[str, Float[Tensor, "a b"]]) -> Axes:
    """The right answer's logit by the difference of the operands (across) and their sum (upwards), each from its mean.

    Each panel has a scale of its own: white is the mean, the strongest colour two and a half standard deviations.
    """
    _, panels = plt.subplots(1, len(tables), figsize=(3.4 * len(tables), 3.7), sharey=True, squeeze=False)
    for axes, (title, right) in zip(panels[0], tables.items(), strict=True):
        n = len(right)
        total, apart = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        a = (total + apart) * ((n + 1) // 2) % n  # half of the sum of both, on a clock face of odd n
        picture = right[a, (total - a) % n]
        picture = (picture - picture.mean()) / picture.std()
        axes.imshow(
            picture, origin="lower", cmap=plt.get_cmap("RdBu_r", 9), vmin=-2.5, vmax=2.5, interpolation="nearest"
        )
        axes.set(title=title, xlabel="a − b (mod 53)")
    panels[0, 0].set_ylabel("a + b (mod 53)")
    return panels[0, 0]


def places(kinds: Mapping[str, Sequence[tuple[float, float]]]) -> Axes:
    """Models by gradient symmetricity (to the right) and distance irrelevance (upwards), one marker for each kind."""
    _, axes = plt.subplots(figsize=(9.6, 4.9))
    for i, (name, models) in enumerate(kinds.items()):
        x, y = zip(*models, strict=True)
        size = 12 if MARKERS[i] == "*" else 9
        axes.plot(x, y, MARKERS[i], ms=size, ls="", color=COLOURS[i], label=name, mec="white")
    axes.set(xlim=(-0.08, 1.08), ylim=(-0.08, 1.08), title="Clock or pizza?")
    axes.set(xlabel="gradient symmetricity", ylabel="distance irrelevance")
    axes.legend(loc="lower left", fontsize=9)
    return axes


# Neurons of a language model

LETTERS = 96  # in a line of an example


def _line(axes: Axes, row: float, words: Sequence[str], strength: Float[Tensor, " place"], place: int) -> None:
    """Text with the token at `place` in the middle; a token's ground and underline are as strong as it fires."""
    shown = [visible(word) for word in words]
    tokens, at = [(place, LETTERS * 0.62)], LETTERS * 0.62
    for i in range(place - 1, -1, -1):
        at -= len(shown[i])
        if at < 0:
            break
        tokens.append((i, at))
    at = LETTERS * 0.62
    for i in range(place, len(words) - 1):
        at += len(shown[i])
        if at + len(shown[i + 1]) > LETTERS:
            break
        tokens.append((i + 1, at))
    for i, left in tokens:
        share, width = float(strength[i]), len(shown[i])
        axes.add_patch(plt.Rectangle((left, row - 0.42), width, 0.84, color=ORANGE, alpha=0.75 * share, lw=0))
        if share > 0.05:
            axes.plot([left, left + width], [row + 0.44] * 2, color="black", lw=4 * share, solid_capstyle="butt")
        for k, letter in enumerate(shown[i]):
            axes.text(
                left + k + 0.5,
                row,
                letter,
                ha="center",
                va="center",
                family="monospace",
                fontsize=10.5,
                parse_math=False,
            )


def examples(words: Sequence[str], fires: Float[Tensor, " place"], where: Sequence[int], title: str) -> Axes:
    """Pieces of a text around some places, below each other: ground and underline show how strongly a neuron fires."""
    _, axes = plt.subplots(figsize=(9.6, 0.4 + 0.38 * len(where)))
    strength = fires.clamp(min=0) / fires.max()
    for row, place in enumerate(where):
        _line(axes, row, words, strength, place)
    axes.set(xlim=(0, LETTERS), ylim=(len(where) - 0.4, -0.7), title=title)
    axes.axis("off")
    return axes


def neurons(
    parts: Mapping[str, str],
    trained: Mapping[str, Sequence[Float[Tensor, " _axis"]]],
    untrained: Mapping[str, Sequence[Float[Tensor, " _axis"]]],
    gains: Float[Tensor, " neuron"],
) -> Axes:
    """Kurtosis along neurons and along rotated axes, a panel for each of the `parts`; what single neurons are worth."""
    _, panels = plt.subplots(1, len(parts) + 1, figsize=(9.8, 4.5))
    for axes, (title, name) in zip(panels, parts.items(), strict=False):
        boxes = [*trained[name], *untrained[name]]
        drawn = axes.boxplot([box.numpy() for box in boxes], showfliers=False, patch_artist=True, widths=0.6)
        for i, patch in enumerate(drawn["boxes"]):
            patch.set(facecolor=(ORANGE, GREY)[i % 2], alpha=0.7, hatch=HATCHES[i % 2])
        for line in drawn["medians"]:
            line.set_color("black")
        axes.set_xticks(range(1, 5), ["neurons", "rotated", "neurons", "rotated"], fontsize=8.5)
        axes.set(title=title, xlabel="trained          untrained")
    panels[0].set_ylabel("excess kurtosis")
    panels[-1].plot(sorted(gains.tolist()), "o", ms=3, color=BLUE)
    panels[-1].axhline(0, color=GREY, lw=0.8)
    panels[-1].set(title="One neuron off: how much the loss rises", xlabel="64 neurons, in order", ylabel="nats")
    return panels[0]


def judgement(
    levels: Sequence[float],
    curve: Float[Tensor, "level 2"],
    fires: Float[Tensor, " place"],
    rule: Bool[Tensor, " place"],
) -> Axes:
    """Left: precision and recall of a rule by the level from which firing counts. Right: how strongly, by the rule."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9.8, 4.6))
    for i, name in enumerate(("of the rule's places, how many fire", "of what fires, how much the rule names")):
        left.plot(levels, curve[:, i], marker=MARKERS[i], ls=LINES[i], color=COLOURS[i], label=name)
    left.set(title="Is neuron 49 about that? (the new half)", xlabel="firing counts from (share of the largest)")
    left.set(ylabel="share", ylim=(-0.03, 1.35), yticks=[0, 0.25, 0.5, 0.75, 1])
    left.legend(fontsize=9, loc="upper left")
    bins = torch.linspace(0, float(fires.max()), 24).tolist()
    at = fires > 0
    for i, (name, where) in enumerate({"elsewhere": at & ~rule, "where the rule says": at & rule}.items()):
        right.hist(fires[where].tolist(), bins, histtype="step", lw=2, ls=LINES[i], color=(GREY, ORANGE)[i], label=name)
    right.set(title=f"Where it fires: {int(at.sum()):,} of {len(fires):,} places", xlabel="activation", yscale="log")
    right.set_ylabel("places")
    right.legend(fontsize=9)
    return left


def dictionary(recovered: Mapping[str, float], left_over: Mapping[str, float]) -> Axes:
    """What comes back of the MLP's work, and what is left over of the variance, as bars with their numbers."""
    _, panels = plt.subplots(1, 2, figsize=(9.6, 3.3), width_ratios=[1.5, 1])
    titles = ("How much of the MLP's work comes back?", "How much variance is left over?")
    for axes, values, title, colour in zip(panels, (recovered, left_over), titles, (BLUE, ORANGE), strict=True):
        bars = axes.barh(list(values), list(values.values()), color=colour, height=0.6)
        axes.bar_label(bars, fmt="{:.0%}", padding=3)
        axes.invert_yaxis()
        axes.set(title=title, xlim=(0, 1.1), xlabel="share")
    return panels[0]


def side_by_side(
    words: Sequence[str],
    strengths: Mapping[str, Float[Tensor, " place"]],
    where: Sequence[int],
    fits: Mapping[str, Sequence[float]],
) -> Axes:
    """The same pieces of text for each of several units; below, how well each fits a rule on two halves of a text."""
    height = 0.38 * len(strengths) * len(where)  # of the text, in inches
    _, (upper, lower) = plt.subplots(2, 1, figsize=(9.8, height + 3.6), height_ratios=[height + 0.5, 2.6])
    row = 0.0
    for name, fires in strengths.items():
        upper.text(0, row, name, ha="left", va="center", fontweight="bold")
        for place in where:
            row += 1
            _line(upper, row, words, fires.clamp(min=0) / fires.max(), place)
        row += 1.2
    upper.set(xlim=(0, LETTERS), ylim=(row - 0.5, -0.7), title="Where do they fire?")
    upper.axis("off")
    for i, label in enumerate(("half on which they were chosen", "new half")):
        at = torch.arange(len(fits)) + 0.2 * (2 * i - 1)
        values = [pair[i] for pair in fits.values()]
        bars = lower.barh(at, values, 0.38, color=COLOURS[i], hatch=HATCHES[i], label=label)
        lower.bar_label(bars, fmt="%.2f", padding=3)
    lower.set_yticks(range(len(fits)), [textwrap.fill(name, 18) for name in fits])
    lower.invert_yaxis()
    lower.set(xlim=(0, 1.35), xlabel="fit of the rule (F1)", title="Which fits the rule best?")
    lower.legend(fontsize=8, loc="lower right")
    return upper
