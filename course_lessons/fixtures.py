"""What the checks call answers with: numbers that look random, and small models."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import models, text
from course_utils.course.exercises import Answer
from course_utils.course.expectations import Unfit, Wrong

# No two sizes are equal, so that swapped axes never fit; heads · d_head is not d_model, and d_model
# not the context.
SIZES = {"n_layers": 2, "n_heads": 3, "d_head": 4, "d_model": 10, "n_ctx": 9, "d_vocab": 20}
TOKENS = torch.tensor([[0, 7, 3, 3, 9]])
# another model, for answers that fit one only
OTHER = {"n_layers": 3, "n_heads": 2, "d_head": 5, "d_model": 8, "d_vocab": 12}
OTHER_TOKENS = torch.tensor([[0, 4, 11, 4, 2, 2, 8]])
FAILS = "it is right for 2 layers of 3 heads, and it fails for 3 layers of 2 heads and 7 tokens."
KIND = {
    "attn_only": True,
    "normalization_type": None,
    "positional_embedding_type": "shortformer",
    "seed": 0,
}


def random(*shape: int, seed: int = 0) -> Tensor:
    """Normally distributed numbers, the same at every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def require_gradients(answer: Answer, *given: Any) -> None:
    """Raise Unfit unless a gradient comes back through a right answer to each tensor of fractions.

    A lesson that trains through it can't go on with one that returns what numpy made, say.
    """
    arguments = [
        value.detach().requires_grad_()
        if isinstance(value, Tensor) and value.is_floating_point()
        else value
        for value in given
    ]
    trained = [value for value in arguments if isinstance(value, Tensor) and value.requires_grad]
    try:
        torch.autograd.grad(answer(*arguments).sum(), trained)
    except (Wrong, RuntimeError):  # such as .numpy() on a tensor that wants a gradient
        raise Unfit(
            "training needs gradients through it, in double precision too, and does not get them"
        ) from None


def tiny_model(scale: float = 0.5, **config: Any) -> HookedTransformer:
    """A new small model, its weights large enough for heads to have preferences; biases are zero.

    `config` changes SIZES or KIND. Each call makes another model, so that no answer can spoil it
    for the next check.
    """
    model = models.initial(SIZES | KIND | config).eval().requires_grad_(False)
    weights = (weight for name, weight in model.named_parameters() if ".b_" not in name)
    for seed, weight in enumerate(weights):
        weight.data = scale * random(*weight.shape, seed=seed)
    return model


def passes(V: int, n_ctx: int, period: int) -> Tensor:
    """A start token, then the same different tokens again and again, [6, n_ctx]."""
    start = torch.zeros(6, 1, dtype=torch.long)
    drawn = text.different_tokens(period, 6, V - 1, torch.Generator().manual_seed(0))
    tokens = torch.cat([start, drawn.repeat(1, n_ctx // period)], 1)
    return tokens[:, :n_ctx]
