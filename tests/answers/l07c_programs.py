"""Answers to lesson 07c's exercises: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable

from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.programs import Head, Look, Program, back, both, where
from course_utils.course.exercises import Answer

OUT = {"token": "out"}
ONE, TWO = Head(back(1), {"token": "one"}), Head(back(2), {"token": "two"})
AFTER_TWO = both(where("one", equals="token"), where("two", equals="one"))


def _two(look: Look, **more: Head) -> Callable[[], Program]:
    return lambda: Program({"a": ONE, "b": TWO, **more}, {"c": Head(look, OUT)})


def _found(writers: dict[str, Head], look: Look, *readers: str) -> Callable[[], Program]:
    return lambda: Program(writers, {name: Head(look, OUT) for name in readers})


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


BEFORE, AFTER = Head(back(1), {"token": "before"}), where("before", equals="token")
POINTER = Head(where("token", equals="token", itself=False), {"place": "pointer"})
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
    "found": {
        "each writer is louder": _found(
            {"0.0": BEFORE._replace(loud=2), "0.1": BEFORE._replace(loud=2)}, AFTER, "1.0", "1.1"
        ),
        "a slot for each": _found(
            {"0.0": BEFORE, "0.1": Head(back(1), {"token": "again"})},
            both(AFTER, where("again", equals="token")),
            "1.0",
            "1.1",
        ),
        "the names in another order": _found({"0.1": BEFORE, "0.0": BEFORE}, AFTER, "1.1", "1.0"),
    },
}
WRONG_ANSWERS = {
    "two_tokens": {
        "it should return a Program": lambda: "a program",
        "does one head move the token to": lambda: Program({"a": Head(back(20), OUT)}),
        "it repeats the last token": lambda: Program({"a": Head(back(0), OUT)}),
        "as if one token counted": _two(where("one", equals="token")),
        "it should say": _two(both(where("one", equals="token"), where("two", equals="token"))),
    },
    "interchange": {"the logits differ": lambda *given: 2 * _by_hooks()(*given)},
    "found": {
        "heads 0.0 and 0.1": _found({"previous": BEFORE}, AFTER, "reader"),
        "it does not answer as the model does": _found(
            {"0.0": BEFORE, "0.1": BEFORE}, back(1), "1.0", "1.1"
        ),
        "its queries read layer 0": _found(
            {"0.0": POINTER, "0.1": POINTER._replace(moves={"token": "same"})},
            where("place", equals="pointer", step=1),
            "1.0",
            "1.1",
        ),
        "both readers hear both": _found(
            {"0.0": BEFORE, "0.1": Head(back(2), {"token": "two"})}, AFTER, "1.0", "1.1"
        ),
    },
}
