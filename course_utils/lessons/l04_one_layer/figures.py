"""What only lesson 04 draws: the explorer of skip-trigrams, what a model expects, tables, tests, eigenvalues."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Complex, Float, Int
from matplotlib.patches import FancyArrowPatch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import circuits, measure, plots, text
from course_utils.plots import COLOURS, Patterns

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # lines are told apart without colours
SHOWN = 10  # destinations that the explorer shows occur at least so often in the text


class Explorer:
    """One source, one head: who looks for it, what it makes likelier, and what the text says of both.

    `explorer(" open", 6)` is the table as text, `explorer.show()` the same with boxes to type and choose in.
    """

    def __init__(self, model: HookedTransformer, tokens: Int[Tensor, "batch pos"]):
        self.model, self.tokens = model, tokens
        often = torch.bincount(tokens.flatten(), minlength=model.cfg.d_vocab) >= SHOWN
        self.rare = ~often  # [token]: their embeddings have hardly been trained, and a reader has no use for them

    def parts(self, word: str) -> Int[Tensor, " part"]:
        """The tokens of a word typed as the tables write it: · for a space, ↵ for a line break, → for a tab."""
        typed = word.replace("·", " ").replace("↵", "\n").replace("→", "\t")
        return self.model.to_tokens(typed, prepend_bos=False)[0]

    def token(self, word: str) -> int:
        """The id of one token, typed as the tables write it. Raises ValueError when the word is several."""
        parts = self.parts(word)
        if len(parts) != 1:
            raise ValueError(f"{word!r} is {len(parts)} tokens, not one: {self._written(parts) or 'nothing'}.")
        return int(parts[0])

    def _written(self, tokens: Int[Tensor, " part"]) -> str:
        return "   ".join(text.visible(str(token)) for token in self.model.to_str_tokens(tokens))

    def _received(self, head: int, source: int) -> Float[Tensor, "n pos"]:
        """Attention that the later positions of the contexts with a source pay to it, in multiples of an even share."""
        rows = self.tokens[(self.tokens == source).any(1)]
        x = self.model.W_E[rows] + self.model.W_pos[: rows.shape[1]]  # [n, pos, d_model]
        scores = x @ self.model.W_Q[0, head] @ (x @ self.model.W_K[0, head]).mT * self.model.cfg.d_head**-0.5
        pattern = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf).softmax(-1)
        before = (rows == source)[:, None, :] & torch.ones_like(scores[0]).tril(-1).bool()  # [n, dest, src]
        received = (pattern * before).sum(-1) / before.sum(-1)  # 0 / 0 where the source has not come yet
        return received * (torch.arange(rows.shape[1]) + 1)

    def __call__(self, word: str, head: int, k: int = 6) -> str:
        """The table of one source token and one head. Raises AssertionError when `word` is no single token."""
        source = self.model.to_single_token(word)
        qk, ov = circuits.full_qk(self.model, 0, head), circuits.full_ov(self.model, 0, head)
        scores = (qk.A @ (qk.B[:, source] - qk.B.mean(1))).masked_fill(self.rare, -torch.inf)  # [dest]
        effects = ov.A[source] @ ov.B  # [out]
        rows = self.tokens[(self.tokens == source).any(1)]
        times, after = self._received(head, source), (self.tokens == source).cumsum(1) > (self.tokens == source)
        lines = [f"head 0.{head}, source {text.visible(word)}, {(self.tokens == source).sum()} times in the text", ""]
        lines.append("                  looks for it:              makes likelier:")
        lines.append("destination       weights    text  (times)   out               logit   after / elsewhere")
        for dest, out in zip(scores.topk(k).indices, effects.topk(k).indices, strict=True):
            there = times[(rows == dest) & times.isfinite()]
            measured = f"{there.mean():7.1f} {f'({len(there)})':>7s}" if len(there) else f"{'':7s} {'(0)':>7s}"
            rates = [1000 * (self.tokens[part] == out).float().mean() for part in (after, ~after)]
            b, c = (text.visible(str(t)) for t in self.model.to_str_tokens(torch.stack([dest, out])))
            left = f"{b:17.17s} {scores[dest].exp():6.1f} {measured}"
            lines.append(f"{left}    {c:16.16s} {effects[out]:+6.1f}   {rates[0]:5.2f} / {rates[1]:.2f}")
        return "\n".join(lines) + "\n"

    def places(self, n: int, generator: torch.Generator) -> Int[Tensor, "n 48"]:
        """The 48 tokens up to `n` random places of the text; the start token takes the place of the first."""
        rows = torch.randint(len(self.tokens), (n,), generator=generator)
        ends = torch.randint(64, self.tokens.shape[1] - 1, (n,), generator=generator)
        contexts = self.tokens[rows[:, None], ends[:, None] + torch.arange(-47, 1)]
        contexts[:, 0] = 0
        return contexts

    def test(
        self,
        words: Sequence[str],
        contexts: Int[Tensor, "n pos"],
        others: Int[Tensor, " n"],
        distances: Sequence[int],
    ) -> tuple[float, Float[Tensor, "distance 3"]]:
        """A finding, source, destination, out, tried in `contexts` whose last token is made the destination.

        Medians over the contexts: P(out) as they are, and for each distance P(out) with the source so many places
        before the end, the factor by which that changes it, and the factor for one of the `others` in its place.
        """
        source, dest, out = (torch.tensor([self.token(word)]) for word in words)
        ending = contexts.clone()
        ending[:, -1] = dest
        rows = []
        for distance in torch.tensor(distances)[:, None]:
            before, own = measure.inserted(self.model, ending, source, distance, out)
            _, other = measure.inserted(self.model, ending, others, distance, out)
            rows.append([x.median().exp().item() for x in (own, own - before, other - before)])
        return before.median().exp().item(), torch.tensor(rows)

    def show(self, word: str = " open", head: int = 6) -> None:
        """A box to type a source in, a list of heads, and the table that belongs to both."""
        import ipywidgets as widgets
        from IPython.display import display

        known = [text.visible(str(t)) for t in self.model.to_str_tokens((~self.rare).nonzero().flatten())]
        source_box = widgets.Combobox(value=text.visible(word), options=known, description="source")
        names = [(f"0.{h}", h) for h in range(self.model.cfg.n_heads)]
        head_box = widgets.Dropdown(value=head, options=names, description="head")
        found_box = widgets.HTML()

        def refresh(_: Any) -> None:
            parts = self.parts(source_box.value)
            found = f"That is {len(parts)} tokens: {self._written(parts)}\n" if len(parts) else ""
            found += "Type a source, one token. Write a space as · and a line break as ↵."
            found = self(self.model.to_single_str_token(int(parts[0])), head_box.value) if len(parts) == 1 else found
            found_box.value = f"<pre style='line-height: 1.3'>{escape(found)}</pre>"

        source_box.observe(refresh, "value")
        head_box.observe(refresh, "value")
        refresh(None)
        display(widgets.VBox([widgets.HBox([source_box, head_box]), found_box]))


def one_head(source: str, between: Sequence[str], dest: str, out: str) -> None:
    """A schematic of a skip-trigram: the destination looks back for the source, the source says what comes next."""
    words = [source, *between, dest]
    _, axes = plt.subplots(figsize=(10, 3.9))
    for i, word in enumerate(words):
        marked = i in (0, len(words) - 1)
        box = {"boxstyle": "round,pad=0.4", "facecolor": "#e8f1f8" if marked else "white", "edgecolor": "#999999"}
        axes.text(i, 0, word, ha="center", va="center", family="monospace", fontsize=12, bbox=box, parse_math=False)
    last = len(words) - 1
    box = {"boxstyle": "round,pad=0.4", "facecolor": "#fbe9df", "edgecolor": COLOURS[1]}
    axes.text(last + 1, 0, out, ha="center", va="center", family="monospace", fontsize=12, bbox=box, parse_math=False)
    looks = FancyArrowPatch((last, 0.3), (0, 0.3), connectionstyle="arc3,rad=0.35", arrowstyle="-|>", mutation_scale=16)
    looks.set(color=COLOURS[0], linewidth=2)
    says = FancyArrowPatch((0, -0.3), (last + 1, -0.3), connectionstyle="arc3,rad=0.25", arrowstyle="-|>")
    says.set(color=COLOURS[1], linewidth=2, linestyle="--", mutation_scale=16)
    axes.add_patch(looks)
    axes.add_patch(says)
    axes.text(last / 2, 2.0, "QK: how strongly the destination looks for the source", ha="center", color=COLOURS[0])
    axes.text((last + 1) / 2, -2.15, "OV: what the source says about the next token", ha="center", color=COLOURS[1])
    axes.text(0, -0.75, "source", ha="center", fontsize=9)
    axes.text(last, -0.75, "destination", ha="center", fontsize=9)
    axes.text(last + 1, -0.75, "out", ha="center", fontsize=9)
    axes.set(xlim=(-0.7, last + 1.7), ylim=(-2.3, 2.3))
    axes.axis("off")
    plots.show(
        "A row of tokens, open ( path , '. An arrow from the quotation mark, the destination, back to open, "
        "the source, is labelled QK. An arrow from open forward to rb, the out, is labelled OV."
    )


def expected(model: HookedTransformer, given: Mapping[str, Float[Tensor, " d_vocab"]], marked: str) -> None:
    """The likeliest next tokens, one panel for each text or model in `given`, which maps titles to probabilities."""
    figure, panels = plt.subplots(1, len(given), figsize=(10, 3.6), sharex=True, squeeze=False)
    said = []
    for axes, (title, probabilities) in zip(panels[0], given.items(), strict=True):
        top = probabilities.topk(7)
        words = [str(word) for word in model.to_str_tokens(top.indices)]
        colours = [COLOURS[word == marked] for word in words]
        drawn = axes.barh(range(7), top.values, color=colours, hatch=["///" * (word == marked) for word in words])
        axes.bar_label(drawn, fmt="%.2f", padding=4)
        axes.set_yticks(range(7), [text.visible(word) for word in words], family="monospace", parse_math=False)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlabel("probability")
        axes.set_title(title, parse_math=False)
        said.append(f"{title}, first {text.visible(words[0])}, then {text.visible(words[1])}.")
    figure.suptitle("What does the model expect next?")
    plots.show(f"Bars of the likeliest next tokens: {' '.join(said)}")


def two_tables(
    QK: Float[Tensor, "dest src"],
    OV: Float[Tensor, "src out"],
    names: tuple[Sequence[str], Sequence[str], Sequence[str]],
) -> None:
    """A corner of a head's two tables, side by side; `names` are those of destinations, sources and outs."""
    _, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=[len(names[1]), len(names[2])])
    style: dict[str, Any] = {"centred": True, "numbers_from": 0.005}
    title = "QK: who looks for whom?"
    plots.heatmap(QK, *names[:2], title, "destination", "source", label="score", axes=left, **style)
    title = "OV: who says what?"
    plots.heatmap(OV, *names[1:], title, "source", "out", label="logit", axes=right, **style)
    plots.show(
        "Corners of two tables of head 0.6. QK: the quotation mark looks for open most. OV: open says rb and "
        "wb, an opening bracket says its closing ones, try says except."
    )


def held(told: Float[Tensor, "dest out"], fixed: Float[Tensor, "dest out"], free: Float[Tensor, "dest out"]) -> None:
    """Show how the logits change against what two rows of OV foretell: with `fixed` patterns, and with `free` ones."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True)
    for axes, measured, title in zip(panels, (fixed, free), ("patterns frozen", "patterns free"), strict=True):
        axes.scatter(told.flatten()[::20], measured.flatten()[::20], s=3)  # every twentieth is enough to see
        axes.axline((0, 0), slope=1, color=COLOURS[6], linewidth=0.8)
        axes.set(title=title, xlabel="foretold: attention · difference of two OV rows")
    panels[0].set_ylabel("measured change of the logit")
    figure.suptitle("Do two rows of OV foretell how the logits change?")
    plots.show(
        "Two clouds of points, the measured change of each logit against the change foretold. With frozen patterns all "
        "points lie on the diagonal; with free patterns they scatter around it."
    )


def diagonals(groups: Mapping[str, Float[Tensor, " d_vocab"]], title: str) -> None:
    """Show how many tokens raise their own logit by how much, as one outline for each of the `groups`."""
    _, axes = plt.subplots(figsize=(9, 3.6))
    for style, (name, values) in zip(plots.LINES, groups.items(), strict=False):
        axes.hist(values.numpy(), bins=80, range=(-30, 50), histtype="step", linestyle=style, linewidth=1.6, label=name)
    axes.axvline(0, color=COLOURS[6], linewidth=0.8)
    axes.set(title=title, xlabel="logit", ylabel="tokens")
    axes.legend()
    plots.show(
        "Two outlines, how many tokens add how much to their own logit. With W_U centred nearly all tokens lie right "
        "of zero; with another constant the outline is wider, and many more of them lie left of zero."
    )


def largest(model: HookedTransformer, entries: Sequence[tuple[float, Int[Tensor, "entry 3"]]]) -> None:
    """Each head's largest logit and largest OV entries, as source … destination → out; copies stand out."""
    _, axes = plt.subplots(figsize=(10.5, 0.5 + 0.5 * len(entries)))
    said = []
    for h, (logit, ids) in enumerate(entries):
        trigrams = [[text.visible(str(word)) for word in model.to_str_tokens(row)] for row in ids]
        axes.text(0, h, f"head 0.{h} ({logit:.0f})", va="center")
        for i, (source, dest, out) in enumerate(trigrams):
            copies = source.strip("·") == out.strip("·")
            box: dict[str, Any] = {"boxstyle": "round,pad=0.35", "facecolor": "#f6c9a8" if copies else "white"}
            box |= {"edgecolor": COLOURS[1] if copies else "#bbbbbb", "linewidth": 1.6 if copies else 0.8}
            words = f"{source:.9s} … {dest:.11s} → {out:.11s}"
            style: dict[str, Any] = {"va": "center", "family": "monospace", "fontsize": 8.5, "bbox": box}
            axes.text(0.55 + i, h, words, parse_math=False, **style)
        said.append(f"Head 0.{h}: " + ", ".join("{} … {} → {}".format(*words) for words in trigrams) + ".")
    axes.set(xlim=(0, 0.5 + max(len(ids) for _, ids in entries)), ylim=(len(entries) - 0.5, -0.7))
    axes.set_title("What does each head say most strongly? (thick frame: the source promotes itself)")
    axes.axis("off")
    plots.show(" ".join(said))


def gains(changes: Mapping[str, Float[Tensor, " n"]]) -> None:
    """Show by what factor inserted sources change P(out), a dot for each case; `changes` are logarithms, in nats."""
    _, axes = plt.subplots(figsize=(10, 4.2))
    for i, (marker, values) in enumerate(zip(MARKERS, changes.values(), strict=False)):
        spread = torch.linspace(-0.32, 0.32, 11).repeat(len(values))[: len(values)]  # side by side, to be seen
        axes.scatter(values.exp(), i + spread, s=6, marker=marker)
        median = values.median().exp().item()
        axes.plot([median, median], [i - 0.42, i + 0.42], color="black", linewidth=2)
        above = (values > 0).float().mean().item()
        axes.text(1.01, i, f"likelier: {above:.0%}", transform=axes.get_yaxis_transform(), va="center")
    axes.axvline(1, color=COLOURS[6], linewidth=0.8)
    axes.set(
        xscale="log", xlabel="P(out) grows by this factor", title="What does an inserted source do? (black: the median)"
    )
    axes.set_yticks(range(len(changes)), list(changes))
    axes.invert_yaxis()
    plots.show(
        "Dots, one for each case, by the factor by which P(out) changes. Trained, they spread far to the right of 1. "
        "With a random source they lie on both sides of 1; untrained they crowd on it, most of them just to the right."
    )


def findings(tests: Mapping[str, tuple[float, Float[Tensor, "distance 3"]]], distances: Sequence[int]) -> None:
    """Show for each finding that `Explorer.test` tried: P(out) against the distance of its source, and without it."""
    columns = min(3, len(tests))
    figure, panels = plt.subplots(-(-len(tests) // columns), columns, figsize=(10, 4.2), sharey=True, squeeze=False)
    for axes, (name, (without, tried)) in zip(panels.flat, tests.items(), strict=False):
        axes.plot(distances, tried[:, 0], "o-", color=COLOURS[1], label="with its source")
        axes.plot(distances, without * tried[:, 2], "s--", color=COLOURS[0], label="with a random token")
        axes.axhline(without, color=COLOURS[6], linewidth=0.8, label="without")
        axes.set(xscale="log", yscale="log")
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axes.set_title(name, family="monospace", parse_math=False)
        axes.set_xticks(distances, [str(d) for d in distances])
        axes.minorticks_off()
    panels[0][0].legend()
    figure.suptitle("Does it do what it says?")
    figure.supxlabel("the source stands so many tokens back")
    figure.supylabel("P(out), median of the texts")
    plots.show(
        "A panel for each finding. P(out) without the source is about 0.03 to 0.05 per cent, and so it is "
        "with a random token at any distance. With its source rb reaches a quarter next door and falls to "
        "about 0.1 per cent at 32 tokens; except stays above a half up to 16 tokens."
    )


def patterns(pattern: Patterns, names: Sequence[str]) -> None:
    """The attention patterns of eight heads on one short text, in two rows."""
    figure, panels = plt.subplots(2, 4, figsize=(10.5, 6.4), sharex=True, sharey=True)
    for h, axes in enumerate(panels.flat):
        axes.imshow(pattern[h], vmin=0, vmax=1, cmap="viridis")
        axes.set_title(f"head 0.{h}")
        axes.tick_params(length=0)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=10, family="monospace", parse_math=False)
        axes.set_yticks(range(len(names)), names, fontsize=10, family="monospace", parse_math=False)
    figure.suptitle("Where does each head look? (dark 0, yellow 1)")
    figure.supxlabel("source")
    figure.supylabel("destination")
    plots.show(
        "Eight attention patterns on a short text. In head 0.4 all attention goes to the start token, from "
        "every destination. In heads 0.1, 0.2 and 0.5 most of it does, but not always. The others spread "
        "theirs, some over the last few tokens."
    )


def by_distance(factors: Mapping[str, Sequence[float]], distances: Sequence[int], dashed: Sequence[str]) -> None:
    """Show by what factor each head's skip-trigrams raise their outs, against how far back the source stands."""
    _, axes = plt.subplots(figsize=(10, 4.6))
    for marker, (name, values) in zip(MARKERS, factors.items(), strict=False):
        style = "--" if name in dashed else "-"
        axes.plot(distances, list(values), style, marker=marker, label=name)
    axes.axhline(1, color=COLOURS[6], linewidth=0.8)
    axes.set(xscale="log", yscale="log", title="Does a skip-trigram work wherever its source stands?")
    axes.set_xticks(distances, [str(d) for d in distances])
    axes.minorticks_off()
    axes.set(xlabel="the source stands so many tokens back", ylabel="P(out) grows by this factor")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plots.show(
        "Lines, one for each head: by what factor P(out) grows, against the distance of the source. Heads 0.1, 0.2 and "
        "0.5, solid, stay between 5 and 20. Heads 0.0, 0.3, 0.6 and 0.7, dashed, begin at 50 to 400 and fall to nearly "
        "1 at 32 tokens."
    )


def eigenvalues(
    planes: Mapping[str, Complex[Tensor, " d_head"]],
    scores: Sequence[float],
    untrained: Sequence[float],
    chance: float,
) -> None:
    """Show eigenvalues of two heads in the plane, and the copying score of all heads beside what chance gives."""
    _, panels = plt.subplots(1, 3, figsize=(10.5, 4), width_ratios=[2, 2, 3])
    for axes, (title, values) in zip(panels, planes.items(), strict=False):
        axes.scatter(values.real, values.imag, s=14)
        axes.axvline(0, color=COLOURS[6], linewidth=0.8)
        axes.set(title=title, xlabel="real part of λ", ylabel="imaginary part")
    last, heads = panels[2], range(len(scores))
    last.axvspan(-chance, chance, color=COLOURS[6], alpha=0.25, label="200 random circuits")
    last.scatter(list(scores), heads, color=COLOURS[1], label="trained", zorder=3)
    last.scatter(list(untrained), heads, marker="x", color=COLOURS[0], label="untrained")
    last.set_yticks(heads, [f"0.{h}" for h in heads])
    last.set(title="Which heads copy?", xlabel="copying score Σλ / Σ|λ|", ylabel="head")
    last.legend(fontsize=8, loc="center", bbox_to_anchor=(0.61, 0.5))
    plots.show(
        "Eigenvalues of head 0.5 lie to the right of zero, those of head 0.3 on both sides. Copying scores: heads 0.1, "
        "0.2 and 0.5 near 1, heads 0.0 and 0.6 above 0.8. Heads 0.4 and 0.7 lie among the random circuits and the "
        "untrained heads, 0.3 a little below them."
    )


def notions(shares: Mapping[str, Sequence[float]]) -> None:
    """Show what each notion of copying says of each head, as bars side by side."""
    names = [f"0.{h}" for h in range(len(next(iter(shares.values()))))]
    _, axes = plt.subplots(figsize=(10, 4.2))
    plots.grouped_bars(shares, names, "Which heads copy? Four notions", "share, or score", "head", axes=axes).legend()
    plots.show(
        "Four bars for each head. In heads 0.1, 0.2 and 0.5 the score and the diagonal are near 1, and about a fifth "
        "to a half of the tokens come first or in the top five. Heads 0.0 and 0.6 have a high copying score and a "
        "positive diagonal for most tokens, but hardly a token in its own top five."
    )
