"""The checks are checked: each accepts its solution, says ○ to the blank, and tells every typical mistake."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from course_utils import check
from course_utils.tools import authoring

EXERCISE = re.compile(r"^def (\w+)\(.*?### END SOLUTION\n.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^(?:import|from) .*", re.MULTILINE)


def solutions() -> dict:
    """Every exercise's solution, by name, as it stands in the lessons."""
    found = {}
    for path in sorted(authoring.SOLUTIONS.glob("*.ipynb")):
        code = [cell.source + "\n" for cell in authoring.read(path).cells if cell.cell_type == "code"]
        imports = "\n".join(line for source in code for line in IMPORT.findall(source))
        for exercise in filter(None, map(EXERCISE.search, code)):
            space = {}
            exec(f"{imports}\n{exercise[0]}", space)
            found[exercise[1]] = space[exercise[1]]
    return found


MISTAKES = {}  # exercise → what is wrong → an answer that is wrong in this way
for file in sorted((Path(__file__).parent / "mistakes").glob("*.py")):
    MISTAKES |= importlib.import_module(f"mistakes.{file.stem}").MISTAKES
CASES = [(name, mistake) for name, mistakes in MISTAKES.items() for mistake in mistakes]


def fails(*_):
    raise KeyError("something of the learner's own")


NONSENSE = {
    "None": lambda *_: None,
    "a text": lambda *_: "42",
    "a list": lambda *_: [[1, 2], [3]],
    "a scalar": lambda *_: torch.tensor(0.5),
    "no number": lambda *_: float("nan"),
    "wrong shape": lambda *_: torch.zeros(2, 3, 4),
    "not a number": lambda *arguments: torch.full((7, 7), float("nan")),
    "empty": lambda *_: torch.zeros(0),
    "exception": fails,
    "no parameters": lambda: None,
    "no function": 3,
}


def said(capsys, name, answer) -> str:
    """The one line that the check prints."""
    assert getattr(check, name)(answer) is None
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0][2:].startswith(name)
    return lines[0]


def test_every_exercise_has_a_check_and_its_mistakes():
    assert set(solutions()) == set(MISTAKES)


@pytest.mark.parametrize("name", MISTAKES)
def test_the_solution_is_right(capsys, name):
    assert said(capsys, name, solutions()[name]) == f"✓ {name}"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_blank_is_not_attempted(capsys, name):
    def blank(*_):
        raise NotImplementedError("your code here")

    assert said(capsys, name, blank) == f"○ {name}: not attempted yet."


@pytest.mark.parametrize(("name", "mistake"), CASES)
def test_a_typical_mistake_is_told(capsys, name, mistake):
    line = said(capsys, name, MISTAKES[name][mistake])
    assert line.startswith(f"✗ {name}: ") and line.endswith((".", "?"))
    assert "stopped with" not in line


@pytest.mark.parametrize("kind", NONSENSE)
@pytest.mark.parametrize("name", MISTAKES)
def test_nonsense_gets_a_sentence(capsys, name, kind):
    line = said(capsys, name, NONSENSE[kind])
    assert line.startswith(f"✗ {name}: ") and len(line) < 200


def test_the_answers_randomness_is_left_alone(capsys):
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    check.direct_path(lambda W_E, W_U: torch.rand(7, 7))
    assert torch.rand(1) == expected
