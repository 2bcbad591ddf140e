"""The live microscope: the page says what is to be looked at, and the kernel runs the model."""

from typing import Any

import anywidget
import torch
import traitlets

from course_microscope import scripts
from course_microscope.facts import Facts, Source, State


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

    def answer(self, state: State) -> Facts:
        """What a state of the microscope shows."""
        # one thread reads a short text as fast as two, and much faster where others compute as well
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self.source.facts(state)
        finally:
            torch.set_num_threads(threads)
