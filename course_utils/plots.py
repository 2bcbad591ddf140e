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
from course_utils._style import COLOURS as COLOURS  # the lessons take them from here
from course_utils._style import drawn_last, styled
from course_utils._words import true_minus
from course_utils.text import visible

Matrix = Shaped[Tensor, "row column"] | Shaped[np.ndarray, "row column"]
Pattern = Float[Tensor, "dest src"] | Float[np.ndarray, "dest src"]
Patterns = Float[Tensor, "head dest src"] | Float[np.ndarray, "head dest src"]
DARK = (  # on a dark page a figure glares less; it stays as it is, since colours may mean numbers
    "<style>:is([data-jp-theme-light=false],.vscode-dark,[data-theme=dark]) img.figure"
    "{filter:brightness(.88)}</style>"
)
# Hue is never the only difference: the n-th line, set of points or of bars has its own of these.
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (9, 3)))
MARKERS = "osD^v*P"
HATCHES = ("", "///", "...", "xxx")


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
    figure = drawn_last()
    if figure is None:
        raise ValueError("There is no figure to show: draw one first.")
    if not alt.strip():
        raise ValueError("Say in a sentence what the figure shows.")

    # draw it, twice as large as it is shown
    scale = 2 if sharp else 1
    file = io.BytesIO()
    dpi = scale * figure.dpi
    figure.savefig(file, format="png", dpi=dpi, bbox_inches="tight", transparent=False)
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


def _array(values: Any) -> np.ndarray:
    """Numbers as matplotlib takes them, from a GPU too, or from a tensor that wants a gradient."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


@styled
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


@styled
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
        drawn = axes.bar(at, _array(values), width, **style)
        if numbers:
            axes.bar_label(drawn, fmt=written, fontsize=9)  # numbers of neighbours do not touch
    axes.set_xticks(range(len(places)), places)
    axes.set(title=title, xlabel=xlabel, ylabel=unit)
    return axes


@styled
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
        axes.plot(_array(at), _array(heights), linestyle=dash, marker=marker, **style)
    if legend and len(by_name) > 1:
        axes.legend()
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel, **settings)
    return axes


@styled
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


@styled
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
    matrix = _array(matrix)
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
            axes.text(column, row, said, ha="center", va="center", color=colour, fontsize=9)

    # the names
    style: Any = {"family": "monospace", "parse_math": False}
    axes.set_xticks(range(len(columns)), [visible(c) for c in columns], rotation=90, **style)
    axes.set_yticks(range(len(rows)), [visible(r) for r in rows], **style)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.spines[:].set_visible(False)
    return axes


@styled
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
    listed = json.dumps(list(tokens))  # as it stands in a script, which "</script>" would end
    drawn = drawn.replace(listed, listed.replace("<", r"\u003c"))

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
