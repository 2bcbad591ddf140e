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

import course_lessons
from course_utils import models

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.built
PACKAGES = ("course_utils", "course_microscope", "course_lessons", "course_tools")
INSIDE = ("data", "docs", "notebooks")  # what the wheel has inside course_utils
SOURCES = (*PACKAGES, *INSIDE, "pyproject.toml", "README.md", "LICENSE")
OF_LEARNERS = (
    "03_mine.ipynb",
    "my_predictions.json",
    "my_questions.json",
    "my_cases.json",
    ".ipynb_checkpoints/03_zero_layers-checkpoint.ipynb",
)
PROLOGUE = """import sys
assert "course_utils" not in sys.modules
import course_utils
print(course_utils.__file__)
"""


def _run(command, folder):
    """What a command prints, in a folder outside the checkout and with nothing that leads back."""
    environment = {**os.environ, "MPLBACKEND": "agg", "COURSE_CLAIMS": "strict"}
    for name in ("PYTHONPATH", "PIP_CONSTRAINT"):
        environment.pop(name, None)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy in which a learner has worked, and which no git knows."""
    source = tmp_path_factory.mktemp("source")
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=leave_out)
        else:
            shutil.copy(ROOT / name, source / name)
    for name in OF_LEARNERS:
        own = source / "notebooks" / name
        own.parent.mkdir(exist_ok=True)
        own.write_text("a learner's own", encoding="utf-8")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "-w", "dist"]
    _run([sys.executable, "-m", "pip", "wheel", *options, "."], source)
    (file,) = (source / "dist").glob("*.whl")
    return file


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of a new environment: the wheel, and our libraries without the checkout."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "env", with_pip=False, symlinks=os.name != "nt")
    python = home / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = _run([python, "-c", where], home).strip()
    # named in a .pth, its own .pth files are not read: no editable install
    libraries = sysconfig.get_path("purelib")
    Path(site, "libraries.pth").write_text(libraries + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    _run([*pip, "install", "--no-deps", "--no-index", str(wheel)], home)
    return python


@pytest.fixture
def run(python, tmp_path):
    """Runs code in the new environment, in an empty folder."""

    def run(code):
        where, printed = _run([python, "-c", PROLOGUE + code], tmp_path).split("\n", 1)
        assert str(python.parent.parent) in where
        return printed

    return run


def test_the_wheel_has_every_file_of_the_packages_and_nothing_of_learners(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = set()
    for folder in (*PACKAGES, *INSIDE):
        above = "course_utils/" if folder in INSIDE else ""
        files = (file for file in (ROOT / folder).rglob("*") if file.is_file())
        expected |= {above + file.relative_to(ROOT).as_posix() for file in files}
    # hidden: tools' own
    ours = {name for name in expected if "__pycache__" not in name and "/." not in name}
    assert names == {name for name in ours if not name.endswith(OF_LEARNERS)}


def test_every_model_loads_from_any_folder(run):
    code = """
from course_utils import models
for name in models.bundled():
    print(name, models.load(name).cfg.n_layers)
"""
    assert [line.split()[0] for line in run(code).splitlines()] == models.bundled()


def test_every_lesson_is_found(run):
    code = "import course_lessons\nprint(*[one.__name__ for one in course_lessons.import_all()])"
    assert run(code).split() == [lesson.__name__ for lesson in course_lessons.import_all()]


def test_texts_counts_runs_and_claims_are_found(run):
    code = """
import course_lessons
from course_lessons.formation import experiments
from course_utils import bigrams, text
from course_utils.course import claims
course_lessons.import_all()
found = [text.held_out_documents(), bigrams.counts(), experiments.stored(), claims.expectations()]
sizes = [len(part) for part in found]
"""
    here = {}
    exec(code, here)
    assert run(code + "print(sizes)").strip() == str(here["sizes"]) and min(here["sizes"]) > 1


def test_the_first_half_of_a_lesson_runs(run):
    run("""
import json
from course_utils import _files
path = _files.SOLUTIONS / "05_solution_max_of_list.ipynb"
cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
assert len(code) > 20
for source in code[: len(code) // 2]:
    exec(source, globals())
""")


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("course_tools.export slides 03_zero_layers --out out", "03_zero_layers.slides.html"),
        ("course_tools.export handout 03_zero_layers --out out", "03_zero_layers.handout.html"),
        ("course_tools.authoring --check 03_zero_layers", "03_solution_zero_layers.ipynb ... ok"),
        ("course_tools.assignment 03_zero_layers --out out", "03_zero_layers.ipynb"),
        ("course_utils.course.progress", "\n03 "),
    ],
)
def test_a_command_finds_the_lessons(python, tmp_path, command, printed):
    assert printed in _run([python, "-m", *command.split()], tmp_path)


def test_a_damaged_file_is_got_back_by_installing_again(python, tmp_path):
    code = "from course_utils import _files; _files.verified(_files.DATA / 'none.bin')"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert "data/none.bin is missing. Install the course again" in done.stderr
    assert "git" not in done.stderr
