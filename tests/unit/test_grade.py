"""A class at a glance: whose words it believes, and what it makes of odd names."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course_tools import grade

WRONG = "✗ rotate: nothing has been turned at all\n"
CHECK = 'rotate = check.rotate(rotate)\nassert check.rotate.mark == "✓", "see the line above"'


def _cell(source, said, is_locked=False, has_failed=False):
    outputs = [new_output("stream", name="stdout", text=said)]
    if has_failed:
        outputs.append(new_output("error", ename="AssertionError", evalue="", traceback=[]))
    cell = new_code_cell(source, outputs=outputs)
    if is_locked:
        cell.metadata["nbgrader"] = {"grade_id": "rotate-check", "grade": True, "locked": True}
    return cell


def _heard(folder, *cells):
    """What the page believes of a student's notebook."""
    path = folder / "mallory/02b_algebra/02b_algebra.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=list(cells)), path)
    return grade.heard(folder)["mallory"]["rotate"]


FAILED = _cell(CHECK, WRONG, is_locked=True, has_failed=True)
RIGHT = _cell(CHECK, "✓ rotate\n", is_locked=True)
OWN = "rotate = check.rotate(rotate)"
ODD = {
    "a print in a cell of one's own": ([FAILED, _cell("print('✓ rotate')", "✓ rotate\n")], "✗"),
    "a check in a cell of one's own": ([FAILED, _cell(OWN, "✓ rotate\n")], "✗"),
    "a print after the check's word": (
        [_cell(CHECK, f"{WRONG}✓ rotate\n", is_locked=True, has_failed=True)],
        "✗",
    ),
    "nothing but a print": (
        [_cell(CHECK, "✓ rotate\n", is_locked=True, has_failed=True)],
        "○",
    ),
    "a right answer": ([RIGHT], "✓"),
    "a blank run below it": ([RIGHT, _cell(OWN, "○ rotate: not attempted yet.\n")], "✓"),
    "no locked cell": ([_cell(OWN, WRONG), _cell("print('✓ rotate')", "✓ rotate\n")], "✗"),
    "no locked cell, and right": ([_cell(OWN, "✓ rotate\n")], "✓"),
}


@pytest.mark.parametrize(("cells", "mark"), ODD.values(), ids=ODD)
def test_a_mark_is_what_the_locked_check_said(tmp_path, cells, mark):
    assert _heard(tmp_path, *cells)[0] == mark


def test_without_locked_cells_the_teacher_is_told(tmp_path, capsys):
    _heard(tmp_path, _cell(OWN, "✓ rotate\n"))
    assert "has none of nbgrader's locked cells" in capsys.readouterr().out


def test_the_sentence_is_that_of_the_mark(tmp_path):
    assert _heard(tmp_path, FAILED) == ("✗", "nothing has been turned at all")


def test_a_row_of_the_page_is_a_line_whatever_a_student_is_called():
    names = ["a | b", "c\nd", "<b>e</b>", "`f`", "# g", "\\|"]
    page = "\n".join(grade.page({name: {"rotate": ("✗", f"{name}.")} for name in names}))
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 3 + 2 + len(names)
    unescaped = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in rows]
    assert set(unescaped[:3]) == {7} and set(unescaped[3:]) == {4}
