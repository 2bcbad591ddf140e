"""What only lesson 07c draws: a program at work, its weights by slot, and swapped slots."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float, Int
from matplotlib.container import BarContainer
from torch import Tensor

from course_lessons.programs import ProgramRun
from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

ALT = plots.alt_texts(__file__)
LETTERS = "·abcdefghijkl"  # the start token, and the others


def _held(there: Float[Tensor, " size"], names: Sequence[str]) -> str:
    """What a slot holds: a name, or of a mean the largest shares, a line for each."""
    some = [(round(share, 2), names[n]) for n, share in enumerate(there.tolist()) if share > 0.04]
    some.sort(key=lambda one: -one[0])
    return "\n".join(name if share > 0.97 else f"{name} {share:.2g}" for share, name in some[:3])


def trace(done: ProgramRun, tokens: Int[Tensor, " pos"]) -> None:
    """A program at work on the first text of a run.

    It shows the slots at each position, and where the last one looks.
    """
    written = [slot for slot in done.slots if slot not in ("token", "place", "any", "out")]
    holds_places = any(done.slots[slot].shape[-1] == len(tokens) for slot in written)
    rows = ["token", *(["place"] if holds_places else []), *written, "out"]
    given = {"token": "white", "place": "white", "out": "#ffe9d6"}
    last, places = len(tokens) - 1, [*map(str, range(len(tokens)))]
    high = len(rows) + 0.55 * len(done.looks)
    beside = 1.9  # inches for the names
    wide = min(1.1, (8.8 - beside) / (last + 1.2))  # inches for a position
    axes = plt.subplots(figsize=(beside + wide * (last + 1.2), 0.55 * high))[1]
    for y, slot in enumerate(rows):
        axes.text(-0.7, -y, slot, ha="right", va="center", family="monospace")
        for x, there in enumerate(done.slots[slot][0]):
            if held := _held(there, LETTERS if len(there) == len(LETTERS) else places):
                colour = given.get(slot, "#e8f1f8")
                axes.add_patch(
                    plt.Rectangle((x - 0.42, -y - 0.4), 0.84, 0.8, fc=colour, ec=COLOURS[6])
                )
                size = 11 - 2 * held.count("\n")
                axes.text(x, -y, held, ha="center", va="center", fontsize=size, linespacing=0.95)
    for n, (name, seen) in enumerate(done.looks.items()):
        height, colour = 0.95 + 0.55 * n, COLOURS[n % 6]
        words = f"layer {done.layers[name]}: {name} looks"
        axes.text(-0.7, height, words, ha="right", va="center", color=colour, fontsize=10)
        axes.plot(last, height, "o", color=colour, ms=5)
        for x in (seen[0, -1] > seen[0, -1].max() / 2).nonzero().flatten().tolist():
            # or arrows to one place would hide each other
            x += 0.12 * (n - (len(done.looks) - 1) / 2)
            axes.annotate(
                "",
                (x, 0.44),
                (x, height),
                arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0},
            )
            axes.plot([x, last], [height, height], color=colour)
    axes.set(
        xlim=(-0.7 - beside / wide, last + 0.5),
        ylim=(0.5 - len(rows), 0.5 + high - len(rows) + 0.2),
    )
    axes.axis("off")
    said = _held(done.slots["out"][0, -1], LETTERS).split("\n")[0][:1] or "nothing"
    text = " ".join(LETTERS[token] for token in tokens.tolist())
    plots.show(
        f"A program on the text {text}, a row for each slot. At the last position it says: {said}."
    )


def weights(
    circuits: Mapping[str, Float[Tensor, "d_model _d_model"]], lies: Mapping[str, int]
) -> None:
    """Circuits as pictures, with a line where one slot of the stream ends and the next begins."""
    names = {"QK": ("key", "query"), "OV": ("to", "from")}
    for axes, (name, circuit) in zip(
        plt.subplots(1, 2, figsize=(8.8, 4.9))[1], circuits.items(), strict=True
    ):
        limit = circuit.abs().max().item()
        axes.imshow(circuit, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        start, middles = 0, []
        for size in lies.values():
            middles.append(start + size / 2 - 0.5)
            start += size
            for line in (axes.axhline, axes.axvline):
                line(start - 0.5, color=COLOURS[6], lw=0.6)
        axes.set_xticks(middles, lies, rotation=40)
        axes.set_yticks(middles, lies)
        axes.set(title=name, xlabel=names[name][0], ylabel=names[name][1])
    plots.show(ALT["weights"])


def by_length(one_layer: Mapping[int, float], seeds: Sequence[Mapping[int, float]]) -> None:
    """The share of right answers at each length of the block; those of training are shaded."""
    worst = {n: min(right[n] for right in seeds) for n in one_layer}
    curves = {"two layers, the worst of five seeds": worst, "one layer, four heads": {**one_layer}}
    curves["a guess among the letters"] = {n: 1 / n for n in one_layer}
    words = "Who knows what came after?", "letters in the block", "share of right answers"
    axes = plots.curves(curves, *words, markers=True, figsize=(8.8, 4.2), ylim=(0, 1.06))
    axes.axvspan(4.8, 8.2, color=COLOURS[6], alpha=0.12)
    axes.text(6.5, 0.03, "lengths in training", ha="center", fontsize=9)
    axes.legend(loc="center right", bbox_to_anchor=(0.95, 0.66))
    plots.show(ALT["by_length"])


def followed(shares: Mapping[str, Sequence[float]], title: str, alt: str) -> None:
    """For each door, or each part, the share of answers of each seed that follow the other text.

    `alt` is the description's name.
    """
    axes = plt.subplots(figsize=(8.8, 4))[1]
    seeds = [f"seed {seed}" for seed in range(len(next(iter(shares.values()))))]
    words = title, "answers that follow the other text, %"
    per_cent = {name: [100 * share for share in by_seed] for name, by_seed in shares.items()}
    plots.grouped_bars(per_cent, seeds, *words, axes=axes)
    bars = [group for group in axes.containers if isinstance(group, BarContainer)]
    for group, colour in zip(bars, COLOURS, strict=False):  # whose bar is too low to be seen?
        axes.bar_label(group, fmt="%.1f", color=colour, padding=1, fontsize=9)
    axes.set(ylim=(0, 107), yticks=[0, 25, 50, 75, 100])
    axes.legend(ncols=len(shares), loc="lower right", bbox_to_anchor=(1, 1))
    plots.show(ALT[alt])


def looks(attention: Mapping[str, Mapping[str, float]]) -> None:
    """Where each head looks, as shares of its attention, a panel for each layer."""
    words = "layer 0, in the block", "layer 1, at the questions"
    for n, (axes, title) in enumerate(
        zip(plt.subplots(1, 2, figsize=(8.8, 3.8), sharey=True)[1], words, strict=True)
    ):
        of_layer = {head: shares for head, shares in attention.items() if head.startswith(f"{n}.")}
        places = [*next(iter(of_layer.values()))]
        # of readers, the letter and what is one after; of writers, n back
        shown = places[3:] if n else places[:3]
        bars = {
            f"head {head}": [shares[place] for place in shown] for head, shares in of_layer.items()
        }
        plots.grouped_bars(
            bars, shown, title, "share of attention" if n == 0 else "", numbers=True, axes=axes
        )
        axes.set_ylim(0, 1.15)
        axes.legend(loc="upper left")
    plots.show(ALT["looks"])


draws_in_style(__name__)
