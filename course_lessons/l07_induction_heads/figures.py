"""What only lesson 07 draws: the circuit, a passage, scores, losses, doors and labels."""

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


def losses(by_model: Series, period: int, chance: float, step: int = 8) -> None:
    """Show the loss by position, a line for each model, averaged in steps.

    Dotted lines part the passes.
    """
    means = {name: loss.view(-1, step).mean(1) for name, loss in by_model.items()}
    places = [step * (i + 0.5) for i in range(3 * period // step)]
    words = "Who profits from the second pass?", "position of the predicted token", "nats per token"
    axes = plots.curves(
        means, *words, x=places, markers=True, size=5, legend=False, figsize=(8, 3.8), ylim=(0, 17)
    )
    for start, label in ((period, "a pass begins"), (2 * period, None)):
        axes.axvline(start + 1, color=COLOURS[6], linestyle=":", label=label)
    axes.axhline(chance, color=COLOURS[6], label="all tokens equally likely")
    axes.legend(fontsize=9, ncols=2, loc="lower left")
    plots.show(ALT["losses"])


def patterns(
    pattern: Float[Tensor, "head dest src"], tokens: Sequence[str], of: Sequence[int]
) -> None:
    """Show the attention patterns of the heads `of` layer 1, side by side."""
    _, axes = plt.subplots(1, len(of), figsize=(8.8, 5))
    for panel, head in zip(axes, of, strict=True):
        plots.attention(pattern[head], tokens, f"head 1.{head}", panel)
    plots.show(ALT["patterns"])


def doors(by_door: Series, of: Sequence[int]) -> None:
    """Show the scores of the heads `of` layer 1, by the door that no longer lets 0.5 in."""
    bars = {
        f"head 1.{head}": [score[i].item() for score in by_door.values()]
        for i, head in enumerate(of)
    }
    title, unit = "What is left when one door to 0.5 is shut?", "prefix-matching score"
    xlabel = "door that is shut, and what comes through instead"
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
        words = f"Where does 1.{head} look? Mean of 7 destinations", "", "attention"
        plots.curves(attention, *words, markers=True, size=4, legend=False, axes=axes, ylim=(0, 1))
    panels[-1].set(
        xticks=[0, later],
        xticklabels=["the earlier B", f"{later} positions later"],
        xlabel="source position",
    )
    panels[0].legend(loc="upper center")
    plots.show(ALT["moved"])


def pairs(top1: Float[Tensor, "later earlier"]) -> None:
    """Show for each pair of heads the share of tokens that fit themselves best."""
    axes, title = plt.subplots(figsize=(8, 4.6))[1], "For which pairs do tokens fit themselves?"
    words = _heads(1), _heads(0), title, "later head", "earlier head"
    plots.heatmap(
        top1, *words, label="share of tokens", numbers_from=0.1, colours="Blues", axes=axes
    )
    plots.show(ALT["pairs"])


def enough(passes: Mapping[str, Mapping[str, Float[Tensor, "pass text"]]]) -> None:
    """Show the losses in the first and in the second pass as arrows, for what is kept.

    `passes` has them by what replaces everything else, and then by what is kept.
    """
    axes = plt.subplots(figsize=(8.8, 4.2))[1]
    kept = list(next(iter(passes.values())))
    for x, by_kept in enumerate(passes.values()):
        for i, (name, nats) in enumerate(by_kept.items()):
            first, second = nats[:2].mean(1).tolist()
            at = x + 0.24 * (i - (len(kept) - 1) / 2)
            axes.annotate(
                "",
                (at, second),
                (at, first),
                arrowprops={"arrowstyle": "-|>", "color": COLOURS[i], "lw": 2.5, "shrinkB": 0},
            )
            axes.plot(at, first, "osD"[i], color=COLOURS[i], ms=7, label=None if x else name)
            axes.text(at + 0.03, (first + second) / 2, f"−{first - second:.1f}", fontsize=10)
    axes.set(
        xlim=(-0.6, len(passes) - 0.4),
        ylim=(0, 17),
        xticks=range(len(passes)),
        xticklabels=passes,
        xlabel="replacement value of everything else",
        ylabel="nats per token",
        title="From the first pass to the second: how far does the loss fall?",
    )
    axes.legend(ncols=len(kept), loc="upper left", title="what is kept")
    plots.show(ALT["enough"])


draws_in_style(__name__)
