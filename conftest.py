"""Makes nbval trustworthy: a notebook cell that did not run to its end fails, whatever it printed.

nbval compares what a cell printed, and never looks at the kernel's own verdict. So a cell passes that stops at an
unknown magic, at `exit`, or at an infinite loop that swallows the interrupt, and a dead kernel is waited for until the
cell's timeout. `tests/test_nbval_guard.py` holds the notebooks that must fail.
"""

import os
import time
from queue import Empty

import nbval.plugin
import pytest

collect_ignore_glob = ["notebooks/*_mine.ipynb"]  # learners' own copies
os.environ.setdefault("COURSE_CLAIMS", "strict")  # a statement that does not hold fails its cell
os.environ.setdefault("OMP_NUM_THREADS", "1")  # pyproject.toml runs two files at a time: one core for each kernel
# Large tensors: glibc would hand them back to the system and fetch them again page by page, a third of lesson 04's time
os.environ.update(MALLOC_MMAP_THRESHOLD_=str(2**33), MALLOC_TRIM_THRESHOLD_=str(2**33))
os.environ.pop("MPLBACKEND", None)  # set to agg, as machines without a screen often have it, kernels draw nothing


class KernelDied(Exception):
    """The kernel's process is gone, and the cell that it ran has no reply."""


class GuardedKernel(nbval.plugin.RunningKernel):
    """nbval's kernel, which also keeps the reply to the last cell and notices its own death within a second."""

    reply = None

    def execute_cell_input(self, cell_input, allow_stdin=None):
        # nbval stores no history; without it a semicolon at the end of a cell hides nothing, and `Out` stays empty
        return self.kc.execute(cell_input, allow_stdin=allow_stdin, stop_on_error=False)

    def await_reply(self, msg_id, timeout=None):
        self.reply = None
        deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
        while time.monotonic() < deadline:
            try:
                message = self.get_message("shell", timeout=1)
            except Empty:
                if not self.is_alive():
                    raise KernelDied from None
                continue
            if message["parent_header"].get("msg_id") == msg_id:
                self.reply = message["content"]
                return
        raise Empty


nbval.plugin.RunningKernel = GuardedKernel  # the one place where nbval starts its kernels


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not isinstance(item, nbval.plugin.IPyNbCell):
        return (yield)
    try:
        result = yield
    except KernelDied:
        item.raise_cell_error("The kernel died while it ran this cell.")
    reply = item.parent.kernel.reply
    if reply is None:
        item.raise_cell_error("The cell ran into its timeout and swallowed the interrupt.")
    allowed = ("ok", "error") if item.options["check_exception"] else ("ok",)
    if reply["status"] not in allowed:
        item.raise_cell_error(f"The cell stopped before its end: {reply.get('ename', reply['status'])}.")
    if any(payload["source"] == "ask_exit" for payload in reply.get("payload", [])):
        item.raise_cell_error("The cell shut down its kernel.")
    return result
