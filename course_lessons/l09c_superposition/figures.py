"""What only lesson 09c draws: features as arrows and what they cost each other, neurons on text."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.colors
import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, HATCHES, LINES
from course_utils.text import visible

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]
Stars = Float[Tensor, "model feature 2"]
Planes = Mapping[str, Float[Tensor, "_feature 2"]]
Spikes = Mapping[str, Sequence[Float[Tensor, " _axis"]]]
Fires = Float[Tensor, " place"]
Where = Bool[Tensor, " place"]
Series = Mapping[str, Sequence[float]]
ALT = plots.alt_texts(__file__)


def _arrow(axes: Axes, feature: int, end: Sequence[float], named_at: Sequence[float]) -> None:
    arrow = {
        "arrowstyle": "-|>",
        "color": COLOURS[feature % len(COLOURS)],
        "lw": 2,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    axes.annotate("", (end[0], end[1]), (0, 0), arrowprops=arrow)
    if math.hypot(*named_at) > 0.5:
        axes.text(1.2 * named_at[0], 1.2 * named_at[1], str(feature), ha="center", va="center")


def arrows(W: Stars, titles: Sequence[str]) -> None:
    """Each feature as an arrow from the centre of a plane, one panel for each model.

    Those next to 0 are not named.
    """
    rows = -(-len(W) // 3)
    for axes, directions in plots.panels(
        dict(zip(titles, W, strict=True)), (9.6, 3.8 * rows), rows=rows
    ):
        axes.add_patch(plt.Circle((0, 0), 1, fill=False, color=GREY, lw=0.6))
        for feature, end in enumerate(directions.tolist()):
            _arrow(axes, feature, end, end)
        missing = int((directions.norm(dim=1) <= 0.5).sum())
        axes.text(0, -1.9, f"{missing or 'none'} left out", ha="center")
        axes.set(xlim=(-1.7, 1.7), ylim=(-2.0, 1.6), aspect="equal")
        axes.axis("off")


def few(
    planes: Mapping[int, tuple[Tensor, Tensor]],
    losses: Sequence[Sequence[float]],
    sizes: Sequence[int],
) -> None:
    """Features as arrows and examples as dots, for two numbers of examples; the loss on new ones.

    The loss has a line for each seed.
    """
    _, panels = plt.subplots(
        1, len(planes) + 1, figsize=(10.4, 3.6), width_ratios=[1] * len(planes) + [1.25]
    )
    for axes, (count, (W, places)) in zip(panels, planes.items(), strict=False):
        for x, y in W.tolist():
            axes.plot(
                [0, x],
                [0, y],
                color=BLUE,
                lw=1.6,
                label="features" if (x, y) == tuple(W[0].tolist()) else None,
            )
        axes.plot(
            *places[:200].T,
            "o",
            color=ORANGE,
            ms=9 if count < 9 else 4,
            alpha=0.6,
            label="examples",
        )
        axes.set(
            title=f"trained on {count} examples", xlim=(-1.8, 1.8), ylim=(-1.8, 1.8), aspect="equal"
        )
        axes.axis("off")
    panels[0].legend(fontsize=9, ncols=2, loc="lower center", bbox_to_anchor=(0.5, -0.12))
    says = "Loss on new examples", "examples in training", "loss (1: always 0)"
    lines = {f"seed {seed}": loss for seed, loss in enumerate(losses, 1)}
    scale: Any = {"xscale": "log", "xticks": sizes, "xticklabels": sizes}
    plots.curves(lines, *says, x=sizes, markers=True, axes=panels[-1], **scale).minorticks_off()
    panels[-1].axhline(1, color=GREY, lw=0.8, ls=":")


def prices(densities: Sequence[float], losses: Series) -> None:
    """The loss per feature that is on, by the density (logarithmic), one line for each model."""
    says = "What does it cost?", "density: how often a feature is on", "loss per feature that is on"
    scale: Any = {
        "x": densities,
        "xscale": "log",
        "xticks": densities,
        "xticklabels": map("{:g}".format, densities),
    }
    plots.curves(
        losses, *says, markers=True, figsize=(9.6, 4.4), ylim=(0, None), **scale
    ).minorticks_off()


def diagram(
    W: Float[Tensor, "density count 2"],
    densities: Sequence[float],
    counts: Sequence[float],
    guess: str,
) -> None:
    """What one dimension keeps of two features, by density and by how much the second counts.

    Densities are rows; a guess lies on it.
    """
    kept = W.abs() > 0.5
    table = kept[..., 0].int() + 2 * kept[..., 1].int()  # 1 the first, 2 the second, 3 both
    axes = plt.subplots(figsize=(8.4, 4.6))[1]
    axes.imshow(
        table,
        matplotlib.colors.ListedColormap(["white", "#c6dbef", "#fdd0a2", "#74c476"]),
        vmin=0,
        vmax=3,
    )
    mine = [row.split() for row in guess.strip().splitlines()]
    for i, row in enumerate(table.tolist()):
        for j, what in enumerate(row):
            said = mine[i][j] if i < len(mine) and j < len(mine[i]) else "?"
            axes.text(
                j,
                i,
                f"{('none', 'first', 'second', 'both')[what]}\n(you: {said})",
                ha="center",
                va="center",
            )
    axes.set_xticks(range(len(counts)), map("{:g}".format, counts))
    axes.set_yticks(range(len(densities)), [f"{density:.0%}" for density in densities])
    says = (
        "What does one dimension keep of two features?",
        "how much the second counts (the first: 1)",
        "density",
    )
    axes.set(title=says[0], xlabel=says[1], ylabel=says[2])


def found(
    likes: Mapping[str, Float[Tensor, "unit 24"]], fired: Mapping[str, Float[Tensor, " two"]]
) -> None:
    """How like each planted feature the units are, and how often a parent's unit fires.

    Units are sorted: feature by feature, the one that matches it best.
    """
    _, panels = plt.subplots(
        1, len(likes) + 1, figsize=(10.4, 4.4), width_ratios=[1] * len(likes) + [0.85]
    )
    for axes, (title, like) in zip(panels, likes.items(), strict=False):
        left, order = like.clone(), []
        for feature in range(24):
            order.append(int(left[:, feature].argmax()))
            left[order[-1]] = -2  # each unit once
        axes.imshow(like[order].T, "RdBu_r", vmin=-1, vmax=1)
        for edge in (11.5, 14.5):
            axes.axhline(edge, color=GREY, lw=0.8)
        axes.set_yticks([5.5, 13, 19], ["alone", "parents", "children"], rotation=90, va="center")
        axes.set(title=title, xlabel="direction in the dictionary", xticks=[])
    panels[0].set_ylabel("planted feature")
    names = ["without a child", "with a child"]
    plots.grouped_bars(
        {name: two.tolist() for name, two in fired.items()},
        names,
        "The parent is on",
        "its unit fires",
        axes=panels[-1],
    )
    panels[-1].set_ylim(0, 1.25)


def interference(W: Stars, titles: Sequence[str]) -> None:
    """What features that are on (rows) say about others (columns), by their angles.

    Those left out stand at the end.
    """
    panels = plt.subplots(1, len(W), figsize=(3.6 * len(W), 3.4), squeeze=False)[1][0]
    for axes, directions, title in zip(panels, W, titles, strict=True):
        angle = torch.atan2(directions[:, 1], directions[:, 0]) % (2 * math.pi)
        order = (angle + 10 * (directions.norm(dim=1) <= 0.5)).argsort()
        table = (directions @ directions.T)[order][:, order]
        names = [str(i) for i in order.tolist()]
        says = title, "feature that is on", "feature read"
        plots.heatmap(
            table, names, names, *says, centred=True, limit=1.5, numbers_from=0.0, axes=axes
        )


def cut(before: Planes, after: Planes, values: Mapping[str, Float[Tensor, " _feature"]]) -> None:
    """Directions before and after feature 0 was cut out, and what each feature comes back as.

    Before is dotted.
    """
    _, panels = plt.subplots(
        2, len(before), figsize=(4.7 * len(before), 6.2), squeeze=False, height_ratios=[1.3, 1]
    )
    for (upper, lower), (title, directions) in zip(panels.T, before.items(), strict=True):
        for i, (old, new) in enumerate(
            zip(directions.tolist(), after[title].tolist(), strict=True)
        ):
            upper.plot([0, old[0]], [0, old[1]], color=COLOURS[i % len(COLOURS)], ls=":")
            _arrow(upper, i, new, old)
        upper.set(title=title, xlim=(-1.5, 1.5), ylim=(-1.4, 1.4), aspect="equal")
        upper.axis("off")
        said = {f"feature {i}": value for i, value in enumerate(values[title].tolist())}
        plots.bars(said, "", "comes back, if it is on, as", axes=lower).set_xlim(0, 1.2)


def squeeze() -> None:
    """The toy: five features, two dimensions, five read back with the same directions.

    One feature is on.
    """
    _, axes = plt.subplots(figsize=(9.6, 2.9))
    for i, y in enumerate((2.2, 1.65, 1.1, 0.55, 0.0)):
        line, inside, text, width = (
            (ORANGE, ORANGE, "white", 2) if i == 3 else (GREY, "white", "black", 0.7)
        )
        for middle in (1.6, 0.6):
            axes.plot(
                [0.6, 4.0, 7.4], [y, middle, y], color=line, lw=width, zorder=width, aa=i == 3
            )
        axes.plot([0.6, 7.4], [y, y], "o", ms=17, color=inside, mec=line, zorder=3)
        for x in (0.6, 7.4):
            axes.text(x, y, str(i), ha="center", va="center", color=text, zorder=4)
    axes.plot([4.0, 4.0], [1.6, 0.6], "s", ms=19, color="white", mec="black", zorder=3)
    words = {
        "x: five features": (0.6, 2.6),
        "h: two dimensions": (4.0, 2.6),
        "what is read back": (7.4, 2.6),
    }
    words |= {"W": (2.3, -0.4), "$W^T$, + b, ReLU": (5.7, -0.4)}
    for said, (x, y) in words.items():
        axes.text(x, y, said, ha="center", va="bottom", fontsize=12)
    axes.set(xlim=(-0.5, 8.5), ylim=(-0.5, 2.9))
    axes.axis("off")


LETTERS = 96  # in a line of an example


def _line(axes: Axes, row: float, words: Sequence[str], fires: Fires, place: int) -> None:
    """Text with the token at `place` in the middle.

    A token's ground and underline are as strong as it fires.
    """
    shown, strength = [visible(word) for word in words], fires.clamp(min=0) / fires.max()
    start = place
    while start > 0 and len("".join(shown[start - 1 : place])) <= 0.62 * LETTERS:
        start -= 1
    left = 0.62 * LETTERS - len("".join(shown[start:place]))
    look: Any = {
        "ha": "center",
        "va": "center",
        "family": "monospace",
        "fontsize": 10.5,
        "parse_math": False,
    }
    for token, share in zip(shown[start:], strength[start:].tolist(), strict=True):
        if (right := left + len(token)) > LETTERS:
            break
        axes.add_patch(
            plt.Rectangle(
                (left, row - 0.42), len(token), 0.84, color=ORANGE, alpha=0.75 * share, lw=0
            )
        )
        if share > 0.05:
            axes.plot(
                [left, right], [row + 0.44] * 2, color="black", lw=4 * share, solid_capstyle="butt"
            )
        for k, letter in enumerate(token):
            axes.text(left + k + 0.5, row, letter, **look)
        left = right


def examples(words: Sequence[str], fires: Fires, where: Sequence[int], title: str) -> None:
    """Pieces of a text around some places, below each other.

    Ground and underline show how strongly a neuron fires.
    """
    _, axes = plt.subplots(figsize=(9.6, 0.4 + 0.38 * len(where)))
    for row, place in enumerate(where):
        _line(axes, row, words, fires, place)
    axes.set(xlim=(0, LETTERS), ylim=(len(where) - 0.4, -0.7), title=title)
    axes.axis("off")


def neurons(
    parts: Mapping[str, str], trained: Spikes, untrained: Spikes, gains: Float[Tensor, " neuron"]
) -> None:
    """Kurtosis along neurons and along rotated axes; what single neurons are worth.

    There is a panel for each of the `parts`.
    """
    _, panels = plt.subplots(1, len(parts) + 1, figsize=(9.8, 4.5))
    look: Any = {
        "showfliers": False,
        "patch_artist": True,
        "widths": 0.6,
        "medianprops": {"color": "black"},
    }
    for axes, (title, name) in zip(panels, parts.items(), strict=False):
        boxes = [box.numpy() for box in (*trained[name], *untrained[name])]
        for i, patch in enumerate(axes.boxplot(boxes, **look)["boxes"]):
            patch.set(facecolor=(ORANGE, GREY)[i % 2], alpha=0.7, hatch=HATCHES[i % 2])
        axes.set_xticks(range(1, 5), ["neurons", "rotated", "neurons", "rotated"], fontsize=8.5)
        axes.set(title=title, xlabel="trained          untrained")
    panels[0].set_ylabel("excess kurtosis")
    panels[-1].plot(gains.sort().values, "o", ms=3, color=BLUE)
    panels[-1].axhline(0, color=GREY, lw=0.8)
    panels[-1].set(
        title="One neuron off: how much the loss rises",
        xlabel="64 neurons, in order",
        ylabel="nats",
    )


def judgement(
    levels: Sequence[float], curve: Float[Tensor, "level 2"], fires: Fires, rule: Where
) -> None:
    """How good a rule is by the level from which firing counts; how strongly, by the rule.

    Left are precision and recall.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(9.8, 4.6))
    names = "of the rule's places, how many fire", "of what fires, how much the rule names"
    says = (
        "Is neuron 49 about that? (the new half)",
        "firing counts from (share of the largest)",
        "share",
    )
    two = dict(zip(names, curve.T, strict=True))
    plots.curves(
        two,
        *says,
        x=levels,
        markers=True,
        axes=left,
        ylim=(-0.03, 1.35),
        yticks=[0, 0.25, 0.5, 0.75, 1],
    )
    at, bins = fires > 0, torch.linspace(0, float(fires.max()), 24).tolist()
    for i, (name, where) in enumerate(
        {"elsewhere": at & ~rule, "where the rule says": at & rule}.items()
    ):
        right.hist(
            fires[where].tolist(),
            bins,
            histtype="step",
            lw=2,
            ls=LINES[i],
            color=(GREY, ORANGE)[i],
            label=name,
        )
    title = f"Where it fires: {int(at.sum()):,} of {len(fires):,} places"
    right.set(title=title, xlabel="activation", ylabel="places", yscale="log")
    right.legend(fontsize=9)


def dictionary(recovered: Mapping[str, float], left_over: Mapping[str, float]) -> None:
    """What comes back of the MLP's work, and what is left over of the variance.

    Both are bars with their numbers.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.3), width_ratios=[1.5, 1])
    plots.bars(recovered, "How much of the MLP's work comes back?", "share", axes=left)
    plots.bars(left_over, "How much variance is left over?", "share", list(left_over), axes=right)


def side_by_side(
    words: Sequence[str], units: Mapping[str, Fires], where: Sequence[int], fits: Series
) -> None:
    """The same pieces of text for each of several units.

    Below, how well each fits a rule on two halves of a text.
    """
    height = 0.38 * len(units) * len(where)  # of the text, in inches
    _, (upper, lower) = plt.subplots(
        2, 1, figsize=(9.8, height + 3.6), height_ratios=[height + 0.5, 2.6]
    )
    step = len(where) + 1.2
    for i, (name, fires) in enumerate(units.items()):
        upper.text(0, i * step, name, ha="left", va="center", fontweight="bold")
        for row, place in enumerate(where, 1):
            _line(upper, i * step + row, words, fires, place)
    upper.set(xlim=(0, LETTERS), ylim=(len(units) * step - 0.5, -0.7), title="Where do they fire?")
    upper.axis("off")
    halves = dict(
        zip(
            ("half on which they were chosen", "new half"),
            zip(*fits.values(), strict=True),
            strict=True,
        )
    )
    names = [textwrap.fill(name, 18) for name in fits]
    plots.grouped_bars(
        halves, names, "Which fits the rule best?", "fit of the rule (F1)", numbers=True, axes=lower
    )
    lower.set_ylim(0, 1.35)
    lower.legend(fontsize=8, loc="upper right")


draws_in_style(__name__)
