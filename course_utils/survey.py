"""The course's statistics on any model: bundled, trained by the learner, or from the hub."""

import copy

import torch
from torch import Tensor
from transformer_lens.components import LayerNormPre

from course_utils import circuits, composition, heads, text
from course_utils.arguments import Count, checked


@checked
def folded(model):
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
    for block in model.blocks:
        w, b = block.ln1.w.data, block.ln1.b.data
        for name in ("Q", "K", "V"):
            W, bias = getattr(block.attn, f"W_{name}").data, getattr(block.attn, f"b_{name}").data
            bias += b @ W  # [head, d_head]
            W *= w[:, None]  # [head, d_model, d_head]
        if shortformer:
            model.pos_embed.W_pos.data /= w
        block.ln1 = LayerNormPre(cfg)
    model.unembed.b_U.data += model.ln_final.b.data @ model.W_U.data
    model.unembed.W_U.data *= model.ln_final.w.data[:, None]
    model.ln_final = LayerNormPre(cfg)
    cfg.normalization_type = "LNPre"
    model.setup()  # names the new hooks
    return model


@checked
@torch.no_grad()
def measure(model, period: Count = 64, batch: Count = 16) -> dict:
    """The course's statistics of a model, whatever its size, positions, normalisation and MLPs.

    On `batch` rows of uniformly drawn tokens, repeated three times with this `period` (shorter if the context is):
    "first_pass_loss" and "second_pass_loss" in nats per token; and per head, as [layer][head], "previous_token" and
    "prefix_matching". From the weights: "copying", as [layer][head]; with two layers or more, "composition": the
    strongest pair of each mode, as mode → (score, [layer, head] that writes, [layer, head] that reads).

    LayerNorm weights are folded in first and W_E and W_U centred where the model cannot see the difference. Where MLPs
    stand between embedding and heads, or heads and logits, "copying" only knows the path around them.
    """
    model = folded(model)
    cfg = model.cfg
    tokens = _repeated(model, period := min(period, (cfg.n_ctx - 1) // 3), batch)
    loss = torch.cat([model(rows, return_type="loss", loss_per_token=True) for rows in tokens.split(4)]).mean(0)
    result = {
        "first_pass_loss": loss[1:period].mean().item(),
        "second_pass_loss": loss[period + 1 : 2 * period].mean().item(),
    }
    if cfg.n_layers:
        patterns = torch.cat([heads.patterns(model, rows) for rows in tokens.split(4)], dim=2)
        result["previous_token"] = heads.previous_token_score(patterns).mean(-1).tolist()
        result["prefix_matching"] = heads.prefix_matching_score(patterns, period).mean(-1).tolist()
        result["copying"] = _copying(model)
    if cfg.n_layers > 1:
        result["composition"] = {mode: _strongest(composition.scores(model, mode)) for mode in "QKV"}
    return result


def _repeated(model, period: int, batch: int) -> Tensor:
    """Repeated random tokens of the model's own vocabulary, behind its own start token."""
    start = getattr(model.tokenizer, "bos_token_id", None) or 0
    weights = torch.ones(model.cfg.d_vocab)
    weights[start] = 0
    tokens = text.repeated_tokens(period, batch, weights=weights, d_vocab=model.cfg.d_vocab)
    tokens[:, 0] = start
    return tokens.to(model.cfg.device)


def _copying(model) -> list[list[float]]:
    """`circuits.copying_scores` of a folded copy, W_E and W_U centred where the model cannot see the difference."""
    model.unembed.W_U.data -= model.W_U.mean(-1, keepdim=True)
    if model.cfg.normalization_type:  # what LayerNorm subtracts, no head reads
        model.embed.W_E.data -= model.W_E.mean(-1, keepdim=True)
        model.unembed.W_U.data -= model.W_U.mean(0)
    return circuits.copying_scores(model).tolist()


def _strongest(scores: Tensor) -> tuple[float, list[int], list[int]]:
    place = [int(i) for i in torch.unravel_index(scores.argmax(), scores.shape)]
    return scores.max().item(), place[:2], place[2:]
