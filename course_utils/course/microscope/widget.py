"""The live microscope: the page reports what was pressed, the kernel runs the model and draws again."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets

from course_utils import interventions, paths
from course_utils.course.microscope import drawing
from course_utils.course.microscope.scene import Scene, cut_of
from course_utils.interventions import Cut

HERE = Path(__file__).resolve().parent
LANES = 4  # open at a time


class Microscope(anywidget.AnyWidget):
    """A scene on the page. `press` does what a click does."""

    _esm = HERE / "microscope.js"
    _css = HERE / "microscope.css"
    svg = traitlets.Unicode().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)  # what the buttons above the drawing show

    def __init__(self, scene: Scene):
        super().__init__()
        self.scene = scene
        self.on_msg(lambda _, content, __: self.press(content["do"], content.get("key", "")))
        self._draw()

    def view(self) -> dict:
        """What a cell's output holds of it: the live view alone. The still drawing is an output of its own."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"application/vnd.jupyter.widget-view+json": view}

    def press(self, do: str, key: str = "") -> None:
        """Carry out what was pressed: `do` is the name of a method below, and `key` says on what."""
        with _one_thread():
            getattr(self, f"_{do}_")(key)
            self._draw()

    def _draw(self) -> None:
        scene = self.scene
        with self.hold_sync():
            self.svg = drawing.svg(scene)
            cuts = [interventions.in_words(one) for one in scene.now.cuts]
            self.state = {"view": scene.view, "weighted": scene.weighted, "step": scene.step, "cuts": cuts}

    def _change(self, **changes: Any) -> None:
        self.scene = dataclasses.replace(self.scene, **changes)

    def _run(self, cuts: list[Cut]) -> None:
        scene = self.scene
        self._change(now=paths.run(scene.model, scene.base.tokens, *cuts) if cuts else scene.base)

    def _select_(self, key: str) -> None:
        position = int(key)
        self._change(position=position, token=int(self.scene.now.logits[position].argmax()))

    def _ask_(self, key: str) -> None:
        self._change(token=int(key), view="paths")

    def _open_(self, key: str) -> None:
        head = cut_of(key)
        kept = [one for one in self.scene.heads if one != head]
        is_open = head in self.scene.heads and self.scene.view != "stream"
        self._change(heads=kept if is_open else [*kept, head][-LANES:])
        if self.scene.view == "stream":
            self._change(view="attention")

    def _cut_(self, key: str) -> None:
        one, cuts = cut_of(key), list(self.scene.now.cuts)
        self._run([other for other in cuts if other != one] if one in cuts else [*cuts, one])

    def _doors_(self, path: str) -> None:
        """All doors of one kind into the head whose doors are shown: shut them, or open them if all are shut."""
        later, cuts = self.scene.later, list(self.scene.now.cuts)
        if later is None:
            return
        heads = range(self.scene.model.cfg.n_heads)
        doors: list[Cut] = [((layer, head), path, later) for layer in range(later[0]) for head in heads]
        kept = [one for one in cuts if one not in doors]
        self._run(kept if len(kept) == len(cuts) - len(doors) else [*kept, *doors])

    def _step_(self, key: str) -> None:
        self._change(step=int(key))

    def _view_(self, key: str) -> None:
        self._change(view=key)

    def _weighted_(self, _: str) -> None:
        self._change(weighted=not self.scene.weighted)

    def _reset_(self, _: str) -> None:
        self._run([])


@contextmanager
def _one_thread() -> Iterator[None]:
    """A text this short is read as fast by one thread, and much faster than by two where others compute as well."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
