"""Checks of lesson 01, the transformer: each exercise, then its typical mistakes with the sentence each must get."""

import math
import warnings
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import random
from course_utils.course.questions import Operations, Unfit, Wrong, close, demand, pair, tensor

LEADING = ((), (2,), (2, 3))  # axes in front: none, heads, texts and heads


def _fit_for_training(answer: Answer, given: Callable[[int], list[Tensor]]) -> None:
    """Raise Unfit if training could not call a right answer: no gradient in double precision, or loops over places.

    `given` makes the arguments for so many positions.
    """
    operations_at = {}
    for n in (1, 16):
        inputs = [value.double().requires_grad_() for value in given(n)]
        try:
            with Operations() as made:
                result = answer(*inputs)
            gradients = torch.autograd.grad(result.sum(), inputs, allow_unused=True)
        except (Wrong, RuntimeError):  # such as .numpy() on a tensor that wants a gradient
            gradients = ()
        if not gradients or any(gradient is None for gradient in gradients):
            raise Unfit("training needs gradients through it, in double precision, and does not get them")
        operations_at[n] = made.count
    if (more := operations_at[16] - operations_at[1]) > 50:
        raise Unfit(f"training would be slow: for 16 tokens it makes {more:,} operations more than for 1, by loops")


def _of_shapes(answer: Answer, advice: str, *given: Tensor) -> object:
    """What the answer returns; where PyTorch refuses shapes, the sentence says which they were, and the advice."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of .T with more than two axes: a wall of text
            return answer(*given)
    except Wrong as told:
        if not isinstance(told.__cause__, RuntimeError):
            raise
        shapes = " and ".join(str(list(value.shape)) for value in given)
        raise Wrong(f"PyTorch can't combine the arguments' shapes, here {shapes}: {advice}") from None


def _causal(scores: Tensor) -> Tensor:
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf)


@exercise
def attention_scores(answer: Answer) -> None:
    """`attention_scores(q, k) → scores`: every query with every key, divided by √d_head."""
    for lead, n, d_head in ((LEADING[0], 5, 4), (LEADING[1], 6, 3), (LEADING[2], 4, 9), (LEADING[0], 1, 2)):
        q, k = random(*lead, n, d_head), random(*lead, n, d_head, seed=1)
        raw = _of_shapes(answer, "`k.mT` exchanges the last two axes of `k`, whatever stands in front.", q, k)
        demand(
            not (isinstance(raw, Tensor) and raw.isneginf().any()),
            "some scores are −∞ already: the mask is the next step.",
        )
        result = tensor(raw, (*lead, n, n), "[..., dest, src]")
        products = q @ k.mT
        if n > 1:
            demand(
                not close(result.sum(-1), torch.ones(*lead, n)), "these rows sum to 1: the softmax comes two steps on."
            )
            demand(
                not close(result, (products / d_head**0.5).mT),
                "rows and columns are exchanged: a row belongs to a destination, whose query asks.",
            )
        for divisor, words in ((1, "not divided at all"), (d_head, "divided by d_head"), (d_head**-0.5, "multiplied")):
            demand(not close(result, products / divisor), f"the scores are {words}: divide them by √d_head.")
        demand(
            n == d_head or not close(result, products / n**0.5),
            "that divides by the root of the number of positions: d_head is the length of a query.",
        )
        demand(
            close(result, products / d_head**0.5),
            f"it fails for q and k of shape {list(q.shape)}: dest on rows, src on columns, q · k / √d_head in each.",
        )
    _fit_for_training(answer, lambda n: [random(2, 3, n, 4), random(2, 3, n, 4, seed=1)])


def _over_root(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


def _halving_q(q: Tensor, k: Tensor) -> Tensor:
    q /= q.shape[-1] ** 0.5
    return q @ k.mT


attention_scores.mistakes = {
    "not divided": (lambda q, k: q @ k.mT, "the scores are not divided at all"),
    "divided by d_head": (lambda q, k: q @ k.mT / q.shape[-1], "the scores are divided by d_head"),
    "multiplied": (lambda q, k: q @ k.mT * q.shape[-1] ** 0.5, "the scores are multiplied"),
    "all axes turned": (lambda q, k: q @ k.T / q.shape[-1] ** 0.5, "[2, 6, 3] and [2, 6, 3]: `k.mT` exchanges"),
    "not turned": (lambda q, k: q @ k / q.shape[-1] ** 0.5, "[5, 4] and [5, 4]: `k.mT` exchanges"),
    "√pos": (lambda q, k: q @ k.mT / q.shape[-2] ** 0.5, "root of the number of positions"),
    "axes flipped": (lambda q, k: _over_root(k, q), "rows and columns are exchanged"),
    "masked already": (lambda q, k: _causal(_over_root(q, k)), "the mask is the next step"),
    "softmax already": (lambda q, k: _over_root(q, k).softmax(-1), "the softmax comes two steps on"),
    "for d_head 4": (lambda q, k: q @ k.mT / 2, "it fails for q and k of shape [2, 6, 3]"),
    "own keys only": (lambda q, k: (q * k).sum(-1) / q.shape[-1] ** 0.5, "it should be [5, 5]"),
    "entry by entry": (lambda q, k: q * k / q.shape[-1] ** 0.5, "it should be [5, 5]"),
    "q changed": (_halving_q, "it changes `q`, which it was given"),
}


@exercise
def masked(answer: Answer) -> None:
    """`masked(scores) → scores`: −∞ where the source comes after the destination."""
    for lead, n in ((LEADING[0], 4), (LEADING[1], 5), (LEADING[2], 3), (LEADING[0], 1), (LEADING[1], 7)):
        scores = 3 * random(*lead, n, n)
        result = answer(scores)
        if not isinstance(result, Tensor):
            raise Wrong(f"it should return a tensor, not {type(result).__name__}.")
        demand(
            result.shape == scores.shape,
            f"the result has shape {list(result.shape)}; it should be {list(scores.shape)}, as the scores.",
        )
        demand(not result.isnan().any(), "it makes values that are no numbers: 0 · ∞, perhaps? Fill them in instead.")
        hidden, later = result.isneginf(), torch.ones(n, n, dtype=torch.bool).triu(1)
        _rightly_hidden(hidden, result, later.expand(scores.shape))
        demand(close(result[~hidden], scores[~hidden]), "a score that is not hidden should stay as it was.")
    _fit_for_training(answer, lambda n: [random(2, 3, n, n)])


def _rightly_hidden(hidden: Tensor, result: Tensor, later: Tensor) -> None:
    own = torch.eye(later.shape[-1], dtype=torch.bool).expand(later.shape)
    demand(
        not (hidden & own).any() or not hidden[..., 0, 0].any() or (hidden & ~own & ~later).any(),
        "a position may look at itself: its own score should stay.",
    )
    demand(
        not (hidden & ~later & ~own).any(),
        "it hides a source that comes *before* its destination: rows are destinations, columns are sources.",
    )
    demand(not (hidden & ~later).any(), "a position may look at itself: its own score should stay.")
    if (shown := later & ~hidden).any():
        first = result[shown][0].item()
        demand(
            first > -1e4, f"a later source has the score {first:.3g}: large, but not −∞. `-torch.inf` is a number here."
        )
        demand(first != 0, "a later source has the score 0: to a softmax that is a score like any other; use −∞.")
        raise Wrong("a source that comes after its destination keeps a score: hide all of them.")


def _filled(scores: Tensor, diagonal: int = 1, value: float = -torch.inf) -> Tensor:
    return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal), value)


def _in_place(scores: Tensor) -> Tensor:
    return scores.masked_fill_(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)


masked.mistakes = {
    "hides itself": (lambda scores: _filled(scores, 0), "a position may look at itself"),
    "late by one": (lambda scores: _filled(scores, 2), "keeps a score: hide all"),
    "no mask": (lambda scores: scores.clone(), "keeps a score: hide all"),
    "the past hidden": (lambda scores: _filled(scores.mT).mT, "hides a source that comes *before*"),
    "zeros": (lambda scores: scores.tril(), "a score like any other; use −∞"),
    "a large number": (lambda scores: _filled(scores, value=-1e9), "large, but not −∞"),
    "multiplied by −∞": (
        lambda scores: scores + torch.ones(scores.shape[-2:]).triu(1) * -torch.inf,
        "that are no numbers: 0 · ∞",
    ),
    "softmax already": (lambda scores: _filled(scores).softmax(-1), "a score like any other; use −∞"),
    "the mask alone": (lambda scores: _filled(0 * scores), "that is not hidden should stay"),
    "truth values": (lambda scores: torch.ones_like(scores).triu(1).bool(), "keeps a score: hide all"),
    "scores changed": (_in_place, "it changes `scores`, which it was given"),
}


@exercise
def attention_pattern(answer: Answer) -> None:
    """`attention_pattern(scores) → pattern`: the softmax over the sources."""
    for lead, n, size in ((LEADING[0], 5, 1), (LEADING[1], 4, 2), (LEADING[2], 3, 1), (LEADING[0], 6, 90)):
        scores = size * random(*lead, n, n)
        hidden = _causal(scores)
        raw = answer(hidden)
        demand(
            size == 1 or not isinstance(raw, Tensor) or not raw.isnan().any(),
            "e to a score of a hundred is too large for a number: use softmax, or subtract the largest score first.",
        )
        result = tensor(raw, tuple(scores.shape), "[..., dest, src], as the scores")
        demand((result >= 0).all(), "a share of attention is never below 0.")
        columns, rows = (result.sum(axis) for axis in (-2, -1))
        demand(
            not close(columns, torch.ones_like(columns)) or close(rows, torch.ones_like(rows)),
            "each column sums to 1: sources are on the columns, so each *row* should.",
        )
        worst = rows.flatten()[(rows - 1).abs().argmax()]
        demand(
            close(rows, torch.ones_like(rows)),
            f"the shares that one destination gives sum to {worst:.3f}: each row should sum to 1.",
        )
        demand(
            close(result, hidden.softmax(-1)),
            "rows sum to 1, but the shares are not e to the score, divided by the sum over the row.",
        )
    _fit_for_training(answer, lambda n: [random(2, 3, n, n)])


def _shares(e: Tensor) -> Tensor:
    return e / e.sum(-1, keepdim=True)


def _exponentials(scores: Tensor) -> Tensor:
    scores -= scores.max()
    return scores.softmax(-1)


attention_pattern.mistakes = {
    "over destinations": (lambda s: s.softmax(-2), "each column sums to 1"),
    "over everything": (lambda s: s.flatten().softmax(0).view(s.shape), "that one destination gives sum to"),
    "over axis 0": (lambda s: s.softmax(0), "each column sums to 1"),
    "over axis 1": (lambda s: s.softmax(1), "each column sums to 1"),
    "logarithms": (lambda s: s.log_softmax(-1).clamp(min=-99), "is never below 0"),
    "no division": (lambda s: s.exp(), "that one destination gives sum to"),
    "overflow": (lambda s: _shares(s.exp()), "too large for a number"),
    "powers of two": (lambda s: (s * math.log(2)).softmax(-1), "the shares are not e to the score"),
    "largest only": (
        lambda s: F.one_hot(s.argmax(-1), s.shape[-1]).float(),
        "the shares are not e to the score",
    ),
    "twice": (lambda s: s.softmax(-1).softmax(-1), "the shares are not e to the score"),
    "scores changed": (_exponentials, "it changes `scores`, which it was given"),
}


@exercise
def weighted_values(answer: Answer) -> None:
    """`weighted_values(pattern, v) → z`: each destination's mean of the values, weighted by its row."""
    for lead, n, d_head in ((LEADING[0], 5, 3), (LEADING[1], 4, 6), (LEADING[2], 3, 2), (LEADING[0], 4, 4)):
        pattern, v = _causal(2 * random(*lead, n, n)).softmax(-1), random(*lead, n, d_head, seed=1)
        raw = _of_shapes(answer, "a product sums over the last axis of what stands on the left.", pattern, v)
        result = tensor(raw, (*lead, n, d_head), "[..., dest, d_head]")
        demand(not close(result, v), "each position gets its own value: what does the pattern do?")
        demand(
            not close(result, pattern.mT @ v),
            "the weights are columns of the pattern: each destination's weights are its *row*.",
        )
        demand(
            close(result[..., 0, :], v[..., 0, :]),
            "the first destination sees itself alone, so it should get its own value, whole.",
        )
        demand(
            close(result, pattern @ v),
            f"it fails for a pattern of shape {list(pattern.shape)}: sum over the sources, share times value.",
        )
    _fit_for_training(answer, lambda n: [random(2, 3, n, n), random(2, 3, n, 4, seed=1)])


def _scaling_v(pattern: Tensor, v: Tensor) -> Tensor:
    v *= 1.5
    return pattern @ v / 1.5


weighted_values.mistakes = {
    "columns": (lambda A, v: A.mT @ v, "each destination's weights are its *row*"),
    "exchanged": (lambda A, v: v @ A, "[5, 5] and [5, 3]: a product sums over"),
    "no pattern": (lambda A, v: v.clone(), "what does the pattern do"),
    "all sources alike": (lambda A, v: _shares((A > 0).float()) @ v, "share times value"),
    "divided by n": (lambda A, v: A @ v / len(A), "it should get its own value, whole"),
    "the favourite's value": (
        lambda A, v: torch.take_along_dim(v, A.argmax(-1)[..., None], -2),
        "share times value",
    ),
    "per pair": (lambda A, v: A[..., None] * v[..., None, :, :], "it should be [5, 3]"),
    "one sum": (lambda A, v: (A @ v).sum(-1), "it should be [5, 3]"),
    "v changed": (_scaling_v, "it changes `v`, which it was given"),
}


@exercise
def previous_token_head(answer: Answer) -> None:
    """`previous_token_head(W_pos) → W_Q, W_K`: each position's attention goes to the one before it."""
    for n, d_model in ((6, 9), (13, 20), (4, 4), (40, 47)):
        W_pos = torch.linalg.qr(random(d_model, d_model, seed=n))[0][:n]
        W_Q, W_K = pair(answer(W_pos), "W_Q and W_K")
        W_Q, W_K = (tensor(W, (d_model, n), "[d_model, n]") for W in (W_Q, W_K))
        scores = (W_pos @ W_Q) @ (W_pos @ W_K).T / n**0.5
        demand(scores.std() > 1e-6, "all scores are the same: is one of the two matrices zero?")
        favourite = scores[:-1].argmax(-1) - torch.arange(n - 1)  # over every source, later ones too
        demand(
            not (favourite[1:] == 1).all(),
            "each query fits the key of the *next* position, which the mask hides: turn it the other way.",
        )
        demand(not (favourite[1:] == 0).all(), "each position looks at itself: shift the queries against the keys.")
        pattern = _causal(scores).softmax(-1)
        before = pattern.diagonal(-1)
        least = int(before.argmin())
        seen = int(pattern[least + 1].argmax())
        demand(
            seen == least,
            f"with {n} positions in {d_model} dimensions, position {least + 1} looks mostly at position {seen}.",
        )
        demand(
            before.min() >= 0.99,
            f"with {n} positions, position {least + 1} gives its predecessor {before.min():.2f}: make scores larger.",
        )


def _head(turn: int = -1, size: float = 99.0, turned: bool = False) -> Answer:
    def make(W_pos: Tensor) -> tuple[Tensor, Tensor]:
        made = size * W_pos.roll(turn, 0).T, W_pos.T
        return made[::-1] if turned else made

    return make


def _by_number(W_pos: Tensor) -> tuple[Tensor, Tensor]:
    """Right only if position i is the i-th axis."""
    n, d_model = W_pos.shape
    eye = torch.eye(d_model, n)
    return 99 * torch.eye(n, d_model).roll(-1, 0).T, eye


def _turning(W_pos: Tensor) -> tuple[Tensor, Tensor]:
    W_pos *= 9
    return W_pos.roll(-1, 0).T, W_pos.T


previous_token_head.mistakes = {
    "the next token": (_head(turn=1), "the key of the *next* position"),
    "exchanged": (_head(turned=True), "the key of the *next* position"),
    "itself": (_head(turn=0), "each position looks at itself"),
    "two back": (_head(turn=-2), "looks mostly at position"),
    "too weak": (_head(size=1.0), "make scores larger"),
    "enough for six": (_head(size=17.0), "with 13 positions, position"),
    "for one-hot positions": (_by_number, "looks mostly at position"),
    "transposed": (lambda W_pos: (99 * W_pos.roll(-1, 0), W_pos), "it should be [9, 6]"),
    "zeros": (lambda W_pos: (0 * W_pos.T, W_pos.T), "all scores are the same"),
    "one matrix": (lambda W_pos: 99 * W_pos.roll(-1, 0).T @ W_pos, "it should return two things"),
    "W_pos changed": (_turning, "it changes `W_pos`, which it was given"),
}


@exercise
def transformer(answer: Answer) -> None:
    """`transformer(tokens, W_E, W_pos, blocks, ln_final, W_U) → logits`: the whole model."""
    tokens = torch.tensor([[0, 4, 4, 2], [0, 1, 5, 3]])
    W_E, W_pos, W_U = random(6, 3), random(8, 3, seed=1), random(3, 6, seed=2)
    means = "[batch, pos, d_vocab]"

    def asked(W_E: Tensor = W_E, W_pos: Tensor = W_pos, blocks: tuple = (), ln_final: Callable = lambda x: x) -> Tensor:
        return tensor(answer(tokens, W_E, W_pos, list(blocks), ln_final, W_U), (2, 4, 6), means)

    try:
        bare = asked()
    except Wrong as told:
        error = str(told.__cause__)
        demand(
            "tensor a (4) must match" not in error or "tensor b (8)" not in error,
            "W_pos has n_ctx rows, here 8, and the text only 4 tokens: add the rows of the places that it has.",
        )
        raise
    demand(not close(bare.exp().sum(-1), torch.ones(2, 4)), "these are log-probabilities; the logits come before them.")
    demand(bare.min() < 0, "no logit is below 0: these look like probabilities, and the softmax comes later.")
    demand(
        not close(bare, (W_E[tokens] + W_pos[:4]) @ W_E.T),
        "it uses W_E a second time: W_U is a matrix of its own here.",
    )
    only_positions = asked(W_E=0 * W_E)
    demand(not close(only_positions, 0 * bare), "W_pos makes no difference.")
    demand(
        close(only_positions[0], only_positions[1]),
        "two texts get different positions: row 0 of W_pos belongs to the first place, whatever token stands there.",
    )
    demand(
        close(only_positions[0], W_pos[:4] @ W_U), "the token at position i should get row i of W_pos, counted from 0."
    )
    demand(
        close(asked(W_pos=0 * W_pos), W_E[tokens] @ W_U),
        "without blocks and positions, a token's logits are its row of W_E times W_U, and nothing more.",
    )
    start = W_E[tokens] + W_pos[:4]
    demand(close(bare, start @ W_U), "without blocks, the logits should be (W_E[tokens] + positions) W_U.")
    _well_connected(asked, start, W_U)
    _right_blocks(asked, start, W_U)
    for batch, n, d_vocab, d_model, n_ctx, layers in ((1, 5, 7, 4, 5, 3), (3, 1, 4, 6, 9, 0), (5, 2, 3, 3, 6, 1)):
        ids = torch.randint(d_vocab, (batch, n), generator=torch.Generator().manual_seed(0))
        blocks = [_block(seed, d_model) for seed in range(layers)]
        given = ids, random(d_vocab, d_model), random(n_ctx, d_model, seed=1), blocks, _bending(9, d_model)
        result = tensor(answer(*given, random(d_model, d_vocab, seed=2)), (batch, n, d_vocab), means)
        demand(
            close(result, _model(*given, random(d_model, d_vocab, seed=2))),
            f"it fails for {batch} texts of {n} tokens, n_ctx {n_ctx}, and {layers} blocks.",
        )


def _well_connected(asked: Callable[..., Tensor], start: Tensor, W_U: Tensor) -> None:
    """Demand that one block's result is right; what each part was given, and gave back, says what is not."""
    given: dict[str, Tensor] = {}  # what each part was last given
    matrices = dict(zip(("ln1", "attn", "ln2", "mlp"), random(4, 3, 3, seed=1), strict=True))

    def part(name: str) -> Callable[[Tensor], Tensor]:
        def apply(stream: Tensor) -> Tensor:
            given[name] = tensor(stream, (2, 4, 3), f"what {name} is given, as the stream")
            return torch.tanh(stream @ matrices[name])

        return apply

    result = asked(blocks=(tuple(map(part, matrices)),))
    read = {name: torch.tanh(value @ matrices[name]) for name, value in given.items()}
    missing = [name for name in matrices if name not in given]
    demand(not missing, f"it does not apply {' and '.join(missing)}.")
    demand(close(given["ln1"], start), "ln1 should read the stream as it comes in: embedding plus positions.")
    demand(close(given["attn"], read["ln1"]), "attention should read what ln1 returns.")
    middle = start + read["attn"]
    demand(
        not close(given["ln2"], start),
        "ln2 reads the stream as it came in; by then the attention's output should have been added.",
    )
    demand(
        not close(given["ln2"], read["attn"]),
        "ln2 reads the attention's output alone: it should be added to the stream first.",
    )
    normed = "the stream itself was normalised: only the copy that a part reads should be."
    demand(not close(given["ln2"], read["ln1"] + read["attn"]), normed)
    demand(close(given["ln2"], middle), "ln2 should read the stream plus the attention's output.")
    demand(close(given["mlp"], read["ln2"]), "the MLP should read what ln2 returns.")
    demand(not close(result, (read["ln2"] + read["mlp"]) @ W_U), normed)
    demand(not close(result, read["mlp"] @ W_U), "the MLP's output should be added to the stream, not replace it.")
    demand(
        not close(result, (start + read["mlp"]) @ W_U),
        "the attention's output is missing in the stream that leaves the block.",
    )
    demand(
        close(result, (middle + read["mlp"]) @ W_U),
        "what leaves a block should be the stream after attention, plus the MLP's output.",
    )


def _right_blocks(asked: Callable[..., Tensor], start: Tensor, W_U: Tensor) -> None:
    """Demand that each block reads what the last one returned, and `ln_final` what the last block did."""
    f, g, ln = _block(3), _block(7), _bending(5)
    demand(not close(asked(blocks=(f, g)), _through([g, f], start) @ W_U), "the last block is applied first.")
    demand(
        close(asked(blocks=(f, g)), _through([f, g], start) @ W_U), "each block should read what the last one returned."
    )
    demand(
        close(asked(blocks=(f, g), ln_final=ln), ln(_through([f, g], start)) @ W_U),
        "ln_final belongs between the last block and W_U, once.",
    )


def _bending(seed: int, d_model: int = 3) -> Callable[[Tensor], Tensor]:
    """A function of the stream in which the order of two counts."""
    matrix = random(d_model, d_model, seed=seed)
    return lambda x: torch.tanh(x @ matrix)


def _block(seed: int, d_model: int = 3) -> tuple[Callable[[Tensor], Tensor], ...]:
    return tuple(_bending(10 * seed + part, d_model) for part in range(4))


def _through(blocks: list, x: Tensor) -> Tensor:
    for ln1, attn, ln2, mlp in blocks:
        x = x + attn(ln1(x))
        x = x + mlp(ln2(x))
    return x


def _start(tokens: Tensor, W_E: Tensor, W_pos: Tensor) -> Tensor:
    return W_E[tokens] + W_pos[: tokens.shape[1]]


def _model(tokens: Tensor, W_E: Tensor, W_pos: Tensor, blocks: list, ln_final: Callable, W_U: Tensor) -> Tensor:
    return ln_final(_through(blocks, _start(tokens, W_E, W_pos))) @ W_U


def _emptying(tokens: Tensor, W_E: Tensor, W_pos: Tensor, blocks: list, ln: Callable, W_U: Tensor) -> Tensor:
    x = _start(tokens, W_E, W_pos)
    while blocks:
        x = _through([blocks.pop(0)], x)
    return ln(x) @ W_U


def _streaming(stream: Callable[..., Tensor]) -> Answer:
    """`stream(tokens, W_E, W_pos, blocks)`, then rightly to the logits."""
    return lambda t, W_E, W_pos, blocks, ln, W_U: ln(stream(t, W_E, W_pos, blocks)) @ W_U


def _connected(block: Callable[..., Tensor]) -> Answer:
    """A model whose blocks are connected by `block(x, ln1, attn, ln2, mlp)`."""

    def answer(t: Tensor, W_E: Tensor, W_pos: Tensor, blocks: list, ln: Callable, W_U: Tensor) -> Tensor:
        x = _start(t, W_E, W_pos)
        for parts in blocks:
            x = block(x, *parts)
        return ln(x) @ W_U

    return answer


def _from_the_normed(x: Tensor, ln1: Callable, attn: Callable, ln2: Callable, ff: Callable) -> Tensor:
    x = ln1(x)
    x = x + attn(x)
    x = ln2(x)
    return x + ff(x)


transformer.mistakes = {
    "no positions": (_streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t])), "W_pos makes no difference"),
    "positions by token": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t] + W_pos[t])),
        "two texts get different positions",
    ),
    "positions by text": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t] + W_pos[: len(t), None])),
        "two texts get different positions",
    ),
    "the last positions": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t] + W_pos[-t.shape[1] :])),
        "should get row i of W_pos",
    ),
    "positions from 1": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t] + W_pos[1 : t.shape[1] + 1])),
        "should get row i of W_pos",
    ),
    "multiplied by the positions": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t] * W_pos[: t.shape[1]])),
        "W_pos makes no difference",
    ),
    "positions added at the end": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t]) + W_pos[: t.shape[1]]),
        "ln1 should read the stream as it comes in",
    ),
    "no blocks": (
        _streaming(lambda t, W_E, W_pos, blocks: _start(t, W_E, W_pos)),
        "it does not apply ln1 and attn and ln2 and mlp",
    ),
    "the first block only": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks[:1], _start(t, W_E, W_pos))),
        "each block should read what the last one returned",
    ),
    "last block first": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks[::-1], _start(t, W_E, W_pos))),
        "the last block is applied first",
    ),
    "two blocks": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks[:2], _start(t, W_E, W_pos))),
        "it fails for 1 texts of 5 tokens",
    ),
    "no final LayerNorm": (
        lambda t, W_E, W_pos, blocks, ln, W_U: _through(blocks, _start(t, W_E, W_pos)) @ W_U,
        "ln_final belongs between the last block and W_U",
    ),
    "LayerNorm first": (
        lambda t, W_E, W_pos, blocks, ln, W_U: _through(blocks, ln(_start(t, W_E, W_pos))) @ W_U,
        "ln_final belongs between the last block and W_U",
    ),
    "tied": (
        lambda t, W_E, W_pos, blocks, ln, W_U: ln(_through(blocks, _start(t, W_E, W_pos))) @ W_E.T,
        "it uses W_E a second time",
    ),
    "probabilities": (lambda *given: _model(*given).softmax(-1), "these look like probabilities"),
    "log-probabilities": (lambda *given: _model(*given).log_softmax(-1), "these are log-probabilities"),
    "the last position only": (lambda *given: _model(*given)[:, -1], "it should be [2, 4, 6]"),
    "the list of blocks emptied": (_emptying, "it changes `blocks"),
    "nothing added": (
        _connected(lambda x, ln1, attn, ln2, ff: ff(ln2(attn(ln1(x))))),
        "ln2 reads the attention's output alone",
    ),
    "the MLP's output not added": (
        _connected(lambda x, ln1, attn, ln2, ff: ff(ln2(x + attn(ln1(x))))),
        "added to the stream, not replace it",
    ),
    "normed afterwards": (
        _connected(lambda x, ln1, attn, ln2, ff: ln2((m := ln1(x + attn(x))) + ff(m))),
        "ln1 should read the stream as it comes in",
    ),
    "attention reads the stream": (
        _connected(lambda x, ln1, attn, ln2, ff: (m := x + attn(x)) + ff(ln2(m)) + 0 * ln1(x)),
        "attention should read what ln1 returns",
    ),
    "no ln2": (
        _connected(lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ff(m)),
        "it does not apply ln2",
    ),
    "parallel": (
        _connected(lambda x, ln1, attn, ln2, ff: x + attn(ln1(x)) + ff(ln2(x))),
        "ln2 reads the stream as it came in",
    ),
    "the normed copy goes on": (_connected(_from_the_normed), "the stream itself was normalised"),
    "the normed copy goes on, for the MLP": (
        _connected(lambda x, ln1, attn, ln2, ff: (m := ln2(x + attn(ln1(x)))) + ff(m)),
        "the stream itself was normalised",
    ),
    "all of W_pos": (
        _streaming(lambda t, W_E, W_pos, blocks: _through(blocks, W_E[t] + W_pos)),
        "W_pos has n_ctx rows, here 8",
    ),
    "the MLP reads the stream": (
        _connected(lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ff(m) + 0 * ln2(m)),
        "the MLP should read what ln2 returns",
    ),
    "MLP first": (
        _connected(lambda x, ln1, attn, ln2, ff: (m := x + ff(ln2(x))) + attn(ln1(m))),
        "ln1 should read the stream as it comes in",
    ),
    "MLP's output added to the old stream": (
        _connected(lambda x, ln1, attn, ln2, ff: x + ff(ln2(x + attn(ln1(x))))),
        "the attention's output is missing",
    ),
    "the stream added once more": (
        _connected(lambda x, *parts: _through([parts], x) + x),
        "the stream after attention, plus the MLP's output",
    ),
}


@exercise
def notices(answer: Answer) -> None:
    """`notices(part, x, position, value) → bool`: at which positions a part's output changes with one edit."""
    for n, d_model, position in ((6, 4, 2), (5, 3, 0), (7, 9, 6)):
        x, value = random(n, d_model), random(d_model, seed=1)
        reading = _Reading(answer, n)
        for name, part, told in _parts(x.clone()):
            result = reading(part, x, position, value)
            expected = _changed(part, x, position, value)
            demand(torch.equal(result, expected), f"position {position} of {n} is edited, and {name}: {told}")
        demand(
            not reading(lambda x: x, x, position, x[position].clone()).any(),
            "if `value` is what stood there already, nothing changes: put it in the place of `x[position]`.",
        )


class _Reading:
    """Calls an answer and reads truth values, [pos]."""

    def __init__(self, answer: Answer, n: int):
        self.answer, self.n = answer, n

    def __call__(self, part: Callable, x: Tensor, position: int, value: Tensor) -> Tensor:
        result = self.answer(part, x, position, value)
        if not isinstance(result, Tensor):
            raise Wrong(f"it should return a tensor of truth values, not {type(result).__name__}.")
        demand(
            result.shape == (self.n,),
            f"the result has shape {list(result.shape)}; it should be [{self.n}], one truth value for each position.",
        )
        demand(result.dtype == torch.bool, f"it returns numbers ({result.dtype}): compare them with 1e-6.")
        return result.clone()


def _changed(part: Callable, x: Tensor, position: int, value: Tensor) -> Tensor:
    edited = x.clone()
    edited[position] = value
    return (part(edited) - part(x)).abs().amax(-1) > 1e-6


def _parts(old: Tensor) -> Iterator[tuple[str, Callable[[Tensor], Tensor], str]]:
    """What the part does, the part, what the learner hears; `old` is the stream before the edit."""
    n, d_model = old.shape
    W = random(d_model, 2, seed=2)
    balanced = torch.stack([torch.ones(d_model), -torch.ones(d_model)], 1)  # the two outputs change by opposite amounts
    first = torch.zeros(d_model, 3)
    first[:, 1] = 1
    yield "the part returns each vector as it is", lambda x: x.clone(), "that position alone should notice."
    yield "the part sums from left to right", lambda x: x.cumsum(0), "it and all later ones should notice."
    yield "the part sums from right to left", lambda x: x.flip(0).cumsum(0).flip(0), "all up to it should notice."
    yield "the part moves all by one", lambda x: x.roll(1, 0), "the next position alone should notice."
    yield "the part ignores x", lambda x: torch.ones(n, 5), "nobody should notice."
    yield "vectors come out shorter", lambda x: x @ W, "compare what the part returns, however wide it is."
    yield (
        "its entries change by opposite amounts",
        lambda x: x @ balanced,
        "changes must not cancel: take them absolute.",
    )
    yield "all outputs fall", lambda x: -(x - old).abs(), "a fall is a change too."
    yield "only one entry changes", lambda x: x @ first, "one entry is enough."
    yield "rounding stirs all", lambda x: x.double() + 1e-9 * x.double().sum(), "changes below 1e-6 do not count."
    yield "changes are small", lambda x: 1e-4 * x.double(), "all changes above 1e-6 count."


def _noticed(compare: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    def answer(part: Callable, x: Tensor, position: int, value: Tensor) -> Tensor:
        edited = x.clone()
        edited[position] = value
        return compare(part(edited), part(x))

    return answer


def _writing_into_x(part: Callable, x: Tensor, position: int, value: Tensor) -> Tensor:
    old = part(x)
    x[position] = value
    return (part(x) - old).abs().amax(-1) > 1e-6


def _no_copy(part: Callable, x: Tensor, position: int, value: Tensor) -> Tensor:
    edited = x
    edited[position] = value
    return (part(edited) - part(x)).abs().amax(-1) > 1e-6


def _adding(part: Callable, x: Tensor, position: int, value: Tensor) -> Tensor:
    return _changed(part, x, position, x[position] + value)


notices.mistakes = {
    "exactly equal": (_noticed(lambda a, b: (a != b).any(-1)), "below 1e-6 do not count"),
    "any fall is missed": (_noticed(lambda a, b: (a - b).amax(-1) > 1e-6), "a fall is a change too"),
    "sums cancel": (_noticed(lambda a, b: (a - b).sum(-1).abs() > 1e-6), "changes must not cancel"),
    "every entry must change": (_noticed(lambda a, b: ((a - b).abs() > 1e-6).all(-1)), "one entry is enough"),
    "the smallest change": (_noticed(lambda a, b: (a - b).abs().amin(-1) > 1e-6), "one entry is enough"),
    "who does not": (_noticed(lambda a, b: (a - b).abs().amax(-1) <= 1e-6), "that position alone should notice"),
    "a coarse eye": (_noticed(lambda a, b: (a - b).abs().amax(-1) > 1e-2), "all changes above 1e-6 count"),
    "per entry": (_noticed(lambda a, b: (a - b).abs() > 1e-6), "one truth value for each position"),
    "one answer": (_noticed(lambda a, b: ((a - b).abs() > 1e-6).any()), "one truth value for each position"),
    "amounts": (_noticed(lambda a, b: (a - b).abs().amax(-1)), "it returns numbers"),
    "over positions": (_noticed(lambda a, b: (a - b).abs().amax(0) > 1e-6), "it should be [6]"),
    "x compared": (
        lambda part, x, position, value: torch.arange(len(x)) == position,
        "it and all later ones should notice",
    ),
    "added": (_adding, "put it in the place of"),
    "x changed": (_writing_into_x, "it changes `x`, which it was given"),
    "no copy": (_no_copy, "it changes `x`, which it was given"),
    "always position 2": (
        lambda part, x, position, value: _changed(part, x, 2, value),
        "position 0 of 5 is edited",
    ),
}


@exercise
def top_p(answer: Answer) -> None:
    """`top_p(p, share) → p`: as few of the most probable tokens as reach the share, divided by their sum."""
    even = torch.tensor([0.125, 0.5, 0.25, 0.0625, 0.0625])  # sums that no rounding touches
    for share, count in ((0.5, 1), (0.51, 2), (0.75, 2), (0.8, 3), (0.05, 1), (0.9375, 4)):
        _kept(answer, even, share, count)
    _kept(answer, torch.full((4,), 0.25), 0.5, 2)
    for lead, d_vocab, share in (((), 7, 0.6), ((3,), 9, 0.9), ((2, 3), 6, 0.3), ((4,), 5, 1.0), ((5,), 30, 0.95)):
        p = (2 * random(*lead, d_vocab, seed=3)).softmax(-1)
        result = tensor(answer(p, share), tuple(p.shape), "as the probabilities")
        demand(
            close(result, _nucleus(p, share)),
            f"it fails for probabilities of shape {list(p.shape)} and a share of {share}: each last axis by itself.",
        )


def _kept(answer: Answer, p: Tensor, share: float, count: int) -> None:
    """Demand the right result for one distribution, of which so many tokens are to be kept."""
    raw = answer(p, share)
    told = f"of {[round(one, 4) for one in p.tolist()]} and a share of {share}"
    demand(
        not (isinstance(raw, Tensor) and raw.isnan().any()),
        f"{told} it keeps no token at all, and divides by 0: the most probable one is always kept.",
    )
    result = tensor(raw, tuple(p.shape), "as the probabilities")
    found = int((result > 1e-7).sum())
    demand(
        found == count or result[p.argmax()] > 1e-7,
        f"{told} it keeps {found}, and drops the most probable: sort with `descending=True`.",
    )
    demand(found == count, f"{told} it keeps {found}; the fewest tokens that reach the share: {count}.")
    demand(
        p[result > 1e-7].min() >= p[result <= 1e-7].max() if found < len(p) else True,
        f"{told} it drops a token that is more probable than one it keeps: put them back in their places.",
    )
    demand(
        close(result.sum(), 1.0),
        f"{told} what it keeps sums to {result.sum():.4f}: divide by the sum, so that it is 1.",
    )
    kept = torch.where(result > 1e-7, p, 0.0)
    demand(close(result, kept / kept.sum()), f"{told} the kept tokens change their proportions: divide, no softmax.")


def _nucleus(p: Tensor, share: float) -> Tensor:
    values, order = p.sort(-1, descending=True)
    values = values * (values.cumsum(-1) - values < share)
    kept = torch.zeros_like(p).scatter(-1, order, values)
    return kept / kept.sum(-1, keepdim=True)


def _renormed(kept: Tensor) -> Tensor:
    return kept / kept.sum(-1, keepdim=True)


def _sorted_mask(p: Tensor, keep: Callable[[Tensor], Tensor]) -> Tensor:
    """Keeps those for which `keep(sorted values)` is true, in their places."""
    values, order = p.sort(-1, descending=True)
    return torch.zeros_like(p).scatter(-1, order, values * keep(values))


def _least_probable(p: Tensor, share: float) -> Tensor:
    values, order = p.sort(-1)
    return _renormed(torch.zeros_like(p).scatter(-1, order, values * (values.cumsum(-1) - values < share)))


def _zeroing(p: Tensor, share: float) -> Tensor:
    result = _nucleus(p, share)
    p[result == 0] = 0
    return result


top_p.mistakes = {
    "not divided": (
        lambda p, share: _sorted_mask(p, lambda v: v.cumsum(-1) - v < share),
        "divide by the sum, so that it is 1",
    ),
    "one too few": (lambda p, share: _renormed(_sorted_mask(p, lambda v: v.cumsum(-1) < share)), "it keeps no token"),
    "up to the share": (
        lambda p, share: _renormed(_sorted_mask(p, lambda v: v.cumsum(-1) <= share)),
        "the fewest tokens that reach the share: 2",
    ),
    "one too many": (
        lambda p, share: _renormed(_sorted_mask(p, lambda v: v.cumsum(-1) - v <= share)),
        "the fewest tokens that reach the share: 1",
    ),
    "a threshold": (lambda p, share: _renormed(p * (p >= share)), "it keeps no token at all"),
    "left sorted": (
        lambda p, share: _renormed((v := p.sort(-1, descending=True).values) * (v.cumsum(-1) - v < share)),
        "put them back in their places",
    ),
    "the least probable": (_least_probable, "sort with `descending=True`"),
    "not sorted": (
        lambda p, share: _renormed(p * (p.cumsum(-1) - p < share)),
        "the fewest tokens that reach the share: 1",
    ),
    "softmax": (
        lambda p, share: torch.where(_nucleus(p, share) > 0, p, -torch.inf).softmax(-1),
        "the kept tokens change their proportions",
    ),
    "a share of the tokens": (
        lambda p, share: _renormed(
            _sorted_mask(p, lambda v: (torch.arange(v.shape[-1]) < share * v.shape[-1]).expand(v.shape))
        ),
        "the fewest tokens that reach the share: 1",
    ),
    "nothing dropped": (lambda p, share: p.clone(), "the fewest tokens that reach the share: 1"),
    "greedy": (
        lambda p, share: F.one_hot(p.argmax(-1), p.shape[-1]).float(),
        "the fewest tokens that reach the share: 2",
    ),
    "all texts as one": (
        lambda p, share: _nucleus(p.flatten(), share).view(p.shape),
        "each last axis by itself",
    ),
    "p changed": (_zeroing, "it changes `p`, which it was given"),
}
