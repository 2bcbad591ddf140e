"""A lesson goes on with every right answer to its end, whatever kind of thing the answer returns.

Each lesson is run with our own answers, which return something else than the lesson shows: float64,
arrays of numpy, sparse tensors, … Two lessons and one kind at a time, chosen by a seed;
`--untrained all` takes all of them, in an hour.
"""

import itertools
import random

import pytest

from course_tools import authoring, runner
from course_utils._files import ROOT, lesson_of
from course_utils.course import saved_notebook
from tests.unit.test_results import OTHERWISE

ANSWERS = """
import functools as _functools, sys
sys.path.insert(0, {root!r})
from course_lessons.sealed.trial import Case
from course_utils.course import exercises
from tests.unit.test_results import OTHERWISE, _changed

_check = exercises.Exercise.__call__

def _otherwise(self, answer):
    if isinstance(self, Case):
        return _check(self, answer)
    @_functools.wraps(answer)
    def other(*args, **kwargs):
        return _changed(answer(*args, **kwargs), OTHERWISE[{way!r}])
    return _check(self, other)

exercises.Exercise.__call__ = _otherwise
"""
AT_A_TIME = 2


def pytest_generate_tests(metafunc):
    if "way" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("--untrained")
    every = [*itertools.product(authoring.lessons(), OTHERWISE)]
    if seed != "all":
        every = random.Random(seed).sample(every, AT_A_TIME)
    ids = [f"{lesson_of(path)}-{way}" for path, way in every]
    metafunc.parametrize(("path", "way"), every, ids=ids)


@pytest.mark.beside
def test_no_cell_stops_and_no_answer_is_refused(path, way):
    notebook = authoring.read_notebook(path)
    runner.run(notebook, path.parent, first=ANSWERS.format(root=str(ROOT), way=way))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "\n".join(map(saved_notebook.as_text, outputs))
    refused = [line for line in said.splitlines() if line.startswith("✗")]
    assert not refused
