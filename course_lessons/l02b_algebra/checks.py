"""Checks of lesson 02b, the algebra of the stream: each exercise, and what mistakes are told."""

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course import solutions
from course_utils.course.exercises import Answer, compared, judged
from course_utils.course.expectations import close, demand

Model = HookedTransformer
NOT_TURNED = {  # kind of weight → what is said where it is not as it should be
    "W_E": "the embedding should write x Q where it wrote x.",
    "W_O": "what the heads write is not turned as the embedding is: "
    "W_O writes to the stream too, in every layer.",
    "W_pos": "W_pos is not turned: "
    "it is added to what queries and keys read, so it has to turn with the stream.",
    "W_U": "W_U does not undo the turn: what reads the stream must turn it back first.",
    "W_V": "W_V does not undo the turn: "
    "what reads the stream must turn it back first, in every layer.",
    "W_Q": "queries do not undo the turn: W_Q and W_K both read the stream, in every layer.",
    "W_K": "keys do not undo the turn: W_Q and W_K both read the stream, in every layer.",
}


@judged
def rotate(answer: Answer) -> None:
    """`rotate(model, Q) → model`: the same function, with `x @ Q` in the stream where `x` was.

    Compared weight by weight.
    """
    for model, tokens in ((tiny_model(), TOKENS), (tiny_model(**OTHER), OTHER_TOKENS)):
        Q = torch.linalg.qr(random(model.cfg.d_model, model.cfg.d_model, seed=7))[0]
        turned, right = answer(model, Q), solutions.answer("rotate")(model, Q)
        kind = type(turned).__name__
        demand(
            hasattr(turned, "run_with_cache"),
            f"it should return a model, not {kind}: is there a return?",
        )
        demand(
            turned is not model,
            "it returns the model that it was given: work on `copy.deepcopy(model)`.",
        )
        still = [close(getattr(turned, kind), getattr(model, kind)) for kind in NOT_TURNED]
        backwards = close(turned.W_E, model.W_E @ Q.T)
        faults = {
            "nothing has been turned at all: "
            "`w = …` only gives a new value a name; assign to `w.data`.": all(still),
            "the embedding still writes as it did: W_E writes to the stream too.": still[0],
            "the embedding writes x Qᵀ; "
            "it should write x Q, and what reads undoes it with Qᵀ.": backwards,
        }
        faults |= {
            s: not close(getattr(turned, kind), getattr(right, kind))
            for kind, s in NOT_TURNED.items()
        }
        for says, is_so in faults.items():
            demand(not is_so, says)
        same = close(turned(tokens), right(tokens))
        demand(
            same, "the turned model's stream or logits are not those of the model that was given."
        )


_rope = solutions.answer("rope")


def _turned(v: Tensor, wrong: str) -> Tensor:
    """The right answer, with one thing wrong."""
    pos, d = v.shape[-2:]
    start, step = int(wrong == "from 1"), 1 if wrong == "half" else 2
    rates = 10_000 ** (-torch.arange(0, d, 2) * step / 2 / d)
    rates = {"all alike": rates[:1].expand_as(rates), "backwards": rates.flip(0)}.get(wrong, rates)
    angles = torch.arange(start, pos + start)[:, None] * rates
    a, b = (v[..., ::2], v[..., 1::2]) if wrong == "neighbours" else v.chunk(2, -1)
    cos, sin = angles.cos(), -angles.sin() if wrong == "sign" else angles.sin()
    new = a * cos - b * sin, b * cos + a * sin
    return torch.stack(new, -1).flatten(-2) if wrong == "neighbours" else torch.cat(new, -1)


rope = compared(
    "`rope(v) → [head, pos, d_head]`: "
    "queries or keys, each pair of coordinates turned, further at later positions.",
    returns="[head, pos, d_head], as what it is given",
    cases=lambda: {
        "the vectors are not turned as they should be: "
        "pair i at position n by n · 10,000^(−2i/d).": (random(3, 5, 8),),
        "it fails for 1 head, 7 positions and 4 coordinates.": (random(1, 7, 4),),
        "it fails for 2 heads, 3 positions and 12 coordinates.": (random(2, 3, 12),),
    },
    mistakes={
        "nothing is turned.": lambda v: v,
        "it turns the wrong way: "
        "(a, b) becomes (a cos φ − b sin φ, b cos φ + a sin φ).": lambda v: _turned(v, "sign"),
        "neighbours are paired; coordinate i belongs to i + d/2.": lambda v: _turned(
            v, "neighbours"
        ),
        "position 0 is turned, too: count positions from 0.": lambda v: _turned(v, "from 1"),
        "all pairs turn by the same angle; pair i turns more slowly the larger i.": lambda v: (
            _turned(v, "all alike")
        ),
        "the pairs have each other's angles: the first one turns fastest.": lambda v: _turned(
            v, "backwards"
        ),
        "the exponent is −2i/d, not −i/d.": lambda v: _turned(v, "half"),
    },
)
