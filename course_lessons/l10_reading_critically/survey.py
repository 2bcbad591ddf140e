"""The course's statistics of any attention model, its LayerNorms folded in first."""

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.components import LayerNormPre

from course_utils import circuits, composition, text
from course_utils._arguments import Count, validated
from course_utils.measure import on_repeats


@validated
def folded(model: HookedTransformer) -> HookedTransformer:
    """A copy of the model, its LayerNorms' weights and biases folded into what reads them.

    LayerNorm is (x − mean) / scale · w + b. The last two steps are linear, so w and b can be
    multiplied into the next matrix once and for all; centring and scaling stay. No logit changes. A
    model without w and b is copied as it is. Shortformer positions skip the LayerNorm, so W_pos
    must be divided by w; layers with different w would need different W_pos. Raises ValueError
    there, and for layers with an MLP (hub models come folded, by TransformerLens).
    """
    model = copy.deepcopy(model)
    cfg = model.cfg
    if cfg.normalization_type in (None, "LNPre"):
        return model
    shortformer = cfg.positional_embedding_type == "shortformer"
    if cfg.normalization_type != "LN" or not cfg.attn_only or (shortformer and cfg.n_layers > 1):
        raise ValueError(
            "Folding is for attention-only models with LayerNorm (one layer, "
            "if positions are shortformer)."
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


@validated
@torch.no_grad()
def survey(model: HookedTransformer, period: Count = 64, batch: Count = 16) -> dict[str, Any]:
    """The course's statistics of a model, whatever its size and positions, with or without MLPs.

    Everything of `on_repeats`, on `batch` rows of uniformly drawn tokens, repeated three times with
    this `period` (shorter if the context is). From the weights: "copying", as [layer][head]; with
    two layers or more, "composition": the strongest pair of each mode, as mode → (score, [layer,
    head] that writes, [layer, head] that reads).

    LayerNorm weights are folded in first and W_E and W_U centred where the model cannot see the
    difference. Where MLPs stand between embedding and heads, or heads and logits, "copying" only
    knows the path around them.
    """
    model = folded(model)
    period = min(period, (model.cfg.n_ctx - 1) // 3)
    result = on_repeats(model, _repeated(model, period, batch), period)
    if model.cfg.n_layers:
        result["copying"] = _copying(model)
    if model.cfg.n_layers > 1:
        result["composition"] = {
            mode: _strongest(composition.scores(model, mode)) for mode in "QKV"
        }
    return result


def _repeated(model: HookedTransformer, period: int, batch: int) -> Tensor:
    """Repeated random tokens of the model's own vocabulary, behind its own start token."""
    start = getattr(model.tokenizer, "bos_token_id", None) or 0
    weights = torch.ones(model.cfg.d_vocab)
    weights[start] = 0
    tokens = text.repeated_tokens(period, batch, weights=weights, d_vocab=model.cfg.d_vocab)
    tokens[:, 0] = start
    return tokens.to(model.cfg.device)


def _copying(model: HookedTransformer) -> list[list[float]]:
    """`circuits.copying_scores` of a folded copy, W_E and W_U centred.

    They are centred where the model cannot see the difference.
    """
    # [d_model, 1]: it would change all logits of a position alike
    model.unembed.W_U.data -= model.W_U.mean(-1, keepdim=True)
    if model.cfg.normalization_type:  # what LayerNorm subtracts, no head reads
        model.embed.W_E.data -= model.W_E.mean(-1, keepdim=True)  # [d_vocab, 1]
        model.unembed.W_U.data -= model.W_U.mean(0)  # [d_vocab]
    return circuits.copying_scores(model).tolist()


def _strongest(
    scores: Float[Tensor, "layer1 head1 layer2 head2"],
) -> tuple[float, list[int], list[int]]:
    """The largest score, the head that writes and the head that reads, each as [layer, head]."""
    place = [int(i) for i in torch.unravel_index(scores.argmax(), scores.shape)]
    return scores.max().item(), place[:2], place[2:]
