"""The checks are checked: each accepts right answers, and tells blanks and typical mistakes."""

import importlib
import inspect
import json
from pathlib import Path

import pytest
import torch

from course_lessons.sealed.trial import Case
from course_tools import authoring
from course_utils.course import check, saved_notebook, solutions
from course_utils.course.exercises import EXERCISES, each_case, each_mistake
from course_utils.course.expectations import same
from tests.states import otherwise

FOLDER = Path(__file__).parents[1] / "answers"
ANSWERS = [
    importlib.import_module(f"tests.answers.{file.stem}") for file in sorted(FOLDER.glob("l*.py"))
]
RIGHT = {name: ways for own in ANSWERS for name, ways in own.RIGHT_ANSWERS.items()}
TABLES = [(name, made.mistakes) for name, made in EXERCISES.items()]
TABLES += [table for own in ANSWERS for table in own.WRONG_ANSWERS.items()]
TOLD = {name: [] for name in EXERCISES}  # sentences, each with an answer that must hear it
for _name, _table in TABLES:
    TOLD[_name] += each_mistake(_table)
LEARNERS = [
    cell
    for path in authoring.learner_notebooks()
    for cell in json.loads(path.read_text("utf-8"))["cells"]
]
OURS = "  The lesson goes on with ours."


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


def said(capsys, name, answer) -> list[str]:
    """The lines that the check prints; it returns the answer after ✓, and ours otherwise."""
    kept = EXERCISES[name](answer)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0][2:].startswith(name) and max(map(len, lines)) < 200
    if isinstance(EXERCISES[name], Case):
        # nothing goes on with a case's function; behind the verdict stands evidence
        assert kept is answer
        return lines
    assert kept is (answer if lines[0][0] == "✓" else solutions.find(name).function)
    assert lines[0][0] != "✗" or lines[-1] == OURS
    return lines


def test_every_exercise_has_its_place():
    headings = [
        name
        for path in authoring.learner_notebooks()
        for name in saved_notebook.read(path).exercises
    ]
    assert sorted(headings) == sorted(EXERCISES)
    assert all(getattr(check, name) is made for name, made in EXERCISES.items())
    assert {name for name, table in TABLES if table} == EXERCISES.keys()
    built = {name for name, made in EXERCISES.items() if not isinstance(made, Case)}
    assert not [name for name in built if len(RIGHT[name]) < 3]


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_is_right_however_the_notebook_has_set_torch(capsys, name):
    space = {}
    exec(f"{solutions.find(name).imports}\n{solutions.find(name).solution}", space)
    with otherwise():
        kept = EXERCISES[name](space[name])
    lines = capsys.readouterr().out.splitlines()
    assert f"✓ {name}" in lines and not [line for line in lines if line.startswith("  fails")]
    assert inspect.unwrap(kept) is space[name]


@pytest.mark.parametrize("name", EXERCISES)
def test_the_blank_is_not_attempted(capsys, name):
    def blank(*_):
        raise NotImplementedError("your code here")

    goes_on = "" if isinstance(EXERCISES[name], Case) else " The lesson goes on with ours."
    assert said(capsys, name, blank) == [f"○ {name}: not attempted yet.{goes_on}"]


@pytest.mark.parametrize("name", EXERCISES)
def test_typical_mistakes_are_told(subtests, capsys, name):
    for sentence, answer in TOLD[name]:
        with subtests.test(sentence[:50]):
            line = said(capsys, name, answer)[0]
            assert line.startswith(f"✗ {name}: ") and line.endswith((".", "?"))
            assert "your function stopped" not in line and "can't read" not in line
            assert " ".join(sentence.split()) in line


@pytest.mark.parametrize("name", RIGHT)
def test_other_right_answers_are_right(subtests, capsys, name):
    for way, answer in RIGHT[name].items():
        with subtests.test(way):
            EXERCISES[name](answer)
            assert capsys.readouterr().out.splitlines()[0] == f"✓ {name}"


@pytest.mark.parametrize("name", EXERCISES)
def test_nonsense_gets_a_sentence(capsys, name):
    for kind, nonsense in NONSENSE.items():
        assert said(capsys, name, nonsense)[0].startswith(f"✗ {name}: "), kind


def _others(result):
    """Results near the right one that are not right, by what is wrong with them."""
    if isinstance(result, bool | str):
        yield "another", (not result) if isinstance(result, bool) else f"{result}!"
    elif isinstance(result, tuple | list) and any(isinstance(one, torch.Tensor) for one in result):
        for number, one in enumerate(result):
            for kind, other in _others(one):
                changed = type(result)([*result[:number], other, *result[number + 1 :]])
                yield f"{kind}, thing {number}", changed
        yield "one missing", result[:-1]
    elif isinstance(result, tuple | list):
        yield "one more", [*result, *result[:1], 7]
    elif isinstance(result, torch.Tensor) and result.ndim:
        noise = torch.rand(result.shape, generator=torch.Generator().manual_seed(0)) + 0.5
        x = result.double()
        yield "negated", -x
        yield "scaled", 1.5 * x
        yield "noisy", x + 0.01 * noise
        yield "constant", 0 * x + x.mean()
        yield "axes turned", x.mT if x.ndim > 1 else x.flip(0)
        yield "shifted", x.roll(1, -1)
        yield "an axis more", x[None]
        yield "one entry", x.flatten()[0]
    elif isinstance(result, int | float | torch.Tensor):
        yield "negated", -result
        yield "scaled", 1.5 * result
        yield "one more", result + 1


COMPARED = [name for name, made in EXERCISES.items() if made.cases]


@pytest.mark.parametrize("name", COMPARED)
def test_a_result_that_is_near_ours_is_wrong(capsys, name):
    right = solutions.find(name).function
    results = [right(*arguments) for _, arguments in each_case(EXERCISES[name].cases())]
    for kind, _ in _others(results[0]):
        made = [dict(_others(one)).get(kind, one) for one in results]
        if all(map(same, made, results)):  # as zeros that are negated
            continue
        given = iter(made)
        line = said(capsys, name, lambda *_, given=given: next(given))[0]
        assert line.startswith(f"✗ {name}: "), kind


@pytest.mark.parametrize("name", COMPARED)
def test_arguments_are_left_as_they_are(capsys, name):
    _, first = next(each_case(EXERCISES[name].cases()))
    places = [
        number
        for number, one in enumerate(first)
        if isinstance(one, torch.Tensor | torch.nn.Module)
    ]

    def spoils(*arguments):
        result = solutions.find(name).function(*arguments)
        tensor = arguments[places[0]]
        tensor = next(tensor.parameters()) if isinstance(tensor, torch.nn.Module) else tensor
        tensor.data.view(-1)[0] = 1 - tensor.data.view(-1)[0]
        return result

    if places:
        assert "it changes `" in said(capsys, name, spoils)[0]


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_has_hints_a_stub_and_a_solution(name):
    found = solutions.find(name)
    assert len(found.hints) >= 1 and all(len(hint) > 10 for hint in found.hints)
    assert any("".join(cell["source"]) == found.stub for cell in LEARNERS)
    assert found.solution.startswith(f"def {name}(") and "###" not in found.solution
