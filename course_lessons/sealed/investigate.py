"""What one asks of a sealed model: what it loses, what cuts cost, and where its heads look.

`cuts` are those of `interventions.cut`: a head, as (1, 2), or a door, ((0, 3), "k", (1, 2)), which
is what 0.3 writes as the keys of 1.2 read it. A cut puts zero there.
"""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.sealed import boards, languages
from course_utils import heads, interventions
from course_utils._arguments import require_tokens, validated
from course_utils.interventions import Head
from course_utils.models import all_heads

TEXTS = languages.texts()  # [batch, pos]


@validated
def losses(
    box: HookedTransformer, *cuts: Any, tokens: Int[Tensor, "batch pos"] = TEXTS
) -> Float[Tensor, " pos-1"]:
    """The loss at each position but the first, in nats, mean over the texts, after some cuts."""
    require_tokens(box, tokens)
    with interventions.cut(box, *cuts):
        return box(tokens, return_type="loss", loss_per_token=True).mean(0)


@validated
def loss(box: HookedTransformer, *cuts: Any, tokens: Int[Tensor, "batch pos"] = TEXTS) -> float:
    """The loss over the second block, from its third token on, in nats, after some cuts."""
    block = tokens.shape[1] // 2
    return losses(box, *cuts, tokens=tokens)[block + 2 :].mean().item()


@validated
def cost(box: HookedTransformer, *cuts: Any, tokens: Int[Tensor, "batch pos"] = TEXTS) -> float:
    """By how many nats the loss over the second block rises after some cuts, to a tenth."""
    rise = loss(box, *cuts, tokens=tokens) - loss(box, tokens=tokens)
    return round(max(0.0, rise), 1)


@validated
def who(box: HookedTransformer, tokens: Int[Tensor, "batch pos"] = TEXTS) -> dict[str, float]:
    """The heads whose cut costs something, {"0.1": nats}."""
    costs = {
        interventions.head_name(head): cost(box, head, tokens=tokens) for head in all_heads(box)
    }
    return {name: nats for name, nats in costs.items() if nats > 0}


@validated
def doors_of(
    box: HookedTransformer, reader: Head, tokens: Int[Tensor, "batch pos"] = TEXTS
) -> dict[str, float]:
    """The doors of a head whose cut costs something, {"0.1 in the keys of 1.0": nats}."""
    writers = [head for head in all_heads(box) if head[0] < reader[0]]
    doors = [(writer, door, reader) for writer in writers for door in "qkv"]
    costs = {interventions.in_words(door): cost(box, door, tokens=tokens) for door in doors}
    return {door: nats for door, nats in costs.items() if nats > 0}


@validated
def first_look(
    box: HookedTransformer | Mapping[str, HookedTransformer],
    tokens: Int[Tensor, "batch pos"] = TEXTS,
) -> None:
    """Draw the mean patterns of the heads that have a clear place; of several boxes, by name."""
    boxes = box if isinstance(box, Mapping) else {"": box}
    for one in boxes.values():
        require_tokens(one, tokens)
    mean = {name: heads.patterns(one, tokens).mean(2) for name, one in boxes.items()}
    if not any(map(boards.clear, mean.values())):
        print("No head has a clear place here: none gives much attention to one distance.")
        return
    boards.board(mean, "Where do heads look, and who has a clear place?")
