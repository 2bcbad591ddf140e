"""The course's statistics: standard errors, and what a token in another place changes."""

import pytest
import torch

from course_utils import measure, models, text

CONFIG = {
    "n_layers": 2,
    "d_model": 16,
    "n_heads": 2,
    "d_head": 8,
    "n_ctx": 40,
    "d_vocab": 50,
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "shortformer",
    "seed": 3,
}
TOKENS = torch.randint(50, (3, 30), generator=torch.Generator().manual_seed(0))


def _model():
    """A model whose every parameter, biases included, differs from its initialisation."""
    model = models.initial(CONFIG).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def test_inserting_a_token_is_running_the_model_on_the_changed_text():
    model = _model()
    model.unembed.b_U.zero_()  # as in the course's models
    tokens, back, out = torch.tensor([4, 5, 6]), torch.tensor([1, 2, 29]), torch.tensor([7, 8, 9])
    before, after = measure.inserted(model, TOKENS, tokens, back, out)
    for i in range(3):
        changed = TOKENS[i : i + 1].clone()
        changed[0, -1 - back[i]] = tokens[i]
        for text_of, found in ((TOKENS[i : i + 1], before[i]), (changed, after[i])):
            torch.testing.assert_close(
                found, model(text_of)[0, -1].log_softmax(-1)[out[i]], atol=1e-4, rtol=1e-4
            )
    one = measure.inserted(model, TOKENS, tokens[:1], back[:1], out[:1])[1]
    torch.testing.assert_close(one[0], after[0])
    with pytest.raises(ValueError, match=f"from 0 to {TOKENS.shape[1] - 1} back"):
        measure.inserted(model, TOKENS, tokens[:1], torch.tensor([TOKENS.shape[1]]), out[:1])


def test_a_standard_error_of_independent_values_is_the_usual_one():
    values = torch.randn(50, generator=torch.Generator().manual_seed(0))
    mean, error = measure.mean_and_error(values, torch.arange(50))
    assert mean == pytest.approx(values.mean().item()) and error == pytest.approx(
        values.std().item() / 50**0.5
    )


def test_values_that_are_alike_in_a_cluster_count_once():
    values = torch.randn(20, 1, generator=torch.Generator().manual_seed(0))
    once = measure.mean_and_error(values, torch.arange(20)[:, None])
    assert measure.mean_and_error(
        values.expand(20, 30), torch.arange(20)[:, None]
    ) == pytest.approx(once)
    naive = measure.mean_and_error(values.expand(20, 30).flatten(), torch.arange(600))
    assert naive[1] < once[1] / 5


def test_one_cluster_has_no_standard_error():
    with pytest.raises(ValueError, match="at least two clusters"):
        measure.mean_and_error(torch.ones(3), torch.zeros(3, dtype=torch.long))


def test_origins_belong_to_the_held_out_tokens():
    tokens, origins = text.held_out_tokens(), text.held_out_origins()
    assert tokens.shape == origins.shape
    stream, of_stream = tokens[:, 1:].flatten(), origins[:, 1:].flatten()
    starts = (stream == 0).nonzero().flatten()  # a document opens with the start token
    assert (of_stream.diff() >= 0).all() and (of_stream[starts] == torch.arange(len(starts))).all()
    # the last may begin in what is left over
    assert len(text.held_out_documents()) - len(starts) in (0, 1)
