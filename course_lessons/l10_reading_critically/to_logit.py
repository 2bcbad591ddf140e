"""Every path of a two-layer model to one logit."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads
from course_utils._arguments import require_tokens, validated


@validated
def to_logit(
    model: HookedTransformer, tokens: Int[Tensor, " pos"], out: int
) -> tuple[
    Float[Tensor, ""],
    Float[Tensor, "head src"],
    Float[Tensor, "later src"],
    Float[Tensor, "later earlier dest src"],
]:
    """What every path of a two-layer model adds to one logit at the last position.

    All are above the mean of all logits. They are the direct path; each head of layer 0; each head
    of layer 1 on the tokens themselves; each head of layer 1 on what each head of layer 0 took from
    `src` to `dest`. Patterns are taken as given, and the sum is exact. Raises ValueError for
    another number of layers, for a model with other parts, and for no token.
    """
    require_tokens(model, tokens)
    _require_two_plain_layers(model)
    if not 0 <= out < model.cfg.d_vocab:
        raise ValueError(
            f"There is no token {out} to predict among {model.cfg.d_vocab}: count from 0."
        )
    A0, A1 = heads.patterns(model, tokens[None])[:, :, 0]  # each [head, dest, src]
    x, u = model.W_E[tokens], model.W_U[:, out] - model.W_U.mean(-1)  # [pos, d_model], [d_model]
    OV0 = model.W_V[0] @ model.W_O[0]  # [head, d_model, d_model]
    # [head, d_model, 1]: what of a source becomes the logit
    read = model.W_V[1] @ (model.W_O[1] @ u)[..., None]
    written = x @ OV0  # [head, src, d_model]
    one = A0[:, -1] * (written @ u)
    direct = A1[:, -1] * (x @ read)[..., 0]
    through = torch.einsum("ld,eds,esm,lm->leds", A1[:, -1], A0, written, read[..., 0])
    return x[-1] @ u, one, direct, through


def _require_two_plain_layers(model: HookedTransformer) -> None:
    """Raise ValueError unless the model has two layers, and nothing but attention."""
    if model.cfg.n_layers != 2:
        raise ValueError(
            f"These are the paths of a model with two layers; this one has {model.cfg.n_layers}."
        )
    biases = any(value.any() for name, value in model.named_parameters() if ".b_" in name)
    in_stream = model.cfg.positional_embedding_type == "standard"
    if model.cfg.normalization_type or not model.cfg.attn_only or biases or in_stream:
        raise ValueError(
            "A model is a sum of these paths if it has no LayerNorm, "
            "MLP, bias or position in the stream."
        )
