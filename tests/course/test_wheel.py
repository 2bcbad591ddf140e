"""The course as `pip install git+…` leaves it: a wheel in an environment that knows no checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from course_utils import models

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
SOURCES = ("course_utils", "data", "notebooks", "pyproject.toml", "README.md", "LICENSE")
PROLOGUE = (
    "import sys\nassert 'course_utils' not in sys.modules\nimport "
    "course_utils\nprint(course_utils.__file__)\n"
)


def _run(command, folder):
    """What a command prints, in a folder outside the checkout and without the settings that would
    lead back to it.
    """
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "PIP_CONSTRAINT")
    }
    environment |= {"MPLBACKEND": "agg", "COURSE_CLAIMS": "strict"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of what it is made of."""
    source = tmp_path_factory.mktemp("source")
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(
            ROOT / name, source / name, **({"ignore": leave_out} if copy is shutil.copytree else {})
        )
    (source / "notebooks" / "03_mine.ipynb").write_text("a learner's own", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        "dist",
        ".",
    ]
    _run(command, source)
    (file,) = (source / "dist").glob("*.whl")
    return file


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of a new environment: the wheel, and all libraries of ours but for the checkout's
    package.
    """
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "env", with_pip=False, symlinks=os.name != "nt")
    python = home / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    site = _run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], home
    ).strip()
    # named in a .pth, its own .pth files are not read: no editable install
    libraries = sysconfig.get_path("purelib")
    with open(os.path.join(site, "libraries.pth"), "w", encoding="utf-8") as file:
        file.write(libraries + "\n")
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        home,
    )
    return python


@pytest.fixture
def run(python, tmp_path):
    """Runs code in the new environment, in an empty folder."""

    def run(code):
        where, printed = _run([python, "-c", PROLOGUE + code], tmp_path).split("\n", 1)
        assert str(python.parent.parent) in where
        return printed

    return run


def test_the_wheel_has_every_file_of_the_package_its_data_and_lessons(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = set()
    for folder, inside in (
        ("course_utils", ""),
        ("data", "course_utils/"),
        ("notebooks", "course_utils/"),
    ):
        files = (file for file in (ROOT / folder).rglob("*") if file.is_file())
        expected |= {inside + file.relative_to(ROOT).as_posix() for file in files}
    # hidden: tools' own
    ours = {name for name in expected if "__pycache__" not in name and "/." not in name}
    ours = {
        name
        for name in ours
        if not name.endswith(("_mine.ipynb", "my_predictions.json", "my_cases.json"))
    }
    assert names == ours


def test_every_model_loads_from_any_folder(run):
    code = (
        "from course_utils import models\nfor name in models.bundled(): print(name, "
        "models.load(name).cfg.n_layers)"
    )
    assert [line.split()[0] for line in run(code).splitlines()] == models.bundled()


def test_texts_counts_runs_and_claims_are_found(run):
    code = """
from course_utils import bigrams, claims, text
from course_lessons.l08_how_induction_forms import experiments
found = [text.held_out_documents(), bigrams.counts(), experiments.stored(), claims.expectations()]
sizes = [len(part) for part in found]
"""
    here = {}
    exec(code, here)
    assert run(code + "print(sizes)").strip() == str(here["sizes"]) and here["sizes"][0] > 1


def test_the_first_half_of_a_lesson_runs(run):
    run("""
import json
from course_utils import _files
lesson = json.loads((_files.SOLUTIONS / "05_solution_max_of_list.ipynb").read_text(encoding="utf-8"))
cells = ["".join(cell["source"]) for cell in lesson["cells"] if cell["cell_type"] == "code"]
assert len(cells) > 20
for cell in cells[: len(cells) // 2]:
    exec(cell, globals())
""")


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("author.export handout 03_zero_layers --out out", "03_zero_layers.handout.html"),
        ("author.authoring --check 03_zero_layers", "03_solution_zero_layers.ipynb ... ok"),
        ("course.progress", "\n03 "),
    ],
)
def test_a_command_finds_the_lessons(python, tmp_path, command, printed):
    module, *rest = command.split()
    assert printed in _run([python, "-m", f"course_utils.{module}", *rest], tmp_path)


def test_a_damaged_file_is_got_back_by_installing_again(python, tmp_path):
    code = "from course_utils import _files; _files.verified(_files.DATA / 'none.bin')"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert (
        "data/none.bin is missing. Install the course again" in done.stderr
        and "git" not in done.stderr
    )
