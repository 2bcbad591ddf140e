"""Makes nbval trustworthy: a notebook cell that did not run to its end fails, whatever it printed.

nbval compares what a cell printed, and never looks at the kernel's own verdict. So a cell passes
that stops at an unknown magic, at `exit`, or at an infinite loop that swallows the interrupt, and a
dead kernel is waited for until the cell's timeout. `tests/course/test_nbval_guard.py` holds the
notebooks that must fail.
"""

import functools
import itertools
import math
import os
import random
import tempfile
import time
from pathlib import Path
from queue import Empty

import nbval.kernel
import nbval.plugin
import psutil
import pytest
from xdist.scheduler import LoadFileScheduling

from course_tools import runner
from tests import warm

collect_ignore_glob = ["notebooks/*_mine.ipynb"]  # learners' own copies
os.environ.setdefault("COURSE_CLAIMS", "strict")  # a statement that does not hold fails its cell
# Solutions run as on most laptops, without AVX-512 and with two threads, whatever machine stored
# their outputs; learners' copies run with what this machine has. What the environment says
# beforehand holds for both.
LAPTOP = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OMP_NUM_THREADS": "2",
    # each core has its file: a thread that waits leaves its core to another
    "OMP_WAIT_POLICY": "PASSIVE",
}
CHOSEN = os.environ.setdefault(
    "COURSE_TESTS_CHOSEN", " ".join(name for name in LAPTOP if name in os.environ)
).split()
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a file on each core, so a thread for each file
# Large tensors: glibc would hand them back to the system and fetch them again page by page, a third
# of lesson 04's time
os.environ.update(MALLOC_MMAP_THRESHOLD_=str(2**33), MALLOC_TRIM_THRESHOLD_=str(2**33))
# set to agg, as machines without a screen often have it, kernels draw nothing
os.environ.pop("MPLBACKEND", None)


# Nobody looks at the pictures, and only the words about them are compared: solutions paint them
# small, and copies, which draw the same figures, not at all.
SMALL = """
from matplotlib.figure import Figure
from PIL import Image
Image.Image.quantize = lambda image, *_, **__: image
paint = Figure.savefig
Figure.savefig = lambda figure, file, **how: paint(figure, file, **how | {"dpi": 30})
"""
UNPAINTED = """
from matplotlib.figure import Figure
from PIL import Image
Figure.savefig = lambda figure, file, **_: Image.new("RGB", (1, 1)).save(file, "PNG")
"""
PERTURBED = """
import functools, torch
from course_utils import models

def _perturbed(make):
    @functools.wraps(make)
    def wrapper(*args, **kwargs):
        model, generator = make(*args, **kwargs), torch.Generator().manual_seed(0)
        for parameter in model.parameters():
            parameter.data *= 1 + {size} * torch.randn(parameter.shape, generator=generator)
        return model
    return wrapper

models.initial, models.load = _perturbed(models.initial), _perturbed(models.load)
"""


def pytest_xdist_auto_num_workers():
    """A test file at a time for each core, four at most, as far as memory goes: 4 GB for each, and
    2 for all else.
    """
    return max(1, min(4, os.cpu_count() or 1, int((psutil.virtual_memory().total - 2e9) // 4e9)))


def pytest_addoption(parser):
    parser.addoption(
        "--perturb",
        type=float,
        metavar="SIZE",
        help="notebooks get every weight off by this share: 1e-7 is rounding",
    )
    parser.addoption(
        "--open-only",
        action="store_true",
        help="notebooks run without their folded cells: no open cell may need one",
    )
    parser.addoption(
        "--copies",
        default="all",
        metavar="SEED",
        help="the seed that chooses a third of the learners' copies to run, or: all",
    )
    parser.addoption(
        "--untrained",
        default="0",
        metavar="SEED",
        help="the seed that chooses three lessons to run on untrained weights, or: all",
    )
    parser.addoption(
        "--boxes",
        type=int,
        default=10,
        metavar="MANY",
        help="how many new boxes lesson 11's judge is tried on",
    )


def pytest_configure(config):
    GuardedKernel.perturb = config.getoption("--perturb")


def pytest_collection_modifyitems(config, items):
    """Notebooks get their marks; what takes long comes first: no core waits at the end."""
    for item in items:
        if isinstance(item, nbval.plugin.IPyNbCell):
            item.add_marker("notebooks")
            if item.path.parent == warm.LESSONS:
                item.add_marker("copies")
            if item.path.name.startswith("13_") and not _has_real_model():
                item.add_marker(pytest.mark.skip("the weights of SmolLM2 are not installed"))
    seed = config.getoption("--copies")
    if seed != "all":
        copies = {item.path for item in items if item.get_closest_marker("copies")}
        chosen = random.Random(seed).sample(sorted(copies), math.ceil(len(copies) / 3))
        others = copies.difference(chosen)
        _leave_out(config, items, lambda item: item.path in others)
    if config.getoption("--open-only"):
        _leave_out(config, items, _is_folded)
    order = ("tests/course", "notebooks", "tests/unit", "")

    def place(item):
        return next(n for n, start in enumerate(order) if item.nodeid.startswith(start))

    items.sort(key=place)


def _leave_out(config, items, is_out):
    config.hook.pytest_deselected(items=list(filter(is_out, items)))
    items[:] = itertools.filterfalse(is_out, items)


@functools.cache
def _has_real_model():
    from course_utils import smollm2  # takes seconds, and few runs of the tests need it

    if not smollm2.is_there():
        return False
    smollm2.folder()  # unpacked now: the bar of an unpacking is no output that a cell has stored
    return True


def _is_folded(item):
    metadata = item.cell.metadata if isinstance(item, nbval.plugin.IPyNbCell) else {}
    return metadata.get("jupyter", {}).get("source_hidden", False)


class Scheduling(LoadFileScheduling):
    """A file's tests stay together, as do all files that share JupyterLab; a long test alone is
    free to go anywhere.
    """

    def _split_scope(self, nodeid):
        file = nodeid.split("::", 1)[0]
        if file.endswith(("_browser.py", "test_front_door.py")):
            return "JupyterLab"
        return nodeid if file.endswith("test_untrained.py") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


SOCKETS = tempfile.TemporaryDirectory(prefix="kernels-")
nbval.kernel.KernelManager = functools.partial(
    nbval.kernel.KernelManager, config=runner.sockets(SOCKETS.name)
)


class KernelDied(Exception):
    """The kernel's process is gone, and the cell that it ran has no reply."""


class GuardedKernel(nbval.plugin.RunningKernel):
    """nbval's kernel, which also keeps the reply to the last cell and notices its own death within
    a second.
    """

    reply, perturb = None, None

    def __init__(self, kernel_name, cwd=None, **options):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in LAPTOP.items() if Path(cwd).name == "solutions" else ():
                if name not in CHOSEN:
                    patch.setenv(name, value)
            super().__init__(kernel_name, cwd, **options)
        first = [PERTURBED.format(size=self.perturb)] * bool(self.perturb)
        if Path(cwd).is_relative_to(warm.LESSONS):
            first.append(UNPAINTED if Path(cwd) == warm.LESSONS else SMALL)
        for code in first:  # in a space of its own: a lesson must import what it uses
            reply = self.kc.execute(
                f"exec({code!r}, {{}})", store_history=False, reply=True, timeout=180
            )
            assert reply["content"]["status"] == "ok", reply["content"]

    def execute_cell_input(self, cell_input, allow_stdin=None):
        # nbval stores no history; without it a semicolon at the end of a cell hides nothing, and
        # `Out` stays empty
        return self.kc.execute(cell_input, allow_stdin=allow_stdin, stop_on_error=False)

    def stop(self):
        # nbval kills kernels, and what they had counted would be lost
        if "COVERAGE_RUN" in os.environ:
            self.km.shutdown_kernel()
        super().stop()

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


warm.use()
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
        item.raise_cell_error(
            f"The cell stopped before its end: {reply.get('ename', reply['status'])}."
        )
    if any(payload["source"] == "ask_exit" for payload in reply.get("payload", [])):
        item.raise_cell_error("The cell shut down its kernel.")
    return result
