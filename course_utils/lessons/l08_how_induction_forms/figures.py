"""What only lesson 08 draws: models while they learn, when events came, where heads look, clamps and shams."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from jaxtyping import Bool, Int
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from course_utils import plots
from course_utils.plots import COLOURS, LINES, MARKERS, written

BLUE, ORANGE, GREEN, GREY = *COLOURS[:3], COLOURS[6]
Curves = Sequence[Sequence[float]]
ALT = plots.alt_texts(__file__)


def many(steps: Sequence[float], curves: Curves, title: str, unit: str, until: float | None = None) -> Axes:
    """One thin line per run; what comes after `until` is covered."""
    _, axes = plt.subplots(figsize=(8.4, 3))
    for curve in curves:
        shown = [(x, y) for x, y in zip(steps, curve, strict=True) if until is None or x <= until]
        axes.plot(*zip(*shown, strict=True), color=BLUE, lw=1, alpha=0.6)
    top = 1.1 * max(max(curve) for curve in curves)
    if until is not None:
        axes.axvspan(until, steps[-1], facecolor="#eeeeee", edgecolor=GREY, hatch="//", lw=0)
        axes.text((until + steps[-1]) / 2, top / 2, "?", fontsize=40, ha="center", va="center")
    axes.set(title=title, xlabel="step", ylabel=unit, xlim=(0, steps[-1]), ylim=(-0.1 * top, top))
    return axes


def document(tokens: Int[Tensor, " pos"], known: Bool[Tensor, " pos-1"]) -> Axes:
    """A document as boxes in rows: what memory could have known is filled and bold, names are underlined."""
    a_row, height = 32, -(-len(tokens) // 32)
    _, axes = plt.subplots(figsize=(9.6, 0.4 + 0.8 * height))
    for i, (token, hit) in enumerate(zip(tokens.tolist(), [False, *known.tolist()], strict=True)):
        fill, edge = ("#ffd9b8", ORANGE) if hit else ("white", "#cccccc")
        _box(axes, i % a_row, -(i // a_row), (0.72, 0.4), str(token), 9, facecolor=fill, edgecolor=edge)
        axes.texts[-1].set_fontweight("bold" if hit else "normal")
    for i, (words, name) in enumerate(zip(_names(tokens.tolist()), ("one name", "the other"), strict=False)):
        style: Any = {"ls": LINES[i], "color": (BLUE, GREEN)[i], "lw": 3}
        axes.plot([], [], label=name, **style)
        for place in (start + j for start in _places(tokens.tolist(), words) for j in range(len(words))):
            x, y = place % a_row, -(place // a_row)
            axes.plot([x - 0.5, x + 0.5], [y - 0.36] * 2, **style)
    axes.legend(loc="upper right", bbox_to_anchor=(1, -0.02), ncols=2)
    axes.set(xlim=(-0.7, a_row - 0.3), ylim=(0.55 - height, 0.5))
    axes.axis("off")
    return axes


def _places(tokens: list[int], words: list[int]) -> list[int]:
    return [i for i in range(1, len(tokens)) if tokens[i : i + len(words)] == words]


def _names(tokens: list[int]) -> list[list[int]]:
    """The two longest stretches of four tokens or more that stand twice, neither inside the other."""
    found: list[list[int]] = []
    for length in range(len(tokens) // 2, 3, -1):
        for start in range(1, len(tokens) - length + 1):
            words = tokens[start : start + length]
            if len(_places(tokens, words)) > 1 and not any(set(words) <= set(longer) for longer in found):
                found.append(words)
    return found[:2]


def _box(axes: Axes, x: float, y: float, size: tuple[float, float], words: str, fontsize: float, **style: Any) -> None:
    """Words in a rounded box around (x, y)."""
    corner = x - size[0] / 2, y - size[1] / 2
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle="round,pad=0.06", **style))
    axes.text(x, y, words, ha="center", va="center", fontsize=fontsize)


class Watching:
    """Two panels that are drawn again and again while a model trains: hand it to `train` as `watch`.

    `table` is the loss of a bigram table, `steps` how long the training lasts.
    """

    def __init__(self, table: float, steps: int):
        self.figure, self.panels = plt.subplots(1, 2, figsize=(9.6, 3.8))
        self.canvas = display(self.figure, display_id=True)
        self.table, self.steps = table, steps

    def __call__(self, history: list[dict]) -> None:
        """Draw what there is, after every second measurement: drawing takes time too."""
        if len(history) % 2:
            self._draw(history)
            self.canvas.update(self.figure)

    def _draw(self, history: list[dict]) -> None:
        """Losses on the left, the scores of all heads on the right."""
        steps, (left, right) = [row["step"] for row in history], self.panels
        left.clear()
        right.clear()
        names = {"documents": "held_out_loss", "random, repeated": "second_pass_loss"}
        losses = {name: [row[key] for row in history] for name, key in names.items()}
        plots.curves(losses, "Loss", "step", "nats per token", x=steps, axes=left, xlim=(0, self.steps), ylim=(0, 4.6))
        left.axhline(self.table, color=GREY, linestyle=":", label="bigram table")
        left.legend(loc="lower left")
        ends: list[tuple[float, str]] = []
        for layer, key in enumerate(("previous_token", "prefix_matching")):
            scores = [row[key][layer] for row in history]
            lines = right.plot(steps, scores, linestyle=LINES[layer], color=COLOURS[2 + layer])
            lines[0].set_label(f"{key.replace('_', ' ')}, layer {layer}")
            ends += [(score, f" {layer}.{head}") for head, score in enumerate(scores[-1]) if score > 0.15]
        height = 0.0
        for end, label in sorted(ends) if steps[-1] >= self.steps else ():
            height = max(end, height + 0.04)  # labels of lines that end together stand one above the other
            right.text(steps[-1], height, label, fontsize=8, va="center")
        right.set(title="Scores, one line per head", xlabel="step", xlim=(0, self.steps), ylim=(0, 1))
        right.legend(loc="upper left")


def _rows(
    groups: Mapping[str, Sequence[float]], bars: Sequence[float], words: Sequence[str], at: float, a_row: float = 0.6
) -> Axes:
    """A row for each name: a mark per run, by turns above and below, a bar at their middle, and words from `at` on."""
    _, axes = plt.subplots(figsize=(8.8, 1 + a_row * len(groups)))
    for row, (values, bar, said) in enumerate(zip(groups.values(), bars, words, strict=True)):
        lifted = row + 0.2 * (np.arange(len(values)) % 3 - 1)
        axes.plot(np.sort(values), lifted, MARKERS[row % 7], color=COLOURS[row % 7], ms=5, alpha=0.7)
        axes.plot([bar] * 2, [row - 0.36, row + 0.36], color="black", lw=2)
        axes.text(at, row, said, va="center", fontsize=9)
    axes.set_yticks(range(len(groups)), list(groups))
    axes.set_ylim(len(groups) - 0.4, -0.6)
    return axes


def events(times: Mapping[str, Sequence[float]], title: str) -> Axes:
    """When each event came: a row each, a mark per run, and a bar with a number at the median."""
    middle = [float(np.median(came)) for came in times.values()]
    spans = [f"from {min(came):.0f} to {max(came):.0f}" for came in times.values()]
    words = [f"median {median:.0f}, {span}" for median, span in zip(middle, spans, strict=True)]
    axes = _rows(times, middle, words, max(map(max, times.values())) + 6)
    axes.set(title=title, xlabel="step at which half of the rise was made")
    return axes


def match(
    steps: Sequence[float], positivity: Curves, lead: Curves, ends: Sequence[tuple[float, float]], half: float
) -> Axes:
    """Positivity and lead over training, a thin line per run, and each run's end: the pair's lead, its best control's.

    A dotted line stands at the step `half`.
    """
    _, panels = plt.subplots(1, 3, figsize=(9.8, 3.6), gridspec_kw={"wspace": 0.32})
    units = "Σλ / Σ|λ|", "units of score"
    for axes, curves, title, unit in zip(panels, (positivity, lead), ("Positivity", "Lead"), units, strict=False):
        for curve in curves:
            axes.plot(steps, curve, color=BLUE, lw=0.8, alpha=0.4)
        axes.plot(steps, np.median(curves, 0), color="black", lw=2, label="the median")
        axes.axvline(half, color=GREY, ls=":")
        axes.set(title=title, xlabel="step", ylabel=unit)
        axes.legend(fontsize=8, loc="lower right")
    pairs, controls = zip(*ends, strict=True)
    reach = 1.1 * max(pairs)
    panels[2].plot(pairs, controls, "o", color=ORANGE, ms=5, alpha=0.7)
    for share, name, dash in ((1, " equal", "-"), (1 / 2, "half", "--")):
        panels[2].plot([0, reach], [0, share * reach], dash, color=GREY, lw=1)
        panels[2].text(reach, share * reach, name, fontsize=8, ha="right", va="bottom", color=GREY)
    panels[2].set(title="In the end", xlabel="lead of the pair", ylabel="lead of the best control", xlim=(0, reach))
    return panels[0]


def _row_of_tokens(tokens: str, height: float, top: float) -> Axes:
    """Letters in boxes, one unit apart; "·" is any token, "?" is dashed."""
    _, axes = plt.subplots(figsize=(8.8, height))
    for x, token in enumerate(tokens):
        edge, dash = GREY if token == "·" else "black", "--" if token == "?" else "-"
        _box(axes, x, 0, (0.6, 0.6), token, 11, facecolor="white", edgecolor=edge, linestyle=dash)
    axes.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-1.6, top))
    axes.axis("off")
    return axes


def _arch(axes: Axes, start: float, end: float, height: float, words: str, colour: str) -> None:
    """A squared arrow over (below, if negative) a row of boxes, from one place to another, with words on its top."""
    foot = 0.42 if height > 0 else -0.42
    axes.plot([start, start, end], [foot, height, height], color=colour, lw=2)
    axes.annotate("", (end, foot), (end, height), arrowprops={"arrowstyle": "-|>", "lw": 2, "color": colour})
    at, align = (start + end) / 2, "bottom" if height > 0 else "top"
    axes.text(at, height + (0.06 if height > 0 else -0.08), words, ha="center", va=align, fontsize=9, color=colour)


def distances(groups: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str) -> Axes:
    """For each language how often a copy stands how far back (left), and what always guessing so far back saves."""
    _, panels = plt.subplots(1, 2, figsize=(9.6, 3.4))
    shares = {name: {i: 100 * share for i, share in enumerate(both[0], 1)} for name, both in groups.items()}
    saved = {name: dict(enumerate(both[1], 1)) for name, both in groups.items()}
    far, share, guess = "distance, in tokens", "share of predictable tokens, %", "What a guess at that distance saves"
    plots.curves(shares, title, far, share, markers=True, size=4, axes=panels[0])
    plots.curves(saved, guess, "distance", "nats per token", markers=True, size=4, axes=panels[1])
    return panels[0]


def looking_back(groups: Mapping[str, Sequence[Sequence[float]]], title: str) -> Axes:
    """Where layer 0 looks: for each group a panel, a row per run, a column per place back; the best head each."""
    sizes = [len(rows) for rows in groups.values()]
    figure, panels = plt.subplots(1, len(groups), figsize=(9.6, 0.9 + 0.16 * max(sizes)), squeeze=False)
    for axes, (name, rows) in zip(panels[0], groups.items(), strict=True):
        drawn = axes.imshow(np.array(rows), aspect="auto", vmin=0, vmax=1, cmap="viridis")
        axes.set(title=name, xlabel="places back")
        axes.set_xticks(range(0, len(rows[0]), 2))
        axes.set_yticks([0, len(rows) - 1], ["1", str(len(rows))])
    panels[0, 0].set_ylabel("seed")
    figure.colorbar(drawn, ax=panels[0], label="attention, best head")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return panels[0, 0]


def shortcut() -> Axes:
    """A drawing: what comes next stands 8 back, or 7 back from the token that asks."""
    axes = _row_of_tokens("ABCDEFGHAB?", 2.4, 1.6)
    _arch(axes, 10, 2, 1.0, "the next token is C, whose first copy stands 8 back", BLUE)
    _arch(axes, 9, 2, -1.0, "that is 7 back from B, the token that asks", ORANGE)
    return axes


def detour() -> Axes:
    """A drawing: two heads of layer 0 bring A and B to one place, and layer 1 takes both from there."""
    axes = _row_of_tokens("ABCDEFGH·······A?", 3.2, 2.4)
    _arch(axes, 0, 8, 1.0, "one head, 8 back: brings A", BLUE)
    _arch(axes, 1, 8, 1.75, "another head, 7 back: brings B", GREEN)
    _arch(axes, 15, 8, -1.0, "layer 1 looks here: the match finds the A, the copy takes the B", ORANGE)
    axes.text(16, 0.55, "B", ha="center", va="center", fontsize=12, weight="bold", color=ORANGE)
    return axes


def clamp(held: str = "match") -> Axes:
    """A drawing of the idea: a model in training, a finished one, and the part that the finished one does for it."""
    _, axes = plt.subplots(figsize=(8.8, 2.9))
    parts = {"look": "where layer 0\nlooks", "match": "what layer 1\nlooks for", "copy": "what layer 1\nwrites"}
    for y, who in ((1.6, "in training"), (0, "finished")):
        axes.text(-0.3, y, who, ha="right", va="center")
        for x, (name, words) in enumerate(parts.items()):
            off = name == held and y > 0
            fill, dash = "#eeeeee" if off else "#ffe9d6" if name == held else "white", "--" if off else "-"
            label, style = f"{name}: {words}", {"facecolor": fill, "edgecolor": "black", "linestyle": dash}
            _box(axes, 2.3 * x + 0.8, y, (1.7, 0.8), label, 8.5, **style)
            axes.texts[-1].set_color(GREY if off else "black")
    arrow = {"arrowstyle": "-|>", "lw": 2, "color": "#a34700"}
    at = 2.3 * list(parts).index(held) + 0.8
    axes.annotate("", (at, 1.1), (at, 0.5), arrowprops=arrow)
    axes.text(at + 0.12, 0.8, "takes its place, at every step", va="center", fontsize=9, color="#a34700")
    axes.text(6.5, 1.6, "→ logits → loss → gradient", va="center", fontsize=9)
    axes.text(6.5, 0, "never changes", va="center", fontsize=9)
    axes.set(xlim=(-1.9, 9.6), ylim=(-0.6, 2.3))
    axes.axis("off")
    return axes


def forward(arms: Mapping[str, Mapping[str, Any]], title: str) -> Axes:
    """How many steps earlier (left) or later each arm got there, a mark per seed, from `experiments.comparison`s.

    Where a seed never got there, words say so: then there is no difference to draw.
    """
    shown, means, words = {}, [], []
    for name, arm in arms.items():
        never, mean = arm["never"] == arm["seeds"], arm["mean"] - arm["against"]
        shown[name] = [] if never else arm["differences"]
        means.append(np.nan if never else mean)
        earlier = f"earlier in {sum(d < 0 for d in arm['differences'])} of {arm['seeds']}"
        seeds = f"never, in {arm['never']} of {arm['seeds']} seeds"
        words.append(seeds if never else f"{written(mean, '+.0f')} steps, {earlier}")
    axes = _rows(shown, means, words, 60, a_row=0.4)
    axes.axvspan(-25, 25, color="#eeeeee", lw=0, zorder=0)  # neither earlier nor later
    axes.axvline(0, color="black", lw=1, zorder=1)
    axes.set(title=title, xlabel="steps, beside the same seed unaltered (grey: within 25)")
    axes.set(xlim=(-225, 190), xticks=range(-200, 51, 50))
    return axes


def without_best(values: Mapping[str, Sequence[float]], title: str, unit: str) -> Axes:
    """A row for each way to lose a head, a mark per seed and a bar at the mean."""
    axes = _rows(values, [sum(found) / len(found) for found in values.values()], [""] * len(values), 0)
    axes.set(title=title, xlabel=unit, xlim=(0, None))
    return axes


def scoreboard(found: Mapping[str, Mapping[str, Any]], title: str) -> Axes:
    """A row for each prediction of `predictions.verdicts`: what was expected, and a tick or a cross for each part."""
    _, axes = plt.subplots(figsize=(9.8, 0.6 + 0.3 * len(found)))
    signs = {True: ("✓", GREEN), False: ("✗", ORANGE), None: ("?", GREY)}
    for row, (number, judged) in enumerate(found.items()):
        held = judged["verdict"] == "held"
        axes.axhspan(row - 0.46, row + 0.46, color="#e6f4ef" if held else "white", lw=0)
        axes.text(0.3, row, number.split(",")[0], va="center", ha="right", fontsize=9)
        axes.text(0.6, row, judged["expected"].replace("`", ""), va="center", fontsize=9)
        for i, (_, part) in enumerate(judged["parts"]):
            sign, colour = signs[part]
            axes.text(19.2 + 0.5 * i, row, sign, va="center", ha="center", color=colour, fontsize=12)
        axes.text(21.6, row, judged["verdict"], va="center", fontsize=9, weight="bold" if held else "normal")
    axes.set(title=title, xlim=(-0.4, 23.2), ylim=(len(found) - 0.4, -0.6))
    axes.axis("off")
    return axes


def shares_of_rise(steps: Sequence[float], curves: Mapping[str, Sequence[float]], title: str) -> Axes:
    """Curves as shares of their own rise, on a logarithmic axis, from the second measurement on."""
    shares = {}
    for name, curve in curves.items():
        rise = sum(curve[-4:]) / 4 - curve[0]
        shares[name] = [(value - curve[0]) / rise for value in curve[1:]]
    _, axes = plt.subplots(figsize=(8.4, 3.6))
    plots.curves(shares, title, "step (logarithmic)", "share of the rise", x=steps[1:], axes=axes, ylim=(-0.2, 1.6))
    axes.axhline(0.5, color=GREY, lw=1)
    axes.set_xscale("log")
    axes.legend(loc="upper left", fontsize=8)
    return axes
