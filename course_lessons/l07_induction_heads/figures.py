"""What only lesson 07 draws: the circuit, scores, effects, costs; doors and labels."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from torch import Tensor

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS
from course_utils.text import visible

WIDTH = 100  # characters of a line
# of words beside an arrow: the first three colours, dark enough to read
DARK = (COLOURS[0], "#a34700", "#00654a")
ALT = plots.alt_texts(__file__)
Series = Mapping[str, Float[Tensor, " n"]]
Table = Float[Tensor, "dest src"]


def circuit() -> None:
    """Show the induction circuit: an earlier A and B, the second A, the prediction."""
    axes = drawings.streams(("A", "B", "A"), "B")
    names = "1  fetch from one back", "2  “who came after A?”", "3  copy B"
    ends = (1, 3.4, 0.95), (8, 3.4, 3.05), (3.4, 8, 4.05)  # of each arrow: from, to, how high
    for i, (start, end, y) in enumerate(ends):
        drawings.arrow(axes, (start, y), (end, y), COLOURS[i], "--" if i == 1 else "-")
        axes.text(
            (start + end) / 2,
            y + 0.05,
            names[i],
            color=DARK[i],
            fontsize=9,
            ha="center",
            va="bottom",
        )
    frame = {"boxstyle": "round,pad=0.3", "facecolor": "#dcebf5", "edgecolor": COLOURS[0]}
    axes.text(3.55, 2.0, "“A came before me”", va="center", fontsize=9, bbox=frame)
    for x, y, word, i in ((3.2, 3.05, "key", 1), (8.2, 3.05, "query", 1), (3.2, 4.05, "value", 2)):
        axes.text(
            x, y, word, ha="left" if x > 8 else "right", va="center", fontsize=9, color=DARK[i]
        )
    plots.show(ALT["circuit"])


def passage(tokens: Sequence[str], added: Float[Tensor, " pos"], limit: float = 10) -> None:
    """Show a text, each token coloured by what was `added` to its logit.

    Orange is more, blue is less; below −`limit` / 5 there is a line.
    """
    # the map's ends are too dark to read on
    colours = ScalarMappable(Normalize(-limit / 0.7, limit / 0.7), "PuOr_r")
    axes = plt.subplots(figsize=(10.3, 3.1))[1]
    column, line = 0, 0
    for token, value in zip(tokens, added.clamp(-limit, limit).tolist(), strict=True):
        word = visible(token)
        if column + len(word) > WIDTH:
            column, line = 0, line + 1
        frame = {"facecolor": colours.to_rgba(value), "edgecolor": "none", "pad": 0.5}
        axes.text(
            column, -line, word, family="monospace", fontsize=9.8, parse_math=False, bbox=frame
        )
        if value < -limit / 5:
            axes.plot([column, column + len(word)], [-line - 0.22] * 2, color="black", linewidth=1)
        column += len(word)
    axes.set(
        xlim=(0, WIDTH), ylim=(-line - 0.6, 1), title="Which tokens did the induction heads help?"
    )
    axes.axis("off")
    key = plt.colorbar(
        colours, ax=axes, label="logits added", boundaries=[limit * i / 50 for i in range(-50, 51)]
    )
    key.set_ticks([-limit, 0, limit], labels=[f"−{limit:g}", "0", f"+{limit:g}"])
    plots.show(ALT["passage"])


def scores(panels: Mapping[str, Series]) -> None:
    """Show a layer's prefix-matching scores in each panel, one bar for each way to draw tokens.

    A panel is named "two-layer 1".
    """
    _, axes = plt.subplots(1, len(panels), figsize=(9, 3.6), sharey=True)
    for panel, (title, values) in zip(axes, panels.items(), strict=True):
        plots.grouped_bars(
            values, _heads(title[-1]), title.replace(" ", ", layer "), "", "head", axes=panel
        )
    axes[0].set_ylabel("prefix-matching score")
    axes[0].legend(title="tokens drawn")
    plots.show(ALT["scores"])


def _heads(layer: object = 1) -> list[str]:
    return [f"{layer}.{head}" for head in range(8)]


def by_head(values: Series, title: str, unit: str, alt: str) -> None:
    """Show bars for each head of layer 1, one for each name in `values`.

    `alt` is the description's name.
    """
    plots.grouped_bars(values, _heads(), title, unit, "head").legend()
    plots.show(ALT[alt])


def losses(panels: Mapping[str, Series], period: int, chance: float, step: int = 8) -> None:
    """Show the loss by position in each panel, a line for each model, averaged in steps.

    Dotted lines part passes.
    """
    _, axes = plt.subplots(1, len(panels), figsize=(9, 3.8), sharey=True)
    for panel, (title, models) in zip(axes, panels.items(), strict=True):
        means = {name: loss.view(-1, step).mean(1) for name, loss in models.items()}
        places = [step * (i + 0.5) for i in range(3 * period // step)]
        words = f"tokens drawn {title}", "position of the predicted token", ""
        plots.curves(
            means, *words, x=places, markers=True, size=4, legend=False, axes=panel, ylim=(0, 16)
        )
        for start, label in ((period, "a pass begins"), (2 * period, None)):
            panel.axvline(start + 1, color=COLOURS[6], linestyle=":", label=label)
        panel.axhline(chance, color=COLOURS[6], label="all tokens equally likely")
    axes[0].set_ylabel("nats per token")
    axes[-1].legend(fontsize=8, ncols=2, frameon=True, framealpha=1, edgecolor="none")
    plots.show(ALT["losses"])


def patterns(
    pattern: Float[Tensor, "head dest src"], tokens: Sequence[str], of: Sequence[int]
) -> None:
    """Show the attention patterns of the heads `of` layer 1, side by side."""
    _, axes = plt.subplots(1, len(of), figsize=(10.4, 5))
    for panel, head in zip(axes, of, strict=True):
        plots.attention(pattern[head], tokens, f"head 1.{head}", panel)
    plots.show(ALT["patterns"])


def page(pattern: Table, tokens: Sequence[str], title: str) -> None:
    """Show one head's attention pattern on a page of text, large."""
    axes = plt.subplots(figsize=(10, 8.5))[1]
    plots.attention(pattern, tokens, title, axes)
    plots.show(ALT["mystery"])


def doors(by_door: Series, of: Sequence[int]) -> None:
    """Show the scores of the heads `of` layer 1, by the door that no longer lets 0.5 in."""
    bars = {
        f"head 1.{head}": [score[i].item() for score in by_door.values()]
        for i, head in enumerate(of)
    }
    title, unit = "What is left when one door to 0.5 is shut?", "prefix-matching score"
    plots.grouped_bars(bars, list(by_door), title, unit, "door that is shut", numbers=True).legend()
    plots.show(ALT["doors"])


def costs(panels: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """For each panel, what each way of cutting costs at each kind of position."""
    _, axes = plt.subplots(1, len(panels), figsize=(9.6, 4), sharey=True)
    for panel, (title, ways) in zip(axes, panels.items(), strict=True):
        values = {way: list(by_kind.values()) for way, by_kind in ways.items()}
        plots.grouped_bars(
            values, list(next(iter(ways.values()))), title, "", "kind of position", axes=panel
        )
        panel.axhline(0, color="black", lw=0.8)
    axes[0].set_ylabel("what the cut costs, nats per token")
    axes[0].legend(title="in place of what\nthe heads write")


def writers(attention: Mapping[str, float]) -> None:
    """Show how much of the induction heads' attention follows, for each choice of moved labels."""
    title = "Whose label makes the rest follow?"
    unit = "attention to the place 20 later, mean of 1.6 and 1.1"
    plots.bars(attention, title, unit, [max(attention, key=lambda name: attention[name])])
    plots.show(ALT["writers"])


def moved(
    lines: Mapping[str, Float[Tensor, "place head"]], of: Sequence[int], before: int, later: int
) -> None:
    """Show heads' attention by place, from `before` ahead of the earlier B on.

    The label moves `later` places.
    """
    _, panels = plt.subplots(len(of), 1, figsize=(9.6, 5.6), sharex=True)
    for i, (axes, head) in enumerate(zip(panels, of, strict=True)):
        attention = {
            name: dict(enumerate(line[:, i].tolist(), -before)) for name, line in lines.items()
        }
        words = f"Where does 1.{head} look? Mean of 7 destinations", "", "attention"
        plots.curves(attention, *words, markers=True, size=4, legend=False, axes=axes, ylim=(0, 1))
    panels[-1].set(
        xticks=[0, later], xticklabels=["earlier B", f"{later} later"], xlabel="source position"
    )
    panels[0].legend(loc="upper center")
    plots.show(ALT["moved"])


def matches(match: Table, alike: Table, tokens: Sequence[str], reader: str, writer: str) -> None:
    """Show two tables on one scale: `reader`'s match through `writer`, and its own QK."""
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8))
    for axes, table, title, end in (
        (left, match, f"M_K of {reader} with {writer}", "token before the source"),
        (right, alike, f"QK of {reader} alone", "token at the source"),
    ):
        words = tokens, tokens, title, "token at the destination", end
        plots.heatmap(table, *words, centred=True, limit=10.0, axes=axes)
    plots.show(ALT["matches"])


def pairs(top1: Float[Tensor, "later earlier"]) -> None:
    """Show for each pair of heads the share of tokens that match themselves best."""
    axes, title = plt.subplots(figsize=(8, 4.6))[1], "Which pairs match tokens to themselves?"
    words = _heads(1), _heads(0), title, "later head", "earlier head"
    plots.heatmap(top1, *words, label="share of tokens", numbers_from=0.1, axes=axes)
    plots.show(ALT["pairs"])


def enough(saved: Mapping[str, Mapping[str, Float[Tensor, " text"]]]) -> None:
    """Show what is saved in the second pass, a bar for what is kept.

    Bars are grouped by what replaces everything else.
    """
    bars = {
        kept: [nats.mean().item() for nats in by_way.values()] for kept, by_way in saved.items()
    }
    ways = list(next(iter(saved.values())))
    title, unit = "What is saved when only this is kept?", "nats, first pass less second"
    axes = plots.grouped_bars(bars, ways, title, unit, "what stands in for the rest", numbers=True)
    axes.legend(ncols=len(bars), loc="upper center")
    axes.set_ylim(0, 8)
    plots.show(ALT["enough" if len(bars) < 3 else "completed"])


def missing(shares: Mapping[str, float], alone: float) -> None:
    """Show what share is saved when the readers hear one more head of layer 0.

    A line marks the drawing `alone`.
    """
    axes = plots.bars(shares, "Which head does the drawing lack?", "share that is saved")
    axes.axvline(alone, color="black", ls="--", lw=1)
    plots.show(ALT["missing"])


draws_in_style(__name__)
