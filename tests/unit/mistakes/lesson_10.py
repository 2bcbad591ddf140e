"""Typical wrong answers to the exercises of lesson 10, which the checks must reject."""

import copy
import itertools
import math

import torch

from course_utils import heads


def scale(stream):
    return (stream - stream.mean(1, keepdim=True)).pow(2).mean(1).sqrt()


def matched(middle, W_E):
    values = torch.linalg.eigvals(W_E @ middle @ W_E.T)
    return (values.sum().real / values.abs().sum()).item()


def magnitude(middle, W_E, of):
    values = torch.linalg.eigvals(W_E @ middle @ W_E.T)
    return of(values)


def gaps(model, head, source, dest, fillers, *, build=None, read=(-1, 1), rows=slice(None), mean=True, start=0):
    def plain(row, gap):
        return [0, source, *row[:gap], dest]

    found = []
    for gap in range(start, fillers.shape[1] + 1):
        tokens = torch.tensor([(build or plain)(row, gap) for row in fillers.tolist()[rows]])
        entries = heads.patterns(model, tokens)[0, head, :, read[0], read[1]]
        found.append(entries.mean() if mean else entries.sum())
    return torch.stack(found)


def offsets(pattern, same, behind, skip=1):
    return pattern.diagonal(-same, -2, -1)[..., skip:].mean(), pattern.diagonal(-behind, -2, -1)[..., skip + 1 :].mean()


def words(vocabulary, encode, *, spaced=True, pieces=(2,), bare=True):
    found = []
    for whole, name in enumerate(vocabulary):
        if not name or (spaced and not name.startswith(" ")):
            continue
        parts = encode(name[1:] if bare else name)
        if len(parts) in pieces:
            found.append((whole, parts[0], parts[-1]))
    return found


def most_frequent(items):
    items = list(items)
    return max(dict.fromkeys(items), key=items.count)


def rescaled(model, factor, names=("W_Q",), inside=True):
    model = copy.deepcopy(model) if inside else model
    for block in model.blocks:
        for name in names:
            getattr(block.attn, name).data *= factor(model.cfg)
    return model


def on_the_stack(model):
    model = copy.deepcopy(model)
    model.W_Q.data *= math.sqrt(model.cfg.d_head)
    return model


def head_of(direction, factor):
    return direction[:, None], factor * direction[None]


def signs(n, off):
    v = torch.ones(n)
    v[: n // 2] = -1
    return off * torch.outer(v, v)


MISTAKES = {
    "fold_shortformer": {
        "positions left as they were": lambda w, b, P, W: (P, w[:, None] * W, b @ W),
        "positions multiplied": lambda w, b, P, W: (P * w, w[:, None] * W, b @ W),
        "positions divided twice": lambda w, b, P, W: (P / w**2, w[:, None] * W, b @ W),
        "positions lost": lambda w, b, P, W: (0 * P, w[:, None] * W, b @ W),
        "w on the outputs": lambda w, b, P, W: (P / w, W * w[: W.shape[1]], b @ W),
        "w forgotten": lambda w, b, P, W: (P, W, b @ W),
        "W_Q divided": lambda w, b, P, W: (P * w, W / w[:, None], b @ W),
        "b not through W_Q": lambda w, b, P, W: (P / w, w[:, None] * W, b[: W.shape[1]]),
        "b through the folded W_Q": lambda w, b, P, W: (P / w, w[:, None] * W, b @ (w[:, None] * W)),
        "b forgotten": lambda w, b, P, W: (P / w, w[:, None] * W, torch.zeros(W.shape[1])),
        "b twice": lambda w, b, P, W: ((P + b) / w, w[:, None] * W, b @ W),
        "b divided by w": lambda w, b, P, W: (P / w, w[:, None] * W, (b / w) @ W),
        "no bias": lambda w, b, P, W: (P / w, w[:, None] * W),
        "in another order": lambda w, b, P, W: (w[:, None] * W, P / w, b @ W),
    },
    "scale_spread": {
        "not centred": lambda s: (s.pow(2).mean(1).sqrt().std() / s.pow(2).mean(1).sqrt().mean()).item(),
        "over positions": lambda s: (s.std(0).std() / s.std(0).mean()).item(),
        "not relative": lambda s: scale(s).std().item(),
        "variances": lambda s: (scale(s).pow(2).std() / scale(s).pow(2).mean()).item(),
        "of the stream": lambda s: ((s - s.mean(1, keepdim=True)).std() / s.norm(dim=1).mean()).item(),
        "squared": lambda s: (scale(s).var() / scale(s).mean() ** 2).item(),
        "one per position": scale,
        "range": lambda s: ((scale(s).max() - scale(s).min()) / scale(s).mean()).item(),
    },
    "qk_term": {
        "as the paper prints it": lambda x, y, A_q, A_k, W: A_q.T @ x @ W @ y.T @ A_k,
        "A_k not transposed": lambda x, y, A_q, A_k, W: A_q @ x @ W @ y.T @ A_k,
        "A_q transposed": lambda x, y, A_q, A_k, W: A_q.T @ x @ W @ y.T @ A_k.T,
        "queries on the columns": lambda x, y, A_q, A_k, W: (A_q @ x @ W @ y.T @ A_k.T).T,
        "W transposed": lambda x, y, A_q, A_k, W: A_q @ x @ W.T @ y.T @ A_k.T,
        "only keys moved": lambda x, y, A_q, A_k, W: x @ W @ y.T @ A_k.T,
        "only queries moved": lambda x, y, A_q, A_k, W: A_q @ x @ W @ y.T,
        "A_q and A_k exchanged": lambda x, y, A_q, A_k, W: A_k @ x @ W @ y.T @ A_q.T,
    },
    "through_layer": {
        "as part 4 has it": lambda S, A, OV: S @ (torch.eye(S.shape[1]) + OV.sum(0)),
        "stream forgotten": lambda S, A, OV: (A @ S @ OV).sum(0),
        "destination and source swapped": lambda S, A, OV: S + (A.mT @ S @ OV).sum(0),
        "OV transposed": lambda S, A, OV: S + (A @ S @ OV.mT).sum(0),
        "mean over heads": lambda S, A, OV: S + (A @ S @ OV).mean(0),
        "the first head only": lambda S, A, OV: S + A[0] @ S @ OV[0],
        "all heads share a pattern": lambda S, A, OV: S + A.mean(0) @ S @ OV.sum(0),
        "stream counted per head": lambda S, A, OV: (S + A @ S @ OV).sum(0),
    },
    "identity_error": {
        "no root": lambda rank, d: 1 - rank / d,
        "what is kept": lambda rank, d: math.sqrt(rank / d),
        "share of the rank": lambda rank, d: rank / d,
        "not relative": lambda rank, d: math.sqrt(d - rank),
        "linear in roots": lambda rank, d: 1 - math.sqrt(rank / d),
        "the spectral norm": lambda rank, d: float(rank < d),
    },
    "destination_axis": {
        "always the rows": lambda picture: 0,
        "always the columns": lambda picture: 1,
        "the other way round": lambda p: int(torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-4)),
        "by the mask": lambda p: 0 if p.triu(1).sum() < 1e-6 else 1,
        "a truth value": lambda p: bool(torch.allclose(p.sum(0), torch.ones(len(p)))),
        "by the larger entries": lambda p: 0 if p.tril().sum() > p.triu().sum() else 1,
    },
    "copier": {
        "the identity": lambda n: torch.eye(n),
        "minus the identity": lambda n: -torch.eye(n),
        "positive diagonal only": lambda n: 2 * torch.ones(n, n) - torch.eye(n),
        "the constant direction": lambda n: -0.9 * torch.ones(n, n) + 1.9 * torch.eye(n),
        "off the diagonal too weak": lambda n: signs(n, -0.1).fill_diagonal_(1.0),
        "the other sign": lambda n: signs(n, 0.9).fill_diagonal_(1.0),
        "as large as itself": lambda n: signs(n, -1.0).fill_diagonal_(1.0),
        "random": lambda n: torch.randn(n, n, generator=torch.Generator().manual_seed(1)),
    },
    "self_logit_share": {
        "not centred": lambda t: (t.diagonal() > 0).float().mean().item(),
        "columns centred": lambda t: (t.diagonal() > t.mean(0)).float().mean().item(),
        "the largest of its row": lambda t: (t.argmax(1) == torch.arange(len(t))).float().mean().item(),
        "positive eigenvalues": lambda t: (torch.linalg.eigvals(t).real > 0).float().mean().item(),
        "a count": lambda t: (t.diagonal() > t.mean(1)).sum().item(),
        "the trace": lambda t: (t.diagonal() - t.mean(1)).mean().item(),
        "below": lambda t: (t.diagonal() < t.mean(1)).float().mean().item(),
    },
    "copying_heads": {
        "those below": lambda s, t: (s <= t[:, None]).sum(1),
        "shares": lambda s, t: (s > t[:, None]).float().mean(1),
        "absolute values": lambda s, t: (s.abs() > t[:, None]).sum(1),
        "thresholds sorted": lambda s, t: (s > t.sort().values[:, None]).sum(1),
        "a truth value": lambda s, t: (s > t[:, None]).any(1),
        "one per score": lambda s, t: (s > t[:, None]).sum(0),
    },
    "match_positivity": {
        "OV not transposed": lambda W_E, QK, OV: matched(QK @ OV, W_E),
        "W_QK alone, as the summary has it": lambda W_E, QK, OV: matched(QK, W_E),
        "W_OV alone": lambda W_E, QK, OV: matched(OV, W_E),
        "the wrong order": lambda W_E, QK, OV: matched(OV.T @ QK, W_E),
        "real parts only": lambda W_E, QK, OV: magnitude(
            QK @ OV.T, W_E, lambda v: (v.real.sum() / v.real.abs().sum()).item()
        ),
        "not divided": lambda W_E, QK, OV: magnitude(QK @ OV.T, W_E, lambda v: v.real.sum().item()),
        "share of positive ones": lambda W_E, QK, OV: magnitude(
            QK @ OV.T, W_E, lambda v: (v.real > 0).float().mean().item()
        ),
        "singular values": lambda W_E, QK, OV: 1.0,
    },
    "attention_by_gap": {
        "read at the start token": lambda *a: gaps(*a, read=(-1, 0)),
        "read from the source": lambda *a: gaps(*a, read=(1, -1)),
        "read at the token before": lambda *a: gaps(*a, read=(-1, -2)),
        "no start token": lambda m, h, s, d, f: gaps(m, h, s, d, f, build=lambda r, g: [s, *r[:g], d], read=(-1, 0)),
        "one row": lambda *a: gaps(*a, rows=slice(1)),
        "summed": lambda *a: gaps(*a, mean=False),
        "gap 0 left out": lambda *a: gaps(*a, start=1),
        "the last fillers": lambda m, h, s, d, f: gaps(m, h, s, d, f, build=lambda r, g: [0, s, *r[len(r) - g :], d]),
        "fillers in front": lambda m, h, s, d, f: gaps(m, h, s, d, f, build=lambda r, g: [0, *r[:g], s, d]),
        "source and destination exchanged": lambda m, h, s, d, f: gaps(m, h, d, s, f),
        "always the first head": lambda m, h, s, d, f: gaps(m, 0, s, d, f),
    },
    "landing": {
        "exchanged": lambda p, period: offsets(p, period, period - 1)[::-1],
        "one too far": lambda p, period: offsets(p, period + 1, period),
        "the token in front": lambda p, period: offsets(p, period, period + 1, skip=0),
        "one period and one": lambda p, period: offsets(p, period - 1, 1),
        "the first pass counts": lambda p, period: (
            p.diagonal(-period, -2, -1).mean(),
            p.diagonal(1 - period, -2, -1).mean(),
        ),
        "summed": lambda p, period: (
            p.diagonal(-period, -2, -1)[..., 1:].sum(),
            p.diagonal(1 - period, -2, -1)[..., 2:].sum(),
        ),
        "destinations on the columns": lambda p, period: offsets(p.mT, period, period - 1),
        "only the second": lambda p, period: p.diagonal(1 - period, -2, -1)[..., 2:].mean(),
    },
    "split_words": {
        "words without a space too": lambda v, e: words(v, e, spaced=False),
        "three pieces too": lambda v, e: words(v, e, pieces=(2, 3)),
        "one piece too": lambda v, e: words(v, e, pieces=(1, 2)),
        "the space kept": lambda v, e: words(v, e, bare=False),
        "strings": lambda v, e: [(v[a], v[b], v[c]) for a, b, c in words(v, e)],
        "the whole alone": lambda v, e: [a for a, _, _ in words(v, e)],
        "pieces exchanged": lambda v, e: [(a, c, b) for a, b, c in words(v, e)],
        "the first word only": lambda v, e: words(v, e)[:1],
    },
    "next_merge": {
        "characters": lambda tokens: tuple(most_frequent(zip("".join(tokens), "".join(tokens)[1:], strict=False))),
        "order ignored": lambda tokens: tuple(
            sorted(most_frequent(frozenset(p) for p in itertools.pairwise(tokens) if p[0] != p[1]))
        ),
        "the two most frequent tokens": lambda tokens: tuple(
            sorted(dict.fromkeys(tokens), key=tokens.count, reverse=True)[:2]
        ),
        "the first pair": lambda tokens: tuple(tokens[:2]),
        "merged already": lambda tokens: "".join(most_frequent(itertools.pairwise(tokens))),
        "every second pair": lambda tokens: most_frequent(zip(tokens[::2], tokens[1::2], strict=False)),
        "left and right exchanged": lambda tokens: most_frequent(itertools.pairwise(tokens))[::-1],
    },
    "attention_across": {
        "the boundary counts as a source": lambda p, b: p[..., b + 1 :, : b + 1].sum(-1).mean(),
        "the boundary counts as a destination": lambda p, b: p[..., b:, :b].sum(-1).mean(),
        "mean over sources": lambda p, b: p[..., b + 1 :, :b].mean(),
        "summed": lambda p, b: p[..., b + 1 :, :b].sum(),
        "destinations on the columns": lambda p, b: p[..., :b, b + 1 :].sum(-1).mean(),
        "over all destinations": lambda p, b: p[..., :b].sum(-1).mean(),
        "what stays": lambda p, b: 1 - p[..., b + 1 :, :b].sum(-1).mean(),
        "the largest": lambda p, b: p[..., b + 1 :, :b].amax(-1).mean(),
    },
    "undo_scaling": {
        "on the stack": on_the_stack,
        "no copy": lambda m: rescaled(m, lambda cfg: math.sqrt(cfg.d_head), inside=False),
        "queries and keys": lambda m: rescaled(m, lambda cfg: math.sqrt(cfg.d_head), ("W_Q", "W_K")),
        "divided again": lambda m: rescaled(m, lambda cfg: 1 / math.sqrt(cfg.d_head)),
        "d_head": lambda m: rescaled(m, lambda cfg: cfg.d_head),
        "d_model": lambda m: rescaled(m, lambda cfg: math.sqrt(cfg.d_model)),
        "a state dict": lambda m: rescaled(m, lambda cfg: math.sqrt(cfg.d_head)).state_dict(),
        "values": lambda m: rescaled(m, lambda cfg: math.sqrt(cfg.d_head), ("W_V",)),
    },
    "eraser": {
        "not normalised": lambda v: head_of(v, -1.0),
        "doubled": lambda v: head_of(v, 1 / v.dot(v)),
        "half": lambda v: head_of(v, -0.5 / v.dot(v)),
        "reflected": lambda v: head_of(v, -2 / v.dot(v)),
        "normalised once": lambda v: head_of(v, -1 / v.norm()),
        "nothing": lambda v: head_of(v, 0.0),
        "shapes exchanged": lambda v: (v[None] / v.norm(), -v[:, None] / v.norm()),
        "another direction": lambda v: (v[:, None] / v.dot(v), -v.flip(0)[None] * v.dot(v) / v.dot(v.flip(0))),
    },
}
