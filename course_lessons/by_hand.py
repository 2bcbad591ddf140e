"""Models made by hand, of circuits that are given whole: for lessons 07, 07b, 09 and 09b."""

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import Count, validated
from course_utils.models import initial


@validated
def from_circuits(
    QK: Float[Tensor, "layer d_model d_model"],
    OV: Float[Tensor, "layer d_model d_model"],
    d_vocab: Count,
    n_ctx: Count,
    positions: str = "shortformer",
) -> HookedTransformer:
    """An attention-only model made by hand: one head in each layer, its circuits as given.

    The score of source y for destination x is x QK yᵀ, without a division, and what is moved is
    y OV. Of the stream's dimensions the first `d_vocab` hold the token, one-hot, the next `n_ctx`
    are for its position, one-hot, and the rest is empty. `positions` says who sees them: queries
    and keys alone ("shortformer"), or the stream too ("standard"). A token's logit is 10 times what
    stands at its dimension in the end. Raises ValueError if d_model has no room.
    """
    if positions not in ("shortformer", "standard"):
        raise ValueError(f'positions must be "shortformer" or "standard", not {positions!r}.')
    n_layers, d_model, _ = QK.shape
    if d_model < d_vocab + n_ctx:
        raise ValueError(
            f"{d_vocab} tokens and {n_ctx} positions need more than the {d_model} dimensions of QK."
        )
    config = {
        "n_layers": n_layers,
        "n_heads": 1,
        "d_model": d_model,
        "d_head": d_model,
        "n_ctx": n_ctx,
        "d_vocab": d_vocab,
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": positions,
        "seed": 0,
    }
    model = initial(config).eval().requires_grad_(False)

    # tokens, positions and logits in dimensions of their own
    eye = torch.eye(d_model)
    model.embed.W_E.copy_(eye[:d_vocab])
    model.pos_embed.W_pos.data = eye[d_vocab : d_vocab + n_ctx].clone()
    model.unembed.W_U.copy_(10 * eye[:, :d_vocab])

    # a circuit whole in one matrix, and the identity in the other
    for block, qk, ov in zip(model.blocks, QK, OV, strict=True):
        block.attn.W_Q[0] = qk * d_model**0.5  # scores are divided by √d_head
        block.attn.W_K[0] = eye
        block.attn.W_V[0] = ov
        block.attn.W_O[0] = eye
    return model


@validated
def from_neurons(
    curves: Float[Tensor, "value neuron"], votes: Float[Tensor, "neuron value"]
) -> HookedTransformer:
    """A model of two tokens made by hand: a head that mixes them half and half, and these neurons.

    At the second position a neuron receives the mean of what the two tokens have in its column of
    `curves`, and adds its row of `votes` to the logits if that is above 0. The stream holds the
    token, one-hot, then the mixture, then the logits, and nothing else reaches the logits.
    """
    n, d_mlp = curves.shape
    config = {
        "n_layers": 1,
        "n_heads": 1,
        "d_model": 3 * n,
        "d_head": n,
        "d_mlp": d_mlp,
        "n_ctx": 2,
        "d_vocab": n,
        "act_fn": "relu",
        "normalization_type": None,
        "seed": 0,
    }
    model = initial(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()  # all scores are 0: the second position looks at both alike

    # three parts of the stream
    token, mixture, logits = slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)
    block = model.blocks[0]
    eye = torch.eye(n)
    model.embed.W_E[:, token] = eye
    # the head moves the token into the mixture
    block.attn.W_V[0, token] = eye
    block.attn.W_O[0, :, mixture] = eye
    # neurons read there, and write into the logits
    block.mlp.W_in[mixture] = curves
    block.mlp.W_out[:, logits] = votes
    model.unembed.W_U[logits] = eye
    return model
