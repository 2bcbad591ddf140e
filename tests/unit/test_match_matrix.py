"""The match matrix of two heads, on a pair planted by hand and against the products written out."""

import pytest
import torch
from transformer_lens import FactoredMatrix

from course_utils import circuits, composition, models

D_VOCAB, D_HEAD = 12, 4
CONFIG = {
    "n_layers": 2,
    "d_model": 16,
    "n_heads": 2,
    "d_head": D_HEAD,
    "n_ctx": 8,
    "d_vocab": D_VOCAB,
    "seed": 0,
}
CONFIG |= {
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "shortformer",
}


@pytest.fixture
def model():
    return models.initial(CONFIG).requires_grad_(False)


def plant(model, head, moved, queried, keyed):
    """Head (0, 0) moves what stands in one slot of the stream to another; head (1, head) compares
    two slots.
    """
    slots = torch.eye(16).split(D_HEAD, dim=1)  # four slots of the stream, each as wide as a head
    first, second = model.blocks[0].attn, model.blocks[1].attn
    first.W_V[0], first.W_O[0] = slots[moved[0]], slots[moved[1]].T
    second.W_Q[head], second.W_K[head] = slots[queried], slots[keyed]
    model.W_E[:, D_HEAD:] = 0  # tokens stand in slot 0


def test_it_is_the_product_of_its_parts_and_stays_factored(model):
    matrix = composition.match_matrix(model, (1, 1), (0, 0))
    W_E, first, second = model.W_E, model.blocks[0].attn, model.blocks[1].attn
    # what head (0, 0) writes where it attends to a token
    written = W_E @ first.W_V[0] @ first.W_O[0]
    assert isinstance(matrix, FactoredMatrix) and matrix.mdim == D_HEAD
    torch.testing.assert_close(matrix.AB, (W_E @ second.W_Q[1]) @ (written @ second.W_K[1]).T)


def test_a_planted_pair_matches_tokens_to_themselves_and_no_other_does(model):
    plant(model, 1, moved=(0, 2), queried=0, keyed=2)
    planted = composition.match_matrix(model, (1, 1), (0, 0))
    torch.testing.assert_close(planted.AB, model.W_E @ model.W_E.T)
    torch.testing.assert_close(torch.tensor(circuits.copying_score(planted)), torch.tensor(1.0))
    for head in (0, 1):
        assert (
            abs(circuits.copying_score(composition.match_matrix(model, (1, head), (0, 1)))) < 0.999
        )


@pytest.mark.parametrize(
    ("moved", "queried", "keyed"),
    [
        ((0, 2), 2, 0),  # Q-composition: the query reads what was written
        ((2, 0), 0, 2),  # the wrong way round: nothing stands where the earlier head reads
        ((0, 1), 0, 2),  # written to a slot that nobody reads
    ],
)
def test_a_pair_that_does_not_k_compose_has_an_empty_match_matrix(model, moved, queried, keyed):
    plant(model, 1, moved, queried, keyed)
    assert not composition.match_matrix(model, (1, 1), (0, 0)).AB.any()


def test_an_entry_is_what_the_score_gains(model):
    """With the earlier head's attention fixed on one source, cutting its write from the key changes
    scores by M_K.
    """
    tokens = torch.tensor([[3, 5, 7, 5]])

    def look_at_the_source_before(pattern, hook):
        pattern[:, 0] = torch.eye(4).roll(-1, 1)  # head (0, 0): destination i attends to i − 1

    def cut(k, hook):
        k -= (model.W_E[tokens.roll(1, 1)] @ model.W_V[0, 0] @ model.W_O[0, 0] @ model.W_K[1, 1])[
            :, :, None
        ]

    scores = []
    for hooks in ([], [("blocks.1.attn.hook_k", cut)]):
        with model.hooks(
            fwd_hooks=[("blocks.0.attn.hook_pattern", look_at_the_source_before), *hooks]
        ):
            scores.append(model.run_with_cache(tokens)[1]["attn_scores", 1][0, 1])
    M = composition.match_matrix(model, (1, 1), (0, 0)).AB / D_HEAD**0.5
    W = composition.match_matrix(model, (1, 1), (0, 0))
    assert W.shape == (D_VOCAB, D_VOCAB)
    gained = (scores[0] - scores[1])[3, 2]
    # the destination's query holds more than its token: subtract what the rest of its stream asks
    # for
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", look_at_the_source_before)]):
        _, cache = model.run_with_cache(tokens)
    rest = cache["resid_pre", 1][0, 3] + model.W_pos[3] - model.W_E[5]
    written = model.W_E[5] @ model.W_V[0, 0] @ model.W_O[0, 0]
    others = (rest @ model.W_Q[1, 1]) @ (written @ model.W_K[1, 1]) / D_HEAD**0.5
    torch.testing.assert_close(gained - others, M[5, 5])


@pytest.mark.parametrize(
    ("later", "earlier"), [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((1, 0), (1, 1))]
)
def test_the_earlier_head_must_be_earlier(model, later, earlier):
    with pytest.raises(ValueError, match="must stand in an earlier layer"):
        composition.match_matrix(model, later, earlier)


@pytest.mark.parametrize(
    ("later", "earlier"), [((2, 0), (0, 0)), ((1, 2), (0, 0)), ((1, 0), (0, -1))]
)
def test_heads_must_exist(model, later, earlier):
    with pytest.raises(IndexError, match="must be a whole number from 0 to"):
        composition.match_matrix(model, later, earlier)


def test_a_query_can_be_made_of_what_a_head_wrote(model):
    matrix = composition.match_matrix(model, (1, 1), (0, 0), query=(0, 1))
    W_E, first, second = model.W_E, model.blocks[0].attn, model.blocks[1].attn
    asked, written = (W_E @ first.W_V[head] @ first.W_O[head] for head in (1, 0))
    torch.testing.assert_close(matrix.AB, (asked @ second.W_Q[1]) @ (written @ second.W_K[1]).T)
    with pytest.raises(ValueError, match="writes too late"):
        composition.match_matrix(model, (1, 1), (0, 0), query=(1, 0))


def test_a_planted_pair_finds_and_a_random_one_does_not(model):
    plant(model, 1, moved=(0, 2), queried=0, keyed=2)
    positivity, lead = composition.find_and_copy(model, (1, 1), (0, 0))
    match, copy = composition.match_matrix(model, (1, 1), (0, 0)), circuits.full_ov(model, 1, 1)
    torch.testing.assert_close(positivity[0], torch.tensor(1.0))
    torch.testing.assert_close(positivity[1], torch.tensor(circuits.copying_score(copy)))
    torch.testing.assert_close(
        lead, torch.tensor([circuits.lead(match) / D_HEAD**0.5, circuits.lead(copy)])
    )
    null = composition.find_and_copy_null(model, (1, 1), (0, 0), samples=50)
    assert null.shape == (50, 2, 2) and null[:, 0].mean(0).abs().max() < 0.3
    assert (null[:, 1, 0].abs() < lead[0]).all()


@pytest.mark.parametrize("bad", [(0, 0), (2, 0), (1, 2)])
def test_what_finds_and_copies_is_a_later_head(model, bad):
    with pytest.raises((ValueError, IndexError)):
        composition.find_and_copy(model, bad, (0, 0))


def test_random_pairs_are_as_large_as_the_pair_that_they_stand_beside():
    """Each product against one with random matrices of the same shapes and lengths, drawn here in
    the same order.
    """
    model = models.initial(CONFIG | {"d_head": 3}).requires_grad_(False)
    first, second = (block.attn for block in model.blocks)
    own = second.W_Q[1], second.W_K[1], first.W_V[0], first.W_O[0], second.W_V[1], second.W_O[1]
    for factor, W in enumerate((*own, first.W_K[0], second.W_K[0]), 2):
        W *= factor
    assert len(composition.find_and_copy_null(model, (1, 1), (0, 0))) == 200
    for seed in (0, 3):
        null = composition.find_and_copy_null(
            model, (1, 1), (0, 0), samples=2, **({"seed": seed} if seed else {})
        )
        generator = torch.Generator().manual_seed(seed)
        for positivity, lead in null:
            drawn = [torch.randn(16, 3, generator=generator) for _ in own]
            W_Q, W_K, W_V, W_O, V2, O2 = (
                R * W.square().mean().sqrt() for R, W in zip(drawn, own, strict=True)
            )
            tables = (
                model.W_E @ W_Q @ W_K.T @ W_O @ W_V.T @ model.W_E.T / 3**0.5,
                model.W_E @ V2 @ O2.T @ model.W_U,
            )
            leads = torch.stack([(table.diagonal() - table.mean(1)).mean() for table in tables])
            torch.testing.assert_close(lead, leads, rtol=1e-3, atol=1e-6)
            values = [torch.linalg.eigvals(table) for table in tables]
            signs = torch.stack([each.real.sum() / each.abs().sum() for each in values])
            torch.testing.assert_close(positivity, signs, rtol=1e-2, atol=1e-3)
