"""No claim is empty: on untrained weights every claim of a lesson must fail, and every identity
must hold.

Three lessons at a time, chosen by a seed; `--untrained all` is for the night, and for who has
changed a lesson.
"""

import json
import random
import re

import pytest

from course_tools import authoring, runner
from course_utils import smollm2
from course_utils._files import lesson_of
from course_utils.course import claims

UNTRAINED = """
import functools
import course_utils.models
course_utils.models.load = functools.partial(course_utils.models.load, step=0)
"""
RECORDED = """
import os
os.environ["COURSE_CLAIMS"] = "record:{}"
import matplotlib
matplotlib.use("template")  # draws nothing: nobody looks at the pictures
from course_utils import plots
plots.picture = lambda alt, sharp=True: plots.plt.close() or dict()  # there is nothing to store
"""
REAL = "13_real_model"
# What it has in place of untrained weights: each group of heads reads its neighbour's keys.
SHUFFLED = """
import course_utils.smollm2

def _shuffled(load):
    def wrapper(**options):
        model = load(**options)
        for layer in model.model.layers:
            keys = layer.self_attn.k_proj.weight  # (group · d_head, d_model)
            keys.data = keys.data.roll(64, 0)
        return model
    return wrapper

course_utils.smollm2.in_transformers = _shuffled(course_utils.smollm2.in_transformers)
"""
AT_A_TIME = 3  # lessons; each runs as long as under nbval


def pytest_generate_tests(metafunc):
    if "path" in metafunc.fixturenames:
        seed, lessons = metafunc.config.getoption("--untrained"), authoring.lessons()
        chosen = (
            lessons if seed == "all" else sorted(random.Random(seed).sample(lessons, AT_A_TIME))
        )
        metafunc.parametrize("path", chosen, ids=lesson_of)


@pytest.mark.beside
def test_only_the_claims_fail_on_untrained_weights(path, tmp_path):
    record = tmp_path / "statements"
    notebook = authoring.read_notebook(path)
    is_real = lesson_of(path) == REAL
    if is_real and not smollm2.is_there():
        pytest.skip("the weights of SmolLM2 are not installed")
    first = SHUFFLED if is_real else UNTRAINED
    first += RECORDED.format(record.as_posix())
    runner.run(notebook, path.parent, first=first, allow_errors=True)
    broken = [
        f"{output.ename}: {output.evalue}\n{cell.source}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    assert not broken, "These cells need trained weights to run at all:\n\n" + "\n\n".join(broken)

    facts = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    table = claims.table(lesson_of(path))
    claimed = {fact["statement"]: fact for fact in facts if fact["kind"] == "claim"}
    assert claimed.keys() == table.keys(), (
        "the lesson claims what its table does not have, or the other way round"
    )
    empty = [s for s, fact in claimed.items() if fact["holds"] and "always" not in table[s]]
    assert not empty, f"These claims do not depend on training: {empty}"
    reasons = [s for s, fact in claimed.items() if not fact["holds"] and "always" in table[s]]
    assert not reasons, f"These were said to hold on any weights: {reasons}"
    identities = [
        fact["statement"] for fact in facts if fact["kind"] == "identity" and not fact["holds"]
    ]
    assert not identities, f"These identities do not hold: {identities}"
    others = []
    for statement, fact in claimed.items():
        said = table[statement].get("control", "")
        if not _as_said(said, fact["value"]):
            others.append(f"{statement}, {said}: {fact['value']}")
    assert not others, f"Untrained weights give other numbers than these controls say: {others}"


# "untrained: below 0.5", "tokens shuffled, and untrained: 0.09", "untrained: 4.4 and 34 %"
SAID = re.compile(
    r"untrained(?: weights| model)?: (below |at most )?(?:ln 4096 = )?((?:[\d,.]+(?: and )?)+)( %)?"
)


def _as_said(control, value):
    """Whether what was measured has each number of the control, rounded; words are for readers."""
    found = SAID.search(control)
    measured = [*_numbers(value)]
    if not found or not measured:
        return True
    bound, said, percent = found.groups()
    for number in re.findall(r"\d[\d,]*(?:\.\d+)?", said):
        decimals = len(number.partition(".")[2])
        scale = 100 if percent else 1
        room = 0.5001 * 10.0**-decimals
        least = float(number.replace(",", "")) - room
        if bound and max(measured) * scale >= least + 2 * room:
            return False
        if not bound and not any(least <= n * scale <= least + 2 * room for n in measured):
            return False
    return True


def _numbers(value):
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield abs(float(value))


@pytest.mark.parametrize(
    ("control", "value", "is_so"),
    [
        ("untrained: 0.31", {"a": [0.3, 0.312]}, True),
        ("untrained: 0.31", 0.32, False),
        ("an even pattern: 28 %", 0.9, True),
        ("tokens shuffled, and untrained: 0.09", [0.0871, 0.2], True),
        ("untrained: 4.4 and 34 %", [0.0438, 0.341], True),
        ("untrained: 4.4 and 34 %", [0.0438, 0.4], False),
        ("untrained: below 0.12", [0.1, 0.11], True),
        ("untrained: below 0.12", [0.1, 0.2], False),
        ("untrained: 3,685 of 8,256", 3685, True),
        ("untrained: 3,685 of 8,256", 3686, False),
        ("single tokens: 6.79; untrained: ln 4096 = 8.3", 8.32, True),
        ("untrained: nowhere in particular", 0.2, True),
        ("an untrained model: 0.31", "another's", True),
    ],
)
def test_a_control_says_what_untrained_weights_gave(control, value, is_so):
    assert _as_said(control, value) == is_so


def test_no_statement_stands_in_two_tables():
    assert sum(len(claims.table(lesson_of(path))) for path in authoring.lessons()) == len(
        claims.expectations()
    )


def test_every_entry_of_a_table_expects_something():
    for statement, entry in claims.expectations().items():
        fields = {
            "value",
            "tolerance",
            "least",
            "most",
            "control",
            "always",
            "source",
            "unit",
            "kind",
            "because",
        }
        assert entry.keys() <= fields, statement
        assert entry.keys() & {"value", "least", "most"} and ": " not in statement, statement
