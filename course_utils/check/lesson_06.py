"""Checks of lesson 06, two layers: composition."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils import models
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor


def _model():
    """A two-layer model with random weights, large enough for attention to have preferences."""
    config = {"n_layers": 2, "d_model": 12, "n_heads": 3, "d_head": 4, "n_ctx": 9, "d_vocab": 20}
    config |= {"attn_only": True, "normalization_type": None, "positional_embedding_type": "shortformer", "seed": 0}
    model = models.initial(config).requires_grad_(False)
    for seed, parameter in enumerate(p for name, p in model.named_parameters() if ".b_" not in name):
        parameter.copy_(0.5 * random(*parameter.shape, seed=seed))
    return model.eval()


@exercise
def virtual_head(answer: Callable) -> None:
    """`virtual_head(x, A1, OV1, A2, OV2) → [pos, d_model]`: what a head of a head moves."""
    x, identity = random(6, 5), torch.eye(5)
    before = torch.eye(6)[[0, 0, 1, 2, 3, 4]]  # looks at the token before
    half = torch.eye(6)[[0, 0, 1, 1, 2, 2]]  # looks halfway back
    means = "[pos, d_model]"
    nothing = tensor(answer(x, before, 0 * identity, half, identity), (6, 5), means)
    demand(
        close(nothing, 0 * x),
        "a first head that writes nothing leaves a virtual head nothing to move, but here something arrives.",
    )
    moved = tensor(answer(x, before, identity, half, identity), (6, 5), means)
    demand(
        close(moved[5], x[1]),
        "head 2 looks from position 5 to 2, head 1 from 2 to 1: what stood at 1 should arrive at 5.",
    )
    OV1, OV2 = random(5, 5, seed=1), random(5, 5, seed=2)
    A1, A2 = (random(6, 6, seed=s).masked_fill(torch.ones(6, 6).triu(1).bool(), -9e9).softmax(1) for s in (3, 4))
    alone = tensor(answer(x, torch.eye(6), OV1, torch.eye(6), identity), (6, 5), means)
    demand(
        close(alone, x @ OV1), "if nothing is moved and OV2 changes nothing, x OV1 should be left: rows times matrix."
    )
    demand(
        close(answer(x, torch.eye(6), OV1, torch.eye(6), OV2), x @ OV1 @ OV2),
        "in row form the circuit that acts first stands next to x.",
    )
    demand(close(answer(x, A1, OV1, A2, OV2), A2 @ A1 @ x @ OV1 @ OV2), "with soft patterns the numbers differ.")


@exercise
def qk_terms(answer: Callable) -> None:
    """`qk_terms(cache, head) → {(q_source, k_source): [n, n]}`: the scores of a layer-1 head, source by source."""
    model = _model()
    tokens = torch.tensor([[0, 7, 3, 11, 3, 19, 5]])
    _, cache = model.run_with_cache(tokens)
    sources = {"embed": cache["embed"][0], "pos": model.W_pos[:7]}
    sources |= {f"0.{h}": cache["z", 0][0, :, h] @ model.W_O[0, h] for h in range(3)}
    result = answer(cache, 1)
    if not isinstance(result, dict):
        raise Wrong(f"it should return a dictionary, not {type(result).__name__}.")
    pairs = {(q, k) for q in sources for k in sources}
    missing, extra = sorted(pairs - set(result)), sorted(map(str, set(result) - pairs))
    if missing:
        raise Wrong(f"{len(missing)} of 25 keys are missing, such as {missing[-1]}; three heads make five sources.")
    demand(not extra, f"there are keys that should not be there, such as {extra[0] if extra else ''}.")
    terms = {pair: tensor(result[pair], (7, 7), "[dest, src]") for pair in sorted(pairs)}

    def expected(layer: int, q: str, k: str) -> Tensor:
        return (sources[q] @ model.W_Q[layer, 1]) @ (sources[k] @ model.W_K[layer, 1]).T / 2  # √d_head = 2

    def fits(guess: Callable) -> bool:
        return all(close(term, guess(*pair)) for pair, term in terms.items())

    demand(not fits(lambda q, k: 2 * expected(1, q, k)), "the terms lack the factor 1/√d_head.")
    demand(
        not fits(lambda q, k: expected(0, q, k)), "these are the terms of a head in layer 0: the head is in layer 1."
    )
    demand(not fits(lambda q, k: expected(1, k, q)), "the first name of a key should be the query's source.")
    demand(not fits(lambda q, k: expected(1, q, k).T), "the destination, where the query is, should be on the rows.")
    demand(
        not fits(lambda q, k: expected(1, k, q).T),
        "queries and keys have changed places: W_Q reads at the destination, W_K at the source.",
    )
    for side, what in enumerate(("queries", "keys")):
        silent = [name for name in sources if not any(term.any() for pair, term in terms.items() if pair[side] == name)]
        demand(not silent, f"the source {silent[:1]} contributes nothing to the {what}.")
    seen = torch.ones(7, 7).tril().bool()
    gap = (sum(terms.values()) - cache["attn_scores", 1][0, 1])[seen].abs().max()
    demand(gap < 1e-3, f"the terms should sum to the attention scores, and are up to {gap:.2f} away from them.")
    wrong = next((pair for pair, term in terms.items() if not close(term, expected(1, *pair))), None)
    demand(wrong is None, f"the terms sum to the scores, but {wrong} is not what these two sources contribute.")


def _frames(n: int, d: int = 64, r: int = 4) -> list[Tensor]:
    """`n` orthonormal frames [d, r] in random directions."""
    return [torch.linalg.qr(random(d, r, seed=seed)).Q for seed in range(n)]


@exercise
def composition(answer: Callable) -> None:
    """`composition(OV1, QK2, OV2, mode) → float`: how much of what head 1 writes, head 2 reads."""
    names = ("reads1", "writes1", "queries2", "keys2", "reads2", "writes2")

    def score(mode: str, same: tuple[str, str] = ("", "")) -> float:
        """The answer for random heads, two of whose directions are made the same."""
        f = dict(zip(names, _frames(6), strict=True))
        if same != ("", ""):
            f[same[1]] = f[same[0]]
        OV1, QK2, OV2 = f["reads1"] @ f["writes1"].T, f["queries2"] @ f["keys2"].T, f["reads2"] @ f["writes2"].T
        return number(answer(OV1, QK2, OV2, mode))

    for mode, part in (("Q", "queries2"), ("K", "keys2"), ("V", "reads2")):
        found, chance = score(mode, ("writes1", part)), score(mode)
        demand(found > 0, "a ratio of norms is above 0.")
        demand(
            found > 2 * chance,
            f"head 2's {'values' if mode == 'V' else part[:-1]} read exactly what head 1 writes, and mode {mode!r} "
            "hardly sees it: which side of which circuit meets the stream?",
        )
        for other, what in (("queries2", "queries"), ("keys2", "keys"), ("reads2", "values")):
            demand(
                other == part or score(mode, ("writes1", other)) < 2 * chance,
                f"mode {mode!r} should not react when it is head 2's {what} that read what head 1 writes.",
            )
        for other in ("queries2", "keys2", "reads2", "writes2"):
            demand(
                score(mode, ("reads1", other)) < 2 * chance,
                f"mode {mode!r} reacts to the directions that head 1 reads: only what it writes can be read later.",
            )
        demand(
            score(mode, ("writes1", "writes2")) < 2 * chance,
            f"mode {mode!r} reacts to both heads writing in the same directions: that is no composition.",
        )
    OV1, QK2, OV2 = (random(9, 2, seed=s) @ random(2, 9, seed=s + 3) for s in range(3))
    for mode, second in (("Q", QK2), ("K", QK2.T), ("V", OV2)):
        value = number(answer(OV1, QK2, OV2, mode))
        demand(
            close(number(answer(3 * OV1, 5 * QK2, 7 * OV2, mode)), value), "scaling a circuit should change nothing."
        )
        demand(value <= 1, f"the score should never be above 1, and is {value:.2f}.")
        expected = (OV1 @ second).norm() / (OV1.norm() * second.norm())
        demand(close(value, expected), f"mode {mode!r} finds the planted pairs, but not by Frobenius norms.")


class _Sizes(TorchDispatchMode):
    """Watches for tensors of shape [..., size, size]."""

    def __init__(self, size: int):
        super().__init__()
        self.size, self.seen = size, False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = result if isinstance(result, tuple | list) else [result]
        self.seen |= any(isinstance(t, Tensor) and t.shape[-2:] == (self.size, self.size) for t in tensors)
        return result


@exercise
def product_norm(answer: Callable) -> None:
    """`product_norm(W_V, W_O, W_Q, W_K) → float`: ‖W_V W_O W_Q W_Kᵀ‖ from small matrices alone."""
    W_V, W_Q, W_K = (random(50, 3, seed=s) for s in range(3))
    W_O = random(3, 50, seed=3)
    true = (W_V @ W_O @ W_Q @ W_K.T).norm().item()
    cycled = (W_K.T @ W_V @ W_O @ W_Q).norm().item()
    value = number(answer(W_V, W_O, W_Q, W_K))
    demand(value > 0, "a norm is above 0.")
    demand(not close(value, true**2), "that is the square of the norm.")
    demand(
        not close(value, cycled),
        "moving W_Kᵀ from the end to the front keeps the trace of a product, but not its norm.",
    )
    if not close(value, true):
        transposed = number(answer(W_V, W_O, W_Q, 2 * W_K))
        demand(close(transposed, 2 * value), "doubling W_K should double the norm.")
        raise Wrong(f"the norm of a product of four random matrices should be {true:.1f}, and you get {value:.1f}.")
    turn = torch.linalg.qr(random(3, 3, seed=4)).Q
    demand(
        close(number(answer(W_V @ turn, W_O, W_Q, W_K @ turn)), (W_V @ turn @ W_O @ W_Q @ turn.T @ W_K.T).norm()),
        "for other weights the norm is wrong.",
    )
    with _Sizes(50) as sizes:
        answer(W_V, W_O, W_Q, W_K)
    demand(not sizes.seen, "the number is right, but on the way there is a matrix of d_model × d_model.")


@exercise
def value_weighted(answer: Callable) -> None:
    """`value_weighted(pattern, x, W_V, W_O) → [dest, src]`: attention times the length of what is moved."""
    pattern = random(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -9e9).softmax(1)
    x, W_V, W_O = random(5, 8, seed=1), random(8, 3, seed=2), random(3, 8, seed=3)
    means = "[dest, src]"
    result = tensor(answer(pattern, x, W_V, W_O), (5, 5), means)
    demand((result >= 0).all(), "a length is never below 0, so neither is what you return.")
    silent = x.clone()
    silent[2] = 0
    quiet = tensor(answer(pattern, silent, W_V, W_O), (5, 5), means)
    demand(
        close(quiet[:, 2], torch.zeros(5)),
        "position 2 has nothing to give here, so nothing should come from it: its column should be 0.",
    )
    demand(close(quiet[2, :2], result[2, :2]), "what position 2 receives should not depend on what it has to give.")
    demand(
        close(tensor(answer(pattern, 2 * x, W_V, W_O), (5, 5), means), 2 * result),
        "twice the stream should give twice the lengths: leave the rows unnormalised, and lengths unsquared.",
    )
    demand(
        not close(tensor(answer(pattern, x, W_V, 3 * W_O), (5, 5), means), result),
        "W_O makes no difference: what is moved is the whole of x W_V W_O.",
    )
    demand(close(result, pattern * (x @ W_V @ W_O).norm(dim=1)), "the lengths are not those of the rows of x W_V W_O.")


@exercise
def order_losses(answer: Callable) -> None:
    """`order_losses(model, tokens) → [3]`: the loss with paths through no, at most one and at most two heads."""
    model = _model()
    tokens = torch.tensor([[0, 7, 3, 11, 3, 19, 5, 2], [0, 4, 4, 13, 1, 7, 3, 12]])
    whole, cache = model.run_with_cache(tokens, return_type="loss")
    result = tensor(answer(model, tokens), (3,), "orders 0, 1 and 2")
    demand(
        close(model(tokens, return_type="loss"), whole), "your function leaves the model changed: hooks, or weights?"
    )
    x0 = cache["embed"]
    first = sum(cache["pattern", 0][:, h] @ x0 @ model.W_V[0, h] @ model.W_O[0, h] for h in range(3))
    second = sum(cache["pattern", 1][:, h] @ x0 @ model.W_V[1, h] @ model.W_O[1, h] for h in range(3))

    def loss(x: Tensor) -> float:
        return model.loss_fn(x @ model.W_U, tokens).item()

    demand(not (close(result[2], loss(x0)) and close(result[0], whole)), "the order is reversed: no head comes first.")
    demand(close(result[0], loss(x0)), "order 0 is the direct path: embedding to unembedding, no head at all.")
    demand(
        close(result[2], whole), "with paths through up to two heads nothing is left out: order 2 is the model's loss."
    )
    demand(not close(result[1], whole), "order 1 is the whole model's loss already: whose outputs does layer 1 read?")
    demand(
        not close(result[1], loss(x0 + first)) and not close(result[1], loss(x0 + second)),
        "order 1 has the heads of one layer only: in run 1 both layers' saved outputs are added.",
    )
    demand(
        close(result[1], loss(x0 + first + second)),
        "order 1 should hold each head applied to the embeddings alone, through the pattern of the full model.",
    )
