"""Kernels for the lessons under test that have imported the libraries already: a process forks one
for each notebook.

Importing torch, TransformerLens and matplotlib takes a kernel five seconds of a processor. As a
script this module is that process: for each line it reads, it forks a kernel, which says its
number. Nothing of ours is imported beforehand.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from jupyter_client.provisioning import local_provisioner

LESSONS = Path(__file__).parents[1] / "notebooks"
READ_AT_ONCE = (
    "ATEN_CPU_CAPABILITY",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_CBWR",
    "OMP_NUM_THREADS",
)


class Forked:
    """What jupyter_client knows of a kernel's process, as of a Popen."""

    stdin = stdout = stderr = returncode = None

    def __init__(self, pid):
        self.pid = pid

    def poll(self):
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self.returncode = 1
        return self.returncode

    def wait(self):
        while self.poll() is None:
            time.sleep(0.02)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


def use():
    """From now on, the kernels of lessons that this process starts are forked; on Windows they
    can't be.
    """
    cold, sources = local_provisioner.launch_kernel, {}

    def launch_kernel(cmd, cwd=None, env=None, **options):
        if "COVERAGE_RUN" in os.environ or not Path(cwd or ".").resolve().is_relative_to(LESSONS):
            return cold(cmd, cwd=cwd, env=env, **options)
        kind = tuple(env.get(name) for name in READ_AT_ONCE)
        if (
            kind not in sources
        ):  # what libraries read when they are imported can't be changed afterwards
            pipe = {
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.DEVNULL,
            }
            sources[kind] = subprocess.Popen([sys.executable, __file__], env=env, text=True, **pipe)
            atexit.register(sources[kind].kill)
        source = sources[kind]
        print(
            json.dumps({"arguments": cmd[3:], "cwd": str(cwd), "env": dict(env)}),
            file=source.stdin,
            flush=True,
        )
        return Forked(int(source.stdout.readline()))

    if os.name == "posix":
        local_provisioner.launch_kernel = launch_kernel


def serve():
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # kernels end with this process
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    sys.path.remove(str(Path(__file__).parent))
    import matplotlib.pyplot  # noqa: F401
    import transformer_lens  # noqa: F401
    from ipykernel.kernelapp import IPKernelApp

    gc.freeze()  # or each kernel would look through all that the libraries hold, again and again
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a kernel that has ended is gone at once
    for line in sys.stdin:
        if os.fork():
            continue
        asked = json.loads(line)
        os.setsid()
        os.write(1, f"{os.getpid()}\n".encode())
        for number in (0, 1):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        parent, backend = os.environ["JPY_PARENT_PID"], os.environ["MPLBACKEND"]
        os.environ.clear()
        os.environ.update(asked["env"], JPY_PARENT_PID=parent, MPLBACKEND=backend)
        os.chdir(asked["cwd"])
        for name in (
            "tqdm.auto",
            "tqdm.autonotebook",
        ):  # which look, when they are imported, whether they are in a kernel
            sys.modules.pop(name, None)
        IPKernelApp.launch_instance(asked["arguments"])
        os._exit(0)


if __name__ == "__main__":
    serve()
