"""Answers to the exercises of lesson 07c: others that are right, and wrong ones with what they hear."""

from collections.abc import Callable, Iterable

from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.course.exercises import Answer
from course_utils.programs import Head, Look, Program, back, both, everywhere, largest, where

OUT = {"token": "out"}
ONE, TWO = Head(back(1), {"token": "one"}), Head(back(2), {"token": "two"})
AFTER_TWO = both(where("one", equals="token"), where("two", equals="one"))


def _two(look: Look, **more: Head) -> Callable[[], Program]:
    return lambda: Program({"a": ONE, "b": TWO, **more}, {"c": Head(look, OUT)})


def _one_layer(**heads: Head) -> Callable[[], Program]:
    return lambda: Program(heads)


def _found(writers: dict[str, Head], look: Look, *readers: str) -> Callable[[], Program]:
    return lambda: Program(writers, {name: Head(look, OUT) for name in readers})


def _by_hooks(readers: Iterable[int] = ()) -> Answer:
    """The exchange with hooks of its own, for some of the readers, or for all."""

    def answer(model: HookedTransformer, tokens: Tensor, source: Tensor, heads: list[int], door: str) -> Tensor:
        own, other = (model.run_with_cache(one)[1]["z", 0] for one in (tokens, source))
        change = sum((other - own)[:, :, head] @ model.W_O[0, head] for head in heads)

        def move(x: Tensor, hook: object) -> Tensor:
            W = getattr(model, f"W_{door.upper()}")[1]
            for reader in [*readers] or range(model.cfg.n_heads):
                x[:, :, reader] = x[:, :, reader] + change @ W[reader]
            return x

        return model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.1.attn.hook_{door}", move)])

    return answer


ALL, HALF = Head(everywhere(), OUT), Head(largest(), OUT, loud=-0.5)
BEFORE, AFTER = Head(back(1), {"token": "before"}), where("before", equals="token")
POINTER = Head(where("token", equals="token", itself=False), {"place": "pointer"})
RIGHT_ANSWERS = {
    "two_tokens": {
        "the other way round": _two(both(where("two", equals="one"), where("one", equals="token"))),
        "three layers": lambda: Program({"a": ONE}, {"b": Head(back(1), {"one": "two"})}, {"c": Head(AFTER_TWO, OUT)}),
        "with a head that nobody hears": _two(AFTER_TWO, d=Head(back(3), {"token": "three"})),
    },
    "smaller": {
        "loud": _one_layer(a=ALL, b=HALF._replace(loud=-4)),
        "both by place": _one_layer(a=Head(back(0), OUT), b=Head(back(1), OUT), c=HALF),
        "a little less": _one_layer(a=ALL._replace(loud=9), b=HALF._replace(loud=-0.1)),
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
        "does one head move the token to": _one_layer(a=Head(back(20), OUT)),
        "it repeats the last token": lambda: Program({"a": Head(back(0), OUT)}),
        "as if one token counted": _two(where("one", equals="token")),
        "it should say": _two(both(where("one", equals="token"), where("two", equals="token"))),
    },
    "smaller": {
        "it names the larger one": _one_layer(a=Head(largest(), OUT)),
        "it names the first token": _one_layer(a=Head(back(1), OUT)),
        "it names the last token": _one_layer(a=Head(back(0), OUT)),
        "it says nothing": _one_layer(a=Head(back(9), OUT)),
        "it says both alike": _one_layer(a=ALL),
        "the smaller is": _one_layer(a=Head(largest(), OUT, loud=-1), b=Head(back(0), OUT, loud=0.2)),
        "takes two layers": lambda: Program({"a": ALL}, {"b": HALF}),
    },
    "interchange": {
        "only one head of layer 1 hears": _by_hooks([0]),
        "the logits differ": lambda *given: 2 * _by_hooks()(*given),
    },
    "found": {
        "heads 0.0 and 0.1": _found({"previous": BEFORE}, AFTER, "reader"),
        "it does not answer as the model does": _found({"0.0": BEFORE, "0.1": BEFORE}, back(1), "1.0", "1.1"),
        "its queries read layer 0": _found(
            {"0.0": POINTER, "0.1": POINTER._replace(moves={"token": "same"})},
            where("place", equals="pointer", step=1),
            "1.0",
            "1.1",
        ),
        "is no door": _found({"0.0": BEFORE, "0.1": Head(back(2), {"token": "two"})}, AFTER, "1.0", "1.1"),
    },
}
