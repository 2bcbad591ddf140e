"""Typical wrong answers to the exercises of lesson 02, which the checks must reject."""

import copy
import math

import torch


def terms(model, tokens, first=None, out=lambda z, W_O: z @ W_O, heads_first=False):
    _, cache = model.run_with_cache(tokens)
    layers, heads = range(model.cfg.n_layers), range(model.cfg.n_heads)
    order = [(la, h) for h in heads for la in layers] if heads_first else [(la, h) for la in layers for h in heads]
    found = [out(cache["z", la][0, :, h], model.W_O[la, h]) for la, h in order]
    embedded = model.W_E[tokens[0]]
    return torch.stack([embedded if first is None else first(model, embedded), *found])


def even_split(model, tokens):
    """The layer's output divided by the number of its heads: the sum is right."""
    _, cache = model.run_with_cache(tokens)
    n = model.cfg.n_heads
    return torch.stack(
        [cache["embed"][0], *(cache["attn_out", la][0] / n for la in range(model.cfg.n_layers) for _ in range(n))]
    )


def with_stream(model, tokens):
    found = terms(model, tokens)
    return torch.cat([found[:1], found[1:] + found[0]])


def lens(model, tokens, read=lambda cache, layer: cache["resid_post", layer], first=lambda x, model: x):
    _, cache = model.run_with_cache(tokens)
    stream = [first(cache["embed"], model), *(read(cache, layer) for layer in range(model.cfg.n_layers))]
    return torch.stack([x[0] @ model.W_U for x in stream])


def patch(model, tokens, name, hook):
    return model.run_with_hooks(tokens, fwd_hooks=[(name, hook)])


def everywhere(model, tokens, name, pos, value):
    def hook(x, hook):
        x[:] = value
        return x

    return patch(model, tokens, name, hook)


def writes_to(offset=0, add=False, fixed_name=None, fixed_pos=None):
    def answer(model, tokens, name, pos, value):
        def hook(x, hook):
            at = (pos if fixed_pos is None else fixed_pos) + offset
            x[:, at] = x[:, at] + value if add else value
            return x

        return patch(model, tokens, fixed_name or name, hook)

    return answer


def not_returned(model, tokens, name, pos, value):
    def hook(x, hook):
        x = x.clone()
        x[:, pos] = value

    return patch(model, tokens, name, hook)


def hook_left(model, tokens, name, pos, value):
    def hook(x, hook):
        x[:, pos] = value
        return x

    model.add_hook(name, hook)
    return model(tokens)


def up_to(model, tokens, name, pos, value):
    def hook(x, hook):
        x[:, : pos + 1] = value
        return x

    return patch(model, tokens, name, hook)


def token_changed(model, tokens, name, pos, value):
    tokens[:, pos] = 1
    return model(tokens)


WRITES, READS = ("W_E", "W_pos", "W_O"), ("W_Q", "W_K", "W_V", "W_U")


def turned(writes=WRITES, reads=READS, write=lambda W, Q: W @ Q, read=lambda W, Q: Q.T @ W, new=copy.deepcopy):
    def answer(model, Q):
        model = new(model)
        for name, weight in model.named_parameters():
            if name.endswith(writes):
                weight.data = write(weight.data, Q)
            elif name.endswith(reads):
                weight.data = read(weight.data, Q)
        return model

    return answer


def without(kinds, *left):
    return tuple(kind for kind in kinds if kind not in left)


def kron(a, b):
    return torch.kron(a.contiguous(), b.contiguous())


def operator(A, OV, start=True, factors=lambda a, b: kron(a, b.T), product=False, each=False, vector=torch.eye):
    identity = vector(A.shape[-1] * OV.shape[-1])
    T = identity.clone() if start else 0 * identity
    for a, b in zip(A, OV, strict=True):
        step = factors(a, b)
        T = (identity + step) @ T if product else T + step + (identity if each else 0)
    return T


def scores(query, QK, key, root):
    return query @ QK @ key.T / root


def masked(S, diagonal=1, fill=-math.inf):
    return S.masked_fill(torch.ones_like(S).triu(diagonal).bool(), fill)


def attention(x, p, QK, d_head, query=None, key=None, root=None, dim=-1):
    both = x + p
    S = scores(both if query is None else query, QK, both if key is None else key, root or math.sqrt(d_head))
    return masked(S).softmax(dim)


def frozen(model, soft, A, positions=False, residual=True, one_by_one=False, from_embedding=False, layer_of=None):
    embedded = soft @ model.W_E
    if positions:
        embedded = embedded + model.W_pos[: len(soft)]
    x = embedded
    for layer in range(model.cfg.n_layers):
        read, out = (embedded if from_embedding else x), 0
        for head in range(model.cfg.n_heads):
            at = layer if layer_of is None else layer_of
            source = x + out if one_by_one else read
            out = out + A[at, head] @ source @ model.W_V[layer, head] @ model.W_O[layer, head]
        x = x + out if residual else out
    return x @ model.W_U


def thawed(model, soft, A):
    return model(soft.argmax(1)[None])[0]


MISTAKES = {
    "stream_terms": {
        "positions in the embedding": lambda m, t: terms(m, t, lambda m, x: x + m.W_pos[: len(x)]),
        "embedding left out": lambda m, t: terms(m, t)[1:],
        "no W_O": lambda m, t: terms(m, t, out=lambda z, W_O: torch.cat([z, z], -1)),
        "head-major order": lambda m, t: terms(m, t, heads_first=True),
        "one term per layer": lambda m, t: torch.stack([terms(m, t)[0], terms(m, t)[1:3].sum(0)]),
        "layer's output split evenly": even_split,
        "embedding in every head": with_stream,
        "embedding of one token": lambda m, t: terms(m, t, lambda m, x: x[:1].expand_as(x)),
        "running totals": lambda m, t: terms(m, t).cumsum(0),
        "absolute values": lambda m, t: terms(m, t).abs(),
        "heads twice": lambda m, t: terms(m, t, out=lambda z, W_O: 2 * z @ W_O),
    },
    "logit_lens": {
        "what a layer adds": lambda m, t: lens(m, t, lambda cache, layer: cache["attn_out", layer]),
        "before layer 0 left out": lambda m, t: lens(m, t)[1:],
        "the last left out": lambda m, t: lens(m, t)[:-1],
        "before each layer": lambda m, t: lens(m, t, lambda cache, layer: cache["resid_pre", layer]),
        "reversed": lambda m, t: lens(m, t).flip(0),
        "log-probabilities": lambda m, t: lens(m, t).log_softmax(-1),
        "probabilities": lambda m, t: lens(m, t).softmax(-1),
        "positions in the stream": lambda m, t: lens(m, t, first=lambda x, m: x + m.W_pos[: x.shape[1]]),
        "always the model's logits": lambda m, t: m(t).expand(3, -1, -1),
        "the stream itself": lambda m, t: torch.stack([m.run_with_cache(t)[1]["resid_post", 0][0]] * 3),
        "layers swapped": lambda m, t: lens(m, t)[[0, 2, 1]],
        "middle doubled": lambda m, t: lens(m, t) * torch.tensor([1.0, 2, 1])[:, None, None],
    },
    "patched": {
        "at all positions": everywhere,
        "added": writes_to(add=True),
        "one position late": writes_to(offset=1),
        "one position early": writes_to(offset=-1),
        "all positions up to it": up_to,
        "hook returns nothing": not_returned,
        "hook left on the model": hook_left,
        "plain run": lambda m, t, name, pos, value: m(t),
        "always the same activation": writes_to(fixed_name="blocks.1.hook_resid_pre"),
        "another activation": writes_to(fixed_name="blocks.1.hook_resid_post"),
        "always position 2": writes_to(fixed_pos=2),
        "token changed instead": token_changed,
        "only that position's logits": lambda *a: writes_to()(*a)[:, a[3]],
    },
    "rotate": {
        "W_pos missed": turned(writes=without(WRITES, "W_pos")),
        "W_O missed": turned(writes=without(WRITES, "W_O")),
        "only embedding and unembedding": turned(("W_E",), ("W_U",)),
        "W_U missed": turned(reads=without(READS, "W_U")),
        "W_V missed": turned(reads=without(READS, "W_V")),
        "W_Q and W_K missed": turned(reads=without(READS, "W_Q", "W_K")),
        "W_K missed": turned(reads=without(READS, "W_K")),
        "Qᵀ for Q on the writes": turned(write=lambda W, Q: W @ Q.T),
        "Qᵀ for Q on W_O": lambda model, Q: turned(("W_O",), (), lambda W, Q: W @ Q.T @ Q.T)(turned()(model, Q), Q),
        "Q for Qᵀ on the reads": turned(read=lambda W, Q: Q @ W),
        "the other way round": turned(write=lambda W, Q: W @ Q.T, read=lambda W, Q: Q @ W),
        "only the reads": turned(writes=()),
        "only the writes": turned(reads=()),
        "nothing turned": lambda model, Q: copy.deepcopy(model),
        "the given model changed": turned(new=lambda model: model),
        "logits returned": lambda model, Q: model(torch.tensor([[0, 1, 2]])),
    },
    "virtual_strength": {
        "not divided": lambda a, b: (a @ b).norm(),
        "divided by one norm": lambda a, b: (a @ b).norm() / a.norm(),
        "squared": lambda a, b: ((a @ b).norm() / a.norm() / b.norm()) ** 2,
        "spectral norms": lambda a, b: (
            torch.linalg.matrix_norm(a @ b, 2) / torch.linalg.matrix_norm(a, 2) / torch.linalg.matrix_norm(b, 2)
        ),
        "divided by the norm of both together": lambda a, b: (a @ b).norm() / torch.cat([a, b.T]).norm() ** 2,
        "sum of entries": lambda a, b: (a @ b).sum() / a.norm() / b.norm(),
        "mean of absolute entries": lambda a, b: (a @ b).abs().mean() / a.norm() / b.norm(),
        "the product itself": lambda a, b: a @ b,
        "always 1": lambda a, b: 1.0,
        "always 0": lambda a, b: 0.0,
    },
    "head_out": {
        "A transposed": lambda x, A, OV: A.T @ x @ OV,
        "OV from the wrong side": lambda x, A, OV: A @ x @ OV.T,
        "no OV": lambda x, A, OV: A @ x,
        "no A": lambda x, A, OV: x @ OV,
        "OV x A": lambda x, A, OV: OV @ x @ A,
        "the stream added": lambda x, A, OV: x + A @ x @ OV,
        "summed over positions": lambda x, A, OV: (A @ x @ OV).sum(0),
        "uniform attention": lambda x, A, OV: torch.ones_like(A).tril() / torch.arange(1, len(A) + 1)[:, None] @ x @ OV,
    },
    "layer_operator": {
        "no identity": lambda A, OV: operator(A, OV, start=False),
        "an identity for each head": lambda A, OV: operator(A, OV, start=False, each=True),
        "one identity too many": lambda A, OV: operator(A, OV) + torch.eye(12),
        "attention dropped": lambda A, OV: operator(A, OV, factors=lambda a, b: kron(torch.eye(len(a)), b.T)),
        "factors swapped": lambda A, OV: operator(A, OV, factors=lambda a, b: kron(b.T, a)),
        "factors swapped, OV untransposed": lambda A, OV: operator(A, OV, factors=lambda a, b: kron(b, a)),
        "OV untransposed": lambda A, OV: operator(A, OV, factors=kron),
        "A transposed": lambda A, OV: operator(A, OV, factors=lambda a, b: kron(a.T, b.T)),
        "heads one after the other": lambda A, OV: operator(A, OV, product=True),
        "sums before the product": lambda A, OV: torch.eye(12) + kron(A.sum(0), OV.sum(0).T),
        "the first head alone": lambda A, OV: operator(A[:1], OV[:1]),
        "transposed": lambda A, OV: operator(A, OV).T,
    },
    "pattern": {
        "positions omitted": lambda x, p, QK, d: attention(x, 0 * p, QK, d),
        "positions in queries only": lambda x, p, QK, d: attention(x, p, QK, d, key=x),
        "positions in keys only": lambda x, p, QK, d: attention(x, p, QK, d, query=x),
        "QK transposed": lambda x, p, QK, d: attention(x, p, QK.T, d),
        "no √d": lambda x, p, QK, d: attention(x, p, QK, d, root=1),
        "times √d": lambda x, p, QK, d: attention(x, p, QK, d, root=1 / math.sqrt(d)),
        "divided by d": lambda x, p, QK, d: attention(x, p, QK, d, root=d),
        "√d_model": lambda x, p, QK, d: attention(x, p, QK, d, root=math.sqrt(x.shape[1])),
        "softmax over destinations": lambda x, p, QK, d: masked(scores(x + p, QK, x + p, math.sqrt(d)).T).softmax(-1).T,
        "no mask": lambda x, p, QK, d: scores(x + p, QK, x + p, math.sqrt(d)).softmax(-1),
        "mask after the softmax": lambda x, p, QK, d: scores(x + p, QK, x + p, math.sqrt(d)).softmax(-1).tril(),
        "masked with zeros": lambda x, p, QK, d: scores(x + p, QK, x + p, math.sqrt(d)).tril().softmax(-1),
        "mask off by one, sees the next": lambda x, p, QK, d: masked(scores(x + p, QK, x + p, math.sqrt(d)), 2).softmax(
            -1
        ),
        "mask off by one, not itself": lambda x, p, QK, d: (
            masked(scores(x + p, QK, x + p, math.sqrt(d)), 0, -1e9).softmax(-1).tril(-1) + torch.eye(len(x)) * 0
        ),
        "scores": lambda x, p, QK, d: scores(x + p, QK, x + p, math.sqrt(d)).tril(),
        "positions beside the scores": lambda x, p, QK, d: masked(scores(x, QK, x, math.sqrt(d)) + p @ p.T).softmax(-1),
    },
    "fold_layer_norm": {
        "w on the columns": lambda w, b, W, b_W: (W * w, b_W + b @ W),
        "w left out": lambda w, b, W, b_W: (W, b_W + b @ W),
        "b as it is": lambda w, b, W, b_W: (w[:, None] * W, b_W + b),
        "b lost": lambda w, b, W, b_W: (w[:, None] * W, b_W),
        "b_W lost": lambda w, b, W, b_W: (w[:, None] * W, b @ W),
        "b times w": lambda w, b, W, b_W: (w[:, None] * W, b_W + (w * b) @ W),
        "b from the wrong side": lambda w, b, W, b_W: (w[:, None] * W, b_W + W @ b),
        "divided by w": lambda w, b, W, b_W: (W / w[:, None], b_W + b @ W),
        "only the matrix": lambda w, b, W, b_W: w[:, None] * W,
        "order swapped": lambda w, b, W, b_W: (b_W + b @ W, w[:, None] * W),
        "in place": lambda w, b, W, b_W: (W.mul_(w[:, None]), b_W + b @ W),
    },
    "frozen_logits": {
        "patterns computed anew": thawed,
        "A transposed": lambda m, s, A: frozen(m, s, A.transpose(-1, -2)),
        "positions in the stream": lambda m, s, A: frozen(m, s, A, positions=True),
        "no residual": lambda m, s, A: frozen(m, s, A, residual=False),
        "heads one after the other": lambda m, s, A: frozen(m, s, A, one_by_one=True),
        "layer 1 reads the embedding": lambda m, s, A: frozen(m, s, A, from_embedding=True),
        "patterns of layer 0 everywhere": lambda m, s, A: frozen(m, s, A, layer_of=0),
        "heads alone": lambda m, s, A: frozen(m, s, A) - s @ m.W_E @ m.W_U,
        "direct path alone": lambda m, s, A: s @ m.W_E @ m.W_U,
        "the likeliest token": lambda m, s, A: frozen(m, torch.eye(s.shape[1])[s.argmax(1)], A),
        "log-probabilities": lambda m, s, A: frozen(m, s, A).log_softmax(-1),
        "softmax of the tokens": lambda m, s, A: frozen(m, s.softmax(-1), A),
    },
}
