"""The benchmark: it runs, it notices wrong numbers, and its stored results are complete."""

import json
import math

import pytest
import torch

from course_utils import circuits, composition
from course_utils._files import DATA, verified
from course_utils.training import train
from tests import benchmark

ROW = {
    "work",
    "against",
    "value",
    "low",
    "high",
    "repetitions",
    "unit",
    "least",
    "most",
    "reached",
    "note",
    "machine",
}
WORK = [
    "top 100 entries of a full OV circuit",
    "all Q-, K- and V-composition scores",
    "eigenvalue copying of",
    "training the two-layer model: tokens per second",
    "training the two-layer model: tokens up to prefix matching 0.4",
    "import course_utils",
    "from the start of lesson 00 to its live picture",
    "from the start of lesson 03 to its first picture",
    "the microscope's answer to a press",
    "the whole test suite",
]
TINY = benchmark.Scale(d_vocab=800, d_model=16, n_heads=2, d_head=4, n_layers=4, repetitions=1)


def _complete(results):
    assert set(results) == {"machine", "scale", "rows", "growth"}
    assert results["machine"]["threads"] >= 1 and results["machine"]["cores"] >= 1
    for found in results["rows"]:
        assert set(found) == ROW and bool(found["machine"]) == (found["value"] is not None)
        if found["value"] is None:
            assert found["repetitions"] == 0 and "--" in found["note"]  # how to measure it
        else:
            assert found["repetitions"] >= 1 and 0 < found["low"] <= found["value"] <= found["high"]
    for start in WORK:
        assert any(found["work"].startswith(start) for found in results["rows"]), start
    assert len(results["growth"]) == 3
    for curve in results["growth"].values():
        assert len(curve["sizes"]) == len(curve["time"]) == 4 and max(curve["time"]) == 1
        assert math.isfinite(curve["exponent"]) and curve["expected"] > 0


@pytest.mark.beside
def test_a_quick_run_from_end_to_end(tmp_path, capsys, monkeypatch):
    programs = []
    monkeypatch.setattr(
        benchmark, "_child", lambda code: programs.append(compile(code, "", "exec")) or "0.5"
    )
    benchmark.main(["--quick", "--out", str(tmp_path / "folder" / "benchmark.json")])
    results = json.loads((tmp_path / "folder" / "benchmark.json").read_text(encoding="utf-8"))
    _complete(results)
    assert results["scale"]["d_vocab"] == benchmark.QUICK.d_vocab
    assert all(found["reached"] is None for found in results["rows"])  # no targets at this size
    printed = capsys.readouterr().out
    assert "MISSED" not in printed and all(start in printed for start in WORK)
    # what other processes would run: for the memory, and the four imports
    assert len(programs) == 5
    for drawn in ("plots", "microscope"):  # what the two lessons open with
        assert any({drawn, "show"} <= set(code.co_names) for code in programs)
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["benchmark.json"]


@pytest.mark.parametrize("file", sorted(DATA.glob("benchmark*.json")), ids=lambda file: file.stem)
def test_the_stored_results_are_complete(file):
    results = json.loads(verified(file).read_text(encoding="utf-8"))
    _complete(results)
    assert results["scale"] == vars(benchmark.PAPER)
    for found in results["rows"]:
        if found["value"] is not None and (found["least"] or found["most"]):
            held = (
                found["value"] >= found["least"]
                if found["least"]
                else found["value"] <= found["most"]
            )
            assert found["reached"] == held
            assert held or found["note"]  # what stands in the way


# Wrong numbers


def _off(result):
    """The result with its first number changed a little."""
    numbers = (result[0] if isinstance(result, tuple) else result).clone()
    numbers.view(-1)[0] += 0.01 * numbers.abs().max()
    return (numbers, *result[1:]) if isinstance(result, tuple) else numbers


@pytest.mark.parametrize(
    ("module", "function", "work"),
    [
        (circuits, "top_entries", benchmark.top_entries),
        (composition, "scores", benchmark.composition_scores),
        (circuits, "copying_scores", benchmark.copying),
    ],
)
def test_wrong_numbers_stop_the_benchmark(monkeypatch, module, function, work):
    # how much memory it takes is not asked here
    monkeypatch.setattr(benchmark, "_child", lambda code: "0.5")
    work(TINY)
    right = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *arguments: _off(right(*arguments)))
    with pytest.raises(AssertionError, match="differ"):
        work(TINY)


@pytest.mark.beside
def test_a_wrong_gradient_stops_the_benchmark(monkeypatch):
    right = train.OnText.loss

    def loss(self, step):
        if isinstance(self, benchmark.Plain):
            return right(self, step)
        logits = self.model(self.batch(step))
        wrong = 1e4 * logits.square().mean()
        return right(self, step) + wrong - wrong.detach()  # the same number, another slope

    monkeypatch.setattr(train.OnText, "loss", loss)
    monkeypatch.setattr(
        benchmark, "side_by_side", lambda ways, _: ({k: way() for k, way in ways.items()}, {})
    )
    with pytest.raises(AssertionError, match="gradients differ"):
        benchmark.training_step(TINY)


# The parts


def test_ways_take_turns():
    calls = []
    ways = {name: lambda name=name: calls.append(name) or len(calls) for name in "ab"}
    results, seconds = benchmark.side_by_side(ways, 3)
    assert "".join(calls) in ("abbaab", "baabba") and {
        len(times) for times in seconds.values()
    } == {3}
    assert results == {"a": calls[4:].index("a") + 5, "b": calls[4:].index("b") + 5}


@pytest.mark.parametrize(
    ("limits", "reached"),
    [({"least": 2}, True), ({"least": 2.1}, False), ({"most": 2}, True), ({"most": 1}, False)],
)
def test_a_row_is_judged_by_its_median(limits, reached):
    found = benchmark.row("this", "that", [1.5, 9.0, 2.0], **limits)
    assert (found["low"], found["value"], found["high"], found["reached"]) == (
        1.5,
        2.0,
        9.0,
        reached,
    )
    assert ("MISSED" in benchmark.line(found)) != reached and "this / that" in benchmark.line(found)


def test_exponents_are_slopes():
    assert benchmark.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)


def test_the_naive_ways_are_right():
    matrix = circuits.full_ov(TINY.model(), 0, 0)
    assert torch.equal(benchmark.naive_top(matrix, 7), matrix.AB.flatten().topk(7).values)
    model = TINY.model(d_vocab=4, n_layers=1)
    values = torch.linalg.eigvals(circuits.full_ov(model, 0, 1).AB)
    expected = values.sum().real / values.abs().sum()
    assert benchmark.copying_loop(model)[1] == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.beside
def test_peak_memory_is_this_processs_own():
    def peak():
        return float(
            benchmark._child(f"from tests.benchmark import Scale, peak_memory; peak_memory({TINY})")
        )

    alone = peak()  # 0.5 GB, twice that with a torch that was built for GPUs
    ballast = torch.ones(2**28)  # 1 GB that the child must not inherit
    assert 0.1 < peak() < alone + 0.5 and len(ballast)


def test_what_is_measured_separately_stays(tmp_path, monkeypatch, capsys):
    file = tmp_path / "benchmark.json"
    monkeypatch.setattr(benchmark, "growth", lambda scale: {})
    monkeypatch.setattr(benchmark.run, "__defaults__", ((),))
    with pytest.raises(SystemExit):
        benchmark.main(["--quick", "--suite", "--out", str(file)])
    assert "must be there first" in capsys.readouterr().err
    benchmark.main(["--quick", "--out", str(file)])
    assert [found["value"] for found in json.loads(file.read_text(encoding="utf-8"))["rows"]] == [
        None,
        None,
    ]
    unit = {"tests.unit.test_x": 2}
    times = {
        "notebooks.a.ipynb": 2,
        "b.ipynb": 4,
        "tests.course.test_untrained": 3,
        "tests.course.test_browser": 1,
    } | unit
    cases = "".join(
        f'<testcase classname="{name}" name="y" time="{seconds}"/>'
        for name, seconds in times.items()
    )
    report = f"<testsuites><testsuite>{cases}</testsuite></testsuites>"
    monkeypatch.setattr(
        benchmark,
        "side_by_side",
        lambda *_: ({"ours": report}, {"ours": [300.0], "other": [250.0]}),
    )
    benchmark.main(["--quick", "--suite", "--out", str(file)])
    for _ in range(2):
        found = {
            found["against"]: found["value"]
            for found in json.loads(file.read_text(encoding="utf-8"))["rows"]
        }
        assert found == {"the bare execution of its notebooks": 1.2, "ten minutes": 0.5}
        notes = [found["note"] for found in json.loads(file.read_text(encoding="utf-8"))["rows"]]
        assert (
            "50% are the notebooks, 25% the lessons once more" in notes[0] and " 8% Jup" in notes[0]
        )
        assert "takes 4 minutes" in notes[1]
        benchmark.main(["--quick", "--out", str(file)])


def test_one_piece_of_work_can_be_measured_again(tmp_path, monkeypatch):
    def fast(scale):
        return [
            benchmark.row("a", "b", [3.0], least=2),
            benchmark.row("c", "d", [], note="Not measured: why."),
        ]

    file = tmp_path / "benchmark.json"
    rows = [benchmark.row(*about, [1.0]) for about in ("xy", "ab", "cd")]
    benchmark.save(file, {"machine": {}, "rows": rows})
    monkeypatch.setattr(benchmark, "WORK", (fast,))
    benchmark.main(["--quick", "--only", "fast", "--out", str(file)])
    stored = json.loads(file.read_text(encoding="utf-8"))
    assert [found["value"] for found in stored["rows"]] == [1.0, 3.0, 1.0] and stored[
        "machine"
    ] == {}


def test_long_training_stops_at_the_score(tmp_path, monkeypatch):
    """Both runs end at the first measurement that reaches it, and a second call trains nothing."""
    done = []

    def fake(kind, recipe, folder, *, until):
        done.append(kind)
        rows = [
            {"step": step, "prefix_matching": [[0.0], [score]]}
            for step, score in ((100, 0.1), (200, 0.45))
        ]
        if kind is benchmark.Plain:
            rows = [row | {"step": 4 * row["step"]} for row in rows]
        assert [until(row) for row in rows] == [False, True]
        (folder / "history.json").parent.mkdir(parents=True)
        (folder / "history.json").write_text(json.dumps(rows))

    monkeypatch.setattr(train, "train", fake)
    (found,) = benchmark.long_training(tmp_path, cap=1000)
    assert found["value"] == 4 and found["reached"] and done == [train.OnText, benchmark.Plain]
    assert benchmark.long_training(tmp_path, cap=1000) == [found] and len(done) == 2


def test_the_plain_loop_is_adamw_in_float32(monkeypatch):
    small = train.TextRecipe.config
    tiny = {"n_ctx": 8, "d_model": 16, "d_head": 2}
    monkeypatch.setattr(train.TextRecipe, "config", lambda recipe: small(recipe) | tiny)
    training = benchmark.Plain(
        benchmark.plain(train.RECIPES["two-layer"]), stream=torch.arange(1, 100)
    )
    (optimizer,) = training.optimizers.all
    (group,) = optimizer.param_groups
    assert type(optimizer) is torch.optim.AdamW and not group["fused"]
    assert {id(p) for p in group["params"]} == {
        id(p) for p in training.model.parameters() if p.requires_grad
    }
    before, loss = training.model.W_E.detach().clone(), training.loss(0)
    assert loss.dtype == torch.float32
    loss.backward()
    training.optimizers.step(0.5)
    assert group["lr"] == 5e-4 and not torch.equal(training.model.W_E, before)
