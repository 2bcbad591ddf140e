"""The microscope where no kernel runs: its scripts, and the models that a page computes. Needs no
torch.
"""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from course_utils._files import DATA, verified

HERE = Path(__file__).resolve().parent
WIDGET = "application/vnd.jupyter.widget-view+json"
MODELS = ("one-layer", "two-layer")  # attention alone, and nothing that normalises


@cache
def script(*names: str) -> str:
    """Scripts of this folder as one; none imports another, so that they work from a folder on disk."""
    return "\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in names)


@cache
def style() -> str:
    """How all of it looks."""
    return (HERE / "micro.css").read_text(encoding="utf-8")


def model(name: str) -> tuple[dict, bytes]:
    """A bundled model as the page reads it: its configuration and tokenizer, and its weights,
    float16, as stored.
    """
    if name not in MODELS:
        raise ValueError(f"The page computes {' and '.join(map(repr, MODELS))}, not {name!r}.")
    config = json.loads(verified(DATA / name / "config.json").read_text(encoding="utf-8"))["model"]
    tokenizer = json.loads(verified(DATA / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer = {"added_tokens": tokenizer["added_tokens"], "model": tokenizer["model"]}
    return {"config": config, "tokenizer": tokenizer}, verified(
        DATA / name / "model.safetensors"
    ).read_bytes()


def model_script(name: str) -> str:
    """A model as a script beside the page, which a page on disk may load as well as one on a
    server.
    """
    described, weights = model(name)
    described["weights"] = base64.b64encode(weights).decode()
    return f"(window.microscopeModels ??= {{}})[{json.dumps(name)}] = {json.dumps(described)};\n"


def notebook_script() -> str:
    """What anywidget loads: a module."""
    return script("engine", "draw", "page", "kernel").replace("export function", "function")


def page_script() -> str:
    """What a page loads, as a plain script: `microscope` has what there is to call."""
    inside = script("engine", "draw", "page").replace("export function", "function")
    return (
        f"window.microscope = (() => {{\n{inside}\nreturn {{ Engine, mount, loaded, alive, "
        f"bringAlive }};\n}})();\n"
    )


def view(widget: Any) -> dict:
    """A widget as a cell's output."""
    return {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}
