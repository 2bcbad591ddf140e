"""The sealed models of lesson 11, and the check that tries claims about them: no answer is written down anywhere.

What is true of a mechanism stands here by part; which head plays the part, the recipe's seeds say.
"""

import itertools

import pytest
import torch

from course_utils import check, models
from course_utils.lessons.l11_final_case import cases
from course_utils.lessons.l11_final_case import checks as lesson_11
from course_utils.lessons.l11_final_case.checks import DOORS, Box, explained, made_up, sealed, tried

NUMBERS = {name: number for number, name in enumerate(cases.names())}
INDUCTION = [
    "{reader} matters",
    "{reader} needs {writer} through its keys",
    "{reader} looks right after the same token",
]
TRUE = {  # each is worth a point, and together they explain the box
    "relay": [
        "{reader} matters",
        "{reader} needs {writer} through its values",
        "{reader} looks 4 back",
        "{writer} looks 3 back",
        "{decoy} does not matter",
    ],
    "induction": [*INDUCTION, "{writer} looks 1 back", "{sham} does not matter"],
    "fixed_distance": [
        "{reader} matters",
        "{reader} looks 7 back",
        "{decoy} does not matter",
        "{sham} does not matter",
    ],
    "pointers": [
        "{reader} matters",
        "{reader} needs {writer} through its queries",
        "{writer} looks at the same token",
        "{reader} looks right after the same token",
        "{decoy} does not matter",
    ],
    "decoy": [*INDUCTION, "{decoy} does not matter", "{second decoy} does not matter"],
    "skip_trigrams": ["{reader} matters", "{reader} looks at certain tokens", "{decoy} does not matter"],
    "two_tokens": [
        "{reader} needs {one back} through its keys",
        "{reader} needs {one back} through its queries",
        "{reader} needs {two back} through its keys",
        "{reader} looks right after the same two tokens",
    ],
    "stand_in": [
        "{reader} looks 7 back",
        "{stand-in} stands in for {reader}",
        "when {stand-in} is cut, {reader} matters",
        "when {reader} is cut, {stand-in} needs {writer} through its keys",
        "when {reader} is cut, {stand-in} looks right after the same token",
    ],
    "ordinary": [*INDUCTION, "{writer} matters"],
}
SUSPICIONS = [  # what somebody may well believe of a head that matters
    *(f"{{reader}} looks {n} back" for n in (1, 4, 7)),
    *(
        f"{{reader}} looks {where}"
        for where in ("at the same token", "right after the same two tokens", "at certain tokens")
    ),
    "{reader} looks right after the same token",
    "{reader} does not matter",
    "0.{junk} matters",
    "0.{junk} stands in for {reader}",
    *(f"{{last}} needs 0.{head} through its {door}" for head in range(4) for door in DOORS),
]
mechanisms = pytest.mark.parametrize("name", cases.names())


def roles(name) -> dict[str, tuple[int, int]]:
    """Which head has which part: the recipe says it of a compiled box, cuts of the trained one."""
    if name != cases.TRAINED:
        return cases.compiled(name, cases.SHUFFLE + NUMBERS[name])[1]
    box = sealed(NUMBERS[name])
    layers = [[head for head in box.heads if head[0] == layer] for layer in (0, 1)]
    return dict(zip(("writer", "reader"), (max(heads, key=box.cost) for heads in layers), strict=True))


def parts(name) -> dict[str, str]:
    """The parts, as statements name their heads: "reader": "1.2"."""
    found = roles(name)
    named = {part: f"{layer}.{head}" for part, (layer, head) in found.items()}
    taken = {head for layer, head in found.values() if layer == 0}
    return named | {"junk": str(min({0, 1, 2, 3} - taken)), "last": named.get("stand-in", named["reader"])}


def filled(name, statements) -> list[str]:
    return [statement.format_map(parts(name)) for statement in statements]


def verdicts(name, *statements):
    return tried(sealed(NUMBERS[name]), filled(name, statements))


@mechanisms
def test_the_box_does_what_all_boxes_do(name):
    box = sealed(NUMBERS[name])
    assert box.loss() < 0.2 and box.loss(*box.heads) > 2.5


@mechanisms
def test_the_true_claim_passes(name):
    found = verdicts(name, *TRUE[name])
    assert [verdict.points for verdict in found] == [1] * len(found), found
    assert explained(sealed(NUMBERS[name]), found) > 0.9 and any(verdict.looks for verdict in found)
    _, whole, part = made_up(sealed(NUMBERS[name]), found)
    assert whole - part < 0.25


@pytest.mark.slow
@mechanisms
def test_ten_plausible_false_claims_fail_with_evidence(name):
    claims = sorted({*filled(name, SUSPICIONS)} - {*filled(name, TRUE[name])})
    found = tried(sealed(NUMBERS[name]), claims)
    false = [verdict for verdict in found if verdict.points == -1]
    assert len(false) >= 10 and not [claim for claim, v in zip(claims, found, strict=True) if v.points == 1]
    assert all(any(unit in verdict.evidence for unit in ("nats", " %", "logit")) for verdict in false)


@pytest.mark.parametrize("name", ["relay", "induction", "pointers"])
def test_the_right_heads_at_the_wrong_door_are_told(name):
    (needs,) = (statement for statement in TRUE[name] if "needs" in statement)
    right = needs.split()[-1]
    for wrong in {*DOORS} - {right}:
        (verdict,) = verdicts(name, needs.replace(right, wrong))
        assert verdict.points == -1 and verdict.evidence.startswith("right heads, wrong door: the cut costs only 0.")
        assert right not in verdict.evidence  # which door it is, the learner finds out


@pytest.mark.parametrize(
    ("name", "statement", "sentence"),
    [
        ("stand_in", "{stand-in} needs {writer} through its keys", "the keys, yes; but the cut costs only"),
        ("stand_in", "{reader} matters", "beside another cut. Who stands in?"),
        ("stand_in", "{stand-in} does not matter", "a reserve is no idler"),
        ("stand_in", "{reader} stands in for {stand-in}", "it does not step in"),
        ("induction", "{sham} stands in for {reader}", "nobody stands in for it"),
        ("induction", "1.0 stands in for {sham}", "costs only"),
        ("decoy", "{decoy} needs {writer} through its keys", "the keys do hear it, but"),
        ("decoy", "{decoy} matters", "who hears it?"),
        ("decoy", "0.{junk} matters", "little more beside another cut"),
        ("decoy", "{reader} needs {sham} through its keys", "{reader} matters, but the other does not"),
        ("fixed_distance", "{decoy} needs {sham} through its values", "neither of them matters"),
        ("two_tokens", "{reader} needs {two back} through its values", "right heads, wrong door"),
        ("fixed_distance", "{reader} looks right after the same token", "it goes by another rule"),
        ("induction", "{reader} looks 7 back", "it goes by another rule"),
        ("induction", "{reader} looks right after the same two tokens", "it goes by another rule"),
        ("two_tokens", "{reader} looks right after the same token", "it goes by another rule"),
        ("skip_trigrams", "{reader} looks right after the same token", "it goes by another rule"),
        (
            "ordinary",
            "{writer} looks 1 back",
            "in the second block, 5 % of its attention; and where no token comes twice",
        ),
        ("ordinary", "{writer} looks 7 back", "where no token comes twice"),
        ("ordinary", "{writer} looks at the same token", "where the same tokens come again in another order"),
        ("ordinary", "{writer} looks at certain tokens", "after all before it was shuffled"),
        ("ordinary", "{writer} does not matter", "nats higher"),
        ("ordinary", "{reader} looks 7 back", "it goes by another rule"),
        ("ordinary", "{reader} looks at certain tokens", "it goes by another rule"),
        ("ordinary", "{reader} looks right after the same two tokens", "it goes by another rule"),
        ("ordinary", "{reader} does not matter", "nats higher"),
        ("ordinary", "{reader} needs {writer} through its queries", "right heads, wrong door"),
        ("ordinary", "{reader} needs {writer} through its values", "right heads, wrong door"),
        ("ordinary", "{reader} needs 0.{junk} through its keys", "{reader} matters, but the other does not"),
        ("ordinary", "0.{junk} stands in for {writer}", "nobody stands in for it"),
        ("ordinary", "0.{junk} matters", "little more beside another cut"),
    ],
)
def test_the_sentence_points_at_the_evidence(name, statement, sentence):
    (verdict,) = verdicts(name, statement)
    assert verdict.points == -1 and sentence.format_map(parts(name)) in verdict.evidence, verdict


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("0.{junk} does not matter", "nobody would have suspected it"),
        ("{decoy} looks right after the same token", "does anything depend on it?"),
        ("when {decoy} is cut, {reader} matters", "without your condition"),
        ("when {decoy} is cut, {reader} looks right after the same token", "without your condition"),
        ("when {decoy} is cut, {reader} needs {writer} through its keys", "without your condition"),
    ],
)
def test_what_is_true_and_empty_earns_nothing(statement, sentence):
    (verdict,) = verdicts("decoy", statement)
    assert verdict.points == 0 and sentence in verdict.evidence, verdict


def test_the_same_statement_counts_once():
    again = verdicts("induction", "{reader} matters", "{reader} matters", "{reader}  Matters.")
    assert [verdict.points for verdict in again] == [1, 0, 0]


@pytest.mark.slow
@mechanisms
def test_to_guess_everything_costs_more_than_it_earns(name):
    everything = [
        f"1.{reader} needs 0.{writer} through its {door}"
        for reader, writer in itertools.product(range(4), repeat=2)
        for door in ("keys", "queries")
    ]
    assert sum(verdict.points for verdict in tried(sealed(NUMBERS[name]), everything[::3])) < 0


@mechanisms
def test_an_account_that_leaves_something_out_is_not_enough(name):
    (only,) = verdicts(name, TRUE[name][0])
    alone = name in ("fixed_distance", "skip_trigrams", "stand_in")  # there one head does it all
    assert (explained(sealed(NUMBERS[name]), [only]) > lesson_11.ENOUGH) == alone


@pytest.mark.parametrize(
    "claim",
    [
        ["{reader} looks 7 back"],
        ["{reader} looks 7 back", "{writer} looks 1 back"],
        ["{reader} looks 7 back", "{stand-in} stands in for {reader}"],
    ],
)
def test_an_account_of_less_than_the_whole_stand_in_is_told(capsys, claim):
    claim, number = filled("stand_in", claim), NUMBERS["stand_in"]
    check.case(number, lambda: claim)
    verdict, *lines = capsys.readouterr().out.splitlines()
    assert verdict.endswith("cut, the whole model saves 100 % and what you named 0 %. Who makes up for it?")
    assert all(line.startswith("  +1  ") for line in lines[:-1])


@pytest.mark.slow
def test_untrained_models_acquit_everybody():
    box = Box(models.load("cases/1", step=0))
    claims = [
        f"{layer}.{head} {what}" for layer, head in box.heads for what in ("matters", "looks 7 back", "does not matter")
    ]
    claims += ["1.2 needs 0.1 through its keys", "1.0 needs 0.3 through its values", "1.1 stands in for 0.2"]
    found = tried(box, claims)
    assert all(verdict.points < 1 for verdict in found) and explained(box, found) == 0
    assert all(verdict.points == 0 for claim, verdict in zip(claims, found, strict=True) if "does not" in claim)


def test_boxes_come_with_the_course_and_are_what_the_recipe_makes():
    assert [name for name in models.bundled() if name.startswith("cases/")] == [f"cases/{n}" for n in range(9)]
    for name, number in list(NUMBERS.items())[:8]:
        stored, made = models.load(f"cases/{number}"), cases.compiled(name, cases.SHUFFLE + number)[0]
        assert torch.allclose(stored.W_E, made.W_E, atol=1e-3)
        for QK in (lambda m: m.W_Q @ m.W_K.mT, lambda m: m.W_V @ m.W_O):
            assert (QK(stored) - QK(made)).norm() < 0.3 * QK(made).norm()  # the noise may find another sign


def test_no_weight_is_zero_and_no_name_tells():
    for number in range(9):
        model = models.load(f"cases/{number}")
        assert all((weight == 0).float().mean() < 0.01 for weight in (model.W_Q, model.W_O, model.W_E, model.W_U))
        assert models.card(f"cases/{number}").keys() == {"model", "made by"}


def test_the_texts_are_of_the_language():
    texts, habits = cases.texts(), cases.habits()
    assert len(texts) > 30 and texts.shape[1] == 1 + 2 * cases.PERIOD and (texts[:, 0] == 0).all()
    assert torch.equal(texts[:, 1 : 1 + cases.PERIOD], texts[:, 1 + cases.PERIOD :])
    follows = (habits[texts[:, 1:-1]] == texts[:, 2:, None]).any(-1)
    assert follows[:, : cases.PERIOD - 1].all() and follows[:, cases.PERIOD :].all()
    assert all(len({*text}) == cases.PERIOD + 1 for text in texts.tolist())


def test_unrelated_texts_have_their_period():
    texts = cases.unrelated(11, 5, seed=2)
    assert texts.shape == (5, 23) and torch.equal(texts[:, 1:12], texts[:, 12:])
    with pytest.raises(ValueError, match="at most 11"):
        cases.unrelated(12)


def test_the_claim_is_tried_statement_by_statement(capsys):
    name = NUMBERS["fixed_distance"]
    check.case(name, *filled("fixed_distance", ["{reader} matters", "{decoy} matters"]))
    first, second, points = capsys.readouterr().out.splitlines()
    assert first.startswith("  +1  ") and second.startswith("  −1  ") and points == "  points: 0"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1, "it is induction"), "✗ “it is induction” can't be tried. Say “1.2 matters”"),
        ((1, "head 1.2 looks 5 back"), "Say “1.2 looks 5 back”"),
        ((1, "1.2 looks at the previous token"), "“… right after the same token”"),
        ((1, "1.2 needs 0.1 through the key"), "through its keys”, or queries, or values"),
        ((1, "1.2 needs 0.1"), "through its keys”, or queries, or values"),
        ((1, "1.7 matters"), "✗ the boxes have the heads 0.0 to 0.3 and 1.0 to 1.3, and 1.7 is none of them."),
        ((1, "0.1 needs 0.2 through its keys"), "only a head of an earlier layer"),
        ((1, "1.1 looks 40 back"), "nobody can look 40 back"),
        ((1, "when 0.1 is cut, 0.2 does not matter"), "takes no condition"),
        ((1, "1.1 stands in for 1.1"), "one head can't stand in for itself"),
        ((1,), "the list is empty"),
        ((12, "1.1 matters"), "✗ There are the boxes 0 to 8, and 12 is none of them."),
    ],
)
def test_what_can_not_be_tried_gets_a_sentence(capsys, arguments, sentence):
    check.case(*arguments)
    said = capsys.readouterr().out
    assert said.startswith("✗ ") and sentence in said and len(said.splitlines()) == 1
