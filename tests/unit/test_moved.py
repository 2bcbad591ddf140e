"""Learners' copies of version 0.3 find what has moved since, at the places where they look."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.course import check, exercises

ROOT = Path(__file__).parents[2]
# What the copy of each lesson asks for, in its order; `fit = bigrams.fit` stands for its use.
COPIES = {
    "00": ["from course_utils.lessons.l00_start import figures as lesson_00"],
    "01": [
        "from course_utils import gpt",
        "from course_utils.lessons.l01_transformer import figures as draw",
        "from course_utils.lessons.l01_transformer import writing",
    ],
    "02": ["from course_utils.lessons.l02_residual_stream import figures as draw"],
    "02b": [
        "from course_utils.lessons.l02b_algebra import figures as draw",
        "from course_utils.lessons.l02b_algebra import today",
    ],
    "03": [
        "from course_utils.lessons.l03_zero_layers import figures as draw",
        "from course_utils import bigrams",
        "fit = bigrams.fit",
        "pair_loss = bigrams.pair_loss",
        "row_centred_correlation = bigrams.row_centred_correlation",
        "train_factors = bigrams.train_factors",
        "svd_cut = bigrams.svd_cut",
    ],
    "04": [
        "from course_utils.lessons.l04_one_layer import figures as draw",
        "from course_utils.lessons.l04_one_layer.explorer import Explorer",
    ],
    "04b": [
        "from course_utils.lessons.l04b_what_reading_misses import figures as draw",
        "from course_utils.course import ours",
    ],
    "05": [
        "from course_utils.lessons.l05_max_of_list import max_of_list",
        "from course_utils.lessons.l05_max_of_list import figures as draw",
    ],
    "06": [
        "from course_utils.lessons.l06_composition import figures as draw",
        "from course_utils.composition import null",
    ],
    "07": ["from course_utils.lessons.l07_induction_heads import figures as draw"],
    "07b": [
        "from course_utils.lessons.l07b_second_writer import figures as draw",
        "from course_utils import text",
        "kinds_of_position = text.kinds_of_position",
        "variants = text.variants",
    ],
    "07c": [
        "from course_utils.lessons.l07c_programs import figures as draw",
        "from course_utils.lessons.l07c_programs import lookup",
        "from course_utils.programs import Head, Program, back, both, compiled, everywhere, run",
    ],
    "08": [
        "from course_utils.lessons import l08_how_induction_forms as formation",
        "from course_utils.lessons.l08_how_induction_forms import experiments",
        "from course_utils.lessons.l08_how_induction_forms import figures as draw",
    ],
    "09": [
        "from course_utils import tasks",
        "from course_utils.lessons.l09_mlps import figures as draw",
        "from course_utils.lessons.l09_mlps import addition",
    ],
    "09b": [
        "from course_utils import fourier",
        "from course_utils.lessons.l09b_grokking import figures as draw",
        "from course_utils.lessons.l09b_grokking import grokking",
    ],
    "09c": [
        "from course_utils import autoencoder",
        "from course_utils.lessons.l09c_superposition import figures as draw",
        "from course_utils.lessons.l09c_superposition import superposition",
        "from course_utils.lessons.l09c_superposition import neurons",
    ],
    "10": [
        "from course_utils.lessons.l10_reading_critically import boxes",
        "from course_utils.lessons.l10_reading_critically import figures as draw",
        "from course_utils import paths",
        "to_logit = paths.to_logit",
        "from course_utils.programs import Head, Program, back, where",
    ],
    "11": [
        "from course_utils.lessons.l11_final_case import figures as draw",
        "from course_utils.lessons.l11_final_case import languages",
        "from course_utils.programs import Head, back, both, but_not, listed, unless, where",
    ],
    "12": ["from course_utils.lessons.l12_questions.keys import before_and_after, true_one"],
    "none of these": ["from course_utils import programs"],
}
# The same, where it is now.
NOW = {
    "from course_utils.lessons.l01_transformer import writing": (
        "from course_lessons.l01b_writing import sampling as writing"
    ),
    "from course_utils import gpt": "from course_lessons import gpt",
    "from course_utils import tasks": "from course_utils.training import tasks",
    "from course_utils import fourier": "from course_lessons import fourier",
    "from course_utils import autoencoder": (
        "from course_lessons.l09c_superposition import autoencoder"
    ),
    "from course_utils import programs": "from course_lessons import programs",
    "from course_utils.course import ours": "from course_utils.course import solutions as ours",
    "from course_utils.programs": "from course_lessons.programs",
    "from course_utils.composition": "from course_lessons.l06_composition.null",
    "import today": "import small_llama as today",
    "l12_questions.keys": "l12_questions.answer_key",
    "from course_utils.lessons.l10_reading_critically import boxes": (
        "from course_lessons import boxes"
    ),
    "from course_utils.lessons.l11_final_case import languages": (
        "from course_lessons.sealed import languages"
    ),
    "from course_utils.lessons.l05_max_of_list import max_of_list": (
        "from course_lessons import max_of_list"
    ),
    "course_utils.lessons": "course_lessons",
}
USED = {  # where a function is now that was in a module of the ground floor
    "bigrams": "thin_tables",
    "text": "l07b_second_writer.kinds",
    "paths": "l10_reading_critically.to_logit",
}
# One process for all: torch takes long to import, and stays when the course is forgotten.
SCRIPT = """
import json, sys

def forget():
    for name in [name for name in sys.modules if name.startswith("course_")]:
        del sys.modules[name]
    is_ours = lambda finder: type(finder).__module__ == "course_lessons.moved"
    sys.meta_path[:] = [finder for finder in sys.meta_path if not is_ours(finder)]

def differences(then, now):
    forget()  # as in a new kernel
    old, new = {}, {}
    try:
        for line in then:
            exec(line, old)
        for line in now:
            exec(line, new)
    except Exception as error:
        return f"{line}: {error!r}"
    del old["__builtins__"]
    return [name for name in old if old[name] is not new[name]]

def lessons():
    return [name for name in sys.modules if name.startswith("course_lessons")]

def failure(line):
    try:
        exec(line, {})
    except Exception as error:
        return type(error).__name__, str(error)

copies, unknown = json.load(sys.stdin)
import course_utils
alone = lessons()
for name in course_utils.__all__:
    getattr(course_utils, name)
all_names = lessons()
import course_utils.lessons
unknown = [failure(line) for line in unknown]
copies = {name: differences(*lines) for name, lines in copies.items()}
print(json.dumps({"alone": alone, "all names": all_names, "unknown": unknown, "copies": copies}))
"""
UNKNOWN = [
    "import course_utils; course_utils.svd_cuts",
    "import course_utils.lessons; course_utils.lessons.svd_cuts",
    "from course_utils import bigrams; bigrams.svd_cuts",
    "from course_utils import measure; measure.svd_cuts",
]


def _now(line):
    if " = " in line:
        name, where = line.split(" = ")
        return f"from course_lessons.{USED[where.split('.')[0]]} import {name}"
    for then, now in NOW.items():
        line = line.replace(then, now)
    return line


@pytest.fixture(scope="module")
def found():
    copies = {name: (then, [_now(line) for line in then]) for name, then in COPIES.items()}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    given = json.dumps([copies, UNKNOWN])
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_copies_of_version_03_find_what_they_import(found):
    assert found["copies"] == {name: [] for name in COPIES}


def test_a_name_that_never_was_is_still_an_attribute_error(found):
    for kind, sentence in found["unknown"]:
        assert kind == "AttributeError" and "svd_cuts" in sentence


def test_the_package_alone_imports_no_lesson(found):
    """Neither itself nor with all names that lessons ask it for."""
    assert found["alone"] == found["all names"] == []


@pytest.mark.parametrize("name", sorted(check.GONE))
def test_an_exercise_that_is_gone_goes_on_with_what_was_written(name, capsys):
    def answer():
        return 1

    assert getattr(check, name)(answer) is answer
    assert capsys.readouterr().out.startswith(f"{name} is no exercise of the course any more")
    assert name not in dir(check) and name not in exercises.EXERCISES
