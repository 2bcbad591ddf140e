"""What only lesson 08 draws: models while they learn, a toy, clamps and shams."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from jaxtyping import Bool, Int
from matplotlib.axes import Axes
from torch import Tensor

from course_lessons import drawings
from course_utils import plots
from course_utils._style import draws_in_style, styled
from course_utils.plots import COLOURS, LINES, MARKERS, written

BLUE, ORANGE, PLUM, GREY = *COLOURS[:3], COLOURS[6]
Curves = Sequence[Sequence[float]]
ALT = plots.alt_texts(__file__)


def many(
    steps: Sequence[float], curves: Curves, title: str, unit: str, until: float | None = None
) -> None:
    """One thin line per run; what comes after `until` is covered."""
    _, axes = plt.subplots(figsize=(8.4, 3))
    n = sum(until is None or step <= until for step in steps)
    axes.plot(steps[:n], np.transpose(curves)[:n], color=BLUE, lw=1, alpha=0.6)
    top = 1.1 * np.max(curves)
    if until is not None:
        axes.axvspan(until, steps[-1], facecolor="#eeeeee", edgecolor=GREY, hatch="//", lw=0)
        axes.text((until + steps[-1]) / 2, top / 2, "?", fontsize=40, ha="center", va="center")
    axes.set(title=title, xlabel="step", ylabel=unit, xlim=(0, steps[-1]), ylim=(-0.1 * top, top))


def document(tokens: Int[Tensor, " pos"], known: Bool[Tensor, " pos-1"]) -> None:
    """A document as boxes in rows.

    What memory could have known is filled and bold, names are underlined.
    """
    a_row, numbers = 32, tokens.tolist()
    height = -(-len(numbers) // a_row)
    _, axes = plt.subplots(figsize=(8.8, 0.4 + 0.8 * height))
    for i, (token, hit) in enumerate(zip(numbers, [False, *known.tolist()], strict=True)):
        drawings.box(axes, i % a_row, -(i // a_row), f"{token:>2}", "#ffd9b8" if hit else "white")
        axes.texts[-1].set(fontsize=9, fontweight="bold" if hit else "normal")
    for i, (words, name) in enumerate(
        zip(_names(numbers), ("one name", "the other"), strict=False)
    ):
        places = [start + j for start in _places(numbers, words) for j in range(len(words))]
        left = [place % a_row - 0.5 for place in places]
        under = [-(place // a_row) - 0.36 for place in places]
        style: Any = {"colors": (BLUE, PLUM)[i], "linestyles": LINES[i], "label": name, "lw": 3}
        axes.hlines(under, left, [x + 1 for x in left], **style)
    axes.legend(loc="upper right", bbox_to_anchor=(1, -0.02), ncols=2)
    axes.set(xlim=(-0.7, a_row - 0.3), ylim=(0.55 - height, 0.5))
    axes.axis("off")


def _places(tokens: list[int], words: list[int]) -> list[int]:
    return [i for i in range(1, len(tokens)) if tokens[i : i + len(words)] == words]


def _names(tokens: list[int]) -> list[list[int]]:
    """The two longest stretches of at least four tokens that stand twice, none inside another."""
    found: list[list[int]] = []
    for length in range(len(tokens) // 2, 3, -1):
        for start in range(1, len(tokens) - length + 1):
            words = tokens[start : start + length]
            if len(_places(tokens, words)) > 1 and not any(
                set(words) <= set(longer) for longer in found
            ):
                found.append(words)
    return found[:2]


class Watching:
    """Two panels, drawn again while a model trains: give it to `train` as `watch`.

    `table` is a bigram table's loss.
    """

    def __init__(self, table: float, steps: int):
        self.figure, self.panels = plt.subplots(1, 2, figsize=(8.8, 3.8))
        self.canvas = display(self.figure, display_id=True)
        self.table, self.steps = table, steps

    def __call__(self, history: list[dict]) -> None:
        """Losses on the left, the scores of all heads on the right.

        They are drawn at every second call only: drawing takes time, too.
        """
        if len(history) % 2 == 0:
            return
        steps, (left, right) = [row["step"] for row in history], self.panels
        left.clear()
        right.clear()
        names = {"documents": "held_out_loss", "random, repeated": "second_pass_loss"}
        losses = {name: [row[key] for row in history] for name, key in names.items()}
        plots.curves(
            losses,
            "Loss",
            "step",
            "nats per token",
            x=steps,
            axes=left,
            xlim=(0, self.steps),
            ylim=(0, 4.6),
        )
        left.axhline(self.table, color=GREY, linestyle=":", label="bigram table")
        left.legend(loc="lower left")
        ends: list[tuple[float, str]] = []
        for layer, key in enumerate(("previous_token", "prefix_matching")):
            scores = [row[key][layer] for row in history]
            lines = right.plot(steps, scores, linestyle=LINES[layer], color=COLOURS[2 + layer])
            lines[0].set_label(f"{key.replace('_', ' ')}, layer {layer}")
            ends += [
                (score, f" {layer}.{head}") for head, score in enumerate(scores[-1]) if score > 0.15
            ]
        height = 0.0
        for end, label in sorted(ends) if steps[-1] >= self.steps else ():
            # labels of lines that end together stand one above the other
            height = max(end, height + 0.04)
            right.text(steps[-1], height, label, fontsize=9, va="center")
        right.set(
            title="Scores, one line per head", xlabel="step", xlim=(0, self.steps), ylim=(0, 1)
        )
        right.legend(loc="upper left")
        self.canvas.update(self.figure)


def forward(arms: Mapping[str, Mapping[str, Any]], title: str) -> None:
    """How many steps earlier (left) or later each arm got there, a mark per seed.

    Words stand where one never got there.
    """
    shown, words = {}, []
    for name, arm in arms.items():
        never, differences = arm["never"] == arm["seeds"], arm["differences"]
        shown[name] = [] if never else differences
        earlier = f"earlier in {sum(d < 0 for d in differences)} of {arm['seeds']}"
        seeds = f"never, in {arm['never']} of {arm['seeds']} seeds"
        words.append(
            seeds if never else f"{written(np.mean(differences), '+.0f')} steps, {earlier}"
        )
    xlabel = "steps later than the same seed unaltered (negative: earlier)"
    groups = "plant", "sham", "finished", "pair"  # a colour and a mark each
    _, axes = plt.subplots(figsize=(8.8, 1 + 0.4 * len(arms)))
    for row, ((name, values), said) in enumerate(zip(shown.items(), words, strict=True)):
        lifted = row + 0.2 * (np.arange(len(values)) % 3 - 1)
        i = groups.index("pair" if "+" in name else re.split("[,:]", name)[0])
        axes.plot(np.sort(values), lifted, MARKERS[i], color=COLOURS[i], ms=5, alpha=0.7)
        if values:
            axes.vlines(np.mean(values), row - 0.36, row + 0.36, color="black", lw=2)
        axes.text(60, row, said, va="center", fontsize=9)
    axes.set_yticks(range(len(arms)), list(arms))
    axes.set(
        title=title,
        xlabel=xlabel,
        xlim=(-225, 190),
        ylim=(len(arms) - 0.4, -0.6),
        xticks=range(-200, 51, 50),
    )
    axes.axvline(0, color="black", lw=1, zorder=1)


def savings(
    groups: Mapping[str, tuple[Sequence[float], Curves]],
    title: str,
    until: float,
    axes: Axes | None = None,
    legend: Any = "upper left",
) -> Axes:
    """The gain from repeating in training: for each name a colour, and a thin line per run."""
    axes = plt.subplots(figsize=(8.4, 3.4))[1] if axes is None else axes
    for i, (name, (steps, curves)) in enumerate(groups.items()):
        style: Any = {
            "color": (GREY, BLUE, ORANGE, PLUM)[i],
            "ls": LINES[i],
            "lw": 1.4,
            "alpha": 0.8,
        }
        for j, curve in enumerate(curves):
            axes.plot(steps[: len(curve)], curve, label=name if j == 0 else None, **style)
    axes.set(
        title=title, xlabel="step", ylabel="gain, nats per token", xlim=(0, until), ylim=(-0.2, 3.8)
    )
    axes.legend(fontsize=9, loc=legend)
    return axes


class Race:
    """The gain from repeating, drawn while models train, beside a stored run.

    Give `watch(name)` to `train`.
    """

    def __init__(
        self, stored: Mapping[str, tuple[Sequence[float], Curves]], title: str, until: float
    ):
        self.figure, self.axes = plt.subplots(figsize=(8.4, 3.4))
        self.canvas = display(self.figure, display_id=True)
        self.groups, self.title, self.until = dict(stored), title, until

    def watch(self, name: str) -> Callable[[list[dict]], None]:
        """What draws one run as it goes, under this name."""

        @styled
        def look(history: list[dict]) -> None:
            self.groups[name] = (
                [row["step"] for row in history],
                [[row["saves"] for row in history]],
            )
            self.axes.clear()
            savings(self.groups, self.title, self.until, self.axes)
            self.canvas.update(self.figure)

        return look


def toy(products: Mapping[str, Sequence[float]], step: float) -> None:
    """Products of three numbers over time, each as a share of its last value."""
    shares = {name: np.divide(found, found[-1]) for name, found in products.items()}
    times = step * np.arange(len(next(iter(shares.values()))))
    title = "Three numbers that grow by the slopes of their product"
    _, axes = plt.subplots(figsize=(8.4, 3.2))
    for i, (name, found) in enumerate(shares.items()):
        ends = f"{name}: ends at {products[name][-1]:g}"
        axes.plot(times, found, color=COLOURS[i], ls=LINES[i], lw=2, label=ends)
    axes.set(title=title, xlabel="time", ylabel="share of its last value", xlim=(0, times[-1]))
    axes.legend(loc="lower right")


def wait_and_jump(read: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """A mark per run: the step of half its rise, and the steps from a quarter to three quarters.

    Each kind of run has its name beside it. The upward axis is logarithmic.
    """
    _, axes = plt.subplots(figsize=(8.6, 4), layout="constrained")
    for i, (name, found) in enumerate(read.items()):
        axes.plot(*np.transpose(found), MARKERS[i], color=COLOURS[i], ls="", ms=6, alpha=0.7)
        wait, jump = np.transpose(found)
        # the crowded ones have their names where there is room
        x, y, ha = {
            "smeared keys": (112, 60, "right"),
            "finished: what is copied": (118, 76, "left"),
            "planted 1 back": (max(wait) + 6, 25, "left"),
            "finished: patterns": (88, 18, "left"),
            "finished: match": (np.mean(wait), 9.5, "center"),
        }.get(name, (max(wait) + 8, np.mean(jump), "left"))
        axes.text(x, y, name, ha=ha, va="center", fontsize=9, color=COLOURS[i])
    axes.set(title="The wait and the jump", xlabel="step of half the rise", yscale="log")
    axes.set(xlim=(0, 550), ylim=(8, 1300))
    axes.set_ylabel("steps from a quarter\nto three quarters")
    axes.set_yticks([30, 100, 300, 1000], ["30", "100", "300", "1,000"])
    axes.minorticks_off()


draws_in_style(__name__)
