"""Checks of lesson 04, one layer."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformer_lens import FactoredMatrix

from course_utils import circuits, models, paths
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor


def _model():
    """A small one-layer model with weights large enough for attention to be anything but even."""
    config = {"n_layers": 1, "d_model": 12, "n_heads": 2, "d_head": 4, "n_ctx": 8, "d_vocab": 20, "attn_only": True}
    config |= {"normalization_type": None, "positional_embedding_type": "shortformer", "seed": 0}
    model = models.initial(config).requires_grad_(False)
    for seed, (name, weight) in enumerate(model.named_parameters()):
        if ".b_" not in name:
            weight.copy_(random(*weight.shape, seed=seed) / weight.shape[-2] ** 0.25)
    model.W_E[:, 0] = 1  # so that a row of W_K can give all keys something in common
    return model


def _pair(value: object, first: str, second: str) -> tuple:
    """The answer as the two things that it should return."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong(f"it should return two things, {first} and {second}.")
    return value[0], value[1]


@exercise
def path_terms(answer: Callable) -> None:
    """`path_terms(model, tokens) → direct [n, V], heads [h, n, V]`: what each path adds to the logits."""
    model, tokens = _model(), torch.tensor([0, 7, 3, 7, 11, 3])

    def ask() -> tuple[Tensor, Tensor]:
        direct, heads = _pair(answer(model, tokens), "the direct path", "the heads")
        return (
            tensor(direct, (6, 20), "[pos, d_vocab] for the direct path"),
            tensor(heads, (2, 6, 20), "[head, pos, d_vocab] for the heads"),
        )

    direct, heads = ask()
    demand(
        close(direct[1], direct[3]) and close(direct[2], direct[5]),
        "the direct path sees the current token alone, but the same token gets two different rows: what else is in it?",
    )
    demand(close(direct, model.W_E[tokens] @ model.W_U), "the direct path is not the embedding times the unembedding.")
    OV = torch.stack([circuits.full_ov(model, 0, head).AB for head in range(2)])
    demand(
        not close(heads[:, 0], OV[:, tokens[0]] + direct[0]),
        "each head's term holds the direct path too: it would be counted three times.",
    )
    demand(
        close(heads[:, 0], OV[:, tokens[0]]),
        "the first position can attend to itself alone, so each head's term there is one row of its OV table.",
    )
    logits = model(tokens[None])[0]
    demand(
        close(direct + heads.sum(0), logits),
        "the terms do not add up to the logits: is each pattern the model's own, as [dest, src], positions included?",
    )
    demand(close(heads, paths.path_terms(model, tokens)[1]), "the sum is right, but not what each head adds to it.")


@exercise
def weighted_pattern(answer: Callable) -> None:
    """`weighted_pattern(pattern, x, W_V, W_O) → [dest, src]`: attention times the length of what is moved."""
    pattern = random(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf).softmax(-1)
    x, W_V, W_O = random(5, 6, seed=1), random(6, 3, seed=2), random(3, 6, seed=3)
    means = "[dest, src]"
    result = tensor(answer(pattern, x, W_V, W_O), (5, 5), means)
    demand(not result.triu(1).any(), "where there is no attention nothing is moved: the entry should be 0.")
    demand((result >= 0).all(), "a length is never negative.")
    louder = x.clone()
    louder[2] *= 2
    change = tensor(answer(pattern, louder, W_V, W_O), (5, 5), means) - result
    demand(change[:, 2].any(), "doubling what stands at source 2 changes nothing in its column.")
    demand(
        close(change.abs().sum(), change[:, 2].abs().sum()),
        "doubling what stands at source 2 should change column 2 and no other: the sources are on the columns.",
    )
    demand(close(change[:, 2], result[:, 2]), "doubling what stands at source 2 should double column 2.")
    mix = random(3, 3, seed=4) + 2 * torch.eye(3)
    same = tensor(answer(pattern, x, W_V @ mix, torch.linalg.inv(mix) @ W_O), (5, 5), means)
    demand(
        close(same, result),
        "W_V R and R⁻¹ W_O make the same head as W_V and W_O, but another result: take the length after W_O.",
    )
    demand(
        close(tensor(answer(0.5 * pattern, x, W_V, W_O), (5, 5), means), 0.5 * result),
        "half the attention should move half as much.",
    )
    lengths = (x @ W_V @ W_O).norm(dim=-1)
    demand(close(result, pattern * lengths), "attention should be multiplied by the Euclidean length ‖x_src W_V W_O‖.")


@exercise
def step_back(answer: Callable) -> None:
    """`step_back(d_model) → [d_model, d_model]`: the matrix that turns each sinusoidal position into the one before."""
    p = models.sinusoids(300, 8)
    R = tensor(answer(8), (8, 8), "[d_model, d_model]")
    moved = p @ R
    demand(R.any(), "a matrix of zeros sends every position to zero.")
    demand(not close(moved, p), "it leaves every position where it is.")
    demand(
        not close(moved[:-1], p[1:]), "it steps forward: position 5 becomes position 6. Turn every pair the other way."
    )
    demand(not close(moved[2:], p[:-2]), "it takes two steps back.")
    right = ((moved[1:] - p[:-1]).abs().amax(0) < 1e-3).sum()
    demand(right > 0, "position 5 times the matrix is not position 4, in no coordinate.")
    demand(
        right == 8, f"only {right} of 8 coordinates take one step back: each pair turns by the angle of its own wave."
    )
    wide = tensor(answer(64), (64, 64), "[d_model, d_model]")
    p = models.sinusoids(300, 64)
    demand((p[1:] @ wide - p[:-1]).abs().max() < 1e-3, "it is right for d_model = 8, but not for d_model = 64.")


@exercise
def skip_trigrams(answer: Callable) -> None:
    """`skip_trigrams(model, head, source, k) → dest ids [k], out ids [k]`: what one source token is for one head."""
    model, head, source = _model(), 1, 6

    def ask() -> tuple[list, list]:
        found = _pair(answer(model, head, source, 4), "the destinations", "the outs")
        for ids, name in zip(found, ("destinations", "outs"), strict=True):
            ids = tensor(ids, (4,), f"the ids of k {name}")
            demand(((ids >= 0) & (ids < 20) & (ids == ids.round())).all(), f"the {name} should be token ids.")
        return found[0].tolist(), found[1].tolist()

    def best(values: Tensor) -> list:
        return values.topk(4).indices.tolist()

    dests, outs = ask()
    QK, OV = circuits.full_qk(model, 0, head).AB, circuits.full_ov(model, 0, head).AB
    other = circuits.full_ov(model, 0, 0).AB
    demand(outs != best(other[source]), "these outs belong to head 0; head 1 was asked for.")
    demand(outs != best(OV[:, source]), "these tokens promote the source; the source is on the rows of OV.")
    demand(outs != best(-OV[source]), "these are the outs that the head lowers most.")
    demand(sorted(outs) == sorted(best(OV[source])), "the outs are not the largest entries of the source's row of OV.")
    demand(outs == best(OV[source]), "the outs are the right ones, but the largest should come first.")
    demand(
        dests not in (best(QK[source]), best(QK[source] - QK.mean(0)), best(QK[source] - QK.mean())),
        "these are the sources that this token looks for as a destination: QK is [dest, src], take a column.",
    )
    model.blocks[0].attn.W_K[head, 0] += 9 * random(4, seed=60)
    demand(
        ask()[0] == dests,
        "what is the same for every source changes no pattern, but it changed your destinations: compare each score "
        "with the mean of its own row.",
    )
    relative = (QK - QK.mean(1, keepdim=True))[:, source]
    demand(sorted(dests) == sorted(best(relative)), "the destinations are not those with the largest relative score.")
    demand(dests == best(relative), "the destinations are the right ones, but the largest should come first.")


class _Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that any operation returns."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, Tensor):
                self.entries = max(self.entries, part.numel())
        return result


@exercise
def copying_score(answer: Callable) -> None:
    """`copying_score(OV_A, OV_B) → float`: Σλ / Σ|λ| of the product, without multiplying it out."""
    A = random(60, 3)
    gram = A.T @ A

    def planted(inner: Tensor) -> float:
        """The score of a circuit whose eigenvalues are those of `inner`."""
        return number(answer(A, inner @ torch.linalg.inv(gram) @ A.T))

    value = planted(torch.diag(torch.tensor([1.0, 2, 3])))
    demand(close(value, 1.0), f"with the eigenvalues 1, 2, 3 the score should be 1, not {value:.3f}.")
    value = planted(-torch.eye(3))
    demand(close(value, -1.0), f"with the eigenvalues −1, −1, −1 the score should be −1, not {value:.3f}.")
    value = planted(torch.diag(torch.tensor([3.0, 1, -1])))
    demand(close(value, 0.6), f"with the eigenvalues 3, 1, −1 the score should be 3/5, not {value:.3f}.")
    turn = torch.tensor([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])
    value = planted(turn)
    demand(
        close(value, 2.2 / 3),
        f"the eigenvalues 1 and 0.6 ± 0.8i all have size 1 and add up to 2.2: the score is 2.2/3, not {value:.3f}.",
    )
    B = random(3, 60, seed=1)
    value = number(answer(A, B))
    demand(close(value, circuits.copying_score(FactoredMatrix(A, B))), "it is wrong for a random circuit.")
    with _Largest() as largest:
        answer(A, B)
    demand(
        largest.entries < 60 * 60,
        "the number is right, but on the way [d_vocab, d_vocab] entries were made: 10 GB for GPT-2.",
    )


@exercise
def positive_yet_lowering(answer: Callable) -> None:
    """`positive_yet_lowering() → [2, 2]`: eigenvalues all positive, an entry of the diagonal negative."""
    matrix = tensor(answer(), (2, 2), "[source token, logit]")
    values = torch.linalg.eigvals(matrix)
    demand(
        (values.imag.abs() < 1e-5).all(), "its eigenvalues are complex; both should be real and positive, like 1 and 2."
    )
    demand((values.real > 1e-5).all(), f"one of its eigenvalues is {values.real.min():.2f}; both should be positive.")
    demand(
        matrix.diagonal().min() < -1e-5,
        f"its diagonal is {matrix[0, 0]:.2f} and {matrix[1, 1]:.2f}: no token lowers its own logit.",
    )


@exercise
def interaction(answer: Callable) -> None:
    """`interaction(f, a, b) → float`: how far f({a, b}) is from adding what a and b do alone."""

    def ask(with_neither: float, with_a: float, with_b: float, with_both: float) -> float:
        def f(things) -> float:
            if not isinstance(things, set | frozenset | tuple | list):
                raise Wrong(f"f takes a set of things, such as {{a, b}} or set(), not {type(things).__name__}.")
            return {(): with_neither, ("a",): with_a, ("b",): with_b, ("a", "b"): with_both}[tuple(sorted(things))]

        return number(answer(f, "a", "b"))

    demand(close(ask(0, 1, 2, 3), 0), "if a adds 1, b adds 2 and both add 3, there is no interaction.")
    demand(
        close(ask(5, 6, 7, 8), 0),
        "f starts at 5; a alone makes it 6, b alone 7, both 8. That is no interaction: count from f(set()).",
    )
    demand(ask(0, 0, 0, 1) > 0, "if nothing happens until both are there, the interaction is positive.")
    demand(ask(0, 1, 1, 1) < 0, "if the second adds nothing more, the interaction is negative.")
    value = ask(4, 5, 7, 11)
    demand(close(value, 3), f"with 4 for neither, 5 for a, 7 for b, both should give 8, and give 11: not {value:.2f}.")
