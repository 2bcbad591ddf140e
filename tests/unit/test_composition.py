"""Composition scores against the products written out, on planted and on random heads."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lessons.l06_composition.null import _shares, null
from course_utils import composition, models

CONFIG = {
    "n_layers": 3,
    "d_model": 24,
    "n_heads": 3,
    "d_head": 5,
    "n_ctx": 20,
    "d_vocab": 40,
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "shortformer",
    "seed": 0,
}
READS = {"Q": "W_Q", "K": "W_K", "V": "W_V"}


def _model(**changes):
    return models.initial(CONFIG | changes).requires_grad_(False)


def _dense(model, mode, layer1, head1, layer2, head2):
    OV1 = model.W_V[layer1, head1] @ model.W_O[layer1, head1]
    QK2 = model.W_Q[layer2, head2] @ model.W_K[layer2, head2].T
    OV2 = model.W_V[layer2, head2] @ model.W_O[layer2, head2]
    second = {"Q": QK2, "K": QK2.T, "V": OV2}[mode]
    return (OV1 @ second).norm() / (OV1.norm() * second.norm())


@pytest.mark.parametrize("n_heads", [2, 3])
@pytest.mark.parametrize("mode", "QKV")
def test_scores_are_the_norms_of_the_products_written_out(mode, n_heads):
    model = _model(n_heads=n_heads)
    scores = composition.scores(model, mode)
    assert scores.shape == (3, n_heads, 3, n_heads)
    # for the same pairs
    assert torch.equal(null(model, mode, samples=1)[0] > 0, scores > 0)
    for index in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        expected = _dense(model, mode, *index) if index[0] < index[2] else 0
        assert scores[tuple(index)] == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("mode", "QKV")
@pytest.mark.parametrize("model", ["small", "two-layer"])
def test_scores_are_those_of_transformer_lens(mode, model):
    model = _model() if model == "small" else models.load(model)
    assert (composition.scores(model, mode) - model.all_composition_scores(mode)).abs().max() < 1e-6


@pytest.mark.parametrize("planted", "QKV")
def test_a_planted_pair_is_found_by_its_mode_alone(planted):
    model = _model(d_model=64, n_layers=2)
    # what head 0.1 writes, head 1.2 reads
    getattr(model.blocks[1].attn, READS[planted])[2] = model.W_O[0, 1].T
    for mode in "QKV":
        scores = composition.scores(model, mode)[0, :, 1]
        others = torch.ones_like(scores, dtype=torch.bool)
        others[1, 2] = False
        if mode == planted:
            assert scores[1, 2] > 2 * scores[others].max()
        else:
            assert scores[1, 2] < 1.5 * scores[others].max()


@pytest.mark.parametrize("mode", "QKV")
def test_scores_depend_on_the_products_alone(mode):
    """W_Q R, W_K R⁻ᵀ, W_V R and R⁻¹ W_O make the same model, and so the same scores."""
    model = _model()
    before = composition.scores(model, mode)
    R = torch.randn(5, 5, generator=torch.Generator().manual_seed(0)) + 3 * torch.eye(5)
    for block in model.blocks:
        block.attn.W_Q.copy_(block.attn.W_Q @ R)
        block.attn.W_K.copy_(block.attn.W_K @ torch.linalg.inv(R).T)
        block.attn.W_V.copy_(block.attn.W_V @ R)
        block.attn.W_O.copy_(torch.linalg.inv(R) @ block.attn.W_O)
    torch.testing.assert_close(composition.scores(model, mode), before, atol=1e-5, rtol=1e-4)


class _Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that any operation returns."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.numel())
        return result


def test_no_circuit_is_multiplied_out():
    model = _model(d_model=600, d_head=3)
    with _Largest() as largest:
        for mode in "QKV":
            composition.scores(model, mode)
            null(model, mode, samples=2)
    assert largest.entries <= 2 * 9 * 600 * 3 < 600 * 600


@pytest.mark.parametrize("mode", "QKV")
def test_the_null_is_the_score_of_heads_turned_at_random(mode):
    """Mean and spread of each pair: as if what every head writes were turned, and scored."""
    model = _model(n_layers=2, n_heads=2)
    model.blocks[0].attn.W_V[0][:, 1:] *= (
        0.1  # one circuit is nearly of rank 1, another reads in few directions
    )
    for name in "QKV":
        getattr(model.blocks[1].attn, f"W_{name}")[1, :, 1:] *= 0.2
    samples = null(model, mode, samples=1_500)
    assert samples.shape == (1_500, 2, 2, 2, 2)
    assert not samples[:, 1].any() and not samples[:, :, :, 0].any()
    samples = samples[:, 0, :, 1]
    W_O, turned = model.W_O[0].clone(), []
    generator = torch.Generator().manual_seed(1)
    for _ in range(1_500):
        model.blocks[0].attn.W_O.copy_(
            W_O @ torch.linalg.qr(torch.randn(2, 24, 24, generator=generator)).Q
        )
        turned.append(composition.scores(model, mode)[0, :, 1])
    turned = torch.stack(turned)
    torch.testing.assert_close((samples**2).mean(0), torch.full((2, 2), 1 / 24), rtol=0.12, atol=0)
    torch.testing.assert_close(samples.mean(0), turned.mean(0), rtol=0.05, atol=0)
    torch.testing.assert_close(samples.std(0), turned.std(0), rtol=0.12, atol=0)
    # head 1 with head 0, which both use all their directions: the smallest spread
    assert samples.std(0).argmin() == 2


def test_the_null_keeps_the_singular_values_of_every_circuit():
    A, B = torch.randn(2, 1, 3, 24, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [1, 2, 3, 9.0]
    )
    squared = torch.linalg.svdvals(A @ B.mT)[..., :4] ** 2
    torch.testing.assert_close(_shares(A, B), squared / squared.sum(-1, keepdim=True))


def test_the_null_repeats_itself():
    model = _model()
    samples = null(model, "K", samples=3, seed=4)
    assert torch.equal(samples, null(model, "K", samples=3, seed=4))
    assert not torch.equal(samples, null(model, "K", samples=3, seed=5))
    assert torch.equal(null(model, "K"), null(model, "K", samples=100, seed=0))


@pytest.mark.parametrize("function", [composition.scores, null])
def test_bad_input_gets_a_sentence(function):
    with pytest.raises(ValueError, match="mode must be"):
        function(_model(), "q")
    with pytest.raises(ValueError, match="two layers or more"):
        function(_model(n_layers=1), "K")
