"""Checks of lesson 05, max of a list: each exercise, and what each typical mistake is told."""

import itertools

import torch
from torch import Tensor
from transformer_lens import HookedTransformer

from course_lessons.fixtures import random, tiny_model
from course_lessons.l05_max_of_list import max_of_list
from course_utils.course.exercises import Answer, Said, compared, judged
from course_utils.course.expectations import Wrong, close, demand

OTHER = {"d_head": 9, "d_vocab": 8}
ONE_HEAD = {"n_layers": 1, "n_heads": 1, "positional_embedding_type": "standard"}


@judged
def by_hand(answer: Answer) -> None:
    """`by_hand(line) → six weights`: attention is the line's softmax, each value votes for itself.

    Any such weights are right.
    """
    for values in (5, 7):
        line = (1 + random(values, seed=values).abs()).cumsum(0)
        made = answer(line.clone())
        demand(
            isinstance(made, dict),
            f"it should return a dictionary of six matrices, not {type(made).__name__}.",
        )
        for name, weight in made.items():
            demand(
                isinstance(weight, Tensor),
                f"{name} should be a tensor, not {type(weight).__name__}.",
            )
        try:
            model = max_of_list.built(
                {name: weight.detach().float() for name, weight in made.items()}
            )
        except (TypeError, ValueError) as error:
            raise Wrong(str(error)) from None
        demand(
            model.cfg.d_vocab == values,
            f"for a line of {values} values W_E should have {values} rows.",
        )
        few = torch.tensor([[0, 4, 0, 0], [1, 1, 4, 1], [2, 2, 2, 2], [3, 1, 4, 0], [2, 4, 1, 3]])
        lists = values - 5 + few
        logits, (_, cache) = model(lists), model.run_with_cache(lists)
        # at the last position: attention, scores, and votes, as they are and as they should be
        seen, wanted = cache["pattern", 0][:, 0, -1], line[lists].softmax(1)
        score, places = _centred(cache["attn_scores", 0][:, 0, -1]), _centred(line[lists])
        given = _centred(logits[:, -1])
        votes = _centred(torch.zeros(len(lists), values).scatter_add(1, lists, wanted))
        ratio = _times(score, places)
        scale = _times(given, votes)
        off_line = not close(seen, wanted)
        off_votes = not close(given, scale * votes)
        even = close(seen, torch.tensor(0.25))
        speaks = not close(_centred(model.W_E @ model.W_U), 0.0)
        for sentence, is_so in {
            "every source gets the same attention: the line is not used.": even,
            f"scores are {ratio:.2f} times the line: TransformerLens divides them by √d_head, "
            f"here {model.cfg.d_head**0.5:.2f}.": off_line and close(score, ratio * places),
            "the score of a source should be its place on the line, whatever the last token is: "
            "one of W_Q's columns should read the constant 1, "
            "and the same one of W_K's the line.": off_line,
            "no value votes for itself.": scale <= 0 or close(given, 0.0),
            "the last token gets votes beyond its attention: the direct path, W_E W_U, speaks too. "
            "Let the head write where the embedding writes nothing, "
            "and W_U read only there.": off_votes and speaks,
            "each value's logit should be the attention that its copies get: W_V, W_O and W_U "
            "together should turn a value into a vote for itself and for nothing else.": off_votes,
            f"each value's logit is {scale:.2f} times the attention that its copies get: W_V, W_O "
            "and W_U together should leave the size of a vote as it is.": not close(given, votes),
        }.items():
            demand(not is_so, sentence)


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(1, keepdim=True)


def _times(a: Tensor, b: Tensor) -> float:
    return ((a * b).sum() / (b * b).sum()).item()


def _scores(model: HookedTransformer, q_pos: int | None, k_pos: int | None) -> Tensor:
    q = model.W_E if q_pos is None else model.W_E + model.W_pos[q_pos]
    k = model.W_E if k_pos is None else model.W_E + model.W_pos[k_pos]
    return q @ model.W_Q[0, 0] @ model.W_K[0, 0].T @ k.T / model.cfg.d_head**0.5


def _other_scores(
    got: Tensor, right: Tensor, model: HookedTransformer, q_pos: int, k_pos: int
) -> str | None:
    if model.cfg.d_head == 9:
        return (
            "the scores are wrong for a model of other sizes (d_head 9), "
            f"from position {q_pos} to {k_pos}."
        )
    if close(got, (ratio := _times(got, right)) * right):
        return (
            f"your scores are {ratio:.2f} times the model's: "
            "TransformerLens divides them by √d_head, once."
        )
    looks = f"when value 5 at position {q_pos} looks at it; yours is {got[5, 2]:.2f}."
    said = f"the model gives value 2 at position {k_pos} a score of {right[5, 2]:.2f} {looks}"
    return None if close(got[5, 2], right[5, 2]) else said


qk_scores = compared(
    "`qk_scores(model, q_pos, k_pos) → [query value, key value]`: "
    "scores before the softmax, with positions.",
    returns="[value at q_pos, value at k_pos]",
    cases=lambda: {
        "one entry is the model's score, and others are not.": [
            (tiny_model(1.0, **ONE_HEAD, d_model=6, d_vocab=7, n_ctx=5), 3, 1),
            *((tiny_model(1.0, **ONE_HEAD | OTHER), *places) for places in ((0, 0), (8, 5))),
        ]
    },
    mistakes={
        "another k_pos should give other scores.": (
            lambda m, q, k: _scores(m, None, None),
            lambda m, q, k: _scores(m, q, None),
        ),
        "these are probabilities; scores come before the softmax.": lambda *of: _scores(
            *of
        ).softmax(1),
        "another q_pos should give other scores.": lambda m, q, k: _scores(m, None, k),
        "rows and columns are swapped: the query, which looks, belongs on the rows.": lambda *of: (
            _scores(*of).T
        ),
        "query and key have changed roles: W_Q reads what stands at q_pos, W_K what "
        "stands at k_pos.": (lambda m, q, k: _scores(m, k, q), lambda m, q, k: _scores(m, k, q).T),
    },
    explain=_other_scores,
)


def _sums(lead: Tensor, largest: int, most: int | None = None) -> Tensor:
    """The least sum with the largest at each place, [pos], and values up to `most` elsewhere."""
    least = lead[:, : (largest if most is None else most) + 1].amin(1)
    return least.sum() - least + lead[:, largest]


def _worst_list(got: float, right: float, lead: Tensor, largest: int) -> str:
    if largest == 0:
        return "when the largest value is 0, all values are 0."
    lists = (
        one for one in itertools.product(range(largest + 1), repeat=len(lead)) if largest in one
    )
    worst = min(lists, key=lambda one: lead[range(len(lead)), one].sum().item())
    on = (
        f"on leads, {len(lead)} × {lead.shape[1]}, "
        f"the worst list with the largest value {largest} is {[*worst]}"
    )
    return f"{on}, with a lead of {right:.2f}; yours is {got:.2f}."


worst_lead = compared(
    "`worst_lead(lead, largest) → float`: "
    "the least total lead of a list whose largest value is `largest`.",
    cases=lambda: {
        "it is not the least sum over lists whose largest value is `largest`.": [
            (torch.tensor([[1.0, -3, 4, -50], [2, -1, 8, -50]]), 2),
            (torch.tensor([[1.0, -3, -9], [2, -1, -5]]), 2),
            (torch.tensor([[1.0, -3, 2], [2, 1, 3]]), 2),
            *(
                (random(n, values, seed=n), M)
                for n, values in ((4, 6), (1, 5), (3, 7))
                for M in range(values)
            ),
        ]
    },
    mistakes={
        "values above `largest` can't stand in the list.": lambda lead, M: _sums(
            lead, M, lead.shape[1]
        ).min(),
        "a list of ones does not have the largest value 2: at least one value must be `largest`.": (
            lambda lead, M: lead[:, : M + 1].amin(1).sum(),
            lambda lead, M: lead[:, : max(M, 1)].amin(1).sum(),
        ),
        "only one value must be `largest`; the others may be smaller, and do more harm.": (
            lambda lead, M: lead[:, M].sum(),
            lambda lead, M: lead[:, : M + 1].amax(1).sum(),
        ),
        "for lead = [[1, −3, 2], [2, 1, 3]] and largest = 2 the worst list is 1, 2, with a lead "
        "of −3 + 3 = 0; yours is 3. Compare the whole sums, one for each place of the largest.": (
            lambda lead, M: _sums(lead, M)[0],
            lambda lead, M: _sums(lead, M)[lead[:, M].argmin()],
        ),
        "the largest value may stand at any position: the worst one counts.": (
            lambda lead, M: _sums(lead, M)[-1],
            lambda lead, M: _sums(lead, M).max(),
        ),
        "`largest` may stand more than once: the list 2, 2 is worst, −9 − 5 = −14, not −10.": (
            lambda lead, M: _sums(lead, M, M - 1).min()
        ),
    },
    explain=_worst_list,
)


def _pushed(part: str, model: HookedTransformer, lists: Tensor, value: int, push: Tensor) -> Tensor:
    hook = (
        f"blocks.0.attn.hook_{part}",
        lambda x, hook: x + (lists == value)[..., None, None] * push,
    )
    return model.run_with_hooks(lists, fwd_hooks=[hook])[:, -1]


def _key_case(value: int, n: int, times: float = 1.0, **sizes: int) -> tuple:
    """Lists without the value but for three.

    The second has it once, the third at the end, the fourth twice.
    """
    model = tiny_model(0.4, **ONE_HEAD | {"n_ctx": 6} | sizes)
    lists = torch.randint(model.cfg.d_vocab, (7, n), generator=torch.Generator().manual_seed(n))
    lists[lists == value] = 0
    lists[1, 0] = lists[2, -1] = lists[3, 1] = lists[3, 2] = value
    return model, lists, value, times * random(model.cfg.d_head, seed=5)


def _other_lists(
    got: Tensor, right: Tensor, model: object, lists: object, value: int, push: Tensor
) -> Said:
    of_rows = {
        f"lists without the value {value} should keep their logits.": [0, 4, 5, 6],
        f"where {value} stands once, its key should be its key plus `push`.": [1],
        "the last token's own key moves too, where it is that value.": [2],
        f"where the value {value} stands twice, both keys should move.": [3],
    }
    return {said: push.any() and not close(got[at], right[at]) for said, at in of_rows.items()}


move_key = compared(
    "`move_key(model, lists, value, push) → [list, out]`: "
    "logits at the end with `push` added to one value's keys.",
    returns="one row of logits per list",
    cases=lambda: {
        "a push of zero should leave the logits at the last position as they are.": _key_case(
            3, 4, times=0.0
        ),
        "the logits differ from those of the model with moved keys.": [
            _key_case(3, 4),
            _key_case(6, 5, **OTHER),
        ],
    },
    mistakes={
        "the push changes nothing: does the hook return the keys? A push "
        "on all keys alike cancels in the softmax.": (lambda model, lists, *_: model(lists)[:, -1]),
        "this moves queries; keys pass the hook blocks.0.attn.hook_k.": lambda *given: _pushed(
            "q", *given
        ),
        "this moves values; keys pass the hook blocks.0.attn.hook_k.": lambda *given: _pushed(
            "v", *given
        ),
    },
    explain=_other_lists,
)
