"""Checks of lesson 01, the transformer: each exercise, then its typical mistakes with the sentence each must get."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils import gpt
from course_utils.check.exercises import Answer, exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Operations, Unfit, Wrong, close, demand, number, pair, tensor


def _fit_for_training(answer: Answer, x: tuple[int, int, int], *weights: tuple[int, ...]) -> None:
    """Raise Unfit if training could not call a right answer: no gradient in double precision, or loops over places."""
    operations_at = {}
    for n in (1, x[1]):
        given = [random(*shape, seed=seed) for seed, shape in enumerate(((x[0], n, x[2]), *weights))]
        inputs = [value.double().requires_grad_() for value in given]
        try:
            with Operations() as made:
                result = answer(*inputs)
            out = result if isinstance(result, Tensor) else result[0]
            gradients = torch.autograd.grad(out.sum(), inputs, allow_unused=True)
        except (Wrong, RuntimeError):  # such as .numpy() on a tensor that wants a gradient
            gradients = ()
        if not gradients or any(gradient is None for gradient in gradients):
            raise Unfit("training needs gradients through it, in double precision, and does not get them")
        operations_at[n] = made.count
    if (more := operations_at[x[1]] - operations_at[1]) > 50:
        raise Unfit(f"training would be slow: for {x[1]} tokens it makes {more:,} operations more than for 1, by loops")


@exercise
def merge(answer: Answer) -> None:
    """`merge(tokens, pair) → tokens`: one step of byte-pair encoding on a list of strings."""

    def asked(tokens: list[str], both: tuple[str, str]) -> list[str]:
        result = answer(list(tokens), both)
        if not isinstance(result, list | tuple) or not all(isinstance(token, str) for token in result):
            raise Wrong(f"it should return a list of strings, not {_kind(result)}.")
        demand(
            "".join(result) == "".join(tokens),
            f"the tokens {tokens} spell {''.join(tokens)!r}, and what comes back spells {''.join(result)!r}.",
        )
        return list(result)

    untouched = ["a", "c", "b"]
    demand(asked(untouched, ("a", "b")) == untouched, "a and b are no neighbours in [a, c, b], so nothing may change.")
    untouched = ["ab", "c", "b", "a"]
    demand(
        asked(untouched, ("a", "b")) == untouched,
        "in [ab, c, b, a] no a stands before a b: the order of the pair counts.",
    )
    demand(
        asked(untouched, ("b", "c")) == untouched,
        "in [ab, c, b, a] no token b stands before a token c: only whole tokens may be merged.",
    )
    untouched = ["a", "bc", "d"]
    demand(
        asked(untouched, ("ab", "c")) == untouched and asked(untouched, ("a", "b")) == untouched,
        "in [a, bc, d] stand neither ab and c nor a and b: compare the two tokens, not what they spell together.",
    )
    demand(len(asked(["a", "b", "c"], ("a", "b"))) == 2, "a and b stand side by side in [a, b, c] and are not merged.")
    demand(len(asked(["c", "a", "b"], ("a", "b"))) == 2, "the pair at the end of the list was not merged.")
    for tokens in (["a", "b", "c", "a", "b"], ["a", "b", "a", "b"]):
        demand(
            len(asked(tokens, ("a", "b"))) == len(tokens) - 2,
            f"the pair (a, b) stands twice in {tokens}, and every occurrence should be merged, once.",
        )
    result = asked(["a", "a", "a"], ("a", "a"))
    demand(result == ["aa", "a"], "of a, a, a the first two become one token, and the third is left: go left to right.")
    choices = torch.randint(5, (200, 6), generator=torch.Generator().manual_seed(0)).tolist()
    for number_, choice in enumerate(choices):  # short lists of tokens that contain each other
        tokens = [("a", "b", "ab", "ba", "aa")[index] for index in choice[: 1 + number_ % 6]]
        both = (("a", "b"), ("a", "a"), ("ab", "a"), ("b", "ab"), ("aa", "aa"))[number_ % 5]
        result = asked(tokens, both)
        demand(result == gpt.merge(tokens, both), f"of {tokens} and the pair {both} it makes {result}.")


def _kind(result: object) -> str:
    inside = [type(part).__name__ for part in result if not isinstance(part, str)] if isinstance(result, list) else []
    return f"a list with {inside[0]}" if inside else type(result).__name__


def _first_only(tokens: list[str], wanted: tuple[str, str]) -> list[str]:
    for i in range(len(tokens) - 1):
        if (tokens[i], tokens[i + 1]) == wanted:
            return [*tokens[:i], wanted[0] + wanted[1], *tokens[i + 2 :]]
    return list(tokens)


def _overlapping(tokens: list[str], wanted: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for i, token in enumerate(tokens):
        if (token, *tokens[i + 1 : i + 2]) == wanted:
            merged.append(wanted[0] + wanted[1])
        elif not i or (tokens[i - 1], token) != wanted:
            merged.append(token)
    return merged


def _walked(tokens: list[str], wanted: tuple[str, str], stop: int, tail: int) -> list[str]:
    """From left to right up to `stop` from the end, and no pair in the last `tail` tokens."""
    merged: list[str] = []
    i = 0
    while i < len(tokens) - stop:
        both = i < len(tokens) - tail and (tokens[i], tokens[i + 1]) == wanted
        merged.append(tokens[i] + tokens[i + 1] if both else tokens[i])
        i += 1 + both
    return merged


def _in_place(tokens: list[str], wanted: tuple[str, str]) -> list[str]:
    i = 0
    while i < len(tokens) - 1:
        if (tokens[i], tokens[i + 1]) == wanted:
            tokens[i : i + 2] = [wanted[0] + wanted[1]]
        i += 1
    return tokens


def _in_the_text(tokens: list[str], wanted: tuple[str, str]) -> list[str]:
    text, both = "".join(tokens), "".join(wanted)
    merged: list[str] = []
    while text:
        piece = both if text.startswith(both) else text[0]
        merged, text = [*merged, piece], text[len(piece) :]
    return merged


def _right_to_left(tokens: list[str], wanted: tuple[str, str]) -> list[str]:
    merged = gpt.merge([token[::-1] for token in tokens[::-1]], (wanted[1][::-1], wanted[0][::-1]))
    return [token[::-1] for token in merged[::-1]]


def _appended_if(holds: Callable[[str, str, tuple[str, str]], bool]) -> Answer:
    """Lengthens the last token where `holds(last, token, pair)`."""

    def answer(tokens: list[str], wanted: tuple[str, str]) -> list[str]:
        merged: list[str] = []
        for token in tokens:
            if merged and holds(merged[-1], token, wanted):
                merged[-1] += token
            else:
                merged.append(token)
        return merged

    return answer


merge.mistakes = {
    "only the first": (_first_only, "every occurrence should be merged"),
    "overlapping": (_overlapping, "the tokens ['a', 'a', 'a'] spell 'aaa'"),
    "second token kept": (
        lambda tokens, wanted: [
            a + b if (a, b) == wanted else a for a, b in zip(tokens, [*tokens[1:], ""], strict=True)
        ],
        "what comes back spells 'abbc'",
    ),
    "last token lost": (lambda tokens, wanted: _walked(tokens, wanted, 1, 1), "what comes back spells 'ac'"),
    "last pair missed": (lambda tokens, wanted: _walked(tokens, wanted, 0, 2), "the pair at the end of the list"),
    "in place": (_in_place, "it changes `tokens"),
    "characters, not tokens": (_in_the_text, "only whole tokens may be merged"),
    "what they spell together": (
        _appended_if(lambda last, token, wanted: last + token == "".join(wanted)),
        "compare the two tokens, not what they spell",
    ),
    "the end of the last token": (
        _appended_if(lambda last, token, wanted: last.endswith(wanted[0]) and token == wanted[1]),
        "only whole tokens may be merged",
    ),
    "the beginning of the next token": (
        _appended_if(lambda last, token, wanted: last == wanted[0] and token.startswith(wanted[1])),
        "compare the two tokens, not what they spell",
    ),
    "any neighbour of the first": (
        _appended_if(lambda last, token, wanted: last == wanted[0]),
        "a and b are no neighbours",
    ),
    "right to left": (_right_to_left, "go left to right"),
    "either order": (
        lambda tokens, wanted: gpt.merge(gpt.merge(tokens, wanted), wanted[::-1]),
        "the order of the pair counts",
    ),
    "again what was merged": (
        lambda tokens, wanted: gpt.merge(gpt.merge(tokens, wanted), ("".join(wanted), "".join(wanted))),
        "every occurrence should be merged, once",
    ),
    "nothing merged": (lambda tokens, wanted: list(tokens), "and are not merged"),
    "a text": (lambda tokens, wanted: "".join(tokens), "a list of strings, not str"),
    "tuples": (
        lambda tokens, wanted: [wanted if token == "".join(wanted) else token for token in gpt.merge(tokens, wanted)],
        "not a list with tuple",
    ),
    "pairs kept apart": (
        lambda tokens, wanted: [t for t in gpt.merge(tokens, wanted) if t == "".join(wanted)],
        "what comes back spells ''",
    ),
}


@exercise
def lm_loss(answer: Answer) -> None:
    """`lm_loss(logits, tokens) → scalar`: mean of −log p(next token), in nats."""
    tokens = torch.tensor([[0, 3, 1, 4, 2], [0, 2, 2, 1, 3]])
    logits = random(2, 5, 6)

    def loss(logits: Tensor, tokens: Tensor = tokens) -> float:
        result = answer(logits, tokens)
        if isinstance(result, Tensor) and result.numel() > 1:
            raise Wrong(f"it returns {result.numel()} numbers; take the mean over all predictions of all texts.")
        return number(result)

    demand(loss(logits) > 0, "a loss is −log p, so it is never below 0.")
    uniform = loss(torch.zeros(2, 5, 6))
    demand(not close(uniform, math.log2(6)), "that is in bits: take the natural logarithm.")
    demand(
        close(uniform, math.log(6)),
        f"if all 6 tokens get the same logit, the loss is ln 6 = 1.792 nats, not {uniform:.3f}.",
    )
    demand(
        close(loss(logits + 3), loss(logits)),
        "adding 3 to all logits changes no probability, so it should not change the loss: take the softmax first.",
    )

    def sure_of(targets: Tensor) -> float:
        return loss(30 * F.one_hot(targets, 6).float())  # e³⁰ is a number in single precision

    own, before, after = tokens, tokens.roll(1, 1), tokens.roll(-1, 1)
    demand(
        sure_of(own) > 1, "the loss is 0 for logits that name the token they stand on; it is the next one that counts."
    )
    demand(sure_of(before) > 1, "the loss is 0 for logits that name the token before: that shift goes the wrong way.")
    changed = logits.clone()
    changed[:, -1] = random(2, 6, seed=1)
    demand(close(loss(changed), loss(logits)), "the logits at the last position have no next token, yet they count.")
    demand(close(sure_of(after), 0), "the loss should be 0 for logits that name every next token for certain.")
    for text, position in itertools.product(range(2), range(4)):
        changed = logits.clone()
        changed[text, position] += random(6, seed=1)
        demand(
            not close(loss(changed), loss(logits)),
            f"the prediction at position {position} of text {text} does not count: each but the last should.",
        )
    _right_with_gradient(answer, loss)
    worst = F.cross_entropy(30 * F.one_hot(own, 6).float()[:, :-1].flatten(0, 1), own[:, 1:].flatten())
    demand(
        close(sure_of(own), worst),
        f"being sure of the wrong tokens should cost {worst:.1f} nats here: add nothing to p, and cut nothing off.",
    )


def _right_with_gradient(answer: Answer, loss: Callable[..., float]) -> None:
    """Demand the mean and its gradient for random logits of several sizes."""
    for shape in ((2, 5, 6), (1, 2, 9), (4, 7, 3)):
        logits = random(*shape, seed=2).requires_grad_()
        tokens = torch.randint(shape[2], shape[:2], generator=torch.Generator().manual_seed(0))
        expected = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        demand(
            close(loss(logits, tokens), expected), "that is not the mean of −log p over all predictions of all texts."
        )
        result = answer(logits, tokens)
        followed = isinstance(result, Tensor) and result.requires_grad
        (gradient,) = torch.autograd.grad(result.sum(), logits, allow_unused=True) if followed else (None,)
        demand(
            gradient is not None and close(gradient, torch.autograd.grad(expected, logits)[0]),
            "it should return a tensor whose gradient can be followed: leave out .item(), float(), detach() and numpy.",
        )


def _picked(values: Tensor, tokens: Tensor) -> Tensor:
    return values[:, :-1].gather(-1, tokens[:, 1:, None])


def _normalising(logits: Tensor, tokens: Tensor) -> Tensor:
    logits -= logits.logsumexp(-1, keepdim=True)
    return -_picked(logits, tokens).mean()


def _without_gradients(logits: Tensor, tokens: Tensor) -> Tensor:
    torch.set_grad_enabled(False)
    return gpt.lm_loss(logits, tokens)


lm_loss.mistakes = {
    "unshifted": (
        lambda p, t: F.cross_entropy(p.flatten(0, 1), t.flatten()),
        "logits that name the token they stand on",
    ),
    "shifted the wrong way": (
        lambda p, t: F.cross_entropy(p[:, 1:].flatten(0, 1), t[:, :-1].flatten()),
        "that shift goes the wrong way",
    ),
    "the last prediction meets the first token": (
        lambda p, t: F.cross_entropy(p.flatten(0, 1), t.roll(-1, 1).flatten()),
        "the logits at the last position have no next token",
    ),
    "only the last prediction": (lambda p, t: F.cross_entropy(p[:, -2], t[:, -1]), "at position 0 of text 0"),
    "the first prediction left out": (
        lambda p, t: F.cross_entropy(p[:, 1:-1].flatten(0, 1), t[:, 2:].flatten()),
        "at position 0 of text 0 does not count",
    ),
    "the first text only": (lambda p, t: gpt.lm_loss(p[:1], t[:1]), "at position 0 of text 1 does not count"),
    "median": (lambda p, t: -_picked(p.log_softmax(-1), t).median(), "at position 0 of text 0 does not count"),
    "summed": (lambda p, t: -_picked(p.log_softmax(-1), t).sum(), "the loss is ln 6 = 1.792 nats, not 14.334"),
    "summed over each text": (
        lambda p, t: -_picked(p.log_softmax(-1), t).sum(1).mean(),
        "ln 6 = 1.792 nats, not 7.167",
    ),
    "sign": (lambda p, t: _picked(p.log_softmax(-1), t).mean(), "it is never below 0"),
    "a probability": (lambda p, t: -_picked(p.softmax(-1), t).mean(), "it is never below 0"),
    "one minus a probability": (lambda p, t: 1 - _picked(p.softmax(-1), t).mean(), "1.792 nats, not 0.833"),
    "mean before the logarithm": (
        lambda p, t: -_picked(p.softmax(-1), t).mean().log(),
        "that is not the mean of −log p",
    ),
    "no softmax": (lambda p, t: -_picked(p, t).mean() + 9, "1.792 nats, not 9.000"),
    "softmax over positions": (lambda p, t: -_picked(p.log_softmax(1), t).mean(), "1.792 nats, not 1.609"),
    "a little added to p": (
        lambda p, t: -(_picked(p.softmax(-1), t) + 1e-9).log().mean(),
        "add nothing to p, and cut nothing off",
    ),
    "softmax twice": (lambda p, t: gpt.lm_loss(p.softmax(-1), t), "logits that name every next token for certain"),
    "in bits": (lambda p, t: gpt.lm_loss(p, t) / math.log(2), "that is in bits"),
    "no gradient": (lambda p, t: gpt.lm_loss(p, t).item(), "leave out .item(), float(), detach()"),
    "a gradient to nowhere": (
        lambda p, t: torch.tensor(gpt.lm_loss(p, t).item(), requires_grad=True),
        "a tensor whose gradient can be followed",
    ),
    "one per token": (lambda p, t: -_picked(p.log_softmax(-1), t), "it returns 8 numbers"),
    "one per text": (lambda p, t: -_picked(p.log_softmax(-1), t).mean((1, 2)), "it returns 2 numbers"),
    "in place": (_normalising, "it changes `logits`, which it was given"),
    "gradients switched off": (_without_gradients, "it leaves gradients switched on or off"),
}


@exercise
def layer_norm(answer: Answer) -> None:
    """`layer_norm(x, w, b, eps) → x`: mean 0 and variance 1 over the last axis, then times w plus b."""
    x, w, b = 2 * random(3, 4, 8) + 1, torch.ones(8), torch.zeros(8)
    means = "[batch, pos, d_model]"

    def asked(x: Tensor, w: Tensor, b: Tensor, eps: float) -> Tensor:
        return tensor(answer(x, w, b, eps), tuple(x.shape), means)

    result = asked(x, w, b, 1e-5)
    first, sample = result.mean(-1), result.var(-1)
    demand(
        first.abs().max() < 1e-4,
        f"with w = 1 and b = 0 each vector's mean should be 0; the first one's is {first[0, 0]:.3f}.",
    )
    squares = result.pow(2).mean(-1)
    demand(
        not close(squares, torch.full((3, 4), 1 / 8)),
        "each vector gets length 1; its variance should be 1, not its sum.",
    )
    demand(
        not close(sample, torch.ones(3, 4)),
        "the variance is the mean of the squares: divide by d_model, not by one less.",
    )
    demand(
        (squares - 1).abs().max() < 1e-3,
        f"with w = 1 and b = 0 each vector's variance should be 1; the first one's is {squares[0, 0]:.3f}.",
    )
    still = answer(torch.full((1, 1, 8), 3.0), w, b, 1e-5)
    broken = isinstance(still, Tensor) and not still.isfinite().all()
    demand(
        not broken and close(tensor(still, (1, 1, 8), means), torch.zeros(1, 1, 8)),
        "a vector of equal entries has variance 0; `eps` is there to prevent 0/0.",
    )
    two = torch.tensor([[[1.0, -1, 1, -1, 1, -1, 1, -1]]]) * 3**0.5  # mean 0, variance 3
    value = asked(two, w, b, 1.0).abs().mean().item()
    demand(not close(value, 1), "`eps` makes no difference: use the one that your function is given.")
    demand(
        close(value, (3 / 4) ** 0.5),
        "`eps` is added to the variance, inside the square root: variance 3 and eps 1 make a divisor of 2.",
    )
    _right_weights(asked, x, result)
    for shape, eps in (((1, 6, 5), 0.3), ((7, 1, 3), 1e-5), ((2, 9, 16), 0.02)):
        x, w, b = random(*shape), random(shape[2], seed=1), random(shape[2], seed=2)
        demand(
            close(asked(x, w, b, eps), F.layer_norm(x, shape[2:], w, b, eps)),
            f"it fails for x of shape {list(shape)} and eps {eps}: each position of each text is normed by itself.",
        )
    _fit_for_training(lambda x, w, b: answer(x, w, b, 1e-5), (2, 16, 8), (8,), (8,))


def _right_weights(asked: Callable[..., Tensor], x: Tensor, result: Tensor) -> None:
    """Demand that w multiplies what comes out without weights, and that b is added after that."""
    w, b = random(8, seed=1), random(8, seed=2)
    demand(
        close(asked(x, w, torch.zeros(8), 1e-5), result * w),
        "w should multiply the normalised vector, entry by entry.",
    )
    demand(
        close(asked(x, w, b, 1e-5), result * w + b),
        "b should be added last, after the product with w.",
    )


def _normed(
    x: Tensor, w: Tensor | float, b: Tensor | float, eps: float, axis: int | tuple = -1, correction: int = 0
) -> Tensor:
    x = x - x.mean(axis, keepdim=True)
    return x / (x.var(axis, keepdim=True, correction=correction) + eps).sqrt() * w + b


def _centring_x(x: Tensor, w: Tensor, b: Tensor, eps: float) -> Tensor:
    x -= x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * w + b


layer_norm.mistakes = {
    "unbiased": (lambda x, w, b, eps: _normed(x, w, b, eps, correction=1), "divide by d_model, not by one less"),
    "over positions": (lambda x, w, b, eps: _normed(x, w, b, eps, axis=1), "each vector's mean should be 0"),
    "over everything": (lambda x, w, b, eps: _normed(x, w, b, eps, axis=(0, 1, 2)), "each vector's mean should be 0"),
    "no mean": (
        lambda x, w, b, eps: x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * w + b,
        "each vector's mean should be 0",
    ),
    "mean only": (lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) * w + b, "each vector's variance should be 1"),
    "divided by the variance": (
        lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps) * w + b,
        "each vector's variance should be 1",
    ),
    "eps outside the root": (
        lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, correction=0) + eps) * w + b,
        "is added to the variance, inside the square root",
    ),
    "no eps": (lambda x, w, b, eps: _normed(x, w, b, 0), "is there to prevent 0/0"),
    "eps fixed": (lambda x, w, b, eps: _normed(x, w, b, 1e-5), "use the one that your function is given"),
    "no weight": (lambda x, w, b, eps: _normed(x, 1, b, eps), "w should multiply the normalised vector"),
    "no bias": (lambda x, w, b, eps: _normed(x, w, 0, eps), "b should be added last"),
    "bias before the weight": (lambda x, w, b, eps: (_normed(x, 1, 0, eps) + b) * w, "b should be added last"),
    "one text's mean for all": (
        lambda x, w, b, eps: _normed(x[:1], w, b, eps).expand_as(x),
        "each position of each text is normed by itself",
    ),
    "length 1": (
        lambda x, w, b, eps: F.normalize(x - x.mean(-1, keepdim=True), dim=-1) * w + b,
        "each vector gets length 1",
    ),
    "x changed": (_centring_x, "it changes `x`, which it was given"),
}


@exercise
def attention(answer: Answer) -> None:
    """`attention(x, W_Q, W_K, W_V, W_O) → (out, pattern)`: causal, scaled by 1/√d_head, summed over heads."""
    n, d_in, d_head, heads, d_model = 5, 6, 4, 3, 7
    x, *weights = _attention_inputs(2, n, d_in, d_head, heads, d_model)
    W_Q, W_K, W_V, W_O = weights

    def asked(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> tuple[Tensor, Tensor]:
        out, pattern = pair(answer(x, W_Q, W_K, W_V, W_O), "the output and the pattern")
        if isinstance(pattern, Tensor) and pattern.ndim == 4 and pattern[:, :, 0].isnan().all():
            raise Wrong("position 0 has nothing left to look at: may a position attend to itself?")
        batch, n, _ = x.shape
        return (
            tensor(out, (batch, n, W_O.shape[2]), "[batch, pos, d_model]"),
            tensor(pattern, (batch, len(W_O), n, n), "[batch, head, destination, source]"),
        )

    out, pattern = asked(x, *weights)
    _causal_rows(pattern)
    level = asked(x, 0 * W_Q, W_K, W_V, W_O)[1][0, 0, -1]
    demand(
        close(level, torch.full((n,), 1 / n)), "if all scores are equal, the last position should look at all alike."
    )
    _right_pattern(x, weights, pattern)
    edited = x.clone()
    edited[:, 3] += 1
    demand(
        close(asked(edited, *weights)[0][:, :3], out[:, :3]),
        "editing position 3 changes the output at an earlier one: weight the values by the destination's row.",
    )
    first = torch.einsum("bm,hmd,hdn->hbn", x[:, 0], W_V, W_O)
    demand(
        not close(out[:, 0], first.mean(0)) and not any(close(out[:, 0], one) for one in first),
        "the outputs of all heads should be added up: not one of them, and not their mean.",
    )
    demand(
        close(out[:, 0], first.sum(0)),
        "position 0 can only look at itself, so its output is its value through W_O, summed over heads.",
    )
    demand(
        close(out, torch.einsum("bhqk,bkm,hmd,hdn->bqn", pattern, x, W_V, W_O)),
        "the pattern is right, and the output is not the values, weighted by it and passed through W_O.",
    )
    for sizes in ((1, 8, 3, 9, 2, 5), (3, 1, 4, 2, 1, 6), (2, 6, 5, 1, 4, 5)):
        given = _attention_inputs(*sizes)
        given[0] *= 1.5  # scores of many tens, which a mask of −20 would not hide
        names = dict(zip(("batch", "pos", "d_in", "d_head", "heads", "d_model"), sizes, strict=True))
        told = ", ".join(f"{name} {size}" for name, size in names.items())
        for mine, right in zip(asked(*given), gpt.attention(*given), strict=True):
            demand(close(mine, right), f"it fails for other sizes: {told}.")
    _fit_for_training(answer, (2, 16, 8), *[(3, 8, 4)] * 3, (3, 4, 8))


def _causal_rows(pattern: Tensor) -> None:
    """Demand rows that sum to 1, over the position itself and those before it."""
    demand((pattern >= 0).all(), "attention is never below 0: take the softmax of the scores.")
    n = pattern.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    sums = pattern.sum(-1)
    demand(
        not close(pattern.sum(-2), torch.ones_like(sums)),
        "each column of the pattern sums to 1; the sources are on the columns, so each row should.",
    )
    demand((pattern[..., later] < 1e-6).all(), "a destination attends to a source that comes after it.")
    demand(
        (pattern.diagonal(dim1=-2, dim2=-1) > 0).all(),
        "a position gives itself no attention: may it not look at itself?",
    )
    worst = sums.flatten()[(sums - 1).abs().argmax()]
    demand(
        close(sums, torch.ones_like(sums)),
        f"the attention of one destination should sum to 1, and one sums to {worst:.3f}: mask before the softmax.",
    )


def _attention_inputs(batch: int, n: int, d_in: int, d_head: int, heads: int, d_model: int) -> list[Tensor]:
    W_Q, W_K, W_V = (random(heads, d_in, d_head, seed=seed) for seed in (1, 2, 3))
    return [random(batch, n, d_in), W_Q, W_K, W_V, random(heads, d_head, d_model, seed=4)]


def _right_pattern(x: Tensor, weights: list[Tensor], pattern: Tensor) -> None:
    """Demand that a causal pattern whose rows sum to 1 is the softmax of q · k / √d_head."""
    W_Q, W_K, _, W_O = weights
    d_in, d_head = W_Q.shape[1:]
    later = torch.ones(pattern.shape[-2:], dtype=torch.bool).triu(1)

    def with_scores(scale: float, W_Q: Tensor = W_Q, W_K: Tensor = W_K) -> Tensor:
        scores = torch.einsum("bqm,hmd,hnd,bkn->bhqk", x, W_Q, W_K, x) * scale
        return scores.masked_fill(later, -torch.inf).softmax(-1)

    for scale, name in ((1, "not divided at all"), (1 / d_head, "divided by d_head"), (d_head**0.5, "multiplied")):
        demand(not close(pattern, with_scores(scale)), f"the scores are {name}: divide them by √d_head.")
    demand(
        not close(pattern, with_scores(d_in**-0.5)),
        "the scores are divided by the square root of the input's width: d_head is the length of a query.",
    )
    demand(
        not any(close(pattern, with_scores(k**-0.5)) for k in (len(W_Q), W_O.shape[2], len(W_Q) * d_head)),
        "the scores are divided by the root of another size: d_head is the length of a query, W_Q's last axis.",
    )
    demand(
        not close(pattern, with_scores(d_head**-0.5, W_K, W_Q)),
        "queries and keys are exchanged: the destination asks (W_Q), the source answers (W_K).",
    )
    demand(
        close(pattern, with_scores(d_head**-0.5)),
        "the pattern is causal and sums to 1, but it is not the softmax of q · k / √d_head.",
    )


def _attends(
    x: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    scale: float | None = None,
    mask: int = 1,
    axis: int = -1,
    hide: float = -torch.inf,
    late: bool = False,
    through: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The right answer, with one thing to get wrong in each keyword."""
    q, k, v = (torch.einsum("bpm,hmd->bhpd", x, W) for W in (W_Q, W_K, W_V))
    scores = q @ k.mT * (W_Q.shape[-1] ** -0.5 if scale is None else scale)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(mask)
    pattern = scores.softmax(axis) * ~hidden if late else scores.masked_fill(hidden, hide).softmax(axis)
    return through(pattern, v) if through else torch.einsum("bhpd,hdm->bpm", pattern @ v, W_O), pattern


def _attention_with(**wrong: Any) -> Answer:
    return lambda *weights: _attends(*weights, **wrong)


def _scaled(scale: Callable[[Tensor, Tensor, Tensor], float]) -> Answer:
    """The scores times `scale(x, W_Q, W_O)`."""
    return lambda x, W_Q, W_K, W_V, W_O: _attends(x, W_Q, W_K, W_V, W_O, scale=scale(x, W_Q, W_O))


def _output_with(make: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Answer:
    """Right pattern, and an output that `make(pattern, v, W_O)` gets wrong."""
    return lambda x, W_Q, W_K, W_V, W_O: _attends(x, W_Q, W_K, W_V, W_O, through=lambda A, v: make(A, v, W_O))


def _scrambled(A: Tensor, v: Tensor, W_O: Tensor) -> Tensor:
    z = (A @ v).flatten(1, 2).unflatten(1, (A.shape[-1], -1))  # the axes of head and position without a transpose
    return torch.einsum("bphd,hdm->bpm", z, W_O)


def _summed(z: Tensor, W_O: Tensor) -> Tensor:
    return torch.einsum("bhpd,hdm->bpm", z, W_O)


def _backwards(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> tuple[Tensor, Tensor]:
    out, pattern = gpt.attention(x.flip(1), W_Q, W_K, W_V, W_O)
    return out.flip(1), pattern.flip(-2, -1)


def _scaling_W_Q(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> tuple[Tensor, Tensor]:
    W_Q /= W_Q.shape[-1] ** 0.5
    return _attends(x, W_Q, W_K, W_V, W_O, scale=1)


def _scores_returned(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> tuple[Tensor, Tensor]:
    return gpt.attention(x, W_Q, W_K, W_V, W_O)[0], torch.einsum("bqm,hmd,hnd,bkn->bhqk", x, W_Q, W_K, x)


attention.mistakes = {
    "softmax over destinations": (_attention_with(axis=-2), "each column of the pattern sums to 1"),
    "no scale": (_attention_with(scale=1), "the scores are not divided at all"),
    "divided by d_head": (_scaled(lambda x, W_Q, W_O: 1 / W_Q.shape[-1]), "the scores are divided by d_head"),
    "multiplied": (_scaled(lambda x, W_Q, W_O: W_Q.shape[-1] ** 0.5), "the scores are multiplied"),
    "√d_in": (_scaled(lambda x, W_Q, W_O: x.shape[-1] ** -0.5), "the square root of the input's width"),
    "√d_model": (_scaled(lambda x, W_Q, W_O: W_O.shape[-1] ** -0.5), "by the root of another size"),
    "√heads": (_scaled(lambda x, W_Q, W_O: len(W_Q) ** -0.5), "by the root of another size"),
    "√d over all heads": (
        _scaled(lambda x, W_Q, W_O: (len(W_Q) * W_Q.shape[-1]) ** -0.5),
        "by the root of another size",
    ),
    "scaled for d_head 4": (_attention_with(scale=0.5), "it fails for other sizes"),
    "the mask hides the position itself": (_attention_with(mask=0), "position 0 has nothing left"),
    "the mask is late by one": (_attention_with(mask=2), "attends to a source that comes after it"),
    "no mask": (_attention_with(mask=99), "attends to a source that comes after it"),
    "the past is hidden": (_backwards, "attends to a source that comes after it"),
    "masked with 0": (_attention_with(hide=0), "attends to a source that comes after it"),
    "masked with −20": (_attention_with(hide=-20.0), "attends to a source that comes after it"),
    "masked after the softmax": (_attention_with(late=True), "mask before the softmax"),
    "queries and keys exchanged": (
        lambda x, W_Q, W_K, *rest: _attends(x, W_K, W_Q, *rest),
        "queries and keys are exchanged",
    ),
    "no softmax": (
        lambda *given: (gpt.attention(*given)[0], _scores_returned(*given)[1].tril()),
        "take the softmax of the scores",
    ),
    "the scores are returned": (_scores_returned, "take the softmax of the scores"),
    "pattern transposed in the output": (
        _output_with(lambda A, v, W_O: _summed(A.mT @ v, W_O)),
        "weight the values by the destination's row",
    ),
    "every source alike": (
        _output_with(lambda A, v, W_O: _summed((A > 0) / (A > 0).sum(-1, keepdim=True) @ v, W_O)),
        "the output is not the values, weighted by it",
    ),
    "keys for values": (
        lambda x, W_Q, W_K, W_V, W_O: gpt.attention(x, W_Q, W_K, W_K, W_O),
        "its output is its value through W_O",
    ),
    "mean of the heads": (_output_with(lambda A, v, W_O: _summed(A @ v, W_O) / len(W_O)), "and not their mean"),
    "one head": (_output_with(lambda A, v, W_O: (A @ v)[:, 0] @ W_O[0]), "the outputs of all heads should be added"),
    "heads and positions scrambled": (_output_with(_scrambled), "editing position 3 changes the output"),
    "W_O of another head": (_output_with(lambda A, v, W_O: _summed(A @ v, W_O.flip(0))), "position 0 can only look"),
    "x added": (
        lambda x, *weights: ((result := gpt.attention(x, *weights))[0] + x.mean(-1, keepdim=True), result[1]),
        "position 0 can only look at itself",
    ),
    "no W_O": (lambda *given: ((A := gpt.attention(*given)[1]) @ given[0][:, None], A), "the result has shape"),
    "one per head": (_output_with(lambda A, v, W_O: torch.einsum("bhpd,hdm->bhpm", A @ v, W_O)), "[2, 5, 7], [batch"),
    "the pattern is not returned": (lambda *given: gpt.attention(*given)[0], "it should return two things"),
    "the pattern first": (lambda *given: gpt.attention(*given)[::-1], "[batch, pos, d_model]"),
    "heads on the third axis": (
        lambda *given: ((result := gpt.attention(*given))[0], result[1].transpose(1, 2)),
        "[batch, head, destination, source]",
    ),
    "W_Q changed": (_scaling_W_Q, "it changes `W_Q`, which it was given"),
}


@exercise
def mlp(answer: Answer) -> None:
    """`mlp(x, W_in, b_in, W_out, b_out) → x`: GELU between two affine maps."""
    means = "[batch, pos, d_model]"
    x, W_in, W_out = random(2, 3, 4), random(4, 16, seed=1), random(16, 4, seed=2)
    b_in, b_out = random(16, seed=3), random(4, seed=4)
    whole = tensor(answer(x, W_in, b_in, W_out, b_out), (2, 3, 4), means)
    edited = x.clone()
    edited[0, 1] += 1
    change = (tensor(answer(edited, W_in, b_in, W_out, b_out), (2, 3, 4), means) - whole).abs().sum(-1)
    change[0, 1] = 0
    demand(change.max() < 1e-4, "editing one position changes the result at another; an MLP treats each by itself.")
    silent = tensor(answer(x, 0 * W_in, 0 * b_in, 0 * W_out, b_out), (2, 3, 4), means)
    demand(
        not close(silent, x + b_out), "it adds x to its result: that is the block's task, the MLP returns what to add."
    )
    demand(close(silent, b_out.expand(2, 3, 4)), "with all else zero, b_out should be what comes out.")
    eye, zero, grid = torch.eye(4), torch.zeros(4), torch.linspace(-3, 3, 24).view(2, 3, 4)
    curve = tensor(answer(grid, eye, zero, eye, zero), (2, 3, 4), means)
    demand(not close(curve, grid), "nothing bends: between the two matrices belongs a GELU.")
    demand(not close(curve, grid.relu()), "that is a ReLU: GELU(−1) is −0.159, not 0.")
    demand(
        not close(curve, F.gelu(F.layer_norm(grid, (4,)))),
        "it normalises x; LayerNorm is a part of its own, in the block.",
    )
    error = (curve - F.gelu(grid)).abs().max()
    demand(
        not 1e-5 < error < 1e-3,
        "that is GELU's approximation by a tanh, which GPT-2 uses; here we take the exact x · Φ(x).",
    )
    demand(error < 1e-5, f"the bend is not GELU's: it is off by up to {error:.2f} between −3 and 3.")
    both = tensor(answer(x, W_in, 0 * b_in, W_out, 0 * b_out), (2, 3, 4), means)
    demand(close(both, F.gelu(x @ W_in) @ W_out), "without biases, the result should be GELU(x W_in) W_out.")
    demand(close(whole, gpt.mlp(x, W_in, b_in, W_out, b_out)), "b_in belongs inside the GELU, b_out behind W_out.")
    for batch, n, d_model, d_mlp in ((1, 5, 3, 7), (4, 1, 9, 2)):
        given = [2 * random(*shape, seed=5) for shape in ((batch, n, d_model), (d_model, d_mlp), (d_mlp,))]
        given += [random(d_mlp, d_model, seed=6), random(d_model, seed=7)]
        result = tensor(answer(*given), (batch, n, d_model), means)
        demand(
            close(result, gpt.mlp(*given)),
            f"it fails for other sizes: d_model {d_model}, d_mlp {d_mlp}, {batch} texts of {n} tokens.",
        )
    _fit_for_training(answer, (2, 16, 8), (8, 24), (24,), (24, 8), (8,))


def _bent(bend: Callable[[Tensor], Tensor]) -> Answer:
    return lambda x, W_in, b_in, W_out, b_out: bend(x @ W_in + b_in) @ W_out + b_out


def _shifting_b_out(x: Tensor, W_in: Tensor, b_in: Tensor, W_out: Tensor, b_out: Tensor) -> Tensor:
    b_out += F.gelu(x @ W_in + b_in)[0, 0] @ W_out
    return gpt.mlp(x, W_in, b_in, W_out, b_out)


mlp.mistakes = {
    "no bend": (_bent(lambda h: h), "nothing bends: between the two"),
    "ReLU": (_bent(torch.relu), "that is a ReLU"),
    "the tanh approximation": (_bent(lambda h: F.gelu(h, approximate="tanh")), "GELU's approximation by a tanh"),
    "the logistic approximation": (_bent(lambda h: h * torch.sigmoid(1.702 * h)), "the bend is not GELU's"),
    "SiLU": (_bent(F.silu), "the bend is not GELU's"),
    "erf without √2": (_bent(lambda h: h * (1 + torch.erf(h)) / 2), "the bend is not GELU's"),
    "Φ without x": (_bent(torch.special.ndtr), "the bend is not GELU's"),
    "GELU at the end": (
        lambda x, W_in, b_in, W_out, b_out: F.gelu((x @ W_in + b_in) @ W_out + b_out),
        "b_out should be what comes out",
    ),
    "GELU twice": (
        lambda x, W_in, b_in, W_out, b_out: F.gelu(F.gelu(x @ W_in + b_in) @ W_out + b_out),
        "b_out should be what comes out",
    ),
    "GELU of x": (
        lambda x, W_in, b_in, W_out, b_out: (F.gelu(x) @ W_in + b_in) @ W_out + b_out,
        "the result should be GELU(x W_in) W_out",
    ),
    "b_in behind the GELU": (
        lambda x, W_in, b_in, W_out, b_out: (F.gelu(x @ W_in) + b_in) @ W_out + b_out,
        "b_in belongs inside the GELU",
    ),
    "no b_in": (lambda x, W_in, b_in, W_out, b_out: F.gelu(x @ W_in) @ W_out + b_out, "b_in belongs inside the GELU"),
    "no b_out": (lambda x, W_in, b_in, W_out, b_out: F.gelu(x @ W_in + b_in) @ W_out, "b_out should be what comes out"),
    "W_in twice": (
        lambda x, W_in, b_in, W_out, b_out: F.gelu(x @ W_in + b_in) @ W_in.T + b_out,
        "the result should be GELU(x W_in) W_out",
    ),
    "x normalised": (
        lambda x, *weights: gpt.mlp(F.layer_norm(x, x.shape[-1:]), *weights),
        "LayerNorm is a part of its own",
    ),
    "mean over positions": (
        lambda *given: gpt.mlp(*given).mean(1, keepdim=True).expand_as(given[0]),
        "an MLP treats each by itself",
    ),
    "adds x": (lambda x, *weights: x + gpt.mlp(x, *weights), "it adds x to its result"),
    "b_out changed": (_shifting_b_out, "it changes `b_out`, which it was given"),
}


@exercise
def block(answer: Answer) -> None:
    """`block(x, ln1, attn, ln2, mlp) → x`: two sub-layers, each reads a normalised copy and adds its result."""
    for shape in ((2, 3, 4), (1, 5, 6)):
        matrices = dict(zip(("ln1", "attn", "ln2", "mlp"), random(4, shape[2], shape[2], seed=1), strict=True))
        given: dict[str, Tensor] = {}  # what each part was last given

        def part(name: str, given: dict = given, matrices: dict = matrices, shape: tuple = shape) -> Callable:
            def apply(stream: Tensor) -> Tensor:
                given[name] = tensor(stream, shape, f"what {name} is given, as x")
                return torch.tanh(stream @ matrices[name])

            return apply

        x = random(*shape)
        result = tensor(answer(x, *map(part, matrices)), shape, "[batch, pos, d_model], as x")
        read = {name: torch.tanh(value @ matrices[name]) for name, value in given.items()}
        _well_connected(x, result, given, read)


def _well_connected(x: Tensor, result: Tensor, given: dict[str, Tensor], read: dict[str, Tensor]) -> None:
    """Demand that a block's result is right; what each part was given, and gave back, says what is not."""
    missing = [name for name in ("ln1", "attn", "ln2", "mlp") if name not in given]
    demand(not missing, f"it does not apply {' and '.join(missing)}.")
    demand(close(given["ln1"], x), "ln1 should read x as it comes in.")
    demand(close(given["attn"], read["ln1"]), "attention should read what ln1 returns.")
    middle = x + read["attn"]
    demand(
        not close(given["ln2"], x), "ln2 reads x as it came in; by then the attention's output should have been added."
    )
    demand(
        not close(given["ln2"], read["attn"]),
        "ln2 reads the attention's output alone: it should be added to x first.",
    )
    demand(close(given["ln2"], middle), "ln2 should read x plus the attention's output.")
    demand(close(given["mlp"], read["ln2"]), "the MLP should read what ln2 returns.")
    demand(not close(result, read["mlp"]), "the MLP's output should be added to the stream, not replace it.")
    demand(not close(result, x + read["mlp"]), "the attention's output is missing in the stream that comes out.")
    demand(
        close(result, middle + read["mlp"]), "the result should be the stream after attention, plus the MLP's output."
    )


def _from_the_normed(x: Tensor, ln1: Callable, attn: Callable, ln2: Callable, ff: Callable) -> Tensor:
    x = ln1(x)
    x = x + attn(x)
    x = ln2(x)
    return x + ff(x)


def _adding_in_place(x: Tensor, ln1: Callable, attn: Callable, ln2: Callable, ff: Callable) -> Tensor:
    x += attn(ln1(x))
    x += ff(ln2(x))
    return x


block.mistakes = {
    "nothing added": (lambda x, ln1, attn, ln2, ff: ff(ln2(attn(ln1(x)))), "ln2 reads the attention's output alone"),
    "attention's output not added": (
        lambda x, ln1, attn, ln2, ff: (a := attn(ln1(x))) + ff(ln2(a)),
        "ln2 reads the attention's output alone",
    ),
    "the MLP's output not added": (
        lambda x, ln1, attn, ln2, ff: ff(ln2(x + attn(ln1(x)))),
        "added to the stream, not replace it",
    ),
    "normed afterwards": (
        lambda x, ln1, attn, ln2, ff: ln2((m := ln1(x + attn(x))) + ff(m)),
        "ln1 should read x as it comes in",
    ),
    "attention reads x": (
        lambda x, ln1, attn, ln2, ff: (m := x + attn(x)) + ff(ln2(m)) + 0 * ln1(x),
        "attention should read what ln1 returns",
    ),
    "no ln1": (lambda x, ln1, attn, ln2, ff: (m := x + attn(x)) + ff(ln2(m)), "it does not apply ln1"),
    "no ln2": (lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ff(m), "it does not apply ln2"),
    "no LayerNorms": (lambda x, ln1, attn, ln2, ff: (m := x + attn(x)) + ff(m), "it does not apply ln1 and ln2"),
    "parallel": (lambda x, ln1, attn, ln2, ff: x + attn(ln1(x)) + ff(ln2(x)), "ln2 reads x as it came in"),
    "the normed copy goes on": (_from_the_normed, "ln2 should read x plus the attention's output"),
    "one LayerNorm twice": (
        lambda x, ln1, attn, ln2, ff: (m := x + attn(ln1(x))) + ff(ln1(m)),
        "it does not apply ln2",
    ),
    "LayerNorms exchanged": (
        lambda x, ln1, attn, ln2, ff: (m := x + attn(ln2(x))) + ff(ln1(m)),
        "ln1 should read x as it comes in",
    ),
    "MLP first": (
        lambda x, ln1, attn, ln2, ff: (m := x + ff(ln2(x))) + attn(ln1(m)),
        "ln1 should read x as it comes in",
    ),
    "MLP's output added to the old x": (
        lambda x, ln1, attn, ln2, ff: x + ff(ln2(x + attn(ln1(x)))),
        "the attention's output is missing",
    ),
    "x added once more": (
        lambda x, *parts: gpt.block(x, *parts) + x,
        "the stream after attention, plus the MLP's output",
    ),
    "ln2 over everything": (
        lambda x, ln1, attn, ln2, ff: ln2((m := x + attn(ln1(x))) + ff(m)),
        "ln2 should read x plus the attention's output",
    ),
    "x changed": (_adding_in_place, "it changes `x`, which it was given"),
}


@exercise
def transformer(answer: Answer) -> None:
    """`transformer(tokens, W_E, W_pos, blocks, ln_final, W_U) → logits`: the whole model."""
    tokens = torch.tensor([[0, 4, 4, 2], [0, 1, 5, 3]])
    W_E, W_pos, W_U = random(6, 3), random(8, 3, seed=1), random(3, 6, seed=2)
    means = "[batch, pos, d_vocab]"

    def asked(W_E: Tensor = W_E, W_pos: Tensor = W_pos, blocks: tuple = (), ln_final: Callable = lambda x: x) -> Tensor:
        return tensor(answer(tokens, W_E, W_pos, list(blocks), ln_final, W_U), (2, 4, 6), means)

    bare = asked()
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
    _right_blocks(asked, start, W_U)
    for batch, n, d_vocab, d_model, n_ctx, layers in ((1, 5, 7, 4, 5, 3), (3, 1, 4, 6, 9, 0), (5, 2, 3, 3, 6, 1)):
        ids = torch.randint(d_vocab, (batch, n), generator=torch.Generator().manual_seed(0))
        blocks = [_bending(seed, d_model) for seed in range(layers)]
        given = ids, random(d_vocab, d_model), random(n_ctx, d_model, seed=1), blocks, _bending(9, d_model)
        result = tensor(answer(*given, random(d_model, d_vocab, seed=2)), (batch, n, d_vocab), means)
        demand(
            close(result, gpt.transformer(*given, random(d_model, d_vocab, seed=2))),
            f"it fails for {batch} texts of {n} tokens, n_ctx {n_ctx}, and {layers} blocks.",
        )


def _right_blocks(asked: Callable[..., Tensor], start: Tensor, W_U: Tensor) -> None:
    """Demand that each block reads what the last one returned, and `ln_final` what the last block did."""
    f, g, ln = (_bending(seed) for seed in (3, 4, 5))
    demand(
        close(asked(blocks=(f,)), f(start) @ W_U),
        "with one block, the logits should be block(W_E[tokens] + positions) W_U: what does the block read?",
    )
    demand(not close(asked(blocks=(f, g)), f(g(start)) @ W_U), "the last block is applied first.")
    demand(close(asked(blocks=(f, g)), g(f(start)) @ W_U), "each block should read what the last one returned.")
    demand(
        close(asked(blocks=(f, g), ln_final=ln), ln(g(f(start))) @ W_U),
        "ln_final belongs between the last block and W_U, once.",
    )


def _bending(seed: int, d_model: int = 3) -> Callable[[Tensor], Tensor]:
    """A function of the stream in which the order of two counts."""
    matrix = random(d_model, d_model, seed=seed)
    return lambda x: torch.tanh(x @ matrix)


def _through(blocks: list[Callable], x: Tensor) -> Tensor:
    for one in blocks:
        x = one(x)
    return x


def _start(tokens: Tensor, W_E: Tensor, W_pos: Tensor) -> Tensor:
    return W_E[tokens] + W_pos[: tokens.shape[1]]


def _emptying(tokens: Tensor, W_E: Tensor, W_pos: Tensor, blocks: list[Callable], ln: Callable, W_U: Tensor) -> Tensor:
    x = _start(tokens, W_E, W_pos)
    while blocks:
        x = blocks.pop(0)(x)
    return ln(x) @ W_U


def _streaming(stream: Callable[..., Tensor]) -> Answer:
    """`stream(tokens, W_E, W_pos, blocks)`, then rightly to the logits."""
    return lambda t, W_E, W_pos, blocks, ln, W_U: ln(stream(t, W_E, W_pos, blocks)) @ W_U


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
        "what does the block read",
    ),
    "no blocks": (_streaming(lambda t, W_E, W_pos, blocks: _start(t, W_E, W_pos)), "what does the block read"),
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
    "blocks side by side": (
        _streaming(lambda t, W_E, W_pos, blocks: (x := _start(t, W_E, W_pos)) + sum(f(x) - x for f in blocks)),
        "each block should read what the last one returned",
    ),
    "blocks added again": (
        _streaming(lambda t, W_E, W_pos, blocks: (x := _start(t, W_E, W_pos)) + _through(blocks, x) * bool(blocks)),
        "what does the block read",
    ),
    "no final LayerNorm": (
        lambda t, W_E, W_pos, blocks, ln, W_U: _through(blocks, _start(t, W_E, W_pos)) @ W_U,
        "ln_final belongs between the last block and W_U",
    ),
    "LayerNorm first": (
        lambda t, W_E, W_pos, blocks, ln, W_U: _through(blocks, ln(_start(t, W_E, W_pos))) @ W_U,
        "ln_final belongs between the last block and W_U",
    ),
    "LayerNorm after each block": (
        lambda t, W_E, W_pos, blocks, ln, W_U: (
            _through([step for f in blocks for step in (f, ln)], _start(t, W_E, W_pos)) @ W_U
        ),
        "ln_final belongs between the last block and W_U",
    ),
    "tied": (
        lambda t, W_E, W_pos, blocks, ln, W_U: ln(_through(blocks, _start(t, W_E, W_pos))) @ W_E.T,
        "it uses W_E a second time",
    ),
    "probabilities": (lambda *given: gpt.transformer(*given).softmax(-1), "these look like probabilities"),
    "log-probabilities": (lambda *given: gpt.transformer(*given).log_softmax(-1), "these are log-probabilities"),
    "the last position only": (lambda *given: gpt.transformer(*given)[:, -1], "it should be [2, 4, 6]"),
    "the list of blocks emptied": (_emptying, "it changes `blocks"),
}


@exercise
def probabilities(answer: Answer) -> None:
    """`probabilities(logits, temperature) → p`: the softmax at a temperature."""
    logits = 2 * random(3, 5)
    means = "as the logits"
    result = tensor(answer(logits, 1.0), (3, 5), means)
    demand(not close(result.exp().sum(-1), torch.ones(3)), "these are logarithms of probabilities.")
    demand((result >= 0).all(), "a probability is never below 0.")
    _sum_to_1(result, 1)
    demand(close(result, logits.softmax(-1)), "at temperature 1 it should be the plain softmax.")
    cold = answer(logits, 0.01)
    demand(
        not isinstance(cold, Tensor) or cold.isfinite().all(),
        "at temperature 0.01 e^(z/T) is too large for a number: use softmax, or subtract the largest z first.",
    )
    cold, hot = tensor(cold, (3, 5), means), tensor(answer(logits, 100.0), (3, 5), means)
    _sum_to_1(cold, 0.01)
    demand(
        not (cold.max(-1).values < 0.3).any(),
        "at a low temperature nearly everything should go to the largest logit; here it goes the other way.",
    )
    demand((cold.max(-1).values > 0.99).all(), "at temperature 0.01 the largest logit should get nearly all.")
    demand((hot - 0.2).abs().max() < 0.05, "at temperature 100 all five tokens should be nearly equally likely.")
    demand(
        close(tensor(answer(logits, 0.5), (3, 5), means), (2 * logits).softmax(-1)),
        "at temperature ½ every logit should count double.",
    )
    for shape in ((7,), (1, 4), (2, 3, 6), (2, 1, 3, 4)):
        for temperature in (0.3, 2.5):
            logits = 3 * random(*shape, seed=1)
            demand(
                close(tensor(answer(logits, temperature), shape, means), (logits / temperature).softmax(-1)),
                f"it fails for logits of shape {list(shape)}, temperature {temperature}: tokens are on the last axis.",
            )


def _sum_to_1(p: Tensor, temperature: float) -> None:
    sums = p.sum(-1)
    worst = sums[(sums - 1).abs().argmax()]
    demand(
        close(sums, torch.ones(3)),
        f"at temperature {temperature} each prediction's probabilities should sum to 1; some sum to {worst:.4f}.",
    )


def _dividing(logits: Tensor, temperature: float) -> Tensor:
    logits /= temperature
    return logits.softmax(-1)


probabilities.mistakes = {
    "multiplied": (lambda logits, T: (logits * T).softmax(-1), "here it goes the other way"),
    "ignored": (lambda logits, T: logits.softmax(-1), "the largest logit should get nearly all"),
    "after the softmax": (lambda logits, T: logits.softmax(-1) / T, "some sum to 100.0000"),
    "a power, not scaled": (lambda logits, T: logits.softmax(-1) ** (1 / T), "at temperature 0.01 each prediction's"),
    "softmax twice": (lambda logits, T: (logits.softmax(-1) / T).softmax(-1), "it should be the plain softmax"),
    "over the batch": (lambda logits, T: (logits / T).softmax(0), "probabilities should sum to 1; some"),
    "over axis 1": (lambda logits, T: (logits / T).softmax(min(1, logits.ndim - 1)), "tokens are on the last axis"),
    "over everything": (
        lambda logits, T: (logits / T).flatten().softmax(0).view(logits.shape),
        "probabilities should sum to 1; some",
    ),
    "logarithms": (lambda logits, T: (logits / T).log_softmax(-1), "these are logarithms of probabilities"),
    "no sum": (lambda logits, T: (logits / T).exp(), "probabilities should sum to 1; some"),
    "overflow": (
        lambda logits, T: (e := (logits / T).exp()) / e.sum(-1, keepdim=True),
        "use softmax, or subtract the largest",
    ),
    "sign": (lambda logits, T: (-logits / T).softmax(-1), "it should be the plain softmax"),
    "square root": (lambda logits, T: (logits / T**0.5).softmax(-1), "at temperature 100 all five tokens"),
    "square": (lambda logits, T: (logits / T**2).softmax(-1), "at temperature ½ every logit"),
    "greedy": (lambda logits, T: F.one_hot(logits.argmax(-1), logits.shape[-1]).float(), "the plain softmax"),
    "logits changed": (_dividing, "it changes `logits`, which it was given"),
}


@exercise
def beam_search(answer: Answer) -> None:
    """`beam_search(log_probs, tokens, width, steps) → (tokens, log p)`: the best of what `width` texts lead to."""
    for seed, (start, steps, d_vocab) in enumerate([((0, 1), 3, 4), ((2, 0, 1), 2, 5)] * 4 + [((3, 1), 4, 6)]):
        table = (2 * random(d_vocab, d_vocab, d_vocab, seed=seed)).log_softmax(-1)
        _search(answer, table, torch.tensor(start), steps, (2, 3))
    table = torch.tensor([0.24, 0.22, 0.2, 0.18, 0.16]).log().expand(5, 5, 5).clone()
    table[4, 4] = torch.tensor([20.0, 0, 0, 0, 0]).log_softmax(-1)  # what looks worst for two steps turns out best
    _search(answer, table, torch.tensor([0, 1]), 3, (4, 5, 6, 24, 25))


def _search(answer: Answer, table: Tensor, start: Tensor, steps: int, widths: tuple[int, ...]) -> None:
    """Ask for beams of several widths, after a table of log p(next token) by the last two."""
    d_vocab = len(table)
    sizes = [0]

    def log_probs(texts: Tensor) -> Tensor:
        if not isinstance(texts, Tensor) or texts.ndim != 2:
            raise Wrong("log_probs wants a tensor [n, pos], one text in each row.")
        sizes.append(len(texts))
        return table[texts[:, -2], texts[:, -1]]

    def total(text: Tensor) -> float:
        ends = range(len(start), len(start) + steps)
        return sum(table[text[end - 2], text[end - 1], text[end]].item() for end in ends)

    def asked(width: int) -> tuple[Tensor, float]:
        sizes[:] = [0]
        text, value = _read_text(answer(log_probs, start, width, steps), start, steps, d_vocab)
        expected = total(text)
        demand(
            close(value, expected),
            f"it says log p = {value:.3f}, but the log-probabilities of the tokens it added sum to {expected:.3f}.",
        )
        return text, value

    greedy = start
    for _ in range(steps):
        greedy = torch.cat([greedy, log_probs(greedy[None]).argmax(-1)])
    beams = {}
    for width in widths:
        _, beams[width] = asked(width)
        most = max(sizes)
        demand(
            most <= width, f"with width {width} it goes on with {most} texts: keep the best {width} of all candidates."
        )
    text, _ = asked(1)
    demand(torch.equal(text, greedy), "with width 1 it should take the most likely token at every step.")
    wide = asked(d_vocab**steps)[1]
    ends = itertools.product(range(d_vocab), repeat=steps)
    best = max(total(torch.cat([start, torch.tensor(end)])) for end in ends)
    demand(
        close(wide, best),
        f"with a width that drops nothing it finds log p = {wide:.3f}, and a text with {best:.3f} exists.",
    )
    for width, value in beams.items():
        demand(
            close(value, gpt.beam_search(log_probs, start, width, steps)[1]),
            f"with width {width} it keeps the wrong texts: compare all candidates by their whole log-probability.",
        )


def _read_text(result: object, start: Tensor, steps: int, d_vocab: int) -> tuple[Tensor, float]:
    """The text and the log-probability that were returned: what was given, and tokens of the vocabulary after it."""
    text, value = pair(result, "the tokens and their log-probability")
    tensor(text, (len(start) + steps,), "the tokens given and the ones added")
    demand(not text.is_floating_point(), "the tokens should be whole numbers, as the ones given are.")
    text, value = text.long(), number(value)
    demand(torch.equal(text[: len(start)], start), "the result should begin with the tokens given.")
    demand(((text >= 0) & (text < d_vocab)).all(), "it returns a token number that is not in the vocabulary.")
    return text, value


def _searched(
    log_probs: Callable,
    tokens: Tensor,
    width: int,
    steps: int,
    rank: Callable | None = None,
    keep: Callable | None = None,
    first: int = 1,
    pick: int = 0,
) -> tuple[Tensor, float]:
    """The right answer, with one thing to get wrong in each keyword."""
    texts, totals = tokens.repeat(first, 1), torch.zeros(first)
    for step in range(steps):
        new = log_probs(texts)
        candidates = totals[:, None] + new
        ranked = (rank(totals, new) if rank else candidates).flatten()
        wanted = width if keep is None else keep(step, ranked, width)
        best = ranked.topk(min(wanted, len(ranked))).indices
        totals = candidates.flatten()[best]
        texts = torch.cat([texts[best // new.shape[1]], best[:, None] % new.shape[1]], dim=1)
    return texts[pick], totals[pick].item()


def _search_with(**wrong: Any) -> Answer:
    return lambda *given: _searched(*given, **wrong)


def _each_text_alone(log_probs: Callable, tokens: Tensor, width: int, steps: int) -> tuple[Tensor, float]:
    first = log_probs(tokens[None])[0].topk(min(width, 4))
    texts, totals = torch.cat([tokens.repeat(len(first.indices), 1), first.indices[:, None]], 1), first.values
    for _ in range(steps - 1):
        new = log_probs(texts).max(-1)
        texts, totals = torch.cat([texts, new.indices[:, None]], 1), totals + new.values
    return texts[totals.argmax()], totals.max().item()


def _after_search(change: Callable[[Tensor, float, int, int], object]) -> Answer:
    return lambda log_probs, tokens, width, steps: change(
        *gpt.beam_search(log_probs, tokens, width, steps), len(tokens), steps
    )


def _turning_tokens(log_probs: Callable, tokens: Tensor, width: int, steps: int) -> tuple[Tensor, float]:
    result = gpt.beam_search(log_probs, tokens, width, steps)
    tokens.copy_(tokens.flip(0))
    return result


beam_search.mistakes = {
    "greedy": (
        lambda log_probs, tokens, width, steps: _searched(log_probs, tokens, 1, steps),
        "with a width that drops nothing it finds",
    ),
    "copies of the start": (
        lambda log_probs, tokens, width, steps: _searched(log_probs, tokens, width, steps, first=width),
        "with a width that drops nothing it finds",
    ),
    "ranked by the last token": (
        _search_with(rank=lambda totals, new: new),
        "with a width that drops nothing it finds",
    ),
    "probabilities added": (
        _search_with(rank=lambda totals, new: totals.exp()[:, None] + new.exp()),
        "with a width that drops nothing it finds",
    ),
    "nothing dropped": (
        _search_with(keep=lambda step, ranked, width: len(ranked)),
        "keep the best 2 of all candidates",
    ),
    "always two": (_search_with(keep=lambda step, ranked, width: 2), "with width 1 it should take"),
    "at most as many as tokens": (
        lambda log_probs, tokens, width, steps: _searched(
            log_probs, tokens, min(width, log_probs(tokens[None]).shape[1]), steps
        ),
        "with a width that drops nothing it finds",
    ),
    "three steps": (
        lambda log_probs, tokens, width, steps: _searched(log_probs, tokens, width, 3),
        "the tokens given and the ones added",
    ),
    "one text too many": (
        lambda log_probs, tokens, width, steps: _searched(log_probs, tokens, width + 1, steps),
        "keep the best 2 of all candidates",
    ),
    "each text goes on alone": (_each_text_alone, "with a width that drops nothing it finds"),
    "the worst of the kept": (_search_with(pick=-1), "with a width that drops nothing it finds"),
    "the prompt left out": (
        _after_search(lambda text, total, n, steps: (text[n:], total)),
        "the tokens given and the ones added",
    ),
    "the log-probability per token": (
        _after_search(lambda text, total, n, steps: (text, total / steps)),
        "the log-probabilities of the tokens it added sum to",
    ),
    "a probability": (
        _after_search(lambda text, total, n, steps: (text, math.exp(total))),
        "the log-probabilities of the tokens it added sum to",
    ),
    "the text alone": (_after_search(lambda text, total, n, steps: text), "it should return two things"),
    "one step too few": (
        lambda log_probs, tokens, width, steps: _searched(log_probs, tokens, width, steps - 1),
        "the tokens given and the ones added",
    ),
    "the added tokens reversed": (
        _after_search(lambda text, total, n, steps: (torch.cat([text[:n], text[n:].flip(0)]), total)),
        "the log-probabilities of the tokens it added sum to",
    ),
    "tokens changed": (_turning_tokens, "it changes `tokens`, which it was given"),
}
