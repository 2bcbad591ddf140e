"""The pieces of a GPT-2-style transformer as lesson 01 asks for them: what it falls back on where a blank is left."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from course_utils._arguments import Count, checked

Layer = Callable[[Tensor], Tensor]  # from [batch, pos, d_model] to the same


@checked
def merge(tokens: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """One step of byte-pair encoding: every occurrence of `pair`, from left to right, becomes one token.

    Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """
    merged: list[str] = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token  # no longer equal to pair[0], so it can't be used twice
        else:
            merged.append(token)
    return merged


@checked
def lm_loss(logits: Float[Tensor, "batch pos d_vocab"], tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, ""]:
    """−log p(the token that came next) in nats, the mean over all positions but the last, which has no next token."""
    log_probs = logits[:, :-1].log_softmax(-1)  # [batch, pos - 1, d_vocab]
    return -log_probs.gather(-1, tokens[:, 1:, None]).mean()  # of [batch, pos - 1, 1]


@checked
def layer_norm(
    x: Float[Tensor, "... d_model"], w: Float[Tensor, " d_model"], b: Float[Tensor, " d_model"], eps: float = 1e-5
) -> Float[Tensor, "... d_model"]:
    """Each vector with mean 0 and variance 1, then times `w` plus `b` (Ba et al. 2016, "Layer Normalization")."""
    x = x - x.mean(-1, keepdim=True)  # [..., d_model] less [..., 1]
    scale = (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()  # [..., 1]
    return x / scale * w + b  # [..., d_model]


@checked
def attention(
    x: Float[Tensor, "batch pos d_in"],
    W_Q: Float[Tensor, "head d_in d_head"],
    W_K: Float[Tensor, "head d_in d_head"],
    W_V: Float[Tensor, "head d_in d_head"],
    W_O: Float[Tensor, "head d_head d_model"],
) -> tuple[Float[Tensor, "batch pos d_model"], Float[Tensor, "batch head dest src"]]:
    """Causal attention without biases: the sum of the heads' outputs, and their patterns.

    Vaswani et al. 2017, "Attention Is All You Need".
    """
    q, k, v = (torch.einsum("bpm,hmd->bhpd", x, W) for W in (W_Q, W_K, W_V))  # each [batch, head, pos, d_head]
    scores = q @ k.mT / math.sqrt(W_Q.shape[-1])  # [batch, head, dest, src]
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)  # [dest, src]: src > dest
    pattern = scores.masked_fill(later, -torch.inf).softmax(-1)  # [batch, head, dest, src]
    return torch.einsum("bhpd,hdm->bpm", pattern @ v, W_O), pattern  # of [batch, head, dest, d_head]


@checked
def mlp(
    x: Float[Tensor, "... d_model"],
    W_in: Float[Tensor, "d_model d_mlp"],
    b_in: Float[Tensor, " d_mlp"],
    W_out: Float[Tensor, "d_mlp d_model"],
    b_out: Float[Tensor, " d_model"],
) -> Float[Tensor, "... d_model"]:
    """Two matrices with a GELU between them (Hendrycks & Gimpel 2016), each position for itself."""
    hidden = F.gelu(x @ W_in + b_in)  # [..., d_mlp]
    return hidden @ W_out + b_out  # [..., d_model]


@checked
def block(
    x: Float[Tensor, "batch pos d_model"], ln1: Layer, attn: Layer, ln2: Layer, mlp: Layer
) -> Float[Tensor, "batch pos d_model"]:
    """A transformer block as in GPT-2: attention, then the MLP, each reads a normalised copy and adds what it found."""
    x = x + attn(ln1(x))  # [batch, pos, d_model]
    return x + mlp(ln2(x))  # [batch, pos, d_model]


@checked
def transformer(
    tokens: Int[Tensor, "batch pos"],
    W_E: Float[Tensor, "d_vocab d_model"],
    W_pos: Float[Tensor, "n_ctx d_model"],
    blocks: Sequence[Layer],
    ln_final: Layer,
    W_U: Float[Tensor, "d_model d_vocab"],
) -> Float[Tensor, "batch pos d_vocab"]:
    """The whole model, from tokens to logits."""
    x = W_E[tokens] + W_pos[: tokens.shape[1]]  # [batch, pos, d_model] and [pos, d_model]
    for apply in blocks:
        x = apply(x)  # [batch, pos, d_model]
    return ln_final(x) @ W_U  # [batch, pos, d_vocab]


@checked
def probabilities(logits: Float[Tensor, "... d_vocab"], temperature: float) -> Float[Tensor, "... d_vocab"]:
    """The softmax of the logits divided by the temperature: 1 is the model's own distribution, towards 0 is greedy."""
    return (logits / temperature).softmax(-1)


@checked
def beam_search(
    log_probs: Callable[[Tensor], Tensor], tokens: Int[Tensor, " pos"], width: Count, steps: Count
) -> tuple[Int[Tensor, " pos_and_steps"], float]:
    """The most probable continuation that a search finds which keeps `width` texts at every step, and its log p.

    `log_probs` gives, for texts [n, pos], the log-probabilities of the next token, [n, d_vocab].
    """
    texts, totals = tokens[None], torch.zeros(1)  # [n, pos] and [n], one text at first
    for _ in range(steps):
        candidates = totals[:, None] + log_probs(texts)  # [n, d_vocab], as (text, next token)
        totals, best = candidates.flatten().topk(min(width, candidates.numel()))  # at most `width` of them
        text, token = torch.unravel_index(best, candidates.shape)
        texts = torch.cat([texts[text], token[:, None]], dim=1)  # one position longer
    return texts[0], totals[0].item()
