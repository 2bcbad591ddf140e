"""Triples counted in text, and where a model expects them.

A triple (a … b → c) is a source a among the tokens before, a destination b, and the token c that
comes next.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils._arguments import Count, require_tokens, validated
from course_utils.text import D_VOCAB

Stream = Int[Tensor, " pos"]
Ids = Int[Tensor, " n"]
Square = Float[Tensor, "d_vocab d_vocab"]
Chosen = Bool[Tensor, "d_vocab pair"]


class Triples(NamedTuple):
    """Triples (a … b → c) of a text, for all pairs (b, c) of which c often follows b."""

    b: Int[Tensor, " pair"]
    c: Int[Tensor, " pair"]
    expected: Float[Tensor, "a pair"]  # how often c would come after a … b, if a made no difference
    came: Int[Tensor, "a pair"]  # how often it did
    # whether c comes after a, at any distance of the window, at least as often as usual
    likes: Bool[Tensor, "a pair"]


@validated
def count(stream: Stream, table: Square, window: Count = 16, least: Count = 2_000) -> Triples:
    """Count the triples a … b c whose c often follows.

    The a, no start token, stands in the `window` up to b; a triple is seen `least` times.
    """
    require_tokens(len(table), stream, "stream")
    total, d_vocab = table.sum(1, keepdim=True), len(table)
    # c follows b in 2 of 100 cases, and 100 times in all
    b, c = ((table / total >= 0.02) & table.ge(100) & (total >= least)).nonzero().T
    pair = torch.full((d_vocab, d_vocab), -1)
    pair[b, c] = torch.arange(len(b))
    current, following = stream[:-1], stream[1:]

    def before(labels: Stream, wanted: Ids) -> Int[Tensor, "a n"]:
        labels = torch.where(torch.isin(labels, wanted), labels, -1)
        table = preceded(current, labels, window, d_vocab)
        never = max(d_vocab, len(b)) - table.shape[1]  # the labels that never come
        return torch.nn.functional.pad(table, (0, never))[:, wanted]

    came = before(pair[current, following], torch.arange(len(b)))  # a … b c
    expected = before(current, b) * (table / total)[b, c]  # of a … b, whatever follows
    places = window * torch.bincount(current, minlength=d_vocab)[:, None]
    base_rate = torch.bincount(following, minlength=d_vocab)[c] / len(following)
    likes = before(following, c) >= base_rate * places  # a … c
    likes[0] = False
    return Triples(b, c, expected, came, likes)


@validated
@torch.no_grad()
def instances(
    model: HookedTransformer,
    tokens: Int[Tensor, "batch length"],
    triples: Triples,
    chosen: Chosen,
    window: Count = 16,
) -> tuple[Float[Tensor, " n"], Bool[Tensor, " n"], Ids, Ids, Ids]:
    """Where the c of a chosen triple may come after a … b: P(c) by a model, and whether c came.

    Then where: the row of `tokens`, the position of b, the pair (b, c). The same for every model,
    in the same order.
    """
    require_tokens(model, tokens)
    x = model(tokens, stop_at_layer=model.cfg.n_layers)[:, window:-1]  # [batch, n, d_model]
    if model.cfg.normalization_type:
        x = model.ln_final(x)
    log_Z = torch.stack([(row @ model.W_U).logsumexp(-1) for row in x])
    before, truth = tokens.unfold(1, window, 1)[:, : x.shape[1]], tokens[:, window + 1 :]
    found: list[tuple[Tensor, ...]] = []
    for b in triples.b.unique():
        row, column = (tokens[:, window:-1] == b).nonzero().T
        pairs = (triples.b == b).nonzero().flatten()
        at, which = chosen[:, pairs][before[row, column]].any(1).nonzero().T  # after one of these a
        row, column, pair = row[at], column[at], pairs[which]
        logit = (x[row, column] * model.W_U[:, triples.c[pair]].T).sum(1)
        p = (logit - log_Z[row, column]).exp()
        found.append((p, truth[row, column] == triples.c[pair], row, column + window, pair))
    p, came, row, pos, pair = (torch.cat(parts) for parts in zip(*found, strict=True))
    return p, came, row, pos, pair


@validated
def preceded(
    stream: Int[Tensor, " pos"],
    labels: Int[Tensor, " pos"],
    window: Count = 16,
    d_vocab: Count = D_VOCAB,
) -> Int[Tensor, "d_vocab label"]:
    """How often each token stands among the `window` tokens before positions of each label.

    Labels are 0, 1, 2, …; −1 leaves a position out, as are those with fewer tokens before them. A
    window may reach back into another document.
    """
    require_tokens(d_vocab, stream, "stream")
    n = int(labels.max()) + 1
    here = (labels[window:] >= 0).nonzero().flatten() + window  # positions to count at
    table = torch.zeros(d_vocab * n, dtype=torch.int32)
    ones = torch.ones(len(here), dtype=torch.int32)
    for back in range(1, window + 1):
        table.index_add_(0, stream[here - back] * n + labels[here], ones)
    return table.view(d_vocab, n)
