"""What only lesson 04 draws: two tables of a head, from a score to a logit, and who raised it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import drawings
from course_utils import plots, text
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

ALT = plots.alt_texts(__file__)
CODE: dict[str, Any] = {"family": "monospace", "parse_math": False}  # how tokens are written


def one_head(source: str, between: Sequence[str], dest: str, output: str) -> None:
    """A schematic of a skip-trigram.

    The destination looks back for the source, whose information raises the output token.
    """
    _, axes = plt.subplots(figsize=(8.8, 3.9))
    words, last = [source, *between, dest, output], len(between) + 1
    named = {0: "source", last: "destination", last + 1: "output token"}
    for i, word in enumerate(words):
        colour = "#fbe9df" if i > last else "#e8f1f8" if i in named else "white"
        drawings.box(axes, i, 0, word, colour)
        axes.text(i, -0.75, named.get(i, ""), ha="center", fontsize=11)
    looks = "QK: the destination looks for the source"
    moves = "OV: what is moved from there makes the output token likelier"
    for start, end, y, bend, colour, line, at, said in (
        (last, 0, 0.3, 0.35, COLOURS[0], "-", 2.0, looks),
        (0, last + 1, -0.3, 0.25, COLOURS[1], "--", -2.15, moves),
    ):
        drawings.arrow(axes, (start, y), (end, y), colour, line, bend)
        axes.text((start + end) / 2, at, said, ha="center", color=colour, fontsize=11)
    axes.set(xlim=(-0.7, last + 1.7), ylim=(-2.3, 2.3))
    axes.axis("off")
    plots.show(ALT["one_head"])


def expected(
    model: HookedTransformer, given: Mapping[str, Float[Tensor, " d_vocab"]], marked: str
) -> None:
    """The likeliest next tokens, one panel for each text in `given`.

    It maps titles to probabilities.
    """
    said = []
    _, drawn = plt.subplots(1, len(given), figsize=(8.8, 3.6), sharex=True)
    for axes, (title, probabilities) in zip(drawn, given.items(), strict=True):
        top = probabilities.topk(7)
        words = [text.visible(str(word)) for word in model.to_str_tokens(top.indices)]
        plots.bars(
            dict(zip(words, top.values.tolist(), strict=True)), title, "probability", [marked], axes
        )
        plt.setp(axes.get_yticklabels(), **CODE)
        said.append(f"{title}, first {words[0]}, then {words[1]}.")
    plt.suptitle("What does the model expect next?")
    plots.show(f"Bars of the likeliest next tokens: {' '.join(said)}")


def terms(adds: Mapping[str, Float[Tensor, " path"]], heads: int) -> None:
    """What each path adds, the direct path first: bars by path, one for each thing compared."""
    axes = plt.subplots(figsize=(8.8, 3.8))[1]
    paths = ["direct path", *(f"0.{h}" for h in range(heads))]
    title = "After with open(path, ', what does each path add?"
    plots.grouped_bars(adds, paths, title, "logits", "path", axes=axes).legend()
    axes.axhline(0, color="black", lw=0.6)
    plots.show(ALT["terms"])


def two_tables(
    qk: Float[Tensor, "dest src"],
    ov: Float[Tensor, "src out"],
    names: tuple[Sequence[str], Sequence[str], Sequence[str]],
) -> None:
    """A corner of a head's two full tables, with their numbers; each row's largest stands out.

    `names` are those of destinations, sources and output tokens.
    """
    dests, sources, outputs = ([text.visible(word) for word in words] for words in names)
    _, drawn = plt.subplots(1, 2, figsize=(8.8, 2.7), width_ratios=[len(sources), len(outputs)])
    titles = "full QK table: who looks where", "full OV table: what is moved"
    drawings.numbers(drawn[0], qk, dests, sources, titles[0], "destination", "source")
    drawings.numbers(drawn[1], ov, sources, outputs, titles[1], "source", "output token")
    plots.show(ALT["two_tables"])


def score_to_logit(
    sources: Sequence[str],
    score: Mapping[str, Float[Tensor, " src"]],
    effects: Float[Tensor, " src"],
) -> None:
    """From a head's scores for one destination to one logit, a column for each source.

    From top to bottom: `score` holds the parts of each score, by name; their sum goes through the
    softmax. `effects` is what a source adds to the logit if it gets all the attention.
    """
    whole = torch.stack([*score.values()]).sum(0)  # [src]
    looks = whole.softmax(0)  # [src]
    added = looks * effects
    rows = {  # what stands in each row, by the name of its parts
        "score": score,
        "attention\n(softmax of the row)": {"": looks},
        "what it would add\n(full OV table)": {"": effects},
        f"the product\n(in all {float(added.sum()):.1f})": {"": added},
    }
    heights = [1.7, 1, 1, 1]  # the first row has two numbers at each bar
    _, grid = plt.subplots(4, 1, figsize=(8.8, 6.4), sharex="col", height_ratios=heights)
    for (name, parts), axes in zip(rows.items(), grid, strict=True):
        _stacked_bars(axes, parts)
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.set(yticks=[])
        axes.margins(y=0.45 if len(parts) > 1 else 0.3)
        axes.axhline(0, color="black", lw=0.6)
    beside = {"loc": "lower right", "bbox_to_anchor": (1, 1)}  # above the panel
    grid[0].legend(fontsize=10, ncols=len(score), **beside)
    grid[3].set_xticks(range(len(sources)), sources, **CODE)
    plots.show(ALT["score_to_logit"])


def _stacked_bars(axes: Axes, parts: Mapping[str, Float[Tensor, " place"]]) -> None:
    """A bar at each place, its parts on one another, up and down from zero.

    Their sum stands on top, and of several the first part's own value.
    """
    whole = torch.stack([*parts.values()]).sum(0)  # [place]
    top = torch.zeros_like(whole)  # of what stands above zero so far, [place]
    bottom = torch.zeros_like(whole)  # of what hangs below it
    for i, (part, heights) in enumerate(parts.items()):
        is_up = heights > 0
        colour, hatch = COLOURS[6 if i else 0], plots.HATCHES[i]
        start = torch.where(is_up, top, bottom)
        axes.bar(range(len(heights)), heights, 0.6, start, color=colour, hatch=hatch, label=part)
        top = top + heights * is_up
        bottom = bottom + heights * ~is_up
    first, heights = next(iter(parts.items()))
    for place, value in enumerate(whole.tolist()):
        said = plots.written(value)
        if len(parts) > 1:
            said += f"\n{first}: {plots.written(float(heights[place]))}"
        size = 9 if len(parts) > 1 else 10
        axes.text(place, float(top[place]), said, ha="center", va="bottom", fontsize=size)


def findings(
    tests: Mapping[str, tuple[float, Float[Tensor, "distance 3"]]],
    distances: Sequence[int],
    holds: Callable[[Float[Tensor, "distance 3"]], Tensor],
) -> None:
    """Show the output token's probability for each finding, by how far back its source is.

    A line stands at the probability without the source. Above it is said where the finding `holds`.
    """
    log: dict[str, Any] = {
        "xscale": "log",
        "yscale": "log",
        "xticks": distances,
        "xticklabels": distances,
    }
    panels = plots.panels(tests, (8.8, 3.8 * -(-len(tests) // 2)), rows=-(-len(tests) // 2))
    for name, (axes, (without, tried)) in zip(tests, panels, strict=True):
        lines = {"with its source": tried[:, 0], "with a random token": without * tried[:, 2]}
        axes.axhline(without, color=COLOURS[6], linewidth=0.8, label="without")
        plots.curves(lines, "", "", "", x=distances, markers=True, axes=axes, **log)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        at = [str(d) for d, does in zip(distances, holds(tried).tolist(), strict=True) if does]
        verdict = f"holds {', '.join(at)} back" if at else "holds nowhere: rare, or as random"
        axes.set_title(f"{name}\n{verdict}", **CODE)
        axes.tick_params(labelbottom=True)
        axes.minorticks_off()
    lowest, highest = panels[0][0].get_ylim()  # of all, since they share it
    panels[0][0].set_ylim(max(lowest, 1e-5), highest)
    plt.suptitle("Does the model do what you have read?")
    plt.gcf().supxlabel("tokens back")
    plt.gcf().supylabel("probability of the output token")
    plots.show(ALT["findings"])


def raised_by(
    looks: Mapping[str, Float[Tensor, " head"]], rises: Mapping[str, Float[Tensor, " head"]]
) -> None:
    """Who raised the output token of each finding: attention to its source, and logits added."""
    lines, columns = -(-len(rises) // 2), min(2, len(rises))  # of findings
    size = (8.8, 4.6 * lines)
    _, grid = plt.subplots(2 * lines, columns, figsize=size, sharex=True, squeeze=False)
    tall = grid.reshape(lines, 2, columns).swapaxes(1, 2).reshape(-1, 2)  # [finding, panel]
    for upper, lower in tall[1:]:
        upper.sharey(tall[0][0])
        lower.sharey(tall[0][1])
    for upper, lower in tall[len(rises) :]:
        upper.axis("off")
        lower.axis("off")
    for (upper, lower), name in zip(tall, rises, strict=False):
        heads = [f"0.{h}" for h in range(len(rises[name]))]
        plots.grouped_bars({"": looks[name]}, heads, "", "", axes=upper)
        plots.grouped_bars({"": rises[name]}, heads, "", "", "head", axes=lower)
        upper.set_title(name, **CODE)
        lower.tick_params(labelbottom=True)
        lower.axhline(0, color="black", lw=0.6)
    plt.suptitle("Which heads raise it?")
    for upper, lower in zip(grid[::2, 0], grid[1::2, 0], strict=True):
        upper.set_ylabel("attention\nto the source")
        lower.set_ylabel("rise of the output\ntoken's logit")
    plots.show(ALT["raised_by"])


def rings(heads: Mapping[str, tuple[Float[Tensor, "n 2"], Float[Tensor, "2 2"]]]) -> None:
    """Where heads send letters on a circle, and the full OV table that this makes.

    `heads` has the letters' embeddings, which are their unembeddings, too, and the OV circuit.
    """
    _, grid = plt.subplots(2, len(heads), figsize=(8.8, 5.4), height_ratios=[1.6, 1])
    for (above, below), (title, (letters, circuit)) in zip(grid.T, heads.items(), strict=True):
        names = list("abcdefghijklmnopqrstuvwxyz"[: len(letters)])
        sent = torch.nn.functional.normalize(letters @ circuit)
        for name, place, end in zip(names, letters, sent, strict=True):
            x, y = (1.45 * place).tolist()
            drawings.box(above, x, y, name)
            drawings.arrow(above, (0, 0), (*(1.1 * end).tolist(),), COLOURS[0])
            beside = 0.65 * end + 0.2 * torch.stack([-end[1], end[0]])
            above.text(*beside.tolist(), name, color=COLOURS[0], ha="center", va="center")
        above.set(xlim=(-1.8, 1.8), ylim=(-1.8, 1.8), aspect="equal", title=title)
        above.axis("off")
        table = letters @ circuit @ letters.T  # [source, output token]
        drawings.numbers(below, table, names, names, "", "source", "output token")
    plots.show(ALT["rings"])


def first_in_row(shares: Mapping[str, Sequence[float]]) -> None:
    """The share of tokens that raise themselves most, by head; of "untrained" ones the largest."""
    axes = plt.subplots(figsize=(8.8, 3.4))[1]
    heads = [f"0.{h}" for h in range(len(shares["trained"]))]
    bars = {"trained": shares["trained"]}
    plots.grouped_bars(bars, heads, "", "share of the tokens", "head", axes=axes)
    most = f"{100 * max(shares['untrained']):.2g} %"
    axes.set_title(f"How many tokens raise themselves most? (untrained heads: {most} at most)")
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    plots.show(ALT["first_in_row"])


draws_in_style(__name__)
