"""What the solution notebooks store says what the lessons' tables say; no kernel runs.

nbval leaves the values of claims to the claims themselves, so it never reads a stored one back. Yet
GitHub, the site and the slides show what is stored. What no test reads in it: the lines of a
picture (nbval compares the words about it), and the error behind a "±".
"""

import ast
import functools
import json
import re

import pytest
from bs4 import BeautifulSoup

from course_lessons import replication
from course_tools import authoring
from course_utils._files import ROOT, lesson_of
from course_utils.course import bets, claims

NUMBER = r"(−?\d[\d,]*(?:\.\d+)?(?:e[+−-]\d+)?)(?: ± −?[\d.,]+)?"
LESSONS = authoring.lessons()
TABLES = {"siblings": replication, "sources_and_ours": claims}  # what shows one, and its module


@functools.cache
def _cells(path):
    """The code cells of a notebook: the tree of each source, and what its outputs hold."""
    found = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            data = [output.get("data", {}) for output in cell["outputs"]]
            shown = [{kind: "".join(said) for kind, said in each.items()} for each in data]
            found.append((ast.parse("".join(cell["source"])), shown))
    return found


def _calls(tree, *names):
    """The calls of functions by their names: name, arguments, and arguments by name."""
    for node in ast.walk(tree):
        name = getattr(getattr(node, "func", None), "id", "")
        if isinstance(node, ast.Call) and name in names:
            yield name, node.args, {word.arg: word.value for word in node.keywords}


def _rows(shown):
    """What stands in the tables of claims and identities: sign, statement, value."""
    for data in shown:
        text = data.get("text/plain", "")
        if text[:2] in ("▪ ", "≡ ", "✗ "):
            for line in text.splitlines():
                sign, _, what = line.partition(" ")
                value = ""
                if sign == claims.CLAIM:
                    what, _, value = what.partition(": ")
                yield claims.Row(sign, what, value)


def _false(value, entry, unit):
    """What is wrong with a stored value, by the entry of its table; "" where it says the same.

    It may be off by the entry's tolerance, and by half of its own last digit.
    """
    times = 100 if unit == "%" else 1
    behind = f" {re.escape(unit)}" if unit else ""
    if "value" in entry:
        pattern, numbers = _expected(entry["value"], entry.get("tolerance"), behind)
        found = re.fullmatch(pattern, value)
        if not found:
            return f"it should read as {pattern}"
        for said, (number, tolerance) in zip(found.groups(), numbers, strict=True):
            off = abs(_read(said) / times - number)
            if off > (tolerance or 0) + _half_a_digit(said) / times + 1e-12:
                return f"{said} should be {number * times:g}"
        return ""
    # bounds: of whatever numbers there are
    least = entry.get("least", float("-inf"))
    most = entry.get("most", float("inf"))
    for part in re.split("[,;] ", value):
        found = re.fullmatch(rf"(?:.*: )?{NUMBER}{behind}", part)
        if not found:
            return f"{part} is no number with {unit or 'no unit'}"
        room = _half_a_digit(found[1]) / times
        if not least - room <= _read(found[1]) / times <= most + room:
            return f"{part} is out of bounds"
    return ""


def _expected(value, tolerance, behind):
    """A pattern for a value as lessons print it, and the numbers that its groups should be."""
    if isinstance(value, dict | list):
        items = value if isinstance(value, dict) else dict(enumerate(value))
        has_lists = any(isinstance(item, list) for item in items.values())
        each = tolerance
        if not isinstance(tolerance, dict):
            is_list = isinstance(tolerance, list)
            each = dict(enumerate(tolerance)) if is_list else dict.fromkeys(items, tolerance)
        parts, numbers = [], []
        for key, item in items.items():
            pattern, more = _expected(item, each[key], behind)
            name = f"{re.escape(key)}: " if isinstance(value, dict) else ""
            parts.append(name + pattern)
            numbers += more
        return ("; " if has_lists else ", ").join(parts) or "none", numbers
    if isinstance(value, bool):
        return ("yes" if value else "no"), []
    if isinstance(value, str):
        return re.escape(value), []
    return NUMBER + behind, [(value, tolerance)]


def _read(said):
    return float(said.replace(",", "").replace("−", "-"))


def _half_a_digit(said):
    """Half of what the last digit of a number is worth; nothing for a whole number."""
    digits, _, power = said.partition("e")
    decimals = len(digits.partition(".")[2])
    if not decimals and not power:
        return 0
    return 0.5 * 10.0 ** (float(power.replace("−", "-") or 0) - decimals)


def _units(path):
    """The unit of each claim whose statement and unit are written out."""
    found = {}
    for tree, _ in _cells(path):
        for _, arguments, named in _calls(tree, "claim"):
            unit = named.get("unit", arguments[2] if len(arguments) > 2 else ast.Constant(""))
            if isinstance(arguments[0], ast.Constant) and isinstance(unit, ast.Constant):
                found[arguments[0].value] = unit.value
    return found


def _problems(path, rows):
    """What is wrong with the claims that a notebook stores, one sentence each."""
    table = claims.table(lesson_of(path))
    units = _units(path)
    told = [row for row in rows if row.sign == claims.CLAIM]
    for row in told:
        if row.what not in table:
            yield f"{row.what}: no entry in the table"
            continue
        behind = re.search(r"\d ([^\d,;]+)$", row.value)
        unit = units.get(row.what, behind[1] if behind else "")
        problem = _false(row.value, table[row.what], unit)
        if problem:
            yield f"{row.what}: {row.value}, and {problem}"
    for statement in table.keys() - {row.what for row in told}:
        yield f"{statement}: it is stored nowhere"
    yield from (f"{row.what}: it does not hold" for row in rows if row.sign == claims.FALSE)


def test_a_stored_claim_says_what_its_table_says(subtests):
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            rows = [row for _, shown in _cells(path) for row in _rows(shown)]
            assert [*_problems(path, rows)] == []


def _pattern(statement):
    """A pattern for a statement as a call has it; what is filled in may be anything."""
    if isinstance(statement, ast.JoinedStr):
        return "".join(map(_pattern, statement.values))
    is_written = isinstance(statement, ast.Constant)
    return re.escape(statement.value) if is_written else ".+"


def test_a_stored_identity_is_one_that_its_cell_states(subtests):
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            for tree, shown in _cells(path):
                told = [row.what for row in _rows(shown) if row.sign == claims.IDENTITY]
                patterns = []
                for _, arguments, named in _calls(tree, "identity"):
                    within = "1e-4"
                    if "within" in named:
                        within = ast.unparse(named["within"])
                    pattern = _pattern(arguments[0])
                    pattern += rf"(?: \(to {float(within):g}\))?"
                    if "control" in named:
                        pattern += "; the control: differs"
                    patterns.append(pattern)
                assert all(any(re.fullmatch(one, what) for one in patterns) for what in told)
                assert all(any(re.fullmatch(one, what) for what in told) for one in patterns)


def test_what_is_stored_as_html_says_what_is_stored_as_text(subtests, monkeypatch):
    drawn = []
    monkeypatch.setattr(claims, "display", lambda data, raw: drawn.append(data))
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            for _, shown in _cells(path):
                for data in shown:
                    text, html = data.get("text/plain", ""), data.get("text/html", "")
                    rows = [*_rows([data])]
                    if rows:  # the table, made anew
                        monkeypatch.setattr(claims, "_rows", rows)
                        claims._show_rows(None)
                        assert drawn.pop() == data
                    elif text.startswith("Predict: "):
                        question, _, options = text.removeprefix("Predict: ").partition("\n")
                        assert f"</b> {bets.markup(question)}</p>" in html
                        choices = re.findall("<li>(.*?)</li>", html)
                        assert not choices or choices == [*map(bets.markup, options.split(" · "))]
                    elif "<img" in html and not text.startswith("<"):
                        assert BeautifulSoup(html, "html.parser").img["alt"] == text


def test_type_in_figures_has_11_pixels_on_a_page_of_790(subtests):
    widest, smallest = 895, 9  # pixels; points, of which 72 are 100 pixels
    assert smallest * 100 / 72 * 790 / widest >= 11
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            stored = "".join(data.get("text/html", "") for _, each in _cells(path) for data in each)
            widths = re.findall(r'<img src="data[^>]*? width="(\d+)" class="figure"', stored)
            assert max(map(int, widths), default=0) <= widest
    drawn = (ROOT / package for package in ("course_lessons", "course_utils"))
    for path in sorted(file for folder in drawn for file in folder.rglob("*.py")):
        sizes = re.findall(r"(?:font|label)size=([\d.]+)", path.read_text(encoding="utf-8"))
        assert all(float(size) >= smallest for size in sizes), path


def test_a_stored_table_of_sources_or_siblings_is_what_its_cell_shows(subtests, monkeypatch):
    made = []

    def keep(table):
        return lambda *given: made.append(table(*given).data)

    for name, module in TABLES.items():
        monkeypatch.setattr(module, name, keep(getattr(module, name)))
    for path in LESSONS:
        with subtests.test(lesson_of(path)):
            names = {}
            for tree, shown in _cells(path):
                if any(_calls(tree, *TABLES)):
                    made.clear()
                    exec(compile(tree, lesson_of(path), "exec"), names)
                    assert [data["text/markdown"] for data in shown if data] == made


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("9.3 nats", "42 %"), "should read as"),
        (("9.3 nats", "9.3 bits"), "should read as"),
        (("9.3 nats", "9.8 nats"), "should be 9.3"),
        (("0.120", "0.130"), "should be 0.12"),
        (("keys of 1.1", "keys of 1.2"), "should read as"),
        (("median strength between the layers", "mean strength"), "no entry in the table"),
    ],
)
def test_a_false_stored_value_is_seen(change, problem):
    path = authoring.solution_path("02b_algebra")
    rows = [row for _, shown in _cells(path) for row in _rows(shown)]
    changed = [row._replace(what=row.what.replace(*change)) for row in rows]
    changed = [row._replace(value=row.value.replace(*change)) for row in changed]
    assert any(problem in found for found in _problems(path, changed))
