"""Checks of lesson 10, reading critically."""

import math
from collections.abc import Callable

import torch

from course_utils import models
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor

TINY = {"n_layers": 1, "d_model": 8, "n_heads": 2, "d_head": 4, "n_ctx": 12, "d_vocab": 9, "attn_only": True}
TINY |= {"normalization_type": None, "positional_embedding_type": "shortformer", "seed": 0}


def _pair(value: object, means: str) -> tuple:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong(f"it should return two things, {means}, not {type(value).__name__}.")
    return tuple(value)


def _pattern(n: int, seed: int):
    return random(n, n, seed=seed).masked_fill(torch.ones(n, n).triu(1) > 0, -math.inf).softmax(1)


def _tiny():
    """A small model with weights large enough for its attention to differ from place to place."""
    model = models.initial(TINY).requires_grad_(False)
    attention = model.blocks[0].attn
    attention.W_Q.data, attention.W_K.data = 0.3 * random(2, 8, 4), 0.3 * random(2, 8, 4, seed=1)
    model.embed.W_E.data = random(9, 8, seed=2)
    return model.eval()


@exercise
def fold_shortformer(answer: Callable) -> None:
    """`fold_shortformer(w, b, W_pos, W_Q) → (W_pos, W_Q, b_Q)`: queries from (x w + b + p) W_Q, without w and b."""
    w, b, W_pos = random(6).abs() + 0.5, random(6, seed=1), random(5, 6, seed=2)
    W_Q, x = random(6, 6, seed=3), random(5, 6, seed=4)
    one, zero = torch.ones(6), torch.zeros(6)

    def queries(w, b, W_pos, W_Q=W_Q):
        result = answer(w.clone(), b.clone(), W_pos.clone(), W_Q.clone())
        if not isinstance(result, tuple | list) or len(result) != 3:
            raise Wrong(f"it should return three tensors, new W_pos, W_Q and b_Q, not {type(result).__name__}.")
        positions = tensor(result[0], tuple(W_pos.shape), "as W_pos has it")
        matrix = tensor(result[1], tuple(W_Q.shape), "as W_Q has it")
        return (x + positions) @ matrix + tensor(result[2], W_Q.shape[1:], "[d_head]")

    unchanged = close(queries(one, zero, W_pos), (x + W_pos) @ W_Q)
    demand(unchanged, "with w = 1 and b = 0 there is nothing to fold, and yet the queries are different ones.")
    found = queries(w, zero, 0 * W_pos)
    demand(
        not close(found, (x @ W_Q) * w),
        "w scales the outputs: it belongs to the components of the stream, which are W_Q's rows.",
    )
    demand(close(found, (x * w) @ W_Q), "with neither positions nor b, x @ (new W_Q) should be (x * w) @ W_Q.")
    found = queries(w, zero, W_pos)
    demand(
        not close(found, ((x + W_pos) * w) @ W_Q),
        "the positions come out scaled by w as well; but they are added behind LayerNorm, where w has acted already.",
    )
    demand(
        close(found, (x * w + W_pos) @ W_Q), "what the positions add to a query should be p @ W_Q, as it was before."
    )
    found = queries(one, b, W_pos)
    demand(not close(found, (x + W_pos) @ W_Q), "b is lost: what LayerNorm adds should arrive in the queries.")
    demand(close(found, (x + b + W_pos) @ W_Q), "b reaches a query through W_Q, once, as anything in the stream does.")
    demand(
        close(queries(w, b, W_pos), (x * w + b + W_pos) @ W_Q),
        "w multiplies x alone: what b adds should not depend on w.",
    )
    narrow = queries(w, b, W_pos, W_Q[:, :4])
    demand(close(narrow, (x * w + b + W_pos) @ W_Q[:, :4]), "it fails for a W_Q that is not square.")


@exercise
def scale_spread(answer: Callable) -> None:
    """`scale_spread(stream) → float`: how much LayerNorm's divisor varies over positions, relative to its mean."""
    stream = random(400, 8) * torch.linspace(1, 3, 400)[:, None]
    value = number(answer(stream))
    demand(value >= 0, "a spread is never below 0.")
    demand(close(number(answer(5 * stream)), value), "the spread is relative: 5 times the stream has the same spread.")
    demand(
        close(number(answer(stream + 7)), value),
        "adding 7 to every component should change nothing: LayerNorm takes each position's mean away first.",
    )
    rows = random(8).expand(400, 8)
    demand(abs(number(answer(rows))) < 1e-3, "if all positions hold the same vector, the divisor does not vary.")
    scale = (stream - stream.mean(1, keepdim=True)).pow(2).mean(1).sqrt()
    expected = (scale.std() / scale.mean()).item()
    demand(
        abs(value - expected) < 0.02 * expected,
        f"on a stream that grows from 1 to 3 the spread is not {value:.3f}: std over mean of the divisors "
        "themselves, one square root per position.",
    )


@exercise
def qk_term(answer: Callable) -> None:
    """`qk_term(x, y, A_q, A_k, W) → [dest, src]`: one term of the second layer's scores."""
    n = 5
    x, y, W = random(n, 3), random(n, 3, seed=1), random(3, 3, seed=2)
    A_q, A_k = _pattern(n, 3), _pattern(n, 4)
    eye = torch.eye(n)

    def term(*arguments):
        return tensor(answer(*arguments), (n, n), "[dest, src]")

    plain = term(x, y, eye, eye, W)
    demand(not close(plain, (x @ W @ y.T).T), "queries stand on the columns; the destination should be the row.")
    demand(close(plain, x @ W @ y.T), "where nothing is moved (A = 1), entry [d, s] should be x[d] @ W @ y[s].")
    moved = term(x, y, A_q, eye, W)
    demand(
        not close(moved, A_q.T @ x @ W @ y.T),
        "the query of destination d should mix what row d of A_q attends to: that is A_q, not its transpose.",
    )
    demand(close(moved, (A_q @ x) @ W @ y.T), "the query of destination d should be row d of A_q, times x.")
    moved = term(x, y, eye, A_k, W)
    demand(
        not close(moved, x @ W @ y.T @ A_k),
        "the key of source s should mix the tokens that row s of A_k attends to; here column s decides.",
    )
    demand(close(moved, x @ W @ (A_k @ y).T), "the key of source s should be row s of A_k, times y.")
    demand(close(term(x, y, A_q, A_k, W), (A_q @ x) @ W @ (A_k @ y).T), "it fails when both sides are moved at once.")


@exercise
def through_layer(answer: Callable) -> None:
    """`through_layer(S, patterns, OVs) → [pos, d_model]`: the stream behind a layer of heads, patterns given."""
    S, OVs = random(5, 4), random(3, 4, 4, seed=1)
    patterns = torch.stack([_pattern(5, seed) for seed in (2, 3, 4)])

    def behind(S, patterns, OVs):
        return tensor(answer(S, patterns, OVs), (5, 4), "[pos, d_model]")

    demand(close(behind(S, patterns, 0 * OVs), S), "heads that write nothing should leave the stream as it was.")
    result = behind(S, patterns, OVs)
    later = S.clone()
    later[2] += 1
    change = (behind(later, patterns, OVs) - result).abs().sum(1)
    demand(change[3] > 1e-4, "position 3 attends to position 2, but changing position 2 changes nothing there.")
    demand(change[:2].max() < 1e-4, "position 2 reaches the positions before it: are destination and source swapped?")
    eye = torch.eye(5).expand(3, 5, 5)
    demand(close(behind(S, eye, OVs), S + S @ OVs.sum(0)), "if every position attends to itself, it should add Σ S OV.")
    expected = S + sum(A @ S @ OV for A, OV in zip(patterns, OVs, strict=True))
    demand(close(result, expected), "each head should move with its own pattern and write with its own OV.")


@exercise
def identity_error(answer: Callable) -> None:
    """`identity_error(rank, d_model) → float`: how near a matrix of this rank comes to the identity."""
    demand(close(number(answer(8, 8)), 0.0), "a matrix of full rank can be the identity: its error is 0.")
    value = number(answer(3, 12))
    demand(0 < value < 1, f"rank 3 of 12 is better than nothing (1) and worse than the identity (0), not {value:.3f}.")
    demand(
        value > number(answer(6, 12)),
        "a higher rank should come closer to the identity.",
    )
    basis = torch.linalg.qr(random(12, 3)).Q
    best = ((basis @ basis.T - torch.eye(12)).norm() / torch.eye(12).norm()).item()
    demand(
        close(value, best),
        f"the closest matrix of rank 3 in 12 dimensions is a projection, at {best:.3f}: not {value:.3f}. "
        "Both norms are Frobenius norms.",
    )


@exercise
def destination_axis(answer: Callable) -> None:
    """`destination_axis(picture) → 0 or 1`: which axis of an attention pattern holds the destinations."""
    for seed in (0, 1):
        causal = _pattern(6, seed)
        free = random(6, 6, seed=seed).softmax(1)
        for name, pattern in (("a causal pattern", causal), ("a pattern without a mask", free)):
            for axis, picture in ((0, pattern), (1, pattern.T)):
                value = number(answer(picture.contiguous()))
                demand(value in (0, 1), f"an axis is 0 or 1, not {value}.")
                demand(
                    value == axis,
                    f"{name} has its destinations on axis {axis}, not {value:.0f}: over what does softmax sum to 1?",
                )


@exercise
def copier(answer: Callable) -> None:
    """`copier(n) → [n, n]`: every token raises itself most, and yet an eigenvalue is negative."""
    for n in (4, 6):
        matrix = tensor(answer(n), (n, n), "[source, out]")
        diagonal = matrix.diagonal()
        demand((diagonal > 0).all(), "a token lowers its own logit: every entry on the diagonal should be above 0.")
        others = matrix.masked_fill(torch.eye(n) > 0, -math.inf).amax(1)
        demand(
            (diagonal > others + 1e-6).all(),
            "some token raises another one as much as itself: each row should be largest on the diagonal.",
        )
        least = torch.linalg.eigvals(matrix.double()).real.min().item()
        demand(least < -1e-6, f"all eigenvalues have a real part of {least:.2f} or more; one should be negative.")
        centred = matrix - matrix.mean(1, keepdim=True)
        least = torch.linalg.eigvals(centred.double()).real.min().item()
        demand(
            least < -1e-6,
            "take each row's mean away, which no softmax sees, and no eigenvalue is negative: yours belongs to the "
            "direction in which all logits rise together.",
        )


@exercise
def self_logit_share(answer: Callable) -> None:
    """`self_logit_share(table) → float`: the share of tokens that raise their own logit above the average one."""
    demand(number(answer(torch.eye(6))) == 1, "in the identity matrix every token raises itself: the share is 1.")
    demand(number(answer(-torch.eye(6))) == 0, "in minus the identity no token raises itself: the share is 0.")
    demand(
        number(answer(torch.tensor([[1.0, 2], [2, 1]]))) == 0,
        "in [[1, 2], [2, 1]] each token raises the other more than itself: the share is 0, eigenvalues or not.",
    )
    table = torch.tensor([[4.0, 9, 0, 7], [0, 3, 9, 3], [1, 1, 4, 1], [5, 0, 0, 4]])
    value = number(answer(table))
    demand(
        close(number(answer(table + torch.tensor([[50.0], [-50], [50], [-50]]))), value),
        "adding a constant to a row changes no probability, so nothing should change: compare with the row's mean.",
    )
    demand(
        close(value, 0.5),
        f"of the rows of [[4, 9, 0, 7], [0, 3, 9, 3], [1, 1, 4, 1], [5, 0, 0, 4]] two are above their mean on the "
        f"diagonal, a share of 0.5 and not {value:.2f}.",
    )


@exercise
def copying_heads(answer: Callable) -> None:
    """`copying_heads(scores, thresholds) → [threshold]`: how many heads are above each threshold."""
    scores = torch.tensor([0.9, -0.2, 0.5, 0.9, 0.1])
    thresholds = torch.tensor([-1.0, 0.0, 0.3, 0.6, 0.95, 0.2, 0.7])
    result = tensor(answer(scores, thresholds), (7,), "[threshold]")
    demand(result[0] == 5, f"all five scores are above −1, not {result[0]:.3g}.")
    demand(result[4] == 0, f"no score is above 0.95, so that count should be 0 and not {result[4]:.3g}.")
    demand(
        torch.equal(result, torch.tensor([5.0, 4, 3, 2, 0, 3, 2])),
        "count the scores above each threshold, in the order in which the thresholds come.",
    )


@exercise
def match_positivity(answer: Callable) -> None:
    """`match_positivity(W_E, QK, OV) → float`: Σλ / Σ|λ| of W_E QK OVᵀ W_Eᵀ."""
    W_E = random(30, 6)
    A, B, OV = random(6, 6, seed=1), random(6, 6, seed=2), random(6, 6, seed=3)
    inverse = torch.linalg.inv(OV).T
    value = number(answer(W_E, inverse, OV))  # QK OVᵀ = 1: every token matches itself
    demand(abs(value) <= 1 + 1e-4, f"Σλ / Σ|λ| lies between −1 and 1, not at {value:.2f}.")
    demand(
        close(value, 1.0),
        "a later head that undoes just what the earlier one wrote should score 1: is OV transposed, and in its place?",
    )
    demand(close(number(answer(W_E, -inverse, OV)), -1.0), "with the sign of QK turned round, the score should be −1.")
    values = torch.linalg.eigvals(W_E.T @ W_E @ A @ B.T)
    demand(
        close(number(answer(W_E, A, B)), (values.sum().real / values.abs().sum()).item()),
        "it fails for random matrices: the eigenvalues are those of the [V, V] product, complex ones included.",
    )


@exercise
def attention_by_gap(answer: Callable) -> None:
    """`attention_by_gap(model, head, source, dest, fillers) → [gap]`: attention to a source that moves away."""
    model, fillers = _tiny(), torch.tensor([[3, 4, 5, 6], [7, 8, 6, 3]])

    def measured(head, source=1, dest=2, fillers=fillers):
        return tensor(answer(model, head, source, dest, fillers), (5,), "[gap], from 0 to the number of fillers")

    expected = torch.zeros(2, 5)
    for gap in range(5):
        rows = [[0, 1, *row[:gap].tolist(), 2] for row in fillers]
        _, cache = model.run_with_cache(torch.tensor(rows))
        expected[:, gap] = cache["pattern", 0][:, :, -1, 1].mean(0)
    results = [measured(head) for head in (0, 1)]
    demand(not close(results[0], results[1]), "two heads give the same numbers: use the head that was asked for.")
    demand(all(((r >= 0) & (r <= 1)).all() for r in results), "attention lies between 0 and 1.")
    demand(
        close(results[0][0], expected[0, 0]),
        "with no filler the context is start token, source, destination; read the attention from the last position to "
        "position 1.",
    )
    same = measured(0, fillers=fillers[:1].expand(2, 4))
    swapped = measured(0, fillers=fillers.flip(0))
    demand(close(swapped, results[0]), "the order of the rows of fillers should not matter: average over all of them.")
    demand(not close(same, results[0]), "the second row of fillers makes no difference: average over all rows.")
    demand(close(results[0], expected[0]), "at gap g, the first g fillers of each row stand between the two.")


@exercise
def landing(answer: Callable) -> None:
    """`landing(pattern, period) → (to the same token, to the one behind it)`, second pass, means."""
    period, n = 6, 13

    def measured(pattern):
        return tuple(map(number, _pair(answer(pattern, period), "attention to the same token and to the next one")))

    def planted(offset):
        pattern = torch.zeros(n, n)
        for dest in range(1 + period, n):
            pattern[dest, dest - offset] = 1
        return pattern

    demand(
        close(torch.tensor(measured(planted(period))), torch.tensor([1.0, 0.0])),
        "a head that attends exactly one period back, to the same token, should give (1, 0).",
    )
    demand(
        close(torch.tensor(measured(planted(period - 1))), torch.tensor([0.0, 1.0])),
        "a head that attends to the token behind the earlier occurrence should give (0, 1).",
    )
    first = torch.zeros(n, n)
    first[:, 0] = 1
    first[period, 1] = 1
    demand(
        close(torch.tensor(measured(first)), torch.tensor([0.0, 0.0])),
        "only destinations in the second pass count: those have an earlier occurrence of their token.",
    )


@exercise
def split_words(answer: Callable) -> None:
    """`split_words(vocabulary, encode) → [(whole, first, second)]`: one token with a space, two without."""
    vocabulary = ["", "R", "alph", " Ralph", " R", "to", "day", "today", " today", "a", "b", "c", " abc", " ab", "xy"]

    def encode(string):
        pieces = []
        while string:
            longest = max((t for t in vocabulary if t and string.startswith(t)), key=len, default="")
            pieces.append(vocabulary.index(longest))
            string = string[len(longest) or 1 :]
        return pieces

    result = answer(vocabulary, encode)
    if not isinstance(result, list) or not all(isinstance(entry, tuple | list) and len(entry) == 3 for entry in result):
        raise Wrong("it should return a list of triples of token numbers: (whole, first, second).")
    found = {tuple(entry) for entry in result}
    demand(all(isinstance(token, int) for entry in found for token in entry), "the triples should hold token numbers.")
    demand((3, 1, 2) in found, "“ Ralph” is one token, and “Ralph” two, so (3, 1, 2) should be among the triples.")
    demand(not any(entry[0] == 8 for entry in found), "“today” is one token without its space, too: it does not split.")
    demand(not any(entry[0] == 12 for entry in found), "“abc” splits into three; only words of two are asked for.")
    wholes = [vocabulary[entry[0]] for entry in found]
    demand(all(whole.startswith(" ") for whole in wholes), "only tokens that begin with a space are asked for.")
    demand(found == {(3, 1, 2), (13, 9, 10)} and len(result) == 2, "a word is missing, or too many are there.")


@exercise
def next_merge(answer: Callable) -> None:
    """`next_merge(tokens) → (left, right)`: the adjacent pair of tokens that BPE merges next."""

    def merged(tokens):
        result = answer(list(tokens))
        if not isinstance(result, tuple | list) or len(result) != 2 or not all(isinstance(t, str) for t in result):
            raise Wrong("it should return two tokens, left and right.")
        return tuple(result)

    result = merged(["th", "e", " ", "th", "e", "n", " ", "th", "e"])
    demand(
        result != ("t", "h"),
        "“t” and “h” are no tokens here any more: count pairs of adjacent tokens, not of characters.",
    )
    demand(result == ("th", "e"), "“th” and “e” stand together three times, more often than any other pair.")
    demand(merged("abcbadba") == ("b", "a"), "“ba” and “ab” are two pairs, not one.")
    demand(merged("papbpcqdqeqabab") == ("a", "b"), "count pairs that stand next to each other, not single tokens.")


@exercise
def attention_across(answer: Callable) -> None:
    """`attention_across(pattern, boundary) → float`: what destinations behind a position give to sources before it."""
    n, boundary = 9, 4
    uniform = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
    local = torch.eye(n)
    demand(number(answer(local, boundary)) == 0, "if every position attends to itself, nothing crosses the boundary.")
    far = torch.zeros(n, n)
    far[:, 0] = 1
    demand(
        close(number(answer(far, boundary)), 1.0),
        "if everything attends to position 0, all attention of the later positions crosses the boundary: that is 1.",
    )
    at = torch.zeros(n, n)
    at[:, boundary] = 1
    demand(number(answer(at, boundary)) == 0, "attention to the boundary itself does not cross it.")
    only = torch.eye(n)
    only[: boundary + 1] = 0
    only[: boundary + 1, 0] = 1
    demand(number(answer(only, boundary)) == 0, "only destinations behind the boundary count, not the boundary itself.")
    value = number(answer(uniform, boundary))
    expected = (boundary / torch.arange(boundary + 2, n + 1)).mean().item()
    demand(
        close(value, expected),
        f"on a uniform pattern it is not {value:.3f}: sum over sources, then mean over destinations.",
    )


@exercise
def undo_scaling(answer: Callable) -> None:
    """`undo_scaling(model) → model`: a copy whose scores are not divided by √d_head."""
    model, tokens = _tiny(), torch.tensor([[0, 1, 2, 3, 4, 5]])
    scores = model.run_with_cache(tokens)[1]["attn_scores", 0].clone()
    result = answer(model)
    if not isinstance(result, models.HookedTransformer):
        raise Wrong(f"it should return a model, not {type(result).__name__}.")
    lower = torch.ones(6, 6).tril() > 0
    demand(
        close(model.run_with_cache(tokens)[1]["attn_scores", 0][..., lower], scores[..., lower]),
        "the model that it was given has changed: work on a copy.",
    )
    with torch.no_grad():
        factor = (result.run_with_cache(tokens)[1]["attn_scores", 0][..., lower] / scores[..., lower]).mean().item()
    demand(
        abs(factor - 1) > 1e-3,
        "the scores are still divided: model.W_Q is a stack made on the spot; the weights are in model.blocks.",
    )
    demand(
        abs(factor - 2) < 1e-3,
        f"with d_head = 4, the scores should be 2 times as large, not {factor:.2f} times.",
    )


@exercise
def eraser(answer: Callable) -> None:
    """`eraser(direction) → (W_V, W_O)`: a head of width 1 that deletes one direction of what it attends to."""
    direction, x = 3 * random(6), random(5, 6, seed=1)
    W_V, W_O = _pair(answer(direction), "W_V and W_O")
    W_V, W_O = tensor(W_V, (6, 1), "[d_model, d_head]"), tensor(W_O, (1, 6), "[d_head, d_model]")
    unit = direction / direction.norm()
    before, after = x @ unit, (x + x @ W_V @ W_O) @ unit
    demand(not close(after, before), "the component along the direction is still all there.")
    demand(
        close(after, torch.zeros(5)),
        f"of a component of {before[0]:.2f} along the direction, {after[0]:.2f} is left; it should be 0.",
    )
    rest = x - before[:, None] * unit
    demand(close(x + x @ W_V @ W_O, rest), "something else than the component along the direction has changed.")
