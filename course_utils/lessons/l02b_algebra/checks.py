"""Exercises of lesson 02b, the algebra of the stream: what answers are called with, and what mistakes are told."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads, transforms
from course_utils.course import ours
from course_utils.course.exercises import Answer, Cases, compared, judged
from course_utils.course.fixtures import FAILS, OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course.questions import close, demand

Model = HookedTransformer
NOT_TURNED = {  # kind of weight → what is said where it is not as it should be
    "W_E": "the embedding should write x Q where it wrote x.",
    "W_O": "what the heads write is not turned as the embedding is: W_O writes to the stream too, in every layer.",
    "W_pos": "W_pos is not turned: it is added to what queries and keys read, so it has to turn with the stream.",
    "W_U": "W_U does not undo the turn: what reads the stream must turn it back first.",
    "W_V": "W_V does not undo the turn: what reads the stream must turn it back first, in every layer.",
    "W_Q": "queries do not undo the turn: W_Q and W_K both read the stream, in every layer.",
    "W_K": "keys do not undo the turn: W_Q and W_K both read the stream, in every layer.",
}


@judged
def rotate(answer: Answer) -> None:
    """`rotate(model, Q) → model`: the same function, with `x @ Q` in the stream where `x` was; weight by weight."""
    for model, tokens in ((tiny_model(), TOKENS), (tiny_model(**OTHER), OTHER_TOKENS)):
        Q = torch.linalg.qr(random(model.cfg.d_model, model.cfg.d_model, seed=7))[0]
        turned, right = answer(model, Q), transforms.rotated(model, Q)
        kind = type(turned).__name__
        demand(hasattr(turned, "run_with_cache"), f"it should return a model, not {kind}: is there a return?")
        demand(turned is not model, "it returns the model that it was given: work on `copy.deepcopy(model)`.")
        still = [close(getattr(turned, kind), getattr(model, kind)) for kind in NOT_TURNED]
        backwards = close(turned.W_E, model.W_E @ Q.T)
        faults = {
            "nothing has been turned at all: `w = …` only gives a new value a name; assign to `w.data`.": all(still),
            "the embedding still writes as it did: W_E writes to the stream too.": still[0],
            "the embedding writes x Qᵀ; it should write x Q, and what reads undoes it with Qᵀ.": backwards,
        }
        faults |= {s: not close(getattr(turned, kind), getattr(right, kind)) for kind, s in NOT_TURNED.items()}
        for says, is_so in faults.items():
            demand(not is_so, says)
        same = close(turned(tokens), right(tokens))
        demand(same, "the turned model's stream or logits are not those of the model that was given.")


def _fold_case(d_model: int, d_out: int) -> tuple[Tensor, ...]:
    return 1 + 0.5 * random(d_model), random(d_model, seed=1), random(d_model, d_out, seed=2), random(d_out, seed=3)


def _with_bias(bias: Callable[..., Tensor]) -> Answer:
    """The right W, and another bias."""
    return lambda w, b, W, b_W: (w[:, None] * W, bias(w, b, W, b_W))


BIASES: dict[str, Callable[..., Tensor]] = {  # what is said → a wrong new bias
    "b went into the new bias as it is; but it, too, is read through W.": lambda w, b, W, b_W: b_W + b,
    "b is lost: what LayerNorm adds to every vector must arrive behind W.": lambda w, b, W, b_W: b_W,
    "b_W is lost: the map had a bias of its own.": lambda w, b, W, b_W: b @ W,
    "b is multiplied by w; LayerNorm adds b after it has multiplied by w.": lambda w, b, W, b_W: b_W + (w * b) @ W,
    "b stands on the wrong side of W: a row vector stands left of its matrix.": lambda w, b, W, b_W: b_W + W @ b,
    "b goes through W and is then subtracted; LayerNorm adds it.": lambda w, b, W, b_W: b_W - b @ W,
}
OF_W = "the new W is not what turns w ⊙ n into n: each row of W takes one factor."

fold_layer_norm = compared(
    "`fold_layer_norm(w, b, W, b_W) → (W, b_W)`: LayerNorm's weight and bias inside the next linear map.",
    returns=("the new W", "the new b_W"),
    cases=lambda: {
        "the new bias is not what b becomes behind W, plus b_W.": _fold_case(6, 6),
        "it fails for a map from 5 dimensions to 3.": _fold_case(5, 3),
        "it fails for a map from 2 dimensions to 7.": _fold_case(2, 7),
        "it fails for a map from 4 dimensions to 1.": _fold_case(4, 1),
    },
    explain=lambda got, right, *given: None if close(got[0], right[0]) else OF_W,
    mistakes={
        "W comes back transposed: keep its shape, [d_model, d_out].": (
            lambda w, b, W, b_W: ((w[:, None] * W).T, b_W + b @ W)
        ),
        "with w = 1 and b = 0 LayerNorm's weights do nothing, so W and b_W should come back as they are.": (
            lambda w, b, W, b_W: ((n := w[:, None] * W) - n.mean(0), b_W + b @ W)
        ),
        "w scales the columns of W; it belongs to the coordinates that W reads, its rows.": (
            lambda w, b, W, b_W: (W * w, b_W + b @ W)
        ),
    }
    | {says: _with_bias(bias) for says, bias in BIASES.items()},
)
NOT_LINEAR = "it is not linear in `soft`: with fixed patterns nothing but products and sums remains."


def _frozen(model: Model, soft: Tensor, A: Tensor, wrong: str) -> Tensor:
    """The right answer, with one thing wrong."""
    x = embedded = soft @ model.W_E + (wrong == "positions") * model.W_pos[: len(soft)]
    for layer in range(model.cfg.n_layers):
        read = embedded if wrong == "reads the embedding" else x
        x = 0 * x if wrong == "no residual" else x
        for head in range(model.cfg.n_heads):
            read = x if wrong == "one by one" else read
            x = x + A[layer, head] @ read @ model.W_V[layer, head] @ model.W_O[layer, head]
    return x @ model.W_U


def _linear(*given: Any) -> Tensor:
    return ours.find("frozen_logits").function(*given)


def _frozen_cases() -> Cases:
    model, other = tiny_model(), tiny_model(**OTHER)
    hard, mixed = torch.eye(20)[TOKENS[0]], torch.eye(20)[[0, 2, 5, 1, 4]]
    own = heads.patterns(model, TOKENS)[:, :, 0]  # [layer, head, dest, src]
    return {
        "with the model's own patterns the logits should be the model's own.": (model, hard, own),
        "with other patterns it goes wrong.": (model, hard, _patterns(2, 3, 5)),
        NOT_LINEAR: (model, 0.3 * hard + 0.5 * mixed, own),
        FAILS: (other, random(7, 12), _patterns(3, 2, 7)),
    }


def _patterns(*shape: int) -> Tensor:
    """Patterns that no model has made, [layer, head, dest, src]."""
    weights = (2 * random(*shape, shape[-1])).exp().tril()
    return weights / weights.sum(-1, keepdim=True)


frozen_logits = compared(
    "`frozen_logits(model, soft, A) → [pos, d_vocab]`: the whole model with its attention patterns held fixed.",
    returns="[pos, d_vocab]",
    cases=_frozen_cases,
    mistakes={
        "these are log-probabilities; the function returns logits.": lambda *given: _linear(*given).log_softmax(-1),
        "these are probabilities; the function returns logits.": lambda *given: _linear(*given).softmax(-1),
        "other patterns give the same logits: are they computed anew from the stream?": (
            lambda model, soft, A: model(soft.argmax(1)[None])[0]
        ),
        "the patterns of layer 0 make no difference.": lambda m, s, A: _linear(m, s, A[1:].expand_as(A)),
        "the patterns of layer 1 make no difference.": lambda m, s, A: _linear(m, s, A[:1].expand_as(A)),
        "positions are in the stream; here they only ever entered the patterns.": (
            lambda m, s, A: _frozen(m, s, A, "positions")
        ),
        NOT_LINEAR: lambda m, s, A: _linear(m, s.softmax(-1), A),
        "the patterns are transposed: rows are destinations.": lambda m, s, A: _linear(m, s, A.mT),
        "a head reads what its neighbour in the same layer wrote; all heads of a layer read the same stream.": (
            lambda m, s, A: _frozen(m, s, A, "one by one")
        ),
        "layer 1 reads the embedding; it should read the stream, to which layer 0 has added.": (
            lambda m, s, A: _frozen(m, s, A, "reads the embedding")
        ),
        "the stream itself is lost: a layer adds its heads to it.": lambda m, s, A: _frozen(m, s, A, "no residual"),
        "the layers have each other's patterns: A[0] belongs to layer 0.": lambda m, s, A: _linear(m, s, A.flip(0)),
        "the heads have each other's patterns: A[layer, 0] belongs to head 0.": lambda m, s, A: _linear(
            m, s, A.flip(1)
        ),
    },
)
