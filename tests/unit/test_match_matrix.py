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
    """Head (0, 0) moves one slot of the stream to another; head (1, head) compares two."""
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
    """With the earlier head's attention fixed, cutting its write from the key costs M_K."""
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
