"""Notebooks that must fail, and one that must pass, under the settings that plain `pytest` uses
here.
"""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbval.plugin import get_sanitize_patterns

ROOT = Path(__file__).resolve().parents[2]
SANITIZE = ROOT / "tests" / "nbval_sanitize.cfg"
pytestmark = pytest.mark.beside
TIMEOUT = 3  # seconds for one cell of these notebooks


def _cell(source, *outputs, executed=True, tags=()):
    return new_code_cell(
        source,
        outputs=list(outputs),
        execution_count=1 if executed else None,
        metadata={"tags": list(tags)},
    )


def _printed(text):
    return new_output("stream", text=text)


def _result(text, **data):
    return new_output("execute_result", data={"text/plain": text, **data}, execution_count=1)


MUST_FAIL = {  # the cell, and what its failure must say
    "wrong_result": (_cell("1 + 1", _result("3")), "Cell outputs differ"),
    "changed_stdout": (_cell("print('loss 2.84')", _printed("loss 2.85\n")), "Cell outputs differ"),
    "unstored_output": (_cell("print('loss 2.84')"), "Unexpected output fields"),
    "missing_output": (_cell("loss = 2.84", _printed("loss 2.84\n")), "Missing output fields"),
    "unknown_magic": (
        _cell("%no_such_magic\nraise ValueError", executed=False),
        "stopped before its end: UsageError",
    ),
    "exit": (_cell("exit"), "shut down its kernel"),
    "exit_at_the_end": (_cell("print('done')\nexit()", _printed("done\n")), "shut down its kernel"),
    "system_exit": (_cell("import sys\nsys.exit()", executed=False), "SystemExit"),
    "dead_kernel": (_cell("import os\nos._exit(1)", executed=False), "The kernel died"),
    "failed_assertion": (_cell("assert 1 + 1 == 3"), "AssertionError"),
    "endless": (_cell("import time\ntime.sleep(1000)"), f"Timeout of {TIMEOUT} seconds"),
    "endless_and_deaf": (
        _cell("import time\ntry:\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    pass"),
        "swallowed the interrupt",
    ),
    "endless_and_excused": (
        _cell("import time\ntime.sleep(1000)", executed=False, tags=["raises-exception"]),
        "ran into its timeout",
    ),
}
ON_A_FILE = """import json, os
from ipykernel import get_connection_info
json.loads(get_connection_info())["transport"] == ("ipc" if os.name == "posix" else "tcp")"""
MUST_PASS = [
    _cell("def f():\n    raise NotImplementedError('your code here')", executed=False),
    _cell("print('loss 2.84')", _printed("loss 2.84\n")),
    _cell("1 + 1;"),
    _cell("2 * 3", _result("6")),
    _cell("Out[4]", _result("6")),
    _cell("print('trained in 31.2 s')", _printed("trained in 29 s\n")),
    _cell(
        "assert 0, 'why'",
        new_output("error", ename="AssertionError", evalue="why"),
        tags=["raises-exception"],
    ),
    _cell("f()", executed=False, tags=["raises-exception"]),
    _cell(
        "from IPython.display import HTML\nHTML('<b>1</b>')",
        tags=["interactive", "nbval-ignore-output"],
    ),
    _cell(ON_A_FILE, _result("True")),  # kernels side by side race for no port
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """For every notebook, by name: its cells' failures (None for a cell that passed) and durations
    in seconds.
    """
    folder = tmp_path_factory.mktemp("guarded")
    notebooks = {name: [cell] for name, (cell, _) in MUST_FAIL.items()} | {"good": MUST_PASS}
    for name, cells in notebooks.items():
        nbformat.write(new_notebook(cells=cells), folder / f"{name}.ipynb")
    # one run for all; -c brings the project's own settings to a folder outside it, -p conftest
    # brings the guard
    options = [
        "-c",
        "pyproject.toml",
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        f"--nbval-cell-timeout={TIMEOUT}",
    ]
    report = folder / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        f"--junitxml={report}",
        "--color=no",
        str(folder),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 1, run.stdout + run.stderr
    found = {name: [] for name in notebooks}
    for case in ElementTree.parse(report).iter("testcase"):
        failure = next(iter(case), None)
        # …/good.ipynb, with dots for slashes
        name = Path(case.get("classname").replace(".", "/")).parent.name
        found[name].append((None if failure is None else failure.text, float(case.get("time"))))
    return found


@pytest.mark.parametrize("name", MUST_FAIL)
def test_must_fail(name, verdicts):
    [(failure, seconds)] = verdicts[name]
    assert failure is not None and MUST_FAIL[name][1] in failure
    assert seconds < 30


def test_must_pass(verdicts):
    assert [failure for failure, _ in verdicts["good"]] == [None] * len(MUST_PASS)


def test_every_sanitize_rule_is_in_force():
    text = SANITIZE.read_text(encoding="utf-8")
    rules = get_sanitize_patterns(text)
    # nbval drops a malformed rule silently
    assert len(rules) == len(re.findall("^regex", text, re.MULTILINE)) > 0


@pytest.mark.parametrize(
    ("text", "sanitized"),
    [
        ("trained in 31.2 s", "trained in SOME s"),
        ("loss 2.84 nats, 3 steps, 0x1f, d_head 32", "loss 2.84 nats, 3 steps, 0x1f, d_head 32"),
        (
            '<img src="data:image/svg+xml;base64,PHN2Zz4=" alt="0.94">',
            '<img src="DRAWING" alt="0.94">',
        ),
        ('<div data-facts="W3sieCI6MX1d">', '<div DRAWING">'),
    ],
)
def test_sanitize_rules(text, sanitized):
    for regex, replacement in get_sanitize_patterns(SANITIZE.read_text(encoding="utf-8")):
        text = re.sub(regex, replacement, text)
    assert text == sanitized
