"""Pictures: drawn without a warning, and without the network."""

import base64
import importlib
import inspect
import io
import itertools
import json
import math
import re
import socket
import warnings
from pathlib import Path
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")  # before pyplot looks for a window system

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from IPython.display import DisplayHandle
from matplotlib.colors import to_rgb
from PIL import Image

import course_lessons
from course_lessons import drawings
from course_lessons.l02_residual_stream import figures as lesson_02
from course_lessons.l03_zero_layers import figures as lesson_03
from course_utils import _style, plots

# among them, what matplotlib takes for bad mathematics
TOKENS = ["<|start|>", " $\\x$", "\n", "é", "a_b"]
PATTERN = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)).tril()


@pytest.fixture(autouse=True)
def strict():
    """Every warning is an error, and no figure is left open."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")


@pytest.fixture
def offline(monkeypatch):
    def connect(*_):
        raise AssertionError("a picture asked the network")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)


def _draw(axes):
    axes.figure.canvas.draw()  # glyphs and layout are only looked up here
    return axes


def _ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize(
    ("value", "spec", "said"),
    [
        (-1.25, ".1f", "−1.2"),
        (-0.04, ".1f", "0.0"),
        (0.004, "+.2f", "0.00"),
        (3, "+.2f", "+3.00"),
        (-2, "g", "−2"),
    ],
)
def test_a_number_in_a_figure_has_a_minus_sign_and_zero_has_none(value, spec, said):
    assert plots.written(value, spec) == said


def test_bars_show_every_value_in_order():
    axes = _draw(
        plots.bars(
            {"bigram": 4.75, "model": 4.8, "nothing": 0.0}, "Loss", "nats", highlight=["model"]
        )
    )
    assert [bar.get_width() for bar in axes.patches] == [4.75, 4.8, 0.0]
    assert _ticks(axes.yaxis) == ["bigram", "model", "nothing"] and axes.yaxis_inverted()
    assert {"4.75", "4.80", "0.00"} <= {text.get_text() for text in axes.texts}
    colours = [
        matplotlib.colors.to_hex(bar.get_facecolor(), keep_alpha=False).upper()
        for bar in axes.patches
    ]
    assert colours == [plots.COLOURS[0], plots.COLOURS[1], plots.COLOURS[0]]
    assert axes.get_xlabel() == "nats" and axes.get_title(loc="left") == "Loss"


def test_what_is_highlighted_stands_out_without_its_hue():
    axes = _draw(plots.bars({"bigram": 4.75, "model": 4.8}, "Loss", "nats", highlight=["model"]))
    assert [bool(bar.get_hatch()) for bar in axes.patches] == [False, True]


@pytest.mark.parametrize("kind", [list, torch.tensor])
def test_grouped_bars_stand_side_by_side_and_differ_without_their_hue(kind):
    groups = {
        "plain": kind([1.0, 2.0, 3.0]),
        "cut": kind([0.5, 1.5, 2.5]),
        "moved": kind([0.0, 0.25, 1.0]),
    }
    axes = _draw(
        plots.grouped_bars(groups, ["query", "key", "value"], "Title", "nats", "door", numbers=True)
    )
    assert [[bar.get_height() for bar in bars] for bars in axes.containers] == [
        list(v) for v in groups.values()
    ]
    middles = np.array(
        [[bar.get_x() + bar.get_width() / 2 for bar in bars] for bars in axes.containers]
    )
    np.testing.assert_allclose(middles.mean(0), range(3), atol=1e-9)
    assert len({bars[0].get_hatch() for bars in axes.containers}) == 3
    assert _ticks(axes.xaxis) == ["query", "key", "value"] and "2.50" in [
        text.get_text() for text in axes.texts
    ]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("nats", "door")


def test_grouped_bars_refuse_a_group_of_another_length():
    with pytest.raises(ValueError, match='"cut" has 1 values for 2 places'):
        plots.grouped_bars({"plain": [1.0, 2.0], "cut": [1.0]}, ["query", "key"], "Title", "nats")


def test_density_counts_every_point():
    x, y = torch.randn(2, 500, generator=torch.Generator().manual_seed(0))
    axes = _draw(lesson_03.density(x, y, "Title", "from counts", "from weights"))
    assert axes.collections[0].get_array().sum() == 500
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("from counts", "from weights")


@pytest.mark.parametrize("kind", [torch.as_tensor, np.asarray])
def test_heatmap_names_rows_and_columns(kind):
    axes = _draw(plots.heatmap(kind(PATTERN[:3]), TOKENS[:3], TOKENS, "Title", "from", "to"))
    np.testing.assert_array_equal(axes.images[0].get_array(), PATTERN[:3])
    assert _ticks(axes.yaxis) == ["<|start|>", "·$\\x$", "↵"] and _ticks(axes.xaxis)[3:] == [
        "é",
        "a_b",
    ]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("from", "to")


def test_a_centred_heatmap_is_white_at_zero_and_says_its_unit():
    axes = _draw(
        plots.heatmap(
            torch.tensor([[-1.0, 3.0]]), ["row"], ["a", "b"], "Title", label="nats", centred=True
        )
    )
    assert axes.images[0].colorbar.ax.get_ylabel() == "nats"
    assert axes.images[0].get_clim() == (-3, 3) and axes.images[0].get_cmap().name == "RdBu_r"


def test_a_heatmap_tells_below_from_above_without_its_hue_and_writes_numbers():
    values, names = torch.tensor([[-1.0, -0.1], [0.6, 1.0]]), ["a", "b"]
    axes = _draw(plots.heatmap(values, names, names, "Title", centred=True))
    assert [(text.get_text(), text.get_position()) for text in axes.texts] == [("−", (0, 0))]
    axes = _draw(
        plots.heatmap(values, names, names, "Title", centred=True, limit=20.0, numbers_from=0.6)
    )
    assert [text.get_text() for text in axes.texts] == ["−1.00", "0.60", "1.00"]
    assert axes.images[0].get_clim() == (-20, 20)


def test_attention_has_destinations_on_the_rows():
    axes = _draw(plots.attention(PATTERN, TOKENS, "Head 0.0"))
    np.testing.assert_array_equal(axes.images[0].get_array(), PATTERN)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("destination", "source")


def test_pictures_can_be_drawn_side_by_side():
    figure, (left, right) = plt.subplots(1, 2)
    x = torch.arange(10.0)
    assert plots.attention(PATTERN, TOKENS, "left", axes=left) is left
    assert lesson_03.density(x, x, "right", "x", "y", axes=right) is right
    _draw(left)
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(("rows", "columns"), [(4, 5), (5, 4), (5, 6), (0, 0)])
def test_heatmap_refuses_names_that_do_not_fit(rows, columns):
    names = [str(number) for number in range(10)]
    with pytest.raises(
        ValueError, match=rf"shape \[5, 5\] can't take {rows} row and {columns} column names"
    ):
        plots.heatmap(PATTERN, names[:rows], names[:columns], "Title")
    assert not plt.get_fignums()  # nothing half drawn


def test_attention_refuses_several_heads():
    with pytest.raises(
        ValueError, match=r"pattern must be .* shape \[dest, src\]; .* shape \[2, 5, 5\]"
    ):
        plots.attention(torch.stack([PATTERN, PATTERN]), TOKENS, "Title")


@pytest.mark.parametrize("kind", [torch.as_tensor, np.asarray])
def test_attention_heads_is_self_contained(offline, kind):
    patterns = torch.stack([PATTERN, PATTERN.T])
    html = plots.attention_heads(kind(patterns), TOKENS)._repr_html_()
    assert len(html) > 1_000_000 and "<script" in html  # the JavaScript itself
    (given,) = re.findall(r"CircuitsVis\.AttentionHeads,\s*(\{.*\})", html)
    assert json.loads(given)["tokens"] == TOKENS
    torch.testing.assert_close(torch.tensor(json.loads(given)["attention"]), patterns)
    assert not re.search(r"unpkg|jsdelivr|cdnjs|\bcdn\.", html)
    assert not re.search(
        r"<script[^>]*\bsrc=|<link[^>]*\bhref=|\b(import|from)\s*\(?\s*[\"']https?:", html
    )


def test_attention_heads_says_in_words_what_is_not_stored():
    drawn = plots.attention_heads(torch.stack([PATTERN, PATTERN.T]), TOKENS, first=1, layer=3)
    assert (
        repr(drawn)
        == "Attention patterns of 2 heads on 5 tokens, for the mouse: run this cell to see them."
    )
    (given,) = re.findall(r"CircuitsVis\.AttentionHeads,\s*(\{.*\})", drawn.data)
    assert json.loads(given)["attentionHeadNames"] == ["3.0", "3.1"]


@pytest.mark.parametrize("first", [-1, 2])
def test_attention_heads_opens_on_a_head_that_there_is(first):
    with pytest.raises(ValueError, match=f"no head {first} among 2"):
        plots.attention_heads(torch.stack([PATTERN, PATTERN.T]), TOKENS, first=first)


@pytest.mark.parametrize("shape", [(2, 5, 4), (2, 4, 5), (2, 4, 4)])
def test_attention_heads_refuses_other_shapes(shape):
    with pytest.raises(
        ValueError, match=re.escape(f"[head, 5, 5] for 5 tokens, not {list(shape)}")
    ):
        plots.attention_heads(torch.zeros(shape), TOKENS)


def test_a_figure_is_shown_with_its_words_and_gone(monkeypatch):
    shown = []
    monkeypatch.setattr(plots, "display", lambda data, raw: shown.append(data))
    plots.bars({"bigram": 4.75}, "Loss", "nats")
    plots.show('One bar: "bigram", 4.75 nats.')
    (data,) = shown
    assert data["text/plain"] == 'One bar: "bigram", 4.75 nats.'
    assert 'alt="One bar: &quot;bigram&quot;, 4.75 nats."' in data["text/html"]
    with pytest.raises(ValueError, match="no figure to show"):
        plots.show("nothing is left to show")
    plots.bars({"bigram": 4.75}, "Loss", "nats")
    with pytest.raises(ValueError, match="in a sentence"):
        plots.show(" ")


def test_a_figure_drawn_while_one_watched_is_replaced():
    class Canvas(DisplayHandle):
        def update(self, data, **_):
            self.data = data

    canvas = Canvas()
    plots.bars({"bigram": 4.75}, "Loss", "nats")
    plots.show("One bar.", canvas)
    assert canvas.data["text/plain"] == "One bar." and not plt.get_fignums()


def test_a_shown_figure_is_twice_as_sharp_as_it_is_wide(monkeypatch):
    shown = []
    monkeypatch.setattr(plots, "display", lambda data, raw: shown.append(data))
    plots.bars({"bigram": 4.75}, "Loss", "nats")
    plots.show("One bar.")
    source, width = re.search(r'base64,([^"]+)" width="(\d+)"', shown[0]["text/html"]).groups()
    picture = Image.open(io.BytesIO(base64.b64decode(source)))
    assert picture.width in (2 * int(width), 2 * int(width) + 1) and 500 < int(width) < 800


def test_a_table_in_training_is_one_picture_drawn_anew(monkeypatch):
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data))
    monkeypatch.setattr(
        lesson_03, "display", lambda data, raw, display_id: shown.append(data) or handle
    )
    counted = torch.randn(6, 6).log_softmax(1)
    live = lesson_03.LiveTable(
        counted, torch.ones(6, 6, dtype=torch.bool), torch.rand(6), {" a": 1, "b": 4}
    )
    for step in range(5):
        live.show(step, counted if step > 2 else torch.randn(6, 6), 1.5)
    # step 4 is none of STEPS
    assert list(live.like_bigrams) == list(live.like_frequencies) == [0, 1, 2, 3]
    assert abs(live.like_bigrams[3] - 1) < 1e-5 and live.like_bigrams[0] < 0.999
    # the words hold at every step
    assert len(shown) == 4 and len({data["text/plain"] for data in shown}) == 1
    assert not plt.get_fignums()


def test_a_written_text_has_a_box_for_each_piece():
    names = [" a", "b\n", "c", *"defghijkl"]
    left, right = lesson_03.writing([" a", "b\n", "c"], torch.rand(12), names)
    texts = [text.get_text() for text in left.texts]
    assert texts == ["·a", "b↵", "c"] and len(left.patches) == 3
    # the last one stands out
    assert left.patches[2].get_edgecolor()[:3] != left.patches[0].get_edgecolor()[:3]
    assert len(right.patches) == 10
    plt.close("all")


# Machado et al. 2009, severity 1: linear RGB as people of the three kinds of colour-blindness see
# it
MACHADO = {
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear(srgb):
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    ratios = rgb @ XYZ.T / np.array([0.95047, 1, 1.08883])
    f = np.where(ratios > 216 / 24389, np.cbrt(ratios), (24389 / 27 * ratios + 16) / 116)
    return np.stack(
        [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1
    )


def ciede2000(one, other):  # Sharma, Wu & Dalal 2005
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = math.hypot(g * a1, b1), math.hypot(g * a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, g * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians((h2 - h1 + 180) % 360 - 180) / 2)
    level, chroma, hue = (l1 + l2) / 2, (c1 + c2) / 2, (h1 + h2) / 2 + 180 * (abs(h1 - h2) > 180)
    terms = (-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.2, 4, -63)
    t = 1 + sum(share * math.cos(math.radians(k * hue + shift)) for share, k, shift in terms)
    sl = 1 + 0.015 * (level - 50) ** 2 / math.sqrt(20 + (level - 50) ** 2)
    sc, sh = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    turn = math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2)))
    rt = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7)) * math.sin(turn)
    parts = (l2 - l1) / sl, (c2 - c1) / sc, dh / sh
    return math.sqrt(sum(part**2 for part in parts) + rt * parts[1] * parts[2])


def on_dark(srgb):  # CSS: brightness(.88)
    return 0.88 * srgb


@pytest.mark.parametrize("page", [lambda srgb: srgb, on_dark], ids=["white", "dark"])
def test_every_colour_stands_out_from_the_page(page):
    colours, ground = np.array([to_rgb(colour) for colour in plots.COLOURS]), np.ones((1, 3))
    light, of_page = (linear(page(srgb)) @ XYZ[1] for srgb in (colours, ground))
    low, high = np.minimum(light, of_page), np.maximum(light, of_page)
    assert ((high + 0.05) / (low + 0.05)).min() >= 3


@pytest.mark.parametrize(
    "eyes", [np.eye(3), *map(np.array, MACHADO.values())], ids=["all", *MACHADO]
)
def test_colours_are_told_apart(eyes):
    seen = lab(
        np.clip(linear(np.array([to_rgb(colour) for colour in plots.COLOURS])) @ eyes.T, 0, 1)
    )
    assert min(ciede2000(one, other) for one, other in itertools.combinations(seen, 2)) >= 20


# What the reader sets matplotlib to is theirs, and our figures are the same with it.

STYLES = {
    "dark": matplotlib.style.library["dark_background"],
    "ggplot": matplotlib.style.library["ggplot"],
    "svg": {"savefig.format": "svg", "savefig.transparent": True, "savefig.dpi": 30},
    "LaTeX, which is not there": {"text.usetex": True, "text.latex.preamble": r"\nothing"},
    "all else": {
        "axes.grid": True,
        "axes.titlelocation": "right",
        "figure.autolayout": True,
        "figure.max_open_warning": 1,
        "font.size": 30,
        "image.cmap": "gray",
        "legend.frameon": True,
        "path.sketch": (1, 100, 2),
        "savefig.facecolor": "none",
        "xtick.labelcolor": "white",
    },
}
ONE, TWO = torch.tensor([1.0, 2.0]), {"one": [1.0, 2.0], "two": [2.0, -1.0]}
DRAWN = {  # a figure of each function, and of a lesson that draws with pyplot itself
    "bars": lambda: plots.bars({"first": 1.0, "second": -2.0}, "Title", "nats", ["first"]),
    "grouped": lambda: plots.grouped_bars(TWO, ["a", "b"], "Title", "nats", "x", numbers=True),
    "curves": lambda: plots.curves(TWO, "Title", "x", "y"),
    "panels": lambda: plots.panels({"left": 1, "right": 2}, (6, 3), "x", "y"),
    "heatmap": lambda: plots.heatmap(PATTERN[:2, :2], ["a", "b"], ["c", "d"], "Title", label="y"),
    "attention": lambda: plots.attention(PATTERN, TOKENS, "Title"),
    "streams": lambda: drawings.streams(["a", "b", "a"], "b"),
    "lesson 02": lesson_02.stream,
}


@pytest.fixture
def unset():
    """Matplotlib, set anew for each test."""
    with plt.rc_context():
        yield plt.rcParams


def _pixels():
    html = plots.picture("A figure.", sharp=False)["text/html"]
    png = base64.b64decode(re.search(r'base64,([^"]+)', html)[1])
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")) / 255


def _same_figure(first, then):
    """A figure's pixels, with one style set before it is drawn, and another before it is shown."""
    plt.rcParams.update(first)
    axes = plots.grouped_bars(TWO, ["a", "b"], "", "nats", numbers=True)
    plt.rcParams.update(then)
    kept = dict(plt.rcParams)
    axes.legend(title="here")  # as cells of lessons do
    axes.set_title("Title")
    axes.axhline(0.5)
    pixels = _pixels()
    assert dict(plt.rcParams) == kept
    return pixels


def test_a_figure_is_the_same_in_every_style_and_changes_none(unset, subtests):
    expected = _same_figure({}, {})
    for name, style in STYLES.items():
        with subtests.test(name), plt.rc_context():
            np.testing.assert_array_equal(_same_figure(style, STYLES["dark"]), expected)


def _colours(figure):
    """Each text that stands in a figure, and its colour."""
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    texts = figure.findobj(matplotlib.text.Text)
    return {text.get_text(): text.get_color() for text in texts if text.get_text().strip()}


def test_every_figure_is_legible_in_a_dark_style(unset, subtests):
    """Titles, labels, ticks, bars' numbers and the legend, on white."""
    unset.update(STYLES["dark"])
    kept = dict(unset)
    for name, draw in DRAWN.items():
        with subtests.test(name):
            draw()
            figure = plt.gcf()
            figure.axes[0].legend(["said"])
            assert figure.get_facecolor() == (1, 1, 1, 1) and dict(unset) == kept
            found = _colours(figure)
            assert len(found) > 2
            for text, colour in found.items():
                lightness = linear(np.array(to_rgb(colour))) @ XYZ[1]
                assert 1.05 / (lightness + 0.05) > 4.5, text
            plt.close()


def test_importing_and_drawing_leave_the_readers_settings(unset):
    plots.bars({"a": 1.0}, "Title", "nats")
    plots.show("One bar.")
    for name in _style.STYLE:
        assert unset[name] == matplotlib.rcParamsOrig[name], name


def test_every_figure_of_a_lesson_is_drawn_in_our_style(subtests):
    """A new one, too: `draws_in_style` stands at the end of its module."""
    styled = _style.styled(print).__code__
    modules = [plots]
    for lesson in course_lessons.import_all():
        if Path(lesson.__file__).with_name("figures.py").is_file():
            figures = importlib.import_module(f"{lesson.__name__}.figures")
            modules += [figures] if hasattr(figures, "plt") else []
    assert len(modules) > 15
    no_figures = {"alt_texts", "attention_heads", "picture", "show", "written"}
    for module in modules:
        for name, found in vars(module).items():
            is_public = getattr(found, "__module__", "") == module.__name__ and name[0] != "_"
            if not is_public or (module is plots and name in no_figures):
                continue
            parts = [found] if inspect.isfunction(found) else [*vars(found).values()]
            with subtests.test(f"{module.__name__}.{name}"):
                assert {part.__code__ for part in parts if inspect.isfunction(part)} == {styled}


def test_a_figure_of_the_readers_own_stays_theirs(unset):
    unset.update(STYLES["dark"])
    theirs = plt.figure()
    plots.bars({"a": 1.0}, "Title", "nats")
    last = plt.figure()
    assert _pixels()[0, 0].tolist() == [1, 1, 1]  # ours, which was not the last
    assert plt.get_fignums() == [theirs.number, last.number] and plt.gcf() is last

    # ours in their axes: light on dark, as all that is theirs
    axes = last.subplots()
    assert plots.bars({"a": 1.0}, "Title", "nats", axes=axes) is axes
    assert {*_colours(last).values()} == {"white"}
    pixels = _pixels()
    assert pixels[0, 0].max() == 0 and pixels.max() == 1
    assert plt.get_fignums() == [theirs.number]
