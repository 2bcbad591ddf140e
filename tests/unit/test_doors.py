"""What lesson 13 puts in a part's place, on a small model with RMSNorm and grouped keys."""

import pytest
import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig

from course_lessons.l13_real_model import doors

SIZES = {"n_layers": 3, "d_model": 12, "n_ctx": 9, "d_head": 4, "n_heads": 6, "d_vocab": 11}
KIND = {"normalization_type": "RMS", "positional_embedding_type": "rotary", "act_fn": "silu"}
TOKENS = torch.tensor([[0, 3, 5, 3, 1], [0, 2, 2, 7, 4], [0, 9, 8, 1, 1]])
READ = {"q": "hook_q", "k": "hook_k", "v": "hook_v"}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = HookedTransformerConfig(
        **SIZES, **KIND, n_key_value_heads=2, rotary_dim=4, gated_mlp=True, d_mlp=16
    )
    model = HookedTransformer(config).requires_grad_(False)
    for weight in model.parameters():
        weight.data = torch.randn_like(weight) / 2
    return model


def _run(model, hooks=()):
    with model.hooks(fwd_hooks=list(hooks)):
        return model.run_with_cache(TOKENS)


@pytest.mark.parametrize(("door", "place"), [("q", 4), ("k", 1), ("v", 0)])
def test_a_change_is_read_through_one_door_alone(model, door, place):
    """As if the stream were changed for this door, and RMSNorm divided by what it did before."""
    _, whole = _run(model)
    change = torch.randn(3, 5, 12)
    _, run = _run(model, doors.added(model, change, door, {1: [place]}))
    seen = change / whole["scale", 1, "ln1"] * model.blocks[1].ln1.w
    attention = model.blocks[1].attn
    weights = {"q": attention.W_Q, "k": attention._W_K, "v": attention._W_V}[door]
    for other, hook in READ.items():
        expected = whole[f"blocks.1.attn.{hook}"].clone()
        if other == door:
            expected[:, :, place] += seen @ weights[place]
        torch.testing.assert_close(run[f"blocks.1.attn.{hook}"], expected)


def test_a_change_of_the_whole_stream_through_all_doors_is_a_changed_stream(model):
    """But for the norm: a change along the stream, by as much everywhere, is one of its size."""
    _, whole = _run(model)
    stream = whole["resid_pre", 1]
    hooks = []
    for door, many in (("q", 6), ("k", 2), ("v", 2)):
        hooks += doors.added(model, stream, door, {1: range(many)})
    _, run = _run(model, hooks)
    for hook in READ.values():
        name = f"blocks.1.attn.{hook}"
        torch.testing.assert_close(run[name], 2 * whole[name] - _bias(model, hook))


def _bias(model, hook):
    attention = model.blocks[1].attn
    return {"hook_q": attention.b_Q, "hook_k": attention._b_K, "hook_v": attention._b_V}[hook]


@pytest.mark.parametrize(
    ("door", "of", "told"),
    [
        ("k", {1: [2]}, "Door k of layer 1 has places 0 to 1"),
        ("q", {1: [6]}, "Door q of layer 1 has places 0 to 5"),
        ("z", {1: [0]}, 'A door is "q", "k" or "v"'),
    ],
)
def test_what_the_model_has_not_is_told(model, door, of, told):
    with pytest.raises(ValueError, match=told):
        doors.added(model, torch.zeros(3, 5, 12), door, of)


def test_a_change_of_other_texts_is_told(model):
    hooks = doors.added(model, torch.zeros(2, 5, 12), "k", {1: [0]})
    with pytest.raises(ValueError, match="of 2 texts, and the model reads 3"):
        _run(model, hooks)


def test_everything_but_some_parts_is_of_the_text_before(model):
    logits, cache = _run(model)
    for kept in ({"layers": range(3)}, {"heads": _all(), "mlps": range(3)}):
        again, _ = _run(model, doors.all_but(cache, **kept))
        torch.testing.assert_close(again, logits)

    # with nothing kept, only the tokens' own embeddings are of this text
    none, _ = _run(model, doors.all_but(cache))
    other = cache["resid_post", 2].roll(1, 0) - cache["resid_pre", 0].roll(1, 0)
    expected = model.unembed(model.ln_final(cache["resid_pre", 0] + other))
    torch.testing.assert_close(none, expected, atol=1e-4, rtol=1e-4)


def test_a_head_that_is_kept_reads_what_it_meets(model):
    """Of the stream as it is made then, so its output is neither this text's nor the other's."""
    _, cache = _run(model)
    _, run = _run(model, doors.all_but(cache, heads=[(0, 3), (2, 1)]))
    torch.testing.assert_close(run["z", 0][:, :, 3], cache["z", 0][:, :, 3])
    others = [0, 1, 2, 4, 5]
    torch.testing.assert_close(run["z", 0][:, :, others], cache["z", 0].roll(1, 0)[:, :, others])
    for elsewhere in (cache["z", 2], cache["z", 2].roll(1, 0)):
        assert (run["z", 2][:, :, 1] - elsewhere[:, :, 1]).abs().max() > 1e-3


def _all():
    return [(layer, head) for layer in range(3) for head in range(6)]
