"""What a check says, as a card on the page, and as the same text where there is no page.

A card that says ✗ holds the next hint, and below the last one our solution; both are folded, and
open with the mouse or with Enter, without a kernel.
"""

from collections.abc import Sequence
from html import escape

from IPython import get_ipython
from IPython.display import display

from course_utils.course import bets

COLOURS = {"✓": "#0072B2", "✗": "#C25000", "○": "#6e7781"}  # told apart by their sign, too
CARD = '<div role="status" style="border-left:4px solid {};padding:.1em .9em;margin:2px 0">{}</div>'
SIGN = '<b style="color:{};font-size:1.2em">{}</b> {}'
FOLD = "<details><summary>{}</summary>{}</details>"


def show(lines: Sequence[str], hints: Sequence[str] = (), ours: str = "") -> None:
    """Show a verdict: its first line opens with the sign, others say what follows from it.

    `hints` are Markdown and `ours` is code, for a verdict after which somebody looks for help.
    """
    text = "\n".join(lines)
    if get_ipython() is None:
        print(text)
    else:
        display({"text/plain": text, "text/html": page(lines, hints, ours)}, raw=True)


def page(lines: Sequence[str], hints: Sequence[str], ours: str) -> str:
    """The card as HTML."""
    sign, _, said = lines[0].partition(" ")
    name, colon, sentence = said.partition(": ")
    colour = COLOURS[sign]
    opening = f"<b>{escape(name)}</b>{colon}{bets.markup(sentence)}"
    parts = [SIGN.format(colour, sign, opening), *(bets.markup(line.strip()) for line in lines[1:])]
    paragraphs = "".join(f'<p style="margin:.3em 0">{part}</p>' for part in parts)
    return CARD.format(colour, paragraphs + _help(hints, ours))


def _help(hints: Sequence[str], ours: str) -> str:
    """The hints, each folded into the one before, and our solution in the last."""
    folded = FOLD.format("Show ours", f"<pre>{escape(ours)}</pre>") if ours else ""
    for number, hint in reversed(list(enumerate(hints, 1))):
        paragraphs = "".join(f"<p>{bets.markup(part)}</p>" for part in hint.split("\n\n"))
        folded = FOLD.format(f"Hint {number}", paragraphs + folded)
    return folded
