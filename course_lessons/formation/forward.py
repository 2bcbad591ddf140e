"""What the small models compute, written out, in parts that another model can take over.

It is faster than hooks.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import NotNegative, require_tokens, validated

# where layer 0 looks; what layer 1 looks for; what layer 1 does to the logits
PARTS = ("look", "match", "copy")


@validated
def logits(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], silent: Sequence[NotNegative] = ()
) -> Float[Tensor, "batch pos d_vocab"]:
    """The same as `model(tokens)`, faster.

    The last layer's heads in `silent` are off. No LayerNorm, no biases.
    """
    require_tokens(model, tokens)
    stream, position = _inputs(model, tokens)
    for block in model.blocks:
        attn: Any = block.attn
        q, k = (_by_head(stream + position, W) for W in (attn.W_Q, attn.W_K))
        v = _by_head(stream, attn.W_V)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [batch, head, pos, d_head]
        if silent and block is model.blocks[-1]:
            on = torch.ones(z.shape[1], device=z.device)
            on[list(silent)] = 0
            z = z * on[:, None, None]
        stream = stream + _written(z, attn.W_O)
    return stream @ model.W_U


@validated
def held_logits(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch pos"],
    other: HookedTransformer,
    held: Sequence[str] = (),
) -> Float[Tensor, "batch pos d_vocab"]:
    """The logits of a two-layer model, of which `other` does the parts in `held`.

    "look": layer 0's attention patterns are those of `other`. "match": layer 1's patterns are those
    that `other` has when its layer 0 looks where ours does; that fixes M_K, and what positions add.
    "copy": what layer 1 adds to the logits is what `other` would read from these sources and write.
    All three together are the whole of `other` but for the direct path and what layer 0 itself adds
    to the logits. The idea is the clamping of Singh et al. 2024.

    Raises ValueError for a part that does not exist, or a model that has not two layers.
    """
    for reader in (model, other):
        require_tokens(reader, tokens)
    if unknown := set(held) - set(PARTS):
        raise ValueError(f"held must name parts among {PARTS}, not {sorted(unknown)}.")
    if model.cfg.n_layers != 2:
        raise ValueError(
            f"The parts are those of a model with two layers; this one has {model.cfg.n_layers}."
        )
    looker, matcher, copier = (other if part in held else model for part in PARTS)
    stream, position = _inputs(looker, tokens)
    looks = _pattern(looker, 0, stream + position, stream + position)
    streams = {m: _inputs(m, tokens)[0] for m in {model, matcher, copier}}
    # between the layers
    after = {m: stream + _write(m, 0, looks, stream) for m, stream in streams.items()}
    matching = after[matcher] + _inputs(matcher, tokens)[1]
    found = _pattern(matcher, 1, matching, matching)
    return after[model] @ model.W_U + _write(copier, 1, found, after[copier]) @ copier.W_U


def _inputs(model: HookedTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The stream before layer 0, and what queries and keys add to it in every layer."""
    return model.W_E[tokens], model.W_pos[: tokens.shape[1]]


def _pattern(
    model: HookedTransformer, layer: int, dest: Tensor, src: Tensor
) -> Float[Tensor, "batch head dest src"]:
    """A layer's attention, if its queries read `dest` and its keys `src`.

    Both are [batch, pos, d_model], positions included.
    """
    attn: Any = model.blocks[layer].attn
    scores = _by_head(dest, attn.W_Q) @ _by_head(src, attn.W_K).mT / model.cfg.d_head**0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def _write(
    model: HookedTransformer, layer: int, attention: Tensor, src: Tensor
) -> Float[Tensor, "batch pos d_model"]:
    """What a layer adds to the stream, if its heads look like this and their values read `src`."""
    attn: Any = model.blocks[layer].attn
    return _written(attention @ _by_head(src, attn.W_V), attn.W_O)


def _by_head(
    x: Float[Tensor, "batch pos d_model"], W: Float[Tensor, "head d_model d_head"]
) -> Tensor:
    """What every head reads from x, [batch, head, pos, d_head], by one product."""
    joined = W.transpose(0, 1)  # [d_model, head, d_head]
    return (x @ joined.flatten(1)).unflatten(-1, joined.shape[1:]).transpose(1, 2)


def _written(
    z: Float[Tensor, "batch head pos d_head"], W_O: Float[Tensor, "head d_head d_model"]
) -> Tensor:
    """What all heads together write, [batch, pos, d_model], by one product."""
    # [batch, pos, head d_head] @ [head d_head, d_model]
    return z.transpose(1, 2).flatten(2) @ W_O.flatten(0, 1)
