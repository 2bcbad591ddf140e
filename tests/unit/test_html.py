"""Every place that puts a page together by hand, fed with what would be HTML: all of it is inert.

A page made of such a text has the same tags and attributes as one made of harmless letters.
"""

import base64
import json
import re
from html.parser import HTMLParser

import pytest
import torch
from nbformat.v4 import new_code_cell, new_output
from transformer_lens import HookedTransformer, HookedTransformerConfig

from course_lessons import replication
from course_lessons.l00_start import figures
from course_lessons.l04_one_layer import explorer
from course_microscope.facts import VIEWS, Source
from course_tools import grade, site, slides, to_html
from course_utils import _words, load, microscope, plots
from course_utils import text as course_text
from course_utils.course import bets, case_score, claims, progress

# what would end an attribute, a script, a style, a text
FOREIGN = '"><img src=x onerror=alert(1)> '
FOREIGN += "'><b onclick=alert(1)> </script></style></text><img src=x>"
HARMLESS = re.sub(r"\S", "x", FOREIGN)
TINY = {"n_layers": 2, "d_model": 8, "n_ctx": 8, "d_head": 4, "n_heads": 2, "d_vocab": 5}
TINY |= {"attn_only": True, "positional_embedding_type": "shortformer", "normalization_type": None}


class _Structure(HTMLParser):
    """The tags of a page, each with the names of its attributes; those of pictures in it too."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, *(name for name, _ in attrs)))
        for _, value in attrs:
            drawn = re.fullmatch(r"data:image/svg\+xml;base64,(.*)", value or "")
            if drawn:
                self.found += _Structure(base64.b64decode(drawn[1]).decode()).found

    def handle_endtag(self, tag):
        self.found.append(("/", tag))


def _notebook(name, title, cell):
    heading = "### Exercise 1 · `a` &nbsp; ●○○ · 5 minutes"
    cells = [{"id": "title", "source": f"# {title}"}, {"id": cell, "source": heading}]
    cells = [cell | {"cell_type": "markdown", "metadata": {}} for cell in cells]
    return name, json.dumps({"cells": cells})


def overview(words, folder):
    name, text = _notebook(f"03_{words.replace('/', '')}.ipynb", words, words)
    (folder / name).write_text(text, encoding="utf-8")
    bet = {"question": words, "guess": words, "confidence": 3, "truth": "b", "right": False}
    (folder / bets.PREDICTIONS).write_text(json.dumps({"03_x": bet}), encoding="utf-8")
    (folder / case_score.FILE).write_text(json.dumps({words: {words: "false"}}), encoding="utf-8")
    return progress.Overview(folder)._repr_mimebundle_()[0]["text/html"]


def bet_with_options(words, folder):
    card = bets.Card(words, words, [{"guess": words}, {"guess": "b"}], words, (), None)
    pages = [card.drawn()["text/html"], *card.asked["choices"], card.asked["question"]]
    card.lock("0", "2")
    pages.append(card.state["said"])
    card.tell(card.bet | {"truth": words, "because": words, "right": True})
    return "".join([*pages, card.state["said"], card.drawn()["text/html"]])


def bet_with_a_number(words, folder):
    card = bets.Card("name", "How many?", [], words, (), None)
    card.lock("3", "2")
    card.tell(card.bet | {"truth": 4.0, "right": True})
    return card.drawn()["text/html"] + card.asked["about"]


def claim(words, folder):
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "display", lambda data, raw: shown.append(data["text/html"]))
        rows = [claims.Row(sign, words, words, words, words) for sign in "▪≡✗"]
        patch.setattr(claims, "_rows", rows)
        claims._show_rows(None)
    return shown[0]


def sources(words, folder):
    with pytest.MonkeyPatch.context() as patch:
        table = {words: {"value": words, "source": words}}
        patch.setattr(claims, "table", lambda lesson: table)
        return _rendered(claims.sources_and_ours("03_zero_layers").data)


def siblings(words, folder):
    row = {"ours": words, "siblings": {words: words}, "agree": [1]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replication, "table", lambda lesson: {words: {"value": words}})
        return _rendered(replication.sibling_table("03_zero_layers", {words: row}))


def table(words, folder):
    return _rendered(_words.table([words, "b"], [[f"{words}\n{words} | c", words]]))


def class_page(words, folder):
    said = {"rotate": ("✗", f"{words} | a\n# b\n{words}")}
    return _rendered("\n".join(grade.page({words: said, f"a\n\n{words}": said})))


def _rendered(markdown):
    return "".join(map(str, to_html.markdown(markdown)))


def figure(words, folder):
    plots.plt.plot([1, 2])
    page = plots.picture(words, sharp=False)["text/html"]
    return re.sub('base64,[^"]*', "", page)


def attention(words, folder):
    drawn = plots.attention_heads(torch.eye(2)[None], [words, words]).data
    return re.sub("circuits-vis-[\\w-]*", "", drawn)


def microscope_still(words, folder):
    model = HookedTransformer(HookedTransformerConfig(**TINY))
    pages = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "called", lambda source, token: words)
        for view in VIEWS:
            for cut in ([], [(0, 1)]):
                made = microscope.figure(model, [1, 2, 3], view, heads=[(1, 1)], cut=cut)
                pages += made._repr_mimebundle_()["text/html"], made.svg
    return "".join(pages)


def course_map(words, folder):
    with pytest.MonkeyPatch.context() as patch:
        titles = dict.fromkeys(figures._titles(), words)
        patch.setattr(figures, "_titles", lambda: titles)
        return figures.course_map().data


def explored(words, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course_text, "visible", lambda word: words)
        one = load("one-layer")
        return explorer.Explorer(one, course_text.held_out_tokens()[:1]).drawn(300, 6)[0]


def deck(words, folder):
    asked = {"text/plain": f"Predict: {words}\n{words} · b"}
    told = {"text/plain": f"▪ {words}: {words}"}
    code = f'predict("01_a", {words!r})\nclaim({words!r}, 1, predicted="01_a")'
    outputs = [new_output("display_data", data=data) for data in (asked, told)]
    row = slides.Row(10, [words], "Talk.")
    made = slides._section(words, [new_code_cell(code, outputs=outputs)], row, {})
    return slides._page(words, made) + to_html.code(f"x = 1  # {words}")


def site_answers(words, folder):
    told = new_output("display_data", data={"text/plain": f"▪ {words}: {words}"})
    code = f'claim({words!r}, 1, predicted="01_a")'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "expectations", lambda: {words: {"because": words}})
        [answer] = site._answers([new_code_cell(code, outputs=[told])]).values()
    return f"<p>{answer}</p>"


def document(words, folder):
    return to_html.document(words, "", "", "")


PLACES = (
    overview,
    bet_with_options,
    bet_with_a_number,
    claim,
    sources,
    siblings,
    table,
    class_page,
    figure,
    attention,
    microscope_still,
    course_map,
    explored,
    deck,
    site_answers,
    document,
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_what_comes_from_outside_is_no_html(place, tmp_path, monkeypatch):
    monkeypatch.delenv(claims.MODE, raising=False)
    structures = []
    for name, words in {"foreign": FOREIGN, "harmless": HARMLESS}.items():
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)  # bets are kept there
        structures.append(_Structure(place(words, folder)).found)
    assert structures[0] == structures[1]
    assert structures[0]
