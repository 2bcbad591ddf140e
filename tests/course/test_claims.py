"""No claim is empty: on untrained weights every claim of every lesson must fail, and every identity must hold."""

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from course_utils.tools import authoring

UNTRAINED = """
import functools
import course_utils.models
course_utils.models.load = functools.partial(course_utils.models.load, step=0)
import matplotlib
matplotlib.use("template")  # draws nothing: nobody looks at the pictures
"""


def outcome(cell) -> str:
    """ "ok", or the name of the exception that ended the cell."""
    return next((output.ename for output in cell.outputs if output.output_type == "error"), "ok")


@pytest.mark.parametrize("path", sorted(authoring.SOLUTIONS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_only_the_claims_fail_on_untrained_weights(path):
    notebook = authoring.read(path)
    notebook.cells.insert(0, new_code_cell(UNTRAINED))
    client = NotebookClient(notebook, timeout=180, kernel_name="python3", allow_errors=True)
    client.execute(cwd=str(path.parent))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    claims = [cell for cell in code if "claim" in cell.metadata.get("tags", [])]
    assert claims
    empty = [cell.source for cell in claims if outcome(cell) != "AssertionError"]
    assert not empty, "These claims do not depend on training:\n\n" + "\n\n".join(empty)
    broken = [f"{outcome(cell)}:\n{cell.source}" for cell in code if cell not in claims and outcome(cell) != "ok"]
    assert not broken, "These cells need trained weights to run at all:\n\n" + "\n\n".join(broken)
