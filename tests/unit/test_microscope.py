"""The microscope: every number that it draws is the package's, and a cut does what the hooks of TransformerLens do."""

import base64
import re

import pytest
import torch
from bs4 import BeautifulSoup

from course_utils import composition, heads, load, models, paths, text
from course_utils.course import microscope
from course_utils.course.microscope import answers, drawing, shapes
from course_utils.course.microscope.scene import VIEWS, in_words
from course_utils.course.microscope.widget import Microscope

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


def scene_of(name, view="attention", heads=None, cut=(), ask=None, weighted=False):
    given = LIST if name == "max-of-list" else TEXT
    return microscope.figure(model_of(name), given, view, heads=heads, cut=cut, ask=ask, weighted=weighted).scene


def drawn(scene):
    return BeautifulSoup(drawing.svg(scene), "html.parser")


def value(shown):
    return float(shown.replace("−", "-"))


def words(part):
    return [found.text for found in part.find_all("text")]


def is_close(shown, expected, unit=0.01):
    """Whether a printed number is `expected`, rounded to `unit`."""
    return abs(value(shown) - float(expected)) <= 0.501 * unit + 1e-4 * abs(float(expected))


def test_the_words_count_layers_and_heads():
    counted = {"max-of-list": "1 layer, 1 head, on", "two-layer": "2 layers, 16 heads, on"}
    for name, part in counted.items():
        assert part in in_words(scene_of(name))


@every
def test_the_loss_is_that_of_the_model_or_of_the_task(name):
    model, tokens = model_of(name), tokens_of(name)
    loss = answers.losses(model, paths.run(model, tokens))
    if name != "max-of-list":
        assert loss[-1].isnan()
        torch.testing.assert_close(loss[:-1], model(tokens[None], return_type="loss", loss_per_token=True)[0], **EXACT)
        return
    assert answers.answers(model, tokens).tolist() == [-1, 60, 60, 61, 61, 61] and loss[0].isnan()
    expected = -model(tokens[None])[0].log_softmax(-1)[range(1, 6), [60, 60, 61, 61, 61]]
    torch.testing.assert_close(loss[1:], expected)


def test_a_model_of_64_tokens_is_not_taken_for_max_of_list():
    """As lesson 08's models are: what is right in a document is the next token, not the largest number so far."""
    config = {"n_layers": 2, "d_model": 8, "n_heads": 2, "d_head": 4, "n_ctx": 9, "d_vocab": 64, "seed": 0}
    model = models.initial(config | {"attn_only": True, "normalization_type": None}).requires_grad_(False)
    assert answers.answers(model, torch.tensor([0, 59, 3, 7])).tolist() == [59, 3, 7, -1]
    assert answers.answers(load("max-of-list/seed-1"), torch.tensor([0, 59, 3])).tolist() == [-1, 59, 59]


def test_a_model_with_mlps_is_refused():
    with pytest.raises(ValueError, match="attention-only"):
        microscope.figure(load("addition"), [5, 6])


# the numbers in the drawing


@with_heads
@pytest.mark.parametrize("weighted", [False, True])
def test_the_curves_are_the_attention(name, weighted):
    """Each curve's number, its thickness, and that no attention worth seeing is left out."""
    model, tokens = model_of(name), tokens_of(name)
    table = (heads.value_weighted if weighted else heads.patterns)(model, tokens[None])[:, :, 0]
    scene = scene_of(name, heads=[(layer, 0) for layer in range(model.cfg.n_layers)], weighted=weighted)
    page, layout = drawn(scene), drawing.Layout(scene)
    most = min(6, 0.45 * layout.pitch)
    lanes = page.select(".arcs")
    assert len(lanes) == model.cfg.n_layers
    for lane, layer in zip(lanes, reversed(range(model.cfg.n_layers)), strict=True):
        values = table[layer, 0]
        largest = values.max() if weighted else 1
        seen = 0
        for dest in range(len(tokens)):
            groups = lane.select(f".d{dest}")  # none where nothing that is given is worth a curve
            for shown in [found for group in groups for found in words(group)]:
                assert any(is_close(shown, value) for value in values[dest, : dest + 1])
            for path in [path for group in groups for path in group.find_all("path")]:
                for start, end in re.findall(r"M([\d.]+) [\d.]+(?:A[\d. ]+ 0 0 1 ([\d.]+)|c)", path["d"]):
                    src = round((float(start) - drawing.LEFT) / layout.pitch - 0.5)
                    assert round((float(end or start) - drawing.LEFT) / layout.pitch - 0.5) == dest
                    thick = (most * values[dest, src] / largest).item()
                    assert abs(float(path["stroke-width"]) - max(0.5, thick)) <= 0.3
                    seen += 1
        expected = (values / largest >= drawing.LEAST).sum().item()
        assert seen == expected


@every
def test_the_bars_are_as_high_as_the_probability_and_a_hollow_one_shows_its_inside(name):
    scene = scene_of(name)
    best = scene.now.logits.softmax(-1).max(-1).values
    seen = 0
    for column in drawn(scene).select(".col"):
        for bar in column.select("rect.wrong, rect.right, rect.bar"):
            height = float(bar["height"])
            full = 24 * best[int(column["data-key"])].item()
            assert height == pytest.approx(max(full, 3) if "wrong" in bar["class"] else full, abs=0.1)
            seen += 1
    assert seen == len(scene.names)


@with_heads
def test_columns_that_are_summed_say_so(name):
    pattern = drawn(scene_of(name, heads=[(0, 0)], ask=len(tokens_of(name)) - 1)).select('[data-do="step"]')[2]
    first = len(tokens_of(name)) - 4
    assert words(pattern)[1] == ("0" if first == 1 else f"Σ 0–{first - 1}")


@every
def test_the_predictions_are_the_models(name):
    model, tokens = model_of(name), tokens_of(name)
    position = len(tokens) - 2
    p = model(tokens[None])[0, position].softmax(-1)
    page = drawn(scene_of(name, ask=position))
    rows = page.select('[data-do="ask"]')
    assert len(rows) >= 3
    for row in rows:
        assert is_close(words(row)[-1], p[int(row["data-key"])])
    assert [int(row["data-key"]) for row in rows[:3]] == p.topk(3).indices.tolist()
    shown = " ".join(words(page))
    loss = answers.losses(model, paths.run(model, tokens))
    assert is_close(re.search(r"[^n] loss ([\d.]+) nats", shown)[1], loss[position])
    assert is_close(re.search(r"mean loss ([\d.]+) nats", shown)[1], loss.nanmean())
    for column in page.select(".col"):
        at = int(column["data-key"])
        best = model(tokens[None])[0, at].softmax(-1).max()
        assert is_close(column["aria-label"].split()[-1], best)


@every
def test_the_bars_are_the_terms_and_name_their_sum(name):
    scene = scene_of(name, "paths")
    page = drawn(scene)
    terms = paths.terms(scene.model, scene.now, scene.position, scene.token)
    shown = words(page)
    for term, expected in terms.items():
        assert is_close(
            shown[shown.index(term, shown.index(f"The logit of {scene.called(scene.token)}")) + 1], expected
        )
    total = next(found for found in shown if "the sum of all bars" in found)
    assert is_close(total.split(" = ")[0], scene.now.logits[scene.position, scene.token])
    assert sum(terms.values()) == pytest.approx(scene.now.logits[scene.position, scene.token].item(), abs=1e-3)
    bars = [float(bar["width"]) for bar in page.select("rect.bar") if float(bar["height"]) == 10][-len(terms) :]
    order = [abs(value) for value in terms.values()]
    longest = max(order)
    for bar, expected in zip(bars, order, strict=True):
        assert abs(bar - max(0.5, max(bars) * expected / longest)) < 0.2


def test_the_pairs_in_the_drawing_are_the_pairs():
    scene = scene_of("two-layer", "paths")
    pairs = paths.pairs(scene.model, scene.now, scene.position, scene.token)
    shown = words(drawn(scene))
    for head in range(8):
        at = len(shown) - 1 - shown[::-1].index(f"1.{head}")
        assert all(is_close(a, b) for a, b in zip(shown[at + 2 : at + 11], pairs[head], strict=True))


@with_heads
def test_the_four_steps_hold_the_numbers_of_the_head(name):
    scene = scene_of(name, heads=[(0, 0)], ask=4)
    steps = drawn(scene).select('[data-do="step"]')
    window, run = range(1, 5), scene.now
    tables = [run.scores[0, 0], run.scores[0, 0], run.pattern[0, 0], run.value_weighted[0, 0]]
    for number, (step, table) in enumerate(zip(steps, tables, strict=True)):
        expected = []
        for src in [None] * (number > 1) + list(window):
            expected.append(src)
            for dest in window:
                if src is None:
                    expected.append(table[dest, :1].sum())
                elif src <= dest or number == 0:
                    expected.append(table[dest, src])
                elif number == 1:
                    expected.append(None)  # behind the mask
        shown = words(step)[1:]
        assert len(shown) == len(expected)
        for a, b in zip(shown, expected, strict=True):
            if isinstance(b, torch.Tensor):
                assert is_close(a, b, 0.01 if 0 <= b < 9.995 else 0.1 if -9.95 < b < 99.95 else 1)
            else:
                assert a in ("−∞", "0") if b is None else a == str(b)
    rows = steps[2].find_all("text")
    assert len(rows) > 10


@every
def test_the_stream_is_read_off_with_the_unembedding(name):
    model, tokens = model_of(name), tokens_of(name)
    scene = scene_of(name, "stream")
    shown = words(drawn(scene))
    _, cache = model.run_with_cache(tokens)
    for level in range(model.cfg.n_layers + 1):
        name_of = "embedding" if not level else f"after layer {level - 1}"
        x = cache["resid_post", level - 1][0, -1] if level else scene.now.stream[0, -1]
        at = shown.index(name_of)
        assert is_close(shown[at + 1], x.norm())
        normed = model.ln_final(x[None, None]) if name == "one-layer-ln" else x[None, None]
        p = model.unembed(normed)[0, 0].softmax(-1)
        assert [shown[at + 2 + 2 * i] for i in range(3)] == [
            shapes.short(scene.called(t)) for t in p.topk(3).indices.tolist()
        ]
        assert all(is_close(shown[at + 3 + 2 * i], p.topk(3).values[i]) for i in range(3))
    if model.cfg.n_layers:
        torch.testing.assert_close(scene.now.stream[0], cache["resid_pre", 0][0])


def test_the_doors_show_the_composition_scores():
    page = drawn(scene_of("two-layer", "doors", heads=[(1, 6)]))
    cells = {cell["data-key"]: value(words(cell)[0]) for cell in page.select(".door")}
    assert len(cells) == 24
    for path in "qkv":
        scores = composition.scores(model_of("two-layer"), path.upper())[0, :, 1, 6]
        for head in range(8):
            assert is_close(str(cells[f"0.{head}{path}1.6"]), scores[head])


def test_dots_are_as_large_as_what_heads_write():
    scene = scene_of("two-layer", "stream")
    sizes = scene.now.written.norm(dim=-1)
    sizes = (sizes / sizes.max()).sqrt()
    layout = drawing.Layout(scene)
    seen = 0
    for path in drawn(scene).select(".taps"):
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", path["d"]):
            position = round((float(x) - drawing.LEFT) / layout.pitch - 0.5)
            (head,) = [head for head, (_, rail) in layout.lanes.items() if abs(rail - float(y)) < 0.1]
            assert abs(float(path["stroke-width"]) - max(0.5, 9 * sizes[head][position].item())) <= 0.3
            seen += 1
    assert seen == 16 * 21


def test_a_cut_is_drawn_beside_what_was():
    cut = [((0, 5), "k", (1, 6)), (0, 3), 4]
    scene = scene_of("two-layer", heads=[(1, 6)], cut=cut)
    page = drawn(scene)
    row = page.select_one('[data-do="ask"]')
    now, before = re.fullmatch(r"([\d.]+) \(([\d.]+)\)", words(row)[-1]).groups()
    token, tokens = int(row["data-key"]), tokens_of("two-layer")
    assert is_close(before, model_of("two-layer")(tokens[None])[0, -1].softmax(-1)[token])
    assert is_close(now, paths.run(model_of("two-layer"), tokens, *cut).logits[-1].softmax(-1)[token])
    assert abs(float(now) - float(before)) > 0.05
    (was,) = page.select(".arcs.was .sel")
    before = heads.patterns(model_of("two-layer"), tokens[None])[1, 6, 0, -1]
    assert any(is_close(found, before.max()) for found in words(was))
    shown = " ".join(words(page))
    assert "cut: 0.5 in the keys of 1.6, head 0.3, position 4" in re.sub(" +", " ", shown)


# pressing


def test_pressing_runs_the_model_again():
    scene = scene_of("two-layer", heads=[(0, 5), (1, 6)])
    live = Microscope(scene)
    whole = live.svg
    live.press("cut", "0.5k1.6")
    expected = paths.run(scene.model, scene.base.tokens, ((0, 5), "k", (1, 6)))
    assert torch.equal(live.scene.now.logits, expected.logits) and live.svg != whole
    assert live.state["cuts"] == ["0.5 in the keys of 1.6"]
    live.press("cut", "3")
    live.press("cut", "0.2")
    assert live.scene.now.cuts == (((0, 5), "k", (1, 6)), 3, (0, 2))
    live.press("cut", "0.5k1.6")  # opens it again
    assert live.scene.now.cuts == (3, (0, 2))
    live.press("view", "doors")
    live.press("doors", "q")
    assert len(live.scene.now.cuts) == 10
    live.press("doors", "q")
    assert live.scene.now.cuts == (3, (0, 2))
    live.press("reset")
    live.press("view", "attention")
    assert live.svg == whole and live.scene.now is live.scene.base


@pytest.mark.parametrize("view", ["attention", "stream", "paths", "doors"])
def test_every_head_may_be_cut(view):
    live = Microscope(scene_of("two-layer"))
    live.press("view", view)
    for layer in range(2):
        for head in range(8):
            live.press("cut", f"{layer}.{head}")
    model = live.scene.model
    direct = model.W_E[live.scene.base.tokens] @ model.W_U
    torch.testing.assert_close(live.scene.now.logits, direct, atol=1e-3, rtol=1e-4)
    assert "nan" not in live.svg.lower()


def test_pressing_moves_what_is_looked_at():
    live = Microscope(scene_of("two-layer", heads=[(0, 5)]))
    live.press("select", "7")
    assert (live.scene.position, live.scene.token) == (7, live.scene.now.logits[7].argmax())
    live.press("ask", "12")
    assert (live.scene.view, live.scene.token) == ("paths", 12)
    for head in ("1.6", "1.1", "1.2", "1.3", "0.5"):
        live.press("open", head)
    assert live.scene.heads == [(1, 1), (1, 2), (1, 3), (0, 5)]  # at most four, the last ones
    live.press("open", "1.2")
    assert live.scene.heads == [(1, 1), (1, 3), (0, 5)]
    live.press("weighted")
    live.press("step", "2")
    live.press("view", "attention")
    assert len(BeautifulSoup(live.svg, "html.parser").select(".later")) == 2 and live.state["weighted"]


@pytest.mark.slow
def test_everything_in_the_drawing_that_can_be_pressed_can_be():
    for name in ALL:
        for view in VIEWS:
            scene = scene_of(name, view)
            for part in drawn(scene).select("[data-do]"):
                live = Microscope(scene)
                live.press(part["data-do"], part["data-key"])
                assert part["aria-label"] and live.svg.startswith("<svg")
            if name != "two-layer":
                break  # the views of one model are enough: each part costs a run


def test_the_live_view_is_stored_without_text():
    (kind,) = Microscope(scene_of("zero-layer")).view()
    assert kind == "application/vnd.jupyter.widget-view+json"


# what is stored


@every
@pytest.mark.parametrize("view", list(VIEWS))
def test_a_figure_has_the_numbers_of_the_live_drawing(name, view):
    scene = scene_of(name, view)
    still = microscope.Figure(scene)
    visible = [found for found in words(drawn(scene)) if found]
    assert words(BeautifulSoup(still.svg, "html.parser")) == visible
    assert (
        "data-do" not in still.svg
        and "<script" not in still.svg
        and "http" not in still.svg.replace("http://www.w3.org/2000/svg", "")
    )


def test_a_figure_is_small_and_the_same_every_time():
    first, second = (microscope.figure(model_of("two-layer"), TEXT, heads=[(0, 5), (1, 6)]) for _ in range(2))
    assert first._repr_mimebundle_() == second._repr_mimebundle_()
    assert len(first.svg.encode()) < 60_000 and len(first._repr_mimebundle_()["text/html"]) < 150_000
    long = microscope.figure(model_of("two-layer"), text.repeated_tokens(21, 1, 3)[0], heads=[(0, 5), (1, 6)])
    assert len(long.svg.encode()) < 100_000


def test_the_stored_html_is_a_picture_with_words_and_folded_answers():
    still = microscope.figure(model_of("two-layer"), TEXT, heads=[(0, 5), (1, 6)])
    page = BeautifulSoup(still._repr_mimebundle_()["text/html"], "html.parser")
    pictures = page.find_all("img")
    assert pictures[0]["alt"] == still.alt == still._repr_mimebundle_()["text/plain"]
    assert base64.b64decode(pictures[0]["src"].split(",")[1]).decode() == still.svg
    assert [found.text for found in page.find_all("summary")] == list(still.answers)
    assert list(still.answers)[1:] == ["What if head 0.5 is cut?", "What if head 1.6 is cut?"]
    for drawn_, _ in still.answers.values():  # what only a live page styles would be black here
        assert 'class="ring"' not in drawn_ and "data-do" not in drawn_
    drawing_, said = still.answers["What if head 0.5 is cut?"]
    without = paths.run(model_of("two-layer"), tokens_of("two-layer"), (0, 5))
    assert is_close(re.search(r"with probability ([\d.]+)\.", said)[1], without.logits[-1].softmax(-1).max())
    assert is_close(
        re.search(r"([\d.]+) = the sum", drawing_)[1], without.logits[-1, microscope._token(model_of("two-layer"), "(")]
    )


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


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] if len(colour) == 7 else [1.0] * 3
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one, other):
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _mixed(one, other, share):
    one, other = (c if len(c) == 7 else "#ffffff" for c in (one, other))
    parts = [round(int(one[i : i + 2], 16) * share + int(other[i : i + 2], 16) * (1 - share)) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def test_text_stands_out_from_its_ground_in_light_and_dark():
    themes = re.findall(r"\{(--bg:[^}]*?)[;}]background|\{(--bg:[^}]*)\}", shapes.css())
    themes = [dict(entry[2:].split(":") for entry in (a or b).split(";") if entry.startswith("--")) for a, b in themes]
    assert len(themes) == 4
    for theme in themes:
        for ground in (theme["bg"], theme["band"], theme["hl"]):
            assert _contrast(theme["fg"], ground) > 7 and _contrast(theme["soft"], ground) > 4.5
        for ink in ("one", "two", "was"):
            assert _contrast(theme[ink], theme["bg"]) > 3  # what is no text
        for ink in ("one", "two", "cell"):
            assert _contrast(theme["fg"], _mixed(theme[ink], theme["bg"], 0.5)) > 4.5  # numbers in shaded cells
