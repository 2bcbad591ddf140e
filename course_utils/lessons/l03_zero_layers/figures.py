"""What lesson 03 draws: a text from one table, the table's two factors, and the table while it is trained."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import DisplayHandle, display
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from torch import Tensor

from course_utils import bigrams, plots
from course_utils._arguments import Count
from course_utils.plots import COLOURS
from course_utils.text import visible

WIDTH = 76  # characters on a line of a drawn text
SEEN = (
    (100, "#d3e4f1", "its pair with the token before it: read 100 times or more"),
    (1, "#ffe9b0", "1 to 99 times"),
    (0, "#f4b183", "never"),
)


def _likeliest(row: Float[Tensor, " V"], names: Sequence[str], title: str, axes: Axes) -> None:
    """The likeliest next tokens of one row, as bars."""
    p, order = row.topk(10)
    axes.barh(range(10), p.tolist(), color=COLOURS[0])
    axes.set_yticks(range(10), [visible(names[i]) for i in order], family="monospace", fontsize=9, parse_math=False)
    axes.invert_yaxis()
    axes.set(title=title, xlabel="probability of the next token")


def writing(
    tokens: Sequence[str],
    row: Float[Tensor, " V"],
    names: Sequence[str],
    seen: Int[Tensor, " pairs"] | None = None,
) -> Sequence[Axes]:
    """A written text, token by token, and beside it the next token's probabilities [V], the tokens called `names`.

    `seen` says how often each token but the first followed the one before it in the training text: it colours them.
    """
    figure = plt.figure(figsize=(10, 3.4), layout="none")
    left, right = figure.add_axes((0.01, 0.03, 0.62, 0.87)), figure.add_axes((0.75, 0.17, 0.24, 0.73))
    x = y = 0
    for i, token in enumerate(tokens):
        colour = ("#d3e4f1", "#eef4f9")[i % 2]  # neighbours differ
        if seen is not None:
            colour = next(c for least, c, _ in SEEN if i and seen[i - 1] >= least) if i else "white"
        last = i == len(tokens) - 1
        for piece in token.replace("\n", "↵\n").replace(" ", "·").splitlines():
            if x + len(piece) > WIDTH:
                x, y = 0, y + 1
            edge = COLOURS[1] if last else ("#555555" if seen is not None and i and not seen[i - 1] else "white")
            box = Rectangle((x, y - 0.75), len(piece), 1, facecolor=colour, edgecolor=edge, linewidth=2 if last else 1)
            box.set_zorder(1 if edge == "white" else 1.5)  # an outline lies above the neighbours' white edges
            left.add_patch(box)
            left.text(x + len(piece) / 2, y, piece, family="monospace", fontsize=8.5, ha="center", parse_math=False)
            x += len(piece)
            if piece.endswith("↵"):
                x, y = 0, y + 1
    left.set(
        xlim=(-0.5, WIDTH + 0.5),
        ylim=(max(y, 9) + (1 if seen is None else 2.5), -1.2),
        title="What it wrote, a box for each token",
    )
    left.axis("off")
    if seen is not None:
        boxes = [Rectangle((0, 0), 1, 1, facecolor=c, edgecolor="white" if n else "#555555") for n, c, _ in SEEN]
        left.legend(boxes, [label for *_, label in SEEN], loc="lower left", ncols=3, fontsize=9, borderaxespad=0)
    _likeliest(row, names, f"What may follow  {visible(tokens[-1])}", right)
    return [left, right]


def factors(d_vocab: Count, d_model: Count) -> Axes:
    """A schematic: a tall matrix times a wide one is a square table, with one token's row picked out."""
    _, axes = plt.subplots(figsize=(10, 4))
    parts = (
        (0, 1, 4, "$W_E$", f"{d_model:,} numbers\nfor each current token", COLOURS[0]),
        (2.6, 4, 1, "$W_U$", f"{d_model:,} numbers\nfor each next token", COLOURS[2]),
        (
            8.2,
            4,
            4,
            "$T$",
            f"{d_vocab:,} × {d_vocab:,}: a row for each current\ntoken, a column for each next one",
            "#999999",
        ),
    )
    for x, width, height, name, below, colour in parts:
        axes.add_patch(Rectangle((x, 2 - height / 2), width, height, facecolor=colour, alpha=0.25, edgecolor=colour))
        axes.text(x + width / 2, 2 + height / 2 + 0.15, name, ha="center", fontsize=14)
        axes.text(x + width / 2, 2 - height / 2 - 0.25, below, ha="center", va="top", fontsize=9)
    for x, width, colour in ((0, 1, COLOURS[0]), (8.2, 4, COLOURS[1])):
        axes.add_patch(Rectangle((x, 2.7), width, 0.25, facecolor=colour))
    for x, sign in ((1.8, "×"), (7.4, "=")):
        axes.text(x, 1.85, sign, ha="center", fontsize=20)
    axes.annotate("current token", (0, 2.83), (-0.2, 2.83), ha="right", va="center", fontsize=9)
    axes.annotate("its logits for\nall next tokens", (12.2, 2.83), (12.4, 2.83), va="center", fontsize=9)
    axes.set(xlim=(-2, 14.6), ylim=(-1.1, 4.6), aspect="equal")
    axes.axis("off")
    return axes


def _letter_ticks(axes: Axes, n: int) -> None:
    """Every second letter on both axes of a table."""
    axes.set_xticks(range(0, n, 2), ascii_lowercase[:n:2])
    axes.set_yticks(range(0, n, 2), ascii_lowercase[:n:2])


def letters(W_E: Float[Tensor, "n 2"], W_U: Float[Tensor, "2 n"]) -> None:
    """Show letters' embeddings as arrows, unembeddings as points around them, and the table of probabilities."""
    n = len(W_E)
    _, (left, right) = plt.subplots(1, 2, figsize=(10.5, 5.2))
    for i, letter in enumerate(ascii_lowercase[:n]):
        arrow, point = (v / v.norm() for v in (W_E[i], W_U[:, i]))
        left.plot([0, 0.8 * arrow[0]], [0, 0.8 * arrow[1]], color=COLOURS[0], linewidth=0.8)
        left.text(*(0.88 * arrow).tolist(), letter, color=COLOURS[0], ha="center", va="center")
        left.text(*(1.08 * point).tolist(), letter, color=COLOURS[1], ha="center", va="center", weight="bold")
    legend = "inside: embeddings (current letter) · outside, bold: unembeddings (next letter)"
    left.text(0, -1.35, legend, ha="center", fontsize=9)
    left.set(xlim=(-1.25, 1.25), ylim=(-1.45, 1.25), aspect="equal", title="Two numbers for each letter")
    left.axis("off")
    drawn = right.imshow((W_E @ W_U).detach().softmax(1).numpy(), cmap="viridis", vmin=0)
    plt.colorbar(drawn, ax=right, label="probability")
    _letter_ticks(right, n)
    right.set(title="The table they make", xlabel="next letter", ylabel="current letter")
    plots.show("Letters on a circle: each one's embedding points at the next one's unembedding.")


def own_factors(W_E: Float[Tensor, "V d_model"], W_U: Float[Tensor, "d_model V"], words: Sequence[str]) -> None:
    """Show a small model's two weights and the probabilities they make, with the numbers written in."""
    tables = {"$W_E$": W_E, "$W_U$": W_U, "probability of the next word": (W_E @ W_U).softmax(1)}
    _, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), width_ratios=[max(t.shape[1], 3) for t in tables.values()])
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        drawn = ax.imshow(table.clamp(-3, 3), cmap="Blues", aspect="auto")
        for (row, column), value in np.ndenumerate(table.numpy()):
            is_dark = np.dot(drawn.to_rgba(np.clip(value, -3, 3))[:3], (0.3, 0.59, 0.11)) < 0.5
            said, colour = plots.written(round(float(value), 1), "g"), "white" if is_dark else "black"
            ax.text(column, row, said, ha="center", va="center", fontsize=9, color=colour)
        d_model, ticks = W_E.shape[1], (range(len(words)), words)
        numbers = range(d_model), [str(i) for i in range(d_model)]
        ax.set_yticks(*(numbers if table is W_U else ticks))
        ax.set_xticks(*(numbers if table is W_E else ticks))
        ax.set(title=name)
    plots.show("Two small matrices and the table of probabilities they make, with their numbers written in.")


def rings(tables: Mapping[int, Float[Tensor, "n n"]]) -> None:
    """Show the tables of trained rings of letters, a panel for each d_model, with the first guess of each row."""
    _, axes = plt.subplots(1, len(tables), figsize=(10, 4.7), sharey=True)
    for ax, (d_model, table) in zip(axes, tables.items(), strict=True):
        drawn = ax.imshow(table.softmax(1).numpy(), vmin=0, vmax=1, cmap="viridis")
        ax.plot(table.argmax(1), range(len(table)), ".", color=COLOURS[1], markersize=5)
        _letter_ticks(ax, len(table))
        ax.set(title=f"d_model = {d_model} (dots: first guesses)", xlabel="next letter")
    axes[0].set_ylabel("current letter")
    plt.colorbar(drawn, ax=list(axes), label="probability", pad=0.01)
    plots.show("With one number per letter each row has its peak at one of two letters; with two, at the next.")


def hills(rows: Mapping[int, Float[Tensor, " n"]]) -> None:
    """Show the probabilities of the letters that may follow the letter a, a curve for each length of embeddings."""
    _, axes = plt.subplots(figsize=(8.5, 4))
    for (scale, row), line, marker in zip(rows.items(), plots.LINES, plots.MARKERS, strict=False):
        middle = len(row) // 2 - 1
        axes.plot(row.roll(middle - 1), linestyle=line, marker=marker, markersize=5, label=f"length {scale}")
    axes.set_xticks(range(len(row)), [ascii_lowercase[(i + 1 - middle) % len(row)] for i in range(len(row))])
    axes.set(title="What may follow an a?", xlabel="next letter, in the order of the ring", ylabel="probability")
    axes.legend(title="embeddings of", fontsize=9)
    plots.show("Three hills around b: a wide one, a steep one, and for the longest embeddings a single peak.")


def reading(curve: Mapping[int, float], lines: Mapping[str, float]) -> None:
    """Show what a table loses on new text, by how many tokens it was counted on, and what others lose, as lines."""
    _, axes = plt.subplots(figsize=(8.5, 5))
    axes.plot(list(curve), list(curve.values()), "o-", label="your table, counted on so much text")
    for (name, loss), style in zip(lines.items(), (":", "--", "-"), strict=False):
        axes.axhline(loss, color=COLOURS[1], linestyle=style, label=name)
    axes.set(xscale="log", xlabel="tokens counted", ylabel="nats per token of new text (less is better)")
    axes.set_title("How good is a table of counts?")
    axes.legend(fontsize=9)
    plots.show(
        "A table of counts loses less the more text was counted. On little text it loses more than frequencies of "
        "single tokens, on all the text as little as Kneser–Ney. The trained model loses least."
    )


class LiveTable:
    """A picture of a table in training, drawn anew while you watch; it keeps what it measured.

    `words` pick the rows and columns to be seen, by their place in the table; `counted` is the bigram table, `often`
    says which of its pairs are compared, and `frequency` [V] how common each next token is.
    """

    STEPS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300)

    def __init__(self, counted: Tensor, often: Tensor, frequency: Tensor, words: Mapping[str, int]):
        self.counted, self.often, self.words = counted, often, words
        self.frequencies = frequency.log().expand(len(frequency), -1)  # the same row for every current token
        self.like_bigrams: dict[int, float] = {}
        self.like_frequencies: dict[int, float] = {}
        self.handle: DisplayHandle | None = None

    def show(self, step: int, table: Tensor, loss: float) -> None:
        """Measure and draw the table after `step` steps, if it is one of STEPS."""
        if step not in self.STEPS:
            return
        table = table.detach()
        for kept, other in ((self.like_bigrams, self.counted), (self.like_frequencies, self.frequencies)):
            kept[step] = bigrams.row_centred_correlation(table, other, self.often)
        self._draw(table, f"step {step}: {loss:.2f} nats")
        picture = plots.picture(
            "Three panels. The trained table of a few tokens looks like the counted one beside it. Below are "
            "correlations by step: with frequencies it rises first and falls back, with the bigram table it nears 1.",
            sharp=step == self.STEPS[-1],
        )
        if self.handle is None:
            self.handle = display(picture, raw=True, display_id=True)
        else:
            self.handle.update(picture, raw=True)

    def _draw(self, table: Tensor, title: str) -> None:
        _, axes = plt.subplot_mosaic("AB\nCC", figsize=(10.5, 6.6), height_ratios=(1.6, 1))
        for ax, T, name in ((axes["A"], table, title), (axes["B"], self.counted, "counted")):
            drawn = _few_pairs(ax, T, self.words, name)
        axes["A"].set_ylabel("current token")
        plt.colorbar(drawn, ax=[axes["A"], axes["B"]], label="log p, nats")
        for kept, style, name in (
            (self.like_bigrams, "o-", "with the bigram table"),
            (self.like_frequencies, "s--", "with tokens' frequencies alone"),
        ):
            axes["C"].plot(list(kept), list(kept.values()), style, markersize=4, label=name)
        axes["C"].set_xscale("symlog", linthresh=1)
        axes["C"].set_xticks([0, 1, 3, 10, 30, 100, 300], ["0", "1", "3", "10", "30", "100", "300"])
        axes["C"].set(xlim=(-0.1, 400), ylim=(-0.1, 1.02), xlabel="step", title="correlation, rows centred")
        axes["C"].legend(loc="lower right", fontsize=9)


def _few_pairs(axes: Axes, table: Tensor, words: Mapping[str, int], title: str) -> AxesImage:
    """The rows and columns of a few tokens, as log-probabilities."""
    ids, names = torch.tensor(list(words.values())), [visible(word) for word in words]
    drawn = axes.imshow(table.log_softmax(1)[ids[:, None], ids].numpy(), vmin=-10, vmax=0, cmap="viridis")
    axes.set_xticks(range(len(ids)), names, rotation=90, family="monospace", parse_math=False)
    axes.set_yticks(range(len(ids)), names, family="monospace", parse_math=False)
    axes.set(title=title, xlabel="next token")
    return drawn


def agreement(
    counted: Float[Tensor, "V V"], tables: Mapping[str, Float[Tensor, "V V"]], often: Tensor
) -> Sequence[Axes]:
    """Entries of tables against those of the bigram table, each row centred over the pairs in `often`."""

    def centred(table: Tensor) -> Tensor:
        mean = (table * often).sum(1, keepdim=True) / often.sum(1, keepdim=True)
        return (table - mean)[often]

    x, ys = centred(counted), [centred(table) for table in tables.values()]
    _, axes = plt.subplots(1, len(tables), figsize=(10.5, 5), sharey=True)
    limits = min(x.min(), *(y.min() for y in ys)).item() - 0.5, max(x.max(), *(y.max() for y in ys)).item() + 0.5
    for ax, name, y in zip(axes, tables, ys, strict=True):
        plots.density(x, y, name, "log p(next | current), row-centred", "", ax)
        ax.axline((0, 0), slope=1, color=COLOURS[1], linewidth=1, label="y = x")
        ax.set(xlim=limits, ylim=limits, aspect="equal")
        ax.legend(loc="lower right", fontsize=9)
    clouds = [ax.collections[0] for ax in axes]
    for cloud in clouds:  # one scale of colours, and one bar for it
        cloud.set_clim(1, max(other.get_array().max() for other in clouds))
    for cloud in clouds[:-1]:
        cloud.colorbar.remove()
    axes[0].set_ylabel("logit, row-centred")
    return list(axes)


def gains(gain: Float[Tensor, "batch pos"], seen: Float[Tensor, "batch pos"]) -> None:
    """Show what a model saves over counts on each pair, and what that adds up to, by how often the pair was `seen`."""
    least = torch.tensor([0, 1, 2, 4, 10, 30, 100, 1000])
    names = ["never", "once", "2–3", "4–9", "10–29", "30–99", "100–999", "1,000+"]
    group = torch.bucketize(seen, least[1:], right=True)
    share = torch.stack([(group == i).float().mean() for i in range(len(least))])
    mean = torch.stack([gain[group == i].mean() for i in range(len(least))])
    _, axes = plt.subplots(2, 1, figsize=(8.5, 5.4), sharex=True)
    for ax, values, unit in zip(
        axes, (mean, mean * share), ("nats per such pair", "nats per token of text"), strict=True
    ):
        drawn = ax.bar(range(len(least)), values, color=[COLOURS[0] if v > 0 else COLOURS[1] for v in values])
        for bar, value in zip(drawn, values, strict=True):
            bar.set_hatch(plots.HATCHES[0 if value > 0 else 1])
        said = [plots.written(v, "+.2f") for v in values.tolist()]
        ax.bar_label(drawn, said, padding=2, fontsize=9)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.margins(y=0.18)
        ax.set_ylabel(unit)
    axes[0].set_title("What does the model save over the counts on one pair?")
    axes[1].set_title("And all such pairs together?")
    ticks = [f"{name}\n{part:.0%}" for name, part in zip(names, share.tolist(), strict=True)]
    axes[1].set_xticks(range(len(least)), ticks)
    axes[1].set_xlabel("how often the training text has the pair; and how many of the new text's pairs these are")
    plots.show(
        "The model saves much on pairs never seen, a little on pairs seen once, and loses a little on the others."
    )


def alike(table: Float[Tensor, "V V"], groups: Sequence[Sequence[int]], names: Sequence[str]) -> None:
    """Show groups of rows of a table, with the likeliest next tokens of every group as columns."""
    columns: list[int] = []
    for group in groups:
        ahead = table[list(group)].softmax(1).mean(0).topk(8).indices.tolist()
        columns += [token for token in ahead if token not in columns][:4]
    rows = [token for group in groups for token in group]
    _, axes = plt.subplots(figsize=(10, 1.4 + 0.2 * len(rows)))
    drawn = axes.imshow(table.log_softmax(1)[rows][:, columns].numpy(), vmin=-10, vmax=0, cmap="viridis", aspect="auto")
    plt.colorbar(drawn, ax=axes, label="log p, nats", pad=0.01)
    look: dict[str, Any] = {"family": "monospace", "parse_math": False, "fontsize": 9}
    axes.set_xticks(range(len(columns)), [visible(names[i]) for i in columns], rotation=90, **look)
    axes.set_yticks(range(len(rows)), [visible(names[i]) for i in rows], **look)
    for start in range(0, len(rows), len(groups[0])):
        axes.axhline(start - 0.5, color="white", linewidth=3)
        axes.get_yticklabels()[start].set_fontweight("bold")
    axes.set(title="Five tokens (bold), and those whose rows are most like theirs", xlabel="next token")
    axes.set_ylabel("current token")
    plots.show(
        "Five blocks of rows. Within a block much the same next tokens are likely: "
        "numbers stand with numbers, assertions with assertions."
    )


def _by_rank(
    curves: Mapping[str, Mapping[int, float]], lines: Mapping[str, float], title: str, ylabel: str, axes: Axes
) -> None:
    """Curves against rank, one for each way to make a table, and others' values as lines without a rank."""
    for (name, curve), style in zip(curves.items(), ("o-", "s--", "^:"), strict=False):
        axes.plot(list(curve), list(curve.values()), style, label=name)
    for (name, value), style in zip(lines.items(), ("-", "--", ":"), strict=False):
        axes.axhline(value, color=COLOURS[6], linestyle=style, linewidth=1.2, label=name)
    ranks = list(next(iter(curves.values())))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(rank) for rank in ranks])
    axes.set(title=title, xlabel="rank", ylabel=ylabel)
    axes.legend(fontsize=9)


def leads(lead: Mapping[int, float], others: Mapping[str, float]) -> None:
    """Show how often a hidden pair leads the absent ones, by trained rank, and how often in other tables."""
    ylabel = "share of hidden pairs above the median absent one"
    _, axes = plt.subplots(figsize=(8.5, 5))
    _by_rank({"trained": lead}, others, "Can a table tell hidden pairs from absent ones?", ylabel, axes)
    axes.axhline(0.5, color="#999999", linewidth=0.8)
    axes.text(min(lead), 0.51, "chance", color="#555555", fontsize=9)
    axes.set(ylim=(-0.03, 1))
    axes.legend(loc=(0.55, 0.15), fontsize=9)
    plots.show(
        "Rank 2 is no better than the counts, the other ranks are clearly better. Frequencies are below the counts, "
        "and a table without factors tells nothing."
    )


def costs(losses: Mapping[str, Mapping[int, float]], best: float, on_new: Mapping[int, float]) -> None:
    """Show what tables lose by rank, a curve for each way to make them; the trained ones on new text, too."""
    _, axes = plt.subplots(2, 1, figsize=(8.5, 7), sharex=True, height_ratios=(1.6, 1))
    _by_rank(losses, {"the best possible table": best}, "What does a rank cost?", "nats, counted text", axes[0])
    _by_rank({"trained": on_new}, {}, "And on text that it was not trained on?", "nats, new text", axes[1])
    axes[1].lines[0].set(color=COLOURS[2], linestyle=":", marker="^")  # as the same tables look above
    axes[0].set_xlabel("")
    axes[1].legend(fontsize=9)
    plots.show(
        "On the counted text losses fall with the rank, and the trained curve is far below both cuts at small ranks. "
        "On new text the trained curve falls, then rises."
    )


def resemblance(
    correlations: Mapping[str, float],
    controls: Mapping[str, float],
    losses: Mapping[str, float],
    lines: Mapping[str, float],
) -> None:
    """Show how the direct path of each model correlates with the bigram table, and what it loses by itself.

    `lines` are what others lose.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.8))
    models = list(correlations)
    groups = {"its own table": list(correlations.values()), "control: another token's row": list(controls.values())}
    title = "Does the direct path look like the bigrams?"
    plots.grouped_bars(groups, models, title, "row-centred correlation", numbers=True, axes=left)
    left.legend(fontsize=9)
    drawn = right.bar(models, [losses[name] for name in models], 0.5, color=COLOURS[0], label="the direct path alone")
    right.bar_label(drawn, fmt="%.2f", label_type="center", color="white")
    right.set(title="What does it lose by itself?", ylabel="nats per token of new text", ylim=(0, 10.5))
    for (name, loss), style in zip(lines.items(), (":", "--", "-"), strict=False):
        right.axhline(loss, color=COLOURS[1], linestyle=style, label=name)
    right.legend(fontsize=9, loc="upper left")
    plots.show(
        "Without layers the correlation is high and the loss that of the bigrams. With one layer and with two, "
        "the correlation is less than half, and the loss is near that of single tokens' frequencies."
    )


def orders(tables: Mapping[str, Float[Tensor, "V V"]], words: Mapping[str, int]) -> Sequence[Axes]:
    """The same few rows and columns of several tables, as log-probabilities side by side."""
    _, axes = plt.subplots(1, len(tables), figsize=(11, 4.5), sharey=True)
    for ax, (title, table) in zip(axes, tables.items(), strict=True):
        drawn = _few_pairs(ax, table, words, title)
    axes[0].set_ylabel("current token")
    plt.colorbar(drawn, ax=list(axes), label="log p, nats")
    return list(axes)
