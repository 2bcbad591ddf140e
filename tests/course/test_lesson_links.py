"""Every link of every lesson leads somewhere, and from the first lesson each of the others is
reached.
"""

import re
from urllib.parse import unquote

import pytest

from course_tools import authoring, links
from course_utils._files import NOTEBOOKS, lesson_of, number_of
from course_utils.course import outline

LINK = re.compile(r"(?<!!)\[([^]]*)\]\(([^)\s]+)\)")
# sources, and what else lessons point at
ADDRESSES = {*links.SOURCES.values(), "https://distributed.dask.org"}
TERMS = {
    term.replace(" ", "-")
    for term in links.entries((NOTEBOOKS / links.GLOSSARY).read_text(encoding="utf-8"))
}
SOLUTIONS = authoring.lessons()
COPIES = [copy for path in SOLUTIONS for copy in (path, authoring.learner_path(path))]


def _words(path):
    return [cell for cell in authoring.read_notebook(path).cells if cell.cell_type == "markdown"]


def test_every_link_leads_to_a_file_a_heading_or_an_address_that_we_list(subtests):
    for path in COPIES:
        with subtests.test(path.stem):
            _leads_somewhere(path)


def _leads_somewhere(path):
    cells = _words(path)
    headings = [line for cell in cells for line in cell.source.splitlines() if line.startswith("#")]
    # as JupyterLab has them
    anchors = {"#" + line.lstrip("# ").replace(" ", "-") for line in headings}
    found = [address for cell in cells for _, address in LINK.findall(cell.source)]
    assert found
    for address in found:
        if address.startswith("http"):
            assert address in ADDRESSES, (
                f"{address}: a source belongs into course_tools/sources.json"
            )
        elif address.startswith("#"):
            assert unquote(address) in anchors
        else:
            address, _, anchor = address.partition("#")
            assert not anchor or (address.endswith(links.GLOSSARY) and anchor in TERMS), anchor
            assert (path.parent / unquote(address)).is_file(), address
            assert (path.parent / unquote(address)).resolve().is_relative_to(NOTEBOOKS)


def test_first_and_last_line_lead_on(subtests):
    for path in COPIES:
        with subtests.test(path.stem):
            _leads_on(path)


def _leads_on(path):
    """Below the title and at the end: what comes before and after, the other copy; `00_start` leads
    on at its end.
    """
    cells = authoring.read_notebook(path).cells
    is_contents = f"{lesson_of(path)}.ipynb" == links.CONTENTS
    assert [cell.id for cell in cells if cell.id in links.IDS] == [*links.IDS][is_contents:]
    assert cells[-1].id == links.IDS[1] and (is_contents or cells[1].source == cells[-1].source)
    titles = authoring.titles()
    lesson = lesson_of(path)
    named = {number_of(name): name for name in titles}
    number = number_of(lesson)
    before, after = outline.neighbours(number)
    targets = {
        words: (path.parent / target).resolve() for words, target in LINK.findall(cells[-1].source)
    }
    targets.pop("Contents", None)
    is_solution = path in SOLUTIONS
    copy_of = authoring.solution_path if is_solution else lambda name: NOTEBOOKS / f"{name}.ipynb"
    other = NOTEBOOKS / f"{lesson}.ipynb" if is_solution else authoring.solution_path(lesson)
    expected = {}
    if before not in ("", "00"):  # which the contents are
        expected[f"← {titles[named[before]]}"] = copy_of(named[before])
    expected |= {} if is_contents else {links.LESSON if is_solution else links.SOLUTION: other}
    if after:
        expected[f"{titles[named[after]]} →"] = copy_of(named[after])
    for other in outline.beside(number):
        expected[f"beside it: {titles[named[other]]}"] = copy_of(named[other])
    assert targets == expected, "run python -m course_tools.authoring --links"


@pytest.mark.parametrize("folder", ["", "solutions"])
def test_every_lesson_is_reached_from_the_first(folder):
    here = NOTEBOOKS / folder
    seen, ahead = set(), [path for path in COPIES if path.parent == here][:1]
    while ahead:
        path = ahead.pop()
        if path not in seen:
            seen.add(path)
            found = LINK.findall(authoring.read_notebook(path).cells[-1].source)
            ahead += [here / to for words, to in found if "/" not in to and words[0] != "←"]
    assert seen == {path for path in COPIES if path.parent == here}


def test_every_source_that_a_lesson_names_is_a_link(subtests):
    for path in SOLUTIONS:
        with subtests.test(lesson_of(path)):
            for cell in _words(path):
                _names_sources_by_links(cell.source)


def _names_sources_by_links(text):
    for name, address in links.SOURCES.items():
        if re.search(r"\s+".join(map(re.escape, name.split())), text):
            assert f"]({address})" in text, "run python -m course_tools.authoring --links"


def test_a_name_with_its_year_has_an_address(subtests):
    """Who is cited like "Elhage et al. 2021" is in the table of sources."""
    cited = r"[A-Z]\w+ (?:et al\.|& [A-Z]\w+)\s+(?:19|20)\d\d"
    for path in SOLUTIONS:
        with subtests.test(lesson_of(path)):
            names = re.findall(cited, "\n".join(cell.source for cell in _words(path)))
            assert {" ".join(name.split()) for name in names} <= set(links.SOURCES)
