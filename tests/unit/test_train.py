"""Training, on models and texts small enough to do it many times."""

import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from course_utils import _files, heads, measure, models, text
from course_utils._torch_state import one_thread
from course_utils.training import muon, tasks, train

DOCUMENTS = [
    "def add(a, b):\n    return a + b\n" * 20,
    "import sys\n\nfor line in sys.stdin:\n    print(line)\n" * 20,
]
TINY = train.TextRecipe(n_layers=2, steps=30, snapshots=(5, 20), batch=2, adamw_lr=3e-2, warmup=3)
REAL_RECIPES = train.RECIPES


@contextlib.contextmanager
def shortened():
    """Everything that makes training long, made short; measurements every tenth step."""
    config, repeated = train.TextRecipe.config, text.repeated_tokens(16, 2)
    held_out = text.windows(text.encode(DOCUMENTS), 80)[:3]
    tiny = {"d_model": 16, "n_heads": 2, "d_head": 8, "n_ctx": 80}
    with one_thread(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.TextRecipe, "config", lambda recipe: config(recipe) | tiny)
        patch.setattr(text, "corpus_documents", lambda: iter(DOCUMENTS))
        patch.setattr(text, "held_out_tokens", lambda: held_out)
        patch.setattr(text, "repeated_tokens", lambda length: repeated)
        patch.setattr(train, "PERIOD", 16)
        patch.setattr(train, "interval", lambda step: 10)
        patch.setattr(train, "RECIPES", {"one-layer": replace(TINY, n_layers=1), "two-layer": TINY})
        yield


@pytest.fixture(autouse=True, scope="module")
def small():
    with shortened():
        yield


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory):
    """One uninterrupted run: its folder, and what `train` returned."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    return SimpleNamespace(folder=folder, row=train.train(train.OnText, TINY, folder))


def _contents(folder):
    """Everything that training left, but for the time that it took, and for what a killed run could
    not tidy away.
    """
    visible = [
        file
        for file in folder.iterdir()
        if not file.name.startswith(".") and file.name != _files.CHECKSUMS
    ]
    found = {file.name: file.read_bytes() for file in visible}
    card = json.loads(found.pop("config.json"))
    assert card.pop("training_seconds") >= 0
    return found | {"card": card}


def _history(folder):
    return json.loads((folder / "history.json").read_text(encoding="utf-8"))


def _stop_once(monkeypatch, name, when):
    """Press Ctrl-C at the first call of a function of `train` with `when(*arguments)`."""
    function = getattr(train, name)

    def interrupted(*arguments):
        if when(*arguments):
            monkeypatch.setattr(train, name, function)
            raise KeyboardInterrupt
        return function(*arguments)

    monkeypatch.setattr(train, name, interrupted)


# What a run leaves behind


def test_the_loss_falls(finished):
    first, *_, last = _history(finished.folder)
    assert abs(first["held_out_loss"] - 8.3) < 0.3  # nearly uniform over 4,096 tokens
    assert last["held_out_loss"] < first["held_out_loss"] - 1
    assert last == finished.row


def test_the_history_has_a_row_for_each_measurement(finished):
    history = _history(finished.folder)
    assert [row["step"] for row in history] == [0, 10, 20, 30]
    assert "train_loss" not in history[0] and all(0 < row["train_loss"] < 9 for row in history[1:])
    for row in history:
        for score in ("previous_token", "prefix_matching"):
            assert [len(heads_of_layer) for heads_of_layer in row[score]] == [2, 2]
            assert all(0 < value < 1 for heads_of_layer in row[score] for value in heads_of_layer)


def test_the_folder_holds_what_it_should(finished):
    weights = {"model.safetensors", "step-000005.safetensors", "step-000020.safetensors"}
    names = {file.name for file in finished.folder.iterdir()}
    assert names == weights | {"config.json", "history.json", _files.CHECKSUMS}
    for name in names - {_files.CHECKSUMS}:
        _files.verified(finished.folder / name)


def test_the_card_says_how_the_model_was_made(finished):
    card = json.loads((finished.folder / "config.json").read_text(encoding="utf-8"))
    assert (
        train.TextRecipe(**card["recipe"] | {"snapshots": tuple(card["recipe"]["snapshots"])})
        == TINY
    )
    assert card["model"] == TINY.config() and card["corpus"] == text.corpus_manifest()
    assert card["tokens_seen"] == 30 * 2 * 80 and card["result"] == finished.row


def test_the_result_loads(finished):
    model = models.load(finished.folder)
    with torch.no_grad():
        row = measure.on_text(model, text.held_out_tokens()) | measure.on_repeats(
            model, text.repeated_tokens(16), 16
        )
    for key, value in row.items():  # but for half precision, the model that was measured
        torch.testing.assert_close(
            torch.tensor(value), torch.tensor(finished.row[key]), atol=1e-2, rtol=0
        )
    losses = [model(text.held_out_tokens(), return_type="loss").item()]
    for step in (20, 5, 0):
        losses.append(
            models.load(finished.folder, step)(text.held_out_tokens(), return_type="loss").item()
        )
    assert losses == sorted(losses) and len(set(losses)) == 4


def test_biases_stay_zero(finished):
    model = models.load(finished.folder)
    assert not any(p.any() for name, p in model.named_parameters() if ".b_" in name)
    changed = [
        name for name, p in models.initial(TINY.config()).named_parameters() if ".b_" not in name
    ]
    for name in changed:
        assert not torch.equal(
            model.get_parameter(name), models.initial(TINY.config()).get_parameter(name)
        ), name


# Interruptions


INTERRUPTIONS = {
    "before the first save": ("batch_of", lambda stream, recipe, step: step == 3),
    "between two saves": ("batch_of", lambda stream, recipe, step: step == 17),
    "at a snapshot": ("save_weights", lambda model, path: path.name == "step-000020.safetensors"),
    "at the end": ("save_weights", lambda model, path: path.name == "model.safetensors"),
    "at the checksums": ("write_checksums", lambda folder: True),
    "after the weights": ("write_text", lambda path, text: path.name == "config.json"),
}


@pytest.mark.parametrize("moment", INTERRUPTIONS)
def test_an_interrupted_run_ends_like_any_other(finished, tmp_path, monkeypatch, moment):
    name, when = INTERRUPTIONS[moment]
    folder = tmp_path / "tiny"
    _stop_once(monkeypatch, name, when)
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        train.train(train.OnText, TINY, folder)
    assert not (folder / _files.CHECKSUMS).exists()
    assert train.train(train.OnText, TINY, folder) == finished.row
    assert _contents(folder) == _contents(finished.folder)  # bit for bit


def kill_at_every_moment(folders):
    """Train in folders 0, 1, 2 ... and die at the change of a file with that number; then train to
    the end.

    What a killed process leaves is on the disk, so there are no more moments than changes of files:
    in the middle of each. Run by a process of its own, because one that has trained cannot be
    forked and train again.
    """

    def child(folder, moment=None):
        changes = itertools.count()

        def kill(event, arguments):
            if event not in ("os.rename", "os.remove") or not (file := Path(arguments[0])).exists():
                return
            if file.name == ".lock":
                return  # the run is over
            if file.parent == folder and next(changes) == moment:
                if event == "os.rename":  # of what was just written, which is only half there now
                    os.truncate(file, file.stat().st_size // 2)
                os.kill(os.getpid(), signal.SIGKILL)

        if pid := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.addaudithook(kill)
        with shortened():
            train.train(train.OnText, TINY, folder)
        os._exit(0)

    for moment in itertools.count():
        if not child(folders / str(moment), moment):
            return
        assert not child(folders / str(moment))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork a process")
def test_a_killed_run_ends_like_any_other(finished, tmp_path):
    script = (
        f"import pathlib, test_train; "
        f"test_train.kill_at_every_moment(pathlib.Path({str(tmp_path)!r}))"
    )
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, check=True)
    # three states, two snapshots, weights, card, history, checksums, the state removed; and one
    # that was not killed
    assert {folder.name for folder in tmp_path.iterdir()} == {str(moment) for moment in range(11)}
    for folder in tmp_path.iterdir():
        assert _contents(folder) == _contents(finished.folder)  # bit for bit
        for name in _contents(folder).keys() - {"card"}:
            _files.verified(folder / name)


def test_ctrl_c_is_no_traceback(tmp_path, monkeypatch, capsys):
    _stop_once(monkeypatch, "batch_of", lambda stream, recipe, step: step == 12)
    with pytest.raises(SystemExit) as caught:
        train.train(train.OnText, TINY, tmp_path / "tiny")
    assert caught.value.code == 130
    assert "Stopped after 12 steps. The same command goes on" in capsys.readouterr().out


PROCESSORS = [
    ({"avx512_f": True, "avx512_bf16": True}, "bfloat16"),
    ({"amx_bf16": True}, "bfloat16"),
    ({"neon": True, "bf16": True}, "bfloat16"),
    ({"neon": True, "bf16": False}, "float32"),
    ({"avx512_f": True, "avx512_bf16": False}, "float32"),
    ({}, "float32"),
]


@pytest.mark.parametrize(("able", "precision"), PROCESSORS)
def test_the_processor_decides_the_precision(monkeypatch, able, precision):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    assert train.precision() == precision


def test_a_run_keeps_its_precision_on_another_processor(tmp_path, monkeypatch):
    histories = {}
    for first, second in (("float32", "float32"), ("float32", "bfloat16"), ("bfloat16", "float32")):
        folder = tmp_path / f"{first}, then {second}"
        monkeypatch.setattr(train, "precision", lambda first=first: first)
        _stop_once(monkeypatch, "batch_of", lambda stream, recipe, step: step == 12)
        with pytest.raises(SystemExit):
            train.train(train.OnText, TINY, folder)
        monkeypatch.setattr(train, "precision", lambda second=second: second)
        train.train(train.OnText, TINY, folder)
        assert (
            json.loads((folder / "config.json").read_text(encoding="utf-8"))["precision"] == first
        )
        histories[first, second] = _history(folder)
    assert (
        histories["float32", "bfloat16"]
        == histories["float32", "float32"]
        != histories["bfloat16", "float32"]
    )


def test_a_finished_folder_is_left_alone(finished, monkeypatch):
    def unread():
        raise AssertionError("the corpus was read, which takes long, only to refuse")

    monkeypatch.setattr(text, "corpus_documents", unread)
    before = {file: file.stat().st_mtime_ns for file in finished.folder.iterdir()}
    with pytest.raises(FileExistsError, match="already holds a finished model"):
        train.train(train.OnText, TINY, finished.folder)
    assert {file: file.stat().st_mtime_ns for file in finished.folder.iterdir()} == before


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"muon_lr": 0.01}, {"snapshots": (5,)}, {"minutes": 1.0}]
)
def test_the_run_of_another_recipe_is_not_continued(tmp_path, monkeypatch, other):
    _stop_once(monkeypatch, "batch_of", lambda stream, recipe, step: step == 11)
    with pytest.raises(SystemExit):
        train.train(train.OnText, TINY, tmp_path)
    minutes = other.pop("minutes", None)
    before = (tmp_path / ".state.pt").read_bytes()
    with pytest.raises(FileExistsError, match="another recipe"):
        train.train(train.OnText, replace(TINY, **other), tmp_path, minutes=minutes)
    assert (tmp_path / ".state.pt").read_bytes() == before


@pytest.mark.slow
def test_minutes_choose_the_number_of_steps(tmp_path, monkeypatch):
    recipe = replace(TINY, n_layers=0, steps=10_000, snapshots=(), batch=1)
    clock = itertools.count()
    # a step takes 10 ms
    monkeypatch.setattr(train, "time", SimpleNamespace(monotonic=lambda: next(clock) / 100))
    monkeypatch.setattr(train, "interval", lambda step: 100)
    _stop_once(monkeypatch, "batch_of", lambda stream, recipe, step: step == 150)
    with pytest.raises(SystemExit):
        train.train(train.OnText, recipe, tmp_path, minutes=0.04)
    clock = itertools.count(step=7)  # slower by far, but the number stands
    assert train.train(train.OnText, recipe, tmp_path, minutes=0.04)["step"] == 240
    card = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert card["recipe"]["steps"] == 240 and card["tokens_seen"] == 240 * 80
    assert card["training_seconds"] == 11  # 1.0 up to the saved state, and 140 steps at 0.07


# The parts


def test_measure_by_hand(finished):
    model = models.load(finished.folder).requires_grad_(False)
    tokens, repeated = text.held_out_tokens(), text.repeated_tokens(16)

    def losses(rows):
        return -model(rows).log_softmax(-1)[:, :-1].gather(-1, rows[:, 1:, None])[..., 0]

    row = measure.on_text(model, tokens) | measure.on_repeats(model, repeated, 16)
    held_out, twice = losses(tokens), losses(repeated)
    expected = {
        "held_out_loss": held_out[:, 1:].mean(),  # not what follows the start token
        "in_context_learning": held_out[:, -32:].mean() - held_out[:, 32:64].mean(),
        "first_pass_loss": twice[:, 1:16].mean(),  # predicts tokens 2 … 16
        "second_pass_loss": twice[
            :, 17:32
        ].mean(),  # predicts tokens 18 … 32: those whose past is known
        "previous_token": heads.previous_token_score(heads.patterns(model, repeated)).mean(-1),
        "prefix_matching": heads.prefix_matching_score(heads.patterns(model, repeated), 16).mean(
            -1
        ),
    }
    assert row.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(torch.tensor(row[key]), value, atol=1e-5, rtol=1e-5)


def test_learning_rate_rises_rests_and_falls():
    recipe = replace(TINY, warmup=100, hold=0.6)
    rates = [train.learning_rate(step, 1_000, recipe) for step in range(1_001)]
    assert rates[0] == 0.01 and rates[49] == 0.5 and rates[99:600] == [1.0] * 501
    assert rates[800] == pytest.approx(0.5) and rates[1_000] == 0
    assert all(a < b for a, b in itertools.pairwise(rates[:100]))
    assert all(a > b for a, b in itertools.pairwise(rates[600:]))


def test_batches_depend_on_seed_and_step_alone():
    stream = torch.arange(1, 4_000)
    batch = train.batch_of(stream, TINY, 7)
    torch.manual_seed(5)
    assert torch.equal(train.batch_of(stream, replace(TINY, steps=99), 7), batch)
    others = [
        train.batch_of(stream, replace(TINY, seed=s), t)
        for s, t in [(0, 8), (1, 7), (1, 6), (7, 0)]
    ]
    assert not any(torch.equal(other, batch) for other in others)


def test_batches_are_contexts_of_the_corpus():
    stream = torch.arange(1, 200)
    batches = torch.cat([train.batch_of(stream, TINY, step) for step in range(300)])
    assert batches.shape == (600, 80) and (batches[:, 0] == 0).all()
    assert (batches[:, 2:] - batches[:, 1:-1] == 1).all()  # consecutive
    assert batches.max() <= 199 and len(batches[:, 1].unique()) > 80  # from anywhere


ATTENTION = ("W_Q", "W_K", "W_V", "W_O")


@pytest.fixture
def optimized():
    model = models.initial(TINY.config())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    return SimpleNamespace(
        model=model, before=before, optimizers=train.Optimizers(model, TINY, dtype="bfloat16")
    )


def _by_name(optimized):
    """(layer, name) → the joined matrix."""
    keys = itertools.product(range(2), ATTENTION)
    return dict(zip(keys, optimized.optimizers.matrices, strict=True))


def test_joining_changes_no_weight(optimized):
    for name, before in optimized.before.items():
        assert torch.equal(optimized.model.get_parameter(name), before), name


def test_a_head_keeps_its_place_in_the_joined_matrix(optimized):
    d_head = 8
    for (layer, name), matrix in _by_name(optimized).items():
        weight = getattr(optimized.model.blocks[layer].attn, name)
        assert matrix.shape == (16, 16)  # d_model = n_heads d_head
        if name == "W_O":  # [head, d_head, d_model]: heads above each other
            matrix.data[1 * d_head + 3, 11] = 77.0
            assert weight[1, 3, 11] == 77
        else:  # [head, d_model, d_head]: heads side by side
            matrix.data[11, 1 * d_head + 3] = 77.0
            assert weight[1, 11, 3] == 77
        assert (weight == 77).sum() == 1
        weight.data[0] = 5.0
        assert (matrix == 5).sum() == 16 * d_head  # and the other way


def test_a_step_is_one_of_muon_on_the_joined_matrix(optimized):
    tokens = text.held_out_tokens()
    optimized.model(tokens, return_type="loss").backward()
    expected = {}
    for layer, name in _by_name(optimized):
        weight, axis = getattr(optimized.model.blocks[layer].attn, name), 0 if name == "W_O" else 1
        matrix = torch.nn.Parameter(torch.cat(list(weight.detach()), axis))
        matrix.grad = torch.cat(list(weight.grad), axis)
        torch.optim.Muon([matrix], lr=TINY.muon_lr / 2, weight_decay=0.0).step()
        expected[layer, name] = torch.stack(matrix.detach().split(8, axis))
    optimized.optimizers.step(rate=0.5)
    for (layer, name), weight in expected.items():
        found = getattr(optimized.model.blocks[layer].attn, name)
        torch.testing.assert_close(found.detach(), weight, atol=1e-5, rtol=1e-4)
        assert not torch.equal(found, optimized.before[f"blocks.{layer}.attn.{name}"])


def test_in_float32_muon_takes_the_same_step_but_for_rounding():
    for shape in ((16, 16), (40, 10), (10, 40)):
        gradient = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        exact, rounded = (
            muon.orthogonalized(gradient, dtype) for dtype in (torch.float32, torch.bfloat16)
        )
        assert exact.dtype == torch.float32 and 0 < (exact - rounded).norm() < 0.05 * exact.norm()
        U, _, V = torch.linalg.svd(gradient, full_matrices=False)
        assert torch.cosine_similarity(exact.flatten(), (U @ V).flatten(), dim=0) > 0.95


def test_every_other_weight_gets_adamw_and_biases_none(optimized):
    optimized.model(text.held_out_tokens(), return_type="loss").backward()
    optimized.optimizers.step(rate=1.0)
    changed = {
        n for n, p in optimized.model.named_parameters() if not torch.equal(p, optimized.before[n])
    }
    assert changed == {n for n in optimized.before if ".b_" not in n}
    (group,) = optimized.optimizers.all[0].param_groups
    assert {id(p) for p in group["params"]} == {
        id(p) for p in (optimized.model.W_E, optimized.model.W_pos, optimized.model.W_U)
    }
    assert group["lr"] == TINY.adamw_lr


def test_fused_adamw_takes_the_same_step(optimized):
    fused = models.initial(TINY.config())
    optimizers = train.Optimizers(fused, TINY, fused=True, dtype="bfloat16")
    for model, steps in ((optimized.model, optimized.optimizers), (fused, optimizers)):
        model(text.held_out_tokens(), return_type="loss").backward()
        steps.step(rate=1.0)
    for weight, expected in zip(fused.parameters(), optimized.model.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, atol=1e-5, rtol=1e-4)


def test_a_zero_layer_model_needs_no_muon():
    optimizers = train.Optimizers(models.initial(replace(TINY, n_layers=0).config()), TINY)
    assert [type(optimizer) for optimizer in optimizers.all] == [torch.optim.AdamW]


def test_the_real_recipes_are_sound():
    for name, recipe in REAL_RECIPES.items():
        base, _, kind = name.partition("-layer")
        assert recipe.n_layers == ["zero", "one", "two"].index(base)
        assert recipe.normalization == ("LN" if kind == "-ln" else None) and recipe.biases == (
            kind == "-biases"
        )
        assert (
            list(recipe.snapshots) == sorted(set(recipe.snapshots))
            and max(recipe.snapshots, default=0) < recipe.steps
        )
        assert recipe.warmup < recipe.hold * recipe.steps < recipe.steps


def test_a_run_may_end_early_and_be_of_another_kind(tmp_path):
    class Slower(train.OnText):
        def loss(self, step):
            return super().loss(step) / 2

    row = train.train(Slower, TINY, tmp_path / "run", until=lambda row: row["held_out_loss"] < 8.2)
    history = _history(tmp_path / "run")
    assert (
        history[-1] == row
        and row["held_out_loss"] < 8.2 <= history[-2]["held_out_loss"]
        and row["step"] < 30
    )
    assert row["train_loss"] < 5  # half of what it would be
    card = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert card["tokens_seen"] == row["step"] * 2 * 80


# The small tasks


TASK = tasks.Task(
    "sum",
    d_vocab=12,
    lengths=(2, 3),
    d_model=16,
    d_mlp=16,
    steps=30,
    batch=32,
    adamw_lr=3e-2,
    warmup=3,
)


@pytest.fixture(scope="module")
def finished_task(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "sum"
    return SimpleNamespace(folder=folder, row=train.train(train.OnTask, TASK, folder))


def test_a_task_is_learnt_and_recorded(finished_task):
    first, *_, last = history = _history(finished_task.folder)
    assert [row["step"] for row in history] == [0, 10, 20, 30] and last == finished_task.row
    assert last["train_loss"] < first["held_out_loss"] - 0.5
    assert first["held_out_accuracy"] < 0.4 and len(last["accuracy_by_length"]) == 2
    card = json.loads((finished_task.folder / "config.json").read_text(encoding="utf-8"))
    assert (
        card["recipe"] == json.loads(json.dumps(train.asdict(TASK)))
        and card["model"] == TASK.config()
    )
    assert card["examples_seen"] == 30 * 32 and card["result"] == last and "corpus" not in card


def test_a_trained_task_loads_and_gives_the_measured_accuracy(finished_task):
    model, (_, held_out) = models.load(finished_task.folder), tasks.examples(TASK)
    right = [model(tokens)[:, -1].argmax(1) == tasks.answers(TASK, tokens) for tokens in held_out]
    assert torch.cat(right).float().mean().item() == pytest.approx(
        finished_task.row["held_out_accuracy"], abs=0.1
    )
    assert not any(p.any() for name, p in model.named_parameters() if ".b_" in name)
    assert models.load(finished_task.folder, step=0).cfg.d_mlp == 16


def test_an_interrupted_task_ends_like_any_other(finished_task, tmp_path, monkeypatch):
    monkeypatch.setattr(train.OnTask, "measure", _interrupt_at_the_third(train.OnTask.measure))
    folder = tmp_path / "sum"
    with pytest.raises(SystemExit):
        train.train(train.OnTask, TASK, folder)
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "interval", lambda step: 10)
        assert train.train(train.OnTask, TASK, folder) == finished_task.row
    assert _contents(folder) == _contents(finished_task.folder)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A folder with a task's training that was interrupted after its first saved state."""
    folder = tmp_path / "sum"
    with monkeypatch.context() as patch:
        patch.setattr(train.OnTask, "measure", _interrupt_at_the_third(train.OnTask.measure))
        with pytest.raises(SystemExit):
            train.train(train.OnTask, TASK, folder)
    return folder


def _damaged(state):
    """States that nobody can go on from, from one that is whole."""
    yield b""
    yield b"hello"
    yield b"PK\x03\x04" + b"x" * 300
    yield state[: len(state) // 2]
    middle = len(state) // 2
    yield state[:middle] + bytes([state[middle] ^ 1]) + state[middle + 1 :]
    whole = torch.load(io.BytesIO(state), weights_only=True)
    foreign = [{"a": 1}, [whole], {"recipe": whole["recipe"], "state": {"minutes": None}}]
    foreign += [whole | {"optimizers": []}, whole | {"model": {}}, whole | {"state": {}}]
    foreign.append(whole | {"state": whole["state"] | {"odd": 1}})
    for content in foreign:
        buffer = io.BytesIO()
        torch.save(content, buffer)
        yield buffer.getvalue()


def test_a_damaged_state_is_one_sentence_and_stays(begun, finished_task, capsys, subtests):
    file = begun / train.STATE
    whole = file.read_bytes()
    for content in _damaged(whole):
        with subtests.test(content[:40]):
            file.write_bytes(content)
            with pytest.raises(OSError, match=r"damaged, or nothing .* delete it") as caught:
                train.train(train.OnTask, TASK, begun)
            assert str(file) in str(caught.value) and file.read_bytes() == content
    file.unlink()
    file.mkdir()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(tasks, "TASKS", {"sum": TASK})
        train.main(["sum", "--out", str(begun)])
    assert f"{file} is damaged" in capsys.readouterr().err

    # nothing of it was lost
    file.rmdir()
    file.write_bytes(whole)
    assert train.train(train.OnTask, TASK, begun) == finished_task.row
    assert _contents(begun) == _contents(finished_task.folder)


def test_two_trainings_never_share_a_folder(begun, finished_task):
    lock = f"lock = filelock.FileLock({str(begun / '.lock')!r})"
    holds = f"import filelock; {lock}; lock.acquire(); print(1, flush=True); input()"
    command = [sys.executable, "-c", holds]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(FileExistsError, match=r"Another training is at work in .*sum: wait"):
            train.train(train.OnTask, TASK, begun)
        other.kill()  # and what it held is free
    assert train.train(train.OnTask, TASK, begun) == finished_task.row
    assert _contents(begun) == _contents(finished_task.folder)
    assert not list(begun.glob(".*"))


@pytest.mark.skipif(os.name == "nt", reason="this system can't limit the size of files")
@pytest.mark.parametrize("snapshots", [(), (20,)])
def test_a_full_disk_is_one_sentence_and_takes_nothing(tmp_path, snapshots):
    import resource

    run = replace(TINY, n_layers=0, snapshots=snapshots)
    kept = tmp_path / train.STATE
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    loss = train.OnText.loss

    def fills(training, step):
        if step == 15:  # the first state is saved
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, usual[1]))
        return loss(training, step)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="disk full") as error:
        patch.setattr(train.OnText, "loss", fills)
        try:
            train.train(train.OnText, run, tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert str(tmp_path) in str(error.value)
    assert torch.load(kept, weights_only=True)["state"]["step"] == 10
    assert {file.name for file in tmp_path.iterdir()} == {train.STATE}


def _interrupt_at_the_third(measure):
    calls = itertools.count(1)

    def interrupted(run):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return measure(run)

    return interrupted


def test_a_task_gets_adamw_for_all_its_weights_and_no_biases():
    model = models.initial(TASK.config())
    optimizers = train.Optimizers(model, TASK)
    (group,) = optimizers.all[0].param_groups
    expected = {id(p) for name, p in model.named_parameters() if ".b_" not in name}
    assert len(optimizers.all) == 1 and {id(p) for p in group["params"]} == expected
    assert (group["lr"], group["weight_decay"]) == (TASK.adamw_lr, TASK.adamw_decay)


def test_only_the_last_position_counts():
    run = train.OnTask(TASK, "cpu")
    (batch,) = (tasks.batch_of(TASK, 4, run.training),)
    logits = run.model(batch)[:, -1].log_softmax(-1)
    by_hand = -logits[torch.arange(len(batch)), batch[:, -2:].sum(1)].mean()
    torch.testing.assert_close(run.loss(4), by_hand)


def test_the_real_tasks_are_sound():
    for task in tasks.TASKS.values():
        assert task.warmup <= task.hold * task.steps < task.steps


def test_a_text_model_has_an_mlp_only_if_its_recipe_says_so():
    small = {"n_layers": 1, "n_heads": 1, "d_head": 4, "d_model": 4, "n_ctx": 5, "d_vocab": 9}
    plain, neurons = (REAL_RECIPES[name].config() for name in ("one-layer", "one-layer-mlp"))
    assert "d_mlp" not in plain and "attn_only" not in neurons
    model = models.initial(neurons | small | {"d_mlp": 7})
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert {"blocks.0.mlp.W_in", "blocks.0.mlp.W_out"} <= trained and not any(
        ".b_" in name for name in trained
    )


def test_the_model_with_layernorm_differs_in_nothing_else():
    plain, normalized = REAL_RECIPES["one-layer"], REAL_RECIPES["one-layer-ln"]
    assert replace(normalized, normalization=None) == plain
    different = {key for key, value in plain.config().items() if normalized.config()[key] != value}
    assert different == {"normalization_type"}


def test_layernorm_is_trained_and_stored(tmp_path):
    train.train(train.OnText, replace(TINY, n_layers=1, snapshots=(), normalization="LN"), tmp_path)
    model, untrained = models.load(tmp_path), models.load(tmp_path, step=0)
    for name in ("blocks.0.ln1", "ln_final"):
        for kind, start in (("w", 1.0), ("b", 0.0)):
            assert (untrained.get_parameter(f"{name}.{kind}") == start).all()
            assert not torch.equal(
                model.get_parameter(f"{name}.{kind}"), untrained.get_parameter(f"{name}.{kind}")
            )
    assert models.load(tmp_path).cfg.normalization_type == "LN"


def test_biases_are_trained_and_stored_where_the_recipe_says_so(tmp_path):
    recipe = replace(TINY, snapshots=(), biases=True)
    train.train(train.OnText, recipe, tmp_path)
    model, untrained = models.load(tmp_path), models.load(tmp_path, step=0)
    biases = [name for name, _ in model.named_parameters() if ".b_" in name]
    assert len(biases) == 2 * 4 + 1  # b_Q, b_K, b_V, b_O of each layer, and b_U
    for name in biases:
        assert not untrained.get_parameter(name).any()
        # b_K shifts all scores of a query alike
        assert model.get_parameter(name).any() or name.endswith("b_K")


# The command line


def _error(capsys, *arguments):
    """The last line that a refused command prints."""
    with pytest.raises(SystemExit) as caught:
        train.main(list(arguments))
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "Traceback" not in printed.err
    return printed.err.splitlines()[-1]


def test_an_unknown_model_is_refused(capsys):
    message = _error(capsys, "three-layer")
    assert "'three-layer'" in message and "two-layer" in message


@pytest.mark.parametrize("minutes", ["-3", "0"])
def test_minutes_must_be_positive(capsys, minutes):
    assert "--minutes must be above 0" in _error(capsys, "two-layer", "--minutes", minutes)


def test_an_unknown_device_is_refused(capsys):
    assert "invalid choice: 'banana'" in _error(capsys, "two-layer", "--device", "banana")


def test_what_training_measures_lies_where_the_model_is(monkeypatch):
    """A measuring function refuses a model on one device and tokens on another."""
    monkeypatch.setattr(
        train, "initial", lambda config, device: torch.nn.Linear(1, 1, device=device)
    )
    monkeypatch.setattr(train, "Optimizers", lambda *arguments: None)
    made = train.OnText(train.RECIPES["two-layer"], "meta", torch.arange(9))
    assert (
        made.tokens.device
        == made.repeated.device
        == made.model.weight.device
        == torch.device("meta")
    )


def test_without_a_gpu_cuda_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "torch finds no GPU" in _error(capsys, "two-layer", "--device", "cuda")


def test_a_finished_folder_is_refused_in_one_line(capsys, finished):
    assert "already holds a finished model" in _error(
        capsys, "two-layer", "--out", str(finished.folder)
    )


def test_the_command_trains(capsys, tmp_path, monkeypatch, finished):
    monkeypatch.chdir(tmp_path)
    train.main(["two-layer"])
    folder = Path("runs") / "two-layer"
    assert (
        capsys.readouterr().out
        == f"{folder}: held-out loss {finished.row['held_out_loss']:.3f} nats\n"
    )
    assert _contents(tmp_path / "runs" / "two-layer") == _contents(finished.folder)


def test_the_command_trains_a_task(capsys, tmp_path, monkeypatch, finished_task):
    monkeypatch.setattr(tasks, "TASKS", {"addition": TASK})
    train.main(["addition", "--out", str(tmp_path / "sum")])
    row = finished_task.row
    expected = (
        f"held-out loss {row['held_out_loss']:.3f} nats, accuracy {row['held_out_accuracy']:.2%}\n"
    )
    assert capsys.readouterr().out == f"{tmp_path / 'sum'}: {expected}"


def test_the_options_reach_the_recipe(capsys, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(
        train,
        "train",
        lambda *args, **kwargs: calls.append((args, kwargs)) or {"held_out_loss": 1.0},
    )
    train.main(["one-layer", "--seed", "5", "--minutes", "2.5", "--out", str(tmp_path)])
    recipe = replace(TINY, n_layers=1, seed=5)
    assert calls == [((train.OnText, recipe, tmp_path), {"device": "cpu", "minutes": 2.5})]
