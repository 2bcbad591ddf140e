"""What only lesson 07b draws: the company that two positions share, and who finds and copies by two measures."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils._arguments import checked
from course_utils.plots import COLOURS


@checked
def company(looks: Float[Tensor, " back"], question: str = "", before: Sequence[str] = ("u", "v", "w", "x")) -> Axes:
    """Two occurrences of A with the same tokens before them, and how much of each token a blurred head writes.

    `looks` is its attention to the token 0, 1, 2, … back. Above, what it writes at the earlier B; below, at the second
    A. Tokens that are in both are orange and hatched. A `question` stands below, at an arrow from the second A to B.
    """
    _, axes = plt.subplots(figsize=(9.6, 3.6))
    tokens = [*before, "A", "B", "· · ·", *before, "A", "?"]
    n = len(before)
    for x, token in enumerate(tokens):
        style = {"boxstyle": "round,pad=0.3", "facecolor": "#ffe9d6" if token == "?" else "white"}
        box = None if token.startswith("·") else style | {"edgecolor": "black"}
        axes.text(x, 0, token, ha="center", va="center", family="monospace", bbox=box)
    for writer, words in ((n + 1, "written at the earlier B"), (2 * n + 3, "written at the second A")):
        for back, share in enumerate(looks[: n + 2].tolist()):
            x = writer - back
            if x < 0 or tokens[x].startswith("·"):
                continue
            both = tokens[x] != "B"
            colour = COLOURS[1] if both else COLOURS[6]
            hatch = "///" if both else ""
            axes.bar(x, 4 * share, bottom=0.45, width=0.6, color=colour, hatch=hatch, edgecolor="white")
            axes.text(x, 0.5 + 4 * share, f"{share:.2f}", ha="center", va="bottom", fontsize=8)
        axes.text(writer - 2, 2.15, words, ha="center", fontsize=9)
    axes.text(-0.6, 2.15, "bars: share of 0.0's attention", fontsize=8, color="#555555")
    if question:
        arrow = {"arrowstyle": "-|>", "color": "#a34700", "lw": 2, "linestyle": "--"}
        bent = arrow | {"connectionstyle": "arc3,rad=-0.18"}
        axes.annotate("", (n + 1, -0.45), (2 * n + 3, -0.45), arrowprops=bent)
        axes.text(1.5 * n + 2, -1.4, question, ha="center", color="#a34700", fontsize=9)
    axes.set(xlim=(-0.8, len(tokens) - 0.2), ylim=(-1.65 if question else -0.6, 2.5))
    axes.axis("off")
    return axes


@checked
def find_and_copy(
    positivity: Float[Tensor, "axis head"],
    lead: Float[Tensor, "axis head"],
    random: Float[Tensor, "measure axis n"],
    induction: Sequence[int],
    writer: int,
) -> None:
    """Show how well the heads of layer 1, paired with 0.`writer`, find and copy, by two measures, beside random pairs.

    The first axis is to find, the second to copy. `random` has both measures of random pairs; a box holds all of them.
    """
    _, panels = plt.subplots(1, 2, figsize=(10.4, 4.4))
    names, far = ("positivity", "lead"), random[0].abs().max().item()
    named = [h for h in range(positivity.shape[1]) if positivity[:, h].min() > far]  # beyond chance on both axes
    for panel, name, values, chance in zip(panels, names, (positivity, lead), random, strict=True):
        panel.scatter(*chance, s=8, color=COLOURS[6], alpha=0.5, label="200 random pairs")
        across, up = chance.abs().amax(1).tolist()
        sides = [-across, across, across, -across, -across], [-up, -up, up, up, -up]
        panel.plot(*sides, ":", color=COLOURS[6], label="no random pair outside")
        others = [h for h in range(values.shape[1]) if h not in induction]
        for these, who, colour, marker in (
            (others, "other heads", 0, "o"),
            (list(induction), "induction heads", 1, "D"),
        ):
            style = {"marker": marker, "edgecolor": "black", "label": f"{who}, with 0.{writer}"}
            panel.scatter(values[0, these], values[1, these], 60, COLOURS[colour], **style)
        for head in named:  # names stand above; below at a place that has one, and beside it in a column of points
            at = values[:, head]
            taken = any((values[:, other] - at).abs().max() < 0.05 for other in named if other < head)
            beside = name == "lead" and head not in induction
            away, align = ((9, -4), "left") if beside else ((0, -17 if taken else 8), "center")
            panel.annotate(f"1.{head}", at.tolist(), away, textcoords="offset points", ha=align)
        panel.set(
            title=f"Who finds and copies, by {name}?",
            xlabel=f"to find: {name} of M_K",
            ylabel=f"to copy: {name} of the OV circuit",
        )
        panel.axhline(0, color=COLOURS[6], lw=0.8)
        panel.axvline(0, color=COLOURS[6], lw=0.8)
    panels[0].set(xlim=(-0.6, 1.2), ylim=(-0.4, 1.25))
    panels[1].margins(0.12)
    panels[1].legend(fontsize=8, loc="upper right")
    plots.show(
        "Two panels of points for heads paired with the previous-token head: how well they find, across, and how well "
        "they copy, upwards. By positivity the two induction heads stand in the upper right corner, and four other "
        "heads lie outside the box of chance on both axes. By lead the two induction heads stand alone at the right."
    )
