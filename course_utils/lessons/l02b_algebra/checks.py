"""Checks of lesson 02b, the algebra of the stream: each exercise, then its typical mistakes and their sentences."""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils import heads, transforms
from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import FAILS, OTHER, OTHER_TOKENS, TOKENS, random, tiny_model
from course_utils.course.questions import close, demand, pair, tensor


@exercise
def rotate(answer: Answer) -> None:
    """`rotate(model, Q) → model`: the same function, with `x @ Q` in the stream where `x` was."""
    _well_turned(answer, tiny_model(), TOKENS)
    _well_turned(answer, tiny_model(**OTHER), OTHER_TOKENS)


def _well_turned(answer: Answer, model: HookedTransformer, tokens: Tensor) -> None:
    d_model = model.cfg.d_model
    Q = torch.linalg.qr(random(d_model, d_model, seed=7))[0]
    turned = answer(model, Q)
    demand(
        hasattr(turned, "run_with_cache"), f"it should return a model, not {type(turned).__name__}: is there a return?"
    )
    demand(turned is not model, "it returns the model that it was given: work on `copy.deepcopy(model)`.")
    logits, cache = model(tokens), model.run_with_cache(tokens)[1]
    result, turned_cache = turned(tokens), turned.run_with_cache(tokens)[1]
    right = transforms.rotated(model, Q)
    kinds = ("W_E", "W_pos", "W_O", "W_Q", "W_K", "W_V", "W_U")
    demand(
        not all(close(getattr(turned, kind), getattr(model, kind)) for kind in kinds),
        "nothing has been turned at all: `w = …` only gives a new value a name; assign to `w.data`.",
    )
    demand(not close(turned.W_E, model.W_E), "the embedding still writes as it did: W_E writes to the stream too.")
    demand(
        not close(turned.W_E, model.W_E @ Q.T),
        "the embedding writes x Qᵀ; it should write x Q, and what reads undoes it with Qᵀ.",
    )
    demand(close(turned.W_E, model.W_E @ Q), "the embedding should write x Q where it wrote x.")
    for kind, says in {
        "W_O": "what the heads write is not turned as the embedding is: W_O writes to the stream too, in every layer.",
        "W_pos": "W_pos is not turned: it is added to what queries and keys read, so it has to turn with the stream.",
        "W_U": "W_U does not undo the turn: what reads the stream must turn it back first.",
        "W_V": "W_V does not undo the turn: what reads the stream must turn it back first, in every layer.",
    }.items():
        demand(close(getattr(turned, kind), getattr(right, kind)), says)
    for kind, part in {"W_Q": "queries", "W_K": "keys"}.items():
        demand(
            close(getattr(turned, kind), getattr(right, kind)),
            f"{part} do not undo the turn: W_Q and W_K both read the stream, in every layer.",
        )
    last = model.cfg.n_layers - 1
    demand(
        close(result, logits) and close(turned_cache["resid_post", last], cache["resid_post", last] @ Q),
        "the turned model's stream or logits are not those of the model that was given.",
    )


WRITES, READS = ("W_E", "W_pos", "W_O"), ("W_Q", "W_K", "W_V", "W_U")


def _turned(
    left: tuple[str, ...] = (),
    write: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: W @ Q,
    read: Callable[[Tensor, Tensor], Tensor] = lambda W, Q: Q.T @ W,
    new: Callable[[HookedTransformer], HookedTransformer] = copy.deepcopy,
    layers: str = "",
) -> Answer:
    """The right answer, with something to get wrong in each keyword; `left` are weights that stay as they are."""

    def answer(model: HookedTransformer, Q: Tensor) -> HookedTransformer:
        model = new(model)
        for name, weight in model.named_parameters():
            if name.endswith(left or ("nothing",)) or ("blocks" in name and layers not in name):
                continue
            if name.endswith(WRITES):
                weight.data = write(weight.data, Q)
            elif name.endswith(READS):
                weight.data = read(weight.data, Q)
        return model

    return answer


rotate.mistakes = {
    "W_E missed": (_turned(("W_E",)), "the embedding still writes as it did"),
    "W_pos missed": (_turned(("W_pos",)), "W_pos is not turned"),
    "W_O missed": (_turned(("W_O",)), "what the heads write is not turned"),
    "only embedding and unembedding": (_turned(("W_pos", "W_O", "W_Q", "W_K", "W_V")), "what the heads write is not"),
    "W_U missed": (_turned(("W_U",)), "W_U does not undo the turn"),
    "W_V missed": (_turned(("W_V",)), "W_V does not undo the turn"),
    "W_Q and W_K missed": (_turned(("W_Q", "W_K")), "queries do not undo the turn"),
    "W_K missed": (_turned(("W_K",)), "keys do not undo the turn"),
    "layer 0 only": (_turned(layers="blocks.0"), "what the heads write is not turned"),
    "Qᵀ for Q on the writes": (_turned(write=lambda W, Q: W @ Q.T), "the embedding writes x Qᵀ"),
    "Q for Qᵀ on the reads": (_turned(read=lambda W, Q: Q @ W), "W_U does not undo the turn"),
    "the other way round": (
        _turned(write=lambda W, Q: W @ Q.T, read=lambda W, Q: Q @ W),
        "the embedding writes x Qᵀ",
    ),
    "only the reads": (_turned(WRITES), "the embedding still writes as it did"),
    "only the writes": (_turned(READS), "W_U does not undo the turn"),
    "nothing turned": (lambda model, Q: copy.deepcopy(model), "nothing has been turned"),
    "the given model": (lambda model, Q: model, "it returns the model that it was given"),
    "the given model changed": (_turned(new=lambda model: model), "which it was given: leave arguments"),
    "logits returned": (lambda model, Q: model(torch.tensor([[0, 1, 2]])), "it should return a model, not Tensor"),
}


@exercise
def fold_layer_norm(answer: Answer) -> None:
    """`fold_layer_norm(w, b, W, b_W) → (W, b_W)`: LayerNorm's weight and bias inside the next linear map."""

    def folded(w: Tensor, b: Tensor, W: Tensor, b_W: Tensor) -> tuple[Tensor, Tensor]:
        new_W, new_b = pair(answer(w, b, W, b_W), "the new W and the new b_W")
        return tensor(new_W, tuple(W.shape), "as W has it"), tensor(new_b, tuple(b_W.shape), "as b_W has it")

    d = 6
    w, b, W, b_W = 1 + 0.5 * random(d), random(d, seed=1), random(d, d, seed=2), random(d, seed=3)
    new_W, new_b = folded(w, b, W, b_W)
    plain_W, plain_b = folded(torch.ones(d), torch.zeros(d), W, b_W)
    demand(not close(plain_W, W.T), "W comes back transposed: keep its shape, [d_model, d_out].")
    demand(
        close(plain_W, W) and (close(plain_b, b_W) or close(plain_b, 0 * b_W)),
        "with w = 1 and b = 0 LayerNorm's weights do nothing, so W and b_W should come back as they are.",
    )
    demand(not close(new_W, W * w), "w scales the columns of W; it belongs to the coordinates that W reads, its rows.")
    demand(close(new_W, w[:, None] * W), "the new W is not what turns w ⊙ n into n: each row of W takes one factor.")
    demand(not close(new_b, b_W + b), "b went into the new bias as it is; but it, too, is read through W.")
    demand(not close(new_b, b_W), "b is lost: what LayerNorm adds to every vector must arrive behind W.")
    demand(not close(new_b, b @ W), "b_W is lost: the map had a bias of its own.")
    demand(not close(new_b, b_W + (w * b) @ W), "b is multiplied by w; LayerNorm adds b after it has multiplied by w.")
    demand(not close(new_b, b_W + W @ b), "b stands on the wrong side of W: a row vector stands left of its matrix.")
    demand(not close(new_b, b_W - b @ W), "b goes through W and is then subtracted; LayerNorm adds it.")
    demand(close(new_b, b_W + b @ W), "the new bias is not what b becomes behind W, plus b_W.")
    for d_model, d_out in ((5, 3), (2, 7), (4, 1)):
        w, b, W, b_W = random(d_model), random(d_model, seed=1), random(d_model, d_out, seed=2), random(d_out, seed=3)
        new_W, new_b = folded(w, b, W, b_W)
        demand(
            close(new_W, w[:, None] * W) and close(new_b, b_W + b @ W),
            f"it fails for a map from {d_model} dimensions to {d_out}.",
        )


def _scaling_W(w: Tensor, b: Tensor, W: Tensor, b_W: Tensor) -> tuple[Tensor, Tensor]:
    new_b = b_W + b @ W
    return W.mul_(w[:, None]), new_b


fold_layer_norm.mistakes = {
    "w on the columns": (lambda w, b, W, b_W: (W * w, b_W + b @ W), "w scales the columns of W"),
    "w left out": (lambda w, b, W, b_W: (W, b_W + b @ W), "each row of W takes one factor"),
    "b as it is": (lambda w, b, W, b_W: (w[:, None] * W, b_W + b), "b went into the new bias as it is"),
    "b lost": (lambda w, b, W, b_W: (w[:, None] * W, b_W), "b is lost: what LayerNorm adds"),
    "b_W lost": (lambda w, b, W, b_W: (w[:, None] * W, b @ W), "b_W is lost: the map"),
    "b times w": (lambda w, b, W, b_W: (w[:, None] * W, b_W + (w * b) @ W), "b is multiplied by w"),
    "b from the wrong side": (lambda w, b, W, b_W: (w[:, None] * W, b_W + W @ b), "b stands on the wrong side"),
    "b subtracted": (lambda w, b, W, b_W: (w[:, None] * W, b_W - b @ W), "is then subtracted; LayerNorm adds"),
    "b_W scaled": (lambda w, b, W, b_W: (w[:, None] * W, b_W * w.mean() + b @ W), "the new bias is not what b becomes"),
    "divided by w": (lambda w, b, W, b_W: (W / w[:, None], b_W + b @ W), "each row of W takes one factor"),
    "centred": (
        lambda w, b, W, b_W: ((n := w[:, None] * W) - n.mean(0), b_W + b @ W),
        "W and b_W should come back as they are",
    ),
    "transposed": (lambda w, b, W, b_W: ((w[:, None] * W).T, b_W + b @ W), "W comes back transposed"),
    "only the matrix": (lambda w, b, W, b_W: w[:, None] * W, "it should return two things"),
    "order swapped": (lambda w, b, W, b_W: (b_W + b @ W, w[:, None] * W), "it should be [6, 6]"),
    "W changed": (_scaling_W, "it changes `W`, which it was given"),
}


def _attention_pattern(n: int, seed: int = 0) -> Tensor:
    scores = 2 * random(n, n, seed=seed)
    return scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf).softmax(-1)


@exercise
def frozen_logits(answer: Answer) -> None:
    """`frozen_logits(model, soft, A) → [pos, d_vocab]`: the whole model with its attention patterns held fixed."""
    model, n, d_vocab = tiny_model(), 5, 20
    means = "[pos, d_vocab]"
    hard = torch.eye(d_vocab)[TOKENS[0]]
    other = torch.eye(d_vocab)[torch.tensor([0, 2, 5, 1, 4])]
    A = heads.patterns(model, TOKENS)[:, :, 0]
    logits = tensor(answer(model, hard, A), (n, d_vocab), means)
    demand(not close(logits.exp().sum(-1), torch.ones(n)), "these are log-probabilities; the function returns logits.")
    demand(not close(logits.sum(-1), torch.ones(n)), "these are probabilities; the function returns logits.")
    foreign = _patterns(2, 3, n)
    moved = tensor(answer(model, hard, foreign), (n, d_vocab), means)
    demand(not close(moved, logits), "other patterns give the same logits: are they computed anew from the stream?")
    for layer in (0, 1):
        changed = A.clone()
        changed[layer] = foreign[layer]
        demand(
            not close(tensor(answer(model, hard, changed), (n, d_vocab), means), logits),
            f"the patterns of layer {layer} make no difference.",
        )
    mixed = tensor(answer(model, 0.3 * hard + 0.5 * other, A), (n, d_vocab), means)
    demand(
        not close(logits, _frozen(model, hard, A, positions=True)),
        "positions are in the stream; here they only ever entered the patterns.",
    )
    parts = 0.3 * logits + 0.5 * tensor(answer(model, other, A), (n, d_vocab), means)
    demand(
        close(mixed, parts), "it is not linear in `soft`: with fixed patterns nothing but products and sums remains."
    )
    for wrong, says in (
        (_frozen(model, hard, A.mT), "the patterns are transposed: rows are destinations."),
        (
            _frozen(model, hard, A, one_by_one=True),
            "a head reads what its neighbour in the same layer wrote; all heads of a layer read the same stream.",
        ),
        (
            _frozen(model, hard, A, from_embedding=True),
            "layer 1 reads the embedding; it should read the stream, to which layer 0 has added.",
        ),
        (_frozen(model, hard, A, residual=False), "the stream itself is lost: a layer adds its heads to it."),
        (_frozen(model, hard, A.flip(0)), "the layers have each other's patterns: A[0] belongs to layer 0."),
        (_frozen(model, hard, A.flip(1)), "the heads have each other's patterns: A[layer, 0] belongs to head 0."),
    ):
        demand(not close(logits, wrong), says)
    demand(close(logits, model(TOKENS)[0]), "with the model's own patterns the logits should be the model's own.")
    demand(close(moved, _frozen(model, hard, foreign)), "with other patterns it goes wrong.")
    other_model = tiny_model(**OTHER)
    soft, A = random(7, 12), _patterns(3, 2, 7)
    demand(close(tensor(answer(other_model, soft, A), (7, 12), means), _frozen(other_model, soft, A)), FAILS)


def _patterns(layers: int, n_heads: int, n: int) -> Tensor:
    """Patterns that no model has made, [layer, head, dest, src]."""
    every = [_attention_pattern(n, seed=seed) for seed in range(layers * n_heads)]
    return torch.stack(every).view(layers, n_heads, n, n)


def _frozen(
    model: HookedTransformer,
    soft: Tensor,
    A: Tensor,
    positions: bool = False,
    residual: bool = True,
    one_by_one: bool = False,
    from_embedding: bool = False,
) -> Tensor:
    """The right answer, with one thing to get wrong in each keyword."""
    embedded = soft @ model.W_E
    if positions:
        embedded = embedded + model.W_pos[: len(soft)]
    x = embedded
    for layer in range(model.cfg.n_layers):
        read = embedded if from_embedding else x
        x = x if residual else 0 * x
        for head in range(model.cfg.n_heads):
            x = x + A[layer, head] @ (x if one_by_one else read) @ model.W_V[layer, head] @ model.W_O[layer, head]
    return x @ model.W_U


def _quieter(model: HookedTransformer, soft: Tensor, A: Tensor) -> Tensor:
    result = _frozen(model, soft, A)
    model.blocks[0].attn.W_V.data *= 0.9
    return result


def _two_layers(model: HookedTransformer, soft: Tensor, A: Tensor) -> Tensor:
    x = soft @ model.W_E
    for layer in (0, 1):
        x = x + (A[layer] @ x @ model.W_V[layer] @ model.W_O[layer]).sum(0)
    return x @ model.W_U


frozen_logits.mistakes = {
    "patterns computed anew": (lambda m, s, A: m(s.argmax(1)[None])[0], "are they computed anew from the stream"),
    "A transposed": (lambda m, s, A: _frozen(m, s, A.mT), "the patterns are transposed"),
    "positions in the stream": (lambda m, s, A: _frozen(m, s, A, positions=True), "positions are in the stream"),
    "no residual": (lambda m, s, A: _frozen(m, s, A, residual=False), "the stream itself is lost"),
    "heads one after the other": (
        lambda m, s, A: _frozen(m, s, A, one_by_one=True),
        "a head reads what its neighbour in the same layer wrote",
    ),
    "layer 1 reads the embedding": (
        lambda m, s, A: _frozen(m, s, A, from_embedding=True),
        "layer 1 reads the embedding",
    ),
    "patterns of layer 0 everywhere": (lambda m, s, A: _frozen(m, s, A[:1].expand_as(A)), "patterns of layer 1 make"),
    "layers backwards": (lambda m, s, A: _frozen(m, s, A.flip(0)), "A[0] belongs to layer 0"),
    "heads backwards": (lambda m, s, A: _frozen(m, s, A.flip(1)), "A[layer, 0] belongs to head 0"),
    "heads alone": (lambda m, s, A: _frozen(m, s, A) - s @ m.W_E @ m.W_U, "should be the model's own"),
    "direct path alone": (lambda m, s, A: s @ m.W_E @ m.W_U, "are they computed anew from the stream"),
    "two layers": (_two_layers, FAILS),
    "the likeliest token": (
        lambda m, s, A: _frozen(m, torch.eye(s.shape[1])[s.argmax(1)], A),
        "it is not linear in `soft`",
    ),
    "probabilities": (lambda m, s, A: _frozen(m, s, A).softmax(-1), "these are probabilities"),
    "log-probabilities": (lambda m, s, A: _frozen(m, s, A).log_softmax(-1), "these are log-probabilities"),
    "softmax of the tokens": (lambda m, s, A: _frozen(m, s.softmax(-1), A), "it is not linear in `soft`"),
    "the model changed": (_quieter, "it changes `model.blocks.0.attn.W_V`"),
}
