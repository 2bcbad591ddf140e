"""Typical wrong answers to the exercises of lesson 08, which the checks must reject."""

import itertools
import math
import statistics

import torch


def remembered(tokens, update_first=False, keep_first=False, across=False, shifted=False):
    result = torch.zeros(len(tokens), tokens.shape[1] - 1, dtype=torch.bool)
    followed = {}
    for row, document in enumerate(tokens.tolist()):
        followed = followed if across else {}
        for i, (current, following) in enumerate(itertools.pairwise(document)):
            if update_first:
                followed[current] = following
            place = i + shifted
            if place < result.shape[1]:
                result[row, place] = followed.get(current) == following
            if not (keep_first and current in followed):
                followed[current] = following
    return result


def any_pair_before(tokens):
    rows = [list(itertools.pairwise(row)) for row in tokens.tolist()]
    return torch.tensor([[pair in pairs[:i] for i, pair in enumerate(pairs)] for pairs in rows])


def token_before(tokens):
    return torch.tensor([[row[i] in row[1:i] for i in range(1, len(row))] for row in tokens.tolist()])


def current_before(tokens):
    return torch.tensor([[row[i] in row[:i] for i in range(len(row) - 1)] for row in tokens.tolist()])


def curve(choose):
    """A best_head_curve that chooses its head from all rows [step, head]."""

    def answer(history, score, layer):
        rows = torch.tensor([row[score][layer] for row in history])
        return rows[:, choose(rows)].tolist()

    return answer


def from_layer(layer):
    return lambda history, score, _: curve(lambda rows: rows[-1].argmax())(history, score, layer)


def event(first=lambda v: v[0], final=lambda v: sum(v[-4:]) / 4, last=True, line=True, rising=False, share=None):
    def answer(steps, values, part=0.5):
        start, end = first(values), final(values)
        part = part if share is None else share(part)
        level = start + part * (end - start)
        sign = 1 if end > start or rising else -1
        short = [i for i, v in enumerate(values[:-1]) if sign * (v - level) < 0]
        crossings = [i for i in short if i + 1 not in short]
        if not crossings:
            return 0.0
        before = crossings[-1] if last else crossings[0]
        rise = values[before + 1] - values[before]
        if not line or not rise:
            return float(steps[before + 1])
        return steps[before] + (level - values[before]) / rise * (steps[before + 1] - steps[before])

    return answer


def index_of_event(steps, values, share=0.5):
    return event()(list(range(len(steps))), values, share)


def coin(first, second, sides=2, ties=False, exactly=False, pairs=zip):
    differences = [b - a for a, b in pairs(first, second) if ties or a != b]
    n, rarer = len(differences), min(sum(d > 0 for d in differences), sum(d < 0 for d in differences))
    counts = [rarer] if exactly else range(rarer + 1)
    return min(1.0, sides * sum(math.comb(n, k) for k in counts) / 2**n)


def every_pair(first, second):
    return ((a, b) for a in first for b in second)


def sorted_pairs(first, second):
    return zip(sorted(first), sorted(second), strict=True)


def dealt(first, second, mean=statistics.fmean, far=lambda d, o: abs(d) >= abs(o) - 1e-9, deals=itertools.combinations):
    values, n = [*first, *second], len(first)
    distances = []
    for chosen in deals(range(len(values)), n):
        inside = [values[i] for i in chosen]
        outside = [value for i, value in enumerate(values) if i not in chosen]
        distances.append(mean(inside) - mean(outside) if outside else 0.0)
    observed = mean(first) - mean(second)
    return sum(far(d, observed) for d in distances) / len(distances)


def turned(back=1, columns=slice(None), scales=(1, 1), swapped=False):
    def answer(W_pos, d_head, scale):
        part = W_pos[:, :d_head] if columns == slice(None) else W_pos[:, -d_head:]
        n = len(part)
        dest, src = (part[back:], part[: n - back]) if back >= 0 else (part[:back], part[-back:])
        turn = torch.linalg.lstsq(dest, src, driver="gelsd").solution
        W_Q, W_K = torch.zeros(2, W_pos.shape[1], d_head)
        rows = slice(0, d_head) if columns == slice(None) else slice(-d_head, None)
        W_Q[rows] = scale ** scales[0] * turn
        W_K[rows] = scale ** scales[1] * torch.eye(d_head)
        return (W_K, W_Q) if swapped else (W_Q, W_K)

    return answer


def attention(dest, src, W_Q, W_K, divide=lambda d, h: h**0.5, mask=0, axis=-1):
    scores = (dest @ W_Q) @ (src @ W_K).T / divide(*W_Q.shape)
    if mask is not None:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(mask), -torch.inf)
    return scores.softmax(axis)


def masked_late(dest, src, W_Q, W_K):
    return attention(dest, src, W_Q, W_K, mask=None).tril()


def zeros_for_mask(dest, src, W_Q, W_K):
    return ((dest @ W_Q) @ (src @ W_K).T / W_Q.shape[1] ** 0.5).tril().softmax(-1)


MISTAKES = {
    "predictable": {
        "the first time instead of the last": lambda t: remembered(t, keep_first=True),
        "learnt before it is asked": lambda t: remembered(t, update_first=True),
        "remembered from document to document": lambda t: remembered(t, across=True),
        "shifted by one": lambda t: remembered(t, shifted=True),
        "any earlier pair": any_pair_before,
        "the token was seen": token_before,
        "the current token was seen": current_before,
        "one entry too many": lambda t: torch.cat([torch.zeros_like(t[:, :1]).bool(), remembered(t)], 1),
        "a count": lambda t: remembered(t).sum(),
        "nothing": lambda t: torch.zeros_like(t[:, 1:]).bool(),
    },
    "in_context_learning_score": {
        "sign": lambda x, w: x[:, w : 2 * w].mean() - x[:, -w:].mean(),
        "the first window": lambda x, w: x[:, -w:].mean() - x[:, :w].mean(),
        "everything before": lambda x, w: x[:, -w:].mean() - x[:, :-w].mean(),
        "against the mean": lambda x, w: x[:, -w:].mean() - x.mean(),
        "single positions": lambda x, w: x[:, -1].mean() - x[:, w].mean(),
        "sums": lambda x, w: x[:, -w:].sum() - x[:, w : 2 * w].sum(),
        "a ratio": lambda x, w: x[:, -w:].mean() / x[:, w : 2 * w].mean(),
        "rows for positions": lambda x, w: x[-w:].mean() - x[w : 2 * w].mean(),
        "one per document": lambda x, w: x[:, -w:].mean(1) - x[:, w : 2 * w].mean(1),
    },
    "best_head_curve": {
        "the best at each moment": lambda h, s, layer: [max(row[s][layer]) for row in h],
        "the mean head": lambda h, s, layer: [sum(row[s][layer]) / len(row[s][layer]) for row in h],
        "the best at the start": curve(lambda rows: rows[0].argmax()),
        "the best on average": curve(lambda rows: rows.mean(0).argmax()),
        "the one with the highest peak": curve(lambda rows: rows.max(0).values.argmax()),
        "layer 0 always": from_layer(0),
        "layer 1 always": from_layer(1),
        "its number": lambda h, s, layer: h[-1][s][layer].index(max(h[-1][s][layer])),
        "head 1 always": curve(lambda rows: 1),
        "chosen by another score": lambda h, s, layer: [
            row[s][layer][torch.tensor(h[-1]["induction"][layer]).argmax()] for row in h
        ],
    },
    "event_time": {
        "the first crossing": event(last=False),
        "half of the end": event(first=lambda v: 0.0),
        "half of the peak": event(final=max),
        "between lowest and highest": event(first=min, final=max, rising=True),
        "only the last value": event(final=lambda v: v[-1]),
        "the median of the last": event(final=lambda v: statistics.median(v[-4:])),
        "no line between measurements": event(line=False),
        "only rising": event(rising=True),
        "an index": index_of_event,
        "share ignored": event(share=lambda s: 0.5),
        "share from the end": event(share=lambda s: 1 - s),
        "equal distances": lambda steps, v, s=0.5: index_of_event(steps, v, s) * (steps[-1] - steps[-2]),
    },
    "sign_test": {
        "one side": lambda a, b: coin(a, b, sides=1),
        "ties counted": lambda a, b: coin(a, b, ties=True),
        "exactly as many": lambda a, b: coin(a, b, exactly=True),
        "sorted, not paired": lambda a, b: coin(a, b, pairs=sorted_pairs),
        "every pair with every other": lambda a, b: coin(a, b, pairs=every_pair),
        "above 1": lambda a, b: 2 * coin(a, b, sides=1),
        "the share of pairs": lambda a, b: sum(x < y for x, y in zip(a, b, strict=True)) / len(a),
        "permutations": lambda a, b: dealt(a, b),
    },
    "permutation_test": {
        "one side": lambda a, b: dealt(a, b, far=lambda d, o: d <= o + 1e-9),
        "the other side": lambda a, b: dealt(a, b, far=lambda d, o: d >= o - 1e-9),
        "further, but not as far": lambda a, b: dealt(a, b, far=lambda d, o: abs(d) > abs(o) + 1e-9),
        "medians": lambda a, b: dealt(a, b, mean=statistics.median),
        "sums": lambda a, b: dealt(a, b, mean=sum),
        "with replacement": lambda a, b: dealt(a, b, deals=itertools.combinations_with_replacement),
        "the difference": lambda a, b: abs(statistics.fmean(a) - statistics.fmean(b)),
        "one minus": lambda a, b: 1 - dealt(a, b),
        "only the observed dealing": lambda a, b: 1 / math.comb(len(a) + len(b), len(a)),
    },
    "previous_token_weights": {
        "the next token": turned(back=-1),
        "swapped": turned(swapped=True),
        "two back": turned(back=2),
        "itself": turned(back=0),
        "the slowest columns": turned(columns=slice(1)),
        "scale on the queries alone": turned(scales=(1, 0)),
        "scale forgotten": turned(scales=(0, 0)),
        "zeros": lambda W_pos, d_head, scale: torch.zeros(2, W_pos.shape[1], d_head).unbind(),
        "the product": lambda W_pos, d_head, scale: (w := turned()(W_pos, d_head, scale))[0] @ w[1].T,
    },
    "pattern_from": {
        "streams swapped": lambda d, s, Q, K: attention(s, d, Q, K),
        "weights swapped": lambda d, s, Q, K: attention(d, s, K, Q),
        "both from dest": lambda d, s, Q, K: attention(d, d, Q, K),
        "both from src": lambda d, s, Q, K: attention(s, s, Q, K),
        "no mask": lambda d, s, Q, K: attention(d, s, Q, K, mask=None),
        "mask after the softmax": masked_late,
        "zeros for a mask": zeros_for_mask,
        "mask off by one": lambda d, s, Q, K: attention(d, s, Q, K, mask=1),
        "no square root": lambda d, s, Q, K: attention(d, s, Q, K, divide=lambda d, h: h),
        "√d_model": lambda d, s, Q, K: attention(d, s, Q, K, divide=lambda d, h: d**0.5),
        "not divided": lambda d, s, Q, K: attention(d, s, Q, K, divide=lambda d, h: 1),
        "softmax over destinations": lambda d, s, Q, K: attention(d, s, Q, K, axis=0),
        "transposed": lambda d, s, Q, K: attention(d, s, Q, K).T,
        "scores": lambda d, s, Q, K: (d @ Q) @ (s @ K).T,
    },
}
