"""The live microscope: the page says what is to be looked at, and the kernel runs the model."""

from collections.abc import Iterator
from contextlib import contextmanager

import anywidget
import torch
import traitlets

from course_utils.course.microscope import scripts
from course_utils.course.microscope.facts import Facts, Source, State


class Microscope(anywidget.AnyWidget):
    """A model on a text, on the page. `answer` does what a press does."""

    _esm = scripts.notebook_script()
    _css = scripts.style()
    facts = traitlets.Dict().tag(sync=True)  # what the picture opens with

    def __init__(self, source: Source, facts: Facts):
        super().__init__(facts=facts)
        self.source = source
        self.on_msg(
            lambda _, content, __: self.send(
                {"turn": content["turn"], "facts": self.answer(content["state"])}
            )
        )

    def view(self) -> dict:
        """What a cell's output holds of it: the live view alone. The still picture is an output of
        its own.
        """
        return scripts.view(self)

    def answer(self, state: State) -> Facts:
        """What a state of the microscope shows."""
        with _one_thread():
            return self.source.facts(state)


@contextmanager
def _one_thread() -> Iterator[None]:
    """A text this short is read as fast by one thread, and much faster than by two where others
    compute as well.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
