"""A folded cell may be left out: no open cell of a lesson needs a name that only folded ones make.

Here names alone are looked at, in a second. `pytest --open-only` runs the lessons so.
"""

import builtins
import symtable
from collections.abc import Iterator

import pytest
from nbformat.v4 import new_code_cell

from course_tools import authoring
from course_utils._files import lesson_of

STILL_NEEDED = {  # what open cells take from folded ones today: to be mended with each lesson
    "01_transformer": "Callable F Tensor check draw gpt plots sampling say text torch",
    "02_residual_stream": "held_out",
    "03_zero_layers": "single",
    "04_one_layer": "heads",
    "06_composition": "words",
    "07_induction_heads": "share",
    "08_how_induction_forms": "at saved",
    "09b_grokking": "guessing",
    "10_reading_critically": "contest logit",
}


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inside in table.get_children():
        yield from _scopes(inside)


def _made_and_needed(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell makes, and those that it takes from the cells before it."""
    top = symtable.symtable(source, "<cell>", "exec")
    made = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    made |= {inside.get_name() for inside in top.get_children()}  # functions and classes
    used = {
        one.get_name()
        for scope in _scopes(top)
        for one in scope.get_symbols()
        if one.is_referenced() and (scope is top or one.is_global())
    }
    return made, used - made - set(dir(builtins))


def _needed_from_folds(cells: list) -> set[str]:
    made, folded, needed = {"display", "get_ipython"}, set(), set()
    for cell in cells:
        makes, needs = _made_and_needed(cell.source)
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            folded |= makes
        else:
            needed |= (needs & folded) - made
            made |= makes
    return needed


@pytest.mark.parametrize("path", authoring.lessons(), ids=lesson_of)
def test_no_open_cell_needs_a_folded_one(path):
    cells = [cell for cell in authoring.read_notebook(path).cells if cell.cell_type == "code"]
    assert _needed_from_folds(cells) == {*STILL_NEEDED.get(lesson_of(path), "").split()}


def test_the_test_sees_a_name_that_a_fold_makes():
    cells = [
        new_code_cell("import math"),
        new_code_cell("half = 1 / 2", metadata={"jupyter": {"source_hidden": True}}),
        new_code_cell("def area(r):\n    return math.pi * r * half\n"),
    ]
    assert _needed_from_folds(cells) == {"half"}
