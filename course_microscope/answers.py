"""What a model should say at each position of a text, and what its answers cost."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.paths import Run
from course_utils.training.tasks import TASKS


def answers(model: HookedTransformer, tokens: Int[Tensor, " pos"]) -> Int[Tensor, " pos"]:
    """The next token, or of max-of-list, the largest number so far; −1 where nothing is right."""
    right = [*tokens[1:].tolist(), -1]
    if model.cfg.model_name == TASKS["max-of-list"].rule:
        largest = tokens.cummax(0).values.tolist()
        right = [-1, *largest[1:]]  # no list of one number was ever trained on
    return torch.tensor(right)


def losses(model: HookedTransformer, run: Run) -> Float[Tensor, " pos"]:
    """−log p of the right answer at each position, in nats; NaN where there is none."""
    right = answers(model, run.tokens)
    log_p = run.logits.log_softmax(-1)  # [pos, d_vocab]
    asked = right.clamp(min=0)[:, None]  # [pos, 1]
    loss = -log_p.gather(-1, asked)[:, 0]
    return loss.masked_fill(right < 0, torch.nan)
