"""Who feeds 20.6? Judged by intervention, on texts that the lesson did not use."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.l13_real_model.doors import added
from course_utils import text
from course_utils.course.expectations import Wrong, demand
from course_utils.heads import prefix_matching_score
from course_utils.interventions import head_name
from course_utils.models import all_heads, require_head

READER = (20, 6)
PERIOD = 64
SEED = 13  # of the texts; the lesson has others
DOORS = {"q": "queries", "k": "keys"}  # through its values nothing changes where a head looks
MOST = 3  # heads that an answer may name
TRIALS = 4  # times that other heads are drawn
LOST = 0.5  # share of the score that must be gone; of a control's trials, each must keep more

Head = tuple[int, int]


def judge(model: HookedTransformer, heads: Sequence[Head], door: str) -> None:
    """Print what is left of 20.6's score when its door reads another text's output of `heads`.

    Beside it, the same for as many heads of earlier layers, drawn at random, several times. `door`
    is "q" or "k".
    """
    try:
        chosen = _chosen(model, heads, door)
    except (Wrong, IndexError) as problem:
        print(f"✗ feeders: {problem}")
        return
    tokens = text.repeated_tokens(
        PERIOD, batch=4, repeats=2, d_vocab=model.cfg.d_vocab, start=1, seed=SEED
    )
    whole = score(model, tokens, [], door)
    left = score(model, tokens, chosen, door)
    generator = torch.Generator().manual_seed(SEED)
    others = [_drawn(model, chosen, generator) for _ in range(TRIALS)]
    controls = [score(model, tokens, few, door) for few in others]

    named = ", ".join(map(head_name, chosen))
    reader = head_name(READER)
    print(f"{reader} gives the marked sources {whole:.2f} of its attention, on four new texts.")
    print(f"With another text's {named} in its {DOORS[door]}: {left:.2f}.")
    kept = ", ".join(f"{control:.2f}" for control in controls)
    print(f"With as many other heads, drawn {TRIALS} times: {kept}.")
    if left > (1 - LOST) * whole:
        share = f"{100 * left / whole:.0f} %"
        print(f"No: {share} of the score is left, so most of it depends on other things.")
    elif min(controls) < (whole + left) / 2:
        print("No: other heads do half of that harm, too, so this is not about yours.")
    else:
        print(
            f"Yes: in the {DOORS[door]} of {reader}, most of its score depends on {named}. "
            "(It may depend on others as much.)"
        )


def _chosen(model: HookedTransformer, heads: Sequence[Head], door: str) -> list[Head]:
    """The heads of an answer, each once; raises Wrong or IndexError, in one sentence."""
    values = 'where a head looks does not depend on its values: give "q" or "k".'
    demand(door != "v", values)
    demand(door in DOORS, f'the door should be "q" or "k", not {door!r}.')
    listed: list[Any] = list(heads) if isinstance(heads, list | tuple | set) else [None]
    if listed and all(isinstance(one, int) for one in listed):
        listed = [tuple(listed)]
    pairs = all(isinstance(one, list | tuple) and len(one) == 2 for one in listed)
    demand(pairs, "give a list of heads, each as (layer, head): [(3, 4), (5, 6)].")
    demand(bool(listed), "name at least one head.")
    chosen: list[Head] = sorted({(layer, head) for layer, head in listed})
    for layer, head in chosen:
        require_head(model, layer, head)
        earlier = f"{head_name((layer, head))} does not come before {head_name(READER)}."
        demand(layer < READER[0], earlier)
    few = f"name {MOST} heads at most: who names many will always hit what matters."
    demand(len(chosen) <= MOST, few)
    return chosen


def _drawn(model: HookedTransformer, but: Sequence[Head], generator: torch.Generator) -> list[Head]:
    """As many other heads of earlier layers."""
    free = [head for head in all_heads(model) if head[0] < READER[0] and head not in but]
    order = torch.randperm(len(free), generator=generator)[: len(but)]
    return [free[i] for i in order.tolist()]


def score(
    model: HookedTransformer, tokens: Int[Tensor, "batch pos"], heads: Sequence[Head], door: str
) -> float:
    """20.6's attention to the marked sources, with another text's `heads` in one of its doors."""
    layer, reader = READER
    attention: Any = model.blocks[layer].attn
    # a key is shared by several heads
    place = reader if door == "q" else reader // (model.cfg.n_heads // len(attention._W_K))

    # what the heads would write in another text, less what they write
    change = torch.zeros(*tokens.shape, model.cfg.d_model)  # [batch, pos, d_model]

    def write(z: Tensor, hook: Any) -> None:  # [batch, pos, head, d_head]
        attention: Any = model.blocks[hook.layer()].attn
        for head in (head for number, head in heads if number == hook.layer()):
            moved = z[:, :, head]
            change.add_((moved.roll(1, 0) - moved) @ attention.W_O[head])

    scored: list[Float[Tensor, " batch"]] = []

    def look(pattern: Tensor, hook: Any) -> None:  # [batch, head, dest, src]
        scored.append(prefix_matching_score(pattern[:, reader], PERIOD))

    hooks: list[Any] = [(f"blocks.{n}.attn.hook_z", write) for n in sorted({n for n, _ in heads})]
    hooks += added(model, change, door, {layer: [place]})
    hooks += [(f"blocks.{layer}.attn.hook_pattern", look)]
    model.run_with_hooks(tokens, fwd_hooks=hooks, return_type=None, stop_at_layer=layer + 1)
    return scored[-1].mean().item()
