"""What only lesson 04 draws: paths, from a score to a logit, findings, and who copies."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import plots, text
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

ALT = plots.alt_texts(__file__)
CODE: dict[str, Any] = {"family": "monospace", "parse_math": False}  # how tokens are written


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


def terms(adds: Float[Tensor, " path"]) -> None:
    """What each path adds, the direct path first."""
    axes = plt.subplots(figsize=(8.8, 3.4))[1]
    paths = ["direct path", *(f"0.{h}" for h in range(len(adds) - 1))]
    title = "After with open(path, ', what does each path add?"
    plots.grouped_bars({"": adds}, paths, title, "logit of rb − logit of foo", "path", axes=axes)
    axes.axhline(0, color="black", lw=0.6)
    plots.show(ALT["terms"])


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


def _percent(share: float, _: int) -> str:
    """A share in per cent, never as 1e-05."""
    return f"{100 * share:.9f}".rstrip("0").rstrip(".") + " %"


def findings(
    tests: Mapping[str, tuple[float, Float[Tensor, "distance 3"]]], distances: Sequence[int]
) -> None:
    """Show the output token's probability for each finding, by how far back its source is.

    A line stands at the probability without the source. Above it is said where the finding holds:
    with a probability of 1 %, and ten times a random token's factor.
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
        axes.yaxis.set_major_formatter(
            lambda share, _: f"{100 * share:.9f}".rstrip("0").rstrip(".") + " %"
        )
        holds = (tried[:, 0] >= 0.01) & (tried[:, 1] >= 10 * tried[:, 2])
        at = [str(d) for d, does in zip(distances, holds.tolist(), strict=True) if does]
        verdict = (
            f"holds {', '.join(at)} back"
            if at
            else "holds nowhere: under 1 %, or no better than random"
        )
        axes.set_title(f"{name}\n{verdict}", **CODE)
        axes.tick_params(labelbottom=True)
        axes.minorticks_off()
    plt.suptitle("Does the model do what you have read?")
    plt.gcf().supxlabel("tokens back")
    plt.gcf().supylabel("probability of the output token")
    plots.show(ALT["findings"])


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
