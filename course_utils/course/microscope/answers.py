"""What a model should say at each position of a text, and what its answers cost."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.paths import Run
from course_utils.training import tasks


def answers(model: HookedTransformer, tokens: Int[Tensor, " pos"]) -> Int[Tensor, " pos"]:
    """What should be said at each position, −1 where nothing is: the next token, or the largest
    number so far.
    """
    task = tasks.TASKS["max-of-list"]
    if model.cfg.model_name == task.rule:
        largest = [int(tasks.answers(task, tokens[None, : i + 1])) for i in range(len(tokens))]
        return torch.tensor([-1, *largest[1:]])  # no list of one number was ever trained on
    return torch.cat([tokens[1:], tokens.new_tensor([-1])])


def losses(model: HookedTransformer, run: Run) -> Float[Tensor, " pos"]:
    """−log p of the right answer at each position, in nats; NaN where there is none."""
    right = answers(model, run.tokens)
    loss = -run.logits.log_softmax(-1).gather(-1, right.clamp(min=0)[:, None])[:, 0]
    return loss.masked_fill(right < 0, torch.nan)
