"""Models made by hand are what their tables say."""

import pytest
import torch

from course_lessons import by_hand


@pytest.mark.parametrize("positions", ["shortformer", "standard"])
def test_a_model_from_circuits_has_their_scores_and_moves_what_they_say(positions):
    QK, OV = torch.randn(2, 2, 9, 9, generator=torch.Generator().manual_seed(0))
    model = by_hand.from_circuits(QK, OV, d_vocab=4, n_ctx=3, positions=positions)
    tokens = torch.tensor([[2, 0, 3]])
    logits, cache = model.run_with_cache(tokens)
    token, place = torch.eye(9)[tokens[0]], torch.eye(9)[4:7]
    stream = token if positions == "shortformer" else token + place
    scores = (token + place) @ QK[0] @ (token + place).T
    attended = scores.masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf).softmax(-1)
    torch.testing.assert_close(cache["pattern", 0][0, 0], attended)
    after = stream + attended @ stream @ OV[0]
    torch.testing.assert_close(cache["resid_post", 0][0], after)
    torch.testing.assert_close(logits[0], 10 * cache["resid_post", 1][0, :, :4])


def test_a_model_from_neurons_is_what_its_two_tables_say():
    curves, votes = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)), torch.randn(4, 7)
    model = by_hand.from_neurons(curves, votes)
    tokens = torch.cartesian_prod(torch.arange(7), torch.arange(7))
    a, b = tokens.T
    expected = ((curves[a] + curves[b]) / 2).relu() @ votes
    torch.testing.assert_close(model(tokens)[:, -1], expected)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_circuits_without_room_or_with_unknown_positions_hear_of_it():
    two = torch.zeros(1, 5, 5)
    with pytest.raises(
        ValueError, match="3 tokens and 3 positions need more than the 5 dimensions"
    ):
        by_hand.from_circuits(two, two, d_vocab=3, n_ctx=3)
    with pytest.raises(ValueError, match="not 'rotary'"):
        by_hand.from_circuits(two, two, d_vocab=2, n_ctx=3, positions="rotary")
