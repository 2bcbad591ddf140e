"""Checks of lesson 07, induction heads: each exercise, then its typical mistakes with the sentence each must get."""

from collections.abc import Callable

import torch
from torch import Tensor
from transformer_lens import FactoredMatrix

from course_utils import circuits, heads
from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor

PERIOD, LENGTH = 5, 16  # a start token and three passes


@exercise
def induction_score(answer: Answer) -> None:
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
    _every_copy_counted(answer)


def _every_copy_counted(answer: Answer) -> None:
    """Demand the score of patterns that attend to several earlier copies."""
    divided = (_looking(PERIOD - 1) + _looking(2 * PERIOD - 1)) / 2
    divided[: 2 * PERIOD + 1] = _looking(PERIOD - 1)[: 2 * PERIOD + 1]
    value = number(answer(divided, PERIOD))
    demand(
        close(value, 1),
        "in the third pass there are two earlier copies; a head that divides its attention between what followed each "
        f"is always right and should score 1, not {value:.2f}.",
    )
    for period, passes in ((4, 3), (6, 2), (3, 5)):
        length = 1 + period * passes
        pattern = random(length, length, seed=period).exp().tril()
        pattern /= pattern.sum(1, keepdim=True)
        expected = heads.prefix_matching_score(pattern, period)
        demand(
            close(number(answer(pattern, period)), expected),
            f"on a random pattern with period {period} and {passes} passes it is not the mean over all destinations "
            "from the second pass on, every earlier copy counted.",
        )


def _looking(back: int, first: int = 0) -> Tensor:
    """A head that attends `back` positions back from destination `first` on, and to the start token before that."""
    pattern = torch.zeros(LENGTH, LENGTH)
    for dest in range(LENGTH):
        pattern[dest, max(dest - back, 0) if dest >= first else 0] = 1
    return pattern


def _offset(pattern: Tensor, back: int, first: int) -> float:
    """Mean attention `back` back, over destinations from `first` on."""
    dest = torch.arange(first, len(pattern))
    return pattern[dest, dest - back].mean().item()


def _followed(pattern: Tensor, period: int) -> list[Tensor]:
    """For each distance of a copy, the attention to what followed it."""
    return [pattern.diagonal(1 - ago)[2:] for ago in range(period, len(pattern) - 1, period)]


def _each_destination(pattern: Tensor, period: int) -> Tensor:
    """Attention to what followed any earlier copy, for each destination from the second pass on."""
    dest = range(period + 1, len(pattern))
    return torch.stack([pattern[d, [d - ago + 1 for ago in range(period, d, period)]].sum() for d in dest])


def _first_copy_only(pattern: Tensor, period: int) -> float:
    dest = torch.arange(period + 1, len(pattern))
    return pattern[dest, (dest - 1) % period + 2].mean().item()


def _clearing(pattern: Tensor, period: int) -> Tensor:
    pattern[:, 0] = 0
    return _each_destination(pattern, period).mean()


induction_score.mistakes = {
    "the last copy only": (lambda A, p: _offset(A, p - 1, p + 1), "in the third pass there are two earlier copies"),
    "the first copy only": (_first_copy_only, "looks at what came after the last copy should score 1, not 0.50"),
    "the mean over the copies": (
        lambda A, p: sum(part.mean() for part in _followed(A, p)) / len(_followed(A, p)),
        "looks at what came after the last copy should score 1, not 0.50",
    ),
    "the sum of the copies' means": (
        lambda A, p: sum(part.mean() for part in _followed(A, p)),
        "in the third pass there are two earlier copies",
    ),
    "the mean of all that counts": (
        lambda A, p: torch.cat(_followed(A, p)).mean(),
        "looks at what came after the last copy should score 1, not 0.67",
    ),
    "the largest": (lambda A, p: _each_destination(A, p).max(), "right in the third pass only should score 0.5"),
    "the median": (lambda A, p: _each_destination(A, p).quantile(0.5), "on a random pattern with period 4"),
    "the last two copies": (
        lambda A, p: sum(part.sum() for part in _followed(A, p)[:2]) / (len(A) - 1 - p),
        "on a random pattern with period 3 and 5 passes",
    ),
    "two passes too many": (
        lambda A, p: _each_destination(A, p)[: 2 * p].mean(),
        "on a random pattern with period 3 and 5 passes",
    ),
    "the earlier copy itself": (lambda A, p: _offset(A, p, p + 1), "at the last copy of the current token itself"),
    "the previous token": (lambda A, p: _offset(A, 1, p + 1), "that is another head"),
    "two steps behind the copy": (lambda A, p: _offset(A, p - 2, p + 1), "that is two steps behind the last copy"),
    "one step before the copy": (lambda A, p: _offset(A, p + 1, p + 1), "looks at what came before the last copy"),
    "the whole diagonal": (lambda A, p: A.diagonal(1 - p).mean(), "in the first pass should not count"),
    "the last of the first pass counts": (lambda A, p: _offset(A, p - 1, p), "in the first pass should not count"),
    "the third pass alone": (
        lambda A, p: _offset(A, p - 1, 2 * p + 1),
        "right in the third pass only should score 0.5, not 1.00",
    ),
    "the second pass alone": (
        lambda A, p: A.diagonal(1 - p)[2 : p + 2].mean(),
        "right in the third pass only should score 0.5, not 0.00",
    ),
    "destinations on the columns": (
        lambda A, p: A.diagonal(p - 1)[2:].mean(),
        "which axis of the pattern is the destination",
    ),
    "a sum": (lambda A, p: A.diagonal(1 - p)[2:].sum(), "should score 1, not 10.00"),
    "over all rows": (lambda A, p: A.diagonal(1 - p)[2:].sum() / len(A), "should score 1, not 0.62"),
    "one per position": (lambda A, p: A.diagonal(1 - p)[2:], "it should return one number"),
    "a period of 5 built in": (
        lambda A, p: _each_destination(A, 5).mean(),
        "on a random pattern with period 4 and 3 passes",
    ),
    "the pattern changed": (_clearing, "it changes `pattern`, which it was given"),
}


@exercise
def induction_targets(answer: Answer) -> None:
    """`induction_targets(tokens) → [dest, src]`: true where the source followed an earlier copy of dest's token."""

    def marked(*tokens: int) -> Tensor:
        marks = answer(torch.tensor(tokens))
        result = tensor(marks, (len(tokens), len(tokens)), "[dest, src]")
        demand(
            getattr(marks, "dtype", None) in (torch.bool, "bool"),
            "it should hold True and False, so that it can pick entries of a pattern, and it holds numbers.",
        )
        return result

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
    demand(marked(4, 7, 4)[2, 1], "in 4 7 4 the first 4, at position 0, is an earlier copy like any other.")
    for size in (9, 14):
        tokens = 700 * torch.randint(0, 4, (size,), generator=torch.Generator().manual_seed(size))
        expected = torch.zeros(size, size)
        for dest in range(size):
            for copy in range(dest):
                expected[dest, copy + 1] = float(tokens[copy] == tokens[dest])
        demand(
            close(marked(*tokens.tolist()), expected),
            f"in {size} random tokens something is marked that should not be, or missing.",
        )


def _copies(tokens: Tensor) -> Tensor:
    """[dest, src]: an earlier copy of the same token."""
    return (tokens[:, None] == tokens[None, :]).tril(-1)


def _shifted(marks: Tensor, by: int) -> Tensor:
    """The marks moved along the sources, dropping what falls off."""
    result = torch.zeros_like(marks)
    if by > 0:
        result[:, by:] = marks[:, :-by]
    else:
        result[:, :by] = marks[:, -by:]
    return result


def _last_copy_only(tokens: Tensor) -> Tensor:
    marks = _copies(tokens)
    return _shifted(marks & (marks.long().flip(1).cumsum(1).flip(1) == 1), 1)


def _first_copy_only_marked(tokens: Tensor) -> Tensor:
    marks = _copies(tokens)
    return _shifted(marks & (marks.long().cumsum(1) == 1), 1)


def _hiding_start(tokens: Tensor) -> Tensor:
    tokens[0] = -1
    return _shifted(_copies(tokens), 1)


induction_targets.mistakes = {
    "the copy itself": (_copies, "you mark the earlier 4 itself"),
    "before the copy": (lambda t: _shifted(_copies(t), -1), "you mark what came before the earlier 4"),
    "two behind the copy": (lambda t: _shifted(_copies(t), 2), "the second 4 should look there"),
    "transposed": (lambda t: _shifted(_copies(t), 1).T, "the destination is on the rows"),
    "itself a copy of itself": (lambda t: _shifted((t[:, None] == t).tril(), 1), "can't look into the future"),
    "the future": (lambda t: _shifted(t[:, None] == t, 1), "can't look into the future"),
    "the last copy only": (_last_copy_only, "the last 4 has two earlier copies"),
    "the first copy only": (_first_copy_only_marked, "the last 4 has two earlier copies"),
    "its own position left out": (lambda t: _shifted(_copies(t), 1).tril(-1), "a head may look at its own position"),
    "wrapped around": (
        lambda t: (t[:, None] == t).fill_diagonal_(False).roll(1, 1),
        "can't look into the future",
    ),
    "where the next token agrees": (
        lambda t: _shifted(_copies(t), 1) & (t == t.roll(-1)[:, None]),
        "the second 4 should look there",
    ),
    "shares of attention": (
        lambda t: (marks := _shifted(_copies(t), 1).float()) / marks.sum(1, keepdim=True).clamp(min=1),
        "and it holds other numbers",
    ),
    "the start token is none": (
        lambda t: _shifted(_copies(t), 1) & (t != t[0])[:, None],
        "is an earlier copy like any other",
    ),
    "only the first ten tokens": (
        lambda t: _shifted(_copies(t), 1) & (torch.arange(len(t)) < 10),
        "in 14 random tokens something is marked",
    ),
    "nothing": (lambda t: torch.zeros(len(t), len(t)), "the second 4 should look there"),
    "the tokens changed": (_hiding_start, "it changes `tokens`, which it was given"),
}


@exercise
def logit_effect(answer: Answer) -> None:
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
    demand(
        close(effect(2 * written, W_U), 2 * result),
        "writing twice as much should have twice the effect: stay with logits, without a softmax or a spread.",
    )
    demand((result > 0).any(), "no effect is above 0: take away the mean over the vocabulary, not the largest logit.")
    _positions_apart(effect, written, W_U, result)
    demand(
        close(effect(written, W_U + 3 * random(4, 1, seed=2)), result),
        "shifting all logits alike should change nothing: centre them over the vocabulary.",
    )
    other = effect(written, W_U, following.roll(1))
    demand(not close(other, result), "another next token should have another effect.")
    expected = raw - (written @ W_U).mean(1)
    demand(not close(result, -expected), "the sign is turned round: what raises the token that came is above 0.")
    ratio = (result.sum() / expected.sum()).item()
    demand(
        close(result, expected) or not close(result, ratio * expected),
        f"all your effects are {ratio:.3f} times too large: the mean is over the whole vocabulary, the token that came "
        "among it.",
    )
    demand(close(result, expected), "the numbers differ: position i takes the logit of next_tokens[i], less the mean.")
    written, W_U, following = random(7, 3, seed=4), random(3, 6, seed=5), torch.tensor([5, 1, 1, 0, 2, 4, 3])
    logits = written @ W_U
    demand(
        close(
            tensor(answer(written, W_U, following), (7,), "one number per position"),
            logits[torch.arange(7), following] - logits.mean(1),
        ),
        "at other sizes (7 positions, 6 tokens) the numbers differ.",
    )


def _positions_apart(effect: Callable[..., Tensor], written: Tensor, W_U: Tensor, result: Tensor) -> None:
    """Demand that what is written at a position changes the effect there, and there alone."""
    one = written.clone()
    one[2] = random(4, seed=3)
    moved = (effect(one, W_U) - result).abs() > 1e-5
    demand(moved[2], "what the head writes at position 2 makes no difference to the effect there.")
    demand(
        moved.sum() == 1,
        "what the head writes at one position changes the effect at others: take the mean over the vocabulary.",
    )


def _picked(logits: Tensor, following: Tensor) -> Tensor:
    return logits[torch.arange(len(following)), following]


def _centred_logits(r: Tensor, W_U: Tensor) -> Tensor:
    return r @ (W_U - W_U.mean(1, keepdim=True))


def _centring_W_U(r: Tensor, W_U: Tensor, n: Tensor) -> Tensor:
    W_U -= W_U.mean(1, keepdim=True)
    return _picked(r @ W_U, n)


logit_effect.mistakes = {
    "not centred": (lambda r, W_U, n: _picked(r @ W_U, n), "these are the plain logits"),
    "centred over positions": (
        lambda r, W_U, n: _picked(r @ W_U - (r @ W_U).mean(0), n),
        "take the mean over the vocabulary",
    ),
    "centred over everything": (
        lambda r, W_U, n: _picked(r @ W_U - (r @ W_U).mean(), n),
        "take the mean over the vocabulary",
    ),
    "W_U centred over d_model": (
        lambda r, W_U, n: _picked(r @ (W_U - W_U.mean(0)), n),
        "shifting all logits alike should change nothing",
    ),
    "the median away": (
        lambda r, W_U, n: _picked((z := r @ W_U) - z.median(1, keepdim=True).values, n),
        "less the mean",
    ),
    "the largest away": (
        lambda r, W_U, n: _picked((z := r @ W_U) - z.amax(1, keepdim=True), n),
        "no effect is above 0",
    ),
    "the others' mean away": (
        lambda r, W_U, n: _picked(z := r @ W_U, n) - (z.sum(1) - _picked(z, n)) / (z.shape[1] - 1),
        "all your effects are 1.125 times too large",
    ),
    "standardised": (
        lambda r, W_U, n: _picked(_centred_logits(r, W_U), n) / (r @ W_U).std(1),
        "stay with logits, without a softmax or a spread",
    ),
    "the sign": (lambda r, W_U, n: -_picked(_centred_logits(r, W_U), n), "the sign is turned round"),
    "a log-probability": (lambda r, W_U, n: _picked((r @ W_U).log_softmax(1), n), "stay with logits"),
    "a probability": (lambda r, W_U, n: _picked((r @ W_U).softmax(1), n), "stay with logits"),
    "every position for every token": (
        lambda r, W_U, n: _centred_logits(r, W_U)[:, n],
        "it should be [5], one number per position",
    ),
    "the favourite": (
        lambda r, W_U, n: _centred_logits(r, W_U).max(1).values,
        "another next token should have another effect",
    ),
    "one off": (lambda r, W_U, n: _picked(_centred_logits(r, W_U), n.roll(-1)), "takes the logit of next_tokens[i]"),
    "the mean": (
        lambda r, W_U, n: _picked(_centred_logits(r, W_U), n).mean(),
        "it should be [5], one number per position",
    ),
    "nine tokens": (
        lambda r, W_U, n: _picked((z := r @ W_U) - z.sum(1, keepdim=True) / 9, n),
        "at other sizes (7 positions, 6 tokens)",
    ),
    "W_U changed": (_centring_W_U, "it changes `W_U`, which it was given"),
}


@exercise
def head_attribution(answer: Answer) -> None:
    """`head_attribution(z, W_O, W_U, right, wrong) → [layer, head]`: what each head adds to logit[right − wrong]."""
    z, W_O, W_U = random(2, 3, 4), random(2, 3, 4, 5, seed=1), random(5, 7, seed=2)

    def parts(z: Tensor, W_O: Tensor = W_O, W_U: Tensor = W_U, right: int = 6, wrong: int = 2) -> Tensor:
        return tensor(answer(z, W_O, W_U, right, wrong), tuple(z.shape[:2]), "[layer, head]")

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
    own = parts(alone, torch.where(torch.arange(3)[:, None, None] < 2, 0.0, W_O))
    demand(close(own, single), "the entry of a head depends on the W_O of another head: each head has its own.")
    demand(close(parts(2 * z), 2 * result), "twice the output should contribute twice: stay with logits, no softmax.")
    demand(
        close(parts(z, W_U=W_U + 3 * random(5, 1, seed=3)), result),
        "shifting all logits alike should change nothing: take the difference of two logits.",
    )
    expected = _attributed(z, W_O, W_U, 6, 2)
    demand(not close(result, -expected), "the sign is wrong: a head that raises the right token contributes above 0.")
    demand((result < 0).any(), "no entry is below 0, but some heads speak for the wrong token: keep the sign.")
    ratio = (result[1, 2] / expected[1, 2]).item()
    demand(
        close(result, expected) or not close(result, ratio * expected),
        f"your entries are {ratio:.2f} times what the heads add: average nothing, and divide by nothing.",
    )
    demand(
        close(result.sum(), expected.sum()),
        "the entries do not sum to what all heads together add to the difference of the two logits.",
    )
    demand(close(result, expected), "the sum is right and the single heads' shares are not.")
    z, W_O, W_U = random(3, 5, 2, seed=4), random(3, 5, 2, 6, seed=5), random(6, 4, seed=6)
    demand(
        close(parts(z, W_O, W_U, 0, 3), _attributed(z, W_O, W_U, 0, 3)),
        "with 3 layers of 5 heads, and other tokens, the entries differ.",
    )


def _written(z: Tensor, W_O: Tensor) -> Tensor:
    return torch.einsum("lhd,lhdm->lhm", z, W_O)


def _attributed(z: Tensor, W_O: Tensor, W_U: Tensor, right: int, wrong: int) -> Tensor:
    return _written(z, W_O) @ (W_U[:, right] - W_U[:, wrong])


def _doubling_z(z: Tensor, W_O: Tensor, W_U: Tensor, right: int, wrong: int) -> Tensor:
    z *= 2
    return _attributed(z, W_O, W_U, right, wrong) / 2


head_attribution.mistakes = {
    "the sign": (lambda z, W_O, W_U, a, b: _attributed(z, W_O, W_U, b, a), "the sign is wrong"),
    "the right token alone": (
        lambda z, W_O, W_U, a, b: _written(z, W_O) @ W_U[:, a],
        "take the difference of two logits",
    ),
    "the right token against the mean": (
        lambda z, W_O, W_U, a, b: _written(z, W_O) @ (W_U[:, a] - W_U.mean(1)),
        "the entries do not sum to what all heads",
    ),
    "layer 0's W_O for both": (
        lambda z, W_O, W_U, a, b: _attributed(z, W_O[:1].expand_as(W_O), W_U, a, b),
        "depend on the W_O of layer 0",
    ),
    "head 0's W_O for all": (
        lambda z, W_O, W_U, a, b: _attributed(z, W_O[:, :1].expand_as(W_O), W_U, a, b),
        "depends on the W_O of another head",
    ),
    "a share": (
        lambda z, W_O, W_U, a, b: (p := _attributed(z, W_O, W_U, a, b)) / p.abs().sum(),
        "twice the output should contribute twice",
    ),
    "the size alone": (lambda z, W_O, W_U, a, b: _attributed(z, W_O, W_U, a, b).abs(), "keep the sign"),
    "the mean over heads": (
        lambda z, W_O, W_U, a, b: _attributed(z, W_O, W_U, a, b) / z.shape[1],
        "your entries are 0.33 times",
    ),
    "probabilities": (
        lambda z, W_O, W_U, a, b: (p := (_written(z, W_O) @ W_U).softmax(-1))[..., a] - p[..., b],
        "twice the output should contribute twice",
    ),
    "one number": (lambda z, W_O, W_U, a, b: _attributed(z, W_O, W_U, a, b).sum(), "it should be [2, 3]"),
    "the layers summed": (
        lambda z, W_O, W_U, a, b: _attributed(z, W_O, W_U, a, b).sum(0).expand(z.shape[:2]),
        "all other entries should be 0",
    ),
    "relative to the mean head": (
        lambda z, W_O, W_U, a, b: (p := _attributed(z, W_O, W_U, a, b)) - p.mean(),
        "all other entries should be 0",
    ),
    "tokens 6 and 2 built in": (
        lambda z, W_O, W_U, a, b: _attributed(z, W_O, W_U, min(6, W_U.shape[1] - 1), 2),
        "with 3 layers of 5 heads, and other tokens",
    ),
    "z changed": (_doubling_z, "it changes `z`, which it was given"),
}


@exercise
def keys_without(answer: Answer) -> None:
    """`keys_without(keys, written, W_K) → keys`: what the keys would be if an earlier head had not written."""
    stream, written, W_K = random(6, 5), random(6, 5, seed=1), random(2, 5, 3, seed=2)

    def result(written: Tensor, W_K: Tensor = W_K, stream: Tensor = stream) -> Tensor:
        shape = len(stream), len(W_K), W_K.shape[2]
        return tensor(answer(_read(stream, W_K), written, W_K), shape, "[pos, head, d_head], as the keys")

    keys, found = _read(stream, W_K), result(written)
    one = written.clone()
    one[2] = random(5, seed=3)
    moved = (result(one) - found).abs().sum((1, 2)) > 1e-5
    demand(moved.any(), "what was written changes no key.")
    demand(
        moved[2] and moved.sum() == 1,
        "what was written at position 2 belongs to the key of position 2 and to no other: nothing is shifted here, "
        "the earlier head has done that.",
    )
    demand(not close(found, _read(written, W_K)), "that is what was written, as the keys read it: take it from them.")
    demand(
        not (close(found, _read(written, W_K) - keys) or close(found, -_read(written, W_K))),
        "the sign is wrong: keys less what they read of it.",
    )
    demand(close(result(0 * written), keys), "if nothing was written, the keys should stay as they are.")
    blind = W_K.clone()
    blind[1] = 0
    demand(
        close(result(written, blind)[:, 1], 0 * keys[:, 1]),
        "a head with W_K = 0 read nothing of it, so its keys should stay: each head reads with its own W_K.",
    )
    demand(not close(found, keys + _read(written, W_K)), "that adds the written part once more; take it away.")
    taken, right = keys - found, _read(written, W_K)
    ratio = (taken[2, 1, 0] / right[2, 1, 0]).item()
    demand(
        close(taken, right) or not close(taken, ratio * right),
        f"you take away {ratio:.2f} times what the keys read of it; the keys are plain stream @ W_K.",
    )
    demand(close(taken, right), "the numbers differ: the keys are stream @ W_K, head by head.")
    stream, written, W_K = random(3, 7, seed=4), random(3, 7, seed=5), random(4, 7, 2, seed=6)
    demand(
        close(result(written, W_K, stream), _read(stream - written, W_K)),
        "at other sizes (3 positions, 4 heads of 2) the keys differ.",
    )


def _read(stream: Tensor, W_K: Tensor) -> Tensor:
    return torch.einsum("pm,hmd->phd", stream, W_K)


def _first_two_heads(k: Tensor, w: Tensor, W_K: Tensor) -> Tensor:
    found = k.clone()
    found[:, :2] -= _read(w, W_K[:2])
    return found


def _subtracting(k: Tensor, w: Tensor, W_K: Tensor) -> Tensor:
    k -= _read(w, W_K)
    return k


keys_without.mistakes = {
    "added": (lambda k, w, W_K: k + _read(w, W_K), "adds the written part once more"),
    "what was written, alone": (lambda k, w, W_K: _read(w, W_K), "that is what was written"),
    "its negative, alone": (lambda k, w, W_K: -_read(w, W_K), "the sign is wrong"),
    "the difference turned round": (lambda k, w, W_K: _read(w, W_K) - k, "the sign is wrong"),
    "shifted by one": (lambda k, w, W_K: k - _read(w, W_K).roll(1, 0), "nothing is shifted here"),
    "shifted back by one": (lambda k, w, W_K: k - _read(w, W_K).roll(-1, 0), "nothing is shifted here"),
    "head 0's W_K for all": (
        lambda k, w, W_K: k - _read(w, W_K[:1].expand_as(W_K)),
        "each head reads with its own W_K",
    ),
    "the heads swapped": (lambda k, w, W_K: k - _read(w, W_K.flip(0)), "each head reads with its own W_K"),
    "all heads' together": (
        lambda k, w, W_K: k - _read(w, W_K).sum(1, keepdim=True),
        "each head reads with its own W_K",
    ),
    "the mean over positions": (lambda k, w, W_K: k - _read(w, W_K).mean(0), "belongs to the key of position 2"),
    "nothing": (lambda k, w, W_K: k, "what was written changes no key"),
    "half": (lambda k, w, W_K: k - _read(w, W_K) / 2, "you take away 0.50 times"),
    "over √d_head": (lambda k, w, W_K: k - _read(w, W_K) / k.shape[2] ** 0.5, "you take away 0.58 times"),
    "two heads": (_first_two_heads, "at other sizes (3 positions, 4 heads of 2)"),
    "the keys changed": (_subtracting, "it changes `k`, which it was given"),
}


@exercise
def k_match(answer: Answer) -> None:
    """`k_match(W_E, QK2, OV1) → eigenvalues [d_head]` of W_E QK₂ OV₁ᵀ W_Eᵀ, on pairs planted by hand."""
    tokens, written = torch.eye(9)[:, :3], torch.eye(9)[:, 3:6]  # parts of a stream; tokens stand in the first
    W_E = random(7, 3) @ tokens.T
    moves = FactoredMatrix(tokens, written.T)  # reads tokens, writes to the second part

    def values(W_E: Tensor, QK2: FactoredMatrix, OV1: FactoredMatrix) -> Tensor:
        return _eigenvalues_from(answer(W_E, QK2, OV1), QK2.mdim)

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
    general, expected = values(W_E, QK2, OV1), _right_eigenvalues(W_E, QK2, OV1)
    demand(
        not _same_set(general * 3**0.5, expected), "divide by nothing: the eigenvalues of the product itself are asked."
    )
    demand(
        general.imag.any(),
        "the matrix is not symmetric, so eigenvalues can be complex, and here some are; yours are all real.",
    )
    demand(_same_set(general, expected), "on random weights the eigenvalues differ from those of the whole product.")
    W_E, A, B, C, D = (random(*shape, seed=seed) for seed, shape in enumerate([(11, 6), *[(6, 4)] * 4]))
    QK2, OV1 = FactoredMatrix(A, B.T), FactoredMatrix(C, D.T)
    demand(
        _same_set(values(W_E, QK2, OV1), _right_eigenvalues(W_E, QK2, OV1)),
        "at other sizes (d_head 4, 11 tokens) the eigenvalues differ from those of the product.",
    )


def _eigenvalues_from(result: object, d_head: int) -> Tensor:
    """An answer's eigenvalues as complex numbers, one for each dimension of a head."""
    if not isinstance(result, Tensor):
        raise Wrong(f"it should return a tensor, not {type(result).__name__}.")
    if tuple(result.shape) != (d_head,):
        raise Wrong(
            f"the result has shape {list(result.shape)}; it should be [{d_head}], one eigenvalue for each of the "
            f"d_head = {d_head} dimensions that the matrix can use."
        )
    if not result.isfinite().all():
        raise Wrong("infinite or not a number, where nothing matches and all eigenvalues are 0: divide by nothing.")
    return result.detach().to(torch.complex128)


def _same_set(a: Tensor, b: Tensor) -> bool:
    """The same numbers in some order: their power sums agree."""
    return all(abs((a**k).sum() - (b**k).sum()) < 1e-3 * (b.abs() ** k).sum() for k in range(1, len(b) + 1))


def _match(W_E: Tensor, QK2: FactoredMatrix, OV1: FactoredMatrix) -> FactoredMatrix:
    return W_E @ QK2 @ OV1.T @ W_E.T


def _right_eigenvalues(W_E: Tensor, QK2: FactoredMatrix, OV1: FactoredMatrix) -> Tensor:
    return circuits.eigenvalues(_match(W_E, QK2, OV1)).to(torch.complex128)


def _singular_values(W_E: Tensor, QK2: FactoredMatrix, OV1: FactoredMatrix) -> Tensor:
    return torch.linalg.svdvals(_match(W_E, QK2, OV1).AB)[: QK2.mdim]


def _normalised(W_E: Tensor, QK2: FactoredMatrix, OV1: FactoredMatrix) -> Tensor:
    values = circuits.eigenvalues(_match(W_E, QK2, OV1))
    return values / values.abs().max()


def _centring_W_E(W_E: Tensor, QK2: FactoredMatrix, OV1: FactoredMatrix) -> Tensor:
    W_E -= W_E.mean(0)
    return circuits.eigenvalues(_match(W_E, QK2, OV1))


k_match.mistakes = {
    "OV₁ not transposed": (
        lambda W_E, QK2, OV1: circuits.eigenvalues(W_E @ QK2 @ OV1 @ W_E.T),
        "which side of OV₁ is the one that writes",
    ),
    "through the query": (
        lambda W_E, QK2, OV1: circuits.eigenvalues(W_E @ OV1 @ QK2 @ W_E.T),
        "a pair that composes through the query",
    ),
    "through the query, OV₁ transposed": (
        lambda W_E, QK2, OV1: circuits.eigenvalues(W_E @ OV1.T @ QK2 @ W_E.T),
        "every token matches itself",
    ),
    "QK₂ transposed": (
        lambda W_E, QK2, OV1: circuits.eigenvalues(W_E @ QK2.T @ OV1.T @ W_E.T),
        "a pair that composes through the query",
    ),
    "without embeddings": (lambda W_E, QK2, OV1: circuits.eigenvalues(QK2 @ OV1.T), "tokens enter on both sides"),
    "QK₂ alone": (lambda W_E, QK2, OV1: circuits.eigenvalues(W_E @ QK2 @ W_E.T), "every token matches itself"),
    "OV₁ alone": (lambda W_E, QK2, OV1: circuits.eigenvalues(W_E @ OV1 @ W_E.T), "every token matches itself"),
    "eigenvalues of the whole table": (
        lambda W_E, QK2, OV1: torch.linalg.eigvals(_match(W_E, QK2, OV1).AB),
        "one eigenvalue for each of the d_head = 3 dimensions",
    ),
    "singular values": (_singular_values, "yours are all real"),
    "real parts": (lambda W_E, QK2, OV1: _right_eigenvalues(W_E, QK2, OV1).real, "yours are all real"),
    "lengths": (lambda W_E, QK2, OV1: _right_eigenvalues(W_E, QK2, OV1).abs(), "yours are all real"),
    "over √d_head": (lambda W_E, QK2, OV1: _right_eigenvalues(W_E, QK2, OV1) / QK2.mdim**0.5, "divide by nothing"),
    "divided by the largest": (_normalised, "where nothing matches and all eigenvalues are 0"),
    "the score of positivity": (
        lambda W_E, QK2, OV1: circuits.copying_score(_match(W_E, QK2, OV1)),
        "it should return a tensor, not float",
    ),
    "the matrix": (_match, "it should return a tensor, not FactoredMatrix"),
    "the first three": (
        lambda W_E, QK2, OV1: _right_eigenvalues(W_E, QK2, OV1)[:3],
        "one eigenvalue for each of the d_head = 4 dimensions",
    ),
    "W_E changed": (_centring_W_E, "it changes `W_E`, which it was given"),
}


@exercise
def shift_matrix(answer: Answer) -> None:
    """`shift_matrix(n) → [n, n]`: S such that p_j S p_sᵀ is 1 if s = j + 1, else 0, for one-hot positions."""
    for n in (6, 3, 11):
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


shift_matrix.mistakes = {
    "transposed": (lambda n: torch.ones(n - 1).diag(-1), "so it picks the row"),
    "the identity": (torch.eye, "not to j itself"),
    "wrapped around": (lambda n: torch.eye(n).roll(1, 1), "nothing follows it, so its row should be 0"),
    "wrapped around, backwards": (lambda n: torch.eye(n).roll(-1, 1), "so it picks the row"),
    "all later positions": (lambda n: torch.ones(n, n).triu(1), "each row but the last should hold"),
    "two ahead": (lambda n: torch.ones(n - 2).diag(2), "a pointer at 1 should lead to 2"),
    "too small": (lambda n: torch.eye(n - 1), "it should be [6, 6]"),
    "a step and itself": (lambda n: torch.eye(n) + torch.ones(n - 1).diag(1), "so its row should be 0"),
    "both neighbours": (
        lambda n: torch.ones(n - 1).diag(1) + torch.ones(n - 1).diag(-1),
        "so its row should be 0",
    ),
    "scaled": (lambda n: 2 * torch.ones(n - 1).diag(1), "each row but the last should hold"),
    "nine at most": (
        lambda n: torch.ones(n - 1).diag(1) * (torch.arange(n) < 9),
        "each row but the last should hold",
    ),
}
