"""What is cut or replaced: against TransformerLens's own hooks."""

import numpy as np
import pytest
import torch

from course_lessons.fixtures import tiny_model
from course_utils import interventions, load, measure, models, paths, text

DOORS = [((0, 5), "k", (1, 6)), ((0, 3), "v", (1, 6))]
EXACT = {"atol": 1e-4, "rtol": 1e-4}
TOKENS = {
    "one-layer": [0, 5, 900, 17, 5, 900, 3],
    "two-layer": [0, 5, 900, 17, 33, 5, 900, 17, 2, 8, 5],
    "max-of-list": [3, 60, 7, 61, 2, 5],
}
with_heads = pytest.mark.parametrize("name", TOKENS)


def model_of(name):
    return load(name)


def tokens_of(name):
    return torch.tensor(TOKENS[name])


def small():
    config = {"n_layers": 2, "d_model": 12, "n_heads": 3, "d_head": 4, "n_ctx": 9, "d_vocab": 30}
    config |= {
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "shortformer",
        "seed": 0,
    }
    return models.initial(config).requires_grad_(False)


def test_an_ablated_head_writes_nothing_and_comes_back():
    model = small()
    tokens = torch.randint(1, 30, (2, 6), generator=torch.Generator().manual_seed(1))
    whole, cache = model.run_with_cache(tokens)
    with interventions.cut(model, (1, 0), (1, 2)) as same:
        assert same is model
        without = model(tokens)
    written = sum(cache["z", 1][:, :, head] @ model.W_O[1, head] for head in (0, 2))
    # the last layer: nobody reads it but W_U
    torch.testing.assert_close(whole - without, written @ model.W_U)
    torch.testing.assert_close(model(tokens), whole)
    with interventions.cut(model):
        torch.testing.assert_close(model(tokens), whole)


NAME = "blocks.1.hook_resid_pre"


def test_a_patched_stream_carries_the_other_run_on_from_there():
    model = small()
    one, other = torch.randint(1, 30, (2, 1, 6), generator=torch.Generator().manual_seed(1))
    here, there = model(one), model(other)
    _, cache = model.run_with_cache(other)
    kept = cache[NAME].clone()
    with interventions.patched(model, NAME, cache[NAME]) as same:
        assert same is model
        torch.testing.assert_close(model(one), there)  # the whole stream: nothing is left of `one`
    with interventions.patched(model, NAME, cache[NAME], (slice(None), 3)):
        partly = model(one)
    torch.testing.assert_close(partly[:, :3], here[:, :3])  # nobody looks ahead
    assert not torch.allclose(partly[:, 3:], here[:, 3:]) and not torch.allclose(partly, there)
    torch.testing.assert_close(model(one), here)  # and it is gone afterwards
    torch.testing.assert_close(cache[NAME], kept)


def test_a_patched_head_is_that_head_alone():
    model = small()
    one, other = torch.randint(1, 30, (2, 2, 6), generator=torch.Generator().manual_seed(2))
    before = [model.run_with_cache(tokens)[1]["z", 1] for tokens in (one, other)]
    with interventions.patched(
        model, "blocks.1.attn.hook_z", before[1], (slice(None), slice(None), 2)
    ):
        logits = model(one)
    change = (before[1] - before[0])[:, :, 2] @ model.W_O[1, 2] @ model.W_U
    torch.testing.assert_close(logits, model(one) + change)


def test_patching_what_is_not_there_is_refused():
    model = small()
    with (
        pytest.raises(ValueError, match="no activation named 'blocks"),
        interventions.patched(model, "blocks.7", torch.ones(1, 6)),
    ):
        pass
    tokens = torch.zeros(1, 6, dtype=torch.long)
    with (
        interventions.patched(model, NAME, torch.zeros(1, 5, 12)),
        pytest.raises(ValueError, match="has shape"),
    ):
        model(tokens)


@with_heads
def test_a_cut_head_writes_nothing(name):
    model, tokens = model_of(name), tokens_of(name)
    for layer in range(model.cfg.n_layers):
        run = paths.run(model, tokens, (layer, 0))
        silence = [
            (
                f"blocks.{layer}.attn.hook_z",
                lambda z, hook: torch.cat([0 * z[:, :, :1], z[:, :, 1:]], 2),
            )
        ]
        torch.testing.assert_close(
            run.logits, model.run_with_hooks(tokens[None], fwd_hooks=silence)[0]
        )
        assert (
            not run.written[layer, 0].any()
            and (run.logits - model(tokens[None])[0]).abs().max() > 1e-3
        )


@pytest.mark.parametrize("path", "qkv")
def test_a_shut_door_is_what_split_inputs_give(path):
    """TransformerLens gives each head a copy of the stream; take the write out of that copy."""
    model, tokens = load("two-layer"), tokens_of("two-layer")
    run = paths.run(model, tokens, ((0, 5), path, (1, 6)))
    _, cache = model.run_with_cache(tokens)
    write = cache["z", 0][0, :, 5] @ model.W_O[0, 5]

    def subtract(stream, hook):  # [batch, pos, head, d_model]
        stream[:, :, 6] -= write
        return stream

    model.set_use_split_qkv_input(True)
    expected = model.run_with_hooks(
        tokens[None], fwd_hooks=[(f"blocks.1.hook_{path}_input", subtract)]
    )[0]
    torch.testing.assert_close(run.logits, expected, **EXACT)
    assert (expected - cache["resid_post", 1][0] @ model.W_U).abs().max() > 0.1


def test_all_doors_shut_is_the_attention_without_the_head():
    model, tokens = model_of("two-layer"), tokens_of("two-layer")
    shut = paths.run(
        model, tokens, *[((0, 5), path, (1, head)) for path in "qkv" for head in range(8)]
    )
    without = paths.run(model, tokens, (0, 5))
    torch.testing.assert_close(shut.pattern[1], without.pattern[1], **EXACT)
    torch.testing.assert_close(shut.written[1], without.written[1], **EXACT)
    assert shut.written[0, 5].any()


@with_heads
def test_a_cut_position_is_read_by_no_later_one(name):
    model, tokens = model_of(name), tokens_of(name)
    run = paths.run(model, tokens, 2)

    def without(pattern, hook):  # [batch, head, dest, src]
        pattern[:, :, 3:, 2] = 0
        return pattern / pattern.sum(-1, keepdim=True)

    every_pattern = [
        (f"blocks.{layer}.attn.hook_pattern", without) for layer in range(model.cfg.n_layers)
    ]
    torch.testing.assert_close(
        run.logits, model.run_with_hooks(tokens[None], fwd_hooks=every_pattern)[0], **EXACT
    )
    assert not run.pattern[:, :, 3:, 2].any() and run.pattern[:, :, 2, 2].all()
    torch.testing.assert_close(run.logits[:3], model(tokens[None])[0, :3])


def test_cuts_in_words():
    cuts = [(0, 5), ((0, 5), "k", (1, 6)), ((1, 2), "v", (2, 3)), 3]
    words = ["head 0.5", "0.5 in the keys of 1.6", "1.2 in the values of 2.3", "position 3"]
    assert [interventions.in_words(one) for one in cuts] == words and interventions.head_name(
        (0, 5)
    ) == "0.5"


def test_the_start_token_can_be_cut():
    model, tokens = small(), torch.tensor([[4, 5, 6]])
    with interventions.cut(model, 0):
        pattern = model.run_with_cache(tokens)[1]["pattern", 0]
    assert not pattern[..., 1:, 0].any() and (pattern[..., 0, 0] == 1).all()
    with pytest.raises(ValueError, match="a position from 0 to 8"), interventions.cut(model, 9):
        pass


def test_a_cut_leaves_no_hook_behind():
    model, tokens = model_of("two-layer"), tokens_of("two-layer")
    before = model(tokens[None])
    with (
        pytest.raises(RuntimeError, match="on purpose"),
        interventions.cut(model, (0, 1), 2, *DOORS),
    ):
        raise RuntimeError("on purpose")
    assert torch.equal(model(tokens[None]), before)


@pytest.mark.parametrize(
    ("cut", "error", "sentence"),
    [
        ((2, 0), IndexError, "layer must be a whole number from 0 to 1"),
        (((0, 9), "k", (1, 0)), IndexError, "head must be a whole number from 0 to 7"),
        (((0, 0), "k", (1, 9)), IndexError, "head must be a whole number from 0 to 7"),
        (((1, 0), "k", (1, 6)), ValueError, "writes too late"),
        (((0, 0), "o", (1, 6)), ValueError, "A cut is a head"),
        ((0, 5, 6), ValueError, "A cut is a head"),
        (True, TypeError, "cuts must be a tuple, not True"),
        ("0.5", TypeError, "cuts must be a tuple, not '0.5'"),
        (-1, ValueError, "A cut is a head"),
        (40, ValueError, "the text has the positions 0 to 10"),
    ],
)
def test_what_is_no_cut(cut, error, sentence):
    with pytest.raises(error, match=sentence):
        paths.run(model_of("two-layer"), tokens_of("two-layer"), cut)


def test_where_there_is_layernorm_no_door_can_be_cut():
    config = {
        "n_layers": 2,
        "d_model": 8,
        "n_heads": 2,
        "d_head": 4,
        "n_ctx": 9,
        "d_vocab": 30,
        "seed": 0,
    }
    model = models.initial(config | {"attn_only": True, "normalization_type": "LN"}).requires_grad_(
        False
    )
    with pytest.raises(ValueError, match="LayerNorm"):
        paths.run(model, torch.tensor([1, 2, 3]), ((0, 0), "k", (1, 1)))
    with (
        pytest.raises(ValueError, match="LayerNorm"),
        interventions.cut(model, ("embed", "logits")),
    ):
        pass
    with pytest.raises(ValueError, match="pairs of heads"):
        paths.pairs(model, paths.run(model, torch.tensor([1, 2, 3])), 1, 1)


def test_a_head_and_a_door_take_what_stands_in():
    """Its own output changes nothing; a constant behind a door is read in its place."""
    model, tokens = load("two-layer"), text.repeated_tokens(8, batch=5)
    _, cache = model.run_with_cache(tokens)
    own = {(0, 5): cache["z", 0][:, :, 5], (1, 6): cache["z", 1][:, :, 6]}
    with interventions.cut(model, (0, 5), (1, 6), ((0, 5), "k", (1, 1)), instead=own):
        torch.testing.assert_close(model(tokens), model.run_with_cache(tokens)[0], **EXACT)
    constant = torch.linspace(-1, 1, model.cfg.d_head)
    write = (constant - cache["z", 0][:, :, 5]) @ model.W_O[0, 5]

    def replace(stream, hook):  # [batch, pos, head, d_model]
        stream[:, :, 6] += write
        return stream

    with interventions.cut(model, ((0, 5), "q", (1, 6)), instead={(0, 5): constant}):
        found = model(tokens)
    model.set_use_split_qkv_input(True)
    expected = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.hook_q_input", replace)])
    torch.testing.assert_close(found, expected, **EXACT)


def test_what_stands_in_for_heads_has_its_price():
    model = load("two-layer")
    tokens = text.repeated_tokens(8, batch=10)
    values = interventions.stand_ins(model, 1, tokens)
    zero = measure.cost(model, [(1, 6)], tokens, values["zero"])
    torch.testing.assert_close(zero, measure.cost(model, [(1, 6)], tokens))
    own = {head: z.roll(-9, 0) for head, z in values["another text's"].items()}
    nothing = measure.cost(model, [(1, 1), (1, 6)], tokens, own)
    torch.testing.assert_close(nothing, torch.zeros_like(zero), atol=1e-4, rtol=0)
    z = model.run_with_cache(tokens)[1]["z", 1]
    for (_, head), mean in values["the mean"].items():
        torch.testing.assert_close(mean, z[:, :, head].mean((0, 1)).expand_as(mean))
    assert zero.mean() > 0.1
    with pytest.raises(IndexError):
        measure.cost(model, [(1, 8)], tokens, own)
    with pytest.raises(ValueError, match="each text's own"):
        interventions.stand_ins(model, 1, tokens[:9])


def by_hand(model, tokens, kept, other):
    """Heads alone, door by door: what is kept is written here, all else comes from `other`."""
    pos = model.W_pos[: tokens.shape[1]]
    in_stream = model.cfg.positional_embedding_type == "standard"
    written, instead = {"embed": model.W_E[tokens]}, {"embed": other["embed"]}
    later = torch.ones(len(pos), len(pos)).triu(1).bool()

    def read(*door):
        earlier = [w for w in written if w == "embed" or door[0] == "logits" or w[0] < door[1][0]]
        from_all = [(written if (w, *door) in kept else instead)[w] for w in earlier]
        return sum(from_all) + (pos if in_stream or door[0] in "qk" else 0)

    for layer in range(model.cfg.n_layers):
        for h in range(model.cfg.n_heads):
            q, k, v = (
                read(path, (layer, h)) @ getattr(model, f"W_{path.upper()}")[layer, h]
                for path in "qkv"
            )
            scores = (q @ k.mT / model.cfg.d_head**0.5).masked_fill(later, -torch.inf)
            written[layer, h] = scores.softmax(-1) @ v @ model.W_O[layer, h]
            instead[layer, h] = other[layer, h] @ model.W_O[layer, h]
    return read("logits") @ model.W_U


@pytest.mark.parametrize("positions", ["shortformer", "standard"])
@pytest.mark.parametrize("kind", ["zero", "the mean", "another text's"])
def test_only_what_is_kept_is_left(positions, kind):
    model = tiny_model(0.3, n_layers=3, positional_embedding_type=positions)
    tokens = torch.randint(model.cfg.d_vocab, (4, 6), generator=torch.Generator().manual_seed(0))
    other = interventions.stand_ins(model, None, tokens)[kind]
    every = interventions.all_but(model)
    heads = 3 * model.cfg.n_heads
    assert len(every) == len({*every}) == 1 + heads + 3 * heads + 3 * 3 * model.cfg.n_heads**2
    for share in (0.1, 0.5, 0.9):
        chosen = torch.rand(len(every), generator=torch.Generator().manual_seed(1)) < share
        kept = [door for door, one in zip(every, chosen, strict=True) if one]
        with interventions.cut(model, *interventions.all_but(model, *kept), instead=other):
            torch.testing.assert_close(
                model(tokens), by_hand(model, tokens, {*kept}, other), **EXACT
            )
    with interventions.cut(model, *interventions.all_but(model, *every), instead=other):
        torch.testing.assert_close(model(tokens), by_hand(model, tokens, {*every}, other), **EXACT)
    torch.testing.assert_close(by_hand(model, tokens, {*every}, other), model(tokens), **EXACT)


def test_two_cuts_at_once_put_two_things_in_place():
    """One has what stands behind doors that a hypothesis names, the other behind all others."""
    model = tiny_model(0.3)
    tokens = torch.randint(model.cfg.d_vocab, (4, 6), generator=torch.Generator().manual_seed(0))
    other = interventions.stand_ins(model, 0, tokens)["another text's"]
    named = [door for door in interventions.all_but(model) if (0, 0) in door]
    rest = interventions.all_but(model, *named, ("embed", "v", (1, 1)), ((1, 1), "logits"))
    with interventions.cut(model, *named, instead=other), interventions.cut(model, *rest):
        nested = model(tokens)
    with interventions.cut(model, *named, *rest, instead={(0, 0): other[0, 0]}):
        torch.testing.assert_close(model(tokens), nested, **EXACT)
    with interventions.cut(model, *rest):
        assert (model(tokens) - nested).abs().max() > 1e-2


def test_without_a_stand_in_nothing_is_read_of_what_the_token_puts_there():
    model = small()
    tokens = torch.randint(1, 30, (2, 6), generator=torch.Generator().manual_seed(1))
    whole = model(tokens)
    with interventions.cut(model, ("embed", "logits")):
        without = model(tokens)
    torch.testing.assert_close(without, whole - model.W_E[tokens] @ model.W_U, **EXACT)


def test_stand_ins_of_all_layers_are_of_every_head():
    model = small()  # of two layers with three heads each
    tokens = torch.randint(1, 30, (2, 6), generator=torch.Generator().manual_seed(1))
    found = interventions.stand_ins(model, None, tokens)["zero"]
    assert found.keys() == {"embed", *models.all_heads(model)}


@pytest.mark.parametrize(
    "kept", [(1, 1), 3, ((1, 0), "k", (1, 1)), ("embed", "k"), (0, "logits"), ((0, 9), "logits")]
)
def test_only_doors_can_be_kept(kept):
    with pytest.raises((ValueError, IndexError, TypeError)):
        interventions.all_but(small(), kept)
    with pytest.raises(IndexError, match="head must be a whole number from 0 to 2"):
        interventions.all_but(small(), ((0, 9), "logits"))


def test_a_model_with_mlps_is_no_set_of_doors():
    with pytest.raises(ValueError, match="no MLPs"):
        interventions.all_but(tiny_model(attn_only=False, d_mlp=4, act_fn="relu"))
    with pytest.raises(ValueError, match="no MLPs"):
        interventions.all_but(tiny_model(n_layers=0))


@pytest.mark.parametrize(
    "head",
    [
        np.unravel_index(5, (2, 8)),
        torch.unravel_index(torch.tensor(5), (2, 8)),
        [0, 5],
        np.array([0, 5]),
        torch.tensor([0, 5]),
    ],
    ids=["numpy", "torch", "list", "array", "tensor"],
)
def test_a_head_may_be_found_by_numpy_or_torch(head):
    model, tokens = model_of("two-layer"), tokens_of("two-layer")
    right = measure.cost(model, [(0, 5)], tokens[None])
    assert torch.equal(measure.cost(model, [head], tokens[None]), right)
    door, place = (head, "k", (np.int64(1), torch.tensor(6))), np.int64(3)
    assert paths.run(model, tokens, door, place).cuts == (((0, 5), "k", (1, 6)), 3)
    assert ((0, 5), "k", (1, 6)) not in interventions.all_but(model, door)
    z = torch.zeros(1, len(tokens), 32)
    assert torch.equal(measure.cost(model, [head], tokens[None], {(np.int64(0), 5): z}), right)
