"""What only lesson 07b draws: the company of two positions, the pointer, and what cuts and variants change."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils.plots import COLOURS

ALT = plots.alt_texts(__file__)
Measured = Float[Tensor, "pair measure axis"]
LOOKS = "#a34700"  # of an arrow that only looks, and of its words


def _text(tokens: Sequence[str], axes: Axes, colours: Mapping[str, str] | None = None) -> None:
    for x, token in enumerate(tokens):
        if token.startswith("·"):
            axes.text(x, 0, token, ha="center", va="center")
        else:
            plots.box(axes, x, 0, token, (colours or {}).get(token, "white"))
    axes.axis("off")


def company(looks: Float[Tensor, " back"], question: str = "", before: Sequence[str] = ("u", "v", "w", "x")) -> None:
    """Show two A in the same company, and what a blurred head, whose attention `looks` back, writes at B and at A."""
    axes = plt.subplots(figsize=(10.4, 4.3 if question else 3.5))[1]
    tokens = [*before, "A", "B", "· · ·", *before, "A", "?"]
    B, again = len(before) + 1, len(tokens) - 2
    _text(tokens, axes, {"?": "#ffe9d6"})
    for places, words in ((range(B + 1), "the earlier B"), (range(B + 2, again + 1), "the second A")):
        for x, share in zip(reversed(places), looks.tolist(), strict=False):
            label = {B: "B itself, in the left one alone", 1: "a token that both hold"}.get(x)
            colour, hatch = (COLOURS[6], "") if x == B else (COLOURS[1], "///")
            axes.bar(x, 4 * share, 0.6, 0.45, color=colour, hatch=hatch, edgecolor="white", label=label)
            axes.text(x, 0.5 + 4 * share, f"{share:.2f}", ha="center", va="bottom", fontsize=9)
        axes.text(places[-1] - 2.5, 2.2, f"0.0 writes at {words}", ha="center", fontsize=11)
    axes.legend(fontsize=9, loc="upper right", bbox_to_anchor=(1, 0.86)).set_title("share of 0.0's attention")
    if question:
        plots.arrow(axes, (again, -0.3), (B, -0.3), LOOKS, "--", -0.18)
        axes.text((again + B) / 2, -1.3, question, ha="center", color=LOOKS, fontsize=11)
    axes.set(xlim=(-0.5, len(tokens) + 1.2), ylim=(-1.5 if question else -0.35, 2.5))
    asked = f" An arrow from the second A back to the earlier B asks: {question}" if question else ""
    plots.show(ALT["company"] + asked)


def find_and_copy(found: Measured, null: Measured, induction: Sequence[int]) -> None:
    """Show how well heads of layer 1, paired with 0.5, find and copy, by two measures; `null`: of random pairs."""
    _, panels = plt.subplots(1, 2, figsize=(10.4, 4.4))
    panels[0].set(xlim=(-0.6, 1.2), ylim=(-0.4, 1.25))
    panels[1].margins(0.12)
    named = found[:, 0].amin(1) > null[:, 0].abs().max()  # beyond chance on both axes
    others = [head for head in range(len(found)) if head not in induction]
    for measure, (panel, name) in enumerate(zip(panels, ("positivity", "lead"), strict=True)):
        chance = null[:, measure]
        panel.scatter(*chance.T, s=8, color=COLOURS[6], alpha=0.5, label="200 random pairs")
        across, up = chance.abs().amax(0).tolist()
        sides = [-across, across, across, -across, -across], [-up, -up, up, up, -up]
        panel.plot(*sides, ":", color=COLOURS[6], label="no random pair outside")
        for i, (these, who) in enumerate(((others, "other heads"), (induction, "induction heads"))):
            style = {"marker": "oD"[i], "edgecolor": "black", "label": f"{who}, with 0.5"}
            panel.scatter(*found[these, measure].T, 60, COLOURS[i], **style)
        for head in named.nonzero().flatten().tolist():  # by positivity the two induction heads share a place
            above = (0, -17) if (name, head) == ("positivity", induction[0]) else (0, 8)
            away, align = ((9, -4), "left") if name == "lead" and head in others else (above, "center")
            panel.annotate(f"1.{head}", found[head, measure].tolist(), away, textcoords="offset points", ha=align)
        panel.set(xlabel=f"to find: {name} of M_K", ylabel=f"to copy: {name} of the OV circuit")
        panel.set_title(f"Who finds and copies, by {name}?")
        panel.axhline(0, color=COLOURS[6], lw=0.8)
        panel.axvline(0, color=COLOURS[6], lw=0.8)
    panels[1].legend(fontsize=8, loc="upper right")
    plots.show(ALT["find_and_copy"])


def _bars(bars: Mapping, places: Sequence[str], title: str, unit: str, xlabel: str = "", height: float = 4.2) -> Axes:
    axes = plt.subplots(figsize=(9, height))[1]
    plots.grouped_bars(bars, places, title, unit, xlabel, numbers=True, axes=axes).legend(ncols=len(bars))
    return axes


def _panels(panels: Mapping[str, Mapping[str, Any]], places: Sequence[str], unit: str, xlabel: str, top: float) -> None:
    for title, (axes, bars) in zip(panels, plots.panels(panels, (10.4, 6.2), rows=len(panels)), strict=True):
        plots.grouped_bars(bars, places, title, unit, xlabel, numbers=True, axes=axes)
        axes.label_outer()
    axes.set_ylim(0, top)
    plt.gcf().axes[0].legend(ncols=2, loc="upper right")


def sources(fit: Mapping[tuple[str, str], Sequence[float]], of: Sequence[int]) -> None:
    """Show what share of tokens match themselves best, for each source of the query and of the key."""
    bars = {f"1.{head}": [rates[i] for rates in fit.values()] for i, head in enumerate(of)}
    names = [f"query: {query}\nkey: {key}" for query, key in fit]
    _bars(bars, names, "Which pairs of sources match?", "share of tokens that match themselves best")
    plots.show(ALT["sources"])


def preferences(went: Mapping[str, Float[Tensor, "head occurrence"]], of: Sequence[int]) -> None:
    """Show each head's attention to the B after the same company and to the nearer one, by what its keys lack."""
    attention, kinds = torch.stack([*went.values()], -1), ("after the same company", "after another, nearer")
    titles = [f"Which B does 1.{head} choose, at the last A?" for head in of]
    panels = {title: dict(zip(kinds, by_kind, strict=True)) for title, by_kind in zip(titles, attention, strict=True)}
    _panels(panels, list(went), "attention to B", "what is cut from its keys", 0.85)
    plots.show(ALT["preferences"])


def costs(cost: Mapping[str, Mapping[str, Float[Tensor, ""]]]) -> None:
    """Show what each stand-in for the second writer costs, in nats, by kind of position."""
    bars = {f"{name} in its place": [nats.item() for nats in by_kind.values()] for name, by_kind in cost.items()}
    places, title = list(next(iter(cost.values()))), "What does the loss of 0.0 cost?"
    axes = _bars(bars, places, title, "nats per token", "kind of position", 3.8)
    axes.axhline(0, color="black", lw=0.8)
    axes.margins(y=0.12)
    plots.show(ALT["costs"])


def kept(left: Mapping[str, Float[Tensor, "head writer"]], of: Sequence[int]) -> None:
    """Show by door what share of the prefix-matching scores of the heads `of` is left when one writer is cut off."""
    panels = {
        f"Cut from the {door}: what is left?": {f"1.{head}": shares[i] for i, head in enumerate(of)}
        for door, shares in left.items()
    }
    writers = [f"0.{writer}" for writer in range(next(iter(left.values())).shape[1])]
    _panels(panels, writers, "share of the score", "the head that is cut", 1.45)
    plots.show(ALT["kept"])


def pointer() -> None:
    """Show induction by a pointer: streams of three positions, and the three steps between them."""
    axes = plots.streams(("A", "B", "A"), "B", 4.2)
    plots.box(axes, 8, 2.0, "“A stood at j”", "#dcebf5")
    for start, end, y, words, colour, line in (
        (1, 8, 0.95, "1  find the same token, fetch its position", COLOURS[0], "-"),
        (8, 3.4, 3.05, "2  look at j, moved one on", LOOKS, "--"),
        (3.4, 8, 4.05, "3  copy B", "#00654a", "-"),
    ):
        plots.arrow(axes, (start, y), (end, y), colour, line)
        axes.text(5.7, y + 0.1, words, ha="center", va="bottom", color=colour, fontsize=9)
    plots.show(ALT["pointer"])


def match_of_variants(values: Mapping[str, Sequence[float]], families: Sequence[str]) -> None:
    """Show the lead in score of a word itself, its variant and another's variant, for each family."""
    _bars(values, families, "What does the match find?", "lead in score", "family").set_ylim(0, 8.5)
    plots.show(ALT["match_of_variants"])


def looks_of_variants(values: Mapping[str, Sequence[float]], families: Sequence[str]) -> None:
    """Show the texts that were made for it, and how much attention goes to B from each of the three."""
    _, (strip, axes) = plt.subplots(2, 1, figsize=(9, 5.6), height_ratios=[1, 3])
    _text(("· · ·", "name", "B", "· · ·", "Name"), strip)
    plots.arrow(strip, (4, 0.2), (2, 0.2), LOOKS, "--", 0.25)
    strip.text(3, 1.5, "how much attention?", ha="center", color=LOOKS, fontsize=9)
    strip.set(xlim=(-0.5, 4.5), ylim=(-0.5, 2))
    words = "How much do 1.6 and 1.1 look at B?", "attention to B", "family"
    plots.grouped_bars(values, families, *words, numbers=True, axes=axes).legend(ncols=3)
    axes.set_ylim(0, 0.45)
    plots.show(ALT["looks_of_variants"])


def all_pairs(positivity: Float[Tensor, "later earlier"]) -> None:
    """Show the positivity of M_K for each pair of a head of layer 1 and one of layer 0."""
    later, earlier = ([f"{layer}.{h}" for h in range(n)] for layer, n in zip((1, 0), positivity.shape, strict=True))
    words = (later, earlier, "Which pairs find the same token?", "later head", "earlier head")
    label, axes = "positivity of M_K (−: below −0.2)", plt.subplots(figsize=(8, 4.6))[1]
    plots.heatmap(positivity, *words, label=label, axes=axes, centred=True, limit=1.0, numbers_from=0.4)
    plots.show(ALT["all_pairs"])


def occurrences() -> None:
    """Show the text of the test: A in the same company, A in another, and at the end the first company and A again."""
    axes = plt.subplots(figsize=(10.4, 3.0))[1]
    parts = ("start", "same", "A", "B", "· · ·", "other", "A", "B'", "· · ·", "same", "A")
    _text(parts, axes, {"same": "#ffe9d6", "other": "#dcebf5"})
    for target, words in ((3, "the same company"), (7, "another, but nearer")):
        plots.arrow(axes, (10, 0.3), (target, 0.3), LOOKS, "--", 0.3)
        axes.text(target, -0.8, f"after {words}", ha="center", va="top", fontsize=9)
    axes.text(10, -0.8, "the query", ha="center", va="top", fontsize=9)
    axes.text(6.5, 2.3, "which of the two?", ha="center", color=LOOKS, fontsize=9)
    axes.set(xlim=(-0.6, 10.6), ylim=(-1.3, 2.7))
    plots.show(ALT["occurrences"])


def resemblance(cosine: Mapping[str, Float[Tensor, ""]], match: Mapping[str, float]) -> None:
    """Show for each family the cosine of the embeddings of word and variant, and the lead of their match in score."""
    points = {family: {value.item(): match[family]} for family, value in cosine.items()}
    words = "cosine of the embeddings of word and variant", "match of the variant, lead in score"
    title = "Does the match follow the embeddings?"
    axes = plots.curves(points, title, *words, lines=False, markers=True, size=9, xlim=(0, 0.6), ylim=(0, 6))
    axes.legend(loc="upper left", prop={"family": "monospace"})
    plots.show(ALT["resemblance"])
