"""The sealed models of lessons 11 and 11b, and the judge that tries hypotheses about them.

No answer is written anywhere.
"""

import contextlib
import functools
import itertools
import json

import pytest
import torch

from course_lessons.programs import Head, Look, Term, back, both, but_not, listed, unless, where
from course_lessons.sealed import cases, judge, languages, new_boxes, places
from course_lessons.sealed.judge import SealedBox, Trial
from course_lessons.sealed.trial import sealed
from course_utils import check, interventions, models
from course_utils._files import DATA
from course_utils.course import case_score, solutions

NUMBERS = {name: number for number, name in enumerate(cases.names())}
RELAY = {"0.1": Head(back(3), {"token": "fetched"}), "1.0": Head(back(4), {"fetched": "out"})}
LABEL = Head(back(1), {"token": "before"})
POINTER = Head(where("token", itself=False), {"place": "pointer"})
AFTER, AT_POINTER = where("before"), where("place", equals="pointer", step=1)
TO_OUT = {"token": "out"}
boxes = pytest.mark.parametrize("number", range(len(NUMBERS)))


def right(number: int) -> dict[str, Head]:
    """What the solution says of a box; of box 0, the text."""
    return solutions.find(f"case_{number}").function() if number else RELAY


@boxes
def test_the_box_does_what_all_boxes_do(number):
    box = sealed(number)
    with interventions.cut(box.model, *box.heads):
        none = judge.says(box.model(box.texts[0]))[box.counts(0)]
    assert judge.says(box.model(box.texts[0]))[box.counts(0)].mean() > 0.9 and none.mean() < 0.5


@boxes
def test_the_true_hypothesis_takes_the_models_place_and_so_it_does_with_other_weights(number):
    assert Trial(sealed(number), right(number)).solved
    noisy = models.load(f"cases/{number}")
    for weight in noisy.parameters():
        weight.mul_(
            1 + 1e-3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
        )
    assert Trial(SealedBox(noisy, sealed(number).language), right(number)).solved


FALSE = {  # box, what is claimed of it, where it fails
    "a pattern that nobody reads": (
        0,
        {"0.2": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "0 % of what the model saves stays",
    ),
    "it matters, so it copies": (
        0,
        {"1.0": Head(back(7), TO_OUT)},
        "1.0 looks where you say at 0 % of the places",
    ),
    "the writer looks elsewhere": (
        0,
        RELAY | {"0.1": Head(back(2), {"token": "fetched"})},
        "0.1 looks where you say at 0 % of the places",
    ),
    "by distance": (1, {"1.3": Head(back(7), TO_OUT)}, "looks where you say at"),
    "the wrong door": (
        1,
        {"0.1": POINTER, "1.3": Head(AT_POINTER, TO_OUT)},
        "0.1 looks where you say at 0 % of the places",
    ),
    "the wrong label": (
        1,
        {"0.1": Head(back(2), {"token": "before"}), "1.3": Head(AFTER, TO_OUT)},
        "0.1 looks where you say at 0 % of the places",
    ),
    "the wrong writer": (1, {"0.2": LABEL, "1.3": Head(AFTER, TO_OUT)}, "0.2 looks where you say"),
    "induction, and it counts": (
        2,
        {"0.1": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "looks where you say at",
    ),
    "a decoy too many": (
        2,
        {"1.1": Head(back(7), TO_OUT), "0.1": LABEL, "1.3": Head(AFTER, TO_OUT)},
        "Without ",
    ),
    "a label, and it is a pointer": (
        3,
        {"0.3": LABEL, "1.2": Head(AFTER, TO_OUT)},
        "0.3 looks where you say at 0 % of the places",
    ),
    "a decoy of the same rule": (
        4,
        {"0.0": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "of what the model saves stays",
    ),
    "one label of two": (
        6,
        {"0.1": LABEL, "1.0": Head(AFTER, TO_OUT)},
        "9 % of what the model saves stays",
    ),
    "two that write to out at once": (
        7,
        {"0.2": Head(back(7), TO_OUT), "0.3": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "1.1 looks where you say at",
    ),
    "names, and none is avoided": (9, {}, None),
    "a comparison of letters is left out": (
        8,
        {"0.0": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "10 % of what the model saves stays",
    ),
    "half of those that share the work": (10, {"0.0": LABEL, "1.2": Head(AFTER, TO_OUT)}, None),
}


@pytest.mark.parametrize("what", FALSE)
def test_the_false_hypothesis_fails_with_evidence(what):
    number, claim, sentence = FALSE[what]
    if number == 9:
        is_name = torch.zeros(21, 21)
        is_name[:, 1:9] = 1
        claim = {"1.1": Head(listed(is_name), TO_OUT)}
    trial = Trial(sealed(number), claim)
    assert not trial.solved and trial.failed
    assert sentence is None or (trial.false and sentence in " ".join(trial.failed)), trial.failed


MAY_FOLLOW = torch.zeros(21, 21).scatter(1, languages.habits(), 1.0)
MAY_FOLLOW[0] = 0
IS_NAME = torch.zeros(21, 21)
IS_NAME[:, 1:9] = 1


def without(table, rows=(), columns=()):
    """A table in which some rows or columns are empty."""
    table = table.clone()
    table[list(rows)] = 0
    table[:, list(columns)] = 0
    return table


def one_pair_less():
    table = MAY_FOLLOW.clone()
    table[5, MAY_FOLLOW[5].argmax()] = 0
    return table


AVOIDS = {"0.1": Head(back(2), {"token": "again"})}


def _less(look, points, kinds):
    """A look that is as before but where a table, [here, there], takes points away."""
    table = lambda n, m: -2 * points[:n, :m]  # noqa: E731
    return look._replace(terms=(*look.terms, Term(kinds[0], kinds[0], table, (kinds[1],) * 2)))


def with_pair(table, here, there, points):
    """A table in which one pair of letters has so many points."""
    table = table.clone()
    table[here, there] = points
    return table


AT_TEN = torch.zeros(23, 23)
AT_TEN[10, 1:] = 1  # at the start token alone
NEARLY = {  # what passed with full points while only heads that write to the logits were asked
    "box 3, its own place too": (
        3,
        {"0.3": Head(where("token"), {"place": "pointer"}), "1.2": Head(AT_POINTER, TO_OUT)},
        "you say at its own place and 8 back, and it looks 8 back",
    ),
    "box 5, two letters of 20 missing": (
        5,
        {"1.1": Head(listed(without(MAY_FOLLOW, rows=(3, 9))), TO_OUT)},
        "at the end of “c”",
    ),
    "box 5, a pair missing": (
        5,
        {"1.1": Head(listed(one_pair_less()), TO_OUT)},
        "where it looks from “e” at",
    ),
    "box 5, a pair too many": (
        5,
        {"1.1": Head(listed(with_pair(MAY_FOLLOW, 18, 13, 1)), TO_OUT)},
        "where you say that it looks from “r” at “m”",
    ),
    "box 9, a pair missing": (
        9,
        AVOIDS
        | {
            "1.1": Head(
                but_not(listed(with_pair(IS_NAME, 12, 4, 0)), "token", equals="again"), TO_OUT
            )
        },
        "where it looks from “l” at “d”",
    ),
    "box 1, silent at a position": (
        1,
        {"0.1": LABEL._replace(look=_less(LABEL.look, AT_TEN, ("place", "places")))}
        | {"1.3": Head(AFTER, TO_OUT)},
        "at one position",
    ),
} | {
    f"box 9, without {judge.LETTERS[name]}": (
        9,
        AVOIDS
        | {
            "1.1": Head(
                but_not(listed(without(IS_NAME, columns=[name])), "token", equals="again"), TO_OUT
            )
        },
        f"where it looks at “{judge.LETTERS[name]}”",
    )
    for name in (1, 4, 8)
}


@pytest.mark.parametrize("what", NEARLY)
def test_a_rule_that_is_nearly_right_fails_with_the_text_that_shows_it(what):
    number, claim, sentence = NEARLY[what]
    trial = Trial(sealed(number), claim)
    assert trial.false and sentence in " ".join(trial.failed), trial.failed
    assert trial.answers == {"where?": False}  # it was not asked any further


def test_only_the_first_question_tells_a_look_at_two_places_from_one():
    number, claim, _ = NEARLY["box 3, its own place too"]
    trial = Trial(sealed(number), claim, to_the_end=True)
    assert [question for question, holds in trial.answers.items() if not holds] == ["where?"]


@pytest.mark.parametrize(
    ("own", "yours", "right"),
    [
        ([0.0, 0.9, 0.1], [0, 1, 0], True),
        ([0.3, 0.3, 0.4], [0, 1, 0], True),  # blurred, and none gets twice as much
        ([0.2, 0.2, 0.6], [0, 1, 0], False),
        ([0.0, 0.9, 0.1], [0, 0.5, 0.5], True),  # a tie of which one gets more
        ([0.0, 0.99, 0.01], [0, 0.5, 0.5], False),
        ([0.0, 0.0, 1.0], [1, 0, 0], False),
    ],
)
def test_where_a_head_looks_is_compared_place_by_place(own, yours, right):
    assert bool(places.as_said(torch.tensor([[own]]), torch.tensor([[yours]]))) == right


def test_a_slot_that_nobody_reads_is_named():
    claim = RELAY | {"0.1": Head(back(3), {"token": "fetched", "place": "where"})}
    with pytest.raises(judge.Wrong, match=r'0\.1 writes to "where", which nobody reads'):
        Trial(sealed(0), claim)


def test_a_circuit_without_its_backup_is_true_but_not_all():
    trial = Trial(sealed(7), {"0.2": Head(back(7), TO_OUT)})
    assert not trial.false and not trial.solved and trial.failed[-1] == "Which head takes over?"


def test_a_look_that_is_no_number_takes_nobodys_place():
    nowhere = Look((Term("token", "token", lambda n, m: torch.full((n, m), torch.nan)),))
    assert Trial(sealed(0), RELAY | {"0.1": Head(nowhere, {"token": "fetched"})}).false


def test_what_is_scrubbed_is_what_shut_doors_leave(monkeypatch):
    monkeypatch.setattr(
        judge, "BEFORE", dict.fromkeys(judge.BEFORE, 1)
    )  # `cut` knows one other text
    box = sealed(3)
    _, _, doors = judge.programmed(box, right(3))
    tokens = box.texts[0]
    _, cache = box.model.run_with_cache(tokens)
    instead = {(n, head): cache["z", n][:, :, head].roll(1, 0) for n, head in box.heads} | {
        "embed": cache["embed"].roll(1, 0)
    }
    with interventions.cut(box.model, *interventions.all_but(box.model, *doors), instead=instead):
        assert torch.allclose(box.model(tokens), box.scrubbed(cache, doors, {})[0], atol=1e-3)


# Boxes from seeds


@functools.cache
def made(seed: int) -> new_boxes.Made:
    return new_boxes.solvable(seed, 1 + seed % 3)


def some(many: int):
    """New boxes, of all levels in turn."""
    return ((seed, made(seed)) for seed in range(many))


def other_looks(look):
    """Wrong looks that are cheap to think of: another rule, one place too many, a few too few."""
    yield from map(back, range(8))
    yield from (where("token"), where("token", itself=False), listed(MAY_FOLLOW))
    yield look._replace(rest=look.rest + 0.5)  # at the start token as well
    yield Look(look.terms + back(0).terms, look.rest)
    yield from (Look(look.terms + back(n).terms, look.rest) for n in (1, 2, 6))
    yield both(look, back(7))
    for letters in ([3], [4, 9]):
        rows, letter = torch.zeros(21, 21), ("token", "tokens")
        rows[letters] = 1
        yield _less(look, rows, letter)  # not from these letters
        yield _less(look, rows.T, letter)  # not at these
    for places_left_out in ([12], [*range(0, 23, 2)], [*range(9, 23)]):
        rows, place = torch.zeros(23, 23), ("place", "places")
        rows[places_left_out] = 1
        yield _less(look, rows, place)
    yield from (Look((term,)) for term in look.terms)


def near(hypothesis):
    """Wrong hypotheses near a right one: other looks, heads that are exchanged, added, left out."""
    for name, head in hypothesis.items():
        for look in other_looks(head.look):
            yield hypothesis | {name: head._replace(look=look)}
        others = [f"{name[0]}.{n}" for n in range(4) if f"{name[0]}.{n}" not in hypothesis]
        for other in others:
            yield {other if one == name else one: hypothesis[one] for one in hypothesis}
            yield hypothesis | {other: head}
        if len(hypothesis) > 1:
            yield {one: hypothesis[one] for one in hypothesis if one != name}


def says_the_same(box, one, other):
    """Whether two hypotheses agree wherever it counts where a head looks, and name one circuit."""
    if one.doors != other.doors:
        return False
    for n in range(len(box.texts)):
        about, looks = one.about(n), other.about(n).looks
        sure = box.counts(n) & (judge.says(about.logits) > judge.SURE)
        own = {head: about.cache["pattern", head[0]][:, head[1]] for head in about.looks}
        for head, at in places.counted(one.doors, own, sure).items():
            if (((about.looks[head] > 0) != (looks[head] > 0)).any(-1) & at).any():
                return False
    return True


def verdicts(seed: int, new: new_boxes.Made, share: int) -> tuple[bool, int, int]:
    """Whether the true hypothesis holds with other weights, and how many false ones do.

    It also says how many were tried, one in `share` of those that are near.
    """
    noisy = models.initial(cases.CONFIG | {"d_model": new.model.cfg.d_model}).requires_grad_(False)
    noisy.load_state_dict(new.model.state_dict())
    for weight in noisy.parameters():
        weight.mul_(
            1 + 1e-3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
        )
    box = SealedBox(new.model)
    true = Trial(box, new.hypothesis)
    others = itertools.islice(near(new.hypothesis), seed % share, None, share)
    trials = [trial for other in others if (trial := tried(box, other))]
    false = [one for one in trials if one.false or not says_the_same(box, true, one)]
    accepted = sum(trial.solved for trial in false)
    return Trial(SealedBox(noisy), new.hypothesis).solved, accepted, len(false)


def tried(box, hypothesis):
    with contextlib.suppress(judge.Wrong):
        return Trial(box, hypothesis)


@pytest.fixture
def many(request):
    return request.config.getoption("--boxes")


def test_three_new_boxes_and_some_wrong_hypotheses_about_each():
    """In seconds, what the next test does for many."""
    found = [verdicts(seed, new, share=12) for seed, new in some(3)]
    assert all(true for true, _, _ in found)
    assert sum(false for _, false, _ in found) == 0 and sum(tried for *_, tried in found) >= 9


@pytest.mark.beside
def test_true_hypotheses_pass_and_false_ones_fail_on_boxes_made_for_it(many):
    found = [verdicts(seed, new, share=3) for seed, new in some(many)]
    assert len({new.way for _, new in some(many)}) >= 10
    assert all(true for true, _, _ in found)
    tried = sum(tried for *_, tried in found)
    assert sum(false for _, false, _ in found) <= tried / 100 and tried >= 10 * many


@pytest.mark.beside
def test_the_judge_chooses_few_boxes(many):
    """A seed's box is the first that can be solved: nearly always it is the first that is made."""
    first = [next(new_boxes.made(seed, 1 + seed % 3)) for seed in range(many)]
    solved = [Trial(SealedBox(new.model), new.hypothesis).solved for new in first]
    assert sum(solved) >= 0.9 * many


def short_hypotheses(generator):
    """All hypotheses that can be written shortly, in an order drawn at random.

    They are about a head, or a writer and a reader.
    """
    looks = [*map(back, range(1, 8)), where("token", itself=False)]
    readers = [
        (f"1.{head}", look)
        for head in range(4)
        for look in (*map(back, range(1, 8)), AFTER, AT_POINTER)
    ]
    every: list = [{reader: Head(look, TO_OUT)} for reader, look in readers]
    for (reader, look), writer, fetch in itertools.product(readers, range(4), looks):
        for slot in ("before", "pointer"):
            source = {"place": "pointer"} if slot == "pointer" else {"token": "before"}
            for says in ({slot: "out"}, TO_OUT) if slot == "before" else (TO_OUT,):
                if says != TO_OUT or look in ((AFTER,) if slot == "before" else (AT_POINTER,)):
                    every.append({f"0.{writer}": Head(fetch, source), reader: Head(look, says)})
    return [every[place] for place in torch.randperm(len(every), generator=generator).tolist()]


def costly(model, hypotheses):
    """Those whose reader, and whose writer if any, is its layer's head whose cut costs most."""
    tokens, best = languages.texts(), {}
    for layer in (0, 1):
        costs = []
        for head in range(4):
            with interventions.cut(model, (layer, head)):
                losses = model(tokens, return_type="loss", loss_per_token=True)
            costs.append(losses[:, languages.PERIOD + 2 :].mean())
        best[layer] = f"{layer}.{torch.stack(costs).argmax()}"
    return [one for one in hypotheses if all(name == best[int(name[0])] for name in one)]


@pytest.mark.beside
@pytest.mark.parametrize("informed", [False, True], ids=["blind", "knows whose cut costs most"])
def test_a_search_solves_at_most_one_box_in_ten_while_there_are_points(informed, many):
    """Four tries: after so many false ones no points are left."""
    solved, tries = 0, -(-case_score.POINTS // case_score.PRICE)
    for seed, new in some(many):
        hypotheses = short_hypotheses(torch.Generator().manual_seed(seed))
        if informed:
            hypotheses = costly(new.model, hypotheses)
        trials = (tried(SealedBox(new.model), one) for one in hypotheses[:tries])
        solved += any(trial and trial.solved for trial in trials)
    assert solved <= many / 10


def test_a_box_is_a_file_with_a_hash(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    box = made(0)
    monkeypatch.setattr(new_boxes, "solvable", lambda seed, level: box)
    new_boxes.main(["--seed", "0", "--level", "1", "--tell"])
    path, inside = capsys.readouterr().out.splitlines()
    assert path.startswith("box-") and inside.startswith("inside: ")
    hypothesis = made(0).hypothesis
    check.case(path, hypothesis)
    assert capsys.readouterr().out.startswith(f"{path}: solved\n")
    again = new_boxes.write(made(0).model, tmp_path / "other")
    assert again.name == path
    again.rename(tmp_path / "box-000000000000.safetensors")
    check.case("box-000000000000.safetensors", hypothesis)
    assert capsys.readouterr().out.startswith("✗ box-000000000000.safetensors is damaged")


# The tally


def test_every_try_is_entered_once(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COURSE_CLAIMS", raising=False)
    monkeypatch.setattr(case_score, "is_recorded", lambda: False)
    wrong, true = {"1.3": Head(back(7), TO_OUT)}, right(1)
    for hypothesis in (wrong, wrong, true):
        check.case(1, hypothesis)
    said = [line for line in capsys.readouterr().out.splitlines() if "tally" in line]
    assert said[0] == said[1] == "  tally: 1 try, 1 false, 7 points to win"
    assert said[2] == "  tally: 2 tries, 1 false, 7 of 10 points"
    check.case(1, {"1.3": Head(back(6), TO_OUT)})  # solved is solved: now one may play
    assert "3 tries, 1 false, 7 of 10 points" in capsys.readouterr().out
    assert case_score.summary() == "Sealed boxes. box 1: 3 tries, 1 false, 7 of 10 points."
    check.case(0, RELAY)
    assert [*case_score.kept()] == ["box 1"]
    for n in (1, 2, 3, 4):
        check.case(2, {"1.1": Head(back(n), TO_OUT)})
    assert "4 tries, 4 false, 0 points to win" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1, ["it is induction"]), "✗ a hypothesis names heads and says what they do"),
        (
            (1, {"1.7": Head(back(7), TO_OUT)}),
            "✗ the boxes have the heads 0.0 to 0.3 and 1.0 to 1.3, and 1.7 is none",
        ),
        ((1, {"1.1": Head(AFTER, TO_OUT)}), "no head writes that slot"),
        ((1, {"1.1": Head(unless("flag", back(1)), TO_OUT)}), "no head writes that slot"),
        ((1, {"1.1": Head(back(7), TO_OUT, -1.0)}), "how loud 1.1 is can't be tried here"),
        ((1, {"1.1": Head(listed(torch.zeros(20, 20)), TO_OUT)}), "torch.zeros(21, 21)"),
        ((12, {}), "✗ There are the boxes 0 to 11, and no 12."),
        ((0, lambda: {}), "only an exercise takes a function"),
    ],
)
def test_what_can_not_be_tried_gets_a_sentence(capsys, arguments, sentence):
    check.case(*arguments)
    said = capsys.readouterr().out
    assert said.startswith("✗ ") and sentence in said and len(said.splitlines()) == 1


# The files and the texts


def test_boxes_come_with_the_course_and_are_what_the_recipe_makes():
    names = [name for name in models.bundled() if name.startswith("cases/")]
    assert sorted(names) == sorted(f"cases/{n}" for n in NUMBERS.values())
    for name in cases.COMPILED:
        number = NUMBERS[name]
        stored = models.load(f"cases/{number}")
        made = cases.compiled(name, cases.SHUFFLE + number)[0]
        assert torch.allclose(stored.W_E, made.W_E, atol=1e-3)
        for QK in (lambda m: m.W_Q @ m.W_K.mT, lambda m: m.W_V @ m.W_O):
            # the noise may find another sign
            assert (QK(stored) - QK(made)).norm() < 0.3 * QK(made).norm()


def test_no_weight_is_zero_and_no_name_tells():
    for number in NUMBERS.values():
        model = models.load(f"cases/{number}")
        assert all(
            (weight == 0).float().mean() < 0.01
            for weight in (model.W_Q, model.W_O, model.W_E, model.W_U)
        )
        card = DATA / "cases" / str(number) / "config.json"
        assert json.loads(card.read_text(encoding="utf-8")).keys() == {"model", "made by"}
    assert (DATA / "cases").is_dir() and sealed(0).language == "blocks"


def test_the_texts_are_of_the_language():
    texts, habits = languages.texts(), languages.habits()
    assert (
        len(texts) > 30 and texts.shape[1] == 1 + 2 * languages.PERIOD and (texts[:, 0] == 0).all()
    )
    assert torch.equal(texts[:, 1 : 1 + languages.PERIOD], texts[:, 1 + languages.PERIOD :])
    follows = (habits[texts[:, 1:-1]] == texts[:, 2:, None]).any(-1)
    assert follows[:, : languages.PERIOD - 1].all() and follows[:, languages.PERIOD :].all()
    assert all(len({*text}) == languages.PERIOD + 1 for text in texts.tolist())
    hidden = languages.texts(shown=False)
    assert not {*map(tuple, texts.tolist())} & {*map(tuple, hidden.tolist())}


def test_unrelated_texts_have_their_period():
    texts = languages.unrelated(11, 5, seed=2)
    assert texts.shape == (5, 23) and torch.equal(texts[:, 1:12], texts[:, 12:])
    with pytest.raises(ValueError, match="at most 11"):
        languages.unrelated(12)


def test_templates_ask_for_the_other_name():
    for row in languages.templates(6, extra=2).tolist():
        assert (
            row[-4] in (row[2], row[4])
            and row[-1] == ({row[2], row[4]} - {row[-4]}).pop()
            and row[-1] <= languages.NAMES
        )
