"""Every lesson's two notebooks, as they are stored."""

import pytest

from course_tools import authoring
from course_utils._files import lesson_of

LESSONS = authoring.lessons()
lessons = pytest.mark.parametrize("path", LESSONS, ids=lesson_of)


@lessons
def test_solution_has_no_problems(path):
    """No cell over 20 lines, valid tags, balanced markers, no error or stderr stored, at most 500
    KB.
    """
    assert authoring.problems(authoring.read_notebook(path)) == []


@lessons
def test_every_code_cell_of_a_solution_was_executed(path):
    cells = [cell for cell in authoring.read_notebook(path).cells if cell.cell_type == "code"]
    # nbval compares no other cell
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@lessons
def test_both_notebooks_are_as_authoring_writes_them(path):
    solution, learner = authoring.read_notebook(path), authoring.learner_path(path)
    assert path.read_bytes() == authoring.dumps(solution).encode()
    assert learner.read_bytes() == authoring.dumps(authoring.derive(solution)).encode()


@lessons
def test_no_answer_reaches_the_learner(path):
    learner = authoring.read_notebook(authoring.learner_path(path))
    # else JupyterLab greets the learner with a dialog
    assert learner.metadata.kernelspec.name == "python3"
    assert not any(marker in cell.source for cell in learner.cells for marker in authoring.MARKERS)
    kept = [cell for cell in learner.cells if cell.get("outputs") or cell.get("execution_count")]
    assert all(authoring.FIRST_PICTURE in cell.metadata.tags for cell in kept)
    assert not any(output.output_type == "stream" for cell in kept for output in cell.outputs)


def test_every_learner_notebook_has_a_solution():
    assert authoring.learner_notebooks() == [authoring.learner_path(path) for path in LESSONS]
