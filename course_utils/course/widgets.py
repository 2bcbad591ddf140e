"""Widgets as outputs of cells; a cell that runs again lets go of those that it showed before."""

from typing import Any

from IPython import get_ipython

WIDGET = "application/vnd.jupyter.widget-view+json"
_shown: dict[str, tuple[Any, list]] = {}  # what each cell's last run shows: which run, its widgets


def view(widget: Any) -> dict:
    """A widget as a cell's output; what an earlier run of the cell showed is closed, and let go."""
    cell, run = _running()
    last, widgets = _shown.get(cell, (run, []))
    if last != run:
        for earlier in widgets:
            earlier.layout.close()  # a widget of its own
            earlier.close()
        widgets = []
    _shown[cell] = run, [*widgets, widget]
    return {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}


def _running() -> tuple[str, Any]:
    """The cell that runs, and which run of it this is; outside a notebook, each call is a run."""
    shell = get_ipython()
    message = shell.get_parent() if hasattr(shell, "get_parent") else {}
    if not message:
        return "", object()
    # not every program that runs cells gives them names
    cell = message["metadata"].get("cellId") or message["content"].get("code", "")
    return cell, message["header"]["msg_id"]
