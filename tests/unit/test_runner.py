"""A notebook runs after the code that is to come first, and not without it."""

import nbformat
import pytest

from course_tools import runner


def test_what_comes_first_has_run_and_its_failure_is_told(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(x)")])
    (printed,) = runner.run(notebook, tmp_path, first="x = 3").cells[0].outputs
    assert printed["text"] == "3\n"
    with pytest.raises(runner.CellFailed, match="ZeroDivisionError"):
        runner.run(notebook, tmp_path, first="1 / 0")
