"""Typical wrong answers to the exercises of lesson 05, which the checks must reject."""

import torch


def scores(query, key, model, q_pos, k_pos):
    return query @ model.W_Q[0, 0] @ model.W_K[0, 0].T @ key.T / model.cfg.d_head**0.5


def placed(model, pos):
    return model.W_E + model.W_pos[pos]


def violations(first, own):
    values = torch.arange(len(first))
    larger = values > values[:, None]
    return (((first > own) != larger) & (values != values[:, None])).sum()


def each_alone(*tables):
    """Pairs out of order within each table."""
    a, b = torch.tril_indices(len(tables[0]), len(tables[0]), -1)
    return sum((table[:, a] <= table[:, b]).sum() for table in tables)


def bag(score, say, direct):
    return score.exp()[..., None] * (say + direct)


def free(lead, largest):
    return lead[:, : largest + 1].amin(1)


def swapped_in(lead, largest, place):
    least = free(lead, largest)
    return least.sum() - least[place] + lead[place, largest]


MISTAKES = {
    "qk_scores": {
        "positions missing": lambda m, q, k: scores(m.W_E, m.W_E, m, q, k),
        "the key's position missing": lambda m, q, k: scores(placed(m, q), m.W_E, m, q, k),
        "the query's position missing": lambda m, q, k: scores(m.W_E, placed(m, k), m, q, k),
        "axes flipped": lambda m, q, k: scores(placed(m, q), placed(m, k), m, q, k).T,
        "positions swapped": lambda m, q, k: scores(placed(m, k), placed(m, q), m, q, k),
        "positions and axes swapped": lambda m, q, k: scores(placed(m, k), placed(m, q), m, q, k).T,
        "W_Q and W_K swapped": lambda m, q, k: placed(m, q) @ m.W_K[0, 0] @ m.W_Q[0, 0].T @ placed(m, k).T / 2,
        "not scaled": lambda m, q, k: 2 * scores(placed(m, q), placed(m, k), m, q, k),
        "scaled by d_model": lambda m, q, k: scores(placed(m, q), placed(m, k), m, q, k) * 2 / 6**0.5,
        "scaled by d_head, no root": lambda m, q, k: scores(placed(m, q), placed(m, k), m, q, k) / 2,
        "after the softmax": lambda m, q, k: scores(placed(m, q), placed(m, k), m, q, k).softmax(1),
    },
    "order_violations": {
        "each plot tested alone": each_alone,
        "only the first plot": lambda s10, s11: each_alone(s10),
        "all of s11": lambda s10, s11: violations(s10, s11),
        "s11[a, a]": lambda s10, s11: violations(s10, s11.diagonal()),
        "axes flipped": lambda s10, s11: violations(s10.T, s11.diagonal()[:, None]),
        "a = b counted": lambda s10, s11: violations(s10, s11.diagonal()[:, None]) + len(s10),
        "right ones counted": lambda s10, s11: 30 - violations(s10, s11.diagonal()[:, None]),
        "a share": lambda s10, s11: violations(s10, s11.diagonal()[:, None]) / 36,
        "only a > b": lambda s10, s11: (s10 <= s11.diagonal()[:, None]).tril(-1).sum(),
        "the sign turned round": lambda s10, s11: violations(-s10, -s11.diagonal()[:, None]),
    },
    "error_bound": {
        "rule of three": lambda n, confidence: 3 / n,
        "confidence for its complement": lambda n, confidence: 1 - confidence ** (1 / n),
        "confidence ignored": lambda n, confidence: 1 - 0.05 ** (1 / n),
        "the share of right ones": lambda n, confidence: (1 - confidence) ** (1 / n),
        "none seen, so none": lambda n, confidence: 0.0,
        "one error assumed": lambda n, confidence: 1 / (n + 1),
        "no root": lambda n, confidence: 1 - (1 - confidence) / n,
        "divided": lambda n, confidence: confidence / n,
    },
    "votes": {
        "the direct path forgotten": lambda s, say, direct: bag(s, say, 0 * direct),
        "the direct path unweighted": lambda s, say, direct: bag(s, say, 0) + direct,
        "no exponential": lambda s, say, direct: s[..., None] * (say + direct),
        "softmax over positions": lambda s, say, direct: s.softmax(0)[..., None] * (say + direct),
        "softmax over values": lambda s, say, direct: s.softmax(1)[..., None] * (say + direct),
        "softmax over everything": lambda s, say, direct: s.flatten().softmax(0).view(3, 5, 1) * (say + direct),
        "unweighted": lambda s, say, direct: say + direct,
        "added": lambda s, say, direct: s.exp()[..., None] + say + direct,
        "the direct path shared out": lambda s, say, direct: bag(s, say, direct / len(s)),
    },
    "worst_lead": {
        "nothing must be the largest": lambda lead, largest: free(lead, largest).sum(),
        "all are the largest": lambda lead, largest: lead[:, largest].sum(),
        "values above the largest": lambda lead, largest: (
            (least := lead.amin(1)).sum() + (lead[:, largest] - least).min()
        ),
        "the first is the largest": lambda lead, largest: swapped_in(lead, largest, 0),
        "the last is the largest": lambda lead, largest: swapped_in(lead, largest, -1),
        "the best": lambda lead, largest: lead[:, : largest + 1].amax(1).sum(),
        "one position only": lambda lead, largest: lead[:, largest].min(),
        "the mildest place": lambda lead, largest: max(swapped_in(lead, largest, p) for p in range(len(lead))),
        "below the largest": lambda lead, largest: lead[:, : max(largest, 1)].amin(1).sum(),
        "one per position": lambda lead, largest: free(lead, largest),
    },
}
