"""Typical wrong answers to the exercises of lesson 04, which the checks must reject."""

import torch

from course_utils.models import sinusoids


def pattern_of(model, tokens, mask=True):
    """Scores from the tokens' embeddings alone: the positions are left out."""
    x = model.W_E[tokens]
    scores = (x @ model.W_Q[0]) @ (x @ model.W_K[0]).mT / model.cfg.d_head**0.5
    return scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool() & mask, -torch.inf).softmax(-1)


def model_pattern(model, tokens):
    return model.run_with_cache(tokens)[1]["pattern", 0][0]


def terms(model, tokens, pattern):
    x = model.W_E[tokens]
    return x @ model.W_U, pattern @ (x @ model.W_V[0] @ model.W_O[0]) @ model.W_U


def right_terms(model, tokens):
    return terms(model, tokens, model_pattern(model, tokens))


def direct_from_the_end(model, tokens):
    _, heads = right_terms(model, tokens)
    return model(tokens[None])[0], heads


def heads_from_the_stream(model, tokens):
    direct, heads = right_terms(model, tokens)
    return direct, direct + heads


def heads_with_positions(model, tokens):
    x = model.W_E[tokens] + model.W_pos[: len(tokens)]
    direct, _ = right_terms(model, tokens)
    return direct, model_pattern(model, tokens) @ (x @ model.W_V[0] @ model.W_O[0]) @ model.W_U


def weigh(pattern, lengths):
    return pattern * lengths


def lengths(x, W_V, W_O):
    return (x @ W_V @ W_O).norm(dim=-1)


def turned(d_model, steps=1.0, waves=None, scale=1.0):
    even = torch.arange(0, d_model, 2)
    angle = steps / 10_000 ** (even / d_model)
    waves = slice(waves)
    R = torch.zeros(d_model, d_model)
    R[even[waves], even[waves]] = R[even[waves] + 1, even[waves] + 1] = angle.cos()[waves]
    R[even[waves], even[waves] + 1] = angle.sin()[waves]
    R[even[waves] + 1, even[waves]] = -angle.sin()[waves]
    return scale * R


def one_angle(d_model):
    """Every pair turned by the angle of the fastest wave."""
    turn = torch.tensor([[1.0, 0], [0, 1]]) * torch.cos(torch.tensor(1.0))
    turn += torch.tensor([[0, 1.0], [-1, 0]]) * torch.sin(torch.tensor(1.0))
    return torch.block_diag(*[turn] * (d_model // 2))


def tables(model, head):
    QK = model.W_E @ model.W_Q[0, head] @ (model.W_E @ model.W_K[0, head]).T
    OV = model.W_E @ model.W_V[0, head] @ model.W_O[0, head] @ model.W_U
    return QK, OV


def trigrams(
    rank_dests=lambda QK, s: (QK - QK.mean(1, keepdim=True))[:, s], rank_outs=lambda OV, s: OV[s], flip=False, shift=0
):
    def answer(model, head, source, k):
        QK, OV = tables(model, head - shift)
        dests, outs = (values.topk(k).indices for values in (rank_dests(QK, source), rank_outs(OV, source)))
        return (dests.flip(0), outs.flip(0)) if flip else (dests, outs)

    return answer


def trigrams_with_values(model, head, source, k):
    QK, OV = tables(model, head)
    return (QK - QK.mean(1, keepdim=True))[:, source].topk(k).values, OV[source].topk(k).values


def eigenvalues(A, B):
    return torch.linalg.eigvals(B @ A)


def materialised(A, B):
    values = torch.linalg.eigvals(A @ B)
    return (values.sum().real / values.abs().sum()).item()


def score(combine):
    return lambda A, B: float(combine(eigenvalues(A, B)))


def singular(A, B):
    values = torch.linalg.svdvals(B @ A)
    return ((B @ A).trace() / values.sum()).item()


def two_by_two(*rows):
    return lambda: torch.tensor(rows, dtype=torch.float)


MISTAKES = {
    "path_terms": {
        "positions omitted": lambda model, tokens: terms(model, tokens, pattern_of(model, tokens)),
        "no causal mask": lambda model, tokens: terms(model, tokens, pattern_of(model, tokens, mask=False)),
        "pattern transposed": lambda model, tokens: terms(model, tokens, model_pattern(model, tokens).mT),
        "pattern as scores": lambda model, tokens: terms(
            model, tokens, model_pattern(model, tokens).log().nan_to_num()
        ),
        "even pattern": lambda model, tokens: terms(
            model, tokens, (torch.ones(6, 6).tril() / torch.arange(1, 7)[:, None]).expand(2, 6, 6)
        ),
        "one pattern for both heads": lambda model, tokens: terms(
            model, tokens, model_pattern(model, tokens)[:1].expand(2, -1, -1)
        ),
        "the last stream as the direct path": direct_from_the_end,
        "the direct path in every head": heads_from_the_stream,
        "positions in the values": heads_with_positions,
        "heads summed": lambda model, tokens: (t := right_terms(model, tokens)) and (t[0], t[1].sum(0)),
        "heads in the wrong order": lambda model, tokens: (t := right_terms(model, tokens)) and (t[0], t[1].flip(0)),
        "shared out evenly": lambda model, tokens: (
            (t := right_terms(model, tokens)) and (t[0], t[1].mean(0).expand(2, -1, -1))
        ),
        "what heads write, not its logits": lambda model, tokens: (
            right_terms(model, tokens)[0],
            model_pattern(model, tokens) @ (model.W_E[tokens] @ model.W_V[0] @ model.W_O[0]),
        ),
        "the sum alone": lambda model, tokens: model(tokens[None])[0],
    },
    "weighted_pattern": {
        "length of the value": lambda A, x, W_V, W_O: weigh(A, (x @ W_V).norm(dim=-1)),
        "length of the stream": lambda A, x, W_V, W_O: weigh(A, x.norm(dim=-1)),
        "on the destination": lambda A, x, W_V, W_O: A * lengths(x, W_V, W_O)[:, None],
        "squared": lambda A, x, W_V, W_O: weigh(A, lengths(x, W_V, W_O) ** 2),
        "rows sum to 1 again": lambda A, x, W_V, W_O: (
            weigh(A, lengths(x, W_V, W_O)) / weigh(A, lengths(x, W_V, W_O)).sum(1, keepdim=True)
        ),
        "attention squared": lambda A, x, W_V, W_O: weigh(A**2, lengths(x, W_V, W_O)),
        "sum of sizes": lambda A, x, W_V, W_O: weigh(A, (x @ W_V @ W_O).abs().sum(-1)),
        "sum with signs": lambda A, x, W_V, W_O: weigh(A, (x @ W_V @ W_O).sum(-1)),
        "added": lambda A, x, W_V, W_O: A + lengths(x, W_V, W_O),
        "the pattern": lambda A, x, W_V, W_O: A,
        "what arrives": lambda A, x, W_V, W_O: (A @ x @ W_V @ W_O).norm(dim=-1),
    },
    "step_back": {
        "forward": lambda d: turned(d).T,
        "identity": torch.eye,
        "two steps": lambda d: turned(d, 2.0),
        "half a step": lambda d: turned(d, 0.5),
        "one wave only": lambda d: turned(d, waves=1),
        "one angle for all": one_angle,
        "sines and cosines in blocks": lambda d: turned(d)[torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])],
        "doubled": lambda d: turned(d, scale=2.0),
        "zeros": lambda d: torch.zeros(d, d),
        "a shift of the coordinates": lambda d: torch.eye(d).roll(1, 0),
        "for 8 dimensions only": lambda d: (
            torch.linalg.pinv(sinusoids(300, d)[1:]) @ sinusoids(300, d)[:-1] if d == 8 else torch.eye(d)
        ),
    },
    "skip_trigrams": {
        "QK as [src, dest]": trigrams(rank_dests=lambda QK, s: QK[s]),
        "QK as [src, dest], centred": trigrams(rank_dests=lambda QK, s: (QK - QK.mean(1, keepdim=True))[s]),
        "scores as they are": trigrams(rank_dests=lambda QK, s: QK[:, s]),
        "centred over destinations": trigrams(rank_dests=lambda QK, s: (QK - QK.mean(0))[:, s]),
        "OV as [out, src]": trigrams(rank_outs=lambda OV, s: OV[:, s]),
        "least instead of most": trigrams(rank_outs=lambda OV, s: -OV[s]),
        "least attention": trigrams(rank_dests=lambda QK, s: -(QK - QK.mean(1, keepdim=True))[:, s]),
        "largest last": trigrams(flip=True),
        "another head": trigrams(shift=1),
        "by size, whatever the sign": trigrams(rank_outs=lambda OV, s: OV[s].abs()),
        "values instead of ids": trigrams_with_values,
        "dests only": lambda model, head, source, k: trigrams()(model, head, source, k)[0],
        "outs and dests swapped": lambda *arguments: trigrams()(*arguments)[::-1],
        "one less": lambda model, head, source, k: trigrams()(model, head, source, k - 1),
    },
    "copying_score": {
        "d_vocab squared": materialised,
        "sum of eigenvalues": score(lambda v: v.sum().real),
        "divided by their sum": score(lambda v: v.sum().real / v.real.abs().sum()),
        "upside down": score(lambda v: v.abs().sum() / v.sum().real),
        "share of positive ones": score(lambda v: (v.real > 0).float().mean()),
        "sizes only": score(lambda v: v.abs().sum() / v.abs().sum()),
        "mean": score(lambda v: v.real.mean()),
        "mean sign": score(lambda v: v.real.sign().mean()),
        "mean cosine": score(lambda v: (v.real / v.abs()).mean()),
        "singular values": singular,
        "trace over norm": lambda A, B: ((B @ A).trace() / (B @ A).norm()).item(),
        "one per eigenvalue": lambda A, B: eigenvalues(A, B).real,
        "complex": lambda A, B: eigenvalues(A, B).sum() / eigenvalues(A, B).abs().sum(),
    },
    "positive_yet_lowering": {
        "a negative eigenvalue": two_by_two([-1, 0], [0, 2]),
        "symmetric": two_by_two([-1, 3], [3, 2]),
        "identity": two_by_two([1, 0], [0, 1]),
        "negative off the diagonal": two_by_two([2, -1], [-1, 2]),
        "complex eigenvalues": two_by_two([-1, 5], [-5, 3]),
        "a zero eigenvalue": two_by_two([-1, 2], [-1, 2]),
        "both negative": two_by_two([-1, 0], [0, -2]),
        "positive diagonal, negative eigenvalue": two_by_two([1, 2], [2, 1]),
        "3 × 3": two_by_two([-1, 3, 0], [-2, 4, 0], [0, 0, 1]),
    },
    "interaction": {
        "f(set()) forgotten": lambda f, a, b: f({a, b}) - f({a}) - f({b}),
        "f(set()) subtracted": lambda f, a, b: f({a, b}) - f({a}) - f({b}) - f(set()),
        "both against neither": lambda f, a, b: f({a, b}) - f(set()),
        "sign": lambda f, a, b: f({a}) + f({b}) - f({a, b}) - f(set()),
        "size only": lambda f, a, b: abs(f({a, b}) - f({a}) - f({b}) + f(set())),
        "half": lambda f, a, b: (f({a, b}) - f({a}) - f({b}) + f(set())) / 2,
        "both against one": lambda f, a, b: f({a, b}) - f({a}),
        "ratio": lambda f, a, b: (f({a, b}) + 1e-6) / (f({a}) + f({b}) + 1e-6),
        "no sets": lambda f, a, b: f(a + b) - f(a) - f(b) + f(""),
        "always 0": lambda f, a, b: 0.0,
    },
}
