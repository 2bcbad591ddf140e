"""Typical wrong answers to the exercises of lesson 06, which the checks must reject."""

import torch


def terms(cache, head, *, q="W_Q", k="W_K", layer=1, scale=True, names=str, everywhere=False, positions=True, W_O=True):
    """The terms of a head's scores, with one thing or another gone wrong."""
    model = cache.model
    n = cache["embed"].shape[1]
    sources = {"embed": cache["embed"][0], "pos": model.W_pos[:n] * positions}
    for h in range(model.cfg.n_heads):
        sources[f"0.{h}"] = cache["z", 0][0, :, h] @ model.W_O[0, h if W_O else 0]
    if everywhere:
        sources = {name: x + model.W_pos[:n] * (name != "pos") for name, x in sources.items()}
    root = model.cfg.d_head**0.5 if scale else 1
    W_Q, W_K = getattr(model, q)[layer, head], getattr(model, k)[layer, head]
    return {(a, b): (x @ W_Q) @ (y @ W_K).T / root for a, x in sources.items() for b, y in sources.items()}


def keys_only(cache, head):
    return {pair: term * (pair[0] != "pos") for pair, term in terms(cache, head).items()}


def diagonal(cache, head):
    right = terms(cache, head)
    return {("0.0", "0.0"): right["0.0", "0.0"]}


def moved(cache, head):
    right = terms(cache, head)
    right["embed", "pos"], right["pos", "embed"] = right["pos", "embed"], right["embed", "pos"]
    return right


def score(first, second, **norm):
    product, a, b = (torch.linalg.matrix_norm(m, **norm) for m in (first @ second, first, second))
    return product / (a * b)


def with_(Q=lambda o, q, v: score(o, q), K=lambda o, q, v: score(o, q.T), V=lambda o, q, v: score(o, v)):
    return lambda OV1, QK2, OV2, mode: {"Q": Q, "K": K, "V": V}[mode](OV1, QK2, OV2)


def runs(model, tokens, *, frozen=True, at_once=False, add_up=False, layers=(0, 1), W_pos=False, order=(0, 1, 2)):
    _, cache = model.run_with_cache(tokens)
    x0 = cache["embed"]
    place = model.W_pos[: tokens.shape[1]]

    def write(layer, x):
        pattern = cache["pattern", layer]
        if not frozen:
            q, k = ((x + place)[:, None] @ W[layer] for W in (model.W_Q, model.W_K))
            seen = torch.ones(x.shape[1], x.shape[1]).tril().bool()
            pattern = (q @ k.mT / model.cfg.d_head**0.5).masked_fill(~seen, -torch.inf).softmax(-1)
        x = x + place if W_pos else x
        return (pattern @ (x[:, None] @ model.W_V[layer]) @ model.W_O[layer]).sum(1)

    saved, losses = [0 * x0, 0 * x0], []
    for _ in order:
        x1 = x0 + saved[0]
        losses.append(model.loss_fn((x1 + saved[1]) @ model.W_U, tokens))
        new = [write(0, x0), 0]
        new[1] = write(1, x0 + new[0] if at_once else x1)
        new = [n if layer in layers else 0 * n for layer, n in enumerate(new)]
        saved = [s + n for s, n in zip(saved, new, strict=True)] if add_up else new
    return torch.stack(losses)[list(order)]


def hooks_left(model, tokens):
    losses = runs(model, tokens)
    model.add_hook("blocks.1.attn.hook_z", lambda z, hook: 0 * z)
    return losses


def stream(pattern, x, W_V, W_O):
    return (x @ W_V @ W_O).norm(dim=1)


MISTAKES = {
    "virtual_head": {
        "patterns in the wrong order": lambda x, A1, OV1, A2, OV2: A1 @ A2 @ x @ OV1 @ OV2,
        "circuits in the wrong order": lambda x, A1, OV1, A2, OV2: A2 @ A1 @ x @ OV2 @ OV1,
        "both in the wrong order": lambda x, A1, OV1, A2, OV2: A1 @ A2 @ x @ OV2 @ OV1,
        "patterns transposed": lambda x, A1, OV1, A2, OV2: A2.T @ A1.T @ x @ OV1 @ OV2,
        "columns": lambda x, A1, OV1, A2, OV2: A2 @ A1 @ x @ OV1.T @ OV2.T,
        "the second head alone": lambda x, A1, OV1, A2, OV2: A2 @ x @ OV2,
        "with the direct path": lambda x, A1, OV1, A2, OV2: A2 @ (x + A1 @ x @ OV1) @ OV2,
        "the sum of two heads": lambda x, A1, OV1, A2, OV2: A1 @ x @ OV1 + A2 @ x @ OV2,
        "patterns multiplied entry by entry": lambda x, A1, OV1, A2, OV2: (A2 * A1) @ x @ OV1 @ OV2,
        "one pattern twice": lambda x, A1, OV1, A2, OV2: A2 @ A2 @ x @ OV1 @ OV2,
    },
    "qk_terms": {
        "queries and keys swapped": lambda cache, head: terms(cache, head, q="W_K", k="W_Q"),
        "names swapped": lambda cache, head: {(b, a): t for (a, b), t in terms(cache, head).items()},
        "transposed": lambda cache, head: {pair: t.T for pair, t in terms(cache, head).items()},
        "names swapped and transposed": lambda cache, head: {(b, a): t.T for (a, b), t in terms(cache, head).items()},
        "positions omitted": lambda cache, head: {p: t for p, t in terms(cache, head).items() if "pos" not in p},
        "positions zero": lambda cache, head: terms(cache, head, positions=False),
        "positions in the keys only": keys_only,
        "positions in every source": lambda cache, head: terms(cache, head, everywhere=True),
        "positions in the embedding": lambda cache, head: {
            (a, b): t for (a, b), t in terms(cache, head, everywhere=True).items() if "pos" not in (a, b)
        },
        "not divided": lambda cache, head: terms(cache, head, scale=False),
        "the head of layer 0": lambda cache, head: terms(cache, head, layer=0),
        "one W_O for all heads": lambda cache, head: terms(cache, head, W_O=False),
        "another head": lambda cache, head: terms(cache, 0),
        "one term": diagonal,
        "two terms changed places": moved,
        "only the sum": lambda cache, head: sum(terms(cache, head).values()),
    },
    "composition": {
        "Q transposed": with_(Q=lambda o, q, v: score(o, q.T)),
        "K not transposed": with_(K=lambda o, q, v: score(o, q)),
        "Q and K swapped": with_(Q=lambda o, q, v: score(o, q.T), K=lambda o, q, v: score(o, q)),
        "V transposed": with_(V=lambda o, q, v: score(o, v.T)),
        "OV1 transposed": lambda o, q, v, mode: with_()(o.T, q, v, mode),
        "everything transposed": lambda o, q, v, mode: with_()(o.T, q.T, v.T, mode),
        "columns": with_(lambda o, q, v: score(q, o), lambda o, q, v: score(q.T, o), lambda o, q, v: score(v, o)),
        "V in the wrong order": with_(V=lambda o, q, v: score(v, o)),
        "Q in the wrong order": with_(Q=lambda o, q, v: score(q, o)),
        "K in the wrong order": with_(K=lambda o, q, v: score(q, o)),
        "V with QK": with_(V=lambda o, q, v: score(o, q)),
        "the mode ignored": lambda o, q, v, mode: score(o, q),
        "not divided": with_(Q=lambda o, q, v: (o @ q).norm()),
        "the spectral norm": lambda o, q, v, mode: score(o, {"Q": q, "K": q.T, "V": v}[mode], ord=2),
        "squared": lambda o, q, v, mode: with_()(o, q, v, mode) ** 2,
        "the baseline subtracted": lambda o, q, v, mode: with_()(o, q, v, mode) - len(o) ** -0.5,
        "entry by entry": lambda o, q, v, mode: (o * {"Q": q, "K": q.T, "V": v}[mode]).norm() / (o.norm() * q.norm()),
        "the trace": lambda o, q, v, mode: (o @ {"Q": q, "K": q.T, "V": v}[mode]).trace() / (o.norm() * q.norm()),
    },
    "product_norm": {
        "multiplied out": lambda V, out, Q, K: (V @ out @ Q @ K.T).norm(),
        "the circuits multiplied out": lambda V, out, Q, K: ((V @ out) @ (Q @ K.T)).norm(),
        "cycled": lambda V, out, Q, K: (K.T @ V @ out @ Q).norm(),
        "squared": lambda V, out, Q, K: ((V.T @ V) @ (out @ Q) @ (K.T @ K) @ (out @ Q).T).trace(),
        "the middle alone": lambda V, out, Q, K: (out @ Q).norm(),
        "product of norms": lambda V, out, Q, K: V.norm() * (out @ Q).norm() * K.norm(),
        "one transpose missing": lambda V, out, Q, K: (
            ((V.T @ V) @ (out @ Q) @ (K.T @ K) @ (out @ Q)).trace().abs().sqrt()
        ),
        "grams swapped": lambda V, out, Q, K: ((K.T @ K) @ (out @ Q) @ (V.T @ V) @ (out @ Q).T).trace().sqrt(),
        "the wide Gram matrices": lambda V, out, Q, K: ((V @ V.T).trace() * ((out @ Q) ** 2).sum()).sqrt(),
        "Q and K swapped": lambda V, out, Q, K: ((V.T @ V) @ (out @ K) @ (Q.T @ Q) @ (out @ K).T).trace().sqrt(),
        "no K": lambda V, out, Q, K: ((V.T @ V) @ (out @ Q) @ (out @ Q).T).trace().sqrt(),
    },
    "value_weighted": {
        "weighted by destination": lambda A, x, V, out: A * stream(A, x, V, out)[:, None],
        "the value's length": lambda A, x, V, out: A * (x @ V).norm(dim=1),
        "the stream's length": lambda A, x, V, out: A * x.norm(dim=1),
        "rows normalised": lambda A, x, V, out: (w := A * stream(A, x, V, out)) / w.sum(1, keepdim=True),
        "squared": lambda A, x, V, out: A * stream(A, x, V, out) ** 2,
        "the sum instead of the length": lambda A, x, V, out: A * (x @ V @ out).sum(1),
        "one length for all": lambda A, x, V, out: A * (x @ V @ out).norm(),
        "lengths of columns": lambda A, x, V, out: A * (x @ V @ out).norm(dim=0)[:5],
        "largest entry": lambda A, x, V, out: A * (x @ V @ out).abs().amax(1),
        "transposed": lambda A, x, V, out: (A * stream(A, x, V, out)).T,
        "the pattern as it is": lambda A, x, V, out: A,
        "without the pattern": lambda A, x, V, out: stream(A, x, V, out).expand(5, 5),
    },
    "order_losses": {
        "patterns not frozen": lambda model, tokens: runs(model, tokens, frozen=False),
        "layer 1 reads this run's layer 0": lambda model, tokens: runs(model, tokens, at_once=True),
        "outputs added up over the runs": lambda model, tokens: runs(model, tokens, add_up=True),
        "layer 0 only": lambda model, tokens: runs(model, tokens, layers=(0,)),
        "layer 1 only": lambda model, tokens: runs(model, tokens, layers=(1,)),
        "positions in the values": lambda model, tokens: runs(model, tokens, W_pos=True),
        "backwards": lambda model, tokens: runs(model, tokens, order=(2, 1, 0)),
        "differences": lambda model, tokens: runs(model, tokens).diff(prepend=torch.zeros(1)),
        "hooks left behind": hooks_left,
        "one run late": lambda model, tokens: torch.cat([runs(model, tokens)[:1], runs(model, tokens)[:2]]),
        "the whole model's loss": lambda model, tokens: model(tokens, return_type="loss").expand(3),
        "one number": lambda model, tokens: runs(model, tokens)[2],
    },
}
