"""No update overwrites what a learner wrote: the README's words, with git."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml

from course_utils._files import NOTEBOOKS, ROOT, SOLUTIONS
from course_utils.course import copies

ONE, OTHER = "03_zero_layers.ipynb", "04_one_layer.ipynb"
IDENTITY = {
    f"GIT_{who}_{what}": "x@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
OWN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def _run(folder, command, check=True):
    environment = os.environ | IDENTITY | OWN
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        check=check,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def learner(tmp_path):
    """A learner's clone of a course with two lessons, after its first start, beside upstream."""
    upstream = tmp_path / "upstream"
    (upstream / "notebooks" / "solutions").mkdir(parents=True)
    for name in (ONE, OTHER):
        shutil.copy(ROOT / "notebooks" / name, upstream / "notebooks")
    shutil.copy(SOLUTIONS / "03_solution_zero_layers.ipynb", upstream / "notebooks" / "solutions")
    shutil.copy(ROOT / ".gitignore", upstream)
    _run(upstream, "git init -b main && git add . && git commit -m first")
    _run(tmp_path, "git clone upstream learner")
    assert _start(tmp_path / "learner") == []
    return tmp_path / "learner"


def _start(checkout):
    """What the start command does before JupyterLab, in a checkout with nothing but lessons."""
    return copies.renew(checkout / copies.FOLDER, checkout / "notebooks")


def _publish(learner):
    """A newer version upstream, with a new title for both lessons and a new one."""
    lessons = learner.parent / "upstream" / "notebooks"
    for name, title in ((ONE, "# 03 · Zero layers"), (OTHER, "# 04 · One layer")):
        text = (lessons / name).read_text(encoding="utf-8")
        assert text.count(title) == 1
        (lessons / name).write_text(text.replace(title, f"{title}, changed"), encoding="utf-8")
    shutil.copy(ROOT / "notebooks" / "05_max_of_list.ipynb", lessons)
    _run(lessons, "git add . && git commit -m second")


def _answer(notebook):
    text = notebook.read_text(encoding="utf-8")
    answered = text.replace("raise NotImplementedError", "return W_E @ W_U  #")
    assert answered != text
    notebook.write_text(answered, encoding="utf-8")
    return answered


def test_a_pull_and_a_start_bring_what_is_new_and_leave_what_is_written(learner):
    mine = learner / copies.FOLDER
    answered = _answer(mine / ONE)
    (mine / "my_predictions.json").write_text("{}")
    (mine / "my_ideas.ipynb").write_text("of my own")
    _publish(learner)
    _run(learner, "git pull")
    assert not _run(learner, "git status --short").stdout  # git sees nothing of all this
    assert _start(learner) == [ONE]
    assert (mine / ONE).read_text(encoding="utf-8") == answered
    assert "One layer, changed" in (mine / OTHER).read_text(encoding="utf-8")
    assert (mine / "05_max_of_list.ipynb").is_file()
    assert (mine / "my_predictions.json").read_text() == "{}" and (
        mine / "my_ideas.ipynb"
    ).read_text() == "of my own"

    (mine / ONE).rename(mine / "03_mine.ipynb")  # to have both
    assert _start(learner) == []
    assert "Zero layers, changed" in (mine / ONE).read_text(encoding="utf-8")
    assert (mine / "03_mine.ipynb").read_text(encoding="utf-8") == answered


def test_gits_own_ways_to_tidy_up_leave_the_folder_alone(learner):
    answered = _answer(learner / copies.FOLDER / ONE)
    _publish(learner)
    _run(
        learner,
        "git pull && git clean -f -d && git stash -u; git checkout -f main && git reset --hard "
        "HEAD~1",
    )
    assert _start(learner) == []
    assert (learner / copies.FOLDER / ONE).read_text(encoding="utf-8") == answered


@pytest.mark.skipif(os.name == "nt", reason="a hub runs on Linux")
def test_a_hubs_newer_image_brings_lessons_and_overwrites_no_work(tmp_path):
    values = yaml.safe_load((ROOT / ".binder" / "jupyterhub.yaml").read_text(encoding="utf-8"))
    command = values["singleuser"]["lifecycleHooks"]["postStart"]["exec"]["command"]
    folder = tmp_path / values["singleuser"]["defaultUrl"].removeprefix("/lab/tree/")
    lessons = [folder.with_name(name) for name in (ONE, OTHER)]

    def start():
        here = [sys.executable if part == "python" else part for part in command]
        subprocess.run(here, env=os.environ | {"HOME": str(tmp_path)}, check=True)
        return [lesson.read_text(encoding="utf-8") for lesson in lessons]

    assert start() == [(NOTEBOOKS / lesson.name).read_text(encoding="utf-8") for lesson in lessons]
    assert folder.is_file()
    answered = _answer(lessons[0])
    lessons[1].unlink()  # as if it were new
    assert start() == [answered, (NOTEBOOKS / lessons[1].name).read_text(encoding="utf-8")]
