"""The sum of paths, against the model that runs."""

import pytest
import torch

from course_lessons.fixtures import random, tiny_model
from course_lessons.l10_reading_critically.to_logit import to_logit
from course_utils import circuits, heads, load, models, paths
from course_utils.course import solutions

path_terms = solutions.answer("path_terms")  # of lesson 04
CONFIG = {
    "n_layers": 1,
    "d_model": 12,
    "n_heads": 3,
    "d_head": 4,
    "n_ctx": 9,
    "d_vocab": 30,
    "attn_only": True,
}
CONFIG |= {"normalization_type": None, "positional_embedding_type": "shortformer", "seed": 0}
TOKENS = torch.tensor([0, 5, 7, 5, 9, 29, 5])


@pytest.fixture
def model():
    return models.initial(CONFIG).requires_grad_(False)


def test_the_paths_of_one_layer_add_up_to_the_logits(model):
    direct, terms = path_terms(model, TOKENS)
    assert direct.shape == (7, 30) and terms.shape == (3, 7, 30)
    torch.testing.assert_close(direct + terms.sum(0), model(TOKENS[None])[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(direct, (model.W_E @ model.W_U)[TOKENS])


def test_a_path_is_its_own_heads(model):
    """Silencing one head takes its term away, and leaves the others as they were."""
    direct, terms = path_terms(model, TOKENS)
    model.blocks[0].attn.W_O[1] = 0
    same, others = path_terms(model, TOKENS)
    assert not others[1].any() and terms[1].abs().max() > 0
    torch.testing.assert_close(same, direct)
    torch.testing.assert_close(others[[0, 2]], terms[[0, 2]])


def test_the_paths_of_two_layers_add_up_to_a_logit_and_each_head_has_its_own():
    model = models.initial(CONFIG | {"n_layers": 2}).requires_grad_(False)
    logits = model(TOKENS[None])[0, -1]
    for out in (0, 29):  # the first token and the last
        terms = to_logit(model, TOKENS, out)
        total = sum(term.sum() for term in terms)
        torch.testing.assert_close(total, logits[out] - logits.mean(), atol=1e-5, rtol=1e-4)
        direct = to_logit(model, TOKENS[:-1], out)[0]  # of the last token alone
        torch.testing.assert_close(direct, model.W_E[29] @ (model.W_U[:, out] - model.W_U.mean(1)))
    for out in (-1, 30):
        with pytest.raises(ValueError, match="no token"):
            to_logit(model, TOKENS, out)
    direct, one, two, both = to_logit(model, TOKENS, 7)
    assert (one.shape, two.shape, both.shape) == ((3, 7), (3, 7), (3, 3, 7, 7))
    total = direct + one.sum() + two.sum() + both.sum()
    torch.testing.assert_close(total, logits[7] - logits.mean(), atol=1e-5, rtol=1e-4)
    model.blocks[1].attn.W_O[2] = 0  # a head of layer 1 is silent: its paths go, the others stay
    _, same, less, through = to_logit(model, TOKENS, 7)
    torch.testing.assert_close(same, one)
    assert not less[2].any() and not through[2].any() and two[2].any() and both[2].any()
    torch.testing.assert_close(through[:2], both[:2])


@pytest.mark.parametrize("n_layers", [1, 3])
def test_the_paths_to_a_logit_are_those_of_two_layers(n_layers):
    model = models.initial(CONFIG | {"n_layers": n_layers})
    with pytest.raises(ValueError, match=f"two layers; this one has {n_layers}"):
        to_logit(model, TOKENS, 7)


@pytest.mark.parametrize(
    "other", [{"normalization_type": "LN"}, {"positional_embedding_type": "standard"}]
)
def test_a_model_with_other_parts_is_no_sum_of_these_paths(other):
    model = models.initial(CONFIG | other | {"n_layers": 2})
    with pytest.raises(ValueError, match="no LayerNorm, MLP, bias or position"):
        to_logit(model, TOKENS, 7)


def test_heads_given_as_tables_are_the_models_when_positions_are_zero(model):
    model.pos_embed.W_pos.zero_()
    QK, OV = (
        torch.stack([full(model, 0, h).AB for h in range(3)])
        for full in (circuits.full_qk, circuits.full_ov)
    )
    _, terms = path_terms(model, TOKENS)
    torch.testing.assert_close(paths.of_tables(QK, OV, TOKENS), terms.sum(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        paths.of_tables(QK[:1], OV[:1], TOKENS), terms[0], atol=1e-5, rtol=1e-4
    )
    with pytest.raises(ValueError, match="from 0 to 29"):
        paths.of_tables(QK, OV, torch.tensor([3, 30]))
    smaller = QK[:, :2, :2], OV[:, :2, :2]  # with fewer tokens than heads
    assert paths.of_tables(*smaller, torch.tensor([0, 1])).shape == (2, 2)
    with pytest.raises(ValueError, match="from 0 to 1"):
        paths.of_tables(*smaller, torch.tensor([0, 2]))


TRAINED = ["zero-layer", "one-layer", "one-layer-ln", "two-layer", "max-of-list"]


def trained(name):
    """A model of the course, and what it reads."""
    model = load(name)
    is_text = model.tokenizer is not None
    text = "def lantern_row(path):\n    return path\n\ndef lantern_row"
    return model, model.to_tokens(text)[0] if is_text else torch.tensor([5, 60, 3, 61, 12, 1])


@pytest.mark.parametrize("name", TRAINED[1:])
def test_patterns_and_what_is_given_are_those_of_the_package(name):
    model, tokens = trained(name)
    run = paths.run(model, tokens)
    torch.testing.assert_close(run.pattern, heads.patterns(model, tokens[None])[:, :, 0])
    torch.testing.assert_close(
        run.value_weighted, heads.value_weighted(model, tokens[None])[:, :, 0], atol=2e-4, rtol=1e-4
    )
    torch.testing.assert_close(run.logits, model(tokens[None])[0])
    _, cache = model.run_with_cache(tokens)
    future = torch.ones(len(tokens), len(tokens)).triu(1).bool()
    for layer in range(model.cfg.n_layers):
        scores = cache["attn_scores", layer][0]
        torch.testing.assert_close(
            run.scores[layer].masked_fill(future, -torch.inf), scores, atol=2e-4, rtol=1e-4
        )
    assert run.scores[:, :, future].isfinite().all()  # what the mask hides


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("cuts", [(), (3,), ((0, 0),)])
def test_the_terms_sum_to_the_logit(name, cuts):
    model, tokens = trained(name)
    if cuts == ((0, 0),) and not model.cfg.n_layers:
        return
    run = paths.run(model, tokens, *cuts)
    for position, token in ((len(tokens) - 1, 5), (2, 60)):
        terms = paths.terms(model, run, position, token)
        assert sum(terms.values()) == pytest.approx(run.logits[position, token].item(), abs=1e-3)
        assert (
            len([name for name in terms if "." in name]) == model.cfg.n_layers * model.cfg.n_heads
        )
        assert ("bias" in terms) == (name == "one-layer-ln")
        if cuts == ((0, 0),):
            assert terms["0.0"] == 0


def test_the_terms_of_one_layer_are_its_paths():
    model, tokens = trained("one-layer")
    direct, of_heads = path_terms(model, tokens)
    terms = paths.terms(model, paths.run(model, tokens), 9, 77)
    assert terms.pop("direct") == pytest.approx(direct[9, 77].item(), abs=1e-4)
    assert list(terms.values()) == pytest.approx(of_heads[:, 9, 77].tolist(), abs=1e-4)


DOORS = [((0, 5), "k", (1, 6)), ((0, 5), "v", (1, 6)), ((0, 2), "q", (1, 1)), ((0, 0), "v", (1, 4))]


@pytest.mark.parametrize("cuts", [(), (DOORS[1], DOORS[3], (1, 2)), (*DOORS, (0, 5), 4)])
def test_the_pairs_of_two_layers_sum_to_the_terms_of_the_later_heads(cuts):
    model, tokens = trained("two-layer")
    run = paths.run(model, tokens, *cuts)
    pairs, terms = paths.pairs(model, run, 20, 12), paths.terms(model, run, 20, 12)
    assert pairs.shape == (8, 9)
    assert pairs.sum(1).tolist() == pytest.approx(
        [terms[f"1.{head}"] for head in range(8)], abs=1e-3
    )
    if cuts:
        assert pairs[6, 1 + 5] == pairs[4, 1] == 0 and pairs[0, 1].abs() > 0


def test_a_pair_is_a_virtual_head():
    """A₂ A₁ W_E OV₁ OV₂ W_U, with the run's patterns, of matrices that `pairs` never forms."""
    model, tokens = trained("two-layer")
    model.double()
    run = paths.run(model, tokens)
    first = model.W_V[0, 3] @ model.W_O[0, 3]
    second = model.W_V[1, 6] @ model.W_O[1, 6]
    virtual = (
        run.pattern[1, 6]
        @ run.pattern[0, 3]
        @ model.W_E[tokens]
        @ first
        @ second
        @ model.W_U[:, 12]
    )
    assert paths.pairs(model, run, 20, 12)[6, 1 + 3].item() == pytest.approx(
        virtual[20].item(), abs=1e-8
    )


@pytest.mark.parametrize("normalization", [None, "LN", "LNPre"])
@pytest.mark.parametrize(
    "scale", [0.5, 0.02]
)  # of weights; so small a stream is not far from LayerNorm's epsilon
def test_the_terms_of_a_model_with_biases_sum_to_the_logit(normalization, scale):
    model = tiny_model(scale, normalization_type=normalization)
    for seed, (name, bias) in enumerate(model.named_parameters()):
        if ".b" in name:
            bias.data = scale * (1 + random(*bias.shape, seed=seed))
        elif ".w" in name:  # what LayerNorm multiplies with
            bias.data = 1 + 0.3 * random(*bias.shape, seed=seed)
    model.W_E.data += scale  # its mean is not 0
    run = paths.run(model, TOKENS % 20)
    for position, token in ((6, 3), (2, 11)):
        terms = paths.terms(model, run, position, token)
        assert sum(terms.values()) == pytest.approx(run.logits[position, token].item(), abs=2e-5)
        assert (
            {type(value) for value in terms.values()} == {float}
            and "bias" in terms
            and len(terms) == 8
        )


def test_a_model_of_no_layers_has_a_run_without_heads():
    model = tiny_model(n_layers=0)
    run = paths.run(model, TOKENS % 20)
    assert run.scores.shape == run.pattern.shape == run.value_weighted.shape == (0, 3, 7, 7)
    assert (
        run.written.shape == (0, 3, 7, 10)
        and run.stream.shape == (1, 7, 10)
        and run.logits.shape == (7, 20)
    )


def test_a_run_says_how_the_stream_grows_and_cannot_be_changed():
    model = tiny_model(n_layers=3)
    run = paths.run(model, TOKENS % 20)
    assert run.stream.shape == (4, 7, 10) and run.logits.shape == (7, 20)
    torch.testing.assert_close(run.stream[1:], run.stream[:1] + run.written.sum(1).cumsum(0))
    with pytest.raises(AttributeError, match="logits"):
        run.logits = run.logits + 1


def test_what_a_run_cannot_be_is_said():
    model = tiny_model()
    with pytest.raises(ValueError, match="has MLPs"):
        paths.run(tiny_model(attn_only=False, d_mlp=8, act_fn="relu"), TOKENS % 20)
    paths.run(model, torch.arange(9))
    with pytest.raises(ValueError, match="texts of 10 tokens, and the model reads at most 9"):
        paths.run(model, torch.arange(10))
    paths.run(model, TOKENS % 20, 6)
    with pytest.raises(
        ValueError, match="Position 7 can't be cut: the text has the positions 0 to 6"
    ):
        paths.run(model, TOKENS % 20, 7)
    for other in ({"n_layers": 1}, {"n_layers": 3}, {"normalization_type": "LN"}):
        other_model = tiny_model(**other)
        with pytest.raises(ValueError, match="Only two layers without LayerNorm"):
            paths.pairs(other_model, paths.run(other_model, TOKENS % 20), 3, 1)
