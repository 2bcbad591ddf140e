"""What every check does with a learner's function: side effects, time, exceptions, print."""

import contextlib
import os
import random
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from transformer_lens import ActivationCache, FactoredMatrix

from course_lessons.fixtures import tiny_model
from course_lessons.l01_transformer.checks import Operations
from course_utils import _torch_state
from course_utils.course import check, exercises, guard, solutions
from course_utils.course.expectations import Unfit, Wrong, number, pair, tensor

TABLE = torch.ones(3, 3)  # stands for what a notebook defines outside the function
CACHE = {"not": "data"}
BLANK = 'def answer(x):\n    raise NotImplementedError("your code here")'


@pytest.fixture
def double(monkeypatch):
    """An exercise that is no lesson's: `double(x) → 2 x`."""

    def double(answer):
        for x in (torch.ones(2), torch.arange(3.0)):
            if not torch.equal(tensor(answer(x), tuple(x.shape), "[pos]"), 2 * x):
                raise Wrong("that is not twice as much.")

    monkeypatch.setattr(exercises, "EXERCISES", {})
    ours_here = solutions.Ours("double", "def double(x):\n    return 2 * x\n", "", ())
    monkeypatch.setattr(solutions, "_all", lambda: {"double": ours_here})
    return exercises.judged(double)


def told(function, *arguments) -> str:
    """The sentence that a call gets."""
    with pytest.raises(Wrong) as caught:
        guard.Guarded(function)(*arguments)
    assert len(f"✗ in_context_learning_score: {caught.value}") < 230
    return str(caught.value)


# --- the verdict, and what the lesson goes on with ---


def test_right_wrong_and_blank(double, capsys):
    def right(x):
        return x + x

    assert double(right) is right
    assert double(lambda x: x) is solutions.find("double").function
    assert double(space(BLANK)) is solutions.find("double").function
    assert capsys.readouterr().out.splitlines() == [
        "✓ double",
        "✗ double: that is not twice as much.",
        "  The lesson goes on with ours.",
        "○ double: not attempted yet. The lesson goes on with ours.",
    ]


def test_a_right_answer_that_the_lesson_cannot_go_on_with(double, capsys, monkeypatch):
    def check_it(answer):
        answer(torch.ones(2))
        raise Unfit("training would be slow")

    monkeypatch.setattr(double, "check", check_it)
    assert double(lambda x: 2 * x) is solutions.find("double").function
    assert capsys.readouterr().out.splitlines() == [
        "✓ double",
        "  It is right, but training would be slow.",
        "  The lesson goes on with ours.",
    ]
    monkeypatch.setattr(double, "check", lambda answer: answer(torch.ones(2)))
    again = double(right := lambda x: 2 * x)
    assert again is right and capsys.readouterr().out.splitlines() == ["✓ double"]


def space(source: str, **names):
    """The function `answer` of a source."""
    exec(compile(source, "<cell>", "exec"), names)
    return names["answer"]


def test_our_function_is_no_answer(double, capsys):
    double(double(lambda x: x))
    assert "○ double: this is our function" in capsys.readouterr().out


def test_only_our_own_blank_is_a_blank(double, capsys):
    def of_torch(x):
        return torch.ones(2, dtype=torch.int64).log_softmax(-1)

    def own(x):
        raise NotImplementedError("later")

    def below(x):
        return space(BLANK)(x)

    for answer in (of_torch, own, below):
        double(answer)
        assert capsys.readouterr().out.startswith("✗ double: your function stopped in the line")


def test_numpy_arrays_are_taken_and_come_back_as_tensors(double, capsys):
    kept = double(lambda x: 2 * x.numpy().astype(np.float64))
    assert capsys.readouterr().out == "✓ double\n"
    result = kept(torch.ones(2))
    assert isinstance(result, torch.Tensor) and result.dtype == torch.float32


def test_float64_is_right_and_comes_back_as_what_the_lesson_goes_on_with(double, capsys):
    kept = double(lambda x: 2 * x.double())
    assert capsys.readouterr().out == "✓ double\n" and kept(torch.ones(2)).dtype == torch.float32


def test_complex_arrays_of_numpy_become_tensors():
    values = guard.as_tensors(np.linalg.eigvals(np.array([[0.0, -1], [1, 0]])))  # i and −i
    assert isinstance(values, torch.Tensor) and values.is_complex()


def test_a_check_that_breaks_says_so(monkeypatch, capsys, double):
    double.check = lambda answer: answer(torch.ones(2)).nothing
    double(lambda x: 2 * x)
    assert (
        "✗ double: the check can't read what your function returns (AttributeError"
        in capsys.readouterr().out
    )


# --- side effects ---


def in_place(x):
    x += 1


def test_a_changed_argument_is_named():
    assert told(in_place, torch.ones(2)).startswith("it changes `x`, which it was given")
    assert told(in_place, np.ones(2)).startswith("it changes `x`, which")
    assert told(lambda words: words.append("b"), ["a"]).startswith("it changes `words`, which")
    assert told(lambda a, b: b[1].zero_(), 3, (None, torch.ones(1))).startswith(
        "it changes `b[1]`, which"
    )
    assert told(lambda table: table.pop("a"), {"a": 1}).startswith("it changes `table")
    assert told(lambda seen: seen.add(2), {1}).startswith("it changes `seen")
    assert told(lambda lists: lists[0].sort(), [[2, 1]]).startswith("it changes `lists[0][0]`")
    assert told(
        lambda ov: ov.A.mul_(2), FactoredMatrix(torch.ones(2, 1), torch.ones(1, 2))
    ).startswith("it changes `ov.A`")
    assert told(lambda x: x.requires_grad_(), torch.ones(1)).startswith(
        "it changes `x.requires_grad`"
    )
    assert told(lambda x: x.sum().backward(), torch.ones(1, requires_grad=True)).startswith(
        "it leaves a gradient in `x`"
    )


def test_nan_and_untouched_arguments_are_no_change():
    x = torch.tensor([1.0, float("nan")])
    guard.Guarded(lambda *given: given)(
        x, np.array([np.nan]), [1, [2]], {"a": x}, {1, 2}, float("nan"), x.to_sparse()
    )


def test_a_changed_model_is_told():
    def hooked(model):
        model.add_hook("blocks.0.hook_resid_pre", lambda value, hook: value)

    def switched(model):
        model.set_use_attn_result(True)

    def scaled(model):
        model.W_V.data *= 2  # W_V is stacked from the layers: a copy
        model.blocks[1].attn.W_V.data *= 2

    assert told(hooked, tiny_model()).startswith(
        "it leaves a hook on `model`, at blocks.0.hook_resid_pre"
    )
    assert told(switched, tiny_model()).startswith(
        "it leaves `model.cfg.use_attn_result` set to True"
    )
    assert told(scaled, tiny_model()).startswith("it changes `model.blocks.1.attn.W_V`")
    assert told(lambda model: model.train(), tiny_model()).startswith("it changes `model")
    assert told(lambda model: model.requires_grad_(), tiny_model()).startswith("it changes `model")
    assert told(lambda model: model.blocks[0].attn.IGNORE.zero_(), tiny_model()).startswith(
        "it changes `model.blocks.0.attn.IGNORE`"
    )


def test_using_a_model_and_a_cache_is_no_change():
    model, tokens = tiny_model(), torch.tensor([[0, 3, 1]])

    def uses(model, cache):
        model.run_with_cache(tokens)
        model.run_with_hooks(
            tokens, fwd_hooks=[("blocks.0.hook_resid_pre", lambda value, hook: 2 * value)]
        )
        return cache["resid_post", 1]

    _, cache = model.run_with_cache(tokens)
    guard.Guarded(uses)(tiny_model(), cache)
    assert isinstance(cache, ActivationCache)
    assert told(lambda cache: cache.cache_dict["hook_embed"].zero_(), cache).startswith(
        "it changes `cache"
    )


@pytest.mark.parametrize(
    ("switch", "called"),
    [
        (lambda: torch.set_grad_enabled(False), "set_grad_enabled(False)"),
        (lambda: torch.set_default_dtype(torch.float64), "set_default_dtype(torch.float64)"),
        (lambda: torch.set_default_device("meta"), "set_default_device(meta)"),
        (lambda: torch.set_num_threads(7), "set_num_threads(7)"),
        (lambda: torch.use_deterministic_algorithms(True), "use_deterministic_algorithms(True)"),
        (lambda: torch.manual_seed(20_221_208), "manual_seed(20221208)"),
    ],
)
def test_a_switch_of_torch_is_told_and_set_back(double, capsys, switch, called):
    before = [read() for read in guard.SWITCHES.values()]

    def answer(x):
        switch()
        return x

    double(answer)
    sentence = f"it leaves `torch.{called}` in force for the whole notebook: set it back, or do"
    assert sentence in capsys.readouterr().out
    assert [read() for read in guard.SWITCHES.values()] == before


def test_switches_are_set_back_after_an_exception(double):
    def answer(x):
        torch.set_grad_enabled(False)
        raise ValueError

    double(answer)
    assert torch.is_grad_enabled()


def test_the_answers_randomness_is_left_alone(double):
    def drawn():
        return torch.rand(1).item(), np.random.rand(), random.random()

    def seed():
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)

    seed()
    expected = drawn()
    seed()
    double(lambda x: drawn() and 2 * x)
    assert drawn() == expected


# --- time, exceptions, print ---


@pytest.mark.parametrize("catching", ["", "        except Exception:\n            pass\n"])
def test_an_endless_loop_ends(monkeypatch, catching):
    monkeypatch.setattr(guard, "SECONDS", 0.3)
    # Python 3.10 looks for interruptions after a call, and not where a loop leads straight back
    # into a try
    tried = f"        try:\n            id(x)\n{catching}" if catching else "        x\n"
    said = told(space(f"def answer(x):\n    while True:\n{tried}"), 1)
    assert re.match(r"after \d+ s it was still running, and was stopped: ", said)


def test_it_says_how_long_a_loop_has_run_and_not_how_long_it_might(monkeypatch):
    """The limit is of the processor's time: on a busy machine more time goes by."""
    monkeypatch.setattr(guard, "SECONDS", 0.1)
    monkeypatch.setattr(guard.time, "process_time", lambda: 0.0)  # others have the processor
    monkeypatch.setattr(guard, "SLOWED", 15)
    said = told(space("def answer(x):\n    while True:\n        x\n"), 1)
    assert said.startswith(("after 2 s", "after 3 s"))


def test_a_loop_that_swallows_everything_ends(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.3)

    def stubborn(x):
        for _ in range(2):
            try:
                while True:
                    pass
            except:  # noqa: E722
                pass

    guard.Guarded(stubborn)(1)  # the first try was cut short, and so was the second


def test_no_late_interruption(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.001)
    for _ in range(200):
        with contextlib.suppress(Wrong):
            guard.Guarded(lambda: sum(range(20_000)))()
    assert sum(range(1_000_000)) == 499_999_500_000


def test_an_exception_is_told_with_the_learners_line():
    def shapes(x):
        y = x @ torch.ones(5, 2)
        return y

    sentence = told(shapes, torch.ones(3))
    assert sentence.startswith(
        "your function stopped in the line `y = x @ torch.ones(5, 2)` with RuntimeError: "
    )
    assert "mat1 and mat2 shapes cannot be multiplied" in sentence
    assert told(lambda x: x, 1, 2).startswith(
        "the check calls your function with 2 arguments, and that fails: too many"
    )
    assert "with SystemExit" in told(lambda x: exit(), 1)
    assert "no message" in told(space("def answer(x):\n    raise ValueError"), 1)


def test_what_the_check_hands_over_may_raise_wrong():
    def refuses():
        raise Wrong("each part once.")

    assert told(lambda part: part(), refuses) == "each part once."


def helper():
    return TABLE.sum()


def test_a_notebook_variable_is_named(double, capsys):
    double(lambda x: x @ TABLE)
    assert capsys.readouterr().out.splitlines()[1].startswith("  It reads `TABLE` of the notebook")
    assert guard.notebook_data(lambda x: [helper() for _ in x]) == ["TABLE"]
    assert guard.notebook_data(lambda x: (x.TABLE, CACHE)) == []


def test_print_is_shown_once(double, capsys):
    def answer(x):
        print("x is", x.tolist())
        return 2 * x

    double(answer)
    assert capsys.readouterr().out == "x is [1.0, 1.0]\n✓ double\n"


def test_the_call_that_fails_shows_what_it_printed(double, capsys):
    def answer(x):
        print(len(x))
        return 2 * x if len(x) == 2 else None / x

    double(answer)
    assert capsys.readouterr().out.startswith("3\n✗ double: your function stopped")


def test_a_long_print_is_cut(double, capsys):
    double(lambda x: [print("y" * 100) for _ in range(1000)] and 2 * x)
    printed = capsys.readouterr().out
    assert len(printed) < 1100 and printed.endswith("…\n✓ double\n")


# --- questions ---


@pytest.mark.parametrize(
    "value", [2, 2.0, Fraction(2), np.float32(2), np.int64(2), np.array(2), torch.tensor([[2]])]
)
def test_every_number_is_a_number(value):
    assert number(value) == 2.0 and type(number(value)) is float


@pytest.mark.parametrize(
    "value", [True, np.bool_(True), torch.tensor(True), "2", None, 2j, [2], torch.ones(2)]
)
def test_what_is_no_number_is_told(value):
    with pytest.raises(Wrong, match="it should return one number, not"):
        number(value)


def test_a_tensor_is_copied():
    value = torch.ones(2)
    copy = tensor(value, (2,), "[pos]")
    value += 1
    assert torch.equal(copy, torch.ones(2))
    assert tensor(value.to_sparse(), (2,), "[pos]").layout is torch.strided


def test_a_pair():
    assert pair([1, 2], "a and b") == (1, 2)
    with pytest.raises(Wrong, match="two things, a and b, not int"):
        pair(3, "a and b")


def test_operations_are_counted():
    with Operations() as made:
        (torch.ones(2, 3) @ torch.ones(3)).exp()
    assert made.count == 4
    with Operations() as made:
        torch.stack([value.exp() for value in torch.ones(50)])
    assert made.count > 50


# --- hint, solution, reset ---


@pytest.fixture
def fresh(monkeypatch):
    for name in ("direct_path", "alphabet_weights"):
        monkeypatch.setattr(exercises.EXERCISES[name], "attempted", False)
        monkeypatch.setattr(exercises.EXERCISES[name], "hints_shown", 0)


def test_hints_come_one_after_the_other(fresh, capsys):
    for _ in range(3):
        check.hint("alphabet_weights")
    first, second, last = capsys.readouterr().out.strip().splitlines()
    assert first.startswith("**Hint 1 of 2** · A logit is") and second.startswith(
        "**Hint 2 of 2** · "
    )
    assert (
        last == 'There is no further hint for alphabet_weights; check.solution("alphabet_weights") '
        "shows our solution."
    )


def test_the_solution_comes_after_an_attempt(fresh, capsys):
    check.solution("direct_path")
    check.direct_path(space(BLANK.replace("(x)", "(*x)")))
    check.solution("direct_path")
    assert "return W_E" not in capsys.readouterr().out
    check.direct_path(lambda W_E, W_U: None)
    check.solution("direct_path")
    assert capsys.readouterr().out.endswith("    return W_E @ W_U\n")


def test_reset_gives_the_blank_back(fresh, capsys, monkeypatch):
    check.reset("direct_path")
    printed = capsys.readouterr().out
    assert (
        "def direct_path(" in printed and 'raise NotImplementedError("your code here")' in printed
    )
    assert "check.direct_path(direct_path)" in printed and "SOLUTION" not in printed
    cells = []
    shell = type("Shell", (), {"set_next_input": cells.append})
    monkeypatch.setattr(exercises, "get_ipython", lambda: shell)
    check.reset("direct_path")
    assert cells == [printed.removesuffix("\n")] and capsys.readouterr().out == ""


@pytest.mark.parametrize("show", [check.hint, check.solution, check.reset])
def test_an_unknown_name_gets_near_ones(show, capsys):
    show("direct_pathes")
    line = capsys.readouterr().out
    assert (
        line.startswith("There is no exercise 'direct_pathes'. Did you mean 'direct_path'")
        and line.count("\n") == 1
    )


def _ints(tables):
    return tuple((10 * table).long() for table in tables)


@pytest.mark.parametrize(
    ("name", "changed", "sentence"),
    [
        (
            "skip_trigrams",
            lambda ids: tuple(each.tolist() for each in ids),
            "return tensors, as `topk` does",
        ),
        ("two_occurrences", torch.tensor, "return its `.tolist()`"),
        ("keep_in_mind", _ints, "torch.zeros makes floats"),
        (
            "by_hand",
            lambda weights: {name: weight.tolist() for name, weight in weights.items()},
            "should be a tensor",
        ),
        ("move_label", lambda hooks: hooks[0], "put the one hook into a list"),
        (
            "about",
            lambda verdicts: [one if one else None for one in verdicts],
            "should be True or False",
        ),
    ],
)
def test_the_lesson_never_goes_on_with_what_its_next_cell_cannot_use(
    name, changed, sentence, capsys
):
    right = solutions.find(name).function

    def answer(*args, **kwargs):
        return changed(right(*args, **kwargs))

    assert getattr(check, name)(answer) is not answer
    assert sentence in capsys.readouterr().out


def test_numpy_weights_in_a_dictionary_become_tensors(capsys):
    right = solutions.find("by_hand").function
    line = torch.tensor([1.0, 2.0, 4.0])
    goes_on = check.by_hand(
        lambda line: {name: weight.numpy() for name, weight in right(line).items()}
    )
    assert "✓ by_hand" in capsys.readouterr().out
    assert all(torch.equal(weight, right(line)[name]) for name, weight in goes_on(line).items())


def test_what_a_case_prints_is_shown(capsys):
    check.case_1(lambda: print("a look") or ["1.2 matters"])
    assert capsys.readouterr().out.startswith("a look\n")


@pytest.mark.parametrize("name", [["double"], {}, None, 3, len])
@pytest.mark.parametrize("show", [check.hint, check.solution, check.reset])
def test_what_is_no_name_hears_so(show, name, capsys):
    show(name)
    assert "Give its name as the heading writes it" in capsys.readouterr().out


def test_what_python_derives_from_a_runtime_error_is_no_matter_of_shapes(capsys):
    def endless(q, k):
        return endless(q, k)

    def later(q, k):
        raise NotImplementedError("later")

    for answer, said in ((endless, "RecursionError"), (later, "NotImplementedError: later")):
        check.attention_scores(answer)
        line = capsys.readouterr().out.splitlines()[0]
        assert "can't combine" not in line and said in line


def test_a_verdict_in_the_encoding_of_western_windows():
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    code = "import course_utils.course; print('✓ double')"
    made = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert made.stdout.split() == [b"?", b"double"]


def test_a_switch_that_the_notebook_has_set_is_named_once_with_the_way_back(double, capsys):
    _torch_state.tell.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        double(lambda x: 2 * x)
        double(lambda x: 2 * x)
    finally:
        torch.set_default_dtype(torch.float32)
    first, told, second = capsys.readouterr().out.splitlines()
    assert first == second == "✓ double"
    assert told.startswith("torch.set_default_dtype(torch.float64) holds in this notebook")
    assert told.endswith("torch.set_default_dtype(torch.float32) sets it back.")
