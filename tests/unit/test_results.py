"""Whatever a right answer returns, the lesson goes on with what ours would have returned."""

import contextlib
import io

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from course_lessons.sealed.trial import Case
from course_utils.course import guard, solutions
from course_utils.course.exercises import EXERCISES, each_case
from course_utils.course.expectations import same
from course_utils.course.results import as_ours, as_tensors

BUILT = [name for name, made in EXERCISES.items() if not isinstance(made, Case)]


def _whole(value):
    is_whole = isinstance(value, Tensor) and value.dtype == torch.float32
    return value.long() if is_whole and (value == value.round()).all() else value


def _number(kind):
    """A number of Python's as another library's, and a list of them as an array."""

    def change(value):
        is_list = isinstance(value, list) and value and isinstance(value[0], bool | int | float)
        return kind(value) if is_list or isinstance(value, bool | int | float) else value

    return change


def _floats(change):
    is_of_floats = lambda value: isinstance(value, Tensor) and value.is_floating_point()  # noqa: E731
    return lambda value: change(value) if is_of_floats(value) else value


def _tensors(change):
    return lambda value: change(value) if isinstance(value, Tensor) and value.ndim else value


OTHERWISE = {
    "float64": _floats(Tensor.double),
    "float32 for whole numbers": _tensors(lambda value: value.float()),
    "whole numbers": _whole,
    "numpy arrays": _tensors(lambda value: value.detach().numpy()),
    "sparse tensors": _tensors(Tensor.to_sparse),
    "parameters": _floats(nn.Parameter),
    "numbers of numpy": _number(np.array),
    "numbers of torch": _number(torch.tensor),
    "a tuple": lambda value: tuple(value) if type(value) is list else value,
    "a list": lambda value: list(value) if type(value) is tuple else value,
}


def _changed(value, change):
    """A result with everything in it changed."""
    other = change(value)
    if type(other) in (list, tuple):
        return type(other)(_changed(one, change) for one in other)
    if type(other) is dict:
        return {key: _changed(one, change) for key, one in other.items()}
    return other


def _kind(value):
    """What a later cell would notice of a result, besides its values."""
    if isinstance(value, Tensor):
        return type(value), value.dtype, value.layout, value.requires_grad
    if isinstance(value, dict):
        return {key: _kind(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [_kind(one) for one in value]
    return type(value)


def _first_call(name):
    """Arguments and result of the first call that a check makes, of our function."""
    exercise, ours = EXERCISES[name], solutions.find(name).function
    if exercise.cases:
        _, arguments = next(each_case(exercise.cases()))
        return (arguments, {}, ours(*arguments))
    answer = guard.Guarded(ours)
    with contextlib.redirect_stdout(io.StringIO()):
        assert exercise.verdict(answer).startswith("✓")
    return answer.first


@pytest.mark.parametrize("name", BUILT)
def test_the_lesson_goes_on_with_the_kind_of_thing_that_ours_returns(subtests, name):
    args, kwargs, ours = _first_call(name)
    for way, change in OTHERWISE.items():
        with subtests.test(way):
            result = _changed(ours, change)
            got = as_ours(as_tensors(result, (args, kwargs)), ours)
            assert _kind(got) == _kind(ours)
            assert callable(got) or same(got, ours)


def test_nothing_is_changed_where_nothing_differs():
    ours = {"table": torch.rand(2, 2), "ids": [3, 4], "named": ("a", 0.5, True, None)}
    assert as_ours(as_tensors(ours), ours) is ours


def test_no_value_changes():
    assert as_ours(2.5, 3) == 2.5 and as_ours(2.0, 3) == 2
    halves = torch.tensor([0.5, 1.0])
    assert as_ours(halves, torch.tensor([1, 2])) is halves
    assert as_ours([1, 2, 3], [0.5]) == [1.0, 2.0, 3.0]
    assert as_ours("7", 7) == "7" and as_ours(7, None) == 7


def test_gradients_and_double_precision_stay_where_they_were_given():
    weight = torch.ones(3, dtype=torch.double, requires_grad=True)
    result = 2 * weight
    assert as_ours(as_tensors(result, weight), torch.rand(3)) is result
    assert as_tensors(nn.Parameter(torch.ones(3)), torch.rand(3)).requires_grad is False
    trained = nn.Linear(2, 2)
    assert as_tensors(trained(torch.rand(2)), {"model": trained}).requires_grad


TRAINED_THROUGH = ("attention_scores", "masked", "transformer", "direct_path", "smeared")


@pytest.mark.parametrize("way", ["numpy arrays", "parameters"])
@pytest.mark.parametrize("name", TRAINED_THROUGH)
def test_the_lesson_trains_through_no_answer_without_gradients(capsys, name, way):
    ours = solutions.find(name).function

    def answer(*arguments):
        return _changed(ours(*arguments), OTHERWISE[way])

    assert EXERCISES[name](answer) is ours
    assert "It is right, but training needs gradients" in capsys.readouterr().out
