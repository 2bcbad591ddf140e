"""What only lesson 07b draws: the company of two positions, what is kept, cuts and variants."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

ALT = plots.alt_texts(__file__)
LOOKS = "#a34700"  # of an arrow that only looks, and of its words


def _text(tokens: Sequence[str], axes: Axes, colours: Mapping[str, str] | None = None) -> None:
    for x, token in enumerate(tokens):
        if token.startswith("·"):
            axes.text(x, 0, token, ha="center", va="center")
        else:
            drawings.box(axes, x, 0, token, (colours or {}).get(token, "white"))
    axes.axis("off")


def company(looks: Float[Tensor, " back"], before: Sequence[str] = ("u", "v", "w", "x")) -> None:
    """Show two A in the same company, and what a blurred head writes at B and at A.

    Its attention `looks` back.
    """
    axes = plt.subplots(figsize=(8.8, 3.5))[1]
    tokens = [*before, "A", "B", "· · ·", *before, "A", "?"]
    B, again = len(before) + 1, len(tokens) - 2
    _text(tokens, axes, {"?": "#ffe9d6"})
    for places, words in (
        (range(B + 1), "the earlier B"),
        (range(B + 2, again + 1), "the second A"),
    ):
        for x, share in zip(reversed(places), looks.tolist(), strict=False):
            label = {B: "B itself, in the left one alone", 1: "a token that both hold"}.get(x)
            colour, hatch = (COLOURS[6], "") if x == B else (COLOURS[1], "///")
            axes.bar(
                x, 4 * share, 0.6, 0.45, color=colour, hatch=hatch, edgecolor="white", label=label
            )
            axes.text(x, 0.5 + 4 * share, f"{share:.2f}", ha="center", va="bottom", fontsize=10)
        axes.text(places[-1] - 2.5, 2.2, f"0.0 writes at {words}", ha="center", fontsize=11)
    axes.legend(fontsize=10, loc="upper right", bbox_to_anchor=(1, 0.86)).set_title(
        "share of 0.0's attention"
    )
    title = "What does head 0.0 write at the earlier B, and at the second A?"
    axes.set(xlim=(-0.5, len(tokens) + 1.2), ylim=(-0.35, 2.5), title=title)
    plots.show(ALT["company"])


def _bars(
    bars: Mapping,
    places: Sequence[str],
    title: str,
    unit: str,
    xlabel: str = "",
    height: float = 4.2,
) -> Axes:
    axes = plt.subplots(figsize=(8.8, height))[1]
    plots.grouped_bars(bars, places, title, unit, xlabel, numbers=True, axes=axes).legend(
        ncols=len(bars)
    )
    return axes


def _panels(
    panels: Mapping[str, Mapping[str, Any]],
    places: Sequence[str],
    unit: str,
    xlabel: str,
    top: float,
) -> None:
    for title, (axes, bars) in zip(
        panels, plots.panels(panels, (8.8, 6.2), rows=len(panels)), strict=True
    ):
        plots.grouped_bars(bars, places, title, unit, xlabel, numbers=True, axes=axes)
        axes.label_outer()
    axes.set_ylim(0, top)
    plt.gcf().axes[0].legend(ncols=2, loc="upper right")


def sources(fit: Mapping[tuple[str, str], Sequence[float]], of: Sequence[int]) -> None:
    """Show what share of tokens match themselves best, for each source of query and key."""
    bars = {f"1.{head}": [rates[i] for rates in fit.values()] for i, head in enumerate(of)}
    names = [f"query: {query}\nkey: {key}" for query, key in fit]
    _bars(bars, names, "Which pairs of sources match?", "share of tokens that fit themselves best")
    plots.show(ALT["sources"])


def preferences(went: Mapping[str, Float[Tensor, "head occurrence"]], of: Sequence[int]) -> None:
    """Show each head's attention to the B after the same company and to the nearer one.

    Bars are grouped by what its keys lack.
    """
    attention = torch.stack([*went.values()], -1)
    kinds = ("after the same company", "after another, nearer")
    titles = [f"Which B does 1.{head} choose, at the last A?" for head in of]
    panels = {
        title: dict(zip(kinds, by_kind, strict=True))
        for title, by_kind in zip(titles, attention, strict=True)
    }
    _panels(panels, list(went), "attention to B", "what is cut from its keys", 0.85)
    plots.show(ALT["preferences"])


def costs(cost: Mapping[str, Mapping[str, float]]) -> None:
    """Show what each cut costs, in nats, by kind of position."""
    bars = {name: list(by_kind.values()) for name, by_kind in cost.items()}
    places, title = list(next(iter(cost.values()))), "What does the cut cost?"
    axes = _bars(bars, places, title, "nats per token", "kind of position", 4.2)
    axes.axhline(0, color="black", lw=0.8)
    axes.margins(y=0.12)
    axes.legend(loc="upper right")
    plots.show(ALT["costs"])


def missing(shares: Mapping[str, float], alone: float) -> None:
    """Show what share is saved when the later heads read one more head of layer 0.

    A line marks the circuit diagram `alone`.
    """
    axes = plots.bars(shares, "Which head does the diagram lack?", "share that is saved")
    axes.axvline(alone, color="black", ls="--", lw=1, label="the diagram alone")
    axes.legend(loc="lower right")
    plots.show(ALT["missing"])


def kept(shares: Mapping[str, Mapping[str, float]], title: str, alt: str) -> None:
    """Show what share of induction's saving is left, by what is kept.

    Bars are grouped by what replaces everything else. `alt` is the description's name.
    """
    bars = {name: list(by_way.values()) for name, by_way in shares.items()}
    ways = list(next(iter(shares.values())))
    words = title, "share that is saved", "replacement value of the rest"
    _bars(bars, ways, *words).set_ylim(0, 1.4)
    plots.show(ALT[alt])


def worth(cost: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
    """Show what heads are worth on each kind of text, in nats per token, with standard errors."""
    axes = plt.subplots(figsize=(8.8, 3.8))[1]
    for i, (name, by_text) in enumerate(cost.items()):
        means, errors = zip(*by_text.values(), strict=True)
        at = [x + 0.3 * (i - 0.5) for x in range(len(by_text))]
        style: Any = {"color": COLOURS[i], "hatch": ("", "///")[i], "edgecolor": "white"}
        drawn = axes.bar(at, means, 0.28, yerr=errors, capsize=4, label=name, **style)
        axes.bar_label(drawn, fmt=plots.written, padding=3)
    axes.axhline(0, color="black", lw=0.8)
    axes.set_xticks(range(len(by_text)), list(by_text))
    axes.set(ylabel="nats per token", title="What do the heads of layer 1 know?")
    axes.margins(y=0.2)
    axes.legend(loc="upper left")
    plots.show(ALT["worth"])


def looks_of_variants(values: Mapping[str, Sequence[float]], families: Sequence[str]) -> None:
    """Show the texts that were made for it, and the attention to B from each of the three."""
    _, (strip, axes) = plt.subplots(2, 1, figsize=(8.8, 5.6), height_ratios=[1, 3])
    _text(("· · ·", "name", "B", "· · ·", "Name"), strip)
    drawings.arrow(strip, (4, 0.2), (2, 0.2), LOOKS, "--", 0.25)
    strip.text(3, 1.5, "how much attention?", ha="center", color=LOOKS, fontsize=9)
    strip.set(xlim=(-0.5, 4.5), ylim=(-0.5, 2))
    words = "How much do 1.6 and 1.1 look at B?", "attention to B", "family"
    plots.grouped_bars(values, families, *words, numbers=True, axes=axes).legend(ncols=3)
    axes.set_ylim(0, 0.45)
    plots.show(ALT["looks_of_variants"])


def occurrences() -> None:
    """Show the text of the test.

    It has A in the same company, A in another, and at the end the first company and A again.
    """
    axes = plt.subplots(figsize=(8.8, 3.0))[1]
    parts = ("start", "same", "A", "B", "· · ·", "other", "A", "B'", "· · ·", "same", "A")
    _text(parts, axes, {"same": "#ffe9d6", "other": "#dcebf5"})
    for target, words in ((3, "the same company"), (7, "another, but nearer")):
        drawings.arrow(axes, (10, 0.3), (target, 0.3), LOOKS, "--", 0.3)
        axes.text(target, -0.8, f"after {words}", ha="center", va="top", fontsize=9)
    axes.text(10, -0.8, "the query", ha="center", va="top", fontsize=9)
    axes.text(6.5, 2.3, "which of the two?", ha="center", color=LOOKS, fontsize=9)
    axes.set(xlim=(-0.6, 10.6), ylim=(-1.3, 2.7))
    plots.show(ALT["occurrences"])


draws_in_style(__name__)
