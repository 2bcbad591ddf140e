"""Runs a notebook from top to bottom in a fresh kernel.

Authoring, replication and the test on untrained weights do.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

CELL_TIMEOUT = 600  # seconds


class CellFailed(Exception):
    """A cell did not run to its end; the message shows the cell and why."""


def sockets(folder: str) -> Config:
    """Kernels that listen on files in a folder, where the system has such sockets.

    A port that was found free, another process may have taken by then.
    """
    files = {"transport": "ipc", "ip": f"{folder}/kernel"}
    return Config(KernelManager=files if os.name == "posix" else {})


def run(
    notebook: NotebookNode,
    folder: Path,
    *,
    first: str = "",
    allow_errors: bool = False,
    environment: Mapping[str, str] | None = None,
) -> NotebookNode:
    """Run a notebook's cells in a kernel that works in `folder`, and return it with its outputs.

    `first` is code that runs before them, `environment` what the kernel's has besides ours. Raises
    CellFailed, unless `allow_errors`, when a cell fails, takes longer than CELL_TIMEOUT, or kills
    the kernel.
    """
    with tempfile.TemporaryDirectory(prefix="kernel-") as place:
        client = NotebookClient(
            notebook,
            config=sockets(place),
            timeout=CELL_TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            allow_errors=allow_errors,
            # else one printed text is stored in pieces that depend on timing
            coalesce_streams=True,
            record_timing=False,
        )
        client.reset_execution_trackers()
        variables: dict[str, Any] = {**os.environ}
        variables.pop("MPLBACKEND", None)  # with agg nothing would be drawn
        variables |= environment or {}
        # stderr: the kernel's own log; what cells print there is kept
        with client.setup_kernel(stderr=subprocess.DEVNULL, env=variables):
            if first:
                _run_first(client.kc, first)
            for number, cell in enumerate(notebook.cells):
                count = client.code_cells_executed + 1
                try:
                    client.execute_cell(cell, number, execution_count=count)
                except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                    # the others show the cell
                    shown = f"{cell.source}\n" if isinstance(error, DeadKernelError) else ""
                    raise CellFailed(f"{where(number, cell)} failed.\n{shown}{error}") from error
    return notebook


def _run_first(kernel: Any, code: str) -> None:
    """Run code before the cells, and wait for its end. Raises CellFailed if it fails."""

    async def executed() -> Any:
        return await kernel.execute(code, store_history=False, reply=True, timeout=CELL_TIMEOUT)

    answer = run_sync(executed)()["content"]
    if answer["status"] != "ok":
        reason = f"{answer.get('ename')}: {answer.get('evalue')}"
        raise CellFailed(f"What was to run before the cells failed.\n{code}\n{reason}")


def where(number: int, cell: NotebookNode) -> str:
    """A cell's number, as in `notebook.cells[number]`, and how it begins."""
    first_line = next(iter(cell.source.strip().splitlines()), "")
    return f'Cell {number} ("{first_line[:40]}")'
