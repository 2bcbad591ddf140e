"""Every path of a two-layer model to one logit."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads
from course_utils._arguments import validated
from course_utils.paths import require_paths


@validated
def to_logit(
    model: HookedTransformer, tokens: Int[Tensor, " pos"], out: int
) -> tuple[
    Float[Tensor, ""],
    Float[Tensor, "head src"],
    Float[Tensor, "later src"],
    Float[Tensor, "later earlier dest src"],
]:
    """What every path of a two-layer model adds to one logit at the last position, above the mean
    of all logits.

    The direct path; each head of layer 0; each head of layer 1 on the tokens themselves; each head
    of layer 1 on what each head of layer 0 took from `src` to `dest`. Patterns are taken as given,
    and the sum is exact. Raises ValueError for another number of layers, for a model with other
    parts, and for no token.
    """
    require_paths(model, 2)
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
