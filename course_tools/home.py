"""The site's first page: a puzzle, its answer in two steps, and other texts to try.

Whatever the puzzle asks is stored in the page, so that it answers before any model is loaded.
"""

import io
import json
from collections.abc import Iterator
from functools import cache
from html import escape

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import course_microscope as microscope
from course_microscope.facts import Facts, Source, rounded
from course_tools import to_html
from course_utils.interventions import head_name
from course_utils.models import all_heads, load

TEXT = "lantern_keeper = 3\nprint(lantern_kee"  # what the page opens with, as lesson 00
ABOUT = (
    "A small language model is sure of a name that it has never seen. One of its sixteen heads "
    "breaks the prediction when it is switched off. Which one?"
)
FOUND = "0.5"  # the head that the puzzle asks for
READERS = ("1.6", "1.1")  # those that need it
# Other texts: what the button says, the text, and what there is to see in it (a test measures it).
TEXTS = (
    (
        "a made-up name",
        "zorblat_quix = []\nfor i in range(3):\n    zorblat_",
        "Nobody ever wrote <code>zorblat_quix</code>, and the model is sure of <code>qui</code>. "
        "Is it the same head that it needs?",
    ),
    (
        "open a file",
        "with open(path, '",
        "Here nothing is repeated, and no head has to look one token back: <code>rb</code> and "
        "<code>w</code> are what it has often read after <code>open</code>. One layer is enough.",
    ),
    (
        "nonsense, twice",
        "blorp snim quax blorp snim",
        "The words mean nothing. The model has seen what stood after <code>snim</code>, and says "
        "it again.",
    ),
    (
        "misled",
        "def f(x):\n    return x + 1\ndef g(y):\n    return",
        "You would write <code>y</code>. The model copies <code>x</code>, because <code>x</code> "
        "is what stood after <code>return</code> before.",
    ),
    (
        "English",
        "The capital of France is",
        "It has read nothing but Python, and knows no capital.",
    ),
)


@cache
def _source() -> Source:
    """The model on the text that the page opens with."""
    model = load("two-layer")
    return Source(model, model.to_tokens(TEXT)[0])


def page(opening: str, lessons: str, command: str) -> str:
    """The page as Markdown; `opening`, `lessons` and `command` are the README's."""
    figure = microscope.figure(_source().model, TEXT, heads=[(1, 6)])
    still = figure._repr_mimebundle_()["text/html"]
    still = still.replace("<div ", f'<div data-text="{escape(TEXT)}" ', 1).replace("\n", "&#10;")
    stored = {
        "answers": answers(),
        "texts": TEXTS,
        "found": FOUND,
        "readers": READERS,
    }
    words = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    words = words.replace("</", r"<\/")  # or it would end the script
    script = f'<script type="application/json" id="stored">{words}</script>'
    parts = {"microscope": f"{still}\n{script}", "opening": opening, "lessons": lessons}
    return to_html.style("home.md").format(**parts, command=command)


def answers() -> dict[str, Facts]:
    """By cuts: all that the page draws of them, whichever heads are open.

    "curves" and "panels" have one for each head; after a cut, for each that it changed.
    """
    source = _source()
    heads = [head_name(head) for head in all_heads(source.model)]
    last = len(source.tokens) - 1
    likeliest = int(source.run().logits[last].argmax())
    state: Facts = {"tokens": source.tokens.tolist(), "view": "attention", "weighted": False}
    state |= {"position": last, "token": likeliest, "press": None, "model": "two-layer"}
    stored: dict[str, Facts] = {}
    for cuts in _cuts(heads):
        facts = rounded(source.facts({**state, "cuts": cuts, "open": heads}))
        curves = {head: facts["curves"][head]["now"] for head in heads}
        panels = {}
        for head in heads:
            panels[head] = rounded(source.facts({**state, "cuts": cuts, "open": [head]}))["panel"]
            for row in panels[head]["rows"]:
                del row["before"]  # what it was without a cut is stored there
        del facts["panel"]
        if cuts:
            first = stored[""]
            curves = {head: now for head, now in curves.items() if now != first["curves"][head]}
            panels = {head: one for head, one in panels.items() if one != first["panels"][head]}
        stored[",".join(cuts)] = {**facts, "curves": curves, "panels": panels}
    return stored


def _cuts(heads: list[str]) -> Iterator[list[str]]:
    """Nothing, each head by itself, and what the found one writes, at one door of its readers."""
    yield []
    for head in heads:
        yield [head]
    for path in "kqv":
        yield [f"{FOUND}{path}{reader}" for reader in READERS]


def card() -> bytes:
    """The picture for those who send the page's address: a PNG of 1200 × 630."""
    source = _source()
    names = [source.called(token) for token in source.tokens.tolist()][1:]
    share = source.run().pattern[1, 6][-1, 1:]  # [src], without the start token

    figure, axes = plt.subplots(figsize=(12, 6.3), dpi=100)
    figure.subplots_adjust(0, 0, 1, 1)
    axes.set(xlim=(0, 1200), ylim=(0, 630))
    axes.axis("off")
    axes.text(60, 520, to_html.COURSE, fontsize=37, weight="bold")
    question = "One of sixteen heads breaks the prediction\nwhen it is switched off. Which one?"
    axes.text(60, 390, question, fontsize=26, linespacing=1.5)

    # the text in boxes, and the arc of head 1.6 from the last one to what it copies
    room = 1080 / sum(len(name) + 2 for name in names)  # of one letter
    left = 60.0
    middles = []
    for name, part in zip(names, share.tolist(), strict=True):
        width = (len(name) + 2) * room
        shade = (1, 1 - 0.45 * part, 1 - 0.75 * part)
        axes.add_patch(FancyBboxPatch((left + 6, 90), width - 12, 60, "round,pad=4", fc=shade))
        middle = left + width / 2
        axes.text(middle, 120, name, fontsize=17, family="monospace", ha="center", va="center")
        middles.append(middle)
        left += width
    ends = (middles[-1], 158), (middles[int(share.argmax())], 158)
    bent = "arc3,rad=0.25"
    arc = FancyArrowPatch(*ends, arrowstyle="-", connectionstyle=bent, lw=5, color="#b34700")
    axes.add_patch(arc)
    axes.text(60, 45, "the model expects:  per", fontsize=20, family="monospace")

    file = io.BytesIO()
    figure.savefig(file, format="png")
    plt.close(figure)
    return file.getvalue()
