"""The microscope where no kernel runs, nor torch: scripts, and the models that a page computes."""

import base64
import json
from functools import cache
from pathlib import Path

from course_utils._files import DATA, verified

HERE = Path(__file__).resolve().parent
MODELS = ("one-layer", "two-layer")  # attention alone, and nothing that normalises


@cache
def script(*names: str) -> str:
    """Scripts of this folder as one; none imports another, for pages opened from a disk."""
    return "\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in names)


@cache
def style() -> str:
    """How all of it looks."""
    return (HERE / "micro.css").read_text(encoding="utf-8")


@cache  # for all widgets alike: a model has 5 MB
def model(name: str) -> tuple[dict, bytes]:
    """A bundled model as the page reads it: what describes it, and its weights, float16."""
    if name not in MODELS:
        raise ValueError(f"The page computes {' and '.join(map(repr, MODELS))}, not {name!r}.")
    config = json.loads(verified(DATA / name / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads(verified(DATA / "tokenizer.json").read_text(encoding="utf-8"))
    weights = verified(DATA / name / "model.safetensors").read_bytes()
    needed = {key: tokenizer[key] for key in ("added_tokens", "model")}
    return {"config": config["model"], "tokenizer": needed}, weights


def model_script(name: str) -> str:
    """A model as a script: a page on a disk may load one, too."""
    described, weights = model(name)
    described = {**described, "weights": base64.b64encode(weights).decode()}
    return f"(window.microscopeModels ??= {{}})[{json.dumps(name)}] = {json.dumps(described)};\n"


def notebook_script() -> str:
    """What anywidget loads: a module."""
    return script("engine", "draw", "page", "widget").replace("export function", "function")


def page_script() -> str:
    """What a page loads, as a plain script: `microscope` has what there is to call."""
    inside = script("engine", "draw", "page").replace("export function", "function")
    public = "Engine, MOST, WAITS, percent, mount, loaded, alive, stored, bringAlive"
    return f"window.microscope = (() => {{\n{inside}\nreturn {{ {public} }};\n}})();\n"
