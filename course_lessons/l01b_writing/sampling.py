"""Ways in which lesson 01b lets a model write: cut-offs, and openings completed in each way."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons import gpt
from course_utils._arguments import Count

Texts = Int[Tensor, "text pos"]


def top_k(
    log_probs: Float[Tensor, "batch d_vocab"], k: Count = 40
) -> Float[Tensor, "batch d_vocab"]:
    """Probabilities of the k most probable tokens, divided by their sum; 0 for all others."""
    least = log_probs.topk(k).values[:, -1:]
    return log_probs.masked_fill(log_probs < least, -torch.inf).softmax(-1)


def top_p(
    log_probs: Float[Tensor, "batch d_vocab"], share: float = 0.9
) -> Float[Tensor, "batch d_vocab"]:
    """Probabilities of the most probable tokens, as few as reach the share; 0 for all others.

    They are divided by their sum.
    """
    p, order = log_probs.exp().sort(-1, descending=True)
    kept = p * (p.cumsum(-1) - p < share)  # those before it do not reach the share yet
    return torch.zeros_like(p).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


def written(
    model: HookedTransformer,
    texts: Texts,
    choices: Mapping[str, Callable[..., Tensor]],
) -> tuple[dict[str, Int[Tensor, "_ pos"]], dict[int, Texts]]:
    """The texts, their openings completed in every way, and the beams.

    An opening has 12 tokens; it is completed eight times, greedily once.
    """

    def last(texts: Tensor) -> Tensor:  # the last position alone is unembedded: much faster
        return model(texts, stop_at_layer=1)[:, -1:] @ model.W_U

    def log_probs(texts: Tensor) -> Tensor:
        return last(texts)[:, -1].log_softmax(-1)

    prompts, n = texts[:, :12], texts.shape[1] - 12
    often = prompts.repeat(8, 1)
    ways = {
        name: gpt.write(last, prompts if name == "greedy" else often, n, how)
        for name, how in choices.items()
    }
    beams = {
        width: torch.stack([gpt.beam_search(log_probs, one, width, n)[0] for one in prompts])
        for width in (1, 8)
    }
    return {"the author": texts} | ways | {"beam, width 8": beams[8]}, beams
