"""Typical wrong answers to the exercises of lesson 09, which the checks must reject."""

import math

import torch

from course_utils import fourier


def parts(
    model, tokens, *, pos=True, last=-1, uniform=False, transposed=False, swapped=False, hard=False, sources=slice(None)
):
    """The two parts, with something wrong in one of them."""
    x = model.W_E[tokens] + (model.W_pos[: tokens.shape[1]] if pos else 0)
    _, cache = model.run_with_cache(tokens)
    A = cache["pattern", 0][:, 0, last]
    if uniform:
        A = torch.full_like(A, 1 / A.shape[1])
    if hard:
        A = (A.amax(1, keepdim=True) == A).float()
    OV = model.W_O[0, 0] @ model.W_V[0, 0] if swapped else model.W_V[0, 0] @ model.W_O[0, 0]
    OV = OV.T if transposed else OV
    return x[:, last] @ model.W_in[0], (A[:, :, None] * x)[:, sources].sum(1) @ OV @ model.W_in[0]


def residual_of_all(model, tokens):
    x = model.W_E[tokens] + model.W_pos[: tokens.shape[1]]
    return x.sum(1) @ model.W_in[0], parts(model, tokens)[1]


def run(model, tokens, hook, name="pattern"):
    return model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.0.attn.hook_{name}", hook)])[:, -1]


def row(weights, place=(slice(None), slice(None), -1)):
    def overwrite(pattern, hook):
        pattern[place] = weights
        return pattern

    return overwrite


def multiplied(model, tokens, weights):
    return run(model, tokens, lambda pattern, hook: pattern * weights)


def left_behind(model, tokens, weights):
    model.add_hook("blocks.0.attn.hook_pattern", row(weights))
    return model(tokens)[:, -1]


def dft(W):
    return torch.fft.rfft(W, dim=0).abs()


def unpaired(W):
    W = W - W.mean(0)
    return dft(W) ** 2 / len(W) ** 2


def all_doubled(W):
    return 2 * unpaired(W)


def dc_left_in(W):
    twice = torch.full((len(W) // 2 + 1, 1), 2.0)
    twice[0] = 1
    if len(W) % 2 == 0:
        twice[-1] = 1
    return twice * dft(W) ** 2 / len(W) ** 2


def angles(W, f):
    return 2 * math.pi * f * torch.arange(len(W), dtype=torch.float) / len(W)


def plain_phase(W, f, centre=False):
    W = W - W.mean(0) if centre else W
    return torch.atan2(angles(W, f).sin() @ W, angles(W, f).cos() @ W)


def one_period(W, f):
    """The frequency read as waves in a row of 2π, whatever the number of rows."""
    return fourier.phase(W, 3)


def fitted(W, frequencies, *, constant=True, sine=True, cosine=True):
    columns = [torch.ones(len(W))] * constant
    for f in frequencies:
        columns += [angles(W, f).cos()] * cosine + [angles(W, f).sin()] * sine
    A = torch.stack(columns, dim=1)
    return A @ torch.linalg.lstsq(A.double(), W.double()).solution.float()


def as_if_orthogonal(W, frequencies):
    out = W.mean(0).expand_as(W).clone()
    for f in frequencies:
        for curve in (angles(W, f).cos(), angles(W, f).sin()):
            out += 2 / len(W) * torch.outer(curve, curve @ W)
    return out


def one_after_the_other(W, frequencies):
    out = W.mean(0).expand_as(W)
    for f in frequencies:
        out = out + fitted(W - out, [f])
    return out


def rounded(W, frequencies):
    return fourier.projected(W, [max(1, round(f)) for f in frequencies])


def in_place(tokens, noise):
    tokens[:, :-2] = noise[:, :-2]
    return tokens


def counts(c, *, attention=4, mlp=2, layers=None):
    layers = layers or c.n_layers
    return layers * attention * c.d_model * c.n_heads * c.d_head, layers * mlp * c.d_model * c.d_mlp


MISTAKES = {
    "preactivations": {
        "residual omitted": lambda m, t: (torch.zeros(len(t), 6), parts(m, t)[1]),
        "positions omitted": lambda m, t: parts(m, t, pos=False),
        "the residual without its position": lambda m, t: (m.W_E[t[:, -1]] @ m.W_in[0], parts(m, t)[1]),
        "the head without positions": lambda m, t: (parts(m, t)[0], parts(m, t, pos=False)[1]),
        "the first position": lambda m, t: parts(m, t, last=0),
        "the residual of all positions": residual_of_all,
        "parts swapped": lambda m, t: parts(m, t)[::-1],
        "the residual counted twice": lambda m, t: (parts(m, t)[0], sum(parts(m, t))),
        "after the ReLU": lambda m, t: tuple(part.relu() for part in parts(m, t)),
        "the head after the ReLU": lambda m, t: (parts(m, t)[0], parts(m, t)[1].relu()),
        "uniform attention": lambda m, t: (parts(m, t)[0], parts(m, t, uniform=True)[1]),
        "OV transposed": lambda m, t: (parts(m, t)[0], parts(m, t, transposed=True)[1]),
        "W_O W_V": lambda m, t: (parts(m, t)[0], parts(m, t, swapped=True)[1]),
        "only the sum": lambda m, t: sum(parts(m, t)),
        "without the last token's own place": lambda m, t: (parts(m, t)[0], parts(m, t, sources=slice(-1))[1]),
        "only the last two sources": lambda m, t: (parts(m, t)[0], parts(m, t, sources=slice(-2, None))[1]),
        "the source it attends to most": lambda m, t: (parts(m, t)[0], parts(m, t, hard=True)[1]),
        "all positions": lambda m, t: (m.W_E[t] @ m.W_in[0], m.W_E[t] @ m.W_in[0]),
    },
    "with_attention": {
        "scores instead of the pattern": lambda m, t, w: run(m, t, row(w), "attn_scores"),
        "normalised": lambda m, t, w: run(m, t, row(w / w.sum())),
        "the column instead of the row": lambda m, t, w: run(m, t, row(w, (..., -1))),
        "the first row": lambda m, t, w: run(m, t, row(w, (slice(None), slice(None), 0))),
        "multiplied": multiplied,
        "not replaced": lambda m, t, w: m(t)[:, -1],
        "all positions": lambda m, t, w: m.run_with_hooks(t, fwd_hooks=[("blocks.0.attn.hook_pattern", row(w))]),
        "probabilities": lambda m, t, w: run(m, t, row(w)).softmax(-1),
        "the hook left in the model": left_behind,
        "weights reversed": lambda m, t, w: run(m, t, row(w.flip(0))),
        "answers instead of logits": lambda m, t, w: run(m, t, row(w)).argmax(-1),
    },
    "fourier_power": {
        "DC left in": dc_left_in,
        "amplitude, not power": lambda W: dft(W - W.mean(0)) / len(W),
        "the wrong axis": lambda W: torch.fft.rfft(W - W.mean(0), dim=1).abs() ** 2,
        "the whole spectrum": lambda W: torch.fft.fft(W - W.mean(0), dim=0).abs() ** 2 / len(W) ** 2,
        "complex": lambda W: torch.fft.rfft(W - W.mean(0), dim=0),
        "not divided": lambda W: dft(W - W.mean(0)) ** 2,
        "divided by n": lambda W: dft(W - W.mean(0)) ** 2 / len(W),
        "partners forgotten": unpaired,
        "n/2 doubled": all_doubled,
        "the mean of everything": lambda W: dc_left_in(W - W.mean()),
        "row means off": lambda W: dc_left_in(W - W.mean(1, keepdim=True)),
        "frequency 0 dropped": lambda W: fourier.power(W)[1:],
        "as shares": lambda W: fourier.power(W) / fourier.power(W).sum(0),
        "n/2 never doubled": lambda W: torch.cat([fourier.power(W)[:-1], unpaired(W)[-1:]]),
    },
    "wave_phase": {
        "sign turned round": lambda W, f: -fourier.phase(W, f),
        "sine and cosine swapped": lambda W, f: math.pi / 2 - fourier.phase(W, f),
        "degrees": lambda W, f: torch.rad2deg(fourier.phase(W, f)),
        "rows": lambda W, f: fourier.phase(W, f) * len(W) / (2 * math.pi * f),
        "arctan without quadrant": lambda W, f: torch.atan(torch.tan(fourier.phase(W, f))),
        "as if orthogonal": plain_phase,
        "centred, as if orthogonal": lambda W, f: plain_phase(W, f, centre=True),
        "whole frequencies only": lambda W, f: plain_phase(W, round(f)),
        "always the same frequency": one_period,
        "the top row of the spectrum": lambda W, f: -torch.fft.rfft(W, dim=0)[round(f)].angle(),
        "trough for crest": lambda W, f: fourier.phase(-W, f),
    },
    "projected": {
        "the constant lost": lambda W, f: fitted(W - W.mean(0), f),
        "the constant not fitted": lambda W, f: fitted(W, f, constant=False),
        "cosines only": lambda W, f: fitted(W, f, sine=False),
        "sines only": lambda W, f: fitted(W, f, cosine=False),
        "as if orthogonal": as_if_orthogonal,
        "one after the other": one_after_the_other,
        "rounded frequencies": rounded,
        "the rest instead": lambda W, f: W - fourier.projected(W, f),
        "the rest, with the mean": lambda W, f: W - fourier.projected(W, f) + W.mean(0),
        "across neurons": lambda W, f: fourier.projected(W.T, [min(x, len(W.T) / 2) for x in f]).T,
        "everything kept": lambda W, f: W,
        "only the mean kept": lambda W, f: W.mean(0).expand_as(W),
    },
    "corrupt_early": {
        "in place": in_place,
        "the last two replaced": lambda t, n: torch.cat([t[:, :-2], n[:, -2:]], dim=1),
        "only the last kept": lambda t, n: torch.cat([n[:, :-1], t[:, -1:]], dim=1),
        "three kept": lambda t, n: torch.cat([n[:, :-3], t[:, -3:]], dim=1),
        "nothing replaced": lambda t, n: t.clone(),
        "everything replaced": lambda t, n: n.clone(),
        "only the first replaced": lambda t, n: torch.cat([n[:, :1], t[:, 1:]], dim=1),
        "set to zero": lambda t, n: torch.cat([0 * t[:, :-2], t[:, -2:]], dim=1),
        "cut off": lambda t, n: t[:, -2:],
        "added": lambda t, n: torch.cat([t[:, :-2] + n[:, :-2], t[:, -2:]], dim=1),
        "as numbers with a point": lambda t, n: torch.cat([n[:, :-2], t[:, -2:]], dim=1).float(),
    },
    "layer_parameters": {
        "swapped": lambda c: counts(c)[::-1],
        "one layer": lambda c: counts(c, layers=1),
        "W_O forgotten": lambda c: counts(c, attention=3),
        "d_model²": lambda c: (c.n_layers * 4 * c.d_model**2, counts(c)[1]),
        "one head": lambda c: (c.n_layers * 4 * c.d_model * c.d_head, counts(c)[1]),
        "W_out forgotten": lambda c: counts(c, mlp=1),
        "4 d_model assumed": lambda c: (counts(c)[0], c.n_layers * 8 * c.d_model**2),
        "biases counted": lambda c: (
            counts(c)[0] + c.n_layers * (3 * c.n_heads * c.d_head + c.d_model),
            counts(c)[1] + c.n_layers * (c.d_mlp + c.d_model),
        ),
        "embeddings counted": lambda c: (counts(c)[0] + c.d_vocab * c.d_model, counts(c)[1]),
        "a share": lambda c: (counts(c)[0] / sum(counts(c)), counts(c)[1] / sum(counts(c))),
        "the sum": lambda c: sum(counts(c)),
    },
}
