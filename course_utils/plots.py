"""Pictures in one style: matplotlib for print and GitHub, CircuitsVis for the mouse, no network.

Here stands what several lessons draw. What only one lesson draws is in its figures.py.
"""

import base64
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import HTML, DisplayHandle, display
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from PIL import Image
from torch import Tensor

from course_utils._arguments import Count, validated
from course_utils._words import true_minus
from course_utils.text import visible

Matrix = Shaped[Tensor, "row column"] | Shaped[np.ndarray, "row column"]
Pattern = Float[Tensor, "dest src"] | Float[np.ndarray, "dest src"]
Patterns = Float[Tensor, "head dest src"] | Float[np.ndarray, "head dest src"]
# At least 3 : 1 on white, and on a dark page, where DARK turns them round; ΔE (CIEDE2000) of 20
# between any two, for people with any of the three kinds of colour-blindness, too (Machado et al.
# 2009). A test measures both.
COLOURS = ("#0078B4", "#E15A0F", "#694B5A", "#870000", "#0F000F", "#000F87", "#968787")
DARK = (  # on a dark page light becomes dark and hues stay: in JupyterLab, in VS Code, on the site
    "<style>:is([data-jp-theme-light=false],.vscode-dark,[data-theme=dark]) img.figure"
    "{filter:invert(.9) hue-rotate(180deg)}</style>"
)
# Hue is never the only difference: the n-th line, set of points or of bars has its own of these.
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (9, 3)))
MARKERS = "osD^v*P"
HATCHES = ("", "///", "...", "xxx")
plt.rcParams.update(
    {
        "axes.prop_cycle": plt.cycler(color=COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "figure.dpi": 100,
        "figure.facecolor": "white",
        "figure.figsize": (7, 3.6),
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "hatch.color": "white",
        "legend.frameon": False,
        "savefig.facecolor": "white",
    }
)


@validated
def alt_texts(file: str) -> dict[str, str]:
    """What a lesson's figures show, in words: `alt.json` beside its figures.py, which is `file`."""
    return json.loads(Path(file).with_name("alt.json").read_text(encoding="utf-8"))


@validated
def show(alt: str, canvas: DisplayHandle | None = None) -> None:
    """Show the figure drawn last; `alt` says what it shows to those who can't see it.

    `canvas` is what `display(figure, display_id=True)` gave for a figure drawn while you watched:
    it takes its place. Raises ValueError when nothing has been drawn, or when `alt` is empty.
    """
    shown = display if canvas is None else canvas.update
    shown(picture(alt), raw=True)


@validated
def picture(alt: str, sharp: bool = True) -> dict[str, str]:
    """The figure drawn last as a cell's output, which is what `show` displays, and close it.

    Not `sharp` takes a quarter of the time, for a figure that is redrawn: the pictures on the way
    to the last one. Raises ValueError as `show` does.
    """
    if not plt.get_fignums():
        raise ValueError("There is no figure to show: draw one first.")
    if not alt.strip():
        raise ValueError("Say in a sentence what the figure shows.")

    # draw it, twice as large as it is shown
    figure = plt.gcf()
    scale = 2 if sharp else 1
    file = io.BytesIO()
    figure.savefig(file, dpi=scale * figure.dpi, bbox_inches="tight")
    plt.close(figure)

    # 112 colours, chosen with care (k-means), take a third of the bytes, and no reader sees it
    drawn = Image.open(file).convert("RGB")
    if sharp:
        drawn = drawn.quantize(112, kmeans=1, dither=Image.Dither.NONE)
    file = io.BytesIO()
    drawn.save(file, "PNG", optimize=sharp)

    # as a page, since an image/png output has no alt text in JupyterLab
    source = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    look = f'width="{drawn.width // scale}" class="figure" style="max-width: 100%"'
    html = f'{DARK}<img src="{source}" {look} alt="{escape(alt)}">'
    return {"text/html": html, "text/plain": alt}


@validated
def written(value: float, spec: str = ".2f") -> str:
    """A number as it stands in a figure, with a true minus sign; `spec` as in `format`."""
    return true_minus(f"{value:{spec}}")


@validated
def bars(
    values: Mapping[str, float],
    title: str,
    unit: str,
    highlight: Sequence[str] = (),
    axes: Axes | None = None,
) -> Axes:
    """Horizontal bars, the number beside each; those that `highlight` names stand out."""
    axes = axes or plt.subplots(figsize=(7, 0.6 + 0.34 * len(values)))[1]
    stands_out = [int(name in highlight) for name in values]
    colours = [COLOURS[i] for i in stands_out]
    hatches = [HATCHES[i] for i in stands_out]
    drawn = axes.barh(list(values), list(values.values()), color=colours, hatch=hatches)
    axes.bar_label(drawn, fmt=written, padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(title=title, xlabel=unit)
    return axes


@validated
def grouped_bars(
    groups: Mapping[str, Sequence[float] | Float[Tensor, " place"]],
    places: Sequence[str],
    title: str,
    unit: str,
    xlabel: str = "",
    *,
    numbers: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Upright bars side by side: at each of the `places` one for every group.

    With `numbers`, they stand on top of the bars. Raises ValueError when a group has not one value
    for each place.
    """
    axes = axes or plt.subplots()[1]
    width = 0.8 / len(groups)
    middle = (len(groups) - 1) / 2
    for i, (name, values) in enumerate(groups.items()):
        if len(values) != len(places):
            raise ValueError(f'"{name}" has {len(values)} values for {len(places)} places.')
        at = np.arange(len(places)) + (i - middle) * width
        style: Any = {"label": name, "color": COLOURS[i], "hatch": HATCHES[i % len(HATCHES)]}
        drawn = axes.bar(at, np.asarray(values), width, **style)
        if numbers:
            axes.bar_label(drawn, fmt=written, fontsize=7)  # numbers of neighbours do not touch
    axes.set_xticks(range(len(places)), places)
    axes.set(title=title, xlabel=xlabel, ylabel=unit)
    return axes


@validated
def curves(
    by_name: Mapping[str, Any],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    x: Sequence[float] | Float[Tensor, " place"] | None = None,
    lines: bool = True,
    markers: bool = False,
    size: float = 5,
    legend: bool = True,
    figsize: Sequence[float] = (7.0, 3.6),
    axes: Axes | None = None,
    **settings: Any,
) -> Axes:
    """A curve for each name, told apart by colour and dash, with a legend from two on.

    A curve is its heights, over `x` or over 0, 1, 2, …, or a dictionary of height by place.
    `markers` put points on it, as large as `size` says, and without `lines` there are points alone.
    `settings` go to the axes, as `ylim=(0, 1)`.
    """
    axes = axes or plt.subplots(figsize=figsize)[1]
    for i, (name, curve) in enumerate(by_name.items()):
        # where its points stand
        at: Any = range(len(curve)) if x is None else x
        heights = curve
        if isinstance(curve, Mapping):
            at = list(curve)
            heights = list(curve.values())

        # what tells it apart
        dash = LINES[i % len(LINES)] if lines else "none"
        marker = MARKERS[i % len(MARKERS)] if markers else ""
        style: Any = {"color": COLOURS[i % len(COLOURS)], "label": name, "ms": size}
        axes.plot(np.asarray(at), np.asarray(heights), linestyle=dash, marker=marker, **style)
    if legend and len(by_name) > 1:
        axes.legend()
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel, **settings)
    return axes


@validated
def panels(
    named: Mapping[str, Any],
    size: Sequence[float],
    xlabel: str = "",
    ylabel: str = "",
    rows: Count = 1,
) -> list[tuple[Axes, Any]]:
    """A panel for each name, the name above it: its axes, and what is to be drawn there.

    All have one scale. `size` is the figure's, in inches; the labels of the axes stand at the outer
    panels alone.
    """
    columns = math.ceil(len(named) / rows)
    shared: Any = {"sharex": rows > 1, "sharey": True, "squeeze": False}
    _, grid = plt.subplots(rows, columns, figsize=tuple(size), **shared)
    for axes in grid.flat[len(named) :]:
        axes.axis("off")
    for axes, title in zip(grid.flat, named, strict=False):
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        axes.label_outer()
    return list(zip(grid.flat, named.values(), strict=False))


@validated
def heatmap(
    matrix: Matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    ylabel: str = "",
    xlabel: str = "",
    *,
    label: str = "",
    centred: bool = False,
    limit: float | None = None,
    numbers_from: float | None = None,
    spec: str = ".2f",
    colours: str = "viridis",
    bar: bool = True,
    axes: Axes | None = None,
) -> Axes:
    """A small matrix with a token on every row and column; `label` says what the colours measure.

    `centred` puts white at zero, blue and a minus sign below, red above; `limit` is the value of
    the strongest colour (the largest entry's size). Entries of at least `numbers_from`, either side
    of zero, have their number written in, as `spec` says. `colours` is another map for what is not
    centred; without `bar` no colour bar stands beside it. Raises ValueError for names that do not
    fit the matrix.
    """
    matrix = np.asarray(matrix)
    if matrix.shape != (len(rows), len(columns)):
        raise ValueError(
            f"A matrix of shape {list(matrix.shape)} can't take {len(rows)} row "
            f"and {len(columns)} column names."
        )
    axes = axes or plt.subplots(figsize=(2.2 + 0.34 * len(columns), 1.4 + 0.28 * len(rows)))[1]

    # the colours
    limit = limit or np.abs(matrix).max()
    scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} if centred else {"cmap": colours}
    drawn = axes.imshow(matrix, aspect="auto", **scale)
    if bar:
        plt.colorbar(drawn, ax=axes, label=label)

    # what is written into them, white on dark; blue means a minus to those who can't see it
    for (row, column), value in np.ndenumerate(matrix):
        is_written = numbers_from is not None and abs(value) >= numbers_from
        is_blue = centred and value < -limit / 5
        if is_written or is_blue:
            said = written(float(value), spec) if is_written else "−"
            lightness = np.dot(drawn.to_rgba(value)[:3], (0.3, 0.59, 0.11))
            colour = "white" if lightness < 0.5 else "black"
            axes.text(column, row, said, ha="center", va="center", color=colour, fontsize=8)

    # the names
    style: Any = {"family": "monospace", "parse_math": False}
    axes.set_xticks(range(len(columns)), [visible(c) for c in columns], rotation=90, **style)
    axes.set_yticks(range(len(rows)), [visible(r) for r in rows], **style)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.spines[:].set_visible(False)
    return axes


@validated
def attention(
    pattern: Pattern, tokens: Sequence[str], title: str, axes: Axes | None = None
) -> Axes:
    """One head's attention pattern: destinations (queries) on the rows, sources (keys) across."""
    return heatmap(pattern, tokens, tokens, title, ylabel="destination", xlabel="source", axes=axes)


@validated
def attention_heads(
    patterns: Patterns, tokens: Sequence[str], first: int = 0, layer: int | None = None
) -> HTML:
    """The patterns of a layer's heads, for the mouse: CircuitsVis, with its JavaScript inline.

    It opens on the head `first`; `layer` gives the heads their names ("1.6"). Show a static picture
    of the same pattern beside it: authoring keeps this one out of the stored notebook. Raises
    ValueError for a `first` that is no head.
    """
    from circuitsvis.attention import attention_heads as render

    patterns = torch.as_tensor(patterns)
    n = len(tokens)
    n_heads = len(patterns)
    if patterns.shape[1:] != (n, n):
        raise ValueError(
            f"Patterns must have shape [head, {n}, {n}] for {n} tokens, not {list(patterns.shape)}."
        )
    if not 0 <= first < n_heads:
        raise ValueError(f"There is no head {first} among {n_heads}: count from 0.")

    # what CircuitsVis draws; its own repr would ask the network first
    names = [f"Head {head}" if layer is None else f"{layer}.{head}" for head in range(n_heads)]
    drawn = render(tokens=list(tokens), attention=patterns, attention_head_names=names).local_src

    # on a white ground, opened on one head
    (place,) = re.findall(r'id="(circuits-vis-[^"]*)"', drawn)
    opened = _OPEN.format(place=place, first=first)
    said = (
        f"Attention patterns of {n_heads} heads on {n} tokens, for the mouse: "
        "run this cell to see them."
    )
    return _Live(f"{_WHITE}{opened}{drawn}</div>", said)


class _Live(HTML):
    """HTML that says in words what it is where it is not stored."""

    def __init__(self, html: str, said: str) -> None:
        super().__init__(html)
        self.said = said

    def __repr__(self) -> str:
        return self.said


# A white ground, on a dark page too; names in black on white, not in white on lime
_WHITE = '<div style="background: white; color: black; color-scheme: light; padding: 1px 12px">'
# One click would lock the head: with two it is shown until the mouse is on another.
_OPEN = """<style>
#{place} [style*="background"] {{ background: white !important; color: black !important }}
</style>
<script>(() => {{
  const wait = setInterval(() => {{
    const head = document.querySelectorAll("#{place} h4")[{first}];
    if (!head) return;
    clearInterval(wait);
    head.parentElement.click();
    head.parentElement.click();
  }}, 50);
}})();</script>"""


@validated
def score_to_logit(
    sources: Sequence[str],
    score: Mapping[str, Float[Tensor, " src"]],
    effects: Float[Tensor, " src"],
    head: str,
    others: Mapping[str, float],
    logit: str,
) -> None:
    """From a head's scores for one destination to one logit, a column for each source.

    From top to bottom: `score` holds the parts of each score, by name; their sum goes through the
    softmax. `effects` is what a source says about the logit if it gets all the attention, and
    `others` what other paths add to it.
    """
    whole = torch.stack([*score.values()]).sum(0)  # [src]
    looks = whole.softmax(0)  # [src]
    rows = {  # what stands in each row, by the name of its parts
        "score": score,
        "attention\n(softmax of the row)": {"": looks},
        "what it says\n(OV)": {"": effects},
        "attention ×\nwhat it says": {"": looks * effects},
    }
    _, grid = plt.subplots(4, 2, figsize=(10, 5.6), sharex="col", width_ratios=[5, 2])
    for (name, parts), axes in zip(rows.items(), grid[:, 0], strict=True):
        _stacked_bars(axes, parts)
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.set(yticks=[])
        axes.margins(y=0.3)
        axes.axhline(0, color="black", lw=0.6)
    if len(score) > 1:
        grid[0, 0].legend(fontsize=8, loc="upper right", ncols=len(score))
    grid[3, 0].set_xticks(range(len(sources)), sources, family="monospace", parse_math=False)

    # beside the last row its sum, and the rest of the logit
    for axes in grid[:3, 1]:
        axes.axis("off")
    added = {head: float((looks * effects).sum())} | dict(others)
    totals = added | {logit: sum(added.values())}
    bars(totals, "the sum of the row, and the rest", "", [head], grid[3, 1])
    grid[3, 1].set_position([0.8, 0.11, 0.15, 0.27])


def _stacked_bars(axes: Axes, parts: Mapping[str, Float[Tensor, " place"]]) -> None:
    """A bar at each place, its parts on one another, up and down from zero, their sum on top."""
    whole = torch.stack([*parts.values()]).sum(0)  # [place]
    top = torch.zeros_like(whole)  # of what stands above zero so far, [place]
    bottom = torch.zeros_like(whole)  # of what hangs below it
    for i, (part, heights) in enumerate(parts.items()):
        is_up = heights > 0
        style: Any = {"color": COLOURS[6 if i else 0], "hatch": HATCHES[i], "label": part}
        axes.bar(range(len(heights)), heights, 0.6, torch.where(is_up, top, bottom), **style)
        top = top + heights * is_up
        bottom = bottom + heights * ~is_up
    style = {"ha": "center", "va": "bottom", "fontsize": 8}
    for place, value in enumerate(whole.tolist()):
        axes.text(place, float(top[place]), f" {written(value)}", **style)


@validated
def box(axes: Axes, x: float, y: float, label: str, colour: str = "white") -> None:
    """Draw a token in its box."""
    frame = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": "black"}
    style: Any = {"ha": "center", "va": "center", "family": "monospace", "parse_math": False}
    axes.text(x, y, label, bbox=frame, **style)


@validated
def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    line: str = "-",
    bend: float = 0,
) -> None:
    """Draw an arrow; a dashed `line` is for one that only looks, and `bend` makes it an arc."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 2, "linestyle": line}
    style |= {"shrinkA": 5, "shrinkB": 5, "connectionstyle": f"arc3,rad={bend}"}
    axes.annotate("", end, start, arrowprops=style)


@validated
def streams(tokens: Sequence[str], to_come: str, height: float = 3.6) -> Axes:
    """Draw the streams of three positions, j, j + 1 and n, as columns through two layers.

    `to_come` is what is to be predicted at n.
    """
    axes = plt.subplots(figsize=(9.6, height))[1]
    centred: Any = {"ha": "center", "va": "center"}

    # the streams, each from its token upwards
    for x, token, place in zip((1, 3.4, 8), tokens, ("j", "j + 1", "n"), strict=True):
        axes.plot([x, x], [0.35, 5], color="#d9d9d9", lw=9, zorder=0, solid_capstyle="round")
        box(axes, x, 0, token)
        axes.text(x, -0.55, f"position {place}", fontsize=9, **centred)
    box(axes, 8, 5.2, f"{to_come} ?", "#ffe9d6")
    axes.text(5.7, 0, "· · ·", **centred)

    # the layers, across them
    for y, layer in ((1.3, "layer 0"), (3.7, "layer 1")):
        axes.axhspan(y - 0.95, y + 1.05, color="#f6f6f6", zorder=-1)
        axes.text(-0.35, y, layer, fontsize=9, rotation=90, color="#555555", **centred)
    axes.set(xlim=(-0.6, 9.4), ylim=(-0.85, 5.65))
    axes.axis("off")
    return axes
