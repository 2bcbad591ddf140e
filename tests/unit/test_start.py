"""The start command, without its JupyterLab."""

import importlib.util
import os
from pathlib import Path

import pytest
from jupyterlab.labapp import LabApp
from traitlets import Enum

from course_tools import authoring
from course_utils.course import copies, start


@pytest.fixture
def launched(monkeypatch):
    """What JupyterLab was started with, in the end."""
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):  # absent, now and after the test
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)  # no root
    arguments = []
    monkeypatch.setattr(LabApp, "launch_instance", arguments.extend)
    return arguments


def test_it_copies_the_lessons_and_opens_the_first_page_there(tmp_path, launched, capsys):
    folder = tmp_path / "mine"
    assert start.main(["--folder", str(folder), "--no-browser", "--port", "9000"]) == 0
    assert {path.name for path in folder.glob("*.ipynb")} == {
        path.name for path in authoring.learner_notebooks()
    }
    assert (folder / start.FIRST).is_file()
    assert launched[-3:] == ["--no-browser", "--port", "9000"]
    assert f"--ServerApp.root_dir={folder}" in launched
    assert f"--LabApp.default_url=/lab/tree/{start.FIRST}" in launched
    assert "--ServerApp.log_level=WARN" in launched  # or its log buries what is said here
    said = ["JupyterLab opens in your browser; Ctrl-C, pressed twice here, stops it."]
    told = [f"Your notebooks are in {folder}. No update changes what you write there.", *said]
    assert capsys.readouterr().out.splitlines() == told


@pytest.mark.parametrize("is_installed", [False, True])
def test_a_kernel_finds_all_of_a_checkout(tmp_path, launched, monkeypatch, is_installed):
    monkeypatch.setattr(start, "INSTALLED", is_installed)
    start.main(["--folder", str(tmp_path)])
    first, *others = os.environ["PYTHONPATH"].split(os.pathsep)
    if is_installed:
        assert first == "somewhere" and not others
    else:
        assert (Path(first) / "course_lessons").is_dir() and others == ["somewhere"]
    assert launched


@pytest.mark.parametrize(
    "name, value, then",
    [
        ("GOMP_SPINCOUNT", None, "3000"),
        ("GOMP_SPINCOUNT", "7", "7"),
        ("OMP_WAIT_POLICY", "ACTIVE", None),
    ],
)
def test_threads_of_two_lessons_at_once_leave_each_other_the_cores(
    tmp_path, launched, monkeypatch, name, value, then
):
    if value:
        monkeypatch.setenv(name, value)
    start.main(["--folder", str(tmp_path)])
    assert os.environ.get("GOMP_SPINCOUNT") == then
    assert launched


@pytest.mark.parametrize("user, options", [(0, []), (0, ["--allow-root"]), (1000, [])])
def test_root_hears_of_allow_root_before_jupyterlab_refuses(
    tmp_path, launched, monkeypatch, capsys, user, options
):
    monkeypatch.setattr(os, "geteuid", lambda: user, raising=False)
    assert start.main(["--folder", str(tmp_path / "mine"), *options]) == 0
    assert ("--allow-root" in capsys.readouterr().out) == (user == 0 and not options)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '{"cells": []}',
            "is newer in the course; yours stays, and what it calls may be gone: to have both, "
            "rename yours and start again.",
        ),
        (
            "<<<<",
            "can't be read as a notebook, and stays as it is: for a fresh one, rename it and "
            "start again.",
        ),
    ],
)
def test_it_says_what_was_kept_and_what_to_do(
    tmp_path, launched, monkeypatch, capsys, content, sentence
):
    monkeypatch.setattr(copies, "renew", lambda folder: ["03_zero_layers.ipynb"])
    (tmp_path / "03_zero_layers.ipynb").write_text(content)
    start.main(["--folder", str(tmp_path)])
    assert (
        capsys.readouterr().out.splitlines()[1:-1] == [f"03_zero_layers.ipynb {sentence}"]
        and launched
    )


def test_odd_names_and_a_link_that_leads_away_are_told(tmp_path, launched, monkeypatch, capsys):
    folder = tmp_path / "mine"
    (folder / "03_zero_layers.ipynb").mkdir(parents=True)
    (folder / "04_one_layer.ipynb").symlink_to(tmp_path / "away" / "mine.ipynb")
    (folder / copies.RECORD).write_text('{"../05_mine.ipynb": ["a", "b"], "06": 3')
    for _ in range(2):
        start.main(["--folder", str(folder)])
        said = capsys.readouterr().out
        assert "03_zero_layers.ipynb is a link, or a folder" in said
        assert "04_one_layer.ipynb is a link" in said and said.count("stays as it is") == 2
    assert (folder / "04_one_layer.ipynb").is_symlink() and (folder / start.FIRST).is_file()
    (tmp_path / copies.FOLDER).symlink_to(tmp_path / "away")
    monkeypatch.setattr(copies, "places", lambda: [tmp_path])
    with pytest.raises(SystemExit):
        start.main([])
    assert "which is away: bring it back" in capsys.readouterr().err


def test_without_jupyterlab_it_says_how_to_get_it(tmp_path, launched, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jupyterlab" else find(name)
    )
    with pytest.raises(SystemExit):
        start.main(["--folder", str(tmp_path)])
    assert (
        "JupyterLab is not installed in this Python: " in capsys.readouterr().err and not launched
    )
    assert (tmp_path / start.FIRST).is_file()  # the copies are there


def test_a_proxy_that_jupyterlab_cannot_take_does_not_end_the_start(
    tmp_path, launched, monkeypatch, capsys
):
    proxies = {
        "ALL_PROXY": "socks://127.0.0.1:7890",
        "HTTP_PROXY": "127.0.0.1:7890",  # as curl and pip read it
        "HTTPS_PROXY": "http://[::1",
        "NO_PROXY": "fe80::/10,localhost",
        "all_proxy": "",
        "https_proxy": "http://127.0.0.1:7890",
        "no_proxy": "localhost",
    }
    for name in start.PROXIES:
        monkeypatch.delenv(name, raising=False)
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    start.main(["--folder", str(tmp_path)])
    left = {name: os.environ[name] for name in proxies if name in os.environ}
    assert left == {
        "HTTP_PROXY": "http://127.0.0.1:7890",
        "all_proxy": "",
        "https_proxy": "http://127.0.0.1:7890",
        "no_proxy": "localhost",
    }
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "_PROXY" in line]
    assert "can't start with ALL_PROXY and HTTPS_PROXY and NO_PROXY as it is" in said and launched


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path, launched, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit):
        start.main(["--folder", str(tmp_path / "file")])
    assert (
        f"can't be kept in {tmp_path / 'file'} (" in capsys.readouterr().err.splitlines()[-1]
        and not launched
    )


def test_jupyterlab_knows_every_setting(tmp_path):
    """A name that JupyterLab doesn't know would be passed over with a warning."""
    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.contents.manager import ContentsManager

    known = {"ServerApp": ServerApp, "LabApp": LabApp, "ContentsManager": ContentsManager}
    for setting in start.settings(tmp_path):
        owner, name = setting.partition("=")[0].lstrip("-").split(".")
        trait = known[owner].class_traits(config=True)[name]
        # such a fault ends the start
        assert not isinstance(trait, Enum) or setting.partition("=")[2] in trait.values
