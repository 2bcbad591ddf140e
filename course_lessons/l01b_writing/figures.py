"""What only lesson 01b draws: pieces of text, training, texts and their surprise, two cuts."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import bigrams, plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, MARKERS
from course_utils.text import visible

MONO: dict[str, Any] = {"family": "monospace", "parse_math": False}
ALT = plots.alt_texts(__file__)


def pieces(stages: Mapping[str, Sequence[str]]) -> Axes:
    """One text in several vocabularies, a row for each, every token as wide as its characters."""
    axes = plt.subplots(figsize=(8.8, 0.5 + 0.72 * len(stages)))[1]
    for row, tokens in enumerate(stages.values()):
        # the library's two
        shown = [visible(token.replace("Ġ", " ").replace("Ċ", "\n")) for token in tokens]
        widths = [len(token) for token in shown]
        style: dict[str, Any] = {
            "color": ("#FFF2CC", "#DDEBF7"),
            "edgecolor": "black",
            "linewidth": 0.8,
        }
        boxes = axes.barh([row] * len(shown), widths, 0.7, [0, *accumulate(widths[:-1])], **style)
        axes.bar_label(boxes, shown, label_type="center", fontsize=10, **MONO)
    labels = [f"{name}: {len(tokens)} tokens" for name, tokens in stages.items()]
    axes.set_yticks(range(len(stages)), labels)
    axes.set(title="What are the pieces of one line of Python?", xticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.invert_yaxis()
    return axes


def plain_losses(
    train: Int[Tensor, " stream"], unseen: Int[Tensor, "window pos"]
) -> dict[str, float]:
    """What two plain tables, counted on one text, lose on another, in nats per token.

    One knows single tokens, the other pairs.
    """
    N = bigrams.count(train, 512).to_dense()  # (current, next)
    single = (N.sum(0) + 1).log().log_softmax(-1).expand_as(N)
    tables = {"single tokens, new text": single, "bigram table, new text": bigrams.kneser_ney(N)}
    return {
        name: -table[unseen[:, :-1], unseen[:, 1:]].mean().item() for name, table in tables.items()
    }


def training(
    runs: Mapping[str, Mapping[str, Sequence[float]]], tables: Mapping[str, float], every: int
) -> Sequence[Axes]:
    """Loss over the steps, dotted what plain `tables` lose; beside it, where "no mask" looks.

    "seen" is the mean of 20 steps; "new text", "next" and "previous" are measured each `every`.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(8.7, 5.2), width_ratios=(1.6, 1))
    labels = (
        "How low is the loss on seen and on new text?",
        "training step",
        "loss, nats per token",
    )
    seen, new = {}, {}
    for name, run in runs.items():
        means = torch.tensor(run["seen"]).unfold(0, 20, 1).mean(-1)
        seen[f"{name}: training text, mean of 20 steps"] = dict(enumerate(means.tolist(), 10))
        new[f"{name}: new text"] = {every * n: loss for n, loss in enumerate(run["new text"], 1)}
    axes = plots.curves(seen, *labels, axes=left)
    plots.curves(new, *labels, lines=False, markers=True, axes=axes)
    for name, value in tables.items():
        axes.axhline(value, color="black", linewidth=1, linestyle=":")
        axes.text(
            1, value + 0.05, name, fontsize=9, ha="right", transform=axes.get_yaxis_transform()
        )
    axes.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    looks = {
        f"{name} token": {every * n: share for n, share in enumerate(runs["no mask"][name], 1)}
        for name in ("next", "previous")
    }
    plots.curves(looks, "Where does it look, without a mask?", "training step", "", axes=right)
    right.axhline(1 / 64, color="black", linewidth=1, linestyle=":", label="equal weights")
    right.set(ylabel="mean attention", ylim=(0, None))
    right.legend()
    return [axes, right]


def gaps(texts: Mapping[str, Float[Tensor, " text"]]) -> Axes:
    """Each text a dot at its mean surprise less what the model expects; a row for each source."""
    axes = plt.subplots(figsize=(8.8, 3.8))[1]
    looks = zip(texts.values(), COLOURS, "*" + MARKERS, strict=False)
    for row, (values, colour, marker) in enumerate(looks):
        n = len(values)
        spread = torch.linspace(-0.28, 0.28, n)[torch.arange(n) * 7 % n]
        axes.plot(values, row + spread, marker, color=colour, ms=8 if marker == "*" else 4, mew=0)
        mean, name = [values.mean()] * 2, "mean" * (not row)
        axes.plot(mean, [row - 0.4, row + 0.4], color="black", lw=2, label=name)
    axes.axvline(0, color="#777777", linestyle="--", label="as surprising as expected")
    axes.set_yticks(range(len(texts)), list(texts))
    axes.invert_yaxis()
    axes.set(xlabel="surprise of a text less its entropy, nats per token")
    axes.set_title("Is a text more surprising than the model expects?")
    axes.legend(loc="lower right", fontsize=9)
    return axes


def two_cuts(names: Sequence[str], ways: Mapping[str, Sequence[float]], before: float) -> Axes:
    """A probability when each of some tokens is cut, in several ways.

    The dashed line is the value `before`.
    """
    figure = plt.subplots(figsize=(8.8, 3.6))[1]
    shown = [visible(name) for name in names]
    axes = plots.grouped_bars(
        ways, shown, "What is left of ·KeyError?", "probability", numbers=True, axes=figure
    )
    axes.axhline(before, color="black", linestyle="--", label="nothing cut")
    axes.set_xticks(range(len(names)), shown, **MONO)
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.1))
    return axes


draws_in_style(__name__)
