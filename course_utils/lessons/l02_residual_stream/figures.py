"""Pictures of lesson 02: the residual stream, and one prediction taken apart, with the numbers of its last table."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.plots import COLOURS, written
from course_utils.text import visible

GREY = COLOURS[6]
ALT = {  # what the figures show, in words: here, so that no cell under a prediction prints its answer
    "attribution": "Three long bars: the embedding and the heads 1.1 and 1.6. All others are short.",
    "lens": "The likeliest token per position at three stages. mp stands only in the last row.",
    "without": "Heads of layer 1 lie on the line; those of layer 0 do not, and 0.5 lies far above it.",
    "at zero": "Head 0.4 costs by far the most when set to zero, and nothing when set to its mean.",
    "where": "All of it comes back at the changed token, then at mp, then at the last position.",
    "second": "For mp, attribution marks 1.1 and all else 0.5. For ( the mark moves with the method.",
}


def _canvas(width: float, height: float) -> Axes:
    """An empty drawing, one unit to an inch."""
    _, axes = plt.subplots(figsize=(width, height))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return axes


def _box(axes: Axes, x: float, y: float, label: str, colour: str = "white", width: float = 0.8) -> None:
    """A labelled box around the point (x, y)."""
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - 0.2), width, 0.4, style, facecolor=colour, edgecolor="black"))
    axes.text(x, y, label, ha="center", va="center")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **style: object) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.2} | style)


def stream() -> Axes:
    """The model as one channel: the embedding fills it, heads read a copy and add, W_U reads the end."""
    axes = _canvas(9, 3.4)
    _arrow(axes, (1.1, 0.6), (7.9, 0.6), linewidth=8, color=COLOURS[5], mutation_scale=24)
    _box(axes, 0.6, 0.6, "$W_E$", "#FFF2CC")
    _box(axes, 8.4, 0.6, "$W_U$", "#FFF2CC")
    for start, layer, names in ((1.7, 0, ("0.0", "0.1", "… 0.7")), (4.9, 1, ("1.0", "1.1", "… 1.7"))):
        axes.text(start + 1.1, 3.1, f"layer {layer}: all heads read the same stream", ha="center")
        axes.text(start - 0.28, 1.35, "read a copy", rotation=90, ha="right", va="center", fontsize=9)
        axes.text(start + 2.4, 1.35, "add", rotation=90, ha="left", va="center", fontsize=9)
        _arrow(axes, (start - 0.2, 0.7), (start - 0.2, 2), linestyle="--", arrowstyle="-")
        _arrow(axes, (start - 0.2, 2), (start + 2.1, 2), linestyle="--", arrowstyle="-")
        for number, name in enumerate(names):
            x = start + 0.25 + 0.9 * number
            _arrow(axes, (x - 0.15, 2), (x - 0.15, 2.35), linestyle="--")
            _box(axes, x, 2.55, name, "#DDEBF7", 0.75)
            _arrow(axes, (x + 0.2, 2.35), (x + 0.2, 0.7))
            axes.text(x + 0.03, 0.85, "+", fontsize=14)
    axes.text(4.5, 0.15, "the residual stream: one vector of 256 numbers at every position", ha="center")
    axes.set_title("What happens between a token and a logit?")
    return axes


def unseen_constants() -> Axes:
    """Three numbers, the same three with 2 added to each, and the one softmax that both have."""
    values = np.array([2.0, 0.5, -1.0])
    _, panels = plt.subplots(1, 3, figsize=(9, 3.2))
    softmax = np.exp(values) / np.exp(values).sum()
    for axes, heights, title in zip(
        panels, (values, values + 2, softmax), ("three logits", "2 added to all", "softmax of both"), strict=True
    ):
        drawn = axes.bar(["a", "b", "c"], heights, color=COLOURS[:3], hatch=["", "//", ".."], edgecolor="black")
        axes.bar_label(drawn, fmt="%.2f" if title.startswith("softmax") else "%.1f", padding=2)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(title=title, yticks=[])
        axes.margins(y=0.25)
    for axes in panels[:2]:
        axes.set_ylim(-2, 5)  # one scale: the second bars stand higher
    panels[0].set_ylabel("nats")
    panels[2].set_ylabel("probability")
    return panels[2]


def lens(
    model: HookedTransformer,
    logits: Float[Tensor, "stage pos d_vocab"],
    comes: Int[Tensor, " pos"],
    tokens: Sequence[str],
) -> Axes:
    """The likeliest token at every stage and position, darker the more probable the one that really `comes` next."""
    probability = logits.softmax(-1)[:, range(len(comes)), comes]  # [stage, pos]
    axes = _shares(probability, _stages(probability), tokens, "p of the token that comes")
    for row, column in np.ndindex(*probability.shape):
        guess = _short(str(model.to_string([int(logits[row, column].argmax())])))
        colour = "white" if probability[row, column] > 0.5 else "black"
        drawn = axes.text(column, row, guess, ha="center", va="center", color=colour, fontsize=8)
        drawn.set(family="monospace", parse_math=False)
    axes.set(title="Which token would be predicted after each layer?", xlabel="position (its own token)")
    return axes


def brought_back(share: Float[Tensor, "stage pos"], tokens: Sequence[str], title: str) -> Axes:
    """How much of a logit each vector of the clean stream brings back, before layer 0 and after every layer."""
    axes = _percentages(share, _stages(share), tokens, "brought back")
    axes.set(title=title, xlabel="position of the patched vector")
    return axes


def looks(attention: Mapping[str, Float[Tensor, " pos"]], tokens: Sequence[str], title: str) -> Axes:
    """Where heads look from one position: a row for each, named by the keys."""
    axes = _percentages(torch.stack(list(attention.values())), list(attention), tokens, "attention")
    axes.set(title=title, xlabel="position looked at")
    return axes


def _stages(values: Tensor) -> list[str]:
    return ["embedding", *(f"after layer {layer}" for layer in range(len(values) - 1))]


def _percentages(share: Tensor, rows: Sequence[str], columns: Sequence[str], label: str) -> Axes:
    axes = _shares(share, rows, columns, label)
    for row, column in np.ndindex(*share.shape):
        if abs(share[row, column]) > 0.1:
            colour = "white" if share[row, column] > 0.5 else "black"
            axes.text(column, row, f"{share[row, column]:.0%}", ha="center", va="center", color=colour)
    return axes


def _short(token: str) -> str:
    """A token as lessons write it, at most nine characters."""
    shown = visible(token)
    return shown if len(shown) < 10 else f"{shown[:8]}…"


def _shares(share: Tensor, rows: Sequence[str], columns: Sequence[str], label: str) -> Axes:
    _, axes = plt.subplots(figsize=(10, 1.6 + 0.7 * len(rows)))
    drawn = axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    plt.colorbar(drawn, ax=axes, label=label, pad=0.01, fraction=0.02)
    axes.set_xticks(range(len(columns)), list(map(_short, columns)), family="monospace", parse_math=False)
    plt.setp(axes.get_xticklabels(), rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.spines[:].set_visible(False)
    return axes


def told_and_cut(told: Float[Tensor, " head"], cut: Float[Tensor, " head"], names: Sequence[str]) -> Sequence[Axes]:
    """What the terms say a head is worth against what its cut takes away; on the right, the small ones large."""
    _, panels = plt.subplots(1, 2, figsize=(10, 4.4))
    low, high = min(told.min(), cut.min()).item() - 1, max(told.max(), cut.max()).item() + 1
    for axes, (start, end) in zip(panels, ((low, high), (-0.3, 0.7)), strict=True):
        axes.plot([start, end], [start, end], color=GREY, linewidth=0.8, linestyle="--", label="as predicted")
        for layer, marker in (("0", "s"), ("1", "o")):
            chosen = [i for i, name in enumerate(names) if name.startswith(layer)]
            axes.plot(told[chosen], cut[chosen], marker, color=COLOURS[int(layer)], label=f"heads of layer {layer}")
        axes.set(xlabel="predicted from its term, in nats of logit", xlim=(start, end), ylim=(start, end))
        for i, (x, y) in enumerate(zip(told.tolist(), cut.tolist(), strict=True)):
            if (max(abs(x), abs(y)) < 0.7) == (axes is panels[1]):
                left = i % 2 == 0  # neighbours have their names on two sides
                offset, side = (-7, "right") if left else (7, "left")
                axes.annotate(names[i], (x, y), (offset, -4), textcoords="offset points", ha=side)
    panels[0].set(title="Does a head's term say what its cut costs?", ylabel="measured, in nats of logit")
    panels[1].set_title("The knot near zero, enlarged")
    panels[0].legend(fontsize=9)
    return panels


def two_each(groups: Mapping[str, Mapping[str, float]], title: str, unit: str, legend: str) -> Axes:
    """Two bars for each head, one of either group."""
    heads = list(next(iter(groups.values())))
    _, axes = plt.subplots(figsize=(7, 0.8 + 0.42 * len(heads)))
    places = np.arange(len(heads))
    for offset, colour, hatch, (label, values) in zip(
        (-0.2, 0.2), (COLOURS[1], COLOURS[5]), ("", "///"), groups.items(), strict=True
    ):
        drawn = axes.barh(
            places + offset, list(values.values()), 0.4, label=label, color=colour, hatch=hatch, edgecolor="black"
        )
        axes.bar_label(drawn, [written(value, ".2f") for value in values.values()], padding=4, fontsize=8)
    axes.set_yticks(places, heads)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.legend(title=legend, loc="lower right")
    axes.set(title=title, xlabel=unit)
    return axes


def bias_against_counts(
    model: HookedTransformer, writes: Float[Tensor, " d_vocab"], log_counts: Float[Tensor, " d_vocab"]
) -> Axes:
    """What a head adds to every logit, always, against how often the training text has the token; some are named."""
    _, axes = plt.subplots(figsize=(8, 4.6))
    axes.plot(log_counts, writes, "o", color=COLOURS[0], markersize=3, alpha=0.25, markeredgewidth=0)
    axes.axhline(0, color="black", linewidth=0.8)
    order = log_counts.argsort(descending=True)
    for token in (*order[[0, 2, 5, 9, 20, 60]], 0):
        name = visible(str(model.to_string([int(token)])))
        axes.plot(log_counts[token], writes[token], "o", color=COLOURS[1], markersize=5)
        axes.annotate(
            name,
            (log_counts[token].item(), writes[token].item()),
            (7, -5),
            textcoords="offset points",
            family="monospace",
            parse_math=False,
        )
    axes.set(title="Which tokens does the resting head speak for?", ylabel="added to the logit, nats")
    axes.set_xlabel("how often the training text has the token, logarithm")
    return axes


def carried(
    model: HookedTransformer,
    clean: Int[Tensor, "batch pos"],
    corrupted: Int[Tensor, "batch pos"],
    token: Int[Tensor, " batch"],
    replaced: Callable[..., Tensor],
) -> dict[str, float]:
    """How much of the last logit of `token` each head's clean z brings back into the corrupted runs, as a share.

    `replaced` is the exercise of lesson 02.
    """
    _, kept = model.run_with_cache(clean)

    def mean_logit(logits: Tensor) -> Tensor:
        return logits[:, -1].gather(1, token[:, None]).mean()

    low, high = mean_logit(model(corrupted)), mean_logit(model(clean))
    shares = {}
    for layer, head in np.ndindex(model.cfg.n_layers, model.cfg.n_heads):
        run = replaced(model, corrupted, layer, head, kept["z", layer][:, :, head])
        shares[f"{layer}.{head}"] = ((mean_logit(run) - low) / (high - low)).item()
    return shares


def worth(
    model: HookedTransformer,
    clean: Int[Tensor, "1 pos"],
    corrupted: Int[Tensor, "1 pos"],
    token: int,
    others: Int[Tensor, "text longer"],
    stream_terms: Callable[..., Tensor],
    replaced: Callable[..., Tensor],
) -> dict[str, Float[Tensor, " part"]]:
    """What the embedding and each head are worth to the last logit of `token`, in nats, by every method.

    `others` are the texts for mean and resample; `stream_terms` and `replaced` are the exercises of lesson 02.
    """
    usual, kept = (model.run_with_cache(tokens)[1] for tokens in (others, clean))
    texts = clean.expand(len(others), -1)  # one for each text that z is taken from
    terms, changed = (stream_terms(model, tokens)[:, -1] @ model.W_U[:, token] for tokens in (clean, corrupted))
    high, low = (model(tokens)[0, -1, token] for tokens in (clean, corrupted))
    direct = terms[0] - (model.W_E[others] @ model.W_U[:, token]).mean()  # cutting the direct path needs no run
    cuts = {"zero": [terms[0]], "mean": [direct], "resample": [direct], "patching": [terms[0] - changed[0]]}
    for layer, head in np.ndindex(model.cfg.n_layers, model.cfg.n_heads):
        z = usual["z", layer][:, :, head]
        for method, value in (("zero", 0), ("mean", z.mean((0, 1))), ("resample", z[:, : clean.shape[1]])):
            cuts[method].append(high - replaced(model, texts, layer, head, value)[:, -1, token].mean())
        back = replaced(model, corrupted, layer, head, kept["z", layer][:, :, head])
        cuts["patching"].append(back[0, -1, token] - low)
    return {"attribution": terms} | {method: torch.stack(values) for method, values in cuts.items()}


def worth_most(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    others: Int[Tensor, "text longer"],
    replaced: Callable[..., Tensor],
) -> dict[str, Int[Tensor, "batch pos"]]:
    """The head worth most to the likeliest token's logit at every position, by attribution, zero and mean.

    Heads are counted through the layers; `others` are the texts for the mean, `replaced` the exercise of lesson 02.
    """
    cache, usual = (model.run_with_cache(texts)[1] for texts in (tokens, others))
    logits: Tensor = model(tokens, return_type="logits")
    likely = logits.argmax(-1, keepdim=True)  # [batch, pos, 1]
    column = model.W_U.T[likely[..., 0]]  # [batch, pos, d_model]
    values: dict[str, list[Tensor]] = {"attribution": [], "zero": [], "mean": []}
    for layer, head in np.ndindex(model.cfg.n_layers, model.cfg.n_heads):
        wrote = cache["z", layer][:, :, head] @ model.W_O[layer, head]
        values["attribution"].append((wrote * column).sum(-1))
        for method, value in (("zero", 0), ("mean", usual["z", layer][:, :, head].mean((0, 1)))):
            lost = logits - replaced(model, tokens, layer, head, value)
            values[method].append(lost.gather(-1, likely)[..., 0])
    return {method: torch.stack(each).abs().argmax(0) for method, each in values.items()}


def three_ways(tables: Mapping[str, Mapping[str, Float[Tensor, " part"]]], parts: Sequence[str]) -> Axes:
    """Predictions side by side: what each part is worth, in nats of logit, by every method (the columns)."""
    figure, panels = plt.subplots(
        1, len(tables), figsize=(4.9 * len(tables), 0.9 + 0.27 * len(parts)), sharey=True, squeeze=False
    )
    for axes, (title, table) in zip(panels[0], tables.items(), strict=True):
        values = torch.stack(list(table.values()), 1)  # [part, method]
        axes.imshow(values, cmap="RdBu_r", vmin=-12, vmax=12, aspect="auto")
        for row, column in np.ndindex(*values.shape):
            value = values[row, column].item()
            first = abs(value) == values[1:, column].abs().max() and row > 0  # of the heads
            style = {"weight": "bold", "color": "white" if abs(value) > 8 else "black"} if first else {"color": "black"}
            said = written(value, ".1f")
            axes.text(column, row, f"▸{said}" if first else said, ha="center", va="center", fontsize=9, **style)
        axes.set_xticks(range(len(table)), list(table), fontsize=9)
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(parts)), parts)
        axes.axhline(0.5, color="black", linewidth=0.8)
        axes.spines[:].set_visible(False)
        axes.set_title(title, parse_math=False)
    panels[0][0].set_ylabel("part of the model")
    figure.supxlabel("nats of logit; ▸ the head worth most by this method", fontsize=9)
    return panels[0][0]
