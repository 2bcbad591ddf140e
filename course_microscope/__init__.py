"""The microscope: a small model on a short text, to look at, to ask and to cut.

`show` is for mouse and keyboard, `figure` its stored picture, where no kernel runs. What both show
is a `paths.run`; what they cut, `interventions.cut` cuts.
"""

# torch takes seconds to import, and a bundled model is live without it
from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course_utils.course import widgets

if TYPE_CHECKING:
    from transformer_lens import HookedTransformer

    from course_microscope.stored import Figure, Text, figure
    from course_utils.interventions import Cut, Head

__all__ = ["Figure", "figure", "show"]


def __getattr__(name: str) -> Any:
    if name in ("Figure", "figure"):
        return getattr(importlib.import_module(f"{__name__}.stored"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def show(
    model: HookedTransformer | str,
    text: Text,
    view: str = "attention",
    *,
    heads: Sequence[Head] | None = None,
    cut: Sequence[Cut] = (),
    ask: int | tuple[int, str | int] | None = None,
    weighted: bool = False,
    press: Head | None = None,
) -> None:
    """Show a model at work on a text, as something to touch; what is stored is the still picture.

    `model` is a model, or the name of a bundled one, which the page computes by itself: it is there
    at once. `text` is a string, or token ids: for max-of-list, the list. `view` is "attention",
    "stream", "paths" or "doors". `heads` are those that are open, pairs (layer, head), by default
    the one of each layer that adds most to the asked logit. `cut` says what is switched off, as
    `interventions.cut` takes it. `ask` is a position, or a pair of a position and a token, whose
    logit is taken apart; by default the last position and what the model expects there. `weighted`
    shows each source by attention times the length of what it gives (`heads.value_weighted`).
    `press` is a head whose switch asks to be pressed. For attention-only models, up to 64 tokens.

    Raises ValueError or TypeError for what can't be shown, IndexError for a head that is not there.
    """
    from IPython.display import display

    in_page = isinstance(model, str)
    if isinstance(model, str):
        from course_microscope.live_in_page import InPage

        opened = [f"{layer}.{head}" for layer, head in heads or []]
        first = {"view": view, "open": opened, "press": press and f"{press[0]}.{press[1]}"}
        display(widgets.view(InPage(model, str(text), first)), raw=True)
        # the live one stands; this takes seconds, and is for the still picture alone
        from course_utils.models import load

        model = load(model)
    from course_microscope.stored import figure

    still = figure(model, text, view, heads=heads, cut=cut, ask=ask, weighted=weighted, press=press)
    still.live = True
    display(still)
    if not in_page:
        from course_microscope.live_in_kernel import Microscope

        display(widgets.view(Microscope(still.source, still.facts)), raw=True)
