"""Lesson 10's statistics of any model, on hub-shaped ones too."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from course_lessons.l10_reading_critically import survey
from course_tools import authoring
from course_utils import circuits, composition, heads, load, models, text

CONFIG = {
    "n_layers": 1,
    "d_model": 16,
    "n_heads": 2,
    "d_head": 8,
    "n_ctx": 40,
    "d_vocab": 50,
    "attn_only": True,
    "normalization_type": "LN",
    "positional_embedding_type": "shortformer",
    "seed": 3,
}
STANDARD = {"n_layers": 2, "positional_embedding_type": "standard"}
PLAIN = {"n_layers": 2, "normalization_type": None}
TOKENS = torch.randint(50, (3, 30), generator=torch.Generator().manual_seed(0))


def _model(**changes):
    """A model whose every parameter, biases included, differs from its initialisation."""
    model = models.initial(CONFIG | changes).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


# Folding


@pytest.mark.parametrize("changes", [{}, STANDARD, STANDARD | {"n_layers": 1}, {"n_layers": 0}])
def test_folding_changes_no_logit(changes):
    model = _model(**changes)
    expected = model(TOKENS)
    folded = survey.folded(model)
    torch.testing.assert_close(folded(TOKENS), expected, atol=1e-4, rtol=1e-4)
    assert folded.cfg.normalization_type == "LNPre"
    assert not any(".ln" in name or name.startswith("ln") for name, _ in folded.named_parameters())


def test_folding_leaves_the_model_alone():
    model = _model()
    before = {name: p.clone() for name, p in model.named_parameters()}
    survey.folded(model)
    assert model.cfg.normalization_type == "LN"
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_shortformer_positions_must_be_divided_by_w():
    model = _model()
    careless = survey.folded(model)
    careless.pos_embed.W_pos.data = model.W_pos.clone()
    assert (careless(TOKENS) - model(TOKENS)).abs().max() > 1e-2


def test_the_hooks_of_a_folded_model_work():
    _, cache = survey.folded(_model()).run_with_cache(TOKENS)
    assert (
        cache["ln_final.hook_scale"].shape == cache["blocks.0.ln1.hook_scale"].shape == (3, 30, 1)
    )


def test_what_has_no_weights_to_fold_is_copied():
    model = _model(**PLAIN)
    copy = survey.folded(model)
    assert copy is not model and torch.equal(copy(TOKENS), model(TOKENS))


@pytest.mark.parametrize(
    "changes",
    [
        {"n_layers": 2},
        {"attn_only": False, "d_mlp": 8, "act_fn": "relu"},
        {"normalization_type": "RMS"},
    ],
)
def test_what_cannot_be_folded_is_refused(changes):
    with pytest.raises(ValueError, match=r"^Folding is for attention-only models with LayerNorm"):
        survey.folded(models.initial(CONFIG | changes))


# Measuring


def test_the_page_holds_what_the_course_measures():
    model = _model(**PLAIN)
    period = 13  # three of them fit a context of 40
    page = survey.survey(model, batch=5)
    tokens = text.repeated_tokens(period, 5, d_vocab=50)
    loss = model(tokens, return_type="loss", loss_per_token=True)
    patterns = heads.patterns(model, tokens)
    close = {"abs": 1e-4}
    assert page["first_pass_loss"] == pytest.approx(loss[:, 1:period].mean().item(), **close)
    assert page["second_pass_loss"] == pytest.approx(
        loss[:, period + 1 : 2 * period].mean().item(), **close
    )
    for key, expected in (
        ("previous_token", heads.previous_token_score(patterns).mean(-1)),
        ("prefix_matching", heads.prefix_matching_score(patterns, period).mean(-1)),
    ):
        torch.testing.assert_close(torch.tensor(page[key]), expected, atol=1e-5, rtol=1e-5)
    model.W_U.data -= model.W_U.mean(-1, keepdim=True)
    copying = [
        [circuits.copying_score(circuits.full_ov(model, n, h)) for h in (0, 1)] for n in (0, 1)
    ]
    torch.testing.assert_close(
        torch.tensor(page["copying"]), torch.tensor(copying), atol=1e-3, rtol=0
    )
    for mode, (score, writer, reader) in page["composition"].items():
        scores = composition.scores(model, mode)
        assert score == pytest.approx(scores.max().item(), **close)
        assert scores[(*writer, *reader)] == scores.max()
    json.dumps(page)  # plain numbers and lists


@pytest.mark.parametrize("name", ["one-layer", "two-layer"])
def test_the_bundled_models_have_the_scores_of_their_circuits(name):
    model, page = load(name), survey.survey(load(name), batch=2)
    expected = [circuits.copying_score(circuits.full_ov(model, 0, head)) for head in range(8)]
    torch.testing.assert_close(
        torch.tensor(page["copying"][0]), torch.tensor(expected), atol=1e-3, rtol=0
    )
    assert (max(page["prefix_matching"][-1]) > 0.5) == (name == "two-layer")


def test_fewer_layers_have_fewer_numbers():
    assert survey.survey(_model(n_layers=0, normalization_type=None)).keys() == {
        "first_pass_loss",
        "second_pass_loss",
    }
    assert "composition" not in survey.survey(_model())


def test_what_the_model_cannot_see_changes_nothing():
    model = _model()
    page = survey.survey(model)
    # LayerNorm removes it
    model.embed.W_E += 3 * torch.randn(50, 1, generator=torch.Generator().manual_seed(2))
    # softmax does
    model.unembed.W_U += torch.randn(16, 1, generator=torch.Generator().manual_seed(3))
    changed = survey.survey(model)
    for key, value in page.items():
        torch.testing.assert_close(
            torch.tensor(changed[key]), torch.tensor(value), atol=2e-3, rtol=0
        )


def test_every_model_gets_its_own_start_token():
    model = _model(**PLAIN)
    for tokenizer, start in ((None, 0), (SimpleNamespace(bos_token_id=7), 7)):
        model.tokenizer = tokenizer
        tokens = survey._repeated(model, 10, 40)
        assert (tokens[:, 0] == start).all() and (tokens[:, 1:] != start).all()
        assert len(tokens[:, 1:].unique()) > 40 and torch.equal(tokens[:, 1:11], tokens[:, 21:])


# The hub, as its cache looks after a download


SCRIPT = """
import json, sys
from pathlib import Path
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from course_utils import models, text

def repository(name, *absent):
    folder = Path(sys.argv[1], "hub", "models--" + name.replace("/", "--"))
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(snapshot.name)
    for file in (*absent, "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
                 "vocab.json", "generation_config.json", "merges.txt", "adapter_config.json",
                 "tokenizer.model"):
        (folder / ".no_exist" / snapshot.name).mkdir(parents=True, exist_ok=True)
        (folder / ".no_exist" / snapshot.name / file).touch()
    return snapshot

def tokenizer():
    backend = text.train_tokenizer(["hello, hello"], 260)
    marks = {"bos_token": text.START, "eos_token": text.START}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **marks)

torch.manual_seed(0)
name = "NeelNanda/gpt-neox-tokenizer-digits"
card = dict(n_layers=2, d_model=16, n_heads=2, d_head=8, d_mlp=64, n_ctx=32, d_vocab=260,
            act_fn="solu_ln", attn_only=True, normalization="LN", shortformer_pos=False,
            tokenizer_name=name)
sizes = ("n_layers", "d_model", "n_heads", "d_head", "n_ctx", "d_vocab", "attn_only")
config = {key: card[key] for key in sizes} | {"normalization_type": "LN", "seed": 0}
files = repository("NeelNanda/Attn_Only_2L512W_C4_Code")
(files / "config.json").write_text(json.dumps(card))
torch.save(models.initial(config).state_dict(), files / "model_final.pth")
tokenizer().save_pretrained(repository(name, "config.json"))
files = repository("gpt2")
config = GPT2Config(vocab_size=260, n_positions=64, n_ctx=64, n_embd=24, n_layer=3, n_head=2)
GPT2LMHeadModel(config).save_pretrained(files)
tokenizer().save_pretrained(files)

from course_lessons.l10_reading_critically.survey import survey
pages, load = {}, models.load
"""


def _lesson_cell(opening: str) -> str:
    notebook = authoring.read_notebook(authoring.solution_path("10_reading_critically"))
    (source,) = (cell.source for cell in notebook.cells if cell.source.startswith(opening))
    return source


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """What the lesson's cell prints for hub models without network: one is not in the cache."""
    home = tmp_path_factory.mktemp("huggingface")
    environment = os.environ | {
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(home / "hub"),
    }
    show = _lesson_cell("def show(").split("\n\n\n")[0]
    cell = _lesson_cell("names = []").replace(
        "names = []", 'names = ["attn-only-1l", "attn-only-2l", "gpt2"]'
    )
    draws = (
        "from course_lessons.l10_reading_critically import figures as draw\n"
        + _lesson_cell("draw.survey(").splitlines()[0]
    )
    code = "\n".join([SCRIPT, show, cell, draws, "print(json.dumps(pages))"])
    command = [sys.executable, "-W", "ignore", "-c", code, str(home)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, env=environment, cwd=root, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    *printed, pages = [line for line in done.stdout.splitlines() if "Loaded pretrained" not in line]
    return SimpleNamespace(printed=printed, pages=json.loads(pages))


@pytest.mark.slow
def test_the_lessons_cell_measures_hub_models(hub):
    assert hub.pages.keys() == {"attn-only-2l", "gpt2"}
    for name, page in hub.pages.items():
        assert abs(page["first_pass_loss"] - math.log(260)) < 1  # untrained
        shape = (2, 2) if name == "attn-only-2l" else (3, 2)
        for key in ("previous_token", "prefix_matching", "copying"):
            assert (
                torch.tensor(page[key]).shape == shape and torch.tensor(page[key]).isfinite().all()
            )
        assert page["composition"].keys() == set("QKV")
    assert any(line.startswith("gpt2: repeated random tokens, first pass") for line in hub.printed)


@pytest.mark.slow
def test_the_lessons_cell_says_what_cannot_be_reached(hub):
    (sentence,) = (line for line in hub.printed if "attn-only-1l" in line)
    assert sentence.startswith(
        "'attn-only-1l' comes from the Hugging Face hub, which can't be reached"
    )
