"""The whole model as a sum of paths from tokens to logits, as tables and on one text."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import interventions
from course_utils._arguments import validated
from course_utils.interventions import Cut
from course_utils.models import all_heads


def require_paths(model: HookedTransformer, n_layers: int) -> None:
    """Raise ValueError unless the model has so many layers, and nothing but attention."""
    if model.cfg.n_layers != n_layers:
        layers = "one layer" if n_layers == 1 else "two layers"
        raise ValueError(
            f"These are the paths of a model with {layers}; this one has {model.cfg.n_layers}."
        )
    biases = any(value.any() for name, value in model.named_parameters() if ".b_" in name)
    in_stream = model.cfg.positional_embedding_type == "standard"
    if model.cfg.normalization_type or not model.cfg.attn_only or biases or in_stream:
        raise ValueError(
            "A model is a sum of these paths if it has no LayerNorm, MLP, bias or position in "
            "the stream."
        )


@validated
def of_tables(
    QK: Float[Tensor, "head V V"], OV: Float[Tensor, "head V V"], tokens: Int[Tensor, " pos"]
) -> Float[Tensor, "pos V"]:
    """The logits of a layer of heads given as tables, QK [head, dest, src] and OV [head, src, out]:
    no direct path.

    The same as `path_terms`, summed over heads, of a model whose circuits these are, without
    positions. Raises ValueError for a token that has no row.
    """
    if tokens.max() >= QK.shape[-1]:
        raise ValueError(
            f"Tokens are whole numbers from 0 to {QK.shape[-1] - 1}; one of these is not."
        )
    scores = QK[:, tokens][:, :, tokens]  # [head, dest, src]
    later = torch.ones_like(scores[0]).triu(1).bool()
    return (scores.masked_fill(later, -torch.inf).softmax(-1) @ OV[:, tokens]).sum(0)


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
    cfg = model.cfg
    if not cfg.attn_only:
        raise ValueError("The microscope shows attention-only models, and this one has MLPs.")
    for one in cuts:
        if isinstance(one, int) and one >= len(tokens):
            raise ValueError(
                f"Position {one} can't be cut: the text has the positions 0 to {len(tokens) - 1}."
            )
    needed = (
        "embed",
        "hook_resid_pre",
        "hook_resid_post",
        *(f"hook_{part}" for part in ("q", "k", "v", "z", "pattern")),
    )
    with interventions.cut(model, *cuts):
        logits, cache = model.run_with_cache(
            tokens[None], names_filter=lambda hook: hook.endswith(needed)
        )

    if not cfg.n_layers:
        none = torch.empty(0, cfg.n_heads, len(tokens), len(tokens))
        nothing = torch.empty(0, cfg.n_heads, len(tokens), cfg.d_model)
        return Run(tokens, logits[0], none, none, none, nothing, cache["embed"], cuts)

    def stacked(part: str) -> Tensor:
        return torch.cat([cache[part, layer] for layer in range(cfg.n_layers)])

    q, k, v, z = (stacked(part) for part in "qkvz")  # [layer, pos, head, d_head]
    pattern = stacked("pattern")
    # of what each source has to give
    lengths = torch.einsum("lshd,lhdm->lhsm", v, model.W_O).norm(dim=-1)
    return Run(
        tokens=tokens,
        logits=logits[0],
        scores=torch.einsum("lphd,lshd->lhps", q, k) / cfg.d_head**0.5,
        pattern=pattern,
        value_weighted=pattern * lengths[:, :, None],
        written=torch.einsum("lphd,lhdm->lhpm", z, model.W_O),
        stream=torch.cat([stacked("resid_pre"), cache["resid_post", cfg.n_layers - 1]]),
        cuts=cuts,
    )


def _direction(
    model: HookedTransformer, x: Float[Tensor, " d_model"], token: int
) -> tuple[Float[Tensor, " d_model"], float]:
    """The logit of `token` as x · direction + constant; with LayerNorm, at the scale that this very
    x has.
    """
    u, constant = model.W_U[:, token], model.b_U[token].item()
    if model.cfg.normalization_type is None:
        return u, constant
    if model.cfg.normalization_type == "LN":
        weights = dict(model.ln_final.named_parameters())
        constant += (weights["b"] @ u).item()
        u = weights["w"] * u
    centred = x - x.mean()
    return (u - u.mean()) / (centred.square().mean() + model.cfg.eps).sqrt(), constant


def terms(model: HookedTransformer, result: Run, position: int, token: int) -> dict[str, float]:
    """What the logit of `token` at `position` is the sum of: "direct", every head ("0.5"), and
    "bias" if there is one.

    "direct" is what the embedding adds (with the position vector where positions are in the
    stream). In a model of one layer without LayerNorm these are `path_terms`. LayerNorm's scale is
    held at what it is, so the terms still sum to the logit; with it, "bias" is what the biases add.
    """
    direction, constant = _direction(model, result.stream[-1, position], token)
    parts = {"direct": (result.stream[0, position] @ direction).item()}
    for (layer, head), value in zip(
        all_heads(model), (result.written[:, :, position] @ direction).flatten(), strict=True
    ):
        parts[f"{layer}.{head}"] = value.item()
    constant += sum((model.b_O[layer] @ direction).item() for layer in range(model.cfg.n_layers))
    return parts | ({"bias": constant} if constant else {})


def pairs(
    model: HookedTransformer, result: Run, position: int, token: int
) -> Float[Tensor, "later source"]:
    """The terms of layer 1's heads, each divided by what its values are made from: the embedding,
    then 0.0, 0.1, ….

    The entry of head h after head g is the *virtual head* of the two: h moves on what g wrote. A
    row sums to the head's term. Raises ValueError unless the model has two layers and no LayerNorm.
    Elhage et al. 2021, "Virtual Attention Heads".
    """
    if model.cfg.n_layers != 2 or model.cfg.normalization_type is not None:
        raise ValueError("Only two layers without LayerNorm fall apart into pairs of heads.")
    direction, _ = _direction(model, result.stream[-1, position], token)
    sources = torch.cat([result.stream[:1], result.written[0]])  # [source, pos, d_model]
    gives = torch.einsum("spm,hmd,hde,e->hsp", sources, model.W_V[1], model.W_O[1], direction)
    for one in result.cuts:
        match one:
            case ((0, earlier), "v", (1, later)):
                gives[later, 1 + earlier] = 0
            case (1, later):
                gives[later] = 0
    return torch.einsum("hsp,hp->hs", gives, result.pattern[1, :, position])
