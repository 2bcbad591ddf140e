"""What only lesson 07b draws: the company of two positions, the pointer, and what cuts and variants change."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from course_utils import plots
from course_utils.plots import COLOURS, arrow, box, streams

LOOKS = "#a34700"  # of an arrow that only looks, and of its words


def company(looks: Float[Tensor, " back"], question: str = "", before: Sequence[str] = ("u", "v", "w", "x")) -> None:
    """Show two occurrences of A with the same tokens before them, and how much of each token a blurred head writes.

    `looks` is its attention to the token 0, 1, 2, … back: on the left what it writes at the earlier B, on the right at
    the second A. A `question` stands below, at an arrow from the second A to B.
    """
    axes = plt.subplots(figsize=(10.4, 4.3 if question else 3.5))[1]
    tokens = [*before, "A", "B", "· · ·", *before, "A", "?"]
    n = len(before)
    for x, token in enumerate(tokens):
        _place(axes, x, token, "#ffe9d6" if token == "?" else "white")
    for writer, words in ((n + 1, "0.0 writes at the earlier B"), (2 * n + 3, "0.0 writes at the second A")):
        for back, share in enumerate(looks[: n + 2].tolist()):
            x = writer - back
            if x < 0 or tokens[x].startswith("·"):
                continue
            own = tokens[x] == "B"
            label = "B itself, in the left one alone" if own else "a token that both hold" if x == 1 else None
            colour, hatch = (COLOURS[6], "") if own else (COLOURS[1], "///")
            axes.bar(x, 4 * share, 0.6, 0.45, color=colour, hatch=hatch, edgecolor="white", label=label)
            axes.text(x, 0.5 + 4 * share, f"{share:.2f}", ha="center", va="bottom", fontsize=9)
        axes.text(writer - 2.5, 2.2, words, ha="center", fontsize=11)
    axes.legend(
        fontsize=9, loc="upper right", bbox_to_anchor=(1, 0.86), title="share of 0.0's attention", title_fontsize=9
    )
    if question:
        arrow(axes, (2 * n + 3, -0.3), (n + 1, -0.3), LOOKS, "--", -0.18)
        axes.text(1.5 * n + 2, -1.3, question, ha="center", color=LOOKS, fontsize=11)
    axes.set(xlim=(-0.5, len(tokens) + 1.2), ylim=(-1.5 if question else -0.35, 2.5))
    axes.axis("off")
    asked = f" An arrow from the second A back to the earlier B asks: {question}" if question else ""
    plots.show(
        "The same tokens u, v, w, x, A stand twice, the first time followed by B. Bars show how much head 0.0 writes "
        "of each token: at the earlier B most of the one two back, and a blur around it; at the second A the same, one "
        f"place on. Both blurs hold the same tokens.{asked}"
    )


def _place(axes: Axes, x: float, token: str, colour: str = "white") -> None:
    """A token on the line of a text, in a box unless it stands for what is left out."""
    if token.startswith("·"):
        axes.text(x, 0, token, ha="center", va="center")
    else:
        box(axes, x, 0, token, colour)


def find_and_copy(
    found: Float[Tensor, "head measure axis"],
    null: Float[Tensor, "n measure axis"],
    induction: Sequence[int],
) -> None:
    """Show how well the heads of layer 1, paired with 0.5, find and copy, by two measures, beside random pairs.

    The first axis is to find, the second to copy. `null` has both measures of random pairs; a box holds all of them.
    """
    _, panels = plt.subplots(1, 2, figsize=(10.4, 4.4))
    names, far = ("positivity", "lead"), null[:, 0].abs().max().item()
    named = [h for h, positivity in enumerate(found[:, 0]) if positivity.min() > far]  # beyond chance on both axes
    for panel, name, values, chance in zip(panels, names, found.permute(1, 2, 0), null.permute(1, 2, 0), strict=True):
        panel.scatter(*chance, s=8, color=COLOURS[6], alpha=0.5, label="200 random pairs")
        across, up = chance.abs().amax(1).tolist()
        sides = [-across, across, across, -across, -across], [-up, -up, up, up, -up]
        panel.plot(*sides, ":", color=COLOURS[6], label="no random pair outside")
        others = [h for h in range(values.shape[1]) if h not in induction]
        for these, who, colour, marker in (
            (others, "other heads", 0, "o"),
            (list(induction), "induction heads", 1, "D"),
        ):
            style = {"marker": marker, "edgecolor": "black", "label": f"{who}, with 0.5"}
            panel.scatter(values[0, these], values[1, these], 60, COLOURS[colour], **style)
        for head in named:  # names stand above; below at a place that has one, and beside it in a column of points
            at = values[:, head]
            taken = any((values[:, other] - at).abs().max() < 0.05 for other in named if other < head)
            beside = name == "lead" and head not in induction
            away, align = ((9, -4), "left") if beside else ((0, -17 if taken else 8), "center")
            panel.annotate(f"1.{head}", at.tolist(), away, textcoords="offset points", ha=align)
        panel.set(
            title=f"Who finds and copies, by {name}?",
            xlabel=f"to find: {name} of M_K",
            ylabel=f"to copy: {name} of the OV circuit",
        )
        panel.axhline(0, color=COLOURS[6], lw=0.8)
        panel.axvline(0, color=COLOURS[6], lw=0.8)
    panels[0].set(xlim=(-0.6, 1.2), ylim=(-0.4, 1.25))
    panels[1].margins(0.12)
    panels[1].legend(fontsize=8, loc="upper right")
    plots.show(
        "Two panels of points for heads paired with the previous-token head: how well they find, across, and how well "
        "they copy, upwards. By positivity the two induction heads stand in the upper right corner, and four other "
        "heads stand above and to the right of the box of chance. By lead the two induction heads stand alone at the "
        "right."
    )


def sources(fit: Mapping[tuple[str, str], Sequence[float]], of: Sequence[int]) -> None:
    """Show what share of tokens match themselves best, for each source of the query and of the key."""
    axes = plt.subplots(figsize=(9, 4.2))[1]
    bars = {f"1.{head}": [rates[i] for rates in fit.values()] for i, head in enumerate(of)}
    names = [f"query: {query}\nkey: {key}" for query, key in fit]
    title = "Which pairs of sources match?"
    plots.grouped_bars(bars, names, title, "share of tokens that match themselves best", numbers=True, axes=axes)
    axes.legend()
    plots.show(
        "Bars of the share of tokens that match themselves best. A token in the query and 0.5 in the key: high. A "
        "token and 0.0: none. 0.0 on both sides: about half. 0.5 and 0.0: about a fifth."
    )


def preferences(went: Mapping[str, Float[Tensor, "head occurrence"]], of: Sequence[int]) -> None:
    """Show each head's attention to the B after the same company and to the nearer one, by what its keys lack."""
    _, panels = plt.subplots(len(of), 1, figsize=(9, 6.2), sharex=True, sharey=True)
    for i, (axes, head) in enumerate(zip(panels, of, strict=True)):
        kinds = ("after the same company", "after another, nearer")
        values = {kind: [attention[i, at].item() for attention in went.values()] for at, kind in enumerate(kinds)}
        title, unit = f"Which B does 1.{head} choose, at the last A?", "attention to B"
        plots.grouped_bars(values, list(went), title, unit, numbers=True, axes=axes)
    panels[0].set_ylim(0, 0.85)
    panels[0].legend(ncols=2)
    panels[-1].set_xlabel("what is cut from its keys")
    plots.show(
        "Attention of 1.6 and 1.1 to the two Bs, by what is cut from their keys. With nothing cut they look at the B "
        "in the same company. Without 0.0 they hardly tell the two apart. Without 0.5 they find neither. The other "
        "six heads change nothing."
    )


def costs(cost: Mapping[str, Mapping[str, Float[Tensor, ""]]]) -> None:
    """Show what each stand-in for the second writer costs, in nats, by kind of position."""
    axes = plt.subplots(figsize=(9, 3.8))[1]
    places = list(next(iter(cost.values())))
    bars = {f"{name} in its place": [nats.item() for nats in by_kind.values()] for name, by_kind in cost.items()}
    title, unit = "What does the loss of 0.0 cost?", "nats per token"
    plots.grouped_bars(bars, places, title, unit, "kind of position", numbers=True, axes=axes)
    axes.axhline(0, color="black", lw=0.8)
    axes.margins(y=0.12)
    axes.legend()
    plots.show(
        "Bars of the cost of taking 0.0 out of the queries and keys, by kind of position. Where a token continues as "
        "before it costs more than a nat, and the mean in its place costs more than zero. Elsewhere next to nothing."
    )


def kept(left: Mapping[str, Float[Tensor, "head writer"]], of: Sequence[int]) -> None:
    """Show what is left of the prefix-matching scores of the heads `of`, a share of the whole, after each cut.

    `left` has the shares by door; each writer of layer 0 was cut from it alone.
    """
    _, panels = plt.subplots(len(left), 1, figsize=(10.4, 6.2), sharex=True, sharey=True)
    for axes, (door, shares) in zip(panels, left.items(), strict=True):
        bars = {f"1.{head}": shares[i] for i, head in enumerate(of)}
        names = [f"0.{writer}" for writer in range(shares.shape[1])]
        title, unit = f"Cut from the {door}: what is left?", "share of the score"
        plots.grouped_bars(bars, names, title, unit, numbers=True, axes=axes)
    panels[0].set_ylim(0, 1.45)
    panels[0].legend(ncols=2, loc="upper right")
    panels[-1].set_xlabel("the head that is cut")
    plots.show(
        "Bars of what is left of the two heads' scores after each of sixteen cuts. Without 0.5 in the keys next to "
        "nothing is left, without 0.0 there a third to a half; without either in the queries most; after all other "
        "cuts everything."
    )


def pointer() -> None:
    """Show induction by a pointer: streams of three positions, and the three steps between them."""
    axes = streams(("A", "B", "A"), "B", 4.2)
    box(axes, 8, 2.0, "“A stood at j”", "#dcebf5")
    for start, end, y, words, colour, line in (
        (1, 8, 0.95, "1  find the same token, fetch its position", COLOURS[0], "-"),
        (8, 3.4, 3.05, "2  look at j, moved one on", LOOKS, "--"),
        (3.4, 8, 4.05, "3  copy B", "#00654a", "-"),
    ):
        arrow(axes, (start, y), (end, y), colour, line)
        axes.text(5.7, y + 0.1, words, ha="center", va="bottom", color=colour, fontsize=9)
    plots.show(
        "Three positions as upright streams: an earlier A at j, the B after it, a second A at n. In layer 0 an arrow "
        "runs from the earlier A straight to the second, which gets a label: A stood at j. In layer 1 the second A "
        "looks at j, moved one on. There is B, and it is copied."
    )


def match_of_variants(values: Mapping[str, Sequence[float]], families: Sequence[str]) -> None:
    """Show the lead in score of a word itself, its variant and another's variant, for each family."""
    axes = plt.subplots(figsize=(9, 4.2))[1]
    title, unit = "What does the match find?", "lead in score"
    plots.grouped_bars(values, families, title, unit, "family", numbers=True, axes=axes)
    axes.set_ylim(0, 8.5)
    axes.legend(ncols=3)
    plots.show(
        "Bars of the match in four families. A token finds itself best. The variant with a space comes near, the "
        "capitalised one reaches less than half, capitals and the plural a little. Shuffled pairs are next to zero."
    )


def looks_of_variants(values: Mapping[str, Sequence[float]], families: Sequence[str]) -> None:
    """Show the texts that were made for it, and how much attention goes to B from each of the three."""
    _, (strip, axes) = plt.subplots(2, 1, figsize=(9, 5.6), height_ratios=[1, 3])
    for x, token in enumerate(("· · ·", "name", "B", "· · ·", "Name")):
        _place(strip, x, token)
    arrow(strip, (4, 0.2), (2, 0.2), LOOKS, "--", 0.25)
    strip.text(3, 1.5, "how much attention?", ha="center", color=LOOKS, fontsize=9)
    strip.set(xlim=(-0.5, 4.5), ylim=(-0.5, 2))
    strip.axis("off")
    plots.grouped_bars(
        values, families, "How much do 1.6 and 1.1 look at B?", "attention to B", "family", numbers=True, axes=axes
    )
    axes.set_ylim(0, 0.45)
    axes.legend(ncols=3)
    plots.show(
        "A text in which a word and its B stand, and at the end the word's variant; below it bars of attention to B. "
        "From the word itself much. From the variant with a space a good part of it, from the capitalised variant "
        "little, from the others and from shuffled pairs next to nothing."
    )


def all_pairs(positivity: Float[Tensor, "later earlier"]) -> None:
    """Show the positivity of M_K for each pair of a head of layer 1 and one of layer 0."""
    later, earlier = ([f"{layer}.{h}" for h in range(n)] for layer, n in zip((1, 0), positivity.shape, strict=True))
    axes = plt.subplots(figsize=(8, 4.6))[1]
    title, label = "Which pairs find the same token?", "positivity of M_K (−: below −0.2)"
    words = (later, earlier, title, "later head", "earlier head")
    plots.heatmap(positivity, *words, label=label, axes=axes, centred=True, limit=1.0, numbers_from=0.4)
    plots.show(
        "A table of all pairs of a later and an earlier head, coloured by the positivity of their match. The pairs of "
        "1.1 and 1.6 with 0.5 are the strongest."
    )


def right(shares: Mapping[str, float]) -> None:
    """Show what share of the second pass is right, for each way to run the pointers."""
    axes = plt.subplots(figsize=(9, 3.8))[1]
    title, unit = "Are the pointers still right?", "share of the second pass"
    plots.grouped_bars({"right": list(shares.values())}, list(shares), title, unit, numbers=True, axes=axes)
    axes.set_ylim(0, 1.15)
    plots.show(
        "Bars of the share that is right. As built, and with the key or the value door cut, everything is right. With "
        "the query door cut, or without positions in the stream, next to nothing."
    )


def occurrences() -> None:
    """Show the text of the test: A in the same company, A in another, and at the end the first company and A again."""
    axes = plt.subplots(figsize=(10.4, 3.0))[1]
    parts = ("start", "same", "A", "B", "· · ·", "other", "A", "B'", "· · ·", "same", "A")
    colours = {"same": "#ffe9d6", "other": "#dcebf5"}
    for x, words in enumerate(parts):
        _place(axes, x, words, colours.get(words, "white"))
    for target, words in ((3, "the same company"), (7, "another, but nearer")):
        arrow(axes, (10, 0.3), (target, 0.3), LOOKS, "--", 0.3)
        axes.text(target, -0.8, f"after {words}", ha="center", va="top", fontsize=9)
    axes.text(10, -0.8, "the query", ha="center", va="top", fontsize=9)
    axes.text(6.5, 2.3, "which of the two?", ha="center", color=LOOKS, fontsize=9)
    axes.set(xlim=(-0.6, 10.6), ylim=(-1.3, 2.7))
    axes.axis("off")
    plots.show(
        "The text of the test: A after the company named same, then a B; A after the other company, then another B; "
        "at the end the first company and A. Two arrows lead from this last A to the two Bs, with the question which."
    )


def resemblance(cosine: Mapping[str, Float[Tensor, ""]], match: Mapping[str, float]) -> None:
    """Show for each family the cosine of the embeddings of word and variant, and the lead of their match in score."""
    axes = plt.subplots(figsize=(8, 4.2))[1]
    for mark, (family, value) in zip(plots.MARKERS, cosine.items(), strict=False):
        axes.plot(value.item(), match[family], mark, ms=9, color=COLOURS[0])
        at = value.item(), match[family]
        axes.annotate(family, at, (9, -4), textcoords="offset points", family="monospace")
    axes.set(
        title="Does the match follow the embeddings?",
        xlabel="cosine of the embeddings of word and variant",
        ylabel="match of the variant, lead in score",
        xlim=(0, 0.6),
        ylim=(0, 6),
    )
    plots.show(
        "Four points, one for each family: the more alike the embeddings of word and variant, the larger the match, "
        "but for capitals and plurals, which hardly differ in it."
    )
