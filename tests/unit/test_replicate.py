"""Replication: siblings' heads get the numbers of ours, and verdicts follow the fixed rule."""

import json
from pathlib import Path

import pytest
import torch
from nbformat import v4

from course_tools import authoring, replicate
from course_utils import load, models, text
from course_utils._files import DATA

RESULT = json.loads(replicate.RESULT.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shuffled():
    """The two-layer model with its heads in another order, and that order."""
    model, other = load("two-layer"), load("two-layer")
    heads = torch.stack(
        [torch.randperm(8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    )
    weights = replicate.renumbered(dict(model.named_parameters()), heads)
    other.load_state_dict(weights, strict=False)
    return model, other, heads


def test_renumbering_heads_changes_nothing_that_is_computed(shuffled):
    model, other, _ = shuffled
    tokens = text.held_out_tokens()[:1, :32]
    torch.testing.assert_close(other(tokens), model(tokens), atol=1e-3, rtol=0)
    assert not torch.equal(other.W_Q, model.W_Q)


def test_heads_get_their_numbers_back(shuffled):
    model, other, heads = shuffled
    alike = replicate.likeness(model, other, text.held_out_tokens()[:2])
    assert alike.shape == (2, 8, 8)
    assert torch.equal(replicate.order(alike), heads.argsort(1))
    untrained = replicate.likeness(model, load("two-layer", step=0), text.held_out_tokens()[:2])
    # the control: nobody is like ours by chance
    assert untrained.amax((1, 2)).max() < 1 < alike.amax(2).min()


def test_the_pairing_is_the_best_together_and_not_one_by_one():
    # the first row's best would leave the second with nothing
    alike = torch.tensor([[[1.0, 0.9], [0.9, 0.0]]])
    assert replicate.order(alike).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("entry", "ours", "values", "expected"),
    [
        ({"value": 5.0, "tolerance": 0.1}, 5.0, [6.0, 4.0, 6.3, -5.0], [2]),  # a quarter
        # the tolerance, where it is wider
        ({"value": 0.0, "tolerance": 0.1}, 0.02, [-0.05, 0.2], [1]),
        ({"value": 5.0, "tolerance": 0.01, "kind": "level"}, 5.0, [5.09, 5.2], [1]),
        # 0.1 would be no margin
        ({"value": 0.04, "tolerance": 0.01, "kind": "level"}, 0.04, [0.049, 0.06], [1]),
        ({"value": 0.97, "tolerance": 0.01, "kind": "level"}, 0.97, [0.88, 0.8], [1]),
        ({"least": 0.9}, 0.95, [0.91, 0.5], [1]),
        ({"most": 0.1}, 0.02, [0.05, 0.5], [1]),
        # a lesson that stopped before this statement does not agree
        ({"value": 3}, 3, [2, 4, 5, None], [2]),
        ({"value": "2", "kind": "count"}, "2", ["1", "0"], [1]),
        ({"value": 0}, 0, [0, 1], [1]),  # none is not one
        ({"value": 100}, 100, [110, 90, 111], [2]),  # its square root
        ({"value": [6, 1], "kind": "equal"}, [6, 1], [[6, 1], [1, 6], [6, 2]], [2, 1]),  # heads
        ({"value": "key", "kind": "qualitative"}, "key", ["key", "value"], [1]),
        ({"value": True, "kind": "qualitative"}, True, [True, False], [1]),
        (
            {"value": [0.8, -0.4], "tolerance": 0.1, "kind": "qualitative"},
            [0.8, -0.4],
            [[0.1, -2], [-0.1, 1]],
            [1, 1],
        ),
        (
            {"value": ["a", "b"], "kind": "list"},
            ["a", "b"],
            [["b", "a"], ["a", "b", "c", "d"], ["a", "c"], []],
            [2],
        ),
        ({"value": [], "kind": "list"}, [], [[], ["a"]], [1]),
        ({"value": [1.0, 2.0], "tolerance": 0.1}, [1.0, 2.0], [[1.1, 2.6], [1.1]], [2, 0]),
        (
            {"value": {"a": 1.0, "b": 9.0}, "tolerance": {"a": 1.0, "b": 0.1}},
            {"a": 1.0, "b": 9.0},
            [{"a": 2.0}],
            [1, 0],
        ),
        (
            {"value": {"a": 0.9, "b": 0.9}, "kind": {"a": "level", "b": "size"}},
            {"a": 0.9, "b": 0.9},
            [{"a": 0.75, "b": 0.75}],
            [0, 1],
        ),
        (
            {"value": {"a": [1.0, 4.0]}, "tolerance": {"a": [0.5, 0.1]}},
            {"a": [1.0, 4.0]},
            [{"a": [1.5, 4.9]}, None],
            [1, 1],
        ),
    ],
)
def test_siblings_agree_by_what_a_number_is(entry, ours, values, expected):
    assert replicate.agreeing(entry, ours, values) == expected


def test_a_claim_holds_with_all_and_is_ours_alone_with_none(monkeypatch):
    entries = {
        name: {"value": [1.0, 2.0], "tolerance": 0.1}
        for name in ("all", "some", "one number", "none")
    }
    monkeypatch.setattr(replicate.claims, "table", lambda lesson: entries)
    values = {
        "all": [[1, 2], [1.1, 2.1]],
        "some": [[1, 2], [3, 4]],
        "one number": [[1, 3], [1, 4]],
        "none": [[2, 3]] * 2,
    }
    rows = {
        name: {
            "ours": [1.0, 2.0],
            "siblings": {"seed-1": first, "seed-2": second, "biases": [9.0, 9.0]},
        }
        for name, (first, second) in values.items()
    }
    found = replicate.verdicts("05_x", rows | {"a claim that is no more": rows["all"]})
    assert {name: row["agree"] for name, row in found.items()} == {
        "all": [2, 2],
        "some": [1, 1],
        "one number": [2, 0],
        "none": [0, 0],
    }
    assert [row["verdict"] for row in found.values()] == ["holds", "k of n", "k of n", "ours alone"]
    assert found["all"]["siblings"] == rows["all"]["siblings"]


@pytest.mark.beside
def test_a_lesson_runs_on_a_sibling(tmp_path):
    sibling = tmp_path / "sibling"
    data = tmp_path / "data"
    card = json.loads((DATA / "zero-layer" / "config.json").read_text(encoding="utf-8"))
    card["model"]["seed"] = 7
    model = models.initial(card["model"])
    sibling.mkdir()
    models.save_weights(model, sibling / "model.safetensors")
    (sibling / "config.json").write_text(json.dumps(card))
    (sibling / "history.json").write_text("[]")
    replicate.write_checksums(sibling)
    replicate.course_data("zero-layer", sibling, data)

    cells = [
        "from course_utils import claim, load",
        'claim("strength of the table", load("zero-layer").W_E.norm().item())',
        "1 / 0",
        'claim("after an error", 1)',
    ]
    lesson = v4.new_notebook(
        cells=[v4.new_code_cell(cell) for cell in cells], metadata=authoring.METADATA
    )
    (tmp_path / "lesson.ipynb").write_text(v4.writes(lesson))
    values = replicate.measured(tmp_path / "lesson.ipynb", data, tmp_path / "record")
    assert values["strength of the table"] == pytest.approx(model.W_E.norm().item(), rel=1e-3)
    assert values["after an error"] == 1
    assert (data / "two-layer" / "model.safetensors").is_file()


def test_without_siblings_it_says_which_lessons_stay_as_they_are(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(
        replicate, "replicate", lambda folder, lessons: asked.extend(lessons) or RESULT
    )
    for name in ("RESULT", "PAGE"):
        monkeypatch.setattr(replicate, name, tmp_path / name)
    monkeypatch.setattr(replicate, "DATA", tmp_path)
    monkeypatch.setattr(
        replicate,
        "places",
        lambda folder, name: [DATA / name / sibling for sibling in replicate.SIBLINGS[name]],
    )
    assert replicate.main(["--folder", str(tmp_path)]) == 0
    assert [path.name.split("_")[0] for path in asked] == ["05", "05b"]
    message = capsys.readouterr().err
    assert "03_zero_layers" in message and "05_max" not in message and "--train" in message
    assert json.loads((tmp_path / "RESULT").read_text(encoding="utf-8")) == RESULT
    asked.clear()
    assert replicate.main(["--judge", "--folder", str(tmp_path)]) == 0
    assert asked == []  # nothing runs


def test_a_sibling_counts_when_its_training_is_done(tmp_path):
    (lesson,) = (path for path in authoring.lessons() if path.name.startswith("07_"))
    for sibling in ("seed-0", "seed-2"):
        (tmp_path / "two-layer" / sibling).mkdir(parents=True)
        (tmp_path / "two-layer" / sibling / "model.safetensors").touch()
    (tmp_path / "two-layer/seed-2/.state.pt").touch()  # it is still being trained
    assert replicate.siblings_of(lesson, tmp_path) == [tmp_path / "two-layer/seed-0"]


def test_each_lessons_models_are_those_that_it_loads():
    for path in authoring.lessons():
        if (number := path.name[:2]) in replicate.LESSONS and path.name[2] == "_":
            code = "\n".join(
                cell.source
                for cell in authoring.read_notebook(path).cells
                if cell.cell_type == "code"
            )
            assert f'"{replicate.LESSONS[number]}"' in code


def test_what_earlier_siblings_said_stays_while_our_number_does(tmp_path, monkeypatch):
    values = {  # of a lesson on our model, and on a sibling that has just been trained
        "ours": {"score": 0.5, "moved": 2.0, "corpus": 0.123456, "id": 1},
        "seed-4": {"score": 0.45, "moved": 2.1, "corpus": 0.123456},
    }
    monkeypatch.setattr(replicate, "_kept", lambda notebook, data, folder: values[folder.name])
    table = {name: {"value": 0.5, "tolerance": 0.1} for name in ("score", "moved", "corpus")} | {
        "id": {"always": True}
    }
    monkeypatch.setattr(replicate.claims, "table", lambda lesson: table)
    monkeypatch.setattr(replicate, "RESULT", tmp_path / "replication.json")
    monkeypatch.setattr(
        replicate, "course_data", lambda name, path, target: target.mkdir(parents=True)
    )
    monkeypatch.setattr(
        replicate, "siblings_of", lambda lesson, folder: [folder / "two-layer/seed-4"]
    )
    row = {"ours": 0.51, "siblings": {"seed-2": 0.9}}
    before = {"05_max_of_list": {}, "07_induction_heads": {"score": row, "moved": row, "gone": row}}
    replicate.RESULT.write_text(json.dumps(before))

    # `corpus` is the same to its last digit: it was not measured on the sibling
    assert replicate.replicate(tmp_path, [Path("07_solution_induction_heads.ipynb")])[
        "07_induction_heads"
    ] == {
        "score": {
            "ours": 0.5,
            "siblings": {"seed-2": 0.9, "seed-4": 0.45},
            "agree": [1],
            "verdict": "k of n",
        },
        "moved": {"ours": 2.0, "siblings": {"seed-4": 2.1}, "agree": [1], "verdict": "holds"},
    }


@pytest.mark.beside
def test_a_sibling_says_again_what_the_stored_table_has_of_it(tmp_path):
    sibling, lesson = DATA / "max-of-list" / "seed-1", "05_max_of_list"
    replicate.course_data("max-of-list", sibling, tmp_path / "data")
    said = replicate.measured(
        authoring.solution_path(lesson), tmp_path / "data", tmp_path / "record"
    )
    for statement, row in RESULT[lesson].items():
        stored, entry = (
            row["siblings"][sibling.name],
            replicate.claims.table(lesson)[statement] | {"value": None},
        )
        assert all(replicate.agreeing(entry, stored, [said.get(statement)])), statement


@pytest.mark.parametrize("lesson", RESULT)
def test_the_stored_table_belongs_to_the_claims_as_they_are(lesson):
    table = replicate.claims.table(lesson)
    assert RESULT[lesson] == replicate.verdicts(lesson, RESULT[lesson])
    for statement, row in RESULT[lesson].items():
        entry = table[statement]
        assert all(replicate.agreeing(entry, row["ours"], [entry.get("value", row["ours"])])), (
            statement
        )
        if isinstance(row["ours"], bool):
            assert entry["kind"] == "qualitative", statement
        if isinstance(row["ours"], list) and isinstance(row["ours"][0], str):
            assert entry["kind"] == "list", statement


def test_the_page_is_the_stored_table_in_words():
    assert replicate.PAGE.read_text(encoding="utf-8") == replicate.page(RESULT)


def test_the_page_shows_ours_beside_the_range_of_the_siblings(monkeypatch):
    table = {
        "score": {"value": 0.5, "tolerance": 0.01, "unit": "%"},
        "door": {"value": "key"},
        "gone": {"value": 1},
    }
    table |= {
        "heads": {"value": [6, 1], "kind": "equal"},
        "each": {"value": {"a": [0.5, 3.0]}, "unit": "nats"},
    }
    monkeypatch.setattr(replicate.replication, "table", lambda lesson: table)

    def siblings(*values):
        return dict(zip(("seed-1", "seed-2", "seed-3", "biases"), values, strict=True))

    rows = {
        "score": {"ours": 0.5, "siblings": siblings(0.6, None, 0.4, 0.9), "agree": [2]},
        "door": {"ours": "key", "siblings": siblings("key", "value", "key", "key"), "agree": [2]},
        "gone": {"ours": 1, "siblings": siblings(None, None, None, 1), "agree": [0]},
        "heads": {
            "ours": [6, 1],
            "siblings": siblings([6, 1], [1, 6], [6, 1], [6, 1]),
            "agree": [2, 2],
        },
        "each": {
            "ours": {"a": [0.5, 3.0]},
            "siblings": siblings(
                {"a": [0.4, 3.0]}, {"a": [0.6]}, {"a": [0.5, 3.0], "b": [1.0]}, None
            ),
            "agree": [3, 2],
        },
    }
    lines = replicate.page({"07_induction_heads": rows}).splitlines()
    assert "## 07_induction_heads" in lines
    assert "| score | 50 % | 40 to 60 % | 90 % | 2 of 3 |" in lines
    assert "| door | key | key; value | key | 2 of 3 |" in lines
    assert "| gone | 1 | not measured | 1 | 0 of 3 |" in lines
    assert "| heads | 6, 1 | 6, 1; 1, 6 | 6, 1 | 2 of 3 |" in lines
    each = "a: 0.4 to 0.6 nats, 3 nats; b: 1 nats"
    assert f"| each | a: 0.5 nats, 3 nats | {each} | not measured | 3, 2 of 3 |" in lines
