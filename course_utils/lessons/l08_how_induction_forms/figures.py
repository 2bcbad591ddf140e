"""What only lesson 08 draws: models while they learn, when events came, where heads look, clamps and shams."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from jaxtyping import Bool, Int
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from course_utils.plots import COLOURS, LINES, MARKERS, written

BLUE, ORANGE, GREEN, GREY = *COLOURS[:3], COLOURS[6]
Curves = Sequence[Sequence[float]]
NEAR = 25  # steps: what lies nearer to the same seed unaltered is neither earlier nor later
ALT = {  # what the figures show, in words: here, so that no cell under a prediction prints its answer
    "covered": "One line per model: what repeating saves. All rise to half a nat by step 60 and stay there. The rest "
    "of the picture, from step 120 to step 400, is covered.",
    "document": "One document as two rows of numbered boxes. Two stretches of tokens are underlined wherever they "
    "stand. From the second time on, their boxes are filled from the second token on.",
    "watching": "Left, two losses. On documents it falls, stays on a plateau and falls again. On repeated random "
    "tokens it waits and then falls steeply. Right, one line per head: previous-token and prefix-matching scores rise "
    "in those steps; several heads of layer 1 match prefixes in the end.",
    "events": "When each of five events came, a mark per model and a bar at the median. The saving, the lead and "
    "prefix matching come within some twenty steps of each other. The previous-token score and in-context learning "
    "come some seventy steps later.",
    "match": "Left, positivity rises from step 40 on and is nearly one at step 180. Middle, the lead of the same pairs "
    "is near zero until step 140 and then grows to several units. Right, a mark per model: in most, the best control "
    "ends far below half of the pair's lead; in six it comes near the lead itself.",
    "shortcut": "A row of tokens: A to H, then A to C again. One arrow spans the 8 places from the first C to the "
    "second, another the 7 places from the first C to the second B, which asks what comes next.",
    "distances": "Left, the share of predictable tokens by distance: the old language has a sharp peak at eight, ours "
    "a low hump. Right, what always guessing the token that far back saves: a peak at eight for the old language, next "
    "to nothing for ours.",
    "looking back": "Tables of attention by places back, a row per model. With our language column one alone is "
    "bright. With the old one, one model of ten is bright at seven and eight; in batches of 32 half of them are. With "
    "names of five most are bright somewhere between four and six.",
    "detour": "A row of tokens. Two arrows of layer 0 bring the A from 8 back and the B from 7 back to one place. Much "
    "later an A looks at that place: its match finds the A there, and its copy takes the B.",
    "clamp": "The model in training has three parts: look, match, copy. Its match is greyed out; the match of a "
    "finished model, below it, takes its place at every step. Logits, loss and gradient come from the mixture; the "
    "finished model never changes.",
    "arms": "Steps earlier or later than the same seed unaltered, a mark per seed. A head planted to look 1 back "
    "brings the gain forward in all seeds; shams move it a little, to both sides. Look, copy and match held at their "
    "end bring it forward, match most. With any one part held at its start it never comes.",
    "without a head": "What is saved without the best head of layer 1, in per cent of the whole model. Taken from a "
    "finished model, it leaves about four fifths. Models that are trained without it save about all.",
    "scoreboard": "Fifteen predictions, a row each, with a tick or a cross for every part. Five have ticks alone.",
    "text": "Four curves through training on real text, as shares of their own rise, on a logarithmic axis. The "
    "previous-token head rises first, in-context learning next, prefix matching after it, and the saving last.",
    "uncovered": "The first picture, uncovered: the saving stays at half a nat until about step 160, and then rises "
    "steeply in all models, to about three nats by step 300.",
}


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


def document(tokens: Int[Tensor, " pos"], known: Bool[Tensor, " pos-1"], a_row: int = 32) -> Axes:
    """A document as boxes in rows: what memory could have known is filled and bold, names are underlined."""
    rows = -(-len(tokens) // a_row)
    _, axes = plt.subplots(figsize=(9.6, 0.4 + 0.8 * rows))
    for i, token in enumerate(tokens.tolist()):
        x, y, hit = i % a_row, -(i // a_row), bool(i and known[i - 1])
        style: Any = {"facecolor": "#ffd9b8" if hit else "white", "edgecolor": ORANGE if hit else "#cccccc"}
        axes.add_patch(FancyBboxPatch((x - 0.36, y - 0.2), 0.72, 0.4, boxstyle="round,pad=0.06", **style))
        weight = "bold" if hit else "normal"
        axes.text(x, y, str(token), ha="center", va="center", fontsize=9, fontweight=weight)
    for i, first, length in _copies(tokens.tolist()):
        for place in range(first, first + length):
            x, y = place % a_row, -(place // a_row)
            axes.plot([x - 0.5, x + 0.5], [y - 0.36] * 2, LINES[i], color=(BLUE, GREEN)[i], lw=3)
    marks = [Line2D([], [], ls=LINES[i], color=colour, lw=3) for i, colour in enumerate((BLUE, GREEN))]
    axes.legend(marks, ["one name", "the other"], loc="upper right", bbox_to_anchor=(1, -0.02), ncols=2)
    axes.set(xlim=(-0.7, a_row - 0.3), ylim=(0.55 - rows, 0.5))
    axes.axis("off")
    return axes


def _copies(tokens: list[int], names: int = 2, least: int = 4) -> list[tuple[int, int, int]]:
    """Where the longest stretches that stand twice or more begin: number of the stretch, place, length."""
    found: list[tuple[int, int, int]] = []
    stretches: list[list[int]] = []
    for length in range(len(tokens) // 2, least - 1, -1):
        for start in range(1, len(tokens) - length + 1):
            words = tokens[start : start + length]
            places = [i for i in range(1, len(tokens) - length + 1) if tokens[i : i + length] == words]
            inside = any(set(words) <= set(longer) for longer in stretches)
            if len(places) > 1 and not inside and len(stretches) < names:
                found += [(len(stretches), place, length) for place in places]
                stretches.append(words)
    return found


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
            watched(self.panels, history, self.table, self.steps)
            self.canvas.update(self.figure)


def watched(panels: np.ndarray, history: list[dict], table: float, steps: float) -> None:
    """Losses on the left, the scores of all heads on the right; `table` is the loss of a bigram table."""
    made = [row["step"] for row in history]
    left, right = panels
    left.clear()
    right.clear()
    ends: list[tuple[float, str]] = []
    for i, (name, key) in enumerate({"documents": "held_out_loss", "random, repeated": "second_pass_loss"}.items()):
        left.plot(made, [row[key] for row in history], LINES[i], color=COLOURS[i], label=name)
    left.axhline(table, color=GREY, linestyle=":", label="bigram table")
    left.set(title="Loss", xlabel="step", ylabel="nats per token", xlim=(0, steps), ylim=(0, 4.6))
    for layer, key in enumerate(("previous_token", "prefix_matching")):
        for head, score in enumerate(zip(*[row[key][layer] for row in history], strict=True)):
            label = f"{key.replace('_', ' ')}, layer {layer}" if head == 0 else None
            right.plot(made, score, LINES[layer], color=COLOURS[2 + layer], label=label)
            if score[-1] > 0.15 and made[-1] >= steps:
                ends.append((score[-1], f" {layer}.{head}"))
    height = 0.0
    for end, label in sorted(ends):  # labels of lines that end together stand one above the other
        height = max(end, height + 0.04)
        right.text(made[-1], height, label, fontsize=8, va="center")
    right.set(title="Scores, one line per head", xlabel="step", xlim=(0, steps), ylim=(0, 1))
    left.legend(loc="lower left")
    right.legend(loc="upper left")


def events(times: Mapping[str, Sequence[float]], title: str) -> Axes:
    """When each event came: a row each, a mark per run, and a bar with a number at the median."""
    _, axes = plt.subplots(figsize=(8.8, 1 + 0.6 * len(times)))
    last = max(map(max, times.values()))
    for row, (name, found) in enumerate(times.items()):
        came = np.sort(found)
        spread = row + 0.2 * (np.arange(len(came)) % 3 - 1)
        axes.plot(came, spread, MARKERS[row % 7], color=COLOURS[row % 7], ms=4, alpha=0.7, label=name)
        axes.plot([np.median(came)] * 2, [row - 0.36, row + 0.36], color="black", lw=2)
        words = f"median {np.median(came):.0f}, from {came[0]:.0f} to {came[-1]:.0f}"
        axes.text(last + 6, row, words, va="center", fontsize=9)
    axes.set_yticks(range(len(times)), list(times))
    axes.invert_yaxis()
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
    panels[2].plot(pairs, controls, "o", color=ORANGE, ms=5, alpha=0.7)
    reach = 1.1 * max(pairs)
    panels[2].plot([0, reach], [0, reach], color=GREY, lw=1)
    panels[2].plot([0, reach], [0, reach / 2], "--", color=GREY, lw=1)
    panels[2].text(reach, reach, " equal", fontsize=8, ha="right", va="bottom", color=GREY)
    panels[2].text(reach, reach / 2, "half", fontsize=8, ha="right", va="bottom", color=GREY)
    panels[2].set(title="In the end", xlabel="lead of the pair", ylabel="lead of the best control", xlim=(0, reach))
    return panels[0]


def _row_of_tokens(axes: Axes, tokens: str) -> None:
    """Letters in boxes, one unit apart; "·" is any token, "?" is dashed."""
    for x, token in enumerate(tokens):
        style: Any = {"facecolor": "white", "edgecolor": GREY if token == "·" else "black"}
        style["linestyle"] = "--" if token == "?" else "-"
        axes.add_patch(FancyBboxPatch((x - 0.3, -0.3), 0.6, 0.6, boxstyle="round,pad=0.06", **style))
        axes.text(x, 0, token, ha="center", va="center", fontsize=11)


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
    for i, (name, both) in enumerate(groups.items()):
        for axes, values in zip(panels, ([100 * share for share in both[0]], both[1]), strict=True):
            at = range(1, len(values) + 1)
            axes.plot(at, values, LINES[i], marker=MARKERS[i], ms=4, color=COLOURS[i], label=name)
    panels[0].set(title=title, xlabel="distance, in tokens", ylabel="share of predictable tokens, %")
    panels[1].set(title="What a guess at that distance saves", xlabel="distance", ylabel="nats per token")
    panels[0].legend()
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
    _, axes = plt.subplots(figsize=(8.8, 2.4))
    _row_of_tokens(axes, "ABCDEFGHAB?")
    _arch(axes, 10, 2, 1.0, "the next token is C, whose first copy stands 8 back", BLUE)
    _arch(axes, 9, 2, -1.0, "that is 7 back from B, the token that asks", ORANGE)
    axes.set(xlim=(-0.6, 10.6), ylim=(-1.6, 1.6))
    axes.axis("off")
    return axes


def detour() -> Axes:
    """A drawing: two heads of layer 0 bring A and B to one place, and layer 1 takes both from there."""
    _, axes = plt.subplots(figsize=(8.8, 3.2))
    _row_of_tokens(axes, "ABCDEFGH·······A?")
    _arch(axes, 0, 8, 1.0, "one head, 8 back: brings A", BLUE)
    _arch(axes, 1, 8, 1.75, "another head, 7 back: brings B", GREEN)
    _arch(axes, 15, 8, -1.0, "layer 1 looks here: the match finds the A, the copy takes the B", ORANGE)
    axes.text(16, 0.55, "B", ha="center", va="center", fontsize=12, weight="bold", color=ORANGE)
    axes.set(xlim=(-0.6, 16.6), ylim=(-1.6, 2.4))
    axes.axis("off")
    return axes


def clamp(held: str = "match") -> Axes:
    """A drawing of the idea: a model in training, a finished one, and the part that the finished one does for it."""
    _, axes = plt.subplots(figsize=(8.8, 2.9))
    parts = {"look": "where layer 0\nlooks", "match": "what layer 1\nlooks for", "copy": "what layer 1\nwrites"}
    for y, who in ((1.6, "in training"), (0, "finished")):
        axes.text(-0.3, y, who, ha="right", va="center")
        for x, (name, words) in enumerate(parts.items()):
            off = name == held and y > 0
            style: Any = {
                "facecolor": "#eeeeee" if off else "#ffe9d6" if name == held else "white",
                "edgecolor": "black",
            }
            style["linestyle"] = "--" if off else "-"
            axes.add_patch(FancyBboxPatch((2.3 * x - 0.05, y - 0.4), 1.7, 0.8, boxstyle="round,pad=0.06", **style))
            label = f"{name}: {words}"
            axes.text(2.3 * x + 0.8, y, label, ha="center", va="center", fontsize=8.5, color=GREY if off else "black")
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
    _, axes = plt.subplots(figsize=(8.8, 1 + 0.4 * len(arms)))
    axes.axvspan(-NEAR, NEAR, color="#eeeeee", lw=0)
    axes.axvline(0, color="black", lw=1)
    kinds = ("<", BLUE), ("o", GREY), (">", ORANGE)
    edge = 60.0
    for row, arm in enumerate(arms.values()):
        if arm["never"] == arm["seeds"]:
            axes.text(edge, row, f"never, in {arm['never']} of {arm['seeds']} seeds", va="center", fontsize=9)
            continue
        for d in arm["differences"]:
            mark, colour = kinds[0 if d < -NEAR else 1 if d <= NEAR else 2]
            axes.plot(d, row, mark, color=colour, ms=6, alpha=0.6)
        mean = sum(arm["differences"]) / arm["seeds"]
        axes.plot([mean] * 2, [row - 0.32, row + 0.32], color="black", lw=2)
        earlier = sum(d < 0 for d in arm["differences"])
        words = f"{written(mean, '+.0f')} steps, earlier in {earlier} of {arm['seeds']}"
        axes.text(edge, row, words, va="center", fontsize=9)
    axes.set_yticks(range(len(arms)), list(arms))
    axes.set_ylim(len(arms) - 0.4, -0.6)
    axes.set(title=title, xlabel="steps, beside the same seed unaltered (grey: within 25)", xlim=(-225, 190))
    axes.set_xticks(range(-200, 51, 50))
    return axes


def without_best(values: Mapping[str, Sequence[float]], title: str, unit: str) -> Axes:
    """A row for each way to lose a head, a mark per seed and a bar at the mean."""
    _, axes = plt.subplots(figsize=(8.4, 1.2 + 0.6 * len(values)))
    for row, found in enumerate(values.values()):
        axes.barh(row, sum(found) / len(found), color=COLOURS[row], alpha=0.35, height=0.7)
        lift = row + 0.18 * (np.arange(len(found)) % 3 - 1)
        axes.plot(found, lift, MARKERS[row], color=COLOURS[row], ms=5, ls="")
    axes.set_yticks(range(len(values)), list(values))
    axes.invert_yaxis()
    axes.set(title=title, xlabel=unit)
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
    _, axes = plt.subplots(figsize=(8.4, 3.6))
    for i, (name, curve) in enumerate(curves.items()):
        final = sum(curve[-4:]) / 4
        shown: list[Any] = [(value - curve[0]) / (final - curve[0]) for value in curve]
        axes.plot(steps[1:], shown[1:], LINES[i], color=COLOURS[i], label=name)
    axes.axhline(0.5, color=GREY, lw=1)
    axes.set(xscale="log", title=title, xlabel="step (logarithmic)", ylabel="share of the rise", ylim=(-0.2, 1.6))
    axes.legend(loc="upper left", fontsize=8)
    return axes
