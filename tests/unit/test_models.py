"""Loading models, from disk and from the hub."""

import errno
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import constants
from huggingface_hub import errors as hub_errors
from huggingface_hub import utils as hub_utils

from course_utils import _files, models, text

CONFIG = {
    "n_layers": 2,
    "d_model": 16,
    "n_heads": 2,
    "d_head": 8,
    "n_ctx": 24,
    "d_vocab": 50,
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "shortformer",
    "seed": 3,
}
TOKENS = torch.tensor([[0, 5, 6, 7, 5, 6], [0, 49, 1, 1, 30, 2]])


def _trained(seed):
    """A model whose every trainable weight differs from the initialisation."""
    model, generator = models.initial(CONFIG), torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


@pytest.fixture(scope="module")
def final():
    return _trained(seed=1)


@pytest.fixture(scope="module")
def midway():
    return _trained(seed=2)


@pytest.fixture
def folder(tmp_path, final, midway):
    """What training leaves behind."""
    folder = tmp_path / "tiny-model"
    models.save_weights(final, folder / "model.safetensors")
    models.save_weights(midway, folder / models.snapshot_name(200))
    (folder / "config.json").write_text(json.dumps({"model": CONFIG}))
    _files.write_checksums(folder)
    return folder


@pytest.fixture
def data(folder, monkeypatch):
    """`data/` with this one model in it."""
    for module in (_files, models):
        monkeypatch.setattr(module, "DATA", folder.parent)
    return folder.parent


@torch.no_grad()
def _probabilities(model):
    return model(TOKENS).softmax(-1)


def _centred(model):
    """The weights as `load` gives them, float16 and all."""
    state = {key: p.detach().half().float() for key, p in model.named_parameters()}
    state["unembed.W_U"] = state["unembed.W_U"] - state["unembed.W_U"].mean(1, keepdim=True)
    return state


# From disk


@pytest.mark.parametrize(("step", "expected"), [(None, "final"), (200, "midway")])
def test_load_gives_back_what_was_saved(folder, request, step, expected):
    model, expected = models.load(folder, step), request.getfixturevalue(expected)
    torch.testing.assert_close(dict(model.named_parameters()), _centred(expected))
    assert model.W_E.dtype == torch.float32 and not model.training
    torch.testing.assert_close(_probabilities(model), _probabilities(expected), atol=2e-3, rtol=0)


def test_step_0_is_the_initialisation(folder):
    model, untrained = models.load(folder, step=0), models.initial(CONFIG)
    for name, parameter in model.named_parameters():
        if name != "unembed.W_U":
            assert torch.equal(parameter, untrained.get_parameter(name)), name
    torch.testing.assert_close(_probabilities(model), _probabilities(untrained))


def test_the_unembedding_is_centred_and_no_probability_changes(folder):
    model = _trained(seed=5)
    model.W_U.data += torch.arange(16.0)[:, None] / 4
    for parameter in model.parameters():
        parameter.data = parameter.data.half().float()
    models.save_weights(model, folder / "model.safetensors")
    _files.write_checksums(folder)
    loaded = models.load(folder)
    torch.testing.assert_close(loaded.W_U.mean(-1), torch.zeros(16), atol=1e-6, rtol=0)
    torch.testing.assert_close(_probabilities(loaded), _probabilities(model), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", [str, Path])
def test_load_takes_a_folder(folder, final, monkeypatch, kind):
    monkeypatch.chdir(folder.parent)
    for path in (folder, folder.name):
        torch.testing.assert_close(
            dict(models.load(kind(path)).named_parameters()), _centred(final)
        )


def test_load_takes_a_bundled_name(data):
    assert models.bundled() == ["tiny-model"]
    assert models.load("tiny-model").cfg.n_layers == 2


def test_a_model_of_the_courses_vocabulary_gets_its_tokenizer(tmp_path):
    config = CONFIG | {"d_vocab": text.D_VOCAB, "n_layers": 0}
    models.save_weights(models.initial(config), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model": config}))
    _files.write_checksums(tmp_path)
    assert models.load(tmp_path).to_str_tokens("import") == [text.START, "import"]


@pytest.mark.parametrize(
    "name", [name for name in models.bundled() if re.fullmatch(r"\w+-layer", name)]
)
def test_bundled_models_load(name):
    model = models.load(name)
    tokens = text.held_out_tokens()[:4]
    assert model(tokens, return_type="loss").item() < 6.5  # uniform guesses lose 8.3
    assert models.load(name, step=0)(tokens, return_type="loss").item() > 8


# What can go wrong on disk


@pytest.mark.parametrize("name", ["tiny-modle", "tinymodel", "Tiny-Model"])
def test_an_unknown_name_hears_of_the_nearest(data, name):
    with pytest.raises(
        ValueError, match=f"no model and no folder '{name}'. Did you mean 'tiny-model'"
    ) as caught:
        models.load(name)
    assert "gpt2" in str(caught.value) and "\n" not in str(caught.value)


def test_a_name_unlike_any_other_hears_of_all(data):
    with pytest.raises(
        ValueError, match=r"'xyz'\. Bundled: \['tiny-model'\]; from the hub: \['attn-only-1l'"
    ):
        models.load("xyz")


def test_without_data_no_name_is_to_blame(data):
    shutil.rmtree(data / "tiny-model")
    with pytest.raises(FileNotFoundError) as caught:
        models.load("two-layer")
    assert str(caught.value) == f"There is no model in {data}. {_files.get_back('data')}"


@pytest.mark.parametrize("name", ["runs/tiny-model", "../nowhere", None, 5])
def test_what_is_no_folder_is_no_damaged_file(data, name):
    with pytest.raises(ValueError, match="no model and no folder"):
        models.load(name)


@pytest.mark.parametrize("step", [100, -200, "200", 0.5])
def test_an_unknown_step_hears_of_those_there_are(folder, step):
    with pytest.raises(
        ValueError, match=rf"'tiny-model' has no snapshot of step {step!r}; it has \[0, 200\]\."
    ):
        models.load(folder, step)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(data, folder, file):
    (folder / file).unlink()
    with pytest.raises(
        FileNotFoundError, match=f"^data/tiny-model/{file} is missing.*git checkout"
    ):
        models.load(data / "tiny-model")


@pytest.mark.parametrize(
    ("file", "step"),
    [("config.json", None), ("model.safetensors", None), ("step-000200.safetensors", 200)],
)
def test_a_damaged_file_is_named(data, folder, file, step):
    content = bytearray((folder / file).read_bytes())
    content[-3] ^= 1  # one bit
    (folder / file).write_bytes(content)
    with pytest.raises(OSError, match=f"^data/tiny-model/{file} is damaged.*git checkout"):
        models.load("tiny-model", step)


def test_swapped_weights_are_refused(folder):
    shutil.copy(folder / "step-000200.safetensors", folder / "model.safetensors")
    with pytest.raises(OSError, match=r"model\.safetensors is damaged"):
        models.load(folder)


# The initialisation


def test_the_initialisation_can_be_repeated():
    first = models.initial(CONFIG)
    torch.manual_seed(99)
    again, other = models.initial(CONFIG), models.initial(CONFIG | {"seed": 4})
    torch.testing.assert_close(
        again.state_dict(), first.state_dict(), atol=0, rtol=0, equal_nan=True
    )
    assert not torch.equal(other.W_E, first.W_E)


@pytest.mark.parametrize(
    "config", [{k: v for k, v in CONFIG.items() if k != "seed"}, CONFIG | {"seed": None}]
)
def test_the_initialisation_requires_a_seed(config):
    with pytest.raises(ValueError, match="needs a seed"):
        models.initial(config)


def test_biases_are_zero_and_frozen():
    parameters = dict(models.initial(CONFIG).named_parameters())
    biases = {name for name in parameters if ".b_" in name}
    assert len(biases) == 2 * 4 + 1  # b_Q, b_K, b_V, b_O in each layer, and b_U
    assert all(not parameters[name].any() for name in biases)
    assert {name for name in parameters if not parameters[name].requires_grad} == biases
    assert all(parameters[name].any() for name in parameters.keys() - biases)


def test_positions_start_as_sinusoids():
    W_pos = models.initial(CONFIG).W_pos
    for position in (0, 1, 17):
        for pair in (0, 1, 7):
            angle = torch.tensor(position / 10_000 ** (2 * pair / 16))
            expected = torch.stack([angle.sin(), angle.cos()])
            torch.testing.assert_close(W_pos[position, 2 * pair : 2 * pair + 2], expected)
    standard = models.initial(CONFIG | {"positional_embedding_type": "standard"})
    assert not torch.allclose(standard.W_pos, W_pos)


def test_saved_weights_hold_half_precision_and_no_bias(folder):
    stored = models.load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    assert {key.split(".")[-1] for key in stored} == {
        "W_E",
        "W_pos",
        "W_U",
        "W_Q",
        "W_K",
        "W_V",
        "W_O",
    }


# From the hub

FAILURES = [
    hub_errors.LocalEntryNotFoundError("not in the cache, and no connection"),
    hub_errors.OfflineModeIsEnabled("offline mode is enabled"),
    # transformers' own
    OSError("We couldn't connect to 'https://huggingface.co' to load the files"),
    hub_errors.HTTPError("refused, or timed out"),
    ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("name", ["gpt2", "attn-only-1l"])
def test_no_network_is_one_clear_sentence(monkeypatch, failure, name):
    def unreachable(*_, **__):
        raise failure

    monkeypatch.setattr(models, "_hub_answers", lambda: True)
    monkeypatch.setattr(models.HookedTransformer, "from_pretrained", unreachable)
    monkeypatch.setattr(models, "download_file_from_hf", unreachable)
    monkeypatch.setattr(models, "get_pretrained_model_config", lambda *_, **__: None)
    with pytest.raises(
        ConnectionError, match=f"^'{name}' comes from the Hugging Face hub, .*reached"
    ) as caught:
        models.load(name)
    assert "\n" not in str(caught.value) and caught.value.__cause__ is failure


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("a bug")]
)
def test_other_failures_are_not_blamed_on_the_network(monkeypatch, failure):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(models, "_hub_answers", lambda: True)
    monkeypatch.setattr(models.HookedTransformer, "from_pretrained", fail)
    with pytest.raises(type(failure)) as caught:
        models.load("gpt2")
    assert caught.value is failure


@pytest.mark.parametrize("answers", [True, False])
def test_a_hub_that_does_not_answer_is_not_asked_again(monkeypatch, answers):
    """The hub's client tries again for half a minute, unless it is told to work offline."""
    offline = []
    model = SimpleNamespace(eval=lambda: model, requires_grad_=lambda _: model)

    def from_pretrained(*_, **__):
        offline.append(constants.is_offline_mode())
        return model

    monkeypatch.setattr(models, "_hub_answers", lambda: answers)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(models.HookedTransformer, "from_pretrained", from_pretrained)
    assert models.load("gpt2") is model
    assert offline == [not answers] and not constants.is_offline_mode()


@pytest.mark.parametrize("status", [200, 403, 503])
def test_any_answer_of_the_hub_is_one(monkeypatch, status):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert models._hub_answers()
    assert not models._hub_answers()  # nobody listens any more


def test_a_proxy_that_no_client_knows_is_no_network(monkeypatch, subtests):
    """Then the cached copy is read, for which the hub's library makes a client, too."""
    made = []
    model = SimpleNamespace(eval=lambda: model, requires_grad_=lambda _: model)

    def from_pretrained(*_, **__):
        made.append(hub_utils.get_session())
        return model

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(models.HookedTransformer, "from_pretrained", from_pretrained)
    for name, value in {
        "ALL_PROXY": "socks://127.0.0.1:7890",
        "all_proxy": "socks4a://127.0.0.1:7890",
        "HTTP_PROXY": "http://[::1",
        "HTTPS_PROXY": "htp://127.0.0.1:7890",
        "NO_PROXY": "fe80::/10",
    }.items():
        with subtests.test(f"{name}={value}"), pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, value)
            # where the name says nothing by itself, nobody listens
            patch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
            hub_utils.close_session()
            assert models.load("gpt2") is model
            assert made.pop() and os.environ[name] == value and not constants.HF_HUB_OFFLINE
    hub_utils.close_session()


def test_hub_models_take_no_step():
    with pytest.raises(ValueError, match=r'load\("gpt2"\) takes no step'):
        models.load("gpt2", step=0)


HUB_SCRIPT = """
import json, sys
from pathlib import Path
import torch
from transformers import PreTrainedTokenizerFast
from course_utils import models, text

def failure(name):
    try:
        models.load(name)
    except Exception as error:
        return [type(error).__name__, str(error)]

result = {"empty": {name: failure(name) for name in models.HUB}}

def repository(name):  # as a download leaves it in the cache
    folder = Path(sys.argv[1], "hub", "models--" + name.replace("/", "--"))
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(snapshot.name)
    for absent in ("config.json", "special_tokens_map.json", "added_tokens.json",
                   "chat_template.jinja"):
        (folder / ".no_exist" / snapshot.name).mkdir(parents=True, exist_ok=True)
        (folder / ".no_exist" / snapshot.name / absent).touch()
    return snapshot

tokenizer_name = "NeelNanda/gpt-neox-tokenizer-digits"
card = dict(n_layers=1, d_model=16, n_heads=2, d_head=8, d_mlp=64, n_ctx=32, d_vocab=260,
            act_fn="solu_ln", attn_only=True, normalization="LN", shortformer_pos=False,
            tokenizer_name=tokenizer_name)
sizes = ("n_layers", "d_model", "n_heads", "d_head", "n_ctx", "d_vocab", "attn_only")
config = {key: card[key] for key in sizes} | {"normalization_type": "LN", "seed": 0}
model = models.initial(config)
files = repository("NeelNanda/Attn_Only_1L512W_C4_Code")
(files / "config.json").write_text(json.dumps(card))
result["incomplete"] = failure("attn-only-1l")  # the weights aren't there yet
torch.save(model.state_dict(), files / "model_final.pth")
backend = text.train_tokenizer(["hello, hello"], 260)
marks = {"bos_token": text.START, "eos_token": text.START}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **marks)
tokenizer.save_pretrained(repository(tokenizer_name))

loaded = models.load("attn-only-1l")
tokens = loaded.to_tokens("hello, hello")
difference = model(tokens).log_softmax(-1) - loaded(tokens).log_softmax(-1)
result["loaded"] = {
    "name": loaded.cfg.model_name, "tokens": tokens[0].tolist(),
    "expected": backend.encode("hello, hello").ids,
    "difference": difference.abs().max().item(),
    "centre": loaded.W_U.mean(-1).abs().max().item(),
    "training": loaded.training, "other": failure("attn-only-2l"),
}
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """What loading hub models gives without network: from an empty cache, then from a small one."""
    home = tmp_path_factory.mktemp("huggingface")
    environment = os.environ | {
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(home / "hub"),
    }
    command = [sys.executable, "-W", "ignore", "-c", HUB_SCRIPT, str(home)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, env=environment, cwd=root, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_an_empty_cache_without_network_is_one_clear_sentence(hub):
    assert hub["empty"].keys() == set(models.HUB)
    for name, (kind, message) in hub["empty"].items():
        assert kind == "ConnectionError" and message.startswith(
            f"'{name}' comes from the Hugging Face hub"
        )


@pytest.mark.slow
def test_an_incomplete_cache_is_no_cached_copy(hub):
    kind, message = hub["incomplete"]
    assert kind == "ConnectionError" and "no complete copy" in message
    assert hub["loaded"]["other"][0] == "ConnectionError"


@pytest.mark.slow
def test_a_cached_hub_model_loads_without_network(hub):
    loaded = hub["loaded"]
    assert loaded["name"] == "Attn_Only_1L512W_C4_Code" and not loaded["training"]
    assert loaded["tokens"] == loaded["expected"] and loaded["tokens"][0] == 0
    # with LayerNorm folded and W_U centred, the same predictions
    assert loaded["difference"] < 1e-4
    assert loaded["centre"] < 1e-6


def test_loading_leaves_the_callers_randomness_alone(folder):
    torch.manual_seed(77)
    expected = torch.rand(1)
    torch.manual_seed(77)
    models.load(folder)
    assert torch.rand(1) == expected


def test_weights_of_another_model_are_refused(folder):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["model"]["n_layers"] = 1
    (folder / "config.json").write_text(json.dumps(config))
    _files.write_checksums(folder)
    with pytest.raises(OSError, match="not those of the model"):
        models.load(folder)


def test_a_bundled_name_is_not_shadowed_by_a_folder_of_that_name(data, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "tiny-model").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert models.load("tiny-model").cfg.d_model == CONFIG["d_model"]


def test_history_is_that_of_a_bundled_model():
    card = json.loads((_files.DATA / "two-layer" / "config.json").read_text(encoding="utf-8"))
    assert models.history("two-layer")[-1]["step"] == card["recipe"]["steps"]
    with pytest.raises(ValueError, match=r"no bundled model 'two'; .*'two-layer'"):
        models.history("two")


def test_all_heads_are_listed_layer_by_layer():
    assert models.all_heads(models.initial(CONFIG)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert models.all_heads(models.initial(CONFIG | {"n_layers": 0})) == []


@pytest.mark.parametrize("device", ["gpu", "cuda:99", ""])
def test_a_device_that_is_not_there_is_a_sentence(device):
    with pytest.raises(ValueError, match=r'torch finds no device .*; "cpu" is always there\.'):
        models.load("zero-layer", device=device)


def test_a_name_that_no_file_can_have_is_a_sentence():
    with pytest.raises(ValueError, match="There is no model and no folder"):
        models.load("x" * 300)
