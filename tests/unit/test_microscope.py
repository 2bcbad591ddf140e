"""The microscope: its numbers are the package's, and it cuts as TransformerLens's hooks do."""

import base64
import copy
import gc
import json
import re
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch
from bs4 import BeautifulSoup
from ipywidgets.widgets.widget import _instances

from course_lessons.l04_one_layer.explorer import Live
from course_microscope import answers, scripts, stored, stored_drawing
from course_microscope.facts import VIEWS, Source, cut_of, key_of, number, percent
from course_microscope.live_in_kernel import Microscope
from course_microscope.live_in_page import InPage
from course_utils import composition, heads, load, microscope, models, paths, text
from course_utils.course import widgets
from course_utils.course.bets import Card

TEXT = "def lantern_row(path):\n    return path\n\ndef lantern_row"
LIST = [5, 60, 3, 61, 12, 1]
TEXT_MODELS = ["zero-layer", "one-layer", "one-layer-ln", "two-layer"]
ALL = [*TEXT_MODELS, "max-of-list"]
WITH_HEADS = ALL[1:]
EXACT = {"atol": 2e-4, "rtol": 1e-4}
every = pytest.mark.parametrize("name", ALL)
with_heads = pytest.mark.parametrize("name", WITH_HEADS)
_loaded = {}


def model_of(name):
    if name not in _loaded:
        _loaded[name] = load(name)
    return _loaded[name]


def tokens_of(name):
    return torch.tensor(LIST) if name == "max-of-list" else model_of(name).to_tokens(TEXT)[0]


def figure_of(name, view="attention", **given):
    return microscope.figure(model_of(name), LIST if name == "max-of-list" else TEXT, view, **given)


def facts_of(name, view="attention", **given):
    return figure_of(name, view, **given).facts


def close(found, expected):
    torch.testing.assert_close(torch.as_tensor(found), torch.as_tensor(expected), **EXACT)


def test_the_words_count_layers_and_heads():
    counted = {"max-of-list": "1 layer, 1 head, on", "two-layer": "2 layers, 16 heads, on"}
    for name, part in counted.items():
        assert part in figure_of(name).alt


@every
def test_the_loss_is_that_of_the_model_or_of_the_task(name):
    model, tokens = model_of(name), tokens_of(name)
    loss = answers.losses(model, paths.run(model, tokens))
    if name != "max-of-list":
        assert loss[-1].isnan()
        expected = model(tokens[None], return_type="loss", loss_per_token=True)[0]
        torch.testing.assert_close(loss[:-1], expected, **EXACT)
        return
    assert answers.answers(model, tokens).tolist() == [-1, 60, 60, 61, 61, 61] and loss[0].isnan()
    expected = -model(tokens[None])[0].log_softmax(-1)[range(1, 6), [60, 60, 61, 61, 61]]
    torch.testing.assert_close(loss[1:], expected)


def test_a_model_of_64_tokens_is_not_taken_for_max_of_list():
    """Lesson 08's models have as many: in a document the next token is right, not the largest."""
    config = {"n_layers": 2, "d_model": 8, "n_heads": 2, "d_head": 4, "n_ctx": 9, "d_vocab": 64}
    config |= {"seed": 0, "attn_only": True, "normalization_type": None}
    model = models.initial(config).requires_grad_(False)
    assert answers.answers(model, torch.tensor([0, 59, 3, 7])).tolist() == [59, 3, 7, -1]
    trained = load("max-of-list/seed-1")
    assert answers.answers(trained, torch.tensor([0, 59, 3])).tolist() == [-1, 59, 59]


def test_a_model_with_mlps_is_refused():
    with pytest.raises(ValueError, match="attention-only"):
        microscope.figure(load("addition"), [5, 6])


# the facts are the package's numbers


@with_heads
@pytest.mark.parametrize("weighted", [False, True])
def test_the_curves_are_the_attention(name, weighted):
    model, tokens = model_of(name), tokens_of(name)
    table = (heads.value_weighted if weighted else heads.patterns)(model, tokens[None])[:, :, 0]
    facts = facts_of(name, heads=[(0, 0)], weighted=weighted)
    for dest, row in enumerate(facts["curves"]["0.0"]["now"]):
        close(row, table[0, 0, dest, : dest + 1])
    close(facts["curves"]["0.0"]["most"], table[0, 0].max() if weighted else 1)
    for head, row in facts["glance"].items():
        close(row, heads.patterns(model, tokens[None])[(*cut_of(head), 0, -1)])


@every
def test_the_predictions_are_the_models(name):
    model, tokens = model_of(name), tokens_of(name)
    position = len(tokens) - 2
    p = model(tokens[None])[0].softmax(-1)
    facts = facts_of(name, ask=position)
    assert [row["token"] for row in facts["rows"][:3]] == p[position].topk(3).indices.tolist()
    close([row["p"] for row in facts["rows"]], p[position, [row["token"] for row in facts["rows"]]])
    close([share for _, share, _ in facts["best"]], p.max(-1).values)
    loss = answers.losses(model, paths.run(model, tokens))
    close([facts["came"][1], facts["mean"][0]], torch.stack([loss[position], loss.nanmean()]))


@with_heads
def test_the_sources_go_from_score_to_value(name):
    run, facts = paths.run(model_of(name), tokens_of(name)), facts_of(name, heads=[(0, 0)], ask=4)
    panel = facts["panel"]
    assert [row["at"] for row in panel["rows"]] == run.pattern[0, 0, 4, :5].topk(5).indices.tolist()
    for row in panel["rows"]:
        at = row["at"]
        close(row["score"], run.scores[0, 0, 4, at])
        close(row["share"], run.pattern[0, 0, 4, at])
        close([row["gives"], row["share"] * row["length"]], run.value_weighted[0, 0, 4, [at, at]])
    shares = [row["share"] for row in panel["rows"]]
    assert sum(shares) + panel["rest"][1] == pytest.approx(1, abs=1e-5)
    assert panel["masked"]["at"] == 5 + int(run.scores[0, 0, 4, 5:].argmax())


@every
def test_the_bars_of_a_logit_are_its_terms_and_sum_to_it(name):
    model, run = model_of(name), paths.run(model_of(name), tokens_of(name))
    facts = facts_of(name, "paths")
    terms = paths.terms(model, run, facts["position"], facts["token"])
    assert [term for term, _, _ in facts["panel"]["terms"]] == list(terms)
    close([value for _, value, _ in facts["panel"]["terms"]], list(terms.values()))
    close(sum(terms.values()), run.logits[-1, facts["token"]].item())
    close(facts["panel"]["total"][0], run.logits[-1, facts["token"]].item())
    if name == "two-layer":
        close(facts["panel"]["pairs"], paths.pairs(model, run, facts["position"], facts["token"]))


@every
def test_the_stream_is_read_off_with_the_unembedding(name):
    model, tokens = model_of(name), tokens_of(name)
    run = paths.run(model, tokens)
    facts, (_, cache) = facts_of(name, "stream"), model.run_with_cache(tokens)
    assert len(facts["panel"]) == model.cfg.n_layers + 1
    for level, found in enumerate(facts["panel"]):
        x = cache["resid_post", level - 1][0, -1] if level else run.stream[0, -1]
        normed = model.ln_final(x[None, None]) if name == "one-layer-ln" else x[None, None]
        p = model.unembed(normed)[0, 0].softmax(-1)
        close(found["length"], x.norm())
        close([share for _, share in found["top"]], p.topk(3).values)
    close(list(facts["written"].values()), run.written[:, :, -1].norm(dim=-1).flatten())


def test_the_doors_show_the_composition_scores():
    panel = facts_of("two-layer", "doors", heads=[(1, 6)], cut=[((0, 5), "k", (1, 6))])["panel"]
    assert (panel["reader"], panel["shut"]) == ("1.6", ["0.5k1.6"])
    for path in "qkv":
        scores = composition.scores(model_of("two-layer"), path.upper())
        close(panel["scores"][path], scores[0, :, 1, 6])


def test_a_cut_stands_beside_what_was():
    cut, tokens = [((0, 5), "k", (1, 6)), (0, 3), 4], tokens_of("two-layer")
    figure = figure_of("two-layer", heads=[(1, 6)], cut=cut)
    runs = (paths.run(model_of("two-layer"), tokens, *cuts) for cuts in (cut, []))
    now, before = (run.logits[-1].softmax(-1) for run in runs)
    for row in figure.facts["rows"]:
        close([row["p"], row["before"]], torch.stack([now[row["token"]], before[row["token"]]]))
    curve = figure.facts["curves"]["1.6"]
    close(curve["was"][-1], heads.patterns(model_of("two-layer"), tokens[None])[1, 6, 0, -1])
    assert curve["now"] != curve["was"]
    assert "Cut: 0.5 in the keys of 1.6, head 0.3, position 4; before" in figure.alt
    assert [cut_of(key_of(one)) for one in cut] == cut


@pytest.mark.parametrize("view", VIEWS)
def test_every_head_may_be_cut(view):
    cut = [(layer, head) for layer in range(2) for head in range(8)]
    figure, model = figure_of("two-layer", view, cut=cut), model_of("two-layer")
    direct = (model.W_E[tokens_of("two-layer")[-1]] @ model.W_U).softmax(-1)
    rows = figure.facts["rows"]
    close([row["p"] for row in rows], direct[[row["token"] for row in rows]])
    assert "nan" not in figure.svg.lower() and "NaN" not in json.dumps(figure.facts)


def test_a_press_is_answered_with_the_facts_of_another_run():
    figure = figure_of("two-layer", heads=[(0, 5), (1, 6)])
    live = Microscope(figure.source, figure.facts)
    found = live.answer({**figure.facts, "cuts": ["0.5"], "view": "doors"})
    expected = facts_of("two-layer", "doors", heads=[(0, 5), (1, 6)], cut=[(0, 5)])
    assert found == {**expected, "token": found["token"]}
    assert live.answer({**figure.facts, "token": None, "position": 7})["position"] == 7
    (kind,) = widgets.view(live)
    assert kind == "application/vnd.jupyter.widget-view+json"


# what is let go


def _live(kind):
    if kind is Microscope:
        return Microscope(Source(model_of("one-layer"), tokens_of("one-layer")), {})
    given = {InPage: ("one-layer", TEXT, {}), Card: ("x_y", "?", [{"guess": "a"}], "", (), None)}
    return kind(*given.get(kind, ()))


def test_a_cell_that_runs_again_lets_go_of_what_it_showed(monkeypatch, subtests):
    request = {"metadata": {}, "content": {"code": "show()"}, "header": {"msg_id": 0}}
    notebook = SimpleNamespace(get_parent=lambda: request)
    monkeypatch.setattr(widgets, "get_ipython", lambda: notebook)
    monkeypatch.setattr(widgets, "_shown", {})
    made = []

    def shown(cell, kind, count=2):
        """What a run of this cell shows: widgets, by the names under which ipywidgets has them."""
        request["header"] = {"msg_id": request["header"]["msg_id"] + 1}
        request["metadata"] = {"cellId": cell} if cell else {}
        some = [_live(kind) for _ in range(count)]
        made.extend(map(weakref.ref, some))
        names = {part.model_id for widget in some for part in (widget, widget.layout)}
        for widget in some:
            widgets.view(widget)
        return names

    for kind in (Microscope, InPage, Card, Live):
        with subtests.test(kind.__name__):
            first, other, unnamed = shown("first", kind), shown("other", kind), shown(None, kind)
            assert len(first | other | unnamed) == 12 and first | other | unnamed <= {*_instances}
            again = shown("first", kind)
            assert not first & {*_instances} and again | other | unnamed <= {*_instances}
            # where cells have no names, and where no notebook is
            assert shown(None, kind) <= {*_instances} and not unnamed & {*_instances}
            monkeypatch.setattr(widgets, "get_ipython", lambda: None)
            assert len(shown("first", kind, 3) & {*_instances}) == 2
            monkeypatch.setattr(widgets, "get_ipython", lambda: notebook)
    gc.collect()
    kept = [widget for widget in (reference() for reference in made) if widget is not None]
    assert {widget.model_id for widget in kept} <= {*_instances} and len(kept) < len(made) / 2


def test_the_weights_are_there_once_and_runs_of_old_cuts_are_let_go():
    assert _live(InPage).weights is _live(InPage).weights
    assert "weights" not in scripts.model("one-layer")[0]
    assert scripts.model_script("one-layer") and "weights" not in scripts.model("one-layer")[0]
    source = Source(model_of("one-layer"), tokens_of("one-layer"))
    first = source.run("0")
    for cut in range(1, 20):
        source.run(str(cut))
    assert source.run("19") is source.run("19") and source.run("0") is not first


# what is stored


@every
@pytest.mark.parametrize("view", VIEWS)
def test_a_still_picture_shows_the_numbers_of_the_facts(name, view):
    figure = figure_of(name, view)
    page = BeautifulSoup(figure.svg, "html.parser")
    shown = " ".join(found.text for found in page.find_all("text"))
    assert percent(figure.facts["rows"][0]["p"]) in shown
    panel = figure.facts["panel"]
    if view == "paths":
        expected = [number(value) for _, value, _ in panel["terms"]] + [number(panel["total"][0])]
    elif view == "stream":
        expected = [number(level["length"]) for level in panel]
        expected += [number(size) for size in figure.facts["written"].values()]
    elif not panel:
        expected = ["No head is open here."]
    elif "why" in panel:
        expected = [panel["why"]]
    elif view == "doors":
        expected = [number(score) for row in panel["scores"].values() for score in row]
    else:
        expected = [number(row[key]) for row in panel["rows"] for key in ("score", "gives")]
    assert not [one for one in expected if one not in shown]
    outside = figure.svg.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in outside and "http" not in outside


def test_a_text_with_braces_is_shown_as_it_is():
    """What a picture says is filled in by `str.format`'s rules; a text is never read by them."""
    source = "{x} {0} {name:8} }}{{"
    page = BeautifulSoup(microscope.figure(model_of("two-layer"), source).svg, "html.parser")
    shown = "".join(found.text for found in page.select("text.c.m:not(.s)"))
    assert source.replace(" ", "") in shown.replace("·", "").replace(" ", "")


def test_a_figure_is_small_and_the_same_every_time():
    heads = [(0, 5), (1, 6)]
    first, second = (figure_of("two-layer", heads=heads)._repr_mimebundle_() for _ in range(2))
    assert first == second and len(first["text/html"]) < 100_000
    tokens = text.repeated_tokens(21, 1, 3)[0]
    long = microscope.figure(model_of("two-layer"), tokens, heads=heads)
    assert len(long._repr_mimebundle_()["text/html"]) < 350_000


def test_the_stored_html_is_a_picture_with_words_facts_and_folded_answers():
    figure = figure_of("two-layer", heads=[(0, 5), (1, 6)])
    page = BeautifulSoup(figure._repr_mimebundle_()["text/html"], "html.parser")
    pictures = page.find_all("img")
    assert pictures[0]["alt"] == figure.alt == figure._repr_mimebundle_()["text/plain"]
    picture = base64.b64decode(pictures[0]["src"].split(",")[1]).decode()
    assert picture == figure.svg == stored_drawing.svg(figure.facts)
    assert [found.text for found in page.find_all("summary")] == list(figure.answers)
    assert list(figure.answers) == ["What if head 0.5 is cut?", "What if head 1.6 is cut?"]
    stored = json.loads(base64.b64decode(page.div["data-facts"]))
    assert [found["cuts"] for found in stored] == [[], ["0.5"], ["1.6"]]
    assert stored[0]["model"] == "two-layer"
    without = paths.run(model_of("two-layer"), tokens_of("two-layer"), (0, 5))
    p = without.logits[-1].softmax(-1)
    assert stored[1]["rows"][0]["p"] == pytest.approx(p.max().item(), abs=1e-3)


def test_only_the_bundled_weights_are_taken_for_a_bundled_model():
    assert figure_of("one-layer").facts["model"] == "one-layer"
    assert figure_of("max-of-list").facts["model"] is None
    assert microscope.figure(load("two-layer", step=600), TEXT).facts["model"] is None


CHANGES = {  # each makes another model of a bundled one
    "a head's weights": lambda model: model.blocks[0].attn.W_O.data[5].zero_(),
    "a head's weights, one of them": lambda model: model.blocks[1].attn.W_Q.data[0, 0, 0].add_(0.5),
    "a bias": lambda model: model.unembed.b_U.data[3].add_(1),
    "a mask": lambda model: model.blocks[0].attn.IGNORE.zero_(),
    "a setting": lambda model: setattr(model.cfg, "attn_scale", 1.0),
    "a hook": lambda model: model.blocks[0].attn.hook_z.add_hook(lambda z, hook: 0 * z),
    "a hook of torch's": lambda model: model.blocks[0].register_forward_hook(lambda *_: None),
    "a method": lambda model: setattr(model.blocks[0].attn, "forward", lambda *x, **_: x[0]),
    "no tokenizer": lambda model: setattr(model, "tokenizer", None),
    "kind of number": lambda model: model.double(),
}


def test_a_changed_model_is_not_taken_for_the_bundled_one(subtests):
    for what, change in CHANGES.items():
        with subtests.test(what):
            changed = copy.deepcopy(model_of("two-layer"))
            change(changed)
            assert stored._bundled(changed) is None
    alike = copy.deepcopy(model_of("two-layer"))
    alike.set_use_attn_result(True)  # no answer depends on it
    assert stored._bundled(alike) == "two-layer"


def test_a_bundled_model_is_there_before_torch():
    code = (
        "import sys; from course_utils import microscope; "
        "from course_microscope.live_in_page import InPage; "
        "InPage('two-layer', 'x', {}); print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
    sentence = "The page computes 'one-layer' and 'two-layer', not 'gpt2'"
    with pytest.raises(ValueError, match=sentence):
        scripts.model("gpt2")


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"view": "heads"}, ValueError, "view must be one of"),
        ({"heads": (1, 6)}, TypeError, "a list of pairs"),
        ({"heads": [(1, 8)]}, IndexError, "head must be a whole number from 0 to 7"),
        ({"ask": 21}, ValueError, "positions 0 to 20"),
        ({"ask": (3, "two words")}, ValueError, "Only a single token"),
        ({"ask": (3, 5000)}, ValueError, "from 0 to 4095"),
        ({"text": "x = 1\n" * 40}, ValueError, "room for 64 tokens"),
        ({"text": [0, 5000]}, ValueError, "from 0 to 4095"),
        ({"text": [0.5, 1.5]}, ValueError, "whole numbers"),
        ({"text": []}, ValueError, "whole numbers"),
    ],
)
def test_bad_input_gets_a_sentence(given, error, sentence):
    with pytest.raises(error, match=sentence):
        microscope.figure(model_of("two-layer"), **{"text": TEXT} | given)


def test_a_model_of_numbers_reads_no_text():
    with pytest.raises(ValueError, match=r"as \[5, 60, 3\]"):
        microscope.figure(model_of("max-of-list"), "5 60 3")


# legible


def _linear(part):
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] if len(colour) == 7 else [1.0] * 3
    linear = [_linear(part) for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one, other):
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _mixed(one, other, share):
    one, other = (c if len(c) == 7 else "#ffffff" for c in (one, other))
    parts = [
        round(int(one[i : i + 2], 16) * share + int(other[i : i + 2], 16) * (1 - share))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


def _themes():
    light, dark = (
        dict(re.findall(r"--(\w+):(#\w+);", colours))
        for colours in (stored_drawing.LIGHT, stored_drawing.DARK)
    )
    live = []
    for colours in re.findall(r"(--bg: [^}]*?);\s*(?:container|\})", scripts.style()):
        live.append(dict(re.findall(r"--(\w+): (#\w+)", colours)))
    assert live == [light, dark, light, dark]
    return light, dark


def test_text_stands_out_from_its_ground_in_light_and_dark():
    for theme in _themes():
        for ground in (theme["bg"], theme["card"]):
            assert _contrast(theme["fg"], ground) > 7 and _contrast(theme["soft"], ground) > 4.5
        for ink in ("one", "two"):
            assert _contrast(theme[ink], theme["bg"]) > 3  # what is no text
            for share, ground in ((0.34, "card"), (0.42, "bg")):  # words in shaded boxes and doors
                assert _contrast(theme["fg"], _mixed(theme[ink], theme[ground], share)) > 4.5
    sizes = re.findall(r"font(?:-size)?:[^;]*?(\d+)px", scripts.style())
    assert sizes and min(map(int, sizes)) >= 11
