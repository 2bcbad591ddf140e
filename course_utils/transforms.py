"""The same function in other weights: a model with its stream turned, or with its LayerNorms folded in."""

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.components import LayerNormPre

from course_utils._arguments import checked


@checked
def rotated(model: HookedTransformer, Q: Float[Tensor, "d_model d_model"]) -> HookedTransformer:
    """A copy of the model whose residual stream is turned: `x @ Q` stands where `x` stood, and the logits are the same.

    What writes to the stream, and W_pos, which is added to it or to what is read of it, is multiplied by Q; what reads
    is multiplied by Qᵀ first. Attention-only models without LayerNorm. Raises ValueError for another model, and unless
    Q is orthogonal. Elhage et al. 2021, "Virtual Weights and the Residual Stream".
    """
    cfg = model.cfg
    if not cfg.attn_only or cfg.normalization_type is not None:
        raise ValueError("Only an attention-only model without LayerNorm can be turned like this.")
    if Q.shape != (cfg.d_model, cfg.d_model) or not torch.allclose(Q @ Q.T, torch.eye(len(Q)).to(Q), atol=1e-4):
        raise ValueError(f"Q must be an orthogonal matrix of shape [{cfg.d_model}, {cfg.d_model}].")
    turned = copy.deepcopy(model)
    for name, weight in turned.named_parameters():
        kind = name.rsplit(".", 1)[-1]
        if kind in ("W_E", "W_pos", "W_O", "b_O"):
            weight.data = weight.data @ Q  # [..., d_model]
        elif kind in ("W_Q", "W_K", "W_V", "W_U"):
            weight.data = Q.T @ weight.data  # [..., d_model, d_head or d_vocab]
    return turned


@checked
def folded(model: HookedTransformer) -> HookedTransformer:
    """A copy of the model with the weights and biases of its LayerNorms folded into the matrices that read them.

    LayerNorm is (x − mean) / scale · w + b. The last two steps are linear, so w and b can be multiplied into the next
    matrix once and for all; centring and scaling stay. No logit changes. A model without w and b is copied as it is.
    Shortformer positions skip the LayerNorm, so W_pos must be divided by w; layers with different w would need
    different W_pos. Raises ValueError there, and for layers with an MLP (hub models come folded, by TransformerLens).
    """
    model = copy.deepcopy(model)
    cfg = model.cfg
    if cfg.normalization_type in (None, "LNPre"):
        return model
    shortformer = cfg.positional_embedding_type == "shortformer"
    if cfg.normalization_type != "LN" or not cfg.attn_only or (shortformer and cfg.n_layers > 1):
        raise ValueError(
            "Folding is for attention-only models with LayerNorm (one layer, if positions are shortformer)."
        )
    block: Any  # torch knows of a part of a model only that it is a Module
    for block in model.blocks:
        w, b = block.ln1.w.data, block.ln1.b.data
        for name in ("Q", "K", "V"):
            W, bias = getattr(block.attn, f"W_{name}").data, getattr(block.attn, f"b_{name}").data
            bias += b @ W  # [head, d_head]
            W *= w[:, None]  # [head, d_model, d_head]
        if shortformer:
            model.pos_embed.W_pos.data /= w
        block.ln1 = LayerNormPre(cfg)
    ln_final: Any = model.ln_final
    model.unembed.b_U.data += ln_final.b.data @ model.W_U.data  # [d_vocab]
    model.unembed.W_U.data *= ln_final.w.data[:, None]  # [d_model, d_vocab]
    model.ln_final = LayerNormPre(cfg)
    cfg.normalization_type = "LNPre"
    model.setup()  # names the new hooks
    return model
