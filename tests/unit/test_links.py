"""The links that authoring writes into lessons."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import course_lessons
from course_tools import authoring, links
from course_utils._files import ROOT

TITLES = {
    "00_start": "00 · Start here",
    "01_transformer": "01 · The transformer",
    "02_stream": "02 · The stream",
    "02b_algebra": "02b · The algebra",
    "03_zero_layers": "03 · Zero layers",
}


def test_the_line_and_the_learners_line():
    """The next lesson of the spine comes first, and what stands beside this one last."""
    line = links.line("02_stream", TITLES, contents=True)
    assert re.findall(r"\[(.*?)\]\((.*?)\)", line) == [
        ("← 01 · The transformer", "01_solution_transformer.ipynb"),
        ("Contents", "../00_start.ipynb"),
        ("The lesson, with blanks", "../02_stream.ipynb"),
        ("03 · Zero layers →", "03_solution_zero_layers.ipynb"),
        ("beside it: 02b · The algebra", "02b_solution_algebra.ipynb"),
    ]
    assert re.findall(r"\[(.*?)\]\((.*?)\)", links.for_learner(line)) == [
        ("← 01 · The transformer", "01_transformer.ipynb"),
        ("Contents", "00_start.ipynb"),
        ("The solution", "solutions/02_solution_stream.ipynb"),
        ("03 · Zero layers →", "03_zero_layers.ipynb"),
        ("beside it: 02b · The algebra", "02b_algebra.ipynb"),
    ]
    assert "Contents" not in links.line("02_stream", TITLES, contents=False)


def test_the_contents_lead_on_at_the_end_alone():
    path = Path("notebooks", "solutions", "00_solution_start.ipynb")
    notebook = links.linked(new_notebook(cells=[TITLE, new_code_cell("1")]), path, TITLES)
    assert [cell.id for cell in notebook.cells if cell.id in links.IDS] == ["links-end"]
    assert notebook.cells[-1].source == "[01 · The transformer →](01_solution_transformer.ipynb)"


TITLE = new_markdown_cell("# 01 · The transformer")


def _linked(*cells, folder=Path()):
    path = folder / "notebooks" / "solutions" / "01_solution_transformer.ipynb"
    return links.linked(new_notebook(cells=list(cells)), path, TITLES)


def test_the_line_stands_below_the_title_and_at_the_end_and_links_what_exists(tmp_path):
    cells = [TITLE, new_code_cell("1"), new_markdown_cell("The end.")]
    top, end = (_linked(*cells, folder=tmp_path).cells[place] for place in (1, -1))
    assert (
        (top.id, end.id) == links.IDS and top.source == end.source and "Contents" not in top.source
    )
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "00_start.ipynb").touch()
    assert "[Contents](../00_start.ipynb)" in _linked(*cells, folder=tmp_path).cells[1].source


def test_sources_get_their_address_once_a_cell_and_code_none():
    text = "As Olsson et al. 2022 say; Olsson et al. 2022 again; Levy & Goldberg\n2014."
    _, _, said, code, _ = _linked(TITLE, new_markdown_cell(text), new_code_cell("# " + text)).cells
    ours, theirs = links.SOURCES["Olsson et al. 2022"], links.SOURCES["Levy & Goldberg 2014"]
    linked = (
        f"As [Olsson et al. 2022]({ours}) say; Olsson et al. 2022 again; [Levy & "
        f"Goldberg\n2014]({theirs})."
    )
    assert said.source == linked and code.source == "# " + text


CITATION = re.compile(r"[A-Z][\w-]+ (?:et al\.|& [A-Z][\w-]+)\s+\d{4}")
YEARS = {  # papers whose year of print, by which the field cites them, is later than their address
    "Holtzman et al. 2020",
    "Press et al. 2021",
    "Sennrich et al. 2016",
}


def test_a_source_is_from_the_year_that_its_address_says():
    for name, address in links.SOURCES.items():
        found = re.search(r"arxiv\.org/abs/(\d\d)\d\d\.|/20(\d\d)/", address)
        if found:
            later = 1 if name in YEARS else 0
            assert int(name[-4:]) == 2000 + int(found[1] or found[2]) + later, name


def test_who_is_cited_is_a_source(subtests):
    """By that year, in lessons, tables, glossary, guide: one that is off is no source of ours."""
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("*/*.md")}
    for file in course_lessons.__path__:
        tables = Path(file).glob("*/claims.json")
        texts |= {path: path.read_text(encoding="utf-8") for path in tables}
    for path in authoring.lessons():
        texts[path] = "\n".join(cell.source for cell in authoring.read_notebook(path).cells)
    for path, text in texts.items():
        with subtests.test(path.name):
            cited = {" ".join(words.split()) for words in CITATION.findall(text)}
            assert cited <= links.SOURCES.keys()


def test_links_made_twice_are_the_same_and_an_old_address_goes():
    once = _linked(TITLE, new_markdown_cell("See [Elhage et al. 2021](http://old)."))
    twice = _linked(*once.cells)
    assert authoring.dumps(once) == authoring.dumps(twice)
    assert (
        once.cells[2].source == f"See [Elhage et al. 2021]({links.SOURCES['Elhage et al. 2021']})."
    )


GLOSSARY = """# Glossary

### head

A part; also **attention head**.

`hook_z` · lesson 01 · Elhage et al. 2021

### logit lens

A look.

lesson 02
"""


def _with_glossary(folder, *cells):
    (folder / "notebooks").mkdir(exist_ok=True)
    (folder / "notebooks" / links.GLOSSARY).write_text(GLOSSARY, encoding="utf-8")
    return _linked(TITLE, *cells, folder=folder)


def test_a_term_is_a_link_where_its_lesson_first_has_it_in_bold(tmp_path):
    cells = map(
        new_markdown_cell,
        ["A head.", "**Attention\nheads** and **heads**; **logit lens**.", "**head**"],
    )
    texts = [cell.source for cell in _with_glossary(tmp_path, *cells).cells[2:-1]]
    first = "[**Attention\nheads**](../GLOSSARY.md#head) and **heads**; **logit lens**."
    assert texts == ["A head.", first, "**head**"]


@pytest.mark.parametrize(
    "text", ["# A **head**", "`**head**`", "```\n**head**\n```", "$**head**$", "[a **head**](b.md)"]
)
def test_no_term_is_a_link_in_a_heading_code_a_formula_or_a_link(tmp_path, text):
    cells = _with_glossary(
        tmp_path,
        new_markdown_cell(text),
        new_code_cell("# **head**"),
        new_markdown_cell("**head**"),
    )
    assert [cell.source for cell in cells.cells[2:-1]] == [
        text,
        "# **head**",
        "[**head**](../GLOSSARY.md#head)",
    ]


def test_terms_linked_twice_are_the_same_and_the_learners_copy_has_its_own_path(tmp_path):
    once = _with_glossary(tmp_path, new_markdown_cell("A **head**."))
    once = authoring.tidy(once)
    twice = _with_glossary(tmp_path, *once.cells[2:-1])
    assert authoring.dumps(twice) == authoring.dumps(once) and not authoring.source_problems(once)
    assert authoring.derive(once).cells[2].source == "A [**head**](GLOSSARY.md#head)."


def test_the_glossary_gets_links_on_lessons_and_papers():
    once = links.linked_glossary(GLOSSARY, TITLES)
    paper = links.SOURCES["Elhage et al. 2021"]
    assert f"`hook_z` · [lesson 01](01_transformer.ipynb) · [Elhage et al. 2021]({paper})" in once
    assert links.linked_glossary(once, TITLES) == once
    assert links.names("head", links.entries(once)["head"]) == ["head", "attention head"]
