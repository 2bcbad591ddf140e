"""What only lesson 03 draws: a text from one table, the table's factors, and its training."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

import matplotlib.pyplot as plt
import torch
from IPython.display import DisplayHandle, display
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lessons import thin_tables
from course_utils import plots
from course_utils._arguments import Count, validated
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS
from course_utils.text import visible

ALT = plots.alt_texts(__file__)
ByName = Mapping[str, float]
CODE: dict[str, Any] = {"family": "monospace", "parse_math": False}  # how tokens are written
WIDTH = 76  # characters on a line of a drawn text


def writing(
    tokens: Sequence[str], row: Float[Tensor, " V"], names: Sequence[str]
) -> Sequence[Axes]:
    """A written text, a box for each token, and the next token's probabilities."""
    figure = plt.figure(figsize=(8.8, 3.4), layout="none")
    left = figure.add_axes((0.01, 0.03, 0.62, 0.87))
    right = figure.add_axes((0.75, 0.17, 0.24, 0.73))
    x = y = 0
    for i, token in enumerate(tokens):
        last = i == len(tokens) - 1
        look: dict[str, Any] = {
            "facecolor": ("#d3e4f1", "#eef4f9")[i % 2],  # neighbours differ
            "edgecolor": COLOURS[1] if last else "white",
            "linewidth": 2 if last else 1,
            "zorder": 1.5 if last else 1,  # its outline lies above the neighbours' white edges
        }
        for piece in token.replace("\n", "↵\n").replace(" ", "·").splitlines():
            if x + len(piece) > WIDTH:
                x, y = 0, y + 1
            left.add_patch(Rectangle((x, y - 0.75), len(piece), 1, **look))
            left.text(x + len(piece) / 2, y, piece, fontsize=9, ha="center", **CODE)
            x += len(piece)
            if piece.endswith("↵"):
                x, y = 0, y + 1
    left.set(xlim=(-0.5, WIDTH + 0.5), ylim=(max(y, 9) + 1, -1.2))
    left.set_title("What it wrote, a box for each token")
    left.axis("off")
    p, order = row.topk(10)
    right.barh(range(10), p.tolist(), color=COLOURS[0])
    right.set_yticks(
        range(10),
        [visible(names[i]) for i in order],
        family="monospace",
        fontsize=9,
        parse_math=False,
    )
    right.invert_yaxis()
    right.set(
        title=f"What may follow  {visible(tokens[-1])}", xlabel="probability of the next token"
    )
    return [left, right]


def factors(d_vocab: Count, d_model: Count) -> None:
    """A schematic: a tall matrix times a wide one is a square table.

    One token's row is picked out.
    """
    _, axes = plt.subplots(figsize=(8.8, 4))
    table = f"{d_vocab:,} × {d_vocab:,}: a row for each current\ntoken, a column for each next one"
    parts = (
        (0, 1, 4, "$W_E$", f"{d_model:,} numbers\nfor each current token", COLOURS[0]),
        (2.6, 4, 1, "$W_U$", f"{d_model:,} numbers\nfor each next token", COLOURS[2]),
        (8.2, 4, 4, "$T$", table, "#999999"),
    )
    for x, width, height, name, below, colour in parts:
        axes.add_patch(
            Rectangle(
                (x, 2 - height / 2), width, height, facecolor=colour, alpha=0.25, edgecolor=colour
            )
        )
        axes.text(x + width / 2, 2 + height / 2 + 0.15, name, ha="center", fontsize=14)
        axes.text(x + width / 2, 2 - height / 2 - 0.25, below, ha="center", va="top", fontsize=9)
    for x, width, colour in ((0, 1, COLOURS[0]), (8.2, 4, COLOURS[1])):
        axes.add_patch(Rectangle((x, 2.7), width, 0.25, facecolor=colour))
    for x, sign in ((1.8, "×"), (7.4, "=")):
        axes.text(x, 1.85, sign, ha="center", fontsize=20)
    axes.annotate("current token", (0, 2.83), (-0.2, 2.83), ha="right", va="center", fontsize=9)
    axes.annotate(
        "its logits for\nall next tokens", (12.2, 2.83), (12.4, 2.83), va="center", fontsize=9
    )
    axes.set(xlim=(-2, 14.6), ylim=(-1.1, 4.6), aspect="equal")
    axes.axis("off")


def _ring(table: Float[Tensor, "n n"], title: str, axes: Axes, bar: bool = True) -> None:
    names = list(ascii_lowercase[: len(table)])
    p = table.detach().softmax(1)
    plots.heatmap(
        p,
        names,
        names,
        title,
        "current letter",
        "next letter",
        label="probability",
        bar=bar,
        axes=axes,
    )
    axes.tick_params(labelsize=9, labelrotation=0)
    axes.images[0].set_clim(0, 1)


def letters(W_E: Float[Tensor, "n 2"], W_U: Float[Tensor, "2 n"]) -> None:
    """Show letters' embeddings as arrows, unembeddings as points, and their probabilities."""
    n = len(W_E)
    _, (left, right) = plt.subplots(1, 2, figsize=(8.7, 5.2))
    for i, letter in enumerate(ascii_lowercase[:n]):
        arrow, point = (v / v.norm() for v in (W_E[i], W_U[:, i]))
        left.plot([0, 0.8 * arrow[0]], [0, 0.8 * arrow[1]], color=COLOURS[0], linewidth=0.8)
        left.text(*(0.88 * arrow).tolist(), letter, color=COLOURS[0], ha="center", va="center")
        left.text(
            *(1.08 * point).tolist(),
            letter,
            color=COLOURS[1],
            ha="center",
            va="center",
            weight="bold",
        )
    legend = "directions only. inside: embeddings (current letter) · bold: unembeddings (next)"
    left.text(0, -1.35, legend, ha="center", fontsize=9)
    left.set(
        xlim=(-1.25, 1.25), ylim=(-1.45, 1.25), aspect="equal", title="Two numbers for each letter"
    )
    left.axis("off")
    _ring(W_E @ W_U, "The table they make", right)
    plots.show("Letters on a circle: each one's embedding points at the next one's unembedding.")


def own_factors(
    W_E: Float[Tensor, "V d_model"], W_U: Float[Tensor, "d_model V"], words: Sequence[str]
) -> None:
    """Show a small model's two weights and the probabilities they make.

    The numbers are written in.
    """
    numbers = [str(i) for i in range(W_E.shape[1])]
    _, axes = plt.subplots(
        1, 3, figsize=(8.8, 3.2), width_ratios=[max(len(numbers), 3), len(words), len(words)]
    )
    look: dict[str, Any] = {"centred": True, "limit": 3.0, "numbers_from": 0, "bar": False}
    plots.heatmap(W_E, words, numbers, "$W_E$", axes=axes[0], **look)
    plots.heatmap(W_U, numbers, words, "$W_U$", axes=axes[1], **look)
    plots.heatmap(
        (W_E @ W_U).softmax(1), words, words, "probability of the next word", axes=axes[2], **look
    )
    plots.show(
        "Two small matrices and the table of probabilities they make, "
        "with their numbers written in."
    )


def rings(tables: Mapping[int, Float[Tensor, "n n"]]) -> None:
    """Show the tables of trained rings of letters, a panel for each d_model.

    The first guess of each row is marked.
    """
    titles = {
        f"d_model = {d_model} (dots: first guesses)": table for d_model, table in tables.items()
    }
    panels = plots.panels(titles, (8.8, 4.7))
    for (axes, table), title in zip(panels, titles, strict=True):
        _ring(table, title, axes, bar=axes is panels[-1][0])
        axes.plot(table.argmax(1), range(len(table)), ".", color=COLOURS[1], markersize=5)
        axes.label_outer()
    plots.show(
        "With one number per letter each row has its peak at one of two letters; "
        "with two, at the next."
    )


def hills(rows: Mapping[int, Float[Tensor, " n"]]) -> None:
    """Show the probabilities of the letters that may follow the letter a.

    There is a curve for each length of embeddings.
    """
    n = len(next(iter(rows.values())))
    order = [(i + 2 - n // 2) % n for i in range(n)]  # b in the middle
    words = "What may follow an a?", "next letter, in the order of the ring", "probability"
    named = {f"length {scale}": row[order] for scale, row in rows.items()}
    axes = plots.curves(named, *words, markers=True, figsize=(8.5, 4))
    axes.set_xticks(range(n), [ascii_lowercase[i] for i in order])
    axes.legend(title="embeddings of", fontsize=9)
    plots.show(
        "Three hills around b: "
        "a wide one, a steep one, and for the longest embeddings a single peak."
    )


class LiveTable:
    """A picture of a table in training, drawn anew while you watch.

    It keeps how `like` others the table was, and how like each other its rows were. `words` pick
    rows and columns, `often` the pairs of the bigram table `counted` that are compared.
    """

    STEPS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300)

    def __init__(self, counted: Tensor, often: Tensor, frequency: Tensor, words: Mapping[str, int]):
        self.counted, self.often, self.words = counted, often, words
        # the same row for every current token
        self.frequencies = frequency.log().expand(len(frequency), -1)
        self.like_bigrams: dict[int, float] = {}
        self.like_frequencies: dict[int, float] = {}
        self.between_rows: dict[int, float] = {}
        self.handle: DisplayHandle | None = None

    def show(self, step: int, table: Tensor, loss: float) -> None:
        """Measure and draw the table after `step` steps, if it is one of STEPS."""
        if step not in self.STEPS:
            return
        table = table.detach()
        for kept, other in (
            (self.like_bigrams, self.counted),
            (self.like_frequencies, self.frequencies),
        ):
            kept[step] = thin_tables.row_centred_correlation(table, other, self.often)
        self.between_rows[step] = thin_tables.between_rows(table)
        _, axes = plt.subplot_mosaic("AB\nCC", figsize=(8.8, 8.2), height_ratios=(2.3, 1))
        tables = {f"step {step}: {loss:.2f} nats": table, "counted": self.counted}
        orders(tables, self.words, [axes["A"], axes["B"]])
        like = {
            "with the bigram table": self.like_bigrams,
            "with tokens' frequencies alone": self.like_frequencies,
        }
        lower, steps = axes["C"], (0, 1, 3, 10, 30, 100, 300)
        plots.curves(
            like,
            "correlation, rows centred",
            "step",
            "",
            markers=True,
            size=4,
            axes=lower,
            ylim=(-0.1, 1.02),
        )
        lower.set_xscale("symlog", linthresh=1)
        lower.set(xticks=steps, xticklabels=steps, xlim=(-0.1, 400))
        lower.legend(loc="lower right", fontsize=9)
        picture = plots.picture(ALT["live"], sharp=step == self.STEPS[-1])
        if self.handle is None:
            self.handle = display(picture, raw=True, display_id=True)
        else:
            self.handle.update(picture, raw=True)


def _log_p(
    table: Tensor,
    rows: list[int],
    columns: list[int],
    names: Any,
    title: str,
    axes: Axes,
    bar: bool,
) -> None:
    picked = table.log_softmax(1)[rows][:, columns]
    words = (
        [names[i] for i in rows],
        [names[i] for i in columns],
        title,
        "current token",
        "next token",
    )
    plots.heatmap(picked, *words, label="log p, nats", bar=bar, axes=axes)
    axes.images[0].set_clim(-10, 0)


def orders(
    tables: Mapping[str, Tensor], words: Mapping[str, int], panels: Sequence[Axes] = ()
) -> None:
    """The same few rows and columns of several tables, as log-probabilities side by side."""
    panels = panels or [axes for axes, _ in plots.panels(tables, (8.8, 4.5))]
    ids, names = list(words.values()), {token: word for word, token in words.items()}
    for axes, (title, table) in zip(panels, tables.items(), strict=True):
        _log_p(table, ids, ids, names, title, axes, bar=axes is panels[-1])
    for axes in panels[1:]:
        axes.set_ylabel("")


def agreement(x: Float[Tensor, " pair"], tables: Mapping[str, Float[Tensor, " pair"]]) -> None:
    """Entries of tables against those of the bigram table, x."""
    values = torch.cat([x, *tables.values()])
    limits = values.min().item() - 0.5, values.max().item() + 0.5
    panels = plots.panels(tables, (8.8, 5))
    for (axes, y), name in zip(panels, tables, strict=True):
        density(x, y, name, "log p(next | current), row-centred", "", axes)
        axes.axline((0, 0), slope=1, color=COLOURS[1], linewidth=1, label="y = x")
        axes.set(xlim=limits, ylim=limits, aspect="equal")
        axes.legend(loc="lower right", fontsize=9)
    clouds: list[Any] = [axes.collections[0] for axes, _ in panels]
    for cloud in clouds:
        cloud.set_clim(1, max(other.get_array().max() for other in clouds))
    for cloud in clouds[:-1]:
        cloud.colorbar.remove()
    panels[0][0].set_ylabel("logit, row-centred")


def alike(
    table: Float[Tensor, "V V"], groups: Sequence[Sequence[int]], names: Sequence[str]
) -> None:
    """Show groups of rows of a table, with the likeliest next tokens of every group as columns."""
    columns: list[int] = []
    for group in groups:
        ahead = table[list(group)].softmax(1).mean(0).topk(8).indices.tolist()
        columns += [token for token in ahead if token not in columns][:4]
    rows = [token for group in groups for token in group]
    axes = plt.subplots(figsize=(8.8, 1.4 + 0.2 * len(rows)))[1]
    _log_p(
        table,
        rows,
        columns,
        names,
        "Five tokens (bold), and those whose rows are most like theirs",
        axes,
        True,
    )
    axes.tick_params(labelsize=9)
    for start in range(0, len(rows), len(groups[0])):
        axes.axhline(start - 0.5, color="white", linewidth=3)
        axes.get_yticklabels()[start].set_fontweight("bold")
    plots.show(ALT["alike"])


def resemblance(
    correlations: ByName, controls: ByName, alone: ByName, whole: ByName, lines: ByName
) -> None:
    """Show how models' direct paths correlate with the bigram table, and what they lose alone.

    Beside that stands what the whole models lose. `lines` are other tables.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.8))
    models = list(correlations)
    groups = {
        "its own table": list(correlations.values()),
        "control: another token's row": list(controls.values()),
    }
    title = "Does the direct path look like the bigrams?"
    plots.grouped_bars(groups, models, title, "row-centred correlation", numbers=True, axes=left)
    left.legend(fontsize=9)
    losses = {
        "the direct path alone": list(alone.values()),
        "the whole model": list(whole.values()),
    }
    title = "What does a model lose?"
    words = "nats per token of new text"
    plots.grouped_bars(losses, models, title, words, numbers=True, axes=right)
    for name, level in lines.items():
        right.axhline(level, color=COLOURS[6], linestyle=":", label=name)
    white: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    plt.setp(right.texts, bbox=white, zorder=3)  # above the line
    right.set_ylim(0, 10.5)
    right.legend(fontsize=9, loc="upper left")
    plots.show(ALT["resemblance"])


@validated
def density(
    x: Float[Tensor, " n"],
    y: Float[Tensor, " n"],
    title: str,
    xlabel: str,
    ylabel: str,
    axes: Axes | None = None,
) -> Axes:
    """Many points as a map of how many fall where (logarithmic), over equal ranges of both axes."""
    axes = axes or plt.subplots(figsize=(4.6, 4))[1]
    drawn = axes.hexbin(
        x.numpy(), y.numpy(), gridsize=60, bins="log", mincnt=1, cmap="viridis", linewidths=0.1
    )
    plt.colorbar(drawn, ax=axes, label="pairs")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return axes


draws_in_style(__name__)
