"""One head's weights, against the products written out."""

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformer_lens import FactoredMatrix

from course_utils import circuits, models

CONFIG = {
    "n_layers": 2,
    "d_model": 16,
    "n_heads": 3,
    "d_head": 4,
    "n_ctx": 20,
    "d_vocab": 40,
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "shortformer",
    "seed": 0,
}
HEADS = [(layer, head) for layer in range(2) for head in range(3)]
TOKENS = torch.randint(1, 40, (2, 20), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model():
    return models.initial(CONFIG).requires_grad_(False)


@pytest.fixture(scope="module")
def cache(model):
    return model.run_with_cache(TOKENS)[1]


def _weights(model, layer, head):
    attention = model.blocks[layer].attn
    return [getattr(attention, name)[head] for name in ("W_Q", "W_K", "W_V", "W_O")]


@pytest.mark.parametrize(("layer", "head"), HEADS)
def test_circuits_are_the_products_of_their_weights(model, layer, head):
    W_Q, W_K, W_V, W_O = _weights(model, layer, head)
    W_E, W_U = model.embed.W_E, model.unembed.W_U
    expected = {
        circuits.qk: W_Q @ W_K.T,
        circuits.ov: W_V @ W_O,
        circuits.full_qk: (W_E @ W_Q) @ (W_E @ W_K).T / 2,  # √d_head = 2
        circuits.full_ov: W_E @ W_V @ W_O @ W_U,
    }
    for circuit, product in expected.items():
        matrix = circuit(model, layer, head)
        assert isinstance(matrix, FactoredMatrix) and matrix.mdim == 4
        torch.testing.assert_close(matrix.AB, product)


@pytest.mark.parametrize(("layer", "head"), HEADS)
def test_qk_gives_the_attention_scores(model, cache, layer, head):
    """Queries and keys see the stream plus the position, values the stream alone."""
    x = cache["resid_pre", layer] + model.W_pos
    scores = (x @ circuits.qk(model, layer, head) @ x.mT).AB / 2
    seen = torch.ones(20, 20).tril().bool()
    torch.testing.assert_close(scores[:, seen], cache["attn_scores", layer][:, head][:, seen])


def test_full_qk_gives_the_scores_of_tokens_without_positions(model):
    W_pos = model.W_pos.clone()
    model.W_pos.zero_()
    try:
        scores = model.run_with_cache(TOKENS)[1]["attn_scores", 0][0, 1]
    finally:
        model.W_pos.copy_(W_pos)
    table = circuits.full_qk(model, 0, 1).AB
    dest, src = torch.ones(20, 20).tril().nonzero(as_tuple=True)
    torch.testing.assert_close(scores[dest, src], table[TOKENS[0, dest], TOKENS[0, src]])


@pytest.mark.parametrize(("layer", "head"), HEADS)
def test_ov_gives_what_a_head_writes(cache, model, layer, head):
    written = (
        cache["pattern", layer][:, head]
        @ (cache["resid_pre", layer] @ circuits.ov(model, layer, head)).AB
    )
    torch.testing.assert_close(
        written, cache["z", layer][:, :, head] @ _weights(model, layer, head)[3]
    )


def test_paths_add_up_to_the_logits_of_one_layer():
    """The direct path, and each head's full OV circuit moved by its pattern: that is all."""
    model = models.initial(CONFIG | {"n_layers": 1}).requires_grad_(False)
    logits, cache = model.run_with_cache(TOKENS)
    total = (model.W_E @ model.W_U)[TOKENS]
    for head in range(3):
        total = total + cache["pattern", 0][:, head] @ circuits.full_ov(model, 0, head).AB[TOKENS]
    torch.testing.assert_close(total, logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("circuit", [circuits.qk, circuits.ov, circuits.full_qk, circuits.full_ov])
@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_wrong_head_is_an_index_error(model, circuit, wrong):
    with pytest.raises(
        IndexError, match=f"head must be a whole number from 0 to 2 .*not {wrong!r}"
    ):
        circuit(model, 0, wrong)
    with pytest.raises(IndexError, match="layer must be a whole number from 0 to 1"):
        circuit(model, wrong if wrong != 3 else 2, 0)


def test_a_zero_layer_model_has_no_heads():
    with pytest.raises(IndexError, match="no layers, and so no heads"):
        circuits.full_ov(models.initial(CONFIG | {"n_layers": 0}), 0, 0)


def test_indices_may_come_from_numpy(model):
    torch.testing.assert_close(
        circuits.ov(model, np.int64(1), np.int64(2)).AB, circuits.ov(model, 1, 2).AB
    )


# Eigenvalues and copying


def _sorted(values):
    return torch.tensor(sorted(values.tolist(), key=lambda z: (round(z.real, 4), z.imag)))


@pytest.mark.parametrize(("layer", "head"), HEADS)
def test_eigenvalues_are_those_of_the_dense_matrix(model, layer, head):
    for circuit in (circuits.ov, circuits.full_ov):
        matrix = circuit(model, layer, head)
        dense = torch.linalg.eigvals(matrix.AB.double())
        nonzero = dense[dense.abs().argsort(descending=True)[:4]]
        assert dense.abs().sort(descending=True).values[4:].max() < 1e-3 * nonzero.abs().min()
        values = circuits.eigenvalues(matrix).to(nonzero.dtype)
        torch.testing.assert_close(_sorted(values), _sorted(nonzero), atol=1e-4, rtol=1e-3)


def test_eigenvalues_need_a_square_matrix():
    with pytest.raises(ValueError, match=r"\[5, 6\]"):
        circuits.eigenvalues(FactoredMatrix(torch.ones(5, 2), torch.ones(2, 6)))


@pytest.fixture
def planted():
    """A one-layer model whose W_U is W_Eᵀ, and whose OV circuit the test sets."""
    model = models.initial(CONFIG | {"n_layers": 1}).requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    model.W_E.copy_(torch.randn(40, 16, generator=generator))
    model.W_U.copy_(model.W_E.T)
    W_V = torch.linalg.qr(torch.randn(16, 4, generator=generator)).Q
    W_E = model.W_E

    def score(inner):
        """What becomes of a value between reading and writing, in units of W_E W_Eᵀ: `inner`."""
        gram = W_V.T @ W_E.T @ W_E @ W_V
        model.blocks[0].attn.W_V[0] = W_V
        model.blocks[0].attn.W_O[0] = inner @ torch.linalg.inv(gram) @ W_V.T
        return circuits.copying_score(circuits.full_ov(model, 0, 0))

    return score


@pytest.mark.parametrize(
    ("eigenvalues", "expected"),
    [([1, 2, 3, 4], 1), ([-1, -1, -2, -3], -1), ([1, -1, 2, -2], 0), ([3, 1, -1, -1], 1 / 3)],
)
def test_copying_score_of_planted_eigenvalues(planted, eigenvalues, expected):
    assert planted(torch.diag(torch.tensor(eigenvalues, dtype=torch.float))) == pytest.approx(
        expected, abs=1e-3
    )


def test_copying_score_of_a_rotation_is_its_cosine(planted):
    for angle in torch.tensor([0.0, 0.5, torch.pi / 2, 3.0]):
        turn = torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]])
        assert planted(torch.block_diag(turn, 2 * turn)) == pytest.approx(
            angle.cos().item(), abs=1e-3
        )


def test_copying_scores_are_those_of_every_head(model):
    expected = torch.zeros(2, 3)
    for layer, head in HEADS:
        expected[layer, head] = score = circuits.copying_score(circuits.full_ov(model, layer, head))
        assert isinstance(score, float)
    torch.testing.assert_close(circuits.copying_scores(model), expected, atol=1e-5, rtol=1e-4)


def test_a_model_without_heads_has_no_copying_scores():
    with pytest.raises(ValueError, match="no heads"):
        circuits.copying_scores(models.initial(CONFIG | {"n_layers": 0}))


@pytest.mark.parametrize("k", [1, 3, 40])
def test_self_rate_counts_the_diagonal_among_the_largest(model, k):
    table = circuits.full_ov(model, 0, 0).AB
    ranks = [(row > row[token]).sum().item() for token, row in enumerate(table)]
    expected = sum(rank < k for rank in ranks) / 40
    assert (
        circuits.self_rate(table, k)
        == expected
        == circuits.self_rate(circuits.full_ov(model, 0, 0), k)
    )


def test_self_rate_goes_through_blocks():
    table = torch.eye(2_500)
    table[2_400, 7] = 2
    rate = circuits.self_rate(table)
    assert isinstance(rate, float) and rate == 2_499 / 2_500 and circuits.self_rate(-table) < 0.001


def test_the_lead_is_that_of_the_diagonal_over_its_rows(model):
    OV = circuits.full_ov(model, 0, 0)
    table = OV.AB
    assert circuits.lead(OV) == pytest.approx(
        (table.diagonal() - table.mean(1)).mean().item(), rel=1e-4
    )
    constants = torch.randn(table.shape[0], 1, generator=torch.Generator().manual_seed(0))
    ones = torch.ones(1, table.shape[1])
    # a softmax sees the same
    moved = FactoredMatrix(torch.cat([OV.A, constants], 1), torch.cat([OV.B, ones]))
    assert circuits.lead(moved) == pytest.approx(circuits.lead(OV), abs=1e-4)
    pairs = torch.tensor([[3, 1], [0, 2]])
    expected = (table[3, 1] - table[3].mean() + table[0, 2] - table[0].mean()).item() / 2
    assert circuits.lead(OV, pairs) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_leads_are_one_for_each_row():
    a, b = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 0.0], [4.0, 3.0]])
    torch.testing.assert_close(circuits.leads(FactoredMatrix(a, b)), torch.tensor([1.0, -1.0]))


# The largest entries


def _dense_top(dense, k):
    values, places = dense.flatten().topk(k)
    return values, places // dense.shape[1], places % dense.shape[1]


@pytest.fixture(params=[(1024, 2**22), (8, 60), (1, 1)])
def block(request, monkeypatch):
    for name, value in zip(
        ("SIDE", "BLOCK"), request.param, strict=True
    ):  # in one piece, several, one by one
        monkeypatch.setattr(circuits, name, value)


def test_row_maxima_are_those_of_the_dense_matrix(block):
    generator = torch.Generator().manual_seed(6)
    matrix = FactoredMatrix(
        torch.randn(27, 3, generator=generator), torch.randn(3, 20, generator=generator)
    )
    torch.testing.assert_close(circuits.row_maxima(matrix), matrix.AB.amax(1))
    assert (
        circuits.row_maxima(FactoredMatrix(-torch.ones(9, 1), torch.ones(1, 9))).tolist()
        == [-1] * 9
    )


@pytest.mark.parametrize("k", [1, 7, 39, 45, 200, 540])
def test_top_entries_are_those_of_the_dense_matrix(block, k):
    generator = torch.Generator().manual_seed(2)
    matrix = FactoredMatrix(
        torch.randn(27, 3, generator=generator), torch.randn(3, 20, generator=generator)
    )
    expected = _dense_top(matrix.A @ matrix.B, k)
    values, rows, columns = circuits.top_entries(matrix, k)
    torch.testing.assert_close(values, expected[0])
    torch.testing.assert_close((matrix.A @ matrix.B)[rows, columns], values)
    assert len({*zip(rows.tolist(), columns.tolist(), strict=True)}) == k  # no entry twice


def test_top_entries_may_all_stand_in_one_row_or_one_column(block):
    tall = FactoredMatrix(torch.arange(30.0)[:, None], torch.tensor([[1.0, -1, 0, -2]]))
    values, rows, columns = circuits.top_entries(tall, 5)
    assert rows.tolist() == [29, 28, 27, 26, 25] and columns.tolist() == [0] * 5 and values[0] == 29
    wide = FactoredMatrix(torch.tensor([[0.0], [1.0], [0.5]]), 10 + torch.arange(9.0)[None])
    values, rows, columns = circuits.top_entries(wide, 4)
    assert (
        rows.tolist() == [1] * 4
        and columns.tolist() == [8, 7, 6, 5]
        and values.tolist() == [18, 17, 16, 15]
    )


def test_top_entries_that_are_equal_are_all_different_entries(block):
    _, rows, columns = circuits.top_entries(FactoredMatrix(torch.ones(6, 1), torch.ones(1, 5)), 30)
    assert sorted(zip(rows.tolist(), columns.tolist(), strict=True)) == [
        (r, c) for r in range(6) for c in range(5)
    ]


@pytest.mark.parametrize("k", [0, -1, 7])
def test_more_entries_than_there_are_is_a_sentence(k):
    with pytest.raises(ValueError, match=r"k must be a whole number from 1 to 6, not"):
        circuits.top_entries(FactoredMatrix(torch.ones(2, 1), torch.ones(1, 3)), k)


# Size


class _Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that any operation returns."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.numel())
        return result


def test_no_function_makes_a_table_of_all_pairs():
    d_vocab = 6_000
    model = models.initial(CONFIG | {"d_vocab": d_vocab, "n_layers": 1}).requires_grad_(False)
    with _Largest() as largest:
        for circuit in (circuits.full_qk, circuits.full_ov):
            assert circuit(model, 0, 0).shape == (d_vocab, d_vocab)
        circuits.copying_score(circuits.full_ov(model, 0, 0))
        circuits.copying_score(FactoredMatrix(model.W_E, model.W_U))
        circuits.copying_scores(model)
    assert d_vocab * 4 <= largest.entries <= d_vocab * 16
    with _Largest() as largest:
        circuits.self_rate(circuits.full_ov(model, 0, 0))
    assert largest.entries <= d_vocab * 1024
    with _Largest() as largest:
        circuits.top_entries(circuits.full_ov(model, 0, 0), 1_000)
    assert circuits.SIDE**2 <= largest.entries <= circuits.BLOCK


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_diverged_are_a_sentence(model, value):
    broken = FactoredMatrix(torch.tensor([[value], [1.0]]), torch.ones(1, 2))
    for function in (circuits.eigenvalues, circuits.copying_score):
        with pytest.raises(ValueError, match=r"infinities or NaN|not a number \(NaN\)"):
            function(broken)
    model.blocks[0].attn.W_V.data[0, 0, 0] = value
    with pytest.raises(ValueError, match="infinities or NaN"):
        circuits.copying_scores(model)
