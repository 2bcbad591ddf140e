"""The formation runs: their language, their instruments, and sweeps that lose nothing."""

import itertools
import json
import math
from dataclasses import asdict, replace

import joblib
import pytest
import torch

from course_lessons.formation import __main__ as command
from course_lessons.formation import (
    events,
    experiments,
    forward,
    language,
    measures,
    runs,
)
from course_utils import _files, composition, heads, interventions, models, text
from course_utils.training import train

pytestmark = pytest.mark.slow  # small models train in them
TINY = runs.Run(steps=2, batch=2)
KINDS = [runs.Run(), runs.Run(n_layers=1), runs.Run(planted=1)]
kinds = pytest.mark.parametrize("run", KINDS, ids=["two layers", "one layer", "planted"])


@pytest.fixture(scope="module")
def repeated():
    return text.repeated_tokens(runs.PERIOD, d_vocab=language.D_VOCAB)


# The language


def test_bigram_probabilities_are_probabilities():
    table = language.bigram_probabilities()
    torch.testing.assert_close(table.sum(1), torch.ones(64))
    assert not table[:, 0].any()  # the start token only opens
    assert torch.equal(table, language.bigram_probabilities(0)) and not torch.equal(
        table, language.bigram_probabilities(1)
    )


def test_documents_depend_on_the_seed_alone():
    assert torch.equal(language.documents(3, 5), language.documents(3, 5))
    assert not torch.equal(language.documents(3, 5), language.documents(3, 6))


def test_documents_open_with_the_start_token_and_never_repeat_it():
    tokens = language.documents(200, 0)
    assert (
        tokens.shape == (200, 64)
        and not tokens[:, 0].any()
        and tokens[:, 1:].min() >= 1
        and tokens.max() <= 63
    )


def test_a_document_has_two_names_of_its_own(monkeypatch):
    monkeypatch.setattr(language, "SHARE", 1.0)  # nothing but names
    for document in language.documents(20, 0, spread=False)[:, 1:57].view(20, 7, 8).tolist():
        assert len({tuple(name) for name in document}) in (1, 2)
    first, second = language.documents(2, 0, spread=False)[:, 1:9].tolist()
    assert first != second


def test_between_names_the_bigrams_rule(monkeypatch):
    monkeypatch.setattr(language, "SHARE", 1e-9)
    tokens = language.documents(2_000, 0, spread=False)
    counts = torch.zeros(64, 64)
    counts.index_put_(
        (tokens[:, :-1].flatten(), tokens[:, 1:].flatten()), torch.ones(2_000 * 63), accumulate=True
    )
    often = counts.sum(1) > 1_000
    error = (counts / counts.sum(1, keepdim=True) - language.bigram_probabilities())[often].abs()
    assert often.sum() > 20 and error.max() < 0.06 and error.mean() < 0.004


def test_a_third_of_the_tokens_is_predictable_and_few_after_shuffling():
    tokens = language.documents(300, 0, spread=False)
    share = language.predictable(tokens).float().mean()
    order = torch.rand(300, 64, generator=torch.Generator().manual_seed(0)).argsort(1)
    assert (
        0.33 < share < 0.42 and language.predictable(tokens.gather(1, order)).float().mean() < 0.05
    )


def test_predictable_by_hand():
    tokens = torch.tensor([[0, 5, 6, 7, 5, 6, 5, 7, 5, 7], [0, 5, 6, 5, 6, 6, 6, 6, 1, 1]])
    hits = language.predictable(tokens).nonzero().tolist()
    # 0 5 6 7 5[6]5 7[5][7] and 0 5 6 5[6]6[6][6]1 1
    assert hits == [[0, 4], [0, 7], [0, 8], [1, 3], [1, 5], [1, 6]]


def test_spread_names_leave_no_name_without_text_before_it(monkeypatch):
    """With text of one token alone, every name shows: its tokens are drawn from the others."""
    only = torch.zeros(64, 64)
    only[:, 1] = 1
    monkeypatch.setattr(language, "bigram_probabilities", lambda: only)
    lengths, gaps = set(), set()
    for document in language.documents(300, 0)[:, 1:].tolist():
        runs_of = [
            (text, len(list(group)))
            for text, group in itertools.groupby(document, lambda token: token == 1)
        ]
        gaps |= {n for text, n in runs_of[:-1] if text}
        lengths |= {n for text, n in runs_of[:-1] if not text}
    # a name's token is 1 in one case of 63: it then looks like text, and splits the name or
    # lengthens the gap
    assert (
        {1, 2, 3, 4} <= gaps
        and set(range(4, 17)) <= lengths
        and max(lengths) == 16
        and sum(n > 4 for n in gaps) < 4
    )


def test_lengths_and_contexts_can_be_chosen():
    assert (
        language.documents(3, 0, n_ctx=96).shape
        == language.documents(3, 0, spread=False, n_ctx=96).shape
        == (3, 96)
    )
    ago = language.sources(language.documents(500, 0, spread=False, length=5))
    assert ago[ago > 0].bincount().argmax() == 5


def readers(tokens):
    """How many later tokens of its document repeat the token at each position, on average.

    That is who will ever look there. A position without readers has no use for a previous token,
    and so no gradient to look for it.
    """
    ago = language.sources(tokens)
    columns = ago.nonzero()[:, 1]  # column i is about the token at i + 1
    return (columns + 1 - ago[ago > 0]).bincount(minlength=tokens.shape[1]) / len(tokens)


def test_sources_by_hand():
    tokens = torch.tensor([[0, 5, 6, 7, 5, 6, 5, 7, 5, 7], [0, 5, 6, 5, 6, 6, 6, 6, 1, 1]])
    ago = language.sources(tokens)
    assert ago.nonzero().tolist() == language.predictable(tokens).nonzero().tolist()
    assert (
        ago[0, 4] == 3
        and ago[0, 7] == 4
        and ago[0, 8] == 2
        and ago[1, 3] == 2
        and ago[1, 5] == ago[1, 6] == 1
    )
    # the 6 at 5 repeats that at 2, the 5 at 8 that at 4, the 7 at 9 that at 7
    counted = readers(tokens[:1])
    assert counted.tolist() == [0, 0, 1, 0, 1, 0, 0, 1, 0, 0]


def test_a_fixed_distance_pays_only_where_names_follow_at_once():
    at_once, spread = (language.documents(1_000, 3, spread=spread) for spread in (False, True))
    profits = [[language.profit(tokens, d) for d in range(1, 25)] for tokens in (at_once, spread)]
    assert (
        profits[0].index(max(profits[0])) == 7 and max(profits[0]) > 0.1 and max(profits[1]) < 0.045
    )
    assert min(map(min, profits)) == 0  # a guess that is never right gets no weight


def test_a_table_of_the_language_knows_less_than_its_bigrams_would():
    tokens = language.documents(50, 0)
    assert 3.8 < language.table_loss(tokens) < 4.15  # 4.16 is the logarithm of 64


def test_no_position_near_the_end_has_readers():
    counted = readers(language.documents(1_000, 3, spread=False))
    assert counted[40] > 0.3 and counted[55] > 0.05 and counted[56:].max() < 0.02
    assert readers(language.documents(300, 3, spread=False, n_ctx=96))[87] > 0.02


# Models and measurements


@kinds
def test_the_short_way_gives_the_models_logits(run):
    model = runs.start(replace(run, seed=3))
    tokens = language.documents(3, 0)
    torch.testing.assert_close(forward.logits(model, tokens), model(tokens), atol=1e-4, rtol=1e-4)
    short = tokens[:, :17]
    torch.testing.assert_close(forward.logits(model, short), model(short), atol=1e-4, rtol=1e-4)


@kinds
def test_all_positions_start_as_the_same_sinusoids(run):
    model = runs.start(run)
    torch.testing.assert_close(model.W_pos, models.sinusoids(64, 64))


def test_planting_changes_where_one_head_looks_and_nothing_else(repeated):
    plain, planted = (runs.start(replace(TINY, planted=planted)) for planted in (0, 1))
    with torch.no_grad():
        before, after = (
            heads.previous_token_score(heads.patterns(m, repeated)).mean(-1)[0]
            for m in (plain, planted)
        )
    assert after[0] > 0.85 and before.max() < 0.1
    for name, weight in planted.named_parameters():
        other = plain.get_parameter(name)
        changed = name in ("blocks.0.attn.W_Q", "blocks.0.attn.W_K")
        assert torch.equal(weight[1:], other[1:]) and torch.equal(weight[0], other[0]) != changed


def test_previous_token_weights_look_back_by_one():
    W_Q, W_K = runs.previous_token_weights(W_pos := models.sinusoids(50, 64), 16)
    scores = (W_pos @ W_Q) @ (W_pos @ W_K).T
    assert (scores.argmax(1)[1:] == torch.arange(49)).all()
    assert not W_Q[16:].any() and not W_K[16:].any()


@pytest.mark.parametrize("back", [1, 2, 3, 8])
def test_sham_plants_look_as_sharply_elsewhere(back, repeated):
    looks = measures.offsets(
        runs.start(replace(TINY, planted=back)), repeated, runs.PERIOD, most=12
    )["back"]
    assert torch.tensor(looks[0]).argmax() == back and looks[0][back] == pytest.approx(
        0.915, abs=0.01
    )


def test_a_model_held_by_itself_is_itself():
    models_of = [runs.start(replace(TINY, seed=seed)).requires_grad_(False) for seed in (1, 2)]
    tokens = language.documents(3, 0)
    for n in range(4):
        for held in itertools.combinations(forward.PARTS, n):
            found = forward.held_logits(models_of[0], tokens, models_of[0], held)
            torch.testing.assert_close(
                found, forward.logits(models_of[0], tokens), atol=1e-5, rtol=1e-4
            )
            other = forward.held_logits(*[models_of[0], tokens, models_of[1]], held)
            assert torch.equal(other, found) == (n == 0)
    with pytest.raises(ValueError, match="parts among"):
        forward.held_logits(models_of[0], tokens, models_of[1], ["looks"])
    with pytest.raises(ValueError, match="two layers; this one has 1"):
        forward.held_logits(runs.start(replace(TINY, n_layers=1)), tokens, models_of[1])


def test_each_part_needs_its_own_weights_and_no_others():
    """All of a good model's parts but one, and that one from an untrained model.

    Nothing is left of induction.
    """
    good, bad = planted_induction(), runs.start(replace(runs.Run(), seed=3)).requires_grad_(False)
    attn = good.blocks[1].attn
    attn.W_V[2], attn.W_O[2, :, :64] = torch.eye(256)[:, :64], torch.eye(64)
    good.unembed.W_U.data[:64] = 10 * torch.eye(64)
    repeated = text.repeated_tokens(runs.PERIOD, d_vocab=language.D_VOCAB)

    def saves(held):
        return measures.saving(
            forward.held_logits(good, repeated, bad, held), repeated, runs.PERIOD
        )

    assert saves([]) > 2 and all(saves([part]) < 0.3 * saves([]) for part in forward.PARTS)


def test_a_silent_head_is_an_ablated_one(repeated):
    model = runs.start(replace(TINY, seed=3)).requires_grad_(False)
    with interventions.cut(model, (1, 1), (1, 3)):
        expected = model(repeated)
    torch.testing.assert_close(
        forward.logits(model, repeated, [1, 3]), expected, atol=1e-4, rtol=1e-4
    )


def test_the_lead_is_in_units_of_score_and_chance_is_that_of_shuffled_columns():
    model = planted_induction()
    _, lead, chance = measures.matches(model).values()
    attn = model.blocks[1].attn
    M = (
        model.W_E
        @ attn.W_Q[2]
        @ attn.W_K[2].T
        @ (model.W_V[0, 0] @ model.W_O[0, 0]).T
        @ model.W_E.T
        / 8
    )
    assert (
        lead[0, 2] == pytest.approx(((M.diagonal() - M.mean(1)).mean()).item(), rel=1e-4)
        and lead[0, 2] > 10
    )
    random = runs.start(replace(TINY, seed=5))
    _, lead, chance = measures.matches(random).values()
    assert (lead.abs() < 4 * chance).all()
    M = composition.match_matrix(random, (1, 2), (0, 1)).AB.detach() / 4
    rng = torch.Generator().manual_seed(0)
    orders = torch.stack([torch.randperm(64, generator=rng) for _ in range(4_000)])
    shuffled = (M[torch.arange(64), orders] - M.mean(1)).mean(1)
    assert shuffled.std() == pytest.approx(chance[1, 2].item(), rel=0.05)
    with torch.no_grad():
        random.blocks[1].attn.W_Q.mul_(3)
    # positivity would stay as it is
    assert torch.allclose(measures.matches(random)["lead"], 3 * lead, rtol=1e-3)


def test_doors_tell_what_is_copied(repeated):
    model = planted_induction()
    attn0, attn1 = model.blocks[0].attn, model.blocks[1].attn
    attn1.W_V[2], attn1.W_O[2, :, :64] = torch.eye(256)[:, :64], torch.eye(64)
    model.unembed.W_U.data[:64] = 10 * torch.eye(64)
    textbook = measures.doors(model, repeated, runs.PERIOD)["savings"]
    assert (
        abs(textbook["values"] - textbook["whole"]) < 0.01
        and textbook["keys"] < 0.2 * textbook["whole"]
    )
    assert textbook["whole"] > 2 and textbook["queries"] > 0.9 * textbook["whole"]
    # the detour: 8 back and 7 back are brought along; the key is what was 8 back, the copy what was
    # 7 back
    brought = slice(192, 256)
    for head, back in ((0, 8), (1, 7)):
        weights = runs.previous_token_weights(models.sinusoids(64, 64), 16, scale=8.0, back=back)
        attn0.W_Q[head, 128:192, :16], attn0.W_K[head, 128:192, :16] = weights
    attn0.W_V[1, :64], attn0.W_O[1, :, brought] = torch.eye(64), torch.eye(64)
    attn1.W_V[2], attn1.W_O[2, :, :64] = torch.eye(256)[:, brought], torch.eye(64)
    detour = measures.doors(model, repeated, runs.PERIOD)["savings"]
    assert detour["whole"] > 1 and abs(detour["values"]) < 0.01
    assert (
        experiments.way({"savings": textbook}) == "textbook"
        and experiments.way({"savings": detour}) == "detour"
    )
    assert experiments.way({"savings": dict.fromkeys(textbook, 0.1)}) == "none"


def planted_induction():
    """A model with one induction head made by hand.

    One-hot tokens, positions apart, each in its part of the stream.
    """
    config = runs.Run().config() | {"d_model": 256, "d_head": 64}
    model = models.initial(config).requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()
    eye = torch.eye(64)
    token, passed, position = slice(0, 64), slice(64, 128), slice(128, 192)
    model.W_E[:, token] = eye
    model.pos_embed.W_pos[:, position] = models.sinusoids(64, 64)
    attn0, attn1 = model.blocks[0].attn, model.blocks[1].attn
    # more: no stable solution
    W_Q, W_K = runs.previous_token_weights(models.sinusoids(64, 64), 16, scale=8.0)
    attn0.W_Q[0, position, :16], attn0.W_K[0, position, :16] = W_Q, W_K
    attn0.W_V[0, token], attn0.W_O[0, :, passed] = eye, eye
    attn1.W_Q[2, token], attn1.W_K[2, passed] = 10 * eye, 10 * eye
    return model


def test_paths_tell_k_composition(repeated):
    scores = measures.doors(planted_induction(), repeated, runs.PERIOD)["paths"]
    assert scores["whole"][2] > 0.6 and max(scores["whole"][:2]) < 0.1
    assert scores["keys"][2] < 0.1 and scores["queries"][2] > 0.95 * scores["whole"][2]


def test_paths_tell_q_composition(repeated):
    model = planted_induction()
    attn = model.blocks[1].attn
    # now the query reads what was passed on
    attn.W_Q.data, attn.W_K.data = (attn.W_K.data, attn.W_Q.data)
    whole, keys, queries = (
        heads_of[2] for heads_of in measures.doors(model, repeated, runs.PERIOD)["paths"].values()
    )
    assert abs(whole - keys) < 0.01 and abs(whole - queries) > 0.02


@kinds
def test_the_whole_path_is_the_models_own_pattern(run, repeated):
    model = runs.start(run).requires_grad_(False)
    if model.cfg.n_layers < 2:
        return
    expected = heads.prefix_matching_score(heads.patterns(model, repeated), runs.PERIOD)[1].mean(-1)
    torch.testing.assert_close(
        torch.tensor(measures.doors(model, repeated, runs.PERIOD)["paths"]["whole"]), expected
    )


def test_offsets_say_where_heads_look(repeated):
    model = planted_induction()
    found = measures.offsets(model, repeated, runs.PERIOD)
    back, after = torch.tensor(found["back"]), torch.tensor(found["after"])
    assert back.shape == after.shape == (4, 6)
    assert (
        back[0].argmax() == 1 and back[0, 1] > 0.9 and after[2].argmax() == 1 and after[2, 1] > 0.6
    )
    patterns = heads.patterns(model, repeated)
    torch.testing.assert_close(back[:, 1], heads.previous_token_score(patterns)[0].mean(-1))
    torch.testing.assert_close(
        after[:, 1], heads.prefix_matching_score(patterns, runs.PERIOD)[1].mean(-1)
    )
    # two after an earlier copy
    pairs = [(dest, dest - ago + 2) for ago in (20, 40) for dest in range(ago + 1, 61)]
    torch.testing.assert_close(
        after[2, 2], sum(patterns[1, 2, :, dest, src].mean() for dest, src in pairs) / 40
    )


def test_matching_finds_the_pair_and_only_the_pair():
    match = measures.matches(planted_induction())["match"].nan_to_num(0)
    assert match[0, 2] > 0.99
    match[0, 2] = 0
    assert match.abs().max() < 0.01
    assert measures.matches(runs.start(TINY))["match"].abs().max() < 0.7  # chance, at this size


def test_smeared_keys_let_a_head_find_what_stood_before():
    keys = torch.randn(2, 6, 3, 4, generator=torch.Generator().manual_seed(0))
    mixed = runs.smeared(keys)
    assert torch.equal(mixed[:, 0], keys[:, 0]) and torch.allclose(
        mixed[:, 4], (keys[:, 4] + keys[:, 3]) / 2
    )
    places = runs.shuffled_places(64)
    # no future, and never the one before
    assert all(place < i - 1 for i, place in enumerate(places.tolist()) if i > 1)
    run = replace(TINY, n_layers=1)
    plain = runs.start(run)
    hooked = runs.OnLanguage(replace(run, smear="previous"))
    own = runs.OnLanguage(run, runs.smeared)
    tokens = hooked.held_out
    torch.testing.assert_close(hooked.logits(tokens, 0), own.logits(tokens, 0))
    assert not torch.allclose(hooked.logits(tokens, 0), plain(tokens), atol=1e-4)
    shuffled = runs.OnLanguage(replace(run, smear="shuffled"))
    assert not torch.allclose(hooked.logits(tokens, 0), shuffled.logits(tokens, 0), atol=1e-4)


# Training


@kinds
def test_a_history_holds_what_the_lesson_draws(run):
    seen = []
    run = replace(run, steps=2, batch=2, every=1)
    model, history = runs.train(run, lambda rows: seen.append(len(rows)))
    assert [row["step"] for row in history] == [0, 1, 2] and seen == [1, 2, 3]
    assert not model.training and not any(p.requires_grad for p in model.parameters())
    for row in history:
        assert (
            3 < row["held_out_loss"] < 6
            and 3 < row["first_pass_loss"] < 6
            and 3 < row["second_pass_loss"] < 6
        )
        assert (
            torch.tensor(row["prefix_matching"]).shape
            == (run.n_layers, 4)
            == torch.tensor(row["previous_token"]).shape
        )
        assert torch.tensor(row["back"]).shape == torch.tensor(row["after"]).shape == (4, 12)
        assert row["saves"] == pytest.approx(
            row["first_pass_loss"] - row["second_pass_loss"], abs=1e-4
        )
        for key in ("match", "lead", "chance"):
            assert (key in row) == (run.n_layers == 2)
            assert run.n_layers == 1 or torch.tensor(row[key]).shape == (4, 4)


def test_how_often_one_looks_changes_nothing():
    ends = [runs.train(replace(TINY, every=every))[1][-1] for every in (1, 2)]
    assert ends[0] == ends[1]
    assert runs.train(replace(TINY, seed=1))[1][-1] != ends[0]


def test_training_learns():
    history = runs.train(replace(TINY, steps=25, batch=16))[1]
    assert history[1]["held_out_loss"] < history[0]["held_out_loss"] - 0.03


def test_a_result_leaves_the_threads_alone():
    runs.finished.cache_clear()
    before = torch.get_num_threads()
    kept = runs.result(TINY)
    assert torch.get_num_threads() == before
    assert kept["run"] == asdict(TINY) and set(kept["paths"]) == {"whole", "keys", "queries"}
    one_layer = runs.result(replace(TINY, n_layers=1))
    assert (
        set(kept["composition"]) == set("QKV") and not {"paths", "composition"} & one_layer.keys()
    )
    for looks, history in (
        (kept["looks"], kept["history"]),
        (one_layer["looks"], one_layer["history"]),
    ):
        assert torch.tensor([looks["back"], looks["after"]]).shape == (2, 4, 20)
        assert [head[:12] for head in looks["after"]] == history[-1]["after"]


# Times and tests


STEPS = [0, 10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([0, 0, 0, 1, 1, 1, 1, 1], 0.5, 25),
        ([0, 0, 0, 1, 1, 1, 1, 1], 0.25, 22.5),
        ([4, 4, 4, 1, 1, 1, 1, 1], 0.5, 25),
        ([2, 2, 2, 3, 3, 3, 3, 3], 0.5, 25),
        ([0, 1, 0, 0, 1, 1, 1, 1], 0.5, 35),  # for good
        ([0, 0, 1, 3, 1, 1, 1, 1], 0.5, 15),  # a peak is no end
        ([0, 0, 0, 0, 2, 2, 2, 6], 0.5, 37.5),  # the mean of four
    ],
)
def test_event_times(values, share, expected):
    assert events.event_time(STEPS, values, share) == pytest.approx(expected)


def test_no_event_is_not_a_number():
    assert math.isnan(events.event_time(STEPS, [1.0] * 8))
    # it ends on the wrong side
    assert math.isnan(events.event_time(STEPS, [0, 0, 0, 0, 0, 9, 9, 0]))


def test_a_head_is_chosen_at_the_end():
    history = [{"score": [[0.1, 0.9], [0.5, 0.2]]}, {"score": [[0.3, 0.2], [0.1, 0.4]]}]
    assert [events.chosen_head(history, "score", 0, best) for best in (True, False)] == [0, 1]


def test_an_exponent_is_recovered():
    assert events.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx((2, 0))
    slope, error = events.exponent([1, 1, 4, 4], [2, 8, 1, 4])
    assert slope == pytest.approx(-0.5) and error == pytest.approx(0.5 * math.sqrt(2))


def test_a_level_is_reached_for_good():
    assert events.reached(STEPS, [0, 1, 0, 0, 1, 1, 1, 1], 0.5) == 35
    assert events.reached(STEPS, [4, 4, 4, 1, 1, 1, 1, 1], 2.5, rising=False) == 25
    assert events.reached(STEPS, [1] * 8, 0.5) == 0
    assert math.isnan(events.reached(STEPS, [0] * 8, 0.5)) and math.isnan(
        events.reached(STEPS, [1] * 7 + [0], 0.5)
    )


def test_the_paired_test_swaps_within_pairs_alone():
    assert events.paired_test([1, 2, 3, 4, 5], [11, 12, 13, 14, 15]) == 2 / 2**5
    # 3 and -1: both orders of the sum lie as far out
    assert events.paired_test([1.2, 5], [4.1, 4]) == 4 / 8 * 2
    assert events.paired_test([0, 0, 0], [3, 2, 1]) == 2 / 8
    # 6, 4, 2 or 0 in size: two ways give 6, two give 4
    assert events.paired_test([0, 0, 0], [3, 2, -1]) == 4 / 8
    assert events.paired_test([0, 0, math.nan], [3, 3, 3]) == 2 / 4
    assert events.paired_test([], []) == 1
    values = [
        3,
        -1,
        4,
        -1,
        5,
        -9,
        2,
        6,
        5,
        3,
        5,
        8,
        9,
        7,
        9,
        3,
        2,
        3,
        8,
        4,
        6,
        2,
        6,
        4,
        3,
        3,
        8,
        3,
        2,
        7,
    ]
    assert events.paired_test([0] * 30, values) < 1e-4  # 2³⁰ ways, counted in no time


# Many runs


RUNS = {"tiny 1": replace(TINY, seed=1), "tiny 2": replace(TINY, seed=2)}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return folder, runs.sweep(RUNS, folder)


def test_a_sweep_returns_what_single_runs_give(swept):
    assert swept[1] == json.loads(
        json.dumps({name: runs.result(run) for name, run in RUNS.items()})
    )


def test_a_finished_run_is_not_made_again(swept, monkeypatch):
    monkeypatch.setattr(runs, "train", lambda run: pytest.fail("trained again"))
    assert runs.sweep(RUNS, swept[0]) == swept[1]


def test_an_interrupted_sweep_goes_on(swept, tmp_path, monkeypatch):
    runs.finished.cache_clear()
    train, trained = runs.train, []

    def stops_at_the_second(run):
        trained.append(run.seed)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return train(run)

    monkeypatch.setattr(runs, "train", stops_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        runs.sweep(RUNS, tmp_path)
    runs.finished.cache_clear()
    assert runs.sweep(RUNS, tmp_path) == swept[1]
    assert trained == [1, 2, 2]


def test_another_recipe_of_the_same_name_is_trained(swept, tmp_path):
    runs.sweep({"tiny 1": RUNS["tiny 1"]}, tmp_path)
    before = (tmp_path / "tiny-1.json").read_bytes()
    other = runs.sweep({"tiny 1": RUNS["tiny 2"]}, tmp_path)
    assert other["tiny 1"] == swept[1]["tiny 2"]
    assert (tmp_path / "tiny-1.earlier.json").read_bytes() == before


def test_damaged_results_are_set_aside_and_named(tmp_path, monkeypatch, capsys, subtests):
    made = {"run": runs.as_stored(asdict(TINY)), "history": [{"step": 0}]}
    monkeypatch.setattr(runs, "result", lambda run: made)
    file = tmp_path / "tiny.json"
    damaged = ("", "{", "[]", "<<<<<<< mine\n{}", json.dumps(made)[:-9])
    foreign = ("{}", '{"run": 3}', '{"run": {"seed": 1}}', json.dumps({"run": asdict(TINY)}))
    for content in (*damaged, *foreign):
        with subtests.test(content):
            file.write_text(content)
            assert runs.sweep({"tiny": TINY}, tmp_path) == {"tiny": made}
            word = "damaged" if content in damaged else "earlier"
            said = capsys.readouterr().out
            aside = tmp_path / said.partition(", as ")[2].partition(".json")[0]
            assert f"{file} is " in said and aside.name.startswith(f"tiny.{word}")
            assert aside.with_name(f"{aside.name}.json").read_text() == content
            assert json.loads(file.read_text()) == made
    monkeypatch.setattr(runs, "result", lambda run: pytest.fail("trained again"))
    assert runs.sweep({"tiny": TINY}, tmp_path) == {"tiny": made}


def test_two_sweeps_never_share_a_folder(tmp_path, capsys):
    with train.alone(tmp_path / "runs"), pytest.raises(SystemExit):
        command.main(["--arms", "spread", "--out", str(tmp_path)])
    assert "Another training is at work in" in capsys.readouterr().err


def test_a_damaged_table_is_set_aside_and_other_arms_stay(tmp_path, capsys):
    results = {"spread 1": made_up() | {"silenced": [1.0, 1.0]}}
    for content in ("", "{", "[]", '{"spread": 3}'):
        file = experiments.write(results, tmp_path)
        capsys.readouterr()
        file.write_text(content)
        if content:  # whole, as far as its sum says
            _files.write_checksums(tmp_path)
        assert experiments.write(results, tmp_path) == file
        assert f"{file} is damaged. It is kept beside it, as" in capsys.readouterr().out
        assert [*experiments.stored(tmp_path)] == ["spread"]
    assert len(list(tmp_path.glob("experiments.damaged*.json"))) == 4
    # an arm of another version
    file.write_text('{"no arm of ours": [{"run": {}}]}')
    _files.write_checksums(tmp_path)
    experiments.write(results, tmp_path)
    assert [*experiments.stored(tmp_path)] == ["spread", "no arm of ours"]


@pytest.mark.slow
def test_a_dask_cluster_takes_the_runs_over(swept, tmp_path):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, joblib.parallel_config(backend="dask"):
        assert runs.sweep(RUNS, tmp_path, jobs=-1) == swept[1]
        # they went there
        assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter) > 0
    assert len(list(tmp_path.glob("*.json"))) == 2


# The experiments


def made_up(seed=1, at=3, **fields):
    """A result whose heads 0.1 and 1.1 form at measurement `at` of ten.

    Its lead is 2 from the second on.
    """
    rows = []
    for i in range(10):
        late, early = float(i >= at), float(i >= 2)
        rows.append(
            {
                "step": 10 * i,
                "saves": 3 * late,
                "in_context_learning": -late,
                "previous_token": [[0.0, late], [0.0, 0.0]],
                "prefix_matching": [[0.0, 0.0], [0.0, late]],
                "lead": [[0.0, 0.5 * early], [0.1, 2 * early]],
                "match": [[0.0, 0.0], [0.0, float(i > 0)]],
                "chance": [[0.1, 0.1], [0.1, 0.1]],
            }
        )
    looks = {"back": [[0, 0.1, 0.0, 0.8], [0, 0.9, 0.0, 0.1]], "after": [[0.0] * 4] * 2}
    savings = {"whole": 3.0, "queries": 3.0, "keys": 0.0, "values": 2.9}
    run = asdict(replace(runs.Run(), seed=seed, **fields))
    return {"run": run, "history": rows, "looks": looks, "savings": savings}


def test_the_pair_is_chosen_at_the_end_and_followed_back():
    kept = made_up()
    assert experiments.pair(kept) == (1, 1)
    assert experiments.curve(kept, "lead") == [0, 0] + [2] * 8
    assert experiments.points(kept, "lead", since=15) == ([20, 30, 40, 50, 60, 70, 80, 90], [2] * 8)
    assert (
        experiments.curve(kept, "prefix matching")
        == experiments.curve(kept, "previous token")
        == [0] * 3 + [1] * 7
    )
    assert events.event_time(*experiments.points(kept, "positivity")) == 5


def test_arms_are_compared_seed_by_seed_at_one_level():
    late, never = made_up(2, at=5), made_up(3, at=11)
    results = {"spread": [made_up(seed) for seed in (1, 2, 3)], "arm": [late, never]}
    assert (
        experiments.level_time(made_up(), made_up()) == 25
        and experiments.level_time(never, made_up()) == 90
    )
    compared = experiments.comparison(results, "arm")
    assert compared["differences"] == [20, 65] and compared["never"] == 1 and compared["seeds"] == 2
    assert compared["saves"] == [1, 0]


def test_what_is_left_without_the_best_head():
    # head 1.1 is the best: without it, 1 of 3 is left
    baseline = made_up() | {"silenced": [2.5, 1.0]}
    assert experiments.left_without_best(baseline) == pytest.approx(1 / 3)


def test_a_held_run_ends_with_another_ones_parts():
    runs.finished.cache_clear()
    end = runs.finished(TINY)[0]
    for held_as, other in (("end", end), ("start", runs.start(TINY))):
        training = runs.OnLanguage(replace(TINY, held=("match",), held_as=held_as))
        tokens = training.held_out
        expected = forward.held_logits(training.model, tokens, other, ["match"])
        torch.testing.assert_close(training.logits(tokens, 0), expected, atol=1e-5, rtol=1e-4)
    run = replace(TINY, held=("match", "look"))
    model, history = runs.train(run)
    start = runs.start(run)
    # nobody reads W_Q
    assert torch.equal(model.W_Q, start.W_Q) and not torch.equal(model.W_V[1], start.W_V[1])
    assert history[-1]["saves"] != pytest.approx(
        history[-1]["first_pass_loss"] - history[-1]["second_pass_loss"], abs=1e-6
    )


def test_a_head_is_off_from_its_step_on():
    runs.finished.cache_clear()
    scores = runs.finished(TINY)[1][-1]["prefix_matching"][1]
    for silent, off in (("best", scores.index(max(scores))), ("least", scores.index(min(scores)))):
        training = runs.OnLanguage(replace(TINY, silent=silent, silent_from=1))
        tokens = training.held_out
        assert torch.equal(training.logits(tokens, 0), forward.logits(training.model, tokens))
        assert torch.equal(
            training.logits(tokens, 1), forward.logits(training.model, tokens, [off])
        )
    model, start = runs.train(replace(TINY, silent="best"))[0], runs.start(TINY)
    moved = (model.W_O[1] - start.W_O[1]).norm(dim=(1, 2))
    assert moved.argmin() == scores.index(max(scores)) and moved.min() < 0.1 * moved.max()


def test_the_experiments_plan_every_arm_and_its_seeds():
    planned = experiments.planned()
    assert len(planned) == sum(seeds for _, seeds in experiments.ARMS.values())
    assert planned["planted 8 back 3"] == replace(runs.Run(), planted=8, seed=3)
    # the recipe was chosen on these
    assert {run.seed for run in planned.values()}.isdisjoint({0, 101, 102})
    # they become names of files, on Windows too
    assert not any(set(name) & set('<>:"/\\|?*') for name in planned)
    altered = [run.seed for run in planned.values() if run != run.unaltered()]
    assert altered == sorted(altered)


def test_the_command_makes_the_experiments(tmp_path, monkeypatch, capsys):
    arms = {"spread": 2, "match held at its end": 1, "without the best head": 1, "one layer": 1}
    tiny = {
        name: (replace(experiments.ARMS[name][0], steps=2, batch=2), n) for name, n in arms.items()
    }
    monkeypatch.setattr(experiments, "ARMS", tiny)
    command.main(["--out", str(tmp_path)])
    assert capsys.readouterr().out == f"{tmp_path / 'experiments.json'}: 5 runs\n"
    stored = experiments.stored(tmp_path)
    assert {name: len(made) for name, made in stored.items()} == arms
    full, held = stored["spread"][0], stored["match held at its end"][0]
    assert (
        set(experiments.FULL_ROW) == set(full["history"][0])
        and len(full["history"][0]["back"]) == 12
    )
    assert set(held) == {"run", "history"} and set(held["history"][0]) == set(experiments.LEAN_ROW)
    command.main(["--arms", "spread", "--out", str(tmp_path)])
    assert list(experiments.stored(tmp_path)) == list(arms)  # the others stay
    (tmp_path / "experiments.json").write_text("{}")
    with pytest.raises(OSError, match="damaged"):
        experiments.stored(tmp_path)


def test_the_stored_runs_are_planned_ones():
    stored, planned = experiments.stored(), experiments.planned()
    assert (_files.DATA / "formation" / "experiments.json").stat().st_size < 3e6
    for arm, made in stored.items():
        for kept in made:
            run = planned[f"{arm} {kept['run']['seed']}"]
            assert runs.as_stored(kept["run"]) == runs.as_stored(asdict(run))
            steps = list(range(0, run.steps + 1, run.every))
            assert [row["step"] for row in kept["history"]] == steps
