"""Checks of lesson 07, induction heads."""

from collections.abc import Callable

import torch
from torch import Tensor
from transformer_lens import FactoredMatrix

from course_utils import circuits, heads
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor

PERIOD, LENGTH = 5, 16  # a start token and three passes


def _looking(back: int, first: int = 0) -> Tensor:
    """A head that attends `back` positions back from destination `first` on, and to the start token before that."""
    pattern = torch.zeros(LENGTH, LENGTH)
    for dest in range(LENGTH):
        pattern[dest, max(dest - back, 0) if dest >= first else 0] = 1
    return pattern


@exercise
def induction_score(answer: Callable) -> None:
    """`induction_score(pattern, period) → float`: mean attention to what followed earlier copies of the token."""
    before, same, late, previous, right, resting, first_pass, third_pass = (
        number(answer(pattern, PERIOD))
        for pattern in (
            _looking(PERIOD + 1),
            _looking(PERIOD),
            _looking(PERIOD - 2),
            _looking(1),
            _looking(PERIOD - 1),
            _looking(LENGTH),
            _looking(PERIOD - 1) * (torch.arange(LENGTH)[:, None] <= PERIOD),
            _looking(PERIOD - 1, first=2 * PERIOD + 1),
        )
    )
    demand(before < 0.1, f"a head that looks at what came before the last copy scores {before:.2f}.")
    demand(
        same < 0.1,
        f"a head that looks {PERIOD} back, at the last copy of the current token itself, scores {same:.2f}; "
        "an induction head looks at what came after that copy.",
    )
    demand(previous < 0.1, f"a head that looks at the token just before scores {previous:.2f}; that is another head.")
    demand(
        late < 0.1, f"a head that looks {PERIOD - 2} back scores {late:.2f}; that is two steps behind the last copy."
    )
    demand(
        right > 0.1,
        f"a head that always looks at what came after the last copy scores {right:.2f}: which axis of the pattern is "
        "the destination?",
    )
    demand(
        close(resting, 0) and close(first_pass, 0),
        "what a head does in the first pass should not count: there is nothing yet that it could have seen before.",
    )
    demand(
        close(right, 1), f"a head that always looks at what came after the last copy should score 1, not {right:.2f}."
    )
    demand(
        close(third_pass, 0.5),
        f"a head that is right in the third pass only should score 0.5, not {third_pass:.2f}: "
        "every destination of the second and third pass counts the same.",
    )
    divided = (_looking(PERIOD - 1) + _looking(2 * PERIOD - 1)) / 2
    divided[: 2 * PERIOD + 1] = _looking(PERIOD - 1)[: 2 * PERIOD + 1]
    value = number(answer(divided, PERIOD))
    demand(
        close(value, 1),
        "in the third pass there are two earlier copies; a head that divides its attention between what followed each "
        f"is always right and should score 1, not {value:.2f}.",
    )
    pattern = random(13, 13).exp().tril()
    pattern /= pattern.sum(1, keepdim=True)
    expected = heads.prefix_matching_score(pattern, 4)
    demand(close(number(answer(pattern, 4)), expected), "with period 4 instead of 5 the score is wrong.")


@exercise
def induction_targets(answer: Callable) -> None:
    """`induction_targets(tokens) → [dest, src]`: true where the source followed an earlier copy of dest's token."""
    means = "[dest, src]"

    def marked(*tokens: int) -> Tensor:
        return tensor(answer(torch.tensor(tokens)), (len(tokens), len(tokens)), means)

    result = marked(0, 4, 7, 9, 4, 8)  # dest 4 holds the same token as position 1, and 2 came after that
    demand(
        not result[2, 4] or result[4, 2],
        "in 0 4 7 9 4 8 the second 4 stands at position 4 and looks at position 2: the destination is on the rows.",
    )
    demand(
        not result[4, 1], "in 0 4 7 9 4 8 you mark the earlier 4 itself; an induction head looks at what came after it."
    )
    demand(not result[4, 0], "in 0 4 7 9 4 8 you mark what came before the earlier 4, not what came after it.")
    demand(not result.triu(1).any(), "you mark sources behind their destination; a head can't look into the future.")
    demand(result[4, 2], "in 0 4 7 9 4 8 the 7 at position 2 followed the earlier 4: the second 4 should look there.")
    demand(not marked(0, 1, 2, 3, 4).any(), "where no token occurs twice, there is nothing to mark.")
    result = marked(0, 4, 7, 4, 8, 4)
    demand(result[5, 2] and result[5, 4], "in 0 4 7 4 8 4 the last 4 has two earlier copies; mark what followed each.")
    demand(
        marked(0, 4, 4)[2, 2],
        "in 0 4 4 the second 4 is itself what came after the first: a head may look at its own position.",
    )
    tokens = torch.tensor([0, 4, 4, 7, 4, 8, 7, 7, 4])
    expected = torch.zeros(9, 9)
    for dest in range(9):
        for copy in range(dest):
            expected[dest, copy + 1] = float(tokens[copy] == tokens[dest])
    demand(
        close((marked(*tokens.tolist()) != 0).float(), expected),
        "in 0 4 4 7 4 8 7 7 4 something is marked that should not be, or missing.",
    )


@exercise
def logit_effect(answer: Callable) -> None:
    """`logit_effect(written, W_U, next_tokens) → [pos]`: centred logits of the tokens that came."""
    written, W_U = random(5, 4), random(4, 9, seed=1)
    following = torch.tensor([3, 0, 8, 3, 5])

    def effect(written: Tensor, W_U: Tensor, following: Tensor = following) -> Tensor:
        return tensor(answer(written, W_U, following), (5,), "one number per position")

    result = effect(written, W_U)
    raw = (written @ W_U)[torch.arange(5), following]
    demand(
        not close(result, raw),
        "these are the plain logits: add the same to all logits and nothing is predicted otherwise, but your numbers "
        "move.",
    )
    one = written.clone()
    one[2] = 0
    moved = (effect(one, W_U) - result).abs() > 1e-5
    demand(moved[2], "what the head writes at position 2 makes no difference to the effect there.")
    demand(
        moved.sum() == 1,
        "what the head writes at one position changes the effect at others: take the mean over the vocabulary.",
    )
    demand(
        close(effect(2 * written, W_U), 2 * result),
        "writing twice as much should have twice the effect: stay with logits, without a softmax.",
    )
    demand(
        close(effect(written, W_U + 3 * random(4, 1, seed=2)), result),
        "shifting all logits alike should change nothing: centre them over the vocabulary.",
    )
    other = effect(written, W_U, following.roll(1))
    demand(not close(other, result), "another next token should have another effect.")
    expected = raw - (written @ W_U).mean(1)
    demand(close(result, expected), "the numbers differ: position i takes the logit of next_tokens[i], less a mean.")


@exercise
def head_attribution(answer: Callable) -> None:
    """`head_attribution(z, W_O, W_U, right, wrong) → [layer, head]`: what each head adds to logit[right − wrong]."""
    z, W_O, W_U = random(2, 3, 4), random(2, 3, 4, 5, seed=1), random(5, 7, seed=2)

    def parts(z: Tensor, W_O: Tensor = W_O, W_U: Tensor = W_U, right: int = 6, wrong: int = 2) -> Tensor:
        return tensor(answer(z, W_O, W_U, right, wrong), (2, 3), "[layer, head]")

    result = parts(z)
    alone = torch.zeros_like(z)
    alone[1, 2] = 1
    single = parts(alone)
    demand(single[1, 2].abs() > 1e-6, "if only head (1, 2) has something to write, its entry should not be 0.")
    demand(
        close(single.abs().sum(), single[1, 2].abs()),
        "if only head (1, 2) has something to write, all other entries should be 0.",
    )
    own = parts(alone, torch.where(torch.arange(2)[:, None, None, None] == 0, 0.0, W_O))
    demand(close(own, single), "the entries of layer 1 depend on the W_O of layer 0: each head has its own.")
    demand(close(parts(2 * z), 2 * result), "twice the output should contribute twice: stay with logits, no softmax.")
    demand(
        close(parts(z, W_U=W_U + 3 * random(5, 1, seed=3)), result),
        "shifting all logits alike should change nothing: take the difference of two logits.",
    )
    difference = torch.einsum("lhd,lhdm->lhm", z, W_O) @ (W_U[:, 6] - W_U[:, 2])
    demand(not close(result, -difference), "the sign is wrong: a head that raises the right token contributes above 0.")
    demand(
        close(result.sum(), difference.sum()),
        "the entries do not sum to what all heads together add to the difference of the two logits.",
    )
    demand(close(result, difference), "the sum is right and the single heads' shares are not.")


@exercise
def keys_without(answer: Callable) -> None:
    """`keys_without(keys, written, W_K) → keys`: what the keys would be if an earlier head had not written."""
    stream, written, W_K = random(6, 5), random(6, 5, seed=1), random(2, 5, 3, seed=2)

    def keys(stream: Tensor) -> Tensor:
        return torch.einsum("pm,hmd->phd", stream, W_K)

    def result(written: Tensor, W_K: Tensor = W_K) -> Tensor:
        return tensor(answer(keys(stream), written, W_K), (6, 2, 3), "[pos, head, d_head], as the keys")

    demand(close(result(0 * written), keys(stream)), "if nothing was written, the keys should stay as they are.")
    one = torch.zeros_like(written)
    one[2] = written[2]
    moved = (result(one) - keys(stream)).abs().sum((1, 2)) > 1e-5
    demand(moved.any(), "what was written changes no key.")
    demand(
        moved[2] and moved.sum() == 1,
        "what was written at position 2 belongs to the key of position 2 and to no other: nothing is shifted here, "
        "the earlier head has done that.",
    )
    blind = W_K.clone()
    blind[1] = 0
    demand(
        close(result(written, blind)[:, 1], keys(stream)[:, 1]),
        "a head with W_K = 0 read nothing of it, so its keys should stay: each head reads with its own W_K.",
    )
    demand(not close(result(written), keys(stream + written)), "that adds the written part once more; take it away.")
    demand(
        close(result(written), keys(stream - written)), "the numbers differ: the keys are stream @ W_K, head by head."
    )


def _slots() -> tuple[Tensor, Tensor]:
    """Two parts of a stream of width 9, [9, 3] each; tokens stand in the first."""
    return torch.eye(9)[:, :3], torch.eye(9)[:, 3:6]


@exercise
def k_match(answer: Callable) -> None:
    """`k_match(W_E, QK2, OV1) → eigenvalues [d_head]` of W_E QK₂ OV₁ᵀ W_Eᵀ, on pairs planted by hand."""
    tokens, written = _slots()
    W_E = random(7, 3) @ tokens.T

    def values(W_E: Tensor, QK2: FactoredMatrix, OV1: FactoredMatrix) -> Tensor:
        result = answer(W_E, QK2, OV1)
        if not isinstance(result, Tensor):
            raise Wrong(f"it should return a tensor, not {type(result).__name__}.")
        if tuple(result.shape) != (3,):
            raise Wrong(
                f"the result has shape {list(result.shape)}; it should be [3], one eigenvalue for each of the "
                "d_head = 3 dimensions that the matrix can use."
            )
        if not result.isfinite().all():
            raise Wrong("the result holds values that are infinite or not a number.")
        return result.detach().to(torch.complex128)

    moves = FactoredMatrix(tokens, written.T)  # reads tokens, writes to the second slot
    by_query = values(W_E, FactoredMatrix(written, tokens.T), moves)
    demand(
        by_query.abs().max() < 1e-3,
        "it finds a match in a pair that composes through the query: the query reads what head 1 wrote, the key does "
        "not. Which side of QK₂ belongs to the key?",
    )
    backwards = values(W_E, FactoredMatrix(tokens, written.T), FactoredMatrix(written, tokens.T))
    demand(
        backwards.abs().max() < 1e-3,
        "it finds a match where head 1 reads from the part of the stream that the key looks at, and does not write "
        "there: which side of OV₁ is the one that writes?",
    )
    planted = values(W_E, FactoredMatrix(tokens, written.T), moves)
    demand(
        (planted.real > 1e-3).all() and (planted.imag.abs() < 1e-3).all(),
        "the query reads tokens, the key reads what head 1 wrote, so every token matches itself, and all eigenvalues "
        "should be above 0.",
    )
    louder = values(2 * W_E, FactoredMatrix(tokens, written.T), moves)
    demand(
        close(louder.sum().real, 4 * planted.sum().real),
        "embeddings twice as large should make every match four times as strong: tokens enter on both sides.",
    )
    shapes = [(7, 9), *[(9, 3)] * 4]
    W_E, A, B, C, D = (random(*shape, seed=seed) for seed, shape in enumerate(shapes, 55))  # two complex eigenvalues
    QK2, OV1 = FactoredMatrix(A, B.T), FactoredMatrix(C, D.T)
    general = values(W_E, QK2, OV1)
    expected = circuits.eigenvalues(W_E @ QK2 @ OV1.T @ W_E.T).to(torch.complex128)

    def same(a: Tensor, b: Tensor) -> bool:  # as sets: their power sums agree
        return all(abs((a**k).sum() - (b**k).sum()) < 1e-3 * (b.abs() ** k).sum() for k in (1, 2, 3))

    demand(not same(general * 3**0.5, expected), "divide by nothing: the eigenvalues of the product itself are asked.")
    demand(
        general.imag.any(),
        "the matrix is not symmetric, so eigenvalues can be complex, and here some are; yours are all real.",
    )
    demand(same(general, expected), "on random weights the eigenvalues differ from those of the whole product.")


@exercise
def shift_matrix(answer: Callable) -> None:
    """`shift_matrix(n) → [n, n]`: S such that p_j S p_sᵀ is 1 if s = j + 1, else 0, for one-hot positions."""
    for n in (6, 3):
        S = tensor(answer(n), (n, n), "[position in the pointer, position of the key]")
        demand(not close(S, torch.eye(n)), "a pointer at j should lead to j + 1, not to j itself.")
        demand(
            not S[2, 1] or S[1, 2],
            "a pointer at 2 leads to 1: the pointer is on the query's side, so it picks the row.",
        )
        demand(S[1, 2] != 0, "a pointer at 1 should lead to 2.")
        demand(not S[n - 1].any(), f"of {n} positions the last is {n - 1}: nothing follows it, so its row should be 0.")
        demand(close(S.sum(1)[:-1], torch.ones(n - 1)), "each row but the last should hold a single 1.")
        demand(close(S, torch.ones(n - 1).diag(1)), "some pointer leads elsewhere than to the next position.")
