"""A live microscope whose model the page computes: nothing waits for Python, least of all torch."""

from typing import Any

import anywidget
import traitlets

from course_microscope import scripts


class InPage(anywidget.AnyWidget):
    """A bundled model on a text."""

    _esm = scripts.notebook_script()
    _css = scripts.style()
    described = traitlets.Dict().tag(sync=True)
    weights = traitlets.Bytes().tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)

    def __init__(self, name: str, text: str, state: dict[str, Any]):
        described, weights = scripts.model(name)
        state = {**state, "model": name}
        super().__init__(described=described, weights=weights, text=text, state=state)
