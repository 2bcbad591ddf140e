"""Every list of a small model, by running it, against the votes, the classes and the search."""

import itertools

import pytest
import torch

from course_lessons.l05_max_of_list import max_of_list
from course_utils import models
from course_utils.training.tasks import TASKS

SIZES = {"d_vocab": 5, "d_model": 7, "d_head": 3, "n_ctx": 4}


@pytest.fixture(scope="module")
def model():
    """An untrained model with large weights: it is wrong on many lists, and right on some."""
    made = models.initial(TASKS["max-of-list"].config() | SIZES).requires_grad_(False)
    for seed, weight in enumerate(w for name, w in made.named_parameters() if ".b_" not in name):
        weight.copy_(0.6 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed)))
    return made


def _votes(model, n):
    scores, say, direct = max_of_list.tables(model, n)
    return scores.exp()[..., None] * (say + direct[:, None, None])


def _wrong(model, n):
    lists = torch.cartesian_prod(*[torch.arange(5)] * n)
    return lists[model(lists)[:, -1].argmax(1) != lists.amax(1)].tolist()


def test_the_tables_are_the_model(model):
    lists = torch.cartesian_prod(*[torch.arange(5)] * 3)
    scores, say, direct = max_of_list.tables(model, 3)
    q, places = lists[:, -1], torch.arange(3)
    weights = scores[q[:, None], places, lists].softmax(1)
    logits = (weights[..., None] * say[places, lists]).sum(1) + direct[q]
    torch.testing.assert_close(logits.float(), model(lists)[:, -1], atol=1e-4, rtol=1e-4)


def test_wrong_order_counts_every_comparison_once(model):
    scores, _, _ = max_of_list.tables(model, 3)  # [query, pos, value]
    against = between = 0
    for q, v, place in itertools.product(range(5), range(5), range(2)):
        against += v != q and (scores[q, place, v] > scores[q, 2, q]).item() != (v > q)
    for q, v, w in itertools.product(range(5), repeat=3):
        for place in range(2) if v > w else ():
            between += (scores[q, place, v] <= scores[q, 1 - place, w]).item()
    assert max_of_list.wrong_order(model, 3) == (against, between) and against > 0 < between
    # length 2 has no two positions before the last
    assert max_of_list.wrong_order(model, 2)[1] == 0


@pytest.mark.parametrize("n", [2, 3, 4])
def test_trying_all_finds_what_the_model_gets_wrong(model, n):
    wrong = _wrong(model, n)
    count, shown = max_of_list.try_all(_votes(model, n))
    assert 0 < count == len(wrong) < 5**n
    assert len(shown) == min(count, max_of_list.SHOWN) and all(one in wrong for one in shown)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_census_finds_every_wrong_list_and_no_other(model, n):
    classes, left, proved, looked, errors = max_of_list.census(_votes(model, n))
    assert errors.tolist() == _wrong(model, n)
    assert 0 < left <= classes and 0 < proved <= 5**n - len(errors) and len(errors) <= looked


def test_a_search_meets_each_beginning_that_it_has_to_extend():
    # [query, pos, value, out]: nobody votes, so all four lists are draws
    votes = torch.zeros(2, 2, 2, 2)
    # one rival in each of 4 classes, one free position with one allowed value
    assert max_of_list.census(votes)[3] == 4


def test_lists_of_allowed_values_are_right_and_one_value_more_is_too_many():
    line, one, none = torch.tensor([0.0, 0.4, 2.0, 2.5, 5.0]), torch.eye(5), torch.zeros(5, 5)
    reads, writes = torch.cat([one, none[:2], none]), torch.cat([none, none[:2], one])
    W_E = torch.cat([one, line[:, None], torch.ones(5, 1), none], 1)
    W_Q, W_K = torch.zeros(2, 12, 5)
    W_Q[6, 0], W_K[5, 0] = 5**0.5, 1
    weights = {
        "W_E": W_E,
        "W_Q": W_Q,
        "W_K": W_K,
        "W_V": reads,
        "W_O": writes.T.clone(),
        "W_U": writes,
    }
    made = max_of_list.built(weights)
    allowed = max_of_list.values_allowed(made, 4, (line - line[:, None]).exp().double())
    assert allowed == [1, 1, 3, 3, 5]  # M beats three of the runner-up from a step of ln 3 on
    lists = torch.cartesian_prod(*[torch.arange(5)] * 4)
    largest, right = lists.amax(1), made(lists)[:, -1].argmax(1) == lists.amax(1)
    for M, r in enumerate(allowed):
        inside = (largest == M) & ((lists < r - 1) | (lists == M)).all(1)
        assert inside.sum() == r**4 - (r - 1) ** 4 and right[inside].all()
        assert r == M + 1 or not right[(largest == M) & ((lists < r) | (lists == M)).all(1)].all()


def test_every_list_is_in_one_class(model):
    for n in (2, 3, 4):
        cases = [(case, size) for case, size, _ in max_of_list.worst_cases(_votes(model, n))]
        assert (
            len({case for case, _ in cases}) == len(cases)
            and sum(size for _, size in cases) == 5**n
        )
        counted = dict.fromkeys(range(5), 0)
        for (_, largest, _), size in cases:
            counted[largest] += size
        assert counted == {
            M: sum(max(one) == M for one in itertools.product(range(5), repeat=n)) for M in range(5)
        }


def test_a_model_that_is_wrong_nearly_everywhere_is_not_searched(model):
    votes = _votes(model, 3)
    assert len(max_of_list.census(votes, most=1)[-1]) == 0 < len(max_of_list.census(votes)[-1])


def _weights(d_vocab=6, d_model=5, d_head=3):
    shapes = {"W_E": (d_vocab, d_model), "W_O": (d_head, d_model), "W_U": (d_model, d_vocab)}
    shapes |= dict.fromkeys(("W_Q", "W_K", "W_V"), (d_model, d_head))
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def test_a_built_model_has_the_weights_and_no_positions():
    weights = _weights()
    model = max_of_list.built(weights)
    assert torch.equal(model.W_E, weights["W_E"]) and torch.equal(model.W_U, weights["W_U"])
    assert all(
        torch.equal(getattr(model, name)[0, 0], weights[name])
        for name in ("W_Q", "W_K", "W_V", "W_O")
    )
    assert not model.W_pos.any() and model.cfg.n_ctx == 6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"W_U": None}, "weights must be six matrices"),
        (
            {"W_V": torch.randn(5, 4)},
            r"W_V must have shape \[5, 3\] beside the others, not \[5, 4\]",
        ),
        ({"W_U": torch.randn(5, 7)}, r"W_U must have shape \[5, 6\]"),
    ],
)
def test_weights_that_do_not_fit_get_a_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        max_of_list.built(_weights() | change)


def test_a_list_that_is_too_long_gets_a_sentence(model):
    with pytest.raises(ValueError, match="at most 4 values, not 5"):
        max_of_list.tables(model, 5)


def test_the_number_line_of_a_table_made_from_one_is_found_and_nothing_else():
    g, f = torch.tensor([0.0, 0.5, 2.0, 4.0]), torch.tensor([0.5, 1.0, 3.0])
    table = torch.outer(f, g) + torch.tensor([[7.0], [-2.0], [0.0]])
    found_f, found_g = max_of_list.number_line(table)
    torch.testing.assert_close(found_g, (g - g.mean()) * 3 / 4)  # a mean step is 1
    torch.testing.assert_close(found_f, f * 4 / 3)
    torch.testing.assert_close(max_of_list.number_line(-table)[0], -f * 4 / 3)  # g still rises


def test_no_source_weighs_more_than_the_line_allows(model):
    scores, _, _ = max_of_list.tables(model, 3)
    weight = max_of_list.line_weight(model, 3)
    assert (max_of_list.line_weight(model, 3, exact=True) < weight).all()
    _, g = max_of_list.number_line((scores - scores.mean((1, 2), keepdim=True)).mean(1))
    rising = [(M, v) for M, v in itertools.combinations(range(4, -1, -1), 2) if g[M] > g[v]]
    assert len(rising) > 3  # an untrained line is not in order
    for M, v in rising:
        # of v over M at the worst places
        lead = scores[: M + 1, :, v].amax(1) - scores[: M + 1, :, M].amin(1)
        assert (lead.exp() <= weight[M, v]).all()


def test_step_and_voice_say_when_a_crowd_draws(model):
    V = _votes(model, 3)
    step, voice = max_of_list.step_and_voice(model, 3)
    scores, say, direct = max_of_list.tables(model, 3)
    for M in range(1, 5):
        q, below = M - 1, []
        for place in range(3):
            below.append(say[place, q, q] - say[place, q, M] + direct[q, q] - direct[q, M])
        typical = scores[q, :, q].mean().exp() * sum(below) / 3
        crowd = [(V[q, place, M, M] - V[q, place, M, q]) / typical for place in range(2)]
        torch.testing.assert_close(step[q].exp() * voice[q], min(crowd))


def test_operations_count_the_numbers_that_are_read_or_worked_out():
    numbers = torch.rand(4, 5)
    assert max_of_list.operations(lambda: numbers + 1) == 20
    assert max_of_list.operations(lambda: numbers.amin(1).sum()) == 20 + 4
    assert max_of_list.operations(lambda: numbers.mT[None]) == 0  # a view reads nothing
