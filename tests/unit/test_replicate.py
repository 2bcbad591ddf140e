"""Replication: heads of siblings get the numbers of ours, and verdicts follow the rule that was fixed before."""

import json
from pathlib import Path

import pytest
import torch
from nbformat import v4

from course_utils import load, models, text
from course_utils._files import DATA
from course_utils.author import authoring, replicate

RESULT = json.loads(replicate.RESULT.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shuffled():
    """The two-layer model with its heads in another order, and that order."""
    model, other = load("two-layer"), load("two-layer")
    heads = torch.stack([torch.randperm(8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)])
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
    assert untrained.amax((1, 2)).max() < 1 < alike.amax(2).min()  # the control: nobody is like ours by chance


def test_the_pairing_is_the_best_together_and_not_one_by_one():
    alike = torch.tensor([[[1.0, 0.9], [0.9, 0.0]]])  # the first row's best would leave the second with nothing
    assert replicate.order(alike).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("entry", "ours", "values", "expected"),
    [
        ({"value": 0.5, "tolerance": 0.01}, 0.5, [0.6, 0.4], "holds"),  # a quarter
        ({"value": 0.5, "tolerance": 0.01}, 0.5, [0.6, 0.2], "differs in size"),
        ({"value": 0.5, "tolerance": 0.01}, 0.5, [0.6, 0.1], "ours alone"),
        ({"value": 0.5, "tolerance": 0.01}, 0.5, [0.5, -0.5], "ours alone"),  # another sign
        ({"value": 0.0, "tolerance": 0.1}, 0.02, [-0.05], "holds"),  # within the tolerance
        ({"least": 0.9}, 0.95, [0.91, 0.99], "holds"),
        ({"least": 0.9}, 0.95, [0.5], "differs in size"),
        ({"most": 0.1}, 0.02, [0.5], "ours alone"),
        ({"value": "key"}, "key", ["key", "key"], "holds"),
        ({"value": "key"}, "key", ["key", "value"], "ours alone"),
        ({"value": True}, True, [True, False], "ours alone"),
        ({"value": [1.0, 2.0], "tolerance": 0.1}, [1.0, 2.0], [[1.1, 2.2]], "holds"),
        ({"value": [1.0, 2.0], "tolerance": 0.1}, [1.0, 2.0], [[1.1]], "ours alone"),
        ({"value": {"a": 1.0}, "tolerance": {"a": 0.1}}, {"a": 1.0}, [{"a": 2.0}], "differs in size"),
        ({"value": {"a": 1.0}, "tolerance": 0.1}, {"a": 1.0}, [{"b": 1.0}], "ours alone"),
        ({"value": 3}, 3, [None], "ours alone"),  # the lesson stopped before this statement
    ],
)
def test_the_verdict_follows_the_rule(entry, ours, values, expected):
    assert replicate.verdict(entry, ours, values) == expected


@pytest.mark.slow
def test_a_lesson_runs_on_a_sibling(tmp_path):
    sibling, data = tmp_path / "sibling", tmp_path / "data"
    model = models.initial(models.card("zero-layer")["model"] | {"seed": 7})
    sibling.mkdir()
    models.save_weights(model, sibling / "model.safetensors")
    config = models.card("zero-layer") | {"model": models.card("zero-layer")["model"] | {"seed": 7}}
    (sibling / "config.json").write_text(json.dumps(config))
    (sibling / "history.json").write_text("[]")
    replicate.write_checksums(sibling)
    replicate.course_data("zero-layer", sibling, data)

    cells = [
        "from course_utils import claim, load",
        'claim("strength of the table", load("zero-layer").W_E.norm().item())',
        "1 / 0",
        'claim("after an error", 1)',
    ]
    lesson = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells], metadata=authoring.METADATA)
    (tmp_path / "lesson.ipynb").write_text(v4.writes(lesson))
    values = replicate.measured(tmp_path / "lesson.ipynb", data, tmp_path / "record")
    assert values["strength of the table"] == pytest.approx(model.W_E.norm().item(), rel=1e-3)
    assert values["after an error"] == 1
    assert (data / "two-layer" / "model.safetensors").is_file()


def test_without_siblings_it_says_which_lessons_stay_as_they_are(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(replicate, "replicate", lambda folder, lessons: asked.extend(lessons) or RESULT)
    for name in ("RESULT", "PAGE"):
        monkeypatch.setattr(replicate, name, tmp_path / name)
    monkeypatch.setattr(replicate, "DATA", tmp_path)
    monkeypatch.setattr(
        replicate, "places", lambda folder, name: [DATA / name / sibling for sibling in replicate.SIBLINGS[name]]
    )
    assert replicate.main(["--folder", str(tmp_path)]) == 0
    assert [path.name[:2] for path in asked] == ["05"]
    message = capsys.readouterr().err
    assert "03_zero_layers" in message and "05_max" not in message and "--train" in message
    assert json.loads((tmp_path / "RESULT").read_text(encoding="utf-8")) == RESULT


def test_a_sibling_counts_when_its_training_is_done(tmp_path):
    (lesson,) = (path for path in authoring.lessons() if path.name.startswith("07_"))
    for sibling in ("seed-0", "seed-2"):
        (tmp_path / "two-layer" / sibling).mkdir(parents=True)
        (tmp_path / "two-layer" / sibling / "model.safetensors").touch()
    (tmp_path / "two-layer/seed-2/.state.pt").touch()  # it is still being trained
    assert replicate.siblings_of(lesson, tmp_path) == [tmp_path / "two-layer/seed-0"]


def test_each_lessons_models_are_those_that_it_loads():
    for path in authoring.lessons():
        if path.name[:2] in replicate.LESSONS and "b_" not in path.name:
            code = "\n".join(cell.source for cell in authoring.read(path).cells if cell.cell_type == "code")
            assert f'"{replicate.LESSONS[path.name[:2]]}"' in code


def test_what_earlier_siblings_said_stays_while_our_number_does(tmp_path, monkeypatch):
    values = {  # of a lesson on our model, and on a sibling that has just been trained
        "ours": {"score": 0.5, "moved": 2.0, "corpus": 0.123456, "id": 1},
        "seed-4": {"score": 0.45, "moved": 2.1, "corpus": 0.123456},
    }
    monkeypatch.setattr(replicate, "_kept", lambda notebook, data, folder: values[folder.name])
    table = {name: {"value": 0.5, "tolerance": 0.1} for name in ("score", "moved", "corpus")} | {"id": {"always": True}}
    monkeypatch.setattr(replicate.claims, "table", lambda lesson: table)
    monkeypatch.setattr(replicate, "RESULT", tmp_path / "replication.json")
    monkeypatch.setattr(replicate, "course_data", lambda name, path, target: target.mkdir(parents=True))
    monkeypatch.setattr(replicate, "siblings_of", lambda lesson, folder: [folder / "two-layer/seed-4"])
    row = {"ours": 0.51, "siblings": {"seed-2": 0.9}, "verdict": "differs in size"}
    before = {"05_max_of_list": {}, "07_induction_heads": {"score": row, "moved": row, "gone": row}}
    replicate.RESULT.write_text(json.dumps(before))

    assert replicate.replicate(tmp_path, [Path("07_solution_induction_heads.ipynb")])["07_induction_heads"] == {
        "score": {"ours": 0.5, "siblings": {"seed-2": 0.9, "seed-4": 0.45}, "verdict": "differs in size"},
        "moved": {"ours": 2.0, "siblings": {"seed-4": 2.1}, "verdict": "holds"},
    }  # `corpus` is the same to its last digit: it was not measured on the sibling


@pytest.mark.slow
def test_a_sibling_says_again_what_the_stored_table_has_of_it(tmp_path):
    sibling, lesson = DATA / "max-of-list" / "seed-1", "05_max_of_list"
    replicate.course_data("max-of-list", sibling, tmp_path / "data")
    said = replicate.measured(authoring.solution_path(lesson), tmp_path / "data", tmp_path / "record")
    for statement, row in RESULT[lesson].items():
        stored, entry = row["siblings"][sibling.name], replicate.claims.table(lesson)[statement] | {"value": None}
        assert replicate.verdict(entry, stored, [said.get(statement)]) == replicate.HOLDS, statement


@pytest.mark.parametrize("lesson", RESULT)
def test_the_stored_table_belongs_to_the_claims_as_they_are(lesson):
    table = replicate.claims.table(lesson)
    for statement, row in RESULT[lesson].items():
        entry, seeds = table[statement], [value for name, value in row["siblings"].items() if name.startswith("seed")]
        assert row["verdict"] == replicate.verdict(entry, row["ours"], seeds), statement
        assert replicate.verdict(entry, row["ours"], [entry.get("value", row["ours"])]) == replicate.HOLDS, statement


def test_the_page_is_the_stored_table_in_words():
    assert replicate.PAGE.read_text(encoding="utf-8") == replicate.page(RESULT)


def test_the_page_shows_ours_beside_the_range_of_the_siblings(monkeypatch):
    table = {"score": {"value": 0.5, "tolerance": 0.01, "unit": "%"}, "door": {"value": "key"}, "gone": {"value": 1}}
    monkeypatch.setattr(replicate.claims, "table", lambda lesson: table)

    def siblings(*values):
        return dict(zip(("seed-1", "seed-2", "seed-3", "biases"), values, strict=True))

    rows = {
        "score": {"ours": 0.5, "siblings": siblings(0.6, None, 0.4, 0.9), "verdict": "holds"},
        "door": {"ours": "key", "siblings": siblings("key", "value", "key", "key"), "verdict": "ours alone"},
        "gone": {"ours": 1, "siblings": siblings(None, None, None, 1), "verdict": "ours alone"},
    }
    lines = replicate.page({"07_induction_heads": rows}).splitlines()
    assert "## 07_induction_heads" in lines
    assert "| score | 50 % | 40 % to 60 % | 90 % | holds |" in lines
    assert "| door | key | key; value | key | ours alone |" in lines
    assert "| gone | 1 | not measured | 1 | ours alone |" in lines
