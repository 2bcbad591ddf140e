"""Claims and identities: what is printed, what fails, what is recorded."""

import json
import math

import numpy as np
import pytest
import torch

from course_lessons import replication
from course_utils._files import write_checksums
from course_utils.course import claims

TABLE = {
    "a share": {"value": 0.968, "tolerance": 0.005},
    "a loss": {"value": 3.5, "tolerance": 0.02},
    "heads": {"value": [3, 5]},
    "a count": {"value": 9469},
    "scores": {"value": [0.73, 0.69], "tolerance": 0.01},
    "by length": {"value": {"2": 0.1, "3": 0.2}, "tolerance": {"2": 0.01, "3": 0.1}},
    "by seed": {"value": {"a": [0.1, 0.2], "b": [0.3]}, "tolerance": 0.1},
    "worst": {"least": 0.999},
    "between": {"least": 0.1, "most": 0.2},
    "true": {"value": True},
    "a word": {"value": "key"},
}


@pytest.fixture(autouse=True)
def lessons(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "expectations", lambda: TABLE)
    monkeypatch.setenv(claims.MODE, "strict")
    monkeypatch.chdir(tmp_path)


HOLDING = {
    "a share": [0.968, 0.964, 0.9729, torch.tensor(0.97), np.float32(0.967)],
    "a loss": [3.5, 3.519, np.float64(3.481)],
    "heads": [[3, 5], (3, 5), torch.tensor([3, 5])],
    "a count": [9469, torch.tensor(9469)],
    "scores": [[0.73, 0.69], torch.tensor([0.735, 0.695])],
    "by length": [{"2": 0.1, "3": 0.29}, {2: torch.tensor(0.105), 3: 0.2}],
    "worst": [0.9991, 1, [0.9995, 1.0], {"a": 1.0}],
    "between": [0.1, 0.2, [0.15, 0.16]],
    "true": [True, torch.tensor(True), np.bool_(True)],
    "a word": ["key"],
}
FAILING = {
    "a share": [0.9, 0.98, math.nan, [0.968], True, "0.968"],
    "a loss": [3.53, -3.5, math.inf],
    "heads": [[5, 3], [3], [3, 5, 5], [3.0, 5.0], 3],
    "a count": [9468, 9469.0, "9469"],
    "scores": [[0.73, 0.67], [0.73], {"0": 0.73, "1": 0.69}],
    "by length": [{"2": 0.12, "3": 0.2}, {"2": 0.1}, {"2": 0.1, "4": 0.2}, [0.1, 0.2]],
    "worst": [0.99, math.nan, [1.0, 0.9], []],
    "between": [0.09, 0.21, [0.15, 0.3]],
    "true": [False, 1, "yes"],
    "a word": ["value", ["key"]],
}
cases = [(statement, value) for statement, values in HOLDING.items() for value in values]
failures = [(statement, value) for statement, values in FAILING.items() for value in values]


@pytest.mark.parametrize(("statement", "value"), cases)
def test_a_claim_that_holds_prints_one_line(capsys, statement, value):
    assert claims.claim(statement, value) is None
    assert capsys.readouterr().out.startswith(f"▪ {statement}: ")


@pytest.mark.parametrize(("statement", "value"), failures)
def test_a_claim_that_does_not_hold_fails(statement, value):
    with pytest.raises(claims.ClaimFailed, match=f"{statement}: expected .*measured: "):
        claims.claim(statement, value)


@pytest.mark.parametrize(("statement", "value"), failures)
def test_a_learner_is_told_what_we_measured(capsys, monkeypatch, statement, value):
    monkeypatch.delenv(claims.MODE)
    claims.claim(statement, value)
    assert "\n  (the course's own notebook: " in capsys.readouterr().out


def test_a_statement_without_an_entry(capsys, monkeypatch):
    with pytest.raises(
        claims.ClaimFailed, match=r"No lesson's claims.json has 'news'; measured: 0.5"
    ):
        claims.claim("news", 0.5)
    monkeypatch.delenv(claims.MODE)  # a learner's own, or a course without its tables
    capsys.readouterr()
    claims.claim("news", 0.5, "nats")
    assert capsys.readouterr().out == "▪ news: 0.5 nats\n"


@pytest.mark.parametrize(
    ("statement", "value", "unit", "text"),
    [
        ("a share", 0.9681, "", "0.968"),
        ("a share", 0.9681, "%", "96.8 %"),
        ("a loss", 3.4999, "nats", "3.50 nats"),
        ("a loss", -3.4999, "nats", "−3.50 nats"),
        ("a loss", -0.004, "nats", "0.00 nats"),
        ("heads", [3, 5], "", "3, 5"),
        ("a count", 9469, "lists", "9,469 lists"),
        ("scores", torch.tensor([0.7312, 0.6899]), "", "0.73, 0.69"),
        ("true", True, "", "yes"),
        ("worst", 0.99987, "", "1"),
        ("by length", {2: 0.1, 3: 0.2}, "", "2: 0.1, 3: 0.2"),
        ("by seed", {"a": [0.1, 0.2], "b": [0.3]}, "", "a: 0.1, 0.2; b: 0.3"),
    ],
)
def test_digits_follow_the_tolerance(capsys, monkeypatch, statement, value, unit, text):
    monkeypatch.delenv(claims.MODE)
    claims.claim(statement, value, unit)
    assert capsys.readouterr().out.splitlines()[0] == f"▪ {statement}: {text}"


def test_an_identity_holds_two_sides_together(capsys):
    x = torch.rand(3, 4)
    claims.identity("x = x", x, x + 1e-6)
    claims.identity("x is not 2 x", x, x, control=2 * x)
    claims.identity("lists", [1, 2], (1, 2))
    claims.identity("true", bool(x.shape == (3, 4)))
    assert capsys.readouterr().out.splitlines() == [
        "≡ x = x (to 0.0001)",
        "≡ x is not 2 x (to 0.0001); the control: differs",
        "≡ lists (to 0.0001)",
        "≡ true",
    ]


@pytest.mark.parametrize(
    ("left", "right", "more"),
    [
        (torch.zeros(2), torch.ones(2), {}),
        (torch.zeros(2), torch.full((2,), math.nan), {}),
        (torch.zeros(2), torch.full((2,), 1e-3), {}),
        (1.0, 1.2, {"within": 0.1}),
        (False, True, {}),
        ([1], [2], {}),
        (
            torch.zeros(2),
            torch.zeros(2),
            {"control": torch.zeros(2)},
        ),  # a control that cannot refute
    ],
)
def test_an_identity_that_does_not_hold_fails(left, right, more):
    with pytest.raises(claims.ClaimFailed):
        claims.identity("equal", left, right, **more)


def test_recorded_statements_raise_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv(claims.MODE, f"record:{tmp_path / 'statements'}")
    claims.claim("a share", 0.2)
    claims.claim("news", torch.tensor([1, 2]))
    claims.identity("equal", 1.0, 2.0)
    lines = [
        json.loads(line)
        for line in (tmp_path / "statements").read_text(encoding="utf-8").splitlines()
    ]
    assert [(line["kind"], line["statement"], line["holds"]) for line in lines] == [
        ("claim", "a share", False),
        ("claim", "news", False),
        ("identity", "equal", False),
    ]
    assert lines[1]["value"] == [1, 2]


def test_siblings_show_the_chosen_claims_and_count_all(monkeypatch, tmp_path):
    def row(ours, *theirs, agree, verdict):
        siblings = {f"seed-{i}": value for i, value in enumerate(theirs)}
        return {"ours": ours, "siblings": siblings, "agree": agree, "verdict": verdict}

    rows = {
        "a share": row(0.968, 0.95, 0.99, 0.97, agree=[3], verdict="holds"),
        "scores": row(
            [0.73, 0.69], [0.7, 0.2], [0.75, 0.7], [0.74, 0.3], agree=[3, 1], verdict="k of n"
        ),
        "a loss": row(3.5, None, 4.5, 4.5, agree=[0], verdict="ours alone"),
    }
    (tmp_path / "replication.json").write_text(json.dumps({"05_x": rows}), encoding="utf-8")
    write_checksums(tmp_path)
    monkeypatch.setattr(replication, "DATA", tmp_path)
    monkeypatch.setattr(replication, "table", lambda lesson: TABLE)
    lines = replication.siblings("05_x", ["scores", "a share"]).data.splitlines()
    assert lines[0] == "| claim | ours | 3 siblings | siblings that agree |"
    assert lines[2] == "| scores | 0.73, 0.69 | 0.70 to 0.75, 0.20 to 0.70 | 3, 1 of 3 |"
    assert lines[3] == "| a share | 0.968 | 0.950 to 0.990 | 3 of 3 |"
    count = "1 hold on every sibling, 1 on some or for some of their numbers, and 1 are ours alone."
    assert lines[-1] == f"Of the lesson's 3 claims about the trained model {count}"
    with pytest.raises(KeyError):
        replication.siblings("05_x", ["worst"])


def test_nothing_is_not_equal_to_nothing():
    with pytest.raises(ValueError, match="nothing to compare"):
        claims.identity("empty", torch.zeros(0), torch.zeros(0))
    with pytest.raises(ValueError, match=r"shapes \[3\] and \[4\] can't be equal"):
        claims.identity("two lengths", torch.zeros(3), torch.zeros(4))


@pytest.mark.parametrize(
    ("argument", "wrong"), [("statement", ["a"]), ("se", "x"), ("unit", 3), ("predicted", 1)]
)
def test_a_claim_of_the_wrong_kind_is_one_sentence(argument, wrong):
    given = {"statement": "a share", "value": 0.5, argument: wrong}
    with pytest.raises(TypeError, match=f"{argument} must be"):
        claims.claim(**given)
