"""The whole model as a sum of paths from tokens to logits."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import circuits, heads
from course_utils._arguments import checked


@checked
def path_terms(
    model: HookedTransformer, tokens: Int[Tensor, " pos"]
) -> tuple[Float[Tensor, "pos V"], Float[Tensor, "head pos V"]]:
    """What each path of a one-layer model adds to the logits: the direct path, and every head; their sum is exact.

    Head h adds A (W_E W_V W_O W_U)[tokens], with its own pattern A [dest, src] on these tokens: Elhage et al. 2021,
    "The Path Expansion Trick". Raises ValueError for another number of layers, and for a model with other parts.
    """
    _demand_paths(model, 1)
    patterns = heads.patterns(model, tokens[None])[0, :, 0]  # [head, dest, src]
    x = model.W_E[tokens]  # [pos, d_model]
    written = [pattern @ (x @ circuits.ov(model, 0, head)).AB for head, pattern in enumerate(patterns)]  # as x
    return x @ model.W_U, torch.stack(written) @ model.W_U


def _demand_paths(model: HookedTransformer, n_layers: int) -> None:
    """Raise ValueError unless the model has so many layers, and nothing but attention."""
    if model.cfg.n_layers != n_layers:
        layers = "one layer" if n_layers == 1 else "two layers"
        raise ValueError(f"These are the paths of a model with {layers}; this one has {model.cfg.n_layers}.")
    biases = any(value.any() for name, value in model.named_parameters() if ".b_" in name)
    in_stream = model.cfg.positional_embedding_type == "standard"
    if model.cfg.normalization_type or not model.cfg.attn_only or biases or in_stream:
        raise ValueError("A model is a sum of these paths if it has no LayerNorm, MLP, bias or position in the stream.")


@checked
def of_tables(
    QK: Float[Tensor, "head V V"], OV: Float[Tensor, "head V V"], tokens: Int[Tensor, " pos"]
) -> Float[Tensor, "pos V"]:
    """The logits of a layer of heads given as tables, QK [head, dest, src] and OV [head, src, out]: no direct path.

    The same as `path_terms`, summed over heads, of a model whose circuits these are, without positions. Raises
    ValueError for a token that has no row.
    """
    if tokens.max() >= QK.shape[-1]:
        raise ValueError(f"Tokens are whole numbers from 0 to {QK.shape[-1] - 1}; one of these is not.")
    scores = QK[:, tokens][:, :, tokens]  # [head, dest, src]
    later = torch.ones_like(scores[0]).triu(1).bool()
    return (scores.masked_fill(later, -torch.inf).softmax(-1) @ OV[:, tokens]).sum(0)


@checked
def to_logit(
    model: HookedTransformer, tokens: Int[Tensor, " pos"], out: int
) -> tuple[
    Float[Tensor, ""],
    Float[Tensor, "head src"],
    Float[Tensor, "later src"],
    Float[Tensor, "later earlier dest src"],
]:
    """What every path of a two-layer model adds to one logit at the last position, above the mean of all logits.

    The direct path; each head of layer 0; each head of layer 1 on the tokens themselves; each head of layer 1 on what
    each head of layer 0 took from `src` to `dest`. Patterns are taken as given, and the sum is exact. Raises ValueError
    for another number of layers, for a model with other parts, and for no token.
    """
    _demand_paths(model, 2)
    if not 0 <= out < model.cfg.d_vocab:
        raise ValueError(f"There is no token {out} to predict among {model.cfg.d_vocab}: count from 0.")
    A0, A1 = heads.patterns(model, tokens[None])[:, :, 0]  # each [head, dest, src]
    x, u = model.W_E[tokens], model.W_U[:, out] - model.W_U.mean(-1)  # [pos, d_model], [d_model]
    OV0 = model.W_V[0] @ model.W_O[0]  # [head, d_model, d_model]
    read = model.W_V[1] @ (model.W_O[1] @ u)[..., None]  # [head, d_model, 1]: what of a source becomes the logit
    written = x @ OV0  # [head, src, d_model]
    one = A0[:, -1] * (written @ u)
    direct = A1[:, -1] * (x @ read)[..., 0]
    through = torch.einsum("ld,eds,esm,lm->leds", A1[:, -1], A0, written, read[..., 0])
    return x[-1] @ u, one, direct, through
