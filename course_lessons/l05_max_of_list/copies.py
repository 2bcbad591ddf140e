"""One M against several copies of M − 1: which M loses to them, and for how many it counts."""

import torch
from transformer_lens import HookedTransformer

from course_lessons import max_of_list
from course_utils._arguments import NotNegative, validated


@validated
def beaten(model: HookedTransformer) -> list[int]:
    """Which M the model does not name if one M meets copies of M − 1 in all other positions.

    Lists of the greatest length, with M in front.
    """
    M = torch.arange(1, model.cfg.d_vocab)
    hardest = torch.stack([M, *[M - 1] * (model.cfg.n_ctx - 1)], dim=1)  # [M, pos]
    return M[model(hardest)[:, -1].argmax(1) != M].tolist()


@validated
def outvoted_by(model: HookedTransformer, M: NotNegative, last: NotNegative) -> list[float]:
    """For how many copies of M − 1 one M counts: by its weight, by its voice, and by both.

    The voice is how strongly a vote of weight 1 raises M above M − 1, divided by how strongly
    one of M − 1 does the reverse. Means over the positions before the last, at the greatest length.
    """
    if not 0 < M < model.cfg.d_vocab or last >= model.cfg.d_vocab:
        raise ValueError(f"There is no {M} above a smaller number, or no {last}, in this model.")
    scores, say, direct = max_of_list.tables(model, model.cfg.n_ctx)
    weight = (scores[last, :-1, M] - scores[last, :-1, M - 1]).exp()  # [pos]
    said = say[:-1] + direct[last]  # [pos, value, out]
    margin = said[..., M] - said[..., M - 1]  # [pos, value]
    voice = -margin[:, M] / margin[:, M - 1]
    return [part.mean().item() for part in (weight, voice, weight * voice)]
