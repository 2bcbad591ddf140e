"""Every list of a small model, by running it, against the votes, the classes and the search."""

import itertools
import math

import pytest
import torch

from course_lessons import max_of_list
from course_lessons.l05_max_of_list import copies
from course_lessons.l05b_what_a_proof_costs import proofs
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
    return max_of_list.vote_table(model, n)


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


def test_the_votes_are_the_logits_up_to_a_factor(model):
    lists = torch.cartesian_prod(*[torch.arange(5)] * 3)
    total = _votes(model, 3)[lists[:, -1, None], torch.arange(3), lists].sum(1)
    logits = model(lists)[:, -1].double()
    factor = (total * logits).sum(1) / (logits * logits).sum(1)
    torch.testing.assert_close(total, factor[:, None] * logits, atol=1e-4, rtol=1e-3)
    more = torch.tensor([3.0, 0, 0, 0, -2]).double().expand(5, 1, 5)
    scores, say, direct = max_of_list.tables(model, 3)
    moved = (scores + more).exp()[..., None] * (say + direct[:, None, None])
    found = max_of_list.vote_table(model, 3, more.expand(5, 3, 5))
    scale = (moved / found)[:, :1, :1, :1]
    torch.testing.assert_close(found * scale, moved)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_trying_all_finds_what_the_model_gets_wrong(model, n):
    wrong = _wrong(model, n)
    count, shown = max_of_list.try_all(_votes(model, n))
    assert 0 < count == len(wrong) < 5**n
    assert len(shown) == min(count, max_of_list.SHOWN) and all(one in wrong for one in shown)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_census_finds_every_wrong_list_and_no_other(model, n):
    votes = _votes(model, n)
    errors = max_of_list.census(votes)
    assert errors.tolist() == _wrong(model, n)
    settled = sum(size for _, size, worst in max_of_list.worst_cases(votes) if (worst > 0).all())
    assert 0 < settled <= 5**n - len(errors)


def test_a_draw_is_an_error():
    # [query, pos, value, out]: nobody votes, so all four lists are draws; 0, 0 has no other value
    votes = torch.zeros(2, 2, 2, 2)
    assert max_of_list.census(votes).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


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
    allowed = proofs.values_allowed(made, 4, (line - line[:, None]).exp().double())
    assert allowed == [0, 0, 2, 2, 4]  # M beats three of the runner-up from a step of ln 3 on
    assert proofs.share_proved(allowed, 4) == (1 + 1 + 2 * (3**4 - 2**4) + 5**4 - 4**4) / 5**4
    lists = torch.cartesian_prod(*[torch.arange(5)] * 4)
    largest, right = lists.amax(1), made(lists)[:, -1].argmax(1) == lists.amax(1)
    for M, r in enumerate(many + 1 for many in allowed):
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
    assert len(max_of_list.census(votes, most=1)) == 0 < len(max_of_list.census(votes))


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


def test_what_a_line_leaves_over_is_asked_at_each_length_and_position(model):
    shares = max_of_list.left_over(model)
    assert len(shares) == 2 + 3 + 4
    table = max_of_list.tables(model, 4)[0][:, -1]
    singular = torch.linalg.svdvals(table - table.mean(1, keepdim=True)) ** 2
    torch.testing.assert_close(shares[-1], singular[1:].sum() / singular.sum())


def test_the_beaten_are_those_that_lose_to_copies_of_the_number_below(model):
    hardest = {M: [M, M - 1, M - 1, M - 1] for M in range(1, 5)}
    wrong = _wrong(model, 4)
    found = copies.beaten(model)
    assert found == [M for M, one in hardest.items() if one in wrong] and found


def test_one_counts_for_as_many_copies_as_its_votes_outweigh(model):
    votes = _votes(model, 4)[2, :3]  # 2 is last: [pos, value, out]
    margin = votes[..., 3] - votes[..., 2]  # of 3 over 2
    weight, voice, both = copies.outvoted_by(model, 3, 2)
    assert both == pytest.approx((-margin[:, 3] / margin[:, 2]).mean().item())
    scores, say, direct = max_of_list.tables(model, 4)
    said = say[:3] + direct[2]
    alone = (said[:, 3, 3] - said[:, 3, 2]) / (said[:, 2, 2] - said[:, 2, 3])
    assert voice == pytest.approx(alone.mean().item())
    ratio = (scores[2, :3, 3] - scores[2, :3, 2]).exp()
    assert weight == pytest.approx(ratio.mean().item())
    with pytest.raises(ValueError, match="There is no 0 above a smaller number"):
        copies.outvoted_by(model, 0, 2)


def test_a_push_of_the_keys_adds_what_the_line_says(model):
    f, g, deviation = max_of_list.one_line(model, 3)
    scores, _, _ = max_of_list.tables(model, 3)
    rows = scores - scores.mean((1, 2), keepdim=True)
    torch.testing.assert_close(deviation, (rows - f[:, None, None] * g).abs().max())
    queries = ((model.W_E + model.W_pos[2]) @ model.W_Q[0, 0]).double()
    direction = torch.linalg.lstsq(queries, f[:, None]).solution  # a push of every key by it
    torch.testing.assert_close((queries @ direction)[:, 0], f)


def test_no_source_weighs_more_than_the_line_allows(model):
    scores, _, _ = max_of_list.tables(model, 3)
    weight = proofs.line_weight(model, 3)
    assert (proofs.line_weight(model, 3, exact=True) < weight).all()
    _, g, _ = max_of_list.one_line(model, 3)
    rising = [(M, v) for M, v in itertools.combinations(range(4, -1, -1), 2) if g[M] > g[v]]
    assert len(rising) > 3  # an untrained line is not in order
    for M, v in rising:
        # of v over M at the worst places
        more = scores[: M + 1, :, v].amax(1) - scores[: M + 1, :, M].amin(1)
        assert (more.exp() <= weight[M, v]).all()


def test_a_margin_is_the_least_over_positions_and_last_values(model):
    margin, (_, say, direct) = proofs.least_margins(model, 3), max_of_list.tables(model, 3)
    for M, value, out in itertools.product(range(5), repeat=3):
        least = min(
            (say[place, value, M] - say[place, value, out]).item() for place in range(3)
        ) + min((direct[q, M] - direct[q, out]).item() for q in range(M + 1))
        assert margin[M, value, out].item() == pytest.approx(least if value <= M else math.inf)


def test_voices_say_when_copies_draw(model):
    V, voice = _votes(model, 3), proofs.voices(model, 3)
    scores, say, direct = max_of_list.tables(model, 3)
    for M in range(1, 5):
        q, below = M - 1, []
        for place in range(3):
            below.append(say[place, q, q] - say[place, q, M] + direct[q, q] - direct[q, M])
        own = []
        for place in range(2):  # the vote of one M at equal weight
            weight = (scores[q, place, M] - scores[q].max()).exp()
            own.append((V[q, place, M, M] - V[q, place, M, q]) / weight)
        expected = (min(own) / (sum(below) / 3)).clamp(min=0.01)
        torch.testing.assert_close(voice[q], expected)


def test_a_line_made_anew_is_wrong_where_the_model_with_moved_keys_is(model):
    f, g, _ = max_of_list.one_line(model, 4)
    now = len(max_of_list.census(_votes(model, 4)))
    assert proofs.wrong_with_steps(model, 4, g.diff()) == now  # the steps that it has
    steps = torch.tensor([1.0, 20, 1, 3])
    places = torch.tensor([0.0, 1, 21, 22, 25]) * 4 / 25 + g[0]
    queries = ((model.W_E + model.W_pos[3]) @ model.W_Q[0, 0]).double()
    direction = torch.linalg.lstsq(queries, f[:, None]).solution[:, 0]
    lists = torch.cartesian_prod(*[torch.arange(5)] * 4)
    push = (places - g)[:, None] * direction * model.cfg.d_head**0.5  # [value, d_head]

    def moved(k, hook):
        return k + push[lists][:, :, None].float()

    logits = model.run_with_hooks(lists, fwd_hooks=[("blocks.0.attn.hook_k", moved)])
    wrong = int((logits[:, -1].argmax(1) != lists.amax(1)).sum())
    assert proofs.wrong_with_steps(model, 4, steps) == wrong
    assert wrong != now


def test_operations_count_the_numbers_that_are_read_or_worked_out():
    numbers = torch.rand(4, 5)
    assert proofs.operations(lambda: numbers + 1) == 20
    assert proofs.operations(lambda: numbers.amin(1).sum()) == 20 + 4
    assert proofs.operations(lambda: numbers.mT[None]) == 0  # a view reads nothing
