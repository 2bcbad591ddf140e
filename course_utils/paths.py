"""The whole model as a sum of paths from tokens to logits, as tables and on one text."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions
from course_utils._arguments import plain, require_tokens, validated
from course_utils.interventions import Cut
from course_utils.models import all_heads


@validated
def of_tables(
    QK: Float[Tensor, "head V V"], OV: Float[Tensor, "head V V"], tokens: Int[Tensor, " pos"]
) -> Float[Tensor, "pos V"]:
    """The logits of a layer of heads given as tables, QK [dest, src] and OV [src, out] of each.

    They are what the heads of a model with these circuits add, without positions and without the
    direct path. Raises ValueError for a token that has no row.
    """
    require_tokens(None, tokens)
    if tokens.max() >= QK.shape[-1]:
        raise ValueError(
            f"Tokens are whole numbers from 0 to {QK.shape[-1] - 1}; one of these is not."
        )
    # where each head looks
    scores = QK[:, tokens][:, :, tokens]  # [head, dest, src]
    later = torch.ones_like(scores[0]).triu(1).bool()  # [dest, src]
    pattern = scores.masked_fill(later, -torch.inf).softmax(-1)  # [head, dest, src]

    # and what it moves
    moved = pattern @ OV[:, tokens]  # [head, dest, V]
    return moved.sum(0)


@dataclass(frozen=True)
class Run:
    """What one run of a model on one text leaves behind. Logits are in nats."""

    tokens: Int[Tensor, " pos"]
    logits: Float[Tensor, "pos d_vocab"]
    scores: Float[Tensor, "layer head dest src"]  # x W_Q · y W_K / √d_head, before the mask
    pattern: Float[Tensor, "layer head dest src"]
    value_weighted: Float[Tensor, "layer head dest src"]  # as `heads.value_weighted`
    written: Float[Tensor, "layer head pos d_model"]  # what each head adds to the stream
    stream: Float[Tensor, "level pos d_model"]  # after the embedding, and after every layer
    cuts: tuple[Cut, ...] = ()


@validated
def run(model: HookedTransformer, tokens: Int[Tensor, " pos"], *cuts: Cut) -> Run:
    """Run a model once on one text, with what `cuts` names switched off (see `interventions.cut`).

    Raises ValueError for a model with MLPs, for a text longer than the context, and as
    `interventions.cut` does.
    """
    require_tokens(model, tokens)
    cuts = plain(cuts)
    cfg = model.cfg
    if not cfg.attn_only:
        raise ValueError("The microscope shows attention-only models, and this one has MLPs.")
    for one in cuts:
        if isinstance(one, int) and one >= len(tokens):
            raise ValueError(
                f"Position {one} can't be cut: the text has the positions 0 to {len(tokens) - 1}."
            )

    # run it, and keep what is needed
    needed = ("embed", "resid_pre", "resid_post", "hook_q", "hook_k", "hook_v", "hook_z", "pattern")
    with interventions.cut(model, *cuts):
        logits, cache = model.run_with_cache(
            tokens[None], names_filter=lambda hook: hook.endswith(needed)
        )

    if not cfg.n_layers:
        none = model.W_E.new_empty(0, cfg.n_heads, len(tokens), len(tokens))
        nothing = model.W_E.new_empty(0, cfg.n_heads, len(tokens), cfg.d_model)
        return Run(tokens, logits[0], none, none, none, nothing, cache["embed"], cuts)

    def stacked(part: str) -> Tensor:
        return torch.cat([cache[part, layer] for layer in range(cfg.n_layers)])

    # where each head looks, and why
    q = stacked("q")  # [layer, pos, head, d_head], as k, v and z
    k = stacked("k")
    scores = torch.einsum("lphd,lshd->lhps", q, k) / cfg.d_head**0.5  # [layer, head, dest, src]
    pattern = stacked("pattern")  # [layer, head, dest, src]

    # what each source has to give, and what is written
    gives = torch.einsum("lshd,lhdm->lhsm", stacked("v"), model.W_O)  # [layer, head, src, d_model]
    lengths = gives.norm(dim=-1)  # [layer, head, src]
    written = torch.einsum("lphd,lhdm->lhpm", stacked("z"), model.W_O)

    # the stream before every layer, and after the last
    before = stacked("resid_pre")  # [layer, pos, d_model]
    after = cache["resid_post", cfg.n_layers - 1]  # [1, pos, d_model]
    return Run(
        tokens=tokens,
        logits=logits[0],
        scores=scores,
        pattern=pattern,
        value_weighted=pattern * lengths[:, :, None],
        written=written,
        stream=torch.cat([before, after]),
        cuts=cuts,
    )


def _direction(
    model: HookedTransformer, x: Float[Tensor, " d_model"], token: int
) -> tuple[Float[Tensor, " d_model"], float]:
    """The logit of `token` as x · direction + constant.

    With LayerNorm, at the scale that this very x has.
    """
    u = model.W_U[:, token]  # [d_model]
    constant = model.b_U[token].item()
    if model.cfg.normalization_type is None:
        return u, constant
    if model.cfg.normalization_type == "LN":  # with weights and biases of its own
        weights = dict(model.ln_final.named_parameters())
        constant += (weights["b"] @ u).item()
        u = weights["w"] * u
    centred = x - x.mean()
    scale = (centred.square().mean() + model.cfg.eps).sqrt()
    return (u - u.mean()) / scale, constant


def terms(model: HookedTransformer, result: Run, position: int, token: int) -> dict[str, float]:
    """What the logit of `token` at `position` is the sum of: "direct", every head, "bias".

    "direct" is what the embedding adds (with the position vector where positions are in the
    stream), "0.5" what that head adds, and "bias", where there is one, what the biases add. In a
    model of one layer without LayerNorm these are the paths of lesson 04. LayerNorm's scale is held
    at what it is, so the terms still sum to the logit.
    """
    direction, constant = _direction(model, result.stream[-1, position], token)
    parts = {"direct": (result.stream[0, position] @ direction).item()}

    by_head = result.written[:, :, position] @ direction  # [layer, head]
    for head, value in zip(all_heads(model), by_head.flatten(), strict=True):
        parts[interventions.head_name(head)] = value.item()

    constant += sum((model.b_O[layer] @ direction).item() for layer in range(model.cfg.n_layers))
    if constant:
        parts["bias"] = constant
    return parts


def pairs(
    model: HookedTransformer, result: Run, position: int, token: int
) -> Float[Tensor, "later source"]:
    """The terms of layer 1's heads, each divided by what its values are made from.

    These sources are the embedding, then 0.0, 0.1, …. The entry of head h after head g is the
    *virtual head* of the two: h moves on what g wrote. A row sums to the head's term. Raises
    ValueError unless the model has two layers and no LayerNorm. Elhage et al. 2021, "Virtual
    Attention Heads".
    """
    if model.cfg.n_layers != 2 or model.cfg.normalization_type is not None:
        raise ValueError("Only two layers without LayerNorm fall apart into pairs of heads.")
    direction, _ = _direction(model, result.stream[-1, position], token)

    # what each source would add through each head of layer 1, if it got all the attention
    sources = torch.cat([result.stream[:1], result.written[0]])  # [source, pos, d_model]
    W_V, W_O = model.W_V[1], model.W_O[1]
    gives = torch.einsum("spm,hmd,hde,e->hsp", sources, W_V, W_O, direction)  # [later, source, pos]

    # without what was cut in this run
    for one in result.cuts:
        match one:
            case ((0, earlier), "v", (1, later)):
                gives[later, 1 + earlier] = 0
            case (1, later):
                gives[later] = 0

    # times the attention that it gets
    looks = result.pattern[1, :, position]  # [later, pos]
    return torch.einsum("hsp,hp->hs", gives, looks)
