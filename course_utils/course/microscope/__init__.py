"""The microscope: one drawing of a small model on a short text, to look at, to ask and to cut.

`show` is for mouse and keyboard. `figure` is the same drawing where no kernel runs: a stored notebook, a page, a slide.
What they draw is a `paths.run`; what they cut, `interventions.cut` cuts.
"""

import base64
import re
from collections.abc import Sequence
from html import escape
from numbers import Integral

import torch
from jaxtyping import Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions, paths
from course_utils._arguments import checked
from course_utils.course.microscope import drawing, panels
from course_utils.course.microscope.scene import VIEWS, Scene, in_words
from course_utils.interventions import Cut, Head
from course_utils.models import check_head

MOST = 64  # positions that the drawing has room for
Text = str | Sequence[int] | Int[Tensor, " pos"]
__all__ = ["Figure", "figure", "show"]


class Figure:
    """A drawing without a kernel: `svg` is its text, `alt` what it shows in words, `answers` what else it unfolds."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.live = False  # whether the live drawing follows
        self.svg = drawing.still(drawing.svg(scene))
        self.alt = in_words(scene)
        self.answers = _answers(scene)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """An <img>, which untrusted notebooks and GitHub show too; the answers unfold below it."""
        folded = "".join(
            f"<details><summary>{escape(question)}</summary>{_image(*answer)}</details>"
            for question, answer in self.answers.items()
        )
        html = f'<div class="microscope-still">{_image(self.svg, self.alt)}{folded}</div>{HIDE * self.live}'
        return {"text/html": html, "text/plain": self.alt}


# JupyterLab puts an error in the place of a widget whose kernel is gone; the still drawing stands above it.
HIDE = (
    "<style>.jp-OutputArea-child:has(.microscope-still)+.jp-OutputArea-child:has(.jupyter-widgets):not(:has(.micro-live))"
    "{display:none}</style>"
)


def _image(svg: str, alt: str) -> str:
    encoded = base64.b64encode(svg.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{encoded}" alt="{escape(alt)}">'


def _answers(scene: Scene) -> dict[str, tuple[str, str]]:
    """Question → (drawing, words): what the asked logit is the sum of, and what becomes of it without an open head."""
    questions = {}
    if scene.view != "paths":
        questions[f"What is the logit of {scene.called(scene.token)} the sum of?"] = scene.now.cuts
    if not scene.now.cuts:
        questions |= {f"What if head {interventions.head_name(head)} is cut?": (head,) for head in scene.heads}
    found = {}
    for question, cuts in questions.items():
        now = scene.now if cuts == scene.now.cuts else paths.run(scene.model, scene.base.tokens, *cuts)
        asked = Scene(scene.model, scene.base, now, "paths", scene.heads, scene.position, scene.token)
        found[question] = drawing.still(panels.alone(asked)), in_words(asked)
    return found


@checked
def figure(
    model: HookedTransformer,
    text: Text,
    view: str = "attention",
    *,
    heads: Sequence[Head] | None = None,
    cut: Sequence[Cut] = (),
    ask: int | tuple[int, str | int] | None = None,
    weighted: bool = False,
) -> Figure:
    """The drawing as a picture with alt text; what it takes, and what it raises, is said at `show`."""
    if view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(map(repr, VIEWS))}, not {view!r}.")
    tokens = _tokens(model, text)
    base = paths.run(model, tokens)
    now = paths.run(model, tokens, *cut) if cut else base
    position, token = ask if isinstance(ask, tuple | list) else (ask, None)
    position = len(tokens) - 1 if position is None else position
    if not 0 <= position < len(tokens):
        raise ValueError(f"The text has the positions 0 to {len(tokens) - 1}, and {position} is none of them.")
    token = _token(model, token) if token is not None else int(base.logits[position].argmax())
    if heads is None:
        heads = _strongest(model, base, position, token)
    for head in heads:
        if not (isinstance(head, tuple | list) and len(head) == 2):
            raise TypeError(f"heads must be a list of pairs (layer, head), as [(0, 5)], and {head!r} is no pair.")
        check_head(model, *head)
    heads = [(int(layer), int(head)) for layer, head in heads]
    return Figure(Scene(model, base, now, view, heads, position, token, weighted))


@checked
def show(
    model: HookedTransformer,
    text: Text,
    view: str = "attention",
    *,
    heads: Sequence[Head] | None = None,
    cut: Sequence[Cut] = (),
    ask: int | tuple[int, str | int] | None = None,
    weighted: bool = False,
) -> None:
    """Draw a model at work on a text, as something to touch; the cell's stored output is the still drawing.

    `text` is a string, or token ids: for max-of-list, the list. `view` is "attention", "stream", "paths" or "doors".
    `heads` are those whose lanes are open, pairs (layer, head), by default the one of each layer that adds most to the
    asked logit. `cut` says what is switched off, as `interventions.cut` takes it. `ask` is a position, or a pair
    of a position and a token, whose logit is taken apart; by default the last position and what the model
    expects there. `weighted` draws each source by attention times the length of what it gives
    (`heads.value_weighted`). For attention-only models and up to 64 tokens.

    Raises ValueError or TypeError in one sentence for what can't be drawn, IndexError for a head that is not there.
    """
    from IPython.display import display

    from course_utils.course.microscope.widget import Microscope  # slow to import, and only a live notebook needs it

    still = figure(model, text, view, heads=heads, cut=cut, ask=ask, weighted=weighted)
    still.live = True
    display(still)
    display(Microscope(still.scene).view(), raw=True)


def _tokens(model: HookedTransformer, text: Text) -> Int[Tensor, " pos"]:
    if isinstance(text, str):
        if model.tokenizer is None:
            raise ValueError("This model reads numbers: give it a list, as [5, 60, 3].")
        if re.search(r"[\ud800-\udfff]", text):
            raise ValueError("This text holds half of a character (a surrogate), which no token stands for.")
        tokens = model.to_tokens(text)[0]
    else:
        tokens = torch.as_tensor(text)
        if tokens.ndim != 1 or tokens.is_floating_point() or not len(tokens):
            raise ValueError("Give the tokens as one list of whole numbers, as [5, 60, 3].")
        if tokens.min() < 0 or tokens.max() >= model.cfg.d_vocab:
            raise ValueError(f"Tokens are whole numbers from 0 to {model.cfg.d_vocab - 1}; one of these is not.")
    if len(tokens) > MOST:
        raise ValueError(f"The drawing has room for {MOST} tokens, and this text has {len(tokens)}: take a part of it.")
    return tokens


def _token(model: HookedTransformer, token: str | int) -> int:
    if isinstance(token, str):
        ids = model.to_tokens(token, prepend_bos=False)[0].tolist() if model.tokenizer else []
        if len(ids) != 1:
            raise ValueError(f"Only a single token has a logit, and {token!r} is not one.")
        return ids[0]
    if not isinstance(token, Integral) or not 0 <= token < model.cfg.d_vocab:
        raise ValueError(f"A token is a whole number from 0 to {model.cfg.d_vocab - 1}, not {token!r}.")
    return int(token)


def _strongest(model: HookedTransformer, run: paths.Run, position: int, token: int) -> list[Head]:
    """The head of each layer that adds most to a logit."""
    terms = paths.terms(model, run, position, token)
    rows = [[(layer, head) for head in range(model.cfg.n_heads)] for layer in range(model.cfg.n_layers)]
    return [max(row, key=lambda head: terms[interventions.head_name(head)]) for row in rows]
