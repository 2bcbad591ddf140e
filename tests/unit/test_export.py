"""Slides and handouts: complete, and with nothing in them that a browser would have to load."""

import itertools
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import course_lessons
import course_tools
import course_utils
from course_tools import authoring, bet_source, export, handout, slides, to_html
from course_utils._files import get_back, sha256

LESSONS = authoring.taught()
KINDS = ("slides", "handout")
# SHA-256 of dist/reveal.js, dist/reveal.css, plugin/notes/notes.js and LICENSE of reveal.js 5.2.1
PUBLISHED = {
    "reveal.js": "46538b52db48724192f59bf46f5e851a18e302777c46f4a34c32709d010d6a29",
    "reveal.css": "68f915a11ebf7203c0446576b7e952ff61c5dd02134a8a226ffaf62ed42136d2",
    "notes.js": "df1201d19d03241a2897d39c3d38768177df1cbd4bde06327b321cb83461ae89",
    "LICENSE": "34014800f4126ac2525e224166f099f26628612e95c41f76d70841b63138c989",
}
LOADS = {
    "src",
    "srcset",
    "href",
    "data",
    "poster",
    "background",
    "action",
    "formaction",
    "xlink:href",
}
files = pytest.mark.parametrize(("kind", "lesson"), list(itertools.product(KINDS, LESSONS)))
lessons = pytest.mark.parametrize("lesson", LESSONS)


@cache
def _made(kind, lesson):
    return export.export(kind, lesson)


@cache
def _parsed(kind, lesson):
    return BeautifulSoup(_made(kind, lesson), "html.parser")


def _notebook(lesson):
    return authoring.read_notebook(authoring.solution_path(lesson))


def _learner(lesson):
    return authoring.read_notebook(authoring.learner_path(authoring.solution_path(lesson)))


def _data(outputs):
    """What outputs hold, but for the microscope's drawings, which become part of the page."""
    data = [output.get("data", {}) for output in outputs]
    return [found for found in data if "microscope-still" not in found.get("text/html", "")]


def test_slides_and_handouts_have_no_links_between_lessons():
    for kind in KINDS:
        assert not [
            a for a in _parsed(kind, LESSONS[1]).find_all("a") if not a["href"].startswith("http")
        ]


def _loaded(page: BeautifulSoup) -> list[str]:
    """What a browser would fetch for a page, links that wait for a click left aside."""
    found = [
        tag.name
        for tag in page.find_all(["link", "iframe", "object", "embed", "base", "audio", "video"])
    ]
    for tag in page.find_all(True):
        values = [
            value
            for name, value in tag.attrs.items()
            if name in LOADS and (tag.name, name) != ("a", "href")
        ]
        values += re.findall(r"url\(([^)]*)\)", str(tag.get("style", "")))
        found += [f"{tag.name} {value[:60]}" for value in values if not value.startswith("data:")]
    for style in page.find_all("style"):
        found += re.findall(r"@import[^;]*|url\((?!['\"]?data:)[^)]*\)", style.text)
    for script in page.find_all("script"):
        found += re.findall(
            r"sourceMappingURL|importScripts|\bimport\s*\(|\bfrom\s*['\"]http", script.text
        )
    return found


@pytest.mark.parametrize(
    "loader",
    [
        '<script src="https://cdn.example/reveal.js"></script>',
        '<link rel="stylesheet" href="style.css">',
        '<img src="figure.png">',
        '<p style="background: url(paper.png)">',
        "<style>@import url(https://fonts.example/a.css);</style>",
        "<style>@font-face { src: url('a.woff2') }</style>",
        "<script>import('https://cdn.example/mermaid.mjs')</script>",
    ],
)
def test_the_test_sees_what_would_be_loaded(loader):
    assert _loaded(BeautifulSoup(loader, "html.parser"))


def test_a_link_and_an_inner_picture_load_nothing():
    page = '<a href="https://example.org/paper"></a><img src="data:image/png;base64,AAAA">'
    assert _loaded(BeautifulSoup(page, "html.parser")) == []


@files
def test_nothing_is_loaded_and_every_formula_is_mathml(kind, lesson):
    page = _parsed(kind, lesson)
    assert _loaded(page) == []
    assert len(_made(kind, lesson)) < 2e6
    prose = re.sub(
        r"<(script|style|pre|code)\b.*?</\1>|<[^>]*>", " ", _made(kind, lesson), flags=re.DOTALL
    )
    assert "$" not in prose and not re.search(r"\\[A-Za-z_]", prose)
    exercises = [cell.source for cell in _notebook(lesson).cells if "### Exercise" in cell.source]
    asked = any("$" in re.sub(r"(?s)<details>.*?</details>", "", source) for source in exercises)
    assert page.find("math") or not asked or kind == "slides"  # a deck has the board in their place
    assert not page.find("merror")


def _slides(lesson):
    return (
        _parsed("slides", lesson).find("div", class_="slides").find_all("section", recursive=False)
    )


def _told(lesson):
    return slides.guide(_notebook(lesson).cells[0].source.splitlines()[0].removeprefix("# "))


@lessons
def test_a_deck_is_short_and_follows_the_guide(lesson):
    deck, told = _slides(lesson), _told(lesson)
    companion = not lesson.split("_")[0].isdigit()
    assert (7 if companion else 10) <= len(deck) <= slides.MOST
    assert (
        deck[1].find(["img", "svg"]) and told.goal.split("*")[0].split("`")[0][:30] in deck[0].text
    )
    assert [slide.h2.text for slide in deck[-2:]] == ["For discussion", "On the board"]
    assert deck[-1].pre and len(deck[-2].find("ul").find_all("li")) >= 3
    planned = [to_html.markdown(f"## {name}")[0].text for row in told.plan for name in row.sections]
    shown = [name for name, _ in itertools.groupby(slide.h2.text for slide in deck[2:-2])]
    assert shown == [name for name in planned if name in shown] and len(shown) > len(planned) / 2
    for slide in deck[2:-2]:
        assert re.match(r"\d+ minutes\.", slide.find("aside", class_="notes").text.strip())


@lessons
def test_a_deck_has_every_blank_of_the_plan_and_no_answer(lesson):
    deck, told = _slides(lesson), _told(lesson)
    names = [name for row in told.plan for name in re.findall(r"`(\w+)`", row.what)]
    exercises = [slide for slide in deck if slide.h3 and "Exercise" in slide.h3.text]
    assert [slide.h3.code.text for slide in exercises] == names
    assert all(
        f"def {name}(" in slide.pre.text for name, slide in zip(names, exercises, strict=True)
    )
    text = " ".join(slide.text for slide in deck)
    for cell in _notebook(lesson).cells:
        if cell.cell_type == "code" and authoring.MARKERS[0] in cell.source:
            answer = re.split("### (?:BEGIN|END) SOLUTION", cell.source)[1]
            assert not [
                line
                for line in answer.splitlines()
                if len(line.strip()) > 24 and line.strip() in text
            ]


@lessons
def test_a_deck_shows_no_machinery(lesson):
    for code in (
        code for slide in _slides(lesson) for code in slide.find_all("div", class_="code")
    ):
        assert not re.search(
            r"^(import|from|assert) |\b(plots|draw|claim|identity|predict|check)[.(]",
            code.text,
            re.M,
        )


def _answered_in_a_later_section(cells):
    """The bets, by name, that a slide of their own section can't answer."""
    section, asked, late = 0, {}, set()
    for cell in cells:
        section += cell.cell_type == "markdown" and bool(re.search("^## ", cell.source, re.M))
        if cell.cell_type == "code":
            read = bet_source.read(cell.source)
            asked |= dict.fromkeys(read.asked, section)
            late |= {name for name in read.answered if asked.get(name, section) < section}
    return late


@lessons
def test_a_bet_comes_before_its_answer_and_its_picture(lesson):
    cells = _notebook(lesson).cells
    asked = [
        o.data["text/plain"]
        for c in cells
        for o in c.get("outputs", [])
        if "Predict: " in str(o.get("data"))
    ]
    bets = [bet for slide in _slides(lesson) for bet in slide.find_all("div", class_="bet")]
    answered = [bet for bet in bets if bet.find_next_sibling("div")]
    waits = _answered_in_a_later_section(cells)
    assert (answered or waits or not asked) and len(answered) >= len(bets) - min(1, len(waits))
    for bet in bets:
        question = re.sub(r"\W", "", bet.p.text)
        assert any(question in re.sub(r"\W", "", said) for said in asked)
        after = bet.find_next_siblings("div")
        assert all("fragment" in block["class"] for block in after)
        assert not bet.find_previous_siblings("div")


def _cell(source, *data, text=""):
    outputs = [new_output("display_data", data=shown) for shown in data]
    outputs += [new_output("stream", name="stdout", text=text)] if text else []
    return new_code_cell(source, outputs=outputs)


def test_what_a_deck_takes_of_a_section():
    asked = {"text/plain": "Predict: How *many*?\none · two"}
    picture = {"text/html": '<img src="data:," alt="a line">'}
    exercise = "### Exercise 1 · `f` &nbsp; ●○○ · 5 minutes\n\nReturn x.\n\n<details>Hint</details>"
    blank = _cell('import torch\n\n\ndef f(x):\n    raise NotImplementedError("your code here")')
    cells = [
        _cell('predict("01_many", "How?")', asked),
        _cell("draw.one(1)", picture),
        _cell('claim("how many", 2, predicted="01_many")', text="▪ how many: 2\n"),
        _cell(
            "from x import y\n\n\ndef twice(a):\n    return 2 * a\n\n\ndraw.two(twice(1))", picture
        ),
        new_markdown_cell(exercise),
        blank,
    ]
    row = slides.Row(10, ["1 · A"], "Pairs write `f`.")
    bet, drawn, left = slides._section("1 · A", cells, row, {blank.id: blank.source})
    assert bet.spare == 0 and [
        "bet" in bet.blocks[0],
        "a line" in bet.blocks[1],
        "how many: 2" in bet.blocks[2],
    ]
    assert "How <em>many</em>?" in bet.blocks[0] and "<li>two</li>" in bet.blocks[0]
    assert drawn.spare == 2 and "twice" in drawn.blocks[0] and "two(" not in drawn.blocks[0]
    assert "Return x." in "".join(left.blocks) and "Hint" not in "".join(left.blocks)
    assert "import" not in left.blocks[-1] and "Implemented" not in left.blocks[-1]
    elsewhere = slides.Row(10, ["1 · A"], "Talk.")
    assert len([*slides._section("1 · A", cells, elsewhere, {blank.id: blank.source})]) == 2


def test_a_section_opens_with_what_it_defines_and_its_formula_but_not_with_an_answer():
    prose = """## 1 · A

Nothing here is bold. A sum over places is taken. This is called a **path**, as in **roads**.

| a | **table** |
|---|---|

> **Rule.** Say it once.

```
a **drawing** in letters
```

$$a = b$$

<details><summary>More</summary>It is **folded**.</details>"""
    asked = _cell('predict("01_many", "How?")', {"text/plain": "Predict: How?\none · two"})
    cells = [new_markdown_cell(prose), asked, new_markdown_cell("**Two** it is.")]
    called = "A sum over places is taken. This is called a **path**, as in **roads**."
    assert slides._said(cells) == ["> **Rule.** Say it once.", called, "$$a = b$$"]
    first, *_ = slides._section("1 · A", cells, slides.Row(5, ["1 · A"], "Talk."), {})
    assert "<math" in "".join(first.blocks) and "Two" not in "".join(first.blocks)


def test_the_decks_of_the_spine_define_what_they_are_about():
    for lesson, words in {
        "04_one_layer": ("full QK table", "full OV table", "path expansion"),
        "06_composition": ("composition score", "virtual head"),
        "07_induction_heads": ("Induction.",),
    }.items():
        said = " ".join(slide.text for slide in _slides(lesson) if slide.find(class_="idea"))
        assert [one for one in words if one not in said] == []


def test_a_deck_that_is_too_long_loses_what_it_can_spare():
    deck = [slides.Slide(str(place), spare=spare) for place, spare in enumerate([0, 3, 2, 1, 0, 2])]
    assert [slide.heading for slide in slides._at_most(deck, 4)] == ["0", "2", "3", "4"]
    with pytest.raises(ValueError, match="1 slides too many"):
        slides._at_most(deck, 1)


def test_a_lesson_without_a_guide_has_no_deck():
    with pytest.raises(ValueError, match='no section "12 · Beyond"'):
        slides.guide("12 · Beyond")


@lessons
def test_a_handout_has_every_exercise_and_no_answer(lesson):
    page = _parsed("handout", lesson)
    text = page.get_text()
    cells = _learner(lesson).cells
    headings = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    opening = re.sub(r"\W", "", headings.split("\n\n")[1])[:40]  # what the lesson is for
    assert opening in re.sub(r"\W", "", text)
    assert ("To think about" in text) == ("To think about" in headings)
    assert not page.find("details") and "Summary" not in text and page.find("p", class_="name")
    for image in page.find_all("img"):  # only where the text announces it
        assert (
            image.find_parent("div", class_="figure")
            .find_previous_sibling()
            .text.strip()
            .endswith(":")
        )
    exercises = page.find_all("div", class_="exercise")
    names = [exercise.h3.code.text for exercise in exercises]
    sections = [name for name in re.findall(r"^## (\d.*)", headings, flags=re.MULTILINE)]
    assert [h2.text for h2 in page.find_all("h2")][: len(sections)] == [
        to_html.markdown(f"## {n}")[0].text for n in sections
    ]
    assert names == re.findall(r"^### Exercise \d+ · `(\w+)`", headings, flags=re.MULTILINE)
    for name, exercise in zip(names, exercises, strict=True):
        assert f"def {name}(" in exercise.text and "raise Not" not in exercise.text
        minutes = int(re.search(r"(\d+) minutes", exercise.h3.text)[1])
        assert len(exercise.find("div", class_="room").find_all("i")) == minutes
    blanks = {cell.id: cell.source for cell in cells}
    for cell in _notebook(lesson).cells:  # no line of an answer that the blank does not have too
        if cell.cell_type == "code" and cell.source != blanks.get(cell.id, cell.source):
            answer = re.split("### (?:BEGIN|END) (?:SOLUTION|HIDDEN TESTS)", cell.source)[1]
            assert not [
                line
                for line in answer.splitlines()
                if len(line.strip()) > 12 and line.strip() in text
            ]


@lessons
def test_a_handout_asks_what_the_lesson_asks(lesson):
    solution = _notebook(lesson)
    cells = [cell for cell in solution.cells if cell.cell_type == "code"]
    asked = [block for cell in cells for _, block in to_html.questions(cell)]
    assert len(_parsed("handout", lesson).find_all("div", class_="bet")) == len(asked)


def test_a_handout_shows_a_figure_that_is_announced_and_gives_no_answer_away():
    figure = [new_output("display_data", data={"text/html": '<img src="data:," alt="a line">'})]
    answer = (
        "def f(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n\n\nf = check.f(f)"
    )
    exercise = "### Exercise 1 · `f` &nbsp; ●○○ · 5 minutes\n\nReturn x:"

    def notebook(code, *drawn):
        cells = [
            new_markdown_cell("# L"),
            new_markdown_cell("## 1 · A\n\nSee. Here it is:"),
            *drawn,
        ]
        return new_notebook(
            cells=[*cells, new_markdown_cell(exercise), new_code_cell(code, id="f")]
        )

    blank = answer.split("    ###")[0] + '    raise NotImplementedError("your code here")'
    for code, is_shown in (("draw(1)", True), ("draw(f(1))", False), ("g = f(1)\ndraw(g)", False)):
        drawn = new_code_cell(code, outputs=figure, id="d")
        solution = notebook(answer, new_code_cell(answer, id="e"), drawn)
        page = BeautifulSoup(
            handout.handout(solution, notebook(blank, new_code_cell(code, id="d"))), "html.parser"
        )
        assert (
            bool(page.find("img")) == is_shown == ("Here it is:" in page.text)
            and "See." in page.text
        )
        assert "Return x:" in page.text and len(page.find(class_="room").find_all("i")) == 5


def test_markdown_becomes_elements_and_mathml():
    one, two, three = to_html.markdown(
        "A $\\text{d\\_head}$.\n\n$$\\lVert x \\rVert$$\n\n\\begin{matrix}a & b\\end{matrix}\n"
    )
    assert (
        one.name == "p"
        and one.math["display"] == "inline"
        and one.find("mtext").text.strip() == "d_head"
    )
    assert (
        two.find("math")["display"] == three.find("math")["display"] == "block"
        and len(three.find_all("mtd")) == 2
    )


def test_the_command_writes_the_files(tmp_path, capsys):
    assert (
        export.main(
            ["handout", LESSONS[0], f"notebooks/{LESSONS[1]}.ipynb", "--out", str(tmp_path / "new")]
        )
        == 0
    )
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        f"{x}.handout.html" for x in LESSONS[:2]
    ]
    assert LESSONS[1] in capsys.readouterr().out


def test_the_command_says_what_is_wrong(tmp_path, capsys, monkeypatch):
    with pytest.raises(SystemExit):
        export.main(["slides", "11_nothing", "--out", str(tmp_path)])
    assert 'There is no lesson "11_nothing"' in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    to_html._rendered.cache_clear()
    with pytest.raises(SystemExit):
        export.main(["slides", LESSONS[0], "--out", str(tmp_path)])
    assert '".[teach]"' in capsys.readouterr().err
    with pytest.raises(ValueError, match="choose slides, handout"):
        export.export("poster", LESSONS[0])


def test_where_no_lesson_is_nothing_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(export, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(authoring, "SOLUTIONS", tmp_path / "solutions")
    with pytest.raises(SystemExit) as caught:
        export.main(["slides", "--out", str(tmp_path / "out")])
    assert caught.value.code == 2 and list(tmp_path.iterdir()) == []
    expected = f"There is no lesson in {tmp_path / 'notebooks'}. {get_back('notebooks')}\n"
    assert capsys.readouterr().err.endswith(expected)


def test_reveal_is_as_published_and_brings_its_licence():
    """Byte for byte what the package of this version has: `npm pack reveal.js@5.2.1`."""
    assert {file.name: sha256(file) for file in to_html.REVEAL.iterdir()} == PUBLISHED
    assert "Permission is hereby granted" in to_html.style(to_html.REVEAL / "LICENSE")
    assert "MIT licensed" in to_html.style(to_html.REVEAL / "reveal.js")[:200]


def test_nothing_else_that_a_browser_runs_is_somebody_elses():
    """What we did not write stands in `reveal/` alone; any other script is short enough to read."""
    for folder in (course_lessons, course_tools, course_utils):
        for file in Path(folder.__file__).parent.rglob("*.[jc]s*"):
            if file.parent != to_html.REVEAL and file.suffix in (".js", ".css"):
                lines = file.read_text(encoding="utf-8").splitlines()
                assert max(map(len, lines)) < 1_000 and len(lines) < 400, file


def test_a_stored_microscope_leaves_what_only_jupyterlab_needs():
    stored = (
        '<div class="microscope-still" data-facts="W10="><img src="data:," alt="a model"></div>'
    )
    assert to_html.drawing(f"{stored}<style>.jp-x{{}}</style>") == stored
