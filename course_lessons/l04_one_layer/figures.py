"""What only lesson 04 draws: skip-trigrams and tests of them, tables, eigenvalues, sinks."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import drawings
from course_utils import plots, text
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS, MARKERS, Patterns

ALT = plots.alt_texts(__file__)


def one_head(source: str, between: Sequence[str], dest: str, out: str) -> None:
    """A schematic of a skip-trigram.

    The destination looks back for the source, and the source says what comes next.
    """
    _, axes = plt.subplots(figsize=(10, 3.9))
    words, last = [source, *between, dest, out], len(between) + 1
    named = {0: "source", last: "destination", last + 1: "out"}
    for i, word in enumerate(words):
        drawings.box(
            axes, i, 0, word, "#fbe9df" if i > last else "#e8f1f8" if i in named else "white"
        )
        axes.text(i, -0.75, named.get(i, ""), ha="center", fontsize=9)
    looks = "QK: how strongly the destination looks for the source"
    says = "OV: what the source says about the next token"
    for start, end, y, bend, colour, line, at, said in (
        (last, 0, 0.3, 0.35, COLOURS[0], "-", 2.0, looks),
        (0, last + 1, -0.3, 0.25, COLOURS[1], "--", -2.15, says),
    ):
        drawings.arrow(axes, (start, y), (end, y), colour, line, bend)
        axes.text((start + end) / 2, at, said, ha="center", color=colour)
    axes.set(xlim=(-0.7, last + 1.7), ylim=(-2.3, 2.3))
    axes.axis("off")
    plots.show(ALT["one_head"])


def expected(
    model: HookedTransformer, given: Mapping[str, Float[Tensor, " d_vocab"]], marked: str
) -> None:
    """The likeliest next tokens, one panel for each text or model in `given`.

    It maps titles to probabilities.
    """
    said = []
    _, drawn = plt.subplots(1, len(given), figsize=(10, 3.6), sharex=True)
    for axes, (title, probabilities) in zip(drawn, given.items(), strict=True):
        top = probabilities.topk(7)
        words = [text.visible(str(word)) for word in model.to_str_tokens(top.indices)]
        plots.bars(
            dict(zip(words, top.values.tolist(), strict=True)), title, "probability", [marked], axes
        )
        plt.setp(axes.get_yticklabels(), family="monospace", parse_math=False)
        said.append(f"{title}, first {words[0]}, then {words[1]}.")
    plt.suptitle("What does the model expect next?")
    plots.show(f"Bars of the likeliest next tokens: {' '.join(said)}")


def two_tables(
    QK: Float[Tensor, "dest src"],
    OV: Float[Tensor, "src out"],
    names: tuple[Sequence[str], Sequence[str], Sequence[str]],
) -> None:
    """A corner of a head's two tables, side by side.

    `names` are those of destinations, sources and outs.
    """
    _, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 4.4), width_ratios=[len(names[1]), len(names[2])]
    )
    style: dict[str, Any] = {"centred": True, "numbers_from": 0.005}
    plots.heatmap(
        QK,
        *names[:2],
        "QK: who looks for whom?",
        "destination",
        "source",
        label="score",
        axes=left,
        **style,
    )
    plots.heatmap(
        OV, *names[1:], "OV: who says what?", "source", "out", label="logit", axes=right, **style
    )
    plots.show(ALT["two_tables"])


def largest(
    model: HookedTransformer, entries: Sequence[tuple[float, Int[Tensor, "entry 3"]]]
) -> None:
    """Each head's largest logit and largest OV entries, as source … destination → out.

    Copies stand out.
    """
    _, axes = plt.subplots(figsize=(10.5, 0.5 + 0.5 * len(entries)))
    said = []
    for h, (logit, ids) in enumerate(entries):
        trigrams = [[text.visible(str(word)) for word in model.to_str_tokens(row)] for row in ids]
        axes.text(0, h, f"head 0.{h} ({logit:.0f})", va="center")
        for i, (source, dest, out) in enumerate(trigrams):
            copies = source.strip("·") == out.strip("·")
            ground, edge, width = (
                ("#f6c9a8", COLOURS[1], 1.6) if copies else ("white", "#bbbbbb", 0.8)
            )
            box = {
                "boxstyle": "round,pad=0.35",
                "facecolor": ground,
                "edgecolor": edge,
                "linewidth": width,
            }
            words = f"{source:.9s} … {dest:.11s} → {out:.11s}"
            axes.text(
                0.55 + i,
                h,
                words,
                va="center",
                family="monospace",
                fontsize=8.5,
                bbox=box,
                parse_math=False,
            )
        said.append(
            f"Head 0.{h}: " + ", ".join("{} … {} → {}".format(*words) for words in trigrams) + "."
        )
    title = "What does each head say most strongly? (thick frame: the source promotes itself)"
    axes.set(
        xlim=(0, 0.5 + max(len(ids) for _, ids in entries)),
        ylim=(len(entries) - 0.5, -0.7),
        title=title,
    )
    axes.axis("off")
    plots.show(" ".join(said))


def gains(
    changes: Mapping[str, Float[Tensor, " n"]], medians: Mapping[str, Any], rises: Mapping[str, Any]
) -> None:
    """Show by what factors inserted sources change P(out), a dot a case.

    `changes` are in nats, `medians` are factors.
    """
    _, axes = plt.subplots(figsize=(10, 4.2))
    for i, (marker, (name, values)) in enumerate(zip(MARKERS, changes.items(), strict=False)):
        # side by side, to be seen
        spread = torch.linspace(-0.32, 0.32, 11).repeat(len(values))[: len(values)]
        axes.scatter(values.exp(), i + spread, s=6, marker=marker)
        axes.plot([medians[name]] * 2, [i - 0.42, i + 0.42], color="black", linewidth=2)
        axes.text(
            1.01,
            i,
            f"likelier: {rises[name]:.0%}",
            transform=axes.get_yaxis_transform(),
            va="center",
        )
    axes.axvline(1, color=COLOURS[6], linewidth=0.8)
    title, names = "What does an inserted source do? (black: the median)", list(changes)
    axes.set(xscale="log", xlabel="P(out) grows by this factor", title=title)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    plots.show(ALT["gains"])


def findings(
    tests: Mapping[str, tuple[float, Float[Tensor, "distance 3"]]], distances: Sequence[int]
) -> None:
    """Show P(out) for each finding that `Explorer.test` tried, by its source's distance.

    A line stands at P(out) without the source.
    """
    log: dict[str, Any] = {
        "xscale": "log",
        "yscale": "log",
        "xticks": distances,
        "xticklabels": distances,
    }
    panels = plots.panels(tests, (10, 4.2), rows=-(-len(tests) // 3))
    for name, (axes, (without, tried)) in zip(tests, panels, strict=True):
        lines = {"with its source": tried[:, 0], "with a random token": without * tried[:, 2]}
        axes.axhline(without, color=COLOURS[6], linewidth=0.8, label="without")
        plots.curves(lines, "", "", "", x=distances, markers=True, axes=axes, **log)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axes.set_title(name, family="monospace", parse_math=False)
        axes.minorticks_off()
    plt.suptitle("Does it do what it says?")
    plt.gcf().supxlabel("the source stands so many tokens back")
    plt.gcf().supylabel("P(out), median of the texts")
    plots.show(ALT["findings"])


def patterns(pattern: Patterns, names: Sequence[str]) -> None:
    """The attention patterns of eight heads on one short text, in two rows."""
    named = {f"head 0.{h}": (f"head 0.{h}", one) for h, one in enumerate(pattern)}
    for axes, (title, one) in plots.panels(named, (10.5, 6.4), rows=2):
        plots.heatmap(one, names, names, title, "destination", "source", bar=False, axes=axes)
        axes.set_aspect("equal")
        axes.label_outer()
    plt.suptitle("Where does each head look? (dark 0, yellow 1)")
    plots.show(ALT["patterns"])


def by_distance(
    factors: Mapping[str, Sequence[float]], distances: Sequence[int], dashed: Sequence[str]
) -> None:
    """Show by what factor each head's skip-trigrams raise their outs, by the source's distance."""
    title = "Does a skip-trigram work wherever its source stands?"
    xlabel = "the source stands so many tokens back"
    log: dict[str, Any] = {
        "xscale": "log",
        "yscale": "log",
        "xticks": distances,
        "xticklabels": distances,
    }
    look: dict[str, Any] = {"x": distances, "markers": True, "figsize": (10, 4.6)}
    axes = plots.curves(factors, title, xlabel, "P(out) grows by this factor", **look, **log)
    for line in axes.lines:
        line.set_linestyle("--" if line.get_label() in dashed else "-")
    axes.axhline(1, color=COLOURS[6], linewidth=0.8)
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plots.show(ALT["by_distance"])


def eigenvalues(
    planes: Mapping[str, Complex[Tensor, " d_head"]],
    scores: Sequence[float],
    untrained: Sequence[float],
    chance: float,
) -> None:
    """Show eigenvalues of two heads in the plane, and the copying score of all heads.

    Beside the scores stands what chance gives.
    """
    _, panels = plt.subplots(1, 3, figsize=(10.5, 4), width_ratios=[2, 2, 3])
    points: dict[str, Any] = {"lines": False, "markers": True}
    for axes, (title, values) in zip(panels, planes.items(), strict=False):
        labels = title, "real part of λ", "imaginary part"
        plots.curves({"λ": values.imag}, *labels, x=values.real, size=4, axes=axes, **points)
        axes.axvline(0, color=COLOURS[6], linewidth=0.8)
    last, heads = panels[2], range(len(scores))
    last.axvspan(-chance, chance, color=COLOURS[6], alpha=0.25, label="200 random circuits")
    by_score = {
        "trained": dict(zip(scores, heads, strict=True)),
        "untrained": dict(zip(untrained, heads, strict=True)),
    }
    points |= {"yticks": heads, "yticklabels": [f"0.{h}" for h in heads]}
    plots.curves(
        by_score, "Which heads copy?", "copying score Σλ / Σ|λ|", "head", axes=last, **points
    )
    last.legend(fontsize=8, loc="center", bbox_to_anchor=(0.61, 0.5))
    plots.show(ALT["eigenvalues"])


def small_tables(
    panels: Mapping[str, Float[Tensor, "dest src"]], dests: Sequence[str], sources: Sequence[str]
) -> None:
    """Tables of a few tokens side by side, the number in each cell, each in colours of its own."""
    _, drawn = plt.subplots(1, len(panels), figsize=(10, 2.3))
    for axes, (title, table) in zip(drawn, panels.items(), strict=True):
        plots.heatmap(
            table, dests, sources, title, centred=True, numbers_from=0, bar=False, axes=axes
        )
        axes.tick_params(axis="x", rotation=0)


def turned(toys: Mapping[str, Float[Tensor, "src out"]]) -> None:
    """OV tables of two or three tokens, rows summing to zero.

    Below, an arrow goes from each token to what it adds.
    """
    _, grid = plt.subplots(2, len(toys), figsize=(10, 5.2), height_ratios=[1, 1.5])
    for (above, below), (title, table) in zip(grid.T, toys.items(), strict=True):
        n, names = len(table), list("abc"[: len(table)])
        plots.heatmap(
            table,
            names,
            names,
            title,
            "source",
            "out",
            centred=True,
            numbers_from=0,
            bar=False,
            axes=above,
        )
        above.tick_params(axis="x", rotation=0)
        angles = 2 * torch.pi * torch.arange(n) / n
        places = torch.stack([angles.cos(), angles.sin()], 1)  # of the tokens: [token, 2]
        for name, place, adds in zip(names, places, table @ places, strict=True):
            end = adds / adds.norm()
            x, y = (1.4 * place).tolist()
            drawings.box(below, x, y, name)
            colour = COLOURS[0 if place @ end > 0.9 else 1]
            drawings.arrow(below, (0, 0), (*(1.1 * end).tolist(),), colour)
            beside = 0.6 * end + (0.22 if n == 2 else 0.4) * torch.stack([-end[1], end[0]]) * (
                -1 if end[0] < 0 else 1
            )
            below.text(
                *beside.tolist(), f"{name} adds", color=colour, ha="center", va="center", fontsize=9
            )
        λ = torch.linalg.eigvals(table)
        said = []
        for value in λ[λ.abs() > 0.01]:
            turn = f"{value.abs():.0f} ∠ {value.angle().rad2deg():.0f}°"
            said.append(f"{value.real:.0f}" if abs(value.imag) < 0.01 else turn)
        score = (λ.sum().real / λ.abs().sum()).item()
        words = f"λ = {' and '.join(said)};  score {plots.written(score, '+.1f')}".replace("-", "−")
        below.set(
            xlim=(-1.7, 1.7), ylim=(-1.6, 1.6), aspect="equal", xticks=[], yticks=[], xlabel=words
        )
        below.spines[:].set_visible(False)
    plots.show(ALT["turned"])


def sinks(
    start: Float[Tensor, " head"],
    usual: Float[Tensor, " head"],
    rises: Mapping[str, Sequence[tuple[float, float]]],
) -> None:
    """How much the start token says in each head, and how the loss rises.

    What it says stands left, beside a usual token; the rise stands right, with errors.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), width_ratios=[1, 1.6])
    names = [f"0.{h}" for h in range(len(start))]
    rows = {"<|start|>": start, "a usual token": usual}
    plots.grouped_bars(
        rows, names, "How much does it say?", "spread of its row of OV, logits", "head", axes=left
    )
    means = {name: [mean for mean, _ in values] for name, values in rises.items()}
    plots.grouped_bars(means, names, "What is lost?", "rise of the loss, nats", "head", axes=right)
    containers: Any = right.containers.copy()
    for drawn, values in zip(containers, rises.values(), strict=True):
        at = [bar.get_x() + bar.get_width() / 2 for bar in drawn]
        right.errorbar(
            at,
            [mean for mean, _ in values],
            [error for _, error in values],
            fmt="none",
            color="black",
            lw=1,
        )
    for axes in (left, right):
        axes.legend(fontsize=8)
    plots.show(ALT["sinks"])


draws_in_style(__name__)
