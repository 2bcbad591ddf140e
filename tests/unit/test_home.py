"""The first page's stored answers, and what it says of its texts."""

import pytest

from course_microscope.facts import Source, cut_of
from course_tools import home
from course_utils import load

# for each text: what is expected, at least this likely, and at most this without the found head
EXPECTED = {
    "a made-up name": ("qui", 0.8, 0.1),
    "open a file": ("rb", 0.3, 1),
    "nonsense, twice": ("·qu", 0.7, 0.1),
    "misled": ("·x", 0.4, 0.2),
    "English": ("·a", 0.02, 1),
}


@pytest.fixture(scope="module")
def model():
    return load("two-layer")


@pytest.fixture(scope="module")
def stored():
    return home.answers()


def test_one_head_of_sixteen_breaks_the_prediction(stored, model):
    left = {}
    for cut, facts in stored.items():
        (per,) = (row["p"] for row in facts["rows"] if row["name"] == "per")
        left[cut] = per
    heads = {cut: p for cut, p in left.items() if cut.count(".") == 1}
    assert len(heads) == 16 and left[""] > 0.99
    assert [cut for cut, p in heads.items() if p < 0.5] == [home.FOUND]
    doors = {path: left[",".join(f"0.5{path}{one}" for one in home.READERS)] for path in "kqv"}
    assert doors["k"] < 0.1 and min(doors["q"], doors["v"]) > 0.95
    # one reader alone is not enough
    source = Source(model, model.to_tokens(home.TEXT)[0])
    for reader in home.READERS:
        logits = source.run(f"0.5k{reader}").logits[-1]
        assert logits.softmax(-1)[model.to_single_token("per")] > 0.5


def test_the_guide_tells_where_the_heads_look(stored):
    first = stored[""]
    at = first["names"].index("per")
    assert first["curves"]["0.5"][at][at - 1] > 0.9
    for head in home.READERS:
        assert max(first["curves"][head][-1]) == first["curves"][head][-1][at]


def test_what_is_stored_is_what_would_be_computed(stored, model):
    source = Source(model, model.to_tokens(home.TEXT)[0])
    for cuts in ("", "0.5", "1.6", "0.5k1.6,0.5k1.1"):
        facts = stored[cuts]
        run = source.run(*filter(None, cuts.split(",")))
        for head in ("0.5", "1.1", "1.6"):
            curve = facts["curves"].get(head, stored[""]["curves"][head])
            expected = run.pattern[cut_of(head)]
            for dest, row in enumerate(curve):
                assert row == pytest.approx(expected[dest, : dest + 1].tolist(), abs=1e-3)
            panel = facts["panels"].get(head, stored[""]["panels"][head])
            for row in panel["rows"]:
                assert row["share"] == pytest.approx(expected[-1, row["at"]].item(), abs=1e-3)


@pytest.mark.parametrize("label, text, _", home.TEXTS)
def test_each_text_does_what_the_page_says(label, text, _, model):
    token, least, most = EXPECTED[label]
    source = Source(model, model.to_tokens(text)[0])
    assert len(source.tokens) <= 64
    whole = source.run().logits[-1].softmax(-1)
    assert source.called(int(whole.argmax())) == token and whole.max() > least
    assert source.run(home.FOUND).logits[-1].softmax(-1)[whole.argmax()] < most
    if label == "open a file":  # both modes, with no head of the second layer
        heads = [f"1.{head}" for head in range(8)]
        top = source.run(*heads).logits[-1].topk(3).indices
        assert {"rb", "w"} <= {source.called(int(one)) for one in top}
    if label == "English":
        assert whole.max() < 0.2


def test_the_card_is_a_picture_of_the_usual_size():
    assert home.card()[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(home.card()[16:20], "big") == 1200
