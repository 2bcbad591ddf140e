"""The transcoder against layers that are known."""

import torch

from course_utils import transcoder

X = torch.randn(600, 6, generator=torch.Generator().manual_seed(0))


def _missed(made, x, y):
    return (((made.output(x) - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()).item()


def test_it_learns_a_layer_that_no_linear_map_is():
    y = X.abs()
    made = transcoder.train(X, y, 24, 0.001)
    ones = torch.cat([X, torch.ones(len(X), 1)], 1)
    linear = ones @ torch.linalg.lstsq(ones, y).solution
    assert _missed(made, X, y) < 0.02 < 0.9 < ((linear - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()
    assert made.features(X).shape == (600, 24) and made.features(X).min() >= 0


def test_the_penalty_buys_fewer_features_and_costs_accuracy_at_any_scale():
    for scale in (1, 50):
        free, dear = (transcoder.train(X, scale * X.abs(), 24, penalty, steps=400) for penalty in (0.001, 0.3))
        assert (dear.features(X) > 0).sum() < 0.8 * (free.features(X) > 0).sum()
        assert _missed(free, X, scale * X.abs()) < _missed(dear, X, scale * X.abs())


def test_it_finds_sparse_features_that_do_not_overlap():
    on = (torch.rand(3000, 5, generator=torch.Generator().manual_seed(1)) < 0.1).float()
    directions = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(2)))[0][:5]
    made = transcoder.train(on @ directions, on @ directions, 10, 0.2)
    found = directions @ torch.nn.functional.normalize(made.W_out, dim=1).T
    assert (found.amax(1) > 0.98).all()


def test_the_seed_decides_and_nothing_is_left_to_train():
    first, second, other = (transcoder.train(X, X, 4, 0.1, steps=3, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.W_in, second.W_in) and not torch.equal(first.W_in, other.W_in)
    assert not any(weight.requires_grad for weight in vars(first).values())
