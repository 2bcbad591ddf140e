"""The pieces of a GPT-2-style transformer as lesson 01 asks for them: what it falls back on where a blank is left."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from course_utils._arguments import Count, checked


@checked
def merge(tokens: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """One step of byte-pair encoding: every occurrence of `pair`, from left to right, becomes one token.

    Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """
    merged = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token  # no longer equal to pair[0], so it can't be used twice
        else:
            merged.append(token)
    return merged


@checked
def lm_loss(logits: Float[Tensor, "batch pos d_vocab"], tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, ""]:
    """−log p(the token that came next) in nats, the mean over all positions but the last, which has no next token."""
    log_probs = logits[:, :-1].log_softmax(-1)
    return -log_probs.gather(-1, tokens[:, 1:, None]).mean()


@checked
def layer_norm(
    x: Float[Tensor, "... d_model"], w: Float[Tensor, "d_model"], b: Float[Tensor, "d_model"], eps: float = 1e-5
) -> Float[Tensor, "... d_model"]:
    """Each vector with mean 0 and variance 1, then times `w` plus `b` (Ba et al. 2016, "Layer Normalization")."""
    x = x - x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * w + b


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
    q, k, v = (torch.einsum("bpm,hmd->bhpd", x, W) for W in (W_Q, W_K, W_V))
    scores = q @ k.mT / math.sqrt(W_Q.shape[-1])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)  # src > dest
    pattern = scores.masked_fill(later, -torch.inf).softmax(-1)
    return torch.einsum("bhpd,hdm->bpm", pattern @ v, W_O), pattern


@checked
def mlp(
    x: Float[Tensor, "... d_model"],
    W_in: Float[Tensor, "d_model d_mlp"],
    b_in: Float[Tensor, "d_mlp"],
    W_out: Float[Tensor, "d_mlp d_model"],
    b_out: Float[Tensor, "d_model"],
) -> Float[Tensor, "... d_model"]:
    """Two matrices with a GELU between them (Hendrycks & Gimpel 2016), each position for itself."""
    return F.gelu(x @ W_in + b_in) @ W_out + b_out


@checked
def block(x: Float[Tensor, "batch pos d_model"], ln1: Callable, attn: Callable, ln2: Callable, mlp: Callable) -> Tensor:
    """A transformer block as in GPT-2: attention, then the MLP, each reads a normalised copy and adds what it found."""
    x = x + attn(ln1(x))
    return x + mlp(ln2(x))


@checked
def transformer(
    tokens: Int[Tensor, "batch pos"],
    W_E: Float[Tensor, "d_vocab d_model"],
    W_pos: Float[Tensor, "n_ctx d_model"],
    blocks: Sequence[Callable],
    ln_final: Callable,
    W_U: Float[Tensor, "d_model d_vocab"],
) -> Float[Tensor, "batch pos d_vocab"]:
    """The whole model, from tokens to logits."""
    x = W_E[tokens] + W_pos[: tokens.shape[1]]
    for apply in blocks:
        x = apply(x)
    return ln_final(x) @ W_U


@checked
def probabilities(logits: Float[Tensor, "... d_vocab"], temperature: float) -> Float[Tensor, "... d_vocab"]:
    """The softmax of the logits divided by the temperature: 1 is the model's own distribution, towards 0 is greedy."""
    return (logits / temperature).softmax(-1)


@checked
def beam_search(
    log_probs: Callable, tokens: Int[Tensor, "pos"], width: Count, steps: Count
) -> tuple[Int[Tensor, "pos_and_steps"], float]:
    """The most probable continuation that a search finds which keeps `width` texts at every step, and its log p.

    `log_probs` gives, for texts [n, pos], the log-probabilities of the next token, [n, d_vocab].
    """
    texts, totals = tokens[None], torch.zeros(1)
    for _ in range(steps):
        candidates = totals[:, None] + log_probs(texts)  # (text, next token)
        d_vocab = candidates.shape[1]
        totals, best = candidates.flatten().topk(min(width, candidates.numel()))
        texts = torch.cat([texts[best // d_vocab], best[:, None] % d_vocab], dim=1)
    return texts[0], totals[0].item()
