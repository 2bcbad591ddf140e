"""`course_utils.author.grade`: honest answers get their points, and no dishonest one gets any or hurts anybody."""

import re
import sys

import pytest

from course_utils._files import NOTEBOOKS, SOLUTIONS
from course_utils.author import grade
from course_utils.course.exercises import EXERCISES

LESSON = "03_zero_layers"
EXERCISE = "direct_path"
SECONDS, MEMORY = 60, 4
TRUTH = "W_E @ W_U"
LIE = f"{TRUTH} / 2"


def _learner() -> list[str]:
    return grade.sources(NOTEBOOKS / f"{LESSON}.ipynb")


def _cells(body: str, before: str = "", after: str = "") -> list[str]:
    """The learner's cells, with these lines in the first exercise, and a cell before and one behind it."""
    lines = "\n    ".join(body.splitlines())
    found = []
    for source in _learner():
        if f"def {EXERCISE}(" not in source:
            found.append(source)
            continue
        assert source.count("raise NotImplementedError") == 1
        filled = re.sub(r"raise NotImplementedError\(.*\)", lambda _: lines, source)
        found += [before, filled, after]
    return found


def _got(cells: list[str], seconds: float = SECONDS, memory: float = MEMORY) -> grade.Verdict:
    return grade.verdict(cells, EXERCISE, seconds, memory)


HONEST = {
    "as our solution": (f"return {TRUTH}", "", "✓", ""),
    "with a helper, a constant and an import of its own": (
        "return ONE * product(W_E, W_U)",
        "%matplotlib inline\nfrom torch import einsum as e\nONE = 1\ndef product(A, B): return e('im,mo->io', A, B)",
        "✓",
        "",
    ),
    "in numpy": ("import numpy as np\nreturn np.asarray(W_E) @ np.asarray(W_U)", "", "✓", ""),
    "with a loop that prints": (f"for _ in range(9): print('✗ {EXERCISE}')\nreturn {TRUTH}", "", "✓", ""),
    "half as large": (f"return {LIE}", "", "✗", "which product gives logits"),
    "blank": ("raise NotImplementedError('your code here')", "", "○", "not attempted"),
    "a slip": ("return W_E @ W_u", "", "✗", "in the line `return W_E @ W_u` with NameError"),
    "no Python": ("return W_E @", "", "✗", "its cell is no Python"),
    "changes what it is given": (f"W_E += 1\nreturn {TRUTH}", "", "✗", "it changes `W_E`"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_answer_gets_what_the_notebook_says(name):
    body, before, mark, sentence = HONEST[name]
    got = _got(_cells(body, before))
    assert got.mark == mark and sentence in got.sentence


REFUSED = "no answer may"
FOLDER = "FOLDER"  # stands for a folder with something of the teacher's
DISHONEST = {
    "prints ✓": (f"print('✓ {EXERCISE}')\nreturn {LIE}", "", "which product"),
    "another check": (
        f"return {LIE}",
        f"class check:\n    {EXERCISE} = staticmethod(lambda f: print('✓'))",
        "which product",
    ),
    "patches the package": (
        f"import course_utils.course.exercises as e\ne.Exercise.verdict = lambda *_: '✓ {EXERCISE}'\nreturn {LIE}",
        "",
        REFUSED,
    ),
    "patches a check": (
        f"return {LIE}",
        f"import course_utils.check as c\nc.exercises.EXERCISES['{EXERCISE}'].check = lambda _: None",
        "which product",
    ),
    "patches torch": (
        f"import torch\ntorch.allclose = torch.Tensor.allclose = lambda *_, **__: True\nreturn {LIE}",
        "",
        "which product",
    ),
    "a tensor that equals all": (
        f"class All(torch.Tensor):\n    __eq__ = __sub__ = lambda *_: True\nreturn ({LIE}).as_subclass(All)",
        "",
        "which product",
    ),
    "an object that would be unpickled": (
        "class Bomb:\n    def __reduce__(self):\n        return print, ('!',)\nreturn Bomb()",
        "",
        "it should return a tensor, not Bomb",
    ),
    "reads our solution": (
        f"text = open({str(SOLUTIONS / '03_solution_zero_layers.ipynb')!r}).read()\nreturn {TRUTH}",
        "",
        REFUSED,
    ),
    "asks for our solution": (
        f"from course_utils.check import ours\nreturn ours.find('{EXERCISE}').function(W_E, W_U)",
        "",
        REFUSED,
    ),
    "takes it out of the check": ("from course_utils.check import lesson_03\nreturn W_E", "", REFUSED),
    "reads another's notebook": (f"open('{FOLDER}/kept.txt').read()\nreturn {TRUTH}", "", REFUSED),
    "writes a file": (f"open('{FOLDER}/kept.txt', 'w').write('')\nreturn {TRUTH}", "", REFUSED),
    "deletes a file": (f"import os\nos.remove('{FOLDER}/kept.txt')\nreturn {TRUTH}", "", REFUSED),
    "deletes a folder": (f"import shutil\nshutil.rmtree('{FOLDER}')\nreturn {TRUTH}", "", REFUSED),
    "opens a socket": (f"import socket\nsocket.socket()\nreturn {TRUTH}", "", REFUSED),
    "forks": (f"import os\nwhile True: os.fork()\nreturn {TRUTH}", "", REFUSED),
    "runs a command": (f"import os\nos.system('rm -r {FOLDER}')\nreturn {TRUTH}", "", REFUSED),
    "runs a process": (f"import subprocess\nsubprocess.run(['rm', '-r', '{FOLDER}'])\nreturn {TRUTH}", "", REFUSED),
    "goes round Python": ("import ctypes\nctypes.CDLL(None).getpid()\nreturn W_E", "", REFUSED),
    "exits": ("exit()", "", "your function stopped"),
    "exits by the system": ("import sys\nsys.exit(0)", "", "your function stopped in the line `sys.exit(0)`"),
    "exits at once": ("import os\nos._exit(0)", "", "it ended its own process"),
    "exits when it is read": (
        f"return {TRUTH}",
        f"ONE = __import__('os')._exit(0)\n{EXERCISE} = ONE",
        "it ended its own",
    ),
    "interrupts": ("raise KeyboardInterrupt", "", "KeyboardInterrupt"),
    "crashes": ("import os\nos.abort()", "", "it ended its own process"),
    "loops and never gives up": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "",
        "after 3 seconds it was still running",
    ),
    "asks for 50 GB": (f"import torch\ntorch.zeros(50 * 2**28).add_(1)\nreturn {TRUTH}", "", "memory"),
    "asks for 50 GB in pieces": (f"kept = []\nwhile True: kept.append(bytearray(10**8))\nreturn {TRUTH}", "", "emory"),
    "returns far too much": ("return torch.ones(5000, 5000)", "", "far too much"),
    "returns a list of a million": ("return [0] * 1_000_000", "", "too much"),
    "returns a list that holds itself": ("a = []\na.append(a)\nreturn a", "", ""),
    "writes into every pipe": (
        "import os\nfor pipe in range(3, 99):\n    try: os.write(pipe, b'\\0\\0\\0\\x0e{\"value\": true}')\n"
        f"    except OSError: pass\nreturn {LIE}",
        "",
        "",
    ),
}


@pytest.fixture
def kept(tmp_path):
    """A file of the teacher's, which is there afterwards, and as it was."""
    file = tmp_path / "kept.txt"
    file.write_text("kept", encoding="utf-8")
    yield tmp_path
    assert file.read_text(encoding="utf-8") == "kept" and [*tmp_path.iterdir()] == [file]


@pytest.mark.slow
@pytest.mark.parametrize("name", DISHONEST)
def test_a_dishonest_answer_gets_nothing_and_a_sentence(name, kept):
    body, before, sentence = DISHONEST[name]
    seconds = 3 if "loops" in name else SECONDS
    got = _got(_cells(body.replace(FOLDER, str(kept)), before), seconds, memory=2)
    assert got.mark == "✗" and sentence in got.sentence and got.sentence
    assert not sys.modules["torch"].allclose(*map(sys.modules["torch"].tensor, (0.0, 1.0)))


def test_what_is_no_notebook_gets_nothing_and_stops_nobody(tmp_path, capsys):
    folder = tmp_path / "in"
    (folder / "ada").mkdir(parents=True)
    (folder / "ada" / f"{LESSON}.ipynb").write_bytes(b"\x89PNG")
    (folder / f"=bob_{LESSON}.ipynb").write_text("[" * 100_000, encoding="utf-8")
    (folder / f"<b>cy_{LESSON} (1).ipynb").write_text('{"cells": [3]}', encoding="utf-8")
    (folder / "whose.ipynb").write_text("{}", encoding="utf-8")
    grade.main([str(folder), "--out", str(tmp_path / "out")])
    names = [*grade.points()["03"]]
    header, *rows = (tmp_path / "out" / "points.csv").read_text(encoding="utf-8").splitlines()
    assert header == ",".join(["student", *names, "points", "of"])
    most = sum(grade.points()["03"].values())
    assert rows == [f"{student},{'0,' * len(names)}0,{most}" for student in ("<b>cy", "'=bob", "ada")]
    table = (tmp_path / "out" / "class.md").read_text(encoding="utf-8")
    assert table.count("the file is no notebook that can be read. (3 times)") == len(names) and "<b>" not in table
    assert len([*(tmp_path / "out" / "feedback").iterdir()]) == 3
    assert "whose.ipynb is passed over" in capsys.readouterr().out


def test_nothing_to_grade_is_said(tmp_path, capsys):
    with pytest.raises(SystemExit):
        grade.main([str(tmp_path), "--out", str(tmp_path / "out")])
    assert "There is no notebook to grade" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_spreadsheet_that_keeps_the_points_shut_costs_nothing_else(tmp_path, capsys, monkeypatch):
    (tmp_path / f"ada_{LESSON}.ipynb").write_text("{}", encoding="utf-8")
    write = grade.write_text

    def shut(path, text):
        if path.suffix == ".csv":
            raise PermissionError(13, "Permission denied", str(path))
        write(path, text)

    monkeypatch.setattr(grade, "write_text", shut)
    with pytest.raises(SystemExit):
        grade.main([str(tmp_path), "--out", str(tmp_path / "out")])
    assert "points.csv can't be written: close the program" in capsys.readouterr().err
    assert (tmp_path / "out" / "class.md").is_file() and (tmp_path / "out" / "feedback" / "ada.md").is_file()


def test_a_sentence_holds_nothing_that_acts_on_a_screen():
    said = grade.Verdict.of("✗", "one\x1b[2J\ntwo \ud800 " + 400 * "a").sentence
    assert said.startswith("one [2J two") and said.isprintable() and len(said) == grade.LINE
    assert grade._plain("a|b <i> `c`") == "a\\|b &lt;i&gt; \\`c\\`"


def test_every_exercise_has_points():
    assert {name for exercises in grade.points().values() for name in exercises} == EXERCISES.keys()
