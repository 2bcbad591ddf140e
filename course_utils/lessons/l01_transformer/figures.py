"""What only lesson 01 draws: the machine, attention in four steps, who notices an edit, training, typical texts."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, combinations, permutations
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from torch import Tensor
from torch.nn import functional as F
from transformer_lens import HookedTransformer

from course_utils import bigrams, plots
from course_utils._arguments import Count
from course_utils.making import gpt
from course_utils.plots import COLOURS, MARKERS
from course_utils.text import visible

BLUE, ORANGE, PLUM = COLOURS[:3]
MONO: dict[str, Any] = {"family": "monospace", "parse_math": False}
ALT = plots.alt_texts(__file__)
ByPos = Float[Tensor, " pos"]
Texts = Int[Tensor, "text pos"]


def machine(names: Sequence[str], expected: Sequence[str]) -> None:
    """A transformer with one block: a stream for every token of `names`, `expected` what it says on top of each."""
    axes, side = plt.subplots(figsize=(10.6, 6.2))[1], 0.72  # how far a part stands from the stream that it reads
    norm: dict[str, Any] = {"color": "black", "linestyle": (0, (2, 1)), "linewidth": 2}
    columns = [1.7 * number for number in range(len(names))]
    for x, name, said in zip(columns, names, expected, strict=True):
        axes.annotate("", (x, 7.2), (x, 0.3), arrowprops={"arrowstyle": "-|>", "lw": 5, "color": "#bbbbbb"}, zorder=0)
        axes.text(x, -0.05, visible(name), ha="center", fontsize=11, **MONO)
        boxes = [(x, 0.85, "look up $W_E$", COLOURS[6]), (x, 6.35, "times $W_U$", COLOURS[6])]
        boxes += [(x + side, 2.5, "attention", ORANGE), (x + side, 4.55, "MLP", PLUM)]
        for at, y, words, colour in boxes:
            style = {"boxstyle": "round,pad=0.7", "facecolor": "white", "edgecolor": colour, "linewidth": 2}
            axes.text(at, y, words, ha="center", va="center", zorder=4, bbox=style)
        for y in (2.5, 4.55):  # each part reads the stream below, and is added to it above
            axes.plot([x, x + side, x + side], [y - 0.75, y - 0.75, y + 0.75], color="black", linewidth=1.2, zorder=1)
            axes.plot([x + side / 2] * 2, [y - 0.93, y - 0.57], **norm)
            plots.arrow(axes, (x + side, y + 0.75), (x, y + 0.75), "black")
            axes.text(x, y + 0.75, "+", ha="center", va="center", fontsize=13, fontweight="bold", zorder=4)
        axes.plot([x - 0.15, x + 0.15], [5.75, 5.75], **norm)
        axes.text(x, 7.3, visible(said), ha="center", color=BLUE, fontsize=11, **MONO)
    for (i, src), (j, dest) in combinations(enumerate(columns), 2):
        over = j - i > 1  # over the boxes between
        reach, y = (0.2, 2.73) if over else (0.3, 2.5)
        plots.arrow(axes, (src + side + reach, y), (dest + side - reach, y), ORANGE, bend=-0.13 * over)
    notes = {
        0.0: "tokens  [batch, pos]",
        0.85: "$+\\ W_{pos}$: where it stands",
        1.3: "the stream  [batch, pos, d_model]",
        2.5: "the only part that reads other columns",
        3.25: "+  what a part makes is added",
        4.55: "works on each column alone",
        5.75: "dashed: LayerNorm, section 5",
        7.4: "logits  [batch, pos, d_vocab]",
    }
    for y, words in notes.items():
        axes.text(columns[-1] + 1.4, y, words, va="center", fontsize=10)
    title = "How does a text become a guess at each next token?"
    axes.set(xlim=(-0.5, columns[-1] + 3.6), ylim=(-0.3, 7.7), title=title)
    axes.axis("off")


def beside_line(values: Mapping[str, float], title: str, unit: str, line: float, label: str, highlight: str) -> Axes:
    """Bars for what was changed, that of `highlight` standing out, and a dashed line for nothing changed."""
    axes = plots.bars(values, title, unit, [highlight])
    axes.axvline(line, color="black", linestyle="--", label=label)
    plt.setp(axes.texts, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5}, zorder=3)  # above the line
    axes.legend()
    return axes


def pieces(stages: Mapping[str, Sequence[str]]) -> Axes:
    """One text in several vocabularies, a row for each: every token a box as wide as its characters."""
    axes = plt.subplots(figsize=(9, 0.5 + 0.72 * len(stages)))[1]
    for row, tokens in enumerate(stages.values()):
        shown = [visible(token.replace("Ġ", " ").replace("Ċ", "\n")) for token in tokens]  # the library's two
        widths = [len(token) for token in shown]
        style: dict[str, Any] = {"color": ("#FFF2CC", "#DDEBF7"), "edgecolor": "black", "linewidth": 0.8}
        boxes = axes.barh([row] * len(shown), widths, 0.7, [0, *accumulate(widths[:-1])], **style)
        axes.bar_label(boxes, shown, label_type="center", fontsize=10, **MONO)
    labels = [f"{name}: {len(tokens)} tokens" for name, tokens in stages.items()]
    axes.set_yticks(range(len(stages)), labels)
    axes.set(title="What are the pieces of one line of Python?", xticks=[])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.invert_yaxis()
    return axes


def softmax(names: Sequence[str], logits: Float[Tensor, " token"], p: Float[Tensor, " token"]) -> Sequence[Axes]:
    """The logits of some tokens, and beside them the probabilities that the softmax makes of them."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 0.9 + 0.36 * len(names)))
    shown = [visible(name) for name in names]
    plots.bars(dict(zip(shown, logits.tolist(), strict=True)), "logits", "nats", axes=left)
    after = dict(zip(shown, p.tolist(), strict=True))
    plots.bars(after, "after the softmax: probabilities", "probability", axes=right)
    left.set_yticks(range(len(names)), shown, **MONO)
    right.set_yticks([])
    return [left, right]


def surprise_curve(chances: Mapping[str, float]) -> Axes:
    """How much a token surprises to which the probability p was given, in nats, with some `chances` marked."""
    p = torch.linspace(0.004, 1, 500)
    said = "How much does a token surprise, −log p?", "probability p of the token that came", "nats"
    axes = plots.curves({"": -p.log()}, *said, x=p, figsize=(9, 3.4), xlim=(0, 1.2), ylim=(0, 5.6), xticks=[0, 0.5, 1])
    for name, chance in chances.items():
        height = torch.tensor(1 / chance).log().item()
        axes.plot(chance, height, "o", color=ORANGE, clip_on=False, zorder=3)
        axes.annotate(f"{name}: {height:.2f} nats", (chance, height), (9, 7), textcoords="offset points")
    return axes


def surprises(names: Sequence[str], surprise: ByPos, title: str, entropy: ByPos | None = None) -> Axes:
    """How much each token of a text surprised the model, in nats; `entropy` is the surprise it expected there."""
    shown, said = [visible(name) for name in names], "surprise: −log p of the token that came"
    axes = plots.grouped_bars({said: surprise}, shown, title, "nats", axes=plt.subplots(figsize=(9, 3.6))[1])
    if entropy is not None:
        axes.plot(entropy.tolist(), "D-", color=ORANGE, markersize=4, label="entropy: the surprise that was expected")
        axes.legend(loc="upper right", fontsize=8)
    axes.set_xticks(range(len(names)), shown, rotation=45, ha="right", fontsize=8, **MONO)
    return axes


def steps(
    names: Sequence[str], tables: Mapping[str, Float[Tensor, "dest column"]], below: str, part: Float[Tensor, " column"]
) -> Sequence[Axes]:
    """The tables of attention's steps, a row for each destination; below the last one, called `below`, a `part`."""
    sizes = [table.shape[1] for table in tables.values()]
    figure, panels = plt.subplots(1, len(tables), figsize=(11.5, 3.6), width_ratios=sizes)
    for number, (axes, (title, table)) in enumerate(zip(panels, tables.items(), strict=True), 1):
        rows, columns = list(names) if number == 1 else [""] * len(names), list(names)
        if number == len(tables):
            table = torch.cat([table, torch.full_like(part, torch.nan)[None], part[None]])
            rows, columns = [*rows, "", ""], [""] * len(part)
            axes.text(-0.65, len(names) + 1, below, ha="right", va="center", fontsize=8, **MONO)
        finite = table.where(table.isfinite(), torch.nan)
        look: dict[str, Any] = {"centred": True, "limit": 2.2 * finite.nan_to_num().abs().max().item(), "bar": False}
        plots.heatmap(finite, rows, columns, f"{number} · {title}", numbers_from=0.0, **look, axes=axes)
        for dest, src in (table == -torch.inf).nonzero().tolist():
            axes.text(src, dest, "−∞", ha="center", va="center", fontsize=8)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=8)
        axes.set(aspect="equal", ylim=(len(names) + 1.5, -0.5))
    panels[0].set_ylabel("destination")
    figure.supxlabel("columns: sources (in the last table: the first entries of each vector)", fontsize=9)
    return list(panels)


def shuffled(logits: Mapping[str, Float[Tensor, "2 d_vocab"]]) -> Sequence[Axes]:
    """Logits in a text's order and with the text shuffled, a panel for each model; every 48th token is a dot."""
    drawn = plots.panels(logits, (2.7 * len(logits), 3.5), "logit in order, nats", "after shuffling")
    ends = [min(both.min().item() for both in logits.values()), max(both.max().item() for both in logits.values())]
    for axes, (ordered, other) in drawn:
        axes.plot(ends, ends, color="black", linewidth=1, linestyle="--")
        axes.plot(ordered[::48], other[::48], "s", color=BLUE, markersize=2, markeredgewidth=0)
        said = f"{axes.get_title('left')}\nby at most {(ordered - other).abs().max():.2f} nats"
        axes.set(title=said, aspect="equal", xlim=ends, ylim=ends)
        axes.locator_params(nbins=4)
    plt.suptitle("How far does the shuffling move the logits of the last position?", fontsize=11)
    return [axes for axes, _ in drawn]


def normed_and_bent() -> Sequence[Axes]:
    """What LayerNorm makes of eight numbers, and what the GELU makes of one, beside a hard cut at 0."""
    x = torch.tensor([5.5, 3.5, 6.5, 4.0, 9.0, 3.0, 4.5, 6.0])
    _, panels = plt.subplots(1, 3, figsize=(9.5, 3.3), width_ratios=(1, 1, 1.3))
    for axes, values, title in zip(panels, (x, F.layer_norm(x, (8,))), ("a stream's entries", "normed"), strict=False):
        axes.bar(range(8), values.tolist(), color=COLOURS[6] if title == "normed" else BLUE)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(title=title, ylim=(-2.2, 9.6), xlabel="entry", xticks=[])
    reach = torch.linspace(-4, 4, 100)
    bent = {"GELU": F.gelu(reach), "negative values cut off": reach.clamp(min=0)}
    plots.curves(bent, "how the MLP bends a neuron", "before", "after", x=reach, axes=panels[2])
    return list(panels)


def notice_tables(tables: Mapping[str, Bool[Tensor, "pos edited"]]) -> Sequence[Axes]:
    """A square for each part of a model: in column i, black where the output changed when position i was edited."""
    drawn = plots.panels(tables, (2.5 * len(tables), 3.3), "edited position", "position of the output")
    for axes, table in drawn:
        axes.imshow(table.float().numpy(), cmap="Greys", vmin=0, vmax=1.3)
        axes.set(xticks=range(table.shape[1]), yticks=range(len(table)))
    plt.suptitle("Which outputs notice an edit? (black: it changed)", fontsize=11)
    return [axes for axes, _ in drawn]


def plain_losses(train: Int[Tensor, " stream"], unseen: Int[Tensor, "window pos"]) -> dict[str, float]:
    """What two plain tables, counted on one text, lose on another, in nats per token: single tokens, and pairs."""
    N = bigrams.count(train, 512).to_dense()  # (current, next)
    single = (N.sum(0) + 1).log().log_softmax(-1).expand_as(N)
    tables = {"single tokens, new text": single, "bigram table, new text": bigrams.kneser_ney(N)}
    return {name: -table[unseen[:, :-1], unseen[:, 1:]].mean().item() for name, table in tables.items()}


def training(runs: Mapping[str, Mapping[str, Sequence[float]]], tables: Mapping[str, float], every: int) -> Axes:
    """Loss over the steps: "seen" as the mean of 20, "new text" each `every` steps; dotted: plain `tables`."""
    labels = "How low is the loss on training text and on new text?", "training step", "loss, nats per token"
    seen, new = {}, {}
    for name, run in runs.items():
        means = torch.tensor(run["seen"]).unfold(0, 20, 1).mean(-1)
        seen[f"{name}: training text, mean of 20 steps"] = dict(enumerate(means.tolist(), 10))
        new[f"{name}: new text"] = {every * n: loss for n, loss in enumerate(run["new text"], 1)}
    axes = plots.curves(seen, *labels, figsize=(9, 4.6))
    plots.curves(new, *labels, lines=False, markers=True, axes=axes)
    for name, value in tables.items():
        axes.axhline(value, color="black", linewidth=1, linestyle=":")
        axes.text(1, value + 0.05, name, fontsize=8, ha="right", transform=axes.get_yaxis_transform())
    axes.legend(fontsize=9, frameon=True, framealpha=1, edgecolor="none")
    return axes


def top_k(log_probs: Float[Tensor, "batch d_vocab"], k: Count = 40) -> Float[Tensor, "batch d_vocab"]:
    """Probabilities of the k most probable tokens, divided by their sum; 0 for all others."""
    least = log_probs.topk(k).values[:, -1:]
    return log_probs.masked_fill(log_probs < least, -torch.inf).softmax(-1)


def written(
    model: HookedTransformer, texts: Texts, write: Callable[..., Tensor], choices: Mapping[str, Callable[..., Tensor]]
) -> tuple[dict[str, Int[Tensor, "_ pos"]], dict[int, Texts]]:
    """The texts, openings of 12 tokens completed by `write` in every way (eight times, greedily once); the beams."""

    def predictor(texts: Tensor) -> Tensor:  # the last position alone is unembedded: much faster
        return (model(texts, stop_at_layer=1)[:, -1] @ model.W_U).log_softmax(-1)

    prompts, n = texts[:, :12], texts.shape[1] - 12
    often = prompts.repeat(8, 1)
    ways = {name: write(predictor, prompts if name == "greedy" else often, n, how) for name, how in choices.items()}
    beams = {width: torch.stack([gpt.beam_search(predictor, one, width, n)[0] for one in prompts]) for width in (1, 8)}
    return {"the author": texts} | ways | {"beam, width 8": beams[8]}, beams


def typical(texts: Mapping[str, Float[Tensor, " text"]], entropy: float) -> Axes:
    """Each text a dot at its mean surprise, a row for each way of writing; the line: the entropy along sampled ones."""
    axes = plt.subplots(figsize=(9, 4.2))[1]
    for row, (values, colour, marker) in enumerate(zip(texts.values(), COLOURS, "*" + MARKERS, strict=False)):
        spread = torch.linspace(-0.28, 0.28, len(values))[torch.arange(len(values)) * 7 % len(values)]
        axes.plot(values, row + spread, marker, color=colour, ms=8 if marker == "*" else 4, mew=0)
        axes.plot([values.mean()] * 2, [row - 0.4, row + 0.4], color="black", lw=2, label="mean" * (not row))
    axes.axvline(entropy, color="#777777", linestyle="--", label="entropy along the sampled texts")
    axes.set_yticks(range(len(texts)), list(texts))
    axes.invert_yaxis()
    axes.set(xlabel="mean surprise of a text, nats per token (left: more probable)", xlim=(0, None))
    axes.set_title("Where do the texts lie that each way writes?")
    axes.legend(loc="lower right", fontsize=8)
    return axes


FAMILIES = {  # a : b, a : b, …, fixed before anything was measured
    "singular : plural": "name names value values line lines file files key keys item items test tests arg args option "
    "options error errors character characters module modules object objects class classes",
    "opposites": "True False min max first last start end encode decode read write open close left right before after "
    "input output get set add remove old new",
    "verb : past": "call called return returned use used create created raise raised pass passed expect expected",
}


def analogies(model: HookedTransformer) -> dict[str, dict[str, float]]:
    """How often d is the token nearest to E(b) − E(a) + E(c), for all a : b and c : d of a family, by three rules."""
    E, shares = F.normalize(model.W_E), {}  # rows of length 1
    for family, listed in FAMILIES.items():
        ids = torch.tensor([model.to_single_token(f" {word}") for word in listed.split()])
        asked = torch.stack([torch.cat(two) for two in permutations(ids.view(-1, 2), 2)])  # (question, which of abcd)
        a, b, c, d = asked.T
        guess, alone = (E[b] - E[a] + E[c]) @ E.T, E[c] @ E.T  # (question, d_vocab)
        excluded = [near.scatter(1, asked[:, :3], -torch.inf) for near in (guess, alone)]
        rules = zip(("inputs allowed", "inputs excluded", "nearest to c alone"), (guess, *excluded), strict=True)
        shares[family] = {rule: (near.argmax(-1) == d).double().mean().item() for rule, near in rules}
    return shares


def rates(table: Mapping[str, Mapping[str, float]], title: str, unit: str = "share of questions") -> Axes:
    """Shares as groups of bars: a group for each entry, a bar for each rule within it."""
    by_rule = {rule: [row[rule] for row in table.values()] for rule in next(iter(table.values()))}
    axes = plots.grouped_bars(by_rule, list(table), title, unit, numbers=True)
    axes.set_ylim(0, 1)
    axes.legend()
    return axes
