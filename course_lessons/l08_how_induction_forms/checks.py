"""Checks of lesson 08, how induction heads form: each exercise, and what each mistake is told."""

from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer
from transformer_lens.hook_points import HookPoint

from course_lessons.fixtures import random, require_gradients, tiny_model
from course_lessons.formation import runs
from course_utils.course.exercises import compared

slopes = compared(
    "`slopes(parts) → [3]`: the slope of the product of three numbers along each of them.",
    returns="[3], slopes",
    cases=lambda: {
        "the slope along a number is the product of the other two.": [
            (torch.tensor([0.5, 0.2, 0.1]),),
            (torch.tensor([0.9, 0.3, 0.7]),),
        ],
        "a number may be 0: multiply the other two, and divide by nothing.": [
            (torch.tensor([0.0, 0.5, 0.25]),),
            (torch.zeros(3),),
        ],
    },
    mistakes={
        "this is the product itself; by how much does it rise for each number?": (
            lambda parts: parts.prod().expand(3)
        ),
        "you add the other two; the product's slope is *their product*.": (
            lambda parts: parts.sum() - parts
        ),
        "each is multiplied with one other only; take both others.": (
            lambda parts: parts * parts.roll(1),
            lambda parts: parts.roll(1),
        ),
        "each slope leaves its own number out; yours are in another order.": (
            lambda parts: (parts.roll(1) * parts.roll(2)).flip(0)
        ),
    },
)


smeared = compared(
    "`smeared(keys) → [batch, pos, head, d_head]`: half of each key is that of the place before.",
    returns="[batch, pos, head, d_head], keys",
    fits=lambda answer: require_gradients(answer, random(2, 5, 3, 4)),
    cases=lambda: {
        "each key should be half itself and half the key of the place before it; "
        "the first stays as it is.": [(random(2, 5, 3, 4),), (random(1, 7, 1, 2, seed=1),)]
    },
    mistakes={
        "you have changed no key.": lambda keys: keys,
        "no place is before the first: yours mixes the last place's key in there, "
        "and the last is the future.": (lambda keys: (keys + keys.roll(1, 1)) / 2),
        "you mix in the key of the place *after*: "
        "a model that sees the future has nothing to learn.": (
            lambda keys: runs.smeared(
                keys, (torch.arange(keys.shape[1]) + 1).clamp(max=keys.shape[1] - 1)
            )
        ),
        "half of each: yours adds both keys up, so that scores are twice as large.": lambda keys: (
            2 * runs.smeared(keys)
        ),
        "each key is *replaced* by the one before; half of it should stay.": (
            lambda keys: 2 * runs.smeared(keys) - keys
        ),
        "you mix along another axis: places are the second one, [batch, pos, head, d_head].": (
            lambda keys: runs.smeared(keys.transpose(1, 2)).transpose(1, 2)
        ),
    },
)


PATTERNS = "0.attn.hook_pattern"


def _holding(
    m: HookedTransformer, o: HookedTransformer, t: Tensor, *parts: str, index: Any = ...
) -> Tensor:
    """The logits of `m`, with some parts of its layers those of `o`."""
    cache = o.run_with_cache(t)[1]

    def put(activation: Tensor, hook: HookPoint) -> Tensor:
        activation[index] = cache[hook.name][index]
        return activation

    return m.run_with_hooks(t, fwd_hooks=[(f"blocks.{part}", put) for part in parts])


def _two_models(scales: tuple[float, float], seed: int, **config: Any) -> tuple:
    tokens = torch.randint(0, 12, (3, 7), generator=torch.Generator().manual_seed(seed))
    return *(tiny_model(scale, **config) for scale in scales), tokens


patterns_from = compared(
    "`patterns_from(model, other, tokens) → [batch, pos, d_vocab]`: "
    "logits with layer 0 attending where `other` does.",
    returns="[batch, pos, d_vocab], logits",
    cases=lambda: {
        "that is not `model` with the attention pattern of layer 0 taken from `other`, "
        "on these tokens.": [
            _two_models((0.4, 0.6), seed=0),
            _two_models((0.6, 0.5), seed=5, n_heads=2, d_head=5, d_model=14, d_vocab=12, n_ctx=8),
        ]
    },
    mistakes={
        "these are the logits of `model` alone: nothing of `other` has come in.": lambda m, o, t: m(
            t
        ),
        "these are the logits of `other`: only where layer 0 attends is its.": lambda m, o, t: o(t),
        "the models have changed roles: `other` gives the patterns, `model` does all the rest.": (
            lambda m, o, t: _holding(o, m, t, PATTERNS)
        ),
        "you replace the pattern of layer 1; it is layer 0 that should attend as `other`.": (
            lambda m, o, t: _holding(m, o, t, "1.attn.hook_pattern")
        ),
        "you replace the patterns of both layers; layer 1 should attend where its own "
        "queries and keys send it.": (
            lambda m, o, t: _holding(m, o, t, PATTERNS, "1.attn.hook_pattern")
        ),
        "what layer 0's heads move comes from `other`, too: replace the pattern alone, "
        "values stay the model's own.": (lambda m, o, t: _holding(m, o, t, "0.attn.hook_z")),
        "only head 0 attends where it does in `other`: replace the patterns of all heads.": (
            lambda m, o, t: _holding(m, o, t, PATTERNS, index=(slice(None), 0))
        ),
    },
)
