"""Opens the course, for `python -m course_utils`: your own copies of the lessons, in JupyterLab."""

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from course_utils.course import copies, utf8_output

FIRST = "00_start.ipynb"
# what JupyterLab looks and does like, on this server alone
LAB = Path(__file__).resolve().parent / "lab"
# from the list of files; links open them
HIDDEN = ("solutions", "my_predictions.json", "my_cases.json")


def main(arguments: list[str] | None = None) -> int:
    """The command line; ends when JupyterLab does."""
    parser = argparse.ArgumentParser(
        prog="python -m course_utils",
        description="Opens the course: your own copies of the lessons, in JupyterLab. What you "
        "write in them stays.",
        epilog="Every other option goes to JupyterLab: --no-browser, --port 9000, …",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--folder", type=Path, help=f"where your copies are (default: {copies.FOLDER})"
    )
    options, for_jupyterlab = parser.parse_known_args(arguments)
    utf8_output()
    try:
        folder = (options.folder or copies.workplace()).resolve()
    except PermissionError as error:
        parser.error(str(error))
    try:
        left = copies.renew(folder)
    except OSError as error:
        parser.error(
            f"Your notebooks can't be kept in {folder} ({error.strerror}): name another one "
            f"with --folder."
        )
    print(f"Your notebooks are in {folder}. No update changes what you write there.")
    for name in left:
        if copies.readable(folder / name):
            print(
                f"{name} is newer in the course, and yours stays: to have both, rename yours "
                f"and start again."
            )
        else:
            print(
                f"{name} can't be read as a notebook, and stays as it is: for a fresh one, "
                f"rename it and start again."
            )
    if importlib.util.find_spec("jupyterlab") is None:
        parser.error(
            f"JupyterLab is not installed in this Python: {sys.executable} -m pip install "
            f"jupyterlab"
        )
    from jupyterlab.labapp import LabApp

    print("JupyterLab opens in your browser; Ctrl-C, pressed twice here, stops it.")
    sys.stdout.flush()
    LabApp.launch_instance([*settings(folder), *for_jupyterlab])
    return 0


def settings(folder: Path) -> Iterator[str]:
    """JupyterLab's options for the course.

    They hold for this server; the user's own configuration is not touched.
    """
    from jupyter_server.services.contents.manager import ContentsManager

    # thirty lines would bury what is said above, and the address
    yield "--ServerApp.log_level=WARN"
    yield f"--ServerApp.root_dir={folder}"
    yield f"--LabApp.default_url=/lab/tree/{FIRST}"
    yield f"--LabApp.workspaces_dir={folder / '.workspaces'}"  # which tabs are open
    yield "--LabApp.custom_css=True"
    yield f"--ServerApp.tornado_settings=static_custom_path={LAB}"  # where custom.css is looked for
    # overrides.json: JupyterLab's first word is no question about its news
    yield f"--LabApp.app_settings_dir={LAB}"
    for pattern in [*(ContentsManager.hide_globs.default() or []), *HIDDEN]:
        yield f"--ContentsManager.hide_globs={pattern}"
