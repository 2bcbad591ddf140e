"""The sum of paths, against the model that runs."""

import pytest
import torch

from course_utils import circuits, models, paths

CONFIG = {"n_layers": 1, "d_model": 12, "n_heads": 3, "d_head": 4, "n_ctx": 9, "d_vocab": 30, "attn_only": True}
CONFIG |= {"normalization_type": None, "positional_embedding_type": "shortformer", "seed": 0}
TOKENS = torch.tensor([0, 5, 7, 5, 9, 29, 5])


@pytest.fixture
def model():
    return models.initial(CONFIG).requires_grad_(False)


def test_the_paths_of_one_layer_add_up_to_the_logits(model):
    direct, terms = paths.path_terms(model, TOKENS)
    assert direct.shape == (7, 30) and terms.shape == (3, 7, 30)
    torch.testing.assert_close(direct + terms.sum(0), model(TOKENS[None])[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(direct, circuits.direct_path(model).AB[TOKENS])


def test_a_path_is_its_own_heads(model):
    """Silencing one head takes its term away, and leaves the others as they were."""
    direct, terms = paths.path_terms(model, TOKENS)
    model.blocks[0].attn.W_O[1] = 0
    same, others = paths.path_terms(model, TOKENS)
    assert not others[1].any() and terms[1].abs().max() > 0
    torch.testing.assert_close(same, direct)
    torch.testing.assert_close(others[[0, 2]], terms[[0, 2]])


def test_the_paths_of_two_layers_add_up_to_a_logit_and_each_head_has_its_own():
    model = models.initial(CONFIG | {"n_layers": 2}).requires_grad_(False)
    logits = model(TOKENS[None])[0, -1]
    for out in (0, 29):  # the first token and the last
        terms = paths.to_logit(model, TOKENS, out)
        total = sum(term.sum() for term in terms)
        torch.testing.assert_close(total, logits[out] - logits.mean(), atol=1e-5, rtol=1e-4)
        direct = paths.to_logit(model, TOKENS[:-1], out)[0]  # of the last token alone
        torch.testing.assert_close(direct, model.W_E[29] @ (model.W_U[:, out] - model.W_U.mean(1)))
    for out in (-1, 30):
        with pytest.raises(ValueError, match="no token"):
            paths.to_logit(model, TOKENS, out)
    direct, one, two, both = paths.to_logit(model, TOKENS, 7)
    assert (one.shape, two.shape, both.shape) == ((3, 7), (3, 7), (3, 3, 7, 7))
    total = direct + one.sum() + two.sum() + both.sum()
    torch.testing.assert_close(total, logits[7] - logits.mean(), atol=1e-5, rtol=1e-4)
    model.blocks[1].attn.W_O[2] = 0  # a head of layer 1 is silent: its paths go, the others stay
    _, same, less, through = paths.to_logit(model, TOKENS, 7)
    torch.testing.assert_close(same, one)
    assert not less[2].any() and not through[2].any() and two[2].any() and both[2].any()
    torch.testing.assert_close(through[:2], both[:2])


@pytest.mark.parametrize("n_layers", [1, 3])
def test_the_paths_to_a_logit_are_those_of_two_layers(n_layers):
    model = models.initial(CONFIG | {"n_layers": n_layers})
    with pytest.raises(ValueError, match=f"two layers; this one has {n_layers}"):
        paths.to_logit(model, TOKENS, 7)


@pytest.mark.parametrize("n_layers", [0, 2])
def test_other_models_have_other_paths(n_layers):
    model = models.initial(CONFIG | {"n_layers": n_layers})
    with pytest.raises(ValueError, match=f"one layer; this one has {n_layers}"):
        paths.path_terms(model, TOKENS)


@pytest.mark.parametrize("other", [{"normalization_type": "LN"}, {"positional_embedding_type": "standard"}])
def test_a_model_with_other_parts_is_no_sum_of_these_paths(other):
    for n_layers, terms in ((1, paths.path_terms), (2, lambda *given: paths.to_logit(*given, 7))):
        with pytest.raises(ValueError, match="no LayerNorm, MLP, bias or position"):
            terms(models.initial(CONFIG | other | {"n_layers": n_layers}), TOKENS)


def test_heads_given_as_tables_are_the_models_when_positions_are_zero(model):
    model.pos_embed.W_pos.zero_()
    QK, OV = (torch.stack([full(model, 0, h).AB for h in range(3)]) for full in (circuits.full_qk, circuits.full_ov))
    _, terms = paths.path_terms(model, TOKENS)
    torch.testing.assert_close(paths.of_tables(QK, OV, TOKENS), terms.sum(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(paths.of_tables(QK[:1], OV[:1], TOKENS), terms[0], atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="from 0 to 29"):
        paths.of_tables(QK, OV, torch.tensor([3, 30]))
    smaller = QK[:, :2, :2], OV[:, :2, :2]  # with fewer tokens than heads
    assert paths.of_tables(*smaller, torch.tensor([0, 1])).shape == (2, 2)
    with pytest.raises(ValueError, match="from 0 to 1"):
        paths.of_tables(*smaller, torch.tensor([0, 2]))
