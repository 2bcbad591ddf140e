"""Checks of lesson 02, the residual stream. The models in here are small and random: nothing is loaded."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from course_utils import heads, models, transforms
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor

CONFIG = {"n_layers": 2, "d_model": 6, "n_heads": 2, "d_head": 3, "n_ctx": 5, "d_vocab": 11}
CONFIG |= {"attn_only": True, "normalization_type": None, "positional_embedding_type": "shortformer", "seed": 0}
TOKENS = torch.tensor([[0, 7, 3, 3, 9]])


def _model(seed: int = 0):
    """A small model whose weights are far from zero, so that its heads look somewhere; biases stay zero."""
    model = models.initial(CONFIG).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            scale = 1.0 if name.endswith(("W_E", "W_pos")) else 0.6
            weight.data = scale * torch.randn(weight.shape, generator=generator)
    return model.requires_grad_(False)


def _unhooked(model) -> bool:
    return not any(point.fwd_hooks for point in model.hook_points())


@exercise
def stream_terms(answer: Callable) -> None:
    """`stream_terms(model, tokens) → [1 + layers · heads, pos, d_model]`: the embedding, then every head's output."""
    model = _model()
    shape, means = (5, 5, 6), "[the embedding and every head, position, d_model]"
    terms = tensor(answer(model, TOKENS), shape, means)
    _, cache = model.run_with_cache(TOKENS)
    demand(
        not close(terms[0], model.W_E[TOKENS[0]] + model.W_pos),
        "the first term holds W_pos; in these models positions go to queries and keys only, never into the stream.",
    )
    demand(close(terms[0], model.W_E[TOKENS[0]]), "the first term should be what the embedding wrote: rows of W_E.")
    demand(
        not close(terms[1:].sum(0), cache["resid_post", 1][0]),
        "the heads' terms hold the embedding once more: a head's output is only what it adds.",
    )
    demand(
        close(terms.sum(0), cache["resid_post", 1][0]),
        "the terms do not sum to the stream at the end, `resid_post` of the last layer.",
    )
    demand(
        not close(terms[1], terms[2]),
        "heads 0.0 and 0.1 get the same term: what the whole layer adds does not say what each head adds.",
    )
    louder = _model()
    louder.blocks[1].attn.W_O.data[0] *= 2  # head 1.0: layer 1 is read by nobody but W_U
    change = (tensor(answer(louder, TOKENS), shape, means) - terms).abs().sum((1, 2))
    demand(
        change[3] > 0 and close(change.sum(), change[3]),
        "head 1.0 should be term 3 of 5: first the heads of layer 0, then those of layer 1.",
    )
    wanted = torch.stack([model.W_E[TOKENS[0]], *cache.stack_head_results()[:, 0]])
    demand(close(terms, wanted), "the sum is right, but the terms are not each head's own output, z @ W_O.")


@exercise
def logit_lens(answer: Callable) -> None:
    """`logit_lens(model, tokens) → [layers + 1, pos, d_vocab]`: what W_U reads from the stream after every layer."""
    model = _model()
    shape, means = (3, 5, 11), "[before layer 0 and after each layer, position, d_vocab]"
    lens = tensor(answer(model, TOKENS), shape, means)
    _, cache = model.run_with_cache(TOKENS)
    logits = model(TOKENS)[0]
    demand(
        not (close(lens[0], logits) and not close(lens[2], logits)),
        "the order is reversed: the stream before layer 0 comes first.",
    )
    demand(not close(lens.exp().sum(-1), torch.ones(3, 5)), "these are log-probabilities; the lens gives logits.")
    demand(not close(lens.sum(-1), torch.ones(3, 5)), "these are probabilities; the lens gives logits.")
    demand(
        not close(lens[0], (model.W_E[TOKENS[0]] + model.W_pos) @ model.W_U),
        "the first entry holds W_pos, which never enters the stream.",
    )
    demand(
        close(lens[0], model.W_E[TOKENS[0]] @ model.W_U),
        "the first entry should be what W_U reads before any layer has written: the embedding alone.",
    )
    demand(
        not close(lens[2], cache["attn_out", 1][0] @ model.W_U),
        "these are the logits of what each layer adds; the lens reads the whole stream.",
    )
    demand(close(lens[2], logits), "the last entry should be the model's own logits.")
    demand(close(lens[1], cache["resid_post", 0][0] @ model.W_U), "the entry after layer 0 is not the stream there.")


@exercise
def patched(answer: Callable) -> None:
    """`patched(model, tokens, name, pos, value) → [1, pos, d_vocab]`: logits with one position of `name` replaced."""
    model, name = _model(), "blocks.1.hook_resid_pre"
    means = "the logits, [1, pos, d_vocab]"
    logits, cache = model.run_with_cache(TOKENS)
    value = random(6, seed=5)
    tokens, given = TOKENS.clone(), value.clone()
    result = tensor(answer(model, tokens, name, 2, value), (1, 5, 11), means)
    demand(
        _unhooked(model) and close(model(TOKENS), logits),
        "your hook is still on the model afterwards, so its next run goes wrong: use `run_with_hooks` or `hooks`.",
    )
    demand(torch.equal(tokens, TOKENS) and torch.equal(value, given), "your function changes what it was given.")
    demand(
        not close(result, logits),
        "the logits are those of the plain run: does your hook return the changed activation, and is it on `name`?",
    )
    everywhere = cache[name] * 0 + value
    with heads.patched(model, name, everywhere):
        demand(not close(result, model(TOKENS)), "the value stands at all positions; only `pos` should be replaced.")
    with heads.patched(model, name, cache[name] + value, (slice(None), 2)):
        demand(not close(result, model(TOKENS)), "the value was added; it should stand in place of what was there.")
    demand(
        close(result[:, :2], logits[:, :2]),
        "positions before `pos` changed, and they cannot see it: which position does your hook write to?",
    )
    demand(not close(result[:, 2], logits[:, 2]), "the prediction at `pos` itself did not change.")
    with heads.patched(model, name, everywhere, (slice(None), 2)):
        demand(close(result, model(TOKENS)), "the logits are not those of a run with `value` at `pos`, and only there.")
    name = "blocks.0.hook_resid_pre"
    with heads.patched(model, name, everywhere, (slice(None), 4)):
        expected = model(TOKENS)
    demand(
        close(tensor(answer(model, TOKENS, name, 4, value), (1, 5, 11), means), expected),
        f"it works for one activation and fails for {name!r} at position 4: use the arguments `name` and `pos`.",
    )


def _copy_with(model, like, kinds: tuple[str, ...]):
    """`model`, with the weights of these kinds taken from `like`."""
    mixed = transforms.rotated(model, torch.eye(6))
    source = dict(like.named_parameters())
    for name, weight in mixed.named_parameters():
        if name.endswith(kinds):
            weight.data = source[name].data
    return mixed


@exercise
def rotate(answer: Callable) -> None:
    """`rotate(model, Q) → model`: the same function, with `x @ Q` in the stream where `x` was."""
    model, untouched = _model(), _model()
    Q = torch.linalg.qr(random(6, 6, seed=7))[0]
    turned = answer(model, Q)
    demand(
        hasattr(turned, "run_with_cache"), f"it should return a model, not {type(turned).__name__}: is there a return?"
    )
    logits, cache = untouched.run_with_cache(TOKENS)
    demand(
        close(model(TOKENS), logits) and torch.equal(model.W_E, untouched.W_E),
        "your function changes the model that it was given: work on `copy.deepcopy(model)`.",
    )
    result, turned_cache = turned.run_with_cache(TOKENS)
    demand(not torch.equal(turned.W_E, model.W_E), "the embedding still writes as it did: nothing has been turned.")
    demand(
        not close(turned.W_E, model.W_E @ Q.T),
        "the embedding writes x Qᵀ; it should write x Q, and what reads undoes it with Qᵀ.",
    )
    demand(close(turned.W_E, model.W_E @ Q), "the embedding should write x Q where it wrote x.")
    right = transforms.rotated(model, Q)
    for kind, says in {
        "W_O": "what the heads write is not turned as the embedding is: W_O writes to the stream too.",
        "W_pos": "W_pos is not turned: it is added to what queries and keys read, so it has to turn with the stream.",
        "W_U": "W_U does not undo the turn: what reads the stream must turn it back first.",
        "W_V": "W_V does not undo the turn: what reads the stream must turn it back first.",
    }.items():
        demand(close(getattr(turned, kind), getattr(right, kind)), says)
    demand(
        close(_copy_with(right, turned, ("W_Q", "W_K"))(TOKENS), logits),
        "queries and keys do not undo the turn: W_Q and W_K both read the stream.",
    )
    demand(
        close(result, logits) and close(turned_cache["resid_post", 1], cache["resid_post", 1] @ Q),
        "the turned model's stream or logits are not those of the model that was given.",
    )


@exercise
def virtual_strength(answer: Callable) -> None:
    """`virtual_strength(W_out, W_in) → float`: ‖W_out W_in‖ / ‖W_out‖ ‖W_in‖, from 0 to 1."""
    W_out, W_in = random(3, 8), random(8, 4, seed=1)
    value = number(answer(W_out, W_in))
    demand(
        close(number(answer(5 * W_out, W_in)), value) and close(number(answer(W_out, 5 * W_in)), value),
        "louder weights alone should change nothing: divide by both norms.",
    )
    apart_out, apart_in = torch.zeros(3, 8), torch.zeros(8, 4)
    apart_out[:, :4], apart_in[4:] = W_out[:, :4], W_in[4:]
    demand(
        close(number(answer(apart_out, apart_in)), 0),
        "what is written to dimensions 0–3 and read from dimensions 4–7 never meets: the strength should be 0.",
    )
    u = random(8, seed=2)
    demand(
        close(number(answer(random(3, 1) * u, u[:, None] * random(1, 4))), 1),
        "one direction written and the same one read should give 1: product and norms must belong together.",
    )
    Q = torch.linalg.qr(random(8, 8, seed=3))[0]
    demand(
        close(number(answer(W_out @ Q, Q.T @ W_in)), value), "turning the stream between the two should change nothing."
    )
    expected = (W_out @ W_in).norm() / W_out.norm() / W_in.norm()
    demand(not close(value, expected**2), "that is the square of the strength: norms are roots of sums of squares.")
    demand(close(value, expected), "use the Frobenius norm, the root of the sum of all squares, three times.")


def _pattern(n: int, seed: int = 0) -> Tensor:
    scores = 2 * random(n, n, seed=seed)
    return scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf).softmax(-1)


@exercise
def head_out(answer: Callable) -> None:
    """`head_out(x, A, OV) → [pos, d_model]`: A moves between positions, OV acts on each vector."""
    x, A, OV = random(5, 5), _pattern(5), random(5, 5, seed=2)
    means = "[dest, d_model]"
    result = tensor(answer(x, A, OV), (5, 5), means)
    later = x.clone()
    later[3] += 1
    change = (tensor(answer(later, A, OV), (5, 5), means) - result).abs().sum(1)
    demand(
        change[:3].max() < 1e-5,
        "a changed position 3 should not reach positions 0 to 2: the rows of A are destinations.",
    )
    demand(change[4] > 1e-4, "a changed position 3 should reach position 4, which attends to it.")
    demand(
        not close(result, A @ x @ OV.T),
        "OV acts from the wrong side: in row form a vector stands left of its matrix, x W_V W_O.",
    )
    demand(not close(result, A @ x), "the vectors are moved and not transformed: where is OV?")
    demand(not close(result, x + A @ x @ OV), "that is the stream after the head; return only what the head adds.")
    demand(close(result, A @ x @ OV), "the numbers differ: A mixes the rows of x, and OV acts on every row.")


def _kron(a: Tensor, b: Tensor) -> Tensor:
    return torch.kron(a.contiguous(), b.contiguous())  # torch.kron stops at a transposed factor


@exercise
def layer_operator(answer: Callable) -> None:
    """`layer_operator(A, OV) → [pos · d_model, pos · d_model]`: Id ⊗ Id + Σ A ⊗ OVᵀ, on the flattened stream."""
    n, d = 4, 3
    A = torch.stack([_pattern(n), _pattern(n, seed=1)])
    OV, x = random(2, d, d, seed=2), random(n, d, seed=3)
    means = "[pos · d_model, pos · d_model]"
    T = tensor(answer(A, OV), (n * d, n * d), means)
    eye = torch.eye(n * d)
    silent = tensor(answer(A, 0 * OV), (n * d, n * d), means)
    demand(
        not close(silent, 0 * eye),
        "with silent heads the stream should pass unchanged: the operator must be the identity.",
    )
    demand(
        not close(silent, 2 * eye), "with silent heads the stream is doubled: the identity belongs to the layer once."
    )
    demand(close(silent, eye), "with silent heads the stream should pass unchanged: the operator must be the identity.")
    demand(
        not close(T, eye + _kron(torch.eye(n), OV.sum(0).T)),
        "the attention patterns do not enter: this layer moves nothing between positions.",
    )
    demand(
        not close(T, eye + sum(_kron(b.T, a) for a, b in zip(A, OV, strict=True))),
        "the two factors have changed places: flattening a [pos, d_model] stream puts positions outside.",
    )
    demand(
        not close(T, eye + sum(_kron(a, b) for a, b in zip(A, OV, strict=True))),
        "OV acts from the left here, and on a flattened row it must do what x @ OV does: transpose it.",
    )
    demand(
        not close(T, eye + sum(_kron(a.T, b.T) for a, b in zip(A, OV, strict=True))),
        "A is transposed: its rows are destinations already.",
    )
    one_by_one = eye
    for a, b in zip(A, OV, strict=True):
        one_by_one = (eye + _kron(a, b.T)) @ one_by_one
    demand(
        not close(T, one_by_one),
        "the second head reads what the first one wrote; the heads of one layer all read the same stream.",
    )
    wanted = x + sum(a @ x @ b for a, b in zip(A, OV, strict=True))
    demand(close((T @ x.flatten()).view(n, d), wanted), "T @ x.flatten() is not the stream after the layer.")
    demand(close(T, eye + sum(_kron(a, b.T) for a, b in zip(A, OV, strict=True))), "the operator is another one.")


@exercise
def pattern(answer: Callable) -> None:
    """`pattern(x, p, QK, d_head) → [dest, src]`: the whole attention pattern from W_Q W_Kᵀ, positions included."""
    n, d, d_head = 5, 6, 4
    x, p, QK = random(n, d), random(n, d, seed=1), 0.7 * random(d, d, seed=2)
    means = "[dest, src]"
    result = tensor(answer(x, p, QK, d_head), (n, n), means)
    demand(
        not close(result.sum(0), torch.ones(n)),
        "the columns sum to 1: each destination shares out its own attention, so the rows should.",
    )
    demand(
        result.triu(1).abs().max() < 1e-6, "a destination attends to positions after it: mask them before the softmax."
    )
    demand(result.min() >= 0, "attention is never negative: these look like scores.")
    demand(
        not close(tensor(answer(x, 0 * p, QK, d_head), (n, n), means), result),
        "positions make no difference: p is added to x before queries and keys are formed.",
    )

    def expected(query, key, QK=QK, root=d_head**0.5):
        scores = query @ QK @ key.T / root
        return scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf).softmax(-1)

    both = x + p
    demand(not close(result, expected(both, both, QK.T)), "QK is transposed: destinations stand left of it.")
    for root in (1, 1 / d_head**0.5, d_head, d**0.5, d):
        demand(
            not close(result, expected(both, both, root=root)),
            "the scores are divided by √d_head, and by nothing else.",
        )
    demand(result.diagonal()[1:].min() > 1e-9, "a position cannot see itself: the mask is off by one.")
    sums = result.sum(1)
    worst = int((sums - 1).abs().argmax())
    demand(
        close(sums, torch.ones(n)),
        f"destination {worst}'s attention sums to {sums[worst]:.2f}, not to 1: mask the scores, then take the softmax.",
    )
    demand(
        not close(result, expected(both, x)) and not close(result, expected(x, both)),
        "positions reach only one side: queries and keys both read x + p.",
    )
    demand(
        close(result, expected(both, both)),
        "the shape of the pattern is right and its numbers are not: softmax of (x + p) QK (x + p)ᵀ / √d_head.",
    )


@exercise
def fold_layer_norm(answer: Callable) -> None:
    """`fold_layer_norm(w, b, W, b_W) → (W, b_W)`: LayerNorm's weight and bias inside the next linear map."""
    d = 6
    w, b, W, b_W = 1 + 0.5 * random(d), random(d, seed=1), random(d, d, seed=2), random(d, seed=3)

    def folded(w, b, W, b_W):
        result = answer(w, b, W, b_W)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Wrong(f"it should return two tensors, the new W and the new b_W, not {type(result).__name__}.")
        return tensor(result[0], (d, d), "as W has it"), tensor(result[1], (d,), "as b_W has it")

    given = [v.clone() for v in (w, b, W, b_W)]
    new_W, new_b = folded(w, b, W, b_W)
    unchanged = all(torch.equal(old, now) for old, now in zip(given, (w, b, W, b_W), strict=True))
    demand(unchanged, "your function changes the weights that it was given: compute new ones.")
    plain_W, plain_b = folded(torch.ones(d), torch.zeros(d), W, b_W)
    demand(
        close(plain_W, W) and close(plain_b, b_W),
        "with w = 1 and b = 0 LayerNorm's weights do nothing, so W and b_W should come back as they are.",
    )
    demand(not close(new_W, W * w), "w scales the columns of W; it belongs to the coordinates that W reads, its rows.")
    demand(close(new_W, w[:, None] * W), "the new W is not what turns w ⊙ n into n: each row of W takes one factor.")
    demand(not close(new_b, b_W + b), "b went into the new bias as it is; but it, too, is read through W.")
    demand(not close(new_b, b_W), "b is lost: what LayerNorm adds to every vector must arrive behind W.")
    demand(not close(new_b, b @ W), "b_W is lost: the map had a bias of its own.")
    demand(not close(new_b, b_W + (w * b) @ W), "b is multiplied by w; LayerNorm adds b after it has multiplied by w.")
    demand(close(new_b, b_W + b @ W), "the new bias is not what b becomes behind W, plus b_W.")


@exercise
def frozen_logits(answer: Callable) -> None:
    """`frozen_logits(model, soft, A) → [pos, d_vocab]`: the whole model with its attention patterns held fixed."""
    model, n, V = _model(), 5, 11
    means = "[pos, d_vocab]"
    hard = torch.eye(V)[TOKENS[0]]
    other = torch.eye(V)[torch.tensor([0, 2, 5, 1, 4])]
    A = heads.patterns(model, TOKENS)[:, :, 0]
    logits = tensor(answer(model, hard, A), (n, V), means)
    demand(not close(logits.exp().sum(-1), torch.ones(n)), "these are log-probabilities; the function returns logits.")
    foreign = torch.stack([torch.stack([_pattern(n, seed=2 * layer + head) for head in (0, 1)]) for layer in (0, 1)])
    moved = tensor(answer(model, hard, foreign), (n, V), means)
    demand(not close(moved, logits), "other patterns give the same logits: are they computed anew from the stream?")
    for layer in (0, 1):
        changed = A.clone()
        changed[layer] = foreign[layer]
        demand(
            not close(tensor(answer(model, hard, changed), (n, V), means), logits),
            f"the patterns of layer {layer} make no difference.",
        )
    mixed = tensor(answer(model, 0.3 * hard + 0.5 * other, A), (n, V), means)
    parts = 0.3 * logits + 0.5 * tensor(answer(model, other, A), (n, V), means)
    demand(
        close(mixed, parts), "it is not linear in `soft`: with fixed patterns nothing but products and sums remains."
    )
    expected = _frozen(model, hard, A)
    demand(
        not close(logits, _frozen(model, hard, A.transpose(-1, -2))),
        "the patterns are transposed: rows are destinations.",
    )
    demand(
        not close(logits, _frozen(model, hard, A, one_by_one=True)),
        "a head reads what its neighbour in the same layer wrote; all heads of a layer read the same stream.",
    )
    demand(
        not close(logits, _frozen(model, hard, A, from_embedding=True)),
        "layer 1 reads the embedding; it should read the stream, to which layer 0 has added.",
    )
    demand(close(logits, model(TOKENS)[0]), "with the model's own patterns the logits should be the model's own.")
    demand(
        close(logits, expected) and close(moved, _frozen(model, hard, foreign)), "with other patterns it goes wrong."
    )


def _frozen(model, soft: Tensor, A: Tensor, one_by_one: bool = False, from_embedding: bool = False) -> Tensor:
    x = embedded = soft @ model.W_E
    for layer in range(model.cfg.n_layers):
        read = embedded if from_embedding else x
        for head in range(model.cfg.n_heads):
            x = x + A[layer, head] @ (x if one_by_one else read) @ model.W_V[layer, head] @ model.W_O[layer, head]
    return x @ model.W_U
