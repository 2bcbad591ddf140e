"""Which exercises are done."""

import json
import os
import subprocess
import sys

import pytest

from course_tools import authoring
from course_utils.course import progress


def _notebook(path, **printed):
    """A lesson as JupyterLab saves it: per exercise a heading, and what its check printed."""
    cells = []
    for number, (name, text) in enumerate(printed.items(), 1):
        heading = f"### Exercise {number} · `{name}` &nbsp; ●○○ · 5 minutes\n\nWrite it."
        cells.append(
            {"cell_type": "markdown", "id": name, "source": heading.splitlines(keepends=True)}
        )
        output = {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
        cells.append(
            {
                "cell_type": "code",
                "metadata": {},
                "source": f"check.{name}({name})",
                "outputs": [output] if text else [],
            }
        )
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")


def test_the_last_word_of_every_check_counts(tmp_path):
    _notebook(
        tmp_path / "03_zero_layers.ipynb",
        a="✓ a\n",
        b="✗ b: a sum of 2.\n",
        c="○ c: not attempted yet.\n",
        d="",
    )
    assert progress.marks(tmp_path) == {"03": {"a": "✓", "b": "✗", "c": "○", "d": "○"}}
    _notebook(tmp_path / "03_zero_layers.ipynb", a="✗ a: no.\n✓ a\n", b="✓ b\n✗ b: no longer.\n")
    assert progress.marks(tmp_path)["03"] == {"a": "✓", "b": "✗"}


def test_the_best_copy_counts(tmp_path):
    _notebook(tmp_path / "03_zero_layers.ipynb", a="○ a: not attempted yet.\n", b="✓ b\n")
    _notebook(tmp_path / "03_mine.ipynb", a="✓ a\n", b="✗ b: no.\n")
    _notebook(tmp_path / "07_induction_heads.ipynb", z="")
    assert progress.marks(tmp_path) == {"03": {"a": "✓", "b": "✓"}, "07": {"z": "○"}}


def test_the_best_cell_counts_and_only_where_the_check_is_called(tmp_path):
    path = tmp_path / "11_final_case.ipynb"
    _notebook(path, a="✓ a\n", b="✗ b: no.\n", case_1="○ case_1: not attempted yet.\n", c="")
    notebook = json.loads(path.read_text(encoding="utf-8"))

    # below: a's blank, run; what was tried of b; a box, solved; a print that no check said
    below = {
        "a = check.a(a)": "○ a: not attempted yet. The lesson goes on with ours.\n",
        "b = check.b(b)": "✗ b: still not.\n",
        "case_1 = check.case(1, case_1)": "✓ case_1\n  holds  all of it\n",
        "print('✓ c')  # no check": "✓ c\n",
    }
    for source, text in below.items():
        output = {"output_type": "stream", "name": "stdout", "text": text}
        notebook["cells"].append({"cell_type": "code", "source": source, "outputs": [output]})
    path.write_text(json.dumps(notebook), encoding="utf-8")
    expected = {"a": "✓", "b": "✗", "case_1": "✓", "c": "○"}
    assert progress.marks(tmp_path)["11"] == expected


def test_what_was_solved_where_it_once_stood_counts(tmp_path):
    """An exercise that has moved to another lesson, and the learner's copy of the old one."""
    _notebook(tmp_path / "02_residual_stream.ipynb", a="✓ a\n", b="✓ b\n")
    _notebook(tmp_path / "02b_algebra.ipynb", b="", c="")
    assert progress.marks(tmp_path)["02b"] == {"b": "✓", "c": "○"}


def test_a_verdict_on_a_card_counts_as_a_printed_one(tmp_path):
    path = tmp_path / "03_zero_layers.ipynb"
    _notebook(path, a="✓ a\n", b="")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell, text in zip(
        notebook["cells"][1::2], ("✗ a: no.\n  The lesson goes on.", "✓ b"), strict=True
    ):
        data = {"text/plain": text.splitlines(keepends=True), "text/html": ["<div>"]}
        cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert progress.marks(tmp_path)["03"] == {"a": "✗", "b": "✓"}


def test_the_lessons_as_they_come_are_blank_and_the_solutions_done():
    done = progress.marks(authoring.SOLUTIONS)
    assert len(done) >= 8 and {mark for lesson in done.values() for mark in lesson.values()} == {
        "✓"
    }
    blank = progress.marks(authoring.SOLUTIONS.parent)
    assert blank == {lesson: dict.fromkeys(exercises, "○") for lesson, exercises in done.items()}


def test_command_line(tmp_path, capsys):
    _notebook(tmp_path / "03_zero_layers.ipynb", a="✓ a\n", b="✗ b: no.\n", c="")
    progress.main([str(tmp_path)])
    assert capsys.readouterr().out.split() == ["03", "✓✗○", "1", "of", "3", "✗", "b,", "○", "c"]


def test_the_signs_reach_a_pipe_in_windows_encoding(tmp_path):
    _notebook(tmp_path / "03_zero_layers.ipynb", a="✓ a\n", b="")
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "course_utils.course.progress", str(tmp_path)]
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.startswith("03  ✓○")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cells": 3}', '{"cells": [{}]}', '{"cells": [{"source": [1]}]}']
)
def test_bad_input_is_one_sentence(tmp_path, capsys, text):
    with pytest.raises(SystemExit):
        progress.main([str(tmp_path)])
    assert f"There is no lesson in {tmp_path}" in capsys.readouterr().err
    (tmp_path / "03_zero_layers.ipynb").write_text(text)
    with pytest.raises(SystemExit):
        progress.main([str(tmp_path)])
    assert "03_zero_layers.ipynb is no notebook that can be read" in capsys.readouterr().err


def test_one_odd_file_ends_no_overview(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _notebook(tmp_path / "03_zero_layers.ipynb", a="✓ a\n")
    (tmp_path / "04_one_layer.ipynb").write_text('{"cells": [')
    (tmp_path / "05_max_of_list.ipynb").mkdir()
    (tmp_path / "06_composition.ipynb").symlink_to(tmp_path / "away.ipynb")
    assert "Go on: 03_zero_layers.ipynb" in repr(progress.Overview())
    said = capsys.readouterr().out
    for name in ("04_one_layer", "05_max_of_list", "06_composition"):
        assert f"{name}.ipynb is no notebook that can be read" in said
    progress.main([str(tmp_path)])
    assert "03  ✓" in capsys.readouterr().out
    # a lesson without exercises is a page, too
    (tmp_path / "03_zero_layers.ipynb").unlink()
    _notebook(tmp_path / "00_start.ipynb")
    assert "none made" in progress.Overview()._repr_mimebundle_()[0]["text/html"]


def test_the_overview_links_each_exercise_and_says_where_to_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _notebook(tmp_path / "00_start.ipynb")
    _notebook(tmp_path / "03_zero_layers.ipynb", a="✓ a\n", b="✗ b: no.\n")
    _notebook(tmp_path / "07_induction_heads.ipynb", z="")
    for time, name in enumerate(("07_induction_heads.ipynb", "03_zero_layers.ipynb")):
        os.utime(tmp_path / name, (time, time))
    page = progress.Overview()._repr_mimebundle_()[0]["text/html"]
    # nothing was run yet
    assert "<b>Begin here: " in page and "Go on: 03_zero_layers.ipynb" in repr(progress.Overview())
    assert (
        'href="03_zero_layers.ipynb#cell-id=b" title="b: not right yet" aria-label="b: not '
        'right yet">✗</a>' in page
    )
    assert "1 of 2" in page and "Predictions: none made." in page and "00_start" not in page

    _run(tmp_path / "03_zero_layers.ipynb")
    notebook, exercise = progress.Overview().next()
    assert (notebook.path.name, exercise) == ("03_zero_layers.ipynb", "b")
    assert "<b>Go on where you stopped: " in progress.Overview()._repr_mimebundle_()[0]["text/html"]
    _notebook(tmp_path / "03_zero_layers.ipynb", a="✓ a\n", b="✓ b\n")
    _run(tmp_path / "03_zero_layers.ipynb")
    notebook, exercise = progress.Overview().next()
    # the next lesson, from its top
    assert (notebook.path.name, exercise) == ("07_induction_heads.ipynb", "")

    kept = {
        "x": {"guess": 1.0, "truth": 1.0, "right": True},
        "y": {"guess": "a", "truth": "b", "right": False},
        "z": {},
    }
    (tmp_path / "my_predictions.json").write_text(json.dumps(kept))
    assert "Predictions: 3 made, 1 of 2 came true so far." in repr(progress.Overview())
    (tmp_path / "my_cases.json").write_text(json.dumps({"box 2": {"a": "false", "b": "solved"}}))
    tally = "Sealed boxes. box 2: 2 tries, 1 false, 7 of 10 points."
    assert (
        tally in repr(progress.Overview())
        and tally in progress.Overview()._repr_mimebundle_()[0]["text/html"]
    )


def _run(path):
    """As after a run: the cells have numbers."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell.update(execution_count=1, metadata={})
    path.write_text(json.dumps(notebook), encoding="utf-8")
