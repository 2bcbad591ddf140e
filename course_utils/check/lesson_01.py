"""Checks of lesson 01, the transformer end to end."""

import itertools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from course_utils import gpt
from course_utils.check.exercises import exercise
from course_utils.check.fixtures import random
from course_utils.check.questions import Wrong, close, demand, number, tensor


def pair(value: object, means: str) -> tuple:
    """The answer as two things; `means` names them."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong(f"it should return two things, {means}, not {type(value).__name__}.")
    return tuple(value)


@exercise
def merge(answer: Callable) -> None:
    """`merge(tokens, pair) → tokens`: one step of byte-pair encoding on a list of strings."""

    def asked(tokens: list[str], both: tuple[str, str]) -> list[str]:
        given = list(tokens)
        result = answer(given, both)
        if not isinstance(result, list | tuple) or not all(isinstance(token, str) for token in result):
            raise Wrong(f"it should return a list of strings, not {type(result).__name__}.")
        demand(given == tokens, "it changes the list that it was given: build a new one.")
        demand(
            "".join(result) == "".join(tokens),
            f"the tokens {tokens} spell {''.join(tokens)!r}, and what comes back spells {''.join(result)!r}.",
        )
        return list(result)

    untouched = ["a", "c", "b"]
    demand(asked(untouched, ("a", "b")) == untouched, "a and b are no neighbours in [a, c, b], so nothing may change.")
    untouched = ["ab", "c", "b", "a"]
    demand(
        asked(untouched, ("b", "c")) == untouched,
        "in [ab, c, b, a] no token b stands before a token c: only whole tokens may be merged.",
    )
    demand(
        asked(untouched, ("a", "b")) == untouched,
        "in [ab, c, b, a] no a stands before a b: the order of the pair counts.",
    )
    demand(len(asked(["a", "b", "c"], ("a", "b"))) == 2, "a and b stand side by side in [a, b, c] and are not merged.")
    demand(len(asked(["c", "a", "b"], ("a", "b"))) == 2, "the pair at the end of the list was not merged.")
    for tokens in (["a", "b", "c", "a", "b"], ["a", "b", "a", "b"]):
        demand(
            len(asked(tokens, ("a", "b"))) == len(tokens) - 2,
            f"the pair (a, b) stands twice in {tokens}, and every occurrence should be merged.",
        )
    result = asked(["a", "a", "a"], ("a", "a"))
    demand(result == ["aa", "a"], "of a, a, a the first two become one token, and the third is left: go left to right.")
    tokens = list("the theory of the other")
    demand(asked(tokens, ("t", "h")) == gpt.merge(tokens, ("t", "h")), "a longer text is not merged rightly.")


@exercise
def lm_loss(answer: Callable) -> None:
    """`lm_loss(logits, tokens) → scalar`: mean of −log p(next token), in nats."""
    tokens = torch.tensor([[0, 3, 1, 4, 2], [0, 2, 2, 1, 3]])
    logits = random(2, 5, 6).requires_grad_()
    result = answer(logits, tokens)
    number(result)
    demand(
        isinstance(result, Tensor) and result.requires_grad,
        "it should return a tensor whose gradient can be followed: leave out .item(), float() and detach().",
    )

    def loss(logits: Tensor) -> float:
        return number(answer(logits, tokens))

    demand(loss(logits) > 0, "a loss is −log p, so it is never below 0.")
    uniform = loss(torch.zeros(2, 5, 6))
    demand(
        close(uniform, math.log(6)),
        f"if all 6 tokens get the same logit, the loss is ln 6 = 1.792 nats, not {uniform:.3f}.",
    )
    demand(
        close(loss(logits + 3), loss(logits)),
        "adding 3 to all logits changes no probability, so it should not change the loss: take the softmax first.",
    )

    def sure_of(targets: Tensor) -> float:
        return loss(100 * F.one_hot(targets, 6).float())

    own, before, after = tokens, tokens.roll(1, 1), tokens.roll(-1, 1)
    demand(
        sure_of(own) > 1, "the loss is 0 for logits that name the token they stand on; it is the next one that counts."
    )
    demand(sure_of(before) > 1, "the loss is 0 for logits that name the token before: that shift goes the wrong way.")
    changed = logits.detach().clone()
    changed[:, -1] = random(2, 6, seed=1)
    demand(close(loss(changed), loss(logits)), "the logits at the last position have no next token, yet they count.")
    demand(close(sure_of(after), 0), "the loss should be 0 for logits that name every next token for certain.")
    for position in range(4):
        changed = logits.detach().clone()
        changed[:, position] += random(2, 6, seed=1)
        demand(
            not close(loss(changed), loss(logits)),
            f"the prediction at position {position} does not count: every position but the last should.",
        )
    expected = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    demand(close(result, expected), "that is not the mean of −log p over all predictions of all texts.")


@exercise
def layer_norm(answer: Callable) -> None:
    """`layer_norm(x, w, b, eps) → x`: mean 0 and variance 1 over the last axis, then times w plus b."""
    x, w, b = 2 * random(3, 4, 8) + 1, torch.ones(8), torch.zeros(8)
    means = "[batch, pos, d_model]"
    kept = x.clone()
    result = tensor(answer(x, w, b, 1e-5), (3, 4, 8), means)
    demand(torch.equal(x, kept), "it changes its input: write x = x - …, not x -= ….")
    demand(
        close(result.mean(-1), torch.zeros(3, 4)),
        "with w = 1 and b = 0 each vector's mean should be 0; here it is not. Over which axis?",
    )
    squares = result.pow(2).mean(-1)
    demand(
        not close(squares * 8 / 7, torch.ones(3, 4)),
        "the variance comes out as 7/8 for vectors of length 8: divide by their length, not by one less.",
    )
    demand(
        (squares - 1).abs().max() < 1e-3,
        f"with w = 1 and b = 0 each vector's variance should be 1; the first one's is {squares[0, 0]:.3f}.",
    )
    still = tensor(answer(torch.full((1, 1, 8), 3.0), w, b, 1e-5).nan_to_num(9.0), (1, 1, 8), means)
    demand(
        close(still, torch.zeros(1, 1, 8)), "a vector of equal entries has variance 0; `eps` is there to prevent 0/0."
    )
    two = torch.tensor([[[1.0, -1, 1, -1, 1, -1, 1, -1]]]) * 3**0.5  # mean 0, variance 3
    value = tensor(answer(two, w, b, 1.0), (1, 1, 8), means).abs().mean().item()
    demand(
        close(value, (3 / 4) ** 0.5),
        "`eps` is added to the variance, inside the square root: variance 3 and eps 1 make a divisor of 2.",
    )
    w, b = random(8, seed=1), random(8, seed=2)
    demand(
        close(tensor(answer(x, w, torch.zeros(8), 1e-5), (3, 4, 8), means), result * w),
        "w should multiply the normalised vector, entry by entry.",
    )
    demand(
        close(tensor(answer(x, w, b, 1e-5), (3, 4, 8), means), result * w + b),
        "b should be added last, after the product with w.",
    )


@exercise
def attention(answer: Callable) -> None:
    """`attention(x, W_Q, W_K, W_V, W_O) → (out, pattern)`: causal, scaled by 1/√d_head, summed over heads."""
    n, d_in, d_head, heads, d_model = 5, 6, 4, 3, 7
    x = random(2, n, d_in)
    W_Q, W_K, W_V = (random(heads, d_in, d_head, seed=seed) for seed in (1, 2, 3))
    W_O = random(heads, d_head, d_model, seed=4)

    def asked(x: Tensor = x, W_Q: Tensor = W_Q) -> tuple[Tensor, Tensor]:
        out, pattern = pair(answer(x, W_Q, W_K, W_V, W_O), "the output and the pattern")
        if isinstance(pattern, Tensor) and pattern.ndim == 4 and pattern[:, :, 0].isnan().all():
            raise Wrong("position 0 has nothing left to look at: may a position attend to itself?")
        return (
            tensor(out, (2, n, d_model), "[batch, pos, d_model]"),
            tensor(pattern, (2, heads, n, n), "[batch, head, destination, source]"),
        )

    out, pattern = asked()
    demand((pattern >= 0).all(), "attention is never below 0: take the softmax of the scores.")
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    sums = pattern.sum(-1)
    demand(
        not close(pattern.sum(-2), torch.ones(2, heads, n)),
        "each column of the pattern sums to 1; the sources are on the columns, so each row should.",
    )
    demand((pattern[..., later] < 1e-6).all(), "a destination attends to a source that comes after it.")
    demand(
        (pattern.diagonal(dim1=-2, dim2=-1) > 0).all(),
        "a position gives itself no attention: may it not look at itself?",
    )
    demand(
        close(sums, torch.ones(2, heads, n)),
        f"the attention of one destination should sum to 1, not to {sums[0, 0, 0]:.3f}: mask before the softmax.",
    )
    level = asked(W_Q=torch.zeros_like(W_Q))[1][0, 0, -1]
    demand(
        close(level, torch.full((n,), 1 / n)), "if all scores are equal, the last position should look at all alike."
    )

    def with_scores(scale: float, W_Q: Tensor, W_K: Tensor) -> Tensor:
        scores = torch.einsum("bqm,hmd,hnd,bkn->bhqk", x, W_Q, W_K, x) * scale
        return scores.masked_fill(later, -torch.inf).softmax(-1)

    right = d_head**-0.5
    for scale, name in ((1, "not divided at all"), (1 / d_head, "divided by d_head"), (d_head**0.5, "multiplied")):
        demand(not close(pattern, with_scores(scale, W_Q, W_K)), f"the scores are {name}: divide them by √d_head.")
    demand(
        not close(pattern, with_scores(d_in**-0.5, W_Q, W_K)),
        "the scores are divided by the square root of the input's width: d_head is the length of a query.",
    )
    demand(
        not close(pattern, with_scores(right, W_K, W_Q)),
        "queries and keys are exchanged: the destination asks (W_Q), the source answers (W_K).",
    )
    demand(
        close(pattern, with_scores(right, W_Q, W_K)),
        "the pattern is causal and sums to 1, but it is not the softmax of q · k / √d_head.",
    )
    edited = x.clone()
    edited[:, 3] += 1
    demand(
        close(asked(edited)[0][:, :3], out[:, :3]),
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


@exercise
def mlp(answer: Callable) -> None:
    """`mlp(x, W_in, b_in, W_out, b_out) → x`: GELU between two affine maps."""
    means = "[batch, pos, d_model]"
    x, W_in, W_out = random(2, 3, 4), random(4, 16, seed=1), random(16, 4, seed=2)
    b_in, b_out = random(16, seed=3), random(4, seed=4)
    tensor(answer(x, W_in, b_in, W_out, b_out), (2, 3, 4), means)
    silent = tensor(answer(x, 0 * W_in, 0 * b_in, 0 * W_out, b_out), (2, 3, 4), means)
    demand(
        not close(silent, x + b_out), "it adds x to its result: that is the block's task, the MLP returns what to add."
    )
    demand(close(silent, b_out.expand(2, 3, 4)), "with all else zero, b_out should be what comes out.")
    eye, zero, grid = torch.eye(4), torch.zeros(4), torch.linspace(-3, 3, 24).view(2, 3, 4)
    curve = tensor(answer(grid, eye, zero, eye, zero), (2, 3, 4), means)
    demand(not close(curve, grid), "nothing bends: between the two matrices belongs a GELU.")
    demand(not close(curve, grid.relu()), "that is a ReLU: GELU(−1) is −0.159, not 0.")
    error = (curve - F.gelu(grid)).abs().max()
    demand(
        not 1e-5 < error < 1e-3,
        "that is GELU's approximation by a tanh, which GPT-2 uses; here we take the exact x · Φ(x).",
    )
    demand(error < 1e-5, f"the bend is not GELU's: it is off by up to {error:.2f} between −3 and 3.")
    both = tensor(answer(x, W_in, 0 * b_in, W_out, 0 * b_out), (2, 3, 4), means)
    demand(close(both, F.gelu(x @ W_in) @ W_out), "without biases, the result should be GELU(x W_in) W_out.")
    with_biases = tensor(answer(x, W_in, b_in, W_out, b_out), (2, 3, 4), means)
    demand(
        close(with_biases, F.gelu(x @ W_in + b_in) @ W_out + b_out), "b_in belongs inside the GELU, b_out behind W_out."
    )


@exercise
def block(answer: Callable) -> None:
    """`block(x, ln1, attn, ln2, mlp) → x`: two sub-layers, each reads a normalised copy and adds its result."""
    x = random(2, 3, 4)
    matrices = dict(zip(("ln1", "attn", "ln2", "mlp"), random(4, 4, 4, seed=1), strict=True))
    calls = []

    def part(name: str) -> Callable:
        def apply(given: Tensor) -> Tensor:
            calls.append((name, tensor(given, (2, 3, 4), f"what {name} is given, as x")))
            return given @ matrices[name]

        return apply

    kept = x.clone()
    result = tensor(answer(x, *map(part, matrices)), (2, 3, 4), "[batch, pos, d_model], as x")
    demand(torch.equal(x, kept), "it changes its input: write x = x + …, not x += ….")
    names = sorted(name for name, _ in calls)
    demand(names == sorted(matrices), f"each part should be applied once; applied were {names or 'none'}.")
    given = dict(calls)
    demand(close(given["ln1"], x), "ln1 should read x as it comes in.")
    normed = x @ matrices["ln1"]
    demand(close(given["attn"], normed), "attention should read what ln1 returns.")
    middle = x + normed @ matrices["attn"]
    demand(
        not close(given["ln2"], x), "ln2 reads x as it came in; by then the attention's output should have been added."
    )
    demand(
        not close(given["ln2"], normed @ matrices["attn"]),
        "ln2 reads the attention's output alone: it should be added to x first.",
    )
    demand(close(given["ln2"], middle), "ln2 should read x plus the attention's output.")
    demand(close(given["mlp"], middle @ matrices["ln2"]), "the MLP should read what ln2 returns.")
    added = middle @ matrices["ln2"] @ matrices["mlp"]
    demand(not close(result, added), "the MLP's output should be added to the stream, not replace it.")
    demand(close(result, middle + added), "the result should be the stream after attention, plus the MLP's output.")


@exercise
def transformer(answer: Callable) -> None:
    """`transformer(tokens, W_E, W_pos, blocks, ln_final, W_U) → logits`: the whole model."""
    tokens = torch.tensor([[0, 4, 4, 2], [0, 1, 5, 3]])
    W_E, W_pos, W_U = random(6, 3), random(8, 3, seed=1), random(3, 6, seed=2)
    means = "[batch, pos, d_vocab]"

    def linear(seed: int) -> Callable:
        matrix = random(3, 3, seed=seed)
        return lambda x: x @ matrix

    def asked(W_E: Tensor = W_E, W_pos: Tensor = W_pos, blocks: tuple = (), ln_final: Callable = lambda x: x) -> Tensor:
        return tensor(answer(tokens, W_E, W_pos, list(blocks), ln_final, W_U), (2, 4, 6), means)

    bare = asked()
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
    f, g, ln = linear(3), linear(4), linear(5)
    demand(
        close(asked(blocks=(f,)), f(W_E[tokens] + W_pos[:4]) @ W_U),
        "with one block, the logits should be block(W_E[tokens] + positions) W_U: what does the block read?",
    )
    demand(not close(asked(blocks=(f, g)), f(g(W_E[tokens] + W_pos[:4])) @ W_U), "the last block is applied first.")
    demand(
        close(asked(blocks=(f, g)), g(f(W_E[tokens] + W_pos[:4])) @ W_U),
        "each block should read what the last one returned.",
    )
    demand(
        close(asked(blocks=(f, g), ln_final=ln), ln(g(f(W_E[tokens] + W_pos[:4]))) @ W_U),
        "ln_final belongs between the last block and W_U, once.",
    )


@exercise
def probabilities(answer: Callable) -> None:
    """`probabilities(logits, temperature) → p`: the softmax at a temperature."""
    logits = 2 * random(3, 5)
    means = "as the logits"
    result = tensor(answer(logits, 1.0), (3, 5), means)
    demand((result >= 0).all(), "a probability is never below 0.")
    demand(
        close(result.sum(-1), torch.ones(3)),
        f"the probabilities of one prediction should sum to 1, not to {result[0].sum():.3f}: mind the axis.",
    )
    demand(close(result, logits.softmax(-1)), "at temperature 1 it should be the plain softmax.")
    cold, hot = (tensor(answer(logits, t), (3, 5), means) for t in (0.01, 100.0))
    demand(close(cold.sum(-1), torch.ones(3)), "at temperature 0.01 the probabilities no longer sum to 1.")
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


@exercise
def beam_search(answer: Callable) -> None:
    """`beam_search(log_probs, tokens, width, steps) → (tokens, log p)`: the best of what `width` texts lead to."""
    start, steps, d_vocab = torch.tensor([0, 1]), 3, 4
    sizes = []

    def follows(seed: int) -> Callable:
        table = (2 * random(d_vocab, d_vocab, d_vocab, seed=seed)).log_softmax(-1)

        def log_probs(texts: Tensor) -> Tensor:
            if not isinstance(texts, Tensor) or texts.ndim != 2:
                raise Wrong("log_probs wants a tensor [n, pos], one text in each row.")
            sizes.append(len(texts))
            return table[texts[:, -2], texts[:, -1]]

        return log_probs

    def total(log_probs: Callable, text: Tensor) -> float:
        return sum(log_probs(text[None, :end])[0, text[end]].item() for end in range(2, 2 + steps))

    def asked(log_probs: Callable, width: int) -> tuple[Tensor, float]:
        text, value = pair(answer(log_probs, start, width, steps), "the tokens and their log-probability")
        tensor(text, (2 + steps,), "the tokens given and the ones added")
        text = text.long()
        demand(torch.equal(text[:2], start), "the result should begin with the tokens given.")
        demand(((text >= 0) & (text < d_vocab)).all(), "it returns a token number that is not in the vocabulary.")
        value, expected = number(value), total(log_probs, text)
        demand(
            close(value, expected),
            f"it says log p = {value:.3f}, but the log-probabilities of the tokens it added sum to {expected:.3f}.",
        )
        return text, value

    for seed in range(8):
        log_probs = follows(seed)
        greedy = start
        for _ in range(steps):
            greedy = torch.cat([greedy, log_probs(greedy[None]).argmax(-1)])
        sizes.clear()
        _, value = asked(log_probs, 2)
        demand(
            max(sizes) <= 2, f"with width 2 it goes on with {max(sizes)} texts: keep the best two of all candidates."
        )
        text, _ = asked(log_probs, 1)
        demand(torch.equal(text, greedy), "with width 1 it should take the most likely token at every step.")
        wide = asked(log_probs, d_vocab**steps)[1]
        texts = [torch.cat([start, torch.tensor(end)]) for end in itertools.product(range(d_vocab), repeat=steps)]
        best = max(total(log_probs, one) for one in texts)
        demand(
            close(wide, best),
            f"with a width that drops nothing it finds log p = {wide:.3f}, and a text with {best:.3f} exists.",
        )
        demand(
            close(value, gpt.beam_search(log_probs, start, 2, steps)[1]),
            "with width 2 it keeps the wrong texts: compare all candidates of a step by their whole log-probability.",
        )
