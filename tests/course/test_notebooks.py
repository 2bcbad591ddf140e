"""Every lesson's two notebooks, as they are stored."""

import re

from course_tools import authoring
from course_utils._files import lesson_of

LESSONS = authoring.lessons()


def test_a_lesson_is_stored_as_it_should_be(subtests):
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            solution = authoring.read_notebook(path)
            learner_file = authoring.learner_path(path)
            learner = authoring.read_notebook(learner_file)

            # lines, tags, markers, no error or stderr stored, and bytes
            assert authoring.problems(solution) == []

            # nbval compares no cell that was not executed
            code = [cell for cell in solution.cells if cell.cell_type == "code"]
            assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))

            # both are what authoring writes
            derived = authoring.dumps(authoring.derive(solution))
            assert path.read_bytes() == authoring.dumps(solution).encode()
            assert learner_file.read_bytes() == derived.encode()

            # else JupyterLab greets the learner with a dialog
            assert learner.metadata.kernelspec.name == "python3"


def test_no_answer_reaches_the_learner(subtests):
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            cells = authoring.read_notebook(authoring.learner_path(path)).cells
            for marker in authoring.MARKERS:
                assert not any(marker in cell.source for cell in cells)
            kept = [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
            assert all(authoring.FIRST_PICTURE in cell.metadata.tags for cell in kept)
            outputs = [output for cell in kept for output in cell.outputs]
            assert not any(output.output_type == "stream" for output in outputs)


def test_a_lesson_is_registered_before_it_states_anything(subtests):
    """Importing its package does it: without that, its table and its exercises are not there."""
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            cells = authoring.read_notebook(path).cells
            code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
            registered = code.index(f"course_lessons.l{lesson_of(path)}")
            stated = re.search(r"^(claim|identity)\(|\bcheck\.", code, re.MULTILINE)
            assert registered < stated.start()


def test_every_learner_notebook_has_a_solution():
    assert authoring.learner_notebooks() == [authoring.learner_path(path) for path in LESSONS]
