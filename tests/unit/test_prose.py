"""Numbers in prose: each is the value of a claim of its lesson, rounded, or something that its
cells print or set.

What is left is a constant, and has its reason here. Looked at are numbers that measure: with "%" or
"nats", with two decimals or more, or with a comma for thousands. A head's number, a formula, a
quotation, a table are left out.
"""

import re

import pytest

from course_tools import authoring, links
from course_utils._files import lesson_of
from course_utils.course import claims

NUMBER = re.compile(
    r"(?<![\w.·/])[−-]?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?:\s?(%|nats))?(?!\w|\.\d|,\d{3})"
)
LEFT_OUT = re.compile(
    r'\$\$.*?\$\$|\$.*?\$|```.*?```|`[^`]*`|\]\([^)]*\)|^\|.*?$|^#.*?$|"[^"]*"|“[^”]*”',
    re.DOTALL | re.MULTILINE,
)
CONSTANTS = {  # lesson → number → why it is no claim
    "02": {"3,048": "24 · 127"},
    "03": {"1.44": "1 / ln 2"},
    "04": {"1,000": "the unit of a rate", "0.64": "data/REPLICATION.md"},
    "04b": {"16,384": "2 · 256 · 32"},
    "05": {"100,000": "an order of magnitude", "4,096": "64 · 64", "3,000": "the recipe's steps"},
    "06": {"4,096": "tokens", "0.47": "data/REPLICATION.md", "0.77": "data/REPLICATION.md"},
    "07b": {"4,096": "tokens", "3.6 nats": "a claim of lesson 07"},
    "07c": {"1,024": "4⁵"},
    "11": {"80 %": "what the judge counts as sure"},
    "09b": {"3.97 nats": "the logarithm of 53"},
    "09c": {
        "0.300": "3/5 · (1 − density) at a density of a half",
        "−1.17": "the pentagon's weights, by hand",
        "50 %": "a density",
        "25 %": "read off the figure above it",
        "33,000": "how many activations the helper draws",
    },
}


def numbers(value):
    """All numbers in a claim's value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield abs(value)


def unbound(notebook, table):
    """The numbers in a lesson's prose that no claim, no output and no code of it has."""
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
    for cell in notebook.cells:
        if cell.cell_type != "markdown" or cell.id in links.IDS:
            continue
        for found in NUMBER.finditer(LEFT_OUT.sub("", cell.source)):
            whole, decimals, unit = found[1].replace(",", ""), found[2] or "", found[3]
            if len(decimals) < 3 and not unit and "," not in found[1]:
                continue
            step, scale = 10.0 ** min(0, 1 - len(decimals)), 100 if unit == "%" else 1
            is_claimed = any(
                abs(scale * n - float(whole + decimals)) <= 0.5001 * step for n in claimed
            )
            if not is_claimed and whole + decimals not in printed:
                yield found[0]


@pytest.mark.parametrize("path", authoring.lessons(), ids=lesson_of)
def test_a_number_in_prose_is_measured(path):
    lesson = lesson_of(path)
    constants = CONSTANTS.get(lesson.split("_")[0], {})
    found = set(unbound(authoring.read_notebook(path), claims.table(lesson)))
    assert found <= constants.keys(), f"No claim of the lesson says {found - constants.keys()}."
    assert constants.keys() <= found, (
        f"These are no constants any more: {constants.keys() - found}."
    )


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
