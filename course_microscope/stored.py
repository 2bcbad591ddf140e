"""The microscope's stored picture, where no script runs, and its facts for a page that draws."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from numbers import Integral

import torch
from jaxtyping import Int
from safetensors import safe_open
from torch import Tensor
from transformer_lens import HookedTransformer

from course_microscope import stored_drawing
from course_microscope.facts import VIEWS, Facts, Source, in_words, key_of, rounded
from course_microscope.scripts import MODELS
from course_utils._arguments import plain, validated
from course_utils._files import DATA
from course_utils.interventions import Cut, Head, head_name
from course_utils.models import load, require_head
from course_utils.text import require_whole_characters

MOST = 64  # positions that the drawing has room for, in engine.js as well
Text = str | Sequence[int] | Int[Tensor, " pos"]
# settings that change no answer
ALIKE = {"device", "use_attn_result", "use_attn_in", "use_split_qkv_input", "use_hook_mlp_in"}
# JupyterLab shows an error for a widget whose kernel is gone: hidden beside the still picture
DEAD = ".jp-OutputArea-child:has(.jupyter-widgets):not(:has(.micro))"
BEFORE = f"{DEAD}:has(+.jp-OutputArea-child .microscope-still)"
HIDE = f"<style>.jp-OutputArea-child:has(.microscope-still)+{DEAD},{BEFORE}{{display:none}}</style>"


class Figure:
    """A picture without a kernel: its `svg` and `facts`, `alt` in words, `answers` to questions."""

    def __init__(self, source: Source, facts: Facts):
        self.source = source
        self.facts = facts
        self.live = False  # whether the live one follows
        self.svg = stored_drawing.svg(facts)
        before = (
            source.facts({**facts, "cuts": [], "view": "attention"}) if facts["cuts"] else facts
        )
        self.alt = in_words(facts, before)
        self.answers: dict[str, Facts] = {}
        for head in [] if facts["cuts"] else facts["open"]:
            without = source.facts({**facts, "cuts": [head]})
            self.answers[f"What if head {head} is cut?"] = without

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """An <img>, which untrusted notebooks and GitHub show too; the answers unfold below it."""
        stored = [rounded(found) for found in (self.facts, *self.answers.values())]
        words = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
        picture = _image(self.svg, self.alt)
        html = f'<div class="microscope-still" data-facts="{_encoded(words)}">{picture}'
        for question, found in self.answers.items():
            picture = _image(stored_drawing.svg(found), in_words(found, self.facts))
            html += f"<details><summary>{escape(question)}</summary>{picture}</details>"
        html += "</div>" + HIDE * self.live
        return {"text/html": html, "text/plain": self.alt}


def _encoded(words: str) -> str:
    return base64.b64encode(words.encode()).decode()


def _image(svg: str, alt: str) -> str:
    source = f"data:image/svg+xml;base64,{_encoded(svg)}"
    return f'<img src="{source}" alt="{escape(alt)}" style="max-width: 100%">'


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
    heads, cut, ask, press = map(plain, (heads, cut, ask, press))
    tokens = _tokens(model, text)
    source = Source(model, tokens)
    logits = source.run().logits
    # the position, and the token whose logit is taken apart
    last = len(tokens) - 1
    position, token = ask if isinstance(ask, tuple | list) else (ask, None)
    position = last if position is None else position
    if not 0 <= position <= last:
        raise ValueError(f"The text has the positions 0 to {last}, and {position} is none of them.")
    asked = int(logits[position].argmax()) if token is None else _token(model, token)
    # the heads that are open
    if heads is None:
        heads = source.strongest(position, asked)
    for head in heads:
        if not (isinstance(head, tuple | list) and len(head) == 2):
            pairs = "heads must be a list of pairs (layer, head), as [(0, 5)]"
            raise TypeError(f"{pairs}, and {head!r} is no pair.")
        require_head(model, *head)
    state = {
        "tokens": tokens.tolist(),
        "view": view,
        "open": [head_name((int(layer), int(head))) for layer, head in heads],
        "weighted": weighted,
        "position": position,
        "token": None if token is None and not cut else asked,
        "cuts": [key_of(one) for one in cut],
        "press": head_name(press) if press else None,
        "model": _bundled(model),
    }
    return Figure(source, source.facts(state))


def _bundled(model: HookedTransformer) -> str | None:
    """Which of the models that a page computes this one is; none if anything in it is another."""
    for name in MODELS:
        file = DATA / name / "model.safetensors"
        if file.is_file():
            with safe_open(file, "pt") as weights:  # most models differ here: no other part is read
                W_E = weights.get_tensor("embed.W_E").float()
            if torch.equal(W_E, model.W_E.to(W_E)) and _fingerprint(model) == _as_loaded(name):
                return name
    return None


@cache
def _as_loaded(name: str) -> str | None:
    return _fingerprint(load(name))


def _fingerprint(model: HookedTransformer) -> str | None:
    """One number for all that decides what a model answers; none where a hook may change it."""
    for module in model.modules():
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            return None
    settings = [(key, value) for key, value in model.cfg.to_dict().items() if key not in ALIKE]
    words = model.tokenizer and sorted(model.tokenizer.get_vocab().items())
    kinds = [type(module) for module in model.modules()]
    found = hashlib.sha256(repr((settings, words, kinds)).encode())
    for name, tensor in model.state_dict().items():
        found.update(f"{name} {tensor.dtype}".encode())
        found.update(tensor.float().cpu().numpy().tobytes())
    return found.hexdigest()


def _tokens(model: HookedTransformer, text: Text) -> Int[Tensor, " pos"]:
    last = model.cfg.d_vocab - 1
    if isinstance(text, str):
        if model.tokenizer is None:
            raise ValueError("This model reads numbers: give it a list, as [5, 60, 3].")
        require_whole_characters(text)
        tokens = model.to_tokens(text)[0]
    else:
        tokens = torch.as_tensor(text)
        if tokens.ndim != 1 or tokens.is_floating_point() or not len(tokens):
            raise ValueError("Give the tokens as one list of whole numbers, as [5, 60, 3].")
        if tokens.min() < 0 or tokens.max() > last:
            raise ValueError(f"Tokens are whole numbers from 0 to {last}; one of these is not.")
    if len(tokens) > MOST:
        room = f"The drawing has room for {MOST} tokens"
        raise ValueError(f"{room}, and this text has {len(tokens)}: take a part of it.")
    return tokens


def _token(model: HookedTransformer, token: str | int) -> int:
    last = model.cfg.d_vocab - 1
    if isinstance(token, str):
        ids = model.to_tokens(token, prepend_bos=False)[0].tolist() if model.tokenizer else []
        if len(ids) != 1:
            raise ValueError(f"Only a single token has a logit, and {token!r} is not one.")
        return ids[0]
    if not isinstance(token, Integral) or not 0 <= token <= last:
        raise ValueError(f"A token is a whole number from 0 to {last}, not {token!r}.")
    return int(token)
