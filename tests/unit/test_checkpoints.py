"""The stored models are what their cards say, and do what the lessons build on, with controls."""

import json
from dataclasses import replace

import pytest
import torch

from course_utils import _files, bigrams, circuits, heads, load, measure, text
from course_utils.training import tasks, train

NAMES = ("zero-layer", "one-layer", "one-layer-ln", "one-layer-mlp", "two-layer")


@pytest.fixture(scope="module")
def models():
    return {name: load(name) for name in NAMES}


@pytest.fixture(scope="module")
def measured(models):
    tokens, repeated = text.held_out_tokens(), text.repeated_tokens(train.PERIOD)
    return {
        name: measure.on_text(model, tokens) | measure.on_repeats(model, repeated, train.PERIOD)
        for name, model in models.items()
    }


def copying(model) -> torch.Tensor:
    return torch.tensor(
        [circuits.copying_score(circuits.full_ov(model, 0, head)) for head in range(8)]
    )


def scores(row: dict, key: str, layer: int) -> torch.Tensor:
    return torch.tensor(row[key][layer])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_the_card_tells_what_the_weights_do(measured, name):
    card = json.loads((_files.DATA / name / "config.json").read_text(encoding="utf-8"))
    for key, value in measured[name].items():
        torch.testing.assert_close(
            torch.tensor(value), torch.tensor(card["result"][key]), rtol=0, atol=0.02
        )
    assert f"{card['result']['held_out_loss']:.2f}" in (_files.DATA / "README.md").read_text(
        encoding="utf-8"
    )
    # older cards lack fields added since
    recipe = card["recipe"] | {"snapshots": tuple(card["recipe"]["snapshots"])}
    assert train.TextRecipe(**recipe) == train.RECIPES[name]


@pytest.mark.slow
def test_zero_layers_are_no_worse_than_a_smoothed_bigram_table(measured):
    table = bigrams.kneser_ney(bigrams.counts().to_dense())
    assert (
        measured["zero-layer"]["held_out_loss"]
        < bigrams.table_loss(table, text.held_out_tokens()) + 0.1
    )


@pytest.mark.slow
def test_every_layer_lowers_the_loss(measured):
    zero, one, two = (
        measured[name]["held_out_loss"] for name in ("zero-layer", "one-layer", "two-layer")
    )
    assert zero > one + 0.5 > two + 0.6


def test_several_heads_of_one_layer_copy(models):
    model = models["one-layer"]
    assert (copying(model) > 0.8).sum() == 5
    assert copying(load("one-layer", step=0)).abs().max() < 0.3


@pytest.mark.slow
def test_two_layers_have_a_previous_token_head_and_induction_heads(measured):
    one, two = measured["one-layer"], measured["two-layer"]
    assert (scores(two, "previous_token", 0) > 0.7).sum() == 1
    first, second, third = scores(two, "prefix_matching", 1).topk(3).values
    assert first >= 0.65 and second >= 0.5 and third < 0.05
    assert f"| {first:.2f}, {second:.2f}, {third:.2f} |" in (_files.DATA / "README.md").read_text(
        encoding="utf-8"
    )
    # the control: no second layer, no induction
    assert scores(one, "prefix_matching", 0).max() < 0.1
    assert two["first_pass_loss"] - two["second_pass_loss"] > 3
    assert abs(one["first_pass_loss"] - one["second_pass_loss"]) < 0.5


def test_the_untrained_model_is_the_control_of_the_control():
    model = load("two-layer", step=0)
    patterns = heads.patterns(model, text.repeated_tokens(train.PERIOD, 4))
    assert heads.prefix_matching_score(patterns, train.PERIOD).max() < 0.1
    assert heads.previous_token_score(patterns).max() < 0.3


# The small tasks

SEEDS = [f"/seed-{seed}" for seed in range(1, 5)]

SMALL = [f"{task}{seed}" for task in ("max-of-list", "addition") for seed in ("", *SEEDS)]


@pytest.mark.parametrize("name", SMALL)
def test_a_small_models_card_tells_what_its_weights_do(name):
    base, _, seed = name.partition("/seed-")
    task, model = replace(tasks.TASKS[base], seed=int(seed or 0)), load(name)
    card = json.loads((_files.DATA / name / "config.json").read_text(encoding="utf-8"))
    assert (
        card["recipe"] == json.loads(json.dumps(train.asdict(task)))
        and card["model"] == task.config()
    )
    _, held_out = tasks.examples(task)
    right = [
        (model(tokens)[:, -1].argmax(1) == tasks.answers(task, tokens)).float()
        for tokens in held_out
    ]
    assert torch.cat(right).mean().item() == pytest.approx(
        card["result"]["held_out_accuracy"], abs=0.002
    )
    assert f"{card['result']['held_out_accuracy'] * 100:.2f} %" in (
        _files.DATA / "README.md"
    ).read_text(encoding="utf-8")
    untrained = load(name, step=0)
    guessed = [
        (untrained(tokens)[:, -1].argmax(1) == tasks.answers(task, tokens)).float()
        for tokens in held_out
    ]
    assert torch.cat(guessed).mean() < 0.1


def test_sums_are_learnt_whatever_the_seed():
    cards = [
        json.loads((_files.DATA / f"addition{seed}" / "config.json").read_text(encoding="utf-8"))
        for seed in ("", *SEEDS)
    ]
    assert [card["recipe"]["seed"] for card in cards] == [0, 1, 2, 3, 4]
    assert min(card["result"]["held_out_accuracy"] for card in cards) >= 0.99


def test_a_sum_that_training_never_asked_for_is_not_known():
    task, model = tasks.TASKS["addition"], load("addition")
    training, held_out = tasks.examples(task)
    asked = torch.cat([tasks.answers(task, tokens) for tokens in training]).unique()
    assert set(range(128)) - set(asked.tolist()) == {2}  # 0 + 2 and 1 + 1 are both held out
    assert not (model(held_out[0])[:, -1].argmax(1) == 2).any()
