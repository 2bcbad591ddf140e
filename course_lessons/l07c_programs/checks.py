"""Checks of lesson 07c, programs: each exercise, and what each typical mistake is told."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import tiny_model
from course_lessons.programs import START, Head, Program, back, both, run, where
from course_utils import interventions
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.expectations import Wrong, demand

LETTERS = "·abcde"  # of the texts that `two_tokens` is asked about


def _out(
    program: object, tokens: Int[Tensor, "batch pos"], d_vocab: int
) -> Float[Tensor, "batch pos token"]:
    demand(
        isinstance(program, Program), f"it should return a Program, not {type(program).__name__}."
    )
    assert isinstance(program, Program)
    return run(program, tokens, d_vocab).slots["out"]


def _after(text: list[int], n: int) -> list[int]:
    """What came after the last `n` tokens, each time that they came before."""
    places = range(n, len(text) - 1)
    return [text[place + 1] for place in places if text[place - n + 1 : place + 1] == text[-n:]]


def _both_here() -> Program:
    """Two comparisons, as they should be, but both with the token here."""
    first = {"one": Head(back(1), {"token": "one"}), "two": Head(back(2), {"token": "two"})}
    look = both(where("one", equals="token"), where("two", equals="token"))
    return Program(first, {"reader": Head(look, {"token": "out"})})


@judged
def two_tokens(answer: Answer) -> None:
    """`two_tokens() → Program`: it says what came after the last two tokens before."""
    drawn = torch.randint(1, 6, (400, 11), generator=torch.Generator().manual_seed(0))
    texts = torch.cat([torch.full((400, 1), START), drawn], 1)
    said, apart = _out(answer(), texts, 6)[:, -1].argmax(-1).tolist(), []
    for text, one in zip(texts.tolist(), said, strict=True):
        by_two, by_one = _after(text, 2), _after(text, 1)
        if len({*by_two}) == 1 and {*by_one} != {*by_two}:
            often = max({*by_one}, key=lambda token: (by_one.count(token), -token))
            apart.append((text, one, by_two[0], often))
    demand(
        any(one != START for one in said),
        'it says nothing on any text: does one head move the token to "out", and is there a place '
        "that fits all that it asks?",
    )
    last = all(one == text[-1] for text, one, *_ in apart)
    demand(
        not last,
        "it repeats the last token: the head that reads looks at the pair itself, not behind it.",
    )
    second = all(one in (wanted, by_one) for _, one, wanted, by_one in apart)
    wrong = [(text, one, wanted) for text, one, wanted, _ in apart if one != wanted]
    if wrong:
        demand(
            said != _out(_both_here(), texts, 6)[:, -1].argmax(-1).tolist(),
            "both comparisons are with the token here. One of the two at the end is the token "
            'before it: which slot holds it here, for `equals="…"`?',
        )
        text, one, wanted = wrong[0]
        what = (
            f"after {' '.join(LETTERS[token] for token in text)} it should say {LETTERS[wanted]}, "
            f"which came after the last two; yours says {LETTERS[one] if one else 'nothing'}"
        )
        demand(not second, f"{what}, as if one token counted: a place fits where both do.")
        raise Wrong(f"{what}.")


def _swapped(
    model: HookedTransformer,
    tokens: Tensor,
    source: Tensor,
    heads: list[int],
    door: str,
    loud: float = 1.0,
    given: slice = slice(None),
) -> Tensor:
    """Logits with the doors of `heads` cut, and the other text's z for those of them in `given`."""
    cache = model.run_with_cache(source)[1]
    cuts = [((0, head), door, (1, reader)) for head in heads for reader in range(model.cfg.n_heads)]
    instead = {(0, head): loud * cache["z", 0][:, :, head] for head in heads[given]}
    with interventions.cut(model, *cuts, instead=instead):
        return model(tokens)


def _whole(
    model: HookedTransformer, tokens: Tensor, source: Tensor, heads: list[int], door: str
) -> Tensor:
    cache = model.run_with_cache(source)[1]
    cuts = [(0, head) for head in heads]
    with interventions.cut(
        model, *cuts, instead={cut: cache["z", 0][:, :, cut[1]] for cut in cuts}
    ):
        return model(tokens)


def _of_one_head(outcome: object, *arguments: object) -> str | None:
    """What to say where a writer was given the z of all heads."""
    if isinstance(outcome, RuntimeError) and "size of tensor" in str(outcome):
        return "`instead` takes each head's own z, [batch, pos, d_head]: `z[:, :, head]`."
    return None


def _case(heads: list[int], door: str, **sizes: int) -> tuple:
    kind = {"n_layers": 2, "positional_embedding_type": "standard"}
    model, generator = tiny_model(0.6, **kind | sizes), torch.Generator().manual_seed(len(heads))
    tokens, source = torch.randint(1, 12, (2, 4, 7), generator=generator)
    return model, tokens, source, heads, door


interchange = compared(
    "`interchange(model, tokens, source, heads, door) → logits`: "
    "with what heads of layer 0 wrote about another text.",
    returns="[batch, pos, token]",
    cases=lambda: {
        "the logits differ from those with the other text's writes behind these doors.": [
            *(_case(heads, door) for heads in ([1], [0, 2]) for door in "kqv"),
            _case([0, 1], "k", n_heads=2, d_head=5, d_vocab=12),
        ]
    },
    mistakes={
        "nothing is swapped: "
        "the logits are those of `tokens` as they are.": lambda model, tokens, *_: model(tokens),
        "these are the logits of `source` alone.": lambda model, tokens, source, *_: model(source),
        "`tokens` and `source` have changed roles.": lambda model, tokens, source, heads, door: (
            _swapped(model, source, tokens, heads, door)
        ),
        "a door is cut, and nothing stands in for its writer: "
        "give `cut` each writer's z in `instead`.": (
            lambda model, tokens, source, heads, door: _swapped(
                model, tokens, source, heads, door, loud=0.0
            )
        ),
        "a head that has no z in `instead` writes zero: give each head's.": tuple(
            lambda model, tokens, source, heads, door, n=n: _swapped(
                model, tokens, source, heads, door, given=n
            )
            for n in (slice(1), slice(-1, None))
        ),
        "you swap what the heads write everywhere: "
        "only what one door reads of it should be swapped.": _whole,
        "only one of the heads is swapped: give `cut` all doors at once, each head's z.": tuple(
            lambda model, tokens, source, heads, door, n=n: _swapped(
                model, tokens, source, [heads[n]], door
            )
            for n in (-1, 0)
        ),
    },
    advice=_of_one_head,
)
