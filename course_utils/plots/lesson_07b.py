"""What only lesson 07b draws: the company that two positions share."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils._arguments import checked
from course_utils.plots import COLOURS


@checked
def company(looks: Float[Tensor, " back"], before: Sequence[str] = ("u", "v", "w", "x")) -> Axes:
    """Two occurrences of A with the same tokens before them, and how much of each token a blurred head writes.

    `looks` is its attention to the token 0, 1, 2, … back. Above, what it writes at the earlier B; below, at the second
    A. Tokens that are in both are orange and hatched.
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
    arrow = {"arrowstyle": "-|>", "color": "#a34700", "lw": 2, "linestyle": "--", "connectionstyle": "arc3,rad=-0.18"}
    axes.annotate("", (n + 1, -0.45), (2 * n + 3, -0.45), arrowprops=arrow)
    words = "“who came after A, and in this company?”"
    axes.text(1.5 * n + 2, -1.4, words, ha="center", color="#a34700", fontsize=9)
    axes.set(xlim=(-0.8, len(tokens) - 0.2), ylim=(-1.65, 2.5))
    axes.axis("off")
    return axes
