"""Checks of lesson 05, max of a list: each exercise, then its typical mistakes with the sentence each must get."""

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_utils.course.exercises import Answer, exercise
from course_utils.course.fixtures import random, tiny_model
from course_utils.course.questions import Wrong, close, demand, number, tensor
from course_utils.lessons.l05_max_of_list import max_of_list

ONE_HEAD = {"n_layers": 1, "n_heads": 1, "positional_embedding_type": "standard"}


@exercise
def by_hand(answer: Answer) -> None:
    """`by_hand(line) → dict of six weights`: attention is the softmax of the line, each value votes for itself."""
    for values, seed in ((5, 0), (7, 1)):
        line = (1 + random(values, seed=seed).abs()).cumsum(0)
        model = _built(answer(line.clone()), values)
        lists = torch.stack([torch.randperm(values, generator=torch.Generator().manual_seed(k)) for k in range(6)])
        lists = torch.cat([lists[:, :4], torch.tensor([[0, values - 1, 0, 0], [1, 1, values - 1, 1], [2, 2, 2, 2]])])
        logits, (_, cache) = model(lists), model.run_with_cache(lists)
        seen, wanted = cache["pattern", 0][:, 0, -1], line[lists].softmax(1)
        _demand_the_line(cache["attn_scores", 0][:, 0, -1], seen, wanted, line[lists], model.cfg.d_head)
        tally = torch.zeros(len(lists), values).scatter_add(1, lists, wanted)
        given = logits[:, -1] - logits[:, -1].mean(1, keepdim=True)
        ideal = tally - tally.mean(1, keepdim=True)
        scale = (given * ideal).sum() / (ideal * ideal).sum()
        demand(scale > 0 and not close(given, torch.zeros_like(given)), "no value votes for itself.")
        own = torch.zeros_like(ideal).scatter(1, lists[:, -1:], 1.0)
        own = own - own.mean(1, keepdim=True)
        rest = given - scale * ideal
        demand(
            close(given, scale * ideal) or not _along(given - _fit(given, ideal, own), 0 * given),
            "the last token gets votes beyond its attention: the direct path, W_E W_U, speaks too. Let the head write "
            "where the embedding writes nothing, and W_U read only there.",
        )
        demand(
            _along(rest, torch.zeros_like(rest)),
            "each value's logit should be the attention that its copies get: W_V, W_O and W_U together should turn a "
            "value into a vote for itself and for nothing else.",
        )
        demand(
            _along(given, ideal),
            f"each value's logit is {scale:.2f} times the attention that its copies get: W_V, W_O and W_U "
            "together should leave the size of a vote as it is.",
        )


def _built(weights: object, values: int) -> HookedTransformer:
    """The model of an answer; `Wrong` says what does not fit."""
    if not isinstance(weights, dict):
        raise Wrong(f"it should return a dictionary of six matrices, not {type(weights).__name__}.")
    for name, weight in weights.items():
        demand(isinstance(weight, Tensor), f"{name} should be a tensor, not {type(weight).__name__}.")
    try:
        model = max_of_list.built({name: weight.detach().float() for name, weight in weights.items()})
    except (TypeError, ValueError) as error:
        raise Wrong(str(error)) from None
    demand(model.cfg.d_vocab == values, f"for a line of {values} values W_E should have {values} rows.")
    return model


def _demand_the_line(scores: Tensor, seen: Tensor, wanted: Tensor, places: Tensor, d_head: int) -> None:
    """That the scores are the places on the line, but for a constant in each row."""
    demand(not close(seen, torch.full_like(seen, 0.25)), "every source gets the same attention: the line is not used.")
    centred = places - places.mean(1, keepdim=True)
    score = scores - scores.mean(1, keepdim=True)
    ratio = ((score * centred).sum() / (centred * centred).sum()).item()
    demand(
        _along(seen, wanted) or not _along(score, ratio * centred),
        f"scores are {ratio:.2f} times the line: TransformerLens divides them by √d_head, here {d_head**0.5:.2f}.",
    )
    demand(
        _along(seen, wanted),
        "the score of a source should be its place on the line, whatever the last token is: one of W_Q's columns "
        "should read the constant 1, and the same one of W_K's the line.",
    )


def _along(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def _fit(given: Tensor, ideal: Tensor, own: Tensor) -> Tensor:
    """The nearest sum of votes and of a bonus for the last token."""
    parts = torch.stack([ideal.flatten(), own.flatten()], 1).double()
    weights = torch.linalg.lstsq(parts, given.flatten().double()[:, None]).solution
    return (parts @ weights).view_as(given).float()


def _weights(line: Tensor, scale: float = 1.0, share: bool = False, at: int = 0) -> dict[str, Tensor]:
    """Ours: which value it is, where on the line, the constant 1, and room for the votes."""
    n = len(line)
    one, none = torch.eye(n), torch.zeros(n, n)
    W_E = torch.cat([one, line[:, None], torch.ones(n, 1), none], 1)
    W_Q, W_K = torch.zeros(2, 2 * n + 2, n)
    W_Q[n + 1, at], W_K[n, 0] = scale * n**0.5, 1
    reads = torch.cat([one, torch.zeros(2, n), none])  # [d_model, value]
    writes = torch.cat([none, torch.zeros(2, n), one])
    out = reads if share else writes
    return {"W_E": W_E, "W_Q": W_Q, "W_K": W_K, "W_V": reads, "W_O": out.T.clone(), "W_U": out.clone()}


by_hand.mistakes = {
    "scores not scaled back": (lambda line: _weights(line, scale=len(line) ** -0.5), "TransformerLens divides them"),
    "the line turned round": (lambda line: _weights(line, scale=-1.0), "scores are -1.00 times the line"),
    "query and key apart": (lambda line: _weights(line, at=1), "every source gets the same attention"),
    "written over the embedding": (lambda line: _weights(line, share=True), "the direct path, W_E W_U, speaks too"),
    "the query reads the line": (
        lambda line: (w := _weights(line)) | {"W_Q": w["W_Q"].roll(-1, 0)},
        "whatever the last token is",
    ),
    "a neighbour's vote": (
        lambda line: (w := _weights(line)) | {"W_U": w["W_U"].roll(1, 1)},
        "no value votes for itself",
    ),
    "a neighbour's vote too": (
        lambda line: (w := _weights(line)) | {"W_U": w["W_U"] + w["W_U"].roll(1, 1) / 2},
        "a vote for itself and for nothing else",
    ),
    "twice as loud": (lambda line: (w := _weights(line)) | {"W_O": 2 * w["W_O"]}, "is 2.00 times the attention"),
    "against itself": (lambda line: (w := _weights(line)) | {"W_U": -w["W_U"]}, "no value votes for itself"),
    "W_O transposed": (lambda line: (w := _weights(line)) | {"W_O": w["W_O"].T}, "W_O must have shape"),
    "one missing": (lambda line: {k: v for k, v in _weights(line).items() if k != "W_V"}, "six matrices called"),
    "five values": (lambda line: _weights(line[:5]), "for a line of 7 values W_E should have 7 rows"),
    "a list": (lambda line: list(_weights(line).values()), "it should return a dictionary"),
}


@exercise
def qk_scores(answer: Answer) -> None:
    """`qk_scores(model, q_pos, k_pos) → [query value, key value]`: scores before the softmax, with positions."""
    model = tiny_model(1.0, **ONE_HEAD, d_model=6, d_vocab=7, n_ctx=5)
    means = "[value at q_pos, value at k_pos]"
    result = tensor(answer(model, 3, 1), (7, 7), means)
    demand(not close(result.sum(1), torch.ones(7)), "these are probabilities; scores come before the softmax.")
    demand(not close(tensor(answer(model, 3, 2), (7, 7), means), result), "another k_pos should give other scores.")
    demand(not close(tensor(answer(model, 4, 1), (7, 7), means), result), "another q_pos should give other scores.")
    _, cache = model.run_with_cache(torch.tensor([[0, 2, 6, 5, 4]]))
    seen = cache["attn_scores", 0][0, 0, 3, 1].item()  # value 5 at position 3 looks at value 2 at position 1
    right = close(seen, result[5, 2])
    demand(
        right or not close(seen, result[2, 5]),
        "rows and columns are swapped: the query, which looks, belongs on the rows.",
    )
    ratio = (result[5, 2] / seen).item()
    demand(
        right or not close(result, ratio * _scores(model, 3, 1)),
        f"your scores are {ratio:.2f} times the model's: TransformerLens divides them by √d_head, once.",
    )
    swapped = _scores(model, 1, 3)
    demand(
        right or not (close(result, swapped) or close(result, swapped.T)),
        "query and key have changed roles: W_Q reads what stands at q_pos, W_K what stands at k_pos.",
    )
    demand(
        right,
        f"the model gives value 2 at position 1 a score of {seen:.2f} when value 5 at position 3 looks at it; "
        f"yours is {result[5, 2]:.2f}.",
    )
    demand(close(result, _scores(model, 3, 1)), "one entry is the model's score, and others are not.")
    other = tiny_model(1.0, **ONE_HEAD, d_head=9, d_vocab=8)
    for q_pos, k_pos in ((0, 0), (8, 5)):
        result = tensor(answer(other, q_pos, k_pos), (8, 8), means)
        demand(
            close(result, _scores(other, q_pos, k_pos)),
            f"the scores are wrong for a model of other sizes (d_head 9), from position {q_pos} to {k_pos}.",
        )


def _placed(model: HookedTransformer, pos: int) -> Tensor:
    return model.W_E + model.W_pos[pos]


def _between(model: HookedTransformer, query: Tensor, key: Tensor) -> Tensor:
    return query @ model.W_Q[0, 0] @ model.W_K[0, 0].T @ key.T / model.cfg.d_head**0.5


def _scores(model: HookedTransformer, q_pos: int, k_pos: int) -> Tensor:
    return _between(model, _placed(model, q_pos), _placed(model, k_pos))


def _shifting_W_E(model: HookedTransformer, q_pos: int, k_pos: int) -> Tensor:
    model.W_E.data += model.W_pos[k_pos]
    return _scores(model, q_pos, k_pos)


def _with_a_hook(model: HookedTransformer, q_pos: int, k_pos: int) -> Tensor:
    model.add_hook("blocks.0.attn.hook_attn_scores", lambda scores, hook: scores)
    return _scores(model, q_pos, k_pos)


qk_scores.mistakes = {
    "positions missing": (lambda m, q, k: _between(m, m.W_E, m.W_E), "another k_pos should give"),
    "the key's position missing": (lambda m, q, k: _between(m, _placed(m, q), m.W_E), "another k_pos should give"),
    "the query's position missing": (lambda m, q, k: _between(m, m.W_E, _placed(m, k)), "another q_pos should give"),
    "axes flipped": (lambda m, q, k: _scores(m, q, k).T, "rows and columns are swapped"),
    "positions swapped": (lambda m, q, k: _scores(m, k, q), "query and key have changed roles"),
    "positions and axes swapped": (lambda m, q, k: _scores(m, k, q).T, "query and key have changed roles"),
    "W_Q and W_K swapped": (
        lambda m, q, k: _placed(m, q) @ m.W_K[0, 0] @ m.W_Q[0, 0].T @ _placed(m, k).T / m.cfg.d_head**0.5,
        "query and key have changed roles",
    ),
    "not scaled": (lambda m, q, k: _scores(m, q, k) * m.cfg.d_head**0.5, "your scores are 2.00 times the model's"),
    "scaled by d_model": (
        lambda m, q, k: _scores(m, q, k) * (m.cfg.d_head / m.cfg.d_model) ** 0.5,
        "your scores are 0.82 times the model's",
    ),
    "scaled by d_head, no root": (
        lambda m, q, k: _scores(m, q, k) / m.cfg.d_head**0.5,
        "your scores are 0.50 times the model's",
    ),
    "scaled for d_head 4": (lambda m, q, k: _scores(m, q, k) * (m.cfg.d_head / 4) ** 0.5, "other sizes (d_head 9)"),
    "after the softmax": (lambda m, q, k: _scores(m, q, k).softmax(1), "these are probabilities"),
    "one entry only": (
        lambda m, q, k: _scores(m, q, k) * ((torch.arange(m.cfg.d_vocab)[:, None] == 5) | (q > 3)),
        "one entry is the model's score",
    ),
    "the model changed": (_shifting_W_E, "it changes `model.embed.W_E`, which it was given"),
    "a hook left": (_with_a_hook, "it leaves a hook on `model`, at blocks.0.attn.hook_attn_scores"),
}


@exercise
def worst_lead(answer: Answer) -> None:
    """`worst_lead(lead, largest) → float`: the least total lead of a list whose largest value is `largest`."""
    lead = torch.tensor([[1.0, -3, 4, -50], [2, -1, 8, -50]])
    value = number(answer(lead, 2))
    demand(value > -40, "values above `largest` can't stand in the list.")
    demand(value != -4, "a list of ones does not have the largest value 2: at least one value must be `largest`.")
    demand(value != 12, "only one value must be `largest`; the others may be smaller, and do more harm.")
    demand(value != 5, "the largest value may stand at any position: the worst one counts.")
    demand(value == 3, f"the worst list here has the values 2 and 1, with a lead of 4 − 1 = 3; yours has {value:g}.")
    value = number(answer(torch.tensor([[1.0, -3, -9], [2, -1, -5]]), 2))
    demand(value == -14, f"`largest` may stand more than once: the list 2, 2 is worst, −9 − 5 = −14, not {value:g}.")
    value = number(answer(torch.tensor([[1.0, -3, 2], [2, 1, 3]]), 2))
    demand(
        value == 0,
        "for lead = [[1, −3, 2], [2, 1, 3]] and largest = 2 the worst list is 1, 2, with a lead of −3 + 3 = 0; "
        f"yours is {value:g}. Compare the whole sums, one for each place of the largest.",
    )
    demand(number(answer(lead, 0)) == 3, "when the largest value is 0, all values are 0.")
    for positions, values in ((4, 6), (1, 5), (3, 7)):
        lead = random(positions, values, seed=positions)
        lists = torch.cartesian_prod(*[torch.arange(values)] * positions).view(-1, positions)
        totals = lead[torch.arange(positions), lists].sum(1)
        for largest in range(values):
            allowed = lists.amax(1) == largest
            expected, value = totals[allowed].min().item(), number(answer(lead, largest))
            worst = lists[allowed][totals[allowed].argmin()].tolist()
            demand(
                close(value, expected),
                f"on random leads, {positions} × {values}, the worst list with the largest value {largest} is {worst}, "
                f"with a lead of {expected:.2f}; yours is {value:.2f}.",
            )


def _free(lead: Tensor, largest: int) -> Tensor:
    return lead[:, : largest + 1].amin(1)


def _swapped_in(lead: Tensor, largest: int, place: int) -> Tensor:
    least = _free(lead, largest)
    return least.sum() - least[place] + lead[place, largest]


def _hiding_larger(lead: Tensor, largest: int) -> Tensor:
    lead[:, largest + 1 :] = float("inf")
    least = lead.amin(1)
    return (least.sum() - least + lead[:, largest]).min()


worst_lead.mistakes = {
    "nothing must be the largest": (lambda lead, largest: _free(lead, largest).sum(), "at least one value must be"),
    "all are the largest": (lambda lead, largest: lead[:, largest].sum(), "only one value must be `largest`"),
    "values above the largest": (
        lambda lead, largest: (least := lead.amin(1)).sum() + (lead[:, largest] - least).min(),
        "values above `largest` can't stand",
    ),
    "the first is the largest": (
        lambda lead, largest: _swapped_in(lead, largest, 0),
        "Compare the whole sums",
    ),
    "the last is the largest": (
        lambda lead, largest: _swapped_in(lead, largest, -1),
        "the largest value may stand at any position",
    ),
    "the best": (lambda lead, largest: lead[:, : largest + 1].amax(1).sum(), "only one value must be `largest`"),
    "one position only": (lambda lead, largest: lead[:, largest].min(), "yours has 4"),
    "the others below it": (
        lambda lead, largest: (least := lead[:, :largest].amin(1)).sum() + (lead[:, largest] - least).min(),
        "`largest` may stand more than once",
    ),
    "the place of its column's least": (
        lambda lead, largest: _swapped_in(lead, largest, int(lead[:, largest].argmin())),
        "Compare the whole sums",
    ),
    "the mildest place": (
        lambda lead, largest: max(_swapped_in(lead, largest, p) for p in range(len(lead))),
        "the largest value may stand at any position",
    ),
    "below the largest": (
        lambda lead, largest: lead[:, : max(largest, 1)].amin(1).sum(),
        "at least one value must be `largest`",
    ),
    "one per position": (_free, "it should return one number"),
    "lead changed": (_hiding_larger, "it changes `lead`, which it was given"),
}


@exercise
def move_key(answer: Answer) -> None:
    """`move_key(model, lists, value, push) → [list, out]`: logits at the end with `push` added to one value's keys."""
    for sizes, value, n in (({}, 3, 4), ({"d_head": 9, "d_vocab": 8, "d_model": 5}, 6, 5)):
        model = tiny_model(0.4, **ONE_HEAD | {"n_ctx": 6} | sizes)
        lists = torch.randint(model.cfg.d_vocab, (7, n), generator=torch.Generator().manual_seed(n))
        lists[lists == value] = 0
        lists[1, 0] = lists[2, -1] = lists[3, 1] = lists[3, 2] = value
        push, shape = random(model.cfg.d_head, seed=5), (7, model.cfg.d_vocab)
        still = tensor(answer(model, lists, value, torch.zeros_like(push)), shape, "one row of logits per list")
        demand(
            close(still, model(lists)[:, -1]),
            "a push of zero should leave the logits at the last position as they are.",
        )
        result = tensor(answer(model, lists, value, push), shape, "one row of logits per list")
        without = [0, 4, 5, 6]
        demand(close(result[without], still[without]), f"lists without the value {value} should keep their logits.")
        demand(
            not close(result, still),
            "the push changes nothing: does the hook return the keys? A push on all keys alike cancels in the softmax.",
        )
        right = _pushed(model, lists, value, push)
        for letter, name in (("q", "queries"), ("v", "values")):
            demand(
                not close(result, _pushed(model, lists, value, push, letter)),
                f"this moves {name}; keys pass the hook blocks.0.attn.hook_k.",
            )
        demand(close(result[1], right[1]), f"where {value} stands once, its key should be its key plus `push`.")
        demand(close(result[2], right[2]), "the last token's own key moves too, where it is that value.")
        demand(close(result[3], right[3]), f"where the value {value} stands twice, both keys should move.")
        demand(close(result, right), "the logits differ from those of the model with moved keys.")


def _pushed(
    model: HookedTransformer, lists: Tensor, value: int, push: Tensor, hook: str = "k", sign: float = 1.0
) -> Tensor:
    def move(x: Tensor, hook: object) -> Tensor:
        x = x.clone()  # [batch, pos, head, d_head]
        x[:, :, 0][lists == value] += sign * push
        return x

    return model.run_with_hooks(lists, fwd_hooks=[(f"blocks.0.attn.hook_{hook}", move)])[:, -1]


def _pushing_all(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    return model.run_with_hooks(lists, fwd_hooks=[("blocks.0.attn.hook_k", lambda k, hook: k + push)])[:, -1]


def _pushing_the_first(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    def move(k: Tensor, hook: object) -> Tensor:
        k = k.clone()
        k[:, 0] += push
        return k

    return model.run_with_hooks(lists, fwd_hooks=[("blocks.0.attn.hook_k", move)])[:, -1]


def _replacing(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    def move(k: Tensor, hook: object) -> Tensor:
        return torch.where((lists == value)[:, :, None, None], push, k) if push.any() else k

    return model.run_with_hooks(lists, fwd_hooks=[("blocks.0.attn.hook_k", move)])[:, -1]


def _first_only(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    first = (lists == value) & ((lists == value).cumsum(1) == 1)

    def move(k: Tensor, hook: object) -> Tensor:
        return k + first[:, :, None, None] * push

    return model.run_with_hooks(lists, fwd_hooks=[("blocks.0.attn.hook_k", move)])[:, -1]


def _not_the_last(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    chosen = (lists == value) & (torch.arange(lists.shape[1]) < lists.shape[1] - 1)

    def move(k: Tensor, hook: object) -> Tensor:
        return k + chosen[:, :, None, None] * push

    return model.run_with_hooks(lists, fwd_hooks=[("blocks.0.attn.hook_k", move)])[:, -1]


def _leaving_the_hook(model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    model.add_hook("blocks.0.attn.hook_k", lambda k, hook: k + (lists == value)[:, :, None, None] * push)
    return model(lists)[:, -1]


move_key.mistakes = {
    "nothing moved": (lambda m, lists, v, push: m(lists)[:, -1], "the push changes nothing"),
    "the query moved": (lambda m, lists, v, push: _pushed(m, lists, v, push, "q"), "this moves queries; keys"),
    "the value vector moved": (lambda m, lists, v, push: _pushed(m, lists, v, push, "v"), "this moves values; keys"),
    "pushed back": (lambda m, lists, v, push: _pushed(m, lists, v, push, sign=-1.0), "its key should be its key plus"),
    "all keys": (_pushing_all, "A push on all keys alike cancels"),
    "the first position": (_pushing_the_first, "lists without the value 3 should keep"),
    "replaced": (_replacing, "its key should be its key plus"),
    "the first copy only": (_first_only, "both keys should move"),
    "not the last token": (_not_the_last, "the last token's own key moves too"),
    "all positions": (
        lambda m, lists, v, push: m.run_with_hooks(lists, fwd_hooks=[])[:, :],
        "one row of logits per list",
    ),
    "a hook left": (_leaving_the_hook, "it leaves a hook on `model`"),
}
