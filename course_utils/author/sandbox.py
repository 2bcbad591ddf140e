"""A learner's function in a process of its own, called from here as if it were here.

`with Sandbox(cells, "direct_path") as answer:` gives a function for a check. What it returns is made of numbers and
words alone (see `wire`), so that the check's verdict is ours, whatever the learner's code does to its own process.
"""

import contextlib
import multiprocessing
import sys
import tempfile
import threading
import time
from typing import Any

import psutil

# `wire` and the checks are imported where they are used: the new process imports this module first, and must not get
# the checks, which know the right answers.

FORKED = sys.platform == "linux"  # elsewhere every process imports everything anew, which takes seconds
LOOK = 0.05  # seconds between two looks at a process's memory and time
MOST_BYTES = 64_000_000  # of a message


def _child(connection: Any, empty: str, memory: float) -> None:
    from course_utils.author import sandboxed

    sandboxed.serve(connection, empty, memory)


class Sandbox:
    """A process with one function of a submission, with a limit on its seconds and its GiB of memory.

    Used as a context it gives the function, or None if the submission does not define it. Calls raise Blank and Wrong,
    as the guard's do; Wrong too if the process did not live to answer.
    """

    def __init__(self, cells: list[str], name: str, seconds: float, memory: float) -> None:
        self.cells, self.name, self.seconds, self.memory = cells, name, seconds, memory
        self.since: float | None = None  # when we began to wait for the process
        self.waited = 0.0
        self.reason = ""  # why it was ended
        self.over = threading.Event()

    def __enter__(self) -> Any:
        from course_utils.author.wire import Peer, Remote

        context: Any = multiprocessing.get_context("forkserver" if FORKED else "spawn")
        if FORKED:
            context.set_forkserver_preload(["course_utils.author.sandboxed"])
        self.connection, theirs = context.Pipe()
        self.empty = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # where the process works
        self.process = context.Process(target=_child, args=(theirs, self.empty.name, self.memory), daemon=True)
        self.process.start()
        theirs.close()
        self.connection.recv_bytes()  # "ready": the libraries are loaded, and nothing of the learner's has run
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            answer = Remote(Peer(self, trusts=False), 0)(self.cells, self.name)
            if not isinstance(answer, Remote):
                return None
        except BaseException:
            self.__exit__()
            raise
        answer.changes_arguments = False  # or else it could change what the check compares with
        return answer

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._end()
        self.connection.close()
        self.process.join()
        self.empty.cleanup()

    def send_bytes(self, message: bytes) -> None:
        """As a connection's."""
        self._waiting(lambda: self.connection.send_bytes(message))

    def recv_bytes(self) -> bytes:
        """As a connection's."""
        return self._waiting(lambda: self.connection.recv_bytes(MOST_BYTES))

    def _waiting(self, act: Any) -> Any:
        from course_utils.course.questions import Wrong

        self.since = time.monotonic()
        try:
            return act()
        except (EOFError, OSError):
            self.over.wait(2 * LOOK)  # so that the watch can say why
            self._end()
            reason = self.reason or "it ended its own process, or returned far too much."
            raise Wrong(reason) from None
        finally:
            self.waited += time.monotonic() - self.since
            self.since = None

    def _watch(self) -> None:
        """End the process when it has taken too long or too much."""
        process = psutil.Process(self.process.pid)
        while not self.over.wait(LOOK):
            since = self.since
            waited = self.waited + (time.monotonic() - since if since else 0)
            try:
                took = process.memory_info().rss / 2**30
            except psutil.Error:
                return
            if waited > self.seconds:
                self.reason = f"after {self.seconds:g} seconds it was still running, and was stopped."
            elif took > self.memory:
                self.reason = f"it took more than {self.memory:g} GiB of memory, and was stopped."
            if self.reason:
                return self._end()

    def _end(self) -> None:
        with contextlib.suppress(psutil.Error):
            for offspring in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    offspring.kill()
        self.process.kill()
