"""No update overwrites what a learner wrote: the README's words, with git."""

import os
import shutil
import subprocess

import pytest
import yaml

from course_utils._files import ROOT

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the README's block is for a POSIX shell")
LESSON = "notebooks/03_zero_layers.ipynb"
IDENTITY = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
OWN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def _run(folder, command, check=True):
    environment = os.environ | IDENTITY | OWN
    return subprocess.run(command, shell=True, cwd=folder, env=environment, check=check, capture_output=True, text=True)


def _change(file):
    """Upstream, and the learner, each change the first cell of the lesson."""
    text = file.read_text(encoding="utf-8")
    assert text.count("# 03 · Zero layers") == 1
    return text.replace("# 03 · Zero layers", "# 03 · Zero layers, changed")


@pytest.fixture
def learner(tmp_path):
    """A clone of the course, and a newer version upstream that changes lesson 03."""
    upstream = tmp_path / "upstream"
    (upstream / "notebooks").mkdir(parents=True)
    for name in (LESSON, ".gitignore"):
        shutil.copy(ROOT / name, upstream / name)
    _run(upstream, "git init -b main && git add . && git commit -m first")
    _run(tmp_path, "git clone upstream learner")
    (upstream / LESSON).write_text(_change(upstream / LESSON), encoding="utf-8")
    _run(upstream, "git commit -am second")
    return tmp_path / "learner"


def test_a_copy_of_ones_own_survives_every_update(learner):
    mine = learner / "notebooks" / "03_mine.ipynb"
    mine.write_text("my answers")
    _run(learner, "git pull && git clean -f -d && git stash -u; git checkout -f main")
    assert mine.read_text(encoding="utf-8") == "my answers" and not _run(learner, "git status --short").stdout


def test_a_lesson_worked_in_is_not_overwritten(learner, commands):
    lesson = learner / LESSON
    answered = lesson.read_text(encoding="utf-8").replace("raise NotImplementedError", "return W_E @ W_U  #")
    lesson.write_text(answered, encoding="utf-8")
    pull = _run(learner, "git pull", check=False)
    assert pull.returncode and LESSON in pull.stderr and lesson.read_text(encoding="utf-8") == answered
    _run(learner, f"set -e\n{commands('README.md', 'keep')}")
    assert (learner / "notebooks" / "03_mine.ipynb").read_text(encoding="utf-8") == answered
    assert "Zero layers, changed" in lesson.read_text(encoding="utf-8")


def test_a_hubs_newer_image_brings_lessons_and_overwrites_no_work(tmp_path):
    values = yaml.safe_load((ROOT / ".binder" / "jupyterhub.yaml").read_text(encoding="utf-8"))
    command = values["singleuser"]["lifecycleHooks"]["postStart"]["exec"]["command"]
    image, home = tmp_path / "image", tmp_path / "home"
    (image / "notebooks").mkdir(parents=True)
    home.mkdir()

    def start():
        here = [part.replace("/srv/course", str(image)) for part in command]
        subprocess.run(here, env=os.environ | {"HOME": str(home)}, check=True)

    (image / "notebooks" / "03.ipynb").write_text("blank")
    start()
    assert (home / "notebooks" / "03.ipynb").read_text(encoding="utf-8") == "blank"
    (home / "notebooks" / "03.ipynb").write_text("my answers")
    (image / "notebooks" / "03.ipynb").write_text("a newer blank")
    (image / "notebooks" / "04.ipynb").write_text("a new lesson")
    start()
    assert (home / "notebooks" / "03.ipynb").read_text(encoding="utf-8") == "my answers"
    assert (home / "notebooks" / "04.ipynb").read_text(encoding="utf-8") == "a new lesson"
