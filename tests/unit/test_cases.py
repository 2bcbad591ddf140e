"""The sealed models of lesson 11, and the judge that tries hypotheses about them.

No answer is written anywhere.
"""

import contextlib
import functools
import itertools
import json

import pytest
import torch

from course_lessons.l11_final_case import cases, checks, judge, languages, new_boxes
from course_lessons.l11_final_case.checks import sealed
from course_lessons.l11_final_case.judge import SealedBox, Trial
from course_lessons.programs import Head, Look, Term, back, listed, unless, where
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
    "a pattern that nobody hears": (
        0,
        {"0.2": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "0 % of what the model saves stays",
    ),
    "it matters, so it copies": (0, {"1.0": Head(back(7), TO_OUT)}, "gives 0 % of its attention"),
    "the writer looks elsewhere": (
        0,
        RELAY | {"0.1": Head(back(2), {"token": "fetched"})},
        "of what the model saves",
    ),
    "by distance": (1, {"1.3": Head(back(7), TO_OUT)}, "to where you say"),
    "the wrong door": (
        1,
        {"0.1": POINTER, "1.3": Head(AT_POINTER, TO_OUT)},
        "On texts of other kinds",
    ),
    "the wrong label": (
        1,
        {"0.1": Head(back(2), {"token": "before"}), "1.3": Head(AFTER, TO_OUT)},
        "gives 0 %",
    ),
    "the wrong writer": (1, {"0.2": LABEL, "1.3": Head(AFTER, TO_OUT)}, "of what the model saves"),
    "induction, and it counts": (2, {"0.1": LABEL, "1.1": Head(AFTER, TO_OUT)}, "to where you say"),
    "a decoy too many": (
        2,
        {"1.1": Head(back(7), TO_OUT), "0.1": LABEL, "1.3": Head(AFTER, TO_OUT)},
        "Without ",
    ),
    "a label, and it is a pointer": (
        3,
        {"0.3": LABEL, "1.2": Head(AFTER, TO_OUT)},
        "On texts of other kinds",
    ),
    "a decoy of the same rule": (
        4,
        {"0.0": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "of what the model saves stays",
    ),
    "one label of two": (6, {"0.1": LABEL, "1.0": Head(AFTER, TO_OUT)}, "On texts of other kinds"),
    "two that speak at once": (
        7,
        {"0.2": Head(back(7), TO_OUT), "0.3": LABEL, "1.1": Head(AFTER, TO_OUT)},
        "1.1 gives 0 % of its attention",
    ),
    "names, and none is avoided": (9, {}, None),
    "half of the crowd": (10, {"0.0": LABEL, "1.2": Head(AFTER, TO_OUT)}, None),
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


def test_less_than_the_whole_reserve_is_true_but_not_all():
    trial = Trial(sealed(7), {"0.2": Head(back(7), TO_OUT)})
    assert not trial.false and not trial.solved and trial.failed[-1] == "Who makes up for it?"


def test_a_look_that_is_no_number_takes_nobodys_place():
    nowhere = Look((Term("token", "token", lambda n, m: torch.full((n, m), torch.nan)),))
    assert Trial(sealed(0), RELAY | {"0.1": Head(nowhere, {"token": "fetched"})}).false


def test_what_is_scrubbed_is_what_shut_doors_leave():
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


def near(hypothesis):
    """Hypotheses that differ in one look, each head in turn."""
    for name, head in hypothesis.items():
        for look in (back(2), back(5), where("token", itself=False)):
            yield hypothesis | {name: head._replace(look=look)}


def verdicts(seed: int, new: new_boxes.Made) -> tuple[bool, int, int]:
    """Whether the true hypothesis holds with other weights, and how many false ones do.

    It also says how many were tried.
    """
    noisy = models.initial(cases.CONFIG | {"d_model": new.model.cfg.d_model}).requires_grad_(False)
    noisy.load_state_dict(new.model.state_dict())
    for weight in noisy.parameters():
        weight.mul_(
            1 + 1e-3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
        )
    true = Trial(SealedBox(noisy), new.hypothesis)
    others = itertools.islice(near(new.hypothesis), seed % 3, None, 3)
    trials = [trial for other in others if (trial := tried(SealedBox(new.model), other))]
    false = [trial for trial in trials if trial.digest != true.digest]
    return true.solved, sum(trial.solved for trial in false), len(false)


def tried(box, hypothesis):
    with contextlib.suppress(judge.Wrong):
        return Trial(box, hypothesis)


@pytest.fixture
def many(request):
    return request.config.getoption("--boxes")


@pytest.mark.beside
def test_true_hypotheses_pass_and_false_ones_fail_on_boxes_made_for_it(many):
    found = [verdicts(seed, new) for seed, new in some(many)]
    assert len({new.way for _, new in some(many)}) >= 10
    assert all(true for true, _, _ in found)
    assert sum(false for _, false, _ in found) == 0 and sum(tried for *_, tried in found) >= many


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
    assert (DATA / "cases").is_dir() and checks.sealed(0).language == "blocks"


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
