"""What only lesson 13 draws: guesses, a grid of 270 heads, what a cut does, what is still saved."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.interventions import head_name
from course_utils.plots import COLOURS
from course_utils.text import visible

ALT = plots.alt_texts(__file__)
Grid = Float[Tensor, "layer head"]
Head = tuple[int, int]
STEP = 8  # positions that a point of the loss is the mean of
BELOW = 0.28  # how far points lie below the middle of their bar, where its number stands


def guesses(
    by_text: Mapping[str, Mapping[str, float]], right: Sequence[str], alt: str = "guesses"
) -> None:
    """Show what may come next under each heading, likeliest first; the `right` tokens stand out."""
    panels = plt.subplots(len(by_text), 1, figsize=(8.8, 6.4), sharex=True)[1]
    for axes, (words, guessed), answer in zip(panels, by_text.items(), right, strict=True):
        named = {visible(token): p for token, p in guessed.items()}
        plots.bars(named, "", "", [visible(answer)], axes)
        axes.set_title(words, fontsize=9, loc="left")
        axes.set_yticks(range(len(named)), list(named), family="monospace", fontsize=9)
        axes.set(xlim=(0, 1.1))
    panels[-1].set(xlabel="probability of the next token")
    plots.show(ALT[alt])


def passes(loss: Float[Tensor, " place"], chance: float) -> None:
    """Show the loss by position, in means of STEP; a dotted line parts the passes."""
    means = loss.view(-1, STEP).mean(1)
    middles = [STEP * (i + 0.5) for i in range(len(means))]
    where = f"position of the predicted token (means of {STEP})"
    words = "What does a token cost?", where, "nats per token"
    axes = plots.curves({"": means}, *words, x=middles, markers=True, legend=False, ylim=(0, 17))
    axes.axvline(len(loss) / 2 + 1, color=COLOURS[6], linestyle=":", label="second pass begins")
    axes.axhline(chance, color=COLOURS[6], lw=1, label="all tokens equally likely")
    axes.legend(loc="lower left", fontsize=9)
    plots.show(ALT["passes"])


def grid(scores: Grid, named: Collection[Head], alt: str) -> None:
    """Show a score of every head; the heads of `named` have their number written.

    `alt` is the description's name.
    """
    figure, axes = plt.subplots(figsize=(4.6, 5.6))
    drawn = axes.imshow(scores, cmap="Greys", vmin=0, vmax=1, aspect="auto", origin="lower")
    for layer, head in named:
        if scores[layer, head] > 0.2:
            colour = "white" if scores[layer, head] > 0.5 else "black"
            name = head_name((layer, head))
            axes.text(head, layer, name, ha="center", va="center", color=colour, fontsize=9)
    axes.set(xlabel="head", xticks=range(scores.shape[1]))
    axes.set(ylabel="layer", yticks=range(0, len(scores), 3))
    figure.colorbar(drawn, ax=axes, label="share of its attention", shrink=0.6)
    plots.show(ALT[alt])


def effects(
    falls: Mapping[Head, float], rises: Mapping[Head, float], control: Mapping[str, float]
) -> None:
    """Show what each candidate does to the readers' scores, left, and to the loss, right.

    A grey line marks the largest that a head of the control does: its "fall" and its "rise".
    """
    left, right = plt.subplots(1, 2, figsize=(8.8, 3.8))[1]
    best = [head_name(next(iter(falls)))]
    by_name = {head_name(head): fall for head, fall in falls.items()}
    costs = {head_name(head): rises[head] for head in falls}
    plots.bars(by_name, "How far do the readers' scores fall?", "share of attention", best, left)
    plots.bars(costs, "How far does the loss of pass 2 rise?", "nats per token", best, right)
    left.axvline(control["fall"], color=COLOURS[6], linestyle=":", label="control, at most")
    right.axvline(control["rise"], color=COLOURS[6], linestyle=":", label="control, at most")
    right.legend(loc="lower right")
    right.set(yticklabels=[])
    left.set(ylabel="the head with another text's output")
    plots.show(ALT["effects"])


def doors(losses: Mapping[str, Float[Tensor, "pass text"]]) -> None:
    """Show the loss of the second pass for each door, with the first pass as a diamond."""
    second = {name: loss[1].mean().item() for name, loss in losses.items()}
    first = [loss[0].mean().item() for loss in losses.values()]
    axes = plt.subplots(figsize=(8.8, 0.9 + 0.42 * len(second)))[1]
    title = "Where does another text's label do harm?"
    in_keys = [name for name in second if name.endswith("readers' keys")]
    unit = "nats per token in the second pass; a diamond is the first pass"
    plots.bars(second, title, unit, in_keys, axes)
    places = range(len(first))
    style: Any = {"color": COLOURS[6], "linestyle": "none", "marker": "D", "ms": 5}
    axes.plot(first, places, **style)
    axes.set(xlim=(0, 16))
    plots.show(ALT["doors"])


def moved(lines: Mapping[str, Float[Tensor, " place"]], before: int, later: int) -> None:
    """Show the readers' attention by place, from `before` ahead of B; labels move `later` on."""
    attention = {name: dict(enumerate(line.tolist(), -before)) for name, line in lines.items()}
    words = "Where do the five readers look?", "source position", "attention, mean of five heads"
    axes = plots.curves(attention, *words, markers=True, size=4, ylim=(0, 1), figsize=(8.4, 3.6))
    axes.set_xticks([0, later], ["B", f"{later} places later"])
    plots.show(ALT["moved"])


def documents(costs: Mapping[tuple[str, Head], Float[Tensor, "document pos"]]) -> None:
    """Show what each head is worth on text, a bar for each kind, with a point for each document."""
    named = {f"{kind}, {head_name(head)}": nats.mean(1) for (kind, head), nats in costs.items()}
    axes = plt.subplots(figsize=(8, 2.8))[1]
    title = "How much harder is a text without a head?"
    highlight = [name for name in named if "16.0" in name]
    _bars_of_texts(named, title, "nats per token", highlight, axes)
    plots.show(ALT["documents"])


def _bars_of_texts(
    values: Mapping[str, Float[Tensor, " text"]],
    title: str,
    unit: str,
    highlight: Sequence[str],
    axes: Axes,
) -> None:
    """A bar for each mean, and below its number a point for each text."""
    means = {name: each.mean().item() for name, each in values.items()}
    plots.bars(means, title, unit, highlight, axes)
    for place, each in enumerate(values.values()):
        axes.plot(each, [place + BELOW] * len(each), "o", color="black", ms=3)


def page(pattern: Float[Tensor, "dest src"], tokens: Sequence[str], title: str) -> None:
    """Show one head's attention pattern on a text."""
    axes = plt.subplots(figsize=(8.4, 7))[1]
    plots.attention(pattern, tokens, title, axes)
    plots.show(ALT["page"])


def kept(shares: Mapping[str, Float[Tensor, " text"]], named: Sequence[str]) -> None:
    """Show which share of the saving is left, with a point for each text; `named` stand out."""
    axes = plt.subplots(figsize=(8.8, 0.9 + 0.46 * len(shares)))[1]
    title, unit = "What is kept, and what does the second pass still save?", "share of the saving"
    _bars_of_texts(shares, title, unit, named, axes)
    axes.axvline(0, color="black", lw=0.8)
    axes.set(xlim=(-0.3, 1.2))
    plots.show(ALT["kept"])


draws_in_style(__name__)
