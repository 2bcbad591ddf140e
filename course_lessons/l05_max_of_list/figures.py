"""What only lesson 05 draws: the number line, the votes, and what a proof costs."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_utils import plots
from course_utils._style import draws_in_style
from course_utils.plots import COLOURS

Values = Float[Tensor, " value"]
ALT = plots.alt_texts(__file__)
BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[6]


def two_jobs(numbers: Sequence[int]) -> None:
    """A drawing of the idea.

    A place on a line gives each number its weight, and it votes for its own name.
    """
    axes = plt.subplots(figsize=(10, 3.8))[1]
    where = 0.3 + 3.2 * torch.tensor(numbers) / max(numbers)
    weight = (2 * where).softmax(0)
    axes.annotate("", (3.9, 0), (0, 0), arrowprops={"arrowstyle": "->", "color": GREY})
    axes.text(0, 2.5, "1 · weigh: a place on a line;\nfurther right, a higher score", va="top")
    axes.text(6.8, 1.4, "2 · say: a name;\neach number votes\nfor its own", va="top")
    axes.text(
        1.2, 1.15, "the softmax turns\nscores into weights\n(gently here)", ha="center", color=BLUE
    )
    axes.plot(where, 0 * where, "o", color=BLUE, ms=7)
    axes.bar(where, 1.6 * weight, 0.14, 0.15, color=BLUE, alpha=0.35)
    for row, (place, number, share) in enumerate(
        zip(where.tolist(), numbers, weight.tolist(), strict=True)
    ):
        axes.text(place, -0.22, str(number), ha="center", va="top")
        thick = {
            "arrowstyle": "->",
            "connectionstyle": "arc3,rad=-0.15",
            "color": ORANGE,
            "lw": 0.4 + 3 * share,
        }
        axes.annotate("", (5.9, 0.1 + 0.65 * row), (place, 0.2 + 1.6 * share), arrowprops=thick)
        axes.text(
            6.0, 0.1 + 0.65 * row, str(number), color=ORANGE, fontsize=9 + 9 * share, va="center"
        )
    axes.set(xlim=(-0.1, 8.6), ylim=(-0.6, 2.6))
    axes.axis("off")
    plots.show(ALT["two_jobs"])


def ballots(
    cases: Sequence[Sequence[int]], parts: Sequence[Float[Tensor, " _pos"]], titles: Sequence[str]
) -> None:
    """What each position, and all, give the largest value minus the value below, for each list.

    The longest bar has length 1.
    """
    shown = dict(zip(titles, zip(cases, parts, strict=True), strict=True))
    unit = "votes for the largest, minus votes\nfor the value below (longest = 1)"
    for axes, (numbers, given) in plots.panels(shown, (10, 4), "value at each position", unit):
        heights = (given / given.abs().max()).tolist()
        colours = [ORANGE if number == max(numbers) else BLUE for number in numbers]
        axes.bar(range(len(numbers) + 1), [*heights, sum(heights)], color=[*colours, GREY])
        axes.set_xticks(range(len(numbers) + 1), [*map(str, numbers), "sum"])
        axes.axhline(0, color="black", lw=0.8)
    ends = [
        f"{title}, {'ahead' if part.sum() > 0 else 'behind'}"
        for part, title in zip(parts, titles, strict=True)
    ]
    plots.show(
        f"{len(cases)} bar charts of the votes in a list, and their sum. "
        f"The largest: {'; '.join(ends)}."
    )


def leads(lead: Float[Tensor, "pos value"], last: float) -> None:
    """What each value at each position adds to the largest's lead, and the `last` one.

    The most is 1; the worst stand in boxes.
    """
    n, M = lead.shape[0], lead.shape[1] - 1
    shown = torch.full((n + 1, M + 1), torch.nan)  # grey: other values than the last one's
    shown[:n], shown[n, M - 1] = lead, last
    shown /= lead.abs().max()
    names = [*map(str, range(n)), "last"], [*map(str, range(M + 1))]
    words = (
        f"How much does each value help {M} against {M - 1}?",
        "position",
        "value there (no number: below 0.05)",
    )
    axes, limit = plt.subplots(figsize=(10, 3.4))[1], float(shown.nan_to_num().abs().max())
    look: dict[str, Any] = {
        "label": f"lead of {M} (longest = 1)",
        "centred": True,
        "numbers_from": 0.05,
    }
    plots.heatmap(shown, *names, *words, axes=axes, limit=limit, **look).set_facecolor("#dddddd")
    helps = int((lead[:, M] - lead.amin(1)).argmin())
    worst = [(place, int(lead[place].argmin()), "-") for place in range(n)]
    for place, value, style in [*worst, (helps, M, "--")]:
        corner = (value - 0.47, place - 0.45)
        axes.add_patch(plt.Rectangle(corner, 0.94, 0.9, fill=False, ls=style, lw=2))
    plots.show(ALT["leads"])


def tables(
    left: Float[Tensor, "query key"], right: Float[Tensor, "query key"], titles: Sequence[str]
) -> None:
    """Two tables of scores side by side on one scale, row-centred beforehand."""
    limit = float(torch.stack([left, right]).abs().max())
    both = dict(zip(titles, (left, right), strict=True))
    for axes, table in plots.panels(both, (10, 4.4), "value of the key", "value of the query"):
        drawn = axes.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    plt.colorbar(drawn, ax=axes.figure.axes, label="score, row-centred")
    plots.show(ALT["tables"])


def line(g: Values, title: str, errors: Int[Tensor, " value"] | None = None) -> None:
    """Each value at its place on the number line.

    Those with errors are larger and orange, the worst four numbered.
    """
    _, panels = plt.subplots(3, 1, figsize=(10, 5))
    count = torch.zeros(len(g), dtype=torch.long) if errors is None else errors
    pieces = torch.arange(len(g)).chunk(3)
    width = 1.02 * max(float(g[piece[-1]] - g[piece[0]]) for piece in pieces) + 1
    for axes, piece in zip(panels, pieces, strict=True):
        middle = float(g[piece[0]] + g[piece[-1]]) / 2
        axes.axhline(0, color=GREY, lw=0.8, zorder=0)
        for value in piece.tolist():
            place, wrong, side = float(g[value]), int(count[value]), 1 if value % 2 else -1
            colour, marker, weight = (ORANGE, "D", "bold") if wrong else (BLUE, "o", "normal")
            axes.plot(place, 0, alpha=0.7, ms=5 + 0.8 * wrong**0.25, color=colour, marker=marker)
            words = [str(value)]
            if wrong and value in count.topk(4).indices:
                words.append(f"({wrong:,})")
            said, va = "\n".join(words[::-side]), "bottom" if side > 0 else "top"
            axes.text(place, 0.5 * side, said, ha="center", va=va, fontsize=9, fontweight=weight)
        axes.set(xlim=(middle - width / 2, middle + width / 2), ylim=(-2, 2), yticks=[])
        axes.spines["left"].set_visible(False)
    panels[0].set_title(title)
    panels[-1].set_xlabel("place on the line, g (a mean step is 1)")
    plots.show(ALT["line" if errors is None else "errors"].format(len(g), int(count.argmax())))


def queries(by_value: Values, with_position: Values, named: Sequence[int]) -> None:
    """How strongly each query asks for larger keys, alone and with its position.

    Alone means by its embedding; some are named.
    """
    pulls = {"by its value alone": by_value, "with its position, length 6": with_position}
    words = "How hard does each query pull?", "value of the query", "f, score per mean step"
    room = min(0, float(by_value.min())) - 0.35, None
    axes = plots.curves(
        pulls, *words, lines=False, markers=True, size=4, figsize=(10, 4), ylim=room
    )
    axes.axhline(0, color="black", lw=0.8)
    for value in named:
        axes.annotate(
            str(value),
            (value, float(by_value[value])),
            (0, -11),
            textcoords="offset points",
            ha="center",
        )
    axes.legend(ncols=2)
    plots.show(ALT["queries"])


def winners(share: Mapping[int, float]) -> None:
    """Points on a circle that are their own largest product; winners against directions kept.

    Left are 12 points; right, winners by directions kept.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9), width_ratios=[1, 1.6])
    points = torch.stack(
        [f(2 * torch.pi * torch.arange(12) / 12) for f in (torch.cos, torch.sin)], 1
    )
    left.plot(*points.T, "o", color=BLUE)
    arrow = {"arrowstyle": "->", "lw": 0.8}
    left.annotate("", (*points[1].tolist(),), (0, 0), arrowprops=arrow | {"color": ORANGE, "lw": 2})
    for other in points[[0, 2]]:  # the shadow of each neighbour on the arrow
        foot = (other @ points[1]) * points[1]
        left.plot(*torch.stack([other, foot], 1), ":", color="black", lw=1.2)
    left.annotate(
        "neighbours reach\nonly to here", foot, (0, -0.4), ha="center", fontsize=8, arrowprops=arrow
    )
    left.set(
        title="12 winners in 2 dimensions", aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25)
    )
    left.axis("off")
    percent = {kept: 100 * one for kept, one in share.items()}
    words = "directions of OV kept, the strongest first", "values that win their row, %"
    plots.curves(
        {"": percent}, "How many directions does OV need?", *words, markers=True, axes=right
    )
    right.axhline(100, color=GREY, lw=0.8, ls="--")
    plots.show(ALT["winners"])


def census(open_and_wrong: Mapping[int, tuple[int, int]]) -> None:
    """For each length, how many lists there are, are left open by the classes, and are wrong."""
    counts = zip(*((64**length, *two) for length, two in open_and_wrong.items()), strict=True)
    kinds = dict(zip(("all lists", "left open by the classes", "wrong"), counts, strict=True))
    heights = {name: [max(count, 0.55) for count in kind] for name, kind in kinds.items()}
    words = "How many lists are left?", "lists", "length of the list"
    axes = plots.grouped_bars(
        heights, [*map(str, open_and_wrong)], *words, axes=plt.subplots(figsize=(10, 4.4))[1]
    )
    containers: Any = axes.containers
    for drawn, kind in zip(containers, kinds.values(), strict=True):
        axes.bar_label(
            drawn, [_short(count).replace(" ", "\n") for count in kind], fontsize=8, padding=2
        )
    axes.set(yscale="log", ylim=(0.5, 1e13))
    axes.legend(ncols=3, loc="upper left")
    plots.show(ALT["census"])


def _short(count: int) -> str:
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:,}"


def beside(allowed: Sequence[int], exact: Sequence[int]) -> None:
    """For each largest value, how many smaller ones may stand beside it.

    Three lines: all of them, those that an exact line allows, and those that the line allows.
    """
    words = (
        "How many smaller values may stand beside the largest?",
        "largest value M",
        "smaller values, from 0 upwards",
    )
    axes = plt.subplots(figsize=(10, 4.4))[1]
    axes.plot(range(len(allowed)), ":", color=GREY, label="all that are smaller")
    plots.curves(
        {"by the line": allowed, "by the line, if it were exact": exact}, *words, axes=axes
    )
    axes.fill_between(range(len(allowed)), allowed, color=BLUE, alpha=0.15)
    M = len(allowed) // 4
    note = f"beside {M}: {allowed[M]} of {M}"
    axes.annotate(note, (M, allowed[M]), (M + 6, allowed[M] - 6), arrowprops={"arrowstyle": "->"})
    plots.show(ALT["beside"])


def moving(errors: Mapping[float, Int[Tensor, " value"]], M: int, now: float) -> None:
    """Wrong lists of M, of the value above it, and all, by M's place between its neighbours.

    `now` is marked.
    """
    places = sorted(errors)
    table = torch.stack([errors[place] for place in places])
    curves = {f"largest {M}": table[:, M], f"largest {M + 1}": table[:, M + 1], "all": table.sum(1)}
    words = (
        f"Where should {M} stand?",
        f"place of {M} on the way from {M - 1} to {M + 1}",
        "wrong lists of length 6",
    )
    axes = plots.curves(curves, *words, x=places, markers=True, figsize=(10, 4.4), ylim=(0, None))
    axes.axvline(now, color="black", lw=0.8)
    axes.annotate(
        " where training left it", (now, 0.97), xycoords=("data", "axes fraction"), va="top"
    )
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="upper center")
    plots.show(ALT["moving"].format(M, M + 1))


def price(proofs: Mapping[str, tuple[int, float]]) -> None:
    """What each proof leaves open, as a share, against its operations, both axes logarithmic."""
    points = {name: {cost: 100 * share} for name, (cost, share) in proofs.items()}
    words = (
        "What does each proof leave open?",
        "operations",
        "lists of length 6\nnot proved right, %",
    )
    look: dict[str, Any] = {
        "xscale": "log",
        "yscale": "log",
        "xlim": (1e6, 1e14),
        "ylim": (1e-6, 400),
        "legend": False,
    }
    axes = plots.curves(
        points, *words, lines=False, markers=True, size=8, figsize=(10, 4.4), **look
    )
    for name, (cost, share) in proofs.items():
        still = f"{100 * share:.2g} % open" if share > 1e-6 else "only errors open"
        # the last point's name ends above it
        away, side = ((6, 9), "right") if cost > 1e9 else ((9, -4), "left")
        said = f"{name}: {_short(cost)}, {still}"
        axes.annotate(said, (cost, 100 * share), away, textcoords="offset points", ha=side)
    axes.set_yticks([1e-6, 1e-4, 0.01, 1, 100], ["0.000001", "0.0001", "0.01", "1", "100"])
    axes.minorticks_off()
    plots.show(ALT["price"])


def danger(step: Values, voice: Values, errors: Int[Tensor, " value"], room: int) -> None:
    """Each largest value by its step in score and its voice.

    Those on the wrong side of the line are named.
    """
    wrong, most = errors > 0, float(step.max())
    named = (step.exp() * voice < room) != wrong
    named[errors.argmax()] = True
    shown = torch.stack([step, voice], 1)
    points = {
        "never wrong": dict(shown[~wrong].tolist()),
        "sometimes wrong": dict(shown[wrong].tolist()),
    }
    words = (
        "Who can be outvoted?",
        "step from M − 1 to M, in score",
        "voice of M (ratio of leads),\nlogarithmic",
    )
    look: dict[str, Any] = {"yscale": "log", "xlim": (0, most + 0.1), "ylim": (0.8, 5.2)}
    axes = plots.curves(points, *words, lines=False, markers=True, figsize=(10, 5), **look)
    x = torch.linspace(0, most, 200)
    draws = torch.stack([x, room * (-x).exp()], 1)
    axes.plot(*draws.T, color="black", ls="--", lw=1, label=f"{room} copies draw with one M")
    axes.set_yticks([1, 2, 3, 4, 5], ["1", "2", "3", "4", "5"])
    axes.minorticks_off()
    axes.legend()
    axes.text(
        0.05,
        0.9,
        "in danger: below the line\n(with numbers: most errors, or the wrong side)",
        fontsize=9,
    )
    pixels = torch.tensor(axes.transData.transform(torch.cat([shown, draws]).numpy()))
    dots = pixels / axes.figure.dpi * 72  # in points
    sides = torch.tensor([(12, 0), (-12, 0), (0, 11), (0, -11), (9, 9), (-9, 9), (9, -9), (-9, -9)])
    bold: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9, "fontweight": "bold"}
    for M in named.nonzero().flatten().tolist():  # each name on the side where most room is
        others = torch.cat([dots[:M], dots[M + 1 :]])
        side = sides[torch.cdist(dots[M] + sides.double(), others).amin(1).argmax()]
        axes.annotate(
            f"{M + 1}", (*shown[M].tolist(),), (*side.tolist(),), textcoords="offset points", **bold
        )
    plots.show(ALT["danger"])


draws_in_style(__name__)
