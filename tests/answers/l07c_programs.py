"""Answers to lesson 07c's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable

from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.programs import Head, Look, Program, back, both, where
from course_utils import interventions
from course_utils.course.exercises import Answer

OUT = {"token": "out"}
ONE, TWO = Head(back(1), {"token": "one"}), Head(back(2), {"token": "two"})
AFTER_TWO = both(where("one", equals="token"), where("two", equals="one"))


def _two(look: Look, **more: Head) -> Callable[[], Program]:
    return lambda: Program({"a": ONE, "b": TWO, **more}, {"c": Head(look, OUT)})


def _by_hooks() -> Answer:
    """The exchange with hooks of its own."""

    def answer(
        model: HookedTransformer, tokens: Tensor, source: Tensor, heads: list[int], door: str
    ) -> Tensor:
        own, other = (model.run_with_cache(one)[1]["z", 0] for one in (tokens, source))
        change = sum((other - own)[:, :, head] @ model.W_O[0, head] for head in heads)

        def move(x: Tensor, hook: object) -> Tensor:
            W = getattr(model, f"W_{door.upper()}")[1]
            for reader in range(model.cfg.n_heads):
                x[:, :, reader] = x[:, :, reader] + change @ W[reader]
            return x

        return model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.1.attn.hook_{door}", move)])

    return answer


def _all_heads(
    model: HookedTransformer, tokens: Tensor, source: Tensor, heads: list[int], door: str
) -> Tensor:
    """For each writer the z of all heads."""
    readers = range(model.cfg.n_heads)
    doors = [((0, head), door, (1, reader)) for head in heads for reader in readers]
    z = model.run_with_cache(source)[1]["z", 0]
    with interventions.cut(model, *doors, instead={(0, head): z for head in heads}):
        return model(tokens)


RIGHT_ANSWERS = {
    "two_tokens": {
        "the other way round": _two(both(where("two", equals="one"), where("one", equals="token"))),
        "three layers": lambda: Program(
            {"a": ONE}, {"b": Head(back(1), {"one": "two"})}, {"c": Head(AFTER_TWO, OUT)}
        ),
        "with a head that nobody hears": _two(AFTER_TWO, d=Head(back(3), {"token": "three"})),
    },
    "interchange": {
        "with hooks": _by_hooks(),
        "logits as they come": lambda *given: _by_hooks()(*given).clone(),
        "in float64": lambda *given: _by_hooks()(*given).double().float(),
    },
}
WRONG_ANSWERS = {
    "two_tokens": {
        "it should return a Program": lambda: "a program",
        "does one head move the token to": lambda: Program({"a": Head(back(20), OUT)}),
        "it repeats the last token": lambda: Program({"a": Head(back(0), OUT)}),
        "as if one token counted": _two(where("one", equals="token")),
        "both comparisons are with the token here": _two(
            both(where("one", equals="token"), where("two", equals="token"))
        ),
        "it should say": _two(both(where("one", equals="two"), where("two", equals="one"))),
    },
    "interchange": {
        "the logits differ": lambda *given: 2 * _by_hooks()(*given),
        "each head's own z": _all_heads,
    },
}
