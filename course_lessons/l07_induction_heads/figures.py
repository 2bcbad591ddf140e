"""What only lesson 07 draws: the circuit, a passage, scores, doors, labels and what is kept."""

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

WIDTH = 84  # characters of a line
# of words beside an arrow: the first three colours, dark enough to read
DARK = (COLOURS[0], "#a34700", COLOURS[2])
ALT = plots.alt_texts(__file__)
Series = Mapping[str, Float[Tensor, " n"]]


def circuit() -> None:
    """Show the induction circuit: an earlier A and B, the second A, the prediction."""
    axes = drawings.streams(("A", "B", "A"), "B")
    names = "1  look at the token before", "2  “who came after A?”", "3  copy B"
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

    Orange is more, purple is less; below −`limit` / 5 there is a line.
    """
    # the map's ends are too dark to read on
    colours = ScalarMappable(Normalize(-limit / 0.7, limit / 0.7), "PuOr_r")
    axes = plt.subplots(figsize=(8.8, 3.5))[1]
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
        xlim=(0, WIDTH),
        ylim=(-line - 0.6, 1),
        title="Which tokens did heads 1.6 and 1.1 make likelier?",
    )
    axes.axis("off")
    key = plt.colorbar(
        colours, ax=axes, label="logits added", boundaries=[limit * i / 50 for i in range(-50, 51)]
    )
    key.set_ticks([-limit, 0, limit], labels=[f"−{limit:g}", "0", f"+{limit:g}"])
    plots.show(ALT["passage"])


def scores(panels: Mapping[str, Float[Tensor, " head"]]) -> None:
    """Show the prefix-matching scores of a layer's heads in each panel.

    A panel is named "two-layer 1".
    """
    _, axes = plt.subplots(1, len(panels), figsize=(8.8, 3.4), sharey=True)
    for panel, (title, values) in zip(axes, panels.items(), strict=True):
        words = title.replace(" ", ", layer "), "", "head"
        plots.grouped_bars({"score": values}, _heads(title[-1]), *words, axes=panel)
    axes[0].set_ylabel("prefix-matching score")
    axes[0].set_ylim(0, 1)
    plots.show(ALT["scores"])


def _heads(layer: object = 1) -> list[str]:
    return [f"{layer}.{head}" for head in range(8)]


def pattern(of_head: Float[Tensor, "dest src"], tokens: Sequence[str]) -> None:
    """Show the attention pattern of head 1.6."""
    axes = plt.subplots(figsize=(7, 5.8))[1]
    plots.attention(of_head, tokens, "Where does head 1.6 look?", axes)
    plots.show(ALT["pattern"])


def doors(by_door: Series, of: Sequence[int]) -> None:
    """Show the scores of the heads `of` layer 1, by the door that no longer lets 0.5 in."""
    bars = {
        f"head 1.{head}": [score[i].item() for score in by_door.values()]
        for i, head in enumerate(of)
    }
    title, unit = "What is left when one door to 0.5 is shut?", "prefix-matching score"
    xlabel = "door that is shut"
    axes = plots.grouped_bars(bars, list(by_door), title, unit, xlabel, numbers=True)
    axes.legend(ncols=2, loc="upper right")
    axes.set_ylim(0, 1)
    plots.show(ALT["doors"])


def moved(
    lines: Mapping[str, Float[Tensor, "place head"]], of: Sequence[int], before: int, later: int
) -> None:
    """Show heads' attention by place, from `before` ahead of the earlier B on.

    The label moves `later` places.
    """
    _, panels = plt.subplots(len(of), 1, figsize=(8.8, 5.8), sharex=True)
    for i, (axes, head) in enumerate(zip(panels, of, strict=True)):
        attention = {
            name: dict(enumerate(line[:, i].tolist(), -before)) for name, line in lines.items()
        }
        words = f"Where does 1.{head} look? 7 places in 8 texts, mean", "", "attention"
        plots.curves(attention, *words, markers=True, size=4, legend=False, axes=axes, ylim=(0, 1))
    panels[-1].set(
        xticks=[0, later],
        xticklabels=["the earlier B", f"{later} positions later"],
        xlabel="source position",
    )
    panels[0].legend(loc="upper center")
    plots.show(ALT["moved"])


def enough(kept: Mapping[str, Float[Tensor, "pass text"]], chance: float) -> None:
    """Show the losses in the first and in the second pass as arrows, for what is `kept`.

    A line shows the loss by `chance`.
    """
    axes = plt.subplots(figsize=(7, 3.8))[1]
    for x, nats in enumerate(kept.values()):
        first, second = nats[:2].mean(1).tolist()
        arrow = {"arrowstyle": "-|>", "color": COLOURS[x], "lw": 2.5, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x, second), (x, first), arrowprops=arrow)
        axes.plot(x, first, "os"[x], color=COLOURS[x], ms=7)
        axes.text(x + 0.04, (first + second) / 2, f"−{first - second:.1f}", fontsize=10)
    axes.axhline(chance, color=COLOURS[6], linestyle=":", label="all tokens equally likely")
    axes.set(
        xlim=(-0.6, len(kept) - 0.4),
        ylim=(0, 15),
        xticks=range(len(kept)),
        xticklabels=kept,
        xlabel="what is kept",
        ylabel="nats per token",
        title="From the first pass to the second: how far does the loss fall?",
    )
    axes.legend(loc="lower left")
    plots.show(ALT["enough"])


draws_in_style(__name__)
