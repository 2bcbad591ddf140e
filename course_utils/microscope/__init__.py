"""The microscope: one drawing of a small model on a short text, to look at, to ask and to cut.

`show` is for the mouse and the keyboard; `figure` is the same drawing without a kernel.
"""

import torch
from torch import Tensor

from course_utils.microscope import drawing, runs


def scene(model, text, view="attention", heads=(), cut=(), ask=None, weighted=False):
    tokens = model.to_tokens(text)[0] if isinstance(text, str) else torch.as_tensor(text)
    base = runs.run(model, tokens)
    now = runs.run(model, tokens, *cut) if cut else base
    pos = len(tokens) - 1 if ask is None else ask
    return drawing.Scene(model, base, now, view, list(heads), pos, int(base.logits[pos].argmax()), weighted)
