"""The microscope's stored picture: drawn here for where no script runs, with the facts for a page
that draws.
"""

import base64
import json
import re
from collections.abc import Sequence
from html import escape
from numbers import Integral

import torch
from jaxtyping import Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions
from course_utils._arguments import validated
from course_utils.course.microscope import stored_drawing
from course_utils.course.microscope.facts import VIEWS, Facts, Source, in_words, key_of, rounded
from course_utils.interventions import Cut, Head
from course_utils.models import require_head

MOST = 64  # positions that the drawing has room for, in engine.js as well
Text = str | Sequence[int] | Int[Tensor, " pos"]
# JupyterLab puts an error in the place of a widget whose kernel is gone; the still picture stands
# beside it.
DEAD = ".jp-OutputArea-child:has(.jupyter-widgets):not(:has(.micro))"
STILL = ".jp-OutputArea-child:has(.microscope-still)"
HIDE = (
    f"<style>{STILL}+{DEAD},{DEAD}:has(+.jp-OutputArea-child "
    f".microscope-still){{display:none}}</style>"
)


class Figure:
    """A picture without a kernel: `svg` is its text, `alt` what it shows in words.

    `facts` is what it shows, `answers` what it would show without each open head, by the words of a
    question.
    """

    def __init__(self, source: Source, facts: Facts, model: str = ""):
        self.source, self.facts = source, facts
        self.live = False  # whether the live one follows
        before = (
            facts if not facts["cuts"] else source.facts({**facts, "cuts": [], "view": "attention"})
        )
        self.alt = in_words(facts, before)
        self.svg = stored_drawing.svg(facts)
        heads = facts["open"] if not facts["cuts"] else []
        self.answers = {
            f"What if head {head} is cut?": source.facts({**facts, "cuts": [head]})
            for head in heads
        }

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """An <img>, which untrusted notebooks and GitHub show too; the answers unfold below it."""
        folded = "".join(
            f"<details><summary>{escape(question)}</summary>{_image(stored_drawing.svg(found), in_words(found, self.facts))}"
            "</details>"
            for question, found in self.answers.items()
        )
        stored = [rounded(found) for found in (self.facts, *self.answers.values())]
        kept = base64.b64encode(
            json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode()
        ).decode()
        html = (
            f'<div class="microscope-still" '
            f'data-facts="{kept}">{_image(self.svg, self.alt)}{folded}</div>'
        )
        return {"text/html": html + HIDE * self.live, "text/plain": self.alt}


def _image(svg: str, alt: str) -> str:
    encoded = base64.b64encode(svg.encode()).decode()
    return (
        f'<img src="data:image/svg+xml;base64,{encoded}" alt="{escape(alt)}" '
        f'style="max-width: 100%">'
    )


@validated
def figure(
    model: HookedTransformer,
    text: Text,
    view: str = "attention",
    *,
    heads: Sequence[Head] | None = None,
    cut: Sequence[Cut] = (),
    ask: int | tuple[int, str | int] | None = None,
    weighted: bool = False,
    press: Head | None = None,
) -> Figure:
    """The stored picture, with alt text; what it takes, and what it raises, is said at `show`."""
    if view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(map(repr, VIEWS))}, not {view!r}.")
    tokens = _tokens(model, text)
    source = Source(model, tokens)
    base = source.run()
    position, token = ask if isinstance(ask, tuple | list) else (ask, None)
    position = len(tokens) - 1 if position is None else position
    if not 0 <= position < len(tokens):
        raise ValueError(
            f"The text has the positions 0 to {len(tokens) - 1}, and {position} is none of them."
        )
    token = _token(model, token) if token is not None else None
    if heads is None:
        heads = source.strongest(
            position, int(base.logits[position].argmax()) if token is None else token
        )
    for head in heads:
        if not (isinstance(head, tuple | list) and len(head) == 2):
            raise TypeError(
                f"heads must be a list of pairs (layer, head), as [(0, 5)], and {head!r} is no "
                f"pair."
            )
        require_head(model, *head)
    state = {
        "tokens": tokens.tolist(),
        "view": view,
        "open": [interventions.head_name((int(layer), int(head))) for layer, head in heads],
        "weighted": weighted,
        "position": position,
        "token": int(base.logits[position].argmax()) if token is None and cut else token,
        "cuts": [key_of(one) for one in cut],
        "press": interventions.head_name(press) if press else None,
        "model": _bundled(model),
    }
    return Figure(source, source.facts(state))


def _bundled(model: HookedTransformer) -> str | None:
    """Which of the models that a page computes this one is; none if its weights are others."""
    from safetensors import safe_open

    from course_utils._files import DATA
    from course_utils.course.microscope.scripts import MODELS

    for name in MODELS:
        file = DATA / name / "model.safetensors"
        if file.is_file() and model.W_E.shape == (4096, 256):
            with safe_open(file, "pt") as stored:
                if torch.equal(stored.get_tensor("embed.W_E").float(), model.W_E):
                    return name
    return None


def _tokens(model: HookedTransformer, text: Text) -> Int[Tensor, " pos"]:
    if isinstance(text, str):
        if model.tokenizer is None:
            raise ValueError("This model reads numbers: give it a list, as [5, 60, 3].")
        if re.search(r"[\ud800-\udfff]", text):
            raise ValueError(
                "This text holds half of a character (a surrogate), which no token stands for."
            )
        tokens = model.to_tokens(text)[0]
    else:
        tokens = torch.as_tensor(text)
        if tokens.ndim != 1 or tokens.is_floating_point() or not len(tokens):
            raise ValueError("Give the tokens as one list of whole numbers, as [5, 60, 3].")
        if tokens.min() < 0 or tokens.max() >= model.cfg.d_vocab:
            raise ValueError(
                f"Tokens are whole numbers from 0 to {model.cfg.d_vocab - 1}; one of these is not."
            )
    if len(tokens) > MOST:
        raise ValueError(
            f"The drawing has room for {MOST} tokens, and this text has {len(tokens)}: take a "
            f"part of it."
        )
    return tokens


def _token(model: HookedTransformer, token: str | int) -> int:
    if isinstance(token, str):
        ids = model.to_tokens(token, prepend_bos=False)[0].tolist() if model.tokenizer else []
        if len(ids) != 1:
            raise ValueError(f"Only a single token has a logit, and {token!r} is not one.")
        return ids[0]
    if not isinstance(token, Integral) or not 0 <= token < model.cfg.d_vocab:
        raise ValueError(
            f"A token is a whole number from 0 to {model.cfg.d_vocab - 1}, not {token!r}."
        )
    return int(token)
