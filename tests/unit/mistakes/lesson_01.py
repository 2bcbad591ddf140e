"""Typical wrong answers to the exercises of lesson 01, which the checks must reject."""

import math

import torch
import torch.nn.functional as F

from course_utils import gpt

# merge


def first_only(tokens, pair):
    for i in range(len(tokens) - 1):
        if (tokens[i], tokens[i + 1]) == pair:
            return [*tokens[:i], pair[0] + pair[1], *tokens[i + 2 :]]
    return list(tokens)


def overlapping(tokens, pair):
    merged = []
    for i, token in enumerate(tokens):
        if (token, *tokens[i + 1 : i + 2]) == pair:
            merged.append(pair[0] + pair[1])
        elif not i or (tokens[i - 1], token) != pair:
            merged.append(token)
    return merged


def second_kept(tokens, pair):
    return [a + b if (a, b) == pair else a for a, b in zip(tokens, [*tokens[1:], ""], strict=True)]


def last_lost(tokens, pair):
    merged, i = [], 0
    while i < len(tokens) - 1:
        both = (tokens[i], tokens[i + 1]) == pair
        merged.append(tokens[i] + tokens[i + 1] if both else tokens[i])
        i += 1 + both
    return merged


def last_pair_missed(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        both = i < len(tokens) - 2 and (tokens[i], tokens[i + 1]) == pair
        merged.append(tokens[i] + tokens[i + 1] if both else tokens[i])
        i += 1 + both
    return merged


def in_place(tokens, pair):
    i = 0
    while i < len(tokens) - 1:
        if (tokens[i], tokens[i + 1]) == pair:
            tokens[i : i + 2] = [pair[0] + pair[1]]
        i += 1
    return tokens


def in_the_text(tokens, pair):
    text, both, merged = "".join(tokens), "".join(pair), []
    while text:
        piece = both if text.startswith(both) else text[0]
        merged, text = [*merged, piece], text[len(piece) :]
    return merged


def right_to_left(tokens, pair):
    merged = gpt.merge([token[::-1] for token in tokens[::-1]], (pair[1][::-1], pair[0][::-1]))
    return [token[::-1] for token in merged[::-1]]


def either_order(tokens, pair):
    return gpt.merge(gpt.merge(tokens, pair), pair[::-1])


# lm_loss


def picked(values, tokens):
    return values[:, :-1].gather(-1, tokens[:, 1:, None])


def wrapped(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())


def against(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


# layer_norm


def normed(x, w, b, eps, axis=-1, correction=0):
    x = x - x.mean(axis, keepdim=True)
    return x / (x.var(axis, keepdim=True, correction=correction) + eps).sqrt() * w + b


def changes_its_input(x, w, b, eps):
    x -= x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * w + b


# attention


def attends(x, W_Q, W_K, W_V, W_O, scale=None, mask=1, axis=-1, hide=-torch.inf, late=False, through=None):
    """The right answer, with one thing to get wrong in each keyword."""
    q, k, v = (torch.einsum("bpm,hmd->bhpd", x, W) for W in (W_Q, W_K, W_V))
    scores = q @ k.mT * (W_Q.shape[-1] ** -0.5 if scale is None else scale)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(mask)
    pattern = scores.softmax(axis) * ~hidden if late else scores.masked_fill(hidden, hide).softmax(axis)
    return through(pattern, v) if through else torch.einsum("bhpd,hdm->bpm", pattern @ v, W_O), pattern


def attention_with(**wrong):
    return lambda *weights: attends(*weights, **wrong)


def output_with(make):
    """Right pattern, and an output that `make(pattern, v, W_O)` gets wrong."""
    return lambda x, W_Q, W_K, W_V, W_O: attends(x, W_Q, W_K, W_V, W_O, through=lambda A, v: make(A, v, W_O))


def heads_scrambled(A, v, W_O):
    z = (A @ v).flatten(1, 2).unflatten(1, (A.shape[-1], -1))  # the axes of head and position without a transpose
    return torch.einsum("bphd,hdm->bpm", z, W_O)


# mlp


def mlp_with(bend):
    return lambda x, W_in, b_in, W_out, b_out: bend(x @ W_in + b_in) @ W_out + b_out


# block


def added_in_place(x, ln1, attn, ln2, mlp):
    x += attn(ln1(x))
    x += mlp(ln2(x))
    return x


def from_the_normed(x, ln1, attn, ln2, mlp):
    x = ln1(x)
    x = x + attn(x)
    x = ln2(x)
    return x + mlp(x)


def parallel(x, ln1, attn, ln2, mlp):
    return x + attn(ln1(x)) + mlp(ln2(x))


def mlp_first(x, ln1, attn, ln2, mlp):
    x = x + mlp(ln2(x))
    return x + attn(ln1(x))


def middle(x, ln1, attn):
    return x + attn(ln1(x))


# transformer


def through(blocks, x):
    for block in blocks:
        x = block(x)
    return x


def start(tokens, W_E, W_pos):
    return W_E[tokens] + W_pos[: tokens.shape[1]]


# beam_search


def searched(log_probs, tokens, width, steps, rank=None, keep=None, first=1, pick=0):
    """The right answer, with one thing to get wrong in each keyword."""
    texts, totals = tokens.repeat(first, 1), torch.zeros(first)
    for step in range(steps):
        new = log_probs(texts)
        candidates = totals[:, None] + new
        ranked = (rank(totals, new) if rank else candidates).flatten()
        wanted = width if keep is None else keep(step, len(ranked))
        best = ranked.topk(min(wanted, len(ranked))).indices
        totals = candidates.flatten()[best]
        texts = torch.cat([texts[best // new.shape[1]], best[:, None] % new.shape[1]], dim=1)
    return texts[pick], totals[pick].item()


def search_with(**wrong):
    return lambda *given: searched(*given, **wrong)


def each_text_goes_on_alone(log_probs, tokens, width, steps):
    first = log_probs(tokens[None])[0].topk(min(width, 4))
    texts, totals = torch.cat([tokens.repeat(len(first.indices), 1), first.indices[:, None]], 1), first.values
    for _ in range(steps - 1):
        new = log_probs(texts).max(-1)
        texts, totals = torch.cat([texts, new.indices[:, None]], 1), totals + new.values
    return texts[totals.argmax()], totals.max().item()


def after_search(change):
    return lambda log_probs, tokens, width, steps: change(
        *gpt.beam_search(log_probs, tokens, width, steps), len(tokens), steps
    )


MISTAKES = {
    "merge": {
        "only the first": first_only,
        "overlapping": overlapping,
        "second token kept": second_kept,
        "last token lost": last_lost,
        "last pair missed": last_pair_missed,
        "in place": in_place,
        "characters, not tokens": in_the_text,
        "right to left": right_to_left,
        "either order": either_order,
        "nothing merged": lambda tokens, pair: list(tokens),
        "a text": lambda tokens, pair: "".join(tokens),
        "pairs kept apart": lambda tokens, pair: [t for t in gpt.merge(tokens, pair) if t == "".join(pair)],
    },
    "lm_loss": {
        "unshifted": against,
        "shifted the wrong way": lambda p, t: F.cross_entropy(p[:, 1:].flatten(0, 1), t[:, :-1].flatten()),
        "the last prediction meets the first token": wrapped,
        "only the last prediction": lambda p, t: F.cross_entropy(p[:, -2], t[:, -1]),
        "the first prediction left out": lambda p, t: F.cross_entropy(p[:, 1:-1].flatten(0, 1), t[:, 2:].flatten()),
        "summed": lambda p, t: -picked(p.log_softmax(-1), t).sum(),
        "summed over each text": lambda p, t: -picked(p.log_softmax(-1), t).sum(1).mean(),
        "sign": lambda p, t: picked(p.log_softmax(-1), t).mean(),
        "a probability": lambda p, t: -picked(p.softmax(-1), t).mean(),
        "one minus a probability": lambda p, t: 1 - picked(p.softmax(-1), t).mean(),
        "mean before the logarithm": lambda p, t: -picked(p.softmax(-1), t).mean().log(),
        "no softmax": lambda p, t: -picked(p, t).mean(),
        "softmax over positions": lambda p, t: -picked(p.log_softmax(1), t).mean(),
        "softmax twice": lambda p, t: gpt.lm_loss(p.softmax(-1), t),
        "in bits": lambda p, t: gpt.lm_loss(p, t) / math.log(2),
        "no gradient": lambda p, t: gpt.lm_loss(p, t).item(),
        "one per token": lambda p, t: -picked(p.log_softmax(-1), t),
    },
    "layer_norm": {
        "unbiased": lambda x, w, b, eps: normed(x, w, b, eps, correction=1),
        "over positions": lambda x, w, b, eps: normed(x, w, b, eps, axis=1),
        "over everything": lambda x, w, b, eps: normed(x, w, b, eps, axis=(0, 1, 2)),
        "no mean": lambda x, w, b, eps: x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * w + b,
        "mean only": lambda x, w, b, eps: (x - x.mean(-1, keepdim=True)) * w + b,
        "divided by the variance": lambda x, w, b, eps: (
            (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps) * w + b
        ),
        "eps outside the root": lambda x, w, b, eps: (
            (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, correction=0) + eps) * w + b
        ),
        "no eps": lambda x, w, b, eps: normed(x, w, b, 0),
        "eps fixed": lambda x, w, b, eps: normed(x, w, b, 1e-5),
        "no weight": lambda x, w, b, eps: normed(x, 1, b, eps),
        "no bias": lambda x, w, b, eps: normed(x, w, 0, eps),
        "bias before the weight": lambda x, w, b, eps: (normed(x, 1, 0, eps) + b) * w,
        "in place": changes_its_input,
        "length 1": lambda x, w, b, eps: F.normalize(x - x.mean(-1, keepdim=True), dim=-1) * w + b,
    },
    "attention": {
        "softmax over destinations": attention_with(axis=-2),
        "no scale": attention_with(scale=1),
        "divided by d_head": lambda x, W_Q, *rest: attends(x, W_Q, *rest, scale=1 / W_Q.shape[-1]),
        "multiplied": lambda x, W_Q, *rest: attends(x, W_Q, *rest, scale=W_Q.shape[-1] ** 0.5),
        "√d_model": lambda x, W_Q, *rest: attends(x, W_Q, *rest, scale=x.shape[-1] ** -0.5),
        "√d over all heads": lambda x, W_Q, *rest: attends(x, W_Q, *rest, scale=(len(W_Q) * W_Q.shape[-1]) ** -0.5),
        "the mask hides the position itself": attention_with(mask=0),
        "the mask is late by one": attention_with(mask=2),
        "no mask": attention_with(mask=99),
        "the past is hidden": lambda x, W_Q, W_K, *rest: tuple(
            part.flip(axis) for part, axis in zip(attends(x.flip(1), W_Q, W_K, *rest), ((1,), (-2, -1)), strict=True)
        ),
        "masked with 0": attention_with(hide=0),
        "masked after the softmax": attention_with(late=True),
        "queries and keys exchanged": lambda x, W_Q, W_K, *rest: attends(x, W_K, W_Q, *rest),
        "no softmax": lambda x, W_Q, W_K, W_V, W_O: (
            attends(x, W_Q, W_K, W_V, W_O)[0],
            torch.einsum("bqm,hmd,hnd,bkn->bhqk", x, W_Q, W_K, x).tril(),
        ),
        "pattern transposed in the output": output_with(lambda A, v, W_O: torch.einsum("bhpd,hdm->bpm", A.mT @ v, W_O)),
        "every source alike": output_with(
            lambda A, v, W_O: torch.einsum("bhpd,hdm->bpm", (A > 0) / (A > 0).sum(-1, keepdim=True) @ v, W_O)
        ),
        "mean of the heads": output_with(lambda A, v, W_O: torch.einsum("bhpd,hdm->bpm", A @ v, W_O) / len(W_O)),
        "one head": output_with(lambda A, v, W_O: (A @ v)[:, 0] @ W_O[0]),
        "heads and positions scrambled": output_with(heads_scrambled),
        "W_O of another head": output_with(lambda A, v, W_O: torch.einsum("bhpd,hdm->bpm", A @ v, W_O.flip(0))),
        "no W_O": lambda *weights: (attends(*weights)[1] @ weights[0][:, None], attends(*weights)[1]),
        "one per head": output_with(lambda A, v, W_O: torch.einsum("bhpd,hdm->bhpm", A @ v, W_O)),
        "the pattern is not returned": lambda *weights: attends(*weights)[0],
        "the scores are returned": lambda *weights: (
            attends(*weights)[0],
            torch.einsum("bqm,hmd,hnd,bkn->bhqk", weights[0], weights[1], weights[2], weights[0]),
        ),
    },
    "mlp": {
        "no bend": mlp_with(lambda h: h),
        "ReLU": mlp_with(torch.relu),
        "the tanh approximation": mlp_with(lambda h: F.gelu(h, approximate="tanh")),
        "the logistic approximation": mlp_with(lambda h: h * torch.sigmoid(1.702 * h)),
        "SiLU": mlp_with(F.silu),
        "erf without √2": mlp_with(lambda h: h * (1 + torch.erf(h)) / 2),
        "Φ without x": mlp_with(torch.special.ndtr),
        "GELU at the end": lambda x, W_in, b_in, W_out, b_out: F.gelu((x @ W_in + b_in) @ W_out + b_out),
        "GELU twice": lambda x, W_in, b_in, W_out, b_out: F.gelu(F.gelu(x @ W_in + b_in) @ W_out + b_out),
        "b_in behind the GELU": lambda x, W_in, b_in, W_out, b_out: (F.gelu(x @ W_in) + b_in) @ W_out + b_out,
        "no b_in": lambda x, W_in, b_in, W_out, b_out: F.gelu(x @ W_in) @ W_out + b_out,
        "no b_out": lambda x, W_in, b_in, W_out, b_out: F.gelu(x @ W_in + b_in) @ W_out,
        "adds x": lambda x, *weights: x + gpt.mlp(x, *weights),
    },
    "block": {
        "nothing added": lambda x, ln1, attn, ln2, mlp: mlp(ln2(attn(ln1(x)))),
        "attention's output not added": lambda x, ln1, attn, ln2, mlp: (a := attn(ln1(x))) + mlp(ln2(a)),
        "the MLP's output not added": lambda x, ln1, attn, ln2, mlp: mlp(ln2(x + attn(ln1(x)))),
        "normed afterwards": lambda x, ln1, attn, ln2, mlp: ln2((m := ln1(x + attn(x))) + mlp(m)),
        "attention reads x": lambda x, ln1, attn, ln2, mlp: (m := x + attn(x)) + mlp(ln2(m)),
        "the MLP reads x": lambda x, ln1, attn, ln2, mlp: (m := x + attn(ln1(x))) + mlp(m),
        "parallel": parallel,
        "the normed copy goes on": from_the_normed,
        "one LayerNorm twice": lambda x, ln1, attn, ln2, mlp: (m := x + attn(ln1(x))) + mlp(ln1(m)),
        "MLP first": mlp_first,
        "MLP's output added to the old x": lambda x, ln1, attn, ln2, mlp: x + mlp(ln2(middle(x, ln1, attn))),
        "in place": added_in_place,
        "ln2 over everything": lambda x, ln1, attn, ln2, mlp: ln2((m := x + attn(ln1(x))) + mlp(m)),
    },
    "transformer": {
        "no positions": lambda t, W_E, W_pos, blocks, ln, W_U: ln(through(blocks, W_E[t])) @ W_U,
        "positions by token": lambda t, W_E, W_pos, blocks, ln, W_U: ln(through(blocks, W_E[t] + W_pos[t])) @ W_U,
        "the last positions": lambda t, W_E, W_pos, blocks, ln, W_U: (
            ln(through(blocks, W_E[t] + W_pos[-t.shape[1] :])) @ W_U
        ),
        "positions from 1": lambda t, W_E, W_pos, blocks, ln, W_U: (
            ln(through(blocks, W_E[t] + W_pos[1 : t.shape[1] + 1])) @ W_U
        ),
        "positions added at the end": lambda t, W_E, W_pos, blocks, ln, W_U: (
            ln(through(blocks, W_E[t]) + W_pos[: t.shape[1]]) @ W_U
        ),
        "no blocks": lambda t, W_E, W_pos, blocks, ln, W_U: ln(start(t, W_E, W_pos)) @ W_U,
        "the first block only": lambda t, W_E, W_pos, blocks, ln, W_U: (
            ln(through(blocks[:1], start(t, W_E, W_pos))) @ W_U
        ),
        "last block first": lambda t, W_E, W_pos, blocks, ln, W_U: (
            ln(through(blocks[::-1], start(t, W_E, W_pos))) @ W_U
        ),
        "blocks side by side": lambda t, W_E, W_pos, blocks, ln, W_U: (
            ln((x := start(t, W_E, W_pos)) + sum(block(x) - x for block in blocks)) @ W_U
        ),
        "blocks added again": lambda t, W_E, W_pos, blocks, ln, W_U: (
            ln((x := start(t, W_E, W_pos)) + through(blocks, x) * bool(blocks)) @ W_U
        ),
        "no final LayerNorm": lambda t, W_E, W_pos, blocks, ln, W_U: through(blocks, start(t, W_E, W_pos)) @ W_U,
        "LayerNorm first": lambda t, W_E, W_pos, blocks, ln, W_U: through(blocks, ln(start(t, W_E, W_pos))) @ W_U,
        "LayerNorm after each block": lambda t, W_E, W_pos, blocks, ln, W_U: (
            through([step for block in blocks for step in (block, ln)], start(t, W_E, W_pos)) @ W_U
        ),
        "tied": lambda t, W_E, W_pos, blocks, ln, W_U: ln(through(blocks, start(t, W_E, W_pos))) @ W_E.T,
        "a softmax": lambda *given: gpt.transformer(*given).softmax(-1),
        "the last position only": lambda *given: gpt.transformer(*given)[:, -1],
    },
    "probabilities": {
        "multiplied": lambda logits, T: (logits * T).softmax(-1),
        "ignored": lambda logits, T: logits.softmax(-1),
        "after the softmax": lambda logits, T: logits.softmax(-1) / T,
        "a power, not scaled": lambda logits, T: logits.softmax(-1) ** (1 / T),
        "softmax twice": lambda logits, T: (logits.softmax(-1) / T).softmax(-1),
        "over the batch": lambda logits, T: (logits / T).softmax(0),
        "logarithms": lambda logits, T: (logits / T).log_softmax(-1),
        "square root": lambda logits, T: (logits / T**0.5).softmax(-1),
        "greedy": lambda logits, T: F.one_hot(logits.argmax(-1), logits.shape[-1]).float(),
    },
    "beam_search": {
        "greedy": lambda log_probs, tokens, width, steps: searched(log_probs, tokens, 1, steps),
        "copies of the start": lambda log_probs, tokens, width, steps: searched(
            log_probs, tokens, width, steps, first=width
        ),
        "ranked by the last token": search_with(rank=lambda totals, new: new),
        "probabilities added": search_with(rank=lambda totals, new: totals.exp()[:, None] + new.exp()),
        "nothing dropped": search_with(keep=lambda step, n: n),
        "one text too many": lambda log_probs, tokens, width, steps: searched(log_probs, tokens, width + 1, steps),
        "each text goes on alone": each_text_goes_on_alone,
        "the worst of the kept": search_with(pick=-1),
        "the prompt left out": after_search(lambda text, total, n, steps: (text[n:], total)),
        "the log-probability per token": after_search(lambda text, total, n, steps: (text, total / steps)),
        "a probability": after_search(lambda text, total, n, steps: (text, math.exp(total))),
        "the text alone": after_search(lambda text, total, n, steps: text),
        "one step too few": lambda log_probs, tokens, width, steps: searched(log_probs, tokens, width, steps - 1),
        "the first step's choice forgotten": after_search(
            lambda text, total, n, steps: (torch.cat([text[:n], text[n:].flip(0)]), total)
        ),
    },
}
