"""Exercises of lesson 02b, the algebra of the stream: what answers are called with, and what mistakes are told."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads, transforms
from course_utils.course.exercises import Answer, Cases, compared, judged
from course_utils.course.fixtures import FAILS, OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course.questions import close, demand

Model = HookedTransformer
WRITES, READS = ("W_E", "W_pos", "W_O"), ("W_Q", "W_K", "W_V", "W_U")
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
    """`rotate(model, Q) → model`: the same function, with `x @ Q` in the stream where `x` was.

    What returns is a model, and it must be another than the one given: that is asked, and then weight by weight.
    """
    for model, tokens in ((tiny_model(), TOKENS), (tiny_model(**OTHER), OTHER_TOKENS)):
        Q = torch.linalg.qr(random(model.cfg.d_model, model.cfg.d_model, seed=7))[0]
        turned, right = answer(model, Q), transforms.rotated(model, Q)
        kind = type(turned).__name__
        demand(hasattr(turned, "run_with_cache"), f"it should return a model, not {kind}: is there a return?")
        demand(turned is not model, "it returns the model that it was given: work on `copy.deepcopy(model)`.")
        demand(
            not all(close(getattr(turned, kind), getattr(model, kind)) for kind in NOT_TURNED),
            "nothing has been turned at all: `w = …` only gives a new value a name; assign to `w.data`.",
        )
        demand(not close(turned.W_E, model.W_E), "the embedding still writes as it did: W_E writes to the stream too.")
        demand(
            not close(turned.W_E, model.W_E @ Q.T),
            "the embedding writes x Qᵀ; it should write x Q, and what reads undoes it with Qᵀ.",
        )
        for kind, says in NOT_TURNED.items():
            demand(close(getattr(turned, kind), getattr(right, kind)), says)
        same = close(turned(tokens), right(tokens))
        demand(same, "the turned model's stream or logits are not those of the model that was given.")


def _turned(
    left: tuple[str, ...] = ("nothing",),
    write: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: W @ Q,
    read: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: Q.T @ W,
    new: Callable[[Model], Model] = copy.deepcopy,
) -> Answer:
    """The right answer, with something to get wrong in each keyword; `left` are weights that stay as they are."""

    def answer(model: Model, Q: Tensor) -> Model:
        model = new(model)
        for name, weight in model.named_parameters():
            if not name.endswith(left) and name.endswith(WRITES + READS):
                weight.data = (write if name.endswith(WRITES) else read)(weight.data, Q)
        return model

    return answer


def _loaded(model: Model, Q: Tensor) -> Model:
    turned, weights = Model(model.cfg), model.state_dict()
    for name, weight in weights.items():
        if name.endswith(WRITES):
            weights[name] = torch.einsum("...d,de->...e", weight, Q)
        elif name.endswith(READS):
            weights[name] = torch.einsum("...dn,de->...en", weight, Q)
    turned.load_state_dict(weights)
    return turned


def _doubly(model: Model, Q: Tensor) -> Model:
    """In float64, by way of another turn."""
    half = torch.linalg.qr(random(*Q.shape, seed=8).double())[0]
    return _turned()(_turned()(copy.deepcopy(model).double(), half), half.T @ Q.double()).float()


rotate.mistakes = {
    "the embedding still writes as it did": (_turned(("W_E",)), _turned(WRITES)),
    "W_pos is not turned": _turned(("W_pos",)),
    "what the heads write is not turned": (_turned(("W_O",)), _turned(("blocks.1.attn.W_O",))),
    "W_U does not undo the turn": (_turned(("W_U",)), _turned(READS), _turned(read=lambda W, Q: Q @ W)),
    "W_V does not undo the turn": _turned(("W_V",)),
    "queries do not undo the turn": _turned(("W_Q", "W_K")),
    "keys do not undo the turn": _turned(("W_K",)),
    "the embedding writes x Qᵀ": _turned(write=lambda W, Q: W @ Q.T),
    "the embedding should write x Q": _turned(write=lambda W, Q: 2 * W @ Q),
    "nothing has been turned": lambda model, Q: copy.deepcopy(model),
    "it returns the model that it was given": lambda model, Q: model,
    "which it was given: leave arguments": _turned(new=lambda model: model),
    "it should return a model, not Tensor": lambda model, Q: model(TOKENS),
    "the turned model's stream or logits": lambda model, Q: _silent(transforms.rotated(model, Q)),
}
rotate.also_right = {"the course's own": transforms.rotated, "a state dict": _loaded, "in two turns": _doubly}


def _silent(model: Model) -> Model:
    model.add_hook("blocks.0.attn.hook_z", lambda z, hook: 0 * z)
    return model


def _fold_case(d_model: int, d_out: int) -> tuple[Tensor, ...]:
    return 1 + 0.5 * random(d_model), random(d_model, seed=1), random(d_model, d_out, seed=2), random(d_out, seed=3)


def _of_the_new_W(got: list[Tensor], right: list[Tensor], w: Tensor, b: Tensor, W: Tensor, b_W: Tensor) -> str | None:
    if W.shape != (6, 6) or close(got[0], right[0]):
        return None
    return "the new W is not what turns w ⊙ n into n: each row of W takes one factor."


def _with_bias(bias: Callable[..., Tensor]) -> Answer:
    """The right W, and another bias."""
    return lambda w, b, W, b_W: (w[:, None] * W, bias(w, b, W, b_W))


fold_layer_norm = compared(
    "`fold_layer_norm(w, b, W, b_W) → (W, b_W)`: LayerNorm's weight and bias inside the next linear map.",
    returns=("the new W", "the new b_W"),
    cases=lambda: {
        "the new bias is not what b becomes behind W, plus b_W.": _fold_case(6, 6),
        "it fails for a map from 5 dimensions to 3.": _fold_case(5, 3),
        "it fails for a map from 2 dimensions to 7.": _fold_case(2, 7),
        "it fails for a map from 4 dimensions to 1.": _fold_case(4, 1),
    },
    explain=_of_the_new_W,
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
        "b went into the new bias as it is; but it, too, is read through W.": _with_bias(lambda w, b, W, b_W: b_W + b),
        "b is lost: what LayerNorm adds to every vector must arrive behind W.": _with_bias(lambda w, b, W, b_W: b_W),
        "b_W is lost: the map had a bias of its own.": _with_bias(lambda w, b, W, b_W: b @ W),
        "b is multiplied by w; LayerNorm adds b after it has multiplied by w.": (
            _with_bias(lambda w, b, W, b_W: b_W + (w * b) @ W)
        ),
        "b stands on the wrong side of W: a row vector stands left of its matrix.": (
            _with_bias(lambda w, b, W, b_W: b_W + W @ b)
        ),
        "b goes through W and is then subtracted; LayerNorm adds it.": _with_bias(lambda w, b, W, b_W: b_W - b @ W),
    },
    elsewhere={
        "each row of W takes one factor": lambda w, b, W, b_W: (W / w[:, None], b_W + b @ W),
        "the new bias is not what b becomes": _with_bias(lambda w, b, W, b_W: 2 * b_W + b @ W),
        "it fails for a map from 4": _with_bias(lambda w, b, W, b_W: b_W + b @ W + (len(b_W) == 1)),
    },
    also_right={
        "diag and addmv": lambda w, b, W, b_W: (torch.diag(w) @ W, torch.addmv(b_W, W.T, b)),
        "row by row": lambda w, b, W, b_W: (
            torch.stack([n * row for n, row in zip(w, W, strict=True)]),
            b_W + sum(n * row for n, row in zip(b, W, strict=True)),
        ),
        "numpy, as a list": lambda w, b, W, b_W: [(W.numpy().T * w.numpy()).T, b_W.numpy() + b.numpy() @ W.numpy()],
        "float64": lambda w, b, W, b_W: (w.double()[:, None] * W, b_W.double() + b.double() @ W.double()),
    },
)


def _frozen(
    model: Model,
    soft: Tensor,
    A: Tensor,
    *,
    positions: float = 0,
    residual: bool = True,
    one_by_one: bool = False,
    from_embedding: bool = False,
) -> Tensor:
    """The right answer, with one thing to get wrong in each keyword."""
    x = embedded = soft @ model.W_E + positions * model.W_pos[: len(soft)]
    for layer in range(model.cfg.n_layers):
        read = embedded if from_embedding else x
        x = x if residual else 0 * x
        for head in range(model.cfg.n_heads):
            x = x + A[layer, head] @ (x if one_by_one else read) @ model.W_V[layer, head] @ model.W_O[layer, head]
    return x @ model.W_U


def _two_layers(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    x = soft @ model.W_E
    for layer in (0, 1):
        x = x + (A[layer] @ x @ model.W_V[layer] @ model.W_O[layer]).sum(0)
    return x @ model.W_U


def _einsum(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    x = soft.double() @ model.W_E.double()
    for pattern, W_V, W_O in zip(A.double(), model.W_V.double(), model.W_O.double(), strict=True):
        x = x + torch.einsum("hds,sm,hmk,hkn->dn", pattern, x, W_V, W_O)
    return x @ model.W_U.double()


def _by_hooks(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    hooks: list[tuple[Any, Callable]] = [
        ("hook_embed", lambda x, hook: (soft @ model.W_E)[None]),
        (lambda name: name.endswith("hook_pattern"), lambda pattern, hook: A[hook.layer()][None]),
    ]
    return model.run_with_hooks(torch.zeros(1, len(soft)).long(), fwd_hooks=hooks)[0]


def _as_sum_of_paths(model: Model, soft: Tensor, A: Tensor) -> Tensor:
    """Every path through the layers is a product of its own."""
    paths = [soft @ model.W_E]
    for A_heads, W_V, W_O in zip(A, model.W_V, model.W_O, strict=True):
        paths += [pattern @ x @ V @ back for x in paths for pattern, V, back in zip(A_heads, W_V, W_O, strict=True)]
    return torch.stack(paths).sum(0) @ model.W_U


def _frozen_cases() -> Cases:
    model, other = tiny_model(), tiny_model(**OTHER)
    hard, mixed = torch.eye(20)[TOKENS[0]], torch.eye(20)[[0, 2, 5, 1, 4]]
    own = heads.patterns(model, TOKENS)[:, :, 0]  # [layer, head, dest, src]
    return {
        "with the model's own patterns the logits should be the model's own.": (model, hard, own),
        "with other patterns it goes wrong.": (model, hard, _patterns(2, 3, 5)),
        "it is not linear in `soft`: with fixed patterns nothing but products and sums remains.": (
            model,
            0.3 * hard + 0.5 * mixed,
            own,
        ),
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
        "these are log-probabilities; the function returns logits.": lambda *given: _frozen(*given).log_softmax(-1),
        "these are probabilities; the function returns logits.": lambda *given: _frozen(*given).softmax(-1),
        "other patterns give the same logits: are they computed anew from the stream?": (
            lambda model, soft, A: model(soft.argmax(1)[None])[0]
        ),
        "the patterns of layer 0 make no difference.": lambda m, s, A: _frozen(m, s, A[1:].expand_as(A)),
        "the patterns of layer 1 make no difference.": lambda m, s, A: _frozen(m, s, A[:1].expand_as(A)),
        "positions are in the stream; here they only ever entered the patterns.": (
            lambda *given: _frozen(*given, positions=1)
        ),
        "it is not linear in `soft`: with fixed patterns nothing but products and sums remains.": (
            lambda m, s, A: _frozen(m, s.softmax(-1), A)
        ),
        "the patterns are transposed: rows are destinations.": lambda m, s, A: _frozen(m, s, A.mT),
        "a head reads what its neighbour in the same layer wrote; all heads of a layer read the same stream.": (
            lambda *given: _frozen(*given, one_by_one=True)
        ),
        "layer 1 reads the embedding; it should read the stream, to which layer 0 has added.": (
            lambda *given: _frozen(*given, from_embedding=True)
        ),
        "the stream itself is lost: a layer adds its heads to it.": lambda *given: _frozen(*given, residual=False),
        "the layers have each other's patterns: A[0] belongs to layer 0.": lambda m, s, A: _frozen(m, s, A.flip(0)),
        "the heads have each other's patterns: A[layer, 0] belongs to head 0.": (
            lambda m, s, A: _frozen(m, s, A.flip(1))
        ),
    },
    elsewhere={
        "should be the model's own": lambda m, s, A: _frozen(m, s, A) - s @ m.W_E @ m.W_U,
        "it is not linear in `soft`": lambda m, s, A: _frozen(m, torch.eye(s.shape[1])[s.argmax(1)], A),
        "it fails for 3 layers": _two_layers,
    },
    also_right={"einsum, float64": _einsum, "hooks": _by_hooks, "a sum over paths": _as_sum_of_paths},
)
