"""Calls between two processes: a check hears through them what it hears in one, and nothing sent can do anything."""

import contextlib
import copy
import json
import multiprocessing
import threading
from types import SimpleNamespace

import pytest
import torch

from course_utils.author.wire import Peer, Remote
from course_utils.course import ours
from course_utils.course.exercises import EXERCISES
from course_utils.course.fixtures import tiny_model
from course_utils.course.guard import Blank, Guarded
from course_utils.course.questions import Wrong

# models given and returned, hooks, functions, dictionaries, sets
NAMES = ["rotate", "undo_scaling", "move_label", "notices", "path_patched", "qk_terms", "without_heads"]
NAMES += ["with_divisors", "verdict", "hidden_lead", "composition", "by_hand"]
ANSWERS = [(name, mistake) for name in NAMES for mistake in [None, *EXERCISES[name].mistakes]]


class Ends:
    """A learner's end, served by a thread, and ours."""

    def __init__(self):
        self.here, there = multiprocessing.Pipe()
        self.ours, self.theirs = Peer(self.here, trusts=False), Peer(there, trusts=True)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(EOFError, OSError):
            self.theirs.serve()

    def offer(self, function):
        self.theirs.offered.append(function)
        return Remote(self.ours, len(self.theirs.offered) - 1)


@pytest.fixture
def ends():
    made = Ends()
    yield made
    made.here.close()


def far(ends, function):
    """A guarded function at the other end, as a check gets it."""
    answer = ends.offer(Guarded(function))
    answer.changes_arguments = False
    return answer


@pytest.mark.parametrize(("name", "mistake"), ANSWERS)
def test_a_check_says_the_same_from_afar(ends, name, mistake):
    function = EXERCISES[name].mistakes[mistake][0] if mistake else ours.find(name).function
    near = EXERCISES[name].verdict(Guarded(function))
    from_afar = EXERCISES[name].verdict(far(ends, function))
    assert from_afar == near.replace("OrderedDict", "dict")  # one kind of dictionary goes through
    assert near.startswith("✗" if mistake else "✓")


VALUES = [
    [None, True, 3, 2.5, "ä", (1, [2, {3}])],
    {("a", 1): {"b": ()}},
    torch.tensor(3.0, dtype=torch.float64),
    torch.zeros(0, 3),
    torch.arange(6).reshape(2, 3).mT,
    torch.tensor([True, False]),
    torch.tensor([1 + 2j]),
    torch.ones(2, dtype=torch.bfloat16).expand(3, 2),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_arrive_as_they_are(ends, value):
    got = ends.offer(lambda given: given)(value)
    assert type(got) is type(value)
    assert torch.equal(got, value) and got.dtype == value.dtype if isinstance(value, torch.Tensor) else got == value


def test_what_is_not_sent_arrives_as_a_name(ends):
    assert type(ends.offer(object)()).__name__ == "object"
    assert ends.offer(lambda: SimpleNamespace(a=[1]))().a == [1]


def test_failures_arrive_as_such(ends):
    def fails(error):
        raise {"Blank": Blank(), "Wrong": Wrong("it is wrong"), "other": KeyError("x")}[error]

    far_away = ends.offer(fails)
    with pytest.raises(Blank):
        far_away("Blank")
    with pytest.raises(Wrong, match="it is wrong"):
        far_away("Wrong")
    with pytest.raises(Exception, match="x") as caught:
        far_away("other")
    assert type(caught.value).__name__ == "KeyError"


def test_an_answer_does_not_change_our_arguments_but_its_hooks_may(ends):
    def doubles(x):
        x *= 2
        return doubles

    answer = ends.offer(doubles)
    answer.changes_arguments = False
    given = torch.ones(2)
    hook = answer(given)
    assert given.tolist() == [1, 1]
    hook(given)
    assert given.tolist() == [2, 2]


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"{",
        b"3",
        b"[" * 100_000,
        b'{"dict": [["value", {"_init__": 1}]]}',
        b'{"dict": [["value", {"tensor": "load", "shape": [1], "at": 0}]]}',
        b'{"dict": [["value", {"tensor": "float32", "shape": [1000000000000], "at": 0}]]}',
        b'{"dict": [["value", {"tensor": "float32", "shape": [-1], "at": 0}]]}',
        b'{"dict": [["value", {"model": {}, "weights": {}, "set": {}}]]}',
        b'{"dict": [["value", {"same": 7}]]}',
        b'{"dict": [["value", ' + b"9" * 5000 + b"]]}",
        json.dumps([0] * 1_000_000).encode(),
    ],
    ids=lambda words: words[:60].decode(),
)
def test_what_can_not_be_read_is_wrong(words):
    here = SimpleNamespace(send_bytes=lambda message: None, recv_bytes=lambda: words)
    with pytest.raises(Wrong, match=r"can't be read|too much"):
        Remote(Peer(here, trusts=False), 0)()


def test_who_is_not_trusted_says_nothing_of_how_a_model_is_built(ends):
    model = tiny_model()

    def changed(given):
        given.blocks[0].attn.attn_scale = 1.0
        given.cfg.tokenizer_name = "somebody/else"
        given.W_E.data[0] = 7
        return given

    def new(given):
        return tiny_model(d_model=12)

    got = ends.offer(lambda given: changed(copy.deepcopy(given)))(model)
    assert got.blocks[0].attn.attn_scale == 1.0 and got.W_E[0, 0] == 7 and got is not model
    assert got.cfg.tokenizer_name == model.cfg.tokenizer_name and model.W_E[0, 0] != 7
    assert ends.offer(lambda given: given)(model) is model
    assert "other shapes" in type(ends.offer(new)(model)).__name__
