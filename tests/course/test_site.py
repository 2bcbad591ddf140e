"""The site: built once, opened from disk with the network closed, followed link by link."""

import base64
import functools
import io
import json
import re
import sys
from urllib.parse import unquote

import lab
import pytest
import torch
from bs4 import BeautifulSoup
from lab import wait_until
from PIL import Image

from course_lessons.l12_questions import answer_key
from course_tools import authoring, cards, home, links, pool, site
from course_utils._files import lesson_of, number_of
from course_utils.course import bets, outline
from course_utils.text import visible

OLD = sys.version_info < (3, 11)
pytestmark = [
    pytest.mark.built,
    pytest.mark.skipif(OLD, reason="the site needs a newer Python, and says so"),
]
NAMED = {number_of(path.name): lesson_of(path) for path in authoring.lessons()}
LESSONS = [NAMED[number] for number in outline.rows() if NAMED[number] != links.START]
PAGES = ["index", *LESSONS, *site.TEXTS]
lessons = pytest.mark.parametrize("lesson", LESSONS)
# where the thickest arc ends, from the left of the window: at the place that reads, at the one read
ENDS = """() => {
    const paths = [...document.querySelectorAll(".micro .arcs path")];
    const width = path => Number(path.getAttribute("stroke-width"));
    const d = paths.sort((a, b) => width(b) - width(a))[0].getAttribute("d");
    const left = document.querySelector(".micro .strip").getBoundingClientRect().x;
    const numbers = d.match(/[-\\d.]+/g).map(Number);
    return [numbers.at(-2) + left, numbers[0] + left];
}"""


def test_an_old_python_is_told_to_get_a_newer_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 10))
    with pytest.raises(SystemExit):
        site.main(["--out", str(tmp_path)])
    assert "needs Python 3.11 or newer" in capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    assert site.main(["--out", str(out)]) == 0
    return out


@pytest.fixture
def page(browser, folder):
    """The first page, on a laptop without a network; whatever it could not get or do fails the
    test.
    """
    context = browser.new_context(
        viewport={"width": 1366, "height": 768}, offline=True, color_scheme="light"
    )
    page, faults = context.new_page(), []
    page.on(
        "requestfailed",  # the browser takes the icon when it likes, and drops it when we leave
        lambda request: None if "favicon" in request.url else faults.append(request.url),
    )
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("file:", "data:", "blob:"))
            else faults.append(request.url)
        ),
    )
    page.on(
        "console", lambda message: faults.append(message.text) if message.type == "error" else None
    )
    page.goto(f"file://{folder}/index.html")
    yield page
    context.close()
    assert faults == []


@functools.cache
def _parsed(folder, name):
    return BeautifulSoup((folder / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def test_every_link_leads_to_a_page_and_a_place_on_it(folder):
    parsed = {f"{name}.html": _parsed(folder, name) for name in PAGES}
    reached = set()
    for name, document in parsed.items():
        for link in document.find_all("a", href=re.compile("^(?!http|mailto)")):
            file, _, place = unquote(link["href"]).partition("#")
            file = file or name
            assert (folder / file).is_file(), f"{name} leads to {file}"
            assert not place or file not in parsed or parsed[file].find(id=place), (
                f"{name} leads to {file}#{place}"
            )
            reached.add(file)
    assert set(parsed) <= reached
    assert not [file for file in reached if file.endswith((".ipynb", ".md"))]


@lessons
def test_a_page_shows_the_lesson_and_folds_its_answers(lesson, folder):
    document, cells = (
        _parsed(folder, lesson),
        authoring.read_notebook(authoring.solution_path(lesson)).cells,
    )
    assert document.h1.text.startswith(cells[0].source.splitlines()[0].removeprefix("# "))
    if lesson == cards.LESSON:  # its bets are cards there, and what they printed is not
        cells = [cell for cell in cells if cell.id.startswith("key-")]
    code = [cell for cell in cells if cell.cell_type == "code"]
    hidden = [
        c
        for c in code
        if authoring.MARKERS[0] in c.source or authoring.FOLDED & {*c.metadata.get("tags", [])}
    ]
    folded = document.find_all("details", class_="hide")
    assert len(folded) == len(hidden) > 0 and not [
        answer for answer in folded if answer.has_attr("open")
    ]
    answers = [
        fold
        for fold, cell in zip(folded, hidden, strict=True)
        if authoring.MARKERS[0] in cell.source
    ]
    assert bool(answers) == (lesson in authoring.taught())  # which have exercises
    for answer in answers:
        blank = answer.find_parent("div", class_="cell").find_previous_sibling("div", class_="cell")
        assert "NotImplementedError" in blank.text
        assert "SOLUTION" not in answer.text and "Show the code" in answer.summary.text
    stored = [output for cell in cells for output in cell.get("outputs", [])]
    figures = [
        data["text/html"]
        for data in (output.get("data", {}) for output in stored)
        if "text/html" in data
    ]
    pictures = sum(html.count("<img") for html in figures if "microscope-still" not in html)
    drawings = sum("microscope-still" in html for html in figures)
    shown = [i for i in document.article.find_all("img") if i["src"].startswith("data:")]
    assert len([i for i in shown if not i.find_parent(class_="microscope-still")]) == pictures
    assert pictures or lesson.startswith("12")
    assert len(document.select(".microscope-still > img")) == drawings
    text = document.article.get_text()
    printed = {output.text.strip() for output in stored if "text" in output} - {bets.NONE}
    assert not [words for words in printed if words not in text] and bets.NONE not in text


@lessons
def test_a_table_that_a_cell_printed_is_a_table(lesson, folder):
    printed = [
        output.data["text/markdown"]
        for cell in authoring.read_notebook(authoring.solution_path(lesson)).cells
        for output in cell.get("outputs", [])
        if "|---|" in output.get("data", {}).get("text/markdown", "")
    ]
    document = _parsed(folder, lesson)
    assert len(document.select(".cell_output table")) >= len(printed)
    # the line below a table's heads
    assert "|—|" not in document.text and "|---|" not in document.text


@lessons
def test_formulas_are_drawn_by_the_browser_itself(lesson, folder):
    document = _parsed(folder, lesson)
    said = "\n".join(
        c.source
        for c in authoring.read_notebook(authoring.solution_path(lesson)).cells
        if c.cell_type != "code"
    )
    assert bool(document.find("math")) == ("$" in said) and not document.find("merror")
    strings = document.article.find_all(string=lambda words: "$" in words)
    assert [words for words in strings if not words.find_parent(["pre", "code", "svg"])] == []


def test_a_question_is_a_form_that_can_be_read_without_a_script(folder):
    document = _parsed(folder, cards.LESSON)
    forms = document.select("form.question")
    assert [form["data-name"] for form in forms] == list(answer_key.QUESTIONS)
    for form, (question, options) in zip(forms, answer_key.QUESTIONS.values(), strict=True):
        assert form.legend.get_text() == re.sub(r"[`*]", "", question)
        assert [label.span.get_text() for label in form.select("label")] == options
        assert len({box["name"] for box in form.select("input[type=radio]")}) == 1
    keys = document.select("details.key")
    assert [key["data-name"] for key in keys] == list(answer_key.QUESTIONS)
    for key in keys:
        assert answer_key.keys()[key["data-name"]] in key.get_text() and not key.has_attr("open")
        shown = answer_key.SHOWN[key["data-name"]]  # the lessons that show it
        links_to = [link["href"] for link in key.select("a[href*='.html']")]
        assert links_to == [f"{NAMED[lesson]}.html" for lesson in shown]


class TestInABrowser:
    pytestmark = lab.pytestmark

    def test_next_leads_through_the_course_and_previous_back(self, page):
        titles = []
        for lesson in LESSONS:
            page.locator("a.right-next").click()
            page.wait_for_url(f"**/{lesson}.html")
            titles.append(page.locator("article h1").inner_text())
            assert page.locator("nav.bd-links a.current").inner_text().strip() in titles[-1]
        assert len(set(titles)) == len(LESSONS)
        page.locator("a.left-prev").click()
        page.wait_for_url(f"**/{LESSONS[-2]}.html")

    def test_search_finds_lessons_and_words(self, page, folder):
        page.goto(f"file://{folder}/search.html?q=skip-trigram")
        wait_until(
            page,
            lambda: page.locator("#search-results li").count() > 2,
            lambda: "nothing was found",
        )
        assert "One layer" in page.locator("#search-results").inner_text()

    def test_light_and_dark(self, page, folder):
        page.goto(f"file://{folder}/{LESSONS[0]}.html")
        colours = []
        for choice in ("light", "dark"):
            page.locator("button.theme-switch-button:visible").click()
            page.locator(f"button.theme-change-button[data-mode={choice}]:visible").click()
            colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        light, dark = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
        assert light > 700 and dark < 100

    def test_a_phone_shows_every_page_in_its_width(self, page):
        page.set_viewport_size({"width": 390, "height": 844})
        for name in PAGES:
            page.goto(re.sub(r"\w+\.html$", f"{name}.html", page.url))
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name

    @pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
    def test_the_first_page_answers_its_question_before_any_model_is_loaded(self, page, size):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        live = page.locator(".micro")
        live.locator(".tok").first.wait_for()
        assert live.locator(".guide").count() == 0  # help comes after a press
        for head, stays in (("1.6", True), ("0.5", False)):
            live.locator(f".switch[data-key='{head}']").click()
            live.locator(".small", has_text=f"without head {head}").wait_for()
            share = int(re.findall(r"(\d+) %", live.locator(".big").inner_text())[1])
            assert (share > 50) == stays
            # what was pressed and what came of it are on one screen
            for seen in (f".switch[data-key='{head}']", ".big", ".guide"):
                box = live.locator(seen).bounding_box()
                assert 0 <= box["y"] <= size[1] - box["height"], seen
            if stays:
                live.locator("[data-do=reset]").click()
                live.locator(".change:not(.cut)").wait_for()
        # the answer in two arcs
        live.locator("[data-key=label]").click()
        live.locator(".guide", has_text="one token back").wait_for()
        names = live.locator(".tok .t").all_inner_texts()
        self._ends(live, names.index("per"), names.index("per") - 1)
        live.locator("[data-key=match]").click()
        live.locator(".guide", has_text="copies it").wait_for()
        self._ends(live, len(names) - 1, names.index("per"))
        # and one kind of door
        live.locator("[data-key=door]").click()
        left = {}
        for door in "kqv":
            live.locator(f".guide [data-key={door}]").click()
            live.locator(f".guide [data-key={door}][aria-pressed=true]").wait_for()
            left[door] = int(re.findall(r"(\d+) %", live.locator(".big").inner_text())[1])
        assert left["k"] < 10 and min(left["q"], left["v"]) > 95
        assert live.locator(".guide a[href='07_induction_heads.html']").count() == 1
        assert not [url for url in asked if "/models/" in url]

    @staticmethod
    def _ends(live, dest, src):
        """The thickest arc leads from one token to another."""
        boxes = [live.locator(f".tok[data-key='{at}']").bounding_box() for at in (dest, src)]
        wait_until(
            live.page,
            lambda: all(
                abs(x - box["x"] - box["width"] / 2) < 2
                for x, box in zip(live.page.evaluate(ENDS), boxes, strict=True)
            ),
            lambda: f"the arc stands at {live.page.evaluate(ENDS)}, the tokens at {boxes}",
        )

    def test_other_texts_are_computed_and_one_that_is_too_long_leaves_no_old_picture(self, page):
        live = page.locator(".micro")
        for _, words, _ in home.TEXTS:
            live.locator("textarea").fill(words)
            live.locator(".tok .t", has_text=visible(words.split()[-1][-1])).last.wait_for()
        live.locator(".chosen button", has_text="misled").click()
        live.locator(".guide", has_text="You would write").wait_for()
        assert live.locator(".row code").first.inner_text() == "·x"
        live.locator("textarea").fill("word " * 90)
        live.get_by_text("room for 64 tokens").wait_for()
        assert live.locator(".tok").first.is_hidden()
        live.locator("textarea").fill("def f(path):\n    return")
        live.locator(".tok", has_text="return").wait_for()

    def test_questions_are_answered_by_keyboard_and_kept(self, page, folder, tmp_path):
        page.goto(f"file://{folder}/{cards.LESSON}.html")
        first = page.locator("form.question").first
        said, key = first.locator(".bet-said"), page.locator("details.key").first
        first.locator("input").first.focus()
        for press in ("Tab", "Enter"):  # how sure, before there is an answer
            page.keyboard.press(press)
        assert said.inner_text() == "Choose an answer, and then say how sure you are."
        for press in ("Shift+Tab", "Space", "ArrowDown", "Tab", "Tab", "Enter"):
            page.keyboard.press(press)
        assert said.inner_text() == "Kept. You said: likely. 1 of 24 are answered."
        assert page.evaluate("document.activeElement.className") == "bet-said"
        assert first.locator("input:checked").get_attribute("value") == "1"
        assert not key.is_visible() and "24 of 24" not in page.locator(".score").inner_text()
        for press in ("Shift+Tab", "Enter", "ArrowDown", "Tab", "Enter"):  # changed
            page.keyboard.press(press)
        assert said.inner_text() == "Kept. You said: a guess. 1 of 24 are answered."
        page.reload()
        assert first.locator("input:checked").get_attribute("value") == "2"
        assert first.locator("input:enabled").count() == 0

        # All the others: a score, and no key.
        for form in page.locator("form.question").all()[1:]:
            form.locator("input").first.check()
            form.locator(".sure button").last.click()
        given = answer_key.answers(_kept(page))["before"]
        right = sum(given[name] == option for name, option in answer_key.keys().items())
        assert f"before\t{right} of 24" in page.locator(".score").inner_text()
        assert not page.locator("details.key:visible, form.question .change:visible").count()

        # After the course each has its key.
        page.get_by_label("after the course").check()
        assert page.locator("form.question input:checked").count() == 0
        first.locator("input").first.check()
        first.locator(".sure button").last.click()
        assert said.inner_text().startswith("✗ Not this time. You said: sure.")
        assert key.get_attribute("open") is not None and key.locator("math").count()
        assert first.locator("label.right em").inner_text() == "✓ the key"
        assert first.locator("label.wrong em").inner_text() == "✗ your answer"

        # The file is one that the lesson and a teacher read.
        with page.expect_download() as download:
            page.get_by_role("button", name="Save").click()
        download.value.save_as(tmp_path / "class" / download.value.suggested_filename)
        saved = json.loads((tmp_path / "class" / answer_key.FROM_SITE).read_text("utf-8"))
        assert len(saved) == 25 and all(map(bets._is_bet, saved.values()))
        assert saved["12_01_value"]["right"] is False and saved == _kept(page)
        assert "| before | 1 |" in "\n".join(pool.page(pool.people(tmp_path / "class")))

    def test_a_file_adds_answers_and_takes_none_away(self, page, folder, tmp_path):
        page.goto(f"file://{folder}/{cards.LESSON}.html")
        page.locator("form.question input").first.check()
        page.locator(".sure button").first.click()
        mine = _kept(page)
        (options,) = [answer_key.QUESTIONS["01_root"][1]]
        new = {"question": "5.", "guess": options[0], "first": {"guess": options[1]}}
        other = answer_key.QUESTIONS["01_value"][1][2]
        file = tmp_path / "my_predictions.json"
        kept = {"03_one": {"guess": 1}, "12_before_01_value": {"guess": other}, "12_01_root": new}
        file.write_text(json.dumps(kept), encoding="utf-8")
        box, said = page.locator("input[type=file]"), page.locator(".sitting .bet-said")
        box.set_input_files(file)
        page.get_by_text("New from my_predictions.json: 1.").wait_for()
        assert _kept(page) == mine | {"12_01_root": new}
        for text in ("", "[", "null", '{"12_01_root": {"guess": "<b>"}}', "[[1]]"):
            (tmp_path / "odd.json").write_text(text, encoding="utf-8")
            said.evaluate("element => element.textContent = ''")
            box.set_input_files(tmp_path / "odd.json")
            page.get_by_text("odd.json has no answers to these questions.").wait_for()
        assert _kept(page) == mine | {"12_01_root": new}
        page.get_by_label("after the course").check()
        fifth = page.locator("form[data-name='01_root']")
        assert fifth.locator("input:checked").get_attribute("value") == "1"  # the first bet
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Delete my answers").click()
        page.get_by_text("Your answers are deleted.").wait_for()
        assert _kept(page) == {} and page.locator("form.question input:checked").count() == 0

    def test_a_browser_that_keeps_nothing_says_so(self, page, folder):
        page.add_init_script(
            "Storage.prototype.setItem = () => { throw new DOMException('no room'); }"
        )
        page.goto(f"file://{folder}/{cards.LESSON}.html")
        page.locator("form.question input").first.check()
        page.locator(".sure button").first.click()
        page.get_by_text("This browser keeps nothing for this page").wait_for()
        assert page.locator("form.question").first.locator("input:checked").count() == 1
        with page.expect_download() as download:
            page.get_by_role("button", name="Save").click()
        assert len(json.loads(download.value.path().read_text("utf-8"))) == 1

    @pytest.mark.parametrize("width", [390, 1440])
    def test_the_cards_have_names_and_room(self, page, folder, width):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"file://{folder}/{cards.LESSON}.html")
        page.get_by_label("after the course").check()
        for form in page.locator("form.question").all()[:12]:
            form.locator("input").first.check()
            form.locator(".sure button").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        question = answer_key.QUESTIONS["08_fall"][0]
        group = page.get_by_role("group", name=question)
        assert group.get_by_role("radio", name="nothing: all of it came with the fall").count() == 1
        parts = ".question label, .sitting label, .question button, .sitting button"
        sizes = page.evaluate(
            "parts => [...document.querySelectorAll(parts)].filter(e => e.offsetHeight)"
            ".map(e => [e.offsetHeight, parseFloat(getComputedStyle(e).fontSize)])",
            parts,
        )
        assert min(height for height, _ in sizes) >= 32 and min(size for _, size in sizes) >= 13

    def test_the_address_holds_what_is_seen_and_opens_to_it_elsewhere(self, page, browser):
        live = page.locator(".micro")
        live.locator("textarea").fill("a b c d a b c d a b c")
        live.locator(".tok", has_text="·d").first.wait_for()
        live.locator(".name[data-key='0.5']").click()
        live.locator(".name[data-key='0.5'][aria-pressed=true]").wait_for()
        live.locator("[role=tab][data-key=doors]").click()
        live.locator(".door[data-key='0.5k1.6']").click()
        live.locator(".door.shut").wait_for()
        live.locator(".tok[data-key='7']").click()
        live.locator(".tok.sel[data-key='7']").wait_for()
        page.wait_for_timeout(500)
        other = browser.new_context(viewport={"width": 700, "height": 900}, offline=True)
        opened = other.new_page()
        opened.goto(page.url)
        opened.locator(".door.shut").wait_for()
        opened.wait_for_timeout(500)
        seen = [
            [one.locator(part).all_inner_texts() for part in (".tok .t", ".rows", ".big", ".panel")]
            for one in (live, opened.locator(".micro"))
        ]
        assert seen[0] == seen[1] and opened.locator(".tok.sel").get_attribute("data-key") == "7"
        # what makes no sense in an address is left out
        opened.goto(f"{page.url.split('#')[0]}#text=x+%3D&cut=9.9,0.5&open=7.7&view=no&at=99")
        opened.reload()
        opened.locator(".small", has_text="without head 0.5").wait_for()
        other.close()

    def test_dark_keeps_the_order_of_a_pictures_shades(self, page, folder):
        page.emulate_media(color_scheme="dark")
        page.goto(f"file://{folder}/04_one_layer.html")
        for number in range(page.locator(".cell_output img").count()):
            picture = page.locator(".cell_output img").nth(number)
            stored = Image.open(
                io.BytesIO(base64.b64decode(picture.get_attribute("src").split(",")[1]))
            )
            shown = Image.open(io.BytesIO(picture.screenshot()))
            pairs = [
                image.convert("L").resize((40, 30), Image.Resampling.BOX)
                for image in (stored, shown)
            ]
            first, second = (torch.tensor(list(one.getdata())).float() for one in pairs)
            assert torch.corrcoef(torch.stack([first, second]))[0, 1] > 0.5, number  # turned: −1

    @pytest.mark.parametrize("width", [390, 720, 1000, 1440, 2000])
    def test_the_microscope_fits_every_width_with_letters_of_eleven_pixels(self, page, width):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator(".micro .tok").first.wait_for()
        for view in ("attention", "stream", "paths", "doors"):
            page.locator(f".micro .tabs [data-key={view}]").click()
            if (
                view == "attention"
            ):  # each number stands below its heading, whichever columns have room
                shown = "row => [...row.cells].filter(cell => cell.offsetWidth).length"
                rows = [
                    page.locator(f".micro .two {part} tr").first.evaluate(shown)
                    for part in ("thead", "tbody")
                ]
                assert rows[0] == rows[1]
            page.locator(f".micro [data-key={view}][aria-selected=true]").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            smallest = page.evaluate("""Math.min(...[...document.querySelectorAll('.micro *')]
                .filter(e => e.innerText?.trim())
                .map(e => parseFloat(getComputedStyle(e).fontSize)))""")
            assert smallest >= 11
        sizes = page.evaluate(
            "[...document.querySelectorAll('.micro .switch')].map(e => e.offsetHeight)"
        )
        assert len(sizes) == 16 and min(sizes) >= 24


def _kept(page):
    return json.loads(page.evaluate("localStorage.getItem('transformer-circuits-12')") or "{}")


def test_what_sphinx_complains_of_stops_the_build(tmp_path, monkeypatch, capsys):
    def write(folder):
        for name in ("_static", "_extra"):
            (folder / name).mkdir(parents=True)
        (folder / "index.md").write_text(
            "# Title\n\n[A link](that_leads.md) nowhere.\n", encoding="utf-8"
        )

    monkeypatch.setattr(site, "_write_sources", write)
    with pytest.raises(SystemExit):
        site.main(["--out", str(tmp_path / "out")])
    assert "not as it should be" in capsys.readouterr().err


def test_texts_lead_to_pages_and_leave_other_addresses_alone(tmp_path, monkeypatch):
    file = tmp_path / "README.md"
    monkeypatch.setitem(site.TEXTS, "data", tmp_path / "data" / "README.md")
    file.write_text(
        "[a](notebooks/solutions/03_solution_x.ipynb) [b](data/README.md) [c](https://d.e/f.md)",
        "utf-8",
    )
    assert site._linked(file) == "[a](03_x.ipynb) [b](data.md) [c](https://d.e/f.md)"
