"""How large a class one machine holds: figures for notebooks/TEACHING.md, measured by hand and not in CI.

    python tests/classroom.py kernels --lesson 07_induction_heads --memory 24
    python tests/classroom.py hub --lesson 07_induction_heads --users 10

The first fills memory with kernels that have run a lesson, one after the other, and times the last one beside the
first. The second starts a JupyterHub (`pip install jupyterhub`, `npm install -g configurable-http-proxy`) and lets all
users run the lesson at the same time, through the hub's proxy, as their browsers would; then all of them cut heads in
the microscope at the same time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_client.provisioning import LocalProvisioner

from course_utils._files import NOTEBOOKS
from course_utils.author import authoring

GIB = 2**30
PORT = 18700  # of the hub
HUB = """
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {port} + 1
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:" + str({port} + 2)
c.JupyterHub.services = [{{"name": "class", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "class", "scopes": ["admin:users", "admin:servers", "access:servers"],
                            "services": ["class"]}}]
c.Authenticator.allow_all = True
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/{{username}}"
c.Spawner.args = ["--allow-root"]
c.Spawner.environment = {{"OMP_NUM_THREADS": "1"}}  # ten kernels with two threads each stand in each other's way
c.Spawner.http_timeout = c.Spawner.start_timeout = 300
c.JupyterHub.concurrent_spawn_limit = 0
"""

PRESSES = """
from time import perf_counter
from course_utils import load, microscope
from course_utils.course.microscope.widget import Microscope
text = "lantern keeper sleeps. Wake lantern"
scene = microscope._scene(load("two-layer"), text, "attention", None, (), None, False)
live, took = Microscope(scene), []
for head in range(8):
    started = perf_counter()
    live.press("cut", f"0.{head}")
    took.append(perf_counter() - started)
print(max(took))
"""


def sources(lesson: str) -> list[str]:
    """The code of a learner's notebook, cell by cell."""
    notebook = authoring.read(authoring.learner_path(authoring.solution_path(lesson)))
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def kernels(lesson: str, memory: float) -> None:
    """Start kernels until one more would not fit into `memory` GiB."""
    cells, environment = sources(lesson), os.environ | {"OMP_NUM_THREADS": "1"}
    running: list[tuple[KernelManager, BlockingKernelClient]] = []
    seconds: list[float] = []
    used = 0.0
    try:
        while not running or used * (len(running) + 1) / len(running) < memory:
            started = time.monotonic()
            manager, client = start_new_kernel(kernel_name="python3", env=environment, cwd=str(NOTEBOOKS))
            running.append((manager, client))
            for cell in cells:
                reply = client.execute_interactive(cell, output_hook=lambda message: None, timeout=600)
                assert reply["content"]["status"] == "ok", cell
            seconds.append(time.monotonic() - started)
            processes = [psutil.Process(_pid(manager)) for manager, _ in running]
            used = sum(process.memory_full_info().pss for process in processes) / GIB
            print(f"kernel {len(running):3}: {seconds[-1]:5.1f} s, all together {used:5.2f} GiB", flush=True)
        print(f"{len(running)} kernels fit; the last took {seconds[-1] / seconds[0]:.2f} times as long as the first")
    finally:
        for manager, client in running:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def _pid(manager: KernelManager) -> int:
    """The process of a kernel that was started here."""
    assert isinstance(manager.provisioner, LocalProvisioner) and manager.provisioner.pid
    return manager.provisioner.pid


class Hub:
    """A JupyterHub in a temporary folder, and its REST interface."""

    def __init__(self, folder: Path):
        self.url, self.token = f"http://127.0.0.1:{PORT}", uuid.uuid4().hex
        config = folder / "jupyterhub_config.py"
        config.write_text(HUB.format(port=PORT, token=self.token, folder=folder), encoding="utf-8")
        self.log = open(folder / "log", "w", encoding="utf-8")  # noqa: SIM115
        command = [sys.executable, "-m", "jupyterhub", "-f", str(config)]
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=self.log, stderr=self.log)

    def ask(self, path: str, method: str = "GET", body: dict | None = None) -> Any:
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        data = json.dumps(body or {}).encode() if method == "POST" else None
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers, method=method)) as answer:
            return json.loads(answer.read() or "null")

    def wait_for(self, path: str, ready: Callable[[Any], object] = lambda answer: True) -> Any:
        deadline = time.monotonic() + 300
        while True:
            try:
                if ready(answer := self.ask(path)):
                    return answer
            except OSError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"{path} does not answer.")
            time.sleep(0.5)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


class User:
    """One user: a server of their own and a kernel."""

    def __init__(self, server: Hub, name: str):
        import websocket

        server.ask(f"/hub/api/users/{name}", "POST")
        server.ask(f"/hub/api/users/{name}/server", "POST")
        server.wait_for(f"/hub/api/users/{name}", lambda answer: answer["servers"].get("", {}).get("ready"))
        kernel = server.ask(f"/user/{name}/api/kernels", "POST", {"name": "python3"})["id"]
        address = f"{server.url.replace('http', 'ws')}/user/{name}/api/kernels/{kernel}/channels"
        headers = [f"Authorization: token {server.token}"]
        self.name = name
        self.socket = websocket.create_connection(address, header=headers, timeout=600)

    def run(self, cells: list[str]) -> tuple[float, str]:
        """The seconds that all cells took, and what the last one printed."""
        started, printed = time.monotonic(), ""
        for cell in cells:
            number = uuid.uuid4().hex
            header = {"msg_id": number, "msg_type": "execute_request", "session": self.name, "username": self.name}
            header |= {"version": "5.3", "date": ""}
            content = {"code": cell, "silent": False, "store_history": True, "user_expressions": {}}
            content |= {"allow_stdin": False, "stop_on_error": True}
            message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
            self.socket.send(json.dumps(message))
            printed, verdict, idle = "", None, False
            while verdict is None or not idle:  # what was printed comes on another channel, maybe later
                reply = json.loads(self.socket.recv())
                if reply["parent_header"].get("msg_id") != number:
                    continue
                content = reply["content"]
                printed += content["text"] if reply["msg_type"] == "stream" else ""
                verdict = content if reply["msg_type"] == "execute_reply" else verdict
                idle = idle or content.get("execution_state") == "idle"
            assert verdict["status"] == "ok", (self.name, cell, verdict)
        return time.monotonic() - started, printed


def hub(lesson: str, users: int) -> None:
    """All users of a hub run the lesson side by side, then press buttons of the microscope."""
    cells = sources(lesson)
    with tempfile.TemporaryDirectory() as folder:
        server = Hub(Path(folder))
        try:
            server.wait_for("/hub/api/")
            teacher = User(server, "teacher")
            alone, _ = teacher.run(cells)
            answer = float(teacher.run([PRESSES])[1])
            with ThreadPoolExecutor(users) as pool:
                learners = [*pool.map(lambda number: User(server, f"learner-{number}"), range(users))]
                seconds = sorted(taken for taken, _ in pool.map(lambda learner: learner.run(cells), learners))
                answers = [float(said) for _, said in pool.map(lambda learner: learner.run([PRESSES]), learners)]
        except BaseException:
            print((Path(folder) / "log").read_text(encoding="utf-8")[-5_000:], file=sys.stderr)
            raise
        finally:
            server.close()
    ratios = f"{seconds[0] / alone:.1f} to {seconds[-1] / alone:.1f}"
    print(f"{users} users ran {lesson}, none failed; {ratios} times as long as one alone ({os.cpu_count()} cores)")
    print(f"The microscope answered one user within {answer:.2f} s, {users} at once within {max(answers):.2f} s.")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("kernels", "hub"):
        command = commands.add_parser(name)
        command.add_argument("--lesson", default="07_induction_heads")
        if name == "kernels":
            command.add_argument("--memory", type=float, default=24, help="GiB")
        else:
            command.add_argument("--users", type=int, default=10)
    options = parser.parse_args()
    if options.command == "kernels":
        kernels(options.lesson, options.memory)
    else:
        hub(options.lesson, options.users)


if __name__ == "__main__":
    main()
