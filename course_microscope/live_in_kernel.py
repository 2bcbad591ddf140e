"""The live microscope: the page says what is to be looked at, and the kernel runs the model."""

from typing import Any

import anywidget
import traitlets

from course_microscope import scripts
from course_microscope.facts import Facts, Source, State
from course_utils._torch_state import one_thread


class Microscope(anywidget.AnyWidget):
    """A model on a text, on the page. `answer` does what a press does."""

    _esm = scripts.notebook_script()
    _css = scripts.style()
    facts = traitlets.Dict().tag(sync=True)  # what the picture opens with

    def __init__(self, source: Source, facts: Facts):
        super().__init__(facts=facts)
        self.source = source
        self.on_msg(self._pressed)

    def _pressed(self, _: Any, content: dict, __: Any) -> None:
        self.send({"turn": content["turn"], "facts": self.answer(content["state"])})

    @one_thread()
    def answer(self, state: State) -> Facts:
        """What a state of the microscope shows."""
        return self.source.facts(state)
