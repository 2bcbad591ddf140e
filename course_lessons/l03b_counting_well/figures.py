"""What only lesson 03b draws: smoothed counts, rivals, and pairs that were hidden."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

ALT = plots.alt_texts(__file__)
ByName = Mapping[str, float]


def three_words(ways: Mapping[str, tuple[Tensor, Tensor]], words: Sequence[str]) -> None:
    """Show smoothings of one row: what each word's count gives, and what it gets besides."""
    for axes, (counted, given) in plots.panels(ways, (8.8, 3.2), ylabel="probability"):
        axes.bar(words, counted, color=COLOURS[0], label="from its own count")
        bars = axes.bar(
            words,
            given,
            bottom=counted,
            color=COLOURS[1],
            hatch="///",
            label="from what is kept back",
        )
        axes.bar_label(bars, [plots.written(p) for p in (counted + given).tolist()], padding=2)
        axes.set_ylim(0, 0.85)
    axes.legend(fontsize=9)
    plots.show(
        "A cat is likeliest each time, an owl least. "
        "The owl's whole bar, and a part of the others', is kept back."
    )


def contest(over: Mapping[str, tuple[float, float]], alt: str) -> None:
    """Show what tables lose beyond the model, in nats with standard errors."""
    _, axes = plt.subplots(figsize=(8.8, 0.9 + 0.5 * len(over)))
    means, errors = zip(*over.values(), strict=True)
    axes.errorbar(
        means, list(over), xerr=errors, fmt="o", color=COLOURS[0], capsize=5, markersize=8
    )
    for i, mean in enumerate(means):
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        said = plots.written(mean, "+.3f")
        axes.annotate(said, (mean, i), (0, 9), textcoords="offset points", ha="center", bbox=box)
    axes.axvline(0, color=COLOURS[1], linewidth=1.5)
    axes.annotate(
        "the model",
        (0, 1),
        (5, -3),
        ("data", "axes fraction"),
        "offset points",
        va="top",
        color=COLOURS[1],
    )
    axes.invert_yaxis()
    axes.margins(y=0.25)
    axes.set(
        title="What does a table lose beyond the model?",
        xlabel="nats per token of new text (left: the table is better)",
    )
    axes.tick_params(axis="y", labelsize=11)
    plots.show(alt)


def kept_back(parts: Mapping[str, Sequence[float]], share: ByName) -> None:
    """Show what the model saves on a pair never seen, in two parts, and what tables leave them all.

    `share` is what they leave, in %.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.8))
    plots.bars(share, "Left to pairs never seen", "share of the probability, %", axes=left)
    names = ["by leaving them more", "by knowing which"]
    title = "What the model saves on such a pair"
    plots.grouped_bars(parts, names, title, "nats", numbers=True, axes=right)
    plt.setp(right.texts, fontsize=9)
    right.axhline(0, color="black", linewidth=0.8)
    right.margins(y=0.15)
    plots.show(ALT["kept_back"])


def leads(lead: Mapping[int, float], others: ByName) -> None:
    """Show how often a hidden pair leads the absent ones, by trained rank.

    Lines say how often it does in other tables.
    """
    axes = plt.subplots(figsize=(8.5, 4.6))[1]
    title = "Can a table tell hidden pairs from absent ones?"
    ylabel = "share of hidden pairs above\nthe median absent one"
    drawn = {"trained factors": lead}
    plots.curves(drawn, title, "rank", ylabel, markers=True, axes=axes).set_xscale("log", base=2)
    axes.set_xticks(list(lead), [str(rank) for rank in lead])
    axes.set_ylim(0.45, 1)
    for name, level in others.items():
        axes.axhline(level, color=COLOURS[6], linestyle="--")
        place = axes.get_yaxis_transform()  # from the left to the right edge, and a level
        axes.text(0.98, level + 0.008, name, ha="right", fontsize=9, transform=place)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 0.1))
    plots.show(ALT["leads"])


draws_in_style(__name__)
