"""Pictures in one style: matplotlib for print and GitHub, CircuitsVis for the mouse; nothing asks the network.

Here stands what several lessons draw. What only one lesson draws is in the file of its name: `plots.lesson_04`.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import HTML, display
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from PIL import Image
from torch import Tensor

from course_utils._arguments import checked
from course_utils.text import visible

Matrix = Shaped[Tensor, "row column"] | Shaped[np.ndarray, "row column"]
Pattern = Float[Tensor, "dest src"] | Float[np.ndarray, "dest src"]
Patterns = Float[Tensor, "head dest src"] | Float[np.ndarray, "head dest src"]
# Okabe and Ito's colours, which colour-blind readers can tell apart. The ground stays white, on a dark page too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777")
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
        "legend.frameon": False,
        "savefig.facecolor": "white",
    }
)


@checked
def show(alt: str) -> None:
    """Show the figure drawn last, sharp on any screen; `alt` says what it shows to those who can't see it.

    Raises ValueError when nothing has been drawn, or when `alt` is empty.
    """
    display(picture(alt), raw=True)


@checked
def picture(alt: str, sharp: bool = True) -> dict[str, str]:
    """The figure drawn last as a cell's output, and close it: what `show` displays, for a figure that is redrawn.

    Not `sharp` takes a quarter of the time, for the pictures on the way to the last one.
    """
    if not plt.get_fignums():
        raise ValueError("There is no figure to show: draw one first.")
    if not alt.strip():
        raise ValueError("Say in a sentence what the figure shows.")
    figure, file = plt.gcf(), io.BytesIO()
    scale = 2 if sharp else 1
    figure.savefig(file, dpi=scale * figure.dpi, bbox_inches="tight")
    plt.close(figure)
    drawn = Image.open(file).convert("RGB")
    if sharp:  # 256 colours take a third of the bytes, and no reader sees a difference
        drawn = drawn.quantize(256, dither=Image.Dither.NONE)
    file = io.BytesIO()
    drawn.save(file, "PNG", optimize=sharp)
    source = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    html = f'<img src="{source}" width="{drawn.width // scale}" style="max-width: 100%" alt="{escape(alt)}">'
    return {"text/html": html, "text/plain": alt}  # an image/png output has no alt text in JupyterLab


@checked
def bars(values: Mapping[str, float], title: str, unit: str, highlight: Sequence[str] = ()) -> Axes:
    """Horizontal bars in the order given, the number beside each; `highlight` names those in the second colour."""
    _, axes = plt.subplots(figsize=(7, 0.6 + 0.34 * len(values)))
    colours = [COLOURS[1] if name in highlight else COLOURS[0] for name in values]
    drawn = axes.barh(list(values), list(values.values()), color=colours)
    axes.bar_label(drawn, fmt="%.2f", padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(title=title, xlabel=unit)
    return axes


@checked
def density(
    x: Float[Tensor, " n"], y: Float[Tensor, " n"], title: str, xlabel: str, ylabel: str, axes: Axes | None = None
) -> Axes:
    """Many points as a map of how many fall where (logarithmic), over equal ranges of both axes."""
    axes = axes or plt.subplots(figsize=(4.6, 4))[1]
    drawn = axes.hexbin(x.numpy(), y.numpy(), gridsize=60, bins="log", mincnt=1, cmap="viridis", linewidths=0.1)
    plt.colorbar(drawn, ax=axes, label="pairs")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return axes


@checked
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
    axes: Axes | None = None,
) -> Axes:
    """A small matrix with a token on every row and column; `label` says what the colours measure.

    `centred` puts white at zero, blue below, red above.
    """
    matrix = np.asarray(matrix)
    if matrix.shape != (len(rows), len(columns)):
        raise ValueError(
            f"A matrix of shape {list(matrix.shape)} can't take {len(rows)} row and {len(columns)} column names."
        )
    axes = axes or plt.subplots(figsize=(2.2 + 0.34 * len(columns), 1.4 + 0.28 * len(rows)))[1]
    limit = np.abs(matrix).max()
    scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} if centred else {"cmap": "viridis"}
    drawn = axes.imshow(matrix, aspect="auto", **scale)
    plt.colorbar(drawn, ax=axes, label=label)
    axes.set_xticks(
        range(len(columns)), [visible(c) for c in columns], rotation=90, family="monospace", parse_math=False
    )
    axes.set_yticks(range(len(rows)), [visible(r) for r in rows], family="monospace", parse_math=False)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.spines[:].set_visible(False)
    return axes


@checked
def growth(curves: Mapping[str, Mapping], title: str) -> Sequence[Axes]:
    """How cost grows with size, one panel for each piece of work, both axes logarithmic.

    Each curve has "sizes" and "time", "unit" (what is counted), and two exponents, "exponent" and "expected": the lines
    have these slopes and meet the points in their middle. `course_utils.tools.benchmark` measures such curves.
    """
    figure, panels = plt.subplots(1, len(curves), figsize=(2.5 * len(curves), 2.9), sharey=True, squeeze=False)
    for axes, (name, curve) in zip(panels[0], curves.items(), strict=True):
        sizes, times = np.array(curve["sizes"]), np.array(curve["time"])
        middle, height = np.exp(np.log(sizes).mean()), np.exp(np.log(times).mean())
        for key, label, style in (("expected", "expected", "--"), ("exponent", "fitted", "-")):
            line = height * (sizes / middle) ** curve[key]
            axes.plot(sizes, line, style, color=COLOURS[-1 if style == "--" else 0], label=f"{label}: {curve[key]:.2f}")
        axes.plot(sizes, times, "o", color=COLOURS[0])
        axes.set(xscale="log", yscale="log", title=name, xlabel=curve["unit"])
        axes.set_xticks(sizes, [f"{size / 1000:.0f}k" if size >= 1000 else str(size) for size in sizes])
        axes.minorticks_off()
        axes.legend(title="exponent", fontsize=8, title_fontsize=8, loc="lower right")
    panels[0][0].set_ylabel("time, longest = 1")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return list(panels[0])


@checked
def attention(pattern: Pattern, tokens: Sequence[str], title: str, axes: Axes | None = None) -> Axes:
    """One head's attention pattern, the query (destination) on the rows and the key (source) on the columns."""
    return heatmap(pattern, tokens, tokens, title, ylabel="destination", xlabel="source", axes=axes)


@checked
def attention_heads(patterns: Patterns, tokens: Sequence[str]) -> HTML:
    """The patterns of a layer's heads, for the mouse: CircuitsVis, with its JavaScript inline.

    Show a static picture of the same pattern beside it: authoring keeps this one out of the stored notebook.
    """
    from circuitsvis.attention import attention_heads as render

    patterns = torch.as_tensor(patterns)
    n = len(tokens)
    if patterns.shape[1:] != (n, n):
        raise ValueError(f"Patterns must have shape [head, {n}, {n}] for {n} tokens, not {list(patterns.shape)}.")
    return HTML(render(tokens=list(tokens), attention=patterns).local_src)  # its own repr would ask the network first
