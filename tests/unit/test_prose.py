"""Numbers in prose: each is the value of a claim of its lesson, rounded, or something that its
cells print or set.

What is left is a constant, and has its reason here. Looked at are numbers that measure: with "%" or
"nats", with two decimals or more, or with a comma for thousands. A head's number, a formula, a
quotation, a table are left out. In what a table says beside its values, `because` and `control`,
every number is looked at; those of untrained weights `test_untrained.py` compares with a run.
"""

import re

import pytest
from nbformat.v4 import new_markdown_cell

from course_tools import authoring, links, to_html
from course_utils._files import DOCS, lesson_of
from course_utils.course import claims

NUMBER = re.compile(
    r"(?<![\w.·/])[−-]?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?:\s?(%|nats))?(?!\w|\.\d|,\d{3})"
)
LEFT_OUT = re.compile(
    r'\$\$.*?\$\$|\$.*?\$|```.*?```|`[^`]*`|\]\([^)]*\)|^\|.*?$|^#.*?$|"[^"]*"|“[^”]*”',
    re.DOTALL | re.MULTILINE,
)
CONSTANTS = {  # lesson → number → why it is no claim
    "01b": {"4,096": "tokens"},
    "02": {"4,096": "tokens"},
    "02b": {"65,536": "256 · 256"},
    "03": {"5.07": "data/REPLICATION.md", "5.10 nats": "data/REPLICATION.md"},
    "03b": {"1.44": "1 / ln 2"},
    "04b": {"16,384": "2 · 256 · 32"},
    "05": {"3,000": "the recipe's steps"},
    "05b": {"50,000": "brute force by the classes, in round numbers"},
    "06b": {"4,096": "tokens"},
    "07": {
        "0.83": "data/REPLICATION.md",
        "0.45": "data/REPLICATION.md",
        "0.67": "data/REPLICATION.md",
        "4,096": "tokens",
    },
    "07b": {"0.98": "data/REPLICATION.md"},
    "07c": {"1,024": "4⁵", "33,000": "5 · 200 · 33"},
    "08b": {"95 %": "of an interval, by convention"},
    "11": {"80 %": "what the judge counts as sure"},
    "13": {"3.2 nats": "the mean logarithm of 1 to 63", "10.8 nats": "the logarithm of 49,152"},
    "09c": {
        "−1.17": "the pentagon's weights, by hand",
        "1.17": "the same",
    },
}


GUIDE_CONSTANTS = {  # the same for the section of docs/TEACHING.md
    "08b": {"0.99"},  # a positivity, as a figure of the lesson shows it
}
BESIDE = ("because", "control")
BESIDE_NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?!\w|\.\d|,\d{3})")
NO_VALUE = re.compile(
    r"\$.*?\$|`.*?`|\b[Hh]eads? \d\.\d|\blayers? \d|\blength \d|[^;:]*untrained[^;]*|\b\d+ of \d+"
)
BESIDE_CONSTANTS = {  # lesson → what no cell of it measures → why it is so, or who measured it
    "02b": {"chance: 1/16": "the root of 1 over 256 dimensions"},
    "03": {"six seeds: 0.58 to 0.71 at the highest": "other seeds, once, by hand"},
    "03b": {
        "a pseudo-inverse: above 97 %": "once, by hand",
    },
    "06": {"chance: 0.0625": "1/16, the root of 1 over 256 dimensions"},
    "06b": {"knowing nothing: ln 4096 = 8.32 nats": "a logarithm"},
    "07": {
        "the other 14 heads and the one-layer model: 0.01": "two of 16 are left out",
        "chance, 1 in 4,096: 0.02 %": "the size of the vocabulary",
        "all tokens equally likely: 8.3 nats": "a logarithm",
        "all doors kept: 100 %": "an identity of the lesson",
    },
    "07b": {"chance: one token in 4,096": "the size of the vocabulary"},
    "07c": {
        "a guess among the letters: 0.20 to 0.13": "1/5 and 1/8",
        "looking everywhere alike: 0.09": "1/11",
    },
    "12": {"the sums: 0.37 and 0.83": "of the values as measured, before they are rounded"},
}


def numbers(value):
    """All numbers in a claim's value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield abs(value)


def known(notebook, table):
    """What numbers a lesson has: those of its claims, and those that its cells print or set."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    data = [output.get("data", {}) for cell in code for output in cell.outputs]
    texts = [cell.source.replace("_", "") for cell in code]
    texts += [output.get("text", "") for cell in code for output in cell.outputs]
    texts += [shown.get(kind, "") for shown in data for kind in ("text/plain", "text/markdown")]
    printed = set(re.findall(r"\d+(?:\.\d+)?", " ".join(texts).replace(",", "")))
    claimed = [
        n
        for entry in table.values()
        for key in ("value", "least", "most")
        for n in numbers(entry.get(key))
    ]
    return claimed, printed


def is_known(whole, decimals, scale, claimed, printed):
    """Whether a number is the value of a claim, rounded, or printed as it stands."""
    step = 10.0 ** min(0, 1 - len(decimals))
    is_claimed = any(abs(scale * n - float(whole + decimals)) <= 0.5001 * step for n in claimed)
    return is_claimed or whole + decimals in printed


def unbound(notebook, table):
    """The numbers in a lesson's prose that no claim, no output and no code of it has."""
    claimed, printed = known(notebook, table)
    for cell in notebook.cells:
        if cell.cell_type != "markdown" or cell.id in links.IDS:
            continue
        for found in NUMBER.finditer(LEFT_OUT.sub("", cell.source)):
            whole, decimals, unit = found[1].replace(",", ""), found[2] or "", found[3]
            if len(decimals) < 3 and not unit and "," not in found[1]:
                continue
            scale = 100 if unit == "%" else 1
            if not is_known(whole, decimals, scale, claimed, printed):
                yield found[0]


def unbound_beside(notebook, table):
    """The texts beside a table's values with a number that the lesson has nowhere."""
    claimed, printed = known(notebook, table)
    for entry in table.values():
        for text in (entry[field] for field in BESIDE if field in entry):
            for found in BESIDE_NUMBER.finditer(NO_VALUE.sub("", text)):
                whole, decimals = found[1].replace(",", ""), found[2] or ""
                scale = 100 if "%" in text else 1
                if not is_known(whole, decimals, scale, claimed, printed):
                    yield text


@pytest.mark.parametrize("path", authoring.lessons(), ids=lesson_of)
def test_a_number_in_prose_is_measured(path):
    lesson = lesson_of(path)
    constants = CONSTANTS.get(lesson.split("_")[0], {})
    found = set(unbound(authoring.read_notebook(path), claims.table(lesson)))
    assert found <= constants.keys(), f"No claim of the lesson says {found - constants.keys()}."
    assert constants.keys() <= found, (
        f"These are no constants any more: {constants.keys() - found}."
    )


@pytest.mark.parametrize("path", authoring.lessons(), ids=lesson_of)
def test_a_number_beside_a_value_is_measured(path):
    lesson = lesson_of(path)
    constants = BESIDE_CONSTANTS.get(lesson.split("_")[0], {})
    found = set(unbound_beside(authoring.read_notebook(path), claims.table(lesson)))
    assert found == constants.keys()


def test_a_number_in_the_teachers_guide_is_measured(subtests):
    text = (DOCS / "TEACHING.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    for path in authoring.lessons():
        lesson = lesson_of(path)
        notebook = authoring.read_notebook(path)
        section = sections.get(to_html.title(notebook))
        if section is None:
            continue
        said = new_markdown_cell(re.sub(r"[\"“”]", "", section))  # quotations are looked at, too
        notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"] + [said]
        with subtests.test(lesson):
            constants = GUIDE_CONSTANTS.get(lesson.split("_")[0], set())
            assert set(unbound(notebook, claims.table(lesson))) == constants


def test_a_number_that_nobody_measured_is_found():
    lesson = authoring.lessons()[1]
    notebook = authoring.read_notebook(lesson)
    notebook.cells[
        0
    ].source += "\n\nThat is 98.7654 nats, 12,345,678 in all; head 1.6 and $99.99$ don't count."
    found = set(unbound(notebook, claims.table(lesson_of(lesson))))
    assert {"98.7654 nats", "12,345,678"} == found - set(
        unbound(authoring.read_notebook(lesson), claims.table(lesson_of(lesson)))
    )
