"""What only lesson 08 draws: models while they learn, events, looks, clamps and shams."""

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
    _, axes = plt.subplots(figsize=(9.6, 0.4 + 0.8 * height))
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
        self.figure, self.panels = plt.subplots(1, 2, figsize=(9.6, 3.8))
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
            right.text(steps[-1], height, label, fontsize=8, va="center")
        right.set(
            title="Scores, one line per head", xlabel="step", xlim=(0, self.steps), ylim=(0, 1)
        )
        right.legend(loc="upper left")
        self.canvas.update(self.figure)


def match(steps: Sequence[float], positivity: Curves, lead: Curves, half: float) -> None:
    """Positivity and lead over training, a line per run, and a dotted line at `half`."""
    _, panels = plt.subplots(1, 2, figsize=(9.6, 3.2), gridspec_kw={"wspace": 0.25})
    drawn = ("Positivity", positivity, "Σλ / Σ|λ|"), ("Lead", lead, "units of score")
    for axes, (title, found, unit) in zip(panels, drawn, strict=True):
        axes.plot(steps, np.transpose(found), color=BLUE, lw=0.8, alpha=0.4)
        axes.plot(steps, np.median(found, 0), color="black", lw=2, label="the median")
        axes.axvline(half, color=GREY, ls=":")
        axes.set(title=title, xlabel="step", ylabel=unit)
        axes.legend(fontsize=8, loc="lower right")


def _arches(
    tokens: str, height: float, top: float, arches: Sequence[tuple[float, float, float, str, str]]
) -> Axes:
    """Letters in boxes, and squared arrows between them.

    An arrow is from, to, how high (below the row if negative), words and colour.
    """
    _, axes = plt.subplots(figsize=(8.8, height))
    for x, token in enumerate(tokens):
        drawings.box(axes, x, 0, token, "#eeeeee" if token == "·" else "white")
    for start, end, high, words, colour in arches:
        foot, align = (0.3, "bottom") if high > 0 else (-0.3, "top")
        axes.plot([start, start, end, end], [foot, high, high, 1.4 * foot], color=colour, lw=2)
        drawings.arrow(axes, (end, high), (end, foot), colour)
        axes.text(
            (start + end) / 2, 1.06 * high, words, ha="center", va=align, fontsize=9, color=colour
        )
    axes.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-1.6, top))
    axes.axis("off")
    return axes


def distances(
    shares: Mapping[str, Sequence[float]], saved: Mapping[str, Sequence[float]], title: str
) -> None:
    """How often a copy stands how far back, and what always guessing so far back saves.

    Both have a curve for each language.
    """
    _, panels = plt.subplots(1, 2, figsize=(9.6, 3.4))
    far = "distance, in tokens"
    share = "share of predictable tokens, %"
    guess = "What a guess at that distance saves"
    percent = {name: [100 * share for share in found] for name, found in shares.items()}
    style: Any = {"x": range(1, 1 + len(max(shares.values(), key=len))), "markers": True, "size": 4}
    plots.curves(percent, title, far, share, axes=panels[0], **style)
    plots.curves(saved, guess, far, "nats per token", axes=panels[1], **style)


def detour() -> None:
    """A drawing: two heads of layer 0 bring A and B to one place, and layer 1 takes both there."""
    over = (
        (0, 8, 1.0, "one head, 8 back: brings A", BLUE),
        (1, 8, 1.75, "another head, 7 back: brings B", PLUM),
    )
    below = 15, 8, -1.0, "layer 1 looks here: the match finds the A, the copy takes the B", ORANGE
    axes = _arches("ABCDEFGH·······A?", 3.2, 2.4, [*over, below])
    axes.text(16, 0.55, "B", ha="center", va="center", fontsize=12, weight="bold", color=ORANGE)


def clamp() -> None:
    """A drawing of the idea.

    It has a model in training, a finished one, and the match that the finished one does for it.
    """
    _, axes = plt.subplots(figsize=(8.8, 2.6))
    parts = (
        "look: where layer 0\nlooks",
        "match: what layer 1\nlooks for",
        "copy: what layer 1\nwrites",
    )
    for y, who, then in (
        (1.6, "in training", "→ logits → loss → gradient"),
        (0, "finished", "never changes"),
    ):
        axes.text(-0.3, y, who, ha="right", va="center")
        axes.text(6.6, y, then, va="center", fontsize=9)
        for x, words in enumerate(parts):
            drawings.box(
                axes, 2.3 * x + 0.8, y, words, "white" if x != 1 else "#eeeeee" if y else "#ffe9d6"
            )
            axes.texts[-1].set(fontsize=8.5, color=GREY if x == 1 and y else "black")
    drawings.arrow(axes, (3.1, 0.4), (3.1, 1.2), "#a34700")
    axes.text(3.22, 0.8, "takes its place, at every step", va="center", fontsize=9, color="#a34700")
    axes.set(xlim=(-1.9, 9.6), ylim=(-0.6, 2.2))
    axes.axis("off")


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
    xlabel = "steps, beside the same seed unaltered (grey: within 25)"
    _, axes = plt.subplots(figsize=(8.8, 1 + 0.4 * len(arms)))
    for row, (values, said) in enumerate(zip(shown.values(), words, strict=True)):
        lifted = row + 0.2 * (np.arange(len(values)) % 3 - 1)
        axes.plot(
            np.sort(values), lifted, MARKERS[row % 7], color=COLOURS[row % 7], ms=5, alpha=0.7
        )
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
    axes.axvspan(-25, 25, color="#eeeeee", lw=0, zorder=0)  # neither earlier nor later
    axes.axvline(0, color="black", lw=1, zorder=1)


def savings(
    groups: Mapping[str, tuple[Sequence[float], Curves]],
    title: str,
    until: float,
    axes: Axes | None = None,
) -> Axes:
    """What repeating saves in training: for each name a colour, and a thin line per run."""
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
        title=title, xlabel="step", ylabel="nats saved per token", xlim=(0, until), ylim=(-0.2, 3.8)
    )
    axes.legend(fontsize=8, loc="upper left")
    return axes


class Race:
    """What repeating saves, drawn while models train, beside a stored run.

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


def wait_and_jump(read: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """A mark per run: the step of half its rise, and the steps from a quarter to three quarters.

    Both axes are logarithmic.
    """
    _, axes = plt.subplots(figsize=(8.4, 3.6))
    for i, (name, found) in enumerate(read.items()):
        axes.plot(
            *np.transpose(found), MARKERS[i], color=COLOURS[i], label=name, ms=6, alpha=0.7, ls=""
        )
    axes.set(
        title="The wait and the jump", xlabel="step of half the rise", xlim=(0, None), yscale="log"
    )
    axes.set_ylabel("steps from a quarter\nto three quarters")
    axes.set_yticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1,000"])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))


def orders(found: Mapping[str, Mapping[str, Any]], shares: Sequence[float]) -> None:
    """For each panel and curve the step at which a share of its rise is made.

    A line is the median run, the shade around it the range of all.
    """
    _, panels = plt.subplots(1, len(found), figsize=(9.8, 3.8), squeeze=False, layout="constrained")
    percent = [100 * share for share in shares]
    for axes, (title, times) in zip(panels[0], found.items(), strict=True):
        for i, (name, runs) in enumerate(times.items()):  # runs: [run][share]
            style: Any = {"color": COLOURS[i], "ls": LINES[i], "marker": MARKERS[i], "ms": 4}
            axes.plot(percent, np.median(runs, 0), label=name, **style)
            axes.fill_between(
                percent, np.min(runs, 0), np.max(runs, 0), color=COLOURS[i], alpha=0.15, lw=0
            )
        axes.set(
            title=title,
            xlabel="share of the rise, %",
            ylabel="step",
            xticks=[5, 20, 40, 60, 80, 95],
        )
    panels[0, 0].legend(fontsize=8, loc="upper left")


def law(
    points: Mapping[str, Any],
    exponents: Mapping[str, tuple[float, float]],
    laws: Mapping[str, Mapping],
) -> None:
    """Steps against sizes, logarithmic, a dot per run.

    Lines are the one that fits best, and those of published exponents.
    """
    _, panels = plt.subplots(1, len(points), figsize=(9.8, 3.8), sharey=True, layout="constrained")
    for axes, (name, made) in zip(panels, points.items(), strict=True):
        sizes, times = np.transpose(made)
        centre, ends = np.exp(np.log(made).mean(0)), np.array([min(sizes), max(sizes)])
        for i, (label, k) in enumerate({"our fit": exponents[name][0], **laws[name]}.items()):
            style: Any = {"color": ("black", ORANGE, PLUM)[i], "ls": LINES[i]}
            axes.plot(
                ends,
                centre[1] * (ends / centre[0]) ** k,
                label=f"{label}: {written(k, '+.2f')}",
                **style,
            )
        axes.plot(sizes, times, "o", color=BLUE, ms=5, alpha=0.6)
        unit = {"context": "tokens a document", "batch": "documents a batch"}[name]
        axes.set(xscale="log", yscale="log", xlabel=unit, title=f"Exponent of the {name} size")
        axes.minorticks_off()
        axes.set_xticks(sorted(set(sizes)), [f"{size:g}" for size in sorted(set(sizes))])
        axes.legend(fontsize=8)
    panels[0].set_ylabel("steps to half of the saving")
    panels[0].set_yticks([50, 100, 200, 400, 800], ["50", "100", "200", "400", "800"])


draws_in_style(__name__)
